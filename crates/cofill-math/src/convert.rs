//! A parse tree to a formula, with the meanings sympy's reader gives: which letters are functions, when `x` is a times sign,
//! what `\sin^{-1}` and `\frac{d}{dx}` are.

use super::expr::{Calculus, Expr, Function, Series};
use super::grammar::Rule;
use super::lexer::{Kind, Token, Tokens};
use super::number::Number;
use super::parser::{Piece, Tree};
use super::{Stop, Work, read_within};

/// Reads formulas off a tree.
pub(super) struct Reader<'a, 't> {
    pub(super) tokens: &'a Tokens<'t>,
    pub(super) work: &'a mut Work,
    pub(super) depth: u32,
}

/// A factor: a formula, or `\frac{d}{dx}` waiting for one.
enum Factor {
    Plain(Expr),
    Differentiate(String),
}

impl Factor {
    fn plain(self) -> Result<Expr, Stop> {
        match self {
            Factor::Plain(expr) => Ok(expr),
            Factor::Differentiate(_) => Err(Stop::Syntax),
        }
    }
}

fn part(tree: &Tree, rule: Rule) -> Result<&Tree, Stop> {
    tree.get(rule).ok_or(Stop::Syntax)
}

fn nth(tree: &Tree, rule: Rule, at: usize) -> Result<&Tree, Stop> {
    tree.nth(rule, at).ok_or(Stop::Syntax)
}

impl Reader<'_, '_> {
    /// The whole answer. A relation is no formula: sympy cannot subtract one from another.
    pub(super) fn math(&mut self, math: &Tree) -> Result<Expr, Stop> {
        let relation = part(math, Rule::Relation)?;
        self.expr(part(relation, Rule::Expr)?)
    }

    fn expr(&mut self, expr: &Tree) -> Result<Expr, Stop> {
        self.factor_expr(expr)?.plain()
    }

    /// An `expr` that may turn out to be a bare `\frac{d}{dx}`.
    fn factor_expr(&mut self, expr: &Tree) -> Result<Factor, Stop> {
        self.additive(part(expr, Rule::Additive)?)
    }

    fn additive(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        self.deeper(|reader| {
            let Some(operator) = tree.token(&[Kind::Add, Kind::Sub]) else {
                return reader.product(part(tree, Rule::Product)?);
            };
            let left = reader.additive(nth(tree, Rule::Additive, 0)?)?.plain()?;
            let right = reader.additive(nth(tree, Rule::Additive, 1)?)?.plain()?;
            let right = match (operator.kind, right) {
                (Kind::Add, right) => right,
                (_, Expr::Number(n)) => Expr::Number(n.negated()),
                (_, right) => Expr::mul(Expr::int(-1), right),
            };
            Ok(Factor::Plain(Expr::add(left, right)))
        })
    }

    /// Either kind of product: with or without functions among its factors.
    fn product(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        self.deeper(|reader| {
            let operands: Vec<&Tree> = [Rule::Product, Rule::ProductNofunc].iter().flat_map(|r| tree.all(*r)).collect();
            if let [left, right] = operands[..] {
                let left = reader.product(left)?.plain()?;
                let right = reader.product(right)?.plain()?;
                let times = tree.token(&[Kind::Mul, Kind::Times, Kind::Cdot]).is_some();
                let right = if times { right } else { Expr::pow(right, Expr::int(-1)) };
                return Ok(Factor::Plain(Expr::mul(left, right)));
            }
            match tree.get(Rule::Unary).or(tree.get(Rule::UnaryNofunc)) {
                Some(unary) => reader.unary(unary),
                None => Err(Stop::Syntax),
            }
        })
    }

    fn unary(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        self.deeper(|reader| {
            if let Some(inner) = tree.get(Rule::Unary).or(tree.get(Rule::UnaryNofunc)) {
                let inner = reader.unary(inner)?;
                return match tree.token(&[Kind::Sub]) {
                    Some(_) => Ok(Factor::Plain(inner.plain()?.negated())),
                    None => Ok(inner),
                };
            }
            let factors = tree.parts.iter().filter_map(|part| match part {
                Piece::Tree(tree) => Some(reader.postfix(tree)),
                Piece::Token(_) => None,
            });
            juxtaposed(factors.collect::<Result<_, _>>()?)
        })
    }

