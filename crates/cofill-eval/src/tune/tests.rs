use super::*;
use cofill_report::statistics::bootstrap::Bootstrap;

/// A made-up sampler: how often it is right, and what it takes.
#[derive(Debug, Clone)]
struct Made {
    name: &'static str,
    right: f64,
    nfe: usize,
    seconds: f64,
}

fn made(name: &'static str, right: f64, nfe: usize) -> Made {
    Made { name, right, nfe, seconds: nfe as f64 / 100.0 }
}

/// Made-up samplers that answer: a prompt has a difficulty, the same for all, and a sampler some luck of its own with it.
struct MadeUp {
    samplers: Vec<Made>,
    seed: u64,
    /// What was asked, so that nobody is asked too much.
    asked: Vec<Job>,
    /// Seconds that have passed; every answer takes one.
    clock: f64,
}

impl MadeUp {
    fn new(samplers: &[Made], seed: u64) -> MadeUp {
        MadeUp { samplers: samplers.to_vec(), seed, asked: Vec::new(), clock: 0.0 }
    }
}

/// A number below 1 from what it is about.
fn noise(parts: [u64; 4]) -> f64 {
    let mix = |hash: u64, part: u64| {
        let mut x = hash ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    (parts.into_iter().fold(1, mix) >> 11) as f64 / (1u64 << 53) as f64
}

impl Answers for MadeUp {
    type Error = std::convert::Infallible;

    fn answers(&mut self, jobs: &[Job]) -> Result<Vec<Vec<Answer>>, Self::Error> {
        self.asked.extend(jobs);
        let mut all = Vec::new();
        for job in jobs {
            let Made { right, nfe, seconds, .. } = self.samplers[job.candidate];
            let mut answers: Vec<Answer> = Vec::new();
            for prompt in 0..job.prompts as u64 {
                let over = job.most_forwards.is_some_and(|most| (answers.len() * nfe) as f64 > most);
                if over || job.until.is_some_and(|until| self.elapsed() > until) {
                    break;
                }
                let (part, of) = (job.part as u64, job.candidate as u64);
                // Half of the luck is the prompt's.
                let draw = match noise([self.seed, part, prompt, 1000]) < 0.5 {
                    true => noise([self.seed, part, prompt, 2000]),
                    false => noise([self.seed, part, prompt, of]),
                };
                answers.push(Answer { score: f64::from(u8::from(draw < right)), nfe, filled: 48, seconds });
                self.clock += 1.0;
            }
            all.push(answers);
        }
        Ok(all)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.clock)
    }
}

/// The first is the default, and all are candidates.
fn field(samplers: &[Made]) -> Field {
    let names = samplers.iter().map(|made| made.name.to_owned()).collect();
    let candidates = (0..samplers.len()).collect();
    Field { samplers: names, candidates, default: 0, stand_ins: Vec::new(), given: false }
}

fn protocol(limit: usize, confirm: usize) -> Protocol {
    Protocol { bootstrap: Bootstrap { resamples: 200, seed: 0 }, ..Protocol::new(limit, confirm) }
}

fn find(samplers: &[Made], field: &Field, budget: Budget, seed: u64) -> Outcome {
    let mut answers = MadeUp::new(samplers, seed);
    search(field, budget, &protocol(128, 300), None, &mut answers, &mut |_| {}).unwrap()
}

const TWELVE: Budget = Budget::Forwards(12.0);

fn names(n: usize) -> Vec<Made> {
    (0..n).map(|i| made(Box::leak(format!("s{i}").into_boxed_str()), 0.5, 6)).collect()
}

#[test]
fn the_best_arm_is_found_and_confirmed() {
    let mut samplers = names(40);
    samplers[23] = made("good", 0.9, 11);
    for seed in 0..20 {
        let found = find(&samplers, &field(&samplers), TWELVE, seed);
        assert_eq!((found.best.as_deref(), found.verdict), (Some("good"), Verdict::Better), "seed {seed}");
        let Confirmation { best, default, difference } = found.confirmation.unwrap();
        assert_eq!((best.sampler.as_str(), default.sampler.as_str(), best.measured.prompts), ("good", "s0", 300));
        let gain = difference.unwrap();
        assert!(gain.p < 1e-6 && (gain.gain - 40.0).abs() < 12.0, "{gain:?}");
        assert!(!best.over_budget && (best.measured.score - 90.0).abs() < 6.0);
    }
}

