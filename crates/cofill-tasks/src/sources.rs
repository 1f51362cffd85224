//! Where the benchmarks' files can be had, and how what is there becomes the known file: bytes in, bytes out.
//!
//! Nothing is fetched here, and none of those texts is in this program: addresses, sizes and checksums are. Few-shot examples are
//! inside the harness's package for Python; they are read out of its files as texts, and nothing of it is executed.

use crate::data::{self, File};
use flate2::read::{DeflateDecoder, GzDecoder};
use std::fmt::Write as _;
use std::io::{Cursor, Read};

/// Which server has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Files of public repositories, as <https://raw.githubusercontent.com> has them.
    GitHub,
    /// Data sets of the Hugging Face hub.
    Hub,
    /// Packages of the Python registry: the path is the package's name, and the file is looked up in its index.
    PythonRegistry,
}

/// What is fetched: one of these may hold several data files.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Who has it.
    pub place: Place,
    /// Where it is there.
    pub path: &'static str,
    /// Its file name.
    pub name: &'static str,
    /// Its bytes.
    pub size: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
    /// Under which terms its authors give it.
    pub licence: &'static str,
}

/// How a data file is made of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpacking {
    /// It is the package.
    AsItIs,
    /// It is the package, unpacked.
    Gzip,
    /// Some lines of it, counted from 1, the last one included.
    Lines(usize, usize),
    /// The list that the function `list_fewshot_samples` of a Python file in a wheel returns, an object a line.
    PythonList(&'static str),
    /// The list `samples` of a YAML file in a wheel, an object a line.
    YamlSamples(&'static str),
}

/// A data file, what it is made of, and how.
#[derive(Debug)]
pub struct FileSource {
    /// The file.
    pub file: &'static File,
    /// What is fetched for it.
    pub package: &'static Package,
    /// How it is made of that.
    pub unpacking: Unpacking,
}

/// Why a package does not hold what it should. Its checksum was right, so this is a mistake of ours.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` cannot be made of `{package}`: {problem}; please report this")]
pub struct UnpackError {
    name: &'static str,
    package: &'static str,
    problem: String,
}

/// The most that a file in a package may have.
const MOST_BYTES: u64 = 16 << 20;

static GSM8K_TRAIN: Package = Package {
    place: Place::GitHub,
    path: "openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/train.jsonl",
    name: "train.jsonl",
    size: 4_166_206,
    sha256: "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
    licence: "MIT",
};
static GSM8K_TEST: Package = Package {
    place: Place::GitHub,
    path: "openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl",
    name: "test.jsonl",
    size: 749_738,
    sha256: "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
    licence: "MIT",
};
static HUMANEVAL: Package = Package {
    place: Place::GitHub,
    path: "openai/human-eval/6d43fb980f9fee3c892a914eda09951f772ad10d/data/HumanEval.jsonl.gz",
    name: "HumanEval.jsonl.gz",
    size: 44_877,
    sha256: "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
    licence: "MIT",
};
static MBPP: Package = Package {
    place: Place::GitHub,
    path: "google-research/google-research/f82046ba5aabbbb427dbfd38a254d26bff08b533/mbpp/mbpp.jsonl",
    name: "mbpp.jsonl",
    size: 563_743,
    sha256: "ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
    licence: "CC BY 4.0",
};
static MATH500: Package = Package {
    place: Place::Hub,
    path: "datasets/HuggingFaceH4/MATH-500/resolve/main/test.jsonl",
    name: "math500-test.jsonl",
    size: 446_564,
    sha256: "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
    licence: "MIT",
};
static LM_EVAL: Package = Package {
    place: Place::PythonRegistry,
    path: "lm-eval",
    name: "lm_eval-0.4.8-py3-none-any.whl",
    size: 3_888_006,
    sha256: "2ba377e067affcfcd27b73d6c045f8ce9ff88accd56176d9a86af3c12b0e01f6",
    licence: "MIT",
};

/// Where every data file comes from, in the order of [`data::FILES`].
pub static SOURCES: [FileSource; 8] = [
    FileSource { file: &data::GSM8K_TRAIN, package: &GSM8K_TRAIN, unpacking: Unpacking::AsItIs },
    FileSource { file: &data::GSM8K_TEST, package: &GSM8K_TEST, unpacking: Unpacking::AsItIs },
    FileSource {
        file: &data::GSM8K_COT_SHOTS,
        package: &LM_EVAL,
        unpacking: Unpacking::YamlSamples("lm_eval/tasks/gsm8k/gsm8k-cot.yaml"),
    },
    FileSource { file: &data::MATH500_TEST, package: &MATH500, unpacking: Unpacking::AsItIs },
    FileSource {
        file: &data::MINERVA_SHOTS,
        package: &LM_EVAL,
        unpacking: Unpacking::PythonList("lm_eval/tasks/minerva_math/utils.py"),
    },
    FileSource { file: &data::HUMANEVAL_TEST, package: &HUMANEVAL, unpacking: Unpacking::Gzip },
    FileSource { file: &data::MBPP_TEST, package: &MBPP, unpacking: Unpacking::Lines(11, 510) },
    FileSource {
        file: &data::MBPP_SHOTS,
        package: &LM_EVAL,
        unpacking: Unpacking::PythonList("lm_eval/tasks/mbpp/utils.py"),
    },
];

impl FileSource {
    /// Of a data file.
    pub fn of(file: &File) -> Option<&'static FileSource> {
        SOURCES.iter().find(|source| source.file == file)
    }

    /// The data file, made of the bytes of its package.
    pub fn unpack(&self, package: &[u8]) -> Result<Vec<u8>, UnpackError> {
        let (name, of) = (self.file.name, self.package.name);
        let made = match self.unpacking {
            Unpacking::AsItIs => Ok(package.to_vec()),
            Unpacking::Gzip => inflated(GzDecoder::new(package)),
            Unpacking::Lines(first, last) => Ok(lines(package, first, last)),
            Unpacking::PythonList(path) => member(package, path).and_then(|text| python_list(&text)),
            Unpacking::YamlSamples(path) => member(package, path).and_then(|text| yaml_samples(&text)),
        };
        let failed = |problem| UnpackError { name, package: of, problem };
        let made = made.map_err(failed)?;
        match data::sha256(&made) {
            sha256 if sha256 == self.file.sha256 => Ok(made),
            sha256 => Err(failed(format!("its sha256 is {sha256}, not {}", self.file.sha256))),
        }
    }
}

