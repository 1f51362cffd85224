//! Operating points from files of results, one point a file.

use super::table::task_name;
use super::{Error, OperatingPoint, Outcome, PointSampler};
use crate::results::{self, Header, Record, Results, Totals};
use cofill::{Registry, SamplerForm};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Reads files of results, and every such file below the folders among `paths`.
pub fn read(paths: &[PathBuf]) -> Result<Vec<OperatingPoint>, Error> {
    let mut runs = Vec::new();
    for path in paths {
        let files = if path.is_dir() { below(path)? } else { vec![path.clone()] };
        for file in files {
            let (header, records) = Results::read(&file).map_err(|error| match error {
                results::Error::Io { path, source } => Error::Read { path, source },
                error => Error::Results(error),
            })?;
            runs.push(Run::new(file, &header, &records)?);
        }
    }
    Ok(told_apart(runs))
}

/// The files that [`read`] would read, in its order.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(if path.is_dir() { below(path)? } else { vec![path.clone()] });
    }
    Ok(found)
}

/// Every file of results below a folder, by name. Files of other kinds may lie there too.
fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |source| Error::Read { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") && is_results(&path)? {
                found.push(path);
            }
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(Error::Nothing { path: folder.into() }),
        false => Ok(found),
    }
}

/// Whether a file begins as results do.
fn is_results(path: &Path) -> Result<bool, Error> {
    use std::io::BufRead;
    let failed = |source| Error::Read { path: path.into(), source };
    let mut first = Vec::new();
    std::io::BufReader::new(std::fs::File::open(path).map_err(failed)?)
        .read_until(b'\n', &mut first)
        .map_err(failed)?;
    Ok(serde_json::from_slice::<Value>(&first).is_ok_and(|header| header.get("cofill_eval").is_some()))
}

/// A file that was read.
struct Run {
    point: OperatingPoint,
    /// What was run, but for model, task and sampler.
    setting: BTreeMap<String, String>,
}

impl Run {
    fn new(path: PathBuf, header: &Header, records: &[Record]) -> Result<Run, Error> {
        if records.is_empty() {
            return Err(Error::Empty { path });
        }
        let text = |field: &'static str| {
            let found = header.what.get(field).unwrap_or(&Value::Null);
            let remedy = || "it must be a text, as evaluations write it".into();
            let refused = || Error::Header { path: path.clone(), field, given: found.to_string(), remedy: remedy() };
            found.as_str().map(str::to_owned).ok_or_else(refused)
        };
        let sampler = text("sampler")?;
        // Names that are not registered here are accepted: a sampler may live in a crate of its own.
        let form: Result<SamplerForm, _> = sampler.parse().and_then(|form| Registry::stock().normalise(&form));
        let form = form.map_err(|error| Error::Header {
            path: path.clone(),
            field: "sampler",
            given: format!("`{sampler}`"),
            remedy: error.to_string(),
        })?;
        let model = text("model")?;
        let model = Path::new(&model).file_name().map_or(model.clone(), |name| name.to_string_lossy().into_owned());
        let model = model.trim().to_owned(); // tables have no space around a field
        let named = ["model", "task", "sampler", "sampler_version"];
        let setting = header.what.iter().filter(|(field, _)| !named.contains(&field.as_str()));
        let setting = setting.map(|(field, value)| (field.clone(), short(value))).collect();
        let mut totals = Totals::default();
        records.iter().for_each(|record| totals.add(record));
        let (score, error) = totals.score();
        let useful: Option<usize> = records.iter().map(|record| record.useful).sum();
        let point = OperatingPoint {
            model,
            task: task_name(&text("task")?).into(),
            sampler: PointSampler::from(&form),
            score: 100.0 * score,
            standard_error: error.map(|error| 100.0 * error),
            n: Some(totals.n),
            nfe: totals.mean_nfe(),
            tokens_per_forward: totals.per_forward(),
            useful_per_second: useful.filter(|_| totals.seconds > 0.0).map(|useful| useful as f64 / totals.seconds),
            source: format!("`{}`", path.display()),
            outcomes: records.iter().map(outcome).collect(),
        };
        Ok(Run { point, setting })
    }
}

fn outcome(record: &Record) -> Outcome {
    Outcome { prompt: record.prompt_sha256.clone(), score: record.score, nfe: record.nfe }
}

/// A value in a few letters: checksums by their beginning.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() == 64 => text[..8].into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a sampler brings along: the model that it consults, the head that it reads. That one sampler has it and another has not does not
/// make two tasks of one.
const OF_THE_SAMPLER: [&str; 3] = ["companion", "companion_sha256", "pair_head_sha256"];

