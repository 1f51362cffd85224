//! What the driver is told, and how its answer is read.
//!
//! A pass is 32 random bytes that the driver takes from its stdin just before the program starts and gives back just
//! after it ended. So nothing that a program can print, no exit code and no replaced function is a pass. `driver.py`
//! says where the bytes are while the program runs, so that it cannot find them.

use super::Layers;
use crate::Execution;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The driver, given to Python with `-c`, so that no file of ours has to be readable in the cage.
pub(super) const DRIVER: &str = include_str!("driver.py");

/// The most bytes that are read about how a program ended: more than the longest error text the driver sends.
const LONGEST_OUTCOME: usize = 32 << 10;
/// The most bytes that are read of the answer of one of our own programs.
const LONGEST_ANSWER: usize = 16 << 20;

/// What a program is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find out whether it runs to its end: a program that a model wrote.
    Judge,
    /// For the text it leaves in its variable `answer`. Only for programs of our own: the text is taken as it comes, and
    /// a hostile program could send any.
    Answer,
}

impl Purpose {
    /// The most bytes that are read.
    pub(super) fn longest(self) -> usize {
        match self {
            Purpose::Judge => LONGEST_OUTCOME,
            Purpose::Answer => LONGEST_ANSWER,
        }
    }
}

/// A number used once: 32 bytes that the driver gives back when the program ran to its end, and that no program can
/// guess. SipHash under keys from the system's random source.
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

    /// The bytes, to be written after the request: the driver reads them only when the program is about to start.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Everything before the nonce. `memory` is 0 for no limit.
pub(super) fn request(program: &str, timeout: Duration, memory: u64, layers: Layers, purpose: Purpose) -> Vec<u8> {
    let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
    let mut bytes = Vec::with_capacity(program.len() + 25);
    for number in [program.len() as u64, micros, memory] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.push(u8::from(layers.guard) | u8::from(purpose == Purpose::Answer) << 1);
    bytes.extend(program.as_bytes());
    bytes
}

/// Whether nothing that might still come can change how the answer is read.
pub(super) fn complete(answer: &[u8], nonce: &Nonce, purpose: Purpose) -> bool {
    answer.len() >= purpose.longest() || answer == b"T" || is_pass(answer, nonce)
}

/// The harness's words for an answer, without its leading `R`. No answer, or one that makes no sense, counts as a program
/// that did not end in time.
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

/// The text that one of our own programs left: none if it raised an exception or its time was up.
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
        assert!(passes(&good) && complete(&good, &nonce, Purpose::Judge));
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
