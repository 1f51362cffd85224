//! One score, and everything it can be told: a model and a sampler ([`RunOptions`]), a task ([`TaskOptions`]), its judges
//! ([`JudgeOptions`]).
//!
//! Each list of options is defined once. Its fields are flags of the command (with the feature `clap`), keys of a recipe and fields of a
//! plan.

use cofill::{Registry, SamplerSpec};
use cofill_engine::RunOptions;
use cofill_tasks::TaskName;
use cofill_tasks::judge::Math;
use cofill_tasks::mini::Split;
use cofill_tasks::wrapper::Wrapper;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Which questions of a task are asked, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct TaskOptions {
    /// How many questions (default: 500 of a mini task, all of any other).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub limit: Option<NonZeroUsize>,
    /// Questions decoded together (default: 16 for narrow models, 1 for others). Changes no record.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub batch: Option<NonZeroUsize>,
    /// Of a mini task: train, validation or test (default: test), which share no prompt. Of a task file: validation or test (default: all of
    /// its rows).
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(with = "named::option")]
    pub split: Option<Split>,
    /// Of a mini task: which prompts of the split.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true))]
    pub corpus_seed: u64,
    /// Of a benchmark or a task file: few-shot examples (default: the paper's, or what the file says).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub shots: Option<usize>,
    /// Of gsm8k: draw few-shot examples as the harness does on N processes.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "1"))]
    pub ranks: NonZeroUsize,
    /// Of a benchmark: plain, llada or dream, whose treatment of special tokens is followed (default: that of the model's family).
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(with = "named::option")]
    pub wrapper: Option<Wrapper>,
}

/// How answers are judged that are more than texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct JudgeOptions {
    /// Of math500: native compares formulas in this program, sympy in a Python process, as the harness does.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value_t = Math::Native))]
    #[serde(with = "named")]
    pub math: Math,
    /// The Python that runs generated code (and sympy).
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", default_value = "python3"))]
    pub python: PathBuf,
    /// Run generated code even where this machine offers too little to hold it. It can then do what you can.
    #[cfg_attr(feature = "clap", arg(long))]
    pub unsafe_exec: bool,
    /// Of a task file that judges by a command of its own: run it. It can do what you can. No recipe and no plan can say so: who starts a run
    /// does.
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(skip)]
    pub allow_command: bool,
}

/// One model, task and sampler, and how they are put together. It is what was asked for: what that means (hashes, defaults that the
/// model decides) is found out when it is opened.
///
/// `S` is a sampler as text while it is read, and one that a registry knows afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalSpec<S = SamplerSpec> {
    /// What is asked.
    #[serde(with = "named")]
    pub task: TaskName,
    /// Who is asked: the name of an embedded model, a folder or a file.
    pub model: String,
    /// Who decides what is committed together.
    pub sampler: S,
    /// How the model is run.
    #[serde(flatten)]
    pub run: RunOptions,
    /// Which questions are asked.
    #[serde(flatten)]
    pub questions: TaskOptions,
    /// Who judges the answers.
    #[serde(flatten)]
    pub judges: JudgeOptions,
    /// The folder in which relative names of models are looked up. Changes no record.
    pub models: Option<PathBuf>,
    /// The folder with the data files of benchmarks. Changes no record.
    pub data: Option<PathBuf>,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        TaskOptions {
            limit: None,
            batch: None,
            split: None,
            corpus_seed: 0,
            shots: None,
            ranks: NonZeroUsize::MIN,
            wrapper: None,
        }
    }
}

impl Default for JudgeOptions {
    fn default() -> JudgeOptions {
        JudgeOptions { math: Math::default(), python: "python3".into(), unsafe_exec: false, allow_command: false }
    }
}

impl<S> EvalSpec<S> {
    /// A task, a model and a sampler, with the defaults of everything else.
    pub fn new(task: TaskName, model: impl Into<String>, sampler: S) -> EvalSpec<S> {
        EvalSpec {
            task,
            model: model.into(),
            sampler,
            run: RunOptions::default(),
            questions: TaskOptions::default(),
            judges: JudgeOptions::default(),
            models: None,
            data: None,
        }
    }

    /// Where its model is, if not inside the program.
    pub fn place(&self) -> PathBuf {
        self.located(&self.model)
    }

    fn located(&self, name: &str) -> PathBuf {
        let name = PathBuf::from(name);
        let inside = self.models.as_ref().map(|folder| folder.join(&name));
        inside.filter(|path| path.exists()).unwrap_or(name)
    }

    /// Its options, with the companion where it is on this machine: like the model, in the folder of models or inside the program.
    pub(crate) fn located_run(&self) -> RunOptions {
        let companion = self.run.companion.as_ref().map(|name| self.located(name).display().to_string());
        let mut run = self.run.clone();
        run.companion = companion;
        run
    }
}

impl EvalSpec<String> {
    /// The same with a sampler that `registry` knows.
    pub fn resolve(self, registry: &Registry) -> cofill::Result<EvalSpec> {
        let sampler = registry.parse(&self.sampler)?;
        let EvalSpec { task, model, run, questions, judges, models, data, .. } = self;
        Ok(EvalSpec { task, model, sampler, run, questions, judges, models, data })
    }
}

/// Values that are written by their names.
pub(crate) mod named {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }

    /// The same, where there may be none.
    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

        pub(crate) fn serialize<T: Display, S: Serializer>(
            value: &Option<T>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => serializer.collect_str(value),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As a plan of an earlier version wrote it.
    fn written() -> serde_json::Value {
        json!({
            "task": "chain", "model": "tiny-llada", "sampler": "topk:2", "length": null, "limit": 12, "block": null,
            "temperature": 0.0, "seed": 0, "split": "test", "corpus_seed": 0, "shots": null, "ranks": 1, "wrapper": null, "bos": null,
            "math": "native", "python": "python3", "unsafe_exec": false, "dtype": "f16", "device": "cpu", "batch": null,
            "models": "/models", "data": null
        })
    }

    #[test]
    fn a_plan_of_an_earlier_version_is_read() {
        let spec: EvalSpec<String> = serde_json::from_value(written()).unwrap();
        let spec = spec.resolve(Registry::stock()).unwrap();
        assert_eq!((spec.task.name(), spec.sampler.to_string().as_str()), ("chain", "topk:2"));
        assert_eq!((spec.run.dtype.unwrap().to_string().as_str(), spec.questions.limit.unwrap().get()), ("f16", 12));
        assert!(!spec.run.logits_eos_inf && spec.run.top_p.is_none(), "what it could not say is the default");
        let again: EvalSpec<String> = serde_json::from_value(serde_json::to_value(&spec).unwrap()).unwrap();
        assert_eq!(again.resolve(Registry::stock()).unwrap(), spec);
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let mut odd = written();
        odd["lenght"] = json!(3);
        let said = serde_json::from_value::<EvalSpec<String>>(odd).unwrap_err().to_string();
        assert!(said.contains("unknown field `lenght`"), "{said}");
        let mut odd = written();
        odd["dtype"] = json!("f99");
        let said = serde_json::from_value::<EvalSpec<String>>(odd).unwrap_err().to_string();
        assert!(said.contains("f99") && said.contains("q8_0"), "{said}");
        let mut odd = written();
        odd["sampler"] = json!("topq:2");
        let said = serde_json::from_value::<EvalSpec<String>>(odd).unwrap().resolve(Registry::stock()).unwrap_err();
        assert!(said.to_string().contains("unknown sampler `topq:2`"), "{said}");
    }
}
