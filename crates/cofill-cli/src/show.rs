//! The canvas being filled, for people: colour by confidence, the newest commits marked.
//!
//! Piped, every step is a line, in colour where `--color always` asks for it. On a terminal a canvas of words that fits a line is so, too, in colour; any other is drawn in place, at a
//! pace that can be followed, and of one that is taller than the window the part where something happens. It goes to stderr, because the
//! answer goes to stdout.

mod colour;
mod glue;
mod layout;
mod pace;
pub(crate) mod screen;

pub(crate) use pace::Delay;

use cofill::{Canvas, Step, TokenId};
use cofill_engine::{Engine, Spelling};
use cofill_model::printable;
pub(crate) use cofill_report::document::count;
use colour::{Shades, State};
use glue::{Glue, is_broken};
use layout::{Line, follow, wrap};
use pace::Pace;
use screen::{Screen, Size, ready};
use std::io::{IsTerminal, Write};

/// Draws steps as they happen. Dropped, it leaves the last picture where it is.
pub(crate) struct Show {
    cells: Vec<Cell>,
    spelling: Spelling,
    nfe: usize,
    pace: Pace,
    glue: Option<Glue>,
    live: Option<Live>,
    /// Colours of lines that no terminal reads, and whether it was said what they mean.
    piped: Option<(Shades, bool)>,
}

/// What a terminal needs besides.
struct Live {
    shades: Shades,
    screen: Screen,
    /// The first line of the canvas in sight.
    top: usize,
    is_explained: bool,
}

#[derive(Clone)]
struct Cell {
    token: TokenId,
    text: String,
    state: State,
}

/// A line break inside a line.
const BREAK: &str = "⏎";

/// End of text, which both families call so and nobody wants to read forty times.
const END: (&str, &str) = ("<|endoftext|>", "∎");

/// The usual arguments of `--show`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ShowArgs {
    /// Show the canvas being filled (on stderr).
    #[arg(long)]
    pub(crate) show: bool,
    /// How long --show keeps a picture: 300, 300ms, 0.3s (default: what makes a few seconds of all of them on a terminal, else 0).
    #[arg(long, value_name = "TIME", requires = "show")]
    pub(crate) delay: Option<Delay>,
}

impl Show {
    /// Starts from a canvas; `pieces` are the texts of its tokens, `probes` the forwards that were spent before the first step.
    pub(crate) fn new(canvas: &Canvas, pieces: &[String], spelling: Spelling, probes: usize) -> Show {
        let cell = |(position, text): (usize, &String)| match canvas.is_masked(position) {
            true => Cell::masked(canvas.mask_id()),
            false => Cell { token: canvas.tokens()[position], text: lines(text), state: State::Fixed },
        };
        let cells = pieces.iter().enumerate().map(cell).collect();
        let live = live().then(|| Live {
            shades: Shades::of_terminal(),
            screen: Screen::default(),
            top: 0,
            is_explained: false,
        });
        let pace = Pace::new(None, std::io::stderr().is_terminal());
        let piped = (live.is_none() && coloured()).then(|| (Shades::of_terminal(), false));
        Show { cells, spelling, nfe: probes, pace, glue: None, live, piped }
    }

    /// With the characters that several tokens make together.
    pub(crate) fn reading(mut self, engine: &Engine) -> Show {
        self.glue = Some(Glue::new(engine.reader()));
        self
    }

    /// With pauses of this length between pictures.
    pub(crate) fn paced(mut self, delay: Option<Delay>) -> Show {
        self.pace = Pace::new(delay, std::io::stderr().is_terminal());
        self
    }

    /// What a command begins with: the first picture, and a cursor that comes back whatever ends the process. `None` where nothing can be
    /// drawn, which must not cost the answer.
    pub(crate) fn begun(engine: &Engine, canvas: &Canvas, probes: usize, delay: Option<Delay>) -> Option<Show> {
        if live() {
            crate::signals::keep_cursor().ok()?;
        }
        let pieces: Vec<String> = canvas.tokens().iter().map(|&token| engine.piece(token)).collect();
        let mut show = Show::new(canvas, &pieces, Spelling::of(engine.name()), probes).paced(delay).reading(engine);
        show.begin().is_ok().then_some(show)
    }

