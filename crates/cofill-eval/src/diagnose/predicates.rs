//! Appendix F: predicates whose dependency structure is known.
//!
//! First: two masks, filled in one forward, each by its own best guess. Masks of one predicate must fit each other,
//! masks of two need not: what dependence costs a parallel step is the difference in accuracy. Second: many masks, and
//! the attention between those that depend on each other next to that between those that do not.

use super::ask;
use super::construction::{self, Construction, Form, Pair};
use super::heads::ByHead;
use super::mean;
use super::report::{Report, Table, latex_text};
use super::state::Heads;
use crate::run::Codec;
use cofill::{Denoiser, Layers, Proposal, Query, TokenId};
use cofill_report::plot::{Axis, Figure, LOOKS, Mark, Panel, Row, Scale};
use cofill_report::statistics::bootstrap::{Bootstrap, Estimate};
use cofill_report::statistics::spearman::ranks;
use cofill_tasks::mini::Mini;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;

/// What is drawn, and whose attention is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Texts of each form.
    pub examples: usize,
    /// n of the second diagnostic.
    pub predicates: usize,
    /// r of the second diagnostic.
    pub ratio: f64,
    /// Of the draws.
    pub seed: u64,
    /// Whose attention.
    pub layers: Layers,
    /// Also by head; one more forward for every text.
    pub heads: Heads,
    /// Stands before every text.
    pub bos: Option<TokenId>,
}

impl Default for Plan {
    fn default() -> Plan {
        let (layers, heads, bos) = (Layers::Last, Heads::Mean, None);
        Plan { examples: 200, predicates: 5, ratio: 0.5, seed: 0, layers, heads, bos }
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such text.
    #[error(transparent)]
    Construction(#[from] construction::Error),
    /// The model.
    #[error(transparent)]
    Model(#[from] cofill::Error),
}

/// Two masks filled at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filled {
    /// Whether they depend on each other.
    pub dependent: bool,
    /// With gaps.
    pub prompt: String,
    /// What was put into them.
    pub answers: Vec<String>,
    /// Whether everything holds.
    pub right: bool,
}

/// The attention between two masks of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Between {
    /// Which text.
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
    /// As tables name it.
    pub model: String,
    /// The first diagnostic.
    pub filled: Vec<Filled>,
    /// The second.
    pub between: Vec<Between>,
}

impl Measured {
    /// Nothing yet.
    pub fn new(model: &str) -> Measured {
        Measured { model: model.into(), filled: Vec::new(), between: Vec::new() }
    }

