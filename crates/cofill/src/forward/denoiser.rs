//! What a model is to a sampler: something that answers a [`Query`] with a [`Prediction`].
//!
//! A sampler states its [`Needs`] once. The decode loop turns them into queries, and a denoiser computes only what
//! was asked: statistics for the asked rows, attention from the asked layers among the asked rows, and whole
//! distributions only when a sampler cannot do without (512 rows x 126,464 ids are 259 MB a step).

use crate::{ClassTable, Error, Layers, Proposal, Result, Reuse, RowStats, TokenClasses, TokenId};

/// A masked diffusion model, or anything that behaves like one.
///
/// Row `r` of a prediction is *for* position `rows[r]`: a model whose logits are shifted (Dream) undoes the shift
/// before it answers, so no sampler ever sees it.
///
/// ```
/// use cofill::{Canvas, Decode, Denoiser, SamplerSpec, toy::Toy};
/// let mut toy = Toy::phrases(8);
/// let canvas = Canvas::prompt(&[], 8, toy.mask_id());
/// let decode = Decode::new(canvas, "topk:2+ad".parse::<SamplerSpec>()?.build()?)?;
/// let query = decode.query().expect("eight masks are open");
/// let prediction = &toy.denoise(&[query])?[0];
/// assert_eq!(prediction.rows.len(), 8);
/// # Ok::<(), cofill::Error>(())
/// ```
pub trait Denoiser: Send {
    /// The id that marks an open position. It is never proposed.
    fn mask_id(&self) -> TokenId;

    /// How many token ids there are; tokens are `0..vocab()`.
    fn vocab(&self) -> usize;

    /// One forward pass per query, in order. A query's answer must not depend on its neighbours in the batch.
    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>>;

    /// One forward pass of the *companion* per query, in order: an autoregressive model beside this one, of the same vocabulary, whose
    /// row r says what it expects at `rows[r]` after everything that stands before. Refused by a denoiser that has none; [`ask`] calls
    /// it for the queries that say so.
    fn consult(&mut self, _batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        Err(Error::NoCompanion)
    }

    /// The attention of the query's rows toward some positions, every head of every layer by itself; `None` from a denoiser that has
    /// no heads. No sampler asks for it: it is how diagnostics find out which head a sampler should have asked.
    fn by_head(&mut self, _query: &Query<'_>, _toward: &[usize]) -> Result<Option<HeadAttention>> {
        Ok(None)
    }
}

/// Answers queries in their order, each by whom it is for: the model or its companion.
pub fn ask(denoiser: &mut dyn Denoiser, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
    if !batch.iter().any(|query| query.companion) {
        return denoiser.denoise(batch);
    }
    let (companion, model): (Vec<Query<'_>>, Vec<Query<'_>>) = batch.iter().partition(|query| query.companion);
    let model = if model.is_empty() { Vec::new() } else { counted(denoiser.denoise(&model)?, model.len())? };
    let companion = counted(denoiser.consult(&companion)?, companion.len())?;
    let (mut model, mut companion) = (model.into_iter(), companion.into_iter());
    Ok(batch.iter().filter_map(|query| if query.companion { companion.next() } else { model.next() }).collect())
}

/// Refuses answers that are more or fewer than the questions.
fn counted(predictions: Vec<Prediction>, want: usize) -> Result<Vec<Prediction>> {
    match predictions.len() {
        got if got != want => Err(Error::Length { what: "predictions", want, got, because: "one per query" }),
        _ => Ok(predictions),
    }
}

/// One sequence's question to the model.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Query<'a> {
    /// Which decode asks; stable over its life.
    pub sequence: u64,
    /// The canvas, masks included. `[length]`
    pub tokens: &'a [TokenId],
    /// The positions to predict, ascending. `[rows]`
    pub rows: &'a [usize],
    /// The positions that were masked at the start, ascending; all others were given. Guidance hides what was given.
    pub free: &'a [usize],
    /// A given token for each row, whose log-probabilities to return; nobody's if `None`. `[rows]`
    pub targets: Option<&'a [TokenId]>,
    /// Classes of tokens whose statistics to return for every row; no class's if `None`.
    pub classes: Option<&'a TokenClasses>,
    /// Whose attention to return, if any.
    pub attention: Option<Layers>,
    /// Whether to return whole distributions.
    pub distributions: bool,
    /// Whether the model's companion is asked instead of the model; [`ask`] sees to it.
    pub companion: bool,
    /// What may be used again of earlier forwards of the sequence, and what is kept for later ones; `None` to compute everything and keep
    /// nothing.
    pub reuse: Option<Reuse<'a>>,
    /// How to turn logits into a proposed token.
    pub proposal: &'a Proposal,
    /// With the sequence's seed and a position, the key of all noise in this forward.
    pub step: usize,
}

