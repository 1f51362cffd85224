//! What holds for every step, on random confidences, entropies, margins and attention.
//!
//! Half of the steps are made of multiples of 1/8, so that ties and exact equality with a bound happen all the time.

use crate::support::{EXAMPLES, spec};
use cofill::adas::AttentionDiscount;
use cofill::control::{Control, ControlMatrix};
use cofill::{Attention, Distributions, Layers, Needs, Picks, Proposal, Registry, SamplerSpec, Slot, Snapshot, Style};
use proptest::collection::vec;
use proptest::prelude::*;

/// One step's numbers.
#[derive(Debug, Clone)]
struct Numbers {
    confidence: Vec<f64>,
    entropy: Vec<f64>,
    margin: Vec<f64>,
    attention: Vec<Vec<f64>>, // [query][key]
    seed: u64,
}

impl Numbers {
    fn len(&self) -> usize {
        self.confidence.len()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.confidence)
            .entropy(&self.entropy)
            .margin(&self.margin)
            .attention(Attention::from_rows(&self.attention).unwrap())
            .seed(self.seed)
    }

    /// What a decode's first step would pick; unlike `Snapshot::select`, this asks samplers that count steps too.
    fn select(&self, sampler: &str) -> Picks {
        let picks = self.snapshot().ask(&mut spec(sampler).build().unwrap());
        picks.unwrap_or_else(|error| panic!("`{sampler}`: {error}"))
    }

    fn order(&self, sampler: &str) -> Vec<usize> {
        self.select(sampler).positions()
    }

    /// c_i − α Σ_{s∈S} A[i,s] (1 − c_s), from scratch.
    fn utility(&self, alpha: f64, i: usize, chosen: &[usize]) -> f64 {
        let c = &self.confidence;
        let sum: f64 = chosen.iter().map(|&s| self.attention[i][s] * (1.0 - c[s])).sum();
        c[i] - alpha * sum
    }

    /// The step with position i moved to `to[i]`.
    fn permuted(&self, to: &[usize]) -> Numbers {
        let mut moved = self.clone();
        for (i, &p) in to.iter().enumerate() {
            moved.confidence[p] = self.confidence[i];
            moved.entropy[p] = self.entropy[i];
            moved.margin[p] = self.margin[i];
            for (j, &q) in to.iter().enumerate() {
                moved.attention[p][q] = self.attention[i][j];
            }
        }
        moved
    }
}

/// A probability; with `coarse`, a multiple of 1/8.
fn probability(coarse: bool) -> BoxedStrategy<f64> {
    match coarse {
        true => (0..=8u8).prop_map(|n| f64::from(n) / 8.0).boxed(),
        false => (0.0..=1.0f64).boxed(),
    }
}

fn numbers_of(n: usize, coarse: bool) -> impl Strategy<Value = Numbers> {
    let p = || probability(coarse);
    // Most attention is none at all; real heads look like that, and dense noise would hide a wrong index.
    let a = prop_oneof![2 => Just(0.0), 1 => p()];
    let entropy = p().prop_map(|h| 4.0 * h);
    (vec(p(), n), vec(entropy, n), vec(p(), n), vec(vec(a, n), n), any::<u64>()).prop_map(
        |(confidence, entropy, margin, attention, seed)| Numbers { confidence, entropy, margin, attention, seed },
    )
}

fn numbers() -> impl Strategy<Value = Numbers> {
    (1..24usize, any::<bool>()).prop_flat_map(|(n, coarse)| numbers_of(n, coarse))
}

/// Multiples of 1/8.
fn coarse_numbers() -> impl Strategy<Value = Numbers> {
    (1..24usize).prop_flat_map(|n| numbers_of(n, true))
}

/// No two alike.
fn distinct_numbers() -> impl Strategy<Value = Numbers> {
    (1..24usize).prop_flat_map(|n| numbers_of(n, false))
}

fn alpha() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(40.0), 0.0..100.0f64]
}

/// Every rule that can be discounted, with every ranking it has (`fast:x@margin`); `x` and `k` are its parameters.
fn discountable(x: f64, k: usize) -> Vec<String> {
    let mut samplers = Vec::new();
    for entry in Registry::stock().entries().iter().filter(|entry| entry.discountable) {
        let params = match entry.name.as_str() {
            "topk" | "llada" | "dream" => format!("{k}"),
            "threshold-dream" => format!("{x},{k}"),
            _ => format!("{x}"),
        };
        for word in entry.flags[0].iter().filter(|word| **word != "origin") {
            samplers.push(format!("{}:{params}@{word}", entry.name));
        }
    }
    samplers
}

