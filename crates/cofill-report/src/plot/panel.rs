//! A panel in pixels: frame, ticks, marks; and the legend of a row.

use super::{Axis, Dot, FONT, Look, Mark, Painted, Panel, Row, Shape, Stroke};
use crate::statistics::bootstrap::quantile;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a, DB> = &'a DrawingArea<DB, Shift>;
type Pixel = (i32, i32);

/// Room for labels around the frame of a panel.
const LEFT: i32 = 62;
const RIGHT: i32 = 14;
const ABOVE: i32 = 30;
const BELOW: i32 = 58;

/// Half the size of a point.
const R: i32 = 5;

const GRID: RGBColor = RGBColor(225, 225, 225);
const GUIDE: RGBColor = RGBColor(150, 150, 150);

/// Who a text is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    Title,
    Legend,
    Panel,
    Below,
    Beside,
    Tick,
    Height,
}

/// Writes at a place: titles to its right, ticks before and below it, names of axes around it.
pub(super) fn text<DB: DrawingBackend>(area: Area<'_, DB>, text: &str, at: Pixel, letters: Letters) -> Painted<DB> {
    let (size, h, v) = match letters {
        Letters::Title => (26, HPos::Left, VPos::Top),
        Letters::Legend => (20, HPos::Left, VPos::Center),
        Letters::Panel => (20, HPos::Center, VPos::Bottom),
        Letters::Below => (18, HPos::Center, VPos::Bottom),
        Letters::Tick => (17, HPos::Center, VPos::Top),
        Letters::Height => (17, HPos::Right, VPos::Center),
        Letters::Beside => (18, HPos::Center, VPos::Top),
    };
    let font = match letters {
        Letters::Beside => (FONT, size).into_font().transform(FontTransform::Rotate270),
        _ => (FONT, size).into_font(),
    };
    let style = TextStyle::from(font).color(&BLACK).pos(Pos::new(h, v));
    area.draw_text(text, &style, at)
}

/// How wide a text is in pixels, at a size.
pub(super) fn width(text: &str, size: i32) -> i32 {
    (FONT, size).into_font().box_size(text).map_or(0, |(width, _)| width as i32)
}

/// The height of a line of a legend.
const LINE: i32 = 28;

/// A series in a legend.
struct Entry<'a> {
    label: &'a str,
    look: &'a Look,
    joined: bool,
    /// From the beginning of the legend.
    at: Pixel,
}

/// The row's series, once each. What does not fit into `room` pixels begins another line.
fn entries(row: &Row, room: i32) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut x, mut y) = (if row.title.is_empty() { 0 } else { width(&row.title, 20) + 34 }, 0);
    for mark in row.panels.iter().flat_map(|panel| &panel.marks) {
        let (Mark::Dots { label, look, .. } | Mark::Box { label, look, .. }) = mark else { continue };
        if label.is_empty() || entries.iter().any(|entry| entry.label == label) {
            continue;
        }
        let wide = 52 + width(label, 20);
        if x + wide > room && x > 0 {
            (x, y) = (0, y + LINE);
        }
        entries.push(Entry { label, look, joined: matches!(mark, Mark::Dots { joined: true, .. }), at: (x, y) });
        x += wide + 30;
    }
    entries
}

/// How much higher than one line the legend of a row is.
pub(super) fn more_lines(row: &Row, room: i32) -> i32 {
    entries(row, room).last().map_or(0, |entry| entry.at.1)
}

/// The row's title, then a sample of every series with its label.
pub(super) fn legend<DB: DrawingBackend>(area: Area<'_, DB>, row: &Row, (left, top): Pixel, room: i32) -> Painted<DB> {
    text(area, &row.title, (left, top + 22), Letters::Legend)?;
    for Entry { label, look, joined, at: (x, y) } in entries(row, room) {
        let (x, middle) = (left + x, top + 22 + y);
        if joined {
            line(area, &[(x, middle), (x + 44, middle)], look)?;
        }
        point(area, (x + 22, middle), look)?;
        text(area, label, (x + 52, middle + 2), Letters::Legend)?;
    }
    Ok(())
}

