//! Formulas, as sympy's parser leaves them: nothing evaluated, so `5/0` is a formula like any other.

use super::number::Number;
use std::fmt;

/// A formula as a tree: what sympy would build of the LaTeX.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Number(Number),
    /// A variable. `\pi`, `e` and `i` are variables too: sympy's parser gives them no value.
    Symbol(String),
    Infinity,
    Add(Box<Expr>, Box<Expr>),
    Mul(Box<Expr>, Box<Expr>),
    Pow(Box<Expr>, Box<Expr>),
    /// A function whose values we know.
    Call(Function, Box<Expr>),
    /// Logarithm to a base; `None` is e.
    Log(Box<Expr>, Option<Box<Expr>>),
    Binomial(Box<Expr>, Box<Expr>),
    /// A function we know nothing of: `f(x)`, and also `n(n+1)`.
    Apply(String, Vec<Expr>),
    /// A sum or product over a variable.
    Series {
        kind: Series,
        of: Box<Expr>,
        variable: String,
        from: Box<Expr>,
        to: Box<Expr>,
    },
    /// A derivative, integral or limit, of the first argument; then the bounds, or where to.
    Calculus {
        kind: Calculus,
        variable: String,
        args: Vec<Expr>,
    },
    /// Bras and kets: equal to themselves, and compared no further.
    Opaque(String, Vec<Expr>),
}

/// What is done with a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Calculus {
    Derivative,
    Integral,
    /// With the side, `+`, `-` or neither.
    Limit(String),
}

/// The two kinds of series: sums and products over a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    Sum,
    Product,
}

/// A function of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Abs,
    Conjugate,
    Factorial,
    Floor,
    Ceiling,
    Exp,
    Sin,
    Cos,
    Tan,
    Csc,
    Sec,
    Cot,
    Asin,
    Acos,
    Atan,
    Acsc,
    Asec,
    Acot,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
}

impl Function {
    /// Whether a decimal in the argument is told from the fraction it stands for. Not where factors move out.
    pub(super) fn keeps_decimals_apart(self) -> bool {
        use Function::*;
        !matches!(self, Abs | Conjugate | Factorial | Floor | Ceiling)
    }
}

impl Expr {
    pub(super) fn int(value: i64) -> Self {
        Expr::Number(Number::int(value))
    }

    pub(super) fn add(a: Expr, b: Expr) -> Self {
        Expr::Add(Box::new(a), Box::new(b))
    }

    pub(super) fn mul(a: Expr, b: Expr) -> Self {
        Expr::Mul(Box::new(a), Box::new(b))
    }

    pub(super) fn pow(a: Expr, b: Expr) -> Self {
        Expr::Pow(Box::new(a), Box::new(b))
    }

    pub(super) fn call(function: Function, of: Expr) -> Self {
        Expr::Call(function, Box::new(of))
    }

    /// The negative, with numbers negated in place as sympy does.
    pub(super) fn negated(self) -> Self {
        match self {
            Expr::Number(n) => Expr::Number(n.negated()),
            Expr::Mul(a, b) => match *a {
                Expr::Number(n) if n.is_int(-1) => *b,
                Expr::Number(n) => Expr::Mul(Box::new(Expr::Number(n.negated())), b),
                a => Expr::mul(Expr::int(-1), Expr::Mul(Box::new(a), b)),
            },
            other => Expr::mul(Expr::int(-1), other),
        }
    }

