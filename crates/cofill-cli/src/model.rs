//! What `-m` names: a model, with the text of its tokens.

use crate::fail::{Done, Fail};
use crate::show::Spelling;
use cofill::toy::Toy;
use cofill::{Denoiser, TokenId};
use cofill_model::{AttentionRow, ChatTemplate, Device, Dtype, LoadOptions, Message, Tokenizer, embedded};
use std::path::Path;

/// The models that can be named.
#[cfg(feature = "embedded")]
pub(crate) const NAMES: &str = "`tiny-llada` or `tiny-dream` (inside this program, trained on the mini tasks), `toy` (a known joint distribution over short sentences), or a LLaDA, Dream or A2D-Qwen checkpoint: a folder or a .gguf file";
#[cfg(not(feature = "embedded"))]
pub(crate) const NAMES: &str = "`toy` (a known joint distribution over short sentences), or a LLaDA, Dream or A2D-Qwen checkpoint: a folder or a .gguf file";

/// The model that is meant when none is named.
pub(crate) const DEFAULT: &str = if cfg!(feature = "embedded") { "tiny-llada" } else { TOY };

const TOY: &str = "toy";

/// How the tokens of the model called so make a text.
pub(crate) fn spelling(name: &str) -> Spelling {
    if name == TOY { Spelling::Words } else { Spelling::Pieces }
}

/// How a checkpoint's weights are kept.
#[derive(clap::Args)]
pub(crate) struct KeepArgs {
    /// How weights are kept: f32 is exact, f16, q8_0, q6k and q4k are smaller (default: f32 for folders, as stored for GGUF files).
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[arg(long, value_name = "NAME", default_value_t = Device::Cpu)]
    device: Device,
}

impl KeepArgs {
    /// As given: what it means without is the checkpoint's matter.
    pub(crate) fn dtype(&self) -> Option<String> {
        self.dtype.map(|dtype| dtype.to_string())
    }

    /// By name.
    pub(crate) fn device(&self) -> String {
        self.device.to_string()
    }
}

impl From<&KeepArgs> for LoadOptions {
    fn from(args: &KeepArgs) -> LoadOptions {
        LoadOptions { dtype: args.dtype, device: args.device }
    }
}

/// A checkpoint of which nothing is loaded yet; the toy is none.
pub(crate) fn checkpoint(place: &Path) -> Done<cofill_model::Checkpoint> {
    let name = place.display();
    if place == Path::new(TOY) {
        return Err(Fail::request(format!("`{name}` is no checkpoint and knows none of the tasks")));
    }
    match cofill_model::Checkpoint::exists(place) {
        true => Ok(cofill_model::Checkpoint::open(place)?),
        false => Err(Fail::request(format!("unknown model `{name}` for --model; give {NAMES}"))),
    }
}

/// What becomes of special tokens in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Specials {
    Hidden,
    Shown,
}

/// A loaded model.
pub(crate) struct Model {
    /// As the user named it.
    pub(crate) name: String,
    kind: Kind,
}

enum Kind {
    Toy(Toy),
    Checkpoint(Box<Checkpoint>),
}

/// A folder in Hugging Face layout or a GGUF file. Without a tokenizer it still takes and gives token ids.
struct Checkpoint {
    model: cofill_model::Model,
    tokenizer: Result<Tokenizer, cofill_model::Error>,
    chat: Result<Option<ChatTemplate>, cofill_model::Error>,
}

/// The toy makes itself as long as it must; this is where it stops.
const TOY_MOST: usize = 8192;

impl Model {
    /// Finds and loads what `--model` names.
    pub(crate) fn load(name: &str, keep: &KeepArgs) -> Done<Model> {
        let kind = match name {
            TOY => Kind::Toy(Toy::phrases(0)),
            path if Model::is_checkpoint(path) => {
                let checkpoint = cofill_model::Checkpoint::open(Path::new(path))?;
                let model = cofill_model::Model::of(&checkpoint, keep)?;
                let (tokenizer, chat) = (checkpoint.tokenizer(), checkpoint.chat());
                Kind::Checkpoint(Box::new(Checkpoint { model, tokenizer, chat }))
            }
            _ => return Err(Fail::request(format!("unknown model `{name}` for --model; give {NAMES}"))),
        };
        Ok(Model { name: name.into(), kind })
    }

    /// Whether `--model` names something to load.
    pub(crate) fn is_checkpoint(name: &str) -> bool {
        name != TOY && cofill_model::Checkpoint::exists(Path::new(name))
    }

    /// Whether it is one of those inside the program, which know only the mini tasks.
    pub(crate) fn is_tiny(&self) -> bool {
        embedded::names().any(|name| name == self.name)
    }

    /// Sets what changes the model's answers.
    pub(crate) fn configure(&mut self, cfg: f64, attention_of_source: bool) -> Done<()> {
        match &mut self.kind {
            Kind::Toy(_) if cfg != 0.0 || attention_of_source => {
                Err(Fail::request("--cfg and --attention-of-source are for checkpoints; the toy has neither"))
            }
            Kind::Toy(_) => Ok(()),
            Kind::Checkpoint(checkpoint) => {
                checkpoint.model.set_guidance(cfg)?;
                if attention_of_source {
                    checkpoint.model.set_attention_row(AttentionRow::Source);
                }
                Ok(())
            }
        }
    }

    /// How many positions it generates unless somebody says.
    pub(crate) fn usual_length(&self) -> usize {
        match &self.kind {
            Kind::Toy(_) => 12,
            Kind::Checkpoint(_) => 64,
        }
    }

