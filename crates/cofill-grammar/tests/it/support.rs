use cofill::{ClassStats, ClassTable, Constraint, ConstraintView, Proposal, RowStats, TokenClasses, TokenId};
use cofill_grammar::{Grammar, Vocabulary};
use std::time::{Duration, Instant};

/// Small seeded numbers, so that a failing case can be found again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How long this thread has computed; where the system does not say, the time that has passed.
pub(crate) fn busy(since: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// These texts as tokens, then an end token, a pad token and a mask, which is the last.
pub(crate) fn vocabulary(texts: &[&str]) -> (Vocabulary, TokenId) {
    let mut bytes: Vec<Option<Vec<u8>>> = texts.iter().map(|text| Some(text.as_bytes().to_vec())).collect();
    let end = bytes.len() as TokenId;
    bytes.extend([None, None, None]);
    (Vocabulary { bytes, ends: vec![end, end + 1] }, end + 2)
}

/// Every printable ASCII character, a line break, and the bytes of everything else.
pub(crate) fn characters() -> (Vocabulary, TokenId) {
    let mut bytes: Vec<Option<Vec<u8>>> = (0..=255u8).map(|byte| Some(vec![byte])).collect();
    bytes.extend([None, None]);
    (Vocabulary { bytes, ends: vec![256] }, 257)
}

/// What a row of probabilities says of the classes, computed plainly. `probabilities: [vocab]`; tokens are drawn by nothing: above temperature 0
/// this is only right for classes of one token.
pub(crate) fn class_row(classes: &TokenClasses, probabilities: &[f64], temperature: f64) -> Vec<ClassStats> {
    (0..classes.len())
        .map(|class| {
            let members: Vec<TokenId> =
                (0..probabilities.len() as TokenId).filter(|&t| classes.of(t) == Some(class)).collect();
            let p = |t: TokenId| probabilities[t as usize];
            let mass: f64 = members.iter().map(|&t| p(t)).sum();
            if mass == 0.0 {
                return ClassStats::none();
            }
            let best = *members.iter().reduce(|a, b| if p(*b) > p(*a) { b } else { a }).unwrap();
            let tempered: f64 = members.iter().map(|&t| p(t).powf(1.0 / temperature)).sum();
            let entropy = members.iter().map(|&t| p(t) / mass).filter(|&q| q > 0.0).map(|q| -q * q.ln()).sum();
            ClassStats {
                token: best,
                log_probability: p(best).ln(),
                log_mass: mass.ln(),
                log_tempered_mass: if temperature > 0.0 { tempered.ln() } else { mass.ln() },
                entropy,
            }
        })
        .collect()
}

/// What a grammar makes of these rows: `probabilities[row][token]`, one row for each mask.
pub(crate) fn constrain(
    grammar: &mut Grammar,
    tokens: &[TokenId],
    mask_id: TokenId,
    probabilities: &[Vec<f64>],
    proposal: &Proposal,
    step: usize,
) -> cofill::Result<Vec<RowStats>> {
    let rows: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] == mask_id).collect();
    let table = probabilities.iter().flat_map(|p| class_row(grammar.classes(), p, proposal.temperature)).collect();
    let classes = ClassTable::new(grammar.classes().len(), table).unwrap();
    let mut stats = vec![RowStats::new(TokenId::MAX, 0.25); rows.len()];
    let view = ConstraintView::new(tokens, mask_id, &rows, &classes, proposal, step);
    grammar.constrain(&view, &mut stats)?;
    Ok(stats)
}
