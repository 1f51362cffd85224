//! A report: operating points compared, summed up, and printed in every form that a paper or a page needs.
//!
//! [`Report::new`] computes, with [`ablation`]; everything else below prints and computes nothing: [`tables`] says which tables there
//! are, [`latex`] has the paper's layout, [`figures`] its figures. The JSON form is the report itself.

pub mod ablation;
pub mod figures;
pub mod latex;
pub mod tables;

use crate::document::{html, markdown};
use crate::plot;
use crate::points::table::quoted;
use crate::points::{BASE, Key, Point, Points, rule_name, table};
use crate::statistics::aup::aup;
use crate::statistics::bootstrap::Bootstrap;
use crate::statistics::matched::{Gain, LOW_NFE, Matched, Summary, matched};
use crate::statistics::paired::{Paired, paired};
use crate::statistics::pareto::front;
use ablation::{Ablation, ablations};
use serde::Serialize;

/// The form of the JSON; another number is another form.
pub const VERSION: u64 = 2;

/// Points and all that follows from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub cofill_report: u64,
    /// How intervals were drawn.
    pub bootstrap: Bootstrap,
    /// What was measured.
    pub points: Points,
    /// Every discount against the base; the paper's first.
    pub comparisons: Vec<Comparison>,
    /// One setting of the discount varied: its strength, its layer, its weight.
    pub ablations: Vec<Ablation>,
    /// Every curve's accuracy under parallelism.
    pub aup: Vec<Area>,
    /// What nobody beats, by model and task.
    pub pareto: Vec<Front>,
    /// What a reader must know about the points.
    pub warnings: Vec<String>,
}

/// A discount against the base, at matched NFE.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Which discount.
    pub variant: String,
    /// Gains, and points that could not be compared.
    #[serde(flatten)]
    pub matched: Matched,
    /// All gains.
    pub all: Summary,
    /// Gains by rule.
    pub by_rule: Vec<Summary>,
    /// Gains by task.
    pub by_task: Vec<Summary>,
    /// Gains by model.
    pub by_model: Vec<Summary>,
    /// Gains by all three.
    pub cells: Vec<Cell>,
    /// Question by question, where answers are known.
    pub paired: Vec<Paired>,
}

/// The gains of a rule on a task with a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Which model.
    pub model: String,
    /// Which task.
    pub task: String,
    /// Which rule.
    pub rule: String,
    /// Operating points.
    pub points: usize,
    /// Their mean gain.
    pub gain: f64,
}

/// A curve's accuracy under parallelism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Area {
    /// Which model.
    pub model: String,
    /// Which task.
    pub task: String,
    /// Which rule.
    pub rule: String,
    /// With or without discount.
    pub variant: String,
    /// The area.
    pub aup: f64,
}

/// The points of a model on a task that no other beats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Front {
    /// Which model.
    pub model: String,
    /// Which task.
    pub task: String,
    /// From few forwards to many.
    pub points: Vec<OnFront>,
}

