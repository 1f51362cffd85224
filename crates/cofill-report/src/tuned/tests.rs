use super::*;
use crate::document::markdown;
use crate::statistics::bootstrap::Interval;
use crate::statistics::difference::Test;
use serde_json::json;

fn measured(prompts: usize, score: f64, forwards: f64) -> Measured {
    Measured { prompts, score, forwards, tokens_per_forward: 48.0 / forwards, seconds: forwards / 100.0 }
}

fn confirmed(sampler: &str, score: f64, forwards: f64) -> Confirmed {
    let interval = Estimate { value: score, interval: Interval { low: score - 5.0, high: score + 4.0 } };
    Confirmed {
        sampler: sampler.into(),
        measured: measured(300, score, forwards),
        interval,
        over_budget: forwards > 12.0,
    }
}

fn candidate(sampler: &str, rungs: &[(usize, f64, f64)], out: Option<Out>) -> Candidate {
    let rungs = rungs.iter().map(|&(n, score, forwards)| measured(n, score, forwards)).collect();
    Candidate { sampler: sampler.into(), rungs, out }
}

/// A search in which `fast:1` beats `topk:4+ad:40`.
fn found() -> Tuned {
    let interval = Some(Interval { low: 7.1, high: 18.94 });
    let difference =
        Difference { n: 300, gain: 13.0, interval, better: 50, worse: 11, p: 0.000_31, test: Test::McnemarExact };
    let confirmation = Confirmation {
        best: confirmed("fast:1", 84.0, 11.6),
        default: confirmed("topk:4+ad:40", 71.0, 12.0),
        difference: Some(difference),
    };
    Tuned {
        cofill_tune: VERSION,
        model: "tiny-llada".into(),
        task: "code".into(),
        budget: Budget::Forwards(12.0),
        protocol: Protocol { rungs: vec![16, 32], slack: vec![0.25, 0.0], ..Protocol::new(32, 300) },
        prompts: Prompts { choose: "32 prompts".into(), confirm: "300 prompts".into() },
        candidates: vec![
            candidate("topk:4+ad:40", &[(16, 50.0, 12.0)], Some(Out::Outscored)),
            candidate("slow", &[(7, 100.0, 40.0)], Some(Out::OverBudget)),
            candidate("fast:2", &[(16, 75.0, 8.0), (32, 78.1, 8.0)], Some(Out::Outscored)),
            candidate("fast:1", &[(16, 81.2, 11.5), (32, 87.5, 11.5)], None),
        ],
        left_out: vec![LeftOut { sampler: "demask:0.3,0".into(), why: "no head".into() }],
        best: Some("fast:1".into()),
        default: Reference { sampler: "topk:4+ad:40".into(), role: Role::DefaultWithinBudget },
        confirmation: Some(confirmation),
        verdict: Verdict::Better,
        cut_short: false,
        spent: Spent::default(),
        command: "cofill generate -m tiny-llada -s fast:1".into(),
        made_by: json!({"machine": {"cpu": "a test"}}),
    }
}

#[test]
fn the_answer_is_one_line_of_confirmed_numbers() {
    assert_eq!(
        found().answer(),
        "best at <= 12 forwards on code: fast:1 84.0 % [79, 88] at 11.6 forwards; the default within the budget topk:4+ad:40 71.0 %; \
         +13.0 [+7.1, +18.9] points, p = 0.0003 (300 prompts)"
    );
    let mut nothing = found();
    nothing.verdict = Verdict::NotBetter;
    let difference = nothing.confirmation.as_mut().unwrap().difference.as_mut().unwrap();
    (difference.gain, difference.p, difference.interval) = (1.3, 0.31, None);
    assert_eq!(
        nothing.answer(),
        "nothing is significantly better than the default within the budget topk:4+ad:40 at <= 12 forwards on code: 71.0 % [66, 75] at 12.0 \
         forwards; best found fast:1 84.0 %; +1.3 points, p = 0.31 (300 prompts)"
    );
}

