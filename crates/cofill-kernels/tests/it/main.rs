//! Products and attention against plain loops, and every level of instructions against the scalar one, bit for bit.

mod attention;
mod formats;
mod products;

use cofill_kernels::{Format, Level};

/// Every format there is.
const FORMATS: [Format; 13] = [
    Format::F32,
    Format::F16,
    Format::Bf16,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q8_0,
    Format::Q2K,
    Format::Q3K,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
];

/// The levels that this machine has.
fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|level| level.is_here())
}

/// The same numbers every time.
struct Noise(u32);

impl Noise {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    /// From −1 to 1.
    fn number(&mut self) -> f32 {
        self.bits() as f32 / 8_388_608.0 - 1.0
    }

    fn numbers(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.number()).collect()
    }

    /// A matrix of any bits but for its factors, which are small and of either sign.
    fn weights(&mut self, format: Format, n: usize) -> Vec<u8> {
        let (weights, size) = format.block();
        match format {
            Format::F32 => (0..n).flat_map(|_| self.number().to_le_bytes()).collect(),
            // Exponents below the largest: finite, some subnormal.
            Format::F16 => (0..n).flat_map(|_| ((self.bits() as u16) & 0xbbff).to_le_bytes()).collect(),
            Format::Bf16 => (0..n).flat_map(|_| ((self.number().to_bits() >> 16) as u16).to_le_bytes()).collect(),
            _ => {
                let mut bytes: Vec<u8> = (0..n / weights * size).map(|_| self.bits() as u8).collect();
                let factors: &[usize] = match format {
                    Format::Q2K => &[80, 82],
                    Format::Q3K => &[108],
                    Format::Q6K => &[208],
                    Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => &[0],
                    _ => &[0, 2],
                };
                for block in bytes.chunks_exact_mut(size) {
                    for &at in factors {
                        // 2^-10 to 2^-4, and sometimes 0.
                        let exponent = 5 + (self.bits() % 7) as u16;
                        let half = if self.bits().is_multiple_of(16) {
                            0
                        } else {
                            exponent << 10 | (self.bits() as u16 & 0x83ff)
                        };
                        block[at..at + 2].copy_from_slice(&half.to_le_bytes());
                    }
                }
                bytes
            }
        }
    }
}
