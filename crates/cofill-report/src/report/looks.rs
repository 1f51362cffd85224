//! How samplers look: the same in every panel, every figure and every report, whoever else is drawn.
//!
//! A rule has a colour and a shape; what stands behind it, nothing, `+ad`, `+paths` or another discount, has a filling, dashes and a
//! lightness. So a curve is known by its shape and its dashes in black and white, too.

use crate::plot::{Colour, Look, Shape, Stroke};
use crate::points::{Rule, Variant};

const BLUE: Colour = (0, 82, 155);
const VERMILION: Colour = (205, 85, 10);
const GREEN: Colour = (20, 150, 105);
const PURPLE: Colour = (160, 60, 130);
const BLACK: Colour = (45, 45, 45);
const ORANGE: Colour = (222, 150, 0);
const SKY: Colour = (70, 160, 215);
const OLIVE: Colour = (115, 95, 25);

/// The rules that are known here. The paper's three come first; all that can be discounted have shapes that can be filled.
const KNOWN: [(&str, Colour, Shape); 28] = [
    ("eb", BLUE, Shape::Square),
    ("fast", VERMILION, Shape::Triangle),
    ("topk", GREEN, Shape::Diamond),
    ("eb-original", BLUE, Shape::Wedge),
    ("fast-published", VERMILION, Shape::Wedge),
    ("fast-dllm", VERMILION, Shape::Square),
    ("fast-upstream", VERMILION, Shape::Diamond),
    ("fast-profile", VERMILION, Shape::Star),
    ("fast-sum", VERMILION, Shape::Left),
    ("threshold", ORANGE, Shape::Circle),
    ("threshold-dream", ORANGE, Shape::Left),
    ("llada", SKY, Shape::Circle),
    ("dream", SKY, Shape::Square),
    ("klass", PURPLE, Shape::Wedge),
    ("less", PURPLE, Shape::Right),
    ("dapd", BLACK, Shape::Cross),
    ("dawn", ORANGE, Shape::Plus),
    ("clad", OLIVE, Shape::Left),
    ("punt", SKY, Shape::Diamond),
    ("dus", OLIVE, Shape::Square),
    ("p2", PURPLE, Shape::Circle),
    ("lookum", PURPLE, Shape::Star),
    ("localleap", SKY, Shape::Right),
    ("hierarchy", BLACK, Shape::Circle),
    ("credit", ORANGE, Shape::Wedge),
    ("oracle", BLACK, Shape::Star),
    ("demask", PURPLE, Shape::Square),
    ("apd", GREEN, Shape::Plus),
];

const COLOURS: [Colour; 8] = [BLUE, VERMILION, GREEN, PURPLE, BLACK, ORANGE, SKY, OLIVE];

/// Shapes that can be filled.
const SHAPES: [Shape; 8] = [
    Shape::Circle,
    Shape::Square,
    Shape::Diamond,
    Shape::Triangle,
    Shape::Wedge,
    Shape::Star,
    Shape::Left,
    Shape::Right,
];

/// The look of a sampler. One that is not known here has one of those that nobody known has, by its name; two such
/// names may come to the same look, which [`Looks`] prevents.
pub fn look(rule: &Rule, variant: Variant) -> Look {
    Looks::of(std::slice::from_ref(rule)).look(rule, variant)
}

/// The looks of all samplers of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    /// Rules that are not in [`KNOWN`].
    strangers: Vec<(String, (Colour, Shape))>,
}

impl Looks {
    /// For these rules.
    pub fn of(rules: &[Rule]) -> Looks {
        let mut names: Vec<String> = rules.iter().map(Rule::to_string).filter(|name| known(name).is_none()).collect();
        // By name, so that the order in which they come does not matter.
        names.sort();
        names.dedup();
        let mut strangers: Vec<(String, (Colour, Shape))> = Vec::new();
        for name in names {
            let family = name.split('@').next().and_then(known);
            let free = free(family.map(|(colour, _)| colour));
            let taken = |look: &(Colour, Shape)| strangers.iter().any(|(_, other)| other == look);
            let begin = hash(&name) as usize % free.len();
            let from = (0..free.len()).map(|i| free[(begin + i) % free.len()]);
            let look = from.clone().find(|look| !taken(look)).unwrap_or(free[begin]);
            strangers.push((name, look));
        }
        Looks { strangers }
    }

    /// The look of a sampler.
    pub fn look(&self, rule: &Rule, variant: Variant) -> Look {
        let name = rule.to_string();
        let stranger = || self.strangers.iter().find(|(other, _)| *other == name).map(|(_, look)| *look);
        let (colour, shape) = known(&name).or_else(stranger).unwrap_or((BLACK, Shape::Circle));
        let (filled, stroke, tone) = manner(variant);
        Look { shape, filled, stroke, colour: toned(colour, tone) }
    }
}

