//! `cargo bench -p cofill`: one `select` of Algorithm 1, by |M| and |S|. The goal is under 15 µs for 512 and 8.

mod workload;

use cofill::{Policy, Revision};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use workload::{CHOSEN, MASKED, samplers, step};

fn select(c: &mut Criterion) {
    for masked in MASKED {
        let step = step(masked);
        for chosen in CHOSEN.into_iter().filter(|&chosen| chosen <= masked) {
            for (rule, spec) in samplers(chosen) {
                let mut policy: Policy = spec.build().expect("a valid sampler");
                let mut group = c.benchmark_group(format!("select/{rule}"));
                group.throughput(Throughput::Elements((masked * chosen) as u64));
                let id = BenchmarkId::from_parameter(format!("M{masked}/S{chosen}"));
                let needs = policy.needs();
                step.view(&needs, |view| {
                    let mut revision = Revision::default();
                    policy.step(view, &mut revision)?;
                    assert_eq!(revision.picks.len(), chosen, "{spec} on {masked}");
                    group.bench_function(id, |b| b.iter(|| policy.step(view, &mut revision)));
                    Ok(())
                })
                .expect("the workload is valid");
            }
        }
    }
}

criterion_group!(benches, select);
criterion_main!(benches);
