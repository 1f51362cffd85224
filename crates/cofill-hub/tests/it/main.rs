//! Downloads from a real HTTP server on the loopback that speaks the hub's protocol, and misbehaves.
#![allow(clippy::unwrap_used, missing_docs)]

// The server.
mod server;

// What the tests share: models, caches, a client whose time passes at once.
mod support;

// Models: what is fetched, where it goes, who is told what.
mod pull;

// Connections, lengths, checksums and servers that go wrong.
mod failures;

// Other revisions, what the cache holds, and what is removed from it.
mod cache;

// Single files by checksum.
mod fetch;
