use crate::support::{busy, characters, vocabulary};
use cofill::{Constraint, Proposal};
use cofill_grammar::{Error, Grammar, Language, TokenAutomaton, Vocabulary};
use std::sync::Arc;
use std::time::Instant;

fn grammar(pattern: &str, spans: Vec<std::ops::Range<usize>>, tokens: &[u32]) -> Result<Grammar, Error> {
    let (vocabulary, mask_id) = vocabulary(&["a", "b", "ab"]); // 3 and 4 end, 5 is the mask
    assert_eq!(mask_id, 5);
    let automaton = TokenAutomaton::new(&Language::regex(pattern)?, &vocabulary)?;
    Grammar::new(Arc::new(automaton), spans, tokens, mask_id)
}

#[test]
fn expressions_that_no_automaton_can_follow_are_refused_by_name() {
    for (pattern, word) in [
        ("(?=a)b", "looks around"),
        ("(?<!a)b", "looks around"),
        (r"(a)\1", "refers back"),
        (r"\bword\b", r"`\b`"),
        ("a^b", "`^`"),
        ("(?m)^a$", "`^`"),
        ("a(", "unclosed group at byte 1"),
        ("(?-u)\\xff", "UTF-8"),
        ("[a&&b]", "no text matches"),
    ] {
        let error = Language::regex(pattern).unwrap_err();
        assert!(matches!(error, Error::BadRegex { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.to_string().contains(pattern), "{error}");
    }
    assert_eq!(Language::choices::<&str>(&[]).unwrap_err(), Error::NoChoices);
}

#[test]
fn a_window_that_is_too_short_is_refused_with_both_numbers() {
    let error = grammar("a{6}b", vec![2..4], &[5; 6]).unwrap_err();
    assert_eq!(error, Error::Unsatisfiable { shortest: 6, window: 2, span: 2..4 });
    assert!(error.to_string().contains("has 6 tokens") && error.to_string().contains("room for 2"), "{error}");
}

#[test]
fn a_vocabulary_that_lacks_a_letter_is_refused_with_the_letter() {
    let error = grammar("abx", vec![0..3], &[5; 3]).unwrap_err();
    assert_eq!(error, Error::NoText { missing: Some("a `x`".into()) });
    assert!(error.to_string().ends_with("no token has a `x`"), "{error}");
    // Every byte is there, but the only token with a b has an a before it.
    let only = Vocabulary { bytes: vec![Some(b"ab".to_vec())], ends: Vec::new() };
    let error = TokenAutomaton::new(&Language::regex("b").unwrap(), &only).unwrap_err();
    assert_eq!(error, Error::NoText { missing: None });
    let nobody = Vocabulary { bytes: vec![Some(b"b".to_vec())], ends: vec![7] };
    assert_eq!(
        TokenAutomaton::new(&Language::regex("b").unwrap(), &nobody).unwrap_err(),
        Error::UnknownEnd { token: 7, last: 0 }
    );
}

#[test]
fn a_token_that_contradicts_the_language_is_named_with_its_position() {
    let error = grammar("a*", vec![1..4], &[5, 5, 1, 5]).unwrap_err();
    assert_eq!(error, Error::Contradiction { position: 2, token: 1 });
    // After an end, nothing but ends.
    assert_eq!(grammar("a*", vec![0..3], &[5, 3, 0]).unwrap_err(), Error::Contradiction { position: 2, token: 0 });
    let mut fine = grammar("a*", vec![0..3], &[5, 5, 5]).unwrap();
    assert!(
        !fine.is_completable(&[5, 1, 5], 5) && fine.is_completable(&[5, 0, 5], 5) && fine.is_completable(&[3, 4, 3], 5)
    );
    let row = vec![vec![0.1; 6]; 2];
    let failed = crate::support::constrain(&mut fine, &[5, 1, 5], 5, &row, &Proposal::greedy(), 0).unwrap_err();
    assert!(
        matches!(&failed, cofill::Error::Constraint(e) if e.to_string().contains("token 1 at position 1")),
        "{failed:?}"
    );
}

#[test]
fn a_length_that_no_text_has_is_refused() {
    // Without an end token, a text must fill its span exactly.
    let endless = Vocabulary { bytes: vec![Some(b"a".to_vec()), None], ends: Vec::new() };
    let automaton = Arc::new(TokenAutomaton::new(&Language::regex("(?:aa)*").unwrap(), &endless).unwrap());
    assert!(Grammar::new(automaton.clone(), vec![0..4], &[1; 5], 1).is_ok());
    assert_eq!(Grammar::new(automaton.clone(), vec![0..5], &[1; 5], 1).unwrap_err(), Error::NoFit { span: 0..5 });
    assert_eq!(Grammar::new(automaton, vec![0..2], &[1; 5], 0).unwrap_err(), Error::MaskHasText { mask_id: 0 });
}

#[test]
fn spans_must_be_separate_parts_of_the_canvas() {
    for spans in [vec![0..3, 2..4], vec![2..9], vec![3..5, 0..2], vec![std::ops::Range { start: 3, end: 1 }]] {
        assert!(matches!(grammar("a*", spans, &[5; 5]), Err(Error::BadSpan { length: 5, .. })));
    }
    let mut fine = grammar("a*", vec![0..3], &[5; 3]).unwrap();
    assert!(!fine.is_completable(&[5, 5], 5), "another canvas");
    let failed = crate::support::constrain(&mut fine, &[5, 5], 5, &vec![vec![0.1; 6]; 2], &Proposal::greedy(), 0);
    assert!(matches!(failed, Err(cofill::Error::Constraint(_))));
}

#[test]
fn numbers_that_are_none_are_errors() {
    let mut fine = grammar("a*", vec![0..1], &[5]).unwrap();
    for bad in [f64::NAN, f64::INFINITY] {
        let failed =
            crate::support::constrain(&mut fine, &[5], 5, &[vec![bad; 6]], &Proposal::greedy(), 0).unwrap_err();
        assert!(matches!(failed, cofill::Error::NotFinite { what: "classes", .. }), "{failed}");
    }
}

#[test]
fn bombs_are_refused_soon() {
    let began = Instant::now();
    let large = "a?".repeat(12_000);
    let classes = r"\pL".repeat(3000);
    for pattern in [
        "((a{100}){100}){100}",
        "[ab]*a[ab]{40}",
        "(?:a{0,1000}b{0,1000}){1000}",
        r"\w{1000}{1000}",
        r"(?:\w+\s?){300}",
        "(?:){4000000000}a{4000000000}",
        &large,
        &classes,
    ] {
        let start = busy(began);
        let error = Language::regex(pattern).unwrap_err();
        let took = busy(began) - start;
        assert!(matches!(error, Error::TooManyStates { .. } | Error::TooLarge { .. }), "{pattern:.30}: {error}");
        assert!(took.as_secs_f64() < 2.0, "{pattern:.30} took {took:?}");
    }
    let many: Vec<String> = (0..100_000u32).map(|i| format!("{:x}", i.wrapping_mul(2_654_435_761))).collect();
    let start = busy(began);
    assert!(matches!(Language::choices(&many), Err(Error::TooManyStates { .. })));
    assert!((busy(began) - start).as_secs_f64() < 2.0);
    let (vocabulary, _) = characters();
    assert!(
        TokenAutomaton::new(&Language::regex(r"\w{1,40}").unwrap(), &vocabulary).is_ok(),
        "what is large, but not too large"
    );
}
