//! Operating points from a table of numbers, such as a paper's appendix: comma-separated values with a first line that names the columns.
//!
//! `model,rule,param,task,variant,score,nfe` are needed, in any order; `length`, `n` and others ([`OPTIONAL`]) may be there. Scores and errors
//! are in percent. What a benchmark leaves unsaid is known here: its length (tokens per forward are length / nfe), and how many questions
//! its test split has, from which the error of a score follows. [`Rule::read`] says how a rule may be called.
//!
//! [`write()`] makes such a table, and what it makes is read back to equal points.

use super::{Error, OperatingPoint, Parameter, Place, PointSampler, Points, Rule, Variant};
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::data;
use csv::StringRecord;
use std::collections::HashMap;
use std::path::Path;

/// Columns a table must have.
pub const NEEDED: [&str; 7] = ["model", "rule", "param", "task", "variant", "score", "nfe"];
/// Columns it may have.
pub const OPTIONAL: [&str; 5] = ["length", "n", "standard_error", "tokens_per_forward", "useful_per_second"];

/// Reads the points of a file.
pub fn read(path: &Path) -> Result<Vec<OperatingPoint>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
    parse(path, &text)
}

/// The points of a text; `path` is for messages.
pub fn parse(path: &Path, text: &str) -> Result<Vec<OperatingPoint>, Error> {
    let place = |line: usize| Place::Line { path: path.into(), line };
    let refused = |line: usize, problem: String| Error::Row { place: place(line), problem };
    let mut rows = rows(text).map_err(|error| refused(1, error.to_string()))?.into_iter();
    let (at, head) =
        rows.next().ok_or_else(|| refused(1, format!("there is no line; the first one must be `{}`", needed())))?;
    let columns = Columns::new(head.iter(), &place(at))?;
    rows.map(|(line, cells)| columns.row(cells.iter(), place(line))?.point()).collect()
}

/// The points of rows in memory, such as those of a data frame: `columns` names the fields, and every row has a text for each of them,
/// which is empty where nothing is known. Columns, fields and what is refused are those of [`parse`].
///
/// ```
/// use cofill_report::points::table::from_rows;
///
/// let columns = ["model", "rule", "param", "task", "variant", "score", "nfe", "length"];
/// let points = from_rows(&columns, [["tiny", "topk", "4", "chain", "adas", "81.5", "9.5", "38"]])?;
/// assert_eq!((points[0].tokens_per_forward, points[0].sampler.to_string().as_str()), (4.0, "Top-k 4 +AD"));
/// let error = from_rows(&columns, [["tiny", "topk", "4", "chain", "adas", "815", "9.5", "38"]]).unwrap_err();
/// assert!(error.to_string().starts_with("row 0 of the table (counted from 0): score is `815`; give a number"));
/// # Ok::<(), cofill_report::points::Error>(())
/// ```
pub fn from_rows<R>(
    columns: &[impl AsRef<str>],
    rows: impl IntoIterator<Item = R>,
) -> Result<Vec<OperatingPoint>, Error>
where
    R: IntoIterator<Item: AsRef<str>>,
{
    let columns = Columns::new(columns.iter().map(AsRef::as_ref), &Place::Columns)?;
    let point = |(at, row): (usize, R)| {
        let cells: Vec<R::Item> = row.into_iter().collect();
        columns.row(cells.iter().map(AsRef::as_ref), Place::Row(at))?.point()
    };
    let points: Vec<OperatingPoint> = rows.into_iter().enumerate().map(point).collect::<Result<_, _>>()?;
    if points.is_empty() {
        let problem = "there is no row; give one for every operating point".into();
        return Err(Error::Row { place: Place::Columns, problem });
    }
    Ok(points)
}

fn needed() -> String {
    NEEDED.join(",")
}

/// The names of the columns, which are those that are needed and others that are allowed, each once.
struct Columns<'a>(Vec<&'a str>);

