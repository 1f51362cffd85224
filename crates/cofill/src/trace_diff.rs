//! Where two decodes part, and why.
//!
//! Up to the first step whose commits differ both canvases are the same, so the same model saw the same thing; what differs there
//! is the ranking, the rule, the proposed token, or the model's own numbers. The trace holds enough to tell which.

use crate::trace::{Commit, Deferred, Step, Trace};
use std::fmt;

/// The first difference between two traces.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// They do not start from the same canvas.
    Start,
    /// One goes on where the other has ended.
    Ended {
        /// Steps in the first and in the second trace.
        steps: (usize, usize),
    },
    /// They commit different things.
    Step {
        /// The number of the step, from 0.
        step: usize,
        /// Committed only by the first.
        only_a: Vec<usize>,
        /// Committed only by the second.
        only_b: Vec<usize>,
        /// What made the two decide differently.
        why: Why,
    },
}

/// Why two samplers commit different things from the same canvas.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// The model gave different numbers for the same position of the same canvas.
    Numbers {
        /// The canvas position.
        position: usize,
        /// Its confidence in the first and in the second trace.
        confidence: (f64, f64),
    },
    /// The same position got different tokens.
    Token {
        /// The canvas position.
        position: usize,
        /// Its token in the first and in the second trace.
        tokens: (u32, u32),
    },
    /// One of them deferred what the other picked.
    Deferred {
        /// Which trace deferred: 'A' or 'B'.
        trace: char,
        /// What, by whom, by how much.
        deferred: Deferred,
    },
    /// They ranked the candidates differently.
    Ranking {
        /// From 0: the first pick that differs.
        rank: usize,
        /// The pick of the first and of the second trace at that rank.
        picks: (Commit, Commit),
    },
    /// One stopped where the other went on.
    Rule {
        /// Which trace went on: 'A' or 'B'.
        longer: char,
        /// How many picks they share.
        shared: usize,
        /// The pick that only one admitted.
        next: Commit,
    },
    /// One of them took commits back.
    Remasked,
    /// The canvas grew by different numbers of masks before the step.
    Appended {
        /// How many in the first and in the second trace.
        masks: (usize, usize),
    },
    /// They commit the same, and only one of them ended the text there and then.
    Collapsed {
        /// Which trace did: 'A' or 'B'.
        trace: char,
        /// Where the end is.
        by: usize,
    },
    /// The same sampler under different settings.
    Settings(String),
}

/// How far two runs of the same model may differ in a confidence.
const SAME_NUMBER: f64 = 1e-9;

/// Finds the first difference; `None` when the canvases are the same after every step.
pub fn diff(a: &Trace, b: &Trace) -> Option<Difference> {
    if a.canvas() != b.canvas() {
        return Some(Difference::Start);
    }
    for (x, y) in a.steps.iter().zip(&b.steps) {
        let only = |x: &Step, y: &Step| -> Vec<usize> {
            let same = |c: &(usize, u32)| y.filled().any(|d| *c == d);
            x.filled().filter(|c| !same(c)).map(|(position, _)| position).collect()
        };
        let (only_a, only_b) = (only(x, y), only(y, x));
        if !only_a.is_empty() || !only_b.is_empty() || x.remasked != y.remasked || x.appended != y.appended {
            let settings = settings(a, b);
            let why = if a.header.sampler == b.header.sampler && !settings.is_empty() {
                Why::Settings(settings.join(", "))
            } else {
                why(x, y)
            };
            return Some(Difference::Step { step: x.step, only_a, only_b, why });
        }
    }
    let steps = (a.steps.len(), b.steps.len());
    (steps.0 != steps.1).then_some(Difference::Ended { steps })
}

