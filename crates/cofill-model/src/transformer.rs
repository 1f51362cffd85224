//! One transformer for every family, bidirectional but for companions.
//!
//! ```text
//! x = emb[ids]
//! each block:  x += o(softmax(rope(q) rope(k)ᵀ / √d) v)     with q, k, v of rms(x)
//!              x += down(silu(gate(h)) · up(h))              with h = rms(x)
//! ```
//!
//! No timestep; a causal mask only where the configuration says so. Every sequence is computed alone, so what it gives cannot depend on its neighbours. In the final
//! block only the asked rows have queries, an output projection and an MLP.

use crate::attention::{AttentionQuery, HeadMean, Heads, attend, attend_by_ops};
use crate::config::{Config, Family};
use crate::error::{Computed, Result};
use crate::kernels::{Kernels, rotate, swiglu, with_slice};
use crate::load_options::LoadOptions;
use crate::matrix::{Matrix, tensor_bytes};
use crate::tensor_list;
use crate::timing::Timing;
use crate::weights::{Layout, Weights};
use candle_core::{DType, Device, Tensor};
use candle_nn::ops::{rms_norm, silu};
use candle_nn::rotary_emb::rope;
use rayon::prelude::*;
use std::time::{Duration, Instant};

/// The weights of a model, and its forward pass.
pub struct Transformer {
    config: Config,
    embedding: Tensor, // [vocab, hidden]
    blocks: Vec<Block>,
    norm: Tensor,      // [hidden]
    head: Vec<Matrix>, // tiles of up to TILE rows of [vocab, hidden]
    kernels: Kernels,
}

/// Token ids whose logits exist at the same time: 512 rows x 4096 ids are 8 MB.
pub(crate) const TILE: usize = 4096;

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

struct Linear {
    weight: Matrix, // [out, in]
    bias: Option<Tensor>,
}

/// What a forward is asked for.
pub struct ForwardRequest<'a> {
    /// Rows whose final hidden state is wanted, ascending.
    pub rows: &'a [usize],
    /// The attention that is wanted, if any.
    pub attention: Option<AttentionQuery<'a>>,
}

/// Hidden states after the final norm, where they were computed. `[rows, hidden]`
pub struct Hidden(Tensor);

/// What a forward computed.
pub struct Pass {
    /// The states of the asked rows, for [`Transformer::logits`].
    pub hidden: Hidden,
    /// The asked attention, laid out `[key x query]`; with heads apart, `[layer x head x key x query]`.
    pub attention: Option<Vec<f64>>,
    /// How long its parts took.
    pub timing: Timing,
}

impl Transformer {
    /// Takes the tensors it needs, by the layout's names, and converts them one by one: peak memory is the result and one tensor.
    pub fn load(config: Config, weights: &Weights, options: impl Into<LoadOptions>) -> Result<Transformer> {
        tensor_list::check(&config, weights)?;
        Ok(Transformer::convert(config, weights, options.into())?)
    }

    fn convert(config: Config, weights: &Weights, options: LoadOptions) -> Computed<Transformer> {
        let (dtype, device) = (options.dtype.or(weights.default_dtype()), &options.device.open()?);
        let vector =
            |name: &str, n: usize| -> Computed<Tensor> { Ok(weights.stored(name, &[n])?.to_f32()?.to_device(device)?) };
        let Config { hidden, heads, kv_heads, head_dim, mlp, vocab, .. } = config;
        let names = Names::of(config.family, weights.layout());
        let linear = |name: String, out: usize, input: usize, bias: bool| -> Computed<Linear> {
            let bias = bias.then(|| vector(&format!("{name}.bias"), out)).transpose()?;
            let weight = weights.stored(&format!("{name}.weight"), &[out, input])?;
            Ok(Linear { weight: Matrix::load(&weight, dtype)?.onto(device)?, bias })
        };
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
        let embedding = weights.stored(names.embedding, &[vocab, hidden])?.embedding(dtype)?.to_device(device)?;
        let head = weights.stored(if config.tied { names.embedding } else { names.head }, &[vocab, hidden])?;
        let tile = |start| -> Computed<Matrix> {
            let rows = TILE.min(vocab - start);
            if config.tied && embedding.dtype() == DType::F32 {
                // shared, not copied
                Ok(Matrix::F32(embedding.narrow(0, start, rows)?))
            } else {
                Matrix::load(&head.rows(start..start + rows), dtype)?.onto(device)
            }
        };
        let head = (0..vocab).step_by(TILE).map(tile).collect::<Computed<_>>()?;
        Ok(Transformer {
            embedding,
            blocks: (0..config.layers).map(block).collect::<Computed<_>>()?,
            norm: vector(names.norm, hidden)?,
            head,
            config,
            kernels: if device.is_cpu() { Kernels::Slices } else { Kernels::Ops },
        })
    }

