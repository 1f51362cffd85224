//! A mini task put to a model: prompts in, verdicts out.
//!
//! A batch shares forwards and nothing else: what an example becomes does not depend on who is decoded beside it.

use crate::tasks::mini::{Example, Form, Mini};
use cofill::{Canvas, Decode, Denoiser, Pool, SamplerSpec, TokenId};

/// A model's text: what turns prompts into tokens and tokens into answers.
pub trait Codec {
    /// The tokens of a text.
    fn encode(&self, text: &str) -> Result<Vec<TokenId>, String>;
    /// The text of tokens, without the special ones.
    fn decode(&self, tokens: &[TokenId]) -> Result<String, String>;
    /// Where an answer ends.
    fn end(&self) -> Option<TokenId>;
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
    /// The task does not know its own prompt.
    #[error(transparent)]
    Task(#[from] crate::tasks::mini::Error),
}

/// A task, a sampler and a tokenizer.
pub struct Run<'a> {
    /// What is asked.
    pub task: Mini,
    /// Who decides what is committed together.
    pub sampler: &'a SamplerSpec,
    /// The model's text.
    pub codec: &'a dyn Codec,
}

/// What became of an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the model wrote: after the prompt, or the whole text for an infill task.
    pub answer: String,
    /// Why it is wrong, if it is.
    pub wrong: Option<String>,
    /// Forwards.
    pub nfe: usize,
    /// Positions that were filled.
    pub filled: usize,
}

