//! A decode written down: which position was committed when and why, enough to replay it without the model.
//!
//! The file is JSONL: a header, one line per step, and a closing line. A run that was interrupted lacks the closing line and is
//! still a valid trace. This is the one wire format of this crate, and it has a version.

use crate::{Canvas, Error, Registry, Result, SamplerForm, TokenId};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// The version this code writes and reads.
pub const VERSION: u32 = 1;

/// One step of a decode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The number of the step, from 0.
    pub step: usize,
    /// Forwards spent on it: 1, and one for every look ahead and every check of a cache.
    pub forwards: usize,
    /// How many of them were the companion's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub companion: usize,
    /// How many of them computed only a part of the canvas.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partial: usize,
    /// Masks that were added at the end of the canvas before this step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub appended: usize,
    /// Masks on the canvas before this step, with those that were added.
    pub n_masked: usize,
    /// How many of them were candidates.
    pub candidates: usize,
    /// What was committed, in pick order.
    pub commits: Vec<Commit>,
    /// The text of each commit, for people; filled in by a caller that knows the vocabulary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<String>,
    /// What was masked again; only by remasking samplers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remasked: Vec<usize>,
    /// What an end of text ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapsed: Option<Collapse>,
    /// No candidate was admissible, and the best was committed anyway.
    pub forced: bool,
    /// What a discount changed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Deferred>,
}

/// What a cache saved, and what it cost as far as that was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheMeter {
    /// Which cache, as it is written.
    pub cache: String,
    /// Forwards that computed every position.
    pub full_forwards: usize,
    /// Forwards that computed a window.
    pub partial_forwards: usize,
    /// Positions that would have been computed if all of them had been full.
    pub positions: usize,
    /// Positions that were.
    pub computed: usize,
    /// Full forwards within a block, where none would have been needed.
    pub refreshes: usize,
    /// Canvases of which both the cached and the exact answer were computed.
    pub checks: usize,
    /// Mean over the checks of the mean KL(exact ‖ cached) of their candidates, in nats; nobody's without checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_kl: Option<f64>,
    /// The largest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_kl: Option<f64>,
    /// Checks at which the sampler would have chosen otherwise; not known of samplers that remember, which see a step only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flips: Option<usize>,
}

impl CacheMeter {
    /// Computed positions as a share of those of full forwards.
    pub fn computed_share(&self) -> f64 {
        if self.positions == 0 { 1.0 } else { self.computed as f64 / self.positions as f64 }
    }

    /// Adds what the cache of another sequence did.
    pub fn add(&mut self, other: &CacheMeter) {
        let total = |m: &CacheMeter| m.mean_kl.map(|mean| mean * m.checks as f64);
        let (sum, checks) = (total(self).into_iter().chain(total(other)).sum::<f64>(), self.checks + other.checks);
        self.mean_kl = (checks > 0).then(|| sum / checks as f64);
        self.max_kl = self.max_kl.into_iter().chain(other.max_kl).reduce(f64::max);
        self.flips = self.flips.into_iter().chain(other.flips).reduce(|a, b| a + b);
        self.full_forwards += other.full_forwards;
        self.partial_forwards += other.partial_forwards;
        self.positions += other.positions;
        self.computed += other.computed;
        self.refreshes += other.refreshes;
        self.checks = checks;
        if self.cache.is_empty() {
            self.cache.clone_from(&other.cache);
        }
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// One position that a step filled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// Its index in the canvas.
    pub position: usize,
    /// The token written there.
    pub token: TokenId,
    /// c: the model's probability of the token.
    pub confidence: f64,
    /// H of the position, in nats.
    pub entropy: f64,
    /// The score before any discount.
    pub score: f64,
    /// u(i | S), the score when it was picked.
    pub utility: f64,
    /// The model's own probability of the token, where a constraint made `confidence` and `entropy` those of what is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_confidence: Option<f64>,
}

/// Masks that no forward filled: behind an end of text there is nothing but ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collapse {
    /// Where the step committed the end.
    pub by: usize,
    /// The end, which is now in all of them.
    pub token: TokenId,
    /// Who they were, ascending.
    pub positions: Vec<usize>,
}

