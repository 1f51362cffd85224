use crate::run::{COFILL, scratch};
use regex::Regex;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command of the README and what is printed below it.
struct Example {
    command: String,
    shown: String,
}

/// Every command in the README's `console` blocks, in order. What such a block shows is all that is printed, on stdout and stderr, so it holds
/// only what a machine with nothing but the program can do in a moment; the rest stands in `sh` blocks, which `tools/first-hour` runs.
fn examples(readme: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match (line, inside) {
            ("```console", _) => inside = true,
            ("```", _) => inside = false,
            (line, true) if line.starts_with("$ ") => {
                examples.push(Example { command: line[2..].into(), shown: String::new() });
            }
            (line, true) => {
                let Example { command, shown } = examples.last_mut().expect("a command comes first");
                // An open quote goes on in the next line.
                match command.matches('"').count() % 2 {
                    1 => *command += &format!("\n{line}"),
                    _ => *shown += &format!("{line}\n"),
                }
            }
            _ => {}
        }
    }
    examples
}

/// Times differ from run to run, and so does what is made of them.
fn timeless(text: &str) -> String {
    let times = Regex::new(r"\d+(\.\d+)? (useful tokens/s|ms|s)\b").unwrap();
    times.replace_all(text, "# $2").into_owned()
}

/// What a command prints, stdout and stderr as they come.
fn printed(command: &str, dir: &Path) -> String {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bin = Path::new(COFILL).parent().unwrap().to_path_buf();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir).env("PATH", path).env("HOME", dir).env_remove("CLICOLOR_FORCE");
    let mut child = shell.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    drop(shell); // and with it our ends of the pipe
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn the_readme_shows_exactly_what_is_printed() {
    let dir = scratch("readme");
    std::fs::remove_dir_all(&dir).ok(); // what an earlier run wrote would be in the way
    std::fs::create_dir_all(&dir).unwrap();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let examples = examples(&readme);
    let differ = |Example { command, shown }: &Example| {
        let printed = printed(command, &dir);
        (timeless(&printed) != timeless(shown)).then(|| format!("$ {command}\n{printed}"))
    };
    let wrong: Vec<String> = examples.iter().filter_map(differ).collect();
    assert!(wrong.is_empty(), "README.md shows otherwise than these commands print:\n\n{}", wrong.join("\n"));
    assert!(examples.len() >= 10, "the README has console examples");
}