impl Run<'_> {
    /// Decodes some examples together. Outcomes are in their order.
    pub fn batch(&self, denoiser: &mut dyn Denoiser, examples: &[Example]) -> Result<Vec<Outcome>, Error> {
        let mut pool = Pool::new();
        let mut tickets = Vec::with_capacity(examples.len());
        for example in examples {
            let canvas = self.canvas(example, denoiser.mask_id())?;
            tickets.push((pool.add(Decode::new(canvas.clone(), self.sampler.build()?)?), canvas));
        }
        let mut outcomes: Vec<Option<Outcome>> = vec![None; examples.len()];
        while !pool.is_empty() {
            for event in pool.round(denoiser)? {
                event.step?;
            }
            for (ticket, _, decode) in pool.finished() {
                let i = tickets.iter().position(|(other, _)| *other == ticket).unwrap_or_default();
                outcomes[i] = Some(self.judge(&examples[i], &tickets[i].1, &decode)?);
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// The prompt and masks after it, or a mask at every gap.
    fn canvas(&self, example: &Example, mask_id: TokenId) -> Result<Canvas, Error> {
        let encode = |text: &str| self.codec.encode(text).map_err(Error::Text);
        Ok(match self.task.form() {
            Form::Continue => Canvas::prompt(&encode(&example.prompt)?, self.task.length(), mask_id),
            Form::Infill => {
                let mut tokens = Vec::new();
                for (i, part) in example.prompt.split(GAP).enumerate() {
                    tokens.extend((i > 0).then_some(mask_id));
                    tokens.extend(encode(part)?);
                }
                Canvas::new(tokens, mask_id)
            }
        })
    }

    fn judge(&self, example: &Example, start: &Canvas, decode: &Decode) -> Result<Outcome, Error> {
        let tokens = decode.canvas().tokens();
        let tokens = match self.task.form() {
            Form::Infill => tokens,
            Form::Continue => {
                let answer = &tokens[tokens.len() - self.task.length()..];
                let end = answer.iter().position(|token| Some(*token) == self.codec.end());
                &answer[..end.unwrap_or(answer.len())]
            }
        };
        let answer = self.codec.decode(tokens).map_err(Error::Text)?;
        let wrong = self.task.check(&example.prompt, &answer)?.err().map(|wrong| wrong.0);
        Ok(Outcome { answer, wrong, nfe: decode.nfe(), filled: start.n_masked() - decode.canvas().n_masked() })
    }
}

/// How infill tasks write a gap.
const GAP: &str = "[MASK:1]";

/// Sums over outcomes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Score {
    /// Examples.
    pub n: usize,
    /// Right ones.
    pub right: usize,
    /// Forwards.
    pub nfe: usize,
    /// Positions that were filled.
    pub filled: usize,
}

impl Score {
    /// Counts an outcome.
    pub fn add(&mut self, outcome: &Outcome) {
        self.n += 1;
        self.right += usize::from(outcome.wrong.is_none());
        self.nfe += outcome.nfe;
        self.filled += outcome.filled;
    }

    /// The share of right answers.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.n.max(1) as f64
    }

    /// Its standard error: √(p (1 − p) / n).
    pub fn standard_error(&self) -> f64 {
        let p = self.accuracy();
        (p * (1.0 - p) / self.n.max(1) as f64).sqrt()
    }

    /// Forwards of an example, on average.
    pub fn mean_nfe(&self) -> f64 {
        self.nfe as f64 / self.n.max(1) as f64
    }

    /// Positions filled by a forward, on average.
    pub fn per_forward(&self) -> f64 {
        self.filled as f64 / self.nfe.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::mini::Split;
    use cofill::{Prediction, Query, RowStats};

    /// Numbers are tokens, as in the tiny models, and so are all other bytes; 0 ends, 255 masks.
    struct Plain;

    const NUMBERS: TokenId = 1000;

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
        fn end(&self) -> Option<TokenId> {
            Some(0)
        }
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
                let row = |&at: &usize| RowStats {
                    token: text[at],
                    confidence: 0.5,
                    uncertainty: 0.5,
                    margin: 0.0,
                    entropy: 0.7,
                };
                Prediction { rows: query.rows.iter().map(row).collect(), ..Prediction::default() }
            };
            Ok(batch.iter().map(answer).collect())
        }
    }

    #[test]
    fn references_are_right_alone_and_together() {
        let sampler: SamplerSpec = "topk:4".parse().unwrap();
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
            let (mut parrot, run) = (Parrot(texts), Run { task, sampler: &sampler, codec: &Plain });
            let together = run.batch(&mut parrot, &examples).unwrap();
            let mut score = Score::default();
            for (example, outcome) in examples.iter().zip(&together) {
                assert_eq!((&outcome.answer, &outcome.wrong), (&example.answer, &None));
                let gaps = example.prompt.matches(GAP).count().max(task.length());
                assert_eq!((outcome.filled, outcome.nfe), (gaps, gaps.div_ceil(4)));
                assert_eq!(run.batch(&mut parrot, std::slice::from_ref(example)).unwrap()[0], *outcome);
                score.add(outcome);
            }
            assert_eq!((score.n, score.accuracy(), score.standard_error()), (6, 1.0, 0.0));
        }
    }

    #[test]
    fn an_answer_ends_at_end_of_text_and_is_judged() {
        // The first nine characters of a grid, and the end.
        let (task, sampler) = (Mini::Sudoku, "topk:20".parse().unwrap());
        let example = task.distinct(Split::Test, 1).next().unwrap();
        let mut text = Plain.encode(&example.prompt).unwrap();
        let prompt = text.len();
        text.extend(Plain.encode(&example.answer[..9]).unwrap());
        text.resize(prompt + task.length(), 0);
        let run = Run { task, sampler: &sampler, codec: &Plain };
        let outcome = run.batch(&mut Parrot(vec![text]), std::slice::from_ref(&example)).unwrap().remove(0);
        assert_eq!((outcome.answer.as_str(), outcome.nfe, outcome.filled), (&example.answer[..9], 1, 20));
        assert!(outcome.wrong.is_some());
    }

    #[test]
    fn a_score_of_known_numbers() {
        // 3 of 4 right: p = 3/4, √(3/16 / 4) = 0.2165.
        let score = Score { n: 4, right: 3, nfe: 10, filled: 40 };
        assert!((score.standard_error() - 0.216_506).abs() < 1e-6);
        assert_eq!((score.accuracy(), score.mean_nfe(), score.per_forward()), (0.75, 2.5, 4.0));
    }
}
