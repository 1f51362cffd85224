//! Influence along paths, the doubt and the veto: against the definition, computed from scratch, and on whole decodes.

use crate::support::{MASK, Setup, spec};
use cofill::adas::{AttentionDiscount, Influence};
use cofill::paths::Paths;
use cofill::toy::Toy;
use cofill::{Attention, Picks, RowStats, Slot, Snapshot, TokenId};
use proptest::collection::vec;
use proptest::prelude::*;

/// One step: confidences, and attention whose rows sum to at most 1.
#[derive(Debug, Clone)]
struct Numbers {
    confidence: Vec<f64>,
    attention: Vec<Vec<f64>>, // [query][key]
}

/// What s takes from i.
type Loss<'a> = &'a dyn Fn(usize, usize) -> f64;

impl Numbers {
    fn len(&self) -> usize {
        self.confidence.len()
    }

    fn matrix(&self) -> Attention {
        Attention::from_rows(&self.attention).unwrap()
    }

    fn select(&self, sampler: &str) -> Picks {
        let entropy: Vec<f64> = self.confidence.iter().map(|c| 3.0 * (1.0 - c)).collect();
        let step = Snapshot::new(&self.confidence).entropy(&entropy).margin(&self.confidence).attention(self.matrix());
        step.ask(&mut spec(sampler).build().unwrap()).unwrap_or_else(|error| panic!("`{sampler}`: {error}"))
    }

    fn doubt(&self, i: usize) -> f64 {
        1.0 - self.confidence[i]
    }

    /// T[i,j] = A[i,j] (1 − c_j), without its diagonal; and the number it is scaled by.
    fn hops(&self) -> (Vec<Vec<f64>>, f64) {
        let n = self.len();
        let hop = |i: usize, j: usize| if i == j { 0.0 } else { self.attention[i][j] * self.doubt(j) };
        let t: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| hop(i, j)).collect()).collect();
        let most = t.iter().map(|row| row.iter().sum::<f64>()).fold(0.0, f64::max);
        (t, if most > 0.9 { 0.9 / most } else { 1.0 })
    }

    /// R = (I − T)⁻¹ T by Gaussian elimination, with the guard. `[i][s]`
    fn influence(&self) -> Vec<Vec<f64>> {
        let n = self.len();
        let (t, scale) = self.hops();
        // [I − γT | γT], then rows are cleared one column after the other.
        let mut rows: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let left = (0..n).map(|j| f64::from(u8::from(i == j)) - scale * t[i][j]);
                left.chain(t[i].iter().map(|t| scale * t)).collect()
            })
            .collect();
        for pivot in 0..n {
            let best = (pivot..n).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs())).unwrap();
            rows.swap(pivot, best);
            let whole = rows[pivot].clone();
            for (i, row) in rows.iter_mut().enumerate() {
                let factor = if i == pivot { 1.0 - 1.0 / whole[pivot] } else { row[pivot] / whole[pivot] };
                row.iter_mut().zip(&whole).for_each(|(x, w)| *x -= factor * w);
            }
        }
        rows.iter().map(|row| row[n..].iter().map(|r| r / scale).collect()).collect()
    }

    /// Algorithm 1 from its definition: what each of `chosen` takes from i is `loss(i, s)`; Top-k, with or without the zero.
    fn greedy(&self, k: usize, veto: bool, loss: Loss<'_>) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let utility = |i: usize, chosen: &[usize]| self.confidence[i] - chosen.iter().map(|&s| loss(i, s)).sum::<f64>();
        while chosen.len() < k.min(self.len()) {
            let left = (0..self.len()).filter(|i| !chosen.contains(i));
            let better = |a: usize, b: usize| if utility(b, &chosen) > utility(a, &chosen) { b } else { a };
            let best = left.reduce(better).unwrap();
            if veto && utility(best, &chosen) < 0.0 {
                break;
            }
            chosen.push(best);
        }
        chosen
    }
}

