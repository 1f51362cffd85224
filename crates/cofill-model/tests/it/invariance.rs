use crate::checkpoint::{Checkpoint, Folder, Random, Sizes, TINY};
use cofill::{
    CacheCell, Canvas, Decode, Denoiser, Layers, Part, Pool, Prediction, Proposal, Query, Reuse, RowStats, SamplerSpec,
    Step, generate,
};
use cofill_model::{
    AttentionQuery, AttentionRow, Config, Dtype, ForwardRequest, Kernels, Model, PerHead, Transformer, Weights,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use safetensors::Dtype as Stored;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;

/// How far statistics may move when other rows are asked for along with a row. For few rows (up to 1 to 12, as the sizes are) the
/// matrix product takes another kernel, which adds the same f32 products in another order; 1.1e-6 was the most that was measured.
const OTHER_ORDER: f64 = 5e-6;

/// One question, owned.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) tokens: Vec<u32>,
    pub(crate) rows: Vec<usize>,
    pub(crate) layers: Option<Layers>,
    pub(crate) distributions: bool,
    pub(crate) proposal: Proposal,
}

impl Question {
    pub(crate) fn query(&self, sequence: u64) -> Query<'_> {
        let Question { tokens, rows, layers, distributions, proposal } = self;
        let mut query = Query::new(tokens, rows, proposal).attention(*layers).distributions(*distributions).step(3);
        query.sequence = sequence;
        query
    }

    pub(crate) fn alone(&self, model: &mut Model) -> Prediction {
        model.denoise(&[self.query(0)]).unwrap().remove(0)
    }

    /// Every row of a canvas, with the final layer's attention and the distributions.
    pub(crate) fn whole(tokens: Vec<u32>) -> Question {
        let rows = (0..tokens.len()).collect();
        Question { tokens, rows, layers: Some(Layers::Last), distributions: true, proposal: Proposal::greedy() }
    }
}

/// A token to start with, then tokens and masks.
pub(crate) fn canvas(random: &mut Random, config: &Config, length: usize) -> Vec<u32> {
    let token = |random: &mut Random| random.below(config.mask_id as usize) as u32;
    let masked = |random: &mut Random| if random.below(2) == 0 { config.mask_id } else { token(random) };
    (0..length).map(|i| if i == 0 { token(random) } else { masked(random) }).collect()
}

fn load(folder: &Folder) -> Model {
    Model::load(folder.path()).unwrap()
}

/// Without the denoiser around it, and so without the shift.
fn transformer(folder: &Folder) -> Transformer {
    let (config, weights) = (Config::load(folder.path()).unwrap(), Weights::open(folder.path()).unwrap());
    Transformer::load(config, &weights, Dtype::F32).unwrap()
}

/// Every bit of a prediction.
pub(crate) fn bits(prediction: &Prediction) -> Vec<u64> {
    let mut bits: Vec<u64> = prediction.rows.iter().flat_map(row_bits).collect();
    if let Some(attention) = &prediction.attention {
        bits.extend((0..attention.len()).flat_map(|key| attention.toward(key)).map(|a| a.to_bits()));
    }
    if let Some(distributions) = &prediction.distributions {
        let rows = (0..distributions.len()).flat_map(|row| distributions.row(row));
        bits.extend(rows.map(|p| u64::from(p.to_bits())));
    }
    bits
}

fn row_bits(row: &RowStats) -> [u64; 5] {
    let RowStats { token, confidence, uncertainty, margin, entropy, .. } = *row;
    [token.into(), confidence.to_bits(), uncertainty.to_bits(), margin.to_bits(), entropy.to_bits()]
}

/// The same row, up to the order in which products were added. Tokens may differ only where two are as likely.
#[track_caller]
fn near(got: &RowStats, want: &RowStats, what: &str) {
    assert!(got.token == want.token || want.margin <= OTHER_ORDER, "{what}: {got:?}, {want:?}");
    for (got, want) in [
        (got.confidence, want.confidence),
        (got.uncertainty, want.uncertainty),
        (got.margin, want.margin),
        (got.entropy, want.entropy),
    ] {
        assert!((got - want).abs() <= OTHER_ORDER, "{what}: {got} is off {want} by {:e}", (got - want).abs());
    }
}

