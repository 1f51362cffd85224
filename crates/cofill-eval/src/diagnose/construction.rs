//! Appendix F's construction: arithmetic predicates whose dependency structure is known.
//!
//! Kinds are drawn from the set E, operands are small positive integers, D follows, and only integers are masked. Two
//! masks of one predicate depend on each other, masks of different predicates do not.
//!
//! A mask is one token, so every integer must be one token for the model at hand. That is checked, not assumed:
//! predicates with other integers are drawn again, and a text that the tokenizer cuts differently as a whole than
//! around its integers is, too.

use crate::run::Codec;
use cofill::TokenId;
use cofill_tasks::mini::draw::Draw;
use cofill_tasks::mini::predicates::{GAP, HEAD, KINDS, Kind, N_PREDICATES};
use cofill_tasks::mini::{Mini, Split};

/// The kind of text that is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Three sums or products with two masks, in one predicate or in two: the paper's first diagnostic.
    Pair(Pair),
    /// All of E, n predicates, a share of the integers masked: the second.
    Share {
        /// n: predicates in a text.
        predicates: usize,
        /// r: the share of integers that is masked, between 0 and 1.
        ratio: f64,
    },
}

/// Where two masks stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// Both in one predicate.
    Dependent,
    /// One each in two predicates.
    Independent,
}

/// A text with masks.
#[derive(Debug, Clone, PartialEq)]
pub struct Construction {
    /// The text with a gap for every mask.
    pub prompt: String,
    /// What stood in the gaps, in order.
    pub hidden: Vec<String>,
    /// The canvas; masks are `mask_id`.
    pub tokens: Vec<TokenId>,
    /// Where the masks are, ascending.
    pub masks: Vec<usize>,
    /// The predicate of each mask.
    pub predicate: Vec<usize>,
}

/// What makes a text unusable, for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tokenizer itself failed.
    #[error("{0}")]
    Text(String),
    /// In all draws some integer was more than one token.
    #[error(
        "none of {tries} predicates has only single-token integers for this tokenizer (the last was `{last}`); the \
         diagnostic masks one token per integer, so it cannot be run with this model"
    )]
    NoSingleTokens {
        /// How often it was tried.
        tries: usize,
        /// A predicate that was turned down.
        last: String,
    },
    /// Fewer than two masks make no pair.
    #[error(
        "a share of {ratio} of the integers of {predicates} predicates masks {masks}; at least 2 are needed, raise the share or \
         the number of predicates"
    )]
    TooFew {
        /// r: the share of integers that is masked.
        ratio: String,
        /// n: predicates in a text.
        predicates: usize,
        /// r · 4n, rounded.
        masks: usize,
    },
}

/// After so many draws a tokenizer is not unlucky but unfit.
const PATIENCE: usize = 2000;

/// Key of this generator's draws, apart from every mini task's.
const STREAM: u64 = 0xF;

type Predicate = (Kind, [i64; 4]);

impl Construction {
    /// The construction of this (form, seed, index), for a tokenizer.
    pub fn draw(form: Form, seed: u64, index: u64, mask_id: TokenId, codec: &dyn Codec) -> Result<Construction, Error> {
        let mut draw = Draw::new(seed, STREAM, index);
        let (kinds, n) = match form {
            Form::Pair(_) => (&KINDS[..2], 3),
            Form::Share { predicates, .. } => (&KINDS[..], predicates),
        };
        let mut last = String::new();
        for _ in 0..PATIENCE {
            let predicates = (0..n).map(|_| predicate(&mut draw, kinds, codec)).collect::<Result<Vec<_>, Error>>()?;
            let gaps = gaps(&mut draw, form, n)?;
            let drawn = Construction::build(&predicates, &gaps, mask_id, codec)?;
            last = drawn.prompt.lines().last().unwrap_or_default().to_owned();
            // The tiny models were trained on texts of five predicates, all but the test split's orders of kinds.
            let unseen = n != N_PREDICATES || Mini::Predicates.split_of(&drawn.prompt) == Split::Test;
            if unseen && drawn.is_whole(codec)? {
                return Ok(drawn);
            }
        }
        Err(Error::NoSingleTokens { tries: PATIENCE, last })
    }

