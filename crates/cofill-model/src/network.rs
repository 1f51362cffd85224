//! The two shapes of network that are run: LLaDA's, Dream's and Qwen's, and that of BERT and its relatives.

use crate::blocks::{ForwardRequest, Hidden, Pass};
use crate::config::Config;
use crate::encoder::Encoder;
use crate::error::Result;
use crate::kernels::Kernels;
use crate::keys_values::{CacheUse, KeysValues};
use crate::load_options::LoadOptions;
use crate::transformer::Transformer;
use crate::weights::Weights;

/// A network of either shape, loaded.
pub enum Network {
    /// RMSNorm, rotations and SwiGLU ([`Transformer`]).
    Transformer(Box<Transformer>),
    /// Layer norms, a head of two layers ([`Encoder`]).
    Encoder(Box<Encoder>),
}

impl From<Transformer> for Network {
    fn from(transformer: Transformer) -> Network {
        Network::Transformer(Box::new(transformer))
    }
}

impl From<Encoder> for Network {
    fn from(encoder: Encoder) -> Network {
        Network::Encoder(Box::new(encoder))
    }
}

impl Network {
    /// Loads the network that a configuration describes.
    pub fn load(config: Config, weights: &Weights, options: impl Into<LoadOptions>) -> Result<Network> {
        Ok(match config.encoder {
            Some(_) => Encoder::load(config, weights, options)?.into(),
            None => Transformer::load(config, weights, options)?.into(),
        })
    }

    /// The bytes that the weights take in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Network::Transformer(it) => it.bytes(),
            Network::Encoder(it) => it.bytes(),
        }
    }

    /// Which implementation of the forward is used.
    pub fn kernels(&self) -> Kernels {
        match self {
            Network::Transformer(it) => it.kernels(),
            Network::Encoder(it) => it.kernels(),
        }
    }

    /// Uses another implementation from now on, to compare them. Only [`Kernels::Ops`] runs on other devices than the CPU.
    pub fn set_kernels(&mut self, kernels: Kernels) {
        match self {
            Network::Transformer(it) => it.set_kernels(kernels),
            Network::Encoder(it) => it.set_kernels(kernels),
        }
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &Config {
        match self {
            Network::Transformer(it) => it.config(),
            Network::Encoder(it) => it.config(),
        }
    }

    /// One forward of one sequence.
    pub fn forward(&self, tokens: &[u32], ask: &ForwardRequest<'_>) -> Result<Pass> {
        match self {
            Network::Transformer(it) => it.forward(tokens, ask),
            Network::Encoder(it) => it.forward(tokens, ask),
        }
    }

    /// Room for the keys and values of a sequence.
    pub fn keys_values(&self, length: usize) -> KeysValues {
        let Config { layers, kv_heads, head_dim, .. } = *self.config();
        KeysValues::new(layers, length, kv_heads * head_dim)
    }

    /// Whether it can keep keys and values: a bidirectional transformer on the CPU can.
    pub fn caches(&self) -> bool {
        matches!(self, Network::Transformer(it) if it.kernels() == Kernels::Slices && !it.config().causal)
    }

    /// One forward of one sequence that keeps keys and values, or uses those that are kept; one that cannot ([`Network::caches`]) computes
    /// everything and keeps nothing.
    pub fn forward_kept(&self, tokens: &[u32], ask: &ForwardRequest<'_>, cache: CacheUse<'_>) -> Result<Pass> {
        match self {
            Network::Transformer(it) => it.forward_kept(tokens, ask, cache),
            Network::Encoder(it) => it.forward(tokens, ask),
        }
    }

    /// Logits for hidden states, a tile of token ids at a time, in their order: `[rows x ids of the tile]`, flat.
    pub fn logits<'a>(&'a self, hidden: &'a Hidden) -> Box<dyn Iterator<Item = Result<Vec<f32>>> + 'a> {
        match self {
            Network::Transformer(it) => it.logits(hidden),
            Network::Encoder(it) => it.logits(hidden),
        }
    }

    /// Takes a tile of logits that nobody reads any more.
    pub(crate) fn give_back(&self, tile: Vec<f32>) {
        match self {
            Network::Transformer(it) => it.give_back(tile),
            Network::Encoder(_) => drop(tile),
        }
    }

    /// The logits of all token ids at once, for whoever needs whole rows: `[rows][vocab]`.
    pub(crate) fn whole_logits(&self, hidden: &Hidden) -> Result<Vec<Vec<f32>>> {
        let mut rows: Vec<Vec<f32>> = Vec::new();
        for tile in self.logits(hidden) {
            let tile = tile?;
            rows.resize_with(hidden.n_rows(), Vec::new);
            let width = tile.len() / rows.len();
            rows.iter_mut().zip(tile.chunks(width)).for_each(|(row, part)| row.extend_from_slice(part));
        }
        Ok(rows)
    }
}
