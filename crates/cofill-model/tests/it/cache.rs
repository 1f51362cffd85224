use crate::checkpoint::{Checkpoint, Random, TINY};
use crate::invariance::{Question, bits, canvas};
use cofill::{
    Cache, CacheCell, Canvas, Decode, Denoiser, Layers, Part, Pool, Prediction, Proposal, Query, Reuse, SamplerSpec,
    Schedule, Step, generate,
};
use cofill_model::{AttentionQuery, CacheUse, ForwardRequest, Kernels, Model, PerHead};
use std::collections::HashMap;

fn ask(model: &mut Model, question: &Question, cell: &CacheCell, part: Part) -> Prediction {
    let query: Query<'_> = question.query(0).reuse(Reuse { cell, part });
    model.denoise(&[query]).unwrap().remove(0)
}

fn window(start: usize, end: usize) -> Part {
    Part::Window { start, end }
}

/// Rows of a window, with the final layer's attention and the distributions.
fn rows_of(tokens: &[u32], start: usize, end: usize) -> Question {
    let (rows, layers) = ((start..end).collect(), Some(Layers::Last));
    Question { tokens: tokens.to_vec(), rows, layers, distributions: true, proposal: Proposal::greedy() }
}

#[test]
fn a_window_that_is_everything_gives_the_bits_of_no_cache() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let question = Question::whole(canvas(&mut Random(5), model.config(), 33));
        let want = bits(&question.alone(&mut model));
        let cell = CacheCell::new();
        for part in [Part::All, window(0, 33), Part::All] {
            let got = ask(&mut model, &question, &cell, part);
            assert!(bits(&got) == want && got.reused == 0, "{name}: {part:?}");
        }
        // Below the denoiser, which would not even make a window of it.
        let (network, every) = (model.transformer(), (0..33).collect::<Vec<_>>());
        let probe = || AttentionQuery { layers: 0..3, queries: &every, keys: &every, heads: PerHead::Mean };
        let request = || ForwardRequest { rows: &every, attention: Some(probe()) };
        let want = network.forward(&question.tokens, &request()).unwrap();
        let mut kept = network.keys_values(33);
        for window in [None, Some(0..33)] {
            let cache = CacheUse { kept: &mut kept, window };
            let got = network.forward_kept(&question.tokens, &request(), cache).unwrap();
            assert_eq!(got.hidden.to_rows().unwrap(), want.hidden.to_rows().unwrap(), "{name}");
            assert_eq!(got.attention, want.attention, "{name}");
        }
    }
}

/// Keys and values by (layer, position), and the attention of the last layer and hidden states of some rows, all in f64: what
/// `docs/caches.md` says, written down again.
struct Scratch {
    tensors: HashMap<String, (Vec<usize>, Vec<f64>)>,
    kept: HashMap<(usize, usize), (Vec<f64>, Vec<f64>)>,
}

