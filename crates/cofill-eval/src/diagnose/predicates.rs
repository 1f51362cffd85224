//! Appendix F: predicates whose dependency structure is known.
//!
//! First: two masks, filled in one forward, each by its own best guess. Masks of one predicate must fit each other,
//! masks of two need not: what dependence costs a parallel step is the difference in accuracy. Second: many masks, and
//! the attention between those that depend on each other next to that between those that do not.

use super::ask;
use super::construction::{self, Construction, Form, Pair};
use super::folder::{Diagnosis, Words, three};
use super::heads::ByHead;
use super::mean;
use super::state::Heads;
use crate::run::Codec;
use cofill::{Denoiser, Layers, Proposal, Query, TokenId};
use cofill_report::document::latex::{Float, Line, Rules, Tables, escaped};
use cofill_report::document::{Document, NamedFigure, Table};
use cofill_report::plot::{Axis, Figure, LOOKS, Mark, Panel, Row, Scale};
use cofill_report::statistics::auc::auc;
use cofill_report::statistics::bootstrap::{Bootstrap, Estimate};
use cofill_tasks::mini::Mini;
use serde::Serialize;
use serde_json::json;

/// What is drawn, and whose attention is read.
#[derive(Debug, Clone, PartialEq)]
pub struct PredicateOptions {
    /// Texts of each form.
    pub examples: usize,
    /// n: predicates in a text of the second diagnostic.
    pub predicates: usize,
    /// r: the share of its integers that is masked.
    pub ratio: f64,
    /// The seed of the draws.
    pub seed: u64,
    /// The layers whose attention is read.
    pub layers: Layers,
    /// Also by head; one more forward for every text.
    pub heads: Heads,
    /// The beginning-of-text token, if every text begins with one.
    pub bos: Option<TokenId>,
}

impl Default for PredicateOptions {
    fn default() -> PredicateOptions {
        let (layers, heads, bos) = (Layers::Last, Heads::Mean, None);
        PredicateOptions { examples: 200, predicates: 5, ratio: 0.5, seed: 0, layers, heads, bos }
    }
}

/// Why a text cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No text fits the tokenizer.
    #[error(transparent)]
    Construction(#[from] construction::Error),
    /// The model could not be asked.
    #[error(transparent)]
    Model(#[from] cofill::Error),
}

/// Two masks filled at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filled {
    /// Whether they depend on each other.
    pub dependent: bool,
    /// The text with its gaps.
    pub prompt: String,
    /// What was put into them.
    pub answers: Vec<String>,
    /// Whether every predicate of the text holds.
    pub right: bool,
}

/// The attention between two masks of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Between {
    /// The number of the text.
    pub example: usize,
    /// Whether they depend on each other.
    pub dependent: bool,
    /// The mean of both directions.
    pub attention: f64,
    /// The same by every head. `[layer][head]`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Vec<f64>>,
}

/// What one model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The model, as tables name it.
    pub model: String,
    /// What was put into two masks: the first diagnostic.
    pub filled: Vec<Filled>,
    /// The attention between pairs of masks: the second.
    pub between: Vec<Between>,
}

impl Measured {
    /// A model that has not been asked anything yet.
    pub fn new(model: &str) -> Measured {
        Measured { model: model.into(), filled: Vec::new(), between: Vec::new() }
    }

    /// Both diagnostics on the texts of one index. Gives what that added.
    pub fn add(
        &mut self,
        denoiser: &mut dyn Denoiser,
        codec: &dyn Codec,
        index: usize,
        options: &PredicateOptions,
    ) -> Result<(&[Filled], &[Between]), Error> {
        let (filled, between) = (self.filled.len(), self.between.len());
        for pair in [Pair::Dependent, Pair::Independent] {
            self.filled.push(fill(denoiser, codec, pair, index, options)?);
        }
        self.between.extend(attend(denoiser, codec, index, options)?);
        Ok((&self.filled[filled..], &self.between[between..]))
    }
}

/// A text, moved to make room for what stands before it.
fn draw(
    denoiser: &dyn Denoiser,
    codec: &dyn Codec,
    form: Form,
    index: usize,
    options: &PredicateOptions,
) -> Result<Construction, Error> {
    let mut drawn = Construction::draw(form, options.seed, index as u64, denoiser.mask_id(), codec)?;
    if let Some(bos) = options.bos {
        drawn.tokens.insert(0, bos);
        drawn.masks.iter_mut().for_each(|at| *at += 1);
    }
    Ok(drawn)
}

