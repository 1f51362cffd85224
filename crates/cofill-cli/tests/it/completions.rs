use crate::run::{run, scratch};
#[cfg(unix)]
use {crate::run::COFILL, std::process::Command};

#[test]
fn every_shell_gets_commands_and_flags() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&format!("completions {shell}")).is_fine().stdout.clone();
        for word in ["generate", "quantise", "sampler", "threads", "--"] {
            assert!(script.contains(word) || (shell == "fish" && word == "--"), "{shell}: no `{word}`");
        }
    }
    run("completions tcsh").is_refused(&["tcsh", "bash", "powershell"]);
    run("completions").is_refused(&["<SHELL>"]);
}

/// The script is loaded by the shell it is for, and asked.
#[cfg(unix)]
#[test]
fn bash_completes_a_command_and_a_flag() {
    let dir = scratch("completions");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("cofill.bash"), &run("completions bash").is_fine().stdout).unwrap();
    let ask = r#"source cofill.bash && COMP_WORDS=(cofill gen) COMP_CWORD=1 && _cofill cofill gen cofill && echo "${COMPREPLY[@]}"
        COMP_WORDS=(cofill generate --samp) COMP_CWORD=2 && _cofill cofill --samp generate && echo "${COMPREPLY[@]}""#;
    let Ok(output) = Command::new("bash").args(["-c", ask]).current_dir(&dir).output() else {
        println!("SKIPPED: no bash here");
        return;
    };
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(answer, "generate\n--sampler\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn manual_pages() {
    let page = run("man generate").is_fine().stdout.clone();
    assert!(page.contains(".TH cofill-generate 1") && page.contains("\\-\\-sampler"), "{page}");
    assert!(run("man").is_fine().stdout.contains(".TH cofill 1"));
    assert!(run("man sweep run").is_fine().stdout.contains(".TH cofill-sweep-run 1"));
    run("man generat").is_refused(&["COMMAND", "`generat`", "(did you mean `generate`?)"]);
    run("man samplers all").is_refused(&["`all`", "`samplers` has no commands"]);

    let dir = scratch("man");
    std::fs::remove_dir_all(&dir).ok();
    let line = format!("man --out {}", dir.display());
    let ran = run(&line);
    let pages: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(ran.is_fine().stderr.contains(&format!("wrote {} pages", pages.len())), "{ran}");
    for name in ["cofill.1", "cofill-generate.1", "cofill-models-inspect.1", "cofill-man.1"] {
        assert!(pages.iter().any(|page| page == name), "no {name} in {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    run(&line).is_refused(&["--out", "exists", "--force"]);
    run(&format!("{line} --force")).is_fine();
    #[cfg(unix)]
    run("man --out /dev/null/pages").is_refused(&["--out", "/dev/null/pages"]);
}

/// A reader that has seen enough is no error, nor a panic of a generator.
#[cfg(unix)]
#[test]
fn a_pipe_that_closes_is_no_error() {
    for command in ["completions bash", "man generate", "generate --help"] {
        let mut child = Command::new(COFILL)
            .args(command.split(' '))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command}");
    }
}
