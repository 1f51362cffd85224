use crate::checkpoint::Folder;
use crate::invariance::{Question, bits};
use candle_core::{Device, Tensor};
use cofill::{Denoiser, Layers, Proposal, Query};
use cofill_model::{Activation, Config, Family, Golden, Kernels, Model, Tokenizer, Tolerances};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What `tools/encoder_fixture.py` made.
pub(crate) const ENCODERS: [(&str, Family); 4] = [
    ("bert", Family::Bert),
    ("albert", Family::Albert),
    ("roberta", Family::Roberta),
    ("modernbert", Family::ModernBert),
];

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/encoders").join(name)
}

/// A fixture whose files can be changed.
pub(crate) struct Encoder {
    pub(crate) config: Value,
    pub(crate) tensors: HashMap<String, Tensor>,
    pub(crate) tokenizer: Option<String>,
}

impl Encoder {
    pub(crate) fn new(name: &str) -> Encoder {
        let from = fixture(name);
        Encoder {
            config: crate::support::json(&from.join("config.json")),
            tensors: candle_core::safetensors::load(from.join("model.safetensors"), &Device::Cpu).unwrap(),
            tokenizer: Some(std::fs::read_to_string(from.join("tokenizer.json")).unwrap()),
        }
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Encoder {
        self.config[field] = value.into();
        self
    }

    pub(crate) fn without(mut self, field: &str) -> Encoder {
        self.config.as_object_mut().unwrap().remove(field).unwrap();
        self
    }

    pub(crate) fn write(&self) -> Folder {
        let folder = Folder::new();
        folder.put("config.json", self.config.to_string());
        candle_core::safetensors::save(&self.tensors, folder.join("model.safetensors")).unwrap();
        if let Some(tokenizer) = &self.tokenizer {
            folder.put("tokenizer.json", tokenizer);
        }
        folder
    }

    fn logits(&self) -> Vec<Vec<f32>> {
        let folder = self.write();
        Model::load(folder.path()).unwrap().logits(&[3, 7, 5, 8, 4], &[0, 2, 4]).unwrap()
    }
}

/// f32 against f64: sums alone cost a few 1e-6, and ModernBERT's stream, which no norm touches from block to block, 1.5e-5.
const CLOSE: Tolerances = Tolerances { logits: 2e-5, confidence: 2e-6, entropy: 5e-6, attention: 1e-6 };

#[test]
fn every_layout_gives_what_transformers_gives() {
    for (name, family) in ENCODERS {
        let golden = Golden::open(&fixture(name).join("golden.safetensors")).unwrap();
        for kernels in [Kernels::Slices, Kernels::Ops] {
            let mut model = Model::load(&fixture(name)).unwrap();
            model.transformer_mut().set_kernels(kernels);
            assert_eq!((model.config().family, model.config().shift), (family, false));
            let cases = golden.cases().unwrap();
            assert_eq!(cases.len(), 4);
            for case in cases {
                let compared = case.verify(&mut model, &CLOSE).unwrap();
                assert!(compared.passes(), "{name}, {kernels:?}: {compared:?}");
            }
        }
    }
}

#[test]
fn configurations_say_what_the_families_differ_in() {
    let config = |name: &str| Config::load(&fixture(name)).unwrap();
    let bert = config("bert");
    let encoder = bert.encoder.as_ref().unwrap();
    // Ids 0 to 5 are [PAD] [unused1] [UNK] [CLS] [SEP] [MASK]; 26 is a row of the table that no token has.
    assert_eq!((bert.mask_id, bert.eos_id, encoder.frame), (5, 4, Some((3, 4))));
    assert_eq!(encoder.never, [0, 1, 2, 3, 4, 5, 26]);
    let albert = config("albert");
    let shared = albert.encoder.as_ref().unwrap();
    assert_eq!((albert.layers, shared.stored_blocks, shared.embedding, albert.hidden), (3, 1, 8, 12));
    assert_eq!(shared.activation, Activation::GeluTanh);
    // <s> <pad> </s> <unk> <mask>: positions begin behind the row of <pad>, so 24 rows are 22 positions.
    let roberta = config("roberta");
    assert_eq!((roberta.mask_id, roberta.context), (4, 22));
    assert_eq!(roberta.encoder.as_ref().unwrap().frame, Some((0, 2)));
    assert_eq!(roberta.never_proposed(), [0, 1, 2, 3, 4, 25]);
    let modern = config("modernbert").encoder.unwrap();
    let local = modern.local.unwrap();
    assert_eq!((local.reach, local.layers, modern.positions), (3, vec![false, true, true, false], 0));
}

#[test]
fn transformers_4_wrote_modernbert_otherwise() {
    let new = Encoder::new("modernbert");
    let mut old = Encoder::new("modernbert").without("rope_parameters").without("layer_types");
    (old.config["global_rope_theta"], old.config["local_rope_theta"]) = (json!(160_000.0), json!(10_000.0));
    assert_eq!(old.logits(), new.logits());
    // Without an angle of their own, local layers have everybody's.
    old.config["local_rope_theta"] = json!(null);
    let config = Config::load(old.write().path()).unwrap();
    assert_eq!(config.encoder.unwrap().local.unwrap().theta, 160_000.0);
}

#[test]
fn what_stands_for_no_text_is_never_proposed() {
    for (name, _) in ENCODERS {
        let mut encoder = Encoder::new(name);
        let bias = ["cls.predictions.bias", "predictions.bias", "lm_head.bias", "decoder.bias"];
        let bias = bias.into_iter().find(|name| encoder.tensors.contains_key(*name)).unwrap();
        // Every token without text is 100 nats likelier than any other.
        let mut values: Vec<f32> = encoder.tensors[bias].to_vec1().unwrap();
        let never = Config::load(&fixture(name)).unwrap().never_proposed().to_vec();
        never.iter().for_each(|id| values[*id as usize] += 100.0);
        let n = values.len();
        encoder.tensors.insert(bias.into(), Tensor::from_vec(values, n, &Device::Cpu).unwrap());
        let folder = encoder.write();
        let mut model = Model::load(folder.path()).unwrap();
        let mask = model.mask_id();
        let (tokens, rows) = ([8, mask, mask, 9, mask], [1, 2, 4]);
        for proposal in [Proposal::greedy(), Proposal::sampled(2.0, 7)] {
            let query = Query::new(&tokens, &rows, &proposal).distributions(true);
            let prediction = model.denoise(&[query]).unwrap().remove(0);
            let distributions = prediction.distributions.unwrap();
            for (i, row) in prediction.rows.iter().enumerate() {
                assert!(!never.contains(&row.token), "{name} proposes {}", row.token);
                let p = distributions.row(i);
                assert!(never.iter().all(|id| p[*id as usize] == 0.0), "{name}: {p:?}");
                assert!(
                    (p.iter().sum::<f32>() - 1.0).abs() < 1e-5
                        && (p[row.token as usize] - row.confidence as f32).abs() < 1e-5
                );
            }
        }
        // The network itself says otherwise, and that stays visible.
        let logits = model.logits(&tokens, &[1]).unwrap().remove(0);
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
        assert!(never.contains(&(best as u32)));
    }
}

#[test]
fn neighbours_and_threads_change_no_bit() {
    for (name, _) in ENCODERS {
        let mut model = Model::load(&fixture(name)).unwrap();
        let mask = model.mask_id();
        let questions: Vec<Question> = [5usize, 1, 12, 20]
            .iter()
            .map(|&n| Question::whole((0..n).map(|i| if i % 3 == 1 { mask } else { 6 + (i % 17) as u32 }).collect()))
            .collect();
        let alone: Vec<Vec<u64>> = questions.iter().map(|question| bits(&question.alone(&mut model))).collect();
        let queries: Vec<Query<'_>> = questions
            .iter()
            .map(|q| Query::new(&q.tokens, &q.rows, &q.proposal).attention(q.layers).distributions(true).step(3))
            .collect();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let together = pool.install(|| model.denoise(&queries).unwrap());
            let together: Vec<Vec<u64>> = together.iter().map(bits).collect();
            assert_eq!(together, alone, "{name} on {threads} threads");
        }
    }
}

