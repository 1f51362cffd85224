//! Appendix B, "Delayed-token stability": is what ADAS defers what would have changed?
//!
//! After the common first choice i, confidence Top-k and Top-k+AD each have a next choice. Where they differ, the one
//! is the deferred token d, the other its replacement r: exactly one of each in a state. Both are measured after i
//! alone was revealed. If ADAS is right to wait, d changes more than r, and gains confidence.

use super::folder::{Diagnosis, Words, signed, three, with_interval};
use super::state::{Divergence, Effect, State};
use super::{Setting, mean};
use cofill_report::document::latex::{Float, Line, Tables, escaped};
use cofill_report::document::{Document, NamedFigure, Table, count};
use cofill_report::plot::{Axis, Figure, LOOKS, Mark, Panel, Row, Scale};
use cofill_report::statistics::bootstrap::{Bootstrap, Estimate};
use serde::Serialize;
use serde_json::json;

/// What became of deferred tokens and of their replacements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The tasks of these states.
    pub task: String,
    /// The models of these states.
    pub model: String,
    /// States that were looked at.
    pub states: usize,
    /// Those in which confidence and ADAS differ.
    pub divergences: usize,
    /// What happened to deferred tokens, d.
    pub deferred: Option<Change>,
    /// What happened to their replacements, r.
    pub replacement: Option<Change>,
    /// Mean K_d − K_r, with its bootstrap interval over examples.
    pub kl_difference: Option<Estimate>,
    /// Mean Δc_d − Δc_r, likewise.
    pub delta_difference: Option<Estimate>,
}

/// The mean change of some tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The mean effect K, in nats.
    pub kl: f64,
    /// The mean change of confidence, Δc.
    pub delta_confidence: f64,
    /// The share whose confidence rose.
    pub increased: f64,
}

impl Change {
    fn of(effects: &[Effect]) -> Option<Change> {
        let of = |field: fn(&Effect) -> f64| mean(&effects.iter().map(field).collect::<Vec<_>>());
        Some(Change {
            kl: of(|effect| effect.kl)?,
            delta_confidence: of(|effect| effect.delta_confidence)?,
            increased: of(|effect| f64::from(u8::from(effect.delta_confidence > 0.0)))?,
        })
    }
}

impl Summary {
    /// Summarises states of some settings under a name; all states count alike.
    pub fn of(task: &str, model: &str, settings: &[&Setting], bootstrap: &Bootstrap) -> Summary {
        let states = || settings.iter().flat_map(|setting| &setting.states);
        let found: Vec<Divergence> = states().filter_map(|state| state.divergence).collect();
        let of = |side: fn(&Divergence) -> Effect| Change::of(&found.iter().map(side).collect::<Vec<_>>());
        // An example's states are not independent of each other, so examples are drawn again, not states.
        let examples = || settings.iter().flat_map(|setting| setting.states.chunk_by(|a, b| a.doc == b.doc));
        let difference = |field: fn(&Effect) -> f64| {
            let of_state = |state: &State| state.divergence.map(|d| field(&d.deferred) - field(&d.replacement));
            let sums: Vec<(f64, f64)> = examples()
                .map(|states| states.iter().filter_map(of_state).fold((0.0, 0.0), |(sum, n), d| (sum + d, n + 1.0)))
                .filter(|(_, n)| *n > 0.0)
                .collect();
            let mean_of = |drawn: &mut dyn Iterator<Item = usize>| {
                let (sum, n) = drawn.fold((0.0, 0.0), |(sum, n), i| (sum + sums[i].0, n + sums[i].1));
                sum / n
            };
            let replicates = bootstrap.replicates(sums.len(), |drawn| mean_of(&mut drawn.iter().copied()));
            let interval = replicates.interval(cofill_report::statistics::bootstrap::LEVEL)?;
            Some(Estimate { value: mean_of(&mut (0..sums.len())), interval })
        };
        Summary {
            task: task.into(),
            model: model.into(),
            states: states().count(),
            divergences: found.len(),
            deferred: of(|d| d.deferred),
            replacement: of(|d| d.replacement),
            kl_difference: difference(|effect| effect.kl),
            delta_difference: difference(|effect| effect.delta_confidence),
        }
    }

    /// Both sides in one cell: `.671 / .197`.
    fn both(&self, text: impl Fn(Change) -> String) -> String {
        match (self.deferred, self.replacement) {
            (Some(deferred), Some(replacement)) => format!("{} / {}", text(deferred), text(replacement)),
            _ => "—".into(),
        }
    }

