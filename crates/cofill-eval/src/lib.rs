//! Tasks whose answers a program can check, for scoring models and samplers.
//!
//! A task gives prompts and judges answers. It knows no model and no tokenizer: text in, verdict out. Benchmark files are opened in
//! [`data`], files of results in [`results`], folders of sweeps in [`sweep`], and whatever else is written in [`output`]; formulas and programs are handed to judges ([`judge`]).
//!
//! Results of many samplers become operating points ([`points`]), which are compared at equal cost ([`matched`], [`paired`], [`mod@aup`],
//! [`pareto`]) and printed ([`report`], [`plot`]).
//!
//! [`diagnose`] tests what ADAS believes: that attention among masked positions tells what revealing one does to another.

pub mod aup;
pub mod bootstrap;
pub mod data;
pub mod diagnose;
pub mod judge;
pub mod kl;
mod lock;
pub mod matched;
pub mod math;
pub mod mt19937;
pub mod output;
pub mod paired;
pub mod pareto;
pub mod plot;
pub mod points;
mod pystr;
pub mod recipe;
pub mod report;
pub mod results;
pub mod run;
pub mod sandbox;
pub mod spearman;
pub mod sweep;
pub mod tasks;
pub mod wrapper;
