//! Sums and maxima over all valid fillings of one span, by dynamic programming over (position, state).
//!
//! Everything is in logarithms. Scaled linear numbers would be a little faster, and wrong without a sign: the state "the object is closed and
//! 200 end tokens follow" may be a thousand orders of magnitude less likely than "inside a string" and still be the only one that ends well.

use crate::automaton::TokenAutomaton;
use cofill::{ClassStats, Error, Result};

/// How far below all other classes of its row a class lies that has no probability at all: where the language leaves no choice, it is written
/// all the same, and elsewhere never.
const FLOOR: f64 = 1000.0;
/// What is e^50 times smaller than its neighbour counts as nothing beside it.
const NEGLIGIBLE: f64 = -50.0;

const NEVER: f64 = f64::NEG_INFINITY;

/// What stands at a position of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A given token, of this class.
    Given(u32),
    /// A mask, and its row.
    Mask(usize),
}

/// Which number of a class a sum is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Of its likeliest token.
    Best,
    /// Of all of its tokens.
    Mass,
    /// Of all of its tokens, at the temperature.
    Tempered,
}

impl Weight {
    fn of(self, stats: &ClassStats) -> f64 {
        match self {
            Weight::Best => stats.log_probability,
            Weight::Mass => stats.log_mass,
            Weight::Tempered => stats.log_tempered_mass,
        }
    }
}

/// Buffers, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Fillings {
    log: Vec<f64>,         // [positions x classes]: weights of classes
    linear: Vec<f64>,      // [positions x classes]: the same, over the largest of the row
    bundle: Vec<f64>,      // [positions x bundles]: their sums, or maxima
    winner: Vec<u32>,      // [bundles]: the class with the largest weight
    forward: Vec<f64>,     // [positions + 1 x states]: everything up to here
    back: Vec<(u32, u32)>, // [positions x states]: the best way here: from which state, by which class
    sums: Vec<f64>,        // [states]
    after: Vec<f64>,       // [states]: everything from here on
    before: Vec<f64>,      // [states]
    terms: Vec<f64>,
    posterior: Vec<f64>, // [bundles]
}

