//! The name that was probably meant, for messages about one that nobody has.

/// The name that `given` is a slip of: a letter too many, too few, another or two swapped, one for every three letters; or else the only
/// name that begins so. Capitals do not matter. `None` when nothing is near, so that a message guesses only what is likely.
///
/// ```
/// let names = ["topk", "fast", "threshold"];
/// assert_eq!(cofill::nearest("topkk", names), Some("topk"));
/// assert_eq!(cofill::nearest("thresh", names), Some("threshold"));
/// assert_eq!(cofill::nearest("beam", names), None);
/// ```
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody's slip is that long, and comparing costs the product of both lengths.
    const LONGEST: usize = 64;
    let given = given.to_lowercase();
    let length = given.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let slips = |name: &&&str| strsim::osa_distance(&given, &name.to_lowercase());
    // A name of which no letter stays is no slip, however short.
    let is_near = |name: &&&str| {
        slips(name) <= usize::max(1, length / 3) && slips(name) < usize::max(length, name.chars().count())
    };
    let near = names.iter().min_by_key(slips).filter(is_near);
    let mut longer = names.iter().filter(|name| length > 2 && name.to_lowercase().starts_with(&given));
    near.or_else(|| longer.next().filter(|_| longer.next().is_none())).copied()
}

/// ` (did you mean ...?)` to put behind a name that nobody has, or nothing.
///
/// ```
/// assert_eq!(cofill::did_you_mean("fsat", ["topk", "fast"]), " (did you mean `fast`?)");
/// assert_eq!(cofill::did_you_mean("beam", ["topk", "fast"]), "");
/// ```
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, names).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_for_every_three_letters() {
        let names = ["gsm8k", "gsm8k_cot", "humaneval", "eb"];
        let cases = [
            ("gms8k", Some("gsm8k")), // two letters swapped are one slip
            ("GSM8K", Some("gsm8k")), // capitals are none
            ("humanevl", Some("humaneval")),
            ("hmnaevl", None), // osa 3 of 7 letters, which allow 2
            ("ebs", Some("eb")),
            ("e", Some("eb")),            // one slip is always allowed
            ("abc", None),                // two letters from `eb`
            ("human", Some("humaneval")), // four letters too few, but no other begins so
            ("gsm", None),                // two names begin so, and both are two letters or more away
            ("", None),
        ];
        for (given, meant) in cases {
            assert_eq!(nearest(given, names), meant, "{given}");
        }
        assert_eq!(nearest(&"a".repeat(10_000), names), None);
    }

    #[test]
    fn a_beginning_that_several_share_is_no_guess() {
        assert_eq!(nearest("tiny", ["tiny-llada", "tiny-dream"]), None);
        assert_eq!(nearest("tiny-ll", ["tiny-llada", "tiny-dream"]), Some("tiny-llada"));
        assert_eq!(nearest("ti", ["tiny-llada"]), None, "two letters are too few to guess from");
    }

    #[test]
    fn of_two_that_are_as_near_the_first() {
        assert_eq!(nearest("cat", ["bat", "rat"]), Some("bat"));
    }
}
