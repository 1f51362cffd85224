//! The command as a user meets it: what is typed, what comes out where, and with which exit code.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// Runs the binary; every test goes through it.
mod run;

// Arguments of every command: slips of names, numbers out of range, prompts without quotes; options that all commands have.
mod arguments;

// `cofill completions` and `cofill man`.
mod completions;

// What strangers install: the installer, and the names of archives.
#[cfg(unix)]
mod install;

// `cofill select`: good lines, every kind of bad line, the goldens from the command line.
mod select;

// `cofill generate`: the answer, the picture, JSON, wrong arguments.
mod generate;

// Prompts from pipes and files, the answer alone, and what is said before it.
mod asking;

// `--cache`: what is said of it, and where it is refused.
mod caches;

// `cofill infill`: gaps in place, and everything else as it was.
mod infill;
// A terminal for those who want to be at one.
#[cfg(target_os = "linux")]
mod pty;

// `cofill chat`: by a script and at a terminal.
mod chat;

// `cofill compare`: answers side by side, where they part.
mod compare;

// `cofill trace`: replay and diff.
mod trace;

// `cofill mini`: the corpus and the verdicts.
mod mini;

// `cofill samplers` and the help texts, as snapshots.
mod texts;

// The models inside the program.
mod tiny;

// Samplers that need something trained.
mod trained;

// `cofill tune`: found, kept, interrupted, refused.
mod tune;

// The mini tasks in tokens of those models: that answers fit their canvas, and that a gap is one token.
mod tiny_tokens;

// LLaDA and Dream checkpoints from the command line, against the goldens.
mod checkpoints;

// A tiny Qwen checkpoint from the command line: masks, beginnings, times.
mod qwen;

// BERT and its relatives from the command line: frames, gaps of the user's own.
mod encoders;

// `cofill bench`: the split, the memory, impossible sizes.
mod bench;

// `cofill models`: inspect, quantise and verify.
mod models;

// `cofill eval`: scores, records, and that batches change nothing.
mod eval;

// What must not be lost: files that exist, that grow, that are not ours.
mod files;

// `cofill sweep`: recipes, workers that race and die, Slurm.
mod sweep;

// `cofill diagnose` and `cofill explain`: tables, files, pages, wrong requests.
mod diagnose;

// `cofill calibrate`, and what `+paths:auto` makes of it.
mod calibrate;

// `cofill prompts`, `score` and `data`: the harness's two halves, and its files.
mod harness;

// Programs that a model wrote, scored by the command: long answers, judges that break down, signals.
mod judging;

// What is kept and said when a run is broken off, and what a sweep under way can be asked.
mod interrupted;

// `cofill report`: the paper's statistics from its own numbers, and every form of a report.
mod report;

// Texts held to a schema, an expression or choices.
mod constraints;

// `cofill pull`, `-m hf:`, `models list` and `rm`, `data fetch`: against a hub on the loopback.
mod hub;

// That hub: the one of cofill-hub's own tests.
#[path = "../../../cofill-hub/tests/it/server.rs"]
mod server;

// The README's console examples, run as they stand there.
mod readme;

// Tasks of one's own: task files, their checkers, and options that do not apply.
mod own_task;
