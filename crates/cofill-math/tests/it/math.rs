use cofill_math::{Sympy, is_equiv};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Pairs with sympy's verdict that were thought up: by hand, and by tools/math_fixture.py.
fn own_pairs() -> Vec<Pair> {
    let by_hand = cofill_goldens::folder(env!("CARGO_TARGET_TMPDIR")).join("lmeval/scoring/math_is_equiv.jsonl");
    let generated = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/math_pairs.jsonl");
    let mut own = pairs(&rows(&by_hand), "pred_normalized", "gold_normalized", "is_equiv");
    own.extend(pairs(&rows(&generated), "given", "gold", "is_equiv"));
    own
}

/// Rows of a golden file with answers of MATH, or `None` with a word about it.
fn golden(name: &str) -> Option<Vec<Value>> {
    cofill_goldens::texts(&format!("goldens/lmeval/scoring/{name}")).map(|path| rows(&path))
}

struct Pair {
    given: String,
    gold: String,
    equal: bool,
}

fn pairs(rows: &[Value], given: &str, gold: &str, verdict: &str) -> Vec<Pair> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_else(|| panic!("{key} in {row}")).to_owned();
    let equal = |row: &Value| row[verdict].as_bool().or(row[verdict].as_i64().map(|n| n == 1)).unwrap();
    rows.iter().map(|row| Pair { given: text(row, given), gold: text(row, gold), equal: equal(row) }).collect()
}

/// How many pairs a judge gets right; those it does not are printed.
fn agreement(judge: impl Fn(&str, &str) -> bool, pairs: &[Pair]) -> usize {
    let wrong = pairs.iter().filter(|pair| {
        let wrong = judge(&pair.given, &pair.gold) != pair.equal;
        if wrong {
            println!("  differs: `{}` and `{}`, golden says {}", pair.given, pair.gold, pair.equal);
        }
        wrong
    });
    pairs.len() - wrong.count()
}

#[test]
fn conformance_the_native_judge_agrees_with_sympy() {
    let pairs = own_pairs();
    let agreed = agreement(is_equiv, &pairs);
    println!("conformance: {agreed} of {} pairs of our own, natively", pairs.len());
    assert_eq!((agreed, pairs.len()), (626, 626));
}

#[test]
fn texts_the_native_judge_agrees_with_sympy() {
    let Some(rows) = golden("math_is_equiv.jsonl") else { return };
    let pairs = pairs(&rows, "pred_normalized", "gold_normalized", "is_equiv");
    let agreed = agreement(is_equiv, &pairs);
    println!("texts: {agreed} of {} pairs of math_is_equiv.jsonl, natively", pairs.len());
    assert_eq!((agreed, pairs.len()), (713, 713));
}

#[test]
fn texts_the_native_judge_scores_like_the_harness() {
    let Some(rows) = golden("minerva_math500.jsonl") else { return };
    let pairs = pairs(&rows, "pred_normalized", "gold_normalized", "is_equiv");
    let agreed = agreement(is_equiv, &pairs);
    println!("texts: {agreed} of {} answers of minerva_math500.jsonl, natively", pairs.len());
    assert_eq!(agreed, pairs.len());
}

#[test]
fn texts_echoing_every_gold_answer_scores_472_of_500() {
    let Some(rows) = golden("math500_gold_selfcheck.jsonl") else { return };
    let echoed = "pred_normalized_when_gold_echoed";
    let pairs = pairs(&rows, echoed, "gold_normalized", "exact_match_when_gold_echoed");
    let agreed = agreement(is_equiv, &pairs);
    let passed = pairs.iter().filter(|pair| is_equiv(&pair.given, &pair.gold)).count();
    println!("texts: {passed} of {} gold answers pass, {agreed} as in the golden file", pairs.len());
    assert_eq!((passed, agreed), (472, 500));
}

