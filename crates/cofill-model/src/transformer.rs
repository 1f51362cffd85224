//! One transformer for every family, bidirectional but for companions.
//!
//! ```text
//! x = emb[ids]
//! each block:  x += o(softmax(rope(q) rope(k)ᵀ / √d) v)     with q, k, v of rms(x)
//!              x += down(silu(gate(h)) · up(h))              with h = rms(x)
//! ```
//!
//! Computed by the loops of `cofill-kernels` (`by_slices.rs`), or by the tensor library's operations on any device (`by_ops.rs`).
//! No timestep; a causal mask only where the configuration says so. Every sequence is computed alone, so what it gives cannot depend on its neighbours. In the final
//! block only the asked rows have queries, an output projection and an MLP.

mod by_ops;
mod by_slices;

use crate::blocks::{self, ForwardRequest, Hidden, Pass};
use crate::config::{Config, Family};
use crate::error::{Computed, Result};
use crate::kernels::Kernels;
use crate::keys_values::CacheUse;
use crate::layers::{Linear, Loader, Rotary};
use crate::load_options::LoadOptions;
use crate::matrix::{Matrix, tensor_bytes};
use crate::tensor_list;
use crate::weights::{Layout, Weights};
use by_ops::ByOps;
use by_slices::BySlices;
use candle_core::Tensor;
use cofill_kernels::{Activations, Buffers, Heads, Level, Product, Sight, multiply};
use std::time::Instant;

/// The weights of a model, and its forward pass.
pub struct Transformer {
    config: Config,
    embedding: Matrix, // [vocab, hidden]
    blocks: Vec<Block>,
    norm: Tensor,      // [hidden]
    head: Vec<Matrix>, // tiles of up to TILE rows of [vocab, hidden]
    kernels: Kernels,
    buffers: Buffers,
}

struct Block {
    attn_norm: Tensor, // [hidden]
    q: Linear,         // hidden -> heads · dim
    k: Linear,         // hidden -> kv_heads · dim
    v: Linear,
    q_norm: Option<Tensor>, // [dim], of each head, before its rotation
    k_norm: Option<Tensor>,
    o: Linear,
    mlp_norm: Tensor,
    gate: Linear, // hidden -> mlp
    up: Linear,
    down: Linear, // mlp -> hidden
}

impl Transformer {
    /// Takes the tensors it needs, by the layout's names, and converts them one by one: peak memory is the result and one tensor.
    pub fn load(config: Config, weights: &Weights, options: impl Into<LoadOptions>) -> Result<Transformer> {
        tensor_list::check(&config, weights)?;
        Ok(Transformer::convert(config, weights, options.into())?)
    }

    fn convert(config: Config, weights: &Weights, options: LoadOptions) -> Computed<Transformer> {
        let loader = Loader::new(weights, options)?;
        let vector = |name: &str, n: usize| loader.f32(name, &[n]);
        let Config { hidden, heads, kv_heads, head_dim, mlp, vocab, .. } = config;
        let names = Names::of(config.family, weights.layout());
        let linear = |name: String, out: usize, input: usize, bias: bool| loader.linear(&name, out, input, bias);
        let qk_norm = |name: String| config.qk_norm.then(|| vector(&name, head_dim)).transpose();
        let block = |i: usize| -> Computed<Block> {
            let name = |leaf: &str| format!("{}.{i}.{leaf}", names.blocks);
            let bias = config.qkv_bias;
            Ok(Block {
                attn_norm: vector(&name(names.attn_norm), hidden)?,
                q: linear(name(names.q), heads * head_dim, hidden, bias)?,
                k: linear(name(names.k), kv_heads * head_dim, hidden, bias)?,
                v: linear(name(names.v), kv_heads * head_dim, hidden, bias)?,
                q_norm: qk_norm(name(names.q_norm))?,
                k_norm: qk_norm(name(names.k_norm))?,
                o: linear(name(names.o), hidden, heads * head_dim, config.o_bias)?,
                mlp_norm: vector(&name(names.mlp_norm), hidden)?,
                gate: linear(name(names.gate), mlp, hidden, false)?,
                up: linear(name(names.up), mlp, hidden, false)?,
                down: linear(name(names.down), hidden, mlp, false)?,
            })
        };
        let embedding = loader.embedding(names.embedding, &[vocab, hidden])?;
        let head = weights.stored(if config.tied { names.embedding } else { names.head }, &[vocab, hidden])?;
        let head = loader.tiles(&head, config.tied.then_some(&embedding))?;
        Ok(Transformer {
            embedding,
            blocks: (0..config.layers).map(block).collect::<Computed<_>>()?,
            norm: vector(names.norm, hidden)?,
            head,
            config,
            kernels: if loader.device.is_cpu() { Kernels::Slices } else { Kernels::Ops },
            buffers: Buffers::default(),
        })
    }

    /// The bytes that the weights take in memory.
    pub fn bytes(&self) -> usize {
        let block = |b: &Block| {
            let linears = [&b.q, &b.k, &b.v, &b.o, &b.gate, &b.up, &b.down];
            let norms = [Some(&b.attn_norm), Some(&b.mlp_norm), b.q_norm.as_ref(), b.k_norm.as_ref()];
            norms.into_iter().flatten().map(tensor_bytes).sum::<usize>()
                + linears.into_iter().map(Linear::bytes).sum::<usize>()
        };
        // A tied head of the same type is the embedding itself.
        let shared = self.config.tied && self.head.first().is_some_and(|tile| tile.shares(&self.embedding));
        let head = if shared { 0 } else { self.head.iter().map(Matrix::bytes).sum() };
        self.embedding.bytes() + self.blocks.iter().map(block).sum::<usize>() + tensor_bytes(&self.norm) + head
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
        Ok(self.pass(tokens, ask, None)?)
    }

