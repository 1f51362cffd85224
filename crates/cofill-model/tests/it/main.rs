//! The models against numbers from the published reference implementations, and against damaged files.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers are not `#[test]`s; counts are printed for CI

// Where the goldens are, and how to read them.
mod support;

// Tiny random checkpoints of every family, for tests that need no goldens.
mod checkpoint;

// One forward pass: logits, statistics, attention of every layer, in every file layout.
mod forward;

// Qwen2 and Qwen3 in both directions, against a NumPy forward of its own.
mod qwen;

// BERT, ALBERT, RoBERTa and ModernBERT, against transformers' own classes; their tokenizers, and what of them is refused.
mod encoder_faults;
mod encoders;

// The trained head beside some models.
mod pair_head;

// Causal language models beside a diffusion model.
mod companion;

// Tokenizers and chat templates.
mod tokenizer;

// The language of chat templates.
mod jinja;

// Whole decodes, step by step, as the reference decoders made them.
mod trajectories;

// Damaged files and impossible questions: one clear error each, never a panic.
mod faults;

// What Qwen configurations leave out, what of them is not computed, and tokenizers that know another mask or none.
mod qwen_faults;

// Anything at all as a config, an index or a header: refused or loaded, never a panic.
mod fuzz;

// How a checkpoint wants to be asked: our section of its `generation_config.json`, and nothing else of that file.
mod generation_config;

// Pipes, devices and endless files in the place of a checkpoint's files.
mod strange_files;

// What a stranger may ship: hostile chat templates and tokenizers, as written down and as mutated.
mod hostile;
mod mutate;

// Batches, threads and file layouts change no bit; asking for other rows changes only the order of sums.
mod invariance;

// Keys and values that are kept from forward to forward: what a cached forward computes, from scratch, and what it leaves alone.
mod cache;

// Nothing public speaks of the tensor library.
mod interface;

// GGUF files: the same numbers as the folder they come from, llama.cpp's order of rows, damage, tokenizers.
mod gguf;
