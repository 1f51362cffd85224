//! The server as its clients see it: by calls without a socket where that is enough, over the loopback where it is not.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

/// What is refused at the door, and how quickly.
mod attacks;
/// Chats and texts: fields, answers, errors.
mod completions;
/// Other dialects, our own routes, information, the page.
mod dialects;
/// Who runs when, who is dropped, and that nobody sees the others.
mod rounds;
/// What streams say, in every mode.
mod streams;
mod support;
