use crate::checkpoint::{Checkpoint, Folder, Random, Sizes, TINY, Tensor};
use crate::invariance::{Question, bits, canvas};
use crate::support::{FAMILIES, json, shared};
use cofill_model::{Checkpoint as OnDisk, Error, Model, Precision, Quantise, Written};
use half::{bf16, f16};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Widths that blocks of 256 divide.
const WIDE: Sizes = Sizes { hidden: 256, layers: 2, heads: 4, kv_heads: 2, mlp: 512, vocab: 52, context: 64 };

/// Writes `from` as a GGUF file beside itself.
fn quantise(from: &Path, precision: Precision, overwrite: bool) -> Result<(PathBuf, Written), Error> {
    let out = from.with_extension(format!("{precision}.gguf"));
    let checkpoint = OnDisk::open(from)?;
    let written = Quantise { checkpoint: &checkpoint, out: &out, precision, overwrite }.run(|_, _, _| {})?;
    Ok((out, written))
}

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn written(from: &Path, precision: Precision) -> (Scratch, Written) {
    let (out, written) = quantise(from, precision, true).unwrap();
    (Scratch(out), written)
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
    let biased = Checkpoint::llada().with("include_qkv_bias", true);
    let biased = {
        let mut it = biased;
        for i in 0..TINY.layers {
            for leaf in ["q_proj", "k_proj", "v_proj"] {
                let name = format!("model.transformer.blocks.{i}.{leaf}.bias");
                let values = (0..32).map(|j| (j * 7 % 32) as f32 / 64.0).collect();
                it.tensors.push(Tensor { name, shape: vec![32], values });
            }
        }
        it
    };
    for (name, checkpoint) in Checkpoint::all().into_iter().chain([("llada, with biases", biased)]) {
        let folder = checkpoint.write();
        let (file, summary) = written(folder.path(), Precision::F32);
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
        for precision in Precision::all() {
            let (file, _) = written(folder.path(), precision);
            let want = answers(Model::load_as(folder.path(), precision).unwrap());
            assert_eq!(answers(Model::load(&file.0).unwrap()), want, "{precision}: as it is stored");
            assert_eq!(answers(Model::load_as(&file.0, precision).unwrap()), want, "{precision}: asked for by name");
        }
        // From the exact file to any other is as good as from the folder.
        let (exact, _) = written(folder.path(), Precision::F32);
        let want = answers(Model::load_as(folder.path(), Precision::Q8_0).unwrap());
        assert_eq!(answers(Model::load_as(&exact.0, Precision::Q8_0).unwrap()), want);
        let (again, _) = written(&exact.0, Precision::Q8_0);
        assert_eq!(answers(Model::load(&again.0).unwrap()), want);
    }
}

#[test]
fn a_tied_head_is_written_once_where_one_type_serves_both() {
    let mut checkpoint = Checkpoint::dream_of(WIDE).with("tie_word_embeddings", true);
    checkpoint.tensors.retain(|tensor| tensor.name != "lm_head.weight");
    let folder = checkpoint.write();
    let all = checkpoint.tensors.len();
    for (precision, tensors) in [(Precision::F32, all), (Precision::F16, all), (Precision::Q4K, all + 1)] {
        let (file, summary) = written(folder.path(), precision);
        assert_eq!(summary.tensors, tensors, "{precision}");
        let want = answers(Model::load_as(folder.path(), precision).unwrap());
        assert_eq!(answers(Model::load(&file.0).unwrap()), want, "{precision}");
    }
}

#[test]
fn narrow_tensors_stay_f16_and_are_named() {
    let folder = Checkpoint::llada().write(); // widths of 32 and 48
    let (_file, summary) = written(folder.path(), Precision::Q8_0);
    let down: Vec<String> = (0..TINY.layers).map(|i| format!("blk.{i}.ffn_down.weight")).collect();
    assert_eq!(summary.stayed_f16, down, "only 48 is no multiple of 32");
    let (_file, summary) = written(folder.path(), Precision::Q4K);
    assert_eq!(summary.stayed_f16.len(), TINY.layers * 7 + 1, "seven matrices a layer, and the head");
}

