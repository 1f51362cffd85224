//! A document as one page that needs no other file: tables, and figures as inlined SVG.

use super::{Block, Table};

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#111;background:#fff}\
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\
th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}th{border-bottom:2px solid #111}\
.w{text-align:left}svg{max-width:100%;height:auto;margin:1em 0}";

/// The page; `figures` are names and SVG.
pub fn page(document: &[Block], figures: &[(String, String)]) -> String {
    let title =
        document.iter().find_map(|block| if let Block::Heading(title) = block { Some(title.as_str()) } else { None });
    let title = escaped(title.unwrap_or("Report"));
    let mut body = String::new();
    for (i, block) in document.iter().enumerate() {
        match block {
            Block::Heading(text) if i == 0 => body += &format!("<h1>{}</h1>\n", escaped(text)),
            Block::Heading(text) => body += &format!("<h2>{}</h2>\n", escaped(text)),
            Block::Text(text) => body += &format!("<p>{}</p>\n", escaped(text)),
            Block::Table(table) => body += &html_table(table),
            Block::Figures => figures.iter().for_each(|(name, svg)| body += &figure(name, svg)),
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n{body}</html>\n"
    )
}

/// An SVG that scales with the page: plotters gives it a fixed size and a view box, and the style sheet overrides the first.
fn figure(name: &str, svg: &str) -> String {
    format!("<figure role=\"img\" aria-label=\"{}\">\n{}\n</figure>\n", escaped(name), svg.trim())
}

fn html_table(table: &Table) -> String {
    let line = |row: &[String], tag: &str| {
        let field = |(i, field): (usize, &String)| {
            let class = if i < table.words { " class=\"w\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(field))
        };
        format!("<tr>{}</tr>\n", row.iter().enumerate().map(field).collect::<String>())
    };
    let rows: String = table.rows.iter().map(|row| line(row, "td")).collect();
    format!("<table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n", line(&table.head, "th").trim_end())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
