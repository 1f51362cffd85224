//! Texts that are valid by construction: JSON Schema, regular expressions and choices, for models that write in any order.
//!
//! A left-to-right decoder forbids, at every token, what could not be continued. A masked diffusion model fills positions in any order and
//! several at once, and tokens that are each allowed can be wrong together. So a constraint here looks at the whole: of all fillings of
//! all masks that are valid, it finds the most probable one, and proposes that. *Any subset of a valid filling can be completed, by the rest of it*: whatever a
//! sampler commits, in whatever order, the text ends up in the language.
//!
//! | step | what | where |
//! |---|---|---|
//! | [`Language`] | a schema, an expression or choices as a minimal automaton of bytes | `schema.rs`, `regex.rs`, `nfa.rs`, `minimise.rs` |
//! | [`TokenAutomaton`] | the same over the tokens of a [`Vocabulary`]; tokens that it cannot tell apart are one class, a few hundred of 150,000 | `automaton.rs` |
//! | [`Grammar`] | that language for spans of a canvas: a [`cofill::Constraint`] for the decode loop | `grammar.rs` |
//! | per step | max-product for the filling, sum-product for exact marginals; above temperature 0, an exact draw | `fillings.rs` |
//!
//! The marginals given validity take the place of confidence and entropy. A position that the language decides has confidence 1 and entropy
//! 0, so samplers commit it at once: brackets and keys cost no forward of their own.
//!
//! ```
//! use cofill::{ClassStats, ClassTable, Constraint, ConstraintView, Proposal, RowStats};
//! use cofill_grammar::{Grammar, Language, TokenAutomaton, Vocabulary};
//! use std::sync::Arc;
//!
//! // Six tokens: four texts, an end, the mask.
//! let text = |text: &str| Some(text.as_bytes().to_vec());
//! let vocabulary = Vocabulary { bytes: vec![text("ye"), text("n"), text("s"), text("o"), None, None], ends: vec![4] };
//! let mask = 5;
//!
//! let language = Language::choices(&["yes", "no"])?;
//! let automaton = Arc::new(TokenAutomaton::new(&language, &vocabulary)?);
//! assert_eq!(automaton.shortest(), 2);
//! let canvas = [mask, mask, mask];
//! let mut grammar = Grammar::new(automaton, vec![0..3], &canvas, mask)?;
//!
//! // A model that likes "ye" best at the first position and, even more, "o" at the second: each allowed, and wrong together.
//! let probabilities = [[0.5, 0.4, 0.0, 0.1, 0.0, 0.0], [0.1, 0.0, 0.3, 0.6, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2, 0.0]];
//! let classes = grammar.classes().clone(); // here, every token is a class of its own
//! let row = |p: &[f64; 6]| -> Vec<ClassStats> {
//!     let mut row = vec![ClassStats::none(); classes.len()];
//!     for token in 0..6u32 {
//!         if let Some(class) = classes.of(token) {
//!             let log = p[token as usize].ln();
//!             row[class] = ClassStats { token, log_probability: log, log_mass: log, log_tempered_mass: log, entropy: 0.0 };
//!         }
//!     }
//!     row
//! };
//! let table = ClassTable::new(classes.len(), probabilities.iter().flat_map(row).collect())?;
//! let (rows, proposal) = ([0, 1, 2], Proposal::greedy());
//! let mut stats = [RowStats::new(0, 0.0); 3];
//! grammar.constrain(&ConstraintView::new(&canvas, mask, &rows, &table, &proposal, 0), &mut stats)?;
//!
//! // "n" and "o": .4 x .6 beats .5 x .3. Then nothing but the end is left.
//! assert_eq!(stats.map(|s| s.token), [1, 3, 4]);
//! assert!((stats[0].confidence - 0.24 / (0.24 + 0.15)).abs() < 1e-12);
//! assert_eq!((stats[2].confidence, stats[2].entropy), (1.0, 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed, and what is not
//!
//! If [`Grammar::new`] accepts a canvas, every text that a decode ends with is in the language. It need not be the model's best one: positions are
//! taken to be independent, as they are in one forward; committing fewer at a time makes better texts. A span whose text is shorter ends with
//! end tokens; without any in the vocabulary, a text has to fill its span exactly.
//!
//! # Limits
//!
//! A language has at most 20,000 states; what would need more is refused within a second or so, and within bounded memory. Lengths that are
//! counted (`maxLength`, `maxItems`) take states for every count; lengths without a limit take none. Memory of a step is positions x states.

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
mod work;

pub use automaton::{TokenAutomaton, Vocabulary};
pub use error::{Error, Result};
pub use grammar::Grammar;
pub use language::Language;