/// Rows of attention that sum to `total`, most of it on a few keys; confidences inside (0, 1), no two alike.
fn numbers() -> impl Strategy<Value = Numbers> {
    (2..20usize).prop_flat_map(|n| {
        let entry = prop_oneof![2 => Just(0.0), 1 => 0.001..1.0f64];
        let row = (vec(entry, n), 0.0..1.0f64).prop_map(|(row, total)| {
            let sum: f64 = row.iter().sum::<f64>().max(1e-3);
            row.into_iter().map(|a| a / sum * total).collect::<Vec<f64>>()
        });
        (vec(0.01..0.99f64, n), vec(row, n)).prop_map(|(confidence, attention)| Numbers { confidence, attention })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_series_is_the_solution(step in numbers()) {
        let (n, attention, want) = (step.len(), step.matrix(), step.influence());
        let weight: Vec<f64> = (0..n).map(|i| step.doubt(i)).collect();
        let (mut paths, mut column) = (Paths::default(), vec![0.0; n]);
        paths.open(&attention, &weight);
        for s in 0..n {
            paths.column(&attention, s, &mut column);
            for (i, (got, row)) in column.iter().zip(&want).enumerate().filter(|&(i, _)| i != s) {
                prop_assert!((got - row[s]).abs() < 1e-9, "R[{},{}]: {} is not {}", i, s, got, row[s]);
            }
        }
        // And it is the series: a thousand terms of it, where it ends without a guard.
        let (t, scale) = step.hops();
        if scale == 1.0 {
            let mut term: Vec<f64> = (0..n).map(|i| t[i][0]).collect();
            let mut sum = term.clone();
            for _ in 0..1000 {
                term = (0..n).map(|i| (0..n).map(|j| t[i][j] * term[j]).sum()).collect();
                sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
            }
            paths.column(&attention, 0, &mut column);
            for i in 1..n {
                prop_assert!((column[i] - sum[i]).abs() < 1e-9, "{} is not {}", column[i], sum[i]);
            }
        }
    }

    #[test]
    fn every_option_is_its_definition(step in numbers(), alpha in 0.0..200.0f64, k in 1..20usize) {
        let r = step.influence();
        let direct = |i: usize, s: usize| alpha * step.attention[i][s] * step.doubt(s);
        let along = |i: usize, s: usize| alpha * r[i][s];
        let direct_doubt = |i: usize, s: usize| step.doubt(i) * direct(i, s);
        let along_doubt = |i: usize, s: usize| step.doubt(i) * along(i, s);
        let cases: [(&str, bool, Loss<'_>); 8] = [
            ("", false, &direct),
            ("@veto", true, &direct),
            ("@doubt", false, &direct_doubt),
            ("@doubt@veto", true, &direct_doubt),
            ("@paths", false, &along),
            ("@paths@veto", true, &along),
            ("@paths@doubt", false, &along_doubt),
            ("@paths@doubt@veto", true, &along_doubt),
        ];
        for (options, veto, loss) in cases {
            let picked = step.select(&format!("topk:{k}+ad:{alpha}{options}")).positions();
            prop_assert_eq!(&picked, &step.greedy(k, veto, loss), "{}", options);
        }
        let whole = step.select(&format!("topk:{k}+paths:{alpha}"));
        prop_assert_eq!(whole.positions(), step.greedy(k, true, &along_doubt));
        // What was taken after the first was worth something, and whoever leads the rest is not, unless k is reached.
        prop_assert!(whole.iter().all(|pick| pick.utility >= 0.0));
    }

    #[test]
    fn other_rules_cut_the_same_order(step in numbers(), alpha in 0.0..200.0f64, x in 0.0..1.0f64, y in 0.0..9.0f64) {
        let n = step.len();
        let order = step.select(&format!("topk:{n}+paths:{alpha}")).positions();
        for rule in [format!("fast:{y}"), format!("eb:{y}"), format!("threshold:{x}"), format!("fast-dllm:{y}")] {
            let cut = step.select(&format!("{rule}+paths:{alpha}")).positions();
            prop_assert!(!cut.is_empty() && order.starts_with(&cut), "{}: {:?} of {:?}", rule, cut, order);
        }
    }

    #[test]
    fn groups_that_do_not_read_each_other_stay_independent(a in numbers(), b in numbers(), alpha in 0.0..200.0f64) {
        // One step of both: nobody of the one reads anybody of the other.
        let (n, m) = (a.len(), b.len());
        let row = |row: &Vec<f64>, before: usize, after: usize| {
            vec![0.0; before].into_iter().chain(row.iter().copied()).chain(vec![0.0; after]).collect::<Vec<f64>>()
        };
        let attention = a.attention.iter().map(|r| row(r, 0, m)).chain(b.attention.iter().map(|r| row(r, n, 0)));
        let both = Numbers {
            confidence: a.confidence.iter().chain(&b.confidence).copied().collect(),
            attention: attention.collect(),
        };
        let matrix = both.matrix();
        let rows: Vec<RowStats> = both.confidence.iter().map(|&c| RowStats::new(0, c)).collect();
        let mut influence = Influence::new(AttentionDiscount::paths().with_alpha(alpha));
        influence.open(&rows, &matrix);
        for s in 0..n + m {
            influence.choose(&matrix, s);
            for i in (0..n + m).filter(|&i| (i < n) != (s < n)) {
                prop_assert_eq!(influence.loss(&matrix, i, s), 0.0, "{} and {}", i, s);
            }
        }
        // So whoever of one group is picked is picked whatever the other group does, as long as the rule is not shared.
        let alone = a.select(&format!("topk:{n}+paths:{alpha}")).positions();
        let of_a: Vec<usize> =
            both.select(&format!("topk:{}+paths:{alpha}", n + m)).positions().into_iter().filter(|&i| i < n).collect();
        let guarded = |numbers: &Numbers| numbers.hops().1 < 1.0;
        if !guarded(&both) {
            prop_assert_eq!(of_a, alone);
        }
    }

    #[test]
    fn who_is_certain_discounts_nobody_and_carries_nothing(step in numbers(), s in 0..20usize) {
        let mut step = step;
        let s = s % step.len();
        step.confidence[s] = 1.0;
        let r = step.influence();
        let matrix = step.matrix();
        let rows: Vec<RowStats> = step.confidence.iter().map(|&c| RowStats::new(0, c)).collect();
        let mut influence = Influence::new(AttentionDiscount::paths());
        influence.open(&rows, &matrix);
        influence.choose(&matrix, s);
        prop_assert!((0..step.len()).all(|i| influence.loss(&matrix, i, s) == 0.0 && r[i][s] == 0.0));
        // Nor does it lose anything: its doubt is 0.
        for other in (0..step.len()).filter(|&other| other != s) {
            influence.choose(&matrix, other);
            prop_assert_eq!(influence.loss(&matrix, s, other), 0.0);
        }
        // Whoever it reads or is read by: taken out of the step, it leaves everybody else's influence as it was.
        let mut without = step.clone();
        (0..step.len()).for_each(|i| (without.attention[i][s], without.attention[s][i]) = (0.0, 0.0));
        let apart = without.influence();
        if step.hops().1 == 1.0 {
            for i in (0..step.len()).filter(|&i| i != s) {
                for j in (0..step.len()).filter(|&j| j != s && j != i) {
                    prop_assert!((r[i][j] - apart[i][j]).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn whoever_is_passed_over_is_named_with_its_path(step in numbers(), k in 1..20usize) {
        let picks = step.select(&format!("topk:{k}+paths"));
        let base = step.select(&format!("topk:{k}"));
        let missed = base.positions().into_iter().find(|i| !picks.positions().contains(i));
        let Some(deferral) = picks.deferral else {
            prop_assert!(missed.is_none() && picks.through.is_empty());
            return Ok(());
        };
        let chain: Vec<usize> =
            [deferral.deferred.0].into_iter().chain(picks.through.iter().copied()).chain([deferral.by.0]).collect();
        for pair in chain.windows(2) {
            prop_assert!(step.attention[pair[0]][pair[1]] * step.doubt(pair[1]) > 0.0, "{:?}", chain);
        }
        prop_assert!(picks.contains(deferral.by) && deferral.discount > 0.0);
        let tried = deferral.instead.is_none_or(|instead| picks.contains(instead));
        prop_assert!(tried, "Top-k refuses nobody who is tried before it is full");
    }
}

#[test]
fn a_veto_keeps_the_reason() {
    // u_1 = .6 − 100 · .4 · (.5 · .3) = −5.4: 1 leads the rest and is below 0, so the step ends with 0 alone; 2 is no better off,
    // it reads 1 (T = .4 · .4 = .16), which reads 0: u_2 = .5 − 100 · .5 · (.16 · .15) = −.7.
    let rows = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.4, 0.0]];
    let step = Snapshot::new(&[0.7, 0.6, 0.5]).attention(Attention::from_rows(&rows).unwrap());
    let picks = step.select(&spec("topk:3+paths")).unwrap();
    assert_eq!(picks.positions(), [0]);
    let deferral = picks.deferral.unwrap();
    assert_eq!((deferral.deferred, deferral.instead, deferral.by), (Slot(1), None, Slot(0)));
    assert!((deferral.discount - 6.0).abs() < 1e-9 && picks.through.is_empty());
    // Without the veto both follow, the one that lost less first.
    assert_eq!(step.select(&spec("topk:3+ad:100@paths@doubt")).unwrap().positions(), [0, 2, 1]);
    // By margin the zero is still that of the confidence: 2 leads, its margin is negative as soon as it loses anything.
    let step = step.margin(&[0.3, 0.01, 0.02]);
    assert_eq!(step.select(&spec("topk:3@margin+ad:10@veto")).unwrap().positions(), [0, 2]);
}

#[test]
fn a_path_is_told_as_it_goes() {
    // 2 reads 1, which reads 0. 1 was written before (it is no candidate): then nothing is left between them.
    let rows = [[0.0, 0.0, 0.0], [0.9, 0.0, 0.0], [0.0, 0.9, 0.0]];
    let step = Snapshot::new(&[0.5, 0.1, 0.4]).attention(Attention::from_rows(&rows).unwrap());
    let picks = step.select(&spec("topk:2+paths")).unwrap();
    // T[1,0] = .45, T[2,1] = .81, R[2,0] = .81 · .45 = .3645; u_2 = .4 − 100 · .6 · .3645 < 0.
    assert_eq!((picks.positions(), picks.through.as_slice()), (vec![0], &[1][..]));
    let picks = step.candidates(&[0, 2]).select(&spec("topk:2+paths")).unwrap();
    assert_eq!((picks.positions(), picks.deferral), (vec![0, 2], None));
}

#[test]
fn the_toy_is_written_in_the_fewest_forwards_there_can_be() {
    // Two per couple: the first word, then the second. Top-12 with ADAS fills everything at once and breaks every couple.
    let exists = |tokens: &[TokenId]| Toy::phrases(12).log_probability(tokens).is_finite();
    for sampler in ["topk:12+paths", "fast:12+paths", "topk:12+ad@veto"] {
        let outcome = Setup::masks(12).must_run(sampler);
        assert_eq!(outcome.nfe, 2, "{sampler}");
        assert!(exists(&outcome.tokens), "{sampler}: {:?}", outcome.tokens);
    }
    let outcome = Setup::masks(12).must_run("topk:12+ad");
    assert_eq!((outcome.nfe, exists(&outcome.tokens)), (1, false));
}

#[test]
fn blocks_temperatures_and_budgets_end_as_they_should() {
    for sampler in
        ["topk:4+paths", "fast:2+paths:400", "eb:3+ad@veto", "threshold:0.3+ad:5@paths", "topk:3@random+paths"]
    {
        for (len, temperature) in [(12, 0.0), (3, 0.0), (12, 0.8), (4, 1.3)] {
            let setup = Setup::masks(12).blocks(len);
            let setup = if temperature > 0.0 { setup.sampled(temperature, 7) } else { setup };
            let outcome = setup.must_run(sampler);
            assert!(outcome.nfe <= 12 && outcome.tokens.iter().all(|&token| token != MASK), "{sampler}");
            let block = |position: usize| position / len;
            for step in &outcome.steps {
                let first = block(step.commits[0].position);
                assert!(
                    step.commits.iter().all(|commit| block(commit.position) == first),
                    "{sampler}: one block a step"
                );
            }
        }
    }
    // A budget is kept: what a veto leaves is made up for, and the last step has none.
    for (sampler, steps) in [("llada:4+paths", 4), ("dream:4@maskgit_plus+paths", 4), ("llada:1+paths", 1)] {
        let outcome = Setup::masks(12).must_run(sampler);
        assert_eq!(outcome.nfe, steps, "{sampler}");
    }
}

#[test]
fn a_control_takes_the_place_of_attention() {
    // 1 reads 0, and 0 reads nobody: with query and key exchanged it is 0 that reads 1, so choosing 0 takes nothing from 1.
    let rows = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]];
    let step = Snapshot::new(&[0.78, 0.73, 0.70]).attention(Attention::from_rows(&rows).unwrap());
    let order = |sampler: &str| step.select(&spec(sampler)).unwrap().positions();
    assert_eq!(order("topk:2+ad"), [0, 2]);
    assert_eq!(order("topk:2+ad@source=transposed"), [0, 1]);
    // u_1 = .73 − 40 · .25 · .22 (the mean of its row, over two others) is below u_2 = .7 as well.
    assert_eq!(order("topk:2+ad@source=rowmean"), [0, 2]);
    // Distance gives 1 all but a third of its row's sum toward its neighbour 0.
    assert_eq!(order("topk:2+paths@source=distance"), [0, 2]);
}