impl<'a> Query<'a> {
    /// What a canvas on its own is asked at first: the statistics of some rows, all of them free.
    pub fn new(tokens: &'a [TokenId], rows: &'a [usize], proposal: &'a Proposal) -> Query<'a> {
        Query {
            sequence: 0,
            tokens,
            rows,
            free: rows,
            targets: None,
            classes: None,
            attention: None,
            distributions: false,
            companion: false,
            reuse: None,
            proposal,
            step: 0,
        }
    }

    /// The same question about another canvas, of which nothing is known that could be reused, and nothing is kept.
    pub fn tokens(mut self, tokens: &'a [TokenId]) -> Query<'a> {
        (self.tokens, self.reuse) = (tokens, None);
        self
    }

    /// The same question about other positions.
    pub fn rows(mut self, rows: &'a [usize]) -> Query<'a> {
        self.rows = rows;
        self
    }

    /// Which positions were masked at the start.
    pub fn free(mut self, free: &'a [usize]) -> Query<'a> {
        self.free = free;
        self
    }

    /// A given token for each row, whose log-probabilities to return.
    pub fn targets(mut self, targets: &'a [TokenId]) -> Query<'a> {
        self.targets = Some(targets);
        self
    }

    /// Classes of tokens whose statistics to return for every row.
    pub fn classes(mut self, classes: impl Into<Option<&'a TokenClasses>>) -> Query<'a> {
        self.classes = classes.into();
        self
    }

    /// Whose attention to return, if any.
    pub fn attention(mut self, layers: impl Into<Option<Layers>>) -> Query<'a> {
        self.attention = layers.into();
        self
    }

    /// Whether to return whole distributions.
    pub fn distributions(mut self, wanted: bool) -> Query<'a> {
        self.distributions = wanted;
        self
    }

    /// Whether the companion is asked instead of the model.
    pub fn companion(mut self, companion: bool) -> Query<'a> {
        self.companion = companion;
        self
    }

    /// What may be used again of earlier forwards, and what is kept for later ones.
    pub fn reuse(mut self, reuse: impl Into<Option<Reuse<'a>>>) -> Query<'a> {
        self.reuse = reuse.into();
        self
    }

    /// The step whose noise the forward uses.
    pub fn step(mut self, step: usize) -> Query<'a> {
        self.step = step;
        self
    }
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Prediction {
    /// One entry per asked row. `[rows]`
    pub rows: Vec<RowStats>,
    /// Attention among the asked rows, mean over query heads, softmax over *all* keys. `[rows x rows]`
    pub attention: Option<Attention>,
    /// Clean softmax probabilities. `[rows x vocab]`
    pub distributions: Option<Distributions>,
    /// ln p of the query's targets, of the full softmax. `[rows]`
    pub log_probabilities: Option<Vec<f64>>,
    /// Statistics of the query's classes. `[rows x classes]`
    pub classes: Option<ClassTable>,
    /// Positions whose keys and values are those of an earlier forward; 0 if everything was computed.
    pub reused: usize,
}

impl Prediction {
    /// Statistics alone, one entry per asked row.
    pub fn new(rows: Vec<RowStats>) -> Prediction {
        Prediction { rows, ..Prediction::default() }
    }

    /// With attention among the asked rows, if it was asked for.
    pub fn attention(mut self, attention: impl Into<Option<Attention>>) -> Prediction {
        self.attention = attention.into();
        self
    }

    /// With the distribution of every asked row, if they were asked for.
    pub fn distributions(mut self, distributions: impl Into<Option<Distributions>>) -> Prediction {
        self.distributions = distributions.into();
        self
    }

    /// With ln p of every target, if there were any.
    pub fn log_probabilities(mut self, log_probabilities: impl Into<Option<Vec<f64>>>) -> Prediction {
        self.log_probabilities = log_probabilities.into();
        self
    }

    /// Of keys and values that are in part those of an earlier forward.
    pub fn reused(mut self, positions: usize) -> Prediction {
        self.reused = positions;
        self
    }

    /// With statistics of classes, if there were any.
    pub fn classes(mut self, classes: impl Into<Option<ClassTable>>) -> Prediction {
        self.classes = classes.into();
        self
    }
}

/// Which positions a prediction must cover. Wider scopes contain narrower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// The masked positions that may be committed now.
    #[default]
    Candidates,
    /// Every masked position, those of later blocks included.
    Masked,
    /// Every position that was masked at the start.
    Free,
    /// The whole sequence, prompt included.
    Canvas,
}

/// What a sampler needs to see. The decode loop asks for exactly this, whatever the sampler.
///
/// ```
/// use cofill::{Layers, Needs, Scope};
/// let needs = Needs::default().scope(Scope::Masked).attention(Layers::Last).distributions();
/// assert!(needs.distributions && !needs.history);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Needs {
    /// The positions it looks at.
    pub scope: Scope,
    /// H of each row. A denoiser always provides it; `cofill select` asks for it only when it is needed.
    pub entropy: bool,
    /// p(1) - p(2) of each row; a denoiser always provides it as well.
    pub margin: bool,
    /// Attention among the rows.
    pub attention: Option<Layers>,
    /// The probabilities of all tokens, for each row.
    pub distributions: bool,
    /// Every step of the decode, in order: it remembers earlier ones.
    pub history: bool,
    /// Forwards beyond one a step, on copies of the canvas with tokens revealed.
    pub reveals: bool,
    /// Forwards of an autoregressive model beside the denoiser.
    pub companion: bool,
}

impl Needs {
    /// It looks at these positions instead of the candidates alone.
    pub fn scope(mut self, scope: Scope) -> Needs {
        self.scope = scope;
        self
    }

    /// It reads the entropy of rows.
    pub fn entropy(mut self) -> Needs {
        self.entropy = true;
        self
    }

    /// It reads the margin of rows.
    pub fn margin(mut self) -> Needs {
        self.margin = true;
        self
    }

    /// It reads the attention of these layers.
    pub fn attention(mut self, layers: Layers) -> Needs {
        self.attention = Some(layers);
        self
    }

    /// It reads whole distributions.
    pub fn distributions(mut self) -> Needs {
        self.distributions = true;
        self
    }

    /// It remembers earlier steps.
    pub fn history(mut self) -> Needs {
        self.history = true;
        self
    }

    /// It sometimes answers [`Verdict::Reveal`](crate::Verdict::Reveal).
    pub fn reveals(mut self) -> Needs {
        self.reveals = true;
        self
    }

    /// It sometimes answers [`Verdict::Consult`](crate::Verdict::Consult).
    pub fn companion(mut self) -> Needs {
        self.companion = true;
        self
    }

    /// What two parts of one sampler need together.
    pub fn and(self, other: Needs) -> Result<Needs> {
        let attention = match (self.attention, other.attention) {
            (Some(a), Some(b)) if a != b => {
                return Err(Error::TwoAttentionSources(a.to_string(), b.to_string()));
            }
            (a, b) => a.or(b),
        };
        Ok(Needs {
            scope: self.scope.max(other.scope),
            entropy: self.entropy || other.entropy,
            margin: self.margin || other.margin,
            attention,
            distributions: self.distributions || other.distributions,
            history: self.history || other.history,
            reveals: self.reveals || other.reveals,
            companion: self.companion || other.companion,
        })
    }
}

/// A\[query, key\] in \[0, 1\]: how much the query attends to the key.
///
/// Stored by key, because ADAS reads one column at a time: everybody's attention *toward* a chosen position.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    n: usize,
    by_key: Vec<f64>, // [key x query]
}

impl Attention {
    /// From a buffer laid out `[key x query]`.
    pub fn from_keys(n: usize, by_key: Vec<f64>) -> Result<Attention> {
        if by_key.len() != n * n {
            return Err(Error::Length {
                what: "attention",
                want: n * n,
                got: by_key.len(),
                because: "one entry per pair of rows",
            });
        }
        Ok(Attention { n, by_key })
    }

