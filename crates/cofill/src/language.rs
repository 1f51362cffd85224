//! The sampler language: one text names the same sampler on the command line, in recipes, results and plots.
//!
//! ```text
//! name [":" number {"," number}] {"@" word ["=" number]} ["+" discount]
//! discount = ("ad" | "paths") [":" (number | "auto")] ["@layer=" layer] ["@weight=" weight] ["@paths"] ["@doubt"] ["@veto"] ["@source=" control]
//! ```
//!
//! Four types, from the text to the sampler:
//!
//! - [`SamplerForm`] is the text taken apart. It knows no names, so it also reads samplers that nobody has registered here.
//! - [`Entry`](spec::Entry) describes one named sampler: its parameters, its options, where it comes from, and how to build it.
//! - [`Registry`] holds entries. It parses, lists and documents them.
//! - [`SamplerSpec`] is an entry with values for all of its parameters: what a registry makes of a text, ready to build.

mod discount;
mod entry;
mod form;
mod param;
mod registry;
pub mod spec;

pub use discount::DISCOUNT_FORMS;
pub use form::{FormOption, SamplerForm};
pub use registry::Registry;
pub use spec::SamplerSpec;

/// Things that are accepted, for an error message.
fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}
