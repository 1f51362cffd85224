//! Statements: text, tags and the bodies between them. How deep bodies are in each other is bounded here, and so is the recursion.

use super::ast::{Expr, Macro, Stmt, StmtKind, Target};
use super::expressions::{Words, too_high};
use super::lexer::{Piece, PieceKind, pieces};
use super::{MAX_HEIGHT, Problem, Result, shortened};
use std::sync::Arc;

/// Reads a whole template.
pub(super) fn parse(source: &str) -> Result<Vec<Stmt>> {
    let mut parser = Parser { pieces: pieces(source)?.into_iter(), loops: 0 };
    let (body, end) = parser.body(0, &[])?;
    match end {
        None => Ok(body),
        // Only a name in the list of ends is given back, and that list is empty.
        Some((line, _, _)) => Err(Problem { message: "a block ends that was never opened".into(), line }),
    }
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    loops: usize,
}

/// The tag that ended a body: its line, its name and what follows the name.
type End = (usize, Arc<str>, Words);

/// Statements that Jinja has and chat templates do not.
const REFUSED: [&str; 9] = ["include", "import", "from", "extends", "block", "call", "filter", "autoescape", "do"];

impl Parser {
    /// Statements up to one of the tags `ends`, at `depth` bodies inside each other.
    fn body(&mut self, depth: usize, ends: &[&str]) -> Result<(Vec<Stmt>, Option<End>)> {
        let mut body = Vec::new();
        while let Some(Piece { line, kind }) = self.pieces.next() {
            let at_line = |mut problem: Problem| {
                if problem.line == 0 {
                    problem.line = line;
                }
                problem
            };
            let kind = match kind {
                PieceKind::Text(text) => StmtKind::Text(text.into()),
                PieceKind::Value(words) => {
                    let mut words = Words::new(words, depth);
                    let value = words.tuple().and_then(|value| words.end().map(|()| value)).map_err(at_line)?;
                    StmtKind::Emit(value.expr)
                }
                PieceKind::Block(words) => {
                    let mut words = Words::new(words, depth);
                    let name = words.name("the name of a statement").map_err(at_line)?;
                    if ends.contains(&&*name) {
                        return Ok((body, Some((line, name, words))));
                    }
                    self.statement(&name, words, depth, line).map_err(at_line)?
                }
            };
            body.push(Stmt { line, kind });
        }
        match ends.last() {
            None => Ok((body, None)),
            Some(end) => {
                let line = body.last().map_or(1, |last| last.line);
                Err(Problem { message: format!("the template ends, but `{end}` is missing"), line })
            }
        }
    }

    /// A body that must be closed, and the tag that does it.
    fn closed(&mut self, depth: usize, ends: &[&str]) -> Result<(Vec<Stmt>, End)> {
        if depth >= MAX_HEIGHT {
            return Err(too_high());
        }
        match self.body(depth + 1, ends)? {
            (body, Some(end)) => Ok((body, end)),
            (_, None) => Err(Problem::new("the template ends too early")),
        }
    }

    fn statement(&mut self, name: &str, mut words: Words, depth: usize, line: usize) -> Result<StmtKind> {
        match name {
            "if" => self.branches(words, depth),
            "for" => self.for_loop(words, depth),
            "set" => self.set(words, depth),
            "macro" => self.macro_(words, depth),
            "with" => {
                let mut names = Vec::new();
                while !words.is_empty() {
                    let name = words.variable()?;
                    words.expect("=")?;
                    names.push((name, words.expression()?.expr));
                    if !words.take(",") {
                        break;
                    }
                }
                words.end()?;
                let (body, (_, _, mut rest)) = self.closed(depth, &["endwith"])?;
                rest.end()?;
                Ok(StmtKind::With { names, body })
            }
            // transformers marks the assistant's words with it; the text is the same.
            "generation" => {
                words.end()?;
                let (body, (_, _, mut rest)) = self.closed(depth, &["endgeneration"])?;
                rest.end()?;
                Ok(StmtKind::With { names: Vec::new(), body })
            }
            "break" | "continue" => {
                words.end()?;
                match (self.loops, name) {
                    (0, _) => Err(Problem::new(format!("`{name}` stands outside of a loop"))),
                    (_, "break") => Ok(StmtKind::Break),
                    _ => Ok(StmtKind::Continue),
                }
            }
            _ if REFUSED.contains(&name) => {
                Err(Problem { message: format!("the statement `{name}` is not supported in chat templates"), line })
            }
            _ => Err(Problem { message: format!("unknown statement `{}`", shortened(name)), line }),
        }
    }

