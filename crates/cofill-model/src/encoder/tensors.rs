//! Where the layouts of BERT, ALBERT, RoBERTa and ModernBERT keep their tensors.

use crate::config::{Config, Family};
use crate::tensor_list::{RequiredTensor, Role};
use crate::weights::Weights;

/// The names of a checkpoint's tensors.
pub(crate) struct Names {
    family: Family,
    root: &'static str,
    /// Norms are called `gamma` and `beta`, as in TensorFlow; the oldest checkpoints (bert-base-uncased) have that.
    gamma: bool,
    /// Where the biases of the logits are. Whoever stores them under one of two names means both.
    bias: String,
}

/// Names inside a block. Of a fused matrix q, k and v are parts, and so are up and gate.
pub(crate) struct Leaves {
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    pub(crate) o: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) mlp_norm: &'static str,
}

impl Names {
    pub(crate) fn of(config: &Config, weights: &Weights) -> Names {
        let (root, bias, decoder_bias) = match config.family {
            Family::Albert => ("albert", "predictions.bias", "predictions.decoder.bias"),
            Family::Roberta => ("roberta", "lm_head.bias", "lm_head.decoder.bias"),
            Family::ModernBert => ("model", "decoder.bias", "decoder.bias"),
            _ => ("bert", "cls.predictions.bias", "cls.predictions.decoder.bias"),
        };
        let has = |name: &str| weights.names().any(|stored| stored == name);
        let bias = if !has(bias) && has(decoder_bias) { decoder_bias } else { bias };
        let mut names = Names { family: config.family, root, gamma: false, bias: bias.into() };
        names.gamma = has(&format!("{}.gamma", names.embedding_norm()));
        names
    }

    /// The table of words.
    pub(crate) fn words(&self) -> String {
        match self.family {
            Family::ModernBert => "model.embeddings.tok_embeddings.weight".into(),
            _ => format!("{}.embeddings.word_embeddings.weight", self.root),
        }
    }

    /// The tables of positions and of token types, where positions are rows of a table.
    pub(crate) fn tables(&self) -> Option<(String, String)> {
        let table = |what: &str| format!("{}.embeddings.{what}_embeddings.weight", self.root);
        (self.family != Family::ModernBert).then(|| (table("position"), table("token_type")))
    }

    pub(crate) fn embedding_norm(&self) -> String {
        match self.family {
            Family::ModernBert => "model.embeddings.norm".into(),
            _ => format!("{}.embeddings.LayerNorm", self.root),
        }
    }

    /// What widens the rows of the embedding, where they are narrower than the stream.
    pub(crate) fn widen(&self) -> Option<String> {
        (self.family == Family::Albert).then(|| format!("{}.encoder.embedding_hidden_mapping_in", self.root))
    }

    /// A name inside the i-th stored block.
    pub(crate) fn in_block(&self, i: usize, leaf: &str) -> String {
        match self.family {
            Family::Albert => format!("albert.encoder.albert_layer_groups.{i}.albert_layers.0.{leaf}"),
            Family::ModernBert => format!("model.layers.{i}.{leaf}"),
            _ => format!("{}.encoder.layer.{i}.{leaf}", self.root),
        }
    }

