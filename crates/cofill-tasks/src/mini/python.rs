//! The little of Python that the code task needs: one function of straight-line integer arithmetic.
//!
//! ```text
//! program  = def NAME ( NAME ) : line+
//! line     = indent ( NAME = sum | NAME op= sum | return sum | pass )
//! sum      = term (( + | - ) term)*      term = unary (( * | // | % ) unary)*
//! unary    = - unary | NUMBER | NAME | ( sum )
//! ```
//!
//! Comments and blank lines are skipped, the block may be indented by any constant width, and `//` and `%` round down as
//! Python's do. Straight-line code ends by itself, so neither a step limit nor a sandbox is needed.

use std::collections::BTreeMap;

/// The operations that the code task tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `+`
    Add,
    /// `-` between two values
    Subtract,
    /// `*`
    Multiply,
    /// `//` or `%`
    Divide,
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The value that the function returned.
    pub(crate) value: i64,
    /// Every operator that was applied, in order, and what stood on its left and right.
    pub(crate) operations: Vec<(Operation, [i64; 2])>,
}

/// The line at which the text is no such program or failed while it ran, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct Error {
    line: usize,
    problem: String,
}

/// A deeper nest of parentheses or minus signs is refused instead of overflowing our own stack.
const DEEPEST: usize = 64;

/// Calls `name(argument)` in `source`.
pub(crate) fn run(source: &str, name: &str, argument: i64) -> Result<Run, Error> {
    let mut lines = source
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim_end()))
        .filter(|(_, line)| !line.is_empty());
    let no_program = || Error { line: 1, problem: format!("no function `{name}`") };
    let (mut line, head) = lines.next().ok_or_else(no_program)?;
    let parameter = header(head, name).map_err(|problem| Error { line, problem })?;
    let mut machine = Machine {
        names: BTreeMap::from([(parameter, argument)]),
        operations: Vec::new(),
        tokens: Vec::new(),
        depth: 0,
    };
    let mut indent = None;
    for (n, text) in lines {
        line = n;
        let width = text.len() - text.trim_start_matches(' ').len();
        let problem = match *indent.get_or_insert(width) {
            0 => Some("expected an indented block".to_owned()),
            expected if expected != width => Some("unexpected indent".to_owned()),
            _ => None,
        };
        let done = problem.map_or_else(|| machine.line(text), Err);
        if let Some(value) = done.map_err(|problem| Error { line, problem })? {
            return Ok(Run { value, operations: machine.operations });
        }
    }
    Err(Error { line, problem: format!("{name} ends without `return`") })
}

/// The parameter of `def name(parameter):`.
fn header(line: &str, name: &str) -> Result<String, String> {
    use Token::{Name, Sign};
    match tokens(line)?.as_slice() {
        [Name(def), Name(given), Sign("("), Name(parameter), Sign(")"), Sign(":")]
            if def == "def" && given == name && !line.starts_with(' ') =>
        {
            Ok(parameter.clone())
        }
        _ => Err(format!("expected `def {name}(x):`")),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Number(i64),
    Sign(&'static str),
}

/// The longest first, since the first that fits is taken.
const SIGNS: [&str; 14] = ["//=", "+=", "-=", "*=", "%=", "//", "+", "-", "*", "%", "=", "(", ")", ":"];

fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start_matches(' ');
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (token, used) = if first.is_ascii_digit() {
            let digits = &rest[..word];
            // Python has no 07, and neither 7x nor 7_0 is worth having.
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || first != '0');
            let value = digits.parse().ok().filter(|_| plain);
            (Token::Number(value.ok_or_else(|| format!("`{digits}` is no number"))?), word)
        } else if word > 0 {
            (Token::Name(rest[..word].to_owned()), word)
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| format!("unexpected `{first}`"))?;
            (Token::Sign(sign), sign.len())
        };
        tokens.push(token);
        rest = rest[used..].trim_start_matches(' ');
    }
    Ok(tokens)
}

/// The state of a call, and what is left of the line that it is at.
struct Machine {
    names: BTreeMap<String, i64>,
    operations: Vec<(Operation, [i64; 2])>,
    tokens: Vec<Token>, // reversed: the next one is at the end
    depth: usize,
}

impl Machine {
    /// Runs one line; a value if it returns.
    fn line(&mut self, text: &str) -> Result<Option<i64>, String> {
        self.tokens = tokens(text)?;
        self.tokens.reverse();
        let Some(Token::Name(name)) = self.tokens.pop() else { return Err("expected a statement".into()) };
        let returned = match name.as_str() {
            "return" => Some(self.sum()?),
            "pass" => None,
            "def" | "if" | "for" | "while" | "else" | "lambda" | "not" | "and" | "or" | "in" | "is" => {
                return Err(format!("`{name}` is more than this interpreter knows"));
            }
            _ => {
                let value = match self.tokens.pop() {
                    Some(Token::Sign("=")) => self.sum()?,
                    Some(Token::Sign(sign @ ("+=" | "-=" | "*=" | "//=" | "%="))) => {
                        let old = self.value(&name)?;
                        let by = self.sum()?;
                        self.apply(sign.trim_end_matches('='), old, by)?
                    }
                    _ => return Err(format!("expected an assignment to `{name}`")),
                };
                self.names.insert(name, value);
                None
            }
        };
        if self.tokens.is_empty() { Ok(returned) } else { Err("the line does not end where it should".into()) }
    }

