use crate::checkpoint::{Checkpoint, Folder};
use crate::gguf::written;
use crate::support::{FAMILIES, goldens};
use candle_core::{Device, Tensor};
use cofill_model::{Dtype, Error, Golden, Model, Tolerances};
use std::collections::HashMap;
use std::path::Path;

/// Checks every case of a family on one checkpoint; returns how many sequences there were.
fn check(family: &str, checkpoint: &Path) -> usize {
    let golden = Golden::open(&goldens().join(format!("{family}_forward.safetensors"))).unwrap();
    let mut model = Model::load(checkpoint).unwrap();
    let cases = golden.cases().unwrap();
    for case in &cases {
        let verdict = case.verify(&mut model, &Tolerances::default()).unwrap();
        assert!(verdict.passes(), "{}: {verdict:?}", checkpoint.display());
        // Everything was compared, but for canvases that a shifted model cannot answer.
        let skipped = model.config().shift && case.tokens[0] == model.config().mask_id;
        assert_eq!((verdict.skipped.is_some(), verdict.deviations.len()), (skipped, if skipped { 1 } else { 4 }));
        if skipped {
            assert!(case.ask(&mut model, &[0], 0).is_err(), "nothing predicts position 0");
        }
    }
    cases.len()
}

#[test]
fn conformance_forward() {
    for family in FAMILIES {
        for layout in ["tiny", "tiny_sharded", "tiny_sharded_bf16"] {
            let folder = format!("{family}_{layout}");
            let n = check(family, &goldens().join(&folder));
            println!("conformance: {folder}: {n} sequences, logits, statistics and attention of every layer agree");
            assert!(n >= 8);
        }
    }
}

#[test]
fn conformance_forward_of_gguf() {
    for family in FAMILIES {
        // The goldens' weights are bf16 values, which f32 holds; f16 is checked below.
        let folder = goldens().join(format!("{family}_tiny_sharded_bf16"));
        let n = check(family, &written(&folder, Dtype::F32).0.0);
        println!("conformance: {family} as a GGUF file: {n} sequences agree");
        assert!(n >= 8);
    }
}

#[test]
fn conformance_smaller_weights() {
    for family in FAMILIES {
        let dir = goldens().join(format!("{family}_tiny"));
        let golden = Golden::open(&goldens().join(format!("{family}_forward.safetensors"))).unwrap();
        let case = golden.cases().unwrap().into_iter().find(|case| case.name == "suffix").unwrap();
        let mean = |dtype| {
            let mut model = Model::load_as(&dir, dtype).unwrap();
            let every: Vec<usize> = (0..case.tokens.len()).collect();
            let prediction = case.ask(&mut model, &every, 2).unwrap();
            let want = case.field("confidence").unwrap();
            let off = prediction.rows.iter().zip(&want).map(|(row, want)| (row.confidence - f64::from(*want)).abs());
            off.sum::<f64>() / want.len() as f64
        };
        // Widths of 64 and 160 fit the blocks of 32; those of 256 they do not, so q4k and q6k fall back to f16.
        let (f16, q8_0) = (mean(Dtype::F16), mean(Dtype::Q8_0));
        println!("conformance: {family}: mean error of confidence {f16:.1e} in f16, {q8_0:.1e} in q8_0");
        assert!(f16 < 1e-4, "the goldens' weights are bf16 values, which f16 holds to 3 bits more: {f16}");
        assert!(q8_0 > f16 && q8_0 < 0.05, "{q8_0}");
        assert_eq!((mean(Dtype::Q4K), mean(Dtype::Q6K)), (f16, f16));
    }
}

/// A golden file of one sequence that the model itself computed, and how to change it.
struct SelfMade {
    folder: Folder,
    model: Model,
    tensors: HashMap<String, Tensor>,
}

const TOKENS: [u32; 5] = [3, 9, 47, 47, 11]; // 47 is the mask

