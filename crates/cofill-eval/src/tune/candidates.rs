//! Samplers worth trying within a budget: the stock grid, and those that a user names.

use crate::recipe::braces;
use cofill::{Registry, SamplerSpec};
use cofill_engine::DEFAULT_SAMPLER;
use cofill_report::tuned::Budget;

/// Top-k's parameters from few positions at a time to many.
const LADDER: [usize; 18] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192];

/// How many of them are tried.
const STEPS: usize = 6;

/// What decides which samplers of the grid are worth trying.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// What an answer may take.
    pub budget: Budget,
    /// Masks of a canvas, on average.
    pub masks: f64,
    /// The strength of `+paths` that was chosen for the model, if one was.
    pub paths_alpha: Option<f64>,
    /// Whether the model has a trained head.
    pub has_head: bool,
    /// Whether there is a companion to ask.
    pub has_companion: bool,
}

impl Setting {
    /// The stock grid. What Top-k and fixed numbers of steps would take is known beforehand, so only what fits is in it; the others find out how many
    /// positions are safe by themselves.
    pub fn grid(&self) -> cofill::Result<Vec<SamplerSpec>> {
        let mut texts: Vec<String> = Vec::new();
        let paths = self.paths_alpha.map_or("+paths".into(), |alpha| format!("+paths:{alpha}"));
        let discounts = ["", "+ad", paths.as_str()];
        let mut with = |names: &[String], discounts: &[&str]| {
            texts.extend(
                names.iter().flat_map(|name| discounts.iter().map(move |discount| format!("{name}{discount}"))),
            );
        };
        let named =
            |name: &str, values: &[&str]| values.iter().map(|value| format!("{name}:{value}")).collect::<Vec<_>>();
        with(&self.top_k(), &discounts);
        with(&named("fast", &["0.5", "1", "2", "3", "5"]), &discounts);
        with(&named("threshold", &["0.5", "0.7", "0.9"]), &discounts);
        with(&named("eb", &["0.03", "0.1", "0.3", "1", "3"]), &discounts);
        with(&named("fast-profile", &["0.5", "0.75", "1", "2"]), &[""]);
        if let Budget::Forwards(most) = self.budget {
            // A fixed number of steps spends the budget to the last forward.
            with(&[format!("llada:{}", most as u64)], &["", "+ad"]);
        }
        with(&named("klass", &["0.5,1", "0.7,1", "0.9,1"]), &[""]);
        with(&named("dapd", &["0.002,0.02", "0.01,0.1", "0.05,0.5"]), &[""]);
        with(&named("dawn", &["0.7,0.01,0.07,0.75", "0.5,0.01,0.07,0.5"]), &[""]);
        with(&named("localleap", &["0.9,0.75,4", "0.7,0.5,4"]), &[""]);
        with(&named("hierarchy", &["0.9,0.4", "0.7,0.3"]), &[""]);
        with(&named("credit", &["0.9", "0.7"]), &[""]);
        with(&["less".into(), "clad".into(), "punt:0.1".into()], &[""]);
        if self.has_head {
            with(&named("demask", &["0.1", "0.3", "0.5"]), &[""]);
        }
        if self.has_companion {
            with(&named("apd", &["0.5", "0.7"]), &[""]);
        }
        texts.iter().map(|text| text.parse()).collect()
    }

    /// Top-k from the fewest positions at a time that fit the budget on: without a veto, k positions a step take masks / k steps.
    fn top_k(&self) -> Vec<String> {
        let ks: Vec<usize> = match self.budget {
            Budget::Forwards(most) => {
                let least = (self.masks / most).ceil().max(1.0) as usize;
                std::iter::once(least).chain(LADDER.into_iter().filter(|k| *k > least)).take(STEPS).collect()
            }
            // How long a forward takes is not known yet.
            Budget::Seconds(_) => vec![1, 2, 4, 8, 16, 32],
        };
        ks.into_iter().map(|k| format!("topk:{k}")).collect()
    }

