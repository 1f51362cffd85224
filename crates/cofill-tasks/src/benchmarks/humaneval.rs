//! HumanEval: the rest of a function, judged by running it.
//!
//! Two scores. The harness's puts the response behind the prompt as it is. The field's scripts for Dream do something else and publish
//! that: no stop strings, the code sought out and trimmed by way of its syntax tree (`sanitise.rs`). Papers rarely say which they
//! report, so both are here.

use super::score::Judging;
use super::{Filter, Filtered, NoJudge, Reader, Rows, Scored, sanitise};
use crate::data;
use crate::judge::{Execute, Judges};
use crate::wrapper::Reply;
use serde::Deserialize;
use std::time::Duration;

/// The harness's limit for a program.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
pub(super) struct Row {
    prompt: String,
    test: String,
    entry_point: String,
}

impl data::Row for Row {}

pub(super) struct Humaneval {
    test: Vec<Row>,
}

impl Humaneval {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Humaneval, data::Error> {
        Ok(Humaneval { test: reader.rows(&data::HUMANEVAL_TEST)? })
    }
}

impl Rows for Humaneval {
    fn docs(&self) -> usize {
        self.test.len()
    }

    fn pool(&self) -> usize {
        0
    }

    fn text(&self, doc: usize) -> String {
        self.test[doc].prompt.clone()
    }

    fn shot(&self, _: usize, _: usize) -> Option<String> {
        None
    }

    fn target(&self, doc: usize) -> String {
        let Row { test, entry_point, .. } = &self.test[doc];
        format!("{test}\ncheck({entry_point})")
    }

    fn score(&self, doc: usize, reply: &Reply, judges: &Judges<'_>) -> Result<Scored, NoJudge> {
        let judge = judges.execute.ok_or(NoJudge("running programs"))?;
        let (row, tests) = (&self.test[doc], self.target(doc));
        let run = |code: &str| judge.run(&program(code, &tests), TIMEOUT);
        let mut judging = Judging::default();

        let prediction = format!("{}{}", row.prompt, reply.response);
        let ran = judging.program(run(&prediction));
        let harness = Filter::new("create_test", Filtered::Each(vec![prediction]), "pass@1", ran.passed);

        let sanitised = judging.or_wrong(sanitised(judge, row, &reply.uncut));
        let ran_sanitised = judging.program(run(&sanitised));
        let dream = Filter::new("dream_sanitized", sanitised, "pass@1", ran_sanitised.passed);
        let notes = vec![("exec_result", ran.result), ("dream_sanitized_exec_result", ran_sanitised.result)];
        Ok(judging.scored(vec![harness, dream], notes))
    }
}

/// Dream's reading: what stands in the first Python fence or else everything, up to the next fence, behind the prompt.
fn sanitised(judge: &dyn Execute, row: &Row, uncut: &str) -> Result<String, String> {
    let code = uncut.split_once("```python\n").map_or(uncut, |(_, code)| code);
    let code = code.split_once("```").map_or(code, |(code, _)| code);
    sanitise::sanitise(judge, &format!("{}\n{code}", row.prompt), &row.entry_point)
}

/// What is run: the code, then the tests.
pub(super) fn program(code: &str, tests: &str) -> String {
    format!("{code}\n{tests}")
}
