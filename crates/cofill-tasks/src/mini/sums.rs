//! `sums`: different equations with the same result, each with one of the given numbers.
//!
//! ```text
//! Write 6 different equations with result 17 using 3, 8, 5, 11, 10, 2.
//! 14+3=17
//! 8+9=17
//! 22-5=17
//! ...
//! ```
//!
//! Which number goes into which line is free, and so is the side it stands on and the sign: operands and sign of a line that are
//! decided at the same time miss the result. Reference answers take the numbers in the order of the prompt: in any order, models
//! of this size spent thousands of steps without learning to take each number once.

use super::draw::Draw;
use super::{Checked, Example, number, wrong};

/// Six lines of six tokens; the last has no line break, but the text ends there.
pub(super) const LENGTH: usize = 36;

pub(crate) const SHAPE: &str = "`Write 6 different equations with result 17 using 3, 8, 5, 11, 10, 2.`";

pub(crate) fn draw(draw: &mut Draw) -> Example {
    let n = draw.number(5, 6) as usize;
    let target = draw.number(13, 24);
    let mut all: Vec<i64> = (1..=11).collect();
    draw.shuffle(&mut all);
    let mut given: Vec<i64> = Vec::with_capacity(n);
    for x in all {
        // 8+9=17 would use two of the given numbers and leave a line without one.
        if given.len() < n && !given.contains(&(target - x)) {
            given.push(x);
        }
    }
    let list = given.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let prompt = format!("Write {n} different equations with result {target} using {list}.\n");
    let lines = given.iter().map(|&x| match draw.number(0, 2) {
        0 => format!("{x}+{}={target}", target - x),
        1 => format!("{}+{x}={target}", target - x),
        _ => format!("{}-{x}={target}", target + x),
    });
    let answer = lines.collect::<Vec<_>>().join("\n");
    Example { prompt, answer }
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Checked> {
    let task = Task::parse(prompt)?;
    Some(task.check(answer))
}

struct Task {
    n: usize,
    target: i64,
    given: Vec<i64>,
}

impl Task {
    fn parse(prompt: &str) -> Option<Task> {
        let rest = prompt.trim_end().strip_prefix("Write ")?.strip_suffix('.')?;
        let (n, rest) = rest.split_once(" different equations with result ")?;
        let (target, given) = rest.split_once(" using ")?;
        let given = given.split(", ").map(number).collect::<Option<Vec<_>>>()?;
        Some(Task { n: number(n)? as usize, target: number(target)?, given })
    }

    fn check(&self, answer: &str) -> Checked {
        let lines: Vec<&str> = answer.trim_end().split('\n').map(str::trim_end).collect();
        if lines.len() != self.n {
            return wrong(format!("{} lines, not {}", lines.len(), self.n));
        }
        let mut used = Vec::with_capacity(2 * self.n);
        for (i, line) in lines.iter().enumerate() {
            let Some(equation) = Equation::parse(line) else { return wrong(format!("`{line}` is no equation")) };
            if equation.result != self.target {
                return wrong(format!("`{line}` does not have the result {}", self.target));
            }
            if !equation.holds() {
                return wrong(format!("`{line}` does not hold"));
            }
            if lines[..i].contains(line) {
                return wrong(format!("`{line}` stands there twice"));
            }
            used.extend([equation.a, equation.b]);
        }
        match self.given.iter().find(|x| !used.contains(x)) {
            Some(x) => wrong(format!("{x} is not used")),
            None => Ok(()),
        }
    }
}

/// `a sign b = result`.
struct Equation {
    a: i64,
    sign: char,
    b: i64,
    result: i64,
}

impl Equation {
    fn parse(line: &str) -> Option<Equation> {
        let (left, result) = line.split_once('=')?;
        let at = left.find(['+', '-', '*'])?;
        let (a, rest) = left.split_at(at);
        let mut rest = rest.chars();
        let sign = rest.next()?;
        Some(Equation { a: number(a.trim())?, sign, b: number(rest.as_str().trim())?, result: number(result.trim())? })
    }

    fn holds(&self) -> bool {
        self.result
            == match self.sign {
                '+' => self.a + self.b,
                '-' => self.a - self.b,
                _ => self.a * self.b,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(answer: &str) -> Checked {
        check("Write 3 different equations with result 17 using 3, 8, 17.\n", answer).unwrap()
    }

    #[test]
    fn every_way_to_write_it_is_right() {
        assert_eq!(judge("3+14=17\n25-8=17\n34-17=17"), Ok(()));
        assert_eq!(judge("17*1=17\n9+8=17\n20-3=17\n"), Ok(()));
        assert_eq!(judge("0 + 17 = 17\n9 + 8 = 17\n20 - 3 = 17"), Ok(()), "spaces are style");
        // One line may use two of the numbers, or one number may be used by two lines: nothing forbids it.
        assert_eq!(
            check("Write 2 different equations with result 17 using 9, 8.\n", "9+8=17\n20-3=17").unwrap(),
            Ok(())
        );
    }

    #[test]
    fn every_way_to_miss_it_is_named() {
        assert_eq!(judge("3+14=17\n25-8=17"), wrong("2 lines, not 3"));
        assert_eq!(judge("3+14=17\n25-8=17\n0+17=17\n1+16=17"), wrong("4 lines, not 3"));
        assert_eq!(judge("3+14=17\n25-8=17\n3+14=17"), wrong("`3+14=17` stands there twice"));
        assert_eq!(judge("3+14=17\n25-8=17\n1+16=17"), wrong("17 is not used"));
        assert_eq!(judge("3+14=17\n24-8=17\n0+17=17"), wrong("`24-8=17` does not hold"));
        assert_eq!(judge("3+14=17\n24-8=16\n0+17=17"), wrong("`24-8=16` does not have the result 17"));
        assert_eq!(judge("3+14=17\n8\n0+17=17"), wrong("`8` is no equation"));
        assert_eq!(judge("3+14=17\n-8+25=17\n0+17=17"), wrong("`-8+25=17` is no equation"));
    }

    #[test]
    fn another_prompt_is_not_ours() {
        assert_eq!(check("Write 3 different equations with result 17.", "3+14=17"), None);
        assert_eq!(check("Write 3 different equations with result x using 3.", "3+14=17"), None);
    }
}
