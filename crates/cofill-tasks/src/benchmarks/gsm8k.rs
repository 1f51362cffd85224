//! GSM8K: a number at the end of a chain of thought.
//!
//! Two readings of every answer. The strict one wants the form of the examples and takes the *first* match; the flexible one takes
//! the *last* thing that looks like a number. Right is equality of text after a little cleaning, never of numbers: `18.0` is not `18`.

use super::{Filter, NoJudge, Reader, Rows, Scored, block};
use crate::data;
use crate::judge::Judges;
use crate::pystr::{pattern, strip};
use crate::wrapper::Reply;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::LazyLock;

const INVALID: &str = "[invalid]";

/// A question. Fields beside these two count when the harness asks whether an example is the question itself.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Row {
    question: String,
    answer: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A fixed example of `gsm8k_cot`.
#[derive(Deserialize)]
pub(super) struct Shot {
    question: String,
    target: String,
}

impl data::Row for Row {}
impl data::Row for Shot {}

/// `gsm8k`: examples are drawn from the training split.
pub(super) struct Sampled {
    train: Vec<Row>,
    test: Vec<Row>,
}

/// `gsm8k_cot`: the same eight examples before every question.
pub(super) struct Cot {
    shots: Vec<Shot>,
    test: Vec<Row>,
}

impl Sampled {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Sampled, data::Error> {
        Ok(Sampled { test: reader.rows(&data::GSM8K_TEST)?, train: reader.rows(&data::GSM8K_TRAIN)? })
    }
}

impl Cot {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Cot, data::Error> {
        Ok(Cot { test: reader.rows(&data::GSM8K_TEST)?, shots: reader.rows(&data::GSM8K_COT_SHOTS)? })
    }
}

impl Rows for Sampled {
    fn docs(&self) -> usize {
        self.test.len()
    }

    fn pool(&self) -> usize {
        self.train.len()
    }

    fn text(&self, doc: usize) -> String {
        question(&self.test[doc].question)
    }

    fn shot(&self, shot: usize, doc: usize) -> Option<String> {
        let shot = &self.train[shot];
        (*shot != self.test[doc]).then(|| block(&question(&shot.question), " ", &shot.answer))
    }

    fn target(&self, doc: usize) -> String {
        self.test[doc].answer.clone()
    }

    fn score(&self, doc: usize, reply: &Reply, _: &Judges<'_>) -> Result<Scored, NoJudge> {
        Ok(scored(strict(&reply.response), &reply.response, &self.test[doc].answer))
    }
}

impl Rows for Cot {
    fn docs(&self) -> usize {
        self.test.len()
    }

    fn pool(&self) -> usize {
        self.shots.len()
    }

    fn text(&self, doc: usize) -> String {
        format!("Q: {}\nA:", self.test[doc].question)
    }

    fn shot(&self, shot: usize, _: usize) -> Option<String> {
        let Shot { question, target } = &self.shots[shot];
        Some(block(&format!("Q: {question}\nA:"), " ", target))
    }

    fn target(&self, doc: usize) -> String {
        let answer = &self.test[doc].answer;
        strip(answer.rsplit_once("####").map_or(answer.as_str(), |(_, number)| number)).into()
    }

    fn score(&self, doc: usize, reply: &Reply, _: &Judges<'_>) -> Result<Scored, NoJudge> {
        Ok(scored(strict_cot(&reply.response), &reply.response, &self.target(doc)))
    }
}

fn question(question: &str) -> String {
    format!("Question: {question}\nAnswer:")
}

fn scored(strict: &str, response: &str, gold: &str) -> Scored {
    let filter = |name, read: &str| Filter::new(name, read, "exact_match", exact_match(read, gold));
    Scored {
        filters: vec![filter("strict-match", strict), filter("flexible-extract", flexible(response))],
        notes: vec![],
    }
}

/// The number of the first `#### n`.
fn strict(response: &str) -> &str {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"#### (-?[0-9.,]+)"));
    first_group(&NUMBER, response)
}

/// The number of the first `The answer is n.`, where the last dot stands for any character. Without one to follow, the number
/// gives its last digit away.
fn strict_cot(response: &str) -> &str {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"The answer is (-?[0-9.,]+)."));
    first_group(&NUMBER, response)
}

/// The last run of two or more digits, dots, commas and dollars, or of digits alone.
fn flexible(response: &str) -> &str {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"-?[$0-9.,]{2,}|-?[0-9]+"));
    NUMBER.find_iter(response).last().map_or(INVALID, |number| number.as_str())
}

fn first_group<'t>(pattern: &Regex, text: &'t str) -> &'t str {
    pattern.captures(text).and_then(|found| found.get(1)).map_or(INVALID, |group| group.as_str())
}

/// Equality of text after cleaning both.
fn exact_match(given: &str, gold: &str) -> bool {
    clean(given) == clean(gold)
}

/// Without commas and dollars, without everything up to the last `#### `, without one dot at the end, in lower case.
fn clean(text: &str) -> String {
    let text = text.replace([',', '$'], "");
    let text = text.rsplit_once("#### ").map_or(text.as_str(), |(_, after)| after);
    // Python's `$` also stands before a final line break, which then stays.
    let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
    text.strip_suffix('.').unwrap_or(text).to_lowercase() + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strict_reading_takes_the_first() {
        assert_eq!(strict("so #### 12\n#### 13"), "12");
        assert_eq!(strict("#### -1,234.5. and"), "-1,234.5.");
        for none in ["", "####12", "#### x", "#### １２", "####\n12", "#### +5"] {
            assert_eq!(strict(none), INVALID, "{none}");
        }
    }

    #[test]
    fn the_strict_reading_of_cot_needs_one_more_character() {
        assert_eq!(strict_cot("The answer is 42."), "42");
        assert_eq!(strict_cot("The answer is 42. The answer is 43."), "42.");
        assert_eq!(strict_cot("The answer is 42"), "4");
        assert_eq!(strict_cot("The answer is 42\n"), "4");
        assert_eq!(strict_cot("The answer is 7"), INVALID);
        assert_eq!(strict_cot("The answer is 7\r\n"), "7");
        assert_eq!(strict_cot("The answer is 7é"), "7");
    }

    #[test]
    fn the_flexible_reading_takes_the_last() {
        assert_eq!(flexible("5 apples at $1.50 are $7.50."), "$7.50.");
        assert_eq!(flexible("from 10-3"), "-3");
        assert_eq!(flexible("it is 7 ,,"), ",,");
        assert_eq!(flexible("a-$5,b"), "-$5,");
        assert_eq!(flexible("١٢ or none."), INVALID);
        assert_eq!(flexible(""), INVALID);
    }

    #[test]
    fn numbers_are_compared_as_text() {
        for (given, gold) in [("1,000", "so\n#### 1000"), ("$5", "5"), ("5.", "5"), ("5", "a #### 6\n#### 5.")] {
            assert!(exact_match(given, gold), "{given} {gold}");
        }
        for (given, gold) in [("5.0", "5"), ("05", "5"), ("5..", "5"), ("-5", "5"), (INVALID, "5"), ("5", "####5")] {
            assert!(!exact_match(given, gold), "{given} {gold}");
        }
        assert_eq!(clean("A.\n"), "a\n");
        assert_eq!(clean("a\n.\n\n"), "a\n.\n\n");
    }
}
