use crate::run::{Ran, goldens, run_with, scratch};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A folder with a LLaDA of two layers: hidden 64, two heads, vocabulary 40. Gone when dropped.
struct Folder(PathBuf);

const SIZES: [(&str, u64); 6] = [
    ("d_model", 64),
    ("n_layers", 2),
    ("n_heads", 2),
    ("mlp_hidden_size", 96),
    ("vocab_size", 40),
    ("max_sequence_length", 32),
];

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(scratch(name));
        let _ = std::fs::remove_dir_all(&folder.0);
        std::fs::create_dir_all(&folder.0).unwrap();
        let mut config = json!({
            "architectures": ["LLaDAModelLM"], "block_type": "llama", "activation_type": "silu",
            "layer_norm_type": "rms", "rope": true, "alibi": false, "attention_layer_norm": false,
            "input_emb_norm": false, "scale_logits": false, "include_bias": false, "bias_for_layer_norm": false,
            "include_qkv_bias": false, "weight_tying": false, "n_kv_heads": null, "embedding_size": null,
            "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "mask_token_id": 39, "eos_token_id": 38,
        });
        SIZES.iter().for_each(|(field, size)| config[*field] = json!(size));
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        folder.weights(|_| true);
        folder
    }

    /// Writes the tensors whose names pass: numbers that look random and are not.
    fn weights(&self, keep: impl Fn(&str) -> bool) {
        let mut names = vec![("wte.weight".to_owned(), vec![40, 64]), ("ff_out.weight".into(), vec![40, 64])];
        names.push(("ln_f.weight".into(), vec![64]));
        for i in 0..2 {
            for (leaf, shape) in [
                ("attn_norm", vec![64]),
                ("ff_norm", vec![64]),
                ("q_proj", vec![64, 64]),
                ("k_proj", vec![64, 64]),
                ("v_proj", vec![64, 64]),
                ("attn_out", vec![64, 64]),
                ("ff_proj", vec![96, 64]),
                ("up_proj", vec![96, 64]),
                ("ff_out", vec![64, 96]),
            ] {
                names.push((format!("blocks.{i}.{leaf}.weight"), shape));
            }
        }
        let (mut header, mut data) = (Map::new(), Vec::<u8>::new());
        for (name, shape) in names.iter().filter(|(name, _)| keep(name)) {
            let start = data.len();
            let n: u64 = shape.iter().product();
            let salt = name.bytes().map(u64::from).sum::<u64>();
            let value = |i: u64| ((i + salt).wrapping_mul(0x9e37_79b9) >> 7) % 256;
            data.extend((0..n).flat_map(|i| (value(i) as f32 / 512.0 - 0.25).to_le_bytes()));
            let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
            header.insert(format!("model.transformer.{name}"), entry);
        }
        let header = Value::Object(header).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        std::fs::write(self.join("model.safetensors"), bytes).unwrap();
    }

    fn join(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn models(args: &[&str]) -> Ran {
    run_with(&[&["models"], args].concat(), "")
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn inspect_says_what_a_folder_is() {
    let folder = Folder::new("models-inspect");
    let ran = models(&["inspect", &folder.name()]);
    let text = &ran.is_fine().stdout;
    // 2 · 40 · 64 of embedding and head, 64 of the final norm, and per layer 4 · 64² + 3 · 64 · 96 + 2 · 64.
    let parameters = 2 * 40 * 64 + 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64);
    for words in [
        "llada",
        &format!("{parameters} ("),
        "2 query, 2 key, width 32",
        "39, 38",
        "21: 21 F32",
        "none:", // no tokenizer, and why
        "as q4k; 15 matrices stay f16",
        "every tensor is there in its shape, and nothing else",
    ] {
        assert!(text.contains(words), "`{words}` is not said: {ran}");
    }
    assert!(!text.contains("blocks.1.k_proj.weight  F32"), "{ran}");
    let ran = models(&["inspect", &folder.name(), "--tensors"]);
    assert!(ran.is_fine().stdout.contains("model.transformer.blocks.1.k_proj.weight"), "{ran}");
    let answer = models(&["inspect", &folder.name(), "--json", "--tensors"]).is_fine().json();
    assert_eq!((&answer["parameters"], &answer["memory_bytes"]["f32"]), (&json!(parameters), &json!(parameters * 4)));
    assert_eq!((answer["kind"].as_str(), answer["layers"].as_u64()), (Some("folder"), Some(2)));
    assert_eq!((&answer["tokenizer"], &answer["chat_template"]), (&json!(false), &json!(false)));
    assert_eq!(answer["tensor_list"].as_array().unwrap().len(), 21);
    assert_eq!(answer["stays_f16"]["q4k"].as_array().unwrap().len(), 15, "seven matrices a layer, and the head");
}

#[test]
fn inspect_finds_what_is_missing_and_what_is_too_much() {
    let folder = Folder::new("models-incomplete");
    folder.weights(|name| name != "blocks.1.up_proj.weight");
    let ran = models(&["inspect", &folder.name()]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("tensor `model.transformer.blocks.1.up_proj.weight` is missing"), "{ran}");
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    folder.weights(|_| true);
    std::fs::write(folder.join("config.json"), config.replace("\"n_layers\":2", "\"n_layers\":1")).unwrap();
    let ran = models(&["inspect", &folder.name()]);
    assert_eq!(ran.code, 1, "{ran}");
    for words in
        ["`model.transformer.blocks.1.attn_norm.weight` (and 8 more) is stored", "no use for it", "superfluous"]
    {
        assert!(ran.stdout.contains(words), "{ran}");
    }
    std::fs::write(folder.join("config.json"), config.replace("\"d_model\":64", "\"d_model\":32")).unwrap();
    let answer = models(&["inspect", &folder.name(), "--json"]);
    assert_eq!(answer.code, 1);
    assert!(answer.json()["problems"][0].as_str().unwrap().contains("asks for [40, 32]"), "{answer}");
    std::fs::write(folder.join("config.json"), config.replace("\"n_layers\":2", "\"n_layers\":9999999")).unwrap();
    models(&["inspect", &folder.name()]).is_refused(&["most of 9999999 layers", "21 tensors"]);
    models(&["inspect", "nowhere"]).is_refused(&["nowhere", "is missing"]);
    models(&["inspect", &path(&folder.join("config.json"))]).is_refused(&["not a GGUF file"]);
}

#[test]
fn inspect_fails_with_a_broken_tokenizer_or_template_and_shows_the_rest() {
    let folder = Folder::new("models-broken-tokenizer");
    for (file, text, words) in [
        ("tokenizer.json", "{}", ["tokenizer", "`model` is null"]),
        ("chat_template.jinja", "{% for %}", ["chat template", "unusable"]),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
        let ran = models(&["inspect", &folder.name()]);
        assert_eq!(ran.code, 1, "{ran}");
        for words in words.into_iter().chain(["every tensor is there", "vocabulary", "memory"]) {
            assert!(ran.stdout.contains(words), "no `{words}` in {ran}");
        }
        assert_eq!(models(&["inspect", &folder.name(), "--json"]).code, 1);
        std::fs::remove_file(folder.join(file)).unwrap();
    }
    assert_eq!(models(&["inspect", &folder.name()]).code, 0, "to have neither is fine");
}

#[test]
fn what_files_say_cannot_drive_a_terminal() {
    let folder = Folder::new("models-escapes");
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    // Names in the header are JSON: an escape there is a control character once it is read.
    let (name, hostile) = ("model.transformer.wte.weight", r"model.\u001b[2J\u202ewte.weight");
    let text = String::from_utf8_lossy(&bytes[8..]).find(name).map(|at| at + 8).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) + (hostile.len() - name.len()) as u64;
    let rest = [&bytes[8..text], hostile.as_bytes(), &bytes[text + name.len()..]].concat();
    std::fs::write(folder.join("model.safetensors"), [&header.to_le_bytes()[..], &rest].concat()).unwrap();
    let drives = |text: &str| text.contains(['\u{1b}', '\u{202e}']);
    for more in [&[][..], &["--tensors"]] {
        let ran = models(&[&["inspect", &folder.name()], more].concat());
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stdout.contains(r"model.\u{1b}[2J\u{202e}wte.weight") && !drives(&ran.stdout), "{ran}");
    }
    // Errors name the tensor too.
    let ran = models(&["verify", &folder.name(), "--golden", &path(&folder.join("model.safetensors"))]);
    assert!(ran.code == 2 && !drives(&ran.stderr), "{ran}");
    std::fs::write(folder.join("chat_template.jinja"), "{{ 'a' | \u{1b}[31m }}").unwrap();
    let ran = models(&["inspect", &folder.name()]);
    assert!(ran.code == 1 && !drives(&ran.stdout), "{ran}");
}

