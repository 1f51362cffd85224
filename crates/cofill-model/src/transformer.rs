//! One bidirectional transformer for both families.
//!
//! ```text
//! x = emb[ids]
//! each block:  x += o(softmax(rope(q) rope(k)ᵀ / √d) v)     with q, k, v of rms(x)
//!              x += down(silu(gate(h)) · up(h))              with h = rms(x)
//! ```
//!
//! No causal mask, no timestep. Every sequence is computed alone, so what it gives cannot depend on its neighbours. In the final
//! block only the asked rows have queries, an output projection and an MLP.

use crate::config::{Config, Family};
use crate::error::Result;
use crate::matrix::{Matrix, Precision};
use crate::weights::{Layout, Weights};
use candle_core::{D, DType, Device, IndexOp, Tensor};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope;
use std::ops::Range;

/// The weights, and how they are put to use.
pub struct Transformer {
    config: Config,
    embedding: Tensor, // [vocab, hidden]
    blocks: Vec<Block>,
    norm: Tensor,      // [hidden]
    head: Vec<Matrix>, // tiles of up to TILE rows of [vocab, hidden]
}

/// Token ids whose logits exist at the same time: 512 rows x 4096 ids are 8 MB.
pub(crate) const TILE: usize = 4096;

struct Block {
    attn_norm: Tensor, // [hidden]
    q: Linear,         // hidden -> heads · dim
    k: Linear,         // hidden -> kv_heads · dim
    v: Linear,
    o: Linear,
    mlp_norm: Tensor,
    gate: Linear, // hidden -> mlp
    up: Linear,
    down: Linear, // mlp -> hidden
}

struct Linear {
    weight: Matrix, // [out, in]
    bias: Option<Tensor>,
}

/// What a pass must compute beyond the residual stream.
pub struct Ask<'a> {
    /// Rows whose final hidden state is wanted, ascending.
    pub rows: &'a [usize],
    /// Whose head-mean attention is wanted.
    pub attention: Option<Probe<'a>>,
}

/// Which attention is wanted: from the queries to the keys, as many of the one as of the other.
pub struct Probe<'a> {
    /// Mean over these layers.
    pub layers: Range<usize>,
    /// Rows, ascending.
    pub queries: &'a [usize],
    /// Columns, ascending.
    pub keys: &'a [usize],
}

/// What a pass computed.
pub struct Pass {
    /// After the final norm. `[rows, hidden]`
    pub hidden: Tensor,
    /// Mean over heads and layers, laid out `[key x query]`.
    pub attention: Option<Vec<f64>>,
}

