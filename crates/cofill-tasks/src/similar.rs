//! "Did you mean": the known word that is nearest to one that nobody knows.

/// The known word that a person most likely meant: the nearest by letters that were added, left out, replaced or swapped, if that is at most
/// a third of them.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Longer than any word of ours; comparing takes the product of both lengths.
    const LONGEST: usize = 64;
    if given.chars().count() > LONGEST {
        return None;
    }
    let near = |word: &'k str| {
        let (a, b) = (given.to_lowercase(), word.to_lowercase());
        (distance(&a, &b), word)
    };
    let (far, word) = known.into_iter().map(near).min_by_key(|(far, _)| *far)?;
    let letters = given.chars().count().max(word.chars().count());
    (far <= letters.div_ceil(3).max(1) && far < letters).then_some(word)
}

/// `; did you mean ...?`, or nothing: the end of a message about an unknown word.
pub fn did_you_mean<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(given, known).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// Letters to add, leave out, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1]; // [letters of a, letters of b]
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        // One letter replaced and one left out; a swap is one step, not two.
        for (a, b, far) in [("", "abc", 3), ("number", "numbr", 1), ("chian", "chain", 1), ("kitten", "sitting", 3)] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
    }

    #[test]
    fn only_a_near_word_is_meant() {
        let known = ["exact", "number", "regex", "choice"];
        assert_eq!(nearest("Numbr", known), Some("number"));
        assert_eq!(nearest("regexp", known), Some("regex"));
        assert_eq!(nearest("riddles", known), None);
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest(&"x".repeat(1000), known), None);
        assert_eq!(did_you_mean("exakt", known), "; did you mean `exact`?");
        assert_eq!(did_you_mean("", known), "");
    }
}
