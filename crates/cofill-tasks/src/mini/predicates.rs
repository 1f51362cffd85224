//! `predicates`: arithmetic predicates with gaps, from the paper's appendix F.
//!
//! ```text
//! Fill the gaps:
//! 3+[MASK:1]+[MASK:1]=10
//! min(4,[MASK:1],2)=[MASK:1]
//! 2*3*[MASK:1]=24
//! ...
//! ```
//!
//! Only integers are ever masked. Two gaps of one predicate depend on each other, gaps of different predicates do not: the
//! dependency structure is known, which is what the paper's diagnostic needs. Whatever makes all predicates hold is right.

use super::draw::Draw;
use super::{Checked, Example, number, wrong};

pub(crate) const SHAPE: &str = "`Fill the gaps:` and predicates such as `3+[MASK:1]+5=10` or `max(4,2,[MASK:1])=9`";

/// How a gap is written, here and in `cofill generate --template`.
pub const GAP: &str = "[MASK:1]";

/// What a prompt begins with.
pub const HEAD: &str = "Fill the gaps:\n";
/// How many predicates a prompt has.
pub const N_PREDICATES: usize = 5;

/// The kinds of predicates: the set E of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `a+b+c=d`
    Sum,
    /// `a*b*c=d`
    Product,
    /// `min(a,b,c)=d`
    Min,
    /// `max(a,b,c)=d`
    Max,
}

/// Every kind of predicate.
pub const KINDS: [Kind; 4] = [Kind::Sum, Kind::Product, Kind::Min, Kind::Max];

impl Kind {
    /// The fourth integer, given the first three.
    pub fn value(self, [a, b, c]: [i64; 3]) -> i64 {
        match self {
            Kind::Sum => a + b + c,
            Kind::Product => a * b * c,
            Kind::Min => a.min(b).min(c),
            Kind::Max => a.max(b).max(c),
        }
    }

    /// The largest operand that is drawn: few enough facts for a tiny model, and results below 100.
    pub fn most(self) -> i64 {
        match self {
            Kind::Sum => 6,
            Kind::Product => 4,
            Kind::Min | Kind::Max => 9,
        }
    }

    /// As it is written in a prompt.
    pub fn text(self, [a, b, c, d]: [&str; 4]) -> String {
        match self {
            Kind::Sum => format!("{a}+{b}+{c}={d}"),
            Kind::Product => format!("{a}*{b}*{c}={d}"),
            Kind::Min => format!("min({a},{b},{c})={d}"),
            Kind::Max => format!("max({a},{b},{c})={d}"),
        }
    }

    /// A line's kind and its four slots, in order.
    fn parse(line: &str) -> Option<(Kind, [&str; 4])> {
        let (left, d) = line.split_once('=')?;
        let inside = |name: &str| left.strip_prefix(name)?.strip_suffix(')');
        let (kind, operands, between) = match (inside("min("), inside("max(")) {
            (Some(operands), _) => (Kind::Min, operands, ','),
            (_, Some(operands)) => (Kind::Max, operands, ','),
            _ if left.contains('+') => (Kind::Sum, left, '+'),
            _ => (Kind::Product, left, '*'),
        };
        let mut operands = operands.split(between);
        let slots = [operands.next()?, operands.next()?, operands.next()?, d];
        if operands.next().is_some() { None } else { Some((kind, slots)) }
    }
}

pub(crate) fn draw(draw: &mut Draw) -> Example {
    let mut values: Vec<(Kind, [i64; 4])> = Vec::with_capacity(N_PREDICATES);
    for _ in 0..N_PREDICATES {
        let kind = draw.pick(&KINDS);
        let [a, b, c] = [0; 3].map(|_| draw.number(1, kind.most()));
        values.push((kind, [a, b, c, kind.value([a, b, c])]));
    }
    // The masking ratio r of the paper, from a quarter to three quarters of the integers.
    let n_slots = 4 * N_PREDICATES;
    let n_gaps = draw.number(n_slots as i64 / 4, n_slots as i64 * 3 / 4) as usize;
    let mut slots: Vec<usize> = (0..n_slots).collect();
    draw.shuffle(&mut slots);
    let gaps = &slots[..n_gaps];

    let (mut prompt, mut answer) = (HEAD.to_owned(), HEAD.to_owned());
    for (i, (kind, values)) in values.iter().enumerate() {
        let whole = values.map(|value| value.to_string());
        let shown = |j: usize| if gaps.contains(&(4 * i + j)) { GAP } else { &whole[j] };
        prompt += &(kind.text([shown(0), shown(1), shown(2), shown(3)]) + "\n");
        answer += &(kind.text([&whole[0], &whole[1], &whole[2], &whole[3]]) + "\n");
    }
    Example { prompt, answer }
}

