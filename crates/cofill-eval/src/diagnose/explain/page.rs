//! An explanation as a page: one file, nothing fetched, and one script, which marks a position in every step and shows what is said of it.
//!
//! Everything that comes from outside (prompt, model output, names) passes [`escaped`]; a test puts markup into all of
//! it. The page's own policy lets no other script run.

use super::canvas::{self, Breaks, Fragment, Mark};
use super::story::{Ending, Story, reading};
use super::{Candidate, Deferred, Explained};
use cofill::TokenId;
use cofill_engine::Spelling;
use cofill_report::document::count;
use cofill_report::document::html::{escaped, policy};
use std::collections::BTreeMap;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Positions whose numbers stand above them.
const TICK: usize = 5;

/// The whole page.
pub(super) fn page(story: &Story) -> String {
    let explanation = &story.explanation;
    let sampler = explanation.sampler.to_string();
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += &policy(Some(SCRIPT));
    let _ = writeln!(
        page,
        "<title>cofill explain: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
        escaped(&sampler)
    );
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
    page += "<p class=\"legend\">Numbers before lines and above every fifth token are positions. Point at a token, or go there with Tab and \
             the arrow keys, and it is marked in every step; up and down lead to the same position one step before and after.</p>\n";
    let mut since = BTreeMap::new();
    for step in &explanation.steps {
        Section { story, explained: step, since: &since }.write(&mut page);
        since.extend(step.step.commits.iter().map(|commit| (commit.position, (step.step.step, commit.confidence))));
    }
    let _ = writeln!(
        page,
        "<footer><p>{} for the decode, {} more for this page. KL is KL(before ‖ after) in nats; c is confidence, the \
         probability of the best token. A deferral changed nothing if the KL is below {} nats and the token stayed the same \
         to the end. Made by cofill {}.</p></footer>\n<p id=\"tip\" role=\"status\" hidden></p>\n<script>{SCRIPT}</script>\n</body>\n</html>",
        count(explanation.nfe, "forward"),
        count(explanation.extra_forwards, "forward"),
        super::NOTHING,
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

/// A step on the page.
struct Section<'a> {
    story: &'a Story,
    explained: &'a Explained,
    /// In which step a position was committed, and how sure it was.
    since: &'a BTreeMap<usize, (usize, f64)>,
}

impl Section<'_> {
    fn write(&self, page: &mut String) {
        let (story, explained) = (self.story, self.explained);
        let step = &explained.step;
        let forced = if step.forced { ", forced" } else { "" };
        let (n, left) = (step.n_masked, step.n_masked - step.commits.len());
        let _ = writeln!(page, "<section>\n<h2>Step {} <small>{n} masks, then {left}{forced}</small></h2>", step.step);
        self.canvas(page);
        let (told, quiet): (Vec<&Deferred>, Vec<&Deferred>) = explained.deferred.iter().partition(|d| story.tells(d));
        if !told.is_empty() {
            self.list(page, &told);
            self.instead(page);
        }
        if !quiet.is_empty() {
            let title = format!("{} that changed nothing", count(quiet.len(), "deferral"));
            let _ = writeln!(page, "<details>\n<summary>{title}</summary>");
            self.list(page, &quiet);
            if told.is_empty() {
                self.instead(page);
            }
            page.push_str("</details>\n");
        }
        page.push_str("</section>\n");
    }

    fn canvas(&self, page: &mut String) {
        let (words, step) = (self.story.spelling == Spelling::Words, self.explained.step.step);
        let class = if words { "canvas words" } else { "canvas" };
        let _ = writeln!(page, "<div class=\"{class}\" role=\"group\" aria-label=\"Canvas after step {step}\">");
        let mut before = None; // the position of the fragment before
        for line in canvas::lines(self.story, self.explained, Breaks::Shown) {
            let first = line.first().map_or_else(String::new, |fragment| fragment.position.to_string());
            let _ = write!(
                page,
                "<div class=\"line\"><span class=\"n\" aria-hidden=\"true\">{first}</span><span class=\"cells\">"
            );
            for fragment in &line {
                let Fragment { position, mark, text } = fragment;
                let class = match mark {
                    Mark::New => "new",
                    Mark::Late => "late",
                    Mark::Quiet => "quiet",
                    Mark::Mask => "mask",
                    Mark::Done => "done",
                    Mark::Given => "given",
                };
                let again = before == Some(*position);
                let number = match position.is_multiple_of(TICK) && !again {
                    true => format!(" data-n=\"{position}\""),
                    false => String::new(),
                };
                let stop = if before.is_none() { 0 } else { -1 };
                let _ = write!(
                    page,
                    "<span class=\"c {class}\" data-p=\"{position}\"{number} tabindex=\"{stop}\" aria-label=\"{}\">{}</span>",
                    escaped(&self.about(*position, *mark)),
                    escaped(text),
                );
                before = Some(*position);
            }
            page.push_str("</span></div>\n");
        }
        page.push_str("</div>\n");
    }

    /// What there is to say of a position in this step.
    fn about(&self, position: usize, mark: Mark) -> String {
        let explained = self.explained;
        let candidate = explained.candidates.iter().find(|candidate| candidate.position == position);
        let numbers = candidate.map_or_else(String::new, |candidate| self.numbers(candidate));
        match mark {
            Mark::New => format!("Position {position} {}: committed in this step, {numbers}", self.committed(position)),
            Mark::Late | Mark::Quiet => {
                let deferred = explained.deferred.iter().find(|deferred| deferred.position == position);
                let reason = deferred.map(|deferred| &deferred.reason);
                let by = reason.map_or_else(String::new, |reason| {
                    format!(" waits for {} {}", reason.position, self.quoted(reason.token))
                });
                let token = deferred.map_or_else(String::new, |deferred| self.quoted(deferred.token));
                format!("Position {position} {token}{by}: {numbers}")
            }
            Mark::Mask => match candidate {
                Some(candidate) => {
                    format!("Position {position}, masked: likeliest {}, {numbers}", self.quoted(candidate.token))
                }
                None => format!("Position {position}, masked; not a candidate in this step."),
            },
            Mark::Done => {
                let token = self.quoted(explained.before[position]);
                let since = self.since.get(&position).map_or_else(String::new, |(step, confidence)| {
                    format!(": committed in step {step}, confidence {confidence:.3}")
                });
                format!("Position {position} {token}{since}.")
            }
            Mark::Given => format!("Position {position} {}: given.", self.quoted(explained.before[position])),
        }
    }

    fn numbers(&self, candidate: &Candidate) -> String {
        let Candidate { confidence, entropy, attends, .. } = candidate;
        let other = |(position, attention): &(usize, f64)| {
            let token = self.explained.candidates.iter().find(|candidate| candidate.position == *position);
            let token = token.map_or_else(String::new, |candidate| format!(" {}", self.quoted(candidate.token)));
            format!("{position}{token} {attention:.3}")
        };
        let attends = match attends.is_empty() {
            true => String::new(),
            false => format!(
                " Of the other masks it attends most to {}.",
                attends.iter().map(other).collect::<Vec<_>>().join(", ")
            ),
        };
        format!("confidence {confidence:.3}, entropy {entropy:.3} nats.{attends}")
    }

    fn committed(&self, position: usize) -> String {
        let commit = self.explained.step.commits.iter().find(|commit| commit.position == position);
        commit.map_or_else(String::new, |commit| self.quoted(commit.token))
    }

    fn quoted(&self, token: TokenId) -> String {
        format!("“{}”", self.story.piece(token))
    }

    fn instead(&self, page: &mut String) {
        let name = |position: &usize| {
            let commit = self.explained.step.commits.iter().find(|commit| commit.position == *position)?;
            Some(format!(
                "<b class=\"new word\">{}</b> at {position} (c {:.3})",
                escaped(&self.story.piece(commit.token)),
                commit.confidence
            ))
        };
        let names: Vec<String> = self.explained.instead.iter().filter_map(name).collect();
        if !names.is_empty() {
            let _ = writeln!(page, "<p>Committed instead: {}.</p>", names.join(", "));
        }
    }

    fn list(&self, page: &mut String, deferred: &[&Deferred]) {
        page.push_str("<ul>\n");
        deferred.iter().for_each(|deferred| item(page, self.story, deferred));
        page.push_str("</ul>\n");
    }
}

fn item(page: &mut String, story: &Story, deferred: &Deferred) {
    let Deferred { position, token, confidence, lost, reason, after, committed } = deferred;
    let end = committed.map_or_else(String::new, |end| {
        format!(" Committed in step {} as <b class=\"word\">{}</b>.", end.step, escaped(&story.piece(end.token)))
    });
    let _ = writeln!(
        page,
        "<li class=\"deferred\"><b class=\"late word\">{}</b> at {position} (c {confidence:.3}) attends {} <b class=\"new word\">{}</b> at {} \
         (c {:.3}): its score lost {lost:.3}. Once that was revealed: <b class=\"word\">{}</b> (c {:.3}, {:+.3}), <b>KL {:.3}</b>.{end}\
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
