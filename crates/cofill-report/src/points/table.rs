//! Operating points from a table of numbers, such as a paper's appendix: comma-separated values with a first line that names the columns.
//!
//! `model,rule,param,task,variant,score,nfe` are needed, in any order; `length`, `n` and others ([`OPTIONAL`]) may be there. Scores and errors are
//! in percent. [`write()`] makes such a table again. What a benchmark leaves unsaid is known here: its length (tokens per forward are length / nfe), and how many questions its
//! test split has, from which the error of a score follows.

use super::files::parts;
use super::{ADAS, BASE, Error, Point, Points};
use cofill::{Registry, SamplerSpec};
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::data;
use std::collections::HashMap;
use std::path::Path;

/// Columns a table must have.
pub const NEEDED: [&str; 7] = ["model", "rule", "param", "task", "variant", "score", "nfe"];
/// Columns it may have.
pub const OPTIONAL: [&str; 5] = ["length", "n", "standard_error", "tokens_per_forward", "useful_per_second"];

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<Point>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
    parse(path, &text)
}

/// The points of a text; `path` is for messages.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Point>, Error> {
    let refused = |line: usize, problem: String| Error::Row { path: path.into(), line, problem };
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let names = || NEEDED.join(",");
    let (at, first) =
        lines.next().ok_or_else(|| refused(1, format!("there is no line; the first one must be `{}`", names())))?;
    let columns = cells(first).ok_or_else(|| refused(at + 1, "a quote is not closed; close it".into()))?;
    if let Some(missing) = NEEDED.iter().find(|name| !columns.iter().any(|column| column == *name)) {
        return Err(refused(at + 1, format!("there is no column `{missing}`; the first line must be `{}`", names())));
    }
    for (i, column) in columns.iter().enumerate() {
        let known = NEEDED.contains(&column.as_str()) || OPTIONAL.contains(&column.as_str());
        if !known || columns[..i].contains(column) {
            let (why, may) = (if known { "is there twice" } else { "is unknown" }, OPTIONAL.join(", "));
            return Err(refused(at + 1, format!("column `{column}` {why}; allowed are {}, and {may}", names())));
        }
    }
    let row = |(i, line): (usize, &str)| {
        let cells = cells(line).ok_or_else(|| refused(i + 1, "a quote is not closed; close it".into()))?;
        if cells.len() != columns.len() {
            let (want, got) = (columns.len(), cells.len());
            let hint = "write one for every column, and quotes around a field with a comma";
            return Err(refused(i + 1, format!("{got} fields, but there are {want} columns; {hint}")));
        }
        let cells = columns.iter().map(String::as_str).zip(cells).collect();
        Row { path, line: i + 1, cells }.point()
    };
    lines.map(row).collect()
}

/// Points as a table that [`parse`] reads.
pub fn write(points: &Points) -> String {
    let columns = NEEDED.into_iter().chain(OPTIONAL.into_iter().skip(1)).collect::<Vec<_>>();
    let mut text = columns.join(",") + "\n";
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    for p in points.all() {
        let words = [&p.model, &p.rule, &p.param, &p.task, &p.variant].map(|word| quoted(word));
        let numbers = [Some(p.score), Some(p.nfe), p.n.map(|n| n as f64), p.standard_error];
        let more = [Some(p.tokens_per_forward), p.useful_per_second];
        let cells = words.into_iter().chain(numbers.into_iter().chain(more).map(number));
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// A field, in quotes when it needs them.
pub fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

/// One line by column.
struct Row<'a> {
    path: &'a Path,
    line: usize,
    cells: HashMap<&'a str, String>,
}

impl Row<'_> {
    fn point(&self) -> Result<Point, Error> {
        let task = self.word("task")?;
        let bench = Benchmark::ALL.into_iter().find(|bench| bench.name().eq_ignore_ascii_case(task));
        let score = self.number("score", 0.0, 100.0)?.ok_or_else(|| self.refused("score", "give a percentage"))?;
        let nfe = self.number("nfe", f64::MIN_POSITIVE, 1e9)?;
        let nfe = nfe.ok_or_else(|| self.refused("nfe", "give the mean number of forwards"))?;
        let length = self.number("length", 1.0, 1e9)?.or(bench.map(|bench| bench.length() as f64));
        let per_forward =
            self.number("tokens_per_forward", f64::MIN_POSITIVE, 1e9)?.or(length.map(|length| length / nfe));
        let unknown =
            "the length of this task is not known; add a column `length` with the positions that are generated";
        let tokens_per_forward = per_forward.ok_or_else(|| self.refused("task", unknown))?;
        let n = match self.number("n", 1.0, 1e12)? {
            Some(n) if n.fract() != 0.0 => return Err(self.refused("n", "give a whole number")),
            Some(n) => Some(n as usize),
            None => bench.map(questions),
        };
        let standard_error = self.number("standard_error", 0.0, 100.0)?.or(n.and_then(|n| binomial(score, n)));
        Ok(Point {
            model: self.word("model")?.into(),
            task: bench.map_or_else(|| task.into(), |bench| task_name(bench.name()).into()),
            rule: rule(self.word("rule")?),
            param: tidy(self.word("param")?),
            variant: variant(self.word("variant")?).ok_or_else(|| self.refused("variant", VARIANTS))?,
            score,
            standard_error,
            n,
            nfe,
            tokens_per_forward,
            useful_per_second: self.number("useful_per_second", 0.0, 1e12)?,
            source: format!("`{}`, line {}", self.path.display(), self.line),
            outcomes: Vec::new(),
        })
    }

    fn word(&self, column: &str) -> Result<&str, Error> {
        match self.cells.get(column).map(|cell| cell.trim()) {
            None | Some("") => Err(self.refused(column, "it must not be empty")),
            Some(word) => Ok(word),
        }
    }

    /// A number in a range; `None` when the column or the cell is empty.
    fn number(&self, column: &str, min: f64, max: f64) -> Result<Option<f64>, Error> {
        let Some(cell) = self.cells.get(column).map(|cell| cell.trim()).filter(|cell| !cell.is_empty()) else {
            return Ok(None);
        };
        let least = if min == f64::MIN_POSITIVE { "more than 0".to_owned() } else { format!("{min} or more") };
        let remedy = format!("give a number, {least} and {max} or less");
        let number: f64 = cell.parse().map_err(|_| self.refused(column, &remedy))?;
        match (min..=max).contains(&number) {
            true => Ok(Some(number)),
            false => Err(self.refused(column, &remedy)),
        }
    }

    fn refused(&self, column: &str, remedy: &str) -> Error {
        let given = self.cells.get(column).cloned().unwrap_or_default();
        Error::Field { path: self.path.into(), line: self.line, field: column.into(), given, remedy: remedy.into() }
    }
}

