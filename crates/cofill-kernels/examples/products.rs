//! How fast products are by themselves, beside the most that fused multiply-add could do on this machine.
//!
//! ```text
//! cargo run --release -p cofill-kernels --example products [ROUNDS [FORMAT]]
//! ```
//!
//! Shapes of a block of hidden 1024 and MLP 3072 at 512 positions. The fastest of all rounds counts; a multiply-add is two operations.

// A program that prints, and loops over registers.
#![allow(clippy::print_stdout, clippy::needless_range_loop)]

use cofill_kernels::{Activations, Buffers, Format, Heads, Level, Product, Sight, Weights, attend, multiply};
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const ROWS: usize = 512;
const SHAPES: [(usize, usize); 4] = [(1024, 1024), (3072, 1024), (1024, 3072), (8192, 1024)];
const FORMATS: [Format; 11] = [
    Format::F32,
    Format::F16,
    Format::Bf16,
    Format::Q8_0,
    Format::Q4K,
    Format::Q6K,
    Format::Q5K,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
];

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5);
    let level = Level::best();
    let threads = rayon::current_num_threads();
    let peak = (0..rounds).map(|_| peak(level)).fold(0.0, f64::max);
    println!("{level}, {threads} threads; fused multiply-add in registers: {peak:.0} GFLOP/s");
    let buffers = Buffers::default();
    let mut seed = 1u32;
    let mut noise = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let only = std::env::args().nth(2);
    for format in FORMATS.into_iter().filter(|format| only.as_ref().is_none_or(|only| *only == format!("{format:?}"))) {
        print!("{:<6}", format!("{format:?}"));
        for (out, width) in SHAPES {
            let x: Vec<f32> = (0..ROWS * width).map(|_| noise()).collect();
            let bytes = weights(format, out * width, &mut noise);
            let weights = Weights::new(format, (out, width), &bytes);
            let mut y = vec![0.0; ROWS * out];
            let fill = |row: usize, to: &mut [f32]| to.copy_from_slice(&x[row * width..][..width]);
            let best = (0..rounds).map(|_| {
                let begun = Instant::now();
                let x = Activations::new(level, (ROWS, width), &fill, &buffers);
                multiply(&x, &mut [Product { weights, bias: None, y: &mut y, add: false }]);
                black_box(&y);
                begun.elapsed().as_secs_f64()
            });
            let speed = 2.0 * (ROWS * out * width) as f64 / best.fold(f64::MAX, f64::min) / 1e9;
            print!("  {out}x{width} {speed:5.0} ({:3.0} %)", 100.0 * speed / peak);
        }
        println!();
    }
    let heads = Heads { queries: 16, keys: 16, dim: 64, sight: Sight::Everywhere };
    let [q, k, v] = [(); 3].map(|()| (0..ROWS * 1024).map(|_| noise()).collect::<Vec<f32>>());
    let positions: Vec<usize> = (0..ROWS).collect();
    let mut out = vec![0.0; ROWS * 1024];
    let best = (0..rounds).map(|_| {
        let begun = Instant::now();
        let readers = vec![(); ROWS.div_ceil(cofill_kernels::CHUNK)];
        attend(level, heads, &positions, (&q, &k, &v), &buffers, &mut out, readers, |_, _| ());
        begun.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::MAX, f64::min);
    let speed = 4.0 * (ROWS * ROWS * 1024) as f64 / best / 1e9;
    println!(
        "attention of 16 heads over 512 positions: {:.2} ms, {speed:.0} GFLOP/s ({:.0} %)",
        best * 1e3,
        100.0 * speed / peak
    );
}

/// Bytes of a format that mean numbers of about the usual size.
fn weights(format: Format, n: usize, noise: &mut impl FnMut() -> f32) -> Vec<u8> {
    let half = 0x2800u16.to_le_bytes(); // 1/32
    let (weights, size) = format.block();
    match format {
        Format::F32 => (0..n).flat_map(|_| noise().to_le_bytes()).collect(),
        Format::F16 => (0..n).flat_map(|_| [(noise() * 127.0) as i8 as u8, 0x28]).collect(),
        Format::Bf16 => (0..n).flat_map(|_| ((noise().to_bits() >> 16) as u16).to_le_bytes()).collect(),
        _ => {
            let mut bytes: Vec<u8> = (0..n / weights * size).map(|_| (noise() * 127.0) as i8 as u8).collect();
            let factors: &[usize] = match format {
                Format::Q6K => &[208],
                Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => &[0],
                _ => &[0, 2],
            };
            for block in bytes.chunks_exact_mut(size) {
                factors.iter().for_each(|&at| block[at..at + 2].copy_from_slice(&half));
            }
            bytes
        }
    }
}

/// What fused multiply-add reaches with nothing to load, on all threads.
fn peak(level: Level) -> f64 {
    const STEPS: usize = 2_000_000;
    let threads = rayon::current_num_threads();
    let lanes = if level == Level::Avx512 { 16 } else { 8 };
    let begun = Instant::now();
    (0..threads).into_par_iter().for_each(|_| {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only what the level promises is used.
        #[allow(unsafe_code)]
        unsafe {
            match level {
                Level::Avx512 => x86::wide(STEPS),
                Level::Avx2 => x86::narrow(STEPS),
                Level::Scalar => (),
            }
        }
    });
    2.0 * (STEPS * 12 * lanes * threads) as f64 / begun.elapsed().as_secs_f64() / 1e9
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    #[target_feature(enable = "avx512f")]
    pub(super) fn wide(steps: usize) {
        let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(1.0)));
        let mut sums = [_mm512_setzero_ps(); 12];
        for _ in 0..steps {
            for i in 0..12 {
                sums[i] = _mm512_fmadd_ps(sums[i], a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrow(steps: usize) {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(1.0)));
        let mut sums = [_mm256_setzero_ps(); 12];
        for _ in 0..steps {
            for i in 0..12 {
                sums[i] = _mm256_fmadd_ps(sums[i], a, b);
            }
        }
        black_box(sums);
    }
}
