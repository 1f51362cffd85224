//! Whether the difference of two formulas is zero: what sympy's `simplify(a - b) == 0` finds out.
//!
//! A difference is zero if it is zero everywhere: values at fixed points in the complex plane take the place of
//! simplification. Variables are complex there as in sympy, so that `\sqrt{x^2}` is not `x`.

use super::evaluate::{SamplePoint, Value};
use super::expr::Expr;
use super::{Stop, Work, calculus, decimals, number};
use num_traits::{Signed, Zero};

/// How many points two formulas must agree at.
const POINTS: u64 = 24;

/// The share of the larger one by which two equal values may differ. Values have 31 digits; decimals that sympy tells from an
/// irrational number differ in the 16th or so.
const TOLERANCE: f64 = 1e-20;

/// Whether sympy would call them equal.
pub(super) fn equal(a: &Expr, b: &Expr, work: &mut Work) -> Result<bool, Stop> {
    if a == b && cancels(a) {
        return Ok(true);
    }
    let (a, b) = (&calculus::resolved(a, work)?, &calculus::resolved(b, work)?);
    if lacks_value(a, work)? || lacks_value(b, work)? {
        // Infinity less infinity is nothing, however the terms are collected.
        return vanishes(&[a.clone(), b.clone().negated()], work);
    }
    let terms = decimals::difference(a, b)?;
    if let [Expr::Number(only)] = &terms[..] {
        return Ok(only.is_zero());
    }
    vanishes(&terms, work)
}

/// The same formula twice is gone in the subtraction, even one that has no value, like `5/0`. Not so infinity by itself
/// or as a factor in front, nor a power of numbers, which is evaluated at once.
fn cancels(expr: &Expr) -> bool {
    match expr {
        Expr::Add(a, b) => {
            [a, b].iter().all(|term| cancels(term) && !matches!(&***term, Expr::Pow(..) if !term.has_symbols()))
        }
        Expr::Pow(base, exponent) => !matches!((&**base, &**exponent), (Expr::Number(_), Expr::Number(_))),
        Expr::Mul(first, _) if **first == Expr::Infinity => false,
        _ => expr.has_symbols() || !expr.any(&|e| matches!(e, Expr::Infinity)),
    }
}

/// Whether a formula holds infinity, the inverse of 0, or its logarithm.
fn lacks_value(expr: &Expr, work: &mut Work) -> Result<bool, Stop> {
    let vanishing = match expr {
        Expr::Infinity => return Ok(true),
        Expr::Pow(base, exponent) if matches!(&**exponent, Expr::Number(n) if n.value.is_negative()) => Some(base),
        Expr::Log(of, _) => Some(of),
        _ => None,
    };
    if let Some(inner) = vanishing
        && !inner.has_symbols()
        && matches!(SamplePoint::new(0, work).value(inner)?, Some(Value::Exact(value)) if value.is_zero())
    {
        return Ok(true);
    }
    for child in expr.children() {
        if lacks_value(child, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the sum of `terms` is zero wherever it has a value, and has one somewhere.
fn vanishes(terms: &[Expr], work: &mut Work) -> Result<bool, Stop> {
    let points = if terms.iter().any(varies) { POINTS } else { 1 };
    let mut agreed = false;
    for index in 0..points {
        let mut point = SamplePoint::new(index, work);
        let mut values = Vec::with_capacity(terms.len());
        for term in terms {
            match point.value(term)? {
                Some(value) => values.push(value),
                None => break,
            }
        }
        if values.len() < terms.len() {
            continue;
        }
        if !is_zero(&values)? {
            return Ok(false);
        }
        agreed = true;
    }
    Ok(agreed)
}

/// Whether a formula's value depends on the point.
fn varies(expr: &Expr) -> bool {
    expr.has_symbols() || expr.any(&|e| matches!(e, Expr::Apply(..) | Expr::Opaque(..)))
}

fn is_zero(values: &[Value]) -> Result<bool, Stop> {
    let mut exact = num_rational::BigRational::zero();
    let mut all_exact = true;
    for value in values {
        match value {
            Value::Exact(ratio) => exact = number::sum(&exact, ratio)?,
            Value::Approximate(_) => all_exact = false,
        }
    }
    if all_exact {
        return Ok(exact.is_zero());
    }
    let approximate = values.iter().map(Value::approximate);
    let largest = approximate.clone().map(|v| v.abs().hi).fold(0.0, f64::max);
    let sum = approximate.fold(0.0.into(), |sum: super::complex::Complex, v| sum + v);
    Ok(sum.is_finite() && sum.abs().hi <= TOLERANCE * largest)
}
