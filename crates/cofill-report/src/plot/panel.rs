//! A panel: frame, grid, ticks, marks.

use super::axis::Axis;
use super::density;
use super::layout::{Sizes, guide};
use super::look::{Look, Shape, Stroke};
use super::svg::{Anchor, BLACK, Drawing, Ends, Path, Place, Style, WHITE};
use super::text::{lines, width};
use super::{Corner, Dot, Mark, Panel};
use crate::statistics::bootstrap::quantile;

/// By how many degrees names are turned that do not fit side by side.
pub(super) const TURN: f64 = -30.0;

/// Fewer values than this are no box.
const LEAST_OF_A_BOX: usize = 5;

/// The rectangle between the axes, in CSS pixels.
pub(super) struct Frame<'a> {
    pub(super) panel: &'a Panel,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) wide: f64,
    pub(super) high: f64,
    /// Whether the vertical axis has numbers, and a label: a neighbour may have the same.
    pub(super) numbered: bool,
    pub(super) labelled: bool,
    /// Where that label's baseline is.
    pub(super) label_at: f64,
}

/// Names below a frame.
pub(super) struct Below {
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) turned: bool,
}

/// The ticks of a vertical axis that fit above each other.
pub(super) fn ticks_beside(axis: &Axis, high: f64, sizes: &Sizes) -> Vec<(f64, String)> {
    let fits = |ticks: &[(f64, String)]| {
        let places: Vec<f64> = ticks.iter().map(|(value, _)| axis.place(*value) * high).collect();
        places.windows(2).all(|pair| (pair[1] - pair[0]).abs() >= 1.25 * sizes.tick)
    };
    thinned(&axis.ticks(), fits)
}

/// The ticks of a horizontal axis that fit beside each other. Names, of which none may be missing, are turned instead.
pub(super) fn ticks_below(axis: &Axis, wide: f64, sizes: &Sizes) -> Below {
    let of = |name: &String| name.lines().map(|line| width(line, sizes.tick)).fold(0.0, f64::max);
    let fits = |ticks: &[(f64, String)]| {
        let spans = ticks.iter().map(|(value, name)| (axis.place(*value) * wide, of(name) / 2.0));
        let spans: Vec<(f64, f64)> = spans.collect();
        spans.windows(2).all(|pair| pair[0].0 + pair[0].1 + 0.4 * sizes.tick <= pair[1].0 - pair[1].1)
    };
    let ticks = axis.ticks();
    match &axis.scale {
        super::Scale::Named(_) if !fits(&ticks) => {
            let ticks = ticks.into_iter().map(|(value, name)| (value, name.replace('\n', ", "))).collect();
            Below { ticks, turned: true }
        }
        _ => Below { ticks: thinned(&ticks, fits), turned: false },
    }
}

/// Every tick, or every second, or every third, ..: the most that fit.
fn thinned(ticks: &[(f64, String)], fits: impl Fn(&[(f64, String)]) -> bool) -> Vec<(f64, String)> {
    let every = |stride: usize| ticks.iter().step_by(stride).cloned().collect::<Vec<_>>();
    (1..ticks.len()).map(every).find(|ticks| fits(ticks)).unwrap_or_else(|| every(ticks.len().max(1)))
}

