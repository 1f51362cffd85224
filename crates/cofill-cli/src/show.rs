//! The canvas being filled, for people: colour by confidence, the newest commits marked.
//!
//! Every step is a line, coloured on a terminal and plain elsewhere. A canvas that does not fit a line of the terminal, or that has
//! lines of its own, is redrawn in place instead. It goes to stderr, because the answer goes to stdout.

use cofill::{Canvas, Step};
use cofill_engine::Spelling;
use cofill_model::printable;
pub(crate) use cofill_report::document::count;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Draws steps as they happen.
pub(crate) struct Show {
    cells: Vec<Cell>,
    spelling: Spelling,
    live: bool,
    drawn: usize, // lines of the last picture
    nfe: usize,
}

#[derive(Clone)]
struct Cell {
    text: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Fixed,
    Masked,
    Committed { confidence: f64, new: bool },
}

/// A line break inside a line.
const BREAK: &str = "⏎";

/// End of text, which both families call so and nobody wants to read forty times.
const END: (&str, &str) = ("<|endoftext|>", "∎");

/// How long a picture stays before the next one replaces it.
const FRAME: Duration = Duration::from_millis(90);

impl Show {
    /// Starts from a canvas; `pieces` are the texts of its tokens, `probes` the forwards that were spent before the first step.
    pub(crate) fn new(canvas: &Canvas, pieces: &[String], spelling: Spelling, probes: usize) -> Show {
        let cell = |(position, text): (usize, &String)| match canvas.is_masked(position) {
            true => Cell { text: "_".into(), state: State::Masked },
            false => Cell { text: lines(text), state: State::Fixed },
        };
        let cells = pieces.iter().enumerate().map(cell).collect();
        Show { cells, spelling, live: live(), drawn: 0, nfe: probes }
    }

    /// Draws a step; `pieces` are the texts of its commits.
    pub(crate) fn step(&mut self, step: &Step, pieces: &[String]) -> std::io::Result<()> {
        for cell in &mut self.cells {
            if let State::Committed { new, .. } = &mut cell.state {
                *new = false;
            }
        }
        let mask = Cell { text: "_".into(), state: State::Masked };
        self.cells.resize(self.cells.len() + step.appended, mask.clone());
        for (commit, text) in step.commits.iter().zip(pieces) {
            let state = State::Committed { confidence: commit.confidence, new: true };
            let text = if text == END.0 { END.1 } else { text };
            self.cells[commit.position] = Cell { text: lines(text), state };
        }
        for &position in &step.remasked {
            self.cells[position] = mask.clone();
        }
        if let Some(collapse) = &step.collapsed {
            let end = self.cells[collapse.by].clone();
            collapse.positions.iter().for_each(|&position| self.cells[position] = end.clone());
        }
        self.nfe += step.forwards;
        let mut err = anstream::stderr().lock();
        if !self.live {
            return writeln!(err, "{}  {}", self.status(step), self.plain());
        }
        let (width, _) = terminal();
        let status = self.status(step);
        let text: usize = self.cells.iter().map(|cell| cell.text.chars().count() + 1).sum();
        if self.spelling == Spelling::Words && status.chars().count() + 2 + text < width {
            let cells: Vec<String> = self.cells.iter().map(|cell| cell.painted(&cell.text)).collect();
            writeln!(err, "{status}  {}", cells.join(" "))?;
        } else {
            self.redraw(&mut err, step)?;
        }
        std::thread::sleep(FRAME);
        Ok(())
    }

    fn status(&self, step: &Step) -> String {
        let left = step.n_masked + step.remasked.len() - step.filled().count();
        let mut status =
            format!("step {:>3}  nfe {:>3}  masked {:>3} -> {left:<3}", step.step, self.nfe, step.n_masked);
        if step.forced {
            status += "  forced";
        }
        status
    }

