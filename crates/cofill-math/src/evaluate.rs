//! The value of a formula at a point: an exact rational as long as possible, 31 digits otherwise.

use super::complex::Complex;
use super::expr::{Expr, Function, Series};
use super::number;
use super::wide::Wide;
use super::{Stop, Work, calculus};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// What a formula is worth.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Exact(BigRational),
    Approximate(Complex),
}

impl Value {
    pub(super) fn approximate(&self) -> Complex {
        match self {
            Value::Exact(ratio) => wide(ratio).into(),
            Value::Approximate(value) => *value,
        }
    }

    fn exact(&self) -> Option<&BigRational> {
        match self {
            Value::Exact(ratio) => Some(ratio),
            Value::Approximate(_) => None,
        }
    }

    fn whole(&self) -> Option<BigInt> {
        self.exact().filter(|ratio| ratio.is_integer()).map(BigRational::to_integer)
    }
}

/// A rational to 31 digits.
pub(super) fn wide(ratio: &BigRational) -> Wide {
    let part = |integer: &BigInt| {
        // Three doubles hold any integer of 159 bits, and the leading 159 bits of any other.
        let shift = integer.bits().saturating_sub(150);
        let mut rest = integer >> shift;
        let mut sum = Wide::ZERO;
        for _ in 0..3 {
            let double = rest.to_f64().unwrap_or(f64::NAN);
            sum = sum + double.into();
            rest -= <BigInt as num_traits::FromPrimitive>::from_f64(double).unwrap_or_default();
        }
        (sum, shift as i32)
    };
    let ((top, up), (bottom, down)) = (part(ratio.numer()), part(ratio.denom()));
    let quotient = top / bottom;
    let scale = 2f64.powi(up - down);
    Wide { hi: quotient.hi * scale, lo: quotient.lo * scale }
}

/// Where variables and unknown functions have their values: fixed, and different for every name.
pub(super) struct SamplePoint<'w> {
    index: u64,
    bound: Vec<(String, BigRational)>,
    /// Whether decimals are to differ from the fractions they stand for.
    inside: bool,
    work: &'w mut Work,
}

/// Inside functions, roots and exponents, sympy does not take a decimal for the fraction it stands for: `x^{0.5}` is not
/// `\sqrt{x}`. There decimals are this much larger, which keeps them in proportion to each other.
const DECIMAL: (i64, i64) = (1_000_000_000_001, 1_000_000_000_000);

/// The most terms of a sum or product.
const MOST_TERMS: u32 = 1000;

impl<'w> SamplePoint<'w> {
    pub(super) fn new(index: u64, work: &'w mut Work) -> Self {
        SamplePoint { index, bound: Vec::new(), inside: false, work }
    }

    /// A number in [0, 1) that depends on the name, this point and `salt` alone (FNV-1a, then the finaliser of splitmix64).
    fn random(&self, name: &str, salt: u64) -> f64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ (self.index << 8 | salt);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ (hash >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A complex number for a name. Points with an even index lie up to 4.5 from 0, so that `\arcsin\sin x` is not `x`
    /// everywhere; the others near the unit circle, so that high powers stay finite. All angles occur, for principal roots of a
    /// product and products of principal roots must differ somewhere; and every fourth point is real, for some of them differ
    /// on the negative axis only.
    fn generic(&self, name: &str, salt: u64) -> Complex {
        let (a, b) = (self.random(name, salt), self.random(name, salt + 1));
        let radius = if self.index.is_multiple_of(2) { 0.5 + 4.0 * a } else { 0.8 + 0.4 * a };
        if self.index % 4 == 3 {
            return (if b < 0.6 { -radius } else { radius }).into();
        }
        let (sin, cos) = (std::f64::consts::TAU * b).sin_cos();
        Complex { re: (radius * cos).into(), im: (radius * sin).into() }
    }

    /// The value of `expr`; `None` where it has none.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Option<Value>, Stop> {
        self.work.spend(20)?;
        Ok(match expr {
            Expr::Number(n) if self.inside && n.bits.is_some() => {
                Some(Value::Exact(n.rationalised() * BigRational::new(DECIMAL.0.into(), DECIMAL.1.into())))
            }
            Expr::Number(n) => Some(Value::Exact(n.rationalised())),
            Expr::Infinity => None,
            Expr::Symbol(name) => Some(match self.bound.iter().rev().find(|(bound, _)| bound == name) {
                Some((_, value)) => Value::Exact(value.clone()),
                None => Value::Approximate(self.generic(name, 0)),
            }),
            Expr::Add(a, b) => self.both(a, b, add)?,
            Expr::Mul(a, b) => self.both(a, b, multiply)?,
            Expr::Pow(base, exponent) => self.raised(base, exponent)?,
            Expr::Binomial(n, k) => self.both(n, k, binomial)?,
            Expr::Call(function, of) => match self.within(function.keeps_decimals_apart(), |p| p.value(of))? {
                Some(of) => call(*function, &of)?,
                None => None,
            },
            Expr::Log(of, None) => self.value(of)?.and_then(|of| logarithm(&of)),
            Expr::Log(of, Some(base)) => self.both(of, base, |of, base| {
                let quotient = logarithm(of).zip(logarithm(base)).map(|(of, base)| divide(&of, &base));
                Ok(quotient.flatten())
            })?,
            Expr::Apply(name, args) => self.within(true, |p| p.unknown(name, args))?,
            Expr::Series { kind, of, variable, from, to } => self.series(expr, *kind, of, variable, from, to)?,
            Expr::Opaque(..) | Expr::Calculus { .. } => Some(Value::Approximate(self.generic(&expr.to_string(), 8))),
        })
    }

