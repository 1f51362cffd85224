//! Derivatives, integrals and limits, as far as answers use them: sympy works them out before it compares.
//!
//! Derivatives of everything elementary; integrals of polynomials and of what is one step from a table; limits by putting the value
//! in, by l'Hôpital's rule, or by leading coefficients. What is not found stays as it is, equal to itself only.

use super::evaluate::SamplePoint;
use super::expr::{Calculus, Expr, Function};
use super::number::Number;
use super::{Stop, Work};

/// The highest power when a formula is read as a polynomial.
const MOST_TERMS: usize = 20;

/// How often l'Hôpital's rule is tried.
const ROUNDS: usize = 4;

/// `expr` with every derivative, integral and limit that we can find put in its place.
pub(super) fn resolved(expr: &Expr, work: &mut Work) -> Result<Expr, Stop> {
    if !expr.any(&|e| matches!(e, Expr::Calculus { .. })) {
        return Ok(expr.clone());
    }
    let work = std::cell::RefCell::new(work);
    let failed = std::cell::Cell::new(None);
    let found = expr.map(&|e| {
        let result = match &e {
            Expr::Calculus { kind, variable, args } => find(kind, variable, args, &mut work.borrow_mut()),
            _ => Ok(None),
        };
        match result {
            Ok(found) => found.unwrap_or(e),
            Err(stop) => {
                failed.set(Some(stop));
                e
            }
        }
    });
    failed.get().map_or(Ok(found), Err)
}

fn find(kind: &Calculus, variable: &str, args: &[Expr], work: &mut Work) -> Result<Option<Expr>, Stop> {
    work.spend(1000)?;
    Ok(match (kind, args) {
        (Calculus::Derivative, [of]) => derivative(of, variable),
        (Calculus::Integral, [of]) => antiderivative(of, variable),
        (Calculus::Integral, [of, from, to]) => antiderivative(of, variable)
            .map(|f| Expr::add(f.substituted(variable, to), f.substituted(variable, from).negated())),
        (Calculus::Limit(_), [of, to]) => limit(of, variable, to, work)?,
        _ => None,
    })
}

fn mentions(expr: &Expr, variable: &str) -> bool {
    expr.any(&|e| matches!(e, Expr::Symbol(name) if name == variable))
}

fn ratio(a: Expr, b: Expr) -> Expr {
    Expr::mul(a, Expr::pow(b, Expr::int(-1)))
}

fn derivative(expr: &Expr, x: &str) -> Option<Expr> {
    use Function::*;
    if !mentions(expr, x) {
        return Some(Expr::int(0));
    }
    Some(match expr {
        Expr::Symbol(_) => Expr::int(1),
        Expr::Add(a, b) => Expr::add(derivative(a, x)?, derivative(b, x)?),
        Expr::Mul(a, b) => {
            Expr::add(Expr::mul(derivative(a, x)?, (**b).clone()), Expr::mul((**a).clone(), derivative(b, x)?))
        }
        Expr::Pow(f, g) if !mentions(g, x) => {
            let lower = match &**g {
                Expr::Number(n) if n.is_int(1) => return derivative(f, x),
                Expr::Number(n) => Expr::Number(n.plus(&Number::int(-1))),
                g => Expr::add(g.clone(), Expr::int(-1)),
            };
            let lower = Expr::pow((**f).clone(), lower);
            Expr::mul(Expr::mul((**g).clone(), lower), derivative(f, x)?)
        }
        Expr::Pow(f, g) => {
            // (f^g)' = f^g (g' ln f + g f' / f)
            let log = Expr::Log(f.clone(), None);
            let inner = Expr::add(
                Expr::mul(derivative(g, x)?, log),
                Expr::mul((**g).clone(), ratio(derivative(f, x)?, (**f).clone())),
            );
            Expr::mul(expr.clone(), inner)
        }
        Expr::Log(f, None) => ratio(derivative(f, x)?, (**f).clone()),
        Expr::Log(f, Some(base)) if !mentions(base, x) => {
            ratio(derivative(f, x)?, Expr::mul((**f).clone(), Expr::Log(base.clone(), None)))
        }
        Expr::Call(function, f) => {
            let of = |function| Expr::call(function, (**f).clone());
            let square = Expr::pow((**f).clone(), Expr::int(2));
            let outer = match function {
                Exp => of(Exp),
                Sin => of(Cos),
                Cos => of(Sin).negated(),
                Tan => Expr::pow(of(Sec), Expr::int(2)),
                Cot => Expr::pow(of(Csc), Expr::int(2)).negated(),
                Sec => Expr::mul(of(Sec), of(Tan)),
                Csc => Expr::mul(of(Csc), of(Cot)).negated(),
                Sinh => of(Cosh),
                Cosh => of(Sinh),
                Atan => ratio(Expr::int(1), Expr::add(Expr::int(1), square)),
                Asin => ratio(
                    Expr::int(1),
                    Expr::pow(Expr::add(Expr::int(1), square.negated()), ratio(Expr::int(1), Expr::int(2))),
                ),
                _ => return None,
            };
            Expr::mul(outer, derivative(f, x)?)
        }
        _ => return None,
    })
}

