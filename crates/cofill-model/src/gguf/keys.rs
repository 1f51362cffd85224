//! The keys of a GGUF header, as llama.cpp's converter writes them.

pub(crate) const ARCHITECTURE: &str = "general.architecture";
pub(crate) const ALIGNMENT: &str = "general.alignment";
pub(crate) const NAME: &str = "general.name";
pub(crate) const FILE_TYPE: &str = "general.file_type";
pub(crate) const QUANTISATION_VERSION: &str = "general.quantization_version";
pub(crate) const SPLIT_COUNT: &str = "split.count";

// These follow the architecture and a dot.
pub(crate) const BLOCKS: &str = "block_count";
pub(crate) const CONTEXT: &str = "context_length";
pub(crate) const HIDDEN: &str = "embedding_length";
pub(crate) const MLP: &str = "feed_forward_length";
pub(crate) const HEADS: &str = "attention.head_count";
pub(crate) const KV_HEADS: &str = "attention.head_count_kv";
pub(crate) const KEY_LENGTH: &str = "attention.key_length";
pub(crate) const VALUE_LENGTH: &str = "attention.value_length";
pub(crate) const RMS_EPS: &str = "attention.layer_norm_rms_epsilon";
pub(crate) const CAUSAL: &str = "attention.causal";
pub(crate) const ROPE_BASE: &str = "rope.freq_base";
pub(crate) const ROPE_WIDTH: &str = "rope.dimension_count";
pub(crate) const ROPE_SCALING: &str = "rope.scaling.type";
pub(crate) const VOCAB: &str = "vocab_size";

pub(crate) const SHIFT: &str = "diffusion.shift_logits";

pub(crate) const TOKENIZER: &str = "tokenizer.ggml.model";
pub(crate) const PRE: &str = "tokenizer.ggml.pre";
pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const MASK_ID: &str = "tokenizer.ggml.mask_token_id";
pub(crate) const EOS_ID: &str = "tokenizer.ggml.eos_token_id";
pub(crate) const BOS_ID: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(crate) const TOKENIZER_JSON: &str = "tokenizer.huggingface.json";
pub(crate) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// Ours: the section `cofill` of `generation_config.json`, as JSON.
pub(crate) const GENERATION_DEFAULTS: &str = "cofill.generation_config";

/// Special tokens: what a chat template calls them, and the key of their id. (`seperator` is how the format spells it.)
pub(crate) const SPECIAL: [(&str, &str); 7] = [
    ("bos_token", BOS_ID),
    ("eos_token", EOS_ID),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("sep_token", "tokenizer.ggml.seperator_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("cls_token", "tokenizer.ggml.cls_token_id"),
    ("mask_token", MASK_ID),
];
