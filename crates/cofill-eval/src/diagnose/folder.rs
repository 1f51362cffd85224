//! What a diagnostic leaves behind: an answer in tables and numbers, and a folder of files.
//!
//! A diagnostic makes a [`Diagnosis`]; a [`Folder`] keeps it. Raw lines are written as they are measured, so an
//! interrupted run keeps what it had; tables and figures can be made from them at any time.

use cofill_report::document::{Block, Document, NamedFigure, Table, count, first_sentence, html, markdown};
use cofill_report::jsonl::JsonLines;
use cofill_report::output::{self, Existing};
use cofill_report::plot::{self, ENOUGH, Width};
use cofill_report::report::provenance::utc;
use cofill_report::statistics::bootstrap::Estimate;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The format of raw files; another number is another format.
pub const VERSION: u64 = 1;

/// What the figures of a diagnostic are called; known before there is anything to draw.
const FIGURES: [(&str, &str); 3] =
    [("intervention", "intervention-scatter"), ("deferral", "deferral-boxes"), ("predicates", "predicates-boxes")];

/// Pixels of a page inside another one; the rest scrolls.
const FRAME_HEIGHT: usize = 720;

/// Everything that a diagnostic has to say.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// Tables, notes and figures for people, and the paper's tables as LaTeX.
    pub document: Document,
    /// The numbers for programs.
    pub json: Value,
}

impl Diagnosis {
    /// What is asked and what came of it, in words; the figure; then tables, of which the first is in sight and the others fold; then notes: what a
    /// reader must know, such as who was left out, and why.
    pub(super) fn blocks(words: Words, figures: &[NamedFigure], tables: Vec<Table>, notes: Vec<String>) -> Vec<Block> {
        let Words { title, about, findings } = words;
        let mut blocks = vec![Block::Heading(title), Block::Text(about), Block::List(findings)];
        let mut tables = tables.into_iter();
        blocks.extend(tables.next().map(Block::Table));
        blocks.extend(figures.iter().map(NamedFigure::block));
        for table in tables {
            let caption = table.caption.as_deref().unwrap_or("More numbers");
            let (title, _) = first_sentence(caption);
            blocks.push(Block::Fold { title: title.trim_end_matches('.').into(), blocks: vec![Block::Table(table)] });
        }
        blocks.extend(notes.into_iter().map(Block::Text));
        blocks
    }

    /// The figure, if it has enough to show; otherwise a note that says so.
    pub(super) fn worth_drawing(figure: NamedFigure, notes: &mut Vec<String>) -> Vec<NamedFigure> {
        let values = figure.figure.values();
        if values >= ENOUGH {
            return vec![figure];
        }
        notes.push(format!(
            "No figure: it would show {}, and fewer than {ENOUGH} say less than the tables.",
            count(values, "value")
        ));
        Vec::new()
    }

    /// Its words, tables and figure as one page that needs nothing else.
    pub fn html(&self) -> Result<String, plot::Error> {
        Ok(html::page(&self.document.blocks, &self.document.draw()?))
    }

    /// The page as a part of another one, such as a cell of a notebook.
    pub fn fragment(&self) -> Result<String, plot::Error> {
        Ok(html::frame("diagnosis", FRAME_HEIGHT, &self.html()?))
    }

    /// Its tables and notes as Markdown.
    pub fn markdown(&self) -> String {
        markdown::markdown(&self.document.blocks)
    }
}

/// A diagnostic in words.
pub(super) struct Words {
    /// The question.
    pub(super) title: String,
    /// What was measured.
    pub(super) about: String,
    /// What came of it, and how sure that is.
    pub(super) findings: Vec<String>,
}

/// Names, each once, in the order in which they come.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found.join(", ")
}

/// `.358`, `-.281`: three digits without the zero, as the paper prints correlations; a dash where there is none.
pub fn three(value: Option<f64>) -> String {
    value.map_or_else(|| "—".into(), |value| strip(&format!("{value:.3}")))
}

/// Three digits with their sign: `+.325`.
pub fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "—".into(), |value| strip(&format!("{value:+.3}")))
}

/// A value and its interval: `.358 [.312, .403]`.
pub fn with_interval(estimate: Option<Estimate>) -> String {
    let text = |Estimate { value, interval }: Estimate| {
        let [value, low, high] = [value, interval.low, interval.high].map(|number| three(Some(number)));
        format!("{value} [{low}, {high}]")
    };
    estimate.map_or_else(|| "—".into(), text)
}

fn strip(number: &str) -> String {
    // −.000 is 0, and 1.000 keeps its one.
    let number = if number.trim_start_matches(['-', '+']) == "0.000" { number.trim_start_matches('-') } else { number };
    number.replacen("0.", ".", usize::from(number.trim_start_matches(['-', '+']).starts_with("0.")))
}