    fn sum(&mut self) -> Result<i64, String> {
        self.operators(&["+", "-"], |it| it.operators(&["*", "//", "%"], Machine::unary))
    }

    /// Operands of the next level, joined from the left.
    fn operators(&mut self, signs: &[&str], next: impl Fn(&mut Machine) -> Result<i64, String>) -> Result<i64, String> {
        let mut value = next(self)?;
        while let Some(&Token::Sign(sign)) = self.tokens.last()
            && signs.contains(&sign)
        {
            self.tokens.pop();
            let right = next(self)?;
            value = self.apply(sign, value, right)?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} levels deep"));
        }
        let value = match self.tokens.pop() {
            Some(Token::Number(value)) => value,
            Some(Token::Name(name)) => self.value(&name)?,
            Some(Token::Sign("-")) => self.unary()?.checked_neg().ok_or("a number too large")?,
            Some(Token::Sign("(")) => {
                let value = self.sum()?;
                if self.tokens.pop() != Some(Token::Sign(")")) {
                    return Err("expected `)`".into());
                }
                value
            }
            _ => return Err("expected a value".into()),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn value(&self, name: &str) -> Result<i64, String> {
        self.names.get(name).copied().ok_or_else(|| format!("name `{name}` is not defined"))
    }

    fn apply(&mut self, sign: &str, a: i64, b: i64) -> Result<i64, String> {
        let (operation, value) = match sign {
            "+" => (Operation::Add, a.checked_add(b)),
            "-" => (Operation::Subtract, a.checked_sub(b)),
            "*" => (Operation::Multiply, a.checked_mul(b)),
            _ if b == 0 => return Err("division by zero".into()),
            // Python rounds towards minus infinity, and its remainder has the divisor's sign.
            "//" => {
                (Operation::Divide, a.checked_div(b).map(|q| if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }))
            }
            _ => (Operation::Divide, a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })),
        };
        self.operations.push((operation, [a, b]));
        value.ok_or_else(|| "a number too large".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(body: &str) -> Result<i64, String> {
        run(&format!("def f(x):\n {body}"), "f", 7).map(|run| run.value).map_err(|error| error.to_string())
    }

    #[test]
    fn arithmetic_is_pythons() {
        assert_eq!(value("return 2+3*4"), Ok(14));
        assert_eq!(value("return (2+3)*4-x"), Ok(13));
        assert_eq!(value("return 10-4-3"), Ok(3), "from the left");
        // Python: -7 // 2 == -4 and -7 % 2 == 1; 7 // -2 == -4 and 7 % -2 == -1.
        assert_eq!([value("return -x//2"), value("return -x%2")], [Ok(-4), Ok(1)]);
        assert_eq!([value("return x//-2"), value("return x%-2")], [Ok(-4), Ok(-1)]);
        assert_eq!(value("y = x * x # square\n\n y //= 2\n return y"), Ok(24));
    }

    #[test]
    fn operations_are_listed_as_they_happen() {
        use Operation::{Add, Divide, Multiply, Subtract};
        let ran = run("def f(x):\n x = 1 + x * 2\n x -= x // 3\n return -x", "f", 1).unwrap();
        assert_eq!(ran.operations, [(Multiply, [1, 2]), (Add, [1, 2]), (Divide, [3, 3]), (Subtract, [3, 1])]);
        assert_eq!(ran.value, -2, "1 + 2 = 3, 3 - 1 = 2");
    }

    #[test]
    fn what_is_no_program_is_said_with_its_line() {
        let error = |source: &str| run(source, "f", 1).unwrap_err().to_string();
        assert_eq!(error(""), "line 1: no function `f`");
        assert_eq!(error("def g(x):\n return x"), "line 1: expected `def f(x):`");
        assert_eq!(error("def f(x):\nreturn x"), "line 2: expected an indented block");
        assert_eq!(error("def f(x):\n x+=1\n  return x"), "line 3: unexpected indent");
        assert_eq!(error("def f(x):\n x+=1"), "line 2: f ends without `return`");
        assert_eq!(error("def f(x):\n x+=1 2\n return x"), "line 2: the line does not end where it should");
        assert_eq!(error("def f(x):\n x+1\n return x"), "line 2: expected an assignment to `x`");
        assert_eq!(error("def f(x):\n return y"), "line 2: name `y` is not defined");
        assert_eq!(error("def f(x):\n return (x"), "line 2: expected `)`");
        assert_eq!(error("def f(x):\n return x+"), "line 2: expected a value");
        assert_eq!(error("def f(x):\n return 07"), "line 2: `07` is no number");
        assert_eq!(error("def f(x):\n return x/2"), "line 2: unexpected `/`");
        assert_eq!(error("def f(x):\n return x//0"), "line 2: division by zero");
        assert_eq!(error("def f(x):\n while x"), "line 2: `while` is more than this interpreter knows");
        assert_eq!(error("def f(x):\n return 9999999999*9999999999"), "line 2: a number too large");
        assert_eq!(error(&format!("def f(x):\n return {}x", "-".repeat(100))), "line 2: more than 64 levels deep");
    }
}
