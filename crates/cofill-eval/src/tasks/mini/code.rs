//! `code`: a function with a given value, in HumanEval's shape: described in words, judged by running it.
//!
//! ```text
//! Write f so that f(3) is 12: multiply, add, subtract, add.
//! def f(x):
//!  x*=2 #6
//!  x+=7 #13
//!  x-=5 #8
//!  x+=4 #12
//!  return x
//! ```
//!
//! The constants are free, but they must lead to the value together: any of them can be chosen, not any two at once. The comments
//! say where the value is after each step, so that one step is enough to see what fits; they are comments, and nobody checks them.
//! Whoever writes from both ends must meet in the middle, so every step but the first can reach many values (a product cannot).
//! Any program is right that takes those operations in that order and has that value, however it is written.

use super::draw::Draw;
use super::{Example, Verdict, number, python, wrong};
use python::Operation;

/// `def f(x):` is five tokens, a step six, ` return x` with its line break three.
pub const LENGTH: usize = 32;

pub(crate) const SHAPE: &str = "`Write f so that f(3) is 12: multiply, add, subtract, add.`";

const N_STEPS: i64 = 4;

/// No value on the way is larger.
const MOST: i64 = 40;

const WORDS: [(Operation, &str); 3] =
    [(Operation::Add, "add"), (Operation::Subtract, "subtract"), (Operation::Multiply, "multiply")];

pub(crate) fn draw(draw: &mut Draw) -> Example {
    loop {
        let x = draw.number(1, 30);
        if let Some(example) = try_draw(draw, x) {
            return example;
        }
    }
}

fn try_draw(draw: &mut Draw, x: i64) -> Option<Example> {
    let mut value = x;
    let (mut words, mut answer) = (Vec::new(), "def f(x):".to_owned());
    for step in 1..=N_STEPS {
        let (sign, word, by, next) = match draw.number(0, if step == 1 { 2 } else { 1 }) {
            0 => ('+', "add", draw.number(1, 9), 1),
            1 => ('-', "subtract", draw.number(1, 9), -1),
            _ => ('*', "multiply", draw.number(2, 3), 0),
        };
        value = if next == 0 { value * by } else { value + next * by };
        if !(1..=MOST).contains(&value) {
            return None;
        }
        words.push(word);
        answer += &format!("\n x{sign}={by} #{value}");
    }
    answer += "\n return x";
    Some(Example { prompt: format!("Write f so that f({x}) is {value}: {}.\n", words.join(", ")), answer })
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Verdict> {
    let (x, want, steps) = parse(prompt)?;
    Some(match python::run(answer, "f", x) {
        Err(error) => wrong(error.to_string()),
        Ok(run) if run.value != want => wrong(format!("f({x}) is {}, not {want}", run.value)),
        Ok(run) if run.operations != steps => {
            wrong(format!("the steps are {}, not {}", list(&run.operations), list(&steps)))
        }
        Ok(_) => Ok(()),
    })
}

fn parse(prompt: &str) -> Option<(i64, i64, Vec<Operation>)> {
    let rest = prompt.trim_end().strip_prefix("Write f so that f(")?.strip_suffix('.')?;
    let (x, rest) = rest.split_once(") is ")?;
    let (value, steps) = rest.split_once(": ")?;
    let operation = |word| WORDS.iter().find(|(_, known)| *known == word).map(|(operation, _)| *operation);
    Some((number(x)?, number(value)?, steps.split(", ").map(operation).collect::<Option<_>>()?))
}

fn list(operations: &[Operation]) -> String {
    let word = |operation: &Operation| WORDS.iter().find(|(known, _)| known == operation).map_or("divide", |(_, w)| w);
    let words: Vec<&str> = operations.iter().map(word).collect();
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(answer: &str) -> Verdict {
        // 3 + 4 = 7, doubled 14, - 5 = 9, + 3 = 12.
        check("Write f so that f(3) is 12: add, multiply, subtract, add.\n", answer).unwrap()
    }

    #[test]
    fn every_program_that_does_it_is_right() {
        assert_eq!(judge("def f(x):\n x+=4 #7\n x*=2 #14\n x-=5 #9\n x+=3 #12\n return x"), Ok(()));
        assert_eq!(judge("def f(x):\n x+=1 #wrong\n x*=3\n x-=1\n x+=1\n return x\n"), Ok(()), "3+1=4, 12, 11, 12");
        assert_eq!(judge("def f(y):\n    return (y + 4) * 2 - 5 + 3"), Ok(()));
        assert_eq!(judge("def f(x):\n  y = x + 4\n  y = y * 2\n  z = y - 5\n  return z + 3"), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(judge("def f(x):\n x+=4\n x*=2\n x-=5\n x+=4\n return x"), wrong("f(3) is 13, not 12"));
        assert_eq!(judge("def f(x):\n return 12"), wrong("the steps are none, not add, multiply, subtract, add"));
        assert_eq!(
            judge("def f(x):\n x*=2\n x+=8\n x-=5\n x+=3\n return x"),
            wrong("the steps are multiply, add, subtract, add, not add, multiply, subtract, add")
        );
        assert_eq!(judge("def f(x):\n x+=9"), wrong("line 2: f ends without `return`"));
    }

    #[test]
    fn another_prompt_is_not_ours() {
        assert_eq!(check("Write f so that f(3) is 12: divide.", ""), None);
        assert_eq!(check("Write f so that f(3) is 12.", ""), None);
    }
}
