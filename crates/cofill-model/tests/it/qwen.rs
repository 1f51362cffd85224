use crate::checkpoint::Folder;
use crate::faults::{refusal, refused};
use candle_core::{DType, Device, Tensor};
use cofill::{Denoiser, Layers, Proposal, Query};
use cofill_model::{Config, Error, Family, Model};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What `tools/qwen_fixture.py` made.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen").join(name)
}

fn config(name: &str) -> Value {
    crate::support::json(&fixture(name).join("config.json"))
}

/// The fixture's weights with a configuration of our own.
fn folder(name: &str, config: &Value) -> Folder {
    let folder = Folder::new();
    folder.put("config.json", config.to_string());
    folder.put("model.safetensors", std::fs::read(fixture(name).join("model.safetensors")).unwrap());
    folder
}

fn flat(expected: &HashMap<String, Tensor>, name: &str) -> Vec<f64> {
    expected[name].flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

#[track_caller]
fn near(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(got, want)| (got - want).abs()).fold(0.0, f64::max);
    assert!(worst <= tolerance, "{what} is off by {worst:e}, more than {tolerance:e}");
}

/// Logits, statistics and attention of every layer, for all rows of every canvas.
fn check(name: &str, shift: bool) {
    let mut said = config(name);
    if shift {
        said["right_shift_logits"] = json!(true);
    }
    let mut model = Model::load(folder(name, &said).path()).unwrap();
    assert_eq!(model.config().shift, shift);
    let expected = candle_core::safetensors::load(fixture(name).join("expected.safetensors"), &Device::Cpu).unwrap();
    let mut checked = 0;
    for canvas in ["suffix", "infill", "whole", "one"] {
        let tokens: Vec<u32> = flat(&expected, &format!("{canvas}.tokens")).iter().map(|&id| id as u32).collect();
        if shift && tokens[0] == model.mask_id() {
            assert!(model.logits(&tokens, &[0]).is_err(), "nothing predicts position 0");
            continue;
        }
        let rows: Vec<usize> = (0..tokens.len()).collect();
        let what = |what: &str| format!("{name}, {canvas}, shift {shift}: {what}");
        // The fixture has the logits of rows; position i is predicted by row i - 1 under the shift, and 0 by its own.
        let whole = flat(&expected, &format!("{canvas}.logits"));
        let row = |position: usize| if shift { position.saturating_sub(1) } else { position };
        let width = model.vocab();
        let want: Vec<f64> =
            rows.iter().flat_map(|&position| whole[row(position) * width..][..width].to_vec()).collect();
        let got: Vec<f64> = model.logits(&tokens, &rows).unwrap().iter().flatten().map(|&l| f64::from(l)).collect();
        near(&what("logits"), &got, &want, 5e-4);

        let attention = flat(&expected, &format!("{canvas}.attention")); // [layer x query x key]
        for layer in 0..model.config().layers {
            let proposal = Proposal::greedy();
            let query = Query::new(&tokens, &rows, &proposal).attention(Layers::Nth(layer));
            let prediction = model.denoise(&[query]).unwrap().remove(0);
            let variant = if shift { "shifted" } else { "plain" };
            let field = |field: &str| flat(&expected, &format!("{canvas}.{variant}.{field}"));
            let read = |f: fn(&cofill::RowStats) -> f64| prediction.rows.iter().map(f).collect::<Vec<_>>();
            assert_eq!(read(|row| f64::from(row.token)), field("token"), "{}", what("token"));
            near(&what("confidence"), &read(|row| row.confidence), &field("confidence"), 5e-5);
            near(&what("entropy"), &read(|row| row.entropy), &field("entropy"), 2e-4);
            // Attention is of positions, which no shift moves.
            let n = rows.len();
            let given = prediction.attention.unwrap();
            let got: Vec<f64> = (0..n * n).map(|i| given.get(i / n, i % n)).collect();
            near(&what("attention"), &got, &attention[layer * n * n..][..n * n], 2e-5);
        }
        checked += 1;
    }
    assert!(checked >= 3);
}

#[test]
fn qwen2_has_biases_and_a_tied_head() {
    let config = Config::load(&fixture("qwen2")).unwrap();
    assert!(config.qkv_bias && config.tied && !config.qk_norm && !config.o_bias);
    assert_eq!((config.family, config.head_dim), (Family::Qwen, 6));
    check("qwen2", false);
    check("qwen2", true);
}

#[test]
fn qwen3_normalises_q_and_k_of_heads_of_any_width() {
    let config = Config::load(&fixture("qwen3")).unwrap();
    assert!(!config.qkv_bias && !config.tied && config.qk_norm && !config.o_bias);
    assert_eq!((config.heads * config.head_dim, config.hidden), (60, 16));
    check("qwen3", false);
    check("qwen3", true);
}

#[test]
fn both_spellings_of_theta_are_one() {
    let new = config("qwen3");
    let mut old = new.clone();
    old.as_object_mut().unwrap().remove("rope_parameters");
    (old["rope_theta"], old["rope_scaling"]) = (json!(1e6), json!(null));
    let parse = |config: &Value| Config::parse(&config.to_string(), Path::new("x")).unwrap();
    assert_eq!(parse(&old), parse(&new));
}

#[test]
fn a_stored_head_must_agree_with_its_tie() {
    // Weights of an untied model whose configuration says that they are tied: nobody can tell which is meant.
    let mut said = config("qwen3");
    said["tie_word_embeddings"] = json!(true);
    let folder = folder("qwen3", &said);
    refused!(refusal(&folder), NotTied, folder.path(), ["tied", "`lm_head.weight`"]);
}
