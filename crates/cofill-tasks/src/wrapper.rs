//! From a model's text to the response that is scored: stop strings, and what LLaDA's and Dream's harness wrappers do besides.
//!
//! All of them generate the whole canvas first and cut afterwards. They differ in what becomes of special tokens, and with it in
//! the score, so a result says which one it followed.

use std::fmt;
use std::str::FromStr;

/// Whose post-processing of generated text is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wrapper {
    /// The stop strings alone: the text is taken as it is.
    #[default]
    Plain,
    /// LLaDA's: stop strings are looked for while special tokens are visible, then those are deleted. An end of text ends nothing;
    /// what follows is glued on.
    Llada,
    /// Dream's: the text ends at the first end of text, then come the stop strings. Other special tokens stay.
    Dream,
}

/// The special tokens of a model, as text.
pub trait Specials {
    /// How the end of text is written.
    fn eos(&self) -> Option<&str>;
    /// The text without special tokens: what tokenising it and decoding with `skip_special_tokens` gives.
    fn remove(&self, text: &str) -> Result<String, String>;
}

/// Special tokens given by their texts, the end of text first.
#[derive(Debug, Clone, Default)]
pub struct SpecialTexts(pub Vec<String>);

/// A model's text, in both forms that are scored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Not cut at the stop strings. HumanEval's sanitised score is of this.
    pub uncut: String,
    /// Cut at the stop strings: what the harness calls the response.
    pub response: String,
}

/// Why a text cannot be post-processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no wrapper of this name.
    #[error("unknown wrapper `{given}`; expected one of `plain`, `llada`, `dream`")]
    Unknown {
        /// The name, as given.
        given: String,
    },
    /// Dream's wrapper cuts at the end-of-text token, and the model has none.
    #[error("the wrapper `dream` cuts at the end-of-text token, and none is known; name its text")]
    NoEos,
    /// The tokenizer cannot remove special tokens.
    #[error("special tokens cannot be removed: {0}")]
    Specials(String),
}

impl Wrapper {
    /// Every wrapper, the default first.
    pub const ALL: [Wrapper; 3] = [Wrapper::Plain, Wrapper::Llada, Wrapper::Dream];

    /// Whether its prompts begin with the beginning-of-text token, as Dream's scripts do.
    pub fn begins_with_bos(self) -> bool {
        self == Wrapper::Dream
    }

    /// Its name, as users write it and results show it.
    pub fn name(self) -> &'static str {
        match self {
            Wrapper::Plain => "plain",
            Wrapper::Llada => "llada",
            Wrapper::Dream => "dream",
        }
    }

    /// What is scored of `raw`, which is everything that was generated, special tokens included.
    pub fn reply(self, raw: &str, until: &[&str], specials: &dyn Specials) -> Result<Reply, Error> {
        Ok(match self {
            Wrapper::Plain => Reply::plain(raw, until),
            Wrapper::Llada => {
                let clean = |text: &str| specials.remove(text).map_err(Error::Specials);
                Reply { uncut: clean(raw)?, response: clean(cut(raw, until))? }
            }
            Wrapper::Dream => {
                let eos = specials.eos().filter(|eos| !eos.is_empty()).ok_or(Error::NoEos)?;
                Reply::plain(cut(raw, &[eos]), until)
            }
        })
    }
}

impl Reply {
    /// The text as it is, and the text up to its stop strings.
    pub fn plain(raw: &str, until: &[&str]) -> Reply {
        Reply { uncut: raw.into(), response: cut(raw, until).into() }
    }
}

/// The text before the stop strings: before the first of the first one, of that before the first of the second, and so on. Where
/// stop strings overlap this is not the earliest of them all.
pub fn cut<'t>(text: &'t str, until: &[&str]) -> &'t str {
    until.iter().fold(text, |text, stop| text.split_once(stop).map_or(text, |(before, _)| before))
}

impl Specials for SpecialTexts {
    fn eos(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    fn remove(&self, text: &str) -> Result<String, String> {
        let mut kept = String::with_capacity(text.len());
        let mut rest = text;
        // In one pass and the longest first, as a tokenizer finds them: what a deletion brings together is no token.
        while let Some(next) = rest.chars().next() {
            let starts = |special: &&String| !special.is_empty() && rest.starts_with(special.as_str());
            match self.0.iter().filter(starts).map(String::len).max() {
                Some(len) => rest = &rest[len..],
                None => {
                    kept.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        Ok(kept)
    }
}

impl fmt::Display for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wrapper {
    type Err = Error;

    fn from_str(given: &str) -> Result<Wrapper, Error> {
        let found = Wrapper::ALL.into_iter().find(|wrapper| wrapper.name() == given);
        found.ok_or_else(|| Error::Unknown { given: given.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_looked_for_one_after_the_other() {
        assert_eq!(cut("one two three", &["two", "one"]), "");
        // `bc` is found first because it is asked for first, and takes the `c` that `cd` needs.
        assert_eq!(cut("abcd", &["bc", "cd"]), "a");
        assert_eq!(cut("abcd", &["cd", "bc"]), "ab");
        assert_eq!(cut("", &["x"]), "");
        assert_eq!(cut("a\r\ndef f", &["\ndef"]), "a\r");
        assert_eq!(cut("no stop ", &["x"]), "no stop ");
    }

    fn reply(wrapper: Wrapper, raw: &str) -> (String, String) {
        let specials = SpecialTexts(vec!["<eos>".into(), "<pad>".into()]);
        let Reply { uncut, response } = wrapper.reply(raw, &["STOP", "</s>"], &specials).unwrap();
        (uncut, response)
    }

    #[test]
    fn the_wrappers_differ_in_what_an_end_of_text_does() {
        let raw = "a<eos>b<pad>cSTOPd<eos>e";
        assert_eq!(reply(Wrapper::Plain, raw), (raw.into(), "a<eos>b<pad>c".into()));
        assert_eq!(reply(Wrapper::Llada, raw), ("abcSTOPde".into(), "abc".into()));
        assert_eq!(reply(Wrapper::Dream, raw), ("a".into(), "a".into()));
        assert_eq!(reply(Wrapper::Dream, "a<pad>STOPb<eos>c"), ("a<pad>STOPb".into(), "a<pad>".into()));
        // A stop that only shows when specials are gone is none; neither is a special that only shows then.
        assert_eq!(reply(Wrapper::Llada, "aST<pad>OPb").1, "aSTOPb");
        assert_eq!(reply(Wrapper::Llada, "<e<pad>os>").1, "<eos>");
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        assert_eq!(Wrapper::Dream.reply("a", &[], &SpecialTexts::default()), Err(Error::NoEos));
        assert!("lada".parse::<Wrapper>().unwrap_err().to_string().contains("`lada`"));
        assert_eq!("dream".parse(), Ok(Wrapper::Dream));
    }
}
