use crate::support::{Listening, Server, all, chat, config};
use axum::body::Body;
use axum::http::Request;
use cofill_serve::Keys;
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};

fn guarded() -> Server {
    let mut config = config();
    config.keys = Keys::of("alpha\nbeta\n");
    Server::with(config, &["tiny-llada"])
}

fn request(headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(chat(json!({})).to_string())).unwrap()
}

#[tokio::test]
async fn keys_open_and_nothing_else_does() {
    let server = guarded();
    for wrong in [
        vec![],
        vec![("authorization", "Bearer gamma")],
        vec![("authorization", "Bearer ")],
        vec![("authorization", "alpha")],
        vec![("x-api-key", "alphabeta")],
    ] {
        let headers: Vec<_> = [("host", "localhost")].into_iter().chain(wrong).collect();
        let refused = server.ask(request(&headers)).await;
        refused.refused(401, "invalid_api_key", &["key"]);
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    for right in [("authorization", "Bearer alpha"), ("authorization", "bearer beta"), ("x-api-key", "beta")] {
        server.ask(request(&[("host", "localhost"), right])).await.fine();
    }
    for closed in ["/v1/models", "/props", "/slots", "/tokenizer_info"] {
        server.get(closed).await.refused(401, "invalid_api_key", &[]);
    }
    for open in ["/", "/health", "/metrics", "/openapi.json", "/assets/page.js"] {
        assert_eq!(server.get(open).await.status.as_u16(), 200, "{open}");
    }
}

#[tokio::test]
async fn pages_and_names_of_others_are_refused() {
    let server = Server::new();
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""] {
        server.ask(request(&[("host", host)])).await.refused(403, "forbidden_origin", &["host"]);
    }
    for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"] {
        server.ask(request(&[("host", host)])).await.fine();
    }
    let foreign = [("host", "localhost:8080"), ("origin", "http://evil.example")];
    server.ask(request(&foreign)).await.refused(403, "forbidden_origin", &["--cors-origin"]);
    server.ask(request(&[("host", "localhost:8080"), ("origin", "null")])).await.refused(403, "forbidden_origin", &[]);
    server.ask(request(&[("host", "localhost:8080"), ("origin", "http://localhost:8080")])).await.fine();
    let mut config = config();
    config.cors_origins = vec!["http://friend.example".into()];
    let server = Server::with(config, &["tiny-llada"]);
    let friend = server.ask(request(&[("host", "localhost"), ("origin", "http://friend.example")])).await;
    assert_eq!(friend.headers["access-control-allow-origin"], "http://friend.example");
    assert!(!friend.headers.contains_key("access-control-allow-credentials"));
}

#[tokio::test]
async fn only_json_is_read() {
    let server = Server::new();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = Request::post("/v1/chat/completions").header("host", "localhost").header("content-type", kind);
        let answer = server.ask(request.body(Body::from("{}")).unwrap()).await;
        answer.refused(415, "unsupported_media_type", &["application/json"]);
    }
    for body in ["", "{", "[]", "null", "{\"messages\": 5}", "\u{0}", "{} x"] {
        let request = Request::post("/v1/chat/completions").header("host", "localhost");
        let request = request.header("content-type", "application/json; charset=utf-8");
        let answer = server.ask(request.body(Body::from(body)).unwrap()).await;
        answer.refused(400, "unsupported_value", &[]);
    }
    for deep in
        ["[".repeat(100_000), "{\"messages\":".repeat(50_000), format!("{{\"metadata\":{}", "[".repeat(100_000))]
    {
        let request = Request::post("/v1/chat/completions").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let begun = Instant::now();
        server.ask(request.body(Body::from(deep)).unwrap()).await.refused(400, "unsupported_value", &["read"]);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn prompts_of_a_million_tokens_cost_nothing() {
    let server = Server::new();
    let begun = Instant::now();
    let text = "7 ".repeat(900_000);
    let messages = json!([{"role": "user", "content": text}]);
    server.chat(json!({"messages": messages})).await.refused(400, "context_length_exceeded", &["1800000 bytes"]);
    let ids = vec![5; 600_000];
    let answer = server.post("/v1/completions", &json!({"prompt": ids})).await;
    answer.refused(400, "context_length_exceeded", &["600000"]);
    server.post("/tokenize", &json!({"content": text})).await.refused(400, "context_length_exceeded", &[]);
    let template = format!("{text}[MASK:4]");
    let answer = server.post("/v1/cofill/decode", &json!({"template": template})).await;
    answer.refused(400, "context_length_exceeded", &[]);
    let answer = server.post("/v1/cofill/decode", &json!({"template": "[MASK:65535]".repeat(100)})).await;
    answer.refused(400, "context_length_exceeded", &[]);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let server = Server::new();
    for path in [
        "/assets/../Cargo.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets//etc/passwd",
        "/assets/page.js/..",
        "/v1/../health",
        "/%00",
        "/nowhere",
        "/v1/models/../../x",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status.as_u16(), 404, "{path}: {}", answer.text);
        assert_eq!(answer.json()["error"]["type"], "not_found_error");
    }
    assert_eq!(server.get("/v1/chat/completions").await.status.as_u16(), 405);
}

