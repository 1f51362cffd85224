//! One model and its tasks, open, and the answers it makes.

use super::{Answered, Error, Job, Plan, Shared};
use crate::open::{self, OpenTask, ResolvedRun};
use crate::tune::{Answer, Part};
use cofill_engine::Engine;
use cofill_report::output::Existing;
use cofill_report::results::{Record, Results};
use cofill_report::tuned::Budget;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The answers of a candidate to one part.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) answers: Vec<Answer>,
    file: Option<Results>,
}

/// The task of each part, open with its judges.
pub(super) struct Tasks {
    /// One for both parts, or one for each.
    open: Vec<OpenTask>,
}

impl Tasks {
    pub(super) fn open(plan: &Plan) -> Result<Tasks, Error> {
        let [choose, confirm] = &plan.parts;
        let mut open = vec![OpenTask::open(&choose.spec)?];
        if OpenTask::key(&choose.spec) != OpenTask::key(&confirm.spec) {
            open.push(OpenTask::open(&confirm.spec)?);
        }
        Ok(Tasks { open })
    }

    fn of(&self, part: Part) -> &OpenTask {
        &self.open[(part as usize).min(self.open.len() - 1)]
    }
}

/// The model, loaded.
pub(super) fn engine(plan: &Plan, stop: Arc<AtomicBool>) -> Result<Engine, Error> {
    let spec = &plan.parts[0].spec;
    let checkpoint = Engine::checkpoint_at(&spec.place()).map_err(open::Error::from)?;
    let mut engine = Engine::of_checkpoint(checkpoint, &spec.run).map_err(open::Error::from)?;
    engine.stop_when(Some(stop));
    Ok(engine)
}

impl Shared<'_> {
    /// Answers what a job wants and nobody has answered yet.
    pub(super) fn answer(&self, engine: &mut Engine, tasks: &Tasks, job: &Job, kept: &mut Kept) -> Result<(), Error> {
        let Shared { plan, folder, begun, made_by, answered, .. } = self;
        let spec = plan.spec(job.candidate, job.part);
        let task = tasks.of(job.part);
        let about = engine.about().map_err(open::Error::from)?;
        let run = ResolvedRun::new(&spec, task, &about)?;
        let sampler = &plan.field.samplers[job.candidate];
        if let (Some(folder), None) = (folder, &kept.file) {
            let mut header = run.header(&plan.model_sha256, made_by);
            header.what.extend(plan.part(job.part).rows.clone().map(|rows| ("rows".to_owned(), rows)));
            let path = folder.answers(job.part, sampler);
            let (file, records) = match folder.is_new() {
                true => (Results::create(&path, &header, Existing::Replace)?, Vec::new()),
                false => Results::resume(&path, &header)?,
            };
            kept.answers = records.iter().map(Answer::from).collect();
            kept.file = Some(file);
        }
        let batch = match plan.budget {
            Budget::Forwards(_) => open::batch(engine, spec.questions.batch),
            // Seconds are those of an answer that is made by itself.
            Budget::Seconds(_) => spec.questions.batch.map_or(1, Into::into),
        };
        while kept.answers.len() < job.prompts {
            let n = kept.answers.len();
            let forwards: usize = kept.answers.iter().map(|answer| answer.nfe).sum();
            let is_over = n.is_multiple_of(batch) && job.most_forwards.is_some_and(|most| forwards as f64 > most);
            if is_over || job.until.is_some_and(|until| begun.elapsed() > until) {
                break;
            }
            let to = ((n / batch + 1) * batch).min(job.prompts);
            for record in open::ask_in_order(engine, task, &run, &plan.part(job.part).order, n..to)? {
                if let Some(file) = &mut kept.file {
                    file.append(&record)?;
                }
                kept.answers.push(Answer::from(&record));
                answered(Answered { sampler, part: job.part, record: &record });
            }
        }
        Ok(())
    }
}

impl From<&Record> for Answer {
    fn from(record: &Record) -> Answer {
        Answer { score: record.score, nfe: record.nfe, filled: record.filled, seconds: record.seconds }
    }
}

impl Plan {
    fn part(&self, part: Part) -> &super::plan::PartOfTask {
        &self.parts[part as usize]
    }
}
