//! Canvases filled, one or many at a time, with an event after every step.
//!
//! A decode is plain data between two forwards, so whoever listens may stop one after any step; what was committed stays.

use crate::gap_length::SettledGap;
use crate::growth::{Ended, Growth, Next, grown};
use crate::input::{Drawn, Input};
use crate::options::RunOptions;
use crate::question::{Judged, Question};
use crate::reading::Reading;
use crate::{Engine, Result};
use cofill::trace::{CacheMeter, End, Header, VERSION};
use cofill::{
    Canvas, Constraint, Decode, DecodeBuilder, Denoiser, Pool, Prediction, Query, SamplerSpec, Step, Ticket, TokenId,
    Trace,
};
use serde::Serialize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A canvas that is ready to be filled.
#[derive(Debug)]
pub struct Prepared {
    /// As it is before the first step.
    pub start: Canvas,
    /// The question of a mini task that it asks, if it does.
    pub question: Option<Question>,
    /// What whoever asked should hear.
    pub warnings: Vec<String>,
    /// The gaps whose length was found.
    pub gaps: Vec<SettledGap>,
    decode: Decode,
    stops: Vec<String>,
    growth: Option<Growth>,
    expects_end: bool,
}

impl Prepared {
    /// Forwards that were spent on finding the length of gaps.
    pub fn probes(&self) -> usize {
        self.gaps.iter().map(|gap| gap.tried.len()).sum()
    }
}

/// One step of one canvas.
#[derive(Debug)]
#[non_exhaustive]
pub struct StepEvent<'a> {
    /// Which of the canvases that were given, from 0.
    pub index: usize,
    /// What was committed: positions, tokens with their texts (`pieces`), and the statistics that decided.
    pub step: &'a Step,
    /// The canvas after the step.
    pub canvas: &'a Canvas,
    /// Forwards so far.
    pub nfe: usize,
}

/// How filling a canvas ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Finish {
    /// No mask is left.
    Complete,
    /// The most forwards that were allowed are used up.
    Capped,
    /// Whoever listened wanted no more.
    Cancelled,
}

/// Where the time went, in seconds. Of canvases that were filled together, each has its share of a forward.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Seconds {
    /// In forwards.
    pub model: f64,
    /// In deciding what to commit.
    pub sampler: f64,
}

/// What came of a canvas.
#[derive(Debug)]
#[non_exhaustive]
pub struct Generation {
    /// As it was before the first step.
    pub start: Canvas,
    /// As it is now.
    pub canvas: Canvas,
    /// What a person reads of it: up to the end of text, the end of a turn or a stop string.
    pub text: String,
    /// What of it was generated: the answer to a prompt, or what each gap was filled with.
    pub answers: Vec<String>,
    /// How many of the generated tokens are in that text.
    pub useful: usize,
    /// Forwards, those included that found the length of gaps.
    pub nfe: usize,
    /// The gaps whose length was found.
    pub gaps: Vec<SettledGap>,
    /// Masks that were added behind those of the start.
    pub appended: usize,
    /// How filling it ended.
    pub finish: Finish,
    /// How its text ended.
    pub ended: Ended,
    /// Every step.
    pub steps: Vec<Step>,
    /// Where the time went.
    pub seconds: Seconds,
    /// What a cache saved, and how far its answers were from exact ones as far as that was measured.
    pub cache: Option<CacheMeter>,
    /// Whether the question of a mini task was answered rightly, if one was asked.
    pub judged: Option<Judged>,
    expects_end: bool,
    given: usize,
}

impl Generation {
    /// The text without the prompt before it; of a text with gaps, all of it.
    pub fn reply(&self) -> &str {
        self.text.get(self.given..).unwrap_or(&self.text)
    }

    /// The canvas before the first step, with the masks that were added later.
    pub fn whole_start(&self) -> Canvas {
        grown(&self.start, self.appended)
    }

    /// What happened, as a trace that begins with this header.
    pub fn trace(&self, header: Header) -> Trace {
        Trace { header, steps: self.steps.clone(), end: Some(self.trace_end()) }
    }

    /// Positions that were filled.
    pub fn filled(&self) -> usize {
        self.start.n_masked() + self.appended - self.canvas.n_masked()
    }

    /// Forwards that were spent on finding the length of gaps.
    pub fn probes(&self) -> usize {
        self.gaps.iter().map(|gap| gap.tried.len()).sum()
    }