impl SelfMade {
    fn new() -> SelfMade {
        let (folder, model) = (Folder::new(), Checkpoint::llada().load());
        let (n, layers) = (TOKENS.len(), model.config().layers);
        let rows: Vec<usize> = (0..n).collect();
        let logits: Vec<f32> = model.logits(&TOKENS, &rows).unwrap().concat();
        let vocab = model.config().vocab;
        let cpu = &Device::Cpu;
        let ids = Tensor::from_vec(TOKENS.map(i64::from).to_vec(), (1, n), cpu).unwrap();
        let zeros = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, cpu).unwrap();
        let argmax = Tensor::zeros((1, n), candle_core::DType::I64, cpu).unwrap();
        let mut tensors = HashMap::from([
            ("a.input_ids".to_owned(), ids),
            ("a.logits".to_owned(), Tensor::from_vec(logits, (1, n, vocab), cpu).unwrap()),
            ("a.confidence".to_owned(), zeros(&[1, n])),
            ("a.entropy".to_owned(), zeros(&[1, n])),
            ("a.attn_mean".to_owned(), zeros(&[layers, 1, n, n])),
            ("a.argmax".to_owned(), argmax),
        ]);
        let mut it = SelfMade { folder, model, tensors: tensors.clone() };
        let golden = it.open().unwrap();
        let case = &golden.cases().unwrap()[0];
        let by_layer: Vec<_> = (0..layers).map(|layer| case.ask(&mut it.model, &rows, layer).unwrap()).collect();
        let of_rows = |f: &dyn Fn(&cofill::RowStats) -> f64| -> Tensor {
            let values: Vec<f32> = by_layer[0].rows.iter().map(|row| f(row) as f32).collect();
            Tensor::from_vec(values, (1, n), cpu).unwrap()
        };
        tensors.insert("a.confidence".into(), of_rows(&|row| row.confidence));
        tensors.insert("a.entropy".into(), of_rows(&|row| row.entropy));
        let tokens: Vec<i64> = by_layer[0].rows.iter().map(|row| i64::from(row.token)).collect();
        tensors.insert("a.argmax".into(), Tensor::from_vec(tokens, (1, n), cpu).unwrap());
        let pairs = (0..n).flat_map(|q| (0..n).map(move |k| (q, k)));
        let attention = |p: &cofill::Prediction| -> Vec<f32> {
            pairs.clone().map(|(q, k)| p.attention.as_ref().unwrap().get(q, k) as f32).collect()
        };
        let attention: Vec<f32> = by_layer.iter().flat_map(attention).collect();
        tensors.insert("a.attn_mean".into(), Tensor::from_vec(attention, (layers, 1, n, n), cpu).unwrap());
        it.tensors = tensors;
        it
    }

    fn open(&self) -> Result<Golden, Error> {
        let path = self.folder.join("golden.safetensors");
        candle_core::safetensors::save(&self.tensors, &path).unwrap();
        Golden::open(&path)
    }

    /// The names of what deviates, or the error.
    fn deviates(&mut self) -> Result<Vec<&'static str>, String> {
        let golden = self.open().map_err(|error| error.to_string())?;
        let cases = golden.cases().map_err(|error| error.to_string())?;
        let verdict =
            cases[0].verify(&mut self.model, &Tolerances::default()).map_err(|error| format!("{:#}", chain(&error)))?;
        let off = verdict.deviations.iter().filter(|deviation| !deviation.passes());
        let tokens = (!verdict.other_tokens.is_empty()).then_some("tokens");
        let off: Vec<&str> = off.map(|deviation| deviation.quantity).chain(tokens).collect();
        assert_eq!(off.is_empty(), verdict.passes());
        Ok(off)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or(error.to_string(), |source| format!("{error}: {}", chain(source)))
}

#[test]
fn every_deviation_is_found() {
    assert_eq!(SelfMade::new().deviates(), Ok(vec![]));
    // Twice the tolerance at every number, and the largest is what counts.
    for (field, by, quantity) in [
        ("logits", 1e-3, "logits"),
        ("confidence", 1e-4, "confidence"),
        ("entropy", 4e-4, "entropy"),
        ("attn_mean", 4e-5, "attention"),
        ("confidence", f64::NAN, "confidence"),
        ("attn_mean", f64::INFINITY, "attention"),
    ] {
        let mut it = SelfMade::new();
        let name = format!("a.{field}");
        let moved = (&it.tensors[&name] + by).unwrap();
        it.tensors.insert(name, moved);
        assert_eq!(it.deviates(), Ok(vec![quantity]), "{field}");
    }
    let mut it = SelfMade::new();
    let other = (&it.tensors["a.argmax"] + 1.0).unwrap();
    it.tensors.insert("a.argmax".into(), other);
    assert!(it.deviates().unwrap().contains(&"tokens"));
}

