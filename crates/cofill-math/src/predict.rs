//! Which alternative to take: the prediction of ALL(*), the algorithm inside ANTLR 4 (Parr, Harwell and Fisher, 2014).
//!
//! Every alternative is followed at once through the network, token by token, until one is left or the rest cannot be told
//! apart (then the first wins). First without the parser's own stack, any caller being possible; when that conflicts, again
//! with it. With the stack known, an alternative that has come to the end of the whole formula stays alive while others read
//! on, unless they come to an end later. That is why the longest sensible prefix of an answer counts and the rest is dropped,
//! and why sometimes it is an error instead; both must come out as in sympy, so this follows ANTLR's runtime step by step.

use super::grammar::{Edge, NETWORK, Network, StateId};
use super::lexer::{Kind, Tokens};
use super::stacks::{BOTTOM, Merge, Stack, Stacks};
use super::{Stop, Work};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// A place in the network that an alternative has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    state: StateId,
    alt: u8,
    stack: Stack,
    /// The precedence predicate still to hold.
    guard: Option<u8>,
    /// Returned to a caller that is not known: the precedence filter leaves it alone.
    unfiltered: bool,
}

/// Configurations, at most one per (state, alternative, guard): their stacks are merged.
struct Configs {
    list: Vec<(Config, bool)>, // and whether it left the rule of the decision
    index: HashMap<(StateId, u8, Option<u8>), usize>,
    merge: Merge,
    /// Whether any way, even one that added nothing, left the rule of the decision.
    left_rule: bool,
}

impl Configs {
    fn new(merge: Merge) -> Self {
        Configs { list: Vec::new(), index: HashMap::new(), merge, left_rule: false }
    }

    fn add(&mut self, config: Config, left_rule: bool, stacks: &mut Stacks) {
        self.left_rule |= left_rule;
        match self.index.get(&(config.state, config.alt, config.guard)) {
            Some(&at) => {
                let (known, known_left) = &mut self.list[at];
                known.stack = stacks.merge(known.stack, config.stack, self.merge);
                known.unfiltered |= config.unfiltered;
                *known_left |= left_rule;
            }
            None => {
                self.index.insert((config.state, config.alt, config.guard), self.list.len());
                self.list.push((config, left_rule));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Config> {
        self.list.iter().map(|(config, _)| config)
    }

    /// The alternative, when there is but one.
    fn unique(&self) -> Option<u8> {
        let alt = self.iter().next()?.alt;
        self.iter().all(|c| c.alt == alt).then_some(alt)
    }

    /// For each place with its stacks, the alternatives that are there.
    fn conflicts(&self) -> Vec<BTreeSet<u8>> {
        let mut places: HashMap<(StateId, Stack), BTreeSet<u8>> = HashMap::new();
        for c in self.iter() {
            places.entry((c.state, c.stack)).or_default().insert(c.alt);
        }
        places.into_values().collect()
    }

    fn at_rule_end(&self) -> impl Iterator<Item = bool> {
        self.iter().map(|c| NETWORK.state(c.state).ends_rule)
    }

    /// Whether looking further without the parser's stack is pointless.
    fn conflicts_for_good(&self) -> bool {
        if self.at_rule_end().all(|end| end) {
            return true;
        }
        let mut states: HashMap<StateId, BTreeSet<u8>> = HashMap::new();
        for c in self.iter() {
            states.entry(c.state).or_default().insert(c.alt);
        }
        self.conflicts().iter().any(|alts| alts.len() > 1) && states.values().all(|alts| alts.len() > 1)
    }

    /// The first alternative that could have ended its rule here, for when nothing goes on.
    fn finished(&self, precedence: u8, stacks: &Stacks) -> Option<u8> {
        let done = |valid: bool| {
            self.list
                .iter()
                .filter(|(c, _)| c.guard.is_none_or(|guard| guard >= precedence) == valid)
                .filter(|(c, left)| *left || (NETWORK.state(c.state).ends_rule && stacks.has_empty(c.stack)))
                .map(|(c, _)| c.alt)
                .min()
        };
        done(true).or_else(|| done(false))
    }
}

/// A decision to be made: where, at which precedence the rule was called, and who called.
pub(super) struct Decision<'s> {
    pub(super) state: StateId,
    pub(super) precedence: u8,
    /// The states to return to, outermost first.
    pub(super) callers: &'s [StateId],
    /// The first token not yet consumed.
    pub(super) at: usize,
}

/// What has been worked out about one decision without the parser's stack, kept for the next time.
///
/// More than a cache: two sets that differ only in who left the decision's rule count as one, the first that was met, and
/// that decides what `123.` is (1 times 2). ANTLR keeps these for the life of the process, so that there an answer may depend
/// on the answers before it; here they live as long as one parse.
#[derive(Default)]
struct DecisionMemory {
    sets: Vec<Rc<Analysed>>,
    ids: HashMap<(Vec<Config>, bool), usize>,
    starts: HashMap<u8, usize>,
    after: HashMap<(usize, Kind), Option<usize>>,
}

/// A set, and what follows from it: a long number asks for the same sets again and again.
struct Analysed {
    configs: Configs,
    unique: Option<u8>,
    conflicts_for_good: bool,
}

impl DecisionMemory {
    fn add(&mut self, configs: Configs) -> usize {
        let key = (configs.iter().copied().collect(), configs.left_rule);
        *self.ids.entry(key).or_insert_with(|| {
            let (unique, conflicts_for_good) = (configs.unique(), configs.conflicts_for_good());
            self.sets.push(Rc::new(Analysed { configs, unique, conflicts_for_good }));
            self.sets.len() - 1
        })
    }
}

/// Predicts alternatives, and keeps what one parse has found out.
pub(super) struct Predictor {
    stacks: Stacks,
    known: HashMap<StateId, DecisionMemory>,
}

/// What `closure` carries along.
struct Walk<'w> {
    decision: &'w Decision<'w>,
    merge: Merge,
    busy: HashSet<Config>,
    into: Configs,
}

impl Predictor {
    pub(super) fn new() -> Self {
        Predictor { stacks: Stacks::new(), known: HashMap::new() }
    }

