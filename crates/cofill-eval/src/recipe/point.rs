//! An operating point: everything that `cofill eval` can be told about one score.

use cofill::SamplerSpec;
use cofill_tasks::TaskName;
use cofill_tasks::judge::Math;
use cofill_tasks::mini::Split;
use cofill_tasks::wrapper::Wrapper;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// One model, task and sampler, and how they are put together. It is what was asked for: what that means (hashes, defaults that the
/// model decides) is found out when it is opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// What is asked.
    #[serde(with = "named")]
    pub task: TaskName,
    /// Who is asked, as `-m` takes it.
    pub model: String,
    /// Who decides what is committed together.
    pub sampler: SamplerSpec,
    /// Positions to generate; without, the task's.
    pub length: Option<usize>,
    /// How many questions; without, 500 of a mini task and all of a benchmark.
    pub limit: Option<usize>,
    /// Blocks from left to right.
    pub block: Option<usize>,
    /// 0 proposes the likeliest token.
    pub temperature: f64,
    /// The root of all randomness.
    pub seed: u64,
    /// Of a mini task.
    #[serde(with = "named")]
    pub split: Split,
    /// Of a mini task: which prompts of the split.
    pub corpus_seed: u64,
    /// Of a benchmark: few-shot examples; without, the paper's.
    pub shots: Option<usize>,
    /// Of gsm8k: on how many processes the harness would have drawn its examples.
    pub ranks: NonZeroUsize,
    /// Of a benchmark: whose post-processing; without, that of the model's family.
    #[serde(with = "named::option")]
    pub wrapper: Option<Wrapper>,
    /// Whether prompts begin with the beginning of text; without, as the wrapper has it.
    pub bos: Option<bool>,
    /// Of math500: who compares formulas.
    #[serde(with = "named")]
    pub math: Math,
    /// What runs programs.
    pub python: PathBuf,
    /// Whether programs run where nothing holds them.
    pub unsafe_exec: bool,
    /// How weights are kept; without, as the checkpoint has it.
    pub dtype: Option<String>,
    /// What computes.
    pub device: String,
    /// Questions decoded together; without, what suits the model. Changes no record.
    pub batch: Option<usize>,
    /// The folder in which relative names of models are looked up. Changes no record.
    pub models: Option<PathBuf>,
    /// The folder with the data files of benchmarks. Changes no record.
    pub data: Option<PathBuf>,
}

impl Point {
    /// Where its model is, if not inside the program.
    pub fn place(&self) -> PathBuf {
        let name = PathBuf::from(&self.model);
        let inside = self.models.as_ref().map(|folder| folder.join(&name));
        inside.filter(|path| path.exists()).unwrap_or(name)
    }
}

/// Written by name.
mod named {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }

    /// The same, where there may be none.
    pub(super) mod option {
        use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

        pub(in super::super) fn serialize<T: Display, S: Serializer>(
            value: &Option<T>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => serializer.collect_str(value),
                None => serializer.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
        }
    }
}