/// The values of a field, by the curve that they are compared within; one nameless curve where all runs are.
type ByCurve = BTreeMap<String, BTreeSet<String>>;

/// Runs of a model on a task that differ in more than the sampler (length, blocks, seed, weights) are tasks of their own, named by
/// what differs: points of one curve have everything else in common. A field that one of them does not name is the default there, and
/// differs from whatever another one names. What a sampler brings along ([`OF_THE_SAMPLER`]) tells runs apart only if they are of one curve.
fn told_apart(mut runs: Vec<Run>) -> Vec<OperatingPoint> {
    let of = |point: &OperatingPoint| (point.model.clone(), point.task.clone());
    let mut fields: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for run in &runs {
        fields.entry(of(&run.point)).or_default().extend(run.setting.keys().cloned());
    }
    // Of every field of a model on a task: the values of all runs, or of each curve's.
    let mut values: BTreeMap<(String, String), BTreeMap<String, ByCurve>> = BTreeMap::new();
    for run in &runs {
        let PointSampler { rule, variant, .. } = &run.point.sampler;
        for field in &fields[&of(&run.point)] {
            let own = OF_THE_SAMPLER.contains(&field.as_str());
            let among = if own { format!("{rule} {variant}") } else { String::new() };
            let value = run.setting.get(field).map_or("-", String::as_str).to_owned();
            let by_field = values.entry(of(&run.point)).or_default().entry(field.clone()).or_default();
            by_field.entry(among).or_default().insert(value);
        }
    }
    for run in &mut runs {
        let Some(fields) = values.get(&of(&run.point)) else { continue };
        let differing = fields.iter().filter(|(_, among)| among.values().any(|values| values.len() > 1));
        let told = |field: &String| format!("{field} {}", run.setting.get(field).map_or("-", String::as_str));
        let told: Vec<String> = differing.map(|(field, _)| told(field)).collect();
        if !told.is_empty() {
            run.point.task = format!("{} ({})", run.point.task, told.join(", "));
        }
    }
    runs.into_iter().map(|run| run.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Existing;
    use crate::results::VERSION;
    use serde_json::{Map, json};

    fn file(folder: &Path, name: &str, what: &Value, scores: &[f64]) {
        let header = Header { cofill_eval: VERSION, what: what.as_object().cloned().unwrap(), made_by: Value::Null };
        let mut results = Results::create(&folder.join(name), &header, Existing::Refuse).unwrap();
        for (doc_id, score) in scores.iter().enumerate() {
            let record = Record {
                companion_nfe: 0,
                cache: None,
                doc_id,
                prompt_sha256: doc_id.to_string(),
                tokens: vec![1; 8],
                text: String::new(),
                filters: Map::new(),
                score: *score,
                notes: Map::new(),
                nfe: 2,
                steps: None,
                filled: 8,
                useful: Some(5),
                seconds: 0.25,
            };
            results.append(&record).unwrap();
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cofill-points-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        folder
    }

    #[test]
    fn files_below_a_folder_are_points() {
        let dir = folder("below");
        file(
            &dir,
            "a.jsonl",
            &json!({"model": "m/tiny", "task": "gsm8k", "sampler": "topk:4", "seed": 0}),
            &[1.0, 1.0, 1.0, 0.0],
        );
        file(
            &dir.join("deep"),
            "b.jsonl",
            &json!({"model": "m/tiny", "task": "gsm8k", "sampler": "topk:4", "seed": 1}),
            &[1.0],
        );
        std::fs::write(dir.join("notes.jsonl"), "{\"a\":1}\n").unwrap();
        std::fs::write(dir.join("notes.txt"), "").unwrap();
        let points = read(std::slice::from_ref(&dir)).unwrap();
        // Of four records: 3 right, √(3/4 / 3) / 2 = .25; 8 positions in 2 forwards; 20 useful tokens in a second.
        let a = &points[0];
        assert_eq!((a.model.as_str(), a.task.as_str(), a.n), ("tiny", "GSM8K (seed 0)", Some(4)));
        assert_eq!((a.score, a.standard_error, a.nfe, a.tokens_per_forward), (75.0, Some(25.0), 2.0, 4.0));
        assert_eq!((a.useful_per_second, a.outcomes.len()), (Some(20.0), 4));
        assert_eq!((points[1].task.as_str(), points[1].standard_error, points.len()), ("GSM8K (seed 1)", None, 2));
        std::fs::remove_dir_all(dir).ok();
    }

    #[test]
    fn a_sampler_that_is_not_registered_here_is_a_point_too() {
        let dir = folder("foreign");
        file(&dir, "a.jsonl", &json!({"model": "m", "task": "sums", "sampler": "peaks:0.5,2@wide+ad"}), &[1.0]);
        // Of one that is, what was left out is written out.
        file(&dir, "b.jsonl", &json!({"model": "m", "task": "sums", "sampler": "klass"}), &[1.0]);
        let names: Vec<String> =
            read(std::slice::from_ref(&dir)).unwrap().iter().map(|p| p.sampler.to_string()).collect();
        let klass: cofill::SamplerSpec = "klass".parse().unwrap();
        assert_eq!(names, ["peaks @wide 0.5,2 +AD".to_owned(), format!("KLASS {}", klass.form().params_text())]);
        std::fs::remove_dir_all(dir).ok();
    }

    /// Options that are the default are not named, and are told apart from others all the same.
    #[test]
    fn an_option_that_one_run_names_sets_it_apart() {
        let dir = folder("apart");
        let plain = json!({"model": "m", "task": "sums", "sampler": "topk:4", "seed": 0});
        let guided = json!({"model": "m", "task": "sums", "sampler": "topk:4+ad", "seed": 0, "cfg": 0.5});
        file(&dir, "a.jsonl", &plain, &[1.0]);
        file(&dir, "b.jsonl", &guided, &[1.0]);
        let points = read(std::slice::from_ref(&dir)).unwrap();
        let tasks: Vec<&str> = points.iter().map(|point| point.task.as_str()).collect();
        assert_eq!(tasks, ["sums (cfg -)", "sums (cfg 0.5)"]);
        std::fs::remove_dir_all(dir).ok();
    }

    /// A sampler that consults a companion is on the same task as one that does not; two companions of one sampler are two tasks.
    #[test]
    fn what_a_sampler_brings_along_is_no_other_task() {
        let dir = folder("companion");
        let of = |sampler: &str, companion: Option<&str>| match companion {
            Some(name) => {
                json!({"model": "m", "task": "sums", "sampler": sampler, "companion": name, "companion_sha256": name})
            }
            None => json!({"model": "m", "task": "sums", "sampler": sampler}),
        };
        let tasks = || -> Vec<String> {
            read(std::slice::from_ref(&dir)).unwrap().iter().map(|point| point.task.clone()).collect()
        };
        file(&dir, "a.jsonl", &of("topk:4", None), &[1.0]);
        file(&dir, "b.jsonl", &of("apd:0.3", Some("small")), &[1.0]);
        file(&dir, "c.jsonl", &of("apd:0.5", Some("small")), &[1.0]);
        assert_eq!(tasks(), ["sums", "sums", "sums"]);
        file(&dir, "d.jsonl", &of("apd:0.7", Some("large")), &[1.0]);
        assert_eq!(tasks()[1], "sums (companion small, companion_sha256 small)");
        assert_eq!(tasks()[3], "sums (companion large, companion_sha256 large)");
        std::fs::remove_dir_all(dir).ok();
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let dir = folder("refused");
        let said = |path: &Path| read(&[path.to_path_buf()]).unwrap_err().to_string();
        assert!(said(&dir).contains("holds no results"), "{}", said(&dir));
        file(&dir, "empty.jsonl", &json!({"model": "m", "task": "sums", "sampler": "topk:4"}), &[]);
        assert!(said(&dir.join("empty.jsonl")).contains("holds no record; continue the run"));
        file(&dir, "odd.jsonl", &json!({"model": "m", "task": "sums", "sampler": "topk:0"}), &[1.0]);
        let odd = said(&dir.join("odd.jsonl"));
        assert!(odd.contains("line 1: sampler is `topk:0`; ") && odd.contains("topk:K"), "{odd}");
        file(&dir, "torn.jsonl", &json!({"model": "m", "task": "sums", "sampler": "Peaks 4"}), &[1.0]);
        let torn = said(&dir.join("torn.jsonl"));
        assert!(
            torn.contains("line 1: sampler is `Peaks 4`; ") && torn.contains("not written as a sampler is"),
            "{torn}"
        );
        file(&dir, "none.jsonl", &json!({"model": 7, "task": "sums", "sampler": "topk:4"}), &[1.0]);
        assert!(said(&dir.join("none.jsonl")).contains("line 1: model is 7; it must be a text"));
        assert!(said(Path::new("/nowhere.jsonl")).contains("cannot read `/nowhere.jsonl`"));
        std::fs::remove_dir_all(dir).ok();
    }
}
