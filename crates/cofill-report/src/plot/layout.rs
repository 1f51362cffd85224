//! Where everything is: title, key, legends and panels, for a screen and for paper. Frames are of one size and stand below each other.

use super::density::{LEVELS, shade};
use super::panel::{Frame, TURN, ticks_below, ticks_beside};
use super::svg::{Anchor, Drawing, Ends, Path, Place, Style};
use super::text::{lines, width};
use super::{Figure, Look, Mark, Panel, Row, Width};

/// Lengths in CSS pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The most a figure is wide; on paper, always.
    total: f64,
    /// Narrower panels continue in another line.
    least: f64,
    /// The most a frame is high.
    highest: f64,
    /// Letters of the title, if there is one, of legends and labels, of ticks.
    title: Option<f64>,
    pub(super) words: f64,
    pub(super) tick: f64,
    /// Half the size of a point, and the widths of lines.
    pub(super) point: f64,
    pub(super) line: f64,
    pub(super) thin: f64,
    margin: f64,
}

impl Sizes {
    fn of(width: Width) -> Sizes {
        match width {
            Width::Screen => Sizes {
                total: 1100.0,
                least: 190.0,
                highest: 420.0,
                title: Some(17.0),
                words: 13.0,
                tick: 11.5,
                point: 3.6,
                line: 1.7,
                thin: 0.8,
                margin: 12.0,
            },
            // 6.9 and 3.3 inches of 96 pixels; letters of 6.9 and 6.2 points.
            Width::Page => Sizes { total: 662.4, least: 118.0, highest: 240.0, ..Sizes::paper() },
            Width::Column => Sizes { total: 316.8, least: 140.0, highest: 200.0, ..Sizes::paper() },
        }
    }

    fn paper() -> Sizes {
        let (words, tick) = (9.2, 8.2);
        Sizes { title: None, words, tick, point: 2.4, line: 1.1, thin: 0.5, margin: 2.0, ..Sizes::of(Width::Screen) }
    }

    /// From one line of text to the next.
    pub(super) fn step(&self, letters: f64) -> f64 {
        1.3 * letters
    }
}

/// A figure with every place decided.
pub(super) struct Layout<'a> {
    figure: &'a Figure,
    sizes: Sizes,
    size: (f64, f64),
    title: Vec<String>,
    key: Vec<KeyLine<'a>>,
    legends: Vec<(f64, &'a Row)>,
    frames: Vec<Frame<'a>>,
}

/// What the lines of [`Mark::Guide`] are, at its height.
struct KeyLine<'a> {
    top: f64,
    label: &'a str,
}

