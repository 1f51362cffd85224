//! BERT and its relatives: one bidirectional encoder with a head that predicts masked tokens.
//!
//! ```text
//! x = norm(words[ids] + positions + type 0)                        ALBERT: then widened to the stream
//! each block, BERT, ALBERT, RoBERTa:                               ModernBERT:
//!   x = norm(x + o(softmax(q kᵀ / √d) v))  with q, k, v of x         x += o(softmax(rope(q) rope(k)ᵀ / √d) v)  of norm(x)
//!   x = norm(x + down(gelu(up(x))))                                  x += down(gelu(up(h)) · gate(h))     with h = norm(x)
//! logits = E norm(gelu(dense(x))) + b                              E is the words' table again
//! ```
//!
//! Nothing is shifted: the row of position i predicts position i. Every sequence is computed alone, so no position is ever padding.
//! As in the other families, the final block and the head run only for the asked rows ([`blocks::run`]).

pub(crate) mod tensors;

use crate::attention::{HeadMean, attend, attend_by_ops};
use crate::blocks::{self, Blocks, ForwardRequest, Hidden, Pass};
use crate::config::{Activation, Config, EncoderConfig};
use crate::error::{Computed, Error, Result};
use crate::kernels::{Kernels, activate, with_slice};
use crate::layers::{LayerNorm, Linear, Loader, Rotary, TILE, indices};
use crate::load_options::LoadOptions;
use crate::matrix::{Matrix, tensor_bytes};
use crate::tensor_list;
use crate::weights::Weights;
use candle_core::{Device, Tensor};
use cofill_kernels::{Buffers, Heads, Sight, gelu, gelu_tanh};
use std::time::Instant;
use tensors::Names;

/// The weights of an encoder, and its forward pass.
pub struct Encoder {
    config: Config,
    kind: EncoderConfig,
    words: Matrix,             // [vocab, embedding]
    positions: Option<Tensor>, // [positions, embedding], the row of token type 0 added to each
    embedding_norm: LayerNorm,
    widen: Option<Linear>, // embedding -> hidden
    blocks: Vec<Block>,    // those that are stored; ALBERT's layers share them
    last_norm: Option<LayerNorm>,
    head: Head,
    kernels: Kernels,
}

struct Block {
    /// Before attention, or after its sum; the first block of ModernBERT has none.
    attention_norm: Option<LayerNorm>,
    q: Linear, // hidden -> hidden, like k, v and o
    k: Linear,
    v: Linear,
    o: Linear,
    mlp_norm: LayerNorm,
    up: Linear,           // hidden -> mlp
    gate: Option<Linear>, // hidden -> mlp
    down: Linear,         // mlp -> hidden
}

/// What makes logits of hidden states.
struct Head {
    dense: Linear, // hidden -> embedding
    norm: LayerNorm,
    tiles: Vec<Linear>, // tiles of up to TILE rows of [vocab, embedding]
}

impl Encoder {
    /// Takes the tensors it needs, by the family's names, and converts them one by one.
    pub fn load(config: Config, weights: &Weights, options: impl Into<LoadOptions>) -> Result<Encoder> {
        tensor_list::check(&config, weights)?;
        let kind = config.encoder.clone().ok_or_else(|| Error::Unsupported {
            path: weights.path().into(),
            what: "the family".into(),
            given: config.family.to_string(),
            accepted: "BERT and its relatives as encoders".into(),
        })?;
        Ok(Encoder::convert(config, kind, weights, options.into())?)
    }

