//! A sampler from a crate of its own: decoded, scored, swept and reported beside ours, by the calls that the commands make.
//!
//! `Peaks` commits the candidates that are surer than the candidates next to them: neighbours tend to depend on each other.
//!
//! Run with: cargo run -p own-sampler
#![allow(clippy::print_stdout)]

use anyhow::Result;
use cofill::spec::{Entry, Param};
use cofill::{Picks, Policy, Registry, Sampler, Slot, StepView, Verdict};
use cofill_engine::{DEFAULT_MODEL, Engine, Input, RunOptions, provenance};
use cofill_eval::open::{Error, Evaluation};
use cofill_eval::recipe::Recipe;
use cofill_eval::spec::EvalSpec;
use cofill_eval::sweep::{Notice, OpenPoints, Places, Share, Sweep, WorkDone, Worker, claim, plan};
use cofill_report::document::markdown::markdown;
use cofill_report::points::{Points, files};
use cofill_report::report::Report;
use cofill_report::results::Totals;
use cofill_report::statistics::bootstrap::Bootstrap;
use std::path::Path;

struct Peaks {
    floor: f64,
}

impl Sampler for Peaks {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> cofill::Result<Verdict> {
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

/// Our samplers and one more: `peaks`, or `peaks:0.5` with a floor of its own. Raise the version whenever it would decide differently:
/// it is part of every result, so that a sweep does not take old answers for new ones.
fn registry(version: u32) -> cofill::Result<Registry> {
    let peaks = Entry::new("peaks", "surer than both neighbours", |values, _| {
        Ok(Policy::Commits(Box::new(Peaks { floor: values.param(0) })))
    });
    Registry::default().with(peaks.params([Param::number("FLOOR", 0.0, 1.0).default(0.3)]).version(version))
}

/// `cofill generate`
fn decode(registry: &Registry, sampler: &str) -> Result<(String, usize)> {
    let options = RunOptions::default();
    let mut engine = Engine::open(DEFAULT_MODEL, &options)?;
    let prepared = engine.prepare(&Input::Nothing, &registry.parse(sampler)?, &options)?;
    let answer = engine.generate(prepared)?;
    Ok((answer.text, answer.nfe))
}

/// `cofill eval --task chain`
fn score(registry: &Registry, sampler: &str, limit: usize) -> Result<Totals> {
    let mut spec = EvalSpec::new("chain".parse().map_err(anyhow::Error::msg)?, DEFAULT_MODEL, registry.parse(sampler)?);
    spec.questions.limit = limit.try_into().ok();
    let mut evaluation = Evaluation::open(&spec)?;
    let mut totals = Totals::default();
    while totals.n < evaluation.docs() {
        evaluation.next(totals.n)?.iter().for_each(|record| totals.add(record));
    }
    Ok(totals)
}

const RECIPE: &str = r#"
about = "Peaks beside Top-k."
[[sweep]]
models = ["tiny-llada"]
tasks = ["chain"]
samplers = ["peaks:{0.3,0.9}", "topk:{1,2}{,+ad}"]
"#;

/// `cofill sweep run`: plan, work, merge.
fn sweep(registry: &Registry, dir: &Path, limit: usize) -> Result<WorkDone> {
    let made_by = provenance("example");
    let recipe = Recipe::parse(Path::new("peaks.toml"), RECIPE, registry)?;
    let places =
        Places { models: ".".into(), data: None, limit: limit.try_into().ok(), unit: 16, allow_command: false };
    plan(&recipe, dir, &places, (registry, &made_by), &mut |warning| println!("{warning}"))?;
    let sweep = Sweep::open(dir)?.with_registry(registry.clone());
    let mut tell = |_: Notice<'_>| {};
    let worker = Worker::new(&sweep, Share::All, claim::LEASE).map_err(Error::from)?;
    let done = worker.work(&mut OpenPoints::new(made_by, &mut tell))?;
    sweep.merge()?;
    Ok(done)
}

/// `cofill report`, which needs no registry: it takes the names that it finds.
fn report(dir: &Path) -> Result<String> {
    let points = Points::new(files::read(&[dir.to_path_buf()])?)?;
    let report = Report::new(points, Bootstrap { resamples: 1000, seed: 0 });
    Ok(markdown(&report.document().blocks))
}

fn main() -> Result<()> {
    let registry = registry(1)?;
    for sampler in ["topk:2", "peaks"] {
        let (text, nfe) = decode(&registry, sampler)?;
        println!("{sampler}, {nfe} forwards:\n{text}\n");
    }
    for sampler in ["topk:2", "peaks"] {
        let totals = score(&registry, sampler, 50)?;
        println!("{sampler}: {:.1} % of {} right, nfe {:.2}", 100.0 * totals.score().0, totals.n, totals.mean_nfe());
    }
    let dir = std::env::temp_dir().join(format!("own-sampler-{}", std::process::id()));
    sweep(&registry, &dir, 50)?;
    println!("\n{}", report(&dir)?);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_decodes_and_is_scored() {
        let registry = registry(1).unwrap();
        let (text, nfe) = decode(&registry, "peaks").unwrap();
        let (_, one_by_one) = decode(&registry, "topk:1").unwrap();
        assert!(text.starts_with("Gus has 10 books") && nfe < one_by_one, "{nfe} of {one_by_one}: {text}");
        let totals = score(&registry, "peaks", 8).unwrap();
        assert_eq!(totals.n, 8);
        assert!(totals.per_forward() > 1.0);
    }

    #[test]
    fn it_is_swept_and_reported_and_a_new_version_is_run_anew() {
        let dir = std::env::temp_dir().join(format!("own-sampler-test-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        let done = sweep(&registry(1).unwrap(), &dir, 4).unwrap();
        assert_eq!((done.units, done.examples), (6, 24));
        let markdown = report(&dir).unwrap();
        assert!(markdown.contains("peaks") && markdown.contains("Top-k"), "{markdown}");
        // The same again has nothing left to do; of another version of the sampler, its own points are run.
        assert_eq!(sweep(&registry(1).unwrap(), &dir, 4).unwrap().units, 0);
        assert_eq!(sweep(&registry(2).unwrap(), &dir, 4).unwrap().units, 2);
        // Without the sampler, what was planned cannot be worked on, and says why.
        let stock = Sweep::open(&dir).unwrap().points().unwrap_err().to_string();
        assert!(stock.contains("unknown sampler `peaks"), "{stock}");
        std::fs::remove_dir_all(&dir).ok();
    }
}
