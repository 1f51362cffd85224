//! One thread that computes. It owns the models and everything on its way; everybody else sends it requests and reads outboxes.
//!
//! A round: take what came, drop who left, admit while there is room, choose who moves, one forward, tell, collect. Decodes share forwards and
//! nothing else, so a result does not depend on who else is served.

use crate::error::ApiError;
use crate::job::Job;
use crate::limits::{Limits, Permit};
use crate::metrics::{Metrics, Round};
use crate::outbox::{Accepted, Ended, Outbox};
use crate::stream::Window;
use crate::top::Tops;
use cofill_engine::{Engine, Filling, Generation, Prepared, Reader};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// How much is under way at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// The most decodes that take part in rounds, of every model.
    pub live: usize,
    /// The most positions of their canvases together; one decode always fits.
    pub positions: usize,
    /// The most positions of one round; one decode always fits.
    pub round_positions: usize,
    /// In the order they came, each as fast as possible, instead of all at once.
    pub fifo: bool,
    /// How long a request may wait for its first forward.
    pub queue_timeout: Duration,
}

/// What the thread is told.
enum Command {
    Submit(Box<Submit>),
    /// Something short that needs an engine.
    Call(Call),
    /// End everything now, with this error.
    Abort(ApiError),
}

/// What is called between two rounds.
type Call = Box<dyn FnOnce(&mut [Engine]) + Send>;

/// A decode that is asked for.
pub(crate) struct Submit {
    /// What to do.
    pub job: Job,
    /// Where to say what came of it.
    pub outbox: Arc<Outbox>,
    /// Its room.
    pub permit: Permit,
    /// When it was asked for.
    pub received: Instant,
}

/// The thread, from outside.
pub(crate) struct Scheduler {
    commands: SyncSender<Command>,
}

/// Commands that may wait. Requests are limited before; this is what the channel has to hold at most, and some more for calls.
const COMMANDS: usize = 4096;

impl Scheduler {
    /// Starts the thread with its models.
    pub(crate) fn start(
        engines: Vec<(String, Engine)>,
        policy: Policy,
        limits: Arc<Limits>,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Scheduler> {
        let (commands, inbox) = sync_channel(COMMANDS);
        let (names, engines): (Vec<String>, Vec<Engine>) = engines.into_iter().unzip();
        let lanes = names.into_iter().zip(&engines).map(|(name, engine)| Lane::new(name, engine)).collect();
        let thread = Thread { inbox, engines, lanes, queue: VecDeque::new(), policy, limits, metrics, rate: 0.0 };
        // It ends when nobody can send to it any more and everything is done.
        std::thread::Builder::new().name("compute".into()).spawn(move || thread.run())?;
        Ok(Scheduler { commands })
    }

    /// Hands over a decode.
    pub(crate) fn submit(&self, submit: Submit) -> Result<(), ApiError> {
        self.send(Command::Submit(Box::new(submit)))
    }

    /// Runs something short on the thread, between two rounds.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        model: usize,
        f: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let call = move |engines: &mut [Engine]| {
            if let Some(engine) = engines.get_mut(model) {
                let _ = answer.send(f(engine)); // whoever asked may have gone
            }
        };
        self.send(Command::Call(Box::new(call)))?;
        answered.await.map_err(|_| ApiError::decode_failed("the model failed at this request"))
    }

    /// Ends everything that is under way with an error.
    pub(crate) fn abort(&self, error: ApiError) {
        let _ = self.send(Command::Abort(error)); // it is gone already if that fails
    }

    fn send(&self, command: Command) -> Result<(), ApiError> {
        self.commands
            .try_send(command)
            .map_err(|_| ApiError::busy("queue_full", "too much waits already; come again", 1))
    }
}

/// One served model.
struct Lane {
    name: String,
    reader: Reader,
    filling: Filling,
    live: Vec<Live>,
}

impl Lane {
    fn new(name: String, engine: &Engine) -> Lane {
        Lane { name, reader: engine.reader(), filling: Filling::default(), live: Vec::new() }
    }
}