impl<'a> Layout<'a> {
    pub(super) fn new(figure: &'a Figure, width: Width) -> Layout<'a> {
        let sizes = Sizes::of(width);
        let widest = figure.rows.iter().map(|row| row.panels.len()).max().unwrap_or(0).max(1);
        let beside = (((sizes.total - 2.0 * sizes.margin) / sizes.least) as usize).max(1);
        // Two lines of four, not one of five and one of three.
        let columns = widest.div_ceil(widest.div_ceil(beside));
        let total = match width {
            Width::Screen => {
                let title = lines(&figure.title, 17.0, sizes.total - 2.0 * sizes.margin);
                let title = title.iter().map(|line| width_of(line, 17.0)).fold(0.0, f64::max);
                let panels = (columns as f64 * f64::from(figure.panel.0)).max(title.max(LEAST_SCREEN));
                (panels + 2.0 * sizes.margin).min(sizes.total)
            }
            _ => sizes.total,
        };
        let room = total - 2.0 * sizes.margin;
        let grid: Vec<Vec<&[Panel]>> =
            figure.rows.iter().map(|row| row.panels.chunks(columns).collect::<Vec<_>>()).collect();
        let (aspect, right) = (f64::from(figure.panel.1) / f64::from(figure.panel.0.max(1)), 0.6 * sizes.words);
        // Numbers beside a frame depend on its height, and its height on the room they leave: decided once, from a rough height.
        let rough = (aspect * room / columns as f64 * 0.8).min(sizes.highest);
        let left = |j: usize| {
            let of = grid.iter().flatten().filter(|line| j < line.len());
            of.map(|line| beside_frame(line, j, rough, &sizes)).fold(0.0, f64::max)
        };
        let lefts: Vec<f64> = (0..columns).map(left).collect();
        let wide = ((room - lefts.iter().sum::<f64>()) / columns as f64 - right).max(20.0);
        // On a screen a panel is no wider than the figure asks for, however long the title is.
        let wide = if width == Width::Screen { wide.min(f64::from(figure.panel.0)) } else { wide };
        let high = (aspect * wide).min(sizes.highest);
        let mut layout = Layout {
            figure,
            sizes,
            size: (total, 0.0),
            title: Vec::new(),
            key: Vec::new(),
            legends: Vec::new(),
            frames: Vec::new(),
        };
        let mut top = sizes.margin;
        if let Some(letters) = sizes.title.filter(|_| !figure.title.is_empty()) {
            layout.title = lines(&figure.title, letters, room);
            top += sizes.step(letters) * layout.title.len() as f64 + 0.3 * letters;
        }
        for label in guides(figure) {
            layout.key.push(KeyLine { top, label });
            let label = lines(label, sizes.words, room - SAMPLE * sizes.words);
            top += sizes.step(sizes.words) * label.len() as f64 + 0.2 * sizes.words;
        }
        for (row, parts) in figure.rows.iter().zip(&grid) {
            // What the row above has just explained is not explained again.
            let repeated = layout.legends.last().is_some_and(|(_, above)| same_legend(above, row));
            if repeated {
                top += 0.6 * sizes.words;
            } else {
                layout.legends.push((top, row));
                top += legend_height(row, room, &sizes);
            }
            for line in parts {
                let titles = line.iter().map(|panel| lines(&panel.title, sizes.words, wide).len()).max().unwrap_or(0);
                top += sizes.step(sizes.words) * titles as f64 + 0.3 * sizes.words;
                let mut below = 0f64;
                let mut x = sizes.margin;
                for (j, panel) in line.iter().enumerate() {
                    x += lefts[j];
                    let before = j.checked_sub(1).and_then(|before| line.get(before));
                    let frame = Frame {
                        panel,
                        left: x,
                        top,
                        wide,
                        high,
                        numbered: before.is_none_or(|before| !before.y.places_as(&panel.y)),
                        labelled: before.is_none_or(|before| before.y.label != panel.y.label),
                        label_at: x - lefts[j] + sizes.words,
                    };
                    below = below.max(below_frame(panel, wide, &sizes));
                    layout.frames.push(frame);
                    x += wide + right;
                }
                top += high + below + 0.5 * sizes.words;
            }
        }
        layout.size.1 = top + sizes.margin - 0.5 * sizes.words;
        layout
    }

    /// Width and height in CSS pixels.
    pub(super) fn size(&self) -> (f64, f64) {
        self.size
    }

    pub(super) fn draw(&self) -> String {
        let mut drawing = Drawing::new(&self.figure.title, self.size);
        let Sizes { margin, words, .. } = self.sizes;
        let room = self.size.0 - 2.0 * margin;
        if let Some(letters) = self.sizes.title {
            for (i, line) in self.title.iter().enumerate() {
                let y = margin + letters + self.sizes.step(letters) * i as f64;
                drawing.text(line, (margin, y), letters, Anchor::Start);
            }
        }
        for KeyLine { top, label } in &self.key {
            let x = margin + 0.5 * SAMPLE * words - 0.3 * words;
            guide(&mut drawing, [(x, *top), (x, top + 1.2 * words)], &self.sizes);
            for (i, line) in lines(label, words, room - SAMPLE * words).iter().enumerate() {
                let at = (margin + SAMPLE * words, top + words + self.sizes.step(words) * i as f64);
                drawing.text(line, at, words, Anchor::Start);
            }
        }
        for (top, row) in &self.legends {
            legend(&mut drawing, row, (margin, *top), room, &self.sizes);
        }
        for frame in &self.frames {
            frame.draw(&mut drawing, &self.sizes);
        }
        drawing.finish()
    }
}

/// A figure of one small panel is wide enough for a legend.
const LEAST_SCREEN: f64 = 320.0;

/// The length of a sample in a legend with the gap after it, in letters.
const SAMPLE: f64 = 3.4;

fn width_of(text: &str, size: f64) -> f64 {
    // The sum of rounded advances in a browser may be a little more.
    width(text, size) + 1.0
}

/// The explanations of all guides, once each.
fn guides(figure: &Figure) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for mark in figure.rows.iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.marks) {
        if let Mark::Guide { label, .. } = mark
            && !label.is_empty()
            && !labels.contains(&label.as_str())
        {
            labels.push(label);
        }
    }
    labels
}

