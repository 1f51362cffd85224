//! What a name of the hub stands for: a model in the cache that its tools share, or, with `hf:` before it, one that is fetched into it.

use crate::{Error, Result};
use cofill_hub::{Event, Found, Hub, ModelName, Settings, find, is_hub_name};
use std::path::PathBuf;
use std::sync::OnceLock;

/// What a name begins with that may be fetched.
const MAY_FETCH: &str = "hf:";

type Report = Box<dyn Fn(&Event) + Send + Sync>;

static REPORT: OnceLock<Report> = OnceLock::new();

/// From now on, downloads that opening a model starts are told to `report`. Once per process: whoever is first decides.
pub fn on_download(report: impl Fn(&Event) + Send + Sync + 'static) {
    let _ = REPORT.set(Box::new(report));
}

/// Whether a name says that the model may be fetched.
pub(crate) fn may_fetch(name: &str) -> bool {
    name.starts_with(MAY_FETCH)
}

/// The folder or file of a model that is on this machine by its name on the hub.
pub(crate) fn on_this_machine(name: &str) -> Option<PathBuf> {
    let named = ModelName::parse(name).ok()?;
    // `bert-base-uncased` alone could be anything.
    let meant = may_fetch(name) || is_hub_name(&named.repo);
    match find(&Settings::from_env().cache, &named) {
        Found::Whole(path) if meant => Some(path),
        _ => None,
    }
}

/// The folder or file of a model by its name on the hub; fetched if the name says so and it is not there.
pub(crate) fn locate(name: &str) -> Result<PathBuf> {
    if let Some(path) = on_this_machine(name) {
        return Ok(path);
    }
    let settings = Settings::from_env();
    if may_fetch(name) {
        let named = ModelName::parse(name)?;
        let mut report = |event: &Event| {
            if let Some(report) = REPORT.get() {
                report(event);
            }
        };
        return Ok(Hub::new(settings).pull(&named, false, &mut report)?.path);
    }
    // A path to a file that does not exist is no name of the hub, even though it could be one.
    let named = ModelName::parse(name).ok().filter(|named| is_hub_name(&named.repo) && named.file.is_none());
    let named = named.ok_or_else(|| Error::UnknownModel { name: name.into() })?;
    match find(&settings.cache, &named) {
        Found::Partly(folder, lacking) => {
            Err(Error::PartlyDownloaded { name: name.into(), folder, lacking: lacking.join("`, `") })
        }
        _ => Err(Error::NotDownloaded { name: name.into(), cache: settings.cache }),
    }
}
