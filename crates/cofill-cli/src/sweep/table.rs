//! What a person sees while a sweep runs, here or elsewhere: a line per model and task, and how long it will take.
//!
//! On a terminal the lines stay in place and are gone at the end. Elsewhere every point that is complete gets a line, once.

use crate::fail::Done;
use crate::show::live;
use cofill_eval::sweep::{Progress, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::Write;
use std::time::{Duration, Instant};

const TEMPLATE: &str = "{msg}{bar:30} {pos}/{len} prompts  {elapsed}";

/// The table of a sweep.
pub(crate) struct Table {
    bar: ProgressBar,
    began: Instant,
    /// Prompts that were done before we looked first: they took none of our time.
    before: usize,
    /// By line: the last point that was completed.
    last: Vec<Option<usize>>,
}

impl Table {
    /// Begins with what is done already.
    pub(crate) fn new(watch: &Watch<'_>) -> Table {
        let (before, all) = watch.examples();
        let target = if live() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(all as u64), target);
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_finish(ProgressFinish::AndClear).with_style(style);
        Table { bar, began: Instant::now(), before, last: vec![None; groups(watch).len()] }
    }

    /// Looks again and shows it; `note` stands at the end.
    pub(crate) fn look(&mut self, watch: &mut Watch<'_>, note: &str) -> Done<()> {
        let completed = watch.look()?;
        let (done, all) = watch.examples();
        let left = left(self.began.elapsed(), done.saturating_sub(self.before), all - done);
        if self.bar.is_hidden() {
            let (complete, points) = (watch.complete(), watch.points.len());
            // Those that were completed since the last look are counted up to where we are.
            for (i, n) in completed.iter().zip(complete + 1 - completed.len().max(1)..) {
                let point = &watch.points[*i];
                let line = format!("{n}/{points}  {}  {}{left}{note}", place(point), score(point));
                let _ = writeln!(anstream::stderr(), "{line}"); // nobody is left to tell when stderr is gone
            }
            return Ok(());
        }
        let groups = groups(watch);
        self.last.resize(groups.len(), None);
        let mut text = String::new();
        for ((name, points), last) in groups.iter().zip(&mut self.last) {
            *last = points.iter().copied().rfind(|i| completed.contains(i)).or(*last);
            let complete = points.iter().filter(|i| watch.points[**i].is_complete()).count();
            let last = last.map(|i| format!("  {}", score(&watch.points[i]))).unwrap_or_default();
            text += &format!("{name:<28} {complete:>4}/{} points{last}\n", points.len());
        }
        self.bar.set_message(text);
        self.bar.set_position(done as u64);
        self.bar.set_prefix(note.to_owned());
        let style = ProgressStyle::with_template(&format!("{TEMPLATE}{left}{{prefix}}"));
        if let Ok(style) = style {
            self.bar.set_style(style);
        }
        Ok(())
    }
}

/// Points by model and task, in their order.
fn groups(watch: &Watch<'_>) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (i, point) in watch.points.iter().enumerate() {
        let name = place(point);
        match groups.last_mut() {
            Some((last, points)) if *last == name => points.push(i),
            _ => groups.push((name, vec![i])),
        }
    }
    groups
}

fn place(progress: &Progress) -> String {
    format!("{}  {}", progress.planned.point.model, progress.planned.point.task.name())
}

fn score(progress: &Progress) -> String {
    let (totals, sampler) = (&progress.totals, &progress.planned.point.sampler);
    format!("{sampler}  {:.1} %  nfe {:.2}", 100.0 * totals.score().0, totals.mean_nfe())
}

/// How long the rest takes if it goes on like this.
fn left(elapsed: Duration, done: usize, rest: usize) -> String {
    if done == 0 || rest == 0 {
        return String::new();
    }
    let seconds = (elapsed.as_secs_f64() / done as f64 * rest as f64).round() as u64;
    match seconds {
        0..3600 => format!("  {}:{:02} left", seconds / 60, seconds % 60),
        _ => format!("  {}:{:02}:{:02} left", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_goes_on_like_this() {
        // 10 in 4 seconds: 300 more take 120.
        assert_eq!(left(Duration::from_secs(4), 10, 300), "  2:00 left");
        assert_eq!(left(Duration::from_secs(4000), 10, 10), "  1:06:40 left");
        assert_eq!((left(Duration::ZERO, 0, 5), left(Duration::ZERO, 5, 0)), (String::new(), String::new()));
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