    fn postfix(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        let power = tree.get(Rule::Power).or(tree.get(Rule::PowerNofunc)).ok_or(Stop::Syntax)?;
        let mut factor = self.power(power)?;
        for operation in tree.all(Rule::PostfixOp) {
            let expr = factor.plain()?;
            factor = Factor::Plain(match operation.get(Rule::EvalAt) {
                None => Expr::call(Function::Factorial, expr),
                Some(at) => self.evaluated_at(expr, at)?,
            });
        }
        Ok(factor)
    }

    /// `f |_{x=a}`, `f |^{x=b}`, or the difference of both.
    fn evaluated_at(&mut self, expr: Expr, at: &Tree) -> Result<Expr, Stop> {
        let upper = at.get(Rule::EvalAtSup).map(|at| self.replaced(&expr, at)).transpose()?;
        let lower = at.get(Rule::EvalAtSub).map(|at| self.replaced(&expr, at)).transpose()?;
        Ok(match (upper, lower) {
            (Some(upper), Some(lower)) => Expr::add(upper, lower.negated()),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => expr,
        })
    }

    fn replaced(&mut self, expr: &Expr, at: &Tree) -> Result<Expr, Stop> {
        if let Some(equality) = at.get(Rule::Equality) {
            let left = self.expr(nth(equality, Rule::Expr, 0)?)?;
            let right = self.expr(nth(equality, Rule::Expr, 1)?)?;
            return Ok(match left {
                Expr::Symbol(name) => expr.substituted(&name, &right),
                _ => expr.clone(),
            });
        }
        // Without an equation the variable is whichever the value mentions.
        let value = self.expr(part(at, Rule::Expr)?)?;
        let mut names = Vec::new();
        symbols(&value, &mut names);
        Ok(names.first().map_or_else(|| expr.clone(), |name| expr.substituted(name, &value)))
    }

    fn power(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        self.deeper(|reader| {
            if let Some(base) = tree.get(Rule::Power).or(tree.get(Rule::PowerNofunc)) {
                let base = reader.power(base)?.plain()?;
                let exponent = reader.argument(tree)?;
                return Ok(Factor::Plain(Expr::pow(base, exponent)));
            }
            match tree.get(Rule::Comp).or(tree.get(Rule::CompNofunc)) {
                Some(comp) => reader.comp(comp),
                None => Err(Stop::Syntax),
            }
        })
    }

    /// The atom or braced formula of `^` and `_`.
    fn argument(&mut self, tree: &Tree) -> Result<Expr, Stop> {
        match tree.get(Rule::Atom) {
            Some(atom) => self.atom(atom)?.plain(),
            None => self.expr(part(tree, Rule::Expr)?),
        }
    }

    fn comp(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        let Some(Piece::Tree(inner)) = tree.parts.first() else { return Err(Stop::Syntax) };
        let around = |function, expr| Ok(Factor::Plain(Expr::call(function, expr)));
        match inner.rule {
            Rule::Group => self.factor_expr(part(inner, Rule::Expr)?),
            Rule::AbsGroup => around(Function::Abs, self.expr(part(inner, Rule::Expr)?)?),
            Rule::Floor => around(Function::Floor, self.expr(part(inner, Rule::Expr)?)?),
            Rule::Ceil => around(Function::Ceiling, self.expr(part(inner, Rule::Expr)?)?),
            Rule::Func => self.func(inner).map(Factor::Plain),
            _ => self.atom(inner),
        }
    }

