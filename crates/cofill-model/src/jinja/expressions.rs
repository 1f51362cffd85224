//! Expressions, with Jinja's precedences. Chains of operators are parsed by loops and become deep trees all the same, so it is the
//! height of what is built that is bounded here, and the recursion of reading, evaluating and dropping it with that.

use super::ast::{Arguments, Binary, Comparison, Expr, Filter, Literal};
use super::lexer::Word;
use super::{MAX_HEIGHT, Problem, Result, shortened};
use std::sync::Arc;

pub(super) fn too_high() -> Problem {
    Problem::new(format!(
        "an expression or a block of it nests more than {MAX_HEIGHT} deep, long chains of operators included; cut it with `set`"
    ))
}

/// An expression and the height of its tree.
pub(super) struct Tree {
    pub(super) expr: Expr,
    height: usize,
}

/// The words of one tag, read from the front.
pub(super) struct Words {
    words: std::iter::Peekable<std::vec::IntoIter<Word>>,
    /// Levels of the template's tree above what is read now.
    depth: usize,
}

impl Words {
    pub(super) fn new(words: Vec<Word>, depth: usize) -> Words {
        Words { words: words.into_iter().peekable(), depth }
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.words.peek().is_none()
    }

    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.unexpected("the end of the tag")) }
    }

    pub(super) fn unexpected(&mut self, wanted: &str) -> Problem {
        Problem::new(match self.words.peek() {
            None => format!("the tag ends, but {wanted} should follow"),
            Some(Word::Name(name)) => format!("unexpected `{}`; {wanted} should follow", shortened(name)),
            Some(Word::Text(text)) => format!("unexpected text `{}`; {wanted} should follow", shortened(text)),
            Some(Word::Int(n)) => format!("unexpected number {n}; {wanted} should follow"),
            Some(Word::Float(x)) => format!("unexpected number {x}; {wanted} should follow"),
            Some(Word::Sign(sign)) => format!("unexpected `{sign}`; {wanted} should follow"),
        })
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        self.words.next_if(|word| matches!(word, Word::Sign(given) if *given == sign)).is_some()
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        self.words.next_if(|word| matches!(word, Word::Name(given) if **given == *name)).is_some()
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    pub(super) fn name(&mut self, what: &str) -> Result<Arc<str>> {
        match self.words.next_if(|word| matches!(word, Word::Name(_))) {
            Some(Word::Name(name)) => Ok(name),
            _ => Err(self.unexpected(what)),
        }
    }

    /// A name that can be assigned to.
    pub(super) fn variable(&mut self) -> Result<Arc<str>> {
        let name = self.name("the name of a variable")?;
        let taken =
            ["true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else", "loop"];
        if taken.contains(&&*name) {
            Err(Problem::new(format!("`{name}` is a word of the language and cannot be assigned to")))
        } else {
            Ok(name)
        }
    }

    /// `a`, `a, b` or `(a, b)`.
    pub(super) fn targets(&mut self) -> Result<Vec<Arc<str>>> {
        let bracket = self.take("(");
        let mut names = vec![self.variable()?];
        while self.take(",") {
            names.push(self.variable()?);
        }
        if bracket {
            self.expect(")")?;
        }
        Ok(names)
    }

    /// A node over others, whose heights are given.
    fn node(&self, expr: Expr, below: impl IntoIterator<Item = usize>) -> Result<Tree> {
        let height = 1 + below.into_iter().max().unwrap_or(0);
        if self.depth + height > MAX_HEIGHT { Err(too_high()) } else { Ok(Tree { expr, height }) }
    }

    /// Reads something that is one level further down.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Words) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_HEIGHT {
            return Err(too_high());
        }
        self.depth += 1;
        let read = read(self)?;
        self.depth -= 1;
        Ok(read)
    }

    /// `a`, or `a, b` as a list.
    pub(super) fn tuple(&mut self) -> Result<Tree> {
        let first = self.expression()?;
        self.rest_of_tuple(first)
    }

    /// The same where an `if` does not belong to the expression.
    pub(super) fn tuple_without_if(&mut self) -> Result<Tree> {
        let first = self.deeper(Words::or)?;
        self.rest_of_tuple(first)
    }

    fn rest_of_tuple(&mut self, first: Tree) -> Result<Tree> {
        if !self.take(",") {
            return Ok(first);
        }
        let (mut items, mut height) = (vec![first.expr], first.height);
        while !self.is_empty() && !matches!(self.words.peek(), Some(Word::Sign(")"))) {
            let item = self.expression()?;
            height = height.max(item.height);
            items.push(item.expr);
            if !self.take(",") {
                break;
            }
        }
        self.node(Expr::List(items), [height])
    }

    /// `a if b else c`, and everything that binds tighter.
    pub(super) fn expression(&mut self) -> Result<Tree> {
        self.deeper(|words| {
            let mut tree = words.or()?;
            while words.take_name("if") {
                let condition = words.or()?;
                let otherwise = if words.take_name("else") { Some(words.expression()?) } else { None };
                let below = [tree.height, condition.height, otherwise.as_ref().map_or(0, |tree| tree.height)];
                let parts = (tree.expr, condition.expr, otherwise.map(|tree| tree.expr));
                tree = words.node(Expr::Choice(Box::new(parts)), below)?;
            }
            Ok(tree)
        })
    }

    fn or(&mut self) -> Result<Tree> {
        let mut left = self.and()?;
        while self.take_name("or") {
            let right = self.and()?;
            left = self.node(Expr::Or(Box::new((left.expr, right.expr))), [left.height, right.height])?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Tree> {
        let mut left = self.not()?;
        while self.take_name("and") {
            let right = self.not()?;
            left = self.node(Expr::And(Box::new((left.expr, right.expr))), [left.height, right.height])?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Tree> {
        if !self.take_name("not") {
            return self.compare();
        }
        let tree = self.deeper(Words::not)?;
        self.node(Expr::Not(Box::new(tree.expr)), [tree.height])
    }

    fn compare(&mut self) -> Result<Tree> {
        let first = self.arithmetic(0)?;
        let (mut rest, mut height) = (Vec::new(), first.height);
        loop {
            let signs = [
                ("==", Comparison::Equal),
                ("!=", Comparison::NotEqual),
                ("<=", Comparison::LessOrEqual),
                (">=", Comparison::GreaterOrEqual),
                ("<", Comparison::Less),
                (">", Comparison::Greater),
            ];
            let comparison = match signs.iter().find(|(sign, _)| self.take(sign)) {
                Some((_, comparison)) => *comparison,
                None if self.take_name("in") => Comparison::In,
                None if self.take_name("not") => {
                    if self.take_name("in") {
                        Comparison::NotIn
                    } else {
                        return Err(self.unexpected("`in`"));
                    }
                }
                None => break,
            };
            let tree = self.arithmetic(0)?;
            height = height.max(tree.height);
            rest.push((comparison, tree.expr));
        }
        if rest.is_empty() { Ok(first) } else { self.node(Expr::Compare(Box::new(first.expr), rest), [height]) }
    }

    /// The arithmetic operators: `+ -` bind loosest, then `~`, then `* / // %`, then `**`.
    fn arithmetic(&mut self, level: usize) -> Result<Tree> {
        const LEVELS: [&[(&str, Binary)]; 4] = [
            &[("+", Binary::Add), ("-", Binary::Subtract)],
            &[("~", Binary::Join)],
            &[("*", Binary::Multiply), ("//", Binary::DivideFloor), ("/", Binary::Divide), ("%", Binary::Remainder)],
            &[("**", Binary::Power)],
        ];
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.arithmetic(level + 1)?;
        while let Some((_, operator)) = signs.iter().find(|(sign, _)| self.take(sign)) {
            let right = self.arithmetic(level + 1)?;
            let below = [left.height, right.height];
            left = self.node(Expr::Binary(*operator, Box::new((left.expr, right.expr))), below)?;
        }
        Ok(left)
    }

    /// A signed operand with its filters and tests, which apply to the sign too.
    fn unary(&mut self) -> Result<Tree> {
        let tree = self.signed()?;
        self.filters_and_tests(tree)
    }

    fn signed(&mut self) -> Result<Tree> {
        if self.take("+") {
            return self.deeper(Words::signed);
        }
        if !self.take("-") {
            let tree = self.primary()?;
            return self.postfix(tree);
        }
        let tree = self.deeper(Words::signed)?;
        self.node(Expr::Negative(Box::new(tree.expr)), [tree.height])
    }

    fn primary(&mut self) -> Result<Tree> {
        let leaf = |expr| Ok(Tree { expr, height: 1 });
        let literal = |literal| leaf(Expr::Literal(literal));
        match self.words.next() {
            Some(Word::Int(n)) => literal(Literal::Int(n)),
            Some(Word::Float(x)) => literal(Literal::Float(x)),
            Some(Word::Text(mut text)) => {
                // Neighbours are one text.
                while let Some(Word::Text(more)) = self.words.next_if(|word| matches!(word, Word::Text(_))) {
                    text += &more;
                }
                literal(Literal::Text(text.into()))
            }
            Some(Word::Name(name)) => match &*name {
                "true" | "True" => literal(Literal::Bool(true)),
                "false" | "False" => literal(Literal::Bool(false)),
                "none" | "None" => literal(Literal::None),
                "and" | "or" | "not" | "in" | "is" | "if" | "else" => {
                    Err(Problem::new(format!("unexpected `{name}`; a value should stand there")))
                }
                _ => leaf(Expr::Variable(name)),
            },
            Some(Word::Sign("(")) => {
                if self.take(")") {
                    return leaf(Expr::List(Vec::new()));
                }
                let tree = self.tuple()?;
                self.expect(")")?;
                Ok(tree)
            }
            Some(Word::Sign("[")) => {
                let (mut items, mut height) = (Vec::new(), 0);
                while !self.take("]") {
                    if !items.is_empty() {
                        self.expect(",")?;
                        if self.take("]") {
                            break;
                        }
                    }
                    let item = self.expression()?;
                    height = height.max(item.height);
                    items.push(item.expr);
                }
                self.node(Expr::List(items), [height])
            }
            Some(Word::Sign("{")) => {
                let (mut entries, mut height) = (Vec::new(), 0);
                while !self.take("}") {
                    if !entries.is_empty() {
                        self.expect(",")?;
                        if self.take("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect(":")?;
                    let value = self.expression()?;
                    height = height.max(key.height).max(value.height);
                    entries.push((key.expr, value.expr));
                }
                self.node(Expr::Map(entries), [height])
            }
            Some(Word::Sign(sign)) => Err(Problem::new(format!("unexpected `{sign}`; a value should stand there"))),
            None => Err(Problem::new("the tag ends, but a value should follow")),
        }
    }

    fn postfix(&mut self, mut tree: Tree) -> Result<Tree> {
        loop {
            if self.take(".") {
                let index = self.words.next_if(|word| matches!(word, Word::Int(_)));
                if let Some(Word::Int(n)) = index {
                    let item = Expr::Literal(Literal::Int(n));
                    tree = self.node(Expr::Item(Box::new((tree.expr, item))), [tree.height])?;
                    continue;
                }
                let name = self.name("an attribute")?;
                if !matches!(self.words.peek(), Some(Word::Sign("("))) {
                    tree = self.node(Expr::Attribute(Box::new(tree.expr), name), [tree.height])?;
                    continue;
                }
                let (arguments, height) = self.arguments()?;
                tree = self.node(Expr::Method(Box::new(tree.expr), name, arguments), [tree.height, height])?;
            } else if self.take("[") {
                tree = self.subscript(tree)?;
            } else if matches!(self.words.peek(), Some(Word::Sign("("))) {
                let Expr::Variable(name) = tree.expr else {
                    return Err(Problem::new("only functions, macros and methods can be called, by their names"));
                };
                let (arguments, height) = self.arguments()?;
                tree = self.node(Expr::Call(name, arguments), [height])?;
            } else {
                return Ok(tree);
            }
        }
    }

    /// `[index]` or `[from:to:step]`, after the bracket.
    fn subscript(&mut self, tree: Tree) -> Result<Tree> {
        let (mut parts, mut at, mut height) = ([None, None, None], 0, tree.height);
        loop {
            if !matches!(self.words.peek(), Some(Word::Sign(":" | "]"))) {
                let part = self.expression()?;
                height = height.max(part.height);
                parts[at] = Some(part.expr);
            }
            if at < 2 && self.take(":") {
                at += 1;
                continue;
            }
            self.expect("]")?;
            break;
        }
        let [first, ..] = &mut parts;
        match (at, first.take()) {
            (0, Some(index)) => self.node(Expr::Item(Box::new((tree.expr, index))), [height]),
            (0, None) => Err(Problem::new("`[]` needs an index")),
            (_, taken) => {
                parts[0] = taken;
                self.node(Expr::Slice(Box::new(tree.expr), Box::new(parts)), [height])
            }
        }
    }

    fn arguments(&mut self) -> Result<(Arguments, usize)> {
        self.expect("(")?;
        let (mut arguments, mut height) = (Arguments::default(), 0);
        while !self.take(")") {
            if !arguments.positional.is_empty() || !arguments.named.is_empty() {
                self.expect(",")?;
                if self.take(")") {
                    break;
                }
            }
            let value = self.expression()?;
            let named = self.take("=");
            match (value.expr, named) {
                (Expr::Variable(name), true) => {
                    let value = self.expression()?;
                    height = height.max(value.height);
                    arguments.named.push((name, value.expr));
                }
                (_, true) => return Err(Problem::new("`=` in a call must follow a name")),
                (_, false) if !arguments.named.is_empty() => {
                    return Err(Problem::new("an argument without a name follows one with a name"));
                }
                (expr, false) => {
                    height = height.max(value.height);
                    arguments.positional.push(expr);
                }
            }
        }
        Ok((arguments, height))
    }

    /// The name and arguments of a filter, and their height.
    pub(super) fn filter(&mut self) -> Result<(Filter, usize)> {
        let name = self.name("the name of a filter")?;
        let (arguments, height) = match self.words.peek() {
            Some(Word::Sign("(")) => self.arguments()?,
            _ => (Arguments::default(), 0),
        };
        Ok((Filter { name, arguments }, height))
    }

    fn filters_and_tests(&mut self, mut tree: Tree) -> Result<Tree> {
        loop {
            if self.take("|") {
                let (filter, height) = self.filter()?;
                tree = self.node(Expr::Filter(Box::new(tree.expr), filter), [tree.height, height])?;
            } else if self.take_name("is") {
                let negated = self.take_name("not");
                let (mut test, mut height) = self.filter()?;
                if test.arguments.positional.is_empty() && self.argument_follows() {
                    // `is divisibleby 3`: one operand without brackets.
                    let operand = self.primary()?;
                    let operand = self.postfix(operand)?;
                    height = operand.height;
                    test.arguments.positional.push(operand.expr);
                }
                tree = self.node(Expr::Test(Box::new(tree.expr), test), [tree.height, height])?;
                if negated {
                    tree = self.node(Expr::Not(Box::new(tree.expr)), [tree.height])?;
                }
            } else {
                return Ok(tree);
            }
        }
    }

    fn argument_follows(&mut self) -> bool {
        match self.words.peek() {
            Some(Word::Name(name)) => !matches!(&**name, "else" | "or" | "and" | "is" | "if" | "in" | "not"),
            Some(Word::Text(_) | Word::Int(_) | Word::Float(_) | Word::Sign("[" | "{")) => true,
            _ => false,
        }
    }
}
