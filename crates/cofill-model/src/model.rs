//! A checkpoint as a denoiser: queries in, row statistics and attention out.
//!
//! The tokens that an encoder never proposes lose their logits here ([`Config::never_proposed`]).
//! The shift (Dream's) lives here and nowhere else: the distribution of position i is read from hidden row i − 1. Attention is that of
//! position i itself, as the paper's text has it, unless [`AttentionRow::Source`] is asked for.

use crate::attention::{AttentionQuery, PerHead};
use crate::blocks::{ForwardRequest, Hidden, Pass};
use crate::checkpoint::Checkpoint;
use crate::companion::Companion;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::keys_values::{CacheUse, KeysValues};
use crate::load_options::LoadOptions;
use crate::network::Network;
use crate::pair_head::PairHead;
use crate::timing::Timing;
use cofill::{
    Attention, ClassTable, Denoiser, Distributions, HeadAttention, Layers, Part, Prediction, Query, Row, RowAnswer,
    RowStats, TokenId,
};
use rayon::prelude::*;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// A checkpoint that is loaded and answers queries.
pub struct Model {
    network: Network,
    guidance: f64,
    attention_row: AttentionRow,
    timing: Timing,
    pair_head: Option<PairHead>,
    /// Where it comes from, for messages.
    place: PathBuf,
    companion: Option<Box<Model>>,
    /// Ends what computes, from another thread.
    stop: Option<Arc<AtomicBool>>,
    /// Tells the models of a process apart, so that none uses what another has kept.
    id: u64,
}

/// What a model keeps of a sequence.
struct Kept {
    model: u64,
    keys_values: KeysValues,
}

static MODELS: AtomicU64 = AtomicU64::new(0);

/// Below this width, sequences of a batch are computed at the same time.
const NARROW: usize = 512;

/// Whose attention stands for position i under a shift.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AttentionRow {
    /// That of position i: the paper speaks of positions.
    #[default]
    Position,
    /// That of row i − 1, which predicts position i.
    Source,
}

impl Model {
    /// Loads a folder in Hugging Face layout or a GGUF file with the default options: exactly.
    pub fn load(path: &Path) -> Result<Model> {
        Model::load_as(path, LoadOptions::default())
    }

    /// Loads a folder or a GGUF file with these options.
    pub fn load_as(path: &Path, options: impl Into<LoadOptions>) -> Result<Model> {
        Model::of(&Checkpoint::open(path)?, options)
    }

    /// Loads an open checkpoint with these options.
    pub fn of(checkpoint: &Checkpoint, options: impl Into<LoadOptions>) -> Result<Model> {
        let config = checkpoint.config()?;
        let pair_head = if checkpoint.is_folder() { PairHead::load(checkpoint.path(), config.hidden)? } else { None };
        let model = Model::new(Network::load(config, &checkpoint.weights()?, options)?);
        Ok(Model { pair_head, place: checkpoint.path().into(), ..model })
    }

