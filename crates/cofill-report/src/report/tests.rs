use super::*;
use crate::points::Outcome;
use crate::points::tests::{ADAS, BASE, named, point};

/// Two rules on one task of 16 positions, and a rival.
fn report() -> Report {
    let points = vec![
        point(("eb", "1", BASE), 60.0, 8.0),
        point(("eb", "3", BASE), 20.0, 4.0),
        point(("eb", "1", ADAS), 60.0, 8.0),
        point(("eb", "3", ADAS), 30.0, 2.0),
        point(("topk", "4", BASE), 50.0, 4.0),
        point(("topk", "4", ADAS), 44.0, 4.0),
        point(("topk", "8", BASE), 10.0, 2.0),
        point(("klass", "0.7,1", BASE), 35.0, 3.0),
    ];
    Report::new(Points::new(points).unwrap(), Bootstrap { resamples: 200, seed: 1 })
}

fn file(name: &str) -> String {
    let files = report().files().unwrap();
    let file = files.into_iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(file.bytes).unwrap()
}

#[test]
fn gains_are_grouped_and_averaged() {
    // EB+AD at 4 forwards is a third of the way from 30 to 60: 40 − 20 = +20. Top-k+AD at 4 is 44 − 50 = −6, and at 2 it has no point.
    let report = report();
    let [comparison] = &report.comparisons[..] else { panic!("{:?}", report.comparisons) };
    assert_eq!(comparison.cell("tiny", "sums", &Rule::read("eb")), Some(20.0));
    assert_eq!(comparison.cell("tiny", "sums", &Rule::read("topk")), Some(-6.0));
    assert_eq!((comparison.all.points, comparison.all.wins, comparison.all.losses), (2, 1, 1));
    assert_eq!(comparison.all.mean.unwrap().value, 7.0);
    assert_eq!(comparison.mean_of_cells(|_| true), Some(7.0));
    let names: Vec<&str> = comparison.by_rule.iter().map(|summary| summary.name.as_str()).collect();
    assert_eq!(names, ["EB-Sampler", "Top-k"]);
    assert_eq!(comparison.matched.dropped.len(), 1);
}

#[test]
fn areas_and_fronts_are_those_of_all_samplers() {
    let report = report();
    let klass = report.aup.iter().find(|area| area.rule == Rule::read("klass")).unwrap();
    // One point of 16/3 tokens per forward at 35: nothing but the first rectangle.
    assert!((klass.aup - 16.0 / 3.0 * 35.0).abs() < 1e-9);
    let samplers: Vec<&str> = report.pareto[0].points.iter().map(|point| point.sampler.as_str()).collect();
    assert_eq!(samplers, ["EB-Sampler 3 +AD", "KLASS 0.7,1", "Top-k 4", "EB-Sampler 1", "EB-Sampler 1 +AD"]);
}

#[test]
fn a_report_is_the_same_every_time() {
    assert_eq!(report().files().unwrap(), report().files().unwrap());
}

#[test]
fn every_form_tells_the_same() {
    let markdown = file("report.md");
    for line in [
        "| Task               | EB-Sampler | Top-k | Avg. over methods |",
        "| sums               |     +20.00 | -6.00 |             +7.00 |",
        "![tradeoff-tiny](figures/tradeoff-tiny.svg)",
    ] {
        assert!(markdown.lines().any(|other| other == line), "no `{line}` in\n{markdown}");
    }
    assert!(
        markdown.contains("1 of 3 base points of the low-NFE regime lie outside the range of the +AD curve"),
        "{markdown}"
    );
    let tex = file("report.tex");
    assert!(tex.contains("Dataset & EB & Top-$k$ & Avg. over methods \\\\"), "{tex}");
    assert!(tex.contains("$\\gamma$ & EB & EB + AD \\\\"), "{tex}");
    assert!(tex.contains("sums & +20.00 & -6.00 & +7.00 \\\\"), "{tex}");
    assert!(tex.contains("3 & \\rescell{20.00}{4.00} & \\rescell{30.00}{2.00} \\\\"), "{tex}");
    assert_eq!(tex.matches("\\begin{table").count(), tex.matches("\\end{table").count());
    let gains = file("gains.csv");
    assert_eq!(gains.lines().nth(1), Some("tiny,sums,eb,3,adas,4,4,20,40,20"));
    let json: serde_json::Value = serde_json::from_str(&file("report.json")).unwrap();
    assert_eq!(
        (&json["cofill_report"], &json["comparisons"][0]["all"]["mean"]["value"]),
        (&VERSION.into(), &7.0.into())
    );
    assert_eq!(json["points"].as_array().unwrap().len(), 8);
}

