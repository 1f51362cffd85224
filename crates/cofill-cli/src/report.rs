//! `cofill report`: tables and figures of results.

use crate::fail::{Done, Fail, warning_line};
use cofill_eval::bootstrap::Bootstrap;
use cofill_eval::points::{Points, files, table};
use cofill_eval::report::document::document;
use cofill_eval::report::markdown::markdown;
use cofill_eval::report::{File, Report};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    #[arg(long, value_name = "CSV")]
    points: Vec<PathBuf>,
    /// Write report.md, report.html, report.tex, report.json, points.csv, gains.csv and figures/ to a folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
    let mut found = files::read(&args.paths)?;
    for path in &args.points {
        found.extend(table::read(path)?);
    }
    let points = Points::new(found)?;
    if points.all().is_empty() {
        return Err(Fail::request("there is no operating point; the tables of --points have no rows"));
    }
    let bootstrap = Bootstrap { resamples: args.resamples as usize, seed: args.seed };
    let report = Report::new(points, bootstrap);
    report.warnings.iter().for_each(|warning| warning_line(warning));
    if let Some(folder) = &args.out {
        let files = report.files().map_err(|error| Fail::Run(error.into()))?;
        write(folder, &files).map_err(|(path, error)| {
            Fail::request(format!(
                "--out: cannot write `{}`: {error}; give a folder that can be written",
                path.display()
            ))
        })?;
    }
    let mut stdout = std::io::stdout().lock();
    match (&args.out, args.json) {
        (_, true) => writeln!(stdout, "{}", report.json()?)?,
        (None, false) => write!(stdout, "{}", markdown(&document(&report)))?,
        (Some(folder), false) => writeln!(stdout, "{}", folder.join("report.html").display())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes files below a folder, which is made when it is not there.
fn write(folder: &Path, files: &[File]) -> Result<(), (PathBuf, std::io::Error)> {
    for File { name, bytes } in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| (parent.to_path_buf(), error))?;
        std::fs::write(&path, bytes).map_err(|error| (path, error))?;
    }
    Ok(())
}
