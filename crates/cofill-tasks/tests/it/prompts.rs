use crate::goldens::{doc, lines, load, shared, str, text};
use cofill_tasks::benchmarks::{Benchmark, FEWSHOT_SEED, Variant};
use cofill_tasks::data::sha256;
use cofill_tasks::mt19937::Mt19937;
use serde_json::Value;
use std::num::NonZeroUsize;

#[test]
fn conformance_prompts() {
    if shared().is_none() {
        return;
    }
    let (mut literal, mut hashed) = (0, 0);
    let files =
        Benchmark::ALL.map(|task| (task, if task == Benchmark::Math500 { "minerva_math500" } else { task.name() }, 1));
    for (task, name, ranks) in files.into_iter().chain([(Benchmark::Gsm8k, "gsm8k_ws4", 4)]) {
        let loaded = load(task);
        assert_eq!(loaded.warnings(), Vec::<String>::new(), "the shared files are the known ones");
        let prompts = loaded.prompts(Variant { shots: None, ranks: NonZeroUsize::new(ranks).unwrap() }).unwrap();
        for golden in lines(&format!("prompts/{name}_first20.jsonl")) {
            let at = doc(&golden);
            assert_eq!(prompts.prompt(at).unwrap(), str(&golden, "prompt"), "{name} {at}");
            // The harness logs a list when a target looks like one.
            if golden["doc_to_target"].is_string() {
                assert_eq!(loaded.target(at).unwrap(), str(&golden, "doc_to_target"), "{name} {at}");
            }
            assert_eq!(golden["num_fewshot"], prompts.shots());
            let until: Vec<&str> = golden["generation_kwargs"]["until"]
                .as_array()
                .unwrap()
                .iter()
                .map(|stop| stop.as_str().unwrap())
                .collect();
            assert_eq!(until, task.until());
            literal += 1;
        }
        for golden in lines(&format!("prompts/{name}_first100_hashes.jsonl")) {
            let at = doc(&golden);
            let prompt = prompts.prompt(at).unwrap();
            assert_eq!(sha256(prompt.as_bytes()), str(&golden, "prompt_sha256"), "{name} {at}");
            if let Some(indices) = golden.get("fewshot_train_indices") {
                assert_eq!(serde_json::json!(prompts.examples(at)), *indices, "{name} {at}");
            }
            hashed += 1;
        }
    }
    println!("conformance: {literal} prompts to the byte, {hashed} by their hash");
    assert_eq!((literal, hashed), (120, 600));
}

/// The paper's appendix B: 100 of MATH500, 15 each about algebra and counting, 14 about every other subject.
#[test]
fn conformance_balanced_subset() {
    let Some(shared) = shared() else { return };
    let docs = load(Benchmark::Math500).balanced(100);
    assert!(docs.is_sorted() && docs.len() == 100);
    let rows = std::fs::read_to_string(shared.join("data/math500_test.jsonl")).unwrap();
    let subjects: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let mut counts = std::collections::BTreeMap::new();
    for doc in docs {
        *counts.entry(str(&subjects[doc], "subject")).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [15, 15, 14, 14, 14, 14, 14]);
    // Without subjects there is nothing to balance.
    assert_eq!(load(Benchmark::Gsm8k).balanced(5), [0, 1, 2, 3, 4]);
    println!("conformance: MATH500's balanced subset");
}

#[test]
fn conformance_rng() {
    if shared().is_none() {
        return;
    }
    let golden: Value = serde_json::from_str(&text("rng/python_random_seed1234.json")).unwrap();
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
