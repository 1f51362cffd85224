//! How weights lie in memory: the formats of GGUF files, and how a row becomes whole numbers and scales.

use crate::coded::{Codes, Eights, Fives, Fours, Sixes};

/// How the weights of a matrix lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 4 bytes each.
    F32,
    /// Half precision of IEEE 754, finite.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// 32 of 4 bits, and a scale.
    Q4_0,
    /// 32 of 4 bits, a scale and a least weight.
    Q4_1,
    /// 32 of 5 bits, and a scale.
    Q5_0,
    /// 32 of 5 bits, a scale and a least weight.
    Q5_1,
    /// 32 of 8 bits, and a scale.
    Q8_0,
    /// 256 of 2 bits; of every 16 a scale and a least weight of 4 bits.
    Q2K,
    /// 256 of 3 bits; of every 16 a scale of 6 bits.
    Q3K,
    /// 256 of 4 bits; of every 32 a scale and a least weight of 6 bits.
    Q4K,
    /// 256 of 5 bits; of every 32 a scale and a least weight of 6 bits.
    Q5K,
    /// 256 of 6 bits; of every 16 a scale of 8 bits.
    Q6K,
}

impl Format {
    /// How many weights a block has, and how many bytes.
    pub const fn block(self) -> (usize, usize) {
        match self {
            Format::F32 => (1, 4),
            Format::F16 | Format::Bf16 => (1, 2),
            Format::Q4_0 => (32, 18),
            Format::Q4_1 => (32, 20),
            Format::Q5_0 => (32, 22),
            Format::Q5_1 => (32, 24),
            Format::Q8_0 => (32, 34),
            Format::Q2K => (256, 84),
            Format::Q3K => (256, 110),
            Format::Q4K => (256, 144),
            Format::Q5K => (256, 176),
            Format::Q6K => (256, 210),
        }
    }

    /// Whether products with it are made of whole numbers of 8 bits. All others are widened to f32, a tile at a time.
    pub const fn is_coded(self) -> bool {
        !matches!(self, Format::F32 | Format::F16 | Format::Bf16 | Format::Q2K | Format::Q3K)
    }

    /// Some weights of a row, from the beginning of a block on, as f32.
    pub fn widen(self, row: &[u8], out: &mut [f32]) {
        assert!(
            row.len() >= self.row_bytes(out.len()) && out.len().is_multiple_of(self.block().0),
            "weights leave their row"
        );
        match self {
            Format::F32 => out.iter_mut().zip(row.as_chunks().0).for_each(|(x, b)| *x = f32::from_le_bytes(*b)),
            Format::F16 => out.iter_mut().zip(row.as_chunks().0).for_each(|(x, b)| *x = half(*b)),
            Format::Bf16 => out.iter_mut().zip(row.as_chunks().0).for_each(|(x, b)| *x = brain(*b)),
            Format::Q2K => blocks(self, row, out, q2k),
            Format::Q3K => blocks(self, row, out, q3k),
            Format::Q4_0 => blocks(self, row, out, widen_block::<Q4_0>),
            Format::Q4_1 => blocks(self, row, out, widen_block::<Q4_1>),
            Format::Q5_0 => blocks(self, row, out, widen_block::<Q5_0>),
            Format::Q5_1 => blocks(self, row, out, widen_block::<Q5_1>),
            Format::Q8_0 => blocks(self, row, out, widen_block::<Q8_0>),
            Format::Q4K => blocks(self, row, out, widen_block::<Q4K>),
            Format::Q5K => blocks(self, row, out, widen_block::<Q5K>),
            Format::Q6K => blocks(self, row, out, widen_block::<Q6K>),
        }
    }

    /// Bytes of a row of `width` weights, which must fit the blocks.
    pub const fn row_bytes(self, width: usize) -> usize {
        let (weights, bytes) = self.block();
        width / weights * bytes
    }
}

/// Block by block.
fn blocks(format: Format, row: &[u8], out: &mut [f32], unpack: fn(&[u8], &mut [f32])) {
    let (weights, bytes) = format.block();
    row.chunks_exact(bytes).zip(out.chunks_exact_mut(weights)).for_each(|(block, out)| unpack(block, out));
}

