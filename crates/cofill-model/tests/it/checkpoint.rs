use cofill_model::Model;
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A tiny random model in its family's own layout, to be written, or damaged and written.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    /// Exactly the fields the family reads.
    pub(crate) config: Value,
    pub(crate) tensors: Vec<Tensor>,
}

/// Its values are multiples of a power of two with at most eight bits, which F32, F16 and BF16 all hold exactly.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) mlp: usize,
    pub(crate) vocab: usize,
    pub(crate) context: usize,
}

pub(crate) const TINY: Sizes = Sizes { hidden: 32, layers: 3, heads: 4, kv_heads: 4, mlp: 48, vocab: 52, context: 64 };

/// LLaDA's head has columns that no token uses; so does this one's.
const SPARE: usize = 4;

impl Checkpoint {
    /// LLaDA as published: as many key heads as query heads.
    pub(crate) fn llada() -> Checkpoint {
        Checkpoint::llada_of(TINY)
    }

    /// Dream: two query heads share a key head; q, k and v have biases.
    pub(crate) fn dream() -> Checkpoint {
        Checkpoint::dream_of(Sizes { kv_heads: 2, ..TINY })
    }

    /// One of each family, and LLaDA with shared key heads.
    pub(crate) fn all() -> [(&'static str, Checkpoint); 4] {
        let [llada, grouped, dream] = Checkpoint::with_gguf();
        [llada, grouped, dream, ("qwen3", Checkpoint::qwen3())]
    }

    /// Those that llama.cpp has an architecture for.
    pub(crate) fn with_gguf() -> [(&'static str, Checkpoint); 3] {
        let grouped = Checkpoint::llada_of(Sizes { kv_heads: 1, ..TINY });
        [("llada", Checkpoint::llada()), ("llada, one key head", grouped), ("dream", Checkpoint::dream())]
    }

    /// Qwen2 as dllm converts it: Dream's tensors, but the head, which is tied; no shift.
    pub(crate) fn qwen2() -> Checkpoint {
        let mut checkpoint =
            Checkpoint::dream().with("architectures", json!(["A2DQwen2LMHeadModel"])).with("tie_word_embeddings", true);
        checkpoint.tensors.retain(|tensor| tensor.name != "lm_head.weight");
        checkpoint
    }

    /// Qwen3 as dllm converts it: no biases, q and k normalised, heads wider than the width divided by their number.
    pub(crate) fn qwen3() -> Checkpoint {
        const DIM: usize = 12;
        let sizes = Sizes { kv_heads: 2, ..TINY };
        let mut checkpoint = Checkpoint::dream_of(sizes)
            .with("architectures", json!(["A2DQwen3LMHeadModel"]))
            .with("attention_bias", false)
            .with("head_dim", DIM);
        checkpoint.tensors.retain(|tensor| !tensor.name.contains("self_attn"));
        let mut random = Random(0x93e43);
        for i in 0..sizes.layers {
            let name = |leaf: &str| format!("model.layers.{i}.self_attn.{leaf}.weight");
            let (q, kv) = (sizes.heads * DIM, sizes.kv_heads * DIM);
            checkpoint.tensors.extend([
                random.matrix(&name("q_proj"), q, sizes.hidden),
                random.matrix(&name("k_proj"), kv, sizes.hidden),
                random.matrix(&name("v_proj"), kv, sizes.hidden),
                random.norm(&name("q_norm"), DIM),
                random.norm(&name("k_norm"), DIM),
                random.matrix(&name("o_proj"), sizes.hidden, q),
            ]);
        }
        checkpoint
    }

    pub(crate) fn llada_of(sizes: Sizes) -> Checkpoint {
        let Sizes { hidden, layers, heads, kv_heads, mlp, vocab, context } = sizes;
        let config = json!({
            "architectures": ["LLaDAModelLM"],
            "block_type": "llama",
            "activation_type": "silu",
            "layer_norm_type": "rms",
            "rope": true,
            "alibi": false,
            "attention_layer_norm": false,
            "input_emb_norm": false,
            "scale_logits": false,
            "include_bias": false,
            "bias_for_layer_norm": false,
            "include_qkv_bias": false,
            "weight_tying": false,
            "d_model": hidden,
            "n_layers": layers,
            "n_heads": heads,
            "n_kv_heads": kv_heads,
            "mlp_hidden_size": mlp,
            "vocab_size": vocab - SPARE,
            "embedding_size": vocab,
            "max_sequence_length": context,
            "rope_theta": 10000.0,
            "rms_norm_eps": 1e-5,
            "mask_token_id": vocab - SPARE - 1,
            "eos_token_id": vocab - SPARE - 2,
        });
        let mut random = Random(0x11ada);
        let mut tensors = vec![random.matrix("model.transformer.wte.weight", vocab, hidden)];
        for i in 0..layers {
            let name = |leaf: &str| format!("model.transformer.blocks.{i}.{leaf}.weight");
            let kv = hidden / heads * kv_heads;
            tensors.extend([
                random.norm(&name("attn_norm"), hidden),
                random.matrix(&name("q_proj"), hidden, hidden),
                random.matrix(&name("k_proj"), kv, hidden),
                random.matrix(&name("v_proj"), kv, hidden),
                random.matrix(&name("attn_out"), hidden, hidden),
                random.norm(&name("ff_norm"), hidden),
                random.matrix(&name("ff_proj"), mlp, hidden),
                random.matrix(&name("up_proj"), mlp, hidden),
                random.matrix(&name("ff_out"), hidden, mlp),
            ]);
        }
        tensors.push(random.norm("model.transformer.ln_f.weight", hidden));
        tensors.push(random.matrix("model.transformer.ff_out.weight", vocab, hidden));
        Checkpoint { config, tensors }
    }

    pub(crate) fn dream_of(sizes: Sizes) -> Checkpoint {
        let Sizes { hidden, layers, heads, kv_heads, mlp, vocab, context } = sizes;
        let config = json!({
            "architectures": ["DreamModel"],
            "hidden_act": "silu",
            "rope_scaling": null,
            "use_sliding_window": false,
            "tie_word_embeddings": false,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": mlp,
            "vocab_size": vocab,
            "max_position_embeddings": context,
            "rope_theta": 1000000.0,
            "rms_norm_eps": 1e-6,
            "mask_token_id": vocab - 2,
            "eos_token_id": vocab - 1,
        });
        let mut random = Random(0xd2ea3);
        let mut tensors = vec![random.matrix("model.embed_tokens.weight", vocab, hidden)];
        for i in 0..layers {
            let name = |leaf: &str| format!("model.layers.{i}.{leaf}");
            let kv = hidden / heads * kv_heads;
            for (leaf, out) in [("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)] {
                tensors.push(random.matrix(&name(&format!("self_attn.{leaf}.weight")), out, hidden));
                tensors.push(random.tensor(&name(&format!("self_attn.{leaf}.bias")), vec![out], 1.0 / 256.0));
            }
            tensors.extend([
                random.norm(&name("input_layernorm.weight"), hidden),
                random.matrix(&name("self_attn.o_proj.weight"), hidden, hidden),
                random.norm(&name("post_attention_layernorm.weight"), hidden),
                random.matrix(&name("mlp.gate_proj.weight"), mlp, hidden),
                random.matrix(&name("mlp.up_proj.weight"), mlp, hidden),
                random.matrix(&name("mlp.down_proj.weight"), hidden, mlp),
            ]);
        }
        tensors.push(random.norm("model.norm.weight", hidden));
        tensors.push(random.matrix("lm_head.weight", vocab, hidden));
        Checkpoint { config, tensors }
    }

    /// With one field of the configuration set.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Checkpoint {
        self.config[field] = value.into();
        self
    }

    pub(crate) fn fields(&self) -> &Map<String, Value> {
        self.config.as_object().unwrap()
    }

    /// A tensor, to be damaged.
    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    /// One `model.safetensors` in F32.
    pub(crate) fn write(&self) -> Folder {
        self.write_as(Dtype::F32)
    }

    /// Written and loaded.
    pub(crate) fn load(&self) -> Model {
        Model::load(self.write().path()).unwrap()
    }

    /// One `model.safetensors`.
    pub(crate) fn write_as(&self, dtype: Dtype) -> Folder {
        let folder = Folder::new();
        folder.put("config.json", self.config.to_string());
        folder.put("model.safetensors", pack(&self.tensors, dtype));
        folder
    }

    /// `shards` files and their index.
    pub(crate) fn write_sharded(&self, dtype: Dtype, shards: usize) -> Folder {
        let folder = Folder::new();
        folder.put("config.json", self.config.to_string());
        let mut map = Map::new();
        for (i, tensors) in self.tensors.chunks(self.tensors.len().div_ceil(shards)).enumerate() {
            let file = shard_name(i, shards);
            folder.put(&file, pack(tensors, dtype));
            map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), file.clone().into())));
        }
        folder.put("model.safetensors.index.json", json!({ "metadata": {}, "weight_map": map }).to_string());
        folder
    }
}

