//! The gaps of a text filled in place: whatever stands around them stays as it is, byte for byte, since it is never written again.
//!
//! A text that fits the model is one canvas, and all gaps are filled together. A longer one is filled in windows, from its beginning to its
//! end: neighbouring gaps with the text between them, and as much text on either side as the model holds or was asked for. What was filled
//! in an earlier window is text in a later one; to the right, a window ends where the next open gap is.
//!
//! The model sees line breaks as `\n` and no byte order mark; where the text ends its lines with `\r\n`, so does what is filled in.

use crate::gap_length::{FIRST, MOST, Slice, Template};
use crate::input::{Gap, Part, parts};
use crate::options::RunOptions;
use crate::question::{Judged, Question};
use crate::{Engine, Error, Generation, Input, Length, Prepared, Result, Seconds, Specials};
use cofill::{SamplerSpec, TokenId};
use cofill_tasks::mini::Form;
use std::ops::Range;

/// How gaps are marked in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapMarks<'a> {
    /// `[MASK:4]` for four positions, `[MASK:auto]` for as many as it takes.
    Masks,
    /// This text, wherever it stands, for so many positions. `[MASK:4]` is then a text like any other.
    Text(&'a str, Length),
}

/// What came of a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilledGap {
    /// The line that it is in, from 1.
    pub line: usize,
    /// What was filled in.
    pub answer: String,
    /// Positions that it had.
    pub length: usize,
    /// Forwards that were spent on its length.
    pub probes: usize,
    /// Tokens to the left of its window that were seen, and how many there are.
    pub left: (usize, usize),
    /// The same to the right, up to the next gap that was open.
    pub right: (usize, usize),
}

/// A gap as it is written, and what that means.
type Mark = (String, Gap);

/// A text whose gaps are being filled, window after window.
///
/// ```
/// use cofill_engine::{Engine, GapMarks, Infill, RunOptions};
///
/// let options = RunOptions::default();
/// let mut engine = Engine::open("toy", &options)?;
/// let mut infill = Infill::new(&engine, "Ada [MASK:1]\tlikes [MASK:2]\r\n", GapMarks::Masks, None)?;
/// while let Some(window) = infill.next(&mut engine, &"topk:1".parse()?, &options)? {
///     let filled = engine.generate(window)?;
///     infill.absorb(&engine, &filled)?;
/// }
/// assert_eq!(infill.text(), "Ada Lovelace\tlikes San Diego\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Infill {
    /// The text between the gaps: one more than there are gaps.
    kept: Vec<String>,
    marks: Vec<Mark>,
    /// What the model sees of that text.
    seen: Vec<String>,
    tokens: Vec<Vec<TokenId>>,
    breaks: &'static str,
    question: Option<Question>,
    context: Option<usize>,
    filled: Vec<(FilledGap, Vec<TokenId>)>,
    window: Option<Window>,
    stops: Vec<String>,
    spent: Spent,
}

/// What filling took.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Spent {
    /// Canvases.
    pub windows: usize,
    /// Forwards, those for lengths included.
    pub nfe: usize,
    /// Forwards that were spent on lengths.
    pub probes: usize,
    /// Positions that were filled.
    pub tokens: usize,
    /// Where the time went.
    pub seconds: Seconds,
}

/// Gaps that are filled together, and what is seen around them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    gaps: Range<usize>,
    left: (usize, usize),
    right: (usize, usize),
    /// Positions and probes of its gaps; known when it is on its way.
    lengths: Vec<(usize, usize)>,
    /// Where its text begins on the canvas: behind the beginning of text, where there is one.
    from: usize,
}

