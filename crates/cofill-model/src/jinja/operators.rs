//! Operators, with Python's meaning and a price.

use super::ast::{Binary, Comparison};
use super::budget::Budget;
use super::value::Value;
use super::{Problem, Result};
use std::cmp::Ordering;

/// `left operator right`
pub(super) fn binary(operator: Binary, left: &Value, right: &Value, budget: &mut Budget) -> Result<Value> {
    match (operator, left, right) {
        (Binary::Join, _, _) => {
            let (left, right) = (left.to_text(budget)?, right.to_text(budget)?);
            budget.make((left.len() + right.len()) as u64)?;
            Ok(Value::text([&*left, &*right].concat()))
        }
        (Binary::Add, Value::Text(a), Value::Text(b)) => {
            budget.make((a.len() + b.len()) as u64)?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        (Binary::Add, Value::List(a), Value::List(b)) => {
            budget.make_list(a.items.len() + b.items.len())?;
            Value::list([&a.items[..], &b.items[..]].concat())
        }
        (Binary::Multiply, Value::Text(text), Value::Int(n)) | (Binary::Multiply, Value::Int(n), Value::Text(text)) => {
            let n = usize::try_from(*n).unwrap_or(0); // fewer than none is none
            budget.make((text.len() as u64).saturating_mul(n as u64))?;
            Ok(Value::text(text.repeat(if text.is_empty() { 0 } else { n })))
        }
        (Binary::Multiply, Value::List(list), Value::Int(n)) | (Binary::Multiply, Value::Int(n), Value::List(list)) => {
            let n = usize::try_from(*n).unwrap_or(0);
            budget.make_list(list.items.len().saturating_mul(n))?;
            let n = if list.items.is_empty() { 0 } else { n };
            Value::list(std::iter::repeat_n(&list.items, n).flatten().cloned().collect())
        }
        _ => numbers(operator, left, right),
    }
}

fn numbers(operator: Binary, left: &Value, right: &Value) -> Result<Value> {
    match (number(left), number(right)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => integers(operator, a, b),
        (Some(a), Some(b)) => floats(operator, a.float(), b.float()).map(Value::Float),
        _ => {
            let kinds = (left.kind(), right.kind());
            Err(Problem::new(format!("`{}` does not go with {} and {}", sign(operator), kinds.0, kinds.1)))
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

/// Booleans are numbers, as in Python.
pub(super) fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Int(n) => Some(Number::Int(*n)),
        Value::Float(x) => Some(Number::Float(*x)),
        Value::Bool(b) => Some(Number::Int(i64::from(*b))),
        _ => None,
    }
}

fn integers(operator: Binary, a: i64, b: i64) -> Result<Value> {
    let zero = || Problem::new(format!("`{a} {} 0` divides by zero", sign(operator)));
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide if b == 0 => return Err(zero()),
        Binary::Divide => return Ok(Value::Float(a as f64 / b as f64)),
        Binary::DivideFloor | Binary::Remainder if b == 0 => return Err(zero()),
        // Rounded down, so that the remainder has the sign of `b`.
        Binary::DivideFloor => a.checked_div(b).map(|q| if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }),
        Binary::Remainder => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        Binary::Power if b < 0 => return floats(operator, a as f64, b as f64).map(Value::Float),
        Binary::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        Binary::Join => None,
    };
    let too_large = || Problem::new(format!("`{a} {} {b}` is too large a number", sign(operator)));
    result.map(Value::Int).ok_or_else(too_large)
}

fn floats(operator: Binary, a: f64, b: f64) -> Result<f64> {
    Ok(match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide | Binary::DivideFloor | Binary::Remainder if b == 0.0 => {
            return Err(Problem::new(format!("`{a} {} 0` divides by zero", sign(operator))));
        }
        Binary::Divide => a / b,
        Binary::DivideFloor => (a / b).floor(),
        Binary::Remainder => a - b * (a / b).floor(),
        Binary::Power => a.powf(b),
        Binary::Join => f64::NAN,
    })
}

fn sign(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Join => "~",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::DivideFloor => "//",
        Binary::Remainder => "%",
        Binary::Power => "**",
    }
}

