//! The options of the command line, changed in the middle of a chat: by the same names, through the same parser, with the same refusals.

use crate::fail::{Done, Fail};
use clap::{ArgAction, Args as _, Command, FromArgMatches as _};
use cofill_engine::{Engine, RunOptions, RunSpec};
use serde_json::Value;

/// What is decided when a model is loaded, or is no choice in a chat.
const NOT_HERE: [&str; 4] = ["model", "dtype", "device", "chat"];

/// As if it had not been given.
const OFF: &str = "off";

fn flags() -> Command {
    RunSpec::augment_args(Command::new("cofill chat").no_binary_name(true).disable_help_flag(true))
}

/// The options that can change.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let names: Vec<String> = flags().get_arguments().filter_map(|arg| arg.get_long().map(String::from)).collect();
    names.into_iter().filter(|name| !NOT_HERE.contains(&name.as_str()))
}

/// The value of an option, for people.
pub(crate) fn value(run: &RunSpec, flag: &str) -> String {
    if flag == "sampler" {
        return run.sampler.to_string();
    }
    match field(&run.options, flag) {
        Value::Null | Value::Bool(false) => "off".into(),
        Value::Bool(true) => "on".into(),
        Value::Array(all) if all.is_empty() => "off".into(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        value => plain(&value),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// Gives an option another value, or refuses as the command line would. What was refused changes nothing.
pub(crate) fn set(run: &mut RunSpec, engine: &mut Engine, flag: &str, value: &str) -> Done<()> {
    let parsed = parse(flag, value)?;
    if flag == "sampler" {
        let sampler = engine.settle(&parsed.sampler)?;
        run.options.check_companion(&sampler)?;
        run.sampler = sampler;
        return Ok(());
    }
    let mut fields = serde_json::to_value(&run.options)?;
    fields[flag.replace('-', "_")] = field(&parsed.options, flag);
    let options: RunOptions = serde_json::from_value(fields)?;
    options.check()?;
    options.check_companion(&run.sampler)?;
    if let Err(refused) = engine.configure(&options) {
        engine.configure(&run.options)?;
        return Err(refused.into());
    }
    run.options = options;
    Ok(())
}

fn field(options: &RunOptions, flag: &str) -> Value {
    // A struct of numbers, texts and lists is always an object.
    serde_json::to_value(options).map_or(Value::Null, |fields| fields[flag.replace('-', "_")].clone())
}

/// A command line with this option alone.
fn parse(flag: &str, value: &str) -> Done<RunSpec> {
    let is_switch = flags()
        .get_arguments()
        .any(|arg| arg.get_long() == Some(flag) && matches!(arg.get_action(), ArgAction::SetTrue));
    let given = match (is_switch, value) {
        (_, OFF) => Vec::new(),
        (true, "on") => vec![format!("--{flag}")],
        (true, other) => return Err(Fail::request(format!("/{flag} is `on` or `off`, and `{other}` was given"))),
        (false, value) => vec![format!("--{flag}={value}")],
    };
    let parsed = flags().try_get_matches_from(given).and_then(|matches| RunSpec::from_arg_matches(&matches));
    parsed.map_err(|error| Fail::request(said(&error)))
}

/// What clap says, without what only makes sense on a command line.
fn said(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\nFor more information").next().unwrap_or(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill_engine::Length;

    fn toy() -> (RunSpec, Engine) {
        let run = RunSpec::new("toy", "topk:2".parse().unwrap());
        let engine = Engine::open("toy", &run.options).unwrap();
        (run, engine)
    }

    #[test]
    fn an_option_changes_and_the_others_stay() {
        let (mut run, mut engine) = toy();
        for (flag, value) in [("temperature", "0.5"), ("length", "auto"), ("top-p", "0.9"), ("stop", "a b")] {
            set(&mut run, &mut engine, flag, value).unwrap();
        }
        set(&mut run, &mut engine, "sampler", "topk:4+ad").unwrap();
        let options = &run.options;
        assert_eq!((options.temperature, options.length, options.top_p), (0.5, Some(Length::Auto), Some(0.9)));
        assert_eq!((options.stop.as_slice(), options.seed), (["a b".to_string()].as_slice(), 0));
        assert_eq!(
            ["sampler", "length", "stop", "seed", "block"].map(|flag| value(&run, flag)),
            ["topk:4+ad:40", "auto", "a b", "0", "off"]
        );
        set(&mut run, &mut engine, "top-p", "off").unwrap();
        set(&mut run, &mut engine, "logits-eos-inf", "on").unwrap();
        assert_eq!((run.options.top_p, run.options.logits_eos_inf), (None, true));
    }

    #[test]
    fn what_is_refused_changes_nothing_and_is_refused_as_on_the_command_line() {
        let (mut run, mut engine) = toy();
        let before = run.options.clone();
        let mut refused = |flag: &str, value: &str| match set(&mut run, &mut engine, flag, value) {
            Err(Fail::Request(error)) => format!("{error:#}"),
            other => panic!("{flag} {value}: {other:?}"),
        };
        let length = refused("length", "-1");
        assert!(length.starts_with("invalid value '-1' for '--length <N>': expected a whole number"), "{length}");
        assert!(refused("temperature", "-1").contains("temperature must be a finite number, 0 or more"));
        assert!(refused("sampler", "topkk:2").contains("unknown sampler `topkk:2`"));
        assert!(refused("sampler", "apd:0.7").contains("--companion"));
        assert!(refused("cfg", "1").contains("the toy has no prompt to do without"));
        assert_eq!(run.options, before);
    }

    #[test]
    fn what_a_model_is_loaded_with_is_not_among_them() {
        let names: Vec<String> = names().collect();
        assert!(
            ["sampler", "length", "seed", "temperature", "block"].iter().all(|name| names.contains(&(*name).into()))
        );
        assert!(NOT_HERE.iter().all(|name| !names.contains(&(*name).into())));
    }
}
