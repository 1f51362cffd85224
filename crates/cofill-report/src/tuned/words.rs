//! The answer in one line, and as a document.

use super::{Budget, Candidate, Confirmation, Confirmed, Out, Role, Tuned, Verdict};
use crate::document::{Block, Document, NamedFigure, Table, count, latex};
use crate::plot::Figure;
use crate::statistics::bootstrap::{Estimate, Interval};
use crate::statistics::difference::{Difference, Test};

/// The name of the figure's files.
const FIGURE: &str = "tune";

/// A score and its interval: `84.0 % [79, 88]`.
pub fn score_text(Estimate { value, interval: Interval { low, high } }: &Estimate) -> String {
    format!("{value:.1} % [{low:.0}, {high:.0}]")
}

/// A gain and its interval: `+13.0 [+7.1, +18.9] points`.
pub fn points(gain: f64, interval: Option<Interval>) -> String {
    let interval = interval.map(|Interval { low, high }| format!(" [{low:+.1}, {high:+.1}]")).unwrap_or_default();
    format!("{gain:+.1}{interval} points")
}

/// `p = 0.0003`, or `p < 0.0001`.
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 0.0001 => "p < 0.0001".into(),
        p if p < 0.01 => format!("p = {p:.4}"),
        p => format!("p = {p:.2}"),
    }
}

/// The figure with its file name and how it is read.
fn named(figure: Figure) -> NamedFigure {
    let caption = "Score against what an answer takes. Grey rings left the search early; the marks with bars are the best and the default on prompts \
                      that chose nobody, with 95 % intervals.";
    NamedFigure { name: FIGURE.into(), caption: caption.into(), figure }
}

impl Tuned {
    /// The answer in one line. Only scores of the confirmation are in it.
    pub fn answer(&self) -> String {
        let place = format!("at <= {} on {}", self.budget, self.task);
        match (&self.confirmation, self.verdict) {
            (Some(confirmation), Verdict::Better) => self.better(&place, confirmation),
            (Some(confirmation), Verdict::NotBetter) => self.not_better(&place, confirmation),
            (Some(Confirmation { best, .. }), _) => format!(
                "{} is the best found {place}: {} {} ({})",
                capital_less(self.default.role),
                best.sampler,
                self.told(best),
                count(best.measured.prompts, "prompt")
            ),
            (None, Verdict::NobodyFits) => format!("nothing fits {place}{}", self.cheapest()),
            (None, _) => format!(
                "nothing was confirmed {place}: the time was up; best on the prompts that choose: {}",
                self.best.as_deref().unwrap_or("nobody")
            ),
        }
    }

    fn better(&self, place: &str, Confirmation { best, default, difference }: &Confirmation) -> String {
        format!(
            "best {place}: {} {}; {} {}; {}",
            best.sampler,
            self.told(best),
            self.default_name(),
            self.told_briefly(default),
            gain(difference.as_ref()),
        )
    }

    fn not_better(&self, place: &str, Confirmation { best, default, difference }: &Confirmation) -> String {
        format!(
            "nothing is significantly better than {} {place}: {}; best found {} {}; {}",
            self.default_name(),
            self.told(default),
            best.sampler,
            self.told_briefly(best),
            gain(difference.as_ref()),
        )
    }

    /// `84.0 % [79, 88] at 11.6 forwards`.
    fn told(&self, sampler: &Confirmed) -> String {
        let cost = sampler.measured.cost(&self.budget);
        let over = if sampler.over_budget { ", over the budget on these prompts" } else { "" };
        format!("{} at {}{over}", score_text(&sampler.interval), self.budget.amount(cost))
    }

    /// The score alone, unless it took more than it should.
    fn told_briefly(&self, sampler: &Confirmed) -> String {
        let cost = sampler.measured.cost(&self.budget);
        let over = match sampler.over_budget {
            true => format!(" at {}, over the budget", self.budget.amount(cost)),
            false => String::new(),
        };
        format!("{:.1} %{over}", sampler.interval.value)
    }

    fn default_name(&self) -> String {
        let name = &self.default.sampler;
        match self.default.role {
            Role::Default | Role::DefaultOverBudget => format!("the default {name}"),
            Role::DefaultWithinBudget => format!("the default within the budget {name}"),
            Role::Given | Role::GivenOverBudget => name.clone(),
        }
    }

