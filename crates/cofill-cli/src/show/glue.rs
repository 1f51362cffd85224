//! Characters whose bytes are in several tokens: each token alone is no text, and together they are.

use cofill::TokenId;
use cofill_engine::{Reader, Specials};
use std::collections::HashMap;

/// The most tokens of one character: a byte each, and its neighbours' bytes beside them.
const MOST: usize = 8;

/// Reads tokens together, each sequence once.
pub(super) struct Glue {
    reader: Reader,
    known: HashMap<Vec<TokenId>, Option<String>>,
}

impl Glue {
    pub(super) fn new(reader: Reader) -> Glue {
        Glue { reader, known: HashMap::new() }
    }

    /// How many of the first tokens make whole characters, and which; `None` if those that are there do not.
    pub(super) fn first(&mut self, tokens: &[TokenId]) -> Option<(usize, String)> {
        (2..=tokens.len().min(MOST)).find_map(|n| Some((n, self.read(&tokens[..n])?)))
    }

    fn read(&mut self, tokens: &[TokenId]) -> Option<String> {
        if let Some(known) = self.known.get(tokens) {
            return known.clone();
        }
        let text = self.reader.text(tokens, Specials::Shown).ok().filter(|text| !is_broken(text));
        self.known.insert(tokens.to_vec(), text.clone());
        text
    }
}

/// Whether a text has bytes that are no character.
pub(super) fn is_broken(text: &str) -> bool {
    text.contains('\u{fffd}')
}
