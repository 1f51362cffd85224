//! A checkpoint as a denoiser: queries in, row statistics and attention out.
//!
//! Dream's shift lives here and nowhere else: the distribution of position i is read from hidden row i − 1. Attention is that of
//! position i itself, as the paper's text has it.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::transformer::{Ask, Transformer};
use crate::weights::Weights;
use candle_core::Tensor;
use cofill::{Attention, Denoiser, Distributions, Prediction, Query, Row, RowStats, TokenId};
use rayon::prelude::*;
use std::path::Path;

/// Token ids whose logits exist at the same time: 512 rows x 4096 ids are 8 MB.
const TILE: usize = 4096;

/// A loaded checkpoint.
pub struct Model {
    transformer: Transformer,
}

impl Model {
    /// Loads a folder in Hugging Face layout.
    pub fn load(dir: &Path) -> Result<Model> {
        let config = Config::load(dir)?;
        let weights = Weights::open(dir)?;
        Ok(Model { transformer: Transformer::load(config, &weights)? })
    }

    /// What `config.json` says.
    pub fn config(&self) -> &Config {
        self.transformer.config()
    }

    /// Logits for some positions, whole rows. `[rows][vocab]`
    pub fn logits(&self, tokens: &[TokenId], rows: &[usize]) -> Result<Vec<Vec<f32>>> {
        let sources: Vec<usize> = rows.iter().map(|&position| self.source(position)).collect();
        let mut asked = sources.clone();
        asked.dedup();
        let pass = self.transformer.forward(tokens, &Ask { rows: &asked, attention: None })?;
        let logits = self.transformer.logits(&pass.hidden, 0..self.config().vocab)?.to_vec2::<f32>()?;
        let row = |source: &usize| logits[asked.binary_search(source).unwrap_or_default()].clone();
        Ok(sources.iter().map(row).collect())
    }

    /// The hidden row that predicts a position.
    fn source(&self, position: usize) -> usize {
        if self.config().shift { position.saturating_sub(1) } else { position }
    }

    fn check(&self, query: &Query<'_>) -> cofill::Result<()> {
        let Config { context, vocab, shift, mask_id, .. } = *self.config();
        if query.tokens.len() > context {
            return Err(Error::TooLong { given: query.tokens.len(), most: context }.into());
        }
        let last = vocab as TokenId - 1;
        if let Some(position) = query.tokens.iter().position(|&token| token > last) {
            return Err(cofill::Error::UnknownToken { token: query.tokens[position], position, last });
        }
        match shift && query.tokens.first() == Some(&mask_id) {
            true => Err(Error::FirstMasked.into()),
            false => Ok(()),
        }
    }

    fn answer(&self, query: &Query<'_>) -> cofill::Result<Prediction> {
        self.check(query)?;
        // Two positions may share a source (0 and 1 under the shift), so rows are asked for once and looked up.
        let mut rows: Vec<usize> = query.rows.iter().map(|&position| self.source(position)).collect();
        rows.dedup();
        let layers = query.attention.map(|layers| layers.resolve(self.config().layers)).transpose()?;
        let ask = Ask { rows: &rows, attention: layers.map(|layers| (layers, query.rows)) };
        let pass = self.transformer.forward(query.tokens, &ask)?;
        let attention = pass.attention.map(|by_key| Attention::from_keys(query.rows.len(), by_key)).transpose()?;
        let (stats, distributions) = self.read(query, &rows, &pass.hidden)?;
        Ok(Prediction { rows: stats, attention, distributions })
    }

    /// Row statistics from tiles of logits; whole rows only when distributions are asked for.
    fn read(
        &self,
        query: &Query<'_>,
        sources: &[usize],
        hidden: &Tensor,
    ) -> cofill::Result<(Vec<RowStats>, Option<Distributions>)> {
        let Config { vocab, mask_id, .. } = *self.config();
        let source = |position: usize| sources.binary_search(&self.source(position)).unwrap_or_default();
        let mut rows: Vec<(usize, Row<'_>)> = query
            .rows
            .iter()
            .map(|&position| (source(position), query.proposal.row(mask_id, query.step, position)))
            .collect();
        let mut whole: Vec<Vec<f32>> = vec![Vec::new(); if query.distributions { sources.len() } else { 0 }];
        for start in (0..vocab).step_by(TILE) {
            let ids = start..(start + TILE).min(vocab);
            let width = ids.len();
            let logits = self.transformer.logits(hidden, ids)?;
            let logits = logits.flatten_all().and_then(|l| l.to_vec1::<f32>()).map_err(Error::from)?; // [sources x width]
            let tile = |source: usize| &logits[source * width..(source + 1) * width];
            rows.par_iter_mut().try_for_each(|(source, row)| row.push(tile(*source)))?;
            whole.iter_mut().enumerate().for_each(|(source, row)| row.extend_from_slice(tile(source)));
        }
        let stats = rows.into_iter().map(|(_, row)| row.finish()).collect::<cofill::Result<_>>()?;
        if !query.distributions {
            return Ok((stats, None));
        }
        whole.iter_mut().for_each(|row| softmax(row));
        let flat = query.rows.iter().flat_map(|&position| whole[source(position)].iter().copied()).collect();
        Ok((stats, Some(Distributions::new(vocab, flat)?)))
    }
}

/// In place, with f64 sums.
fn softmax(row: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|l| f64::from(l - max).exp()).sum();
    row.iter_mut().for_each(|l| *l = (f64::from(*l - max).exp() / sum) as f32);
}

impl Denoiser for Model {
    fn mask_id(&self) -> TokenId {
        self.config().mask_id
    }

    fn vocab(&self) -> usize {
        self.config().vocab
    }

    /// Sequences are computed one after the other: nobody's numbers depend on who else is in the batch.
    fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        batch.iter().map(|query| self.answer(query)).collect()
    }
}
