//! Published masked diffusion models as denoisers.
//!
//! LLaDA and Dream are one bidirectional transformer ([`Transformer`]) with two configurations ([`Config`]) and two tables of tensor
//! names. [`Model`] answers the queries of `cofill`'s decodes; samplers never learn which family they talk to.

mod config;
mod error;
mod model;
mod transformer;
mod weights;

pub use config::{Config, Family};
pub use error::{Error, Result};
pub use model::Model;
pub use transformer::{Ask, Pass, Transformer};
pub use weights::Weights;