    /// The same, which keeps keys and values, or uses those that are kept. Asked rows, and positions whose attention is asked, are in the
    /// window. Only with [`Kernels::Slices`], and not for a causal model, whose prefix needs none of this.
    pub fn forward_kept(&self, tokens: &[u32], ask: &ForwardRequest<'_>, cache: CacheUse<'_>) -> Result<Pass> {
        Ok(self.pass(tokens, ask, Some(cache))?)
    }

    fn pass(&self, tokens: &[u32], ask: &ForwardRequest<'_>, cache: Option<CacheUse<'_>>) -> Computed<Pass> {
        let begun = Instant::now();
        let rotary = Rotary::new(self.config.head_dim, self.config.rope_theta, tokens.len());
        match self.kernels {
            Kernels::Slices => {
                let blocks = BySlices::new(self, rotary, tokens, cache);
                blocks::run(&blocks, blocks.embed()?, ask, begun)
            }
            Kernels::Ops => {
                let x = self.embedding.look_up_tensor(tokens)?; // [length, hidden]
                blocks::run(&ByOps { model: self, rotary }, x, ask, begun)
            }
        }
    }

    /// How the width of a layer is cut.
    fn heads(&self) -> Heads {
        let Config { heads, kv_heads, head_dim, causal, .. } = self.config;
        let sight = if causal { Sight::Before } else { Sight::Everywhere };
        Heads { queries: heads, keys: kv_heads, dim: head_dim, sight }
    }

    /// Logits for hidden states, a tile of token ids at a time, in their order: `[rows x ids of the tile]`, flat.
    pub fn logits<'a>(&'a self, hidden: &'a Hidden) -> Box<dyn Iterator<Item = Result<Vec<f32>>> + 'a> {
        match self.kernels {
            Kernels::Slices => match hidden.to_flat() {
                Ok(values) => {
                    // Laid out once for all tiles.
                    let x = Activations::of_rows(Level::best(), values, self.config.hidden, &self.buffers);
                    Box::new(self.head.iter().map(move |tile| Ok(self.tile_of_logits(&x, tile)?)))
                }
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            Kernels::Ops => {
                let flat = |tile: &Matrix| -> Computed<Vec<f32>> {
                    Ok(tile.forward(&hidden.0, self.kernels)?.flatten_all()?.to_vec1()?)
                };
                Box::new(self.head.iter().map(move |tile| Ok(flat(tile)?)))
            }
        }
    }

    fn tile_of_logits(&self, x: &Activations<'_>, tile: &Matrix) -> Computed<Vec<f32>> {
        let mut y = self.buffers.take(x.shape().0 * tile.n_rows());
        multiply(x, &mut [Product { weights: tile.weights()?, bias: None, y: &mut y, add: false }]);
        Ok(y)
    }

    /// Takes a tile of logits that nobody reads any more, so that the next one need not ask for memory.
    pub(crate) fn give_back(&self, tile: Vec<f32>) {
        self.buffers.give(tile);
    }
}

/// Where a layout keeps its tensors.
pub(crate) struct Names {
    pub(crate) embedding: &'static str,
    pub(crate) blocks: &'static str,
    pub(crate) attn_norm: &'static str,
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    pub(crate) q_norm: &'static str,
    pub(crate) k_norm: &'static str,
    pub(crate) o: &'static str,
    pub(crate) mlp_norm: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) norm: &'static str,
    pub(crate) head: &'static str,
}

impl Names {
    pub(crate) fn of(family: Family, layout: Layout) -> &'static Names {
        match family {
            _ if layout == Layout::Gguf => Names::gguf(),
            // `ff_out` is the down projection inside a block and the head outside.
            Family::Llada => &Names {
                embedding: "model.transformer.wte.weight",
                blocks: "model.transformer.blocks",
                attn_norm: "attn_norm.weight",
                q: "q_proj",
                k: "k_proj",
                v: "v_proj",
                // Never asked for: `attention_layer_norm` is refused.
                q_norm: "q_norm.weight",
                k_norm: "k_norm.weight",
                o: "attn_out",
                mlp_norm: "ff_norm.weight",
                gate: "ff_proj",
                up: "up_proj",
                down: "ff_out",
                norm: "model.transformer.ln_f.weight",
                head: "model.transformer.ff_out.weight",
            },
            // The encoders have tables of their own (`encoder/tensors.rs`) and never come here.
            _ => &Names {
                embedding: "model.embed_tokens.weight",
                blocks: "model.layers",
                attn_norm: "input_layernorm.weight",
                q: "self_attn.q_proj",
                k: "self_attn.k_proj",
                v: "self_attn.v_proj",
                q_norm: "self_attn.q_norm.weight",
                k_norm: "self_attn.k_norm.weight",
                o: "self_attn.o_proj",
                mlp_norm: "post_attention_layernorm.weight",
                gate: "mlp.gate_proj",
                up: "mlp.up_proj",
                down: "mlp.down_proj",
                norm: "model.norm.weight",
                head: "lm_head.weight",
            },
        }
    }

    /// llama.cpp has one table for all families.
    pub(crate) fn gguf() -> &'static Names {
        &Names {
            embedding: "token_embd.weight",
            blocks: "blk",
            attn_norm: "attn_norm.weight",
            q: "attn_q",
            k: "attn_k",
            v: "attn_v",
            q_norm: "attn_q_norm.weight",
            k_norm: "attn_k_norm.weight",
            o: "attn_output",
            mlp_norm: "ffn_norm.weight",
            gate: "ffn_gate",
            up: "ffn_up",
            down: "ffn_down",
            norm: "output_norm.weight",
            head: "output.weight",
        }
    }
}
