//! Operating points: what a sampler with one setting scored on a task, and the forwards that took.
//!
//! They come from files of results ([`crate::results`]), with a score for every example, or from a table of published numbers
//! ([`table`]), without. Everything after this module ([`crate::statistics::matched`], [`crate::statistics::paired`], [`crate::statistics::aup`], [`crate::statistics::pareto`],
//! [`crate::report`]) reads points and asks no more where they came from.

pub mod files;
pub mod table;

use serde::Serialize;
use std::path::PathBuf;

/// What one sampler did on one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Which model.
    pub model: String,
    /// Which task, and what sets this run apart when there are several.
    pub task: String,
    /// Which stopping rule or sampler, without its parameter: `eb`, `fast`, `topk`, `klass`, `eb@entropy`.
    pub rule: String,
    /// Its parameter: `10`, or `0.7,1`.
    pub param: String,
    /// [`BASE`], [`ADAS`], or a discount with other settings than the paper's: `ad:20`, `ad:40@layer=first`.
    pub variant: String,
    /// The mean score in percent.
    pub score: f64,
    /// Its standard error, in points.
    pub standard_error: Option<f64>,
    /// Examples.
    pub n: Option<usize>,
    /// Forwards for an example, on average.
    pub nfe: f64,
    /// Positions that a forward fills, on average: the paper's "parallel tokens per denoising step".
    pub tokens_per_forward: f64,
    /// Tokens before the end of text for a second of decoding.
    pub useful_per_second: Option<f64>,
    /// Where it was read.
    pub source: String,
    /// Every example; empty when only the mean is known.
    #[serde(skip)]
    pub outcomes: Vec<Outcome>,
}

/// What became of an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// SHA-256 of the prompt: only answers to the same question are compared.
    pub prompt: String,
    /// 0 to 1.
    pub score: f64,
    /// Forwards that its answer took.
    pub nfe: usize,
}

/// Scores and gains in percent that are closer than this are equal. Rounding moves them by some 1e-13. What is not equal is further apart: an
/// interpolated gain is a multiple of 100 / (questions · all their forwards), which for 1,000 questions with 500 forwards each is 2e-7.
pub const TIE: f64 = 1e-9;

/// The variant without a discount.
pub const BASE: &str = "base";
/// The variant with the paper's discount, `+ad`.
pub const ADAS: &str = "adas";

/// A sampler on a model and a task, at all its settings: a curve of score against forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// Which model.
    pub model: &'a str,
    /// Which task.
    pub task: &'a str,
    /// Which rule.
    pub rule: &'a str,
    /// With or without discount.
    pub variant: &'a str,
}

impl Point {
    /// The curve it lies on.
    pub fn key(&self) -> Key<'_> {
        Key { model: &self.model, task: &self.task, rule: &self.rule, variant: &self.variant }
    }

    /// Its sampler in words: `EB-Sampler 10`, `Top-k 8 +AD`.
    pub fn sampler(&self) -> String {
        format!("{} {}{}", rule_name(&self.rule), self.param, variant_suffix(&self.variant))
    }

    /// Where it lies by parameter: numbers in their order.
    fn order(&self) -> (f64, &str) {
        let first = self.param.split(',').next().and_then(|number| number.parse().ok());
        (first.unwrap_or(f64::INFINITY), &self.param)
    }
}

/// Points in the order of the paper: models, tasks, rules, parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Points(Vec<Point>);

/// The order in which things of the paper are listed; everything else follows in the order in which it came.
const MODELS: [&str; 2] = ["llada", "dream"];
const TASKS: [&str; 4] = ["GSM8K", "HumanEval", "MATH500", "MBPP"];
const RULES: [&str; 3] = ["eb", "fast", "topk"];
const VARIANTS: [&str; 2] = [BASE, ADAS];

impl Points {
    /// Sorts points. Refuses two that claim to be the same: nobody could say which counts.
    pub fn new(mut points: Vec<Point>) -> Result<Points, Error> {
        let (models, tasks) = (distinct(&points, |p| &p.model), distinct(&points, |p| &p.task));
        let (rules, variants) = (distinct(&points, |p| &p.rule), distinct(&points, |p| &p.variant));
        let model = |name: &String| {
            let family = MODELS.iter().position(|family| name.to_lowercase().contains(family));
            (family.unwrap_or(MODELS.len()), models.iter().position(|other| other == name))
        };
        let in_order = |known: &[&str], found: &[String], name: &String| {
            let place = known.iter().position(|other| name.starts_with(other)).unwrap_or(known.len());
            (place, found.iter().position(|other| other == name))
        };
        let place = |p: &Point| {
            let task = in_order(&TASKS, &tasks, &p.task);
            (model(&p.model), task, in_order(&RULES, &rules, &p.rule), in_order(&VARIANTS, &variants, &p.variant))
        };
        points.sort_by(|a, b| {
            let ((x, a_param), (y, b_param)) = (a.order(), b.order());
            place(a).cmp(&place(b)).then(x.total_cmp(&y)).then(a_param.cmp(b_param))
        });
        let same = |pair: &&[Point]| pair[0].key() == pair[1].key() && pair[0].param == pair[1].param;
        if let Some([a, b]) = points.windows(2).find(same) {
            let what = format!("{} with {} on {}", a.model, a.sampler(), a.task);
            return Err(Error::Twice { what, first: a.source.clone(), second: b.source.clone() });
        }
        Ok(Points(points))
    }

