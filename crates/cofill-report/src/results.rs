//! A file of results: a header that says what was run, then a record per example, in order.
//!
//! Records are only ever appended, each by one write. So whatever stops a run leaves a file that can be continued: at worst its last
//! line is torn, and that example is done again. A continued file equals an undisturbed one, but for the times in it.
//!
//! One process at a time: the file is locked while it grows. And it is read before it is touched: what is not ours stays as it is.

pub use crate::jsonl::{line, whole};

use crate::jsonl::JsonLines;
use crate::output::{self, Existing};
use cofill::trace::CacheMeter;
use cofill_tasks::benchmarks::{Filtered, JUDGE_FAILED, Scored, Tally};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The format. In version 1 a run had fewer options; what a header of either does not name is the default, so both are read alike.
pub const VERSION: u64 = 2;

/// What was run. Two runs with the same `what` make the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the file: [`VERSION`].
    pub cofill_eval: u64,
    /// Everything that decides the records: task, data, model, sampler, seeds, judges.
    pub what: Map<String, Value>,
    /// What does not: version, commit, machine.
    pub made_by: Value,
}

/// What became of an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the task's test split.
    pub doc_id: usize,
    /// SHA-256 of the prompt, in hex.
    pub prompt_sha256: String,
    /// What was generated, as tokens.
    pub tokens: Vec<u32>,
    /// What was generated, as the text that filters read.
    pub text: String,
    /// What every filter took from it, and how that scored: [`filters`].
    pub filters: Map<String, Value>,
    /// The task's first metric.
    pub score: f64,
    /// What lies between: why an answer is wrong, how a program ended.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub notes: Map<String, Value>,
    /// Forwards that were made.
    pub nfe: usize,
    /// How many of them were the companion's, for samplers that ask one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub companion_nfe: usize,
    /// What a cache saved, and at which drift, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMeter>,
    /// Steps that were made, where a sampler that looks ahead made fewer than forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Positions that were filled.
    pub filled: usize,
    /// How many of them come before the end of text: what a reader gets. Older files do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful: Option<usize>,
    /// Its share of the seconds that its batch took.
    pub seconds: f64,
}

