//! How long a gap should be, when nobody says: calibrated adaptive length (CAL, arXiv 2602.00476).
//!
//! A forward over a gap of L masks says how sure the model is of them, Φ(L): the mean confidence of the gap's masks before anything is
//! committed. That falls with L whatever the text is, by about B(L) = e^(-1.77 L) + 0.56 e^(-0.06 L) + 0.24, so lengths are compared by
//! Φ(L) / B(L). From 8 the search climbs in steps of 1, first up and then down, and gives up a direction after 4 lengths in a row that are no
//! better than the best so far. B was fitted by its authors, once, on models of 7 and 8 billion parameters.
//!
//! Every length costs a forward. Those that will be asked for whatever the answers are share one call of the model: nothing is asked that a
//! search one by one would not ask.

use crate::input::{Gap, Part, begin, parts};
use crate::options::RunOptions;
use crate::{Engine, Input, Result};
use cofill::{Canvas, Denoiser, Proposal, Query, TokenId, ask};
use serde::Serialize;

/// Where a search begins; gaps whose turn has not come have this length.
pub(crate) const FIRST: usize = 8;
/// The longest gap that is tried.
pub(crate) const MOST: usize = 64;
/// Lengths in a row, none of them better than the best, after which a direction is given up.
const PATIENCE: usize = 4;

/// A gap whose length was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettledGap {
    /// Positions: the best of those that were tried.
    pub length: usize,
    /// Every length that was tried, with its score Φ(L) / B(L), in the order they were asked for. Each took a forward.
    pub tried: Vec<(usize, f64)>,
}

/// What a gap of so many masks makes of any text's confidence.
fn bias(length: usize) -> f64 {
    let l = length as f64;
    (-1.77 * l).exp() + 0.56 * (-0.06 * l).exp() + 0.24
}

/// Climbs from [`FIRST`] to the best length up to `most`, which is at least 1. `scores` is asked about several lengths at once.
pub(crate) fn climb<E>(most: usize, mut scores: impl FnMut(&[usize]) -> Result<Vec<f64>, E>) -> Result<SettledGap, E> {
    let first = FIRST.min(most);
    let ahead = |from: usize, up: bool, n: usize| -> Vec<usize> {
        let next =
            |i: usize| if up { Some(from + i).filter(|&l| l <= most) } else { from.checked_sub(i).filter(|&l| l > 0) };
        (1..=n).map_while(next).collect()
    };
    // Nobody gives up before PATIENCE lengths, so these are asked for in any case.
    let (up, down) = (ahead(first, true, PATIENCE), ahead(first, false, PATIENCE));
    let lengths = [vec![first], up.clone(), down.clone()].concat();
    let mut tried: Vec<(usize, f64)> = lengths.iter().copied().zip(scores(&lengths)?).collect();
    let mut best = tried[0];
    for (is_up, first_few) in [(true, up), (false, down)] {
        let mut falls = 0;
        let mut at = first;
        let mut waiting = first_few;
        loop {
            for &length in &waiting {
                let score = tried.iter().find(|(l, _)| *l == length).map_or(f64::NEG_INFINITY, |(_, score)| *score);
                falls += 1;
                if score > best.1 {
                    (best, falls) = ((length, score), 0);
                }
                at = length;
            }
            waiting = ahead(at, is_up, PATIENCE - falls);
            if waiting.is_empty() {
                break;
            }
            tried.extend(waiting.iter().copied().zip(scores(&waiting)?));
        }
    }
    Ok(SettledGap { length: best.0, tried })
}

impl Engine {
    /// A text with gaps of which every one has a number of positions, and what the search for them took: a forward for every length tried.
    /// Several `[MASK:auto]` are settled one after the other, from left to right, those to come with 8 positions each.
    pub fn settle_gaps(&mut self, input: &Input, options: &RunOptions) -> Result<(Input, Vec<SettledGap>)> {
        let Input::Template(text) = input else { return Ok((input.clone(), Vec::new())) };
        let parts = parts(text)?;
        if !parts.contains(&Part::Gap(Gap::Auto)) {
            return Ok((input.clone(), Vec::new()));
        }
        options.check()?;
        let (bos, end) = self.around(options.bos)?;
        let mut template = Template { pieces: Vec::with_capacity(parts.len()), bos, end, mask: self.mask_id() };
        for part in &parts {
            template.pieces.push(match part {
                Part::Text(text) => Slice::Tokens(self.encode(text)?),
                Part::Gap(Gap::Masks(n)) => Slice::Gap(*n),
                Part::Gap(Gap::Auto) => Slice::Gap(FIRST),
            });
        }
        let open: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == Part::Gap(Gap::Auto)).collect();
        let settled = self.settle_lengths(&mut template, &open, options)?;
        let mut lengths = settled.iter().map(|gap| gap.length);
        let written = parts.iter().map(|part| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::Gap(Gap::Masks(n)) => format!("[MASK:{n}]"),
            Part::Gap(Gap::Auto) => format!("[MASK:{}]", lengths.next().unwrap_or(FIRST)),
        });
        Ok((Input::Template(written.collect()), settled))
    }

    /// Finds the length of the `open` gaps, which are numbered as the pieces are, and puts it there.
    pub(crate) fn settle_lengths(
        &mut self,
        template: &mut Template,
        open: &[usize],
        options: &RunOptions,
    ) -> Result<Vec<SettledGap>> {
        options.check()?;
        // What is asked is how sure the model is, not what it would draw.
        let mut proposal = options.proposal(self.ends());
        proposal.temperature = 0.0;
        let mut settled = Vec::new();
        for &i in open {
            template.pieces[i] = Slice::Gap(1);
            let shortest = template.canvas().tokens().len();
            self.fit(shortest)?;
            let most = MOST.min(self.context() - shortest + 1);
            let found = climb(most, |lengths| template.scores(i, lengths, &proposal, self.denoiser()))?;
            template.pieces[i] = Slice::Gap(found.length);
            settled.push(found);
        }
        Ok(settled)
    }
}

