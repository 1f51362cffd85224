//! Operating points: what a sampler with one setting scored on a task, and the forwards that took.
//!
//! They come from files of results ([`files`]), with a score for every question, or from a table of published numbers
//! ([`table`]), without. Everything after this module ([`crate::statistics`], [`crate::report`]) reads points and asks no more where they
//! came from.

pub mod files;
pub mod sampler;
pub mod table;

pub use sampler::{Parameter, PointSampler, Rule, Variant};

use serde::Serialize;
use std::path::PathBuf;

/// What one sampler did on one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatingPoint {
    /// The model's name, without its folder.
    pub model: String,
    /// The task, and what sets this run apart when there are several.
    pub task: String,
    /// The sampler; in JSON its three parts are fields of the point.
    #[serde(flatten)]
    pub sampler: PointSampler,
    /// The mean score in percent.
    pub score: f64,
    /// The standard error of the score, in points.
    pub standard_error: Option<f64>,
    /// How many questions were asked.
    pub n: Option<usize>,
    /// Forwards for a question, on average.
    pub nfe: f64,
    /// Positions that a forward fills, on average: the paper's "parallel tokens per denoising step".
    pub tokens_per_forward: f64,
    /// Tokens before the end of text for a second of decoding.
    pub useful_per_second: Option<f64>,
    /// The file, and the line of a table, that it was read from.
    pub source: String,
    /// What became of every question; empty when only the mean is known.
    #[serde(skip)]
    pub outcomes: Vec<Outcome>,
}

/// What became of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// SHA-256 of the prompt: only answers to the same question are compared.
    pub prompt: String,
    /// From 0, wrong, to 1, right.
    pub score: f64,
    /// Forwards that the answer took.
    pub nfe: usize,
}

/// Scores and gains in percent that are closer than this are equal. Rounding moves them by some 1e-13. What is not equal is further apart: an
/// interpolated gain is a multiple of 100 / (questions · all their forwards), which for 1,000 questions with 500 forwards each is 2e-7.
pub const TIE: f64 = 1e-9;

/// A sampler on a model and a task, at all its settings: a curve of score against forwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key<'a> {
    /// The model of all its points.
    pub model: &'a str,
    /// The task of all its points.
    pub task: &'a str,
    /// The sampler without its parameter.
    pub rule: &'a Rule,
    /// With or without discount.
    pub variant: Variant,
}

impl OperatingPoint {
    /// The curve it lies on.
    pub fn key(&self) -> Key<'_> {
        Key { model: &self.model, task: &self.task, rule: &self.sampler.rule, variant: self.sampler.variant }
    }
}

/// Points in the order of the paper: models, tasks, rules, parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Points(Vec<OperatingPoint>);

/// The order in which things of the paper are listed, by how their names begin; everything else follows in the order in which it came.
const MODELS: [&str; 2] = ["llada", "dream"];
const TASKS: [&str; 4] = ["GSM8K", "HumanEval", "MATH500", "MBPP"];
const RULES: [&str; 3] = ["eb", "fast", "topk"];

/// Where a name stands among those of the paper.
fn place(known: &[&str], name: &str) -> usize {
    known.iter().position(|other| name.starts_with(other)).unwrap_or(known.len())
}

/// The paper's variants come before others.
fn variant_place(variant: Variant) -> usize {
    [Variant::Base, Variant::adas()].iter().position(|known| *known == variant).unwrap_or(2)
}

