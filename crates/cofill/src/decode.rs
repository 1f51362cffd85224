//! One sequence being decoded. The caller drives: [`Decode::query`] says what to ask the model, [`Decode::absorb`] takes the answer.
//!
//! Batching, streaming, cancelling and counting forwards need no machinery: between two forwards a decode is plain data, and to
//! stop it is to ask no further query. Every absorb is one NFE (one forward).

mod builder;
mod cache;
mod canvas;
mod constraint;
mod pool;
mod schedule;
mod snapshot;

pub use builder::DecodeBuilder;
pub use cache::Cache;
pub use canvas::{Canvas, TokenId};
pub use constraint::{Constraint, ConstraintView};
pub use pool::{Event, Pool, Ticket};
pub use schedule::Schedule;
pub use snapshot::Snapshot;

use crate::sampler::{Pick, Revision};
use crate::trace::{CacheMeter, Collapse, Commit, Deferred, Step};
use crate::{
    Attention, Block, Denoiser, Error, Job, Needs, Policy, Prediction, Proposal, Query, Result, RowStats, Rows, Scope,
    Slot, StepView, TokenClasses, Verdict, ask,
};
use cache::{Caching, Check};
use constraint::Constrained;

/// A canvas, a sampler, and how far they have come.
///
/// Not `Clone`: the sampler in it may hold anything, a handle of another language included, and only its author knows how to copy
/// that. To branch, begin a new decode of a copy of [`Decode::canvas`] with a policy built afresh.
#[derive(Debug)]
pub struct Decode {
    canvas: Canvas,
    policy: Policy,
    needs: Needs,
    schedule: Schedule,
    proposal: Proposal,
    job: Job,
    sequence: u64,
    /// The most forwards the sampler said it would take.
    budget: usize,
    cap: Option<usize>,
    collapse: Vec<TokenId>, // behind one of these there is nothing but it
    spent: usize,           // forwards before the first
    appended: usize,        // masks that were added since the last step
    constrained: Option<Constrained>,
    caching: Option<Caching>,

    nfe: usize,
    step: usize,
    block: Block,
    candidates: Vec<usize>,      // [slots] positions
    rows: Vec<usize>,            // [rows] positions of the query; contains the candidates
    asked: Option<Vec<TokenId>>, // the canvas with tokens revealed, while a sampler looks ahead
    revealed: Vec<(Slot, TokenId)>,
    reveals: usize,  // forwards of this step on such canvases
    consults: usize, // how many of them were the companion's
    companion: bool, // whether the next forward is the companion's
    companion_nfe: usize,
    base: Vec<RowStats>, // [slots] what the step's first pass said

    revision: Revision,
    slot_stats: Vec<RowStats>, // scratch, for scopes wider than the candidates
}

/// Why a decode has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// No mask is left.
    Complete,
    /// The cap on forwards was reached; masks are left.
    Capped,
}

impl Decode {
    /// Decodes `canvas` greedily, without blocks and without a cap; [`Decode::builder`] changes that.
    pub fn new(canvas: Canvas, policy: Policy) -> Result<Decode> {
        Decode::builder(canvas, policy).begin()
    }

    /// A decode of `canvas` that is still to be told how.
    pub fn builder(canvas: Canvas, policy: Policy) -> DecodeBuilder {
        DecodeBuilder::new(canvas, policy)
    }

    /// Goes on with `n` more masks behind a canvas that is full, and with a sampler built afresh. Forwards and steps are counted on, so that
    /// the cap holds for all of it and no noise repeats; what was filled stays.
    pub fn grow(self, n: usize, policy: Policy) -> Result<Decode> {
        let Decode { mut canvas, schedule, proposal, cap, collapse, nfe, companion_nfe, sequence, caching, .. } = self;
        if canvas.n_masked() > 0 {
            return Err(contract("caller", format!("the canvas grows while it has {} masks left", canvas.n_masked())));
        }
        // The language was of the canvas as it was, and its text is complete.
        if self.constrained.is_some() {
            return Err(contract("caller", "the canvas grows while its text is held to a language".into()));
        }
        canvas.append(n);
        let first_step = self.job.first_step + self.step;
        let builder =
            DecodeBuilder::new(canvas, policy).schedule(schedule).proposal(proposal).cap(cap).collapse(collapse);
        let cache = caching.as_ref().map_or(Cache::Off, Caching::cache);
        let next = builder.spent(nfe).cache(cache).begin_at(first_step)?;
        let caching = next.caching.zip(caching).map(|(next, older)| next.after(older));
        Ok(Decode { companion_nfe, sequence, caching, appended: self.appended + n, ..next })
    }

