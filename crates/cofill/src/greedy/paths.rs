//! Influence along paths: who depends on whom *through* other masks.
//!
//! Attention A\[i,s\] shows what i reads at s. But i may read j, and j may read s: while j is open, what is written at s reaches i
//! through it. With w_j the uncertainty of j (1 − c_j), one hop counts
//!
//! ```text
//! T[i,j] = A[i,j] w_j            i ≠ j, both candidates
//! R      = T + T² + T³ + …       every path from i to s, each as far as the masks on it are uncertain
//! ```
//!
//! T is ADAS's own term, the first of the series. If T falls apart into groups that do not read each other, so does R.
//!
//! **Guard.** The series ends only if T is small enough. Attention of the candidates toward the candidates sums to at most 1 a row, so it
//! nearly always is; where a row of T sums to more than 0.9, all of T is scaled by one number γ so that it sums to 0.9, and R is
//! scaled back by 1/γ.
//!
//! **One column at a time.** Only the columns of chosen candidates are needed, and column s of R is the solution of
//! (I − T) r = T e_s. Summing the series term by term takes up to 200 products with T, because its largest eigenvalue may be 0.9. GMRES
//! finds the best combination of the same terms instead (the vectors T e_s, T² e_s, … are its search space), in about ten:
//! docs/paths.md has the numbers. The residual bounds the error: |r − R e_s| ≤ 10 |residual|, for rows of T sum to at most 0.9.

use crate::Attention;

/// The most that a row of T may sum to.
const MOST: f64 = 0.9;

/// The residual at which a column is taken for solved; its error is at most ten times this.
const RESIDUAL: f64 = 1e-11;

/// T of one step, and what is needed to solve for columns of R. Buffers are kept from step to step.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    hop: Vec<f64>,        // [n] γ w_j: what a hop to j counts, guard included
    scale: f64,           // γ
    basis: Vec<f64>,      // [terms x n] orthonormal, spanning T e_s, T² e_s, …
    triangle: Vec<f64>, // [terms x (terms + 1) / 2] by columns: the least-squares problem, made triangular as it grows
    turns: Vec<[f64; 2]>, // [terms] cosine and sine of the rotations that do so
    rest: Vec<f64>,     // [terms + 1] its right-hand side; the last one is the residual
    reach: Vec<f64>,    // [n] the strongest path found so far, and
    next: Vec<usize>,   // [n] its first stop
    open: Vec<bool>,    // [n] not final yet
}

impl Paths {
    /// Starts a step: `weight[j]` is the uncertainty of candidate j.
    pub fn open(&mut self, attention: &Attention, weight: &[f64]) {
        let n = attention.len();
        // Row sums of T, by columns as they are stored; `reach` is free before a path is asked for.
        let sums = &mut self.reach;
        sums.clear();
        sums.resize(n, 0.0);
        for (j, &w) in weight.iter().enumerate() {
            let own = sums[j];
            sums.iter_mut().zip(attention.toward(j)).for_each(|(sum, a)| *sum += w * a);
            sums[j] = own; // the diagonal is no hop
        }
        let most = sums.iter().fold(0.0, |most: f64, &sum| most.max(sum));
        self.scale = if most > MOST { MOST / most } else { 1.0 };
        self.hop.clear();
        self.hop.extend(weight.iter().map(|w| self.scale * w));
    }

