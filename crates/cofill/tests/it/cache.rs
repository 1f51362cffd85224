//! Decodes with a cache, on a denoiser whose staleness is known.

use crate::support::MASK;
use cofill::toy::Toy;
use cofill::trace::CacheMeter;
use cofill::{
    Cache, Canvas, Decode, Denoiser, Distributions, Error, Part, Prediction, Query, Result, SamplerSpec, Schedule,
    TokenId, generate,
};

/// Answers like the toy; a forward of a window is off by `drift` of the mass, which goes from the likeliest token to the second.
struct Stale {
    toy: Toy,
    drift: f32,
    asked: Vec<Part>,
}

impl Stale {
    fn new(length: usize, drift: f32) -> Stale {
        Stale { toy: Toy::phrases(length), drift, asked: Vec::new() }
    }
}

impl Denoiser for Stale {
    fn mask_id(&self) -> TokenId {
        self.toy.mask_id()
    }

    fn vocab(&self) -> usize {
        self.toy.vocab()
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let mut answers = self.toy.denoise(batch)?;
        for (query, answer) in batch.iter().zip(&mut answers) {
            let Some(reuse) = query.reuse else { continue };
            self.asked.push(reuse.part);
            match reuse.part {
                Part::All => reuse.cell.put(query.tokens.to_vec()),
                Part::Window { start, end } => {
                    let kept = reuse.cell.take::<Vec<TokenId>>().expect("a block begins with a full forward");
                    assert_eq!(kept.len(), query.tokens.len());
                    reuse.cell.put(kept);
                    assert!(query.rows.iter().all(|row| (start..end).contains(row)), "rows stand in the window");
                    answer.reused = query.tokens.len() - (end - start);
                    disturb(answer, self.drift)?;
                }
            }
        }
        Ok(answers)
    }
}

fn disturb(answer: &mut Prediction, drift: f32) -> Result<()> {
    for row in &mut answer.rows {
        let off = f64::from(drift) * row.confidence;
        row.confidence -= off;
        row.uncertainty += off;
    }
    let Some(distributions) = &answer.distributions else { return Ok(()) };
    let mut all = Vec::new();
    for row in 0..distributions.len() {
        let mut p = distributions.row(row).to_vec();
        let best = (0..p.len()).max_by(|&a, &b| p[a].total_cmp(&p[b])).unwrap();
        let moved = drift * p[best];
        p[best] -= moved;
        p[(best + 1) % distributions.vocab()] += moved;
        all.extend(p);
    }
    answer.distributions = Some(Distributions::new(distributions.vocab(), all)?);
    Ok(())
}

fn begin(sampler: &str, length: usize, block: usize, cache: Cache) -> Result<Decode> {
    let canvas = Canvas::prompt(&[], length, MASK);
    let builder = Decode::builder(canvas, sampler.parse::<SamplerSpec>()?.build()?);
    builder.schedule(Schedule::Blocks { len: block }).cache(cache).begin()
}

/// The positions of every step, the forwards, and what the cache did.
fn decode(model: &mut dyn Denoiser, sampler: &str, cache: Cache) -> (Vec<Vec<usize>>, usize, Option<CacheMeter>) {
    let mut decode = begin(sampler, 24, 8, cache).unwrap();
    let steps = generate(model, &mut decode).unwrap();
    assert_eq!(decode.nfe(), steps.iter().map(|step| step.forwards).sum::<usize>());
    let meter = decode.cache_meter().cloned();
    let partial = meter.as_ref().map_or(0, |meter| meter.partial_forwards);
    assert_eq!(partial, steps.iter().map(|step| step.partial).sum::<usize>());
    let positions = |step: &cofill::Step| step.commits.iter().map(|commit| commit.position).collect();
    (steps.iter().map(positions).collect(), decode.nfe(), meter)
}

