//! An explanation with the words to tell it: what tokens say, what both decodes came to. Whoever shows it needs no engine any more.

use super::{Deferred, Explanation, Reason, explain, page, text};
use cofill::{Canvas, SamplerSpec, TokenId};
use cofill_engine::{Engine, Input, Prepared, Result, RunOptions, Spelling};
use cofill_model::printable;
use cofill_report::document::count;
use cofill_report::document::html::frame;
use std::collections::BTreeMap;

/// A decode with reasons, and everything to show it with: as a page, as text, as JSON.
///
/// ```
/// use cofill_engine::{Engine, Input, RunOptions};
/// use cofill_eval::diagnose::explain::Story;
///
/// let mut engine = Engine::open("toy", &RunOptions::default())?;
/// let options = serde_json::from_str(r#"{"length": 6}"#)?;
/// let story = Story::tell(&mut engine, &Input::Nothing, &"topk:2+ad".parse()?, &options)?;
/// assert_eq!(story.with.text, "Alan Turing visited San Diego again");
/// assert_eq!(story.without.text, "Alan Kelly visited San City again");
/// assert!(story.text().contains("deferred 1 `Kelly` (c 0.474): attends"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// The model, as it was named.
    pub model: String,
    /// Every step, and why who waited.
    pub explanation: Explanation,
    /// What the decode came to.
    pub with: Ending,
    /// What the same decode without discount came to.
    pub without: Ending,
    /// What whoever asked should hear.
    pub warnings: Vec<String>,
    /// The canvas at the start.
    pub(super) canvas: Canvas,
    pub(super) spelling: Spelling,
    /// Of every token there is to name.
    pieces: BTreeMap<TokenId, String>,
}

/// What a decode came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// What a person reads of the canvas.
    pub text: String,
    /// Whether the question of a mini task was answered rightly, in a line; only if one was asked.
    pub verdict: Option<String>,
}

/// A line break inside a line, and end of text, as `cofill generate --show` has them.
const BREAK: &str = "⏎";
const END: (&str, &str) = ("<|endoftext|>", "∎");

pub(super) const MASK: &str = "_";

/// Pixels of a page inside another one: the first steps are in sight, and the rest scrolls.
const FRAME_HEIGHT: usize = 640;

impl Story {
    /// Fills what is given with `sampler`, which must have a discount, and explains every step.
    pub fn tell(engine: &mut Engine, input: &Input, sampler: &SamplerSpec, options: &RunOptions) -> Result<Story> {
        let prepared = engine.prepare(input, sampler, options)?;
        Story::of(engine, prepared, sampler, options)
    }

    /// The same of what `engine` has prepared with this sampler and these options.
    pub fn of(engine: &mut Engine, prepared: Prepared, sampler: &SamplerSpec, options: &RunOptions) -> Result<Story> {
        if let Some(cap) = options.max_nfe {
            let limit = "left out: an explanation follows a decode to its end".into();
            return Err(cofill::Error::BadSetting { what: "max_nfe", limit, given: cap.to_string() }.into());
        }
        options.fixed_length()?;
        if let Some(what) = options.constraints().first() {
            let limit = "left out: an explanation compares what the model alone would write".into();
            return Err(cofill::Error::BadSetting { what, limit, given: "a constraint".into() }.into());
        }
        let Prepared { start: canvas, question, warnings, .. } = prepared;
        let (sampler, proposal) = (engine.settle(sampler)?, options.proposal_for(&canvas, engine.ends()));
        let explanation = explain(engine.denoiser(), &canvas, &sampler, options.schedule(), &proposal)?;
        let read = |tokens: &[TokenId]| -> Result<Ending> {
            let text = engine.read_tokens(&canvas, tokens, &options.stop)?;
            let verdict = question.as_ref().map(|question| question.judge(&text).line());
            Ok(Ending { text, verdict })
        };
        Ok(Story {
            model: engine.name().into(),
            spelling: Spelling::of(engine.name()),
            pieces: named(&explanation).map(|token| (token, engine.piece(token))).collect(),
            with: read(&explanation.end)?,
            without: read(&explanation.plain_end)?,
            explanation,
            warnings,
            canvas,
        })
    }

    /// A page for a browser: one file, no scripts, nothing fetched.
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// The page as a part of another one, such as a cell of a notebook.
    pub fn fragment(&self) -> String {
        frame(&format!("What {} deferred, and why", self.explanation.sampler), FRAME_HEIGHT, &self.html())
    }

    /// What `cofill explain` prints, without colour.
    pub fn text(&self) -> String {
        self.painted(&text::Palette::default())
    }

    /// What `cofill explain` prints, in the colours of a terminal.
    pub fn painted(&self, palette: &text::Palette) -> String {
        text::text(self, palette)
    }