/// What two runs had set differently, beside the sampler.
pub fn settings(a: &Trace, b: &Trace) -> Vec<String> {
    let (a, b) = (&a.header, &b.header);
    let block = |block: Option<usize>| block.map_or("none".into(), |len| len.to_string());
    let pairs = [
        ("model", a.model.clone(), b.model.clone()),
        ("block", block(a.block), block(b.block)),
        ("temperature", a.temperature.to_string(), b.temperature.to_string()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
    ];
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ.map(|(name, a, b)| format!("{name} {a} in A, {b} in B")).collect()
}

fn why(a: &Step, b: &Step) -> Why {
    if a.appended != b.appended {
        return Why::Appended { masks: (a.appended, b.appended) };
    }
    match (&a.collapsed, &b.collapsed) {
        (Some(collapse), None) if a.commits == b.commits => return Why::Collapsed { trace: 'A', by: collapse.by },
        (None, Some(collapse)) if a.commits == b.commits => return Why::Collapsed { trace: 'B', by: collapse.by },
        _ => {}
    }
    for x in &a.commits {
        let Some(y) = b.commits.iter().find(|y| y.position == x.position) else { continue };
        if x.token != y.token {
            return Why::Token { position: x.position, tokens: (x.token, y.token) };
        }
        if (x.confidence - y.confidence).abs() > SAME_NUMBER {
            return Why::Numbers { position: x.position, confidence: (x.confidence, y.confidence) };
        }
    }
    for (rank, (x, y)) in a.commits.iter().zip(&b.commits).enumerate() {
        if x.position != y.position {
            let by = |trace, step: &Step, other: &Commit| {
                let deferred = step.deferred.clone().filter(|d| d.position == other.position)?;
                Some(Why::Deferred { trace, deferred })
            };
            let ranked = Why::Ranking { rank, picks: (*x, *y) };
            return by('A', a, y).or_else(|| by('B', b, x)).unwrap_or(ranked);
        }
    }
    let shared = a.commits.len().min(b.commits.len());
    let (longer, step, shorter, other) = if a.commits.len() > shared { ('A', a, 'B', b) } else { ('B', b, 'A', a) };
    let Some(&next) = step.commits.get(shared) else { return Why::Remasked };
    // The shorter may have stopped at another candidate: then it is the ranking that differs, not the rule.
    match other.deferred.clone().filter(|d| d.position == next.position) {
        Some(deferred) => Why::Deferred { trace: shorter, deferred },
        None => Why::Rule { longer, shared, next },
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Start => f.write_str("the traces start from different canvases"),
            Difference::Ended { steps: (a, b) } => {
                write!(f, "the same up to step {}, where one trace ends (A has {a} steps, B {b})", a.min(b))
            }
            Difference::Step { step, only_a, only_b, why } => {
                writeln!(f, "first divergence at step {step}")?;
                writeln!(f, "  only A commits {only_a:?}")?;
                writeln!(f, "  only B commits {only_b:?}")?;
                write!(f, "  why: {why}")
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, ("A", "B"))
    }
}

impl Why {
    /// The same words with names of the caller's for the two traces, of which this crate calls the first A and the second B.
    pub fn named<'a>(&'a self, a: &'a str, b: &'a str) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, (a, b)))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, (a_name, b_name): (&str, &str)) -> fmt::Result {
        let name = |trace: &char| if *trace == 'A' { a_name } else { b_name };
        match self {
            Why::Numbers { position, confidence: (a, b) } => write!(
                f,
                "the model's numbers differ on the same canvas: position {position} has confidence {a:.6} in {a_name}, {b:.6} in {b_name}"
            ),
            Why::Token { position, tokens: (a, b) } => {
                write!(f, "the proposals differ: position {position} gets token {a} in {a_name}, {b} in {b_name}")
            }
            Why::Deferred { trace, deferred: d } => {
                let through: String = d.through.iter().map(|j| format!("{j}, which attends to ")).collect();
                write!(
                    f,
                    "{} deferred position {} (confidence {:.3}): it attends to {through}{}, just chosen and unsure, and lost {:.3}; ",
                    name(trace),
                    d.position,
                    d.confidence,
                    d.by,
                    d.discount
                )?;
                match d.instead {
                    Some(instead) => write!(f, "{instead} was tried instead"),
                    None => f.write_str("that is more than its confidence, and the step ended"),
                }
            }
            Why::Ranking { rank, picks: (a, b) } => write!(
                f,
                "the rankings differ at pick {rank}: {a_name} took {} (utility {:.4}), {b_name} took {} (utility {:.4})",
                a.position, a.utility, b.position, b.utility
            ),
            Why::Rule { longer, shared, next } => write!(
                f,
                "the stopping rules differ: after the first {shared}, {} also admitted {} (confidence {:.3}, entropy {:.3})",
                name(longer),
                next.position,
                next.confidence,
                next.entropy
            ),
            Why::Appended { masks: (a, b) } => {
                write!(f, "the canvas grew by {a} masks before the step in {a_name}, by {b} in {b_name}")
            }
            Why::Collapsed { trace, by } => write!(f, "{} ended the text at once behind position {by}", name(trace)),
            Why::Remasked => f.write_str("one of them took commits back"),
            Why::Settings(settings) => write!(f, "the settings differ: {settings}"),
        }
    }
}