/// A text with gaps, as tokens.
pub(crate) struct Template {
    pub(crate) pieces: Vec<Slice>,
    pub(crate) bos: Option<TokenId>,
    pub(crate) end: Option<TokenId>,
    pub(crate) mask: TokenId,
}

pub(crate) enum Slice {
    Tokens(Vec<TokenId>),
    Gap(usize),
}

impl Template {
    /// The canvas as it would be decoded.
    pub(crate) fn canvas(&self) -> Canvas {
        let mut tokens = Vec::new();
        for piece in &self.pieces {
            match piece {
                Slice::Tokens(text) => tokens.extend(text),
                Slice::Gap(n) => tokens.resize(tokens.len() + n, self.mask),
            }
        }
        let mut tokens = begin(self.bos, tokens);
        tokens.extend(self.end.filter(|end| tokens.last() != Some(end)));
        Canvas::new(tokens, self.mask)
    }

    /// Whether a beginning of text is put before it.
    pub(crate) fn begins(&self) -> bool {
        let first = self.pieces.iter().find_map(|piece| match piece {
            Slice::Tokens(text) => text.first().copied(),
            Slice::Gap(_) => Some(self.mask),
        });
        self.bos.is_some() && first != self.bos
    }

    /// Φ(L) / B(L) of gap `i` with each of `lengths`, in one call of the model.
    fn scores(
        &mut self,
        i: usize,
        lengths: &[usize],
        proposal: &Proposal,
        denoiser: &mut dyn Denoiser,
    ) -> Result<Vec<f64>> {
        let mut asked = Vec::with_capacity(lengths.len());
        let before =
            self.pieces[..i].iter().filter_map(|piece| if let Slice::Gap(n) = piece { Some(*n) } else { None });
        let before: usize = before.sum();
        for &length in lengths {
            self.pieces[i] = Slice::Gap(length);
            let canvas = self.canvas();
            let rows: Vec<usize> = canvas.free()[before..before + length].to_vec();
            asked.push((canvas, rows));
        }
        let queries: Vec<Query<'_>> = asked
            .iter()
            .map(|(canvas, rows)| Query::new(canvas.tokens(), rows, proposal).free(canvas.free()))
            .collect();
        let mean = |(answer, length): (cofill::Prediction, &usize)| {
            answer.rows.iter().map(|row| row.confidence).sum::<f64>() / *length as f64 / bias(*length)
        };
        Ok(ask(denoiser, &queries)?.into_iter().zip(lengths).map(mean).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The search as its authors wrote it: one length at a time, up and then down.
    fn plain(most: usize, score: &dyn Fn(usize) -> f64) -> (usize, Vec<usize>) {
        let first = 8.min(most);
        let (mut best, mut asked) = ((first, score(first)), vec![first]);
        for up in [true, false] {
            let (mut length, mut falls) = (first, 0);
            while falls < 4 {
                length = if up { length + 1 } else { length - 1 };
                if length == 0 || length > most {
                    break;
                }
                asked.push(length);
                if score(length) > best.1 {
                    (best, falls) = ((length, score(length)), 0);
                } else {
                    falls += 1;
                }
            }
        }
        asked.sort_unstable();
        (best.0, asked)
    }

    fn check(most: usize, score: &dyn Fn(usize) -> f64) -> (usize, usize) {
        let mut calls = 0;
        let found = climb(most, |lengths| {
            calls += 1;
            Ok::<_, Infallible>(lengths.iter().map(|&length| score(length)).collect())
        });
        let found = found.unwrap_or_else(|never| match never {});
        let mut asked: Vec<usize> = found.tried.iter().map(|(length, _)| *length).collect();
        asked.sort_unstable();
        assert_eq!((found.length, asked), plain(most, score));
        (found.length, calls)
    }

    #[test]
    fn many_at_once_find_what_one_by_one_finds_and_ask_no_more() {
        // The peak is found where every fall on the way is shorter than 4; 8 and its 4 neighbours on each side are one call.
        for peak in 1..=64 {
            let (found, _) = check(64, &|length| -(length as f64 - peak as f64).abs());
            assert_eq!(found, peak);
        }
        assert_eq!(check(64, &|length| -(length as f64 - 8.0).abs()), (8, 1));
        // Behind 4 falls nobody looks: 20 is higher, and not found.
        let two_peaks = |length: usize| if length == 20 { 9.0 } else { -(length as f64 - 8.0).abs() };
        assert_eq!(check(64, &two_peaks).0, 8);
        // Ties are no better, and the shorter context may leave little room.
        assert_eq!(check(64, &|_| 1.0).0, 8);
        for most in 1..12 {
            check(most, &|length| (length as f64 * 1.3).sin());
        }
    }

    #[test]
    fn made_up_scores_of_every_shape_agree() {
        for seed in 0..2000u64 {
            let score = |length: usize| {
                let mut x = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ^ (length as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
                x ^= x >> 31;
                x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((x >> 40) % 50) as f64 + (seed % 7) as f64 * length as f64 / 8.0
            };
            check(1 + (seed % 64) as usize, &score);
        }
    }

    #[test]
    fn the_bias_is_the_published_one() {
        // e^-1.77 + .56 e^-.06 + .24 = .1703 + .5274 + .24; at 64 the first is nothing and .56 e^-3.84 = .0120.
        assert!((bias(1) - 0.9377).abs() < 1e-4, "{}", bias(1));
        assert!((bias(64) - 0.2520).abs() < 1e-4, "{}", bias(64));
    }
}