fn inflated(packed: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    packed.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn lines(text: &[u8], first: usize, last: usize) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.skip(first - 1).take(last + 1 - first).flatten().copied().collect()
}

/// A file of a wheel, which is a zip.
fn member(wheel: &[u8], path: &str) -> Result<String, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(wheel)).map_err(|error| error.to_string())?;
    let at = archive.index_for_name(path).ok_or_else(|| format!("it has no file `{path}`"))?;
    let packed = archive.by_index_raw(at).map_err(|error| error.to_string())?;
    // As stored: the crate is built without anything that unpacks, and this crate has flate2 for that.
    let bytes = match packed.compression() {
        zip::CompressionMethod::Stored => inflated(packed)?,
        _ => inflated(DeflateDecoder::new(packed))?,
    };
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// What `list_fewshot_samples` returns, as JSON lines.
fn python_list(source: &str) -> Result<Vec<u8>, String> {
    let (_, body) = source.split_once("def list_fewshot_samples(").ok_or("there is no `list_fewshot_samples`")?;
    let (_, literal) = body.split_once("return ").ok_or("`list_fewshot_samples` returns nothing")?;
    let mut reader = Literal { rest: literal };
    match reader.value()? {
        Value::List(rows) => Ok(rows.iter().fold(String::new(), |text, row| text + &row.json() + "\n").into_bytes()),
        _ => Err("`list_fewshot_samples` returns no list".into()),
    }
}

/// The items of `samples:`, each a few keys with plain texts, folded where they go on in the next line.
fn yaml_samples(text: &str) -> Result<Vec<u8>, String> {
    let mut rows: Vec<Vec<(Value, Value)>> = Vec::new();
    let inside = text.lines().skip_while(|line| line.trim() != "samples:").skip(1);
    for line in inside.take_while(|line| line.starts_with("  ")) {
        let item = line.trim_start();
        let (item, begins) = match item.strip_prefix("- ") {
            Some(item) => (item, true),
            None => (item, false),
        };
        if begins {
            rows.push(Vec::new());
        }
        let row = rows.last_mut().ok_or("`samples` begins without an item")?;
        // Keys stand right behind the dash or below it; whatever is further right belongs to the text above.
        let indent = line.len() - line.trim_start().len();
        match item.split_once(": ") {
            Some((key, value)) if begins || indent == 4 => {
                row.push((Value::Text(key.into()), Value::Text(value.into())));
            }
            _ => match row.last_mut() {
                Some((_, Value::Text(text))) => {
                    text.push(' ');
                    text.push_str(item);
                }
                _ => return Err(format!("`{item:.40}` belongs to nothing")),
            },
        }
    }
    let json = |row: Vec<(Value, Value)>| Value::Object(row).json();
    Ok(rows.into_iter().fold(String::new(), |text, row| text + &json(row) + "\n").into_bytes())
}

/// As much of a Python value as those lists have.
#[derive(Debug, PartialEq)]
enum Value {
    Text(String),
    /// A number or a constant, as JSON has it.
    Word(String),
    List(Vec<Value>),
    Object(Vec<(Value, Value)>),
}

impl Value {
    /// As Python's `json.dumps` writes it.
    fn json(&self) -> String {
        match self {
            Value::Text(text) => quoted(text),
            Value::Word(word) => word.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(Value::json).collect::<Vec<_>>().join(", ")),
            Value::Object(fields) => {
                let field = |(key, value): &(Value, Value)| format!("{}: {}", key.json(), value.json());
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A JSON string in ASCII.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => json += "\\\"",
            '\\' => json += "\\\\",
            '\n' => json += "\\n",
            '\r' => json += "\\r",
            '\t' => json += "\\t",
            ' '..='~' => json.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(json, "\\u{unit:04x}"); // writing to a string cannot fail
                }
            }
        }
    }
    json + "\""
}

