//! The regular expressions by which tokenizers cut text, and what they cost.
//!
//! The library matches them by backtracking, which can take time by any power of the text's length. So only one kind is taken:
//! alternatives of characters and classes, each perhaps repeated, with one-character looks ahead or behind, and groups that are
//! not repeated. That is what GPT-2, Llama 3, Qwen, LLaDA and their relatives use, and it cannot take exponential time. What is
//! left is polynomial, and depends on the text: [`Pattern::steps`] goes through a text as a backtracking matcher would, counts,
//! and gives up at a limit, so that a text is refused before anybody hangs on it.

use regex_syntax::hir::{Class, HirKind};
use std::str::Chars;

/// Bytes of an expression, its alternatives with groups multiplied out, and the pieces of one.
const MAX_LENGTH: usize = 2048;
const MAX_ALTERNATIVES: usize = 256;
const MAX_PIECES: usize = 32;

/// Repetitions that are counted, `{n,m}`.
const MAX_REPEAT: usize = 64;

/// Levels of groups inside each other.
const MAX_DEPTH: usize = 4;

/// An expression whose cost can be told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    alternatives: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Repeat { set: Set, least: usize, most: usize, possessive: bool },
    Look { set: Set, behind: bool, negative: bool },
}

/// A set of characters.
#[derive(Debug, Clone, PartialEq)]
struct Set {
    ascii: u128,
    /// Beyond ASCII, in order.
    ranges: Vec<(char, char)>,
}

impl Set {
    fn has(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.ascii >> u32::from(c) & 1 == 1;
        }
        let at = self.ranges.partition_point(|(_, end)| *end < c);
        self.ranges.get(at).is_some_and(|(start, _)| *start <= c)
    }
}

impl Pattern {
    /// Reads an expression, or says why it is none of the kind.
    pub(crate) fn parse(regex: &str) -> Result<Pattern, String> {
        if regex.len() > MAX_LENGTH {
            return Err(format!("it has {} bytes, but may have at most {MAX_LENGTH}", regex.len()));
        }
        let mut parser = Parser { rest: regex.chars(), depth: 0 };
        let alternatives = parser.alternatives(false)?;
        if parser.rest.next().is_some() {
            return Err("`)` closes no group".into());
        }
        let empty = |pieces: &Vec<Piece>| !pieces.iter().any(|piece| matches!(piece, Piece::Repeat { least: 1.., .. }));
        if alternatives.iter().any(empty) {
            Err("it may match nothing at all; every alternative must match a character".into())
        } else {
            Ok(Pattern { alternatives })
        }
    }

    /// Steps that a backtracking matcher takes to cut `text`, or `None` if they are more than `most`.
    pub(crate) fn steps(&self, text: &str, most: usize) -> Option<usize> {
        let chars: Vec<char> = text.chars().collect();
        let mut walk = Walk { chars: &chars, left: most };
        let mut at = 0;
        while at < chars.len() {
            let mut next = at + 1;
            for pieces in &self.alternatives {
                if let Some(end) = walk.matched(pieces, at)? {
                    next = end.max(next);
                    break;
                }
            }
            at = next;
        }
        Some(most - walk.left)
    }
}

struct Walk<'a> {
    chars: &'a [char],
    left: usize,
}

impl Walk<'_> {
    /// Where the pieces end if they match at `at`. The outer `None` means that the limit is reached.
    fn matched(&mut self, pieces: &[Piece], at: usize) -> Option<Option<usize>> {
        self.left = self.left.checked_sub(1)?;
        let Some((piece, rest)) = pieces.split_first() else { return Some(Some(at)) };
        match piece {
            Piece::Look { set, behind, negative } => {
                let c = if *behind { at.checked_sub(1).and_then(|at| self.chars.get(at)) } else { self.chars.get(at) };
                if c.is_some_and(|c| set.has(*c)) == *negative { Some(None) } else { self.matched(rest, at) }
            }
            Piece::Repeat { set, least, most, possessive } => {
                let run = self.chars[at..].iter().take(*most).take_while(|c| set.has(**c)).count();
                self.left = self.left.checked_sub(run)?;
                let shortest = if *possessive { run } else { *least };
                for n in (shortest..=run).rev().filter(|n| n >= least) {
                    if let Some(end) = self.matched(rest, at + n)? {
                        return Some(Some(end));
                    }
                }
                Some(None)
            }
        }
    }
}

struct Parser<'a> {
    rest: Chars<'a>,
    depth: usize,
}