    /// Names the sequence in its queries.
    pub(crate) fn with_sequence(mut self, sequence: u64) -> Decode {
        self.sequence = sequence;
        self
    }

    /// Works out what the next step looks at.
    fn aim(&mut self) {
        self.asked = None;
        self.revealed.clear();
        self.reveals = 0;
        self.consults = 0;
        self.companion = false;
        self.candidates.clear();
        self.rows.clear();
        let Some((index, end)) = self.schedule.current(&self.canvas) else { return };
        if index != self.block.index {
            self.block.step = 0;
        }
        let start = self.schedule.start(&self.canvas, index);
        (self.block.index, self.block.start, self.block.end) = (index, start, end);
        self.candidates.extend(self.canvas.masked().take_while(|&i| i < end));
        if let Some(caching) = &mut self.caching {
            caching.aim(index, start..end.min(self.canvas.window().end));
        }
        // A filling is of all masks.
        let scope = if self.constrained.is_some() { self.needs.scope.max(Scope::Masked) } else { self.needs.scope };
        match scope {
            Scope::Candidates => self.rows.extend_from_slice(&self.candidates),
            Scope::Masked => self.rows.extend(self.canvas.masked()),
            Scope::Free => self.rows.extend_from_slice(self.canvas.open()),
            Scope::Canvas => self.rows.extend(0..self.job.length),
        }
    }

