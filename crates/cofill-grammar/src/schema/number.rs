//! Numbers within limits, digit by digit.

use super::parts::fragment;
use crate::Result;
use crate::dfa::{DEAD, Dfa};
use crate::nfa::Expr;
use crate::work::Work;

/// Limits of a number, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) low: Option<Limit>,
    pub(crate) high: Option<Limit>,
}

/// A limit, and whether the number may equal it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) value: i128,
    pub(crate) included: bool,
}

/// Whole numbers within limits. `None` if there are none.
pub(crate) fn integers(limits: Limits) -> Option<Expr> {
    let low = limits.low.map(|low| if low.included { low.value } else { low.value + 1 });
    let high = limits.high.map(|high| if high.included { high.value } else { high.value - 1 });
    let mut options = Vec::new();
    if high.is_none_or(|high| high >= 0) {
        options.extend(naturals(low.unwrap_or(0).max(0) as u128, high.map(|high| high as u128)));
    }
    if low.is_none_or(|low| low < 0) {
        let (least, most) = (high.map_or(1, |high| (-high).max(1)), low.map(|low| -low));
        let magnitudes = naturals(least as u128, most.map(|most| most as u128));
        options.extend(magnitudes.map(|digits| Expr::Concat(vec![Expr::text("-"), digits])));
    }
    (!options.is_empty()).then_some(Expr::Alt(options))
}

/// Numbers within limits that are whole, written without an exponent. `None` if there are none.
pub(crate) fn decimals(limits: Limits) -> Result<Option<Expr>> {
    let minus = |limit: Limit| Limit { value: -limit.value, ..limit };
    let mut options = Vec::new();
    if limits.high.is_none_or(|high| high.value >= 0) {
        options.extend(magnitudes(limits.low.filter(|low| low.value >= 0), limits.high)?);
    }
    if limits.low.is_none_or(|low| low.value < 0) {
        // Not -0: it is written 0.
        let zero = Limit { value: 0, included: false };
        let least = limits.high.filter(|high| high.value < 0).map_or(zero, minus);
        let negative = magnitudes(Some(least), limits.low.map(minus))?;
        options.extend(negative.map(|digits| Expr::Concat(vec![Expr::text("-"), digits])));
    }
    Ok((!options.is_empty()).then_some(Expr::Alt(options)))
}

/// Numbers of 0 or more within limits of 0 or more.
fn magnitudes(low: Option<Limit>, high: Option<Limit>) -> Result<Option<Expr>> {
    let with = |digits: Expr, fraction: &'static str| Ok(Expr::Concat(vec![digits, Expr::Dfa(fragment(fraction)?)]));
    let mut options = Vec::new();
    let mut first = 0;
    if let Some(low) = low {
        first = low.value as u128;
        if !low.included {
            // The limit itself only with a fraction that is not 0, if it may have one at all.
            if high.is_none_or(|high| high.value as u128 > first) {
                options.push(with(Expr::text(&first.to_string()), r"\.[0-9]*[1-9][0-9]*")?);
            }
            first += 1;
        }
    }
    match high.map(|high| (high.value as u128, high.included)) {
        None => options.extend(naturals(first, None).map(|n| with(n, r"(?:\.[0-9]+)?")).transpose()?),
        Some((last, included)) => {
            if let Some(below) = last.checked_sub(1) {
                options.extend(naturals(first, Some(below)).map(|n| with(n, r"(?:\.[0-9]+)?")).transpose()?);
            }
            if included && last >= first {
                options.push(with(Expr::text(&last.to_string()), r"(?:\.0+)?")?);
            }
        }
    }
    Ok((!options.is_empty()).then_some(Expr::Alt(options)))
}

/// Decimal numbers of 0 or more, without leading zeros. `None` if there are none.
fn naturals(low: u128, high: Option<u128>) -> Option<Expr> {
    if high.is_some_and(|high| high < low) {
        return None;
    }
    let low = low.to_string();
    let high_text = high.map(|high| high.to_string());
    let longest = high_text.as_ref().map_or(low.len(), String::len);
    let mut options: Vec<Expr> = (low.len()..=longest)
        .map(|length| {
            let from = if length == low.len() { low.clone() } else { format!("1{}", "0".repeat(length - 1)) };
            let to = high_text.clone().filter(|high| high.len() == length).unwrap_or_else(|| "9".repeat(length));
            between(from.as_bytes(), to.as_bytes())
        })
        .collect();
    if high.is_none() {
        options.push(Expr::Concat(vec![digit(b'1', b'9'), digit(b'0', b'9').repeat(longest, None)]));
    }
    Some(Expr::Alt(options))
}

/// Digits between two numbers of the same length.
fn between(low: &[u8], high: &[u8]) -> Expr {
    let any = |length: usize| digit(b'0', b'9').repeat(length, Some(length));
    match (low, high) {
        ([a, low @ ..], [b, high @ ..]) if a == b => Expr::Concat(vec![digit(*a, *a), between(low, high)]),
        ([a, low @ ..], [b, high @ ..]) => {
            let (nines, zeros) = (vec![b'9'; low.len()], vec![b'0'; low.len()]);
            let mut options = vec![Expr::Concat(vec![digit(*a, *a), between(low, &nines)])];
            if a + 1 < *b {
                options.push(Expr::Concat(vec![digit(a + 1, b - 1), any(low.len())]));
            }
            options.push(Expr::Concat(vec![digit(*b, *b), between(&zeros, high)]));
            Expr::Alt(options)
        }
        _ => Expr::Bytes(Vec::new()),
    }
}

fn digit(low: u8, high: u8) -> Expr {
    Expr::Alt((low..=high).map(|digit| Expr::Bytes(vec![digit])).collect())
}

/// Whole numbers that this one divides: the rest so far is the state. 0 has no sign.
pub(crate) fn multiples(of: u32, work: &Work) -> Result<Dfa> {
    // States: 0 start, 1 behind the sign, 2 the number 0, 3 + rest. Classes: digits, the sign, everything else.
    let class = |byte: u8| match byte {
        b'0'..=b'9' => byte - b'0',
        b'-' => 10,
        _ => 11,
    };
    let states = of + 3;
    let mut next = Vec::new();
    for state in 0..states {
        for c in 0..12 {
            next.push(match (state, c) {
                (0, 10) => 1,
                (0, 0) => 2,
                (0 | 1, 1..=9) => 3 + c % of,
                (3.., 0..=9) => 3 + ((state - 3) * 10 + c) % of,
                _ => DEAD,
            });
        }
    }
    let accepts = (0..states).map(|state| state == 2 || state == 3).collect();
    Dfa { class: (0..=255).map(class).collect(), classes: 12, next, accepts }.reduced(work)
}
