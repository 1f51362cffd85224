//! A model against numbers that another implementation computed: a golden file.
//!
//! A golden file is safetensors with tensors `<case>.<field>`: `input_ids` [batch, length], raw `logits` [batch, length, vocab],
//! `confidence`, `entropy` and `argmax` [batch, length] of what is decoded (shifted, where the model shifts), and `attn_mean`
//! [layers, batch, length, length]. `attention_mask` marks padding on the left, which is cut off: alone or padded, a sequence gives
//! the same.

use crate::blocks::ForwardRequest;
use crate::error::{Error, Result};
use crate::model::Model;
use candle_core::{Device, Tensor};
use cofill::{Denoiser, Layers, Prediction, Proposal, Query, TokenId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The largest deviations that pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerances {
    /// For raw logits.
    pub logits: f64,
    /// For the probability of the likeliest token.
    pub confidence: f64,
    /// For the entropy, in nats.
    pub entropy: f64,
    /// For attention, mean over heads.
    pub attention: f64,
}

impl Default for Tolerances {
    /// For f32 on both sides: the order of sums alone costs about a fifth of this.
    fn default() -> Tolerances {
        Tolerances { logits: 5e-4, confidence: 5e-5, entropy: 2e-4, attention: 2e-5 }
    }
}

/// The numbers of a golden file.
pub struct Golden {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
}

/// One sequence of a golden file, without its padding.
pub struct Case<'a> {
    golden: &'a Golden,
    /// Its name in the file.
    pub name: String,
    /// Its row in the batch.
    row: usize,
    /// How much padding was cut off on the left.
    pad: usize,
    /// The tokens of the canvas.
    pub tokens: Vec<TokenId>,
}

/// How far the model was off on one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The sequence: its case, and its row there.
    pub case: String,
    /// One each for logits, confidence, entropy and attention.
    pub deviations: Vec<Deviation>,
    /// Positions where another token was proposed.
    pub other_tokens: Vec<usize>,
    /// Why only its logits could be compared.
    pub skipped: Option<String>,
}

/// The largest deviation of one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// The name of the quantity.
    pub quantity: &'static str,
    /// By how much it was off at most; NaN counts as infinitely much.
    pub worst: f64,
    /// By how much it may be off.
    pub tolerance: f64,
}

impl Deviation {
    /// Whether it is small enough.
    pub fn passes(&self) -> bool {
        self.worst <= self.tolerance
    }
}

impl Comparison {
    /// Whether all tokens are the same and all deviations small enough.
    pub fn passes(&self) -> bool {
        self.other_tokens.is_empty() && self.deviations.iter().all(Deviation::passes)
    }
}

impl Golden {
    /// Reads a golden file.
    pub fn open(path: &Path) -> Result<Golden> {
        if !path.is_file() {
            return Err(Error::Missing { path: path.into(), what: "the golden file".into() });
        }
        let tensors = candle_core::safetensors::load(path, &Device::Cpu);
        let malformed = |error: candle_core::Error| Error::Malformed {
            path: path.into(),
            problem: format!("not a safetensors file: {error}"),
        };
        let golden = Golden { path: path.into(), tensors: tensors.map_err(malformed)? };
        if golden.tensors.keys().any(|name| name.ends_with(".input_ids")) {
            Ok(golden)
        } else {
            Err(Error::Missing { path: path.into(), what: "a tensor `<case>.input_ids`".into() })
        }
    }

    /// Every sequence, by the names of their cases.
    pub fn cases(&self) -> Result<Vec<Case<'_>>> {
        let mut names: Vec<&str> = self.tensors.keys().filter_map(|key| key.strip_suffix(".input_ids")).collect();
        names.sort_unstable();
        let mut cases = Vec::new();
        for name in names {
            let batch: Vec<Vec<i64>> = self.read(name, "input_ids", Tensor::to_vec2)?;
            let masks: Option<Vec<Vec<i64>>> = if self.tensors.contains_key(&format!("{name}.attention_mask")) {
                Some(self.read(name, "attention_mask", Tensor::to_vec2)?)
            } else {
                None
            };
            for (row, ids) in batch.iter().enumerate() {
                let mask = masks.as_ref().and_then(|masks| masks.get(row));
                let pad = mask.map_or(0, |mask| mask.iter().take_while(|&&m| m == 0).count());
                let id = |&id: &i64| {
                    TokenId::try_from(id).map_err(|_| self.malformed(name, &format!("{id} is no token id")))
                };
                let tokens = ids.iter().skip(pad).map(id).collect::<Result<Vec<_>>>()?;
                if tokens.is_empty() {
                    return Err(self.malformed(name, &format!("sequence {row} is empty")));
                }
                cases.push(Case { golden: self, name: name.into(), row, pad, tokens });
            }
        }
        if cases.is_empty() {
            Err(Error::Malformed { path: self.path.clone(), problem: "no sequence in any `input_ids`".into() })
        } else {
            Ok(cases)
        }
    }

    /// A tensor, read as `f` does.
    fn read<T>(&self, case: &str, field: &str, f: impl FnOnce(&Tensor) -> candle_core::Result<T>) -> Result<T> {
        let name = format!("{case}.{field}");
        let missing = || Error::Missing { path: self.path.clone(), what: format!("tensor `{name}`") };
        f(self.tensors.get(&name).ok_or_else(missing)?).map_err(|error| self.malformed(&name, &error.to_string()))
    }

    fn malformed(&self, name: &str, problem: &str) -> Error {
        Error::Malformed { path: self.path.clone(), problem: format!("`{name}`: {problem}") }
    }
}