    /// A network as a denoiser.
    pub fn new(network: impl Into<Network>) -> Model {
        Model {
            network: network.into(),
            guidance: 0.0,
            attention_row: AttentionRow::default(),
            timing: Timing::default(),
            pair_head: None,
            place: PathBuf::from("a model without a checkpoint"),
            companion: None,
            stop: None,
            id: MODELS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// While the flag is set, every forward fails: how another thread ends what computes, between two forwards. `None` forgets it.
    pub fn stop_when(&mut self, flag: Option<Arc<AtomicBool>>) {
        self.stop = flag;
    }

    fn go_on(&self) -> Result<()> {
        match self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// Puts a causal language model beside it, or none, for samplers that ask one. Whether both speak of the same tokens is for
    /// [`Companion::check_vocabulary`] to say.
    pub fn accompany(&mut self, companion: Option<Companion>) {
        self.companion = companion.map(|companion| Box::new(companion.model));
    }

    /// The model beside it, to change how it computes.
    pub fn companion_mut(&mut self) -> Option<&mut Model> {
        self.companion.as_deref_mut()
    }

    /// Where the time went since the last call.
    pub fn take_timing(&mut self) -> Timing {
        std::mem::take(&mut self.timing)
    }

    /// Classifier-free guidance: logits u + (scale + 1)(l − u), where u is what the model says when everything that was given is
    /// masked. Above 0 every forward is two passes over the model, and still one NFE, as LLaDA's code counts.
    pub fn set_guidance(&mut self, scale: f64) -> Result<()> {
        if !(scale.is_finite() && scale >= 0.0) {
            return Err(Error::Guidance { given: scale });
        }
        self.guidance = scale;
        Ok(())
    }

    /// Chooses whose attention stands for a position under a shift.
    pub fn set_attention_row(&mut self, row: AttentionRow) {
        self.attention_row = row;
    }

    /// How many sequences are worth computing at the same time.
    pub fn usual_batch(&self) -> usize {
        if self.config().hidden < NARROW { 16 } else { 1 }
    }

    /// The network inside, which knows no shift and bans no token: its rows are as the weights make them.
    pub fn transformer(&self) -> &Network {
        &self.network
    }

    /// The network, to change how it computes.
    pub fn transformer_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// What the checkpoint's configuration says.
    pub fn config(&self) -> &Config {
        self.network.config()
    }

    /// Logits for some positions, whole rows. `[rows][vocab]`
    pub fn logits(&self, tokens: &[TokenId], rows: &[usize]) -> cofill::Result<Vec<Vec<f32>>> {
        self.check(tokens, rows)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let sources: Vec<usize> = rows.iter().map(|&position| self.source(position)).collect();
        let mut asked = sources.clone();
        asked.dedup();
        let pass = self.network.forward(tokens, &ForwardRequest { rows: &asked, attention: None })?;
        let logits = self.network.whole_logits(&pass.hidden)?;
        let row = |source: &usize| logits[asked.binary_search(source).unwrap_or_default()].clone();
        Ok(sources.iter().map(row).collect())
    }

    /// The hidden row that predicts a position.
    fn source(&self, position: usize) -> usize {
        if self.config().shift { position.saturating_sub(1) } else { position }
    }

    /// Refuses what the weights would answer with nonsense or not at all.
    fn check(&self, tokens: &[TokenId], rows: &[usize]) -> cofill::Result<()> {
        self.check_tokens(tokens)?;
        let Config { shift, mask_id, .. } = *self.config();
        if let Some(&row) = rows.iter().find(|&&row| row >= tokens.len()) {
            let problem = format!("it asks for position {row} of {}", tokens.len());
            return Err(cofill::Error::Contract { who: "caller", problem });
        }
        if shift && tokens.first() == Some(&mask_id) { Err(Error::FirstMasked.into()) } else { Ok(()) }
    }

    /// Refuses canvases that are too long and tokens that do not exist.
    pub(crate) fn check_tokens(&self, tokens: &[TokenId]) -> cofill::Result<()> {
        let Config { context, vocab, .. } = *self.config();
        if tokens.len() > context {
            return Err(Error::TooLong { given: tokens.len(), most: context }.into());
        }
        let last = vocab as TokenId - 1;
        match tokens.iter().position(|&token| token > last) {
            Some(position) => Err(cofill::Error::UnknownToken { token: tokens[position], position, last }),
            None => Ok(()),
        }
    }

    fn answer(&self, query: &Query<'_>) -> cofill::Result<(Prediction, Timing)> {
        self.check(query.tokens, query.rows)?;
        self.check(query.tokens, query.free)?;
        if let Some(targets) = query.targets.filter(|targets| targets.len() != query.rows.len()) {
            let (want, got, because) = (query.rows.len(), targets.len(), "one per asked position");
            return Err(cofill::Error::Length { what: "targets", want, got, because });
        }
        if query.rows.is_empty() {
            return Ok(Default::default());
        }
        // Two positions may share a source (0 and 1 under the shift), so rows are asked for once and looked up.
        let sources: Vec<usize> = query.rows.iter().map(|&position| self.source(position)).collect();
        let mut rows = sources.clone();
        rows.dedup();
        let head = self.head_for(query)?;
        let layers = query.attention.filter(|_| head.is_none());
        let layers = layers.map(|layers| layers.resolve(self.config().layers)).transpose()?;
        let queries = match self.attention_row {
            AttentionRow::Position => query.rows,
            AttentionRow::Source => &sources,
        };
        let probe = |layers| AttentionQuery { layers, queries, keys: query.rows, heads: PerHead::Mean };
        let request = ForwardRequest { rows: &rows, attention: layers.map(probe) };
        let (pass, reused) = self.pass(query, &request)?;
        let attention = match head {
            Some(head) => {
                let hidden = pass.hidden.to_rows()?;
                let of = |source: &usize| &hidden[rows.binary_search(source).unwrap_or_default()];
                Some(head.influence(query.rows, &sources.iter().flat_map(of).copied().collect::<Vec<_>>()))
            }
            None => pass.attention.map(|by_key| Attention::from_keys(query.rows.len(), by_key)).transpose()?,
        };
        let mut timing = pass.timing;
        let unguided = if self.guidance > 0.0 { Some(self.unguided(query, &rows)?) } else { None };
        let begun = Instant::now();
        let hidden = unguided.as_ref().map(|pass| &pass.hidden);
        let answer = self.read(query, &rows, &pass.hidden, hidden)?;
        timing += Timing { head: begun.elapsed(), ..unguided.map_or_else(Timing::default, |pass| pass.timing) };
        Ok((answer.attention(attention).reused(reused), timing))
    }

    /// Whether it can keep keys and values from forward to forward: not under guidance, whose other half knows nothing of them.
    pub fn caches(&self) -> bool {
        self.network.caches() && self.guidance == 0.0
    }

    /// The forward of a query, of a window where it may reuse the rest, and how many positions it did not compute. Whatever stands in the
    /// way of that (nothing is kept, or of another canvas or model, or a row lies outside) means that everything is computed and kept.
    fn pass(&self, query: &Query<'_>, request: &ForwardRequest<'_>) -> Result<(Pass, usize)> {
        let length = query.tokens.len();
        let Some(reuse) = query.reuse.filter(|_| self.caches()) else {
            return Ok((self.network.forward(query.tokens, request)?, 0));
        };
        let kept = reuse.cell.take::<Kept>();
        let kept = kept.filter(|kept| kept.model == self.id && kept.keys_values.length() == length);
        let window = match reuse.part {
            Part::Window { start, end } if kept.is_some() => self.window(start..end, length, request),
            _ => None,
        };
        let mut keys_values = kept.map_or_else(|| self.network.keys_values(length), |kept| kept.keys_values);
        let reused = window.as_ref().map_or(0, |window| length - window.len());
        let pass = self.network.forward_kept(query.tokens, request, CacheUse { kept: &mut keys_values, window })?;
        reuse.cell.put(Kept { model: self.id, keys_values });
        Ok((pass, reused))
    }

    /// The rows to compute for a window of positions. Under the shift the row before it predicts its first position; the row of its last
    /// position predicts nobody in it, and is computed all the same: attention may be read off it, and its token may be new. `None` if that
    /// is everything, or if a row is asked for that lies outside.
    fn window(&self, window: Range<usize>, length: usize, request: &ForwardRequest<'_>) -> Option<Range<usize>> {
        let window = self.source(window.start)..window.end.min(length);
        let probed = request.attention.as_ref().map_or([].as_slice(), |probe| probe.queries);
        let is_inside = request.rows.iter().chain(probed).all(|row| window.contains(row));
        (is_inside && window.len() < length).then_some(window)
    }

    /// The head that predicts who changes whom, if that is asked for.
    fn head_for(&self, query: &Query<'_>) -> Result<Option<&PairHead>> {
        match (query.attention, &self.pair_head) {
            (Some(Layers::Learned), None) => Err(Error::NoPairHead { path: self.place.clone() }),
            (Some(Layers::Learned), head) => Ok(head.as_ref()),
            _ => Ok(None),
        }
    }

    /// One pass that keeps every head of every layer by itself.
    fn heads(&self, query: &Query<'_>, toward: &[usize]) -> cofill::Result<HeadAttention> {
        self.check(query.tokens, query.rows)?;
        self.check(query.tokens, toward)?;
        let sources: Vec<usize> = query.rows.iter().map(|&position| self.source(position)).collect();
        let queries = match self.attention_row {
            AttentionRow::Position => query.rows,
            AttentionRow::Source => &sources,
        };
        let Config { layers, heads, .. } = *self.config();
        // Under the shift two positions may share a source; the probe then has two queries that are the same row.
        let probe = AttentionQuery { layers: 0..layers, queries, keys: toward, heads: PerHead::Apart };
        let pass = self.network.forward(query.tokens, &ForwardRequest { rows: query.rows, attention: Some(probe) })?;
        let (rows, keys) = (query.rows.len(), toward.len());
        HeadAttention::new(layers, heads, (rows, keys), pass.attention.unwrap_or_default())
    }

    /// The pass in which everything that was given is masked.
    fn unguided(&self, query: &Query<'_>, rows: &[usize]) -> Result<Pass> {
        let mut tokens = vec![self.config().mask_id; query.tokens.len()];
        for &position in query.free {
            tokens[position] = query.tokens[position];
        }
        self.network.forward(&tokens, &ForwardRequest { rows, attention: None })
    }

    /// Row statistics, and what else is asked of logits, from tiles of them; whole rows only when distributions are asked for.
    fn read(
        &self,
        query: &Query<'_>,
        sources: &[usize],
        hidden: &Hidden,
        unguided: Option<&Hidden>,
    ) -> cofill::Result<Prediction> {
        let Config { vocab, mask_id, .. } = *self.config();
        let (mut never, mut first) = (self.config().never_proposed(), 0); // those of this tile and after it, and its first id
        let source = |position: usize| sources.binary_search(&self.source(position)).unwrap_or_default();
        let mut rows: Vec<(usize, Row<'_>)> = query
            .rows
            .iter()
            .map(|&position| (source(position), query.proposal.row(mask_id, query.step, position)))
            .collect();
        for ((_, row), &target) in rows.iter_mut().zip(query.targets.unwrap_or_default()) {
            row.aim(target);
        }
        if let Some(classes) = query.classes {
            rows.iter_mut().for_each(|(_, row)| row.classify(classes));
        }
        let mut whole: Vec<Vec<f32>> = vec![Vec::new(); if query.distributions { sources.len() } else { 0 }];
        let mut unguided = unguided.map(|hidden| self.network.logits(hidden));
        for logits in self.network.logits(hidden) {
            let mut logits = logits?; // [sources x width]
            let width = logits.len() / sources.len();
            if let Some(tile) = unguided.as_mut().and_then(Iterator::next) {
                let scale = (self.guidance + 1.0) as f32;
                let tile = tile?;
                for (l, u) in logits.iter_mut().zip(&tile) {
                    *l = u + scale * (*l - u);
                }
                self.network.give_back(tile);
            }
            // What stands for no text has no probability, in statistics and in distributions.
            let (here, later) = never.split_at(never.partition_point(|id| (*id as usize) < first + width));
            for row in logits.chunks_exact_mut(width) {
                here.iter().for_each(|id| row[*id as usize - first] = f32::NEG_INFINITY);
            }
            (never, first) = (later, first + width);
            let tile = |source: usize| &logits[source * width..(source + 1) * width];
            rows.par_iter_mut().try_for_each(|(source, row)| row.push(tile(*source)))?;
            whole.iter_mut().enumerate().for_each(|(source, row)| row.extend_from_slice(tile(source)));
            self.network.give_back(logits);
        }
        let answers: Vec<RowAnswer> = rows.into_iter().map(|(_, row)| row.answer()).collect::<cofill::Result<_>>()?;
        let stats: Vec<RowStats> = answers.iter().map(|row| row.stats).collect();
        let log_probabilities = query.targets.map(|_| answers.iter().map(|row| row.log_probability).collect());
        let of_classes = || answers.iter().flat_map(|row| row.classes.iter().copied()).collect();
        let classes = query.classes.map(|asked| ClassTable::new(asked.len(), of_classes())).transpose()?;
        let answer = Prediction::new(stats).log_probabilities(log_probabilities).classes(classes);
        if !query.distributions {
            return Ok(answer);
        }
        whole.iter_mut().for_each(|row| softmax(row));
        let flat = query.rows.iter().flat_map(|&position| whole[source(position)].iter().copied()).collect();
        Ok(answer.distributions(Distributions::new(vocab, flat)?))
    }
}

/// Softmax of a row, in place, with f64 sums.
fn softmax(row: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|l| f64::from(l - max).exp()).sum();
    row.iter_mut().for_each(|l| *l = (f64::from(*l - max).exp() / sum) as f32);
}

impl Denoiser for Model {
    fn by_head(&mut self, query: &Query<'_>, toward: &[usize]) -> cofill::Result<Option<HeadAttention>> {
        self.heads(query, toward).map(Some)
    }

    fn mask_id(&self) -> TokenId {
        self.config().mask_id
    }

    fn vocab(&self) -> usize {
        self.config().vocab
    }

    /// The causal language model beside it.
    fn consult(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let companion = self.companion.as_mut().ok_or(cofill::Error::NoCompanion)?;
        let answers = companion.denoise(batch);
        self.timing += companion.take_timing();
        answers
    }

    /// Sequences are computed each for itself: nobody's numbers depend on who else is in the batch. Wide models have work for every
    /// core within a sequence, and take them one after the other; narrow ones keep cores busy only by whole sequences.
    fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        self.go_on()?;
        let answers: cofill::Result<Vec<(Prediction, Timing)>> = if self.config().hidden < NARROW {
            batch.par_iter().map(|query| self.answer(query)).collect()
        } else {
            batch.iter().map(|query| self.answer(query)).collect()
        };
        Ok(answers?
            .into_iter()
            .map(|(prediction, timing)| {
                self.timing += timing;
                prediction
            })
            .collect())
    }
}
