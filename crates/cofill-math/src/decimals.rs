//! What subtracting does to answers with decimals.
//!
//! sympy evaluates arithmetic on decimals wherever it meets it, rounding every step: `0.1+0.2` is not `0.3`, `0.1 \cdot 3\pi` is
//! not `0.3\pi`, and the root of `2.0` is a decimal that the root of 2 is not. This module follows it as far as the order of
//! operations can be told: products and powers from the inside out, sums in the order in which subtraction walks them, like
//! terms collected. What is left over is compared with every decimal taken for the fraction it stands for.

use super::complex::Complex;
use super::evaluate::{self, Value};
use super::expr::{Expr, Function};
use super::number::{self, Number};
use super::{Stop, wide::Wide};
use num_rational::BigRational;
use num_traits::{FromPrimitive, One, Signed};

/// The terms of `a - b` after decimals have been added up: a number first, then everything else, collected.
pub(super) fn difference(a: &Expr, b: &Expr) -> Result<Vec<Expr>, Stop> {
    // Sums are opened breadth first, which puts the terms of `a` after a `b` of one term.
    let mut queue = vec![a.clone(), negated(b)];
    let mut sum = Number::int(0);
    let mut met: Vec<(Expr, Number)> = Vec::new();
    let mut next = 0;
    while let Some(term) = queue.get(next).cloned() {
        next += 1;
        match term {
            Expr::Number(n) => sum = sum.plus(&n),
            Expr::Add(a, b) => queue.extend([*a, *b]),
            Expr::Pow(base, exponent) => match power(*base, *exponent)? {
                number @ Expr::Number(_) => queue.push(number),
                other => {
                    if !other.has_symbols() {
                        evaluated(&other)?; // A tower of powers ends here: in a sum, sympy tries to work it out.
                    }
                    collect(&mut met, split(other));
                }
            },
            term => collect(&mut met, split(term)),
        }
    }
    // Only what did not cancel as written is worked out. A product of numbers joins the sum last.
    let mut collected: Vec<(Expr, Number)> = Vec::new();
    for (rest, coefficient) in met.into_iter().filter(|(_, c)| !c.is_zero()) {
        match evaluated(&Expr::mul(Expr::Number(coefficient), rest))? {
            Expr::Number(n) => sum = sum.plus(&n),
            term => {
                let (coefficient, rest) = split(term);
                collect(&mut collected, (coefficient, sorted(rest)));
            }
        }
    }
    let mut terms = vec![Expr::Number(sum)];
    terms.extend(collected.into_iter().filter(|(_, c)| !c.is_zero()).map(|(rest, c)| Expr::mul(Expr::Number(c), rest)));
    Ok(terms)
}

/// `-b`, term by term; the plain numbers among the terms of a sum are summed at once.
fn negated(b: &Expr) -> Expr {
    let mut queue = vec![b];
    let mut sum: Option<Number> = None;
    let mut terms = Vec::new();
    let mut next = 0;
    while let Some(&term) = queue.get(next) {
        next += 1;
        match term {
            Expr::Add(a, b) => queue.extend([&**a, &**b]),
            Expr::Number(n) => sum = Some(sum.map_or_else(|| n.negated(), |sum| sum.plus(&n.negated()))),
            other => terms.push(other.clone().negated()),
        }
    }
    let mut terms = sum.map(Expr::Number).into_iter().chain(terms);
    let first = terms.next().unwrap_or_else(|| Expr::int(0));
    terms.fold(first, Expr::add)
}

fn collect(collected: &mut Vec<(Expr, Number)>, (coefficient, rest): (Number, Expr)) {
    match collected.iter_mut().find(|(known, _)| *known == rest) {
        Some((_, sum)) => *sum = sum.plus(&coefficient),
        None => collected.push((rest, coefficient)),
    }
}

/// A product's number and the rest.
fn split(term: Expr) -> (Number, Expr) {
    match term {
        Expr::Mul(a, b) => match *a {
            Expr::Number(n) => (n, *b),
            a => (Number::int(1), Expr::Mul(Box::new(a), b)),
        },
        other => (Number::int(1), other),
    }
}

/// A product with its factors in a fixed order, so that `xy` and `yx` are like terms.
fn sorted(product: Expr) -> Expr {
    let mut todo = vec![product];
    let mut factors = Vec::new();
    while let Some(factor) = todo.pop() {
        match factor {
            Expr::Mul(a, b) => todo.extend([*b, *a]),
            other => factors.push((other.to_string(), other)),
        }
    }
    factors.sort_by(|a, b| a.0.cmp(&b.0));
    let mut factors = factors.into_iter().map(|(_, factor)| factor);
    let first = factors.next().unwrap_or_else(|| Expr::int(1));
    factors.fold(first, Expr::mul)
}