/// With everybody alike, somebody looks best on the prompts that choose. The others must not say that he is better more often than the level
/// of the test allows: 2.5 % in this direction. Of 400 searches that is 10; 20 would have a chance of less than 0.3 %.
#[test]
fn nothing_wins_where_nothing_is_better() {
    let samplers = names(40);
    let better = (0..400).filter(|&seed| {
        let mut answers = MadeUp::new(&samplers, seed);
        let protocol = protocol(32, 100);
        let found = search(&field(&samplers), TWELVE, &protocol, None, &mut answers, &mut |_| {}).unwrap();
        found.verdict == Verdict::Better
    });
    let better = better.count();
    assert!(better <= 20, "{better} of 400");
}

/// The scores of the search flatter whoever was chosen, and those of the confirmation do not.
#[test]
fn only_the_confirmation_is_without_bias() {
    let samplers = names(40);
    let (mut chosen, mut confirmed) = (0.0, 0.0);
    for seed in 0..50 {
        let found = find(&samplers, &field(&samplers), TWELVE, seed);
        let best = found.candidates.iter().find(|candidate| Some(&candidate.sampler) == found.best.as_ref()).unwrap();
        chosen += best.rungs.last().unwrap().score / 50.0;
        confirmed += found.confirmation.unwrap().best.measured.score / 50.0;
    }
    // 50 means of 300 prompts: a standard error of 50 / sqrt(15000) = 0.4.
    assert!((confirmed - 50.0).abs() < 1.7, "{confirmed}");
    assert!(chosen > 53.0, "{chosen}");
}

#[test]
fn who_takes_more_than_the_budget_leaves() {
    let mut samplers = names(6);
    samplers[2] = made("perfect, slow", 1.0, 40);
    samplers[3] = made("a little over", 1.0, 13); // within the slack of every rung but the last
    samplers[4] = made("just fits", 0.9, 12);
    let mut answers = MadeUp::new(&samplers, 3);
    let found = search(&field(&samplers), TWELVE, &protocol(128, 300), None, &mut answers, &mut |_| {}).unwrap();
    assert_eq!((found.best.as_deref(), found.verdict), (Some("just fits"), Verdict::Better));
    let of = |name: &str| found.candidates.iter().find(|candidate| candidate.sampler == name).unwrap();
    let slow = of("perfect, slow");
    // 16 prompts may take 16 · 12 · 1.25 = 240 forwards: after seven answers there are 280.
    assert_eq!((slow.out, slow.rungs.len(), slow.rungs[0].prompts), (Some(Out::OverBudget), 1, 7));
    let over = of("a little over");
    assert_eq!((over.out, over.rungs.len()), (Some(Out::OverBudget), 4));
    assert!(!answers.asked.iter().any(|job| job.part == Part::Confirm && job.candidate == 2));
    // Every rung has the prompts of the one before, so nobody is asked for more than the last, and the losers for less.
    assert!(found.candidates.iter().all(|c| c.rungs.iter().zip([16, 32, 64, 128]).all(|(m, n)| m.prompts <= n)));
}

#[test]
fn when_nobody_fits_it_is_said() {
    let samplers: Vec<Made> = names(4).into_iter().map(|made| Made { nfe: 30, ..made }).collect();
    let found = find(&samplers, &field(&samplers), TWELVE, 0);
    assert_eq!((found.best, found.verdict, found.confirmation), (None, Verdict::NobodyFits, None));
    assert_eq!(found.default.role, Role::DefaultOverBudget);
}

/// The only ones within the slack are over the budget at the end: then the best of an earlier rung within it counts.
#[test]
fn finalists_over_the_budget_make_room() {
    let mut samplers = vec![made("default", 0.1, 30)];
    samplers.extend((0..12).map(|i| made(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][i], 0.95, 13)));
    samplers.push(made("fits", 0.3, 12));
    let found = find(&samplers, &field(&samplers), TWELVE, 5);
    assert_eq!(found.best.as_deref(), Some("fits"));
}

#[test]
fn ties_go_to_fewer_forwards_then_to_the_shorter_name() {
    // All are always right.
    let samplers = [
        made("the default", 1.0, 9),
        made("long name", 1.0, 4),
        made("short", 1.0, 4),
        made("abcde", 1.0, 4),
        made("x", 1.0, 5),
    ];
    let found = find(&samplers, &field(&samplers), TWELVE, 0);
    assert_eq!((found.best.as_deref(), found.verdict), (Some("abcde"), Verdict::NotBetter));
    let difference = found.confirmation.unwrap().difference.unwrap();
    assert_eq!((difference.p, difference.gain, difference.interval), (1.0, 0.0, None));
}

