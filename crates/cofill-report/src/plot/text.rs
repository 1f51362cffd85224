//! Letters: how wide a text is in the font of figures, with its kerning, and how it is broken into lines.
//!
//! The font is inside the program, because a fresh machine has none (`tools/figure-font` made it).

use rustybuzz::{Face, UnicodeBuffer, shape};
use std::sync::OnceLock;

/// The family of the font in the program, which every drawing asks for first.
pub(super) const FAMILY: &str = "DejaVu Sans";

/// DejaVu Sans, cut down to what figures need.
pub(super) const FONT: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

/// How wide a text is at a size, in the unit of the size.
pub(super) fn width(text: &str, size: f64) -> f64 {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    // The font is ours, so that there is a face; were there none, letters as wide as they are on average would do for a layout.
    let Some(face) = FACE.get_or_init(|| Face::from_slice(FONT, 0)) else {
        return 0.6 * size * text.chars().count() as f64;
    };
    let mut buffer = UnicodeBuffer::new();
    buffer.push_str(text);
    let advance: i32 = shape(face, &[], buffer).glyph_positions().iter().map(|glyph| glyph.x_advance).sum();
    f64::from(advance) * size / f64::from(face.units_per_em())
}

/// The text in lines of at most this width, broken at spaces. A single word that is wider loses its end, which an ellipsis stands for.
pub(super) fn lines(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = shortened(word, size, room);
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

fn shortened(word: &str, size: f64, room: f64) -> String {
    if width(word, size) <= room {
        return word.into();
    }
    let letters: Vec<char> = word.chars().collect();
    let cut = |kept: usize| letters[..kept].iter().collect::<String>() + "…";
    (1..letters.len()).rev().map(cut).find(|text| width(text, size) <= room).unwrap_or_else(|| cut(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_kerned() {
        // A and V lean into each other in DejaVu Sans; n and n do not.
        assert!(width("AV", 100.0) < width("A", 100.0) + width("V", 100.0) - 1.0);
        assert!((width("nn", 100.0) - 2.0 * width("n", 100.0)).abs() < 1e-9);
        // 634 of 1000 units, as the font's table says of n (1298 of 2048).
        assert!((width("n", 1000.0) - 633.79).abs() < 0.01, "{}", width("n", 1000.0));
        assert!((width("tiny-llada", 24.0) - 2.0 * width("tiny-llada", 12.0)).abs() < 1e-9);
    }

    #[test]
    fn the_font_has_what_figures_write() {
        let face = Face::from_slice(FONT, 0).unwrap();
        let text = "αβγδρσφΔ ≤ ≥ ≠ ≈ − – — · × ± … 10⁻¹² ⁰³⁴⁵⁶⁷⁸⁹ éüßłő → ∞";
        let missing: Vec<char> = text.chars().filter(|c| face.glyph_index(*c).is_none()).collect();
        assert_eq!(missing, Vec::<char>::new());
    }

    #[test]
    fn long_texts_are_broken_and_long_words_cut() {
        let room = width("one two", 10.0);
        assert_eq!(lines("one two three", 10.0, room), ["one two", "three"]);
        assert_eq!(lines("", 10.0, room), [""]);
        let cut = lines("incomprehensibilities", 10.0, room);
        assert!(cut.len() == 1 && cut[0].ends_with('…') && width(&cut[0], 10.0) <= room, "{cut:?}");
    }
}
