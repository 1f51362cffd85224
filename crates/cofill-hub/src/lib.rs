//! Models and files of the Hugging Face hub, in the cache that its tools share.
//!
//! A download continues where it was interrupted, however that happened, and nothing counts as downloaded before its checksum was
//! compared. The layout of the cache is the one of `huggingface_hub` and of the crate `hf-hub`, so that each finds what another
//! fetched. `docs/getting.md` says which variables matter.
//!
//! | | |
//! |---|---|
//! | [`ModelName`] | `hf:org/name@revision`, taken apart |
//! | [`Settings`] | what the environment says: cache, endpoint, token, off-line |
//! | [`Hub`] | a client: [`Hub::pull`] gets a model, [`Hub::fetch`] one file from anywhere |
//! | [`find`], [`scan`], [`remove`] | what the cache holds, without a network |
//! | [`Event`] | what happens meanwhile, for whoever draws a bar |

mod cache;
mod checksum;
mod download;
mod error;
mod fetch;
mod http;
mod listing;
mod lock;
mod name;
mod needed;
mod pull;
mod remove;
mod scan;
mod settings;
mod url;

pub use cache::{Found, find, repo_folder};
pub use checksum::Checksum;
pub use download::Event;
pub use error::{Error, Result};
pub use fetch::FetchFile;
pub use name::{ModelName, is_hub_name};
pub use pull::{Hub, Pulled};
pub use remove::{Removed, remove};
pub use scan::{CachedModel, CachedRevision, scan};
pub use settings::{Settings, Token};
pub use url::wheel_links;
