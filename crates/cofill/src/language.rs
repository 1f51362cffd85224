//! The sampler language: one text form for every sampler, and what is known of those that have a name.

pub mod spec;
