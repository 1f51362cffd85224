//! A trained head that predicts who changes whom, in the spirit of DEMASK: `pair_head.safetensors` beside a checkpoint's weights.
//!
//! ```text
//! q_i = Wq h_i + bq,   k_s = Wk h_s + bk
//! D[i, s] = sigmoid(rope(q_i, i) · rope(k_s, s) / √rank + b)
//! ```
//!
//! h is what the model's own head reads for a position. The first half of q and k is rotated by position, the second is not: what hangs
//! on the distance of two masks, and what does not. To a sampler D is one more matrix of who looks at whom
//! ([`Layers::Learned`](cofill::Layers::Learned)). Trained by `tools/train/pairs.py`, on the tiny models 16 kB.

use crate::error::{Computed, Error, Result};
use crate::files;
use crate::weights::Shard;
use cofill::Attention;
use cofill_kernels::{Buffers, Format, Level, Weights, multiply_rows};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

/// The file of a checkpoint folder that holds the head.
pub(crate) const FILE: &str = "pair_head.safetensors";

/// Base of the rotary angles, as in `tools/train/pairs.py`.
const THETA: f32 = 10_000.0;

/// Ranks beyond this are a damaged file.
const MOST_RANK: usize = 4096;

/// The weights of a head, in f32.
pub(crate) struct PairHead {
    rank: usize,
    q: Projection,
    k: Projection,
    bias: f32,
}

struct Projection {
    weight: Vec<f32>, // [rank x hidden]
    bias: Vec<f32>,   // [rank]
}

/// What `models inspect` says about a head.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PairHeadInfo {
    /// The width of q and k.
    pub rank: usize,
    /// Bytes of its file.
    pub bytes: u64,
    /// SHA-256 of its file, in hex.
    pub sha256: String,
}

impl PairHead {
    /// Reads the head of a folder for a model of this width; `None` if the folder has none.
    pub(crate) fn load(folder: &Path, hidden: usize) -> Result<Option<PairHead>> {
        let path = folder.join(FILE);
        if !files::exists(&path) {
            return Ok(None);
        }
        Ok(Some(PairHead::read(&Shard::open(&path)?, hidden)?))
    }

    /// What is known of the head of a folder without a model; `None` if the folder has none.
    pub(crate) fn info(folder: &Path, hidden: usize) -> Result<Option<PairHeadInfo>> {
        let path = folder.join(FILE);
        let Some(head) = PairHead::load(folder, hidden)? else { return Ok(None) };
        let bytes = files::map(&path)?;
        let sha256 = Sha256::digest(&*bytes).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}"); // writing to a string cannot fail
            hex
        });
        Ok(Some(PairHeadInfo { rank: head.rank, bytes: bytes.len() as u64, sha256 }))
    }

    fn read(file: &Shard, hidden: usize) -> Computed<PairHead> {
        let rank = file.shape("q.bias").and_then(|shape| shape.first().copied()).unwrap_or(0);
        if rank == 0 || rank > MOST_RANK || !rank.is_multiple_of(4) {
            // A half is rotated, and rotation pairs its entries.
            let problem = format!("`q.bias` has {rank} entries, but must have a multiple of 4, at most {MOST_RANK}");
            return Err(Error::Malformed { path: file.path().into(), problem }.into());
        }
        let numbers = |name: &str, want: &[usize]| -> Computed<Vec<f32>> {
            let missing = || Error::Missing { path: file.path().into(), what: format!("tensor `{name}`") };
            let stored = file.tensor(name, want)?.ok_or_else(missing)?;
            if stored.shape != want {
                let (path, got, want) = (file.path().into(), stored.shape, want.to_vec());
                return Err(Error::Shape { path, name: name.into(), want, got }.into());
            }
            Ok(stored.to_f32()?.flatten_all()?.to_vec1()?) // refuses what is not finite
        };
        let projection = |name: &str| -> Computed<Projection> {
            let weight = numbers(&format!("{name}.weight"), &[rank, hidden])?;
            Ok(Projection { weight, bias: numbers(&format!("{name}.bias"), &[rank])? })
        };
        Ok(PairHead { rank, q: projection("q")?, k: projection("k")?, bias: numbers("bias", &[1])?[0] })
    }

    /// D among some positions, from what the model's head reads for each. `hidden: [positions x hidden]`
    pub(crate) fn influence(&self, positions: &[usize], hidden: &[f32]) -> Attention {
        let n = positions.len();
        let turned = |projection: &Projection| {
            let mut rows = projection.apply(n, hidden); // [positions x rank]
            rows.chunks_exact_mut(self.rank).zip(positions).for_each(|(row, &position)| self.rotate(row, position));
            rows
        };
        let (q, k) = (turned(&self.q), turned(&self.k));
        let mut logits = vec![0.0; n * n]; // [query x key], but for the bias
        let scale = 1.0 / (self.rank as f32).sqrt();
        product(&q, (&k, (n, self.rank)), None, &mut logits);
        logits.iter_mut().for_each(|x| *x *= scale);
        let sigmoid = |logit: f32| 1.0 / (1.0 + (-f64::from(logit)).exp());
        Attention::from_fn(n, |query, key| sigmoid(logits[query * n + key] + self.bias))
    }

    /// Turns the first half of a vector by its position: entries j and j + rank/4 are a pair.
    fn rotate(&self, x: &mut [f32], position: usize) {
        let (half, pairs) = (self.rank / 2, self.rank / 4);
        for j in 0..pairs {
            let angle = position as f32 * THETA.powf(-2.0 * j as f32 / half as f32);
            let (a, b) = (x[j], x[j + pairs]);
            x[j] = a * angle.cos() - b * angle.sin();
            x[j + pairs] = b * angle.cos() + a * angle.sin();
        }
    }
}

