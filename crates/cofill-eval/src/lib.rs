//! Tasks put to models: runs, recipes, sweeps and diagnostics.
//!
//! [`run`] asks a model the questions of a task and scores the answers with the judges of [`judges`]. A [`recipe`] names many
//! such runs, and [`sweep`] does them with any number of workers.
//!
//! [`diagnose`] tests what ADAS believes: that attention among masked positions tells what revealing one does to another.

pub mod diagnose;
pub mod judges;
pub mod recipe;
pub mod run;
pub mod sweep;