impl Fillings {
    /// Reads the weights of all masked positions.
    pub(crate) fn weigh<'a>(
        &mut self,
        automaton: &TokenAutomaton,
        cells: &[Cell],
        weight: Weight,
        row: impl Fn(usize) -> &'a [ClassStats],
    ) -> Result<()> {
        let (classes, bundles) = (automaton.sizes.len(), automaton.bundles.len());
        self.log.resize(cells.len() * classes, 0.0);
        self.linear.resize(cells.len() * classes, 0.0);
        self.bundle.resize(cells.len() * bundles, 0.0);
        for (i, &cell) in cells.iter().enumerate() {
            let Cell::Mask(r) = cell else { continue };
            let log = &mut self.log[i * classes..(i + 1) * classes];
            let (mut largest, mut smallest) = (NEVER, 0.0f64);
            for (index, (log, stats)) in log.iter_mut().zip(row(r)).enumerate() {
                let value = weight.of(stats);
                if value.is_nan() || value == f64::INFINITY {
                    return Err(Error::NotFinite { what: "classes", index, value });
                }
                *log = value;
                largest = largest.max(value);
                smallest = if value == NEVER { smallest } else { smallest.min(value) };
            }
            let largest = if largest == NEVER { 0.0 } else { largest };
            log.iter_mut().filter(|log| **log == NEVER).for_each(|log| *log = smallest - FLOOR);
            if weight == Weight::Best {
                continue; // nobody adds these
            }
            let linear = &mut self.linear[i * classes..(i + 1) * classes];
            linear.iter_mut().zip(&*log).for_each(|(linear, log)| *linear = (log - largest).exp());
            for (bundle, members) in
                self.bundle[i * bundles..(i + 1) * bundles].iter_mut().zip(automaton.bundles.iter())
            {
                let sum: f64 = members.iter().map(|&c| linear[c as usize]).sum();
                *bundle = if sum > f64::MIN_POSITIVE * 1e16 {
                    largest + sum.ln()
                } else {
                    log_sum(members.iter().map(|&c| log[c as usize]))
                };
            }
        }
        Ok(())
    }

    /// The best filling: a class for every position, the given ones included. Of equally good ways to a state, that of the lower class,
    /// then from the lower state, counts; of equally good last states, the lower. Needs [`Weight::Best`].
    pub(crate) fn best(&mut self, automaton: &TokenAutomaton, cells: &[Cell], filling: &mut Vec<u32>) -> bool {
        let (classes, states) = (automaton.sizes.len(), automaton.states());
        self.back.clear();
        self.back.resize(cells.len() * states, (0, 0));
        self.before.clear();
        self.before.resize(states, NEVER);
        self.before[automaton.start as usize] = 0.0;
        self.winner.resize(automaton.bundles.len(), 0);
        for (i, &cell) in cells.iter().enumerate() {
            let back = &mut self.back[i * states..(i + 1) * states];
            self.after.clear();
            self.after.resize(states, NEVER);
            let (before, after) = (&self.before, &mut self.after);
            let mut step = |from: u32, to: u32, class: u32, value: f64| {
                let (best, way) = (&mut after[to as usize], &mut back[to as usize]);
                if value > *best || (value == *best && class < way.1) {
                    (*best, *way) = (value, (from, class));
                }
            };
            match cell {
                Cell::Given(class) => {
                    for &(from, to) in automaton.functions.of(class as usize) {
                        if before[from as usize] > NEVER {
                            step(from, to, class, before[from as usize]);
                        }
                    }
                }
                Cell::Mask(_) => {
                    let log = &self.log[i * classes..(i + 1) * classes];
                    for (winner, members) in self.winner.iter_mut().zip(automaton.bundles.iter()) {
                        *winner = members[0];
                        for &class in &members[1..] {
                            *winner = if log[class as usize] > log[*winner as usize] { class } else { *winner };
                        }
                    }
                    for (from, edges) in automaton.arcs.iter().enumerate().filter(|(q, _)| before[*q] > NEVER) {
                        for edge in edges {
                            let class = self.winner[edge.bundle as usize];
                            step(from as u32, edge.to, class, before[from] + log[class as usize]);
                        }
                    }
                }
            }
            std::mem::swap(&mut self.before, &mut self.after);
        }
        let ends = (0..states).filter(|&q| automaton.accepts[q] && self.before[q] > NEVER);
        let Some(mut state) = ends.reduce(|best, q| if self.before[q] > self.before[best] { q } else { best }) else {
            return false;
        };
        filling.clear();
        filling.resize(cells.len(), 0);
        for i in (0..cells.len()).rev() {
            let (from, class) = self.back[i * states + state];
            filling[i] = class;
            state = from as usize;
        }
        true
    }

    /// ln of the weight of every beginning, by position and state. Needs [`Weight::Mass`] or [`Weight::Tempered`].
    pub(crate) fn sum(&mut self, automaton: &TokenAutomaton, cells: &[Cell]) {
        let (states, bundles) = (automaton.states(), automaton.bundles.len());
        self.forward.clear();
        self.forward.resize((cells.len() + 1) * states, NEVER);
        self.forward[automaton.start as usize] = 0.0;
        for (i, &cell) in cells.iter().enumerate() {
            let (done, rest) = self.forward.split_at_mut((i + 1) * states);
            let (before, largest) = (&done[i * states..], &mut rest[..states]);
            self.sums.clear();
            self.sums.resize(states, 0.0);
            let sums = &mut self.sums;
            // A running sum over its largest term.
            let mut add = |to: u32, value: f64| {
                let (largest, sum) = (&mut largest[to as usize], &mut sums[to as usize]);
                let below = value - *largest;
                if below > 0.0 {
                    (*largest, *sum) = (value, if -below > NEGLIGIBLE { *sum * (-below).exp() } else { 0.0 } + 1.0);
                } else if below > NEGLIGIBLE {
                    *sum += below.exp();
                }
            };
            match cell {
                Cell::Given(class) => {
                    for &(from, to) in automaton.functions.of(class as usize) {
                        if before[from as usize] > NEVER {
                            add(to, before[from as usize]);
                        }
                    }
                }
                Cell::Mask(_) => {
                    let bundle = &self.bundle[i * bundles..(i + 1) * bundles];
                    for (from, edges) in automaton.arcs.iter().enumerate().filter(|(q, _)| before[*q] > NEVER) {
                        for edge in edges {
                            add(edge.to, before[from] + bundle[edge.bundle as usize]);
                        }
                    }
                }
            }
            for (largest, &sum) in largest.iter_mut().zip(&self.sums) {
                if *largest > NEVER && sum != 1.0 {
                    *largest += sum.ln();
                }
            }
        }
    }

    /// A filling drawn from all valid ones by their weight. Needs [`Fillings::sum`]. `uniforms`: numbers for a position of the span.
    pub(crate) fn draw<U: Iterator<Item = f64>>(
        &mut self,
        automaton: &TokenAutomaton,
        cells: &[Cell],
        uniforms: impl Fn(usize) -> U,
        filling: &mut Vec<u32>,
    ) -> bool {
        let (classes, states, bundles) = (automaton.sizes.len(), automaton.states(), automaton.bundles.len());
        filling.clear();
        filling.resize(cells.len(), 0);
        let last = &self.forward[cells.len() * states..];
        let ends: Vec<(u32, f64)> =
            (0..states).filter(|&q| automaton.accepts[q]).map(|q| (q as u32, last[q])).collect();
        let mut numbers = cells.len().checked_sub(1).map(&uniforms);
        let first = numbers.as_mut().and_then(Iterator::next).unwrap_or(0.5);
        let Some(mut state) = weighted(&ends, first) else { return false };
        let mut ways: Vec<((u32, u32), f64)> = Vec::new();
        for (i, &cell) in cells.iter().enumerate().rev() {
            let mut numbers = numbers.take().unwrap_or_else(|| uniforms(i));
            let mut uniform = || numbers.next().unwrap_or(0.5);
            let before = &self.forward[i * states..(i + 1) * states];
            ways.clear();
            match cell {
                Cell::Given(class) => {
                    let into = automaton.functions.of(class as usize).iter().filter(|&&(_, to)| to == state);
                    ways.extend(into.map(|&(from, _)| ((from, 0), before[from as usize])));
                }
                Cell::Mask(_) => {
                    let bundle = &self.bundle[i * bundles..(i + 1) * bundles];
                    for (from, edges) in automaton.arcs.iter().enumerate().filter(|(q, _)| before[*q] > NEVER) {
                        let into = edges.iter().filter(|edge| edge.to == state);
                        ways.extend(
                            into.map(|edge| ((from as u32, edge.bundle), before[from] + bundle[edge.bundle as usize])),
                        );
                    }
                }
            }
            let Some((from, bundle)) = weighted(&ways, uniform()) else { return false };
            state = from;
            filling[i] = match cell {
                Cell::Given(class) => class,
                Cell::Mask(_) => {
                    let log = &self.log[i * classes..(i + 1) * classes];
                    let members: Vec<(u32, f64)> =
                        automaton.bundles.of(bundle as usize).iter().map(|&c| (c, log[c as usize])).collect();
                    let Some(class) = weighted(&members, uniform()) else { return false };
                    class
                }
            };
        }
        true
    }

    /// The probability of every class at every masked position, given that the whole is valid: `see(position, [classes])`. Needs
    /// [`Fillings::sum`].
    pub(crate) fn marginals(&mut self, automaton: &TokenAutomaton, cells: &[Cell], mut see: impl FnMut(usize, &[f64])) {
        let (classes, states, bundles) = (automaton.sizes.len(), automaton.states(), automaton.bundles.len());
        let last = &self.forward[cells.len() * states..];
        let total = log_sum((0..states).filter(|&q| automaton.accepts[q]).map(|q| last[q]));
        self.after.clear();
        self.after.extend(automaton.accepts.iter().map(|&accepts| if accepts { 0.0 } else { NEVER }));
        let mut marginals = vec![0.0; classes];
        for (i, &cell) in cells.iter().enumerate().rev() {
            let forward = &self.forward[i * states..(i + 1) * states];
            self.before.clear();
            self.before.resize(states, NEVER);
            match cell {
                Cell::Given(class) => {
                    for &(from, to) in automaton.functions.of(class as usize) {
                        self.before[from as usize] = self.after[to as usize];
                    }
                }
                Cell::Mask(_) => {
                    let bundle = &self.bundle[i * bundles..(i + 1) * bundles];
                    self.posterior.clear();
                    self.posterior.resize(bundles, 0.0);
                    for (from, edges) in automaton.arcs.iter().enumerate().filter(|(q, _)| forward[*q] > NEVER) {
                        self.terms.clear();
                        self.terms.extend(
                            edges.iter().map(|edge| bundle[edge.bundle as usize] + self.after[edge.to as usize]),
                        );
                        let largest = self.terms.iter().copied().fold(NEVER, f64::max);
                        if largest == NEVER {
                            continue;
                        }
                        let mut sum = 0.0;
                        for term in &mut self.terms {
                            let below = *term - largest;
                            *term = if below > NEGLIGIBLE { below.exp() } else { 0.0 };
                            sum += *term;
                        }
                        let ahead = if sum == 1.0 { largest } else { largest + sum.ln() };
                        self.before[from] = ahead;
                        let here = forward[from] + ahead - total;
                        if here > NEGLIGIBLE {
                            let here = here.exp() / sum;
                            for (edge, term) in edges.iter().zip(&self.terms) {
                                self.posterior[edge.bundle as usize] += here * term;
                            }
                        }
                    }
                    marginals.fill(0.0);
                    let (log, linear) =
                        (&self.log[i * classes..(i + 1) * classes], &self.linear[i * classes..(i + 1) * classes]);
                    for ((members, &posterior), &bundle) in automaton.bundles.iter().zip(&self.posterior).zip(bundle) {
                        if posterior == 0.0 {
                            continue;
                        }
                        if let [class] = members {
                            marginals[*class as usize] += posterior;
                            continue;
                        }
                        let sum: f64 = members.iter().map(|&c| linear[c as usize]).sum();
                        if sum > f64::MIN_POSITIVE * 1e16 {
                            members
                                .iter()
                                .for_each(|&c| marginals[c as usize] += posterior * (linear[c as usize] / sum));
                        } else {
                            members
                                .iter()
                                .for_each(|&c| marginals[c as usize] += posterior * (log[c as usize] - bundle).exp());
                        }
                    }
                    // What rounding left of 1.
                    let whole: f64 = marginals.iter().sum();
                    marginals.iter_mut().for_each(|m| *m /= whole);
                    see(i, &marginals);
                }
            }
            std::mem::swap(&mut self.before, &mut self.after);
        }
    }
}

/// ln Σ e^x.
fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(NEVER, f64::max);
    if largest == NEVER { NEVER } else { largest + values.map(|x| (x - largest).exp()).sum::<f64>().ln() }
}

/// The one that a uniform number chooses; `None` if none has a weight. `[(what, ln of its weight)]`
fn weighted<T: Copy>(options: &[(T, f64)], uniform: f64) -> Option<T> {
    let largest = options.iter().map(|o| o.1).fold(NEVER, f64::max);
    if largest == NEVER {
        return None;
    }
    let weight = |o: &(T, f64)| (o.1 - largest).exp();
    let mut left = uniform * options.iter().map(weight).sum::<f64>();
    let mut last = None;
    for option in options.iter().filter(|o| weight(o) > 0.0) {
        last = Some(option.0);
        left -= weight(option);
        if left < 0.0 {
            break;
        }
    }
    last
}
