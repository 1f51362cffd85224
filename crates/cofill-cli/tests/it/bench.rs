use crate::run::run;

const SMALL: &str = "--hidden 32 --layers 2 --heads 4 --mlp 48 --vocab 100 --positions 24 --masked 10 --rounds 2";

#[test]
fn a_forward_is_split_into_parts_that_add_up() {
    for dtype in ["f32", "q8_0", "f16"] {
        let ran = run(&format!("bench forward {SMALL} --dtype {dtype} --plain --json"));
        let answer = ran.is_fine().json();
        assert_eq!(answer["dtype"], dtype);
        for step in [&answer, &answer["without_ad"]] {
            let part = |name: &str| step[name].as_f64().unwrap_or_else(|| panic!("{name}: {ran}"));
            let parts = ["body_ms", "final_layer_ms", "head_ms", "probe_ms", "select_ms"].map(part);
            // Reading attention off and choosing may take less than a microsecond here; the rest does not.
            assert!(parts[..3].iter().all(|&ms| ms > 0.0) && parts[3..].iter().all(|&ms| ms >= 0.0), "{ran}");
            // The rest is bookkeeping; each number is rounded to a microsecond.
            assert!(parts.iter().sum::<f64>() <= part("total_ms") + 0.006, "{ran}");
        }
        assert_eq!(answer["without_ad"]["probe_ms"], 0.0, "{ran}");
        assert!(answer["gflops"].as_f64().unwrap() > 0.0 && answer["plain_ms"].as_f64().unwrap() > 0.0, "{ran}");
    }
}

#[test]
fn the_table_names_both_samplers() {
    let ran = run(&format!("bench forward {SMALL} -s eb:1"));
    for word in ["eb:1 ", "eb:1+ad:40 ", "probe", "GFLOP/s", "peak memory", "fastest of 2"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
}

#[test]
fn logits_of_all_rows_never_exist_at_once() {
    // 512 rows x 126,464 ids are 259 MB in f32; weights are 2 x 126,464 x 64 floats and little else.
    let sizes = "--hidden 64 --layers 1 --heads 4 --mlp 64 --vocab 126464 --positions 512 --masked 512 --rounds 1";
    let ran = run(&format!("bench forward {sizes} --json"));
    let answer = ran.is_fine().json();
    let weights = answer["weights_mb"].as_f64().unwrap();
    assert!((weights - 64.9).abs() < 0.5, "{ran}");
    // Not every system tells.
    assert!(answer["binary_mb"].as_f64().unwrap() > 4.0, "with two models inside");
    if let Some(peak) = answer["peak_rss_mb"].as_f64() {
        assert!(peak < weights + 130.0, "{ran}");
    }
}

#[test]
fn impossible_sizes_are_refused() {
    run("bench forward --masked 600").is_refused(&["--masked", "600", "512"]);
    run("bench forward --masked 0").is_refused(&["--masked", "from 1 to"]);
    run("bench forward --heads 7").is_refused(&["1024", "7 heads"]);
    run("bench forward --vocab 2").is_refused(&["vocabulary", "3"]);
    run("bench forward --layers 0").is_refused(&["at least 1"]);
    for size in ["positions", "hidden", "vocab", "mlp", "layers", "heads"] {
        run(&format!("bench forward --{size} 4611686018427387904"))
            .is_refused(&["no model has these sizes", "16777216"]);
    }
    run("bench forward --hidden 1000000 --heads 10").is_refused(&["weights are more than"]);
    run("bench forward --rounds 0").is_refused(&["--rounds"]);
    run("bench forward --dtype int4").is_refused(&["--dtype", "q4k"]);
    run("bench forward -s klass").is_refused(&["klass", "+ad"]);
}

#[test]
fn the_overhead_is_a_ratio_with_an_interval() {
    let small = SMALL.replace("--rounds 2", "--pairs 6");
    let ran = run(&format!("bench overhead {small} -s topk:4 --json"));
    let answer = ran.is_fine().json();
    let number = |name: &str| answer[name].as_f64().unwrap_or_else(|| panic!("{name}: {ran}"));
    let interval = answer["interval"].as_array().unwrap();
    let [low, high] = [0, 1].map(|i| interval[i].as_f64().unwrap());
    assert!(low <= number("ratio") && number("ratio") <= high && low > 0.0, "{ran}");
    assert!(number("probe") >= 0.0 && number("select").is_finite(), "{ran}");
    assert_eq!((&answer["pairs"], &answer["sampler"]), (&6.into(), &"topk:4".into()));
    let ran = run("bench overhead -m tiny-dream --positions 40 --masked 20 --pairs 4");
    for word in ["tiny-dream", "ratio ", "median of 4 pairs", "topk:8+ad:40", "% choosing"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
}

#[test]
fn the_overhead_of_any_discount_can_be_measured() {
    let small = "--hidden 64 --layers 2 --heads 2 --mlp 64 --vocab 128 --positions 32 --masked 16 --pairs 2 --json";
    for sampler in ["topk:4+paths", "topk:4"] {
        let answer = run(&format!("bench overhead -s {sampler} {small}")).is_fine().json();
        assert_eq!(answer["sampler"], serde_json::json!("topk:4"), "without its discount");
        assert!(answer["select"].is_number() && answer["probe"].as_f64().unwrap() > 0.0, "{answer}");
    }
}

#[test]
fn an_overhead_that_cannot_be_measured_is_refused() {
    run("bench overhead -m toy").is_refused(&["`toy`", "no checkpoint"]);
    run("bench overhead -m tiny-llada --hidden 64").is_refused(&["--model", "--hidden"]);
    run("bench overhead -m tiny-llada --positions 9000").is_refused(&["--positions", "9000", "8192"]);
    run("bench overhead --masked 600").is_refused(&["--masked", "600", "512"]);
    run("bench overhead -s klass").is_refused(&["klass", "+ad"]);
    run("bench overhead --pairs 1").is_refused(&["--pairs"]);
}
