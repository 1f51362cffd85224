//! Attention-discounted ranking: ADAS.
//!
//! Choosing s lowers the score of every candidate that attends to it, the more so the less certain s is
//! (the paper's Eq. "adas-marginal"):
//!
//! ```text
//! u(i | S) = c_i − α Σ_{s∈S} A[i,s] (1 − c_s)
//! ```
//!
//! Row i of A is the *candidate's* query, column s the *chosen* key. The weight uses the raw confidence of s, never its
//! discounted score, and the diagonal is never read. The sum is kept incrementally, so a step costs O(|S|·|M|). With α = 0
//! this is the base ranking by construction, and a certain position (c = 1) discounts no other.
//!
//! Three options go beyond the paper, each by itself or together (docs/paths.md says why):
//!
//! ```text
//! @paths    R[i,s] in place of A[i,s] (1 − c_s): influence along paths, paths.rs
//! @doubt    times 1 − c_i: who is sure loses little, whatever it reads
//! @veto     the step ends when the best candidate has lost more than its confidence
//! ```
//!
//! All three are `+paths`: u(i | S) = c_i − α (1 − c_i) Σ_{s∈S} R\[i,s\], until it is below 0.

use crate::control::{Control, ControlMatrix};
use crate::paths::Paths;
use crate::ranking::Discount;
use crate::{Attention, Error, Layers, Needs, Ranking, Result, RowStats, Slot, StepView};

/// α of the paper's main experiments: chosen once on LLaDA x HumanEval, then used everywhere.
pub const DEFAULT_ALPHA: f64 = 40.0;

/// α of `+paths`.
pub const PATHS_ALPHA: f64 = 100.0;

/// How strongly, from which layer, weighted by what, and how far beyond the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionDiscount {
    /// α ≥ 0: how strongly chosen positions discount the others.
    pub alpha: f64,
    /// α is still to be chosen for the model at hand (`+paths:auto`): nothing can be built before
    /// [`with_alpha`](AttentionDiscount::with_alpha), and `alpha` means nothing.
    pub auto: bool,
    /// Where A comes from (ablation "Effect of attention source").
    pub layers: Layers,
    /// What a chosen position weighs (ablation "uncertainty weighting term").
    pub weight: Weight,
    /// Influence along paths instead of attention alone.
    pub paths: bool,
    /// Times 1 − c_i.
    pub doubt: bool,
    /// Whoever has lost more than its confidence ends the step.
    pub veto: bool,
    /// What stands in for attention, to see whether attention is what counts (`control.rs`); none in earnest.
    pub control: Option<Control>,
}

/// What a chosen position weighs in the discount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// 1 − c_s: its own uncertainty. The paper's default.
    #[default]
    Chosen,
    /// 1 − mean c over all candidates: the same for everybody.
    Mean,
}

impl Default for AttentionDiscount {
    fn default() -> Self {
        AttentionDiscount {
            alpha: DEFAULT_ALPHA,
            auto: false,
            layers: Layers::Last,
            weight: Weight::Chosen,
            paths: false,
            doubt: false,
            veto: false,
            control: None,
        }
    }
}

impl AttentionDiscount {
    /// `+paths`: along paths, times the doubt, with the veto.
    pub fn paths() -> AttentionDiscount {
        AttentionDiscount { alpha: PATHS_ALPHA, paths: true, doubt: true, veto: true, ..AttentionDiscount::default() }
    }

    /// The same with this strength, which settles `auto`.
    pub fn with_alpha(self, alpha: f64) -> AttentionDiscount {
        AttentionDiscount { alpha, auto: false, ..self }
    }

    /// Fails while α is still to be chosen.
    pub(crate) fn settled(self) -> Result<AttentionDiscount> {
        if self.auto { Err(Error::NoStrength { discount: self.to_string() }) } else { Ok(self) }
    }
}

/// What choosing a candidate takes from the others, by the options of a discount: one step at a time, for samplers and for
/// whoever wants to know why somebody was passed over.
///
/// ```
/// use cofill::{Attention, RowStats, adas::{AttentionDiscount, Influence}};
/// let rows = [0.75, 0.5, 0.5].map(|c| RowStats::new(0, c));
/// let attention = Attention::from_rows(&[[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [0.0, 0.2, 0.0]])?;
/// let mut influence = Influence::new(AttentionDiscount::paths());
/// influence.open(&rows, &attention);
/// influence.choose(&attention, 0);
/// // 1 reads 0: 100 · .5 · (.4 · .25). 2 reads 1, which reads 0: 100 · .5 · (.2 · .5)(.4 · .25).
/// assert!((influence.loss(&attention, 1, 0) - 5.0).abs() < 1e-9);
/// assert!((influence.loss(&attention, 2, 0) - 0.5).abs() < 1e-9);
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Influence {
    discount: AttentionDiscount,
    weight: Vec<f64>, // [slots] 1 − c_s, or the same for everybody
    doubt: Vec<f64>,  // [slots] 1 − c_i
    paths: Paths,
    chosen: Vec<usize>, // slots, in the order of choice
    columns: Vec<f64>,  // [chosen x slots] what they take, without α; not filled where attention itself will do
}

