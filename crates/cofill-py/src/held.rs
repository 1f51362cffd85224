//! What this thread holds: whoever is called back from inside must not wait for it.
//!
//! A sampler written in Python is asked while its decode, and the engine behind it, are held. If it used one of them, it would wait for itself.

use crate::errors::request;
use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// Addresses of what is held, the latest last.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Holds something until it is dropped, for the thread that made it.
pub(crate) struct Held;

impl Held {
    pub(crate) fn hold<T>(thing: &T) -> Held {
        HELD.with_borrow_mut(|held| held.push(address(thing)));
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}

/// Refuses what would wait for itself.
pub(crate) fn refuse_if_held<T>(thing: &T, what: &str) -> PyResult<()> {
    match HELD.with_borrow(|held| held.contains(&address(thing))) {
        true => Err(request(format!("a sampler cannot use the {what} that asks it; take what you need before"))),
        false => Ok(()),
    }
}

fn address<T>(thing: &T) -> usize {
    std::ptr::from_ref(thing).addr()
}
