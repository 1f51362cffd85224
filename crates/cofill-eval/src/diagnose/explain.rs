//! One decode, explained: what ADAS deferred, because of whom, and what revealing that one did to it.
//!
//! At every step the plain sampler is shown the same forward. Whom it would have committed and ADAS did not is
//! *deferred*; the chosen position that took most from its score is the *reason*; and the *effect* is the paper's
//! intervention: the reason alone is revealed in a copy, and the model is asked again. Those extra forwards are counted
//! apart from the decode's own.

mod canvas;
mod page;
mod story;
mod text;

pub use story::{Ending, Story};
pub use text::{Palette, Style};

use super::ask;
use cofill::adas::{AttentionDiscount, Influence};
use cofill::{
    Canvas, Decode, Denoiser, Error, Prediction, Proposal, Query, Result, SamplerSpec, Schedule, Step, TokenId,
    generate,
};
use cofill_report::statistics::kl::kl;
use serde::Serialize;

/// A decode with reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The sampler with its discount.
    pub sampler: SamplerSpec,
    /// The same sampler without discount.
    pub plain: SamplerSpec,
    /// The canvas at the start.
    pub start: Vec<TokenId>,
    /// The steps, in the order of the decode.
    pub steps: Vec<Explained>,
    /// The canvas at the end.
    pub end: Vec<TokenId>,
    /// Forwards of the decode.
    pub nfe: usize,
    /// Forwards that the explanation took on top.
    pub extra_forwards: usize,
    /// What the plain sampler makes of the same start.
    pub plain_end: Vec<TokenId>,
    /// Forwards of the decode without discount.
    pub plain_nfe: usize,
}

/// A step with reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The canvas before it.
    pub before: Vec<TokenId>,
    /// The step as a trace has it: what was committed.
    pub step: Step,
    /// Whom the plain sampler would have committed, and ADAS did not; in the plain sampler's order.
    pub deferred: Vec<Deferred>,
    /// Whom ADAS committed and the plain sampler would not have.
    pub instead: Vec<usize>,
    /// What the model said of every candidate; for pages, not for programs.
    #[serde(skip)]
    pub candidates: Vec<Candidate>,
}

/// What the model said of a candidate before a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The position.
    pub position: usize,
    /// What it would have written.
    pub token: TokenId,
    /// How sure it was.
    pub confidence: f64,
    /// Its entropy in nats.
    pub entropy: f64,
    /// The candidates that it attends to most, with how much; at most [`ATTENDED`].
    pub attends: Vec<(usize, f64)>,
}

/// To how many others a candidate's attention is kept.
pub const ATTENDED: usize = 3;

/// A reveal that moves a distribution by less than this many nats has not changed it.
pub const NOTHING: f64 = 0.01;

/// A position that waits, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deferred {
    /// The position that waited.
    pub position: usize,
    /// What it would have written.
    pub token: TokenId,
    /// How sure it was.
    pub confidence: f64,
    /// What the discount took from it, of everybody together.
    pub lost: f64,
    /// The chosen position that took most from its score.
    pub reason: Reason,
    /// What it says once the reason is revealed.
    pub after: After,
    /// When it was committed at last, and as what; never in a decode that was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed: Option<Committed>,
}

impl Deferred {
    /// Whether the wait was for nothing: revealing the reason left its distribution as it was (KL below [`NOTHING`], the same likeliest token), and
    /// in the end it became what it would have been at once.
    pub fn changed_nothing(&self) -> bool {
        let same_end = self.committed.is_none_or(|end| end.token == self.token);
        same_end && self.after.token == self.token && self.after.kl < NOTHING
    }
}

/// The chosen position that took most from a deferred one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// The position.
    pub position: usize,
    /// What was written there.
    pub token: TokenId,
    /// How sure that was.
    pub confidence: f64,
    /// The deferred position's attention to it.
    pub attention: f64,
    /// The masks through which the deferred position depends most on it; none when it does so directly. Only discounts along paths say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<usize>,
    /// What it took, α A (1 − c) in the paper.
    pub lost: f64,
}

/// A position after the reason alone was revealed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct After {
    /// Its likeliest token now.
    pub token: TokenId,
    /// How sure it is now.
    pub confidence: f64,
    /// KL(before ‖ after), in nats.
    pub kl: f64,
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// The step in which it was committed.
    pub step: usize,
    /// The token it became.
    pub token: TokenId,
}

/// Samplers whose choice depends on the forward alone, so that the plain one can be asked at any step.
const MEMORYLESS: [&str; 8] =
    ["topk", "fast", "fast-published", "fast-dllm", "fast-upstream", "threshold", "eb", "eb-original"];