impl<'a> Columns<'a> {
    fn new(names: impl Iterator<Item = &'a str>, place: &Place) -> Result<Columns<'a>, Error> {
        let columns: Vec<&str> = names.collect();
        let wanted = if *place == Place::Columns { "they" } else { "the first line" };
        let refused = |problem: String| Err(Error::Row { place: place.clone(), problem });
        if let Some(missing) = NEEDED.iter().find(|name| !columns.contains(name)) {
            return refused(format!("there is no column `{missing}`; {wanted} must be `{}`", needed()));
        }
        for (i, column) in columns.iter().enumerate() {
            let known = NEEDED.contains(column) || OPTIONAL.contains(column);
            if !known || columns[..i].contains(column) {
                let (why, may) = (if known { "is there twice" } else { "is unknown" }, OPTIONAL.join(", "));
                return refused(format!("column `{column}` {why}; allowed are {}, and {may}", needed()));
            }
        }
        Ok(Columns(columns))
    }

    fn row<'b>(&self, cells: impl Iterator<Item = &'b str>, place: Place) -> Result<Row<'a>, Error> {
        let cells: Vec<&str> = cells.collect();
        if cells.len() != self.0.len() {
            let (want, got) = (self.0.len(), cells.len());
            let hint = match place {
                Place::Line { .. } => {
                    "write one for every column, quotes around a field with a comma, and close every quote"
                }
                _ => "give one for every column",
            };
            return Err(Error::Row { place, problem: format!("{got} fields, but there are {want} columns; {hint}") });
        }
        Ok(Row { place, cells: self.0.iter().copied().zip(cells.into_iter().map(str::to_owned)).collect() })
    }
}

/// Every line with something on it, and its number, counted from 1.
fn rows(text: &str) -> Result<Vec<(usize, StringRecord)>, csv::Error> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        // A position is where the record before it ended; blank lines may come first.
        let line = record.position().map_or(0, |position| {
            let rest = text.as_bytes().get(position.byte() as usize..).unwrap_or_default();
            let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
            position.line() as usize + blank.filter(|byte| **byte == b'\n').count()
        });
        if !record.iter().all(|cell| cell.trim().is_empty()) || record.len() > 1 {
            rows.push((line, record));
        }
    }
    Ok(rows)
}

/// Points as a table that [`parse`] reads.
pub fn write(points: &Points) -> Result<String, csv::Error> {
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let row = |p: &OperatingPoint| {
        let PointSampler { rule, param, variant } = &p.sampler;
        let words = [p.model.clone(), rule.to_string(), param.to_string(), p.task.clone(), variant.to_string()];
        let numbers = [Some(p.score), Some(p.nfe), p.n.map(|n| n as f64), p.standard_error];
        let more = [Some(p.tokens_per_forward), p.useful_per_second];
        words.into_iter().chain(numbers.into_iter().chain(more).map(number)).collect()
    };
    // Tokens per forward say what the length would.
    let columns = NEEDED.into_iter().chain(OPTIONAL.into_iter().filter(|column| *column != "length"));
    comma_separated(&columns.collect::<Vec<_>>(), points.all().iter().map(row))
}

/// Rows under the names of their columns, as comma-separated values.
pub(crate) fn comma_separated(
    columns: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns)?;
    rows.into_iter().try_for_each(|row| writer.write_record(row))?;
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line by column.
struct Row<'a> {
    place: Place,
    cells: HashMap<&'a str, String>,
}

