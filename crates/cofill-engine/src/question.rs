//! What the tiny models know: the mini tasks, and nothing else.
//!
//! A checkpoint says so in its `generation_config.json`. A prompt of a mini task needs no length, and what comes of it can be judged
//! on the spot.

use cofill_tasks::mini::{Checked, Mini, Split};
use serde::Serialize;

/// A prompt of a mini task.
#[derive(Debug, Clone)]
pub struct Question {
    /// The task that asks so.
    pub task: Mini,
    /// The prompt, with the line break at its end.
    pub prompt: String,
}

/// Whether an answer is right, and if not, why.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    task: &'static str,
    right: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Question {
    /// What is asked when nothing is.
    pub const USUAL: &'static str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\n";

    /// Recognises a prompt, also without the line break at its end, which shells make hard to write.
    pub fn of(text: &str) -> Option<Question> {
        let prompt = format!("{}\n", text.strip_suffix('\n').unwrap_or(text));
        Mini::asking(&prompt).map(|task| Question { task, prompt })
    }

    /// Questions that no model was trained on, the tasks in turn; the same for the same seed.
    pub fn fresh(seed: u64) -> impl Iterator<Item = Question> {
        let question =
            move |(index, task): (u64, Mini)| Question { task, prompt: task.example(Split::Test, seed, index).prompt };
        (0..).flat_map(|index| Mini::ALL.map(|task| (index, task))).map(question)
    }

    /// Judges a whole text, prompt and answer.
    pub fn judge(&self, text: &str) -> Judged {
        // Of an infill there is no answer but the whole.
        let answer = text.strip_prefix(&self.prompt).unwrap_or(text);
        Judged::new(self.task, self.task.check(&self.prompt, answer).unwrap_or(Ok(())))
    }
}

impl Judged {
    /// What a task's check says.
    pub fn new(task: Mini, checked: Checked) -> Judged {
        Judged { task: task.name(), right: checked.is_ok(), why: checked.err().map(|wrong| wrong.0) }
    }

    /// Whether it is right, and why not: `right`, or `wrong, ` and the reason.
    pub fn verdict(&self) -> String {
        self.why.as_ref().map_or_else(|| "right".into(), |why| format!("wrong, {why}"))
    }

    /// `chain: right`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.task, self.verdict())
    }
}