    /// The bytes that the weights take in memory.
    pub fn bytes(&self) -> usize {
        let linear = |l: &Linear| l.weight.bytes() + l.bias.as_ref().map_or(0, tensor_bytes);
        let block = |b: &Block| {
            let linears = [&b.q, &b.k, &b.v, &b.o, &b.gate, &b.up, &b.down];
            let norms = [Some(&b.attn_norm), Some(&b.mlp_norm), b.q_norm.as_ref(), b.k_norm.as_ref()];
            norms.into_iter().flatten().map(tensor_bytes).sum::<usize>()
                + linears.into_iter().map(linear).sum::<usize>()
        };
        // A tied f32 head is the embedding itself.
        let shared = self.config.tied && self.embedding.dtype() == DType::F32;
        let head = if shared { 0 } else { self.head.iter().map(Matrix::bytes).sum() };
        tensor_bytes(&self.embedding) + self.blocks.iter().map(block).sum::<usize>() + tensor_bytes(&self.norm) + head
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
        let length = tokens.len();
        let rotary = Rotary::new(&self.config, length);
        let mut mean = ask.attention.as_ref().map(|probe| HeadMean::new(probe, self.config.heads));
        let ids = self.indices(tokens.iter().map(|&token| token as usize))?;
        let mut x = self.embedding.index_select(&ids, 0)?.to_dtype(DType::F32)?; // [length, hidden]
        let every: Vec<usize> = (0..length).collect();
        let (last, body) = self.blocks.split_last().ok_or_else(|| candle_core::Error::Msg("no blocks".into()))?;
        for (i, block) in body.iter().enumerate() {
            let probe = mean.as_mut().and_then(|mean| mean.reads(i).then_some(mean));
            let mixed = self.attend(block, &x, &every, &rotary, probe)?;
            x = self.finish_block(block, x, &mixed)?;
        }
        let probed_body = mean.as_ref().map_or(Duration::ZERO, |mean| mean.spent);
        let body = begun.elapsed();

        // The final block: queries are the asked rows and those whose attention is probed, all else the asked rows.
        let probe = mean.as_mut().and_then(|mean| mean.reads(self.blocks.len() - 1).then_some(mean));
        let mut queries: Vec<usize> = ask.rows.to_vec();
        if let Some(probe) = &probe {
            queries.extend_from_slice(&probe.queries);
            queries.sort_unstable();
            queries.dedup();
        }
        let mut mixed = self.attend(last, &x, &queries, &rotary, probe)?; // [queries, heads · dim]
        if queries.len() != ask.rows.len() {
            let at = ask.rows.iter().map(|row| queries.binary_search(row).unwrap_or_default());
            mixed = mixed.index_select(&self.indices(at)?, 0)?;
        }
        let x = x.index_select(&self.indices(ask.rows.iter().copied())?, 0)?; // [rows, hidden]
        let x = self.finish_block(last, x, &mixed)?;
        let hidden = rms_norm(&x, &self.norm, self.config.rms_eps as f32)?;
        let (attention, probed) = mean.map(HeadMean::finish).unzip();
        let probe = probed.unwrap_or_default();
        let body = body.saturating_sub(probed_body);
        let final_block = begun.elapsed().saturating_sub(body + probe);
        Ok(Pass { hidden: Hidden(hidden), attention, timing: Timing { body, final_block, probe, ..Timing::default() } })
    }

    /// Attention of the asked queries over all keys, before the output projection. `[queries, heads · dim]`
    fn attend(
        &self,
        block: &Block,
        x: &Tensor,
        queries: &[usize],
        rotary: &Rotary,
        mean: Option<&mut HeadMean>,
    ) -> Computed<Tensor> {
        let Config { heads, kv_heads, head_dim, causal, .. } = self.config;
        let cut = Heads { queries: heads, keys: kv_heads, dim: head_dim, causal };
        let length = x.dim(0)?;
        let h = rms_norm(x, &block.attn_norm, self.config.rms_eps as f32)?;
        let every: Vec<usize> = (0..length).collect();
        let h_q = if queries.len() == length {
            h.clone()
        } else {
            h.index_select(&self.indices(queries.iter().copied())?, 0)?
        };
        let q = self.norm_heads(block.q.forward(&h_q, self.kernels)?, block.q_norm.as_ref())?;
        let k = self.norm_heads(block.k.forward(&h, self.kernels)?, block.k_norm.as_ref())?;
        let v = block.v.forward(&h, self.kernels)?;
        match self.kernels {
            Kernels::Slices => {
                let (q, k) = (rotary.slices(&q, queries)?, rotary.slices(&k, &every)?);
                let mixed = with_slice(&v, |v| attend(cut, queries, &q, &k, v, mean))?;
                Ok(Tensor::from_vec(mixed, (queries.len(), heads * head_dim), &Device::Cpu)?)
            }
            Kernels::Ops => {
                let (q, k) = (rotary.ops(&q, queries)?, rotary.ops(&k, &every)?);
                attend_by_ops(cut, queries, (&q, &k, &v), mean)
            }
        }
    }