impl Infill {
    /// Takes a text apart. `context` is how many tokens on either side of a window are seen; without, as many as the model holds.
    pub fn new(engine: &Engine, text: &str, marks: GapMarks<'_>, context: Option<usize>) -> Result<Infill> {
        let (kept, marks) = split(text, marks)?;
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        let question = Question::of(&plain).filter(|question| question.task.form() == Form::Infill);
        let question = question.filter(|_| engine.knows_mini_tasks());
        let mut seen: Vec<String> = kept.iter().map(|text| text.replace("\r\n", "\n")).collect();
        seen[0] = seen[0].trim_start_matches('\u{feff}').to_owned();
        if let (Some(_), Some(last)) = (&question, seen.last_mut()) {
            // A question ends with a line break, which editors may leave out.
            *last = format!("{}\n", last.strip_suffix('\n').unwrap_or(last));
        }
        let tokens = seen.iter().map(|text| engine.encode(text)).collect::<Result<Vec<_>>>()?;
        let mask_id = engine.mask_id();
        if tokens.iter().any(|tokens| tokens.contains(&mask_id)) {
            return Err(Error::MaskInText { mask: engine.piece(mask_id) });
        }
        let crlf = text.matches("\r\n").count();
        let breaks = if crlf > text.matches('\n').count() - crlf { "\r\n" } else { "\n" };
        let (filled, window, stops, spent) = (Vec::new(), None, Vec::new(), Spent::default());
        Ok(Infill { kept, marks, seen, tokens, breaks, question, context, filled, window, stops, spent })
    }

    /// The question of a mini task that the text is, for models that know them.
    pub fn question(&self) -> Option<&Question> {
        self.question.as_ref()
    }

    /// Whether a model of the mini tasks knows such a text: it is a question, or begins with one.
    pub fn is_known(&self) -> bool {
        self.question.is_some() || self.seen[0].split_once('\n').is_some_and(|(line, _)| Question::of(line).is_some())
    }

    /// Tokens of the text as the model sees it, without its gaps.
    pub fn tokens(&self) -> usize {
        self.tokens.iter().map(Vec::len).sum()
    }

    /// The next window, ready to be filled; `None` when no gap is open. What comes of it goes into [`Infill::absorb`]. Options are those of
    /// a canvas that is given as a whole: a length, a chat and a least number of tokens are refused.
    pub fn next(
        &mut self,
        engine: &mut Engine,
        sampler: &SamplerSpec,
        options: &RunOptions,
    ) -> Result<Option<Prepared>> {
        check(options)?;
        if self.filled.len() == self.marks.len() {
            return Ok(None);
        }
        let (bos, end) = engine.around(options.bos)?;
        let frame = usize::from(bos.is_some()) + usize::from(end.is_some());
        let mut window = self.plan(engine.context().saturating_sub(frame));
        let mut template = Template { pieces: Vec::new(), bos, end, mask: engine.mask_id() };
        let mut open = Vec::new();
        template.pieces.push(Slice::Tokens(self.before(window.gaps.start, window.left.0)));
        for i in window.gaps.clone() {
            if i > window.gaps.start {
                template.pieces.push(Slice::Tokens(self.tokens[i].clone()));
            }
            let length = match self.marks[i].1 {
                Gap::Masks(n) => n,
                Gap::Auto => {
                    open.push(template.pieces.len());
                    FIRST
                }
            };
            template.pieces.push(Slice::Gap(length));
        }
        template.pieces.push(Slice::Tokens(self.tokens[window.gaps.end][..window.right.0].to_vec()));
        let settled = engine.settle_lengths(&mut template, &open, options)?;
        let probes = |i: usize| open.iter().position(|&at| at == i).map_or(0, |at| settled[at].tried.len());
        window.lengths = template
            .pieces
            .iter()
            .enumerate()
            .filter_map(|(i, piece)| if let Slice::Gap(n) = piece { Some((*n, probes(i))) } else { None })
            .collect();
        window.from = usize::from(template.begins());
        self.stops.clone_from(&options.stop);
        let canvas = Input::Tokens(template.canvas().tokens().to_vec());
        let prepared = engine.prepare_settled(&canvas, settled, sampler, options)?;
        self.window = Some(window);
        Ok(Some(prepared))
    }

