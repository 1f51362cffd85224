//! Which number foretells that a position changes its mind: attention alone, or influence along paths?
//!
//! A pair *flips* when j's likeliest token is another once i is revealed: that is what committing both together gets wrong at temperature
//! 0. Each of four numbers known before the reveal is asked how well it tells the pairs that flip from those that do not (AUC; .5 says
//! nothing):
//!
//! ```text
//! u_ji           A_ji (1 − c_i), ADAS's own
//! R_ji           the same along all paths through other masks
//! u_ji (1 − c_j) and R_ji (1 − c_j): times j's own doubt, as `@doubt` has it
//! ```

use super::folder::{signed, three};
use super::state::Effect;
use super::{Setting, mean};
use cofill_report::document::Table;
use cofill_report::statistics::auc::auc;
use cofill_report::statistics::bootstrap::{Bootstrap, Estimate, LEVEL};
use cofill_report::statistics::spearman::spearman;
use serde::Serialize;

/// Resamples of the AUC's intervals: each sorts every pair anew, and a thousand settle the second digit.
const RESAMPLES: usize = 1000;

/// How well flips are foretold in one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flips {
    /// The task, as tables name it.
    pub task: String,
    /// The model, as tables name it.
    pub model: String,
    /// Pairs of positions in all states.
    pub pairs: usize,
    /// Those whose likeliest token changed.
    pub flips: usize,
    /// AUC of u.
    pub attention: Option<f64>,
    /// AUC of R.
    pub paths: Option<f64>,
    /// AUC of u (1 − c_j).
    pub attention_doubt: Option<f64>,
    /// AUC of R (1 − c_j).
    pub paths_doubt: Option<f64>,
    /// AUC of R less AUC of u, with a paired bootstrap over examples.
    pub gain: Option<Estimate>,
    /// ρ(u, K), over all pairs.
    pub attention_kl: Option<f64>,
    /// ρ(R, K), over all pairs.
    pub paths_kl: Option<f64>,
}

fn flips(pair: &Effect) -> bool {
    pair.token != pair.token_after
}

fn foretold(pairs: &[&Effect], by: fn(&Effect) -> f64) -> Option<f64> {
    let values: Vec<f64> = pairs.iter().map(|pair| by(pair)).collect();
    auc(&values, &pairs.iter().map(|pair| flips(pair)).collect::<Vec<_>>())
}

impl Flips {
    /// Of the states of a setting.
    pub fn of(setting: &Setting, bootstrap: &Bootstrap) -> Flips {
        let Setting { task, model, states } = setting;
        let examples: Vec<Vec<&Effect>> =
            states.chunk_by(|a, b| a.doc == b.doc).map(|e| e.iter().flat_map(|state| &state.pairs).collect()).collect();
        let pairs: Vec<&Effect> = examples.iter().flatten().copied().collect();
        let gain = |pairs: &[&Effect]| Some(foretold(pairs, |p| p.along_paths)? - foretold(pairs, |p| p.gated)?);
        let bootstrap = Bootstrap { resamples: bootstrap.resamples.min(RESAMPLES), ..*bootstrap };
        let replicates = bootstrap.replicates(examples.len(), |drawn| {
            let pairs: Vec<&Effect> = drawn.iter().flat_map(|&i| &examples[i]).copied().collect();
            gain(&pairs).unwrap_or(f64::NAN)
        });
        let interval = replicates.interval(LEVEL);
        let with_kl = |by: fn(&Effect) -> f64| {
            let of = |field: fn(&Effect) -> f64| pairs.iter().map(|pair| field(pair)).collect::<Vec<f64>>();
            spearman(&of(by), &of(|pair| pair.kl))
        };
        Flips {
            task: task.clone(),
            model: model.clone(),
            pairs: pairs.len(),
            flips: pairs.iter().filter(|pair| flips(pair)).count(),
            attention: foretold(&pairs, |p| p.gated),
            paths: foretold(&pairs, |p| p.along_paths),
            attention_doubt: foretold(&pairs, |p| p.gated * (1.0 - p.confidence)),
            paths_doubt: foretold(&pairs, |p| p.along_paths * (1.0 - p.confidence)),
            gain: gain(&pairs).zip(interval).map(|(value, interval)| Estimate { value, interval }),
            attention_kl: with_kl(|p| p.gated),
            paths_kl: with_kl(|p| p.along_paths),
        }
    }
}

