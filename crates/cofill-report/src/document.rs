//! What a report or a diagnostic says, whoever prints it: headings, paragraphs, tables and figures, and the paper's tables as LaTeX.
//!
//! [`markdown`] and [`html`] write the blocks, [`latex`] the paper's tables. Nothing here knows what is told.

pub mod html;
pub mod latex;
pub mod markdown;

use crate::plot::{self, Figure, Mark, Panel, Width};

/// A report or a diagnostic in all its forms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// For people, in the order they are read.
    pub blocks: Vec<Block>,
    /// For papers: the published tables with these numbers.
    pub latex: latex::Tables,
    /// Drawn where a [`Block::Figure`] names them, and as files.
    pub figures: Vec<NamedFigure>,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// The title of a section; that of the whole, if it is the first block.
    Heading(String),
    /// A paragraph of plain text.
    Text(String),
    /// Sentences, each on its own.
    List(Vec<String>),
    /// Terms and what they are here.
    Facts(Vec<(String, String)>),
    /// Rows under the names of columns.
    Table(Table),
    /// The place of a figure.
    Figure {
        /// The name of a [`NamedFigure`]; where that is not drawn, nothing stands here.
        name: String,
        /// What it shows in its first sentence, then how to read it.
        caption: String,
    },
    /// What not every reader wants to see: behind its title on a page, a section below the last elsewhere.
    Fold {
        /// What opens it.
        title: String,
        /// What is inside.
        blocks: Vec<Block>,
    },
}

/// Rows under the names of columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Above it: what it shows in the first sentence, then how to read it.
    pub caption: Option<String>,
    /// The names of the columns.
    pub head: Vec<String>,
    /// As many fields in each row as there are columns.
    pub rows: Vec<Vec<String>>,
    /// How many columns, from the left, are words; the others are numbers.
    pub words: usize,
}

/// A figure and the name of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFigure {
    /// The name of its files without folder and ending.
    pub name: String,
    /// What a reader must know to read it: a few sentences of plain text.
    pub caption: String,
    /// The figure, as data.
    pub figure: Figure,
}

/// A figure as its files hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnFigure {
    /// The name of its files without folder and ending.
    pub name: String,
    /// What a reader must know to read it.
    pub caption: String,
    /// The same picture as SVG, PNG and PDF.
    pub drawn: plot::Drawn,
}

/// A caption as its first sentence, which says what is shown, and the rest, which may be nothing.
pub fn first_sentence(caption: &str) -> (&str, &str) {
    match [". ", "? "].iter().filter_map(|end| caption.find(end)).min() {
        Some(end) => (&caption[..=end], caption[end + 1..].trim_start()),
        None => (caption, ""),
    }
}

impl NamedFigure {
    /// Its place in a document.
    pub fn block(&self) -> Block {
        Block::Figure { name: self.name.clone(), caption: self.caption.clone() }
    }
}

impl DrawnFigure {
    /// Its files, by the ending of their names.
    pub fn files(&self) -> [(&'static str, &[u8]); 3] {
        [("svg", self.drawn.svg.as_bytes()), ("png", &self.drawn.png), ("pdf", &self.drawn.pdf)]
    }
}

/// `1 token`, `2 tokens`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

impl Document {
    /// Adds a remark: a paragraph at the end, and a comment before the LaTeX tables, which would not say it by themselves.
    pub fn remark(&mut self, remark: &str) {
        self.blocks.push(Block::Text(remark.into()));
        self.latex.preamble.insert(0, format!("% {remark}"));
    }

    /// Draws every figure for a screen, as SVG, PNG and PDF.
    pub fn draw(&self) -> Result<Vec<DrawnFigure>, plot::Error> {
        self.draw_at(Width::Screen)
    }

    /// Draws every figure at a width.
    pub fn draw_at(&self, width: Width) -> Result<Vec<DrawnFigure>, plot::Error> {
        let draw = |NamedFigure { name, caption, figure }: &NamedFigure| {
            Ok(DrawnFigure { name: name.clone(), caption: caption.clone(), drawn: figure.draw_at(width)? })
        };
        self.figures.iter().map(draw).collect()
    }