/// A point on a front.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnFront {
    /// Its sampler.
    pub sampler: String,
    /// Its forwards.
    pub nfe: f64,
    /// Its score.
    pub score: f64,
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its name, with a folder.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl Report {
    /// Compares points.
    pub fn new(points: Points, bootstrap: Bootstrap) -> Report {
        let variants = points.variants();
        let comparisons = variants.iter().map(|variant| Comparison::new(&points, variant, bootstrap));
        Report {
            cofill_report: VERSION,
            bootstrap,
            comparisons: comparisons.filter(|comparison| !comparison.is_empty()).collect(),
            ablations: ablations(&points),
            aup: areas(&points),
            pareto: fronts(&points),
            warnings: warnings(&points),
            points,
        }
    }

    /// Without discount, and with the one that figures and detailed tables show: the paper's, or else the first there is.
    fn shown(&self) -> Vec<String> {
        std::iter::once(BASE.to_owned()).chain(self.points.variants().into_iter().next()).collect()
    }

    /// The report as JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Every form of it as a file: tables, numbers, figures, a page that needs nothing else.
    pub fn files(&self) -> Result<Vec<File>, Error> {
        let mut files = Vec::new();
        let mut add = |name: String, bytes: Vec<u8>| files.push(File { name, bytes });
        let mut drawings = Vec::new();
        for figures::Named { name, figure } in figures::figures(self) {
            let drawn = figure.draw()?;
            add(format!("figures/{name}.svg"), drawn.svg.clone().into());
            add(format!("figures/{name}.png"), drawn.png);
            drawings.push((name, drawn.svg));
        }
        let document = tables::document(self);
        let names: Vec<&str> = drawings.iter().map(|(name, _)| name.as_str()).collect();
        add("report.md".into(), markdown::with_figures(&document, &names).into());
        add("report.html".into(), html::page(&document, &drawings).into());
        add("report.tex".into(), latex::latex(self).into());
        add("report.json".into(), (self.json()? + "\n").into());
        add("points.csv".into(), table::write(&self.points).into());
        add("gains.csv".into(), self.gains_csv().into());
        Ok(files)
    }

    fn gains_csv(&self) -> String {
        let mut text = "model,task,rule,param,variant,nfe,tokens_per_forward,base,discounted,gain\n".to_owned();
        for gain in self.comparisons.iter().flat_map(|comparison| &comparison.matched.gains) {
            let Gain { model, task, rule, param, variant, nfe, tokens_per_forward, base, discounted, gain } = gain;
            let words = [model, task, rule, param, variant].map(|word| quoted(word)).join(",");
            text += &format!("{words},{nfe},{tokens_per_forward},{base},{discounted},{gain}\n");
        }
        text
    }
}

/// What keeps a report from being written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A figure.
    #[error(transparent)]
    Plot(#[from] plot::Error),
    /// A number that JSON cannot hold.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Comparison {
    fn new(points: &Points, variant: &str, bootstrap: Bootstrap) -> Comparison {
        let matched = matched(points, variant);
        let of = |name: &str, belongs: &dyn Fn(&Gain) -> bool| {
            let gains: Vec<f64> = matched.gains.iter().filter(|gain| belongs(gain)).map(|gain| gain.gain).collect();
            Summary::of(name, &gains, bootstrap)
        };
        let some = |summaries: Vec<Summary>| summaries.into_iter().filter(|summary| summary.points > 0).collect();
        let by_rule = points.rules().iter().map(|rule| of(&rule_name(rule), &|gain| gain.rule == *rule)).collect();
        let by_task = points.tasks().iter().map(|task| of(task, &|gain| gain.task == *task)).collect();
        let by_model = points.models().iter().map(|model| of(model, &|gain| gain.model == *model)).collect();
        Comparison {
            variant: variant.into(),
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
    pub fn cell(&self, model: &str, task: &str, rule: &str) -> Option<f64> {
        let here = |cell: &&Cell| (cell.model.as_str(), cell.task.as_str(), cell.rule.as_str()) == (model, task, rule);
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
        let [model, task, rule, variant] = [key.model, key.task, key.rule, key.variant].map(str::to_owned);
        Some(Area { aup: aup(&curve, best(&task))?, model, task, rule, variant })
    };
    points.curves().into_iter().filter_map(area).collect()
}

fn fronts(points: &Points) -> Vec<Front> {
    let mut fronts = Vec::new();
    for model in points.models() {
        for task in points.tasks() {
            let on = front(points, &model, &task);
            let on = on.iter().map(|p| OnFront { sampler: p.sampler(), nfe: p.nfe, score: p.score });
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
            let here = |point: &&Point| point.model == model && point.task == task && point.variant == BASE;
            let mut uneven = Vec::new();
            for base in points.all().iter().filter(here) {
                for variant in points.variants() {
                    let curve = points.curve(Key { variant: &variant, ..base.key() });
                    let other = |point: &&Point| point.n.is_some_and(|n| base.n.is_some_and(|base| base != n));
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
fn neighbours<'a>(base: &Point, curve: &[&'a Point]) -> Vec<&'a Point> {
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

fn asked(point: &Point) -> String {
    format!("{} ({})", point.sampler(), point.n.unwrap_or(0))
}

#[cfg(test)]
mod tests;