impl Points {
    /// Sorts points. Refuses two that claim to be the same: nobody could say which counts.
    pub fn new(mut points: Vec<OperatingPoint>) -> Result<Points, Error> {
        let (models, tasks) = (distinct(&points, |p| &p.model), distinct(&points, |p| &p.task));
        let rules = distinct(&points, |p| &p.sampler.rule);
        let variants = distinct(&points, |p| &p.sampler.variant);
        let family = |name: &str| {
            let name = name.to_lowercase();
            MODELS.iter().position(|family| name.contains(family)).unwrap_or(MODELS.len())
        };
        let place = |p: &OperatingPoint| {
            let PointSampler { rule, variant, .. } = &p.sampler;
            (
                (family(&p.model), models.iter().position(|other| *other == p.model)),
                (place(&TASKS, &p.task), tasks.iter().position(|other| *other == p.task)),
                (place(&RULES, rule.name()), rules.iter().position(|other| other == rule)),
                (variant_place(*variant), variants.iter().position(|other| other == variant)),
            )
        };
        points.sort_by(|a, b| {
            // Numbers in their order, other texts after them.
            let number = |point: &OperatingPoint| point.sampler.param.first().unwrap_or(f64::INFINITY);
            let text = |point: &OperatingPoint| point.sampler.param.to_string();
            place(a).cmp(&place(b)).then(number(a).total_cmp(&number(b))).then_with(|| text(a).cmp(&text(b)))
        });
        let same =
            |pair: &&[OperatingPoint]| pair[0].key() == pair[1].key() && pair[0].sampler.param == pair[1].sampler.param;
        if let Some([a, b]) = points.windows(2).find(same) {
            let what = format!("{} with {} on {}", a.model, a.sampler, a.task);
            return Err(Error::Twice { what, first: a.source.clone(), second: b.source.clone() });
        }
        Ok(Points(points))
    }

    /// Every point, in order.
    pub fn all(&self) -> &[OperatingPoint] {
        &self.0
    }

    /// The points of a curve.
    pub fn curve(&self, key: Key<'_>) -> Vec<&OperatingPoint> {
        self.0.iter().filter(|point| point.key() == key).collect()
    }

    /// Every curve there is, in order.
    pub fn curves(&self) -> Vec<Key<'_>> {
        let mut keys: Vec<Key<'_>> = Vec::new();
        for point in &self.0 {
            if !keys.contains(&point.key()) {
                keys.push(point.key());
            }
        }
        keys
    }

    /// Every model, in order.
    pub fn models(&self) -> Vec<String> {
        distinct(&self.0, |point| &point.model)
    }

    /// Every task, in order.
    pub fn tasks(&self) -> Vec<String> {
        let mut tasks = distinct(&self.0, |point| &point.task);
        tasks.sort_by_key(|task| place(&TASKS, task));
        tasks
    }

    /// Every rule, in order.
    pub fn rules(&self) -> Vec<Rule> {
        let mut rules = distinct(&self.0, |point| &point.sampler.rule);
        rules.sort_by_key(|rule| place(&RULES, rule.name()));
        rules
    }

    /// The rule of some point that equals this one, for as long as the points live.
    pub(crate) fn rule(&self, rule: &Rule) -> Option<&Rule> {
        self.0.iter().map(|point| &point.sampler.rule).find(|other| *other == rule)
    }

    /// Every variant but the base: the paper's, then the others by strength.
    pub fn variants(&self) -> Vec<Variant> {
        let mut variants = distinct(&self.0, |point| &point.sampler.variant);
        variants.retain(|variant| *variant != Variant::Base);
        variants.sort_by(|a, b| a.order().total_cmp(&b.order()));
        variants
    }

    /// Rules that have some point with a discount; all others are rivals.
    pub fn discounted_rules(&self) -> Vec<Rule> {
        let is_discounted =
            |point: &OperatingPoint, rule: &Rule| point.sampler.rule == *rule && point.sampler.variant != Variant::Base;
        self.rules().into_iter().filter(|rule| self.0.iter().any(|point| is_discounted(point, rule))).collect()
    }
}

/// What is distinct, in the order in which it comes.
fn distinct<T: Clone + PartialEq>(points: &[OperatingPoint], of: impl Fn(&OperatingPoint) -> &T) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for point in points {
        if !found.contains(of(point)) {
            found.push(of(point).clone());
        }
    }
    found
}

/// Where a row of a table stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file, or a text that is called so.
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// In memory, counted from 0.
    Row(usize),
    /// Above all rows in memory: the names of the columns.
    Columns,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Line { path, line } => write!(f, "`{}`, line {line}", path.display()),
            Place::Row(row) => write!(f, "row {row} of the table (counted from 0)"),
            Place::Columns => write!(f, "the columns of the table"),
        }
    }
}

