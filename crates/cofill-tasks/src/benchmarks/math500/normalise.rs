//! Normalising a final answer: appendix D of Lewkowycz et al. (2022), "Solving quantitative reasoning problems with language models".
//!
//! Substitutions of plain text, in an order that matters and with effects nobody meant: `\left` contains the unit `ft` and becomes
//! `\le`. Scores depend on each of them.

use crate::pystr::{is_digit, pattern};
use regex::Regex;
use std::sync::LazyLock;

/// Replaced one after the other.
const SUBSTITUTIONS: [(&str, &str); 10] = [
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    ("\\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
];

/// Deleted one after the other: units, words and spacing.
#[rustfmt::skip]
const REMOVED: [&str; 42] = [
    "square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", "\\ldots", "sue", "points", "feet",
    "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students", "childrentickets",
    "multiples", "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}", "\\mathrm{th}",
    "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", "\"", "\\dots",
];

/// Patterns and what takes their place, one after the other. In a replacement `$$` is a dollar.
const PATTERNS: [(&str, &str); 7] = [
    // The first formula between dollars is all that stays of a line.
    (r".*?\$(.*?)\$.*", "$$${1}$$"),
    (r"\\text\{(.*?)\}", "${1}"),
    (r"\\textbf\{(.*?)\}", "${1}"),
    (r"\\overline\{(.*?)\}", "${1}"),
    (r"\\boxed\{(.*)\}", "${1}"),
    // Shorthand: \frac12 is \frac{1}{2}, \sqrt2 is \sqrt{2}.
    (r"frac([^{])(.)", "frac{${1}}{${2}}"),
    (r"sqrt([^{])", "sqrt{${1}}"),
];

/// The normal form of a final answer.
pub fn normalise(answer: impl AsRef<str>) -> String {
    static COMPILED: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| PATTERNS.map(|(from, to)| (pattern(from), to)));

    let answer = answer.as_ref();
    let mut text = answer.rsplit_once('=').map_or(answer, |(_, right)| right).to_owned();
    for (from, to) in SUBSTITUTIONS {
        text = text.replace(from, to);
    }
    for removed in REMOVED {
        text = text.replace(removed, "");
    }
    for (from, to) in COMPILED.iter() {
        text = from.replace_all(&text, *to).into_owned();
    }
    text = text.replace('$', "");
    let digits = text.replace(',', "");
    if is_digit(&digits) { digits } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, normal: &str) {
        assert_eq!(normalise(answer), normal, "{answer}");
    }

    #[test]
    fn what_stays_of_an_answer() {
        check("x = y = 3", "3");
        check("the value $\\frac{1}{2}$, or $7$", "\\frac{1}{2}");
        check("a $x$ and\n a $y$", "x\ny");
        check("12 \\text{ cm}^2", "12");
        check("5\\text{ m}^2", "5");
        check("\\$1,250", "1250");
        check("1,250 \\text{ apples}", "1,250apples");
        check("\\text{A}\\mbox{ and }\\textbf{B}", "A,B");
        check("\\boxed{\\text{7}}", "7");
        check("30^\\circ", "30");
        check("90^{\\circ}", "90");
        check("10\\text{th}", "10th");
        check("1{,}000{,}000", "1000000");
        check("", "");
    }

    #[test]
    fn shorthand_is_written_out() {
        check("\\frac12", "\\frac{1}{2}");
        check("\\frac123", "\\frac{1}{2}3");
        check("\\sqrt2", "\\sqrt{2}");
        check("\\dfrac{1}{2}", "\\dfrac{1}{2}");
        // `.` is no line break, `[^{]` may be one.
        check("frac1\n2", "frac1\n2");
        check("frac\n12", "frac{\n}{1}2");
        check("sqrt\nx", "sqrt{\n}x");
    }

    #[test]
    fn odd_effects_are_kept() {
        check("\\left(1, 2\\right)", "\\le(1,2\\right)");
        check("\\infty", "\\iny");
        check("\\frac1{72}", "\\frac{1}{{}72}");
        check("\\sqrt[3]{8}", "\\sqrt{[}3]{8}");
        check("\\sqrt13", "\\sqrt{1}3");
        check("banana split", "banansplit");
        check("an apple", "apple");
        check("\\boxed{1} + \\boxed{2}", "1}+\\boxed{2");
    }

    #[test]
    fn commas_go_when_all_else_are_digits_of_some_kind() {
        check("1,2,3", "123");
        check("１,²", "１²");
        check(",", ",");
        check("-1,000", "-1,000");
        check("1.000,5", "1.000,5");
    }
}
