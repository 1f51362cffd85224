//! A task put to a model: questions in, records out.
//!
//! A batch shares forwards and nothing else: what becomes of a question depends neither on who is decoded beside it, nor on how many
//! threads compute, nor on what was asked before.

use cofill::trace::CacheMeter;
use cofill::{Canvas, Constraint, Decode, Denoiser, Pool, SamplerSpec, Ticket, TokenId};
pub use cofill_engine::Codec;
use cofill_engine::{Ends, Piece, RunOptions, TextLanguage, gaps};
use cofill_report::results::{self, Record};
use cofill_tasks::benchmarks::{self, Loaded, Prompts, Scored};
use cofill_tasks::data;
use cofill_tasks::judge::Judges;
use cofill_tasks::mini::{self, Example, Form, Mini};
use cofill_tasks::wrapper::{self, Specials, Wrapper};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

/// What is asked, and what an answer is worth.
pub trait Task {
    /// Questions there are; they are named 0, 1, 2 and so on.
    fn docs(&self) -> usize;
    /// A question.
    fn question(&self, doc: usize) -> Result<Question, Error>;
    /// Scores everything that was generated, special tokens included; of an infill, the whole text.
    fn judge(&self, doc: usize, raw: &str, specials: &dyn Specials) -> Result<Judged, Error>;
    /// The same, for a task that compares tokens: `tokens` are those that were generated, `codec` makes text of them.
    fn judge_tokens(&self, doc: usize, _tokens: &[TokenId], raw: &str, codec: &dyn Codec) -> Result<Judged, Error> {
        self.judge(doc, raw, codec)
    }
    /// The same for the answers of a batch, for a task that is better asked once; in their order.
    fn judge_all(&self, answers: &[Answer<'_>], codec: &dyn Codec) -> Result<Vec<Judged>, Error> {
        answers.iter().map(|answer| self.judge_tokens(answer.doc, answer.tokens, answer.raw, codec)).collect()
    }
}

/// What was generated for a question.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The question.
    pub doc: usize,
    /// The tokens that were generated.
    pub tokens: &'a [TokenId],
    /// Their text, special tokens included; of an infill, the whole text.
    pub raw: &'a str,
}

/// Some questions of a task, in an order of their own: question `doc` is `order[doc]` of the task.
pub(crate) struct Reordered<'a> {
    pub(crate) task: &'a dyn Task,
    pub(crate) order: &'a [usize],
}

impl Task for Reordered<'_> {
    fn docs(&self) -> usize {
        self.order.len()
    }

    fn question(&self, doc: usize) -> Result<Question, Error> {
        self.task.question(self.order[doc])
    }

    fn judge(&self, doc: usize, raw: &str, specials: &dyn Specials) -> Result<Judged, Error> {
        self.task.judge(self.order[doc], raw, specials)
    }

    fn judge_all(&self, answers: &[Answer<'_>], codec: &dyn Codec) -> Result<Vec<Judged>, Error> {
        let answers: Vec<Answer<'_>> =
            answers.iter().map(|answer| Answer { doc: self.order[answer.doc], ..*answer }).collect();
        self.task.judge_all(&answers, codec)
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What the model is given.
    pub prompt: String,
    /// Where the masks are.
    pub form: Form,
}

impl Question {
    /// The prompt and masks after it, or masks in every gap.
    pub fn canvas(&self, settings: &Settings, mask_id: TokenId, codec: &dyn Codec) -> Result<Canvas, Error> {
        let encode = |text: &str| codec.encode(text).map_err(Error::Text);
        let mut tokens: Vec<TokenId> = settings.bos.into_iter().collect();
        match self.form {
            Form::Continue => {
                let prompt = match settings.options.chat {
                    true => encode(&codec.chat(&self.prompt).map_err(Error::Text)?)?,
                    false => encode(&self.prompt)?,
                };
                // A chat template may have written the beginning of text already.
                let again = settings.options.chat && settings.bos.is_some() && prompt.first().copied() == settings.bos;
                tokens.extend(&prompt[usize::from(again)..]);
                tokens.resize(tokens.len() + settings.length, mask_id);
            }
            Form::Infill => {
                for piece in gaps(&self.prompt).map_err(|error| Error::Text(error.to_string()))? {
                    match piece {
                        Piece::Text(text) => tokens.extend(encode(text)?),
                        Piece::Masks(n) => tokens.resize(tokens.len() + n, mask_id),
                    }
                }
            }
        }
        tokens.extend(settings.end);
        Ok(Canvas::new(tokens, mask_id))
    }
}

/// A scored answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The part of the text that was read.
    pub text: String,
    /// Every reading of it.
    pub scored: Scored,
}

