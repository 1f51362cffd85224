//! The part of Jinja that chat templates are written in, as a small interpreter that no template can exhaust.
//!
//! A template comes with a checkpoint, so it is a stranger's program. General engines count instructions, which bounds neither
//! memory (`x ~ x` doubles it, captures and macros write without a limit) nor time (lists that share their parts compare in
//! exponential time) nor the stack (a chain of operators is a deep tree). Here everything is bounded where it is made:
//!
//! - the source has a largest size, and a tree of it a largest height ([`MAX_SOURCE`], [`MAX_HEIGHT`]);
//! - every evaluated node, compared element and scanned byte is a step, every byte that is made is counted, and so is nesting
//!   ([`Budget`]); all of them grow with the size of the input, so a long chat is no attack;
//! - values cannot contain themselves: lists and maps never change, and a namespace goes into nothing;
//! - only the filters, tests, functions and methods of `builtins.rs` and `methods.rs` exist. None formats by a width, none
//!   reads a clock, none leads out of the template.
//!
//! Where Jinja leaves a choice, it is the one that transformers makes: `trim_blocks`, `lstrip_blocks`, loop controls, the tag
//! `generation`, and `tojson` as Python's `json.dumps` writes it. The results are compared with Jinja2's in `tests/it/jinja.rs`.

mod ast;
mod budget;
mod builtins;
mod eval;
mod expressions;
mod lexer;
mod methods;
mod operators;
mod parser;
mod value;

use ast::Stmt;
pub(crate) use budget::Budget;
use std::fmt;
pub(crate) use value::Value;

/// Bytes of source. Published templates have up to 20 kB.
pub(crate) const MAX_SOURCE: usize = 128 << 10;

/// Height of a template's tree, statements and expressions together; the recursion of everything that walks it.
pub(crate) const MAX_HEIGHT: usize = 160;

/// A template, read and understood.
#[derive(Debug)]
pub(crate) struct Template {
    source: String,
    body: Vec<Stmt>,
}

impl Template {
    /// Parses the source of a template.
    pub(crate) fn parse(source: String) -> Result<Template> {
        if source.len() > MAX_SOURCE {
            let message = format!("it has {} bytes, but a template may have at most {MAX_SOURCE}", source.len());
            return Err(Problem { message, line: 1 });
        }
        let body = parser::parse(&source)?;
        Ok(Template { source, body })
    }

    /// The source of the template.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// What it makes of these variables.
    pub(crate) fn render(&self, variables: Vec<(String, Value)>) -> Result<String> {
        let size = variables.iter().map(|(_, value)| value.weight()).fold(0, u64::saturating_add);
        eval::render(&self.body, variables, Budget::for_input(size))
    }
}

/// The result of everything fallible here.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// What is wrong, and the line of the template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) line: usize,
}

impl Problem {
    /// A problem whose line is filled in by whoever knows it.
    fn new(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), line: 0 }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (in chat_template:{})", self.message, self.line)
    }
}

/// A name in a message, at a length that people read.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The deepest templates that are taken, in every way to go deep.
    fn deepest() -> Vec<String> {
        let recursion = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(45) }}";
        let chain = "{{ ".to_owned() + &"1 + ".repeat(MAX_HEIGHT - 3) + "1 }}";
        let inside = |open: &str, close: &str| {
            let n = (1..MAX_HEIGHT)
                .rev()
                .find(|&n| Template::parse(format!("{{{{ {}1{} }}}}", open.repeat(n), close.repeat(n))).is_ok());
            let n = n.unwrap();
            assert!(n > 30, "{open} only {n} deep");
            format!("{{{{ {}1{} }}}}", open.repeat(n), close.repeat(n))
        };
        let blocks = "{% if true %}".repeat(MAX_HEIGHT - 3) + &"{% endif %}".repeat(MAX_HEIGHT - 3);
        vec![
            recursion.into(),
            chain,
            inside("(", ")"),
            inside("[", "][0]"),
            inside("not ", ""),
            inside("-", ""),
            blocks,
        ]
    }

    #[test]
    fn the_deepest_templates_need_an_eighth_of_the_stack() {
        // An eighth of what `on_large_stack` gives.
        let render = || {
            for source in deepest() {
                let start: String = source.chars().take(40).collect();
                let template = Template::parse(source).unwrap_or_else(|problem| panic!("{start}: {problem}"));
                template.render(Vec::new()).unwrap_or_else(|problem| panic!("{start}: {problem}"));
            }
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(render).unwrap().join().unwrap();
    }

    #[test]
    fn a_long_chat_is_no_attack() {
        let source = "{% set ns = namespace(text='') %}{% for m in messages %}{% set ns.text = ns.text ~ m.content | trim %}{{ m.content }}{% endfor %}";
        let message = || Value::map(vec![("content".into(), Value::text("word ".repeat(200)))]);
        let messages = Value::list((0..300).map(|_| message().unwrap()).collect()).unwrap();
        let prompt = Template::parse(source.into()).unwrap().render(vec![("messages".into(), messages)]).unwrap();
        assert_eq!(prompt.len(), 300_000);
    }

    #[test]
    fn problems_name_the_line() {
        let problem = |source: &str| match Template::parse(source.into()) {
            Ok(template) => template.render(Vec::new()).unwrap_err().to_string(),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(problem("a\n{{ 1 / 0 }}"), "`1 / 0` divides by zero (in chat_template:2)");
        assert_eq!(problem("a\n\n{% for m in %}"), "the tag ends, but a value should follow (in chat_template:3)");
        assert_eq!(
            problem("{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n{{ m() }}"),
            "`1 // 0` divides by zero (in chat_template:2)"
        );
        assert_eq!(
            problem("{{ x | nonsense }}"),
            "`nonsense` is no filter that chat templates may use (in chat_template:1)"
        );
    }
}