    /// All of them.
    pub fn all(&self) -> &[Point] {
        &self.0
    }

    /// Those of a curve.
    pub fn curve(&self, key: Key<'_>) -> Vec<&Point> {
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
        self.ordered(&TASKS, |point| &point.task)
    }

    /// Every rule, in order.
    pub fn rules(&self) -> Vec<String> {
        self.ordered(&RULES, |point| &point.rule)
    }

    /// Every variant but the base: the paper's, then the others by strength.
    pub fn variants(&self) -> Vec<String> {
        let mut variants = self.ordered(&VARIANTS, |point| &point.variant);
        variants.retain(|variant| variant != BASE);
        variants.sort_by(|a, b| strength(a).total_cmp(&strength(b)));
        variants
    }

    /// Rules that have some point with a discount; all others are rivals.
    pub fn discounted_rules(&self) -> Vec<String> {
        let discounted = |rule: &String| self.0.iter().any(|point| point.rule == *rule && point.variant != BASE);
        self.rules().into_iter().filter(discounted).collect()
    }

    fn ordered(&self, known: &[&str], of: impl Fn(&Point) -> &String) -> Vec<String> {
        let mut names = distinct(&self.0, of);
        names.sort_by_key(|name| known.iter().position(|other| name.starts_with(other)).unwrap_or(known.len()));
        names
    }
}

/// Distinct names in the order in which they come.
fn distinct(points: &[Point], of: impl Fn(&Point) -> &String) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for point in points {
        if !names.contains(of(point)) {
            names.push(of(point).clone());
        }
    }
    names
}

/// Where a discount stands among others.
fn strength(variant: &str) -> f64 {
    let alpha = variant.strip_prefix("ad:").and_then(|rest| rest.split('@').next()?.parse().ok());
    if variant == ADAS { -1.0 } else { alpha.unwrap_or(f64::INFINITY) }
}

/// How the paper calls a rule.
pub fn rule_name(rule: &str) -> String {
    let (name, options) = rule.split_once('@').map_or((rule, None), |(name, options)| (name, Some(options)));
    let name = match name {
        "eb" => "EB-Sampler",
        "fast" => "Fast-dLLM",
        "topk" => "Top-k",
        "klass" | "dapd" | "dawn" | "punt" | "dus" | "p2" => &name.to_uppercase(),
        other => other,
    };
    options.map_or(name.into(), |options| format!("{name} @{options}"))
}

/// What a variant adds to the name of its rule.
pub fn variant_suffix(variant: &str) -> String {
    match variant {
        BASE => String::new(),
        ADAS => " +AD".into(),
        other => format!(" +{other}"),
    }
}

/// How points can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of results is damaged.
    #[error(transparent)]
    Results(#[from] crate::results::Error),
    /// A header of results does not say what a point needs.
    #[error("`{}`, line 1: {field} is {given}; {remedy}", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What is there.
        given: String,
        /// What to do.
        remedy: String,
    },
    /// A file of results without an example.
    #[error("`{}` holds no record; continue it with `cofill eval --resume`, or leave it out", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A folder without results.
    #[error("`{}` holds no results (*.jsonl that `cofill eval --out` wrote); give a folder or a file that does", .path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// A row of a table.
    #[error("`{}`, line {line}: {field} is `{given}`; {remedy}", .path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The column.
        field: String,
        /// What is there.
        given: String,
        /// What is allowed, and what to do.
        remedy: String,
    },
    /// A row that is no row, or a first line that names no columns.
    #[error("`{}`, line {line}: {problem}", .path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Two points claim to be the same.
    #[error("{what} is there twice: in {first} and in {second}; leave one of them out")]
    Twice {
        /// Model, sampler, task.
        what: String,
        /// Where.
        first: String,
        /// And where.
        second: String,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A point of `tiny` on `sums` with 16 positions.
    pub(crate) fn point(sampler: (&str, &str, &str), score: f64, nfe: f64) -> Point {
        let (rule, param, variant) = sampler;
        Point {
            model: "tiny".into(),
            task: "sums".into(),
            rule: rule.into(),
            param: param.into(),
            variant: variant.into(),
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
        let names: Vec<String> = points.all().iter().map(Point::sampler).collect();
        assert_eq!(names, ["EB-Sampler 1 +AD", "Top-k 2", "Top-k 16", "Top-k 16 +AD", "KLASS 0.7,1"]);
        assert_eq!(
            (points.rules(), points.variants()),
            (vec!["eb".into(), "topk".into(), "klass".into()], vec![ADAS.to_string()])
        );
        assert_eq!(points.discounted_rules(), ["eb", "topk"]);
        assert_eq!(points.curves().len(), 4);
    }

    #[test]
    fn discounts_come_by_strength_after_the_papers() {
        let variants = ["ad:10", "ad:5", "ad:40@layer=first", ADAS, BASE];
        let points = variants.map(|variant| point(("topk", "4", variant), 1.0, 1.0));
        assert_eq!(Points::new(points.into()).unwrap().variants(), [ADAS, "ad:5", "ad:10", "ad:40@layer=first"]);
    }

    #[test]
    fn models_come_in_the_order_of_the_paper() {
        let of = |model: &str| Point { model: model.into(), ..point(("topk", "1", BASE), 1.0, 1.0) };
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