/// The fields of a line; a field with a comma stands in quotes. `None` when a quote stays open.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = letters.next() {
        let cell = cells.last_mut()?;
        match (c, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            ('"', true) => quoted = false,
            ('"', false) if cell.is_empty() => quoted = true,
            (',', false) => cells.push(String::new()),
            (c, _) => cell.push(c),
        }
    }
    (!quoted).then_some(cells)
}

/// One name for a rule, however a table calls it. Rules that are not ours keep the name they have.
fn rule(given: &str) -> String {
    let small = given.to_lowercase();
    let name = small.split('@').next().unwrap_or_default();
    match small.as_str() {
        "fastdllm" | "fast-dllm" => "fast".into(),
        "eb-sampler" => "eb".into(),
        "top-k" => "topk".into(),
        _ if Registry::stock().get(name).is_some() => small,
        _ => given.into(),
    }
}

const VARIANTS: &str =
    "write `base`, `adas` (or `+ad`), or a discount with other settings, as `ad:20` or `ad:40@layer=first`";

/// One name for a variant; a discount as the sampler language writes it.
fn variant(given: &str) -> Option<String> {
    let small = given.to_lowercase();
    match small.as_str() {
        BASE | ADAS => Some(small),
        // Any sampler with a discount will do.
        other => format!("topk:1+{}", other.strip_prefix('+').unwrap_or(other))
            .parse()
            .ok()
            .map(|spec: SamplerSpec| parts(&spec).2),
    }
}

/// `10.0` and `10` are one parameter; other texts stay as they are.
fn tidy(param: &str) -> String {
    let number = |part: &str| part.trim().parse::<f64>().map_or_else(|_| part.trim().to_owned(), |n| n.to_string());
    param.split(',').map(number).collect::<Vec<_>>().join(",")
}

/// How the paper calls a task.
pub fn task_name(task: &str) -> &str {
    match task {
        "gsm8k" => "GSM8K",
        "humaneval" => "HumanEval",
        "math500" => "MATH500",
        "mbpp" => "MBPP",
        other => other,
    }
}

/// How many questions the whole benchmark has.
fn questions(bench: Benchmark) -> usize {
    match bench {
        Benchmark::Gsm8k | Benchmark::Gsm8kCot => data::GSM8K_TEST.rows,
        Benchmark::Math500 => data::MATH500_TEST.rows,
        Benchmark::Humaneval => data::HUMANEVAL_TEST.rows,
        Benchmark::Mbpp => data::MBPP_TEST.rows,
    }
}

