//! An SVG drawing as it is written: lines, shapes and texts, with attributes and nothing else. No style sheet and no names, so that many
//! drawings can stand in one page without touching each other.

use super::look::{Colour, Look, Shape};
use super::text;
use crate::document::html::escaped;
use std::fmt::Write;

/// A place in the drawing: to the right, and downwards.
pub(super) type Place = (f64, f64);

/// A drawing that grows.
pub(super) struct Drawing {
    svg: String,
}

/// Where the place of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) const BLACK: Colour = (0, 0, 0);
pub(super) const WHITE: Colour = (255, 255, 255);

impl Drawing {
    /// White paper of this size in CSS pixels, 96 to an inch. The title is for readers who do not see it.
    pub(super) fn new(title: &str, (width, height): (f64, f64)) -> Drawing {
        let (width, height, title) = (short(width), short(height), escaped(title));
        let family = text::FAMILY;
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{title}\" font-family=\"'{family}',Verdana,sans-serif\">\n<title>{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        Drawing { svg }
    }

    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    /// Everything until [`close`](Drawing::close) belongs together; a browser shows the title where the pointer is.
    pub(super) fn open(&mut self, title: &str) {
        let _ = writeln!(self.svg, "<g><title>{}</title>", escaped(title));
    }

    pub(super) fn close(&mut self) {
        self.svg.push_str("</g>\n");
    }

    /// Texts with the place at their baseline.
    pub(super) fn text(&mut self, words: &str, (x, y): Place, size: f64, anchor: Anchor) {
        self.turned(words, (x, y), size, anchor, 0.0);
    }

    /// The same, turned by degrees around its place.
    pub(super) fn turned(&mut self, words: &str, (x, y): Place, size: f64, anchor: Anchor, degrees: f64) {
        if words.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y) = (short(x), short(y));
        let turn = match degrees == 0.0 {
            true => String::new(),
            false => format!(" transform=\"rotate({} {x} {y})\"", short(degrees)),
        };
        let (size, words) = (short(size), escaped(words));
        let _ = writeln!(self.svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{turn}>{words}</text>");
    }

    /// A path of any number of pieces, drawn at once.
    pub(super) fn path(&mut self, path: &Path, style: &Style<'_>) {
        if path.0.is_empty() {
            return;
        }
        let fill = style.fill.map_or("none".into(), hex);
        let _ = write!(self.svg, "<path d=\"{}\" fill=\"{fill}\"", path.0);
        if let Some((colour, width)) = style.stroke {
            let _ = write!(self.svg, " stroke=\"{}\" stroke-width=\"{}\"", hex(colour), short(width));
            if !style.dashes.is_empty() {
                let dashes: Vec<String> = style.dashes.iter().map(|part| short(part * width)).collect();
                let _ = write!(self.svg, " stroke-dasharray=\"{}\"", dashes.join(" "));
            }
            match style.ends {
                Ends::Plain => {}
                Ends::Round => self.svg.push_str(" stroke-linecap=\"round\""),
            }
        }
        if let Some((x, y, scale_x, scale_y)) = style.moved {
            let [x, y, scale_x, scale_y] = [x, y, scale_x, scale_y].map(short_enough);
            let _ = write!(self.svg, " transform=\"translate({x} {y}) scale({scale_x} {scale_y})\"");
        }
        self.svg.push_str("/>\n");
    }

    /// The line of a series.
    pub(super) fn curve(&mut self, places: &[Place], look: &Look, width: f64) {
        let mut path = Path::default();
        path.line(places);
        let stroke = Some((look.colour, width));
        self.path(&path, &Style { stroke, dashes: look.stroke.dashes(), ..Style::default() });
    }

    /// The points of a series, all in one path.
    pub(super) fn points(&mut self, places: &[Place], look: &Look, radius: f64, width: f64) {
        let mut path = Path::default();
        for place in places {
            path.point(*place, look.shape, radius);
        }
        let fill = match (look.shape.is_crossed(), look.filled) {
            (true, _) => None,
            (false, true) => Some(look.colour),
            (false, false) => Some(WHITE),
        };
        // Crosses cannot be filled, so they are heavier instead.
        let heavy = if look.shape.is_crossed() && look.filled { 1.6 } else { 1.0 };
        self.path(&path, &Style { fill, stroke: Some((look.colour, heavy * width)), ..Style::default() });
    }
}

/// How a path is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style<'a> {
    pub(super) fill: Option<Colour>,
    /// Colour and width.
    pub(super) stroke: Option<(Colour, f64)>,
    /// Strokes and gaps in widths.
    pub(super) dashes: &'a [f64],
    pub(super) ends: Ends,
    /// Where the origin of the path is, and how long its unit, to the right and downwards.
    pub(super) moved: Option<(f64, f64, f64, f64)>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Ends {
    #[default]
    Plain,
    Round,
}

/// Pieces of a path, as SVG writes them.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// A line through places.
    pub(super) fn line(&mut self, places: &[Place]) {
        for (i, (x, y)) in places.iter().enumerate() {
            let _ = write!(self.0, "{}{} {}", if i == 0 { 'M' } else { 'L' }, short(*x), short(*y));
        }
    }

    /// A closed line through places.
    pub(super) fn polygon(&mut self, places: &[Place]) {
        self.line(places);
        self.0.push('z');
    }

    /// A rectangle between two corners.
    pub(super) fn rectangle(&mut self, (left, top): Place, (right, bottom): Place) {
        self.polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)]);
    }

    /// A dot, to be drawn with round ends as wide as it shall be.
    pub(super) fn dot(&mut self, (x, y): Place) {
        let _ = write!(self.0, "M{} {}h.01", short(x), short(y));
    }

    /// A hexagon on a grid of whole numbers, two wide and four high.
    pub(super) fn hexagon(&mut self, (x, y): (i64, i64)) {
        let _ = write!(self.0, "M{x} {}l1 1v2l-1 1-1-1v-2z", y - 2);
    }

    /// A point of a series.
    fn point(&mut self, (x, y): Place, shape: Shape, radius: f64) {
        let corner = |(dx, dy): &(f64, f64)| (x + radius * dx, y + radius * dy);
        let corners: Vec<Place> = shape.corners().iter().map(corner).collect();
        if shape == Shape::Circle {
            let (left, r, across) = (short(x - radius), short(radius), short(2.0 * radius));
            let _ = write!(self.0, "M{left} {}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z", short(y));
        } else if shape.is_crossed() {
            corners.chunks(2).for_each(|stroke| self.line(stroke));
        } else {
            self.polygon(&corners);
        }
    }
}

/// A number with two digits after the point, and none that say nothing.
pub(super) fn short(value: f64) -> String {
    trimmed(&format!("{value:.2}"))
}

fn short_enough(value: f64) -> String {
    trimmed(&format!("{value:.5}"))
}

fn trimmed(text: &str) -> String {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if text == "-0" { "0".into() } else { text.into() }
}

fn hex((red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