    /// Draws the canvas as it is before the first step, where pictures are drawn in place: a large model lets one wait for that.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        let masks = self.cells.iter().filter(|cell| cell.state == State::Masked).count();
        let status = format!("step   -  nfe {:>3}  masked {masks:>3}", self.nfe);
        let size = Size::of_terminal();
        match self.live.is_some() && self.one_line(&status, size).is_none() {
            true => self.redraw(&mut anstream::stderr().lock(), &status, "", size),
            false => Ok(()),
        }
    }

    /// Draws a step; `pieces` are the texts of its commits.
    pub(crate) fn step(&mut self, step: &Step, pieces: &[String]) -> std::io::Result<()> {
        self.absorb(step, pieces);
        let status = self.status(step);
        let mut err = anstream::stderr().lock();
        let size = Size::of_terminal();
        match &mut self.live {
            None => {
                if let Some((shades, is_explained)) = &mut self.piped
                    && !std::mem::replace(is_explained, true)
                {
                    writeln!(err, "{}", shades.legend(size.width).0)?;
                }
                let line = self.line();
                writeln!(err, "{status}  {line}")?;
            }
            Some(_) => match self.one_line(&status, size) {
                Some(line) => self.append(&mut err, &line, size)?,
                None => {
                    let why = self.deferral(step);
                    self.redraw(&mut err, &status, &why, size)?;
                }
            },
        }
        drop(err);
        self.pace.pause(step.filled().count(), left(step));
        Ok(())
    }

    fn absorb(&mut self, step: &Step, pieces: &[String]) {
        for cell in &mut self.cells {
            if let State::Committed { new, .. } = &mut cell.state {
                *new = false;
            }
        }
        let mask = Cell::masked(TokenId::MAX); // whatever its id is, it is read as a mask
        self.cells.resize(self.cells.len() + step.appended, mask.clone());
        for (commit, text) in step.commits.iter().zip(pieces) {
            let state = State::Committed { confidence: commit.confidence, new: true };
            let text = if text == END.0 { END.1 } else { text };
            self.cells[commit.position] = Cell { token: commit.token, text: lines(text), state };
        }
        for &position in &step.remasked {
            self.cells[position] = mask.clone();
        }
        if let Some(collapse) = &step.collapsed {
            let end = self.cells[collapse.by].clone();
            collapse.positions.iter().for_each(|&position| self.cells[position] = end.clone());
        }
        self.nfe += step.forwards;
    }

    fn status(&self, step: &Step) -> String {
        let mut status =
            format!("step {:>3}  nfe {:>3}  masked {:>3} -> {:<3}", step.step, self.nfe, step.n_masked, left(step));
        if step.forced {
            status += "  forced";
        }
        status
    }

    /// Who waited, and for whom.
    fn deferral(&self, step: &Step) -> String {
        let Some(d) = &step.deferred else { return String::new() };
        let through: String = d.through.iter().map(|&j| format!("{j}, which attends to ")).collect();
        let by = self.cells[d.by].text.replace('\n', BREAK);
        format!("  deferred {} (confidence {:.2}): attends to {through}{} `{by}`", d.position, d.confidence, d.by)
    }

    /// Masks are `_`, the newest commits stand in brackets. Whole lines before the first mask are left out: they never change.
    fn line(&mut self) -> String {
        let all = self.glued();
        let is_new = |cell: &Cell| matches!(cell.state, State::Committed { new: true, .. });
        let given = all.iter().take_while(|cell| cell.state == State::Fixed).count();
        let start = all[..given].iter().rposition(|cell| cell.text.ends_with('\n')).map_or(0, |at| at + 1);
        let cells = &all[start..];
        let painted = |cell: &Cell, text: &str| match self.piped {
            Some((shades, _)) => {
                let style = shades.style(cell.state);
                format!("{style}{text}{style:#}")
            }
            None => text.to_owned(),
        };
        match self.spelling {
            Spelling::Words => {
                let text = |cell: &Cell| {
                    let word = painted(cell, &cell.text);
                    if is_new(cell) { format!("[{word}]") } else { word }
                };
                cells.iter().map(text).collect::<Vec<_>>().join(" ")
            }
            Spelling::Pieces => {
                let neighbours = cells.chunk_by(|a, b| is_new(a) == is_new(b));
                let text = |run: &[Cell]| {
                    let text: String = run.iter().map(|cell| painted(cell, &cell.text.replace('\n', BREAK))).collect();
                    if is_new(&run[0]) { format!("[{text}]") } else { text }
                };
                neighbours.map(text).collect()
            }
        }
    }

    /// The cells, those whose bytes make characters only together as one.
    fn glued(&mut self) -> Vec<Cell> {
        let Some(glue) = &mut self.glue else { return self.cells.clone() };
        let (mut cells, mut rest) = (Vec::with_capacity(self.cells.len()), self.cells.as_slice());
        while let Some((cell, others)) = rest.split_first() {
            let broken = rest.iter().take_while(|cell| cell.state != State::Masked && is_broken(&cell.text));
            let tokens: Vec<TokenId> = broken.map(|cell| cell.token).collect();
            match glue.first(&tokens) {
                Some((n, text)) => {
                    let is_new = |cell: &&Cell| matches!(cell.state, State::Committed { new: true, .. });
                    let state = rest[..n].iter().find(is_new).unwrap_or(cell).state;
                    cells.push(Cell { text: lines(&text), state, ..*cell });
                    rest = &rest[n..];
                }
                None => {
                    cells.push(cell.clone());
                    rest = others;
                }
            }
        }
        cells
    }

    /// The whole canvas in colour behind its status, if it is one of words and fits, and nothing was drawn in place before.
    fn one_line(&self, status: &str, size: Size) -> Option<String> {
        let live = self.live.as_ref().filter(|live| self.spelling == Spelling::Words && !live.screen.is_begun())?;
        let mut lines = wrap(spelled(&self.cells, self.spelling), size.width.saturating_sub(status.len() + 3));
        let line = lines.pop().filter(|_| lines.is_empty())?;
        Some(format!("{status}  {}", line.painted(live.shades)))
    }

    fn append(&mut self, err: &mut impl Write, line: &str, size: Size) -> std::io::Result<()> {
        if let Some(live) = self.live.as_mut().filter(|live| !live.is_explained) {
            writeln!(err, "{}", live.shades.legend(size.width).0)?;
            live.is_explained = true;
        }
        writeln!(err, "{line}")
    }

    fn redraw(&mut self, err: &mut impl Write, status: &str, why: &str, size: Size) -> std::io::Result<()> {
        let most = size.width - 1; // a full line would make some terminals begin another
        let canvas = wrap(spelled(&self.glued(), self.spelling), most);
        let Some(live) = &mut self.live else { return Ok(()) };
        // Status, who waited, and the legend; a line for the cursor.
        let rows = size.height - 4;
        if !live.screen.is_begun() {
            live.top = canvas.iter().position(|line| line.masked).unwrap_or(0); // a long prompt is not what one looks at
        }
        live.top = follow(&canvas, rows, live.top.min(canvas.len().saturating_sub(rows)));
        let seen = &canvas[live.top..canvas.len().min(live.top + rows)];
        let note = match seen.len() < canvas.len() {
            true => format!("   {}-{}/{}", live.top + 1, live.top + seen.len(), canvas.len()),
            false => String::new(),
        };
        let plain = |text: &str| ready(&Line::plain(text, most), live.shades);
        let mut lines = vec![plain(status), plain(why)];
        lines.extend(seen.iter().map(|line| ready(line, live.shades)));
        let (legend, width) = live.shades.legend(size.width - note.len().min(size.width / 2));
        lines.push((legend + &note, width + note.len()));
        live.screen.draw(err, &lines, size)
    }
}