impl Row<'_> {
    fn point(&self) -> Result<OperatingPoint, Error> {
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
        Ok(OperatingPoint {
            model: self.word("model")?.into(),
            task: bench.map_or_else(|| task.into(), |bench| task_name(bench.name()).into()),
            sampler: PointSampler {
                rule: Rule::read(self.word("rule")?),
                param: Parameter::read(self.word("param")?),
                variant: Variant::read(self.word("variant")?).ok_or_else(|| self.refused("variant", VARIANTS))?,
            },
            score,
            standard_error,
            n,
            nfe,
            tokens_per_forward,
            useful_per_second: self.number("useful_per_second", 0.0, 1e12)?,
            source: self.place.to_string(),
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
        Error::Field { place: self.place.clone(), field: column.into(), given, remedy: remedy.into() }
    }
}

const VARIANTS: &str =
    "write `base`, `adas` (or `+ad`), or a discount with other settings, as `ad:20` or `ad:40@layer=first`";

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
    use cofill::Registry;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Vec<OperatingPoint>, String> {
        parse(Path::new("points.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_a_point() {
        let text = "\u{feff}model,rule,param,task,variant,score,nfe\r\nLLaDA,fastdllm,12.0,gsm8k,adas,50,16\n\nLLaDA,klass,\"0.70,1\",MBPP,base,0,512\n";
        let points = parsed(text).unwrap();
        let [fast, klass] = &points[..] else { panic!("{points:?}") };
        assert_eq!((fast.sampler.to_string().as_str(), fast.task.as_str()), ("Fast-dLLM 12 +AD", "GSM8K"));
        // 256 positions in 16 forwards; √(.25 / 1318) = .013772.
        assert_eq!((fast.tokens_per_forward, fast.n), (16.0, Some(1319)));
        assert!((fast.standard_error.unwrap() - 1.377_248).abs() < 1e-5);
        assert_eq!(
            (klass.sampler.to_string().as_str(), klass.tokens_per_forward, klass.standard_error),
            ("KLASS 0.7,1", 1.0, Some(0.0))
        );
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

    const HEAD: &str = "model,rule,param,task,variant,score,nfe\n";

    #[test]
    fn fast_and_fast_dllm_are_two_samplers() {
        let rules = |text: &str| -> Vec<String> {
            let points = Points::new(parsed(&format!("{HEAD}{text}")).unwrap()).unwrap();
            points.rules().iter().map(Rule::to_string).collect()
        };
        assert_eq!(rules("m,fast,1,GSM8K,base,1,1\nm,fast-dllm,1,GSM8K,base,2,1\n"), ["fast", "fast-dllm"]);
        assert_eq!(rules("m,fast-dllm,1,GSM8K,base,2,1\n"), ["fast-dllm"]);
        // As people write the paper's rule.
        assert_eq!(rules("m,Fast-dLLM,1,GSM8K,base,1,1\nm,fast-dllm,1,GSM8K,base,2,1\n"), ["fast", "fast-dllm"]);
    }

    /// Points without what a table cannot keep: where they were read, and every single answer.
    fn told(points: &Points) -> Vec<OperatingPoint> {
        let bare =
            |point: &OperatingPoint| OperatingPoint { source: String::new(), outcomes: Vec::new(), ..point.clone() };
        points.all().iter().map(bare).collect()
    }

    fn again(points: &Points) -> Points {
        Points::new(parsed(&write(points).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn every_sampler_of_the_registry_can_be_written_and_read() {
        let discounts = ["ad", "ad:0", "ad:20", "ad:40@layer=first", "ad:0.5@layer=7@weight=mask"];
        let mut points = Vec::new();
        for entry in Registry::stock().entries() {
            let plain = entry.example().form();
            let mut forms = vec![plain.clone()];
            let options = entry
                .option_forms()
                .into_iter()
                .map(|option| if option.ends_with('=') { option + "1" } else { option });
            let with = options.chain(discounts.iter().map(|discount| format!("+{discount}")));
            // What an entry does not take is left out.
            forms.extend(
                with.filter_map(|more| Registry::stock().parse(&format!("{plain}{more}")).ok()).map(|spec| spec.form()),
            );
            for (i, form) in forms.iter().enumerate() {
                let mut point = parsed(&format!("{HEAD}m,x,1,GSM8K,base,{i},3.7\n")).unwrap().remove(0);
                point.sampler = PointSampler::from(form);
                points.push(point);
            }
        }
        // Options at their defaults are left out, so some forms are the same.
        let mut distinct: Vec<OperatingPoint> = Vec::new();
        for point in points {
            if !distinct.iter().any(|other| other.sampler == point.sampler) {
                distinct.push(point);
            }
        }
        assert!(distinct.len() > 2 * Registry::stock().entries().len(), "{}", distinct.len());
        let points = Points::new(distinct).unwrap();
        assert_eq!(told(&again(&points)), told(&points));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_to_equal_points(
            names in prop::collection::vec("[ -~é\n]{0,9}[!-~é]", 3),
            rule in prop::sample::select(vec!["fast", "fast-dllm", "eb@entropy", "peaks@wide@width=0.25", "WINO", "a, \"b\"", "x@"]),
            numbers in prop::collection::vec(-1e9..1e9f64, 0..3),
            variant in prop::sample::select(vec!["base", "adas", "ad:0", "ad:3.25@layer=middle", "ad:40@weight=mask"]),
            (score, nfe, per_forward) in (0.0..=100.0f64, 1e-3..1e6f64, 1e-3..1e6f64),
            more in (prop::option::of(1..10_000usize), prop::option::of(0.0..1e5f64)),
        ) {
            let [model, task, text] = &names[..] else { unreachable!("three were asked for") };
            let mut points = Vec::new();
            for param in [Parameter::Numbers(numbers.clone()), Parameter::read(text)] {
                let sampler = PointSampler { rule: Rule::read(rule), param, variant: Variant::read(variant).unwrap() };
                let (model, task) = (model.trim().to_owned(), format!("{} (seed 1)", task.trim()));
                points.push(OperatingPoint {
                    model, task, sampler, score, nfe,
                    standard_error: more.0.map(|n| n as f64 / 1e3),
                    n: more.0,
                    tokens_per_forward: per_forward,
                    useful_per_second: more.1,
                    source: String::new(),
                    outcomes: Vec::new(),
                });
            }
            // Two points that claim to be the same are none of this test's business.
            points.dedup_by(|a, b| a.sampler == b.sampler);
            let points = Points::new(points).unwrap();
            prop_assert_eq!(told(&again(&points)), told(&points));
        }
    }

    #[test]
    fn rows_in_memory_are_the_points_of_the_same_text() {
        let text = "model,rule,param,task,variant,score,nfe,length,n,standard_error\nm,fastdllm,12.0,gsm8k,adas,50,16,,,\nm,klass,\"0.70,1\",riddles,base,7.5,4,64,500.0,1.5\n";
        let records = rows(text).unwrap();
        let columns: Vec<&str> = records[0].1.iter().collect();
        let points = from_rows(&columns, records[1..].iter().map(|(_, record)| record.iter())).unwrap();
        let told = |points: &[OperatingPoint]| told(&Points::new(points.to_vec()).unwrap());
        assert_eq!(told(&points), told(&parsed(text).unwrap()));
        assert_eq!(points[1].source, "row 1 of the table (counted from 0)");
    }

    #[test]
    fn a_bad_row_in_memory_is_named_by_its_number() {
        let columns: Vec<&str> = HEAD.trim_end().split(',').collect();
        let said = |columns: &[&str], row: &str| {
            let rows = ["m,eb,1,GSM8K,base,1,1".split(','), row.split(',')];
            from_rows(columns, rows).unwrap_err().to_string()
        };
        let row = "row 1 of the table (counted from 0)";
        for (given, problem) in [
            ("m,eb,1,GSM8K,base,101,9", "score is `101`; give a number, 0 or more and 100 or less"),
            ("m,eb,1,GSM8K,base,4,nan", "nfe is `nan`; give a number, more than 0"),
            (",eb,1,GSM8K,base,4,9", "model is ``; it must not be empty"),
            ("m,eb,1,GSM8K,base,4", "6 fields, but there are 7 columns; give one for every column"),
        ] {
            assert!(said(&columns, given).starts_with(&format!("{row}: {problem}")), "{}", said(&columns, given));
        }
        let good = "m,eb,2,GSM8K,base,4,5";
        assert!(
            said(&columns[1..], good).starts_with("the columns of the table: there is no column `model`; they must")
        );
        let more = [&columns[..], &["colour"]].concat();
        assert!(said(&more, good).contains("column `colour` is unknown; allowed are model,"));
        let none: [[&str; 7]; 0] = [];
        assert!(from_rows(&columns, none).unwrap_err().to_string().contains("there is no row; give one"));
        let twice = Points::new(from_rows(&columns, [good.split(','), good.split(',')]).unwrap()).unwrap_err();
        assert!(twice.to_string().contains("twice: in row 0 of the table (counted from 0) and in row 1"), "{twice}");
    }

    #[test]
    fn a_bad_row_is_named_by_line_field_value_and_remedy() {
        let row = |row: &str| parsed(&format!("{HEAD}LLaDA,eb,1,GSM8K,base,1,1\n{row}\n")).unwrap_err();
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
                "line 3: 8 fields, but there are 7 columns; write one for every column, quotes around",
            ),
            (
                "LLaDA,\"eb,1,GSM8K,base,4,5",
                "line 3: 2 fields, but there are 7 columns; write one for every column, quotes around a field with a comma, and close every quote",
            ),
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
