//! The search as a picture: every candidate's score against what it takes, the budget as a line, and on top what was confirmed.

use super::{Budget, Candidate, Confirmed, Tuned};
use crate::plot::{Axis, Dot, Figure, LOOKS, Look, Mark, Panel, Row, Scale, Shape, Stroke};

const PANEL: (u32, u32) = (760, 480);

/// Fewer points than this are a table.
const LEAST: usize = 3;

impl Tuned {
    /// Candidates by score and cost; none if there are too few to draw.
    pub fn figure(&self) -> Option<Figure> {
        let last = self.last_rung();
        let cost = |m: &super::Measured| match self.budget {
            Budget::Forwards(_) => m.forwards,
            Budget::Seconds(_) => m.seconds,
        };
        let dot = |candidate: &Candidate| candidate.rungs.last().map(|m| Dot { x: cost(m), y: m.score, error: None });
        let (finalists, early): (Vec<&Candidate>, Vec<&Candidate>) =
            self.candidates.iter().partition(|candidate| candidate.rungs.len() > last);
        let dots =
            |candidates: &[&Candidate]| candidates.iter().filter_map(|candidate| dot(candidate)).collect::<Vec<Dot>>();
        let (finalists, early) = (dots(&finalists), dots(&early));
        if finalists.len() + early.len() < LEAST {
            return None;
        }
        let confirmed = |sampler: &Confirmed| {
            let half = (sampler.interval.interval.high - sampler.interval.interval.low) / 2.0;
            vec![Dot { x: cost(&sampler.measured), y: sampler.measured.score, error: Some(half) }]
        };
        let grey = Look { shape: Shape::Circle, filled: false, stroke: Stroke::Dotted, colour: (150, 150, 150) };
        let series = |label: String, look: Look, dots: Vec<Dot>| Mark::Dots { label, look, dots, joined: false };
        let mut marks = vec![Mark::Upright { at: self.budget.most() }];
        let n = |rung: usize| self.protocol.rungs.get(rung).copied().unwrap_or(0);
        marks.push(series(format!("left the search before {} prompts", n(last)), grey, early));
        marks.push(series(format!("last rung, {} prompts", n(last)), LOOKS[6], finalists));
        if let Some(confirmation) = &self.confirmation {
            let n = confirmation.best.measured.prompts;
            if confirmation.difference.is_some() {
                let name = format!("{}, default, {n} other prompts", confirmation.default.sampler);
                marks.push(series(name, LOOKS[2], confirmed(&confirmation.default)));
            }
            let name = format!("{}, best, {n} other prompts", confirmation.best.sampler);
            marks.push(series(name, LOOKS[1], confirmed(&confirmation.best)));
        }
        marks.retain(|mark| !matches!(mark, Mark::Dots { dots, .. } if dots.is_empty()));
        let all =
            || marks.iter().flat_map(|mark| if let Mark::Dots { dots, .. } = mark { dots.as_slice() } else { &[] });
        let label = match self.budget {
            Budget::Forwards(_) => "forwards per answer (the line is the budget)",
            Budget::Seconds(_) => "seconds per answer (the line is the budget)",
        };
        let x = Axis::around(label, Scale::Log2, all().map(|dot| dot.x).chain([self.budget.most()]));
        let edges = |dot: &Dot| [dot.y - dot.error.unwrap_or(0.0), dot.y + dot.error.unwrap_or(0.0)];
        let y = Axis::around("score (%)", Scale::Linear, all().flat_map(edges)).from_zero();
        let panel = Panel { title: String::new(), x, y, marks };
        let title = format!("{} on {}: samplers within {}", self.model, self.task, self.budget);
        Some(Figure { title, rows: vec![Row { title: String::new(), panels: vec![panel] }], panel: PANEL })
    }
}