#[test]
fn quantise_writes_a_file_that_answers_alike() {
    let folder = Folder::new("models-quantise");
    let out = path(&folder.join("out.gguf"));
    let ran = models(&["quantise", &folder.name(), &out, "--dtype", "f32"]);
    assert!(ran.is_fine().stdout.contains("21 tensors, f32"), "{ran}");
    assert!(ran.stderr.contains("warning: the file has no tokenizer"), "{ran}");
    let generate = |model: &str, more: &[&str]| {
        let args = ["generate", "-m", model, "--tokens", "1,2,M,M,M,7,M", "--json"];
        let mut answer = run_with(&[&args, more].concat(), "").is_fine().timeless();
        answer["model"] = Value::Null;
        answer
    };
    assert_eq!(generate(&folder.name(), &[]), generate(&out, &[]));

    models(&["quantise", &folder.name(), &out]).is_refused(&["out.gguf` exists", "--force"]);
    models(&["quantise", &folder.name(), &folder.name(), "--force"]).is_refused(&["is a folder"]);
    let ran = models(&["quantise", &folder.name(), &out, "--force", "--dtype", "q8_0"]);
    assert!(ran.is_fine().stdout.contains("q8_0"), "{ran}");
    assert_eq!(generate(&folder.name(), &["--dtype", "q8_0"]), generate(&out, &[]));
    assert_eq!(generate(&out, &["--dtype", "q8_0"]), generate(&out, &[]));
    let answer = models(&["inspect", &out, "--json"]).is_fine().json();
    assert_eq!((&answer["kind"], &answer["stored"]["Q8_0"]["tensors"]), (&json!("gguf"), &json!(15)));

    let ran = models(&["quantize", &folder.name(), &out, "--force"]);
    assert!(ran.is_fine().stdout.contains("15 tensors stayed f16"), "{ran}");
    assert!(ran.stdout.contains("  blk.1.ffn_down.weight\n"), "{ran}");
    let dense = models(&["quantise", &folder.name(), &out, "--force", "--dtype", "q5"]);
    dense.is_refused(&["expected f32, f16, bf16, q4k, q6k or q8_0"]);
    let nowhere = path(&folder.join("no/such/folder.gguf"));
    models(&["quantise", &folder.name(), &nowhere]).is_refused(&["OUT", "cannot write", "no/such/folder.gguf"]);
    models(&["quantise", "nowhere", &out, "--force"]).is_refused(&["nowhere"]);
    assert!(models(&["inspect", &out]).code == 0, "failures leave the file as it was");
    std::fs::write(folder.join("bad.gguf"), b"GGUF\x03\0\0\0").unwrap();
    let bad = path(&folder.join("bad.gguf"));
    run_with(&["generate", "-m", &bad, "-n", "4"], "").is_refused(&["bad.gguf", "truncated or damaged"]);
}

