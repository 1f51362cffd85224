//! The numbers that a report and the diagnostics rest on. Nothing here reads a file or prints.
//!
//! Comparing samplers: [`matched`] gains at equal cost, [`paired`] tests question by question, [`mod@aup`] (accuracy under parallelism) and
//! [`pareto`] fronts, [`mod@versus`] one variant against another, [`budget`]
//! who is best in so many forwards, [`mod@difference`] of two samplers on prompts where nobody was chosen. General: [`bootstrap`] resampling, [`spearman`] rank correlation, [`mod@auc`] of a
//! number that should tell two kinds apart, [`kl`] divergence.

pub mod auc;
pub mod aup;
pub mod bootstrap;
pub mod budget;
pub mod difference;
pub mod kl;
pub mod matched;
pub mod paired;
pub mod pareto;
pub mod spearman;
pub mod versus;
