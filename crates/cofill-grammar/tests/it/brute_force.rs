use crate::support::{Random, class_row, constrain, vocabulary};
use cofill::{Constraint, Proposal, RowStats, TokenId};
use cofill_grammar::{Error, Grammar, Language, TokenAutomaton, Vocabulary};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A language, a canvas with given tokens, and a model's opinion of its masks.
struct Case {
    pattern: regex::bytes::Regex,
    vocabulary: Vocabulary,
    mask_id: TokenId,
    spans: Vec<Range<usize>>,
    tokens: Vec<TokenId>,
    probabilities: Vec<Vec<f64>>,
    grammar: Grammar,
}

/// A random expression over a, b, c and é.
fn expression(random: &mut Random, depth: usize) -> String {
    let leaf = ["a", "b", "c", "ab", "é", "[ab]", "[^a]", "ca?"];
    if depth == 0 {
        return leaf[random.below(leaf.len())].into();
    }
    let part = |random: &mut Random| expression(random, depth - 1);
    match random.below(5) {
        0 => format!("{}{}", part(random), part(random)),
        1 => format!("(?:{}|{})", part(random), part(random)),
        2 => format!("(?:{})*", part(random)),
        3 => format!("(?:{}){{1,3}}", part(random)),
        _ => format!("(?:{})?{}", part(random), part(random)),
    }
}

