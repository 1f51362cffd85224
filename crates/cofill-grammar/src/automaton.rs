//! A language over tokens: from states by tokens to states, and which tokens it cannot tell apart.
//!
//! A token is a *function*: from every state of the byte automaton to the state that its bytes lead to, if they lead anywhere. Tokens are
//! read byte by byte through a table (function, byte) -> function that is filled in as needed. A vocabulary has few functions, a few
//! hundred of 150,000 tokens, so that a token costs a table look-up per byte, and tokens with the same function are a class.

use crate::dfa::{DEAD, Dfa};
use crate::{Error, Language, Result};
use cofill::{TokenClasses, TokenId};
use std::collections::HashMap;
use std::sync::Arc;

/// The most entries of all functions together.
const ENTRIES: usize = 10_000_000;

/// What each token writes.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// The bytes of every token; `None` is a special token, which has no text. `[vocab]`
    pub bytes: Vec<Option<Vec<u8>>>,
    /// Tokens that may follow a complete text, again and again: end of text, end of turn, padding.
    pub ends: Vec<TokenId>,
}

/// A language over the tokens of a vocabulary.
#[derive(Debug, Clone)]
pub struct TokenAutomaton {
    classes: TokenClasses,
    pub(crate) sizes: Vec<u32>,       // [classes]: tokens of each
    pub(crate) samples: Vec<TokenId>, // [classes]: the lowest token of each
    pub(crate) accepts: Vec<bool>,    // [states]
    pub(crate) start: u32,
    pub(crate) functions: Lists<(u32, u32)>, // [classes]: from state, to state
    pub(crate) arcs: Lists<Edge>,            // [states]: where any token leads
    pub(crate) bundles: Lists<u32>,          // [bundles]: classes
    shortest: usize,
}

/// All classes that lead from one state to another are one edge; many edges share such a set, a *bundle*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    pub(crate) bundle: u32,
}

/// Lists, one after the other in one piece of memory.
#[derive(Debug, Clone)]
pub(crate) struct Lists<T> {
    starts: Vec<u32>,
    all: Vec<T>,
}

impl<T> Lists<T> {
    fn new() -> Lists<T> {
        Lists { starts: vec![0], all: Vec::new() }
    }

    fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.all.extend(list);
        self.starts.push(self.all.len() as u32);
    }

    pub(crate) fn of(&self, i: usize) -> &[T] {
        &self.all[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.len()).map(|i| self.of(i))
    }
}

impl TokenAutomaton {
    /// The language in the tokens of this vocabulary. Fails if these cannot write any text of it.
    pub fn new(language: &Language, vocabulary: &Vocabulary) -> Result<TokenAutomaton> {
        let dfa = &*language.dfa;
        let mut functions = Functions::new(dfa);
        let vocab = vocabulary.bytes.len();
        let mut of: Vec<u32> = Vec::with_capacity(vocab); // [vocab]: the function of each token
        for bytes in &vocabulary.bytes {
            // A token without bytes would be padding inside a text, free of charge.
            let bytes = bytes.as_deref().filter(|bytes| !bytes.is_empty());
            of.push(bytes.map_or(Ok(Functions::NOWHERE), |bytes| functions.read(bytes))?);
        }
        if !vocabulary.ends.is_empty() {
            let end = functions.end()?;
            for &token in &vocabulary.ends {
                let last = vocab.saturating_sub(1);
                *of.get_mut(token as usize).ok_or(Error::UnknownEnd { token, last })? = end;
            }
        }
        let mut accepts = dfa.accepts.clone();
        accepts.push(true); // after an end token
        let automaton = Trimmed::new(&functions.list, &of, &accepts).automaton();
        automaton.ok_or_else(|| Error::NoText { missing: missing_bytes(dfa, vocabulary) })
    }

    /// The tokens that it cannot tell apart.
    pub fn classes(&self) -> &TokenClasses {
        &self.classes
    }

    /// How many tokens the shortest text has.
    pub fn shortest(&self) -> usize {
        self.shortest
    }

    /// How many states there are, the one after an end token included.
    pub fn states(&self) -> usize {
        self.accepts.len()
    }
}

