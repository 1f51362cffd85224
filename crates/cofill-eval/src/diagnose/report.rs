//! What a diagnostic leaves behind: raw lines, tables for people and for papers, figures.
//!
//! A diagnostic makes a [`Report`]; a [`Folder`] keeps it. Raw lines are written as they are measured, so an
//! interrupted run keeps what it had; tables and figures can be made from them at any time.

use cofill_report::output::{self, Existing, Output};
use cofill_report::plot::{self, Figure};
use cofill_report::statistics::bootstrap::Estimate;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The format of raw files; another number is another format.
pub const VERSION: u64 = 1;

/// What the figures of a diagnostic are called; known before there is anything to draw.
const FIGURES: [(&str, &str); 3] =
    [("intervention", "intervention-scatter"), ("deferral", "deferral-boxes"), ("predicates", "predicates-boxes")];

/// Everything that a diagnostic has to say.
#[derive(Debug, Clone)]
pub struct Report {
    /// In the order they are shown.
    pub tables: Vec<Table>,
    /// What a reader must know: who was left out, and why.
    pub notes: Vec<String>,
    /// The paper's tables with these numbers.
    pub latex: String,
    /// With the names of their files.
    pub figures: Vec<(String, Figure)>,
    /// `--json`.
    pub json: Value,
}

/// Rows under a header. The first columns are words, the others numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// Of every column.
    pub header: Vec<String>,
    /// How many columns are words.
    pub words: usize,
    /// As they are printed.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// Its tables and notes as Markdown, which is what stdout shows.
    pub fn markdown(&self) -> String {
        let mut text = self.tables.iter().map(Table::markdown).collect::<Vec<_>>().join("\n");
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }
}

impl Table {
    /// As Markdown with aligned columns.
    pub fn markdown(&self) -> String {
        let lines = || [&self.header].into_iter().chain(&self.rows);
        let width =
            |i: usize| lines().filter_map(|line| line.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.header.len()).map(|i| width(i).max(3)).collect();
        let mut text = format!("**{}**\n\n", self.title);
        for (n, line) in lines().enumerate() {
            for (i, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                // A bar would end the cell.
                let cell = cell.replace('|', "\\|");
                let _ = match i < self.words {
                    true => write!(text, "| {cell:<width$} "),
                    false => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if n == 0 {
                for (i, &width) in widths.iter().enumerate() {
                    let _ = match i < self.words {
                        true => write!(text, "|{:-<1$}", "", width + 2),
                        false => write!(text, "|{:-<1$}:", "", width + 1),
                    };
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// `.358`, `-.281`: three digits without the zero, as the paper prints correlations; a dash where there is none.
pub fn three(value: Option<f64>) -> String {
    value.map_or_else(|| "—".into(), |value| strip(&format!("{value:.3}")))
}

/// `+.325`.
pub fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "—".into(), |value| strip(&format!("{value:+.3}")))
}

/// `.358 [.312, .403]`.
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

/// A name that LaTeX prints as it is.
pub fn latex_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', c]),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '\\' => safe.push_str("\\textbackslash{}"),
            '—' => safe.push_str("--"),
            c => safe.push(c),
        }
    }
    safe
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
    raw: Output,
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
        let figures = figures.flat_map(|(_, figure)| ["svg", "png"].map(|ending| format!("{figure}.{ending}")));
        for file in ["jsonl", "md", "tex"].map(|ending| format!("{name}.{ending}")).into_iter().chain(figures) {
            output::check(&path.join(file), existing)?;
        }
        let raw = Output::growing(&path.join(format!("{name}.jsonl")), existing)?;
        let mut folder = Folder { path: path.into(), name: name.into(), raw, existing };
        folder.line(&serde_json::json!({"cofill_diagnose": VERSION, "what": what, "made_by": made_by}))?;
        folder.raw.publish()?;
        Ok(folder)
    }

    /// Appends a raw line.
    pub fn line(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let written = cofill_report::results::line(line).and_then(|line| self.raw.write_all(&line));
        Ok(written.map_err(|source| self.raw.failed(source))?)
    }

    /// Writes tables and figures beside the raw file. Gives the files' names.
    pub fn finish(self, report: &Report) -> Result<Vec<PathBuf>, Error> {
        let mut files = vec![
            (format!("{}.md", self.name), report.markdown().into_bytes()),
            (format!("{}.tex", self.name), report.latex.clone().into_bytes()),
        ];
        for (name, figure) in &report.figures {
            let drawn = figure.draw()?;
            files.push((format!("{name}.svg"), drawn.svg.into_bytes()));
            files.push((format!("{name}.png"), drawn.png));
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

    #[test]
    fn columns_are_aligned_and_bars_escaped() {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let table = Table {
            title: "T".into(),
            header: words(&["task", "n"]),
            words: 1,
            rows: vec![words(&["a|b", "10"]), words(&["sudoku", "9"])],
        };
        let want = "**T**\n\n| task   |   n |\n|--------|----:|\n| a\\|b   |  10 |\n| sudoku |   9 |\n";
        assert_eq!(table.markdown(), want);
    }

    #[test]
    fn names_are_safe_in_latex() {
        assert_eq!(latex_text(r"a_b & 5% {\x}"), r"a\_b \& 5\% \{\textbackslash{}x\}");
    }
}