#[test]
fn nothing_is_lost_when_writing_fails() {
    let folder = Checkpoint::llada().write();
    let (file, _) = written(folder.path(), Precision::F32);
    let before = std::fs::read(&file.0).unwrap();
    let refused = quantise(folder.path(), Precision::F32, false).unwrap_err();
    assert!(matches!(&refused, Error::Exists { path } if *path == file.0), "{refused}");
    let mut broken = Checkpoint::llada();
    broken.tensor("model.transformer.blocks.2.up_proj.weight").values[5] = f32::NAN;
    folder.put("model.safetensors", crate::checkpoint::pack(&broken.tensors, safetensors::Dtype::F32));
    let refused = quantise(folder.path(), Precision::F32, true).unwrap_err();
    assert!(matches!(refused, Error::NotFinite { index: 5, .. }), "{refused}");
    assert_eq!(std::fs::read(&file.0).unwrap(), before);
    let name = file.0.file_name().unwrap().to_str().unwrap();
    let around = std::fs::read_dir(file.0.parent().unwrap()).unwrap();
    let parts = around.filter(|entry| {
        let entry = entry.as_ref().unwrap().file_name().into_string().unwrap();
        entry.starts_with(name) && entry.ends_with(".part")
    });
    assert_eq!(parts.count(), 0, "the half-written file is gone");
}

// ---- files as llama.cpp's converter makes them, written here by hand

#[derive(Clone)]
enum Entry {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Kinds(Vec<i32>),
}

/// A file in the making: keys, and tensors with their dimensions innermost first.
#[derive(Clone)]
struct Builder {
    version: u32,
    entries: Vec<(String, Entry)>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl Builder {
    /// What the converter says of a checkpoint: no tokenizer, and weights in F32, F16 or BF16.
    fn of(checkpoint: &Checkpoint, dtype: u32) -> Builder {
        let config = &checkpoint.config;
        let llada = config["architectures"][0] == "LLaDAModelLM";
        let arch = if llada { "llada" } else { "dream" };
        let fields: [(&str, &str); 6] = match llada {
            true => [
                ("block_count", "n_layers"),
                ("context_length", "max_sequence_length"),
                ("embedding_length", "d_model"),
                ("feed_forward_length", "mlp_hidden_size"),
                ("attention.head_count", "n_heads"),
                ("attention.head_count_kv", "n_kv_heads"),
            ],
            false => [
                ("block_count", "num_hidden_layers"),
                ("context_length", "max_position_embeddings"),
                ("embedding_length", "hidden_size"),
                ("feed_forward_length", "intermediate_size"),
                ("attention.head_count", "num_attention_heads"),
                ("attention.head_count_kv", "num_key_value_heads"),
            ],
        };
        let number = |field: &str| config[field].as_u64().unwrap() as u32;
        let mut entries = vec![("general.architecture".to_owned(), Entry::Text(arch.into()))];
        entries.extend(fields.map(|(key, field)| (format!("{arch}.{key}"), Entry::U32(number(field)))));
        let float = |field: &str| Entry::F32(config[field].as_f64().unwrap() as f32);
        entries.push((format!("{arch}.attention.layer_norm_rms_epsilon"), float("rms_norm_eps")));
        entries.push((format!("{arch}.rope.freq_base"), float("rope_theta")));
        entries.push((format!("{arch}.attention.causal"), Entry::Bool(false)));
        entries.push(("tokenizer.ggml.mask_token_id".into(), Entry::U32(number("mask_token_id"))));
        entries.push(("tokenizer.ggml.eos_token_id".into(), Entry::U32(number("eos_token_id"))));
        if llada {
            entries.push(("diffusion.shift_logits".into(), Entry::Bool(false)));
        }
        let heads = |name: &str| match () {
            () if !llada => None,
            () if name.contains("q_proj") => Some(number("n_heads") as usize),
            () if name.contains("k_proj") => Some(number("n_kv_heads") as usize),
            () => None,
        };
        let encode = |tensor: &Tensor, values: &[f32]| -> (u32, Vec<u8>) {
            match dtype {
                1 if tensor.shape.len() > 1 => {
                    (1, values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect())
                }
                30 if tensor.shape.len() > 1 => {
                    (30, values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect())
                }
                _ => (0, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            }
        };
        let tensors = checkpoint.tensors.iter().map(|tensor| {
            let values = match heads(&tensor.name) {
                Some(heads) => permute(tensor, heads),
                None => tensor.values.clone(),
            };
            let (dtype, bytes) = encode(tensor, &values);
            (rename(&tensor.name), tensor.shape.iter().rev().map(|&n| n as u64).collect(), dtype, bytes)
        });
        Builder { version: 3, entries, tensors: tensors.collect() }
    }

    fn with(mut self, key: &str, entry: Entry) -> Builder {
        self.entries.retain(|(other, _)| other != key);
        self.entries.push((key.into(), entry));
        self
    }

    fn without(mut self, key: &str) -> Builder {
        self.entries.retain(|(other, _)| other != key);
        self
    }

    fn tensor(&mut self, name: &str) -> &mut (String, Vec<u64>, u32, Vec<u8>) {
        self.tensors.iter_mut().find(|(other, ..)| other == name).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.entries.len() as u64).to_le_bytes());
        for (key, entry) in &self.entries {
            text(&mut out, key);
            let mut put = |kind: u32, value: &[u8]| {
                out.extend(kind.to_le_bytes());
                out.extend(value);
            };
            match entry {
                Entry::U32(n) => put(4, &n.to_le_bytes()),
                Entry::F32(x) => put(6, &x.to_le_bytes()),
                Entry::Bool(b) => put(7, &[u8::from(*b)]),
                Entry::Text(t) => {
                    put(8, &[]);
                    text(&mut out, t);
                }
                Entry::Texts(texts) => {
                    put(9, &8u32.to_le_bytes());
                    out.extend((texts.len() as u64).to_le_bytes());
                    texts.iter().for_each(|t| text(&mut out, t));
                }
                Entry::Kinds(kinds) => {
                    put(9, &5u32.to_le_bytes());
                    out.extend((kinds.len() as u64).to_le_bytes());
                    out.extend(kinds.iter().flat_map(|kind| kind.to_le_bytes()));
                }
            }
        }
        let mut offset = 0u64;
        for (name, dims, dtype, bytes) in &self.tensors {
            text(&mut out, name);
            out.extend((dims.len() as u32).to_le_bytes());
            out.extend(dims.iter().flat_map(|n| n.to_le_bytes()));
            out.extend(dtype.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += (bytes.len() as u64).next_multiple_of(32);
        }
        for (.., bytes) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(bytes);
        }
        out
    }

