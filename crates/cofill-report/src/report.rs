//! A report: operating points compared, summed up, and printed in every form that a paper or a page needs.
//!
//! [`Report::new`] computes, with [`ablation`]; everything else below prints and computes nothing: `summary` says it in words, [`tables`] which
//! tables there are (`versus_tables` those of [`Report::against`]), [`latex`] has the paper's layout, [`figures`] its figures and how they are
//! read, [`looks`] how samplers look in them, `places` where they stand, [`provenance`] where all of it comes from. The JSON form is the report itself.

pub mod ablation;
pub mod figures;
pub mod latex;
pub mod looks;
mod places;
pub mod provenance;
mod summary;
pub mod tables;
mod versus_tables;

use crate::document::{Document, UnknownPanel, html, markdown};
use crate::plot::{self, Width};
use crate::points::table::comma_separated;
use crate::points::{Key, OperatingPoint, Points, Rule, Variant, table};
use crate::statistics::aup::aup;
use crate::statistics::bootstrap::Bootstrap;
use crate::statistics::budget::{BestWithin, Family, best_within, budgets};
use crate::statistics::matched::{Gain, LOW_NFE, Matched, Summary, matched};
use crate::statistics::paired::{Paired, paired};
use crate::statistics::pareto::front;
use crate::statistics::versus::{Pairing, Versus, versus};
use ablation::{Ablation, ablations};
use provenance::Provenance;
use serde::Serialize;

/// The form of the JSON; another number is another form.
pub const VERSION: u64 = 2;

/// Points and all that follows from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The form of this JSON: [`VERSION`].
    pub cofill_report: u64,
    /// How intervals were drawn.
    pub bootstrap: Bootstrap,
    /// All operating points that were read.
    pub points: Points,
    /// Every discount against the base; the paper's first.
    pub comparisons: Vec<Comparison>,
    /// One setting of the discount varied: its strength, its layer, its weight.
    pub ablations: Vec<Ablation>,
    /// Every curve's accuracy under parallelism.
    pub aup: Vec<Area>,
    /// What nobody beats, by model and task.
    pub pareto: Vec<Front>,
    /// One variant against another, question by question; only where somebody asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Versus>,
    /// Who is best within a budget of forwards; only with [`Report::against`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Family>,
    /// Which sampler is best within so many forwards, on every model and task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub best_within: Vec<BestWithin>,
    /// What a reader must know about the points.
    pub warnings: Vec<String>,
    /// Where the points came from; only where somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// A discount against the base, at matched NFE.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The discount that is compared with the base.
    pub variant: Variant,
    /// Gains, and points that could not be compared.
    #[serde(flatten)]
    pub matched: Matched,
    /// The summary of all gains.
    pub all: Summary,
    /// Gains summed up by rule.
    pub by_rule: Vec<Summary>,
    /// Gains summed up by task.
    pub by_task: Vec<Summary>,
    /// Gains summed up by model.
    pub by_model: Vec<Summary>,
    /// Gains by all three.
    pub cells: Vec<Cell>,
    /// Question by question, where answers are known.
    pub paired: Vec<Paired>,
}

/// The gains of a rule on a task with a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// The model that all of it is about.
    pub model: String,
    /// The task that all of it is about.
    pub task: String,
    /// The sampler without parameter and discount.
    pub rule: Rule,
    /// How many operating points were compared.
    pub points: usize,
    /// The mean gain of these points.
    pub gain: f64,
}

/// A curve's accuracy under parallelism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Area {
    /// The model that all of it is about.
    pub model: String,
    /// The task that all of it is about.
    pub task: String,
    /// The sampler without parameter and discount.
    pub rule: Rule,
    /// With or without discount.
    pub variant: Variant,
    /// The area under accuracy by tokens per forward.
    pub aup: f64,
}

/// The points of a model on a task that no other beats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Front {
    /// The model that all of it is about.
    pub model: String,
    /// The task that all of it is about.
    pub task: String,
    /// From few forwards to many.
    pub points: Vec<OnFront>,
}

