use crate::run::{Ran, run, scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of this test's own with a recipe in it, `points` for the sampler grid.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, samplers: &str, limit: usize) -> Folder {
        let path = scratch(&format!("sweep-{name}"));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        folder.recipe(samplers, limit);
        folder
    }

    fn recipe(&self, samplers: &str, limit: usize) {
        let text = format!(
            "about = \"a test\"\n[[sweep]]\nmodels = [\"tiny-llada\"]\ntasks = [\"sudoku\"]\nsamplers = [{samplers}]\nlimit = {limit}\nbatch = 2\n"
        );
        std::fs::write(self.0.join("recipe.toml"), text).unwrap();
    }

    fn edit(&self, old: &str, new: &str) {
        let path = self.0.join("recipe.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{text}");
        std::fs::write(&path, text.replace(old, new)).unwrap();
    }

    /// `cofill sweep LINE`, with `RECIPE` and `DIR` for ours; another word after DIR is another folder.
    fn sweep(&self, line: &str) -> Ran {
        run(&self.line(line))
    }

    fn line(&self, line: &str) -> String {
        let path = |name: &str| self.0.join(name).display().to_string();
        let word = |word: &str| match word {
            "RECIPE" => path("recipe.toml"),
            word if word.starts_with("DIR") => path(word),
            word => word.into(),
        };
        format!("sweep {}", line.split(' ').map(word).collect::<Vec<_>>().join(" "))
    }

    /// Starts `cofill sweep LINE` and does not wait.
    fn spawn(&self, line: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_cofill"))
            .args(self.line(line).split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Merged files by name, without what differs from run to run.
    fn results(&self, dir: &str) -> BTreeMap<String, Vec<Value>> {
        let mut results = BTreeMap::new();
        for entry in std::fs::read_dir(self.0.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                results.insert(path.file_name().unwrap().to_string_lossy().into_owned(), timeless(&path));
            }
        }
        results
    }
}

fn timeless(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let timeless = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line.as_object_mut().unwrap().remove("made_by");
        line
    };
    text.lines().map(timeless).collect()
}

fn units(stdout: &str) -> usize {
    stdout.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_sweep_is_many_evals() {
    let folder = Folder::new("evals", "\"topk:{2,4}{,+ad}\"", 10);
    let ran = folder.sweep("run RECIPE DIR --unit 3 --workers 2 --json");
    let lines: Vec<Value> = ran.is_fine().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let samplers: Vec<&str> = lines.iter().map(|line| line["sampler"].as_str().unwrap()).collect();
    assert_eq!(samplers, ["topk:2+ad:40", "topk:2", "topk:4+ad:40", "topk:4"]);
    assert!(ran.stderr.contains("4 points, 4 of them new; 16 units added") && ran.stderr.contains("4/4  "), "{ran}");
    for line in &lines {
        let out = folder.0.join("eval.jsonl");
        std::fs::remove_file(&out).ok();
        let sampler = line["sampler"].as_str().unwrap();
        let eval = format!("eval --task sudoku -s {sampler} --limit 10 --json --out {}", out.display());
        let score = run(&eval).is_fine().json();
        assert_eq!((&line["score"], &line["nfe"], &line["n"]), (&score["score"], &score["nfe"], &score["n"]));
        assert_eq!(timeless(Path::new(line["file"].as_str().unwrap())), timeless(&out), "{sampler}");
    }
    // Again: nothing left to do, the same answer.
    let again = folder.sweep("run RECIPE DIR --unit 3 --json");
    assert!(again.is_fine().stderr.contains("0 of them new; 0 units added"), "{again}");
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn more_points_run_only_what_is_missing() {
    let folder = Folder::new("more", "\"topk:4\"", 6);
    folder.sweep("plan RECIPE DIR --unit 3").is_fine();
    folder.sweep("merge DIR").is_refused(&[
        "2 of 2 units are not done",
        "`tiny-llada-sudoku-topk_4-",
        "cofill sweep work",
    ]);
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "2 units done, 6 prompts\n");
    // A grid point, then more prompts of both, then another sampler, then a task.
    folder.recipe("\"topk:{4,8}\"", 6);
    let planned = folder.sweep("plan RECIPE DIR --unit 3");
    assert!(planned.is_fine().stdout.contains("2 points, 1 of them new; 2 units added"), "{planned}");
    let partial = folder.sweep("merge DIR --partial");
    assert!(partial.is_fine().stderr.contains("1 point left out"), "{partial}");
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "2 units done, 6 prompts\n");
    folder.recipe("\"topk:{4,8}\"", 7);
    folder.sweep("plan RECIPE DIR --unit 3").is_fine();
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "2 units done, 2 prompts\n");
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "0 units done, 0 prompts\n");
    folder.recipe("\"topk:{4,8}\", \"eb:1\"", 7);
    folder.sweep("plan RECIPE DIR --unit 3").is_fine();
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "3 units done, 7 prompts\n");
    folder.edit("\"sudoku\"", "\"sudoku\", \"predicates\"");
    let planned = folder.sweep("plan RECIPE DIR --unit 3");
    assert!(planned.is_fine().stdout.contains("6 points, 3 of them new; 9 units added"), "{planned}");
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "9 units done, 21 prompts\n");
    folder.sweep("merge DIR").is_fine();
    // As if it had been planned at once.
    folder.sweep("run RECIPE DIR-at-once").is_fine();
    assert_eq!(folder.results("DIR"), folder.results("DIR-at-once"));
}