    fn atom(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        let plain = |expr| Ok(Factor::Plain(expr));
        if let Some(token) = tree.token(&[Kind::Symbol]) {
            if self.tokens.text(token) == "\\infty" {
                return plain(Expr::Infinity);
            }
            // A command loses its primes.
            return plain(Expr::Symbol(self.subscripted(tree, token)?));
        }
        if let Some(token) = tree.token(&[Kind::Letter]) {
            let mut name = self.subscripted(tree, token)?;
            if let Some(quotes) = tree.token(&[Kind::Quotes]) {
                name.push_str(self.tokens.text(quotes));
            }
            return plain(Expr::Symbol(name));
        }
        if let Some(token) = tree.token(&[Kind::Differential]) {
            return plain(Expr::Symbol(format!("d{}", self.differential(token))));
        }
        let Some(Piece::Tree(inner)) = tree.parts.first() else { return Err(Stop::Syntax) };
        match inner.rule {
            Rule::Number => {
                let digits: String =
                    inner.tokens().iter().map(|t| self.tokens.text(*t)).filter(|t| *t != ",").collect();
                plain(Expr::Number(Number::read(&digits)?))
            }
            Rule::Mathit => {
                let letters = part(inner, Rule::MathitText)?.tokens();
                let name = letters.iter().map(|t| self.tokens.text(*t)).collect();
                plain(Expr::Symbol(name))
            }
            Rule::Frac => self.frac(inner),
            Rule::Binom => {
                let n = self.expr(nth(inner, Rule::Expr, 0)?)?;
                let k = self.expr(nth(inner, Rule::Expr, 1)?)?;
                plain(Expr::Binomial(Box::new(n), Box::new(k)))
            }
            Rule::Bra => plain(Expr::Opaque("bra".into(), vec![self.expr(part(inner, Rule::Expr)?)?])),
            Rule::Ket => plain(Expr::Opaque("ket".into(), vec![self.expr(part(inner, Rule::Expr)?)?])),
            _ => Err(Stop::Syntax),
        }
    }

    /// A name with its subscript, which becomes part of the name.
    fn subscripted(&mut self, tree: &Tree, name: Token) -> Result<String, Stop> {
        let mut name = self.tokens.text(name).trim_start_matches('\\').to_owned();
        if let Some(sub) = tree.get(Rule::Sub) {
            let subscript = self.argument(sub)?;
            name.push_str(&format!("_{{{subscript}}}"));
        }
        Ok(name)
    }

    /// The variable of `dx` or `d\alpha`.
    fn differential(&self, token: Token) -> String {
        self.tokens.text(token)[1..].trim_start().trim_start_matches('\\').to_owned()
    }

    fn frac(&mut self, tree: &Tree) -> Result<Factor, Stop> {
        let mut slots = Vec::new();
        for piece in &tree.parts {
            match piece {
                Piece::Tree(expr) => slots.push(Ok(expr)),
                Piece::Token(token) if token.kind == Kind::Digit => slots.push(Err(*token)),
                Piece::Token(_) => {}
            }
        }
        let [upper, lower] = slots[..] else { return Err(Stop::Syntax) };
        if let (Ok(upper), Ok(lower)) = (upper, lower)
            && let Some(derivative) = self.derivative(upper, lower)?
        {
            return Ok(derivative);
        }
        let mut slot = |slot: Result<&Tree, Token>| match slot {
            Ok(expr) => self.expr(expr),
            Err(digit) => Number::read(self.tokens.text(digit)).map(Expr::Number),
        };
        let top = slot(upper)?;
        let inverse = Expr::pow(slot(lower)?, Expr::int(-1));
        let is_one = matches!(&top, Expr::Number(n) if n.is_int(1));
        Ok(Factor::Plain(if is_one { inverse } else { Expr::mul(top, inverse) }))
    }

    /// `\frac{d}{dx}`, `\frac{df}{dx}` and the same with `\partial`.
    fn derivative(&mut self, upper: &Tree, lower: &Tree) -> Result<Option<Factor>, Stop> {
        let (above, below) = (upper.tokens(), lower.tokens());
        let partial = |t: &Token| t.kind == Kind::Symbol && self.tokens.text(*t) == "\\partial";
        let (variable, mark) = match below[..] {
            [d] if d.kind == Kind::Differential => (self.differential(d), "d"),
            [p, v] if partial(&p) && matches!(v.kind, Kind::Letter | Kind::Symbol) => {
                (self.tokens.text(v).trim_start_matches('\\').to_owned(), "\\partial")
            }
            _ => return Ok(None),
        };
        let (Some(&first), Some(&last)) = (above.first(), above.last()) else { return Ok(None) };
        let text = self.tokens.span(first, last);
        if text == mark {
            return Ok(Some(Factor::Differentiate(variable)));
        }
        let marked = if mark == "d" { text.starts_with('d') } else { partial(&first) };
        if !marked {
            return Ok(None);
        }
        let of = read_within(&text[mark.len()..], self.work, self.depth + 1)?;
        if matches!(&of, Expr::Number(n) if n.is_zero()) {
            return Ok(None);
        }
        Ok(Some(Factor::Plain(derivative_of(of, variable))))
    }

