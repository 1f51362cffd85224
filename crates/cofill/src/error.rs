//! Every error of this crate. Each variant is one way an input can be wrong, and has a test.

use crate::TokenId;

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the field, the limit, the given value and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- the text form of a sampler (language)
    /// No sampler has this name.
    #[error("unknown sampler `{name}`{}; expected one of {accepted}", .meant.as_ref().map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default())]
    UnknownSampler {
        /// The text that was given.
        name: String,
        /// What was probably meant, if a name is near: the same text with that name, or how that sampler is written.
        meant: Option<String>,
        /// The forms that exist.
        accepted: String,
    },
    /// A parameter or option is not a number, or text follows it.
    #[error("`{text}` is not {what}; expected the form `{form}`")]
    NotANumber {
        /// The text that should be a number.
        text: String,
        /// What should stand there.
        what: String,
        /// The form of the sampler.
        form: String,
    },
    /// A number lies outside what the sampler accepts.
    #[error("{what} must be {limit}, but {given} was given; expected the form `{form}`")]
    OutOfRange {
        /// The name of the parameter.
        what: String,
        /// The range it must lie in.
        limit: String,
        /// The number that was given.
        given: String,
        /// The form of the sampler.
        form: String,
    },
    /// Too few or too many parameters.
    #[error("`{name}` takes {want}, but {got} were given; expected the form `{form}`")]
    ParameterCount {
        /// The name of the sampler.
        name: String,
        /// How many it takes.
        want: String,
        /// How many were given.
        got: usize,
        /// The form of the sampler.
        form: String,
    },
    /// An `@option` that the sampler does not have, or has twice.
    #[error("`{name}` {problem} `@{option}`; accepted options: {accepted}")]
    Option {
        /// The sampler, or `+ad`.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
        /// The option that was given.
        option: String,
        /// The options that exist.
        accepted: String,
    },
    /// `+ad` on a sampler that has no ranking to discount.
    #[error("`{name}` has no ranking, so `+ad` cannot discount it; `+ad` goes with {accepted}")]
    NotDiscountable {
        /// The name of the sampler.
        name: String,
        /// The samplers that take `+ad`.
        accepted: String,
    },
    /// The strength of a discount is still to be chosen.
    #[error(
        "the strength of `+{discount}` has not been chosen for this model; calibrate it first, or write a number in place of `auto`"
    )]
    NoStrength {
        /// The discount as it is written.
        discount: String,
    },
    /// Something follows `+` that is no discount.
    #[error(
        "unknown suffix `+{suffix}`; there are `+ad[:ALPHA][@layer=..][@weight=..][@paths][@doubt][@veto]` and `+paths[:ALPHA]`"
    )]
    UnknownSuffix {
        /// The text behind the plus.
        suffix: String,
    },
    /// A text that is no sampler, whatever names there may be.
    #[error("`{text}` is not written as a sampler is: {problem}; expected the form `name:NUMBER,..@option+ad:ALPHA`")]
    BadForm {
        /// The text that was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A sampler that cannot be added to a registry.
    #[error("the sampler `{name}` cannot be added: {problem}")]
    BadEntry {
        /// What it is called.
        name: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// Two parts of one sampler want attention from different layers.
    #[error("one sampler needs attention from two sources ({0} and {1}); a forward pass provides one")]
    TwoAttentionSources(String, String),

    // ---- one step's numbers (view.rs, denoiser.rs)
    /// There is nothing to choose from.
    #[error("there are no candidates; give at least one masked position")]
    NoCandidates,
    /// Two things that must have the same length do not.
    #[error("`{what}` has {got} entries, but {want} were expected ({because})")]
    Length {
        /// The field with the wrong length.
        what: &'static str,
        /// How many entries it must have.
        want: usize,
        /// How many entries it has.
        got: usize,
        /// Where the expectation comes from.
        because: &'static str,
    },
    /// A matrix row has the wrong length.
    #[error("`attention` must be square: row {row} has {got} entries, but there are {want} rows")]
    NotSquare {
        /// The number of the row, from 0.
        row: usize,
        /// The number of rows.
        want: usize,
        /// How many entries the row has.
        got: usize,
    },
    /// An entry of the attention matrix that is no probability.
    #[error("`attention[{query}][{key}]` is {value}, but must be a probability, 0 to 1")]
    BadAttention {
        /// The row of the entry, from 0.
        query: usize,
        /// The column of the entry, from 0.
        key: usize,
        /// What stands there.
        value: f64,
    },
    /// NaN or infinity, which no sampler may rank.
    #[error("`{what}[{index}]` is {value}; every value must be a finite number")]
    NotFinite {
        /// The field that holds the value.
        what: &'static str,
        /// Its first bad index.
        index: usize,
        /// The value that is not finite.
        value: f64,
    },
    /// A finite value outside its range.
    #[error("`{what}[{index}]` is {value}, but must be {limit}")]
    BadValue {
        /// The field that holds the value.
        what: &'static str,
        /// Its first bad index.
        index: usize,
        /// The value that is out of range.
        value: f64,
        /// The range it must lie in.
        limit: &'static str,
    },
    /// The sampler needs something the step does not have.
    #[error("this sampler needs `{what}`, which the step does not have; provide it")]
    Missing {
        /// The field that is missing.
        what: &'static str,
    },
    /// The sampler looks at more than the one step that is given.
    #[error("this sampler needs {what}, and one step has none; run a whole decode with it (`cofill generate`)")]
    NeedsDecode {
        /// What else it looks at.
        what: &'static str,
    },
    /// Candidates that are no set of positions.
    #[error("`candidates` must ascend and stay below {below}, the number of confidences, but {given:?} was given")]
    BadCandidates {
        /// The number of positions.
        below: usize,
        /// The candidates that were given.
        given: Vec<usize>,
    },
    /// A row of logits that has no probability mass to give.
    #[error("no token can be proposed at position {position}: every logit but the mask's is -inf")]
    NothingToPropose {
        /// The canvas position that has no proposal.
        position: usize,
    },

    // ---- decoding (canvas.rs, decode.rs)
    /// A denoiser proposed the mask itself.
    #[error("the mask id {mask_id} was proposed for position {position}; a denoiser must skip it")]
    MaskProposed {
        /// The canvas position it was proposed for.
        position: usize,
        /// The id of the mask.
        mask_id: TokenId,
    },
    /// A position was to be committed twice.
    #[error("position {position} was already committed (token {token}); a commit is final")]
    AlreadyCommitted {
        /// The canvas position to be committed again.
        position: usize,
        /// The token that stands there.
        token: TokenId,
    },
    /// A sampler named a position outside the canvas, or one of the prompt.
    #[error("position {position} is not free to change; only initially masked positions are")]
    NotFree {
        /// The canvas position that was named.
        position: usize,
    },
    /// A sampler, ranking or rule that does not do what its trait says.
    #[error("the {who} breaks its contract: {problem}")]
    Contract {
        /// Whose fault it is.
        who: &'static str,
        /// What it does that its trait forbids.
        problem: String,
    },
    /// A sampler returned an empty set where it had to make progress.
    #[error("the sampler committed nothing in step {step}; it must commit, wait or reveal")]
    NothingSelected {
        /// The number of the step, from 0.
        step: usize,
    },
    /// A sampler used more forwards than it had said it would need.
    #[error("{masks} masks remain after {nfe} forwards, all this sampler may take; it does not end")]
    Stalled {
        /// Masks that are left.
        masks: usize,
        /// Forwards that were made.
        nfe: usize,
    },
    /// A fixed step budget that does not divide over the blocks.
    #[error("{steps} steps cannot be split over {blocks} blocks; make steps a multiple of {blocks}")]
    StepsPerBlock {
        /// The number of steps that was asked for.
        steps: usize,
        /// The number of blocks.
        blocks: usize,
    },
    /// A sampler whose schedule knows no blocks.
    #[error("`{sampler}` plans over the whole canvas and cannot decode in {blocks} blocks; decode without blocks")]
    NoBlocks {
        /// The name of the sampler.
        sampler: &'static str,
        /// The number of blocks.
        blocks: usize,
    },
    /// A cache where its answers would not be those of the sequence.
    #[error("the cache `{cache}` cannot be right here: {why}, or turn the cache off")]
    NoCache {
        /// The cache as it is written.
        cache: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// Blocks of no positions.
    #[error("block length must be at least 1, but 0 was given")]
    EmptyBlock,
    /// `absorb` without a `query`.
    #[error("a prediction was absorbed, but the decode is finished and had asked for none")]
    NothingAsked,
    /// A setting that cannot be used.
    #[error("{what} must be {limit}, but {given} was given")]
    BadSetting {
        /// The setting, by its name.
        what: &'static str,
        /// The range it must lie in.
        limit: String,
        /// The value that was given.
        given: String,
    },
    /// A token id the model does not have.
    #[error("token {token} at position {position} is outside the vocabulary (0 to {last})")]
    UnknownToken {
        /// The token id that was given.
        token: TokenId,
        /// The canvas position where it stands.
        position: usize,
        /// The largest id of the vocabulary.
        last: TokenId,
    },
    /// A sampler that asks a companion of a denoiser that has none.
    #[error(
        "the sampler asks an autoregressive companion, and none was given; name one that has the model's vocabulary"
    )]
    NoCompanion,
    /// A layer the model does not have.
    #[error("layer {layer} was asked for, but the model has layers 0 to {last}")]
    NoSuchLayer {
        /// The layer that was asked for, from 0.
        layer: usize,
        /// The number of the last layer.
        last: usize,
    },

    // ---- traces (trace.rs)
    /// A trace file that cannot be read.
    #[error("trace line {line}: {problem}")]
    Trace {
        /// The line of the file, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },

    // ---- what others do
    /// The model could not answer; the source says why.
    #[error("the model failed")]
    Denoiser(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No text of the language fits the canvas, or the language could not be kept to; the source says why.
    #[error("the text cannot be kept in its language")]
    Constraint(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A sampler from elsewhere could not decide; the source says why.
    #[error("the sampler failed")]
    Sampler(#[source] Box<dyn std::error::Error + Send + Sync>),
}