/// What does not decide results can be corrected: here a card that is not there.
#[test]
fn a_second_plan_corrects_the_first() {
    let folder = Folder::new("corrected", "\"topk:8\"", 2);
    folder.edit("batch = 2", "device = \"cuda\"");
    folder.sweep("plan RECIPE DIR").is_fine();
    assert_ne!(folder.sweep("work DIR").code, 0);
    folder.edit("device = \"cuda\"", "batch = 1");
    folder.sweep("plan RECIPE DIR").is_fine();
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "1 unit done, 2 prompts\n");
}

/// A point that cannot run is named: it is one of hundreds.
#[test]
fn what_cannot_run_is_named() {
    let folder = Folder::new("long", "\"topk:8\"", 1);
    folder.edit("batch = 2", "lengths = [9000]");
    folder.sweep("plan RECIPE DIR").is_fine();
    folder.sweep("work DIR").is_refused(&["point `tiny-llada-sudoku-topk_8-", "the model holds 8192"]);
}

#[test]
fn two_workers_racing_do_each_unit_once() {
    let folder = Folder::new("race", "\"topk:{2,4,8,16}{,+ad}\"", 8);
    folder.sweep("plan RECIPE DIR --unit 1").is_fine();
    let workers: Vec<Child> = (0..2).map(|_| folder.spawn("work DIR")).collect();
    let done: Vec<usize> = workers
        .into_iter()
        .map(|worker| {
            let output = worker.wait_with_output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && !said.contains("taken over"), "{said}");
            units(&said)
        })
        .collect();
    assert_eq!(done.iter().sum::<usize>(), 64, "{done:?}");
    folder.sweep("merge DIR").is_fine();
    folder.sweep("run RECIPE DIR-alone").is_fine();
    assert_eq!(folder.results("DIR"), folder.results("DIR-alone"));
}

/// Three workers on one folder, one of them killed without warning twenty times and replaced: as if nothing had happened.
#[test]
fn killed_workers_lose_and_double_nothing() {
    let folder = Folder::new("kills", "\"topk:{2,4}{,+ad}\"", 60);
    folder.sweep("run RECIPE DIR-undisturbed").is_fine();
    folder.sweep("plan RECIPE DIR --unit 3").is_fine();
    let mut workers: Vec<Child> = (0..3).map(|_| folder.spawn("work DIR")).collect();
    // Killed when one more unit is claimed or done: in the middle of things, however slow the machine is.
    let events = |part: &str| std::fs::read_dir(folder.0.join("DIR").join(part)).unwrap().count();
    let mut kills = 0;
    for i in 0..20u64 {
        let part = if i % 2 == 0 { "done" } else { "claims" };
        let (before, patience) = (events(part), Instant::now());
        while events(part) == before && patience.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(i * 37 % 60));
        let worker = &mut workers[i as usize % 3];
        kills += usize::from(worker.try_wait().unwrap().is_none());
        worker.kill().ok();
        worker.wait().unwrap();
        *worker = folder.spawn("work DIR");
    }
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(kills > 15, "only {kills} kills: the sweep is too short to be disturbed");
    folder.sweep("merge DIR").is_fine();
    assert_eq!(folder.results("DIR"), folder.results("DIR-undisturbed"));
    let parts = std::fs::read_dir(folder.0.join("DIR/parts")).unwrap().count();
    assert_eq!(parts, 0, "parts are left behind");
}