impl Transformer {
    /// Takes the tensors it needs, by the layout's names, and converts them one by one: peak memory is the result and one tensor.
    /// Without a precision, folders are kept in f32 and GGUF files as they are stored.
    pub fn load(config: Config, weights: &Weights, precision: impl Into<Option<Precision>>) -> Result<Transformer> {
        let precision = precision.into().or(weights.precision());
        let Config { hidden, heads, kv_heads, head_dim, mlp, vocab, .. } = config;
        let names = Names::of(config.family, weights.layout());
        let linear = |name: String, out: usize, input: usize, bias: bool| -> Result<Linear> {
            let bias = if bias { Some(weights.get(&format!("{name}.bias"), &[out])?) } else { None };
            let weight = weights.stored(&format!("{name}.weight"), &[out, input])?;
            Ok(Linear { weight: Matrix::load(&weight, precision)?, bias })
        };
        let block = |i: usize| -> Result<Block> {
            let name = |leaf: &str| format!("{}.{i}.{leaf}", names.blocks);
            let bias = config.qkv_bias;
            Ok(Block {
                attn_norm: weights.get(&name(names.attn_norm), &[hidden])?,
                q: linear(name(names.q), heads * head_dim, hidden, bias)?,
                k: linear(name(names.k), kv_heads * head_dim, hidden, bias)?,
                v: linear(name(names.v), kv_heads * head_dim, hidden, bias)?,
                o: linear(name(names.o), hidden, heads * head_dim, false)?,
                mlp_norm: weights.get(&name(names.mlp_norm), &[hidden])?,
                gate: linear(name(names.gate), mlp, hidden, false)?,
                up: linear(name(names.up), mlp, hidden, false)?,
                down: linear(name(names.down), hidden, mlp, false)?,
            })
        };
        let embedding = weights.stored(names.embedding, &[vocab, hidden])?.embedding(precision)?;
        let head = weights.stored(if config.tied { names.embedding } else { names.head }, &[vocab, hidden])?;
        let tile = |start| -> Result<Matrix> {
            let rows = TILE.min(vocab - start);
            match config.tied && embedding.dtype() == DType::F32 {
                true => Ok(Matrix::F32(embedding.narrow(0, start, rows)?)), // shared, not copied
                false => Matrix::load(&head.rows(start..start + rows), precision),
            }
        };
        let head = (0..vocab).step_by(TILE).map(tile).collect::<Result<_>>()?;
        Ok(Transformer {
            embedding,
            blocks: (0..config.layers).map(block).collect::<Result<_>>()?,
            norm: weights.get(names.norm, &[hidden])?,
            head,
            config,
        })
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One pass over one sequence.
    pub fn forward(&self, tokens: &[u32], ask: &Ask<'_>) -> Result<Pass> {
        let length = tokens.len();
        let rotary = Rotary::new(&self.config, length)?;
        let mut mean = ask.attention.as_ref().map(|probe| HeadMean::new(probe, self.config.heads));
        let mut x =
            self.embedding.index_select(&indices(tokens.iter().map(|&t| t as usize))?, 0)?.to_dtype(DType::F32)?; // [length, hidden]
        let every: Vec<usize> = (0..length).collect();
        for (i, block) in self.blocks.iter().enumerate() {
            let last = i + 1 == self.blocks.len();
            let probe = mean.as_mut().filter(|mean| mean.layers.contains(&i));
            // Queries of the final block: the asked rows, and those whose attention is probed.
            let rows = if last { ask.rows } else { &every };
            let mut queries: Vec<usize> = rows.to_vec();
            if last && let Some(probe) = &probe {
                queries.extend_from_slice(&probe.queries);
                queries.sort_unstable();
                queries.dedup();
            }
            let mixed = self.attend(block, &x, &queries, &rotary, probe)?; // [queries, heads · dim]
            let (mixed, residual) = match last {
                false => (mixed, x),
                true => {
                    let at = rows.iter().map(|row| queries.binary_search(row).unwrap_or_default());
                    let mixed = mixed.index_select(&indices(at)?, 0)?;
                    (mixed, x.index_select(&indices(rows.iter().copied())?, 0)?)
                }
            };
            let y = (residual + block.o.forward(&mixed)?)?;
            let h = rms_norm(&y, &block.mlp_norm, self.config.rms_eps as f32)?;
            let h = (silu(&block.gate.forward(&h)?)? * block.up.forward(&h)?)?;
            x = (y + block.down.forward(&h)?)?;
        }
        let hidden = rms_norm(&x, &self.norm, self.config.rms_eps as f32)?;
        Ok(Pass { hidden, attention: mean.map(HeadMean::finish) })
    }

    /// Attention of the asked queries over all keys, before the output projection.
    fn attend(
        &self,
        block: &Block,
        x: &Tensor,
        queries: &[usize],
        rotary: &Rotary,
        mut probe: Option<&mut HeadMean>,
    ) -> Result<Tensor> {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let length = x.dim(0)?;
        let h = rms_norm(x, &block.attn_norm, self.config.rms_eps as f32)?;
        let all = queries.len() == length;
        let h_q = if all { h.clone() } else { h.index_select(&indices(queries.iter().copied())?, 0)? };
        let split = |t: Tensor, n: usize| -> Result<Tensor> {
            let rows = t.dim(0)?;
            Ok(t.reshape((1, rows, n, head_dim))?.transpose(1, 2)?.contiguous()?) // [1, n, rows, dim]
        };
        let q = rotary.apply(&split(block.q.forward(&h_q)?, heads)?, queries)?;
        let k = rotary.apply(&split(block.k.forward(&h)?, kv_heads)?, &(0..length).collect::<Vec<_>>())?;
        let v = split(block.v.forward(&h)?, kv_heads)?;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let group = heads / kv_heads;
        let mut mixed = Vec::with_capacity(heads);
        // Head by head, so that no more than one head's [queries, length] scores exist.
        for head in 0..heads {
            let (k, v) = (k.i((0, head / group))?, v.i((0, head / group))?); // [length, dim]
            let q = (q.i((0, head))? * scale)?; // [queries, dim]
            let p = softmax_last_dim(&q.matmul(&k.t()?)?)?; // [queries, length]
            if let Some(probe) = probe.as_deref_mut() {
                probe.add(&p, queries)?;
            }
            mixed.push(p.matmul(&v)?);
        }
        Ok(Tensor::cat(&mixed, D::Minus1)?) // [queries, heads · dim]
    }

    /// Logits for hidden states after the final norm, a tile of token ids at a time, in their order. `[rows, ids of the tile]`
    pub fn logits<'a>(&'a self, hidden: &'a Tensor) -> impl Iterator<Item = Result<Tensor>> + 'a {
        self.head.iter().map(move |tile| tile.forward(hidden))
    }
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.weight.forward(x)?;
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }
}