#[test]
fn what_needs_no_file_is_what_files_hold() {
    let report = report();
    assert_eq!(report.html().unwrap(), file("report.html"));
    assert!(report.html().unwrap().contains("<svg"));
    let without_figures: Vec<String> =
        file("report.md").lines().filter(|line| !line.starts_with(['!', '*'])).map(String::from).collect();
    let said: Vec<String> = report.markdown().lines().filter(|line| !line.starts_with('*')).map(String::from).collect();
    let words = |lines: &[String]| lines.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>();
    assert_eq!(words(&said), words(&without_figures));
    let fragment = report.fragment().unwrap();
    assert_eq!((fragment.matches('<').count(), fragment.starts_with("<iframe ")), (2, true));
    assert!(fragment.contains("&lt;svg"), "figures are in it");
}

#[test]
fn the_page_needs_nothing_else() {
    let page = file("report.html");
    assert_eq!(page.matches("<svg ").count(), 1);
    assert_eq!(page.matches("</svg>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("<script"), "all is inside");
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#s-").count(), "links stay on the page");
    assert!(page.contains("<td class=\"w\">EB-Sampler 3 +AD</td>"));
}

#[test]
fn the_figure_has_the_papers_arrangement() {
    // Rows: EB, Top-k, and both discounted against the rival.
    let figures = figures::figures(&report());
    let names: Vec<&str> = figures.iter().map(|named| named.name.as_str()).collect();
    // Two gains are no figure, which the report says.
    assert_eq!(names, ["tradeoff-tiny"]);
    let said = "Not drawn, because a figure of fewer than 3 points says less than the tables: gains (2 points).";
    assert!(report().markdown().contains(said), "{}", report().markdown());
    let labels = |row: &plot::Row| -> Vec<String> {
        let marks = row.panels.iter().flat_map(|panel| &panel.marks);
        marks
            .filter_map(|mark| if let plot::Mark::Dots { label, .. } = mark { Some(label.clone()) } else { None })
            .collect()
    };
    let rows: Vec<Vec<String>> = figures[0].figure.rows.iter().map(labels).collect();
    assert_eq!(rows[0], ["EB-Sampler", "EB-Sampler +AD"]);
    assert_eq!(rows[1], ["Top-k", "Top-k +AD"]);
    assert_eq!(rows[2], ["EB-Sampler +AD", "Top-k +AD", "KLASS"]);
}

/// Label and look of every series of a figure.
fn series(figure: &plot::Figure) -> Vec<(String, plot::Look)> {
    let marks = figure.rows.iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.marks);
    let series = marks.filter_map(|mark| match mark {
        plot::Mark::Dots { label, look, .. } => Some((label.clone(), *look)),
        _ => None,
    });
    series.collect()
}

/// Every rule that is no rule of the paper, on two tasks of two models, and the three rules with two discounts.
fn crowd() -> Report {
    let rules: Vec<String> = cofill::Registry::stock().entries().iter().map(|entry| entry.name.clone()).collect();
    let mut points = Vec::new();
    for (model, task) in [("a", "chain"), ("a", "sums"), ("b", "chain"), ("b", "sums")] {
        let mut add = |rule: &str, param: &str, variant: &str, nfe: f64| {
            let point = point((rule, param, variant), 4.0 * nfe, nfe);
            points.push(OperatingPoint { model: model.into(), task: task.into(), ..point });
        };
        for (param, nfe) in [("4", 4.0), ("8", if task == "sums" { 2.0 } else { 1.0 })] {
            rules.iter().for_each(|rule| add(rule, param, BASE, nfe));
            for rule in ["eb", "fast", "topk"] {
                add(rule, param, ADAS, nfe);
                add(rule, param, "paths:100", nfe);
            }
        }
    }
    reported(points)
}

#[test]
fn a_sampler_looks_the_same_in_all_panels_and_figures() {
    let figures = figures::figures(&crowd());
    let all: Vec<(String, plot::Look)> = figures.iter().flat_map(|named| series(&named.figure)).collect();
    for (label, look) in &all {
        assert!(all.iter().all(|(other, its)| other != label || its == look), "{label}");
    }
    // Also in a report that has hardly anybody else.
    let few = reported(vec![
        point(("klass", "0.7,1", BASE), 35.0, 3.0),
        point(("topk", "4", BASE), 50.0, 4.0),
        point(("topk", "4", ADAS), 44.0, 4.0),
    ]);
    for (label, look) in series(&figures::figures(&few)[0].figure) {
        assert!(all.contains(&(label.clone(), look)), "{label}");
    }
}

#[test]
fn nobody_in_a_row_looks_like_another_in_black_and_white() {
    for named in figures::figures(&crowd()) {
        for row in &named.figure.rows {
            let row = plot::Figure { rows: vec![row.clone()], ..named.figure.clone() };
            let series = series(&row);
            for (i, (label, look)) in series.iter().enumerate() {
                for (other, its) in &series[..i] {
                    assert!(other == label || its.without_colour() != look.without_colour(), "{label} and {other}");
                }
            }
        }
        // Nobody is lost: three rules with two variants, and everybody else once.
        let mut labels: Vec<String> = series(&named.figure).into_iter().map(|(label, _)| label).collect();
        labels.sort();
        labels.dedup();
        if named.name.starts_with("tradeoff") {
            assert_eq!(labels.len(), cofill::Registry::stock().entries().len() + 3);
        }
    }
}

#[test]
fn panels_of_a_figure_share_their_axes_and_explain_their_line() {
    let figures = figures::figures(&crowd());
    let figure = &figures[0].figure;
    let panels: Vec<&plot::Panel> = figure.rows.iter().flat_map(|row| &row.panels).collect();
    assert!(panels.iter().all(|panel| panel.x == panels[0].x && panel.y == panels[0].y));
    let svg = figure.svg(plot::Width::Screen);
    assert_eq!(svg.matches("4 tokens per forward: right of it is the paper").count(), 1);
    assert!(figures.iter().all(|named| named.caption.contains("4 tokens per forward")));
    assert!(svg.len() < 300_000, "{}", svg.len());
}

#[test]
fn gains_are_drawn_once() {
    // All gains are in boxes, none beside them.
    let figures = figures::figures(&crowd());
    let gains = figures.iter().find(|named| named.name == "gains").unwrap();
    assert_eq!(series(&gains.figure), Vec::new());
    let n = crowd().comparisons[0].matched.gains.len();
    assert_eq!(gains.figure.values(), 3 * n);
}

#[test]
fn figures_can_be_one_panel_for_a_paper() {
    let report = report();
    let options = |panel: &str| FigureOptions { width: Width::Column, panel: Some(panel.into()) };
    let files = report.files_with(&options("sums/klass")).unwrap();
    let svg = files.iter().find(|file| file.name == "figures/tradeoff-tiny.svg").unwrap();
    let svg = String::from_utf8(svg.bytes.clone()).unwrap();
    assert!(
        svg.contains("width=\"316.8\"") && svg.contains(">KLASS</text>") && !svg.contains(">Top-k</text>"),
        "{svg}"
    );
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).filter(|name| name.starts_with("fig")).collect();
    assert_eq!(names, ["figures/tradeoff-tiny.svg", "figures/tradeoff-tiny.png", "figures/tradeoff-tiny.pdf"]);
    // The page is for screens.
    let page = files.iter().find(|file| file.name == "report.html").unwrap();
    assert!(!String::from_utf8_lossy(&page.bytes).contains("width=\"316.8\""));
    let error = report.files_with(&options("riddles")).unwrap_err();
    assert_eq!(error.to_string(), "no panel is called `riddles`; tradeoff-tiny has sums");
}