fn fill(
    denoiser: &mut dyn Denoiser,
    codec: &dyn Codec,
    pair: Pair,
    index: usize,
    options: &PredicateOptions,
) -> Result<Filled, Error> {
    let drawn = draw(denoiser, codec, Form::Pair(pair), index, options)?;
    let prediction = ask(denoiser, Query::new(&drawn.tokens, &drawn.masks, &Proposal::greedy()))?;
    let text = |row: &cofill::RowStats| codec.decode(&[row.token]).map_err(construction::Error::Text);
    let answers = prediction.rows.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    // Whatever makes the predicates hold is right: scoring by constraint satisfaction.
    let right = matches!(Mini::Predicates.check(&drawn.prompt, &drawn.fill(&answers)), Ok(Ok(())));
    Ok(Filled { dependent: pair == Pair::Dependent, prompt: drawn.prompt, answers, right })
}

fn attend(
    denoiser: &mut dyn Denoiser,
    codec: &dyn Codec,
    example: usize,
    options: &PredicateOptions,
) -> Result<Vec<Between>, Error> {
    let form = Form::Share { predicates: options.predicates, ratio: options.ratio };
    let drawn = draw(denoiser, codec, form, example, options)?;
    let proposal = Proposal::greedy();
    let query = Query::new(&drawn.tokens, &drawn.masks, &proposal);
    let missing = || cofill::Error::Contract { who: "denoiser", problem: "it has no heads".into() };
    let attention = ask(denoiser, query.attention(options.layers))?.attention.ok_or_else(missing)?;
    let apart = match options.heads {
        Heads::Mean => None,
        Heads::Apart => Some(denoiser.by_head(&query, &drawn.masks)?.ok_or_else(missing)?),
    };
    let n = drawn.masks.len();
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let between = |(i, j): (usize, usize)| Between {
        example,
        dependent: drawn.depend(i, j),
        attention: (attention.get(i, j) + attention.get(j, i)) / 2.0,
        heads: apart.as_ref().map_or_else(Vec::new, |apart| {
            let head = |layer, head| (apart.toward(layer, head, j)[i] + apart.toward(layer, head, i)[j]) / 2.0;
            (0..apart.layers()).map(|layer| (0..apart.heads()).map(|h| head(layer, h)).collect()).collect()
        }),
    };
    Ok(pairs.map(between).collect())
}

/// What a model's measurements come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The model, as tables name it.
    pub model: String,
    /// Accuracy of two dependent masks filled at once.
    pub dependent_accuracy: Option<Estimate>,
    /// Of two independent ones.
    pub independent_accuracy: Option<Estimate>,
    /// Mean attention between dependent masks; intervals are over texts.
    pub dependent_attention: Option<Estimate>,
    /// Mean attention between independent ones.
    pub independent_attention: Option<Estimate>,
    /// The probability that a dependent pair attends more than an independent one; .5 says nothing.
    pub auc: Option<f64>,
    /// Pairs of masks that depend on each other.
    pub dependent_pairs: usize,
    /// Pairs of masks that do not.
    pub independent_pairs: usize,
}

impl Summary {
    /// Summarises a model's measurements.
    pub fn of(measured: &Measured, bootstrap: &Bootstrap) -> Summary {
        let accuracy = |dependent: bool| {
            let of = measured.filled.iter().filter(|filled| filled.dependent == dependent);
            bootstrap.mean(&of.map(|filled| f64::from(u8::from(filled.right))).collect::<Vec<_>>())
        };
        // The pairs of a text are drawn again together: they share a forward.
        let attention = |dependent: bool| {
            let texts = measured.between.chunk_by(|a, b| a.example == b.example);
            let sum = |pairs: &[Between]| {
                let of = pairs.iter().filter(|pair| pair.dependent == dependent);
                of.fold((0.0, 0.0), |(sum, n), pair| (sum + pair.attention, n + 1.0))
            };
            let sums: Vec<(f64, f64)> = texts.map(sum).collect();
            let ratio = |drawn: &mut dyn Iterator<Item = usize>| {
                let (sum, n) = drawn.fold((0.0, 0.0), |(sum, n), i| (sum + sums[i].0, n + sums[i].1));
                sum / n
            };
            let interval = bootstrap.replicates(sums.len(), |drawn| ratio(&mut drawn.iter().copied()));
            let value = ratio(&mut (0..sums.len()));
            let interval = interval.interval(cofill_report::statistics::bootstrap::LEVEL)?;
            value.is_finite().then_some(Estimate { value, interval })
        };
        let count = |dependent: bool| measured.between.iter().filter(|pair| pair.dependent == dependent).count();
        Summary {
            model: measured.model.clone(),
            dependent_accuracy: accuracy(true),
            independent_accuracy: accuracy(false),
            dependent_attention: attention(true),
            independent_attention: attention(false),
            auc: dependent_auc(&measured.between, |pair| pair.attention),
            dependent_pairs: count(true),
            independent_pairs: count(false),
        }
    }
}