    /// What to ask the model next; `None` when the decode has ended.
    pub fn query(&self) -> Option<Query<'_>> {
        if self.finish().is_some() {
            return None;
        }
        Some(Query {
            sequence: self.sequence,
            tokens: self.asked.as_deref().unwrap_or(self.canvas.tokens()),
            rows: &self.rows,
            free: self.canvas.free(),
            targets: None,
            classes: self.asked_classes(),
            attention: self.needs.attention,
            distributions: self.needs.distributions || self.caching.as_ref().is_some_and(Caching::measures),
            companion: self.companion,
            reuse: self.caching.as_ref().and_then(Caching::reuse),
            proposal: &self.proposal,
            step: self.steps(),
        })
    }

    /// The classes of tokens that the next forward tells apart. A companion is not asked: what it says is for the sampler alone.
    fn asked_classes(&self) -> Option<&TokenClasses> {
        self.constrained.as_ref().filter(|_| !self.companion).map(|constrained| constrained.constraint.classes())
    }

    /// Takes the answer to [`Decode::query`]: one NFE. Returns the step it completes, or `None` when the sampler asks for
    /// another forward first. An error leaves the canvas as it was.
    pub fn absorb(&mut self, prediction: &Prediction) -> Result<Option<Step>> {
        if self.query().is_none() {
            return Err(Error::NothingAsked);
        }
        let beside = self.caching.as_ref().map_or(0, |caching| caching.beside);
        if self.nfe - self.spent - beside >= self.budget {
            return Err(Error::Stalled { masks: self.canvas.n_masked(), nfe: self.nfe });
        }
        if self.caching.as_mut().is_some_and(|caching| caching.hold(prediction)) {
            self.nfe += 1;
            return Ok(None);
        }
        let verdict = self.decide(prediction)?;
        let by_companion = usize::from(self.companion);
        if let Verdict::Reveal(reveal) | Verdict::Consult(reveal) = &verdict {
            if self.caching.is_some() {
                return Err(contract("sampler", "it looks ahead under a cache, and had not said so".into()));
            }
            let mut canvas = self.canvas.clone();
            for &(slot, token) in reveal {
                let missing =
                    || contract("sampler", format!("it reveals slot {} of {}", slot.0, self.candidates.len()));
                canvas.commit(*self.candidates.get(slot.0).ok_or_else(missing)?, token)?;
            }
            self.asked = Some(canvas.tokens().to_vec());
            self.revealed.clone_from(reveal);
            self.companion = matches!(verdict, Verdict::Consult(_));
            self.reveals += 1;
            self.consults += by_companion;
            self.nfe += 1;
            self.companion_nfe += by_companion;
            return Ok(None);
        }
        self.consults += by_companion;
        let mut step = self.apply(&verdict)?;
        if let Some(caching) = &mut self.caching {
            caching.absorbed(prediction);
            let (beside, partial) = caching.step();
            (step.forwards, step.partial) = (step.forwards + beside, partial);
        }
        self.nfe += 1;
        self.companion_nfe += by_companion;
        self.step += 1;
        self.block.step += 1;
        self.aim();
        Ok(Some(step))
    }

    /// What the sampler makes of an answer. One that completes a check is compared with the cached one before it, and a sampler that does not
    /// remember says what it would have made of that.
    fn decide(&mut self, prediction: &Prediction) -> Result<Verdict> {
        let Some(Check { cached, is_beside }) = self.caching.as_mut().and_then(Caching::completes) else {
            return self.show(prediction);
        };
        let (used, other) = if is_beside { (&cached, prediction) } else { (prediction, &cached) };
        let chosen = |decode: &Decode| {
            let mut chosen: Vec<_> = decode.revision.picks.iter().map(|pick| (pick.position, pick.token)).collect();
            chosen.sort_unstable();
            chosen
        };
        let else_chosen = if self.needs.history { None } else { Some(self.show(other).map(|_| chosen(self))?) };
        let verdict = self.show(used)?;
        let flipped = else_chosen.map(|theirs| theirs != chosen(self));
        match &mut self.caching {
            Some(caching) => caching.compared(&cached, prediction, flipped).map(|()| verdict),
            None => Ok(verdict),
        }
    }

    /// Checks the prediction against what was asked and shows it to the sampler.
    fn show(&mut self, prediction: &Prediction) -> Result<Verdict> {
        let is_constrained = self.constrain(prediction)?;
        let stats = match &self.constrained {
            Some(constrained) if is_constrained => &constrained.stats,
            _ => &prediction.rows,
        };
        let restricted: Option<Attention>;
        let candidates = if self.rows.len() == self.candidates.len() {
            Rows { positions: &self.candidates, stats, attention: prediction.attention.as_ref() }
        } else {
            let row = |position: &usize| self.rows.binary_search(position).expect("rows contain the candidates");
            let rows: Vec<usize> = self.candidates.iter().map(row).collect();
            self.slot_stats.clear();
            self.slot_stats.extend(rows.iter().filter_map(|&r| stats.get(r)));
            let whole = prediction.attention.as_ref().filter(|a| a.len() == self.rows.len());
            restricted = whole.map(|a| a.restrict(&rows));
            Rows { positions: &self.candidates, stats: &self.slot_stats, attention: restricted.as_ref() }
        };
        let wide = Rows { positions: &self.rows, stats, attention: prediction.attention.as_ref() };
        let view = StepView {
            candidates,
            wide,
            distributions: prediction.distributions.as_ref(),
            tokens: self.asked.as_deref().unwrap_or(self.canvas.tokens()),
            mask_id: self.canvas.mask_id(),
            job: &self.job,
            block: self.block.clone(),
            step: self.step,
            revealed: &self.revealed,
            proposal: &self.proposal,
        };
        view.check(&self.needs)?;
        let mask_id = self.canvas.mask_id();
        if let Some(r) = stats.iter().position(|row| row.token == mask_id) {
            return Err(Error::MaskProposed { position: self.rows[r], mask_id });
        }
        if self.reveals == 0 {
            self.base.clear();
            self.base.extend_from_slice(view.candidates.stats);
        }
        self.policy.step(&view, &mut self.revision)
    }

    /// Lets the constraint, if there is one, make of a forward of the model what samplers see. Says whether it did.
    fn constrain(&mut self, prediction: &Prediction) -> Result<bool> {
        let Some(constrained) = self.constrained.as_mut().filter(|_| !self.companion) else { return Ok(false) };
        let view = ConstraintView {
            tokens: self.asked.as_deref().unwrap_or(self.canvas.tokens()),
            mask_id: self.canvas.mask_id(),
            rows: &self.rows,
            classes: prediction.classes.as_ref().ok_or(Error::Missing { what: "classes" })?,
            proposal: &self.proposal,
            step: self.step,
        };
        constrained.absorb(&view, prediction, self.reveals == 0)?;
        Ok(true)
    }

    /// Drops picks that are not the step's own filling, if with them no text of the language could be completed: samplers may write what
    /// another forward, or another model, proposed. Where nothing is left, the surest of the filling is committed.
    fn keep_valid(&mut self) -> Result<()> {
        let Some(constrained) = &self.constrained else { return Ok(()) };
        let Revision { picks, remask } = &mut self.revision;
        if picks.is_empty() || picks.iter().all(|pick| constrained.agrees(pick.position, pick.token)) {
            return Ok(());
        }
        let mask_id = self.canvas.mask_id();
        let mut tokens = self.canvas.tokens().to_vec();
        let changed = picks.iter().map(|pick| (pick.position, pick.token)).chain(remask.iter().map(|&i| (i, mask_id)));
        for (position, token) in changed {
            *tokens.get_mut(position).ok_or(Error::NotFree { position })? = token;
        }
        if constrained.constraint.is_completable(&tokens, mask_id) {
            return Ok(());
        }
        picks.retain(|pick| constrained.agrees(pick.position, pick.token));
        if picks.is_empty() && remask.is_empty() {
            let filled = (0..).zip(&self.candidates).filter_map(|(slot, &i)| Some((slot, i, constrained.filled(i)?)));
            let surest = filled.reduce(|a, b| if b.2.stats.confidence > a.2.stats.confidence { b } else { a });
            if let Some((slot, position, filled)) = surest {
                let RowStats { token, confidence, entropy, .. } = filled.stats;
                let (score, utility) = (confidence, confidence);
                picks.add(Pick { slot: Slot(slot), position, token, confidence, entropy, score, utility });
                picks.forced = true;
            }
        }
        Ok(())
    }

    /// Changes the canvas and says what changed.
    fn apply(&mut self, verdict: &Verdict) -> Result<Step> {
        self.keep_valid()?;
        let Revision { picks, remask } = &self.revision;
        if *verdict == Verdict::Commit && picks.is_empty() && remask.is_empty() {
            return Err(Error::NothingSelected { step: self.step });
        }
        if *verdict == Verdict::Wait && !(picks.is_empty() && remask.is_empty()) {
            return Err(contract("sampler", "it waits and commits at once".into()));
        }
        let n_masked = self.canvas.n_masked();
        // On a copy, so that a faulty sampler's half step is not kept.
        let mut canvas = self.canvas.clone();
        let position = |slot: Slot| self.candidates[slot.0];
        let constrained = self.constrained.as_ref();
        let commit = |pick: &Pick| Commit {
            position: pick.position,
            token: pick.token,
            confidence: pick.confidence,
            entropy: pick.entropy,
            score: pick.score,
            utility: pick.utility,
            clean_confidence: constrained.and_then(|constrained| constrained.clean_confidence(pick)),
        };
        for pick in picks.iter() {
            if self.candidates.get(pick.slot.0) != Some(&pick.position) {
                let (slot, position) = (pick.slot.0, pick.position);
                return Err(contract("sampler", format!("slot {slot} is not the candidate at position {position}")));
            }
            canvas.commit(pick.position, pick.token)?;
        }
        for &position in remask {
            canvas.remask(position)?;
        }
        let collapsed = self.end_text(&mut canvas)?;
        self.canvas = canvas;
        Ok(Step {
            step: self.steps(),
            appended: std::mem::take(&mut self.appended),
            forwards: 1 + self.reveals,
            companion: self.consults,
            partial: 0,
            n_masked,
            candidates: self.candidates.len(),
            commits: picks.iter().map(commit).collect(),
            remasked: remask.clone(),
            collapsed,
            pieces: Vec::new(),
            forced: picks.forced,
            deferred: picks.deferral.map(|d| Deferred {
                position: position(d.deferred),
                confidence: self.base[d.deferred.0].confidence,
                instead: d.instead.map(position),
                by: position(d.by),
                through: picks.through.iter().map(|&slot| position(Slot(slot))).collect(),
                discount: d.discount,
                waits: !picks.contains(d.deferred),
            }),
        })
    }

    /// Fills what is masked behind the first end that this step commits behind everything that was given.
    fn end_text(&self, canvas: &mut Canvas) -> Result<Option<Collapse>> {
        if self.collapse.is_empty() {
            return Ok(None);
        }
        let tail = canvas.tail();
        let ends =
            self.revision.picks.iter().filter(|pick| pick.position >= tail && self.collapse.contains(&pick.token));
        let Some((by, token)) = ends.map(|pick| (pick.position, pick.token)).min() else { return Ok(None) };
        let positions: Vec<usize> = canvas.masked().filter(|&position| position > by).collect();
        positions.iter().try_for_each(|&position| canvas.commit(position, token))?;
        Ok((!positions.is_empty()).then_some(Collapse { by, token, positions }))
    }

    /// Whether the decode has ended, and why.
    pub fn finish(&self) -> Option<Finish> {
        if self.canvas.n_masked() == 0 {
            return Some(Finish::Complete);
        }
        self.cap.is_some_and(|cap| self.nfe >= cap).then_some(Finish::Capped)
    }

    /// Whether the next query is about a copy of the canvas, with tokens revealed, because the sampler looks ahead.
    pub fn is_probing(&self) -> bool {
        self.asked.is_some()
    }

    /// The sequence as it stands.
    pub fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// How tokens are proposed.
    pub fn proposal(&self) -> &Proposal {
        &self.proposal
    }

    /// Forwards absorbed so far.
    pub fn nfe(&self) -> usize {
        self.nfe
    }

    /// How many of them were the companion's.
    pub fn companion_nfe(&self) -> usize {
        self.companion_nfe
    }

    /// What its cache saved, and what that cost as far as it was measured; `None` without a cache.
    pub fn cache_meter(&self) -> Option<&CacheMeter> {
        self.caching.as_ref().map(Caching::meter)
    }

    /// Steps completed so far: as many as forwards, unless the sampler looks ahead.
    pub fn steps(&self) -> usize {
        self.job.first_step + self.step
    }

    /// Masks that were added since the last step: 0, unless the canvas has just grown.
    pub fn appended(&self) -> usize {
        self.appended
    }
}

fn contract(who: &'static str, problem: String) -> Error {
    Error::Contract { who, problem }
}

/// Decodes to the end and returns the steps.
///
/// ```
/// use cofill::{Canvas, Decode, Denoiser, SamplerSpec, generate, toy::Toy};
/// let mut toy = Toy::phrases(8);
/// let canvas = Canvas::prompt(&[], 8, toy.mask_id());
/// let mut decode = Decode::new(canvas, "topk:4+ad".parse::<SamplerSpec>()?.build()?)?;
/// let steps = generate(&mut toy, &mut decode)?;
/// assert_eq!((steps.len(), decode.nfe(), decode.canvas().n_masked()), (2, 2, 0));
/// # Ok::<(), cofill::Error>(())
/// ```
pub fn generate(denoiser: &mut dyn Denoiser, decode: &mut Decode) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while let Some(query) = decode.query() {
        let predictions = ask(denoiser, &[query])?;
        let prediction = predictions.first().ok_or(Error::Length {
            what: "predictions",
            want: 1,
            got: 0,
            because: "one per query",
        })?;
        steps.extend(decode.absorb(prediction)?);
    }
    Ok(steps)
}
