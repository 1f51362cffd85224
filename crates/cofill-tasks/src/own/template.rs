//! Texts with fields of a row in them: `What is {a}+{b}?`.
//!
//! `{field}` is a field of the row, `{a.b}` one inside another, `{list.0}` an item of a list, `{{` and `}}` are braces. Nothing else: no
//! conditions, no loops. The language of chat templates (`jinja.rs` of `cofill-model`) would need its budgets here and would tie tasks to
//! models, of which they know nothing; what a template cannot say belongs into the rows, where everybody sees it.

use serde_json::{Map, Value};

/// Bytes that a template may become. A prompt beyond that fits no model.
pub(super) const LONGEST: usize = 1 << 20;

/// A row, by field.
pub type Fields = Map<String, Value>;

/// A template that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(FieldPath),
}

/// Where in a row a value is: `a.b.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path of names and numbers between dots.
    pub fn parse(text: &str) -> Result<FieldPath, String> {
        match text.split('.').any(str::is_empty) {
            true => Err(format!("`{text}` is no field; write a name, or names with dots between them")),
            false => Ok(FieldPath(text.into())),
        }
    }

    /// What stands there.
    pub fn find<'r>(&self, row: &'r Fields) -> Option<&'r Value> {
        let mut names = self.0.split('.');
        let first = row.get(names.next()?)?;
        names.try_fold(first, |value, name| match value {
            Value::Object(fields) => fields.get(name),
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The same, or what to say where nothing does.
    pub(super) fn get<'r>(&self, row: &'r Fields) -> Result<&'r Value, String> {
        self.find(row).ok_or_else(|| {
            let names: Vec<String> = row.keys().take(20).map(|name| format!("`{name}`")).collect();
            let there = if names.is_empty() { "none".into() } else { names.join(", ") };
            let meant = crate::similar::did_you_mean(&self.0, row.keys().map(String::as_str));
            format!("has no field `{self}`; there {} {there}{meant}", if names.len() == 1 { "is" } else { "are" })
        })
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Template {
    /// Reads a template, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Template, String> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err("`}` closes no field; write `}}` for the brace itself".into());
            }
            let Some(end) = after.find(['{', '}']).filter(|end| after.as_bytes()[*end] == b'}') else {
                return Err("`{` opens a field that no `}` closes; write `{{` for the brace itself".into());
            };
            if end == 0 {
                return Err("`{}` names no field; write `{{}}` for the braces themselves".into());
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Field(FieldPath::parse(after[..end].trim())?));
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// Whether it asks for this field.
    pub fn names(&self, field: &str) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Field(path) if path.0 == field))
    }

    /// The text for a row. `known` has values that no row has; their names begin with `_`.
    pub fn fill(&self, row: &Fields, known: &[(&str, &str)]) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Field(path) => match known.iter().find(|(name, _)| *name == path.0) {
                    Some((_, value)) => text.push_str(value),
                    None if path.0.starts_with('_') && path.find(row).is_none() => {
                        return Err(format!("has no field `{path}`, and nothing of that name is known here"));
                    }
                    None => text.push_str(&plain(path.get(row)?).map_err(|kind| kind.describe(path))?),
                },
            }
            if text.len() > LONGEST {
                return Err(format!("makes a text of more than {LONGEST} bytes; shorten its fields"));
            }
        }
        Ok(text)
    }
}

/// Why a value cannot stand in a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoText {
    Null,
    List,
    Object,
}

impl NoText {
    pub(super) fn describe(self, path: &FieldPath) -> String {
        match self {
            NoText::Null => format!("has null for `{path}`; give it a text or a number"),
            NoText::List => format!("has a list for `{path}`; name one of its items, as in `{path}.0`"),
            NoText::Object => format!("has an object for `{path}`; name one of its fields, as in `{path}.name`"),
        }
    }
}

/// A value as it stands in a text: a text as it is, numbers and truth values as JSON has them.
pub(super) fn plain(value: &Value) -> Result<String, NoText> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null => Err(NoText::Null),
        Value::Array(_) => Err(NoText::List),
        Value::Object(_) => Err(NoText::Object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(template: &str) -> Result<String, String> {
        let Value::Object(row) = json!({"a": 7, "b": "x{a}", "c": {"d": [1.5, true]}, "n": null}) else {
            unreachable!()
        };
        Template::parse(template)?.fill(&row, &[("_answer", "42")])
    }

    #[test]
    fn fields_are_filled_in_once() {
        assert_eq!(fill("{a}+{ a }=?"), Ok("7+7=?".into()));
        // What a row says is never a template again.
        assert_eq!(fill("{b}"), Ok("x{a}".into()));
        assert_eq!(fill("{c.d.0} {c.d.1} {_answer}"), Ok("1.5 true 42".into()));
        assert_eq!(fill("{{a}} }}{{ {{{a}}}"), Ok("{a} }{ {7}".into()));
        assert_eq!((fill(""), fill("é\0\n")), (Ok(String::new()), Ok("é\0\n".into())));
    }

    #[test]
    fn what_cannot_be_filled_in_is_said() {
        for (template, said) in [
            ("{a", "`{{`"),
            ("{a{b}", "`{{`"),
            ("a}", "`}}`"),
            ("{}", "names no field"),
            ("{a..b}", "`a..b` is no field"),
            ("{A}", "no field `A`; there are `a`, `b`, `c`, `n`; did you mean `a`?"),
            ("{c}", "an object for `c`"),
            ("{c.d}", "a list for `c.d`; name one of its items, as in `c.d.0`"),
            ("{c.d.2}", "no field `c.d.2`"),
            ("{a.b}", "no field `a.b`"),
            ("{n}", "null for `n`"),
            ("{_prompt}", "`_prompt`, and nothing of that name is known here"),
        ] {
            let error = fill(template).unwrap_err();
            assert!(error.contains(said), "{template}: {error}");
        }
    }

    #[test]
    fn a_template_cannot_become_endless() {
        let mut row = Fields::new();
        row.insert("a".into(), "x".repeat(LONGEST / 2).into());
        let template = Template::parse(&"{a}".repeat(1000)).unwrap();
        assert!(template.fill(&row, &[]).unwrap_err().contains("more than 1048576 bytes"));
    }
}