    fn func(&mut self, tree: &Tree) -> Result<Expr, Stop> {
        let head = match tree.parts.first() {
            Some(Piece::Token(token)) => *token,
            _ => return Err(Stop::Syntax),
        };
        match head.kind {
            Kind::Function => self.named_function(tree, head),
            Kind::Letter | Kind::Symbol => {
                let mut name = self.subscripted(tree, head)?;
                if let Some(quotes) = tree.token(&[Kind::Quotes]) {
                    name.push_str(self.tokens.text(quotes));
                }
                let mut given = Vec::new();
                let mut args = tree.get(Rule::Args);
                while let Some(more) = args {
                    given.push(self.expr(part(more, Rule::Expr)?)?);
                    args = more.get(Rule::Args);
                }
                Ok(Expr::Apply(name, given))
            }
            Kind::Sqrt => {
                let exprs: Vec<&Tree> = tree.all(Rule::Expr).collect();
                let (degree, base) = match exprs[..] {
                    [degree, base] => (self.expr(degree)?, self.expr(base)?),
                    [base] => (Expr::int(2), self.expr(base)?),
                    _ => return Err(Stop::Syntax),
                };
                Ok(Expr::pow(base, Expr::pow(degree, Expr::int(-1))))
            }
            Kind::Overline => Ok(Expr::call(Function::Conjugate, self.expr(part(tree, Rule::Expr)?)?)),
            Kind::Sum | Kind::Prod => self.series(tree, head),
            Kind::Lim => {
                let under = part(tree, Rule::LimitSub)?;
                let variable = under.token(&[Kind::Letter, Kind::Symbol]).ok_or(Stop::Syntax)?;
                let side = under.token(&[Kind::Sub, Kind::Add]).map_or("", |t| self.tokens.text(t));
                let (variable, side) =
                    (self.tokens.text(variable).trim_start_matches('\\').to_owned(), side.to_owned());
                let to = self.expr(part(under, Rule::Expr)?)?;
                let args = vec![self.product(part(tree, Rule::Product)?)?.plain()?, to];
                Ok(Expr::Calculus { kind: Calculus::Limit(side), variable, args })
            }
            _ => self.integral(tree),
        }
    }

    fn named_function(&mut self, tree: &Tree, head: Token) -> Result<Expr, Stop> {
        // Of several arguments only the first counts.
        let arg = match tree.get(Rule::FuncArg) {
            Some(arg) => self.expr(part(arg, Rule::Expr)?)?,
            None => self.product(part(part(tree, Rule::FuncArgNoparens)?, Rule::ProductNofunc)?)?.plain()?,
        };
        let name = &self.tokens.text(head)[1..];
        let raised = tree.get(Rule::Sup).map(|sup| self.argument(sup)).transpose()?;
        let inverse = matches!(&raised, Some(Expr::Number(n)) if n.is_int(-1));
        let (function, inverse_function) = match name {
            "log" | "ln" | "lg" => {
                let base = match tree.get(Rule::Sub) {
                    Some(sub) => Some(self.argument(sub)?),
                    None => (name == "lg").then(|| Expr::int(10)),
                };
                return Ok(raise(Expr::Log(Box::new(arg), base.map(Box::new)), raised));
            }
            "exp" => (Function::Exp, None),
            "sin" => (Function::Sin, Some(Function::Asin)),
            "cos" => (Function::Cos, Some(Function::Acos)),
            "tan" => (Function::Tan, Some(Function::Atan)),
            "csc" => (Function::Csc, Some(Function::Acsc)),
            "sec" => (Function::Sec, Some(Function::Asec)),
            "cot" => (Function::Cot, Some(Function::Acot)),
            "sinh" => (Function::Sinh, Some(Function::Asinh)),
            "cosh" => (Function::Cosh, Some(Function::Acosh)),
            "tanh" => (Function::Tanh, Some(Function::Atanh)),
            "arcsin" => (Function::Asin, None),
            "arccos" => (Function::Acos, None),
            "arctan" => (Function::Atan, None),
            "arccsc" => (Function::Acsc, None),
            "arcsec" => (Function::Asec, None),
            "arccot" => (Function::Acot, None),
            "arsinh" => (Function::Asinh, None),
            "arcosh" => (Function::Acosh, None),
            "artanh" => (Function::Atanh, None),
            _ => return Err(Stop::Syntax),
        };
        match inverse_function {
            Some(inverse_function) if inverse => Ok(Expr::call(inverse_function, arg)),
            _ => Ok(raise(Expr::call(function, arg), raised)),
        }
    }

