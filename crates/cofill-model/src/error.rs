//! Every way a checkpoint can be wrong: one variant each, naming the file.

use crate::load_options::Device;
use std::path::PathBuf;

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a checkpoint, a prompt or a template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, field or token that must be there.
    #[error("`{}`: {what} is missing", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// A file that cannot be read as what it should be.
    #[error("`{}`: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that is larger than any of its kind.
    #[error(
        "`{}` has {given} bytes, but a file of this name may have at most {most}; it is damaged or no part of a checkpoint",
        path.display()
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        given: u64,
        /// The limit.
        most: u64,
    },
    /// An architecture or option this engine does not run.
    #[error("`{}`: {what} is `{given}`, but this engine runs {accepted}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The field.
        what: String,
        /// What it says.
        given: String,
        /// What is supported.
        accepted: String,
    },
    /// A model whose attention ends with a block.
    #[error(
        "`{}`: {what} is `{given}`, which is block-causal attention; this engine runs models in which every position sees every \
         other",
        path.display()
    )]
    BlockCausal {
        /// The file.
        path: PathBuf,
        /// The field.
        what: String,
        /// What it says.
        given: String,
    },
    /// A configuration that leaves the mask to the tokenizer.
    #[error("`{}`: the field `mask_token_id` is missing; {}", path.display(), mask_remedy(*tokenizers))]
    NoMaskId {
        /// The file.
        path: PathBuf,
        /// What the checkpoint's tokenizer says, if it does.
        tokenizers: Option<u32>,
    },
    /// A tokenizer that does not know the model's mask.
    #[error(
        "`{}`: the tokenizer has no token with id {id}, which config.json gives as `mask_token_id`; take the tokenizer from the same \
         checkpoint or correct that id, or give token ids instead of text",
        path.display()
    )]
    NoMaskToken {
        /// The folder.
        path: PathBuf,
        /// What the configuration says.
        id: u32,
    },
    /// A tokenizer that calls another token the mask.
    #[error(
        "`{}`: `mask_token` is `{token}`, which has id {given}, but config.json gives {id} as `mask_token_id`; correct the one that is \
         wrong, or give token ids instead of text",
        path.display()
    )]
    OtherMask {
        /// `tokenizer_config.json`.
        path: PathBuf,
        /// The token's text.
        token: String,
        /// Its id.
        given: u32,
        /// What the configuration says.
        id: u32,
    },
    /// A head that is said to be the embedding, and is not.
    #[error(
        "`{}`: the configuration says that the embeddings are tied, but there is a tensor `{name}` that differs from them; set the \
         field to false to use it, or take it out",
        path.display()
    )]
    NotTied {
        /// The file or folder.
        path: PathBuf,
        /// The head.
        name: String,
    },
    /// A tensor of another shape than the configuration says.
    #[error("`{}`: tensor `{name}` has shape {got:?}, but the configuration asks for {want:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// From the configuration.
        want: Vec<usize>,
        /// In the file.
        got: Vec<usize>,
    },
    /// A weight that is no number.
    #[error("`{}`: tensor `{name}` holds {value} at index {index}; the file is damaged", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its first bad index.
        index: usize,
        /// The value.
        value: f32,
    },
    /// A chat template that cannot be rendered.
    #[error("chat template: {problem}")]
    Template {
        /// What is wrong with it.
        problem: String,
    },
    /// More positions than the model holds.
    #[error("the canvas has {given} positions, but the model holds {most}; shorten the prompt or the length")]
    TooLong {
        /// Given.
        given: usize,
        /// The context length.
        most: usize,
    },
    /// A guidance that is no scale.
    #[error("guidance must be a finite number, 0 or more, but {given} was given")]
    Guidance {
        /// Given.
        given: f64,
    },
    /// A device that this build or this machine does not have.
    #[error(
        "cannot compute on {device}: {problem}; build with `--features {device}` on a machine that has one, or use cpu"
    )]
    Device {
        /// Asked for.
        device: Device,
        /// What the tensor library says.
        problem: String,
    },
    /// A weight that the type it should be kept in cannot hold.
    #[error("`{}`: tensor `{name}` holds {value:e}, but f16 and quantised types end at 65504; use f32", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The largest weight.
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
        /// The first by name.
        name: String,
        /// How many more there are.
        more: usize,
    },
    /// Sizes that make no model.
    #[error("no model has these sizes: {problem}")]
    Sizes {
        /// What is wrong with them.
        problem: String,
    },
    /// A shifted model cannot predict the first position.
    #[error("position 0 is masked, but this model predicts a position from the one before it; start with a token")]
    FirstMasked,
    /// Writing failed; whoever gave the place knows its name.
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
