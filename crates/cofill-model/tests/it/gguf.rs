//! A GGUF file gives the same numbers as the folder it comes from, bit for bit.

mod builder;
mod faults;
mod vocabulary;

use crate::checkpoint::{Checkpoint, Folder, Random, Sizes, TINY, Tensor};
use crate::invariance::{Question, bits, canvas};
use builder::Builder;
use cofill_model::{Checkpoint as OnDisk, Dtype, Error, Model, Quantise, QuantisedFile};
use std::path::{Path, PathBuf};

/// Widths that blocks of 256 divide.
const WIDE: Sizes = Sizes { hidden: 256, layers: 2, heads: 4, kv_heads: 2, mlp: 512, vocab: 52, context: 64 };

/// A file in a folder of its own, gone when the test is over.
pub(crate) struct Scratch(
    pub(crate) PathBuf,
    #[expect(dead_code, reason = "kept until the file is not needed")] Folder,
);

impl Scratch {
    fn new() -> Scratch {
        let folder = Folder::new();
        Scratch(folder.join("model.gguf"), folder)
    }

    fn quantise(&self, from: &Path, dtype: Dtype) -> Result<QuantisedFile, Error> {
        let checkpoint = OnDisk::open(from)?;
        let mut out = std::fs::File::create(&self.0).unwrap();
        Quantise { checkpoint: &checkpoint, dtype }.run(&mut out, |_, _, _| {})
    }
}

/// Writes `from` as a GGUF file.
pub(crate) fn written(from: &Path, dtype: Dtype) -> (Scratch, QuantisedFile) {
    let file = Scratch::new();
    let summary = file.quantise(from, dtype).unwrap();
    (file, summary)
}

/// Why `from` is not written.
fn refusal(from: &Path, dtype: Dtype) -> Error {
    Scratch::new().quantise(from, dtype).unwrap_err()
}

/// Every bit of the answers to two questions.
fn answers(mut model: Model) -> Vec<u64> {
    let config = model.config().clone();
    let whole = Question::whole(canvas(&mut Random(3), &config, 40));
    let few = Question { rows: vec![2, 9, 31], ..whole.clone() };
    [whole, few].iter().flat_map(|question| bits(&question.alone(&mut model))).collect()
}

// ---- the same numbers

#[test]
fn a_gguf_file_answers_as_its_folder_does() {
    let mut biased = Checkpoint::llada().with("include_qkv_bias", true);
    for i in 0..TINY.layers {
        for leaf in ["q_proj", "k_proj", "v_proj"] {
            let name = format!("model.transformer.blocks.{i}.{leaf}.bias");
            let values = (0..32).map(|j| (j * 7 % 32) as f32 / 64.0).collect();
            biased.tensors.push(Tensor { name, shape: vec![32], values });
        }
    }
    for (name, checkpoint) in Checkpoint::with_gguf().into_iter().chain([("llada, with biases", biased)]) {
        let folder = checkpoint.write();
        let (file, summary) = written(folder.path(), Dtype::F32);
        assert!(summary.stayed_f16.is_empty() && summary.without_tokenizer.is_some());
        assert_eq!(summary.bytes, std::fs::metadata(&file.0).unwrap().len());
        let (from, to) = (Model::load(folder.path()).unwrap(), Model::load(&file.0).unwrap());
        let mut want = from.config().clone();
        want.rms_eps = f64::from(want.rms_eps as f32); // all that the format holds, and all that is computed with
        assert_eq!(*to.config(), want, "{name}");
        assert_eq!(answers(from), answers(to), "{name}");
    }
}

#[test]
fn what_was_written_is_what_would_have_been_converted() {
    for checkpoint in [Checkpoint::llada_of(WIDE), Checkpoint::dream_of(WIDE), Checkpoint::dream()] {
        let folder = checkpoint.write();
        for dtype in Dtype::all() {
            let (file, _) = written(folder.path(), dtype);
            let want = answers(Model::load_as(folder.path(), dtype).unwrap());
            assert_eq!(answers(Model::load(&file.0).unwrap()), want, "{dtype}: as it is stored");
            assert_eq!(answers(Model::load_as(&file.0, dtype).unwrap()), want, "{dtype}: asked for by name");
        }
        // From the exact file to any other is as good as from the folder.
        let (exact, _) = written(folder.path(), Dtype::F32);
        let want = answers(Model::load_as(folder.path(), Dtype::Q8_0).unwrap());
        assert_eq!(answers(Model::load_as(&exact.0, Dtype::Q8_0).unwrap()), want);
        let (again, _) = written(&exact.0, Dtype::Q8_0);
        assert_eq!(answers(Model::load(&again.0).unwrap()), want);
    }
}

