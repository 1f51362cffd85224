//! What a report or a diagnostic says, whoever prints it: headings, paragraphs, tables and figures, and the paper's tables as LaTeX.
//!
//! [`markdown`] and [`html`] write the blocks, [`latex`] the paper's tables. Nothing here knows what is told.

pub mod html;
pub mod latex;
pub mod markdown;

use crate::plot::{self, Figure};

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
    /// The figure, as data.
    pub figure: Figure,
}

/// A figure as its files hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnFigure {
    /// The name of its files without folder and ending.
    pub name: String,
    /// The same picture as SVG and as PNG.
    pub drawn: plot::Drawn,
}

/// A caption as its first sentence, which says what is shown, and the rest, which may be nothing.
pub fn first_sentence(caption: &str) -> (&str, &str) {
    match [". ", "? "].iter().filter_map(|end| caption.find(end)).min() {
        Some(end) => (&caption[..=end], caption[end + 1..].trim_start()),
        None => (caption, ""),
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

    /// Draws every figure, as SVG and as PNG.
    pub fn draw(&self) -> Result<Vec<DrawnFigure>, plot::Error> {
        let draw =
            |NamedFigure { name, figure }: &NamedFigure| Ok(DrawnFigure { name: name.clone(), drawn: figure.draw()? });
        self.figures.iter().map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    #[test]
    fn a_caption_begins_with_what_is_shown() {
        assert_eq!(first_sentence("Why? Because. So."), ("Why?", "Because. So."));
        assert_eq!(first_sentence("At most 2.5 forwards. Read."), ("At most 2.5 forwards.", "Read."));
        assert_eq!(first_sentence("All"), ("All", ""));
        assert_eq!(first_sentence("Ends. "), ("Ends.", ""));
    }
}
