//! The head that predicts who changes whom: its matrix against the one that `tools/train/pairs.py` computed, and refusals.

use crate::checkpoint::Folder;
use candle_core::{Device, Tensor};
use cofill::{Denoiser, Layers, Proposal, Query};
use cofill_model::{Checkpoint, Error, Model};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a fixture.
fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids<T>(value: &Value, of: impl Fn(u64) -> T) -> Vec<T> {
    value.as_array().unwrap().iter().map(|id| of(id.as_u64().unwrap())).collect()
}

#[test]
fn the_matrix_is_the_one_that_pytorch_computes() {
    for name in ["tiny-llada", "tiny-dream"] {
        let mut model = Model::load(&root().join("models").join(name)).unwrap();
        let cases = lines(&root().join("fixtures/tiny").join(format!("{name}-pairs.jsonl")));
        assert_eq!(cases.len(), 5, "a state of every task");
        for case in cases {
            let (tokens, rows) = (ids(&case["tokens"], |id| id as u32), ids(&case["rows"], |row| row as usize));
            let proposal = Proposal::greedy();
            let query = Query::new(&tokens, &rows, &proposal).attention(Layers::Learned);
            let got = model.denoise(&[query]).unwrap().remove(0).attention.unwrap();
            for (i, row) in case["influence"].as_array().unwrap().iter().enumerate() {
                for (s, want) in row.as_array().unwrap().iter().enumerate() {
                    // Hidden states are sums of some thousand f32 products; a sigmoid is at most a quarter as steep as its logit.
                    let (got, want) = (got.get(i, s), want.as_f64().unwrap());
                    assert!((got - want).abs() < 1e-4, "{name} {} [{i}, {s}]: {got}, not {want}", case["task"]);
                }
            }
        }
    }
}

/// A copy of tiny-llada without its head.
fn headless() -> Folder {
    let folder = Folder::new();
    for file in ["config.json", "model.safetensors"] {
        folder.put(file, std::fs::read(root().join("models/tiny-llada").join(file)).unwrap());
    }
    folder
}

fn ask(model: &mut Model, layers: Layers) -> cofill::Result<()> {
    let proposal = Proposal::greedy();
    let (tokens, rows) = ([5, 411, 411], [1, 2]);
    model.denoise(&[Query::new(&tokens, &rows, &proposal).attention(layers)]).map(drop)
}

#[test]
fn a_model_without_a_head_says_how_to_get_one() {
    let folder = headless();
    let mut model = Model::load(folder.path()).unwrap();
    let said = match ask(&mut model, Layers::Learned).unwrap_err() {
        cofill::Error::Denoiser(source) => source.to_string(),
        other => panic!("{other}"),
    };
    let path = folder.path().display();
    assert!(
        said.starts_with(&format!("`{path}` has no `pair_head.safetensors`, which predicts who changes whom")),
        "{said}"
    );
    assert!(said.contains("tools/train/pairs.py"), "{said}");
    assert!(ask(&mut model, Layers::Last).is_ok(), "all else works");
    assert_eq!(Checkpoint::open(folder.path()).unwrap().pair_head().unwrap(), None);
}

#[test]
fn a_head_changes_no_fingerprint() {
    // Results made before there were heads are named by it.
    let with = Checkpoint::open(&root().join("models/tiny-llada")).unwrap();
    let folder = Folder::new();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        folder.put(file, std::fs::read(root().join("models/tiny-llada").join(file)).unwrap());
    }
    let without = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(with.fingerprint().unwrap(), without.fingerprint().unwrap());
    let head = with.pair_head().unwrap().unwrap();
    assert_eq!((head.rank, head.sha256.len()), (32, 64));
}

#[test]
fn damaged_heads_are_refused_by_file_and_tensor() {
    let tensor = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu).unwrap();
    let shapes = |rank: usize, hidden: usize| -> HashMap<String, Tensor> {
        [("q", rank), ("k", rank)]
            .into_iter()
            .flat_map(|(name, rank)| {
                [(format!("{name}.weight"), tensor(&[rank, hidden])), (format!("{name}.bias"), tensor(&[rank]))]
            })
            .chain([("bias".to_owned(), tensor(&[1]))])
            .collect()
    };
    let load = |head: &HashMap<String, Tensor>| {
        let folder = headless();
        candle_core::safetensors::save(head, folder.path().join("pair_head.safetensors")).unwrap();
        Model::load(folder.path()).map(drop)
    };
    assert!(load(&shapes(8, 128)).is_ok());
    match load(&shapes(8, 64)).unwrap_err() {
        Error::Shape { name, want, got, .. } => {
            assert_eq!((&*name, want, got), ("q.weight", vec![8, 128], vec![8, 64]));
        }
        other => panic!("{other}"),
    }
    assert!(load(&shapes(6, 128)).unwrap_err().to_string().contains("`q.bias` has 6 entries"));
    let mut lacks = shapes(8, 128);
    lacks.remove("k.bias");
    assert!(load(&lacks).unwrap_err().to_string().contains("tensor `k.bias` is missing"));
    let mut infinite = shapes(8, 128);
    infinite.insert("bias".into(), Tensor::new(&[f32::INFINITY], &Device::Cpu).unwrap());
    assert!(matches!(load(&infinite).unwrap_err(), Error::NotFinite { .. }));
}