impl Influence {
    /// Of no step yet.
    pub fn new(discount: AttentionDiscount) -> Influence {
        let (weight, doubt, chosen, columns) = Default::default();
        Influence { discount, weight, doubt, paths: Paths::default(), chosen, columns }
    }

    /// Starts a step, in which nobody is chosen yet.
    pub fn open(&mut self, rows: &[RowStats], attention: &Attention) {
        let uncertainty = rows.iter().map(|row| row.uncertainty);
        self.weight.clear();
        self.weight.extend(uncertainty.clone()); // 1 − c_s
        if self.discount.weight == Weight::Mean {
            let mean = uncertainty.clone().sum::<f64>() / rows.len() as f64; // 1 − c_mask
            self.weight.fill(mean);
        }
        self.doubt.clear();
        if self.discount.doubt {
            self.doubt.extend(uncertainty);
        }
        self.chosen.clear();
        self.columns.clear();
        if self.discount.paths {
            self.paths.open(attention, &self.weight);
        }
    }

    /// A candidate is chosen: works out what that takes from the others.
    pub fn choose(&mut self, attention: &Attention, s: usize) {
        if !self.has_columns() {
            return;
        }
        let from = self.columns.len();
        self.columns.resize(from + attention.len(), 0.0);
        let column = &mut self.columns[from..];
        match self.discount.paths {
            true => self.paths.column(attention, s, column), // R[i,s]
            false => {
                let weight = self.weight[s];
                column.iter_mut().zip(attention.toward(s)).for_each(|(out, a)| *out = weight * a); // A[i,s] (1 − c_s)
            }
        }
        if self.discount.doubt {
            column.iter_mut().zip(&self.doubt).for_each(|(out, doubt)| *out *= doubt);
        }
        self.chosen.push(s);
    }

    /// ADAS as printed needs none: a column of attention times one number is all there is to it.
    fn has_columns(&self) -> bool {
        self.discount.paths || self.discount.doubt
    }

    /// What a chosen candidate takes from everybody. Nothing, if it was not chosen.
    pub fn discount<'a>(&'a self, attention: &'a Attention, s: usize) -> Option<Discount<'a>> {
        let alpha = self.discount.alpha;
        if !self.has_columns() {
            return Some(Discount { weight: alpha * self.weight[s], toward: attention.toward(s) });
        }
        let n = self.weight.len();
        let at = self.chosen.iter().position(|&chosen| chosen == s)?;
        Some(Discount { weight: alpha, toward: &self.columns[at * n..(at + 1) * n] })
    }

    /// What a chosen candidate takes from `i`.
    pub fn loss(&self, attention: &Attention, i: usize, s: usize) -> f64 {
        self.discount(attention, s).map_or(0.0, |discount| discount.weight * discount.toward[i])
    }

    /// The masks through which `i` depends most on `s`, in order; none when it does so directly, or without `@paths`.
    pub fn between(&mut self, attention: &Attention, i: usize, s: usize, between: &mut Vec<usize>) {
        between.clear();
        if self.discount.paths {
            self.paths.strongest(attention, i, s, between);
        }
    }
}

/// Any ranking, with ADAS's discount on top: `+ad`.
pub struct AttentionDiscounted {
    base: Box<dyn Ranking>,
    influence: Influence,
    control: Option<ControlMatrix>,
}

impl AttentionDiscounted {
    /// Puts the discount on top of `base`.
    pub fn new(base: Box<dyn Ranking>, ad: AttentionDiscount) -> AttentionDiscounted {
        AttentionDiscounted { base, influence: Influence::new(ad), control: ad.control.map(ControlMatrix::new) }
    }

    /// What the discount takes for attention in this step.
    fn matrix<'a>(control: Option<&'a ControlMatrix>, view: &'a StepView<'_>) -> &'a Attention {
        control.map_or_else(|| view.attention(), ControlMatrix::matrix)
    }
}