    fn convert(config: Config, kind: EncoderConfig, weights: &Weights, options: LoadOptions) -> Computed<Encoder> {
        let loader = Loader::new(weights, options)?;
        let names = Names::of(&config, weights);
        let Config { hidden, mlp, vocab, qkv_bias, o_bias, rms_eps: eps, .. } = config;
        let width = kind.embedding;
        let norm = |name: &str, width: usize| {
            let (weight, bias) = names.norm(name);
            loader.layer_norm(&weight, kind.norm_bias.then_some(&*bias), width, eps)
        };
        let block = |i: usize| -> Computed<Block> {
            let leaves = names.leaves();
            let name = |leaf: &str| names.in_block(i, leaf);
            let attention_norm = names.has_attention_norm(i).then(|| norm(&name(leaves.attention_norm), hidden));
            let projection = |leaf: &str, nth: usize| match names.is_fused() {
                true => {
                    let (rows, all) = (nth * hidden..(nth + 1) * hidden, 3 * hidden);
                    loader.rows_of_linear(&name(leaf), rows, (all, hidden), qkv_bias)
                }
                false => loader.linear(&name(leaf), hidden, hidden, qkv_bias),
            };
            let (up, gate) = match names.is_fused() {
                true => {
                    let half = |rows| loader.rows_of_linear(&name(leaves.up), rows, (2 * mlp, hidden), kind.mlp_bias);
                    (half(0..mlp)?, Some(half(mlp..2 * mlp)?))
                }
                false => (loader.linear(&name(leaves.up), mlp, hidden, kind.mlp_bias)?, None),
            };
            Ok(Block {
                attention_norm: attention_norm.transpose()?,
                q: projection(leaves.q, 0)?,
                k: projection(leaves.k, 1)?,
                v: projection(leaves.v, 2)?,
                o: loader.linear(&name(leaves.o), hidden, hidden, o_bias)?,
                mlp_norm: norm(&name(leaves.mlp_norm), hidden)?,
                up,
                gate,
                down: loader.linear(&name(leaves.down), hidden, mlp, kind.mlp_bias)?,
            })
        };
        let positions = match names.tables() {
            None => None,
            Some((positions, types)) => {
                let types = loader.f32(&types, &[kind.token_types, width])?.narrow(0, 0, 1)?;
                Some(loader.f32(&positions, &[kind.positions, width])?.broadcast_add(&types)?)
            }
        };
        let words = loader.embedding(&names.words(), &[vocab, width])?;
        let matrix = if config.tied { names.words() } else { names.decoder() };
        let matrix = weights.stored(&matrix, &[vocab, width])?;
        let bias = if kind.decoder_bias { Some(loader.f32(&names.decoder_bias(), &[vocab])?) } else { None };
        let mut tiles = Vec::new();
        for (i, weight) in loader.tiles(&matrix, config.tied.then_some(&words))?.into_iter().enumerate() {
            let rows = TILE.min(vocab - i * TILE);
            let bias = bias.as_ref().map(|bias| bias.narrow(0, i * TILE, rows)).transpose()?;
            tiles.push(Linear { weight, bias });
        }
        Ok(Encoder {
            positions,
            embedding_norm: norm(&names.embedding_norm(), width)?,
            widen: names.widen().map(|name| loader.linear(&name, hidden, width, true)).transpose()?,
            blocks: (0..kind.stored_blocks).map(block).collect::<Computed<_>>()?,
            last_norm: names.last_norm().map(|name| norm(name, hidden)).transpose()?,
            head: Head {
                dense: loader.linear(names.head_dense(), width, hidden, kind.head_bias)?,
                norm: norm(names.head_norm(), width)?,
                tiles,
            },
            words,
            config,
            kind,
            kernels: if loader.device.is_cpu() { Kernels::Slices } else { Kernels::Ops },
        })
    }

    /// The bytes that the weights take in memory.
    pub fn bytes(&self) -> usize {
        let block = |b: &Block| {
            let linears = [Some(&b.q), Some(&b.k), Some(&b.v), Some(&b.o), Some(&b.up), b.gate.as_ref(), Some(&b.down)];
            linears.into_iter().flatten().map(Linear::bytes).sum::<usize>()
                + b.attention_norm.as_ref().map_or(0, LayerNorm::bytes)
                + b.mlp_norm.bytes()
        };
        // A tied head of the same type is the table of words itself; its biases are not.
        let shared = self.config.tied && self.head.tiles.first().is_some_and(|tile| tile.weight.shares(&self.words));
        let tile = |tile: &Linear| {
            let bias = tile.bias.as_ref().map_or(0, tensor_bytes);
            if shared { bias } else { tile.bytes() }
        };
        self.words.bytes()
            + self.positions.as_ref().map_or(0, tensor_bytes)
            + self.embedding_norm.bytes()
            + self.widen.as_ref().map_or(0, Linear::bytes)
            + self.blocks.iter().map(block).sum::<usize>()
            + self.last_norm.as_ref().map_or(0, LayerNorm::bytes)
            + self.head.dense.bytes()
            + self.head.norm.bytes()
            + self.head.tiles.iter().map(tile).sum::<usize>()
    }

