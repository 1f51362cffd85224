//! Write a sampler of your own, give it a name, and compare it with Top-k.
//!
//! `Peaks` commits the candidates that are surer than the candidates next to them: neighbours tend to depend on each other.
//!
//! Run with: cargo run -p cofill --example own_sampler
#![allow(clippy::print_stdout)]

use cofill::spec::{Entry, Param};
use cofill::toy::Toy;
use cofill::{Canvas, Decode, Denoiser, Picks, Policy, Registry, Result, Sampler, Slot, StepView, Verdict, generate};

struct Peaks {
    floor: f64,
}

impl Sampler for Peaks {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let c = |i: usize| if i < view.len() { view.confidence(Slot(i)) } else { 0.0 };
        for slot in view.slots() {
            let (left, here, right) = (c(slot.0.wrapping_sub(1)), c(slot.0), c(slot.0 + 1));
            if here > left && here > right && here > self.floor {
                picks.push(view, slot, here);
            }
        }
        Ok(picks.or_surest(view)) // every step commits something
    }
}

/// Our samplers and one more: `peaks`, or `peaks:0.5` with a floor of its own.
fn registry() -> Result<Registry> {
    let peaks = Entry::new("peaks", "surer than both neighbours", |values, _| {
        Ok(Policy::Commits(Box::new(Peaks { floor: values.param(0) })))
    })
    .params([Param::number("FLOOR", 0.0, 1.0).default(0.3)])
    .version(1); // to be raised whenever `select` would decide differently
    Registry::default().with(peaks)
}

/// Forwards, and what committing together cost: the information, in nats, that the positions of each step had about each other.
/// On a real model it is unknown; the toy can compute it.
fn benchmark(registry: &Registry, sampler: &str) -> Result<(usize, f64)> {
    let mut toy = Toy::phrases(48);
    let canvas = Canvas::prompt(&[], toy.len(), toy.mask_id());
    let mut replay = canvas.clone();
    let mut decode = Decode::new(canvas, registry.parse(sampler)?.build()?)?;
    let mut error = 0.0;
    for step in generate(&mut toy, &mut decode)? {
        let together: Vec<usize> = step.commits.iter().map(|commit| commit.position).collect();
        error += toy.multi_information(replay.tokens(), &together);
        step.apply(&mut replay)?;
    }
    Ok((decode.nfe(), error))
}

fn main() -> Result<()> {
    let registry = registry()?;
    println!("{:14} {:>8} {:>16}", "sampler", "forwards", "dependence error");
    for sampler in ["topk:1", "topk:2", "topk:2+ad", "peaks", "peaks:0.6"] {
        let (nfe, error) = benchmark(&registry, sampler)?;
        println!("{:14} {nfe:8} {error:16.2}", registry.parse(sampler)?.to_string());
    }
    Ok(())
}

#[test]
fn peaks_never_writes_both_words_of_a_name_at_once() {
    let registry = registry().unwrap();
    let (nfe, error) = benchmark(&registry, "peaks").unwrap();
    assert_eq!(error, 0.0, "neighbours are never committed together");
    let (top_2, top_2_error) = benchmark(&registry, "topk:2").unwrap();
    assert!(nfe <= top_2 && top_2_error > 0.0, "{nfe} forwards, Top-k {top_2} and {top_2_error} nats");
}