impl Case<'_> {
    /// A golden of shape [batch, length, ..], for this sequence and without its padding, flat.
    pub fn field(&self, field: &str) -> Result<Vec<f32>> {
        self.golden.read(&self.name, field, |whole| {
            whole.get(self.row)?.narrow(0, self.pad, self.tokens.len())?.flatten_all()?.to_vec1()
        })
    }

    fn argmax(&self) -> Result<Vec<i64>> {
        self.golden
            .read(&self.name, "argmax", |whole| whole.get(self.row)?.narrow(0, self.pad, self.tokens.len())?.to_vec1())
    }

    /// Head-mean attention of a layer. `[query x key]`
    fn attention(&self, layer: usize) -> Result<Vec<Vec<f32>>> {
        let (start, n) = (self.pad, self.tokens.len());
        self.golden.read(&self.name, "attn_mean", |whole| {
            whole.get(layer)?.get(self.row)?.narrow(0, start, n)?.narrow(1, start, n)?.to_vec2()
        })
    }

    /// The largest deviation from a golden, which must have as many numbers.
    fn compare(&self, quantity: &'static str, got: impl IntoIterator<Item = f64>, want: &[f32]) -> Result<f64> {
        let got: Vec<f64> = got.into_iter().collect();
        if got.len() != want.len() {
            let problem = format!("{} numbers, but the model gives {}", want.len(), got.len());
            return Err(self.golden.malformed(&format!("{}: {quantity}", self.name), &problem));
        }
        // NaN passes no comparison, so that it must be made to fail them.
        let off = |(got, want): (f64, &f32)| Some((got - f64::from(*want)).abs()).filter(|off| !off.is_nan());
        Ok(got.into_iter().zip(want).map(|pair| off(pair).unwrap_or(f64::INFINITY)).fold(0.0, f64::max))
    }

    /// Runs the model on this sequence and compares.
    pub fn verify(&self, model: &mut Model, tolerances: &Tolerances) -> cofill::Result<Comparison> {
        let (layers, mask, shift) = (model.config().layers, model.config().mask_id, model.config().shift);
        let every: Vec<usize> = (0..self.tokens.len()).collect();
        let Tolerances { logits, confidence, entropy, attention } = *tolerances;
        let deviation = |quantity, worst, tolerance| Deviation { quantity, worst, tolerance };

        let mut comparison = Comparison {
            case: format!("{}[{}]", self.name, self.row),
            deviations: vec![deviation("logits", self.raw_logits(model, &every)?, logits)],
            other_tokens: Vec::new(),
            skipped: None,
        };
        // Nothing predicts position 0 of a shifted model; what the reference made of it is not what we would decode.
        if shift && self.tokens[0] == mask {
            comparison.skipped = Some(Error::FirstMasked.to_string());
            return Ok(comparison);
        }
        // Under the shift, the first row of a padded sequence was predicted from padding; alone, from itself.
        let skip = usize::from(shift && self.pad > 0);
        let (want_c, want_h, argmax) = (self.field("confidence")?, self.field("entropy")?, self.argmax()?);
        let (want_c, want_h, argmax) = (&want_c[skip..], &want_h[skip..], &argmax[skip..]);
        // We never propose the mask, so where the reference does there is nothing to compare.
        let is_mask = |i: usize| argmax.get(i) == Some(&i64::from(mask));
        let mut worst = [0.0f64; 3];
        for layer in 0..layers {
            let prediction = self.ask(model, &every, layer)?;
            if let Some(attention) = &prediction.attention {
                for (query, want) in self.attention(layer)?.iter().enumerate() {
                    let got = (0..attention.len()).map(|key| attention.get(query, key));
                    worst[2] = worst[2].max(self.compare("attention", got, want)?);
                }
            }
            let rows = &prediction.rows[skip..];
            let c = rows.iter().enumerate().map(|(i, row)| match want_c.get(i).filter(|_| is_mask(i)) {
                Some(want) => f64::from(*want),
                None => row.confidence,
            });
            worst[0] = worst[0].max(self.compare("confidence", c, want_c)?);
            worst[1] = worst[1].max(self.compare("entropy", rows.iter().map(|row| row.entropy), want_h)?);
            let other = rows.iter().zip(argmax).enumerate();
            let other = other.filter(|(i, (row, want))| i64::from(row.token) != **want && !is_mask(*i));
            comparison.other_tokens = other.map(|(i, _)| i + skip).collect();
        }
        let [c, h, a] = worst;
        comparison.deviations.extend([
            deviation("confidence", c, confidence),
            deviation("entropy", h, entropy),
            deviation("attention", a, attention),
        ]);
        Ok(comparison)
    }

    /// How far the logits are off, before any shift.
    fn raw_logits(&self, model: &Model, rows: &[usize]) -> cofill::Result<f64> {
        model.check_tokens(&self.tokens)?;
        let transformer = model.transformer();
        let pass = transformer.forward(&self.tokens, &ForwardRequest { rows, attention: None })?;
        let logits = transformer.whole_logits(&pass.hidden)?;
        Ok(self.compare("logits", logits.into_iter().flatten().map(f64::from), &self.field("logits")?)?)
    }

    /// The model's answer for every row, with the attention of one layer.
    pub fn ask(&self, model: &mut Model, rows: &[usize], layer: usize) -> cofill::Result<Prediction> {
        let proposal = Proposal::greedy();
        let query = Query::new(&self.tokens, rows, &proposal).attention(Layers::Nth(layer));
        Ok(model.denoise(&[query])?.pop().unwrap_or_default())
    }
}
