//! Texts in languages: what is valid, and that the best of it is found.
#![allow(clippy::unwrap_used)] // helpers are not `#[test]`s
#![expect(clippy::single_range_in_vec_init, reason = "one span is meant")]

// Every number against an enumeration of all fillings.
mod brute_force;

// Errors: one test for each variant; expressions that would explode.
mod errors;

// Languages of texts: expressions, choices.
mod languages;

// Limits of numbers: every short text, the ends of wide limits, how many states they cost.
mod numbers;

// JSON Schema: the corpus, what is refused and how, schemas that would explode.
mod schemas;

// What the other modules share.
mod support;