    /// The alternative to take, from 0.
    pub(super) fn predict(
        &mut self,
        decision: &Decision<'_>,
        tokens: &mut Tokens<'_>,
        work: &mut Work,
    ) -> Result<usize, Stop> {
        let (mut id, mut seen) = self.start_without_callers(decision, work)?;
        let mut at = decision.at;
        loop {
            let kind = tokens.get(at)?.kind;
            let Some((reached_id, reached)) = self.reach_without_callers(decision, id, &seen, kind, work)? else {
                return alternative(seen.configs.finished(decision.precedence, &self.stacks));
            };
            if let Some(alt) = reached.unique {
                return match viable(&reached.configs, &[alt].into(), decision.precedence) {
                    None => Ok(usize::from(alt)),
                    Some(alts) => alternative(alts.first().copied()),
                };
            }
            if reached.conflicts_for_good {
                let alts = reached.configs.conflicts().into_iter().flatten().collect();
                if let Some(left) = viable(&reached.configs, &alts, decision.precedence)
                    && left.len() == 1
                {
                    return alternative(left.first().copied());
                }
                return self.predict_with_callers(decision, tokens, work);
            }
            (id, seen) = (reached_id, reached);
            if kind != Kind::End {
                at += 1;
            }
        }
    }

    fn start_without_callers(
        &mut self,
        decision: &Decision<'_>,
        work: &mut Work,
    ) -> Result<(usize, Rc<Analysed>), Stop> {
        let operator_loop = NETWORK.state(decision.state).operator_loop.is_some();
        // Only an operator loop asks how tightly its rule was called before the first token.
        let precedence = if operator_loop { decision.precedence } else { 0 };
        if let Some(known) = self.known.get(&decision.state)
            && let Some(&id) = known.starts.get(&precedence)
        {
            return Ok((id, Rc::clone(&known.sets[id])));
        }
        let mut configs = self.start(decision, Stacks::EMPTY, Merge::Wildcard, work)?;
        if operator_loop {
            configs = self.filter_by_precedence(&configs, decision.precedence);
        }
        let known = self.known.entry(decision.state).or_default();
        let id = known.add(configs);
        known.starts.insert(precedence, id);
        Ok((id, Rc::clone(&known.sets[id])))
    }

    fn reach_without_callers(
        &mut self,
        decision: &Decision<'_>,
        id: usize,
        from: &Analysed,
        kind: Kind,
        work: &mut Work,
    ) -> Result<Option<(usize, Rc<Analysed>)>, Stop> {
        work.spend(1)?;
        let seen = self.known.get(&decision.state).and_then(|known| known.after.get(&(id, kind)).copied());
        let reached = match seen {
            Some(reached) => reached,
            None => {
                let reached = self.reach(decision, &from.configs, kind, Merge::Wildcard, work)?;
                let known = self.known.entry(decision.state).or_default();
                let reached = reached.map(|configs| known.add(configs));
                known.after.insert((id, kind), reached);
                reached
            }
        };
        let known = self.known.entry(decision.state).or_default();
        Ok(reached.map(|id| (id, Rc::clone(&known.sets[id]))))
    }