/// A decode that waits for room.
struct Waiting {
    prepared: Prepared,
    model: usize,
    window: Window,
    outbox: Arc<Outbox>,
    permit: Permit,
    received: Instant,
    timeout: Option<Duration>,
    ends_early: bool,
    forbids: bool, // tokens that may not be proposed were named
    tops: Option<Arc<Tops>>,
}

/// A decode that takes part in rounds.
struct Live {
    index: usize,
    window: Window,
    outbox: Arc<Outbox>,
    received: Instant,
    deadline: Option<Instant>,
    ends_early: bool,
    forbids: bool, // tokens that may not be proposed were named
    tops: Option<Arc<Tops>>,
    queued: f64,
    settled: bool,
    length: usize,
    masks: usize,  // at the start
    masked: usize, // now
    steps: usize,
    passed: usize, // rounds without it
    _permit: Permit,
}

impl Live {
    /// Positions that are still to be computed: masks left by what a step has filled so far, a canvas each.
    fn remaining(&self) -> f64 {
        let filled = (self.masks - self.masked.min(self.masks)) as f64;
        let per_step = if self.steps == 0 { 2.0 } else { (filled / self.steps as f64).max(0.25) };
        self.length as f64 * (self.masked as f64 / per_step).max(1.0)
    }
}

/// A decode that is over, and what came of it.
type Done = (Live, cofill_engine::Result<Generation>);

struct Thread {
    inbox: Receiver<Command>,
    engines: Vec<Engine>,
    lanes: Vec<Lane>,
    queue: VecDeque<Waiting>,
    policy: Policy,
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
    rate: f64, // positions x forwards in a second
}

impl Thread {
    fn run(mut self) {
        while self.take_commands() {
            self.drop_gone();
            self.admit();
            let done: Vec<Done> = (0..self.lanes.len()).flat_map(|model| self.round(model)).collect();
            // Before anybody hears of an end, so that whoever asks afterwards finds it counted.
            self.publish();
            done.into_iter().for_each(|(live, end)| tell(&live, end, false));
        }
    }

