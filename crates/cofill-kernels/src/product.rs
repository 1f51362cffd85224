//! Products of activations with matrices: `y = x Wᵀ`, a tile of W's rows at a time.
//!
//! A tile is one task: one thread unpacks it and multiplies it with all rows, so that no sum depends on the number of threads.

use crate::buffers::Buffers;
use crate::coded::{self, Tile};
use crate::elementwise::swiglu;
use crate::format::{Format, Packed, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use crate::rows::Activations;
use crate::tile::{Scratch, unpack, widen};
use crate::wide::{Order, Rows, Sums, multiply as multiply_wide};
use crate::{COLUMNS, GROUP, Level};
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// A matrix where it lies: `out` rows of `width` weights.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    format: Format,
    out: usize,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Weights<'a> {
    /// Rows one after the other in `bytes`. Panics unless there are as many bytes as `out` rows of whole blocks have.
    pub fn new(format: Format, (out, width): (usize, usize), bytes: &'a [u8]) -> Weights<'a> {
        assert!(width.is_multiple_of(format.block().0), "rows of {width} do not fit blocks of {format:?}");
        assert_eq!(bytes.len(), out * format.row_bytes(width), "a matrix leaves its shape");
        Weights { format, out, width, bytes }
    }

    /// How many outputs it has, and how wide its rows are.
    pub fn shape(&self) -> (usize, usize) {
        (self.out, self.width)
    }

    /// A row as f32.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.width, "a row leaves its shape");
        let bytes = self.format.row_bytes(self.width);
        self.format.widen(&self.bytes[row * bytes..][..bytes], out);
    }

    fn tiles(&self) -> usize {
        self.out.div_ceil(COLUMNS)
    }

    fn columns(&self, tile: usize) -> Range<usize> {
        tile * COLUMNS..self.out.min((tile + 1) * COLUMNS)
    }

    fn rows(&self, columns: Range<usize>) -> [&'a [u8]; COLUMNS] {
        let row = self.format.row_bytes(self.width);
        let mut rows: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        rows.iter_mut().zip(columns).for_each(|(slot, column)| *slot = &self.bytes[column * row..][..row]);
        rows
    }
}

/// One of several products with the same activations.
pub struct Product<'w, 'y> {
    /// The matrix.
    pub weights: Weights<'w>,
    /// What is added to every row, if anything. `[out]`
    pub bias: Option<&'w [f32]>,
    /// Where it goes. `[rows][out]`
    pub y: &'y mut [f32],
    /// Whether it is added to what stands there, as a residual is.
    pub add: bool,
}

/// Computes the product of rows that lie one after the other: `x: [rows][width]`, `y: [rows][out]`.
pub fn multiply_rows(
    level: Level,
    x: &[f32],
    weights: Weights<'_>,
    bias: Option<&[f32]>,
    y: &mut [f32],
    buffers: &Buffers,
) {
    let x = Activations::of_rows(level, x, weights.width, buffers);
    multiply(&x, &mut [Product { weights, bias, y, add: false }]);
}

/// Computes products of the same rows with several matrices.
pub fn multiply(x: &Activations<'_>, products: &mut [Product<'_, '_>]) {
    let (rows, width) = x.shape();
    let mut tasks = Vec::new();
    let mut places = Vec::new();
    for (i, product) in products.iter_mut().enumerate() {
        let (out, w) = product.weights.shape();
        assert_eq!(w, width, "a matrix does not fit its activations");
        assert!(product.bias.is_none_or(|bias| bias.len() == out), "a bias does not fit its matrix");
        places.push(Place::new(product.y, rows, out));
        tasks.extend((0..product.weights.tiles()).map(|tile| (i, tile)));
        x.lay_out(product.weights.format);
    }
    let products: &[Product<'_, '_>] = products;
    let work = rows * width * tasks.len() * COLUMNS;
    for_each(work, tasks.len(), |task| {
        let (i, tile) = tasks[task];
        let Product { weights, bias, add, .. } = products[i];
        with_workspace(|work| {
            multiply_tile(x, weights, tile, &mut work.unpacking, &mut work.y);
            let columns = weights.columns(tile);
            for (r, sums) in work.y.chunks_exact_mut(COLUMNS).enumerate().take(rows) {
                let sums = &mut sums[..columns.len()];
                if let Some(bias) = bias {
                    sums.iter_mut().zip(&bias[columns.clone()]).for_each(|(sum, bias)| *sum += bias);
                }
                // SAFETY: no other task has these columns.
                #[allow(unsafe_code)]
                let y = unsafe { places[i].part(r, columns.clone()) };
                match add {
                    true => y.iter_mut().zip(sums).for_each(|(y, sum)| *y += *sum),
                    false => y.copy_from_slice(sums),
                }
            }
        });
    });
}

/// `y = silu(x Gᵀ) · (x Uᵀ)`, `[rows][out]`, without writing down either product.
pub fn multiply_gated(x: &Activations<'_>, gate: Weights<'_>, up: Weights<'_>, y: &mut [f32]) {
    let (rows, width) = x.shape();
    assert_eq!(gate.shape(), up.shape(), "gate and up differ in shape");
    assert_eq!(gate.width, width, "a matrix does not fit its activations");
    let place = Place::new(y, rows, gate.out);
    x.lay_out(gate.format);
    x.lay_out(up.format);
    for_each(2 * rows * width * gate.out, gate.tiles(), |tile| {
        with_workspace(|work| {
            multiply_tile(x, gate, tile, &mut work.unpacking, &mut work.y);
            multiply_tile(x, up, tile, &mut work.unpacking, &mut work.second);
            let columns = gate.columns(tile);
            let both = work.y.chunks_exact(COLUMNS).zip(work.second.chunks_exact(COLUMNS));
            for (r, (gate, up)) in both.enumerate().take(rows) {
                // SAFETY: no other task has these columns.
                #[allow(unsafe_code)]
                let y = unsafe { place.part(r, columns.clone()) };
                swiglu(&gate[..columns.len()], &up[..columns.len()], y);
            }
        });
    });
}