    fn write(&self) -> (Folder, PathBuf) {
        put(&self.bytes())
    }
}

fn put(bytes: &[u8]) -> (Folder, PathBuf) {
    let folder = Folder::new();
    folder.put("model.gguf", bytes);
    let path = folder.join("model.gguf");
    (folder, path)
}

/// `weights.reshape(heads, 2, rows / heads / 2, columns).swapaxes(1, 2).reshape(rows, columns)`, as the converter has it: read the
/// halves of a head side by side. Loops over the result's axes in their order.
fn permute(tensor: &Tensor, heads: usize) -> Vec<f32> {
    let (rows, columns) = (tensor.shape[0], tensor.shape.get(1).copied().unwrap_or(1));
    let half = rows / heads / 2;
    let mut out = Vec::new();
    for head in 0..heads {
        for j in 0..half {
            for side in 0..2 {
                let row = (head * 2 + side) * half + j;
                out.extend(&tensor.values[row * columns..(row + 1) * columns]);
            }
        }
    }
    out
}

/// The converter's table, both families.
fn rename(name: &str) -> String {
    let block = |rest: &str| {
        let (i, leaf) = rest.split_once('.').unwrap();
        let leaf = match leaf {
            "attn_norm.weight" | "input_layernorm.weight" => "attn_norm.weight".into(),
            "ff_norm.weight" | "post_attention_layernorm.weight" => "ffn_norm.weight".into(),
            "attn_out.weight" | "self_attn.o_proj.weight" => "attn_output.weight".into(),
            "ff_proj.weight" | "mlp.gate_proj.weight" => "ffn_gate.weight".into(),
            "up_proj.weight" | "mlp.up_proj.weight" => "ffn_up.weight".into(),
            "ff_out.weight" | "mlp.down_proj.weight" => "ffn_down.weight".into(),
            qkv => format!("attn_{}", qkv.trim_start_matches("self_attn.").replace("_proj", "")),
        };
        format!("blk.{i}.{leaf}")
    };
    match name {
        "model.transformer.wte.weight" | "model.embed_tokens.weight" => "token_embd.weight".into(),
        "model.transformer.ln_f.weight" | "model.norm.weight" => "output_norm.weight".into(),
        "model.transformer.ff_out.weight" | "lm_head.weight" => "output.weight".into(),
        _ => block(name.strip_prefix("model.transformer.blocks.").or(name.strip_prefix("model.layers.")).unwrap()),
    }
}