#[test]
fn rows_asked_alone_are_the_rows_of_all() {
    // In the last block and in the head only the asked rows are computed.
    for (name, _) in ENCODERS {
        let model = Model::load(&fixture(name)).unwrap();
        let tokens: Vec<u32> = (0..17).map(|i| 6 + i).collect();
        let all = model.logits(&tokens, &(0..17).collect::<Vec<_>>()).unwrap();
        for row in [0, 7, 16] {
            let alone = model.logits(&tokens, &[row]).unwrap().remove(0);
            for (a, b) in alone.iter().zip(&all[row]) {
                assert!((a - b).abs() < 1e-5, "{name}, row {row}: {a}, {b}");
            }
        }
    }
}

#[test]
fn heads_apart_average_to_the_head_mean() {
    for (name, _) in ENCODERS {
        let mut model = Model::load(&fixture(name)).unwrap();
        let mask = model.mask_id();
        let (tokens, rows, proposal) = ([8, mask, 9, mask, 10, mask], [1, 3, 5], Proposal::greedy());
        let (layers, heads) = (model.config().layers, model.config().heads);
        let apart = model.by_head(&Query::new(&tokens, &rows, &proposal), &rows).unwrap().unwrap();
        for layer in 0..layers {
            let query = Query::new(&tokens, &rows, &proposal).attention(Layers::Nth(layer));
            let mean = model.denoise(&[query]).unwrap().remove(0).attention.unwrap();
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let sum: f64 = (0..heads).map(|head| apart.toward(layer, head, j)[i]).sum();
                assert!((sum / heads as f64 - mean.get(i, j)).abs() < 1e-7, "{name}, layer {layer}, {i} to {j}");
            }
        }
    }
}

