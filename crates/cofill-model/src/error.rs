//! The errors of this crate: one variant for each way in which a checkpoint, a prompt or a request can be wrong. Those about files
//! name the file.

use crate::load_options::Device;
use std::path::PathBuf;

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a checkpoint, a prompt or a template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody set the flag that ends what computes.
    #[error("stopped between two forwards")]
    Stopped,
    /// A file, field or token that must be there.
    #[error("`{}`: {what} is missing", path.display())]
    Missing {
        /// The file or folder that should have it.
        path: PathBuf,
        /// The file, field, tensor or token that is missing.
        what: String,
    },
    /// A file that cannot be read as what it should be.
    #[error("`{}`: {problem}", path.display())]
    Malformed {
        /// The file that was read.
        path: PathBuf,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// A tokenizer whose tokens are no sequences of bytes, so that no language can be written with them.
    #[error(
        "`{}`: what its tokens write depends on their neighbours (decoder `{given}`), so the text cannot be held to a schema, an expression or choices; use a model with byte-level BPE or SentencePiece",
        path.display()
    )]
    NotBytes {
        /// The tokenizer's folder or file.
        path: PathBuf,
        /// The kind of its decoder.
        given: String,
    },
    /// A file that is larger than any of its kind.
    #[error(
        "`{}` has {given} bytes, but a file of this name may have at most {most}; it is damaged or no part of a checkpoint",
        path.display()
    )]
    FileTooLarge {
        /// The file that is too large.
        path: PathBuf,
        /// The bytes that it has.
        given: u64,
        /// The bytes that a file of its name may have.
        most: u64,
    },
    /// An architecture or option this engine does not run.
    #[error("`{}`: {what} is `{given}`, but this engine runs {accepted}", path.display())]
    Unsupported {
        /// The file that asks for it.
        path: PathBuf,
        /// The field that asks for it.
        what: String,
        /// The value of that field.
        given: String,
        /// The values that this engine runs.
        accepted: String,
    },
    /// A model in which positions do not see what comes after their block.
    #[error(
        "`{}`: {what} is `{given}`, which is block-causal attention; this engine runs models in which every position sees every \
         other",
        path.display()
    )]
    BlockCausal {
        /// The configuration that says so.
        path: PathBuf,
        /// The field that says so.
        what: String,
        /// The value of that field.
        given: String,
    },
    /// A causal language model where one is needed that fills masks.
    #[error(
        "`{}`: architectures[0] is `{given}`, a causal language model, which fills no masks; it can be the companion of a diffusion \
         model of the same vocabulary, for samplers that ask one",
        path.display()
    )]
    Causal {
        /// The configuration that says so.
        path: PathBuf,
        /// The architecture that it names.
        given: String,
    },
    /// A companion that is no causal language model.
    #[error("`{}`: {what} is `{given}`, but a companion is a causal language model: {accepted}", path.display())]
    NotACompanion {
        /// The file that says so.
        path: PathBuf,
        /// The field that says so.
        what: String,
        /// The value of that field.
        given: String,
        /// The values that companions have.
        accepted: String,
    },
    /// A companion whose token ids mean something else.
    #[error(
        "the companion's token {id} is `{companion}`, but the model's is `{model}`; both must have one vocabulary: take models of one family"
    )]
    OtherVocabulary {
        /// The first id that differs.
        id: u32,
        /// The companion's token.
        companion: String,
        /// The model's token.
        model: String,
    },
    /// A companion with another number of tokens, and no tokenizers to compare.
    #[error(
        "the companion has {companion} token ids and the model {model}, and without a tokenizer of both nobody can say which are the same; \
         take models of one family, with their tokenizers"
    )]
    OtherSize {
        /// The companion's.
        companion: usize,
        /// The model's.
        model: usize,
    },
    /// A model without the head that predicts who changes whom.
    #[error(
        "`{}` has no `{}`, which predicts who changes whom; train one for a folder with tools/train/pairs.py, or rank by a layer's \
         attention",
        path.display(),
        crate::pair_head::FILE
    )]
    NoPairHead {
        /// The folder or file of the model.
        path: PathBuf,
    },
    /// A configuration without the id of the mask token.
    #[error("`{}`: the field `mask_token_id` is missing; {}", path.display(), mask_remedy(*tokenizers))]
    NoMaskId {
        /// The `config.json` that lacks it.
        path: PathBuf,
        /// The id of the mask token in the checkpoint's tokenizer, if it has one.
        tokenizers: Option<u32>,
    },
    /// A tokenizer that has no token with the id of the model's mask.
    #[error(
        "`{}`: the tokenizer has no token with id {id}, which config.json gives as `mask_token_id`; take the tokenizer from the same \
         checkpoint or correct that id, or give token ids instead of text",
        path.display()
    )]
    NoMaskToken {
        /// The folder of the tokenizer.
        path: PathBuf,
        /// The id of the mask in the configuration.
        id: u32,
    },
    /// A tokenizer that calls another token the mask.
    #[error(
        "`{}`: `mask_token` is `{token}`, which has id {given}, but config.json gives {id} as `mask_token_id`; correct the one that is \
         wrong, or give token ids instead of text",
        path.display()
    )]
    OtherMask {
        /// The file that names the tokenizer's special tokens.
        path: PathBuf,
        /// The token that this file calls the mask.
        token: String,
        /// The id of that token.
        given: u32,
        /// The id of the mask in the configuration.
        id: u32,
    },
    /// A configuration that says that the head is the embedding, in a checkpoint that stores another head.
    #[error(
        "`{}`: the configuration says that the embeddings are tied, but there is a tensor `{name}` that differs from them; set the \
         field to false to use it, or take it out",
        path.display()
    )]
    NotTied {
        /// The file or folder.
        path: PathBuf,
        /// The tensor that holds the other head.
        name: String,
    },
    /// A tensor of another shape than the configuration says.
    #[error("`{}`: tensor `{name}` has shape {got:?}, but the configuration asks for {want:?}", path.display())]
    Shape {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The name of the tensor.
        name: String,
        /// The shape that follows from the configuration.
        want: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },
    /// A weight that is infinite or not a number.
    #[error("`{}`: tensor `{name}` holds {value} at index {index}; the file is damaged", path.display())]
    NotFinite {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The name of the tensor.
        name: String,
        /// The index of the first such weight, counted through all rows.
        index: usize,
        /// The weight as it is stored.
        value: f32,
    },
    /// A chat template that cannot be rendered.
    #[error("chat template: {problem}")]
    Template {
        /// What is wrong with it, and in which line.
        problem: String,
    },
    /// More positions than the model holds.
    #[error("the canvas has {given} positions, but the model holds {most}; shorten the prompt or the length")]
    TooLong {
        /// The positions of the canvas.
        given: usize,
        /// The context length of the model.
        most: usize,
    },
    /// A guidance scale that is negative or not finite.
    #[error("guidance must be a finite number, 0 or more, but {given} was given")]
    Guidance {
        /// The scale that was given.
        given: f64,
    },
    /// A device that this build or this machine does not have.
    #[error(
        "cannot compute on {device}: {problem}; build this library with the feature `{device}` on a machine that has such a device, or \
         use cpu"
    )]
    Device {
        /// The device that was asked for.
        device: Device,
        /// What the tensor library says.
        problem: String,
    },
    /// A weight that is too large for the type that was asked for.
    #[error("`{}`: tensor `{name}` holds {value:e}, but f16 and quantised types end at 65504; use f32", path.display())]
    TooLarge {
        /// The file that holds the tensor.
        path: PathBuf,
        /// The name of the tensor.
        name: String,
        /// The largest weight of it.
        value: f32,
    },
    /// A tensor that the configuration has no use for.
    #[error(
        "`{}`: tensor `{name}`{} is stored, but the configuration has no use for it; its number of layers or a switch does not fit",
        path.display(),
        others(*more)
    )]
    Superfluous {
        /// The file or folder.
        path: PathBuf,
        /// The first such tensor, by name.
        name: String,
        /// How many others there are.
        more: usize,
    },
    /// Sizes from which no model can be made.
    #[error("no model has these sizes: {problem}")]
    Sizes {
        /// Which of them cannot be, and why.
        problem: String,
    },
    /// A first position that is masked, in a model that predicts every position from the one before it.
    #[error("position 0 is masked, but this model predicts a position from the one before it; start with a token")]
    FirstMasked,
    /// Writing a file failed. The caller opened the file and can say its name.
    #[error("writing failed")]
    Write(#[source] std::io::Error),
    /// The tensor library failed, for the reason that is given as the source.
    #[error("computing failed")]
    Compute(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The result of functions that call the tensor library.
pub(crate) type Computed<T> = Result<T, ComputeError>;

/// What `?` makes of the tensor library's errors, and turns into [`Error`] one level up. A conversion without this step in between
/// would be public, and the library's own error type with it.
#[derive(Debug)]
pub(crate) struct ComputeError(Error);

impl From<candle_core::Error> for ComputeError {
    fn from(error: candle_core::Error) -> ComputeError {
        ComputeError(Error::Compute(Box::new(error)))
    }
}

impl From<Error> for ComputeError {
    fn from(error: Error) -> ComputeError {
        ComputeError(error)
    }
}

impl From<ComputeError> for Error {
    fn from(ComputeError(error): ComputeError) -> Error {
        error
    }
}

fn mask_remedy(tokenizers: Option<u32>) -> String {
    match tokenizers {
        Some(id) => format!("add \"mask_token_id\": {id}, which is the tokenizer's mask token"),
        None => "add the id of the token that the model was trained to fill in, as in \"mask_token_id\": 151669".into(),
    }
}

fn others(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

impl From<Error> for cofill::Error {
    fn from(error: Error) -> cofill::Error {
        cofill::Error::Denoiser(Box::new(error))
    }
}