    /// Keeps the panels of this name alone. A name is that of a panel (`chain`), or several with slashes between them, in any order: the
    /// figure or the end of its name, a panel, a series (`tiny-llada/chain/Top-k`). Refuses a name that no panel has.
    pub fn keep_panel(&mut self, name: &str) -> Result<(), UnknownPanel> {
        let parts: Vec<String> = name.split('/').map(|part| part.trim().to_lowercase()).collect();
        let kept: Vec<NamedFigure> = self.figures.iter().filter_map(|figure| figure.only(&parts)).collect();
        if kept.is_empty() {
            return Err(UnknownPanel::of(name, &self.figures));
        }
        self.figures = kept;
        Ok(())
    }
}

impl NamedFigure {
    /// The figure with the panels that all of these names are names of.
    fn only(&self, names: &[String]) -> Option<NamedFigure> {
        let own = self.name.to_lowercase();
        let is_own = |name: &str| own == name || own.ends_with(&format!("-{name}"));
        let has = |panel: &Panel, name: &String| {
            let series = |mark: &Mark| matches!(mark, Mark::Dots { label, .. } if label.to_lowercase() == *name);
            panel.title.to_lowercase() == *name || is_own(name) || panel.marks.iter().any(series)
        };
        let figure = self.figure.only(|panel| names.iter().all(|name| has(panel, name)))?;
        Some(NamedFigure { name: self.name.clone(), caption: self.caption.clone(), figure })
    }
}

/// No panel has this name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("no panel is called `{name}`; {known}")]
pub struct UnknownPanel {
    name: String,
    /// Every panel there is, by figure.
    known: String,
}

impl UnknownPanel {
    fn of(name: &str, figures: &[NamedFigure]) -> UnknownPanel {
        let list = |NamedFigure { name, figure, .. }: &NamedFigure| {
            let mut titles: Vec<&str> = Vec::new();
            for panel in figure.rows.iter().flat_map(|row| &row.panels) {
                if !titles.contains(&panel.title.as_str()) {
                    titles.push(&panel.title);
                }
            }
            format!("{name} has {}", titles.join(", "))
        };
        let known = match figures.is_empty() {
            true => "there are no figures".into(),
            false => figures.iter().map(list).collect::<Vec<_>>().join("; "),
        };
        UnknownPanel { name: name.into(), known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Dot, LOOKS, Row, Scale};

    fn document() -> Document {
        let panel = |title: &str, label: &str| {
            let dots = vec![Dot { x: 1.0, y: 1.0, error: None }];
            let axis = || Axis::around("", Scale::Linear, [1.0]);
            let marks = vec![Mark::Dots { label: label.into(), look: LOOKS[0], dots, joined: true }];
            Panel { title: title.into(), x: axis(), y: axis(), marks }
        };
        let row =
            |label: &str| Row { title: String::new(), panels: ["chain", "sums"].map(|task| panel(task, label)).into() };
        let figure = |name: &str| NamedFigure {
            name: name.into(),
            caption: String::new(),
            figure: Figure { title: String::new(), rows: vec![row("Top-k"), row("KLASS")], panel: (100, 100) },
        };
        Document { figures: vec![figure("tradeoff-tiny-llada"), figure("tradeoff-tiny-dream")], ..Document::default() }
    }

    /// How many panels are left, by figure.
    fn kept(name: &str) -> Vec<usize> {
        let mut document = document();
        document.keep_panel(name).unwrap();
        document.figures.iter().map(|named| named.figure.rows.iter().map(|row| row.panels.len()).sum()).collect()
    }

    #[test]
    fn a_panel_is_found_by_any_of_its_names() {
        assert_eq!(kept("chain"), [2, 2]);
        assert_eq!(kept("Chain/top-k"), [1, 1]);
        assert_eq!(kept("tiny-llada/chain/KLASS"), [1]);
        assert_eq!(kept("chain/tradeoff-tiny-dream"), [2]);
    }

    #[test]
    fn an_unknown_panel_is_refused_with_those_there_are() {
        let error = document().keep_panel("chian").unwrap_err().to_string();
        assert_eq!(
            error,
            "no panel is called `chian`; tradeoff-tiny-llada has chain, sums; tradeoff-tiny-dream has chain, sums"
        );
        assert!(document().keep_panel("chain/sums").is_err(), "no panel is both");
        assert!(Document::default().keep_panel("a").unwrap_err().to_string().ends_with("there are no figures"));
    }

    #[test]
    fn a_caption_begins_with_what_is_shown() {
        assert_eq!(first_sentence("Why? Because. So."), ("Why?", "Because. So."));
        assert_eq!(first_sentence("At most 2.5 forwards. Read."), ("At most 2.5 forwards.", "Read."));
        assert_eq!(first_sentence("All"), ("All", ""));
        assert_eq!(first_sentence("Ends. "), ("Ends.", ""));
    }
}
