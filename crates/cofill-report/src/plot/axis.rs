//! Axes: where a value falls, and which values are named.

/// A direction of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Beside it; nothing when empty.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// The lowest and the highest value.
    pub range: (f64, f64),
}

/// How values become places, and which have a tick.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are; ticks at powers of two, or linear ones when there are fewer than two.
    Log2,
    /// Equal ratios are; ticks at powers of ten, every second or third of many.
    Log10,
    /// Linear, with ticks at these values and these names at them; a name may have several lines.
    Named(Vec<(f64, String)>),
}

/// The most ticks of a linear axis.
const TICKS: f64 = 6.0;

impl Axis {
    /// An axis for `values`, with a little room at both ends. Values that cannot be placed are passed over; without any, 0 to 1.
    pub fn around(label: &str, scale: Scale, values: impl IntoIterator<Item = f64>) -> Axis {
        let logarithmic = scale.is_logarithmic();
        let placed = |value: &f64| value.is_finite() && (!logarithmic || *value > 0.0);
        let ends = values.into_iter().filter(placed).fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = ends.unwrap_or(if logarithmic { (1.0, 2.0) } else { (0.0, 1.0) });
        let range = match scale {
            Scale::Log2 => (low / 1.15, high * 1.15),
            Scale::Log10 => (low / 2.0, high * 2.0),
            _ => {
                let room = if high > low { 0.05 * (high - low) } else { 0.5 };
                (low - room, high + room)
            }
        };
        Axis { label: label.into(), scale, range }
    }

    /// The same axis from zero on, when it is near: accuracy has a floor that should be seen.
    pub fn from_zero(mut self) -> Axis {
        if self.range.0 < 0.6 * self.range.1 {
            self.range.0 = 0.0;
        }
        self
    }

    /// Where a value falls: 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        match self.scale.is_logarithmic() {
            true => (value / low).log2() / (high / low).log2(),
            false => (value - low) / (high - low),
        }
    }

    /// Whether every value has the same place on both.
    pub fn places_as(&self, other: &Axis) -> bool {
        self.scale == other.scale && self.range == other.range
    }

    /// Values with a name.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = self.range;
        match &self.scale {
            Scale::Named(ticks) => ticks.clone(),
            Scale::Log2 => {
                let powers = low.log2().ceil() as i32..=high.log2().floor() as i32;
                let powers: Vec<f64> = powers.map(|power| f64::from(power).exp2()).collect();
                match powers.len() {
                    0 | 1 => linear(low, high),
                    _ => powers.into_iter().map(|power| (power, name(power))).collect(),
                }
            }
            Scale::Log10 => {
                let powers = low.log10().ceil() as i32..=high.log10().floor() as i32;
                let stride = (powers.clone().count().saturating_sub(1) / DECADES + 1).max(1);
                let round: Vec<i32> = powers.filter(|power| power.rem_euclid(stride as i32) == 0).collect();
                match round.len() {
                    0 | 1 => linear(low, high),
                    _ => round.into_iter().map(|power| (10f64.powi(power), power_of_ten(power))).collect(),
                }
            }
            Scale::Linear => linear(low, high),
        }
    }
}

impl Scale {
    fn is_logarithmic(&self) -> bool {
        matches!(self, Scale::Log2 | Scale::Log10)
    }
}

/// The most intervals of an axis of powers of ten.
const DECADES: usize = 7;

/// `0.01`, `1`, `100`, and further away `10⁻⁸`.
fn power_of_ten(power: i32) -> String {
    if (-2..=2).contains(&power) {
        return name(10f64.powi(power));
    }
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => digit.to_digit(10).and_then(|digit| char::from_u32('⁰' as u32 + digit)).unwrap_or(digit),
    };
    format!("10{}", power.to_string().chars().map(raised).collect::<String>())
}

fn linear(low: f64, high: f64) -> Vec<(f64, String)> {
    let step = step(high - low);
    // An end that is a multiple of the step but for rounding has a tick.
    let whole = (low / step - 1e-9).ceil() as i64..=(high / step + 1e-9).floor() as i64;
    whole.map(|i| (i as f64 * step, name(i as f64 * step))).collect()
}

/// The smallest of 1, 2, 5, 10, 20, 50, .. (and their tenths) that makes no more than [`TICKS`] intervals of a span.
fn step(span: f64) -> f64 {
    let power = 10f64.powf((span / TICKS).log10().floor());
    let fits = |step: &f64| span / step <= TICKS;
    [power, 2.0 * power, 5.0 * power, 10.0 * power].into_iter().find(fits).unwrap_or(10.0 * power)
}

/// A tick's name: no more digits than it needs.
fn name(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.replace('-', "−") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_are_round() {
        let axis = |range| Axis { label: String::new(), scale: Scale::Linear, range };
        assert_eq!(names(&axis((0.0, 76.0))), ["0", "20", "40", "60"]);
        assert_eq!(names(&axis((-0.3, 0.3))), ["−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]);
        let doubling = Axis { scale: Scale::Log2, ..axis((0.4, 33.0)) };
        assert_eq!(names(&doubling), ["0.5", "1", "2", "4", "8", "16", "32"]);
        // Only one power of two.
        assert_eq!(names(&Axis { scale: Scale::Log2, ..axis((3.5, 5.4)) }), ["3.5", "4", "4.5", "5"]);
        assert_eq!(names(&Axis { scale: Scale::Log2, ..axis((2.2, 7.8)) }), ["3", "4", "5", "6", "7"]);
    }

    #[test]
    fn powers_of_ten_are_named_shortly() {
        let axis = |range| Axis { label: String::new(), scale: Scale::Log10, range };
        assert_eq!(names(&axis((0.005, 200.0))), ["0.01", "0.1", "1", "10", "100"]);
        // 14 decades: every second, and always the even ones, so that neighbours agree.
        assert_eq!(names(&axis((5e-13, 20.0))), ["10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "0.01", "1"]);
        assert_eq!(names(&axis((2.0, 7.0))), ["2", "3", "4", "5", "6", "7"]);
        let half = axis((1e-4, 1.0)).place(0.01);
        assert!((half - 0.5).abs() < 1e-12, "{half}");
        // No room for zero: it lies infinitely far below.
        assert_eq!(axis((1e-4, 1.0)).place(0.0), f64::NEG_INFINITY);
    }

    #[test]
    fn places_run_from_end_to_end() {
        let axis = Axis { label: String::new(), scale: Scale::Log2, range: (1.0, 16.0) };
        assert_eq!((axis.place(1.0), axis.place(4.0), axis.place(16.0)), (0.0, 0.5, 1.0));
        // From .5 to 1.5 around a single value; zero is not near 90 to 95, but is near 5 to 95.
        assert_eq!(Axis::around("", Scale::Linear, [1.0, f64::NAN]).range, (0.5, 1.5));
        assert_eq!(Axis::around("", Scale::Linear, [5.0, 95.0]).from_zero().range.0, 0.0);
        assert_eq!(Axis::around("", Scale::Linear, [90.0, 95.0]).from_zero().range.0, 89.75);
    }

    proptest! {
        #[test]
        fn every_value_has_its_place(values in prop::collection::vec(0.01..1e6f64, 1..9)) {
            for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
                let axis = Axis::around("", scale, values.iter().copied());
                prop_assert!(values.iter().all(|value| (0.0..=1.0).contains(&axis.place(*value))));
                prop_assert!(axis.ticks().iter().all(|(at, _)| (-1e-9..=1.0 + 1e-9).contains(&axis.place(*at))));
                prop_assert!(axis.ticks().len() <= 24);
            }
        }
    }
}
