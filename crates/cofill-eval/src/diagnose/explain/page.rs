//! An explanation as a page: one file, no scripts, nothing fetched.
//!
//! Everything that comes from outside (prompt, model output, names) passes [`escaped`]; a test puts markup into all of
//! it.

use super::story::{Ending, MASK, Story, reading};
use super::{Deferred, Explained};
use cofill_engine::Spelling;
use cofill_report::document::count;
use cofill_report::document::html::escaped;
use std::fmt::Write;

/// The whole page.
pub(super) fn page(story: &Story) -> String {
    let explanation = &story.explanation;
    let sampler = explanation.sampler.to_string();
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    let _ =
        writeln!(page, "<title>cofill explain: {}</title>\n<style>{STYLE}</style>\n</head>\n<body>", escaped(&sampler));
    let _ = writeln!(page, "<h1>What <code>{}</code> deferred, and why</h1>", escaped(&sampler));
    let _ = writeln!(
        page,
        "<p>Model <code>{}</code>. At every step, <span class=\"late\">a deferred position</span> is one that \
         <code>{}</code> would have committed. It waits because it attends to <span class=\"new\">a position chosen just \
         now</span> that is itself unsure. What revealing that position did to it was measured: the model was asked \
         again with nothing else changed.</p>",
        escaped(&story.model),
        escaped(&explanation.plain.to_string()),
    );
    let _ = writeln!(page, "<p>{}.</p>", escaped(&story.summary()));
    page += "<div class=\"endings\">\n";
    ending(&mut page, &sampler, explanation.nfe, &story.with);
    ending(&mut page, &explanation.plain.to_string(), explanation.plain_nfe, &story.without);
    page += "</div>\n";
    for step in &explanation.steps {
        section(&mut page, story, step);
    }
    let _ = writeln!(
        page,
        "<footer>{} for the decode, {} more for this page. KL is KL(before ‖ after) in nats; c is confidence, the \
         probability of the best token. Made by cofill {}.</footer>\n</body>\n</html>",
        count(explanation.nfe, "forward"),
        count(explanation.extra_forwards, "forward"),
        env!("CARGO_PKG_VERSION"),
    );
    page
}

fn ending(page: &mut String, sampler: &str, nfe: usize, ending: &Ending) {
    let verdict = ending.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {}", escaped(verdict)));
    let _ = writeln!(
        page,
        "<figure><figcaption><code>{}</code> ({}{verdict})</figcaption><pre>{}</pre></figure>",
        escaped(sampler),
        count(nfe, "forward"),
        escaped(&ending.text),
    );
}

fn section(page: &mut String, story: &Story, explained: &Explained) {
    let step = &explained.step;
    let forced = if step.forced { ", forced" } else { "" };
    let (n, left) = (step.n_masked, step.n_masked - step.commits.len());
    let _ = writeln!(page, "<section>\n<h2>Step {} <small>{n} masks, then {left}{forced}</small></h2>", step.step);
    page.push_str("<div class=\"canvas\">");
    for position in story.shown_from()..explained.before.len() {
        let token = explained.before[position];
        let commit = step.commits.iter().find(|commit| commit.position == position);
        let waits = explained.deferred.iter().find(|deferred| deferred.position == position);
        let (class, text, title) = match (commit, waits) {
            (Some(commit), _) => {
                ("new", story.piece(commit.token), format!("position {position}, c {:.3}", commit.confidence))
            }
            (_, Some(waits)) => {
                ("late", story.piece(waits.token), format!("position {position}, c {:.3}, waits", waits.confidence))
            }
            _ if token == story.canvas.mask_id() => ("mask", MASK.into(), format!("position {position}, masked")),
            _ if story.canvas.is_masked(position) => ("done", story.piece(token), format!("position {position}")),
            _ => ("given", story.piece(token), format!("position {position}, given")),
        };
        let gap = if story.spelling == Spelling::Words { " " } else { "" };
        let _ = write!(page, "<span class=\"{class}\" title=\"{}\">{}</span>{gap}", escaped(&title), escaped(&text));
    }
    page.push_str("</div>\n");
    if !explained.deferred.is_empty() {
        page.push_str("<ul>\n");
        explained.deferred.iter().for_each(|deferred| item(page, story, deferred));
        page.push_str("</ul>\n");
        let name = |position: &usize| {
            let commit = step.commits.iter().find(|commit| commit.position == *position)?;
            Some(format!(
                "<b class=\"new\">{}</b> at {position} (c {:.3})",
                escaped(&story.piece(commit.token)),
                commit.confidence
            ))
        };
        let names: Vec<String> = explained.instead.iter().filter_map(name).collect();
        if !names.is_empty() {
            let _ = writeln!(page, "<p>Committed instead: {}.</p>", names.join(", "));
        }
    }
    page.push_str("</section>\n");
}

fn item(page: &mut String, story: &Story, deferred: &Deferred) {
    let Deferred { position, token, confidence, lost, reason, after, committed } = deferred;
    let end = committed.map_or_else(String::new, |end| {
        format!(" Committed in step {} as <b>{}</b>.", end.step, escaped(&story.piece(end.token)))
    });
    let _ = writeln!(
        page,
        "<li><b class=\"late\">{}</b> at {position} (c {confidence:.3}) attends {} <b class=\"new\">{}</b> at {} \
         (c {:.3}): its score lost {lost:.3}. Once that was revealed: <b>{}</b> (c {:.3}, {:+.3}), <b>KL {:.3}</b>.{end}\
         </li>",
        escaped(&story.piece(*token)),
        reading(reason),
        escaped(&story.piece(reason.token)),
        reason.position,
        reason.confidence,
        escaped(&story.piece(after.token)),
        after.confidence,
        after.confidence - confidence,
        after.kl,
    );
}

const STYLE: &str = "
:root { color-scheme: light dark; --new: #0a7a3f; --late: #b45309; --dim: #777; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --new: #4ade80; --late: #fbbf24; --dim: #999; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre, .canvas { font-family: ui-monospace, monospace; }
section { border-top: 1px solid var(--line); padding: .5rem 0; }
h2 { font-size: 1.1rem; margin: .5rem 0; } small, footer { color: var(--dim); font-weight: normal; }
.canvas { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 2; }
.canvas span { border-radius: 4px; padding: 2px 1px; }
.given { color: var(--dim); } .mask { color: var(--dim); }
.new { color: var(--new); font-weight: bold; } .canvas .new { outline: 1.5px solid var(--new); }
.late { color: var(--late); font-weight: bold; } .canvas .late { outline: 1.5px dashed var(--late); }
.endings { display: flex; gap: 1rem; flex-wrap: wrap; } figure { flex: 1 1 20rem; margin: 0; }
pre { border: 1px solid var(--line); padding: .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
";
