//! Which types this crate shows to others. The tensor library is an inner matter: a release of it must not break whoever uses this
//! crate, so nothing public may have a type of it in its signature, its fields or the traits it implements.

use std::collections::BTreeSet;
use std::path::Path;

/// A file of this crate, cut at the tests in it, without comments.
struct Source {
    text: String,
    /// The names that stand for something of the tensor library here.
    foreign: BTreeSet<String>,
}

impl Source {
    fn new(text: &str) -> Source {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let text: String = code.flat_map(|line| [line.trim_end(), "\n"]).collect();
        // `use candle_core::quantized::{GgmlDType, QTensor as Q};` brings `GgmlDType` and `Q`.
        let mut foreign = BTreeSet::from(["candle_core".into(), "candle_nn".into()]);
        for import in text.split("use candle_").skip(1) {
            let import = import.split(';').next().unwrap_or_default();
            let names = import.split(['{', '}', ',']).filter_map(|path| path.trim().rsplit([':', ' ']).next());
            foreign.extend(names.filter(|name| !name.is_empty() && *name != "self").map(str::to_owned));
        }
        Source { text, foreign }
    }

    /// Everything in it that others can see and that speaks of the tensor library.
    fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        for (at, line) in self.lines() {
            let rest = &self.text[at..];
            let seen = match line.trim_start() {
                // Variants of an enum and methods of a trait are as public as it is.
                item if item.starts_with("pub enum ") || item.starts_with("pub trait ") => until(rest, "\n}"),
                // A field or the head of anything else; a field's type may have a comma in it, but no line break.
                item if item.starts_with("pub ") && item.ends_with(',') => line,
                item if item.starts_with("pub struct ") && item.ends_with(';') => self.public_part(line),
                item if item.starts_with("pub use ") => until(rest, ";"),
                item if item.starts_with("pub ") => rest.split(['{', ';']).next().unwrap_or_default(),
                item if item.starts_with("impl") && !self.is_for_a_private_type(line) => until(rest, "{"),
                _ => continue,
            };
            if words(seen).any(|word| self.foreign.contains(word)) {
                leaks.push(line.trim().to_owned());
            }
        }
        leaks
    }

    /// `pub struct Hidden(Tensor);` hides its field.
    fn public_part<'a>(&self, line: &'a str) -> &'a str {
        if line.contains("(pub ") { line } else { line.split('(').next().unwrap_or_default() }
    }

    /// Whether an `impl` is about a type that is declared in this file and not public.
    fn is_for_a_private_type(&self, line: &str) -> bool {
        let about = line.rsplit(" for ").next().unwrap_or(line).trim_start_matches("impl");
        let name = words(about).next().unwrap_or_default();
        let declared = |visibility: &str| {
            ["struct", "enum"].iter().any(|kind| self.text.contains(&format!("\n{visibility}{kind} {name}")))
        };
        declared("pub(crate) ") || declared("")
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = &self.text;
        text.lines().map(move |line| (line.as_ptr() as usize - text.as_ptr() as usize, line))
    }
}

fn until<'a>(text: &'a str, end: &str) -> &'a str {
    text.split(end).next().unwrap_or(text)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

fn leaks(text: &str) -> Vec<String> {
    Source::new(text).leaks()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn no_type_of_the_tensor_library_is_public() {
    let (mut read, mut users) = (0, 0);
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = Source::new(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(source.leaks(), Vec::<String>::new(), "{}", path.display());
        read += 1;
        users += usize::from(source.foreign.len() > 2);
    }
    assert!(read > 30 && users > 5, "{read} files, of which {users} use the tensor library: is this still the source?");
}

#[test]
fn every_way_to_show_a_type_is_noticed() {
    let import = "use candle_core::quantized::{GgmlDType, QTensor as Q};\nuse candle_core::Tensor;\n";
    for item in [
        "pub fn get(&self) -> Result<Tensor> {\n",
        "pub fn get(\n    &self,\n    it: Q,\n) -> u32 {\n",
        "    pub hidden: Tensor,\n",
        "pub struct Hidden(pub Tensor);\n",
        "pub enum Error {\n    Candle(#[from] candle_core::Error),\n}\n",
        "pub trait Kept {\n    fn dtype(&self) -> GgmlDType;\n}\n",
        "pub use candle_core::Device;\n",
        "pub type Numbers = Vec<Tensor>;\n",
        "impl From<candle_core::Error> for Error {\n",
        "impl AsRef<Tensor> for Model {\n",
    ] {
        assert_eq!(leaks(&format!("{import}{item}")).len(), 1, "{item}");
    }
    for item in [
        "pub(crate) fn get(&self) -> Result<Tensor> {\n",
        "pub fn get(&self) -> u32 {\n    Tensor::zeros(3)\n}\n",
        "pub struct Model {\n    hidden: Tensor,\n    pub n: usize,\n}\n",
        "pub struct Hidden(Tensor);\n",
        "pub(crate) struct Failure(u8);\nimpl From<candle_core::Error> for Failure {\n",
        "/// A Tensor.\npub fn get(&self) -> u32; // a Tensor\n",
        "#[cfg(test)]\nmod tests {\n    pub fn get(&self) -> Tensor {}\n}\n",
    ] {
        assert_eq!(leaks(&format!("{import}{item}")), Vec::<String>::new(), "{item}");
    }
}