    /// Those that stand in for the default where it takes more than the budget: the same rule and discount, other parameters.
    pub fn stand_ins(&self) -> cofill::Result<Vec<SamplerSpec>> {
        let default: SamplerSpec = DEFAULT_SAMPLER.parse()?;
        if default.entry().name != "topk" {
            return Ok(Vec::new()); // of another rule, nobody knows beforehand which parameters fit
        }
        let of = |text: String| text.parse::<SamplerSpec>()?.with_discount(default.discount());
        self.top_k().into_iter().map(of).collect()
    }
}

/// Samplers that a user named, a line or a word each, with braces as in recipes; `#` begins a remark.
pub fn given(text: &str) -> Result<Vec<SamplerSpec>, String> {
    let mut samplers = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            samplers.extend(braces(line, Registry::stock())?);
        }
    }
    Ok(samplers)
}

/// Whether a sampler is meant by `pattern`: its name (`demask`), its discount (`+paths`), or all of it (`topk:4+ad`).
pub fn is_meant(sampler: &SamplerSpec, pattern: &str) -> bool {
    let text = sampler.to_string();
    let discount = text.find('+').map(|at| &text[at..]);
    let whole = pattern.parse::<SamplerSpec>().is_ok_and(|meant| meant == *sampler);
    whole
        || sampler.entry().name == pattern
        || (pattern.starts_with('+') && discount.is_some_and(|d| d == pattern || d.starts_with(&format!("{pattern}:"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_within_12() -> Setting {
        let budget = Budget::Forwards(12.0);
        Setting { budget, masks: 48.0, paths_alpha: Some(200.0), has_head: true, has_companion: false }
    }

    fn names(samplers: &[SamplerSpec]) -> Vec<String> {
        samplers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn top_k_begins_where_it_fits() {
        // 48 masks in 12 forwards are at least 4 at a time.
        assert_eq!(code_within_12().top_k(), ["topk:4", "topk:5", "topk:6", "topk:8", "topk:10", "topk:12"]);
        let odd = Setting { budget: Budget::Forwards(2.5), ..code_within_12() };
        assert_eq!(odd.top_k()[..2], ["topk:20", "topk:24"], "48 / 2.5 = 19.2");
        let roomy = Setting { budget: Budget::Forwards(100.0), ..code_within_12() };
        assert_eq!(roomy.top_k()[..2], ["topk:1", "topk:2"]);
        assert_eq!(names(&code_within_12().stand_ins().unwrap())[..2], ["topk:4+ad:40", "topk:5+ad:40"]);
    }

    #[test]
    fn the_grid_has_everybody_once() {
        let grid = names(&code_within_12().grid().unwrap());
        let mut distinct = grid.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), grid.len());
        for name in ["topk:4", "topk:4+ad:40", "fast:1+paths:200", "llada:12", "klass:0.7,1", "demask:0.3,0"] {
            assert!(grid.iter().any(|sampler| sampler == name), "{name} is not in {grid:?}");
        }
        let poor = Setting { has_head: false, paths_alpha: None, budget: Budget::Seconds(2.0), ..code_within_12() };
        let poor = names(&poor.grid().unwrap());
        assert!(poor.contains(&"fast:1+paths:100".into()));
        assert!(!poor.iter().any(|sampler| sampler.starts_with("demask") || sampler.starts_with("llada")));
    }

    #[test]
    fn users_name_their_own() {
        let own = given("topk:{2,4}{,+ad}\n# a remark\n\nklass  # another\n").unwrap();
        assert_eq!(names(&own), ["topk:2", "topk:2+ad:40", "topk:4", "topk:4+ad:40", "klass:0.7,1"]);
        assert!(given("topk:0").unwrap_err().contains("topk:K"));
        let of = |pattern: &str| {
            names(&own).into_iter().zip(&own).filter(|(_, s)| is_meant(s, pattern)).map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(of("klass"), ["klass:0.7,1"]);
        assert_eq!(of("+ad"), ["topk:2+ad:40", "topk:4+ad:40"]);
        assert_eq!(of("topk:4+ad"), ["topk:4+ad:40"]);
        assert!(of("+paths").is_empty() && of("top").is_empty());
    }
}
