//! Texts with gaps from a file of the user's own: is what a model fills in what stood there?
//!
//! ```json
//! {"template": "CCO.CC(=O)[MASK:2]>>CC(=O)OCC", "answer": "O"}
//! {"template": "[MASK:1] + [MASK:1] = 4", "answer": ["2", "2"]}
//! ```
//!
//! A gap is as many tokens as it says, and the answer must be as many: then the score is the same question for every sampler, *exact*
//! (every gap is filled as it was), with *tokens* beside it, the share of positions that are.

use crate::run::{Error as RunError, Judged, Question, Settings, Task};
use cofill::TokenId;
use cofill_engine::{Codec, Engine, Piece, gaps};
use cofill_tasks::benchmarks::{Filter, Filtered, Scored};
use cofill_tasks::data::{self, Row};
use cofill_tasks::mini::Form;
use cofill_tasks::wrapper::Specials;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The file that is read in a folder of data.
const FILE: &str = "infill.jsonl";

/// Bytes of a file, and rows in it. A million reactions are some hundred megabytes.
const MOST_BYTES: u64 = 1 << 30;
const MOST_ROWS: usize = 1_000_000;

/// Why rows cannot be read, asked or scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No file was named.
    #[error("infill needs a file of rows {{\"template\": \"..[MASK:4]..\", \"answer\": \"..\"}}, and none was named")]
    NoFile,
    /// A file that cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file beyond the limits.
    #[error("`{}` has {given} {what}, but may have at most {most}; give it in parts", path.display())]
    TooMuch {
        /// The file.
        path: PathBuf,
        /// Bytes or rows.
        what: &'static str,
        /// How many it has.
        given: u64,
        /// How many it may have.
        most: u64,
    },
    /// A row that is none.
    #[error(transparent)]
    Row(#[from] data::Error),
    /// A text that the model cannot hold.
    #[error("row {row} of `{name}`: {problem}")]
    TooLong {
        /// The file.
        name: String,
        /// The row, counted from 1.
        row: usize,
        /// How long it is, and how long it may be.
        problem: String,
    },
    /// An answer that is longer or shorter than its gap, by the tokenizer of this model.
    #[error(
        "row {row} of `{name}`: gap {gap} has {masks} positions, but `{answer}` is {tokens} tokens of this model; make them equal"
    )]
    Length {
        /// The file.
        name: String,
        /// The row, counted from 1.
        row: usize,
        /// The gap in it, counted from 1.
        gap: usize,
        /// Its positions.
        masks: usize,
        /// What belongs there.
        answer: String,
        /// The tokens that it has.
        tokens: usize,
    },
}

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    template: String,
    answer: Answer,
    /// A name for people; nobody reads it.
    #[serde(default, rename = "id")]
    _id: Option<Value>,
}

/// What belongs in the gaps.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    One(String),
    Each(Vec<String>),
}

impl Answer {
    fn texts(&self) -> &[String] {
        match self {
            Answer::One(text) => std::slice::from_ref(text),
            Answer::Each(texts) => texts,
        }
    }
}

impl Row for Line {
    fn problem(&self) -> Option<String> {
        let gaps = match sizes(&self.template) {
            Ok(gaps) => gaps.len(),
            Err(problem) => return Some(format!("`template`: {problem}")),
        };
        let answers = self.answer.texts();
        if answers.iter().any(String::is_empty) {
            return Some("an `answer` is empty; a gap of no text has nothing to fill".into());
        }
        (answers.len() != gaps).then(|| format!("`template` has {gaps} gaps, but `answer` is {} texts", answers.len()))
    }
}

/// The positions of each gap of a template.
fn sizes(template: &str) -> Result<Vec<usize>, String> {
    let masks = |piece: Piece<'_>| match piece {
        Piece::Masks(n) => Some(n),
        Piece::Text(_) => None,
    };
    Ok(gaps(template).map_err(|error| error.to_string())?.into_iter().filter_map(masks).collect())
}

