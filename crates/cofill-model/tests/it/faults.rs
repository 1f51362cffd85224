use crate::checkpoint::{Checkpoint, Folder, TINY, pack, shard_name};
use cofill::{Denoiser, Layers, Prediction, Proposal, Query};
use cofill_model::{Config, Error, Model};
use safetensors::Dtype as Stored;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Why a folder does not load.
#[track_caller]
pub(crate) fn refusal(folder: &Folder) -> Error {
    match Model::load(folder.path()) {
        Ok(_) => panic!("it loads"),
        Err(error) => error,
    }
}

/// Why a configuration is refused.
#[track_caller]
pub(crate) fn config_refusal(checkpoint: &Checkpoint) -> Error {
    match Config::parse(&checkpoint.config.to_string(), Path::new("x/config.json")) {
        Ok(config) => panic!("it is accepted as {config:?}"),
        Err(error) => error,
    }
}

/// The message holds these words, and the path.
#[track_caller]
pub(crate) fn says(error: &Error, path: &Path, words: &[&str]) {
    let message = error.to_string();
    let path = format!("`{}`", path.display());
    for word in words.iter().copied().chain([&*path]) {
        assert!(message.contains(word), "{message}: this should say {word}");
    }
}

macro_rules! refused {
    ($error:expr, $variant:ident, $path:expr, [$($word:expr),*]) => {{
        let error = $error;
        assert!(matches!(error, Error::$variant { .. }), "{error:?}");
        $crate::faults::says(&error, $path.as_ref(), &[$($word),*]);
    }};
}
pub(crate) use refused;

pub(crate) fn families() -> [Checkpoint; 2] {
    [Checkpoint::llada(), Checkpoint::dream()]
}

pub(crate) fn everyone() -> [Checkpoint; 4] {
    [Checkpoint::llada(), Checkpoint::dream(), Checkpoint::qwen2(), Checkpoint::qwen3()]
}

// ---- config.json

#[test]
fn a_folder_without_config() {
    let folder = Checkpoint::llada().write();
    folder.remove("config.json");
    refused!(refusal(&folder), Missing, folder.join("config.json"), ["the file is missing"]);
    let nowhere = folder.join("nowhere");
    refused!(Config::load(&nowhere).unwrap_err(), Missing, nowhere.join("config.json"), ["the file is missing"]);
}

#[test]
fn a_config_that_is_no_object() {
    let folder = Checkpoint::llada().write();
    for (text, words) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("{} {}", "not JSON"),
        ("architectures: x", "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("7", "not a JSON object"),
    ] {
        folder.put("config.json", text);
        refused!(refusal(&folder), Malformed, folder.join("config.json"), [words]);
    }
    folder.put("config.json", [0xff, 0xfe, 0]);
    refused!(refusal(&folder), Malformed, folder.join("config.json"), ["UTF-8"]);
    folder.remove("config.json");
    std::fs::create_dir(folder.join("config.json")).unwrap();
    refused!(refusal(&folder), Malformed, folder.join("config.json"), ["directory"]);
}

#[test]
fn every_field_is_required() {
    for checkpoint in everyone() {
        assert!(checkpoint.fields().len() >= 16);
        for field in checkpoint.fields().keys() {
            let mut without = checkpoint.clone();
            without.config.as_object_mut().unwrap().remove(field);
            let words = format!("the field `{field}` is missing");
            let error = config_refusal(&without);
            // Where published files lack it, the error says more.
            let kind = matches!(error, Error::Missing { .. } | Error::NoMaskId { .. });
            assert!(kind, "{error:?}");
            says(&error, Path::new("x/config.json"), &[&words]);
        }
    }
    // The ratio counts only when the width is null.
    let ratio = Checkpoint::llada().with("mlp_hidden_size", Value::Null);
    refused!(config_refusal(&ratio), Missing, "x/config.json", ["the field `mlp_ratio` is missing"]);
    let config = Config::parse(&ratio.with("mlp_ratio", 3).config.to_string(), Path::new("x")).unwrap();
    assert_eq!(config.mlp, 3 * TINY.hidden);
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    for checkpoint in everyone() {
        for field in checkpoint.fields().keys() {
            for wrong in [json!({}), json!([]), json!([7]), json!("x"), json!({"type": "linear"})] {
                let error = config_refusal(&checkpoint.clone().with(field, wrong.clone()));
                // Switches have one value that is run; all others are `Unsupported`.
                assert!(matches!(error, Error::Malformed { .. } | Error::Unsupported { .. }), "{field}: {error:?}");
                says(&error, Path::new("x/config.json"), &[field]);
            }
        }
    }
}

