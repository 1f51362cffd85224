//! `y = x Wᵀ`.

use crate::{FORMATS, Noise, levels};
use cofill_kernels::{Activations, Buffers, Format, Level, Product, Weights, multiply, multiply_gated, multiply_rows};

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|y| y.to_bits()).collect()
}

fn product(level: Level, x: &[f32], weights: Weights<'_>) -> Vec<f32> {
    let mut y = vec![f32::NAN; x.len() / weights.shape().1 * weights.shape().0];
    multiply_rows(level, x, weights, None, &mut y, &Buffers::default());
    y
}

/// Shapes around the edges of groups (12 rows), tiles (32 columns) and blocks: (rows, out, width in blocks of 256).
const SHAPES: [(usize, usize, usize); 8] =
    [(1, 1, 1), (2, 31, 1), (5, 32, 2), (11, 33, 1), (12, 64, 1), (13, 5, 2), (25, 70, 1), (40, 96, 3)];

#[test]
fn every_level_gives_the_bits_of_the_scalar_one() {
    let mut noise = Noise(1);
    for format in FORMATS {
        for (rows, out, blocks) in SHAPES {
            let width = 256 * blocks;
            let x: Vec<f32> = noise.numbers(rows * width).iter().map(|x| x * x * x * 30.0).collect();
            let bytes = noise.weights(format, out * width);
            let weights = Weights::new(format, (out, width), &bytes);
            let want = bits(&product(Level::Scalar, &x, weights));
            for level in levels() {
                assert!(bits(&product(level, &x, weights)) == want, "{level}, {format:?}, {rows} x {out} x {width}");
            }
        }
    }
}

