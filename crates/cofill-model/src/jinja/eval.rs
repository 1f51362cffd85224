//! Runs a template. Every node costs a step, and its depth is counted (`enter` and `leave`).

use super::ast::{Arguments, Expr, Filter, Literal, Macro, Stmt, StmtKind, Target};
use super::builtins;
use super::methods;
use super::operators;
use super::value::{Loop, Namespace, Value};
use super::{Budget, Problem, Result, shortened};
use std::collections::HashMap;
use std::sync::Arc;

/// What `body` makes of `variables`.
pub(super) fn render(body: &[Stmt], variables: Vec<(String, Value)>, budget: Budget) -> Result<String> {
    let variables = variables.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let mut machine = Machine {
        budget,
        frames: vec![variables, Frame::new()],
        base: 1,
        captures: Vec::new(),
        out: String::new(),
        line: 1,
    };
    match machine.body(body) {
        Ok(_) => Ok(machine.out),
        Err(problem) if problem.line == 0 => Err(Problem { line: machine.line, ..problem }),
        Err(problem) => Err(problem),
    }
}

/// Variables of a body.
type Frame = HashMap<Arc<str>, Value>;

/// Where to go on after a statement.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

pub(super) struct Machine {
    pub(super) budget: Budget,
    /// What was given, what the template sets, and a frame for every loop, `with` and macro inside.
    frames: Vec<Frame>,
    /// The first frame of the macro that runs; it sees its own and the first two.
    base: usize,
    /// Texts that `set` blocks and macros are writing.
    captures: Vec<String>,
    out: String,
    line: usize,
}

/// The evaluated arguments of a call.
pub(super) struct Given {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(Arc<str>, Value)>,
}

impl Machine {
    fn body(&mut self, body: &[Stmt]) -> Result<Flow> {
        self.budget.enter()?;
        for stmt in body {
            self.line = stmt.line;
            let flow = self.statement(&stmt.kind)?;
            if flow != Flow::Next {
                self.budget.leave();
                return Ok(flow);
            }
        }
        self.budget.leave();
        Ok(Flow::Next)
    }

