//! One variant against another at matched NFE, with a bootstrap over *questions*.
//!
//! Variants of a rule differ in score and in forwards, so curves are compared, within one model, one task and one rule (a *cell*):
//!
//! - at **own points**: every point of the contender against the reference's curve at its NFE. A contender that stops sooner has no point as
//!   fast as the reference's fastest; here only its own points count, so nothing at the low end is lost. Points of the same NFE and score
//!   count once. Cells weigh the same.
//! - at **base points**: every point of the reference against the contender's curve at its NFE, which is the paper's definition without its
//!   filter ([`crate::statistics::matched`]). Points weigh the same.
//!
//! In both, points outside the other's range are left out, and counted. The interval answers "other questions of the same kind": questions of a
//! task are drawn with replacement, the same draw for every model, rule and variant, and every score and NFE is computed anew.

use crate::points::{OperatingPoint, Points, Rule, TIE, Variant};
use crate::statistics::bootstrap::{Bootstrap, Estimate, LEVEL, Replicates};
use crate::statistics::matched::Curve;
use crate::statistics::paired::holm;
use serde::Serialize;
use std::str::FromStr;

/// Who is compared with whom. A side may have several variants, where models have different ones (`+paths:auto`): in a cell, the first
/// of them that has points there counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairing {
    /// Who is looked at.
    pub contender: Vec<Variant>,
    /// Whom it is compared with.
    pub reference: Vec<Variant>,
}

/// `paths:100/adas`; several variants of a side with commas.
impl FromStr for Pairing {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairing, String> {
        let form = "expected A/B, such as paths:100/adas or adas/base";
        let side = |side: &str| -> Result<Vec<Variant>, String> {
            let variant =
                |name: &str| Variant::read(name).ok_or_else(|| format!("`{name}` is no variant of a sampler; {form}"));
            side.split(',').map(variant).collect()
        };
        let (contender, reference) = text.split_once('/').ok_or(form)?;
        Ok(Pairing { contender: side(contender)?, reference: side(reference)? })
    }
}

/// What a contender gains over a reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Versus {
    /// Who is compared with whom.
    #[serde(flatten)]
    pub pairing: Pairing,
    /// All cells, then groups of them.
    pub groups: Vec<Group>,
    /// Every cell by itself, at own points.
    pub cells: Vec<CellGain>,
}

/// Gains of some cells, in points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Which cells these are.
    pub name: String,
    /// Cells with a point that could be compared.
    pub cells: usize,
    /// The mean of the cells' gains at own points.
    pub own: Option<Estimate>,
    /// Own points that were compared, and those out of range.
    pub own_points: (usize, usize),
    /// The mean gain at base points.
    pub base: Option<Estimate>,
    /// Base points that were compared, and those out of range.
    pub base_points: (usize, usize),
}

/// The gain of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellGain {
    /// The model.
    pub model: String,
    /// The task.
    pub task: String,
    /// The rule.
    pub rule: Rule,
    /// At own points, with its interval.
    pub own: Option<Estimate>,
    /// How likely a gain as far from 0 is by chance, from the same resamples; none when no question tells them apart.
    pub p: Option<f64>,
    /// The same after Holm's correction over all cells that have one.
    pub p_holm: Option<f64>,
}

/// A point's answers, in the order of the task's questions.
struct Answers {
    score: Vec<f64>, // [questions] 0 to 1
    nfe: Vec<f64>,   // [questions]
}

impl Answers {
    fn of(point: &OperatingPoint) -> Answers {
        let outcomes = &point.outcomes;
        Answers {
            score: outcomes.iter().map(|outcome| outcome.score).collect(),
            nfe: outcomes.iter().map(|outcome| outcome.nfe as f64).collect(),
        }
    }

    /// (NFE, score in percent) over the drawn questions.
    fn over(&self, drawn: &[usize]) -> (f64, f64) {
        let mean = |of: &[f64]| drawn.iter().map(|&i| of[i]).sum::<f64>() / drawn.len() as f64;
        (mean(&self.nfe), 100.0 * mean(&self.score))
    }
}

/// Both sides of a cell.
struct Cell {
    model: String,
    task: usize,
    rule: Rule,
    contender: Vec<Answers>,
    reference: Vec<Answers>,
}

/// What one draw says of a cell.
#[derive(Clone, Default)]
struct Compared {
    own: Vec<f64>,
    own_left_out: usize,
    base: Vec<f64>,
    base_left_out: usize,
}