/// What can go wrong in a run, beside wrong answers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The decode or the model.
    #[error(transparent)]
    Decode(#[from] cofill::Error),
    /// The tokenizer.
    #[error("{0}")]
    Text(String),
    /// A mini task does not know its own prompt.
    #[error(transparent)]
    Mini(#[from] mini::Error),
    /// A benchmark cannot ask or score.
    #[error(transparent)]
    Benchmark(#[from] benchmarks::Error),
    /// The canvas has no room for a text of the language that answers are held to.
    #[error(transparent)]
    Language(Box<cofill_engine::Error>),
    /// A row of an infill that this model's tokenizer cannot be scored on.
    #[error(transparent)]
    Infill(#[from] crate::infill::Error),
    /// A row of a task file that this model cannot be asked.
    #[error(transparent)]
    Unaskable(#[from] crate::own::Unaskable),
    /// A task file that cannot be scored.
    #[error(transparent)]
    Own(#[from] cofill_tasks::own::Error),
    /// What LLaDA's or Dream's harness does cannot be done.
    #[error(transparent)]
    Wrapper(#[from] wrapper::Error),
}

/// How canvases are filled.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who decides what is committed together.
    pub sampler: SamplerSpec,
    /// How tokens are proposed and masks become eligible. Of the seed, every question has its own branch.
    pub options: RunOptions,
    /// Positions after a prompt.
    pub length: usize,
    /// Stands before every prompt.
    pub bos: Option<TokenId>,
    /// Stands behind every canvas, in models that were trained so.
    pub end: Option<TokenId>,
}

/// A task, settings and a tokenizer.
pub struct Run<'a> {
    /// What is asked.
    pub task: &'a dyn Task,
    /// How answers are made.
    pub settings: &'a Settings,
    /// The model's text.
    pub codec: &'a dyn Codec,
    /// The tokens with which the model ends.
    pub ends: Ends,
    /// What its answers are held to.
    pub language: Option<&'a TextLanguage>,
}

/// How far questions that are decoded together are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Forwards so far.
    pub forwards: usize,
    /// Positions that are filled, of all questions together.
    pub filled: usize,
    /// Positions that there were to fill.
    pub masks: usize,
}

/// A question on its way.
struct InFlight {
    doc: usize,
    question: Question,
    start: Canvas,
    seconds: f64,
}

impl Run<'_> {
    /// Decodes some questions together. Records are in their order.
    pub fn batch(&self, denoiser: &mut dyn Denoiser, docs: Range<usize>) -> Result<Vec<Record>, Error> {
        self.batch_watched(denoiser, docs, &mut |_| {})
    }

    /// The same, and `watch` hears how far it is after every forward.
    pub fn batch_watched(
        &self,
        denoiser: &mut dyn Denoiser,
        docs: Range<usize>,
        watch: &mut dyn FnMut(Round),
    ) -> Result<Vec<Record>, Error> {
        let mut pool = Pool::new();
        let mut asked: HashMap<Ticket, InFlight> = HashMap::with_capacity(docs.len());
        for doc in docs {
            let question = self.task.question(doc)?;
            let start = question.canvas(self.settings, denoiser.mask_id(), self.codec)?;
            let decode = self.decode(doc, question.form, start.clone())?;
            asked.insert(pool.add(decode), InFlight { doc, question, start, seconds: 0.0 });
        }
        let mut filled = Vec::with_capacity(asked.len());
        let mut round =
            Round { forwards: 0, filled: 0, masks: asked.values().map(|asked| asked.start.n_masked()).sum() };
        while !pool.is_empty() {
            let begun = Instant::now();
            let events = pool.round(denoiser)?;
            let share = begun.elapsed().as_secs_f64() / events.len().max(1) as f64;
            round.forwards += 1;
            for event in events {
                if let Some(step) = event.step? {
                    round.filled = (round.filled + step.commits.len()).saturating_sub(step.remasked.len());
                }
                if let Some(asked) = asked.get_mut(&event.ticket) {
                    asked.seconds += share;
                }
            }
            watch(round);
            for (ticket, _, decode) in pool.finished() {
                if let Some(asked) = asked.remove(&ticket) {
                    filled.push(self.filled(asked, &decode)?);
                }
            }
        }
        filled.sort_by_key(|filled| filled.asked.doc);
        let answers: Vec<Answer<'_>> = filled.iter().map(Filled::answer).collect();
        let judged = self.task.judge_all(&answers, self.codec)?;
        Ok(filled.iter().zip(judged).map(|(filled, judged)| filled.record(judged)).collect())
    }

    /// A decode whose noise is its question's own.
    fn decode(&self, doc: usize, form: Form, canvas: Canvas) -> Result<Decode, Error> {
        let Settings { sampler, options, .. } = self.settings;
        let mut proposal = options.proposal_for(&canvas, self.ends);
        proposal.seed = seed_of(options.seed, doc);
        let constraint = self.language.map(|language| self.hold(language, form, &canvas)).transpose()?;
        Ok(cofill_engine::begin(canvas, sampler, options, proposal, constraint)?)
    }

    /// Where a language holds: after a prompt, in the gaps of a template, or in the whole of it.
    fn hold(&self, language: &TextLanguage, form: Form, canvas: &Canvas) -> Result<Box<dyn Constraint>, Error> {
        let Settings { bos, end, .. } = self.settings;
        let held = match form {
            Form::Continue => language.in_gaps(canvas),
            Form::Infill => {
                let text = usize::from(bos.is_some())..canvas.tokens().len() - usize::from(end.is_some());
                language.in_template(canvas, text)
            }
        };
        held.map_err(|error| Error::Language(Box::new(error)))
    }

    /// What became of a question, before anybody has judged it.
    fn filled(&self, asked: InFlight, decode: &Decode) -> Result<Filled, Error> {
        let filled = decode.canvas().tokens();
        let is_generated = |at: &usize| asked.start.is_masked(*at);
        let tokens: Vec<TokenId> = (0..filled.len()).filter(is_generated).map(|at| filled[at]).collect();
        let raw = match asked.question.form {
            Form::Continue => self.codec.decode(&tokens),
            Form::Infill => {
                let Settings { bos, end, .. } = self.settings;
                self.codec.decode(&filled[usize::from(bos.is_some())..filled.len() - usize::from(end.is_some())])
            }
        };
        let eos = self.codec.eos().map(|eos| self.codec.encode(eos)).transpose().map_err(Error::Text)?;
        let ends = |token: &TokenId| eos.as_deref() == Some(std::slice::from_ref(token));
        let end = tokens.iter().position(ends).unwrap_or(tokens.len());
        let n_filled = tokens.len() - decode.canvas().n_masked();
        Ok(Filled {
            raw: raw.map_err(Error::Text)?,
            n_filled,
            useful: end.min(n_filled),
            tokens,
            nfe: decode.nfe(),
            companion_nfe: decode.companion_nfe(),
            cache: decode.cache_meter().cloned(),
            steps: decode.steps(),
            asked,
        })
    }
}

/// A question whose canvas is full.
struct Filled {
    asked: InFlight,
    tokens: Vec<TokenId>,
    raw: String,
    n_filled: usize,
    useful: usize,
    nfe: usize,
    companion_nfe: usize,
    cache: Option<CacheMeter>,
    steps: usize,
}

impl Filled {
    fn answer(&self) -> Answer<'_> {
        Answer { doc: self.asked.doc, tokens: &self.tokens, raw: &self.raw }
    }

    fn record(&self, Judged { text, scored }: Judged) -> Record {
        Record {
            doc_id: self.asked.doc,
            prompt_sha256: data::sha256(self.asked.question.prompt.as_bytes()),
            filled: self.n_filled,
            useful: Some(self.useful),
            tokens: self.tokens.clone(),
            text,
            score: scored.first(),
            notes: results::notes(&scored),
            filters: results::filters(&scored),
            nfe: self.nfe,
            companion_nfe: self.companion_nfe,
            cache: self.cache.clone(),
            steps: (self.steps < self.nfe).then_some(self.steps),
            seconds: self.asked.seconds,
        }
    }
}

/// The branch of all randomness that is a question's own.
pub(crate) fn seed_of(seed: u64, doc: usize) -> u64 {
    seed ^ (doc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Some examples of a mini task.
pub struct MiniTask {
    /// Which.
    pub task: Mini,
    /// They are its questions.
    pub examples: Vec<Example>,
    /// Texts that end an answer, beside the end of text.
    pub stops: Vec<String>,
}

impl Task for MiniTask {
    fn docs(&self) -> usize {
        self.examples.len()
    }

    fn question(&self, doc: usize) -> Result<Question, Error> {
        Ok(Question { prompt: self.examples[doc].prompt.clone(), form: self.task.form() })
    }

    fn judge(&self, doc: usize, raw: &str, specials: &dyn Specials) -> Result<Judged, Error> {
        let raw = match self.task.form() {
            Form::Continue => wrapper::cut(wrapper::cut(raw, specials.eos().as_slice()), &texts(&self.stops)),
            Form::Infill => raw,
        };
        let text = specials.remove(raw).map_err(Error::Text)?;
        let verdict = self.task.check(&self.examples[doc].prompt, &text)?;
        Ok(Judged { scored: Scored::of_mini(&text, &verdict), text })
    }
}

/// A benchmark with its prompts and judges.
pub struct BenchmarkTask<'a> {
    /// Its data.
    pub loaded: &'a Loaded,
    /// Which of its prompts.
    pub prompts: Prompts<'a>,
    /// Whose post-processing is followed.
    pub wrapper: Wrapper,
    /// Who scores what texts alone cannot.
    pub judges: Judges<'a>,
    /// Texts that end an answer, beside the benchmark's own.
    pub stops: &'a [String],
}

pub(crate) fn texts(stops: &[String]) -> Vec<&str> {
    stops.iter().map(String::as_str).collect()
}

impl Task for BenchmarkTask<'_> {
    fn docs(&self) -> usize {
        self.loaded.docs()
    }

    fn question(&self, doc: usize) -> Result<Question, Error> {
        Ok(Question { prompt: self.prompts.prompt(doc)?, form: Form::Continue })
    }

    fn judge(&self, doc: usize, raw: &str, specials: &dyn Specials) -> Result<Judged, Error> {
        let until = [self.loaded.benchmark().until(), &texts(self.stops)].concat();
        let reply = self.wrapper.reply(raw, &until, specials)?;
        let scored = self.loaded.score(doc, &reply, &self.judges)?;
        Ok(Judged { text: reply.response, scored })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cofill::{Prediction, Query, RowStats};
    use cofill_tasks::mini::Split;

    /// Numbers are tokens, as in the tiny models, and so are all other bytes; 0 ends, 255 masks.
    pub(crate) struct Plain;

    pub(crate) const NUMBERS: TokenId = 1000;

    impl Codec for Plain {
        fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
            let mut tokens: Vec<TokenId> = Vec::new();
            let mut after_digit = false;
            for byte in text.bytes() {
                match (byte.is_ascii_digit(), after_digit, tokens.last_mut()) {
                    (true, true, Some(number)) => {
                        *number = NUMBERS + (*number - NUMBERS) * 10 + TokenId::from(byte - b'0');
                    }
                    (true, ..) => tokens.push(NUMBERS + TokenId::from(byte - b'0')),
                    (false, ..) => tokens.push(byte.into()),
                }
                after_digit = byte.is_ascii_digit();
            }
            Ok(tokens)
        }
        fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
            let piece = |&token: &TokenId| match token.checked_sub(NUMBERS) {
                Some(number) => number.to_string(),
                None => char::from(token as u8).to_string(),
            };
            Ok(tokens.iter().map(piece).collect())
        }
    }

    impl Specials for Plain {
        fn eos(&self) -> Option<&str> {
            Some("\0")
        }
        fn remove(&self, text: &str) -> Result<String, String> {
            Ok(text.replace('\0', ""))
        }
    }

    fn settings(task: Mini, sampler: &str) -> Settings {
        let (sampler, length) = (sampler.parse().unwrap(), task.length());
        Settings { sampler, length, options: RunOptions::default(), bos: None, end: None }
    }

    /// Knows the answers by heart: every text it may be asked to complete.
    struct Parrot(Vec<Vec<TokenId>>);

    impl Denoiser for Parrot {
        fn mask_id(&self) -> TokenId {
            255
        }
        fn vocab(&self) -> usize {
            2000
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
            let fits = |text: &Vec<TokenId>, tokens: &[TokenId]| {
                text.len() == tokens.len() && text.iter().zip(tokens).all(|(a, b)| *b == 255 || a == b)
            };
            let answer = |query: &Query<'_>| {
                let text = self.0.iter().find(|text| fits(text, query.tokens)).unwrap();
                let row = |&at: &usize| RowStats::new(text[at], 0.5).entropy(0.7);
                Prediction::new(query.rows.iter().map(row).collect())
            };
            Ok(batch.iter().map(answer).collect())
        }
    }

    #[test]
    fn references_are_right_alone_and_together() {
        // Words are single tokens only for the tiny models; the tasks without any fit their length here too.
        for task in [Mini::Predicates, Mini::Sums] {
            let examples: Vec<Example> = task.distinct(Split::Test, 7).take(6).collect();
            let text = |example: &Example| match task.form() {
                Form::Infill => Plain.encode(&example.answer).unwrap(),
                Form::Continue => {
                    let mut text = Plain.encode(&example.prompt).unwrap();
                    let end = text.len() + task.length();
                    text.extend(Plain.encode(&example.answer).unwrap());
                    text.resize(end, 0);
                    text
                }
            };
            let texts = examples.iter().map(text).collect();
            let (task, settings) = (MiniTask { task, examples, stops: Vec::new() }, settings(task, "topk:4"));
            let (mut parrot, run) = (
                Parrot(texts),
                Run { task: &task, settings: &settings, codec: &Plain, ends: Ends::default(), language: None },
            );
            let timeless =
                |records: Vec<Record>| records.into_iter().map(|r| Record { seconds: 0.0, ..r }).collect::<Vec<_>>();
            let together = timeless(run.batch(&mut parrot, 0..6).unwrap());
            for (i, (example, record)) in task.examples.iter().zip(&together).enumerate() {
                assert_eq!((record.doc_id, &record.text, record.score), (i, &example.answer, 1.0));
                assert_eq!(record.prompt_sha256, data::sha256(example.prompt.as_bytes()));
                let gaps = example.prompt.matches(mini::predicates::GAP).count().max(task.task.length());
                assert_eq!((record.filled, record.tokens.len(), record.nfe), (gaps, gaps, gaps.div_ceil(4)));
                assert_eq!(timeless(run.batch(&mut parrot, i..i + 1).unwrap())[0], *record);
            }
        }
    }

    #[test]
    fn an_answer_ends_at_end_of_text_and_is_judged() {
        // The first nine characters of a grid, and the end.
        let task = Mini::Sudoku;
        let example = task.distinct(Split::Test, 1).next().unwrap();
        let mut text = Plain.encode(&example.prompt).unwrap();
        let prompt = text.len();
        text.extend(Plain.encode(&example.answer[..9]).unwrap());
        text.resize(prompt + task.length(), 0);
        let settings = settings(task, "topk:20");
        let asked = MiniTask { task, examples: vec![example.clone()], stops: Vec::new() };
        let run = Run { task: &asked, settings: &settings, codec: &Plain, ends: Ends::default(), language: None };
        let record = run.batch(&mut Parrot(vec![text]), 0..1).unwrap().remove(0);
        assert_eq!((record.text.as_str(), record.nfe, record.filled), (&example.answer[..9], 1, 20));
        assert_eq!(record.useful, Some(Plain.encode(&example.answer[..9]).unwrap().len()));
        assert_eq!((record.score, record.notes.contains_key("why")), (0.0, true));
    }
}
