//! A trace as one page that needs no other file: the canvas fills as one moves through the steps, and whoever was deferred points at the
//! position that it waits for.
//!
//! The page holds the trace in the form of its file and replays it in the browser (`trace_page/state.js`, `draw.js`, `trace.js`); no build
//! step, no library, nothing fetched. The page of a server is made of the same modules ([`STATE_JS`], [`DRAW_JS`], [`PAGE_CSS`]). All text of a trace is hostile: it reaches the page as JSON without a character that HTML reads, or through
//! [`escaped`], and scripts only ever set it as text.

use crate::document::count;
use crate::document::html::{escaped, frame};
use cofill::Trace;
use serde_json::json;
use std::fmt::Write;

/// What every position was, and when: a module without a page (`state.js`).
pub const STATE_JS: &str = include_str!("trace_page/state.js");
/// Canvas, arcs, numbers, strip and controls: a module that imports `./state.js` (`draw.js`).
pub const DRAW_JS: &str = include_str!("trace_page/draw.js");
/// How all of it looks, dark and light.
pub const PAGE_CSS: &str = include_str!("trace_page/page.css");
const BODY: &str = include_str!("trace_page/body.html");
const TRACE_JS: &str = include_str!("trace_page/trace.js");

/// The page. A trace that was interrupted, or that does not name its tokens, has one too; then ids stand for text.
pub fn page(trace: &Trace) -> String {
    let title = escaped(&format!("{} on {}", trace.header.sampler, trace.header.model));
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    // Nothing is fetched, whatever the text of a trace asks for.
    page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\">\n";
    let _ = writeln!(page, "<title>cofill trace: {title}</title>\n<style>\n{PAGE_CSS}</style>\n</head>\n<body>");
    let _ = writeln!(page, "<h1>{title}</h1>");
    meta(&mut page, trace);
    let _ =
        writeln!(page, "<noscript><p>Without scripts, only the end:</p><pre>{}</pre></noscript>", escaped(&end(trace)));
    page += BODY;
    let _ = writeln!(page, "<script type=\"application/json\" id=\"trace\">{}</script>", data(trace));
    // A function of its own, so that nothing becomes global.
    let _ = writeln!(page, "<script>\n(() => {{\n\"use strict\";\n{}}})();\n</script>\n</body>\n</html>", script());
    page
}

/// The modules as one script. Each has its imports and exports on lines of their own, and no two use a name twice.
fn script() -> String {
    let lines = [STATE_JS, DRAW_JS, TRACE_JS].into_iter().flat_map(str::lines);
    let own = lines.filter(|line| !line.starts_with("import ") && !line.starts_with("export "));
    own.flat_map(|line| [line, "\n"]).collect()
}

/// The page as a part of another one, such as a cell of a notebook.
pub fn fragment(trace: &Trace) -> String {
    let title = format!("Trace of {} on {}", trace.header.sampler, trace.header.model);
    frame(&title, height(trace), &page(trace))
}

/// Pixels that show controls, canvas and numbers at the width of a notebook; a long canvas scrolls.
fn height(trace: &Trace) -> usize {
    const CONTROLS: usize = 320;
    const LINE: usize = 35;
    const LETTERS: usize = 70; // a line, beside the numbers
    let text = end(trace);
    let lines: usize = text.lines().map(|line| line.chars().count() / LETTERS + 1).sum();
    (CONTROLS + LINE * lines).clamp(480, 760)
}

/// What was run, as terms and values.
fn meta(page: &mut String, trace: &Trace) {
    let header = &trace.header;
    let of_step = |step: &cofill::Step| step.filled().count() as isize - step.remasked.len() as isize;
    let filled: isize = trace.steps.iter().map(of_step).sum();
    let nfe = trace.nfe();
    let mut terms = vec![
        ("model", header.model.clone()),
        ("sampler", header.sampler.to_string()),
        ("block", header.block.map_or_else(|| "none".into(), |block| block.to_string())),
        ("temperature", header.temperature.to_string()),
        ("seed", header.seed.to_string()),
        ("tokens", format!("{filled} in {}", count(trace.steps.len(), "step"))),
        ("NFE", nfe.to_string()),
    ];
    if header.probes > 0 {
        terms.push(("of them to find gaps", header.probes.to_string()));
    }
    if nfe > 0 {
        terms.push(("tokens per forward", format!("{:.2}", filled as f64 / nfe as f64)));
    }
    if trace.end.is_none() {
        terms.push(("end", "interrupted".into()));
    }
    page.push_str("<dl class=\"meta\">\n");
    for (term, value) in terms {
        let _ = writeln!(page, "<div><dt>{term}</dt><dd>{}</dd></div>", escaped(&value));
    }
    page.push_str("</dl>\n");
}

/// The canvas at the end, as text.
fn end(trace: &Trace) -> String {
    let header = &trace.header;
    let named = header.pieces.len() == header.tokens.len();
    let mut pieces: Vec<String> = match named {
        true => header.pieces.clone(),
        false => header.tokens.iter().map(ToString::to_string).collect(),
    };
    let mask = |piece: &mut String| *piece = "_".into();
    let masks = pieces.iter_mut().zip(&header.tokens).filter(|(_, token)| **token == header.mask_id);
    masks.for_each(|(piece, _)| mask(piece));
    for step in &trace.steps {
        pieces.resize(pieces.len() + step.appended, "_".into());
        let named = step.pieces.len() == step.commits.len();
        for (i, commit) in step.commits.iter().enumerate() {
            if let Some(piece) = pieces.get_mut(commit.position) {
                *piece = if named { step.pieces[i].clone() } else { commit.token.to_string() };
            }
        }
        for &position in &step.remasked {
            pieces.get_mut(position).into_iter().for_each(mask);
        }
        if let Some(collapse) = &step.collapsed {
            let end = pieces.get(collapse.by).cloned().unwrap_or_default();
            for &position in &collapse.positions {
                pieces.get_mut(position).into_iter().for_each(|piece| piece.clone_from(&end));
            }
        }
    }
    pieces.resize(pieces.len() + trace.end.as_ref().map_or(0, |end| end.appended), "_".into());
    // Words and ids need a gap; pieces bring their own spaces.
    let spaced = |piece: &String| piece.starts_with(char::is_whitespace) || piece.ends_with(char::is_whitespace);
    pieces.join(if pieces.iter().any(spaced) { "" } else { " " })
}

/// The trace as JSON that is neither markup nor a control character, so that it survives in a script and in an attribute.
fn data(trace: &Trace) -> String {
    let json = json!({"header": trace.header, "steps": trace.steps, "end": trace.end}).to_string();
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        // These stand in strings alone, where JSON allows to write them so.
        if matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') || c.is_control() {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests;