/// How many positions the gaps of a template have together; none if it is no template.
pub fn masks_in(template: &str) -> usize {
    sizes(template).unwrap_or_default().iter().sum()
}

/// Rows of a file, ready to be asked.
#[derive(Debug)]
pub struct InfillTask {
    name: String,
    sha256: String,
    rows: Vec<Line>,
}

impl InfillTask {
    /// Reads the rows of a file, or of `infill.jsonl` in a folder.
    pub fn open(data: Option<&Path>) -> Result<InfillTask, Error> {
        let path = data.ok_or(Error::NoFile)?;
        let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let unreadable = |source| Error::Read { path: path.clone(), source };
        let too_much = |what, given, most| Err(Error::TooMuch { path: path.clone(), what, given, most });
        let bytes = std::fs::metadata(&path).map_err(unreadable)?.len();
        if bytes > MOST_BYTES {
            return too_much("bytes", bytes, MOST_BYTES);
        }
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        let name = path.file_name().map_or_else(|| FILE.into(), |name| name.to_string_lossy().into_owned());
        let rows: Vec<Line> = data::rows(&name, &bytes)?;
        if rows.len() > MOST_ROWS {
            return too_much("rows", rows.len() as u64, MOST_ROWS as u64);
        }
        Ok(InfillTask { name, sha256: data::sha256(&bytes), rows })
    }

    /// What was read, for the header of results. Where it lies and what it is called decides nothing.
    pub fn source(&self) -> Value {
        json!([{"rows": self.rows.len(), "sha256": self.sha256}])
    }

    /// Refuses a row that this model cannot hold or be scored on, before anything is computed for it.
    pub(crate) fn check(&self, doc: usize, engine: &mut Engine, settings: &Settings) -> Result<(), RunError> {
        let mask_id = engine.mask_id();
        let (_, codec) = engine.parts().map_err(|error| RunError::Text(error.to_string()))?;
        self.right(doc, codec)?;
        let length = self.question(doc)?.canvas(settings, mask_id, codec)?.tokens().len();
        let too_long = |error: cofill_engine::Error| {
            let (name, problem) = (self.name.clone(), error.to_string());
            Error::TooLong { name, row: doc + 1, problem }
        };
        Ok(engine.fit(length).map_err(too_long)?)
    }

    /// The tokens that belong in the gaps of a row, one gap after the other.
    fn right(&self, doc: usize, codec: &dyn Codec) -> Result<Vec<TokenId>, RunError> {
        let line = &self.rows[doc];
        let mut right = Vec::new();
        for ((masks, answer), gap) in
            sizes(&line.template).map_err(RunError::Text)?.into_iter().zip(line.answer.texts()).zip(1..)
        {
            let tokens = codec.encode(answer).map_err(RunError::Text)?;
            if tokens.len() != masks {
                let (name, answer, tokens) = (self.name.clone(), answer.clone(), tokens.len());
                return Err(Error::Length { name, row: doc + 1, gap, masks, answer, tokens }.into());
            }
            right.extend(tokens);
        }
        Ok(right)
    }
}

impl Task for InfillTask {
    fn docs(&self) -> usize {
        self.rows.len()
    }

    fn question(&self, doc: usize) -> Result<Question, RunError> {
        Ok(Question { prompt: self.rows[doc].template.clone(), form: Form::Infill })
    }

    /// Texts alone do not say where a gap ends; [`judge_tokens`](Self::judge_tokens) is what a run asks.
    fn judge(&self, doc: usize, raw: &str, _: &dyn Specials) -> Result<Judged, RunError> {
        let line = &self.rows[doc];
        let mut right = String::new();
        let mut answers = line.answer.texts().iter();
        for piece in gaps(&line.template).map_err(|error| RunError::Text(error.to_string()))? {
            match piece {
                Piece::Text(text) => right += text,
                Piece::Masks(_) => right += answers.next().map_or("", String::as_str),
            }
        }
        let exact = f64::from(u8::from(raw == right));
        Ok(Judged { text: raw.into(), scored: scored(raw.into(), vec![("exact", exact)]) })
    }

