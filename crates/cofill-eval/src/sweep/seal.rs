//! Checksums in the file of a unit: every line ends with one, of itself and of all lines before it.
//!
//! `{"doc_id":3, .. ,"sum":"9f86d081884c7d659a2feaa0c55ad015"}`. So a digit that changed, a line that was lost or came twice is noticed at the
//! first line that is wrong, in a finished unit as in a part whose worker died. Merged files have none: they are what `cofill eval --out`
//! writes. Earlier versions wrote units without sums, and pass over the field when they read ours.

use cofill_tasks::data::sha256;

const BEFORE: &[u8] = b",\"sum\":\"";
const AFTER: &[u8] = b"\"}";
/// 128 bits in hex, as in addresses.
const DIGITS: usize = 32;

/// Seals lines, one after the other.
#[derive(Debug, Default)]
pub(super) struct Seal {
    last: String,
}

/// The lines of a file without their seals.
pub(super) struct Unsealed {
    /// Those that can be trusted: all of them, or those before the first that is wrong.
    pub(super) text: Vec<u8>,
    /// The first line that is wrong, counted from 1.
    pub(super) wrong: Option<usize>,
    /// Whether there are seals at all.
    pub(super) is_sealed: bool,
}

impl Seal {
    /// A line (a JSON object and its end) with the sum of everything up to here.
    pub(super) fn seal(&mut self, line: &[u8]) -> Vec<u8> {
        let body = line.strip_suffix(b"}\n").unwrap_or(line);
        self.last = self.sum(body);
        [body, BEFORE, self.last.as_bytes(), AFTER, b"\n"].concat()
    }

    fn sum(&self, body: &[u8]) -> String {
        sha256(&[self.last.as_bytes(), body].concat())[..DIGITS].into()
    }
}

/// Takes seals off whole lines and compares them.
pub(super) fn unseal(text: &[u8]) -> Unsealed {
    let mut seal = Seal::default();
    let mut found = Unsealed { text: Vec::with_capacity(text.len()), wrong: None, is_sealed: false };
    for (i, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let parts = parts(line);
        if i == 0 {
            found.is_sealed = parts.is_some();
        }
        match parts {
            None if !found.is_sealed => found.text.extend(line),
            Some((body, sum)) if found.is_sealed && seal.sum(body).as_bytes() == sum => {
                seal.last = seal.sum(body);
                found.text.extend([body, b"}\n"].concat());
            }
            _ => {
                found.wrong = Some(i + 1);
                break;
            }
        }
    }
    found
}

/// A sealed line: what was sealed, and the sum.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\n")?.strip_suffix(AFTER)?;
    let (line, sum) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
    Some((line.strip_suffix(BEFORE)?, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 3] = ["{\"a\":1}\n", "{\"b\":[2.5]}\n", "{\"c\":\"}\"}\n"];

    fn sealed() -> Vec<u8> {
        let mut seal = Seal::default();
        LINES.iter().flat_map(|line| seal.seal(line.as_bytes())).collect()
    }

    #[test]
    fn what_was_sealed_comes_back() {
        let found = unseal(&sealed());
        assert_eq!((found.text, found.wrong, found.is_sealed), (LINES.concat().into_bytes(), None, true));
        let plain = unseal(LINES.concat().as_bytes());
        assert_eq!((plain.text, plain.wrong, plain.is_sealed), (LINES.concat().into_bytes(), None, false));
        // Never again another one, or finished units would count as damaged: sha256 of `{"a":1`.
        assert_eq!(&sealed()[..48], br#"{"a":1,"sum":"8b0f0d75aabe01bbfba9341752c2cf76"}"#);
    }

    #[test]
    fn whatever_changes_is_noticed_at_its_line() {
        let text = sealed();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                let found = unseal(&damaged);
                let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
                // A first line that lost its seal looks like one that never had any; the second then is wrong.
                assert!(found.wrong == Some(line) || line == 1 && found.wrong == Some(2), "bit {bit} of byte {at}");
            }
        }
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for (order, wrong) in [(vec![0, 2], 2), (vec![0, 1, 1, 2], 3), (vec![0, 2, 1], 2), (vec![1, 2], 1)] {
            let changed: Vec<u8> = order.iter().flat_map(|i: &usize| lines[*i].to_vec()).collect();
            assert_eq!(unseal(&changed).wrong, Some(wrong), "{order:?}");
        }
    }
}
