//! From expressions to an automaton: pieces are joined by empty edges, then sets of states become states.

use crate::dfa::{DEAD, Dfa, RAW_STATES, STATES};
use crate::work::Work;
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The most states of an automaton with empty edges.
const PIECES: usize = 200_000;

/// What languages are put together from.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// Any text of this automaton.
    Dfa(Arc<Dfa>),
    /// One after the other.
    Concat(Vec<Expr>),
    /// One of them.
    Alt(Vec<Expr>),
    /// Between `min` and `max` times; without `max`, any number of times.
    Repeat { of: Box<Expr>, min: usize, max: Option<usize> },
    /// The same, with a separator between two of them.
    List { of: Box<Expr>, separator: Box<Expr>, min: usize, max: Option<usize> },
    /// Each once, in this order, with a separator between two of them; those that are not required (`false`) may be left out.
    Members { members: Vec<(Expr, bool)>, separator: Box<Expr> },
}

impl Expr {
    pub(crate) fn text(text: &str) -> Expr {
        Expr::Bytes(text.as_bytes().to_vec())
    }

    pub(crate) fn repeat(self, min: usize, max: Option<usize>) -> Expr {
        Expr::Repeat { of: Box::new(self), min, max }
    }

    /// The minimal automaton; refused if it is too large, soon and within bounded memory.
    pub(crate) fn dfa(&self, work: &Work) -> Result<Dfa> {
        let mut nfa = Nfa::default();
        let (start, end) = (nfa.add()?, nfa.add()?);
        nfa.states[end as usize].accepts = true;
        nfa.expr(self, start, end)?;
        nfa.determinise(start, work)?.reduced(work)
    }
}

/// An automaton with empty edges.
#[derive(Debug, Default)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<NfaState>,
}

#[derive(Debug, Default)]
pub(crate) struct NfaState {
    pub(crate) accepts: bool,
    /// Edges that read nothing.
    pub(crate) empty: Vec<u32>,
    /// Edges that read a byte between the two.
    pub(crate) bytes: Vec<(u8, u8, u32)>,
}

impl Nfa {
    pub(crate) fn add(&mut self) -> Result<u32> {
        if self.states.len() >= PIECES {
            return Err(Error::TooManyStates { states: self.states.len(), limit: STATES });
        }
        self.states.push(NfaState::default());
        Ok(self.states.len() as u32 - 1)
    }

    fn link(&mut self, from: u32, to: u32) {
        self.states[from as usize].empty.push(to);
    }

    /// Lets every text of the expression lead from `from` to `to`. No edge is added that enters `from` or leaves `to`.
    fn expr(&mut self, expr: &Expr, from: u32, to: u32) -> Result<()> {
        match expr {
            Expr::Bytes(bytes) => {
                let mut at = from;
                for &byte in bytes {
                    let next = self.add()?;
                    self.states[at as usize].bytes.push((byte, byte, next));
                    at = next;
                }
                self.link(at, to);
            }
            Expr::Dfa(dfa) => self.automaton(dfa, from, to)?,
            Expr::Concat(parts) => {
                let mut at = from;
                for part in parts {
                    let next = self.add()?;
                    self.expr(part, at, next)?;
                    at = next;
                }
                self.link(at, to);
            }
            Expr::Alt(options) => {
                for option in options {
                    let (start, end) = (self.add()?, self.add()?);
                    self.link(from, start);
                    self.expr(option, start, end)?;
                    self.link(end, to);
                }
            }
            Expr::Repeat { of, min, max } => self.list(of, None, *min, *max, from, to)?,
            Expr::Members { members, separator } => self.members(members, separator, from, to)?,
            Expr::List { of, separator, min, max } => self.list(of, Some(separator), *min, *max, from, to)?,
        }
        Ok(())
    }

    /// `min` to `max` items. Each optional one is entered from the one before it, so that few states are live at a time.
    fn list(
        &mut self,
        of: &Expr,
        between: Option<&Expr>,
        min: usize,
        max: Option<usize>,
        from: u32,
        to: u32,
    ) -> Result<()> {
        if min == 0 {
            self.link(from, to);
        }
        let mut at = self.add()?; // before an item
        self.link(from, at);
        for i in 1.. {
            if max.is_some_and(|max| i > max) {
                break;
            }
            let end = self.add()?;
            self.expr(of, at, end)?;
            if i >= min {
                self.link(end, to);
            }
            let last = max.is_none() && i >= min.max(1);
            let next = if last { at } else { self.add()? };
            match between {
                _ if max == Some(i) => {}
                Some(separator) => {
                    let (start, stop) = (self.add()?, self.add()?);
                    self.link(end, start);
                    self.expr(separator, start, stop)?;
                    self.link(stop, next);
                }
                None => self.link(end, next),
            }
            if last {
                break;
            }
            at = next;
        }
        Ok(())
    }