    fn cells(&self) -> [String; 3] {
        [
            self.both(|change| three(Some(change.kl))),
            self.both(|change| signed(Some(change.delta_confidence))),
            self.both(|change| format!("{:.1} %", 100.0 * change.increased)),
        ]
    }
}

/// Everything about some settings: per model, overall, and per setting.
pub fn report(settings: &[Setting], bootstrap: &Bootstrap) -> Diagnosis {
    let mut models: Vec<&str> = Vec::new();
    for setting in settings {
        if !models.contains(&setting.model.as_str()) {
            models.push(&setting.model);
        }
    }
    let all: Vec<&Setting> = settings.iter().collect();
    let of_model = |model: &&str| {
        let of: Vec<&Setting> = settings.iter().filter(|setting| setting.model == *model).collect();
        Summary::of("all", model, &of, bootstrap)
    };
    let mut per_model: Vec<Summary> = models.iter().map(of_model).collect();
    per_model.push(Summary::of("all", "Overall", &all, bootstrap));
    let per_setting: Vec<Summary> = settings.iter().map(|s| Summary::of(&s.task, &s.model, &[s], bootstrap)).collect();
    let Bootstrap { resamples, seed } = bootstrap;
    let note = format!(
        "deferred / replacement, both after the common first choice alone was revealed; only states in which \
         confidence and ADAS have another second choice. d − r: paired, with a 95 % bootstrap interval over examples \
         ({resamples} resamples, seed {seed})."
    );
    let tables = vec![
        table(
            "What revealing did to deferred tokens and their replacements. K: by how much their distributions changed, in nats; Δc: by how much \
             their confidence rose. If ADAS defers the right ones, the first number of a pair is the larger.",
            &["model"],
            &per_model,
        ),
        table("The same by task. Read as above.", &["task", "model"], &per_setting),
    ];
    let mut notes = vec![note];
    let figures = Diagnosis::worth_drawing(figure(settings, &models), &mut notes);
    Diagnosis {
        document: Document {
            blocks: Diagnosis::blocks(words(&per_model), &figures, tables, notes),
            latex: latex(&per_model),
            figures,
        },
        json: json!({ "models": &per_model, "settings": &per_setting, "bootstrap": bootstrap }),
    }
}

/// What came of it: of the last summary, which is over all.
fn words(summaries: &[Summary]) -> Words {
    let title = "Are the right tokens deferred?".into();
    let Some(all) = summaries.last() else { return Words { title, about: String::new(), findings: Vec::new() } };
    let about = format!(
        "Confidence and ADAS had another second choice in {} of {}. After their common first choice was revealed: how much did the token change that \
         ADAS deferred, and how much the one it took instead?",
        all.divergences,
        count(all.states, "state"),
    );
    let (Some(deferred), Some(replacement)) = (all.deferred, all.replacement) else {
        return Words { title, about, findings: vec!["They never differed, so there is nothing to compare.".into()] };
    };
    let sure = |estimate: Option<Estimate>| match estimate.map(|e| e.interval) {
        Some(interval) if interval.low > 0.0 => "the whole interval lies above 0",
        Some(interval) if interval.high < 0.0 => "the whole interval lies below 0",
        Some(_) => "not significant: the interval holds 0",
        None => "too few for an interval",
    };
    let findings = vec![
        format!(
            "Deferred tokens changed by {} nats on average, their replacements by {}: a difference of {} ({}).",
            three(Some(deferred.kl)),
            three(Some(replacement.kl)),
            with_interval(all.kl_difference),
            sure(all.kl_difference),
        ),
        format!(
            "Confidence rose in {:.1} % of the deferred and in {:.1} % of the replacements; difference of the mean rise {} ({}).",
            100.0 * deferred.increased,
            100.0 * replacement.increased,
            with_interval(all.delta_difference),
            sure(all.delta_difference),
        ),
    ];
    Words { title, about, findings }
}

