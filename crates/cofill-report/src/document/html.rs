//! A document as one page that needs no other file: a summary, contents, tables that fold, and figures as inlined SVG. No scripts; nothing is
//! fetched, whatever a name in the results asks for.

use super::{Block, DrawnFigure, Table, count, first_sentence};
use cofill_tasks::data::sha256;
use std::collections::BTreeSet;

const STYLE: &str = include_str!("page.css");

/// Cells with more letters than this may break their line.
const LONG: usize = 48;

/// The page of these blocks, with these figures.
pub fn page(document: &[Block], figures: &[DrawnFigure]) -> String {
    let (title, blocks) = match document {
        [Block::Heading(title), rest @ ..] => (title.as_str(), rest),
        all => ("Report", all),
    };
    let mut writer = Writer { figures, body: String::new(), anchors: BTreeSet::new(), sections: Vec::new() };
    writer.blocks(blocks, Place::Page);
    let Writer { body, sections, .. } = writer;
    let close = if sections.is_empty() { "" } else { "</section>\n" };
    // A page of two sections is seen at a glance.
    let (class, contents) = match sections.len() {
        0..=2 => ("", String::new()),
        _ => (" class=\"contents\"", contents(&sections)),
    };
    let (title, policy) = (escaped(title), policy(None));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         {policy}<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body{class}>\n<header><h1>{title}</h1></header>\n{contents}<main>\n\
         {body}{close}</main>\n</body>\n</html>\n"
    )
}

/// The line that lets a page fetch nothing and run nothing but its one script, if it has one: whatever a text in it asks for.
pub fn policy(script: Option<&str>) -> String {
    let script = script.map_or_else(String::new, |script| format!("; script-src 'sha256-{}'", base64_sha256(script)));
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{script}\">\n"
    )
}

/// The checksum of a script as browsers compute it.
fn base64_sha256(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hex = sha256(text.as_bytes());
    let bits: Vec<bool> = hex
        .chars()
        .flat_map(|digit| {
            let value = digit.to_digit(16).unwrap_or(0);
            (0..4).rev().map(move |bit| value >> bit & 1 == 1)
        })
        .collect();
    // 256 bits are 43 letters of 6, the last of which is filled up with zeros, and one sign for what is missing to a group of four.
    let letter = |bits: &[bool]| (0..6).fold(0, |value, i| 2 * value + usize::from(bits.get(i) == Some(&true)));
    bits.chunks(6).map(|bits| char::from(LETTERS[letter(bits)])).chain(['=']).collect()
}

/// Links to all sections.
fn contents(sections: &[(String, String)]) -> String {
    let link = |(anchor, title): &(String, String)| format!("<li><a href=\"#{anchor}\">{}</a></li>\n", escaped(title));
    let links: String = sections.iter().map(link).collect();
    format!("<nav aria-label=\"Contents\">\n<p>Contents</p>\n<ol>\n{links}</ol>\n</nav>\n")
}

/// Where blocks stand.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Page,
    Fold,
}

/// A page that grows block by block.
struct Writer<'a> {
    figures: &'a [DrawnFigure],
    body: String,
    anchors: BTreeSet<String>,
    /// Anchors and titles.
    sections: Vec<(String, String)>,
}

impl Writer<'_> {
    fn blocks(&mut self, blocks: &[Block], place: Place) {
        for (i, block) in blocks.iter().enumerate() {
            match block {
                Block::Heading(title) if place == Place::Page => self.section(title),
                Block::Heading(title) => self.body += &format!("<h3>{}</h3>\n", escaped(title)),
                Block::Text(text) => {
                    // The first words of a page say what it is about.
                    let first = i == 0 && place == Place::Page;
                    let class = match (first, text.starts_with("Warning: ")) {
                        (_, true) => " class=\"warning\"",
                        (true, false) => " class=\"lead\"",
                        (false, false) => "",
                    };
                    self.body += &format!("<p{class}>{}</p>\n", inline(text));
                }
                Block::List(items) => {
                    let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item)));
                    self.body += &format!("<ul>\n{}</ul>\n", items.collect::<String>());
                }
                Block::Facts(facts) => {
                    let facts = facts
                        .iter()
                        .map(|(term, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(term), escaped(value)));
                    self.body += &format!("<dl>\n{}</dl>\n", facts.collect::<String>());
                }
                Block::Table(table) => self.body += &html_table(table),
                Block::Figure { name, caption } => {
                    if let Some(drawn) = self.figures.iter().find(|figure| figure.name == *name) {
                        self.body += &figure(name, caption, &drawn.drawn.svg);
                    }
                }
                Block::Fold { title, blocks } => {
                    let rows = rows(blocks).map_or_else(String::new, |rows| format!(" <small>{rows}</small>"));
                    self.body +=
                        &format!("<details>\n<summary>{}{rows}</summary>\n<div class=\"inside\">\n", escaped(title));
                    self.blocks(blocks, Place::Fold);
                    self.body += "</div>\n</details>\n";
                }
            }
        }
    }

    fn section(&mut self, title: &str) {
        if !self.sections.is_empty() {
            self.body += "</section>\n";
        }
        let anchor = self.anchor(title);
        self.body += &format!("<section id=\"{anchor}\">\n<h2>{}</h2>\n", escaped(title));
        self.sections.push((anchor, title.to_owned()));
    }

    /// A name for links that no other section has: letters and digits of the title.
    fn anchor(&mut self, title: &str) -> String {
        let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let stem = format!("s-{}", words.collect::<Vec<_>>().join("-").to_lowercase());
        let mut anchor = stem.clone();
        let mut n = 2;
        while !self.anchors.insert(anchor.clone()) {
            anchor = format!("{stem}-{n}");
            n += 1;
        }
        anchor
    }
}