/// Decodes with `sampler`, which must have a discount, and explains every step.
pub fn explain(
    denoiser: &mut dyn Denoiser,
    canvas: &Canvas,
    sampler: &SamplerSpec,
    schedule: Schedule,
    proposal: &Proposal,
) -> Result<Explanation> {
    let bad = |limit: &str| Error::BadSetting { what: "the sampler", limit: limit.into(), given: sampler.to_string() };
    let discount = sampler
        .discount()
        .ok_or_else(|| bad("one with +ad or +paths, like topk:8+ad: without it nobody is deferred"))?;
    if discount.control.is_some() {
        return Err(bad("one that reads attention: a control, @source=.., has no reasons"));
    }
    let random = sampler.form().options().iter().any(|option| option.name == "random");
    if random || !MEMORYLESS.contains(&sampler.entry().name.as_str()) {
        return Err(bad(
            "topk, fast, threshold or eb in any form, with +ad: others depend on earlier steps or on chance",
        ));
    }
    let plain = sampler.with_discount(None)?;
    let mut decode =
        Decode::builder(canvas.clone(), sampler.build()?).schedule(schedule).proposal(proposal.clone()).begin()?;
    let (mut steps, mut extra_forwards) = (Vec::new(), 0);
    while let Some(query) = decode.query() {
        let query = query.distributions(true);
        let prediction = ask(denoiser, query)?;
        // The decode moves on; the scene stays.
        let (tokens, rows, free) = (query.tokens.to_vec(), query.rows.to_vec(), query.free.to_vec());
        let (number, proposal) = (query.step, query.proposal.clone());
        let rivals = rivals(&plain, &tokens, canvas, schedule, &prediction)?;
        let step = decode.absorb(&prediction)?;
        let step =
            step.ok_or_else(|| Error::Contract { who: "sampler", problem: format!("it probes in step {number}") })?;
        let chosen: Vec<usize> = step.commits.iter().map(|commit| commit.position).collect();
        let waiting: Vec<usize> = rivals.iter().copied().filter(|position| !chosen.contains(position)).collect();
        let instead = chosen.iter().copied().filter(|position| !rivals.contains(position)).collect();
        let query = Query::new(&tokens, &rows, &proposal).free(&free).distributions(true).step(number);
        let scene = Scene { query, prediction: &prediction, discount, step: &step };
        let (deferred, forwards) = scene.reasons(denoiser, &waiting)?;
        extra_forwards += forwards;
        let candidates = candidates(&rows, &prediction);
        steps.push(Explained { before: tokens, step, deferred, instead, candidates });
    }
    let mut undisturbed =
        Decode::builder(canvas.clone(), plain.build()?).schedule(schedule).proposal(proposal.clone()).begin()?;
    generate(denoiser, &mut undisturbed)?;
    tell_the_ends(&mut steps);
    Ok(Explanation {
        sampler: sampler.clone(),
        plain,
        start: canvas.tokens().to_vec(),
        steps,
        end: decode.canvas().tokens().to_vec(),
        nfe: decode.nfe(),
        extra_forwards,
        plain_end: undisturbed.canvas().tokens().to_vec(),
        plain_nfe: undisturbed.nfe(),
    })
}

/// What a forward says of every position that it was asked about.
fn candidates(positions: &[usize], prediction: &Prediction) -> Vec<Candidate> {
    let candidate = |(row, &position): (usize, &usize)| {
        let mut attends: Vec<(usize, f64)> = match &prediction.attention {
            Some(attention) => (0..positions.len())
                .filter(|other| *other != row)
                .map(|other| (positions[other], attention.get(row, other)))
                .collect(),
            None => Vec::new(),
        };
        attends.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        attends.truncate(ATTENDED);
        let of = &prediction.rows[row];
        Candidate { position, token: of.token, confidence: of.confidence, entropy: of.entropy, attends }
    };
    positions.iter().enumerate().map(candidate).collect()
}

/// Whom the plain sampler would commit now.
fn rivals(
    plain: &SamplerSpec,
    before: &[TokenId],
    start: &Canvas,
    schedule: Schedule,
    prediction: &Prediction,
) -> Result<Vec<usize>> {
    // Blocks tile what was masked at the start, so the sampler needs to see the canvas's own history: replay it.
    let mut canvas = start.clone();
    for &position in start.free() {
        if before[position] != start.mask_id() {
            canvas.commit(position, before[position])?;
        }
    }
    let mut decode = Decode::builder(canvas, plain.build()?).schedule(schedule).begin()?;
    let step = decode.absorb(prediction)?;
    Ok(step.map_or_else(Vec::new, |step| step.commits.iter().map(|commit| commit.position).collect()))
}

