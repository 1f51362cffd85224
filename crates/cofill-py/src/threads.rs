//! The threads that compute, and the one that listens for Ctrl-C meanwhile.
//!
//! A pool of our own instead of the process's: a process that was forked has none of its parent's threads, and would wait for them for ever.
//! `multiprocessing` forks, and so do workers that load data.

use crate::errors::request;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long Ctrl-C goes unheard.
const LISTENING: Duration = Duration::from_millis(50);

/// Threads to compute with, in this process and in whatever it is forked into.
pub(crate) struct Threads {
    count: Option<usize>,
    /// The process that they are threads of, and they.
    pool: Mutex<(u32, Arc<ThreadPool>)>,
}

impl Threads {
    /// So many, or as many as there are processors.
    pub(crate) fn new(count: Option<usize>) -> PyResult<Threads> {
        let pool = Mutex::new((std::process::id(), made(count)?));
        Ok(Threads { count, pool })
    }

    /// Computes on these threads and waits for the answer.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
        let pool = {
            let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.0 != std::process::id() {
                let gone = std::mem::replace(&mut *pool, (std::process::id(), made(self.count)?));
                std::mem::forget(gone); // nobody is there to be told to end
            }
            Arc::clone(&pool.1)
        };
        pool.install(work)
    }
}

/// Does work that takes long, on a thread of its own, and listens for Ctrl-C meanwhile: it sets the flag that the work is given, and is raised once
/// the work has ended.
pub(crate) fn stoppable<T: Send>(work: impl FnOnce(&Arc<AtomicBool>) -> PyResult<T> + Send) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ((tell, told), flag) = (channel(), Arc::clone(&stop));
        scope.spawn(move || drop(tell.send(work(&flag))));
        let mut raised = None;
        let answer = loop {
            match told.recv_timeout(LISTENING) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Disconnected) => break Err(request("the work ended without an answer")),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(signal) = Python::attach(|py| -> PyResult<()> { py.check_signals() }) {
                        raised.get_or_insert(signal);
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        };
        raised.map_or(answer, Err)
    })
}

fn made(count: Option<usize>) -> PyResult<Arc<ThreadPool>> {
    let pool = ThreadPoolBuilder::new().num_threads(count.unwrap_or(0)).build(); // 0 is as many as there are processors
    pool.map(Arc::new).map_err(|error| request(format!("threads: {error}")))
}
