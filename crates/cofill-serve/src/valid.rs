//! From a body to what is to be done: every field checked, in words that name the field, the limit and what was given.

use crate::error::ApiError;
use crate::job::{Ask, Job};
use crate::stream::Mode;
use crate::top::Tops;
use crate::wire::openai::{Chat, ChatMessage, Cofill, Common, Content, OneOrMany, Prompt, Text};
use cofill::{SamplerSpec, TokenId};
use cofill_engine::{Input, Length, RunOptions, Schema};
use cofill_model::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// What the server decides where a request says nothing.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The served models, in the order of their numbers.
    pub models: Vec<String>,
    /// Unknown names mean the first model.
    pub any_model: bool,
    /// The sampler of requests that name none.
    pub sampler: SamplerSpec,
    /// The window of requests that name none; the model's own if this is nothing.
    pub length: Option<Length>,
    /// The samplers that Mercury's words for effort stand for.
    pub efforts: BTreeMap<String, SamplerSpec>,
}

/// The most answers to one prompt.
const MOST_CHOICES: u32 = 16;

/// The most texts that end an answer.
const MOST_STOPS: usize = 16;

/// The most alternatives of a token.
pub(crate) const MOST_TOP: u32 = 20;

/// The most prompts of one request.
const MOST_PROMPTS: usize = 64;

/// A request that was read.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Which model.
    pub model: usize,
    /// One decode each.
    pub jobs: Vec<Job>,
    /// How many choices each decode is: more than one where all would be the same.
    pub repeat: usize,
    /// The root of all randomness, as it is told.
    pub seed: i64,
    /// Whether and how it is streamed.
    pub stream: Option<Mode>,
    /// Whether the usage is streamed, too.
    pub include_usage: bool,
    /// Whether log-probabilities are wanted, and how many alternatives.
    pub logprobs: Option<u32>,
    /// How many alternatives of every candidate are wanted in frames.
    pub top: u32,
    /// Whether the whole trace is part of the answer.
    pub trace: bool,
    /// Whether ids are part of the answer.
    pub token_ids: bool,
    /// What the answers begin with: the prompts, if they are to be repeated.
    pub echo: Vec<String>,
    /// Warnings are errors.
    pub strict: bool,
    /// What was ignored.
    pub warnings: Vec<String>,
}

/// A body as a type; what is wrong is said with its path.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // A list would be read as the fields of a struct in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::invalid("unsupported_value", "the body cannot be read: it must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let whole = path == "." || inner.is_syntax() || inner.is_eof();
        let code = match inner.is_data() && path.contains("schema") {
            true => "invalid_schema",
            false => "unsupported_value",
        };
        let said = if whole { format!("the body cannot be read: {inner}") } else { format!("`{path}`: {inner}") };
        ApiError { param: (!whole).then_some(path), ..ApiError::invalid(code, said) }
    })?;
    json.end().map_err(|error| ApiError::invalid("unsupported_value", format!("the body cannot be read: {error}")))?;
    Ok(parsed)
}

