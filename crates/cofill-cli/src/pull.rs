//! `cofill pull`: a model from the Hugging Face hub.

use crate::download_bars::DownloadBars;
use crate::fail::Done;
use crate::models::size;
use crate::show::count;
use cofill_hub::{Hub, Settings};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Get a model from the Hugging Face hub.
///
/// It goes into the cache that the hub's tools share (HF_HOME), and `-m org/name`
/// finds it there. Only what is needed is fetched: configuration, tokenizer, weights
/// in safetensors. What was interrupted continues, and every file is compared with
/// its checksum. Prints the folder. HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are
/// heeded; docs/getting.md has the rest.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model: org/name, or one GGUF file of it: org/name/FILE.gguf.
    #[arg(value_name = "NAME")]
    name: String,
    /// A branch, a tag or a commit; main unless said. Also as NAME@REVISION.
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Fetch everything again, also what is there.
    #[arg(long)]
    force: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let name = crate::models::hub_name(&args.name, args.revision.as_ref())?;
    crate::signals::end_programs_first()?;
    let _interruptible =
        crate::signals::last_words(|| "interrupted: what is there is kept, and the same command goes on".into());
    let bars = DownloadBars::new();
    let pulled = Hub::new(Settings::from_env()).pull(&name, args.force, &mut |event| bars.event(event));
    drop(bars);
    let pulled = pulled?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let object = json!({
            "name": name.repo,
            "commit": pulled.commit,
            "path": pulled.path,
            "files": pulled.files,
            "bytes": pulled.bytes,
            "fetched_bytes": pulled.fetched,
        });
        writeln!(out, "{object}")?;
    } else {
        let (files, bytes) = (count(pulled.files, "file"), size(pulled.bytes));
        let new =
            if pulled.fetched == 0 { "all there already".into() } else { format!("{} new", size(pulled.fetched)) };
        let _ = writeln!(std::io::stderr(), "{name} at {:.7}: {files}, {bytes}, {new}", pulled.commit);
        writeln!(out, "{}", pulled.path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
