//! One forward pass: what is asked of a model, what it answers, and what a sampler sees of the answer.

mod denoiser;
mod online;
mod propose;
mod view;

pub use denoiser::{Attention, Denoiser, Distributions, HeadAttention, Layers, Needs, Prediction, Query, Scope};
pub use propose::{Proposal, Row, RowStats, Style};
pub use view::{Block, Job, Rows, Slot, StepView};
