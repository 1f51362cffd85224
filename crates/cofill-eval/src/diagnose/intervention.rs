//! Section 4's Table 1 and appendix B's intervals, from measured states.
//!
//! ρ correlates all pairs of a setting; ρ̄_s is the mean of the correlations within each state, which holds the
//! revealed token and the canvas fixed. Gain is ρ̄_s(c, K) − ρ̄_s(s, K): positive when ADAS's score falls more with K
//! than confidence alone does.
//!
//! A state in which A, c, s or K is the same for all of its pairs, or which has a single pair, ranks nothing. It is
//! left out of every ρ̄_s, and counted. So all of a setting's ρ̄_s, and Gain, are of the same states.

use super::flips::{self, Flips};
use super::folder::{Diagnosis, Words, listed, signed, three, with_interval};
use super::heads;
use super::state::{Effect, State};
use super::{Setting, mean, normal};
use cofill_report::document::latex::{Float, Line, Tables, escaped};
use cofill_report::document::{Document, NamedFigure, Table, count};
use cofill_report::plot::{Axis, Corner, Figure, Mark, Panel, Row, Scale};
use cofill_report::statistics::bootstrap::{Bootstrap, Estimate};
use cofill_report::statistics::spearman::spearman;
use serde::Serialize;
use serde_json::json;

/// What a setting's states say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The task, as tables name it.
    pub task: String,
    /// The model, as tables name it.
    pub model: String,
    /// Examples with a state.
    pub examples: usize,
    /// How many interventions were made.
    pub states: usize,
    /// States that rank nothing and are left out of statewise means.
    pub excluded: usize,
    /// Pairs of positions in all states.
    pub pairs: usize,
    /// ρ̄_s(A, K), with its normal interval over states.
    pub state_attention: Option<Estimate>,
    /// ρ(A, K): attention and effect, over all pairs.
    pub attention: Option<f64>,
    /// ρ(u, K): gated attention and effect, over all pairs.
    pub gated: Option<f64>,
    /// ρ̄_s(c, K): confidence and effect, within states.
    pub state_confidence: Option<f64>,
    /// ρ̄_s(s, K): ADAS's score and effect, within states.
    pub state_score: Option<f64>,
    /// Gain, with its bootstrap interval over examples.
    pub gain: Option<Estimate>,
    /// The mean effect K, in nats.
    pub mean_kl: Option<f64>,
    /// The mean change of confidence, Δc.
    pub mean_delta_confidence: Option<f64>,
}

/// The correlations within one state; none when it ranks nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Statewise {
    attention: f64,
    confidence: f64,
    score: f64,
}

impl Statewise {
    fn of(state: &State) -> Option<Statewise> {
        let kl = column(&state.pairs, |pair| pair.kl);
        let with = |field: fn(&Effect) -> f64| spearman(&column(&state.pairs, field), &kl);
        Some(Statewise {
            attention: with(|pair| pair.attention)?,
            confidence: with(|pair| pair.confidence)?,
            score: with(|pair| pair.score)?,
        })
    }
}

fn column(pairs: &[Effect], field: fn(&Effect) -> f64) -> Vec<f64> {
    pairs.iter().map(field).collect()
}

