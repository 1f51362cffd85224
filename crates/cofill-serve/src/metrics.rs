//! Numbers for Prometheus: what comes in, what waits, what the models do.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Histograms = Family<Labels, Histogram, Buckets>;

/// From `first` on, doubling.
#[derive(Debug, Clone, Copy)]
struct Buckets {
    first: f64,
    count: u16,
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(self.first, 2.0, self.count))
    }
}

/// Every number of this server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    began: Instant,
    round_began: AtomicU64, // milliseconds since `began`, plus one; 0 between rounds
    requests: Counters,
    running: Gauges,
    waiting: Gauges,
    rejected: Counters,
    cancelled: Counters,
    queue_seconds: Histograms,
    request_seconds: Histograms,
    first_settled_seconds: Histograms,
    forward_seconds: Histograms,
    forwards: Counters,
    steps: Counters,
    positions: Counters,
    committed: Counters,
    deferred: Counters,
    forced: Counters,
    prompt_tokens: Counters,
    completion_tokens: Counters,
    finished: Counters,
    batch_sequences: Histograms,
    round_age: Gauge<f64, AtomicU64>,
}

/// What one round did.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Round {
    /// Seconds it took.
    pub seconds: f64,
    /// Sequences in it.
    pub sequences: usize,
    /// Positions in it.
    pub positions: usize,
    /// Steps that were completed.
    pub steps: usize,
    /// Positions that were filled.
    pub committed: usize,
    /// Steps in which somebody was passed over.
    pub deferred: usize,
    /// Steps that committed what the rule refused.
    pub forced: usize,
}

impl Metrics {
    /// All zero. With `compat`, the two gauges that routers read also have vLLM's names.
    pub(crate) fn new(compat: bool) -> Metrics {
        let mut registry = Registry::default();
        let seconds = || Histograms::new_with_constructor(Buckets { first: 0.001, count: 18 });
        let metrics = Metrics {
            began: Instant::now(),
            round_began: AtomicU64::new(0),
            requests: Counters::default(),
            running: Gauges::default(),
            waiting: Gauges::default(),
            rejected: Counters::default(),
            cancelled: Counters::default(),
            queue_seconds: seconds(),
            request_seconds: seconds(),
            first_settled_seconds: seconds(),
            forward_seconds: seconds(),
            forwards: Counters::default(),
            steps: Counters::default(),
            positions: Counters::default(),
            committed: Counters::default(),
            deferred: Counters::default(),
            forced: Counters::default(),
            prompt_tokens: Counters::default(),
            completion_tokens: Counters::default(),
            finished: Counters::default(),
            batch_sequences: Histograms::new_with_constructor(Buckets { first: 1.0, count: 8 }),
            round_age: Gauge::default(),
            registry: Mutex::new(Registry::default()),
        };
        let m = &metrics;
        registry.register("cofill_requests", "Requests answered", m.requests.clone());
        registry.register("cofill_requests_running", "Decodes that take part in rounds", m.running.clone());
        registry.register("cofill_requests_waiting", "Decodes that wait for room", m.waiting.clone());
        registry.register("cofill_rejected", "Requests refused for lack of room or time", m.rejected.clone());
        registry.register("cofill_cancelled", "Decodes ended before they were done", m.cancelled.clone());
        registry.register("cofill_queue_seconds", "From being asked for to the first forward", m.queue_seconds.clone());
        registry.register("cofill_request_seconds", "From being asked for to the end", m.request_seconds.clone());
        let help = "From being asked for to the first settled token";
        registry.register("cofill_first_settled_seconds", help, m.first_settled_seconds.clone());
        registry.register("cofill_forward_seconds", "One round of forwards", m.forward_seconds.clone());
        registry.register("cofill_forwards", "Forwards of sequences", m.forwards.clone());
        registry.register("cofill_steps", "Steps completed", m.steps.clone());
        registry.register("cofill_positions", "Positions computed", m.positions.clone());
        registry.register("cofill_committed", "Positions filled", m.committed.clone());
        registry.register("cofill_deferred", "Steps in which a discount passed somebody over", m.deferred.clone());
        registry.register("cofill_forced", "Steps that committed what the rule refused", m.forced.clone());
        registry.register("cofill_prompt_tokens", "Tokens given", m.prompt_tokens.clone());
        registry.register("cofill_completion_tokens", "Tokens answered", m.completion_tokens.clone());
        registry.register("cofill_finished", "How decodes ended: eos, stop, full, capped, empty", m.finished.clone());
        registry.register("cofill_batch_sequences", "Sequences in a round", m.batch_sequences.clone());
        registry.register("cofill_round_age_seconds", "How long the current round has run", m.round_age.clone());
        if compat {
            registry.register("vllm:num_requests_running", "As cofill_requests_running", m.running.clone());
            registry.register("vllm:num_requests_waiting", "As cofill_requests_waiting", m.waiting.clone());
        }
        Metrics { registry: Mutex::new(registry), ..metrics }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &str, code: u16) {
        self.requests.get_or_create(&vec![("route", route.into()), ("code", code.to_string())]).inc();
    }