impl Rules {
    /// The number of a model.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<usize, ApiError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(0) };
        match self.models.iter().position(|served| served == name) {
            Some(at) => Ok(at),
            None if self.any_model => Ok(0),
            None => Err(ApiError::no_model(name, &self.models)),
        }
    }

    /// A chat.
    pub(crate) fn chat(&self, body: &[u8]) -> Result<Order, ApiError> {
        let (common, chat): (Common, Chat) = (parse(body)?, parse(body)?);
        let messages =
            chat.messages.ok_or_else(|| ApiError::field("messages", "`messages` is missing; give a list"))?;
        if messages.is_empty() {
            return Err(ApiError::field("messages", "`messages` is empty; give at least one"));
        }
        let prefill = chat.continue_final_message.unwrap_or(false);
        if prefill && messages.last().is_none_or(|last| last.role != "assistant") {
            let said = "`continue_final_message` needs a last message of the assistant; add one, or leave it out";
            return Err(ApiError::field("continue_final_message", said));
        }
        let messages = self::messages("messages", messages)?;
        let ask = if prefill { Ask::Prefill(messages) } else { Ask::Input(Input::Messages(messages)) };
        let logprobs = match (chat.logprobs.unwrap_or(false), chat.top_logprobs) {
            (true, top) => Some(at_most("top_logprobs", top.unwrap_or(0), MOST_TOP)?),
            (false, Some(top)) if top > 0 => {
                return Err(ApiError::field("top_logprobs", "`top_logprobs` needs `logprobs: true`; set it"));
            }
            (false, _) => None,
        };
        check_tools(common.tool_choice.as_ref())?;
        let mut order = self.order(common, vec![ask])?;
        order.show_logprobs(logprobs);
        order.finish()
    }

    /// A text completion, or an infill.
    pub(crate) fn text(&self, body: &[u8]) -> Result<Order, ApiError> {
        let (common, text): (Common, Text) = (parse(body)?, parse(body)?);
        let echo = text.echo.unwrap_or(false);
        if echo && text.logprobs.is_some() {
            let said = "`echo` with `logprobs` asks for left-to-right log-probabilities of the prompt, which these models do not have; \
                `python -m cofill.lm_eval` computes likelihoods as they are defined for them";
            return Err(ApiError::field("echo", said));
        }
        let prompt = text.prompt.unwrap_or(Prompt::Text(String::new()));
        let (asks, texts) = prompts(prompt, text.suffix)?;
        if echo && texts.len() != asks.len() {
            return Err(ApiError::field("echo", "`echo` needs prompts that are texts; give texts, or leave it out"));
        }
        let mut order = self.order(common, asks)?;
        order.show_logprobs(text.logprobs.map(|top| at_most("logprobs", top, MOST_TOP)).transpose()?);
        order.echo = if echo { texts } else { Vec::new() };
        order.finish()
    }

    /// What all dialects share: `n` decodes of every ask.
    pub(crate) fn order(&self, common: Common, asks: Vec<Ask>) -> Result<Order, ApiError> {
        let model = self.model(common.model.as_deref())?;
        let cofill = common.cofill.clone().unwrap_or_default();
        let mut warnings = ignored(&common);
        let sampler = self.sampler_of(&common, &cofill, &mut warnings)?;
        let mut options = self.options(&common, &cofill)?;
        let n = common.n.unwrap_or(1);
        if !(1..=MOST_CHOICES).contains(&n) {
            return Err(ApiError::field("n", format!("`n` must be 1 to {MOST_CHOICES}, but is {n}")));
        }
        if let Some(best) = common.best_of.filter(|&best| best > n) {
            let said = format!("`best_of` is {best}, but answers are not ranked; leave it out, or raise `n` from {n}");
            return Err(ApiError::field("best_of", said));
        }
        let seed = common.seed.unwrap_or_else(drawn);
        let stream = common.stream.unwrap_or(false);
        let mode = cofill.stream.unwrap_or(if common.diffusing == Some(true) { Mode::Draft } else { Mode::Append });
        let trace = cofill.trace.unwrap_or(false);
        let random = options.temperature > 0.0;
        let decodes = if random { n } else { 1 };
        let mut jobs = Vec::new();
        for ask in asks {
            for choice in 0..decodes {
                options.seed = seed_of(seed, choice);
                jobs.push(Job {
                    model,
                    ask: ask.clone(),
                    sampler: sampler.clone(),
                    options: options.clone(),
                    stop_ids: common.stop_token_ids.clone().unwrap_or_default(),
                    show_specials: common.skip_special_tokens == Some(false),
                    timeout: cofill.timeout_ms.map(Duration::from_millis),
                    ends_early: true,
                    frames: stream && mode == Mode::Delta,
                    tops: None,
                });
            }
        }
        let top = at_most("cofill.top", cofill.top.unwrap_or(0), MOST_TOP)?;
        jobs.iter_mut().filter(|_| top > 0).for_each(|job| job.tops = Some(Tops::new(top)));
        Ok(Order {
            top,
            model,
            jobs,
            repeat: (n / decodes) as usize,
            seed,
            stream: stream.then_some(mode),
            include_usage: common.stream_options.is_some_and(|options| options.include_usage == Some(true)),
            logprobs: None,
            trace,
            token_ids: common.return_token_ids == Some(true),
            echo: Vec::new(),
            strict: cofill.strict == Some(true),
            warnings,
        })
    }

    fn sampler_of(
        &self,
        common: &Common,
        cofill: &Cofill,
        warnings: &mut Vec<String>,
    ) -> Result<SamplerSpec, ApiError> {
        if let Some(text) = &cofill.sampler {
            return sampler("cofill.sampler", text);
        }
        let Some(effort) = &common.reasoning_effort else { return Ok(self.sampler.clone()) };
        Ok(self.efforts.get(effort).cloned().unwrap_or_else(|| {
            let effort: String = effort.chars().take(40).collect();
            warnings.push(format!("reasoning_effort `{effort}` stands for no sampler here and is ignored"));
            self.sampler.clone()
        }))
    }

    fn options(&self, common: &Common, cofill: &Cofill) -> Result<RunOptions, ApiError> {
        let mut options = RunOptions::default();
        let (name, given) = match common.max_completion_tokens {
            Some(given) => ("max_completion_tokens", Some(given)),
            None => ("max_tokens", common.max_tokens),
        };
        let given = match given {
            None | Some(0 | -1) => None,
            Some(given) if given > 0 => Some(given as usize),
            Some(given) => {
                let said = format!("`{name}` must be positive, but is {given}; leave it out for the server's");
                return Err(ApiError::field(name, said));
            }
        };
        set_length(&mut options, cofill.length, given, self.length)?;
        options.collapse = true;
        options.min_tokens = common.min_tokens.filter(|&n| n > 0).map(|n| n as usize);
        options.temperature = number("temperature", common.temperature.unwrap_or(0.0), 0.0, 100.0)?;
        let top_p = common.top_p.map(|p| number("top_p", p, 0.0, 1.0)).transpose()?;
        options.top_p = top_p.filter(|&p| p < 1.0);
        if options.top_p == Some(0.0) {
            return Err(ApiError::field("top_p", "`top_p` must be above 0 and at most 1, but is 0"));
        }
        options.top_k = common.top_k.filter(|&k| k > 0).map(|k| k as usize);
        options.block = cofill.block;
        options.max_nfe = cofill.max_nfe;
        options.stop = stops(common.stop.clone())?;
        options.logits_eos_inf = common.ignore_eos == Some(true);
        suppress(&mut options, common.logit_bias.as_ref())?;
        constrain(&mut options, common)?;
        options.check().map_err(|error| ApiError::invalid("unsupported_value", error.to_string()))?;
        Ok(options)
    }
}

