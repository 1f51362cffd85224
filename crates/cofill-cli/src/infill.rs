//! `cofill infill`: the gaps of a file, filled in place.

use crate::canvas::warn_off_domain;
use crate::fail::{Done, Fail, warning_line};
use crate::generate::duration;
use crate::output::{failed, refused};
use crate::piped;
use crate::progress::Progress;
use crate::quiet::{QuietArgs, note};
use crate::settled;
use crate::show::{Show, ShowArgs, count, lines};
use cofill_engine::{
    Engine, Error, FilledGap, GapMarks, Infill, Judged, Length, Prepared, RunOptions, RunSpec, StepEvent,
};
use cofill_report::output::{Existing, Output};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fill the gaps of a file, and leave everything else in it as it is.
///
/// A gap is written `[MASK:4]` for four positions, or `[MASK:auto]`, which finds its own length. The filled text goes to stdout, or with
/// --in-place back into the file, at once and only when it is complete. A file that fits the model is one canvas; of a longer one, gaps are
/// filled in windows, from its beginning to its end. A constraint holds for every gap by itself. (`cofill eval --task infill` is
/// something else: it scores gaps whose answers are known.)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file, in UTF-8; `-` is standard input.
    file: PathBuf,
    /// Replace the file by the filled text; its permissions stay.
    #[arg(short, long)]
    in_place: bool,
    /// How many tokens on either side of a gap the model sees (default: the whole file, or as much of it as the model holds).
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Another mark for gaps, such as <FILL>, each of --length positions (default: auto). `[MASK:4]` is then a text like any other.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    marker: Option<String>,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    /// Begin with the tokenizer's beginning-of-text token.
    #[arg(long)]
    bos: bool,
    #[command(flatten)]
    show: ShowArgs,
    /// Print only what was filled in: the text of one gap; of several, a JSON string each, in lines.
    #[arg(long)]
    answer_only: bool,
    /// Answer with one JSON object: `text` is the whole file, `answers` what was filled in.
    #[arg(long, conflicts_with = "answer_only")]
    json: bool,
    #[command(flatten)]
    quiet: QuietArgs,
}

pub(crate) fn run(args: &mut Args) -> Done {
    args.quiet.apply();
    settled(&mut args.run)?;
    let args = &*args;
    let text = piped::text_file(&args.file)?;
    if args.in_place {
        check_place(&args.file)?; // before a model is loaded
    }
    let (options, length) = args.options()?;
    let marks = match &args.marker {
        None => GapMarks::Masks,
        Some(marker) => GapMarks::Text(marker, length),
    };
    let mut engine = {
        let _line =
            (!args.show.show && Engine::is_checkpoint(&args.run.model)).then(|| Progress::loading(&args.run.model));
        Engine::open(&args.run.model, &options)?
    };
    let infill = Infill::new(&engine, &text, marks, args.context);
    let mut infill = infill.map_err(|error| args.bad_gap(&text, error))?;
    if !infill.is_known() {
        warn_off_domain(&engine, None);
    }
    while let Some(window) = infill.next(&mut engine, &args.run.sampler, &options)? {
        let filled = fill(args, &mut engine, window)?;
        infill.absorb(&engine, &filled)?;
    }
    if args.in_place {
        replace(&args.file, &text, &infill.text())?;
    }
    report(args, &engine, &infill)
}

impl Args {
    fn name(&self) -> String {
        match self.file.to_str() {
            Some("-") => "standard input".into(),
            _ => format!("`{}`", self.file.display()),
        }
    }

    /// The options of a run, and how long a marked gap is.
    fn options(&self) -> Done<(RunOptions, Length)> {
        let mut options = self.run.options.clone();
        options.bos = self.bos.then_some(true);
        if options.max_nfe.is_some() {
            return Err(Fail::request("--max-nfe is not for infill, which leaves no gap half filled; leave it out"));
        }
        let length = match &self.marker {
            Some(_) => options.length.take().unwrap_or(Length::Auto),
            None if options.length.is_some() => {
                return Err(Fail::request("--length is for --marker; `[MASK:4]` says itself that it has 4 positions"));
            }
            None => Length::Auto,
        };
        match length {
            Length::Fixed(0) => Err(Fail::request("--length must be 1 or more for a gap, or `auto`; 0 was given")),
            length => Ok((options, length)),
        }
    }

    /// What is wrong with the gaps of a file, and where.
    fn bad_gap(&self, text: &str, error: Error) -> Fail {
        let name = self.name();
        match (&error, &self.marker) {
            (Error::NoGap, Some(marker)) => Fail::request(format!("{name} has no gap: `{marker}` is nowhere in it")),
            (Error::NoGap, None) => Fail::request(format!(
                "{name} has no gap; write [MASK:4] or [MASK:auto] where something is missing, or name your own mark with --marker"
            )),
            (Error::BadGap { gap }, _) => {
                let line = text.find(gap.as_str()).map_or(1, |at| 1 + text[..at].matches('\n').count());
                Fail::request(format!("{name}, line {line}: {error}; or name another mark with --marker"))
            }
            _ => Fail::from(error).about(&name),
        }
    }
}

/// Refuses a place that could not be written at the end.
fn check_place(path: &Path) -> Done<()> {
    if path == Path::new("-") {
        return Err(Fail::request("--in-place needs a file, and `-` is standard input; leave it out"));
    }
    let about = path.metadata().map_err(|error| Fail::request(format!("cannot read `{}`: {error}", path.display())))?;
    if !about.is_file() {
        return Err(Fail::request(format!("--in-place: `{}` is no regular file; leave it out", path.display())));
    }
    if about.permissions().readonly() {
        return Err(Fail::request(format!(
            "--in-place: `{}` may not be written; change that, or leave it out",
            path.display()
        )));
    }
    Output::whole(path, Existing::Replace).map(drop).map_err(refused("--in-place"))
}