    /// What was generated, without what was given; of several gaps, a line each.
    pub fn answer(&self) -> String {
        self.answers.join("\n")
    }

    /// Whether it looks as if the answer had more to say: an end was to be expected, and every position is filled without one. Gaps, and
    /// mini tasks whose answers fill their canvas, end so.
    pub fn is_cut_off(&self) -> bool {
        self.expects_end && self.ended == Ended::Full
    }

    /// What its trace ends with.
    pub fn trace_end(&self) -> End {
        let told: usize = self.steps.iter().map(|step| step.appended).sum();
        End {
            nfe: self.nfe,
            tokens: self.canvas.tokens().to_vec(),
            appended: self.appended - told,
            cache: self.cache.clone(),
        }
    }

    /// Positions that a forward filled, on average.
    pub fn tokens_per_forward(&self) -> f64 {
        self.filled() as f64 / self.nfe.max(1) as f64
    }

    /// Tokens that somebody reads, by the time they took.
    pub fn useful_tokens_per_second(&self) -> f64 {
        self.useful as f64 / (self.seconds.model + self.seconds.sampler).max(1e-9)
    }
}

/// The decode of a canvas by a sampler, as options want it, in a language or in none.
pub fn begin(
    canvas: Canvas,
    sampler: &SamplerSpec,
    options: &RunOptions,
    proposal: cofill::Proposal,
    constraint: Option<Box<dyn Constraint>>,
) -> cofill::Result<Decode> {
    builder(canvas, sampler, options, proposal, constraint)?.begin()
}

fn builder(
    canvas: Canvas,
    sampler: &SamplerSpec,
    options: &RunOptions,
    proposal: cofill::Proposal,
    constraint: Option<Box<dyn Constraint>>,
) -> cofill::Result<DecodeBuilder> {
    options.check_companion(sampler)?;
    let builder = Decode::builder(canvas, sampler.build()?).proposal(proposal).constraint(constraint);
    Ok(builder.schedule(options.schedule()).cap(options.max_nfe).cache(options.cache))
}

impl Engine {
    /// Turns what was given into a canvas, and a sampler and options into a decode of it. No forward is spent, so gaps have numbers;
    /// [`Engine::prepare_auto`] finds those that have none.
    pub fn prepare(&self, input: &Input, sampler: &SamplerSpec, options: &RunOptions) -> Result<Prepared> {
        self.prepare_settled(input, Vec::new(), sampler, options)
    }

    /// The same, also of gaps whose length is to be found.
    pub fn prepare_auto(&mut self, input: &Input, sampler: &SamplerSpec, options: &RunOptions) -> Result<Prepared> {
        let (input, gaps) = self.settle_gaps(input, options)?;
        self.prepare_settled(&input, gaps, sampler, options)
    }

    /// What [`Engine::settle_gaps`] made of an input, and what it spent.
    pub fn prepare_settled(
        &self,
        input: &Input,
        gaps: Vec<SettledGap>,
        sampler: &SamplerSpec,
        options: &RunOptions,
    ) -> Result<Prepared> {
        options.check()?;
        let language = self.language(options)?;
        let Drawn { canvas: start, question, warnings, room } = self.draw(input, options, language.as_ref())?;
        if room.is_some() && language.is_some() {
            let limit = "a number, since a text that is held to a language is of a size that is known".into();
            return Err(cofill::Error::BadSetting { what: "length", limit, given: "`auto`".into() }.into());
        }
        // A text that is held to a language is complete wherever it ends.
        let is_held = language.is_some();
        let constraint = language.map(|language| self.hold(&language, input, &start, options)).transpose()?;
        let (sampler, ends) = (&self.settle(sampler)?, self.ends());
        let behind = start.tokens().len() - start.tail();
        let expects_end = match input {
            _ if is_held => false,
            Input::Tokens(_) | Input::Template(_) => false,
            Input::Nothing if question.is_none() => false,
            _ => {
                // Answers to mini tasks fill the canvas that they are given.
                let needs = question.as_ref().map_or(usize::MAX, |question| question.task.length());
                let is_whole = room.is_none() && behind >= needs;
                behind > 0 && !ends.tokens().is_empty() && !options.logits_eos_inf && !is_whole
            }
        };
        let spent = gaps.iter().map(|gap| gap.tried.len()).sum();
        let collapse = if options.collapse { ends.tokens() } else { Vec::new() };
        let builder = builder(start.clone(), sampler, options, options.proposal_for(&start, ends), constraint)?;
        let decode = builder.spent(spent).collapse(collapse).begin()?;
        let growth = room.map(|room| Growth::new(room, sampler, options));
        Ok(Prepared { start, question, warnings, gaps, decode, stops: options.stop.clone(), growth, expects_end })
    }

