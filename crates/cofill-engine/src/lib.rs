//! A masked diffusion language model one can talk to.
//!
//! An [`Engine`] opens what a name stands for (a model inside the program, a folder, a GGUF file, one of the hub, the toy), turns text into a canvas,
//! fills the canvas and reads it. Commands, sweeps and diagnostics are doors on it, and so is whatever else talks to a model.
//!
//! ```
//! use cofill_engine::{Engine, Input, RunOptions};
//!
//! let mut engine = Engine::open("toy", &RunOptions::default())?;
//! let options = serde_json::from_str(r#"{"length": 6}"#)?;
//! let ready = engine.prepare(&Input::Nothing, &"topk:2+ad".parse()?, &options)?;
//! let answer = engine.generate(ready)?;
//! assert_eq!(answer.text, "Alan Turing visited San Diego again");
//! assert_eq!(answer.nfe, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`RunOptions`], [`RunSpec`] | everything one run can be told, defined once for commands, recipes, plans and headers |
//! | [`Engine`] | a model and its text |
//! | [`Input`] | what is to be filled: a prompt, a chat, a text with gaps, tokens |
//! | [`StepEvent`], [`Generation`] | what happens step by step, and what came of it |
//! | [`Length`], [`Ended`], [`SettledGap`] | how long an answer may become, how it ended, and how long a gap should be |
//! | [`Conversation`] | turns, and how many of them a model still holds |
//! | [`Comparison`] | several samplers on one canvas |
//! | [`Filling`] | the same a round at a time, for whoever looks in between |
//! | [`Schema`], [`TextLanguage`] | texts held to a language |
//! | [`Infill`] | the gaps of a text of any size, filled in place |
//! | [`Scored`] | how probable given tokens are |
//! | [`Question`] | what the tiny models know: prompts of the mini tasks, judged on the spot |
//! | [`Calibrated`] | the strength of `+paths:auto` that was chosen for a model, and where it is kept |
//! | [`provenance()`] | what made a result |

mod calibration;
mod codec;
mod comparison;
mod constrain;
mod conversation;
mod engine;
mod error;
mod gap_length;
mod generate;
mod growth;
mod hub;
mod infill;
mod input;
mod length;
mod options;
mod provenance;
mod question;
mod reading;
mod schema;
mod score;

pub use calibration::{Calibrated, cache_file, data_folder, settle};
pub use codec::Codec;
pub use cofill_grammar::Error as LanguageError;
pub use cofill_hub::{Error as HubError, Event as DownloadEvent};
pub use comparison::{CannotCompare, Compared, Comparison};
pub use constrain::TextLanguage;
pub use conversation::{AskedTurn, Conversation, Turn};
pub use engine::{About, Engine, Reader, Specials};
pub use error::{Error, Result};
pub use gap_length::SettledGap;
pub use generate::{Filling, Finish, Generation, Prepared, Seconds, StepEvent, begin};
pub use growth::Ended;
pub use hub::on_download;
pub use infill::{FilledGap, GapMarks, Infill, Spent};
pub use input::{Input, Piece, gaps, parse_tokens};
pub use length::Length;
pub use options::{DEFAULT_SAMPLER, Ends, RunOptions, RunSpec};
pub use provenance::provenance;
pub use question::{Judged, Question};
pub use reading::Spelling;
pub use schema::{BadSchema, Schema};
pub use score::{Scored, check_rows};

/// The models that can be named.
#[cfg(feature = "embedded")]
pub const MODEL_NAMES: &str = "`tiny-llada` or `tiny-dream` (inside this program, trained on the mini tasks), `toy` (a known joint distribution over short sentences), or a LLaDA, Dream, A2D-Qwen or BERT-like checkpoint: a folder or, but for the last, a .gguf file, or `hf:org/name` from the Hugging Face hub";
/// The models that can be named.
#[cfg(not(feature = "embedded"))]
pub const MODEL_NAMES: &str = "`toy` (a known joint distribution over short sentences), or a LLaDA, Dream, A2D-Qwen or BERT-like checkpoint: a folder or, but for the last, a .gguf file, or `hf:org/name` from the Hugging Face hub";

/// The model that is meant when none is named.
pub const DEFAULT_MODEL: &str = if cfg!(feature = "embedded") { "tiny-llada" } else { TOY };

/// The names that stand for a model without a file.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    cofill_model::embedded::names().chain([TOY])
}

/// The most threads that can be asked for: more than any machine runs at once, and fewer than any would refuse to start.
pub const MOST_THREADS: usize = 1024;

/// The name of the toy.
pub const TOY: &str = "toy";
