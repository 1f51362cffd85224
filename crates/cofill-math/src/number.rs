//! Exact rationals, and decimals that round as sympy's do.
//!
//! A decimal point makes a number a float of 15 digits (more if more were written), and sympy's arithmetic on those rounds to
//! nearest, ties to even. Both are kept as rationals here, so that one addition with a rounding after it is that arithmetic.

use super::Stop;
use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// The most bits an exact number may take. Enough for 12,000 digits; more is not an answer.
const MOST_BITS: u64 = 40_000;

/// The most digits of one literal: Python refuses to read a longer integer.
const MOST_DIGITS: usize = 4300;

/// A number as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    pub(super) value: BigRational,
    /// The mantissa's bits, for a decimal.
    pub(super) bits: Option<u32>,
}

impl Number {
    pub(super) fn int(value: i64) -> Self {
        Number { value: BigRational::from_integer(value.into()), bits: None }
    }

    /// Reads digits with an optional decimal point. An integer with a leading zero is an error, as in Python.
    pub(super) fn read(text: &str) -> Result<Self, Stop> {
        if text.len() > MOST_DIGITS {
            return Err(Stop::TooMuch);
        }
        let parse = |digits: &str| BigInt::parse_bytes(digits.as_bytes(), 10).ok_or(Stop::Syntax);
        let Some((whole, fraction)) = text.split_once('.') else {
            if text.starts_with('0') && text.bytes().any(|b| b != b'0') {
                return Err(Stop::Syntax);
            }
            return Ok(Number { value: BigRational::from_integer(parse(text)?), bits: None });
        };
        let digits = parse(&format!("{whole}{fraction}"))?;
        let significant = digits.to_string().len().max(15);
        let bits = ((significant + 1) as f64 * std::f64::consts::LOG2_10).round_ties_even() as u32;
        let exact = BigRational::new(digits, BigInt::from(10).pow(fraction.len() as u32));
        Ok(Number { value: round(&exact, bits), bits: Some(bits) })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.value.is_zero()
    }

    /// Whether this is the integer `value`, not the decimal.
    pub(super) fn is_int(&self, value: i64) -> bool {
        self.bits.is_none() && self.value == BigRational::from_integer(value.into())
    }

    pub(super) fn negated(&self) -> Self {
        Number { value: -&self.value, bits: self.bits }
    }

    fn combined(&self, other: &Self, operation: impl Fn(&BigRational, &BigRational) -> BigRational) -> Self {
        let Some(bits) = self.bits.max(other.bits) else {
            return Number { value: operation(&self.value, &other.value), bits: None };
        };
        // An exact operand becomes a float of the other's precision first.
        let operand = |n: &Self| if n.bits.is_some() { n.value.clone() } else { round(&n.value, bits) };
        Number { value: round(&operation(&operand(self), &operand(other)), bits), bits: Some(bits) }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a + b)
    }

    pub(super) fn times(&self, other: &Self) -> Result<Self, Stop> {
        let product = self.combined(other, |a, b| a * b);
        Ok(Number { value: bounded(product.value)?, bits: product.bits })
    }

    /// The rational that sympy puts in a decimal's place before it simplifies: the decimal as printed, or a small fraction
    /// when one is within 1e-15.
    pub(super) fn rationalised(&self) -> BigRational {
        if self.bits.is_none() || self.value.is_zero() {
            return self.value.clone();
        }
        small_fraction(&self.value).unwrap_or_else(|| decimal(&self.value, self.bits.unwrap_or(53)))
    }
}

/// `value` to `bits` of mantissa, to nearest, ties to even.
pub(super) fn round(value: &BigRational, bits: u32) -> BigRational {
    if value.is_zero() {
        return value.clone();
    }
    // Scale so that the quotient has `bits` or `bits + 1` bits, then cut to `bits`.
    let (n, d) = (value.numer().magnitude(), value.denom().magnitude());
    let mut shift = i64::from(bits) - (n.bits() as i64 - d.bits() as i64);
    loop {
        let (n, d) = if shift >= 0 { (n << shift as u64, d.clone()) } else { (n.clone(), d << (-shift) as u64) };
        let (quotient, rest) = n.div_rem(&d);
        if quotient.bits() > u64::from(bits) {
            shift -= 1;
            continue;
        }
        let twice: BigUint = rest << 1u32;
        let up = twice > d || (twice == d && quotient.is_odd());
        let mantissa = BigInt::from_biguint(value.numer().sign(), quotient + u32::from(up));
        let scale = BigInt::one() << shift.unsigned_abs();
        return if shift >= 0 {
            BigRational::new(mantissa, scale)
        } else {
            BigRational::from_integer(mantissa * scale)
        };
    }
}