/// A step as it was decided.
struct Scene<'a> {
    query: Query<'a>,
    prediction: &'a Prediction,
    discount: AttentionDiscount,
    step: &'a Step,
}

impl Scene<'_> {
    fn row(&self, position: usize) -> usize {
        self.query.rows.binary_search(&position).expect("whoever is chosen or deferred was a candidate")
    }

    /// Why everybody waits, and the forwards it took to find out.
    fn reasons(&self, denoiser: &mut dyn Denoiser, waiting: &[usize]) -> Result<(Vec<Deferred>, usize)> {
        let missing = || Error::Contract { who: "denoiser", problem: "it answers no attention".into() };
        let attention = self.prediction.attention.as_ref().ok_or_else(missing)?;
        let mut influence = Influence::new(self.discount);
        influence.open(&self.prediction.rows, attention);
        self.step.commits.iter().for_each(|commit| influence.choose(attention, self.row(commit.position)));
        let mut found = Vec::with_capacity(waiting.len());
        for &position in waiting {
            let row = self.row(position);
            let reason = |commit: &cofill::trace::Commit| {
                let chosen = self.row(commit.position);
                let (a, lost) = (attention.get(row, chosen), influence.loss(attention, row, chosen));
                let (position, token, confidence) = (commit.position, commit.token, commit.confidence);
                Reason { position, token, confidence, attention: a, through: Vec::new(), lost }
            };
            let reasons: Vec<Reason> = self.step.commits.iter().map(reason).collect();
            let lost = reasons.iter().map(|reason| reason.lost).sum();
            let most = reasons.into_iter().reduce(|most, next| if next.lost > most.lost { next } else { most });
            let Some(mut reason) = most else { continue };
            influence.between(attention, row, self.row(reason.position), &mut reason.through);
            reason.through.iter_mut().for_each(|row| *row = self.query.rows[*row]);
            found.push((position, lost, reason));
        }
        // One forward for everybody who waits for the same reason.
        let mut reasons: Vec<(usize, TokenId)> = found.iter().map(|(_, _, r)| (r.position, r.token)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let mut deferred = Vec::with_capacity(found.len());
        for &(by, token) in &reasons {
            let mut rows: Vec<usize> = found.iter().filter(|(_, _, r)| r.position == by).map(|(p, ..)| *p).collect();
            rows.sort_unstable();
            let mut tokens = self.query.tokens.to_vec();
            tokens[by] = token;
            let query = self.query.tokens(&tokens).rows(&rows).attention(None).distributions(true);
            let after = ask(denoiser, query)?;
            for (at, &position) in rows.iter().enumerate() {
                let found = found.iter().find(|(p, ..)| *p == position).expect("made from these");
                let (lost, reason) = (found.1, found.2.clone());
                let row = self.row(position);
                let before = &self.prediction.rows[row];
                let (Some(p), Some(q)) = (&self.prediction.distributions, &after.distributions) else {
                    return Err(missing());
                };
                let kl = kl(p.row(row), q.row(at));
                let (token, confidence) = (after.rows[at].token, after.rows[at].confidence);
                deferred.push(Deferred {
                    position,
                    token: before.token,
                    confidence: before.confidence,
                    lost,
                    reason,
                    after: After { token, confidence, kl },
                    committed: None,
                });
            }
        }
        let order = |d: &Deferred| waiting.iter().position(|&position| position == d.position);
        deferred.sort_by_key(order);
        Ok((deferred, reasons.len()))
    }
}

