//! Texts held to a language: a schema, an expression or choices, in the tokens of a model.

use crate::options::RunOptions;
use crate::{Engine, Error, Input, Result, Schema};
use cofill::{Canvas, Constraint, TokenId};
use cofill_grammar::{Grammar, Language, TokenAutomaton, Vocabulary};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many languages an engine remembers; the automaton of a schema may have megabytes.
const MOST_REMEMBERED: usize = 64;

/// What a text must be, as options say it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Wanted {
    Schema(Schema),
    Regex(String),
    Choices(Vec<String>),
}

impl Wanted {
    fn of(options: &RunOptions) -> Option<Wanted> {
        let RunOptions { schema, regex, choice, .. } = options;
        match (schema, regex) {
            (Some(schema), _) => Some(Wanted::Schema(schema.clone())),
            (_, Some(regex)) => Some(Wanted::Regex(regex.clone())),
            _ => (!choice.is_empty()).then(|| Wanted::Choices(choice.clone())),
        }
    }

    fn language(&self) -> Result<Language, cofill_grammar::Error> {
        match self {
            Wanted::Schema(schema) if schema.is_any_object() => Language::any_json(),
            Wanted::Schema(schema) => Language::schema_text(schema.text()),
            Wanted::Regex(regex) => Language::regex(regex),
            Wanted::Choices(choices) => Language::choices(choices),
        }
    }
}

/// A language in the tokens of a model.
#[derive(Debug, Clone)]
pub struct TextLanguage {
    automaton: Arc<TokenAutomaton>,
    is_schema: bool,
    has_ends: bool,
}

/// The languages that an engine has compiled, and what its tokens write.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    vocabulary: Option<Arc<Vocabulary>>,
    automata: HashMap<Wanted, Arc<TokenAutomaton>>,
}

impl Remembered {
    /// Whoever panicked while holding it left whole entries only.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The language that options hold texts to, in this model's tokens; `None` where any text will do. Compiled once, then remembered.
    pub fn language(&self, options: &RunOptions) -> Result<Option<TextLanguage>> {
        let Some(wanted) = Wanted::of(options) else { return Ok(None) };
        let is_schema = matches!(wanted, Wanted::Schema(_));
        let vocabulary = self.vocabulary()?;
        let has_ends = !vocabulary.ends.is_empty();
        let known = self.remembered().lock().automata.get(&wanted).cloned();
        let automaton = match known {
            Some(automaton) => automaton,
            None => {
                let mut language = wanted.language()?;
                if self.writes_words() {
                    language = language.prefixed(b" ")?;
                }
                let automaton = Arc::new(TokenAutomaton::new(&language, &vocabulary)?);
                let automata = &mut self.remembered().lock().automata;
                if automata.len() >= MOST_REMEMBERED {
                    automata.clear();
                }
                automata.insert(wanted, automaton.clone());
                automaton
            }
        };
        Ok(Some(TextLanguage { automaton, is_schema, has_ends }))
    }

    /// What every token of the model writes, and which of them may follow a complete text.
    fn vocabulary(&self) -> Result<Arc<Vocabulary>> {
        if let Some(known) = &self.remembered().lock().vocabulary {
            return Ok(known.clone());
        }
        let mut bytes = self.token_bytes()?;
        // The mask stands for any token and is none.
        bytes.get_mut(self.mask_id() as usize).into_iter().for_each(|mask| *mask = None);
        let ends = self.ends();
        let ends: Vec<TokenId> = ends.of_text.into_iter().chain(ends.of_turn).collect();
        let vocabulary = Arc::new(Vocabulary { bytes, ends });
        self.remembered().lock().vocabulary = Some(vocabulary.clone());
        Ok(vocabulary)
    }

    /// Holds the text of a canvas to a language: each run of masks by itself, except that a schema is about the whole text of a template,
    /// whose literals are part of it.
    pub(crate) fn hold(
        &self,
        language: &TextLanguage,
        input: &Input,
        canvas: &Canvas,
        options: &RunOptions,
    ) -> Result<Box<dyn Constraint>> {
        let (bos, end) = self.around(options.bos)?;
        match input {
            Input::Template(_) => {
                let text = usize::from(bos.is_some())..canvas.tokens().len() - usize::from(end.is_some());
                language.in_template(canvas, text)
            }
            _ => language.in_gaps(canvas),
        }
    }
}

impl TextLanguage {
    /// How many tokens the shortest text has.
    pub fn shortest(&self) -> usize {
        self.automaton.shortest()
    }

    /// How many states its automaton has.
    pub fn states(&self) -> usize {
        self.automaton.states()
    }

    /// How many classes of tokens it tells apart.
    pub fn classes(&self) -> usize {
        self.automaton.classes().len()
    }

    /// Whether texts may be followed by ends, so that they need not fill their window.
    pub(crate) fn has_ends(&self) -> bool {
        self.has_ends
    }

    /// A text of the language in every run of masks.
    pub fn in_gaps(&self, canvas: &Canvas) -> Result<Box<dyn Constraint>> {
        self.in_spans(canvas, runs(canvas))
    }

    /// For a template whose text is at `text`: of an expression or of choices, one in every gap; of a schema, one in the whole.
    pub fn in_template(&self, canvas: &Canvas, text: Range<usize>) -> Result<Box<dyn Constraint>> {
        if self.is_schema { self.in_spans(canvas, vec![text]) } else { self.in_gaps(canvas) }
    }

    fn in_spans(&self, canvas: &Canvas, spans: Vec<Range<usize>>) -> Result<Box<dyn Constraint>> {
        let grammar = Grammar::new(self.automaton.clone(), spans, canvas.tokens(), canvas.mask_id());
        Ok(Box::new(grammar.map_err(Error::from)?))
    }
}

/// Masks that stand side by side.
pub(crate) fn runs(canvas: &Canvas) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for position in canvas.masked() {
        match runs.last_mut() {
            Some(run) if run.end == position => run.end += 1,
            _ => runs.push(position..position + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_side_by_side_are_one_run() {
        let canvas = Canvas::new(vec![9, 9, 1, 9, 2, 2, 9, 9, 9], 9);
        assert_eq!(runs(&canvas), [0..2, 3..4, 6..9]);
        assert!(runs(&Canvas::new(vec![1], 9)).is_empty());
    }
}
