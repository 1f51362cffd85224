//! Tokens to a parse tree, walking the grammar's network and asking the predictor at every fork.
//!
//! The walk keeps its own stack instead of recursing, so that no input can overflow ours.
//!
//! Why this is not `antlr4rust`: it was tried and reads the same trees, but not within a limit of work, and it takes six times as
//! much code. `docs/math.md` has the numbers.

use super::grammar::{Edge, NETWORK, Network, Rule, StateId};
use super::lexer::{Kind, Token, Tokens};
use super::predict::{Decision, Predictor};
use super::{Stop, Work};

/// A rule that matched, and what it consists of.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) rule: Rule,
    pub(super) parts: Vec<Piece>,
}

/// A part of a tree.
#[derive(Debug)]
pub(super) enum Piece {
    Token(Token),
    Tree(Tree),
}

impl Tree {
    /// The `nth` part that is a `rule`.
    pub(super) fn nth(&self, rule: Rule, nth: usize) -> Option<&Tree> {
        self.all(rule).nth(nth)
    }

    /// The first part that is a `rule`.
    pub(super) fn get(&self, rule: Rule) -> Option<&Tree> {
        self.nth(rule, 0)
    }

    /// The parts that are a `rule`.
    pub(super) fn all(&self, rule: Rule) -> impl Iterator<Item = &Tree> {
        self.parts.iter().filter_map(move |part| match part {
            Piece::Tree(tree) if tree.rule == rule => Some(tree),
            _ => None,
        })
    }

    /// The first token of one of these kinds, among the direct parts.
    pub(super) fn token(&self, kinds: &[Kind]) -> Option<Token> {
        self.parts.iter().find_map(|part| match part {
            Piece::Token(token) if kinds.contains(&token.kind) => Some(*token),
            _ => None,
        })
    }

    /// All tokens, in order.
    pub(super) fn tokens(&self) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut todo: Vec<&Piece> = self.parts.iter().rev().collect();
        while let Some(part) = todo.pop() {
            match part {
                Piece::Token(token) => tokens.push(*token),
                Piece::Tree(tree) => todo.extend(tree.parts.iter().rev()),
            }
        }
        tokens
    }
}

impl Drop for Tree {
    /// Takes the tree apart level by level: a left-associative chain may be deeper than our stack.
    fn drop(&mut self) {
        let mut todo = std::mem::take(&mut self.parts);
        while let Some(part) = todo.pop() {
            if let Piece::Tree(mut tree) = part {
                todo.append(&mut tree.parts);
            }
        }
    }
}

/// A rule being matched.
struct Frame {
    rule: Rule,
    precedence: u8,
    state: StateId,
    parts: Vec<Piece>,
}

/// Parses the longest formula at the beginning of the text, as far as the grammar's way of giving up allows.
pub(super) fn parse(tokens: &mut Tokens<'_>, work: &mut Work) -> Result<Tree, Stop> {
    let mut predictor = Predictor::new();
    let mut callers: Vec<StateId> = Vec::new();
    let mut frames =
        vec![Frame { rule: Rule::Math, precedence: 0, state: Network::start(Rule::Math), parts: Vec::new() }];
    let mut at = 0;
    loop {
        work.spend(1)?;
        work.nest(frames.len() as u32)?;
        let Some(frame) = frames.last_mut() else { return Err(Stop::Syntax) };
        let state = NETWORK.state(frame.state);
        if state.ends_rule {
            let tree = Tree { rule: frame.rule, parts: std::mem::take(&mut frame.parts) };
            frames.pop();
            let Some(caller) = frames.last_mut() else { return Ok(tree) };
            caller.parts.push(Piece::Tree(tree));
            caller.state = callers.pop().ok_or(Stop::Syntax)?;
            continue;
        }
        let chosen = if state.edges.len() > 1 {
            let decision = Decision { state: frame.state, precedence: frame.precedence, callers: &callers, at };
            predictor.predict(&decision, tokens, work)?
        } else {
            0
        };
        match state.edges[chosen] {
            Edge::Free(to) => {
                if chosen == 0 && state.operator_loop.is_some() {
                    // One more operator: what we have so far becomes its left operand.
                    let operand = Tree { rule: frame.rule, parts: std::mem::take(&mut frame.parts) };
                    frame.parts.push(Piece::Tree(operand));
                }
                frame.state = to;
            }
            Edge::Token(kinds, to) => {
                let token = tokens.get(at)?;
                if !kinds.contains(&token.kind) {
                    return Err(Stop::Syntax);
                }
                frame.parts.push(Piece::Token(token));
                frame.state = to;
                at += 1;
                tokens.get(at)?; // The next token is cut as soon as one is consumed.
            }
            Edge::Above(needed, to) => {
                if needed < frame.precedence {
                    return Err(Stop::Syntax);
                }
                frame.state = to;
            }
            Edge::Call { rule, precedence, back } => {
                callers.push(back);
                frames.push(Frame { rule, precedence, state: Network::start(rule), parts: Vec::new() });
            }
            Edge::Return { .. } => return Err(Stop::Syntax),
        }
    }
}