    fn series(&mut self, tree: &Tree, head: Token) -> Result<Expr, Stop> {
        let of = self.product(part(tree, Rule::Product)?)?.plain()?;
        let equality = part(part(tree, Rule::SubEq)?, Rule::Equality)?;
        let Expr::Symbol(variable) = self.expr(nth(equality, Rule::Expr, 0)?)? else { return Err(Stop::Syntax) };
        let from = self.expr(nth(equality, Rule::Expr, 1)?)?;
        let to = self.argument(part(tree, Rule::Sup)?)?;
        let kind = if head.kind == Kind::Sum { Series::Sum } else { Series::Product };
        Ok(Expr::Series { kind, of: Box::new(of), variable, from: Box::new(from), to: Box::new(to) })
    }

    fn integral(&mut self, tree: &Tree) -> Result<Expr, Stop> {
        let mut integrand = match (tree.get(Rule::Additive), tree.get(Rule::Frac)) {
            (Some(additive), _) => self.additive(additive)?.plain()?,
            (None, Some(frac)) => self.frac(frac)?.plain()?,
            (None, None) => Expr::int(1),
        };
        let variable = match tree.token(&[Kind::Differential]) {
            Some(token) => self.differential(token),
            None => {
                // A `dx` lost among the factors still names the variable.
                let mut names = Vec::new();
                symbols(&integrand, &mut names);
                match names.iter().find(|name| name.len() > 1 && name.starts_with('d')) {
                    Some(name) => {
                        integrand = integrand.substituted(name, &Expr::int(1));
                        name[1..].to_owned()
                    }
                    None => "x".to_owned(),
                }
            }
        };
        let mut args = vec![integrand];
        if let (Some(sub), Some(sup)) = (tree.get(Rule::Sub), tree.get(Rule::Sup)) {
            args.push(self.argument(sub)?);
            args.push(self.argument(sup)?);
        }
        Ok(Expr::Calculus { kind: Calculus::Integral, variable, args })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        self.depth += 1;
        self.work.nest(self.depth)?;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// A power on a function; the power 0 is overlooked, as sympy's reader does.
fn raise(expr: Expr, power: Option<Expr>) -> Expr {
    match power {
        Some(Expr::Number(n)) if n.is_zero() => expr,
        Some(power) => Expr::pow(expr, power),
        None => expr,
    }
}

fn derivative_of(expr: Expr, variable: String) -> Expr {
    Expr::Calculus { kind: Calculus::Derivative, variable, args: vec![expr] }
}

fn symbols(expr: &Expr, names: &mut Vec<String>) {
    if let Expr::Symbol(name) = expr {
        names.push(name.clone());
    }
    expr.children().into_iter().for_each(|child| symbols(child, names));
}

/// Factors side by side: `a (b (c d))`. An `x` between two factors without variables is a times sign.
fn juxtaposed(factors: Vec<Factor>) -> Result<Factor, Stop> {
    let no_symbols = |f: Option<&Factor>| matches!(f, Some(Factor::Plain(e)) if !e.has_symbols());
    let is_times: Vec<bool> = (0..factors.len())
        .map(|i| {
            let is_x = matches!(&factors[i], Factor::Plain(Expr::Symbol(name)) if name == "x");
            is_x && i > 0 && no_symbols(factors.get(i - 1)) && no_symbols(factors.get(i + 1))
        })
        .collect();
    let mut right: Option<Expr> = None;
    let count = factors.len();
    for (factor, is_times) in factors.into_iter().zip(is_times).rev() {
        right = Some(match (factor, right) {
            (Factor::Plain(_), Some(right)) if is_times => right,
            (Factor::Plain(left), Some(right)) => Expr::mul(left, right),
            (Factor::Plain(only), None) => only,
            (Factor::Differentiate(variable), Some(right)) => derivative_of(right, variable),
            (factor, None) if count == 1 => return Ok(factor),
            (Factor::Differentiate(_), None) => return Err(Stop::Syntax),
        });
    }
    right.map(Factor::Plain).ok_or(Stop::Syntax)
}
