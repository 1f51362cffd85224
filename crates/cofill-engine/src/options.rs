//! What one run can be told, defined once.
//!
//! [`RunOptions`] is the one list of options: its fields are the flags of the commands (with the feature `clap`), the keys of a
//! recipe, the fields of a plan and the fields of a result's header. A new option is a field here, and every door has it.

use crate::Schema;
use crate::length::Length;
use cofill::{Cache, Canvas, Error, Guard, Proposal, Result, SamplerSpec, Schedule, Style, TokenId};
use cofill_model::{Device, Dtype, LoadOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// The sampler that is meant when none is named, whatever the command.
pub const DEFAULT_SAMPLER: &str = "topk:2+ad";

/// How a model is loaded, what its canvas looks like and how tokens are proposed: everything about a run but the model and the sampler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions {
    /// How weights are kept: f32, f16, bf16, q8_0, q6k or q4k (default: as stored, which is exact).
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub dtype: Option<Dtype>,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value_t = Device::Cpu))]
    pub device: Device,
    /// How many positions to generate after the prompt, or `auto`: blocks until the text ends (default: the paper's for a benchmark, what
    /// a mini task needs for its prompts, 12 for the toy, else 64).
    #[cfg_attr(feature = "clap", arg(short = 'n', long, value_name = "N", allow_negative_numbers = true))]
    pub length: Option<Length>,
    /// The most positions that `--length auto` grows to (default: 512, or what the model holds).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_length: Option<usize>,
    /// Decode blocks of N positions from left to right (default: no blocks; 32 with `--length auto`).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub block: Option<usize>,
    /// Compute only a part of the canvas in all but the first forward of a block: prefix or dual (Fast-dLLM's caches), or auto:BUDGET, which
    /// measures the error and keeps it below a mean KL of BUDGET nats. Approximate; needs blocks (docs/caches.md).
    #[serde(with = "as_text")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND", default_value_t = Cache::Off))]
    pub cache: Cache,
    /// Whether the canvas begins with the tokenizer's beginning-of-text token, unless the prompt has it already. What holds without is
    /// the door's to say, and so is how it is asked for.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub bos: Option<bool>,
    /// Put the prompt through the checkpoint's chat template.
    #[cfg_attr(feature = "clap", arg(long))]
    pub chat: bool,
    /// 0 proposes the likeliest token, more draws at random.
    #[cfg_attr(feature = "clap", arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true))]
    pub temperature: f64,
    /// Keep the likeliest tokens up to this mass, before confidence is read (Dream's way; also at temperature 0).
    #[cfg_attr(feature = "clap", arg(long, value_name = "P", allow_negative_numbers = true))]
    pub top_p: Option<f64>,
    /// Keep the N likeliest tokens, before confidence is read (Dream's way; also at temperature 0).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub top_k: Option<usize>,
    /// Classifier-free guidance: above 0, every forward also runs without what was given.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SCALE", default_value_t = 0.0, allow_negative_numbers = true)
    )]
    pub cfg: f64,
    /// Take attention for position i from the row that predicts it (i - 1 in Dream), not from its own.
    #[cfg_attr(feature = "clap", arg(long))]
    pub attention_of_source: bool,
    /// Never propose end of text (LLaDA's option of that name).
    #[cfg_attr(feature = "clap", arg(long))]
    pub logits_eos_inf: bool,
    /// Propose end of text and end of turn last, whatever the sampler ranks by (LLaDA's option of that name). Samplers that ask no
    /// model for their order (dus, dream@origin, p2@random) keep it.
    #[cfg_attr(feature = "clap", arg(long))]
    pub confidence_eos_eot_inf: bool,
    /// Propose end of text and end of turn last at the first N positions of an answer, so that it is not empty (default: 0).
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub min_tokens: Option<usize>,
    /// An autoregressive model beside the model, for samplers that ask one (apd): `tiny-causal`, or the folder of a Qwen2 or Qwen3 with the
    /// model's vocabulary.
    #[cfg_attr(feature = "clap", arg(long, value_name = "MODEL"))]
    pub companion: Option<String>,
    /// The root of all randomness.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true))]
    pub seed: u64,
    /// Stop after N forwards, with masks left if need be.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_nfe: Option<usize>,
    /// Cut the generated text at the first of these; may be given several times.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new()))]
    pub stop: Vec<String>,
    /// The text must be JSON that fits this JSON Schema: a file, or the word `object` for any JSON object.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_parser = Schema::of_argument, help_heading = "Constraints"))]
    pub schema: Option<Schema>,
    /// The text must match this regular expression as a whole.
    #[cfg_attr(feature = "clap", arg(long, value_name = "REGEX", help_heading = "Constraints"))]
    pub regex: Option<String>,
    /// The text must be one of these; given several times.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT", help_heading = "Constraints", value_parser = clap::builder::NonEmptyStringValueParser::new()))]
    pub choice: Vec<String>,
    /// Once an end is committed, everything behind it becomes that end without forwards. It changes how many there are, so only a server
    /// wants it.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub collapse: bool,
    /// Tokens that are never proposed, by id; a server's clients name them so (`logit_bias` of -100).
    #[cfg_attr(feature = "clap", arg(skip))]
    pub suppress: Vec<TokenId>,
}

