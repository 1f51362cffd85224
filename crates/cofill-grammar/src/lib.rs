//! Texts that are valid by construction.

mod automaton;
mod dfa;
mod error;
mod fillings;
mod grammar;
mod language;
mod minimise;
mod nfa;
mod regex;
mod schema;

pub use automaton::{TokenAutomaton, Vocabulary};
pub use error::{Error, Result};
pub use grammar::Grammar;
pub use language::Language;
