//! Published masked diffusion models as denoisers.
//!
//! LLaDA and Dream are one bidirectional transformer ([`Transformer`]) with two configurations ([`Config`]) and a table of tensor
//! names for each layout. A [`Checkpoint`] is what is on disk: a folder or a GGUF file. [`Model`] answers the queries of
//! `cofill`'s decodes; samplers never learn which family they talk to.

mod chat;
mod checkpoint;
mod config;
mod error;
mod gguf;
mod inspect;
mod matrix;
mod model;
mod plan;
mod quantise;
mod stored;
mod tokenizer;
mod transformer;
mod verify;
mod weights;

pub use chat::{ChatTemplate, Message};
pub use checkpoint::Checkpoint;
pub use config::{Config, Family};
pub use error::{Error, Result};
pub use inspect::{Inspection, Memory};
pub use matrix::Precision;
pub use model::{AttentionRow, Model};
pub use quantise::{Quantise, Written};
pub use tokenizer::Tokenizer;
pub use transformer::{Ask, Pass, Probe, Transformer};
pub use verify::{Case, Deviation, Golden, Tolerances, Verdict};
pub use weights::{TensorInfo, Weights};
