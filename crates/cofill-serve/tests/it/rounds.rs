use crate::support::{Listening, Server, all, chat, config, eventually};
use cofill::spec::Entry;
use cofill::{Picks, Policy, Registry, Sampler, StepView, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_result_does_not_depend_on_who_else_is_served() {
    let server = Server::new();
    let body = |i: u64| {
        let model = if i.is_multiple_of(3) { "tiny-dream" } else { "tiny-llada" };
        chat(json!({"model": model, "temperature": 0.8, "seed": i, "max_tokens": 20 + 3 * i, "return_token_ids": true}))
    };
    let ids = |it: &Value| it["choices"][0]["token_ids"].clone();
    let mut alone = Vec::new();
    for i in 0..8 {
        alone.push(ids(&server.post("/v1/chat/completions", &body(i)).await.fine()));
    }
    let asked = (0..8).map(|i| {
        let server = server.clone();
        tokio::spawn(async move { server.post("/v1/chat/completions", &body(i)).await.fine() })
    });
    let asked: Vec<_> = asked.collect();
    // Some who leave in the middle.
    for i in 20..24 {
        let server = server.clone();
        let gone = tokio::spawn(async move { server.post("/v1/chat/completions", &body(i)).await });
        tokio::time::sleep(Duration::from_millis(3)).await;
        gone.abort();
    }
    for (i, asked) in asked.into_iter().enumerate() {
        assert_eq!(ids(&asked.await.unwrap()), alone[i], "{i}");
    }
}

/// Commits one position a step, and counts; slow enough to be interrupted.
struct Slow(Arc<AtomicUsize>);

impl Sampler for Slow {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> cofill::Result<Verdict> {
        std::thread::sleep(Duration::from_millis(10));
        self.0.fetch_add(1, Ordering::Relaxed);
        view.slots().take(1).for_each(|slot| picks.push(view, slot, view.confidence(slot)));
        Ok(Verdict::Commit)
    }
}

struct Panics;

impl Sampler for Panics {
    fn select(&mut self, _: &StepView<'_>, _: &mut Picks) -> cofill::Result<Verdict> {
        panic!("on purpose")
    }
}

fn slow(steps: &Arc<AtomicUsize>) -> cofill_serve::Config {
    let steps = steps.clone();
    let entry =
        Entry::new("slow", "for tests", move |_, _| Ok(Policy::Commits(Box::new(Slow(steps.clone()))))).version(1);
    let mut config = config();
    config.sampler = Registry::default().with(entry).unwrap().parse("slow").unwrap();
    config
}

#[tokio::test]
async fn a_sampler_that_panics_ends_its_request_alone() {
    let entry = Entry::new("panics", "for tests", |_, _| Ok(Policy::Commits(Box::new(Panics)))).version(1);
    let mut config = config();
    config.sampler = Registry::default().with(entry).unwrap().parse("panics").unwrap();
    let server = Server::with(config, &["tiny-llada"]);
    let fine = json!({"cofill": {"sampler": "topk:1"}});
    let (bad, good) = tokio::join!(server.chat(json!({})), server.chat(fine.clone()));
    bad.refused(500, "decode_failed", &["panicked"]);
    assert_eq!(bad.headers["x-should-retry"], "false");
    good.fine();
    server.chat(fine).await.fine();
}

#[tokio::test]
async fn a_forward_that_fails_ends_only_who_cannot_be_computed() {
    let server = Server::new();
    let bad = json!({"model": "tiny-dream", "tokens": [null, null, 5]});
    let good = chat(json!({"model": "tiny-dream"}));
    let (bad, good) = tokio::join!(server.post("/v1/cofill/decode", &bad), server.post("/v1/chat/completions", &good));
    bad.refused(500, "decode_failed", &[]);
    good.fine();
}

#[test]
fn a_client_that_leaves_frees_its_place_and_its_queued_requests_never_run() {
    let steps = Arc::new(AtomicUsize::new(0));
    let mut config = slow(&steps);
    config.max_live = 1;
    let server = Listening::new(config, &["tiny-llada"]);
    let body = chat(json!({"max_tokens": 200}));
    for path in ["stream", "whole"] {
        let body = crate::support::with(body.clone(), json!({"stream": path == "stream"}));
        let running = server.send("/v1/chat/completions", &body);
        eventually("it runs", || steps.load(Ordering::Relaxed) > 2);
        let queued = server.send("/v1/chat/completions", &body);
        eventually("one waits", || server.metric("cofill_requests_waiting") == 1.0);
        let ran = |steps: &AtomicUsize| steps.load(Ordering::Relaxed);
        drop(queued);
        eventually("nobody waits", || server.metric("cofill_requests_waiting") == 0.0);
        drop(running);
        eventually("nobody runs", || server.metric("cofill_requests_running") == 0.0);
        let after = ran(&steps);
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(ran(&steps), after, "{path}: nothing is computed for nobody");
        steps.store(0, Ordering::Relaxed);
    }
    assert_eq!(server.metric("cofill_cancelled_total{reason=\"disconnect\"}"), 4.0);
}

#[test]
fn a_full_queue_says_when_to_come_again_and_tokenises_nothing() {
    let steps = Arc::new(AtomicUsize::new(0));
    let mut config = slow(&steps);
    (config.max_live, config.max_queue) = (1, 1);
    let server = Listening::new(config, &["tiny-llada"]);
    let body = chat(json!({"max_tokens": 100}));
    let held = [server.send("/v1/chat/completions", &body), server.send("/v1/chat/completions", &body)];
    eventually("both are in", || server.metric("cofill_requests_waiting") == 1.0);
    let begun = Instant::now();
    // As long as may be, so that reading it would take time.
    let long = chat(json!({"messages": [{"role": "user", "content": "x ".repeat(500_000)}]}));
    let refused = all(server.send("/v1/chat/completions", &long));
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("queue_full"), "{refused}");
    let retry = refused.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=60).contains(&retry.trim().parse::<u64>().unwrap()), "{retry}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(all(server.send("/v1/chat/completions", &chat(json!({"n": 3, "temperature": 1})))).contains("queue_full"));
    assert_eq!(server.metric("cofill_rejected_total{reason=\"queue_full\"}"), 2.0);
    drop(held);
    eventually("room again", || server.metric("cofill_requests_running") == 0.0);
}

