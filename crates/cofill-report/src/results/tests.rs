use super::*;

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cofill-results-{}-{name}.jsonl", std::process::id()));
    std::fs::remove_file(&path).ok();
    path
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap() + "\n"
}

fn header(sampler: &str) -> Header {
    let Value::Object(what) = json!({"task": "chain", "sampler": sampler}) else { unreachable!() };
    Header { cofill_eval: VERSION, what, made_by: json!({"version": "1"}) }
}

fn record(doc_id: usize, score: f64) -> Record {
    let filters = json!({"strict": {"filtered": "18", "metrics": {"exact": score}}, "loose": {"filtered": "18", "metrics": {"exact": 1.0}}});
    Record {
        companion_nfe: 0,
        cache: None,
        doc_id,
        prompt_sha256: "00".into(),
        tokens: vec![1, 2],
        text: "line\nbreak".into(),
        filters: filters.as_object().cloned().unwrap(),
        score,
        notes: Map::new(),
        nfe: 2,
        steps: None,
        filled: 8,
        useful: None,
        seconds: 0.125,
    }
}

#[test]
fn a_file_that_was_cut_anywhere_is_continued_to_the_same_file() {
    let path = scratch("cut");
    let mut results = Results::create(&path, &header("topk:1"), Existing::Refuse).unwrap();
    for i in 0..4 {
        results.append(&record(i, 1.0)).unwrap();
    }
    drop(results);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (mut results, done) = Results::resume(&path, &header("topk:1")).unwrap();
        assert!(done.iter().enumerate().all(|(i, found)| *found == record(i, 1.0)));
        for i in done.len()..4 {
            results.append(&record(i, 1.0)).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
    let (read, records) = Results::read(&path).unwrap();
    assert_eq!((read, records.len()), (header("topk:1"), 4));
    std::fs::remove_file(path).ok();
}

#[test]
fn nothing_is_overwritten_or_mixed() {
    let path = scratch("mixed");
    Results::create(&path, &header("topk:1"), Existing::Refuse).unwrap().append(&record(0, 1.0)).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(
        Results::create(&path, &header("topk:1"), Existing::Refuse)
            .unwrap_err()
            .to_string()
            .contains("exists; continue it, replace it")
    );
    let error = Results::resume(&path, &header("topk:2")).unwrap_err().to_string();
    assert!(error.contains("its sampler is \"topk:1\", and now sampler is \"topk:2\""), "{error}");
    // Who made it may differ; that is why it is written down.
    let elsewhere = Header { made_by: json!({"version": "2"}), ..header("topk:1") };
    assert_eq!(Results::resume(&path, &elsewhere).unwrap().1.len(), 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(path).ok();
}

#[test]
fn damage_is_named_by_its_line() {
    let path = scratch("damaged");
    let cases = [
        (vec![line(&header("x")), line(&record(1, 1.0))], "line 2: example 1 where 0 belongs"),
        (vec![line(&header("x")), "{}\n".into()], "line 2: not a record"),
        (vec!["{\"a\":1}\n".into()], "line 1: not a header of results"),
        (vec![line(&Header { cofill_eval: 9, ..header("x") })], "format 9, but this program reads up to 2"),
        (vec!["\n".into()], "line 1: there is no header"),
        // What has no end may only be the beginning of what we would have written.
        (vec!["notes".into()], "line 1: not a header of results"),
        (vec![line(&header("x")), "notes".into()], "line 2: not a record"),
        (vec![line(&header("x")), line(&record(0, 1.0)), "{\"doc_id\":0".into()], "line 3: not a record"),
        (vec![line(&header("y")).trim_end().into()], "holds another run: its sampler is \"y\""),
    ];
    for (lines, said) in cases {
        std::fs::write(&path, lines.concat()).unwrap();
        let error = Results::resume(&path, &header("x")).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines.concat(), "untouched");
    }
    std::fs::remove_file(path).ok();
}

#[test]
fn totals_of_known_numbers() {
    let mut totals = Totals::default();
    for (i, score) in [1.0, 1.0, 1.0, 0.0].into_iter().enumerate() {
        totals.add(&record(i, score));
    }
    // 3 of 4: √(3/4 / 3) / 2.
    assert_eq!((totals.n, totals.score()), (4, (0.75, Some(0.25))));
    assert_eq!((totals.mean_nfe(), totals.per_forward(), totals.seconds), (2.0, 4.0, 0.5));
    assert_eq!(totals.means()["strict"]["exact"], json!({"mean": 0.75, "standard_error": 0.25}));
    assert_eq!(totals.means()["loose"]["exact"], json!({"mean": 1.0, "standard_error": 0.0}));
}

#[test]
fn steps_are_written_where_there_were_fewer_than_forwards() {
    let plain = record(0, 1.0);
    assert!(
        !serde_json::to_string(&plain).unwrap().contains("steps"),
        "files of samplers that do not look ahead stay as they were"
    );
    let ahead = Record { nfe: 9, steps: Some(3), ..plain.clone() };
    let line = serde_json::to_string(&ahead).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), ahead);
    let mut totals = Totals::default();
    [&plain, &ahead].into_iter().for_each(|record| totals.add(record));
    // (2 + 9) / 2 forwards, (2 + 3) / 2 steps.
    assert_eq!((totals.mean_nfe(), totals.mean_steps()), (5.5, 2.5));
}
