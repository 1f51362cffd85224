//! Which masked positions may be committed together.
//!
//! A masked diffusion language model predicts every masked position in one forward pass; this crate decides which of the
//! predictions to keep. It is the algorithmic half of `cofill`: no tensor library, no async runtime, no file access.
//!
//! # The paper in these files
//!
//! The decomposition is that of the ADAS paper: *ranking x stopping rule x schedule x model*, each once.
//!
//! | paper | here |
//! |---|---|
//! | Algorithm 1 | [`Greedy`] |
//! | token-wise utility c | [`ranking::Confidence`], and [`ranking`] for the others |
//! | attention-discounted utility u(i given S, A) | [`adas`] |
//! | Adm: Top-k, EB-Sampler | [`rule`] |
//! | Adm: Fast-dLLM | [`fast_dllm`] |
//! | joint dependence error | [`toy::Toy::multi_information`] |
//!
//! Rivals are samplers of their own: `klass.rs`, `dapd.rs`, `dawn.rs`, `punt.rs` and so on. All of them have one text form
//! ([`SamplerSpec`]), and one loop runs them all ([`Decode`]).
//!
//! ```
//! use cofill::{Canvas, Decode, Denoiser, SamplerSpec, generate, toy::Toy};
//!
//! let mut toy = Toy::phrases(6); // a first and a last name, a verb, a city of two words, a word on when
//! let mut write = |sampler: &str| -> cofill::Result<String> {
//!     let canvas = Canvas::prompt(&[], 6, toy.mask_id());
//!     let mut decode = Decode::new(canvas, sampler.parse::<SamplerSpec>()?.build()?)?;
//!     generate(&mut toy, &mut decode)?;
//!     Ok(decode.canvas().tokens().iter().map(|&t| Toy::piece(t)).collect::<Vec<_>>().join(" "))
//! };
//! // Three forwards each. Top-k commits both words of a name at once, each by its own best guess.
//! assert_eq!(write("topk:2")?, "Alan Kelly visited San City again");
//! // ADAS lets the second word wait until it can see the first.
//! assert_eq!(write("topk:2+ad")?, "Alan Turing visited San Diego again");
//! # Ok::<(), cofill::Error>(())
//! ```

pub mod adas;
mod canvas;
mod credit;
mod dapd;
mod dawn;
mod decode;
mod denoiser;
pub mod divergence;
mod dos;
mod dus;
mod error;
pub mod fast_dllm;
mod greedy;
mod hierarchy;
mod klass;
mod localleap;
mod lookum;
mod noise;
mod online;
mod origin;
mod p2;
mod pool;
mod propose;
mod punt;
pub mod quota;
pub mod ranking;
mod registry;
pub mod rule;
pub mod sampler;
mod schedule;
mod snapshot;
pub mod spec;
pub mod toy;
pub mod trace;
pub mod trace_diff;
mod view;

pub use canvas::{Canvas, TokenId};
pub use decode::{Decode, Finish, generate};
pub use denoiser::{Attention, Denoiser, Distributions, HeadAttention, Layers, Needs, Prediction, Query, Scope};
pub use error::{Error, Result};
pub use greedy::Greedy;
pub use pool::{Event, Pool, Ticket};
pub use propose::{Proposal, Row, RowStats, Style};
pub use ranking::Ranking;
pub use registry::REGISTRY;
pub use rule::StoppingRule;
pub use sampler::{Deferral, Pick, Picks, Policy, RemaskingSampler, Revision, Sampler, Verdict};
pub use schedule::Schedule;
pub use snapshot::Snapshot;
pub use spec::SamplerSpec;
pub use trace::{Step, Trace};
pub use view::{Block, Job, Rows, Slot, StepView};
