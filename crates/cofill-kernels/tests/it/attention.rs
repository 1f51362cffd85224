//! `softmax(q kᵀ / √d) v` against plain loops in f64.

use crate::{Noise, levels};
use cofill_kernels::{Buffers, CHUNK, Heads, Level, Sight, attend};

struct Case {
    heads: Heads,
    positions: Vec<usize>,
    length: usize,
}

fn run(level: Level, case: &Case, (q, k, v): (&[f32], &[f32], &[f32])) -> (Vec<f32>, Vec<Vec<f32>>) {
    let mut out = vec![f32::NAN; q.len()];
    let mut read: Vec<Vec<f32>> = case.positions.iter().map(|_| vec![0.0; case.length]).collect();
    let readers: Vec<&mut [Vec<f32>]> = read.chunks_mut(CHUNK).collect();
    attend(level, case.heads, &case.positions, (q, k, v), &Buffers::default(), &mut out, readers, |rows, p| {
        for (i, row) in rows.iter_mut().enumerate() {
            row.iter_mut().zip(p.row(i)).for_each(|(sum, p)| *sum += p / case.heads.queries as f32);
        }
    });
    (out, read)
}

#[test]
fn attention_is_what_it_stands_for_at_every_level() {
    let sights = [Sight::Everywhere, Sight::Before, Sight::Within(3)];
    // Grouped heads, widths below, at and above a tile, lengths around tiles, rows around groups and chunks.
    for (i, (queries, keys, dim, length)) in
        [(4, 2, 16, 33), (2, 2, 64, 64), (3, 1, 40, 7), (2, 1, 128, 90)].into_iter().enumerate()
    {
        for sight in sights {
            let heads = Heads { queries, keys, dim, sight };
            let positions: Vec<usize> = (0..length).filter(|p| i % 2 == 1 || p % 3 != 1).collect();
            let case = Case { heads, positions, length };
            let mut noise = Noise(i as u32 + 1);
            let q: Vec<f32> = noise.numbers(case.positions.len() * queries * dim).iter().map(|q| 4.0 * q).collect();
            let (k, v) = (noise.numbers(length * keys * dim), noise.numbers(length * keys * dim));
            let (want, want_read) = run(Level::Scalar, &case, (&q, &k, &v));
            for level in levels() {
                assert!((want.clone(), want_read.clone()) == run(level, &case, (&q, &k, &v)), "{level}: other bits");
            }
            for (row, &position) in case.positions.iter().enumerate() {
                let mut mean = vec![0.0; length];
                for head in 0..queries {
                    let (q, kv) = (&q[(row * queries + head) * dim..][..dim], head / (queries / keys));
                    let at = |x: &[f32], p: usize, j: usize| f64::from(x[(p * keys + kv) * dim + j]);
                    let score =
                        |p: usize| (0..dim).map(|j| f64::from(q[j]) * at(&k, p, j)).sum::<f64>() / (dim as f64).sqrt();
                    let seen = sight.of(position, length);
                    let weights: Vec<f64> =
                        (0..length).map(|p| if seen.contains(&p) { score(p).exp() } else { 0.0 }).collect();
                    let total: f64 = weights.iter().sum();
                    (0..length).for_each(|p| mean[p] += weights[p] / total / queries as f64);
                    for j in 0..dim {
                        let mixed: f64 = (0..length).map(|p| weights[p] / total * at(&v, p, j)).sum();
                        let got = f64::from(want[(row * queries + head) * dim + j]);
                        assert!((got - mixed).abs() < 1e-5, "{got}, {mixed}");
                    }
                }
                for (got, want) in want_read[row].iter().zip(mean) {
                    assert!((f64::from(*got) - want).abs() < 1e-6, "{got}, {want}");
                }
            }
        }
    }
}
