//! How Rust's errors are raised: `cofill.Error` when the request was wrong, `cofill.RunError` when the run failed.

use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(cofill._errors, Error);
import_exception!(cofill._errors, RunError);

/// A wrong request, in words.
pub(crate) fn request(message: impl std::fmt::Display) -> PyErr {
    Error::new_err(message.to_string())
}

/// What can be raised.
pub(crate) trait Raise {
    fn raise(self) -> PyErr;
}

/// `?` for functions that Python calls.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(Raise::raise)
    }
}

/// A sampler or a model that is written in Python raises what it raised; everything else is the request's, unless the run failed by itself.
impl Raise for cofill::Error {
    fn raise(self) -> PyErr {
        match self {
            cofill::Error::Sampler(source) | cofill::Error::Denoiser(source) => match source.downcast::<PyErr>() {
                Ok(raised) => *raised,
                Err(source) => match source.downcast::<cofill_model::Error>() {
                    Ok(error) => error.raise(),
                    Err(source) => RunError::new_err(source.to_string()),
                },
            },
            cofill::Error::NeedsDecode { what } => request(format!(
                "the sampler needs {what}; give it a whole decode: cofill.Decode, Engine.generate, cofill.generate"
            )),
            cofill::Error::Stalled { .. } => RunError::new_err(self.to_string()),
            cofill::Error::NoCompanion => request(format!("{self} (companion=\"tiny-causal\", or a Qwen2 or Qwen3)")),
            error => request(error),
        }
    }
}

impl Raise for cofill_model::Error {
    fn raise(self) -> PyErr {
        match self {
            cofill_model::Error::Compute(_) | cofill_model::Error::Write(_) => RunError::new_err(self.to_string()),
            error => request(error),
        }
    }
}

impl Raise for cofill_engine::Error {
    fn raise(self) -> PyErr {
        match self {
            cofill_engine::Error::Model(error) => error.raise(),
            cofill_engine::Error::Decode(error) => error.raise(),
            cofill_engine::Error::Hub(error) if !error.is_request() => RunError::new_err(error.to_string()),
            error => request(error),
        }
    }
}

impl Raise for cofill_eval::open::Error {
    fn raise(self) -> PyErr {
        use cofill_eval::open::Error;
        match self {
            Error::Engine(error) => error.raise(),
            Error::Options(error) | Error::Run(cofill_eval::run::Error::Decode(error)) => error.raise(),
            Error::Point { name, source } => {
                let raised = source.raise();
                Python::attach(|py| match raised.is_instance_of::<pyo3::exceptions::PyValueError>(py) {
                    true => request(format!("point `{name}`: {}", raised.value(py))),
                    false => raised,
                })
            }
            Error::NoData { .. } => request(format!("{self}; give data=FOLDER, `cofill data check FOLDER` says which")),
            error => request(error),
        }
    }
}

impl Raise for serde_json::Error {
    fn raise(self) -> PyErr {
        request(self)
    }
}

/// Errors of files and tables, whose words are enough.
macro_rules! requests {
    ($($error:ty),*) => { $(impl Raise for $error {
        fn raise(self) -> PyErr {
            // Many messages already say their cause.
            let said = anyhow::Error::from(self).chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
                "" => cause,
                _ if said.contains(&cause) => said,
                _ => format!("{said}: {cause}"),
            });
            request(said)
        }
    })* };
}

requests!(
    cofill_report::points::Error,
    cofill_report::results::Error,
    cofill_report::output::Error,
    cofill_eval::recipe::Error,
    cofill_eval::sweep::Error
);
