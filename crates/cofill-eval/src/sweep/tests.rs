use super::claim::{Claim, Claims, Taken};
use super::*;
use crate::recipe::Recipe;
use cofill_report::results::{self, Record, Results};
use serde_json::json;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cofill-sweep-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn point(sampler: &str) -> EvalSpec {
    let text = format!(
        "about = \"x\"\n[[sweep]]\nmodels = [\"m\"]\ntasks = [\"chain\"]\nsamplers = [\"{sampler}\"]\nlimit = 20"
    );
    Recipe::parse(Path::new("x.toml"), &text, Registry::stock()).unwrap().points.remove(0)
}

fn header(point: &EvalSpec) -> Header {
    let Value::Object(what) = json!({"task": point.task.name(), "sampler": point.sampler}) else { unreachable!() };
    Header { cofill_eval: results::VERSION, what, made_by: json!("test") }
}

/// Plans `docs` examples in units of 3.
fn plan(sweep: &Sweep, sampler: &str, docs: usize) -> Added {
    let point = point(sampler);
    sweep.plan(&point, &header(&point), docs, 3).unwrap()
}

fn record(doc_id: usize) -> Record {
    Record {
        companion_nfe: 0,
        cache: None,
        doc_id,
        prompt_sha256: String::new(),
        tokens: vec![doc_id as u32],
        text: String::new(),
        filters: Map::new(),
        score: (doc_id % 2) as f64,
        notes: Map::new(),
        nfe: 2,
        steps: None,
        filled: 4,
        useful: None,
        seconds: 0.5,
    }
}

/// Answers at once, and remembers what it was asked.
#[derive(Default)]
struct Fake<'a> {
    asked: Option<&'a Mutex<Vec<(String, usize)>>>,
    /// Fails after so many batches.
    fails_after: Option<usize>,
    /// Whom it was told to wait for.
    waited: Vec<Waiting>,
}

impl Runner for Fake<'_> {
    type Error = Error;
    fn header(&mut self, planned: &Planned) -> Result<Header, Error> {
        Ok(header(&planned.point))
    }
    fn batch(&mut self, _: &Planned) -> Result<usize, Error> {
        Ok(2)
    }
    fn waiting(&mut self, holders: &[Waiting]) {
        self.waited.extend(holders.to_vec());
    }
    fn run(&mut self, planned: &Planned, docs: Range<usize>) -> Result<Vec<Record>, Error> {
        if let Some(left) = &mut self.fails_after {
            *left = left.checked_sub(1).ok_or(Error::None { dir: "broken".into() })?;
        }
        if let Some(asked) = self.asked {
            asked.lock().unwrap().extend(docs.clone().map(|doc| (planned.name.clone(), doc)));
        }
        std::thread::sleep(Duration::from_micros(200));
        Ok(docs.map(record).collect())
    }
}

fn work(sweep: &Sweep, fake: &mut Fake<'_>) -> Result<WorkDone, Error> {
    Worker::new(sweep, Share::All, HOUR)?.work(fake)
}

#[test]
fn a_plan_only_adds() {
    let folder = Folder::new("plan");
    let sweep = Sweep::create(&folder.0).unwrap();
    // 8 examples in units of 3: 3 + 3 + 2.
    assert_eq!(plan(&sweep, "topk:1", 8), Added { points: 1, units: 3, named: 1 });
    assert_eq!(plan(&sweep, "topk:1", 8), Added { points: 0, units: 0, named: 1 });
    assert_eq!(plan(&sweep, "topk:2", 3), Added { points: 1, units: 1, named: 1 });
    // More examples come after those that are there; fewer take none away.
    assert_eq!(plan(&sweep, "topk:1", 12), Added { points: 0, units: 2, named: 1 });
    assert_eq!(plan(&sweep, "topk:1", 4), Added { points: 0, units: 0, named: 1 });
    let points = sweep.points().unwrap();
    let ranges: Vec<_> = points[0].units.iter().map(|unit| (unit.from, unit.to)).collect();
    assert_eq!((points.len(), ranges), (2, vec![(0, 3), (3, 6), (6, 8), (8, 10), (10, 12)]));
}