/// Whether dependent pairs have more of it than independent ones.
fn dependent_auc(pairs: &[Between], value: impl Fn(&Between) -> f64) -> Option<f64> {
    auc(&pairs.iter().map(value).collect::<Vec<_>>(), &pairs.iter().map(|pair| pair.dependent).collect::<Vec<_>>())
}

/// Everything about some models.
pub fn report(all: &[Measured], options: &PredicateOptions, bootstrap: &Bootstrap) -> Diagnosis {
    let summaries: Vec<Summary> = all.iter().map(|measured| Summary::of(measured, bootstrap)).collect();
    let by_head: Vec<ByHead> = all.iter().filter_map(of_heads).collect();
    let mut tables = vec![accuracy_table(&summaries, options), attention_table(&summaries, options)];
    tables.extend(by_head.iter().map(ByHead::table));
    let Bootstrap { resamples, seed } = bootstrap;
    let mut notes = vec![format!(
        "Accuracy: all predicates hold after one forward. AUC: the probability that a dependent pair attends more than \
         an independent one; .5 says nothing. Intervals are 95 %, a bootstrap over texts ({resamples} resamples, seed \
         {seed})."
    )];
    notes.extend(by_head.iter().filter_map(ByHead::best_line));
    let mut json = json!({ "models": &summaries, "bootstrap": bootstrap });
    if !by_head.is_empty() {
        json["heads"] = json!(by_head);
    }
    let figures = Diagnosis::worth_drawing(figure(all), &mut notes);
    let blocks = Diagnosis::blocks(words(&summaries), &figures, tables, notes);
    Diagnosis { document: Document { blocks, latex: latex(&summaries), figures }, json }
}

/// What came of it, a sentence for each model.
fn words(summaries: &[Summary]) -> Words {
    let percent = |estimate: Option<Estimate>| {
        estimate.map_or_else(|| "—".into(), |estimate| format!("{:.1} %", 100.0 * estimate.value))
    };
    let finding = |s: &Summary| {
        format!(
            "{}: two masks filled at once are right in {} of the texts if they are independent, and in {} if they depend on each other; a dependent \
             pair attends more than an independent one with probability {} (AUC; .5 would say nothing).",
            s.model,
            percent(s.independent_accuracy),
            percent(s.dependent_accuracy),
            three(s.auc),
        )
    };
    Words {
        title: "Do masks attend to what they depend on?".into(),
        about: "Texts of sums and products in which it is known which masked integers depend on each other: how well are they filled together, and \
                how much do they attend to each other?"
            .into(),
        findings: summaries.iter().map(finding).collect(),
    }
}

fn of_heads(measured: &Measured) -> Option<ByHead> {
    let first = measured.between.iter().find(|pair| !pair.heads.is_empty())?;
    let size = (first.heads.len(), first.heads.first().map_or(0, Vec::len));
    let what = format!("predicates, {}", measured.model);
    Some(ByHead::new(what, "AUC", size, |layer, head| {
        dependent_auc(&measured.between, |pair| match head {
            Some(head) => pair.heads[layer][head],
            None => mean(&pair.heads[layer]).unwrap_or(0.0),
        })
    }))
}

fn accuracy_table(summaries: &[Summary], options: &PredicateOptions) -> Table {
    let percent = |estimate: Option<Estimate>| {
        let text = |Estimate { value, interval }: Estimate| {
            format!("{:.1} % [{:.1}, {:.1}]", 100.0 * value, 100.0 * interval.low, 100.0 * interval.high)
        };
        estimate.map_or_else(|| "—".into(), text)
    };
    let row = |s: &Summary| vec![s.model.clone(), percent(s.independent_accuracy), percent(s.dependent_accuracy)];
    Table {
        caption: Some(format!(
            "Two masks filled in one forward. {} texts of three sums or products for each column; in brackets 95 %.",
            options.examples
        )),
        head: ["model", "independent pairs", "dependent pairs"].map(String::from).to_vec(),
        words: 1,
        rows: summaries.iter().map(row).collect(),
    }
}

