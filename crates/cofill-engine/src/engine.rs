//! A model one can talk to: what computes, and the text of its tokens.

use crate::calibration;
use crate::codec::{Codec, Text};
use crate::constrain::Remembered;
use crate::options::{Ends, RunOptions};
use crate::{Error, Result, TOY, hub};
use cofill::toy::Toy;
use cofill::{Cache, Denoiser, HeadAttention, Prediction, Query, SamplerSpec, TokenId};
use cofill_model::{AttentionRow, Checkpoint, Companion, Config, GenerationDefaults, Message, Model};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whether special tokens are part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They stand for nothing to read.
    Hidden,
    /// They are written as the tokenizer names them.
    Shown,
}

/// The toy can be of any length; this is where it stops.
const TOY_MOST: usize = 8192;

/// An open model. Everything that text and canvases have to do with it is here; sampling is the core's.
pub struct Engine {
    name: String,
    kind: Kind,
    remembered: Remembered,
}

enum Kind {
    Toy(AnyLengthToy),
    Checkpoint(Box<Open>),
}

/// The toy, whose distribution is one of a fixed length, for canvases of any: one toy for each length that was asked about.
#[derive(Default)]
struct AnyLengthToy(HashMap<usize, Toy>);

impl AnyLengthToy {
    fn of(&mut self, length: usize) -> &mut Toy {
        self.0.entry(length).or_insert_with(|| Toy::phrases(length))
    }
}

impl Denoiser for AnyLengthToy {
    fn mask_id(&self) -> TokenId {
        Toy::phrases(0).mask_id()
    }

    fn vocab(&self) -> usize {
        Toy::phrases(0).vocab()
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let mut all = Vec::with_capacity(batch.len());
        for query in batch {
            all.extend(self.of(query.tokens.len()).denoise(std::slice::from_ref(query))?);
        }
        Ok(all)
    }

    fn by_head(&mut self, query: &Query<'_>, toward: &[usize]) -> cofill::Result<Option<HeadAttention>> {
        self.of(query.tokens.len()).by_head(query, toward)
    }
}

/// A checkpoint in memory. Without a tokenizer it still takes and gives token ids.
struct Open {
    checkpoint: Checkpoint,
    model: Model,
    text: Result<Arc<Text>, cofill_model::Error>,
    defaults: GenerationDefaults,
    /// The model beside it, as it was named.
    companion: Option<String>,
    /// What is unfortunate about how it was loaded.
    warning: Option<String>,
}

/// The text of a model's tokens, without the model: cheap to copy, and any number of threads may ask at once.
#[derive(Debug, Clone)]
pub struct Reader {
    text: Option<Arc<Text>>,
    toy: bool,
    mask_id: TokenId,
}

impl Reader {
    /// The text of a token, as [`Engine::piece`] has it.
    pub fn piece(&self, token: TokenId) -> String {
        match &self.text {
            _ if token == self.mask_id => "[MASK]".into(),
            _ if self.toy => Toy::piece(token).into(),
            Some(text) => text.tokenizer.piece(token),
            None => format!("<{token}>"),
        }
    }

    /// The text of a sequence, as [`Engine::text`] has it.
    pub fn text(&self, tokens: &[TokenId], specials: Specials) -> Result<String> {
        match &self.text {
            Some(text) => Ok(text.tokenizer.decode(tokens, specials == Specials::Hidden)?),
            None => Ok(tokens.iter().map(|&token| self.piece(token)).collect::<Vec<_>>().join(" ")),
        }
    }
}

/// What a benchmark must know of a checkpoint, short of its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The family's name, which is also the name of its harness wrapper, if it has one.
    pub family: String,
    /// Beginning of text.
    pub bos: Option<TokenId>,
    /// What every text begins and ends with, in models that were trained so (BERT's `[CLS]` and `[SEP]`).
    pub frame: Option<(TokenId, TokenId)>,
    /// Whether it has a chat template.
    pub chats: bool,
    /// The SHA-256 of the head that predicts who changes whom, if it has one.
    pub pair_head: Option<String>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive() // weights are nothing to look at
    }
}

