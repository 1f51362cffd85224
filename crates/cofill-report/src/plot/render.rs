//! An SVG drawing as pixels and as a page of PDF. Both are made from the SVG, so all three show the same.

use super::text::{FAMILY, FONT};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, OnceLock};

/// CSS pixels of an inch.
pub(super) const INCH: f64 = 96.0;

/// The drawing with its letters set: shaped and kerned, in the font of the program alone.
pub(super) fn tree(svg: &str) -> Result<Tree, String> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let fonts = FONTS.get_or_init(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT.to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    });
    let options = Options { fontdb: fonts.clone(), font_family: FAMILY.into(), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|error| error.to_string())
}

/// As PNG, with this many pixels for each of CSS.
pub(super) fn png(tree: &Tree, density: f64) -> Result<Vec<u8>, String> {
    let pixels = |length: f32| (f64::from(length) * density).round() as u32;
    let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
    let mut paper = Pixmap::new(width, height).ok_or_else(|| format!("{width} by {height} pixels are no picture"))?;
    paper.fill(Color::WHITE);
    resvg::render(tree, Transform::from_scale(density as f32, density as f32), &mut paper.as_mut());
    // The paper is opaque, so that what is premultiplied is what is seen.
    let rgb: Vec<u8> = paper.pixels().iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Best);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::Adaptive);
    let per_metre = (density * INCH / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter }));
    let write = |encoder: png::Encoder<'_, &mut Vec<u8>>| encoder.write_header()?.write_image_data(&rgb);
    write(encoder).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// As a PDF of one page, as large as the drawing on paper, with texts that can be searched.
pub(super) fn pdf(tree: &Tree) -> Result<Vec<u8>, String> {
    let page = svg2pdf::PageOptions { dpi: INCH as f32 };
    svg2pdf::to_pdf(tree, svg2pdf::ConversionOptions::default(), page).map_err(|error| error.to_string())
}