impl Panel {
    pub(super) fn paint<DB: DrawingBackend>(&self, area: Area<'_, DB>, at: Pixel, size: (u32, u32)) -> Painted<DB> {
        let frame = Frame::new(at, size, self);
        let (left, right, top, bottom) = (frame.left, frame.right, frame.top, frame.bottom);
        for (value, name) in self.x.ticks() {
            let x = frame.x(value);
            area.draw(&PathElement::new(vec![(x, top), (x, bottom)], GRID))?;
            text(area, &name, (x, bottom + 6), Letters::Tick)?;
        }
        for (value, name) in self.y.ticks() {
            let y = frame.y(value);
            area.draw(&PathElement::new(vec![(left, y), (right, y)], GRID))?;
            text(area, &name, (left - 7, y), Letters::Height)?;
        }
        for mark in &self.marks {
            frame.mark(area, mark)?;
        }
        area.draw(&Rectangle::new([(left, top), (right, bottom)], BLACK))?;
        let middle = (left + right) / 2;
        text(area, &self.title, (middle, top - 5), Letters::Panel)?;
        text(area, &self.x.label, (middle, at.1 + size.1 as i32 - 4), Letters::Below)?;
        text(area, &self.y.label, (at.0 + 2, (top + bottom) / 2), Letters::Beside)
    }
}

/// The rectangle between the axes.
struct Frame<'a> {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    axes: (&'a Axis, &'a Axis),
}