    fn members(&mut self, members: &[(Expr, bool)], separator: &Expr, from: u32, to: u32) -> Result<()> {
        let (mut nothing, mut something) = (Some(from), None); // before the next member: where nobody, where somebody has been written
        for (member, required) in members {
            let (start, end) = (self.add()?, self.add()?);
            if let Some(state) = nothing {
                self.link(state, start);
            }
            if let Some(state) = something {
                let behind = self.add()?;
                self.expr(separator, state, behind)?;
                self.link(behind, start);
            }
            self.expr(member, start, end)?;
            let next = self.add()?;
            self.link(end, next);
            if *required {
                nothing = None;
            } else if let Some(state) = something {
                self.link(state, next);
            }
            something = Some(next);
        }
        nothing.into_iter().chain(something).for_each(|state| self.link(state, to));
        Ok(())
    }

    fn automaton(&mut self, dfa: &Dfa, from: u32, to: u32) -> Result<()> {
        let first = self.states.len() as u32;
        for _ in 0..dfa.states() {
            self.add()?;
        }
        for q in 0..dfa.states() as u32 {
            let state = &mut self.states[(first + q) as usize];
            for byte in 0..=255 {
                let target = dfa.step(q, byte);
                if target == DEAD {
                    continue;
                }
                match state.bytes.last_mut() {
                    Some((_, end, t)) if *t == first + target && *end + 1 == byte => *end = byte,
                    _ => state.bytes.push((byte, byte, first + target)),
                }
            }
            if dfa.accepts[q as usize] {
                state.empty.push(to);
            }
        }
        if dfa.states() > 0 {
            self.link(from, first);
        }
        Ok(())
    }

    /// The deterministic automaton of the same language, not yet minimal.
    pub(crate) fn determinise(&self, start: u32, work: &Work) -> Result<Dfa> {
        work.spend(8 * self.states.len())?;
        let (class, bytes) = self.byte_classes();
        let classes = bytes.len();
        let mut sets = Sets {
            nfa: self,
            ids: HashMap::new(),
            members: Vec::new(),
            seen: vec![0; self.states.len()],
            round: 0,
            work,
        };
        let mut dfa = Dfa { class, classes, next: Vec::new(), accepts: Vec::new() };
        let mut targets: Vec<Vec<u32>> = vec![Vec::new(); classes];
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new(); // what edges lead to, before empty edges are followed
        sets.id(&[start])?;
        let mut done = 0;
        while let Some(set) = sets.members.get(done).cloned() {
            done += 1;
            dfa.accepts.push(set.iter().any(|&q| self.states[q as usize].accepts));
            for &q in set.iter() {
                for &(low, high, to) in &self.states[q as usize].bytes {
                    let (low, high) = (dfa.class[usize::from(low)], dfa.class[usize::from(high)]);
                    (low..=high).for_each(|c| targets[usize::from(c)].push(to));
                    work.spend(usize::from(high - low) + 1)?;
                }
            }
            for list in &mut targets {
                if list.is_empty() {
                    dfa.next.push(DEAD);
                    continue;
                }
                list.sort_unstable();
                list.dedup();
                let id = match known.get(list.as_slice()) {
                    Some(&id) => id,
                    None => {
                        let id = sets.id(list)?;
                        work.spend(list.len())?;
                        known.insert(list.clone(), id);
                        id
                    }
                };
                dfa.next.push(id);
                list.clear();
            }
        }
        Ok(dfa)
    }

    /// Bytes that no edge tells apart, in the order of bytes, and the first of each class.
    fn byte_classes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut begins = [false; 257];
        begins[0] = true;
        for &(low, high, _) in self.states.iter().flat_map(|state| &state.bytes) {
            begins[usize::from(low)] = true;
            begins[usize::from(high) + 1] = true;
        }
        let bytes: Vec<u8> = (0..=255).filter(|&byte| begins[usize::from(byte)]).collect();
        let class = (0..=255u8).map(|byte| (bytes.partition_point(|&first| first <= byte) - 1) as u8).collect();
        (class, bytes)
    }
}

/// Sets of states by number.
struct Sets<'a> {
    nfa: &'a Nfa,
    ids: HashMap<Arc<[u32]>, u32>,
    members: Vec<Arc<[u32]>>,
    seen: Vec<u32>, // [states]: the round in which a state was last met
    round: u32,
    work: &'a Work,
}

impl Sets<'_> {
    /// The number of the set of all states that empty edges reach from these. Only states that accept or read are kept.
    fn id(&mut self, from: &[u32]) -> Result<u32> {
        self.round += 1;
        let (mut stack, mut set) = (from.to_vec(), Vec::new());
        while let Some(q) = stack.pop() {
            if std::mem::replace(&mut self.seen[q as usize], self.round) == self.round {
                continue;
            }
            self.work.spend(1)?;
            let state = &self.nfa.states[q as usize];
            if state.accepts || !state.bytes.is_empty() {
                set.push(q);
            }
            stack.extend(&state.empty);
        }
        set.sort_unstable();
        let fresh = self.members.len() as u32;
        let set: Arc<[u32]> = set.into();
        let id = *self.ids.entry(set.clone()).or_insert(fresh);
        if id == fresh {
            self.members.push(set);
        }
        if self.members.len() > RAW_STATES {
            return Err(Error::TooManyStates { states: self.members.len(), limit: STATES });
        }
        Ok(id)
    }
}
