//! `cofill completions`: what a shell completes, and `cofill man`: the help as manual pages.

use crate::fail::{Done, Fail};
use crate::output::{ForceArgs, refused};
use crate::show::count;
use clap_complete::Shell;
use clap_mangen::Man;
use cofill_report::output;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print what a shell needs to complete commands and flags.
///
/// bash: cofill completions bash > ~/.local/share/bash-completion/completions/cofill
///
/// zsh: cofill completions zsh > DIR/_cofill, for a DIR in $fpath
///
/// fish: cofill completions fish > ~/.config/fish/completions/cofill.fish
///
/// PowerShell: cofill completions powershell >> $PROFILE
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell: bash, zsh, fish, powershell or elvish.
    #[arg(value_enum, hide_possible_values = true)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Done {
    // Into memory first: the generator panics where a reader has seen enough.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::arguments::command(), "cofill", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Print the manual page of a command, or write all of them.
///
/// `cofill man generate | man -l -` shows one. `cofill man --out ~/.local/share/man/man1` puts all of them where `man cofill-generate`
/// looks for them.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The command: nothing for `cofill` itself, else `generate` or `sweep run`.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder.
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn man(args: &ManArgs) -> Done {
    let mut command = crate::arguments::command().disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &args.out {
        return write_all(&command, dir, &args.force);
    }
    let mut found = &command;
    for name in &args.command {
        let within = found;
        found = within.find_subcommand(name).ok_or_else(|| unknown(within, name))?;
    }
    let mut page = Vec::new();
    Man::new(found.clone()).render(&mut page)?;
    std::io::stdout().lock().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(within: &clap::Command, name: &str) -> Fail {
    let names: Vec<&str> = within.get_subcommands().map(clap::Command::get_name).collect();
    if names.is_empty() {
        return Fail::request(format!("COMMAND: `{}` has no commands, but `{name}` was given", within.get_name()));
    }
    let meant = cofill::did_you_mean(name, names.iter().copied());
    Fail::request(format!("COMMAND: there is no command `{name}`{meant}; expected one of {}", names.join(", ")))
}

/// One file per command, `cofill-sweep-run.1`.
fn write_all(command: &clap::Command, dir: &Path, force: &ForceArgs) -> Done {
    let mut pages = Vec::new();
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
        let (man, mut page) = (Man::new(command.clone()), Vec::new());
        man.render(&mut page)?;
        pages.push((man.get_filename(), page));
    }
    let files = pages.iter().map(|(name, page)| (name.as_str(), page.as_slice()));
    output::write_all(dir, files, force.existing()).map_err(refused("--out"))?;
    let _ = writeln!(anstream::stderr(), "wrote {} to {}", count(pages.len(), "page"), dir.display());
    Ok(ExitCode::SUCCESS)
}
