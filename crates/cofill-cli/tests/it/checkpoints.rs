use crate::run::{goldens, run_with};
use serde_json::Value;
use std::path::PathBuf;

fn read(path: PathBuf) -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Ids as the command takes them, with M for the mask.
fn tokens(ids: &Value, mask: u64) -> String {
    let id = |id: &Value| if id.as_u64() == Some(mask) { "M".into() } else { id.to_string() };
    ids.as_array().unwrap().iter().map(id).collect::<Vec<_>>().join(",")
}

const FAMILIES: [(&str, u64); 2] = [("llada", 150), ("dream", 151)];

#[test]
fn conformance_generate() {
    let goldens = goldens().join("models");
    for (family, mask) in FAMILIES {
        let folder = goldens.join(format!("{family}_tiny")).display().to_string();
        let mut n = 0;
        for golden in read(goldens.join(format!("{family}_adas.json"))) {
            let p = &golden["params"];
            let rule = if p["rule"] == "fastdllm" { "fast" } else { p["rule"].as_str().unwrap() };
            let layer = if p["layer"] == 0 { "@layer=first" } else { "" };
            let sampler = format!("{rule}:{}+ad:{}{layer}", p["threshold"], p["alpha"]);
            let canvas = tokens(&golden["canvas"][0], mask);
            let ran = run_with(&["generate", "-m", &folder, "-s", &sampler, "--tokens", &canvas, "--json"], "");
            let answer = ran.is_fine().json();
            assert_eq!(answer["tokens"], golden["final"][0], "{family} {}", golden["name"]);
            assert_eq!(answer["nfe"], golden["nfe"], "{family} {}", golden["name"]);
            for (step, want) in answer["steps"].as_array().unwrap().iter().zip(golden["steps"].as_array().unwrap()) {
                assert_eq!(step["positions"], want[0]["selected"], "{family} {}", golden["name"]);
                assert_eq!(step["forced"], want[0]["forced"], "{family} {}", golden["name"]);
            }
            n += 1;
        }
        println!("conformance: {n} decodes of {family} through `cofill generate`");
        assert!(n > 0);
    }
}

#[test]
fn conformance_official_decoders() {
    let goldens = goldens().join("models");
    // LLaDA's generate with guidance, and Dream's with both of its filters.
    let wanted = ["llada_low_confidence_g16_s8_b16_cfg0.5", "dream_maskgit_plus_g16_s6_top_k8_top_p0.9"];
    for ((family, mask), name) in FAMILIES.into_iter().zip(wanted) {
        let folder = goldens.join(format!("{family}_tiny")).display().to_string();
        let all = read(goldens.join(format!("{family}_trajectories.json")));
        let golden = all.iter().find(|golden| golden["name"] == name).expect(name);
        let canvas = tokens(&golden["canvas"][0], mask);
        let options: &[&str] = match family {
            "llada" => &["-s", "llada:8", "--block", "16", "--cfg", "0.5"],
            _ => &["-s", "dream:6@maskgit_plus", "--top-k", "8", "--top-p", "0.9"],
        };
        let ran = run_with(&[&["generate", "-m", &folder, "--tokens", &canvas, "--json"], options].concat(), "");
        let answer = ran.is_fine().json();
        assert_eq!((&answer["tokens"], &answer["nfe"]), (&golden["final"][0], &golden["nfe"]), "{name}");
        println!("conformance: {name} through `cofill generate`");
    }
}

#[test]
fn conformance_probe() {
    let goldens = goldens().join("models");
    for (family, mask) in FAMILIES {
        let folder = goldens.join(format!("{family}_tiny_sharded_bf16")).display().to_string();
        let golden =
            read(goldens.join(format!("{family}_adas.json"))).into_iter().find(|g| g["params"]["alpha"] == 40.0);
        let golden = golden.expect("an ADAS trajectory");
        let canvas = tokens(&golden["canvas"][0], mask);
        let ran = run_with(&["probe", "-m", &folder, "--tokens", &canvas, "--json", "--logits"], "");
        let answer = ran.is_fine().json();
        // The first step of a decode saw the same canvas.
        let first = &golden["steps"][0][0];
        for (i, position) in first["selected"].as_array().unwrap().iter().enumerate() {
            let row = answer["rows"].as_array().unwrap().iter().find(|row| row["position"] == *position).unwrap();
            let near = |field: &str, tolerance: f64| {
                let (got, want) = (row[field].as_f64().unwrap(), first[field][i].as_f64().unwrap());
                assert!((got - want).abs() < tolerance, "{family} {position}: {field} {got}, {want}");
            };
            assert_eq!(row["token"], first["tokens"][i]);
            near("confidence", 5e-5);
            near("entropy", 2e-4);
        }
        let n = answer["rows"].as_array().unwrap().len();
        assert_eq!((answer["attention"].as_array().unwrap().len(), &answer["layer"]), (n, &Value::from(2)));
        assert_eq!(answer["logits"][0].as_array().unwrap().len(), 160);
        println!("conformance: {family} through `cofill probe`: {n} rows");
    }
}

#[test]
fn conformance_text() {
    let goldens = goldens().join("models");
    let llada = goldens.join("llada_tiny").display().to_string();
    let run = |args: &[&str]| run_with(&[&["generate", "-m", &llada], args].concat(), "");
    // Text in, the same tokens as ids; fixed text of a template stays.
    let text = run(&["w1 w2 w3", "-n", "4", "--json"]).is_fine().timeless();
    assert_eq!(text, run(&["--prompt-tokens", "1,2,3", "-n", "4", "--json"]).is_fine().timeless());
    let filled = run(&["--template", "w1 [MASK:2] w9 [MASK:1] w4"]);
    let words: Vec<&str> = filled.is_fine().stdout.split_whitespace().collect();
    assert_eq!((words.len(), words[0], words[3], words[5]), (6, "w1", "w9", "w4"), "{filled}");
    run(&["--template", "w1 w2"]).is_refused(&["no gap", "[MASK:4]"]);
    run(&["--template", "w1 [MASK:0]"]).is_refused(&["[MASK:0", "1 to 65535"]);
    run(&["w1", "-n", "256"]).is_refused(&["257 positions", "holds 256"]);
    run(&["--tokens", "1,M,160"]).is_refused(&["token 160 at position 2", "0 to 159"]);
    run(&["w1", "--cfg", "-1"]).is_refused(&["guidance must be a finite number, 0 or more", "-1"]);
    run(&["w1", "-s", "topk:1+ad@layer=7"]).is_refused(&["layer 7", "layers 0 to 2"]);
    let dream = goldens.join("dream_tiny").display().to_string();
    run_with(&["generate", "-m", &dream, "-n", "4"], "").is_refused(&["position 0 is masked"]);
    println!("conformance: text, templates and refusals of both families");
}

#[test]
fn texts_chat() {
    let Some(llada) = cofill_goldens::texts("goldens/models/llada_tiny") else { return };
    let ran = run_with(&["generate", "-m", &llada.display().to_string(), "w1 w2", "--chat", "-n", "2"], "");
    assert!(ran.is_fine().stdout.contains("w1 w2"), "{ran}");
    println!("texts: LLaDA's chat template through `cofill generate`");
}