    /// Reads a value with decimals kept apart from fractions, if `inside`.
    fn within<T>(&mut self, inside: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let outside = self.inside;
        self.inside |= inside;
        let result = read(self);
        self.inside = outside;
        result
    }

    fn raised(&mut self, base: &Expr, exponent: &Expr) -> Result<Option<Value>, Stop> {
        if let (Expr::Infinity, Expr::Number(n)) = (base, exponent)
            && n.value.is_negative()
        {
            return Ok(Some(Value::Exact(BigRational::zero())));
        }
        let root = !matches!(exponent, Expr::Number(n) if n.bits.is_none() && n.value.is_integer());
        let Some(exponent) = self.within(root, |p| p.value(exponent))? else { return Ok(None) };
        let root = exponent.whole().is_none();
        let Some(base) = self.within(root, |p| p.value(base))? else { return Ok(None) };
        power(&base, &exponent)
    }

    fn both(
        &mut self,
        a: &Expr,
        b: &Expr,
        operation: impl FnOnce(&Value, &Value) -> Result<Option<Value>, Stop>,
    ) -> Result<Option<Value>, Stop> {
        let (Some(a), Some(b)) = (self.value(a)?, self.value(b)?) else { return Ok(None) };
        let value = operation(&a, &b)?;
        if let Some(Value::Exact(exact)) = &value {
            // Reducing a fraction takes the square of its length.
            let words = (exact.numer().bits() + exact.denom().bits()) / 64;
            self.work.spend(words * words / 10)?;
        }
        Ok(value)
    }

    /// A function nobody has defined: smooth, and in no relation to itself or others.
    fn unknown(&mut self, name: &str, args: &[Expr]) -> Result<Option<Value>, Stop> {
        let mut sum = self.generic(name, args.len() as u64 * 16 + 16);
        let mut product = Complex::ONE;
        for (at, arg) in (2..).zip(args) {
            let Some(arg) = self.value(arg)? else { return Ok(None) };
            let arg = arg.approximate();
            let salt = at * 16;
            sum = sum + self.generic(name, salt) / (arg - self.generic(name, salt + 2));
            product = product / (arg - self.generic(name, salt + 4));
        }
        Ok(finite(sum + product))
    }

    fn series(
        &mut self,
        whole: &Expr,
        kind: Series,
        of: &Expr,
        variable: &str,
        from: &Expr,
        to: &Expr,
    ) -> Result<Option<Value>, Stop> {
        let (Some(from), Some(to)) = (self.value(from)?, self.value(to)?) else { return Ok(None) };
        let (Some(from), Some(to)) = (from.whole(), to.whole()) else {
            if let (Series::Sum, Some(from)) = (kind, from.whole())
                && let Some(degree) = calculus::degree(of, variable)
            {
                return self.polynomial_sum(of, variable, &from, &to, degree);
            }
            return Ok(Some(Value::Approximate(self.generic(&whole.to_string(), 8))));
        };
        let count: BigInt = &to - &from + 1;
        if count.is_negative() {
            return Ok(None);
        }
        let count = count.to_u32().filter(|count| *count <= MOST_TERMS).ok_or(Stop::TooMuch)?;
        let mut total = Value::Exact(if kind == Series::Sum { BigRational::zero() } else { BigRational::one() });
        for step in 0..count {
            self.bound.push((variable.to_owned(), BigRational::from_integer(&from + step)));
            let term = self.value(of);
            self.bound.pop();
            let Some(term) = term? else { return Ok(None) };
            let next = if kind == Series::Sum { add(&total, &term)? } else { multiply(&total, &term)? };
            let Some(next) = next else { return Ok(None) };
            total = next;
        }
        Ok(Some(total))
    }
}

impl SamplePoint<'_> {
    /// The sum of a polynomial up to any `to`: by Newton's forward differences, as it is a polynomial of `to` itself.
    fn polynomial_sum(
        &mut self,
        of: &Expr,
        variable: &str,
        from: &BigInt,
        to: &Value,
        degree: usize,
    ) -> Result<Option<Value>, Stop> {
        let mut differences = Vec::new(); // first those of the terms, which are the first differences of the sums
        for step in 0..=degree {
            self.bound.push((variable.to_owned(), BigRational::from_integer(from + step)));
            let term = self.value(of);
            self.bound.pop();
            let Some(term) = term? else { return Ok(None) };
            differences.push(term.approximate());
        }
        let count = to.approximate() - Value::Exact(BigRational::from_integer(from - 1)).approximate();
        let (mut sum, mut choose) = (Complex::from(0.0), Complex::ONE);
        for order in 0..=degree {
            // choose = count (count - 1) .. (count - order) / (order + 1)!
            choose = choose * (count - (order as f64).into()) / ((order + 1) as f64).into();
            sum = sum + choose * differences[0];
            differences = differences.windows(2).map(|pair| pair[1] - pair[0]).collect();
        }
        Ok(finite(sum))
    }
}