    /// Which implementation of the forward is used.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Uses another implementation from now on, to compare them. Only [`Kernels::Ops`] runs on other devices than the CPU.
    pub fn set_kernels(&mut self, kernels: Kernels) {
        self.kernels = kernels;
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One forward of one sequence.
    pub fn forward(&self, tokens: &[u32], ask: &ForwardRequest<'_>) -> Result<Pass> {
        Ok(self.pass(tokens, ask)?)
    }

    fn pass(&self, tokens: &[u32], ask: &ForwardRequest<'_>) -> Computed<Pass> {
        let begun = Instant::now();
        let x = self.embed(tokens)?;
        let rotary = |theta: f64| Rotary::new(self.config.head_dim, theta, tokens.len());
        let rotaries = self.kind.local.as_ref().map(|local| [rotary(self.config.rope_theta), rotary(local.theta)]);
        blocks::run(&Placed { model: self, rotaries }, x, ask, begun)
    }

    /// What the blocks begin with. `[length, hidden]`
    fn embed(&self, tokens: &[u32]) -> Computed<Tensor> {
        let mut x = self.words.look_up_tensor(tokens)?; // [length, embedding]
        if let Some(positions) = &self.positions {
            let rows = indices(self.kind.rows_of_positions(tokens), positions.device())?;
            x = (x + positions.index_select(&rows, 0)?)?;
        }
        let x = self.embedding_norm.forward(&x, self.kernels)?;
        match &self.widen {
            Some(widen) => widen.forward(&x, self.kernels),
            None => Ok(x),
        }
    }

    fn activate(&self, activation: Activation, x: &Tensor) -> Computed<Tensor> {
        Ok(match (self.kernels, activation) {
            (Kernels::Slices, Activation::Gelu) => on_slice(x, gelu)?,
            (Kernels::Slices, Activation::GeluTanh) => on_slice(x, gelu_tanh)?,
            (Kernels::Ops, Activation::Gelu) => x.gelu_erf()?,
            (Kernels::Ops, Activation::GeluTanh) => x.gelu()?,
        })
    }

    /// Logits for hidden states, a tile of token ids at a time, in their order: `[rows x ids of the tile]`, flat.
    pub fn logits<'a>(&'a self, hidden: &'a Hidden) -> Box<dyn Iterator<Item = Result<Vec<f32>>> + 'a> {
        let ready = || -> Computed<Tensor> {
            let h = self.head.dense.forward(&hidden.0, self.kernels)?;
            self.head.norm.forward(&self.activate(self.kind.head_activation, &h)?, self.kernels)
        };
        let flat = |tile: &Linear, h: &Tensor| -> Computed<Vec<f32>> {
            Ok(tile.forward(h, self.kernels)?.flatten_all()?.to_vec1()?)
        };
        match ready() {
            Ok(h) => Box::new(self.head.tiles.iter().map(move |tile| Ok(flat(tile, &h)?))),
            Err(error) => Box::new(std::iter::once(Err(error.into()))),
        }
    }
}

fn on_slice(x: &Tensor, function: fn(&mut [f32])) -> Computed<Tensor> {
    let y = with_slice(x, |x| activate(x, function))?;
    Ok(Tensor::from_vec(y, x.shape(), &Device::Cpu)?)
}

/// The blocks with the angles of a sequence's positions, where the family rotates: of layers that see everything, and of local ones.
struct Placed<'a> {
    model: &'a Encoder,
    rotaries: Option<[Rotary; 2]>,
}

impl Placed<'_> {
    fn block(&self, layer: usize) -> &Block {
        let (stored, layers) = (self.model.blocks.len(), self.model.config.layers);
        &self.model.blocks[layer * stored / layers]
    }
}

