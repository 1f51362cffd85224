//! What revealing one masked position does to the others (the paper's section 4 and appendix B).
//!
//! An ordinary confidence Top-k decode runs to its end. At the probed steps, before it commits, the surest masked
//! position i is revealed in a copy of the canvas, nothing else, and the model is asked again. For every other position
//! j:
//!
//! ```text
//! K_j  = KL(p_j before ‖ p_j after)      what revealing i did to j
//! Δc_j = c_j after − c_j before
//! u_ji = A_ji (1 − c_i)                  what ADAS believes it will do: A_ji is j's attention to i before
//! R_ji                                   the same along all paths through other masks (`cofill::paths`)
//! s_j  = c_j − α u_ji                    how ADAS ranks j, once i is chosen
//! ```
//!
//! The decode itself never learns of it.

use super::ask;
use cofill::adas::DEFAULT_ALPHA;
use cofill::paths::Paths;
use cofill::{Canvas, Decode, Denoiser, Error, Layers, Prediction, Proposal, Query, Result, SamplerSpec, TokenId};
use cofill_report::statistics::kl::kl;
use serde::Serialize;

/// What is measured, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct StateOptions {
    /// k of the Top-k decode; the paper takes 8.
    pub k: usize,
    /// The steps of the decode at which it is probed.
    pub steps: Steps,
    /// The layers whose attention is read.
    pub layers: Layers,
    /// The positions on which it is measured.
    pub scope: Scope,
    /// α: how strongly the score s_j is discounted.
    pub alpha: f64,
    /// Also by every head of every layer; one more forward a state.
    pub heads: Heads,
    /// How tokens are proposed; the paper proposes the likeliest.
    pub proposal: Proposal,
}

impl Default for StateOptions {
    fn default() -> StateOptions {
        let (k, steps, layers) = (8, Steps::Spread, Layers::Last);
        StateOptions {
            k,
            steps,
            layers,
            scope: Scope::CoSelected,
            alpha: DEFAULT_ALPHA,
            heads: Heads::Mean,
            proposal: Proposal::greedy(),
        }
    }
}

/// On which positions an intervention is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// The other k − 1 that Top-k would commit with i.
    #[default]
    CoSelected,
    /// Every other masked position.
    All,
}

/// Whether heads are kept apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Heads {
    /// Only the mean over heads.
    #[default]
    Mean,
    /// Every head by itself, too.
    Apart,
}

/// Which steps of a decode are probed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Steps {
    /// Five, spread as the paper's are.
    #[default]
    Spread,
    /// These, so far as the decode goes.
    Given(Vec<usize>),
}

impl Steps {
    /// The probed steps of a decode of `n` steps, ascending.
    ///
    /// The paper probes 0, 7, 15, 23, 31 of 32 and 0, 15, 31, 47, 63 of 64: the first, and the last of every quarter.
    /// Rounding up keeps five of them apart whenever there are five steps.
    pub fn of(&self, n: usize) -> Vec<usize> {
        let mut steps: Vec<usize> = match self {
            Steps::Spread => [0].into_iter().chain((1..=4).map(|q| (q * n).div_ceil(4).saturating_sub(1))).collect(),
            Steps::Given(steps) => steps.clone(),
        };
        steps.sort_unstable();
        steps.dedup();
        steps.retain(|&step| step < n);
        steps
    }
}

/// One intervention and what it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// The number of the example.
    pub doc: usize,
    /// The step of its decode, from 0.
    pub step: usize,
    /// |M|: how many positions were masked.
    pub n_masked: usize,
    /// i, the surest masked position.
    pub revealed: Revealed,
    /// What it did to the others: in the order Top-k picks them, or by position when all are in scope.
    pub pairs: Vec<Effect>,
    /// The second choice of Top-k and of Top-k+AD, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
    /// A_ji as every head of every layer has it. `[layer][head][pairs]`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Vec<Vec<f64>>>,
}

/// The position that is revealed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Revealed {
    /// i: the position that is revealed.
    pub position: usize,
    /// The likeliest token there, which is revealed.
    pub token: TokenId,
    /// c_i: how sure the model was of it.
    pub confidence: f64,
    /// 1 − c_i, summed over the other tokens, so that it survives c near 1.
    pub uncertainty: f64,
}

