//! Canvases filled, one or many at a time, with an event after every step.
//!
//! A decode is plain data between two forwards, so whoever listens may stop one after any step; what was committed stays.

use crate::input::{Drawn, Input};
use crate::options::RunOptions;
use crate::question::{Judged, Question};
use crate::reading::Reading;
use crate::{Engine, Result};
use cofill::trace::{Header, VERSION};
use cofill::{Canvas, Constraint, Decode, Denoiser, Pool, Prediction, Query, SamplerSpec, Step, Ticket, TokenId};
use serde::Serialize;
use std::ops::ControlFlow;
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
    decode: Decode,
    stops: Vec<String>,
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
    /// How many of the generated tokens are in that text.
    pub useful: usize,
    /// Forwards.
    pub nfe: usize,
    /// How it ended.
    pub finish: Finish,
    /// Every step.
    pub steps: Vec<Step>,
    /// Where the time went.
    pub seconds: Seconds,
    /// Whether the question of a mini task was answered rightly, if one was asked.
    pub judged: Option<Judged>,
}

impl Generation {
    /// Positions that were filled.
    pub fn filled(&self) -> usize {
        self.start.n_masked() - self.canvas.n_masked()
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
    options.check_companion(sampler)?;
    Decode::builder(canvas, sampler.build()?)
        .proposal(proposal)
        .constraint(constraint)
        .schedule(options.schedule())
        .cap(options.max_nfe)
        .begin()
}

impl Engine {
    /// Turns what was given into a canvas, and a sampler and options into a decode of it.
    pub fn prepare(&self, input: &Input, sampler: &SamplerSpec, options: &RunOptions) -> Result<Prepared> {
        options.check()?;
        let language = self.language(options)?;
        let Drawn { canvas, question, warnings } = self.draw(input, options, language.as_ref())?;
        let constraint = language.map(|language| self.hold(&language, input, &canvas, options)).transpose()?;
        let sampler = &self.settle(sampler)?;
        let decode = begin(canvas.clone(), sampler, options, options.proposal(self.ends()), constraint)?;
        Ok(Prepared { start: canvas, question, warnings, decode, stops: options.stop.clone() })
    }

    /// What the trace of a canvas begins with.
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
        let Running { start, question, stops, steps, seconds, end, .. } = running;
        let (decode, finish) = match end? {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        let reading = self.read(&start, decode.canvas(), &stops);
        Some(reading.map(|Reading { text, useful }| Generation {
            judged: question.map(|question| question.judge(&text)),
            canvas: decode.canvas().clone(),
            nfe: decode.nfe(),
            start,
            text,
            useful,
            finish,
            steps,
            seconds,
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
}

impl Filling {
    /// Canvases that are to be filled together.
    pub fn new(prepared: Vec<Prepared>) -> Filling {
        let mut filling = Filling::default();
        for Prepared { start, question, decode, stops, .. } in prepared {
            let ticket = filling.pool.add(decode);
            let (steps, seconds, end) = (Vec::new(), Seconds::default(), None);
            filling.running.push(Running { ticket, start, question, stops, steps, seconds, end });
        }
        filling
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
        let Filling { pool, running } = self;
        let begun = Instant::now();
        let mut timed = Timed { denoiser: engine.denoiser(), spent: Duration::ZERO };
        let events = pool.round(&mut timed)?;
        let model = timed.spent.as_secs_f64();
        let share = |seconds: f64| seconds / events.len().max(1) as f64;
        let (model, sampler) = (share(model), share(begun.elapsed().as_secs_f64() - model));
        for event in events {
            let Some(index) = running.iter().position(|running| running.ticket == event.ticket) else { continue };
            let running = &mut running[index];
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
                running.end = Some(Ok((decode, finish)));
            }
        }
        Ok(())
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
    ticket: Ticket,
    start: Canvas,
    question: Option<Question>,
    stops: Vec<String>,
    steps: Vec<Step>,
    seconds: Seconds,
    end: Option<Result<(Decode, Finish)>>,
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