#[test]
fn work_is_done_once_and_merged_in_order() {
    let folder = Folder::new("work");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 8);
    let error = sweep.merge().err().unwrap().to_string();
    assert!(error.contains("3 of 3 units are not done, in `m-chain-topk_1-"), "{error}");
    let asked = Mutex::default();
    let mut fake = Fake { asked: Some(&asked), ..Fake::default() };
    assert_eq!(work(&sweep, &mut fake).unwrap(), WorkDone { units: 3, examples: 8, late: 0 });
    assert_eq!(work(&sweep, &mut fake).unwrap(), WorkDone::default());
    // A point more is all there is to do then.
    plan(&sweep, "topk:2", 4);
    assert_eq!(work(&sweep, &mut fake).unwrap(), WorkDone { units: 2, examples: 4, late: 0 });
    let merged = sweep.merge().unwrap();
    assert_eq!((merged.len(), merged[0].totals.n, merged[0].totals.score().0), (2, 8, 0.5));
    let (read, records) = Results::read(&merged[0].path).unwrap();
    assert_eq!((read, records), (header(&point("topk:1")), (0..8).map(record).collect()));
    assert_eq!(asked.lock().unwrap().len(), 12);
}

#[test]
fn racing_workers_do_each_unit_once() {
    let folder = Folder::new("race");
    let sweep = Sweep::create(&folder.0).unwrap();
    for sampler in ["topk:1", "topk:2", "topk:4", "topk:8"] {
        plan(&sweep, sampler, 60);
    }
    let asked = Mutex::default();
    // All of them want everything, in the same order.
    let did: Vec<WorkDone> = std::thread::scope(|scope| {
        let work = || work(&sweep, &mut Fake { asked: Some(&asked), ..Fake::default() }).unwrap();
        let workers: Vec<_> = (0..6).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(did.iter().map(|did| did.units).sum::<usize>(), 80);
    assert_eq!(did.iter().map(|did| did.late).sum::<usize>(), 0);
    let mut asked = asked.into_inner().unwrap();
    assert_eq!(asked.len(), 240);
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 240);
    assert_eq!(sweep.merge().unwrap().iter().map(|merged| merged.totals.n).sum::<usize>(), 240);
}

#[test]
fn a_unit_is_continued_where_its_worker_died() {
    let folder = Folder::new("continued");
    let sweep = Sweep::create(&folder.0).unwrap();
    let point = point("topk:1");
    sweep.plan(&point, &header(&point), 7, 7).unwrap();
    // Two batches of two, then it breaks.
    work(&sweep, &mut Fake { fails_after: Some(2), ..Fake::default() }).unwrap_err();
    assert_eq!(work(&sweep, &mut Fake::default()).unwrap(), WorkDone { units: 1, examples: 3, late: 0 });
    assert_eq!(std::fs::read_dir(folder.0.join("parts")).unwrap().count(), 0);
    assert_eq!(sweep.merge().unwrap()[0].totals.n, 7);
}

#[test]
fn the_living_keep_their_units_and_the_dead_lose_them_once() {
    let folder = Folder::new("claims");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    let unit = &sweep.points().unwrap()[0].units[0];
    let (one, two, three) =
        (Claims::new(&sweep, HOUR).unwrap(), Claims::new(&sweep, HOUR).unwrap(), Claims::new(&sweep, HOUR).unwrap());
    let ours = |taken: Taken| -> Option<Claim> {
        match taken {
            Taken::Ours(claim) => Some(claim),
            Taken::Theirs { .. } => None,
        }
    };
    let first = ours(one.take(unit).unwrap()).unwrap();
    assert!(ours(two.take(unit).unwrap()).is_none() && first.is_ours());
    drop(one);
    let second = ours(two.take(unit).unwrap()).unwrap();
    assert_eq!((second.generation, first.is_ours(), second.is_ours()), (1, false, true));
    assert!(ours(three.take(unit).unwrap()).is_none());
}

/// A heartbeat that nobody can read holds a unit for a lease, not for ever; whoever waits is told for whom.
#[test]
fn an_unreadable_card_holds_nobody_up() {
    let folder = Folder::new("unreadable");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    let dead = Claims::new(&sweep, HOUR).unwrap();
    assert!(matches!(dead.take(&sweep.points().unwrap()[0].units[0]).unwrap(), Taken::Ours(_)));
    std::mem::forget(dead); // killed: its heartbeat stays, and is not rewritten for an hour
    let heartbeat = std::fs::read_dir(folder.0.join("workers")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&heartbeat, "garbage").unwrap();
    let mut fake = Fake::default();
    let did = Worker::new(&sweep, Share::All, Duration::from_millis(300)).unwrap().work(&mut fake).unwrap();
    assert_eq!(did, WorkDone { units: 1, examples: 3, late: 0 });
    let named = heartbeat.file_name().unwrap().to_string_lossy().into_owned();
    let waited = |wait: &Waiting| (wait.holder.worker.clone(), wait.holder.state, wait.units);
    assert_eq!(fake.waited.iter().map(waited).next(), Some((named, State::Unknown, 1)));
}

#[test]
fn who_wakes_up_late_throws_nothing_away_but_its_own() {
    let folder = Folder::new("late");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    let planned = sweep.points().unwrap().remove(0);
    let unit = &planned.units[0];
    let begin = |generation| unit::Part::begin(&sweep, unit, generation, &header(&planned.point)).unwrap();
    let mut slow = begin(0);
    slow.append(&[record(0)]).unwrap();
    // Somebody takes over, inherits what is there, and both go on.
    let mut fast = begin(1);
    assert_eq!(fast.n, 1);
    slow.append(&[record(1), record(2)]).unwrap();
    fast.append(&[record(1), record(2)]).unwrap();
    assert_eq!((fast.finish().unwrap(), slow.finish().unwrap()), (unit::End::Done, unit::End::Late));
    assert_eq!(sweep.finished(&planned, unit).unwrap().records.len(), 3);
}

#[test]
fn shares_cover_everything_and_begin_apart() {
    for of in 1..5 {
        let own = |index| {
            let order = Share::Part { index, of }.order(11);
            assert_eq!(order.len(), 11);
            order.into_iter().filter(|(rank, _)| *rank == 0).map(|(_, i)| i).collect::<Vec<_>>()
        };
        let mut all: Vec<usize> = (0..of).flat_map(own).collect();
        all.sort_unstable();
        assert_eq!(all, (0..11).collect::<Vec<_>>());
    }
    let first = |share: Share| share.order(100)[0].1;
    assert_eq!([0, 1, 2, 3].map(|index| first(Share::From { index })), [0, 61, 23, 85]);
    assert_eq!((first(Share::All), first(Share::Part { index: 3, of: 4 })), (0, 3));
}

#[test]
fn damage_is_named() {
    let folder = Folder::new("damage");
    let error = Sweep::open(&folder.0).unwrap_err().to_string();
    assert!(error.contains("holds no sweep") && error.contains("plan one there first"), "{error}");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    work(&sweep, &mut Fake::default()).unwrap();
    let planned = sweep.points().unwrap().remove(0);
    let done = sweep.done_path(&planned.units[0]);
    let text = std::fs::read_to_string(&done).unwrap();
    std::fs::write(&done, &text[..text.len() - 10]).unwrap();
    let error = sweep.merge().err().unwrap().to_string();
    assert!(error.contains("ends in the middle of a line") && error.contains("remove it"), "{error}");
    let last = text.trim_end().rfind('\n').unwrap();
    std::fs::write(&done, &text[..=last]).unwrap();
    let error = sweep.merge().err().unwrap().to_string();
    assert!(error.contains("has 2 records instead of 3") && error.contains("remove it"), "{error}");
    // Removed, it is done again.
    std::fs::remove_file(&done).unwrap();
    assert_eq!(work(&sweep, &mut Fake::default()).unwrap().units, 1);
    assert_eq!(std::fs::read_to_string(&done).unwrap(), text);

    let path = folder.0.join("points").join(format!("{}.json", planned.name));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"to\": 3", "\"to\": 4")).unwrap();
    let error = sweep.points().unwrap_err().to_string();
    assert!(error.contains(&planned.name) && error.contains("is not of examples 0 and on"), "{error}");
}