/// A value, unless it is out of range: too small a number loses its last digits, too large a one everything.
fn finite(value: Complex) -> Option<Value> {
    let size = value.re.abs().hi.max(value.im.abs().hi);
    let in_range = value.is_finite() && (value.is_zero() || (1e-200..1e200).contains(&size));
    in_range.then_some(Value::Approximate(value))
}

fn add(a: &Value, b: &Value) -> Result<Option<Value>, Stop> {
    match (a, b) {
        (Value::Exact(a), Value::Exact(b)) => Ok(Some(Value::Exact(number::sum(a, b)?))),
        _ => Ok(finite(a.approximate() + b.approximate())),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Option<Value>, Stop> {
    match (a, b) {
        (Value::Exact(a), Value::Exact(b)) => Ok(Some(Value::Exact(number::product(a, b)?))),
        (Value::Exact(zero), _) | (_, Value::Exact(zero)) if zero.is_zero() => Ok(Some(Value::Exact(zero.clone()))),
        _ => Ok(finite(a.approximate() * b.approximate())),
    }
}

fn divide(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (_, Value::Exact(zero)) if zero.is_zero() => None,
        (Value::Exact(a), Value::Exact(b)) => Some(Value::Exact(a / b)),
        _ => finite(a.approximate() / b.approximate()),
    }
}

fn power(base: &Value, exponent: &Value) -> Result<Option<Value>, Stop> {
    if let Some(exponent) = exponent.whole() {
        if let Some(base) = base.exact() {
            return Ok(number::power(base, &exponent)?.map(Value::Exact));
        }
        let base = base.approximate();
        if base.is_zero() {
            return Ok((!exponent.is_negative()).then_some(Value::Approximate(base)));
        }
        return Ok(match exponent.to_i32() {
            Some(exponent) if exponent.abs() <= 10_000 => finite(base.powi(exponent)),
            _ => None,
        });
    }
    if let Some(base) = base.exact() {
        if base.is_one() {
            return Ok(Some(Value::Exact(base.clone())));
        }
        if base.is_zero() {
            // 0^x stays what it is until x is known.
            let vanishes = exponent.exact().is_some_and(BigRational::is_positive);
            return Ok(vanishes.then(|| Value::Exact(base.clone())));
        }
        if let Some(exponent) = exponent.exact()
            && let Some(root) = number::exact_root(base, exponent.denom())
        {
            return Ok(number::power(&root, exponent.numer())?.map(Value::Exact));
        }
    }
    let base = base.approximate();
    if base.is_zero() {
        let vanishes = exponent.exact().is_some_and(BigRational::is_positive);
        return Ok(vanishes.then_some(Value::Approximate(base)));
    }
    if let Some(exponent) = exponent.exact()
        && exponent.denom() == &BigInt::from(2)
        && let Some(top) = exponent.numer().to_i32().filter(|top| top.abs() <= 10_000)
    {
        return Ok(finite(base.sqrt().powi(top)));
    }
    Ok(finite(base.pow(exponent.approximate())))
}

fn logarithm(of: &Value) -> Option<Value> {
    match of {
        Value::Exact(one) if one.is_one() => Some(Value::Exact(BigRational::zero())),
        _ if of.approximate().is_zero() => None,
        _ => finite(of.approximate().ln()),
    }
}

fn binomial(n: &Value, k: &Value) -> Result<Option<Value>, Stop> {
    if let (Some(n), Some(k)) = (n.exact(), k.whole()) {
        return number::binomial(n, &k).map(|value| Some(Value::Exact(value)));
    }
    let (n, k) = (n.approximate(), k.approximate());
    Ok(finite(n.factorial() / (k.factorial() * (n - k).factorial())))
}

pub(super) fn call(function: Function, of: &Value) -> Result<Option<Value>, Stop> {
    if let Some(of) = of.exact() {
        let exact = match function {
            Function::Abs => Some(of.abs()),
            Function::Conjugate => Some(of.clone()),
            Function::Floor => Some(of.floor()),
            Function::Ceiling => Some(of.ceil()),
            Function::Factorial if of.is_integer() => return Ok(number::factorial(of)?.map(Value::Exact)),
            Function::Exp | Function::Cos | Function::Sec | Function::Cosh if of.is_zero() => Some(BigRational::one()),
            Function::Sin | Function::Tan | Function::Sinh | Function::Tanh if of.is_zero() => Some(of.clone()),
            Function::Asin | Function::Atan | Function::Asinh | Function::Atanh if of.is_zero() => Some(of.clone()),
            _ => None,
        };
        if let Some(exact) = exact {
            return Ok(Some(Value::Exact(exact)));
        }
    }
    Ok(finite(of.approximate().apply(function)))
}