/// A Python that has sympy, from the environment.
fn sympy() -> Option<Sympy> {
    let Some(python) = std::env::var_os("COFILL_SYMPY_PYTHON") else {
        println!("SKIPPED: COFILL_SYMPY_PYTHON is not set, so the sympy judge was not run");
        return None;
    };
    Some(Sympy::start(&PathBuf::from(python)).unwrap())
}

#[test]
fn texts_the_sympy_judge_agrees_on_every_pair() {
    let (Some(rows), Some(judge)) = (golden("math_is_equiv.jsonl"), sympy()) else { return };
    let pairs = pairs(&rows, "pred_normalized", "gold_normalized", "is_equiv");
    let agreed = agreement(|given, gold| judge.is_equiv(given, gold).unwrap(), &pairs);
    println!("texts: {agreed} of {} pairs of math_is_equiv.jsonl by {}", pairs.len(), judge.versions());
    assert_eq!(agreed, pairs.len());
}

#[test]
fn texts_the_sympy_judge_survives_what_it_cannot_finish() {
    let Some(judge) = sympy() else { return };
    assert!(judge.versions().starts_with("sympy "), "{}", judge.versions());
    assert!(!judge.is_equiv("9^{9^{9^9}}+1", "2").unwrap());
    assert!(!judge.is_equiv("\n\"{", "{").unwrap());
    assert!(judge.is_equiv(r"\frac{1}{2}", "0.5").unwrap());
}

/// Formulas that are read whole: numbers, variables, operators, fractions, roots and powers. No decimals, whose sums round, and
/// no variable right before a parenthesis, which would be a function.
fn formula() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0u32..1000).prop_map(|n| n.to_string()),
        prop::sample::select(vec!["x", "y", r"\pi ", "a_1", "n"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("({a}+{b})")),
            two.clone().prop_map(|(a, b)| format!("({a}-{b})")),
            two.clone().prop_map(|(a, b)| format!(r"({a}\cdot {b})")),
            two.prop_map(|(a, b)| format!(r"\frac{{{a}}}{{{b}}}")),
            inner.clone().prop_map(|a| format!(r"\sqrt{{{a}}}")),
            (inner.clone(), 0u32..4).prop_map(|(a, n)| format!("({a})^{{{n}}}")),
            inner.prop_map(|a| format!("|{a}|")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_breaks_the_judge(given in ".{0,40}", gold in r"[-0-9a-fxd+*/^_{}()\[\]|!,.:=<>' \\]{0,40}") {
        is_equiv(&given, &gold);
        is_equiv(&gold, &gold);
    }

    #[test]
    fn no_latex_breaks_the_judge(parts in prop::collection::vec(prop::sample::select(vec![
        r"\frac", r"\sqrt", r"\sin", r"\log_", r"\int", r"\sum_{i=1}^", r"\lim_{x\to", r"\binom", r"\left", r"\right|", "{", "}", "(",
        ")", "[", "]", "^", "_", "1", "2", "x", "dx", "+", "-", "|", "!", ",", ".", "0.5", r"\infty", r"\pi", "=", "<",
    ]), 0..14)) {
        let text = parts.concat();
        is_equiv(&text, &text);
        is_equiv(&text, "1");
    }

    #[test]
    fn a_formula_equals_itself(a in formula()) {
        prop_assert!(is_equiv(&a, &a), "{}", a);
    }

    #[test]
    fn sums_and_products_commute(a in formula(), b in formula()) {
        // What has no value (a division by zero inside) is equal to itself only.
        prop_assume!(is_equiv(&format!("({a}+{b})+1"), &format!("1+({a}+{b})")));
        prop_assert!(is_equiv(&format!("{a}+{b}"), &format!("{b}+{a}")), "{} + {}", a, b);
        prop_assert!(is_equiv(&format!(r"({a})\cdot({b})"), &format!(r"({b})\cdot({a})")), "{} * {}", a, b);
    }

    #[test]
    fn a_sum_with_one_more_differs(a in formula()) {
        prop_assert!(!is_equiv(&format!("{a}+1"), &a), "{}", a);
    }
}
