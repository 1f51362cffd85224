//! `cofill explain`: what ADAS deferred, because of whom, and what revealing that one did to it.

mod html;

use crate::canvas::CanvasArgs;
use crate::fail::{Done, Fail, warning_line};
use crate::output::{ForceArgs, failed, refused};
use crate::show::{Spelling, count, spelling};
use anstyle::{AnsiColor, Style};
use cofill::{Canvas, TokenId};
use cofill_engine::{Engine, RunSpec};
use cofill_eval::diagnose::explain::{Deferred, Explained, Explanation, Reason, explain};
use cofill_model::printable;
use cofill_report::output::{self, Output};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show, step by step, what ADAS deferred, because of whom, and what revealing that one did to it.
///
/// A position is deferred when the same sampler without +ad would have committed it. Its reason is the chosen position
/// that took most from its score. The effect is measured: that position alone is revealed in a copy of the canvas, and
/// the model is asked again (KL divergence in nats, confidence before and after).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    /// Also write a page for a browser; it needs nothing but itself.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.html {
        // Before a model is loaded.
        output::check(path, args.force.existing()).map_err(refused("--html"))?;
    }
    let RunSpec { model, sampler, options, .. } = &args.run;
    if options.max_nfe.is_some() {
        return Err(Fail::request("--max-nfe is not for explain, which follows a decode to its end; leave it out"));
    }
    let mut engine = Engine::open(model, options)?;
    let (input, options) = args.canvas.input(&engine, options)?;
    let prepared = engine.prepare(&input, sampler, &options)?;
    prepared.warnings.iter().for_each(|warning| warning_line(warning));
    let (canvas, question) = (prepared.start, prepared.question);
    let proposal = options.proposal(engine.ends());
    let explanation = explain(engine.denoiser(), &canvas, sampler, options.schedule(), &proposal)?;
    let read = |tokens: &[TokenId]| -> Done<Ending> {
        let text = engine.read_tokens(&canvas, tokens, &options.stop)?;
        let verdict = question.as_ref().map(|question| question.judge(&text).line());
        Ok(Ending { text, verdict })
    };
    let story = Story {
        engine: &engine,
        spelling: spelling(model),
        canvas: &canvas,
        with: read(&explanation.end)?,
        without: read(&explanation.plain_end)?,
        explanation: &explanation,
    };
    if let Some(path) = &args.html {
        let mut page = Output::whole(path, args.force.existing()).map_err(refused("--html"))?;
        let written = page.write_all(html::page(&story).as_bytes()).map_err(|error| page.failed(error));
        written.and_then(|()| page.publish()).map_err(failed("--html"))?;
    }
    let mut out = anstream::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&explanation)?)?,
        false => story.print(&mut out)?,
    }
    if let Some(path) = &args.html {
        let _ = writeln!(anstream::stderr(), "wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What a decode came to.
struct Ending {
    text: String,
    verdict: Option<String>,
}

/// What a step did to a position.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Late,
    Old,
}

/// Everything there is to tell, in words.
struct Story<'a> {
    engine: &'a Engine,
    spelling: Spelling,
    canvas: &'a Canvas,
    explanation: &'a Explanation,
    with: Ending,
    without: Ending,
}

/// A line break inside a line, and end of text, as `--show` has them.
const BREAK: &str = "⏎";
const END: (&str, &str) = ("<|endoftext|>", "∎");

const MASK: &str = "_";