/// How points can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file that was named.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of results is damaged.
    #[error(transparent)]
    Results(#[from] crate::results::Error),
    /// A header of results does not say what a point needs.
    #[error("`{}`, line 1: {field} is {given}; {remedy}", .path.display())]
    Header {
        /// The file of results.
        path: PathBuf,
        /// The field of the header.
        field: &'static str,
        /// What stands in that field.
        given: String,
        /// What it should be, and what to do.
        remedy: String,
    },
    /// A file of results without a record.
    #[error("`{}` holds no record; continue the run that wrote it, or leave it out", .path.display())]
    Empty {
        /// The file of results.
        path: PathBuf,
    },
    /// A folder without results.
    #[error("`{}` holds no results (files *.jsonl as evaluations write them); give a folder or a file that does", .path.display())]
    Nothing {
        /// The folder that was searched.
        path: PathBuf,
    },
    /// A row of a table.
    #[error("{place}: {field} is `{given}`; {remedy}")]
    Field {
        /// Where the row stands.
        place: Place,
        /// The column of the field.
        field: String,
        /// What stands in that field.
        given: String,
        /// What is allowed, and what to do.
        remedy: String,
    },
    /// A row that is no row, or a first line that names no columns.
    #[error("{place}: {problem}")]
    Row {
        /// Where the row stands.
        place: Place,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Two points claim to be the same.
    #[error("{what} is there twice: in {first} and in {second}; leave one of them out")]
    Twice {
        /// The model, the sampler and the task of both.
        what: String,
        /// Where the first was read.
        first: String,
        /// Where the second was read.
        second: String,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const BASE: &str = "base";
    pub(crate) const ADAS: &str = "adas";

    pub(crate) fn named<T: ToString>(parts: &[T]) -> Vec<String> {
        parts.iter().map(T::to_string).collect()
    }

    /// A point of `tiny` on `sums` with 16 positions.
    pub(crate) fn point(sampler: (&str, &str, &str), score: f64, nfe: f64) -> OperatingPoint {
        let (rule, param, variant) = sampler;
        OperatingPoint {
            model: "tiny".into(),
            task: "sums".into(),
            sampler: PointSampler {
                rule: Rule::read(rule),
                param: Parameter::read(param),
                variant: Variant::read(variant).unwrap(),
            },
            score,
            standard_error: None,
            n: None,
            nfe,
            tokens_per_forward: 16.0 / nfe,
            useful_per_second: None,
            source: "a test".into(),
            outcomes: Vec::new(),
        }
    }

    #[test]
    fn points_come_in_the_order_of_the_paper() {
        let samplers = [
            ("topk", "16", ADAS),
            ("klass", "0.7,1", BASE),
            ("topk", "2", BASE),
            ("topk", "16", BASE),
            ("eb", "1", ADAS),
        ];
        let points = Points::new(samplers.map(|sampler| point(sampler, 50.0, 4.0)).into()).unwrap();
        let names: Vec<String> = points.all().iter().map(|point| point.sampler.to_string()).collect();
        assert_eq!(names, ["EB-Sampler 1 +AD", "Top-k 2", "Top-k 16", "Top-k 16 +AD", "KLASS 0.7,1"]);
        assert_eq!(named(&points.rules()), ["eb", "topk", "klass"]);
        assert_eq!(
            (points.variants(), named(&points.discounted_rules())),
            (vec![Variant::adas()], vec!["eb".into(), "topk".into()])
        );
        assert_eq!(points.curves().len(), 4);
    }

    #[test]
    fn discounts_come_by_strength_after_the_papers() {
        let variants = ["ad:10", "ad:5", "ad:40@layer=first", ADAS, BASE];
        let points = variants.map(|variant| point(("topk", "4", variant), 1.0, 1.0));
        assert_eq!(
            named(&Points::new(points.into()).unwrap().variants()),
            [ADAS, "ad:5", "ad:10", "ad:40@layer=first"]
        );
    }

    #[test]
    fn models_come_in_the_order_of_the_paper() {
        let of = |model: &str| OperatingPoint { model: model.into(), ..point(("topk", "1", BASE), 1.0, 1.0) };
        let points = Points::new(vec![of("other"), of("tiny-dream"), of("LLaDA-8B")]).unwrap();
        assert_eq!(points.models(), ["LLaDA-8B", "tiny-dream", "other"]);
    }

    #[test]
    fn the_same_point_twice_is_refused() {
        let twice = vec![point(("eb", "1", ADAS), 1.0, 1.0), point(("eb", "1", ADAS), 2.0, 1.0)];
        let error = Points::new(twice).unwrap_err().to_string();
        assert_eq!(
            error,
            "tiny with EB-Sampler 1 +AD on sums is there twice: in a test and in a test; leave one of them out"
        );
    }
}
