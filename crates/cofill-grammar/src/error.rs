//! Every error of this crate. Each variant is one way an input can be wrong, and has a test.

use cofill::TokenId;
use std::ops::Range;

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the field, the limit, the given value and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- languages
    /// An expression that is not written as one, or asks for what no automaton can do.
    #[error("the regular expression `{pattern}` cannot be used: {problem}")]
    BadRegex {
        /// The expression, shortened if it is long.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing to choose from.
    #[error("there are no choices; give at least one text")]
    NoChoices,
    /// A schema that says something impossible or malformed.
    #[error("the schema is wrong at `{path}`: {problem}")]
    BadSchema {
        /// Where, as a JSON pointer (`#` is the whole).
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// A keyword that exists, but that no text can be held to here.
    #[error("the keyword `{keyword}` at `{path}` is not supported; leave it out, and check the text for it afterwards")]
    UnsupportedKeyword {
        /// The keyword, or the combination of keywords.
        keyword: String,
        /// The schema that holds it, as a JSON pointer.
        path: String,
    },
    /// An automaton larger than what decoding can carry.
    #[error(
        "the language needs {states} states or more, and {limit} are the limit; make lengths and lists shorter, or leave their limits out: without a limit they cost nothing"
    )]
    TooManyStates {
        /// How many there were when we stopped counting.
        states: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An input that is too large to be looked at.
    #[error("{what}: {given} or more, and {limit} are the limit; ask for something smaller")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there was when we stopped counting.
        given: usize,
        /// How much there may be.
        limit: usize,
    },

    // ---- languages and vocabularies
    /// The vocabulary has no tokens for any text of the language.
    #[error("no text of the language can be written with this vocabulary{}", missing.as_ref().map_or(String::new(), |m| format!(": no token has {m}")))]
    NoText {
        /// Something that the shortest text needs and no token has, if that is the reason.
        missing: Option<String>,
    },
    /// An end token that is no token.
    #[error("the end token {token} is outside the vocabulary (0 to {last})")]
    UnknownEnd {
        /// The token id that was given.
        token: TokenId,
        /// The largest id of the vocabulary.
        last: usize,
    },

    // ---- languages and canvases
    /// Even the shortest text is longer than the room for it.
    #[error(
        "the shortest valid text has {shortest} tokens, but positions {} to {} have room for {window}; make the window longer, at least {shortest} tokens", span.start, span.end
    )]
    Unsatisfiable {
        /// Tokens of the shortest valid text.
        shortest: usize,
        /// Positions there are for it.
        window: usize,
        /// Where.
        span: Range<usize>,
    },
    /// What stands in a span cannot become a valid text.
    #[error("no valid text agrees with the token {token} at position {position}; mask it, or choose another template")]
    Contradiction {
        /// The first position where nothing fits any more.
        position: usize,
        /// The token that stands there.
        token: TokenId,
    },
    /// Every token fits, but no valid text has exactly this length.
    #[error(
        "no valid text fills positions {} to {} exactly; give the vocabulary an end token, or the window another length", span.start, span.end
    )]
    NoFit {
        /// Where.
        span: Range<usize>,
    },
    /// Spans that are no ascending, separate parts of the canvas.
    #[error("the span {} to {} must follow the one before it and lie within the canvas of {length} tokens", span.start, span.end)]
    BadSpan {
        /// The first span that does not.
        span: Range<usize>,
        /// Tokens of the canvas.
        length: usize,
    },
    /// A mask that the vocabulary can write.
    #[error(
        "the mask {mask_id} has a text in the vocabulary; a mask stands for any token and is none: give it no bytes"
    )]
    MaskHasText {
        /// The id of the mask.
        mask_id: TokenId,
    },
}
