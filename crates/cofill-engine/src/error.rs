//! Every way an engine says no. The words name the fact and the remedy; a command adds its flags.

use cofill::TokenId;
use std::path::PathBuf;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an engine cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint, or computing with it.
    #[error(transparent)]
    Model(#[from] cofill_model::Error),
    /// The decode.
    #[error(transparent)]
    Decode(#[from] cofill::Error),
    /// The language that the text is held to.
    #[error(transparent)]
    Language(#[from] cofill_grammar::Error),
    /// A model that should be fetched.
    #[error(transparent)]
    Hub(#[from] cofill_hub::Error),
    /// There is no such model.
    #[error("unknown model `{name}`{}; give {}", cofill::did_you_mean(name, crate::known_names()), crate::MODEL_NAMES)]
    UnknownModel {
        /// As it was named.
        name: String,
    },
    /// A name of the hub, whose model is not on this machine.
    #[error(
        "`{name}` is neither a folder nor in the Hugging Face cache (`{}`); `cofill pull {name}` fetches it, or give {}", .cache.display(), crate::MODEL_NAMES
    )]
    NotDownloaded {
        /// As it was named.
        name: String,
        /// Where it would be.
        cache: PathBuf,
    },
    /// A name of the hub, of whose model some files are on this machine.
    #[error("`{name}` is only partly in the Hugging Face cache (`{}` lacks `{lacking}`); `cofill pull {name}` completes it", .folder.display())]
    PartlyDownloaded {
        /// As it was named.
        name: String,
        /// Where it is.
        folder: PathBuf,
        /// Files that are not there.
        lacking: String,
    },
    /// `+paths:auto` of a model that nobody calibrated.
    #[error(
        "nobody has chosen how strong `+paths:auto` is for `{name}`; calibrate it (`cofill calibrate`), or write a number in place of `auto`, such as `+paths:100`"
    )]
    NotCalibrated {
        /// The model.
        name: String,
    },
    /// A file of a calibration that cannot be used.
    #[error("the calibration in `{}` {problem}; calibrate again", .path.display())]
    BadCalibration {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Only checkpoints have weights, tokenizers and fingerprints.
    #[error("`{name}` is no checkpoint and knows none of the tasks")]
    NotACheckpoint {
        /// As it was named.
        name: String,
    },
    /// An option that the toy does not have.
    #[error("{option} is for checkpoints; the toy has no {lacks}")]
    NotForTheToy {
        /// The option's name.
        option: &'static str,
        /// What the toy would need for it.
        lacks: &'static str,
    },
    /// A word that the toy does not know.
    #[error("the toy does not know the word `{word}`; it knows {known}")]
    UnknownWord {
        /// The word.
        word: String,
        /// Those it knows.
        known: String,
    },
    /// Text was given or is wanted, and there is no tokenizer that can be used.
    #[error("{problem}")]
    NoTokenizer {
        /// What is wrong with it.
        problem: String,
    },
    /// Only a tokenizer knows the beginning of text, and there is none that can be used.
    #[error("the beginning of text is not known without a tokenizer: {problem}")]
    BosWithoutTokenizer {
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer names no beginning of text.
    #[error("`{}` names no `bos_token`", .names.display())]
    NoBos {
        /// The file that would name it.
        names: PathBuf,
    },
    /// The canvas is longer than the model's context.
    #[error("the canvas has {length} positions, but `{name}` holds {most}; shorten it")]
    TooLong {
        /// Positions of the canvas.
        length: usize,
        /// The model.
        name: String,
        /// Positions it can hold.
        most: usize,
    },
    /// A prompt holds the mask, which would be filled like any other.
    #[error("the prompt contains {mask_id}, which is the mask; give the whole canvas as tokens")]
    MaskInPrompt {
        /// The mask.
        mask_id: TokenId,
    },
    /// A text holds the mask, which would be filled like any gap.
    #[error("the text contains `{mask}`, which is the model's own mask and would be filled; take it out")]
    MaskInText {
        /// As the tokenizer writes it.
        mask: String,
    },
    /// Gaps that were not filled to the end.
    #[error("masks are left: {masks}; fill them before the text is used")]
    StillOpen {
        /// How many.
        masks: usize,
    },
    /// `[MASK:` without a number of positions.
    #[error("`{gap}` is not a gap; write [MASK:4] for four positions, 1 to 65535, or [MASK:auto]")]
    BadGap {
        /// What was written.
        gap: String,
    },
    /// A text with gaps that has none.
    #[error("the template has no gap; write [MASK:4] where four positions are to be filled")]
    NoGap,
    /// A gap whose length takes forwards to find, where none may be spent.
    #[error(
        "the length of [MASK:auto] is found by forwards of a model, which are not spent here; give a number, such as [MASK:4]"
    )]
    OpenGap,
    /// An answer that would never end.
    #[error("length must be a number for `{name}`, which {why}; give one in place of `auto`")]
    Endless {
        /// The model.
        name: String,
        /// Why nothing would end it.
        why: &'static str,
    },
    /// Not a token id.
    #[error("`{given}` is not a token id; expected {expected}")]
    NotATokenId {
        /// What was written.
        given: String,
        /// What may be.
        expected: &'static str,
    },
    /// A chat without anything to answer.
    #[error("the chat has no message of the user, and `{name}` has no chat template; add one")]
    NoUserMessage {
        /// The model.
        name: String,
    },
    /// The chat option without a prompt.
    #[error("a chat needs a prompt; give one")]
    ChatWithoutPrompt,
    /// The chat template cannot be used.
    #[error("{problem}")]
    BadTemplate {
        /// What is wrong with it.
        problem: String,
    },
}