impl About {
    /// Of a checkpoint of which nothing is loaded.
    pub fn checkpoint(checkpoint: &Checkpoint) -> Result<About> {
        let (config, bos) = (checkpoint.config()?, checkpoint.tokenizer()?.bos());
        let pair_head = checkpoint.pair_head()?.map(|head| head.sha256);
        Ok(About::new(&config, bos, checkpoint.chat()?.is_some(), pair_head))
    }

    fn new(config: &Config, bos: Option<TokenId>, chats: bool, pair_head: Option<String>) -> About {
        let frame = frame(config);
        About { family: config.family.to_string(), bos: frame.map(|(begin, _)| begin).or(bos), frame, chats, pair_head }
    }
}

/// What every text begins and ends with, in models that were trained so.
fn frame(config: &Config) -> Option<(TokenId, TokenId)> {
    config.encoder.as_ref().and_then(|encoder| encoder.frame)
}

impl Engine {
    /// Opens what a name stands for, with the options that decide how weights are loaded and computed with.
    pub fn open(name: &str, options: &RunOptions) -> Result<Engine> {
        let kind = match name {
            TOY => Kind::Toy(AnyLengthToy::default()),
            name => Kind::Checkpoint(Box::new(Open::load(Engine::checkpoint_at(Path::new(name))?, options)?)),
        };
        let mut engine = Engine { name: name.into(), kind, remembered: Remembered::default() };
        engine.configure(options)?;
        Ok(engine)
    }

    /// A checkpoint of which nothing is loaded yet; the toy is none. `org/name` is looked for in Hugging Face's cache, too, and
    /// `hf:org/name` is fetched into it if it is not there.
    pub fn checkpoint_at(place: &Path) -> Result<Checkpoint> {
        let name = || place.display().to_string();
        if place == Path::new(TOY) {
            return Err(Error::NotACheckpoint { name: name() });
        }
        if !hub::may_fetch(&name()) && Checkpoint::exists(place) {
            return Ok(Checkpoint::open(place)?);
        }
        Ok(Checkpoint::open(&hub::locate(&name())?)?)
    }

    /// Loads a checkpoint, of which tokens alone are not enough: a tokenizer must be there.
    pub fn of_checkpoint(checkpoint: Checkpoint, options: &RunOptions) -> Result<Engine> {
        let name = checkpoint.path().display().to_string();
        let open = Open::load(checkpoint, options)?;
        let text = open.text.as_ref().map_err(|error| Error::NoTokenizer { problem: error.to_string() })?;
        text.tokenizer.check_mask(open.model.config().mask_id)?;
        let kind = Kind::Checkpoint(Box::new(open));
        let mut engine = Engine { name, kind, remembered: Remembered::default() };
        engine.configure(options)?;
        Ok(engine)
    }

