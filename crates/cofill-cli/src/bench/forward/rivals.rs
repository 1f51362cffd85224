//! The body of a forward as others compute it: PyTorch in f32, llama.cpp from a GGUF file with the same weights in the same type.

use super::super::peer::{Package, Peer, PeerArgs};
use super::super::scratch::Scratch;
use super::super::step::{SEED, SizeArgs};
use super::{Answer, block_flops};
use crate::fail::{Done, Fail};
use cofill::TokenId;
use cofill_model::{Checkpoint, Dtype, Model, Quantise, Sizes};
use serde::Serialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::rc::Rc;

/// Token ids of the file for llama.cpp, which always computes logits of all rows: few, so that they take no time.
const VOCAB: usize = 256;

/// The body of one model in one type, as a peer computes it.
pub(super) struct Rival {
    peer: Rc<RefCell<Peer>>,
    name: String,
    /// The type of its weights.
    dtype: Dtype,
    /// The type of ours that it is compared with; all of them where there is none.
    against: Option<Dtype>,
    /// What it says of its kernels.
    kernels: String,
    /// Milliseconds of every round, for each way to compute that it has.
    ways: BTreeMap<String, Vec<f64>>,
    argmax: Option<Agreement>,
}

/// Rows in which the most probable token is the same.
#[derive(Serialize, Clone, Copy)]
struct Agreement {
    rows: usize,
    equal: usize,
}

/// `--json`: how a peer compares with our model of one type.
#[derive(Serialize)]
pub(super) struct Standing {
    peer: String,
    dtype: String,
    /// Of the ways it has, the fastest: of llama.cpp, with or without flash attention.
    #[serde(skip_serializing_if = "String::is_empty")]
    way: String,
    /// The fastest round.
    body_ms: f64,
    /// Our fastest round.
    our_body_ms: f64,
    /// Peer over ours: above 1, we are faster.
    ratio: f64,
    every_round_ms: BTreeMap<String, Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argmax: Option<Agreement>,
    kernels: String,
}

impl Rival {
    /// Starts the peers, gives them their models, and has each compute once.
    pub(super) fn all(args: &PeerArgs, size: &SizeArgs, dtypes: &[Dtype]) -> Done<Vec<Rival>> {
        if !args.peers.is_empty() && size.layers < 2 {
            return Err(Fail::request(
                "--layers is 1, so the body has no blocks that a --peer could compute; give 2 or more",
            ));
        }
        size.sizes().config()?; // sizes that no model has are our error, not theirs
        let mut all = Vec::new();
        for peer in args.start()? {
            let peer = Rc::new(RefCell::new(peer));
            let package = peer.borrow().package;
            match package {
                Package::Torch => all.push(Rival::torch(peer, size)?),
                Package::LlamaCpp => {
                    for &dtype in dtypes {
                        all.push(Rival::llama_cpp(peer.clone(), size, dtype)?);
                    }
                }
            }
        }
        Ok(all)
    }

    fn torch(peer: Rc<RefCell<Peer>>, size: &SizeArgs) -> Done<Rival> {
        let SizeArgs { hidden, layers, heads, mlp, positions, .. } = *size;
        let order = json!({"do": "body", "hidden": hidden, "blocks": layers - 1, "heads": heads, "mlp": mlp, "positions": positions});
        let answer = peer.borrow_mut().ask(&order)?;
        Ok(Rival::new(peer, Dtype::F32, None, &answer, None))
    }

    /// The blocks of the body as a whole model: by name they have the weights of the model that we measure.
    fn llama_cpp(peer: Rc<RefCell<Peer>>, size: &SizeArgs, dtype: Dtype) -> Done<Rival> {
        let SizeArgs { hidden, layers, heads, mlp, positions, .. } = *size;
        let sizes = Sizes { hidden, layers: layers - 1, heads, mlp, vocab: VOCAB, context: positions };
        let scratch = Scratch::new()?;
        let path = scratch.path().join(format!("{dtype}.gguf"));
        let about = |error: Fail| error.about(&path.display().to_string());
        let mut file = File::create(&path).map_err(|error| about(error.into()))?;
        let checkpoint = Checkpoint::random(sizes.config()?, SEED);
        Quantise { checkpoint: &checkpoint, dtype }.run(&mut file, |_, _, _| {})?;
        drop(file);
        let id = dtype.to_string();
        let order = json!({"do": "open", "id": id, "file": path, "positions": positions, "vocab": VOCAB});
        let opened = peer.borrow_mut().ask(&order)?;

        let tokens: Vec<TokenId> = (0..positions).map(|i| (i * 7919 % (VOCAB - 2)) as TokenId).collect();
        let theirs = peer.borrow_mut().ask(&json!({"do": "argmax", "id": id, "tokens": tokens}))?;
        let ours = argmax(&Model::load(&path)?, &tokens)?;
        let argmax = theirs["argmax"]
            .as_object()
            .and_then(|ways| ways.values().map(|rows| agreement(&ours, rows)).min_by_key(|a| a.equal));
        Ok(Rival::new(peer, dtype, Some(dtype), &opened, argmax))
    }

