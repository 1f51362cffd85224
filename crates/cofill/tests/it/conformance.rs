//! Trajectories of reference decoders (`fixtures/goldens/models`), so far as they can be judged without the model that
//! made them.

use crate::fixtures::{read, rule};
use crate::support::spec;
use cofill::fast_dllm::{FactorForm, FastDllm};
use cofill::rule::{Bound, EntropyBound, Tally, TopK};
use cofill::{Canvas, RowStats, Snapshot, StoppingRule, TokenId, quota};
use serde::Deserialize;

fn goldens(file: &str) -> Vec<Trajectory> {
    read(&cofill_goldens::folder(env!("CARGO_TARGET_TMPDIR")).join("models").join(file))
}

/// A decode by somebody else.
#[derive(Deserialize)]
struct Trajectory {
    name: String,
    algorithm: String,
    params: Params,
    canvas: Vec<Vec<TokenId>>, // [batch][length], masks included
    nfe: usize,
    steps: Vec<Vec<Recorded>>, // [step][batch]
    #[serde(rename = "final")]
    end: Vec<Vec<TokenId>>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    rule: String,
    threshold: Option<f64>,
    factor: Option<f64>,
    alpha: Option<f64>,
    steps: Option<usize>,
    eps: Option<f64>,
    block_length: Option<usize>,
}

#[derive(Deserialize)]
struct Recorded {
    n_masked: usize,
    selected: Vec<usize>, // positions, in pick order
    tokens: Vec<TokenId>,
    #[serde(default)]
    confidence: Vec<f64>,
    #[serde(default)]
    entropy: Vec<f64>,
    #[serde(default)]
    utility: Vec<f64>,
    #[serde(default)]
    score: Vec<f64>,
    #[serde(default)]
    forced: bool,
    conf_all: Option<Vec<f64>>,
    entropy_all: Option<Vec<f64>>,
}

impl Trajectory {
    /// The steps of one row of the batch, replayed on our canvas to the recorded end.
    fn replay(&self, row: usize, mask_id: TokenId) -> Vec<(Canvas, &Recorded)> {
        let mut canvas = Canvas::new(self.canvas[row].clone(), mask_id);
        let mut steps = Vec::new();
        for recorded in self.steps.iter().map(|step| &step[row]) {
            assert_eq!(recorded.n_masked, canvas.n_masked(), "{}", self.name);
            steps.push((canvas.clone(), recorded));
            for (&position, &token) in recorded.selected.iter().zip(&recorded.tokens) {
                canvas.commit(position, token).unwrap_or_else(|error| panic!("{}: {error}", self.name));
            }
        }
        assert_eq!(canvas.tokens(), self.end[row], "{}", self.name);
        assert_eq!(canvas.n_masked(), 0, "{}", self.name);
        steps
    }
}

/// A recorded position as our rules see it. Goldens hold nine digits.
fn row(confidence: f64, entropy: f64) -> RowStats {
    RowStats::new(0, confidence).entropy(entropy)
}

fn check_adas(file: &str, mask_id: TokenId, least: usize) {
    let trajectories = goldens(file);
    let mut n_steps = 0;
    for t in &trajectories {
        assert_eq!((t.algorithm.as_str(), t.steps.len()), ("adas", t.nfe), "{}", t.name);
        let (x, alpha) = (t.params.threshold.unwrap(), t.params.alpha.unwrap());
        let admissible: Box<dyn StoppingRule> = match rule(&t.params.rule) {
            "topk" => Box::new(TopK { k: x as usize }),
            "fast" => Box::new(FastDllm { factor: x, form: FactorForm::Adas }),
            _ => Box::new(EntropyBound { gamma: x, bound: Bound::Strict }),
        };
        for (canvas, step) in t.replay(0, mask_id) {
            n_steps += 1;
            // Every prefix of a selection was admissible when it was made, and a forced one was not.
            let mut set = Tally::empty(canvas.n_masked());
            for (&c, &h) in step.confidence.iter().zip(&step.entropy) {
                set = set.with(&row(c, h));
                assert_eq!(admissible.admits(&set), !step.forced, "{}: {:?}", t.name, step.selected);
            }
            assert!(!step.forced || step.selected.len() == 1, "{}", t.name);
            if t.params.rule == "topk" {
                assert_eq!(step.selected.len(), canvas.n_masked().min(x as usize), "{}", t.name);
            }
            // The first pick is not discounted, nobody gains by a discount, and without alpha nothing is discounted.
            assert_eq!(step.utility[0], step.confidence[0], "{}", t.name);
            let fine = |(u, c): (&f64, &f64)| if alpha == 0.0 { u == c } else { u <= c };
            assert!(step.utility.iter().zip(&step.confidence).all(fine), "{}", t.name);
            assert!(step.utility.is_sorted_by(|a, b| a >= b), "{}: utilities only fall along a greedy order", t.name);

            let (Some(c), Some(h)) = (&step.conf_all, &step.entropy_all) else { continue };
            // All candidates were recorded, but no attention: the base sampler can be run, and of ADAS the first pick.
            let masked: Vec<usize> = canvas.masked().collect();
            let base = spec(&format!("{}:{x}", rule(&t.params.rule)));
            let picks = Snapshot::new(c).entropy(h).select(&base).unwrap();
            let picked: Vec<usize> = picks.iter().map(|pick| masked[pick.slot.0]).collect();
            assert_eq!(picked[0], step.selected[0], "{}", t.name);
            if alpha == 0.0 {
                assert_eq!((picked, picks.forced), (step.selected.clone(), step.forced), "{}", t.name);
            }
        }
    }
    println!("conformance: {file}: {} trajectories, {n_steps} steps", trajectories.len());
    assert!(trajectories.len() >= least && n_steps > trajectories.len());
}

