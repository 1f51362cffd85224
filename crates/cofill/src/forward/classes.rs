//! Tokens by class: what a constraint on the text needs to know of a row of logits.
//!
//! A constraint (a grammar) treats most tokens alike: inside a string, nearly every token leads to the same state. Tokens that lead from
//! every state to the same state are one *class*, so that a row of the vocabulary shrinks to a few hundred numbers, made while its tiles pass.

use crate::{Error, Result, TokenId};

/// Which tokens a constraint cannot tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenClasses {
    of: Vec<u32>,         // [vocab]
    tokens: Vec<TokenId>, // by class, ascending in each
    starts: Vec<usize>,   // [classes + 1] where each class begins in `tokens`
}

impl TokenClasses {
    /// The class of a token that is allowed nowhere.
    pub const NONE: u32 = u32::MAX;

    /// From the class of every token, counted from 0, or [`TokenClasses::NONE`]. `[vocab]`
    pub fn new(of: Vec<u32>) -> TokenClasses {
        let n = of.iter().filter(|&&class| class != TokenClasses::NONE).max().map_or(0, |&class| class as usize + 1);
        let mut starts = vec![0; n + 1];
        let classed = || (0..).zip(&of).filter(|(_, class)| **class != TokenClasses::NONE);
        classed().for_each(|(_, &class)| starts[class as usize + 1] += 1);
        (0..n).for_each(|class| starts[class + 1] += starts[class]);
        let (mut tokens, mut next) = (vec![0; starts[n]], starts.clone());
        for (token, &class) in classed() {
            tokens[next[class as usize]] = token;
            next[class as usize] += 1;
        }
        TokenClasses { of, tokens, starts }
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether no token is allowed anywhere.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens of a class, ascending.
    pub fn tokens(&self, class: usize) -> &[TokenId] {
        &self.tokens[self.starts[class]..self.starts[class + 1]]
    }

    /// The class of every token. `[vocab]`
    pub fn by_token(&self) -> &[u32] {
        &self.of
    }

    /// The class of a token; `None` if it is allowed nowhere.
    pub fn of(&self, token: TokenId) -> Option<usize> {
        self.of.get(token as usize).filter(|&&class| class != TokenClasses::NONE).map(|&class| class as usize)
    }
}

/// What a row of logits says of one class. Probabilities are of the full, clean softmax.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassStats {
    /// The token to write if this class is chosen: the likeliest of the class at temperature 0, else drawn from its tempered softmax.
    pub token: TokenId,
    /// ln p of `token`; -inf where no token of the class has a probability.
    pub log_probability: f64,
    /// ln of the probability of the whole class.
    pub log_mass: f64,
    /// ln Σ e^(l / T) over the class, up to a constant of the row: what a class is drawn by. `log_mass` at temperature 0.
    pub log_tempered_mass: f64,
    /// Entropy of the tokens of the class among themselves, in nats.
    pub entropy: f64,
}

impl ClassStats {
    /// A class none of whose tokens has a probability.
    pub fn none() -> ClassStats {
        let none = f64::NEG_INFINITY;
        ClassStats { token: 0, log_probability: none, log_mass: none, log_tempered_mass: none, entropy: 0.0 }
    }
}

/// Every class of every asked row. `[rows x classes]`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassTable {
    n: usize,
    stats: Vec<ClassStats>,
}

impl ClassTable {
    /// From rows of `n` classes, one after the other.
    pub fn new(n: usize, stats: Vec<ClassStats>) -> Result<ClassTable> {
        if n == 0 || !stats.len().is_multiple_of(n) {
            let (want, got) = (stats.len() / n.max(1) * n, stats.len());
            return Err(Error::Length { what: "classes", want, got, because: "one of every class for every row" });
        }
        Ok(ClassTable { n, stats })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.stats.len() / self.n.max(1)
    }

    /// The classes of a row. `[classes]`
    pub fn row(&self, row: usize) -> &[ClassStats] {
        &self.stats[row * self.n..(row + 1) * self.n]
    }
}
