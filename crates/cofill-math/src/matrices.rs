//! The check sympy makes before it reads anything: the delimiters of matrices must come in pairs.
//!
//! Its parser knows no matrices, and what it makes of one is letters and numbers; but an answer whose matrix begins and does not
//! end, or ends as another kind, is refused whole.

/// A place where a matrix begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Delimiter<'a> {
    at: usize,
    begins: bool,
    environment: &'a str,
    /// The bracket it belongs to, 0 if it needs none, and whether `\left` or `\right` stands before that.
    bracket: u8,
    sized: bool,
}

/// Whether every matrix that begins ends in the same way before the next one begins.
pub(super) fn are_closed(text: &str) -> bool {
    let mut found = Vec::new();
    for environment in ["pmatrix", "bmatrix", "vmatrix", "matrix", "array"] {
        let bare = !matches!(environment, "matrix" | "array");
        for (word, begins) in [("begin", true), ("end", false)] {
            let command = format!("\\{word}{{{environment}}}");
            for (at, _) in text.match_indices(&command) {
                let after = &text[at + command.len()..];
                let delimiter = match (bare, begins) {
                    (true, _) => Some(Delimiter { at, begins, environment, bracket: 0, sized: false }),
                    (false, true) if environment == "array" && !has_columns(after) => None,
                    (false, true) => opened(&text[..at], environment),
                    (false, false) => closed(at, after, environment),
                };
                found.extend(delimiter);
            }
        }
    }
    found.sort();
    found.chunks(2).all(|pair| match pair {
        [begin, end] => {
            let kind = |d: &Delimiter<'_>| (d.environment.to_owned(), d.bracket, d.sized);
            begin.begins && !end.begins && kind(begin) == kind(end)
        }
        _ => false,
    })
}

/// The columns of an array: braces on one line.
fn has_columns(after: &str) -> bool {
    after.starts_with('{') && after.split('\n').next().is_some_and(|line| line.contains('}'))
}

/// The bracket before a matrix, which may be braced.
fn opened<'a>(before: &str, environment: &'a str) -> Option<Delimiter<'a>> {
    let before = before.trim_end().trim_end_matches('{').trim_end();
    let bracket = *before.as_bytes().last().filter(|b| matches!(b, b'(' | b'[' | b'|'))?;
    let outside = &before[..before.len() - 1];
    let sized = outside.ends_with("\\left");
    let at = outside.len() - if sized { "\\left".len() } else { 0 };
    Some(Delimiter { at, begins: true, environment, bracket, sized })
}

/// The bracket after a matrix, named by the one that opens it.
fn closed<'a>(at: usize, after: &str, environment: &'a str) -> Option<Delimiter<'a>> {
    let after = after.trim_start().trim_start_matches('}').trim_start();
    let (after, sized) = after.strip_prefix("\\right").map_or((after, false), |after| (after, true));
    let bracket = match after.as_bytes().first()? {
        b')' => b'(',
        b']' => b'[',
        b'|' => b'|',
        _ => return None,
    };
    Some(Delimiter { at, begins: false, environment, bracket, sized })
}

#[cfg(test)]
mod tests {
    use super::are_closed;

    #[test]
    fn a_matrix_ends_as_it_began() {
        for text in [
            "1",
            r"\begin{pmatrix}1\end{pmatrix}",
            r"\begin{pmatrix}1\end{pmatrix}\begin{bmatrix}1\end{bmatrix}",
            r"(\begin{matrix}1\end{matrix})",
            r"\left( {\begin{matrix}1\end{matrix}} \right)",
            r"\left|\begin{array}{cc}1\end{array}\right|",
            // Without a bracket these two are not looked at, nor is an array without columns.
            r"\begin{matrix}1",
            r"(\begin{array}1",
        ] {
            assert!(are_closed(text), "{text}");
        }
        for text in [
            r"\begin{pmatrix}1",
            r"1\end{pmatrix}",
            r"\begin{pmatrix}1\end{bmatrix}",
            r"\begin{pmatrix}\begin{pmatrix}1\end{pmatrix}\end{pmatrix}",
            r"(\begin{matrix}1\end{matrix}]",
            r"\left(\begin{matrix}1\end{matrix})",
            r"(\begin{matrix}1",
            r"[\begin{array}{c}1",
        ] {
            assert!(!are_closed(text), "{text}");
        }
    }
}
