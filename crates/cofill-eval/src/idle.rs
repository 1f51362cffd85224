//! Options that would say nothing: each belongs to some tasks, and with the others it is an error rather than silence.

use crate::own::FileTask;
use crate::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill_tasks::TaskName;
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::judge::Math;
use cofill_tasks::mini::{Form, Mini};
use cofill_tasks::own::Checker;

/// An option that a task does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} is for {applies}, and {task}")]
pub struct Idle {
    /// The option's name.
    pub option: &'static str,
    /// The tasks that have it.
    pub applies: &'static str,
    /// What the task is, in words.
    pub task: String,
}

/// Options by name, and the tasks that have them.
const OPTIONS: [(&str, &str); 12] = [
    ("split", "mini tasks and task files"),
    ("corpus_seed", "mini tasks, whose prompts are drawn"),
    ("shots", "benchmarks with few-shot examples and task files with [fewshot]"),
    ("ranks", "gsm8k, whose examples the harness draws on each process"),
    ("wrapper", "benchmarks"),
    ("data", "benchmarks and infill, which read files"),
    ("math", "math500"),
    (
        "python",
        "tasks that run Python: humaneval, mbpp, task files that judge by a program, and math500 with math sympy",
    ),
    ("unsafe_exec", "tasks that run generated programs: humaneval, mbpp, task files that judge by one"),
    ("allow_command", "task files that judge by a command"),
    ("length", "tasks that continue a prompt"),
    ("stop", "tasks that continue a prompt"),
];

/// The first option that a score is told and its task does not have. A task file must be open.
pub fn idle(spec: &EvalSpec, file: Option<&FileTask>) -> Option<Idle> {
    let mut given = given(&spec.questions, &spec.judges);
    given.extend(spec.data.is_some().then_some("data"));
    given.extend(spec.run.length.is_some().then_some("length"));
    given.extend((!spec.run.stop.is_empty()).then_some("stop"));
    let idle = given.into_iter().find(|option| !has(&spec.task, file, option, &spec.judges))?;
    Some(describe(idle, &words(&spec.task)))
}

/// The same for several tasks that share their options: one that none of them has.
pub fn idle_for_all(tasks: &[TaskName], questions: &TaskOptions, judges: &JudgeOptions) -> Option<Idle> {
    let none_has = |option: &&str| !tasks.iter().any(|task| has(task, None, option, judges));
    let idle = given(questions, judges).into_iter().find(none_has)?;
    let words: Vec<String> = tasks.iter().map(words).collect();
    Some(describe(idle, &words.join(", ")))
}

fn describe(option: &'static str, task: &str) -> Idle {
    let applies = OPTIONS.iter().find(|(name, _)| *name == option).map_or("other tasks", |(_, applies)| applies);
    Idle { option, applies, task: task.into() }
}

/// The options that are not as they would be without a word.
fn given(questions: &TaskOptions, judges: &JudgeOptions) -> Vec<&'static str> {
    let (usual, usually) = (TaskOptions::default(), JudgeOptions::default());
    let all = [
        ("split", questions.split.is_some()),
        ("corpus_seed", questions.corpus_seed != usual.corpus_seed),
        ("shots", questions.shots.is_some()),
        ("ranks", questions.ranks != usual.ranks),
        ("wrapper", questions.wrapper.is_some()),
        ("math", judges.math != usually.math),
        ("python", judges.python != usually.python),
        ("unsafe_exec", judges.unsafe_exec),
        ("allow_command", judges.allow_command),
    ];
    all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// What a task is, for the end of a message.
fn words(task: &TaskName) -> String {
    match task {
        TaskName::Mini(task) if task.form() == Form::Infill => format!("`{task}` is a mini task that fills gaps"),
        TaskName::Mini(task) => format!("`{task}` is a mini task"),
        TaskName::Benchmark(Benchmark::Humaneval) => "`humaneval` is a benchmark without examples".into(),
        TaskName::Benchmark(task) => format!("`{task}` is a benchmark"),
        TaskName::Infill => "`infill` fills gaps in texts of your own".into(),
        TaskName::File(_) => format!("`{}` is a task file that needs none", task.name()),
    }
}