#[test]
fn files_of_the_converter_answer_as_the_folder_does() {
    for (name, checkpoint) in Checkpoint::all() {
        let folder = checkpoint.write();
        let want = answers(Model::load(folder.path()).unwrap());
        // The values are held exactly by all three types, so that as stored is as good as f32.
        for dtype in [0, 1, 30] {
            for version in [2, 3] {
                let (_folder, path) = Builder { version, ..Builder::of(&checkpoint, dtype) }.write();
                assert_eq!(answers(Model::load(&path).unwrap()), want, "{name}, type {dtype}");
                assert_eq!(
                    answers(Model::load_as(&path, Precision::F32).unwrap()),
                    want,
                    "{name}, type {dtype}, in f32"
                );
            }
        }
    }
}

#[test]
fn our_files_and_the_converters_hold_the_same_rows() {
    let checkpoint = Checkpoint::llada_of(Sizes { kv_heads: 2, ..TINY });
    let folder = checkpoint.write();
    let (ours, _) = written(folder.path(), Precision::F32);
    let (ours, theirs) = (std::fs::read(&ours.0).unwrap(), Builder::of(&checkpoint, 0));
    for (name, _, _, bytes) in &theirs.tensors {
        // Random weights: their bytes are found at one place or not at all.
        assert!(ours.windows(bytes.len()).any(|window| window == bytes), "{name}");
    }
}

// ---- damage

#[track_caller]
fn refused(builder: &Builder, words: &[&str]) {
    let (_folder, path) = builder.write();
    is_refused(&path, words);
}

#[track_caller]
fn is_refused(path: &Path, words: &[&str]) {
    let error = match Model::load(path) {
        Ok(_) => panic!("it loads"),
        Err(error) => error,
    };
    let message = error.to_string();
    let path = format!("`{}`", path.display());
    assert!(!matches!(error, Error::Candle(_)), "{message}");
    for word in words.iter().copied().chain([&*path]) {
        assert!(message.contains(word), "{message}: this should say {word}");
    }
}

fn llada() -> Builder {
    Builder::of(&Checkpoint::llada(), 0)
}

#[test]
fn a_file_that_is_none() {
    for bytes in [&b""[..], b"G", b"GGML\x03\0\0\0", b"PK\x03\x04 a zip"] {
        let (_folder, path) = put(bytes);
        is_refused(&path, &[]);
    }
    is_refused(&put(b"GGUX\x03\0\0\0").1, &["does not start with `GGUF`"]);
    refused(&Builder { version: 1, ..llada() }, &["the version is `1`", "2 and 3"]);
    refused(&Builder { version: 4, ..llada() }, &["the version is `4`"]);
    refused(&Builder { version: 3u32.swap_bytes(), ..llada() }, &["the byte order is `big endian`"]);
}

#[test]
fn counts_and_lengths_beyond_the_file() {
    let whole = llada().bytes();
    // After magic and version: tensors, then keys, then the length of the first key.
    for (at, words) in [(8, "truncated or damaged"), (16, "truncated or damaged"), (24, "truncated or damaged")] {
        for huge in [u64::MAX, 1 << 62, 1 << 40, whole.len() as u64] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&huge.to_le_bytes());
            let (_folder, path) = put(&bytes);
            if at == 24 {
                is_refused(&path, &[words]);
            } else {
                is_refused(&path, &[]); // what follows is read as something else, whatever that is
            }
        }
    }
    for cut in [5, 12, 30, whole.len() / 2, whole.len() - 1] {
        let (_folder, path) = put(&whole[..cut]);
        is_refused(&path, &["truncated or damaged"]);
    }
}

