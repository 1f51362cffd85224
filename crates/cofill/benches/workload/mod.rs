//! Steps whose size is known: |M| candidates of which a rule admits exactly |S|.

use cofill::{Attention, SamplerSpec, Snapshot};

/// The grid of the benches.
pub(crate) const MASKED: [usize; 3] = [64, 512, 4096];
/// |S|.
pub(crate) const CHOSEN: [usize; 2] = [8, 64];

/// Random attention (rows sum to about 1), confidences just above ½, entropies of exactly 1 nat: n (1 − c) < |S|/2 + ¼ and
/// n − 1 < |S| − ½ both hold up to n = |S|, whatever the order.
pub(crate) fn step(masked: usize) -> Snapshot {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let confidence: Vec<f64> = (0..masked).map(|_| 0.5 + 1e-4 * uniform()).collect();
    let attention = Attention::from_fn(masked, |_, _| 2.0 * uniform() / masked as f64);
    Snapshot::new(&confidence).entropy(&vec![1.0; masked]).attention(attention)
}

/// The three rules of the paper with `+ad`, and Top-k along paths, set to admit `chosen`. Without the veto of `+paths`, which would
/// end the step sooner.
pub(crate) fn samplers(chosen: usize) -> [(&'static str, SamplerSpec); 4] {
    let s = chosen as f64;
    let spec = |text: String| text.parse().expect("the specs below are well formed");
    [
        ("topk", spec(format!("topk:{chosen}+ad"))),
        ("paths", spec(format!("topk:{chosen}+ad:100@paths@doubt"))),
        ("fast", spec(format!("fast:{}+ad", 0.5 * s + 0.25))),
        ("eb", spec(format!("eb:{}+ad", s - 0.5))),
    ]
}
