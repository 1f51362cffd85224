//! Automata of bytes: deterministic, without useless states, minimal.

use crate::work::Work;
use crate::{Error, Result, minimise};
use std::collections::HashMap;

/// The most states of a language.
pub(crate) const STATES: usize = 20_000;
/// The most states on the way there, before equal ones are merged.
pub(crate) const RAW_STATES: usize = 2 * STATES;
/// No state: what is read can no longer become a text of the language.
pub(crate) const DEAD: u32 = u32::MAX;

/// A deterministic automaton of bytes. State 0 is the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dfa {
    pub(crate) class: Vec<u8>, // [256]: bytes that no state tells apart
    pub(crate) classes: usize,
    pub(crate) next: Vec<u32>,     // [states x classes]
    pub(crate) accepts: Vec<bool>, // [states]
}

impl Dfa {
    /// How many states there are; none if the language has no text.
    pub(crate) fn states(&self) -> usize {
        self.accepts.len()
    }

    /// Where a byte leads, or `DEAD`.
    pub(crate) fn step(&self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.classes + usize::from(self.class[usize::from(byte)])]
    }

    /// Whether this whole text is in the language.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        if self.states() == 0 {
            return false;
        }
        let mut state = 0;
        for &byte in text {
            state = self.step(state, byte);
            if state == DEAD {
                return false;
            }
        }
        self.accepts[state as usize]
    }

    /// The same language with the fewest states, in the order in which they are reached; refused if these are too many.
    pub(crate) fn reduced(self, work: &Work) -> Result<Dfa> {
        work.spend(self.next.len())?;
        let small = minimise::minimise(&self.trimmed()).trimmed().with_fewest_classes();
        if small.states() > STATES {
            return Err(Error::TooManyStates { states: small.states(), limit: STATES });
        }
        Ok(small)
    }

    /// Texts that are in both languages.
    pub(crate) fn intersection(&self, other: &Dfa, work: &Work) -> Result<Dfa> {
        let (class, pairs) = joint_classes(self, other);
        let mut dfa = Dfa { class, classes: pairs.len(), next: Vec::new(), accepts: Vec::new() };
        if self.states() == 0 || other.states() == 0 {
            return Ok(dfa);
        }
        let mut ids = HashMap::from([((0, 0), 0)]);
        let mut queue = vec![(0, 0)];
        let mut done = 0;
        while let Some(&(a, b)) = queue.get(done) {
            done += 1;
            work.spend(pairs.len())?;
            dfa.accepts.push(self.accepts[a as usize] && other.accepts[b as usize]);
            for &(byte_a, byte_b) in &pairs {
                let to = (self.step(a, byte_a), other.step(b, byte_b));
                let id = if to.0 == DEAD || to.1 == DEAD {
                    DEAD
                } else {
                    *ids.entry(to).or_insert_with(|| {
                        queue.push(to);
                        queue.len() as u32 - 1
                    })
                };
                dfa.next.push(id);
            }
            if queue.len() > RAW_STATES {
                return Err(Error::TooManyStates { states: queue.len(), limit: STATES });
            }
        }
        dfa.reduced(work)
    }

    /// A shortest text of the language; of several, the one whose bytes come first.
    pub(crate) fn shortest_text(&self) -> Option<Vec<u8>> {
        let mut from: Vec<Option<(u32, u8)>> = vec![None; self.states()];
        let mut queue: Vec<u32> = if self.states() > 0 { vec![0] } else { Vec::new() };
        let mut done = 0;
        while let Some(&state) = queue.get(done) {
            done += 1;
            if self.accepts[state as usize] {
                let (mut text, mut at) = (Vec::new(), state);
                while let (Some((before, byte)), true) = (from[at as usize], at != 0) {
                    text.push(byte);
                    at = before;
                }
                text.reverse();
                return Some(text);
            }
            for byte in 0..=255 {
                let to = self.step(state, byte);
                if to != DEAD && to != 0 && from[to as usize].is_none() {
                    from[to as usize] = Some((state, byte));
                    queue.push(to);
                }
            }
        }
        None
    }

    /// Without states that cannot be reached, or that reach no text; numbered in the order in which they are reached.
    fn trimmed(&self) -> Dfa {
        let n = self.states();
        let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (i, &to) in self.next.iter().enumerate() {
            if to != DEAD {
                back[to as usize].push((i / self.classes) as u32);
            }
        }
        let mut alive = self.accepts.clone();
        let mut stack: Vec<usize> = (0..n).filter(|&q| alive[q]).collect();
        while let Some(q) = stack.pop() {
            for &p in &back[q] {
                if !alive[p as usize] {
                    alive[p as usize] = true;
                    stack.push(p as usize);
                }
            }
        }
        let mut dfa = Dfa { class: self.class.clone(), classes: self.classes, next: Vec::new(), accepts: Vec::new() };
        if n == 0 || !alive[0] {
            return dfa;
        }
        let mut id = vec![DEAD; n];
        let mut order = vec![0];
        id[0] = 0;
        let mut done = 0;
        while let Some(&q) = order.get(done) {
            done += 1;
            dfa.accepts.push(self.accepts[q]);
            for &to in &self.next[q * self.classes..(q + 1) * self.classes] {
                let live = to != DEAD && alive[to as usize];
                if live && id[to as usize] == DEAD {
                    id[to as usize] = order.len() as u32;
                    order.push(to as usize);
                }
                dfa.next.push(if live { id[to as usize] } else { DEAD });
            }
        }
        dfa
    }

    /// Merges classes of bytes whose columns are equal.
    fn with_fewest_classes(&self) -> Dfa {
        let column = |c: usize| (0..self.states()).map(|q| self.next[q * self.classes + c]).collect::<Vec<_>>();
        let mut ids: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut kept = Vec::new(); // the old class that stands for each new one
        let new: Vec<u8> = (0..self.classes)
            .map(|c| {
                let fresh = ids.len();
                let id = *ids.entry(column(c)).or_insert(fresh);
                if id == fresh {
                    kept.push(c);
                }
                id as u8
            })
            .collect();
        Dfa {
            class: self.class.iter().map(|&c| new[usize::from(c)]).collect(),
            classes: kept.len(),
            next: (0..self.states()).flat_map(|q| kept.iter().map(move |&c| self.next[q * self.classes + c])).collect(),
            accepts: self.accepts.clone(),
        }
    }
}

/// The classes of bytes that either automaton tells apart, and a byte of each for both.
fn joint_classes(a: &Dfa, b: &Dfa) -> (Vec<u8>, Vec<(u8, u8)>) {
    let mut ids = HashMap::new();
    let mut bytes = Vec::new();
    let class = (0..=255u8)
        .map(|byte| {
            *ids.entry((a.class[usize::from(byte)], b.class[usize::from(byte)])).or_insert_with(|| {
                bytes.push((byte, byte));
                (bytes.len() - 1) as u8
            })
        })
        .collect();
    (class, bytes)
}