/// A point on a front.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnFront {
    /// Its sampler, as tables call it.
    pub sampler: String,
    /// Forwards for a question, on average.
    pub nfe: f64,
    /// The mean score in percent.
    pub score: f64,
}

/// How the files of figures are made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FigureOptions {
    /// For a screen or for a paper. The page of the report is for screens, whatever this says.
    pub width: Width,
    /// Only the panels of this name ([`Document::keep_panel`]).
    pub panel: Option<String>,
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its name, with a folder.
    pub name: String,
    /// Everything that is written to it.
    pub bytes: Vec<u8>,
}

impl Report {
    /// Compares all points with each other.
    pub fn new(points: Points, bootstrap: Bootstrap) -> Report {
        let variants = points.variants();
        let comparisons = variants.iter().map(|variant| Comparison::new(&points, *variant, bootstrap));
        Report {
            cofill_report: VERSION,
            bootstrap,
            comparisons: comparisons.filter(|comparison| !comparison.is_empty()).collect(),
            ablations: ablations(&points),
            aup: areas(&points),
            pareto: fronts(&points),
            versus: Vec::new(),
            budgets: Vec::new(),
            best_within: best_within(&points, bootstrap),
            warnings: warnings(&points),
            provenance: None,
            points,
        }
    }

    /// With where the points came from, which stands at the end of every form.
    pub fn from_where(self, provenance: Provenance) -> Report {
        Report { provenance: Some(provenance), ..self }
    }

    /// With these pairings compared over questions, and every family at its best within a budget.
    pub fn against(mut self, pairings: &[Pairing]) -> Report {
        let bootstrap = self.bootstrap;
        self.versus = pairings.iter().filter_map(|pairing| versus(&self.points, pairing, bootstrap)).collect();
        self.budgets = if pairings.is_empty() { Vec::new() } else { budgets(&self.points) };
        self
    }

    /// Without discount, and with the one that figures and detailed tables show: the paper's, or else the first there is.
    fn shown(&self) -> Vec<Variant> {
        std::iter::once(Variant::Base).chain(self.points.variants().into_iter().next()).collect()
    }

    /// Whose curves figures draw: the same, and whoever was looked at first with [`Report::against`].
    fn drawn(&self) -> Vec<Variant> {
        let mut drawn = self.shown();
        let contender = self.versus.first().and_then(|versus| versus.pairing.contender.first());
        drawn.extend(contender.filter(|contender| !drawn.contains(contender)).copied());
        drawn
    }

    /// The report in words, tables and figures.
    pub fn document(&self) -> Document {
        let figures = figures::figures(self);
        let mut latex = latex::tables(self);
        latex.preamble.extend(self.provenance.as_ref().map(|provenance| format!("% {}", provenance.line())));
        Document { blocks: tables::blocks(self, &figures), latex, figures }
    }

    /// The report as Markdown, without figures: what `cofill report` prints.
    pub fn markdown(&self) -> String {
        markdown::markdown(&self.document().blocks)
    }

    /// The report as one page that needs nothing else, figures included.
    pub fn html(&self) -> Result<String, Error> {
        let document = self.document();
        Ok(html::page(&document.blocks, &document.draw()?))
    }

    /// The page as a part of another one, such as a cell of a notebook.
    pub fn fragment(&self) -> Result<String, Error> {
        const HEIGHT: usize = 640; // the first tables are in sight, and the rest scrolls
        Ok(html::frame("Report", HEIGHT, &self.html()?))
    }

    /// The report as JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Every form of it as a file: tables, numbers, figures, a page that needs nothing else.
    pub fn files(&self) -> Result<Vec<File>, Error> {
        self.files_with(&FigureOptions::default())
    }

