//! Reading an object of a `tokenizer.json` field by field: each has a kind and bounds, and only what was read is kept.

use super::malformed;
use crate::error::{Error, Result};
use crate::guard::shown;
use serde_json::{Map, Value};
use std::path::Path;

/// What is wrong at a place of the file.
pub(super) fn refused(path: &Path, at: &str, problem: &str) -> Error {
    malformed(path, format!("`{at}` {problem}"))
}

/// An object and what was understood of it.
pub(super) struct Fields<'a> {
    pub(super) path: &'a Path,
    pub(super) at: String,
    pub(super) given: &'a Value,
    pub(super) made: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(path: &'a Path, at: &str, given: &'a Value) -> Result<Fields<'a>> {
        if given.is_object() {
            Ok(Fields { path, at: at.into(), given, made: Map::new() })
        } else {
            Err(refused(path, at, &format!("is {}, but must be an object", shown(&given.to_string()))))
        }
    }

    pub(super) fn done(self) -> Value {
        self.made.into()
    }

    pub(super) fn wrong<T>(&self, name: &str, want: &str) -> Result<T> {
        let given = shown(&self.given[name].to_string());
        Err(refused(self.path, &format!("{}.{name}", self.at), &format!("is {given}, but must be {want}")))
    }

    pub(super) fn keep(&mut self, name: &str) -> Result<()> {
        self.made.insert(name.into(), self.given[name].clone());
        Ok(())
    }

    /// Reads the field `type` of a component.
    pub(super) fn kind(&mut self) -> Result<String> {
        let Some(kind) = self.given["type"].as_str() else { return self.wrong("type", "the name of a component") };
        self.made.insert("type".into(), kind.into());
        Ok(kind.into())
    }

    /// True or false; where there is a default, the field may be left out.
    pub(super) fn flag(&mut self, name: &str, default: Option<bool>) -> Result<()> {
        match (&self.given[name], default) {
            (Value::Bool(_), _) => self.keep(name),
            (Value::Null, Some(default)) => {
                self.made.insert(name.into(), default.into());
                Ok(())
            }
            _ => self.wrong(name, "true or false"),
        }
    }

    pub(super) fn text(&mut self, name: &str, least: usize, most: usize) -> Result<()> {
        match self.given[name].as_str() {
            Some(text) if (least..=most).contains(&text.len()) => self.keep(name),
            _ => self.wrong(name, &format!("a text of {least} to {most} bytes")),
        }
    }

    pub(super) fn optional_text(&mut self, name: &str, most: usize) -> Result<()> {
        if self.given[name].is_null() { Ok(()) } else { self.text(name, 0, most) }
    }

    pub(super) fn character(&mut self, name: &str) -> Result<()> {
        match self.given[name].as_str() {
            Some(text) if text.chars().count() == 1 => self.keep(name),
            _ => self.wrong(name, "one character"),
        }
    }

    pub(super) fn count(&mut self, name: &str, most: usize) -> Result<()> {
        match self.given[name].as_u64() {
            Some(n) if n <= most as u64 => self.keep(name),
            _ => self.wrong(name, &format!("a whole number from 0 to {most}")),
        }
    }

    pub(super) fn one_of(&mut self, name: &str, choices: &[&str]) -> Result<()> {
        match self.given[name].as_str() {
            Some(text) if choices.contains(&text) => self.keep(name),
            _ => self.wrong(name, &format!("one of {}", choices.join(", "))),
        }
    }

    pub(super) fn behavior(&mut self) -> Result<()> {
        let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
        self.one_of("behavior", &behaviors)
    }
}