fn table(caption: &str, words: &[&str], summaries: &[Summary]) -> Table {
    let numbers = ["differ", "of states", "K", "mean Δc", "Δc > 0", "K: d − r [95 %]", "Δc: d − r [95 %]"];
    let row = |s: &Summary| {
        let name = if words.len() == 1 { vec![s.model.clone()] } else { vec![s.task.clone(), s.model.clone()] };
        let counts = [s.divergences.to_string(), s.states.to_string()];
        let differences = [with_interval(s.kl_difference), with_interval(s.delta_difference)];
        name.into_iter().chain(counts).chain(s.cells()).chain(differences).collect()
    };
    Table {
        caption: Some(caption.into()),
        head: words.iter().chain(&numbers).map(|&word| word.into()).collect(),
        words: words.len(),
        rows: summaries.iter().map(row).collect(),
    }
}

/// The paper's table; its last row is bold.
fn latex(summaries: &[Summary]) -> Tables {
    let head = ["Model", "KL change", r"Mean \(\Delta c_j\)", "Confidence increased"];
    let mut lines = vec![Line::cells(head), Line::Rule];
    for (i, summary) in summaries.iter().enumerate() {
        let [kl, delta, increased] = summary.cells().map(|cell| escaped(&cell.replace(" %", "%")));
        let cells = [escaped(&summary.model), kl, delta, increased];
        lines.push(Line::cells(match i + 1 == summaries.len() {
            true => cells.map(|cell| format!("\\textbf{{{cell}}}")),
            false => cells,
        }));
    }
    let caption = "Change after receiving newly revealed context, reported as deferred token / ADAS replacement.";
    let table = Float { place: 'h', ..Float::new(caption, "lccc", lines) };
    Tables { preamble: Vec::new(), tables: vec![table] }
}

/// K of both, a panel for every model, on one axis of powers of ten: most effects are tiny, and few are large.
fn figure(settings: &[Setting], models: &[&str]) -> NamedFigure {
    let found = |model: &str| -> Vec<Divergence> {
        let of = settings.iter().filter(|setting| setting.model == model);
        of.flat_map(|setting| setting.states.iter().filter_map(|state| state.divergence)).collect()
    };
    let all: Vec<f64> = models
        .iter()
        .flat_map(|model| found(model))
        .flat_map(|d| [d.deferred.kl, d.replacement.kl])
        .map(|kl| kl.max(FLOOR))
        .collect();
    let y = Axis::around("K, nats", Scale::Log10, all);
    let panel = |model: &&str| {
        let found = found(model);
        let values =
            |side: fn(&Divergence) -> Effect| found.iter().map(|d| side(d).kl.max(FLOOR)).collect::<Vec<f64>>();
        let mark = |i: usize, values| Mark::Box { label: String::new(), look: LOOKS[i], at: i as f64, values };
        let marks = vec![mark(0, values(|d| d.deferred)), mark(1, values(|d| d.replacement))];
        let names = vec![(0.0, "deferred".into()), (1.0, "replacement".into())];
        Panel {
            title: format!("{model}, n = {}", found.len()),
            x: Axis { label: String::new(), scale: Scale::Named(names), range: (-0.6, 1.6) },
            y: y.clone(),
            marks,
        }
    };
    let figure = Figure {
        title: "What revealing the first choice did".into(),
        rows: vec![Row { title: String::new(), panels: models.iter().map(panel).collect() }],
        panel: (300, 300),
    };
    let caption = format!(
        "How much revealing the first choice moved the token that ADAS deferred and the one it took instead, in the states where they differ.          Boxes, whiskers (within 1.5 boxes) and points are of logarithms; diamonds are means, which few large effects decide. What is below          {FLOOR:e} is drawn there. All panels have the same axis."
    );
    NamedFigure { name: "deferral-boxes".into(), caption, figure }
}