#[test]
fn verify_refuses_wrong_requests() {
    let folder = Folder::new("models-verify");
    let weights = path(&folder.join("model.safetensors"));
    models(&["verify", &folder.name(), "--golden", "nowhere"]).is_refused(&["nowhere", "the golden file is missing"]);
    models(&["verify", &folder.name(), "--golden", &weights]).is_refused(&["`<case>.input_ids` is missing"]);
    // A batch of nothing agrees with everything.
    let header = r#"{"a.input_ids":{"dtype":"I64","shape":[0,4],"data_offsets":[0,0]}}"#;
    let empty = folder.join("empty.safetensors");
    std::fs::write(&empty, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    models(&["verify", &folder.name(), "--golden", &path(&empty)]).is_refused(&["no sequence"]);
    let ran = models(&["verify", &folder.name(), "--golden", &weights, "--logits=-1"]);
    ran.is_refused(&["--logits must be 0 or more", "-1"]);
}

#[test]
fn a_type_that_does_not_fit_is_told_and_a_place_that_cannot_be_written_refused() {
    let folder = Folder::new("models-misfit");
    let out = path(&scratch("models-misfit.gguf"));
    let written = models(&["quantise", &folder.name(), &out, "--dtype", "q4k", "--force"]);
    // Rows of 64 and 96 weights, blocks of 256: all of them stay. Blocks of 32 fit.
    let says = "15 of 15 matrices have rows that cannot be cut into q4k's blocks of 256 weights";
    assert!(written.is_fine().stderr.contains(says) && written.stderr.contains("no time: take q8_0"), "{written}");
    let fits = models(&["quantise", &folder.name(), &out, "--dtype", "q8_0", "--force"]);
    assert!(!fits.is_fine().stderr.contains("cannot be cut"), "{fits}");
    let asked = run_with(&["generate", "-m", "tiny-llada", "--dtype", "q4k", "--max-nfe", "1"], "");
    assert!(asked.is_fine().stderr.contains("no time: take q8_0"), "{asked}");
    let asked = run_with(&["eval", "--task", "chain", "--limit", "1", "--dtype", "q4k", "--max-nfe", "1"], "");
    assert!(asked.is_fine().stderr.contains("no time: take q8_0"), "{asked}");
    for place in ["/nowhere/x.gguf", "/proc/x.gguf", "/dev"] {
        models(&["quantise", &folder.name(), place]).is_refused(&["OUT", place]);
    }
    let _ = std::fs::remove_file(&out);
}

#[test]
fn conformance_models_verify() {
    let goldens = goldens().join("models");
    for family in ["llada", "dream"] {
        let golden = path(&goldens.join(format!("{family}_forward.safetensors")));
        let folder = path(&goldens.join(format!("{family}_tiny_sharded")));
        let out = path(&scratch(&format!("conformance-{family}.gguf")));
        let inspect = models(&["inspect", &folder, "--json"]).is_fine().json();
        assert_eq!((&inspect["architecture"], &inspect["tokenizer"]), (&json!(family), &json!(true)));
        models(&["quantise", &folder, &out, "--dtype", "f32", "--force"]).is_fine();
        for model in [&folder, &out] {
            let ran = models(&["verify", model, "--golden", &golden]);
            assert!(ran.is_fine().stdout.ends_with("11 sequences, all pass\n"), "{ran}");
        }
        models(&["quantise", &folder, &out, "--dtype", "q8_0", "--force"]).is_fine();
        let ran = models(&["verify", &out, "--golden", &golden, "--json"]);
        assert_eq!((ran.code, &ran.json()["pass"]), (1, &json!(false)), "eight bits are not that exact");
        let ran = models(&["verify", &out, "--golden", &golden, "--json", "--logits", "0"]);
        assert_eq!(ran.json()["cases"][0]["deviations"]["logits"]["pass"], false);
        let other = if family == "llada" { "dream" } else { "llada" };
        let other = path(&goldens.join(format!("{other}_forward.safetensors")));
        assert_eq!(models(&["verify", &folder, "--golden", &other]).code, 1, "the other family's numbers");
        let _ = std::fs::remove_file(&out);
        println!("conformance: {family} through `cofill models inspect`, `quantise` and `verify`");
    }
}
