//! One way to decode, used by every module: a canvas, a schedule, a proposal, and the toy that fits the canvas.

use cofill::toy::Toy;
use cofill::{
    Canvas, Decode, Denoiser, Distributions, Prediction, Proposal, Query, Result, SamplerSpec, Schedule, Step, TokenId,
    generate,
};
use std::collections::BTreeMap;

/// The toy's mask id, which is the same for every length.
pub(crate) const MASK: TokenId = 24;

/// At least one of every sampler in the registry, with parameters that leave something to decide on a toy canvas.
pub(crate) const EXAMPLES: &[&str] = &[
    "topk:3",
    "topk:3+ad",
    "topk:2@margin+ad@weight=mask",
    "topk:2@entropy",
    "topk:2@random+ad:5",
    "topk:2@experimental-dos+ad",
    "fast:1.5",
    "fast:3+ad:80",
    "topk:3+paths",
    "fast:3+ad@paths",
    "eb:3+ad@doubt@veto",
    "llada:4+paths",
    "topk:3+paths@source=shuffled",
    "eb:3+ad@source=distance",
    "fast-published:2+ad",
    "fast-dllm:1.5",
    "fast-upstream:1.5",
    "fast-profile",
    "fast-profile:1.5@margin+ad",
    "fast-sum:1.2+ad",
    "threshold:0.4",
    "threshold:0.4@margin+ad",
    "eb:0.8",
    "eb:3+ad",
    "eb-original:2@entropy",
    "llada:12",
    "llada:4+ad",
    "dream:12",
    "dream:4@maskgit_plus@alg_temp=0.3",
    "dream:8@topk_margin+ad",
    "dream:8@origin",
    "threshold-dream:0.4,4",
    "klass",
    "klass:0.4,5@dream@history=1",
    "less:0.4,0.1",
    "less:0.3,0.5@persistence=1",
    "dapd",
    "dawn",
    "dawn:0.3,1,0.07,0.3",
    "clad:0.4",
    "punt",
    "dus:8",
    "p2:6",
    "p2:9@random@eta=2",
    "lookum:3",
    "localleap:0.6,0.4,2",
    "hierarchy",
    "credit:0.6",
    "oracle",
    "oracle:3,0.5",
    "demask:0.3",
    "demask:2,0.4",
    "topk:3+ad:5@layer=learned",
    "apd:0.5",
    "apd:0.3,3",
];

/// A sampler by its text.
#[track_caller]
pub(crate) fn spec(text: &str) -> SamplerSpec {
    text.parse().unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

/// What is decoded, and how; everything but the sampler.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) canvas: Canvas,
    pub(crate) schedule: Schedule,
    pub(crate) proposal: Proposal,
    pub(crate) cap: Option<usize>,
}

/// What a decode did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) steps: Vec<Step>,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) nfe: usize,
}

impl Setup {
    /// Nothing but masks, all candidates, greedy.
    pub(crate) fn masks(length: usize) -> Setup {
        Setup::canvas(Canvas::prompt(&[], length, MASK))
    }

    /// Any canvas.
    pub(crate) fn canvas(canvas: Canvas) -> Setup {
        Setup { canvas, schedule: Schedule::Full, proposal: Proposal::greedy(), cap: None }
    }

    pub(crate) fn blocks(self, len: usize) -> Setup {
        Setup { schedule: Schedule::Blocks { len }, ..self }
    }

    pub(crate) fn sampled(self, temperature: f64, seed: u64) -> Setup {
        Setup { proposal: Proposal::sampled(temperature, seed), ..self }
    }

    pub(crate) fn capped(self, cap: usize) -> Setup {
        Setup { cap: Some(cap), ..self }
    }

    /// The decode before its first forward.
    pub(crate) fn decode(&self, sampler: &str) -> Result<Decode> {
        let builder = Decode::builder(self.canvas.clone(), spec(sampler).build()?);
        builder.schedule(self.schedule).proposal(self.proposal.clone()).cap(self.cap).begin()
    }

    /// The decode after its last.
    pub(crate) fn run(&self, sampler: &str) -> Result<Outcome> {
        let mut decode = self.decode(sampler)?;
        let steps = generate(&mut Phrases::default(), &mut decode)?;
        Ok(Outcome { steps, tokens: decode.canvas().tokens().to_vec(), nfe: decode.nfe() })
    }

    /// The same, where nothing may go wrong.
    #[track_caller]
    pub(crate) fn must_run(&self, sampler: &str) -> Outcome {
        self.run(sampler).unwrap_or_else(|error| panic!("`{sampler}` on {self}: {error}"))
    }

    /// The canvas before each of `steps`.
    pub(crate) fn replay<'a>(&self, steps: &'a [Step]) -> impl Iterator<Item = (Canvas, &'a Step)> + use<'a> {
        let mut canvas = self.canvas.clone();
        steps.iter().map(move |step| {
            let before = canvas.clone();
            step.apply(&mut canvas).unwrap();
            (before, step)
        })
    }
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Setup { canvas, schedule, proposal, .. } = self;
        let (length, masks) = (canvas.tokens().len(), canvas.n_masked());
        write!(f, "{masks} masks of {length}, {schedule:?}, temperature {}", proposal.temperature)
    }
}

/// `Toy::phrases` of whatever length a query has, so that decodes of different lengths can share a batch.
#[derive(Default)]
pub(crate) struct Phrases {
    toys: BTreeMap<usize, Toy>,
}

impl Denoiser for Phrases {
    fn mask_id(&self) -> TokenId {
        MASK
    }

    fn vocab(&self) -> usize {
        MASK as usize + 1
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let mut answers = Vec::new();
        for &query in batch {
            let length = query.tokens.len();
            let toy = self.toys.entry(length).or_insert_with(|| Toy::phrases(length));
            answers.extend(toy.denoise(&[query])?);
        }
        Ok(answers)
    }

    /// The same sentences from left to right: what is expected at a position after the words before it, and nothing of those behind.
    fn consult(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let mut answers = Vec::new();
        for query in batch {
            let (mut rows, mut flat) = (Vec::new(), Vec::new());
            for &row in query.rows {
                let mut before = query.tokens.to_vec();
                before[row..].fill(MASK);
                let answer = self.denoise(&[query.companion(false).tokens(&before).rows(&[row])])?.remove(0);
                rows.extend(answer.rows);
                flat.extend(answer.distributions.iter().flat_map(|p| p.row(0).to_vec()));
            }
            let distributions = query.distributions.then(|| Distributions::new(self.vocab(), flat)).transpose()?;
            answers.push(Prediction::new(rows).distributions(distributions));
        }
        Ok(answers)
    }
}

/// The committed positions of a step, in pick order.
pub(crate) fn positions(step: &Step) -> Vec<usize> {
    step.commits.iter().map(|commit| commit.position).collect()
}
