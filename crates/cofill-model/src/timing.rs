//! Where the time of a forward went.

use std::ops::AddAssign;
use std::time::Duration;

/// Wall-clock time by part; they add up to the forward but for its bookkeeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// Embedding, and every block but the last.
    pub body: Duration,
    /// The last block, for the asked rows, and the final norm.
    pub final_block: Duration,
    /// Logits and the statistics of their rows.
    pub head: Duration,
    /// Reading attention off; wherever that happened, it is not in the other parts.
    pub probe: Duration,
}

impl AddAssign for Timing {
    fn add_assign(&mut self, other: Timing) {
        self.body += other.body;
        self.final_block += other.final_block;
        self.head += other.head;
        self.probe += other.probe;
    }
}