/// The first candidate, in the order of undiscounted scores, that was passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deferred {
    /// The position that was passed over.
    pub position: usize,
    /// Its confidence when it was passed over.
    pub confidence: f64,
    /// The position that was tried in its place; picked, unless the rule refused it. Nobody, when a veto ended the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<usize>,
    /// The chosen position that discounted it most.
    pub by: usize,
    /// The masks through which it depends most on `by`, in order; none if it attends to it directly. Only discounts along paths say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<usize>,
    /// How much of its score `by` took.
    pub discount: f64,
    /// It was not picked later in the step either.
    pub waits: bool,
}

/// What was decoded, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format.
    pub cofill_trace: u32,
    /// The sampler as it is written, which can be read where the sampler itself is not known.
    pub sampler: SamplerForm,
    /// The model, as the user named it.
    pub model: String,
    /// The canvas at the start.
    pub tokens: Vec<TokenId>,
    /// Which of its tokens is the mask.
    pub mask_id: TokenId,
    /// Positions per block, if there were blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<usize>,
    /// The temperature of the proposals; 0 is greedy.
    pub temperature: f64,
    /// The seed of all randomness in the decode.
    pub seed: u64,
    /// The text of each token, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<String>,
    /// Forwards that were spent before the first step, on finding out how long gaps should be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub probes: usize,
}

/// The closing line: how the decode ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Forwards in all, also those that completed no step.
    pub nfe: usize,
    /// The canvas at the end.
    pub tokens: Vec<TokenId>,
    /// Masks that were added at its end, and that no step came to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub appended: usize,
    /// What a cache saved, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMeter>,
}

/// A trace that was read whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What was decoded, and how.
    pub header: Header,
    /// Every step that was completed, in order.
    pub steps: Vec<Step>,
    /// How it ended; `None` when it was interrupted.
    pub end: Option<End>,
}

/// Writes a trace as it happens: every step is a whole line, so an interrupted file stays readable.
pub struct TraceWriter<W> {
    out: W,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace with its header.
    pub fn new(out: W, header: &Header) -> std::io::Result<TraceWriter<W>> {
        let mut writer = TraceWriter { out };
        writer.line(header)?;
        Ok(writer)
    }

    /// Appends one step as a line.
    pub fn step(&mut self, step: &Step) -> std::io::Result<()> {
        self.line(step)
    }

    /// Writes the closing line.
    pub fn end(mut self, end: &End) -> std::io::Result<()> {
        self.line(end)
    }