impl Order {
    /// Log-probabilities are wanted, with so many alternatives.
    fn show_logprobs(&mut self, logprobs: Option<u32>) {
        self.logprobs = logprobs;
        let most = logprobs.unwrap_or(0).max(self.top);
        self.jobs.iter_mut().filter(|_| most > 0).for_each(|job| job.tops = Some(Tops::new(most)));
    }

    /// Refuses warnings where they are errors.
    pub(crate) fn finish(self) -> Result<Order, ApiError> {
        match self.warnings.first() {
            Some(warning) if self.strict => {
                Err(ApiError::field("cofill.strict", format!("{warning}; leave that out, or `cofill.strict`")))
            }
            _ => Ok(self),
        }
    }
}

/// A sampler by its text.
pub(crate) fn sampler(field: &str, text: &str) -> Result<SamplerSpec, ApiError> {
    text.parse().map_err(|error: cofill::Error| ApiError::field(field, format!("`{field}`: {error}")))
}

/// The window: as it is given, or at `most` so long, or the `usual` one.
pub(crate) fn set_length(
    options: &mut RunOptions,
    given: Option<Length>,
    most: Option<usize>,
    usual: Option<Length>,
) -> Result<(), ApiError> {
    options.length = match (given, most, usual) {
        (Some(given), _, _) => Some(given),
        (None, Some(_), Some(Length::Auto)) => Some(Length::Auto),
        (None, Some(most), _) => Some(Length::Fixed(most)),
        (None, None, usual) => usual,
    };
    match options.length {
        Some(Length::Fixed(0)) => Err(ApiError::field("length", "the length must be 1 or more, but is 0")),
        Some(Length::Auto) => {
            options.max_length = most;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Ids that are never proposed.
fn suppress(options: &mut RunOptions, bias: Option<&BTreeMap<String, f64>>) -> Result<(), ApiError> {
    for (id, &bias) in bias.into_iter().flatten() {
        let id: TokenId = id.parse().map_err(|_| {
            ApiError::field("logit_bias", format!("`logit_bias` has `{id:.40}`, which is not a token id"))
        })?;
        match bias {
            0.0 => {}
            -100.0 => options.suppress.push(id),
            bias => {
                let said =
                    format!("`logit_bias` of {id} is {bias}, but only -100 (never) can be had; leave others out");
                return Err(ApiError::field("logit_bias", said));
            }
        }
    }
    Ok(())
}

/// The language of the answer, from whichever field names one.
fn constrain(options: &mut RunOptions, common: &Common) -> Result<(), ApiError> {
    if let Some(format) = &common.response_format {
        match format.kind.as_str() {
            "text" => {}
            "json_object" => options.schema = Some(format.schema.clone().unwrap_or_else(Schema::any_object)),
            "json_schema" => {
                let named = format.json_schema.as_ref().and_then(|named| named.schema.clone());
                let schema = named.or_else(|| format.schema.clone()).ok_or_else(|| ApiError {
                    param: Some("response_format".into()),
                    ..ApiError::invalid("invalid_schema", "`response_format.json_schema.schema` is missing; give one")
                })?;
                options.schema = Some(schema);
            }
            kind => {
                let said =
                    format!("`response_format.type` must be text, json_object or json_schema, but is `{kind:.40}`");
                return Err(ApiError::field("response_format.type", said));
            }
        }
    }
    if let Some(outputs) = &common.structured_outputs {
        if outputs.grammar.is_some() {
            return Err(ApiError::not_supported("structured_outputs.grammar", NO_GRAMMAR));
        }
        options.schema = options.schema.take().or_else(|| outputs.json.clone());
        if outputs.json_object == Some(true) {
            options.schema.get_or_insert_with(Schema::any_object);
        }
        options.regex.clone_from(&outputs.regex);
        options.choice = outputs.choice.clone().unwrap_or_default();
    }
    options.schema = options.schema.take().or_else(|| common.json_schema.clone());
    Ok(())
}

/// What is said of context-free grammars.
pub(crate) const NO_GRAMMAR: &str = "context-free grammars are not supported; give a JSON schema, a regex or choices";

/// Fields that are not what they should be for us, and change nothing.
fn ignored(common: &Common) -> Vec<String> {
    let mut warnings = Vec::new();
    let penalties = [
        ("presence_penalty", common.presence_penalty, 0.0),
        ("frequency_penalty", common.frequency_penalty, 0.0),
        ("repetition_penalty", common.repetition_penalty, 1.0),
        ("min_p", common.min_p, 0.0),
    ];
    for (name, given, neutral) in penalties {
        if given.is_some_and(|given| given != neutral) {
            warnings.push(format!("{name} is ignored"));
        }
    }
    let flags = [
        ("include_stop_str_in_output", common.include_stop_str_in_output == Some(true)),
        ("truncate_prompt_tokens", common.truncate_prompt_tokens.is_some()),
        ("prompt_logprobs", common.prompt_logprobs.is_some_and(|n| n > 0)),
        ("bad_words", common.bad_words.as_ref().is_some_and(|words| !words.is_empty())),
    ];
    warnings.extend(flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| format!("{name} is ignored")));
    if common.tools.as_ref().is_some_and(|tools| !tools.is_empty()) && common.tool_choice != Some("none".into()) {
        warnings.push("tools are ignored".into());
    }
    warnings
}

/// Refuses tools that must be called.
pub(crate) fn check_tools(choice: Option<&Value>) -> Result<(), ApiError> {
    match choice {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(word)) if word == "none" || word == "auto" => Ok(()),
        Some(_) => {
            Err(ApiError::field("tool_choice", "`tool_choice` must be none or auto: tools cannot be called here"))
        }
    }
}

/// Messages as the template takes them.
pub(crate) fn messages(field: &str, given: Vec<ChatMessage>) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::with_capacity(given.len());
    for (at, message) in given.into_iter().enumerate() {
        let role = match message.role.as_str() {
            "developer" => "system",
            role @ ("system" | "user" | "assistant" | "tool") => role,
            other => {
                let said = format!(
                    "`{field}[{at}].role` must be system, developer, user, assistant or tool, but is `{other:.40}`"
                );
                return Err(ApiError::field(&format!("{field}[{at}].role"), said));
            }
        };
        let content = match message.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                let mut text = String::new();
                for (part_at, part) in parts.into_iter().enumerate() {
                    let place = format!("{field}[{at}].content[{part_at}]");
                    if part.kind != "text" {
                        let kind = &part.kind;
                        let said =
                            format!("`{place}.type` must be text, but is `{kind:.40}`: this model reads only text");
                        return Err(ApiError::field(&format!("{place}.type"), said));
                    }
                    text += &part.text.ok_or_else(|| {
                        ApiError::field(&format!("{place}.text"), format!("`{place}.text` is missing"))
                    })?;
                }
                text
            }
        };
        messages.push(Message::new(role, content));
    }
    Ok(messages)
}

