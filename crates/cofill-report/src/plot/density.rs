//! Many points as cells that are the darker the more points they hold: thousands on top of each other show nothing but their outline.

use super::look::Colour;
use super::svg::{Drawing, Path, Place, Style};
use std::collections::BTreeMap;

/// Cells with at least so many points have a shade of their own; the same in every figure, so that panels can be compared.
pub(super) const LEVELS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// From light to dark, and so in grey, too.
pub(super) fn shade(level: usize) -> Colour {
    const SHADES: [Colour; 7] =
        [(214, 228, 242), (175, 205, 231), (125, 175, 217), (76, 142, 198), (36, 107, 174), (9, 72, 136), (5, 38, 80)];
    SHADES[level.min(SHADES.len() - 1)]
}

/// The cells of places in the drawing, six-cornered, each of this width.
pub(super) fn draw(drawing: &mut Drawing, places: &[Place], (left, top): Place, wide: f64) {
    // A cell is two units wide and four high, on a grid where rows are three units apart and every other one is moved by a unit.
    let unit = (wide / 2.0, wide / (2.0 * 3f64.sqrt()));
    let mut counts: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for (x, y) in places {
        *counts.entry(cell((x - left) / unit.0, (y - top) / unit.1)).or_default() += 1;
    }
    let mut paths: [Path; LEVELS.len()] = Default::default();
    for (cell, count) in counts {
        let level = LEVELS.iter().rposition(|least| count >= *least).unwrap_or(0);
        paths[level].hexagon(cell);
    }
    for (level, path) in paths.iter().enumerate() {
        let style = Style { fill: Some(shade(level)), moved: Some((left, top, unit.0, unit.1)), ..Style::default() };
        drawing.path(path, &style);
    }
}

/// The centre of the cell that a place is in, in units of the grid.
fn cell(x: f64, y: f64) -> (i64, i64) {
    let row = (y / 3.0).round() as i64;
    let nearest = |row: i64| {
        let moved = row.rem_euclid(2);
        let column = ((x - moved as f64) / 2.0).round() as i64;
        (2 * column + moved, 3 * row)
    };
    // In a unit to the right there are √3 times as many pixels as in one downwards.
    let far = |(a, b): &(i64, i64)| 3.0 * (x - *a as f64).powi(2) + (y - *b as f64).powi(2);
    let candidates = [row - 1, row, row + 1].map(nearest);
    candidates.into_iter().min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No centre of the grid is nearer than that of the own cell.
        #[test]
        fn a_place_is_in_its_nearest_cell(x in -20.0..20.0f64, y in -20.0..20.0f64) {
            let far = |(a, b): (i64, i64)| 3.0 * (x - a as f64).powi(2) + (y - b as f64).powi(2);
            let own = cell(x, y);
            prop_assert!((own.0 + own.1 / 3) % 2 == 0, "on the grid: {own:?}");
            let grid = (-10..=10i64).flat_map(|row| (-15..=15i64).map(move |column| (2 * column + row.rem_euclid(2), 3 * row)));
            let best = grid.map(far).fold(f64::INFINITY, f64::min);
            prop_assert!((far(own) - best).abs() < 1e-9);
        }
    }

    #[test]
    fn shades_darken() {
        let grey =
            |(red, green, blue): Colour| 0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue);
        let greys: Vec<f64> = (0..LEVELS.len()).map(|level| grey(shade(level))).collect();
        assert!(greys.windows(2).all(|pair| pair[0] - pair[1] > 20.0), "{greys:?}");
    }
}