impl Summary {
    /// Summarises the states of a setting.
    pub fn of(setting: &Setting, bootstrap: &Bootstrap) -> Summary {
        let Setting { task, model, states } = setting;
        let pairs: Vec<Effect> = states.iter().flat_map(|state| state.pairs.iter().copied()).collect();
        let kl = column(&pairs, |pair| pair.kl);
        let overall = |field: fn(&Effect) -> f64| spearman(&column(&pairs, field), &kl);
        let statewise: Vec<(usize, Statewise)> =
            states.iter().filter_map(|state| Some((state.doc, Statewise::of(state)?))).collect();
        let of = |field: fn(&Statewise) -> f64| statewise.iter().map(|(_, s)| field(s)).collect::<Vec<f64>>();
        // Paired by construction: both correlations of a state are in one number. The five states of an example are
        // averaged first.
        let gains: Vec<f64> = statewise
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|example| mean(&example.iter().map(|(_, s)| s.confidence - s.score).collect::<Vec<_>>()))
            .collect();
        let gain = mean(&of(|s| s.confidence - s.score));
        let interval = bootstrap.mean(&gains).map(|estimate| estimate.interval);
        Summary {
            task: task.clone(),
            model: model.clone(),
            examples: states.chunk_by(|a, b| a.doc == b.doc).count(),
            states: states.len(),
            excluded: states.len() - statewise.len(),
            pairs: pairs.len(),
            state_attention: normal(&of(|s| s.attention)),
            attention: overall(|pair| pair.attention),
            gated: overall(|pair| pair.gated),
            state_confidence: mean(&of(|s| s.confidence)),
            state_score: mean(&of(|s| s.score)),
            gain: gain.zip(interval).map(|(value, interval)| Estimate { value, interval }),
            mean_kl: mean(&kl),
            mean_delta_confidence: mean(&column(&pairs, |pair| pair.delta_confidence)),
        }
    }
}

/// Everything about some settings.
pub fn report(settings: &[Setting], bootstrap: &Bootstrap) -> Diagnosis {
    let summaries: Vec<Summary> = settings.iter().map(|setting| Summary::of(setting, bootstrap)).collect();
    let by_head = heads::of_states(settings);
    let foretold: Vec<Flips> = settings.iter().map(|setting| Flips::of(setting, bootstrap)).collect();
    let mut tables = vec![main_table(&summaries), interval_table(&summaries), flips::table(&foretold)];
    tables.extend(by_head.iter().map(heads::ByHead::table));
    let mut json = json!({ "settings": &summaries, "flips": &foretold, "bootstrap": bootstrap });
    if !by_head.is_empty() {
        json["heads"] = json!(by_head);
    }
    let excluded: usize = summaries.iter().map(|summary| summary.excluded).sum();
    let states: usize = summaries.iter().map(|summary| summary.states).sum();
    let Bootstrap { resamples, seed } = bootstrap;
    let mut notes = vec![format!(
        "ρ̄_s: mean within states, ρ: over all pairs, K: KL before ‖ after in nats. {excluded} of {states} states rank \
         nothing (a column is constant, or there is one pair) and are left out of ρ̄_s and Gain. Intervals are 95 %: \
         normal over states, and a paired bootstrap over examples for Gain ({resamples} resamples, seed {seed})."
    )];
    notes.extend(flips::note(&foretold));
    notes.extend(by_head.iter().filter_map(heads::ByHead::best_line));
    let figures = Diagnosis::worth_drawing(figure(settings, &summaries), &mut notes);
    let blocks = Diagnosis::blocks(words(&summaries), &figures, tables, notes);
    Diagnosis { document: Document { blocks, latex: latex(&summaries), figures }, json }
}

/// What came of it: where attention tells, where the score tells more than confidence, and where that is sure.
fn words(summaries: &[Summary]) -> Words {
    let n = summaries.len();
    let sum = |of: fn(&Summary) -> usize| summaries.iter().map(of).sum::<usize>();
    let how_many = |of: &dyn Fn(&Summary) -> bool| summaries.iter().filter(|summary| of(summary)).count();
    let rho: Vec<f64> = summaries.iter().filter_map(|s| s.state_attention).map(|estimate| estimate.value).collect();
    let ends = (rho.iter().copied().reduce(f64::min), rho.iter().copied().reduce(f64::max));
    let about = format!(
        "A position is revealed in a copy of the canvas, and the model is asked again: which others change? {} of {} in {}: {} and {}.",
        count(sum(|s| s.pairs), "pair"),
        count(sum(|s| s.states), "state"),
        count(n, "setting"),
        listed(summaries.iter().map(|s| s.task.as_str())),
        listed(summaries.iter().map(|s| s.model.as_str())),
    );
    let attention = |above: f64| how_many(&|s| s.state_attention.is_some_and(|e| e.interval.low > above));
    let (gains, losses) = (
        how_many(&|s| s.gain.is_some_and(|e| e.interval.low > 0.0)),
        how_many(&|s| s.gain.is_some_and(|e| e.interval.high < 0.0)),
    );
    Words {
        title: "Does attention tell what a reveal does?".into(),
        about,
        findings: vec![
            format!(
                "Attention and the change: ρ̄_s(A, K) from {} to {}, with its whole interval above 0 in {} of {}.",
                three(ends.0),
                three(ends.1),
                attention(0.0),
                count(n, "setting"),
            ),
            format!(
                "The score of ADAS foretells it better than confidence alone (Gain above 0) in {} of {}: the whole interval lies above 0 in \
                 {gains}, below 0 in {losses}, and holds 0 in {}.",
                how_many(&|s| s.gain.is_some_and(|e| e.value > 0.0)),
                count(n, "setting"),
                n - gains - losses,
            ),
        ],
    }
}

