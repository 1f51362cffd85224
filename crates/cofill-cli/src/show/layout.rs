//! Cells to lines of a terminal: line breaks, wrapping, wide characters, and which lines are in sight.

use super::colour::{Shades, State};
use unicode_width::UnicodeWidthChar;

/// A line as it is drawn, and the columns it takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Line {
    spans: Vec<(String, State)>,
    pub(super) width: usize,
    /// Whether something in it was committed just now.
    pub(super) fresh: bool,
    /// Whether something in it is still masked.
    pub(super) masked: bool,
}

const TAB: usize = 8;

impl Line {
    /// A line of plain text, cut where the terminal ends.
    pub(super) fn plain(text: &str, most: usize) -> Line {
        let mut line = Line::default();
        for c in text.chars() {
            let width = c.width().unwrap_or(0);
            if line.width + width > most {
                break;
            }
            line.push(c, width, State::Fixed);
        }
        line
    }

    fn push(&mut self, c: char, width: usize, state: State) {
        match self.spans.last_mut() {
            Some((text, last)) if *last == state => text.push(c),
            _ => self.spans.push((c.into(), state)),
        }
        self.width += width;
        self.fresh |= matches!(state, State::Committed { new: true, .. });
        self.masked |= state == State::Masked;
    }

    /// With colours.
    pub(super) fn painted(&self, shades: Shades) -> String {
        let span = |(text, state): &(String, State)| {
            let style = shades.style(*state);
            format!("{style}{text}{style:#}")
        };
        self.spans.iter().map(span).collect()
    }
}

/// Texts, one after the other, in lines of at most `most` columns. What fits a line is not cut, a space that does not is left out, a
/// character is never cut in two, and a mark stays with what it is on.
pub(super) fn wrap<'a>(cells: impl Iterator<Item = (&'a str, State)>, most: usize) -> Vec<Line> {
    let (mut lines, mut line) = (Vec::new(), Line::default());
    for (text, state) in cells {
        let first: usize = text.chars().take_while(|&c| c != '\n').map(|c| c.width().unwrap_or(0)).sum();
        if line.width > 0 && line.width + first > most && first <= most {
            lines.push(std::mem::take(&mut line));
            if text == " " {
                continue;
            }
        }
        for c in text.chars() {
            if c == '\n' {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            let (shown, width) = match c {
                '\t' => (' ', TAB - line.width % TAB),
                c => (c, c.width().unwrap_or(0)),
            };
            if line.width + width > most && line.width > 0 {
                lines.push(std::mem::take(&mut line));
            }
            match c {
                '\t' => (0..width.min(most)).for_each(|_| line.push(shown, 1, state)),
                _ => line.push(shown, width, state),
            }
        }
    }
    lines.push(line);
    lines
}

/// The first line in sight, when `rows` of `lines` fit: where most of the new commits are seen, and of such places the nearest to `before`.
pub(super) fn follow(lines: &[Line], rows: usize, before: usize) -> usize {
    let last = lines.len().saturating_sub(rows);
    let fresh: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].fresh).collect();
    let seen = |top: usize| fresh.partition_point(|&at| at < top + rows) - fresh.partition_point(|&at| at < top);
    let best = (0..=last).max_by_key(|&top| (seen(top), std::cmp::Reverse(top.abs_diff(before))));
    best.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.spans.iter().map(|(text, _)| text.as_str()).collect()).collect()
    }

    fn plain(text: &str, most: usize) -> Vec<String> {
        texts(&wrap([(text, State::Fixed)].into_iter(), most))
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!(plain("日本語", 5), ["日本", "語"]); // 2 + 2 = 4, and a third would end at 6
        assert_eq!(plain("日本語", 4), ["日本", "語"]);
        assert_eq!(plain("ae\u{301}\u{302}b", 3), ["ae\u{301}\u{302}b"]);
        assert_eq!(plain("ae\u{301}b", 2), ["ae\u{301}", "b"]);
        assert_eq!(wrap([("日a", State::Fixed)].into_iter(), 9)[0].width, 3);
    }

    #[test]
    fn what_fits_a_line_is_not_cut() {
        let words = ["visited", " ", "San", " ", "Diego"].map(|word| (word, State::Fixed));
        assert_eq!(texts(&wrap(words.into_iter(), 11)), ["visited San", "Diego"]);
        assert_eq!(texts(&wrap(words.into_iter(), 10)), ["visited ", "San Diego"]);
        assert_eq!(texts(&wrap(words.into_iter(), 4)), ["visi", "ted ", "San ", "Dieg", "o"]);
    }

    #[test]
    fn tabs_go_to_the_next_stop_and_breaks_break() {
        assert_eq!(plain("a\tb", 20), ["a       b"]);
        assert_eq!(plain("a\n\nb\n", 20), ["a", "", "b", ""]);
        assert_eq!(plain("", 20), [""]);
    }

    #[test]
    fn the_window_follows_what_is_new_and_else_stays() {
        let lines = |fresh: &[usize]| -> Vec<Line> {
            (0..20).map(|at| Line { fresh: fresh.contains(&at), ..Line::default() }).collect()
        };
        assert_eq!(follow(&lines(&[]), 5, 7), 7);
        assert_eq!(follow(&lines(&[9]), 5, 7), 7, "in sight already");
        assert_eq!(follow(&lines(&[12]), 5, 7), 8, "no further than it takes");
        assert_eq!(follow(&lines(&[3]), 5, 7), 3);
        assert_eq!(follow(&lines(&[0, 17, 18]), 5, 0), 14, "the place that shows more of them");
        assert_eq!(follow(&lines(&[19]), 50, 7), 0, "all of it fits");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_line_too_wide(text in "[a-z日本e\u{301}\n \t👍]{0,80}", cut in 0usize..80, most in 2usize..12) {
            let cut = text.char_indices().map(|(at, _)| at).take(cut).last().unwrap_or(0);
            let (left, right) = text.split_at(cut);
            let new = State::Committed { confidence: 0.5, new: true };
            let lines = wrap([(left, State::Fixed), (right, new)].into_iter(), most);
            prop_assert!(lines.iter().all(|line| line.width <= most));
            let kept = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(kept(&texts(&lines).concat()), kept(&text));
            if !kept(right).is_empty() {
                prop_assert!(lines.iter().any(|line| line.fresh));
            }
        }
    }
}
