//! Prompts: few-shot examples in the harness's order, then the question.
//!
//! Only `gsm8k` draws. The harness makes one generator for the task and never seeds it again, so question i gets the i-th draw. On W
//! processes every rank has its own generator and takes every W-th question: question i gets draw ⌊i / W⌋, and the first W questions
//! share their examples. A score of an 8-shot run therefore depends on how many GPUs it ran on.

use super::{Benchmark, Error, Loaded};
use crate::mt19937::Mt19937;
use std::num::NonZeroUsize;

/// The harness's seed for few-shot draws.
pub const FEWSHOT_SEED: u64 = 1234;

/// What a prompt of the harness depends on besides the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Few-shot examples; `None` for as many as the paper uses.
    pub shots: Option<usize>,
    /// How many processes the harness would run on.
    pub ranks: NonZeroUsize,
}

impl Default for Variant {
    fn default() -> Variant {
        Variant { shots: None, ranks: NonZeroUsize::MIN }
    }
}

/// The prompts of a benchmark.
pub struct Prompts<'a> {
    task: &'a Loaded,
    shots: usize,
    ranks: NonZeroUsize,
    /// Which examples each draw took, in order. Empty where the first ones are taken.
    draws: Vec<Vec<usize>>,
}

impl Loaded {
    /// The prompts of a variant. HumanEval has no examples, and as in the harness it gets none whatever is asked for.
    pub fn prompts(&self, variant: Variant) -> Result<Prompts<'_>, Error> {
        let (task, available) = (self.benchmark, self.rows.pool());
        let given = variant.shots.unwrap_or(task.shots());
        let shots = if task == Benchmark::Humaneval { 0 } else { given };
        if shots > available {
            return Err(Error::Shots { task, available, given });
        }
        let mut draws = Vec::new();
        if task == Benchmark::Gsm8k && shots > 0 {
            let mut random = Mt19937::seeded(FEWSHOT_SEED);
            for _ in 0..self.docs().div_ceil(variant.ranks.get()) {
                let drawn = random.sample(available as u32, shots as u32).unwrap_or_default();
                draws.push(drawn.into_iter().map(|index| index as usize).collect());
            }
        }
        Ok(Prompts { task: self, shots, ranks: variant.ranks, draws })
    }
}

impl Prompts<'_> {
    /// How many few-shot examples each prompt has.
    pub fn shots(&self) -> usize {
        self.shots
    }

    /// Which examples question `doc` is given, in order.
    pub fn examples(&self, doc: usize) -> Vec<usize> {
        match self.draws.get(doc / self.ranks) {
            Some(drawn) => drawn.clone(),
            None => (0..self.shots).collect(),
        }
    }

    /// The prompt of question `doc`.
    pub fn prompt(&self, doc: usize) -> Result<String, Error> {
        self.task.check(doc)?;
        let rows = &self.task.rows;
        let shots = self.examples(doc).into_iter().filter_map(|shot| rows.shot(shot, doc));
        Ok(shots.chain([rows.text(doc)]).collect())
    }
}