#[test]
fn a_configuration_without_a_name_is_told_by_its_tensors() {
    // rxnfp's has neither; a class of somebody's own (AntiBERTy) has a type.
    for (name, family) in ENCODERS {
        let nameless = Encoder::new(name).without("architectures").without("model_type");
        let config = Config::load(nameless.write().path()).unwrap();
        assert_eq!((config.family, config.encoder.is_some()), (family, true));
        assert_eq!(nameless.logits(), Encoder::new(name).logits());
        let named = Encoder::new(name).with("architectures", json!(["SomebodysOwn"]));
        assert_eq!(Config::load(named.write().path()).unwrap().family, family);
    }
}

#[test]
fn the_names_of_older_files_are_known() {
    // TensorFlow's names of norms, a head that is stored again, heads of other objectives, a buffer of integers.
    let mut old = Encoder::new("bert");
    let renamed = |name: &str| match name.strip_suffix("LayerNorm.weight") {
        Some(start) => format!("{start}LayerNorm.gamma"),
        None => match name.strip_suffix("LayerNorm.bias") {
            Some(start) => format!("{start}LayerNorm.beta"),
            None => name.into(),
        },
    };
    old.tensors = old.tensors.into_iter().map(|(name, tensor)| (renamed(&name), tensor)).collect();
    let tensor = |old: &Encoder, name: &str| old.tensors[name].clone();
    let (words, bias) = (tensor(&old, "bert.embeddings.word_embeddings.weight"), tensor(&old, "cls.predictions.bias"));
    old.tensors.insert("cls.predictions.decoder.weight".into(), words);
    old.tensors.insert("cls.predictions.decoder.bias".into(), bias);
    old.tensors.insert(
        "cls.seq_relationship.weight".into(),
        Tensor::ones((2, 12), candle_core::DType::F32, &Device::Cpu).unwrap(),
    );
    old.tensors
        .insert("bert.pooler.dense.bias".into(), Tensor::ones(12, candle_core::DType::F32, &Device::Cpu).unwrap());
    old.tensors.insert("bert.embeddings.position_ids".into(), Tensor::arange(0i64, 24, &Device::Cpu).unwrap());
    assert_eq!(old.logits(), Encoder::new("bert").logits());
    // The biases under their other name alone.
    old.tensors.remove("cls.predictions.bias");
    assert_eq!(old.logits(), Encoder::new("bert").logits());
}

#[test]
fn an_untied_head_is_used() {
    let mut untied = Encoder::new("bert").with("tie_word_embeddings", false);
    let words = untied.tensors["bert.embeddings.word_embeddings.weight"].clone();
    untied.tensors.insert("cls.predictions.decoder.weight".into(), (words * 2.0).unwrap());
    let (tied, bias) =
        (Encoder::new("bert").logits(), Encoder::new("bert").tensors["cls.predictions.bias"].to_vec1::<f32>().unwrap());
    for (row, want) in untied.logits().iter().zip(tied) {
        for ((got, want), bias) in row.iter().zip(want).zip(&bias) {
            // E h + b twice over E, and once over b.
            assert!((got - (2.0 * (want - bias) + bias)).abs() < 1e-5);
        }
    }
}

#[test]
fn words_and_pieces_of_words_are_cut_and_joined() {
    let smiles = Tokenizer::load(&fixture("albert")).unwrap();
    let text = "CCl[nH]c1(=O).Br>>[Na+]%10";
    let ids = smiles.encode(text).unwrap();
    // C Cl [nH] c 1 ( = O ) . Br >> [Na+] %10, from id 6 on in the fixture's order.
    assert_eq!(ids, [6, 9, 11, 12, 14, 17, 16, 7, 18, 19, 10, 20, 21, 22]);
    assert_eq!(smiles.decode(&ids, false).unwrap(), text);
    assert_eq!(smiles.encode("Q").unwrap(), [2], "[UNK]");
    assert_eq!(smiles.encode("[CLS]C[MASK]").unwrap(), [3, 6, 5], "nothing is added, and what is written is meant");
    let pieces = Tokenizer::load(&fixture("bert")).unwrap();
    // un ##able read, 23 to 25; a word that cannot be put together is [UNK].
    assert_eq!(pieces.encode("unable read").unwrap(), [23, 24, 25]);
    assert_eq!(pieces.decode(&[23, 24, 25], false).unwrap(), "unable read");
    assert_eq!(pieces.encode("unreadable").unwrap(), [2]);
}
