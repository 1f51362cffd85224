//! The paper's ablations (appendix D): the same sampler with one setting of its discount varied and all else held.

use crate::points::{OperatingPoint, Parameter, Points, Rule, Variant};
use cofill::Layers;
use cofill::adas::{AttentionDiscount, Weight};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};

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

/// One value of what varies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// The strength of the discount.
    Alpha(f64),
    /// No discount, beside layers.
    NoDiscount,
    /// The layer whose attention it takes.
    Layer(Layers),
    /// Whose uncertainty weighs it.
    Weight(Weight),
}

impl Value {
    /// From no discount to the paper's. Layers by number stand before the middle one, for how many there are is not known here.
    fn order(self) -> f64 {
        match self {
            Value::NoDiscount => -2.0,
            Value::Layer(Layers::First) | Value::Weight(Weight::Chosen) => -1.0,
            Value::Alpha(alpha) => alpha,
            Value::Layer(Layers::Nth(layer)) => layer as f64,
            Value::Layer(Layers::Middle) | Value::Weight(Weight::Mean) => 1e10,
            Value::Layer(Layers::Last) => 2e10,
            Value::Layer(_) => 3e10,
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Alpha(alpha) => alpha.fmt(f),
            Value::NoDiscount => Variant::Base.fmt(f),
            Value::Layer(layers) => layers.fmt(f),
            Value::Weight(Weight::Chosen) => f.write_str("self"),
            Value::Weight(Weight::Mean) => f.write_str("mask"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The table of one ablation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ablation {
    /// Which setting of the discount varies.
    pub kind: Kind,
    /// Its values in order: `0`, `1`, `40`; `base`, `first`, `last`; `self`, `mask`.
    pub values: Vec<Value>,
    /// Everything it was tried with.
    pub settings: Vec<Setting>,
}

/// A sampler of which at least two values are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The model of all scores.
    pub model: String,
    /// The task of all scores.
    pub task: String,
    /// The sampler without parameter and discount.
    pub rule: Rule,
    /// The parameter of that sampler.
    pub param: Parameter,
    /// What else sets the discount apart from the paper's: ` ad:10`, ` @weight=mask`; mostly nothing.
    pub held: String,
    /// The score with every value; none where it was not tried.
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

/// The value of a discount that varies, and the discount with the paper's value in its place.
fn vary(discount: AttentionDiscount, kind: Kind) -> (Value, AttentionDiscount) {
    let papers = AttentionDiscount::default();
    match kind {
        Kind::Alpha => (Value::Alpha(discount.alpha), AttentionDiscount { alpha: papers.alpha, ..discount }),
        Kind::Layer => (Value::Layer(discount.layers), AttentionDiscount { layers: papers.layers, ..discount }),
        Kind::Weight => (Value::Weight(discount.weight), AttentionDiscount { weight: papers.weight, ..discount }),
    }
}

/// In what a discount differs from the paper's, a word each: ` ad:10 @layer=first`.
fn beside_the_papers(held: AttentionDiscount) -> String {
    let papers = AttentionDiscount::default();
    let alpha = (held.alpha != papers.alpha).then(|| format!(" ad:{}", held.alpha));
    let layer = (held.layers != papers.layers).then(|| format!(" @layer={}", held.layers));
    let weight = (held.weight != papers.weight).then(|| format!(" @weight={}", Value::Weight(held.weight)));
    let words = [(held.paths, " @paths"), (held.doubt, " @doubt"), (held.veto, " @veto")];
    let words = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_string());
    let control = held.control.map(|control| format!(" @source={control}"));
    [alpha, layer, weight, control].into_iter().flatten().chain(words).collect()
}

/// A point, what is held of its discount, and the score of every value that was tried.
struct Tried<'a> {
    point: &'a OperatingPoint,
    held: AttentionDiscount,
    scores: Vec<(Value, f64)>,
}

fn ablation(points: &Points, kind: Kind) -> Option<Ablation> {
    let mut settings: Vec<Tried<'_>> = Vec::new();
    for point in points.all() {
        let Some(discount) = point.sampler.variant.discount() else { continue };
        let (value, held) = vary(discount, kind);
        match settings.iter_mut().find(|tried| same_setting(point, tried.point) && tried.held == held) {
            Some(tried) => tried.scores.push((value, point.score)),
            None => settings.push(Tried { point, held, scores: vec![(value, point.score)] }),
        }
    }
    settings.retain(|tried| tried.scores.len() > 1);
    let without = match kind {
        Kind::Alpha => Some(Value::Alpha(0.0)),
        Kind::Layer => Some(Value::NoDiscount),
        Kind::Weight => None,
    };
    for Tried { point, scores, .. } in &mut settings {
        let is_base = |other: &&OperatingPoint| other.sampler.variant == Variant::Base && same_setting(point, other);
        if let (Some(without), Some(base)) = (without, points.all().iter().find(is_base)) {
            scores.retain(|(value, _)| *value != without);
            scores.push((without, base.score));
        }
    }
    let mut values: Vec<Value> = settings.iter().flat_map(|tried| &tried.scores).map(|(value, _)| *value).collect();
    values.sort_by(|a, b| a.order().total_cmp(&b.order()));
    values.dedup();
    let score = |tried: &Tried<'_>, value: &Value| {
        tried.scores.iter().find(|(other, _)| other == value).map(|(_, score)| *score)
    };
    let setting = |tried: &Tried<'_>| Setting {
        model: tried.point.model.clone(),
        task: tried.point.task.clone(),
        rule: tried.point.sampler.rule.clone(),
        param: tried.point.sampler.param.clone(),
        held: beside_the_papers(tried.held),
        scores: values.iter().map(|value| score(tried, value)).collect(),
    };
    let settings: Vec<Setting> = settings.iter().map(setting).collect();
    (!settings.is_empty()).then_some(Ablation { kind, values, settings })
}

fn same_setting(a: &OperatingPoint, b: &OperatingPoint) -> bool {
    let setting = |point: &OperatingPoint| (point.model.clone(), point.task.clone());
    setting(a) == setting(b) && a.sampler.rule == b.sampler.rule && a.sampler.param == b.sampler.param
}