    fn statement(&mut self, stmt: &StmtKind) -> Result<Flow> {
        self.budget.work(1)?;
        match stmt {
            StmtKind::Text(text) => self.write(text)?,
            StmtKind::Emit(expr) => {
                let text = self.eval(expr)?.to_text(&mut self.budget)?;
                self.write(&text)?;
            }
            StmtKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.eval(condition)?.is_true() {
                        return self.body(body);
                    }
                }
                return self.body(otherwise);
            }
            StmtKind::For { targets, items, condition, body, otherwise } => {
                return self.for_loop(targets, items, condition.as_ref(), body, otherwise);
            }
            StmtKind::Set { target, value } => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            StmtKind::Capture { target, filters, body } => {
                let mut value = self.captured(|machine| machine.body(body).map(drop))?;
                for filter in filters {
                    value = self.filter(value, filter)?;
                }
                self.assign(target, value)?;
            }
            StmtKind::Macro(it) => self.store(&it.name, Value::Macro(it.clone()))?,
            StmtKind::With { names, body } => {
                let mut frame = Frame::new();
                for (name, value) in names {
                    frame.insert(name.clone(), self.eval(value)?);
                }
                self.frames.push(frame);
                let flow = self.body(body)?;
                self.frames.pop();
                return Ok(flow);
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn for_loop(
        &mut self,
        targets: &[Arc<str>],
        items: &Expr,
        condition: Option<&Expr>,
        body: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<Flow> {
        let items = self.eval(items)?;
        let mut items = builtins::items_of(&items, &mut self.budget)?;
        if let Some(condition) = condition {
            self.frames.push(Frame::new());
            let mut kept = Vec::new();
            for item in &items.items {
                self.bind(targets, item.clone())?;
                if self.eval(condition)?.is_true() {
                    self.budget.make_list(1)?;
                    kept.push(item.clone());
                }
            }
            self.frames.pop();
            items = builtins::items_of(&Value::list(kept)?, &mut self.budget)?;
        }
        if items.items.is_empty() {
            return self.body(otherwise);
        }
        self.frames.push(Frame::new());
        let name: Arc<str> = "loop".into();
        for (index, item) in items.items.iter().enumerate() {
            if let Some(frame) = self.frames.last_mut() {
                frame.clear();
            }
            self.bind(targets, item.clone())?;
            self.store(&name, Value::Loop(Arc::new(Loop { items: items.clone(), index })))?;
            if self.body(body)? == Flow::Break {
                break;
            }
        }
        self.frames.pop();
        Ok(Flow::Next)
    }

    /// Gives one name a value, or several the elements of a list.
    fn bind(&mut self, names: &[Arc<str>], value: Value) -> Result<()> {
        match names {
            [name] => self.store(name, value),
            names => {
                let items = builtins::items_of(&value, &mut self.budget)?;
                if items.items.len() != names.len() {
                    let (n, m) = (names.len(), items.items.len());
                    return Err(Problem::new(format!("{n} names cannot be given {m} values")));
                }
                names.iter().zip(&items.items).try_for_each(|(name, item)| self.store(name, item.clone()))
            }
        }
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<()> {
        match target {
            Target::Name(name) => self.store(name, value),
            Target::Names(names) => self.bind(names, value),
            Target::Attribute(name, attribute) => match self.lookup(name)? {
                Value::Namespace(namespace) => namespace.set(attribute, value, &mut self.budget),
                other => Err(Problem::new(format!(
                    "`{}` is {}, but only a namespace can be given an attribute",
                    shortened(name),
                    other.kind()
                ))),
            },
        }
    }

    /// The value is paid for already, and a frame has no more names than the source.
    fn store(&mut self, name: &Arc<str>, value: Value) -> Result<()> {
        self.budget.search(8, name)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.insert(name.clone(), value);
        }
        Ok(())
    }

    fn lookup(&mut self, name: &str) -> Result<Value> {
        let own = self.frames.get(self.base.max(2)..).unwrap_or_default();
        self.budget.search(4 * own.len() + 4, name)?;
        let shared = self.frames.iter().take(2);
        let found = own.iter().rev().chain(shared.rev()).find_map(|frame| frame.get(name));
        Ok(found.cloned().unwrap_or(Value::Undefined))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.budget.make(text.len() as u64)?;
        match self.captures.last_mut() {
            Some(capture) => capture.push_str(text),
            None => {
                self.budget.emit(text.len())?;
                self.out.push_str(text);
            }
        }
        Ok(())
    }

    /// Collects the text that `run` writes.
    fn captured(&mut self, run: impl FnOnce(&mut Machine) -> Result<()>) -> Result<Value> {
        self.captures.push(String::new());
        run(self)?;
        Ok(Value::text(self.captures.pop().unwrap_or_default()))
    }

    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Value> {
        self.budget.enter()?;
        let value = self.node(expr)?;
        self.budget.leave();
        Ok(value)
    }

    fn node(&mut self, expr: &Expr) -> Result<Value> {
        Ok(match expr {
            Expr::Literal(literal) => match literal {
                Literal::None => Value::None,
                Literal::Bool(b) => Value::Bool(*b),
                Literal::Int(n) => Value::Int(*n),
                Literal::Float(x) => Value::Float(*x),
                Literal::Text(text) => Value::Text(text.clone()),
            },
            Expr::Variable(name) => self.lookup(name)?,
            Expr::List(items) => {
                self.budget.make_list(items.len())?;
                Value::list(items.iter().map(|item| self.eval(item)).collect::<Result<_>>()?)?
            }
            Expr::Map(entries) => self.map(entries)?,
            Expr::Not(value) => Value::Bool(!self.eval(value)?.is_true()),
            Expr::Negative(value) => operators::negative(&self.eval(value)?)?,
            Expr::Binary(operator, sides) => {
                let (left, right) = (self.eval(&sides.0)?, self.eval(&sides.1)?);
                operators::binary(*operator, &left, &right, &mut self.budget)?
            }
            Expr::And(sides) => match self.eval(&sides.0)? {
                left if left.is_true() => self.eval(&sides.1)?,
                left => left,
            },
            Expr::Or(sides) => match self.eval(&sides.0)? {
                left if left.is_true() => left,
                _ => self.eval(&sides.1)?,
            },
            Expr::Compare(first, rest) => self.comparison(first, rest)?,
            Expr::Choice(parts) => match (self.eval(&parts.1)?.is_true(), &parts.2) {
                (true, _) => self.eval(&parts.0)?,
                (false, Some(otherwise)) => self.eval(otherwise)?,
                (false, None) => Value::Undefined,
            },
            Expr::Attribute(value, name) => {
                let value = self.eval(value)?;
                methods::attribute(&value, name, &mut self.budget)?
            }
            Expr::Item(parts) => {
                let (value, key) = (self.eval(&parts.0)?, self.eval(&parts.1)?);
                methods::item(&value, &key, &mut self.budget)?
            }
            Expr::Slice(value, parts) => self.slice(value, parts)?,
            Expr::Call(name, arguments) => self.call(name, arguments)?,
            Expr::Method(value, name, arguments) => {
                let value = self.eval(value)?;
                let given = self.arguments(arguments)?;
                methods::call(&value, name, given, &mut self.budget)?
            }
            Expr::Filter(value, filter) => {
                let value = self.eval(value)?;
                self.filter(value, filter)?
            }
            Expr::Test(value, test) => {
                let value = self.eval(value)?;
                let given = self.arguments(&test.arguments)?;
                Value::Bool(builtins::test(&value, &test.name, &given.positional, &mut self.budget)?)
            }
        })
    }

    #[inline(never)] // keeps the frame of `node` small, which is what recursion costs
    fn map(&mut self, entries: &[(Expr, Expr)]) -> Result<Value> {
        self.budget.make_list(entries.len() * 2)?;
        let mut made: Vec<(Arc<str>, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let Value::Text(key) = self.eval(key)? else {
                return Err(Problem::new("keys of a map must be texts"));
            };
            let value = self.eval(value)?;
            self.budget.search(made.len(), &key)?;
            match made.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = value,
                None => made.push((key, value)),
            }
        }
        Value::map(made)
    }

    #[inline(never)]
    fn comparison(&mut self, first: &Expr, rest: &[(super::ast::Comparison, Expr)]) -> Result<Value> {
        let mut left = self.eval(first)?;
        for (comparison, right) in rest {
            let right = self.eval(right)?;
            if !operators::compare(*comparison, &left, &right, &mut self.budget)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    #[inline(never)]
    fn slice(&mut self, value: &Expr, parts: &[Option<Expr>; 3]) -> Result<Value> {
        let value = self.eval(value)?;
        let mut bounds = [None; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            let Some(part) = part else { continue };
            *bound = match self.eval(part)? {
                Value::Int(n) => Some(n),
                Value::None => None,
                other => return Err(Problem::new(format!("a slice takes whole numbers, but got {}", other.kind()))),
            };
        }
        operators::slice(&value, bounds, &mut self.budget)
    }

    #[inline(never)]
    fn call(&mut self, name: &str, arguments: &Arguments) -> Result<Value> {
        let found = self.lookup(name)?;
        let given = self.arguments(arguments)?;
        match found {
            Value::Macro(it) => self.call_macro(&it, given),
            Value::Undefined => match name {
                "namespace" if given.positional.is_empty() => Namespace::value(given.named),
                _ => builtins::function(name, given, &mut self.budget),
            },
            other => Err(Problem::new(format!("`{}` is {}, which cannot be called", shortened(name), other.kind()))),
        }
    }

    fn call_macro(&mut self, it: &Macro, given: Given) -> Result<Value> {
        // Every parameter is looked for among the named arguments.
        let n = it.parameters.len().saturating_mul(given.named.len() + 1);
        self.budget.search(n, "")?;
        let name = shortened(&it.name);
        if given.positional.len() > it.parameters.len() {
            let (n, most) = (given.positional.len(), it.parameters.len());
            return Err(Problem::new(format!("macro `{name}` takes {most} arguments, but got {n}")));
        }
        let unknown = given.named.iter().find(|(named, _)| !it.parameters.iter().any(|(known, _)| known == named));
        if let Some((unknown, _)) = unknown {
            return Err(Problem::new(format!("macro `{name}` has no parameter `{}`", shortened(unknown))));
        }
        let (base, line) = (self.base, self.line);
        self.base = self.frames.len();
        self.frames.push(Frame::new());
        let mut positional = given.positional.into_iter();
        for (parameter, default) in &it.parameters {
            let named = given.named.iter().find(|(named, _)| named == parameter).map(|(_, value)| value.clone());
            let value = match (positional.next().or(named), default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default)?,
                (None, None) => Value::Undefined,
            };
            self.store(parameter, value)?;
        }
        let text = self.captured(|machine| machine.body(&it.body).map(drop))?;
        self.frames.pop();
        (self.base, self.line) = (base, line);
        Ok(text)
    }

    #[inline(never)]
    fn filter(&mut self, value: Value, filter: &Filter) -> Result<Value> {
        let given = self.arguments(&filter.arguments)?;
        builtins::filter(value, &filter.name, &given, &mut self.budget)
    }

    fn arguments(&mut self, arguments: &Arguments) -> Result<Given> {
        self.budget.make_list(arguments.positional.len() + arguments.named.len())?;
        let positional = arguments.positional.iter().map(|value| self.eval(value)).collect::<Result<_>>()?;
        let named = arguments.named.iter().map(|(name, value)| Ok((name.clone(), self.eval(value)?)));
        Ok(Given { positional, named: named.collect::<Result<_>>()? })
    }
}