fn attention_table(summaries: &[Summary], options: &PredicateOptions) -> Table {
    let number = |estimate: Option<Estimate>| {
        let text =
            |Estimate { value, interval }: Estimate| format!("{value:.6} [{:.6}, {:.6}]", interval.low, interval.high);
        estimate.map_or_else(|| "—".into(), text)
    };
    let row = |s: &Summary| {
        let ratio = s.dependent_attention.zip(s.independent_attention).map(|(d, i)| d.value / i.value);
        vec![
            s.model.clone(),
            number(s.dependent_attention),
            number(s.independent_attention),
            ratio.map_or_else(|| "—".into(), |ratio| format!("{ratio:.2}")),
            three(s.auc),
            format!("{} / {}", s.dependent_pairs, s.independent_pairs),
        ]
    };
    let caption = format!(
        "Attention between masks (layer {}). {} texts of {} predicates, {} of the integers masked; a ratio above 1 and an AUC above .5 say that \
         attention tells what depends.",
        options.layers, options.examples, options.predicates, options.ratio
    );
    let head = ["model", "Dep. Attn.", "Non-Dep. Attn.", "ratio", "AUC", "pairs"];
    let rows = summaries.iter().map(row).collect();
    Table { caption: Some(caption), head: head.map(String::from).to_vec(), words: 1, rows }
}

/// Table "toy_attention_dependency_shared_k1_compact" in the paper's layout, and the accuracies, which the paper has in
/// its text.
fn latex(summaries: &[Summary]) -> Tables {
    let six = |estimate: Option<Estimate>| estimate.map_or_else(|| "--".into(), |e| format!("{:.6}", e.value));
    let percent =
        |estimate: Option<Estimate>| estimate.map_or_else(|| "--".into(), |e| format!("{:.1}\\%", 100.0 * e.value));
    let attention = |s: &Summary| [escaped(&s.model), six(s.dependent_attention), six(s.independent_attention)];
    let accuracy = |s: &Summary| [escaped(&s.model), percent(s.independent_accuracy), percent(s.dependent_accuracy)];
    let table = |caption: &str, head: [&str; 3], row: &dyn Fn(&Summary) -> [String; 3]| {
        let rows = summaries.iter().map(|summary| Line::cells(row(summary)));
        let lines = [Line::cells(head), Line::Rule].into_iter().chain(rows).collect();
        Float { place: 'h', rules: Rules::Plain, ..Float::new(caption, "lcc", lines) }
    };
    let tables = vec![
        table(ATTENTION, ["Model", "Dep. Attn.", "Non-Dep. Attn."], &attention),
        table(ACCURACY, ["Model", "Independent pairs", "Dependent pairs"], &accuracy),
    ];
    Tables { preamble: Vec::new(), tables }
}

const ATTENTION: &str = "
Attention-dependency relationship on the shared toy dataset.
Reported values are mean pairwise attention for dependent and non-dependent masked pairs aggregated as mean of attention
heads.
";

const ACCURACY: &str =
    "Accuracy of two masked literals predicted in one forward pass, under constraint-satisfaction scoring.";

/// The paper's box plot, a panel for every model, on one axis of powers of ten: a few pairs attend a hundred times as much as most.
fn figure(all: &[Measured]) -> NamedFigure {
    let attention = all.iter().flat_map(|measured| &measured.between).map(|pair| pair.attention.max(FLOOR));
    let y = Axis::around("attention", Scale::Log10, attention);
    let panel = |measured: &Measured| {
        let values = |dependent: bool| {
            let of = measured.between.iter().filter(|pair| pair.dependent == dependent);
            of.map(|pair| pair.attention.max(FLOOR)).collect::<Vec<f64>>()
        };
        let (dependent, independent) = (values(true), values(false));
        let name = |name: &str, values: &[f64]| format!("{name}\nn = {}", values.len());
        let names = vec![(0.0, name("non-dependent", &independent)), (1.0, name("dependent", &dependent))];
        let mark = |i: usize, values| Mark::Box { label: String::new(), look: LOOKS[i], at: i as f64, values };
        Panel {
            title: measured.model.clone(),
            x: Axis { label: String::new(), scale: Scale::Named(names), range: (-0.6, 1.6) },
            y: y.clone(),
            marks: vec![mark(0, independent), mark(1, dependent)],
        }
    };
    let figure = Figure {
        title: "Attention between masked integers".into(),
        rows: vec![Row { title: String::new(), panels: all.iter().map(panel).collect() }],
        panel: (300, 300),
    };
    let caption = format!(
        "Attention between two masked integers, mean of both directions, for pairs of different predicates and of one. Boxes, whiskers (within 1.5          boxes) and points are of logarithms; diamonds are means. n: pairs. What is below {FLOOR:e} is drawn there. All panels have the same axis."
    );
    NamedFigure { name: "predicates-boxes".into(), caption, figure }
}