    /// Takes what a window was filled with. Before all its masks are, it takes nothing and says so.
    pub fn absorb(&mut self, engine: &Engine, generation: &Generation) -> Result<()> {
        let open = generation.canvas.n_masked();
        if open > 0 {
            return Err(Error::StillOpen { masks: open });
        }
        let Some(window) = self.window.take() else { return Ok(()) };
        let (tokens, from) = (generation.canvas.tokens(), window.from);
        let mut at = from + window.left.0;
        let ends = engine.ends().tokens();
        for (i, (length, probes)) in window.gaps.clone().zip(window.lengths.iter().copied()) {
            let mut gap = at..at + length;
            at = gap.end + if i + 1 < window.gaps.end { self.tokens[i + 1].len() } else { 0 };
            if i + 1 == self.marks.len() && self.tokens[i + 1].is_empty() {
                // Nothing follows: an end is the end.
                gap.end = gap.clone().find(|&at| ends.contains(&tokens[at])).unwrap_or(gap.end);
            }
            let written: Vec<TokenId> =
                tokens[gap.clone()].iter().copied().filter(|token| !ends.contains(token)).collect();
            let answer = self.answer(engine, tokens, from, gap, i)?;
            let line = 1 + self.kept[..=i].iter().map(|text| text.matches('\n').count()).sum::<usize>();
            let (left, right) = (window.left, window.right);
            self.filled.push((FilledGap { line, answer, length, probes, left, right }, written));
        }
        self.spent.windows += 1;
        self.spent.nfe += generation.nfe;
        self.spent.probes += generation.probes();
        self.spent.tokens += generation.filled();
        self.spent.seconds.model += generation.seconds.model;
        self.spent.seconds.sampler += generation.seconds.sampler;
        Ok(())
    }

    /// The text as it stands: gaps that are open are as they were written.
    pub fn text(&self) -> String {
        let mut text = self.kept[0].clone();
        for (i, (mark, _)) in self.marks.iter().enumerate() {
            match self.filled.get(i) {
                Some((gap, _)) => text += &gap.answer,
                None => text += mark,
            }
            text += &self.kept[i + 1];
        }
        text
    }

    /// The gaps that are filled, in the order of the text.
    pub fn gaps(&self) -> impl ExactSizeIterator<Item = &FilledGap> {
        self.filled.iter().map(|(gap, _)| gap)
    }

    /// What filling took so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether the question of a mini task was answered rightly, if the text is one and all of it is filled.
    pub fn judged(&self) -> Option<Judged> {
        let question = self.question.as_ref().filter(|_| self.filled.len() == self.marks.len())?;
        let mut text = self.seen[0].clone();
        for ((gap, _), seen) in self.filled.iter().zip(&self.seen[1..]) {
            text += &gap.answer.replace("\r\n", "\n");
            text += seen;
        }
        Some(question.judge(&text))
    }

    /// What a gap was filled with, as it goes into the text.
    fn answer(&self, engine: &Engine, tokens: &[TokenId], from: usize, gap: Range<usize>, i: usize) -> Result<String> {
        let before = engine.text(&tokens[gap.start.saturating_sub(1).max(from)..gap.start], Specials::Hidden)?;
        let mut answer = engine.gap_text(tokens, from, gap)?;
        // Some tokenizers leave out the space at the end of a text and put it before the next word. It is in the text already.
        let is_lost = !before.is_empty() && !before.ends_with(char::is_whitespace);
        if self.kept[i].ends_with(char::is_whitespace) && is_lost {
            answer = answer.strip_prefix(' ').map(str::to_owned).unwrap_or(answer);
        }
        if let Some(cut) = self.stops.iter().filter_map(|stop| answer.find(stop.as_str())).min() {
            answer.truncate(cut);
        }
        Ok(match self.breaks {
            "\n" => answer,
            breaks => answer.replace("\r\n", "\n").replace('\n', breaks),
        })
    }

    /// Which gaps are next, and how much text around them is seen, in a model that holds `room` positions.
    fn plan(&self, room: usize) -> Window {
        let (first, n) = (self.filled.len(), self.marks.len());
        // Of a length that is to be found, room for the longest.
        let length = |i: usize| match self.marks[i].1 {
            Gap::Masks(n) => n,
            Gap::Auto => MOST.min(room / 4).max(1),
        };
        let before: usize = self.tokens[..=first].iter().map(Vec::len).sum::<usize>()
            + self.filled.iter().map(|(_, tokens)| tokens.len()).sum::<usize>();
        let whole = before + (first..n).map(|i| length(i) + self.tokens[i + 1].len()).sum::<usize>();
        let (mut end, mut span) = (first + 1, length(first));
        while end < n {
            let between = self.tokens[end].len();
            let grown = span + between + length(end);
            let joins = match self.context {
                Some(context) => between <= context && grown.saturating_add(context.saturating_mul(2)) <= room,
                None => whole <= room || grown <= room / 2,
            };
            if !joins {
                break;
            }
            (span, end) = (grown, end + 1);
        }
        let (left, right) = (before, self.tokens[end].len());
        let most = self.context.unwrap_or(usize::MAX);
        let seen = share(room.saturating_sub(span), left.min(most), right.min(most));
        Window { gaps: first..end, left: (seen.0, left), right: (seen.1, right), lengths: Vec::new(), from: 0 }
    }

