//! Controls for the attention discount: matrices that look like attention and mean something else.
//!
//! If ADAS gains because attention shows who depends on whom, then it must lose when the same numbers point elsewhere. Each control is
//! made from the candidates' own attention A, so that only what is named changes:
//!
//! | word | B\[i, j\] for i ≠ j | what it keeps |
//! |---|---|---|
//! | `shuffled` | A\[i, π_i(j)\], with a permutation π_i of the others for each row and step, drawn by the seed | every row's numbers, hence its sum |
//! | `transposed` | A\[j, i\] | the pairs, not the direction |
//! | `distance` | proportional to 1 / \|position_i − position_j\| | every row's sum |
//! | `rowmean` | the mean of row i over the others | every row's sum |
//!
//! Sums and means are over the other candidates, as the discount reads no other entries; the diagonal, which it never reads, is A's.
//! Where `rowmean` does as well as attention, all that counted was how much a position attends to open positions, not to which.

use crate::noise::{Purpose, Uniforms};
use crate::{Attention, Error, Result, StepView};
use std::fmt;
use std::str::FromStr;

/// What stands in for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Each row's entries, in random order.
    Shuffled,
    /// Query and key change places.
    Transposed,
    /// Near positions count more, whatever the model says; each row keeps its sum.
    Distance,
    /// Each row's mean, in every place.
    RowMean,
}

impl Control {
    /// All of them, in the order they are listed to users.
    pub const ALL: [Control; 4] = [Control::Shuffled, Control::Transposed, Control::Distance, Control::RowMean];