/// One digit of a number is all it takes to change a score.
#[test]
fn a_unit_that_changed_is_not_merged() {
    let folder = Folder::new("sums");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    work(&sweep, &mut Fake::default()).unwrap();
    let done = sweep.done_path(&sweep.points().unwrap()[0].units[0]);
    let text = std::fs::read_to_string(&done).unwrap();
    assert_eq!(sweep.merge().unwrap()[0].unsealed, 0);
    for (digits, others) in [("\"nfe\":2", "\"nfe\":1"), ("\"score\":1.0", "\"score\":0.0"), ("topk:1", "topk:2")] {
        assert!(text.contains(digits), "{text}");
        std::fs::write(&done, text.replacen(digits, others, 1)).unwrap();
        let error = sweep.merge().err().unwrap().to_string();
        assert!(error.contains("does not match its checksum") && error.contains("remove it"), "{error}");
        assert!(Watch::new(&sweep).is_err());
    }
    // As an earlier version wrote it: taken as it is, and counted.
    let plain = |line: &str| line.split(",\"sum\"").next().unwrap().to_owned() + "}\n";
    std::fs::write(&done, text.lines().map(plain).collect::<String>()).unwrap();
    let merged = sweep.merge().unwrap();
    assert_eq!((merged[0].unsealed, merged[0].totals.n), (1, 3));
}

