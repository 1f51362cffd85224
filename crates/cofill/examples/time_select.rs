//! Times one `select` over the grid of `benches/workload` and prints a JSON line per cell; `cofill bench select` has the paper's
//! formula and a forward beside it.
//!
//! Run with: cargo run --release -p cofill --example time_select
#![allow(clippy::print_stdout)]

#[path = "../benches/workload/mod.rs"]
mod workload;

use cofill::Revision;
use std::time::Instant;
use workload::{CHOSEN, MASKED, is_too_long, samplers, step};

fn main() -> cofill::Result<()> {
    for masked in MASKED {
        let step = step(masked);
        for chosen in CHOSEN {
            for (rule, spec) in samplers(chosen).into_iter().filter(|(rule, _)| !is_too_long(rule, masked, chosen)) {
                let mut policy = spec.build()?;
                let needs = policy.needs();
                let best = step.view(&needs, |view| {
                    let mut revision = Revision::default();
                    let mut best = f64::INFINITY;
                    let repeats = 2_000_000 / (masked * chosen) + 1;
                    for _ in 0..10 {
                        let start = Instant::now();
                        for _ in 0..repeats {
                            std::hint::black_box(policy.step(std::hint::black_box(view), &mut revision)?);
                        }
                        best = best.min(start.elapsed().as_secs_f64() * 1e6 / repeats as f64);
                    }
                    assert_eq!(revision.picks.len(), chosen);
                    Ok(best)
                })?;
                println!("{{\"rule\":\"{rule}\",\"masked\":{masked},\"chosen\":{chosen},\"us\":{best:.3}}}");
            }
        }
    }
    Ok(())
}
