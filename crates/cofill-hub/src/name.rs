//! Names of models on the hub: `hf:org/name`, with a revision or a file behind it.

use crate::{Error, Result};
use std::fmt;

/// A model of the hub, or one GGUF file of it: `org/name`, `org/name@revision`, `org/name/file.gguf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// `org/name`, or a bare `name` as the hub's oldest models have.
    pub repo: String,
    /// A branch, a tag or a commit; `main` unless said.
    pub revision: Option<String>,
    /// The path of a GGUF file in it.
    pub file: Option<String>,
}

/// What is meant when no revision is named.
pub(crate) const MAIN: &str = "main";

/// Whether a text is a name that the hub could have given: `org/name`, both of letters, digits, `-`, `_` and `.`.
pub fn is_hub_name(text: &str) -> bool {
    text.split_once('/').is_some_and(|(org, model)| is_word(org) && is_word(model))
}

fn is_word(part: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // `--` separates the parts in names of cache folders, so the hub has no such name.
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.chars().all(known)
        && part.len() <= 96
        && !part.contains("--")
        && !part.contains("..")
}

impl ModelName {
    /// Reads a name, with or without `hf:` before it.
    pub fn parse(text: &str) -> Result<ModelName> {
        let bad = |why: &str| Error::BadName { given: text.into(), why: why.into() };
        let bare = text.strip_prefix("hf:").unwrap_or(text);
        let (path, revision) = match bare.split_once('@') {
            Some((path, revision)) => (path, Some(revision)),
            None => (bare, None),
        };
        if let Some(revision) = revision {
            check_path(revision).map_err(|why| bad(&format!("its revision {why}")))?;
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (repo, file) = match parts.as_slice() {
            [name] => ((*name).to_owned(), None),
            [org, name] => (format!("{org}/{name}"), None),
            [org, name, file @ ..] => (format!("{org}/{name}"), Some(file.join("/"))),
            [] => (String::new(), None),
        };
        if !repo.split('/').all(is_word) {
            return Err(bad("a name is made of letters, digits, `-`, `_` and `.`"));
        }
        if let Some(file) = &file {
            check_path(file).map_err(|why| bad(&format!("its file {why}")))?;
            if !file.ends_with(".gguf") {
                return Err(bad("only a .gguf file can be named by itself"));
            }
        }
        Ok(ModelName { repo, revision: revision.map(str::to_owned), file })
    }

    /// The revision that is asked for.
    pub(crate) fn wanted_revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(file) = &self.file {
            write!(f, "/{file}")?;
        }
        match &self.revision {
            Some(revision) => write!(f, "@{revision}"),
            None => Ok(()),
        }
    }
}

/// Whether a path from elsewhere may become one below a folder of ours; otherwise what is wrong with it.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    let odd = |c: char| c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    match path {
        "" => Err("is empty"),
        path if path.len() > 1024 => Err("has more than 1024 bytes"),
        path if path.contains(odd) => Err("has characters that no file name should have"),
        path if path.starts_with('/') => Err("is an absolute path"),
        path if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") => {
            Err("has a part that is empty, `.` or `..`")
        }
        path if path.split('/').any(|part| part.len() > 200 || part.ends_with(['.', ' '])) => {
            Err("has a part that some systems cannot store")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_words_are_a_name_of_the_hub() {
        for name in ["GSAI-ML/LLaDA-8B-Instruct", "a/b_c.d"] {
            assert!(is_hub_name(name), "{name}");
        }
        for name in ["tiny-llada", "a/b/c", "/a", "a/", "../a", "./a", "a/..", "a b/c", "a/b--c", "a/b..c"] {
            assert!(!is_hub_name(name), "{name}");
        }
    }

    #[test]
    fn a_name_is_taken_apart() {
        let parse = |text: &str| {
            let ModelName { repo, revision, file } = ModelName::parse(text).unwrap();
            (repo, revision.unwrap_or_default(), file.unwrap_or_default())
        };
        let want = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parse("hf:org/name"), want("org/name", "", ""));
        assert_eq!(parse("org/name@v1.0"), want("org/name", "v1.0", ""));
        assert_eq!(parse("hf:org/name@refs/pr/1"), want("org/name", "refs/pr/1", ""));
        assert_eq!(parse("hf:org/name/q4/a.gguf@main"), want("org/name", "main", "q4/a.gguf"));
        assert_eq!(parse("hf:bert-base-uncased"), want("bert-base-uncased", "", ""));
        for text in ["hf:org/name/q4/a.gguf@main", "hf:org/name@v1.0"] {
            assert_eq!(format!("hf:{}", ModelName::parse(text).unwrap()), text);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let bad = [
            "hf:",
            "hf:/etc",
            "hf:../x",
            "hf:a/..",
            "hf:a/b/../../c.gguf",
            "hf:a/b@../main",
            "hf:a/b@",
            "hf:a/b@/x",
            "hf:a/b/c.bin",
            "hf:a//b",
            "hf:a/b\\c",
            "hf:a/b@x\ny",
            "hf:a/b/C:.gguf",
            "hf:http://x/y",
        ];
        for text in bad {
            let message = ModelName::parse(text).unwrap_err().to_string();
            assert!(message.contains("no name of a model on the hub"), "{text}: {message}");
        }
    }
}