#[test]
fn who_waits_too_long_is_told_and_who_takes_too_long_gets_what_is_settled() {
    let steps = Arc::new(AtomicUsize::new(0));
    let mut config = slow(&steps);
    config.max_live = 1;
    config.queue_timeout = Duration::from_millis(1500);
    let server = Listening::new(config, &["tiny-llada"]);
    let running = server.send("/v1/chat/completions", &chat(json!({"max_tokens": 200, "ignore_eos": true}))); // 2 s at least
    eventually("it runs", || steps.load(Ordering::Relaxed) > 0);
    let waited = all(server.send("/v1/chat/completions", &chat(json!({}))));
    assert!(waited.starts_with("HTTP/1.1 503") && waited.contains("queue_timeout"), "{waited}");
    assert!(waited.contains("retry-after: "));
    drop(running);
    eventually("room again", || server.metric("cofill_requests_running") == 0.0);
    let late = all(server.send(
        "/v1/chat/completions",
        &chat(json!({"max_tokens": 150, "ignore_eos": true, "cofill": {"timeout_ms": 150}})),
    ));
    assert!(late.contains("\"finish\":\"capped\"") && late.contains("\"finish_reason\":\"length\""), "{late}");
}

#[test]
fn the_signal_to_end_lets_what_is_under_way_end() {
    let steps = Arc::new(AtomicUsize::new(0));
    let server = Listening::new(slow(&steps), &["tiny-llada"]);
    let body = chat(json!({"stream": true, "max_tokens": 30}));
    let running = server.send("/v1/chat/completions", &body);
    eventually("it runs", || steps.load(Ordering::Relaxed) > 0);
    server.stop();
    let told = all(running);
    assert!(told.contains("\"finish_reason\":\"") && told.contains("[DONE]"), "{told}");
    server.wait();
}

#[test]
fn who_comes_while_it_ends_is_told_so() {
    let steps = Arc::new(AtomicUsize::new(0));
    let server = Listening::new(slow(&steps), &["tiny-llada"]);
    let running = server.send("/v1/chat/completions", &chat(json!({"stream": true, "max_tokens": 100})));
    eventually("it runs", || steps.load(Ordering::Relaxed) > 0);
    server.stop();
    eventually("it drains", || {
        server.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").starts_with("HTTP/1.1 503")
    });
    let late = all(server.send("/v1/chat/completions", &chat(json!({}))));
    assert!(late.starts_with("HTTP/1.1 503") && late.contains("\"code\":\"draining\""), "{late}");
    assert!(all(running).contains("[DONE]"));
    server.wait();
}

#[test]
fn what_does_not_end_in_time_is_told_so() {
    let steps = Arc::new(AtomicUsize::new(0));
    let mut config = slow(&steps);
    config.drain = Duration::from_millis(100);
    let server = Listening::new(config, &["tiny-llada"]);
    let running = server.send("/v1/chat/completions", &chat(json!({"stream": true, "max_tokens": 200})));
    eventually("it runs", || steps.load(Ordering::Relaxed) > 0);
    let begun = Instant::now();
    server.stop();
    let told = all(running);
    assert!(told.contains("\"code\":\"draining\"") && told.contains("[DONE]"), "{told}");
    server.wait();
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_slow_reader_neither_stops_others_nor_loses_the_end() {
    let server = Listening::new(config(), &["tiny-llada"]);
    let body = chat(json!({"stream": true, "cofill": {"stream": "delta", "sampler": "topk:1"}, "max_tokens": 200}));
    let slow = server.send("/v1/chat/completions", &body);
    let other = all(server.send("/v1/chat/completions", &chat(json!({}))));
    assert!(other.starts_with("HTTP/1.1 200"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(all(slow).contains("[DONE]"));
}

#[test]
fn short_requests_overtake_long_ones_and_long_ones_still_end() {
    let steps = Arc::new(AtomicUsize::new(0));
    let mut config = slow(&steps);
    config.round_positions = 64; // one canvas a round
    let server = Listening::new(config, &["tiny-llada"]);
    let long = server.send("/v1/chat/completions", &chat(json!({"max_tokens": 60})));
    eventually("it runs", || steps.load(Ordering::Relaxed) > 1);
    let short = all(server.send("/v1/chat/completions", &chat(json!({"max_tokens": 4}))));
    assert!(short.starts_with("HTTP/1.1 200"), "{short}");
    assert!(server.metric("cofill_requests_running") > 0.0, "the long one is not done yet");
    assert!(all(long).starts_with("HTTP/1.1 200"));
}