/// What a reader finds behind a fold: `12 rows`.
fn rows(blocks: &[Block]) -> Option<String> {
    let rows =
        blocks.iter().filter_map(|block| if let Block::Table(table) = block { Some(table.rows.len()) } else { None });
    let rows: usize = rows.sum();
    (rows > 0).then(|| count(rows, "row"))
}

/// An SVG that scales with the page: it comes with a fixed size and a view box, and the style sheet overrides the first.
fn figure(name: &str, caption: &str, svg: &str) -> String {
    format!(
        "<figure class=\"drawn\">\n<div class=\"scroll\" role=\"img\" aria-label=\"{}\" tabindex=\"0\">\n{}\n</div>\n{}</figure>\n",
        escaped(name),
        svg.trim(),
        figcaption(caption),
    )
}

fn figcaption(caption: &str) -> String {
    let (what, how) = first_sentence(caption);
    let how = if how.is_empty() { String::new() } else { format!(" {}", inline(how)) };
    format!("<figcaption><b>{}</b>{how}</figcaption>\n", inline(what))
}

fn html_table(table: &Table) -> String {
    let line = |row: &[String], tag: &str| {
        let field = |(i, field): (usize, &String)| {
            let long = tag == "td" && field.chars().count() > LONG;
            let class = match (i < table.words, long) {
                (true, true) => " class=\"w long\"",
                (true, false) => " class=\"w\"",
                (false, true) => " class=\"long\"",
                (false, false) => "",
            };
            let scope = if tag == "th" { " scope=\"col\"" } else { "" };
            format!("<{tag}{class}{scope}>{}</{tag}>", escaped(field))
        };
        format!("<tr>{}</tr>\n", row.iter().enumerate().map(field).collect::<String>())
    };
    let rows: String = table.rows.iter().map(|row| line(row, "td")).collect();
    // Outside of the table, so that it does not scroll with it.
    let caption = table.caption.as_deref().map(figcaption).unwrap_or_default();
    format!(
        "<figure class=\"rows\">\n{caption}<div class=\"scroll\" tabindex=\"0\">\n<table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n</div>\n</figure>\n",
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

/// A sentence, with what stands between backticks as code. An odd one stays what it is.
fn inline(text: &str) -> String {
    let escaped = escaped(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    let mut html = String::with_capacity(escaped.len());
    for (i, part) in parts.iter().enumerate() {
        // The text behind a backtick that has no partner is the last part.
        match (i % 2 == 1, i + 1 < parts.len()) {
            (true, true) => html += &format!("<code>{part}</code>"),
            (true, false) => html += &format!("`{part}"),
            (false, _) => html += part,
        }
    }
    html
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
    fn a_script_is_known_by_its_checksum() {
        // The published SHA-256 of nothing and of `abc`, in base64.
        assert_eq!(base64_sha256(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!(base64_sha256("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }

    #[test]
    fn nothing_is_markup() {
        assert_eq!(
            escaped("<b a='1' c=\"2\">&amp;\u{1b}\n"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;\u{fffd}\n"
        );
        let table = Table {
            caption: Some("<i>. <u>".into()),
            head: vec!["<th>".into()],
            rows: vec![vec!["<td>".into()]],
            words: 1,
        };
        let fold = Block::Fold { title: "<fold>".into(), blocks: vec![Block::Table(table)] };
        let blocks = [
            Block::Heading("<h>".into()),
            Block::Text("<p>".into()),
            Block::List(vec!["<li>".into()]),
            Block::Facts(vec![("<dt>".into(), "<dd>".into())]),
            Block::Heading("\"><a>".into()),
            fold,
        ];
        let page = page(&blocks, &[]);
        for text in [
            "<h1>&lt;h&gt;</h1>",
            "<p class=\"lead\">&lt;p&gt;</p>",
            "<li>&lt;li&gt;</li>",
            "<dt>&lt;dt&gt;</dt><dd>&lt;dd&gt;</dd>",
            "<section id=\"s-a\">\n<h2>&quot;&gt;&lt;a&gt;</h2>",
            "<summary>&lt;fold&gt; <small>1 row</small></summary>",
            "<figcaption><b>&lt;i&gt;.</b> &lt;u&gt;</figcaption>",
            "&lt;th&gt;",
            "<td class=\"w\">&lt;td&gt;</td>",
        ] {
            assert!(page.contains(text), "no {text} in {page}");
        }
    }

    #[test]
    fn a_command_in_a_sentence_is_code() {
        assert_eq!(inline("`a` and `b<c`."), "<code>a</code> and <code>b&lt;c</code>.");
        assert_eq!(inline("a ` alone"), "a ` alone");
        assert_eq!(inline("`a` and ` alone"), "<code>a</code> and ` alone");
        assert_eq!(inline("none"), "none");
        assert!(page(&[Block::Heading("T".into()), Block::Text("`x`".into())], &[]).contains("<code>x</code>"));
    }

    #[test]
    fn contents_lead_to_every_section_though_titles_are_alike() {
        let titles = ["A b", "a-b", "ü", "a b?"];
        let mut blocks = vec![Block::Heading("T".into())];
        blocks.extend(titles.map(|title| Block::Heading(title.into())));
        let page = page(&blocks, &[]);
        for anchor in ["s-a-b", "s-a-b-2", "s-", "s-a-b-3"] {
            assert_eq!(page.matches(&format!("href=\"#{anchor}\"")).count(), 1, "{page}");
            assert_eq!(page.matches(&format!("id=\"{anchor}\"")).count(), 1, "{page}");
        }
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
        // A short page has none.
        assert!(!super::page(&blocks[..3], &[]).contains("<nav"));
    }
}