    fn judge_tokens(&self, doc: usize, tokens: &[TokenId], raw: &str, codec: &dyn Codec) -> Result<Judged, RunError> {
        let right = self.right(doc, codec)?;
        let same = right.iter().zip(tokens).filter(|(right, token)| right == token).count();
        let exact = f64::from(u8::from(same == right.len()));
        let filled = codec.decode(tokens).map_err(RunError::Text)?;
        let metrics = vec![("exact", exact), ("tokens", same as f64 / right.len().max(1) as f64)];
        Ok(Judged { text: raw.into(), scored: scored(filled, metrics) })
    }
}

fn scored(filled: String, metrics: Vec<(&'static str, f64)>) -> Scored {
    Scored { filters: vec![Filter { name: "gap", filtered: Filtered::One(filled), metrics }], notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::Plain;

    fn open(text: &str) -> Result<InfillTask, Error> {
        let path = std::env::temp_dir().join(format!("cofill-infill-{}-{}.jsonl", std::process::id(), text.len()));
        std::fs::write(&path, text).unwrap();
        let task = InfillTask::open(Some(&path));
        std::fs::remove_file(path).unwrap();
        task
    }

    #[test]
    fn rows_that_cannot_be_asked_are_named() {
        let said = |text: &str| open(text).unwrap_err().to_string();
        let fine = r#"{"template": "a[MASK:1]c", "answer": "b", "id": 7}"#;
        assert!(said(&format!("{fine}\n{{\"template\": \"abc\", \"answer\": \"b\"}}")).contains("line 2"));
        assert!(said(r#"{"template": "abc", "answer": "b"}"#).contains("has no gap"));
        assert!(said(r#"{"template": "a[MASK:0]", "answer": "b"}"#).contains("is not a gap"));
        assert!(said(r#"{"template": "a[MASK:1]", "answer": ""}"#).contains("`answer` is empty"));
        assert!(
            said(r#"{"template": "a[MASK:1]", "answer": ["b", "c"]}"#).contains("has 1 gaps, but `answer` is 2 texts")
        );
        assert!(said(r#"{"template": "a[MASK:1]"}"#).contains("missing field `answer`"));
        assert!(said(r#"{"template": "a[MASK:1]", "answer": "b", "answr": 1}"#).contains("unknown field `answr`"));
        assert!(said("").contains("has no row"));
        assert!(InfillTask::open(None).unwrap_err().to_string().contains("none was named"));
        assert!(InfillTask::open(Some(Path::new("/nowhere"))).unwrap_err().to_string().contains("/nowhere"));
    }

    #[test]
    fn a_gap_is_right_when_all_of_its_tokens_are() {
        let task = open("{\"template\": \"x[MASK:3]y[MASK:1]\", \"answer\": [\"abc\", \"d\"]}").unwrap();
        let judge = |text: &str| {
            let tokens = Plain.encode(text).unwrap();
            let scored = task.judge_tokens(0, &tokens, "", &Plain).unwrap().scored;
            (scored.first(), scored.metric("gap", "tokens").unwrap())
        };
        assert_eq!(judge("abcd"), (1.0, 1.0));
        // Three of four, and so not right.
        assert_eq!(judge("abce"), (0.0, 0.75));
        assert_eq!(masks_in("x[MASK:3]y[MASK:1]"), 4);
        // Whole texts give the same verdict.
        let verdict = |text: &str| task.judge(0, text, &Plain).unwrap().scored.first();
        assert_eq!((verdict("xabcyd"), verdict("xabcye")), (1.0, 0.0));
    }

    #[test]
    fn an_answer_of_another_length_is_refused_with_both_lengths() {
        let task = open(r#"{"template": "x[MASK:2]", "answer": "abc"}"#).unwrap();
        let said = task.judge_tokens(0, &[1, 2], "", &Plain).unwrap_err().to_string();
        assert!(said.contains("row 1") && said.contains("2 positions") && said.contains("`abc` is 3 tokens"), "{said}");
    }
}