    /// The last `n` tokens before a gap, with those that were filled in before it.
    fn before(&self, gap: usize, n: usize) -> Vec<TokenId> {
        let mut back = Vec::new();
        let mut missing = n;
        for i in (0..=gap).rev() {
            // The text before gap `i`, and what gap `i - 1` was filled with.
            let filled = if i > 0 { self.filled[i - 1].1.as_slice() } else { &[] };
            for tokens in [self.tokens[i].as_slice(), filled] {
                let taken = &tokens[tokens.len() - missing.min(tokens.len())..];
                back.push(taken);
                missing -= taken.len();
            }
            if missing == 0 {
                break;
            }
        }
        back.into_iter().rev().flatten().copied().collect()
    }
}

/// Halves for both; what one does not need is the other's.
fn share(room: usize, left: usize, right: usize) -> (usize, usize) {
    let most = (room / 2).max(room.saturating_sub(right));
    let left = left.min(most);
    (left, right.min(room - left))
}

/// Refuses options that say how long an answer behind a prompt is.
fn check(options: &RunOptions) -> Result<()> {
    let bad = |what, given: String| {
        let limit = "left out: a gap says how long it is".into();
        Err(cofill::Error::BadSetting { what, limit, given }.into())
    };
    match options {
        RunOptions { length: Some(length), .. } => bad("length", length.to_string()),
        RunOptions { max_length: Some(most), .. } => bad("max_length", most.to_string()),
        RunOptions { min_tokens: Some(least), .. } => bad("min_tokens", least.to_string()),
        RunOptions { chat: true, .. } => bad("chat", "true".into()),
        _ => Ok(()),
    }
}

/// A text between and in its gaps.
fn split(text: &str, marks: GapMarks<'_>) -> Result<(Vec<String>, Vec<Mark>)> {
    match marks {
        GapMarks::Masks => {
            let (mut kept, mut gaps) = (Vec::new(), Vec::new());
            for part in parts(text)? {
                match part {
                    Part::Text(text) => kept.push(text.to_owned()),
                    Part::Gap(gap @ Gap::Auto) => gaps.push(("[MASK:auto]".to_owned(), gap)),
                    Part::Gap(gap @ Gap::Masks(n)) => gaps.push((format!("[MASK:{n}]"), gap)),
                }
            }
            Ok((kept, gaps))
        }
        GapMarks::Text(marker, length) => {
            let kept: Vec<String> = text.split(marker).map(str::to_owned).collect();
            let gap = match length {
                Length::Auto => Gap::Auto,
                Length::Fixed(n) => Gap::Masks(n),
            };
            if marker.is_empty() || kept.len() == 1 || length == Length::Fixed(0) {
                return Err(Error::NoGap);
            }
            let gaps = vec![(marker.to_owned(), gap); kept.len() - 1];
            Ok((kept, gaps))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_none_of_it_wasted() {
        for room in 0..12 {
            for left in 0..12 {
                for right in 0..12 {
                    let (l, r) = share(room, left, right);
                    assert!(l <= left && r <= right && l + r <= room);
                    assert_eq!(l + r, room.min(left + right), "{room}: {left}, {right}");
                    // Nobody has less than half, unless that is all it needs.
                    assert!(l >= left.min(room / 2) && r >= right.min(room / 2));
                }
            }
        }
    }

    #[test]
    fn a_marker_is_a_gap_and_masks_are_text_then() {
        let (kept, gaps) = split("a <FILL>b[MASK:4]<FILL>", GapMarks::Text("<FILL>", Length::Fixed(3))).unwrap();
        assert_eq!(kept, ["a ", "b[MASK:4]", ""]);
        assert_eq!(gaps, vec![("<FILL>".to_owned(), Gap::Masks(3)); 2]);
        assert!(matches!(split("a", GapMarks::Text("<FILL>", Length::Auto)), Err(Error::NoGap)));
        assert!(matches!(split("a", GapMarks::Masks), Err(Error::NoGap)));
    }
}