impl Projection {
    /// W h + b of every row. `h: [n x hidden]` -> `[n x rank]`
    fn apply(&self, n: usize, h: &[f32]) -> Vec<f32> {
        let rank = self.bias.len();
        let width = self.weight.len() / rank;
        let mut out = vec![0.0; n * rank];
        product(h, (&self.weight, (rank, width)), Some(&self.bias), &mut out);
        out
    }
}

/// `y = x Wᵀ + b`, with `x: [n x width]` and `w: [out x width]`.
fn product(x: &[f32], (w, shape): (&[f32], (usize, usize)), bias: Option<&[f32]>, y: &mut [f32]) {
    let weights = Weights::new(Format::F32, shape, bytemuck::cast_slice(w));
    multiply_rows(Level::best(), x, weights, bias, y, &Buffers::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 4 on a hidden state of one number: entries 0 and 1 are a pair that turns, 2 and 3 stay.
    fn head(q: [f32; 4], k: [f32; 4]) -> PairHead {
        let projection = |weight: [f32; 4]| Projection { weight: weight.to_vec(), bias: vec![0.0; 4] };
        PairHead { rank: 4, q: projection(q), k: projection(k), bias: 0.5 }
    }

    #[test]
    fn what_is_not_rotated_is_a_product() {
        // √4 = 2; queries are 3 h, keys 2 h, so D[i, s] = sigmoid(3 h_i · 2 h_s / 2 + .5).
        let d = head([0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 2.0, 0.0]).influence(&[5, 90], &[1.0, -0.5]);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!((d.get(0, 1) - sigmoid(-1.5 + 0.5)).abs() < 1e-6);
        assert!((d.get(1, 1) - sigmoid(0.75 + 0.5)).abs() < 1e-6);
    }

    #[test]
    fn what_is_rotated_hangs_on_the_distance_alone() {
        // With one frequency, 1: q·k = cos(i − s). At distances 0 and 2 that is 1 and cos 2.
        let head = head([1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]);
        let d = head.influence(&[3, 5, 40, 42], &[1.0; 4]);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!((d.get(0, 1) - sigmoid(2f64.cos() / 2.0 + 0.5)).abs() < 1e-6);
        assert!((d.get(0, 1) - d.get(2, 3)).abs() < 1e-6 && (d.get(0, 1) - d.get(1, 0)).abs() < 1e-6);
        assert!((d.get(0, 0) - sigmoid(0.5 + 0.5)).abs() < 1e-6);
    }
}