fn reported(points: Vec<OperatingPoint>) -> Report {
    Report::new(Points::new(points).unwrap(), Bootstrap { resamples: 50, seed: 1 })
}

/// All three ablations on the same task, as `experiments/mini.toml` has them.
fn ablated() -> Report {
    let of = |(param, variant): (&str, &str), score| point(("topk", param, variant), score, 4.0);
    reported(vec![
        of(("4", "ad:5"), 30.0),
        of(("4", "ad:10"), 50.0),
        of(("4", BASE), 10.0),
        of(("4", ADAS), 20.0),
        of(("8", "ad:10"), 30.0),
        of(("8", "ad:5"), 50.0),
        of(("8", BASE), 20.0),
        of(("8", ADAS), 40.0),
        of(("8", "ad:40@weight=mask"), 35.0),
        of(("8", "ad:40@layer=middle"), 25.0),
        of(("8", "ad:40@layer=first"), 45.0),
        of(("16", BASE), 1.0),
        of(("16", ADAS), 2.0),
    ])
}

#[test]
fn every_ablation_has_a_table_in_the_papers_layout() {
    let report = ablated();
    let text = report.markdown();
    // Strengths by their size; means of 10 and 20, 30 and 50, 50 and 30, 20 and 40. A setting with one discount is none.
    let strengths = "\
| Setting                 | α = 0 | α = 5 | α = 10 | α = 40 |
| ----------------------- | ----: | ----: | -----: | -----: |
| Top-k 4                 | 10.00 | 30.00 |  50.00 |  20.00 |
| Top-k 8                 | 20.00 | 50.00 |  30.00 |  40.00 |
| Average over 2 settings | 15.00 | 40.00 |  40.00 |  30.00 |
";
    let weights = "\
| Uncertainty weighting term            | Top-k 8 |
| ------------------------------------- | ------: |
| Selected token's uncertainty, 1 − c_s |   40.00 |
| Mean uncertainty of masks, 1 − c_mask |   35.00 |
";
    let layers = "\
| Selection rule          | Top-k 8 |
| ----------------------- | ------: |
| Confidence, no discount |   20.00 |
| First-layer attention   |   45.00 |
| Middle-layer attention  |   25.00 |
| Final-layer attention   |   40.00 |
";
    for table in [strengths, weights, layers] {
        assert!(text.contains(table), "no\n{table}in\n{text}");
    }
    let tex = report.document().latex.to_string();
    for line in [
        "Setting & $\\alpha=0$ & $\\alpha=5$ & $\\alpha=10$ & $\\alpha=40$ \\\\",
        "Top-$k$, $k=4$ & 10.00 & 30.00 & 50.00 & 20.00 \\\\",
        "Average over 2 settings & 15.00 & \\textbf{40.00} & \\textbf{40.00} & 30.00 \\\\",
        "Selected-token uncertainty $1-c_s$ & \\textbf{40.00} \\\\",
        "First-layer attention & \\textbf{45.00} \\\\",
    ] {
        assert!(tex.lines().any(|other| other == line), "no `{line}` in\n{tex}");
    }
}

