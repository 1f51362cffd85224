//! The samplers of this crate, by name. A new one adds its line to [`entries`].
//!
//! Rankings and rules combine freely, so the greedy samplers (Algorithm 1) are declared here; samplers of their own
//! bring an `entry` from their file.

mod apd;
mod clad;
mod credit;
mod dapd;
mod dawn;
mod demask;
mod dos;
mod dus;
mod hierarchy;
mod klass;
mod less;
mod localleap;
mod lookum;
mod oracle;
mod origin;
mod p2;
mod punt;

use crate::adas::AttentionDiscount;
use crate::fast_dllm::{FactorForm, FastDllm};
use crate::profile::{ConfidenceProfile, DEFAULT_FACTOR, ProfileForm};
use crate::quota::{CarriedThreshold, Quota, QuotaSchedule};
use crate::ranking::{Confidence, Margin, NegEntropy, Perturbed, Random};
use crate::rule::{Bound, EntropyBound, Threshold, TopK};
use crate::spec::{Entry, Param, Values};
use crate::{Error, Greedy, Policy, Ranking, Result, StoppingRule};

/// All samplers, in the order `cofill samplers` shows them.
pub(crate) fn entries() -> Vec<Entry> {
    let k = || Param::count("K", 1, u32::MAX.into());
    let f = || Param::number("F", 0.0, f64::INFINITY);
    let tau = || Param::number("TAU", 0.0, 1.0);
    let gamma = || Param::number("GAMMA", 0.0, f64::INFINITY);
    let fast = |form| move |v: &Values| FastDllm { factor: v.param(0), form };
    let profile = |form| move |v: &Values| ConfidenceProfile { factor: v.param(0), form };
    let eb = |bound| move |v: &Values| EntropyBound { gamma: v.param(0), bound };
    vec![
        greedy("topk", "the k best", [k()], "ADAS paper", |v| TopK { k: v.count(0) }),
        greedy("fast", "n (1 - min c) < f", [f()], "ADAS paper, its Fast-dLLM rule", fast(FactorForm::Adas)),
        greedy(
            "fast-published",
            "(n+1)(1 - min c) < f",
            [f()],
            "Wu et al. 2025 (Fast-dLLM), as printed",
            fast(FactorForm::Published),
        ),
        greedy("fast-dllm", "c >= 1 - f/(n+1)", [f()], "Fast-dLLM as re-implemented in dllm", fast(FactorForm::Dllm)),
        greedy(
            "fast-upstream",
            "as fast-dllm; the last rank goes along",
            [f()],
            "Fast-dLLM's code, dInfer, DAWN",
            fast(FactorForm::Upstream),
        ),
        greedy(
            "fast-profile",
            "sum (1 - c) + (1 - min c) < f",
            [f().default(DEFAULT_FACTOR)],
            "Kasa et al. 2026 (Fast-dLLM++), f = 1 - delta",
            profile(ProfileForm::Published),
        ),
        greedy("fast-sum", "sum (1 - c) < f", [f()], "as fast-profile, with n as in fast", profile(ProfileForm::Sum)),
        greedy("threshold", "c >= tau", [tau()], "Wu et al. 2025 (Fast-dLLM)", |v| Threshold { tau: v.param(0) }),
        greedy("eb", "sum H - max H < gamma", [gamma()], "ADAS paper, its EB rule", eb(Bound::Strict)),
        greedy(
            "eb-original",
            "sum H - max H <= gamma",
            [gamma()],
            "Ben-Hamu et al. 2025 (EB-Sampler)",
            eb(Bound::Inclusive),
        ),
        greedy("llada", "a fixed number of steps, shared by blocks", [steps()], "LLaDA generate.py", |v| {
            Quota::new(v.count(0), QuotaSchedule::Llada)
        }),
        dream(),
        greedy(
            "threshold-dream",
            "c >= tau within a carried quota",
            [tau(), steps()],
            "Fast-dLLM for Dream, without blocks",
            |v| CarriedThreshold::new(v.param(0), v.count(1)),
        ),
        klass::entry(),
        less::entry(),
        dapd::entry(),
        dawn::entry(),
        clad::entry(),
        punt::entry(),
        dus::entry(),
        p2::entry(),
        lookum::entry(),
        localleap::entry(),
        hierarchy::entry(),
        credit::entry(),
        oracle::entry(),
        demask::entry(),
        apd::entry(),
    ]
}

/// A stopping rule that goes with every ranking and with `+ad`.
fn greedy<R: StoppingRule + 'static>(
    name: &str,
    about: &str,
    params: impl IntoIterator<Item = Param>,
    source: &str,
    rule: impl Fn(&Values) -> R + Send + Sync + 'static,
) -> Entry {
    let build = move |v: &Values, ad| policy(ranking(v.flag(0)), ad, rule(v));
    Entry::new(name, about, build).params(params).flags(RANKINGS).discountable().source(source)
}

fn policy(base: Box<dyn Ranking>, ad: Option<AttentionDiscount>, rule: impl StoppingRule + 'static) -> Result<Policy> {
    Ok(Policy::Commits(Box::new(Greedy::discounted(base, ad, Box::new(rule))?)))
}

/// What a greedy sampler may rank by; the first is the paper's.
const RANKINGS: [&str; 5] = ["confidence", "margin", "entropy", "random", "experimental-dos"];

fn ranking(word: &str) -> Box<dyn Ranking> {
    match word {
        "margin" => Box::new(Margin),
        "entropy" => Box::new(NegEntropy),
        "random" => Box::new(Random),
        "experimental-dos" => Box::new(dos::Support),
        _ => Box::new(Confidence),
    }
}

/// A fixed number of steps. Every step is a forward, also those that commit nothing; the limit is sixteen times the longest
/// canvas of the models at hand.
fn steps() -> Param {
    Param::count("STEPS", 1, 65_536)
}

/// Dream names its rankings itself, can draw positions at random, and has one algorithm without a ranking.
fn dream() -> Entry {
    let build = |v: &Values, ad: Option<AttentionDiscount>| {
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
        policy(base, ad, Quota::new(steps, QuotaSchedule::Dream { eps }))
    };
    Entry::new("dream", "a fixed number of steps on Dream's timesteps", build)
        .params([steps()])
        .flags(["entropy", "maskgit_plus", "topk_margin", "origin"])
        .options([Param::number("eps", 1e-9, 1.0).default(1e-3), Param::number("alg_temp", 0.0, 1e6).default(0.0)])
        .discountable()
        .source("Dream diffusion_generate")
}