    /// The same, with figures as they are wanted.
    pub fn files_with(&self, figures: &FigureOptions) -> Result<Vec<File>, Error> {
        let mut files = Vec::new();
        let mut add = |name: String, bytes: Vec<u8>| files.push(File { name, bytes });
        let mut document = self.document();
        if let Some(panel) = &figures.panel {
            document.keep_panel(panel)?;
        }
        for figure in document.draw_at(figures.width)? {
            for (ending, bytes) in figure.files() {
                add(format!("figures/{}.{ending}", figure.name), bytes.to_vec());
            }
        }
        let drawn = document.draw()?;
        let names: Vec<&str> = drawn.iter().map(|figure| figure.name.as_str()).collect();
        add("report.md".into(), markdown::with_figures(&document.blocks, &names).into());
        add("report.html".into(), html::page(&document.blocks, &drawn).into());
        add("report.tex".into(), document.latex.to_string().into());
        add("report.json".into(), (self.json()? + "\n").into());
        add("points.csv".into(), table::write(&self.points)?.into());
        add("gains.csv".into(), self.gains_csv()?.into());
        Ok(files)
    }

    fn gains_csv(&self) -> Result<String, csv::Error> {
        let columns =
            ["model", "task", "rule", "param", "variant", "nfe", "tokens_per_forward", "base", "discounted", "gain"];
        let row = |gain: &Gain| {
            let Gain { model, task, rule, param, variant, nfe, tokens_per_forward, base, discounted, gain } = gain;
            let words = [model.clone(), task.clone(), rule.to_string(), param.to_string(), variant.to_string()];
            let numbers = [nfe, tokens_per_forward, base, discounted, gain].map(f64::to_string);
            words.into_iter().chain(numbers).collect()
        };
        let gains = self.comparisons.iter().flat_map(|comparison| &comparison.matched.gains);
        comma_separated(&columns, gains.map(row))
    }
}