#[test]
fn two_weights_are_an_ablation_without_a_base() {
    // As `experiments/uncertainty.toml`; here at a strength that is not the paper's, and on two tasks.
    let of =
        |task: &str, variant, score| OperatingPoint { task: task.into(), ..point(("topk", "8", variant), score, 4.0) };
    let points = [
        ("a_1", "ad:10", 1.0),
        ("a_1", "ad:10@weight=mask", 2.0),
        ("b", "ad:10", 3.0),
        ("b", "ad:10@weight=mask", 4.0),
    ];
    let report = reported(points.map(|(task, variant, score)| of(task, variant, score)).into());
    let [ablation] = &report.ablations[..] else { panic!("{:?}", report.ablations) };
    assert_eq!((ablation.kind, named(&ablation.values)), (ablation::Kind::Weight, vec!["self".into(), "mask".into()]));
    assert_eq!(ablation.average(), Some((2, vec![2.0, 3.0])));
    assert_eq!(ablation.place(), "tiny on a_1, b");
    let text = report.markdown();
    assert!(text.contains("| a_1, Top-k 8 ad:10 | b, Top-k 8 ad:10 | Average over 2 settings |"), "{text}");
    let tex = report.document().latex.to_string();
    assert!(
        tex.contains(" & a\\_1, Top-$k$, $k=8$ ad:10 & b, Top-$k$, $k=8$ ad:10 & Average over 2 settings "),
        "{tex}"
    );
}

