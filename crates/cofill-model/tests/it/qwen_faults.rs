use crate::checkpoint::{Checkpoint, Folder, TINY, Tensor};
use crate::faults::{config_refusal, refusal, refused};
use cofill_model::{Error, Tokenizer};
use serde_json::{Value, json};

#[test]
fn what_qwen_does_not_compute_is_refused_by_name() {
    for checkpoint in [Checkpoint::qwen2(), Checkpoint::qwen3()] {
        let given = |field: &str, value: Value| config_refusal(&checkpoint.clone().with(field, value));
        let yarn = json!({"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6});
        refused!(given("rope_scaling", yarn.clone()), Unsupported, "x/config.json", ["`rope_scaling`", "yarn", "null"]);
        refused!(given("rope_parameters", yarn), Unsupported, "x/config.json", ["`rope_type`", "yarn", "default"]);
        refused!(given("rope_parameters", json!({})), Missing, "x/config.json", ["the field `rope_type` is missing"]);
        let plain = json!({"rope_type": "default"});
        refused!(given("rope_parameters", plain), Missing, "x/config.json", ["the field `rope_theta` is missing"]);
        refused!(
            given("rope_parameters", json!(7)),
            Malformed,
            "x/config.json",
            ["`rope_parameters` must be an object"]
        );
        let types = json!(["full_attention", "sliding_attention", "full_attention"]);
        refused!(given("layer_types", types), Unsupported, "x/config.json", ["`layer_types`", "sliding_attention"]);
        refused!(
            given("layer_types", json!("full")),
            Unsupported,
            "x/config.json",
            ["`layer_types`", "full_attention"]
        );
        refused!(given("use_sliding_window", json!(true)), Unsupported, "x/config.json", ["use_sliding_window"]);
        refused!(
            given("right_shift_logits", json!(1)),
            Malformed,
            "x/config.json",
            ["`right_shift_logits` is 1", "true"]
        );
        for block in ["block_size", "bd_size"] {
            refused!(
                given(block, json!(4)),
                BlockCausal,
                "x/config.json",
                [block, "`4`", "block-causal", "every other"]
            );
        }
        refused!(given("head_dim", json!(7)), Malformed, "x/config.json", ["head width 7 is odd"]);
        refused!(given("head_dim", json!(0)), Malformed, "x/config.json", ["`head_dim` is 0", "from 1"]);
    }
    for architecture in ["SDARForCausalLM", "SDARMoeForCausalLM", "LLaDA2MoeModelLM", "Fast_dLLM_QwenForCausalLM"] {
        let error = config_refusal(&Checkpoint::qwen3().with("architectures", json!([architecture])));
        refused!(error, BlockCausal, "x/config.json", ["architectures[0]", architecture, "block-causal"]);
    }
    // Qwen itself sees only what stands before.
    let causal = Checkpoint::qwen3().with("architectures", json!(["Qwen3ForCausalLM"]));
    refused!(config_refusal(&causal), Causal, "x/config.json", ["`Qwen3ForCausalLM`", "companion"]);
}

#[test]
fn qwen_with_biases_everywhere_asks_for_them() {
    // All four projections have one: `attention_bias` is not Qwen2's.
    let mut biased = Checkpoint::qwen3().with("attention_bias", true);
    let folder = biased.write();
    refused!(refusal(&folder), Missing, folder.path(), ["model.layers.0.self_attn.q_proj.bias"]);
    for i in 0..TINY.layers {
        for (leaf, width) in [("q", 48), ("k", 24), ("v", 24), ("o", 32)] {
            let name = format!("model.layers.{i}.self_attn.{leaf}_proj.bias");
            biased.tensors.push(Tensor { name, shape: vec![width], values: vec![0.5; width] });
        }
    }
    let ask = |checkpoint: &Checkpoint| checkpoint.load().logits(&[1, 2], &[1]).unwrap();
    let with = ask(&biased);
    biased.tensors.retain(|tensor| !tensor.name.ends_with("o_proj.bias"));
    let folder = biased.write();
    refused!(refusal(&folder), Missing, folder.path(), ["model.layers.0.self_attn.o_proj.bias"]);
    assert_ne!(with, ask(&Checkpoint::qwen3()));
}

#[test]
fn a_config_without_a_mask_says_what_to_add() {
    for mut checkpoint in [Checkpoint::qwen2(), Checkpoint::qwen3()] {
        checkpoint.config.as_object_mut().unwrap().remove("mask_token_id");
        let folder = checkpoint.write();
        let path = folder.join("config.json");
        refused!(refusal(&folder), NoMaskId, path, ["`mask_token_id` is missing", "add the id", "\"mask_token_id\": "]);
        // The tokenizer knows, as it does in dllm's checkpoints.
        put_tokenizer(&folder, 50, Some("<|mask|>"));
        refused!(refusal(&folder), NoMaskId, path, ["add \"mask_token_id\": 50, which is the tokenizer's mask token"]);
        refused!(config_refusal(&checkpoint.with("mask_token_id", Value::Null)), NoMaskId, "x/config.json", ["add"]);
    }
}

/// What the tokenizer in a folder has against the mask `id`.
fn mask_refusal(folder: &Folder, id: u32) -> Error {
    Tokenizer::load(folder.path()).unwrap().check_mask(id).unwrap_err()
}

#[test]
fn a_tokenizer_without_a_mask_token() {
    let folder = Folder::new();
    let accepts = |id| Tokenizer::load(folder.path()).unwrap().check_mask(id).is_ok();
    // Words 0 to 49, and the mask.
    put_tokenizer(&folder, 50, Some("<|mask|>"));
    assert!(accepts(50));
    for id in [49, 51] {
        let words = format!("`mask_token` is `<|mask|>`, which has id 50, but config.json gives {id}");
        refused!(mask_refusal(&folder, id), OtherMask, folder.join("tokenizer_config.json"), [&words, "token ids"]);
    }
    // LLaDA names no mask there: the configuration's id counts, and there is a token with it.
    put_tokenizer(&folder, 50, None);
    assert!(accepts(50));
    for id in [51, u32::MAX] {
        let words = format!("no token with id {id}, which config.json gives as `mask_token_id`");
        refused!(mask_refusal(&folder, id), NoMaskToken, folder.path(), [&words, "the same checkpoint", "token ids"]);
    }
    // Without `tokenizer_config.json` the same.
    folder.remove("tokenizer_config.json");
    assert!(accepts(50) && !accepts(51));
}

/// Words `w0`, `w1` and so on, `<|mask|>` as an added token with this id, and what `tokenizer_config.json` calls the mask.
fn put_tokenizer(folder: &Folder, mask: usize, named: Option<&str>) {
    let words: serde_json::Map<String, Value> = (0..mask).map(|i| (format!("w{i}"), json!(i))).collect();
    let added = json!([{"id": mask, "content": "<|mask|>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": added,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    });
    folder.put("tokenizer.json", json.to_string());
    folder.put("tokenizer_config.json", json!({ "mask_token": named }).to_string());
}