/// The thin dashed line of a guide.
pub(super) fn guide(drawing: &mut Drawing, ends: [Place; 2], sizes: &Sizes) {
    let mut path = Path::default();
    path.line(&ends);
    let stroke = Some(((110, 110, 110), 1.3 * sizes.thin));
    drawing.path(&path, &Style { stroke, dashes: &[3.0, 2.5], ..Style::default() });
}

/// Room for numbers and a label to the left of a frame.
fn beside_frame(line: &[Panel], j: usize, high: f64, sizes: &Sizes) -> f64 {
    let panel = &line[j];
    let before = j.checked_sub(1).and_then(|before| line.get(before));
    let mut room = if before.is_some() { 0.9 } else { 0.5 } * sizes.words;
    if before.is_none_or(|before| !before.y.places_as(&panel.y)) {
        let names = ticks_beside(&panel.y, high, sizes);
        room += names.iter().map(|(_, name)| width(name, sizes.tick)).fold(0.0, f64::max) + 0.5 * sizes.tick;
    }
    if before.is_none_or(|before| before.y.label != panel.y.label) && !panel.y.label.is_empty() {
        room += 1.4 * sizes.words;
    }
    room
}

/// Room for names and a label below a frame.
fn below_frame(panel: &Panel, wide: f64, sizes: &Sizes) -> f64 {
    let names = ticks_below(&panel.x, wide, sizes);
    let high = match names.turned {
        true => {
            let longest = names.ticks.iter().map(|(_, name)| width(name, sizes.tick)).fold(0.0, f64::max);
            longest * TURN.to_radians().sin().abs() + 1.3 * sizes.tick
        }
        false => {
            let most = names.ticks.iter().map(|(_, name)| name.lines().count()).max().unwrap_or(0);
            0.4 * sizes.tick + sizes.step(sizes.tick) * most as f64
        }
    };
    high + if panel.x.label.is_empty() { 0.0 } else { sizes.step(sizes.words) + 0.2 * sizes.words }
}

/// A series in a legend.
struct Entry<'a> {
    label: &'a str,
    sample: Sample<'a>,
    /// From the beginning of the legend.
    at: Place,
}

enum Sample<'a> {
    Series { look: &'a Look, joined: bool },
    Shades,
}

/// The row's series, once each. What does not fit begins another line.
fn entries<'a>(row: &'a Row, room: f64, sizes: &Sizes) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let Sizes { words, .. } = *sizes;
    let (mut x, mut y) = (if row.title.is_empty() { 0.0 } else { width(&row.title, words) + 1.5 * words }, 0.0);
    for mark in row.panels.iter().flat_map(|panel| &panel.marks) {
        let (label, sample) = match mark {
            Mark::Dots { label, look, joined, .. } => (label, Sample::Series { look, joined: *joined }),
            Mark::Box { label, look, .. } => (label, Sample::Series { look, joined: false }),
            Mark::Density { label, .. } => (label, Sample::Shades),
            Mark::Upright { .. } | Mark::Guide { .. } | Mark::Level { .. } | Mark::Note { .. } => continue,
        };
        if label.is_empty() || entries.iter().any(|entry| entry.label == label) {
            continue;
        }
        let wide = width(label, words)
            + match sample {
                Sample::Series { .. } => SAMPLE * words,
                Sample::Shades => shades_width(sizes) + words,
            };
        if x + wide > room && x > 0.0 {
            (x, y) = (0.0, y + 1.5 * words);
        }
        entries.push(Entry { label, sample, at: (x, y) });
        x += wide + 1.4 * words;
    }
    entries
}

