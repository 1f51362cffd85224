//! Real numbers to 31 digits: the unevaluated sum of two doubles (Dekker, 1971).
//!
//! Doubles alone cannot tell `8.485281374239` from six times the root of two, nor see through much cancellation.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A real number, `hi + lo` with `lo` below the last bit of `hi`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wide {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

const LN_2: Wide = Wide { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };
pub(super) const PI: Wide = Wide { hi: std::f64::consts::PI, lo: 1.224_646_799_147_353_2e-16 };

/// a + b exactly, for |a| >= |b|.
fn quick_sum(a: f64, b: f64) -> Wide {
    let hi = a + b;
    Wide { hi, lo: b - (hi - a) }
}

/// a + b exactly.
fn exact_sum(a: f64, b: f64) -> Wide {
    let hi = a + b;
    let v = hi - a;
    Wide { hi, lo: (a - (hi - v)) + (b - v) }
}

impl From<f64> for Wide {
    fn from(hi: f64) -> Self {
        Wide { hi, lo: 0.0 }
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Wide) -> Wide {
        let (s, t) = (exact_sum(self.hi, other.hi), exact_sum(self.lo, other.lo));
        let s = quick_sum(s.hi, s.lo + t.hi);
        quick_sum(s.hi, s.lo + t.lo)
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, other: Wide) -> Wide {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, other: Wide) -> Wide {
        let hi = self.hi * other.hi;
        let lo = self.hi.mul_add(other.hi, -hi) + (self.hi * other.lo + self.lo * other.hi);
        quick_sum(hi, lo)
    }
}

impl Div for Wide {
    type Output = Wide;
    fn div(self, other: Wide) -> Wide {
        // Three steps of long division, each by the leading double.
        let first = self.hi / other.hi;
        let rest = self - other * first.into();
        let second = rest.hi / other.hi;
        let rest = rest - other * second.into();
        quick_sum(first, second) + (rest.hi / other.hi).into()
    }
}

impl Wide {
    pub(super) const ZERO: Wide = Wide { hi: 0.0, lo: 0.0 };
    pub(super) const ONE: Wide = Wide { hi: 1.0, lo: 0.0 };

    pub(super) fn is_zero(self) -> bool {
        self.hi == 0.0
    }

    pub(super) fn is_finite(self) -> bool {
        self.hi.is_finite() && self.lo.is_finite()
    }

    pub(super) fn abs(self) -> Wide {
        if self.hi < 0.0 { -self } else { self }
    }

    pub(super) fn floor(self) -> Wide {
        let hi = self.hi.floor();
        if hi == self.hi { quick_sum(hi, self.lo.floor()) } else { hi.into() }
    }

    pub(super) fn sqrt(self) -> Wide {
        if self.hi <= 0.0 {
            return Wide::ZERO;
        }
        let guess: Wide = self.hi.sqrt().into();
        // One Newton step doubles the digits; another pays for the rounding.
        let better = (guess + self / guess) * 0.5.into();
        (better + self / better) * 0.5.into()
    }

    pub(super) fn exp(self) -> Wide {
        if self.hi > 700.0 {
            return f64::INFINITY.into();
        }
        if self.hi < -700.0 {
            return Wide::ZERO;
        }
        // e^x = 2^k (e^r)^512 with |r| < 0.0007, so that ten terms of the series do.
        let k = (self.hi / LN_2.hi).round();
        let r = (self - LN_2 * k.into()) * (1.0 / 512.0).into();
        let mut term = r;
        let mut less_one = r; // e^r - 1, so that squaring loses nothing
        for n in 2..=11 {
            term = term * r / f64::from(n).into();
            less_one = less_one + term;
        }
        for _ in 0..9 {
            less_one = less_one * 2.0.into() + less_one * less_one;
        }
        let scale = 2f64.powi(k as i32);
        let value = less_one + Wide::ONE;
        Wide { hi: value.hi * scale, lo: value.lo * scale }
    }

    /// The logarithm of a positive number.
    pub(super) fn ln(self) -> Wide {
        let mut y: Wide = self.hi.ln().into();
        for _ in 0..2 {
            y = y + self * (-y).exp() - Wide::ONE;
        }
        y
    }

    pub(super) fn sin_cos(self) -> (Wide, Wide) {
        let quarter = PI * 0.5.into();
        let turns = (self.hi / quarter.hi).round();
        let r = self - quarter * turns.into();
        let square = r * r;
        let (mut sin, mut cos) = (r, Wide::ONE);
        let (mut odd, mut even) = (r, Wide::ONE);
        for n in 1..=14 {
            let n = f64::from(2 * n);
            even = -even * square / (n * (n - 1.0)).into();
            odd = -odd * square / (n * (n + 1.0)).into();
            cos = cos + even;
            sin = sin + odd;
        }
        match turns.rem_euclid(4.0) as u8 {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    /// The angle of the point (x, y).
    pub(super) fn atan2(y: Wide, x: Wide) -> Wide {
        let radius = (x * x + y * y).sqrt();
        if radius.is_zero() || !radius.is_finite() {
            return Wide::ZERO;
        }
        let mut angle: Wide = y.hi.atan2(x.hi).into();
        for _ in 0..2 {
            // sin of the remaining angle, which is the angle itself to all our digits.
            let (sin, cos) = angle.sin_cos();
            angle = angle + (y * cos - x * sin) / radius;
        }
        angle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Wide, b: Wide) -> bool {
        (a - b).abs().hi <= 1e-29 * b.abs().hi.max(1.0)
    }

    #[test]
    fn identities_hold_to_29_digits() {
        for x in [0.1, 0.75, 1.0, 2.5, 7.25, 30.0] {
            let x: Wide = x.into();
            assert!(close(x.sqrt() * x.sqrt(), x), "{x:?}");
            assert!(close(x.ln().exp(), x), "{x:?}");
            let (sin, cos) = x.sin_cos();
            assert!(close(sin * sin + cos * cos, Wide::ONE), "{x:?}");
            assert!(close((Wide::ONE / x) * x, Wide::ONE), "{x:?}");
        }
        assert!(close(Wide::atan2(Wide::ONE, Wide::ONE) * 4.0.into(), PI));
        assert!(close(Wide::atan2(Wide::ZERO, -Wide::ONE), PI));
        let (double, _) = Wide::from(2.0).sin_cos();
        let (sin, cos) = Wide::from(1.0).sin_cos();
        assert!(close(double, sin * cos * 2.0.into()));
    }

    #[test]
    fn floors_look_at_both_halves() {
        let below = Wide::from(3.0) - Wide::from(1e-25);
        assert_eq!(below.floor().hi, 2.0);
        assert_eq!(Wide::from(-1.5).floor().hi, -2.0);
    }
}