#[test]
fn keys_that_are_missing_or_wrong() {
    for key in [
        "general.architecture",
        "llada.block_count",
        "llada.context_length",
        "llada.embedding_length",
        "llada.feed_forward_length",
        "llada.attention.head_count",
        "llada.attention.layer_norm_rms_epsilon",
        "llada.rope.freq_base",
        "tokenizer.ggml.mask_token_id",
        "tokenizer.ggml.eos_token_id",
    ] {
        refused(&llada().without(key), &[&format!("the key `{key}` is missing")]);
        let wrong = if key == "general.architecture" { Entry::U32(7) } else { Entry::Text("seven".into()) };
        refused(&llada().with(key, wrong), &[&format!("`{key}` is "), "but must be"]);
    }
    let text = |text: &str| Entry::Text(text.into());
    refused(&llada().with("general.architecture", text("llama")), &["is `llama`", "`llada` and `dream`"]);
    refused(&llada().with("llada.attention.causal", Entry::Bool(true)), &["attention.causal` is `true`"]);
    refused(&llada().with("llada.rope.scaling.type", text("yarn")), &["rope.scaling.type` is `yarn`"]);
    refused(&llada().with("llada.rope.dimension_count", Entry::U32(4)), &["dimension_count` is `4`", "8"]);
    refused(&llada().with("llada.block_count", Entry::U32(0)), &["from 1 to"]);
    refused(&llada().with("llada.block_count", Entry::U32(u32::MAX)), &["from 1 to"]);
    refused(&llada().with("llada.attention.head_count", Entry::U32(3)), &["cannot be split over 3 heads"]);
    refused(&llada().with("llada.attention.head_count_kv", Entry::U32(3)), &["cannot share 3 key heads"]);
    refused(&llada().with("llada.vocab_size", Entry::U32(53)), &["is 53, but the embedding has 52 rows"]);
    refused(&llada().with("llada.rope.freq_base", Entry::F32(f32::NAN)), &["rope_theta"]);
    refused(&llada().with("tokenizer.ggml.mask_token_id", Entry::U32(52)), &["the vocabulary ends at 51"]);
    refused(&llada().with("general.alignment", Entry::U32(24)), &["general.alignment", "power of two"]);
    let mut twice = llada();
    twice.entries.push(("llada.block_count".into(), Entry::U32(3)));
    refused(&twice, &["the key `llada.block_count` is there twice"]);
}

#[test]
fn tensors_that_are_missing_or_wrong() {
    let name = "blk.1.ffn_up.weight";
    let with = |change: &dyn Fn(&mut (String, Vec<u64>, u32, Vec<u8>))| {
        let mut builder = llada();
        change(builder.tensor(name));
        builder
    };
    refused(&with(&|tensor| tensor.0 = "blk.1.ffn_oops.weight".into()), &[&format!("tensor `{name}` is missing")]);
    refused(&with(&|tensor| tensor.0 = "output.weight".into()), &["tensor `output.weight` is there twice"]);
    refused(&with(&|tensor| tensor.1 = vec![48, 32]), &[name, "[32, 48]", "asks for [48, 32]"]);
    refused(&with(&|tensor| tensor.1 = vec![32, 1 << 40]), &["truncated or damaged", name]);
    refused(&with(&|tensor| tensor.1 = vec![1 << 62, 1 << 62]), &["ends at nowhere", name]);
    refused(&with(&|tensor| tensor.1 = vec![0, 48]), &["a dimension of 0"]);
    refused(&with(&|tensor| tensor.1 = vec![1, 1, 1, 1, 1]), &["5 dimensions", "1 to 4"]);
    refused(&with(&|tensor| tensor.1.clear()), &["0 dimensions"]);
    refused(&with(&|tensor| tensor.2 = 23), &[name, "`IQ4_XS (23)`", "Q4_K"]);
    refused(&with(&|tensor| tensor.2 = 99), &["`unknown (99)`"]);
    refused(&with(&|tensor| tensor.2 = 12), &["rows of 32, but Q4_K has blocks of 256"]);
    refused(&with(&|tensor| tensor.3[..4].copy_from_slice(&f32::NAN.to_le_bytes())), &[name, "NaN at index 0"]);
    let mut quantised = Builder::of(&Checkpoint::llada(), 0);
    let (_, dims, dtype, bytes) = quantised.tensor(name);
    (*dtype, *bytes) = (8, vec![0; dims[1] as usize * 34]);
    bytes[34 * 3..34 * 3 + 2].copy_from_slice(&f16::INFINITY.to_le_bytes());
    refused(&quantised, &[name, "inf at index 96"]);
    // A tensor that starts between the places where tensors may start.
    let whole = llada().bytes();
    let at = find(&whole, name.as_bytes()) + name.len() + 4 + 16 + 4;
    let mut bytes = whole.clone();
    bytes[at] += 1;
    is_refused(&put(&bytes).1, &["which is no multiple of 32", name]);
    bytes[at..at + 8].copy_from_slice(&(u64::MAX - 31).to_le_bytes());
    is_refused(&put(&bytes).1, &["ends at nowhere", name]);
}