/// The fields that are sizes: width, layers, heads, key heads and others, the context last.
const SIZES: [&[&str]; 2] = [
    &[
        "d_model",
        "n_layers",
        "n_heads",
        "n_kv_heads",
        "mlp_hidden_size",
        "vocab_size",
        "embedding_size",
        "max_sequence_length",
    ],
    &[
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ],
];

#[test]
fn sizes_are_whole_and_believable() {
    for (checkpoint, sizes) in families().iter().zip(SIZES) {
        for size in sizes {
            for wrong in
                [json!(0), json!(-1), json!(1.5), json!(1e30), json!(1u64 << 60), json!(u64::MAX), json!((1 << 24) + 1)]
            {
                let words = format!("`{size}` is {wrong}, but must be a whole number from 1 to 16777216");
                let error = config_refusal(&checkpoint.clone().with(size, wrong));
                refused!(error, Malformed, "x/config.json", [&words]);
            }
        }
        let null = checkpoint.clone().with(sizes[0], Value::Null);
        refused!(config_refusal(&null), Malformed, "x/config.json", [sizes[0], "null"]);
    }
}

#[test]
fn the_largest_sizes_are_refused_by_the_tensors_without_allocating() {
    let most = 1 << 24;
    for (checkpoint, sizes) in families().iter().zip(SIZES) {
        let mut large = checkpoint.clone();
        for size in sizes {
            large = large.with(size, most);
        }
        // Heads of width 1 would be odd.
        let heads = sizes[2];
        refused!(config_refusal(&large), Malformed, "x/config.json", ["head width 1 is odd"]);
        let folder = large.with(heads, 2).with(sizes[3], 2).with(sizes[1], 3).write();
        assert!(matches!(refusal(&folder), Error::Shape { .. }));
        // More layers than the file has.
        let folder = checkpoint.clone().with(sizes[1], most).write();
        refused!(refusal(&folder), Missing, folder.path(), ["most of 16777216 layers"]);
        let folder = checkpoint.clone().with(sizes[1], 4).write();
        refused!(refusal(&folder), Missing, folder.path(), [".3.", "tensor"]);
        // Fewer: what is left over would change the answer.
        let folder = checkpoint.clone().with(sizes[1], 2).write();
        refused!(refusal(&folder), Superfluous, folder.path(), [".2.", "more) is stored", "layers"]);
        // A context without end costs nothing until it is used.
        checkpoint.clone().with(sizes[sizes.len() - 1], most).load();
    }
}

#[test]
fn heads_must_divide() {
    let names = [("n_heads", "n_kv_heads", "d_model"), ("num_attention_heads", "num_key_value_heads", "hidden_size")];
    for (checkpoint, (heads, kv_heads, hidden)) in families().into_iter().zip(names) {
        let given = |field, value| config_refusal(&checkpoint.clone().with(field, value));
        refused!(given(heads, 5), Malformed, "x/config.json", ["a width of 32 cannot be split over 5 heads"]);
        refused!(given(heads, 64), Malformed, "x/config.json", ["a width of 32 cannot be split over 64 heads"]);
        refused!(given(kv_heads, 3), Malformed, "x/config.json", ["4 query heads cannot share 3 key heads evenly"]);
        refused!(given(kv_heads, 8), Malformed, "x/config.json", ["4 query heads cannot share 8 key heads evenly"]);
        refused!(given(hidden, 36), Malformed, "x/config.json", ["head width 9 is odd"]);
    }
}

