//! What an answer may take: `12` forwards, or `2s`.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What an answer may take, on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Forwards, the mean over prompts.
    Forwards(f64),
    /// Seconds on this machine, the median over prompts.
    Seconds(f64),
}

/// A budget that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is no budget; give a number of forwards from 1 on, as in `12`, or a time above 0, as in `2s` or `500ms`"
)]
pub struct BadBudget {
    given: String,
}

impl Budget {
    /// How many of either.
    pub fn most(&self) -> f64 {
        match self {
            Budget::Forwards(most) | Budget::Seconds(most) => *most,
        }
    }

    /// An amount of it, with its unit: `11.6 forwards`, `1.20 s`.
    pub fn amount(&self, amount: f64) -> String {
        match self {
            Budget::Forwards(_) => format!("{amount:.1} forwards"),
            Budget::Seconds(_) => seconds(amount),
        }
    }
}

/// Three digits that matter.
fn seconds(amount: f64) -> String {
    match amount {
        amount if amount >= 10.0 => format!("{amount:.1} s"),
        amount if amount >= 1.0 => format!("{amount:.2} s"),
        amount => format!("{:.1} ms", 1000.0 * amount),
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Forwards(most) => write!(f, "{most} forwards"),
            Budget::Seconds(most) => write!(f, "{most} s"),
        }
    }
}

impl FromStr for Budget {
    type Err = BadBudget;

    fn from_str(text: &str) -> Result<Budget, BadBudget> {
        let bad = || BadBudget { given: text.into() };
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(bad);
        let budget = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(milliseconds), _) => Budget::Seconds(number(milliseconds)? / 1000.0),
            (None, Some(seconds)) => Budget::Seconds(number(seconds)?),
            (None, None) => Budget::Forwards(number(text)?),
        };
        match budget {
            Budget::Forwards(most) if most < 1.0 => Err(bad()),
            Budget::Seconds(most) if most <= 0.0 => Err(bad()),
            budget => Ok(budget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_forwards_or_seconds() {
        assert_eq!("12".parse(), Ok(Budget::Forwards(12.0)));
        assert_eq!("2.5".parse(), Ok(Budget::Forwards(2.5)));
        assert_eq!("2s".parse(), Ok(Budget::Seconds(2.0)));
        assert_eq!("250ms".parse(), Ok(Budget::Seconds(0.25)));
        for bad in ["", "0", "0.5", "-3", "0s", "-1s", "s", "12 forwards", "inf", "NaN", "1m"] {
            let said = bad.parse::<Budget>().unwrap_err().to_string();
            assert!(said.contains(&format!("`{bad}`")) && said.contains("`2s`"), "{said}");
        }
        assert_eq!(Budget::Forwards(12.0).to_string(), "12 forwards");
        let times = [0.0123, 1.234, 12.34].map(|time| Budget::Seconds(2.0).amount(time));
        assert_eq!(times, ["12.3 ms", "1.23 s", "12.3 s"]);
    }
}