    /// Its buffer, `[key x query]`, to be filled again.
    pub fn into_keys(self) -> Vec<f64> {
        self.by_key
    }

    /// From a function of (query, key).
    pub fn from_fn(n: usize, a: impl FnMut(usize, usize) -> f64) -> Attention {
        let mut attention = Attention { n, by_key: Vec::new() };
        attention.refill(n, a);
        attention
    }

    /// Another matrix in the same buffer, from a function of (query, key).
    pub(crate) fn refill(&mut self, n: usize, mut a: impl FnMut(usize, usize) -> f64) {
        self.n = n;
        self.by_key.clear();
        self.by_key.reserve(n * n);
        for key in 0..n {
            self.by_key.extend((0..n).map(|query| a(query, key)));
        }
    }

    pub(crate) fn set(&mut self, query: usize, key: usize, value: f64) {
        self.by_key[key * self.n + query] = value;
    }

    /// From rows as people write them: row = query, column = key.
    pub fn from_rows<R: AsRef<[f64]>>(rows: &[R]) -> Result<Attention> {
        let n = rows.len();
        for (row, r) in rows.iter().enumerate() {
            if r.as_ref().len() != n {
                return Err(Error::NotSquare { row, want: n, got: r.as_ref().len() });
            }
        }
        Ok(Attention::from_fn(n, |query, key| rows[query].as_ref()[key]))
    }

