//! How a command fails: the request was wrong, or the run was.

use crate::quiet::is_quiet;
use crate::show::lines;
use std::io::Write;
use std::process::ExitCode;

/// What every command returns.
pub(crate) type Done<T = ExitCode> = Result<T, Fail>;

/// A failure and whose it is.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The user's: exit code 2.
    Request(anyhow::Error),
    /// Ours, the model's or the machine's: exit code 1.
    Run(anyhow::Error),
}

impl Fail {
    /// A wrong request, in words.
    pub(crate) fn request(message: impl Into<String>) -> Fail {
        Fail::Request(anyhow::Error::msg(message.into()))
    }

    /// The same failure, saying first what it is about.
    pub(crate) fn about(self, what: &str) -> Fail {
        let what = what.to_owned();
        match self {
            Fail::Request(error) => Fail::Request(error.context(what)),
            Fail::Run(error) => Fail::Run(error.context(what)),
        }
    }

    /// Whether nobody is left to read the answer.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let (Fail::Request(error) | Fail::Run(error)) = self;
        is_broken_pipe(error)
    }

    /// Prints the failure and gives its exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (error, code) = match self {
            Fail::Request(error) => (error, 2),
            Fail::Run(error) => (error, 1),
        };
        if is_broken_pipe(&error) {
            // Whoever read our answer has seen enough: `cofill samplers | head -3`.
            return ExitCode::SUCCESS;
        }
        error_line(&with_causes(&error));
        ExitCode::from(code)
    }
}

/// An error and its causes, each once: many messages already say their cause.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
        "" => cause,
        _ if said.contains(&cause) => said,
        _ => format!("{said}: {cause}"),
    })
}

/// `error: ...` on stderr, with colour where there is some.
pub(crate) fn error_line(message: &str) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {}", lines(message));
}

