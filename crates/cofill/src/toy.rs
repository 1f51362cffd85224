//! A denoiser in closed form: a joint distribution that is known, so that every sampler's mistakes can be computed exactly.
//!
//! It writes sentences such as `Alan Turing visited San Diego today`. Some words are independent; a first and a last name, or the
//! two words of a city, are coupled. In each couple the likeliest first word and the likeliest second word never occur together
//! (`San City`, `Alan Kelly`), so committing both at once, each by its own marginal, is wrong although each is its best guess.
//! Its attention is its true dependency graph; asked for what a trained head would predict, it answers with the truth.

use crate::{
    Attention, ClassTable, Denoiser, Distributions, Error, HeadAttention, Layers, Prediction, Query, Result, TokenId,
};

/// A known joint distribution over sentences.
#[derive(Debug, Clone)]
pub struct Toy {
    parts: Vec<Part>,
    part_of: Vec<usize>, // [position]
}

/// Positions that depend on each other, and on no others.
#[derive(Debug, Clone)]
enum Part {
    Word {
        p: Vec<f64>, // [vocab]
    },
    /// Two positions with a joint distribution.
    Couple {
        first: usize,
        second: usize,
        joint: Vec<f64>, // [vocab x vocab]
    },
}

const WORDS: [&str; 24] = [
    // 0: people
    "Alan", "Grace", "Gene", "Ada", "Turing", "Kay", "Kelly", "Lovelace", // 8: places
    "San", "Mexico", "Kansas", "New", "Diego", "Jose", "City", "York", // 16: what they do, and when
    "visited", "left", "likes", "misses", "today", "again", "alone", "often",
];
const PEOPLE: [(usize, usize); 5] = [(0, 4), (0, 5), (1, 6), (2, 6), (3, 7)];
const PLACES: [(usize, usize); 5] = [(8, 12), (8, 13), (9, 14), (10, 14), (11, 15)];
const VERBS: usize = 16;
const WHEN: usize = 20;
const V: usize = WORDS.len();

impl Toy {
    /// Sentences over `length` positions: a name (2 words, coupled), a verb, a place (2, coupled), a word on when. Every couple and
    /// every independent word is a little less certain than the one before, so no two candidates tie; every third couple is
    /// fully coupled, the next ones more loosely. What does not fit a couple at the end is an independent word.
    pub fn phrases(length: usize) -> Toy {
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of = Vec::with_capacity(length);
        let (mut couples, mut words) = (0, 0);
        for position in 0..length {
            let kind = position % 6;
            if part_of.len() > position {
                continue; // the second word of a couple
            }
            let table = if kind == 0 {
                Some(&PEOPLE)
            } else if kind == 3 {
                Some(&PLACES)
            } else {
                None
            };
            match table {
                Some(table) if position + 1 < length => {
                    part_of.extend([parts.len(); 2]);
                    let joint = couple(table, couples);
                    parts.push(Part::Couple { first: position, second: position + 1, joint });
                    couples += 1;
                }
                _ => {
                    part_of.push(parts.len());
                    parts.push(Part::Word { p: word(if kind == 2 { VERBS } else { WHEN }, words) });
                    words += 1;
                }
            }
        }
        Toy { parts, part_of }
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.part_of.len()
    }

    /// Whether it has no positions.
    pub fn is_empty(&self) -> bool {
        self.part_of.is_empty()
    }

