use super::look::Shape;
use super::panel::BoxSummary;
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
    let guide = Mark::Guide { at: 4.0, label: "a line at four".into() };
    let left = panel(vec![curve("EB", LOOKS[0]), curve("EB+AD", LOOKS[1]), guide], Scale::Log2);
    let right = panel(vec![boxed, Mark::Level { at: 3.0 }], Scale::Named(vec![(1.0, "one".into())]));
    Figure {
        title: "A figure".into(),
        rows: vec![Row { title: "Row".into(), panels: vec![left, right] }],
        panel: (300, 240),
    }
}

/// A panel of 20,000 pairs, of which many fall on the same places.
fn scatter() -> Panel {
    let point = |i: u32| {
        let (a, b) = (f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65_536.0, f64::from(i % 977) / 977.0);
        (10f64.powf(-12.0 * a), 10f64.powf(-12.0 * a * b))
    };
    let points: Vec<(f64, f64)> = (0..20_000).map(point).collect();
    Panel {
        title: "many".into(),
        x: Axis::around("u", Scale::Log10, points.iter().map(|point| point.0)),
        y: Axis::around("K", Scale::Log10, points.iter().map(|point| point.1)),
        marks: vec![
            Mark::Density { label: "pairs in a cell".into(), points },
            Mark::Note { text: "ρ = .50".into(), corner: Corner::TopLeft },
        ],
    }
}