/// What is left of a prompt whatever its integers are and whichever of them are masked.
pub(crate) fn operators(prompt: &str) -> String {
    let kinds = prompt.lines().map(|line| Kind::parse(line).map_or('?', |(kind, _)| (b'a' + kind as u8) as char));
    kinds.collect()
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Checked> {
    let asked: Vec<(Kind, [&str; 4])> = lines(prompt)?.map(Kind::parse).collect::<Option<_>>()?;
    if asked.is_empty() || asked.iter().flat_map(|(_, slots)| slots).any(|slot| *slot != GAP && number(slot).is_none())
    {
        return None;
    }
    let Some(given) = lines(answer) else { return Some(wrong("the first line has changed")) };
    let given: Vec<&str> = given.collect();
    if given.len() != asked.len() {
        return Some(wrong(format!("{} predicates, not {}", given.len(), asked.len())));
    }
    Some(asked.iter().zip(given).try_for_each(|((kind, slots), line)| judge(*kind, slots, line)))
}

fn judge(kind: Kind, slots: &[&str; 4], line: &str) -> Checked {
    let Some((_, values)) = Kind::parse(line).filter(|(given, _)| *given == kind) else {
        return wrong(format!("`{line}` is another predicate than `{}`", kind.text(*slots)));
    };
    if slots.iter().zip(&values).any(|(slot, value)| *slot != GAP && slot != value) {
        return wrong(format!("`{line}` changes what `{}` gives", kind.text(*slots)));
    }
    match values.map(number) {
        [Some(a), Some(b), Some(c), Some(d)] if kind.value([a, b, c]) == d => Ok(()),
        [Some(_), Some(_), Some(_), Some(_)] => wrong(format!("`{line}` does not hold")),
        _ => wrong(format!("`{line}` has a gap that is no number")),
    }
}

fn lines(text: &str) -> Option<impl Iterator<Item = &str>> {
    Some(text.strip_prefix(HEAD)?.trim_end_matches('\n').split('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str =
        "Fill the gaps:\n3+[MASK:1]+[MASK:1]=10\nmin(4,[MASK:1],2)=[MASK:1]\n2*3*[MASK:1]=24\nmax([MASK:1],1,5)=9\n";

    fn fill(numbers: [&str; 6]) -> String {
        numbers.iter().fold(PROMPT.to_owned(), |text, number| text.replacen(GAP, number, 1))
    }

    #[test]
    fn every_filling_that_holds_is_right() {
        for numbers in [["3", "4", "7", "2", "4", "9"], ["7", "0", "1", "1", "4", "9"], ["2", "5", "2", "2", "4", "9"]]
        {
            assert_eq!(check(PROMPT, &fill(numbers)).unwrap(), Ok(()), "{numbers:?}");
        }
        // Without its last line break it is the same text.
        assert_eq!(check(PROMPT, fill(["3", "4", "7", "2", "4", "9"]).trim_end()).unwrap(), Ok(()));
    }

    #[test]
    fn what_does_not_hold_is_named() {
        let judge = |numbers| check(PROMPT, &fill(numbers)).unwrap();
        assert_eq!(judge(["3", "3", "7", "2", "4", "9"]), wrong("`3+3+3=10` does not hold"));
        assert_eq!(judge(["3", "4", "1", "2", "4", "9"]), wrong("`min(4,1,2)=2` does not hold"));
        assert_eq!(judge(["3", "4", "1", "1", "5", "9"]), wrong("`2*3*5=24` does not hold"));
        assert_eq!(judge(["3", "4", "1", "1", "4", "+"]), wrong("`max(+,1,5)=9` has a gap that is no number"));
    }

    #[test]
    fn what_was_given_stays() {
        let right = fill(["3", "4", "7", "2", "4", "9"]);
        let judge = |answer: &str| check(PROMPT, answer).unwrap();
        assert_eq!(
            judge(&right.replace("3+3+4=10", "2+4+4=10")),
            wrong("`2+4+4=10` changes what `3+[MASK:1]+[MASK:1]=10` gives")
        );
        assert_eq!(
            judge(&right.replace("max(9,1,5)=9", "9+0+0=9")),
            wrong("`9+0+0=9` is another predicate than `max([MASK:1],1,5)=9`")
        );
        assert_eq!(judge(right.trim_end_matches("max(9,1,5)=9\n")), wrong("3 predicates, not 4"));
        assert_eq!(judge("3+3+4=10"), wrong("the first line has changed"));
    }

    #[test]
    fn operators_survive_any_masking() {
        let whole = fill(["3", "4", "7", "2", "4", "9"]);
        assert_eq!(operators(PROMPT), operators(&whole));
        // The head is no predicate; then sum, min, product, max.
        assert_eq!(operators(PROMPT), "?acbd");
    }

    #[test]
    fn another_prompt_is_not_ours() {
        assert_eq!(check("3+[MASK:1]=10", ""), None);
        assert_eq!(check("Fill the gaps:\n3+[MASK:1]=10\n", ""), None);
        assert_eq!(check("Fill the gaps:\n3+x+[MASK:1]=10\n", ""), None);
    }
}