fn main_table(summaries: &[Summary]) -> Table {
    let head = [
        "task",
        "model",
        "states",
        "excluded",
        "pairs",
        "ρ̄_s(A, K)",
        "ρ(A, K)",
        "ρ(u, K)",
        "ρ̄_s(c, K)",
        "ρ̄_s(s, K)",
        "Gain",
    ];
    let row = |s: &Summary| {
        vec![
            s.task.clone(),
            s.model.clone(),
            s.states.to_string(),
            s.excluded.to_string(),
            s.pairs.to_string(),
            three(s.state_attention.map(|estimate| estimate.value)),
            three(s.attention),
            three(s.gated),
            three(s.state_confidence),
            three(s.state_score),
            signed(s.gain.map(|estimate| estimate.value)),
        ]
    };
    Table {
        caption: Some(
            "Dependency diagnostic: does attention tell what revealing a position does to another? Correlations from -1 to 1. Above 0, A and u \
             foretell the change K; c and s foretell it below 0. Gain is how much more s does so than c: above 0 speaks for ADAS."
                .into(),
        ),
        head: head.map(String::from).to_vec(),
        words: 2,
        rows: summaries.iter().map(row).collect(),
    }
}

fn interval_table(summaries: &[Summary]) -> Table {
    let head = ["task", "model", "examples", "ρ̄_s(A, K) [95 %]", "Gain [95 %]", "mean K", "mean Δc"];
    let row = |s: &Summary| {
        vec![
            s.task.clone(),
            s.model.clone(),
            s.examples.to_string(),
            with_interval(s.state_attention),
            with_interval(s.gain),
            three(s.mean_kl),
            signed(s.mean_delta_confidence),
        ]
    };
    Table {
        caption: Some("The same with intervals. In brackets 95 %; an interval that holds 0 shows nothing.".into()),
        head: head.map(String::from).to_vec(),
        words: 2,
        rows: summaries.iter().map(row).collect(),
    }
}

/// Tables "real-dependency-main" and "real-dependency-intervals" in the paper's layout.
fn latex(summaries: &[Summary]) -> Tables {
    let mut main = vec![Line::cells(MAIN_HEAD)];
    let mut intervals = vec![Line::cells(INTERVALS_HEAD), Line::Rule];
    for task in summaries.chunk_by(|a, b| a.task == b.task) {
        main.push(Line::Rule);
        for (i, s) in task.iter().enumerate() {
            let task = if i == 0 { escaped(&s.task) } else { String::new() };
            let gain = escaped(&signed(s.gain.map(|estimate| estimate.value)));
            // Bold as in the paper: where the whole interval is above 0.
            let sure = s.gain.is_some_and(|estimate| estimate.interval.low > 0.0);
            let gain = if sure { format!("\\textbf{{{gain}}}") } else { gain };
            let numbers = [s.state_attention.map(|e| e.value), s.attention, s.gated, s.state_confidence, s.state_score];
            let numbers = numbers.map(|number| escaped(&three(number)));
            let names = [task.clone(), escaped(&s.model)];
            main.push(Line::cells(names.clone().into_iter().chain(numbers).chain([gain])));
            let cells = [with_interval(s.state_attention), with_interval(s.gain)].map(|cell| escaped(&cell));
            intervals.push(Line::cells(names.into_iter().chain(cells)));
        }
    }
    let main = Float { place: 'h', column_space: Some("3.2pt"), ..Float::new(MAIN, "llrrrrrr", main) };
    let intervals = Float { place: 'h', column_space: Some("5pt"), ..Float::new(INTERVALS, "llcc", intervals) };
    Tables { preamble: Vec::new(), tables: vec![main, intervals] }
}