#[test]
fn numbers_that_give_no_angles_or_norms() {
    for checkpoint in everyone() {
        for field in ["rope_theta", "rms_norm_eps"] {
            for wrong in [json!(0), json!(0.0), json!(-1), json!(-1e-6)] {
                let error = config_refusal(&checkpoint.clone().with(field, wrong));
                refused!(error, Malformed, "x/config.json", [field, "3.4e38"]);
            }
            for wrong in [json!(null), json!("1e-6"), json!(true)] {
                let error = config_refusal(&checkpoint.clone().with(field, wrong));
                refused!(error, Malformed, "x/config.json", [field, "must be a number"]);
            }
            // Beyond f64: not even JSON to us.
            let text = checkpoint.config.to_string().replacen(
                &format!("\"{field}\":"),
                &format!("\"{field}\":1e999,\"_\":"),
                1,
            );
            assert!(matches!(Config::parse(&text, Path::new("x")), Err(Error::Malformed { .. })), "{text}");
        }
    }
}

#[test]
fn ids_lie_in_the_vocabulary() {
    for checkpoint in families() {
        for field in ["mask_token_id", "eos_token_id"] {
            let given = |value: Value| config_refusal(&checkpoint.clone().with(field, value));
            for id in [TINY.vocab, u32::MAX as usize] {
                let words = format!("`{field}` is {id}, but the vocabulary ends at {}", TINY.vocab - 1);
                refused!(given(json!(id)), Malformed, "x/config.json", [&words]);
            }
            for wrong in [json!(-1), json!(1.5), json!(1u64 << 40), json!(null), json!([7])] {
                refused!(given(wrong), Malformed, "x/config.json", [field, "must be a token id"]);
            }
        }
    }
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for architecture in ["LlamaForCausalLM", "Dream", "", "lladamodellm"] {
        let error = config_refusal(&Checkpoint::llada().with("architectures", json!([architecture])));
        refused!(
            error,
            Unsupported,
            "x/config.json",
            ["architectures[0]", architecture, "`LLaDAModelLM`, `DreamModel`, `A2DQwen2LMHeadModel`, "]
        );
    }
    for wrong in [json!([]), json!("LLaDAModelLM"), json!(null), json!([7])] {
        let error = config_refusal(&Checkpoint::llada().with("architectures", wrong));
        refused!(error, Malformed, "x/config.json", ["`architectures` is", "must be a list", "`LLaDAModelLM`"]);
    }
    let llada = |field: &str, value: Value| config_refusal(&Checkpoint::llada().with(field, value));
    for switch in
        ["alibi", "attention_layer_norm", "input_emb_norm", "scale_logits", "include_bias", "bias_for_layer_norm"]
    {
        refused!(llada(switch, json!(true)), Unsupported, "x/config.json", [switch, "`true`", "false"]);
    }
    refused!(llada("rope", json!(false)), Unsupported, "x/config.json", ["`rope`", "`false`", "true"]);
    refused!(llada("block_type", json!("sequential")), Unsupported, "x/config.json", ["sequential", "llama"]);
    refused!(llada("activation_type", json!("swiglu")), Unsupported, "x/config.json", ["swiglu", "silu"]);
    refused!(llada("layer_norm_type", json!("default")), Unsupported, "x/config.json", ["default", "rms"]);
    let dream = |field: &str, value: Value| config_refusal(&Checkpoint::dream().with(field, value));
    refused!(dream("hidden_act", json!("gelu")), Unsupported, "x/config.json", ["`hidden_act`", "gelu", "silu"]);
    let scaling = json!({"type": "yarn", "factor": 4.0});
    refused!(dream("rope_scaling", scaling), Unsupported, "x/config.json", ["`rope_scaling`", "yarn", "null"]);
    refused!(dream("use_sliding_window", json!(true)), Unsupported, "x/config.json", ["use_sliding_window"]);
}