    fn predict_with_callers(
        &mut self,
        decision: &Decision<'_>,
        tokens: &mut Tokens<'_>,
        work: &mut Work,
    ) -> Result<usize, Stop> {
        let stack = decision.callers.iter().fold(Stacks::EMPTY, |stack, &back| self.stacks.push(stack, back));
        let mut configs = self.start(decision, stack, Merge::Exact, work)?;
        let mut at = decision.at;
        loop {
            let kind = tokens.get(at)?.kind;
            let Some(reached) = self.reach(decision, &configs, kind, Merge::Exact, work)? else {
                return alternative(configs.finished(decision.precedence, &self.stacks));
            };
            if let Some(alt) = reached.unique() {
                return Ok(usize::from(alt));
            }
            // Where several alternatives are at the same place for good, the first of them wins; is that one everywhere?
            let firsts: BTreeSet<u8> = reached.conflicts().iter().filter_map(|alts| alts.first().copied()).collect();
            if firsts.len() == 1 {
                return alternative(firsts.first().copied());
            }
            configs = reached;
            if kind != Kind::End {
                at += 1;
            }
        }
    }

    fn start(&mut self, decision: &Decision<'_>, stack: Stack, merge: Merge, work: &mut Work) -> Result<Configs, Stop> {
        let mut walk = Walk { decision, merge, busy: HashSet::new(), into: Configs::new(merge) };
        for (alt, edge) in NETWORK.state(decision.state).edges.iter().enumerate() {
            let Edge::Free(state) = *edge else { continue };
            walk.busy.clear();
            let config = Config { state, alt: alt as u8, stack, guard: None, unfiltered: false };
            self.closure(&mut walk, config, false, Some(0), 0, work)?;
        }
        Ok(walk.into)
    }

    /// In an operator loop, "stop here and let the caller go on with this operator" is the same as going on here: drop it.
    fn filter_by_precedence(&mut self, configs: &Configs, precedence: u8) -> Configs {
        let mut kept = Configs::new(configs.merge);
        let mut going_on: HashMap<StateId, Stack> = HashMap::new();
        for &(c, left) in configs.list.iter().filter(|(c, _)| c.alt == 0) {
            if c.guard.is_none_or(|guard| guard >= precedence) {
                going_on.insert(c.state, c.stack);
                kept.add(Config { guard: None, ..c }, left, &mut self.stacks);
            }
        }
        for &(c, left) in configs.list.iter().filter(|(c, _)| c.alt != 0) {
            if c.unfiltered || going_on.get(&c.state) != Some(&c.stack) {
                kept.add(c, left, &mut self.stacks);
            }
        }
        kept
    }

    /// Where a token leads; `None` when nowhere.
    fn reach(
        &mut self,
        decision: &Decision<'_>,
        from: &Configs,
        kind: Kind,
        merge: Merge,
        work: &mut Work,
    ) -> Result<Option<Configs>, Stop> {
        let mut moved = Configs::new(merge);
        let mut ended = Vec::new();
        for &(c, left) in &from.list {
            let state = NETWORK.state(c.state);
            if state.ends_rule {
                if merge == Merge::Exact || kind == Kind::End {
                    ended.push((c, left));
                }
                continue;
            }
            for edge in &state.edges {
                if let Edge::Token(kinds, to) = edge
                    && kinds.contains(&kind)
                {
                    moved.add(Config { state: *to, ..c }, left, &mut self.stacks);
                }
            }
        }
        let decided = ended.is_empty() && kind != Kind::End && moved.unique().is_some();
        let mut reached = if decided {
            moved
        } else {
            let mut walk = Walk { decision, merge, busy: HashSet::new(), into: Configs::new(merge) };
            for &(c, left) in &moved.list {
                self.closure(&mut walk, c, left, None, 0, work)?;
            }
            walk.into
        };
        if kind == Kind::End && !reached.at_rule_end().all(|end| end) {
            let mut only_ended = Configs::new(merge);
            for &(c, left) in reached.list.iter().filter(|(c, _)| NETWORK.state(c.state).ends_rule) {
                only_ended.add(c, left, &mut self.stacks);
            }
            reached = only_ended;
        }
        if merge == Merge::Wildcard || !reached.at_rule_end().any(|end| end) {
            for (c, left) in ended {
                reached.add(c, left, &mut self.stacks);
            }
        }
        Ok((!reached.list.is_empty()).then_some(reached))
    }

