//! Where a report comes from: the files it was made of, who made these and with which models and data, and who made the report.

use crate::document::{Block, Table, count};
use crate::points::Error;
use crate::results::Header;
use crate::statistics::bootstrap::Bootstrap;
use cofill_tasks::data::sha256;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a report was made of, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Provenance {
    /// Who made the report; not known of one that was made in a notebook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// Files of results, and tables of points.
    pub files: usize,
    /// SHA-256 over the SHA-256 of every file, in the order in which they were read.
    pub sha256: String,
    /// When the oldest and the newest of them were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<(String, String)>,
    /// The programs and machines that made the results, with the number of files of each.
    pub programs: Vec<Counted>,
    /// Models and other weights, with their checksums.
    pub models: Vec<Counted>,
    /// Tasks with what decides their questions.
    pub tasks: Vec<Counted>,
    /// Every other field of the headers with its values.
    pub settings: BTreeMap<String, BTreeSet<String>>,
}

/// Who made a report, when, and how it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Made {
    /// The version of the program.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// The command line.
    pub command: String,
    /// The date and time: [`utc`].
    pub date: String,
}

/// Something that several files have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Its name and what belongs to it.
    pub fields: Vec<String>,
    /// How many files have it.
    pub files: usize,
}

/// Fields that describe weights, and fields that describe questions.
const WEIGHTS: [&str; 5] = ["model", "model_sha256", "pair_head_sha256", "companion", "companion_sha256"];
const OF_POINT: [&str; 2] = ["sampler", "sampler_version"];

impl Provenance {
    /// Reads the headers of files of results, and checksums everything.
    pub fn of(files: &[PathBuf]) -> Result<Provenance, Error> {
        let mut headers = Vec::new();
        let mut sums = String::new();
        let mut written = Vec::new();
        for path in files {
            let failed = |source| Error::Read { path: path.clone(), source };
            let bytes = std::fs::read(path).map_err(failed)?;
            sums += &sha256(&bytes);
            written.extend(path.metadata().and_then(|there| there.modified()));
            let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            headers.extend(serde_json::from_slice::<Header>(first)); // a table has none
        }
        let written = written.iter().min().zip(written.iter().max());
        let program = |header: &Header| {
            let text = |field: &Value| field.as_str().map_or_else(|| "-".to_owned(), str::to_owned);
            let made = &header.made_by;
            let machine = [&made["machine"]["cpu"], &made["machine"]["os"], &made["machine"]["arch"]].map(text);
            vec![text(&made["version"]), text(&made["commit"]), machine.join(", ")]
        };
        let some = |header: &Header, fields: &[&str]| -> Vec<String> {
            fields.iter().map(|field| header.what.get(*field).map_or_else(|| "-".into(), text)).collect()
        };
        let models = |header: &Header| some(header, &WEIGHTS);
        let task = |header: &Header| {
            let name = some(header, &["task"]).remove(0);
            let of_data = |(field, _): &(&String, &Value)| is_data(field);
            let data = header.what.iter().filter(of_data).filter(|(_, value)| !value.is_null());
            let data: Vec<String> = data.map(|(field, value)| format!("{field} {}", text(value))).collect();
            vec![name, data.join(", ")]
        };
        let mut settings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (field, value) in headers.iter().flat_map(|header| &header.what) {
            let named = WEIGHTS.contains(&field.as_str()) || OF_POINT.contains(&field.as_str());
            if !named && field != "task" && !is_data(field) && !value.is_null() {
                settings.entry(field.clone()).or_default().insert(text(value));
            }
        }
        Ok(Provenance {
            made: None,
            files: files.len(),
            sha256: sha256(sums.as_bytes()),
            written: written.map(|(first, last)| (utc(*first), utc(*last))),
            programs: counted(&headers, program),
            models: counted(&headers, models),
            tasks: counted(&headers, task),
            settings,
        })
    }

    /// The same, with who made the report.
    pub fn made(self, made: Made) -> Provenance {
        Provenance { made: Some(made), ..self }
    }