    /// Who takes the least, where nobody fits.
    fn cheapest(&self) -> String {
        let first =
            |candidate: &Candidate| candidate.rungs.first().map(|m| (m.cost(&self.budget), candidate.sampler.clone()));
        let cheapest = self.candidates.iter().filter_map(first).min_by(|a, b| a.0.total_cmp(&b.0));
        cheapest.map_or(String::new(), |(cost, sampler)| {
            format!("; {sampler} takes the least, {}", self.budget.amount(cost))
        })
    }

    /// How the default was decided, in a sentence.
    pub fn about_default(&self) -> String {
        let Tuned { default, budget, .. } = self;
        let name = &default.sampler;
        let is_measured = |candidate: &Candidate| candidate.sampler == *name && !candidate.rungs.is_empty();
        if !self.candidates.iter().any(is_measured) {
            return format!("The time was up before {name}, to compare with, was measured.");
        }
        match default.role {
            Role::Default => {
                format!("The default is {name}, what is used when nobody names a sampler; it fits the budget.")
            }
            Role::DefaultWithinBudget => format!(
                "The default takes more than {budget}. It stands here with the parameter that did best within the budget on the prompts \
                 that choose: {name}."
            ),
            Role::DefaultOverBudget => {
                format!("The default, {name}, takes more than {budget}, with any parameter that was tried.")
            }
            Role::Given => format!("The best is compared with {name}, as was asked."),
            Role::GivenOverBudget => {
                format!("The best is compared with {name}, as was asked, though that takes more than {budget}.")
            }
        }
    }

    /// Protocol, table, answer and figure.
    pub fn document(&self) -> Document {
        let mut blocks = vec![Block::Heading(format!("{} on {} within {}", self.model, self.task, self.budget))];
        blocks.push(Block::Text(self.answer()));
        blocks.push(Block::Text(format!("Use it: `{}`", self.command)));
        let figures: Vec<NamedFigure> = self.figure().into_iter().map(named).collect();
        blocks.extend(figures.iter().map(NamedFigure::block));
        blocks.push(Block::Heading("How it was found".into()));
        blocks.extend(self.protocol_text().into_iter().map(Block::Text));
        if let Some(confirmation) = &self.confirmation {
            blocks.push(Block::Heading("Confirmation".into()));
            blocks.push(Block::Text(format!(
                "On {}, which chose nobody.{}",
                self.prompts.confirm,
                confirmation.difference.as_ref().map(about_test).unwrap_or_default()
            )));
            blocks.push(Block::Table(self.confirmation_table(confirmation)));
        }
        blocks.push(Block::Heading("Search".into()));
        blocks.push(Block::Text(
            "Scores in percent by rung, on the prompts that choose. They are for choosing: the best of many looks better than it is.".into(),
        ));
        blocks.push(Block::Table(self.table(usize::MAX)));
        if !self.left_out.is_empty() {
            let list = self.left_out.iter().map(|out| format!("{} ({})", out.sampler, out.why)).collect::<Vec<_>>();
            blocks.push(Block::Text(format!("Not tried: {}.", list.join("; "))));
        }
        Document { blocks, latex: latex::Tables::default(), figures }
    }

    fn protocol_text(&self) -> Vec<String> {
        let rungs = self.protocol.rungs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let percent = self.protocol.slack.iter().map(|slack| format!("{:.0} %", 100.0 * slack)).collect::<Vec<_>>();
        let mut texts = vec![format!(
            "{} answered the first {rungs} of {}. After each rung, whoever took more than {} by over {} left, and the better half stayed \
             (ties: fewer forwards, then the shorter name). The best within the budget at the last rung and the default then answered up to {}.",
            count(self.candidates.len(), "candidate"),
            self.prompts.choose,
            self.budget,
            percent.join(", "),
            self.prompts.confirm,
        )];
        texts.push(self.about_default());
        if self.cut_short {
            texts.push("The time limit ended the search before its last rung; the best is that of the last rung that was complete.".into());
        }
        if matches!(self.budget, Budget::Seconds(_)) {
            let cpu = self.made_by["machine"]["cpu"].as_str().unwrap_or("an unnamed processor");
            texts.push(format!(
                "Seconds are medians, measured on {cpu} beside whatever else it did: noisy, and of this machine alone."
            ));
        }
        texts
    }

    fn confirmation_table(&self, Confirmation { best, default, difference }: &Confirmation) -> Table {
        let row = |role: &str, sampler: &Confirmed| {
            let measured = &sampler.measured;
            vec![
                role.to_owned(),
                sampler.sampler.clone(),
                measured.prompts.to_string(),
                score_text(&sampler.interval),
                format!("{:.2}", measured.forwards),
                format!("{:.2}", measured.tokens_per_forward),
                Budget::Seconds(1.0).amount(measured.seconds),
            ]
        };
        let mut rows = vec![row("best", best)];
        if difference.is_some() {
            rows.push(row("default", default));
        }
        let head = ["", "Sampler", "Prompts", "Score", "Forwards", "Tokens/forward", "Median time"];
        Table { caption: None, head: head.map(str::to_owned).into(), rows, words: 2 }
    }

