use crate::run::{goldens, run, scratch};
use serde_json::{Value, json};

fn summary<'a>(comparison: &'a Value, by: &str, name: &str) -> &'a Value {
    let found = comparison[by].as_array().unwrap().iter().find(|summary| summary["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {by}"))
}

/// Points, mean gain to two digits, wins and losses.
fn told(summary: &Value) -> (u64, String, u64, u64) {
    let number = |field: &str| summary[field].as_u64().unwrap();
    let mean = format!("{:+.2}", summary["mean"]["value"].as_f64().unwrap());
    (number("points"), mean, number("wins"), number("losses"))
}

#[test]
fn conformance_the_papers_statistics_from_its_own_points() {
    // The appendix tables, transcribed.
    let points = goldens().join("paper/points.csv").display().to_string();
    let report = run(&format!("report --points {points} --json")).is_fine().json();
    let comparison = &report["comparisons"][0];
    assert_eq!((report["comparisons"].as_array().unwrap().len(), &comparison["variant"]), (1, &json!("adas")));
    let rule = |name: &str| told(summary(comparison, "by_rule", name));
    assert_eq!(rule("EB-Sampler"), (28, "+10.42".into(), 24, 4));
    assert_eq!(rule("Top-k"), (24, "+11.13".into(), 22, 2));
    // The paper has 38 points, +7.24, 34 / 4: its tables leave out points at f = 20 on which its own analysis could draw.
    assert_eq!(rule("Fast-dLLM"), (36, "+7.21".into(), 32, 4));
    let dropped = comparison["dropped"].as_array().unwrap();
    assert!(dropped.len() == 6 && dropped.iter().all(|point| point["rule"] == "fast"), "{dropped:?}");
    let task = |name: &str| told(summary(comparison, "by_task", name));
    // +10.3245, which the paper prints as +10.33.
    assert_eq!(task("HumanEval"), (22, "+10.32".into(), 21, 1));
    assert_eq!(task("MBPP"), (25, "+12.24".into(), 24, 1));
    let all = &comparison["all"];
    assert_eq!((told(all).0, told(all).1.as_str()), (88, "+9.30"));
    // Within a tenth of [+7.78, +10.88].
    let interval = &all["mean"]["interval"];
    let (low, high) = (interval["low"].as_f64().unwrap(), interval["high"].as_f64().unwrap());
    assert!((low - 7.78).abs() <= 0.1 && (high - 10.88).abs() <= 0.1, "{interval}");
    // Table "matched-NFE gains" as LLaDA / Dream, but for the cells that need the missing points.
    let cells = [
        ("GSM8K", "eb", "+9.22", "+14.31"),
        ("HumanEval", "eb", "+10.45", "+15.63"),
        ("MATH500", "eb", "+6.49", "+4.84"),
        ("MBPP", "eb", "+10.37", "+15.01"),
        ("GSM8K", "topk", "+11.90", "+5.88"),
        ("HumanEval", "topk", "+9.55", "+10.77"),
        ("MATH500", "topk", "+10.73", "+6.93"),
        ("MBPP", "topk", "+13.67", "+19.60"),
        ("HumanEval", "fast", "+6.90", "+12.03"),
        ("MBPP", "fast", "+7.39", "+12.04"),
        ("MATH500", "fast", "+5.70", ""),
        ("GSM8K", "fast", "", "+6.36"),
    ];
    let found = comparison["cells"].as_array().unwrap();
    let mut n = 0;
    for (task, rule, llada, dream) in cells {
        for (model, gain) in [("LLaDA", llada), ("Dream", dream)].into_iter().filter(|(_, gain)| !gain.is_empty()) {
            let here = |cell: &&Value| cell["model"] == model && cell["task"] == task && cell["rule"] == rule;
            let cell = found.iter().find(here).unwrap_or_else(|| panic!("no {model} {task} {rule}"));
            assert_eq!(format!("{:+.2}", cell["gain"].as_f64().unwrap()), gain, "{model} {task} {rule}");
            n += 1;
        }
    }
    // And as they are printed.
    let text = run(&format!("report --points {points}")).is_fine().stdout.clone();
    for words in [
        "as LLaDA / Dream",
        "+9.22 / +14.31",
        "6 of 94 base points",
        "LLaDA GSM8K Fast-dLLM 12 (NFE 8.96; the curve goes from 15.12",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    println!(
        "conformance: {n} cells, 3 rules, 2 tasks and the total of the paper's matched-NFE gains; interval [{low:+.2}, {high:+.2}]"
    );
}

/// A small table; returns its name.
fn table(name: &str, rows: &str) -> String {
    let path = scratch(&format!("report-{name}.csv"));
    std::fs::write(&path, format!("model,rule,param,task,variant,score,nfe,length\n{rows}")).unwrap();
    path.display().to_string()
}

const ROWS: &str = "m,topk,4,riddles,base,40,4,16\nm,topk,8,riddles,base,10,2,16\nm,topk,4,riddles,adas,50,4,16\nm,topk,8,riddles,adas,30,2,16\n";

#[test]
fn tables_are_aligned_on_stdout() {
    // +10 at 4 forwards and +20 at 2.
    let ran = run(&format!("report --points {}", table("aligned", ROWS)));
    let lines: Vec<&str> = ran.is_fine().stdout.lines().collect();
    assert!(lines.contains(&"| riddles            | +15.00 |            +15.00 |"), "{ran}");
    assert!(
        lines.contains(
            &"| m     | riddles | Top-k 8 +AD |   - | 30.00 |    - | 2.00 |           8.00 |               - |"
        ),
        "{ran}"
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn the_seed_decides_the_interval() {
    let points = table("seeds", ROWS);
    let json = |more: &str| run(&format!("report --points {points} --json {more}")).is_fine().json();
    assert_eq!(json("--seed 3"), json("--seed 3"));
    let interval = |json: &Value| json["comparisons"][0]["all"]["mean"]["interval"].clone();
    assert_eq!(json("--resamples 1")["bootstrap"], json!({"resamples": 1, "seed": 0}));
    // One resample of two gains is one of 10, 15 and 20, and both ends are it.
    let one = interval(&json("--resamples 1"));
    assert_eq!(one["low"], one["high"]);
    assert!([10.0, 15.0, 20.0].contains(&one["low"].as_f64().unwrap()), "{one}");
}

#[test]
fn figures_are_made_for_a_paper() {
    let out = scratch("report-paper");
    std::fs::remove_dir_all(&out).ok();
    let points = table("paper", ROWS);
    let to = format!("report --points {points} --out {}", out.display());
    run(&format!("{to} --width column --panel m/riddles")).is_fine();
    let svg = std::fs::read_to_string(out.join("figures/tradeoff-m.svg")).unwrap();
    assert!(svg.contains("width=\"316.8\""), "3.3 inches of 96 pixels: {svg}");
    run(&format!("{to} --force --panel ridles")).is_refused(&["--panel", "`ridles`", "tradeoff-m has riddles"]);
    run(&format!("{to} --force --width wide")).is_refused(&["--width", "column (3.3 inches) or page (6.9 inches)"]);
    // Figures are files, so there is none without a folder.
    run(&format!("report --points {points} --width page")).is_refused(&["--out"]);
}

#[test]
fn a_folder_gets_every_form() {
    let out = scratch("report-out");
    std::fs::remove_dir_all(&out).ok();
    let points = table("folder", ROWS);
    let ran = run(&format!("report --points {points} --out {}", out.display()));
    assert_eq!(ran.is_fine().stdout, format!("{}\n", out.join("report.html").display()));
    let read = |name: &str| std::fs::read(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = |name: &str| String::from_utf8(read(name)).unwrap();
    assert!(text("report.md").contains("![tradeoff-m](figures/tradeoff-m.svg)"));
    assert!(text("report.tex").contains("\\rescell{30.00}{2.00}"));
    assert_eq!(text("gains.csv").lines().count(), 3);
    assert_eq!(serde_json::from_str::<Value>(&text("report.json")).unwrap()["cofill_report"], 2);
    assert!(text("figures/tradeoff-m.svg").contains("riddles"));
    assert_eq!(&read("figures/tradeoff-m.png")[..4], b"\x89PNG");
    assert_eq!(&read("figures/tradeoff-m.pdf")[..5], b"%PDF-");
    // Two gains are no figure.
    assert!(
        !out.join("figures/gains.png").exists()
            && text("report.md").contains("says less than the tables: gains (2 points)")
    );
    assert!(text("report.html").matches("<svg").count() == 1);
    // What was written can be read again, to the same report but for where it was read.
    let again = run(&format!("report --points {}/points.csv", out.display()));
    assert_eq!(again.is_fine().stdout, run(&format!("report --points {points}")).stdout);
    // And a folder that is a file is told.
    run(&format!("report --points {points} --out {points}")).is_refused(&["--out", "cannot write", "give a place"]);
}

/// Where something stands in a page; that it does is part of the claim.
fn at(page: &str, what: &str) -> usize {
    page.find(what).unwrap_or_else(|| panic!("no {what}"))
}

#[test]
fn a_page_begins_with_words_and_ends_with_where_it_comes_from() {
    let out = scratch("report-page");
    std::fs::remove_dir_all(&out).ok();
    let points = table("page", ROWS);
    run(&format!("report --points {points} --out {}", out.display())).is_fine();
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let order = [
        "<h1>Samplers compared</h1>",
        "2 samplers on 1 model (m) and 1 task (riddles): 4 operating points",
        "+15.00 points on average over 2 settings",
        "<svg",
        "<h2>Matched-NFE gains of +AD</h2>",
        "<table>",
        "<details>",
        "<h2>Operating points</h2>",
        "<h2>Where this comes from</h2>",
        "<dt>Command</dt><dd>cofill report --points ",
    ];
    assert!(order.map(|what| at(&page, what)).is_sorted(), "{:?}", order.map(|what| at(&page, what)));
    for fact in
        ["<dt>Program</dt><dd>cofill ", ", commit ", " UTC</dd>", "<dt>SHA-256 of these</dt>", "resamples, seed 0"]
    {
        at(&page, fact);
    }
    assert_eq!(page.matches("<figure").count(), page.matches("<figcaption>").count());
    for link in page.split("href=\"#").skip(1) {
        at(&page, &format!("id=\"{}\"", link.split('"').next().unwrap()));
    }
    // The same order in Markdown, and a comment in LaTeX.
    let text = std::fs::read_to_string(out.join("report.md")).unwrap();
    let order =
        ["# Samplers compared", "+15.00 points", "![tradeoff-m]", "## Matched-NFE gains", "## Where this comes from"];
    assert!(order.map(|what| at(&text, what)).is_sorted());
    assert!(std::fs::read_to_string(out.join("report.tex")).unwrap().contains("): cofill report --points "));
}

#[test]
fn results_say_by_whom_and_with_which_weights_they_were_made() {
    let (file, out) = (scratch("report-made.jsonl"), scratch("report-made"));
    std::fs::remove_dir_all(&out).ok();
    run(&format!("eval --task sums -m tiny-llada -s topk:4 --limit 2 --force --out {}", file.display())).is_fine();
    run(&format!("report {} --out {}", file.display(), out.display())).is_fine();
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let results = std::fs::read_to_string(&file).unwrap();
    let header: Value = serde_json::from_str(results.lines().next().unwrap()).unwrap();
    for said in [&header["what"]["model_sha256"], &header["made_by"]["commit"], &header["made_by"]["version"]] {
        at(&page, &format!(">{}</td>", said.as_str().unwrap()));
    }
    at(&page, &format!("corpus_seed {}", header["what"]["corpus_seed"]));
    at(&page, "No sampler was run both with and without a discount");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(json["provenance"]["files"], 1);
    assert_eq!(json["provenance"]["made"]["version"], header["made_by"]["version"]);
}

#[test]
fn figures_of_an_earlier_report_go_and_files_of_others_stay() {
    let out = scratch("report-used");
    std::fs::remove_dir_all(&out).ok();
    let (old, new) = (table("old", &ROWS.replace("m,", "old,")), table("new", ROWS));
    run(&format!("report --points {old} --out {}", out.display())).is_fine();
    std::fs::write(out.join("figures/tradeoff-mine.svg"), "mine").unwrap();
    // Without --force nothing is touched.
    run(&format!("report --points {new} --out {}", out.display())).is_refused(&["--out", "exists"]);
    assert!(out.join("figures/tradeoff-old.svg").exists());
    run(&format!("report --points {new} --out {} --force", out.display())).is_fine();
    let has = |name: &str| out.join("figures").join(name).exists();
    assert_eq!(["tradeoff-m.svg", "tradeoff-m.pdf", "tradeoff-mine.svg"].map(has), [true; 3]);
    assert_eq!(["tradeoff-old.svg", "tradeoff-old.png", "tradeoff-old.pdf"].map(has), [false; 3]);
}

#[test]
fn names_in_results_are_no_markup() {
    let out = scratch("report-hostile");
    std::fs::remove_dir_all(&out).ok();
    let rows =
        ROWS.replace("m,", "</style><script>alert(1)</script>,").replace("riddles", "<img src=x onerror=alert(1)>");
    let points = table("hostile", &rows);
    run(&format!("report --points {points} --out {}", out.display())).is_fine();
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("<script") && !page.contains("<img") && page.contains("default-src 'none'"), "{page}");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
}

#[test]
fn what_report_writes_report_reads() {
    // Two samplers that are nearly called the same, ablations, a stranger, and a name that needs quotes.
    let rows = "\"a \"\"b\"\", c\",fast,3,riddles,base,40,4,16\n\"a \"\"b\"\", c\",fast-dllm,3,riddles,base,10,2,16\n\
                m,klass,\"0.7,1\",riddles,base,40,4,16\nm,peaks@wide,-,riddles,ad:20@layer=first,50,4,16\nm,WINO,high,riddles,base,30,2,16\n";
    let (points, out) = (table("again", rows), scratch("report-again"));
    std::fs::remove_dir_all(&out).ok();
    run(&format!("report --points {points} --out {}", out.display())).is_fine();
    let json = |points: &str| {
        let mut report = run(&format!("report --points {points} --json")).is_fine().json();
        report["points"].as_array_mut().unwrap().iter_mut().for_each(|point| point["source"] = json!(""));
        report
    };
    let (first, second) = (json(&points), json(&format!("{}/points.csv", out.display())));
    assert_eq!(first, second);
    let rules: Vec<&Value> = first["points"].as_array().unwrap().iter().map(|point| &point["rule"]).collect();
    assert_eq!(rules, ["fast", "fast-dllm", "klass", "peaks@wide", "WINO"]);
}

#[test]
fn results_are_points_and_are_tested_in_pairs() {
    let dir = scratch("report-results");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&dir).unwrap();
    for sampler in ["topk:4", "topk:4+ad", "klass:0.7,1"] {
        let out = dir.join(format!("{}.jsonl", sampler.replace(':', "-")));
        run(&format!("eval --task predicates -m tiny-llada -s {sampler} --limit 8 --out {}", out.display())).is_fine();
    }
    let report = run(&format!("report {} --json", dir.display())).is_fine().json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        assert_eq!(
            (&point["model"], &point["task"], &point["n"]),
            (&json!("tiny-llada"), &json!("predicates"), &json!(8))
        );
        assert!(point["useful_per_second"].as_f64().unwrap() > 0.0, "{point}");
    }
    let test = &report["comparisons"][0]["paired"][0];
    let score = |at: usize| points[at]["score"].as_f64().unwrap();
    assert_eq!((&test["n"], &test["rule"], &test["param"]), (&json!(8), &json!("topk"), &json!("4")));
    assert!((test["gain"].as_f64().unwrap() - (score(1) - score(0))).abs() < 1e-9, "{test}");
    let exact = &test["mcnemar"];
    assert!(exact["p"].as_f64().unwrap() <= 1.0);
    // Top-k takes as many forwards with the discount as without: questions that differ are those of the exact test. Of eight, too few for more.
    let differing = exact["only_base"].as_u64().unwrap() + exact["only_discounted"].as_u64().unwrap();
    assert_eq!(test["differing"], differing);
    assert_eq!((test["p_bootstrap"].is_null(), test["interval"].is_null()), (differing < 6, differing < 6), "{test}");
    let text = run(&format!("report {}", dir.display()));
    assert!(text.is_fine().stdout.contains("## +AD, question by question"), "{text}");
    assert!(text.stdout.contains("at least 6 questions differ"), "{text}");
}

#[test]
fn bad_requests_are_refused_with_the_remedy() {
    run("report").is_refused(&["PATH"]);
    run("report /nowhere").is_refused(&["/nowhere"]);
    run("report --points /nowhere.csv").is_refused(&["/nowhere.csv", "cannot read"]);
    let points = |name: &str, rows: &str| run(&format!("report --points {}", table(name, rows)));
    let bad = points("bad", "m,topk,4,riddles,base,140,4,16\n");
    bad.is_refused(&["report-bad.csv", "line 2", "score is `140`", "100 or less"]);
    let twice = points("twice", "m,topk,4,riddles,base,40,4,16\nm,topk,4.0,riddles,base,41,4,16\n");
    twice.is_refused(&["m with Top-k 4 on riddles", "line 2", "line 3", "leave one of them out"]);
    points("none", "").is_refused(&["no operating point"]);
    let empty = scratch("report-empty");
    std::fs::create_dir_all(&empty).unwrap();
    run(&format!("report {}", empty.display())).is_refused(&["holds no results", "cofill eval --out"]);
    run(&format!("report --points {} --resamples 0", table("zero", ROWS))).is_refused(&["--resamples"]);
}
