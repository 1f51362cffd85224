//! Which share of a sweep is ours: what was said, or what the scheduler that started us says.

use crate::fail::{Done, Fail};
use cofill_eval::sweep::Share;
use std::str::FromStr;

/// `i/N`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(given: &str) -> Result<Shard, String> {
        let numbers = given.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if index < of => Ok(Shard { index, of }),
            Some((index, of)) => Err(format!("shard {index} of {of}; shards are counted from 0 and end before {of}")),
            None => Err("expected I/N, as 0/4 for the first of four".into()),
        }
    }
}

/// The share that was asked for, or else that of the array task, completion index or task that we are.
///
/// Kubernetes and HyperQueue say which one we are and not of how many; `COFILL_SHARDS` says that. Without it, the index only decides where
/// to begin: claims keep workers apart in any case.
pub(crate) fn share(given: Option<Shard>, env: impl Fn(&str) -> Option<String>) -> Done<Share> {
    let number = |name: &str| match env(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => match text.parse::<usize>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Fail::request(format!("{name} is `{text}`, which is no number; give --shard I/N"))),
        },
    };
    if let Some(Shard { index, of }) = given {
        return Ok(Share::Part { index, of });
    }
    if let (Some(id), Some(of @ 1..)) = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_COUNT")?) {
        // Arrays may begin anywhere and have holes.
        let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
        return Ok(Share::Part { index: id.saturating_sub(first) % of, of });
    }
    let shards = number("COFILL_SHARDS")?;
    for name in ["JOB_COMPLETION_INDEX", "HQ_TASK_ID"] {
        if let Some(index) = number(name)? {
            return Ok(match shards {
                Some(of @ 1..) => Share::Part { index: index % of, of },
                _ => Share::From { index },
            });
        }
    }
    Ok(Share::All)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Done<Share> {
        share(None, |name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn what_is_said_and_what_schedulers_say() {
        let part = |index, of| Share::Part { index, of };
        let said = share(Some("1/3".parse().unwrap()), |_| Some("7".into()));
        assert_eq!(said.unwrap(), part(1, 3));
        let cases = [
            (vec![], Share::All),
            (vec![("SLURM_ARRAY_TASK_ID", "2"), ("SLURM_ARRAY_TASK_COUNT", "4")], part(2, 4)),
            // --array=5-8; and --array=1,9, whose two shares coincide: claims keep them apart.
            (
                vec![("SLURM_ARRAY_TASK_ID", "6"), ("SLURM_ARRAY_TASK_COUNT", "4"), ("SLURM_ARRAY_TASK_MIN", "5")],
                part(1, 4),
            ),
            (
                vec![("SLURM_ARRAY_TASK_ID", "9"), ("SLURM_ARRAY_TASK_COUNT", "2"), ("SLURM_ARRAY_TASK_MIN", "1")],
                part(0, 2),
            ),
            (vec![("SLURM_ARRAY_TASK_ID", "")], Share::All),
            (vec![("JOB_COMPLETION_INDEX", "3")], Share::From { index: 3 }),
            (vec![("JOB_COMPLETION_INDEX", "3"), ("COFILL_SHARDS", "8")], part(3, 8)),
            (vec![("HQ_TASK_ID", "5"), ("COFILL_SHARDS", "4")], part(1, 4)),
        ];
        for (vars, share) in cases {
            assert_eq!(of(&vars).unwrap(), share, "{vars:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for given in ["", "1", "4/4", "a/b", "-1/2", "0/0"] {
            assert!(given.parse::<Shard>().is_err(), "{given}");
        }
        let Err(Fail::Request(error)) = of(&[("HQ_TASK_ID", "x")]) else { unreachable!() };
        assert!(error.to_string().contains("HQ_TASK_ID is `x`"), "{error}");
    }
}