impl Case {
    /// `None` if no text fits.
    fn new(seed: u64, zeros: bool) -> Option<Case> {
        let mut random = Random(seed);
        let texts = ["a", "b", "c", "ab", "é", "a", "bc", "\u{e9}a"];
        let (vocabulary, mask_id) = vocabulary(&texts[..4 + random.below(5)]);
        let text = expression(&mut random, 3);
        let language = Language::regex(&text).unwrap();
        let automaton = Arc::new(TokenAutomaton::new(&language, &vocabulary).ok()?);
        // One or two spans, with a token between them that belongs to neither.
        let first = 1 + random.below(4);
        let spans = if random.below(3) == 0 { vec![0..2, 3..5] } else { vec![1..1 + first] };
        let length = spans.last().unwrap().end + random.below(2);
        let mut tokens = vec![mask_id; length];
        for token in &mut tokens {
            if random.below(4) == 0 {
                *token = random.below(mask_id as usize) as TokenId;
            }
        }
        let masks = tokens.iter().filter(|&&t| t == mask_id).count();
        let row = |random: &mut Random| -> Vec<f64> {
            let zero = |random: &mut Random| zeros && random.below(3) == 0;
            let row: Vec<f64> = (0..=mask_id).map(|_| if zero(random) { 0.0 } else { random.unit().powi(3) }).collect();
            let sum: f64 = row.iter().sum::<f64>().max(1e-9);
            row.iter().map(|p| p / sum).collect()
        };
        let probabilities = (0..masks).map(|_| row(&mut random)).collect();
        let pattern = regex::bytes::Regex::new(&format!("^(?:{text})$")).unwrap();
        let grammar = match Grammar::new(automaton, spans.clone(), &tokens, mask_id) {
            Ok(grammar) => grammar,
            Err(Error::Unsatisfiable { .. } | Error::Contradiction { .. } | Error::NoFit { .. }) => {
                let case = Case { grammar: nothing(), pattern, vocabulary, mask_id, spans, tokens, probabilities };
                assert!(case.fillings().is_empty(), "seed {seed}: refused, but there are valid fillings");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        Some(Case { pattern, vocabulary, mask_id, spans, tokens, probabilities, grammar })
    }

    fn masks(&self) -> Vec<usize> {
        (0..self.tokens.len()).filter(|&i| self.tokens[i] == self.mask_id).collect()
    }

    /// By definition: the texts of all tokens, then only ends.
    fn is_valid(&self, tokens: &[TokenId]) -> bool {
        self.spans.iter().all(|span| {
            let is_end = |t: &TokenId| self.vocabulary.ends.contains(t);
            let tokens = &tokens[span.clone()];
            let text = &tokens[..tokens.iter().position(is_end).unwrap_or(tokens.len())];
            let bytes: Option<Vec<&[u8]>> =
                text.iter().map(|&t| self.vocabulary.bytes[t as usize].as_deref()).collect();
            tokens[text.len()..].iter().all(is_end) && bytes.is_some_and(|bytes| self.pattern.is_match(&bytes.concat()))
        })
    }

    /// Every valid filling of the masks of the spans, and its probability. Masks outside keep being masks.
    fn fillings(&self) -> Vec<(Vec<TokenId>, f64)> {
        let mut all = vec![(self.tokens.clone(), 1.0)];
        for (row, position) in self.masks().into_iter().enumerate() {
            if self.spans.iter().any(|span| span.contains(&position)) {
                let each = |(tokens, p): (Vec<TokenId>, f64)| {
                    (0..self.mask_id).map(move |token| {
                        let mut tokens = tokens.clone();
                        tokens[position] = token;
                        (tokens, p * self.probabilities[row][token as usize])
                    })
                };
                all = all.into_iter().flat_map(each).collect();
            }
        }
        all.retain(|(tokens, _)| self.is_valid(tokens));
        all
    }

    fn constrain(&mut self, proposal: &Proposal, step: usize) -> Vec<RowStats> {
        constrain(&mut self.grammar, &self.tokens, self.mask_id, &self.probabilities, proposal, step).unwrap()
    }
}

/// A grammar that is never asked.
fn nothing() -> Grammar {
    let (vocabulary, mask_id) = vocabulary(&["a"]);
    let automaton = TokenAutomaton::new(&Language::choices(&["a"]).unwrap(), &vocabulary).unwrap();
    Grammar::new(Arc::new(automaton), Vec::new(), &[], mask_id).unwrap()
}

#[test]
fn the_filling_is_the_best_and_statistics_are_the_exact_marginals() {
    let (mut tried, mut two_spans, mut given) = (0, 0, 0);
    for seed in 0..600 {
        let Some(mut case) = Case::new(seed, false) else { continue };
        let fillings = case.fillings();
        let total: f64 = fillings.iter().map(|f| f.1).sum();
        let best = fillings.iter().map(|f| f.1).fold(0.0, f64::max);
        let stats = case.constrain(&Proposal::greedy(), 0);
        let mut filled = case.tokens.clone();
        let close = |what: &str, got: f64, want: f64| {
            assert!((got - want).abs() < 1e-9, "seed {seed}: {what} is {got}, but should be {want}");
        };
        for (row, (&position, stats)) in case.masks().iter().zip(&stats).enumerate() {
            if !case.spans.iter().any(|span| span.contains(&position)) {
                assert_eq!(*stats, RowStats::new(TokenId::MAX, 0.25), "rows outside all spans are left alone");
                continue;
            }
            filled[position] = stats.token;
            let mut marginals = vec![0.0; case.mask_id as usize];
            fillings.iter().for_each(|(tokens, p)| marginals[tokens[position] as usize] += p / total);
            close("confidence", stats.confidence, marginals[stats.token as usize]);
            close("uncertainty", stats.uncertainty, 1.0 - marginals[stats.token as usize]);
            let entropy = marginals.iter().filter(|&&m| m > 0.0).map(|m| -m * m.ln()).sum();
            close("entropy", stats.entropy, entropy);
            let classes = class_row(case.grammar.classes(), &case.probabilities[row], 1.0);
            let mut likely: Vec<f64> = classes.iter().map(|class| marginals[class.token as usize]).collect();
            likely.push(0.0);
            likely.sort_by(|a, b| b.total_cmp(a));
            close("margin", stats.margin, likely[0] - likely[1]);
            if marginals.iter().filter(|&&m| m > 0.0).count() == 1 {
                assert_eq!(
                    (stats.confidence, stats.uncertainty, stats.entropy, stats.margin),
                    (1.0, 0.0, 0.0, 1.0),
                    "seed {seed}: forced"
                );
            }
        }
        assert!(case.is_valid(&filled), "seed {seed}: {filled:?}");
        let (_, p) = fillings.iter().find(|f| f.0 == filled).unwrap();
        close("the filling's probability over the best", p / best, 1.0);
        tried += 1;
        two_spans += usize::from(case.spans.len() == 2);
        given += usize::from(case.masks().len() < case.tokens.len());
    }
    assert!(tried > 250 && two_spans > 30 && given > 100, "{tried} {two_spans} {given}");
}

#[test]
fn any_subset_of_the_filling_can_be_completed_by_the_rest() {
    for seed in 0..200 {
        let Some(mut case) = Case::new(seed, seed % 2 == 0) else { continue };
        for temperature in [0.0, 1.0] {
            let proposal = Proposal::sampled(temperature, seed);
            let stats = case.constrain(&proposal, 0);
            let masks = case.masks();
            for subset in 0..1 << masks.len().min(4) {
                let mut some = case.tokens.clone();
                let mut rest = Vec::new();
                for (i, (&position, stats)) in
                    masks.iter().zip(&stats).enumerate().filter(|(_, (_, s))| s.token != TokenId::MAX)
                {
                    if subset >> i & 1 == 1 {
                        some[position] = stats.token;
                    } else {
                        rest.push((position, stats.token));
                    }
                }
                assert!(case.grammar.is_completable(&some, case.mask_id), "seed {seed}: {some:?}");
                rest.iter().for_each(|&(position, token)| some[position] = token);
                assert!(case.is_valid(&some), "seed {seed}: {some:?}");
            }
        }
    }
}

#[test]
fn what_has_no_probability_is_written_only_where_nothing_else_is_valid() {
    let mut without = 0;
    for seed in 1000..1400 {
        let Some(mut case) = Case::new(seed, true) else { continue };
        let best = case.fillings().iter().map(|f| f.1).fold(0.0, f64::max);
        let stats = case.constrain(&Proposal::greedy(), 0);
        let mut filled = case.tokens.clone();
        for (&position, s) in case.masks().iter().zip(&stats).filter(|(_, s)| s.token != TokenId::MAX) {
            filled[position] = s.token;
            for number in [s.confidence, s.uncertainty, s.margin] {
                assert!((0.0..=1.0).contains(&number), "seed {seed}: {s:?}");
            }
            assert!(s.entropy >= 0.0 && s.entropy.is_finite(), "seed {seed}: {s:?}");
        }
        assert!(case.is_valid(&filled), "seed {seed}");
        let p = case.fillings().iter().find(|f| f.0 == filled).unwrap().1;
        assert!((p - best).abs() <= 1e-12 * best, "seed {seed}: {p} is not {best}");
        without += usize::from(best == 0.0);
    }
    assert!(without > 10, "some cases have no filling with a probability: {without}");
}

/// At temperature 1, fillings come as often as their probability says. Classes are counted: which token of a class is written is the model's part.
#[test]
fn drawn_fillings_have_the_exact_frequencies() {
    let draws = 3000;
    let mut compared = 0;
    for seed in (0..40).chain(500..520) {
        let Some(mut case) = Case::new(seed, false) else { continue };
        let classes = case.grammar.classes().clone();
        let as_classes = |tokens: &[TokenId]| tokens.iter().map(|&t| classes.of(t)).collect::<Vec<_>>();
        let mut expected: HashMap<_, f64> = HashMap::new();
        let fillings = case.fillings();
        let total: f64 = fillings.iter().map(|f| f.1).sum();
        fillings.iter().for_each(|(tokens, p)| *expected.entry(as_classes(tokens)).or_default() += p / total);
        let mut seen: HashMap<_, usize> = HashMap::new();
        for step in 0..draws {
            let stats = case.constrain(&Proposal::sampled(1.0, 7), step);
            let mut filled = case.tokens.clone();
            for (&position, s) in case.masks().iter().zip(&stats).filter(|(_, s)| s.token != TokenId::MAX) {
                filled[position] = s.token;
            }
            *seen.entry(as_classes(&filled)).or_default() += 1;
        }
        assert!(seen.keys().all(|filling| expected.contains_key(filling)), "seed {seed}");
        // Fillings that are expected fewer than 5 times are counted together.
        let (mut chi, mut cells, mut rare) = (0.0, 0.0, (0.0, 0.0));
        for (filling, p) in &expected {
            let (want, got) = (p * draws as f64, seen.get(filling).copied().unwrap_or(0) as f64);
            if want < 5.0 {
                rare = (rare.0 + want, rare.1 + got);
            } else {
                chi += (got - want).powi(2) / want;
                cells += 1.0;
            }
        }
        if rare.0 > 5.0 {
            chi += (rare.1 - rare.0).powi(2) / rare.0;
            cells += 1.0;
        }
        // Mean k - 1, standard deviation sqrt(2 (k - 1)); five of them, once and for all seeds.
        let free: f64 = cells - 1.0;
        if free >= 1.0 {
            assert!(
                chi < free + 5.0 * (2.0 * free).sqrt(),
                "seed {seed}: chi-square {chi} with {free} degrees of freedom"
            );
            compared += 1;
        }
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn tokens_share_a_class_only_if_they_are_interchangeable_everywhere() {
    for seed in 0..150 {
        let Some(case) = Case::new(seed, false) else { continue };
        let classes = case.grammar.classes();
        // Every context of up to two tokens on either side, in a language of its own.
        let words: Vec<Vec<u8>> = case.vocabulary.bytes.iter().flatten().cloned().collect();
        let mut contexts: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..2 {
            let longer: Vec<Vec<u8>> =
                contexts.iter().flat_map(|c| words.iter().map(move |w| [&c[..], &w[..]].concat())).collect();
            contexts.extend(longer);
            contexts.sort();
            contexts.dedup();
        }
        let text = |t: usize| case.vocabulary.bytes[t].as_deref();
        for (a, b) in (0..words.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let same = contexts.iter().all(|before| {
                contexts.iter().all(|after| {
                    let fits = |t: usize| case.pattern.is_match(&[before, text(t).unwrap(), after].concat());
                    fits(a) == fits(b)
                })
            });
            if classes.by_token()[a] == classes.by_token()[b] {
                assert!(same, "seed {seed}: {:?} and {:?} share a class", text(a), text(b));
            }
            assert!(
                text(a) != text(b) || classes.by_token()[a] == classes.by_token()[b],
                "the same text is the same class"
            );
        }
    }
}

/// Two texts only: 200 times a, or b and 199 ends. Midway, one is e^1500 times as likely as the other; at the end it is even.
#[test]
fn probabilities_far_apart_are_not_lost() {
    let n = 200;
    let (vocabulary, mask_id) = vocabulary(&["a", "b"]); // 2 and 3 end
    let texts = ["a".repeat(n), "b".into()];
    let automaton = TokenAutomaton::new(&Language::choices(&texts).unwrap(), &vocabulary).unwrap();
    let tokens = vec![mask_id; n];
    let mut grammar = Grammar::new(Arc::new(automaton), vec![0..n], &tokens, mask_id).unwrap();
    // ln p of an `a` and of what the other text has there.
    let (mut first, mut second) = (0.0, 0.0);
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let (a, b): (f64, f64) = if i < n / 2 { (-15.5, -0.5) } else { (-0.5, -15.5) };
            let b = if i == 0 { b + 0.75 } else { b };
            first += a;
            second += b;
            let mut row = vec![0.0; mask_id as usize + 1];
            (row[0], row[if i == 0 { 1 } else { 2 }]) = (a.exp(), b.exp());
            row
        })
        .collect();
    let stats = constrain(&mut grammar, &tokens, mask_id, &rows, &Proposal::greedy(), 0).unwrap();
    let want = 1.0 / (1.0 + f64::exp(first - second));
    assert!((want - 0.679_178_699).abs() < 1e-6, "e^0.75 to 1: {want}");
    for (i, stats) in stats.iter().enumerate() {
        assert!(
            (stats.confidence - want).abs() < 1e-9 && (stats.uncertainty - (1.0 - want)).abs() < 1e-9,
            "{i}: {stats:?}"
        );
        assert_eq!(stats.token, if i == 0 { 1 } else { 2 });
    }
}