#[test]
fn a_block_begins_with_everything_and_goes_on_with_its_window() {
    // Two of eight positions a step: four forwards a block.
    let window = |start, end| Part::Window { start, end };
    for (cache, end) in [(Cache::Prefix, [24, 24, 24]), (Cache::Dual, [8, 16, 24])] {
        let mut model = Stale::new(24, 0.0);
        let (_, nfe, meter) = decode(&mut model, "topk:2", cache);
        let block = |b: usize| [Part::All, window(8 * b, end[b]), window(8 * b, end[b]), window(8 * b, end[b])];
        assert_eq!(model.asked, (0..3).flat_map(block).collect::<Vec<_>>());
        let meter = meter.unwrap();
        // Nothing stands before the first block, so there prefix computes everything.
        let full = if cache == Cache::Prefix { 6 } else { 3 };
        assert_eq!((nfe, meter.full_forwards, meter.partial_forwards, meter.refreshes), (12, full, 12 - full, 0));
        // prefix: 24 x 3 + 3 x (24 + 16 + 8); dual: 24 x 3 + 9 x 8.
        let want = if cache == Cache::Prefix { 216 } else { 144 };
        assert_eq!((meter.positions, meter.computed, meter.checks), (288, want, 0));
        assert_eq!((meter.mean_kl, meter.flips), (None, None));
    }
}

#[test]
fn a_denoiser_that_keeps_nothing_answers_exactly() {
    for sampler in ["topk:2+ad", "eb:3", "threshold:0.4"] {
        let without = decode(&mut Toy::phrases(24), sampler, Cache::Off);
        for cache in [Cache::Prefix, Cache::Dual, Cache::Auto { budget: 0.1 }, Cache::Auto { budget: f64::INFINITY }] {
            let with = decode(&mut Toy::phrases(24), sampler, cache);
            assert_eq!((&with.0, with.1), (&without.0, without.1), "{sampler} {cache}");
            let meter = with.2.unwrap();
            assert_eq!((meter.partial_forwards, meter.checks, meter.computed), (0, 0, meter.positions));
        }
    }
}

#[test]
fn a_budget_of_nothing_computes_everything() {
    let without = decode(&mut Toy::phrases(24), "topk:2+ad", Cache::Off);
    let mut model = Stale::new(24, 0.5);
    let with = decode(&mut model, "topk:2+ad", Cache::Auto { budget: 0.0 });
    assert_eq!((with.0, with.1), (without.0, without.1));
    assert!(model.asked.iter().all(|part| *part == Part::All));
}

#[test]
fn no_cached_answer_is_used_at_an_age_that_was_not_measured() {
    // A fifth of the mass is moved: far over the budget at every check. So every step is decided by an exact answer, and what is spent on
    // checks grows rare: after 1, 2, 4, .. full forwards.
    let without = decode(&mut Toy::phrases(24), "topk:1", Cache::Off);
    let mut model = Stale::new(24, 0.2);
    let (steps, nfe, meter) = decode(&mut model, "topk:1", Cache::Auto { budget: 1e-3 });
    let meter = meter.unwrap();
    assert_eq!(steps, without.0);
    // Steps 1, 3, 6, 12 and 22 of 0..24 are checks: 1 comes first, then rests of 1, 2, 4, 8 full forwards that are not the first of a
    // block (8 and 16 are).
    let checks = 5;
    assert_eq!((meter.checks, meter.partial_forwards, meter.full_forwards, nfe), (checks, checks, 24, 24 + checks));
    assert!(meter.mean_kl.unwrap() > 1e-3 && meter.refreshes == 21);
}

#[test]
fn a_cache_within_its_budget_grows_old() {
    // Nothing is off, so the check of step 1 trusts age 2, and later ones more.
    let mut model = Stale::new(24, 0.0);
    let (steps, nfe, meter) = decode(&mut model, "topk:1", Cache::Auto { budget: 0.01 });
    let without = decode(&mut Toy::phrases(24), "topk:1", Cache::Off);
    let meter = meter.unwrap();
    assert_eq!(steps, without.0);
    // Block 0: full, check, 2 cached, check at age 3 (trusts 6), 3 cached. Block 1: full, 6 cached, check (trusts 14). Block 2: full, 7 cached.
    assert_eq!((meter.checks, meter.mean_kl, meter.flips), (3, Some(0.0), Some(0)), "{meter:?}");
    assert_eq!(nfe, 24 + meter.checks);
    assert!(meter.computed_share() < 0.62, "{meter:?}");
}

#[test]
fn an_infinite_budget_watches_and_changes_nothing() {
    let (dual, nfe, _) = decode(&mut Stale::new(24, 0.2), "topk:1+ad", Cache::Dual);
    let (steps, with, meter) = decode(&mut Stale::new(24, 0.2), "topk:1+ad", Cache::Auto { budget: f64::INFINITY });
    let meter = meter.unwrap();
    // 21 cached forwards: checks after 1, 2, 4 and 8 others, so beside number 2, 5, 10 and 19.
    assert_eq!((steps, with, meter.checks, meter.refreshes), (dual, nfe + 4, 4, 0));
    // p of the best falls by a fifth: p ln(p / .8p) and a little back from the other.
    assert!(meter.mean_kl.unwrap() > 0.01, "{meter:?}");
}

