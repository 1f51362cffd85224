//! What a decode is told before it begins, and the checks of that.

use super::cache::{Cache, Caching};
use super::constraint::Constrained;
use super::{Canvas, Constraint, Decode, Schedule, TokenId};
use crate::sampler::Revision;
use crate::{Block, Job, Policy, Proposal, Result};

/// Everything a decode is told before it begins.
///
/// ```
/// use cofill::{Canvas, Decode, Proposal, SamplerSpec, Schedule};
/// let policy = "topk:2+ad".parse::<SamplerSpec>()?.build()?;
/// let decode = Decode::builder(Canvas::prompt(&[1, 2], 64, 0), policy)
///     .proposal(Proposal::sampled(0.5, 7))
///     .schedule(Schedule::Blocks { len: 32 })
///     .cap(100)
///     .begin()?;
/// assert_eq!(decode.query().map(|query| query.rows.len()), Some(32), "the first block");
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `begin`"]
pub struct DecodeBuilder {
    canvas: Canvas,
    policy: Policy,
    schedule: Schedule,
    proposal: Proposal,
    cap: Option<usize>,
    collapse: Vec<TokenId>,
    spent: usize,
    constraint: Option<Box<dyn Constraint>>,
    cache: Cache,
}

impl DecodeBuilder {
    pub(super) fn new(canvas: Canvas, policy: Policy) -> DecodeBuilder {
        DecodeBuilder {
            canvas,
            policy,
            schedule: Schedule::Full,
            proposal: Proposal::greedy(),
            cap: None,
            collapse: Vec::new(),
            spent: 0,
            constraint: None,
            cache: Cache::Off,
        }
    }

    /// Block by block, or all at once, which is the default.
    pub fn schedule(mut self, schedule: Schedule) -> DecodeBuilder {
        self.schedule = schedule;
        self
    }

    /// How tokens are proposed, and with which seed. The default is greedy.
    pub fn proposal(mut self, proposal: Proposal) -> DecodeBuilder {
        self.proposal = proposal;
        self
    }

    /// The most forwards; a decode that reaches them ends with masks left. The default is no cap.
    pub fn cap(mut self, cap: impl Into<Option<usize>>) -> DecodeBuilder {
        self.cap = cap.into();
        self
    }

    /// Tokens behind which there is nothing but they: once one is committed behind everything that was given, all masks behind it become it,
    /// without a forward. The default is none. Samplers that take commits back are left alone.
    pub fn collapse(mut self, ends: Vec<TokenId>) -> DecodeBuilder {
        self.collapse = ends;
        self
    }

    /// Forwards that this sequence has cost already: they count, and the cap holds for them, too.
    pub fn spent(mut self, nfe: usize) -> DecodeBuilder {
        self.spent = nfe;
        self
    }

    /// A language that the text must belong to, whatever the sampler commits. Samplers then see proposals and statistics of what is valid,
    /// also when they look ahead; whole distributions, and what a companion says, stay as they are. A sampler that writes other tokens than
    /// those proposed to it is held to them where the text could no longer be completed. The default is any text.
    pub fn constraint(mut self, constraint: impl Into<Option<Box<dyn Constraint>>>) -> DecodeBuilder {
        self.constraint = constraint.into();
        self
    }

    /// Which forwards compute only a window of the canvas. Refused where a cache cannot be right. The default is none.
    pub fn cache(mut self, cache: Cache) -> DecodeBuilder {
        self.cache = cache;
        self
    }

    /// Checks the settings and shows the job to the sampler, once.
    pub fn begin(self) -> Result<Decode> {
        self.begin_at(0)
    }

    /// The same, after steps that others made.
    pub(super) fn begin_at(self, first_step: usize) -> Result<Decode> {
        let DecodeBuilder { canvas, mut policy, schedule, proposal, cap, mut collapse, spent, constraint, cache } =
            self;
        schedule.check()?;
        proposal.check()?;
        let caching = Caching::begin(cache, schedule, &policy, constraint.is_some(), canvas.tokens().len())?;
        let job = Job {
            length: canvas.tokens().len(),
            masks: canvas.n_masked(),
            window: canvas.window(),
            blocks: schedule.blocks(&canvas),
            seed: proposal.seed,
            first_step,
        };
        if matches!(policy, Policy::Remasks(_)) {
            collapse.clear(); // what is taken back was not the end
        }
        let (needs, budget) = (policy.needs(), policy.begin(&job)?);
        let mut decode = Decode {
            canvas,
            policy,
            needs,
            schedule,
            proposal,
            job,
            sequence: 0,
            budget,
            cap,
            constrained: constraint.map(Constrained::new),
            caching,
            collapse,
            spent,
            appended: 0,
            nfe: spent,
            step: 0,
            block: Block { index: 0, step: 0, start: 0, end: 0 },
            candidates: Vec::new(),
            rows: Vec::new(),
            asked: None,
            revealed: Vec::new(),
            reveals: 0,
            consults: 0,
            companion: false,
            companion_nfe: 0,
            base: Vec::new(),
            revision: Revision::default(),
            slot_stats: Vec::new(),
        };
        decode.aim();
        Ok(decode)
    }
}
