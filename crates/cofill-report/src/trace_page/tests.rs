use super::*;
use cofill::toy::Toy;
use cofill::trace::{End, Header, VERSION};
use cofill::{Canvas, Decode, Denoiser};

/// A decode of the toy, with the names of its tokens.
fn trace(sampler: &str, length: usize) -> Trace {
    let mut toy = Toy::phrases(length);
    let canvas = Canvas::prompt(&[], length, toy.mask_id());
    let spec: cofill::SamplerSpec = sampler.parse().unwrap();
    let mut decode = Decode::builder(canvas.clone(), spec.build().unwrap()).begin().unwrap();
    let mut steps = cofill::generate(&mut toy, &mut decode).unwrap();
    for step in &mut steps {
        step.pieces = step.commits.iter().map(|commit| Toy::piece(commit.token).to_owned()).collect();
    }
    let header = Header {
        cofill_trace: VERSION,
        sampler: spec.form(),
        model: "toy".into(),
        tokens: canvas.tokens().to_vec(),
        mask_id: canvas.mask_id(),
        block: None,
        temperature: 0.0,
        seed: u64::MAX,
        pieces: vec!["[MASK]".into(); length],
        probes: 0,
    };
    let end = End { nfe: decode.nfe(), tokens: decode.canvas().tokens().to_vec(), appended: 0, cache: None };
    Trace { header, steps, end: Some(end) }
}

/// Texts that would end a script, an attribute or a comment, or drive whoever shows them.
const HOSTILE: [&str; 9] = [
    "</script><script>window.hacked = 1</script>",
    "\"'><img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    "&lt;b&amp;",
    "\u{0}\u{1b}[31m\u{85}\u{7f}",
    "\u{2028}\u{202e}",
    "\r\n\t",
    "${1}`\\",
];

/// A trace whose every text is hostile.
fn hostile() -> Trace {
    let mut trace = trace("topk:2+ad", 12);
    trace.header.model = HOSTILE.concat();
    let mut texts = HOSTILE.iter().cycle().map(|text| (*text).to_owned());
    trace.header.pieces = texts.by_ref().take(12).collect();
    for step in &mut trace.steps {
        step.pieces = texts.by_ref().take(step.commits.len()).collect();
    }
    trace
}

/// What a browser makes of [`escaped`] text.
fn unescaped(text: &str) -> String {
    let quotes = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    quotes.replace("&amp;", "&")
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let (_, rest) = text.split_once(open).unwrap();
    rest.split_once(close).unwrap().0
}

#[test]
fn the_page_holds_the_trace_and_says_what_was_run() {
    let trace = trace("topk:2+ad", 12);
    let page = page(&trace);
    let data: serde_json::Value =
        serde_json::from_str(between(&page, "<script type=\"application/json\" id=\"trace\">", "</script>")).unwrap();
    assert_eq!(data, json!({"header": trace.header, "steps": trace.steps, "end": trace.end}));
    // A browser would round the seed to 18446744073709552000.
    for (term, value) in
        [("seed", "18446744073709551615"), ("sampler", "topk:2+ad:40"), ("NFE", "6"), ("block", "none")]
    {
        assert!(page.contains(&format!("<dt>{term}</dt><dd>{value}</dd>")), "{term}");
    }
    assert!(page.contains("<dt>tokens per forward</dt><dd>2.00</dd>"));
    assert!(page.contains("<pre>Alan Turing visited San Diego again"), "for whoever has no scripts");
    assert!(!page.contains("interrupted</dd>"));
}

#[test]
fn text_of_a_trace_is_never_markup() {
    let trace = hostile();
    let page = page(&trace);
    let scripts: Vec<&str> = page.match_indices("<script").map(|(at, _)| &page[at..at + 12]).collect();
    assert_eq!(scripts, ["<script type", "<script>\n(()"], "the trace, and the code that draws it");
    assert_eq!((page.matches("</script").count(), page.matches("<img").count()), (2, 0));
    let control = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
    assert_eq!(page.chars().find(control), None);
    let data = between(&page, "id=\"trace\">", "</script>");
    assert!(!data.contains(['<', '>', '&', '\u{2028}']));
    // And yet nothing is lost.
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["header"], serde_json::to_value(&trace.header).unwrap());
    assert_eq!(data["steps"], serde_json::to_value(&trace.steps).unwrap());
}

#[test]
fn nothing_is_fetched() {
    let page = page(&trace("topk:2+ad", 6));
    assert!(page.contains("content=\"default-src 'none';"));
    // The only address is the name of SVG, which nobody follows.
    let addresses: Vec<&str> = page.match_indices("://").map(|(at, _)| &page[at - 4..at + 17]).collect();
    assert_eq!(addresses, ["http://www.w3.org/200"]);
    for word in [" src=", "url(http", "@import", "fetch(", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_fragment_is_a_frame_with_the_whole_page() {
    let trace = hostile();
    let fragment = fragment(&trace);
    assert!(fragment.starts_with("<iframe title=\"") && fragment.ends_with("\"></iframe>"));
    // One element: whatever a text holds, no other tag begins and no quote ends the attribute.
    assert_eq!((fragment.matches('<').count(), fragment.matches('"').count()), (2, 8));
    assert_eq!(unescaped(between(&fragment, "srcdoc=\"", "\"></iframe>")), page(&trace));
    assert!(fragment.contains("sandbox=\"allow-scripts\""), "no reach into the notebook");
}

#[test]
fn a_frame_is_as_high_as_its_text_within_reason() {
    let mut long = trace("topk:2", 12);
    assert_eq!(height(&long), 480);
    long.header.tokens = vec![1; 2000];
    long.header.pieces = vec!["word ".into(); 2000];
    assert_eq!(height(&long), 760);
}

#[test]
fn the_text_at_the_end_follows_remasking_and_ids() {
    let mut trace = trace("topk:3", 6);
    assert_eq!(end(&trace), "Alan Turing visited San City again");
    trace.steps.truncate(1);
    trace.end = None;
    let committed = trace.steps[0].commits[0];
    trace.steps[0].remasked = vec![committed.position];
    assert_eq!(end(&trace).matches('_').count(), 4, "three of six, and one again");
    assert!(page(&trace).contains("<dt>end</dt><dd>interrupted</dd>"));
    trace.steps[0].remasked.clear();
    trace.steps[0].pieces.clear();
    assert!(end(&trace).split(' ').any(|text| text == committed.token.to_string()), "{}", end(&trace));
}
