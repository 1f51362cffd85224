//! Published masked diffusion models as denoisers.
//!
//! LLaDA, Dream and bidirectional Qwen are one transformer ([`Transformer`]) with a configuration each ([`Config`]) and two tables of
//! tensor names. [`Model`] answers the queries of `cofill`'s decodes; samplers never learn which family they talk to.

mod attention;
mod chat;
mod config;
mod error;
mod kernels;
mod matrix;
mod model;
mod random;
mod timing;
mod tokenizer;
mod transformer;
mod weights;

pub use attention::Probe;
pub use chat::{ChatTemplate, Message};
pub use config::{Config, Family};
pub use error::{Error, Result};
pub use matrix::Precision;
pub use model::{AttentionRow, Model};
pub use random::Sizes;
pub use timing::Timing;
pub use tokenizer::Tokenizer;
pub use transformer::{Ask, Kernels, Pass, Transformer};
pub use weights::Weights;
