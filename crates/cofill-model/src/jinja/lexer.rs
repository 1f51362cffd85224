//! Text and tags, and the words inside tags.
//!
//! White space around tags goes as in Jinja2 with `trim_blocks` and `lstrip_blocks`: a block or a comment that stands alone takes
//! its indentation and its line break with it, `-` takes all white space on its side, `+` keeps everything.

use super::{Problem, Result, shortened};
use std::sync::Arc;

/// A piece of a template.
#[derive(Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) kind: PieceKind,
}

#[derive(Debug, PartialEq)]
pub(super) enum PieceKind {
    Text(String),
    /// `{{ ... }}`
    Value(Vec<Word>),
    /// `{% ... %}`
    Block(Vec<Word>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    Name(Arc<str>),
    Text(String),
    Int(i64),
    Float(f64),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longest first, so that `//` is not two `/`.
const SIGNS: [&str; 26] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",",
    ".", ":", "|", ";",
];

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Value,
    Block,
    Comment,
}

impl Tag {
    fn ends(self) -> &'static str {
        match self {
            Tag::Value => "}}",
            Tag::Block => "%}",
            Tag::Comment => "#}",
        }
    }
}

/// Cuts a template into text and tags.
pub(super) fn pieces(source: &str) -> Result<Vec<Piece>> {
    // Jinja2 knows only `\n`, and the last line break of a template is not part of it.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut cutter = Cutter { source, at: 0, line: 1, line_starting: true, pieces: Vec::new() };
    cutter.run()?;
    Ok(cutter.pieces)
}

struct Cutter<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether what came before ended with a line break.
    line_starting: bool,
    pieces: Vec<Piece>,
}