/// What keeps a report from being written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A figure cannot be drawn.
    #[error(transparent)]
    Plot(#[from] plot::Error),
    /// No panel has the name that was asked for.
    #[error(transparent)]
    Panel(#[from] UnknownPanel),
    /// A number that JSON cannot hold.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A table of comma-separated values cannot be written.
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

impl Comparison {
    fn new(points: &Points, variant: Variant, bootstrap: Bootstrap) -> Comparison {
        let matched = matched(points, variant);
        let of = |name: &str, belongs: &dyn Fn(&Gain) -> bool| {
            let gains: Vec<f64> = matched.gains.iter().filter(|gain| belongs(gain)).map(|gain| gain.gain).collect();
            Summary::of(name, &gains, bootstrap)
        };
        let some = |summaries: Vec<Summary>| summaries.into_iter().filter(|summary| summary.points > 0).collect();
        let by_rule = points.rules().iter().map(|rule| of(&rule.title(), &|gain| gain.rule == *rule)).collect();
        let by_task = points.tasks().iter().map(|task| of(task, &|gain| gain.task == *task)).collect();
        let by_model = points.models().iter().map(|model| of(model, &|gain| gain.model == *model)).collect();
        Comparison {
            variant,
            all: of("All", &|_| true),
            by_rule: some(by_rule),
            by_task: some(by_task),
            by_model: some(by_model),
            cells: cells(&matched.gains),
            paired: paired(points, variant, bootstrap),
            matched,
        }
    }

    fn is_empty(&self) -> bool {
        self.matched.gains.is_empty() && self.matched.dropped.is_empty() && self.paired.is_empty()
    }

    /// The mean gain in a cell.
    pub fn cell(&self, model: &str, task: &str, rule: &Rule) -> Option<f64> {
        let here = |cell: &&Cell| (cell.model.as_str(), cell.task.as_str(), &cell.rule) == (model, task, rule);
        self.cells.iter().find(here).map(|cell| cell.gain)
    }

    /// The mean over cells, not over points: the paper's "Avg. over methods" and "Avg. over datasets".
    pub fn mean_of_cells(&self, belongs: impl Fn(&Cell) -> bool) -> Option<f64> {
        let gains: Vec<f64> = self.cells.iter().filter(|cell| belongs(cell)).map(|cell| cell.gain).collect();
        (!gains.is_empty()).then(|| gains.iter().sum::<f64>() / gains.len() as f64)
    }
}

fn cells(gains: &[Gain]) -> Vec<Cell> {
    let same = |a: &Gain, b: &Gain| (&a.model, &a.task, &a.rule) == (&b.model, &b.task, &b.rule);
    let cell = |gains: &[Gain]| Cell {
        model: gains[0].model.clone(),
        task: gains[0].task.clone(),
        rule: gains[0].rule.clone(),
        points: gains.len(),
        gain: gains.iter().map(|gain| gain.gain).sum::<f64>() / gains.len() as f64,
    };
    // Points are sorted by model, task and rule, so those of a cell are neighbours.
    gains.chunk_by(same).map(cell).collect()
}

fn areas(points: &Points) -> Vec<Area> {
    let best = |task: &str| points.all().iter().filter(|p| p.task == task).map(|p| p.score).fold(0.0, f64::max);
    let area = |key: Key<'_>| {
        let curve: Vec<(f64, f64)> = points.curve(key).iter().map(|p| (p.tokens_per_forward, p.score)).collect();
        let aup = aup(&curve, best(key.task))?;
        let (model, task) = (key.model.to_owned(), key.task.to_owned());
        Some(Area { model, task, rule: key.rule.clone(), variant: key.variant, aup })
    };
    points.curves().into_iter().filter_map(area).collect()
}

fn fronts(points: &Points) -> Vec<Front> {
    let mut fronts = Vec::new();
    for model in points.models() {
        for task in points.tasks() {
            let on = front(points, &model, &task);
            let on = on.iter().map(|p| OnFront { sampler: p.sampler.to_string(), nfe: p.nfe, score: p.score });
            let front = Front { points: on.collect(), model: model.clone(), task };
            fronts.extend(Some(front).filter(|front| !front.points.is_empty()));
        }
    }
    fronts
}

/// Gains for which base and discount were not asked equally many questions. A sweep may ask so; an interrupted run looks the same.
fn warnings(points: &Points) -> Vec<String> {
    let mut warnings = Vec::new();
    for model in points.models() {
        for task in points.tasks() {
            let here = |point: &&OperatingPoint| point.model == model && point.task == task;
            let mut uneven = Vec::new();
            for base in points.all().iter().filter(here).filter(|point| point.sampler.variant == Variant::Base) {
                for variant in points.variants() {
                    let curve = points.curve(Key { variant, ..base.key() });
                    let other = |point: &&OperatingPoint| point.n.is_some_and(|n| base.n.is_some_and(|base| base != n));
                    let other = neighbours(base, &curve).into_iter().filter(other);
                    uneven.extend(other.map(|point| format!("{} with {}", asked(base), asked(point))));
                }
            }
            if !uneven.is_empty() {
                let list = uneven.join(", ");
                warnings.push(format!("{model} on {task}: gains compare different numbers of questions: {list}"));
            }
        }
    }
    warnings
}

/// The points of a curve between which the score at the NFE of `base` is interpolated for its matched gain; none if it has no such gain.
fn neighbours<'a>(base: &OperatingPoint, curve: &[&'a OperatingPoint]) -> Vec<&'a OperatingPoint> {
    let below = curve.iter().map(|point| point.nfe).filter(|nfe| *nfe <= base.nfe).max_by(f64::total_cmp);
    let above = curve.iter().map(|point| point.nfe).filter(|nfe| *nfe >= base.nfe).min_by(f64::total_cmp);
    match (below, above) {
        (Some(below), Some(above)) if base.tokens_per_forward >= LOW_NFE => {
            // At a knot, below and above are the same.
            curve.iter().copied().filter(|point| point.nfe == below || point.nfe == above).collect()
        }
        _ => Vec::new(),
    }
}

fn asked(point: &OperatingPoint) -> String {
    format!("{} ({})", point.sampler, point.n.unwrap_or(0))
}

#[cfg(test)]
mod tests;
