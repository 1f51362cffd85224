//! Tables as LaTeX: the frame of a float, rules, and text that is printed as it is.

use std::fmt::{self, Display};

/// The tables of a document, and what the paper that takes them in must know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables {
    /// Comments and definitions, a line each, before the first table.
    pub preamble: Vec<String>,
    /// In the order they are written.
    pub tables: Vec<Float>,
}

/// A table that LaTeX places where there is room. Its cells, caption and label are LaTeX already: see [`escaped`].
#[derive(Debug, Clone, PartialEq)]
pub struct Float {
    /// Over both columns of a page: `table*`.
    pub wide: bool,
    /// Where it wants to be: `t` at the top of a page, `h` here.
    pub place: char,
    /// The text above it.
    pub caption: String,
    /// The name for references, without `tab:`.
    pub label: Option<String>,
    /// The space beside columns, if it is not LaTeX's own: `3.2pt`.
    pub column_space: Option<&'static str>,
    /// How columns are aligned: `lcc`.
    pub columns: String,
    /// What lines between rows look like.
    pub rules: Rules,
    /// From the names of columns to the last row.
    pub lines: Vec<Line>,
}

/// What lines between rows look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Of the package `booktabs`: thick ends, a thin middle.
    Booktabs,
    /// LaTeX's own `\hline`, all of them the same.
    Plain,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A row of cells.
    Cells(Vec<String>),
    /// A rule between rows.
    Rule,
    /// Anything else, as it stands.
    Verbatim(String),
}

impl Float {
    /// A table with the rules of `booktabs` at the top of a page.
    pub fn new(caption: impl Into<String>, columns: impl Into<String>, lines: Vec<Line>) -> Float {
        Float {
            wide: false,
            place: 't',
            caption: caption.into(),
            label: None,
            column_space: None,
            columns: columns.into(),
            rules: Rules::Booktabs,
            lines,
        }
    }
}

impl Line {
    /// A row of cells.
    pub fn cells<T: Into<String>>(cells: impl IntoIterator<Item = T>) -> Line {
        Line::Cells(cells.into_iter().map(T::into).collect())
    }

    /// A row of texts that are no LaTeX yet.
    pub fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Line {
        Line::Cells(texts.into_iter().map(|text| escaped(text.as_ref())).collect())
    }
}

/// A blank line between tables.
impl Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preamble.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        for (i, table) in self.tables.iter().enumerate() {
            let blank = if i > 0 || !self.preamble.is_empty() { "\n" } else { "" };
            write!(f, "{blank}{table}")?;
        }
        Ok(())
    }
}

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = if self.wide { "table*" } else { "table" };
        let [top, middle, bottom] = match self.rules {
            Rules::Booktabs => ["\\toprule", "\\midrule", "\\bottomrule"],
            Rules::Plain => ["\\hline"; 3],
        };
        writeln!(f, "\\begin{{{environment}}}[{}]\n\\caption{{{}}}", self.place, self.caption)?;
        if let Some(label) = &self.label {
            writeln!(f, "\\label{{tab:{label}}}")?;
        }
        f.write_str("\\centering\n\\small\n")?;
        if let Some(space) = self.column_space {
            writeln!(f, "\\setlength{{\\tabcolsep}}{{{space}}}")?;
        }
        writeln!(f, "\\begin{{tabular}}{{{}}}\n{top}", self.columns)?;
        for line in &self.lines {
            match line {
                Line::Cells(cells) => writeln!(f, "{} \\\\", cells.join(" & "))?,
                Line::Rule => writeln!(f, "{middle}")?,
                Line::Verbatim(text) => writeln!(f, "{text}")?,
            }
        }
        writeln!(f, "{bottom}\n\\end{{tabular}}\n\\end{{{environment}}}")
    }
}

/// Text that LaTeX prints as it is. `\~{}` and `\^{}` would be accents over nothing, so the characters have names; `—` is written `--`, which
/// every input encoding has.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '—' => escaped.push_str("--"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A label or part of one: whatever is no letter and no digit becomes a hyphen.
pub fn label(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_printed_as_they_are() {
        assert_eq!(escaped(r"a_b & 5% {\x}"), r"a\_b \& 5\% \{\textbackslash{}x\}");
        assert_eq!(escaped("~^—#$"), "\\textasciitilde{}\\textasciicircum{}--\\#\\$");
        assert_eq!(label("ad:40@layer=first"), "ad-40-layer-first");
    }

    #[test]
    fn a_table_has_its_frame() {
        let lines = || vec![Line::cells(["a", "$b$"]), Line::Rule, Line::texts(["x_1", "2 %"])];
        let plain = Float { rules: Rules::Plain, place: 'h', ..Float::new("Plain.", "lc", lines()) };
        let wide = Float {
            wide: true,
            label: Some("wide".into()),
            column_space: Some("3pt"),
            ..Float::new("Wide.", "lr", lines())
        };
        let tables = Tables { preamble: vec!["% said".into()], tables: vec![plain, wide] };
        let want = "% said\n\n\\begin{table}[h]\n\\caption{Plain.}\n\\centering\n\\small\n\\begin{tabular}{lc}\n\\hline\na & $b$ \\\\\n\\hline\n\
                    x\\_1 & 2 \\% \\\\\n\\hline\n\\end{tabular}\n\\end{table}\n\n\\begin{table*}[t]\n\\caption{Wide.}\n\\label{tab:wide}\n\\centering\n\
                    \\small\n\\setlength{\\tabcolsep}{3pt}\n\\begin{tabular}{lr}\n\\toprule\na & $b$ \\\\\n\\midrule\nx\\_1 & 2 \\% \\\\\n\\bottomrule\n\
                    \\end{tabular}\n\\end{table*}\n";
        assert_eq!(tables.to_string(), want);
        assert_eq!(Tables { preamble: Vec::new(), ..tables }.to_string(), &want["% said\n\n".len()..]);
    }
}
