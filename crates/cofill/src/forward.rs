//! One forward pass: what is asked of a model, what it answers, and what a sampler sees of the answer.

mod by_class;
mod classes;
mod denoiser;
mod layers;
mod online;
mod propose;
mod reuse;
mod view;

pub use classes::{ClassStats, ClassTable, TokenClasses};
pub use denoiser::{Attention, Denoiser, Distributions, HeadAttention, Needs, Prediction, Query, Scope, ask};
pub use layers::Layers;
pub use propose::{Guard, Proposal, Row, RowAnswer, RowStats, Style};
pub use reuse::{CacheCell, Part, Reuse};
pub use view::{Block, Job, Rows, Slot, StepView};