impl<'a> Cutter<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Moves on by `n` bytes.
    fn advance(&mut self, n: usize) {
        self.line += self.rest()[..n].matches('\n').count();
        self.at += n;
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Problem { message: message.into(), line: self.line })
    }

    fn run(&mut self) -> Result<()> {
        while let Some((start, tag)) = next_tag(self.rest()) {
            let text = &self.rest()[..start];
            let sign = self.rest()[start + 2..].chars().next().filter(|c| matches!(c, '-' | '+'));
            let kept = self.before_tag(text, tag, sign);
            self.push_text(kept);
            self.advance(start + 2 + sign.map_or(0, char::len_utf8));
            match tag {
                Tag::Comment => self.comment()?,
                _ if tag == Tag::Block && word_after(self.rest(), "raw").is_some() => self.raw()?,
                _ => self.tag(tag)?,
            }
        }
        let rest = self.rest();
        self.push_text(rest);
        Ok(())
    }

    /// What stays of the text before a tag.
    fn before_tag(&self, text: &'a str, tag: Tag, sign: Option<char>) -> &'a str {
        if sign == Some('-') {
            return text.trim_end();
        }
        if sign == Some('+') || tag == Tag::Value {
            return text;
        }
        let line = text.rfind('\n').map(|at| at + 1);
        match line.or(self.line_starting.then_some(0)) {
            Some(start) if text[start..].chars().all(char::is_whitespace) => &text[..start],
            _ => text,
        }
    }

    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Piece { line: self.line, kind: PieceKind::Text(text.into()) });
        }
    }

    /// Everything up to `#}`.
    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest().find("#}") else { return self.fail("a comment `{#` has no `#}`") };
        let sign = self.rest()[..end].chars().next_back().filter(|c| matches!(c, '-' | '+'));
        self.advance(end + 2);
        self.after_tag(Tag::Comment, sign);
        Ok(())
    }

    /// `{% raw %}...{% endraw %}` is text.
    fn raw(&mut self) -> Result<()> {
        let Some((sign, after)) = word_after(self.rest(), "raw").and_then(closed) else {
            return self.fail("`raw` takes no arguments");
        };
        self.advance(self.rest().len() - after.len());
        let before = self.at;
        if sign == Some('-') {
            self.skip_space();
        }
        self.line_starting = self.source[before..self.at].ends_with('\n');
        let mut from = 0;
        while let Some(start) = self.rest()[from..].find("{%").map(|at| from + at) {
            let inside = &self.rest()[start + 2..];
            let opening = inside.chars().next().filter(|c| matches!(c, '-' | '+'));
            let inside = &inside[opening.map_or(0, char::len_utf8)..];
            let Some((closing, after)) = word_after(inside, "endraw").and_then(closed) else {
                from = start + 2;
                continue;
            };
            let kept = self.before_tag(&self.rest()[..start], Tag::Block, opening);
            self.push_text(kept);
            self.advance(self.rest().len() - after.len());
            self.after_tag(Tag::Block, closing);
            return Ok(());
        }
        self.fail("`raw` has no `endraw`")
    }

    fn after_tag(&mut self, tag: Tag, sign: Option<char>) {
        let before = self.at;
        match sign {
            Some('-') => self.skip_space(),
            None if tag != Tag::Value && self.rest().starts_with('\n') => self.advance(1),
            _ => {}
        }
        self.line_starting = self.source[before..self.at].ends_with('\n');
    }

    fn skip_space(&mut self) {
        let space = self.rest().len() - self.rest().trim_start().len();
        self.advance(space);
    }

    /// The words of a tag.
    fn tag(&mut self, tag: Tag) -> Result<()> {
        let line = self.line;
        let (mut words, mut open) = (Vec::new(), 0usize);
        loop {
            self.skip_space();
            let rest = self.rest();
            // Inside brackets, `}}` closes two of them.
            if open == 0 {
                let (sign, end) = match rest.chars().next() {
                    Some(sign @ ('-' | '+')) if rest[1..].starts_with(tag.ends()) => (Some(sign), 3),
                    _ if rest.starts_with(tag.ends()) => (None, 2),
                    _ => (None, 0),
                };
                if end > 0 {
                    self.advance(end);
                    self.after_tag(tag, sign);
                    break;
                }
            }
            let Some(first) = rest.chars().next() else {
                return self.fail(format!("a tag that starts in line {line} has no `{}`", tag.ends()));
            };
            let (word, length) = match first {
                '"' | '\'' => self.string(first)?,
                '0'..='9' => self.number()?,
                _ if first.is_alphabetic() || first == '_' => {
                    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                    (Word::Name(rest[..end].into()), end)
                }
                _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                    Some(sign) => (Word::Sign(sign), sign.len()),
                    None => return self.fail(format!("`{}` has no meaning here", first.escape_debug())),
                },
            };
            match word {
                Word::Sign("(" | "[" | "{") => open += 1,
                Word::Sign(")" | "]" | "}") => match open.checked_sub(1) {
                    Some(less) => open = less,
                    None => return self.fail(format!("`{first}` closes no bracket")),
                },
                _ => {}
            }
            words.push(word);
            self.advance(length);
        }
        let kind = if tag == Tag::Value { PieceKind::Value(words) } else { PieceKind::Block(words) };
        self.pieces.push(Piece { line, kind });
        Ok(())
    }

    fn number(&self) -> Result<(Word, usize)> {
        let rest = self.rest();
        let digits = |from: usize| {
            let digits = |c: char| c.is_ascii_digit() || c == '_';
            rest[from..].find(|c: char| !digits(c)).map_or(rest.len(), |at| from + at)
        };
        let (mut end, mut whole) = (digits(0), true);
        if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
            (end, whole) = (digits(end + 1), false);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            if rest[end + 1 + sign..].starts_with(|c: char| c.is_ascii_digit()) {
                (end, whole) = (digits(end + 1 + sign), false);
            }
        }
        let text = rest[..end].replace('_', "");
        let word = if whole { text.parse().map(Word::Int).ok() } else { text.parse().map(Word::Float).ok() };
        match word {
            Some(word) => Ok((word, end)),
            None => self.fail(format!("`{}` is no number that a template may use", shortened(&text))),
        }
    }

    fn string(&self, quote: char) -> Result<(Word, usize)> {
        let rest = self.rest();
        let (mut text, mut chars) = (String::new(), rest.char_indices().skip(1));
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => return Ok((Word::Text(text), at + 1)),
                '\\' => {
                    let Some((_, escaped)) = chars.next() else { break };
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'a' => text.push('\u{7}'),
                        'b' => text.push('\u{8}'),
                        'f' => text.push('\u{c}'),
                        'v' => text.push('\u{b}'),
                        '0' => text.push('\0'),
                        '\n' => {}
                        '\\' | '\'' | '"' => text.push(escaped),
                        'x' | 'u' | 'U' => {
                            let n = match escaped {
                                'x' => 2,
                                'u' => 4,
                                _ => 8,
                            };
                            let digits: String = chars.by_ref().take(n).map(|(_, c)| c).collect();
                            let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == n);
                            match code.and_then(char::from_u32) {
                                Some(c) => text.push(c),
                                None => {
                                    return self
                                        .fail(format!("`\\{escaped}{}` is no character", digits.escape_debug()));
                                }
                            }
                        }
                        // As in Python, what is no escape is a backslash.
                        other => text.extend(['\\', other]),
                    }
                }
                c => text.push(c),
            }
        }
        self.fail("a text in quotes has no end")
    }
}

/// Where the next tag starts.
fn next_tag(text: &str) -> Option<(usize, Tag)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('{').map(|at| from + at) {
        match text.as_bytes().get(at + 1) {
            Some(b'{') => return Some((at, Tag::Value)),
            Some(b'%') => return Some((at, Tag::Block)),
            Some(b'#') => return Some((at, Tag::Comment)),
            _ => from = at + 1,
        }
    }
    None
}

/// What follows `word`, if the text starts with it.
fn word_after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let after = text.trim_start().strip_prefix(word)?;
    (!after.starts_with(|c: char| c.is_alphanumeric() || c == '_')).then_some(after)
}

/// What follows the end of a block, and its sign.
fn closed(text: &str) -> Option<(Option<char>, &str)> {
    let text = text.trim_start();
    match text.chars().next() {
        Some(sign @ ('-' | '+')) => Some((Some(sign), text[1..].strip_prefix("%}")?)),
        _ => Some((None, text.strip_prefix("%}")?)),
    }
}
