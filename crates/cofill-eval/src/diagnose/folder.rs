//! What a diagnostic leaves behind: an answer in tables and numbers, and a folder of files.
//!
//! A diagnostic makes a [`Diagnosis`]; a [`Folder`] keeps it. Raw lines are written as they are measured, so an
//! interrupted run keeps what it had; tables and figures can be made from them at any time.

use cofill_report::document::{Block, Document, NamedFigure, Table, count, html, markdown};
use cofill_report::jsonl::JsonLines;
use cofill_report::output::{self, Existing};
use cofill_report::plot::{self, ENOUGH, Width};
use cofill_report::statistics::bootstrap::Estimate;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

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
    /// Tables first, then notes: what a reader must know, such as who was left out, and why.
    pub(super) fn blocks(tables: Vec<Table>, notes: Vec<String>) -> Vec<Block> {
        tables.into_iter().map(Block::Table).chain(notes.into_iter().map(Block::Text)).collect()
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

    /// Its tables, notes and figure as one page that needs nothing else.
    pub fn html(&self) -> Result<String, plot::Error> {
        let mut blocks = self.document.blocks.clone();
        blocks.push(Block::Figures);
        Ok(html::page(&blocks, &self.document.draw()?))
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
        for file in ["jsonl", "md", "tex"].map(|ending| format!("{name}.{ending}")).into_iter().chain(figures) {
            output::check(&path.join(file), existing)?;
        }
        let header = serde_json::json!({"cofill_diagnose": VERSION, "what": what, "made_by": made_by});
        let raw = JsonLines::create(&path.join(format!("{name}.jsonl")), &header, existing)?;
        Ok(Folder { path: path.into(), name: name.into(), raw, existing })
    }

    /// Appends a raw line.
    pub fn line(&mut self, line: &impl Serialize) -> Result<(), Error> {
        Ok(self.raw.append(line)?)
    }

    /// Writes tables and figures, at a width, beside the raw file. Gives the files' names.
    pub fn finish(self, diagnosis: &Diagnosis, width: Width) -> Result<Vec<PathBuf>, Error> {
        let mut files = vec![
            (format!("{}.md", self.name), diagnosis.markdown().into_bytes()),
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
