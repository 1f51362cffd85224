//! Figures: plain data in, one drawing out, as SVG, PNG and PDF.
//!
//! A figure is rows of panels; a panel has two axes and marks. Nothing here knows what is plotted, so a test can look at the data of a
//! figure, and the drawing is the same for everybody. `layout` says where panels and legends are, `panel` what is between two axes, `svg`
//! writes it down; `render` makes the other two formats from the SVG. Letters are shaped and kerned in a font inside the program, because
//! a fresh machine has none.
//!
//! Figures must be readable in black and white: a [`Look`] differs from every other by shape, filling or dashes, never by colour alone.

pub mod axis;
mod density;
mod layout;
pub mod look;
mod panel;
mod render;
mod svg;
mod text;

pub use axis::{Axis, Scale};
pub use look::{Colour, LOOKS, Look, Shape, Stroke};

use std::str::FromStr;

/// Rows of panels under a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The line above all rows. Left out on paper, where a caption says it.
    pub title: String,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// Width and height of a panel, in CSS pixels: the largest width that it has on a screen, and the shape that it keeps.
    pub panel: (u32, u32),
}

/// Panels beside each other, with one legend for all. What does not fit beside each other continues below.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The words before the legend.
    pub title: String,
    /// From left to right. A panel whose vertical axis is that of its neighbour to the left does not repeat its numbers.
    pub panels: Vec<Panel>,
}

/// Two axes and what is between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The line above the frame.
    pub title: String,
    /// The axis below the frame.
    pub x: Axis,
    /// The axis to the left of the frame.
    pub y: Axis,
    /// In the order they are drawn.
    pub marks: Vec<Mark>,
}

/// Something in a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// Raw points with their errors, and a line through them when asked for.
    Dots {
        /// In the legend; nothing when empty.
        label: String,
        /// The shape, dashes and colour of points and line.
        look: Look,
        /// The points, in the order in which they are joined.
        dots: Vec<Dot>,
        /// Whether they are joined.
        joined: bool,
    },
    /// A box from the first to the third quartile with its median, whiskers to the furthest value within 1.5 boxes, all others as points,
    /// the mean as a small diamond. All of it as the axis has it: on a logarithmic one, of logarithms. Of fewer than five values every one is a point.
    Box {
        /// In the legend; nothing when empty.
        label: String,
        /// The colour of the box.
        look: Look,
        /// Where on the x axis.
        at: f64,
        /// All values, in any order.
        values: Vec<f64>,
    },
    /// Many points, as cells that are the darker the more points they hold. What lies beyond an end of an axis is drawn at the end.
    Density {
        /// Before the shades in the legend: what is counted.
        label: String,
        /// All points, by x and y.
        points: Vec<(f64, f64)>,
    },
    /// A thin line from bottom to top.
    Upright {
        /// Where on the x axis.
        at: f64,
    },
    /// A thin line from bottom to top that is explained once above all rows.
    Guide {
        /// Where on the x axis.
        at: f64,
        /// What it is.
        label: String,
    },
    /// A thin line from left to right.
    Level {
        /// Where on the y axis.
        at: f64,
    },
    /// Words in a corner of the panel.
    Note {
        /// In lines.
        text: String,
        /// Where they stand.
        corner: Corner,
    },
}

/// A corner of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corner {
    /// Above, to the left.
    TopLeft,
    /// Above, to the right.
    TopRight,
    /// Below, to the left.
    BottomLeft,
    /// Below, to the right.
    BottomRight,
}

/// A raw point, with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Its place on the x axis.
    pub x: f64,
    /// Its height on the y axis.
    pub y: f64,
    /// Half the height of its error bar.
    pub error: Option<f64>,
}

/// How wide a figure is, and how large its letters are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Width {
    /// For pages and notebooks: up to 1100 pixels.
    #[default]
    Screen,
    /// For one column of a paper with two: 3.3 inches, letters of 6 to 7 points.
    Column,
    /// For the whole width of a paper: 6.9 inches, letters of 6 to 7 points.
    Page,
}

impl FromStr for Width {
    type Err = String;

    fn from_str(given: &str) -> Result<Width, String> {
        match given {
            "screen" => Ok(Width::Screen),
            "column" => Ok(Width::Column),
            "page" => Ok(Width::Page),
            _ => Err("expected column (3.3 inches) or page (6.9 inches)".into()),
        }
    }
}

/// A drawn figure in all its formats.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// As scalable graphics, for pages.
    pub svg: String,
    /// As pixels: two for each of CSS, or 300 an inch on paper.
    pub png: Vec<u8>,
    /// As a page of its own size, for papers.
    pub pdf: Vec<u8>,
}

/// What a drawing can fail at.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure `{title}`: {problem}")]
pub struct Error {
    title: String,
    problem: String,
}

impl Figure {
    /// Draws it for a screen. The same figure gives the same bytes.
    pub fn draw(&self) -> Result<Drawn, Error> {
        self.draw_at(Width::Screen)
    }

    /// Draws it at a width. The same figure gives the same bytes.
    pub fn draw_at(&self, width: Width) -> Result<Drawn, Error> {
        let failed = |problem: String| Error { title: self.title.clone(), problem };
        let svg = self.svg(width);
        let tree = render::tree(&svg).map_err(failed)?;
        let density = if width == Width::Screen { 2.0 } else { 300.0 / render::INCH };
        let png = render::png(&tree, density).map_err(failed)?;
        let pdf = render::pdf(&tree).map_err(failed)?;
        Ok(Drawn { svg, png, pdf })
    }

    /// As SVG alone, which takes the least time.
    pub fn svg(&self, width: Width) -> String {
        layout::Layout::new(self, width).draw()
    }

    /// Width and height on a screen, in CSS pixels.
    pub fn size(&self) -> (u32, u32) {
        let (width, height) = layout::Layout::new(self, Width::Screen).size();
        (width.ceil() as u32, height.ceil() as u32)
    }

    /// The figure with only some of its panels; none if that leaves nothing.
    pub fn only(&self, chosen: impl Fn(&Panel) -> bool) -> Option<Figure> {
        let rows = self.rows.iter().filter_map(|row| {
            let panels: Vec<Panel> = row.panels.iter().filter(|panel| chosen(panel)).cloned().collect();
            (!panels.is_empty()).then(|| Row { title: row.title.clone(), panels })
        });
        let rows: Vec<Row> = rows.collect();
        (!rows.is_empty()).then(|| Figure { title: self.title.clone(), rows, panel: self.panel })
    }

    /// How many values it shows: of fewer than [`ENOUGH`], words say more.
    pub fn values(&self) -> usize {
        let shown = |mark: &Mark| match mark {
            Mark::Dots { dots, .. } => dots.len(),
            Mark::Box { values, .. } => values.len(),
            Mark::Density { points, .. } => points.len(),
            Mark::Upright { .. } | Mark::Guide { .. } | Mark::Level { .. } | Mark::Note { .. } => 0,
        };
        self.rows.iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.marks).map(shown).sum()
    }
}

/// The fewest values that are worth a figure.
pub const ENOUGH: usize = 3;

#[cfg(test)]
mod tests;
