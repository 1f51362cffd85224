//! A line on stderr for whatever happens: words for people, or JSON for machines. Never a prompt, an answer or a key.

use serde_json::{Map, Value};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// How lines are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    /// As JSON.
    pub json: bool,
    /// Whether requests are worth a line: always as JSON; for people, only those that failed.
    pub requests: bool,
}

impl Log {
    /// Writes that something happened, with its particulars.
    pub(crate) fn line(&self, level: &str, event: &str, fields: &[(&str, Value)]) {
        let mut err = std::io::stderr().lock();
        // Nobody is left to tell when stderr is gone.
        let _ = match self.json {
            true => {
                let mut line = Map::new();
                line.insert("time".into(), seconds().into());
                line.insert("level".into(), level.into());
                line.insert("event".into(), event.into());
                line.extend(fields.iter().map(|(name, value)| ((*name).into(), value.clone())));
                writeln!(err, "{}", Value::Object(line))
            }
            false => {
                let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                writeln!(err, "{event}{fields}")
            }
        };
    }
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