fn pixels(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(png).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

#[test]
fn a_figure_is_the_same_every_time() {
    for width in [Width::Screen, Width::Column, Width::Page] {
        let drawn = figure().draw_at(width).unwrap();
        assert_eq!(drawn, figure().draw_at(width).unwrap());
        assert!(drawn.svg.starts_with("<svg ") && drawn.svg.trim_end().ends_with("</svg>"));
        // Every legend and explanation once, and nothing that breaks the markup.
        for text in
            [">EB+AD</text>", ">tokens per step</text>", ">a &amp; b</text>", ">α ≥ 1</text>", ">a line at four</text>"]
        {
            assert!(drawn.svg.contains(text), "{text} in {}", drawn.svg);
        }
        assert_eq!(drawn.svg.matches(">EB+AD</text>").count(), 1);
        // Both panels have the same vertical axis, which has one label and one set of numbers.
        assert_eq!((drawn.svg.matches(">score</text>").count(), drawn.svg.matches(">60</text>").count()), (1, 1));
    }
}

#[test]
fn many_drawings_can_stand_in_one_page() {
    // Neither names nor styles, which would be those of the page.
    let svg = figure().svg(Width::Screen);
    assert!(!svg.contains("id=") && !svg.contains("<style") && !svg.contains("class="), "{svg}");
}

#[test]
fn pixels_show_letters_and_points() {
    let drawn = figure().draw().unwrap();
    let (width, height, pixels) = pixels(&drawn.png);
    let size = layout::Layout::new(&figure(), Width::Screen).size();
    assert_eq!(
        (f64::from(width), f64::from(height)),
        ((2.0 * size.0).round(), (2.0 * size.1).round()),
        "two for each of CSS"
    );
    // The title's letters: dark pixels in the band above everything else.
    let band = &pixels[..width as usize * 3 * 60];
    let dark = band.chunks_exact(3).filter(|rgb| rgb.iter().all(|c| *c < 100)).count();
    assert!(dark > 100, "{dark} dark pixels of a title");
    let blue = pixels.chunks_exact(3).filter(|rgb| *rgb == [0, 90, 160]).count();
    assert!(blue > 200, "{blue} pixels of a series");
}

#[test]
fn letters_are_set_with_their_kerning() {
    // What is painted is as wide as what was measured, and narrower than letters that do not know of each other.
    let svg = |words: &str| {
        let mut drawing = svg::Drawing::new("", (900.0, 100.0));
        drawing.text(words, (0.0, 50.0), 40.0, svg::Anchor::Start);
        drawing.finish()
    };
    let advance = |words: &str| {
        let tree = render::tree(&svg(words)).unwrap();
        let resvg::usvg::Node::Text(text) = &tree.root().children()[1] else { panic!("no text in {:?}", tree.root()) };
        f64::from(text.bounding_box().width())
    };
    for words in ["AVATAR", "tiny-llada", "To, Ty"] {
        let measured = text::width(words, 40.0);
        assert!((advance(words) - measured).abs() < 0.5, "{words}: {} and {measured}", advance(words));
    }
    let apart: f64 = "AVATAR".chars().map(|c| text::width(&c.to_string(), 40.0)).sum();
    assert!(advance("AVATAR") < apart - 4.0);
}

#[test]
fn a_pdf_is_one_page_of_the_size_on_paper() {
    for (width, inches) in [(Width::Column, 3.3), (Width::Page, 6.9)] {
        let drawn = figure().draw_at(width).unwrap();
        let pdf = String::from_utf8_lossy(&drawn.pdf);
        assert!(pdf.starts_with("%PDF-1.") && pdf.trim_end().ends_with("%%EOF"));
        assert_eq!((pdf.matches("/Type /Page\n").count(), pdf.contains("/Count 1")), (1, true));
        let size = pdf.split("/MediaBox [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let size: Vec<f64> = size.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert!((size[2] - 72.0 * inches).abs() < 0.01, "{size:?}");
        // The letters are those of the font in the program, embedded, and can be searched.
        assert!(pdf.contains("DejaVuSans") && pdf.contains("/FontFile2") && pdf.contains("/ToUnicode"));
        // 300 pixels an inch.
        assert_eq!(f64::from(pixels(&drawn.png).0), (300.0 * inches).round());
    }
}

#[test]
fn paper_has_no_title_and_letters_of_six_points_at_least() {
    let svg = figure().svg(Width::Column);
    assert!(svg.contains("<title>A figure</title>") && !svg.contains(">A figure</text>"));
    let sizes = svg.split("font-size=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
    // In points: 72 to an inch of 96 pixels.
    assert!(sizes.map(|size| 0.75 * size).all(|points| (6.0..8.0).contains(&points)), "{svg}");
}

#[test]
fn thousands_of_points_are_a_small_file() {
    let row = || Row { title: String::new(), panels: vec![scatter(), scatter()] };
    let figure = Figure { title: "t".into(), rows: (0..4).map(|_| row()).collect(), panel: (520, 420) };
    let drawn = figure.draw().unwrap();
    assert_eq!(figure.values(), 8 * 20_000);
    assert!(drawn.svg.len() < 300_000, "{} bytes", drawn.svg.len());
    // Four rows of the same shades have one legend.
    assert_eq!((drawn.svg.matches(">64 or more</text>").count(), drawn.svg.matches("ρ = .50").count()), (1, 8));
}

#[test]
fn a_box_shows_every_value_once() {
    // Of 1, 2, 3, 4, 5, 100: quartiles 2.25 and 4.75, whiskers within 3.75 of them, so up to 5; 100 is alone.
    let axis = Axis { label: String::new(), scale: Scale::Linear, range: (0.0, 100.0) };
    let summary = BoxSummary::of(&[5.0, 1.0, 100.0, 3.0, 4.0, 2.0, f64::NAN], &axis).unwrap();
    let spread = summary.spread.unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(spread.quartiles.0, 0.0225) && near(spread.quartiles.1, 0.0475) && near(summary.median, 0.035));
    assert_eq!((spread.whiskers, summary.alone.len()), ((0.01, 0.05), 1));
    assert!(near(summary.mean, 115.0 / 600.0));
    // On a logarithmic axis it is a box of logarithms, and zero is at the low end.
    let axis = Axis { label: String::new(), scale: Scale::Log10, range: (1e-4, 1.0) };
    let summary = BoxSummary::of(&[0.0, 1e-3, 1e-2, 1e-1, 1.0], &axis).unwrap();
    assert!(near(summary.median, 0.5) && summary.alone.is_empty());
    // Three values are three points.
    let few = BoxSummary::of(&[1.0, 1e-2, 1e-2], &axis).unwrap();
    assert_eq!((few.spread, few.alone.len()), (None, 3));
    assert_eq!(BoxSummary::of(&[], &axis), None);
}

#[test]
fn what_lies_on_top_of_each_other_is_drawn_once() {
    let boxed = |values: Vec<f64>| {
        let mut figure = figure();
        figure.rows[0].panels[1].marks = vec![Mark::Box { label: String::new(), look: LOOKS[2], at: 1.0, values }];
        figure.svg(Width::Screen).matches("h.01").count()
    };
    let quiet = || (0..40).map(|i| f64::from(i % 4));
    assert_eq!(boxed(quiet().collect()), 0);
    assert_eq!(boxed(quiet().chain([60.0]).collect()), 1);
    assert_eq!(boxed(quiet().chain([60.0, 60.0, 60.0, 50.0]).collect()), 2);
}

#[test]
fn looks_differ_without_colour() {
    for (i, a) in LOOKS.iter().enumerate() {
        for b in &LOOKS[..i] {
            assert!((a.shape, a.filled) != (b.shape, b.filled), "{a:?} and {b:?}");
        }
    }
    // Crosses cannot be filled, and are heavier instead.
    let crossed = |filled| {
        let look = Look { shape: Shape::Plus, filled, ..LOOKS[0] };
        let mut figure = figure();
        figure.rows[0].panels[0].marks = vec![Mark::Dots {
            label: String::new(),
            look,
            dots: vec![Dot { x: 2.0, y: 9.0, error: None }],
            joined: false,
        }];
        figure.svg(Width::Screen)
    };
    assert!(crossed(true) != crossed(false));
}

#[test]
fn a_legend_wraps_and_makes_room() {
    let mut figure = figure();
    let (width, height) = figure.size();
    let panel = &mut figure.rows[0].panels[0];
    for (i, look) in LOOKS.iter().enumerate() {
        let label = format!("a series with a name that takes about half of the room, {i}");
        panel.marks.push(Mark::Dots { label, look: *look, dots: Vec::new(), joined: true });
    }
    // Two panels of 300 pixels have room for one such label a line.
    let (same, higher) = figure.size();
    assert!(same == width && higher > height + 6 * 19, "{higher} after {height}");
    // Every label begins within the drawing, wherever its sample is.
    let svg = figure.svg(Width::Screen);
    let places = svg.lines().filter(|line| line.starts_with("<text")).filter_map(|line| line.split('"').nth(1));
    assert!(places.filter_map(|x| x.parse::<f64>().ok()).all(|x| x < f64::from(width)));
}

#[test]
fn panels_that_do_not_fit_continue_below() {
    let mut figure = figure();
    let panel = figure.rows[0].panels[0].clone();
    figure.rows[0].panels = vec![panel; 8];
    // Of a column, two have room beside each other; of a page, five, so that eight are four and four.
    let tops = |width: Width| {
        let svg = figure.svg(width);
        let titles = svg.lines().filter(|line| line.contains(">α ≥ 1<"));
        let mut tops: Vec<String> = titles.filter_map(|line| line.split('"').nth(3).map(str::to_owned)).collect();
        tops.dedup();
        tops.len()
    };
    assert_eq!((tops(Width::Column), tops(Width::Page), tops(Width::Screen)), (4, 2, 2));
}

#[test]
fn a_long_title_makes_room_and_then_wraps() {
    let title = "A title that is much longer than the one panel below it is wide, so that its end would be cut off";
    let mut figure = Figure { title: title.into(), ..figure() };
    figure.rows[0].panels.truncate(1);
    let (width, height) = figure.size();
    assert!(width > 400 && width <= 1100);
    figure.title = [title; 3].join(" ");
    let (most, higher) = figure.size();
    assert!(most <= 1100 && higher > height);
    // The title of a panel has no more room than its frame.
    figure.rows[0].panels[0].title = title.into();
    assert!(figure.size().1 > higher);
}

#[test]
fn names_that_do_not_fit_are_turned() {
    let named = |names: &[&str]| {
        let ticks: Vec<(f64, String)> = names.iter().enumerate().map(|(i, name)| (i as f64, (*name).into())).collect();
        let mut figure = figure();
        let panel = &mut figure.rows[0].panels[1];
        panel.x = Axis { label: String::new(), range: (-0.5, names.len() as f64 - 0.5), scale: Scale::Named(ticks) };
        figure.svg(Width::Screen)
    };
    assert!(!named(&["one", "two\nn = 4"]).contains("rotate(-30"));
    let long = ["predicates\nn = 3", "sudoku", "a task with a name", "another of them"];
    let turned = named(&long);
    assert_eq!(turned.matches("rotate(-30").count(), 4);
    assert!(turned.contains(">predicates, n = 3</text>"), "no name is lost");
}

#[test]
fn a_part_of_a_figure_is_a_figure() {
    let figure = figure();
    assert_eq!(figure.only(|_| true), Some(figure.clone()));
    let mut named = figure.clone();
    named.rows[0].panels[1].title = "right".into();
    assert_eq!(named.only(|panel| panel.title == "right").unwrap().rows[0].panels.len(), 1);
    assert_eq!(named.only(|_| false), None);
    // Two dots on two curves, five values of a box.
    assert_eq!(figure.values(), 9);
}

#[test]
fn widths_have_names() {
    assert_eq!("column".parse(), Ok(Width::Column));
    assert!("wide".parse::<Width>().unwrap_err().contains("column (3.3 inches) or page (6.9 inches)"));
}
