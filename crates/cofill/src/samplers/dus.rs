//! DUS: commit positions far apart, by geometry alone.
//!
//! A block of B is filled in levels: every (B/2)-th position, then every (B/4)-th of the rest, down to the neighbours. No model
//! output decides anything, so every block takes about log2 B forwards. The reference code can also remask unsure tokens that
//! its schedule never visits again, which leaves masks in the output; that is not reproduced.

use crate::spec::{Entry, Param, Values};
use crate::{Error, Job, Picks, Policy, Result, Sampler, StepView, Verdict};

/// The levels of each block.
pub(crate) struct Dus {
    block: usize,
    levels: Vec<Vec<usize>>, // canvas positions, in the order they are committed
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| Ok(Policy::Commits(Box::new(Dus { block: v.count(0), levels: Vec::new() })));
    Entry::new("dus", "dilated positions, level by level", build)
        .params([Param::count("BLOCK", 1, u32::MAX as u64).default(32.0)])
        .source("Luxembourg et al. 2025 (DUS)")
}

/// The levels of a block of `size`, as offsets.
fn levels(size: usize) -> Vec<Vec<usize>> {
    let mut taken = vec![false; size];
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut stride = size / 2;
    loop {
        let step = stride.max(1);
        let level: Vec<usize> = (0..size).step_by(step).filter(|&i| !taken[i]).collect();
        level.iter().for_each(|&i| taken[i] = true);
        if !level.is_empty() {
            levels.push(level);
        }
        if step == 1 {
            break;
        }
        stride /= 2;
    }
    // A last level smaller than the one before is not worth a forward of its own.
    if let [.., before, last] = levels.as_slice()
        && last.len() < before.len()
    {
        let last = levels.pop().expect("matched above");
        let before = levels.last_mut().expect("matched above");
        before.extend(last);
        before.sort_unstable();
    }
    levels
}

impl Sampler for Dus {
    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.levels.clear();
        for start in job.window.clone().step_by(self.block) {
            let size = self.block.min(job.window.end - start);
            let shift = |level: Vec<usize>| level.into_iter().map(|i| start + i).collect();
            self.levels.extend(levels(size).into_iter().map(shift));
        }
        Ok(job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        for level in &self.levels {
            for slot in view.slots().filter(|&slot| level.binary_search(&view.position(slot)).is_ok()) {
                picks.push(view, slot, view.confidence(slot));
            }
            if !picks.is_empty() {
                return Ok(Verdict::Commit);
            }
        }
        // Every masked position lies in the window, and the levels cover it, once they have been made.
        Err(Error::Contract { who: "caller", problem: "it shows a step without `begin`".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, decode_toy};

    #[test]
    fn t22_levels() {
        assert_eq!(levels(8), [vec![0, 4], vec![2, 6], vec![1, 3, 5, 7]]);
        assert_eq!(levels(6), [vec![0, 3], vec![1, 2, 4, 5]]);
        assert_eq!(levels(10), [vec![0, 5], vec![2, 4, 6, 8], vec![1, 3, 7, 9]]);
        assert_eq!(levels(1), [vec![0]]);
        // Stride 2 takes three, stride 1 the other two: fewer, so they are merged.
        assert_eq!(levels(5), [vec![0, 1, 2, 3, 4]]);
    }

    #[test]
    fn every_level_covers_its_block_once() {
        for size in 1..200 {
            let mut all: Vec<usize> = levels(size).concat();
            all.sort_unstable();
            assert_eq!(all, (0..size).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_filled_one_after_the_other() {
        let steps = decode_toy(Toy::phrases(12), "dus:8", None);
        let commits: Vec<Vec<usize>> = steps.iter().map(|s| s.commits.iter().map(|c| c.position).collect()).collect();
        // The last block holds four positions: stride 2, then 1.
        let want = [vec![0, 4], vec![2, 6], vec![1, 3, 5, 7], vec![8, 10], vec![9, 11]];
        assert_eq!(commits, want);
    }
}
