#![cfg(unix)] // they speak to `sh`

use super::*;
use serde_json::json;

fn judge(script: &str, timeout: Duration) -> CommandJudge {
    let check = CommandCheck { argv: vec!["sh".into(), "-c".into(), script.into()], timeout };
    CommandJudge::new(&check, &std::env::temp_dir())
}

/// Longer than anything here takes on a loaded machine; what should hang is given less.
const LONG: Duration = Duration::from_secs(300);

fn answers(n: usize) -> Vec<Value> {
    (0..n).map(|doc| json!({"doc_id": doc, "answer": format!("answer {doc}"), "row": {}})).collect()
}

fn scores(script: &str, n: usize) -> Vec<Result<f64, String>> {
    let judged = judge(script, LONG).scores(&answers(n));
    judged.into_iter().map(|score| score.map(|score| score.score)).collect()
}

/// Why a single answer was not judged.
fn failure(script: &str, timeout: Duration) -> String {
    judge(script, timeout).scores(&answers(1)).remove(0).unwrap_err()
}

#[test]
fn a_line_in_is_a_line_out() {
    let each = "while read -r line; do case $line in *'answer 1'*) echo '{\"score\": 1, \"why\": \"yes\"}';; *) echo '{\"score\": false}';; esac; done";
    assert_eq!(scores(each, 3), [Ok(0.0), Ok(1.0), Ok(0.0)]);
    assert_eq!(judge(each, LONG).scores(&answers(2))[1].as_ref().unwrap().why.as_deref(), Some("yes"));
    assert_eq!(scores("cat > /dev/null; echo '{\"score\": 0.5, \"doc_id\": 0}'", 1), [Ok(0.5)]);
    assert_eq!(scores("exit 3", 0), []);
}

#[test]
fn whatever_a_command_does_instead_judges_nothing() {
    let fails = |script: &str, said: &str| {
        let failure = failure(script, LONG);
        assert!(failure.contains(said), "{script}: {failure}");
    };
    fails("exit 3", "exit status: 3");
    fails("echo cannot import x >&2; exit 1", "it said: cannot import x");
    fails("cat > /dev/null", "the command wrote 0 lines for 1 answers");
    fails("echo '{\"score\": 1}'; echo '{\"score\": 1}'", "wrote 2 lines for 1 answers");
    fails("echo hello", "line 1 of the command is not JSON: `hello`");
    fails("printf '\\377\\000\\n'", "is not JSON");
    fails("echo '{\"score\": 2}'", "has the score 2, but it must be from 0 to 1");
    fails("echo '{\"score\": \"high\"}'", "has the score \"high\", which is no number");
    fails("echo '{\"scor\": 1}'", "has no `score`");
    fails("echo '[]'", "has no `score`");
    fails("echo '{\"score\": 1, \"doc_id\": 7}'", "is about doc_id 7, where 0 belongs");
    fails("kill -9 $$", "signal: 9");
    // Endless output, on either pipe; a closed stdin; a closed stdout.
    fails("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "wrote more than");
    fails("head -c 3000000 /dev/zero >&2; exit 1", "exit status: 1");
    fails("exec <&-; exec >&-; exit 0", "wrote 0 lines");
    let check = CommandCheck { argv: vec!["/nowhere/judge".into()], timeout: LONG };
    let missing = CommandJudge::new(&check, Path::new(".")).scores(&answers(1)).remove(0).unwrap_err();
    assert!(missing.contains("`/nowhere/judge` cannot be started"), "{missing}");
}

#[test]
fn one_answer_costs_only_itself() {
    // Dies of the second answer, whoever stands beside it.
    let script = "while read -r line; do case $line in *'answer 1'*) exit 1;; *) echo '{\"score\": 1}';; esac; done";
    let judged = scores(script, 3);
    assert_eq!((&judged[0], &judged[2]), (&Ok(1.0), &Ok(1.0)));
    assert!(judged[1].as_ref().unwrap_err().contains("exit status: 1"));
    // A wrong score is one answer's, and nobody is asked again.
    let script = "while read -r line; do case $line in *'answer 1'*) echo '{\"score\": 9}';; *) echo '{\"score\": 1}';; esac; done";
    assert_eq!(scores(script, 3).iter().filter(|judged| judged.is_ok()).count(), 2);
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let file = std::env::temp_dir().join(format!("cofill-command-{}", std::process::id()));
    // The grandchild would hold the pipe for an hour; its number is how we find out that it is gone.
    let script = format!("sleep 3600 & echo $! > {}; wait", file.display());
    let failure = failure(&script, Duration::from_millis(1500));
    assert!(failure.contains("took more than 1.5 seconds"), "{failure}");
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    std::fs::remove_file(file).unwrap();
    if cfg!(target_os = "linux") {
        // Gone, or dead and waiting for whoever adopted it; the signal may still be on its way.
        let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let is_gone = || Some(status()).is_some_and(|status| status.is_empty() || status.contains("State:\tZ"));
        let looked = (0..60_000).any(|_| {
            is_gone() || {
                std::thread::sleep(TICK);
                false
            }
        });
        assert!(looked, "{}", status());
    }
}

#[test]
fn a_child_that_keeps_the_pipe_open_keeps_nobody_waiting() {
    // The command ends, its child does not; what was written counts.
    assert_eq!(scores("cat > /dev/null; sleep 3600 & echo '{\"score\": 1}'", 1), [Ok(1.0)]);
}

#[test]
fn much_is_asked_of_who_reads_nothing() {
    // A megabyte that nobody takes: the pipe is full, and the command ends all the same.
    let answers = vec![json!({"doc_id": 0, "answer": "x".repeat(1 << 20)})];
    let judged = judge("echo '{\"score\": 1}'", LONG).scores(&answers).remove(0);
    assert_eq!(judged.map(|score| score.score), Ok(1.0));
}

#[test]
fn a_program_of_the_folder_is_found_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("cofill-command-folder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("judge.sh");
    std::fs::write(&path, "#!/bin/sh\ncat > /dev/null; test -f judge.sh && echo '{\"score\": 1}'\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let check = CommandCheck { argv: vec!["./judge.sh".into()], timeout: LONG };
    let judged = CommandJudge::new(&check, &folder).scores(&answers(1)).remove(0);
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(judged.map(|score| score.score), Ok(1.0));
}
