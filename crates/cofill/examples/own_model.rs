//! Plug in a model of your own: anything that turns a canvas with masks into logits is a denoiser.
//!
//! `Bigrams` has counted which letter follows which in a few words. For a masked position it multiplies what the letter to the left
//! and the letter to the right say about it; an open neighbour says nothing.
//!
//! Run with: cargo run -p cofill --example own_model
#![allow(clippy::print_stdout)]

use cofill::{Canvas, Decode, Denoiser, Prediction, Query, Result, SamplerSpec, TokenId, generate};

const WORDS: &str = " the thing then there these this that them they thin both other either neither weather ";
const LETTERS: usize = 27; // a space, and a to z
const MASK: TokenId = LETTERS as TokenId;

struct Bigrams {
    follows: [[f32; LETTERS]; LETTERS], // [left x right] counts, and a little for what was never seen
}

impl Bigrams {
    fn new(text: &str) -> Bigrams {
        let mut follows = [[0.01; LETTERS]; LETTERS];
        let ids: Vec<TokenId> = text.chars().map(id).collect();
        for pair in ids.windows(2) {
            follows[pair[0] as usize][pair[1] as usize] += 1.0;
        }
        Bigrams { follows }
    }

    /// One row of logits. `[vocab]`
    fn logits(&self, tokens: &[TokenId], position: usize) -> Vec<f32> {
        let known = |position: usize| tokens.get(position).filter(|&&token| token != MASK).map(|&token| token as usize);
        let (left, right) = (known(position.wrapping_sub(1)), known(position + 1));
        let logit = |letter: usize| {
            left.map_or(0.0, |left| self.follows[left][letter].ln())
                + right.map_or(0.0, |right| self.follows[letter][right].ln())
        };
        (0..LETTERS).map(logit).chain([f32::NEG_INFINITY]).collect() // the mask is never proposed
    }
}

impl Denoiser for Bigrams {
    fn mask_id(&self) -> TokenId {
        MASK
    }

    fn vocab(&self) -> usize {
        LETTERS + 1
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let answer = |query: &Query<'_>| {
            // `propose` turns logits into a token with its confidence, margin and entropy, as the request says.
            let row = |&position: &usize| {
                let logits = self.logits(query.tokens, position);
                query.proposal.propose(&logits, MASK, query.step, position)
            };
            Ok(Prediction::new(query.rows.iter().map(row).collect::<Result<_>>()?))
        };
        batch.iter().map(answer).collect()
    }
}

fn id(letter: char) -> TokenId {
    "_abcdefghijklmnopqrstuvwxyz".find(letter).unwrap_or(0) as TokenId
}

/// Fills the dots of a text, one at a time.
fn fill(text: &str) -> Result<String> {
    let tokens = text.chars().map(|c| if c == '.' { MASK } else { id(c) }).collect();
    let mut decode = Decode::new(Canvas::new(tokens, MASK), "topk:1".parse::<SamplerSpec>()?.build()?)?;
    generate(&mut Bigrams::new(WORDS), &mut decode)?;
    let letter = |&token: &TokenId| if token == 0 { ' ' } else { char::from(b'a' + token as u8 - 1) };
    Ok(decode.canvas().tokens().iter().map(letter).collect())
}

fn main() -> Result<()> {
    for text in [" t.e ", " th.n ", " wea.... "] {
        println!("{text:12} {}", fill(text)?);
    }
    Ok(())
}

#[test]
fn letters_come_from_their_neighbours() {
    assert_eq!(fill(" t.e ").unwrap(), " the ");
}
