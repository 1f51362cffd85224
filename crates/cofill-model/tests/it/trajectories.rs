use crate::support::{FAMILIES, goldens, json};
use cofill::{Canvas, Decode, Proposal, SamplerSpec, Schedule, Step, Style, generate};
use cofill_model::{AttentionRow, Model};
use serde_json::Value;
use std::path::Path;

/// How a golden decode is written in our language; `None` for what this engine does not do yet.
struct Plan {
    sampler: SamplerSpec,
    schedule: Schedule,
    style: Style,
    guidance: f64,
    attention_row: AttentionRow,
}

impl Plan {
    fn of(trajectory: &Value) -> Option<Plan> {
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
            dream if p["alg"].is_string() && dream.starts_with("dream_") => {
                format!("dream:{}@{}@eps={}", p["steps"], p["alg"].as_str().unwrap(), p["eps"])
            }
            _ => return None,
        };
        let (top_p, top_k) = (number("top_p"), count("top_k"));
        Some(Plan {
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
        })
    }

    fn run(&self, dir: &Path, tokens: Vec<u32>) -> (Vec<Step>, Vec<u32>) {
        let mut model = Model::load(dir).unwrap();
        model.set_guidance(self.guidance).unwrap();
        model.set_attention_row(self.attention_row);
        let canvas = Canvas::new(tokens, model.config().mask_id);
        let proposal = Proposal::greedy().style(self.style);
        let builder = Decode::builder(canvas, self.sampler.build().unwrap());
        let mut decode = builder.schedule(self.schedule).proposal(proposal).begin().unwrap();
        let steps = generate(&mut model, &mut decode).unwrap();
        (steps, decode.canvas().tokens().to_vec())
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
        let (mut same, mut waiting) = (0, Vec::new());
        for file in ["trajectories", "adas", "adas_rowshift_variant"] {
            let path = models.join(format!("{family}_{file}.json"));
            if !path.is_file() {
                continue; // only Dream has a shift
            }
            for trajectory in json(&path).as_array().unwrap() {
                let name = trajectory["name"].as_str().unwrap();
                let Some(plan) = Plan::of(trajectory) else {
                    waiting.push(name.to_string());
                    continue;
                };
                for (row, canvas) in trajectory["canvas"].as_array().unwrap().iter().enumerate() {
                    let mask = trajectory.get("attention_mask").filter(|mask| mask.is_array());
                    let pad = mask.map_or(0, |mask| ids(&mask[row]).iter().take_while(|&&m| m == 0).count());
                    let (steps, tokens) = plan.run(&dir, ids(canvas)[pad..].to_vec());
                    let want: Vec<Vec<usize>> = trajectory["steps"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|step| ids(&step[row]["selected"]).iter().map(|&i| i as usize - pad).collect())
                        .collect();
                    let got: Vec<Vec<usize>> =
                        steps.iter().map(|step| step.commits.iter().map(|commit| commit.position).collect()).collect();
                    assert_eq!(got, want, "{family} {name} [{row}]: {}", plan.sampler);
                    assert_eq!(tokens, ids(&trajectory["final"][row])[pad..], "{family} {name} [{row}]");
                }
                same += 1;
            }
        }
        println!("conformance: {family}: {same} trajectories identical; not offered yet: {}", waiting.join(", "));
        assert!(same >= 40);
    }
}