#[test]
fn whoever_is_over_the_budget_is_said_to_be() {
    let mut over = found();
    over.default.role = Role::GivenOverBudget;
    over.confirmation.as_mut().unwrap().best = confirmed("fast:1", 84.0, 12.2);
    over.confirmation.as_mut().unwrap().default = confirmed("topk:4+ad:40", 71.0, 24.0);
    let answer = over.answer();
    assert!(answer.contains("fast:1 84.0 % [79, 88] at 12.2 forwards, over the budget on these prompts"), "{answer}");
    assert!(answer.contains("; topk:4+ad:40 71.0 % at 24.0 forwards, over the budget; "), "{answer}");
}

#[test]
fn other_ends_are_lines_too() {
    let mut same = found();
    let confirmation = same.confirmation.as_mut().unwrap();
    (confirmation.difference, same.verdict) = (None, Verdict::DefaultIsBest);
    same.default.role = Role::Default;
    assert_eq!(
        same.answer(),
        "the default is the best found at <= 12 forwards on code: fast:1 84.0 % [79, 88] at 11.6 forwards (300 prompts)"
    );
    let nobody = Tuned { confirmation: None, best: None, verdict: Verdict::NobodyFits, ..found() };
    assert_eq!(nobody.answer(), "nothing fits at <= 12 forwards on code; fast:2 takes the least, 8.0 forwards");
    let late = Tuned { confirmation: None, verdict: Verdict::Unconfirmed, ..found() };
    assert!(late.answer().contains("the time was up") && late.answer().ends_with("fast:1"), "{}", late.answer());
}

#[test]
fn the_table_has_who_came_furthest_first() {
    let table = found().table(usize::MAX);
    assert_eq!(table.head, ["Sampler", "Forwards", "Tokens/fwd", "n=16", "n=32", ""]);
    let rows: Vec<String> = table.rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        rows,
        [
            "fast:1 11.50 4.17 81.2 87.5 best",
            "fast:2 8.00 6.00 75.0 78.1 ",
            "topk:4+ad:40 12.00 4.00 50.0  default",
            "slow 40.00 1.20 100.0*  over budget",
        ]
    );
    // The default is in the shortest table, too.
    assert_eq!(found().table(1).rows.len(), 2);
}

#[test]
fn the_document_says_how_and_draws_it() {
    let document = found().document();
    let text = markdown::markdown(&document.blocks);
    for part in [
        "best at <= 12 forwards",
        "Use it: `cofill generate",
        "4 candidates answered the first 16, 32",
        "McNemar's exact test",
        "demask:0.3,0 (no head)",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let drawn = document.draw().unwrap();
    assert_eq!((drawn.len(), drawn[0].name.as_str()), (1, "tune"));
    assert!(drawn[0].drawn.svg.contains("fast:1, best, 300 other prompts"));
    // Two points are no figure.
    let few = Tuned { candidates: found().candidates[..2].to_vec(), ..found() };
    assert_eq!(few.figure(), None);
    // Seconds name the machine, and are medians.
    let timed = Tuned { budget: Budget::Seconds(0.1), ..found() };
    assert!(markdown::markdown(&timed.document().blocks).contains("measured on a test"));
    assert!(timed.table(9).rows[0][1].contains("115.0 ms"), "{:?}", timed.table(9).rows[0]);
}

#[test]
fn json_has_every_field() {
    let json = found().json().unwrap();
    assert_eq!((&json["cofill_tune"], &json["budget"]), (&json!(1), &json!({"forwards": 12.0})));
    assert_eq!((&json["verdict"], &json["default"]["role"]), (&json!("better"), &json!("default_within_budget")));
    assert_eq!(json["answer"].as_str(), Some(found().answer().as_str()));
    let best = &json["confirmation"]["best"];
    assert_eq!((&best["score"], &best["prompts"], &best["over_budget"]), (&json!(84.0), &json!(300), &json!(false)));
    assert_eq!(json["confirmation"]["difference"]["test"], json!("mcnemar_exact"));
    assert_eq!(json["candidates"][1]["out"], json!("over_budget"));
}
