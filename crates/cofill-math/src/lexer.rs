//! LaTeX to tokens, the way sympy's lexer cuts it: longest match, ASCII only, spacing and `\left`/`\right` skipped.
//!
//! Tokens are cut on demand. A character that starts no token is an error only when the parser looks that far, and how far it looks
//! depends on the decisions it has to make; `5,%` is 5 because nothing after the comma is ever read.

use super::Stop;

/// What a token is. Keywords that the grammar never tells apart share a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Comma,
    Dot,
    Add,
    Sub,
    Mul,
    Div,
    LParen,
    RParen,
    LBrace,
    RBrace,
    LBraceLiteral,
    RBraceLiteral,
    LBracket,
    RBracket,
    Bar,
    RightBar,
    LeftBar,
    LAngle,
    RAngle,
    Lim,
    Approach,
    Int,
    Sum,
    Prod,
    Function,
    LFloor,
    RFloor,
    LCeil,
    RCeil,
    Sqrt,
    Overline,
    Times,
    Cdot,
    CmdDiv,
    Frac,
    Binom,
    Mathit,
    Underscore,
    Caret,
    Colon,
    Differential,
    Letter,
    Digit,
    Equal,
    Neq,
    Lt,
    Lte,
    Gt,
    Gte,
    Bang,
    Quotes,
    Symbol,
    End,
}

/// A token and the bytes it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The tokens of one string, cut as far as the parser has looked.
pub(super) struct Tokens<'a> {
    text: &'a str,
    cut: Vec<Token>,
    at: usize,
    most: usize,
}

impl<'a> Tokens<'a> {
    /// Tokens of `text`, which may hold at most `most` of them.
    pub(super) fn new(text: &'a str, most: usize) -> Self {
        Tokens { text, cut: Vec::new(), at: 0, most }
    }

    /// Token `index`; past the end it is `End`.
    pub(super) fn get(&mut self, index: usize) -> Result<Token, Stop> {
        while self.cut.len() <= index {
            if let Some(last) = self.cut.last()
                && last.kind == Kind::End
            {
                return Ok(*last);
            }
            if self.cut.len() >= self.most {
                return Err(Stop::TooMuch);
            }
            let token = self.next()?;
            self.cut.push(token);
        }
        Ok(self.cut[index])
    }

    /// The characters of a token.
    pub(super) fn text(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    /// The characters from one token to another, both included, with whatever was skipped between.
    pub(super) fn span(&self, first: Token, last: Token) -> &'a str {
        self.text.get(first.start..last.end).unwrap_or_default()
    }

    fn next(&mut self) -> Result<Token, Stop> {
        loop {
            let start = self.at;
            let (kind, len) = match cut(&self.text.as_bytes()[start..]) {
                Cut::Token(kind, len) => (kind, len),
                Cut::Skip(len) => {
                    self.at += len;
                    continue;
                }
                Cut::End => (Kind::End, 0),
                Cut::Bad => return Err(Stop::Syntax),
            };
            self.at += len;
            return Ok(Token { kind, start, end: start + len });
        }
    }
}

enum Cut {
    Token(Kind, usize),
    Skip(usize),
    End,
    Bad,
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn letters(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_alphabetic()).count()
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| is_space(b)).count()
}

fn cut(bytes: &[u8]) -> Cut {
    use Kind::*;
    let Some(&first) = bytes.first() else { return Cut::End };
    let one = |kind| Cut::Token(kind, 1);
    match first {
        b if is_space(&b) => Cut::Skip(spaces(bytes)),
        b'\\' => command(bytes),
        b'd' => differential(bytes),
        b if b.is_ascii_alphabetic() => one(Letter),
        b if b.is_ascii_digit() => one(Digit),
        b',' => one(Comma),
        b'.' => one(Dot),
        b'+' => one(Add),
        b'-' => one(Sub),
        b'*' => one(Mul),
        b'/' => one(Div),
        b'(' => one(LParen),
        b')' => one(RParen),
        b'{' => one(LBrace),
        b'}' => one(RBrace),
        b'[' => one(LBracket),
        b']' => one(RBracket),
        b'|' => one(Bar),
        b'_' => one(Underscore),
        b'^' => one(Caret),
        b':' => one(Colon),
        b'<' => one(Lt),
        b'>' => one(Gt),
        b'!' => one(Bang),
        b'\'' => Cut::Token(Quotes, bytes.iter().take_while(|&&b| b == b'\'').count()),
        b'&' => {
            let gap = 1 + spaces(&bytes[1..]);
            if bytes.get(gap) == Some(&b'=') { Cut::Token(Equal, gap + 1) } else { Cut::Bad }
        }
        b'=' => {
            let gap = 1 + spaces(&bytes[1..]);
            if bytes.get(gap) == Some(&b'&') { Cut::Token(Equal, gap + 1) } else { one(Equal) }
        }
        _ => Cut::Bad,
    }
}

