//! What colours mean: how sure the model was when it committed a token.

use anstyle::{Ansi256Color, AnsiColor, Color, RgbColor, Style};

/// What is known of one position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// It was given.
    Fixed,
    Masked,
    Committed {
        confidence: f64,
        new: bool,
    },
}

/// How many colours a terminal has for shades of confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shades {
    /// Red, yellow, cyan and green, as the user's own theme has them.
    Four,
    /// The cube of 256 colours.
    Cube,
    /// Any colour.
    True,
}

/// Where the four colours begin; between them, shades are mixed.
const STEPS: [(f64, AnsiColor, [u8; 3]); 4] = [
    (0.0, AnsiColor::Red, [222, 75, 75]),
    (0.4, AnsiColor::Yellow, [204, 150, 40]),
    (0.6, AnsiColor::Cyan, [40, 160, 190]),
    (0.9, AnsiColor::Green, [50, 165, 85]),
];

impl Shades {
    /// What the terminal says of itself.
    pub(super) fn of_terminal() -> Shades {
        let said = |name: &str| std::env::var(name).unwrap_or_default();
        Shades::of(&said("COLORTERM"), &said("TERM"))
    }

    fn of(colorterm: &str, term: &str) -> Shades {
        match colorterm {
            "truecolor" | "24bit" => Shades::True,
            _ if term.contains("256color") => Shades::Cube,
            _ => Shades::Four,
        }
    }

    /// How a position looks.
    pub(super) fn style(self, state: State) -> Style {
        match state {
            State::Fixed => Style::new(),
            State::Masked => AnsiColor::BrightBlack.on_default(),
            State::Committed { confidence, new } => {
                let style = Style::new().fg_color(Some(self.shade(confidence)));
                if new { style.bold().underline() } else { style }
            }
        }
    }

    fn shade(self, confidence: f64) -> Color {
        let at = STEPS.iter().rposition(|(from, ..)| confidence >= *from).unwrap_or(0);
        let [r, g, b] = mixed(confidence, at);
        match self {
            Shades::Four => STEPS[at].1.into(),
            Shades::True => RgbColor(r, g, b).into(),
            Shades::Cube => Ansi256Color(16 + 36 * level(r) + 6 * level(g) + level(b)).into(),
        }
    }

    /// Colours and what they mean, as much of it as fits. Gives the text and its width.
    pub(super) fn legend(self, width: usize) -> (String, usize) {
        let ramp = (0..8).map(|i| f64::from(i) / 7.0);
        let bar = |confidence: f64| (self.style(State::Committed { confidence, new: false }), "█".to_owned());
        let plain = |text: &str| (Style::new(), text.to_owned());
        let confidence: Vec<(Style, String)> = match self {
            Shades::Four => STEPS.iter().flat_map(|(from, ..)| [bar(*from), plain(&format!(" {from} "))]).collect(),
            _ => [plain("0 ")].into_iter().chain(ramp.map(bar)).chain([plain(" 1")]).collect(),
        };
        let new = Style::new().bold().underline();
        let entries = [
            [vec![plain("confidence ")], confidence].concat(),
            vec![(new, "new".into())],
            vec![(self.style(State::Masked), "_".into()), plain(" masked")],
        ];
        let (mut text, mut used) = (String::new(), 0);
        for entry in entries {
            let long: usize = entry.iter().map(|(_, part)| part.chars().count()).sum();
            let gap = if used > 0 { 3 } else { 0 };
            if used + gap + long >= width {
                break;
            }
            text += &" ".repeat(gap);
            entry.iter().for_each(|(style, part)| text += &format!("{style}{part}{style:#}"));
            used += gap + long;
        }
        (text, used)
    }
}

/// The colour of `confidence` between step `at` and the next.
fn mixed(confidence: f64, at: usize) -> [u8; 3] {
    let confidence = if confidence.is_nan() { 0.0 } else { confidence }; // whatever a sampler says can be drawn
    let (from, _, low) = STEPS[at];
    let (to, high) = STEPS.get(at + 1).map_or((1.0, low), |(to, _, high)| (*to, *high));
    let part = ((confidence - from) / (to - from)).clamp(0.0, 1.0);
    let mix = |low: u8, high: u8| (f64::from(low) + part * (f64::from(high) - f64::from(low))).round() as u8;
    [mix(low[0], high[0]), mix(low[1], high[1]), mix(low[2], high[2])]
}

/// The level of the cube that is nearest: 0, 95, 135, 175, 215 or 255.
fn level(value: u8) -> u8 {
    if value < 48 { 0 } else { (value.saturating_sub(35) / 40).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_colours_it_says_it_has() {
        assert_eq!(Shades::of("truecolor", "xterm"), Shades::True);
        assert_eq!(Shades::of("24bit", "dumb"), Shades::True);
        assert_eq!(Shades::of("", "screen-256color"), Shades::Cube);
        assert_eq!(Shades::of("yes", "xterm"), Shades::Four);
    }

    #[test]
    fn shades_meet_the_four_colours_where_these_begin() {
        for (at, (from, ansi, [r, g, b])) in STEPS.into_iter().enumerate() {
            assert_eq!(Shades::Four.shade(from), ansi.into());
            assert_eq!(Shades::True.shade(from), RgbColor(r, g, b).into());
            // Halfway to the next, so is every channel.
            if let Some((to, _, high)) = STEPS.get(at + 1) {
                let Color::Rgb(RgbColor(mid, ..)) = Shades::True.shade((from + to) / 2.0) else { panic!("a mix") };
                assert!((f64::from(mid) - (f64::from(r) + f64::from(high[0])) / 2.0).abs() <= 0.5);
            }
        }
        assert_eq!(Shades::Four.shade(0.899), AnsiColor::Cyan.into());
        assert_eq!(Shades::True.shade(f64::NAN), Shades::True.shade(0.0), "whatever a sampler says can be drawn");
    }

    #[test]
    fn the_cube_takes_the_nearest_level() {
        // Brute force over what the levels stand for.
        for value in 0..=255u8 {
            let near = [0, 95, 135, 175, 215, 255].map(|stands: i32| (stands - i32::from(value)).abs());
            assert_eq!(near[usize::from(level(value))], *near.iter().min().unwrap(), "{value}");
        }
    }

    #[test]
    fn a_legend_is_never_wider_than_its_line() {
        for shades in [Shades::Four, Shades::Cube, Shades::True] {
            for width in 0..90 {
                let (text, used) = shades.legend(width);
                let seen = anstream::adapter::strip_str(&text).to_string();
                assert_eq!(seen.chars().count(), used);
                assert!(used < width.max(1));
            }
            assert!(anstream::adapter::strip_str(&shades.legend(80).0).to_string().ends_with("_ masked"));
        }
    }
}