    /// A line for files that have only comments: LaTeX.
    pub(super) fn line(&self) -> String {
        let Some(Made { version, commit, command, date }) = &self.made else {
            return format!("made of {}, SHA-256 {}", count(self.files, "file"), self.sha256);
        };
        let command: String = command.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!(
            "{date}, cofill {version} (commit {commit}): {command}; {}, SHA-256 {}",
            count(self.files, "file"),
            self.sha256
        )
    }

    /// Facts first, checksums behind a fold.
    pub(super) fn blocks(&self, bootstrap: Bootstrap) -> Vec<Block> {
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut say = |term: &str, value: String| facts.push((term.into(), value));
        if let Some(Made { version, commit, command, date }) = &self.made {
            say("Report", date.clone());
            say("Program", format!("cofill {version}, commit {commit}"));
            say("Command", command.clone());
        }
        say("Made of", count(self.files, "file"));
        say("SHA-256 of these", self.sha256.clone());
        if let Some((first, last)) = &self.written {
            say("Files written", if first == last { first.clone() } else { format!("{first} to {last}") });
        }
        say("Intervals", format!("the central 95 % of {} resamples, seed {}", bootstrap.resamples, bootstrap.seed));
        for (field, values) in &self.settings {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            say(field, values.join(", "));
        }
        let table = |caption: &str, head: &[&str], rows: &[Counted]| {
            // Columns that say nothing of anybody are left out.
            let kept: Vec<usize> = (0..head.len())
                .filter(|i| rows.iter().any(|row| !["-", ""].contains(&row.fields[*i].as_str())))
                .collect();
            let row =
                |row: &Counted| kept.iter().map(|i| row.fields[*i].clone()).chain([row.files.to_string()]).collect();
            let head = kept.iter().map(|i| head[*i].to_owned()).chain(["Files".to_owned()]).collect();
            Block::Table(Table {
                caption: Some(caption.into()),
                head,
                rows: rows.iter().map(row).collect(),
                words: kept.len(),
            })
        };
        let mut blocks = vec![Block::Facts(facts)];
        if !self.programs.is_empty() {
            let head = ["Model", "SHA-256", "Trained head", "Companion", "Companion's SHA-256"];
            blocks.push(Block::Fold {
                title: "Models, tasks and programs".into(),
                blocks: vec![
                    table("Models, by the checksum of their weights.", &head, &self.models),
                    table("Tasks, with what decides their questions.", &["Task", "Data"], &self.tasks),
                    table("Programs that made the results.", &["Version", "Commit", "Machine"], &self.programs),
                ],
            });
        }
        blocks
    }
}

/// Whether a field of a header says which questions were asked.
fn is_data(field: &str) -> bool {
    let weights = WEIGHTS.contains(&field);
    !weights && (field.contains("sha256") || ["split", "corpus_seed", "shots", "wrapper", "length"].contains(&field))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What headers have in common, in the order in which it comes.
fn counted(headers: &[Header], of: impl Fn(&Header) -> Vec<String>) -> Vec<Counted> {
    let mut found: Vec<Counted> = Vec::new();
    for header in headers {
        let fields = of(header);
        match found.iter_mut().find(|counted| counted.fields == fields) {
            Some(counted) => counted.files += 1,
            None => found.push(Counted { fields, files: 1 }),
        }
    }
    found
}

/// A time as `2026-11-18 16:40 UTC`.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, minutes) = (seconds / 86_400, seconds / 60 % 1_440);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day of so many days after 1 January 1970. Years begin in March, so that the leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 1 March of the year 0
    let (era, day) = (days / 146_097, days % 146_097); // of 400 years
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March
    let first = month >= 10; // January and February belong to the next year
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if first { month - 9 } else { month + 3 });
    (400 * era + year + u64::from(first), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Every day from 1970 to 2400, by counting.
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..157_000 {
            assert_eq!(date(days), (year, month, day), "{days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (month, day) if day == length => (year, month + 1, 1),
                (month, day) => (year, month, day + 1),
            };
        }
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_795_020_059)), "2026-11-18 16:40 UTC");
    }
}