    /// Everything `config` gets to without a token. `depth` counts calls made since the decision, as long as guards are
    /// collected: only the guards of the decision's own rule can be judged.
    fn closure(
        &mut self,
        walk: &mut Walk<'_>,
        config: Config,
        left_rule: bool,
        depth: Option<i32>,
        nested: u32,
        work: &mut Work,
    ) -> Result<(), Stop> {
        work.spend(1)?;
        work.nest(nested)?;
        if NETWORK.state(config.state).ends_rule {
            if config.stack != Stacks::EMPTY {
                for at in 0..self.stacks.frames(config.stack).len() {
                    let (caller, back) = self.stacks.frames(config.stack)[at];
                    if back == BOTTOM {
                        match walk.merge {
                            Merge::Exact => {
                                walk.into.add(Config { stack: Stacks::EMPTY, ..config }, left_rule, &mut self.stacks);
                            }
                            Merge::Wildcard => self.step(walk, config, left_rule, depth, nested, work)?,
                        }
                        continue;
                    }
                    let returned = Config { state: back, stack: caller, unfiltered: false, ..config };
                    self.closure(walk, returned, left_rule, depth.map(|d| d - 1), nested + 1, work)?;
                }
                return Ok(());
            }
            if walk.merge == Merge::Exact {
                walk.into.add(config, left_rule, &mut self.stacks);
                return Ok(());
            }
        }
        self.step(walk, config, left_rule, depth, nested, work)
    }

    fn step(
        &mut self,
        walk: &mut Walk<'_>,
        config: Config,
        left_rule: bool,
        depth: Option<i32>,
        nested: u32,
        work: &mut Work,
    ) -> Result<(), Stop> {
        let state = NETWORK.state(config.state);
        let needs_token = matches!(state.edges.first(), None | Some(Edge::Token(..)));
        if needs_token {
            walk.into.add(config, left_rule, &mut self.stacks);
            return Ok(());
        }
        let skip = usize::from(self.repeats_the_callers_loop(&config));
        for edge in state.edges.iter().skip(skip) {
            let (next, left, depth) = match *edge {
                Edge::Token(..) => continue,
                Edge::Free(to) => (Config { state: to, ..config }, left_rule, depth),
                Edge::Call { rule, back, .. } => {
                    let stack = self.stacks.push(config.stack, back);
                    let deeper = depth.map(|d| if d >= 0 { d + 1 } else { d });
                    (Config { state: Network::start(rule), stack, ..config }, left_rule, deeper)
                }
                Edge::Above(needed, to) => {
                    let mut next = Config { state: to, ..config };
                    if depth == Some(0) {
                        match walk.merge {
                            Merge::Exact if needed < walk.decision.precedence => continue,
                            Merge::Exact => {}
                            Merge::Wildcard => {
                                next.guard = Some(config.guard.map_or(needed, |guard| guard.min(needed)));
                            }
                        }
                    }
                    (next, left_rule, depth)
                }
                Edge::Return { back, outermost } => {
                    let decided = NETWORK.state(walk.decision.state);
                    let mut next = Config { state: back, ..config };
                    next.unfiltered |= outermost && decided.operator_loop.is_some() && decided.rule == state.rule;
                    if !walk.busy.insert(next) {
                        continue;
                    }
                    walk.into.left_rule = true;
                    (next, true, depth.map(|d| d - 1))
                }
            };
            self.closure(walk, next, left, depth, nested + 1, work)?;
        }
        Ok(())
    }

    /// At an operator loop whose every caller is an operand of that same loop, going on here repeats what they do.
    fn repeats_the_callers_loop(&self, config: &Config) -> bool {
        let Some(operand_returns) = NETWORK.state(config.state).operator_loop else { return false };
        self.stacks.frames(config.stack).iter().all(|&(_, back)| back == operand_returns)
    }
}

fn alternative(alt: Option<u8>) -> Result<usize, Stop> {
    alt.map(usize::from).ok_or(Stop::Syntax)
}

/// Those of `alts` whose guards hold at `precedence`; `None` when there is no guard to ask.
fn viable(configs: &Configs, alts: &BTreeSet<u8>, precedence: u8) -> Option<BTreeSet<u8>> {
    // Per alternative: one unguarded way in is enough, and otherwise the weakest guard decides.
    let mut guards: HashMap<u8, Option<u8>> = HashMap::new();
    for c in configs.iter().filter(|c| alts.contains(&c.alt)) {
        let weakest = guards.entry(c.alt).or_insert(c.guard);
        *weakest = weakest.zip(c.guard).map(|(a, b)| a.max(b));
    }
    if guards.values().all(Option::is_none) {
        return None;
    }
    let holds = |alt: &u8| guards.get(alt).is_none_or(|guard| guard.is_none_or(|guard| guard >= precedence));
    Some(alts.iter().copied().filter(holds).collect())
}
