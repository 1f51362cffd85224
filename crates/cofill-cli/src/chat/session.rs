//! One chat: its model, what was said, and what the next line does.

use super::commands::{self, Command, Said};
use super::settings;
use crate::fail::{Done, Fail, warning_line};
use crate::meter::{incomplete, meter};
use crate::output::{failed, refused};
use crate::progress::Progress;
use crate::show::{Show, count, lines};
use crate::signals::Interrupt;
use anstyle::AnsiColor;
use cofill::Trace;
use cofill_engine::{
    AskedTurn, Conversation, Engine, Error, Finish, Generation, Length, Question, RunOptions, RunSpec, Spelling,
    StepEvent,
};
use cofill_report::output::{self, Existing, Output};
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How many questions are offered at a time.
const OFFERED: usize = 3;

/// What stands for masks in an answer that was stopped.
const HOLE: &str = "…";

/// A chat.
pub(crate) struct Session {
    engine: Engine,
    run: RunSpec,
    conversation: Conversation,
    show: bool,
    interrupt: Interrupt,
    /// How the last answer came about.
    last: Option<Trace>,
    /// Where the next trace goes, if somebody asked before there was one.
    trace_to: Option<PathBuf>,
    /// The turns that the model no longer saw when it was asked last.
    left_out: usize,
    fresh: Box<dyn Iterator<Item = Question>>,
    /// The questions that numbers stand for.
    offers: Vec<Question>,
}

impl Session {
    /// A chat that has not begun.
    pub(crate) fn new(engine: Engine, run: RunSpec, show: bool) -> Session {
        let fresh = Box::new(Question::fresh(run.options.seed));
        Session {
            engine,
            run,
            conversation: Conversation::default(),
            show,
            interrupt: Interrupt::deaf(),
            last: None,
            trace_to: None,
            left_out: 0,
            fresh,
            offers: Vec::new(),
        }
    }

