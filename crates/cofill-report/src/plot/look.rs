//! How a series looks: shape and filling of its points, dashes of its line, colour. Readers in black and white, and the colour-blind, have
//! the first three.

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
    pub colour: Colour,
}

/// The amounts of red, green and blue.
pub type Colour = (u8, u8, u8);

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
    /// Two strokes that cross, aslant.
    Cross,
    /// Two strokes that cross, upright.
    Plus,
    /// A star with five points.
    Star,
    /// A triangle that points to the left.
    Left,
    /// A triangle that points to the right.
    Right,
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
    /// Long and short strokes in turn.
    DashDot,
}

/// Looks that differ without colour, and whose colours differ for the colour-blind too (after Okabe and Ito). Distinct series take them in
/// order; samplers have looks of their own, which are the same in every figure ([`crate::report::looks`]).
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

impl Look {
    /// What is left of it in black and white.
    pub fn without_colour(&self) -> (Shape, bool, Stroke) {
        (self.shape, self.filled, self.stroke)
    }
}

impl Shape {
    /// The corners of a point of half the size 1 around (0, 0), y downwards; none of a circle, and the ends of both strokes of a cross.
    pub(super) fn corners(self) -> &'static [(f64, f64)] {
        match self {
            Shape::Circle => &[],
            Shape::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Shape::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            Shape::Triangle => &[(0.0, -1.3), (1.2, 0.9), (-1.2, 0.9)],
            Shape::Wedge => &[(0.0, 1.3), (1.2, -0.9), (-1.2, -0.9)],
            Shape::Left => &[(-1.3, 0.0), (0.9, -1.2), (0.9, 1.2)],
            Shape::Right => &[(1.3, 0.0), (-0.9, -1.2), (-0.9, 1.2)],
            Shape::Cross => &[(-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -1.0)],
            Shape::Plus => &[(-1.3, 0.0), (1.3, 0.0), (0.0, -1.3), (0.0, 1.3)],
            // Points on a circle of 1.5, hollows on one of 0.62.
            Shape::Star => &[
                (0.0, -1.5),
                (0.364, -0.502),
                (1.427, -0.464),
                (0.59, 0.192),
                (0.882, 1.214),
                (0.0, 0.62),
                (-0.882, 1.214),
                (-0.59, 0.192),
                (-1.427, -0.464),
                (-0.364, -0.502),
            ],
        }
    }

    /// Whether it consists of two strokes, and so cannot be filled.
    pub(super) fn is_crossed(self) -> bool {
        matches!(self, Shape::Cross | Shape::Plus)
    }
}

impl Stroke {
    /// Strokes and gaps in widths of the line; none without gaps.
    pub(super) fn dashes(self) -> &'static [f64] {
        match self {
            Stroke::Solid => &[],
            Stroke::Dashed => &[4.0, 2.5],
            Stroke::Dotted => &[1.0, 2.0],
            Stroke::DashDot => &[5.0, 2.0, 1.0, 2.0],
        }
    }
}
