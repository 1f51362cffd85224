//! Rows of a task file: objects, a line each, from a file of their own or written into the task file.

use super::template::Fields;
use super::{Error, problem};
use crate::data;
use serde_json::Value;
use std::path::Path;

/// Bytes of a file of rows, rows in it, and bytes of one of them.
const MOST_BYTES: u64 = 1 << 28;
const MOST_ROWS: usize = 1_000_000;
const LONGEST_ROW: usize = 1 << 20;

/// A row, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnRow {
    /// The line of its file, or its number in the task file; counted from 1.
    pub line: usize,
    /// Its values.
    pub fields: Fields,
}

impl OwnRow {
    /// A number that depends on what the row says and on nothing else.
    pub(super) fn hash(&self) -> u64 {
        let text = Value::Object(self.fields.clone()).to_string();
        let digest = data::sha256(text.as_bytes());
        u64::from_str_radix(&digest[..16], 16).unwrap_or(0)
    }
}

/// Rows, and where they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The name of their file, as the task file has it.
    pub name: String,
    /// The SHA-256 of the file; nothing for rows in the task file, whose own hash covers them.
    pub sha256: Option<String>,
    /// In order.
    pub rows: Vec<OwnRow>,
}

impl Rows {
    /// Reads a file; `name` is what the task file calls it.
    pub(super) fn read(path: &Path, name: &str) -> Result<Rows, Error> {
        let bytes = data::read(path, MOST_BYTES)?;
        let wrong = |line: usize, problem: String| Error::Row { name: name.into(), line, problem };
        let mut rows = Vec::new();
        // An editor's mark of UTF-8 is no part of the first row.
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            if text.len() > LONGEST_ROW {
                let given = text.len();
                return Err(wrong(line, format!("has {given} bytes, but a row has at most {LONGEST_ROW}; shorten it")));
            }
            if rows.len() == MOST_ROWS {
                return Err(wrong(
                    line,
                    format!("is row {} of a file of at most {MOST_ROWS}; split it", rows.len() + 1),
                ));
            }
            let text = std::str::from_utf8(text).map_err(|error| {
                wrong(line, format!("is not UTF-8 at byte {}; save the file as UTF-8", error.valid_up_to() + 1))
            })?;
            match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => rows.push(OwnRow { line, fields }),
                Ok(other) => {
                    let problem =
                        format!("is {}, but a row is an object: {{\"field\": \"value\"}}", problem::kind(&other));
                    return Err(wrong(line, problem));
                }
                Err(error) => return Err(wrong(line, data::json_problem(&error))),
            }
        }
        match rows.is_empty() {
            true => Err(Error::Empty { name: name.into() }),
            false => Ok(Rows { name: name.into(), sha256: Some(data::sha256(&bytes)), rows }),
        }
    }

    /// Rows that stand in the task file.
    pub(super) fn inline(rows: Vec<Fields>) -> Rows {
        let rows = (1..).zip(rows).map(|(line, fields)| OwnRow { line, fields }).collect();
        Rows { name: String::new(), sha256: None, rows }
    }

    /// A problem with a row, by its place.
    pub(super) fn wrong(&self, row: &OwnRow, file: &str, problem: &str) -> Error {
        match self.sha256 {
            Some(_) => Error::Row { name: self.name.clone(), line: row.line, problem: format!("it {problem}") },
            None => Error::InlineRow { name: file.into(), row: row.line, problem: format!("it {problem}") },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Rows, String> {
        let path = std::env::temp_dir().join(format!("cofill-rows-{}-{}.jsonl", std::process::id(), bytes.len()));
        std::fs::write(&path, bytes).unwrap();
        let rows = Rows::read(&path, "rows.jsonl").map_err(|error| error.to_string());
        std::fs::remove_file(path).unwrap();
        rows
    }

    #[test]
    fn rows_are_objects_and_keep_their_lines() {
        let rows = read(b"\xef\xbb\xbf{\"a\": 1}\r\n\n{\"a\": \"\\u0000\"}").unwrap();
        assert_eq!(rows.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(rows.rows[1].fields["a"], "\0");
        // The order of fields and spaces are no part of what a row says.
        let (one, same) = (read(b"{\"a\":1, \"b\":2}").unwrap(), read(b"{\"b\" : 2,  \"a\" : 1}").unwrap());
        assert_eq!(one.rows[0].hash(), same.rows[0].hash());
    }

    #[test]
    fn hostile_rows_are_refused_by_line() {
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(LONGEST_ROW));
        for (bytes, said) in [
            (&b"{\"a\": 1}\n[1]"[..], "line 2 of `rows.jsonl`: is a list, but a row is an object"),
            (b"7", "line 1 of `rows.jsonl`: is a number"),
            (b"{\"a\": \"\xe9\"}", "line 1 of `rows.jsonl`: is not UTF-8 at byte 8"),
            (b"{\"a\": ", "line 1 of `rows.jsonl`: not JSON at column"),
            (b"{\"a\": \"\\ud800\"}", "line 1 of `rows.jsonl`: not JSON"),
            (b" \n\n", "`rows.jsonl` has no row"),
            (deep.as_bytes(), "recursion limit"),
            (long.as_bytes(), "1048585 bytes, but a row has at most 1048576"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn only_files_are_read() {
        let folder = Rows::read(&std::env::temp_dir(), "x").unwrap_err().to_string();
        assert!(folder.contains("is no file"), "{folder}");
        #[cfg(unix)]
        assert!(Rows::read(Path::new("/dev/zero"), "x").unwrap_err().to_string().contains("is no file"));
        let missing = Rows::read(Path::new("/nowhere/rows.jsonl"), "x").unwrap_err().to_string();
        assert!(missing.contains("/nowhere/rows.jsonl"), "{missing}");
    }
}
