//! MBPP: a function from a sentence and three tests.
//!
//! The response is run as it is, without the prompt: a fence around the code or a space before it is a syntax error, and counts as one.
//! The set-up code that some rows bring is not run, which makes task 367 impossible.

use super::humaneval::{TIMEOUT, program};
use super::score::Judging;
use super::{Filter, NoJudge, Reader, Rows, Scored, block};
use crate::data;
use crate::judge::Judges;
use crate::wrapper::Reply;
use serde::Deserialize;

/// Tests that are shown and run; rows may have more.
const TESTS: usize = 3;

#[derive(Deserialize)]
pub(super) struct Row {
    text: String,
    test_list: Vec<String>,
}

/// A fixed few-shot example: a question and code that solves it.
#[derive(Deserialize)]
pub(super) struct Shot {
    #[serde(flatten)]
    row: Row,
    code: String,
}

impl data::Row for Row {
    fn problem(&self) -> Option<String> {
        let n = self.test_list.len();
        (n < TESTS).then(|| format!("`test_list` has {n} tests; the prompt shows {TESTS}"))
    }
}

impl data::Row for Shot {
    fn problem(&self) -> Option<String> {
        self.row.problem()
    }
}

impl Row {
    fn prompt(&self) -> String {
        let (text, tests) = (&self.text, self.tests());
        format!(
            "You are an expert Python programmer, and here is your task: {text} Your code should pass these tests:\n\n{tests}\n[BEGIN]\n"
        )
    }

    fn tests(&self) -> String {
        self.test_list[..TESTS].join("\n")
    }
}

pub(super) struct Mbpp {
    shots: Vec<Shot>,
    test: Vec<Row>,
}

impl Mbpp {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Mbpp, data::Error> {
        Ok(Mbpp { test: reader.rows(&data::MBPP_TEST)?, shots: reader.rows(&data::MBPP_SHOTS)? })
    }
}

impl Rows for Mbpp {
    fn docs(&self) -> usize {
        self.test.len()
    }

    fn pool(&self) -> usize {
        self.shots.len()
    }

    fn text(&self, doc: usize) -> String {
        self.test[doc].prompt()
    }

    fn shot(&self, shot: usize, _: usize) -> Option<String> {
        let Shot { row, code } = &self.shots[shot];
        Some(block(&row.prompt(), "", &format!("{code}\n[DONE]")))
    }

    fn target(&self, doc: usize) -> String {
        self.test[doc].tests()
    }

    fn score(&self, doc: usize, reply: &Reply, judges: &Judges<'_>) -> Result<Scored, NoJudge> {
        let judge = judges.execute.ok_or(NoJudge("running programs"))?;
        let mut judging = Judging::default();
        let ran = judging.program(judge.run(&program(&reply.response, &self.target(doc)), TIMEOUT));
        let filters = vec![Filter::new("none", reply.response.as_str(), "pass_at_1", ran.passed)];
        Ok(judging.scored(filters, vec![("exec_result", ran.result)]))
    }
}