/// Something that the shortest text needs and no token has.
fn missing_bytes(dfa: &Dfa, vocabulary: &Vocabulary) -> Option<String> {
    let mut has = [false; 256];
    vocabulary.bytes.iter().flatten().flatten().for_each(|&byte| has[usize::from(byte)] = true);
    let text = dfa.shortest_text()?;
    let byte = text.into_iter().find(|&byte| !has[usize::from(byte)])?;
    Some(if byte.is_ascii_graphic() { format!("a `{}`", char::from(byte)) } else { format!("the byte 0x{byte:02x}") })
}

/// What a token does to states: (from, to), ascending by `from`.
type Function = Arc<[(u32, u32)]>;

/// Functions by number, and what a further byte makes of each.
struct Functions<'a> {
    dfa: &'a Dfa,
    ids: HashMap<Function, u32>,
    list: Vec<Function>,
    then: Vec<u32>, // [functions x classes of bytes]; `UNKNOWN` where nobody has asked yet
    entries: usize,
}

impl Functions<'_> {
    /// The function of what leads nowhere.
    const NOWHERE: u32 = 0;
    /// The function of no bytes at all.
    const IDENTITY: u32 = 1;
    const UNKNOWN: u32 = u32::MAX;

    fn new(dfa: &Dfa) -> Functions<'_> {
        let nowhere: Function = Arc::new([]);
        let identity: Function = (0..dfa.states() as u32).map(|q| (q, q)).collect();
        let ids = HashMap::from([(nowhere.clone(), Functions::NOWHERE), (identity.clone(), Functions::IDENTITY)]);
        let then = vec![Functions::UNKNOWN; 2 * dfa.classes];
        Functions { dfa, ids, entries: identity.len(), list: vec![nowhere, identity], then }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<u32> {
        let mut function = Functions::IDENTITY;
        for &byte in bytes {
            let cell = function as usize * self.dfa.classes + usize::from(self.dfa.class[usize::from(byte)]);
            if self.then[cell] == Functions::UNKNOWN {
                let steps = self.list[function as usize].iter().map(|&(from, to)| (from, self.dfa.step(to, byte)));
                let after = steps.filter(|&(_, to)| to != DEAD).collect();
                self.then[cell] = self.id(after)?;
            }
            function = self.then[cell];
            if function == Functions::NOWHERE {
                break;
            }
        }
        Ok(function)
    }

    /// What an end token does: from complete texts to the state behind them, where it stays.
    fn end(&mut self) -> Result<u32> {
        let behind = self.dfa.states() as u32;
        let complete = (0..behind).filter(|&q| self.dfa.accepts[q as usize]);
        self.id(complete.chain([behind]).map(|q| (q, behind)).collect())
    }

    fn id(&mut self, function: Function) -> Result<u32> {
        if let Some(&id) = self.ids.get(&function) {
            return Ok(id);
        }
        self.entries += function.len();
        if self.entries > ENTRIES {
            return Err(Error::TooLarge {
                what: "edges of the language, over all tokens",
                given: self.entries,
                limit: ENTRIES,
            });
        }
        let id = self.list.len() as u32;
        self.ids.insert(function.clone(), id);
        self.list.push(function);
        self.then.resize(self.list.len() * self.dfa.classes, Functions::UNKNOWN);
        Ok(id)
    }
}

/// Only states that some tokens reach from the start, and that reach a complete text.
struct Trimmed<'a> {
    of: &'a [u32],
    accepts: Vec<bool>,
    functions: Vec<Vec<(u32, u32)>>, // by their old numbers; those of no token are empty
    shortest: Option<usize>,
}

