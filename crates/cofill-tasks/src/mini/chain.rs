//! `chain`: short word problems solved step by step, in GSM8K's shape.
//!
//! ```text
//! Ana has 7 coins, buys 5, loses 3, doubles, finds 8, sells 2. How many coins?
//! 7+5=12
//! 12-3=9
//! 9*2=18
//! 18+8=26
//! 26-2=24
//! #### 24
//! ```
//!
//! Each line starts with the result of the one before, so a sampler that commits two lines at once guesses. As with GSM8K, only
//! the number after `####` is judged.

use super::draw::Draw;
use super::{Checked, Example, number, wrong};

/// Six steps of six tokens, `#### ` and a number.
pub(super) const LENGTH: usize = 38;

pub(crate) const SHAPE: &str = "`Ana has 7 coins, buys 5, loses 3, doubles, finds 8, sells 2. How many coins?`";

const NAMES: [&str; 8] = ["Ana", "Ben", "Cleo", "Dev", "Eli", "Fay", "Gus", "Hana"];
const THINGS: [&str; 6] = ["coins", "books", "cards", "shells", "stamps", "apples"];
const GAINS: [&str; 4] = ["buys", "finds", "wins", "gets"];
const LOSSES: [&str; 4] = ["sells", "loses", "gives", "drops"];
const DOUBLES: &str = "doubles";

/// The most that anybody has at any time: every number is then one token, and tiny models can learn the sums.
const MOST: i64 = 30;

pub(crate) fn draw(draw: &mut Draw) -> Example {
    let (name, thing) = (draw.pick(&NAMES), draw.pick(&THINGS));
    let mut total = draw.number(2, 15);
    let mut prompt = format!("{name} has {total} {thing}");
    let mut answer = String::new();
    let mut left = draw.number(5, 6);
    while left > 0 {
        let n = draw.number(1, 7);
        let (event, sign, operand, next) = match draw.number(0, 8) {
            0 => (DOUBLES.to_owned(), '*', 2, total * 2),
            1..=4 => (format!("{} {n}", draw.pick(&GAINS)), '+', n, total + n),
            _ => (format!("{} {n}", draw.pick(&LOSSES)), '-', n, total - n),
        };
        if !(1..=MOST).contains(&next) {
            continue;
        }
        prompt += &format!(", {event}");
        answer += &format!("{total}{sign}{operand}={next}\n");
        total = next;
        left -= 1;
    }
    prompt += &format!(". How many {thing}?\n");
    answer += &format!("#### {total}");
    Example { prompt, answer }
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Checked> {
    let want = solve(prompt)?;
    let Some((_, last)) = answer.rsplit_once("####") else { return Some(wrong("no line `#### n`")) };
    let digits = last.trim();
    Some(match number(digits) {
        Some(given) if given == want => Ok(()),
        Some(given) => wrong(format!("the result is {want}, not {given}")),
        None => wrong(format!("`{digits}` after `####` is no number")),
    })
}

/// What is left in the end, if `prompt` is one of ours.
fn solve(prompt: &str) -> Option<i64> {
    let (story, question) = prompt.split_once(". How many ")?;
    let thing = question.trim_end().strip_suffix('?')?;
    let mut events = story.split(", ");
    let (_, start) = events.next()?.split_once(" has ")?;
    let mut total = number(start.strip_suffix(thing)?.trim_end())?;
    for event in events {
        total = match event.split_once(' ') {
            None if event == DOUBLES => total * 2,
            Some((verb, n)) if GAINS.contains(&verb) => total + number(n)?,
            Some((verb, n)) if LOSSES.contains(&verb) => total - number(n)?,
            _ => return None,
        };
        // A story of a thousand doublings is not ours.
        if total.abs() > 1_000_000 {
            return None;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = "Ana has 7 coins, buys 5, loses 3, doubles, finds 8, sells 2. How many coins?\n";

    #[test]
    fn only_the_number_after_the_marks_counts() {
        // 7 + 5 - 3 = 9, doubled 18, + 8 - 2 = 24.
        let check = |answer| check(PROMPT, answer).unwrap();
        assert_eq!(check("7+5=12\n12-3=9\n9*2=18\n18+8=26\n26-2=24\n#### 24"), Ok(()));
        assert_eq!(check("#### 24\n"), Ok(()));
        assert_eq!(check("nonsense #### 3 #### 24"), Ok(()));
        assert_eq!(check("7+5=12\n#### 23"), wrong("the result is 24, not 23"));
        assert_eq!(check("24"), wrong("no line `#### n`"));
        assert_eq!(check("#### 24 coins"), wrong("`24 coins` after `####` is no number"));
        assert_eq!(check("#### "), wrong("`` after `####` is no number"));
    }

    #[test]
    fn a_story_with_an_unknown_verb_is_not_ours() {
        assert_eq!(check(&PROMPT.replace("finds", "paints"), "#### 24"), None);
        assert_eq!(check("How many?", "#### 24"), None);
        let endless = format!("Ana has 7 coins{}. How many coins?", ", doubles".repeat(100));
        assert_eq!(check(&endless, "#### 24"), None);
    }
}
