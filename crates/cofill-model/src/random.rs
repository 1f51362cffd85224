//! Weights nobody trained: a checkpoint of any size, to measure with.

use crate::config::{Config, Family};
use crate::error::{Error, Result};
use crate::{Model, Precision, Transformer, Weights};
use candle_core::{Device, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How large a model to make up.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Heads, of queries as of keys.
    pub heads: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Rows of the embedding and of the head; the last is the mask, the one before it end of text.
    pub vocab: usize,
    /// The most positions.
    pub context: usize,
}

impl Model {
    /// LLaDA's architecture with random weights.
    pub fn random(sizes: Sizes, precision: Precision, seed: u64) -> Result<Model> {
        let Sizes { hidden, layers, heads, mlp, vocab, context } = sizes;
        let wrong = |problem: &str| Err(Error::Sizes { problem: problem.into() });
        if [hidden, layers, heads, mlp, context].contains(&0) || vocab < 3 {
            return wrong("every size must be at least 1, and the vocabulary at least 3");
        }
        if !hidden.is_multiple_of(2 * heads) {
            return wrong(&format!("a width of {hidden} cannot be split over {heads} heads of even width"));
        }
        let config = Config {
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
            context,
            mask_id: vocab as u32 - 1,
            eos_id: vocab as u32 - 2,
        };
        Ok(Model::new(Transformer::load(config, &Weights::random(seed), precision)?))
    }
}

/// The tensor of this name: the same numbers for the same seed, whatever was read before it.
///
/// Matrices are uniform with variance 1 / inputs, so that activations keep their size from layer to layer. Norms are 1.
pub(crate) fn tensor(seed: u64, name: &str, shape: &[usize]) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let values = match shape {
        [_, inputs] => uniform(seed, name, n, (3.0 / *inputs as f32).sqrt()),
        _ if name.ends_with(".bias") => uniform(seed, name, n, 0.1),
        _ => vec![1.0; n],
    };
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// Uniform in ±`bound`.
fn uniform(seed: u64, name: &str, n: usize, bound: f32) -> Vec<f32> {
    // FNV-1a: a stream of its own for every name.
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    // 24 random bits are what an f32 in [0, 1) can hold.
    (0..n).map(|_| ((random.next_u32() >> 8) as f32 / 8_388_608.0 - 1.0) * bound).collect()
}
