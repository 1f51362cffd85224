//! Benchmark files: which there are, where they come from, and their rows.
//!
//! The one module of this crate that opens files. Rows and few-shot examples are other people's work and are never part of this
//! program, so they are read from a folder. Each file has one known content; another one may be used, and the result says so.

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file that some task reads.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// Its name in the folder.
    pub name: &'static str,
    /// The rows of the known content.
    pub rows: usize,
    /// The SHA-256 of the known content, in hexadecimal.
    pub sha256: &'static str,
    /// Where a user gets it, as an instruction.
    pub origin: &'static str,
}

macro_rules! files {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $rows:literal, $sha256:literal, $origin:literal;)*) => {
        $($(#[$doc])* pub static $id: File = File { name: $name, rows: $rows, sha256: $sha256, origin: $origin };)*
        /// Every file that some benchmark reads, benchmark by benchmark.
        pub static FILES: &[&File] = &[$(&$id),*];
    };
}

files! {
    /// Where GSM8K's few-shot examples are drawn from.
    GSM8K_TRAIN = "gsm8k_train.jsonl", 7473, "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
        "`grade_school_math/data/train.jsonl` of https://github.com/openai/grade-school-math, under this name";
    /// The questions of GSM8K, for both of its forms.
    GSM8K_TEST = "gsm8k_test.jsonl", 1319, "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
        "`grade_school_math/data/test.jsonl` of https://github.com/openai/grade-school-math, under this name";
    /// The fixed examples of `gsm8k_cot`.
    GSM8K_COT_SHOTS = "gsm8k_cot_fewshot8.jsonl", 8, "834e15ff15ab7058dfb6d1d928a6263a3637cfbf9a2f9240eea3753c2e3463c6",
        "the 8 `samples` (question, target) in `gsm8k-cot.yaml` of lm-eval 0.4.8, a JSON object a line";
    /// The problems of MATH-500.
    MATH500_TEST = "math500_test.jsonl", 500, "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
        "`test.jsonl` of https://huggingface.co/datasets/HuggingFaceH4/MATH-500, under this name";
    /// The fixed examples of the Minerva prompt.
    MINERVA_SHOTS = "minerva_fewshot4.jsonl", 4, "a82bad90328d6f2bed8abd6081f70a967a3118be529977228b60b0b5ce284214",
        "what `list_fewshot_samples()` in `minerva_math/utils.py` of lm-eval 0.4.8 returns, a JSON object a line";
    /// The functions of HumanEval.
    HUMANEVAL_TEST = "humaneval_test.jsonl", 164, "1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2",
        "`data/HumanEval.jsonl.gz` of https://github.com/openai/human-eval, unpacked, under this name";
    /// The questions of MBPP: its test split.
    MBPP_TEST = "mbpp_test.jsonl", 500, "9bcaa67d5c2943e95eb9d9127e844f0551a77ac910c664aa45a4ebd75d239bd9",
        "lines 11 to 510 of the `mbpp.jsonl` that Hugging Face's google-research-datasets/mbpp names (sha256 ccf64cea...; the newest one of google-research differs)";
    /// The three fixed few-shot examples of MBPP.
    MBPP_SHOTS = "mbpp_fewshot3.jsonl", 3, "2c2a666eec24b523be998e3411cf2035b18abe7d3c623dd710989179a0fb6b7e",
        "what `list_fewshot_samples()` in `mbpp/utils.py` of lm-eval 0.4.8 returns, a JSON object a line";
}

/// A data file as it was found, for the header of a file of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file of [`FILES`] that it stands for.
    pub file: &'static File,
    /// The SHA-256 of what was read.
    pub sha256: String,
    /// How many rows it has.
    pub rows: usize,
}

/// How a data file can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such folder.
    #[error("`{}` is no folder; name the one that holds the data files", path.display())]
    Folder {
        /// The path, as given.
        path: PathBuf,
    },
    /// The file is not there.
    #[error("`{}` is missing; get {}", path.display(), file.origin)]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// The file that is missing.
        file: &'static File,
    },
    /// The file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file that could not be read.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder, a pipe or a device where a file belongs.
    #[error("`{}` is no file", path.display())]
    NoFile {
        /// What is none.
        path: PathBuf,
    },
    /// A file beyond its limit.
    #[error("`{}` has more than {most} bytes; give less of it", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How many bytes it may have.
        most: u64,
    },
    /// A row is not what the task needs.
    #[error("line {line} of `{name}`: {problem}")]
    Row {
        /// The name of the file.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// No row at all.
    #[error("`{name}` has no row")]
    Empty {
        /// The name of the file.
        name: String,
    },
}

/// A row of a data file.
pub trait Row: DeserializeOwned {
    /// What is wrong with a row whose fields are all there.
    fn problem(&self) -> Option<String> {
        None
    }
}

impl Source {
    /// Whether this is the content that everybody else's scores are of.
    pub fn is_known(&self) -> bool {
        self.sha256 == self.file.sha256
    }

    /// What a user must be told when the content is another one.
    pub fn warning(&self) -> Option<String> {
        let File { name, sha256, .. } = self.file;
        let warning =
            || format!("`{name}` has the unknown sha256 {}, not {sha256}; scores are of this file", self.sha256);
        (!self.is_known()).then(warning)
    }
}

