//! The language of answers: which strings of tokens are formulas, as sympy 1.14's LaTeX grammar has it.
//!
//! The rules are written as data and compiled to a transition network, because the parser must *predict* like ANTLR's: which
//! prefix of a malformed answer counts is decided by how its prediction gives up, and no hand-written descent gets that
//! right in the corners. Left-recursive rules are written as ANTLR rewrites them: an operand, then a loop of operators
//! guarded by precedence.

use super::lexer::Kind::{self, *};
use std::sync::LazyLock;

/// Declares the rules once, as a type and as a list.
macro_rules! rules {
    ($($name:ident,)*) => {
        /// A rule of the grammar.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(super) enum Rule {
            $($name,)*
        }

        const RULES: &[Rule] = &[$(Rule::$name,)*];
    };
}

rules! {
    Math,
    Relation,
    Equality,
    Expr,
    Additive,
    Product,
    ProductNofunc,
    Unary,
    UnaryNofunc,
    Postfix,
    PostfixNofunc,
    PostfixOp,
    EvalAt,
    EvalAtSub,
    EvalAtSup,
    Power,
    PowerNofunc,
    Comp,
    CompNofunc,
    Group,
    AbsGroup,
    Number,
    Atom,
    Bra,
    Ket,
    Mathit,
    MathitText,
    Frac,
    Binom,
    Floor,
    Ceil,
    Func,
    Args,
    LimitSub,
    FuncArg,
    FuncArgNoparens,
    Sub,
    Sup,
    SubEq,
}