#[test]
fn products_are_what_they_stand_for() {
    let mut noise = Noise(2);
    for format in FORMATS {
        let (rows, out, width) = (13, 37, 512);
        let x = noise.numbers(rows * width);
        let bytes = noise.weights(format, out * width);
        let weights = Weights::new(format, (out, width), &bytes);
        let y = product(Level::best(), &x, weights);
        let mut w = vec![0.0f32; width];
        for column in 0..out {
            weights.row(column, &mut w);
            for row in 0..rows {
                let terms = x[row * width..][..width].iter().zip(&w).map(|(x, w)| f64::from(*x) * f64::from(*w));
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term * term));
                // Rounding x to 8 bits errs by up to 1/254 of the largest of 32, which is at most 1 here; errors of 512 terms add up as noise.
                let largest = f64::from(w.iter().fold(0.0f32, |a, b| a.max(b.abs())));
                let tolerance = match format.is_coded() {
                    true => 5.0 * largest / 254.0 * (width as f64 / 3.0).sqrt(),
                    false => 1e-5 * f64::sqrt(size) + 1e-6,
                };
                let got = f64::from(y[row * out + column]);
                assert!((got - sum).abs() <= tolerance, "{format:?}: {got}, {sum} +- {tolerance}");
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours_or_threads() {
    let mut noise = Noise(3);
    for format in FORMATS {
        let (rows, out, width) = (29, 96, 768);
        let x = noise.numbers(rows * width);
        let bytes = noise.weights(format, out * width);
        let weights = Weights::new(format, (out, width), &bytes);
        for level in levels() {
            let all = product(level, &x, weights);
            for row in [0, 11, 12, 28] {
                let alone = product(level, &x[row * width..(row + 1) * width], weights);
                assert_eq!(bits(&alone), bits(&all[row * out..(row + 1) * out]), "{level}, {format:?}");
            }
            let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            assert_eq!(bits(&three.install(|| product(level, &x, weights))), bits(&all), "{level}, {format:?}");
        }
    }
}

#[test]
fn widths_need_not_be_multiples_of_anything_without_blocks() {
    let mut noise = Noise(4);
    for width in [1, 2, 7, 9, 33, 255, 257, 300] {
        for format in [Format::F32, Format::F16, Format::Bf16] {
            let x = noise.numbers(14 * width);
            let bytes = noise.weights(format, 40 * width);
            let weights = Weights::new(format, (40, width), &bytes);
            let want = bits(&product(Level::Scalar, &x, weights));
            for level in levels() {
                assert!(bits(&product(level, &x, weights)) == want, "{level}, {format:?}, {width}");
            }
        }
    }
    let (none, no_bytes) = ([0.0; 0], [0u8; 0]);
    assert!(product(Level::best(), &none, Weights::new(Format::F32, (0, 4), &no_bytes)).is_empty());
}

#[test]
fn several_products_at_once_are_those_one_by_one_and_biases_and_residuals_are_added() {
    let mut noise = Noise(5);
    let (rows, width) = (17, 256);
    let x = noise.numbers(rows * width);
    let sizes = [(64, Format::Q4K), (32, Format::F16), (96, Format::Q6K)];
    let matrices: Vec<Vec<u8>> = sizes.iter().map(|(out, format)| noise.weights(*format, out * width)).collect();
    let weights: Vec<Weights<'_>> =
        sizes.iter().zip(&matrices).map(|((out, format), bytes)| Weights::new(*format, (*out, width), bytes)).collect();
    let buffers = Buffers::default();
    let fill = |row: usize, to: &mut [f32]| to.copy_from_slice(&x[row * width..][..width]);
    let bias = noise.numbers(32);
    let mut ys: Vec<Vec<f32>> = sizes.iter().map(|(out, _)| vec![1.0; rows * out]).collect();
    let together = Activations::new(Level::best(), (rows, width), &fill, &buffers);
    let [a, b, c] = &mut ys[..] else { panic!("three") };
    multiply(
        &together,
        &mut [
            Product { weights: weights[0], bias: None, y: a, add: false },
            Product { weights: weights[1], bias: Some(&bias), y: b, add: false },
            Product { weights: weights[2], bias: None, y: c, add: true },
        ],
    );
    let alone: Vec<Vec<f32>> = weights.iter().map(|weights| product(Level::best(), &x, *weights)).collect();
    assert_eq!(bits(&ys[0]), bits(&alone[0]));
    let biased: Vec<f32> = alone[1].iter().enumerate().map(|(i, y)| y + bias[i % 32]).collect();
    assert_eq!(bits(&ys[1]), bits(&biased));
    let added: Vec<f32> = alone[2].iter().map(|y| 1.0 + y).collect();
    assert_eq!(bits(&ys[2]), bits(&added));
}

#[test]
fn a_gated_product_is_both_products_and_the_gate() {
    let mut noise = Noise(6);
    let (rows, out, width) = (30, 50, 256);
    let x = noise.numbers(rows * width);
    let (gate, up) = (noise.weights(Format::Q4K, out * width), noise.weights(Format::Q8_0, out * width));
    let gate = Weights::new(Format::Q4K, (out, width), &gate);
    let up = Weights::new(Format::Q8_0, (out, width), &up);
    let fill = |row: usize, to: &mut [f32]| to.copy_from_slice(&x[row * width..][..width]);
    let buffers = Buffers::default();
    let mut y = vec![f32::NAN; rows * out];
    multiply_gated(&Activations::new(Level::best(), (rows, width), &fill, &buffers), gate, up, &mut y);
    let (gate, up) = (product(Level::best(), &x, gate), product(Level::best(), &x, up));
    for ((y, gate), up) in y.iter().zip(gate).zip(up) {
        let want = f64::from(gate) / (1.0 + f64::exp(-f64::from(gate))) * f64::from(up);
        assert!((f64::from(*y) - want).abs() <= 1e-6 * want.abs().max(1e-3), "{y}, {want}");
    }
}

#[test]
fn what_is_not_a_number_stays_that() {
    for format in FORMATS {
        let bytes = Noise(7).weights(format, 32 * 256);
        let weights = Weights::new(format, (32, 256), &bytes);
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = vec![0.5; 3 * 256];
            x[256 + 100] = bad;
            for level in levels() {
                let y = product(level, &x, weights);
                // Not every column: 0 times ∞ is NaN, but a weight of another sign makes −∞.
                assert!(y[32..64].iter().all(|y| !y.is_finite()), "{level}, {format:?}");
                assert!(y[..32].iter().chain(&y[64..]).all(|y| y.is_finite()), "{level}, {format:?}");
            }
        }
    }
}