/// cos and sin of every position's angles. The angle is an f32 product of f32 factors, as in the reference.
struct Rotary {
    cos: Tensor, // [length, dim / 2]
    sin: Tensor,
}

impl Rotary {
    fn new(config: &Config, length: usize) -> Result<Rotary> {
        let half = config.head_dim / 2;
        let frequency = |j: usize| 1.0 / (config.rope_theta as f32).powf(2.0 * j as f32 / config.head_dim as f32);
        let angles: Vec<f32> =
            (0..length).flat_map(|position| (0..half).map(move |j| position as f32 * frequency(j))).collect();
        let angles = Tensor::from_vec(angles, (length, half), &Device::Cpu)?;
        Ok(Rotary { cos: angles.cos()?, sin: angles.sin()? })
    }

    /// Rotates rows that stand at `positions`. `x: [1, heads, rows, dim]`
    fn apply(&self, x: &Tensor, positions: &[usize]) -> Result<Tensor> {
        let at = indices(positions.iter().copied())?;
        Ok(rope(x, &self.cos.index_select(&at, 0)?, &self.sin.index_select(&at, 0)?)?)
    }
}

/// The mean over heads and layers of the attention from some positions to some.
struct HeadMean {
    layers: Range<usize>,
    queries: Vec<usize>,
    keys: Vec<usize>,
    heads: usize,
    by_key: Vec<f64>, // [key x query]
}

impl HeadMean {
    fn new(probe: &Probe<'_>, heads: usize) -> HeadMean {
        let (queries, keys) = (probe.queries.to_vec(), probe.keys.to_vec());
        let by_key = vec![0.0; queries.len() * keys.len()];
        HeadMean { layers: probe.layers.clone(), queries, keys, heads, by_key }
    }

    /// One head's probabilities. `p: [queries, length]`, rows at positions `queries`.
    fn add(&mut self, p: &Tensor, queries: &[usize]) -> Result<()> {
        let length = p.dim(1)?;
        let p = p.flatten_all()?.to_vec1::<f32>()?;
        let n = self.queries.len();
        for (query, position) in self.queries.iter().enumerate() {
            let row = queries.binary_search(position).unwrap_or_default() * length;
            for (key, at) in self.keys.iter().enumerate() {
                self.by_key[key * n + query] += f64::from(p[row + at]);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<f64> {
        let n = (self.heads * self.layers.len()) as f64;
        self.by_key.iter_mut().for_each(|a| *a /= n);
        self.by_key
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
                o: "attn_out",
                mlp_norm: "ff_norm.weight",
                gate: "ff_proj",
                up: "up_proj",
                down: "ff_out",
                norm: "model.transformer.ln_f.weight",
                head: "model.transformer.ff_out.weight",
            },
            Family::Dream => &Names {
                embedding: "model.embed_tokens.weight",
                blocks: "model.layers",
                attn_norm: "input_layernorm.weight",
                q: "self_attn.q_proj",
                k: "self_attn.k_proj",
                v: "self_attn.v_proj",
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

fn indices(positions: impl Iterator<Item = usize>) -> Result<Tensor> {
    let positions: Vec<u32> = positions.map(|position| position as u32).collect();
    let n = positions.len();
    Ok(Tensor::from_vec(positions, n, &Device::Cpu)?)
}
