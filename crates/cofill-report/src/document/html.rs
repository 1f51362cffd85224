//! A document as one page that needs no other file: tables, and figures as inlined SVG.

use super::{Block, DrawnFigure, Table};

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#111;background:#fff}\
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto;max-width:100%}\
th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}th{border-bottom:2px solid #111}\
.w{text-align:left}figure{margin:1em 0;overflow-x:auto}svg{max-width:100%;min-width:36em;height:auto}";

/// The page of these blocks, with these figures.
pub fn page(document: &[Block], figures: &[DrawnFigure]) -> String {
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
            Block::Figures => figures.iter().for_each(|figure| body += &self::figure(&figure.name, &figure.drawn.svg)),
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
    let caption = table.caption.as_ref().map(|caption| format!("<caption>{}</caption>\n", escaped(caption)));
    let caption = caption.unwrap_or_default();
    format!(
        "<table>\n{caption}<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n",
        line(&table.head, "th").trim_end()
    )
}

/// A whole page as a part of another one, such as a cell of a notebook: a frame of its own, `height` pixels high, whose scripts and styles
/// meet nobody else's.
pub fn frame(title: &str, height: usize, page: &str) -> String {
    format!(
        "<iframe title=\"{}\" sandbox=\"allow-scripts\" style=\"width:100%;height:{height}px;border:1px solid \
         #8884;border-radius:6px;resize:vertical\" srcdoc=\"{}\"></iframe>",
        escaped(title),
        escaped(page),
    )
}

/// Text that a browser shows as it is, in content and in quoted attributes. A page may hold tabs and line breaks, but no other control character.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' => safe.push(c),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_element_whatever_it_holds() {
        let frame = frame("\"><b>", 300, "<p title=\"a\">&amp;</p>");
        assert_eq!((frame.matches('<').count(), frame.matches('"').count()), (2, 8));
        assert!(
            frame.contains("srcdoc=\"&lt;p title=&quot;a&quot;&gt;&amp;amp;&lt;/p&gt;\"")
                && frame.contains("height:300px")
        );
    }

    #[test]
    fn nothing_is_markup() {
        assert_eq!(
            escaped("<b a='1' c=\"2\">&amp;\u{1b}\n"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;\u{fffd}\n"
        );
        let table =
            Table { caption: Some("<i>".into()), head: vec!["<th>".into()], rows: vec![vec!["<td>".into()]], words: 1 };
        let page = page(&[Block::Heading("<h>".into()), Block::Table(table)], &[]);
        for text in
            ["<h1>&lt;h&gt;</h1>", "<caption>&lt;i&gt;</caption>", "&lt;th&gt;", "<td class=\"w\">&lt;td&gt;</td>"]
        {
            assert!(page.contains(text), "no {text} in {page}");
        }
    }
}