#[test]
fn the_list_of_discountable_samplers_is_whole() {
    // Twelve greedy rules with five rankings each, and Dream's own three.
    let samplers = discountable(0.5, 3);
    assert_eq!(samplers.len(), 12 * 5 + 3);
    samplers.iter().for_each(|sampler| drop(spec(&format!("{sampler}+ad"))));
}

/// Whether a rule, as its paper prints it, admits a set.
type Admits<'a> = &'a dyn Fn(&[usize]) -> bool;

fn is_prefix(short: &[usize], long: &[usize]) -> bool {
    long.starts_with(short)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn without_alpha_it_is_the_base_sampler(step in numbers(), x in 0.0..=1.0f64, k in 1..30usize) {
        for sampler in discountable(x, k) {
            let (base, discounted) = (step.select(&sampler), step.select(&format!("{sampler}+ad:0")));
            prop_assert_eq!(&base[..], &discounted[..], "{}", sampler);
            prop_assert_eq!(base.forced, discounted.forced);
            prop_assert!(discounted.deferral.is_none(), "{}", sampler);
            let paths = step.select(&format!("{sampler}+paths:0"));
            prop_assert_eq!(&base[..], &paths[..], "{}", sampler);
            prop_assert!(paths.deferral.is_none() && base.forced == paths.forced, "{}", sampler);
        }
    }

    #[test]
    fn the_first_pick_does_not_depend_on_alpha(step in numbers(), alpha in alpha(), x in 0.0..=1.0f64) {
        for ranking in ["confidence", "margin", "entropy", "random"] {
            let base = format!("topk:1@{ranking}");
            prop_assert_eq!(step.order(&base), step.order(&format!("{base}+ad:{alpha}")));
        }
        for sampler in discountable(x, 5) {
            // Dream's schedule may wait; then there is no first pick.
            let (base, discounted) = (step.order(&sampler), step.order(&format!("{sampler}+ad:{alpha}")));
            prop_assert_eq!(base.first(), discounted.first(), "{}", sampler);
            let paths = step.order(&format!("{sampler}+paths:{alpha}"));
            prop_assert_eq!(base.first(), paths.first(), "{}", sampler);
        }
    }

    #[test]
    fn every_rule_cuts_one_and_the_same_order(
        step in numbers(), alpha in alpha(), x in 0.0..=1.0f64, y in 0.0..20.0f64, k in 1..30usize,
    ) {
        let n = step.len();
        for ranking in ["confidence", "margin", "entropy", "random", "experimental-dos"] {
            let suffix = format!("@{ranking}+ad:{alpha}");
            let order = step.order(&format!("topk:{n}{suffix}"));
            prop_assert_eq!(order.len(), n);
            let rules = [
                format!("topk:{k}"), format!("fast:{x}"), format!("fast:{y}"), format!("fast-published:{y}"),
                format!("fast-dllm:{y}"), format!("fast-upstream:{y}"), format!("threshold:{x}"), format!("eb:{y}"),
                format!("eb-original:{x}"), format!("llada:{k}"), format!("threshold-dream:{x},{k}"),
                format!("fast-profile:{x}"), format!("fast-profile:{y}"), format!("fast-sum:{y}"),
            ];
            for rule in rules {
                let picked = step.order(&format!("{rule}{suffix}"));
                // Whom a rule refuses alone may sit the step out; `a_rule_that_admits_somebody_forces_nobody` says who and when.
                if ranking == "confidence" || picked[0] == order[0] {
                    prop_assert!(is_prefix(&picked, &order), "{}{}: {:?} of {:?}", rule, suffix, picked, order);
                }
            }
        }
    }

    #[test]
    fn a_rule_that_admits_somebody_forces_nobody(
        step in numbers(), alpha in alpha(), x in 0.0..=1.0f64, k in 1..30usize,
    ) {
        let n = step.len();
        for base in discountable(x, k).into_iter().chain(["eb:0@entropy".into(), "fast:0@random".into()]) {
            for sampler in [base.clone(), format!("{base}+ad:{alpha}")] {
                let shown = |candidates: &[usize]| {
                    step.snapshot().candidates(candidates).ask(&mut spec(&sampler).build().unwrap()).unwrap()
                };
                // Shown by itself, a candidate is forced exactly if the rule refuses it alone.
                let refused = |i: usize| shown(&[i]).forced;
                let picks = step.select(&sampler);
                let Some(first) = picks.first() else { continue }; // Dream's schedule may wait
                prop_assert_eq!(picks.forced, refused(first.position), "{}", sampler);
                if picks.forced {
                    prop_assert!(picks.len() == 1 && (0..n).all(refused), "{} forces {:?}", sampler, picks.positions());
                }
                // What goes first is the best that is admitted: who sits the step out is refused, and without them nothing changes.
                let options = base.split_once('@').map_or("", |(_, ranking)| ranking);
                if ["margin", "entropy", "random"].contains(&options) && !picks.forced {
                    let order = step.order(&format!("topk:{n}@{options}"));
                    let at = order.iter().position(|i| *i == first.position).expect("it is in the order");
                    let (out, rest) = order.split_at(at);
                    prop_assert!(out.iter().all(|&i| refused(i)), "{}: {:?} of {:?}", sampler, picks.positions(), order);
                    let mut rest = rest.to_vec();
                    rest.sort_unstable();
                    prop_assert_eq!(picks.positions(), shown(&rest).positions(), "{}", sampler);
                }
            }
        }
    }

    #[test]
    fn a_looser_rule_takes_a_superset(
        step in numbers(), alpha in alpha(), mut xs in [0.0..=1.0f64, 0.0..=1.0f64], scale in 1.0..30.0f64,
    ) {
        xs.sort_by(f64::total_cmp);
        let [tight, loose] = xs.map(|x| scale * x);
        let [low, high] = xs;
        let [few, many] = xs.map(|x| 1 + (scale * x) as usize);
        let mut pairs = vec![
            (format!("topk:{few}"), format!("topk:{many}")),
            (format!("threshold:{high}"), format!("threshold:{low}")), // τ falls
        ];
        for rule in ["fast", "fast-published", "fast-dllm", "fast-upstream", "fast-profile", "fast-sum", "eb", "eb-original"] {
            pairs.push((format!("{rule}:{tight}"), format!("{rule}:{loose}")));
        }
        for (tight, loose) in pairs {
            for suffix in [String::new(), format!("+ad:{alpha}"), format!("@entropy+ad:{alpha}")] {
                let (small, large) = (step.select(&format!("{tight}{suffix}")), step.order(&format!("{loose}{suffix}")));
                let (small, forced) = (small.positions(), small.forced);
                // By entropy, the tight rule may go on without a leader whom the loose one takes, or force one whom it leaves out.
                if suffix.starts_with('@') && (forced || small[..1] != step.order("topk:1@entropy")) {
                    continue;
                }
                prop_assert!(is_prefix(&small, &large), "{}{} {:?}, {} {:?}", tight, suffix, small, loose, large);
            }
        }
    }

    #[test]
    fn the_utility_is_the_formula_and_each_pick_is_its_argmax(step in numbers(), alpha in alpha()) {
        let n = step.len();
        let picks = step.select(&format!("topk:{n}+ad:{alpha}"));
        let order = picks.positions();
        for (t, pick) in picks.iter().enumerate() {
            let chosen = &order[..t];
            let u = step.utility(alpha, pick.position, chosen);
            prop_assert!((pick.utility - u).abs() < 1e-9, "u = {}, the formula says {}", pick.utility, u);
            prop_assert_eq!(pick.score, pick.confidence);
            // Those without any confidence come after all others, and are compared among themselves.
            let waits = |i: &usize| step.confidence[*i] <= 0.0 && pick.confidence > 0.0;
            for other in (0..n).filter(|i| !order[..=t].contains(i) && !waits(i)) {
                let v = step.utility(alpha, other, chosen);
                // Rounding may part what the formula says is a tie, and nothing more.
                prop_assert!(v < u + 1e-9, "{} has {} and waits for {} with {}", other, v, pick.position, u);
            }
        }
    }

    #[test]
    fn the_cut_is_where_the_rule_says(step in coarse_numbers(), k in 1..30usize, eighths in 0..80u32) {
        // Multiples of 1/8, so that sums and products are exact and every bound is met exactly now and then.
        let x = f64::from(eighths) / 8.0;
        let tau = f64::from(eighths % 9) / 8.0;
        let order = step.order(&format!("topk:{}", step.len()));
        let n = |set: &[usize]| set.len() as f64;
        let min_c = |set: &[usize]| set.iter().map(|&i| step.confidence[i]).fold(1.0, f64::min);
        let dependence = |set: &[usize]| {
            let h = set.iter().map(|&i| step.entropy[i]);
            h.clone().sum::<f64>() - h.fold(0.0, f64::max)
        };
        let dllm = |set: &[usize]| set.len() == 1 || min_c(set) >= 1.0 - x / (n(set) + 1.0);
        let doubt = |set: &[usize]| set.iter().map(|&i| 1.0 - step.confidence[i]).sum::<f64>();
        let rules: [(String, Admits<'_>); 10] = [
            (format!("topk:{k}"), &|set| set.len() <= k),
            (format!("threshold:{tau}"), &|set| min_c(set) >= tau),
            (format!("fast:{x}"), &|set| n(set) * (1.0 - min_c(set)) < x),
            (format!("fast-published:{x}"), &|set| (n(set) + 1.0) * (1.0 - min_c(set)) < x),
            (format!("fast-dllm:{x}"), &dllm),
            (format!("fast-upstream:{x}"), &|set| dllm(set) || set.len() == step.len()),
            (format!("fast-profile:{x}"), &|set| set.len() == 1 || doubt(set) + 1.0 - min_c(set) < x),
            (format!("fast-sum:{x}"), &|set| doubt(set) < x),
            (format!("eb:{x}"), &|set| dependence(set) < x),
            (format!("eb-original:{x}"), &|set| dependence(set) <= x),
        ];
        for (sampler, admits) in rules {
            let admitted = (1..=order.len()).take_while(|&n| admits(&order[..n])).count();
            let picks = step.select(&sampler);
            prop_assert_eq!(picks.positions(), &order[..admitted.max(1)], "{}", sampler);
            prop_assert_eq!(picks.forced, admitted == 0, "{}", sampler);
        }
    }

    #[test]
    fn a_profile_takes_at_least_what_its_weakest_member_allows(step in numbers(), alpha in alpha(), x in 0.0..4.0f64) {
        // Σ (1 − c) ≤ n (1 − min c), with equality only if all are equally sure.
        for (factor, profile) in [("fast-published", "fast-profile"), ("fast", "fast-sum")] {
            for suffix in [String::new(), format!("+ad:{alpha}")] {
                let few = step.order(&format!("{factor}:{x}{suffix}"));
                // Rounding may part what is equal: a sum of n terms and a product by n.
                let many = step.order(&format!("{profile}:{}{suffix}", x + 1e-9));
                prop_assert!(is_prefix(&few, &many), "{}:{}{} {:?}, {} {:?}", factor, x, suffix, few, profile, many);
            }
        }
    }

    #[test]
    fn what_has_no_confidence_goes_last(step in coarse_numbers(), alpha in alpha(), k in 1..24usize) {
        for sampler in discountable(1.0, k) {
            for sampler in [sampler.clone(), format!("{sampler}+ad:{alpha}")] {
                let order = step.order(&sampler);
                let sure = |i: &usize| step.confidence[*i] > 0.0;
                let in_order = order.is_sorted_by_key(|i| !sure(i));
                prop_assert!(in_order, "{}: {:?} of {:?}", sampler, order, step.confidence);
                let left = (0..step.len()).any(|i| sure(&i) && !order.contains(&i));
                prop_assert!(!left || order.iter().all(sure), "{}: {:?} of {:?}", sampler, order, step.confidence);
            }
        }
    }

    #[test]
    fn ties_go_to_the_lower_position(step in coarse_numbers()) {
        // A stable sort, largest first, is that rule.
        let mut order: Vec<usize> = (0..step.len()).collect();
        order.sort_by(|&a, &b| step.confidence[b].total_cmp(&step.confidence[a]));
        prop_assert_eq!(step.order(&format!("topk:{}", step.len())), order);
    }

    #[test]
    fn a_deferral_is_the_first_departure_from_the_base_order(step in numbers(), alpha in alpha(), k in 1..24usize) {
        let base = step.order(&format!("topk:{}", step.len()));
        let picks = step.select(&format!("topk:{k}+ad:{alpha}"));
        let order = picks.positions();
        // The leader of the base order among those not yet chosen, at the first pick that is somebody else.
        let parted = (0..order.len()).find_map(|t| {
            let leader = *base.iter().find(|i| !order[..t].contains(i))?;
            (leader != order[t]).then_some((t, leader))
        });
        let Some((t, leader)) = parted else {
            prop_assert!(picks.deferral.is_none());
            return Ok(());
        };
        let deferral = picks.deferral.expect("the orders part");
        prop_assert_eq!((deferral.deferred.0, deferral.instead), (leader, Some(Slot(order[t]))));
        let loss = |s: usize| alpha * step.attention[leader][s] * (1.0 - step.confidence[s]);
        let most = order[..t].iter().map(|&s| loss(s)).fold(0.0, f64::max);
        prop_assert!((deferral.discount - most).abs() < 1e-9 && (loss(deferral.by.0) - most).abs() < 1e-9);
    }

    #[test]
    fn renaming_positions_renames_the_picks(
        (step, to) in distinct_numbers().prop_flat_map(|step| {
            let identity: Vec<usize> = (0..step.len()).collect();
            (Just(step), Just(identity).prop_shuffle())
        }),
        alpha in alpha(), x in 0.0..=1.0f64, y in 0.0..20.0f64, k in 1..24usize,
    ) {
        // Without ties nothing may depend on where a position stands. (Random rankings draw by position; DUS, LocalLeap, CLAD
        // and hierarchy look at neighbours; DOS scores are all 0 when nothing is revealed.)
        let moved = step.permuted(&to);
        let rules = [
            format!("topk:{k}"), format!("fast:{y}"), format!("fast-published:{y}"), format!("fast-dllm:{y}"),
            format!("fast-upstream:{y}"), format!("threshold:{x}"), format!("eb:{y}"), format!("eb-original:{y}"),
            format!("llada:{k}"), format!("dream:{k}"), format!("threshold-dream:{x},{k}"), format!("fast-profile:{y}"),
            format!("fast-sum:{y}"),
        ];
        for rule in rules {
            let rankings: &[&str] = match rule.starts_with("dream") {
                true => &["@entropy", "@maskgit_plus", "@topk_margin"],
                false => &["", "@entropy", "@margin"],
            };
            let discounts = [format!("ad:{alpha}"), format!("ad:{alpha}@doubt@veto")];
            let samplers = rankings.iter().flat_map(|ranking| {
                discounts.iter().map(move |discount| (ranking, discount))
            });
            for sampler in samplers.map(|(ranking, discount)| format!("{rule}{ranking}+{discount}")) {
                let here: Vec<usize> = step.order(&sampler).into_iter().map(|i| to[i]).collect();
                prop_assert_eq!(here, moved.order(&sampler), "{}", sampler);
            }
        }
        let as_set = |numbers: &Numbers| {
            let mut set = numbers.order(&format!("dawn:{x},1,0.1,{x}"));
            set.sort_unstable();
            set
        };
        let mut here: Vec<usize> = as_set(&step).into_iter().map(|i| to[i]).collect();
        here.sort_unstable();
        prop_assert_eq!(here, as_set(&moved), "dawn");
    }

    #[test]
    fn every_selection_is_a_set_of_candidates(
        step in numbers(), keep in vec(any::<bool>(), 24), rows in vec(vec(0.01..1.0f32, 6), 24),
    ) {
        let n = step.len();
        let mut candidates: Vec<usize> = (0..n).filter(|&i| keep[i]).collect();
        if candidates.is_empty() {
            candidates.push(n - 1);
        }
        let distribution = |row: &Vec<f32>| {
            let sum: f32 = row.iter().sum();
            row.iter().map(|p| p / sum).collect::<Vec<_>>()
        };
        let p: Vec<f32> = rows[..candidates.len()].iter().flat_map(distribution).collect();
        let snapshot = step.snapshot().candidates(&candidates).distributions(Distributions::new(6, p).unwrap());
        // Those that probe or remask need more than one forward; decode.rs has them.
        let needs_more = |sampler: &str| ["punt", "lookum", "p2", "oracle", "apd"].contains(&spec(sampler).entry().name.as_str());
        for &sampler in EXAMPLES {
            let picked = match snapshot.ask(&mut spec(sampler).build().unwrap()) {
                Ok(picks) => picks.positions(),
                Err(cofill::Error::NeedsDecode { .. }) if needs_more(sampler) => continue,
                Err(error) => panic!("`{sampler}`: {error}"),
            };
            prop_assert!(picked.iter().all(|i| candidates.contains(i)), "{}: {:?}", sampler, picked);
            let mut once = picked.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), picked.len(), "{}: {:?}", sampler, picked);
            let may_wait = sampler.starts_with("dream") || sampler.starts_with("p2");
            prop_assert!(may_wait || !picked.is_empty(), "{} picked nothing", sampler);
        }
    }

    #[test]
    fn a_control_keeps_what_it_says_and_nothing_else(step in distinct_numbers()) {
        let (n, a) = (step.len(), &step.attention);
        let others = |i: usize| (0..n).filter(move |&j| j != i);
        let make = |control| {
            let needs = Needs::default().attention(Layers::Last);
            step.snapshot().view(&needs, |view| Ok(ControlMatrix::new(control).of(view).clone())).unwrap()
        };
        for control in Control::ALL {
            let b = make(control);
            prop_assert!((0..n).all(|i| b.get(i, i) == a[i][i]), "{}: the diagonal stays", control);
            for (i, row) in a.iter().enumerate() {
                let (before, after): (f64, f64) = others(i).fold((0.0, 0.0), |(x, y), j| (x + row[j], y + b.get(i, j)));
                let kept = (before - after).abs() < 1e-9;
                prop_assert!(kept || control == Control::Transposed, "{}: row {} sums to {}, not {}", control, i, after, before);
                for j in others(i) {
                    match control {
                        Control::Transposed => prop_assert_eq!(b.get(i, j), a[j][i]),
                        Control::Shuffled => prop_assert!(others(i).any(|k| row[k] == b.get(i, j))),
                        Control::RowMean => prop_assert!((b.get(i, j) - before / (n - 1) as f64).abs() < 1e-12),
                        // Nearer is more, at equal distance the same.
                        Control::Distance => {
                            let nearer = |k: usize| k.abs_diff(i) < j.abs_diff(i);
                            prop_assert!(others(i).filter(|&k| nearer(k)).all(|k| b.get(i, k) >= b.get(i, j)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_discount_on_a_spec_is_the_one_that_is_written(step in numbers(), alpha in alpha()) {
        let base = spec("eb:2");
        let discount = AttentionDiscount { alpha, ..AttentionDiscount::default() };
        let made: SamplerSpec = base.with_discount(Some(discount)).unwrap();
        prop_assert_eq!(&made, &spec(&format!("eb:2+ad:{alpha}")));
        prop_assert_eq!(step.snapshot().select(&made).unwrap().positions(), step.order(&made.to_string()));
        prop_assert_eq!(made.with_discount(None).unwrap(), base);
    }
}

/// −Σ p ln p.
fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// Finite numbers of every size, and −∞.
fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => -30.0..30.0f32,
        1 => Just(f32::NEG_INFINITY),
        1 => prop_oneof![Just(f32::MAX), Just(f32::MIN), Just(0.0), Just(-0.0), Just(f32::MIN_POSITIVE)],
        1 => any::<f32>().prop_filter("finite", |l| l.is_finite()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_flatter_distribution_never_outranks_a_sharper_one(
        weights in vec(0.001..1.0f64, 2..20), share in 0.02..=1.0f64, step in 0..5usize,
    ) {
        let (sum, v) = (weights.iter().sum::<f64>(), weights.len() as f64);
        let sharp: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        // Mixing with the uniform distribution flattens: H is concave and the uniform has the most of it.
        let flat: Vec<f64> = sharp.iter().map(|p| (1.0 - share) * p + share / v).collect();
        prop_assume!(entropy(&flat) - entropy(&sharp) > 1e-4); // logits are f32
        let propose = |p: &[f64]| {
            let logits: Vec<f32> = p.iter().map(|p| p.ln() as f32).collect();
            Proposal::greedy().propose(&logits, u32::MAX, step, 0).unwrap()
        };
        let rows = [propose(&flat), propose(&sharp)];
        prop_assert!((rows[0].entropy - entropy(&flat)).abs() < 1e-5);
        let snapshot = Snapshot::new(&rows.map(|r| r.confidence))
            .entropy(&rows.map(|r| r.entropy))
            .margin(&rows.map(|r| r.margin));
        // The flatter one comes first, so a tie would be its gain.
        for sampler in ["topk:2@entropy", "eb-original:100@entropy", "llada:1@entropy", "dream:1"] {
            let picks = snapshot.ask(&mut spec(sampler).build().unwrap()).unwrap();
            prop_assert_eq!(picks.positions(), [1, 0], "{}", sampler);
        }
    }

    #[test]
    fn a_proposal_is_never_the_mask_and_its_statistics_are_a_distribution(
        logits in vec(logit(), 1..40), mask in 0..40u32, position in 0..9usize,
        temperature in prop_oneof![Just(0.0), 0.01..3.0f64],
        style in prop_oneof![
            Just(Style::Clean),
            (proptest::option::of(0.01..=1.0f64), proptest::option::of(1..40usize))
                .prop_map(|(top_p, top_k)| Style::Filtered { top_p, top_k }),
        ],
    ) {
        let proposal = Proposal::sampled(temperature, 5).style(style);
        let others = (0..).zip(&logits).any(|(id, l)| id != mask && *l > f32::NEG_INFINITY);
        match proposal.propose(&logits, mask, 2, position) {
            Ok(row) => {
                prop_assert!(row.token != mask && (row.token as usize) < logits.len());
                prop_assert!(logits[row.token as usize] > f32::NEG_INFINITY, "an impossible token");
                prop_assert!((row.confidence + row.uncertainty - 1.0).abs() < 1e-9, "{:?}", row);
                prop_assert!((0.0..=1.0).contains(&row.confidence) && (0.0..=1.0).contains(&row.margin), "{:?}", row);
                prop_assert!(row.entropy >= 0.0 && row.entropy < (logits.len() as f64).ln() + 1e-9, "{:?}", row);
            }
            // Filters may leave nothing but the mask; clean logits only when nothing else was there.
            Err(cofill::Error::NothingToPropose { position: at }) => {
                prop_assert_eq!(at, position);
                prop_assert!(!others || style != Style::Clean);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn statistics_are_those_of_the_clean_softmax(logits in vec(-8.0..8.0f32, 2..30), temperature in 0.1..3.0f64) {
        let row = Proposal::greedy().propose(&logits, u32::MAX, 0, 0).unwrap();
        let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        let p: Vec<f64> = logits.iter().map(|&l| f64::from(l).exp() / sum).collect();
        prop_assert!(p.iter().all(|&p| row.confidence >= p - 1e-12));
        prop_assert!((row.confidence - p[row.token as usize]).abs() < 1e-12);
        prop_assert!((row.entropy - entropy(&p)).abs() < 1e-9);
        let mut sorted = p.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        prop_assert!((row.margin - (sorted[0] - sorted[1])).abs() < 1e-12);
        // A temperature changes which token is proposed, and the confidence only through that.
        let sampled = Proposal::sampled(temperature, 1).propose(&logits, u32::MAX, 0, 0).unwrap();
        prop_assert!((sampled.confidence - p[sampled.token as usize]).abs() < 1e-12);
        prop_assert!((sampled.margin - row.margin).abs() < 1e-12 && (sampled.entropy - row.entropy).abs() < 1e-12);
    }
}

#[test]
fn noise_is_another_for_every_seed_step_and_position() {
    // Forty equal tokens: two draws agree once in forty times, thirty draws never.
    let token = |seed, step, position| {
        Proposal::sampled(1.0, seed).propose(&[0.0; 40], u32::MAX, step, position).unwrap().token
    };
    assert_eq!(token(1, 2, 3), token(1, 2, 3));
    let differs = |draw: &dyn Fn(usize) -> u32| (1..30).any(|n| draw(n) != draw(0));
    assert!(differs(&|n| token(n as u64, 2, 3)), "by seed");
    assert!(differs(&|n| token(1, n, 3)), "by step");
    assert!(differs(&|n| token(1, 2, n)), "by position");
}
