//! Results of samplers, compared at equal cost.
//!
//! Runs write files of results ([`results`]); whatever is written where a user pointed goes through [`output`]. Results of many
//! samplers become operating points ([`points`]), which are compared at equal cost ([`matched`], [`paired`], [`mod@aup`], [`pareto`])
//! and printed ([`report`], [`plot`]). [`bootstrap`], [`spearman`] and [`kl`] are the statistics that all of this rests on.

pub mod aup;
pub mod bootstrap;
pub mod kl;
mod lock;
pub mod matched;
pub mod output;
pub mod paired;
pub mod pareto;
pub mod plot;
pub mod points;
pub mod report;
pub mod results;
pub mod spearman;