impl Scratch {
    fn new(checkpoint: &Checkpoint) -> Scratch {
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        let tensors = checkpoint.tensors.iter().map(|t| (t.name.clone(), (t.shape.clone(), wide(&t.values))));
        Scratch { tensors: tensors.collect(), kept: HashMap::new() }
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (_, values) = &self.tensors[name];
        values.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + 1e-5).sqrt();
        x.iter().zip(&self.tensors[name].1).map(|(x, w)| x * scale * w).collect()
    }

    fn rotated(mut x: Vec<f64>, dim: usize, position: usize) -> Vec<f64> {
        for head in x.chunks_mut(dim) {
            for j in 0..dim / 2 {
                let angle = position as f64 / 10000f64.powf(2.0 * j as f64 / dim as f64);
                let (a, b) = (head[j], head[j + dim / 2]);
                head[j] = a * angle.cos() - b * angle.sin();
                head[j + dim / 2] = b * angle.cos() + a * angle.sin();
            }
        }
        x
    }

    /// Computes the window's rows; every layer stores their keys and values, and lets them attend to those of all positions. Gives the
    /// last layer's head mean, `[window][length]`, and p of every row of the window.
    fn forward(&mut self, tokens: &[u32], window: std::ops::Range<usize>) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let (hidden, dim) = (TINY.hidden, TINY.hidden / TINY.heads);
        let words = self.tensors["model.transformer.wte.weight"].1.clone();
        let word = |&token: &u32| words[token as usize * hidden..(token as usize + 1) * hidden].to_vec();
        let mut stream: Vec<Vec<f64>> = tokens[window.clone()].iter().map(word).collect();
        let mut attention = Vec::new();
        for layer in 0..TINY.layers {
            let name = |leaf: &str| format!("model.transformer.blocks.{layer}.{leaf}.weight");
            let normed: Vec<Vec<f64>> = stream.iter().map(|x| self.norm(&name("attn_norm"), x)).collect();
            for (position, h) in window.clone().zip(&normed) {
                let key = Scratch::rotated(self.linear(&name("k_proj"), h), dim, position);
                let value = self.linear(&name("v_proj"), h);
                self.kept.insert((layer, position), (key, value));
            }
            attention = vec![vec![0.0; tokens.len()]; window.len()];
            for (at, (position, h)) in window.clone().zip(&normed).enumerate() {
                let query = Scratch::rotated(self.linear(&name("q_proj"), h), dim, position);
                let mut mixed = vec![0.0; hidden];
                for head in 0..TINY.heads {
                    let part = head * dim..(head + 1) * dim;
                    let score = |j: usize| {
                        let (key, _) = &self.kept[&(layer, j)];
                        query[part.clone()].iter().zip(&key[part.clone()]).map(|(q, k)| q * k).sum::<f64>()
                            / (dim as f64).sqrt()
                    };
                    let scores: Vec<f64> = (0..tokens.len()).map(|j| score(j).exp()).collect();
                    let sum: f64 = scores.iter().sum();
                    for (j, score) in scores.iter().enumerate() {
                        let p = score / sum;
                        attention[at][j] += p / TINY.heads as f64;
                        let (_, value) = &self.kept[&(layer, j)];
                        mixed[part.clone()].iter_mut().zip(&value[part.clone()]).for_each(|(m, v)| *m += p * v);
                    }
                }
                let add = |x: &mut Vec<f64>, y: Vec<f64>| x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
                add(&mut stream[at], self.linear(&name("attn_out"), &mixed));
                let h = self.norm(&name("ff_norm"), &stream[at]);
                let (gate, up) = (self.linear(&name("ff_proj"), &h), self.linear(&name("up_proj"), &h));
                let h: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                add(&mut stream[at], self.linear(&name("ff_out"), &h));
            }
        }
        let softmax = |x: &Vec<f64>| {
            let logits = self.linear("model.transformer.ff_out.weight", &self.norm("model.transformer.ln_f.weight", x));
            let sum: f64 = logits.iter().map(|l| l.exp()).sum();
            logits.iter().map(|l| l.exp() / sum).collect()
        };
        (attention, stream.iter().map(softmax).collect())
    }
}

#[test]
fn a_cached_forward_and_its_attention_are_their_definition_from_scratch() {
    let checkpoint = Checkpoint::llada();
    let mut model = checkpoint.load();
    let mut tokens = canvas(&mut Random(8), model.config(), 24);
    let cell = CacheCell::new();
    let mut scratch = Scratch::new(&checkpoint);
    // A full forward, and windows of a canvas that changes before every one of them: within the window and (of the next block) outside.
    let parts = [(Part::All, 0..24), (window(8, 16), 8..16), (window(8, 16), 8..16), (window(12, 24), 12..24)];
    for (turn, (part, range)) in parts.into_iter().enumerate() {
        let (attention, p) = scratch.forward(&tokens, range.clone());
        let got = ask(&mut model, &rows_of(&tokens, range.start, range.end), &cell, part);
        assert_eq!(got.reused, 24 - range.len());
        for (i, position) in range.clone().enumerate() {
            for (j, key) in range.clone().enumerate() {
                let (got, want) = (got.attention.as_ref().unwrap().get(i, j), attention[i][key]);
                assert!((got - want).abs() < 2e-6, "turn {turn}: A[{position}, {key}] = {got}, not {want}");
            }
            for (got, want) in got.distributions.as_ref().unwrap().row(i).iter().zip(&p[i]) {
                assert!((f64::from(*got) - want).abs() < 2e-5, "turn {turn}, row {position}: {got}, not {want}");
            }
        }
        for at in [9, 13, 20] {
            tokens[at] = (tokens[at] + 7) % 40;
        }
    }
    // And it is not what a forward without a cache computes, or the test would say nothing.
    let exact = rows_of(&tokens, 12, 24).alone(&mut model);
    let stale = ask(&mut model, &rows_of(&tokens, 12, 24), &cell, window(12, 24));
    assert!((exact.rows[0].confidence - stale.rows[0].confidence).abs() > 1e-4);
}

