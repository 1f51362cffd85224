use crate::support::{Random, characters};
use cofill_grammar::{Language, TokenAutomaton};

#[test]
fn an_expression_matches_whole_texts_as_the_regex_crate_says() {
    let patterns = [
        "abc",
        "a|ab|abc",
        "(a|b)*c",
        "[0-9]{2,4}",
        "x?y?z?",
        "^a+$",
        "^(?:a|b$)",
        r"\d+",
        r"\w\s\w",
        "é|ü+",
        "[^a]",
        ".",
        "(?i)straße",
        "(?s).*",
        "a{0}",
        "(?:ab){0,3}",
        "(^a|b)",
        r"\p{Greek}+",
        "",
        "a||b",
        "[a-c&&b-d]+",
        "(?:a*)*",
        "(?x) a b # words\n c ",
    ];
    let letters: Vec<&str> = vec![
        "a", "b", "c", "0", "7", "é", "ü", " ", "x", "y", "z", "S", "ß", "λ", "\n", "٣", "strasse", "straße", "🦀",
    ];
    let mut random = Random(1);
    for pattern in patterns {
        let language = Language::regex(pattern).unwrap();
        let ours = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        for i in 0..4000 {
            let text: String = (0..i % 6).map(|_| letters[random.below(letters.len().min(3 + i / 100))]).collect();
            assert_eq!(language.matches(text.as_bytes()), ours.is_match(&text), "{pattern} on {text:?}");
        }
    }
    assert!(!Language::regex("(?s).*").unwrap().matches(&[0xff]), "only UTF-8");
}

#[test]
fn choices_are_exactly_these_texts() {
    let language = Language::choices(&["yes", "no", "no idea", "ja — nein"]).unwrap();
    for text in ["yes", "no", "no idea", "ja — nein"] {
        assert!(language.matches(text.as_bytes()));
    }
    for text in ["", "ye", "yess", "no i", "YES", "ja"] {
        assert!(!language.matches(text.as_bytes()), "{text}");
    }
}

#[test]
fn a_prefix_stands_before_every_text() {
    let language = Language::regex("a*").unwrap().prefixed(b" x").unwrap();
    assert!(language.matches(b" x") && language.matches(b" xaa"));
    assert!(!language.matches(b"aa") && !language.matches(b" ") && !language.matches(b""));
}

#[test]
fn the_shortest_text_is_counted_in_tokens() {
    let (vocabulary, _) = characters();
    let shortest =
        |pattern: &str| TokenAutomaton::new(&Language::regex(pattern).unwrap(), &vocabulary).unwrap().shortest();
    assert_eq!(shortest("a*"), 0);
    assert_eq!(shortest("abc|ab"), 2);
    assert_eq!(shortest("é"), 2, "two bytes, two tokens");
    let mut longer = vocabulary.clone();
    longer.bytes.push(Some(b"ab".to_vec()));
    let automaton = TokenAutomaton::new(&Language::regex("abab").unwrap(), &longer).unwrap();
    assert_eq!(automaton.shortest(), 2);
}

#[test]
fn a_minimal_automaton_has_no_state_too_many() {
    let (vocabulary, _) = characters();
    // (a|b)*: one state, and the one behind the end.
    let states = |pattern: &str| TokenAutomaton::new(&Language::regex(pattern).unwrap(), &vocabulary).unwrap().states();
    assert_eq!(states("(?:a|b)*"), 2);
    assert_eq!(states("(?:aa|bb|ab|ba)*"), 3);
    // The third letter from the end: all of the last three must be known, 8 states.
    assert_eq!(states("[ab]*a[ab][ab]"), 9);
    assert_eq!(states("abc|xbc|abd|xbd"), 5);
}