    /// What the trace of a canvas begins with; who spent forwards on its gaps says how many.
    pub fn trace_header(&self, start: &Canvas, sampler: &SamplerSpec, options: &RunOptions) -> Header {
        Header {
            cofill_trace: VERSION,
            sampler: sampler.form(),
            model: self.name().into(),
            tokens: start.tokens().to_vec(),
            mask_id: start.mask_id(),
            block: options.block,
            temperature: options.temperature,
            seed: options.seed,
            pieces: start.tokens().iter().map(|&token| self.piece(token)).collect(),
            probes: 0,
        }
    }

    /// Fills a canvas.
    pub fn generate(&mut self, prepared: Prepared) -> Result<Generation> {
        self.generate_watched(prepared, &mut |_| ControlFlow::Continue(()))
    }

    /// Fills a canvas and tells of every step; `Break` ends it there.
    pub fn generate_watched(
        &mut self,
        prepared: Prepared,
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let mut all = self.generate_many(vec![prepared], watch)?;
        all.remove(0)
    }

    /// Fills a canvas until it is full or the flag is set, which a signal or another thread may do at any moment, also within a forward: what was
    /// committed by then stays.
    pub fn generate_until(
        &mut self,
        prepared: Prepared,
        stop: &Arc<AtomicBool>,
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let stopped = || stop.load(Ordering::Relaxed);
        self.stop_when(Some(stop.clone()));
        let mut filling = Filling::new(vec![prepared]);
        let mut round = Ok(());
        while round.is_ok() && !filling.is_done() && !stopped() {
            round = filling.round(self, watch);
        }
        self.stop_when(None);
        match round {
            // A forward that was stopped is no failure, and left the canvas as it was.
            Err(error) if !stopped() => Err(error),
            _ => filling.finish(self).remove(0),
        }
    }

    /// Fills canvases together: they share forwards and nothing else. A decode that fails ends alone; a forward that fails ends all.
    pub fn generate_many(
        &mut self,
        prepared: Vec<Prepared>,
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Result<Generation>>> {
        let mut filling = Filling::new(prepared);
        while !filling.is_done() {
            filling.round(self, watch)?;
        }
        Ok(filling.finish(self))
    }

    /// What came of a decode that is over.
    fn ended(&self, running: Running) -> Option<Result<Generation>> {
        let Running { start, question, stops, gaps, growth, expects_end, steps, seconds, end, .. } = running;
        let (decode, finish) = match end? {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        let appended = growth.map_or(0, |growth| growth.appended);
        let (whole, canvas) = (grown(&start, appended), decode.canvas());
        let ended = self.settled_end(&whole, canvas, &stops);
        let reading = ended.and_then(|ended| Ok((ended, self.read(&whole, canvas, &stops)?)));
        Some(reading.map(|(ended, Reading { text, answers, useful, given })| Generation {
            judged: question.map(|question| question.judge(&text)),
            canvas: canvas.clone(),
            nfe: decode.nfe(),
            cache: decode.cache_meter().cloned(),
            ended: ended.unwrap_or(Ended::without_end(finish)),
            start,
            text,
            answers,
            useful,
            gaps,
            appended,
            finish,
            steps,
            seconds,
            expects_end,
            given,
        }))
    }
}

/// Canvases on their way, a round at a time: for whoever wants to look, or to go away, between two forwards.
///
/// ```
/// use cofill_engine::{Engine, Filling, Input, RunOptions};
/// use std::ops::ControlFlow;
///
/// let mut engine = Engine::open("toy", &RunOptions::default())?;
/// let ready = engine.prepare(&Input::Nothing, &"topk:4".parse()?, &RunOptions::default())?;
/// let mut filling = Filling::new(vec![ready]);
/// let mut rounds = 0;
/// while !filling.is_done() {
///     filling.round(&mut engine, &mut |_| ControlFlow::Continue(()))?;
///     rounds += 1;
/// }
/// assert_eq!(rounds, 3); // 12 masks, 4 a round
/// assert_eq!(filling.finish(&engine).remove(0)?.nfe, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Filling {
    pool: Pool,
    running: Vec<Running>,
    next: usize,
}

impl Filling {
    /// Canvases that are to be filled together.
    pub fn new(prepared: Vec<Prepared>) -> Filling {
        let mut filling = Filling::default();
        for prepared in prepared {
            filling.add(prepared);
        }
        filling
    }