    /// RMSNorm of every head by itself, where the model has one. `x: [rows, heads · dim]`
    fn norm_heads(&self, x: Tensor, norm: Option<&Tensor>) -> Computed<Tensor> {
        let Some(norm) = norm else { return Ok(x) };
        let shape @ (rows, width) = x.dims2()?;
        let heads = x.reshape((rows * width / self.config.head_dim, self.config.head_dim))?;
        Ok(rms_norm(&heads, norm, self.config.rms_eps as f32)?.reshape(shape)?)
    }

    /// The block's second half: output projection and MLP, each added to the stream. `x: [rows, hidden]`
    fn finish_block(&self, block: &Block, x: Tensor, mixed: &Tensor) -> Computed<Tensor> {
        let x = (x + block.o.forward(mixed, self.kernels)?)?;
        let h = rms_norm(&x, &block.mlp_norm, self.config.rms_eps as f32)?;
        let (gate, up) = (block.gate.forward(&h, self.kernels)?, block.up.forward(&h, self.kernels)?); // [rows, mlp]
        let h = match self.kernels {
            Kernels::Slices => {
                let h = with_slice(&gate, |gate| with_slice(&up, |up| swiglu(gate, up)))??;
                Tensor::from_vec(h, gate.shape(), &Device::Cpu)?
            }
            Kernels::Ops => (silu(&gate)? * up)?,
        };
        Ok((x + block.down.forward(&h, self.kernels)?)?)
    }

    fn indices(&self, positions: impl Iterator<Item = usize>) -> Computed<Tensor> {
        let positions: Vec<u32> = positions.map(|position| position as u32).collect();
        let n = positions.len();
        Ok(Tensor::from_vec(positions, n, self.norm.device())?)
    }

    /// Logits for hidden states, a tile of token ids at a time, in their order: `[rows x ids of the tile]`, flat.
    pub fn logits<'a>(&'a self, hidden: &'a Hidden) -> impl Iterator<Item = Result<Vec<f32>>> + 'a {
        let flat = |tile: &Matrix| -> Computed<Vec<f32>> {
            Ok(tile.forward(&hidden.0, self.kernels)?.flatten_all()?.to_vec1()?)
        };
        self.head.iter().map(move |tile| Ok(flat(tile)?))
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

impl Hidden {
    /// The hidden states as numbers: `[rows][width]`.
    pub fn to_rows(&self) -> Result<Vec<Vec<f32>>> {
        let rows = || -> Computed<Vec<Vec<f32>>> { Ok(self.0.to_vec2()?) };
        Ok(rows()?)
    }

    fn n_rows(&self) -> usize {
        self.0.dims()[0]
    }
}

impl Linear {
    fn forward(&self, x: &Tensor, kernels: Kernels) -> Computed<Tensor> {
        let y = self.weight.forward(x, kernels)?;
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }
}

/// cos and sin of every position's angles. The angle is an f32 product of f32 factors, as in the reference.
struct Rotary {
    cos: Vec<f32>, // [length x half]
    sin: Vec<f32>,
    half: usize, // dim / 2
}

impl Rotary {
    fn new(config: &Config, length: usize) -> Rotary {
        let half = config.head_dim / 2;
        let frequency = |j: usize| 1.0 / (config.rope_theta as f32).powf(2.0 * j as f32 / config.head_dim as f32);
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let angles = (0..length).flat_map(|position| frequencies.iter().map(move |f| position as f32 * f));
        let (cos, sin) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
        Rotary { cos, sin, half }
    }

    /// Rotates rows that stand at `positions`. `x: [positions, heads · dim]`
    fn slices(&self, x: &Tensor, positions: &[usize]) -> Computed<Vec<f32>> {
        let width = x.dim(1)?;
        let mut x = with_slice(x, <[f32]>::to_vec)?;
        x.par_chunks_mut(width).zip(positions).for_each(|(row, position)| {
            let at = position * self.half..(position + 1) * self.half;
            let (cos, sin) = (&self.cos[at.clone()], &self.sin[at]);
            row.chunks_exact_mut(2 * self.half).for_each(|head| rotate(head, cos, sin));
        });
        Ok(x)
    }

    /// As [`slices`](Self::slices), with the tensor library's own operations.
    fn ops(&self, x: &Tensor, positions: &[usize]) -> Computed<Tensor> {
        let (rows, width) = x.dims2()?;
        let table = |values: &[f32]| -> Computed<Tensor> {
            let rows = positions.iter().flat_map(|p| &values[p * self.half..(p + 1) * self.half]);
            Ok(Tensor::from_iter(rows.copied(), x.device())?.reshape((positions.len(), self.half))?)
        };
        let heads = width / (2 * self.half);
        let x = x.reshape((1, rows, heads, 2 * self.half))?.transpose(1, 2)?.contiguous()?;
        let x = rope(&x, &table(&self.cos)?, &table(&self.sin)?)?; // [1, heads, rows, dim]
        Ok(x.transpose(1, 2)?.reshape((rows, width))?)
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
            Family::Dream | Family::Qwen => &Names {
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
