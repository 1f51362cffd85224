//! `--force`, and what is said when a file is in the way. The rule itself is `cofill_report::output`.

use crate::fail::Fail;
use cofill_report::output::{Error, Existing};
use std::io::ErrorKind;

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

/// A place that cannot be used is a wrong request, but for a full disk; `field` names the argument that gave it.
pub(crate) fn refused(field: &str) -> impl Fn(Error) -> Fail {
    let field = field.to_owned();
    move |error| match &error {
        Error::Io { source, .. } if is_full(source) => failed(&field)(error),
        Error::Exists { path } => {
            Fail::request(format!("{field}: `{}` exists; give another name, or --force to replace it", path.display()))
        }
        _ => Fail::request(format!("{field}: {error}")),
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Writing that fails once a run has begun is the machine's failure.
pub(crate) fn failed(field: &str) -> impl Fn(Error) -> Fail {
    let field = field.to_owned();
    move |error| Fail::Run(anyhow::Error::new(error)).about(&field)
}