impl Record {
    /// Why no judge could judge it.
    pub fn judge_failure(&self) -> Option<&str> {
        self.notes.get(JUDGE_FAILED)?.as_str()
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// How a file of results can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of that name is there already, and it was not said what to do with it.
    #[error("`{}` exists; continue it, replace it, or give another file", .path.display())]
    Exists {
        /// Where the file is.
        path: PathBuf,
    },
    /// It cannot be opened or written, or somebody else is writing it.
    #[error(transparent)]
    Output(output::Error),
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Io {
        /// Where the file is.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no file of results.
    #[error("`{}`, line {line}: {problem}", .path.display())]
    Damaged {
        /// Where the file is.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with that line.
        problem: String,
    },
    /// Its header tells of another run.
    #[error("`{}` holds another run: its {field} is {there}, and now {field} is {here}; give another file", .path.display())]
    Another {
        /// Where the file is.
        path: PathBuf,
        /// The first field that differs.
        field: String,
        /// Its value in the file.
        there: Value,
        /// Its value in this run.
        here: Value,
    },
}

impl From<output::Error> for Error {
    fn from(error: output::Error) -> Error {
        match error {
            output::Error::Exists { path } => Error::Exists { path },
            error => Error::Output(error),
        }
    }
}

/// An open file of results.
#[derive(Debug)]
pub struct Results {
    lines: JsonLines,
}

impl Results {
    /// A new file. One that is replaced is so when the header of the new one is written.
    pub fn create(path: &Path, header: &Header, existing: Existing) -> Result<Results, Error> {
        Ok(Results { lines: JsonLines::create(path, header, existing)? })
    }

    /// Continues a file, or begins one that is not there. Gives the records it holds; a torn last line is cut off, once the rest is known
    /// to be of this run.
    pub fn resume(path: &Path, header: &Header) -> Result<(Results, Vec<Record>), Error> {
        let (lines, text) = JsonLines::resume(path)?;
        let mut results = Results { lines };
        let (lines, torn) = text.split_at(whole(&text));
        if lines.is_empty() && is_torn_header(torn, header) {
            results.lines.cut(0)?;
            results.lines.append(header)?;
            return Ok((results, Vec::new()));
        }
        let (there, records) = parse(path, if lines.is_empty() { torn } else { lines }, 0)?;
        if let Some((field, there, here)) = difference(&there.what, &header.what) {
            return Err(Error::Another { path: path.into(), field, there, here });
        }
        if lines.is_empty() || !is_torn(torn, &format!("{{\"doc_id\":{},", records.len())) {
            let (line, problem) = (records.len() + 2, "not a record, and not the beginning of the next one".into());
            return Err(Error::Damaged { path: path.into(), line, problem });
        }
        results.lines.cut(lines.len())?;
        Ok((results, records))
    }

    /// Reads a file; a torn last line is passed over.
    pub fn read(path: &Path) -> Result<(Header, Vec<Record>), Error> {
        let text = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
        parse(path, &text[..whole(&text)], 0)
    }

    /// Why others are not kept out of the file, where the file system has no locks.
    pub fn unlocked(&self) -> Option<&std::io::Error> {
        self.lines.unlocked()
    }

    /// Appends the record of the next example.
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        Ok(self.lines.append(record)?)
    }
}

/// Whether a line without an end may be one that begins so.
fn is_torn(torn: &[u8], beginning: &str) -> bool {
    torn.starts_with(beginning.as_bytes()) || beginning.as_bytes().starts_with(torn)
}

/// Whether all there is may be a torn header of this run, whoever made it.
fn is_torn_header(torn: &[u8], header: &Header) -> bool {
    let what = Value::Object(header.what.clone());
    (1..=VERSION).any(|version| is_torn(torn, &format!("{{\"cofill_eval\":{version},\"what\":{what},\"made_by\":")))
}

/// The header and the records of whole lines; examples are counted from `first`.
pub fn parse(path: &Path, text: &[u8], first: usize) -> Result<(Header, Vec<Record>), Error> {
    let damaged = |line: usize, problem: String| Error::Damaged { path: path.into(), line, problem };
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate();
    let (_, top) = lines.next().ok_or_else(|| damaged(1, "there is no header".into()))?;
    let header: Header =
        serde_json::from_slice(top).map_err(|error| damaged(1, format!("not a header of results: {error}")))?;
    if !(1..=VERSION).contains(&header.cofill_eval) {
        return Err(damaged(1, format!("format {}, but this program reads up to {VERSION}", header.cofill_eval)));
    }
    let mut records: Vec<Record> = Vec::new();
    for (i, line) in lines {
        let record: Record =
            serde_json::from_slice(line).map_err(|error| damaged(i + 1, format!("not a record: {error}")))?;
        let expected = first + records.len();
        if record.doc_id != expected {
            return Err(damaged(i + 1, format!("example {} where {expected} belongs", record.doc_id)));
        }
        records.push(record);
    }
    Ok((header, records))
}

/// The first field in which two runs differ.
pub fn difference(there: &Map<String, Value>, here: &Map<String, Value>) -> Option<(String, Value, Value)> {
    let mut fields: Vec<&String> = there.keys().chain(here.keys()).collect();
    fields.sort();
    let get = |map: &Map<String, Value>, field: &String| map.get(field).cloned().unwrap_or(Value::Null);
    let field = fields.into_iter().find(|field| get(there, field) != get(here, field))?;
    Some((field.clone(), get(there, field), get(here, field)))
}

/// Every reading of an answer, by name: `{"NAME": {"filtered": .., "metrics": {..}}}`.
pub fn filters(scored: &Scored) -> Map<String, Value> {
    let filters = scored.filters.iter().map(|filter| {
        let filtered = match &filter.filtered {
            Filtered::One(text) => json!(text),
            Filtered::Each(texts) => json!(texts),
        };
        let metrics: Map<_, _> = filter.metrics.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
        (filter.name.into(), json!({"filtered": filtered, "metrics": metrics}))
    });
    filters.collect()
}

/// What lies between an answer and its metrics, by name.
pub fn notes(scored: &Scored) -> Map<String, Value> {
    scored.notes.iter().map(|(name, note)| ((*name).into(), json!(note))).collect()
}

/// Sums over the records of a file.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// How many records were counted.
    pub n: usize,
    /// Every metric of every filter.
    pub tally: Tally,
    /// Forwards that were made.
    pub nfe: usize,
    /// Steps that were made: as many as forwards, unless a sampler looked ahead.
    pub steps: usize,
    /// Positions that were filled.
    pub filled: usize,
    /// Seconds of decoding, over all records.
    pub seconds: f64,
    /// Records that no judge could judge; they count as wrong.
    pub unjudged: usize,
    /// Records whose answer fills all of its positions: neither an end of text nor a stop string is in it.
    pub endless: usize,
    /// What their caches saved together, if they had any.
    pub cache: Option<CacheMeter>,
    first: Tally,
}

impl Totals {
    /// Counts one more record.
    pub fn add(&mut self, record: &Record) {
        self.n += 1;
        self.nfe += record.nfe;
        self.steps += record.steps.unwrap_or(record.nfe);
        self.filled += record.filled;
        self.seconds += record.seconds;
        self.unjudged += usize::from(record.judge_failure().is_some());
        self.endless += usize::from(record.filled > 0 && record.useful == Some(record.filled));
        if let Some(cache) = &record.cache {
            self.cache.get_or_insert_default().add(cache);
        }
        self.first.count("", "", record.score);
        for (filter, read) in &record.filters {
            for (metric, value) in read["metrics"].as_object().into_iter().flatten() {
                self.tally.count(filter, metric, value.as_f64().unwrap_or(f64::NAN));
            }
        }
    }

    /// The mean of the task's first metric, and its standard error.
    pub fn score(&self) -> (f64, Option<f64>) {
        self.first.means().first().map_or((0.0, None), |mean| (mean.mean, mean.standard_error))
    }

    /// Means and standard errors of every metric: `{"FILTER": {"METRIC": {"mean": .., "standard_error": ..}}}`.
    pub fn means(&self) -> Value {
        self.tally.json()
    }

    /// Forwards of a question, on average.
    pub fn mean_nfe(&self) -> f64 {
        self.nfe as f64 / self.n.max(1) as f64
    }

    /// Steps of a question, on average.
    pub fn mean_steps(&self) -> f64 {
        self.steps as f64 / self.n.max(1) as f64
    }

    /// Positions filled by a forward, on average.
    pub fn per_forward(&self) -> f64 {
        self.filled as f64 / self.nfe.max(1) as f64
    }
}

#[cfg(test)]
mod tests;