/// A model, a sampler, and how they are put together.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[non_exhaustive]
pub struct RunSpec {
    /// The model.
    #[cfg_attr(feature = "clap", arg(short, long, default_value = crate::DEFAULT_MODEL, help = format!("The model: {}", crate::MODEL_NAMES)))]
    pub model: String,
    /// Which positions are committed together; `cofill samplers` lists the forms.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "SPEC", default_value = DEFAULT_SAMPLER))]
    pub sampler: SamplerSpec,
    /// Everything else.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: RunOptions,
}

impl RunSpec {
    /// A model and a sampler with the defaults of everything else.
    pub fn new(model: impl Into<String>, sampler: SamplerSpec) -> RunSpec {
        RunSpec { model: model.into(), sampler, options: RunOptions::default() }
    }

    /// Fills in the strength of `+paths:auto` for the model, of which no weight is loaded.
    pub fn settle(&mut self) -> crate::Result<()> {
        if crate::calibration::is_open(&self.sampler) {
            self.sampler = crate::calibration::settle_by_name(&self.sampler, Path::new(&self.model))?;
        }
        Ok(())
    }
}

/// Options that a header has named from the start; the others are named when they are not the default. So runs that an older version
/// could do have the headers, and the addresses of units of work, that it gave them.
const ALWAYS_NAMED: [&str; 6] = ["dtype", "length", "block", "temperature", "seed", "bos"];

impl RunOptions {
    /// How weights are loaded.
    pub fn load(&self) -> LoadOptions {
        LoadOptions { dtype: self.dtype, device: self.device }
    }

    /// Which masks are eligible when.
    pub fn schedule(&self) -> Schedule {
        self.block.map_or(Schedule::Full, |len| Schedule::Blocks { len })
    }

    /// How tokens are proposed by a model whose texts and turns end with these tokens.
    pub fn proposal(&self, ends: Ends) -> Proposal {
        let mut proposal = Proposal::sampled(self.temperature, self.seed);
        proposal.suppress.clone_from(&self.suppress);
        proposal.suppress.extend(ends.of_text.filter(|_| self.logits_eos_inf));
        proposal.demote = if self.confidence_eos_eot_inf { ends.tokens() } else { Vec::new() };
        proposal.style = match (self.top_p, self.top_k) {
            (None, None) => Style::Clean,
            (top_p, top_k) => Style::Filtered { top_p, top_k },
        };
        proposal
    }

    /// The same for a canvas, at whose beginning an answer may not want to end.
    pub fn proposal_for(&self, canvas: &Canvas, ends: Ends) -> Proposal {
        let mut proposal = self.proposal(ends);
        let (tail, tokens) = (canvas.tail(), ends.tokens());
        let span = tail..tail.saturating_add(self.min_tokens.unwrap_or(0)).min(canvas.tokens().len());
        if !span.is_empty() && !tokens.is_empty() {
            proposal.guard = Some(Guard { tokens, span });
        }
        proposal
    }