/// Effects below this are nothing but rounding, and a logarithm has no zero.
const FLOOR: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::super::state::{Scope, StateOptions, states};
    use super::*;
    use cofill::toy::Toy;
    use cofill::{Canvas, Denoiser, TokenId};

    #[test]
    fn on_the_toy_the_deferred_changes_and_the_replacement_does_not() {
        // Names and cities are open; the second choice by confidence is the partner of the first, whenever its couple
        // leads.
        let sentences = 24;
        let mut toy = Toy::phrases(6 * sentences);
        let mask = toy.mask_id();
        let mut found = Vec::new();
        for doc in 0..sentences {
            let mut tokens: Vec<TokenId> = (0..6 * sentences).map(|i| [0, 4, 16, 8, 12, 20][i % 6]).collect();
            [0, 1, 3, 4].iter().for_each(|word| tokens[6 * doc + word] = mask);
            let options = StateOptions { k: 2, scope: Scope::CoSelected, ..StateOptions::default() };
            found.extend(states(&mut toy, Canvas::new(tokens, mask), doc, &options).unwrap());
        }
        let setting = Setting { task: "toy".into(), model: "toy".into(), states: found };
        let summary = Summary::of("toy", "toy", &[&setting], &Bootstrap { resamples: 200, seed: 0 });
        assert_eq!((summary.divergences, summary.states), (sentences, 2 * sentences), "{summary:?}");
        let (deferred, replacement) = (summary.deferred.unwrap(), summary.replacement.unwrap());
        assert!(deferred.kl > 0.05 && deferred.increased > 0.5, "{summary:?}");
        assert_eq!((replacement.kl, replacement.delta_confidence, replacement.increased), (0.0, 0.0, 0.0));
        assert!(summary.kl_difference.unwrap().interval.low > 0.0);
    }

    fn effect(kl: f64, delta_confidence: f64) -> Effect {
        let (position, token, token_after) = (0, 0, 0);
        let (attention, confidence, gated, score) = (0.0, 0.5, 0.0, 0.5);
        Effect {
            position,
            token,
            token_after,
            attention,
            kl,
            confidence,
            delta_confidence,
            gated,
            along_paths: gated,
            score,
        }
    }

    fn state(doc: usize, divergence: Option<(Effect, Effect)>) -> State {
        let revealed = super::super::state::Revealed { position: 0, token: 0, confidence: 0.5, uncertainty: 0.5 };
        let divergence = divergence.map(|(deferred, replacement)| Divergence { deferred, replacement });
        State { doc, step: 0, n_masked: 3, revealed, pairs: Vec::new(), divergence, heads: Vec::new() }
    }

    #[test]
    fn known_numbers_per_model_and_overall() {
        let setting = |model: &str, states| Setting { task: "t".into(), model: model.into(), states };
        let one = setting(
            "a",
            vec![
                state(0, Some((effect(1.0, 0.2), effect(0.5, -0.1)))),
                state(0, None),
                state(1, Some((effect(2.0, -0.1), effect(0.5, 0.1)))),
            ],
        );
        let two = setting("b", vec![state(0, Some((effect(6.0, 0.2), effect(2.0, 0.3))))]);
        let report = report(&[one, two], &Bootstrap { resamples: 100, seed: 0 });
        let models = &report.json["models"];
        assert_eq!((&models[0]["states"], &models[0]["divergences"]), (&json!(3), &json!(2)));
        assert_eq!((&models[0]["deferred"]["kl"], &models[0]["replacement"]["kl"]), (&json!(1.5), &json!(0.5)));
        assert_eq!(models[0]["deferred"]["increased"], json!(0.5));
        // Overall every state counts alike: (1 + 2 + 6) / 3, differences (.5 + 1.5 + 4) / 3.
        assert_eq!((&models[2]["model"], &models[2]["deferred"]["kl"]), (&json!("Overall"), &json!(3.0)));
        assert_eq!(models[2]["kl_difference"]["value"], json!(2.0));
        let latex = report.document.latex.to_string();
        assert!(latex.contains("a & 1.500 / .500 & +.050 / +.000 & 50.0\\% / 50.0\\% \\\\"), "{latex}");
        assert!(latex.contains("\\textbf{Overall} & \\textbf{3.000 / 1.000}"), "{latex}");
        // Three states of two values each, on one axis that has room for all.
        let figure = &report.document.figures[0].figure;
        assert_eq!(figure.values(), 6);
        let panels = &figure.rows[0].panels;
        assert!(panels.len() == 2 && panels[0].y == panels[1].y && panels[0].y.scale == Scale::Log10);
        assert!(panels[0].y.range.0 < 0.5 && panels[0].y.range.1 > 6.0);
    }

    #[test]
    fn where_nothing_is_deferred_there_is_nothing_to_tell() {
        let setting = Setting { task: "t".into(), model: "m".into(), states: vec![state(0, None)] };
        let report = report(&[setting], &Bootstrap { resamples: 10, seed: 0 });
        assert!(report.markdown().contains("| m       |      0 |         1 |   — |"), "{}", report.markdown());
        assert!(report.document.figures.is_empty());
        assert!(
            report.markdown().contains("No figure: it would show 0 values, and fewer than 3 say less than the tables.")
        );
    }
}
