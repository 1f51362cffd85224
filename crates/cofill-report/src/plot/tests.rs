use super::*;

fn figure() -> Figure {
    let dots = vec![Dot { x: 1.0, y: 70.0, error: Some(2.0) }, Dot { x: 8.0, y: 31.5, error: None }];
    let curve = |label: &str, look| Mark::Dots { label: label.into(), look, dots: dots.clone(), joined: true };
    let values = vec![0.1, 0.2, 0.3, 0.4, 9.0];
    let boxed = Mark::Box { label: "a & b".into(), look: LOOKS[2], at: 1.0, values };
    let panel = |marks, scale| Panel {
        title: "α ≥ 1".into(),
        x: Axis::around("tokens per step", scale, [1.0, 8.0]),
        y: Axis::around("score", Scale::Linear, [0.0, 72.0]),
        marks,
    };
    let left = panel(vec![curve("EB", LOOKS[0]), curve("EB+AD", LOOKS[1]), Mark::Upright { at: 4.0 }], Scale::Log2);
    let right = panel(vec![boxed, Mark::Level { at: 3.0 }], Scale::Named(vec![(1.0, "one".into())]));
    Figure {
        title: "A figure".into(),
        rows: vec![Row { title: "Row".into(), panels: vec![left, right] }],
        panel: (300, 240),
    }
}

#[test]
fn a_figure_is_the_same_every_time() {
    let drawn = figure().draw().unwrap();
    assert_eq!(drawn, figure().draw().unwrap());
    assert!(drawn.svg.starts_with("<svg ") && drawn.svg.trim_end().ends_with("</svg>"));
    // Both legends, once each, and nothing that breaks the markup.
    for text in ["A figure", "EB+AD", "tokens per step", "a &amp; b", "α ≥ 1", "one"] {
        assert!(drawn.svg.contains(text), "{text}");
    }
    assert_eq!(drawn.svg.matches("EB+AD").count(), 1);
}

#[test]
fn pixels_show_letters_and_points() {
    let drawn = figure().draw().unwrap();
    let decoder = png::Decoder::new(std::io::Cursor::new(&drawn.png));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), figure().size());
    // The title's letters: dark pixels in the band above the legend, where nothing else is drawn.
    let band = &pixels[..info.width as usize * 3 * (TITLE as usize - 8)];
    let dark = band.chunks_exact(3).filter(|rgb| rgb.iter().all(|c| *c < 100)).count();
    assert!(dark > 100, "{dark} dark pixels of a title");
    let blue = pixels.chunks_exact(3).filter(|rgb| *rgb == [0, 90, 160]).count();
    assert!(blue > 200, "{blue} pixels of a series");
}

#[test]
fn looks_differ_without_colour() {
    for (i, a) in LOOKS.iter().enumerate() {
        for b in &LOOKS[..i] {
            assert!((a.shape, a.filled) != (b.shape, b.filled), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn a_legend_wraps_and_makes_room() {
    let mut figure = figure();
    let (width, height) = figure.size();
    let panel = &mut figure.rows[0].panels[0];
    for (i, look) in LOOKS.iter().enumerate() {
        let label = format!("a series with a long name, {i}");
        panel.marks.push(Mark::Dots { label, look: *look, dots: Vec::new(), joined: true });
    }
    // Two panels of 300 pixels have room for one such label a line, and for `EB`, `EB+AD` and `a & b` on the others.
    let (same, higher) = figure.size();
    assert!(same == width && higher > height + 7 * 28, "{higher} after {height}");
    // Every label begins within the drawing, wherever its sample is.
    let svg = figure.draw().unwrap().svg;
    let places = svg.lines().filter(|line| line.starts_with("<text")).filter_map(|line| line.split('"').nth(1));
    assert!(places.filter_map(|x| x.parse::<u32>().ok()).all(|x| x < width));
}

#[test]
fn a_long_title_makes_room() {
    let title = "A title that is much longer than the one panel below it is wide, so that its end would be cut off";
    let figure = Figure { title: title.into(), ..figure() };
    assert!(figure.size().0 > 2 * (300 + MARGIN));
}
