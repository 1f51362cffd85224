//! `cofill chat`: a conversation with a model, by hand or by a script.

mod commands;
mod editor;
mod history;
mod lines;
mod session;
mod settings;

use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill_engine::{Engine, RunSpec};
use session::Session;
use std::io::IsTerminal;

/// Talk to a model.
///
/// On a terminal, lines can be edited, the up key brings back earlier ones, and Ctrl-C stops an answer; /help lists what else can be typed.
/// Otherwise every line of stdin is a message, and stdout has the answers alone.
#[derive(clap::Args)]
#[command(mut_arg("chat", |arg| arg.hide(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) run: RunSpec,
    /// What the model is told before everything else, if it has a chat template.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Show the canvas being filled (on stderr).
    #[arg(long)]
    show: bool,
    /// Neither read nor keep what was typed in earlier chats.
    #[arg(long)]
    no_history: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    if args.run.options.chat {
        return Err(Fail::request("--chat is what this command always does; leave it out"));
    }
    args.run.options.check()?;
    args.run.options.check_companion(&args.run.sampler)?;
    let engine = {
        let model = &args.run.model;
        let _line = Engine::is_checkpoint(model).then(|| Progress::loading(model));
        Engine::open(model, &args.run.options)?
    };
    let mut session = Session::new(engine, args.run.clone(), args.show);
    if let Some(text) = &args.system {
        session.set_system(text).map_err(|fail| fail.about("--system"))?;
    }
    if std::io::stdin().is_terminal() { editor::talk(session, !args.no_history) } else { lines::talk(session) }
}
