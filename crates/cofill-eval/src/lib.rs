//! Tasks put to models: runs, recipes, sweeps and diagnostics.
//!
//! An [`EvalSpec`](spec::EvalSpec) is everything one score can be told. [`open`] opens its task and decides its defaults, [`run`] asks a
//! model the questions and scores the answers with the judges of [`judges`]. Tasks of the user's own are in [`infill`] and [`own`]. A [`recipe`] names many such scores, and [`sweep`]
//! makes them with any number of workers.
//!
//! [`tune`] finds the best sampler within a budget, and says whether it is better than the default.
//!
//! [`diagnose`] tests what ADAS believes: that attention among masked positions tells what revealing one does to another.

pub mod command;
pub mod diagnose;
pub mod fetch_data;
pub mod idle;
pub mod infill;
pub mod judges;
pub mod open;
pub mod own;
pub mod recipe;
pub mod run;
pub mod spec;
pub mod sweep;
pub mod tune;
