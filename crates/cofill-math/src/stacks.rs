//! Sets of call stacks, shared and merged: the graph-structured stack of ALL(*) (Parr, Harwell and Fisher, 2014).
//!
//! A stack node is a sorted list of (caller's stack, state to return to). Nodes are hash-consed, so equal sets of stacks
//! have equal ids, and comparing two is comparing two numbers.

use super::grammar::StateId;
use std::collections::HashMap;

/// A set of call stacks, by the number of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Stack(u32);

/// Marks the bottom of a stack.
pub(super) const BOTTOM: StateId = StateId::MAX;

type Frames = Box<[(Stack, StateId)]>;

/// What an empty stack means when it meets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Merge {
    /// Any caller at all: it swallows every other stack. Prediction without the parser's own stack.
    Wildcard,
    /// No caller: one stack among others. Prediction with the parser's own stack.
    Exact,
}

/// All stacks of one parse.
pub(super) struct Stacks {
    nodes: Vec<Frames>,
    ids: HashMap<Frames, Stack>,
    merged: HashMap<(Stack, Stack, Merge), Stack>,
}

impl Stacks {
    pub(super) const EMPTY: Stack = Stack(0);
    const NONE: Stack = Stack(u32::MAX);

    pub(super) fn new() -> Self {
        let mut stacks = Stacks { nodes: Vec::new(), ids: HashMap::new(), merged: HashMap::new() };
        stacks.intern(Box::new([(Self::NONE, BOTTOM)]));
        stacks
    }

    fn intern(&mut self, frames: Frames) -> Stack {
        if let Some(&id) = self.ids.get(&frames) {
            return id;
        }
        let id = Stack(self.nodes.len() as u32);
        self.nodes.push(frames.clone());
        self.ids.insert(frames, id);
        id
    }

    /// `caller` with one more frame.
    pub(super) fn push(&mut self, caller: Stack, back: StateId) -> Stack {
        self.intern(Box::new([(caller, back)]))
    }

    /// The frames on top, lowest return state first; `BOTTOM` is last.
    pub(super) fn frames(&self, stack: Stack) -> &[(Stack, StateId)] {
        &self.nodes[stack.0 as usize]
    }

    /// Whether one of the stacks is empty.
    pub(super) fn has_empty(&self, stack: Stack) -> bool {
        self.frames(stack).last().is_some_and(|frame| frame.1 == BOTTOM)
    }

    /// Both sets of stacks.
    pub(super) fn merge(&mut self, a: Stack, b: Stack, how: Merge) -> Stack {
        if a == b || b == Self::NONE {
            return a;
        }
        if how == Merge::Wildcard && (a == Self::EMPTY || b == Self::EMPTY) {
            return Self::EMPTY;
        }
        let key = (a.min(b), a.max(b), how);
        if let Some(&known) = self.merged.get(&key) {
            return known;
        }
        let (left, right) = (self.frames(a).to_vec(), self.frames(b).to_vec());
        let mut frames = Vec::with_capacity(left.len() + right.len());
        let (mut i, mut j) = (0, 0);
        while i < left.len() || j < right.len() {
            match (left.get(i), right.get(j)) {
                (Some(&l), Some(&r)) if l.1 == r.1 => {
                    let caller = self.merge(l.0, r.0, how);
                    frames.push((caller, l.1));
                    i += 1;
                    j += 1;
                }
                (Some(&l), Some(&r)) if l.1 < r.1 => {
                    frames.push(l);
                    i += 1;
                }
                (Some(&l), None) => {
                    frames.push(l);
                    i += 1;
                }
                (_, Some(&r)) => {
                    frames.push(r);
                    j += 1;
                }
                (None, None) => break,
            }
        }
        let merged = self.intern(frames.into());
        self.merged.insert(key, merged);
        merged
    }
}