impl Frame<'_> {
    pub(super) fn draw(&self, drawing: &mut Drawing, sizes: &Sizes) {
        let Frame { panel, left, top, wide, high, .. } = *self;
        let (right, bottom) = (left + wide, top + high);
        let mut grid = Path::default();
        let below = ticks_below(&panel.x, wide, sizes);
        let beside = ticks_beside(&panel.y, high, sizes);
        below.ticks.iter().for_each(|(value, _)| grid.line(&[(self.x(*value), top), (self.x(*value), bottom)]));
        beside.iter().for_each(|(value, _)| grid.line(&[(left, self.y(*value)), (right, self.y(*value))]));
        drawing.path(&grid, &Style { stroke: Some(((226, 226, 226), sizes.thin)), ..Style::default() });
        for (value, name) in &below.ticks {
            let x = self.x(*value);
            if below.turned {
                drawing.turned(name, (x + 0.4 * sizes.tick, bottom + 1.1 * sizes.tick), sizes.tick, Anchor::End, TURN);
                continue;
            }
            for (i, line) in name.lines().enumerate() {
                let y = bottom + 1.3 * sizes.tick + sizes.step(sizes.tick) * i as f64;
                drawing.text(line, (x, y), sizes.tick, Anchor::Middle);
            }
        }
        if self.numbered {
            for (value, name) in &beside {
                let at = (left - 0.5 * sizes.tick, self.y(*value) + 0.36 * sizes.tick);
                drawing.text(name, at, sizes.tick, Anchor::End);
            }
        }
        panel.marks.iter().for_each(|mark| self.mark(drawing, mark, sizes));
        let mut edge = Path::default();
        edge.rectangle((left, top), (right, bottom));
        drawing.path(&edge, &Style { stroke: Some((BLACK, sizes.thin)), ..Style::default() });
        let middle = left + wide / 2.0;
        let title = lines(&panel.title, sizes.words, wide);
        for (i, line) in title.iter().rev().enumerate() {
            let y = top - 0.4 * sizes.words - sizes.step(sizes.words) * i as f64;
            drawing.text(line, (middle, y), sizes.words, Anchor::Middle);
        }
        let named = below.ticks.iter().map(|(_, name)| name.lines().count()).max().unwrap_or(0);
        let y = bottom + 0.4 * sizes.tick + sizes.step(sizes.tick) * named as f64 + 1.1 * sizes.words;
        drawing.text(&panel.x.label, (middle, y), sizes.words, Anchor::Middle);
        if self.labelled {
            drawing.turned(&panel.y.label, (self.label_at, top + high / 2.0), sizes.words, Anchor::Middle, -90.0);
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.panel.x.place(value).clamp(0.0, 1.0) * self.wide
    }

    /// Pixels count downwards. What lies beyond an end is drawn at the end: error bars may go below zero.
    fn y(&self, value: f64) -> f64 {
        self.height(self.panel.y.place(value))
    }

    fn height(&self, place: f64) -> f64 {
        self.top + (1.0 - place.clamp(0.0, 1.0)) * self.high
    }

    fn mark(&self, drawing: &mut Drawing, mark: &Mark, sizes: &Sizes) {
        let (bottom, right) = (self.top + self.high, self.left + self.wide);
        match mark {
            Mark::Dots { label, look, dots, joined } => {
                drawing.open(label);
                self.dots(drawing, look, dots, *joined, sizes);
                drawing.close();
            }
            Mark::Box { look, at, values, .. } => self.boxed(drawing, look, *at, values, sizes),
            Mark::Density { points, .. } => {
                let places: Vec<Place> = points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
                density::draw(drawing, &places, (self.left, self.top), (self.wide / CELLS).max(2.5));
            }
            Mark::Upright { at } | Mark::Guide { at, .. } => {
                guide(drawing, [(self.x(*at), self.top), (self.x(*at), bottom)], sizes);
            }
            Mark::Level { at } => guide(drawing, [(self.left, self.y(*at)), (right, self.y(*at))], sizes),
            Mark::Note { text, corner } => self.note(drawing, text, *corner, sizes),
        }
    }

    fn dots(&self, drawing: &mut Drawing, look: &Look, dots: &[Dot], joined: bool, sizes: &Sizes) {
        let places: Vec<Place> = dots.iter().map(|dot| (self.x(dot.x), self.y(dot.y))).collect();
        let mut errors = Path::default();
        for (dot, &(x, _)) in dots.iter().zip(&places) {
            if let Some(error) = dot.error.filter(|error| *error > 0.0) {
                let (low, high, half) = (self.y(dot.y - error), self.y(dot.y + error), 0.6 * sizes.point);
                errors.line(&[(x, low), (x, high)]);
                errors.line(&[(x - half, low), (x + half, low)]);
                errors.line(&[(x - half, high), (x + half, high)]);
            }
        }
        drawing.path(&errors, &Style { stroke: Some((look.colour, sizes.thin)), ..Style::default() });
        if joined && places.len() > 1 {
            drawing.curve(&places, look, sizes.line);
        }
        drawing.points(&places, look, sizes.point, 0.75 * sizes.line);
    }

    fn boxed(&self, drawing: &mut Drawing, look: &Look, at: f64, values: &[f64], sizes: &Sizes) {
        let Some(summary) = BoxSummary::of(values, &self.panel.y) else { return };
        let boxes = self.panel.marks.iter().filter(|mark| matches!(mark, Mark::Box { .. })).count().max(1);
        let (x, half) = (self.x(at), (0.2 * self.wide / boxes as f64).clamp(3.0, 26.0));
        let across = |place: f64, half: f64| [(x - half, self.height(place)), (x + half, self.height(place))];
        let heavy = Style { stroke: Some((BLACK, 1.5 * sizes.line)), ..Style::default() };
        let outline = Style { stroke: Some((look.colour, 0.75 * sizes.line)), ..Style::default() };
        if let Some(Spread { quartiles: (first, third), whiskers: (low, high) }) = summary.spread {
            let mut frame = Path::default();
            frame.rectangle((x - half, self.height(third)), (x + half, self.height(first)));
            drawing.path(&frame, &Style { fill: Some(BOX), ..outline });
            let mut whiskers = Path::default();
            for (end, quartile) in [(low, first), (high, third)] {
                whiskers.line(&[(x, self.height(quartile)), (x, self.height(end))]);
                whiskers.line(&across(end, half / 2.0));
            }
            drawing.path(&whiskers, &outline);
        }
        let mut median = Path::default();
        median.line(&across(summary.median, half));
        drawing.path(&median, &heavy);
        // Each place once: a thousand values on top of each other are one point.
        let mut heights: Vec<i64> =
            summary.alone.iter().map(|place| (2.0 * self.height(*place)).round() as i64).collect();
        heights.dedup();
        let mut alone = Path::default();
        heights.iter().for_each(|height| alone.dot((x, *height as f64 / 2.0)));
        let dots = Style { stroke: Some((look.colour, 1.1 * sizes.point)), ends: Ends::Round, ..Style::default() };
        drawing.path(&alone, &dots);
        let mean = Look { shape: Shape::Diamond, filled: false, stroke: Stroke::Solid, colour: BLACK };
        if summary.spread.is_some() {
            drawing.points(&[(x, self.height(summary.mean))], &mean, 0.8 * sizes.point, 0.6 * sizes.line);
        }
    }

    /// Words on white, so that they can be read above anything.
    fn note(&self, drawing: &mut Drawing, text: &str, corner: Corner, sizes: &Sizes) {
        let letters = sizes.tick;
        let (room, gap) = (self.wide - 1.2 * letters, 0.3 * letters);
        let words: Vec<String> = text.lines().flat_map(|line| lines(line, letters, room)).collect();
        let wide = words.iter().map(|line| width(line, letters)).fold(0.0, f64::max) + 2.0 * gap;
        let high = sizes.step(letters) * words.len() as f64 + gap;
        let inset = 0.3 * letters;
        let left = match corner {
            Corner::TopLeft | Corner::BottomLeft => self.left + inset,
            Corner::TopRight | Corner::BottomRight => self.left + self.wide - wide - inset,
        };
        let top = match corner {
            Corner::TopLeft | Corner::TopRight => self.top + inset,
            Corner::BottomLeft | Corner::BottomRight => self.top + self.high - high - inset,
        };
        let mut ground = Path::default();
        ground.rectangle((left, top), (left + wide, top + high));
        drawing.path(&ground, &Style { fill: Some(WHITE), ..Style::default() });
        for (i, line) in words.iter().enumerate() {
            let at = (left + gap, top + letters + sizes.step(letters) * i as f64);
            drawing.text(line, at, letters, Anchor::Start);
        }
    }
}