    /// Refuses numbers that no run can have, before anything is opened.
    pub fn check(&self) -> Result<()> {
        let bad = |what, limit: &str, given: String| Err(Error::BadSetting { what, limit: limit.into(), given });
        self.proposal(Ends::default()).check()?;
        if self.block == Some(0) {
            return bad("block length", "at least 1", "0".into());
        }
        if !(self.cfg.is_finite() && self.cfg >= 0.0) {
            return bad("cfg", "a finite number, 0 or more", self.cfg.to_string());
        }
        self.check_cache()?;
        match self.max_length {
            Some(0) => return bad("max_length", "1 or more", "0".into()),
            Some(most) if self.length != Some(Length::Auto) => {
                return bad("max_length", "left out, unless the length is `auto`", most.to_string());
            }
            _ => {}
        }
        if self.stop.iter().any(String::is_empty) {
            return bad("stop", "a text of one character or more", "an empty text".into());
        }
        if self.choice.iter().any(String::is_empty) {
            return bad("choice", "a text of one character or more", "an empty text".into());
        }
        let given = self.constraints();
        if given.len() > 1 {
            return bad("constraint", "one of schema, regex and choice", given.join(" and "));
        }
        Ok(())
    }

    /// Refuses a cache that cannot be right, as far as options tell; [`cofill::DecodeBuilder`] knows about samplers.
    pub(crate) fn check_cache(&self) -> Result<()> {
        let no = |why| Err(Error::NoCache { cache: self.cache.to_string(), why });
        match self.cache {
            Cache::Off => Ok(()),
            _ if self.block.is_none() => {
                no("the canvas is decoded without blocks, so there is no part of it to keep; decode in blocks")
            }
            _ if self.cfg > 0.0 => no("guidance runs a second forward without what was given; leave the guidance out"),
            _ if self.device != Device::Cpu => no("only the CPU has this; compute there"),
            _ => Ok(()),
        }
    }

    /// Refuses a cache where the exact answers are what is looked at, as in a diagnostic.
    pub fn without_cache(&self) -> Result<()> {
        match self.cache {
            Cache::Off => Ok(()),
            cache => Err(Error::NoCache {
                cache: cache.to_string(),
                why: "what is looked at are the model's own answers, and a cache gives others; look at them without",
            }),
        }
    }

    /// The length where every canvas has one from the start, as in a score or a diagnostic: a number or none, but not `auto`. Nor may an end
    /// of text be worth forwards there.
    pub fn fixed_length(&self) -> Result<Option<usize>> {
        if self.collapse {
            let limit = "left out, since it changes how many forwards an answer takes".into();
            return Err(Error::BadSetting { what: "collapse", limit, given: "true".into() });
        }
        match self.length {
            Some(Length::Auto) => {
                let limit = "a number of positions, since canvases that are compared are of one size".into();
                Err(Error::BadSetting { what: "length", limit, given: "`auto`".into() })
            }
            length => Ok(length.and_then(Length::fixed)),
        }
    }

    /// The names of the options that hold texts to a language, as far as they are given; a run has one at most.
    pub fn constraints(&self) -> Vec<&'static str> {
        let RunOptions { schema, regex, choice, .. } = self;
        let all = [("schema", schema.is_some()), ("regex", regex.is_some()), ("choice", !choice.is_empty())];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// Refuses a sampler that asks a companion where none is given, and a companion whom the sampler never asks.
    pub fn check_companion(&self, sampler: &SamplerSpec) -> Result<()> {
        match (sampler.build()?.needs().companion, &self.companion) {
            (true, None) => Err(Error::NoCompanion),
            (false, Some(given)) => {
                let limit = format!("left out, since `{sampler}` asks none");
                Err(Error::BadSetting { what: "companion", limit, given: format!("`{given}`") })
            }
            _ => Ok(()),
        }
    }

