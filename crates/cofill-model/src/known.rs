//! Published models whose architecture is known to the last number, and what they would take: nothing is downloaded to find out.

use crate::config::{Config, Family};
use crate::load_options::Dtype;
use crate::tensor_list::{RequiredTensor, Role, tensors_of};
use crate::weights::Layout;

/// A published model that fits what this crate reads.
#[derive(Debug, Clone)]
pub struct KnownModel {
    /// Its name on the Hugging Face hub.
    pub name: &'static str,
    /// Its sizes and switches, as its `config.json` has them.
    pub config: Config,
    /// What a user should know before downloading it.
    pub note: &'static str,
}

/// Said of every model that is too large for the machines this was built on, or could not be fetched there.
const NEVER_RUN: &str = "never run by us: no machine here could fetch it";
const NO_MASK: &str =
    "never run by us; its config.json may lack the mask's id, and the error then says which line to add";

/// The published models that should work. None of them was ever run by us, and `note` says so.
pub fn known_models() -> Vec<KnownModel> {
    let llada = Config {
        family: Family::Llada,
        hidden: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 32,
        head_dim: 128,
        mlp: 12_288,
        vocab: 126_464,
        rope_theta: 500_000.0,
        rms_eps: 1e-5,
        qkv_bias: false,
        o_bias: false,
        qk_norm: false,
        tied: false,
        shift: false,
        causal: false,
        context: 4096,
        mask_id: 126_336,
        eos_id: 126_081,
        encoder: None,
    };
    let dream = Config {
        family: Family::Dream,
        hidden: 3584,
        layers: 28,
        heads: 28,
        kv_heads: 4,
        mlp: 18_944,
        vocab: 152_064,
        rope_theta: 1_000_000.0,
        rms_eps: 1e-6,
        qkv_bias: true,
        shift: true,
        context: 131_072,
        mask_id: 151_666,
        eos_id: 151_643,
        ..llada.clone()
    };
    // Qwen3-0.6B and Qwen2.5-Coder-0.5B, as dllm converts them; masks are their tokenizers' to say.
    let qwen3 = Config {
        family: Family::Qwen,
        hidden: 1024,
        heads: 16,
        kv_heads: 8,
        mlp: 3072,
        vocab: 151_936,
        qkv_bias: false,
        qk_norm: true,
        tied: true,
        shift: false,
        context: 40_960,
        mask_id: 151_669,
        ..dream.clone()
    };
    let qwen2 = Config {
        hidden: 896,
        layers: 24,
        heads: 14,
        kv_heads: 2,
        head_dim: 64,
        mlp: 4864,
        qkv_bias: true,
        qk_norm: false,
        context: 32_768,
        ..qwen3.clone()
    };
    [
        ("GSAI-ML/LLaDA-8B-Instruct", &llada, NEVER_RUN),
        ("GSAI-ML/LLaDA-8B-Base", &llada, NEVER_RUN),
        ("GSAI-ML/LLaDA-1.5", &llada, NEVER_RUN),
        ("Dream-org/Dream-v0-Instruct-7B", &dream, NEVER_RUN),
        ("Dream-org/Dream-v0-Base-7B", &dream, NEVER_RUN),
        ("dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", &qwen3, NO_MASK),
        ("dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1", &qwen2, NO_MASK),
    ]
    .map(|(name, config, note)| KnownModel { name, config: config.clone(), note })
    .into()
}

impl KnownModel {
    /// The number of its weights; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(RequiredTensor::parameters).sum()
    }

    /// Bytes of its tensors as they are published: in bf16.
    pub fn file_bytes(&self) -> u64 {
        2 * self.parameters()
    }

    /// The memory that the loaded weights take at every dtype, by the same count as [`Inspection`](crate::Inspection).
    pub fn memory(&self) -> Vec<(Dtype, u64)> {
        let tensors = self.tensors();
        let head = self.config.tied.then(|| {
            let shape = vec![self.config.vocab, self.config.hidden];
            RequiredTensor { name: String::new(), shape, role: Role::Head }
        });
        let bytes = |dtype: Dtype| {
            // A tied head in f32 is the embedding itself; in another type it is a copy.
            let copy = head.iter().filter(|_| dtype != Dtype::F32);
            tensors.iter().chain(copy).map(|tensor| tensor.bytes(dtype)).sum()
        };
        Dtype::all().map(|dtype| (dtype, bytes(dtype))).collect()
    }

    fn tensors(&self) -> Vec<RequiredTensor> {
        tensors_of(&self.config, Layout::HuggingFace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_the_models_publish() {
        let known = known_models();
        let of = |name: &str| known.iter().find(|known| known.name == name).unwrap();
        // `total_size` of both indices is twice this: 16,031,162,368 and 15,231,233,024.
        assert_eq!(of("GSAI-ML/LLaDA-8B-Instruct").file_bytes(), 16_031_162_368);
        assert_eq!(of("Dream-org/Dream-v0-Base-7B").file_bytes(), 15_231_233_024);
        // Qwen's cards: 0.6B (0.44B without the embedding) and 0.49B (0.36B).
        assert_eq!(of("dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1").parameters(), 596_049_920);
        assert_eq!(of("dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1").parameters(), 494_032_768);
    }

    #[test]
    fn memory_shrinks_with_the_type() {
        for known in known_models() {
            let memory = known.memory();
            let at = |dtype| memory.iter().find(|(other, _)| *other == dtype).unwrap().1;
            assert_eq!(at(Dtype::F32), 4 * known.parameters(), "{}", known.name);
            assert!(at(Dtype::F16) < at(Dtype::F32) && at(Dtype::Q8_0) < at(Dtype::F16), "{}", known.name);
            // Rows of 896 weights cannot be cut into blocks of 256: those matrices stay f16.
            let fits = !known.name.contains("Qwen2.5-Coder-0.5B");
            assert_eq!(at(Dtype::Q4K) < at(Dtype::Q8_0), fits, "{}", known.name);
        }
    }
}
