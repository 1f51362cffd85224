//! Every sampler that has a name. A new one adds its line here.
//!
//! Rankings and rules combine freely, so the greedy samplers (Algorithm 1) are declared here; samplers of their own
//! bring an `ENTRY` from their file.

mod credit;
mod dapd;
mod dawn;
mod dos;
mod dus;
mod hierarchy;
mod klass;
mod localleap;
mod lookum;
mod origin;
mod p2;
mod punt;

use crate::adas::{AttentionDiscount, AttentionDiscounted};
use crate::fast_dllm::{FactorForm, FastDllm};
use crate::quota::{CarriedThreshold, Quota, QuotaSchedule};
use crate::ranking::{Confidence, Margin, NegEntropy, Perturbed, Random};
use crate::rule::{Bound, EntropyBound, Threshold, TopK};
use crate::spec::{Entry, Param, Values};
use crate::{Error, Greedy, Policy, Ranking, Result, StoppingRule};

const K: Param = Param::count("K", 1, u32::MAX as u64);
const F: Param = Param::number("F", 0.0, f64::INFINITY);
const TAU: Param = Param::number("TAU", 0.0, 1.0);
const GAMMA: Param = Param::number("GAMMA", 0.0, f64::INFINITY);
/// Sixteen times the longest canvas of the models at hand; every step is a forward, also those that commit nothing.
const STEPS: Param = Param::count("STEPS", 1, 65_536);

/// What a greedy sampler may rank by; the first is the paper's.
const RANKINGS: &[&str] = &["confidence", "margin", "entropy", "random", "experimental-dos"];

fn ranking(word: &str) -> Box<dyn Ranking> {
    match word {
        "margin" => Box::new(Margin),
        "entropy" => Box::new(NegEntropy),
        "random" => Box::new(Random),
        "experimental-dos" => Box::new(dos::Support),
        _ => Box::new(Confidence),
    }
}

/// A ranking, discounted or not, and a rule.
fn algorithm_1(
    base: Box<dyn Ranking>,
    ad: Option<AttentionDiscount>,
    rule: impl StoppingRule + 'static,
) -> Result<Policy> {
    let ranking = match ad {
        // The discount would otherwise silently replace the base ranking's layer.
        Some(ad) if base.needs().attention.is_some_and(|layers| layers != ad.layers) => {
            let layers = base.needs().attention.expect("just matched");
            return Err(Error::TwoAttentionSources(layers.to_string(), ad.layers.to_string()));
        }
        Some(ad) => Box::new(AttentionDiscounted::new(base, ad)),
        None => base,
    };
    Ok(Policy::Commits(Box::new(Greedy::new(ranking, Box::new(rule))?)))
}

/// A rule that goes with every ranking and with `+ad`.
macro_rules! greedy {
    ($name:literal, $about:literal, $params:expr, $source:literal, $rule:expr) => {
        Entry {
            name: $name,
            about: $about,
            params: &$params,
            flags: &[RANKINGS],
            options: &[],
            discountable: true,
            source: $source,
            build: |v, ad| algorithm_1(ranking(v.flag(0)), ad, $rule(v)),
        }
    };
}

/// All samplers, in the order `cofill samplers` shows them.
pub const REGISTRY: &[Entry] = &[
    greedy!("topk", "the k best", [K], "ADAS paper", |v: &Values| TopK { k: v.count(0) }),
    greedy!("fast", "n (1 - min c) < f", [F], "ADAS paper, its Fast-dLLM rule", |v| fast(v, FactorForm::Adas)),
    greedy!("fast-published", "(n+1)(1 - min c) < f", [F], "Wu et al. 2025 (Fast-dLLM), as printed", |v| {
        fast(v, FactorForm::Published)
    }),
    greedy!("fast-dllm", "c >= 1 - f/(n+1)", [F], "Fast-dLLM as re-implemented in dllm", |v| {
        fast(v, FactorForm::Dllm)
    }),
    greedy!("fast-upstream", "as fast-dllm; the last rank goes along", [F], "Fast-dLLM's code, dInfer, DAWN", |v| {
        fast(v, FactorForm::Upstream)
    }),
    greedy!("threshold", "c >= tau", [TAU], "Wu et al. 2025 (Fast-dLLM)", |v: &Values| Threshold { tau: v.param(0) }),
    greedy!("eb", "sum H - max H < gamma", [GAMMA], "ADAS paper, its EB rule", |v| eb(v, Bound::Strict)),
    greedy!("eb-original", "sum H - max H <= gamma", [GAMMA], "Ben-Hamu et al. 2025 (EB-Sampler)", |v| {
        eb(v, Bound::Inclusive)
    }),
    greedy!("llada", "a fixed number of steps, shared by blocks", [STEPS], "LLaDA generate.py", |v: &Values| {
        Quota::new(v.count(0), QuotaSchedule::Llada)
    }),
    DREAM,
    greedy!(
        "threshold-dream",
        "c >= tau within a carried quota",
        [TAU, STEPS],
        "Fast-dLLM for Dream, without blocks",
        |v: &Values| CarriedThreshold::new(v.param(0), v.count(1))
    ),
    klass::ENTRY,
    dapd::ENTRY,
    dawn::ENTRY,
    punt::ENTRY,
    dus::ENTRY,
    p2::ENTRY,
    lookum::ENTRY,
    localleap::ENTRY,
    hierarchy::ENTRY,
    credit::ENTRY,
];

fn fast(v: &Values, form: FactorForm) -> FastDllm {
    FastDllm { factor: v.param(0), form }
}

fn eb(v: &Values, bound: Bound) -> EntropyBound {
    EntropyBound { gamma: v.param(0), bound }
}

/// Dream names its rankings itself, can draw positions at random, and has one algorithm without a ranking.
const DREAM: Entry = Entry {
    name: "dream",
    about: "a fixed number of steps on Dream's timesteps",
    params: &[STEPS],
    flags: &[&["entropy", "maskgit_plus", "topk_margin", "origin"]],
    options: &[Param::number("eps", 1e-9, 1.0).default(1e-3), Param::number("alg_temp", 0.0, 1e6).default(0.0)],
    discountable: true,
    source: "Dream diffusion_generate",
    build: |v, ad| {
        let (steps, eps, alg_temp) = (v.count(0), v.option(0), v.option(1));
        let base: Box<dyn Ranking> = match v.flag(0) {
            "maskgit_plus" => Box::new(Confidence),
            "topk_margin" => Box::new(Margin),
            "entropy" => Box::new(NegEntropy),
            _ if ad.is_some() => {
                let (name, accepted) = ("dream@origin".into(), "`dream`'s other algorithms".into());
                return Err(Error::NotDiscountable { name, accepted });
            }
            _ if alg_temp > 0.0 => {
                let (name, problem, option) = ("dream@origin".into(), "has no order for", "alg_temp".into());
                return Err(Error::Option { name, problem, option, accepted: "`@eps=`".into() });
            }
            _ => return Ok(Policy::Commits(Box::new(origin::Origin::new(steps, eps)))),
        };
        let base = match alg_temp > 0.0 {
            true => Box::new(Perturbed { base, temperature: alg_temp }),
            false => base,
        };
        algorithm_1(base, ad, Quota::new(steps, QuotaSchedule::Dream { eps }))
    },
};