/// The inside of a box.
const BOX: super::Colour = (232, 232, 232);

/// How many cells of a density are beside each other in a frame.
const CELLS: f64 = 48.0;

/// What a box shows, as places on its axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BoxSummary {
    pub(super) median: f64,
    pub(super) mean: f64,
    /// None of a few values.
    pub(super) spread: Option<Spread>,
    /// Values beyond the whiskers; of a few values, all. From low to high.
    pub(super) alone: Vec<f64>,
}

/// The box and its whiskers, from low to high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) quartiles: (f64, f64),
    pub(super) whiskers: (f64, f64),
}

impl BoxSummary {
    /// Of values that are numbers; none without any.
    pub(super) fn of(values: &[f64], axis: &Axis) -> Option<BoxSummary> {
        let numbers: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let mean = axis.place(numbers.iter().sum::<f64>() / numbers.len() as f64);
        // Beyond the ends there is no place: zero on a logarithmic axis is at its low end.
        let mut places: Vec<f64> = numbers.iter().map(|value| axis.place(*value).clamp(0.0, 1.0)).collect();
        places.sort_by(f64::total_cmp);
        let median = quantile(&places, 0.5)?;
        if places.len() < LEAST_OF_A_BOX {
            return Some(BoxSummary { median, mean, spread: None, alone: places });
        }
        let (first, third) = (quantile(&places, 0.25)?, quantile(&places, 0.75)?);
        let reach = 1.5 * (third - first);
        let inside = |place: &&f64| (first - reach..=third + reach).contains(*place);
        let low = places.iter().find(inside).copied().unwrap_or(first);
        let high = places.iter().rev().find(inside).copied().unwrap_or(third);
        let alone = places.iter().filter(|place| !inside(place)).copied().collect();
        Some(BoxSummary {
            median,
            mean,
            spread: Some(Spread { quartiles: (first, third), whiskers: (low, high) }),
            alone,
        })
    }
}