    /// One more canvas; it takes part from the next round on. Its number, by which events and everything below name it, is never used again.
    pub fn add(&mut self, prepared: Prepared) -> usize {
        let Prepared { start, question, decode, stops, gaps, growth, expects_end, .. } = prepared;
        let (ticket, index) = (self.pool.add(decode), self.next);
        self.next += 1;
        let (steps, seconds, end) = (Vec::new(), Seconds::default(), None);
        self.running.push(Running {
            index,
            ticket,
            start,
            question,
            stops,
            gaps,
            growth,
            expects_end,
            steps,
            seconds,
            end,
        });
        index
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.pool.is_empty()
    }

    /// One forward of everybody who is not done. Tells of every step; `Break` ends that canvas there.
    pub fn round(
        &mut self,
        engine: &mut Engine,
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let everybody: Vec<Ticket> = self.running.iter().map(|running| running.ticket).collect();
        self.forward(engine, &everybody, watch)
    }

    /// One forward of some, by their numbers; nobody else moves. A forward that fails or panics is tried again for each alone, so that only
    /// those end who cannot be computed.
    pub fn round_of(
        &mut self,
        engine: &mut Engine,
        indices: &[usize],
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) {
        let chosen = self.running.iter().filter(|running| indices.contains(&running.index));
        let tickets: Vec<Ticket> = chosen.map(|running| running.ticket).collect();
        if self.tried(engine, &tickets, watch).is_ok() {
            return;
        }
        for ticket in tickets {
            if let Err(error) = self.tried(engine, &[ticket], watch) {
                self.pool.cancel(ticket);
                if let Some(running) = self.running.iter_mut().find(|running| running.ticket == ticket) {
                    running.end = Some(Err(error));
                }
            }
        }
    }

    /// A forward whose panic is an error.
    fn tried(
        &mut self,
        engine: &mut Engine,
        tickets: &[Ticket],
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let forward = catch_unwind(AssertUnwindSafe(|| self.forward(engine, tickets, watch)));
        let panicked = || cofill::Error::Contract { who: "model", problem: "it panicked".into() };
        forward.unwrap_or_else(|_| Err(panicked().into()))
    }

    /// Takes out those that are done, and what came of them.
    pub fn take_done(&mut self, engine: &Engine) -> Vec<(usize, Result<Generation>)> {
        let (done, running) = std::mem::take(&mut self.running).into_iter().partition(|running| running.end.is_some());
        self.running = running;
        let done: Vec<Running> = done;
        done.into_iter().filter_map(|running| Some((running.index, engine.ended(running)?))).collect()
    }

    /// Takes one out as it stands; the others go on as if it had never been there. `None` if it is not here.
    pub fn cancel(&mut self, engine: &Engine, index: usize) -> Option<Result<Generation>> {
        let at = self.running.iter().position(|running| running.index == index)?;
        let mut running = self.running.remove(at);
        if let Some(decode) = self.pool.cancel(running.ticket) {
            running.end.get_or_insert(Ok((decode, Finish::Cancelled)));
        }
        engine.ended(running)
    }

    /// A canvas as it stands, and the forwards it took.
    pub fn canvas(&self, index: usize) -> Option<(&Canvas, usize)> {
        let running = self.running.iter().find(|running| running.index == index)?;
        self.pool.get(running.ticket).map(|decode| (decode.canvas(), decode.nfe()))
    }