// ---- safetensors

#[test]
fn a_folder_without_weights() {
    let folder = Checkpoint::llada().write();
    folder.remove(WEIGHTS);
    refused!(refusal(&folder), Missing, folder.path(), ["`model.safetensors`", "`model.safetensors.index.json`"]);
}

#[test]
fn a_file_cut_short_anywhere() {
    let folder = Checkpoint::dream().write();
    let whole = folder.read(WEIGHTS);
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let path = folder.join(WEIGHTS);
    for cut in
        [0, 1, 7, 8, 9, header / 2, header - 1, header, header + 1, whole.len() / 2, whole.len() - 4, whole.len() - 1]
    {
        folder.put(WEIGHTS, &whole[..cut]);
        // Once the header is whole, the message says how much is missing.
        let words = if cut < header { "not a safetensors file" } else { "truncated" };
        refused!(refusal(&folder), Malformed, path, [words]);
    }
    // Nor may anything follow the tensors.
    folder.put(WEIGHTS, [&whole[..], &[0]].concat());
    refused!(refusal(&folder), Malformed, path, ["damaged"]);
}

#[test]
fn a_header_that_lies() {
    let folder = Checkpoint::dream().write();
    let path = folder.join(WEIGHTS);
    let whole = folder.read(WEIGHTS);
    for length in [0, 1, whole.len() as u64, 100_000_001, 1 << 40, i64::MAX as u64, u64::MAX - 7, u64::MAX] {
        folder.put(WEIGHTS, [&length.to_le_bytes(), &whole[8..]].concat());
        refused!(refusal(&folder), Malformed, path, ["not a safetensors file"]);
    }
    for header in [
        "".into(),
        "garbage".into(),
        "[]".into(),
        "null".into(),
        "{\"a\":7}".into(),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}".into(),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}".into(),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}".into(),
        "{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}".into(),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}".into(),
        format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{0},{0}],\"data_offsets\":[0,4]}}}}", u64::MAX),
        "[".repeat(100_000),
    ] as [String; 12]
    {
        folder.put(WEIGHTS, with_header(header.as_bytes(), &[0; 4]));
        refused!(refusal(&folder), Malformed, path, ["not a safetensors file"]);
    }
    folder.put(WEIGHTS, with_header(&[0xff; 40], &[]));
    refused!(refusal(&folder), Malformed, path, ["not a safetensors file"]);
    // Sizes that add up past the largest number there is.
    let huge = (1u64 << 61) - 1;
    let tensor = |i: u64| {
        format!("\"t{i}\":{{\"dtype\":\"U8\",\"shape\":[{huge}],\"data_offsets\":[{},{}]}}", i * huge, (i + 1) * huge)
    };
    let header = format!("{{{}}}", (0..8).map(tensor).collect::<Vec<_>>().join(","));
    folder.put(WEIGHTS, with_header(header.as_bytes(), &[]));
    refused!(refusal(&folder), Malformed, path, ["truncated"]);
}

fn with_header(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, data].concat()
}

#[test]
fn every_tensor_is_required_in_its_shape() {
    for checkpoint in everyone() {
        for i in 0..checkpoint.tensors.len() {
            let name = &checkpoint.tensors[i].name;
            let mut without = checkpoint.clone();
            without.tensors.remove(i);
            let folder = without.write();
            refused!(refusal(&folder), Missing, folder.path(), [&format!("tensor `{name}` is missing")]);
            // As many values, in another shape.
            let mut other = checkpoint.clone();
            other.tensors[i].shape.insert(0, 1);
            let folder = other.write();
            let words =
                format!("tensor `{name}` has shape {:?}, but the configuration asks for", other.tensors[i].shape);
            refused!(
                refusal(&folder),
                Shape,
                folder.join(WEIGHTS),
                [&words, &format!("{:?}", checkpoint.tensors[i].shape)]
            );
        }
    }
    let mut transposed = Checkpoint::dream();
    transposed.tensor("lm_head.weight").shape.reverse();
    let folder = transposed.write();
    refused!(refusal(&folder), Shape, folder.join(WEIGHTS), ["`lm_head.weight`", "[32, 52]", "[52, 32]"]);
}

