//! A conversation: what was said, and how much of it a model still holds.
//!
//! A canvas has an end, and a conversation has none. When both do not fit, the oldest turns are left out, whole, and whoever asks is told how many;
//! the system message and the question are never touched.

use crate::generate::Prepared;
use crate::input::{Input, MASK_GAP};
use crate::length::Length;
use crate::options::RunOptions;
use crate::{Engine, Error, Result};
use cofill::SamplerSpec;
use cofill_model::Message;

/// The least room for an answer of length `auto`, in positions, while there are old turns that could make some; at most a quarter of the context.
const LEAST_ROOM: usize = 128;

/// A question and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the user said.
    pub question: String,
    /// What the model said.
    pub answer: String,
}

/// What was said so far.
///
/// ```
/// use cofill_engine::{Conversation, Engine, RunOptions};
///
/// let mut engine = Engine::open("toy", &RunOptions::default())?;
/// let mut conversation = Conversation::default();
/// let options = serde_json::from_str(r#"{"length": 3}"#)?;
/// let asked = conversation.ask(&mut engine, "Grace Kelly likes", &"topk:1".parse()?, &options)?;
/// let generation = engine.generate(asked.prepared)?;
/// conversation.push("Grace Kelly likes", generation.reply());
/// assert_eq!(conversation.turns()[0].answer, "San Diego again");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// What the model is told before everything else.
    pub system: Option<String>,
    turns: Vec<Turn>,
}

/// A question that is ready to be answered.
#[derive(Debug)]
pub struct AskedTurn {
    /// The canvas: the conversation as the model is to see it, and masks for the answer.
    pub prepared: Prepared,
    /// How many of the oldest turns are not on it.
    pub left_out: usize,
}

impl Conversation {
    /// What was said, the oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Keeps a turn.
    pub fn push(&mut self, question: impl Into<String>, answer: impl Into<String>) {
        self.turns.push(Turn { question: question.into(), answer: answer.into() });
    }

    /// Takes the last turn back.
    pub fn undo(&mut self) -> Option<Turn> {
        self.turns.pop()
    }

    /// Forgets every turn; the system message stays.
    pub fn reset(&mut self) {
        self.turns.clear();
    }

    /// The conversation and a question as messages, without the oldest turns.
    pub fn messages(&self, question: &str, left_out: usize) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text.as_str()));
        let said = self.turns.iter().skip(left_out).flat_map(|turn| {
            [Message::new("user", turn.question.as_str()), Message::new("assistant", turn.answer.as_str())]
        });
        system.chain(said).chain([Message::new("user", question)]).collect()
    }

    /// Puts a question to a model, with as much of the conversation as fits.
    ///
    /// A model without a chat template sees the question alone; gaps in it (`[MASK:4]`) are filled where they are.
    pub fn ask(
        &self,
        engine: &mut Engine,
        question: &str,
        sampler: &SamplerSpec,
        options: &RunOptions,
    ) -> Result<AskedTurn> {
        if !engine.has_chat_template() {
            let input = if question.contains(MASK_GAP) { Input::Template } else { Input::Prompt };
            let prepared = engine.prepare_auto(&input(question.into()), sampler, options)?;
            return Ok(AskedTurn { prepared, left_out: 0 });
        }
        let prepare = |left_out: usize| {
            let input = Input::Messages(self.messages(question, left_out));
            engine.prepare(&input, sampler, options)
        };
        let fits = |prepared: &Prepared| {
            let wanted = match options.length {
                Some(Length::Auto) => LEAST_ROOM.min(engine.context() / 4),
                _ => 0,
            };
            engine.context() - prepared.start.tail() >= wanted
        };
        // Fewer turns never take more room, so the fewest that must go are found by halving.
        let (mut low, mut high) = (0, self.turns.len());
        let mut left_out = 0;
        loop {
            match prepare(left_out) {
                Ok(prepared) if low == high || (left_out == 0 && fits(&prepared)) => {
                    return Ok(AskedTurn { prepared, left_out });
                }
                Ok(prepared) if fits(&prepared) => high = left_out,
                Ok(_) => low = left_out + 1,
                Err(Error::TooLong { .. }) if low < high => low = left_out + 1,
                Err(error) => return Err(error),
            }
            left_out = low + (high - low) / 2;
        }
    }
}