/// What revealing i did to j.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// j: the position that is compared.
    pub position: usize,
    /// Its likeliest token before.
    pub token: TokenId,
    /// Its likeliest token after.
    pub token_after: TokenId,
    /// A_ji: its attention to i before.
    pub attention: f64,
    /// K_j: the divergence of its distributions before and after.
    pub kl: f64,
    /// c_j: its confidence before.
    pub confidence: f64,
    /// Δc_j: what its confidence gained.
    pub delta_confidence: f64,
    /// u_ji: what ADAS believed revealing i would do.
    pub gated: f64,
    /// R_ji: the same along all paths through other masks (docs/paths.md).
    pub along_paths: f64,
    /// s_j: how ADAS ranks it, once i is chosen.
    pub score: f64,
}

/// Where confidence and ADAS part after their common first choice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Divergence {
    /// Confidence's next choice, which ADAS passes over.
    pub deferred: Effect,
    /// The next choice of ADAS.
    pub replacement: Effect,
}

/// Runs one decode and measures its probed states.
pub fn states(denoiser: &mut dyn Denoiser, canvas: Canvas, doc: usize, options: &StateOptions) -> Result<Vec<State>> {
    let spec: SamplerSpec = format!("topk:{}", options.k).parse()?;
    let probed = options.steps.of(canvas.n_masked().div_ceil(options.k));
    let mut proposal = options.proposal.clone();
    proposal.seed = crate::run::seed_of(proposal.seed, doc);
    let mut decode = Decode::builder(canvas, spec.build()?).proposal(proposal).begin()?;
    let mut states = Vec::with_capacity(probed.len());
    while let Some(query) = decode.query() {
        // What comes after the last of them changes nothing.
        if probed.last().is_none_or(|&last| query.step > last) {
            break;
        }
        let is_probed = probed.contains(&query.step);
        let query = match is_probed {
            true => query.attention(options.layers).distributions(true),
            false => query,
        };
        let prediction = ask(denoiser, query)?;
        if is_probed {
            states.push(intervene(denoiser, &query, &prediction, doc, options)?);
        }
        decode.absorb(&prediction)?;
    }
    Ok(states)
}

