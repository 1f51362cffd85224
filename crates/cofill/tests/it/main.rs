//! Integration tests: claims about the library as its users meet it. Vectors of single samplers are in `src`.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers are not `#[test]`s; tables are printed for the reader

// One way to decode on the toy, and the list of example samplers.
mod support;

// What holds for every sampler over a whole decode: it ends, within its bound, and writes what the model proposed.
mod decode;

// Decodes that share a pool, and what one of them may do to the others: nothing.
mod pool;

// Forwards that compute a window: which they are, what is measured of them, and where they are refused.
mod cache;

// A language that the text must belong to, with every sampler.
mod constraint;

// Faulty denoisers, samplers and snapshots: the right error, and the canvas as it was.
mod faults;

// What holds for every input, on random steps and random logits.
mod properties;

// Influence along paths, the doubt and the veto: their definitions from scratch, and what they do to decodes.
mod paths;

// The sampler language: what it refuses and with which words, what it prints, and the round trip.
mod spec;

// Samplers that were added to a registry, and forms of samplers that nobody has added.
mod registry;

// Canvases that grow, and texts that end before their canvas does.
mod growth;

// Traces: the round trip, what is refused at which line, and why two decodes part.
mod trace;

// Golden decodes in `tests/decode`, one file per sampler; COFILL_BLESS=1 rewrites them.
mod golden;

// The paper's argument on the toy: what committing together costs, exactly, and that ADAS lowers it at equal NFE.
mod dependence;

// Numbers computed elsewhere that live in this repository: selections by NumPy, schedules by the official code.
mod fixtures;

// Bugs that were found once, each as the claim that was false.
mod regressions;

// What this crate must never contain.
mod invariants;

// Whole decodes by the reference decoders, step by step.
mod conformance;
