use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use cofill_engine::{Engine, RunOptions};
use cofill_serve::{App, Config, router};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tower::ServiceExt;

pub(crate) const GUS: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

pub(crate) fn config() -> Config {
    Config::new("127.0.0.1:0".parse().unwrap(), "topk:2+ad".parse().unwrap())
}

pub(crate) fn engines(names: &[&str]) -> Vec<(String, Engine)> {
    names.iter().map(|&name| (name.into(), Engine::open(name, &RunOptions::default()).unwrap())).collect()
}

/// A server without a socket.
#[derive(Clone)]
pub(crate) struct Server {
    routes: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub(crate) fn fine(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json()
    }

    /// That it is refused so, and says these words.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str, says: &[&str]) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let error = &self.json()["error"];
        assert_eq!(error["code"].as_str().unwrap_or_default(), code, "{error}");
        for word in says {
            assert!(error["message"].as_str().unwrap().contains(word), "no `{word}` in {error}");
        }
        assert!(self.headers.contains_key("x-request-id"));
    }

    /// The chunks of a stream, without its end, which must be there.
    #[track_caller]
    pub(crate) fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.headers["content-type"], "text/event-stream", "{}", self.text);
        let mut data: Vec<&str> = self.text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.text);
        data.into_iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    }
}

impl Server {
    pub(crate) fn new() -> Server {
        Server::with(config(), &["tiny-llada", "tiny-dream"])
    }

    pub(crate) fn with(config: Config, models: &[&str]) -> Server {
        let app = App::new(config, engines(models)).unwrap();
        Server { routes: router(&app) }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.routes.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer { status: head.status, headers: head.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        self.ask(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// A chat with the usual question and these fields.
    pub(crate) async fn chat(&self, fields: Value) -> Answer {
        self.post("/v1/chat/completions", &chat(fields)).await
    }
}

pub(crate) fn chat(fields: Value) -> Value {
    with(json!({"model": "tiny-llada", "messages": [{"role": "user", "content": GUS}]}), fields)
}

/// An object with other fields in it.
pub(crate) fn with(mut object: Value, fields: Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// A server on the loopback, in a runtime of its own.
pub(crate) struct Listening {
    address: SocketAddr,
    stop: tokio::sync::mpsc::Sender<()>,
    done: std::sync::mpsc::Receiver<()>,
}

impl Listening {
    pub(crate) fn new(config: Config, models: &[&str]) -> Listening {
        let engines = engines(models);
        let (stop, mut stopped) = tokio::sync::mpsc::channel(2);
        let (told, tell) = std::sync::mpsc::channel();
        let (end, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let app = App::new(config, engines).unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                cofill_serve::serve(app, listener, async || {
                    let _ = stopped.recv().await;
                })
                .await;
            });
            runtime.shutdown_background();
            let _ = end.send(());
        });
        let address = tell.recv_timeout(Duration::from_secs(20)).unwrap();
        Listening { address, stop, done }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// Sends a request and leaves the connection open.
    pub(crate) fn send(&self, path: &str, body: &Value) -> TcpStream {
        let mut socket = self.connect();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(body.as_bytes()).unwrap();
        socket
    }

    /// Everything that comes back for these bytes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect();
        let _ = socket.write_all(bytes); // it may be closed before all was said
        all(socket)
    }

    /// The signal to end.
    pub(crate) fn stop(&self) {
        self.stop.blocking_send(()).unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&self) {
        self.done.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.raw(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let lines = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

pub(crate) fn all(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes); // a reset after the answer is an end, too
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until something is so, for a while.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..400 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
