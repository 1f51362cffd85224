//! Which instructions a kernel may use.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A set of instructions that kernels are written for. All of them give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust, on any machine: the twin that every other level must equal.
    Scalar,
    /// 256 bits, with fused multiply-add and conversions of half precision.
    Avx2,
    /// 512 bits, with products of bytes (VNNI).
    Avx512,
}

impl Level {
    /// Every level, the slowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

    /// Whether this machine has the instructions.
    pub fn is_here(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => false,
        }
    }

    /// The best level that this machine has, or the one that the environment variable `COFILL_KERNELS` names. What cannot be had is
    /// not heeded here: a program asks [`Level::asked`] first.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let here = || Level::ALL.into_iter().rev().find(|level| level.is_here());
            Level::asked().ok().flatten().or_else(here).unwrap_or(Level::Scalar)
        })
    }

    /// The level that `COFILL_KERNELS` names, if it is set; or what is wrong with that.
    pub fn asked() -> Result<Option<Level>, String> {
        let Some(name) = std::env::var_os("COFILL_KERNELS") else { return Ok(None) };
        let level: Level = name.to_string_lossy().parse()?;
        match level.is_here() {
            true => Ok(Some(level)),
            false => Err(format!("`{level}`: this machine has no such instructions")),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Level, String> {
        let known = Level::ALL.into_iter().find(|level| level.to_string() == name);
        known.ok_or_else(|| format!("`{name}`: expected scalar, avx2 or avx512"))
    }
}
