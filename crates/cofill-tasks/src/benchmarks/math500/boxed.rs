//! The gold answer: what stands in a solution's last box.

/// Why there is no answer in a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No box, or none that is closed. In the harness a `TypeError`.
    #[error("there is no closed \\boxed{{...}}")]
    None,
    /// A box that is written in another way. In the harness an `AssertionError`.
    #[error("the last box is neither \\boxed{{...}} nor `\\boxed ...`")]
    Form,
}

/// What the last box of a text holds.
pub fn answer(text: &str) -> Result<String, Error> {
    remove(&last(text).ok_or(Error::None)?).map(str::to_owned)
}

/// The last box of a text, with what encloses it (`last_boxed_only_string`).
///
/// If `\boxed ` with a space occurs anywhere, it is the last of those and what follows it up to the next dollar. Else the last
/// `\boxed`, or without any the last `\fbox`, up to the brace that closes the first one after it.
pub fn last(text: &str) -> Option<String> {
    if let Some((_, after)) = text.rsplit_once(r"\boxed ") {
        let content = after.split_once('$').map_or(after, |(content, _)| content);
        return Some(format!(r"\boxed {content}"));
    }
    let start = text.rfind(r"\boxed").or_else(|| text.rfind(r"\fbox"))?;
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(text[start..=at].into());
                }
            }
            _ => {}
        }
    }
    None
}

/// A box without what encloses it (`remove_boxed`).
pub fn remove(boxed: &str) -> Result<&str, Error> {
    if boxed.contains(r"\boxed ") {
        return boxed.strip_prefix(r"\boxed ").ok_or(Error::Form);
    }
    // `\boxed{` alone would pass the harness's check on its last character only if that were a brace; it is the opening one.
    boxed.strip_prefix(r"\boxed{").and_then(|rest| rest.strip_suffix('}')).ok_or(Error::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_box_of_a_text() {
        let check =
            |text: &str, content: Result<&str, Error>| assert_eq!(answer(text), content.map(String::from), "{text}");
        check(r"first $\boxed{1}$, then $\boxed{x^{2}}$.", Ok("x^{2}"));
        check(r"\boxed{\boxed{3}}", Ok("3"));
        // A box with a space wins, even over a later one without.
        check(r"\boxed 5$ and \boxed{6}", Ok("5"));
        check(r"\boxed 5 and more", Ok("5 and more"));
        check(r"\boxed{é{ü}}", Ok("é{ü}"));
        check(r"\boxed{}", Ok(""));
        check("nothing", Err(Error::None));
        check(r"\boxed{open", Err(Error::None));
        check(r"\fbox{7}", Err(Error::Form));
        check(r"\boxedx{7}", Err(Error::Form));
        // Closed before it was opened: the second pair brings the count back to 0 only after the third opening.
        check(r"\boxed}{a}{b", Err(Error::None));
    }
}