/// Multiply-adds below which handing work to other threads costs more than it saves.
const SMALL: usize = 1 << 19;

/// Runs tasks of so many multiply-adds together, on all threads if they are worth it.
fn for_each(work: usize, tasks: usize, task: impl Fn(usize) + Sync + Send) {
    match work < SMALL {
        true => (0..tasks).for_each(task),
        false => (0..tasks).into_par_iter().for_each(task),
    }
}

/// A matrix of which every task writes its own columns.
struct Place {
    y: *mut f32,
    rows: usize,
    out: usize,
}

// SAFETY: whoever writes has columns of its own, see `part`.
#[allow(unsafe_code)]
unsafe impl Send for Place {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Place {}

impl Place {
    fn new(y: &mut [f32], rows: usize, out: usize) -> Place {
        assert_eq!(y.len(), rows * out, "a product leaves its shape");
        Place { y: y.as_mut_ptr(), rows, out }
    }

    /// # Safety
    ///
    /// Nobody else has these columns of this row, and the matrix outlives what is returned.
    #[allow(unsafe_code, clippy::mut_from_ref)]
    unsafe fn part(&self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(row < self.rows && columns.end <= self.out, "a part leaves its matrix");
        // SAFETY: inside the matrix, by the assertion; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.y.add(row * self.out + columns.start), columns.len()) }
    }
}

/// What a thread keeps from tile to tile.
#[derive(Default)]
struct Workspace {
    unpacking: Unpacking,
    y: Vec<f32>,      // [rows, in whole groups][COLUMNS]
    second: Vec<f32>, // the same, of the other one of a pair
}

#[derive(Default)]
struct Unpacking {
    coded: Tile,
    wide: Vec<f32>, // [at most DEPTH][COLUMNS]
    scratch: Scratch,
}

fn with_workspace(with: impl FnOnce(&mut Workspace)) {
    thread_local! {
        static WORKSPACE: RefCell<Workspace> = RefCell::default();
    }
    // Nothing inside hands work to other threads, so no second task begins on this one meanwhile.
    WORKSPACE.with_borrow_mut(with);
}

/// Entries of k that are multiplied at a time in f32: of a tile, 32 KB, which stay in the first cache.
const DEPTH: usize = 256;

/// All rows with one tile: `y: [rows, in whole groups][COLUMNS]`.
fn multiply_tile(x: &Activations<'_>, weights: Weights<'_>, tile: usize, work: &mut Unpacking, y: &mut Vec<f32>) {
    let columns = weights.columns(tile);
    let all = weights.rows(columns.clone());
    let tile = &all[..columns.len()];
    let groups = x.shape().0.div_ceil(GROUP);
    if y.len() != groups * GROUP * COLUMNS {
        y.clear();
        y.resize(groups * GROUP * COLUMNS, 0.0);
    }
    match weights.format {
        Format::F32 | Format::F16 | Format::Bf16 | Format::Q2K | Format::Q3K => wide_tile(x, weights, tile, work, y),
        Format::Q4_0 => coded_tile::<Q4_0>(x, tile, work, y),
        Format::Q4_1 => coded_tile::<Q4_1>(x, tile, work, y),
        Format::Q5_0 => coded_tile::<Q5_0>(x, tile, work, y),
        Format::Q5_1 => coded_tile::<Q5_1>(x, tile, work, y),
        Format::Q8_0 => coded_tile::<Q8_0>(x, tile, work, y),
        Format::Q4K => coded_tile::<Q4K>(x, tile, work, y),
        Format::Q5K => coded_tile::<Q5K>(x, tile, work, y),
        Format::Q6K => coded_tile::<Q6K>(x, tile, work, y),
    }
}

fn wide_tile(x: &Activations<'_>, weights: Weights<'_>, tile: &[&[u8]], work: &mut Unpacking, y: &mut [f32]) {
    let (rows, width) = x.shape();
    for start in (0..width).step_by(DEPTH) {
        let depth = DEPTH.min(width - start);
        work.wide.resize(depth * COLUMNS, 0.0);
        widen(x.level(), weights.format, tile, start, &mut work.wide);
        for (group, y) in y.chunks_exact_mut(GROUP * COLUMNS).enumerate() {
            let x_group = &x.wide_group(group)[start * GROUP..(start + depth) * GROUP];
            let rows = Rows { x: x_group, rows: GROUP.min(rows - group * GROUP), order: Order::Interleaved };
            multiply_wide(x.level(), rows, &work.wide, Sums { y, stride: COLUMNS, add: start > 0 });
        }
    }
}

fn coded_tile<P: Packed>(x: &Activations<'_>, tile: &[&[u8]], work: &mut Unpacking, y: &mut [f32]) {
    let (rows, width) = x.shape();
    let level: Level = x.level();
    unpack::<P>(level, tile, width, &mut work.scratch, &mut work.coded);
    for (group, y) in y.chunks_exact_mut(GROUP * COLUMNS).enumerate() {
        let rows = GROUP.min(rows - group * GROUP);
        coded::multiply::<P::Codes>(level, width, rows, x.coded_group(group), &work.coded, y);
    }
}