/// Every prompt of a request, and its text where it is one.
fn prompts(prompt: Prompt, suffix: Option<String>) -> Result<(Vec<Ask>, Vec<String>), ApiError> {
    let suffix = suffix.filter(|suffix| !suffix.is_empty());
    let (texts, tokens) = match prompt {
        Prompt::Text(text) => (vec![text], Vec::new()),
        Prompt::Texts(texts) => (texts, Vec::new()),
        Prompt::Tokens(tokens) => (Vec::new(), vec![tokens]),
        Prompt::ManyTokens(many) => (Vec::new(), many),
    };
    let n = texts.len().max(tokens.len());
    if !(1..=MOST_PROMPTS).contains(&n) {
        return Err(ApiError::field("prompt", format!("`prompt` must be 1 to {MOST_PROMPTS} prompts, but is {n}")));
    }
    if suffix.is_some() && texts.is_empty() {
        return Err(ApiError::field("suffix", "`suffix` needs a prompt that is a text; give one"));
    }
    let of_text = |text: &String| match &suffix {
        Some(suffix) => Ask::Infill { prefix: text.clone(), suffix: suffix.clone() },
        None if text.is_empty() => Ask::Input(Input::Nothing),
        None => Ask::Input(Input::Prompt(text.clone())),
    };
    let of_tokens = |tokens: Vec<TokenId>| Ask::Input(Input::PromptTokens(tokens));
    let asks = texts.iter().map(of_text).chain(tokens.into_iter().map(of_tokens)).collect();
    Ok((asks, texts))
}