const MAIN: &str = r"Real-data dependency diagnostic. \(\bar\rho_s\) is the mean statewise Spearman correlation and \(\rho\)
correlates all pairs. Positive Gain means the ADAS score is more negatively associated with intervention KL than
confidence alone.";

const MAIN_HEAD: [&str; 8] = [
    "Task",
    "Model",
    r"$\bar\rho_s(A_{ji},K_j)$",
    r"$\rho(A_{ji},K_j)$",
    r"$\rho(u_{ji},K_j)$",
    r"$\bar\rho_s(c_j^0,K_j)$",
    r"$\bar\rho_s(s_j,K_j)$",
    "Gain",
];

const INTERVALS: &str = r"Statewise intervention results with uncertainty intervals. Gain is
\(\bar\rho_s(c_j^0,K_j)-\bar\rho_s(s_j,K_j)\). Gain intervals use a paired bootstrap over examples.";

const INTERVALS_HEAD: [&str; 4] =
    ["Task", "Model", r"\(\bar\rho_s(A_{ji},K_j)\) [95\% interval]", r"Gain [95\% interval]"];

/// u against K, a panel for every setting; a row for every task. All panels have the same axes.
fn figure(settings: &[Setting], summaries: &[Summary]) -> NamedFigure {
    let pairs = || settings.iter().flat_map(|setting| &setting.states).flat_map(|state| &state.pairs);
    let axis = |label: &str, value: fn(&Effect) -> f64| {
        Axis::around(label, Scale::Log10, pairs().map(|pair| value(pair).max(FLOOR)))
    };
    let axes = (axis("u = A (1 − c)", |pair| pair.gated), axis("K, nats", |pair| pair.kl));
    let all: Vec<(&Setting, &Summary)> = settings.iter().zip(summaries).collect();
    let rows = all.chunk_by(|a, b| a.0.task == b.0.task).map(|task| {
        let panels = task.iter().map(|(setting, summary)| scatter(setting, summary, &axes)).collect();
        Row { title: String::new(), panels }
    });
    let figure = Figure {
        title: "Uncertainty-gated attention u and intervention KL".into(),
        rows: rows.collect(),
        panel: (400, 300),
    };
    let caption = format!(
        "Every pair of a revealed and another masked position: how much the other attends to it, times its uncertainty, and how far revealing it          moved the other's distribution. The darker a cell, the more pairs are in it; ρ is Spearman's, over all pairs of a panel. What is          below {FLOOR:e} is drawn there. All panels have the same axes."
    );
    NamedFigure { name: "intervention-scatter".into(), caption, figure }
}

/// What is below [`FLOOR`] is drawn on it.
fn scatter(setting: &Setting, summary: &Summary, (x, y): &(Axis, Axis)) -> Panel {
    let pairs = setting.states.iter().flat_map(|state| &state.pairs);
    let points: Vec<(f64, f64)> = pairs.map(|pair| (pair.gated.max(FLOOR), pair.kl.max(FLOOR))).collect();
    let text = format!("ρ(u, K) = {}\nn = {}", three(summary.gated), points.len());
    let marks = vec![
        Mark::Density { label: "pairs in a cell:".into(), points },
        Mark::Note { text, corner: Corner::BottomRight },
    ];
    Panel { title: format!("{}, {}", setting.task, setting.model), x: x.clone(), y: y.clone(), marks }
}