/// Puts the new text in the place of the old one, at once, unless somebody has changed that meanwhile.
fn replace(path: &Path, old: &str, new: &str) -> Done<()> {
    let mut file = Output::whole(path, Existing::Replace).map_err(failed("--in-place"))?;
    let now = std::fs::read(path).map_err(|error| Fail::Run(anyhow::Error::new(error)).about("--in-place"))?;
    if now != old.as_bytes() {
        let path = path.display();
        return Err(Fail::Run(anyhow::anyhow!(
            "--in-place: `{path}` has changed since it was read, and stays as it is now; run it again"
        )));
    }
    let written = file.write_all(new.as_bytes()).map_err(|error| file.failed(error));
    written.and_then(|()| file.publish()).map_err(failed("--in-place"))
}

/// Fills a window while it is shown or counted.
fn fill(args: &Args, engine: &mut Engine, window: Prepared) -> Done<cofill_engine::Generation> {
    let ShowArgs { show, delay } = args.show;
    let start = window.start.clone();
    let mut show = if show { Show::begun(engine, &start, window.probes(), delay) } else { None };
    let progress = (!args.show.show).then(|| Progress::filling(start.n_masked()));
    let mut watch = |event: &StepEvent<'_>| {
        if let Some(drawn) = &mut show
            && drawn.step(event.step, &event.step.pieces).is_err()
        {
            show = None;
        }
        if let Some(progress) = &progress {
            progress.step(start.n_masked() - event.canvas.n_masked(), start.n_masked(), event.nfe);
        }
        ControlFlow::Continue(())
    };
    Ok(engine.generate_watched(window, &mut watch)?)
}

/// `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    file: String,
    text: String,
    answers: Vec<&'a str>,
    gaps: Vec<GapAnswer>,
    windows: usize,
    nfe: usize,
    probes: usize,
    seconds: cofill_engine::Seconds,
    model: &'a str,
    sampler: &'a cofill::SamplerSpec,
    #[serde(flatten)]
    judged: Option<Judged>,
}

/// Where a gap is, its positions, the forwards that found them, and the tokens on either side that were seen.
#[derive(Serialize)]
struct GapAnswer {
    line: usize,
    length: usize,
    probes: usize,
    left: usize,
    right: usize,
}

impl GapAnswer {
    fn of(gap: &FilledGap) -> GapAnswer {
        GapAnswer { line: gap.line, length: gap.length, probes: gap.probes, left: gap.left.0, right: gap.right.0 }
    }
}

fn report(args: &Args, engine: &Engine, infill: &Infill) -> Done {
    let (spent, sampler, judged) = (infill.spent(), &args.run.sampler, infill.judged());
    let answers: Vec<&str> = infill.gaps().map(|gap| gap.answer.as_str()).collect();
    let n = answers.len();
    let mut out = std::io::stdout().lock();
    match (args.json, args.answer_only, answers.as_slice()) {
        (true, ..) => {
            let answer = Answer {
                file: args.file.display().to_string(),
                text: infill.text(),
                answers,
                gaps: infill.gaps().map(GapAnswer::of).collect(),
                windows: spent.windows,
                nfe: spent.nfe,
                probes: spent.probes,
                seconds: spent.seconds,
                model: engine.name(),
                sampler,
                judged: judged.clone(),
            };
            writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        }
        (_, true, [answer]) => {
            let answer = if out.is_terminal() { lines(answer) } else { (*answer).to_owned() };
            writeln!(out, "{answer}")?;
        }
        (_, true, answers) => {
            for answer in answers {
                writeln!(out, "{}", serde_json::to_string(answer)?)?;
            }
        }
        _ if args.in_place => {}
        _ if out.is_terminal() => writeln!(out, "{}", lines(&infill.text()).trim_end_matches('\n'))?,
        _ => out.write_all(infill.text().as_bytes())?, // byte for byte
    }
    out.flush()?;
    if args.in_place {
        note(&format!("filled {} in {}", count(n, "gap"), args.name()));
    }
    let windows = match spent.windows {
        1 => String::new(),
        n => format!(", {n} windows"),
    };
    let probes = match spent.probes {
        0 => String::new(),
        n => format!(" ({n} to find lengths)"),
    };
    note(&format!(
        "{sampler}  {} in {}{probes}{windows}; model {}, sampler {}",
        count(spent.tokens, "token"),
        count(spent.nfe, "forward"),
        duration(spent.seconds.model),
        duration(spent.seconds.sampler),
    ));
    if let Some(judged) = judged {
        note(&judged.line());
    }
    warn_cut(args, engine, infill);
    Ok(ExitCode::SUCCESS)
}

/// That the model saw less of the file than was meant.
fn warn_cut(args: &Args, engine: &Engine, infill: &Infill) {
    let most = args.context.unwrap_or(usize::MAX);
    let is_cut = |gap: &FilledGap| gap.left.0 < gap.left.1.min(most) || gap.right.0 < gap.right.1.min(most);
    let cut = infill.gaps().filter(|gap| is_cut(gap)).count();
    if cut > 0 {
        let least = |side: fn(&FilledGap) -> usize| infill.gaps().map(side).min().unwrap_or(0);
        let (left, right) = (least(|gap| gap.left.0), least(|gap| gap.right.0));
        warning_line(&format!(
            "{} has {} tokens and `{}` holds {}: {} saw only a part of it, {left} tokens to the left and {right} to the right at least; --context N sets how many",
            args.name(),
            infill.tokens(),
            engine.name(),
            engine.context(),
            count(cut, "gap"),
        ));
    }
}