    pub(crate) fn leaves(&self) -> &'static Leaves {
        match self.family {
            Family::Albert => &Leaves {
                q: "attention.query",
                k: "attention.key",
                v: "attention.value",
                o: "attention.dense",
                attention_norm: "attention.LayerNorm",
                up: "ffn",
                down: "ffn_output",
                mlp_norm: "full_layer_layer_norm",
            },
            Family::ModernBert => &Leaves {
                q: "attn.Wqkv",
                k: "attn.Wqkv",
                v: "attn.Wqkv",
                o: "attn.Wo",
                attention_norm: "attn_norm",
                up: "mlp.Wi",
                down: "mlp.Wo",
                mlp_norm: "mlp_norm",
            },
            _ => &Leaves {
                q: "attention.self.query",
                k: "attention.self.key",
                v: "attention.self.value",
                o: "attention.output.dense",
                attention_norm: "attention.output.LayerNorm",
                up: "intermediate.dense",
                down: "output.dense",
                mlp_norm: "output.LayerNorm",
            },
        }
    }

    /// Whether q, k and v are one matrix, and up and gate another.
    pub(crate) fn is_fused(&self) -> bool {
        self.family == Family::ModernBert
    }

    /// ModernBERT normalises the embedding, and so its first block normalises nothing before attention.
    pub(crate) fn has_attention_norm(&self, i: usize) -> bool {
        self.family != Family::ModernBert || i > 0
    }

    pub(crate) fn last_norm(&self) -> Option<&'static str> {
        (self.family == Family::ModernBert).then_some("model.final_norm")
    }

    pub(crate) fn head_dense(&self) -> &'static str {
        match self.family {
            Family::Albert => "predictions.dense",
            Family::Roberta => "lm_head.dense",
            Family::ModernBert => "head.dense",
            _ => "cls.predictions.transform.dense",
        }
    }

    pub(crate) fn head_norm(&self) -> &'static str {
        match self.family {
            Family::Albert => "predictions.LayerNorm",
            Family::Roberta => "lm_head.layer_norm",
            Family::ModernBert => "head.norm",
            _ => "cls.predictions.transform.LayerNorm",
        }
    }

    /// The matrix of the logits, which a tied model need not store.
    pub(crate) fn decoder(&self) -> String {
        match self.family {
            Family::Albert => "predictions.decoder.weight",
            Family::Roberta => "lm_head.decoder.weight",
            Family::ModernBert => "decoder.weight",
            _ => "cls.predictions.decoder.weight",
        }
        .into()
    }

    pub(crate) fn decoder_bias(&self) -> String {
        self.bias.clone()
    }

    /// The weight and the bias of a norm.
    pub(crate) fn norm(&self, name: &str) -> (String, String) {
        match self.gamma {
            true => (format!("{name}.gamma"), format!("{name}.beta")),
            false => (format!("{name}.weight"), format!("{name}.bias")),
        }
    }

    /// Tensors that may be stored a second time, with what they must then equal.
    pub(crate) fn copies(&self, config: &Config) -> Vec<(String, String, Vec<usize>)> {
        let width = config.embedding_width();
        let matrix = (self.decoder(), self.words(), vec![config.vocab, width]);
        let again = self.decoder().replace(".weight", ".bias");
        let bias = (again, self.decoder_bias(), vec![config.vocab]);
        let copies = config.tied.then_some(matrix).into_iter().chain([bias]);
        copies.filter(|(copy, original, _)| copy != original).collect()
    }

    /// Whether a tensor that the forward has no use for is a known part of such checkpoints: heads of other objectives, and tables that
    /// only count positions.
    pub(crate) fn is_other_head(&self, name: &str) -> bool {
        let root = |leaf: &str| name.strip_prefix(self.root).is_some_and(|rest| rest.starts_with(leaf));
        let other_cls = name.starts_with("cls.") && !name.starts_with("cls.predictions.");
        root(".pooler.") || root(".embeddings.position_ids") || other_cls || name.starts_with("sop_classifier.")
    }
}

/// The tensors of an encoder. A tied head is not among them.
pub(crate) fn required(config: &Config, weights: &Weights) -> Vec<RequiredTensor> {
    let Some(kind) = &config.encoder else { return Vec::new() };
    let names = Names::of(config, weights);
    let Config { hidden, mlp, vocab, .. } = *config;
    let width = kind.embedding;
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize], role| all.push(RequiredTensor { name, shape: shape.to_vec(), role });
    add(names.words(), &[vocab, width], Role::Embedding);
    if let Some((positions, types)) = names.tables() {
        add(positions, &[kind.positions, width], Role::Vector);
        add(types, &[kind.token_types, width], Role::Vector);
    }
    let norm = |add: &mut dyn FnMut(String, &[usize], Role), name: &str, width: usize| {
        let (weight, bias) = names.norm(name);
        add(weight, &[width], Role::Vector);
        if kind.norm_bias {
            add(bias, &[width], Role::Vector);
        }
    };
    let linear = |add: &mut dyn FnMut(String, &[usize], Role), name: &str, out: usize, input: usize, bias: bool| {
        add(format!("{name}.weight"), &[out, input], Role::Matrix);
        if bias {
            add(format!("{name}.bias"), &[out], Role::Vector);
        }
    };
    norm(&mut add, &names.embedding_norm(), width);
    if let Some(name) = names.widen() {
        linear(&mut add, &name, hidden, width, true);
    }
    let leaves = names.leaves();
    for i in 0..kind.stored_blocks {
        let name = |leaf: &str| names.in_block(i, leaf);
        if names.has_attention_norm(i) {
            norm(&mut add, &name(leaves.attention_norm), hidden);
        }
        if names.is_fused() {
            linear(&mut add, &name(leaves.q), 3 * hidden, hidden, config.qkv_bias);
            linear(&mut add, &name(leaves.up), 2 * mlp, hidden, kind.mlp_bias);
        } else {
            for leaf in [leaves.q, leaves.k, leaves.v] {
                linear(&mut add, &name(leaf), hidden, hidden, config.qkv_bias);
            }
            linear(&mut add, &name(leaves.up), mlp, hidden, kind.mlp_bias);
        }
        linear(&mut add, &name(leaves.o), hidden, hidden, config.o_bias);
        norm(&mut add, &name(leaves.mlp_norm), hidden);
        linear(&mut add, &name(leaves.down), hidden, mlp, kind.mlp_bias);
    }
    if let Some(name) = names.last_norm() {
        norm(&mut add, name, hidden);
    }
    linear(&mut add, names.head_dense(), width, hidden, kind.head_bias);
    norm(&mut add, names.head_norm(), width);
    if !config.tied {
        add(names.decoder(), &[vocab, width], Role::Head);
    }
    if kind.decoder_bias {
        add(names.decoder_bias(), &[vocab], Role::Vector);
    }
    all
}