/// How a folder of results can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of it is there already, or cannot be written.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Plot(#[from] plot::Error),
}

/// Where a diagnostic writes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    name: String,
    raw: JsonLines,
    existing: Existing,
    /// What was measured, and by whom, for the end of the page.
    facts: Vec<(String, String)>,
}

impl Folder {
    /// Makes the folder if need be, and begins the raw file `<name>.jsonl`. Everything that will be written later, too, is looked at now:
    /// a table that is in the way is not worth an hour.
    pub fn create(
        path: &Path,
        name: &str,
        what: &Map<String, Value>,
        made_by: &Value,
        existing: Existing,
    ) -> Result<Folder, Error> {
        std::fs::create_dir_all(path).map_err(|source| output::Error::Io { path: path.into(), source })?;
        let figures = FIGURES.iter().filter(|(diagnostic, _)| *diagnostic == name);
        let figures = figures.flat_map(|(_, figure)| ["svg", "png", "pdf"].map(|ending| format!("{figure}.{ending}")));
        for file in ["jsonl", "md", "html", "tex"].map(|ending| format!("{name}.{ending}")).into_iter().chain(figures) {
            output::check(&path.join(file), existing)?;
        }
        let header = serde_json::json!({"cofill_diagnose": VERSION, "what": what, "made_by": made_by});
        let raw = JsonLines::create(&path.join(format!("{name}.jsonl")), &header, existing)?;
        Ok(Folder { path: path.into(), name: name.into(), raw, existing, facts: facts(what, made_by) })
    }

    /// Appends a raw line.
    pub fn line(&mut self, line: &impl Serialize) -> Result<(), Error> {
        Ok(self.raw.append(line)?)
    }

    /// Writes a page, tables and figures, at a width, beside the raw file. Gives the files' names.
    pub fn finish(self, diagnosis: &Diagnosis, width: Width) -> Result<Vec<PathBuf>, Error> {
        let mut blocks = diagnosis.document.blocks.clone();
        blocks.extend([Block::Heading("Where this comes from".into()), Block::Facts(self.facts)]);
        let drawn = diagnosis.document.draw()?;
        let mut files = vec![
            (format!("{}.md", self.name), diagnosis.markdown().into_bytes()),
            (format!("{}.html", self.name), html::page(&blocks, &drawn).into_bytes()),
            (format!("{}.tex", self.name), diagnosis.document.latex.to_string().into_bytes()),
        ];
        for figure in diagnosis.document.draw_at(width)? {
            let named = |(ending, bytes): (&str, &[u8])| (format!("{}.{ending}", figure.name), bytes.to_vec());
            files.extend(figure.files().map(named));
        }
        let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        let mut written = vec![self.path.join(format!("{}.jsonl", self.name))];
        written.extend(output::write_all(&self.path, files, self.existing)?);
        Ok(written)
    }
}

/// Who measured what, when: everything that the header of the raw file says, in words.
fn facts(what: &Map<String, Value>, made_by: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut facts = vec![("Measured".to_owned(), utc(SystemTime::now()))];
    let program = [&made_by["version"], &made_by["commit"]].map(text);
    facts.push(("Program".into(), format!("cofill {}, commit {}", program[0], program[1])));
    let machine = &made_by["machine"];
    facts.push(("Machine".into(), ["cpu", "os", "arch"].map(|field| text(&machine[field])).join(", ")));
    for (field, value) in what {
        match value {
            Value::Null => {}
            // Models by name and checksum.
            Value::Object(fields) => {
                facts.extend(fields.iter().map(|(name, value)| (format!("{field}: {name}"), text(value))));
            }
            Value::Array(values) => facts.push((field.clone(), values.iter().map(text).collect::<Vec<_>>().join(", "))),
            value => facts.push((field.clone(), text(value))),
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill_report::statistics::bootstrap::Interval;

    #[test]
    fn numbers_are_printed_as_the_paper_prints_them() {
        let three = |value| three(Some(value));
        assert_eq!([three(0.3581), three(-0.2809), three(1.0), three(-1.0)], [".358", "-.281", "1.000", "-1.000"]);
        assert_eq!([three(-0.0001), three(12.5)], [".000", "12.500"]);
        assert_eq!([signed(Some(0.3251)), signed(Some(-0.02)), signed(None)], ["+.325", "-.020", "—"]);
        let estimate = Estimate { value: 0.36, interval: Interval { low: -0.01, high: 0.5 } };
        assert_eq!(with_interval(Some(estimate)), ".360 [-.010, .500]");
    }
}
