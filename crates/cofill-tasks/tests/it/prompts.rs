use crate::goldens::{doc, golden, lines, own_gsm8k, str};
use cofill_tasks::benchmarks::{Benchmark, FEWSHOT_SEED, Variant};
use cofill_tasks::data::sha256;
use cofill_tasks::mt19937::Mt19937;
use serde_json::Value;
use std::num::NonZeroUsize;

#[test]
fn texts_prompts() {
    let Some(data) = cofill_goldens::texts("data") else { return };
    let (mut targets, mut hashed) = (0, 0);
    let files =
        Benchmark::ALL.map(|task| (task, if task == Benchmark::Math500 { "minerva_math500" } else { task.name() }, 1));
    for (task, name, ranks) in files.into_iter().chain([(Benchmark::Gsm8k, "gsm8k_ws4", 4)]) {
        let loaded = task.load(&data).unwrap();
        assert_eq!(loaded.warnings(), Vec::<String>::new(), "the shared files are the known ones");
        let prompts = loaded.prompts(Variant { shots: None, ranks: NonZeroUsize::new(ranks).unwrap() }).unwrap();
        for golden in lines(&golden(&format!("prompts/{name}_first20_targets.jsonl"))) {
            let at = doc(&golden);
            assert_eq!(sha256(loaded.target(at).unwrap().as_bytes()), str(&golden, "target_sha256"), "{name} {at}");
            let until: Vec<&str> =
                golden["until"].as_array().unwrap().iter().map(|stop| stop.as_str().unwrap()).collect();
            assert_eq!(until, task.until());
            targets += 1;
        }
        for golden in lines(&golden(&format!("prompts/{name}_first100_hashes.jsonl"))) {
            let at = doc(&golden);
            let prompt = prompts.prompt(at).unwrap();
            assert_eq!(sha256(prompt.as_bytes()), str(&golden, "prompt_sha256"), "{name} {at}");
            assert_eq!(golden["num_fewshot"], prompts.shots());
            if let Some(indices) = golden.get("fewshot_train_indices") {
                assert_eq!(serde_json::json!(prompts.examples(at)), *indices, "{name} {at}");
            }
            hashed += 1;
        }
    }
    println!("texts: {hashed} prompts to the byte, by their hash, and {targets} targets");
    assert_eq!((hashed, targets), (600, 120));
}

/// Which examples stand before a question depends on how many there are to draw from and on nothing else, so questions of our own do.
#[test]
fn conformance_few_shot_draws() {
    let data = own_gsm8k("draws", 7473, (0..100).map(|n| n.to_string()));
    let loaded = Benchmark::Gsm8k.load(&data).unwrap();
    let mut n = 0;
    for (name, ranks) in [("gsm8k", 1), ("gsm8k_ws4", 4)] {
        let prompts = loaded.prompts(Variant { shots: None, ranks: NonZeroUsize::new(ranks).unwrap() }).unwrap();
        for golden in lines(&golden(&format!("prompts/{name}_first100_hashes.jsonl"))) {
            let at = doc(&golden);
            assert_eq!(serde_json::json!(prompts.examples(at)), golden["fewshot_train_indices"], "{name} {at}");
            n += 1;
        }
    }
    println!("conformance: the examples of {n} questions of GSM8K, as the harness draws them");
    assert_eq!(n, 200);
}

/// The paper's appendix B: 100 of MATH500, 15 each about algebra and counting, 14 about every other subject.
#[test]
fn texts_balanced_subset() {
    let Some(data) = cofill_goldens::texts("data") else { return };
    let docs = Benchmark::Math500.load(&data).unwrap().balanced(100);
    assert!(docs.is_sorted() && docs.len() == 100);
    let subjects = lines(&data.join("math500_test.jsonl"));
    let mut counts = std::collections::BTreeMap::new();
    for doc in docs {
        *counts.entry(str(&subjects[doc], "subject")).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [15, 15, 14, 14, 14, 14, 14]);
    // Without subjects there is nothing to balance.
    assert_eq!(Benchmark::Gsm8k.load(&data).unwrap().balanced(5), [0, 1, 2, 3, 4]);
    println!("texts: MATH500's balanced subset");
}

#[test]
fn conformance_rng() {
    let golden = std::fs::read_to_string(golden("rng/python_random_seed1234.json")).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let list = |name: &str| golden[name].as_array().unwrap().clone();
    let fresh = || Mt19937::seeded(FEWSHOT_SEED);
    let expected = words_after(serde_json::from_value(golden["mt_state_after_seed"].clone()).unwrap());
    let mut random = fresh();
    assert!(expected.iter().all(|word| random.bits(32) == *word), "the state after seeding");
    let mut n = expected.len();
    for (name, bits) in [("getrandbits32_first64", 32), ("getrandbits13_first64", 13)] {
        let mut random = fresh();
        for expected in list(name) {
            assert_eq!(random.bits(bits), expected, "{name}");
            n += 1;
        }
    }
    let samples = [
        ("sample_range7473_k8_first40", 7473, 8),
        ("sample_range7473_k5_first10", 7473, 5),
        ("sample_range20_k8_first10_poolbranch", 20, 8),
    ];
    for (name, of, k) in samples {
        let mut random = fresh();
        for expected in list(name) {
            assert_eq!(serde_json::json!(random.sample(of, k)), expected, "{name}");
            n += 1;
        }
    }
    println!("conformance: {n} words, draws and samples of random.Random(1234)");
}

/// The 624 words that a Mersenne Twister in this state gives next (Matsumoto and Nishimura, 1998): `getstate()` shows a state,
/// the generator gives words.
fn words_after(mut state: Vec<u32>) -> Vec<u32> {
    let n = state.len();
    assert_eq!(n, 624);
    for i in 0..n {
        let y = (state[i] & 0x8000_0000) | (state[(i + 1) % n] & 0x7fff_ffff);
        state[i] = state[(i + 397) % n] ^ (y >> 1) ^ ((y & 1) * 0x9908_b0df);
    }
    let tempered = |y: u32| {
        let y = y ^ (y >> 11);
        let y = y ^ ((y << 7) & 0x9d2c_5680);
        let y = y ^ ((y << 15) & 0xefc6_0000);
        y ^ (y >> 18)
    };
    state.into_iter().map(tempered).collect()
}