    /// Whether a name stands for something on this machine that takes time to load.
    pub fn is_checkpoint(name: &str) -> bool {
        name != TOY && (Checkpoint::exists(Path::new(name)) || hub::on_this_machine(name).is_some())
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What whoever opened it should hear: weights in a type that does not fit them.
    pub fn warning(&self) -> Option<&str> {
        self.open_checkpoint()?.warning.as_deref()
    }

    /// Sets what changes the model's answers: guidance, the rows that attention is read from, and the model beside it.
    pub fn configure(&mut self, options: &RunOptions) -> Result<()> {
        let Kind::Checkpoint(open) = &mut self.kind else {
            let (option, lacks) = match options {
                RunOptions { cfg, .. } if *cfg != 0.0 => ("cfg", "prompt to do without"),
                RunOptions { attention_of_source: true, .. } => ("attention_of_source", "rows that predict others"),
                RunOptions { cache, .. } if *cache != Cache::Off => ("cache", "keys and values that could be kept"),
                RunOptions { companion: Some(_), .. } => ("companion", "vocabulary that another model has, too"),
                _ => return Ok(()),
            };
            return Err(Error::NotForTheToy { option, lacks });
        };
        options.check_cache()?;
        open.model.set_guidance(options.cfg)?;
        let row = if options.attention_of_source { AttentionRow::Source } else { AttentionRow::Position };
        open.model.set_attention_row(row);
        open.check_cache(options)?;
        open.accompany(options)
    }

    /// Whether its checkpoint says that it was trained on the mini tasks.
    pub fn knows_mini_tasks(&self) -> bool {
        self.open_checkpoint().is_some_and(|open| open.defaults.tasks.as_deref() == Some("mini"))
    }

    /// How many positions it generates unless somebody says.
    pub fn usual_length(&self) -> usize {
        match &self.kind {
            Kind::Toy(_) => 12,
            Kind::Checkpoint(open) => open.defaults.length.unwrap_or(64),
        }
    }

    /// The most positions that it can hold.
    pub fn context(&self) -> usize {
        match &self.kind {
            Kind::Toy(_) => TOY_MOST,
            Kind::Checkpoint(open) => open.model.config().context,
        }
    }

    /// Refuses a canvas of a `length` that the model cannot hold.
    pub fn fit(&self, length: usize) -> Result<()> {
        let most = self.context();
        if length > most {
            return Err(Error::TooLong { length, name: self.name.clone(), most });
        }
        Ok(())
    }

    /// What answers queries.
    pub fn denoiser(&mut self) -> &mut dyn Denoiser {
        match &mut self.kind {
            Kind::Toy(toy) => toy,
            Kind::Checkpoint(open) => &mut open.model,
        }
    }

    /// While the flag is set, every forward fails: how another thread ends what computes. `None` forgets it; the toy is too fast to need one.
    pub fn stop_when(&mut self, flag: Option<Arc<AtomicBool>>) {
        if let Kind::Checkpoint(open) = &mut self.kind {
            open.model.stop_when(flag);
        }
    }

    /// What answers queries, and what reads and writes text. An error for the toy, and for a checkpoint without a tokenizer.
    pub fn parts(&mut self) -> Result<(&mut Model, &dyn Codec)> {
        match &mut self.kind {
            Kind::Toy(_) => Err(Error::NotACheckpoint { name: self.name.clone() }),
            Kind::Checkpoint(open) => match &open.text {
                Ok(text) => Ok((&mut open.model, text.as_ref())),
                Err(error) => Err(Error::NoTokenizer { problem: error.to_string() }),
            },
        }
    }

    /// The mask.
    pub fn mask_id(&self) -> TokenId {
        match &self.kind {
            Kind::Toy(toy) => toy.mask_id(),
            Kind::Checkpoint(open) => open.model.mask_id(),
        }
    }

    /// The largest token id.
    pub fn last_id(&self) -> TokenId {
        let vocab = match &self.kind {
            Kind::Toy(toy) => toy.vocab(),
            Kind::Checkpoint(open) => open.model.vocab(),
        };
        vocab as TokenId - 1
    }

    /// The tokens with which its texts and turns end, where it has any.
    pub fn ends(&self) -> Ends {
        match self.open_checkpoint() {
            None => Ends::default(),
            Some(open) => {
                let of_turn = open.text.as_ref().ok().and_then(|text| text.tokenizer.end_of_turn());
                Ends { of_text: Some(open.model.config().eos_id), of_turn }
            }
        }
    }

    /// Beginning of text, as the tokenizer has it: Dream's configuration gives another id, which no evaluation uses.
    pub fn bos(&self) -> Result<TokenId> {
        let Some(open) = self.open_checkpoint() else {
            return Err(Error::NotForTheToy { option: "bos", lacks: "beginning of text" });
        };
        if let Some((begin, _)) = frame(open.model.config()) {
            return Ok(begin);
        }
        match &open.text {
            Err(error) => Err(Error::BosWithoutTokenizer { problem: error.to_string() }),
            Ok(text) => text.tokenizer.bos().ok_or_else(|| Error::NoBos { names: text.tokenizer.names() }),
        }
    }

    /// The tokens before and after a canvas. Models that were trained with a frame get it unless `bos` is false, others a beginning if it
    /// is true.
    pub fn around(&self, bos: Option<bool>) -> Result<(Option<TokenId>, Option<TokenId>)> {
        match self.open_checkpoint().and_then(|open| frame(open.model.config())) {
            Some(_) if bos == Some(false) => Ok((None, None)),
            Some((begin, end)) => Ok((Some(begin), Some(end))),
            None if bos == Some(true) => Ok((Some(self.bos()?), None)),
            None => Ok((None, None)),
        }
    }

    /// What a benchmark must know of it.
    pub fn about(&self) -> Result<About> {
        let open = self.open_checkpoint().ok_or_else(|| Error::NotACheckpoint { name: self.name.clone() })?;
        let bos = open.text.as_ref().ok().and_then(|text| text.tokenizer.bos());
        let pair_head = open.checkpoint.pair_head()?.map(|head| head.sha256);
        Ok(About::new(open.model.config(), bos, self.has_chat_template(), pair_head))
    }

    /// The SHA-256 of its checkpoint.
    pub fn fingerprint(&self) -> Result<String> {
        let open = self.open_checkpoint().ok_or_else(|| Error::NotACheckpoint { name: self.name.clone() })?;
        Ok(open.checkpoint.fingerprint()?)
    }

    /// The same sampler with its strength chosen, where that was left to the model (`+paths:auto`).
    pub fn settle(&self, sampler: &SamplerSpec) -> Result<SamplerSpec> {
        match self.open_checkpoint() {
            Some(open) => calibration::settle(sampler, &open.checkpoint),
            None if calibration::is_open(sampler) => Err(Error::NotCalibrated { name: self.name.clone() }),
            None => Ok(sampler.clone()),
        }
    }

    /// The checkpoint's own model, for what only weights can answer.
    pub fn weights(&self) -> Option<&Model> {
        self.open_checkpoint().map(|open| &open.model)
    }

    /// The text of a token.
    pub fn piece(&self, token: TokenId) -> String {
        match &self.kind {
            _ if token == self.mask_id() => "[MASK]".into(),
            Kind::Toy(_) => Toy::piece(token).into(),
            Kind::Checkpoint(open) => match &open.text {
                Ok(text) => text.tokenizer.piece(token),
                Err(_) => format!("<{token}>"),
            },
        }
    }

    /// The text of a sequence.
    pub fn text(&self, tokens: &[TokenId], specials: Specials) -> Result<String> {
        let pieces = || tokens.iter().map(|&token| self.piece(token)).collect::<Vec<_>>().join(" ");
        match self.open_checkpoint().map(|open| &open.text) {
            Some(Ok(text)) => Ok(text.tokenizer.decode(tokens, specials == Specials::Hidden)?),
            _ => Ok(pieces()),
        }
    }

    /// The tokens of a text. The toy knows whole words only.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.kind {
            Kind::Toy(toy) => {
                let words = 0..toy.mask_id();
                let known = || words.clone().map(Toy::piece).collect::<Vec<_>>().join(", ");
                let unknown = |word: &str| Error::UnknownWord { word: word.into(), known: known() };
                let token = |word| words.clone().find(|&token| Toy::piece(token) == word).ok_or_else(|| unknown(word));
                text.split_whitespace().map(token).collect()
            }
            Kind::Checkpoint(open) => match &open.text {
                Ok(known) => {
                    known.tokenizer.check_mask(open.model.mask_id())?;
                    Ok(known.tokenizer.encode(text)?)
                }
                Err(error) => Err(Error::NoTokenizer { problem: error.to_string() }),
            },
        }
    }

    /// Whether chats can be rendered as the checkpoint was trained on them.
    pub fn has_chat_template(&self) -> bool {
        let text = self.open_checkpoint().and_then(|open| open.text.as_ref().ok());
        text.is_some_and(|text| matches!(text.chat, Ok(Some(_))))
    }

    /// A chat as the checkpoint's template puts it, and the beginning of an answer if that is wanted; `None` for a model without a template.
    pub fn render_chat(&self, messages: &[Message], add_generation_prompt: bool) -> Result<Option<String>> {
        let text = self.open_checkpoint().and_then(|open| open.text.as_ref().ok());
        match text.map(|text| &text.chat) {
            Some(Ok(Some(template))) => Ok(Some(template.render(messages, add_generation_prompt)?)),
            Some(Err(error)) => Err(Error::BadTemplate { problem: error.to_string() }),
            _ => Ok(None),
        }
    }

    /// What reads its tokens where the engine is not: beside the thread that computes.
    pub fn reader(&self) -> Reader {
        let text = self.open_checkpoint().and_then(|open| open.text.as_ref().ok()).cloned();
        Reader { text, toy: matches!(self.kind, Kind::Toy(_)), mask_id: self.mask_id() }
    }

    /// The languages it knows.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Whether its tokens are words, with a space before each.
    pub(crate) fn writes_words(&self) -> bool {
        matches!(self.kind, Kind::Toy(_))
    }

    /// What every token writes; `None` for those that write nothing. `[vocab]`
    pub(crate) fn token_bytes(&self) -> Result<Vec<Option<Vec<u8>>>> {
        match &self.kind {
            Kind::Toy(toy) => {
                let word = |token: TokenId| Some(format!(" {}", Toy::piece(token)).into_bytes());
                Ok((0..toy.mask_id()).map(word).chain([None]).collect())
            }
            Kind::Checkpoint(open) => match &open.text {
                Ok(text) => Ok(text.tokenizer.token_bytes(open.model.vocab())?),
                Err(error) => Err(Error::NoTokenizer { problem: error.to_string() }),
            },
        }
    }

    fn open_checkpoint(&self) -> Option<&Open> {
        match &self.kind {
            Kind::Toy(_) => None,
            Kind::Checkpoint(open) => Some(open),
        }
    }
}