#[test]
fn bodies_that_are_too_large_are_refused_at_once() {
    let server = Listening::new(config(), &["tiny-llada"]);
    let begun = Instant::now();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let said = server.raw(format!("{head}content-length: 1073741824\r\n\r\n{{").as_bytes());
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("body_too_large"), "{said}");
    // The same without saying so before: chunks of a MiB until nobody reads on.
    let mut socket = server.connect();
    socket.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    let sent = (0..1024).take_while(|_| socket.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 64, "{sent} MiB were taken");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn headers_without_end_and_clients_without_haste_are_cut_off() {
    let mut config = config();
    config.read_timeout = Duration::from_millis(300);
    config.max_connections = 8;
    let server = Listening::new(config, &["tiny-llada"]);
    let flood: String = (0..20_000).map(|i| format!("x-{i}: y\r\n")).collect();
    let said = server.raw(format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{flood}\r\n").as_bytes());
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431") || said.starts_with("HTTP/1.1 400"), "{said}");
    let begun = Instant::now();
    // A head that never ends, and a body that never comes.
    let mut slow = server.connect();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: local").unwrap();
    let said = server.raw(b"POST /completion HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{");
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!(!all(slow).starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // More connections than may be: those are closed, the others served, and afterwards there is room.
    let held: Vec<_> = (0..12).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(100));
    assert!(server.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").is_empty());
    drop(held);
    crate::support::eventually("room again", || {
        server.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").starts_with("HTTP/1.1 200")
    });
}

#[test]
fn hosts_are_read_as_the_protocol_says() {
    let server = Listening::new(config(), &["tiny-llada"]);
    let get = |line: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        server.raw(format!("GET {line} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").as_bytes())
    };
    for fine in ["127.0.0.1", "localhost:99", "[::1]", "[::1]:8080"] {
        assert!(get("/v1/models", &[fine]).starts_with("HTTP/1.1 200"), "{fine}");
    }
    for foreign in ["evil.example", "[::1].evil", "127.0.0.1.evil", "[::1"] {
        let said = get("/v1/models", &[foreign]);
        assert!(said.starts_with("HTTP/1.1 403") || said.starts_with("HTTP/1.1 400"), "{foreign}: {said}");
    }
    assert!(get("/v1/models", &["127.0.0.1", "evil.example"]).starts_with("HTTP/1.1 400"));
    assert!(get("http://evil.example/v1/models", &["127.0.0.1"]).starts_with("HTTP/1.1 403"));
    assert!(get("http://localhost/v1/models", &["localhost"]).starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn errors_stay_short_and_are_objects() {
    let server = Server::new();
    let answer = server.chat(json!({"cofill": {"sampler": "x".repeat(1_000_000)}})).await;
    assert_eq!(answer.status.as_u16(), 400);
    assert!(answer.text.len() < 5_000, "{} bytes", answer.text.len());
    let answer = server.get("/v1/models/%ff%fe").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn who_never_reads_holds_no_connection() {
    let mut config = config();
    config.write_timeout = Duration::from_millis(300);
    config.max_connections = 1;
    let server = Listening::new(config, &["tiny-llada"]);
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let ask = "GET /assets/draw.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    // Tens of megabytes of answers that fit no buffer.
    let _ = (0..20).all(|_| deaf.write_all(ask.as_bytes()).is_ok());
    crate::support::eventually("room again", || {
        server.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").starts_with("HTTP/1.1 200")
    });
    drop(deaf);
}