    /// Both diagnostics on the texts of one index. Gives what that added.
    pub fn add(
        &mut self,
        denoiser: &mut dyn Denoiser,
        codec: &dyn Codec,
        index: usize,
        plan: &Plan,
    ) -> Result<(&[Filled], &[Between]), Error> {
        let (filled, between) = (self.filled.len(), self.between.len());
        for pair in [Pair::Dependent, Pair::Independent] {
            self.filled.push(fill(denoiser, codec, pair, index, plan)?);
        }
        self.between.extend(attend(denoiser, codec, index, plan)?);
        Ok((&self.filled[filled..], &self.between[between..]))
    }
}

/// A text, moved to make room for what stands before it.
fn draw(
    denoiser: &dyn Denoiser,
    codec: &dyn Codec,
    form: Form,
    index: usize,
    plan: &Plan,
) -> Result<Construction, Error> {
    let mut drawn = Construction::draw(form, plan.seed, index as u64, denoiser.mask_id(), codec)?;
    if let Some(bos) = plan.bos {
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
    plan: &Plan,
) -> Result<Filled, Error> {
    let drawn = draw(denoiser, codec, Form::Pair(pair), index, plan)?;
    let prediction = ask(denoiser, Query::new(&drawn.tokens, &drawn.masks, &Proposal::greedy()))?;
    let text = |row: &cofill::RowStats| codec.decode(&[row.token]).map_err(construction::Error::Text);
    let answers = prediction.rows.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    // Whatever makes the predicates hold is right: scoring by constraint satisfaction.
    let right = matches!(Mini::Predicates.check(&drawn.prompt, &drawn.fill(&answers)), Ok(Ok(())));
    Ok(Filled { dependent: pair == Pair::Dependent, prompt: drawn.prompt, answers, right })
}

fn attend(denoiser: &mut dyn Denoiser, codec: &dyn Codec, example: usize, plan: &Plan) -> Result<Vec<Between>, Error> {
    let form = Form::Share { predicates: plan.predicates, ratio: plan.ratio };
    let drawn = draw(denoiser, codec, form, example, plan)?;
    let proposal = Proposal::greedy();
    let query = Query::new(&drawn.tokens, &drawn.masks, &proposal);
    let missing = || cofill::Error::Contract { who: "denoiser", problem: "it has no heads".into() };
    let attention = ask(denoiser, query.attention(plan.layers))?.attention.ok_or_else(missing)?;
    let apart = match plan.heads {
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
    /// As tables name it.
    pub model: String,
    /// Accuracy of two dependent masks filled at once.
    pub dependent_accuracy: Option<Estimate>,
    /// Of two independent ones.
    pub independent_accuracy: Option<Estimate>,
    /// Mean attention between dependent masks; intervals are over texts.
    pub dependent_attention: Option<Estimate>,
    /// Between independent ones.
    pub independent_attention: Option<Estimate>,
    /// The probability that a dependent pair attends more than an independent one; .5 says nothing.
    pub auc: Option<f64>,
    /// Pairs of masks.
    pub dependent_pairs: usize,
    /// Pairs of masks.
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
            auc: auc(&measured.between, |pair| pair.attention),
            dependent_pairs: count(true),
            independent_pairs: count(false),
        }
    }
}

/// P(dependent > independent) + ½ P(equal), by the ranks of all pairs.
fn auc(pairs: &[Between], value: impl Fn(&Between) -> f64) -> Option<f64> {
    let ranks = ranks(&pairs.iter().map(value).collect::<Vec<_>>());
    let of = ranks.iter().zip(pairs).filter(|(_, pair)| pair.dependent).map(|(rank, _)| *rank);
    let dependent: Vec<f64> = of.collect();
    let (n, m) = (dependent.len() as f64, (pairs.len() - dependent.len()) as f64);
    // The mean rank of n values that are below everybody else is (n + 1) / 2.
    if m == 0.0 { None } else { Some((mean(&dependent)? - (n + 1.0) / 2.0) / m) }
}

/// Everything about some models.
pub fn report(all: &[Measured], plan: &Plan, bootstrap: &Bootstrap) -> Report {
    let summaries: Vec<Summary> = all.iter().map(|measured| Summary::of(measured, bootstrap)).collect();
    let by_head: Vec<ByHead> = all.iter().filter_map(of_heads).collect();
    let mut tables = vec![accuracy_table(&summaries, plan), attention_table(&summaries, plan)];
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
    Report { tables, notes, latex: latex(&summaries), figures: figures(all), json }
}

fn of_heads(measured: &Measured) -> Option<ByHead> {
    let first = measured.between.iter().find(|pair| !pair.heads.is_empty())?;
    let size = (first.heads.len(), first.heads.first().map_or(0, Vec::len));
    let what = format!("predicates, {}", measured.model);
    Some(ByHead::new(what, "AUC", size, |layer, head| {
        auc(&measured.between, |pair| match head {
            Some(head) => pair.heads[layer][head],
            None => mean(&pair.heads[layer]).unwrap_or(0.0),
        })
    }))
}

fn accuracy_table(summaries: &[Summary], plan: &Plan) -> Table {
    let percent = |estimate: Option<Estimate>| {
        let text = |Estimate { value, interval }: Estimate| {
            format!("{:.1} % [{:.1}, {:.1}]", 100.0 * value, 100.0 * interval.low, 100.0 * interval.high)
        };
        estimate.map_or_else(|| "—".into(), text)
    };
    let row = |s: &Summary| vec![s.model.clone(), percent(s.independent_accuracy), percent(s.dependent_accuracy)];
    Table {
        title: format!(
            "Two masks filled in one forward: {} texts of three sums or products for each column",
            plan.examples
        ),
        header: ["model", "independent pairs", "dependent pairs"].map(String::from).to_vec(),
        words: 1,
        rows: summaries.iter().map(row).collect(),
    }
}

fn attention_table(summaries: &[Summary], plan: &Plan) -> Table {
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
            super::report::three(s.auc),
            format!("{} / {}", s.dependent_pairs, s.independent_pairs),
        ]
    };
    let title = format!(
        "Attention between masks (layer {}): {} texts of {} predicates, {} of the integers masked",
        plan.layers, plan.examples, plan.predicates, plan.ratio
    );
    let header = ["model", "Dep. Attn.", "Non-Dep. Attn.", "ratio", "AUC", "pairs"];
    Table { title, header: header.map(String::from).to_vec(), words: 1, rows: summaries.iter().map(row).collect() }
}

/// Table "toy_attention_dependency_shared_k1_compact" in the paper's layout, and the accuracies, which the paper has in
/// its text.
fn latex(summaries: &[Summary]) -> String {
    let mut tex = String::from(ATTENTION);
    let six = |estimate: Option<Estimate>| estimate.map_or_else(|| "--".into(), |e| format!("{:.6}", e.value));
    for s in summaries {
        let (dependent, independent) = (six(s.dependent_attention), six(s.independent_attention));
        let _ = writeln!(tex, "{} & {dependent} & {independent} \\\\", latex_text(&s.model));
    }
    tex.push_str(END);
    tex.push_str(ACCURACY);
    let percent =
        |estimate: Option<Estimate>| estimate.map_or_else(|| "--".into(), |e| format!("{:.1}\\%", 100.0 * e.value));
    for s in summaries {
        let (independent, dependent) = (percent(s.independent_accuracy), percent(s.dependent_accuracy));
        let _ = writeln!(tex, "{} & {independent} & {dependent} \\\\", latex_text(&s.model));
    }
    tex.push_str(END);
    tex
}