#[test]
fn a_tied_head_is_written_once_where_one_type_serves_both() {
    let mut checkpoint = Checkpoint::dream_of(WIDE).with("tie_word_embeddings", true);
    checkpoint.tensors.retain(|tensor| tensor.name != "lm_head.weight");
    let folder = checkpoint.write();
    let all = checkpoint.tensors.len();
    for (dtype, tensors) in [(Dtype::F32, all), (Dtype::F16, all), (Dtype::Q4K, all + 1)] {
        let (file, summary) = written(folder.path(), dtype);
        assert_eq!(summary.tensors, tensors, "{dtype}");
        let want = answers(Model::load_as(folder.path(), dtype).unwrap());
        assert_eq!(answers(Model::load(&file.0).unwrap()), want, "{dtype}");
    }
}

#[test]
fn narrow_tensors_stay_f16_and_are_named() {
    let folder = Checkpoint::llada().write(); // widths of 32 and 48
    let (_file, summary) = written(folder.path(), Dtype::Q8_0);
    let down: Vec<String> = (0..TINY.layers).map(|i| format!("blk.{i}.ffn_down.weight")).collect();
    assert_eq!(summary.stayed_f16, down, "only 48 is no multiple of 32");
    let (_file, summary) = written(folder.path(), Dtype::Q4K);
    assert_eq!(summary.stayed_f16.len(), TINY.layers * 7 + 1, "seven matrices a layer, and the head");
}

#[test]
fn what_fails_while_writing_is_told() {
    let mut broken = Checkpoint::llada();
    broken.tensor("model.transformer.blocks.2.up_proj.weight").values[5] = f32::NAN;
    let refused = refusal(broken.write().path(), Dtype::F32);
    assert!(matches!(refused, Error::NotFinite { index: 5, .. }), "{refused}");
    // A disk with room for 1000 bytes.
    let (folder, mut room) = (Checkpoint::llada().write(), [0; 1000]);
    let checkpoint = OnDisk::open(folder.path()).unwrap();
    let job = Quantise { checkpoint: &checkpoint, dtype: Dtype::F32 };
    let full = job.run(&mut room.as_mut_slice(), |_, _, _| {}).unwrap_err();
    assert!(matches!(full, Error::Write(_)), "{full}");
}

#[test]
fn a_family_that_llama_cpp_does_not_have_is_not_written() {
    let folder = Checkpoint::qwen3().write();
    let error = refusal(folder.path(), Dtype::F32);
    assert!(matches!(&error, Error::Unsupported { given, .. } if given == "Qwen"), "{error}");
}

#[test]
fn a_weight_beyond_f16_is_named_by_whoever_would_narrow_it() {
    for name in ["model.transformer.blocks.1.q_proj.weight", "model.transformer.wte.weight"] {
        let mut checkpoint = Checkpoint::llada();
        checkpoint.tensor(name).values[5] = -1e5;
        let folder = checkpoint.write();
        assert!(Model::load(folder.path()).is_ok(), "f32 holds it");
        for dtype in [Dtype::F16, Dtype::Q8_0, Dtype::Q4K] {
            let loaded = Model::load_as(folder.path(), dtype).map(drop).unwrap_err();
            for error in [loaded, refusal(folder.path(), dtype)] {
                let message = error.to_string();
                for word in [name, "1e5", "65504", "f32"] {
                    assert!(message.contains(word), "{dtype}: {message}");
                }
            }
        }
    }
}

#[test]
fn a_head_that_contradicts_its_tie_is_not_dropped() {
    let folder = Checkpoint::llada().with("weight_tying", true).write();
    let error = refusal(folder.path(), Dtype::F32);
    assert!(matches!(error, Error::NotTied { .. }), "{error}");
}

