//! The corpus of attacks: templates and tokenizers that a stranger may ship with a checkpoint. Each must end in the error that it
//! is listed with, or in a result. Whatever reads templates, tokenizers or regular expressions is tried with all of them.

use crate::checkpoint::Folder;
use crate::mutate::{self, sound};
use cofill_model::{ChatTemplate, Message, Tokenizer};
use serde_json::{Value, json};

/// One attack: its name, what must become of it, and its text.
struct Attack {
    name: String,
    want: String,
    text: String,
}

/// Reads a corpus; its first lines explain the format.
fn corpus(text: &str) -> Vec<Attack> {
    let mut attacks: Vec<Attack> = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("#!")) {
        match (line.strip_prefix("#! "), attacks.last_mut()) {
            (Some(head), _) => {
                let (name, want) = head.split_once(" | ").unwrap();
                attacks.push(Attack { name: name.into(), want: want.into(), text: String::new() });
            }
            (None, Some(attack)) if !line.is_empty() => attack.text += &(expand(line) + "\n"),
            _ => {}
        }
    }
    let mut names: Vec<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice");
    attacks
}

/// `<<N*TEXT>>` becomes N times TEXT, the innermost first.
fn expand(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some(start) = line.rfind("<<") {
        let end = start + line[start..].find(">>").unwrap();
        let (n, text) = line[start + 2..end].split_once('*').unwrap();
        let repeated = text.repeat(n.parse().unwrap());
        line.replace_range(start..end + 2, &repeated);
    }
    line
}

/// What is wrong with what became of an attack.
fn judge(attack: &Attack, result: Result<String, String>) -> Option<String> {
    let Attack { name, want, .. } = attack;
    match (want.as_str(), result) {
        ("ok", Ok(_)) => None,
        ("ok", Err(error)) => Some(format!("{name} must be harmless, but: {}", clip(&error))),
        (want, Ok(text)) => Some(format!("{name} must be refused with `{want}`, but gives: {}", clip(&text))),
        (want, Err(error)) => (!error.contains(want)).then(|| format!("{name}: no `{want}` in: {}", clip(&error))),
    }
}

fn clip(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Longer is a hang. On a machine that does nothing else, none takes a second.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(30);

#[test]
fn every_hostile_template_is_refused_or_bounded() {
    let attacks = corpus(include_str!("hostile/templates.txt"));
    assert!(attacks.len() >= 60, "only {}", attacks.len());
    let mut wrong = Vec::new();
    for attack in &attacks {
        let folder = Folder::new();
        folder.put("chat_template.jinja", &attack.text);
        let messages = [Message::new("user", "Hi <there>"), Message::new("assistant", "Hello")];
        let begun = std::time::Instant::now();
        let rendered = ChatTemplate::load(folder.path()).and_then(|chat| chat.unwrap().render(&messages, true));
        if begun.elapsed() > LONGEST {
            wrong.push(format!("{} took {:?}", attack.name, begun.elapsed()));
        }
        wrong.extend(judge(attack, rendered.map_err(|error| error.to_string())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Puts a value where a pointer leads.
fn put(json: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match json.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
}

#[test]
fn every_hostile_tokenizer_is_refused_or_bounded() {
    let attacks = corpus(include_str!("hostile/tokenizers.txt"));
    assert!(attacks.len() >= 60, "only {}", attacks.len());
    let mut wrong = Vec::new();
    for attack in &attacks {
        let (mut file, mut raw, mut config, mut text) = (sound(), None, None, "Hello <mask> abab".to_owned());
        for line in attack.text.lines() {
            let (key, value) = line.split_once(" =").unwrap();
            let value = value.trim_start_matches(' ').to_owned();
            match key {
                "raw" => raw = Some(value),
                "config" => config = Some(value),
                "text" => text = line.split_once(" = ").map_or("", |(_, text)| text).to_owned(),
                // Too deep for this reader: put in by its text.
                pointer
                    if value.len() > 100_000 && value.starts_with("{\"type\": \"Sequence\", \"normalizers\": [{") =>
                {
                    put(&mut file, pointer, json!("DEEP"));
                    raw = Some(file.to_string().replace("\"DEEP\"", &value));
                }
                pointer => put(&mut file, pointer, serde_json::from_str(&value).unwrap()),
            }
        }
        let folder = Folder::new();
        folder.put("tokenizer.json", raw.unwrap_or_else(|| file.to_string()));
        if let Some(config) = config {
            folder.put("tokenizer_config.json", config);
        }
        let encoded = Tokenizer::load(folder.path()).and_then(|tokenizer| {
            let ids = tokenizer.encode(&text)?;
            assert_eq!(tokenizer.encode(&text)?, ids, "{} gives two encodings of one text", attack.name);
            tokenizer.decode(&ids, false)?;
            tokenizer.decode(&[0, 1, 2, 255, 256, 257, 99_999, u32::MAX], true)?;
            Ok(tokenizer.piece(0) + &tokenizer.piece(257))
        });
        wrong.extend(judge(attack, encoded.map_err(|error| error.to_string())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A short run of what `tools/fuzz` does ten thousand times.
#[test]
fn mutated_templates_and_tokenizers_end_in_a_result_or_an_error() {
    for kind in [mutate::Kind::Template, mutate::Kind::Tokenizer] {
        let mut loaded = 0;
        for number in 0..300 {
            let folder = Folder::new();
            let case = mutate::case(kind, number);
            let outcome = mutate::run(kind, number, &case, folder.path());
            assert!(!outcome.contains(mutate::FAULT), "{kind:?} {number}: {outcome}\n{case}");
            loaded += usize::from(outcome == "ok");
        }
        // Mutations that are all refused at the door try nothing behind it.
        assert!(loaded >= 30, "only {loaded} of 300 {kind:?} work");
    }
}
