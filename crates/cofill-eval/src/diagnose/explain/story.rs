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
    /// Whether deferrals that changed nothing are told, too; at first they are not.
    pub all: bool,
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
pub(super) const BREAK: &str = "⏎";
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
            all: false,
            canvas,
        })
    }

    /// A page for a browser: one file, nothing fetched.
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// The page as a part of another one, such as a cell of a notebook.
    pub fn fragment(&self) -> String {
        frame(&format!("What {} deferred, and why", self.explanation.sampler), FRAME_HEIGHT, &self.html())
    }

    /// What `cofill explain` prints, without colour.
    pub fn text(&self) -> String {
        self.painted(&text::Palette::default(), text::WIDTH)
    }

    /// What `cofill explain` prints, in the colours of a terminal that has so many columns.
    pub fn painted(&self, palette: &text::Palette, width: usize) -> String {
        text::text(self, palette, width)
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

    /// A token as the lines that it is on: more than one if it breaks a line.
    pub(super) fn parts(&self, token: TokenId) -> Vec<String> {
        match token == self.canvas.mask_id() {
            true => vec![MASK.into()],
            false => {
                self.raw(token).split('\n').map(|part| printable(&part.replace(END.0, END.1)).into_owned()).collect()
            }
        }
    }

    /// Whether a deferral is told.
    pub(super) fn tells(&self, deferred: &Deferred) -> bool {
        self.all || !deferred.changed_nothing()
    }

    /// How many deferrals are not told, and of how many, in a sentence; nothing if all are.
    pub(super) fn hidden(&self) -> Option<String> {
        let all = || self.explanation.steps.iter().flat_map(|step| &step.deferred);
        let hidden = all().filter(|deferred| !self.tells(deferred)).count();
        let (are, n) = (if hidden == 1 { "is" } else { "are" }, all().count());
        (hidden > 0).then(|| {
            format!("{hidden} of {} changed nothing and {are} not shown; --all shows them", count(n, "deferral"))
        })
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
    let candidates = explanation.steps.iter().flat_map(|step| &step.candidates).map(|candidate| candidate.token);
    let waiting = waiting.flat_map(|deferred| [deferred.token, deferred.reason.token, deferred.after.token]);
    canvases.chain(waiting).chain(candidates)
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
        assert!(text.contains("step 1  masked 4 -> 2\n    0  [Alan] _ visited [San] _ again\n"), "{text}");
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
        assert!(told.painted(&palette, 80).contains("<n>[Alan]</n> <l>_</l> visited <n>[San]</n> _ again"));
    }

    const BOOKS: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

    #[test]
    fn lines_break_where_the_text_does_and_begin_with_their_position() {
        let told = story("tiny-llada", &Input::Prompt(BOOKS.into()), "topk:8+ad", "{}").unwrap();
        let (text, last) = (told.text(), told.explanation.steps.len() - 1);
        let picture = &text[text.find(&format!("step {last} ")).unwrap()..];
        let first = told.shown_from();
        assert!(picture.lines().nth(1).unwrap().starts_with(&format!("{first:>5}  10*2=20")), "{picture}");
        // Every line of the answer is a line of the picture, with the number of its first token in front.
        let end = &told.explanation.end;
        let starts = (first..end.len()).filter(|&p| p == first || told.raw(end[p - 1]).ends_with('\n'));
        let rows = picture[..picture.find("\n\n").unwrap()].lines();
        let numbers: Vec<usize> = rows.filter_map(|line| line.get(..5)?.trim().parse().ok()).collect();
        assert_eq!(numbers, starts.collect::<Vec<_>>(), "{picture}");
    }

    #[test]
    fn waits_for_nothing_are_counted_and_told_only_when_asked_for() {
        let mut told = story("tiny-llada", &Input::Prompt(BOOKS.into()), "topk:8+ad", "{}").unwrap();
        let all = || told.explanation.steps.iter().flat_map(|step| &step.deferred);
        let (n, hidden) = (all().count(), all().filter(|deferred| deferred.changed_nothing()).count());
        assert!(0 < hidden && hidden < n, "{hidden} of {n}");
        let said = |told: &Story| told.text().matches("  deferred ").count();
        assert_eq!(said(&told), n - hidden);
        let line = format!("{hidden} of {n} deferrals changed nothing and are not shown; --all shows them");
        assert!(told.text().contains(&line), "{}", told.text());
        // The page has them behind a fold.
        assert!(told.html().matches("<li class=\"deferred\">").count() == n && told.html().contains("<details>"));
        told.all = true;
        assert_eq!(said(&told), n);
        assert!(!told.text().contains("not shown") && !told.html().contains("<details>"));
    }

    #[test]
    fn long_lines_wrap_under_a_ruler() {
        // Every row begins with the number of its first position, and a row of eight or more has a ruler.
        let told = story("toy", &Input::Nothing, "topk:4+ad", r#"{"length": 12}"#).unwrap();
        let narrow = told.painted(&text::Palette::default(), 40);
        let rows: Vec<&str> =
            narrow.lines().filter(|line| line.get(..5).is_some_and(|n| n.trim().parse::<usize>().is_ok())).collect();
        assert!(rows.len() > told.explanation.steps.len(), "{narrow}");
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{narrow}");
        let wide = told.painted(&text::Palette::default(), 120);
        let ruler = wide.lines().nth(1).unwrap();
        let canvas: Vec<char> = wide.lines().nth(2).unwrap().chars().collect();
        let numbers: Vec<&str> = ruler.split_whitespace().collect();
        assert_eq!(numbers, ["0", "5", "10"], "{wide}");
        // A number stands above the first letter of its word.
        let words: String = canvas[7..].iter().collect();
        let starts: Vec<usize> = words
            .split(' ')
            .scan(7, |at, word| {
                let start = *at;
                *at += word.chars().count() + 1;
                Some(start)
            })
            .collect();
        assert_eq!(ruler.find("10"), Some(starts[10]), "{wide}");
    }

    #[test]
    fn every_cell_of_the_page_says_what_it_is() {
        let told = story("toy", &Input::Nothing, "topk:2+ad", r#"{"length": 6}"#).unwrap();
        let page = told.html();
        // Three steps of six positions, and one tab stop for each step.
        assert_eq!((page.matches(" data-p=\"").count(), page.matches(" tabindex=\"0\"").count()), (18, 3));
        for said in [
            "Position 1 “Kelly” waits for 0 “Alan”",
            "Position 0 “Alan”: committed in this step",
            "attends most to",
            "entropy",
        ] {
            assert!(page.contains(said), "no {said} in {page}");
        }
        let policy = page.find("script-src &#39;sha256-").or(page.find("script-src 'sha256-"));
        assert!(policy.is_some() && !page.contains("script-src 'unsafe-inline'"));
    }

    #[test]
    fn what_has_no_end_or_no_reasons_is_refused() {
        let cap = story("toy", &Input::Nothing, "topk:2+ad", r#"{"length": 6, "max_nfe": 2}"#).unwrap_err().to_string();
        assert!(cap.contains("max_nfe") && cap.contains("left out") && cap.contains('2'), "{cap}");
        let plain = story("toy", &Input::Nothing, "topk:2", r#"{"length": 6}"#).unwrap_err().to_string();
        assert!(plain.contains("the sampler") && plain.contains("+ad"), "{plain}");
    }
}