/// A fraction p/q with p, q up to 1000 that is within 1e-15 of `value`: what sympy's search finds first.
fn small_fraction(value: &BigRational) -> Option<BigRational> {
    // Continued fractions give the best candidates in order of size.
    let near = BigRational::new(1.into(), BigInt::from(10).pow(15));
    let most = BigInt::from(1000);
    let (mut rest, mut h, mut k) = (value.abs(), [BigInt::zero(), BigInt::one()], [BigInt::one(), BigInt::zero()]);
    for _ in 0..32 {
        let whole = rest.floor().to_integer();
        h = [h[1].clone(), &whole * &h[1] + &h[0]];
        k = [k[1].clone(), &whole * &k[1] + &k[0]];
        if h[1] > most || k[1] > most {
            return None;
        }
        let fraction = BigRational::new(h[1].clone(), k[1].clone());
        if (&fraction - value.abs()).abs() < near {
            return (!fraction.is_zero()).then(|| if value.is_negative() { -fraction } else { fraction });
        }
        rest = (rest - BigRational::from_integer(whole)).recip();
    }
    None
}

/// `value` to the significant decimal digits that `bits` hold.
fn decimal(value: &BigRational, bits: u32) -> BigRational {
    let digits = (f64::from(bits) / std::f64::consts::LOG2_10).round() as i32 - 1;
    let magnitude = value.abs();
    let mut exponent = ((magnitude.numer().bits() as f64 - magnitude.denom().bits() as f64) / std::f64::consts::LOG2_10)
        .floor() as i32;
    let power = |e: i32| {
        let tens = BigRational::from_integer(BigInt::from(10).pow(e.unsigned_abs()));
        if e < 0 { tens.recip() } else { tens }
    };
    while magnitude >= power(exponent + 1) {
        exponent += 1;
    }
    while magnitude < power(exponent) {
        exponent -= 1;
    }
    let scale = power(digits - 1 - exponent);
    (value * &scale).round() / scale
}

/// Whether a number has grown past what an answer takes.
fn bounded(value: BigRational) -> Result<BigRational, Stop> {
    if value.numer().bits().max(value.denom().bits()) > MOST_BITS { Err(Stop::TooMuch) } else { Ok(value) }
}

/// `base` to an integer power; `None` for 0 to a negative one.
pub(super) fn power(base: &BigRational, exponent: &BigInt) -> Result<Option<BigRational>, Stop> {
    if exponent.is_zero() || base.is_one() {
        return Ok(Some(BigRational::one()));
    }
    if base.is_zero() {
        return Ok((!exponent.is_negative()).then(BigRational::zero));
    }
    let minus_one = -BigRational::one();
    if *base == minus_one {
        return Ok(Some(if exponent.is_even() { -minus_one } else { minus_one }));
    }
    let size = base.numer().bits().max(base.denom().bits());
    let times = exponent.magnitude().to_u64().filter(|n| n.saturating_mul(size) <= MOST_BITS).ok_or(Stop::TooMuch)?;
    let raised = BigRational::new(base.numer().pow(times as u32), base.denom().pow(times as u32));
    Ok(Some(if exponent.is_negative() { raised.recip() } else { raised }))
}

/// The exact `degree`-th root of a positive rational, if there is one.
pub(super) fn exact_root(value: &BigRational, degree: &BigInt) -> Option<BigRational> {
    let degree = degree.to_u32().filter(|d| (1..=1000).contains(d))?;
    if !value.is_positive() {
        return None;
    }
    let root = |n: &BigInt| {
        let root = n.nth_root(degree);
        (root.pow(degree) == *n).then_some(root)
    };
    Some(BigRational::new(root(value.numer())?, root(value.denom())?))
}