pub(crate) fn shard_name(i: usize, shards: usize) -> String {
    format!("model-{:05}-of-{shards:05}.safetensors", i + 1)
}

/// The bytes of a safetensors file.
pub(crate) fn pack(tensors: &[Tensor], dtype: Dtype) -> Vec<u8> {
    let bytes = |tensor: &Tensor| -> Vec<u8> {
        let values = tensor.values.iter();
        match dtype {
            Dtype::F32 => values.flat_map(|v| v.to_le_bytes()).collect(),
            Dtype::F16 => values.flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            Dtype::BF16 => values.flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
            Dtype::I64 => values.flat_map(|&v| (v as i64).to_le_bytes()).collect(),
            other => panic!("nobody asks for {other:?}"),
        }
    };
    let stored: Vec<(&Tensor, Vec<u8>)> = tensors.iter().map(|tensor| (tensor, bytes(tensor))).collect();
    let view = |tensor: &Tensor, bytes| TensorView::new(dtype, tensor.shape.clone(), bytes).unwrap();
    serialize(stored.iter().map(|(tensor, bytes)| (&tensor.name, view(tensor, bytes))), None).unwrap()
}

/// A folder of its own, gone when dropped. The process is in its name, because tests run the suite again inside themselves.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("checkpoint-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    pub(crate) fn put(&self, file: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.join(file), bytes).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.join(file)).unwrap()
    }

    pub(crate) fn remove(&self, file: &str) {
        std::fs::remove_file(self.join(file)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind is a nuisance, not a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Multiples of `unit`, a power of two, by -127 to 127.
    fn tensor(&mut self, name: &str, shape: Vec<usize>, unit: f32) -> Tensor {
        let n = shape.iter().product();
        let values = (0..n).map(|_| (self.below(255) as f32 - 127.0) * unit).collect();
        Tensor { name: name.into(), shape, values }
    }

    /// A width of `columns` keeps the size of what it multiplies, up to a factor of two or so: the largest weight is about
    /// 2 / √columns.
    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Tensor {
        let unit = (2.0 / (columns as f32).sqrt() / 127.0).log2().ceil().exp2();
        self.tensor(name, vec![rows, columns], unit)
    }

    /// From 1/2 to 3/2 in steps of 1/128, so that eight bits suffice.
    fn norm(&mut self, name: &str, width: usize) -> Tensor {
        let values = (0..width).map(|_| (64 + self.below(129)) as f32 / 128.0).collect();
        Tensor { name: name.into(), shape: vec![width], values }
    }
}
