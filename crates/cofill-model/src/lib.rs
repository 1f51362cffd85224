//! Published masked diffusion models as denoisers.
//!
//! LLaDA, Dream and bidirectional Qwen are one transformer ([`Transformer`]) with a configuration each ([`Config`]) and a table of
//! tensor names for each layout; BERT and its relatives are another ([`Encoder`]). A [`Checkpoint`] is what is on disk: a folder or a GGUF file. [`Model`] answers the queries of
//! `cofill`'s decodes; samplers never learn which family they talk to.

mod attention;
mod blocks;
mod chat;
mod checkpoint;
mod companion;
mod config;
pub mod embedded;
mod encoder;
mod error;
mod files;
mod fingerprint;
mod generation_config;
mod gguf;
mod guard;
mod inspect;
mod jinja;
mod kernels;
mod keys_values;
mod known;
mod layers;
mod load_options;
mod matrix;
mod model;
mod network;
mod pair_head;
mod quantise;
mod random;
mod stored;
mod tensor_list;
mod timing;
mod tokenizer;
mod transformer;
mod verify;
mod weights;

pub use attention::{AttentionQuery, PerHead};
pub use blocks::{ForwardRequest, Hidden, Pass};
pub use chat::{ChatTemplate, Message};
pub use checkpoint::Checkpoint;
pub use companion::Companion;
pub use config::{Activation, Config, EncoderConfig, Family, LocalAttention};
pub use encoder::Encoder;
pub use error::{Error, Result};
pub use generation_config::GenerationDefaults;
pub use guard::printable;
pub use inspect::{Inspection, Memory};
pub use kernels::Kernels;
pub use keys_values::{CacheUse, KeysValues};
pub use known::{KnownModel, known_models};
pub use load_options::{Device, Dtype, LoadOptions};
pub use model::{AttentionRow, Model};
pub use network::Network;
pub use pair_head::PairHeadInfo;
pub use quantise::{Quantise, QuantisedFile};
pub use random::Sizes;
pub use timing::Timing;
pub use tokenizer::Tokenizer;
pub use transformer::Transformer;
pub use verify::{Case, Comparison, Deviation, Golden, Tolerances};
pub use weights::{TensorInfo, Weights};