/// Questions of every kind, about canvases of 1 to 48 positions.
fn question() -> impl Strategy<Value = Question> {
    let layers = prop_oneof![
        Just(None),
        Just(Some(Layers::First)),
        Just(Some(Layers::Last)),
        Just(Some(Layers::LastN(2))),
        (0..TINY.layers).prop_map(|layer| Some(Layers::Nth(layer)))
    ];
    let proposal = prop_oneof![Just(Proposal::greedy()), (0..9u64).prop_map(|seed| Proposal::sampled(0.8, seed))];
    let rows =
        (1..=48usize).prop_flat_map(|n| subsequence((0..n).collect::<Vec<_>>(), 1..=n).prop_map(move |r| (n, r)));
    // Ids below 40 are tokens of both families; whoever asks turns the rest into the mask, which is another id in each.
    (rows, vec(0..48u32, 48), layers, any::<bool>(), proposal).prop_map(
        |((n, rows), mut tokens, layers, distributions, proposal)| {
            tokens.truncate(n);
            Question { tokens, rows, layers, distributions, proposal }
        },
    )
}

#[test]
fn a_sequence_does_not_notice_its_batch() {
    for (name, checkpoint) in Checkpoint::all() {
        notices_nothing(name, checkpoint.load(), 24);
    }
    // Two passes a forward, and attention of the row that predicts.
    let mut guided = Checkpoint::dream().load();
    guided.set_guidance(1.5).unwrap();
    guided.set_attention_row(AttentionRow::Source);
    notices_nothing("dream, guided", guided, 8);
    let folder = Checkpoint::dream().write();
    for dtype in [Dtype::F16, Dtype::Q8_0] {
        notices_nothing(&dtype.to_string(), Model::load_as(folder.path(), dtype).unwrap(), 8);
    }
}