impl Trimmed<'_> {
    fn new<'a>(functions: &[Function], of: &'a [u32], accepts: &[bool]) -> Trimmed<'a> {
        let mut used = vec![false; functions.len()];
        of.iter().for_each(|&f| used[f as usize] = true);
        let used = || functions.iter().zip(&used).map(|(f, &used)| if used { &f[..] } else { &[] });
        let edges = || used().flatten().copied();
        let starts: Vec<usize> = (0..accepts.len()).filter(|&q| accepts[q]).collect();
        let alive = distances(accepts.len(), &starts, edges().map(|(from, to)| (to, from)));
        let reached = distances(accepts.len(), &[0], edges());
        let keeps = |q: usize| alive[q].is_some() && reached[q].is_some();
        // The start first, as it is the lowest; the state behind the end last.
        let kept: Vec<usize> = (0..accepts.len()).filter(|&q| keeps(q)).collect();
        let mut id = vec![DEAD; accepts.len()];
        kept.iter().enumerate().for_each(|(new, &old)| id[old] = new as u32);
        let renamed = |f: &[(u32, u32)]| {
            let both = f.iter().map(|&(from, to)| (id[from as usize], id[to as usize]));
            both.filter(|&(from, to)| from != DEAD && to != DEAD).collect()
        };
        Trimmed {
            of,
            functions: used().map(renamed).collect(),
            accepts: kept.iter().map(|&q| accepts[q]).collect(),
            shortest: alive.first().copied().flatten(),
        }
    }

    fn automaton(self) -> Option<TokenAutomaton> {
        let shortest = self.shortest?;
        // Classes, in the order of their lowest tokens; functions that differed only in useless states are one now.
        let mut ids: HashMap<&[(u32, u32)], u32> = HashMap::new();
        let (mut sizes, mut samples, mut functions) = (Vec::new(), Vec::new(), Lists::new());
        let mut classes = vec![TokenClasses::NONE; self.of.len()];
        for (token, &f) in self.of.iter().enumerate() {
            let function = &self.functions[f as usize][..];
            if function.is_empty() {
                continue;
            }
            let class = *ids.entry(function).or_insert_with(|| {
                functions.push(function.iter().copied());
                sizes.push(0);
                samples.push(token as TokenId);
                sizes.len() as u32 - 1
            });
            classes[token] = class;
            sizes[class as usize] += 1;
        }
        if sizes.is_empty() {
            return None;
        }
        let (arcs, bundles) = arcs(&functions, self.accepts.len());
        let (classes, accepts) = (TokenClasses::new(classes), self.accepts);
        Some(TokenAutomaton { classes, sizes, samples, accepts, start: 0, functions, arcs, bundles, shortest })
    }
}

/// How many edges each state is away from the nearest start.
fn distances(states: usize, starts: &[usize], edges: impl Iterator<Item = (u32, u32)>) -> Vec<Option<usize>> {
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); states];
    edges.for_each(|(from, to)| {
        if next[from as usize].last() != Some(&to) {
            next[from as usize].push(to);
        }
    });
    let mut distance = vec![None; states];
    let mut queue = Vec::new();
    for &q in starts {
        distance[q] = Some(0);
        queue.push(q);
    }
    let mut done = 0;
    while let Some(&q) = queue.get(done) {
        done += 1;
        for &to in &next[q] {
            if distance[to as usize].is_none() {
                distance[to as usize] = distance[q].map(|d: usize| d + 1);
                queue.push(to as usize);
            }
        }
    }
    distance
}

/// Edges by state, and the sets of classes on them.
fn arcs(functions: &Lists<(u32, u32)>, states: usize) -> (Lists<Edge>, Lists<u32>) {
    let mut from: Vec<Vec<(u32, u32)>> = vec![Vec::new(); states]; // (to, class)
    for (class, function) in functions.iter().enumerate() {
        function.iter().for_each(|&(q, to)| from[q as usize].push((to, class as u32)));
    }
    let (mut arcs, mut bundles) = (Lists::new(), Lists::new());
    let mut ids: HashMap<Vec<u32>, u32> = HashMap::new();
    for mut edges in from {
        edges.sort_unstable();
        arcs.push(edges.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let classes: Vec<u32> = same.iter().map(|&(_, class)| class).collect();
            let bundle = *ids.entry(classes).or_insert_with_key(|classes| {
                bundles.push(classes.iter().copied());
                bundles.len() as u32 - 1
            });
            Edge { to: same[0].0, bundle }
        }));
    }
    (arcs, bundles)
}