#[test]
fn types_that_are_no_weights() {
    for checkpoint in everyone() {
        let folder = checkpoint.write_as(Stored::I64);
        refused!(refusal(&folder), Unsupported, folder.join(WEIGHTS), ["the type of", "`I64`", "F32, F16 and BF16"]);
    }
}

#[test]
fn weights_that_are_no_numbers() {
    for (mut checkpoint, name) in [
        (Checkpoint::llada(), "model.transformer.blocks.1.ff_out.weight"),
        (Checkpoint::llada(), "model.transformer.ln_f.weight"),
        (Checkpoint::dream(), "model.layers.2.self_attn.k_proj.bias"),
        (Checkpoint::dream(), "model.embed_tokens.weight"),
    ] {
        for (bad, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
            checkpoint.tensor(name).values[5] = bad;
            *checkpoint.tensor(name).values.last_mut().unwrap() = bad;
            for dtype in [Stored::F32, Stored::F16, Stored::BF16] {
                let folder = checkpoint.write_as(dtype);
                let words = format!("tensor `{name}` holds {word} at index 5");
                refused!(refusal(&folder), NotFinite, folder.join(WEIGHTS), [&words]);
            }
        }
    }
}

// ---- shards

#[test]
fn an_index_that_names_what_is_not_there() {
    let checkpoint = Checkpoint::dream();
    let folder = checkpoint.write_sharded(Stored::F32, 3);
    let (second, third) = (shard_name(1, 3), shard_name(2, 3));
    let bytes = folder.read(&third);
    folder.remove(&third);
    refused!(refusal(&folder), Missing, folder.join(&third), ["the file is missing"]);
    folder.put(&third, &bytes[..bytes.len() / 2]);
    refused!(refusal(&folder), Malformed, folder.join(&third), ["truncated"]);
    folder.put(&third, []);
    refused!(refusal(&folder), Malformed, folder.join(&third), ["not a safetensors file"]);
    folder.put(&third, bytes);
    assert!(Model::load(folder.path()).is_ok(), "whole again");
    // The second shard loses a tensor that the index puts there.
    let lost = &checkpoint.tensors[checkpoint.tensors.len() / 2];
    let kept: Vec<_> = checkpoint
        .tensors
        .chunks(checkpoint.tensors.len().div_ceil(3))
        .nth(1)
        .unwrap()
        .iter()
        .filter(|t| t.name != lost.name)
        .cloned()
        .collect();
    folder.put(&second, pack(&kept, Stored::F32));
    refused!(refusal(&folder), Missing, folder.join(&second), [&format!("tensor `{}`", lost.name), "the index"]);
}

#[test]
fn an_index_without_a_tensor() {
    let folder = Checkpoint::dream().write_sharded(Stored::F32, 2);
    let mut index: Value = serde_json::from_slice(&folder.read(INDEX)).unwrap();
    index["weight_map"].as_object_mut().unwrap().remove("model.norm.weight");
    folder.put(INDEX, index.to_string());
    refused!(refusal(&folder), Missing, folder.path(), ["tensor `model.norm.weight`"]);
}