fn notices_nothing(name: &str, model: Model, cases: u32) {
    let mask = model.config().mask_id;
    let model = RefCell::new(model);
    let batches = vec(question(), 1..=5).prop_flat_map(|batch| {
        let order: Vec<usize> = (0..batch.len()).collect();
        (Just(batch), Just(order).prop_shuffle())
    });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let result = runner.run(&batches, |(mut batch, order)| {
        let model = &mut *model.borrow_mut();
        for question in &mut batch {
            question.tokens.iter_mut().skip(1).filter(|token| **token >= 40).for_each(|token| *token = mask);
            question.tokens[0] %= 40;
        }
        let alone: Vec<_> = batch.iter().map(|question| bits(&question.alone(model))).collect();
        let queries: Vec<_> = order.iter().map(|&i| batch[i].query(i as u64)).collect();
        let together = model.denoise(&queries).unwrap();
        for (prediction, &i) in together.iter().zip(&order) {
            prop_assert!(bits(prediction) == alone[i], "{name}: question {i} in order {order:?}");
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn asking_for_fewer_rows_changes_at_most_the_order_of_sums() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let mut random = Random(2);
        for length in [1, 2, 7, 8, 9, 33, 64] {
            let whole = Question::whole(canvas(&mut random, model.config(), length));
            let want = whole.alone(&mut model);
            for share in [1, 2, 5, 20] {
                let few = Question {
                    rows: (random.below(share.min(length))..length).step_by(share).collect(),
                    ..whole.clone()
                };
                let got = few.alone(&mut model);
                let (attention, all) = (got.attention.as_ref().unwrap(), want.attention.as_ref().unwrap());
                let all = all.restrict(&few.rows);
                for (slot, &position) in few.rows.iter().enumerate() {
                    let what = format!("{name}: position {position} of {length}, {} rows", few.rows.len());
                    near(&got.rows[slot], &want.rows[position], &what);
                    // Attention is a mean of f32 probabilities; one rounding of a probability is at most 6e-8.
                    for (a, b) in attention.toward(slot).iter().zip(all.toward(slot)) {
                        assert!((a - b).abs() <= 5e-7, "{what}: attention {a}, {b}");
                    }
                    let row = |p: &Prediction, row| p.distributions.as_ref().unwrap().row(row).to_vec();
                    for (a, b) in row(&got, slot).iter().zip(row(&want, position)) {
                        assert!(f64::from(a - b).abs() <= OTHER_ORDER, "{what}: p {a}, {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn asking_for_attention_changes_at_most_the_order_of_sums() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let tokens = canvas(&mut Random(3), model.config(), 40);
        for rows in [vec![5], (1..9).collect(), (0..40).collect()] {
            let with = Question { rows, ..Question::whole(tokens.clone()) };
            let without = Question { layers: None, distributions: false, ..with.clone() };
            let (with, without) = (with.alone(&mut model), without.alone(&mut model));
            for (a, b) in with.rows.iter().zip(&without.rows) {
                near(a, b, name);
            }
        }
    }
}

#[test]
fn the_final_block_computes_few_rows_like_all() {
    for (name, checkpoint) in Checkpoint::all() {
        let folder = checkpoint.write();
        let config = Config::load(folder.path()).unwrap();
        let transformer = transformer(&folder);
        let tokens = canvas(&mut Random(4), &config, 40);
        let hidden = |rows: &[usize], attention: Option<&[usize]>| -> Vec<Vec<f32>> {
            let attention = attention.map(|among| AttentionQuery {
                layers: config.layers - 1..config.layers,
                queries: among,
                keys: among,
                heads: PerHead::Mean,
            });
            transformer.forward(&tokens, &ForwardRequest { rows, attention }).unwrap().hidden.to_rows().unwrap()
        };
        let all = hidden(&(0..40).collect::<Vec<_>>(), None);
        // Attention among other positions than the rows: the final block has more queries than rows.
        for (rows, among) in
            [(vec![0], None), (vec![3, 17, 39], None), (vec![3, 17, 39], Some(vec![4, 17])), ((1..30).collect(), None)]
        {
            let few = hidden(&rows, among.as_deref());
            assert_eq!(few.len(), rows.len(), "{name}");
            for (few, &row) in few.iter().zip(&rows) {
                let off = few.iter().zip(&all[row]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Entries are about 1 after the norm: a few roundings of 1.2e-7 through one block.
                assert!(off <= 5e-6, "{name}: row {row} of {rows:?} is off by {off:e}");
            }
        }
    }
}

#[test]
fn our_loops_compute_what_the_tensor_librarys_operations_do() {
    // 150 positions are three tasks of attention, the last one short; some rows are asked for, others only probed.
    let long = |kv_heads| Sizes { kv_heads, context: 150, ..TINY };
    for checkpoint in [Checkpoint::llada_of(long(4)), Checkpoint::dream_of(long(2))] {
        let mut transformer = transformer(&checkpoint.write());
        let tokens = canvas(&mut Random(3), transformer.config(), 150);
        let rows: Vec<usize> = (0..150).filter(|i| i % 3 != 0).collect();
        let keys: Vec<usize> = (0..150).step_by(2).collect();
        // A query may be probed twice: under a shift, positions 0 and 1 share their source.
        let queries: Vec<usize> = keys.iter().map(|key| key.saturating_sub(3)).collect();
        let mut pass = |kernels, layers| {
            transformer.set_kernels(kernels);
            let attention = Some(AttentionQuery { layers, queries: &queries, keys: &keys, heads: PerHead::Mean });
            let pass = transformer.forward(&tokens, &ForwardRequest { rows: &rows, attention }).unwrap();
            (pass.hidden.to_rows().unwrap(), pass.attention.unwrap())
        };
        for layers in [0..1, 1..3, 2..3] {
            let (got, want) = (pass(Kernels::Slices, layers.clone()), pass(Kernels::Ops, layers));
            for (got, want) in got.0.iter().flatten().zip(want.0.iter().flatten()) {
                assert!((got - want).abs() <= 2e-5, "{got}, {want}");
            }
            for (got, want) in got.1.iter().zip(&want.1) {
                assert!((got - want).abs() <= 1e-6, "{got}, {want}");
            }
            // A row of attention is a share of 1, the same share for a query probed twice.
            let n = queries.len();
            assert!((0..n).all(|key| got.1[key * n] == got.1[key * n + 1] && (0.0..=1.0).contains(&got.1[key * n])));
        }
    }
}

#[test]
fn the_mean_of_heads_apart_is_the_head_mean() {
    for checkpoint in [Checkpoint::llada_of(TINY), Checkpoint::dream_of(TINY)] {
        let mut model = Model::new(transformer(&checkpoint.write()));
        let mask = model.mask_id();
        let tokens = [vec![5, 6, 7], vec![mask; 5], vec![8], vec![mask; 3]].concat();
        let rows: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] == mask).collect();
        let proposal = Proposal::greedy();
        for source in [AttentionRow::Position, AttentionRow::Source] {
            model.set_attention_row(source);
            let query = Query::new(&tokens, &rows, &proposal);
            let toward = [rows[0], rows[4]];
            let apart = model.by_head(&query, &toward).unwrap().unwrap();
            assert_eq!((apart.layers(), apart.heads()), (model.config().layers, model.config().heads));
            for layer in 0..apart.layers() {
                let query = query.attention(Layers::Nth(layer));
                let mean = model.denoise(&[query]).unwrap().remove(0).attention.unwrap();
                for (key, at) in [0, 4].into_iter().enumerate() {
                    for row in 0..rows.len() {
                        let heads = (0..apart.heads()).map(|head| apart.toward(layer, head, key)[row]);
                        let off = (heads.sum::<f64>() / apart.heads() as f64 - mean.get(row, at)).abs();
                        // In the final layer the mean's pass computes fewer queries at once: other sums, the same numbers.
                        assert!(off < 1e-6, "layer {layer}, key {key}, row {row}: off by {off:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_tile_of_a_quantised_head_is_its_own() {
    // 9,000 ids are three tiles of the head. Quantised logits stay near the exact ones in every tile, and tiles differ from each other.
    let sizes = cofill_model::Sizes { hidden: 256, layers: 1, heads: 4, mlp: 256, vocab: 9000, context: 8 };
    let logits = |dtype| {
        let model = Model::random(sizes, dtype, 1).unwrap();
        model.logits(&[5, 6, 7, 8], &[2]).unwrap().remove(0)
    };
    let exact = logits(Dtype::F32);
    let rms = |x: &[f32]| (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
    for (dtype, share) in [(Dtype::F16, 0.01), (Dtype::Q8_0, 0.05), (Dtype::Q6K, 0.1), (Dtype::Q4K, 0.3)] {
        let got = logits(dtype);
        for (tile, (got, want)) in got.chunks(3000).zip(exact.chunks(3000)).enumerate() {
            let off: Vec<f32> = got.iter().zip(want).map(|(got, want)| got - want).collect();
            let off = rms(&off) / rms(want);
            assert!(off < share, "{dtype}, tile {tile}: off by {off} of the logits' size");
        }
    }
}

#[test]
fn every_layout_and_type_of_the_same_weights_predicts_the_same_bits() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let question = Question::whole(canvas(&mut Random(5), model.config(), 21));
        let want = bits(&question.alone(&mut model));
        for dtype in [Stored::F32, Stored::F16, Stored::BF16] {
            for folder in
                [checkpoint.write_as(dtype), checkpoint.write_sharded(dtype, 1), checkpoint.write_sharded(dtype, 3)]
            {
                assert!(bits(&question.alone(&mut load(&folder))) == want, "{name}: {dtype:?}");
            }
        }
    }
}

#[test]
fn a_tied_head_is_the_embedding() {
    for (family, head, embedding, switch) in [
        (Checkpoint::llada(), "model.transformer.ff_out.weight", "model.transformer.wte.weight", "weight_tying"),
        (Checkpoint::dream(), "lm_head.weight", "model.embed_tokens.weight", "tie_word_embeddings"),
    ] {
        let mut copied = family.clone();
        copied.tensor(head).values = copied.tensor(embedding).values.clone();
        let mut tied = family.with(switch, true);
        tied.tensors.retain(|tensor| tensor.name != head);
        let (mut copied, mut tied) = (copied.load(), tied.load());
        let question = Question::whole(canvas(&mut Random(6), tied.config(), 12));
        assert!(bits(&question.alone(&mut copied)) == bits(&question.alone(&mut tied)), "{head}");
    }
}

#[test]
fn decodes_in_a_pool_are_decodes_alone() {
    for (name, checkpoint) in Checkpoint::all() {
        let mut model = checkpoint.load();
        let mut random = Random(7);
        let canvases = [24, 9, 40].map(|length| canvas(&mut random, model.config(), length));
        let mask = model.config().mask_id;
        for (spec, temperature) in [("topk:3+ad:40", 0.0), ("eb:0.5+ad:40", 0.0), ("fast:0.9", 0.0), ("topk:2", 0.7)] {
            let spec: SamplerSpec = spec.parse().unwrap();
            let start = |seed: usize| {
                let canvas = Canvas::new(canvases[seed].clone(), mask);
                let proposal = Proposal::sampled(temperature, seed as u64);
                Decode::builder(canvas, spec.build().unwrap()).proposal(proposal).begin().unwrap()
            };
            let mut alone: Vec<(Vec<Step>, Vec<u32>)> = Vec::new();
            for seed in 0..canvases.len() {
                let mut decode = start(seed);
                let steps = generate(&mut model, &mut decode).unwrap();
                alone.push((steps, decode.canvas().tokens().to_vec()));
            }
            let mut pool = Pool::new();
            let mut together: BTreeMap<_, (Vec<Step>, Vec<u32>)> =
                (0..canvases.len()).map(|seed| (pool.add(start(seed)), Default::default())).collect();
            while !pool.is_empty() {
                for event in pool.round(&mut model).unwrap() {
                    together.get_mut(&event.ticket).unwrap().0.extend(event.step.unwrap());
                }
                for (ticket, _, decode) in pool.finished() {
                    together.get_mut(&ticket).unwrap().1 = decode.canvas().tokens().to_vec();
                }
            }
            assert_eq!(together.into_values().collect::<Vec<_>>(), alone, "{name}: {spec}");
            assert!(alone.iter().all(|(_, tokens)| !tokens.contains(&mask)), "{name}: {spec}");
        }
    }
}

#[test]
fn dreams_shift_reads_one_row_earlier() {
    let folder = Checkpoint::dream().write();
    let mut model = load(&folder);
    let config = model.config().clone();
    let transformer = transformer(&folder);
    let question = Question::whole(canvas(&mut Random(8), &config, 30));
    let prediction = question.alone(&mut model);
    // Row 29 predicts position 30, which does not exist, so the model never asks for it.
    let sources: Vec<usize> = (0..29).collect();
    let probe = AttentionQuery { layers: 2..3, queries: &question.rows, keys: &question.rows, heads: PerHead::Mean };
    let pass =
        transformer.forward(&question.tokens, &ForwardRequest { rows: &sources, attention: Some(probe) }).unwrap();
    let logits = transformer.logits(&pass.hidden).next().unwrap().unwrap(); // one tile holds the whole vocabulary
    let logits: Vec<&[f32]> = logits.chunks(config.vocab).collect();
    for (position, got) in prediction.rows.iter().enumerate() {
        // Nothing precedes position 0, which only stands there because every row was asked for.
        let row = logits[position.saturating_sub(1)];
        let want = Proposal::greedy().propose(row, config.mask_id, 3, position).unwrap();
        assert_eq!(row_bits(got), row_bits(&want), "position {position}");
    }
    // Attention is that of the position itself.
    let by_key: Vec<f64> =
        (0..30).flat_map(|key| prediction.attention.as_ref().unwrap().toward(key)).copied().collect();
    assert!(by_key == pass.attention.unwrap());
}

/// Set for a child process that is to print the hash of its predictions.
const PRINT_BITS: &str = "COFILL_PRINT_BITS";

/// Wide enough for the matrix products to be cut up and shared out: 96 positions, an MLP of 1100, two tiles of vocabulary.
#[test]
fn child_prints_its_bits() {
    if std::env::var_os(PRINT_BITS).is_none() {
        return; // only `one_thread_and_four_give_the_same_bits` runs it in earnest
    }
    let sizes = Sizes { hidden: 128, layers: 2, heads: 4, kv_heads: 2, mlp: 1100, vocab: 4200, context: 96 };
    for checkpoint in [Checkpoint::llada_of(sizes), Checkpoint::dream_of(sizes)] {
        print_bits(checkpoint.load());
    }
    // Widths that the blocks of 256 divide.
    let folder = Checkpoint::dream_of(Sizes { hidden: 256, layers: 1, mlp: 512, vocab: 300, ..sizes }).write();
    for dtype in [Dtype::F16, Dtype::Q4K, Dtype::Q6K, Dtype::Q8_0] {
        print_bits(Model::load_as(folder.path(), dtype).unwrap());
    }
}

/// One line each for all rows, half of them, a few, one, and a window under a cache.
fn print_bits(mut model: Model) {
    let whole = Question::whole(canvas(&mut Random(9), model.config(), 96));
    let fold = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let print = |of: &Prediction| println!("bits={:016x}", bits(of).into_iter().fold(0xcbf2_9ce4_8422_2325, fold));
    for rows in [whole.rows.clone(), (1..96).step_by(2).collect(), vec![4, 50, 77], vec![12]] {
        let few = Question { rows, ..whole.clone() };
        print(&few.alone(&mut model));
    }
    let cell = CacheCell::new();
    model.denoise(&[whole.query(0).reuse(Reuse { cell: &cell, part: Part::All })]).unwrap();
    let few = Question { rows: (33..65).collect(), ..whole };
    let reuse = Reuse { cell: &cell, part: Part::Window { start: 33, end: 65 } };
    let cached = model.denoise(&[few.query(0).reuse(reuse)]).unwrap().remove(0);
    assert!(cached.reused > 60);
    print(&cached);
}

#[test]
fn one_thread_and_four_give_the_same_bits() {
    let run = |threads: &str| -> Vec<String> {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "invariance::child_prints_its_bits", "--nocapture"])
            .env(PRINT_BITS, "1")
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split("bits=").skip(1).map(|rest| rest[..16].to_string()).collect()
    };
    let one = run("1");
    assert_eq!(one.len(), 30, "five questions to each of six models");
    assert_eq!(one, run("4"));
    assert_eq!(one, run("3"), "a count that divides nothing");
}
