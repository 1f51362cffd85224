//! A document as Markdown whose tables are readable as they stand.

use super::{Block, Table, first_sentence};

/// The blocks for a terminal: without figures.
pub fn markdown(document: &[Block]) -> String {
    with_figures(document, &[])
}

/// The blocks for a file beside the folder `figures/`, which has figures of these names.
pub fn with_figures(document: &[Block], figures: &[&str]) -> String {
    let mut parts = Vec::new();
    for (i, block) in document.iter().enumerate() {
        match block {
            Block::Heading(title) if i == 0 => parts.push(format!("# {title}\n")),
            block => write(&mut parts, block, figures),
        }
    }
    parts.join("\n")
}

fn write(parts: &mut Vec<String>, block: &Block, figures: &[&str]) {
    match block {
        Block::Heading(title) => parts.push(format!("## {title}\n")),
        Block::Text(text) => parts.push(format!("{text}\n")),
        Block::List(items) => parts.push(items.iter().map(|item| format!("- {item}\n")).collect()),
        Block::Facts(facts) => {
            parts.push(facts.iter().map(|(term, value)| format!("- **{term}**: {value}\n")).collect());
        }
        Block::Table(table) => parts.push(aligned(table)),
        Block::Figure { name, caption } if figures.contains(&name.as_str()) => {
            parts.push(format!("![{name}](figures/{name}.svg)\n"));
            parts.push(format!("*{caption}*\n"));
        }
        Block::Figure { .. } => {}
        Block::Fold { title, blocks } => {
            parts.push(format!("### {title}\n"));
            blocks.iter().for_each(|block| write(parts, block, figures));
        }
    }
}

/// A table under its caption; columns padded to their widest field, numbers to the right.
fn aligned(table: &Table) -> String {
    // A bar would end the field.
    let escaped = |row: &Vec<String>| row.iter().map(|field| field.replace('|', "\\|")).collect();
    let caption = table.caption.as_ref().map(|caption| {
        let (what, how) = first_sentence(caption);
        format!("{}\n\n", format!("**{what}** {how}").trim_end())
    });
    let caption = caption.unwrap_or_default();
    let (head, words) = (escaped(&table.head), table.words);
    let table = Table { caption: None, head, rows: table.rows.iter().map(escaped).collect(), words };
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
    caption + &line(&table.head) + &line(&dashes) + &table.rows.iter().map(|row| line(row)).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_bars_escaped() {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let rows = vec![words(&["a|b|c|d", "10"]), words(&["sudoku", "9"])];
        let table = Table { caption: Some("T".into()), head: words(&["task", "n"]), words: 1, rows };
        let text = markdown(&[Block::Text("before".into()), Block::Table(table), Block::Text("after".into())]);
        // What is escaped is as wide as it is written.
        let want = "before\n\n**T**\n\n| task       |   n |\n| ---------- | --: |\n| a\\|b\\|c\\|d |  10 |\n| sudoku     |   9 |\n\nafter\n";
        assert_eq!(text, want);
    }
}
