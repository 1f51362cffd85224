//! `--force`, and what is said when a file is in the way. The rule itself is `cofill_eval::output`.

use crate::fail::Fail;
use cofill_eval::output::{Error, Existing};

/// Shared by every command that writes where it is told.
#[derive(clap::Args)]
pub(crate) struct ForceArgs {
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    pub(crate) fn existing(&self) -> Existing {
        match self.force {
            true => Existing::Replace,
            false => Existing::Refuse,
        }
    }
}

/// A place that cannot be used is a wrong request; `field` names the argument that gave it.
pub(crate) fn refused(field: &str) -> impl Fn(Error) -> Fail {
    let field = field.to_owned();
    move |error| Fail::request(format!("{field}: {error}"))
}

/// Writing that fails once a run has begun is the machine's failure.
pub(crate) fn failed(field: &str) -> impl Fn(Error) -> Fail {
    let field = field.to_owned();
    move |error| Fail::Run(anyhow::Error::new(error)).about(&field)
}
