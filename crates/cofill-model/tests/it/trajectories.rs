use crate::support::{FAMILIES, goldens, json};
use cofill::{
    Cache, Canvas, Decode, Denoiser, Part, Prediction, Proposal, Query, SamplerSpec, Schedule, Step, Style, TokenId,
    generate,
};
use cofill_model::{AttentionRow, Model};
use serde_json::Value;
use std::path::Path;

/// How a golden decode is written in our language.
struct Plan {
    sampler: SamplerSpec,
    schedule: Schedule,
    style: Style,
    guidance: f64,
    attention_row: AttentionRow,
    cache: Cache,
}

impl Plan {
    fn of(trajectory: &Value) -> Plan {
        let p = &trajectory["params"];
        let number = |field: &str| p[field].as_f64();
        let count = |field: &str| p[field].as_u64().map(|n| n as usize);
        let text = match trajectory["algorithm"].as_str().unwrap() {
            "llada_low_confidence" => format!("llada:{}", p["steps"]),
            "fastdllm_threshold" => format!("threshold:{}", p["threshold"]),
            "fastdllm_factor" => format!("fast-upstream:{}", p["factor"]),
            "dream_confidence_threshold" => format!("threshold-dream:{},{}", p["threshold"], p["steps"]),
            "adas" => {
                let rule = match p["rule"].as_str().unwrap() {
                    "topk" => format!("topk:{}", count("threshold").unwrap()),
                    "fastdllm" => format!("fast:{}", p["threshold"]),
                    rule => format!("{rule}:{}", p["threshold"]),
                };
                let layer = if p["layer"] == 0 { "@layer=first" } else { "" };
                format!("{rule}+ad:{}{layer}", p["alpha"])
            }
            "fastdllm_prefix_cache" | "fastdllm_dual_cache" => match number("threshold") {
                Some(threshold) => format!("threshold:{threshold}"),
                None => format!("llada:{}", p["steps"]),
            },
            dream if p["alg"].is_string() && dream.starts_with("dream_") => {
                format!("dream:{}@{}@eps={}", p["steps"], p["alg"].as_str().unwrap(), p["eps"])
            }
            other => panic!("no plan for `{other}`"),
        };
        let (top_p, top_k) = (number("top_p"), count("top_k"));
        Plan {
            cache: match trajectory["algorithm"].as_str().unwrap() {
                "fastdllm_prefix_cache" => Cache::Prefix,
                "fastdllm_dual_cache" => Cache::Dual,
                _ => Cache::Off,
            },
            guidance: number("cfg_scale").unwrap_or(0.0),
            attention_row: match count("attn_row_shift") {
                Some(1) => AttentionRow::Source,
                _ => AttentionRow::Position,
            },
            sampler: text.parse().unwrap_or_else(|error| panic!("`{text}`: {error}")),
            schedule: count("block_length").map_or(Schedule::Full, |len| Schedule::Blocks { len }),
            style: if top_p.or(top_k.map(|k| k as f64)).is_some() {
                Style::Filtered { top_p, top_k }
            } else {
                Style::Clean
            },
        }
    }

    /// The steps, the canvas, and the slice of every forward: where it begins and how many positions it computes.
    fn run(&self, dir: &Path, tokens: Vec<u32>) -> (Vec<Step>, Vec<u32>, Vec<(usize, usize)>) {
        let mut model = Model::load(dir).unwrap();
        model.set_guidance(self.guidance).unwrap();
        model.set_attention_row(self.attention_row);
        let canvas = Canvas::new(tokens, model.config().mask_id);
        let proposal = Proposal::greedy().style(self.style);
        let builder = Decode::builder(canvas, self.sampler.build().unwrap());
        let builder = builder.schedule(self.schedule).proposal(proposal).cache(self.cache);
        let mut decode = builder.begin().unwrap();
        let mut model = Slices { model, seen: Vec::new() };
        let steps = generate(&mut model, &mut decode).unwrap();
        assert_eq!(decode.nfe(), model.seen.len());
        (steps, decode.canvas().tokens().to_vec(), model.seen)
    }
}

/// A model that remembers what it computed.
struct Slices {
    model: Model,
    seen: Vec<(usize, usize)>,
}

impl Denoiser for Slices {
    fn mask_id(&self) -> TokenId {
        self.model.mask_id()
    }

    fn vocab(&self) -> usize {
        self.model.vocab()
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let answers = self.model.denoise(batch)?;
        for (query, answer) in batch.iter().zip(&answers) {
            let first = match query.reuse.map(|reuse| reuse.part) {
                Some(Part::Window { start, .. }) => start,
                _ => 0,
            };
            self.seen.push((first, query.tokens.len() - answer.reused));
        }
        Ok(answers)
    }
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn conformance_trajectories() {
    let models = goldens();
    for family in FAMILIES {
        let dir = models.join(format!("{family}_tiny"));
        let (mut same, mut cached) = (0, 0);
        for file in ["trajectories", "adas", "adas_rowshift_variant"] {
            let path = models.join(format!("{family}_{file}.json"));
            if !path.is_file() {
                continue; // only Dream has a shift
            }
            for trajectory in json(&path).as_array().unwrap() {
                let name = trajectory["name"].as_str().unwrap();
                let plan = Plan::of(trajectory);
                for (row, canvas) in trajectory["canvas"].as_array().unwrap().iter().enumerate() {
                    let mask = trajectory.get("attention_mask").filter(|mask| mask.is_array());
                    let pad = mask.map_or(0, |mask| ids(&mask[row]).iter().take_while(|&&m| m == 0).count());
                    let (steps, tokens, slices) = plan.run(&dir, ids(canvas)[pad..].to_vec());
                    let golden = trajectory["steps"].as_array().unwrap();
                    // Fast-dLLM's cached loops ask once more about a block that its first forward has filled, and count that. Ours looks
                    // before it asks; nothing else differs, so the published NFE is ours and these.
                    let commits = |step: &&Value| plan.cache == Cache::Off || !ids(&step[row]["selected"]).is_empty();
                    let golden: Vec<&Value> = golden.iter().filter(commits).collect();
                    let want: Vec<Vec<usize>> = golden
                        .iter()
                        .map(|step| ids(&step[row]["selected"]).iter().map(|&i| i as usize - pad).collect())
                        .collect();
                    if plan.cache != Cache::Off {
                        let number = |step: &Value, field: &str| step[row][field].as_u64().unwrap() as usize;
                        let slice = |step: &&Value| (number(step, "forward_start"), number(step, "forward_len"));
                        assert_eq!(slices, golden.iter().map(slice).collect::<Vec<_>>(), "{family} {name}");
                        let idle = trajectory["steps"].as_array().unwrap().len() - golden.len();
                        assert_eq!(Some((slices.len() + idle) as u64), trajectory["nfe"].as_u64(), "{family} {name}");
                        cached += 1;
                    }
                    let got: Vec<Vec<usize>> =
                        steps.iter().map(|step| step.commits.iter().map(|commit| commit.position).collect()).collect();
                    assert_eq!(got, want, "{family} {name} [{row}]: {}", plan.sampler);
                    assert_eq!(tokens, ids(&trajectory["final"][row])[pad..], "{family} {name} [{row}]");
                }
                same += 1;
            }
        }
        println!("conformance: {family}: {same} trajectories identical, {cached} of them with a cache");
        assert!(same >= 40);
        assert_eq!(cached, if family == "llada" { 4 } else { 0 });
    }
}
