//! What a sampler is: it sees a step and says which positions to commit.
//!
//! One loop serves them all because of two decisions. First, a sampler *declares* what it must see ([`Needs`]): attention,
//! distributions, positions beyond the candidates. Second, it answers with a [`Verdict`]: commit, wait, or show me the canvas
//! with these tokens revealed. Samplers that look ahead (PUNT, LookUM) sometimes answer [`Verdict::Reveal`], those that have a second
//! model judge what the first proposes (APD) [`Verdict::Consult`]; samplers that remember (KLASS, credit) keep what they need between
//! calls. The loop knows none of them by name.

use crate::{Job, Needs, Result, Slot, StepView, TokenId};

/// Chooses which candidates to commit. It can never take a commit back: there is no way to say so.
///
/// A sampler of your own is one `impl`; CONTRIBUTING.md walks through it.
///
/// ```
/// use cofill::{Canvas, Decode, Denoiser, Picks, Policy, Result, Sampler, StepView, Verdict, generate, toy::Toy};
///
/// /// Left to right, one at a time: what an autoregressive model would do.
/// struct LeftToRight;
///
/// impl Sampler for LeftToRight {
///     fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
///         let first = view.slots().next().expect("a step has candidates");
///         picks.push(view, first, 0.0);
///         Ok(Verdict::Commit)
///     }
/// }
///
/// let mut toy = Toy::phrases(4);
/// let canvas = Canvas::prompt(&[], 4, toy.mask_id());
/// let mut decode = Decode::new(canvas, Policy::Commits(Box::new(LeftToRight)))?;
/// generate(&mut toy, &mut decode)?;
/// assert_eq!(decode.nfe(), 4);
/// # Ok::<(), cofill::Error>(())
/// ```
pub trait Sampler: Send {
    /// What it must be shown.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Forgets everything and looks at the job. Returns the most forwards the job can take; one per mask unless the
    /// sampler looks ahead or keeps a budget of its own. The loop holds it to that, so a faulty sampler ends.
    fn begin(&mut self, job: &Job) -> Result<usize> {
        Ok(job.masks)
    }

    /// Looks at one forward pass. On [`Verdict::Commit`], `picks` holds at least one candidate, each once, in pick order.
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict>;
}

/// A sampler that may also take commits back. The type says so: a [`Sampler`] has no such way out.
pub trait RemaskingSampler: Send {
    /// What it must be shown; as [`Sampler::needs`].
    fn needs(&self) -> Needs;

    /// Forgets everything and looks at the job; as [`Sampler::begin`].
    fn begin(&mut self, job: &Job) -> Result<usize>;

    /// Looks at one forward pass; as [`Sampler::select`], but it may also fill [`Revision::remask`].
    fn revise(&mut self, view: &StepView<'_>, revision: &mut Revision) -> Result<Verdict>;
}

/// Any sampler, as the decode loop holds it.
pub enum Policy {
    /// What it commits is never taken back.
    Commits(Box<dyn Sampler>),
    /// Commits may be taken back.
    Remasks(Box<dyn RemaskingSampler>),
}

impl Policy {
    /// What it must be shown.
    pub fn needs(&self) -> Needs {
        match self {
            Policy::Commits(sampler) => sampler.needs(),
            Policy::Remasks(sampler) => sampler.needs(),
        }
    }

    /// Shows the sampler its job before the first step; see [`Sampler::begin`].
    pub fn begin(&mut self, job: &Job) -> Result<usize> {
        match self {
            Policy::Commits(sampler) => sampler.begin(job),
            Policy::Remasks(sampler) => sampler.begin(job),
        }
    }

    /// Shows the sampler one forward pass. `revision` is cleared first.
    pub fn step(&mut self, view: &StepView<'_>, revision: &mut Revision) -> Result<Verdict> {
        revision.picks.clear();
        revision.remask.clear();
        match self {
            Policy::Commits(sampler) => sampler.select(view, &mut revision.picks),
            Policy::Remasks(sampler) => sampler.revise(view, revision),
        }
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Policy::Commits(_) => "Policy::Commits(..)",
            Policy::Remasks(_) => "Policy::Remasks(..)",
        })
    }
}