#[test]
fn files_of_the_converter_answer_as_the_folder_does() {
    for (name, checkpoint) in Checkpoint::with_gguf() {
        let want = answers(checkpoint.load());
        // The values are held exactly by all three types, so that as stored is as good as f32.
        for dtype in [0, 1, 30] {
            for version in [2, 3] {
                let (_folder, path) = Builder { version, ..Builder::of(&checkpoint, dtype) }.write();
                assert_eq!(answers(Model::load(&path).unwrap()), want, "{name}, type {dtype}");
                assert_eq!(answers(Model::load_as(&path, Dtype::F32).unwrap()), want, "{name}, type {dtype}, in f32");
            }
        }
    }
}

#[test]
fn our_files_and_the_converters_hold_the_same_rows() {
    let checkpoint = Checkpoint::llada_of(Sizes { kv_heads: 2, ..TINY });
    let folder = checkpoint.write();
    let (ours, _) = written(folder.path(), Dtype::F32);
    let (ours, theirs) = (std::fs::read(&ours.0).unwrap(), Builder::of(&checkpoint, 0));
    for (name, _, _, bytes) in &theirs.tensors {
        // Random weights: their bytes are found at one place or not at all.
        assert!(ours.windows(bytes.len()).any(|window| window == bytes), "{name}");
    }
}

#[test]
fn every_stored_type_is_run_as_it_is_stored() {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor as Values};
    let cpu = &Device::Cpu;
    for (number, dtype) in [
        (2, GgmlDType::Q4_0),
        (3, GgmlDType::Q4_1),
        (6, GgmlDType::Q5_0),
        (7, GgmlDType::Q5_1),
        (8, GgmlDType::Q8_0),
        (10, GgmlDType::Q2K),
        (11, GgmlDType::Q3K),
        (12, GgmlDType::Q4K),
        (13, GgmlDType::Q5K),
        (14, GgmlDType::Q6K),
    ] {
        for tied in [false, true] {
            // The same numbers twice: quantised in a file, and what they dequantise to in a folder. LLaDA's head may be tied too.
            let mut checkpoint = Checkpoint::llada_of(WIDE).with("weight_tying", tied);
            checkpoint.tensors.retain(|tensor| !(tied && tensor.name == "model.transformer.ff_out.weight"));
            let mut file = Builder::of(&checkpoint, 0);
            for (tensor, (_, dims, kind, bytes)) in checkpoint.tensors.iter_mut().zip(&mut file.tensors) {
                let &[rows, columns] = &*tensor.shape else { continue };
                assert_eq!(*dims, [columns as u64, rows as u64]);
                let quantise = |values: Vec<f32>| {
                    let values = Values::from_vec(values, (rows, columns), cpu).unwrap();
                    QTensor::quantize(&values, dtype).unwrap()
                };
                // The file's rows are in llama.cpp's order already, and every row is quantised by itself.
                let stored: Vec<f32> = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
                (*kind, *bytes) = (number, quantise(stored).data().unwrap().into_owned());
                let values = quantise(tensor.values.clone()).dequantize(cpu).unwrap();
                tensor.values = values.flatten_all().unwrap().to_vec1().unwrap();
            }
            let (_file, path) = file.write();
            let mut exact = checkpoint.load();
            let question = Question::whole(canvas(&mut Random(3), exact.config(), 40));
            let want = question.alone(&mut exact);
            let off = |model: &mut Model| {
                let got = question.alone(model);
                let off = got.rows.iter().zip(&want.rows).map(|(a, b)| (a.confidence - b.confidence).abs());
                off.sum::<f64>() / want.rows.len() as f64
            };
            assert_eq!(off(&mut Model::load_as(&path, Dtype::F32).unwrap()), 0.0, "{dtype:?}");
            // Multiplied in whole numbers, with activations rounded to eight bits: off by up to 0.03 on average. Q2_K and Q3_K are
            // widened for the product, and rows are looked up exactly, so nothing is left but the order of sums.
            let stored = off(&mut Model::load(&path).unwrap());
            match dtype {
                GgmlDType::Q2K | GgmlDType::Q3K => assert!(stored < 1e-5, "{dtype:?}: {stored}"),
                _ => assert!(stored > 0.0 && stored < 0.05, "{dtype:?}: {stored}"),
            }
        }
    }
}