fn known(name: &str) -> Option<(Colour, Shape)> {
    KNOWN.iter().find(|(other, ..)| *other == name).map(|(_, colour, shape)| (*colour, *shape))
}

/// Colours and shapes that no known rule has: of a family (`eb` of `eb@entropy`) in its colour, otherwise not in those of the paper's rules.
fn free(family: Option<Colour>) -> Vec<(Colour, Shape)> {
    let of_the_paper = |colour: &Colour| [BLUE, VERMILION, GREEN].contains(colour);
    let fits = |colour: &&Colour| family.map_or(!of_the_paper(colour), |family| family == **colour);
    let colours = COLOURS.iter().filter(fits);
    let all = colours.flat_map(|colour| SHAPES.iter().map(move |shape| (*colour, *shape)));
    let is_taken = |look: &(Colour, Shape)| KNOWN.iter().any(|(_, colour, shape)| (*colour, *shape) == *look);
    all.filter(|look| !is_taken(look)).collect()
}

/// Filling, dashes and lightness: below nought darker, above it lighter.
fn manner(variant: Variant) -> (bool, Stroke, f64) {
    let others = [
        (false, Stroke::Dotted, -0.25),
        (true, Stroke::Dashed, -0.25),
        (false, Stroke::Solid, 0.1),
        (true, Stroke::Dotted, 0.1),
    ];
    match variant.discount() {
        None => (false, Stroke::Dashed, 0.2),
        Some(_) if variant == Variant::adas() => (true, Stroke::Solid, 0.0),
        Some(discount) if discount.paths && discount.control.is_none() => (true, Stroke::DashDot, -0.45),
        Some(_) => others[hash(&variant.to_string()) as usize % others.len()],
    }
}

fn toned((red, green, blue): Colour, tone: f64) -> Colour {
    let end = if tone > 0.0 { 255.0 } else { 0.0 };
    let mix = |part: u8| (f64::from(part) + tone.abs() * (end - f64::from(part))).round() as u8;
    (mix(red), mix(green), mix(blue))
}

/// FNV-1a, which is the same everywhere and for ever.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill::Registry;

    #[test]
    fn every_sampler_has_a_look_of_its_own() {
        let names: Vec<String> = Registry::stock().entries().iter().map(|entry| entry.name.clone()).collect();
        let missing: Vec<&String> = names.iter().filter(|name| known(name).is_none()).collect();
        assert!(missing.is_empty(), "a line of KNOWN for {missing:?}");
        for (i, a) in KNOWN.iter().enumerate() {
            for b in &KNOWN[..i] {
                assert!((a.1, a.2) != (b.1, b.2), "{} and {}", a.0, b.0);
            }
        }
    }

    #[test]
    fn a_look_does_not_depend_on_the_company() {
        let rules: Vec<Rule> = ["klass", "topk", "peaks", "eb@entropy", "WINO"].map(Rule::read).into();
        let together = Looks::of(&rules);
        let turned: Vec<Rule> = rules.iter().rev().cloned().collect();
        assert_eq!(together, Looks::of(&turned));
        for rule in &rules {
            for variant in [Variant::Base, Variant::adas()] {
                assert_eq!(together.look(rule, variant), look(rule, variant), "{rule}");
            }
        }
        // Of the family's colour, and of another shape.
        let (eb, entropy) =
            (look(&Rule::read("eb"), Variant::adas()), look(&Rule::read("eb@entropy"), Variant::adas()));
        assert!(eb.colour == entropy.colour && eb.shape != entropy.shape);
    }

    #[test]
    fn strangers_are_told_apart() {
        let rules: Vec<Rule> = (0..20).map(|i| Rule::read(&format!("mine{i}"))).collect();
        let looks = Looks::of(&rules);
        let mut seen: Vec<Look> = rules.iter().map(|rule| looks.look(rule, Variant::Base)).collect();
        let all = seen.len();
        seen.sort_by_key(|look| format!("{look:?}"));
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn discounts_differ_without_colour_and_in_lightness() {
        let variants = [Variant::Base, Variant::adas(), Variant::read("paths:100").unwrap()];
        let looks = variants.map(|variant| look(&Rule::read("eb"), variant));
        let grey = |Look { colour: (red, green, blue), .. }: &Look| {
            0.2126 * f64::from(*red) + 0.7152 * f64::from(*green) + 0.0722 * f64::from(*blue)
        };
        for (i, a) in looks.iter().enumerate() {
            for b in &looks[..i] {
                assert!(a.stroke != b.stroke && (grey(a) - grey(b)).abs() > 20.0, "{a:?} and {b:?}");
            }
        }
    }
}