    /// Takes what came; waits if there is nothing to do. False when nobody can send any more and nothing is left.
    fn take_commands(&mut self) -> bool {
        let idle = self.queue.is_empty() && self.lanes.iter().all(|lane| lane.live.is_empty());
        if idle {
            match self.inbox.recv() {
                Ok(command) => self.obey(command),
                Err(_) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => {
                    return !self.queue.is_empty() || self.lanes.iter().any(|lane| !lane.live.is_empty());
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submit) => self.enqueue(*submit),
            // What it answered with is dropped, and with it whoever waits hears of the failure.
            Command::Call(call) => drop(catch_unwind(AssertUnwindSafe(|| call(&mut self.engines)))),
            Command::Abort(error) => {
                self.queue.drain(..).for_each(|waiting| waiting.outbox.end(Err(error.clone())));
                for (lane, engine) in self.lanes.iter_mut().zip(&self.engines) {
                    for live in lane.live.drain(..) {
                        lane.filling.cancel(engine, live.index);
                        live.outbox.end(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Draws the canvas of a request, says whether that worked, and lets it wait.
    fn enqueue(&mut self, submit: Submit) {
        let Submit { job, outbox, permit, received } = submit;
        if outbox.is_gone() {
            return self.metrics.cancelled("disconnect");
        }
        let engine = &mut self.engines[job.model];
        let lane = &self.lanes[job.model];
        let drawn = catch_unwind(AssertUnwindSafe(|| {
            let prepared = job.prepare(engine)?;
            let mut header = engine.trace_header(&prepared.start, &job.sampler, &job.options);
            header.probes = prepared.probes();
            let window = job.window(engine, &prepared);
            Ok((prepared, header, window))
        }));
        let drawn = drawn.unwrap_or_else(|_| Err(ApiError::decode_failed("reading the request failed")));
        match drawn {
            Err(error) => outbox.accept(Err(error)),
            Ok((mut prepared, mut header, window)) => {
                header.model.clone_from(&lane.name);
                let warnings = std::mem::take(&mut prepared.warnings);
                let start = prepared.start.clone();
                outbox.accept(Ok(Accepted {
                    start,
                    header: Arc::new(header),
                    warnings,
                    window: window.clone(),
                    tops: job.tops.clone(),
                }));
                let forbids = !job.options.suppress.is_empty();
                let Job { model, timeout, ends_early, tops, .. } = job;
                self.queue.push_back(Waiting {
                    prepared,
                    model,
                    window,
                    outbox,
                    permit,
                    received,
                    timeout,
                    ends_early,
                    forbids,
                    tops,
                });
            }
        }
    }

    /// Forgets those whom nobody waits for any more, and those who took too long.
    fn drop_gone(&mut self) {
        let now = Instant::now();
        let (metrics, most) = (&self.metrics, self.policy.queue_timeout);
        self.queue.retain(|waiting| {
            let waited = now.duration_since(waiting.received);
            if waiting.outbox.is_gone() {
                metrics.cancelled("disconnect");
                return false;
            }
            if waited > most.min(waiting.timeout.unwrap_or(most)) {
                metrics.rejected("queue_timeout");
                let said = format!("the request waited for {:.1} s; come again", waited.as_secs_f64());
                waiting.outbox.end(Err(ApiError::unavailable("queue_timeout", said, 5)));
                return false;
            }
            true
        });
        for (lane, engine) in self.lanes.iter_mut().zip(&self.engines) {
            let Lane { filling, live, name, .. } = lane;
            live.retain(|it| {
                let late = it.deadline.is_some_and(|deadline| now > deadline);
                let reason = match () {
                    () if it.outbox.is_gone() => "disconnect",
                    () if late => "timeout",
                    () => return true,
                };
                metrics.cancelled(reason);
                let end = filling.cancel(engine, it.index);
                if let (true, Some(end)) = (late, end) {
                    tell(it, end, true);
                    metrics.ended(name, now.duration_since(it.received).as_secs_f64());
                }
                false
            });
        }
    }

    /// Lets those in who wait, in their order, while there is room.
    fn admit(&mut self) {
        loop {
            let live: usize = self.lanes.iter().map(|lane| lane.live.len()).sum();
            let positions: usize = self.lanes.iter().flat_map(|lane| &lane.live).map(|it| it.length).sum();
            let Some(next) = self.queue.front() else { return };
            let length = next.prepared.start.tokens().len();
            let fits = live < self.policy.live && positions + length <= self.policy.positions;
            if !(fits || live == 0) {
                return;
            }
            let Some(next) = self.queue.pop_front() else { return };
            let Waiting { prepared, model, window, outbox, permit, received, timeout, ends_early, forbids, tops } =
                next;
            let lane = &mut self.lanes[model];
            let masks = prepared.start.n_masked();
            let queued = received.elapsed().as_secs_f64();
            self.metrics.queued(&lane.name, queued);
            let index = lane.filling.add(prepared);
            lane.live.push(Live {
                index,
                window,
                outbox,
                received,
                deadline: timeout.map(|timeout| received + timeout),
                ends_early,
                forbids,
                tops,
                queued,
                settled: false,
                length,
                masks,
                masked: masks,
                steps: 0,
                passed: 0,
                _permit: permit,
            });
        }
    }

    /// Who moves in this round: the shortest first, but whoever was passed over k times moves up k places.
    fn choose(&mut self, model: usize) -> Vec<usize> {
        let (fifo, most) = (self.policy.fifo, self.policy.round_positions);
        let live = &mut self.lanes[model].live;
        let mut order: Vec<usize> = (0..live.len()).collect();
        if !fifo {
            order.sort_by(|&a, &b| live[a].remaining().total_cmp(&live[b].remaining()).then(a.cmp(&b)));
            let mut places: Vec<(i64, usize)> =
                (0..).zip(&order).map(|(place, &at)| (place - live[at].passed as i64, at)).collect();
            places.sort_by_key(|&(place, _)| place);
            order = places.into_iter().map(|(_, at)| at).collect();
        }
        let (mut chosen, mut positions, mut full) = (Vec::new(), 0, false);
        for at in order {
            full |= positions > 0 && positions + live[at].length > most;
            if full {
                live[at].passed += 1;
                continue;
            }
            positions += live[at].length;
            live[at].passed = 0;
            chosen.push(live[at].index);
        }
        chosen
    }

    /// One forward of a model, if anybody waits for one. Gives those who are done.
    fn round(&mut self, model: usize) -> Vec<Done> {
        if self.lanes[model].live.is_empty() {
            return Vec::new();
        }
        let chosen = self.choose(model);
        let (lane, engine) = (&mut self.lanes[model], &mut self.engines[model]);
        let Lane { name, reader, filling, live } = lane;
        let of_chosen = live.iter().filter(|it| chosen.contains(&it.index));
        let mut round =
            Round { sequences: chosen.len(), positions: of_chosen.map(|it| it.length).sum(), ..Round::default() };
        let begun = Instant::now();
        self.metrics.round_begins();
        filling.round_of(engine, &chosen, &mut |event| {
            let Some(it) = live.iter_mut().find(|it| it.index == event.index) else { return ControlFlow::Break(()) };
            (it.masked, it.length) = (event.canvas.n_masked(), event.canvas.tokens().len());
            it.steps += 1;
            round.steps += 1;
            round.committed += event.step.commits.len();
            round.deferred += usize::from(event.step.deferred.is_some());
            round.forced += usize::from(event.step.forced);
            it.outbox.step(event.step, event.canvas, event.nfe, it.tops.as_deref());
            let tokens = event.canvas.tokens();
            if !it.settled && it.window.free.first().is_some_and(|&first| tokens.get(first) != Some(&it.window.mask_id))
            {
                it.settled = true;
                self.metrics.first_settled(name, it.received.elapsed().as_secs_f64());
            }
            match it.ends_early && it.window.is_settled(reader, tokens) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        round.seconds = begun.elapsed().as_secs_f64();
        self.metrics.round_ends(name, &round);
        let rate = round.positions as f64 / round.seconds.max(1e-6);
        self.rate = if self.rate == 0.0 { rate } else { 0.9 * self.rate + 0.1 * rate };
        let mut done = Vec::new();
        for (index, end) in filling.take_done(engine) {
            if let Some(at) = live.iter().position(|it| it.index == index) {
                let it = live.remove(at);
                self.metrics.ended(name, it.received.elapsed().as_secs_f64());
                done.push((it, end));
            }
        }
        done
    }

    /// What others may know.
    fn publish(&mut self) {
        let waiting = |model: usize| self.queue.iter().filter(|it| it.model == model).count();
        for (model, lane) in self.lanes.iter().enumerate() {
            self.metrics.under_way(&lane.name, lane.live.len(), waiting(model));
        }
        let live: f64 = self.lanes.iter().flat_map(|lane| &lane.live).map(Live::remaining).sum();
        let queued = |it: &Waiting| (it.prepared.start.tokens().len() * it.prepared.start.n_masked()) as f64 / 2.0;
        let backlog = live + self.queue.iter().map(queued).sum::<f64>();
        self.limits.backlog.store(backlog as u64, Ordering::Relaxed);
        self.limits.rate.store(self.rate as u64, Ordering::Relaxed);
    }
}

/// Says what came of a decode.
fn tell(live: &Live, end: cofill_engine::Result<Generation>, timed_out: bool) {
    let ended = |generation| Ended { generation, timed_out, queued: live.queued };
    let failed = |error: cofill_engine::Error| match error {
        // Every token was forbidden: by the request, for a model proposes something.
        cofill_engine::Error::Decode(cofill::Error::NothingToPropose { .. }) if live.forbids => {
            ApiError::field("logit_bias", format!("{error}; `logit_bias` forbids too much, allow something"))
        }
        error => ApiError::decode_failed(error.to_string()),
    };
    live.outbox.end(end.map(ended).map_err(failed));
}
