//! Regular expressions as automata. The syntax is that of the `regex` crate; `regex-automata` knows what its classes are in UTF-8.

use crate::dfa::Dfa;
use crate::nfa::{Nfa, NfaState};
use crate::work::Work;
use crate::{Error, Result};
use regex_automata::nfa::thompson::{Compiler, Config, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};

/// Bytes an expression may have.
const PATTERN: usize = 10_000;
/// Bytes of memory that it may take as an automaton with empty edges.
const MEMORY: usize = 16 << 20;

/// One way to match: an expression without anchors, and whether it had any at its ends.
pub(crate) struct Branch {
    pub(crate) from_start: bool,
    pub(crate) to_end: bool,
    pub(crate) hir: Hir,
}

/// The expression's alternatives, their anchors taken off. Anything that looks around elsewhere is refused by name.
pub(crate) fn parse(pattern: &str, work: &Work) -> Result<Vec<Branch>> {
    if pattern.len() > PATTERN {
        return Err(Error::TooLarge { what: "bytes of a regular expression", given: pattern.len(), limit: PATTERN });
    }
    work.spend(1000 * pattern.len())?; // three letters can name a class of hundreds of ranges
    let hir = ParserBuilder::new().nest_limit(100).build().parse(pattern).map_err(|e| {
        use regex_syntax::ast::ErrorKind::{UnsupportedBackreference, UnsupportedLookAround};
        let problem = match &e {
            regex_syntax::Error::Parse(e) if *e.kind() == UnsupportedLookAround => {
                "it looks around (`(?=`, `(?!`, `(?<=`, `(?<!`), which no automaton of this kind does".into()
            }
            regex_syntax::Error::Parse(e) if *e.kind() == UnsupportedBackreference => {
                "it refers back (`\\1`), which no automaton can".into()
            }
            regex_syntax::Error::Parse(e) => format!("{} at byte {}", e.kind(), e.span().start.offset),
            regex_syntax::Error::Translate(e) => format!("{} at byte {}", e.kind(), e.span().start.offset),
            _ => e.to_string(),
        };
        bad(pattern, &problem)
    })?;
    let mut branches = Vec::new();
    collect(&hir, &mut branches);
    for branch in &branches {
        if let Some(look) = branch.hir.properties().look_set().iter().next() {
            return Err(bad(
                pattern,
                &format!(
                    "`{}` stands where it looks around; only `^` at the start and `$` at the end can be used",
                    look_text(look)
                ),
            ));
        }
        if !branch.hir.properties().is_utf8() {
            return Err(bad(pattern, "it matches bytes that are no UTF-8"));
        }
    }
    Ok(branches)
}

/// The language of whole texts that the expression matches.
pub(crate) fn language(pattern: &str, work: &Work) -> Result<Dfa> {
    let branches = parse(pattern, work)?.into_iter().map(|branch| branch.hir).collect();
    let dfa = automaton(&Hir::alternation(branches), work).map_err(|e| named(e, pattern))?;
    if dfa.states() == 0 {
        return Err(bad(pattern, "no text matches it"));
    }
    Ok(dfa)
}

/// The minimal automaton of an expression without anchors.
pub(crate) fn automaton(hir: &Hir, work: &Work) -> Result<Dfa> {
    let config =
        Config::new().utf8(true).shrink(false).nfa_size_limit(Some(MEMORY)).which_captures(WhichCaptures::None);
    let compiled = Compiler::new().configure(config).build_from_hir(hir).map_err(|e| match e.size_limit() {
        Some(limit) => Error::TooLarge { what: "bytes of memory for a regular expression", given: limit, limit },
        None => bad("", &e.to_string()),
    })?;
    let mut nfa = Nfa::default();
    for state in compiled.states() {
        let mut own = NfaState::default();
        match state {
            State::ByteRange { trans } => own.bytes.push((trans.start, trans.end, trans.next.as_u32())),
            State::Sparse(sparse) => {
                own.bytes.extend(sparse.transitions.iter().map(|t| (t.start, t.end, t.next.as_u32())));
            }
            State::Dense(dense) => {
                let edges = (0..=255u8).zip(dense.transitions.iter()).filter(|(_, to)| to.as_u32() != 0);
                own.bytes.extend(edges.map(|(byte, to)| (byte, byte, to.as_u32())));
            }
            State::Union { alternates } => own.empty.extend(alternates.iter().map(StateID::as_u32)),
            State::BinaryUnion { alt1, alt2 } => own.empty.extend([alt1.as_u32(), alt2.as_u32()]),
            State::Capture { next, .. } => own.empty.push(next.as_u32()),
            State::Look { .. } => return Err(bad("", "it looks around")),
            State::Fail => {}
            State::Match { .. } => own.accepts = true,
        }
        nfa.add()?;
        if let Some(last) = nfa.states.last_mut() {
            *last = own;
        }
    }
    nfa.determinise(compiled.start_anchored().as_u32(), work)?.reduced(work)
}

fn collect(hir: &Hir, branches: &mut Vec<Branch>) {
    let parts = match hir.kind() {
        HirKind::Alternation(options) => return options.iter().for_each(|option| collect(option, branches)),
        HirKind::Capture(capture) => return collect(&capture.sub, branches),
        HirKind::Concat(parts) => parts.as_slice(),
        _ => std::slice::from_ref(hir),
    };
    let is = |part: Option<&Hir>, anchor| part.is_some_and(|part| *part.kind() == HirKind::Look(anchor));
    let from_start = is(parts.first(), Look::Start);
    let parts = if from_start { &parts[1..] } else { parts };
    let to_end = is(parts.last(), Look::End);
    let parts = if to_end { &parts[..parts.len() - 1] } else { parts };
    let inner = branches.len();
    match parts {
        // `^(a|b)$`: the anchors are those of every alternative.
        [part] if from_start || to_end => collect(part, branches),
        _ => branches.push(Branch { from_start: false, to_end: false, hir: Hir::concat(parts.to_vec()) }),
    }
    for branch in &mut branches[inner..] {
        branch.from_start |= from_start;
        branch.to_end |= to_end;
    }
}

fn look_text(look: Look) -> &'static str {
    match look {
        Look::Start | Look::StartLF | Look::StartCRLF => "^",
        Look::End | Look::EndLF | Look::EndCRLF => "$",
        Look::WordAsciiNegate | Look::WordUnicodeNegate => "\\B",
        _ => "\\b",
    }
}

/// Errors of parts know only the part.
pub(crate) fn named(error: Error, pattern: &str) -> Error {
    match error {
        Error::BadRegex { problem, .. } => bad(pattern, &problem),
        other => other,
    }
}

pub(crate) fn bad(pattern: &str, problem: &str) -> Error {
    let mut shown: String = pattern.chars().take(80).collect();
    if shown.len() < pattern.len() {
        shown.push('…');
    }
    Error::BadRegex { pattern: shown, problem: problem.into() }
}