/// `warning: ...` on stderr, unless only errors are to be heard.
pub(crate) fn warning_line(message: &str) {
    if is_quiet() {
        return;
    }
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{yellow}warning:{yellow:#} {}", lines(message));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

impl From<std::io::Error> for Fail {
    fn from(error: std::io::Error) -> Fail {
        Fail::Run(error.into())
    }
}

impl From<serde_json::Error> for Fail {
    fn from(error: serde_json::Error) -> Fail {
        Fail::Run(error.into())
    }
}

/// A model that fails is a failed run, unless it refuses the request; everything else this library refuses was asked for.
impl From<cofill::Error> for Fail {
    fn from(error: cofill::Error) -> Fail {
        match error {
            cofill::Error::Denoiser(source) => match source.downcast::<cofill_model::Error>() {
                Ok(error) => Fail::from(*error),
                Err(source) => Fail::Run(cofill::Error::Denoiser(source).into()),
            },
            cofill::Error::Stalled { .. } | cofill::Error::Constraint(_) => Fail::Run(error.into()),
            cofill::Error::NoCompanion => {
                Fail::request(format!("{error} (--companion tiny-causal, or the folder of a Qwen2 or Qwen3)"))
            }
            cofill::Error::NoCache { .. } => {
                Fail::request(format!("--cache: {error} (--cache off; --block N makes blocks)"))
            }
            _ => Fail::Request(error.into()),
        }
    }
}

/// A checkpoint that cannot be used is a wrong request; only arithmetic and writing can fail by themselves.
impl From<cofill_model::Error> for Fail {
    fn from(error: cofill_model::Error) -> Fail {
        match error {
            // How the library is built is the library's word; here it is built by cargo.
            cofill_model::Error::Device { device, .. } => {
                Fail::request(format!("{error} (`cargo build --release --features {device}`)"))
            }
            cofill_model::Error::Compute(_) | cofill_model::Error::Write(_) => Fail::Run(error.into()),
            _ => Fail::Request(error.into()),
        }
    }
}

/// An engine's own errors are of the request; of what it passes on, those below decide. What a flag could change is said here: the
/// library does not know flags.
impl From<cofill_engine::Error> for Fail {
    fn from(error: cofill_engine::Error) -> Fail {
        use cofill_engine::{Error, LanguageError};
        let remedy = match &error {
            Error::NoTokenizer { .. } => {
                "name a model that has one; generate and explain also take token ids with --tokens or --prompt-tokens"
            }
            Error::BosWithoutTokenizer { .. } => "leave out --bos",
            Error::NoBos { .. } => {
                "leave out --bos, or give the token that you mean first in --prompt-tokens, where the command has that"
            }
            Error::NotForTheToy { option, .. } => {
                let flag = option.replace('_', "-");
                return Fail::request(format!("--{flag}: {error}; leave it out, or name another model with --model"));
            }
            Error::MaskInPrompt { .. } => "--tokens takes M for a mask",
            Error::ChatWithoutPrompt => "leave out --chat, or write a prompt behind the command",
            Error::UnknownModel { .. } | Error::NotDownloaded { .. } | Error::PartlyDownloaded { .. } => {
                return Fail::Request(anyhow::Error::new(error).context("--model"));
            }
            Error::BadGap { .. } | Error::NoGap => {
                return Fail::Request(anyhow::Error::new(error).context("--template"));
            }
            _ => "",
        };
        match error {
            Error::Model(error) => error.into(),
            Error::Decode(error) => error.into(),
            Error::Hub(error) => error.into(),
            Error::Language(LanguageError::Unsatisfiable { shortest, .. }) => {
                Fail::request(format!("{error} (-n {shortest}; in a template, [MASK:{shortest}])"))
            }
            error if remedy.is_empty() => Fail::Request(error.into()),
            error => Fail::request(format!("{error}; {remedy}")),
        }
    }
}

/// Wrong names are the user's; networks, servers and disks are nobody's.
impl From<cofill_hub::Error> for Fail {
    fn from(error: cofill_hub::Error) -> Fail {
        if error.is_request() { Fail::Request(error.into()) } else { Fail::Run(error.into()) }
    }
}

impl From<cofill_eval::fetch_data::Error> for Fail {
    fn from(error: cofill_eval::fetch_data::Error) -> Fail {
        match error {
            cofill_eval::fetch_data::Error::Hub(error) => error.into(),
            error => Fail::Run(error.into()),
        }
    }
}

/// The same for scores and sweeps.
impl From<cofill_eval::open::Error> for Fail {
    fn from(error: cofill_eval::open::Error) -> Fail {
        use cofill_eval::open::Error;
        let with = |remedy: &str| Fail::request(format!("{error}; {remedy}"));
        match error {
            Error::TooMany { .. } => with("lower --limit"),
            Error::NoData { task } => with(&format!("`cofill data fetch {task}` gets them, --data DIR names yours")),
            Error::Infill(cofill_eval::infill::Error::NoFile) => with("add --data FILE.jsonl"),
            Error::NoBos { .. } => with("give --bos false"),
            Error::Idle(ref idle) => {
                let flag = idle.option.replace('_', "-");
                Fail::request(format!("--{flag} is for {}, and {}; leave it out", idle.applies, idle.task))
            }
            Error::Own(cofill_tasks::own::Error::Shots { .. } | cofill_tasks::own::Error::NoShots { .. }) => {
                with("--shots says how many")
            }
            Error::Own(cofill_tasks::own::Error::Split { .. }) => with("--split says which"),
            Error::NoChatTemplate { .. } => with("leave out --chat"),
            Error::NotForInfill { option, .. } => with(&format!("leave out --{option}")),
            Error::Engine(error) => error.into(),
            Error::Options(error) => error.into(),
            Error::Run(cofill_eval::run::Error::Decode(error)) => error.into(),
            Error::Run(cofill_eval::run::Error::Language(error)) => (*error).into(),
            Error::Judges(error) => error.into(),
            Error::Benchmark(error) | Error::Run(cofill_eval::run::Error::Benchmark(error)) => error.into(),
            Error::Sweep(error) => error.into(),
            Error::Point { name, source } => Fail::from(*source).about(&format!("point `{name}`")),
            error => Fail::Request(error.into()),
        }
    }
}

/// Files, tasks and numbers are the user's. The library names the remedy, and here comes how to type it.
impl From<cofill_tasks::benchmarks::Error> for Fail {
    fn from(error: cofill_tasks::benchmarks::Error) -> Fail {
        use cofill_tasks::benchmarks::Error;
        match error {
            Error::Data(cofill_tasks::data::Error::Folder { .. }) => {
                Fail::request(format!("{error} (`cofill data check` says which)"))
            }
            Error::Shots { .. } => Fail::request(format!("{error} (--shots)")),
            _ => Fail::Request(error.into()),
        }
    }
}

/// Files of results and rows of tables are the user's.
impl From<cofill_report::points::Error> for Fail {
    fn from(error: cofill_report::points::Error) -> Fail {
        Fail::Request(error.into())
    }
}