    fn build(
        predicates: &[Predicate],
        gaps: &[usize],
        mask_id: TokenId,
        codec: &dyn Codec,
    ) -> Result<Construction, Error> {
        let mut prompt = HEAD.to_owned();
        let (mut hidden, mut predicate) = (Vec::new(), Vec::new());
        for (i, (kind, values)) in predicates.iter().enumerate() {
            let whole = values.map(|value| value.to_string());
            let is_gap = |j: usize| gaps.contains(&(4 * i + j));
            let shown = [0, 1, 2, 3].map(|j| if is_gap(j) { GAP } else { whole[j].as_str() });
            prompt += &(kind.text(shown) + "\n");
            for (_, value) in whole.iter().enumerate().filter(|(j, _)| is_gap(*j)) {
                hidden.push(value.clone());
                predicate.push(i);
            }
        }
        let (mut tokens, mut masks) = (Vec::new(), Vec::new());
        for (i, part) in prompt.split(GAP).enumerate() {
            if i > 0 {
                masks.push(tokens.len());
                tokens.push(mask_id);
            }
            tokens.extend(codec.encode(part).map_err(Error::Text)?);
        }
        Ok(Construction { prompt, hidden, tokens, masks, predicate })
    }

    /// Whether the canvas, with its integers in place, is what the tokenizer makes of the whole text.
    fn is_whole(&self, codec: &dyn Codec) -> Result<bool, Error> {
        let text = self.fill(&self.hidden);
        let mut tokens = self.tokens.clone();
        for (&at, value) in self.masks.iter().zip(&self.hidden) {
            let Some(token) = single(value, codec)? else { return Ok(false) };
            tokens[at] = token;
        }
        Ok(codec.encode(&text).map_err(Error::Text)? == tokens)
    }

    /// The text with these in its gaps.
    pub fn fill(&self, values: &[String]) -> String {
        values.iter().fold(self.prompt.clone(), |text, value| text.replacen(GAP, value, 1))
    }

    /// Whether the `i`-th and the `j`-th mask depend on each other.
    pub fn depend(&self, i: usize, j: usize) -> bool {
        self.predicate[i] == self.predicate[j]
    }
}

/// A predicate whose integers are single tokens.
fn predicate(draw: &mut Draw, kinds: &[Kind], codec: &dyn Codec) -> Result<Predicate, Error> {
    let mut last = String::new();
    for _ in 0..PATIENCE {
        let kind = draw.pick(kinds);
        let [a, b, c] = [0; 3].map(|_| draw.number(1, kind.most()));
        let values = [a, b, c, kind.value([a, b, c])];
        let texts = values.map(|value| value.to_string());
        let mut fit = true;
        for text in &texts {
            fit &= single(text, codec)?.is_some();
        }
        if fit {
            return Ok((kind, values));
        }
        last = kind.text([&texts[0], &texts[1], &texts[2], &texts[3]]);
    }
    Err(Error::NoSingleTokens { tries: PATIENCE, last })
}

/// The token that is this integer and nothing else.
fn single(integer: &str, codec: &dyn Codec) -> Result<Option<TokenId>, Error> {
    match codec.encode(integer).map_err(Error::Text)?[..] {
        [token] if codec.decode(&[token]).map_err(Error::Text)? == integer => Ok(Some(token)),
        _ => Ok(None),
    }
}

