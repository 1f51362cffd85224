//! What holds for every mini task.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const N: u64 = 300;

#[test]
fn every_reference_answer_is_right_and_every_prompt_in_its_split() {
    for task in Mini::ALL {
        for split in Split::ALL {
            for index in 0..N {
                let Example { prompt, answer } = task.example(split, 1, index);
                assert_eq!(task.check(&prompt, &answer), Ok(Ok(())), "{task}: {prompt}{answer}");
                assert_eq!(task.split_of(&prompt), split, "{task}: {prompt}");
            }
        }
    }
}

/// Disjoint because a prompt has one split; here it is seen to be so.
#[test]
fn splits_share_no_prompt() {
    for task in Mini::ALL {
        let prompts = |split| (0..N).map(move |i| task.example(split, 1, i).prompt).collect::<HashSet<_>>();
        let [train, validation, test] = Split::ALL.map(prompts);
        assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test), "{task}");
    }
}

/// Training masks integers of its own choice. Whatever it masks, what is left is no test prompt, since the operators differ.
#[test]
fn no_masking_of_a_training_text_is_a_test_prompt() {
    for index in 0..N {
        let Example { answer, .. } = Mini::Predicates.example(Split::Train, 1, index);
        for every in 1..=4 {
            // Numbers and what stands between them, by turns; of the numbers, one in `every` is masked.
            let parts = answer.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
            let mask = |(i, part): (usize, &[u8])| match part[0].is_ascii_digit() && i / 2 % every == 0 {
                true => predicates::GAP.to_owned(),
                false => String::from_utf8(part.to_vec()).unwrap(),
            };
            let masked: String = parts.enumerate().map(mask).collect();
            assert!(masked.contains(predicates::GAP));
            assert_eq!(Mini::Predicates.split_of(&masked), Split::Train, "{masked}");
        }
    }
}

#[test]
fn splits_have_their_shares() {
    // 10,000 hashes: 1,000 expected, standard deviation 30.
    let count = |split| (0..10_000).filter(|i| Mini::Chain.split_of(&format!("prompt {i}")) == split).count();
    for split in [Split::Validation, Split::Test] {
        assert!((900..1100).contains(&count(split)), "{split}: {}", count(split));
    }
}

#[test]
fn distinct_prompts_are_the_examples_without_repeats() {
    for task in Mini::ALL {
        let distinct: Vec<String> = task.distinct(Split::Test, 1).take(500).map(|example| example.prompt).collect();
        assert_eq!(distinct.iter().collect::<HashSet<_>>().len(), 500, "{task}");
        let plain: Vec<String> = (0..1000).map(|i| task.example(Split::Test, 1, i).prompt).collect();
        let mut seen = HashSet::new();
        let want: Vec<&String> = plain.iter().filter(|prompt| seen.insert(*prompt)).take(500).collect();
        assert_eq!(distinct.iter().collect::<Vec<_>>(), want, "{task}");
    }
}

#[test]
fn an_example_depends_on_its_key_alone() {
    for task in Mini::ALL {
        let prompt = |seed, index| task.example(Split::Train, seed, index).prompt;
        assert_eq!(prompt(3, 5), prompt(3, 5));
        assert!(prompt(3, 5) != prompt(4, 5) && prompt(3, 5) != prompt(3, 6), "{task}");
    }
}

/// The examples themselves, so that a change of the corpus is a decision and not an accident.
#[test]
fn the_first_examples_are_these() {
    for (task, prompt) in FIRST {
        assert_eq!(task.example(Split::Test, 0, 0).prompt, prompt);
    }
}

const FIRST: [(Mini, &str); 5] = [
    (Mini::Chain, "Ben has 9 stamps, sells 4, wins 5, loses 1, sells 1, loses 2, gives 3. How many stamps?\n"),
    (Mini::Sums, "Write 6 different equations with result 17 using 2, 1, 7, 11, 5, 8.\n"),
    (Mini::Code, "Write f so that f(15) is 11: add 1, add 1, subtract, add.\n"),
    (Mini::Sudoku, "Sudoku:\n0 0 0 0\n2 0 1 0\n3 2 0 0\n1 0 0 0\n"),
    (
        Mini::Predicates,
        "Fill the gaps:\nmax(8,[MASK:1],[MASK:1])=8\nmax([MASK:1],8,5)=8\nmin([MASK:1],[MASK:1],[MASK:1])=[MASK:1]\n\
         max(6,[MASK:1],5)=[MASK:1]\n3*[MASK:1]*1=12\n",
    ),
];

#[test]
fn names_are_read_and_unknown_ones_are_answered_with_the_list() {
    for task in Mini::ALL {
        assert_eq!(task.name().parse(), Ok(task));
    }
    for split in Split::ALL {
        assert_eq!(split.name().parse(), Ok(split));
    }
    let known = "`chain`, `sums`, `code`, `sudoku`, `predicates`";
    assert_eq!(
        "gsm8k".parse::<Mini>().unwrap_err().to_string(),
        format!("unknown task `gsm8k`; expected one of {known}")
    );
    assert_eq!(
        "suduko".parse::<Mini>().unwrap_err().to_string(),
        format!("unknown task `suduko` (did you mean `sudoku`?); expected one of {known}")
    );
    let known = "`train`, `validation`, `test`";
    assert_eq!(
        "dev".parse::<Split>().unwrap_err().to_string(),
        format!("unknown split `dev`; expected one of {known}")
    );
}

#[test]
fn a_foreign_prompt_is_an_error_and_not_a_wrong_answer() {
    for task in Mini::ALL {
        let error = task.check("What is the capital of France?", "Paris").unwrap_err();
        assert!(error.to_string().contains(&format!("is no prompt of the task `{task}`")), "{error}");
    }
}

proptest! {
    /// Models write anything.
    #[test]
    fn no_answer_makes_a_checker_panic(answer in "\\PC*", index in 0..20u64) {
        for task in Mini::ALL {
            let example = task.example(Split::Test, 2, index);
            prop_assert!(task.check(&example.prompt, &answer).is_ok());
            let _ = task.check(&answer, &example.answer);
        }
    }

    /// Nor does an answer with a piece cut out or doubled, which is what bad samplers produce.
    #[test]
    fn no_damaged_answer_makes_a_checker_panic(index in 0..50u64, from in 0..80usize, to in 0..80usize) {
        for task in Mini::ALL {
            let Example { prompt, answer } = task.example(Split::Test, 2, index);
            let (from, to) = (from.min(answer.len()), to.min(answer.len()));
            prop_assert!(task.check(&prompt, &[&answer[..from], &answer[to..]].concat()).is_ok());
        }
    }
}