/// Coefficients by power of `x`, lowest first.
fn polynomial(expr: &Expr, x: &str) -> Option<Vec<Expr>> {
    if !mentions(expr, x) {
        return Some(vec![expr.clone()]);
    }
    let product = |a: &[Expr], b: &[Expr]| {
        let mut sum: Vec<Option<Expr>> = vec![None; a.len() + b.len() - 1];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let term = Expr::mul(a.clone(), b.clone());
                sum[i + j] = Some(match sum[i + j].take() {
                    Some(sum) => Expr::add(sum, term),
                    None => term,
                });
            }
        }
        let sum: Vec<Expr> = sum.into_iter().map(|term| term.unwrap_or_else(|| Expr::int(0))).collect();
        (sum.len() <= MOST_TERMS).then_some(sum)
    };
    match expr {
        Expr::Symbol(_) => Some(vec![Expr::int(0), Expr::int(1)]),
        Expr::Add(a, b) => {
            let (a, b) = (polynomial(a, x)?, polynomial(b, x)?);
            let at = |side: &[Expr], i: usize| side.get(i).cloned().unwrap_or_else(|| Expr::int(0));
            Some((0..a.len().max(b.len())).map(|i| Expr::add(at(&a, i), at(&b, i))).collect())
        }
        Expr::Mul(a, b) => product(&polynomial(a, x)?, &polynomial(b, x)?),
        Expr::Pow(base, exponent) => {
            let Expr::Number(n) = &**exponent else { return None };
            let times = (1..=6).find(|times| n.is_int(*times))?;
            let base = polynomial(base, x)?;
            (1..times).try_fold(base.clone(), |power, _| product(&power, &base))
        }
        _ => None,
    }
}

/// The degree of `expr` as a polynomial of `x`, at most.
pub(super) fn degree(expr: &Expr, x: &str) -> Option<usize> {
    polynomial(expr, x).map(|coefficients| coefficients.len() - 1)
}