/// A piece of a rule's right-hand side.
enum Part {
    /// One token out of these.
    Token(&'static [Kind]),
    /// Another rule, called at a precedence.
    Call(Rule, u8),
    /// Go on only if the rule was called at this precedence or below.
    Above(u8),
    Seq(Vec<Part>),
    Choice(Vec<Part>),
    Optional(Box<Part>),
    Star(Box<Part>),
    Plus(Box<Part>),
}

fn token(kind: &'static [Kind]) -> Part {
    Part::Token(kind)
}

fn call(rule: Rule) -> Part {
    Part::Call(rule, 0)
}

fn seq<const N: usize>(parts: [Part; N]) -> Part {
    Part::Seq(parts.into())
}

fn choice<const N: usize>(parts: [Part; N]) -> Part {
    Part::Choice(parts.into())
}

fn optional(part: Part) -> Part {
    Part::Optional(Box::new(part))
}

fn star(part: Part) -> Part {
    Part::Star(Box::new(part))
}

fn plus(part: Part) -> Part {
    Part::Plus(Box::new(part))
}

/// `{ part }`
fn braced(part: Part) -> Part {
    seq([token(&[LBrace]), part, token(&[RBrace])])
}

/// A bare atom, or anything in braces: what `^` and `_` take.
fn argument() -> Part {
    choice([call(Rule::Atom), braced(call(Rule::Expr))])
}

/// A name's decorations, in either order: `a_1'`, `a'_1`.
fn marks() -> Part {
    choice([
        seq([optional(call(Rule::Sub)), optional(token(&[Quotes]))]),
        seq([optional(token(&[Quotes])), optional(call(Rule::Sub))]),
    ])
}

/// `first (operator operand)*`, left-associative: the operand binds tighter than the loop.
fn left_associative(first: Part, operators: &'static [Kind], operand: Rule) -> Part {
    seq([first, star(seq([Part::Above(2), token(operators), Part::Call(operand, 3)]))])
}

const PRODUCT: &[Kind] = &[Mul, Times, Cdot, Div, CmdDiv, Colon];
const RELATION: &[Kind] = &[Equal, Lt, Lte, Gt, Gte, Neq];

fn powers(base: Rule) -> Part {
    let raise = seq([Part::Above(2), token(&[Caret]), argument(), optional(call(Rule::Sub))]);
    seq([call(base), star(raise)])
}

fn definition(rule: Rule) -> Part {
    match rule {
        Rule::Math => call(Rule::Relation),
        Rule::Relation => left_associative(call(Rule::Expr), RELATION, Rule::Relation),
        Rule::Equality => seq([call(Rule::Expr), token(&[Equal]), call(Rule::Expr)]),
        Rule::Expr => call(Rule::Additive),
        Rule::Additive => left_associative(call(Rule::Product), &[Add, Sub], Rule::Additive),
        Rule::Product => left_associative(call(Rule::Unary), PRODUCT, Rule::Product),
        Rule::ProductNofunc => left_associative(call(Rule::UnaryNofunc), PRODUCT, Rule::ProductNofunc),
        Rule::Unary => choice([seq([token(&[Add, Sub]), call(Rule::Unary)]), plus(call(Rule::Postfix))]),
        Rule::UnaryNofunc => choice([
            seq([token(&[Add, Sub]), call(Rule::UnaryNofunc)]),
            seq([call(Rule::Postfix), star(call(Rule::PostfixNofunc))]),
        ]),
        Rule::Postfix => seq([call(Rule::Power), star(call(Rule::PostfixOp))]),
        Rule::PostfixNofunc => seq([call(Rule::PowerNofunc), star(call(Rule::PostfixOp))]),
        Rule::PostfixOp => choice([token(&[Bang]), call(Rule::EvalAt)]),
        Rule::EvalAt => seq([
            token(&[Bar]),
            choice([call(Rule::EvalAtSup), call(Rule::EvalAtSub), seq([call(Rule::EvalAtSup), call(Rule::EvalAtSub)])]),
        ]),
        Rule::EvalAtSub => seq([token(&[Underscore]), braced(choice([call(Rule::Expr), call(Rule::Equality)]))]),
        Rule::EvalAtSup => seq([token(&[Caret]), braced(choice([call(Rule::Expr), call(Rule::Equality)]))]),
        Rule::Power => powers(Rule::Comp),
        Rule::PowerNofunc => powers(Rule::CompNofunc),
        Rule::Comp => choice([
            call(Rule::Group),
            call(Rule::AbsGroup),
            call(Rule::Func),
            call(Rule::Atom),
            call(Rule::Floor),
            call(Rule::Ceil),
        ]),
        Rule::CompNofunc => {
            choice([call(Rule::Group), call(Rule::AbsGroup), call(Rule::Atom), call(Rule::Floor), call(Rule::Ceil)])
        }
        Rule::Group => choice([
            seq([token(&[LParen]), call(Rule::Expr), token(&[RParen])]),
            seq([token(&[LBracket]), call(Rule::Expr), token(&[RBracket])]),
            braced(call(Rule::Expr)),
            seq([token(&[LBraceLiteral]), call(Rule::Expr), token(&[RBraceLiteral])]),
        ]),
        Rule::AbsGroup => seq([token(&[Bar]), call(Rule::Expr), token(&[Bar])]),
        Rule::Number => seq([
            plus(token(&[Digit])),
            star(seq([token(&[Comma]), token(&[Digit]), token(&[Digit]), token(&[Digit])])),
            optional(seq([token(&[Dot]), plus(token(&[Digit]))])),
        ]),
        Rule::Atom => choice([
            seq([token(&[Letter, Symbol]), marks()]),
            call(Rule::Number),
            token(&[Differential]),
            call(Rule::Mathit),
            call(Rule::Frac),
            call(Rule::Binom),
            call(Rule::Bra),
            call(Rule::Ket),
        ]),
        Rule::Bra => seq([token(&[LAngle]), call(Rule::Expr), token(&[RightBar, Bar])]),
        Rule::Ket => seq([token(&[LeftBar, Bar]), call(Rule::Expr), token(&[RAngle])]),
        Rule::Mathit => seq([token(&[Kind::Mathit]), braced(call(Rule::MathitText))]),
        Rule::MathitText => star(token(&[Letter])),
        Rule::Frac => seq([
            token(&[Kind::Frac]),
            choice([token(&[Digit]), braced(call(Rule::Expr))]),
            choice([token(&[Digit]), braced(call(Rule::Expr))]),
        ]),
        Rule::Binom => seq([token(&[Kind::Binom]), braced(call(Rule::Expr)), braced(call(Rule::Expr))]),
        Rule::Floor => seq([token(&[LFloor]), call(Rule::Expr), token(&[RFloor])]),
        Rule::Ceil => seq([token(&[LCeil]), call(Rule::Expr), token(&[RCeil])]),
        Rule::Func => function(),
        Rule::Args => choice([seq([call(Rule::Expr), token(&[Comma]), call(Rule::Args)]), call(Rule::Expr)]),
        Rule::LimitSub => seq([
            token(&[Underscore]),
            token(&[LBrace]),
            token(&[Letter, Symbol]),
            token(&[Approach]),
            call(Rule::Expr),
            optional(seq([token(&[Caret]), choice([braced(token(&[Add, Sub])), token(&[Add]), token(&[Sub])])])),
            token(&[RBrace]),
        ]),
        Rule::FuncArg => choice([call(Rule::Expr), seq([call(Rule::Expr), token(&[Comma]), call(Rule::FuncArg)])]),
        Rule::FuncArgNoparens => call(Rule::ProductNofunc),
        Rule::Sub => seq([token(&[Underscore]), argument()]),
        Rule::Sup => seq([token(&[Caret]), argument()]),
        Rule::SubEq => seq([token(&[Underscore]), braced(call(Rule::Equality))]),
    }
}

fn function() -> Part {
    choice([
        seq([
            token(&[Function]),
            choice([
                seq([optional(call(Rule::Sub)), optional(call(Rule::Sup))]),
                seq([optional(call(Rule::Sup)), optional(call(Rule::Sub))]),
            ]),
            choice([seq([token(&[LParen]), call(Rule::FuncArg), token(&[RParen])]), call(Rule::FuncArgNoparens)]),
        ]),
        seq([token(&[Letter, Symbol]), marks(), token(&[LParen]), call(Rule::Args), token(&[RParen])]),
        seq([
            token(&[Int]),
            optional(choice([seq([call(Rule::Sub), call(Rule::Sup)]), seq([call(Rule::Sup), call(Rule::Sub)])])),
            choice([
                seq([optional(call(Rule::Additive)), token(&[Differential])]),
                call(Rule::Frac),
                call(Rule::Additive),
            ]),
        ]),
        seq([
            token(&[Sqrt]),
            optional(seq([token(&[LBracket]), call(Rule::Expr), token(&[RBracket])])),
            braced(call(Rule::Expr)),
        ]),
        seq([token(&[Overline]), braced(call(Rule::Expr))]),
        seq([
            token(&[Sum, Prod]),
            choice([seq([call(Rule::SubEq), call(Rule::Sup)]), seq([call(Rule::Sup), call(Rule::SubEq)])]),
            call(Rule::Product),
        ]),
        seq([token(&[Lim]), call(Rule::LimitSub), call(Rule::Product)]),
    ])
}

/// A state of the network.
pub(super) type StateId = u16;

/// A way from one state to another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Edge {
    Free(StateId),
    Token(&'static [Kind], StateId),
    Call {
        rule: Rule,
        precedence: u8,
        back: StateId,
    },
    Above(u8, StateId),
    /// From the end of a rule to a place it was called from. `outermost` when that call starts a fresh precedence.
    Return {
        back: StateId,
        outermost: bool,
    },
}

/// A state: edges in the order of the alternatives they stand for.
pub(super) struct State {
    pub(super) rule: Rule,
    pub(super) ends_rule: bool,
    /// For the loop of a left-recursive rule: the state its operand returns to.
    pub(super) operator_loop: Option<StateId>,
    pub(super) edges: Vec<Edge>,
}

/// The grammar, compiled to states and edges between them.
pub(super) struct Network {
    pub(super) states: Vec<State>,
}

/// The network, compiled at first use.
pub(super) static NETWORK: LazyLock<Network> = LazyLock::new(Network::compile);

impl Network {
    pub(super) fn state(&self, id: StateId) -> &State {
        &self.states[usize::from(id)]
    }

