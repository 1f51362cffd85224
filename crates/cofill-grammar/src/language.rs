//! What texts are valid.

use crate::dfa::Dfa;
use crate::nfa::Expr;
use crate::work::Work;
use crate::{Error, Result, regex};
use std::sync::Arc;

/// A regular language: texts, as bytes, that are valid as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    pub(crate) dfa: Arc<Dfa>,
}

impl Language {
    /// Texts that this expression matches from beginning to end, in the syntax of the `regex` crate. What looks around or back is refused.
    pub fn regex(pattern: &str) -> Result<Language> {
        Ok(Language { dfa: Arc::new(regex::language(pattern, &Work::new())?) })
    }

    /// Exactly these texts.
    pub fn choices<S: AsRef<str>>(choices: &[S]) -> Result<Language> {
        if choices.is_empty() {
            return Err(Error::NoChoices);
        }
        Language::of(&Expr::Alt(choices.iter().map(|choice| Expr::text(choice.as_ref())).collect()))
    }

    /// The same texts after these bytes, for models whose first token is written with a space before it.
    pub fn prefixed(&self, prefix: &[u8]) -> Result<Language> {
        Language::of(&Expr::Concat(vec![Expr::Bytes(prefix.to_vec()), Expr::Dfa(self.dfa.clone())]))
    }

    /// Whether this whole text is valid.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.dfa.matches(text)
    }

    pub(crate) fn of(expr: &Expr) -> Result<Language> {
        Ok(Language { dfa: Arc::new(expr.dfa(&Work::new())?) })
    }
}