/// A block of whole numbers as f32.
fn widen_block<P: Packed>(block: &[u8], out: &mut [f32]) {
    let (mut codes, mut scales, mut leasts) = ([0i8; 256], [0.0f32; 16], [0.0f32; 8]);
    let n = out.len();
    P::unpack(block, Unpacked { codes: &mut codes[..n], scales: &mut scales, leasts: &mut leasts });
    for (i, (x, code)) in out.iter_mut().zip(codes).enumerate() {
        let least = if P::Codes::LEAST { leasts[i / 32] } else { 0.0 };
        *x = f32::from(code) * scales[i / P::Codes::SUB] - least;
    }
}

fn q2k(block: &[u8], out: &mut [f32]) {
    let (d, least) = (at(block, 80), at(block, 82));
    for (sub, out) in out.chunks_exact_mut(16).enumerate() {
        // Two bits of 32 bytes in turn, for each half of the block; 16 weights share a scale.
        let (half, shift, first) = (sub / 8, sub / 2 % 4 * 2, sub % 2 * 16);
        let scale = block[sub];
        for (x, byte) in out.iter_mut().zip(&block[16 + 32 * half + first..]) {
            *x = d * f32::from(scale & 15) * f32::from((byte >> shift) & 3) - least * f32::from(scale >> 4);
        }
    }
}

fn q3k(block: &[u8], out: &mut [f32]) {
    let (d, scales) = (at(block, 108), &block[96..108]);
    for (sub, out) in out.chunks_exact_mut(16).enumerate() {
        let (half, shift, first) = (sub / 8, sub / 2 % 4 * 2, sub % 2 * 16);
        // The lower four bits of 16 scales in 8 bytes, the upper two in 4.
        let low = if sub < 8 { scales[sub] & 15 } else { scales[sub - 8] >> 4 };
        let scale = i32::from(low | ((scales[8 + sub % 4] >> (2 * (sub / 4))) & 3) << 4) - 32;
        let places = block[first..].iter().zip(&block[32 + 32 * half + first..]);
        for (x, (high, low)) in out.iter_mut().zip(places) {
            let below = if (high >> (sub / 2)) & 1 == 1 { 0 } else { 4 };
            *x = d * scale as f32 * (i32::from((low >> shift) & 3) - below) as f32;
        }
    }
}

/// Where a row's numbers go.
pub(crate) struct Unpacked<'a> {
    pub(crate) codes: &'a mut [i8],   // [k]
    pub(crate) scales: &'a mut [f32], // [k / SUB]
    pub(crate) leasts: &'a mut [f32], // [k / 32], or nothing
}

/// A format of whole numbers.
pub(crate) trait Packed {
    type Codes: Codes;
    const FORMAT: Format;

    /// Unpacks a block: its weights are `code · scale − least`.
    fn unpack(block: &[u8], out: Unpacked<'_>);
}

/// The upper half of an f32.
#[inline(always)]
pub(crate) fn brain(bits: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bits)) << 16)
}

/// A finite number of half precision.
#[inline(always)]
pub(crate) fn half(bits: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bits));
    // The exponent counts from 15 instead of 127: 2^112 too little. Exact, also below the smallest normal number.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

#[inline(always)]
fn at(block: &[u8], i: usize) -> f32 {
    half([block[i], block[i + 1]])
}

/// 16 bytes: the low halves are weights 0 to 15, the high ones 16 to 31.
#[inline(always)]
fn nibbles(bytes: &[u8], codes: &mut [i8]) {
    let (low, high) = codes.split_at_mut(bytes.len());
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        (*low, *high) = ((byte & 15) as i8, (byte >> 4) as i8);
    }
}

/// The fifth bit of 32 weights.
#[inline(always)]
fn fifth_bits(bytes: &[u8], codes: &mut [i8]) {
    let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    codes.iter_mut().enumerate().for_each(|(i, code)| *code |= (((bits >> i) & 1) << 4) as i8);
}