    /// Makes room for a canvas of `length`; refuses one that the model cannot hold.
    pub(crate) fn fit(&mut self, length: usize) -> Done<()> {
        let most = match &self.kind {
            Kind::Toy(_) => TOY_MOST,
            Kind::Checkpoint(checkpoint) => checkpoint.model.config().context,
        };
        if length > most {
            let name = &self.name;
            return Err(Fail::request(format!(
                "the canvas has {length} positions, but `{name}` holds {most}; shorten it"
            )));
        }
        if let Kind::Toy(toy) = &mut self.kind {
            *toy = Toy::phrases(length);
        }
        Ok(())
    }

    /// What answers queries.
    pub(crate) fn denoiser(&mut self) -> &mut dyn Denoiser {
        match &mut self.kind {
            Kind::Toy(toy) => toy,
            Kind::Checkpoint(checkpoint) => &mut checkpoint.model,
        }
    }

    /// The mask.
    pub(crate) fn mask_id(&self) -> TokenId {
        match &self.kind {
            Kind::Toy(toy) => toy.mask_id(),
            Kind::Checkpoint(checkpoint) => checkpoint.model.mask_id(),
        }
    }

    /// The largest token id.
    pub(crate) fn last_id(&self) -> TokenId {
        let vocab = match &self.kind {
            Kind::Toy(toy) => toy.vocab(),
            Kind::Checkpoint(checkpoint) => checkpoint.model.vocab(),
        };
        vocab as TokenId - 1
    }

    /// End of text, where the model has one.
    pub(crate) fn eos_id(&self) -> Option<TokenId> {
        match &self.kind {
            Kind::Toy(_) => None,
            Kind::Checkpoint(checkpoint) => Some(checkpoint.model.config().eos_id),
        }
    }

    /// Beginning of text, as the tokenizer has it: Dream's configuration gives another id, which no evaluation uses.
    pub(crate) fn bos(&self) -> Done<TokenId> {
        let Kind::Checkpoint(checkpoint) = &self.kind else {
            return Err(Fail::request("--bos is for checkpoints; the toy has no beginning of text"));
        };
        match &checkpoint.tokenizer {
            Err(error) => Err(Fail::request(format!("--bos: {error}"))),
            Ok(tokenizer) => tokenizer.bos().ok_or_else(|| {
                let remedy = "leave out --bos, or give the token that you mean first in --prompt-tokens";
                Fail::request(format!("`{}` names no `bos_token`; {remedy}", tokenizer.names().display()))
            }),
        }
    }

    /// The end of a turn in a chat, where the tokenizer has one.
    pub(crate) fn end_of_turn(&self) -> Option<TokenId> {
        match &self.kind {
            Kind::Toy(_) => None,
            Kind::Checkpoint(checkpoint) => checkpoint.tokenizer.as_ref().ok()?.end_of_turn(),
        }
    }

    /// The checkpoint's own model, for what only weights can answer.
    pub(crate) fn weights(&self) -> Option<&cofill_model::Model> {
        match &self.kind {
            Kind::Toy(_) => None,
            Kind::Checkpoint(checkpoint) => Some(&checkpoint.model),
        }
    }

    /// The text of a token.
    pub(crate) fn piece(&self, token: TokenId) -> String {
        match &self.kind {
            _ if token == self.mask_id() => "[MASK]".into(),
            Kind::Toy(_) => Toy::piece(token).into(),
            Kind::Checkpoint(checkpoint) => match &checkpoint.tokenizer {
                Ok(tokenizer) => tokenizer.piece(token),
                Err(_) => format!("<{token}>"),
            },
        }
    }

    /// The text of a sequence.
    pub(crate) fn text(&self, tokens: &[TokenId], specials: Specials) -> Done<String> {
        let pieces = || tokens.iter().map(|&token| self.piece(token)).collect::<Vec<_>>().join(" ");
        match &self.kind {
            Kind::Toy(_) => Ok(pieces()),
            Kind::Checkpoint(checkpoint) => match &checkpoint.tokenizer {
                Ok(tokenizer) => Ok(tokenizer.decode(tokens, specials == Specials::Hidden)?),
                Err(_) => Ok(pieces()),
            },
        }
    }

    /// The tokens of a text. The toy knows whole words only.
    pub(crate) fn encode(&self, text: &str) -> Done<Vec<TokenId>> {
        match &self.kind {
            Kind::Toy(toy) => {
                let words = 0..toy.mask_id();
                let known = || words.clone().map(Toy::piece).collect::<Vec<_>>().join(", ");
                let unknown = |word: &str| {
                    Fail::request(format!("the toy does not know the word `{word}`; it knows {}", known()))
                };
                let token = |word| words.clone().find(|&token| Toy::piece(token) == word).ok_or_else(|| unknown(word));
                text.split_whitespace().map(token).collect()
            }
            Kind::Checkpoint(checkpoint) => match &checkpoint.tokenizer {
                Ok(tokenizer) => {
                    tokenizer.check_mask(checkpoint.model.mask_id())?;
                    Ok(tokenizer.encode(text)?)
                }
                Err(error) => Err(Fail::request(format!("{error}; give token ids with --tokens or --prompt-tokens"))),
            },
        }
    }

    /// A prompt as the checkpoint's chat template puts it.
    pub(crate) fn chat(&self, prompt: &str) -> Done<String> {
        let none = || Fail::request(format!("`{}` has no chat template; leave out --chat", self.name));
        let Kind::Checkpoint(checkpoint) = &self.kind else { return Err(none()) };
        match &checkpoint.chat {
            Ok(Some(template)) => Ok(template.render(&[Message::new("user", prompt)], true)?),
            Ok(None) => Err(none()),
            Err(error) => Err(Fail::request(error.to_string())),
        }
    }
}