    /// A request was refused.
    pub(crate) fn rejected(&self, reason: &str) {
        self.rejected.get_or_create(&vec![("reason", reason.into())]).inc();
    }

    /// A decode was ended before it was done.
    pub(crate) fn cancelled(&self, reason: &str) {
        self.cancelled.get_or_create(&vec![("reason", reason.into())]).inc();
    }

    /// How many run and how many wait.
    pub(crate) fn under_way(&self, model: &str, running: usize, waiting: usize) {
        self.running.get_or_create(&of(model)).set(running as i64);
        self.waiting.get_or_create(&of(model)).set(waiting as i64);
    }

    /// A round begins.
    pub(crate) fn round_begins(&self) {
        self.round_began.store(self.began.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// A round has ended.
    pub(crate) fn round_ends(&self, model: &str, round: &Round) {
        self.round_began.store(0, Ordering::Relaxed);
        let of = of(model);
        self.forward_seconds.get_or_create(&of).observe(round.seconds);
        self.batch_sequences.get_or_create(&of).observe(round.sequences as f64);
        let counts = [
            (&self.forwards, round.sequences),
            (&self.positions, round.positions),
            (&self.steps, round.steps),
            (&self.committed, round.committed),
            (&self.deferred, round.deferred),
            (&self.forced, round.forced),
        ];
        for (counter, n) in counts {
            counter.get_or_create(&of).inc_by(n as u64);
        }
    }

    /// How long the current round has run, in seconds; 0 between rounds.
    pub(crate) fn round_age(&self) -> f64 {
        match self.round_began.load(Ordering::Relaxed) {
            0 => 0.0,
            began => (self.began.elapsed().as_millis() as u64 + 1).saturating_sub(began) as f64 / 1e3,
        }
    }

    /// A decode had its first forward so long after it was asked for.
    pub(crate) fn queued(&self, model: &str, seconds: f64) {
        self.queue_seconds.get_or_create(&of(model)).observe(seconds);
    }

    /// A decode had its first settled token so long after it was asked for.
    pub(crate) fn first_settled(&self, model: &str, seconds: f64) {
        self.first_settled_seconds.get_or_create(&of(model)).observe(seconds);
    }

    /// A decode ended.
    pub(crate) fn ended(&self, model: &str, seconds: f64) {
        self.request_seconds.get_or_create(&of(model)).observe(seconds);
    }

    /// What a client was given, and how that ended.
    pub(crate) fn used(&self, model: &str, prompt: usize, completion: usize, finish: &str) {
        self.prompt_tokens.get_or_create(&of(model)).inc_by(prompt as u64);
        self.completion_tokens.get_or_create(&of(model)).inc_by(completion as u64);
        let finish = if completion == 0 { "empty" } else { finish };
        self.finished.get_or_create(&vec![("model", model.into()), ("finish", finish.into())]).inc();
    }

    /// All of it, in Prometheus' text format 0.0.4.
    pub(crate) fn text(&self) -> String {
        self.round_age.set(self.round_age());
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            return String::new();
        }
        // The library writes OpenMetrics, whose counters are declared without `_total`, and which ends with a mark.
        let counters: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
        let declared = |line: &str| {
            let (kind, rest) = line.strip_prefix("# ")?.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            counters.contains(&name).then(|| format!("# {kind} {name}_total {rest}\n"))
        };
        let lines = text.lines().filter(|line| *line != "# EOF");
        lines.map(|line| declared(line).unwrap_or_else(|| format!("{line}\n"))).collect()
    }
}

fn of(model: &str) -> Labels {
    vec![("model", model.into())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_old_format() {
        let metrics = Metrics::new(true);
        metrics.answered("/v1/models", 200);
        metrics.under_way("tiny-llada", 2, 1);
        metrics.round_ends("tiny-llada", &Round { seconds: 0.01, sequences: 2, positions: 60, ..Round::default() });
        let text = metrics.text();
        for line in [
            "# TYPE cofill_requests_total counter",
            "cofill_requests_total{route=\"/v1/models\",code=\"200\"} 1",
            "cofill_requests_running{model=\"tiny-llada\"} 2",
            "vllm:num_requests_waiting{model=\"tiny-llada\"} 1",
            "cofill_positions_total{model=\"tiny-llada\"} 60",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
        assert!(!text.contains("# EOF"));
    }
}