fn antiderivative(expr: &Expr, x: &str) -> Option<Expr> {
    use Function::*;
    let variable = Expr::Symbol(x.to_owned());
    if let Some(coefficients) = polynomial(expr, x) {
        let terms = (1..).zip(coefficients).map(|(power, coefficient)| {
            let raised = Expr::pow(variable.clone(), Expr::int(power));
            ratio(Expr::mul(coefficient, raised), Expr::int(power))
        });
        return terms.reduce(Expr::add);
    }
    Some(match expr {
        Expr::Add(a, b) => Expr::add(antiderivative(a, x)?, antiderivative(b, x)?),
        Expr::Mul(a, b) if !mentions(a, x) => Expr::mul((**a).clone(), antiderivative(b, x)?),
        Expr::Mul(a, b) if !mentions(b, x) => Expr::mul((**b).clone(), antiderivative(a, x)?),
        Expr::Pow(base, exponent) if **base == variable && !mentions(exponent, x) => {
            if matches!(&**exponent, Expr::Number(n) if n.is_int(-1)) {
                return Some(Expr::Log(base.clone(), None));
            }
            let up = Expr::add((**exponent).clone(), Expr::int(1));
            ratio(Expr::pow(variable, up.clone()), up)
        }
        Expr::Pow(base, exponent) if **exponent == variable && !mentions(base, x) => {
            ratio(expr.clone(), Expr::Log(base.clone(), None))
        }
        Expr::Call(Sin, of) if **of == variable => Expr::call(Cos, variable).negated(),
        Expr::Call(Cos, of) if **of == variable => Expr::call(Sin, variable),
        Expr::Call(Exp, of) if **of == variable => expr.clone(),
        _ => return None,
    })
}

/// Numerator and denominator of a product.
fn fraction(expr: &Expr) -> (Expr, Expr) {
    match expr {
        Expr::Mul(a, b) => {
            let ((p, q), (r, s)) = (fraction(a), fraction(b));
            (Expr::mul(p, r), Expr::mul(q, s))
        }
        Expr::Pow(base, exponent) => match &**exponent {
            Expr::Number(n) if n.is_int(-1) => (Expr::int(1), (**base).clone()),
            Expr::Number(n) if n.value < num_traits::Zero::zero() => {
                (Expr::int(1), Expr::pow((**base).clone(), Expr::Number(n.negated())))
            }
            _ => (expr.clone(), Expr::int(1)),
        },
        _ => (expr.clone(), Expr::int(1)),
    }
}

fn limit(of: &Expr, x: &str, to: &Expr, work: &mut Work) -> Result<Option<Expr>, Stop> {
    if let Expr::Infinity = to {
        let (top, bottom) = fraction(of);
        let (Some(top), Some(bottom)) = (polynomial(&top, x), polynomial(&bottom, x)) else { return Ok(None) };
        let (Some(leads), Some(beneath)) = (leading(&top, work)?, leading(&bottom, work)?) else { return Ok(None) };
        return Ok(match leads.cmp(&beneath) {
            std::cmp::Ordering::Less => Some(Expr::int(0)),
            std::cmp::Ordering::Equal => Some(ratio(top[leads].clone(), bottom[beneath].clone())),
            std::cmp::Ordering::Greater => None,
        });
    }
    let mut of = of.clone();
    for _ in 0..ROUNDS {
        let there = of.substituted(x, to);
        if has_value(&there, work)? {
            return Ok(Some(there));
        }
        let (top, bottom) = fraction(&of);
        if !vanishes(&top.substituted(x, to), work)? || !vanishes(&bottom.substituted(x, to), work)? {
            return Ok(None);
        }
        let (Some(top), Some(bottom)) = (derivative(&top, x), derivative(&bottom, x)) else { return Ok(None) };
        of = ratio(top, bottom);
    }
    Ok(None)
}

/// The highest power whose coefficient is not zero.
fn leading(coefficients: &[Expr], work: &mut Work) -> Result<Option<usize>, Stop> {
    for (power, coefficient) in coefficients.iter().enumerate().rev() {
        if !vanishes(coefficient, work)? {
            return Ok(Some(power));
        }
    }
    Ok(None)
}

fn has_value(expr: &Expr, work: &mut Work) -> Result<bool, Stop> {
    Ok(SamplePoint::new(0, work).value(expr)?.is_some())
}

fn vanishes(expr: &Expr, work: &mut Work) -> Result<bool, Stop> {
    Ok(SamplePoint::new(0, work).value(expr)?.is_some_and(|value| value.approximate().abs().hi < 1e-25))
}
