//! Answers whose length nobody knows: block after block, until the text ends.
//!
//! The canvas begins with one block of masks and grows by another while what is written has no end: neither an end of text or of a turn nor
//! a stop string. A block is decoded by the sampler, built afresh, as if those before it had been given.

use crate::engine::Specials;
use crate::generate::Finish;
use crate::options::{Ends, RunOptions};
use crate::{Engine, Error, Result};
use cofill::{Canvas, Decode, SamplerSpec, TokenId};
use serde::Serialize;

/// Positions of a block, unless somebody says.
const BLOCK: usize = 32;

/// The most positions that an answer grows to, unless somebody says or the model holds fewer.
const MOST: usize = 512;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ended {
    /// By an end of text or of a turn.
    Eos,
    /// By a stop string.
    Stop,
    /// Not at all: every position is filled. That is how gaps end, and an answer that ends so may be cut off.
    Full,
    /// Not at all: the most forwards that were allowed are used up.
    Capped,
    /// Not at all: whoever listened wanted no more.
    Cancelled,
}

impl Ended {
    /// As it is written: `eos`, `stop`, `full`, `capped` or `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Eos => "eos",
            Ended::Stop => "stop",
            Ended::Full => "full",
            Ended::Capped => "capped",
            Ended::Cancelled => "cancelled",
        }
    }

    /// Of an answer in whose text there is no end.
    pub(crate) fn without_end(finish: Finish) -> Ended {
        match finish {
            Finish::Complete => Ended::Full,
            Finish::Capped => Ended::Capped,
            Finish::Cancelled => Ended::Cancelled,
        }
    }
}

/// How far a canvas may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) block: usize,
    /// Positions behind the prompt, all blocks together.
    pub(crate) most: usize,
}

/// A canvas that grows.
#[derive(Debug)]
pub(crate) struct Growth {
    room: Room,
    sampler: SamplerSpec,
    cap: Option<usize>,
    /// Positions that were added so far.
    pub(crate) appended: usize,
}

/// What becomes of a decode that has ended.
pub(crate) enum Next {
    /// Nothing more.
    Over(Decode, Finish),
    /// Another block.
    On(Decode),
}

impl Growth {
    pub(crate) fn new(room: Room, sampler: &SamplerSpec, options: &RunOptions) -> Growth {
        Growth { room, sampler: sampler.clone(), cap: options.max_nfe, appended: 0 }
    }

    /// Adds a block to a full canvas, unless its text has ended or there is no room. `start` is the canvas before its first step.
    pub(crate) fn next(&mut self, engine: &Engine, start: &Canvas, stops: &[String], decode: Decode) -> Result<Next> {
        let whole = grown(start, self.appended);
        if engine.settled_end(&whole, decode.canvas(), stops)?.is_some() {
            return Ok(Next::Over(decode, Finish::Complete));
        }
        let n = self.room.block.min(self.room.most.saturating_sub(whole.n_masked()));
        if n == 0 {
            return Ok(Next::Over(decode, Finish::Complete));
        }
        if self.cap.is_some_and(|cap| decode.nfe() >= cap) {
            return Ok(Next::Over(decode, Finish::Capped));
        }
        let decode = decode.grow(n, self.sampler.build()?)?;
        self.appended += n;
        Ok(Next::On(decode))
    }
}

/// A canvas with masks added.
pub(crate) fn grown(start: &Canvas, appended: usize) -> Canvas {
    let mut whole = start.clone();
    whole.append(appended);
    whole
}

impl Engine {
    /// How far an answer behind a prompt of so many positions may grow.
    pub(crate) fn room(&self, prompt: usize, end: Option<TokenId>, options: &RunOptions) -> Result<Room> {
        let Ends { of_text, of_turn } = self.ends();
        let endless = |why| Err(Error::Endless { name: self.name().into(), why });
        if end.is_some() {
            return endless("has its end behind the answer before there is one");
        }
        if of_text.or(of_turn).is_none() {
            return endless("has no token that ends a text");
        }
        if options.logits_eos_inf && of_turn.is_none() && options.stop.is_empty() {
            return endless("may not end its text (logits_eos_inf), and no stop string is given");
        }
        self.fit(prompt + 1)?;
        let most = match options.max_length {
            Some(most) => {
                self.fit(prompt.saturating_add(most))?;
                most
            }
            None => MOST.min(self.context() - prompt),
        };
        Ok(Room { block: options.block.unwrap_or(BLOCK), most })
    }

    /// How the text of a canvas that began as `start` has ended already, whatever is still masked behind that: an end or a stop string stands
    /// before the first mask. `start` has the masks that were added since. Who decodes may stop there: nothing that follows would be read.
    pub fn settled_end(&self, start: &Canvas, canvas: &Canvas, stops: &[String]) -> Result<Option<Ended>> {
        let (tokens, tail) = (canvas.tokens(), start.tail());
        let mask = (tail..tokens.len()).find(|&at| canvas.is_masked(at)).unwrap_or(tokens.len());
        let ends = self.ends().tokens();
        let end = (tail..mask).find(|&at| ends.contains(&tokens[at]));
        if !stops.is_empty() && tail < mask {
            // Of a frame or a chat only the new part can hold one, and it is read with what stands before it, as a person reads it.
            let text = |upto: usize| self.text(&tokens[..upto], Specials::Hidden);
            let (given, all) = (text(tail)?, text(end.unwrap_or(mask))?);
            let new = all.get(given.len()..).unwrap_or_default();
            if stops.iter().any(|stop| new.contains(stop.as_str())) {
                return Ok(Some(Ended::Stop));
            }
        }
        Ok(end.map(|_| Ended::Eos))
    }
}