    /// The explanation as one JSON object.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&self.explanation)
    }

    /// A token on one line.
    pub(super) fn piece(&self, token: TokenId) -> String {
        match token == self.canvas.mask_id() {
            true => MASK.into(),
            false => printable(&self.raw(token).replace('\n', BREAK).replace(END.0, END.1)).into_owned(),
        }
    }

    fn raw(&self, token: TokenId) -> &str {
        self.pieces.get(&token).map_or("", String::as_str)
    }

    /// From where a canvas is worth showing: the line of the first mask.
    pub(super) fn shown_from(&self) -> usize {
        let first = self.canvas.masked().next().unwrap_or(0);
        let tokens = &self.canvas.tokens()[..first];
        tokens.iter().rposition(|&token| self.raw(token).ends_with('\n')).map_or(0, |at| at + 1)
    }

    /// `2 of 16 steps deferred somebody ...`
    pub fn summary(&self) -> String {
        let all = || self.explanation.steps.iter().flat_map(|step| &step.deferred);
        let (n, steps) = (all().count(), self.explanation.steps.len());
        if n == 0 {
            return format!(
                "{} in {}; nobody was deferred: `{}` would have chosen the same at every step",
                self.explanation.sampler,
                count(steps, "step"),
                self.explanation.plain
            );
        }
        let mean = |of: fn(&Deferred) -> f64| all().map(of).sum::<f64>() / n as f64;
        let changed = all().filter(|deferred| deferred.after.token != deferred.token).count();
        let surer = all().filter(|deferred| deferred.after.confidence > deferred.confidence).count();
        format!(
            "{} in {}; deferred {} in {}. Once the reason was revealed: mean KL {:.3} nats, {surer} of {n} surer, \
             {changed} of {n} had another best token",
            self.explanation.sampler,
            count(steps, "step"),
            count(n, "time"),
            count(self.explanation.steps.iter().filter(|step| !step.deferred.is_empty()).count(), "step"),
            mean(|deferred| deferred.after.kl),
        )
    }
}

/// Every token that an explanation names.
fn named(explanation: &Explanation) -> impl Iterator<Item = TokenId> {
    let canvases = [&explanation.start, &explanation.end, &explanation.plain_end].into_iter().flatten().copied();
    // What was committed is in `end`.
    let waiting = explanation.steps.iter().flat_map(|step| &step.deferred);
    canvases.chain(waiting.flat_map(|deferred| [deferred.token, deferred.reason.token, deferred.after.token]))
}

/// How a deferred position reads the one it waits for: `.120 to`, or `through 4 and 7 to`.
pub(super) fn reading(reason: &Reason) -> String {
    let through: Vec<String> = reason.through.iter().map(usize::to_string).collect();
    match through.is_empty() {
        true => format!("{:.3} to", reason.attention),
        false => format!("through {} to", through.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(model: &str, input: &Input, sampler: &str, options: &str) -> Result<Story> {
        let options: RunOptions = serde_json::from_str(options).unwrap();
        let mut engine = Engine::open(model, &options)?;
        Story::tell(&mut engine, input, &sampler.parse().unwrap(), &options)
    }

    #[test]
    fn a_story_outlives_its_engine_and_has_every_form() {
        let told = story("toy", &Input::Nothing, "topk:2+ad", r#"{"length": 6}"#).unwrap();
        let text = told.text();
        assert!(text.contains("step 1  masked 4 -> 2  [Alan] _ visited [San] _ again\n"), "{text}");
        assert!(text.contains("deferred 1 `Kelly` (c 0.474): attends"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colour unless asked");
        assert!(told.html().starts_with("<!doctype html>") && told.html().contains(">Kelly</b> at 1"));
        let json: serde_json::Value = serde_json::from_str(&told.json().unwrap()).unwrap();
        assert_eq!(json, serde_json::to_value(&told.explanation).unwrap());
        // The toy asks no question; `it::diagnose` of the command has one that is judged both ways.
        assert_eq!((told.with.verdict.as_ref(), told.without.verdict.as_ref()), (None, None));
        let fragment = told.fragment();
        assert_eq!((fragment.matches('<').count(), fragment.starts_with("<iframe ")), (2, true));
    }

    #[test]
    fn colours_stand_around_what_they_mark() {
        let told = story("toy", &Input::Nothing, "topk:2+ad", r#"{"length": 6}"#).unwrap();
        let pair = |open: &str, close: &str| text::Style { open: open.into(), close: close.into() };
        let palette = text::Palette { new: pair("<n>", "</n>"), late: pair("<l>", "</l>"), ..Default::default() };
        assert!(told.painted(&palette).contains("<n>[Alan]</n> <l>_</l> visited <n>[San]</n> _ again"));
    }

    #[test]
    fn what_has_no_end_or_no_reasons_is_refused() {
        let cap = story("toy", &Input::Nothing, "topk:2+ad", r#"{"length": 6, "max_nfe": 2}"#).unwrap_err().to_string();
        assert!(cap.contains("max_nfe") && cap.contains("left out") && cap.contains('2'), "{cap}");
        let plain = story("toy", &Input::Nothing, "topk:2", r#"{"length": 6}"#).unwrap_err().to_string();
        assert!(plain.contains("the sampler") && plain.contains("+ad"), "{plain}");
    }
}
