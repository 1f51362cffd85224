//! Whether two LaTeX answers are the same formula, as the harness's MATH scoring sees it.
//!
//! The harness asks sympy: read both answers, subtract, simplify, compare with 0; anything that goes wrong on the way is "no".
//! Here the same is done natively. Reading follows sympy's parser to the letter, because most disagreements would come from
//! there: which prefix of a malformed answer counts, what is a function, what is an error. Simplifying is replaced by exact
//! rationals and by values at fixed points.
//!
//! Work is bounded, because answers come from models: one that would take too long to read or to compare is equal to nothing.
//!
//! ```
//! use cofill_math::is_equiv;
//!
//! assert!(is_equiv(r"\frac{1}{2}", "0.5"));
//! assert!(is_equiv(r"x^2+2x+1", "(x+1)^2"));
//! assert!(is_equiv(r"\sqrt{8}", r"2\sqrt{2}"));
//! assert!(!is_equiv("x+1", "x-1"));
//! // What sympy cannot read is equal to nothing, not even to itself.
//! assert!(!is_equiv(r"\text{east}%", r"\text{east}%"));
//! ```
//!
//! [`Sympy`] puts the same question to sympy itself, in a Python process.

mod calculus;
mod compare;
mod complex;
mod convert;
mod decimals;
mod evaluate;
mod expr;
mod grammar;
mod lexer;
mod matrices;
mod number;
mod parser;
mod predict;
mod stacks;
mod sympy;
#[cfg(test)]
mod tests;
mod wide;

use convert::Reader;
use expr::Expr;
use lexer::Tokens;
pub use sympy::{Sympy, SympyError};

/// Why a comparison ended early. Both mean "not equal"; they are told apart for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Stop {
    /// sympy would not read this.
    #[error("not a formula")]
    Syntax,
    /// More work, depth or digits than an answer takes.
    #[error("too much work")]
    TooMuch,
}

/// How many steps one comparison may still take.
struct Work {
    steps: u64,
}

/// Steps for one comparison: a second or so. The harness stops sympy after five, which gets it less far.
const STEPS: u64 = 5_000_000;

/// The most tokens of an answer.
const TOKENS: usize = 2000;

/// How deep rules of the grammar may nest. Python's stack overflows at about a hundred parentheses, of eight rules each.
const DEPTH: u32 = 850;

impl Work {
    fn spend(&mut self, steps: u64) -> Result<(), Stop> {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop::TooMuch)?;
        Ok(())
    }

    fn nest(&self, depth: u32) -> Result<(), Stop> {
        if depth > DEPTH { Err(Stop::TooMuch) } else { Ok(()) }
    }
}

/// Whether sympy would find two normalised answers equal. Answers it could not read, could not subtract, or that take too much
/// work are not.
pub fn is_equiv(given: &str, gold: &str) -> bool {
    if !matrices::are_closed(given) || !matrices::are_closed(gold) {
        return false;
    }
    let mut work = Work { steps: STEPS };
    let mut compare = || {
        let given = read_within(given, &mut work, 0)?;
        let gold = read_within(gold, &mut work, 0)?;
        compare::equal(&given, &gold, &mut work)
    };
    compare().unwrap_or(false)
}

/// Reads the formula at the beginning of `text`, `depth` levels inside another.
fn read_within(text: &str, work: &mut Work, depth: u32) -> Result<Expr, Stop> {
    // Python's `strip` takes the four ASCII separators for space too.
    let text = text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c));
    work.nest(depth)?;
    let mut tokens = Tokens::new(text, TOKENS);
    let tree = parser::parse(&mut tokens, work)?;
    Reader { tokens: &tokens, work, depth }.math(&tree)
}
