//! Causal language models beside a diffusion model: their forward, and who may stand beside whom.

use crate::checkpoint::Folder;
use cofill::{Denoiser, Proposal, Query};
use cofill_model::{Checkpoint, Companion, Error, Kernels, LoadOptions, Model};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn open(path: &Path) -> Checkpoint {
    Checkpoint::open(path).unwrap()
}

/// tiny-llada with a companion.
fn duo(companion: &Path) -> Model {
    let mut model = Model::load(&root().join("models/tiny-llada")).unwrap();
    let companion = Companion::of(&open(companion), LoadOptions::default(), model.mask_id()).unwrap();
    model.accompany(Some(companion));
    model
}

/// What the companion says about some rows. `[rows][vocab]`
fn consult(model: &mut Model, tokens: &[u32], rows: &[usize]) -> Vec<Vec<f32>> {
    let proposal = Proposal::greedy();
    let query = Query::new(tokens, rows, &proposal).distributions(true).companion(true);
    let p = model.consult(&[query]).unwrap().remove(0).distributions.unwrap();
    (0..rows.len()).map(|row| p.row(row).to_vec()).collect()
}

#[test]
fn tiny_causal_says_what_pytorch_says() {
    let mut model = duo(&root().join("models/tiny-causal"));
    let text = std::fs::read_to_string(root().join("fixtures/tiny/tiny-causal.jsonl")).unwrap();
    let mut cases = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let tokens: Vec<u32> =
            case["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let rows: Vec<usize> =
            case["rows"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize).collect();
        for (got, want) in consult(&mut model, &tokens, &rows).iter().zip(case["logits"].as_array().unwrap()) {
            let want: Vec<f64> = want.as_array().unwrap().iter().map(|l| l.as_f64().unwrap()).collect();
            let sum: f64 = want.iter().map(|l| l.exp()).sum();
            for (id, (got, want)) in got.iter().zip(&want).enumerate() {
                let want = want.exp() / sum;
                assert!((f64::from(*got) - want).abs() < 1e-5, "{} {id}: {got}, not {want}", case["task"]);
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 15);
}

/// The fixture's weights as a causal model, without the fields that a published one may lack.
fn causal(name: &str) -> Folder {
    let fixture = root().join("fixtures/qwen").join(name);
    let mut config = crate::support::json(&fixture.join("config.json"));
    config["architectures"] = json!([if name == "qwen2" { "Qwen2ForCausalLM" } else { "Qwen3ForCausalLM" }]);
    config["max_position_embeddings"] = json!(128);
    let fields = config.as_object_mut().unwrap();
    fields.remove("mask_token_id");
    fields.remove("rope_scaling");
    let folder = Folder::new();
    folder.put("config.json", config.to_string());
    folder.put("model.safetensors", std::fs::read(fixture.join("model.safetensors")).unwrap());
    folder
}

#[test]
fn nobody_sees_what_comes_after() {
    for name in ["qwen2", "qwen3"] {
        let folder = causal(name);
        let vocab = open(folder.path()).companion_config(0).unwrap().vocab as u32;
        // The mask is the model's business; 0 keeps every other id proposable.
        let load = |kernels: Kernels| {
            let mut model = duo(&root().join("models/tiny-causal"));
            model.accompany(Some(Companion::of(&open(folder.path()), LoadOptions::default(), 0).unwrap()));
            model.companion_mut().unwrap().transformer_mut().set_kernels(kernels);
            model
        };
        let mut model = load(Kernels::Slices);
        // Longer than one task of 64 queries, so that later chunks know their positions.
        let tokens: Vec<u32> = (0..80).map(|i| 1 + (i * 7 + i * i) % (vocab - 1)).collect();
        let rows: Vec<usize> = (1..80).collect();
        let whole = consult(&mut model, &tokens, &rows);
        for end in [2, 17, 65, 78] {
            let mut other = tokens.clone();
            other[end..].fill(5);
            let changed = consult(&mut model, &other, &rows);
            let cut = consult(&mut model, &tokens[..=end], &rows[..end]);
            for row in 0..end {
                // Position row + 1 is predicted by what stands before it, so up to `end` nothing may move.
                assert_eq!(whole[row], changed[row], "{name}: position {} sees {end}", row + 1);
                let off = whole[row].iter().zip(&cut[row]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 1e-5, "{name}: position {} of {end}: {off}", row + 1);
            }
            assert_ne!(whole[78], changed[78], "{name}: but the last one sees it");
        }
        let by_ops = consult(&mut load(Kernels::Ops), &tokens, &rows);
        let off = whole.iter().flatten().zip(by_ops.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-5, "{name}: the two kernels differ by {off}");
    }
}

#[test]
fn a_causal_model_fills_no_masks_and_a_diffusion_model_accompanies_nobody() {
    let (causal, llada) = (open(&root().join("models/tiny-causal")), open(&root().join("models/tiny-llada")));
    let said = Model::of(&causal, LoadOptions::default()).err().unwrap();
    assert!(matches!(&said, Error::Causal { given, .. } if given == "Qwen2ForCausalLM"), "{said}");
    assert!(said.to_string().contains("companion"), "{said}");
    let said = Companion::of(&llada, LoadOptions::default(), 411).err().unwrap();
    assert!(matches!(&said, Error::NotACompanion { given, .. } if given == "LLaDAModelLM"), "{said}");
    let mut alone = Model::of(&llada, LoadOptions::default()).unwrap();
    let proposal = Proposal::greedy();
    let asked = alone.consult(&[Query::new(&[5, 411], &[1], &proposal).companion(true)]);
    assert!(matches!(asked, Err(cofill::Error::NoCompanion)));
}

#[test]
fn ids_must_mean_the_same_tokens() {
    let llada = open(&root().join("models/tiny-llada"));
    let (model, tokenizer) = (Model::of(&llada, LoadOptions::default()).unwrap(), llada.tokenizer().unwrap());
    let check = |folder: &Path, tokenizer| {
        let companion = Companion::of(&open(folder), LoadOptions::default(), model.mask_id())?;
        companion.check_vocabulary(tokenizer, &model)
    };
    assert!(check(&root().join("models/tiny-causal"), Some(&tokenizer)).is_ok());
    // Two words change places.
    let folder = Folder::new();
    for file in ["config.json", "model.safetensors", "tokenizer_config.json", "tokenizer.json"] {
        folder.put(file, std::fs::read(root().join("models/tiny-causal").join(file)).unwrap());
    }
    let text = std::fs::read_to_string(root().join("models/tiny-causal/tokenizer.json")).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    (json["model"]["vocab"]["7"], json["model"]["vocab"]["8"]) =
        (json["model"]["vocab"]["8"].clone(), json["model"]["vocab"]["7"].clone());
    folder.put("tokenizer.json", json.to_string());
    match check(folder.path(), Some(&tokenizer)).unwrap_err() {
        Error::OtherVocabulary { companion, model, .. } => assert_eq!((&*companion, &*model), ("8", "7")),
        other => panic!("{other}"),
    }
    // Without tokenizers, sizes are all that can be compared.
    let qwen = causal("qwen2");
    let vocab = open(qwen.path()).companion_config(0).unwrap().vocab;
    match Companion::of(&open(qwen.path()), LoadOptions::default(), 0).unwrap().check_vocabulary(None, &model) {
        Err(Error::OtherSize { companion, model: 412 }) => assert_eq!(companion, vocab),
        other => panic!("{other:?}"),
    }
}