impl Cell {
    fn compare(&self, drawn: &[usize]) -> Compared {
        let knots = |side: &[Answers]| -> Vec<(f64, f64)> { side.iter().map(|answers| answers.over(drawn)).collect() };
        let (mut own, base) = (knots(&self.contender), knots(&self.reference));
        let (own_curve, base_curve) = (Curve::through(own.clone()), Curve::through(base.clone()));
        // Settings that decide the same are one point.
        own.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        own.dedup();
        let gains = |points: &[(f64, f64)], curve: &Curve, sign: f64| -> (Vec<f64>, usize) {
            let found: Vec<f64> =
                points.iter().filter_map(|(nfe, score)| Some(sign * (score - curve.at(*nfe)?))).collect();
            let left_out = points.len() - found.len();
            (found, left_out)
        };
        let (own, own_left_out) = gains(&own, &base_curve, 1.0);
        let (base, base_left_out) = gains(&base, &own_curve, -1.0);
        Compared { own, own_left_out, base, base_left_out }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64 // NaN of none, which replicates leave out
}

/// The mean over cells of their means.
fn own_of(cells: &[&Compared]) -> f64 {
    mean(&cells.iter().filter(|cell| !cell.own.is_empty()).map(|cell| mean(&cell.own)).collect::<Vec<_>>())
}

/// The mean over points.
fn base_of(cells: &[&Compared]) -> f64 {
    mean(&cells.iter().flat_map(|cell| cell.base.iter().copied()).collect::<Vec<_>>())
}

/// Compares one pairing. None when no cell has both sides with answers to the same questions.
pub fn versus(points: &Points, pairing: &Pairing, bootstrap: Bootstrap) -> Option<Versus> {
    let tasks = points.tasks();
    let cells = cells(points, pairing, &tasks);
    if cells.is_empty() {
        return None;
    }
    let questions = |task: usize| {
        let of_task = cells.iter().find(|cell| cell.task == task);
        of_task.and_then(|cell| cell.contender.first()).map_or(0, |answers| answers.score.len())
    };
    let sizes: Vec<usize> = (0..tasks.len()).map(questions).collect();
    let all: Vec<Vec<usize>> = sizes.iter().map(|&n| (0..n).collect()).collect();
    let compare =
        |drawn: &[Vec<usize>]| -> Vec<Compared> { cells.iter().map(|cell| cell.compare(&drawn[cell.task])).collect() };
    let observed = compare(&all);
    // Every task has draws of its own, and all cells of a resample share them.
    let mut draws: Vec<Vec<Vec<usize>>> = vec![Vec::new(); bootstrap.resamples];
    for (task, &n) in sizes.iter().enumerate() {
        let seed = bootstrap.seed.wrapping_add(task as u64);
        let mut at = 0;
        if n == 0 {
            draws.iter_mut().for_each(|draw| draw.push(Vec::new()));
            continue;
        }
        Bootstrap { seed, ..bootstrap }.resample(n, |drawn| {
            draws[at].push(drawn.to_vec());
            at += 1;
        });
    }
    let resampled: Vec<Vec<Compared>> = draws.iter().map(|draw| compare(draw)).collect();
    let estimate = |belongs: &dyn Fn(&Cell) -> bool, of: &dyn Fn(&[&Compared]) -> f64| -> Option<Estimate> {
        let pick = |all: &[Compared]| -> f64 {
            let some: Vec<&Compared> =
                cells.iter().zip(all).filter(|(cell, _)| belongs(cell)).map(|(_, compared)| compared).collect();
            of(&some)
        };
        let value = pick(&observed);
        let interval = Replicates::of(resampled.iter().map(|all| pick(all)).collect()).interval(LEVEL)?;
        (!value.is_nan()).then_some(Estimate { value, interval })
    };
    let group = |name: String, belongs: &dyn Fn(&Cell) -> bool| {
        let here: Vec<&Compared> =
            cells.iter().zip(&observed).filter(|(cell, _)| belongs(cell)).map(|(_, compared)| compared).collect();
        let sum = |of: fn(&Compared) -> usize| here.iter().map(|compared| of(compared)).sum::<usize>();
        Group {
            name,
            cells: here.iter().filter(|compared| !compared.own.is_empty()).count(),
            own: estimate(belongs, &own_of),
            own_points: (sum(|compared| compared.own.len()), sum(|compared| compared.own_left_out)),
            base: estimate(belongs, &base_of),
            base_points: (sum(|compared| compared.base.len()), sum(|compared| compared.base_left_out)),
        }
    };
    let mut groups = vec![group("all".into(), &|_| true)];
    for (at, task) in tasks.iter().enumerate() {
        groups.push(group(task.clone(), &|cell| cell.task == at));
    }
    for rule in points.rules() {
        groups.push(group(rule.title(), &|cell| cell.rule == rule));
    }
    for model in points.models() {
        groups.push(group(model.clone(), &|cell| cell.model == model));
    }
    let easy = tasks.iter().position(|task| task == "predicates");
    let is_easy = |cell: &Cell| Some(cell.task) == easy;
    let is_topk = |cell: &Cell| cell.rule.name() == "topk";
    groups.push(group("without predicates".into(), &|cell| !is_easy(cell)));
    groups.push(group("without Top-k".into(), &|cell| !is_topk(cell)));
    groups.push(group("without either".into(), &|cell| !is_easy(cell) && !is_topk(cell)));
    groups.retain(|group| group.cells > 0);

    let cell_gains: Vec<CellGain> = (0..cells.len())
        .map(|i| {
            let here = |cell: &Cell| std::ptr::eq(cell, &cells[i]);
            let p = chance(resampled.iter().map(|all| mean(&all[i].own)));
            let Cell { model, task, rule, .. } = &cells[i];
            let own = estimate(&here, &own_of);
            CellGain { model: model.clone(), task: tasks[*task].clone(), rule: rule.clone(), own, p, p_holm: None }
        })
        .collect();
    Some(Versus { pairing: pairing.clone(), groups, cells: corrected(cell_gains) })
}

/// The cells in which both sides have points that answer the same questions.
fn cells(points: &Points, pairing: &Pairing, tasks: &[String]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for model in points.models() {
        for (task, name) in tasks.iter().enumerate() {
            for rule in points.rules() {
                let of = |variants: &[Variant]| -> Vec<&OperatingPoint> {
                    let here = |variant: &Variant| -> Vec<&OperatingPoint> {
                        let key = crate::points::Key { model: &model, task: name, rule: &rule, variant: *variant };
                        points.curve(key).into_iter().filter(|point| !point.outcomes.is_empty()).collect()
                    };
                    variants.iter().map(here).find(|some| !some.is_empty()).unwrap_or_default()
                };
                let (contender, reference) = (of(&pairing.contender), of(&pairing.reference));
                let Some(first) = contender.first() else { continue };
                let asks = |point: &OperatingPoint| point.outcomes.iter().map(|o| o.prompt.clone()).collect::<Vec<_>>();
                let same = contender.iter().chain(&reference).all(|point| asks(point) == asks(first));
                if reference.is_empty() || !same {
                    continue;
                }
                let answers = |side: Vec<&OperatingPoint>| side.into_iter().map(Answers::of).collect();
                let (contender, reference) = (answers(contender), answers(reference));
                cells.push(Cell { model: model.clone(), task, rule: rule.clone(), contender, reference });
            }
        }
    }
    cells
}

/// Twice the share of resamples on the rarer side of 0, which is never less than one resample's; none when no resample differs from 0.
fn chance(replicates: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = replicates.filter(|value| !value.is_nan()).collect();
    if values.iter().all(|value| value.abs() <= TIE) {
        return None;
    }
    let (above, below) =
        (values.iter().filter(|value| **value > TIE).count(), values.iter().filter(|value| **value < -TIE).count());
    let ties = values.len() - above - below;
    let rarer = above.min(below) + ties;
    Some((2.0 * (rarer + 1) as f64 / (values.len() + 1) as f64).min(1.0))
}

fn corrected(mut cells: Vec<CellGain>) -> Vec<CellGain> {
    let p: Vec<f64> = cells.iter().filter_map(|cell| cell.p).collect();
    let mut holm = holm(&p).into_iter();
    for cell in cells.iter_mut().filter(|cell| cell.p.is_some()) {
        cell.p_holm = holm.next();
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Outcome;
    use crate::points::tests::{ADAS, BASE, point};

    /// A point whose questions took these forwards and had these scores.
    fn answered(sampler: (&str, &str, &str), answers: &[(usize, f64)]) -> OperatingPoint {
        let outcome =
            |(i, (nfe, score)): (usize, &(usize, f64))| Outcome { prompt: i.to_string(), score: *score, nfe: *nfe };
        let (nfe, score) = (mean_of(answers, |a| a.0 as f64), 100.0 * mean_of(answers, |a| a.1));
        OperatingPoint { outcomes: answers.iter().enumerate().map(outcome).collect(), ..point(sampler, score, nfe) }
    }

    fn mean_of(answers: &[(usize, f64)], of: fn(&(usize, f64)) -> f64) -> f64 {
        answers.iter().map(of).sum::<f64>() / answers.len() as f64
    }

    fn pairing() -> Pairing {
        Pairing { contender: vec![Variant::adas()], reference: vec![Variant::Base] }
    }

    /// Twenty questions, of which the first `right` are answered rightly, in `nfe` forwards each.
    fn twenty(nfe: usize, right: usize) -> Vec<(usize, f64)> {
        (0..20).map(|i| (nfe, f64::from(u8::from(i < right)))).collect()
    }

    #[test]
    fn a_pairing_is_read_from_its_text() {
        let pairing: Pairing = "paths:200,paths:5/adas".parse().unwrap();
        assert_eq!((pairing.contender.len(), pairing.reference.as_slice()), (2, &[Variant::adas()][..]));
        for (wrong, says) in [("adas", "expected A/B"), ("nope/adas", "`nope` is no variant")] {
            let said = wrong.parse::<Pairing>().unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn both_definitions_by_hand() {
        // Base: 20 % at 2 forwards, 60 % at 6. Contender: 50 % at 4 (the line is at 40, so +10), 90 % at 8 (out of range).
        let points = Points::new(vec![
            answered(("eb", "9", BASE), &twenty(2, 4)),
            answered(("eb", "1", BASE), &twenty(6, 12)),
            answered(("eb", "9", ADAS), &twenty(4, 10)),
            answered(("eb", "1", ADAS), &twenty(8, 18)),
        ])
        .unwrap();
        let versus = versus(&points, &pairing(), Bootstrap { resamples: 200, seed: 0 }).unwrap();
        let all = &versus.groups[0];
        assert_eq!((all.name.as_str(), all.cells, all.own_points, all.base_points), ("all", 1, (1, 1), (1, 1)));
        assert!((all.own.unwrap().value - 10.0).abs() < 1e-9);
        // At base points: at 6 forwards the contender's line is at 70, base has 60; 2 forwards are out of range.
        assert!((all.base.unwrap().value - 10.0).abs() < 1e-9);
        let names: Vec<&str> = versus.groups.iter().map(|group| group.name.as_str()).collect();
        assert!(names.contains(&"EB-Sampler") && names.contains(&"without Top-k"), "{names:?}");
    }

    #[test]
    fn the_interval_is_over_questions_and_paired() {
        // Both at 3 forwards; the contender has everything that base has, and five questions more: every resample gains 5/20 or what it
        // draws of it, never less than 0.
        let points =
            Points::new(vec![answered(("eb", "1", BASE), &twenty(3, 8)), answered(("eb", "1", ADAS), &twenty(3, 13))])
                .unwrap();
        let versus = versus(&points, &pairing(), Bootstrap { resamples: 500, seed: 1 }).unwrap();
        let own = versus.groups[0].own.unwrap();
        assert!((own.value - 25.0).abs() < 1e-9 && own.interval.low >= 5.0 && own.interval.high <= 50.0, "{own:?}");
        assert!(versus.cells[0].p.unwrap() < 0.05 && versus.cells[0].p_holm == versus.cells[0].p);
        // Compared with itself, nothing tells them apart.
        let same = Pairing { contender: vec![Variant::adas()], reference: vec![Variant::adas()] };
        let nothing = super::versus(&points, &same, Bootstrap { resamples: 50, seed: 1 }).unwrap();
        assert_eq!((nothing.groups[0].own.unwrap().value, nothing.cells[0].p), (0.0, None));
    }

    #[test]
    fn other_questions_and_missing_answers_are_not_compared() {
        let bare = point(("eb", "1", BASE), 40.0, 3.0);
        let points = Points::new(vec![bare, answered(("eb", "1", ADAS), &twenty(3, 8))]).unwrap();
        assert!(versus(&points, &pairing(), Bootstrap { resamples: 10, seed: 0 }).is_none());
        let mut other = answered(("eb", "1", BASE), &twenty(3, 8));
        other.outcomes[0].prompt = "another".into();
        let points = Points::new(vec![other, answered(("eb", "1", ADAS), &twenty(3, 8))]).unwrap();
        assert!(versus(&points, &pairing(), Bootstrap { resamples: 10, seed: 0 }).is_none());
    }
}