const ATTENTION: &str = r"\begin{table}[h]
\centering
\small
\caption{
Attention-dependency relationship on the shared toy dataset.
Reported values are mean pairwise attention for dependent and non-dependent masked pairs aggregated as mean of attention
heads.
}
\begin{tabular}{lcc}
\hline
Model & Dep. Attn. & Non-Dep. Attn. \\
\hline
";

const ACCURACY: &str = r"
\begin{table}[h]
\centering
\small
\caption{Accuracy of two masked literals predicted in one forward pass, under constraint-satisfaction scoring.}
\begin{tabular}{lcc}
\hline
Model & Independent pairs & Dependent pairs \\
\hline
";

const END: &str = r"\hline
\end{tabular}
\end{table}
";

/// The paper's box plot, a panel for every model.
fn figures(all: &[Measured]) -> Vec<(String, Figure)> {
    let panel = |measured: &Measured| {
        let values = |dependent: bool| {
            let of = measured.between.iter().filter(|pair| pair.dependent == dependent);
            of.map(|pair| pair.attention).collect::<Vec<f64>>()
        };
        let (dependent, independent) = (values(true), values(false));
        let names = vec![(0.0, "non-dependent".into()), (1.0, "dependent".into())];
        let y = Axis::around("attention", Scale::Linear, dependent.iter().chain(&independent).copied()).from_zero();
        let mark = |i: usize, values| Mark::Box { label: String::new(), look: LOOKS[i], at: i as f64, values };
        Panel {
            title: measured.model.clone(),
            x: Axis { label: String::new(), scale: Scale::Named(names), range: (-0.6, 1.6) },
            y,
            marks: vec![mark(0, independent), mark(1, dependent)],
        }
    };
    let figure = Figure {
        title: "Attention between masked integers".into(),
        rows: vec![Row { title: String::new(), panels: all.iter().map(panel).collect() }],
        panel: (420, 460),
    };
    vec![("predicates-boxes".into(), figure)]
}

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

    fn measure(plan: &Plan) -> Result<Measured, Error> {
        let mut measured = Measured::new("clerk");
        (0..plan.examples).try_for_each(|index| measured.add(&mut Clerk, &Plain, index, plan).map(drop))?;
        Ok(measured)
    }

    #[test]
    fn one_forward_suffices_for_independent_masks_only() {
        let plan = Plan { examples: 60, predicates: 6, ..Plan::default() };
        let measured = measure(&plan).unwrap();
        let summary = Summary::of(&measured, &Bootstrap { resamples: 100, seed: 0 });
        assert_eq!(summary.independent_accuracy.unwrap().value, 1.0);
        assert!(summary.dependent_accuracy.unwrap().value < 0.3, "{summary:?}");
        assert!((summary.dependent_attention.unwrap().value - 0.2).abs() < 1e-12);
        assert!((summary.independent_attention.unwrap().value - 0.01).abs() < 1e-12);
        assert_eq!(summary.auc, Some(1.0));
        // 12 masks are 66 pairs a text.
        assert_eq!(summary.dependent_pairs + summary.independent_pairs, 60 * 66);
        let report = report(&[measured], &plan, &Bootstrap { resamples: 100, seed: 0 });
        assert!(report.latex.contains("clerk & 0.200000 & 0.010000 \\\\"), "{}", report.latex);
        assert!(report.markdown().contains("60 texts of 6 predicates, 0.5 of the integers masked"));
        assert!(report.figures[0].1.draw().unwrap().svg.contains("non-dependent"));
    }

    #[test]
    fn what_stands_before_every_text_moves_the_masks() {
        let plan = Plan { bos: Some(7), ..Plan::default() };
        let drawn = draw(&Clerk, &Plain, Form::Pair(Pair::Dependent), 0, &plan).unwrap();
        assert_eq!(drawn.tokens[0], 7);
        assert!(drawn.masks.iter().all(|&at| drawn.tokens[at] == MASK));
    }

    #[test]
    fn auc_counts_ties_as_half() {
        let pair = |dependent, attention| Between { example: 0, dependent, attention, heads: Vec::new() };
        // Dependent 3 and 1 against 1 and 0: wins 3>1, 3>0, 1>0, and 1=1 counts ½: 3.5 of 4.
        let pairs = [pair(true, 3.0), pair(true, 1.0), pair(false, 1.0), pair(false, 0.0)];
        assert_eq!(auc(&pairs, |pair| pair.attention), Some(0.875));
        assert_eq!(auc(&pairs[..2], |pair| pair.attention), None);
    }

    #[test]
    fn a_model_without_heads_says_so() {
        let plan = Plan { examples: 1, heads: Heads::Apart, ..Plan::default() };
        let error = measure(&plan).unwrap_err();
        assert!(error.to_string().contains("it has no heads"), "{error}");
    }
}
