//! A document: headings, paragraphs, tables, and a place for figures, whoever prints them.

pub mod html;
pub mod markdown;

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// The title of a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// Where figures belong.
    Figures,
}

/// Rows under column names.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Names of columns.
    pub head: Vec<String>,
    /// As many fields each.
    pub rows: Vec<Vec<String>>,
    /// How many columns, from the left, are words; the others are numbers.
    pub words: usize,
}