impl Story<'_> {
    /// A token on one line.
    fn piece(&self, token: TokenId) -> String {
        match token == self.canvas.mask_id() {
            true => MASK.into(),
            false => printable(&self.engine.piece(token).replace('\n', BREAK).replace(END.0, END.1)).into_owned(),
        }
    }

    /// From where a canvas is worth showing: the line of the first mask.
    fn shown_from(&self) -> usize {
        let first = self.canvas.masked().next().unwrap_or(0);
        let tokens = &self.canvas.tokens()[..first];
        tokens.iter().rposition(|&token| self.engine.piece(token).ends_with('\n')).map_or(0, |at| at + 1)
    }

    /// `2 of 16 steps deferred somebody ...`
    fn summary(&self) -> String {
        let all = || self.explanation.steps.iter().flat_map(|step| &step.deferred);
        let (n, steps) = (all().count(), self.explanation.steps.len());
        if n == 0 {
            return format!(
                "{} in {}; nobody was deferred: `{}` would have chosen the same at every step",
                self.explanation.sampler,
                count(steps, "step"),
                self.explanation.plain
            );
        }
        let mean = |of: fn(&Deferred) -> f64| all().map(of).sum::<f64>() / n as f64;
        let changed = all().filter(|deferred| deferred.after.token != deferred.token).count();
        let surer = all().filter(|deferred| deferred.after.confidence > deferred.confidence).count();
        format!(
            "{} in {}; deferred {} in {}. Once the reason was revealed: mean KL {:.3} nats, {surer} of {n} surer, \
             {changed} of {n} had another best token",
            self.explanation.sampler,
            count(steps, "step"),
            count(n, "time"),
            count(self.explanation.steps.iter().filter(|step| !step.deferred.is_empty()).count(), "step"),
            mean(|deferred| deferred.after.kl),
        )
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (bold, dim) = (Style::new().bold(), AnsiColor::BrightBlack.on_default());
        for step in &self.explanation.steps {
            let number = step.step.step;
            let left = step.step.n_masked - step.step.commits.len();
            let forced = if step.step.forced { "  forced" } else { "" };
            writeln!(
                out,
                "{bold}step {number}{bold:#}  masked {} -> {left}{forced}  {}",
                step.step.n_masked,
                self.line(step)
            )?;
            for deferred in &step.deferred {
                self.print_deferred(out, step, deferred)?;
            }
        }
        writeln!(out)?;
        writeln!(out, "{}", self.summary())?;
        let Explanation { plain, nfe, plain_nfe, extra_forwards, .. } = self.explanation;
        let endings = [(&self.explanation.sampler, nfe, &self.with), (plain, plain_nfe, &self.without)];
        for (sampler, nfe, ending) in endings {
            let verdict = ending.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {verdict}"));
            writeln!(out, "\n{bold}{sampler}{bold:#} ({}{verdict})", count(*nfe, "forward"))?;
            writeln!(out, "{}", ending.text.trim_end_matches('\n'))?;
        }
        writeln!(out, "\n{dim}{} more for this explanation{dim:#}", count(*extra_forwards, "forward"))
    }

    /// The canvas after a step: new commits in brackets, whoever waits as `_`.
    fn line(&self, explained: &Explained) -> String {
        let (new, late) = (AnsiColor::Green.on_default().bold(), AnsiColor::Yellow.on_default().bold());
        let cell = |position: usize| {
            let commit = explained.step.commits.iter().find(|commit| commit.position == position);
            match commit {
                Some(commit) => (Mark::New, self.piece(commit.token)),
                None if explained.deferred.iter().any(|d| d.position == position) => (Mark::Late, MASK.into()),
                None => (Mark::Old, self.piece(explained.before[position])),
            }
        };
        let cells: Vec<(Mark, String)> = (self.shown_from()..explained.before.len()).map(cell).collect();
        let show = |mark: Mark, text: String| match mark {
            Mark::New => format!("{new}[{text}]{new:#}"),
            Mark::Late => format!("{late}{text}{late:#}"),
            Mark::Old => text,
        };
        match self.spelling {
            Spelling::Words => cells.into_iter().map(|(mark, text)| show(mark, text)).collect::<Vec<_>>().join(" "),
            Spelling::Pieces => {
                let run = |run: &[(Mark, String)]| show(run[0].0, run.iter().map(|cell| cell.1.as_str()).collect());
                cells.chunk_by(|a, b| a.0 == b.0).map(run).collect()
            }
        }
    }

    fn print_deferred(&self, out: &mut impl Write, step: &Explained, deferred: &Deferred) -> std::io::Result<()> {
        let late = AnsiColor::Yellow.on_default().bold();
        let Deferred { position, token, confidence, reason, after, lost, committed } = deferred;
        let by = format!("{} `{}`", reason.position, self.piece(reason.token));
        writeln!(
            out,
            "  {late}deferred{late:#} {position} `{}` (c {confidence:.3}): attends {} {by} (c {:.3}) and lost \
             {lost:.3}{}",
            self.piece(*token),
            reading(reason),
            reason.confidence,
            match reason.lost < 0.995 * lost {
                true => format!(", {:.3} of it to {}", reason.lost, reason.position),
                false => String::new(),
            },
        )?;
        let end = committed.map_or_else(String::new, |end| match end.token == *token {
            true => format!("; committed in step {} after all", end.step),
            false => format!("; committed in step {} as `{}`", end.step, self.piece(end.token)),
        });
        writeln!(
            out,
            "           after {by}: `{}` (c {:.3}, {:+.3}), KL {:.3}{end}",
            self.piece(after.token),
            after.confidence,
            after.confidence - confidence,
            after.kl,
        )?;
        if step.deferred.last() == Some(deferred) && !step.instead.is_empty() {
            let name = |position: &usize| {
                let commit = step.step.commits.iter().find(|commit| commit.position == *position);
                commit.map_or_else(String::new, |commit| {
                    format!("{position} `{}` (c {:.3})", self.piece(commit.token), commit.confidence)
                })
            };
            let names: Vec<String> = step.instead.iter().map(name).collect();
            writeln!(out, "  instead  {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// How a deferred position reads the one it waits for: `.120 to`, or `through 4 and 7 to`.
fn reading(reason: &Reason) -> String {
    let through: Vec<String> = reason.through.iter().map(usize::to_string).collect();
    match through.is_empty() {
        true => format!("{:.3} to", reason.attention),
        false => format!("through {} to", through.join(" and ")),
    }
}
