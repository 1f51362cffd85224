//! As much of addresses as downloads need: joining, comparing, escaping, and the links of a package index.

use std::fmt::Write;

/// Scheme, host and port: who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// Of an address over HTTP; `None` for any other.
    pub(crate) fn of(url: &str) -> Option<Origin> {
        let uri: ureq::http::Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        Some(Origin { scheme, host, port: uri.port_u16().unwrap_or(usual) })
    }
}

/// Where a link on a page leads.
pub(crate) fn join(base: &str, link: &str) -> Option<String> {
    let link = link.split('#').next().unwrap_or_default();
    if link.contains("://") {
        return Some(link.into());
    }
    let (scheme, rest) = base.split_once("://")?;
    if let Some(elsewhere) = link.strip_prefix("//") {
        return Some(format!("{scheme}://{elsewhere}"));
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some(path) = link.strip_prefix('/') {
        return Some(format!("{scheme}://{authority}/{path}"));
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop(); // the page itself
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    Some(format!("{scheme}://{authority}/{}", parts.join("/")))
}

/// A text as one part of a path; `/` stays unless `whole`.
pub(crate) fn escape(text: &str, whole: bool) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            b'/' if !whole => escaped.push('/'),
            // Writing to a string cannot fail.
            byte => drop(write!(escaped, "%{byte:02X}")),
        }
        escaped
    })
}

/// The file of a package index with this name: its address and the SHA-256 that the index gives. `page` is what the index answered for
/// the package, in either of the forms that indexes have (PEP 503 and PEP 691).
pub fn wheel_links(page: &str, at: &str, file: &str) -> Option<(String, Option<String>)> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(page) {
        let files = json.get("files")?.as_array()?;
        let found = files.iter().find(|entry| entry["filename"] == *file)?;
        let sha256 = found["hashes"]["sha256"].as_str().map(str::to_owned);
        return Some((join(at, found["url"].as_str()?)?, sha256));
    }
    let link = page.split("href=").skip(1).find_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let href = rest[1..].split(quote).next()?.replace("&amp;", "&");
        let path = href.split(['#', '?']).next()?;
        (path.rsplit('/').next()? == file).then_some(href)
    })?;
    let sha256 = link.split_once("#sha256=").map(|(_, sha256)| sha256.split('&').next().unwrap_or_default().to_owned());
    Some((join(at, &link)?, sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_a_browser_would_go() {
        let at = "https://a.org:8/x/y/z?q=1";
        for (link, want) in [
            ("http://b.org/c", "http://b.org/c"),
            ("//b.org/c", "https://b.org/c"),
            ("/c?d", "https://a.org:8/c?d"),
            ("c", "https://a.org:8/x/y/c"),
            ("../c#frag", "https://a.org:8/x/c"),
            ("../../../../c", "https://a.org:8/c"),
        ] {
            assert_eq!(join(at, link).as_deref(), Some(want), "{link}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let of = |url| Origin::of(url);
        assert_eq!(of("https://a.org/x"), of("https://A.org:443/y"));
        assert_ne!(of("https://a.org/x"), of("http://a.org/x"));
        assert_ne!(of("http://127.0.0.1:1/x"), of("http://127.0.0.1:2/x"));
        for odd in ["file:///etc/passwd", "ftp://a/b", "a/b", "https://", ""] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn revisions_become_one_part_of_a_path() {
        assert_eq!(escape("refs/pr/1", true), "refs%2Fpr%2F1");
        assert_eq!(escape("a b/ü.gguf", false), "a%20b/%C3%BC.gguf");
    }

    #[test]
    fn both_forms_of_an_index_are_read() {
        let html =
            "<a href=\"../../p/x-1.0.whl#sha256=ab\">x</a><a href='https://f.org/p/x-1.1.whl#sha256=cd&amp;y'>x</a>";
        let at = "https://pypi.org/simple/x/";
        assert_eq!(
            wheel_links(html, at, "x-1.0.whl"),
            Some(("https://pypi.org/p/x-1.0.whl".into(), Some("ab".into())))
        );
        assert_eq!(wheel_links(html, at, "x-1.1.whl"), Some(("https://f.org/p/x-1.1.whl".into(), Some("cd".into()))));
        assert_eq!(wheel_links(html, at, "x-2.whl"), None);
        let json = r#"{"files": [{"filename": "x-1.0.whl", "url": "/p/x.whl", "hashes": {"sha256": "ab"}}]}"#;
        assert_eq!(wheel_links(json, at, "x-1.0.whl"), Some(("https://pypi.org/p/x.whl".into(), Some("ab".into()))));
    }
}
