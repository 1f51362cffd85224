//! Tasks whose answers a program can check, for scoring models and samplers.
//!
//! A task gives prompts and judges answers. It knows no model, no tokenizer and no file: text in, verdict out.

pub mod run;
pub mod tasks;