    /// Masks are `_`, the newest commits stand in brackets. Whole lines before the first mask are left out: they never change.
    fn plain(&self) -> String {
        let is_new = |cell: &Cell| matches!(cell.state, State::Committed { new: true, .. });
        let given = self.cells.iter().take_while(|cell| cell.state == State::Fixed).count();
        let start = self.cells[..given].iter().rposition(|cell| cell.text.ends_with('\n')).map_or(0, |at| at + 1);
        let cells = &self.cells[start..];
        match self.spelling {
            Spelling::Words => {
                let text = |cell: &Cell| if is_new(cell) { format!("[{}]", cell.text) } else { cell.text.clone() };
                cells.iter().map(text).collect::<Vec<_>>().join(" ")
            }
            Spelling::Pieces => {
                let neighbours = cells.chunk_by(|a, b| is_new(a) == is_new(b));
                let text = |run: &[Cell]| {
                    let text: String = run.iter().map(|cell| cell.text.replace('\n', BREAK)).collect();
                    if is_new(&run[0]) { format!("[{text}]") } else { text }
                };
                neighbours.map(text).collect()
            }
        }
    }

    fn redraw(&mut self, err: &mut impl Write, step: &Step) -> std::io::Result<()> {
        let (width, height) = terminal();
        let mut lines = vec![self.status(step)];
        if let Some(d) = &step.deferred {
            let name = |position: usize| format!("{position} `{}`", self.cells[position].text.replace('\n', BREAK));
            let through: String = d.through.iter().map(|&j| format!("{j}, which attends to ")).collect();
            let (position, confidence) = (d.position, d.confidence);
            let why = format!("  deferred {position} (confidence {confidence:.2}): attends to {through}{}", name(d.by));
            lines.push(why.chars().take(width - 1).collect());
        } else {
            lines.push(String::new());
        }
        let gap = if self.spelling == Spelling::Words { " " } else { "" };
        let (mut line, mut used) = (String::new(), 0);
        for cell in &self.cells {
            for (i, text) in cell.text.split('\n').enumerate() {
                let length = text.chars().count() + gap.len();
                if i > 0 || used + length >= width {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line += &cell.painted(text);
                line += gap;
                used += length;
            }
        }
        lines.push(line);
        // What scrolled out of sight cannot be drawn over: of a tall canvas, show the end.
        const STATUS: usize = 2;
        if lines.len() >= height {
            lines.drain(STATUS..lines.len() + STATUS + 1 - height);
        }
        if self.drawn > 0 {
            write!(err, "\x1b[{}A\x1b[J", self.drawn)?; // back to the top of the last picture
        }
        for line in &lines {
            writeln!(err, "{line}")?;
        }
        self.drawn = lines.len();
        err.flush()
    }
}

/// Whether stderr can be drawn over: a terminal, and none that `NO_COLOR` or a plain `TERM` keep from escape codes.
pub(crate) fn live() -> bool {
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    std::io::stderr().is_terminal() && colour
}

/// A text from a model or its files with its line breaks and tabs, and nothing else that would drive a terminal.
pub(crate) fn lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(printable).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Columns and rows.
fn terminal() -> (usize, usize) {
    let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(w, h)| (w.0.into(), h.0.into()));
    (usize::max(width, 20), usize::max(height, 8))
}

impl Cell {
    /// `text` in the cell's colour.
    fn painted(&self, text: &str) -> String {
        use anstyle::{AnsiColor, Style};
        let style = match self.state {
            State::Fixed => Style::new(),
            State::Masked => AnsiColor::BrightBlack.on_default(),
            State::Committed { confidence, new } => {
                let colour = match confidence {
                    c if c >= 0.9 => AnsiColor::Green,
                    c if c >= 0.6 => AnsiColor::Cyan,
                    c if c >= 0.4 => AnsiColor::Yellow,
                    _ => AnsiColor::Red,
                };
                let style = colour.on_default();
                if new { style.bold().underline() } else { style }
            }
        };
        format!("{style}{text}{style:#}")
    }
}
