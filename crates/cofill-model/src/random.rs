//! Models with random weights, of any size, to measure speed and memory with.

use crate::config::{Config, Family, MOST};
use crate::error::{Error, Result};
use crate::stored::StoredTensor;
use crate::{LoadOptions, Model, Transformer, Weights};
use candle_core::quantized::GgmlDType;
use half::bf16;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::borrow::Cow;
use std::path::Path;

/// The sizes of a model with random weights.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Width of the residual stream.
    pub hidden: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The number of query heads, and of key heads.
    pub heads: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Rows of the embedding and of the head; the last is the mask, the one before it end of text.
    pub vocab: usize,
    /// The most positions of a canvas.
    pub context: usize,
}

/// More weights than any machine holds; a mistyped size should be an error, not an attempt.
const MOST_WEIGHTS: u128 = 1_000_000_000_000;

impl Sizes {
    /// LLaDA's architecture with these sizes; refuses sizes that no model can have.
    pub fn config(self) -> Result<Config> {
        let Sizes { hidden, layers, heads, mlp, vocab, context } = self;
        let wrong = |problem: &str| Err(Error::Sizes { problem: problem.into() });
        if [hidden, layers, heads, mlp, context].contains(&0) || vocab < 3 {
            return wrong("every size must be at least 1, and the vocabulary at least 3");
        }
        if let Some(size) = [hidden, layers, heads, mlp, vocab, context].into_iter().find(|&size| size as u64 > MOST) {
            return wrong(&format!("{size} is more than {MOST}"));
        }
        let weights = 4 * (hidden * hidden) as u128 + 3 * (hidden * mlp) as u128;
        let weights = layers as u128 * weights + 2 * (vocab * hidden) as u128;
        if weights > MOST_WEIGHTS {
            return wrong(&format!("{weights} weights are more than {MOST_WEIGHTS}"));
        }
        if !hidden.is_multiple_of(2 * heads) {
            return wrong(&format!("a width of {hidden} cannot be split over {heads} heads of even width"));
        }
        Ok(Config {
            family: Family::Llada,
            hidden,
            layers,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            mlp,
            vocab,
            rope_theta: 500_000.0,
            rms_eps: 1e-5,
            qkv_bias: false,
            o_bias: false,
            qk_norm: false,
            tied: false,
            shift: false,
            causal: false,
            context,
            mask_id: vocab as u32 - 1,
            eos_id: vocab as u32 - 2,
            encoder: None,
        })
    }
}

impl Model {
    /// LLaDA's architecture with random weights.
    pub fn random(sizes: Sizes, options: impl Into<LoadOptions>, seed: u64) -> Result<Model> {
        Ok(Model::new(Transformer::load(sizes.config()?, &Weights::random(seed), options)?))
    }
}

/// The tensor of this name: the same numbers for the same seed, whatever was read before it. In bf16, as models are published.
///
/// Matrices are uniform with variance 1 / inputs, so that activations keep their size from layer to layer. Norms are 1.
pub(crate) fn tensor<'a>(seed: u64, path: &'a Path, name: &str, shape: &[usize]) -> StoredTensor<'a> {
    let n: usize = shape.iter().product();
    let bytes = match shape {
        [_, inputs] => uniform(seed, name, n, (3.0 / *inputs as f32).sqrt()),
        _ if name.ends_with(".bias") => uniform(seed, name, n, 0.1),
        _ => bf16::ONE.to_le_bytes().repeat(n),
    };
    StoredTensor {
        path,
        name: name.into(),
        dtype: GgmlDType::BF16,
        shape: shape.to_vec(),
        bytes: Cow::Owned(bytes),
        file: None,
    }
}

/// `n` numbers between -`bound` and `bound`, as bf16.
fn uniform(seed: u64, name: &str, n: usize, bound: f32) -> Vec<u8> {
    // FNV-1a: a stream of its own for every name.
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
    let mut bytes = vec![0; 2 * n];
    random.fill_bytes(&mut bytes);
    // Sixteen random bits are more than a bf16 can tell apart.
    for pair in bytes.as_chunks_mut::<2>().0 {
        let share = f32::from(i16::from_le_bytes(*pair)) / 32_768.0;
        *pair = bf16::from_f32(share * bound).to_le_bytes();
    }
    bytes
}