#[test]
fn the_papers_tables_and_figures_show_its_discount_only() {
    let tex = ablated().document().latex.to_string();
    let count = |words: &str| tex.matches(words).count();
    assert_eq!((count("\\label{tab:matched-nfe-gains"), count("\\label{tab:robustness-by-")), (1, 2), "{tex}");
    assert_eq!(count("absolute gains of +AD in"), 1, "{tex}");
    assert!(tex.contains("\n$k$ & Top-$k$ & Top-$k$ + AD \\\\\n"), "{tex}");
    let tradeoff = &figures::figures(&ablated())[0].figure;
    let marks = &tradeoff.rows[0].panels[0].marks;
    assert_eq!(marks.iter().filter(|mark| matches!(mark, plot::Mark::Dots { .. })).count(), 2);
}

#[test]
fn gains_of_uneven_runs_are_named() {
    let with = |param, variant, nfe, n| OperatingPoint { n: Some(n), ..point(("topk", param, variant), 10.0, nfe) };
    // One position after the other is outside the regime, so nothing is compared with its 500 questions.
    let mut points = vec![
        with("1", BASE, 16.0, 500),
        with("4", BASE, 4.0, 50),
        with("8", BASE, 2.0, 50),
        with("4", ADAS, 4.0, 50),
        with("8", ADAS, 2.0, 50),
    ];
    assert_eq!(reported(points.clone()).warnings, Vec::<String>::new());
    points[3].n = Some(49);
    let said = "tiny on sums: gains compare different numbers of questions: Top-k 4 (50) with Top-k 4 +AD (49)";
    assert_eq!(reported(points).warnings, [said]);
}

#[test]
fn too_few_questions_show_no_p_in_any_form() {
    // Two of 40 are right only with the discount: +5 points, exact p = 2 / 4, and nothing to resample.
    let answered = |variant, right: usize| {
        let outcome = |i: usize| Outcome { prompt: i.to_string(), score: f64::from(u8::from(i < right)), nfe: 4 };
        OperatingPoint {
            outcomes: (0..40).map(outcome).collect(),
            ..point(("topk", "4", variant), right as f64 / 0.4, 4.0)
        }
    };
    let report = reported(vec![answered(BASE, 10), answered(ADAS, 12)]);
    let document = report.document().blocks;
    let text = markdown::markdown(&document);
    let cells = |line: &str| line.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    let want = "|tiny|sums|Top-k 4|4.00|40|+5.00|2|-|-|0 / 2|4.00|0.500|0.500|";
    assert!(text.lines().any(|line| cells(line) == cells(want)), "{text}");
    let why = "only where at least 6 questions differ between the base point and the nearest +AD point";
    assert!(text.contains(why) && html::page(&document, &[]).contains(why), "{text}");
    let html_row = "<td>+5.00</td><td>2</td><td>-</td><td>-</td>";
    assert!(html::page(&document, &[]).contains(html_row), "{}", html::page(&document, &[]));
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let test = &json["comparisons"][0]["paired"][0];
    assert!(test["p_bootstrap"].is_null() && test["interval"].is_null() && test["differing"] == 2, "{test}");
}

