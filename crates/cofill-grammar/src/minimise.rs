//! Hopcroft's algorithm: states that no text tells apart become one, in n log n steps.
//!
//! Not the minimisation of `regex-automata`: that one knows only its own automata, in which "accepts" comes a byte late.

use crate::dfa::{DEAD, Dfa};

/// The automaton with the fewest states for the same language; states keep no particular order, but the start stays first.
pub(crate) fn minimise(dfa: &Dfa) -> Dfa {
    let n = dfa.states();
    if n == 0 {
        return dfa.clone();
    }
    // One more state, `n`, is where missing edges lead.
    let target = |q: usize, c: usize| match dfa.next.get(q * dfa.classes + c) {
        Some(&to) if q < n && to != DEAD => to as usize,
        _ => n,
    };
    let into = Incoming::new(n + 1, dfa.classes, target);
    let mut parts = Partition::new(n + 1, |q| q < n && dfa.accepts[q]);
    let mut work: Vec<usize> = (0..parts.blocks()).collect();
    let mut waits = vec![true; parts.blocks()];
    let mut splitter = Vec::new();
    while let Some(block) = work.pop() {
        waits[block] = false;
        splitter.clear();
        splitter.extend_from_slice(parts.members(block));
        for c in 0..dfa.classes {
            for &q in &splitter {
                into.of(q, c).iter().for_each(|&from| parts.mark(from));
            }
            parts.split(|old, new, old_is_smaller| {
                waits.resize(new + 1, false);
                // If the old block still waits, both halves must; else the smaller one is enough.
                let next = if waits[old] || !old_is_smaller { new } else { old };
                waits[next] = true;
                work.push(next);
            });
        }
    }
    // Blocks in the order of their first state, so that the start stays first; the block of dead states is dropped.
    let dead = parts.block_of[n];
    let mut id = vec![DEAD; parts.blocks()];
    let mut first = Vec::new();
    for q in 0..n {
        let block = parts.block_of[q];
        if block != dead && id[block] == DEAD {
            id[block] = first.len() as u32;
            first.push(q);
        }
    }
    let next = first.iter().flat_map(|&q| (0..dfa.classes).map(move |c| (q, c)));
    Dfa {
        class: dfa.class.clone(),
        classes: dfa.classes,
        next: next.map(|(q, c)| id[parts.block_of[target(q, c)]]).collect(),
        accepts: first.iter().map(|&q| dfa.accepts[q]).collect(),
    }
}

/// Who leads where, backwards. `[classes x states]` lists, one after the other.
struct Incoming {
    states: usize,
    starts: Vec<u32>,
    from: Vec<u32>,
}

impl Incoming {
    fn new(states: usize, classes: usize, target: impl Fn(usize, usize) -> usize) -> Incoming {
        let mut starts = vec![0u32; states * classes + 1];
        let edges = || (0..classes).flat_map(|c| (0..states).map(move |q| (q, c)));
        edges().for_each(|(q, c)| starts[c * states + target(q, c) + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut free = starts.clone();
        let mut from = vec![0; states * classes];
        for (q, c) in edges() {
            let slot = &mut free[c * states + target(q, c)];
            from[*slot as usize] = q as u32;
            *slot += 1;
        }
        Incoming { states, starts, from }
    }

    fn of(&self, state: u32, class: usize) -> &[u32] {
        let i = class * self.states + state as usize;
        &self.from[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}

/// States in blocks; marked members of a block stand at its front.
struct Partition {
    members: Vec<u32>,
    place: Vec<usize>, // [states]: where a state stands in `members`
    block_of: Vec<usize>,
    range: Vec<(usize, usize)>, // [blocks]
    marked: Vec<usize>,         // [blocks]: how many
    touched: Vec<usize>,
}

impl Partition {
    fn new(states: usize, first: impl Fn(usize) -> bool) -> Partition {
        let mut members: Vec<u32> = (0..states as u32).filter(|&q| first(q as usize)).collect();
        let cut = members.len();
        members.extend((0..states as u32).filter(|&q| !first(q as usize)));
        let mut place = vec![0; states];
        members.iter().enumerate().for_each(|(i, &q)| place[q as usize] = i);
        let range: Vec<_> = [(0, cut), (cut, states)].into_iter().filter(|(a, b)| a < b).collect();
        let mut block_of = vec![0; states];
        for (block, &(start, end)) in range.iter().enumerate() {
            members[start..end].iter().for_each(|&q| block_of[q as usize] = block);
        }
        let marked = vec![0; range.len()];
        Partition { members, place, block_of, range, marked, touched: Vec::new() }
    }

    fn blocks(&self) -> usize {
        self.range.len()
    }

    fn members(&self, block: usize) -> &[u32] {
        &self.members[self.range[block].0..self.range[block].1]
    }

    fn mark(&mut self, state: u32) {
        let block = self.block_of[state as usize];
        let (at, front) = (self.place[state as usize], self.range[block].0 + self.marked[block]);
        if at < front {
            return; // already marked
        }
        if self.marked[block] == 0 {
            self.touched.push(block);
        }
        self.members.swap(at, front);
        self.place[self.members[at] as usize] = at;
        self.place[self.members[front] as usize] = front;
        self.marked[block] += 1;
    }

    /// Cuts every block in marked and unmarked members; says (old block, new block, whether what stayed in the old one is smaller).
    fn split(&mut self, mut done: impl FnMut(usize, usize, bool)) {
        for block in std::mem::take(&mut self.touched) {
            let ((start, end), marked) = (self.range[block], std::mem::take(&mut self.marked[block]));
            if marked == end - start {
                continue;
            }
            let new = self.range.len();
            self.range.push((start, start + marked));
            self.marked.push(0);
            self.range[block].0 = start + marked;
            self.members[start..start + marked].iter().for_each(|&q| self.block_of[q as usize] = new);
            done(block, new, end - start - marked < marked);
        }
    }
}
