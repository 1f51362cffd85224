//! Each module says what belongs there.

/// Every number against an enumeration of all fillings.
mod brute_force;
/// Errors: one test for each variant.
mod errors;
/// Languages of texts: expressions, choices.
mod languages;
/// JSON Schema: the corpus, what is refused and how, bombs.
mod schemas;
/// What the other modules share.
mod support;