    /// The number of rows, which is the number of columns.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// How much `query` attends to `key`.
    pub fn get(&self, query: usize, key: usize) -> f64 {
        self.by_key[key * self.n + query]
    }

    /// Everybody's attention toward `key`. `[query]`
    pub fn toward(&self, key: usize) -> &[f64] {
        &self.by_key[key * self.n..(key + 1) * self.n]
    }

    /// The sub-matrix of some rows, not renormalised: probabilities stay those over all keys.
    pub fn restrict(&self, rows: &[usize]) -> Attention {
        Attention::from_fn(rows.len(), |query, key| self.get(rows[query], rows[key]))
    }

    /// Every entry is a probability. The tolerance is for head means summed in f32.
    pub(crate) fn check(&self) -> Result<()> {
        const MOST: f64 = 1.0 + 1e-3;
        let fine = |a: f64| (0.0..=MOST).contains(&a);
        // No early exit, so that the common case is one vectorised pass.
        if self.by_key.iter().fold(true, |ok, &a| ok & fine(a)) {
            return Ok(());
        }
        let at = self.by_key.iter().position(|&a| !fine(a)).expect("the pass above found one");
        Err(Error::BadAttention { query: at % self.n, key: at / self.n, value: self.by_key[at] })
    }
}

/// What every head of every layer attends to.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadAttention {
    layers: usize,
    heads: usize,
    rows: usize,
    keys: usize,
    values: Vec<f64>, // [layer x head x key x row]
}

impl HeadAttention {
    /// From a buffer laid out `[layer x head x key x row]`.
    pub fn new(layers: usize, heads: usize, (rows, keys): (usize, usize), values: Vec<f64>) -> Result<HeadAttention> {
        let want = layers * heads * rows * keys;
        match values.len() == want {
            true => Ok(HeadAttention { layers, heads, rows, keys, values }),
            false => {
                let (got, because) = (values.len(), "one entry per layer, head, key and row");
                Err(Error::Length { what: "attention by head", want, got, because })
            }
        }
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// How many heads each of them has.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Everybody's attention toward the `key`-th of the asked positions, as one head sees it. `[rows]`
    pub fn toward(&self, layer: usize, head: usize, key: usize) -> &[f64] {
        let start = ((layer * self.heads + head) * self.keys + key) * self.rows;
        &self.values[start..start + self.rows]
    }
}

/// Probabilities of every token, one row per asked position.
#[derive(Debug, Clone, PartialEq)]
pub struct Distributions {
    vocab: usize,
    probabilities: Vec<f32>, // [rows x vocab]
}

impl Distributions {
    /// From a buffer laid out `[rows x vocab]`.
    pub fn new(vocab: usize, probabilities: Vec<f32>) -> Result<Distributions> {
        if vocab == 0 || !probabilities.len().is_multiple_of(vocab) {
            return Err(Error::Length {
                what: "distributions",
                want: probabilities.len().next_multiple_of(vocab.max(1)),
                got: probabilities.len(),
                because: "whole rows of the vocabulary",
            });
        }
        Ok(Distributions { vocab, probabilities })
    }