/// What ends the text.
pub(crate) fn stops(given: Option<OneOrMany>) -> Result<Vec<String>, ApiError> {
    let stops = match given {
        None => Vec::new(),
        Some(OneOrMany::One(one)) => vec![one],
        Some(OneOrMany::Many(many)) => many,
    };
    if stops.len() > MOST_STOPS {
        return Err(ApiError::field("stop", format!("`stop` may be {MOST_STOPS} texts, but is {}", stops.len())));
    }
    match stops.iter().any(String::is_empty) {
        true => Err(ApiError::field("stop", "`stop` has an empty text, which would end every answer; leave it out")),
        false => Ok(stops),
    }
}

fn number(field: &str, given: f64, least: f64, most: f64) -> Result<f64, ApiError> {
    match (least..=most).contains(&given) {
        true => Ok(given),
        false => Err(ApiError::field(field, format!("`{field}` must be {least} to {most}, but is {given}"))),
    }
}

fn at_most(field: &str, given: u32, most: u32) -> Result<u32, ApiError> {
    match given > most {
        true => Err(ApiError::field(field, format!("`{field}` must be 0 to {most}, but is {given}"))),
        false => Ok(given),
    }
}

/// A seed for those who give none. Below 2^53, so that every client reads the number it was told.
fn drawn() -> i64 {
    (RandomState::new().hash_one(0) >> 11) as i64
}

/// The seed of a choice: the first is the request's own.
fn seed_of(seed: i64, choice: u32) -> u64 {
    (seed as u64).wrapping_add(u64::from(choice).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
