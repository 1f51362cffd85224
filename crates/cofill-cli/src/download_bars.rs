//! What a person sees while something is downloaded: a bar for the file, and one for all of them. Lines where nothing can be redrawn.

use crate::models::size;
use crate::show::{count, lines, live};
use cofill_hub::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::sync::Mutex;

const FILE: &str = "{bar:30} {bytes:>10}/{total_bytes:<10} {bytes_per_sec:>12}  {msg}";
const TOTAL: &str = "{bar:30} {bytes:>10}/{total_bytes:<10} {eta:>12}  {msg}";

/// Draws a download. Bars vanish when it ends, however that happens.
pub(crate) struct DownloadBars {
    live: bool,
    state: Mutex<State>,
}

struct State {
    all: MultiProgress,
    total: Option<ProgressBar>,
    file: Option<ProgressBar>,
    /// Bytes of the files before this one.
    before: u64,
}

impl DownloadBars {
    pub(crate) fn new() -> DownloadBars {
        let live = live();
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        DownloadBars { live, state: Mutex::new(State { all, total: None, file: None, before: 0 }) }
    }

    /// After something happened.
    pub(crate) fn event(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match event {
            Event::Planned { what, commit, files, missing, present } => {
                let commit = commit.as_ref().map_or(String::new(), |commit| format!(" at {commit:.7}"));
                if *missing > 0 {
                    let n = count(files.len(), "file");
                    let there = if *present > 0 { format!(", {} are there", size(*present)) } else { String::new() };
                    let keep = "Ctrl-C keeps what is there, and the same command continues";
                    self.say(&state, &format!("{what}{commit}: {n}, {} to fetch{there}; {keep}", size(*missing)));
                }
                let bytes = files.iter().map(|(_, size)| size).sum();
                state.total = Some(state.add(bytes, TOTAL, "all files".into()));
            }
            Event::Started { file, size, from } => {
                let name = lines(file);
                let bar = state.add(*size, FILE, name);
                bar.set_position(*from);
                bar.reset_eta();
                state.file = Some(bar);
                state.show(*from);
            }
            Event::Progress { done, .. } => state.show(*done),
            Event::Finished { file } => {
                let size = state.file.take().map_or(0, |bar| {
                    bar.finish_and_clear();
                    bar.length().unwrap_or(0)
                });
                state.before += size;
                state.show(0);
                if !self.live {
                    self.say(&state, &format!("{}  {}", lines(file), crate::models::size(size)));
                }
            }
            Event::Retrying { what, why, pause } => {
                let again = format!("{what}: {why}; again in {:.1} s", pause.as_secs_f64());
                self.say(&state, &again);
            }
            Event::Waiting { file, holder } => {
                self.say(&state, &format!("{} is being downloaded by {holder}; waiting for it", lines(file)));
            }
            _ => {}
        }
    }

    /// A line above the bars.
    fn say(&self, state: &State, text: &str) {
        let text = lines(text);
        if self.live {
            let _ = state.all.println(text);
        } else {
            let _ = writeln!(std::io::stderr(), "{text}"); // nobody is left to tell when stderr is gone
        }
    }
}

impl Drop for DownloadBars {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = state.all.clear();
    }
}

impl State {
    fn add(&self, bytes: u64, template: &str, message: String) -> ProgressBar {
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(bytes).with_style(style).with_message(message);
        match &self.total {
            Some(total) => self.all.insert_before(total, bar),
            None => self.all.add(bar),
        }
    }

    /// So many bytes of the file are there.
    fn show(&self, done: u64) {
        if let Some(bar) = &self.file {
            bar.set_position(done);
        }
        if let Some(total) = &self.total {
            total.set_position(self.before + done);
        }
    }
}

/// Downloads that opening a model starts (`-m hf:org/name`) are drawn from now on.
pub(crate) fn draw_downloads() {
    let bars = DownloadBars::new();
    cofill_engine::on_download(move |event| {
        bars.event(event);
        // The last file is there: leave the terminal to whoever draws next.
        if let Event::Finished { .. } = event {
            bars.clear_if_done();
        }
    });
}

impl DownloadBars {
    fn clear_if_done(&self) {
        let state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(total) = state.total.as_ref().filter(|total| Some(total.position()) == total.length()) {
            total.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [FILE, TOTAL] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