/// Reads a file and its rows.
pub fn load<R: Row>(folder: &Path, file: &'static File) -> Result<(Vec<R>, Source), Error> {
    if !folder.is_dir() {
        return Err(Error::Folder { path: folder.into() });
    }
    let path = folder.join(file.name);
    let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { path: path.clone(), file },
        _ => Error::Read { path: path.clone(), source },
    })?;
    let rows = rows(file.name, &bytes)?;
    let source = Source { file, sha256: sha256(&bytes), rows: rows.len() };
    Ok((rows, source))
}

/// The bytes of a file of at most `most` of them. What is no file is refused: a pipe would wait for ever, a device might never end.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Read { path: path.into(), source };
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Error::NoFile { path: path.into() });
    }
    let (file, mut bytes) = (std::fs::File::open(path).map_err(unreadable)?, Vec::new());
    // Counted while it is read: what a system says of a file's length need not be so.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most { Err(Error::TooLong { path: path.into(), most }) } else { Ok(bytes) }
}

/// The rows of JSONL, one a line. Blank lines are passed over.
pub fn rows<R: Row>(name: &str, bytes: &[u8]) -> Result<Vec<R>, Error> {
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |problem| Error::Row { name: name.into(), line, problem };
        let row: R = serde_json::from_slice(text).map_err(|error| wrong(json_problem(&error)))?;
        match row.problem() {
            Some(problem) => return Err(wrong(problem)),
            None => rows.push(row),
        }
    }
    if rows.is_empty() { Err(Error::Empty { name: name.into() }) } else { Ok(rows) }
}

/// What serde says without its own idea of the line, which is always 1.
pub fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    if error.is_data() { text.into() } else { format!("not JSON at column {}: {text}", error.column()) }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON in which every half of a surrogate pair is `\ufffd` instead, or `None` if there is none. Python writes them, and one such answer
/// should not refuse a whole file.
pub fn without_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    // `\uXXXX` at a place, as a number. Backslashes stand in strings only.
    let escape = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match (escape(at), escape(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.get_or_insert_with(|| json.to_vec())[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            _ => 2,
        };
        if at >= json.len() {
            break;
        }
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_becomes_a_replacement_character() {
        let mend = |text: &str| without_lone_surrogates(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(mend(r#"{"a": "\ud800x"}"#).as_deref(), Some(r#"{"a": "\ufffdx"}"#));
        assert_eq!(mend(r#""\uDFFF\ud83e\udd80\ud83e""#).as_deref(), Some(r#""\ufffd\ud83e\udd80\ufffd""#));
        // Whole pairs, escaped backslashes and ends that are none.
        for fine in [r#""\ud83e\udd80""#, r#""\\ud800""#, "\\", "\\ud8", "", "plain"] {
            assert_eq!(mend(fine), None, "{fine}");
        }
        assert_eq!(mend(r#""\\\ud800""#).as_deref(), Some(r#""\\\ufffd""#));
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Toy {
        question: String,
    }

    impl Row for Toy {
        fn problem(&self) -> Option<String> {
            self.question.is_empty().then(|| "asks nothing".into())
        }
    }

    fn read(text: &[u8]) -> Result<Vec<String>, String> {
        let rows = rows::<Toy>("toy.jsonl", text).map_err(|error| error.to_string())?;
        Ok(rows.into_iter().map(|row| row.question).collect())
    }

    #[test]
    fn rows_are_lines_whatever_their_ends() {
        let text = "{\"question\": \"a\\r\\nb\u{2028}\", \"more\": 1}\r\n\n{\"question\": \"c\"}";
        assert_eq!(read(text.as_bytes()), Ok(vec!["a\r\nb\u{2028}".into(), "c".into()]));
    }

    #[test]
    fn a_wrong_row_is_named_by_its_line() {
        let check = |text: &[u8], message: &str| assert_eq!(read(text), Err(message.into()));
        check(b"{\"question\": \"a\"}\n\n{\"answer\": 1}", "line 3 of `toy.jsonl`: missing field `question`");
        check(b"{\"question\": 1}", "line 1 of `toy.jsonl`: invalid type: integer `1`, expected a string");
        check(b"{\"question\": \"\"}", "line 1 of `toy.jsonl`: asks nothing");
        check(b" \n", "`toy.jsonl` has no row");
        let cut = read(b"{\"question\": \"a\"}\n{\"quest").unwrap_err();
        assert!(cut.starts_with("line 2 of `toy.jsonl`: not JSON at column"), "{cut}");
        let latin1 = read(b"{\"question\": \"\xe9\"}").unwrap_err();
        assert!(latin1.starts_with("line 1 of `toy.jsonl`: "), "{latin1}");
    }

    #[test]
    fn what_is_not_there_is_said_with_where_it_comes_from() {
        let nowhere = load::<Toy>(Path::new("/nowhere"), &GSM8K_TEST).unwrap_err().to_string();
        assert!(nowhere.contains("`/nowhere` is no folder"), "{nowhere}");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let missing = load::<Toy>(here, &GSM8K_TEST).unwrap_err().to_string();
        assert!(missing.contains("gsm8k_test.jsonl` is missing; get `grade_school_math"), "{missing}");
    }

    #[test]
    fn an_unknown_content_is_a_warning() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let found = |sha256: &str| Source { file: &GSM8K_TEST, sha256: sha256.into(), rows: 3 };
        assert_eq!(found(GSM8K_TEST.sha256).warning(), None);
        let warning = found("abcd").warning().unwrap();
        assert!(warning.contains("gsm8k_test.jsonl") && warning.contains("abcd"), "{warning}");
    }
}