impl Blocks for Placed<'_> {
    type Rows = Tensor;

    fn n_rows(x: &Tensor) -> Computed<usize> {
        Ok(x.dim(0)?)
    }

    fn select(&self, x: Tensor, rows: &[usize]) -> Computed<Tensor> {
        Ok(x.index_select(&indices(rows.iter().copied(), x.device())?, 0)?)
    }

    fn layers(&self) -> usize {
        self.model.config.layers
    }

    fn heads(&self) -> usize {
        self.model.config.heads
    }

    fn attend(&self, layer: usize, x: &Tensor, queries: &[usize], mean: Option<&mut HeadMean>) -> Computed<Tensor> {
        let (block, kernels) = (self.block(layer), self.model.kernels);
        let Config { heads, head_dim, hidden, .. } = self.model.config;
        let local = self.model.kind.local.as_ref().filter(|local| local.layers[layer]);
        let sight = local.map_or(Sight::Everywhere, |local| Sight::Within(local.reach));
        let cut = Heads { queries: heads, keys: heads, dim: head_dim, sight };
        let normed = block.attention_norm.as_ref().filter(|_| self.model.kind.pre_norm);
        let h = normed.map_or_else(|| Ok(x.clone()), |norm| norm.forward(x, kernels))?;
        let every: Vec<usize> = (0..h.dim(0)?).collect();
        let h_q = match queries.len() == every.len() {
            true => h.clone(),
            false => h.index_select(&indices(queries.iter().copied(), h.device())?, 0)?,
        };
        let q = block.q.forward(&h_q, kernels)?;
        let (k, v) = (block.k.forward(&h, kernels)?, block.v.forward(&h, kernels)?);
        let rotary = self.rotaries.as_ref().map(|[global, near]| if local.is_some() { near } else { global });
        match kernels {
            Kernels::Slices => {
                let turned = |x: &Tensor, positions: &[usize]| -> Computed<Vec<f32>> {
                    let mut x = with_slice(x, <[f32]>::to_vec)?;
                    if let Some(rotary) = rotary {
                        rotary.slices(&mut x, positions);
                    }
                    Ok(x)
                };
                let (q, k) = (turned(&q, queries)?, turned(&k, &every)?);
                let mut mixed = vec![0.0; q.len()];
                with_slice(&v, |v| attend(cut, queries, (&q, &k, v), &Buffers::default(), &mut mixed, mean))?;
                Ok(Tensor::from_vec(mixed, (queries.len(), hidden), &Device::Cpu)?)
            }
            Kernels::Ops => {
                let turned = |x: Tensor, positions: &[usize]| match rotary {
                    Some(rotary) => rotary.ops(&x, positions),
                    None => Ok(x),
                };
                attend_by_ops(cut, queries, (&turned(q, queries)?, &turned(k, &every)?, &v), mean)
            }
        }
    }

    fn finish(&self, layer: usize, x: Tensor, mixed: Tensor) -> Computed<Tensor> {
        let (block, kernels) = (self.block(layer), self.model.kernels);
        let mlp = |h: &Tensor| -> Computed<Tensor> {
            let mut a = self.model.activate(self.model.kind.activation, &block.up.forward(h, kernels)?)?; // [rows, mlp]
            if let Some(gate) = &block.gate {
                a = (a * gate.forward(h, kernels)?)?;
            }
            block.down.forward(&a, kernels)
        };
        let x = (x + block.o.forward(&mixed, kernels)?)?;
        if self.model.kind.pre_norm {
            let h = block.mlp_norm.forward(&x, kernels)?;
            return Ok((x + mlp(&h)?)?);
        }
        let x = match &block.attention_norm {
            Some(norm) => norm.forward(&x, kernels)?,
            None => x,
        };
        let y = mlp(&x)?;
        block.mlp_norm.forward(&(x + y)?, kernels)
    }

    fn last_norm(&self, x: Tensor) -> Computed<Hidden> {
        Ok(Hidden(match &self.model.last_norm {
            Some(norm) => norm.forward(&x, self.model.kernels)?,
            None => x,
        }))
    }
}