    /// Ctrl-C stops an answer from now on.
    pub(crate) fn listen(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// What a person should know before the first line.
    pub(crate) fn introduce(&mut self) {
        let RunSpec { model, sampler, .. } = &self.run;
        self.say(&format!("{model} with {sampler}. /help lists commands, Ctrl-D ends the chat."));
        if !self.engine.has_chat_template() {
            self.say("It has no chat template, so it sees each message alone.");
        }
        if self.engine.knows_mini_tasks() {
            self.offer();
        }
    }

    /// What a script's log should have.
    pub(crate) fn introduce_to_a_script(&self) {
        if !self.engine.has_chat_template() {
            let name = self.engine.name();
            warning_line(&format!("`{name}` has no chat template; it sees each message alone"));
        }
    }

    /// A line for the person, beside the answers.
    pub(crate) fn say(&self, text: &str) {
        let grey = AnsiColor::BrightBlack.on_default();
        let _ = writeln!(anstream::stderr(), "{grey}{}{grey:#}", lines(text)); // nobody is left to tell when stderr is gone
    }

    /// Does what a line says; `Break` is the end of the chat.
    pub(crate) fn take(&mut self, line: &str) -> Done<ControlFlow<()>> {
        match commands::parse(line)? {
            Said::Nothing => {}
            Said::Message(text) => match self.offered(text) {
                Some(question) => self.ask_shown(&question)?,
                None => self.answer(text)?,
            },
            Said::Command(Command::Quit) => return Ok(ControlFlow::Break(())),
            Said::Command(command) => self.obey(&command)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn obey(&mut self, command: &Command<'_>) -> Done<()> {
        match *command {
            Command::Help => self.say(&commands::help()),
            Command::Set { flag, value: None } => self.say(&format!("{flag} {}", settings::value(&self.run, flag))),
            Command::Set { flag, value: Some(value) } => {
                settings::set(&mut self.run, &mut self.engine, flag, value)?;
                self.say(&format!("{flag} {}", settings::value(&self.run, flag)));
            }
            Command::Show(None) => self.say(if self.show { "show on" } else { "show off" }),
            Command::Show(Some("on")) => self.show = true,
            Command::Show(Some("off")) => self.show = false,
            Command::Show(Some(other)) => {
                return Err(Fail::request(format!("/show is `on` or `off`, and `{other}` was given")));
            }
            Command::Trace(None) => return Err(Fail::request("/trace needs a file: /trace answer.jsonl")),
            Command::Trace(Some(path)) => self.trace(Path::new(path))?,
            Command::System(None) => match &self.conversation.system {
                Some(text) => self.say(text),
                None => self.say("no system message; /system TEXT gives one"),
            },
            Command::System(Some("off")) => self.conversation.system = None,
            Command::System(Some(text)) => self.set_system(text).map_err(|fail| fail.about("/system"))?,
            Command::Undo => match self.conversation.undo() {
                Some(turn) => self.say(&format!("forgot `{}`", brief(&turn.question))),
                None => return Err(Fail::request("/undo: there is no turn to take back")),
            },
            Command::Again => {
                let turn = self.conversation.undo();
                let Some(turn) = turn else { return Err(Fail::request("/again: nothing was asked yet")) };
                let done = self.answer(&turn.question);
                if done.is_err() {
                    self.conversation.push(turn.question, turn.answer); // as it was
                }
                return done;
            }
            Command::Reset => {
                let turns = count(self.conversation.turns().len(), "turn");
                self.conversation.reset();
                self.left_out = 0;
                self.say(&format!("forgot {turns}"));
            }
            Command::Try(task) => {
                let question = self.next_question(task)?;
                self.ask_shown(&question)?;
            }
            Command::Questions => {
                self.must_know_mini_tasks("questions")?;
                self.offer();
            }
            Command::Quit => {}
        }
        Ok(())
    }

    /// Gives the model a system message, if its chat template can hold one.
    pub(crate) fn set_system(&mut self, text: &str) -> Done<()> {
        if !self.engine.has_chat_template() {
            let name = self.engine.name();
            return Err(Fail::request(format!("`{name}` has no chat template and would never see it; leave it out")));
        }
        self.conversation.system = Some(text.into());
        Ok(())
    }

    fn must_know_mini_tasks(&self, command: &str) -> Done<()> {
        if self.engine.knows_mini_tasks() {
            return Ok(());
        }
        let name = self.engine.name();
        Err(Fail::request(format!(
            "/{command} is for models that were trained on the mini tasks, and `{name}` was not"
        )))
    }

    fn next_question(&mut self, task: Option<&str>) -> Done<Question> {
        self.must_know_mini_tasks("try")?;
        let task = task.map(str::parse).transpose();
        let task = task.map_err(|error: cofill_tasks::mini::Error| Fail::Request(error.into()).about("/try"))?;
        let found = self.fresh.find(|question| task.is_none_or(|task| question.task == task));
        found.ok_or_else(|| Fail::request("/try: there are no more questions"))
    }

    /// Lists questions, which numbers stand for from now on.
    fn offer(&mut self) {
        self.offers = self.fresh.by_ref().take(OFFERED).collect();
        let mut text = String::from("Questions that it can answer; type a number:");
        for (number, question) in (1..).zip(&self.offers) {
            text += &format!("\n  {number}  {}", question.prompt.trim_end().replace('\n', "\n     "));
        }
        self.say(&text);
    }

    /// The question that a number stands for.
    fn offered(&self, text: &str) -> Option<Question> {
        let number: usize = text.parse().ok()?;
        self.offers.get(number.checked_sub(1)?).cloned()
    }

    /// Asks a question that the user did not type.
    fn ask_shown(&mut self, question: &Question) -> Done<()> {
        let text = question.prompt.trim_end();
        self.say(text);
        self.answer(text)
    }

    /// The options of the next answer. A model that was trained to chat ends its answers by itself, so these are as long as they need to be.
    fn options(&self) -> RunOptions {
        let mut options = self.run.options.clone();
        if options.length.is_none() && self.engine.has_chat_template() && options.constraints().is_empty() {
            options.length = Some(Length::Auto);
        }
        options
    }

    /// Asks, answers, and keeps the turn.
    fn answer(&mut self, question: &str) -> Done<()> {
        let options = self.options();
        let asked = self.conversation.ask(&mut self.engine, question, &self.run.sampler, &options);
        let AskedTurn { prepared, left_out } = asked.map_err(|error| match error {
            Error::TooLong { .. } => Fail::request(format!("{error}, or lower /length")),
            error => error.into(),
        })?;
        self.tell_left_out(left_out);
        prepared.warnings.iter().for_each(|warning| warning_line(warning));
        if prepared.question.is_none() && self.engine.knows_mini_tasks() {
            let name = self.engine.name();
            warning_line(&format!(
                "`{name}` knows only the mini tasks, and this is none of their prompts; /try asks one"
            ));
        }
        let start = prepared.start.clone();
        let mut header = self.engine.trace_header(&start, &self.run.sampler, &options);
        header.probes = prepared.probes();
        let spelling = Spelling::of(&self.run.model);
        let mut show = self.show.then(|| Show::new(&start, &header.pieces, spelling, header.probes));
        let progress = (!self.show).then(|| Progress::filling(start.n_masked()));
        let mut masks = start.n_masked();
        let mut watch = |event: &StepEvent<'_>| {
            // A picture that cannot be drawn (stderr is gone) must not cost the answer.
            if let Some(drawn) = &mut show
                && drawn.step(event.step, &event.step.pieces).is_err()
            {
                show = None;
            }
            if let Some(progress) = &progress {
                masks += event.step.appended;
                progress.step(masks - event.canvas.n_masked(), masks, event.nfe);
            }
            ControlFlow::Continue(())
        };
        let engine = &mut self.engine;
        let generation = self.interrupt.during(|stop| engine.generate_until(prepared, stop, &mut watch));
        drop(progress);
        let generation = generation?;
        let answer = match generation.finish {
            Finish::Cancelled => self.engine.read_unfinished(&generation.whole_start(), &generation.canvas, HOLE)?,
            _ => generation.reply().to_owned(),
        };
        self.report(&generation, &answer, &options)?;
        if generation.finish != Finish::Cancelled || generation.filled() > 0 {
            self.conversation.push(question, answer);
        }
        let trace = self.last.insert(generation.trace(header));
        match self.trace_to.take() {
            Some(path) => write_trace(&path, trace),
            None => Ok(()),
        }
    }

    /// The answer on stdout, what there is to say about it on stderr.
    fn report(&self, generation: &Generation, answer: &str, options: &RunOptions) -> Done<()> {
        let mut out = std::io::stdout().lock();
        let is_stopped = generation.finish == Finish::Cancelled;
        if is_stopped {
            self.say(""); // behind the ^C that terminals write
        }
        if !is_stopped || !answer.is_empty() {
            // A file or a program gets the text as it is; a terminal, only what it shows.
            let answer = if out.is_terminal() { lines(answer) } else { answer.to_owned() };
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
        self.say(&meter(&self.run.sampler, generation));
        if is_stopped {
            let masks = generation.filled() + generation.canvas.n_masked();
            match generation.filled() {
                0 => self.say("stopped before anything was filled; the question is not kept"),
                filled => self.say(&format!(
                    "stopped: {filled} of {} filled, {HOLE} where not; the turn is kept, /undo forgets it",
                    count(masks, "position")
                )),
            }
            return Ok(());
        }
        if let Some(judged) = &generation.judged {
            self.say(&judged.line());
        }
        if let Some(warning) = incomplete(generation, options, "/") {
            warning_line(&warning);
        }
        Ok(())
    }

    /// Says which turns the model does not see any more, when that changes.
    fn tell_left_out(&mut self, left_out: usize) {
        let before = std::mem::replace(&mut self.left_out, left_out);
        if left_out <= before {
            return;
        }
        let (name, context) = (self.engine.name(), self.engine.context());
        let turns: Vec<String> = self.conversation.turns()[before..left_out]
            .iter()
            .map(|turn| format!("`{}`", brief(&turn.question)))
            .collect();
        warning_line(&format!(
            "the conversation no longer fits the {context} positions of `{name}`, which does not see {} any more: {}; /reset begins anew",
            if turns.len() == 1 { "its oldest turn" } else { "its oldest turns" },
            turns.join(", ")
        ));
    }

    /// Writes the trace of the last answer, or of the next one if there is none.
    fn trace(&mut self, path: &Path) -> Done<()> {
        output::check(path, Existing::Refuse).map_err(exists)?;
        match &self.last {
            Some(trace) => write_trace(path, trace)?,
            None => {
                self.trace_to = Some(path.into());
                self.say(&format!("nothing was answered yet; the next answer's trace goes to {}", path.display()));
                return Ok(());
            }
        }
        self.say(&format!("wrote {}", path.display()));
        Ok(())
    }
}

/// What exists is left alone; there is no `--force` in a chat.
fn exists(error: output::Error) -> Fail {
    match error {
        output::Error::Exists { path } => {
            Fail::request(format!("/trace: `{}` exists; give another name", path.display()))
        }
        error => refused("/trace")(error),
    }
}

fn write_trace(path: &Path, trace: &Trace) -> Done<()> {
    let mut file = Output::whole(path, Existing::Refuse).map_err(exists)?;
    let written = trace.write(&mut file).map_err(|error| file.failed(error));
    written.and_then(|()| file.publish()).map_err(failed("/trace"))
}

/// The beginning of a text, in one line.
fn brief(text: &str) -> String {
    const MOST: usize = 40;
    let line = lines(text).replace('\n', " ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
