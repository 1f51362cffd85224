//! Numbers within limits, digit by digit.

use super::parts::fragment;
use crate::Result;
use crate::dfa::{DEAD, Dfa};
use crate::nfa::Expr;
use crate::work::Work;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

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
pub(crate) fn integers(limits: Limits, work: &Work) -> Result<Option<Expr>> {
    let low = limits.low.map(|low| if low.included { low.value } else { low.value + 1 });
    let high = limits.high.map(|high| if high.included { high.value } else { high.value - 1 });
    let mut options = Vec::new();
    if high.is_none_or(|high| high >= 0) {
        options.extend(naturals(low.unwrap_or(0).max(0) as u128, high.map(|high| high as u128), work)?);
    }
    if low.is_none_or(|low| low < 0) {
        let (least, most) = (high.map_or(1, |high| (-high).max(1)), low.map(|low| -low));
        let magnitudes = naturals(least as u128, most.map(|most| most as u128), work)?;
        options.extend(magnitudes.map(|digits| Expr::Concat(vec![Expr::text("-"), digits])));
    }
    Ok((!options.is_empty()).then_some(Expr::Alt(options)))
}

/// Numbers within limits that are whole, written without an exponent. `None` if there are none.
pub(crate) fn decimals(limits: Limits, work: &Work) -> Result<Option<Expr>> {
    let minus = |limit: Limit| Limit { value: -limit.value, ..limit };
    let mut options = Vec::new();
    if limits.high.is_none_or(|high| high.value >= 0) {
        options.extend(magnitudes(limits.low.filter(|low| low.value >= 0), limits.high, work)?);
    }
    if limits.low.is_none_or(|low| low.value < 0) {
        // Not -0: it is written 0.
        let zero = Limit { value: 0, included: false };
        let least = limits.high.filter(|high| high.value < 0).map_or(zero, minus);
        let negative = magnitudes(Some(least), limits.low.map(minus), work)?;
        options.extend(negative.map(|digits| Expr::Concat(vec![Expr::text("-"), digits])));
    }
    Ok((!options.is_empty()).then_some(Expr::Alt(options)))
}

/// Numbers of 0 or more within limits of 0 or more.
fn magnitudes(low: Option<Limit>, high: Option<Limit>, work: &Work) -> Result<Option<Expr>> {
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
        None => options.extend(naturals(first, None, work)?.map(|n| with(n, r"(?:\.[0-9]+)?")).transpose()?),
        Some((last, included)) => {
            if let Some(below) = last.checked_sub(1) {
                options.extend(naturals(first, Some(below), work)?.map(|n| with(n, r"(?:\.[0-9]+)?")).transpose()?);
            }
            if included && last >= first {
                options.push(with(Expr::text(&last.to_string()), r"(?:\.0+)?")?);
            }
        }
    }
    Ok((!options.is_empty()).then_some(Expr::Alt(options)))
}

/// Decimal numbers of 0 or more, without leading zeros. `None` if there are none.
fn naturals(low: u128, high: Option<u128>, work: &Work) -> Result<Option<Expr>> {
    if high.is_some_and(|high| high < low) {
        return Ok(None);
    }
    let mut options = Vec::new();
    if low == 0 {
        options.push(Expr::text("0"));
    }
    if high != Some(0) {
        options.push(Expr::Dfa(Arc::new(positives(low.max(1), high, work)?)));
    }
    Ok(Some(Expr::Alt(options)))
}

/// The digits read so far: how many, and how they compare with as many first digits of either limit.
/// There are a few of these for each length, so that wide limits cost no more than their digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Prefix {
    digits: usize,
    to_low: Ordering,
    to_high: Ordering,
}

/// Decimal numbers of 1 or more, without leading zeros.
fn positives(low: u128, high: Option<u128>, work: &Work) -> Result<Dfa> {
    let low = low.to_string().into_bytes();
    let high = high.map(|high| high.to_string().into_bytes());
    let step = |prefix: Prefix, digit: u8| -> Option<Prefix> {
        let at = prefix.digits;
        if at == 0 && digit == b'0' {
            return None;
        }
        // Behind the last digit of the lower limit every number is larger.
        let to_low = low.get(at).map_or(Ordering::Greater, |other| prefix.to_low.then(digit.cmp(other)));
        let (digits, to_high) = match &high {
            Some(high) => (at + 1, prefix.to_high.then(digit.cmp(high.get(at)?))),
            None => ((at + 1).min(low.len()), Ordering::Less),
        };
        Some(Prefix { digits, to_low, to_high })
    };
    let accepts = |prefix: &Prefix| {
        let enough = prefix.digits >= low.len() && prefix.to_low.is_ge();
        enough && high.as_ref().is_none_or(|high| prefix.digits < high.len() || prefix.to_high.is_le())
    };
    // Classes: digits, everything else.
    let class = (0..=255u8).map(|byte| if byte.is_ascii_digit() { byte - b'0' } else { 10 }).collect();
    let mut queue = vec![Prefix { digits: 0, to_low: Ordering::Equal, to_high: Ordering::Equal }];
    let mut ids = HashMap::from([(queue[0], 0)]);
    let mut next = Vec::new();
    let mut done = 0;
    while let Some(&prefix) = queue.get(done) {
        done += 1;
        for digit in b'0'..=b'9' {
            next.push(step(prefix, digit).map_or(DEAD, |to| {
                *ids.entry(to).or_insert_with(|| {
                    queue.push(to);
                    queue.len() as u32 - 1
                })
            }));
        }
        next.push(DEAD);
    }
    Dfa { class, classes: 11, next, accepts: queue.iter().map(accepts).collect() }.reduced(work)
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
