//! Numbers in texts, compared digit by digit.
//!
//! A number is an optional sign, digits with or without commas between groups of three, an optional fraction and an optional exponent:
//! `7`, `-1,250.50`, `.5`, `3e-2`, `−4` (a true minus). A sign that follows a letter, a digit or a closing bracket is a hyphen: `3-2` is 3 and 2.
//! Commas that do not separate groups of three end a number: `1,23` is 1 and 23. Currencies, units and percent signs are passed over.

use regex::Regex;
use std::sync::LazyLock;

/// A decimal number, exactly: `digits` without zeros at either end, times ten to the `exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    // Exponents of at most four digits: what a text means by more is not a number.
    let pattern =
        r"[+\-−]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+\-−]?[0-9]{1,4})?";
    Regex::new(pattern).expect("a fixed expression")
});

impl Decimal {
    /// A text that is a number and nothing else.
    pub fn parse(text: &str) -> Option<Decimal> {
        let text = text.trim();
        let found = NUMBER.find(text)?;
        // `1,2345` begins with a number and is none.
        (found.start() == 0 && found.end() == text.len()).then(|| Decimal::of(text))
    }

    /// Every number of a text, with the text that it was.
    pub fn all(text: &str) -> Vec<(&str, Decimal)> {
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(found) = NUMBER.find_at(text, at) {
            let (mut start, mut end) = (found.start(), found.end());
            // A group of more than three digits is none: the number ends before its comma.
            let grouped = text[start..end].rfind(',').filter(|_| !text[start..end].contains(['.', 'e', 'E']));
            if let Some(comma) = grouped.filter(|_| text[end..].starts_with(|c: char| c.is_ascii_digit())) {
                end = start + comma;
            }
            let before = text[..start].chars().next_back();
            let signed = text[start..].starts_with(['+', '-', '−']);
            if signed && before.is_some_and(|c| c.is_alphanumeric() || ")]".contains(c)) {
                start += text[start..].chars().next().map_or(0, char::len_utf8);
            }
            all.push((&text[start..end], Decimal::of(&text[start..end])));
            at = end;
        }
        all
    }

    /// Of a text that the expression has matched.
    fn of(text: &str) -> Decimal {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.replace('−', "-").parse().unwrap_or(0);
        let negative = mantissa.starts_with(['-', '−']);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
        let (whole, fraction) = (digits(whole), digits(fraction));
        let all = format!("{whole}{fraction}");
        let kept = all.trim_end_matches('0');
        let exponent = exponent - fraction.len() as i64 + (all.len() - kept.len()) as i64;
        let digits = kept.trim_start_matches('0').to_owned();
        match digits.is_empty() {
            true => Decimal { negative: false, digits, exponent: 0 }, // -0 is 0
            false => Decimal { negative, digits, exponent },
        }
    }

    /// The nearest float.
    pub fn value(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        format!("{sign}{digits}e{}", self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// Whether this is `gold`: exactly, or as near as one of the tolerances allows. `relative` is of the gold number.
    pub fn is(&self, gold: &Decimal, absolute: f64, relative: f64) -> bool {
        // Exactly first: floats would take 9007199254740993 for 9007199254740992.
        if self == gold {
            return true;
        }
        let most = absolute.max(relative * gold.value().abs());
        most > 0.0 && (self.value() - gold.value()).abs() <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        Decimal::all(text).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(found("7+5=12"), ["7", "5", "12"]);
        assert_eq!(found("It costs $1,250.50, not 1250."), ["1,250.50", "1250"]);
        assert_eq!(found("3-2 (4)-1 x-1 -1 −4 +6"), ["3", "2", "4", "1", "1", "-1", "−4", "+6"]);
        assert_eq!(found("1,23 1,2345 12,345,678 1,234,56"), ["1", "23", "1", "2345", "12,345,678", "1,234", "56"]);
        assert_eq!(found(".5 0.50 5. 1e3 2E-2 1e99999 50%"), [".5", "0.50", "5", "1e3", "2E-2", "1e9999", "9", "50"]);
        assert_eq!(found("none, ١٢"), [""; 0]);
    }

    #[test]
    fn equal_numbers_are_equal_however_they_are_written() {
        let same = |a: &str, b: &str| Decimal::parse(a) == Decimal::parse(b) && Decimal::parse(a).is_some();
        for (a, b) in [("12", "12.0"), ("0.5", ".50"), ("1,000", "1e3"), ("-0", "0.0"), ("+7", "007"), ("−4", "-4")] {
            assert!(same(a, b), "{a} {b}");
        }
        // Beyond what floats tell apart.
        assert!(!same("9007199254740993", "9007199254740992"));
        assert!(!same("1", "-1") && !same("10", "1"));
        for none in ["", "x", "1,2345", "1 2", "12a", "--1", "1."] {
            assert_eq!(Decimal::parse(none), None, "{none}");
        }
    }

    #[test]
    fn tolerances_are_absolute_or_relative() {
        let is = |a: &str, gold: &str, absolute, relative| {
            Decimal::parse(a).unwrap().is(&Decimal::parse(gold).unwrap(), absolute, relative)
        };
        assert!(is("3.14", "3.14159", 0.01, 0.0) && !is("3.1", "3.14159", 0.01, 0.0));
        // 1 % of -200 is 2.
        assert!(is("-198", "-200", 0.0, 0.01) && !is("-197", "-200", 0.0, 0.01));
        assert!(!is("1", "2", 0.0, 0.0) && is("0.0", "0", 0.0, 0.0));
        // Infinite as floats, and still not each other.
        assert!(!is("1e9999", "2e9999", 1.0, 0.0));
    }

    #[test]
    fn a_hostile_text_takes_linear_time() {
        // A megabyte of digits and commas.
        assert!(!Decimal::all(&"1,234".repeat(200_000)).is_empty());
        assert_eq!(Decimal::all(&format!("1{}5", ",234".repeat(200_000))).len(), 2);
        assert_eq!(Decimal::all(&"9".repeat(1 << 20)).len(), 1);
    }
}
