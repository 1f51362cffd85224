//! The paper's ablations (appendix D): the same sampler with one setting of its discount varied and all else held.

use crate::points::{ADAS, BASE, Point, Points};
use serde::Serialize;

/// What a discount can vary in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Its strength; no discount is 0.
    Alpha,
    /// The layer whose attention it takes; or no discount.
    Layer,
    /// Whose uncertainty weighs it.
    Weight,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ablation {
    /// What varies.
    pub kind: Kind,
    /// Its values in order: `0`, `1`, `40`; [`BASE`], `first`, `last`; `self`, `mask`.
    pub values: Vec<String>,
    /// Everything it was tried with.
    pub settings: Vec<Setting>,
}

/// A sampler of which at least two values are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Which model.
    pub model: String,
    /// Which task.
    pub task: String,
    /// Which rule.
    pub rule: String,
    /// Its parameter.
    pub param: String,
    /// What else sets the discount apart from the paper's: ` ad:10`, ` @weight=mask`; mostly nothing.
    pub held: String,
    /// One for every value.
    pub scores: Vec<Option<f64>>,
}

impl Ablation {
    /// Mean scores by value over the settings that have all of them, and how many these are; none of fewer than two.
    pub fn average(&self) -> Option<(usize, Vec<f64>)> {
        let whole = self.settings.iter().filter_map(|setting| setting.scores.iter().copied().collect());
        let whole: Vec<Vec<f64>> = whole.collect();
        let mean = |i: usize| whole.iter().map(|scores| scores[i]).sum::<f64>() / whole.len() as f64;
        (whole.len() > 1).then(|| (whole.len(), (0..self.values.len()).map(mean).collect()))
    }

    /// A setting's model and task where these differ from others', before the name of its sampler: `tiny-llada code, `.
    pub fn prefix(&self, setting: &Setting) -> String {
        let several = |of: fn(&Setting) -> &String| self.settings.iter().any(|other| of(other) != of(setting));
        let model = Some(&setting.model).filter(|_| several(|setting| &setting.model));
        let task = Some(&setting.task).filter(|_| several(|setting| &setting.task));
        let place: Vec<&str> = [model, task].into_iter().flatten().map(String::as_str).collect();
        if place.is_empty() { String::new() } else { place.join(" ") + ", " }
    }

    /// Models and tasks, as `A, B on C, D`.
    pub fn place(&self) -> String {
        let mut places: [Vec<&str>; 2] = Default::default();
        for setting in &self.settings {
            for (names, name) in places.iter_mut().zip([&setting.model, &setting.task]) {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        places.map(|names| names.join(", ")).join(" on ")
    }
}

/// Every ablation that the points make up.
pub fn ablations(points: &Points) -> Vec<Ablation> {
    [Kind::Alpha, Kind::Weight, Kind::Layer].into_iter().filter_map(|kind| ablation(points, kind)).collect()
}

/// What a discount is made of.
#[derive(Clone, Copy, PartialEq)]
struct Discount<'a> {
    alpha: &'a str,
    layer: &'a str,
    weight: &'a str,
}

impl<'a> Discount<'a> {
    /// None of the base.
    fn of(variant: &'a str) -> Option<Discount<'a>> {
        let mut parts = if variant == ADAS { "ad:40" } else { variant }.split('@');
        let alpha = parts.next()?.strip_prefix("ad:")?;
        let mut discount = Discount { alpha, layer: "last", weight: "self" };
        for option in parts {
            match option.split_once('=')? {
                ("layer", layer) => discount.layer = layer,
                ("weight", weight) => discount.weight = weight,
                _ => return None,
            }
        }
        Some(discount)
    }

    /// The value that varies, and the discount with the paper's value in its place.
    fn split(self, kind: Kind) -> (&'a str, Discount<'a>) {
        match kind {
            Kind::Alpha => (self.alpha, Discount { alpha: "40", ..self }),
            Kind::Layer => (self.layer, Discount { layer: "last", ..self }),
            Kind::Weight => (self.weight, Discount { weight: "self", ..self }),
        }
    }

    fn beside_the_papers(self) -> String {
        let alpha = if self.alpha == "40" { String::new() } else { format!(" ad:{}", self.alpha) };
        let layer = if self.layer == "last" { String::new() } else { format!(" @layer={}", self.layer) };
        let weight = if self.weight == "self" { String::new() } else { format!(" @weight={}", self.weight) };
        alpha + &layer + &weight
    }
}

fn ablation(points: &Points, kind: Kind) -> Option<Ablation> {
    type Scored<'a> = (&'a str, f64);
    // A point and what is held of its discount make a setting.
    let mut settings: Vec<(&Point, Discount<'_>, Vec<Scored<'_>>)> = Vec::new();
    for point in points.all() {
        let Some((value, held)) = Discount::of(&point.variant).map(|discount| discount.split(kind)) else { continue };
        let found = settings.iter_mut().find(|(other, also, _)| same_setting(point, other) && *also == held);
        match found {
            Some((_, _, scores)) => scores.push((value, point.score)),
            None => settings.push((point, held, vec![(value, point.score)])),
        }
    }
    settings.retain(|(_, _, scores)| scores.len() > 1);
    let without = match kind {
        Kind::Alpha => Some("0"),
        Kind::Layer => Some(BASE),
        Kind::Weight => None,
    };
    for (point, _, scores) in &mut settings {
        let base = points.all().iter().find(|other| other.variant == BASE && same_setting(point, other));
        if let (Some(name), Some(base)) = (without, base) {
            scores.retain(|(value, _)| *value != name);
            scores.push((name, base.score));
        }
    }
    let mut values: Vec<&str> = settings.iter().flat_map(|(_, _, scores)| scores).map(|(value, _)| *value).collect();
    values.sort_by(|a, b| order(a).total_cmp(&order(b)));
    values.dedup();
    let setting = |(point, held, scores): &(&Point, Discount<'_>, Vec<Scored<'_>>)| Setting {
        model: point.model.clone(),
        task: point.task.clone(),
        rule: point.rule.clone(),
        param: point.param.clone(),
        held: held.beside_the_papers(),
        scores: values.iter().map(|value| scores.iter().find(|(other, _)| other == value).map(|(_, s)| *s)).collect(),
    };
    let settings: Vec<Setting> = settings.iter().map(setting).collect();
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    (!settings.is_empty()).then_some(Ablation { kind, values, settings })
}

fn same_setting(a: &Point, b: &Point) -> bool {
    (&a.model, &a.task, &a.rule, &a.param) == (&b.model, &b.task, &b.rule, &b.param)
}

/// Numbers by their size, from no discount to the paper's: layers by number stand before the middle one, for their count is not known here.
fn order(value: &str) -> f64 {
    match value {
        BASE => -2.0,
        "first" | "self" => -1.0,
        "middle" | "mask" => 1e10,
        "last" => 2e10,
        number => number.parse().unwrap_or(3e10),
    }
}