/// Of a part, what comes before the damage is inherited, and the rest is done again.
#[test]
fn a_part_that_changed_is_trusted_up_to_there() {
    let folder = Folder::new("part");
    let sweep = Sweep::create(&folder.0).unwrap();
    let point = point("topk:1");
    sweep.plan(&point, &header(&point), 7, 7).unwrap();
    work(&sweep, &mut Fake { fails_after: Some(2), ..Fake::default() }).unwrap_err();
    let part = std::fs::read_dir(folder.0.join("parts")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&part).unwrap();
    // Of four records, the third.
    assert_eq!(text.lines().count(), 5);
    std::fs::write(&part, text.replace("\"doc_id\":2,\"prompt_sha256\":\"\"", "\"doc_id\":2,\"prompt_sha256\":\"0\""))
        .unwrap();
    assert_eq!(work(&sweep, &mut Fake::default()).unwrap(), WorkDone { units: 1, examples: 5, late: 0 });
    let merged = sweep.merge().unwrap();
    assert_eq!(Results::read(&merged[0].path).unwrap().1, (0..7).map(record).collect::<Vec<_>>());
}

#[test]
fn merges_at_once_are_in_nobodys_way() {
    let folder = Folder::new("merges");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    work(&sweep, &mut Fake::default()).unwrap();
    for _ in 0..10 {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| assert_eq!(sweep.merge().unwrap()[0].totals.n, 3))));
        });
        let path = sweep.merge().unwrap().remove(0).path;
        assert_eq!(Results::read(&path).unwrap().1.len(), 3);
        std::fs::remove_file(path).unwrap();
    }
    let names = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().contains(".part")).count(), 0);
}

#[test]
fn a_merge_replaces_nothing_but_merged_files() {
    let folder = Folder::new("in-the-way");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 3);
    work(&sweep, &mut Fake::default()).unwrap();
    let path = sweep.merge().unwrap().remove(0).path;
    let text = std::fs::read_to_string(&path).unwrap();
    sweep.merge().unwrap();
    let more = text.clone() + &String::from_utf8(results::line(&record(3)).unwrap()).unwrap();
    let cases = [
        ("notes".into(), "is no merged point"),
        (text.replace("topk:1", "topk:2"), "is another point: its sampler is \"topk:2\""),
        (more, "has 4 records, and there are units for 3"),
    ];
    for (other, said) in cases {
        std::fs::write(&path, &other).unwrap();
        let error = sweep.merge().err().unwrap().to_string();
        assert!(error.contains(said) && error.contains("move it elsewhere"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
    }
    std::fs::remove_file(&path).unwrap();
    sweep.merge().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn who_looks_on_sees_points_completed() {
    let folder = Folder::new("watch");
    let sweep = Sweep::create(&folder.0).unwrap();
    plan(&sweep, "topk:1", 8);
    let mut watch = Watch::new(&sweep).unwrap();
    assert_eq!((watch.look().unwrap().len(), watch.examples(), watch.complete()), (0, (0, 8), 0));
    work(&sweep, &mut Fake::default()).unwrap();
    assert_eq!((watch.look().unwrap(), watch.examples(), watch.complete()), (vec![0], (8, 8), 1));
    assert_eq!((watch.look().unwrap().len(), watch.points[0].totals.mean_nfe()), (0, 2.0));
}
