//! Many live decodes, one batched forward.
//!
//! A pool steps all of its decodes together. The result of a decode does not depend on the others in the pool: queries
//! are independent, and so is all randomness.

use crate::{Decode, Denoiser, Error, Finish, Result, Step, ask};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Names a decode in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What one round did to one decode.
#[derive(Debug)]
pub struct Event {
    /// The decode that this happened to.
    pub ticket: Ticket,
    /// The step it completed, `None` when its sampler asks for another forward first. A decode that fails has left the pool.
    pub step: Result<Option<Step>>,
}

/// Live decodes. Between rounds any of them can be looked at, cancelled, or joined by new ones.
#[derive(Debug, Default)]
pub struct Pool {
    live: Vec<(Ticket, Decode)>,
    next: u64,
}

impl Pool {
    /// A pool without decodes.
    pub fn new() -> Pool {
        Pool::default()
    }

    /// Adds a decode; it takes part from the next round on. Its ticket is its sequence name in queries.
    pub fn add(&mut self, decode: Decode) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.live.push((ticket, decode.with_sequence(ticket.0)));
        ticket
    }

    /// Puts a decode back that was taken out when it had ended, and goes on under its name.
    pub fn resume(&mut self, ticket: Ticket, decode: Decode) {
        self.live.push((ticket, decode.with_sequence(ticket.0)));
    }

    /// How many decodes are in the pool.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// A decode as it stands.
    pub fn get(&self, ticket: Ticket) -> Option<&Decode> {
        self.live.iter().find(|(t, _)| *t == ticket).map(|(_, decode)| decode)
    }

    /// Takes a decode out, finished or not. The others go on as if it had never been there.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Decode> {
        let at = self.live.iter().position(|(t, _)| *t == ticket)?;
        Some(self.live.remove(at).1)
    }

    /// Takes out every decode that has ended.
    pub fn finished(&mut self) -> Vec<(Ticket, Finish, Decode)> {
        let mut done = Vec::new();
        let mut live = Vec::with_capacity(self.live.len());
        for (ticket, decode) in self.live.drain(..) {
            match decode.finish() {
                Some(finish) => done.push((ticket, finish, decode)),
                None => live.push((ticket, decode)),
            }
        }
        self.live = live;
        done
    }

    /// One forward for every decode that is not finished. An error of the model ends the round before anything changes; an error of one
    /// decode is its last event: it leaves the pool, and the others go on.
    pub fn round(&mut self, denoiser: &mut dyn Denoiser) -> Result<Vec<Event>> {
        let everybody: Vec<Ticket> = self.live.iter().map(|(ticket, _)| *ticket).collect();
        self.round_of(&everybody, denoiser)
    }

    /// The same for some of them; nobody else moves. A sampler that panics ends its decode like one that errs.
    pub fn round_of(&mut self, tickets: &[Ticket], denoiser: &mut dyn Denoiser) -> Result<Vec<Event>> {
        let takes_part = |(ticket, decode): &(Ticket, Decode)| tickets.contains(ticket) && decode.query().is_some();
        let asked: Vec<bool> = self.live.iter().map(takes_part).collect();
        let batch: Vec<_> =
            self.live.iter().zip(&asked).filter_map(|((_, decode), asked)| decode.query().filter(|_| *asked)).collect();
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let want = batch.len();
        let predictions = ask(denoiser, &batch)?;
        if predictions.len() != want {
            let got = predictions.len();
            return Err(Error::Length { what: "predictions", want, got, because: "one per query" });
        }
        let asked = self.live.iter_mut().zip(asked).filter_map(|(live, asked)| asked.then_some(live));
        let absorb = |((ticket, decode), prediction): (&mut (Ticket, Decode), _)| {
            // A decode that panicked leaves the pool, so nobody sees what it left half done.
            let step = catch_unwind(AssertUnwindSafe(|| decode.absorb(prediction)));
            let panicked = || Error::Contract { who: "sampler", problem: "it panicked".into() };
            Event { ticket: *ticket, step: step.unwrap_or_else(|_| Err(panicked())) }
        };
        let events: Vec<Event> = asked.zip(&predictions).map(absorb).collect();
        let failed = |ticket: Ticket| events.iter().any(|event| event.ticket == ticket && event.step.is_err());
        self.live.retain(|(ticket, _)| !failed(*ticket));
        Ok(events)
    }
}