    fn branches(&mut self, mut words: Words, depth: usize) -> Result<StmtKind> {
        let mut branches = Vec::new();
        loop {
            let condition = words.expression()?.expr;
            words.end()?;
            let (body, (_, end, rest)) = self.closed(depth, &["elif", "else", "endif"])?;
            branches.push((condition, body));
            words = rest;
            match &*end {
                "elif" => {}
                "else" => {
                    words.end()?;
                    let (otherwise, (_, _, mut rest)) = self.closed(depth, &["endif"])?;
                    rest.end()?;
                    return Ok(StmtKind::If { branches, otherwise });
                }
                _ => {
                    words.end()?;
                    return Ok(StmtKind::If { branches, otherwise: Vec::new() });
                }
            }
        }
    }

    fn for_loop(&mut self, mut words: Words, depth: usize) -> Result<StmtKind> {
        let targets = words.targets()?;
        if !words.take_name("in") {
            return Err(words.unexpected("`in`"));
        }
        let items = words.tuple_without_if()?.expr;
        let condition = if words.take_name("if") { Some(words.expression()?.expr) } else { None };
        if words.take_name("recursive") {
            return Err(Problem::new("recursive loops are not supported in chat templates"));
        }
        words.end()?;
        self.loops += 1;
        let (body, (_, end, mut rest)) = self.closed(depth, &["else", "endfor"])?;
        self.loops -= 1;
        rest.end()?;
        let mut otherwise = Vec::new();
        if &*end == "else" {
            let (body, (_, _, mut rest)) = self.closed(depth, &["endfor"])?;
            rest.end()?;
            otherwise = body;
        }
        Ok(StmtKind::For { targets, items, condition, body, otherwise })
    }

    fn set(&mut self, mut words: Words, depth: usize) -> Result<StmtKind> {
        let mut names = words.targets()?;
        let target = match (names.len(), words.take(".")) {
            (1, true) => Target::Attribute(names.remove(0), words.name("an attribute")?),
            (1, false) => Target::Name(names.remove(0)),
            (_, true) => return Err(Problem::new("`set` takes names, or one attribute of a namespace")),
            (_, false) => Target::Names(names),
        };
        if words.take("=") {
            let value = words.tuple()?.expr;
            words.end()?;
            return Ok(StmtKind::Set { target, value });
        }
        let mut filters = Vec::new();
        while words.take("|") {
            filters.push(words.filter()?.0);
        }
        words.end()?;
        let (body, (_, _, mut rest)) = self.closed(depth, &["endset"])?;
        rest.end()?;
        Ok(StmtKind::Capture { target, filters, body })
    }

    fn macro_(&mut self, mut words: Words, depth: usize) -> Result<StmtKind> {
        let name = words.variable()?;
        words.expect("(")?;
        let mut parameters: Vec<(Arc<str>, Option<Expr>)> = Vec::new();
        while !words.take(")") {
            if !parameters.is_empty() {
                words.expect(",")?;
                if words.take(")") {
                    break;
                }
            }
            let parameter = words.variable()?;
            let default = if words.take("=") { Some(words.expression()?.expr) } else { None };
            parameters.push((parameter, default));
        }
        words.end()?;
        let loops = std::mem::take(&mut self.loops);
        let (body, (_, _, mut rest)) = self.closed(depth, &["endmacro"])?;
        self.loops = loops;
        rest.take_name(&name); // `endmacro name`
        rest.end()?;
        Ok(StmtKind::Macro(Arc::new(Macro { name, parameters, body })))
    }
}