    /// The word of a token; the mask is `[MASK]`.
    pub fn piece(token: TokenId) -> &'static str {
        WORDS.get(token as usize).copied().unwrap_or("[MASK]")
    }

    /// p(x_position | the other revealed positions), over all words. Exact. `[vocab without the mask]`
    ///
    /// For a revealed position this is what the others say about it, as if it were masked.
    pub fn conditional(&self, tokens: &[TokenId], position: usize) -> Vec<f64> {
        match &self.parts[self.part_of[position]] {
            Part::Word { p } => p.clone(),
            Part::Couple { first, second, joint } => {
                let at = |a: usize, b: usize| joint[a * V + b];
                let partner = tokens[first + second - position] as usize;
                let known = partner < V;
                let p: Vec<f64> = match (position == *first, known) {
                    (true, true) => (0..V).map(|a| at(a, partner)).collect(),
                    (false, true) => (0..V).map(|b| at(partner, b)).collect(),
                    (true, false) => first_marginal(joint),
                    (false, false) => second_marginal(joint),
                };
                let sum: f64 = p.iter().sum();
                match sum > 0.0 {
                    true => p.iter().map(|p| p / sum).collect(),
                    // The partner is a word that cannot stand there: it says nothing.
                    false => self.conditional(&vec![self.mask_id(); tokens.len()], position),
                }
            }
        }
    }

    /// The joint dependence error of committing `positions` together (paper, section 3.3): their multi-information given what
    /// is revealed, in nats. 0 exactly when they are independent.
    pub fn multi_information(&self, tokens: &[TokenId], positions: &[usize]) -> f64 {
        let open = |i: &usize| positions.contains(i) && tokens[*i] == self.mask_id();
        let of = |part: &Part| match part {
            Part::Couple { first, second, joint } if open(first) && open(second) => mutual_information(joint),
            _ => 0.0,
        };
        self.parts.iter().map(of).sum()
    }

    /// ln p of a complete sequence; −∞ when some couple is broken.
    pub fn log_probability(&self, tokens: &[TokenId]) -> f64 {
        let word = |position: usize| (tokens[position] as usize).min(V); // V: not a word
        let mut log = 0.0;
        for (part, position) in self.parts.iter().zip(self.starts()) {
            log += match part {
                Part::Word { p } => p.get(word(position)).copied().unwrap_or(0.0).ln(),
                Part::Couple { first, second, joint } => match (word(*first), word(*second)) {
                    (a, b) if a < V && b < V => joint[a * V + b].ln(),
                    _ => f64::NEG_INFINITY,
                },
            };
        }
        log
    }

    /// The first position of every part.
    fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.parts.len()).map(|part| self.part_of.partition_point(|&p| p < part))
    }

    /// How strongly two positions depend on each other: half of I/H, so that every row keeps at least half for itself.
    fn dependence(&self, i: usize, j: usize) -> f64 {
        match &self.parts[self.part_of[i]] {
            Part::Couple { joint, .. } if i != j && self.part_of[i] == self.part_of[j] => {
                let (h1, h2) = (entropy(&first_marginal(joint)), entropy(&second_marginal(joint)));
                0.5 * mutual_information(joint) / h1.min(h2)
            }
            _ => 0.0,
        }
    }

    /// A\[i, j\]: the true dependency graph; what is left of a row stays on its diagonal.
    fn attention(&self, rows: &[usize]) -> Attention {
        let partner = |i: usize| match &self.parts[self.part_of[i]] {
            Part::Couple { first, second, .. } => first + second - i,
            Part::Word { .. } => i,
        };
        Attention::from_fn(rows.len(), |q, k| match (rows[q], rows[k]) {
            (i, j) if i == j => 1.0 - self.dependence(i, partner(i)),
            (i, j) => self.dependence(i, j),
        })
    }

    /// D\[i, s\] = E over x_s of TV(p_i given x_s, p_i): what DEMASK's head is trained to predict, exactly. 0 for whatever is revealed.
    fn influence(&self, tokens: &[TokenId], rows: &[usize]) -> Attention {
        let open = |i: usize| tokens[i] == self.mask_id();
        Attention::from_fn(rows.len(), |q, k| {
            let (i, s) = (rows[q], rows[k]);
            if i == s || self.part_of[i] != self.part_of[s] || !open(i) || !open(s) {
                return 0.0;
            }
            let (p_i, p_s) = (self.conditional(tokens, i), self.conditional(tokens, s));
            let mut revealed = tokens.to_vec();
            let moved = |(x, p): (usize, &f64)| {
                revealed[s] = x as TokenId;
                let given = self.conditional(&revealed, i);
                0.5 * p * given.iter().zip(&p_i).map(|(a, b)| (a - b).abs()).sum::<f64>()
            };
            p_s.iter().enumerate().filter(|(_, p)| **p > 0.0).map(moved).sum()
        })
    }

    fn answer(&self, query: &Query<'_>) -> Result<Prediction> {
        if query.tokens.len() != self.len() {
            let (want, got) = (self.len(), query.tokens.len());
            return Err(Error::Length { what: "tokens", want, got, because: "the toy's own length" });
        }
        for (position, &token) in query.tokens.iter().enumerate() {
            if token > self.mask_id() {
                return Err(Error::UnknownToken { token, position, last: self.mask_id() });
            }
        }
        let attention = match query.attention {
            None => None,
            Some(Layers::Learned) => Some(self.influence(query.tokens, query.rows)),
            Some(layers) => {
                layers.resolve(1)?; // it has one layer
                Some(self.attention(query.rows))
            }
        };
        let mut rows = Vec::with_capacity(query.rows.len());
        let mut probabilities: Vec<f32> = Vec::new();
        let (mut log_probabilities, mut classes) = (Vec::new(), Vec::new());
        for (r, &position) in query.rows.iter().enumerate() {
            let p = self.conditional(query.tokens, position);
            let mask = [f64::NEG_INFINITY];
            let mut row = query.proposal.row(self.mask_id(), query.step, position);
            if let Some(&target) = query.targets.and_then(|targets| targets.get(r)) {
                row.aim(target);
            }
            query.classes.into_iter().for_each(|classes| row.classify(classes));
            row.push_wide(p.iter().map(|p| p.ln()).chain(mask))?;
            let answer = row.answer()?;
            rows.push(answer.stats);
            log_probabilities.push(answer.log_probability);
            classes.extend(answer.classes);
            if query.distributions {
                probabilities.extend(p.iter().chain(&[0.0]).map(|&p| p as f32));
            }
        }
        Ok(Prediction {
            rows,
            attention,
            distributions: if query.distributions {
                Some(Distributions::new(self.vocab(), probabilities)?)
            } else {
                None
            },
            log_probabilities: query.targets.map(|_| log_probabilities),
            reused: 0,
            classes: query.classes.map(|asked| ClassTable::new(asked.len(), classes)).transpose()?,
        })
    }
}