#[test]
fn a_bar_does_not_end_a_field() {
    let bar = OperatingPoint { task: "a|b".into(), ..point(("topk", "4", BASE), 10.0, 4.0) };
    let text = reported(vec![bar]).markdown();
    assert!(text.contains("| tiny  | a\\|b | Top-k 4 |"), "{text}");
}

/// Base points at four forwards and discounted ones with these gains, a task each.
fn gaining(gains: &[f64]) -> Report {
    let points = gains.iter().enumerate().flat_map(|(i, gain)| {
        let of = |variant, score| OperatingPoint { task: format!("t{i}"), ..point(("topk", "4", variant), score, 4.0) };
        [of(BASE, 50.0), of(ADAS, 50.0 + gain)]
    });
    reported(points.collect())
}

#[test]
fn the_summary_says_how_sure_it_is() {
    // Two settings are too few; four that cancel show nothing; four equal ones have no spread.
    for (gains, words) in [
        (&[20.0, -6.0][..], "+7.00 points on average over 2 settings"),
        (&[20.0, -6.0], "too few settings for the interval to mean much). 1 better, 1 worse."),
        (&[9.0, -9.0, 8.0, -8.0], "+0.00 points on average over 4 settings"),
        (&[9.0, -9.0, 8.0, -8.0], "not significant: the interval holds 0). 2 better, 2 worse."),
        (&[5.0; 4], "[+5.00, +5.00] over settings; the whole interval lies above 0). 4 better, 0 worse."),
        (&[-5.0; 4], "the whole interval lies below 0: a loss). 0 better, 4 worse."),
        (&[0.0, 3.0, 3.0, 3.0], "3 better, 0 worse, 1 equal."),
        (&[1.0, 2.0, 7.0], "It does the most on t2 (+7.00 over 1 setting) and the least on t0 (+1.00 over 1 setting)."),
    ] {
        let said = gaining(gains).markdown();
        assert!(said.contains(words), "no `{words}` in\n{said}");
    }
    let single = reported(vec![point(("klass", "0.7,1", BASE), 35.0, 3.0)]).markdown();
    assert!(single.contains("No sampler was run both with and without a discount"), "{single}");
}

#[test]
fn the_summary_names_a_task_once_however_it_was_run() {
    let of =
        |task: &str, variant, score| OperatingPoint { task: task.into(), ..point(("topk", "4", variant), score, 4.0) };
    let points = [
        of("a (seed 1)", BASE, 10.0),
        of("a (seed 1)", ADAS, 20.0),
        of("a (seed 2)", BASE, 10.0),
        of("b (seed 1)", BASE, 10.0),
        of("b (seed 1)", ADAS, 11.0),
    ];
    let said = reported(points.into()).markdown();
    assert!(said.contains("1 model (tiny) and 2 tasks, run in 3 ways (a, b): 5 operating points"), "{said}");
    assert!(said.contains("the most on a (+10.00 over 1 setting) and the least on b (+1.00 over 1 setting)"), "{said}");
}