#[test]
fn what_is_measured_is_the_divergence_of_the_answers() {
    // All of the mass on one token, of which a fifth is moved: 1 ln (1 / .8) = .2231.
    let p = Distributions::new(2, vec![1.0, 0.0]).unwrap();
    let mut q = Prediction::default().distributions(p.clone());
    disturb(&mut q, 0.2).unwrap();
    let kl = cofill::divergence::kl(p.row(0), q.distributions.unwrap().row(0));
    assert!((kl - 1.25f64.ln()).abs() < 1e-6, "{kl}");
    let mut meter =
        CacheMeter { checks: 1, mean_kl: Some(0.1), max_kl: Some(0.1), flips: Some(1), ..CacheMeter::default() };
    meter.add(&CacheMeter { checks: 3, mean_kl: Some(0.5), max_kl: Some(0.9), ..CacheMeter::default() });
    assert_eq!((meter.checks, meter.mean_kl, meter.max_kl, meter.flips), (4, Some(0.4), Some(0.9), Some(1)));
}

#[test]
fn a_cache_is_refused_where_it_cannot_be_right() {
    let refused = |sampler: &str| match begin(sampler, 24, 8, Cache::Dual) {
        Err(error @ Error::NoCache { .. }) => error.to_string(),
        other => panic!("`{sampler}` is not refused: {other:?}"),
    };
    for (sampler, why) in [
        ("p2:6", "takes commits back"),
        ("punt", "looks ahead"),
        ("lookum:3", "looks ahead"),
        ("apd", "asks a companion"),
        ("klass", "beyond the block"),
        ("dawn", "beyond the block"),
        ("topk:2@experimental-dos", "beyond the block"),
    ] {
        let said = refused(sampler);
        assert!(said.starts_with("the cache `dual` cannot be right here: ") && said.contains(why), "{said}");
        assert!(said.ends_with("or turn the cache off"), "{said}");
    }
    let canvas = Canvas::prompt(&[], 24, MASK);
    let policy = "topk:2".parse::<SamplerSpec>().unwrap().build().unwrap();
    let said = Decode::builder(canvas, policy).cache(Cache::Prefix).begin().unwrap_err().to_string();
    assert!(said.contains("without blocks") && said.contains("decode in blocks"), "{said}");
}

#[test]
fn a_canvas_that_grows_keeps_its_account_and_begins_anew() {
    let mut model = Stale::new(16, 0.0);
    let canvas = Canvas::prompt(&[], 8, MASK);
    let policy = || "topk:2".parse::<SamplerSpec>().unwrap().build().unwrap();
    let mut short = Stale::new(8, 0.0);
    let builder = Decode::builder(canvas, policy()).schedule(Schedule::Blocks { len: 8 }).cache(Cache::Dual);
    let mut decode = builder.begin().unwrap();
    generate(&mut short, &mut decode).unwrap();
    let mut decode = decode.grow(8, policy()).unwrap();
    generate(&mut model, &mut decode).unwrap();
    assert_eq!(model.asked[0], Part::All);
    let meter = decode.cache_meter().unwrap();
    // 8 + 3 x 8 of a canvas of 8 (its window is all of it, and nothing is reused), then 16 + 3 x 8.
    assert_eq!((meter.positions, meter.computed), (4 * 8 + 4 * 16, 4 * 8 + 16 + 24));
}

#[test]
fn caches_are_read_as_they_are_printed() {
    for text in ["off", "prefix", "dual", "auto:0.01", "auto:0", "auto:inf"] {
        assert_eq!(text.parse::<Cache>().unwrap().to_string(), text);
    }
    let said = |text: &str| text.parse::<Cache>().unwrap_err().to_string();
    assert!(said("duel").contains("did you mean `dual`?"), "{}", said("duel"));
    for (text, want) in
        [("auto", "such as auto:0.01"), ("auto:-1", "0 or more"), ("auto:nan", "0 or more"), ("", "off, ")]
    {
        assert!(said(text).contains(want), "{}", said(text));
    }
}
