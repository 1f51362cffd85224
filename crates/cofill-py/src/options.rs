//! Keyword arguments as the one list of options that every door has ([`RunOptions`]), and prompts as inputs.

use crate::arrays;
use crate::errors::request;
use cofill_engine::{Input, RunOptions, Schema};
use cofill_model::Message;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Options by name, on top of how the engine was opened; what is decided then cannot be changed now.
pub(crate) fn run_options(given: Option<&Bound<'_, PyDict>>, opened: &RunOptions) -> PyResult<RunOptions> {
    let fields = keywords(given)?;
    if let Some(name) = ["dtype", "device", "companion"].into_iter().find(|name| fields.contains_key(*name)) {
        return Err(request(format!("{name} is decided when a model is opened; give it to Engine(..., {name}=...)")));
    }
    let mut options: RunOptions = read(&fields, &Map::new())?;
    options.check().map_err(request)?;
    (options.dtype, options.device, options.companion) = (opened.dtype, opened.device, opened.companion.clone());
    Ok(options)
}

/// Keyword arguments as the fields of an object; None is as if it had not been given.
pub(crate) fn keywords(given: Option<&Bound<'_, PyDict>>) -> PyResult<Map<String, Value>> {
    let mut fields = Map::new();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let value = if name == "schema" { schema(&value)? } else { arrays::json(&name, &value)? };
        if !value.is_null() {
            // One stop string, or one choice, is a list of one.
            let is_list = ["stop", "choice"].contains(&name.as_str());
            let value = if is_list && value.is_string() { Value::from(vec![value]) } else { value };
            fields.insert(name, value);
        }
    }
    Ok(fields)
}

/// A schema as text, so that its keys keep their order: a dict, the text of one, a file (a path, not a text), or "object".
fn schema(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() || given.is_instance_of::<PyString>() {
        return arrays::json("schema", given);
    }
    if given.is_instance_of::<PyDict>() {
        let text: String = given.py().import("json")?.call_method1("dumps", (given,))?.extract()?;
        return Ok(Value::from(text));
    }
    let path: PathBuf = given.extract().map_err(|_| {
        request("schema is a dict, the text of one, a pathlib.Path to a file, or \"object\" for any JSON object")
    })?;
    Ok(Value::from(Schema::read(&path).map_err(request)?.text()))
}

/// Fields as what they describe. `base` are those that must be there; an error names the option that is wrong, and what it may be.
pub(crate) fn read<T: DeserializeOwned>(given: &Map<String, Value>, base: &Map<String, Value>) -> PyResult<T> {
    let with = |fields: &Map<String, Value>| {
        let all = base.iter().chain(fields).map(|(name, value)| (name.clone(), value.clone()));
        serde_json::from_value::<T>(all.collect())
    };
    let error = match with(given) {
        Ok(read) => return Ok(read),
        Err(error) => error.to_string(),
    };
    let mut said = error.replace("unknown field", "unknown option");
    let is_base_wrong = !base.is_empty() && with(&Map::new()).is_err();
    // Serde does not say which field has the wrong type: the one that is wrong alone.
    for (name, value) in given.iter().filter(|_| !is_base_wrong) {
        match with(&Map::from_iter([(name.clone(), value.clone())])) {
            Err(error) if !error.to_string().contains("unknown field") => said = format!("{name} is {value}: {error}"),
            _ => {}
        }
    }
    said = said.replace("expected a nonzero usize", "expected a whole number, 1 or more");
    for kind in ["usize", "u64", "u32"] {
        said = said.replace(&format!("expected {kind}"), "expected a whole number, 0 or more");
    }
    Err(request(said.replace("expected f64", "expected a number")))
}

/// What is to be continued: a text, a chat or tokens.
pub(crate) fn input_of(prompt: Option<&Bound<'_, PyAny>>) -> PyResult<Input> {
    let Some(prompt) = prompt.filter(|prompt| !prompt.is_none()) else { return Ok(Input::Nothing) };
    if let Ok(text) = prompt.cast::<PyString>() {
        return Ok(Input::Prompt(text.to_string()));
    }
    let is_list = prompt.is_instance_of::<PyList>() || prompt.is_instance_of::<PyTuple>();
    if is_list && prompt.len()? > 0 && prompt.get_item(0)?.is_instance_of::<PyDict>() {
        let messages = prompt.try_iter()?.map(|item| message(&item?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(Input::Messages(messages));
    }
    Ok(Input::PromptTokens(arrays::tokens("prompt", prompt, None)?))
}

/// `{"role": "user", "content": "..."}`
pub(crate) fn message(given: &Bound<'_, PyAny>) -> PyResult<Message> {
    let field = |name: &str| {
        let wrong = || {
            request(format!(
                "a message has the fields `role` and `content`, both texts; `{name}` is missing or no text"
            ))
        };
        given.get_item(name).map_err(|_| wrong())?.extract::<String>().map_err(|_| wrong())
    };
    Ok(Message::new(field("role")?, field("content")?))
}
