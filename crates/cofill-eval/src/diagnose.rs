//! The paper's evidence as measurements on any model: does attention among masks tell what revealing one does to
//! another?
//!
//! | paper | here |
//! |---|---|
//! | section 4 and appendix B, the intervention | [`state`] makes the states, [`intervention`] summarises them |
//! | appendix B, "Delayed-token stability" | [`deferral`], on the same states |
//! | appendix F, synthetic predicates | [`construction`] draws them, [`predicates`] measures |
//! | does influence along paths foretell more than attention | [`flips`], on the same states |
//! | what ADAS did to one prompt | [`explain`] |
//! | which layer or head is the best signal | [`heads`], of either kind of measurement |
//!
//! Everything works on a `dyn Denoiser`: on the closed-form toy, where the true dependence is known, the answer is
//! known too. A measurement is plain data; tables, figures and files are made from it as a document, which [`folder`] keeps.

pub mod calibrate;
pub mod construction;
pub mod deferral;
pub mod explain;
pub mod flips;
pub mod folder;
pub mod heads;
pub mod intervention;
pub mod predicates;
pub mod state;

use cofill::{Denoiser, Prediction, Query};
use cofill_report::statistics::bootstrap::{Estimate, Interval};

/// States measured on one task with one model.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The task, as tables name it.
    pub task: String,
    /// The model, as tables name it.
    pub model: String,
    /// In the order they were measured; an example's states stand together.
    pub states: Vec<state::State>,
}

/// One forward, and everything that was asked for is there: what a faulty denoiser leaves out is an error here and no
/// panic later.
fn ask(denoiser: &mut dyn Denoiser, query: Query<'_>) -> cofill::Result<Prediction> {
    let prediction = cofill::ask(denoiser, &[query])?.into_iter().next();
    let wrong = |problem: String| cofill::Error::Contract { who: "denoiser", problem };
    let prediction = prediction.ok_or_else(|| wrong("it answers nothing".into()))?;
    let n = query.rows.len();
    let attention = prediction.attention.as_ref().map(cofill::Attention::len);
    let distributions = prediction.distributions.as_ref().map(cofill::Distributions::len);
    let parts = [
        ("rows", true, Some(prediction.rows.len())),
        ("rows of attention", query.attention.is_some(), attention),
        ("distributions", query.distributions, distributions),
    ];
    for (what, asked, got) in parts {
        if asked && got != Some(n) {
            return Err(wrong(format!("it answers {} {what}, and {n} were asked for", got.unwrap_or(0))));
        }
    }
    match prediction.rows.iter().position(|row| !(row.confidence.is_finite() && row.uncertainty.is_finite())) {
        Some(index) => {
            Err(cofill::Error::NotFinite { what: "confidence", index, value: prediction.rows[index].confidence })
        }
        None => Ok(prediction),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The mean and its normal 95 % interval, mean ± 1.96 s/√n; of a single value the interval is that value.
fn normal(values: &[f64]) -> Option<Estimate> {
    let value = mean(values)?;
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let half = if values.len() < 2 { 0.0 } else { 1.96 * (squares / (n - 1.0) / n).sqrt() };
    Some(Estimate { value, interval: Interval { low: value - half, high: value + half } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_interval_of_known_numbers() {
        // Mean 2, variance ((1)² + 0 + 1²) / 2 = 1, so ± 1.96 / √3.
        let Estimate { value, interval } = normal(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(value, 2.0);
        assert!((interval.high - 2.0 - 1.96 / 3f64.sqrt()).abs() < 1e-12);
        assert!((interval.low + interval.high - 4.0).abs() < 1e-12);
        assert_eq!(normal(&[]), None);
    }
}