/// A digit that changed on the disk is a score that changed.
#[test]
fn an_altered_unit_is_named_and_not_merged() {
    let folder = Folder::new("altered", "\"topk:4\"", 6);
    folder.sweep("plan RECIPE DIR --unit 3").is_fine();
    folder.sweep("work DIR").is_fine();
    folder.sweep("merge DIR").is_fine();
    let before = folder.results("DIR");
    let unit = std::fs::read_dir(folder.0.join("DIR/done")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains("\"nfe\":5,"), "{text}");
    std::fs::write(&unit, text.replacen("\"nfe\":5,", "\"nfe\":4,", 1)).unwrap();
    let name = unit.file_name().unwrap().to_string_lossy().into_owned();
    let said = [name.as_str(), "does not match its checksum", "remove it", "cofill sweep work"];
    folder.sweep("merge DIR").is_refused(&said);
    folder.sweep("merge DIR --partial").is_refused(&said);
    let again = folder.sweep("run RECIPE DIR --unit 3");
    assert!(again.code == 2 && again.stderr.contains(said[1]), "{again}");
    assert_eq!(folder.results("DIR"), before, "nothing was merged");
    // The remedy.
    std::fs::remove_file(&unit).unwrap();
    assert_eq!(folder.sweep("work DIR").is_fine().stdout, "1 unit done, 3 prompts\n");
    folder.sweep("merge DIR").is_fine();
    assert_eq!(folder.results("DIR"), before);
    // As an earlier version wrote them: merged, with a word.
    let plain = |line: &str| line.split(",\"sum\"").next().unwrap().to_owned() + "}\n";
    std::fs::write(&unit, text.lines().map(plain).collect::<String>()).unwrap();
    let merged = folder.sweep("merge DIR");
    assert!(merged.is_fine().stderr.contains("warning: 1 unit without checksums"), "{merged}");
    assert_eq!(folder.results("DIR"), before);
}

