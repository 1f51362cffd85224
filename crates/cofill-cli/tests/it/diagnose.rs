use crate::run::{Ran, run, run_with, scratch};
use std::path::{Path, PathBuf};

/// A folder of this test's own that is not there yet.
fn fresh(name: &str) -> PathBuf {
    let folder = scratch(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_intervention_leaves_raw_lines_tables_and_figures() {
    let folder = fresh("intervention");
    let line = "diagnose intervention --task chain,sudoku -m tiny-llada -m tiny-dream --limit 3 --resamples 200";
    let ran = run(&format!("{line} --out {}", folder.display()));
    for word in ["| chain  | tiny-llada |", "| sudoku | tiny-dream |", "ρ̄_s(A, K)", "Gain", "states rank nothing"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
    let raw = lines(&folder.join("intervention.jsonl"));
    assert_eq!(raw[0]["cofill_diagnose"], 1);
    assert_eq!((&raw[0]["what"]["k"], &raw[0]["what"]["layer"]), (&8.into(), &"last".into()));
    assert!(raw[0]["what"]["models"]["tiny-dream"].is_string() && raw[0]["made_by"]["commit"].is_string());
    // Three prompts, two models; a chain of 38 positions is five steps, all probed, a grid of 20 three.
    assert_eq!(raw.len(), 1 + 3 * 2 * (5 + 3));
    for state in &raw[1..] {
        let c = state["revealed"]["confidence"].as_f64().unwrap();
        for pair in state["pairs"].as_array().unwrap() {
            let number = |name: &str| pair[name].as_f64().unwrap();
            assert!(number("confidence") <= c && number("kl") >= 0.0, "{state}");
            let u = number("attention") * state["revealed"]["uncertainty"].as_f64().unwrap();
            assert!(
                (number("gated") - u).abs() < 1e-15 && (number("score") - number("confidence") + 40.0 * u).abs() < 1e-9
            );
        }
    }
    for file in [
        "intervention.md",
        "intervention.tex",
        "intervention-scatter.svg",
        "intervention-scatter.png",
        "intervention-scatter.pdf",
    ] {
        assert!(std::fs::metadata(folder.join(file)).unwrap().len() > 500, "{file}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("intervention.md")).unwrap(), ran.stdout);
    // The page: words, the first table, the figure, other tables behind folds, and where it comes from.
    let page = std::fs::read_to_string(folder.join("intervention.html")).unwrap();
    let order = [
        "<h1>Does attention tell",
        "ρ̄_s(A, K) from ",
        "<table>",
        "<svg",
        "<details>",
        "<h2>Where this comes from</h2>",
    ];
    let places = order.map(|what| page.find(what).unwrap_or_else(|| panic!("no {what}")));
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(page.matches("<figure").count(), page.matches("<figcaption>").count());
    let sha256 = raw[0]["what"]["models"]["tiny-dream"].as_str().unwrap();
    for said in [sha256, raw[0]["made_by"]["commit"].as_str().unwrap(), "<dt>seed</dt><dd>0</dd>", " UTC</dd>"] {
        assert!(page.contains(said), "{said}");
    }
    // What is there is not overwritten, and the same question has the same answer.
    run(&format!("{line} --out {}", folder.display())).is_refused(&["--out", "intervention.jsonl", "exists"]);
    let json = run(&format!("{line} --json")).is_fine().json();
    assert_eq!(json, run(&format!("{line} --json")).json());
    assert_eq!(json["settings"].as_array().unwrap().len(), 4);
    assert_eq!((&json["settings"][0]["states"], &json["settings"][0]["examples"]), (&15.into(), &3.into()));
}

#[test]
fn every_head_has_its_number() {
    let json =
        run("diagnose intervention --task chain --limit 2 --resamples 10 --heads --scope all --json").is_fine().json();
    let by_head = &json["heads"][0];
    let config = run("models inspect tiny-llada --json").is_fine().json();
    let _ = config;
    let layers = by_head["heads"].as_array().unwrap();
    assert!(!layers.is_empty() && layers.iter().all(|heads| heads.as_array().unwrap().len() > 1), "{by_head}");
    assert_eq!(by_head["means"].as_array().unwrap().len(), layers.len());
    // The mean of the last layer's heads is what is measured without --heads.
    let (mean, all) =
        (by_head["means"].as_array().unwrap().last().unwrap(), &json["settings"][0]["state_attention"]["value"]);
    assert!((mean.as_f64().unwrap() - all.as_f64().unwrap()).abs() < 0.02, "{mean} {all}");
    let text = run("diagnose intervention --task chain --limit 2 --resamples 10 --heads");
    assert!(text.is_fine().stdout.contains("the best signal is head"), "{text}");
}

#[test]
fn prompts_of_ones_own() {
    let file = scratch("own-prompts.jsonl");
    std::fs::write(&file, "{\"prompt\":\"Gus has 10 books\"}\n\n{\"prompt\":\"<b>&\"}\n").unwrap();
    let line = format!("diagnose intervention --prompts {} -n 16 --resamples 10", file.display());
    let json = run(&format!("{line} --json")).is_fine().json();
    assert_eq!((&json["settings"][0]["task"], &json["settings"][0]["states"]), (&"own-prompts".into(), &4.into()));
    std::fs::write(&file, "{\"prompt\":\"a\"}\n{\"text\":\"b\"}\n").unwrap();
    run(&line).is_refused(&["--prompts", "line 2", "prompt"]);
    std::fs::write(&file, "\n").unwrap();
    run(&line).is_refused(&["--prompts has no lines"]);
    run("diagnose intervention --prompts /nowhere.jsonl -n 16").is_refused(&["--prompts", "/nowhere.jsonl"]);
    run("diagnose intervention --prompts /nowhere.jsonl").is_refused(&["--length"]);
}

#[test]
fn deferral_is_per_model_and_overall() {
    let folder = fresh("deferral");
    let line = "diagnose deferral --task chain,code -m tiny-llada -m tiny-dream --limit 4 --resamples 50";
    let ran = run(&format!("{line} --out {}", folder.display()));
    for word in ["| tiny-llada |", "| Overall", "K: d − r", "deferred / replacement"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
    let json = run(&format!("{line} --json")).is_fine().json();
    let models = json["models"].as_array().unwrap();
    let count = |i: usize| models[i]["divergences"].as_u64().unwrap();
    assert_eq!((models.len(), count(0) + count(1)), (3, count(2)));
    let found = lines(&folder.join("deferral.jsonl")).iter().filter(|line| line["divergence"].is_object()).count();
    assert_eq!(found as u64, count(2));
    assert!(std::fs::read_to_string(folder.join("deferral.tex")).unwrap().contains("\\textbf{Overall}"));
    assert!(folder.join("deferral-boxes.png").exists());
}

#[test]
fn predicates_compare_what_depends_with_what_does_not() {
    let folder = fresh("predicates");
    let line = "diagnose predicates -m tiny-llada -m tiny-dream --limit 10 --resamples 100 --heads";
    let ran = run(&format!("{line} --out {}", folder.display()));
    for word in ["independent pairs", "Non-Dep. Attn.", "| tiny-dream |", "the best signal is head"] {
        assert!(ran.is_fine().stdout.contains(word), "`{word}`: {ran}");
    }
    let raw = lines(&folder.join("predicates.jsonl"));
    // Two models, ten texts of each kind; ten masks are 45 pairs.
    assert_eq!(raw.iter().filter(|line| line["filled"].is_object()).count(), 2 * 20);
    assert_eq!(raw.iter().filter(|line| line["between"].is_object()).count(), 2 * 10 * 45);
    assert!(folder.join("predicates-boxes.svg").exists());
    let json = run("diagnose predicates --limit 3 --predicates 2 --ratio 0.75 --resamples 10 --json").is_fine().json();
    let pairs = |name: &str| json["models"][0][name].as_u64().unwrap();
    assert_eq!(pairs("dependent_pairs") + pairs("independent_pairs"), 3 * 15);
}

#[test]
fn wrong_requests_are_refused() {
    let intervention = |more: &str| run(&format!("diagnose intervention --limit 1 {more}"));
    intervention("--task nothing").is_refused(&["nothing", "chain"]);
    intervention("--task gsm8k").is_refused(&["gsm8k needs its data files", "--data"]);
    intervention("--task chain --layer 99").is_refused(&["99"]);
    intervention("--task chain --layer top").is_refused(&["--layer", "first, middle, last"]);
    intervention("--task chain --k 1").is_refused(&["'1'", "--k", "2 or more"]);
    intervention("--task chain --steps 40").is_refused(&["--steps", "40", "5 steps"]);
    intervention("--task chain --alpha nan").is_refused(&["--alpha", "0 or more"]);
    intervention("--task chain --alpha -1").is_refused(&["--alpha", "-1"]);
    intervention("--task chain -m toy").is_refused(&["toy", "no checkpoint"]);
    intervention("--task chain -m nowhere").is_refused(&["unknown model `nowhere`"]);
    intervention("--task chain -n 9000").is_refused(&["8192"]);
    intervention("--task chain --out /proc/nowhere").is_refused(&["--out", "/proc/nowhere"]);
    intervention("--task chain --resamples 0").is_refused(&["--resamples"]);
    run("diagnose predicates --ratio 0").is_refused(&["--ratio", "above 0"]);
    run("diagnose predicates --ratio 1.5").is_refused(&["--ratio", "1.5"]);
    run("diagnose predicates --predicates 1 --ratio 0.2").is_refused(&["--ratio 0.2", "masks 1"]);
    run("diagnose deferral --limit 0").is_refused(&["--limit"]);
}

fn explain(more: &[&str]) -> Ran {
    run_with(&[&["explain"], more].concat(), "")
}

#[test]
fn an_explanation_says_who_waited_for_whom() {
    let ran = explain(&["-m", "toy", "-n", "6", "-s", "topk:2+ad"]);
    let story = [
        "step 1  masked 4 -> 2\n    0  [Alan] _ visited [San] _ again\n",
        "  deferred 1 `Kelly` (c 0.474): attends",
        "after 0 `Alan`: `Turing`",
        "committed in step 2 as `Turing`",
        "  instead  3 `San`",
        "deferred 1 time in 1 step.",
        "Alan Turing visited San Diego again",
        "Alan Kelly visited San City again",
    ];
    for line in story {
        assert!(ran.is_fine().stdout.contains(line), "`{line}`: {ran}");
    }
    let json = explain(&["-m", "toy", "-n", "6", "-s", "topk:2+ad", "--json"]).is_fine().json();
    let deferred = &json["steps"][1]["deferred"][0];
    assert_eq!((&deferred["position"], &deferred["reason"]["position"]), (&1.into(), &0.into()));
    assert_eq!((&json["sampler"], &json["plain"]), (&"topk:2+ad:40".into(), &"topk:2".into()));
    let none = explain(&["-m", "toy", "-n", "6", "-s", "topk:1+ad"]);
    assert!(none.is_fine().stdout.contains("nobody was deferred"), "{none}");
}

#[test]
fn a_page_is_one_file_in_which_nothing_is_markup() {
    let page = scratch("explained.html");
    let prompt = "</pre><script>alert('1')</script> & \"q\"";
    let path = page.display().to_string();
    explain(&[prompt, "-n", "12", "-s", "topk:4+ad", "--html", &path, "--force"]).is_fine();
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    // Its own script, and no other; which one may run is said by its checksum.
    assert!(html.matches("<script").count() == 1 && html.contains("&lt;script&gt;"), "{html}");
    assert!(html.contains("default-src 'none'") && html.contains("script-src 'sha256-"), "{html}");
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    // Every element that is opened is closed.
    for tag in ["html", "body", "section", "pre", "span", "div", "ul", "li", "b", "code", "figure", "h2"] {
        let (open, close) = (
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count(),
            html.matches(&format!("</{tag}>")).count(),
        );
        assert_eq!(open, close, "{tag}");
    }
    explain(&["x", "-n", "4", "--html", "/nowhere/page.html"]).is_refused(&["--html", "/nowhere/page.html"]);
}

#[test]
fn what_changed_nothing_is_shown_only_with_all() {
    let question = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";
    let some = explain(&[question, "-s", "topk:8+ad"]);
    assert!(some.is_fine().stdout.contains(" changed nothing and are not shown; --all shows them"), "{some}");
    let all = explain(&[question, "-s", "topk:8+ad", "--all"]);
    let deferred = |ran: &Ran| ran.stdout.matches("\n  deferred ").count();
    assert!(deferred(all.is_fine()) > deferred(&some) && !all.stdout.contains("not shown"), "{all}");
    // Lines of the answer are lines of the canvas, behind the number of their first position.
    assert!(all.stdout.lines().any(|line| line.trim_start().ends_with("20+1=21")), "{all}");
    assert!(!all.stdout.contains("20⏎20"), "{all}");
}

#[test]
fn a_question_is_judged_both_ways() {
    let ran = explain(&["Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?"]);
    assert!(ran.is_fine().stdout.matches("chain: ").count() == 2, "{ran}");
    for (sampler, word) in [("topk:8", "+ad"), ("llada:4+ad", "earlier steps"), ("klass", "+ad")] {
        explain(&["-m", "toy", "-n", "6", "-s", sampler]).is_refused(&["the sampler", word]);
    }
}