/// A formula with its arithmetic on numbers done, from the inside out, and numbers moved to the front of products.
fn evaluated(expr: &Expr) -> Result<Expr, Stop> {
    let failed = std::cell::Cell::new(None);
    let done = expr.map(&|e| {
        step(e).unwrap_or_else(|stop| {
            failed.set(Some(stop));
            Expr::int(0)
        })
    });
    failed.get().map_or(Ok(done), Err)
}

fn step(expr: Expr) -> Result<Expr, Stop> {
    Ok(match expr {
        Expr::Add(a, b) => match (*a, *b) {
            (Expr::Number(a), Expr::Number(b)) => Expr::Number(a.plus(&b)),
            (a, b) => Expr::add(a, b),
        },
        Expr::Mul(a, b) => {
            let ((m, a), (n, b)) = (factor(*a), factor(*b));
            let number = m.times(&n)?;
            let rest = match (a, b) {
                (Some(a), Some(b)) => Expr::mul(a, b),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return Ok(Expr::Number(number)),
            };
            if number.is_int(1) { rest } else { Expr::mul(Expr::Number(number), rest) }
        }
        Expr::Pow(base, exponent) => power(*base, *exponent)?,
        Expr::Call(function, of) => match *of {
            Expr::Number(n) => {
                function_of(function, &n)?.map_or_else(|| Expr::call(function, Expr::Number(n)), Expr::Number)
            }
            of => Expr::call(function, of),
        },
        Expr::Log(of, base) => match (*of, base) {
            (Expr::Number(n), base) if n.bits.is_some() && n.value.is_positive() => {
                let log = Expr::Number(rounded(evaluate::wide(&n.value).ln(), n.bits));
                match base {
                    None => log,
                    Some(base) => Expr::mul(log, Expr::pow(Expr::Log(base, None), Expr::int(-1))),
                }
            }
            (of, base) => Expr::Log(Box::new(of), base),
        },
        other => other,
    })
}

/// The number of a factor, and what else there is.
fn factor(expr: Expr) -> (Number, Option<Expr>) {
    match expr {
        Expr::Number(n) => (n, None),
        other => {
            let (n, rest) = split(other);
            (n, Some(rest))
        }
    }
}

fn power(base: Expr, exponent: Expr) -> Result<Expr, Stop> {
    let unchanged = |base, exponent| Ok(Expr::pow(base, exponent));
    let Expr::Number(e) = exponent else { return unchanged(base, exponent) };
    let whole = e.value.is_integer().then(|| e.value.to_integer());
    match base {
        Expr::Number(b) => {
            let bits = b.bits.max(e.bits);
            let value = match whole {
                Some(whole) => number::power(&b.value, &whole)?,
                None => number::exact_root(&b.value, e.value.denom())
                    .map_or(Ok(None), |root| number::power(&root, e.value.numer()))?,
            };
            match (value, bits) {
                (Some(value), None) => Ok(Expr::Number(Number { value, bits })),
                (Some(value), Some(n)) => Ok(Expr::Number(Number { value: number::round(&value, n), bits })),
                (None, Some(_)) if b.value.is_positive() => {
                    let value = Complex::from(evaluate::wide(&b.value)).pow(evaluate::wide(&e.value).into());
                    Ok(Expr::Number(rounded(value.re, bits)))
                }
                (None, _) => unchanged(Expr::Number(b), Expr::Number(e)),
            }
        }
        // A whole power goes to each factor.
        Expr::Mul(..) if e.bits.is_none() && whole.is_some() => {
            let (n, rest) = split(base);
            let number = power(Expr::Number(n), Expr::Number(e.clone()))?;
            step(Expr::mul(number, Expr::pow(rest, Expr::Number(e))))
        }
        base => unchanged(base, Expr::Number(e)),
    }
}

/// A function's value at a number, when sympy works it out at once.
fn function_of(function: Function, n: &Number) -> Result<Option<Number>, Stop> {
    let exact = matches!(function, Function::Abs | Function::Conjugate | Function::Floor | Function::Ceiling);
    if n.bits.is_none() && !exact && function != Function::Factorial {
        return Ok(None);
    }
    Ok(match evaluate::call(function, &Value::Exact(n.value.clone()))? {
        Some(Value::Exact(value)) => {
            let whole = matches!(function, Function::Floor | Function::Ceiling);
            Some(Number { value, bits: n.bits.filter(|_| !whole) })
        }
        Some(Value::Approximate(value)) if value.im.is_zero() => Some(rounded(value.re, n.bits)),
        _ => None,
    })
}

/// A value as a decimal of so many bits; what we compute has too few digits for more than a hundred.
fn rounded(value: Wide, bits: Option<u32>) -> Number {
    let part = |double: f64| BigRational::from_f64(double).unwrap_or_else(BigRational::one);
    let exact = part(value.hi) + part(value.lo);
    let bits = bits.unwrap_or(53).min(100);
    Number { value: number::round(&exact, bits), bits: Some(bits) }
}
