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
//! | Adm: Fast-dLLM | [`fast_dllm`], [`profile`] |
//! | joint dependence error | [`toy::Toy::multi_information`] |
//!
//! Samplers that are no ranking with a rule are in `samplers/`: `klass.rs`, `dapd.rs`, `dawn.rs`, `punt.rs` and so on. All have one text form
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
//!
//! # A sampler or a model of your own
//!
//! A sampler is a type that implements [`Sampler`]; an [`Entry`](spec::Entry) gives it a name, and a [`Registry`] with that entry
//! reads it wherever ours are read:
//!
//! ```
//! use cofill::{Picks, Policy, Registry, Result, Sampler, StepView, Verdict, spec::Entry};
//!
//! struct Leftmost;
//!
//! impl Sampler for Leftmost {
//!     fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
//!         view.slots().take(1).for_each(|slot| picks.push(view, slot, view.confidence(slot)));
//!         Ok(Verdict::Commit)
//!     }
//! }
//!
//! let entry = Entry::new("leftmost", "one after the other", |_, _| Ok(Policy::Commits(Box::new(Leftmost)))).version(1);
//! let registry = Registry::default().with(entry)?;
//! assert_eq!(registry.parse("leftmost")?.to_string(), "leftmost");
//! # Ok::<(), cofill::Error>(())
//! ```
//!
//! A model is a type that implements [`Denoiser`]. In `examples/`, `own_sampler.rs` compares a sampler with Top-k, `own_model.rs` plugs
//! in a model of letter pairs, and `decode_toy.rs` drives a decode step by step.

mod decode;
pub mod divergence;
mod error;
mod forward;
mod greedy;
mod language;
mod nearest;
mod noise;
pub mod sampler;
mod samplers;
pub mod toy;
pub mod trace;
pub mod trace_diff;

pub use decode::{
    Cache, Canvas, Constraint, ConstraintView, Decode, DecodeBuilder, Event, Finish, Pool, Schedule, Snapshot, Ticket,
    TokenId, generate,
};
pub use error::{Error, Result};
pub use forward::{
    Attention, Block, CacheCell, ClassStats, ClassTable, Denoiser, Distributions, Guard, HeadAttention, Job, Layers,
    Needs, Part, Prediction, Proposal, Query, Reuse, Row, RowAnswer, RowStats, Rows, Scope, Slot, StepView, Style,
    TokenClasses, ask,
};
pub use greedy::{Greedy, Ranking, StoppingRule, adas, control, fast_dllm, paths, profile, quota, ranking, rule};
pub use language::{DISCOUNT_FORMS, FormOption, Registry, SamplerForm, SamplerSpec, spec};
pub use nearest::{did_you_mean, nearest};
pub use sampler::{Deferral, Pick, Picks, Policy, RemaskingSampler, Revision, Sampler, Verdict};
pub use trace::{Step, Trace};