    fn line(&mut self, record: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(std::io::Error::other)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

impl Trace {
    /// Reads a trace and checks that its steps can be replayed.
    pub fn read(input: impl BufRead) -> Result<Trace> {
        let bad = |line: usize, problem: String| Error::Trace { line, problem };
        let mut lines = (1..).zip(input.lines());
        let mut next = || {
            let line = lines.next().map(|(n, line)| line.map(|line| (n, line)).map_err(|e| bad(n, e.to_string())));
            line.transpose()
        };
        let (n, text) = next()?.ok_or_else(|| bad(1, "the file is empty; a trace starts with a header".into()))?;
        let version = serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|e| bad(n, format!("not JSON: {e}")))?
            .get("cofill_trace")
            .and_then(serde_json::Value::as_u64)
            .ok_or_else(|| bad(n, "not a cofill trace: no `cofill_trace` version".into()))?;
        if version != u64::from(VERSION) {
            return Err(bad(n, format!("version {version}, but this cofill reads version {VERSION}")));
        }
        let mut header: Header = serde_json::from_str(&text).map_err(|e| bad(n, e.to_string()))?;
        header.sampler = Registry::stock().normalise(&header.sampler).map_err(|e| bad(n, e.to_string()))?;
        let mut trace = Trace { header, steps: Vec::new(), end: None };
        let mut canvas = trace.canvas();
        while let Some((n, text)) = next()? {
            if trace.end.is_some() {
                return Err(bad(n, "text after the closing line".into()));
            }
            if let Ok(end) = serde_json::from_str::<End>(&text) {
                check_growth(end.appended, &canvas).map_err(|problem| bad(n, problem))?;
                canvas.append(end.appended);
                if end.tokens != canvas.tokens() {
                    return Err(bad(n, "the closing tokens are not what the steps lead to".into()));
                }
                // Only a capped decode may have made forwards that completed no step.
                if end.nfe < trace.nfe() || (end.nfe > trace.nfe() && canvas.n_masked() == 0) {
                    return Err(bad(n, format!("{} forwards in all, but the steps took {}", end.nfe, trace.nfe())));
                }
                trace.end = Some(end);
                continue;
            }
            let step: Step = serde_json::from_str(&text).map_err(|e| bad(n, e.to_string()))?;
            check_growth(step.appended, &canvas).map_err(|problem| bad(n, problem))?;
            canvas.append(step.appended);
            step.check(trace.steps.len(), &canvas).map_err(|problem| bad(n, problem))?;
            step.write(&mut canvas).map_err(|e| bad(n, e.to_string()))?;
            trace.steps.push(step);
        }
        Ok(trace)
    }

    /// Writes all of it.
    pub fn write(&self, out: impl Write) -> std::io::Result<()> {
        let mut writer = TraceWriter::new(out, &self.header)?;
        self.steps.iter().try_for_each(|step| writer.step(step))?;
        self.end.as_ref().map_or(Ok(()), |end| writer.end(end))
    }

    /// The canvas at the start.
    pub fn canvas(&self) -> Canvas {
        Canvas::new(self.header.tokens.clone(), self.header.mask_id)
    }

    /// Forwards in all, so far as the trace goes. A cap may cut a step between two of its forwards; only the closing line counts those.
    pub fn nfe(&self) -> usize {
        let steps: usize = self.steps.iter().map(|step| step.forwards).sum();
        self.end.as_ref().map_or(self.header.probes + steps, |end| end.nfe)
    }
}

impl Step {
    /// Refuses a step that cannot follow on `canvas`.
    fn check(&self, number: usize, canvas: &Canvas) -> Result<(), String> {
        if self.step != number {
            return Err(format!("step {} where step {number} should be", self.step));
        }
        if self.n_masked != canvas.n_masked() {
            return Err(format!("`n_masked` is {}, but {} masks are left", self.n_masked, canvas.n_masked()));
        }
        let deferred = self.deferred.iter();
        let mut named = deferred.flat_map(|d| [d.position, d.by].into_iter().chain(d.instead).chain(d.through.clone()));
        match named.find(|&position| position >= canvas.tokens().len()) {
            Some(position) => Err(format!("position {position} is not on the canvas")),
            None => Ok(()),
        }
    }

    /// Makes this step on `canvas`: its masks are added, its commits and remaskings made.
    pub fn apply(&self, canvas: &mut Canvas) -> Result<()> {
        canvas.append(self.appended);
        self.write(canvas)
    }

    /// The same of a canvas that has grown already.
    fn write(&self, canvas: &mut Canvas) -> Result<()> {
        for commit in &self.commits {
            canvas.commit(commit.position, commit.token)?;
        }
        self.remasked.iter().try_for_each(|&position| canvas.remask(position))?;
        self.filled().skip(self.commits.len()).try_for_each(|(position, token)| canvas.commit(position, token))
    }

    /// Every position that the step filled, and its token: what was committed, in pick order, and what an end of text ended.
    pub fn filled(&self) -> impl Iterator<Item = (usize, TokenId)> + '_ {
        let ended = self.collapsed.iter().flat_map(|c| c.positions.iter().map(|&position| (position, c.token)));
        self.commits.iter().map(|commit| (commit.position, commit.token)).chain(ended)
    }
}

/// The most positions of a canvas, so that a damaged file cannot ask for all memory.
const MOST: usize = 1 << 24;

/// Refuses masks that cannot be added to `canvas`.
fn check_growth(appended: usize, canvas: &Canvas) -> Result<(), String> {
    let length = canvas.tokens().len();
    match appended {
        0 => Ok(()),
        n if length.saturating_add(n) > MOST => {
            Err(format!("`appended` is {n}, but a canvas has at most {MOST} positions"))
        }
        _ if canvas.n_masked() > 0 => Err(format!("the canvas grows while it has {} masks left", canvas.n_masked())),
        _ => Ok(()),
    }
}
