//! Which words of one text another does not have.

/// More pairs of words than this are not compared one by one: what stands between the common beginning and the common end then counts as changed.
const MOST_PAIRS: usize = 4 << 20;

/// A text in pieces, and whether each is missing from `reference`: words that are not in the longest common subsequence of both. Line breaks are never
/// missing, since nobody could see it.
///
/// ```
/// use cofill_report::words::changes;
/// assert_eq!(changes("3*4*3=24", "2*4*3=24"), [("2", true), ("*4*3=24", false)]);
/// ```
pub fn changes<'a>(reference: &str, text: &'a str) -> Vec<(&'a str, bool)> {
    let (a, b) = (words(reference), words(text));
    let begin = a.iter().zip(&b).take_while(|(x, y)| x.1 == y.1).count();
    let behind = |all: &[(usize, &str)]| all.len() - begin;
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x.1 == y.1).count();
    let end = end.min(behind(&a)).min(behind(&b));
    let (between_a, between_b) = (&a[begin..a.len() - end], &b[begin..b.len() - end]);
    let mut missing = vec![false; b.len()];
    missing[begin..b.len() - end].copy_from_slice(&unmatched(between_a, between_b));
    // Pieces are runs of the same kind, so that a marked one is as long as it can be.
    let mut pieces: Vec<(usize, bool)> = Vec::new();
    for (&(at, word), missing) in b.iter().zip(missing) {
        let missing = missing && word != "\n";
        if pieces.last().is_none_or(|last| last.1 != missing) {
            pieces.push((at, missing));
        }
    }
    let ends = pieces.iter().skip(1).map(|piece| piece.0).chain([text.len()]);
    pieces.iter().zip(ends).map(|(&(at, missing), end)| (&text[at..end], missing)).collect()
}

/// Letters and digits that belong together, and every other character by itself; with where each begins.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    let mut inside = None;
    for (at, c) in text.char_indices() {
        match inside {
            Some(begin) if c.is_alphanumeric() => {
                let end = at + c.len_utf8();
                *words.last_mut().expect("a word was begun") = (begin, &text[begin..end]);
            }
            _ => {
                inside = c.is_alphanumeric().then_some(at);
                words.push((at, &text[at..at + c.len_utf8()]));
            }
        }
    }
    words
}

/// Which words of `b` are not in a longest common subsequence with `a`.
fn unmatched(a: &[(usize, &str)], b: &[(usize, &str)]) -> Vec<bool> {
    let columns = b.len() + 1;
    if a.is_empty() || (a.len() + 1).saturating_mul(columns) > MOST_PAIRS {
        return vec![true; b.len()];
    }
    // longest[i * columns + j]: of a[i..] and b[j..].
    let mut longest = vec![0u32; (a.len() + 1) * columns];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * columns + j] = match a[i].1 == b[j].1 {
                true => longest[(i + 1) * columns + j + 1] + 1,
                false => longest[(i + 1) * columns + j].max(longest[i * columns + j + 1]),
            };
        }
    }
    let mut missing = vec![true; b.len()];
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].1 == b[j].1 {
            missing[j] = false;
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * columns + j] >= longest[i * columns + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_new_is_marked_as_whole_words() {
        assert_eq!(changes("a b", "a b"), [("a b", false)]);
        assert_eq!(changes("", "new"), [("new", true)]);
        assert_eq!(changes("gone", ""), []);
        assert_eq!(changes("x is 12", "x is 123"), [("x is ", false), ("123", true)]);
        // A line more: its break is a break and no word.
        assert_eq!(changes("1+1=2", "1+1=2\n2+2=4"), [("1+1=2\n", false), ("2+2=4", true)]);
    }

    #[test]
    fn texts_that_are_too_long_to_compare_differ_between_their_ends() {
        let (a, b) = ("x ".repeat(3000), "y ".repeat(3000));
        let (a, b) = (format!("same {a}same"), format!("same {b}same"));
        let kept: Vec<&str> = changes(&a, &b).into_iter().filter(|piece| !piece.1).map(|piece| piece.0).collect();
        assert_eq!(kept, ["same ", " same"]);
    }

    proptest! {
        /// Pieces are the text; what is not marked is a subsequence of the reference's words, of the greatest length there is.
        #[test]
        fn what_stays_is_the_longest_that_both_have(a in "[ab1 \n]{0,10}", b in "[ab1 \n]{0,10}") {
            let pieces = changes(&a, &b);
            prop_assert_eq!(pieces.iter().map(|piece| piece.0).collect::<String>(), b.clone());
            let common = longest(&words(&a), &words(&b));
            let marked: usize = pieces.iter().filter(|piece| piece.1).map(|piece| words(piece.0).len()).sum();
            let breaks = b.matches('\n').count();
            let all = words(&b).len();
            prop_assert!(all - marked >= common && all - marked <= common + breaks);
        }
    }

    /// By trying everything.
    fn longest(a: &[(usize, &str)], b: &[(usize, &str)]) -> usize {
        match (a, b) {
            ([x, a_rest @ ..], [y, b_rest @ ..]) if x.1 == y.1 => 1 + longest(a_rest, b_rest),
            ([_, a_rest @ ..], [_, b_rest @ ..]) => longest(a_rest, b).max(longest(a, b_rest)),
            _ => 0,
        }
    }
}
