//! Texts side by side, or one below the other where they would become too narrow.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns below this are too narrow to read; then texts stand one below the other.
const NARROWEST: usize = 20;

/// Spaces between two columns.
const GAP: usize = 3;

/// A text under a heading, in pieces of which some are marked.
pub(crate) struct Column<'a> {
    pub(crate) heading: String,
    pub(crate) pieces: Vec<(&'a str, bool)>,
}

/// How what is marked looks: what is put before and behind it, and whether these take room.
#[derive(Clone)]
pub(crate) struct Mark {
    pub(crate) open: String,
    pub(crate) close: String,
    pub(crate) takes_room: bool,
}

/// One line of a column: characters, and which of them are marked.
type Row = Vec<(char, bool)>;

/// The columns, at most `width` wide.
pub(crate) fn side_by_side(columns: &[Column<'_>], width: usize, mark: &Mark) -> String {
    let rows: Vec<Vec<Row>> = columns.iter().map(|column| rows(&column.pieces, mark)).collect();
    let widest = |(column, rows): (&Column<'_>, &Vec<Row>)| {
        rows.iter().map(|row| row_width(row)).max().unwrap_or(0).max(column.heading.width())
    };
    let natural: Vec<usize> = columns.iter().zip(&rows).map(widest).collect();
    let n = columns.len().max(1);
    let room = width.saturating_sub(GAP * (n - 1));
    let widths = if natural.iter().sum::<usize>() <= room { natural } else { shares(&natural, room) };
    if widths.iter().any(|&width| width < NARROWEST.min(room)) && widths.iter().sum::<usize>() > 0 && n > 1 {
        let is_cramped = widths.iter().zip(columns.iter().zip(&rows)).any(|(&w, column)| w < widest(column));
        if is_cramped {
            return stacked(columns, &rows, width, mark);
        }
    }
    let wrapped: Vec<Vec<Row>> = rows.iter().zip(&widths).map(|(rows, &width)| wrap(rows, width)).collect();
    let headings: Vec<Vec<Row>> =
        columns.iter().zip(&widths).map(|(column, &width)| wrap(&[plain(&column.heading)], width)).collect();
    let mut text = table(&headings, &widths, mark);
    text += &table(&wrapped, &widths, mark);
    text
}

/// Rows of all columns, each padded to the width of its column.
fn table(columns: &[Vec<Row>], widths: &[usize], mark: &Mark) -> String {
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for i in 0..height {
        let mut line = String::new();
        let mut owed = 0; // spaces that are written only if something follows
        for (column, width) in columns.iter().zip(widths) {
            let row = column.get(i).map_or([].as_slice(), Vec::as_slice);
            if !row.is_empty() {
                line += &" ".repeat(owed);
                line += &painted(row, mark);
                owed = 0;
            }
            owed += width - row_width(row) + GAP;
        }
        text += line.trim_end_matches(' ');
        text.push('\n');
    }
    text
}

/// One below the other.
fn stacked(columns: &[Column<'_>], rows: &[Vec<Row>], width: usize, mark: &Mark) -> String {
    let mut text = String::new();
    for (i, (column, rows)) in columns.iter().zip(rows).enumerate() {
        if i > 0 {
            text.push('\n');
        }
        text += &table(&[wrap(&[plain(&column.heading)], width)], &[width], mark);
        text += &table(&[wrap(rows, width)], &[width], mark);
    }
    text
}

/// Equal widths, and what a narrow column does not need to the others.
fn shares(natural: &[usize], room: usize) -> Vec<usize> {
    let mut widths = vec![0; natural.len()];
    let mut order: Vec<usize> = (0..natural.len()).collect();
    order.sort_by_key(|&i| natural[i]);
    let (mut left, mut columns) = (room, natural.len());
    for i in order {
        widths[i] = natural[i].min(left / columns);
        left -= widths[i];
        columns -= 1;
    }
    widths
}

/// The lines of a text. Marks that take room are characters like others.
fn rows(pieces: &[(&str, bool)], mark: &Mark) -> Vec<Row> {
    let mut rows = vec![Row::new()];
    for &(piece, marked) in pieces {
        for (i, line) in piece.split('\n').enumerate() {
            if i > 0 {
                rows.push(Row::new());
            }
            let row = rows.last_mut().expect("there is always a row");
            let line = line.replace('\t', "    ");
            let brackets = marked && mark.takes_room && !line.is_empty();
            let open = mark.open.chars().filter(|_| brackets);
            let close = mark.close.chars().filter(|_| brackets);
            row.extend(open.chain(line.chars()).chain(close).map(|c| (c, marked)));
        }
    }
    while rows.len() > 1 && rows.last().is_some_and(Vec::is_empty) {
        rows.pop();
    }
    rows
}

fn plain(text: &str) -> Row {
    text.chars().map(|c| (c, false)).collect()
}

fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

fn row_width(row: &[(char, bool)]) -> usize {
    row.iter().map(|&(c, _)| char_width(c)).sum()
}

/// Lines of at most `width`, cut behind a space where there is one.
fn wrap(rows: &[Row], width: usize) -> Vec<Row> {
    let width = width.max(2); // a wide character always fits
    let mut wrapped = Vec::new();
    for row in rows {
        let mut rest = row.as_slice();
        loop {
            let mut used = 0;
            let fits = rest.iter().take_while(|(c, _)| {
                used += char_width(*c);
                used <= width
            });
            let fits = fits.count();
            if fits == rest.len() {
                wrapped.push(rest.to_vec());
                break;
            }
            let space = rest[..=fits].iter().rposition(|(c, _)| *c == ' ').filter(|&at| {
                rest[..at].iter().any(|(c, _)| *c != ' ') // not within an indentation
            });
            match space {
                Some(at) => {
                    wrapped.push(rest[..at].to_vec());
                    rest = &rest[at + 1..];
                }
                None => {
                    wrapped.push(rest[..fits].to_vec());
                    rest = &rest[fits..];
                }
            }
        }
    }
    wrapped
}

/// A row with its marks.
fn painted(row: &[(char, bool)], mark: &Mark) -> String {
    let mut text = String::new();
    for run in row.chunk_by(|a, b| a.1 == b.1) {
        let run_text: String = run.iter().map(|(c, _)| *c).collect();
        if run[0].1 && !mark.takes_room {
            text += &mark.open;
            text += &run_text;
            text += &mark.close;
        } else {
            text += &run_text;
        }
    }
    text
}

/// A text in lines of at most `width`, all but the first behind an indentation.
pub(crate) fn paragraph(text: &str, width: usize, indentation: usize) -> String {
    let mut lines = Vec::new();
    let mut rest = wrap(&[plain(text)], width.max(indentation + NARROWEST));
    if rest.len() > 1 {
        let first = rest.remove(0);
        let behind: String = text.chars().skip(first.len()).collect();
        rest = wrap(&[plain(behind.trim_start())], width.saturating_sub(indentation).max(NARROWEST));
        lines.push(first.iter().map(|(c, _)| *c).collect::<String>());
        let indented = |row: &Row| " ".repeat(indentation) + &row.iter().map(|(c, _)| *c).collect::<String>();
        lines.extend(rest.iter().map(indented));
    } else {
        lines.extend(rest.iter().map(|row| row.iter().map(|(c, _)| *c).collect::<String>()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brackets() -> Mark {
        Mark { open: "[".into(), close: "]".into(), takes_room: true }
    }

    fn column<'a>(heading: &str, pieces: &[(&'a str, bool)]) -> Column<'a> {
        Column { heading: heading.into(), pieces: pieces.to_vec() }
    }

    #[test]
    fn what_fits_stands_side_by_side() {
        let columns = [column("A", &[("one\ntwo", false)]), column("B", &[("one\n", false), ("2", true)])];
        assert_eq!(side_by_side(&columns, 80, &brackets()), "A     B\none   one\ntwo   [2]\n");
    }

    #[test]
    fn long_lines_wrap_in_their_column() {
        let long = "ten words of five letters stand here, or nearly so";
        let columns = [column("A", &[(long, false)]), column("B", &[(long, false)])];
        // 60 - 3 for the gap: 28 each (the odd one stays empty).
        let expected = "A                              B
ten words of five letters      ten words of five letters
stand here, or nearly so       stand here, or nearly so
";
        assert_eq!(side_by_side(&columns, 60, &brackets()), expected);
    }

    #[test]
    fn where_columns_would_be_too_narrow_they_are_stacked() {
        let long = "ten words of five letters stand here, or nearly so";
        let columns = [column("A", &[(long, false)]), column("B", &[("short", false)])];
        let expected = "A\nten words of five letters\nstand here, or nearly so\n\nB\nshort\n";
        assert_eq!(side_by_side(&columns, 28, &brackets()), expected);
    }

    #[test]
    fn paragraphs_hang() {
        assert_eq!(paragraph("why: one two three four five six", 24, 4), "why: one two three four\n    five six");
        assert_eq!(paragraph("short", 24, 4), "short");
    }

    proptest! {
        /// No line is wider than it may be, and nothing but spaces and breaks is lost or added.
        #[test]
        fn every_line_fits_and_nothing_is_lost(
            texts in proptest::collection::vec("[a-z世 \n]{0,80}", 1..5), width in 24usize..100
        ) {
            let columns: Vec<Column<'_>> = texts.iter().map(|text| column("H", &[(text.as_str(), false)])).collect();
            let drawn = side_by_side(&columns, width, &brackets());
            for line in drawn.lines() {
                prop_assert!(line.width() <= width, "{}", drawn);
            }
            let letters = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
                letters.sort_unstable();
                letters
            };
            let expected = letters(&(texts.concat() + &"H".repeat(texts.len())));
            prop_assert_eq!(letters(&drawn), expected);
        }
    }
}
