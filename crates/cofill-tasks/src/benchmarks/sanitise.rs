//! Dream's sanitising of generated code, done by the Python that also runs it.
//!
//! The rules are about Python's own syntax tree and its own way of printing it, so a port of the parser could only be wrong where it
//! differs. `sanitise.py` is run like any generated program, confined as they are; the code it is given is parsed there and not run.

use crate::judge::Execute;
use std::time::Duration;

/// For up to 5,050 attempts to parse 100 lines.
const TIMEOUT: Duration = Duration::from_secs(30);

const PROGRAM: &str = include_str!("sanitise.py");

/// The imports of `text`, and the definitions that `entry_point` can reach. Nothing if Python gives up on it.
pub(super) fn sanitise(judge: &dyn Execute, text: &str, entry_point: &str) -> Result<String, String> {
    // JSON's string literals are Python's.
    let call = format!("answer = sanitised({}, {})", serde_json::json!(text), serde_json::json!(entry_point));
    Ok(judge.answer(&format!("{PROGRAM}\n{call}\n"), TIMEOUT)?.unwrap_or_default())
}