impl<'a> Frame<'a> {
    fn new((left, top): Pixel, (width, height): (u32, u32), panel: &'a Panel) -> Frame<'a> {
        let (right, bottom) = (left + width as i32 - RIGHT, top + height as i32 - BELOW);
        Frame { left: left + LEFT, right, top: top + ABOVE, bottom, axes: (&panel.x, &panel.y) }
    }

    fn x(&self, value: f64) -> i32 {
        self.left + (self.axes.0.place(value) * f64::from(self.right - self.left)).round() as i32
    }

    /// Pixels count downwards. What lies beyond an end is drawn at the end: error bars may go below zero.
    fn y(&self, value: f64) -> i32 {
        let up = self.axes.1.place(value).clamp(0.0, 1.0);
        self.bottom - (up * f64::from(self.bottom - self.top)).round() as i32
    }

    fn mark<DB: DrawingBackend>(&self, area: Area<'_, DB>, mark: &Mark) -> Painted<DB> {
        match mark {
            Mark::Dots { look, dots, joined, .. } => self.dots(area, look, dots, *joined),
            Mark::Box { look, at, values, .. } => self.boxed(area, look, *at, values),
            Mark::Upright { at } => {
                let ends = [(self.x(*at), self.top), (self.x(*at), self.bottom)];
                area.draw(&DashedPathElement::new(ends, 3, 4, GUIDE.stroke_width(1)))
            }
            Mark::Level { at } => {
                let ends = [(self.left, self.y(*at)), (self.right, self.y(*at))];
                area.draw(&DashedPathElement::new(ends, 3, 4, GUIDE.stroke_width(1)))
            }
        }
    }

    fn dots<DB: DrawingBackend>(&self, area: Area<'_, DB>, look: &Look, dots: &[Dot], joined: bool) -> Painted<DB> {
        let pixels: Vec<Pixel> = dots.iter().map(|dot| (self.x(dot.x), self.y(dot.y))).collect();
        if joined {
            line(area, &pixels, look)?;
        }
        for (dot, &(x, y)) in dots.iter().zip(&pixels) {
            if let Some(error) = dot.error.filter(|error| *error > 0.0) {
                let (low, high) = (self.y(dot.y - error), self.y(dot.y + error));
                for ends in [[(x, low), (x, high)], [(x - 3, low), (x + 3, low)], [(x - 3, high), (x + 3, high)]] {
                    area.draw(&PathElement::new(ends.to_vec(), colour(look)))?;
                }
            }
            point(area, (x, y), look)?;
        }
        Ok(())
    }

    fn boxed<DB: DrawingBackend>(&self, area: Area<'_, DB>, look: &Look, at: f64, values: &[f64]) -> Painted<DB> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let quartiles = [0.25, 0.5, 0.75].map(|q| quantile(&sorted, q));
        let [Some(first), Some(median), Some(third)] = quartiles else { return Ok(()) };
        let reach = 1.5 * (third - first);
        let inside = |value: &&f64| (first - reach..=third + reach).contains(*value);
        let low = *sorted.iter().find(inside).unwrap_or(&first);
        let high = *sorted.iter().rev().find(inside).unwrap_or(&third);
        let (x, half) = (self.x(at), ((self.right - self.left) / 20).clamp(6, 28));
        let style = colour(look).stroke_width(2);
        let frame = [(x - half, self.y(third)), (x + half, self.y(first))];
        area.draw(&Rectangle::new(frame, RGBColor(235, 235, 235).filled()))?;
        area.draw(&Rectangle::new(frame, style))?;
        let level = |value: f64, half: i32| vec![(x - half, self.y(value)), (x + half, self.y(value))];
        area.draw(&PathElement::new(level(median, half), BLACK.stroke_width(3)))?;
        for (end, quartile) in [(low, first), (high, third)] {
            area.draw(&PathElement::new(vec![(x, self.y(quartile)), (x, self.y(end))], style))?;
            area.draw(&PathElement::new(level(end, half / 2), style))?;
        }
        for value in sorted.iter().filter(|value| !inside(value)) {
            area.draw(&Circle::new((x, self.y(*value)), 2, style))?;
        }
        Ok(())
    }
}

fn colour(look: &Look) -> RGBColor {
    let (red, green, blue) = look.colour;
    RGBColor(red, green, blue)
}

fn line<DB: DrawingBackend>(area: Area<'_, DB>, pixels: &[Pixel], look: &Look) -> Painted<DB> {
    let style = colour(look).stroke_width(2);
    match look.stroke {
        Stroke::Solid => area.draw(&PathElement::new(pixels.to_vec(), style)),
        Stroke::Dashed => area.draw(&DashedPathElement::new(pixels.to_vec(), 9, 6, style)),
        Stroke::Dotted => area.draw(&DashedPathElement::new(pixels.to_vec(), 2, 5, style)),
    }
}

/// A point: its shape filled with its colour, or with white and outlined.
fn point<DB: DrawingBackend>(area: Area<'_, DB>, (x, y): Pixel, look: &Look) -> Painted<DB> {
    let outline = colour(look).stroke_width(2);
    let fill = if look.filled { colour(look) } else { WHITE };
    let corners: &[Pixel] = match look.shape {
        Shape::Circle => {
            area.draw(&Circle::new((x, y), R, fill.filled()))?;
            return area.draw(&Circle::new((x, y), R, outline));
        }
        Shape::Cross => {
            area.draw(&PathElement::new(vec![(x - R, y - R), (x + R, y + R)], outline))?;
            return area.draw(&PathElement::new(vec![(x - R, y + R), (x + R, y - R)], outline));
        }
        Shape::Square => &[(-R, -R), (R, -R), (R, R), (-R, R)],
        Shape::Diamond => &[(0, -R - 2), (R + 2, 0), (0, R + 2), (-R - 2, 0)],
        Shape::Triangle => &[(0, -R - 2), (R + 1, R), (-R - 1, R)],
        Shape::Wedge => &[(0, R + 2), (R + 1, -R), (-R - 1, -R)],
    };
    let mut corners: Vec<Pixel> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    area.draw(&Polygon::new(corners.clone(), fill.filled()))?;
    corners.push(corners[0]);
    area.draw(&PathElement::new(corners, outline))
}