/// What stands between bars, with groups multiplied out.
type Expanded = Vec<Vec<Piece>>;

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.as_str().strip_prefix(text) {
            Some(rest) => {
                self.rest = rest.chars();
                true
            }
            None => false,
        }
    }

    /// Up to the end or a `)`.
    fn alternatives(&mut self, ignore_case: bool) -> Result<Expanded, String> {
        let mut all = Vec::new();
        loop {
            all.extend(self.sequence(ignore_case)?);
            if all.len() > MAX_ALTERNATIVES {
                return Err(format!("with its groups multiplied out it has more than {MAX_ALTERNATIVES} alternatives"));
            }
            if !self.take("|") {
                return Ok(all);
            }
        }
    }

    fn sequence(&mut self, ignore_case: bool) -> Result<Expanded, String> {
        let mut made: Expanded = vec![Vec::new()];
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            let next = if c == '(' { self.group(ignore_case)? } else { vec![vec![self.repeated(ignore_case)?]] };
            if made.len() * next.len() > MAX_ALTERNATIVES {
                return Err(format!("with its groups multiplied out it has more than {MAX_ALTERNATIVES} alternatives"));
            }
            made = made.iter().flat_map(|before| next.iter().map(|after| [&before[..], &after[..]].concat())).collect();
            if made.iter().any(|pieces| pieces.len() > MAX_PIECES) {
                return Err(format!("an alternative has more than {MAX_PIECES} pieces"));
            }
        }
        Ok(made)
    }

    fn group(&mut self, ignore_case: bool) -> Result<Expanded, String> {
        for (opening, behind, negative) in
            [("(?=", false, false), ("(?!", false, true), ("(?<=", true, false), ("(?<!", true, true)]
        {
            if self.take(opening) {
                let set = self.set(ignore_case)?;
                let once = self.take(")") && !matches!(self.peek(), Some('*' | '+' | '?' | '{'));
                return if once {
                    Ok(vec![vec![Piece::Look { set, behind, negative }]])
                } else {
                    Err(format!("`{opening}` may look at one character only, and once"))
                };
            }
        }
        let inside = match (self.take("(?i:"), ignore_case) {
            (true, _) => true,
            (false, inside) if self.take("(?:") || (!self.rest.as_str().starts_with("(?") && self.take("(")) => inside,
            _ => {
                return Err(
                    "a group starts with something other than `(`, `(?:`, `(?i:` or a look ahead or behind".into()
                );
            }
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("groups nest more than {MAX_DEPTH} deep"));
        }
        let mut made = self.alternatives(inside)?;
        self.depth -= 1;
        if !self.take(")") {
            return Err("a group has no `)`".into());
        }
        if self.take("?") {
            made.push(Vec::new());
        }
        match self.peek() {
            Some('*' | '+' | '{' | '?') => {
                Err("a group is repeated, which can take exponential time; repeat classes only".into())
            }
            _ => Ok(made),
        }
    }

    /// One character or class, perhaps repeated.
    fn repeated(&mut self, ignore_case: bool) -> Result<Piece, String> {
        let set = self.set(ignore_case)?;
        let (least, most) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => return self.counted(set),
            _ => return Ok(Piece::Repeat { set, least: 1, most: 1, possessive: false }),
        };
        self.rest.next();
        let possessive = self.take("+");
        match self.peek() {
            Some('*' | '+' | '?' | '{') => Err("a repetition is repeated, or lazy".into()),
            _ => Ok(Piece::Repeat { set, least, most, possessive }),
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`.
    fn counted(&mut self, set: Set) -> Result<Piece, String> {
        let Some((inside, rest)) = self.rest.as_str().split_once('}') else { return Err("`{` has no `}`".into()) };
        self.rest = rest.chars();
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n <= MAX_REPEAT);
        let (least, most) = match inside[1..].split_once(',') {
            None => (number(&inside[1..]), number(&inside[1..])),
            Some((least, "")) => (number(least), Some(usize::MAX)),
            Some((least, most)) => (number(least), number(most)),
        };
        match (least, most, self.peek()) {
            (Some(least), Some(most), next) if least <= most && !matches!(next, Some('*' | '+' | '?' | '{')) => {
                Ok(Piece::Repeat { set, least, most, possessive: false })
            }
            _ => Err(format!("`{inside}}}` must count from 0 to {MAX_REPEAT}, the smaller first, and not be repeated")),
        }
    }

    /// A character, an escape or a class in brackets.
    fn set(&mut self, ignore_case: bool) -> Result<Set, String> {
        let start = self.rest.as_str();
        match self.rest.next() {
            None => return Err("a character is missing".into()),
            Some(c @ ('.' | '^' | '$' | '*' | '+' | '?' | '{' | '}' | ')' | '|' | '(')) => {
                return Err(format!("`{c}` stands where a character or a class must"));
            }
            Some('\\') => match self.rest.next() {
                Some('r' | 'n' | 't' | 's' | 'S' | 'd' | 'D' | 'w' | 'W') => {}
                Some('p' | 'P') => self.property()?,
                Some(c) if c.is_ascii_punctuation() => {}
                _ => return Err("an escape is none of \\r \\n \\t \\s \\S \\d \\D \\w \\W \\p \\P and a sign".into()),
            },
            Some('[') => self.bracket()?,
            Some(_) => {}
        }
        let atom = &start[..start.len() - self.rest.as_str().len()];
        characters(atom, ignore_case)
    }

    /// Reads the name of a Unicode class, `{L}` after `\p`.
    fn property(&mut self) -> Result<(), String> {
        let name = self.rest.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
        match name {
            Some((name, rest)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                self.rest = rest.chars();
                Ok(())
            }
            _ => Err("`\\p` needs a name in braces".into()),
        }
    }

    /// The rest of a class in brackets, without what engines read differently.
    fn bracket(&mut self) -> Result<(), String> {
        self.take("^");
        let mut first = true;
        loop {
            let doubled = ["&&", "--", "~~", "||"].iter().any(|sign| self.rest.as_str().starts_with(sign));
            match self.rest.next() {
                None => return Err("`[` has no `]`".into()),
                Some('[') => return Err("a class has a `[` inside; write `\\[`".into()),
                Some(_) if doubled => return Err("a class is cut or joined with another".into()),
                Some(']') if first => return Err("a class is empty".into()),
                Some(']') => return Ok(()),
                Some('\\') => match self.rest.next() {
                    Some('p' | 'P') => self.property()?,
                    Some('r' | 'n' | 't' | 's' | 'S' | 'd' | 'D' | 'w' | 'W') => {}
                    Some(c) if c.is_ascii_punctuation() => {}
                    _ => return Err("a class has an escape that is not known".into()),
                },
                Some(_) => {}
            }
            first = false;
        }
    }
}

/// The characters that an atom matches.
fn characters(atom: &str, ignore_case: bool) -> Result<Set, String> {
    let mut parser = regex_syntax::ParserBuilder::new().case_insensitive(ignore_case).build();
    let hir = parser.parse(atom).map_err(|_| format!("`{atom}` is no class of characters"))?;
    let ranges: Vec<(char, char)> = match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => class.iter().map(|range| (range.start(), range.end())).collect(),
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
        HirKind::Literal(literal) => {
            match std::str::from_utf8(&literal.0).ok().map(|text| text.chars().collect::<Vec<_>>()) {
                Some(text) if text.len() == 1 => vec![(text[0], text[0])],
                _ => return Err(format!("`{atom}` is no single character")),
            }
        }
        _ => return Err(format!("`{atom}` is no class of characters")),
    };
    let inside = |c: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&c));
    let ascii = (0..128u8).filter(|byte| inside(char::from(*byte))).fold(0, |ascii, byte| ascii | 1u128 << byte);
    Ok(Set { ascii, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_published_tokenizers_are_taken() {
        for regex in [
            super::super::SPLIT,
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|\s+",
            r"(?<=\p{N}) \p{N}(?!\p{N})|\p{N}{1,2}| ?\p{L}+(?: (?=\p{N}))?| ?[^\s\p{L}\p{N}]+(?: (?=\p{N}))?|\s",
            r"[一-龥]+|\p{N}{1,3}|[!-/:-~]+",
        ] {
            assert!(Pattern::parse(regex).is_ok(), "{regex}: {:?}", Pattern::parse(regex).err());
        }
    }

    #[test]
    fn a_step_is_a_character_looked_at_or_a_piece_begun() {
        // `a*` runs over 3 characters; `b` fails after 3, 2, 1 and 0 of them. Then the same from the next `a`, and so on:
        // starts with k characters left cost 1 (begin) + k (run) + (k + 1) (begin `b`) = 2k + 2: 8 + 6 + 4 = 18.
        assert_eq!(Pattern::parse("a*b").unwrap().steps("aaa", 100), Some(18));
        // A match of everything: begin, 3 characters, begin of nothing.
        assert_eq!(Pattern::parse("a+").unwrap().steps("aaa", 100), Some(5));
        assert_eq!(Pattern::parse("a*b").unwrap().steps("aaa", 17), None);
    }

    #[test]
    fn what_can_explode_is_refused_or_counted() {
        for (regex, why) in [
            ("(a+)+$", "repeated"),
            ("(?:a|a)*b", "repeated"),
            ("(a?){64}b", "repeated"),
            ("a*?b", "lazy"),
            ("a*", "nothing at all"),
            ("x|", "nothing at all"),
            (r"(a)\1", "escape"),
            ("^a", "`^`"),
            (".+", "`.`"),
            ("(?=a*)b", "one character"),
            ("(?<name>a)", "starts with"),
            ("[[:alpha:]]", "inside"),
            ("[a-z&&b]", "cut or joined"),
            ("a{99999}", "count from"),
            ("a{2}{3}", "not be repeated"),
            ("(a", "no `)`"),
            ("a)", "closes no"),
            ("[a", "no `]`"),
            (r"\p{No such}", "braces"),
        ] {
            let problem = Pattern::parse(regex).unwrap_err();
            assert!(problem.contains(why), "{regex}: {problem}");
        }
        let cubic = Pattern::parse("a*a*a*b").unwrap();
        assert_eq!(cubic.steps(&"a".repeat(10_000), 10_000_000), None);
        let groups = "(?:a|b)".repeat(9) + "c";
        assert!(Pattern::parse(&groups).unwrap_err().contains("multiplied out"));
    }
}