/// One row a setting.
pub(super) fn table(all: &[Flips]) -> Table {
    let head = [
        "task",
        "model",
        "pairs",
        "flips",
        "AUC u",
        "AUC R",
        "R - u [95 %]",
        "AUC u (1-c)",
        "AUC R (1-c)",
        "ρ(u, K)",
        "ρ(R, K)",
    ];
    let gain = |gain: Option<Estimate>| match gain {
        Some(Estimate { value, interval }) => {
            let [value, low, high] = [value, interval.low, interval.high].map(|number| signed(Some(number)));
            format!("{value} [{low}, {high}]")
        }
        None => three(None),
    };
    let row = |f: &Flips| {
        vec![
            f.task.clone(),
            f.model.clone(),
            f.pairs.to_string(),
            f.flips.to_string(),
            three(f.attention),
            three(f.paths),
            gain(f.gain),
            three(f.attention_doubt),
            three(f.paths_doubt),
            three(f.attention_kl),
            three(f.paths_kl),
        ]
    };
    Table {
        caption: Some(
            "Which number foretells a flip: attention (u) or influence along paths (R)? AUC: the probability that a pair that flips has more of it \
             than one that does not; .5 says nothing."
                .into(),
        ),
        head: head.map(String::from).to_vec(),
        words: 2,
        rows: all.iter().map(row).collect(),
    }
}

/// A sentence on all settings together.
pub(super) fn note(all: &[Flips]) -> Option<String> {
    let settings: Vec<&Flips> = all.iter().filter(|f| f.gain.is_some()).collect();
    let of = |field: fn(&Flips) -> Option<f64>| mean(&settings.iter().filter_map(|f| field(f)).collect::<Vec<_>>());
    let (u, r) = (of(|f| f.attention)?, of(|f| f.paths)?);
    let (u_doubt, r_doubt) = (of(|f| f.attention_doubt)?, of(|f| f.paths_doubt)?);
    Some(format!(
        "A pair flips when its likeliest token is another after the reveal. Mean AUC over {} settings: u {u:.3}, R {r:.3}; times 1 - c: u \
         {u_doubt:.3}, R {r_doubt:.3}. The interval of R - u is a paired bootstrap over examples.",
        settings.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::state::{Revealed, State};
    use super::*;

    fn pair(flips: bool, gated: f64, along_paths: f64) -> Effect {
        let (position, token, confidence) = (1, 5, 0.5);
        Effect {
            position,
            token,
            token_after: token + u32::from(flips),
            attention: gated,
            kl: f64::from(u8::from(flips)),
            confidence,
            delta_confidence: 0.0,
            gated,
            along_paths,
            score: confidence,
        }
    }

    #[test]
    fn the_number_that_sees_the_flips_wins() {
        // u puts both flips last of four, R first: AUC 0 and 1.
        let pairs = vec![pair(true, 0.1, 0.9), pair(true, 0.2, 0.8), pair(false, 0.3, 0.1), pair(false, 0.4, 0.2)];
        let revealed = Revealed { position: 0, token: 1, confidence: 0.9, uncertainty: 0.1 };
        let state = |doc| State {
            doc,
            step: 0,
            n_masked: 5,
            revealed,
            pairs: pairs.clone(),
            divergence: None,
            heads: Vec::new(),
        };
        let setting = Setting { task: "t".into(), model: "m".into(), states: vec![state(0), state(1)] };
        let flips = Flips::of(&setting, &Bootstrap::default());
        assert_eq!((flips.pairs, flips.flips), (8, 4));
        assert_eq!((flips.attention, flips.paths), (Some(0.0), Some(1.0)));
        assert_eq!((flips.attention_doubt, flips.paths_doubt), (Some(0.0), Some(1.0)), "all doubt alike");
        assert_eq!(flips.gain.unwrap().value, 1.0);
        assert!(flips.paths_kl.unwrap() > 0.8 && flips.attention_kl.unwrap() < -0.8);
        let table = table(std::slice::from_ref(&flips));
        assert_eq!(table.rows[0][..7], ["t", "m", "8", "4", ".000", "1.000", "+1.000 [+1.000, +1.000]"]);
        assert!(note(&[flips]).unwrap().contains("u 0.000, R 1.000"));
    }

    #[test]
    fn without_flips_there_is_nothing_to_foretell() {
        let flips =
            Flips::of(&Setting { task: "t".into(), model: "m".into(), states: Vec::new() }, &Bootstrap::default());
        assert_eq!((flips.attention, flips.gain.is_none(), note(std::slice::from_ref(&flips))), (None, true, None));
    }
}