impl Denoiser for Toy {
    fn mask_id(&self) -> TokenId {
        V as TokenId
    }

    fn vocab(&self) -> usize {
        V + 1
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        batch.iter().map(|query| self.answer(query)).collect()
    }

    /// One layer with one head, which is its own mean.
    fn by_head(&mut self, query: &Query<'_>, toward: &[usize]) -> Result<Option<HeadAttention>> {
        let both: Vec<usize> = query.rows.iter().chain(toward).copied().collect();
        let (a, rows) = (self.attention(&both), query.rows.len());
        let values = (rows..both.len()).flat_map(|key| a.toward(key)[..rows].to_vec()).collect();
        HeadAttention::new(1, 1, (rows, toward.len()), values).map(Some)
    }
}

/// The n-th couple. Its first word is `table[0].0` with probability x, its second `table[2].1` with y < x, never both; `slack`
/// mixes in the product of the marginals, which loosens the couple and leaves the marginals as they are.
fn couple(table: &[(usize, usize); 5], n: usize) -> Vec<f64> {
    let x = 0.48 - 0.019 * (n % 7) as f64 - 0.0003 * (n % 61) as f64;
    let y = x - 0.006;
    let weights = [0.54 * x, 0.46 * x, 0.53 * y, 0.47 * y, 1.0 - x - y];
    let mut joint = vec![0.0; V * V];
    for ((a, b), weight) in table.iter().zip(weights) {
        joint[a * V + b] = weight;
    }
    let slack = 0.2 * (n % 3) as f64;
    let (p, q) = (first_marginal(&joint), second_marginal(&joint));
    for a in 0..V {
        for b in 0..V {
            joint[a * V + b] = (1.0 - slack) * joint[a * V + b] + slack * p[a] * q[b];
        }
    }
    joint
}

/// The n-th independent word, one of four from `start` on.
fn word(start: usize, n: usize) -> Vec<f64> {
    let top = 0.93 - 0.083 * (n % 7) as f64 - 0.0007 * (n % 53) as f64;
    let mut p = vec![0.0; V];
    for (word, share) in [1.0, 0.5, 0.3, 0.2].into_iter().enumerate() {
        p[start + (n + word) % 4] = if word == 0 { top } else { (1.0 - top) * share };
    }
    p
}

fn first_marginal(joint: &[f64]) -> Vec<f64> {
    joint.chunks(V).map(|row| row.iter().sum()).collect()
}

fn second_marginal(joint: &[f64]) -> Vec<f64> {
    (0..V).map(|b| joint.iter().skip(b).step_by(V).sum()).collect()
}

fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// I = H(first) + H(second) − H(both).
fn mutual_information(joint: &[f64]) -> f64 {
    entropy(&first_marginal(joint)) + entropy(&second_marginal(joint)) - entropy(joint)
}