    /// The word for it in the sampler language.
    pub fn word(self) -> &'static str {
        match self {
            Control::Shuffled => "shuffled",
            Control::Transposed => "transposed",
            Control::Distance => "distance",
            Control::RowMean => "rowmean",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Control {
    type Err = Error;

    fn from_str(text: &str) -> Result<Control> {
        Control::ALL.into_iter().find(|control| control.word() == text).ok_or_else(|| Error::BadSetting {
            what: "source",
            limit: format!("one of {}", Control::ALL.map(Control::word).join(", ")),
            given: format!("`{text}`"),
        })
    }
}

/// A control's matrix, kept from step to step so that a warm step allocates nothing.
#[derive(Debug, Clone)]
pub struct ControlMatrix {
    control: Control,
    matrix: Attention, // [slots x slots]
    per_row: Vec<f64>, // [slots] the mean of a row, or what weight 1 is worth in it
    row: Vec<f64>,     // [slots − 1] one row's entries, while they are shuffled
}

impl ControlMatrix {
    /// Nothing yet; [`ControlMatrix::of`] fills it.
    pub fn new(control: Control) -> ControlMatrix {
        let empty = Attention::from_fn(0, |_, _| 0.0);
        ControlMatrix { control, matrix: empty, per_row: Vec::new(), row: Vec::new() }
    }

    /// The control's matrix for this step. Rows and columns are slots, as in [`StepView::attention`].
    pub fn of(&mut self, view: &StepView<'_>) -> &Attention {
        let (attention, positions) = (view.attention(), view.candidates.positions);
        let n = attention.len();
        match self.control {
            Control::Shuffled => self.shuffle(view),
            Control::Transposed => self.matrix.refill(n, |query, key| attention.get(key, query)),
            Control::Distance => {
                let weight = |i: usize, j: usize| 1.0 / positions[i].abs_diff(positions[j]) as f64;
                self.per_row.clear();
                self.per_row.extend((0..n).map(|i| {
                    let others = (0..n).filter(|&j| j != i);
                    let (a, w) = others.fold((0.0, 0.0), |(a, w), j| (a + attention.get(i, j), w + weight(i, j)));
                    if w > 0.0 { a / w } else { 0.0 }
                }));
                let worth = &self.per_row;
                self.matrix.refill(n, |i, j| if i == j { attention.get(i, i) } else { worth[i] * weight(i, j) });
            }
            Control::RowMean => {
                let others = n.saturating_sub(1).max(1) as f64;
                self.per_row.clear();
                self.per_row.resize(n, 0.0);
                for key in 0..n {
                    for (query, a) in attention.toward(key).iter().enumerate().filter(|&(query, _)| query != key) {
                        self.per_row[query] += a / others;
                    }
                }
                let means = &self.per_row;
                self.matrix.refill(n, |i, j| if i == j { attention.get(i, i) } else { means[i] });
            }
        }
        &self.matrix
    }

    /// The matrix that [`ControlMatrix::of`] last made.
    pub fn matrix(&self) -> &Attention {
        &self.matrix
    }

    /// Every row by a draw of its own, which depends on seed, step and position alone: a batch changes nothing.
    fn shuffle(&mut self, view: &StepView<'_>) {
        let attention = view.attention();
        let n = attention.len();
        self.matrix.refill(n, |query, key| attention.get(query, key));
        for (i, &position) in view.candidates.positions.iter().enumerate() {
            self.row.clear();
            self.row.extend((0..n).filter(|&j| j != i).map(|j| attention.get(i, j)));
            let mut draw = Uniforms::new(view.job.seed, Purpose::Control, view.noise_step(), position);
            // Fisher and Yates: the last of what is left changes places with one of what is left.
            for last in (1..self.row.len()).rev() {
                let any = (draw.uniform() * (last + 1) as f64) as usize; // a uniform number may round up to 1
                self.row.swap(last, any.min(last));
            }
            for (j, &a) in (0..n).filter(|&j| j != i).zip(&self.row) {
                self.matrix.set(i, j, a);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layers, Needs, Snapshot};

    /// Positions 0, 1, 3 and 7 are candidates; the others are filled. Rows of the four among themselves.
    const ROWS: [[f64; 4]; 4] =
        [[0.5, 0.25, 0.125, 0.0], [0.0, 0.5, 0.25, 0.25], [0.0625, 0.0, 0.25, 0.5], [0.0, 0.0, 0.0, 1.0]];
    const POSITIONS: [usize; 4] = [0, 1, 3, 7];

    fn make(control: Control, seed: u64, step: usize) -> Attention {
        let place = |i: usize| POSITIONS.iter().position(|&p| p == i);
        let wide = Attention::from_fn(8, |q, k| match (place(q), place(k)) {
            (Some(q), Some(k)) => ROWS[q][k],
            _ => 0.0,
        });
        let snapshot = Snapshot::new(&[0.5; 8]).attention(wide).candidates(&POSITIONS).seed(seed).step(step);
        let needs = Needs::default().attention(Layers::Last);
        snapshot.view(&needs, |view| Ok(ControlMatrix::new(control).of(view).clone())).unwrap()
    }

    #[track_caller]
    fn check(control: Control, want: [[f64; 4]; 4]) {
        let got = make(control, 0, 0);
        for (i, row) in want.iter().enumerate() {
            for (j, want) in row.iter().enumerate() {
                assert!((got.get(i, j) - want).abs() < 1e-12, "{control} [{i}, {j}]: {} is not {want}", got.get(i, j));
            }
        }
    }

    #[test]
    fn transposed() {
        check(
            Control::Transposed,
            [[0.5, 0.0, 0.0625, 0.0], [0.25, 0.5, 0.0, 0.0], [0.125, 0.25, 0.25, 0.0], [0.0, 0.25, 0.5, 1.0]],
        );
    }

    #[test]
    fn row_means() {
        // The others of row 0 sum to .375, of row 1 to .5, of row 2 to .5625; of row 3 to 0. Thirds of that.
        check(
            Control::RowMean,
            [
                [0.5, 0.125, 0.125, 0.125],
                [0.5 / 3.0, 0.5, 0.5 / 3.0, 0.5 / 3.0],
                [0.1875, 0.1875, 0.25, 0.1875],
                [0.0, 0.0, 0.0, 1.0],
            ],
        );
    }

    #[test]
    fn distances() {
        // From position 0 the others are 1, 3 and 7 away: 1 + 1/3 + 1/7 = 31/21 shares of .375. From 1: 1, 2, 6 away, 1 + 1/2 + 1/6 = 5/3
        // shares of .5. From 3: 3, 2, 4 away, 1/3 + 1/2 + 1/4 = 13/12 shares of .5625.
        let (a, b, c) = (0.375 * 21.0 / 31.0, 0.5 * 3.0 / 5.0, 0.5625 * 12.0 / 13.0);
        check(
            Control::Distance,
            [
                [0.5, a, a / 3.0, a / 7.0],
                [b, 0.5, b / 2.0, b / 6.0],
                [c / 3.0, c / 2.0, 0.25, c / 4.0],
                [0.0, 0.0, 0.0, 1.0],
            ],
        );
    }

    #[test]
    fn shuffles_keep_each_rows_numbers_and_follow_the_seed() {
        let row = |a: &Attention, i: usize| (0..4).filter(|&j| j != i).map(|j| a.get(i, j)).collect::<Vec<_>>();
        let original = Attention::from_rows(&ROWS).unwrap();
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let shuffled = make(Control::Shuffled, seed, 0);
            assert_eq!(shuffled, make(Control::Shuffled, seed, 0), "one seed, one order");
            for (i, diagonal) in [0.5, 0.5, 0.25, 1.0].into_iter().enumerate() {
                assert_eq!(shuffled.get(i, i), diagonal, "the diagonal stays");
                let sorted = |mut row: Vec<f64>| {
                    row.sort_by(f64::total_cmp);
                    row
                };
                assert_eq!(sorted(row(&shuffled, i)), sorted(row(&original, i)), "row {i}");
            }
            orders.insert(format!("{:?}", row(&shuffled, 0)));
        }
        assert_eq!(orders.len(), 6, "3! orders of row 0's three different numbers");
        assert!((1..9).any(|step| make(Control::Shuffled, 0, step) != make(Control::Shuffled, 0, 0)), "steps differ");
    }

    #[test]
    fn one_candidate_has_no_others() {
        let needs = Needs::default().attention(Layers::Last);
        let step = Snapshot::new(&[0.5]).attention(Attention::from_fn(1, |_, _| 0.75));
        for control in Control::ALL {
            let made = step.view(&needs, |view| Ok(ControlMatrix::new(control).of(view).clone())).unwrap();
            assert_eq!((made.len(), made.get(0, 0)), (1, 0.75), "{control}");
        }
    }

    #[test]
    fn a_buffer_serves_steps_of_every_size() {
        // A step of four, then of two, then of four again, each as if it were alone.
        let needs = Needs::default().attention(Layers::Last);
        for control in Control::ALL {
            let mut buffer = ControlMatrix::new(control);
            for n in [4, 2, 4] {
                let a = Attention::from_fn(n, |q, k| (q * 5 + k * 3) as f64 / 64.0);
                let step = Snapshot::new(&vec![0.5; n]).attention(a);
                let fresh = step.view(&needs, |view| Ok(ControlMatrix::new(control).of(view).clone())).unwrap();
                let again = step.view(&needs, |view| Ok(buffer.of(view).clone())).unwrap();
                assert_eq!((&again, buffer.matrix()), (&fresh, &fresh), "{control}, {n} candidates");
            }
        }
    }

    #[test]
    fn words() {
        for control in Control::ALL {
            assert_eq!(control.to_string().parse::<Control>().unwrap(), control);
        }
        let refused = "shuffle".parse::<Control>().unwrap_err().to_string();
        for says in ["source must be one of shuffled, transposed, distance, rowmean", "`shuffle`"] {
            assert!(refused.contains(says), "`{refused}` does not say `{says}`");
        }
    }
}