fn find(whole: &[u8], part: &[u8]) -> usize {
    whole.windows(part.len()).position(|window| window == part).unwrap()
}

/// Everything a file is asked for.
fn ask_everything(path: &Path) {
    let _ = Model::load(path);
    if let Ok(checkpoint) = OnDisk::open(path) {
        let _ = (checkpoint.tokenizer(), checkpoint.chat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_damaged_file_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        dream in any::<bool>(),
    ) {
        let checkpoint = if dream { Checkpoint::dream() } else { Checkpoint::llada() };
        let mut bytes = with_vocabulary(Builder::of(&checkpoint, 1), &vocabulary()).bytes();
        // Nearly all of a file is weights; what is damaged here is nearly all header.
        let header = find(&bytes, b"output_norm.weight") + 200;
        for (at, byte) in changes {
            let at = at.index(header.min(bytes.len()));
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        ask_everything(&put(&bytes).1);
    }

    #[test]
    fn a_damaged_length_never_allocates(at in any::<prop::sample::Index>(), value in any::<u64>(), small in 0..60u32) {
        let mut bytes = llada().bytes();
        let header = find(&bytes, b"output_norm.weight") + 60;
        let at = at.index(header);
        bytes[at..at + 8].copy_from_slice(&(value >> small).to_le_bytes());
        ask_everything(&put(&bytes).1);
    }
}

// ---- tokenizers

/// Byte-level BPE in the files of Dream's slow tokenizer.
struct Files {
    vocab: Value,
    merges: Vec<String>,
    config: Value,
}

impl Files {
    fn write(&self, folder: &Folder) {
        folder.put("vocab.json", self.vocab.to_string());
        folder.put("merges.txt", format!("#version: 0.2\n{}\n", self.merges.join("\n")));
        folder.put("tokenizer_config.json", self.config.to_string());
    }
}

/// The 256 bytes as characters, in the order of GPT-2's table, then a few merges.
fn vocabulary() -> Files {
    let printable = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut tokens: Vec<String> = Vec::new();
    let mut others = 256;
    for byte in 0..256 {
        let character = if printable(byte) {
            byte
        } else {
            others += 1;
            others - 1
        };
        tokens.push(char::from_u32(character).unwrap().to_string());
    }
    let merges = ["h e", "l l", "he ll", "Ġ he", "Ġhe ll", "o w", "1 2"].map(str::to_owned).to_vec();
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let config = json!({"tokenizer_class": "DreamTokenizer", "bos_token": null, "eos_token": "<|end|>",
        "mask_token": "<|mask|>", "chat_template": "{{ messages[0].content }}{{ eos_token }}",
        "added_tokens_decoder": {
            "263": {"content": "<|end|>", "special": true},
            "264": {"content": "<call>", "special": false, "normalized": false},
            "270": {"content": "<|mask|>", "special": true}}});
    Files { vocab: Value::Object(vocab), merges, config }
}

/// Tokens, kinds and merges, as the converter lists them.
fn with_vocabulary(builder: Builder, files: &Files) -> Builder {
    let added = files.config["added_tokens_decoder"].as_object().unwrap();
    let last = added.keys().map(|id| id.parse::<usize>().unwrap()).max().unwrap();
    let mut tokens: Vec<String> = (0..=last + 2).map(|id| format!("[PAD{id}]")).collect();
    let mut kinds = vec![5; tokens.len()];
    for (token, id) in files.vocab.as_object().unwrap() {
        let id = id.as_u64().unwrap() as usize;
        (tokens[id], kinds[id]) = (token.clone(), 1);
    }
    for (id, token) in added {
        let id: usize = id.parse().unwrap();
        tokens[id] = token["content"].as_str().unwrap().into();
        kinds[id] = if token["special"] == true { 3 } else { 4 };
    }
    let builder = builder
        .with("tokenizer.ggml.model", Entry::Text("gpt2".into()))
        .with("tokenizer.ggml.pre", Entry::Text("qwen2".into()))
        .with("tokenizer.ggml.tokens", Entry::Texts(tokens))
        .with("tokenizer.ggml.token_type", Entry::Kinds(kinds))
        .with("tokenizer.ggml.merges", Entry::Texts(files.merges.clone()));
    match files.config["chat_template"].as_str() {
        Some(template) => builder.with("tokenizer.chat_template", Entry::Text(template.into())),
        None => builder,
    }
}

const STRINGS: [&str; 9] = [
    "hello, hell! how low?",
    " hell\n\n  hell ",
    "1234 12",
    "<|end|>hello<call>x<|mask|>",
    "e\u{301} \u{e9} ﬁ",
    "you'll WE'RE it's",
    "日本語 🙂",
    "\t \r\n",
    "",
];

#[test]
fn tokens_and_merges_are_the_tokenizer_they_came_from() {
    let files = vocabulary();
    let sizes = Sizes { kv_heads: 2, vocab: 280, ..TINY };
    let checkpoint = Checkpoint::dream_of(sizes).with("mask_token_id", 270).with("eos_token_id", 263);
    let folder = checkpoint.write();
    files.write(&folder);
    let want = OnDisk::open(folder.path()).unwrap();
    let (ours, summary) = written(folder.path(), Precision::F32);
    assert!(summary.without_tokenizer.is_none() && summary.chat);
    // Twice from our file: as it is, with the whole tokenizer.json in it, and without that.
    let bytes = std::fs::read(&ours.0).unwrap();
    let key = find(&bytes, b"tokenizer.huggingface.json");
    let mut renamed = bytes.clone();
    renamed[key..key + 9].copy_from_slice(b"cofillize");
    let (_listed, listed) = put(&renamed);
    let (_theirs, theirs) = with_vocabulary(Builder::of(&checkpoint, 0), &files).write();
    for path in [&ours.0, &listed, &theirs] {
        let got = OnDisk::open(path).unwrap();
        let (got, want) = (got.tokenizer().unwrap(), want.tokenizer().unwrap());
        for text in STRINGS {
            let ids = want.encode(text).unwrap();
            assert_eq!(got.encode(text).unwrap(), ids, "{text:?}");
            assert_eq!(got.decode(&ids, false).unwrap(), want.decode(&ids, false).unwrap());
            assert_eq!(got.decode(&ids, true).unwrap(), want.decode(&ids, true).unwrap());
        }
        assert_eq!((got.mask(), got.eos(), got.bos()), (want.mask(), want.eos(), want.bos()));
        assert_eq!((got.piece(275), got.piece(264)), ("<|id 275|>".into(), "<call>".into()));
        let chat = OnDisk::open(path).unwrap().chat().unwrap().unwrap();
        assert_eq!(chat.render(&[cofill_model::Message::new("user", "hi")], true).unwrap(), "hi<|end|>");
    }
}

#[test]
fn tokenizers_that_are_wrong_leave_the_model_alone() {
    let files = vocabulary();
    let sizes = Sizes { kv_heads: 2, vocab: 280, ..TINY };
    let whole = with_vocabulary(Builder::of(&Checkpoint::dream_of(sizes), 0), &files);
    let refused = |builder: &Builder, words: &str| {
        let (_folder, path) = builder.write();
        assert!(Model::load(&path).is_ok());
        let message = OnDisk::open(&path).unwrap().tokenizer().unwrap_err().to_string();
        assert!(message.contains(words), "{message}: this should say {words}");
    };
    let text = |text: &str| Entry::Text(text.into());
    refused(&whole.clone().with("tokenizer.ggml.pre", text("tekken")), "`tokenizer.ggml.pre` is `tekken`");
    refused(&whole.clone().with("tokenizer.ggml.model", text("llama")), "`tokenizer.ggml.model` is `llama`");
    refused(&whole.clone().with("tokenizer.huggingface.json", text("{}")), "model.gguf");
    for key in ["model", "pre", "tokens", "token_type", "merges"] {
        let key = format!("tokenizer.ggml.{key}");
        refused(&whole.clone().without(&key), &format!("the key `{key}` is missing"));
        refused(&whole.clone().with(&key, Entry::U32(1)), &format!("`{key}` is 1, but must be"));
    }
    let merges = |merge: &str| Entry::Texts(vec!["h e".into(), merge.into()]);
    for merge in ["x", "h x", "q e", "", " ", "h  e"] {
        refused(&whole.clone().with("tokenizer.ggml.merges", merges(merge)), "`tokenizer.ggml.merges[1]`");
    }
    refused(
        &whole.clone().with("tokenizer.ggml.token_type", Entry::Kinds(vec![1])),
        "but `tokenizer.ggml.token_type` has 1",
    );
    let twice = Entry::Texts(vec!["a".into(); 3]);
    let kinds = Entry::Kinds(vec![1; 3]);
    let twice = whole.clone().with("tokenizer.ggml.tokens", twice).with("tokenizer.ggml.token_type", kinds.clone());
    refused(&twice, "token `a` has the ids 0 and 1");
    let few = Entry::Texts(["a", "b", "c"].map(str::to_owned).to_vec());
    let few = whole.with("tokenizer.ggml.tokens", few).with("tokenizer.ggml.token_type", kinds);
    refused(&few, "253 of the 256 byte characters");
}

#[test]
fn conformance_gguf_dream_tokenizer() {
    let Some(shared) = shared() else { return };
    let golden = json(&shared.join("goldens/models/dream_tokenizer_goldens.json"));
    let dir = shared.join("goldens/models").join(golden["files_dir"].as_str().unwrap());
    let merges = std::fs::read_to_string(dir.join("merges.txt")).unwrap();
    let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
    let files = Files {
        vocab: json(&dir.join("vocab.json")),
        merges: merges.map(str::to_owned).collect(),
        config: json(&dir.join("tokenizer_config.json")),
    };
    let (_folder, path) = with_vocabulary(Builder::of(&Checkpoint::dream(), 0), &files).write();
    let tokenizer = OnDisk::open(&path).unwrap().tokenizer().unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let want: Vec<u32> = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(tokenizer.encode(case["text"].as_str().unwrap()).unwrap(), want, "{}", case["text"]);
        assert_eq!(tokenizer.decode(&want, false).unwrap(), case["decoded"]);
    }
    println!("conformance: {} strings by a GGUF file's tokens and merges, as Dream's tokenizer has them", cases.len());
    assert!(cases.len() >= 27);
}

#[test]
fn conformance_gguf_keeps_tokenizers_and_templates() {
    let Some(shared) = shared() else { return };
    for family in FAMILIES {
        let folder = OnDisk::open(&shared.join(format!("goldens/models/{family}_tiny"))).unwrap();
        let scratch = Folder::new();
        let out = scratch.join("model.gguf");
        let job = Quantise { checkpoint: &folder, out: &out, precision: Precision::Q8_0, overwrite: false };
        assert_eq!(job.run(|_, _, _| {}).unwrap().without_tokenizer, None);
        let file = OnDisk::open(&out).unwrap();
        let (got, want) = (file.tokenizer().unwrap(), folder.tokenizer().unwrap());
        for id in 0..160 {
            assert_eq!(got.piece(id), want.piece(id));
            assert_eq!(got.encode(&want.piece(id)).unwrap(), [id]);
        }
        let golden = json(&shared.join("goldens/models/chat_templates.json"));
        let (chat, mut n) = (file.chat().unwrap().unwrap(), 0);
        for case in golden["cases"].as_array().unwrap().iter().filter(|case| case["family"] == family) {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let message = |m: &Value| cofill_model::Message::new(text(&m["role"]), text(&m["content"]));
            let messages: Vec<_> = case["messages"].as_array().unwrap().iter().map(message).collect();
            let prompt = chat.render(&messages, case["add_generation_prompt"].as_bool().unwrap()).unwrap();
            assert_eq!(prompt, case["rendered"], "{family}");
            n += 1;
        }
        println!("conformance: {family}: 160 tokens and {n} chat prompts through a GGUF file");
        assert!(n >= 8);
    }
}
