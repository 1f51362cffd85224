use crate::encoders::{ENCODERS, Encoder, fixture};
use candle_core::{DType, Device, Tensor};
use cofill_model::{Checkpoint, Config, Dtype, Error, Model, Quantise};
use serde_json::json;

/// Why a checkpoint is refused.
#[track_caller]
fn refusal(encoder: &Encoder) -> String {
    let folder = encoder.write();
    let error = Model::load(folder.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains(folder.path().to_str().unwrap()), "names no file: {error}");
    error
}

#[track_caller]
fn says(said: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in: {said}"));
}

#[test]
fn what_no_encoder_computes_is_refused_by_name() {
    let bert = || Encoder::new("bert");
    says(&refusal(&bert().with("is_decoder", true)), &["`is_decoder`", "true", "false"]);
    says(&refusal(&bert().with("hidden_act", "relu")), &["`hidden_act`", "relu", "gelu_new"]);
    says(&refusal(&bert().with("position_embedding_type", "relative_key")), &["relative_key", "absolute"]);
    says(&refusal(&Encoder::new("albert").with("inner_group_num", 2)), &["`inner_group_num`", "2", "1"]);
    says(&refusal(&Encoder::new("albert").with("num_hidden_groups", 2)), &["3 layers", "`num_hidden_groups` = 2"]);
    let yarn = json!({"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}});
    says(&refusal(&Encoder::new("modernbert").with("rope_parameters", yarn)), &["`rope_type`", "yarn", "default"]);
    says(
        &refusal(&Encoder::new("modernbert").with("layer_types", json!(["full_attention"]))),
        &["`layer_types`", "4 layers"],
    );
    says(&refusal(&Encoder::new("modernbert").with("hidden_activation", "silu")), &["`hidden_activation`", "silu"]);
}

#[test]
fn damaged_numbers_are_refused_before_anything_is_allocated() {
    for (name, _) in ENCODERS {
        let given = |field: &str, value: serde_json::Value| refusal(&Encoder::new(name).with(field, value));
        for field in ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"] {
            says(&given(field, json!(0)), &[field, "is 0", "from 1"]);
            says(&given(field, json!(1u64 << 40)), &[field, "16777216"]);
            says(&given(field, json!("12")), &[field, "whole number"]);
        }
        says(&given("num_attention_heads", json!(5)), &["12", "5 heads"]);
        says(
            &given("num_hidden_layers", json!(16_000_000)),
            &["num_hidden_layers", "16000000"][usize::from(name != "albert")..],
        );
        let eps = if name == "modernbert" { "norm_eps" } else { "layer_norm_eps" };
        for bad in [json!(0.0), json!(-1.0), json!(1e300)] {
            says(&given(eps, bad), &[eps, "3.4e38"]);
        }
        says(&refusal(&Encoder::new(name).without("hidden_size")), &["the field `hidden_size` is missing"]);
        says(&given("mask_token_id", json!(27)), &["`mask_token_id` is 27", "ends at 2"]);
        says(&given("vocab_size", json!(28)), &["has shape", "28"]);
    }
    says(
        &refusal(&Encoder::new("roberta").with("pad_token_id", 23)),
        &["`max_position_embeddings` is 24", "begin at 24"],
    );
    says(&refusal(&Encoder::new("roberta").without("pad_token_id")), &["the field `pad_token_id` is missing"]);
    says(&refusal(&Encoder::new("bert").with("type_vocab_size", 3)), &["token_type_embeddings", "[3, 12]", "[2, 12]"]);
    let theta = json!({"full_attention": {"rope_type": "default", "rope_theta": 0.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}});
    says(&refusal(&Encoder::new("modernbert").with("rope_parameters", theta)), &["`rope_theta` is 0", "above 0"]);
}

#[test]
fn without_a_tokenizer_the_mask_must_be_said() {
    let mut encoder = Encoder::new("bert");
    encoder.tokenizer = None;
    says(&refusal(&encoder), &["`mask_token_id` is missing", "add"]);
    let said = encoder.with("mask_token_id", 5);
    let folder = said.write();
    let config = Config::load(folder.path()).unwrap();
    // Of what is no text, only what the configuration names is known.
    assert_eq!((config.mask_id, config.never_proposed()), (5, &[0, 3, 4, 5][..]));
    // A tokenizer that cannot be read is no reason to guess.
    folder.put("tokenizer.json", "{");
    assert!(matches!(Model::load(folder.path()).map(drop), Err(Error::Malformed { .. })));
}

#[test]
fn copies_that_differ_and_tensors_without_use_are_refused() {
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let with = |name: &str, shape: &[usize]| {
        let mut encoder = Encoder::new("bert");
        encoder.tensors.insert(name.into(), ones(shape));
        refusal(&encoder)
    };
    says(&with("cls.predictions.decoder.weight", &[27, 12]), &["`cls.predictions.decoder.weight`", "tied"]);
    says(&with("cls.predictions.decoder.bias", &[27]), &["`cls.predictions.decoder.bias`"]);
    says(&with("bert.encoder.layer.2.output.dense.bias", &[12]), &["bert.encoder.layer.2", "no use for it"]);
    let mut lacking = Encoder::new("modernbert");
    lacking.tensors.remove("model.layers.1.attn_norm.weight");
    says(&refusal(&lacking), &["tensor `model.layers.1.attn_norm.weight` is missing"]);
}

#[test]
fn a_canvas_ends_where_the_table_of_positions_does() {
    for (name, most) in [("bert", 24), ("albert", 24), ("roberta", 22), ("modernbert", 24)] {
        let model = Model::load(&fixture(name)).unwrap();
        assert!(model.logits(&vec![6; most], &[0]).is_ok());
        let failed = model.logits(&vec![6; most + 1], &[0]).unwrap_err();
        let said = std::error::Error::source(&failed).unwrap().to_string();
        says(&said, &[&format!("{} positions", most + 1), &format!("holds {most}")]);
    }
}

#[test]
fn an_encoder_is_no_gguf_file() {
    let checkpoint = Checkpoint::open(&fixture("bert")).unwrap();
    let quantise = Quantise { checkpoint: &checkpoint, dtype: Dtype::Q8_0 };
    let said = quantise.run(&mut Vec::new(), |_, _, _| {}).map(drop).unwrap_err().to_string();
    says(&said, &["Bert", "LLaDA and Dream as GGUF files"]);
}
