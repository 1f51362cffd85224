//! A document as Markdown whose tables are readable as they stand.

use super::{Block, Table};

/// For a terminal: without figures.
pub fn markdown(document: &[Block]) -> String {
    with_figures(document, &[])
}

/// For a file beside `figures/`.
pub fn with_figures(document: &[Block], figures: &[&str]) -> String {
    let mut parts = Vec::new();
    for (i, block) in document.iter().enumerate() {
        match block {
            Block::Heading(title) => parts.push(format!("{} {title}\n", if i == 0 { "#" } else { "##" })),
            Block::Text(text) => parts.push(format!("{text}\n")),
            Block::Table(table) => parts.push(aligned(table)),
            Block::Figures => parts.extend(figures.iter().map(|name| format!("![{name}](figures/{name}.svg)\n"))),
        }
    }
    parts.join("\n")
}

/// Columns padded to their widest field, numbers to the right.
fn aligned(table: &Table) -> String {
    // A bar would end the field.
    let escaped = |row: &Vec<String>| row.iter().map(|field| field.replace('|', "\\|")).collect();
    let (head, words) = (escaped(&table.head), table.words);
    let table = Table { head, rows: table.rows.iter().map(escaped).collect(), words };
    let width = |column: usize| {
        let fields = table.rows.iter().map(|row| &row[column]).chain([&table.head[column]]);
        fields.map(|field| field.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let line = |row: &[String]| {
        let field = |(i, field): (usize, &String)| match i < table.words {
            true => format!("{field:<0$}", widths[i]),
            false => format!("{field:>0$}", widths[i]),
        };
        format!("| {} |\n", row.iter().enumerate().map(field).collect::<Vec<_>>().join(" | "))
    };
    let dashes = widths.iter().enumerate().map(|(i, width)| match i < table.words {
        true => "-".repeat(*width),
        false => "-".repeat(width - 1) + ":",
    });
    let dashes: Vec<String> = dashes.collect();
    line(&table.head) + &line(&dashes) + &table.rows.iter().map(|row| line(row)).collect::<String>()
}