/// Texts with what stands between them.
fn spelled(cells: &[Cell], spelling: Spelling) -> impl Iterator<Item = (&str, State)> {
    let gap = (spelling == Spelling::Words).then_some((" ", State::Fixed));
    let gaps = std::iter::once(None).chain(std::iter::repeat(gap));
    cells.iter().zip(gaps).flat_map(|(cell, gap)| gap.into_iter().chain([(cell.text.as_str(), cell.state)]))
}

impl Cell {
    fn masked(token: TokenId) -> Cell {
        Cell { token, text: "_".into(), state: State::Masked }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        if let Some(live) = &mut self.live {
            let _ = live.screen.leave(&mut anstream::stderr().lock()); // nobody is left to tell
        }
    }
}

/// Masks after a step.
fn left(step: &Step) -> usize {
    step.n_masked + step.remasked.len() - step.filled().count()
}

/// Whether stderr can be drawn over: a terminal, and none that `NO_COLOR` or a plain `TERM` keep from escape codes.
pub(crate) fn live() -> bool {
    std::io::stderr().is_terminal() && coloured()
}

/// Whether colours on stderr are wanted: by a terminal, by a flag or by a variable.
fn coloured() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// A text from a model or its files with its line breaks and tabs, and nothing else that would drive a terminal.
pub(crate) fn lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(printable).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