#[test]
fn the_summary_counts_what_paired_tests_say() {
    // Top-k 4 is right on the first 10 of 60 questions, its discount on `right`: every question between them is right only once.
    let answered = |variant, right: usize| {
        let outcome = |i: usize| Outcome { prompt: i.to_string(), score: f64::from(u8::from(i < right)), nfe: 4 };
        let outcomes = (0..60).map(outcome).collect();
        OperatingPoint { outcomes, ..point(("topk", "4", variant), right as f64 / 0.6, 4.0) }
    };
    let said = |right| reported(vec![answered(BASE, 10), answered(ADAS, right)]).markdown();
    // Two of two: p = 1/2. Twenty of twenty: p = 2^-19. Eight of eight the other way: p = 2^-7.
    assert!(
        said(12).contains("(1 paired test, p < 0.05 after Holm's correction): none is significant."),
        "{}",
        said(12)
    );
    let words = "1 significantly better, 0 significantly worse, 0 not significant.";
    assert!(said(30).contains(words), "{}", said(30));
    assert!(said(2).contains("0 significantly better, 1 significantly worse"), "{}", said(2));
}

#[test]
fn the_summary_names_who_is_best_within_a_budget() {
    // Without a discount 20 % within 4 forwards and 80 % within 8; with it 60 % and 80 %.
    let of = |param, variant, nfe: usize, right: usize| {
        let outcome = |i: usize| Outcome { prompt: i.to_string(), score: f64::from(u8::from(i / 2 < right)), nfe };
        let outcomes = (0..20).map(outcome).collect();
        OperatingPoint { outcomes, ..point(("topk", param, variant), 10.0 * right as f64, nfe as f64) }
    };
    let report = reported(vec![of("4", BASE, 4, 2), of("2", BASE, 8, 8), of("4", ADAS, 4, 6), of("2", ADAS, 8, 8)]);
    let text = report.markdown();
    let cells = |line: &str| line.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    for row in ["|4 forwards|Top-k +AD|Top-k|60.0|20.0|", "|8 forwards|Top-k, Top-k +AD|Top-k|80.0|80.0|"] {
        assert!(text.lines().any(|line| cells(line) == cells(row)), "no {row} in\n{text}");
    }
    let best = text.find("Who is best within a budget").unwrap();
    assert!(best < text.find("## Matched-NFE gains").unwrap() && !text.contains("2.5 forwards"), "{text}");
}

#[test]
fn every_figure_and_table_has_a_caption() {
    fn check(blocks: &[crate::document::Block], figures: &mut Vec<String>) {
        use crate::document::Block;
        for block in blocks {
            match block {
                Block::Table(table) => assert!(table.caption.as_ref().is_some_and(|c| c.len() > 30), "{table:?}"),
                Block::Figure { name, caption } => {
                    assert!(caption.len() > 60, "{name}: {caption}");
                    figures.push(name.clone());
                }
                Block::Fold { blocks, .. } => check(blocks, figures),
                _ => {}
            }
        }
    }
    for report in [report(), ablated()] {
        let document = report.document();
        let mut placed = Vec::new();
        check(&document.blocks, &mut placed);
        let mut drawn: Vec<String> = document.figures.iter().map(|figure| figure.name.clone()).collect();
        // Each figure has one place.
        placed.sort();
        drawn.sort();
        assert_eq!(placed, drawn);
    }
}

#[test]
fn where_it_comes_from_is_the_end_of_every_form() {
    let made = provenance::Made {
        version: "1.2.3".into(),
        commit: "abc".into(),
        command: "cofill report <b>\n".into(),
        date: "2026-11-18 16:40 UTC".into(),
    };
    let report = report().from_where(Provenance { files: 3, ..Provenance::default() }.made(made));
    let text = report.markdown();
    let end = &text[text.find("## Where this comes from").unwrap()..];
    for fact in ["2026-11-18 16:40 UTC", "cofill 1.2.3, commit abc", "3 files", "200 resamples, seed 1"] {
        assert!(end.contains(fact), "no {fact} in {end}");
    }
    assert!(report.html().unwrap().contains("<dd>cofill report &lt;b&gt;"));
    // A line break in a command does not end the comment.
    let tex = report.document().latex.to_string();
    assert!(tex.lines().any(|line| line.starts_with("% 2026-11-18") && line.contains("cofill report <b> ;")), "{tex}");
}