    /// The options that decide what is generated, for the header of a result: where it was computed does not, and a length or a
    /// beginning of text that was left to the model is what it became.
    pub fn deciding(&self, length: usize, bos: Option<TokenId>) -> Map<String, Value> {
        let (mut fields, usual) = (self.fields(), RunOptions::default().fields());
        fields.remove("device");
        fields.insert("length".into(), length.into());
        fields.insert("bos".into(), bos.into());
        fields.retain(|name, value| ALWAYS_NAMED.contains(&name.as_str()) || usual.get(name) != Some(value));
        fields
    }

    /// Every option by name.
    fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(), // a struct of numbers, texts and lists is always an object
        }
    }
}

/// A setting as the text that a user writes.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(setting: &T, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(setting)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(given: D) -> Result<T, D::Error> {
        String::deserialize(given)?.parse().map_err(de::Error::custom)
    }
}

/// The tokens with which a model ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends {
    /// End of text.
    pub of_text: Option<TokenId>,
    /// End of a turn in a chat.
    pub of_turn: Option<TokenId>,
}

impl Ends {
    /// Those there are.
    pub fn tokens(self) -> Vec<TokenId> {
        self.of_text.into_iter().chain(self.of_turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_read_by_name_and_unknown_ones_refused() {
        let options: RunOptions = serde_json::from_value(json!({"dtype": "q8_0", "top_p": 0.9, "chat": true})).unwrap();
        assert_eq!((options.dtype, options.top_p, options.chat), (Some(Dtype::Q8_0), Some(0.9), true));
        assert_eq!(options.device, Device::Cpu);
        let unknown = serde_json::from_value::<RunOptions>(json!({"topp": 0.9})).unwrap_err().to_string();
        assert!(unknown.contains("unknown field `topp`"), "{unknown}");
        let again: RunOptions = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
        assert_eq!(again, options);
    }

    /// Headers of version 1 had exactly these fields, and units of work are addressed by them.
    #[test]
    fn what_an_older_version_could_do_is_named_as_it_did() {
        let options = RunOptions { block: Some(8), device: Device::Cuda, ..RunOptions::default() };
        let expected = json!({"dtype": null, "length": 32, "block": 8, "temperature": 0.0, "seed": 0, "bos": null});
        assert_eq!(Value::Object(options.deciding(32, None)), expected);
        let options = RunOptions { logits_eos_inf: true, stop: vec!["x".into()], ..options };
        let fields = options.deciding(32, Some(7));
        assert_eq!(
            (&fields["logits_eos_inf"], &fields["stop"], &fields["bos"]),
            (&json!(true), &json!(["x"]), &json!(7))
        );
        assert_eq!(fields.len(), 8);
    }

    #[test]
    fn numbers_that_no_run_can_have_are_refused_by_name() {
        let usual = RunOptions::default();
        let cases = [
            (RunOptions { temperature: -1.0, ..usual.clone() }, "temperature"),
            (RunOptions { top_p: Some(1.5), ..usual.clone() }, "top_p"),
            (RunOptions { top_k: Some(0), ..usual.clone() }, "top_k"),
            (RunOptions { cfg: f64::NAN, ..usual.clone() }, "cfg"),
            (RunOptions { block: Some(0), ..usual.clone() }, "block"),
            (RunOptions { stop: vec![String::new()], ..usual.clone() }, "stop"),
            (RunOptions { choice: vec![String::new()], ..usual.clone() }, "choice"),
            (RunOptions { choice: vec!["a".into()], regex: Some("a".into()), ..usual.clone() }, "regex and choice"),
        ];
        for (options, named) in cases {
            let said = options.check().unwrap_err().to_string();
            assert!(said.contains(named), "{said}");
        }
        assert!(usual.check().is_ok());
    }

    #[test]
    fn ends_are_suppressed_or_demoted() {
        let ends = Ends { of_text: Some(1), of_turn: Some(2) };
        let options = RunOptions { logits_eos_inf: true, confidence_eos_eot_inf: true, ..RunOptions::default() };
        let proposal = options.proposal(ends);
        assert_eq!((proposal.suppress, proposal.demote), (vec![1], vec![1, 2]));
        assert_eq!(RunOptions::default().proposal(ends), Proposal::greedy());
    }
}