/// `-value`
pub(super) fn negative(value: &Value) -> Result<Value> {
    match number(value) {
        Some(Number::Int(n)) => {
            n.checked_neg().map(Value::Int).ok_or_else(|| Problem::new(format!("`-{n}` is too large a number")))
        }
        Some(Number::Float(x)) => Ok(Value::Float(-x)),
        None => Err(Problem::new(format!("`-` does not go with {}", value.kind()))),
    }
}

/// `left comparison right`
pub(super) fn compare(comparison: Comparison, left: &Value, right: &Value, budget: &mut Budget) -> Result<bool> {
    Ok(match comparison {
        Comparison::Equal => equal(left, right, budget)?,
        Comparison::NotEqual => !equal(left, right, budget)?,
        Comparison::Less => order(left, right, budget)?.is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order(left, right, budget)?.is_some_and(Ordering::is_le),
        Comparison::Greater => order(left, right, budget)?.is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order(left, right, budget)?.is_some_and(Ordering::is_ge),
        Comparison::In => contains(right, left, budget)?,
        Comparison::NotIn => !contains(right, left, budget)?,
    })
}

/// Whether two values are equal, however large; paid for by the smaller, which is all that can be compared.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool> {
    budget.work(left.weight().min(right.weight()) / 32)?;
    Ok(same(left, right))
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| same(a, b))
        }
        // In any order, but nearly always in the same one, which keeps this linear.
        (Value::Map(a), Value::Map(b)) => {
            a.entries.len() == b.entries.len()
                && a.entries.iter().zip(&b.entries).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        _ => match (number(left), number(right)) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => a == b,
            (Some(a), Some(b)) => a.float() == b.float(),
            _ => false,
        },
    }
}

fn order(left: &Value, right: &Value, budget: &mut Budget) -> Result<Option<Ordering>> {
    if let (Value::Text(a), Value::Text(b)) = (left, right) {
        budget.scan(a.len().min(b.len()))?;
        return Ok(Some(a.cmp(b)));
    }
    match (number(left), number(right)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(Some(a.cmp(&b))),
        (Some(a), Some(b)) => Ok(a.float().partial_cmp(&b.float())),
        _ => Err(Problem::new(format!("{} and {} have no order", left.kind(), right.kind()))),
    }
}

/// `item in container`
pub(super) fn contains(container: &Value, item: &Value, budget: &mut Budget) -> Result<bool> {
    match (container, item) {
        (Value::Text(text), Value::Text(part)) => {
            budget.scan(text.len() + part.len())?;
            Ok(text.contains(&**part))
        }
        (Value::List(list), item) => {
            for known in &list.items {
                budget.work(1)?;
                if equal(known, item, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Map(map), Value::Text(key)) => Ok(map.get(key, budget)?.is_some()),
        (Value::Map(_) | Value::Undefined, _) => Ok(false),
        _ => Err(Problem::new(format!("`in` cannot look for {} in {}", item.kind(), container.kind()))),
    }
}

/// `value[from:to:step]`
pub(super) fn slice(value: &Value, [from, to, step]: [Option<i64>; 3], budget: &mut Budget) -> Result<Value> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Problem::new("the step of a slice is 0"));
    }
    match value {
        Value::Text(text) => {
            budget.make(text.len() as u64 * 4)?;
            let chars: Vec<char> = text.chars().collect();
            let kept: String = indices(chars.len(), from, to, step).map(|at| chars[at]).collect();
            Ok(Value::text(kept))
        }
        Value::List(list) => {
            budget.make_list(list.items.len())?;
            Value::list(indices(list.items.len(), from, to, step).map(|at| list.items[at].clone()).collect())
        }
        Value::Undefined => Err(Problem::new("an undefined value has no slice")),
        other => Err(Problem::new(format!("{} has no slice", other.kind()))),
    }
}

/// The indices that Python's slice takes from `n` elements.
fn indices(n: usize, from: Option<i64>, to: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    // Backwards, a slice may end before the first element.
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |at: i64| if at < 0 { at.saturating_add(n) } else { at }.clamp(low, high);
    let start = from.map_or(if step > 0 { low } else { high }, place);
    let end = to.map_or(if step > 0 { high } else { low }, place);
    let forwards = step > 0;
    let inside = move |at: &i64| if forwards { *at < end } else { *at > end };
    std::iter::successors(Some(start), move |at| at.checked_add(step)).take_while(inside).map(|at| at as usize)
}
