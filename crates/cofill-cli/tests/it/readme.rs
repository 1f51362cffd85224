use crate::run::scratch;
use std::io::Write;
use std::process::{Command, Stdio};

/// A command of the README and the lines it shows below it.
struct Example {
    command: String,
    shown: Vec<String>,
}

/// The README's console examples, but for those that need a checkpoint or data that nobody here has, or take long.
fn examples() -> Vec<Example> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match (line, inside) {
            ("```console", _) => inside = true,
            ("```", _) => inside = false,
            (line, true) if line.starts_with("$ ") => {
                examples.push(Example { command: line[2..].into(), shown: Vec::new() });
            }
            (line, true) => {
                let Example { command, shown } = examples.last_mut().expect("a command comes first");
                // An open quote goes on in the next line.
                match command.matches('"').count() % 2 {
                    1 => *command += &format!("\n{line}"),
                    _ => shown.push(line.into()),
                }
            }
            _ => {}
        }
    }
    examples.retain(|Example { command, .. }| {
        let here = !command.contains(" -m ") || command.contains(" -m toy ") || command.contains(" -m tiny-");
        let elsewhere = [" models ", " bench ", " diagnose ", " DATA", " --limit 500 ", " sweep "];
        here && !elsewhere.iter().any(|word| command.contains(word))
    });
    examples
}

/// Splits a command line at spaces outside quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words
}

#[test]
fn the_readme_shows_what_happens() {
    let dir = scratch("readme");
    std::fs::remove_dir_all(&dir).ok(); // what an earlier run wrote would be in the way
    std::fs::create_dir_all(&dir).unwrap();
    let mut n = 0;
    for Example { command, shown } in examples() {
        let (input, command_line) = match command.split_once(" | ") {
            Some((echo, rest)) => (words(echo)[1].clone() + "\n", rest),
            None => (String::new(), command.as_str()),
        };
        let args = words(command_line);
        assert_eq!(args[0], "cofill", "{command}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofill"))
            .args(&args[1..])
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        let got: Vec<&str> = text.lines().collect();
        for line in &shown {
            assert!(got.contains(&line.as_str()), "`{command}` does not print `{line}`, but:\n{text}");
        }
        n += 1;
    }
    assert!(n >= 6, "the README has console examples");
}