    /// Column s of R: how much every candidate depends on s. `[n]`, 0 at s itself.
    pub fn column(&mut self, attention: &Attention, s: usize, out: &mut [f64]) {
        let n = out.len();
        let hop = self.hop[s];
        out.iter_mut().zip(attention.toward(s)).for_each(|(out, a)| *out = hop * a);
        out[s] = 0.0;
        let length = dot(out, out).sqrt();
        if length <= RESIDUAL {
            // The series is its first term, to the accuracy that is asked for.
            out.iter_mut().for_each(|r| *r /= self.scale);
            return;
        }
        self.basis.clear();
        self.basis.extend(out.iter().map(|b| b / length));
        self.triangle.clear();
        self.turns.clear();
        self.rest.clear();
        self.rest.push(length);
        // Never more than n: then the vectors span everything, and the residual is 0.
        for k in 0..n {
            self.basis.resize((k + 2) * n, 0.0);
            let (known, new) = self.basis.split_at_mut((k + 1) * n);
            let last = &known[k * n..];
            one_hop(attention, &self.hop, last, new);
            new.iter_mut().zip(last).for_each(|(t, v)| *t = v - *t); // (I − T) v
            let column = self.triangle.len();
            for v in known.chunks_exact(n) {
                let along = dot(v, new);
                new.iter_mut().zip(v).for_each(|(t, v)| *t -= along * v);
                self.triangle.push(along);
            }
            let beyond = dot(new, new).sqrt();
            // The rotations so far, then one more that takes `beyond` to 0.
            let column = &mut self.triangle[column..];
            for (j, &[cos, sin]) in self.turns.iter().enumerate() {
                let (upper, lower) = (column[j], column[j + 1]);
                (column[j], column[j + 1]) = (cos * upper + sin * lower, cos * lower - sin * upper);
            }
            let corner = column[k].hypot(beyond);
            let [cos, sin] = [column[k] / corner, beyond / corner];
            column[k] = corner;
            self.turns.push([cos, sin]);
            let residual = self.rest[k];
            self.rest[k] = cos * residual;
            self.rest.push(-sin * residual);
            if (sin * residual).abs() <= RESIDUAL {
                break;
            }
            new.iter_mut().for_each(|t| *t /= beyond);
        }
        self.combine(n, out);
        // The series has no negative term; what is below 0 is rounding.
        out.iter_mut().for_each(|r| *r = (*r / self.scale).max(0.0));
        out[s] = 0.0;
    }

    /// Solves the triangular system and adds up the basis.
    fn combine(&mut self, n: usize, out: &mut [f64]) {
        let terms = self.turns.len();
        let entry = |triangle: &[f64], row: usize, column: usize| triangle[column * (column + 1) / 2 + row];
        for k in (0..terms).rev() {
            let known: f64 = (k + 1..terms).map(|j| entry(&self.triangle, k, j) * self.rest[j]).sum();
            self.rest[k] = (self.rest[k] - known) / entry(&self.triangle, k, k);
        }
        out.fill(0.0);
        for (v, &y) in self.basis.chunks_exact(n).zip(&self.rest[..terms]) {
            out.iter_mut().zip(v).for_each(|(r, v)| *r += y * v);
        }
    }

    /// The masks between `from` and `to` on the strongest single path (the largest product of hops), in order; none if that is the
    /// direct one. `false` when there is no path.
    pub fn strongest(&mut self, attention: &Attention, from: usize, to: usize, between: &mut Vec<usize>) -> bool {
        let n = attention.len();
        between.clear();
        self.reach.clear();
        self.reach.resize(n, 0.0);
        self.next.clear();
        self.next.resize(n, to);
        self.open.clear();
        self.open.resize(n, true);
        // Dijkstra's algorithm from the end: hops are below 1, so a path only gets weaker with every hop.
        let (mut stop, mut strength) = (to, 1.0);
        while stop != from {
            self.open[stop] = false;
            let hop = self.hop[stop] * strength;
            for (i, a) in attention.toward(stop).iter().enumerate() {
                if self.open[i] && a * hop > self.reach[i] {
                    (self.reach[i], self.next[i]) = (a * hop, stop);
                }
            }
            strength = 0.0;
            for i in 0..n {
                if self.open[i] && self.reach[i] > strength {
                    (stop, strength) = (i, self.reach[i]);
                }
            }
            if strength == 0.0 {
                return false;
            }
        }
        while self.next[stop] != to {
            stop = self.next[stop];
            between.push(stop);
        }
        true
    }
}

