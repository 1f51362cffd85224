use crate::run::{run, scratch};

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
    run("bench forward --dtype f32,int4").is_refused(&["--dtype", "q4k"]);
    run("bench forward --dtype int4").is_refused(&["--dtype", "q4k"]);
    run("bench forward -s klass").is_refused(&["klass", "+ad"]);
}

#[test]
fn several_types_take_turns_and_answer_a_line_each() {
    let ran = run(&format!("bench forward {SMALL} --dtype q8_0,f32 --json"));
    let answers: Vec<serde_json::Value> =
        ran.is_fine().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.iter().map(|answer| &answer["dtype"]).collect::<Vec<_>>(), ["q8_0", "f32"]);
    for answer in &answers {
        for rounds in ["body_ms", "total_ms", "total_with_ad_ms"] {
            assert_eq!(answer["every_round"][rounds].as_array().unwrap().len(), 2, "{ran}");
        }
        assert!(answer["peak_rss_mb"].is_null(), "nobody's, with two models in memory: {ran}");
        assert_eq!(answer.get("peers"), None);
    }
}

#[test]
fn a_file_is_written_and_its_step_compared_with_a_small_model() {
    let path = scratch("bench-random.gguf");
    let file = path.display();
    let sizes = "--hidden 64 --layers 2 --heads 4 --mlp 64 --vocab 100 --context 32 --dtype q8_0";
    let ran = run(&format!("bench write {file} {sizes} --force"));
    assert!(ran.is_fine().stdout.contains("21 tensors, q8_0, random weights"), "{ran}");
    let inspected = run(&format!("models inspect {file} --json")).is_fine().json();
    assert_eq!((&inspected["architecture"], &inspected["context"]), (&"llada".into(), &32.into()));
    assert_eq!(inspected["problems"], serde_json::json!([]));

    let ran = run(&format!("bench forward --file {file} --positions 16 --masked 4 --rounds 1 --json"));
    let answer = ran.is_fine().json();
    let number = |name: &str| answer[name].as_f64().unwrap_or_else(|| panic!("{name}: {ran}"));
    for name in ["open_ms", "file_mb", "weights_mb", "inspect_mb", "total_ms", "gflops", "predicted_ms", "of_predicted"]
    {
        assert!(number(name) > 0.0, "{name}: {ran}");
    }
    assert_eq!((&answer["dtype"], answer["every_round_ms"].as_array().unwrap().len()), (&"q8_0".into(), 1));
    let ran = run(&format!("bench forward --file {file} --positions 16 --masked 4 --rounds 1"));
    for word in ["opened in", "`models inspect`", "measured / predicted"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
    run(&format!("bench forward --file {file} --hidden 64")).is_refused(&["--file", "--hidden"]);
    run(&format!("bench forward --file {file} --positions 64 --masked 4")).is_refused(&["--positions", "64", "32"]);
    run(&format!("bench forward --file {file} --positions 16 --masked 4 --dtype f32,f16")).is_refused(&["--dtype"]);
    run("bench forward --file nowhere.gguf").is_refused(&["nowhere.gguf"]);
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    run("bench write x.gguf --like LLaDA-9B").is_refused(&["--like", "LLaDA-9B", "models list"]);
    run("bench write x.gguf --like GSAI-ML/LLaDA-8B-Instruct --layers 33").is_refused(&["--layers", "33", "32"]);
    run("bench write x.gguf --like GSAI-ML/LLaDA-8B-Instruct --hidden 64").is_refused(&["--like", "--hidden"]);
    run("bench write x.gguf --heads 7").is_refused(&["1024", "7 heads"]);
    run("bench write /no/such/folder/x.gguf").is_refused(&["OUT"]);
}

#[test]
fn a_decode_counts_forwards_and_tokens() {
    let small = SMALL.replace("--rounds 2", "");
    // Random weights are unsure of everything, so `fast:1` commits one token a forward.
    for (flags, nfe, tokens) in
        [("", 10, 10), ("--tokens-per-forward 4", 3, 10), ("--block 4", 10, 10), ("--forwards 2", 2, 2)]
    {
        let block = if flags.contains("--block") { "" } else { "--block 0" };
        let ran = run(&format!("bench decode {small} {block} {flags} --rounds 2 --json"));
        let answer = ran.is_fine().json();
        let it = &answer["contenders"][0];
        assert_eq!(
            (&it["nfe"], &it["tokens"], &it["ratio"]),
            (&nfe.into(), &tokens.into(), &1.0.into()),
            "{flags}: {ran}"
        );
        assert_eq!(it["every_round_ms"].as_array().unwrap().len(), 2);
        for name in ["total_ms", "ms_per_forward", "tokens_per_second", "body_ms", "head_ms"] {
            assert!(it[name].as_f64().unwrap() > 0.0, "{name}: {ran}");
        }
    }
    let ran = run("bench decode -m tiny-llada --positions 40 --masked 20 --forwards 3");
    for word in ["tiny-llada", "fast:1, 40 positions, 20 masked, blocks of 32", "tokens/s"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
}

#[test]
fn caches_take_turns_in_a_decode() {
    let small = "--hidden 32 --layers 2 --heads 2 --mlp 48 --vocab 64 --positions 40 --masked 16 --block 8 --tokens-per-forward 4";
    let ran = run(&format!("bench decode {small} --cache off --cache dual --cache auto:inf --json"));
    let answer = ran.is_fine().json();
    let caches = &answer["contenders"];
    // Two blocks of eight, four tokens a forward: a full forward and a partial one each. What the first computes is 40 + 8 of 80 positions.
    assert_eq!((&caches[0]["name"], &caches[0]["cache"]), (&serde_json::json!("no cache"), &serde_json::Value::Null));
    let dual = &caches[1]["cache"];
    assert_eq!(
        (&dual["full_forwards"], &dual["partial_forwards"], &dual["computed"]),
        (&2.into(), &2.into(), &96.into())
    );
    assert!(caches[2]["cache"]["mean_kl"].as_f64().unwrap() >= 0.0, "{answer}");
    run("bench decode --cache duel").is_refused(&["--cache", "dual"]);
    run("bench decode --cache dual --block 0").is_refused(&["blocks"]);
}

#[test]
fn a_decode_that_cannot_be_measured_is_refused() {
    run("bench decode --masked 0").is_refused(&["--masked"]);
    run("bench decode -s topk:2 --tokens-per-forward 4").is_refused(&["--sampler", "--tokens-per-forward"]);
    run("bench decode --tokens-per-forward 0").is_refused(&["--tokens-per-forward"]);
    run("bench decode -m toy").is_refused(&["`toy`", "no checkpoint"]);
    run("bench decode --rounds 0").is_refused(&["--rounds"]);
}

#[test]
fn choosing_is_measured_next_to_the_printed_formula() {
    let ran = run(&format!("bench select {SMALL} --candidates 10,64 --chosen 8,64 --json"));
    let answer = ran.is_fine().json();
    let cells = answer["cells"].as_array().unwrap();
    // Three rules; of 10 candidates, 64 cannot be chosen.
    assert_eq!(cells.len(), 9, "{ran}");
    for cell in cells {
        for name in ["us", "printed_us", "ratio", "share"] {
            assert!(cell[name].as_f64().unwrap() > 0.0, "{name}: {ran}");
        }
    }
    assert!(answer["forward_ms"].as_f64().unwrap() > 0.0 && answer["goal"] == 0.001, "{ran}");
    let ran = run(&format!("bench select {SMALL} --candidates 16 --chosen 2"));
    for word in ["topk+ad", "fast+ad", "eb+ad", "printed us", "goal"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
    run("bench select --candidates 0").is_refused(&["--candidates"]);
    run("bench select --chosen x").is_refused(&["--chosen"]);
}

#[test]
fn growth_has_an_exponent_for_every_axis() {
    let small = "--hidden 32 --heads 4 --mlp 48 --vocab 64 --positions 32 --masked 8 --most-positions 2048 --rounds 1";
    let ran = run(&format!("bench growth {small} --json"));
    let answer = ran.is_fine().json();
    let axes = answer["axes"].as_array().unwrap();
    let names: Vec<&str> = axes.iter().map(|axis| axis["axis"].as_str().unwrap()).collect();
    assert_eq!(names, ["positions", "masks", "batch", "vocab", "layers"]);
    let values = |axis: usize| -> Vec<u64> {
        axes[axis]["points"].as_array().unwrap().iter().map(|point| point["value"].as_u64().unwrap()).collect()
    };
    assert_eq!(values(0), [128, 256, 512, 1024, 2048]);
    assert_eq!(values(1), [2, 4, 8, 16, 32]);
    assert_eq!(values(4), [2, 3, 5, 9]);
    let exponents: Vec<usize> = axes.iter().map(|axis| axis["exponents"].as_array().unwrap().len()).collect();
    assert_eq!(exponents, [2, 1, 1, 1, 1], "positions below and above 1,024");
    for point in axes.iter().flat_map(|axis| axis["points"].as_array().unwrap()) {
        assert!(point["total_ms"].as_f64().unwrap() > 0.0 && point["weights_mb"].as_f64().unwrap() > 0.0, "{ran}");
    }
    let ran = run(&format!("bench growth {small} --axis layers --axis layers"));
    assert_eq!(ran.is_fine().stdout.matches("exponent").count(), 1, "{ran}");
}

#[test]
fn growth_that_cannot_be_measured_is_refused() {
    run("bench growth --axis width").is_refused(&["--axis", "positions, masks, batch, vocab or layers"]);
    run("bench growth --masked 600").is_refused(&["--masked", "600", "512"]);
    run("bench growth --masked 0").is_refused(&["--masked", "from 1 to"]);
    run("bench growth --heads 7 --axis batch").is_refused(&["512", "7 heads"]);
    run("bench growth --rounds 0").is_refused(&["--rounds"]);
}

#[test]
fn a_peer_must_be_one_that_is_known_and_there() {
    run("bench forward --peer jax").is_refused(&["--peer", "torch or llama.cpp"]);
    run("bench forward --peer-python python3").is_refused(&["--peer"]);
    run(&format!("bench forward {SMALL} --peer torch --peer-python /no/such/python")).is_refused(&[
        "--peer torch",
        "/no/such/python",
        "--peer-python",
    ]);
    run(&format!("bench forward {} --peer torch", SMALL.replace("--layers 2", "--layers 1")))
        .is_refused(&["--layers", "--peer"]);
    run("bench errors").is_refused(&["--peer llama.cpp"]);
    run("bench errors --peer torch").is_refused(&["--peer llama.cpp"]);
    run("bench errors --peer llama.cpp --inputs 100").is_refused(&["--inputs", "100", "64"]);
}

#[cfg(unix)]
mod peers {
    //! The protocol, with a script in the place of Python.
    use super::SMALL;
    use crate::run::{run, scratch};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn python(name: &str, body: &str) -> PathBuf {
        let path = scratch(&format!("fake-python-{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_peer_takes_its_turn_in_every_round() {
        let log = scratch("fake-python-orders");
        let _ = std::fs::remove_file(&log);
        let body = r#"echo '{"package": "it", "version": "9.9"}'
            while read -r line; do
              echo "$line" >> LOG
              case "$line" in
                *'"do":"time"'*) echo '{"ms": {"slow": 9000.0, "quick": 7000.0}}' ;;
                *'"do":"argmax"'*) echo '{"argmax": {"slow": [300, 300]}}' ;;
                *) echo '{"kernels": "some"}' ;;
              esac
            done"#;
        let python = python("turns", &body.replace("LOG", &log.display().to_string()));
        let line = format!("bench forward {SMALL} --dtype f32,q8_0 --peer torch --peer llama.cpp --peer torch");
        let ran = run(&format!("{line} --peer-python {} --json", python.display()));
        let answers: Vec<serde_json::Value> =
            ran.is_fine().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), 2);
        for answer in &answers {
            let peers = answer["peers"].as_array().unwrap();
            assert_eq!(peers.len(), 2, "torch, once, and llama.cpp in the same type: {ran}");
            assert_eq!((&peers[0]["peer"], &peers[0]["dtype"]), (&"torch 9.9".into(), &"f32".into()));
            assert_eq!((&peers[1]["peer"], &peers[1]["dtype"]), (&"llama.cpp 9.9".into(), &answer["dtype"]));
            // None of its rows is ours: no token has the number 300.
            assert_eq!(peers[1]["argmax"], serde_json::json!({"rows": 24, "equal": 0}));
            for peer in peers {
                assert_eq!((&peer["way"], &peer["body_ms"]), (&"quick".into(), &7000.0.into()), "{ran}");
                let rounds = peer["every_round_ms"]["slow"].as_array().unwrap();
                assert_eq!(rounds.len(), 2, "{ran}");
                let ours = peer["our_body_ms"].as_f64().unwrap();
                assert!((peer["ratio"].as_f64().unwrap() - 7000.0 / ours).abs() < 1e-6 * 7000.0 / ours, "{ran}");
            }
        }
        let orders: Vec<serde_json::Value> =
            std::fs::read_to_string(&log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let body = orders.iter().find(|order| order["do"] == "body").unwrap();
        // Two layers are a body of one block.
        let want = serde_json::json!({"do": "body", "hidden": 32, "blocks": 1, "heads": 4, "mlp": 48, "positions": 24});
        assert_eq!(*body, want);
        let opened: Vec<_> = orders.iter().filter(|order| order["do"] == "open").collect();
        assert_eq!(opened.len(), 2);
        let files = opened.iter().map(|order| order["file"].as_str().unwrap());
        assert!(files.into_iter().all(|file| !std::path::Path::new(file).exists()), "removed when it was read");
        assert_eq!(orders.iter().filter(|order| order["do"] == "time").count(), 6, "three contenders, two rounds");

        let ran = run(&format!("{line} --peer-python {}", python.display()));
        for word in [
            "body: 1 blocks, all 24 rows",
            "torch 9.9, f32",
            "llama.cpp 9.9, q8_0",
            "quick; the same argmax in 0 of 24",
        ] {
            assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
        }
    }

    #[test]
    fn a_package_that_is_missing_is_said_with_the_remedy() {
        let python = python("missing", r#"echo '{"missing": "torch (No module named torch)"}'"#);
        run(&format!("bench forward {SMALL} --peer torch --peer-python {}", python.display())).is_refused(&[
            "cannot import torch",
            "-m pip install torch",
            "--peer-python",
        ]);
        run(&format!("bench errors --peer llama.cpp --peer-python {}", python.display()))
            .is_refused(&["-m pip install llama-cpp-python"]);
    }

    #[test]
    fn a_peer_that_breaks_down_is_a_failed_run() {
        let hello = r#"echo '{"version": "1"}'; read -r line"#;
        for (name, body, says) in [
            ("dies", "echo boom >&2; exit 3".to_owned(), "it ended without an answer; it said: boom"),
            ("babbles", "echo hello".to_owned(), "`hello`, which is no JSON object"),
            ("list", "echo '[1]'".to_owned(), "no JSON object"),
            ("cut", "printf '{'".to_owned(), "answered without an end"),
            ("error", format!("{hello}; echo '{{\"error\": \"out of memory\"}}'"), "out of memory"),
            (
                "timeless",
                format!("{hello}; echo '{{}}'; read -r line; echo '{{\"ms\": {{}}}}'"),
                "without milliseconds",
            ),
            (
                "negative",
                format!("{hello}; echo '{{}}'; read -r line; echo '{{\"ms\": {{\"\": -1}}}}'"),
                "without milliseconds",
            ),
        ] {
            let python = python(name, &body);
            let ran = run(&format!("bench forward {SMALL} --peer torch --peer-python {}", python.display()));
            assert_eq!((ran.code, &*ran.stdout), (1, ""), "{name}: {ran}");
            assert!(ran.stderr.contains("--peer torch") && ran.stderr.contains(says), "{name}: {ran}");
        }
    }

    /// The real ones, where COFILL_PEER_PYTHON names a Python that has them.
    #[test]
    fn installed_peers_compute_the_same() {
        if std::env::var_os("COFILL_PEER_PYTHON").is_none() {
            return;
        }
        let sizes = "--hidden 256 --layers 3 --heads 4 --mlp 256 --positions 64 --masked 8 --rounds 1";
        let ran = run(&format!("bench forward {sizes} --dtype f32,f16,q8_0,q4k --peer torch --peer llama.cpp --json"));
        for line in ran.is_fine().stdout.lines() {
            let answer: serde_json::Value = serde_json::from_str(line).unwrap();
            let argmax = &answer["peers"][1]["argmax"];
            let [rows, equal] = ["rows", "equal"].map(|name| argmax[name].as_u64().unwrap());
            // Random weights make near ties, in which activations of 8 bits and of 32 may choose differently.
            assert!(equal * 10 >= rows * 9, "{line}");
        }
        let ran = run("bench errors --peer llama.cpp --rows 16 --outputs 64 --dtype q8_0,q4k --json");
        for line in ran.is_fine().stdout.lines() {
            let answer: serde_json::Value = serde_json::from_str(line).unwrap();
            let [ours, theirs] = ["our_error", "peer_error"].map(|name| answer[name].as_f64().unwrap());
            assert!(ours > 0.0 && ours <= theirs * 1.001, "{line}");
        }
    }
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
    assert_eq!(answer["goals"], serde_json::json!({"ad": 0.01, "select": 0.001}));
    let ran = run("bench overhead -m tiny-dream --positions 40 --masked 20 --pairs 4");
    for word in ["tiny-dream", "ratio ", "median of 4 pairs", "topk:8+ad:40", "% choosing", "goals: +ad"] {
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