/// Whether both rows have a legend of the same words and samples.
fn same_legend(above: &Row, row: &Row) -> bool {
    fn samples(row: &Row) -> Vec<(&str, Option<&Look>)> {
        let mut samples: Vec<(&str, Option<&Look>)> = Vec::new();
        for mark in row.panels.iter().flat_map(|panel| &panel.marks) {
            let sample = match mark {
                Mark::Dots { label, look, .. } | Mark::Box { label, look, .. } => (label.as_str(), Some(look)),
                Mark::Density { label, .. } => (label.as_str(), None),
                Mark::Upright { .. } | Mark::Guide { .. } | Mark::Level { .. } | Mark::Note { .. } => continue,
            };
            if !samples.contains(&sample) {
                samples.push(sample);
            }
        }
        samples
    }
    row.title.is_empty() && above.title == row.title && samples(above) == samples(row)
}

/// The height of a row's legend; nothing without words.
fn legend_height(row: &Row, room: f64, sizes: &Sizes) -> f64 {
    let entries = entries(row, room, sizes);
    match (entries.last(), row.title.is_empty()) {
        (None, true) => 0.0,
        (last, _) => last.map_or(0.0, |entry| entry.at.1) + 1.9 * sizes.words,
    }
}

/// The row's title, then a sample of every series with its label.
fn legend(drawing: &mut Drawing, row: &Row, (left, top): Place, room: f64, sizes: &Sizes) {
    let Sizes { words, .. } = *sizes;
    drawing.text(&row.title, (left, top + 1.2 * words), words, Anchor::Start);
    for Entry { label, sample, at: (x, y) } in entries(row, room, sizes) {
        let (x, base) = (left + x, top + 1.2 * words + y);
        let middle = base - 0.36 * words;
        match sample {
            Sample::Series { look, joined } => {
                let length = (SAMPLE - 0.6) * words;
                if joined {
                    drawing.curve(&[(x, middle), (x + length, middle)], look, sizes.line);
                }
                drawing.points(&[(x + length / 2.0, middle)], look, sizes.point, 0.75 * sizes.line);
                drawing.text(label, (x + SAMPLE * words, base), words, Anchor::Start);
            }
            Sample::Shades => {
                drawing.text(label, (x, base), words, Anchor::Start);
                shades(drawing, (x + width(label, words) + 0.6 * words, base), sizes);
            }
        }
    }
}

fn shade_names() -> impl Iterator<Item = (usize, String)> {
    let last = LEVELS.len() - 1;
    LEVELS.iter().enumerate().map(move |(i, n)| (i, if i == last { format!("{n} or more") } else { n.to_string() }))
}

fn shades_width(sizes: &Sizes) -> f64 {
    shade_names().map(|(_, name)| 2.0 * sizes.tick + width(&name, sizes.tick)).sum()
}

/// A swatch for every shade, with the least count that has it.
fn shades(drawing: &mut Drawing, (mut x, base): Place, sizes: &Sizes) {
    let side = sizes.tick;
    for (level, name) in shade_names() {
        let mut swatch = Path::default();
        swatch.rectangle((x, base - 0.85 * side), (x + side, base + 0.15 * side));
        drawing.path(&swatch, &Style { fill: Some(shade(level)), ends: Ends::Plain, ..Style::default() });
        drawing.text(&name, (x + 1.3 * side, base), sizes.tick, Anchor::Start);
        x += 2.0 * side + width(&name, side);
    }
}
