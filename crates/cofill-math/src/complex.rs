//! Complex numbers to 31 digits and the functions answers use, on their principal branches, which are also sympy's.

use super::expr::Function;
use super::wide::{PI, Wide};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A complex number of two 31-digit parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Complex {
    pub(super) re: Wide,
    pub(super) im: Wide,
}

/// Below this share of the other part, a part is rounding noise. Without the cut, a negative real that was computed in two
/// ways may land on different sides of a branch.
const NOISE: f64 = 1e-27;

fn complex(re: Wide, im: Wide) -> Complex {
    let noise = |part: Wide, other: Wide| if part.abs().hi <= NOISE * other.abs().hi { Wide::ZERO } else { part };
    Complex { re: noise(re, im), im: noise(im, re) }
}

impl From<Wide> for Complex {
    fn from(re: Wide) -> Self {
        Complex { re, im: Wide::ZERO }
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Wide::from(re).into()
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        complex(self.re + other.re, self.im + other.im)
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        self + -other
    }
}

impl Neg for Complex {
    type Output = Complex;
    fn neg(self) -> Complex {
        Complex { re: -self.re, im: -self.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
    }
}

impl Div for Complex {
    type Output = Complex;
    fn div(self, other: Complex) -> Complex {
        let size = other.re * other.re + other.im * other.im;
        let top = self * Complex { re: other.re, im: -other.im };
        complex(top.re / size, top.im / size)
    }
}

impl Complex {
    pub(super) const ONE: Complex = Complex { re: Wide::ONE, im: Wide::ZERO };

    pub(super) fn is_finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }

    pub(super) fn is_zero(self) -> bool {
        self.re.is_zero() && self.im.is_zero()
    }

    pub(super) fn abs(self) -> Wide {
        if self.im.is_zero() {
            return self.re.abs();
        }
        (self.re * self.re + self.im * self.im).sqrt()
    }

    fn times_i(self) -> Complex {
        Complex { re: -self.im, im: self.re }
    }

    pub(super) fn exp(self) -> Complex {
        let (sin, cos) = if self.im.is_zero() { (Wide::ZERO, Wide::ONE) } else { self.im.sin_cos() };
        let size = self.re.exp();
        complex(size * cos, size * sin)
    }

    pub(super) fn ln(self) -> Complex {
        let angle = match self.im.is_zero() {
            true if self.re.hi < 0.0 => PI,
            true => Wide::ZERO,
            false => Wide::atan2(self.im, self.re),
        };
        Complex { re: self.abs().ln(), im: angle }
    }

    pub(super) fn sqrt(self) -> Complex {
        if self.im.is_zero() {
            let root = self.re.abs().sqrt();
            return if self.re.hi < 0.0 { Complex { re: Wide::ZERO, im: root } } else { root.into() };
        }
        let half: Wide = 0.5.into();
        let re = ((self.abs() + self.re) * half).sqrt();
        let im = ((self.abs() - self.re) * half).sqrt();
        // The larger part is the accurate one; the other follows from re * im = im(z) / 2.
        let (re, im) = if re.hi > im.hi { (re, self.im * half / re) } else { (self.im.abs() * half / im, im) };
        complex(re, if self.im.hi < 0.0 { -im.abs() } else { im.abs() })
    }

    pub(super) fn powi(self, exponent: i32) -> Complex {
        let (mut base, mut left, mut power) = (self, exponent.unsigned_abs(), Complex::ONE);
        while left > 0 {
            if left & 1 == 1 {
                power = power * base;
            }
            base = base * base;
            left >>= 1;
        }
        if exponent < 0 { Complex::ONE / power } else { power }
    }

    pub(super) fn pow(self, exponent: Complex) -> Complex {
        (exponent * self.ln()).exp()
    }

    fn sin(self) -> Complex {
        let turned = self.times_i();
        ((turned.exp() - (-turned).exp()) / Complex { re: Wide::ZERO, im: 2.0.into() }).real_if(self)
    }

    fn cos(self) -> Complex {
        let turned = self.times_i();
        ((turned.exp() + (-turned).exp()) * 0.5.into()).real_if(self)
    }

    /// Clears the imaginary part when `of` has none, for functions that are real on the real line.
    fn real_if(self, of: Complex) -> Complex {
        if of.im.is_zero() { self.re.into() } else { self }
    }

    fn asin(self) -> Complex {
        let inner = self.times_i() + (Complex::ONE - self * self).sqrt();
        -inner.ln().times_i()
    }

    fn acos(self) -> Complex {
        Complex::from(PI * 0.5.into()) - self.asin()
    }

    fn atan(self) -> Complex {
        let turned = self.times_i();
        let difference = (Complex::ONE - turned).ln() - (Complex::ONE + turned).ln();
        (difference * 0.5.into()).times_i().real_if(self)
    }

    fn asinh(self) -> Complex {
        (self + (self * self + Complex::ONE).sqrt()).ln()
    }

    fn acosh(self) -> Complex {
        (self + (self + Complex::ONE).sqrt() * (self - Complex::ONE).sqrt()).ln()
    }

    fn atanh(self) -> Complex {
        ((Complex::ONE + self).ln() - (Complex::ONE - self).ln()) * 0.5.into()
    }

