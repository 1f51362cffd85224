//! What a rendering may take. Every limit is an error of its own, raised before the work is done.

use super::{Problem, Result};

/// Steps: evaluated nodes, visited elements, 32 scanned bytes each. A second or two of work, and a thousand times a long chat.
const STEPS: u64 = 20_000_000;

/// Bytes made, whether or not they are still there.
const BYTES: u64 = 128 << 20;

/// Bytes of the rendered prompt.
const OUTPUT: u64 = 4 << 20;

/// Statements, expressions and macro calls inside each other. The stack holds this many frames; a test in
/// `jinja.rs` shows that an eighth of it is enough.
const NESTING: usize = 320;

/// Levels of lists and maps inside each other.
pub(super) const MAX_VALUE_DEPTH: u32 = 32;

/// What an element of a list costs, beside what it refers to.
const ELEMENT: u64 = 32;

/// What is left to spend.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: u64,
    bytes: u64,
    output: u64,
    nesting: usize,
    most: [u64; 3],
}

impl Budget {
    /// For variables of this many bytes: a template must pass over a long chat a few times.
    pub(crate) fn for_input(size: u64) -> Budget {
        let grown = |least: u64, times: u64| least.saturating_add(size.saturating_mul(times));
        let (steps, bytes, output) = (grown(STEPS, 16), grown(BYTES, 64), grown(OUTPUT, 4));
        Budget { steps, bytes, output, nesting: NESTING, most: [steps, bytes, output] }
    }

    /// Pays for work that takes `n` steps.
    pub(super) fn work(&mut self, n: u64) -> Result<()> {
        let most = self.most[0];
        self.steps = self.steps.checked_sub(n).ok_or_else(|| {
            Problem::new(format!("it does not end within {most} steps; a loop or a macro in it runs too often"))
        })?;
        Ok(())
    }

    /// Pays for reading a text of `n` bytes.
    pub(super) fn scan(&mut self, n: usize) -> Result<()> {
        self.work(n as u64 / 32 + 1)
    }

    /// Pays for looking through `n` names for one, each of which may be as long and end differently.
    pub(super) fn search(&mut self, n: usize, name: &str) -> Result<()> {
        self.work((n as u64).saturating_mul(name.len() as u64 / 32 + 1) / 4)
    }

    /// Pays for a text of `n` bytes that is about to be made, and for writing it.
    pub(super) fn make(&mut self, n: u64) -> Result<()> {
        let most = self.most[1];
        self.bytes = self.bytes.checked_sub(n).ok_or_else(|| {
            Problem::new(format!(
                "it makes more than {most} bytes of text and lists; a text or a list in it grows without end"
            ))
        })?;
        self.work(n / 32 + 1)
    }

    /// Pays for a list of `n` elements.
    pub(super) fn make_list(&mut self, n: usize) -> Result<()> {
        self.make((n as u64).saturating_mul(ELEMENT))
    }

    /// Pays for `n` bytes of the prompt.
    pub(super) fn emit(&mut self, n: usize) -> Result<()> {
        let most = self.most[2];
        self.output = self.output.checked_sub(n as u64).ok_or_else(|| {
            Problem::new(format!("the prompt would have more than {most} bytes, far more than its messages"))
        })?;
        Ok(())
    }

    /// Goes one level down; [`leave`](Self::leave) comes back up, unless there was an error, which ends everything.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.nesting = self.nesting.checked_sub(1).ok_or_else(|| {
            Problem::new(format!(
                "it nests more than {NESTING} expressions and macro calls; a macro in it may call itself"
            ))
        })?;
        self.work(1)
    }

    pub(super) fn leave(&mut self) {
        self.nesting += 1;
    }
}