/// A Python literal that is being read.
struct Literal<'a> {
    rest: &'a str,
}

impl Literal<'_> {
    fn value(&mut self) -> Result<Value, String> {
        match self.next()? {
            '[' => Ok(Value::List(self.items(']', Literal::value)?)),
            '{' => Ok(Value::Object(self.items('}', |reader| {
                let key = reader.value()?;
                match reader.next()? {
                    ':' => Ok((key, reader.value()?)),
                    other => Err(format!("`{other}` in place of `:`")),
                }
            })?)),
            quote @ ('"' | '\'') => self.text(quote).map(Value::Text),
            first if first.is_ascii_alphanumeric() => {
                let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                match format!("{first}{word}").as_str() {
                    "True" => Ok(Value::Word("true".into())),
                    "False" => Ok(Value::Word("false".into())),
                    number if number.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Value::Word(number.into())),
                    other => Err(format!("`{other:.20}` is no literal")),
                }
            }
            other => Err(format!("`{other}` begins no literal")),
        }
    }

    /// What stands between brackets; a comma may end it.
    fn items<T>(&mut self, end: char, item: impl Fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        loop {
            if self.peek()? == end {
                self.next()?;
                return Ok(items);
            }
            items.push(item(self)?);
            match self.peek()? {
                ',' => drop(self.next()?),
                c if c == end => {}
                other => return Err(format!("`{other}` in place of `,` or `{end}`")),
            }
        }
    }

    fn text(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next().ok_or("a string without an end")? {
                c if c == quote => break,
                '\\' => text.push(match chars.next().ok_or("a string without an end")? {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    c @ ('\\' | '"' | '\'') => c,
                    other => return Err(format!("the escape `\\{other}` is not known")),
                }),
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Ok(text)
    }

    fn peek(&mut self) -> Result<char, String> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next().ok_or_else(|| "the list has no end".into())
    }

    /// The next character that is no space.
    fn next(&mut self) -> Result<char, String> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_file_has_a_source() {
        let files: Vec<&File> = SOURCES.iter().map(|source| source.file).collect();
        assert_eq!(files, data::FILES);
        for source in &SOURCES {
            assert_eq!(source.package.sha256.len(), 64);
            if source.unpacking == Unpacking::AsItIs {
                assert_eq!(source.package.sha256, source.file.sha256, "{}", source.file.name);
            }
        }
    }

    #[test]
    fn a_list_in_python_becomes_what_json_dumps_writes() {
        let source = "import os\nos.abort()\ndef list_fewshot_samples() -> list[dict]:\n    return [\n  {\n \"n\": 2,\n \
            'text': \"a\\r\\n\\\\b \\\"c\\\" \u{e9}\u{1f980}\",\n \"tests\": [\"x\", 'y',],\n \"few\": True,\n },\n {},\n ]\n\ndef f(): ...";
        let want = "{\"n\": 2, \"text\": \"a\\r\\n\\\\b \\\"c\\\" \\u00e9\\ud83e\\udd80\", \"tests\": [\"x\", \"y\"], \
            \"few\": true}\n{}\n";
        assert_eq!(String::from_utf8(python_list(source).unwrap()).unwrap(), want);
        for bad in ["", "X return f()", "X return [\"a", "X return [1 2]", "X return 5"] {
            assert!(python_list(&bad.replace('X', "def list_fewshot_samples():")).is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_texts_of_yaml_are_folded() {
        let text = "a: b\nfewshot_config:\n  samples:\n  - question: One\n      two: three\n      four\n    target: Five\n  \
            - question: Six\n    target: Seven\nfilter_list:\n- filter: x\n";
        let want = "{\"question\": \"One two: three four\", \"target\": \"Five\"}\n\
            {\"question\": \"Six\", \"target\": \"Seven\"}\n";
        assert_eq!(String::from_utf8(yaml_samples(text).unwrap()).unwrap(), want);
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(lines(b"a\nb\r\nc\nd", 2, 3), b"b\r\nc\n");
        assert_eq!(lines(b"a\nb", 2, 9), b"b");
    }

    #[test]
    fn packages_of_another_content_are_refused() {
        let source = FileSource::of(&data::HUMANEVAL_TEST).unwrap();
        assert!(source.unpack(b"no gzip").unwrap_err().to_string().contains("HumanEval.jsonl.gz"));
        let source = FileSource::of(&data::MBPP_SHOTS).unwrap();
        assert!(source.unpack(b"no zip").is_err());
        let source = FileSource::of(&data::GSM8K_TEST).unwrap();
        assert!(source.unpack(b"{}").unwrap_err().to_string().contains("sha256"));
    }
}