impl Open {
    fn load(checkpoint: Checkpoint, options: &RunOptions) -> Result<Open> {
        let model = Model::of(&checkpoint, options.load())?;
        let eos_id = model.config().eos_id;
        let text = checkpoint.tokenizer();
        let text =
            text.map(|tokenizer| Arc::new(Text { eos: tokenizer.piece(eos_id), tokenizer, chat: checkpoint.chat() }));
        let defaults = checkpoint.generation_defaults()?;
        let warning = options.dtype.map(|dtype| checkpoint.dtype_warning(dtype)).transpose()?.flatten();
        Ok(Open { checkpoint, model, text, defaults, companion: None, warning })
    }

    /// Refuses a cache for a model that keeps no keys and values.
    fn check_cache(&self, options: &RunOptions) -> Result<()> {
        if options.cache == Cache::Off || self.model.caches() {
            return Ok(());
        }
        let why = "of this model no keys and values are kept: it is an encoder of BERT's kind, causal, or not on the CPU; \
                   name another";
        Err(cofill::Error::NoCache { cache: options.cache.to_string(), why }.into())
    }

    /// Loads the model that is to stand beside this one, unless it already does.
    fn accompany(&mut self, options: &RunOptions) -> Result<()> {
        if self.companion == options.companion {
            return Ok(());
        }
        self.companion = None;
        self.model.accompany(None); // the memory of one before that of the next is asked for
        if let Some(name) = &options.companion {
            let checkpoint = Engine::checkpoint_at(Path::new(name))?;
            let companion = Companion::of(&checkpoint, options.load(), self.model.mask_id())?;
            companion.check_vocabulary(self.text.as_ref().ok().map(|text| &text.tokenizer), &self.model)?;
            self.model.accompany(Some(companion));
        }
        self.companion = options.companion.clone();
        Ok(())
    }
}
