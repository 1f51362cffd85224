//! MATH-500 in the Minerva form: four worked problems, and an answer in a fixed sentence.
//!
//! The answer is what stands in `Final Answer: The final answer is ... . I hope it is correct.`; a box alone does not count. Both it
//! and the gold answer, taken from the solution's last box, are normalised as text ([`normalise`]) and then compared as formulas by
//! whoever judges. The comparison does not begin with equality of text: an answer that cannot be parsed is wrong even when it is the
//! gold answer word for word, which caps the score at 94.4 %.

pub mod boxed;
mod normalise;

pub use normalise::normalise;

use super::score::Judging;
use super::{Filter, NoJudge, Reader, Rows, Scored, block};
use crate::data;
use crate::judge::Judges;
use crate::pystr::{pattern, strip};
use crate::wrapper::Reply;
use regex::Regex;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
pub(super) struct Row {
    problem: String,
    solution: String,
    subject: Option<String>,
}

/// A fixed few-shot example: a problem and its worked solution.
#[derive(Deserialize)]
pub(super) struct Shot {
    problem: String,
    solution: String,
}

impl data::Row for Shot {}

impl data::Row for Row {
    fn problem(&self) -> Option<String> {
        let problem = boxed::answer(&self.solution).err()?;
        Some(format!("no gold answer can be taken from `solution`: {problem}"))
    }
}

pub(super) struct Math500 {
    shots: Vec<Shot>,
    test: Vec<Row>,
}

impl Math500 {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Math500, data::Error> {
        Ok(Math500 { test: reader.rows(&data::MATH500_TEST)?, shots: reader.rows(&data::MINERVA_SHOTS)? })
    }
}

impl Rows for Math500 {
    fn docs(&self) -> usize {
        self.test.len()
    }

    fn subject(&self, doc: usize) -> Option<&str> {
        self.test[doc].subject.as_deref()
    }

    fn pool(&self) -> usize {
        self.shots.len()
    }

    fn text(&self, doc: usize) -> String {
        problem(&self.test[doc].problem)
    }

    fn shot(&self, shot: usize, _: usize) -> Option<String> {
        let shot = &self.shots[shot];
        Some(block(&problem(&shot.problem), " ", &shot.solution))
    }

    /// From the solution, whatever the column `answer` says.
    fn target(&self, doc: usize) -> String {
        boxed::answer(&self.test[doc].solution).map(normalise).unwrap_or_default()
    }

    fn score(&self, doc: usize, reply: &Reply, judges: &Judges<'_>) -> Result<Scored, NoJudge> {
        let judge = judges.equivalence.ok_or(NoJudge("a comparison of formulas"))?;
        let extracted = extract(&reply.response);
        let (given, gold) = (normalise(&extracted), self.target(doc));
        let mut judging = Judging::default();
        let right = judging.or_wrong(judge.is_equiv(&given, &gold));
        let filters = vec![Filter::new("none", reply.response.as_str(), "exact_match", right)];
        let notes = vec![("extracted", extracted), ("pred_normalized", given), ("gold_normalized", gold)];
        Ok(judging.scored(filters, notes))
    }
}

fn problem(problem: &str) -> String {
    format!("Problem:\n{problem}\n\nSolution:")
}

/// The answer in the first closing sentence that stands on one line.
///
/// The harness appends `I hope it is correct.` before it looks, so a reply that ends after the answer's dot and a space counts, and
/// one that ends after the dot does not. Both dots of the sentence stand for any character.
pub fn extract(response: &str) -> String {
    static SENTENCE: LazyLock<Regex> =
        LazyLock::new(|| pattern("Final Answer: The final answer is(.*?). I hope it is correct."));
    let text = format!("{response}I hope it is correct.");
    let answer = SENTENCE.captures(&text).and_then(|found| found.get(1));
    answer.map_or("[invalidanswer]", |answer| strip(answer.as_str())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(answer: &str) -> String {
        format!("Final Answer: The final answer is{answer}")
    }

    #[test]
    fn the_first_whole_sentence_counts() {
        let hope = ". I hope it is correct.";
        assert_eq!(extract(&(sentence(" $7$") + hope + &sentence(" $8$") + hope)), "$7$");
        // One on two lines is none, so the second one is the first.
        assert_eq!(extract(&(sentence(" $7\n$") + hope + "\n" + &sentence(" $8$") + hope)), "$8$");
        // The lazy match ends at the first end, wherever the next sentence begins.
        assert_eq!(extract(&(sentence(" 7, ") + &sentence(" 8") + hope)), "7, Final Answer: The final answer is 8");
        assert_eq!(extract(&(sentence("\u{a0}\u{1f}x\t") + hope)), "x");
        assert_eq!(extract(&(sentence("") + hope)), "");
        assert_eq!(extract(&(sentence(" 7\r") + hope)), "7");
    }

    #[test]
    fn where_a_reply_may_end() {
        assert_eq!(extract(&sentence(" $7$. ")), "$7$");
        assert_eq!(extract(&sentence(" $7$. I hope it is correct")), "$7$");
        for early in [" $7$.", " $7$", "", " $7$. I hope"] {
            assert_eq!(extract(&sentence(early)), "[invalidanswer]", "{early}");
        }
        // Any character may stand for the dot, also the dollar.
        assert_eq!(extract(&sentence(" $7$ ")), "$7");
        assert_eq!(extract(r"\boxed{7}"), "[invalidanswer]");
        assert_eq!(extract(""), "[invalidanswer]");
    }
}
