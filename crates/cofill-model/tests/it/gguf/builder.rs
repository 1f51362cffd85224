//! Files as llama.cpp's converter makes them, written here by hand.

use crate::checkpoint::{Checkpoint, Folder, Tensor};
use half::{bf16, f16};
use std::path::PathBuf;

#[derive(Clone)]
pub(super) enum Entry {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Kinds(Vec<i32>),
}

/// A tensor: name, dimensions, type, bytes.
pub(super) type Listed = (String, Vec<u64>, u32, Vec<u8>);

/// A file in the making: keys, and tensors with their dimensions innermost first.
#[derive(Clone)]
pub(super) struct Builder {
    pub(super) version: u32,
    pub(super) entries: Vec<(String, Entry)>,
    pub(super) tensors: Vec<Listed>,
}

pub(super) fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl Builder {
    /// What the converter says of a checkpoint: no tokenizer, and weights in F32, F16 or BF16.
    pub(super) fn of(checkpoint: &Checkpoint, dtype: u32) -> Builder {
        let config = &checkpoint.config;
        let llada = config["architectures"][0] == "LLaDAModelLM";
        let arch = if llada { "llada" } else { "dream" };
        let fields: [(&str, &str); 6] = if llada {
            [
                ("block_count", "n_layers"),
                ("context_length", "max_sequence_length"),
                ("embedding_length", "d_model"),
                ("feed_forward_length", "mlp_hidden_size"),
                ("attention.head_count", "n_heads"),
                ("attention.head_count_kv", "n_kv_heads"),
            ]
        } else {
            [
                ("block_count", "num_hidden_layers"),
                ("context_length", "max_position_embeddings"),
                ("embedding_length", "hidden_size"),
                ("feed_forward_length", "intermediate_size"),
                ("attention.head_count", "num_attention_heads"),
                ("attention.head_count_kv", "num_key_value_heads"),
            ]
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

    pub(super) fn with(mut self, key: &str, entry: Entry) -> Builder {
        self.entries.retain(|(other, _)| other != key);
        self.entries.push((key.into(), entry));
        self
    }

    pub(super) fn without(mut self, key: &str) -> Builder {
        self.entries.retain(|(other, _)| other != key);
        self
    }

    pub(super) fn tensor(&mut self, name: &str) -> &mut Listed {
        self.tensors.iter_mut().find(|(other, ..)| other == name).unwrap()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
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

    pub(super) fn write(&self) -> (Folder, PathBuf) {
        put(&self.bytes())
    }
}

pub(super) fn put(bytes: &[u8]) -> (Folder, PathBuf) {
    let folder = Folder::new();
    folder.put("model.gguf", bytes);
    let path = folder.join("model.gguf");
    (folder, path)
}

/// `weights.reshape(heads, 2, rows / heads / 2, columns).swapaxes(1, 2).reshape(rows, columns)`, as the converter has it: read the
/// halves of a head side by side. Loops over the result's axes in their order.
pub(super) fn permute(tensor: &Tensor, heads: usize) -> Vec<f32> {
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
pub(super) fn rename(name: &str) -> String {
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
