//! Braces in a sampler's name: `eb:{0.1,1}{,+ad}` is `eb:0.1`, `eb:0.1+ad`, `eb:1`, `eb:1+ad`.
//!
//! As in a shell, and without its surprises: braces do not nest, and one that is not closed, is empty or says the same thing twice
//! is an error. An empty alternative is allowed, for `{,+ad}`.

use cofill::{Registry, SamplerSpec};

/// The samplers that `text` stands for, the last braces running fastest.
pub(crate) fn samplers(text: &str, registry: &Registry) -> Result<Vec<SamplerSpec>, String> {
    let spec = |name: String| match name == text {
        true => registry.parse(&name).map_err(|error| error.to_string()),
        false => registry.parse(&name).map_err(|error| format!("`{name}`, of `{text}`: {error}")),
    };
    expand(text)?.into_iter().map(spec).collect()
}

/// Every text that `text` stands for.
fn expand(text: &str) -> Result<Vec<String>, String> {
    let Some(open) = text.find(['{', '}']) else { return Ok(vec![text.into()]) };
    let (head, rest) = (&text[..open], &text[open + 1..]);
    let close = match (text.as_bytes()[open], rest.find(['{', '}'])) {
        (b'}', _) => return Err(format!("`{text}` closes a brace that is not open; write `{{1,2}}`")),
        (_, None) => return Err(format!("`{text}` opens a brace and does not close it; add `}}`")),
        (_, Some(close)) => close,
    };
    if rest.as_bytes()[close] == b'{' {
        return Err(format!("`{text}` has braces within braces; write the samplers one by one"));
    }
    let choices: Vec<&str> = rest[..close].split(',').map(str::trim).collect();
    if choices == [""] {
        return Err(format!("`{text}` has empty braces; write `{{1,2}}`"));
    }
    if let Some(twice) = choices.iter().enumerate().find(|(i, choice)| choices[..*i].contains(*choice)) {
        return Err(format!("`{text}` says `{}` twice in its braces; remove one", twice.1));
    }
    let tails = expand(&rest[close + 1..])?;
    let texts = choices.iter().flat_map(|choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}")));
    Ok(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        samplers(text, Registry::stock()).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn braces_are_products() {
        assert_eq!(names("topk:8"), ["topk:8"]);
        assert_eq!(names("eb:{0.001, 10}+ad"), ["eb:0.001+ad:40", "eb:10+ad:40"]);
        assert_eq!(names("topk:{1,2}{,+ad}"), ["topk:1", "topk:1+ad:40", "topk:2", "topk:2+ad:40"]);
        assert_eq!(names("klass:{0.7,0.9},{1,2}"), ["klass:0.7,1", "klass:0.7,2", "klass:0.9,1", "klass:0.9,2"]);
        assert_eq!(names("{topk:8,fast:3}"), ["topk:8", "fast:3"]);
    }

    #[test]
    fn wrong_braces_are_errors() {
        let cases = [
            ("eb:{1,2", "does not close"),
            ("eb:1}", "not open"),
            ("eb:{}", "empty braces"),
            ("eb:{1,{2,3}}", "within braces"),
            ("eb:{1,2,1}", "says `1` twice"),
            ("eb:{1,x}", "`eb:x`, of `eb:{1,x}`"),
            ("eb:{1,2,}", "`eb:`, of `eb:{1,2,}`"),
            ("ebs:1", "unknown sampler `ebs"),
        ];
        for (text, said) in cases {
            let error = samplers(text, Registry::stock()).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