#[test]
fn a_wrong_golden_file_is_refused() {
    let refused = |change: &dyn Fn(&mut HashMap<String, Tensor>), words: &str| {
        let mut it = SelfMade::new();
        change(&mut it.tensors);
        let message = it.deviates().expect_err(words);
        assert!(message.contains(words), "{message}: this should say {words}");
    };
    for field in ["logits", "confidence", "entropy", "argmax", "attn_mean"] {
        refused(&|tensors| drop(tensors.remove(&format!("a.{field}"))), &format!("tensor `a.{field}` is missing"));
    }
    refused(&|tensors| drop(tensors.remove("a.input_ids")), "`<case>.input_ids` is missing");
    let ids = |ids: &[i64]| Tensor::from_vec(ids.to_vec(), (1, ids.len()), &Device::Cpu).unwrap();
    refused(&|tensors| drop(tensors.insert("a.input_ids".into(), ids(&[1, 2, -3, 4, 5]))), "-3 is no token id");
    refused(&|tensors| drop(tensors.insert("a.input_ids".into(), ids(&[1, 2, 52, 4, 5]))), "token 52 at position 2");
    refused(&|tensors| drop(tensors.insert("a.input_ids".into(), ids(&[1; 65]))), "65 positions");
    refused(&|tensors| drop(tensors.insert("a.input_ids".into(), ids(&[1; 6]))), "a.logits");
    let floats = Tensor::zeros((1, 5), candle_core::DType::F32, &Device::Cpu).unwrap();
    refused(&|tensors| drop(tensors.insert("a.input_ids".into(), floats.clone())), "`a.input_ids`");
    refused(&|tensors| drop(tensors.insert("a.logits".into(), floats.clone())), "5 numbers, but the model gives 260");
    refused(&|tensors| drop(tensors.insert("a.attn_mean".into(), floats.clone())), "`a.attn_mean`");
    let zeros = Tensor::zeros((1, 5), candle_core::DType::I64, &Device::Cpu).unwrap();
    refused(&|tensors| drop(tensors.insert("a.attention_mask".into(), zeros.clone())), "sequence 0 is empty");
    let folder = Folder::new();
    folder.put("golden", b"no safetensors");
    assert!(Golden::open(&folder.join("golden")).is_err_and(|error| error.to_string().contains("not a safetensors")));
    assert!(
        Golden::open(&folder.join("none")).is_err_and(|error| error.to_string().contains("the golden file is missing"))
    );
}

/// ln p of a given token is the logarithm of its entry in the distribution, at every row and with guidance as without.
#[test]
fn log_probabilities_of_given_tokens_are_logs_of_the_distribution() {
    for name in ["tiny-llada", "tiny-dream"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name);
        let mut model = cofill_model::Model::load(&folder).unwrap();
        let mask = model.config().mask_id;
        let tokens = [20, 30, mask, mask, 40, mask];
        let (rows, targets, proposal) = ([2, 3, 5], [7, mask, 90], cofill::Proposal::greedy());
        for guidance in [0.0, 1.5] {
            model.set_guidance(guidance).unwrap();
            let query = cofill::Query::new(&tokens, &rows, &proposal).distributions(true).targets(&targets);
            let answer = cofill::Denoiser::denoise(&mut model, &[query]).unwrap().remove(0);
            let (p, scored) = (answer.distributions.unwrap(), answer.log_probabilities.unwrap());
            for (r, &target) in targets.iter().enumerate() {
                let want = f64::from(p.row(r)[target as usize]);
                // The distribution is f32.
                assert!(
                    (scored[r].exp() - want).abs() < 1e-6 + 1e-5 * want,
                    "{name} {r}: {} is not {want}",
                    scored[r].exp()
                );
            }
        }
        let query = cofill::Query::new(&tokens, &rows, &proposal).targets(&targets[..2]);
        let said = cofill::Denoiser::denoise(&mut model, &[query]).unwrap_err().to_string();
        assert!(said.contains("targets"), "{said}");
    }
}