#[test]
fn an_index_that_is_none() {
    let folder = Checkpoint::dream().write_sharded(Stored::F32, 2);
    let path = folder.join(INDEX);
    for text in ["", "{", "nonsense"] {
        folder.put(INDEX, text);
        refused!(refusal(&folder), Malformed, path, ["not JSON"]);
    }
    for text in ["{}", "[]", "null", "{\"weight_map\": 7}", "{\"weight_map\": [\"a\"]}"] {
        folder.put(INDEX, text);
        refused!(refusal(&folder), Missing, path, ["`weight_map`"]);
    }
    folder.put(INDEX, [0xff, 0xff]);
    refused!(refusal(&folder), Malformed, path, ["UTF-8"]);
    folder.put(INDEX, "{\"weight_map\": {}}");
    refused!(refusal(&folder), Missing, folder.path(), ["layers (there are 0 tensors)"]);
}

#[test]
fn a_shard_lies_beside_its_index() {
    let inside = Checkpoint::dream().write();
    for file in ["../x", "../model.safetensors", "/etc/passwd", "a/b", "..\\x", "", "/"] {
        inside.put(INDEX, json!({"weight_map": {"lm_head.weight": file}}).to_string());
        let error = refusal(&inside);
        refused!(error, Malformed, inside.join(INDEX), ["`lm_head.weight`", "must give a file name"]);
    }
    for file in [json!(7), json!(null), json!(["model.safetensors"])] {
        inside.put(INDEX, json!({"weight_map": {"lm_head.weight": file}}).to_string());
        refused!(refusal(&inside), Malformed, inside.join(INDEX), ["must give a file name"]);
    }
    // A folder is no shard, whatever it is called.
    for file in [".", ".."] {
        inside.put(INDEX, json!({"weight_map": {"lm_head.weight": file}}).to_string());
        assert!(matches!(refusal(&inside), Error::Malformed { .. }), "{file}");
    }
}

// ---- at run time

/// Asks for every row.
fn ask(model: &mut Model, tokens: &[u32], layer: Option<usize>) -> cofill::Result<usize> {
    let rows: Vec<usize> = (0..tokens.len()).collect();
    let proposal = Proposal::greedy();
    let query = Query::new(tokens, &rows, &proposal).attention(layer.map(Layers::Nth));
    Ok(model.denoise(&[query])?[0].rows.len())
}

