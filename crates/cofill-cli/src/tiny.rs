//! What the models inside the program know: the mini tasks, and nothing else.
//!
//! A prompt of one of them needs no `--length`, and what comes of it can be judged on the spot.

use cofill_tasks::mini::{Checked, Mini};
use serde::Serialize;

/// What is asked when nothing is.
pub(crate) const PROMPT: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\n";

/// What `cofill` without arguments suggests; the README shows the same.
#[cfg(feature = "embedded")]
pub(crate) const TRY: &str = "Try:
  cofill generate \"Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\" --show
  cofill generate -s topk:4 --template \"Fill the gaps:
[MASK:1]*[MASK:1]*[MASK:1]=[MASK:1]
[MASK:1]*4*[MASK:1]=24
[MASK:1]+6+[MASK:1]=13
4*2*[MASK:1]=8
[MASK:1]+[MASK:1]+[MASK:1]=[MASK:1]\"
and the same with -s topk:4+ad";
#[cfg(not(feature = "embedded"))]
pub(crate) const TRY: &str = "Try:
  cofill generate -m toy -n 6 -s topk:2 --show
  cofill generate -m toy -n 6 -s topk:2+ad --show";

/// A prompt of a mini task.
pub(crate) struct Question {
    pub(crate) task: Mini,
    pub(crate) prompt: String,
}

/// What became of an answer.
#[derive(Serialize)]
pub(crate) struct Judged {
    task: &'static str,
    right: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Question {
    /// Recognises a prompt, also without the line break at its end, which shells make hard to write.
    pub(crate) fn of(text: &str) -> Option<Question> {
        let prompt = format!("{}\n", text.strip_suffix('\n').unwrap_or(text));
        Mini::asking(&prompt).map(|task| Question { task, prompt })
    }

    /// Judges a whole text, prompt and answer.
    pub(crate) fn judge(&self, text: &str) -> Judged {
        // Of an infill there is no answer but the whole.
        let answer = text.strip_prefix(&self.prompt).unwrap_or(text);
        Judged::new(self.task, self.task.check(&self.prompt, answer).unwrap_or(Ok(())))
    }
}

impl Judged {
    pub(crate) fn new(task: Mini, verdict: Checked) -> Judged {
        Judged { task: task.name(), right: verdict.is_ok(), why: verdict.err().map(|wrong| wrong.0) }
    }

    /// `chain: right`.
    pub(crate) fn line(&self) -> String {
        match &self.why {
            None => format!("{}: right", self.task),
            Some(why) => format!("{}: wrong, {why}", self.task),
        }
    }
}
