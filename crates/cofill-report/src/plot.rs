//! Figures: plain data in, one drawing out, as SVG and as PNG.
//!
//! A figure is rows of panels; a panel has two axes and marks. Nothing here knows what is plotted, so a test can look at the data of a
//! figure, and the drawing is the same for everybody. plotters draws lines and letters; ticks and layout are ours ([`axis`], `panel`).
//! Letters come from a font inside the program, because a fresh machine has none.
//!
//! Figures must be readable in black and white: a [`Look`] differs from every other by shape or dashes, never by colour alone.

pub mod axis;
mod panel;

pub use axis::{Axis, Scale};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use std::sync::OnceLock;

/// Rows of panels under a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The line above all rows.
    pub title: String,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// Width and height of a panel with its labels, in pixels.
    pub panel: (u32, u32),
}

/// Panels beside each other, with one legend for all.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The words before the legend.
    pub title: String,
    /// From left to right.
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
    /// A box from the first to the third quartile with its median, whiskers to the furthest value within 1.5 boxes, all others as points.
    Box {
        /// In the legend; nothing when empty.
        label: String,
        /// The colour of the box, and the shape of single points.
        look: Look,
        /// Where on the x axis.
        at: f64,
        /// All values, in any order.
        values: Vec<f64>,
    },
    /// A thin line from bottom to top.
    Upright {
        /// Where on the x axis.
        at: f64,
    },
    /// A thin line from left to right.
    Level {
        /// Where on the y axis.
        at: f64,
    },
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

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The outline of its points.
    pub shape: Shape,
    /// Points filled, or only outlined.
    pub filled: bool,
    /// The pattern of its line.
    pub stroke: Stroke,
    /// The amounts of red, green and blue.
    pub colour: (u8, u8, u8),
}

/// The outline of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A ring or a disc.
    Circle,
    /// A square that stands on a side.
    Square,
    /// A square that stands on a corner.
    Diamond,
    /// A triangle that points upwards.
    Triangle,
    /// A triangle that points downwards.
    Wedge,
    /// Two strokes that cross.
    Cross,
}

/// The pattern of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// One stroke without gaps.
    Solid,
    /// Long strokes with gaps.
    Dashed,
    /// Short strokes with gaps.
    Dotted,
}

/// Looks that differ without colour, and whose colours differ for the colour-blind too (Okabe and Ito). Distinct series take them in order.
pub const LOOKS: [Look; 8] = [
    Look { shape: Shape::Circle, filled: false, stroke: Stroke::Dashed, colour: (90, 90, 90) },
    Look { shape: Shape::Square, filled: true, stroke: Stroke::Solid, colour: (0, 90, 160) },
    Look { shape: Shape::Triangle, filled: true, stroke: Stroke::Solid, colour: (190, 75, 0) },
    Look { shape: Shape::Diamond, filled: true, stroke: Stroke::Solid, colour: (0, 125, 90) },
    Look { shape: Shape::Cross, filled: false, stroke: Stroke::Dotted, colour: (0, 0, 0) },
    Look { shape: Shape::Wedge, filled: false, stroke: Stroke::Dashed, colour: (150, 60, 120) },
    Look { shape: Shape::Diamond, filled: false, stroke: Stroke::Dotted, colour: (40, 130, 190) },
    Look { shape: Shape::Square, filled: false, stroke: Stroke::Dotted, colour: (140, 110, 0) },
];

/// A drawn figure in both formats.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// As scalable graphics, for papers and pages.
    pub svg: String,
    /// As pixels, for everything else.
    pub png: Vec<u8>,
}

/// What a drawing can fail at.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure `{title}`: {problem}")]
pub struct Error {
    title: String,
    problem: String,
}

impl Figure {
    /// Draws it. The same figure gives the same bytes.
    pub fn draw(&self) -> Result<Drawn, Error> {
        let failed = |problem: String| Error { title: self.title.clone(), problem };
        if !font() {
            return Err(failed("the font in the program cannot be read".into()));
        }
        let (width, height) = self.size();
        let mut svg = String::new();
        self.paint(&SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area())
            .map_err(|error| failed(error.to_string()))?;
        let mut pixels = vec![255; width as usize * height as usize * 3]; // [height, width, rgb]
        self.paint(&BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area())
            .map_err(|error| failed(error.to_string()))?;
        let png = encode(&pixels, width, height).map_err(|error| failed(error.to_string()))?;
        Ok(Drawn { svg, png })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        let heights: u32 = self.rows.iter().map(|row| self.legend(row) + self.panel.1).sum();
        (self.room() + 2 * MARGIN, TITLE + heights + MARGIN)
    }

    /// Width between the margins: of the panels, or of a title that is wider.
    fn room(&self) -> u32 {
        // Letters have no width before the font is there.
        font();
        let columns = self.rows.iter().map(|row| row.panels.len()).max().unwrap_or(0).max(1) as u32;
        (columns * self.panel.0).max(panel::width(&self.title, 26).unsigned_abs())
    }

    /// The height of a row's legend.
    fn legend(&self, row: &Row) -> u32 {
        LEGEND + panel::more_lines(row, self.room() as i32).unsigned_abs()
    }

    fn paint<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Painted<DB> {
        area.fill(&WHITE)?;
        panel::text(area, &self.title, (MARGIN as i32, 14), panel::Letters::Title)?;
        let mut top = TITLE as i32;
        for row in &self.rows {
            panel::legend(area, row, (MARGIN as i32, top), self.room() as i32)?;
            top += self.legend(row) as i32;
            for (j, panel) in row.panels.iter().enumerate() {
                let left = (MARGIN + j as u32 * self.panel.0) as i32;
                panel.paint(area, (left, top), self.panel)?;
            }
            top += self.panel.1 as i32;
        }
        area.present()
    }
}

/// What painting ends with: nothing, or what the backend says.
type Painted<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

const MARGIN: u32 = 16;
const TITLE: u32 = 56;
const LEGEND: u32 = 44;

/// The name of the font in SVG, where the reader's own is taken, and of ours in PNG.
const FONT: &str = "sans-serif";

/// Registers the font in the program, once.
fn font() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let bytes = include_bytes!("plot/DejaVuSans-subset.ttf");
    *REGISTERED.get_or_init(|| register_font(FONT, FontStyle::Normal, bytes).is_ok())
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
