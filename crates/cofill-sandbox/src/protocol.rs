//! What is said to the driver and what its answer is worth.
//!
//! A pass is 32 random bytes that the driver takes from its stdin just before the program starts and gives back just
//! after it ended. So nothing that a program can print, no exit code and no replaced function is a pass. `driver.py`
//! says where the bytes are meanwhile.

use super::Layers;
use crate::Execution;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The driver, given to Python with `-c`, so that no file of ours has to be readable in the cage.
pub(super) const DRIVER: &str = include_str!("driver.py");

/// As much of an answer as is read: more than the longest error text the driver sends.
const LONGEST_VERDICT: usize = 32 << 10;
/// As much as one of our own programs may have to say.
const LONGEST_ANSWER: usize = 16 << 20;

/// What a program is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whether it runs to its end.
    Verdict,
    /// The text it leaves in its variable `answer`. Only for programs of our own: this says nothing about who wrote it.
    Answer,
}

impl Wanted {
    /// As much as is read.
    pub(super) fn longest(self) -> usize {
        match self {
            Wanted::Verdict => LONGEST_VERDICT,
            Wanted::Answer => LONGEST_ANSWER,
        }
    }
}

/// Bytes that nobody can guess. SipHash under a key from the system's random source.
#[derive(Clone, Copy)]
pub(super) struct Nonce([u8; 32]);

impl Nonce {
    pub(super) fn new() -> Nonce {
        let mut bytes = [0; 32];
        for (i, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&RandomState::new().hash_one(i).to_le_bytes());
        }
        Nonce(bytes)
    }

    /// Written last and in one piece, so that the driver finds it whole.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Everything before the nonce. `memory` is 0 for no limit.
pub(super) fn request(program: &str, timeout: Duration, memory: u64, layers: Layers, wanted: Wanted) -> Vec<u8> {
    let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
    let mut bytes = Vec::with_capacity(program.len() + 25);
    for number in [program.len() as u64, micros, memory] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.push(u8::from(layers.guard) | u8::from(wanted == Wanted::Answer) << 1);
    bytes.extend(program.as_bytes());
    bytes
}

/// Whether nothing that might follow can change the verdict.
pub(super) fn complete(answer: &[u8], nonce: &Nonce, wanted: Wanted) -> bool {
    answer.len() >= wanted.longest() || answer == b"T" || is_pass(answer, nonce)
}

/// The harness's words for an answer, `R` taken off. No answer, or one that makes no sense, is a program that did not
/// come back.
pub(super) fn decode(answer: &[u8], nonce: &Nonce) -> Execution {
    let result = match answer {
        answer if is_pass(answer, nonce) => "passed".into(),
        [b'F', text @ ..] => format!("failed: {}", String::from_utf8_lossy(text)),
        _ => "timed out".into(),
    };
    Execution { passed: is_pass(answer, nonce), result }
}

fn is_pass(answer: &[u8], nonce: &Nonce) -> bool {
    answer == nonce.0
}

/// What one of our own programs had to say: nothing if it raised, and nothing if its time was up.
pub(super) fn text(answer: &[u8]) -> Result<Option<String>, String> {
    match answer {
        [b'A', ..] if answer.len() >= LONGEST_ANSWER => Err(format!("its answer has more than {LONGEST_ANSWER} bytes")),
        [b'A', a, b, c, d, e, f, g, h, text @ ..] => {
            let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            if length != text.len() as u64 {
                return Err(format!("{} of its {length} bytes came", text.len()));
            }
            String::from_utf8(text.to_vec()).map(Some).map_err(|error| error.to_string())
        }
        [b'A', ..] => Err("its answer ends early".into()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nonce_passes() {
        let nonce = Nonce::new();
        let passes = |answer: &[u8]| decode(answer, &nonce).passed;
        let good = nonce.0.to_vec();
        assert!(passes(&good) && complete(&good, &nonce, Wanted::Verdict));
        assert!(!passes(&good[..31]));
        assert!(!passes(&[&good[..], b"x"].concat()));
        assert!(!passes(&[b"x", &good[..]].concat()));
        assert!(!passes(b"passed") && !passes(b"") && !passes(b"T"));
        assert_ne!(Nonce::new().0, nonce.0);
    }

    #[test]
    fn an_answer_is_all_that_follows_its_letter() {
        let whole = |text: &[u8]| [b"A", &(text.len() as u64).to_be_bytes()[..], text].concat();
        assert_eq!(text(&whole("änderung".as_bytes())), Ok(Some("änderung".into())));
        // Cut off, or cut off by the clock.
        let cut = whole(b"abc");
        assert!(text(&cut[..11]).is_err() && text(&[&cut[..], b"T"].concat()).is_err() && text(b"A").is_err());
        assert_eq!(
            [text(&whole(b"")), text(b"T"), text(b"Fwhy"), text(b"")],
            [Ok(Some(String::new())), Ok(None), Ok(None), Ok(None)]
        );
        assert!(text(&whole(b"\xff")).is_err() && text(&vec![b'A'; LONGEST_ANSWER]).is_err());
    }

    #[test]
    fn words_are_the_harness_s() {
        let nonce = Nonce::new();
        let result = |answer: &[u8]| decode(answer, &nonce).result;
        assert_eq!(result(b"T"), "timed out");
        assert_eq!(result(b""), "timed out");
        assert_eq!(result(b"F"), "failed: ");
        assert_eq!(result(b"Fname 'x' is not defined"), "failed: name 'x' is not defined");
    }
}