/// Whether a task has an option. Of a task file that is not open, whether it could have.
fn has(task: &TaskName, file: Option<&FileTask>, option: &str, judges: &JudgeOptions) -> bool {
    use Benchmark::{Gsm8k, Humaneval, Math500, Mbpp};
    let checker = file.map(|file| file.task.checker());
    let runs_python = || match task {
        TaskName::Benchmark(benchmark) => matches!(benchmark, Humaneval | Mbpp),
        TaskName::File(_) => checker.is_none_or(|checker| matches!(checker, Checker::Python(_))),
        TaskName::Mini(_) | TaskName::Infill => false,
    };
    match option {
        "split" => matches!(task, TaskName::Mini(_) | TaskName::File(_)),
        "corpus_seed" => matches!(task, TaskName::Mini(_)),
        "shots" => match task {
            TaskName::Benchmark(benchmark) => *benchmark != Humaneval,
            // One that has no examples says so itself, when it is opened.
            TaskName::File(_) => true,
            TaskName::Mini(_) | TaskName::Infill => false,
        },
        "ranks" => *task == TaskName::Benchmark(Gsm8k),
        "wrapper" => matches!(task, TaskName::Benchmark(_)),
        "data" => matches!(task, TaskName::Benchmark(_) | TaskName::Infill),
        "math" => *task == TaskName::Benchmark(Math500),
        "python" => runs_python() || (*task == TaskName::Benchmark(Math500) && judges.math == Math::Sympy),
        "unsafe_exec" => runs_python(),
        "allow_command" => {
            let could = checker.is_none_or(|checker| matches!(checker, Checker::Command(_)));
            matches!(task, TaskName::File(_)) && could
        }
        "length" | "stop" => !matches!(task, TaskName::Infill | TaskName::Mini(Mini::Predicates)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn spec(task: &str) -> EvalSpec {
        EvalSpec::new(task.parse().unwrap(), "m", "topk:1".parse().unwrap())
    }

    /// The option that is refused, if one is.
    fn refused(task: &str, tell: impl FnOnce(&mut EvalSpec)) -> Option<&'static str> {
        let mut spec = spec(task);
        tell(&mut spec);
        idle(&spec, None).map(|idle| idle.option)
    }

    #[test]
    fn every_option_with_every_kind_of_task() {
        type Tell = fn(&mut EvalSpec);
        let tell: [(&str, Tell); 12] = [
            ("split", |spec| spec.questions.split = Some(cofill_tasks::mini::Split::Test)),
            ("corpus_seed", |spec| spec.questions.corpus_seed = 7),
            ("shots", |spec| spec.questions.shots = Some(0)),
            ("ranks", |spec| spec.questions.ranks = NonZeroUsize::new(2).unwrap()),
            ("wrapper", |spec| spec.questions.wrapper = Some(cofill_tasks::wrapper::Wrapper::Plain)),
            ("data", |spec| spec.data = Some("x".into())),
            ("math", |spec| spec.judges.math = Math::Sympy),
            ("python", |spec| spec.judges.python = "python9".into()),
            ("unsafe_exec", |spec| spec.judges.unsafe_exec = true),
            ("allow_command", |spec| spec.judges.allow_command = true),
            ("length", |spec| spec.run.length = Some(8.into())),
            ("stop", |spec| spec.run.stop = vec!["x".into()]),
        ];
        let has = |task: &str, options: &[&str]| {
            for (option, tell) in tell {
                let expected = if options.contains(&option) { None } else { Some(option) };
                assert_eq!(refused(task, tell), expected, "{option} with {task}");
            }
        };
        has("chain", &["split", "corpus_seed", "length", "stop"]);
        has("predicates", &["split", "corpus_seed"]);
        has("infill", &["data"]);
        has("gsm8k", &["shots", "ranks", "wrapper", "data", "length", "stop"]);
        has("math500", &["shots", "wrapper", "data", "math", "length", "stop"]);
        has("humaneval", &["wrapper", "data", "python", "unsafe_exec", "length", "stop"]);
        has("mbpp", &["shots", "wrapper", "data", "python", "unsafe_exec", "length", "stop"]);
        // Not open: what it may have.
        has("my.toml", &["split", "shots", "python", "unsafe_exec", "allow_command", "length", "stop"]);
        assert_eq!(refused("chain", |_| {}), None);
        // Sympy is Python.
        let sympy = |spec: &mut EvalSpec| (spec.judges.math, spec.judges.python) = (Math::Sympy, "python9".into());
        assert_eq!(refused("math500", sympy), None);
    }

    #[test]
    fn the_message_says_what_has_it() {
        let mut spec = spec("chain");
        spec.questions.shots = Some(2);
        let said = idle(&spec, None).unwrap().to_string();
        assert_eq!(
            said,
            "shots is for benchmarks with few-shot examples and task files with [fewshot], and `chain` is a mini task"
        );
    }

    #[test]
    fn one_of_several_tasks_is_enough() {
        let tasks: Vec<TaskName> = ["chain", "gsm8k"].map(|task| task.parse().unwrap()).into();
        let questions = TaskOptions { shots: Some(2), ..TaskOptions::default() };
        assert_eq!(idle_for_all(&tasks, &questions, &JudgeOptions::default()), None);
        assert_eq!(idle_for_all(&tasks[..1], &questions, &JudgeOptions::default()).unwrap().option, "shots");
    }
}