/// Decodes a whole toy canvas; what most tests of samplers do.
#[cfg(test)]
pub(crate) fn decode_toy(mut toy: Toy, sampler: &str, block: Option<usize>) -> Vec<crate::Step> {
    use crate::{Canvas, Decode, SamplerSpec, Schedule, generate};
    let policy = sampler.parse::<SamplerSpec>().unwrap().build().unwrap();
    let canvas = Canvas::prompt(&[], toy.len(), toy.mask_id());
    let schedule = block.map_or(Schedule::Full, |len| Schedule::Blocks { len });
    let mut decode = Decode::builder(canvas, policy).schedule(schedule).begin().unwrap();
    let steps = generate(&mut toy, &mut decode).unwrap();
    assert_eq!(decode.canvas().n_masked(), 0);
    assert_eq!(decode.nfe(), steps.iter().map(|step| step.forwards).sum::<usize>());
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_words_of_a_couple_never_meet() {
        let toy = Toy::phrases(6);
        let masks = vec![toy.mask_id(); 6];
        let best = |position| {
            let p = toy.conditional(&masks, position);
            (0..V).max_by(|&a, &b| p[a].total_cmp(&p[b])).unwrap()
        };
        assert_eq!((WORDS[best(0)], WORDS[best(1)]), ("Alan", "Kelly"));
        assert_eq!((WORDS[best(3)], WORDS[best(4)]), ("San", "City"));
        let mut tokens: Vec<TokenId> = (0..6).map(|i| best(i) as TokenId).collect();
        assert_eq!(toy.log_probability(&tokens), f64::NEG_INFINITY, "Alan Kelly does not exist");
        tokens[1] = 4; // Alan Turing
        assert!(toy.log_probability(&tokens).is_finite());
    }

    #[test]
    fn conditionals_are_those_of_the_joint() {
        // By enumeration over the 24² assignments of a loosely coupled pair (the second couple, 20 % slack).
        let toy = Toy::phrases(6);
        let Part::Couple { joint, .. } = &toy.parts[2] else { panic!("the place is a couple") };
        assert!((joint.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let mut tokens = vec![toy.mask_id(); 6];
        tokens[3] = 8; // San
        let p = toy.conditional(&tokens, 4);
        let san: f64 = (0..V).map(|b| joint[8 * V + b]).sum();
        for b in 0..V {
            assert!((p[b] - joint[8 * V + b] / san).abs() < 1e-12);
        }
        assert!((toy.conditional(&tokens, 3)[8] - san).abs() < 1e-12, "a revealed word is judged by the others alone");
        for position in 0..6 {
            let sum: f64 = toy.conditional(&tokens, position).iter().sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn multi_information_is_that_of_open_couples() {
        let toy = Toy::phrases(6);
        let mut tokens = vec![toy.mask_id(); 6];
        assert_eq!(toy.multi_information(&tokens, &[0, 2, 3, 5]), 0.0, "no couple is complete");
        let name = toy.multi_information(&tokens, &[0, 1]);
        let place = toy.multi_information(&tokens, &[3, 4]);
        assert!(name > place && place > 0.0, "the place is coupled more loosely: {name}, {place}");
        assert!((toy.multi_information(&tokens, &[0, 1, 2, 3, 4]) - name - place).abs() < 1e-12);
        tokens[0] = 0;
        assert_eq!(toy.multi_information(&tokens, &[0, 1]), 0.0, "given the first, nothing is left to get wrong");
        // Independent by construction: the product of two distributions has none.
        let p = word(VERBS, 0);
        let product: Vec<f64> = (0..V * V).map(|ab| p[ab / V] * p[ab % V]).collect();
        assert!(mutual_information(&product).abs() < 1e-12);
    }

    #[test]
    fn attention_is_the_dependency_graph() {
        let toy = Toy::phrases(8);
        let all: Vec<usize> = (0..8).collect();
        let a = toy.attention(&all);
        for i in 0..8 {
            let row: f64 = (0..8).map(|j| a.get(i, j)).sum();
            assert!((row - 1.0).abs() < 1e-12, "row {i} sums to {row}");
        }
        assert!(a.get(0, 1) > 0.1 && a.get(1, 0) > 0.1);
        assert_eq!((a.get(0, 2), a.get(2, 3), a.get(1, 3)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn no_two_candidates_tie() {
        let toy = Toy::phrases(96);
        let masks = vec![toy.mask_id(); 96];
        let mut c: Vec<f64> = (0..96).map(|i| toy.conditional(&masks, i).into_iter().fold(0.0, f64::max)).collect();
        c.sort_by(f64::total_cmp);
        assert!(c.windows(2).all(|w| w[1] - w[0] > 1e-9), "{c:?}");
    }

    #[test]
    fn wrong_canvases_are_refused() {
        let mut toy = Toy::phrases(2);
        let proposal = crate::Proposal::greedy();
        let mut ask = |tokens: &[TokenId], attention| {
            let query = Query { attention, ..Query::new(tokens, &[0], &proposal) };
            toy.denoise(&[query]).map(|_| ())
        };
        assert!(matches!(ask(&[24], None), Err(Error::Length { what: "tokens", want: 2, got: 1, .. })));
        assert!(matches!(ask(&[24, 25], None), Err(Error::UnknownToken { token: 25, position: 1, last: 24 })));
        assert!(matches!(ask(&[24, 24], Some(crate::Layers::Nth(3))), Err(Error::NoSuchLayer { layer: 3, last: 0 })));
        assert!(ask(&[24, 0], Some(crate::Layers::Last)).is_ok());
    }
}
