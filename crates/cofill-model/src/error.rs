//! Every way a checkpoint can be wrong: one variant each, naming the file.

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
    /// A shifted model cannot predict the first position.
    #[error("position 0 is masked, but this model predicts a position from the one before it; start with a token")]
    FirstMasked,
    /// A file that would be lost.
    #[error("`{}` exists; give another name, or --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be written.
    #[error("`{}` cannot be written: {problem}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The tensor library failed.
    #[error("computing failed")]
    Candle(#[from] candle_core::Error),
}

impl From<Error> for cofill::Error {
    fn from(error: Error) -> cofill::Error {
        cofill::Error::Denoiser(Box::new(error))
    }
}