    /// Who was tried, whoever came furthest first; at most `most` rows, and the default always.
    pub fn table(&self, most: usize) -> Table {
        let order = self.in_order();
        let shown: Vec<&Candidate> = order
            .iter()
            .enumerate()
            .filter(|(i, candidate)| *i < most || candidate.sampler == self.default.sampler)
            .map(|(_, candidate)| *candidate)
            .collect();
        let mut head = vec!["Sampler".to_owned()];
        head.push(match self.budget {
            Budget::Forwards(_) => "Forwards".into(),
            Budget::Seconds(_) => "Time".into(),
        });
        head.push("Tokens/fwd".into());
        head.extend(self.protocol.rungs[..=self.last_rung()].iter().map(|n| format!("n={n}")));
        head.push("".into());
        let row = |candidate: &&Candidate| {
            let last = candidate.rungs.last();
            let cost = last.map_or("-".into(), |m| match self.budget {
                Budget::Forwards(_) => format!("{:.2}", m.forwards),
                budget @ Budget::Seconds(_) => budget.amount(m.seconds),
            });
            let mut row = vec![candidate.sampler.clone(), cost];
            row.push(last.map_or("-".into(), |m| format!("{:.2}", m.tokens_per_forward)));
            for rung in 0..=self.last_rung() {
                row.push(candidate.rungs.get(rung).map_or(String::new(), |m| {
                    let cut = if m.prompts < self.protocol.rungs[rung] { "*" } else { "" };
                    format!("{:.1}{cut}", m.score)
                }));
            }
            row.push(self.fate(candidate).into());
            row
        };
        Table { caption: None, head, rows: shown.iter().map(row).collect(), words: 1 }
    }

    /// Whoever came furthest first; then by score, cost and name.
    pub(super) fn in_order(&self) -> Vec<&Candidate> {
        let mut order: Vec<&Candidate> = self.candidates.iter().collect();
        let is_best = |candidate: &Candidate| self.best.as_ref() == Some(&candidate.sampler);
        let over = |candidate: &Candidate| candidate.out == Some(Out::OverBudget);
        let last =
            |candidate: &Candidate| candidate.rungs.last().map_or((f64::MIN, 0.0), |m| (m.score, m.cost(&self.budget)));
        order.sort_by(|a, b| {
            is_best(b)
                .cmp(&is_best(a))
                .then(b.rungs.len().cmp(&a.rungs.len()))
                .then(over(a).cmp(&over(b)))
                .then(last(b).0.total_cmp(&last(a).0))
                .then(last(a).1.total_cmp(&last(b).1))
                .then(a.sampler.len().cmp(&b.sampler.len()))
                .then(a.sampler.cmp(&b.sampler))
        });
        order
    }

    fn fate(&self, candidate: &Candidate) -> &'static str {
        if self.best.as_ref() == Some(&candidate.sampler) {
            return "best";
        }
        if candidate.sampler == self.default.sampler {
            return match self.default.role {
                Role::Given | Role::GivenOverBudget => "compared",
                _ => "default",
            };
        }
        match candidate.out {
            Some(Out::OverBudget) => "over budget",
            Some(Out::TimeUp) => "time up",
            Some(Out::Outscored) | None => "",
        }
    }
}

fn capital_less(role: Role) -> &'static str {
    match role {
        Role::Default | Role::DefaultOverBudget => "the default",
        Role::DefaultWithinBudget => "the default within the budget",
        Role::Given | Role::GivenOverBudget => "what it was compared with",
    }
}

fn gain(difference: Option<&Difference>) -> String {
    difference.map_or(String::new(), |Difference { gain, interval, p, n, .. }| {
        format!("{}, {} ({})", points(*gain, *interval), p_value(*p), count(*n, "prompt"))
    })
}

fn about_test(difference: &Difference) -> String {
    let Difference { better, worse, p, test, .. } = difference;
    let test = match test {
        Test::McnemarExact => "McNemar's exact test",
        Test::SignFlips => "a test of random signs",
    };
    format!(
        " Of all prompts the best answered {better} better than the default and {worse} worse: {}, {} ({test}).",
        points(difference.gain, difference.interval),
        p_value(*p)
    )
}