    /// How many tokens a row covers.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.probabilities.len() / self.vocab
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.probabilities.is_empty()
    }

    /// p(. | row). `[vocab]`
    pub fn row(&self, row: usize) -> &[f32] {
        &self.probabilities[row * self.vocab..(row + 1) * self.vocab]
    }

    /// Every entry is a probability.
    pub(crate) fn check(&self) -> Result<()> {
        let fine = |p: f32| (0.0..=1.001).contains(&p);
        if self.probabilities.iter().fold(true, |ok, &p| ok & fine(p)) {
            return Ok(());
        }
        let index = self.probabilities.iter().position(|&p| !fine(p)).expect("found above");
        let (what, value) = ("distributions", f64::from(self.probabilities[index]));
        match value.is_finite() {
            false => Err(Error::NotFinite { what, index, value }),
            true => Err(Error::BadValue { what, index, value, limit: "a probability, 0 to 1" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_written_by_row_and_read_by_column() {
        let a = Attention::from_rows(&[[0.0, 0.1], [0.2, 0.3]]).unwrap();
        assert_eq!(a.get(1, 0), 0.2, "row 1 attends to column 0");
        assert_eq!(a.toward(0), [0.0, 0.2], "everybody toward 0");
        assert_eq!(a.restrict(&[1]), Attention::from_rows(&[[0.3]]).unwrap());
    }

    #[test]
    fn heads_are_found_by_layer_head_and_key() {
        // 2 layers x 3 heads x 2 keys x 4 rows, numbered as they lie: (1, 2) is head 5, whose key 1 starts at (5 x 2 + 1) x 4 = 44.
        let a = HeadAttention::new(2, 3, (4, 2), (0..48).map(f64::from).collect()).unwrap();
        assert_eq!(a.toward(1, 2, 1), [44.0, 45.0, 46.0, 47.0]);
        assert_eq!((a.layers(), a.heads(), a.toward(0, 0, 0)[0]), (2, 3, 0.0));
        assert!(matches!(HeadAttention::new(2, 3, (4, 2), vec![0.0]), Err(Error::Length { want: 48, got: 1, .. })));
    }

    #[test]
    fn attention_must_be_square_and_hold_probabilities() {
        let ragged = Attention::from_rows(&[vec![0.0, 0.1], vec![0.2]]);
        assert!(matches!(ragged, Err(Error::NotSquare { row: 1, want: 2, got: 1 })));
        assert!(matches!(Attention::from_keys(2, vec![0.0; 3]), Err(Error::Length { want: 4, got: 3, .. })));
        let with = |bad: f64| Attention::from_rows(&[[0.0, bad], [0.0, 0.0]]).unwrap().check();
        assert!(with(1.0).is_ok());
        for bad in [f64::NAN, -0.1, 1.5] {
            assert!(matches!(with(bad), Err(Error::BadAttention { query: 0, key: 1, .. })), "{bad}");
        }
    }

    #[test]
    fn distributions_are_whole_rows_of_probabilities() {
        assert!(matches!(Distributions::new(3, vec![0.0; 4]), Err(Error::Length { want: 6, got: 4, .. })));
        assert!(Distributions::new(0, vec![]).is_err());
        let bad = Distributions::new(2, vec![0.5, f32::NAN]).unwrap();
        assert!(matches!(bad.check(), Err(Error::NotFinite { what: "distributions", index: 1, .. })));
    }

    #[test]
    fn one_sampler_cannot_need_two_layers() {
        let first = Needs::default().attention(Layers::First);
        let last = Needs::default().attention(Layers::Last).scope(Scope::Free);
        assert!(matches!(first.and(last), Err(Error::TwoAttentionSources(..))));
        let wide = Needs::default().scope(Scope::Canvas);
        assert_eq!(last.and(wide).unwrap().scope, Scope::Canvas);
    }
}
