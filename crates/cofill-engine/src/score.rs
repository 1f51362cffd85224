//! How probable given tokens are: log-probabilities at some positions of some canvases, for likelihood estimates.

use crate::{Engine, Result};
use cofill::{Error, Proposal, Query, TokenId};

/// Tokens whose probability is asked for: `targets[r]` at position `rows[r]` of a canvas.
#[derive(Debug, Clone, Copy)]
pub struct Scored<'a> {
    /// The canvas. `[length]`
    pub tokens: &'a [TokenId],
    /// Positions, ascending. `[rows]`
    pub rows: &'a [usize],
    /// A token for each of them. `[rows]`
    pub targets: &'a [TokenId],
    /// What guidance does not hide; everything else was given.
    pub free: &'a [usize],
}

/// Refuses rows that are no positions of a canvas in ascending order, each once: a model would answer them in another order, or not at all.
pub fn check_rows(rows: &[usize], length: usize) -> cofill::Result<()> {
    let bad = |limit: String, given: String| Err(Error::BadSetting { what: "rows", limit, given });
    if let Some(row) = rows.iter().find(|&&row| row >= length) {
        return bad(format!("below {length}, the length of the canvas"), row.to_string());
    }
    match rows.windows(2).any(|pair| pair[0] >= pair[1]) {
        true => bad("positions in ascending order, each once".into(), format!("{rows:?}")),
        false => Ok(()),
    }
}

impl Scored<'_> {
    /// Refuses what a model of so many tokens cannot answer.
    fn check(&self, last: TokenId) -> cofill::Result<()> {
        let Scored { tokens, rows, targets, free } = *self;
        check_rows(rows, tokens.len())?;
        check_rows(free, tokens.len())?;
        if rows.len() != targets.len() {
            let (want, got, because) = (rows.len(), targets.len(), "one per asked position");
            return Err(Error::Length { what: "targets", want, got, because });
        }
        match targets.iter().zip(rows).find(|(token, _)| **token > last) {
            Some((&token, &position)) => Err(Error::UnknownToken { token, position, last }),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// ln p of every target, of the full softmax; guidance as it was [configured](Engine::configure). One forward for all, and nobody's
    /// numbers depend on who else is asked about.
    pub fn score(&mut self, asked: &[Scored<'_>]) -> Result<Vec<Vec<f64>>> {
        let (last, proposal) = (self.last_id(), Proposal::greedy());
        let mut queries = Vec::with_capacity(asked.len());
        for scored in asked {
            self.fit(scored.tokens.len())?;
            scored.check(last)?;
            let &Scored { tokens, rows, targets, free } = scored;
            queries.push(Query::new(tokens, rows, &proposal).free(free).targets(targets));
        }
        let answers = self.denoiser().denoise(&queries)?;
        let missing = || Error::Missing { what: "log-probabilities" };
        // A canvas of which nothing is asked has an answer without any.
        let of = |(answer, scored): (cofill::Prediction, &Scored<'_>)| match scored.rows.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(answer.log_probabilities.ok_or_else(missing)?),
        };
        answers.into_iter().zip(asked).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunOptions;

    /// The toy's first word is Alan with the probability that its distribution has, and p of all words is 1.
    #[test]
    fn log_probabilities_are_those_of_the_distribution() {
        let mut engine = Engine::open("toy", &RunOptions::default()).unwrap();
        let (mask, words) = (engine.mask_id(), engine.last_id() as usize);
        let tokens = [mask; 6];
        let asked: Vec<[TokenId; 1]> = (0..words as TokenId).map(|word| [word]).collect();
        let of = |targets| Scored { tokens: &tokens, rows: &[2], targets, free: &[2] };
        let scored: Vec<Scored<'_>> = asked.iter().map(|targets| of(targets)).collect();
        let together = engine.score(&scored).unwrap();
        let sum: f64 = together.iter().map(|row| row[0].exp()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        for (one, all) in scored.iter().zip(&together) {
            assert_eq!(&engine.score(&[*one]).unwrap()[0], all, "company changes nothing");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_by_name() {
        let mut engine = Engine::open("toy", &RunOptions::default()).unwrap();
        let tokens = [engine.mask_id(); 4];
        let mut said = |rows: &[usize], targets: &[TokenId]| {
            engine.score(&[Scored { tokens: &tokens, rows, targets, free: &[] }]).unwrap_err().to_string()
        };
        assert!(said(&[4], &[0]).contains("below 4"));
        assert!(said(&[2, 1], &[0, 0]).contains("ascending"));
        assert!(said(&[1, 2], &[0]).contains("targets"));
        assert!(said(&[1], &[99]).contains("99"));
    }
}
