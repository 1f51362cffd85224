//! The Python package's other half: samplers, decodes, engines, traces and reports of cofill as Python classes.
//!
//! Conversion only. What a class does is written in the crates below; here arguments come in, arrays go out, errors are raised, and the
//! interpreter is let go while something computes. `python/cofill` holds what is written in Python: torch models, the harness, shims.
#![allow(clippy::needless_pass_by_value, reason = "what Python gives is given")]

mod arrays;
mod command;
mod decode;
mod diagnose;
mod engine;
mod errors;
mod evaluate;
mod generation;
mod held;
mod needs;
mod options;
mod own_sampler;
mod probe;
mod report;
mod sampler;
mod score;
mod threads;
mod tokenizer;
mod trace;

/// Which masked positions may be committed together: the parts of cofill that are written in Rust.
#[pyo3::pymodule]
mod _cofill {
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::decode::{Decode, Query, Step};
    #[pymodule_export]
    use crate::diagnose::{PyDiagnosis, measure};
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::evaluate::{Evaluation, evaluate, sweep};
    #[pymodule_export]
    use crate::generation::{Generation, Stream};
    #[pymodule_export]
    use crate::needs::Needs;
    #[pymodule_export]
    use crate::own_sampler::{JobView, Reveal, View, Wait};
    #[pymodule_export]
    use crate::probe::Probe;
    #[pymodule_export]
    use crate::report::{Explanation, Report, explain, report};
    #[pymodule_export]
    use crate::sampler::{Deferred, Picks, Sampler, register, sampler, samplers};
    #[pymodule_export]
    use crate::tokenizer::Tokenizer;
    #[pymodule_export]
    use crate::trace::{Trace, TraceDiff, trace_diff};

    /// The version of the package, which is that of the crates.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