    fn new(
        peer: Rc<RefCell<Peer>>,
        dtype: Dtype,
        against: Option<Dtype>,
        opened: &Value,
        argmax: Option<Agreement>,
    ) -> Rival {
        let name = peer.borrow().to_string();
        let kernels = opened["kernels"].as_str().unwrap_or_default().trim().to_owned();
        Rival { peer, name, dtype, against, kernels, ways: BTreeMap::new(), argmax }
    }

    /// Its turn.
    pub(super) fn round(&mut self) -> Done<()> {
        let order = json!({"do": "time", "id": self.dtype.to_string()});
        let answer = self.peer.borrow_mut().ask_in_turn(&order)?;
        let wrong = || Fail::Run(anyhow::anyhow!("--peer {}: it answered `{answer}`, without milliseconds", self.name));
        let ways = answer["ms"].as_object().filter(|ways| !ways.is_empty()).ok_or_else(wrong)?;
        for (way, ms) in ways {
            let ms = ms.as_f64().filter(|ms| *ms > 0.0).ok_or_else(wrong)?;
            self.ways.entry(way.clone()).or_default().push(ms);
        }
        Ok(())
    }

    /// How it compares with our model of a type, if it does.
    pub(super) fn standing(&self, dtype: Dtype, ours: &[f64]) -> Option<Standing> {
        if self.against.is_some_and(|against| against != dtype) {
            return None;
        }
        let our_body_ms = fastest(ours)?;
        let ways = self.ways.iter().filter_map(|(way, rounds)| Some((way, fastest(rounds)?)));
        let (way, body_ms) = ways.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Standing {
            peer: self.name.clone(),
            dtype: self.dtype.to_string(),
            way: way.clone(),
            body_ms,
            our_body_ms,
            ratio: body_ms / our_body_ms,
            every_round_ms: self.ways.clone(),
            argmax: self.argmax,
            kernels: self.kernels.clone(),
        })
    }
}

fn fastest(rounds: &[f64]) -> Option<f64> {
    rounds.iter().copied().min_by(f64::total_cmp)
}

fn argmax(model: &Model, tokens: &[TokenId]) -> Done<Vec<usize>> {
    let rows: Vec<usize> = (0..tokens.len()).collect();
    let largest =
        |row: &Vec<f32>| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(token, _)| token);
    Ok(model.logits(tokens, &rows)?.iter().map(largest).collect())
}

fn agreement(ours: &[usize], theirs: &Value) -> Agreement {
    let equal = |pair: &(usize, &usize)| theirs[pair.0].as_u64() == Some(*pair.1 as u64);
    Agreement { rows: ours.len(), equal: ours.iter().enumerate().filter(equal).count() }
}

/// The body of everybody, side by side.
pub(super) fn print(out: &mut impl Write, size: &SizeArgs, answers: &[Answer]) -> Done<()> {
    if answers.iter().all(|answer| answer.peers.is_empty()) {
        return Ok(());
    }
    let SizeArgs { layers, positions, .. } = *size;
    let flops = (layers - 1) as f64 * block_flops(&size.sizes().config()?, positions, positions);
    writeln!(out)?;
    writeln!(out, "body: {} blocks, all {positions} rows, on every side", layers - 1)?;
    writeln!(
        out,
        "{:<8}{:>9}{:>9}   {:<26}{:>9}{:>9}{:>8}",
        "ours", "ms", "GFLOP/s", "peer", "ms", "GFLOP/s", "ratio"
    )?;
    let rate = |ms: f64| flops / ms / 1e6;
    for answer in answers {
        for Standing { peer, dtype, body_ms, our_body_ms, ratio, way, argmax, .. } in &answer.peers {
            let (ours, name) = (&answer.dtype, format!("{peer}, {dtype}"));
            write!(out, "{ours:<8}{our_body_ms:>9.1}{:>9.0}   ", rate(*our_body_ms))?;
            writeln!(out, "{name:<26}{body_ms:>9.1}{:>9.0}{ratio:>8.2}", rate(*body_ms))?;
            let argmax = argmax.map(|Agreement { rows, equal }| format!("the same argmax in {equal} of {rows} rows"));
            let notes: Vec<&str> =
                [Some(&**way).filter(|way| !way.is_empty()), argmax.as_deref()].into_iter().flatten().collect();
            if !notes.is_empty() {
                writeln!(out, "{:<29}{}", "", notes.join("; "))?;
            }
        }
    }
    writeln!(out, "ratio: the peer's time over ours; above 1, we are faster")?;
    Ok(())
}