/// What the model itself had against a query.
#[track_caller]
fn model_error(error: cofill::Error) -> Error {
    match error {
        cofill::Error::Denoiser(error) => *error.downcast::<Error>().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_canvas_beyond_the_context() {
    for checkpoint in everyone() {
        let mut model = checkpoint.load();
        assert_eq!(ask(&mut model, &[1; TINY.context], None).unwrap(), TINY.context);
        let error = model_error(ask(&mut model, &[1; TINY.context + 1], None).unwrap_err());
        assert!(matches!(error, Error::TooLong { given: 65, most: 64 }), "{error:?}");
        assert!(error.to_string().contains("65 positions, but the model holds 64"), "{error}");
    }
}

#[test]
fn a_token_beyond_the_vocabulary() {
    for checkpoint in everyone() {
        let mut model = checkpoint.load();
        let last = TINY.vocab as u32 - 1;
        // LLaDA's spare ids have embeddings, so they are tokens.
        assert!(ask(&mut model, &[1, last], None).is_ok());
        for token in [last + 1, u32::MAX] {
            let error = ask(&mut model, &[1, 2, token], None).unwrap_err();
            let want = format!("token {token} at position 2 is outside the vocabulary (0 to {last})");
            assert!(matches!(error, cofill::Error::UnknownToken { position: 2, .. }), "{error:?}");
            assert_eq!(error.to_string(), want);
        }
    }
}

#[test]
fn only_dream_cannot_fill_position_0() {
    for (checkpoint, shifted) in families().into_iter().zip([false, true]) {
        let mut model = checkpoint.load();
        let mask = model.mask_id();
        assert!(ask(&mut model, &[1, mask], None).is_ok());
        match ask(&mut model, &[mask, 1], None) {
            Ok(_) => assert!(!shifted),
            Err(error) => {
                let error = model_error(error);
                assert!(shifted && matches!(error, Error::FirstMasked), "{error:?}");
                assert!(error.to_string().contains("position 0 is masked"), "{error}");
            }
        }
    }
}

#[test]
fn a_layer_that_does_not_exist() {
    for checkpoint in everyone() {
        let mut model = checkpoint.load();
        assert!(ask(&mut model, &[1, 2], Some(2)).is_ok());
        for layer in [3, usize::MAX] {
            let error = ask(&mut model, &[1, 2], Some(layer)).unwrap_err();
            assert!(matches!(error, cofill::Error::NoSuchLayer { last: 2, .. }), "{error:?}");
        }
    }
}

#[test]
fn weights_too_large_to_compute_with() {
    for (mut checkpoint, head) in families().into_iter().zip(["model.transformer.ff_out.weight", "lm_head.weight"]) {
        // Of either sign, so that some logit overflows upwards, whatever the hidden state is.
        let values = checkpoint.tensor(head).values.iter_mut();
        values.enumerate().for_each(|(i, value)| *value = if i / 32 % 2 == 0 { f32::MAX } else { f32::MIN });
        let error = ask(&mut checkpoint.load(), &[1, 2], None).unwrap_err();
        assert!(matches!(error, cofill::Error::NotFinite { what: "logits", .. }), "{error:?}");
    }
}

#[test]
fn one_bad_query_fails_its_batch_and_nothing_after_it() {
    let mut model = Checkpoint::llada().load();
    let proposal = Proposal::greedy();
    let query = |tokens| Query::new(tokens, &[1], &proposal);
    assert!(model.denoise(&[query(&[1, 2]), query(&[1, 99])]).is_err());
    assert_eq!(model.denoise(&[query(&[1, 2]), query(&[1, 3])]).unwrap().len(), 2);
    assert!(model.denoise(&[]).unwrap().is_empty());
}

#[test]
fn what_is_asked_must_be_on_the_canvas() {
    let mut model = Checkpoint::dream().load();
    let proposal = Proposal::greedy();
    let mut ask = |tokens: &[u32], rows: &[usize], free: &[usize]| {
        model.denoise(&[Query::new(tokens, rows, &proposal).free(free).attention(Layers::Last)])
    };
    let broken = |answer: cofill::Result<Vec<Prediction>>| matches!(answer, Err(cofill::Error::Contract { .. }));
    assert!(broken(ask(&[1, 2], &[2], &[])), "a row beyond the canvas");
    assert!(broken(ask(&[1, 2], &[0], &[7])), "a free position beyond the canvas");
    assert!(ask(&[1, 2], &[], &[]).unwrap()[0].rows.is_empty(), "nothing asked, nothing answered");
    assert!(ask(&[], &[], &[]).is_ok());
    assert!(model.logits(&[1, 2], &[]).unwrap().is_empty());
    assert!(model.logits(&[1, 2], &[2]).is_err());
    assert!(model.logits(&vec![1; 10_000], &[0]).is_err(), "longer than the context");
    for scale in [f64::NAN, f64::INFINITY, -0.5] {
        assert!(matches!(model.set_guidance(scale), Err(Error::Guidance { .. })), "{scale}");
    }
}

#[test]
fn a_flag_of_another_thread_ends_what_computes() {
    let mut model = Checkpoint::dream().load();
    let proposal = Proposal::greedy();
    let stop = Arc::new(AtomicBool::new(false));
    model.stop_when(Some(Arc::clone(&stop)));
    let mut ask = || model.denoise(&[Query::new(&[1, 2], &[1], &proposal)]);
    assert!(ask().is_ok());
    stop.store(true, Ordering::Relaxed);
    let Err(cofill::Error::Denoiser(source)) = ask() else { panic!("it went on") };
    assert!(matches!(source.downcast_ref::<Error>(), Some(Error::Stopped)));
    model.stop_when(None);
    assert!(model.denoise(&[Query::new(&[1, 2], &[1], &proposal)]).is_ok(), "forgotten");
}