/// Reveals the surest position in a copy, and compares.
fn intervene(
    denoiser: &mut dyn Denoiser,
    query: &Query<'_>,
    before: &Prediction,
    doc: usize,
    options: &StateOptions,
) -> Result<State> {
    let missing = |what: &str| Error::Contract { who: "denoiser", problem: format!("it answers no {what}") };
    let attention = before.attention.as_ref().ok_or_else(|| missing("attention"))?;
    let p_before = before.distributions.as_ref().ok_or_else(|| missing("distributions"))?;
    let c = |row: usize| before.rows[row].confidence;
    // By confidence; a stable sort leaves ties to the lower position.
    let mut order: Vec<usize> = (0..query.rows.len()).collect();
    order.sort_by(|&a, &b| c(b).total_cmp(&c(a)));
    let i = *order.first().ok_or_else(|| missing("rows"))?;
    let revealed = Revealed {
        position: query.rows[i],
        token: before.rows[i].token,
        confidence: c(i),
        uncertainty: before.rows[i].uncertainty,
    };
    let others: Vec<usize> = match options.scope {
        Scope::CoSelected => order[1..options.k.min(order.len())].to_vec(),
        Scope::All => (0..order.len()).filter(|&j| j != i).collect(),
    };
    // As `adas.rs` has it, to the last bit: α (1 − c_i) is the weight of the chosen, A_ji what it is multiplied by.
    let weight = options.alpha * revealed.uncertainty;
    let utility = |j: usize| c(j) - weight * attention.get(j, i);
    let next = |better: &dyn Fn(usize, usize) -> bool| {
        (0..order.len()).filter(|&j| j != i).reduce(|best, j| if better(j, best) { j } else { best })
    };
    let deferred = next(&|j, best| c(j) > c(best));
    let replacement = next(&|j, best| utility(j) > utility(best));
    let divergence = deferred.zip(replacement).filter(|(d, r)| d != r);

    let mut paths = Paths::default();
    let weight: Vec<f64> = before.rows.iter().map(|row| row.uncertainty).collect();
    paths.open(attention, &weight);
    let mut along_paths = vec![0.0; weight.len()];
    paths.column(attention, i, &mut along_paths);

    // The counterfactual pass, for whoever is looked at.
    let mut rows: Vec<usize> = others.iter().copied().chain(divergence.into_iter().flat_map(|(d, r)| [d, r])).collect();
    rows.sort_unstable();
    rows.dedup();
    let positions: Vec<usize> = rows.iter().map(|&row| query.rows[row]).collect();
    if rows.is_empty() {
        let (step, n_masked) = (query.step, query.rows.len());
        return Ok(State { doc, step, n_masked, revealed, pairs: Vec::new(), divergence: None, heads: Vec::new() });
    }
    let mut tokens = query.tokens.to_vec();
    tokens[revealed.position] = revealed.token;
    let asked = query.tokens(&tokens).rows(&positions).attention(None).distributions(true);
    let after = ask(denoiser, asked)?;
    let p_after = after.distributions.as_ref().ok_or_else(|| missing("distributions"))?;
    let effect = |j: usize| -> Result<Effect> {
        let at = rows.binary_search(&j).expect("everybody who is looked at was asked for");
        let (a, k) = (attention.get(j, i), kl(p_before.row(j), p_after.row(at)));
        for (what, value) in [("attention", a), ("KL", k)] {
            if !value.is_finite() {
                return Err(Error::NotFinite { what, index: query.rows[j], value });
            }
        }
        let gated = a * revealed.uncertainty;
        Ok(Effect {
            position: query.rows[j],
            token: before.rows[j].token,
            token_after: after.rows[at].token,
            attention: a,
            kl: k,
            confidence: c(j),
            delta_confidence: after.rows[at].confidence - c(j),
            gated,
            along_paths: along_paths[j],
            score: c(j) - options.alpha * gated,
        })
    };
    let heads: Vec<Vec<Vec<f64>>> = match options.heads {
        Heads::Mean => Vec::new(),
        Heads::Apart => {
            let query = query.rows(&positions).attention(None).distributions(false);
            let toward = denoiser.by_head(&query, &[revealed.position])?;
            let toward = toward.ok_or_else(|| missing("attention by head, because it has no heads"))?;
            let at = |j: &usize| rows.binary_search(j).expect("everybody who is looked at was asked for");
            let head = |layer: usize, head: usize| -> Vec<f64> {
                others.iter().map(|j| toward.toward(layer, head, 0)[at(j)]).collect()
            };
            let layer = |layer: usize| (0..toward.heads()).map(|h| head(layer, h)).collect();
            (0..toward.layers()).map(layer).collect()
        }
    };
    Ok(State {
        doc,
        step: query.step,
        n_masked: query.rows.len(),
        revealed,
        pairs: others.iter().map(|&j| effect(j)).collect::<Result<_>>()?,
        divergence: match divergence {
            Some((d, r)) => Some(Divergence { deferred: effect(d)?, replacement: effect(r)? }),
            None => None,
        },
        heads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill::generate;
    use cofill::toy::Toy;

    #[test]
    fn the_probed_steps_are_the_papers() {
        assert_eq!(Steps::Spread.of(32), [0, 7, 15, 23, 31]);
        assert_eq!(Steps::Spread.of(64), [0, 15, 31, 47, 63]);
        assert_eq!(Steps::Spread.of(5), [0, 1, 2, 3, 4], "five are five whenever there are five");
        assert_eq!(Steps::Spread.of(7), [0, 1, 3, 5, 6]);
        assert_eq!((Steps::Spread.of(3), Steps::Spread.of(1), Steps::Spread.of(0)), (vec![0, 1, 2], vec![0], vec![]));
        assert_eq!(Steps::Given(vec![9, 2, 2, 40]).of(32), [2, 9]);
    }

    #[test]
    fn revealing_a_word_changes_its_partner_and_nobody_else() {
        let mut toy = Toy::phrases(24);
        let start = Canvas::prompt(&[], 24, toy.mask_id());
        let options = StateOptions { scope: Scope::All, ..StateOptions::default() };
        let states = states(&mut toy, start, 3, &options).unwrap();
        assert_eq!(states.iter().map(|state| state.step).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((states[0].doc, states[0].n_masked, states[0].pairs.len()), (3, 24, 23));
        for state in &states {
            for pair in &state.pairs {
                // The true dependency graph is the toy's attention.
                assert_eq!(pair.kl > 1e-6, pair.attention > 0.0, "{state:?}");
                let u = pair.attention * state.revealed.uncertainty;
                assert_eq!((pair.gated, pair.score), (u, pair.confidence - 40.0 * u));
            }
        }
    }

    #[test]
    fn an_effect_is_that_of_the_closed_form() {
        // Only the name is masked: 0 is surest, 1 its partner.
        let mut toy = Toy::phrases(6);
        let mask = toy.mask_id();
        let tokens = vec![mask, mask, 16, 8, 12, 20];
        let options = StateOptions { k: 2, ..StateOptions::default() };
        let state = states(&mut toy, Canvas::new(tokens.clone(), mask), 0, &options).unwrap().remove(0);
        let (before, mut after) = (toy.conditional(&tokens, 1), tokens.clone());
        after[0] = state.revealed.token;
        let after = toy.conditional(&after, 1);
        // Where the words cannot follow each other the closed form is infinite, and ours as far as f32 goes.
        let least = f64::from(f32::from_bits(1));
        let want: f64 =
            before.iter().zip(&after).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q.max(least)).ln()).sum();
        let effect = state.pairs[0];
        assert_eq!((state.revealed.position, effect.position, state.pairs.len()), (0, 1, 1));
        assert!((effect.kl - want).abs() < 1e-5 * want, "{} is not {want}", effect.kl);
        let top = |p: &[f64]| p.iter().copied().fold(0.0, f64::max);
        assert!((effect.delta_confidence - (top(&after) - top(&before))).abs() < 1e-6);
        assert_eq!((Toy::piece(effect.token), Toy::piece(effect.token_after)), ("Kelly", "Turing"));
    }

    #[test]
    fn the_decode_is_undisturbed_and_the_divergence_is_the_samplers_own() {
        let start = Canvas::prompt(&[], 30, Toy::phrases(0).mask_id());
        let steps = |spec: &str| {
            let policy = spec.parse::<SamplerSpec>().unwrap().build().unwrap();
            generate(&mut Toy::phrases(30), &mut Decode::new(start.clone(), policy).unwrap()).unwrap()
        };
        let options = StateOptions { steps: Steps::Given((0..9).collect()), ..StateOptions::default() };
        let states = states(&mut Toy::phrases(30), start.clone(), 0, &options).unwrap();
        let plain = steps("topk:8");
        assert_eq!(states.len(), plain.len());
        for (state, step) in states.iter().zip(&plain) {
            assert_eq!(state.n_masked, step.n_masked);
            let picked: Vec<usize> = step.commits.iter().map(|commit| commit.position).collect();
            let seen: Vec<usize> =
                [state.revealed.position].into_iter().chain(state.pairs.iter().map(|p| p.position)).collect();
            assert_eq!(picked, seen, "the co-selected are those that Top-k commits, in its order");
        }
        // At the first state both samplers see the same canvas.
        let (state, step) = (&states[0], &steps("topk:8+ad")[0]);
        let second = |commits: &[cofill::trace::Commit]| commits[1].position;
        let (confidence, adas) = (second(&plain[0].commits), second(&step.commits));
        match state.divergence {
            Some(d) => assert_eq!((d.deferred.position, d.replacement.position), (confidence, adas)),
            None => assert_eq!(confidence, adas),
        }
    }

    #[test]
    fn heads_of_the_toy_are_its_mean() {
        let mut toy = Toy::phrases(12);
        let options = StateOptions { heads: Heads::Apart, ..StateOptions::default() };
        let start = Canvas::prompt(&[], 12, toy.mask_id());
        for state in states(&mut toy, start, 0, &options).unwrap() {
            let mean: Vec<f64> = state.pairs.iter().map(|pair| pair.attention).collect();
            assert_eq!(state.heads, [[mean]]);
        }
    }

    #[test]
    fn a_single_mask_has_no_pairs() {
        let mut toy = Toy::phrases(3);
        let tokens = vec![0, 4, toy.mask_id()];
        let states = states(&mut toy, Canvas::new(tokens, 24), 0, &StateOptions::default()).unwrap();
        assert_eq!((states.len(), states[0].pairs.len(), states[0].divergence), (1, 0, None));
    }

    #[test]
    fn a_denoiser_that_leaves_something_out_is_an_error() {
        struct Mute;
        impl Denoiser for Mute {
            fn mask_id(&self) -> TokenId {
                9
            }
            fn vocab(&self) -> usize {
                10
            }
            fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
                let row = cofill::RowStats::new(1, 0.5).entropy(0.7);
                let answer = |query: &Query<'_>| Prediction::new(vec![row; query.rows.len()]);
                Ok(batch.iter().map(answer).collect())
            }
        }
        let error = states(&mut Mute, Canvas::prompt(&[], 4, 9), 0, &StateOptions::default()).unwrap_err();
        assert!(error.to_string().contains("0 rows of attention, and 4 were asked for"), "{error}");
    }
}
