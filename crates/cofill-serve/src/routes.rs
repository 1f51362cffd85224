//! One function per route.

pub mod complete;
pub mod info;