impl Ranking for AttentionDiscounted {
    fn needs(&self) -> Needs {
        self.base.needs().attention(self.influence.discount.layers)
    }

    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        self.base.score(view, scores);
        if let Some(control) = &mut self.control {
            control.of(view);
        }
        self.influence.open(view.candidates.stats, Self::matrix(self.control.as_ref(), view));
    }

    fn choose(&mut self, view: &StepView<'_>, s: Slot) {
        self.influence.choose(Self::matrix(self.control.as_ref(), view), s.0);
    }

    fn discount<'a>(&'a self, view: &'a StepView<'_>, s: Slot) -> Option<Discount<'a>> {
        self.influence.discount(Self::matrix(self.control.as_ref(), view), s.0)
    }

    fn between(&mut self, view: &StepView<'_>, i: Slot, s: Slot, between: &mut Vec<usize>) {
        self.influence.between(Self::matrix(self.control.as_ref(), view), i.0, s.0, between);
    }

    fn vetoes(&self) -> bool {
        self.influence.discount.veto
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attention, SamplerSpec, Snapshot};

    /// Positions in pick order, and their utilities.
    #[track_caller]
    fn check(sampler: &str, step: &Snapshot, want: &[usize], utility: &[f64]) {
        let spec: SamplerSpec = sampler.parse().unwrap();
        let picks = step.select(&spec).unwrap();
        assert_eq!(picks.positions(), want, "{sampler}");
        for (pick, u) in picks.iter().zip(utility) {
            assert!((pick.utility - u).abs() < 1e-12, "{sampler}: u = {} is not {u}", pick.utility);
        }
    }

    /// An n x n matrix that is zero except where said: (query, key, value).
    fn sparse(n: usize, entries: &[(usize, usize, f64)]) -> Attention {
        Attention::from_fn(n, |q, k| entries.iter().find(|e| (e.0, e.1) == (q, k)).map_or(0.0, |e| e.2))
    }

    fn t1() -> Snapshot {
        let rows = [
            [0.0, 0.02, 0.01, 0.0, 0.0],
            [0.05, 0.0, 0.01, 0.0, 0.0],
            [0.01, 0.02, 0.0, 0.03, 0.0],
            [0.0, 0.01, 0.02, 0.0, 0.04],
            [0.0, 0.0, 0.01, 0.02, 0.0],
        ];
        Snapshot::new(&[0.9, 0.8, 0.7, 0.6, 0.5])
            .entropy(&[0.1, 0.3, 0.2, 0.9, 0.6])
            .attention(Attention::from_rows(&rows).unwrap())
    }

    #[test]
    fn t1_base() {
        check("topk:3+ad:0", &t1(), &[0, 1, 2], &[0.9, 0.8, 0.7]);
        // α = 5. After 0 (1−c = .1): u1 = .8 − 5·.05·.1 = .775, u2 = .7 − 5·.01·.1 = .695.
        // After 1 (1−c = .2): u2 = .695 − 5·.02·.2 = .675.
        check("topk:3+ad:5", &t1(), &[0, 1, 2], &[0.9, 0.775, 0.675]);
        // α = 40. After 0: u1 = .6, u2 = .66, so 2 goes ahead of 1. After 2 (1−c = .3): u1 = .6 − 40·.01·.3 = .48.
        check("topk:2+ad:40", &t1(), &[0, 2], &[0.9, 0.66]);
        check("topk:3+ad", &t1(), &[0, 2, 1], &[0.9, 0.66, 0.48]);
        check("topk:4+ad", &t1(), &[0, 2, 1, 4], &[0.9, 0.66, 0.48, 0.38]);
    }

    #[test]
    fn t1_with_the_other_rules() {
        check("fast:1", &t1(), &[0, 1, 2], &[]);
        check("fast:1+ad", &t1(), &[0, 2, 1], &[]);
        check("fast:2", &t1(), &[0, 1, 2, 3], &[]);
        // 4 comes next and fails (4·.5 = 2 is not < 2); 3 would pass but is not tried.
        check("fast:2+ad", &t1(), &[0, 2, 1], &[]);
        check("eb:0.5", &t1(), &[0, 1, 2], &[]);
        check("eb:0.5+ad", &t1(), &[0, 2, 1], &[]);
        check("eb:0.5@entropy", &t1(), &[0, 2, 1], &[]);
    }

    #[test]
    fn t2_the_row_is_the_candidate_and_the_column_the_chosen() {
        // u1 = .5 − 1·.25·.25 = .4375 < .5, so 2 joins 0. Transposed, nobody is discounted and 1 would.
        let c = [0.75, 0.5, 0.5];
        check("topk:2+ad:1", &Snapshot::new(&c).attention(sparse(3, &[(1, 0, 0.25)])), &[0, 2], &[0.75, 0.5]);
        check("topk:2+ad:1", &Snapshot::new(&c).attention(sparse(3, &[(0, 1, 0.25)])), &[0, 1], &[0.75, 0.5]);
    }

    #[test]
    fn t3_a_certain_source_discounts_nobody() {
        let all_ones = Attention::from_fn(3, |q, k| if q == k { 0.0 } else { 1.0 });
        let step = Snapshot::new(&[1.0, 0.9, 0.8]).attention(all_ones);
        // After 1 (1−c = .1): u2 = .8 − 40·1·.1 = −3.2.
        check("topk:3+ad", &step, &[0, 1, 2], &[1.0, 0.9, -3.2]);
    }

    #[test]
    fn t4_stop_at_the_first_inadmissible_candidate() {
        // After 0: u1 = .70 − 40·.2·.25 = −1.3, so 2 (.40) is next; 2·.6 = 1.2 ≥ 1 ends it, although {0, 1} is admissible.
        let step = Snapshot::new(&[0.75, 0.70, 0.40, 0.30]).attention(sparse(4, &[(1, 0, 0.2)]));
        check("fast:1+ad", &step, &[0], &[0.75]);
        check("fast:1", &step, &[0, 1], &[]);
        // 1 was passed over all the same, for 2, which was then refused.
        let deferral = step.select(&"fast:1+ad".parse().unwrap()).unwrap().deferral.unwrap();
        assert_eq!((deferral.deferred.0, deferral.instead.map(|slot| slot.0), deferral.by.0), (1, Some(2), 0));
    }

    #[test]
    fn t11_utilities_may_be_negative() {
        let a = Attention::from_rows(&[[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.25, 0.5, 0.0]]).unwrap();
        let step = Snapshot::new(&[0.3, 0.2, 0.1]).attention(a);
        // After 0 (1−c = .7): u1 = .2 − 14 = −13.8, u2 = .1 − 7 = −6.9. After 2 (.9): u1 = −13.8 − 18 = −31.8.
        check("topk:3+ad", &step, &[0, 2, 1], &[0.3, -6.9, -31.8]);
    }

    #[test]
    fn t28_eb_with_a_discounted_order() {
        let step = Snapshot::new(&[0.8, 0.7, 0.6]).entropy(&[0.5, 0.9, 1.1]).attention(sparse(3, &[(1, 0, 0.1)]));
        // u1 = .7 − 40·.1·.2 = −.1: the order is 0, 2, 1, with Σ−max 0, .5, 1.4.
        check("eb:0.6+ad", &step, &[0, 2], &[0.8, 0.6]);
        check("eb:0.6", &step, &[0, 1], &[]);
    }

    #[test]
    fn the_mean_weight_is_the_same_for_everybody() {
        // mean(1−c) = (.1 + .2 + .3)/3 = .2, so u1 = .8 − 40·.01·.2 = .72 and u2 = .7; with its own weight, u1 = .76.
        let step = Snapshot::new(&[0.9, 0.8, 0.7]).attention(sparse(3, &[(1, 0, 0.01)]));
        check("topk:2+ad@weight=mask", &step, &[0, 1], &[0.9, 0.72]);
        check("topk:2+ad", &step, &[0, 1], &[0.9, 0.76]);
    }

    #[test]
    fn any_ranking_can_be_discounted() {
        // By margin 1 leads; 0 attends to it and waits: .4 − 40·.5·(1−.6) < .1.
        let step = Snapshot::new(&[0.7, 0.6, 0.5]).margin(&[0.4, 0.5, 0.1]).attention(sparse(3, &[(0, 1, 0.5)]));
        check("topk:2@margin+ad", &step, &[1, 2], &[0.5, 0.1]);
        check("topk:2@margin", &step, &[1, 0], &[0.5, 0.4]);
    }

    #[test]
    fn who_was_deferred_and_by_whom() {
        let spec: SamplerSpec = "topk:3+ad".parse().unwrap();
        // 1 and 2 discount 3: by 40·.1·.2 = .8 and 40·.2·.3 = 2.4. Confidence would have taken 3 after 2.
        let a = sparse(5, &[(3, 1, 0.1), (3, 2, 0.2)]);
        let picks = Snapshot::new(&[0.9, 0.8, 0.7, 0.6, 0.5]).attention(a).select(&spec).unwrap();
        assert_eq!(picks.positions(), [0, 1, 2]);
        assert!(picks.deferral.is_none(), "the first three are the same, and k = 3 would have stopped 3 as well");
        let spec: SamplerSpec = "topk:4+ad".parse().unwrap();
        let a = sparse(5, &[(3, 1, 0.1), (3, 2, 0.2)]);
        let picks = Snapshot::new(&[0.9, 0.8, 0.7, 0.6, 0.5]).attention(a).select(&spec).unwrap();
        assert_eq!(picks.positions(), [0, 1, 2, 4]);
        let deferral = picks.deferral.unwrap();
        assert_eq!((deferral.deferred.0, deferral.instead.map(|slot| slot.0), deferral.by.0), (3, Some(4), 2));
        assert!((deferral.discount - 2.4).abs() < 1e-12);
    }
}