/// T x, where T[i,j] = A[i,j] hop_j without its diagonal.
fn one_hop(attention: &Attention, hop: &[f64], x: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    let n = x.len();
    let by = |j: usize| hop[j] * x[j];
    // Four columns at a time, so that `out` is read and written a quarter as often.
    let whole = n - n % 4;
    for j in (0..whole).step_by(4) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| attention.toward(j + k));
        let [p, q, r, s] = [0, 1, 2, 3].map(|k| by(j + k));
        for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *out += (p * a + q * b) + (r * c + s * d);
        }
    }
    for j in whole..n {
        let p = by(j);
        out.iter_mut().zip(attention.toward(j)).for_each(|(out, a)| *out += p * a);
    }
    for (j, out) in out.iter_mut().enumerate() {
        *out -= by(j) * attention.get(j, j);
    }
}

/// Eight partial sums, so that the additions need not wait for each other.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter().zip(y) {
        sums = std::array::from_fn(|lane| sums[lane] + x[lane] * y[lane]);
    }
    sums.iter().sum::<f64>() + x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(attention: &Attention, weight: &[f64], s: usize) -> Vec<f64> {
        let (mut paths, mut out) = (Paths::default(), vec![0.0; weight.len()]);
        paths.open(attention, weight);
        paths.column(attention, s, &mut out);
        out
    }

    #[track_caller]
    fn close(got: &[f64], want: &[f64]) {
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-12, "{got} is not {want}");
        }
    }

    #[test]
    fn a_chain_reaches_through_the_mask_between() {
        // 2 reads 1 (.5), 1 reads 0 (.4); w = .5, .2, .8. T[1,0] = .2, T[2,1] = .1; so R[2,0] = .1 · .2 = .02, and 2 reads 0 nowhere.
        let rows = [[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [0.0, 0.5, 0.0]];
        let attention = Attention::from_rows(&rows).unwrap();
        close(&column(&attention, &[0.5, 0.2, 0.8], 0), &[0.0, 0.2, 0.02]);
        // If 1 is certain, nothing passes through it.
        close(&column(&attention, &[0.5, 0.0, 0.8], 0), &[0.0, 0.2, 0.0]);
    }

    #[test]
    fn two_that_read_each_other_echo() {
        // T[0,1] = T[1,0] = t = .4 · .5 = .2: R[1,0] = t + t³ + t⁵ + … = .2 / (1 − .04).
        let attention = Attention::from_rows(&[[0.3, 0.4], [0.4, 0.3]]).unwrap();
        close(&column(&attention, &[0.5, 0.5], 0), &[0.0, 0.2 / 0.96]);
    }

    #[test]
    fn a_row_above_the_guard_is_scaled_down_and_back() {
        // T[0,1] = T[1,0] = 1, which has no sum. Scaled by .9: R' = .9 / (1 − .81), and back: 1 / .19.
        let attention = Attention::from_rows(&[[0.0, 1.0], [1.0, 0.0]]).unwrap();
        close(&column(&attention, &[1.0, 1.0], 0), &[0.0, 1.0 / 0.19]);
    }

    #[test]
    fn the_strongest_path_is_the_largest_product() {
        // 3 to 0: directly .01; through 2 and 1 .5 · .5 · .5 = .125; through 2 alone .5 · .2 = .1.
        let rows = [[0.0; 4], [0.5, 0.0, 0.0, 0.0], [0.2, 0.5, 0.0, 0.0], [0.01, 0.0, 0.5, 0.0]];
        let attention = Attention::from_rows(&rows).unwrap();
        let (mut paths, mut between) = (Paths::default(), Vec::new());
        paths.open(&attention, &[1.0; 4]);
        assert!(paths.strongest(&attention, 3, 0, &mut between));
        assert_eq!(between, [2, 1]);
        assert!(paths.strongest(&attention, 1, 0, &mut between) && between.is_empty());
        assert!(!paths.strongest(&attention, 0, 3, &mut between), "0 reads nobody");
        // A mask on the path that is certain breaks it: what is left is the direct hop.
        paths.open(&attention, &[1.0, 1.0, 0.0, 1.0]);
        assert!(paths.strongest(&attention, 3, 0, &mut between) && between.is_empty());
    }
}
