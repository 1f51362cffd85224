//! `cofill report`: tables and figures of results.

use crate::fail::{Done, Fail, warning_line};
use crate::output::{ForceArgs, refused};
use crate::show::count;
use crate::typed;
use cofill_eval::sweep::{Counts, Sweep};
use cofill_report::plot::Width;
use cofill_report::points::{self, Points, files, table};
use cofill_report::report::provenance::{Made, Provenance, utc};
use cofill_report::report::{self, FigureOptions, File, Report};
use cofill_report::statistics::bootstrap::Bootstrap;
use cofill_report::statistics::versus::Pairing;
use cofill_report::written;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Compare samplers: gains at matched NFE, tests, fronts, figures.
///
/// Every result is an operating point: a score and the forwards it took. A sampler with `+ad` is compared with the same sampler without it
/// at equal NFE, as in the paper: base points with at least four tokens per forward, the other curve interpolated linearly, points
/// outside its range left out. Where answers are known, paired tests say which gains are more than chance.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files that `cofill eval --out` wrote, or folders with such files.
    #[arg(value_name = "PATH", required_unless_present = "points")]
    paths: Vec<PathBuf>,
    /// Points from a table: model,rule,param,task,variant,score,nfe and, where wanted, length,n,standard_error (else those of the whole benchmark). May be given more than once.
    ///
    /// A rule is a sampler as `cofill samplers` spells it, or the paper's name of one: Fast-dLLM with a capital (or fastdllm) is the paper's rule,
    /// `fast`, and fast-dllm the sampler of that name. points.csv of --out is such a table.
    #[arg(long, value_name = "CSV")]
    points: Vec<PathBuf>,
    /// Compare one variant with another over questions, at own points and at base points: `paths:100/adas`, `adas/base`. Several with commas, where
    /// models have different ones: `paths:200,paths:5/adas`. May be given more than once; also says who is best within a budget.
    #[arg(long, value_name = "A/B")]
    versus: Vec<Pairing>,
    /// Write report.md, report.html, report.tex, report.json, points.csv, gains.csv and figures/ (SVG, PNG, PDF) to a folder.
    ///
    /// With --force, figures that an earlier report wrote there and this one has not are removed; files of others stay.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Figures with one panel alone: a task, or several names with slashes between them, such as `tiny-llada/chain/Top-k` (model, task, sampler).
    #[arg(long, value_name = "NAME", requires = "out")]
    panel: Option<String>,
    /// Figures for a paper: one column (3.3 inches) or the whole page (6.9 inches), with letters of 6 to 7 points and no title.
    #[arg(long, value_name = "column|page", requires = "out")]
    width: Option<Width>,
    #[command(flatten)]
    force: ForceArgs,
    /// Resamples of every interval.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    resamples: u32,
    /// The root of the resamples.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    args.paths.iter().try_for_each(|path| finish_sweep(path))?;
    let mut found = files::read(&args.paths).map_err(refused_results)?;
    for path in &args.points {
        found.extend(table::read(path)?);
    }
    let points = Points::new(found)?;
    if points.all().is_empty() {
        return Err(Fail::request("there is no operating point; the tables of --points have no rows"));
    }
    let bootstrap = Bootstrap { resamples: args.resamples as usize, seed: args.seed };
    let report = Report::new(points, bootstrap).against(&args.versus);
    if report.versus.len() < args.versus.len() {
        warning_line("of some --versus, no model, task and rule has both sides with answers to the same questions");
    }
    report.warnings.iter().for_each(|warning| warning_line(warning));
    if let Some(folder) = &args.out {
        let figures = FigureOptions { width: args.width.unwrap_or_default(), panel: args.panel.clone() };
        let files = report.clone().from_where(provenance(args)?).files_with(&figures).map_err(|error| match error {
            report::Error::Panel(error) => Fail::request(format!("--panel: {error}")),
            error => Fail::Run(error.into()),
        })?;
        let files = files.iter().map(|File { name, bytes }| (name.as_str(), bytes.as_slice()));
        written::replace_all(folder, files, args.force.existing()).map_err(refused("--out"))?;
    }
    if args.out.is_some() {
        // stdout is where the report is; these lines are what most people want of it.
        report.best_within.iter().for_each(|best| {
            let _ = writeln!(anstream::stderr(), "{}", best.answer());
        });
    }
    let mut stdout = std::io::stdout().lock();
    match (&args.out, args.json) {
        (_, true) => writeln!(stdout, "{}", report.json()?)?,
        (None, false) => write!(stdout, "{}", report.markdown())?,
        (Some(folder), false) => writeln!(stdout, "{}", folder.join("report.html").display())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a sweep that is under way, the points that are complete are used as if it had been merged, and the rest is told.
fn finish_sweep(path: &Path) -> Done<()> {
    let Ok(sweep) = Sweep::open(path) else { return Ok(()) }; // a file, or a folder of files
    let Counts { points, complete, prompts, done } = sweep.counts()?;
    let (all, dir) = (count(points, "point"), path.display());
    if complete == 0 {
        return Err(Fail::request(format!(
            "`{dir}` is a sweep of which no point is complete yet: {done} of {prompts} prompts of {all} are done; `cofill sweep work {dir}` goes on"
        )));
    }
    // A folder that cannot be written has what was merged before.
    if let Err(error) = sweep.merge_news() {
        warning_line(&format!("points that were completed lately are left out: {error}"));
    }
    if complete < points {
        let missing = points - complete;
        warning_line(&format!("{missing} of {all} not complete and left out; `cofill sweep work {dir}` goes on"));
    }
    Ok(())
}

/// What the report is made of, and that this command made it.
fn provenance(args: &Args) -> Done<Provenance> {
    let mut sources = files::find(&args.paths)?;
    sources.extend(args.points.iter().cloned());
    // As other builders of documents have it: a date that does not change what is made again from the same files.
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = given.map_or_else(SystemTime::now, |seconds| UNIX_EPOCH + Duration::from_secs(seconds));
    Ok(Provenance::of(&sources)?.made(Made {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: crate::COMMIT.into(),
        command: typed::line(),
        date: utc(now),
    }))
}

/// Says which command writes what is missing.
fn refused_results(error: points::Error) -> Fail {
    let hint = match &error {
        points::Error::Empty { .. } => "; `cofill eval --resume` continues it",
        points::Error::Nothing { .. } => "; `cofill eval --out` writes them",
        _ => return error.into(),
    };
    Fail::request(format!("{error}{hint}"))
}
