//! How much is accepted: counted when a request is checked, before anything is spent on it.

use crate::error::ApiError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Who would wait while so many times the longest wait is computed is refused at once, but never for less than this many seconds: what is
/// left is estimated, and roughly.
const HOPELESS: f64 = 10.0;
const ROUGHLY: f64 = 60.0;

/// What is under way, and how much of it there may be.
#[derive(Debug)]
pub(crate) struct Limits {
    most: usize,
    live: usize,
    per_key: Option<usize>,
    queue_timeout: Duration,
    inside: AtomicUsize,
    by_key: Mutex<HashMap<usize, usize>>,
    /// Nothing new is taken any more.
    pub draining: AtomicBool,
    /// Positions x forwards that are still to be computed, as the scheduler estimates.
    pub backlog: AtomicU64,
    /// Positions x forwards that are computed in a second; 0 while nobody knows.
    pub rate: AtomicU64,
}

impl Limits {
    /// `live` decodes may run and `queue` more may wait. With several keys, no single one may hold more than half of that.
    pub(crate) fn new(live: usize, queue: usize, keys: usize, queue_timeout: Duration) -> Limits {
        let most = live + queue;
        Limits {
            most,
            live,
            per_key: (keys > 1).then_some(most.div_ceil(2)),
            queue_timeout,
            inside: AtomicUsize::new(0),
            by_key: Mutex::new(HashMap::new()),
            draining: AtomicBool::new(false),
            backlog: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// How long what is under way will take, in seconds.
    pub(crate) fn drain_seconds(&self) -> f64 {
        let (backlog, rate) = (self.backlog.load(Ordering::Relaxed), self.rate.load(Ordering::Relaxed));
        if rate == 0 { 0.0 } else { backlog as f64 / rate as f64 }
    }

    /// How many decodes were accepted and have not ended.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    /// Room for `n` decodes of a key, or the refusal.
    pub(crate) fn enter(self: &Arc<Limits>, n: usize, key: Option<usize>) -> Result<Vec<Permit>, ApiError> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(ApiError::unavailable("draining", "the server is shutting down; ask another, or later", 5));
        }
        let drain = self.drain_seconds();
        let retry = drain.ceil() as u64;
        let full = |said: String| ApiError::busy("queue_full", said, retry);
        if self.inside() >= self.live && drain > (HOPELESS * self.queue_timeout.as_secs_f64()).max(ROUGHLY) {
            return Err(full(format!(
                "what waits already takes about {retry} s, longer than anything may wait; come again"
            )));
        }
        let taken = self.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |inside| {
            Some(inside + n).filter(|&after| after <= self.most)
        });
        if let Err(inside) = taken {
            let most = self.most;
            return Err(full(format!(
                "{inside} of at most {most} requests are under way, and {n} more do not fit; come again"
            )));
        }
        let mut permits: Vec<Permit> = (0..n).map(|_| Permit { limits: self.clone(), key: None }).collect();
        if let (Some(most), Some(key)) = (self.per_key, key) {
            let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            let held = by_key.entry(key).or_default();
            if *held + n > most {
                let said = format!(
                    "this key has {held} requests under way, and at most {most} may be one key's; wait for one"
                );
                drop(by_key); // the permits below lock it, too
                return Err(ApiError::busy("key_busy", said, retry));
            }
            *held += n;
            permits.iter_mut().for_each(|permit| permit.key = Some(key));
        }
        Ok(permits)
    }
}

/// Room for one decode; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limits: Arc<Limits>,
    key: Option<usize>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.inside.fetch_sub(1, Ordering::Relaxed);
        if let Some(key) = self.key {
            let mut by_key = self.limits.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(held) = by_key.get_mut(&key) {
                *held = held.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_and_given_back() {
        let limits = Arc::new(Limits::new(1, 2, 0, Duration::from_secs(60)));
        let two = limits.enter(2, None).unwrap();
        let refused = limits.enter(2, None).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (Some("queue_full"), Some(1)));
        assert_eq!(limits.inside(), 2, "a refusal takes nothing");
        drop(two);
        assert_eq!(limits.enter(3, None).unwrap().len(), 3);
        assert_eq!(limits.inside(), 0);
    }

    #[test]
    fn no_key_holds_more_than_half() {
        let limits = Arc::new(Limits::new(2, 2, 2, Duration::from_secs(60)));
        let held = limits.enter(2, Some(0)).unwrap();
        assert_eq!(limits.enter(1, Some(0)).unwrap_err().code, Some("key_busy"));
        assert_eq!(limits.enter(1, Some(1)).unwrap().len(), 1);
        drop(held);
        assert!(limits.enter(2, Some(0)).is_ok());
    }

    #[test]
    fn what_would_wait_too_long_is_told_when_to_come_again() {
        let limits = Arc::new(Limits::new(1, 8, 0, Duration::from_secs(7)));
        limits.rate.store(100, Ordering::Relaxed);
        limits.backlog.store(7_100, Ordering::Relaxed);
        let live = limits.enter(1, None).unwrap(); // does not wait
        assert_eq!(limits.enter(1, None).unwrap_err().retry_after, Some(60), "71 s, more than 10 x 7");
        limits.backlog.store(6_900, Ordering::Relaxed);
        assert!(limits.enter(1, None).is_ok(), "69 s");
        drop(live);
        let short = Arc::new(Limits::new(1, 8, 0, Duration::from_secs(1)));
        short.rate.store(100, Ordering::Relaxed);
        let _live = short.enter(1, None).unwrap();
        short.backlog.store(5_900, Ordering::Relaxed);
        assert!(short.enter(1, None).is_ok(), "59 s, which is only estimated");
    }
}
