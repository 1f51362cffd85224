//! Files of JSON lines: a header that says what was measured, then a line per measurement, each written at once.
//!
//! Files of results and the raw lines of diagnostics are such files. Lines are only ever appended, so whoever stops the writer stops it between
//! lines, or at worst leaves the last one torn.

use crate::output::{Error, Existing, Output};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// A file of JSON lines that grows.
#[derive(Debug)]
pub struct JsonLines {
    output: Output,
}

impl JsonLines {
    /// A new file with its header. One that is replaced is so when the new header is written.
    pub fn create(path: &Path, header: &impl Serialize, existing: Existing) -> Result<JsonLines, Error> {
        let mut lines = JsonLines { output: Output::growing(path, existing)? };
        lines.append(header)?;
        lines.output.publish()?;
        Ok(lines)
    }

    /// A file that goes on where it ends, or begins, and what it holds.
    pub fn resume(path: &Path) -> Result<(JsonLines, Vec<u8>), Error> {
        let (output, there) = Output::resumed(path)?;
        Ok((JsonLines { output }, there))
    }

    /// Cuts off what comes after `len` bytes, and goes on there.
    pub fn cut(&mut self, len: usize) -> Result<(), Error> {
        self.output.cut(len)
    }

    /// Appends a line in one write.
    pub fn append(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let written = line(value).and_then(|line| self.output.write_all(&line));
        written.map_err(|source| self.output.failed(source))
    }

    /// Why others are not kept out of the file, where the file system has no locks.
    pub fn unlocked(&self) -> Option<&io::Error> {
        self.output.unlocked()
    }
}

/// A value as a line.
pub fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Where the last line that has an end ends.
pub fn whole(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_and_then_lines() {
        let path = std::env::temp_dir().join(format!("cofill-jsonl-{}", std::process::id()));
        let mut lines = JsonLines::create(&path, &serde_json::json!({"what": "a\nb"}), Existing::Refuse).unwrap();
        lines.append(&[1, 2]).unwrap();
        assert!(matches!(JsonLines::create(&path, &0, Existing::Refuse), Err(Error::Exists { .. })));
        drop(lines);
        let (mut lines, there) = JsonLines::resume(&path).unwrap();
        assert_eq!(there, b"{\"what\":\"a\\nb\"}\n[1,2]\n");
        lines.cut(there.len() - 3).unwrap();
        lines.append(&3).unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!((text.as_slice(), whole(b"1\n2"), whole(b"1")), (&b"{\"what\":\"a\\nb\"}\n[1,3\n"[..], 2, 0));
        std::fs::remove_file(path).ok();
    }
}