#[test]
fn the_default_may_be_the_best() {
    let mut samplers = names(5);
    samplers[0] = made("default", 0.95, 6);
    let found = find(&samplers, &field(&samplers), TWELVE, 1);
    assert_eq!((found.best.as_deref(), found.verdict), (Some("default"), Verdict::DefaultIsBest));
    let confirmation = found.confirmation.unwrap();
    assert_eq!((confirmation.difference, confirmation.best.clone()), (None, confirmation.default));
}

#[test]
fn the_best_parameter_stands_in_for_a_default_that_does_not_fit() {
    let mut samplers = vec![made("default", 0.9, 24)];
    samplers.extend([made("default, weak", 0.4, 4), made("default, strong", 0.7, 12), made("other", 0.95, 8)]);
    let field = Field { stand_ins: vec![1, 2], ..field(&samplers) };
    let found = find(&samplers, &field, TWELVE, 2);
    assert_eq!((found.default.sampler.as_str(), found.default.role), ("default, strong", Role::DefaultWithinBudget));
    assert_eq!((found.best.as_deref(), found.verdict), (Some("other"), Verdict::Better));
    // Whoever was named stays, and it is said.
    let given = Field { given: true, ..field };
    let found = find(&samplers, &given, TWELVE, 2);
    assert_eq!((found.default.sampler.as_str(), found.default.role), ("default", Role::GivenOverBudget));
    assert!(found.confirmation.unwrap().default.over_budget);
    // And a default that fits is compared as it is, however well others of its kind do.
    let found = find(&samplers, &Field { stand_ins: vec![1, 2], ..self::field(&samplers) }, Budget::Forwards(24.0), 2);
    assert_eq!((found.default.sampler.as_str(), found.default.role), ("default", Role::Default));
}

#[test]
fn seconds_are_a_budget_too() {
    let mut samplers = names(6);
    samplers[1] = Made { seconds: 3.0, ..made("slow", 1.0, 1) };
    samplers[2] = Made { seconds: 1.9, ..made("fits", 0.9, 50) };
    let found = find(&samplers, &field(&samplers), Budget::Seconds(2.0), 0);
    assert_eq!((found.best.as_deref(), found.verdict), (Some("fits"), Verdict::Better));
    assert_eq!(found.candidates[1].out, Some(Out::OverBudget));
}

#[test]
fn the_same_search_finds_the_same() {
    let mut samplers = names(20);
    samplers[7] = made("good", 0.7, 11);
    let both = [0, 0].map(|_| find(&samplers, &field(&samplers), TWELVE, 9));
    assert_eq!(both[0], both[1]);
}

#[test]
fn time_ends_a_search_honestly() {
    let mut samplers = names(10);
    samplers[4] = made("good", 0.95, 6);
    // Every answer takes a second. The first rung takes 160, the second 5 · 16 = 80 more; of 390 the search has 260.
    let limited = |seconds: u64| {
        let (mut answers, time) = (MadeUp::new(&samplers, 1), Some(Duration::from_secs(seconds)));
        search(&field(&samplers), TWELVE, &protocol(128, 300), time, &mut answers, &mut |_| {}).unwrap()
    };
    let found = limited(600);
    assert!(found.cut_short);
    assert_eq!(found.best.as_deref(), Some("good"));
    let confirmation = found.confirmation.unwrap();
    assert!(confirmation.best.measured.prompts < 300 && confirmation.best.measured.prompts > 0, "{confirmation:?}");
    assert_eq!(confirmation.best.measured.prompts, confirmation.default.measured.prompts);
    assert!(found.candidates.iter().any(|candidate| candidate.out == Some(Out::TimeUp)));
    // Not even one rung: nobody is known to fit, nor not to.
    let none = limited(30);
    assert_eq!((none.best, none.verdict, none.cut_short), (None, Verdict::Unconfirmed, true));
    // With time enough it is as without a limit.
    let all = limited(1_000_000);
    assert!(!all.cut_short);
    assert_eq!(all.confirmation.unwrap().best.measured.prompts, 300);
}

#[test]
fn rungs_and_what_is_kept() {
    assert_eq!(Protocol::new(128, 300).rungs, [16, 32, 64, 128]);
    assert_eq!(Protocol::new(128, 300).slack, [0.25, 0.1, 0.1, 0.0]);
    let few = Protocol::new(4, 4);
    assert_eq!((few.rungs.as_slice(), few.slack.as_slice()), (&[1, 2, 4][..], &[0.25, 0.1, 0.0][..]));
    assert_eq!((Protocol::new(1, 1).rungs, Protocol::new(1, 1).slack), (vec![1], vec![0.0]));
    assert_eq!([83, 42, 5, 3, 2, 0].map(|n| Protocol::new(8, 8).kept(n)), [42, 21, 3, 3, 2, 0]);
}