/// `d` joins the letter or command after it: `odd` is o times `dd`, and `d\right` is one symbol.
fn differential(bytes: &[u8]) -> Cut {
    let gap = 1 + spaces(&bytes[1..]);
    match bytes.get(gap) {
        Some(b) if b.is_ascii_alphabetic() => Cut::Token(Kind::Differential, gap + 1),
        Some(b'\\') if letters(&bytes[gap + 1..]) > 0 => {
            Cut::Token(Kind::Differential, gap + 1 + letters(&bytes[gap + 1..]))
        }
        _ => Cut::Token(Kind::Letter, 1),
    }
}

fn command(bytes: &[u8]) -> Cut {
    use Kind::*;
    let run = letters(&bytes[1..]);
    if run == 0 {
        return match bytes.get(1) {
            Some(b',' | b':' | b';' | b'!' | b'*' | b'-' | b'.' | b'/' | b'"' | b'(' | b'=') => Cut::Skip(2),
            Some(b'{') => Cut::Token(LBraceLiteral, 2),
            Some(b'}') => Cut::Token(RBraceLiteral, 2),
            _ => Cut::Bad,
        };
    }
    let (name, rest) = bytes[1..].split_at(run);
    let len = 1 + run;
    let kind = match name {
        b"left" if rest.first() == Some(&b'|') => return Cut::Token(LeftBar, len + 1),
        b"right" if rest.first() == Some(&b'|') => return Cut::Token(RightBar, len + 1),
        b"left" | b"right" | b"thinspace" | b"medspace" | b"thickspace" | b"quad" | b"qquad" | b"negthinspace"
        | b"negmedspace" | b"negthickspace" | b"vrule" | b"vcenter" | b"vbox" | b"vskip" | b"vspace" | b"hfil" => {
            return Cut::Skip(len);
        }
        b"int" if rest.starts_with(b"\\limits") => return Cut::Token(Int, len + 7),
        b"int" => Int,
        b"langle" => LAngle,
        b"rangle" => RAngle,
        b"lim" => Lim,
        b"to" | b"rightarrow" | b"Rightarrow" | b"longrightarrow" | b"Longrightarrow" => Approach,
        b"sum" => Sum,
        b"prod" => Prod,
        b"exp" | b"log" | b"lg" | b"ln" | b"sin" | b"cos" | b"tan" | b"csc" | b"sec" | b"cot" | b"arcsin"
        | b"arccos" | b"arctan" | b"arccsc" | b"arcsec" | b"arccot" | b"sinh" | b"cosh" | b"tanh" | b"arsinh"
        | b"arcosh" | b"artanh" => Function,
        b"lfloor" => LFloor,
        b"rfloor" => RFloor,
        b"lceil" => LCeil,
        b"rceil" => RCeil,
        b"sqrt" => Sqrt,
        b"overline" => Overline,
        b"times" => Times,
        b"cdot" => Cdot,
        b"div" => CmdDiv,
        b"frac" | b"dfrac" | b"tfrac" => Frac,
        b"binom" | b"dbinom" | b"tbinom" => Binom,
        b"mathit" => Mathit,
        b"neq" => Neq,
        b"le" | b"leq" | b"leqq" | b"leqslant" => Lte,
        b"ge" | b"geq" | b"geqq" | b"geqslant" => Gte,
        _ => Symbol,
    };
    Cut::Token(kind, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut tokens = Tokens::new(text, 100);
        let mut kinds = Vec::new();
        for index in 0.. {
            let kind = tokens.get(index).unwrap().kind;
            if kind == Kind::End {
                return kinds;
            }
            kinds.push(kind);
        }
        kinds
    }

    #[test]
    fn the_longest_match_wins() {
        use Kind::*;
        assert_eq!(kinds(r"\cdot x"), [Cdot, Letter]);
        assert_eq!(kinds(r"\cdotx"), [Symbol]);
        assert_eq!(kinds(r"\le\leq\lex"), [Lte, Lte, Symbol]);
        assert_eq!(kinds(r"\left|x\right|"), [LeftBar, Letter, RightBar]);
        assert_eq!(kinds(r"\int\limits\int"), [Int, Int]);
        assert_eq!(kinds("= &1&  =2'''"), [Equal, Digit, Equal, Digit, Quotes]);
    }

    #[test]
    fn a_d_swallows_what_follows() {
        use Kind::*;
        assert_eq!(kinds("odd"), [Letter, Differential]);
        assert_eq!(kinds(r"d \right)"), [Differential, RParen]);
        assert_eq!(kinds("d+1"), [Letter, Add, Digit]);
    }

    #[test]
    fn spacing_is_nothing() {
        use Kind::*;
        assert_eq!(kinds("\\left( 1\\, \\quad\\!2 \\right)\n"), [LParen, Digit, Digit, RParen]);
    }

    #[test]
    fn a_bad_character_counts_only_when_reached() {
        let mut tokens = Tokens::new("1%", 100);
        assert!(tokens.get(0).is_ok());
        assert!(matches!(tokens.get(1), Err(Stop::Syntax)));
    }
}