    /// Whole numbers below both parts. A value within noise of a whole number is taken for it.
    fn floor(self) -> Complex {
        let floor = |part: Wide| {
            let nearest = (part + 0.5.into()).floor();
            if (part - nearest).abs().hi <= 1e-20 * nearest.abs().hi.max(1.0) { nearest } else { part.floor() }
        };
        Complex { re: floor(self.re), im: floor(self.im) }
    }

    /// Gamma, by Stirling's series after moving far enough to the right.
    fn gamma(self) -> Complex {
        if self.re.hi < 0.5 {
            // Reflection: Γ(z) Γ(1-z) = π / sin πz.
            let other = (Complex::ONE - self).gamma();
            return Complex::from(PI) / ((Complex::from(PI) * self).sin() * other);
        }
        const BERNOULLI: [(f64, f64); 14] = [
            (1.0, 6.0),
            (-1.0, 30.0),
            (1.0, 42.0),
            (-1.0, 30.0),
            (5.0, 66.0),
            (-691.0, 2730.0),
            (7.0, 6.0),
            (-3617.0, 510.0),
            (43867.0, 798.0),
            (-174_611.0, 330.0),
            (854_513.0, 138.0),
            (-236_364_091.0, 2730.0),
            (8_553_103.0, 6.0),
            (-23_749_461_029.0, 870.0),
        ];
        let (mut z, mut passed) = (self, Complex::ONE);
        while z.re.hi < 30.0 {
            passed = passed * z;
            z = z + Complex::ONE;
        }
        let mut log = (z - 0.5.into()) * z.ln() - z + (Complex::from(PI * 2.0.into())).ln() * 0.5.into();
        let (square, mut power) = (z * z, z);
        for (k, (top, bottom)) in (1..).zip(BERNOULLI) {
            let k = f64::from(k) * 2.0;
            let coefficient = Wide::from(top) / Wide::from(bottom) / Wide::from(k * (k - 1.0));
            log = log + Complex::from(coefficient) / power;
            power = power * square;
        }
        log.exp() / passed
    }

    pub(super) fn factorial(self) -> Complex {
        (self + Complex::ONE).gamma()
    }

    /// The value of a function here.
    pub(super) fn apply(self, function: Function) -> Complex {
        let inverse = || Complex::ONE / self;
        match function {
            Function::Abs => self.abs().into(),
            Function::Conjugate => Complex { re: self.re, im: -self.im },
            Function::Factorial => self.factorial(),
            Function::Floor => self.floor(),
            Function::Ceiling => -(-self).floor(),
            Function::Exp => self.exp(),
            Function::Sin => self.sin(),
            Function::Cos => self.cos(),
            Function::Tan => self.sin() / self.cos(),
            Function::Csc => Complex::ONE / self.sin(),
            Function::Sec => Complex::ONE / self.cos(),
            Function::Cot => self.cos() / self.sin(),
            Function::Asin => self.asin(),
            Function::Acos => self.acos(),
            Function::Atan => self.atan(),
            Function::Acsc => inverse().asin(),
            Function::Asec => inverse().acos(),
            Function::Acot => inverse().atan(),
            Function::Sinh => (self.exp() - (-self).exp()) * 0.5.into(),
            Function::Cosh => (self.exp() + (-self).exp()) * 0.5.into(),
            Function::Tanh => {
                let (plus, minus) = (self.exp(), (-self).exp());
                (plus - minus) / (plus + minus)
            }
            Function::Asinh => self.asinh(),
            Function::Acosh => self.acosh(),
            Function::Atanh => self.atanh(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex, b: Complex) -> bool {
        (a - b).abs().hi <= 1e-26 * b.abs().hi.max(1.0)
    }

    fn point(re: f64, im: f64) -> Complex {
        Complex { re: re.into(), im: im.into() }
    }

    #[test]
    fn inverses_undo_functions() {
        use Function::*;
        let z = point(0.4, 0.3);
        let pairs = [
            (Sin, Asin),
            (Cos, Acos),
            (Tan, Atan),
            (Csc, Acsc),
            (Sec, Asec),
            (Cot, Acot),
            (Sinh, Asinh),
            (Cosh, Acosh),
            (Tanh, Atanh),
        ];
        for (function, inverse) in pairs {
            assert!(close(z.apply(inverse).apply(function), z), "{function:?}");
        }
    }

    #[test]
    fn roots_are_principal() {
        assert!(close(point(-4.0, 0.0).sqrt(), point(0.0, 2.0)));
        assert!(close(point(3.0, -4.0).sqrt(), point(2.0, -1.0)));
        // The cube root of -8 in the upper half plane is 1 + i sqrt 3.
        let root = point(-8.0, 0.0).pow(Complex::ONE / 3.0.into());
        assert!(close(root, Complex { re: Wide::ONE, im: Wide::from(3.0).sqrt() }));
    }

    #[test]
    fn gamma_continues_the_factorial() {
        assert!(close(Complex::from(5.0).factorial() / 120.0.into(), Complex::ONE));
        let z = point(-1.3, 2.1);
        assert!(close((z + Complex::ONE).factorial() / z.factorial(), z + Complex::ONE));
        // Γ(1/2) = sqrt π.
        assert!(close(Complex::from(-0.5).factorial(), PI.sqrt().into()));
    }
}