/// Effects below this are nothing but rounding, and a logarithm has no zero.
const FLOOR: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::super::state::{Scope, StateOptions, states};
    use super::*;
    use cofill::toy::Toy;
    use cofill::{Attention, Canvas, Denoiser, Prediction, Query, TokenId};

    /// The toy, but its attention is somebody else's: `seen(j, i)` of the true one.
    struct Seeing<F> {
        toy: Toy,
        seen: F,
    }

    impl<F: FnMut(usize, usize, &Attention) -> f64 + Send> Denoiser for Seeing<F> {
        fn mask_id(&self) -> TokenId {
            self.toy.mask_id()
        }
        fn vocab(&self) -> usize {
            self.toy.vocab()
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
            let mut answers = self.toy.denoise(batch)?;
            for answer in &mut answers {
                if let Some(a) = &answer.attention {
                    answer.attention = Some(Attention::from_fn(a.len(), |j, i| (self.seen)(j, i, a)));
                }
            }
            Ok(answers)
        }
    }

    /// Sentences of which two have their couples open: eight masks, each with one partner among the others, so that
    /// every state has exactly one dependent pair of seven.
    fn measure<F: FnMut(usize, usize, &Attention) -> f64 + Send>(seen: F) -> Summary {
        let sentences = 64;
        let mut model = Seeing { toy: Toy::phrases(6 * sentences), seen };
        let mask = model.mask_id();
        let whole: Vec<TokenId> = (0..6 * sentences).map(|i| [0, 4, 16, 8, 12, 20][i % 6]).collect();
        let options = StateOptions { scope: Scope::All, ..StateOptions::default() };
        let mut all = Vec::new();
        for doc in 0..sentences {
            let mut tokens = whole.clone();
            for sentence in [doc, (doc + 1) % sentences] {
                [0, 1, 3, 4].iter().for_each(|word| tokens[6 * sentence + word] = mask);
            }
            all.extend(states(&mut model, Canvas::new(tokens, mask), doc, &options).unwrap());
        }
        let setting = Setting { task: "toy".into(), model: "toy".into(), states: all };
        Summary::of(&setting, &Bootstrap { resamples: 500, seed: 1 })
    }

    #[test]
    fn the_true_dependency_correlates_and_a_shuffled_one_does_not() {
        let truth = measure(|j, i, a| a.get(j, i));
        let mut random = 0x9e37_79b9u64;
        // Noise of the same range, new for every entry: what shuffling the entries of every matrix leaves.
        let shuffled = measure(move |_, _, _| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as f64 / (1u64 << 31) as f64 * 0.4
        });
        let rho = |summary: &Summary| summary.state_attention.unwrap().value;
        assert!(rho(&truth) > 0.95, "{truth:?}");
        assert!(truth.attention.unwrap() > 0.9 && truth.gated.unwrap() > 0.9, "{truth:?}");
        assert!(truth.gain.unwrap().interval.low > 0.0, "{truth:?}");
        // 64 correlations of seven pairs: each has standard deviation 1/√6, their mean .05.
        assert!(rho(&shuffled).abs() < 0.2 && shuffled.attention.unwrap().abs() < 0.2, "{shuffled:?}");
    }

    fn effect(attention: f64, kl: f64, confidence: f64) -> Effect {
        let gated = attention * 0.5;
        Effect {
            position: 0,
            token: 0,
            token_after: 0,
            attention,
            kl,
            confidence,
            delta_confidence: 0.1,
            gated,
            along_paths: gated,
            score: confidence - 40.0 * gated,
        }
    }

    fn state(doc: usize, pairs: Vec<Effect>) -> State {
        let revealed = super::super::state::Revealed { position: 0, token: 0, confidence: 0.5, uncertainty: 0.5 };
        State { doc, step: 0, n_masked: 9, revealed, pairs, divergence: None, heads: Vec::new() }
    }

    #[test]
    fn known_numbers() {
        // State 1: A and K in the same order, c against it: ρ(A) = 1, ρ(c) = −1, and s = c − 20 A falls: ρ(s) = −1,
        // gain 0. State 2: A against K, c with it: ρ(A) = −1, ρ(c) = 1; s rises with K: 1, gain 0. State 3: A = K
        // order, c with it, and the discount wins over c: ρ(c) = 1, ρ(s) = −1, gain 2.
        let one = state(0, vec![effect(0.1, 1.0, 0.9), effect(0.2, 2.0, 0.8), effect(0.3, 3.0, 0.7)]);
        let two = state(0, vec![effect(0.3, 1.0, 0.7), effect(0.2, 2.0, 0.8), effect(0.1, 3.0, 0.9)]);
        let three = state(1, vec![effect(0.1, 1.0, 0.7), effect(0.2, 2.0, 0.8), effect(0.3, 3.0, 0.9)]);
        // Constant attention ranks nothing; nor does a single pair.
        let constant = state(1, vec![effect(0.1, 1.0, 0.7), effect(0.1, 2.0, 0.8)]);
        let single = state(2, vec![effect(0.1, 1.0, 0.7)]);
        let states = vec![one, two, three, constant, single];
        let setting = Setting { task: "t".into(), model: "m".into(), states };
        let summary = Summary::of(&setting, &Bootstrap::default());
        assert_eq!((summary.examples, summary.states, summary.excluded, summary.pairs), (3, 5, 2, 12));
        assert!((summary.state_attention.unwrap().value - 1.0 / 3.0).abs() < 1e-12);
        assert!((summary.state_confidence.unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert!((summary.state_score.unwrap() + 1.0 / 3.0).abs() < 1e-12);
        let gain = summary.gain.unwrap();
        assert!((gain.value - 2.0 / 3.0).abs() < 1e-12);
        // Examples 0 and 1 have mean gains 0 and 2: resamples are 0, 1 or 2.
        assert!(gain.interval.low.abs() < 1e-12 && (gain.interval.high - 2.0).abs() < 1e-12, "{gain:?}");
    }

    #[test]
    fn the_report_says_who_was_left_out_and_keeps_the_papers_layout() {
        let states = vec![state(0, vec![effect(0.1, 1.0, 0.9), effect(0.2, 2.0, 0.8)]), state(0, Vec::new())];
        let setting = Setting { task: "a_b".into(), model: "m".into(), states };
        let report = report(&[setting], &Bootstrap { resamples: 10, seed: 3 });
        assert!(report.markdown().contains("1 of 2 states rank nothing"));
        let latex = report.document.latex.to_string();
        assert!(latex.contains("a\\_b & m & 1.000 & 1.000 & 1.000 & -1.000 & -1.000 & +.000 \\\\"), "{latex}");
        assert_eq!(report.json["settings"][0]["excluded"], 1);
        // Two pairs are no figure.
        assert!(report.document.figures.is_empty() && report.markdown().contains("it would show 2 values"));
    }

    #[test]
    fn the_figure_counts_pairs_and_says_their_correlation() {
        // u = A / 2 and K in the same order: ρ = 1, and a K of zero is at the floor.
        let pairs = |shift: f64| vec![effect(0.1, 0.0, 0.9), effect(0.2, 2.0, 0.8), effect(0.3, 3.0 + shift, 0.7)];
        let setting = |model: &str, shift| Setting {
            task: "t".into(),
            model: model.into(),
            states: vec![state(0, pairs(shift))],
        };
        let report = report(&[setting("a", 0.0), setting("b", 500.0)], &Bootstrap { resamples: 10, seed: 3 });
        let figure = &report.document.figures[0].figure;
        let panels = &figure.rows[0].panels;
        assert_eq!((panels[0].x == panels[1].x, panels[0].y == panels[1].y, figure.values()), (true, true, 6));
        assert!(panels[0].y.range.0 < 1e-12 && panels[0].y.range.1 > 503.0);
        let svg = figure.draw().unwrap().svg;
        assert!(svg.contains("ρ(u, K) = 1.000") && svg.contains("n = 3") && svg.contains("K, nats"), "{svg}");
    }
}