/// The standard error of a share of n right answers, in percent: 100 √(p (1 − p) / (n − 1)).
fn binomial(score: f64, n: usize) -> Option<f64> {
    let p = score / 100.0;
    (n > 1).then(|| 100.0 * (p * (1.0 - p) / (n - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Point>, String> {
        parse(Path::new("points.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_a_point() {
        let text = "model,rule,param,task,variant,score,nfe\r\nLLaDA,fastdllm,12.0,gsm8k,adas,50,16\n\nLLaDA,klass,\"0.70,1\",MBPP,base,0,512\n";
        let points = parsed(text).unwrap();
        let [fast, klass] = &points[..] else { panic!("{points:?}") };
        assert_eq!((fast.rule.as_str(), fast.param.as_str(), fast.task.as_str()), ("fast", "12", "GSM8K"));
        // 256 positions in 16 forwards; √(.25 / 1318) = .013772.
        assert_eq!((fast.tokens_per_forward, fast.n), (16.0, Some(1319)));
        assert!((fast.standard_error.unwrap() - 1.377_248).abs() < 1e-5);
        assert_eq!((klass.param.as_str(), klass.tokens_per_forward, klass.standard_error), ("0.7,1", 1.0, Some(0.0)));
        assert_eq!(klass.source, "`points.csv`, line 4");
    }

    #[test]
    fn more_columns_say_more() {
        let text = "nfe,score,task,model,rule,param,variant,length,n,standard_error\n8,50,riddles,m,eb,1,base,64,5,\n8,50,riddles,m,eb,2,base,64,,3\n";
        let points = parsed(text).unwrap();
        // √(.25 / 4) = .25; and as it is told.
        assert_eq!((points[0].tokens_per_forward, points[0].standard_error, points[0].n), (8.0, Some(25.0), Some(5)));
        assert_eq!((points[1].standard_error, points[1].n), (Some(3.0), None));
    }

    #[test]
    fn names_are_known_in_any_case() {
        let head = "model,rule,param,task,variant,score,nfe\n";
        let names = |rule: &str, variant: &str| {
            let points = parsed(&format!("{head}LLaDA,{rule},1,GSM8K,{variant},1,1\n")).unwrap();
            (points[0].rule.clone(), points[0].variant.clone())
        };
        for (rule, variant, want) in [
            ("EB", "Base", ("eb", BASE)),
            ("Fast-dLLM", "ADAS", ("fast", ADAS)),
            ("EB-Sampler", "+ad", ("eb", ADAS)),
            ("Top-k", "+AD:40", ("topk", ADAS)),
            ("EB@entropy", "Ad:20.0", ("eb@entropy", "ad:20")),
            ("WINO", "ad@Layer=first", ("WINO", "ad:40@layer=first")),
        ] {
            assert_eq!(names(rule, variant), (want.0.into(), want.1.into()));
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let text = "model,rule,param,task,variant,score,nfe\nLLaDA,klass,\"0.7,1\",MBPP,base,12.34,17.6\nLLaDA,eb,0.001,GSM8K,adas,1,2\n";
        let points = Points::new(parsed(text).unwrap()).unwrap();
        let again = Points::new(parsed(&write(&points)).unwrap()).unwrap();
        let sourceless = |points: &Points| -> Vec<Point> {
            points.all().iter().map(|point| Point { source: String::new(), ..point.clone() }).collect()
        };
        assert_eq!(sourceless(&again), sourceless(&points));
        assert_eq!(quoted("say \"so\", then"), "\"say \"\"so\"\", then\"");
    }

    #[test]
    fn a_bad_row_is_named_by_line_field_value_and_remedy() {
        let head = "model,rule,param,task,variant,score,nfe\n";
        let row = |row: &str| parsed(&format!("{head}LLaDA,eb,1,GSM8K,base,1,1\n{row}\n")).unwrap_err();
        let cases = [
            (
                "LLaDA,eb,1,GSM8K,base,101,9",
                "`points.csv`, line 3: score is `101`; give a number, 0 or more and 100 or less",
            ),
            ("LLaDA,eb,1,GSM8K,base,NaN,9", "line 3: score is `NaN`; give a number, 0 or more"),
            ("LLaDA,eb,1,GSM8K,base,4,0", "line 3: nfe is `0`; give a number, more than 0"),
            ("LLaDA,eb,1,GSM8K,base,4,", "line 3: nfe is ``; give the mean number of forwards"),
            (
                "LLaDA,eb,1,riddles,base,4,5",
                "line 3: task is `riddles`; the length of this task is not known; add a column `length`",
            ),
            (
                "LLaDA,eb,1,GSM8K,ours,4,5",
                "`points.csv`, line 3: variant is `ours`; write `base`, `adas` (or `+ad`), or a",
            ),
            ("LLaDA,eb,1,GSM8K,ad:-1,4,5", "line 3: variant is `ad:-1`; write `base`"),
            (" ,eb,1,GSM8K,base,4,5", "line 3: model is ` `; it must not be empty"),
            (
                "LLaDA,klass,0.7,1,GSM8K,base,4,5",
                "line 3: 8 fields, but there are 7 columns; write one for every column, and quotes",
            ),
            ("LLaDA,\"eb,1,GSM8K,base,4,5", "line 3: a quote is not closed"),
        ];
        for (given, said) in cases {
            assert!(row(given).contains(said), "{}", row(given));
        }
        let heads = [
            ("", "line 1: there is no line; the first one must be `model,rule"),
            ("model,rule\n", "line 1: there is no column `param`"),
            ("model,rule,param,task,variant,score,nfe,colour\n", "column `colour` is unknown; allowed are model,"),
            ("model,rule,param,task,variant,score,nfe,nfe\n", "column `nfe` is there twice"),
        ];
        for (given, said) in heads {
            assert!(parsed(given).unwrap_err().contains(said), "{}", parsed(given).unwrap_err());
        }
    }
}