#[test]
fn a_denoiser_that_has_nothing_kept_computes_everything() {
    let mut model = Checkpoint::dream().load();
    let tokens = canvas(&mut Random(6), model.config(), 24);
    let question = rows_of(&tokens, 8, 16);
    let want = bits(&question.alone(&mut model));
    let exact = |model: &mut Model, cell: &CacheCell, question: &Question, what: &str| {
        let got = ask(model, question, cell, window(8, 16));
        assert!(bits(&got) == want && got.reused == 0, "{what}");
    };
    exact(&mut model, &CacheCell::new(), &question, "a new cell");
    let cell = CacheCell::new();
    let mut other = Checkpoint::dream().load();
    ask(&mut other, &question, &cell, Part::All);
    exact(&mut model, &cell, &question, "what another model has kept");
    let longer = [tokens.clone(), vec![1; 3]].concat();
    ask(&mut model, &rows_of(&longer, 8, 16), &cell, Part::All);
    exact(&mut model, &cell, &question, "what was kept of another canvas");
    // From here on there is something: the shift reads the row before the window, and so 9 of 24 are computed.
    assert_eq!(ask(&mut model, &question, &cell, window(8, 16)).reused, 24 - 9);
    let outside = Question { rows: vec![3, 9], ..question.clone() };
    assert_eq!(ask(&mut model, &outside, &cell, window(8, 16)).reused, 0, "a row outside of the window");
    ask(&mut model, &question, &cell, Part::All);
    model.set_guidance(0.5).unwrap();
    assert_eq!((model.caches(), ask(&mut model, &question, &cell, window(8, 16)).reused), (false, 0));
    let mut model = Checkpoint::dream().load();
    model.transformer_mut().set_kernels(Kernels::Ops);
    assert_eq!((model.caches(), ask(&mut model, &question, &cell, window(8, 16)).reused), (false, 0));
}

fn begin(tokens: Vec<u32>, mask: u32, sampler: &str, cache: Cache) -> Decode {
    let builder = Decode::builder(Canvas::new(tokens, mask), sampler.parse::<SamplerSpec>().unwrap().build().unwrap());
    builder.schedule(Schedule::Blocks { len: 8 }).cache(cache).begin().unwrap()
}

fn masked(random: &mut Random, mask: u32, prompt: usize) -> Vec<u32> {
    (0..prompt + 24).map(|i| if i < prompt { random.below(40) as u32 } else { mask }).collect()
}

#[test]
fn a_budget_of_nothing_is_no_cache_to_the_last_bit() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let mask = model.config().mask_id;
        for sampler in ["topk:2+ad", "eb:3+ad", "llada:6"] {
            let mut run = |cache| -> (Vec<Step>, Vec<u32>) {
                let mut decode = begin(masked(&mut Random(3), mask, 5), mask, sampler, cache);
                let steps = generate(&mut model, &mut decode).unwrap();
                (steps, decode.canvas().tokens().to_vec())
            };
            assert_eq!(run(Cache::Auto { budget: 0.0 }), run(Cache::Off), "{name} {sampler}");
        }
    }
}

#[test]
fn a_cached_decode_does_not_notice_its_neighbours() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let mask = model.config().mask_id;
        let caches = [Cache::Dual, Cache::Prefix, Cache::Off, Cache::Auto { budget: 1e-3 }, Cache::Dual];
        let decode = |i: usize| begin(masked(&mut Random(i as u64), mask, 4 + i), mask, "topk:2+ad", caches[i]);
        let mut alone = Vec::new();
        for i in 0..caches.len() {
            let mut decode = decode(i);
            alone.push((generate(&mut model, &mut decode).unwrap(), decode.nfe()));
        }
        // The last joins after two rounds, and the first is cancelled after three.
        let mut pool = Pool::new();
        let mut tickets: Vec<_> = (0..4).map(|i| pool.add(decode(i))).collect();
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); caches.len()];
        let mut rounds = 0;
        while !pool.is_empty() {
            for event in pool.round(&mut model).unwrap() {
                let at = tickets.iter().position(|ticket| *ticket == event.ticket).unwrap();
                steps[at].extend(event.step.unwrap());
            }
            rounds += 1;
            if rounds == 2 {
                tickets.push(pool.add(decode(4)));
            }
            if rounds == 3 {
                pool.cancel(tickets[0]).unwrap();
            }
            pool.finished();
        }
        assert_eq!(steps[0], alone[0].0[..3], "{name}");
        for i in 1..caches.len() {
            assert_eq!(steps[i], alone[i].0, "{name} {}", caches[i]);
        }
        assert!(alone[0].0.iter().any(|step| step.partial > 0), "{name}");
        assert_eq!(alone[2].0.iter().map(|step| step.partial).sum::<usize>(), 0);
    }
}
