//! A template as a tree. Whoever builds a node keeps its height within [`MAX_HEIGHT`](super::MAX_HEIGHT), so recursion over
//! the tree, dropping it included, has a bounded depth.

use std::sync::Arc;

/// A statement and the line it starts in.
#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) line: usize,
    pub(super) kind: StmtKind,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    /// Text outside of tags.
    Text(Arc<str>),
    /// `{{ value }}`
    Emit(Expr),
    /// `{% if %}`, each `{% elif %}`, `{% else %}`
    If {
        branches: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    /// `{% for targets in items if condition %}`
    For {
        targets: Vec<Arc<str>>,
        items: Expr,
        condition: Option<Expr>,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    /// `{% set target = value %}`
    Set {
        target: Target,
        value: Expr,
    },
    /// `{% set target | filters %}...{% endset %}`
    Capture {
        target: Target,
        filters: Vec<Filter>,
        body: Vec<Stmt>,
    },
    /// `{% macro name(parameters) %}`
    Macro(Arc<Macro>),
    /// `{% with name = value %}`, and `{% generation %}`, which has no names
    With {
        names: Vec<(Arc<str>, Expr)>,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
}

/// What can be assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(Arc<str>),
    Names(Vec<Arc<str>>),
    /// `namespace.attribute`
    Attribute(Arc<str>, Arc<str>),
}

#[derive(Debug)]
pub(crate) struct Macro {
    pub(super) name: Arc<str>,
    pub(super) parameters: Vec<(Arc<str>, Option<Expr>)>,
    pub(super) body: Vec<Stmt>,
}

#[derive(Debug)]
pub(super) enum Expr {
    Literal(Literal),
    Variable(Arc<str>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(Binary, Box<(Expr, Expr)>),
    And(Box<(Expr, Expr)>),
    Or(Box<(Expr, Expr)>),
    /// `a < b == c`: every neighbour compared.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `then if condition else otherwise`
    Choice(Box<(Expr, Expr, Option<Expr>)>),
    Attribute(Box<Expr>, Arc<str>),
    Item(Box<(Expr, Expr)>),
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    /// `name(arguments)`
    Call(Arc<str>, Arguments),
    /// `value.name(arguments)`
    Method(Box<Expr>, Arc<str>, Arguments),
    Filter(Box<Expr>, Filter),
    Test(Box<Expr>, Filter),
}

#[derive(Debug, Clone)]
pub(super) enum Literal {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
}

/// A filter or a test.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: Arc<str>,
    pub(super) arguments: Arguments,
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Arc<str>, Expr)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Join,
    Multiply,
    Divide,
    DivideFloor,
    Remainder,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}
