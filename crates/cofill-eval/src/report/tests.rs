use super::*;
use crate::points::tests::point;
use crate::points::{ADAS, BASE, Point};

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
    assert_eq!(comparison.cell("tiny", "sums", "eb"), Some(20.0));
    assert_eq!(comparison.cell("tiny", "sums", "topk"), Some(-6.0));
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
    let klass = report.aup.iter().find(|area| area.rule == "klass").unwrap();
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
fn the_page_needs_nothing_else() {
    let page = file("report.html");
    assert_eq!(page.matches("<svg ").count(), 2);
    assert_eq!(page.matches("</svg>").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<script") && !page.contains("href="), "all is inside");
    assert!(page.contains("<td class=\"w\">EB-Sampler 3 +AD</td>"));
}

#[test]
fn the_figure_has_the_papers_arrangement() {
    // Rows: EB, Top-k, and both discounted against the rival.
    let figures = figures::figures(&report());
    let names: Vec<&str> = figures.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names, ["tradeoff-tiny", "gains"]);
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

#[test]
fn ablations_are_tabled_and_short_runs_are_named() {
    let with = |sampler, score, n| Point { n: Some(n), ..point(sampler, score, 4.0) };
    let points = vec![
        with(("topk", "4", BASE), 10.0, 50),
        with(("topk", "4", ADAS), 20.0, 50),
        with(("topk", "4", "ad:20"), 30.0, 49),
        with(("topk", "8", BASE), 20.0, 50),
        with(("topk", "8", ADAS), 40.0, 50),
        with(("topk", "8", "ad:20"), 60.0, 50),
    ];
    let report = Report::new(Points::new(points).unwrap(), Bootstrap { resamples: 50, seed: 1 });
    assert_eq!(report.comparisons.len(), 2);
    assert_eq!(report.warnings.len(), 1);
    assert!(report.warnings[0].contains("50 questions, but Top-k 4 +ad:20 49;"), "{:?}", report.warnings);
    let text = markdown::markdown(&document::document(&report));
    // Means of 10 and 20, 20 and 40, 30 and 60.
    let row = "| Average |      | 2 settings with all | 15.00 | 30.00 | 45.00 |";
    assert!(text.lines().any(|line| line == row), "{text}");
}
