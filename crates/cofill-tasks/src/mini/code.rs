//! `code`: a function with a given value, in HumanEval's shape: described in words, judged by running it.
//!
//! ```text
//! Write f so that f(3) is 12: multiply 2, add 7, subtract, add.
//! def f(x):
//!  x*=2 #3*2=6
//!  x+=7 #6+7=13
//!  x-=5 #13-5=8
//!  x+=4 #8+4=12
//!  return x
//! ```
//!
//! The last two constants are free, but they must lead to the value together: either can be chosen, not both at once. The comments
//! work the value out, so that one line is enough to see what fits; they are comments, and nobody checks them. Any program is right
//! that takes those operations in that order and has that value, however it is written. (With four free constants, models of this
//! size wrote from both ends and did not meet in the middle; with only the result in the comment, they did not learn to calculate.)

use super::draw::Draw;
use super::{Checked, Example, number, python, wrong};
use python::Operation;

/// `def f(x):` is five tokens, a step ten, ` return x` with its line break three.
pub(super) const LENGTH: usize = 48;

pub(crate) const SHAPE: &str = "`Write f so that f(3) is 12: multiply 2, add 7, subtract, add.`";

/// Steps whose constants are given, and those whose constants are not.
const GIVEN: usize = 2;
const FREE: usize = 2;

/// No value on the way is larger.
const MOST: i64 = 30;

const WORDS: [(Operation, &str, char); 3] =
    [(Operation::Add, "add", '+'), (Operation::Subtract, "subtract", '-'), (Operation::Multiply, "multiply", '*')];

/// A step as it is asked for: which operation, and with what, if that is given.
type Step = (Operation, Option<i64>);

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
    let (mut steps, mut answer) = (Vec::new(), "def f(x):".to_owned());
    for step in 0..GIVEN + FREE {
        // A free step must reach many values, and a product cannot.
        let last = if step < GIVEN { 2 } else { 1 };
        let (operation, _, sign) = WORDS[draw.number(0, last) as usize];
        let by = if operation == Operation::Multiply { draw.number(2, 3) } else { draw.number(1, 7) };
        let next = match operation {
            Operation::Add => value + by,
            Operation::Subtract => value - by,
            _ => value * by,
        };
        if !(1..=MOST).contains(&next) {
            return None;
        }
        steps.push((operation, (step < GIVEN).then_some(by)));
        answer += &format!("\n x{sign}={by} #{value}{sign}{by}={next}");
        value = next;
    }
    answer += "\n return x";
    Some(Example { prompt: format!("Write f so that f({x}) is {value}: {}.\n", list(&steps)), answer })
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Checked> {
    let (x, want, steps) = parse(prompt)?;
    Some(match python::run(answer, "f", x) {
        Err(error) => wrong(error.to_string()),
        Ok(run) if run.value != want => wrong(format!("f({x}) is {}, not {want}", run.value)),
        Ok(run) if !fits(&run.operations, &steps) => {
            let taken: Vec<Step> = run.operations.iter().map(|(operation, [_, by])| (*operation, Some(*by))).collect();
            wrong(format!("the steps are {}, not {}", list(&taken), list(&steps)))
        }
        Ok(_) => Ok(()),
    })
}

/// Whether these operations were asked for. `2*x` multiplies by 2 just as `x*2` does.
fn fits(taken: &[(Operation, [i64; 2])], steps: &[Step]) -> bool {
    let fit = |((operation, [a, b]), (want, by)): (&(Operation, [i64; 2]), &Step)| {
        let commutes = matches!(operation, Operation::Add | Operation::Multiply);
        operation == want && by.is_none_or(|by| *b == by || (commutes && *a == by))
    };
    taken.len() == steps.len() && taken.iter().zip(steps).all(fit)
}

fn parse(prompt: &str) -> Option<(i64, i64, Vec<Step>)> {
    let rest = prompt.trim_end().strip_prefix("Write f so that f(")?.strip_suffix('.')?;
    let (x, rest) = rest.split_once(") is ")?;
    let (value, steps) = rest.split_once(": ")?;
    let step = |text: &str| -> Option<Step> {
        let (word, by) = match text.split_once(' ') {
            Some((word, by)) => (word, Some(number(by)?)),
            None => (text, None),
        };
        WORDS.iter().find(|(_, known, _)| *known == word).map(|(operation, ..)| (*operation, by))
    };
    Some((number(x)?, number(value)?, steps.split(", ").map(step).collect::<Option<_>>()?))
}

fn list(steps: &[Step]) -> String {
    let text = |(operation, by): &Step| {
        let word = WORDS.iter().find(|(known, ..)| known == operation).map_or("divide", |(_, word, _)| word);
        by.map_or(word.to_owned(), |by| format!("{word} {by}"))
    };
    let texts: Vec<String> = steps.iter().map(text).collect();
    if texts.is_empty() { "none".into() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(answer: &str) -> Checked {
        // 3 + 4 = 7, doubled 14, - 5 = 9, + 3 = 12.
        check("Write f so that f(3) is 12: add 4, multiply 2, subtract, add.\n", answer).unwrap()
    }

    #[test]
    fn every_program_that_does_it_is_right() {
        assert_eq!(judge("def f(x):\n x+=4 #3+4=7\n x*=2 #7*2=14\n x-=5 #14-5=9\n x+=3 #9+3=12\n return x"), Ok(()));
        assert_eq!(judge("def f(x):\n x+=4 #wrong\n x=2*x\n x-=13\n x+=11\n return x\n"), Ok(()), "7, 14, 1, 12");
        assert_eq!(judge("def f(y):\n    return (y + 4) * 2 - 5 + 3"), Ok(()));
        assert_eq!(judge("def f(x):\n  y = x + 4\n  y = y * 2\n  z = y - 5\n  return z + 3"), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(judge("def f(x):\n x+=4\n x*=2\n x-=5\n x+=4\n return x"), wrong("f(3) is 13, not 12"));
        assert_eq!(judge("def f(x):\n return 12"), wrong("the steps are none, not add 4, multiply 2, subtract, add"));
        assert_eq!(
            judge("def f(x):\n x*=2\n x+=8\n x-=5\n x+=3\n return x"),
            wrong("the steps are multiply 2, add 8, subtract 5, add 3, not add 4, multiply 2, subtract, add")
        );
        assert_eq!(
            judge("def f(x):\n x+=1\n x*=3\n x-=1\n x+=1\n return x"),
            wrong("the steps are add 1, multiply 3, subtract 1, add 1, not add 4, multiply 2, subtract, add")
        );
        assert_eq!(judge("def f(x):\n x+=9"), wrong("line 2: f ends without `return`"));
    }

    #[test]
    fn another_prompt_is_not_ours() {
        assert_eq!(check("Write f so that f(3) is 12: divide.", ""), None);
        assert_eq!(check("Write f so that f(3) is 12.", ""), None);
        assert_eq!(check("Write f so that f(3) is 12: add one, add.", ""), None);
    }
}