/// Waits until a worker has some records of a unit, and stops or kills it there.
#[cfg(unix)]
fn signal_in_the_middle(folder: &Folder, worker: &Child, name: &str) {
    let part = || std::fs::read_dir(folder.0.join("DIR/parts")).unwrap().next();
    let size = || part().and_then(|part| part.unwrap().metadata().ok()).map_or(0, |part| part.len());
    let patience = Instant::now();
    while size() < 2500 {
        assert!(patience.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([name, &worker.id().to_string()]).status().unwrap().success());
}

/// Gives a process a while to end; kills one that does not.
#[cfg(unix)]
fn ended(mut worker: Child) -> Ran {
    let patience = Instant::now();
    while worker.try_wait().unwrap().is_none() && patience.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    worker.kill().ok();
    let output = worker.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[cfg(unix)]
#[test]
fn a_card_that_cannot_be_read_expires() {
    let folder = Folder::new("unreadable", "\"topk:1\"", 16);
    folder.sweep("plan RECIPE DIR --unit 16").is_fine();
    let mut worker = folder.spawn("work DIR");
    signal_in_the_middle(&folder, &worker, "-KILL");
    worker.wait().unwrap();
    let card = std::fs::read_dir(folder.0.join("DIR/workers")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&card, "\0\0\0").unwrap();
    let next = ended(folder.spawn("work DIR --lease 2"));
    assert!(next.is_fine().stdout.starts_with("1 unit done"), "{next}");
    let name = card.file_name().unwrap().to_string_lossy().into_owned();
    assert!(next.stderr.contains(&format!("waiting for worker {name} (its card cannot be read)")), "{next}");
    assert!(next.stderr.contains("taken over after 0:02") && next.stderr.lines().count() < 4, "{next}");
    folder.sweep("merge DIR").is_fine();
}

#[cfg(target_os = "linux")]
#[test]
fn a_stopped_worker_is_named_and_replaced_after_its_lease() {
    let folder = Folder::new("stopped", "\"topk:1\"", 16);
    folder.sweep("run RECIPE DIR-undisturbed").is_fine();
    folder.sweep("plan RECIPE DIR --unit 16").is_fine();
    let stopped = folder.spawn("work DIR --lease 3");
    signal_in_the_middle(&folder, &stopped, "-STOP");
    let next = ended(folder.spawn("work DIR"));
    assert!(next.is_fine().stdout.starts_with("1 unit done"), "{next}");
    let said = [
        format!("process {} on ", stopped.id()),
        ", stopped), which has 1 unit since 0:".into(),
        "taken over after 0:03".into(),
    ];
    assert!(said.iter().all(|said| next.stderr.contains(said)), "{next}");
    assert!(
        next.stderr.contains(&format!("`kill -CONT {}`", stopped.id())) && next.stderr.lines().count() < 4,
        "{next}"
    );
    // It wakes up, and throws nothing away but its own.
    assert!(Command::new("kill").args(["-CONT", &stopped.id().to_string()]).status().unwrap().success());
    let woken = ended(stopped);
    assert!(woken.is_fine().stdout.contains("1 unit had been taken over by others"), "{woken}");
    folder.sweep("merge DIR").is_fine();
    assert_eq!(folder.results("DIR"), folder.results("DIR-undisturbed"));
    assert_eq!(std::fs::read_dir(folder.0.join("DIR/parts")).unwrap().count(), 0);
}

#[test]
fn shards_cover_a_sweep() {
    let folder = Folder::new("shards", "\"topk:{4,8}\"", 6);
    folder.sweep("plan RECIPE DIR --unit 2").is_fine();
    // The first finds everything unclaimed, so it helps the second.
    assert_eq!(folder.sweep("work DIR --shard 0/2").is_fine().stdout, "6 units done, 12 prompts\n");
    assert_eq!(folder.sweep("work DIR --shard 1/2").is_fine().stdout, "0 units done, 0 prompts\n");
    folder.sweep("work DIR --shard 2/2").is_refused(&["--shard", "counted from 0"]);
    folder.sweep("work DIR --lease 0").is_refused(&["--lease"]);
}

#[test]
fn wrong_requests_are_refused_and_leave_nothing_behind() {
    let folder = Folder::new("wrong", "\"topk:{4,8\"", 6);
    folder.sweep("plan RECIPE DIR").is_refused(&["recipe.toml", "line 5", "topk:{4,8", "does not close"]);
    folder.recipe("\"topk:4\"]\nsampler = [\"x\"", 6);
    folder.sweep("run RECIPE DIR").is_refused(&[
        "recipe.toml",
        "line 6",
        "unknown key `sampler` (did you mean `samplers`?)",
        "`samplers`",
    ]);
    folder.recipe("\"topk:4\"]\ndtype = \"q3\"\nlengths = [20", 6);
    folder.sweep("plan RECIPE DIR").is_refused(&["line 6", "dtype = \"q3\"", "expected f32"]);
    folder.sweep("work DIR").is_refused(&["DIR", "holds no sweep", "cofill sweep plan"]);
    folder.sweep("merge DIR").is_refused(&["holds no sweep"]);
    folder.sweep("submit DIR").is_refused(&["--slurm"]);
    let write = |text: &str| std::fs::write(folder.0.join("recipe.toml"), text).unwrap();
    let recipe = |model: &str, task: &str| {
        format!("about = \"x\"\n[[sweep]]\nmodels = [\"{model}\"]\ntasks = [\"{task}\"]\nsamplers = [\"topk:4\"]\n")
    };
    write(&recipe("nowhere", "sudoku"));
    folder.sweep("plan RECIPE DIR").is_refused(&["unknown model `nowhere`"]);
    write(&recipe("toy", "sudoku"));
    folder.sweep("plan RECIPE DIR").is_refused(&["`toy` is no checkpoint"]);
    write(&recipe("tiny-llada", "gsm8k"));
    folder.sweep("plan RECIPE DIR").is_refused(&["gsm8k needs its data files", "--data"]);
    write(&(recipe("tiny-llada", "sudoku") + "limit = 100000000\n"));
    folder.sweep("plan RECIPE DIR").is_refused(&["sudoku has only", "lower"]);
    assert!(!folder.0.join("DIR").exists());
}

/// Weights that changed since the plan would make a file of two models.
#[test]
fn a_point_that_became_another_is_refused() {
    let folder = Folder::new("another", "\"topk:4\"", 2);
    folder.sweep("plan RECIPE DIR").is_fine();
    let point = std::fs::read_dir(folder.0.join("DIR/points")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&point).unwrap();
    std::fs::write(&point, text.replacen("\"seed\": 0", "\"seed\": 1", 1)).unwrap();
    folder.sweep("work DIR").is_refused(&["was planned with seed 0, and here seed is 1", "plan again"]);
}

/// Slurm's commands as far as we use them, in shell; the first job loses all of its nodes.
mod fake {
    pub(super) const SBATCH: &str = r#"#!/bin/sh
id=$(( $(cat "$FAKE/next" 2>/dev/null || echo 41) + 1 )); echo $id > "$FAKE/next"
echo "$@" >> "$FAKE/submitted"
for word in "$@"; do
  case $word in --array=*) array=${word#--array=};; --output=*) output=${word#--output=};; esac
  script=$word
done
for i in $(echo "$array" | tr , ' '); do
  log=$(echo "$output" | sed "s/%A/$id/; s/%a/$i/")
  touch "$FAKE/$id.$i.running"
  (
    if [ $id = 42 ] || [ -e "$FAKE/broken" ]; then echo "the node is lost" > "$log"; code=1
    else SLURM_ARRAY_TASK_ID=$i sh "$script" > "$log" 2>&1; code=$?; fi
    echo $code > "$FAKE/$id.$i.ended"; rm "$FAKE/$id.$i.running"
  ) < /dev/null > /dev/null 2>&1 &
done
echo "$id;cluster"
"#;
    pub(super) const SQUEUE: &str = r#"#!/bin/sh
for word in "$@"; do id=$word; done
for task in "$FAKE/$id".*.running; do [ -e "$task" ] && echo RUNNING; done
exit 0
"#;
    pub(super) const SACCT: &str = r#"#!/bin/sh
for word in "$@"; do id=$word; done
for task in "$FAKE/$id".*.ended; do
  i=${task%.ended}; i=${i##*.}
  if [ "$(cat "$task")" = 0 ]; then echo "${id}_$i|COMPLETED|0:0"; else echo "${id}_$i|NODE_FAIL|1:0"; fi
done
"#;
    pub(super) const SCANCEL: &str = "#!/bin/sh\nexit 0\n";
}

#[cfg(unix)]
#[test]
fn a_job_array_is_followed_and_failed_shards_are_submitted_again() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("slurm", "\"topk:{4,8}\"", 6);
    let bin = folder.0.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let commands =
        [("sbatch", fake::SBATCH), ("squeue", fake::SQUEUE), ("sacct", fake::SACCT), ("scancel", fake::SCANCEL)];
    for (name, text) in commands {
        std::fs::write(bin.join(name), text).unwrap();
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let submit = |line: &str, path: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_cofill"))
            .args(folder.line(line).split_whitespace())
            .env("PATH", path)
            .env("FAKE", &folder.0)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    folder.sweep("plan RECIPE DIR --unit 2").is_fine();
    submit("submit DIR --slurm", "/nowhere").is_refused(&["`sbatch` cannot be started", "login node"]);
    submit("submit DIR --slurm -- --array=1-3", &path).is_refused(&["--array=1-3", "--shards"]);

    let ran = submit("submit DIR --slurm --shards 3 --poll 1 -- --partition=gpu --time=1:00:00", &path);
    ran.is_fine();
    let lost = "job 42 ended, and these shards are not done: 0 (NODE_FAIL, exit code 1:0), 1 (NODE_FAIL";
    assert!(ran.stderr.contains(lost) && ran.stderr.contains("job 43: 3 shards"), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran}");
    let submitted = std::fs::read_to_string(folder.0.join("submitted")).unwrap();
    assert!(submitted.contains("--array=0,1,2") && submitted.contains("--partition=gpu --time=1:00:00"), "{submitted}");
    folder.sweep("run RECIPE DIR-here").is_fine();
    assert_eq!(folder.results("DIR"), folder.results("DIR-here"));

    // A job that an interrupted submission left behind is followed before another is submitted.
    folder.sweep("plan RECIPE DIR-left").is_fine();
    std::fs::create_dir_all(folder.0.join("DIR-left/slurm")).unwrap();
    std::fs::write(folder.0.join("DIR-left/slurm/job"), "77").unwrap();
    let task = folder.0.join("77.0.running");
    std::fs::write(&task, "").unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        std::fs::remove_file(task).unwrap();
    });
    let ran = submit("submit DIR-left --slurm --poll 1", &path);
    ends.join().unwrap();
    let said = ["job 77 is still in the queue: following it", "job 44: 2 shards"].map(|said| ran.stderr.find(said));
    assert!(ran.is_fine().stdout.lines().count() == 2 && said[0].is_some() && said[0] < said[1], "{ran}");

    // Nothing to do is no job; a cluster that never works is given up on, with what it said.
    submit("submit DIR --slurm", &path).is_fine();
    std::fs::write(folder.0.join("broken"), "").unwrap();
    folder.sweep("plan RECIPE DIR-broken").is_fine();
    let ran = submit("submit DIR-broken --slurm --retries 1 --poll 1", &path);
    assert!(
        ran.code == 1 && ran.stderr.contains("after 2 submissions") && ran.stderr.contains("the node is lost"),
        "{ran}"
    );
}
