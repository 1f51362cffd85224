//! A hub on the loopback: it speaks the protocol of the real one as far as downloads go, and misbehaves when told to.
//!
//! The command's tests use this file, too. One request per connection, a thread each; all end with the test.
#![allow(dead_code, reason = "two test programs use this file, and each only a part of it")]

use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What the server does in place of the right thing.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Answers with a status and headers, and no body.
    Status(u16, Vec<(&'static str, String)>),
    /// Closes the connection without a word.
    HangUp,
    /// Closes it after so many bytes of the body.
    CutAfter(u64),
    /// Sends everything, whatever range was asked for.
    WholeFile,
    /// Sends another content of the same kind.
    Content(Vec<u8>),
    /// Says another length than it sends.
    SaysLength(u64),
    /// Says nothing about the length, and sends more than there is.
    TooMuch(Vec<u8>),
    /// After so many bytes of the body, tells the test and waits until the client is gone.
    HoldAfter(u64),
    /// Answers a range with one that was not asked for.
    OtherRange,
}

type Rule = Box<dyn FnMut(&Seen) -> Option<Act> + Send>;

#[derive(Default)]
struct State {
    /// What is at a path, with more headers.
    pages: Mutex<HashMap<String, Page>>,
    seen: Mutex<Vec<Seen>>,
    rule: Mutex<Option<Rule>>,
    held: Mutex<Option<Sender<()>>>,
    /// Bytes of bodies that were sent.
    sent: AtomicU64,
}

#[derive(Clone)]
struct Page {
    status: u16,
    headers: Vec<(String, String)>,
    body: Arc<Vec<u8>>,
}

pub(crate) struct Server {
    /// `http://127.0.0.1:PORT`
    pub(crate) address: String,
    state: Arc<State>,
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What git calls these bytes.
pub(crate) fn git_sha1(bytes: &[u8]) -> String {
    let mut hash = Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the hub keeps such a file elsewhere and names it by its SHA-256.
pub(crate) fn is_large(path: &str) -> bool {
    path.ends_with(".safetensors") || path.ends_with(".gguf")
}

pub(crate) fn etag(path: &str, bytes: &[u8]) -> String {
    if is_large(path) { sha256(bytes) } else { git_sha1(bytes) }
}

impl Server {
    pub(crate) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<State> = Arc::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Server { address, state }
    }

    /// Puts a page at a path.
    pub(crate) fn page(&self, path: &str, body: &[u8]) {
        self.insert(path, 200, &[("etag", format!("\"{}\"", git_sha1(body)))], body);
    }

    pub(crate) fn redirect(&self, path: &str, to: &str) {
        self.insert(path, 302, &[("location", to.into())], b"");
    }

    fn insert(&self, path: &str, status: u16, headers: &[(&str, String)], body: &[u8]) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let page = Page { status, headers, body: Arc::new(body.to_vec()) };
        self.state.pages.lock().unwrap().insert(path.into(), page);
    }

    /// Puts a model on the hub: its revision `main` (and the commit itself) is `commit`. Large files are at `cdn`, under their checksum.
    pub(crate) fn model(&self, repo: &str, commit: &str, files: &[(&str, Vec<u8>)], cdn: &Server) {
        let siblings: Vec<serde_json::Value> = files
            .iter()
            .map(|(path, bytes)| {
                let mut file = serde_json::json!({
                    "rfilename": path, "size": bytes.len(), "blobId": git_sha1(bytes),
                });
                if is_large(path) {
                    let lfs = serde_json::json!({"sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 134});
                    file["blobId"] = serde_json::json!(git_sha1(b"version https://git-lfs"));
                    file["lfs"] = lfs;
                }
                file
            })
            .collect();
        let listing = serde_json::json!({"id": repo, "sha": commit, "siblings": siblings}).to_string();
        for revision in ["main", commit] {
            self.page(&format!("/api/models/{repo}/revision/{revision}?blobs=true"), listing.as_bytes());
        }
        for (path, bytes) in files {
            let at = format!("/{repo}/resolve/{commit}/{path}");
            let etag = etag(path, bytes);
            let common = [("x-repo-commit", commit.to_owned()), ("x-linked-size", bytes.len().to_string())];
            if is_large(path) {
                let place = format!("/cdn/{etag}");
                // As S3 has them: an etag that is nobody's checksum.
                cdn.insert(&format!("{place}?signature=secret"), 200, &[("etag", "\"f00-1\"".into())], bytes);
                let mut headers = common.to_vec();
                headers.push(("x-linked-etag", format!("\"{etag}\"")));
                headers.push(("location", format!("{}{place}?signature=secret", cdn.address)));
                self.insert(&at, 302, &headers, b"");
            } else {
                let mut headers = common.to_vec();
                headers.push(("etag", format!("\"{etag}\"")));
                self.insert(&at, 200, &headers, bytes);
            }
        }
    }

    /// From now on, each request is shown to `rule` first.
    pub(crate) fn rule(&self, rule: impl FnMut(&Seen) -> Option<Act> + Send + 'static) {
        *self.state.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// Misbehaves in this way for the next requests whose path contains `part`, one act each.
    pub(crate) fn acts(&self, part: &str, acts: Vec<Act>) {
        let (part, mut acts) = (part.to_owned(), acts.into_iter());
        self.rule(move |seen| if seen.path.contains(&part) { acts.next() } else { None });
    }

    pub(crate) fn behave(&self) {
        *self.state.rule.lock().unwrap() = None;
    }

    /// Who is told that a connection is held.
    pub(crate) fn tell_held(&self, sender: Sender<()>) {
        *self.state.held.lock().unwrap() = Some(sender);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub(crate) fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let seen = Seen { method, path, headers };
    state.seen.lock().unwrap().push(seen.clone());
    let act = state.rule.lock().unwrap().as_mut().and_then(|rule| rule(&seen));
    let page = state.pages.lock().unwrap().get(&seen.path).cloned();
    answer(stream, state, &seen, act.as_ref(), page)
}

fn answer(
    mut stream: TcpStream,
    state: &State,
    seen: &Seen,
    act: Option<&Act>,
    page: Option<Page>,
) -> std::io::Result<()> {
    let mut page = match (act, page) {
        (Some(Act::HangUp), _) => return Ok(()),
        (Some(Act::Status(status, more)), _) => {
            let headers = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            Page { status: *status, headers, body: Arc::default() }
        }
        (_, Some(page)) => page,
        (_, None) => {
            let headers = vec![("x-error-code".to_owned(), "RepoNotFound".to_owned())];
            Page { status: 404, headers, body: Arc::default() }
        }
    };
    if let Some(Act::Content(other)) = act {
        page.body = Arc::new(other.clone());
    }
    let whole = page.body.clone();
    let mut body: &[u8] = &whole;
    let from = seen.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let etag = page.headers.iter().find(|(name, _)| name == "etag").map(|(_, etag)| etag.as_str());
    let unchanged = seen.header("if-range").is_none_or(|want| Some(want) == etag);
    let mut headers = page.headers.clone();
    if let Some(from) = from.filter(|_| page.status == 200 && unchanged && !matches!(act, Some(Act::WholeFile))) {
        if from >= body.len() {
            page.status = 416;
            body = &[];
        } else {
            page.status = 206;
            let from = if matches!(act, Some(Act::OtherRange)) { from - 1 } else { from };
            headers.push(("content-range".into(), format!("bytes {from}-{}/{}", body.len() - 1, body.len())));
            body = &body[from..];
        }
    }
    let more;
    match act {
        Some(Act::SaysLength(length)) => headers.push(("content-length".into(), length.to_string())),
        Some(Act::TooMuch(rest)) => {
            more = [body, rest].concat();
            body = &more; // until the connection closes
        }
        _ => headers.push(("content-length".into(), body.len().to_string())),
    }
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", page.status);
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes())?;
    if seen.method == "HEAD" {
        return Ok(());
    }
    let most = match act {
        Some(Act::CutAfter(most) | Act::HoldAfter(most)) => usize::try_from(*most).unwrap().min(body.len()),
        _ => body.len(),
    };
    for chunk in body[..most].chunks(64 << 10) {
        stream.write_all(chunk)?;
        state.sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
    }
    stream.flush()?;
    if matches!(act, Some(Act::HoldAfter(_))) {
        if let Some(sender) = state.held.lock().unwrap().as_ref() {
            let _ = sender.send(());
        }
        // The client sends nothing more, so that this ends when it is gone.
        let _ = stream.read(&mut [0]);
    }
    Ok(())
}
