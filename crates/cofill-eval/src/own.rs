//! A task file put to models: its questions, who judges the answers, and what a header says of both.

use crate::judges::JudgeSet;
use crate::run::{Answer, Codec, Error as RunError, Judged, Question, Settings, Task, texts};
use cofill_engine::Engine;
use cofill_tasks::data;
use cofill_tasks::mini::Form;
use cofill_tasks::own::{Checker, OwnTask};
use cofill_tasks::wrapper::{self, Specials};
use serde_json::{Map, Value, json};

/// Bytes of a file that a command is started with, for its checksum.
const MOST_BYTES: u64 = 16 << 20;

/// A question that cannot be put to a model.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Unaskable {
    /// The row, in words.
    pub place: String,
    /// How long it is, or what it has that no prompt may have.
    pub problem: String,
}

/// A task file, open.
pub struct FileTask {
    /// Its questions and its checker.
    pub task: OwnTask,
    /// Who judges what texts alone cannot.
    pub judges: JudgeSet,
    /// Texts that end an answer: the file's, then those of the run.
    pub stops: Vec<String>,
}

impl FileTask {
    /// A task with nobody yet to judge programs.
    pub(crate) fn new(task: OwnTask, stops: &[String]) -> FileTask {
        let stops = [task.stop(), stops].concat();
        FileTask { task, judges: JudgeSet::default(), stops }
    }

    /// What decides prompts and scores, for the header of results.
    pub fn what(&self) -> Map<String, Value> {
        let task = &self.task;
        let mut what: Map<String, Value> = [
            ("task_sha256", json!(task.sha256())),
            ("data", task.source()),
            ("split", json!(task.split())),
            ("shots", json!(task.shots())),
            ("checker", json!(task.checker().kind())),
            ("until", json!(self.stops)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        if let Some(judge) = &self.judges.execute {
            what.insert("execution".into(), json!(judge.describe()));
        }
        if let Checker::Command(command) = task.checker() {
            // A script is as much of the checker as the line that starts it.
            let word = |word: &String| {
                let bytes = data::read(&task.folder().join(word), MOST_BYTES).ok();
                json!({"argument": word, "sha256": bytes.map(|bytes| data::sha256(&bytes))})
            };
            what.insert("command".into(), command.argv.iter().map(word).collect());
        }
        what
    }

    /// Refuses a question that the model cannot hold, before anything is computed for it.
    pub(crate) fn check(&self, doc: usize, engine: &mut Engine, settings: &Settings) -> Result<(), RunError> {
        let mask_id = engine.mask_id();
        let (_, codec) = engine.parts().map_err(|error| RunError::Text(error.to_string()))?;
        let canvas = self.question(doc)?.canvas(settings, mask_id, codec)?;
        let unaskable = |problem: String| Unaskable { place: self.task.place(doc), problem };
        if canvas.n_masked() != settings.length {
            let problem = "its prompt has the mask token of this model in it; write something else".into();
            return Err(unaskable(problem).into());
        }
        Ok(engine.fit(canvas.tokens().len()).map_err(|error| unaskable(error.to_string()))?)
    }

    /// What is read of everything that was generated: up to the end of text and the stop strings, without special tokens.
    pub fn reply(&self, raw: &str, specials: &dyn Specials) -> Result<String, String> {
        specials.remove(wrapper::cut(wrapper::cut(raw, specials.eos().as_slice()), &texts(&self.stops)))
    }

    /// The verdicts on some replies, each with the number of its question.
    pub fn judged(&self, replies: &[(usize, String)]) -> Result<Vec<Judged>, RunError> {
        let answers: Vec<(usize, &str)> = replies.iter().map(|(doc, text)| (*doc, text.as_str())).collect();
        let scored = self.task.score(&answers, &self.judges.judges())?;
        Ok(replies.iter().zip(scored).map(|((_, text), scored)| Judged { text: text.clone(), scored }).collect())
    }
}

impl Task for FileTask {
    fn docs(&self) -> usize {
        self.task.docs()
    }

    fn question(&self, doc: usize) -> Result<Question, RunError> {
        Ok(Question { prompt: self.task.prompt(doc), form: Form::Continue })
    }

    fn judge(&self, doc: usize, raw: &str, specials: &dyn Specials) -> Result<Judged, RunError> {
        let reply = self.reply(raw, specials).map_err(RunError::Text)?;
        let mut judged = self.judged(&[(doc, reply)])?;
        judged.pop().ok_or_else(|| RunError::Text("nobody judged the answer".into()))
    }

    /// Together, since a command is started once for all of them.
    fn judge_all(&self, answers: &[Answer<'_>], codec: &dyn Codec) -> Result<Vec<Judged>, RunError> {
        let reply = |answer: &Answer<'_>| Ok((answer.doc, self.reply(answer.raw, codec).map_err(RunError::Text)?));
        self.judged(&answers.iter().map(reply).collect::<Result<Vec<_>, RunError>>()?)
    }
}
