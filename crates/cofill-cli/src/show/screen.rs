//! A picture that is drawn over itself at the end of a terminal's output.
//!
//! The picture is never taller than the window less a line, so its first line can always be reached again. A terminal that becomes
//! narrower wraps what was drawn; how many rows that takes is known, since the width of every line is.

use super::layout::Line;
use crate::signals;
use std::io::Write;

const HIDE: &str = "\x1b[?25l";
pub(crate) const SHOW: &str = "\x1b[?25h";
/// A frame between these appears at once, where the terminal can do that.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// Columns and rows of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Size {
    /// Of the terminal that stderr goes to.
    pub(super) fn of_terminal() -> Size {
        let size = terminal_size::terminal_size_of(std::io::stderr()).or_else(terminal_size::terminal_size);
        let (width, height) = size.map_or((80, 24), |(w, h)| (w.0.into(), h.0.into()));
        Size { width: usize::max(width, 20), height: usize::max(height, 6) }
    }
}

/// Where the last picture is.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The columns of its lines.
    drawn: Vec<usize>,
}

impl Screen {
    /// Whether there is a picture.
    pub(super) fn is_begun(&self) -> bool {
        !self.drawn.is_empty()
    }

    /// Puts a picture in the place of the last one. `lines` are with colours; none is wider or taller than the window.
    pub(super) fn draw(&mut self, out: &mut impl Write, lines: &[(String, usize)], size: Size) -> std::io::Result<()> {
        if signals::was_suspended() {
            self.drawn.clear(); // the shell has written below it since
        }
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(size.width).max(1)).sum();
        let up = rows.min(size.height - 1);
        let mut frame = format!("{BEGIN}{HIDE}\r");
        if up > 0 {
            frame += &format!("\x1b[{up}A");
        }
        for (line, _) in lines {
            frame += line;
            frame += "\x1b[K\r\n";
        }
        frame += "\x1b[J";
        frame += END;
        self.drawn = lines.iter().map(|(_, width)| *width).collect();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Leaves the picture where it is and gives the cursor back.
    pub(super) fn leave(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if !self.is_begun() {
            return Ok(());
        }
        self.drawn.clear();
        out.write_all(SHOW.as_bytes())?;
        out.flush()
    }
}

/// A picture's lines, ready for [`Screen::draw`].
pub(super) fn ready(line: &Line, shades: super::colour::Shades) -> (String, usize) {
    (line.painted(shades), line.width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As much of a terminal as pictures need: rows that scroll away, a cursor, and the codes that [`Screen`] writes.
    struct Terminal {
        size: Size,
        rows: Vec<String>,
        scrolled: Vec<String>,
        at: (usize, usize), // row, column
        cursor: bool,
    }

    impl Terminal {
        fn new(width: usize, height: usize) -> Terminal {
            let rows = vec![String::new(); height];
            Terminal { size: Size { width, height }, rows, scrolled: Vec::new(), at: (0, 0), cursor: true }
        }

        fn write(&mut self, bytes: &[u8]) {
            let mut text = std::str::from_utf8(bytes).unwrap();
            while let Some(c) = text.chars().next() {
                text = &text[c.len_utf8()..];
                match c {
                    '\x1b' => {
                        let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                        let (code, rest) = text.split_at(end + 1);
                        text = rest;
                        self.code(code);
                    }
                    '\r' => self.at.1 = 0,
                    '\n' => self.down(),
                    c => {
                        if self.at.1 == self.size.width {
                            self.at.1 = 0;
                            self.down();
                        }
                        let row = &mut self.rows[self.at.0];
                        let mut cells: Vec<char> = row.chars().collect();
                        cells.resize(cells.len().max(self.at.1 + 1), ' ');
                        cells[self.at.1] = c;
                        *row = cells.into_iter().collect();
                        self.at.1 += 1;
                    }
                }
            }
        }

        fn code(&mut self, code: &str) {
            match code {
                "[?25l" => self.cursor = false,
                "[?25h" => self.cursor = true,
                "[?2026h" | "[?2026l" => {}
                "[K" => self.rows[self.at.0] = self.rows[self.at.0].chars().take(self.at.1).collect(),
                "[J" => {
                    self.code("[K");
                    self.rows[self.at.0 + 1..].iter_mut().for_each(String::clear);
                }
                up => {
                    let n: usize = up.strip_prefix('[').and_then(|up| up.strip_suffix('A')).unwrap().parse().unwrap();
                    self.at.0 = self.at.0.saturating_sub(n);
                }
            }
        }

        fn down(&mut self) {
            if self.at.0 + 1 < self.size.height {
                self.at.0 += 1;
            } else {
                self.scrolled.push(self.rows.remove(0));
                self.rows.push(String::new());
            }
        }

        /// Everything that was ever written and is still there, up to the cursor.
        fn all(&self) -> Vec<String> {
            self.scrolled.iter().chain(&self.rows[..self.at.0]).cloned().collect()
        }
    }

    fn picture(tag: usize, lines: usize, width: usize) -> Vec<(String, usize)> {
        (0..lines)
            .map(|i| format!("{tag}:{i} {}", "x".repeat(i % width.saturating_sub(8).max(1))))
            .map(|l| (l.clone(), l.len()))
            .collect()
    }

    proptest! {
        /// Whatever was there before stays above, the last picture is whole, and nothing of the others is left.
        #[test]
        fn a_picture_replaces_the_last_one_and_nothing_else(
            before in 0usize..30, heights in prop::collection::vec(1usize..12, 1..8), height in 12usize..20, width in 20usize..40
        ) {
            let (mut terminal, mut screen) = (Terminal::new(width, height), Screen::default());
            let text: Vec<String> = (0..before).map(|i| format!("before {i}")).collect();
            text.iter().for_each(|line| terminal.write(format!("{line}\r\n").as_bytes()));
            let mut last = Vec::new();
            for (tag, lines) in heights.iter().enumerate() {
                let lines = picture(tag, *lines, width);
                let mut bytes = Vec::new();
                screen.draw(&mut bytes, &lines, terminal.size).unwrap();
                terminal.write(&bytes);
                prop_assert!(!terminal.cursor);
                last = lines.into_iter().map(|(line, _)| line).collect();
            }
            prop_assert_eq!(terminal.all(), [text, last].concat());
            let mut bytes = Vec::new();
            screen.leave(&mut bytes).unwrap();
            terminal.write(&bytes);
            prop_assert!(terminal.cursor && terminal.at.1 == 0);
        }
    }

    #[test]
    fn a_narrower_window_wraps_the_last_picture_which_is_still_replaced() {
        // 30 columns of 40; at 20 the terminal has made two rows of it.
        let (mut terminal, mut screen) = (Terminal::new(20, 12), Screen { drawn: vec![30, 5] });
        terminal.write(format!("above\r\n{}\r\n{}\r\n", "o".repeat(30), "p".repeat(5)).as_bytes());
        let mut bytes = Vec::new();
        screen.draw(&mut bytes, &picture(7, 2, 20), terminal.size).unwrap();
        terminal.write(&bytes);
        assert_eq!(terminal.all(), ["above", "7:0 ", "7:1 x"]);
        assert!(terminal.rows[3..].iter().all(String::is_empty));
    }
}