/// A sampler's answer to a forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Commit the picks; the step is over.
    Commit,
    /// Commit nothing; the step is over. Only fixed step budgets do this (Dream's schedule starts with 0 commits).
    Wait,
    /// Run the model on a copy of the canvas with these candidates filled, and ask again. Costs one NFE; slots
    /// keep their meaning until the step is over.
    Reveal(Vec<(Slot, TokenId)>),
    /// Run the model's *companion*, an autoregressive model, on a copy of the canvas with these candidates filled, and ask again. Costs
    /// one NFE too; the view then holds what the companion says.
    Consult(Vec<(Slot, TokenId)>),
}

/// What a step changes.
#[derive(Debug, Clone, Default)]
pub struct Revision {
    /// Candidates to commit, in pick order.
    pub picks: Picks,
    /// Positions to mask again.
    pub remask: Vec<usize>,
}

/// A candidate that a sampler has chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// The candidate, among those of this step.
    pub slot: Slot,
    /// Its place in the canvas.
    pub position: usize,
    /// The token to write.
    pub token: TokenId,
    /// c: the model's probability of `token`.
    pub confidence: f64,
    /// H of the position, in nats.
    pub entropy: f64,
    /// What the sampler ranked it by, before anything was chosen.
    pub score: f64,
    /// u(i | S): its score when it was picked. Equal to `score` unless the ranking discounts.
    pub utility: f64,
}

impl Pick {
    /// A candidate with its proposed token and no discount.
    pub fn of(view: &StepView<'_>, slot: Slot, score: f64) -> Pick {
        let stats = view.stats(slot);
        Pick {
            slot,
            position: view.position(slot),
            token: stats.token,
            confidence: stats.confidence,
            entropy: stats.entropy,
            score,
            utility: score,
        }
    }
}

/// The first candidate, in the order of the undiscounted scores, that the discount passed over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deferral {
    /// The candidate that was passed over.
    pub deferred: Slot,
    /// The candidate that was tried in its place; picked, unless the rule refused it. Nobody, when a veto ended the step.
    pub instead: Option<Slot>,
    /// The chosen position that discounted it most.
    pub by: Slot,
    /// How much of its score that position took.
    pub discount: f64,
}

/// The chosen candidates, in pick order. A decode reuses one, so that selecting allocates nothing once warm.
#[derive(Debug, Clone, Default)]
pub struct Picks {
    picks: Vec<Pick>,
    /// No candidate is admissible, not even alone; the best is committed anyway, so that decoding goes on.
    pub forced: bool,
    /// What the discount changed first, if it changed anything.
    pub deferral: Option<Deferral>,
    /// The slots through which the deferred candidate depends on the one it waits for, in order; none if it does so directly.
    pub through: Vec<usize>,
}

impl Picks {
    /// Chooses a candidate with its proposed token; `score` is what it was ranked by.
    pub fn push(&mut self, view: &StepView<'_>, slot: Slot, score: f64) {
        self.add(Pick::of(view, slot, score));
    }

    /// Chooses what was prepared earlier: a probing sampler commits what the step's *first* pass proposed.
    pub fn add(&mut self, pick: Pick) {
        self.picks.push(pick);
    }

    /// Commits what was chosen; when nothing was admissible, the surest candidate, marked forced.
    pub fn or_surest(&mut self, view: &StepView<'_>) -> Verdict {
        if self.picks.is_empty() {
            let slot = view.surest();
            self.push(view, slot, view.confidence(slot));
            self.forced = true;
        }
        Verdict::Commit
    }

    /// Whether a candidate was chosen already.
    pub fn contains(&self, slot: Slot) -> bool {
        self.picks.iter().any(|pick| pick.slot == slot)
    }

    /// The chosen positions, in pick order.
    pub fn positions(&self) -> Vec<usize> {
        self.picks.iter().map(|pick| pick.position).collect()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Pick) -> bool) {
        self.picks.retain(keep);
    }

    pub(crate) fn clear(&mut self) {
        self.picks.clear();
        self.forced = false;
        self.deferral = None;
        self.through.clear();
    }
}

impl std::ops::Deref for Picks {
    type Target = [Pick];
    fn deref(&self) -> &[Pick] {
        &self.picks
    }
}
