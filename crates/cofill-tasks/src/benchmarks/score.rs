//! The scores of a reply, one for each way of reading it, and means over many replies.

use crate::judge::Execution;
use crate::mini::Checked;
use serde_json::{Value, json};

/// One way of reading a reply, and its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The harness's name for it.
    pub name: &'static str,
    /// The text that it takes for the answer.
    pub filtered: Filtered,
    /// By the harness's names; 1 is right and 0 wrong.
    pub metrics: Vec<(&'static str, f64)>,
}

/// What a filter read. The harness keeps a list where it could have sampled several replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filtered {
    /// One text.
    One(String),
    /// A text for each reply.
    Each(Vec<String>),
}

/// A reply with every reading of it and its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The readings, the harness's own first.
    pub filters: Vec<Filter>,
    /// By name, texts that explain the metrics: what was extracted, how a program ended, why an answer is wrong.
    pub notes: Vec<(&'static str, String)>,
}

/// The name of the note that says why a judge failed.
pub const JUDGE_FAILED: &str = "judge_failed";

/// A reply while it is judged. A judge that breaks down makes it a wrong one, and the first reason is kept.
#[derive(Debug, Default)]
pub(super) struct Judging {
    failure: Option<String>,
}

impl Judging {
    /// What the judge said, or a default if it failed.
    pub(super) fn or_wrong<T: Default>(&mut self, judged: Result<T, String>) -> T {
        judged.unwrap_or_else(|failure| {
            self.failure.get_or_insert(failure);
            T::default()
        })
    }

    /// How a program ended, or the words for a judge that failed.
    pub(super) fn program(&mut self, judged: Result<Execution, String>) -> Execution {
        judged.unwrap_or_else(|failure| {
            let result = format!("failed to judge: {failure}");
            self.failure.get_or_insert(failure);
            Execution { passed: false, result }
        })
    }

    /// The scores, with a note if a judge failed.
    pub(super) fn scored(self, filters: Vec<Filter>, mut notes: Vec<(&'static str, String)>) -> Scored {
        notes.extend(self.failure.map(|failure| (JUDGE_FAILED, failure)));
        Scored { filters, notes }
    }
}

/// A metric over many replies.
#[derive(Debug, Clone, PartialEq)]
pub struct Mean {
    /// The name of the filter.
    pub filter: String,
    /// The name of the metric.
    pub metric: String,
    /// How many replies were scored.
    pub n: usize,
    /// The mean of the metric over them.
    pub mean: f64,
    /// The sample deviation over √n. A single reply has none.
    pub standard_error: Option<f64>,
}

/// Collects the metrics of many replies, for their means.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// In the order in which they first came.
    values: Vec<(String, String, Vec<f64>)>,
}

impl Filter {
    pub(super) fn new(name: &'static str, filtered: impl Into<Filtered>, metric: &'static str, right: bool) -> Filter {
        Filter { name, filtered: filtered.into(), metrics: vec![(metric, f64::from(u8::from(right)))] }
    }
}

impl From<String> for Filtered {
    fn from(text: String) -> Filtered {
        Filtered::One(text)
    }
}

impl From<&str> for Filtered {
    fn from(text: &str) -> Filtered {
        Filtered::One(text.into())
    }
}

impl Scored {
    /// The score of an answer to a mini task, as its checker found it.
    pub fn of_mini(text: &str, checked: &Checked) -> Scored {
        let why = checked.as_ref().err().map(|wrong| ("why", wrong.0.clone()));
        Scored { filters: vec![Filter::new("none", text, "right", checked.is_ok())], notes: why.into_iter().collect() }
    }

    /// The first metric of the first filter: the one number that a person asks for.
    pub fn first(&self) -> f64 {
        self.filters.iter().flat_map(|filter| &filter.metrics).map(|(_, value)| *value).next().unwrap_or(0.0)
    }

    /// Why a judge failed on this reply. Its metrics are then 0, and say nothing about it.
    pub fn judge_failure(&self) -> Option<&str> {
        self.notes.iter().find(|(name, _)| *name == JUDGE_FAILED).map(|(_, why)| why.as_str())
    }

    /// The value of a metric.
    pub fn metric(&self, filter: &str, metric: &str) -> Option<f64> {
        let filter = self.filters.iter().find(|other| other.name == filter)?;
        filter.metrics.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value)
    }
}

impl Tally {
    /// Adds the metrics of a reply.
    pub fn add(&mut self, scored: &Scored) {
        for filter in &scored.filters {
            for &(metric, value) in &filter.metrics {
                self.count(filter.name, metric, value);
            }
        }
    }

    /// Counts one value of a metric.
    pub fn count(&mut self, filter: &str, metric: &str, value: f64) {
        match self.values.iter_mut().find(|(name, other, _)| name == filter && other == metric) {
            Some((.., values)) => values.push(value),
            None => self.values.push((filter.into(), metric.into(), vec![value])),
        }
    }

    /// The means as an object: `{"FILTER": {"METRIC": {"mean": .., "standard_error": ..}}}`.
    pub fn json(&self) -> Value {
        let mut filters = json!({});
        for Mean { filter, metric, mean, standard_error, .. } in self.means() {
            filters[filter][metric] = json!({"mean": mean, "standard_error": standard_error});
        }
        filters
    }

    /// The means so far.
    pub fn means(&self) -> Vec<Mean> {
        let mean = |(filter, metric, values): &(String, String, Vec<f64>)| {
            let n = values.len();
            let mean = values.iter().sum::<f64>() / n as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let standard_error = (n > 1).then(|| (squares / (n - 1) as f64).sqrt() / (n as f64).sqrt());
            Mean { filter: filter.clone(), metric: metric.clone(), n, mean, standard_error }
        };
        self.values.iter().map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_known_numbers() {
        let scored = |right: bool| Scored { filters: vec![Filter::new("strict", "x", "exact", right)], notes: vec![] };
        let mut tally = Tally::default();
        assert_eq!(tally.means(), []);
        tally.add(&scored(true));
        assert_eq!(tally.means()[0].standard_error, None);
        for right in [true, true, false] {
            tally.add(&scored(right));
        }
        // 3 of 4: the squares are 3/16 + 9/16, so √(3/4 / 3) / 2 = 1/4.
        let mean =
            Mean { filter: "strict".into(), metric: "exact".into(), n: 4, mean: 0.75, standard_error: Some(0.25) };
        assert_eq!(tally.means(), [mean]);
        assert_eq!((scored(true).metric("strict", "exact"), scored(true).metric("strict", "other")), (Some(1.0), None));
    }
}