    /// The formulas directly inside.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Number(_) | Expr::Symbol(_) | Expr::Infinity => vec![],
            Expr::Add(a, b) | Expr::Mul(a, b) | Expr::Pow(a, b) | Expr::Binomial(a, b) => vec![a, b],
            Expr::Log(a, Some(b)) => vec![a, b],
            Expr::Call(_, a) | Expr::Log(a, None) => vec![a],
            Expr::Apply(_, args) | Expr::Opaque(_, args) | Expr::Calculus { args, .. } => args.iter().collect(),
            Expr::Series { of, from, to, .. } => vec![of, from, to],
        }
    }

    /// Whether some formula inside, or this one, satisfies `test`.
    pub(super) fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    pub(super) fn has_symbols(&self) -> bool {
        self.any(&|e| matches!(e, Expr::Symbol(_) | Expr::Calculus { .. } | Expr::Series { .. }))
    }

    /// This formula with every inner formula replaced by what `change` makes of it, from the leaves up.
    pub(super) fn map(&self, change: &dyn Fn(Expr) -> Expr) -> Expr {
        let inner = |e: &Expr| Box::new(e.map(change));
        let mapped = match self {
            Expr::Number(_) | Expr::Symbol(_) | Expr::Infinity => self.clone(),
            Expr::Add(a, b) => Expr::Add(inner(a), inner(b)),
            Expr::Mul(a, b) => Expr::Mul(inner(a), inner(b)),
            Expr::Pow(a, b) => Expr::Pow(inner(a), inner(b)),
            Expr::Binomial(a, b) => Expr::Binomial(inner(a), inner(b)),
            Expr::Call(f, a) => Expr::Call(*f, inner(a)),
            Expr::Log(a, base) => Expr::Log(inner(a), base.as_deref().map(inner)),
            Expr::Apply(name, args) => Expr::Apply(name.clone(), args.iter().map(|a| a.map(change)).collect()),
            Expr::Opaque(name, args) => Expr::Opaque(name.clone(), args.iter().map(|a| a.map(change)).collect()),
            Expr::Calculus { kind, variable, args } => Expr::Calculus {
                kind: kind.clone(),
                variable: variable.clone(),
                args: args.iter().map(|a| a.map(change)).collect(),
            },
            Expr::Series { kind, of, variable, from, to } => Expr::Series {
                kind: *kind,
                of: inner(of),
                variable: variable.clone(),
                from: inner(from),
                to: inner(to),
            },
        };
        change(mapped)
    }

    /// This formula with `name` replaced.
    pub(super) fn substituted(&self, name: &str, by: &Expr) -> Expr {
        self.map(&|e| if matches!(&e, Expr::Symbol(s) if s == name) { by.clone() } else { e })
    }
}

/// The text that names a subscript: `a_{n+1}` and `a_{1+n}` are one variable, `a_{2n}` and `a_{n2}` two.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number(n) => {
                write!(f, "{}", n.value)?;
                if n.bits.is_some() { write!(f, "f") } else { Ok(()) }
            }
            Expr::Symbol(name) => write!(f, "{name}"),
            Expr::Infinity => write!(f, "oo"),
            Expr::Add(a, b) => {
                let mut terms = [a.to_string(), b.to_string()];
                terms.sort();
                write!(f, "({} + {})", terms[0], terms[1])
            }
            Expr::Mul(a, b) => {
                let mut factors = [a.to_string(), b.to_string()];
                if !matches!(**b, Expr::Number(_)) {
                    factors.sort();
                }
                write!(f, "({}*{})", factors[0], factors[1])
            }
            Expr::Pow(a, b) => write!(f, "({a}**{b})"),
            Expr::Call(function, a) => write!(f, "{function:?}({a})"),
            Expr::Log(a, None) => write!(f, "log({a})"),
            Expr::Log(a, Some(b)) => write!(f, "log({a}, {b})"),
            Expr::Binomial(a, b) => write!(f, "binomial({a}, {b})"),
            Expr::Apply(name, args) | Expr::Opaque(name, args) => {
                write!(f, "{name}(")?;
                args.iter().try_for_each(|a| write!(f, "{a}, "))?;
                write!(f, ")")
            }
            Expr::Calculus { kind, variable, args } => write!(f, "{kind:?}({variable}, {args:?})"),
            Expr::Series { kind, of, variable, from, to } => write!(f, "{kind:?}({of}, {variable}, {from}, {to})"),
        }
    }
}
