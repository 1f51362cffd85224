//! The loops of a transformer's forward, on the CPU.
//!
//! A step of a diffusion model is a prefill: hundreds of rows meet every weight, so a product is worth what its innermost loop is worth. Here a
//! tile of [`COLUMNS`] rows of weights is unpacked once, into the cache, and multiplied with all rows of activations, [`GROUP`] at a time:
//! in f32 for f32, f16 and bf16 weights, in whole numbers of 8 bits for quantised ones. Weights stay as the file has them; nothing keeps
//! a second copy.
//!
//! Every loop is written for plain Rust and for the instructions that somebody has run it on ([`Level`]); all levels give the same bits. So does
//! every number of threads, and what a row gets does not depend on the rows beside it.
//!
//! The crate knows no model and no tensor library. All `unsafe` of forwards is here.

mod attention;
mod buffers;
mod coded;
mod elementwise;
mod format;
mod level;
mod product;
mod rows;
mod tile;
mod wide;

pub use attention::{CHUNK, Heads, Probabilities, Sight, attend};
pub use buffers::Buffers;
pub use elementwise::{gelu, gelu_tanh, layer_norm, rms_norm, rotate, softmax, swiglu};
pub use format::Format;
pub use level::Level;
pub use product::{Product, Weights, multiply, multiply_gated, multiply_rows};
pub use rows::Activations;

/// Rows of activations that meet a tile together.
pub const GROUP: usize = 12;

/// Rows of weights in a tile: columns of a product.
pub const COLUMNS: usize = 32;