/// Which of the 4n integers are masked, ascending.
fn gaps(draw: &mut Draw, form: Form, n: usize) -> Result<Vec<usize>, Error> {
    let mut gaps = match form {
        Form::Pair(pair) => {
            let slot = |draw: &mut Draw| draw.number(0, 3) as usize;
            let first = draw.number(0, n as i64 - 1) as usize;
            let other = (first + draw.number(1, n as i64 - 1) as usize) % n;
            let a = slot(draw);
            match pair {
                Pair::Dependent => vec![4 * first + a, 4 * first + (a + draw.number(1, 3) as usize) % 4],
                Pair::Independent => vec![4 * first + a, 4 * other + slot(draw)],
            }
        }
        Form::Share { predicates, ratio } => {
            let masks = (ratio * 4.0 * n as f64).round() as usize;
            if masks < 2 {
                return Err(Error::TooFew { ratio: ratio.to_string(), predicates, masks });
            }
            let mut slots: Vec<usize> = (0..4 * n).collect();
            draw.shuffle(&mut slots);
            slots.truncate(masks);
            slots
        }
    };
    gaps.sort_unstable();
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::Plain;
    use cofill_tasks::wrapper::Specials;

    const MASK: TokenId = 255;

    fn draw(form: Form, index: u64) -> Construction {
        Construction::draw(form, 0, index, MASK, &Plain).unwrap()
    }

    #[test]
    fn two_masks_share_a_predicate_or_do_not() {
        for index in 0..200 {
            for (pair, depend) in [(Pair::Dependent, true), (Pair::Independent, false)] {
                let drawn = draw(Form::Pair(pair), index);
                assert_eq!((drawn.masks.len(), drawn.depend(0, 1)), (2, depend), "{}", drawn.prompt);
                assert_eq!(drawn.prompt.lines().count(), 4, "a head and three predicates");
                assert!(!drawn.prompt.contains("min") && !drawn.prompt.contains("max"));
                assert_eq!(Mini::Predicates.check(&drawn.prompt, &drawn.fill(&drawn.hidden)), Ok(Ok(())));
            }
        }
    }

    #[test]
    fn the_ratio_is_a_share_of_the_integers_and_only_they_are_masked() {
        let mut kinds = std::collections::BTreeSet::new();
        for index in 0..50 {
            let drawn = draw(Form::Share { predicates: 7, ratio: 0.5 }, index);
            assert_eq!((drawn.masks.len(), drawn.hidden.len(), drawn.predicate.len()), (14, 14, 14));
            let canvas: Vec<TokenId> = drawn.tokens.iter().copied().filter(|&token| token != MASK).collect();
            assert_eq!(Plain.decode(&canvas).unwrap(), drawn.prompt.replace(GAP, ""));
            assert_eq!(Mini::Predicates.check(&drawn.prompt, &drawn.fill(&drawn.hidden)), Ok(Ok(())));
            kinds.extend(drawn.prompt.lines().skip(1).map(|line| line.chars().find(|c| "+*ia".contains(*c))));
        }
        assert_eq!(kinds.len(), 4, "sum, product, min, max");
        assert_eq!(
            draw(Form::Share { predicates: 5, ratio: 0.4 }, 3),
            draw(Form::Share { predicates: 5, ratio: 0.4 }, 3)
        );
        let five = draw(Form::Share { predicates: 5, ratio: 0.5 }, 0);
        assert_eq!(Mini::Predicates.split_of(&five.prompt), Split::Test);
    }

    #[test]
    fn too_few_masks_are_refused() {
        let drawn = Construction::draw(Form::Share { predicates: 1, ratio: 0.25 }, 0, 0, MASK, &Plain);
        assert!(
            drawn
                .unwrap_err()
                .to_string()
                .contains("a share of 0.25 of the integers of 1 predicates masks 1; at least 2")
        );
    }

    /// Digits are tokens of their own, as in many vocabularies.
    struct Digits;

    impl Codec for Digits {
        fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
            Ok(text.bytes().map(TokenId::from).collect())
        }
        fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
            Ok(tokens.iter().map(|&token| char::from(token as u8)).collect())
        }
    }

    impl Specials for Digits {
        fn eos(&self) -> Option<&str> {
            None
        }
        fn remove(&self, text: &str) -> Result<String, String> {
            Ok(text.to_owned())
        }
    }

    #[test]
    fn where_digits_are_tokens_integers_stay_below_ten() {
        for index in 0..50 {
            let drawn = Construction::draw(Form::Share { predicates: 4, ratio: 0.5 }, 0, index, 1, &Digits).unwrap();
            assert!(drawn.hidden.iter().all(|value| value.len() == 1), "{}", drawn.prompt);
        }
        assert!(draw(Form::Share { predicates: 6, ratio: 1.0 }, 0).hidden.iter().any(|value| value.len() == 2));
    }

    /// Nothing is a single token.
    struct Doubled;

    impl Codec for Doubled {
        fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
            Ok(text.bytes().flat_map(|byte| [TokenId::from(byte); 2]).collect())
        }
        fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
            Ok(tokens.iter().map(|&token| char::from(token as u8)).collect())
        }
    }

    impl Specials for Doubled {
        fn eos(&self) -> Option<&str> {
            None
        }
        fn remove(&self, text: &str) -> Result<String, String> {
            Ok(text.to_owned())
        }
    }

    #[test]
    fn a_tokenizer_without_single_token_integers_is_refused() {
        let drawn = Construction::draw(Form::Pair(Pair::Dependent), 0, 0, 1, &Doubled);
        assert!(drawn.unwrap_err().to_string().contains("single-token integers"));
    }
}