    /// Where a rule begins. Rule k owns states 2k (start) and 2k+1 (end).
    pub(super) fn start(rule: Rule) -> StateId {
        rule as StateId * 2
    }

    fn compile() -> Network {
        let mut network = Network { states: Vec::new() };
        for &rule in RULES {
            network.fresh(rule, Vec::new());
            let end = network.fresh(rule, Vec::new());
            network.states[usize::from(end)].ends_rule = true;
        }
        for &rule in RULES {
            let start = Network::start(rule);
            let entry = network.part(rule, &definition(rule), start + 1);
            network.states[usize::from(start)].edges.push(Edge::Free(entry));
        }
        let calls: Vec<Edge> = network.states.iter().flat_map(|s| s.edges.iter().copied()).collect();
        for edge in calls {
            if let Edge::Call { rule, precedence, back } = edge {
                let outermost = precedence == 0 && is_left_recursive(rule);
                let end = Network::start(rule) + 1;
                network.states[usize::from(end)].edges.push(Edge::Return { back, outermost });
            }
        }
        network
    }

    fn fresh(&mut self, rule: Rule, edges: Vec<Edge>) -> StateId {
        self.states.push(State { rule, ends_rule: false, operator_loop: None, edges });
        (self.states.len() - 1) as StateId
    }

    /// Compiles a part so that it goes on to `next`; gives its entry.
    fn part(&mut self, rule: Rule, part: &Part, next: StateId) -> StateId {
        match part {
            Part::Token(kinds) => self.fresh(rule, vec![Edge::Token(kinds, next)]),
            Part::Call(callee, precedence) => {
                self.fresh(rule, vec![Edge::Call { rule: *callee, precedence: *precedence, back: next }])
            }
            Part::Above(precedence) => self.fresh(rule, vec![Edge::Above(*precedence, next)]),
            Part::Seq(parts) => parts.iter().rev().fold(next, |next, part| self.part(rule, part, next)),
            Part::Choice(parts) => {
                let edges = parts.iter().map(|part| Edge::Free(self.part(rule, part, next))).collect();
                self.fresh(rule, edges)
            }
            Part::Optional(part) => {
                let inside = self.part(rule, part, next);
                self.fresh(rule, vec![Edge::Free(inside), Edge::Free(next)])
            }
            Part::Star(part) => {
                let entry = self.fresh(rule, Vec::new());
                let back = self.fresh(rule, vec![Edge::Free(entry)]);
                let inside = self.part(rule, part, back);
                let state = &mut self.states[usize::from(entry)];
                state.edges = vec![Edge::Free(inside), Edge::Free(next)];
                let guarded = matches!(&**part, Part::Seq(parts) if matches!(parts.first(), Some(Part::Above(_))));
                state.operator_loop = guarded.then_some(back);
                entry
            }
            Part::Plus(part) => {
                let again = self.fresh(rule, Vec::new());
                let inside = self.part(rule, part, again);
                self.states[usize::from(again)].edges = vec![Edge::Free(inside), Edge::Free(next)];
                inside
            }
        }
    }
}

fn is_left_recursive(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Relation | Rule::Additive | Rule::Product | Rule::ProductNofunc | Rule::Power | Rule::PowerNofunc
    )
}