/// The eight scales and least weights of 6 bits in the 12 bytes of a block of 256.
#[inline(always)]
fn six_bits(bytes: &[u8]) -> [(u8, u8); 8] {
    std::array::from_fn(|j| {
        if j < 4 {
            (bytes[j] & 63, bytes[j + 4] & 63)
        } else {
            ((bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4, (bytes[j + 4] >> 4) | (bytes[j] >> 6) << 4)
        }
    })
}

/// The scales of Q4_K and Q5_K: of the blocks, times those of 6 bits.
#[inline(always)]
fn scaled(block: &[u8], out: &mut Unpacked<'_>) {
    let (d, least) = (at(block, 0), at(block, 2));
    for (j, (scale, m)) in six_bits(&block[4..16]).into_iter().enumerate() {
        out.scales[j] = d * f32::from(scale);
        out.leasts[j] = least * f32::from(m);
    }
}

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;

impl Packed for Q4_0 {
    type Codes = Fours;
    const FORMAT: Format = Format::Q4_0;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        out.scales[0] = at(block, 0);
        out.leasts[0] = 8.0 * out.scales[0];
        nibbles(&block[2..18], out.codes);
    }
}

impl Packed for Q4_1 {
    type Codes = Fours;
    const FORMAT: Format = Format::Q4_1;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        (out.scales[0], out.leasts[0]) = (at(block, 0), -at(block, 2));
        nibbles(&block[4..20], out.codes);
    }
}

impl Packed for Q5_0 {
    type Codes = Fives;
    const FORMAT: Format = Format::Q5_0;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        out.scales[0] = at(block, 0);
        out.leasts[0] = 16.0 * out.scales[0];
        nibbles(&block[6..22], out.codes);
        fifth_bits(&block[2..6], out.codes);
    }
}

impl Packed for Q5_1 {
    type Codes = Fives;
    const FORMAT: Format = Format::Q5_1;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        (out.scales[0], out.leasts[0]) = (at(block, 0), -at(block, 2));
        nibbles(&block[8..24], out.codes);
        fifth_bits(&block[4..8], out.codes);
    }
}

impl Packed for Q8_0 {
    type Codes = Eights;
    const FORMAT: Format = Format::Q8_0;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        out.scales[0] = at(block, 0);
        out.codes.iter_mut().zip(&block[2..34]).for_each(|(code, byte)| *code = *byte as i8);
    }
}

impl Packed for Q4K {
    type Codes = Fours;
    const FORMAT: Format = Format::Q4K;

    #[inline(always)]
    fn unpack(block: &[u8], mut out: Unpacked<'_>) {
        scaled(block, &mut out);
        for (codes, bytes) in out.codes.chunks_exact_mut(64).zip(block[16..144].chunks_exact(32)) {
            nibbles(bytes, codes);
        }
    }
}

impl Packed for Q5K {
    type Codes = Fives;
    const FORMAT: Format = Format::Q5K;

    #[inline(always)]
    fn unpack(block: &[u8], mut out: Unpacked<'_>) {
        scaled(block, &mut out);
        for (codes, bytes) in out.codes.chunks_exact_mut(64).zip(block[48..176].chunks_exact(32)) {
            nibbles(bytes, codes);
        }
        // Bit j of byte i is the fifth of weight 32 j + i.
        for (j, codes) in out.codes.chunks_exact_mut(32).enumerate() {
            codes.iter_mut().zip(&block[16..48]).for_each(|(code, bits)| *code |= (((bits >> j) & 1) << 4) as i8);
        }
    }
}

impl Packed for Q6K {
    type Codes = Sixes;
    const FORMAT: Format = Format::Q6K;

    #[inline(always)]
    fn unpack(block: &[u8], out: Unpacked<'_>) {
        let d = at(block, 208);
        out.scales.iter_mut().zip(&block[192..208]).for_each(|(scale, byte)| *scale = d * f32::from(*byte as i8));
        let halves =
            out.codes.chunks_exact_mut(128).zip(block[..128].chunks_exact(64)).zip(block[128..192].chunks_exact(32));
        for ((codes, low), high) in halves {
            for (j, codes) in codes.chunks_exact_mut(32).enumerate() {
                // Weights 32 j: the low or high four bits of one half of the bytes, and two bits of the others.
                let low = &low[32 * (j & 1)..][..32];
                for ((code, low), high) in codes.iter_mut().zip(low).zip(high) {
                    *code = (((low >> (4 * (j >> 1))) & 15) | ((high >> (2 * j)) & 3) << 4) as i8 - 32;
                }
            }
        }
    }
}
