use cofill_model::Tokenizer;
use cofill_tasks::mini::{Form, Mini, Split};
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

static TOKENIZERS: LazyLock<[Tokenizer; 2]> = LazyLock::new(|| {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    ["tiny-llada", "tiny-dream"].map(|name| Tokenizer::load(&models.join(name)).unwrap())
});

fn encode(text: &str) -> Vec<u32> {
    let [llada, dream] = TOKENIZERS.each_ref().map(|tokenizer| tokenizer.encode(text).unwrap());
    assert_eq!(llada, dream, "both models read the same");
    llada
}

#[test]
fn numbers_below_100_are_one_token_wherever_they_stand() {
    let digits = encode("7").len();
    assert_eq!(digits, 1);
    for n in 0..100 {
        let alone = encode(&n.to_string());
        assert_eq!(alone.len(), 1, "{n}");
        for around in ["has {}, buys", "{}+", "=>{}\n", "f({}) is", "#### {}", "x+={} #", "result {} using {}, {}."] {
            let ids = encode(&around.replace("{}", &n.to_string()));
            let times = around.matches("{}").count();
            assert_eq!(ids.iter().filter(|id| **id == alone[0]).count(), times, "{n} in `{around}`");
        }
    }
    // From 100 on, two digits at a time.
    assert_eq!(encode("1234"), [encode("12"), encode("34")].concat());
}

#[test]
fn the_vocabulary_is_small_and_names_its_specials() {
    for (tokenizer, mask) in TOKENIZERS.iter().zip(["<|mdm_mask|>", "<|mask|>"]) {
        let id = tokenizer.mask();
        assert!(id.is_some_and(|id| id < 512) && id == tokenizer.token_id(mask));
        assert!(tokenizer.eos().is_some_and(|id| id < 512) && tokenizer.eos() == tokenizer.token_id("<|endoftext|>"));
        assert_eq!(tokenizer.token_id("<|id 512|>"), None);
        assert_eq!(tokenizer.piece(512), "<|id 512|>");
    }
}

/// An answer that does not fit could never be generated; one that leaves half of the canvas empty makes samplers look good.
#[test]
fn every_answer_fills_most_of_its_canvas() {
    for task in Mini::ALL.into_iter().filter(|task| task.form() == Form::Continue) {
        for split in Split::ALL {
            for index in 0..200 {
                let example = task.example(split, 5, index);
                let (prompt, answer) = (encode(&example.prompt).len(), encode(&example.answer).len());
                assert!(prompt <= 44, "{task}: a prompt of {prompt} tokens");
                let length = task.length();
                assert!(answer <= length && 5 * answer >= 4 * length, "{task}: {answer} of {length} tokens");
                // A canvas is encoded in two parts, a training text in two as well; a piece must not span them.
                let whole = encode(&(example.prompt.clone() + &example.answer));
                assert_eq!(whole.len(), prompt + answer, "{task}: {example:?}");
            }
        }
    }
}

#[test]
fn words_of_the_tasks_are_whole_tokens() {
    // 256 bytes and the ten digits come first; everything that is longer than a byte is a number or a word of a task.
    for task in Mini::ALL {
        for index in 0..100 {
            let example = task.example(Split::Test, 5, index);
            let text = if task.form() == Form::Infill { example.answer } else { example.prompt + &example.answer };
            for id in encode(&text) {
                let piece = TOKENIZERS[0].piece(id);
                let letters = piece.trim().chars().filter(|c| c.is_alphabetic()).count();
                assert!(letters != 1 || ["f", "x"].contains(&piece.trim()), "{task}: `{piece}` of a word in bytes");
            }
        }
    }
}

/// Text around gaps is encoded part by part, so it must come out as in the whole.
#[test]
fn a_gap_is_one_token_and_its_surroundings_do_not_change() {
    for index in 0..100 {
        let example = Mini::Predicates.example(Split::Test, 5, index);
        let mask = TOKENIZERS[0].mask().unwrap();
        let parts: Vec<Vec<u32>> = example.prompt.split("[MASK:1]").map(encode).collect();
        let canvas = parts.join(&mask);
        let whole = encode(&example.answer);
        assert_eq!(canvas.len(), whole.len());
        assert!(canvas.iter().zip(&whole).all(|(a, b)| *a == mask || a == b), "{example:?}");
    }
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        for tokenizer in TOKENIZERS.iter() {
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids, false).unwrap(), text.clone());
        }
    }

    /// The same for text that looks like the tasks': spaces, numbers, line breaks and words in any order.
    #[test]
    fn text_of_familiar_pieces_comes_back(text in "( |\n|[0-9]{1,3}|has|coins|####|\\+=|[a-z]|,|\\.|é|１|\t){0,40}") {
        let ids = encode(&text);
        prop_assert_eq!(TOKENIZERS[0].decode(&ids, false).unwrap(), text);
    }
}