    fn forward(
        &mut self,
        engine: &mut Engine,
        tickets: &[Ticket],
        watch: &mut dyn FnMut(&StepEvent<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let Filling { pool, running, .. } = self;
        let begun = Instant::now();
        let mut timed = Timed { denoiser: engine.denoiser(), spent: Duration::ZERO };
        let events = pool.round_of(tickets, &mut timed)?;
        let model = timed.spent.as_secs_f64();
        let share = |seconds: f64| seconds / events.len().max(1) as f64;
        let (model, sampler) = (share(model), share(begun.elapsed().as_secs_f64() - model));
        for event in events {
            let Some(running) = running.iter_mut().find(|running| running.ticket == event.ticket) else { continue };
            let index = running.index;
            running.seconds.model += model;
            running.seconds.sampler += sampler;
            match event.step {
                Err(error) => running.end = Some(Err(error.into())),
                Ok(None) => {}
                Ok(Some(mut step)) => {
                    step.pieces = step.commits.iter().map(|commit| engine.piece(commit.token)).collect();
                    if let Some(decode) = pool.get(event.ticket) {
                        let told = StepEvent { index, step: &step, canvas: decode.canvas(), nfe: decode.nfe() };
                        let stop = watch(&told).is_break() && decode.finish().is_none();
                        running.steps.push(step);
                        if stop && let Some(decode) = pool.cancel(event.ticket) {
                            running.end = Some(Ok((decode, Finish::Cancelled)));
                        }
                    }
                }
            }
        }
        for (ticket, finish, decode) in pool.finished() {
            let finish = if finish == cofill::Finish::Capped { Finish::Capped } else { Finish::Complete };
            if let Some(running) = running.iter_mut().find(|running| running.ticket == ticket) {
                match running.next(engine, decode, finish) {
                    Ok(Next::On(decode)) => pool.resume(ticket, decode),
                    Ok(Next::Over(decode, finish)) => running.end = Some(Ok((decode, finish))),
                    Err(error) => running.end = Some(Err(error)),
                }
            }
        }
        Ok(())
    }

    /// How the text of canvas `index` has ended already, whatever is still masked behind that; `None` while it has not. Whoever reads nothing
    /// else may end the canvas there, by `Break`.
    pub fn settled_end(&self, engine: &Engine, index: usize) -> Result<Option<Ended>> {
        let Some(running) = self.running.iter().find(|running| running.index == index) else { return Ok(None) };
        let whole = grown(&running.start, running.growth.as_ref().map_or(0, |growth| growth.appended));
        let decode = match &running.end {
            Some(Ok((decode, _))) => Some(decode),
            _ => self.pool.get(running.ticket),
        };
        decode.map_or(Ok(None), |decode| engine.settled_end(&whole, decode.canvas(), &running.stops))
    }

    /// What came of them, in the order they were given. Those that are not done end here, as they stand.
    pub fn finish(mut self, engine: &Engine) -> Vec<Result<Generation>> {
        for running in &mut self.running {
            if running.end.is_none()
                && let Some(decode) = self.pool.cancel(running.ticket)
            {
                running.end = Some(Ok((decode, Finish::Cancelled)));
            }
        }
        self.running.into_iter().filter_map(|running| engine.ended(running)).collect()
    }
}

/// A canvas on its way.
struct Running {
    index: usize,
    ticket: Ticket,
    start: Canvas,
    question: Option<Question>,
    stops: Vec<String>,
    gaps: Vec<SettledGap>,
    growth: Option<Growth>,
    expects_end: bool,
    steps: Vec<Step>,
    seconds: Seconds,
    end: Option<Result<(Decode, Finish)>>,
}

impl Running {
    /// What becomes of a decode that has ended: only one that is complete, of a canvas that grows, may go on.
    fn next(&mut self, engine: &Engine, decode: Decode, finish: Finish) -> Result<Next> {
        match &mut self.growth {
            Some(growth) if finish == Finish::Complete => growth.next(engine, &self.start, &self.stops, decode),
            _ => Ok(Next::Over(decode, finish)),
        }
    }
}

/// A model whose time is taken.
struct Timed<'a> {
    denoiser: &'a mut dyn Denoiser,
    spent: Duration,
}

impl Denoiser for Timed<'_> {
    fn mask_id(&self) -> TokenId {
        self.denoiser.mask_id()
    }

    fn vocab(&self) -> usize {
        self.denoiser.vocab()
    }

    fn denoise(&mut self, queries: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let begun = Instant::now();
        let answer = self.denoiser.denoise(queries);
        self.spent += begun.elapsed();
        answer
    }

    fn consult(&mut self, queries: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let begun = Instant::now();
        let answer = self.denoiser.consult(queries);
        self.spent += begun.elapsed();
        answer
    }
}