#[test]
fn llada_adas_trajectories() {
    check_adas("llada_adas.json", 150, 30);
}

#[test]
fn dream_adas_trajectories() {
    check_adas("dream_adas.json", 151, 30);
    check_adas("dream_adas_rowshift_variant.json", 151, 4);
}

/// How many positions each step may take, and how sure each had to be, for the official decoders.
fn check_official(file: &str, mask_id: TokenId) {
    let trajectories = goldens(file);
    let mut judged = 0;
    // Caches are the model's business, and this crate knows nothing of them.
    for t in trajectories.iter().filter(|t| !t.algorithm.ends_with("_cache")) {
        let counts = |row: usize| t.steps.iter().map(|step| step[row].selected.len()).collect::<Vec<_>>();
        let masks = |row: usize| t.canvas[row].iter().filter(|&&token| token == mask_id).count();
        for row in 0..t.canvas.len() {
            t.replay(row, mask_id);
            let ordered = |step: &Vec<Recorded>| step[row].score.is_sorted_by(|a, b| a >= b);
            assert!(t.steps.iter().all(ordered), "{}: best first", t.name);
        }
        judged += 1;
        match t.algorithm.as_str() {
            "llada_low_confidence" => {
                let (steps, block) = (t.params.steps.unwrap(), t.params.block_length.unwrap());
                let blocks = masks(0) / block;
                let want = quota::llada_counts(block, steps / blocks).repeat(blocks);
                (0..t.canvas.len()).for_each(|row| assert_eq!(counts(row), want, "{}", t.name));
            }
            "dream_entropy" | "dream_maskgit_plus" | "dream_topk_margin" => {
                let want = quota::dream_counts(masks(0), t.params.steps.unwrap(), t.params.eps.unwrap());
                (0..t.canvas.len()).for_each(|row| assert_eq!(counts(row), want, "{}", t.name));
            }
            "fastdllm_threshold" | "dream_confidence_threshold" => {
                let tau = t.params.threshold.unwrap();
                let sure = |step: &Vec<Recorded>| step[0].score.iter().skip(1).all(|&c| c >= tau);
                assert!(t.steps.iter().all(sure), "{}: all but the first are sure", t.name);
            }
            "fastdllm_factor" => {
                // `fast-upstream` admits every recorded prefix; its quirk needs to know how many candidates there were.
                let block = t.params.block_length.unwrap();
                let rule = FastDllm { factor: t.params.factor.unwrap(), form: FactorForm::Upstream };
                for (canvas, step) in t.replay(0, mask_id) {
                    let schedule = cofill::Schedule::Blocks { len: block };
                    let end = schedule.current(&canvas).expect("a step has masks").1;
                    let mut set = Tally::empty(canvas.masked().filter(|&i| i < end).count());
                    for &c in &step.score {
                        set = set.with(&row(c, 0.0));
                        assert!(rule.admits(&set), "{}: {:?}", t.name, step.selected);
                    }
                }
            }
            other => panic!("{}: who is {other}?", t.name),
        }
    }
    println!("conformance: {file}: {judged} of {} trajectories judged", trajectories.len());
    assert!(judged >= 14);
}

#[test]
fn llada_official_trajectories() {
    check_official("llada_trajectories.json", 150);
}

#[test]
fn dream_official_trajectories() {
    check_official("dream_trajectories.json", 151);
}
