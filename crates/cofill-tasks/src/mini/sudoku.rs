//! `sudoku`: 4x4 grids, 0 for an empty cell.
//!
//! ```text
//! Sudoku:           1 2 3 4
//! 1 0 0 4           3 4 1 2
//! 0 4 0 0    ->     2 1 4 3
//! 0 1 0 0           4 3 2 1
//! 0 0 0 1
//! ```
//!
//! Five to nine cells are given, so most puzzles have several solutions, and any of them is right. Cells that are filled at the
//! same time can each be right in a different one.

use super::draw::Draw;
use super::{Checked, Example, number, wrong};

/// Sixteen cells and three line breaks; the text ends at the last position.
pub(super) const LENGTH: usize = 20;

pub(crate) const SHAPE: &str = "`Sudoku:` and four lines of four numbers, 0 for an empty cell";

type Grid = [[i64; 4]; 4];

const HEAD: &str = "Sudoku:\n";

pub(crate) fn draw(draw: &mut Draw) -> Example {
    let grid = solution(draw);
    let mut cells: Vec<usize> = (0..16).collect();
    draw.shuffle(&mut cells);
    let n_given = draw.number(5, 9) as usize;
    let mut puzzle = grid;
    for cell in &cells[n_given..] {
        puzzle[cell / 4][cell % 4] = 0;
    }
    Example { prompt: format!("{HEAD}{}\n", text(&puzzle)), answer: text(&grid) }
}

/// One of the 288 grids, all equally likely: rows are drawn until they fit.
fn solution(draw: &mut Draw) -> Grid {
    loop {
        let mut grid = [[1, 2, 3, 4]; 4];
        grid.iter_mut().for_each(|row| draw.shuffle(row));
        if broken(&grid).is_none() {
            return grid;
        }
    }
}

fn text(grid: &Grid) -> String {
    let row = |row: &[i64; 4]| row.map(|cell| cell.to_string()).join(" ");
    grid.iter().map(row).collect::<Vec<_>>().join("\n")
}

pub(crate) fn check(prompt: &str, answer: &str) -> Option<Checked> {
    let puzzle = parse(prompt.strip_prefix(HEAD)?.trim_end())?;
    let Some(grid) = parse(answer.trim_end()) else { return Some(wrong("no grid of four by four")) };
    for (i, row) in puzzle.iter().enumerate() {
        for (j, &given) in row.iter().enumerate() {
            if given != 0 && given != grid[i][j] {
                let (row, column) = (i + 1, j + 1);
                return Some(wrong(format!("row {row}, column {column} was {given} and is {}", grid[i][j])));
            }
        }
    }
    Some(broken(&grid).map_or(Ok(()), |unit| wrong(format!("{unit} does not have 1 to 4 once each"))))
}

fn parse(text: &str) -> Option<Grid> {
    let mut grid = [[0; 4]; 4];
    let mut lines = text.split('\n');
    for row in &mut grid {
        let mut cells = lines.next()?.trim_end().split(' ');
        for cell in row.iter_mut() {
            *cell = number(cells.next()?).filter(|n| *n <= 4)?;
        }
        if cells.next().is_some() {
            return None;
        }
    }
    if lines.next().is_some() { None } else { Some(grid) }
}

/// The first row, column or box that lacks a number.
fn broken(grid: &Grid) -> Option<String> {
    let whole = |cells: [i64; 4]| (1..=4).all(|n| cells.contains(&n));
    let corner = |i: usize| (i / 2 * 2, i % 2 * 2);
    let unit = |i: usize| {
        let column = [0, 1, 2, 3].map(|r| grid[r][i]);
        let (r, c) = corner(i);
        let square = [grid[r][c], grid[r][c + 1], grid[r + 1][c], grid[r + 1][c + 1]];
        let (row, n) = (grid[i], i + 1);
        let units = [("row", row), ("column", column), ("box", square)];
        units.into_iter().find(|(_, cells)| !whole(*cells)).map(|(name, _)| format!("{name} {n}"))
    };
    (0..4).find_map(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = "Sudoku:\n1 2 0 0\n0 0 0 0\n2 1 0 0\n0 0 0 0\n";

    fn judge(answer: &str) -> Checked {
        check(PROMPT, answer).unwrap()
    }

    #[test]
    fn every_solution_is_right() {
        // Rows 1 and 3 may each end in 3 4 or 4 3, as long as they differ, and so on.
        assert_eq!(judge("1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"), Ok(()));
        assert_eq!(judge("1 2 4 3\n4 3 2 1\n2 1 3 4\n3 4 1 2\n"), Ok(()));
    }

    #[test]
    fn a_given_cell_stays() {
        let other = "2 1 3 4\n3 4 1 2\n1 2 4 3\n4 3 2 1";
        assert_eq!(judge(other), wrong("row 1, column 1 was 1 and is 2"));
    }

    #[test]
    fn a_unit_with_a_number_twice_is_named() {
        assert_eq!(judge("1 2 3 3\n3 4 1 2\n2 1 4 3\n4 3 2 1"), wrong("row 1 does not have 1 to 4 once each"));
        // Rows are fine; column 3 has 3 twice.
        assert_eq!(judge("1 2 3 4\n3 4 1 2\n2 1 3 4\n4 3 2 1"), wrong("column 3 does not have 1 to 4 once each"));
        // A Latin square whose boxes are not: 1 2 / 2 1.
        let latin = "1 2 3 4\n2 1 4 3\n3 4 1 2\n4 3 2 1";
        assert_eq!(
            check("Sudoku:\n0 0 0 0\n0 0 0 0\n0 0 0 0\n0 0 0 0\n", latin).unwrap(),
            wrong("box 1 does not have 1 to 4 once each")
        );
    }

    #[test]
    fn what_is_no_grid_is_said() {
        for text in ["", "1 2 3 4", "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1\n1", "1 2 3 4 1\n3 4 1 2\n2 1 4 3\n4 3 2 1"] {
            assert_eq!(judge(text), wrong("no grid of four by four"), "{text:?}");
        }
        assert_eq!(judge("5 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"), wrong("no grid of four by four"));
        assert_eq!(check("Sudoku:\n1 2 3\n", ""), None);
    }
}
