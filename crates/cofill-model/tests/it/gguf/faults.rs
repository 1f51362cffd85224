//! Damaged files: one clear error each, never a panic.

use super::builder::{Builder, Entry, Listed, put};
use super::vocabulary::{vocabulary, with_vocabulary};
use crate::checkpoint::Checkpoint;
use crate::faults::says;
use cofill_model::{Checkpoint as OnDisk, Error, Model};
use half::f16;
use proptest::prelude::*;
use std::path::Path;

#[track_caller]
fn refused(builder: &Builder, words: &[&str]) {
    let (_folder, path) = builder.write();
    is_refused(&path, words);
}

#[track_caller]
fn is_refused(path: &Path, words: &[&str]) {
    let error = Model::load(path).map(drop).expect_err("it loads");
    assert!(!matches!(error, Error::Compute(_)), "{error}");
    says(&error, path, words);
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
    for at in [8, 16, 24] {
        // Behind a wrong count, the file is read as something else, whatever that is.
        let words: &[&str] = if at == 24 { &["truncated or damaged"] } else { &[] };
        for huge in [u64::MAX, 1 << 62, 1 << 40, whole.len() as u64] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&huge.to_le_bytes());
            let (_folder, path) = put(&bytes);
            is_refused(&path, words);
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
    refused(&llada().with("split.count", Entry::U32(3)), &["`split.count` is `3`", "merge the parts"]);
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
fn tensors_that_nobody_would_use() {
    let renamed = |checkpoint: &Checkpoint, from: &str, to: &str| {
        let mut builder = Builder::of(checkpoint, 0);
        builder.tensor(from).0 = to.into();
        builder
    };
    // Dream has biases, whatever the first block lacks.
    let dream = Checkpoint::dream();
    refused(&renamed(&dream, "blk.0.attn_q.bias", "blk.0.attn_q.oops"), &["`blk.0.attn_q.bias` is missing"]);
    // Without `output.weight` the head would be the embedding.
    refused(&renamed(&dream, "output.weight", "output.oops"), &["`output.oops` is stored", "no use"]);
    let fewer = llada().with("llada.block_count", Entry::U32(2));
    refused(&fewer, &["`blk.2.attn_k.weight` (and 8 more) is stored", "layers"]);
}

#[test]
fn tensors_that_overlap() {
    let mut bytes = llada().bytes();
    let name = b"blk.0.attn_k.weight";
    // After the name: two dimensions with their count, the type, and where it lies.
    let offset = find(&bytes, name) + name.len() + 4 + 16 + 4;
    bytes[offset..offset + 8].copy_from_slice(&0u64.to_le_bytes());
    is_refused(&put(&bytes).1, &["blk.0.attn_k.weight", "token_embd.weight", "overlap"]);
}

#[test]
#[cfg(unix)]
fn a_pipe_is_not_waited_for() {
    let folder = crate::checkpoint::Folder::new();
    let path = folder.join("pipe.gguf");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    is_refused(&path, &["neither a folder nor a file"]);
}

#[test]
fn tensors_that_are_missing_or_wrong() {
    let name = "blk.1.ffn_up.weight";
    let with = |change: &dyn Fn(&mut Listed)| {
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
    let mut quantised = llada();
    let (_, dims, dtype, bytes) = quantised.tensor(name);
    (*dtype, *bytes) = (8, vec![0; dims[1] as usize * 34]);
    bytes[34 * 3..34 * 3 + 2].copy_from_slice(&f16::INFINITY.to_le_bytes());
    refused(&quantised, &[name, "inf at index 96"]);
    let mut rescaled = llada();
    rescaled.tensors.push(("rope_freqs.weight".into(), vec![4], 0, vec![0; 16]));
    refused(&rescaled, &["rope_freqs.weight"]);
    // A tensor that starts between the places where tensors may start.
    let whole = llada().bytes();
    let at = find(&whole, name.as_bytes()) + name.len() + 4 + 16 + 4;
    let mut bytes = whole.clone();
    bytes[at] += 1;
    is_refused(&put(&bytes).1, &["which is no multiple of 32", name]);
    bytes[at..at + 8].copy_from_slice(&(u64::MAX - 31).to_le_bytes());
    is_refused(&put(&bytes).1, &["ends at nowhere", name]);
}

pub(super) fn find(whole: &[u8], part: &[u8]) -> usize {
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

#[test]
fn generation_defaults_are_as_bounded_as_those_of_a_folder() {
    let said = |entry: Entry| {
        let (_folder, path) = llada().with("cofill.generation_config", entry).write();
        OnDisk::open(&path).unwrap().generation_defaults().map_err(|error| error.to_string())
    };
    let text = |text: &str| said(Entry::Text(text.into()));
    assert_eq!(text(r#"{"length": 9}"#).unwrap().length, Some(9));
    let long = format!(r#"{{"tasks": "{}"}}"#, "x".repeat(4096));
    for (refused, words) in [
        (text(r#"{"temperature": 1}"#), "the key `temperature`, but may have only tasks, length and paths_alpha"),
        (text(r#"{"length": -1}"#), "`length` of `cofill.generation_config` must be a whole number from 1"),
        (text("mini"), "not JSON"),
        (text(&long), "has 4109 bytes, but may have at most 4096"),
        (said(Entry::U32(7)), "`cofill.generation_config` is 7, but must be a text"),
    ] {
        let error = refused.expect_err(words);
        assert!(error.contains(".gguf") && error.contains(words), "no `{words}` in: {error}");
    }
}