/// Fills in when everybody who waited was committed.
fn tell_the_ends(steps: &mut [Explained]) {
    let ends: Vec<(usize, Committed)> = steps
        .iter()
        .flat_map(|explained| {
            let step = explained.step.step;
            explained.step.commits.iter().map(move |c| (c.position, Committed { step, token: c.token }))
        })
        .collect();
    for deferred in steps.iter_mut().flat_map(|explained| &mut explained.deferred) {
        deferred.committed = ends.iter().find(|(position, _)| *position == deferred.position).map(|(_, end)| *end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill::toy::Toy;

    fn explain_toy(sampler: &str, schedule: Schedule) -> Result<Explanation> {
        let mut toy = Toy::phrases(6);
        let canvas = Canvas::prompt(&[], 6, toy.mask_id());
        explain(&mut toy, &canvas, &sampler.parse().unwrap(), schedule, &Proposal::greedy())
    }

    #[test]
    fn the_second_word_of_a_name_waits_for_the_first() {
        // As in the README: step 1 of Top-2 takes Alan and Kelly, ADAS takes Alan and San.
        let explanation = explain_toy("topk:2+ad", Schedule::Full).unwrap();
        let text = |tokens: &[TokenId]| tokens.iter().map(|&t| Toy::piece(t)).collect::<Vec<_>>().join(" ");
        assert_eq!(text(&explanation.end), "Alan Turing visited San Diego again");
        assert_eq!(text(&explanation.plain_end), "Alan Kelly visited San City again");
        assert_eq!((explanation.nfe, explanation.plain_nfe, explanation.extra_forwards), (3, 3, 1));
        assert!(explanation.steps[0].deferred.is_empty() && explanation.steps[2].deferred.is_empty());
        let step = &explanation.steps[1];
        let [deferred] = &step.deferred[..] else { panic!("{step:?}") };
        assert_eq!((deferred.position, Toy::piece(deferred.token)), (1, "Kelly"));
        assert_eq!((deferred.reason.position, Toy::piece(deferred.reason.token)), (0, "Alan"));
        assert_eq!((Toy::piece(deferred.after.token), step.instead.as_slice()), ("Turing", &[3][..]));
        // What `trace diff` says of the same step.
        let first = step.step.deferred.clone().unwrap();
        assert_eq!((first.position, first.by), (1, 0));
        assert!((first.discount - deferred.reason.lost).abs() < 1e-12);
        assert!(deferred.lost >= deferred.reason.lost && deferred.after.kl > 0.5);
        let end = deferred.committed.unwrap();
        assert_eq!((end.step, Toy::piece(end.token)), (2, "Turing"));
    }

    #[test]
    fn a_wait_is_for_nothing_if_nothing_came_of_it() {
        let explanation = explain_toy("topk:2+ad", Schedule::Full).unwrap();
        let deferred = &explanation.steps[1].deferred[0];
        assert!(!deferred.changed_nothing(), "Kelly became Turing");
        let (token, end) = (deferred.token, deferred.committed.unwrap());
        let quiet = Deferred {
            after: After { token, confidence: 0.5, kl: 0.009 },
            committed: Some(Committed { token, ..end }),
            ..deferred.clone()
        };
        assert!(quiet.changed_nothing());
        // Each of the three by itself is something.
        assert!(!Deferred { after: After { kl: NOTHING, ..quiet.after }, ..quiet.clone() }.changed_nothing());
        assert!(!Deferred { after: After { token: token + 1, ..quiet.after }, ..quiet.clone() }.changed_nothing());
        assert!(!Deferred { committed: deferred.committed, ..quiet }.changed_nothing());
    }

    #[test]
    fn every_candidate_says_whom_it_attends_to() {
        let explanation = explain_toy("topk:2+ad", Schedule::Full).unwrap();
        let step = &explanation.steps[1];
        let positions: Vec<usize> = step.candidates.iter().map(|candidate| candidate.position).collect();
        let masked: Vec<usize> = (0..6).filter(|&p| step.before[p] == Toy::phrases(6).mask_id()).collect();
        assert_eq!(positions, masked);
        let kelly = step.candidates.iter().find(|candidate| candidate.position == 1).unwrap();
        let deferred = &step.deferred[0];
        assert_eq!((kelly.token, kelly.confidence), (deferred.token, deferred.confidence));
        assert!(kelly.attends.len() == ATTENDED && kelly.attends.is_sorted_by(|a, b| a.1 >= b.1));
        assert!(kelly.attends.contains(&(0, deferred.reason.attention)), "{kelly:?}");
    }

    #[test]
    fn blocks_and_the_other_rules_are_explained_too() {
        for sampler in ["topk:2+ad", "fast:1.2+ad", "eb:2+ad", "threshold:0.4+ad", "topk:3@margin+ad@weight=mask"] {
            for schedule in [Schedule::Full, Schedule::Blocks { len: 3 }] {
                let explanation = explain_toy(sampler, schedule).unwrap();
                let committed: usize = explanation.steps.iter().map(|step| step.step.commits.len()).sum();
                assert_eq!(committed, 6, "{sampler}");
                for deferred in explanation.steps.iter().flat_map(|step| &step.deferred) {
                    assert!(deferred.committed.is_some() && deferred.after.kl.is_finite(), "{sampler}");
                }
            }
        }
    }

    #[test]
    fn samplers_without_reasons_are_refused() {
        for (sampler, why) in [
            ("topk:2", "+ad"),
            ("topk:2+ad@source=shuffled", "a control"),
            ("llada:3+ad", "earlier steps"),
            ("topk:2@random+ad", "chance"),
        ] {
            let error = explain_toy(sampler, Schedule::Full).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("topk") && error.contains("the sampler"), "{error}");
        }
    }
}