/// Attention below this is nothing but rounding, and a logarithm has no zero.
const FLOOR: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{NUMBERS, Plain};
    use cofill::{Attention, Prediction, RowStats};

    const MASK: TokenId = 255;

    /// Knows arithmetic: fills a predicate with a single gap rightly, writes 1 into all others, and attends within a
    /// predicate.
    struct Clerk;

    impl Clerk {
        /// The predicate that a position belongs to: the line breaks before it.
        fn line(tokens: &[TokenId], at: usize) -> usize {
            tokens[..at].iter().filter(|&&token| token == TokenId::from(b'\n')).count()
        }

        /// The only value that makes the line hold, if it has one gap.
        fn solve(tokens: &[TokenId], at: usize) -> Option<TokenId> {
            let start = tokens[..at].iter().rposition(|&token| token == TokenId::from(b'\n')).map_or(0, |i| i + 1);
            let end = at + tokens[at..].iter().position(|&token| token == TokenId::from(b'\n'))?;
            (0..100).map(|value| NUMBERS + value).find(|&value| {
                let mut line = tokens[start..end].to_vec();
                line[at - start] = value;
                let text = format!("Fill the gaps:\n{}\n", Plain.decode(&line).unwrap());
                matches!(Mini::Predicates.check(&text, &text), Ok(Ok(())))
            })
        }
    }

    impl Denoiser for Clerk {
        fn mask_id(&self) -> TokenId {
            MASK
        }
        fn vocab(&self) -> usize {
            2000
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
            let answer = |query: &Query<'_>| {
                let token = |at: usize| Clerk::solve(query.tokens, at).unwrap_or(NUMBERS + 1);
                let row = |&at: &usize| RowStats::new(token(at), 0.5).entropy(0.7);
                let line = |row: usize| Clerk::line(query.tokens, query.rows[row]);
                let attention = query
                    .attention
                    .map(|_| Attention::from_fn(query.rows.len(), |q, k| if line(q) == line(k) { 0.2 } else { 0.01 }));
                Prediction::new(query.rows.iter().map(row).collect()).attention(attention)
            };
            Ok(batch.iter().map(answer).collect())
        }
    }

    fn measure(options: &PredicateOptions) -> Result<Measured, Error> {
        let mut measured = Measured::new("clerk");
        (0..options.examples).try_for_each(|index| measured.add(&mut Clerk, &Plain, index, options).map(drop))?;
        Ok(measured)
    }

    #[test]
    fn one_forward_suffices_for_independent_masks_only() {
        let options = PredicateOptions { examples: 60, predicates: 6, ..PredicateOptions::default() };
        let measured = measure(&options).unwrap();
        let summary = Summary::of(&measured, &Bootstrap { resamples: 100, seed: 0 });
        assert_eq!(summary.independent_accuracy.unwrap().value, 1.0);
        assert!(summary.dependent_accuracy.unwrap().value < 0.3, "{summary:?}");
        assert!((summary.dependent_attention.unwrap().value - 0.2).abs() < 1e-12);
        assert!((summary.independent_attention.unwrap().value - 0.01).abs() < 1e-12);
        assert_eq!(summary.auc, Some(1.0));
        // 12 masks are 66 pairs a text.
        assert_eq!(summary.dependent_pairs + summary.independent_pairs, 60 * 66);
        let report = report(&[measured], &options, &Bootstrap { resamples: 100, seed: 0 });
        let latex = report.document.latex.to_string();
        assert!(latex.contains("clerk & 0.200000 & 0.010000 \\\\"), "{latex}");
        assert!(report.markdown().contains("60 texts of 6 predicates, 0.5 of the integers masked"));
        assert!(report.document.figures[0].figure.draw().unwrap().svg.contains("non-dependent"));
    }

    #[test]
    fn what_stands_before_every_text_moves_the_masks() {
        let options = PredicateOptions { bos: Some(7), ..PredicateOptions::default() };
        let drawn = draw(&Clerk, &Plain, Form::Pair(Pair::Dependent), 0, &options).unwrap();
        assert_eq!(drawn.tokens[0], 7);
        assert!(drawn.masks.iter().all(|&at| drawn.tokens[at] == MASK));
    }

    #[test]
    fn a_model_without_heads_says_so() {
        let options = PredicateOptions { examples: 1, heads: Heads::Apart, ..PredicateOptions::default() };
        let error = measure(&options).unwrap_err();
        assert!(error.to_string().contains("it has no heads"), "{error}");
    }
}