/// n! for a small whole n.
pub(super) fn factorial(n: &BigRational) -> Result<Option<BigRational>, Stop> {
    if !n.is_integer() || n.is_negative() {
        return Ok(None);
    }
    let n = n.to_integer().to_u32().filter(|n| *n <= 2000).ok_or(Stop::TooMuch)?;
    let product: BigInt = (1..=n).map(BigInt::from).product();
    bounded(BigRational::from_integer(product)).map(Some)
}

/// n choose k for a whole k: n (n-1) .. (n-k+1) / k!.
pub(super) fn binomial(n: &BigRational, k: &BigInt) -> Result<BigRational, Stop> {
    if k.sign() == Sign::Minus {
        return Ok(BigRational::zero());
    }
    // For whole n >= k the smaller side is shorter, and the value the same.
    let other = n.to_integer() - k;
    let k = if n.is_integer() && !other.is_negative() { k.min(&other).clone() } else { k.clone() };
    let k = k.to_u32().filter(|k| *k <= 2000).ok_or(Stop::TooMuch)?;
    let mut value = BigRational::one();
    for i in 0..k {
        let i = BigInt::from(i);
        value = bounded(value * (n - BigRational::from_integer(i.clone())) / BigRational::from_integer(i + 1))?;
    }
    Ok(value)
}

pub(super) fn sum(a: &BigRational, b: &BigRational) -> Result<BigRational, Stop> {
    bounded(a + b)
}

pub(super) fn product(a: &BigRational, b: &BigRational) -> Result<BigRational, Stop> {
    bounded(a * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(n: i64, d: i64) -> BigRational {
        BigRational::new(n.into(), d.into())
    }

    #[test]
    fn decimals_round_like_doubles() {
        let read = |text: &str| Number::read(text).unwrap();
        for text in ["0.1", "0.3", "4.667", "123456.789", "0.000001", "3.5"] {
            let double: f64 = text.parse().unwrap();
            assert_eq!(read(text).value, BigRational::from_float(double).unwrap(), "{text}");
        }
        let third = read("0.1").plus(&read("0.2"));
        assert_eq!(third.value, BigRational::from_float(0.1f64 + 0.2).unwrap());
        assert_ne!(third.value, read("0.3").value);
    }

    #[test]
    fn sixteen_digits_are_kept() {
        // 17 digits ask for 60 bits, a double has 53.
        assert_eq!(Number::read("1.2345678901234567").unwrap().bits, Some(60));
        assert_eq!(Number::read("1.5").unwrap().bits, Some(53));
    }

    #[test]
    fn integers_with_a_leading_zero_are_no_numbers() {
        assert_eq!(Number::read("007"), Err(Stop::Syntax));
        assert!(Number::read("00").unwrap().is_zero());
        assert_eq!(Number::read("00.5").unwrap().value, ratio(1, 2));
    }

    #[test]
    fn decimals_become_fractions() {
        let of = |text: &str| Number::read(text).unwrap().rationalised();
        assert_eq!(of("3.21"), ratio(321, 100));
        assert_eq!(of("0.333333333333333"), ratio(1, 3));
        assert_eq!(of("0.333333333333"), ratio(333_333_333_333, 1_000_000_000_000));
        assert_eq!(of("1234567.5"), ratio(2_469_135, 2));
    }

    #[test]
    fn growth_is_refused() {
        let nine = ratio(9, 1);
        assert_eq!(power(&nine, &BigInt::from(387_420_489)), Err(Stop::TooMuch));
        assert_eq!(power(&ratio(-1, 1), &BigInt::from(10).pow(40)), Ok(Some(ratio(1, 1))));
        assert_eq!(factorial(&ratio(1_000_000, 1)), Err(Stop::TooMuch));
        assert_eq!(power(&ratio(0, 1), &BigInt::from(-1)), Ok(None));
    }

    #[test]
    fn roots_are_exact_or_none() {
        assert_eq!(exact_root(&ratio(27, 8), &BigInt::from(3)), Some(ratio(3, 2)));
        assert_eq!(exact_root(&ratio(2, 1), &BigInt::from(2)), None);
    }

    #[test]
    fn binomials() {
        assert_eq!(binomial(&ratio(10, 1), &BigInt::from(3)), Ok(ratio(120, 1)));
        assert_eq!(binomial(&ratio(1, 2), &BigInt::from(2)), Ok(ratio(-1, 8)));
        assert_eq!(binomial(&ratio(5, 1), &BigInt::from(7)), Ok(ratio(0, 1)));
    }
}
