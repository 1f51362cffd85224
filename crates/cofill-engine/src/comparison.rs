//! Several samplers on one canvas: everything but the sampler is the same.

use crate::generate::{Generation, Prepared, StepEvent};
use crate::input::Input;
use crate::options::RunOptions;
use crate::question::Question;
use crate::{Engine, Error, Result};
use cofill::trace::Header;
use cofill::{Canvas, Layers, SamplerSpec, Trace};
use std::ops::ControlFlow;

/// Samplers that are ready to fill copies of one canvas.
#[derive(Debug)]
pub struct Comparison {
    contenders: Vec<Contender>,
    /// What whoever asked should hear, once for all of them.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
struct Contender {
    sampler: SamplerSpec,
    prepared: Prepared,
    header: Header,
}

/// What one sampler made of the canvas.
#[derive(Debug)]
pub struct Compared {
    /// The sampler.
    pub sampler: SamplerSpec,
    /// What came of it and how, or why nothing did.
    pub outcome: Result<(Generation, Trace)>,
}

/// Why samplers cannot be compared, and whose fault it is.
#[derive(Debug)]
pub struct CannotCompare {
    /// The sampler that cannot be used; `None` when it is the canvas.
    pub sampler: Option<SamplerSpec>,
    /// Why.
    pub error: Box<Error>,
}

impl Comparison {
    /// Turns what was given into one canvas, and every sampler into a decode of it. The length of gaps is found once, and counted for each.
    ///
    /// Samplers that ask no companion do without the one that is given for the others.
    pub fn prepare(
        engine: &mut Engine,
        input: &Input,
        samplers: &[SamplerSpec],
        options: &RunOptions,
    ) -> Result<Comparison, CannotCompare> {
        let of_canvas = |error| CannotCompare { sampler: None, error: Box::new(error) };
        let (input, gaps) = engine.settle_gaps(input, options).map_err(of_canvas)?;
        engine.check_canvas(&input, options).map_err(of_canvas)?;
        let mut contenders = Vec::with_capacity(samplers.len());
        for sampler in samplers {
            let prepare = || {
                let sampler = engine.settle(sampler)?;
                engine.check_head(&sampler)?;
                let mut options = options.clone();
                if !sampler.build()?.needs().companion {
                    options.companion = None;
                }
                let prepared = engine.prepare_settled(&input, gaps.clone(), &sampler, &options)?;
                let mut header = engine.trace_header(&prepared.start, &sampler, &options);
                header.probes = prepared.probes();
                Ok(Contender { sampler, prepared, header })
            };
            contenders.push(
                prepare().map_err(|error| CannotCompare { sampler: Some(sampler.clone()), error: Box::new(error) })?,
            );
        }
        let warnings = contenders.first().map(|first| first.prepared.warnings.clone()).unwrap_or_default();
        Ok(Comparison { contenders, warnings })
    }

    /// The canvas that all of them fill.
    pub fn start(&self) -> Option<&Canvas> {
        self.contenders.first().map(|first| &first.prepared.start)
    }

    /// The question of a mini task that it asks, if it does.
    pub fn question(&self) -> Option<&Question> {
        self.contenders.first().and_then(|first| first.prepared.question.as_ref())
    }

    /// Fills a copy of the canvas with each, one after the other, and tells of every step of each, by its number. One that fails does so alone.
    pub fn run(self, engine: &mut Engine, mut watch: impl FnMut(usize, &StepEvent<'_>)) -> Vec<Compared> {
        let mut all = Vec::with_capacity(self.contenders.len());
        for (i, Contender { sampler, prepared, header }) in self.contenders.into_iter().enumerate() {
            let generation = engine.generate_watched(prepared, &mut |event| {
                watch(i, event);
                ControlFlow::Continue(())
            });
            let outcome = generation.map(|generation| {
                let trace = generation.trace(header);
                (generation, trace)
            });
            all.push(Compared { sampler, outcome });
        }
        all
    }
}

impl Engine {
    /// Refuses a canvas that no sampler could fill.
    fn check_canvas(&self, input: &Input, options: &RunOptions) -> Result<()> {
        options.check()?;
        let language = self.language(options)?;
        self.draw(input, options, language.as_ref()).map(|_| ())
    }

    /// Refuses a sampler that reads a trained head which the checkpoint does not have; a forward would say so, too, but only then.
    fn check_head(&self, sampler: &SamplerSpec) -> Result<()> {
        let reads_head = sampler.build()?.needs().attention == Some(Layers::Learned);
        match self.weights() {
            Some(_) if reads_head && self.about()?.pair_head.is_none() => {
                let path = Engine::checkpoint_at(self.name().as_ref())?.path().into();
                Err(cofill_model::Error::NoPairHead { path }.into())
            }
            _ => Ok(()),
        }
    }
}
