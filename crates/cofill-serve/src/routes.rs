//! One function per route, in one file per dialect.

pub(crate) mod complete;
pub(crate) mod edit;
pub(crate) mod info;
pub(crate) mod llama;
pub(crate) mod ours;
pub(crate) mod text;
