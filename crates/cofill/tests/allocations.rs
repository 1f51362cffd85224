//! A warm step allocates nothing: not for its ranking, not for its rule, not for its picks.
//!
//! A binary of its own, because it replaces the global allocator by one that counts, per thread.
#![allow(unsafe_code, clippy::unwrap_used)]

use cofill::control::{Control, ControlMatrix};
use cofill::{
    Attention, Canvas, Decode, Denoiser, Layers, Needs, Picks, Policy, Prediction, Query, Result, RowStats, Sampler,
    SamplerSpec, Schedule, Snapshot, StepView, TokenId, Verdict, generate,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

struct Counting;

thread_local! {
    // Constant and without a destructor, so that counting does not itself allocate.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that is being torn down has no counter any more, and nobody reads it.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches nothing but a thread-local number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `block` came from `System`, as all blocks do.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// (candidates, picks, allocations) of every call of `select`.
type Log = Arc<Mutex<Vec<(usize, usize, usize)>>>;

/// Counts what the sampler inside allocates.
struct Watched {
    inner: Box<dyn Sampler>,
    log: Log,
}

impl Sampler for Watched {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn begin(&mut self, job: &cofill::Job) -> Result<usize> {
        self.inner.begin(job)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let before = ALLOCATIONS.get();
        let verdict = self.inner.select(view, picks)?;
        let allocations = ALLOCATIONS.get() - before;
        self.log.lock().unwrap().push((view.len(), picks.len(), allocations));
        Ok(verdict)
    }
}

const MASK: TokenId = 1000;

/// |M| of the first step of each block.
const BLOCK: usize = 512;

/// Fixed numbers, the same in every block: confidences all over (0, 1), each position attending to a few others.
struct Fixed;

impl Denoiser for Fixed {
    fn mask_id(&self) -> TokenId {
        MASK
    }

    fn vocab(&self) -> usize {
        1001
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let row = |&i: &usize| {
            let confidence = (i % BLOCK * 373 % 1009) as f64 / 1009.0;
            RowStats::new(0, confidence).margin(confidence).entropy(1.0 - confidence)
        };
        let answer = |query: &Query<'_>| {
            let near = |q: usize, k: usize| query.rows[q].abs_diff(query.rows[k]) < 4;
            let attention = Attention::from_fn(query.rows.len(), |q, k| if near(q, k) { 0.1 } else { 0.0 });
            Prediction::new(query.rows.iter().map(row).collect()).attention(query.attention.map(|_| attention))
        };
        Ok(batch.iter().map(answer).collect())
    }
}

/// Decodes two blocks.
fn watch(sampler: &str) -> Vec<(usize, usize, usize)> {
    let Policy::Commits(inner) = sampler.parse::<SamplerSpec>().unwrap().build().unwrap() else {
        panic!("{sampler} remasks");
    };
    let log = Log::default();
    let policy = Policy::Commits(Box::new(Watched { inner, log: log.clone() }));
    let mut decode = Decode::builder(Canvas::prompt(&[], 2 * BLOCK, MASK), policy)
        .schedule(Schedule::Blocks { len: BLOCK })
        .begin()
        .unwrap();
    generate(&mut Fixed, &mut decode).unwrap();
    drop(decode);
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}

/// The first block is the warm-up; the second repeats it, number for number, and must find every buffer large enough.
#[track_caller]
fn check(sampler: &str) {
    let steps = watch(sampler);
    let (cold, warm) = steps.split_at(steps.len() / 2);
    assert_eq!((cold[0].0, warm[0].0), (BLOCK, BLOCK), "{sampler}: both start with all of their candidates");
    assert!(cold[0].2 > 0, "{sampler}: the first step fills its buffers, or nothing is being counted");
    for (&(candidates, picks, _), &(again, same, allocations)) in cold.iter().zip(warm) {
        assert_eq!((candidates, picks), (again, same), "{sampler}: the blocks are alike");
        assert_eq!(allocations, 0, "{sampler}: {picks} picks of {candidates}");
    }
    // Top-k picks equally many each step, so one step is warm-up enough; along paths, how many terms a column takes varies.
    if sampler.starts_with("topk") && !sampler.contains("paths") {
        assert!(cold[1..].iter().all(|step| step.2 == 0), "{sampler}: {cold:?}");
    }
}

#[test]
fn a_warm_topk_step_allocates_nothing() {
    check("topk:8+ad");
}

#[test]
fn a_warm_fast_step_allocates_nothing() {
    check("fast:5+ad");
}

#[test]
fn a_warm_eb_step_allocates_nothing() {
    check("eb:3+ad");
}

#[test]
fn warm_steps_along_paths_allocate_nothing() {
    for sampler in [
        "topk:8+paths",
        "fast:5+paths",
        "eb:3+paths:400",
        "topk:8+ad@paths",
        "topk:8+ad@doubt@veto",
        "topk:8+ad@source=distance",
    ] {
        check(sampler);
    }
}

#[test]
fn the_base_samplers_allocate_nothing_either() {
    for sampler in [
        "topk:8",
        "fast:5",
        "fast-profile:5+ad",
        "fast-sum:5",
        "eb:3",
        "topk:8@margin",
        "topk:8@entropy",
        "topk:8+ad@weight=mask",
    ] {
        check(sampler);
    }
}

#[test]
fn a_warm_control_allocates_nothing() {
    let step = |n: usize| Snapshot::new(&vec![0.5; n]).attention(Attention::from_fn(n, |_, _| 1.0 / n as f64));
    let needs = Needs::default().attention(Layers::Last);
    for control in Control::ALL {
        let mut matrix = ControlMatrix::new(control);
        let mut allocations = |n: usize| {
            let made = step(n).view(&needs, |view| {
                let before = ALLOCATIONS.get();
                matrix.of(view);
                Ok(ALLOCATIONS.get() - before)
            });
            made.unwrap()
        };
        assert!(allocations(BLOCK) > 0, "{control}: the first step fills its buffers");
        assert_eq!([allocations(BLOCK), allocations(BLOCK / 2), allocations(BLOCK)], [0; 3], "{control}");
    }
}
