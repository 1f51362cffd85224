use crate::support::{GUS, Server, config, with};
use serde_json::{Value, json};

#[tokio::test]
async fn models_health_and_metrics_are_told() {
    let server = Server::new();
    let list = server.get("/v1/models").await.fine();
    assert_eq!(list, server.get("/models").await.fine());
    assert_eq!(list["data"][1]["id"], "tiny-dream");
    assert!(list["data"][0]["max_model_len"].as_u64().unwrap() > 0 && list["data"][0]["meta"]["n_vocab"].is_u64());
    assert_eq!(server.get("/v1/models/tiny-dream").await.fine()["object"], "model");
    server.get("/v1/models/gpt").await.refused(404, "model_not_found", &["tiny-llada"]);
    assert_eq!(server.get("/health?strict=1").await.fine(), json!({"status": "ok"}));
    server.chat(json!({})).await.fine();
    let metrics = server.get("/metrics").await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for name in [
        "cofill_requests_total{route=\"/v1/chat/completions\",code=\"200\"} 1",
        "cofill_requests_running{model=\"tiny-llada\"} 0",
        "cofill_forwards_total{model=\"tiny-llada\"} ",
        "cofill_steps_total{",
        "cofill_positions_total{",
        "cofill_committed_total{",
        "cofill_deferred_total{",
        "cofill_forced_total{",
        "cofill_prompt_tokens_total{",
        "cofill_completion_tokens_total{",
        "cofill_queue_seconds_count{",
        "cofill_request_seconds_count{",
        "cofill_first_settled_seconds_count{",
        "cofill_forward_seconds_count{",
        "cofill_batch_sequences_count{",
        "cofill_round_age_seconds 0",
    ] {
        assert!(metrics.text.contains(name), "no {name} in {}", metrics.text);
    }
    let mut config = config();
    config.metrics = false;
    assert_eq!(Server::with(config, &["toy"]).get("/metrics").await.status.as_u16(), 404);
}

#[tokio::test]
async fn the_document_names_every_route_and_only_those() {
    let server = Server::new();
    let document = server.get("/openapi.json").await.fine();
    let mut n = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "tiny-llada").replace("{path}", "page.js");
        for method in methods.as_object().unwrap().keys() {
            let answer = match method.as_str() {
                "get" => server.get(&path).await,
                _ => server.post(&path, &json!({"tokens": 5, "prompt": 5, "messages": 5, "confidence": 5})).await,
            };
            assert!(![404, 405].contains(&answer.status.as_u16()), "{method} {path}: {}", answer.text);
            n += 1;
        }
    }
    // As many as there are in the source of the router, `/ping` having two methods.
    let source = include_str!("../../src/app.rs");
    assert_eq!(n, source.matches(".route(\"").count() + 1);
}

#[tokio::test]
async fn llama_cpp_clients_find_what_they_ask() {
    let server = Server::new();
    let props = server.get("/props").await.fine();
    assert!(props["default_generation_settings"]["n_ctx"].is_u64() && props["total_slots"].is_u64());
    assert!(server.get("/slots").await.fine().is_array());
    let it = server.post("/completion", &json!({"prompt": GUS, "n_predict": -1})).await.fine();
    assert!(it["content"].as_str().unwrap().ends_with("#### 27"), "{it}");
    assert_eq!((&it["stop"], &it["stop_type"]), (&json!(true), &json!("eos")));
    let word = server.post("/completion", &json!({"prompt": GUS, "stop": ["\n"]})).await.fine();
    assert_eq!(
        (&word["content"], &word["stop_type"], &word["stopping_word"]),
        (&json!("10*2=20"), &json!("word"), &json!("\n"))
    );
    let warm = json!({"input_prefix": "a", "input_suffix": "b", "n_predict": 0, "samplers": [], "cache_prompt": true, "t_max_prompt_ms": 500});
    assert_eq!(server.post("/infill", &warm).await.fine()["content"], "");
    let before = server.get("/metrics").await.text;
    let fill = with(
        warm,
        json!({"n_predict": 2, "prompt": "10*", "input_extra": [{"filename": "x", "text": "y"}],
        "response_fields": ["content", "timings/predicted_n"]}),
    );
    let it = server.post("/infill", &fill).await.fine();
    assert_eq!(it.as_object().unwrap().keys().collect::<Vec<_>>(), ["content", "predicted_n"]);
    assert_ne!(before, server.get("/metrics").await.text);
    let stream = server.post("/completion", &json!({"prompt": GUS, "stream": true})).await;
    let chunks: Vec<Value> = stream
        .text
        .split("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    let text: String = chunks.iter().map(|chunk| chunk["content"].as_str().unwrap()).collect();
    assert!(
        text.ends_with("#### 27") && chunks.last().unwrap()["stop"] == true && chunks[0]["stop"] == false,
        "{text}"
    );
}

#[tokio::test]
async fn text_goes_to_tokens_and_back() {
    let server = Server::new();
    let it = server.post("/tokenize", &json!({"content": GUS, "with_pieces": true})).await.fine();
    let pieces: String = it["tokens"].as_array().unwrap().iter().map(|t| t["piece"].as_str().unwrap()).collect();
    assert_eq!(pieces, GUS);
    let tokens = server.post("/tokenize", &json!({"prompt": GUS, "add_special_tokens": false})).await.fine();
    assert_eq!(tokens["count"].as_u64().unwrap() as usize, tokens["tokens"].as_array().unwrap().len());
    let back = server.post("/detokenize", &json!({"tokens": tokens["tokens"]})).await.fine();
    assert_eq!(back["content"], GUS);
    let prompt = server.post("/apply-template", &json!({"messages": [{"role": "user", "content": "hi"}]})).await.fine();
    assert_eq!(prompt["prompt"], "hi");
    assert!(server.get("/tokenizer_info").await.fine()["eos_token"].is_string());
}

#[tokio::test]
async fn a_decode_has_its_whole_trace_at_once_and_step_by_step() {
    let server = Server::new();
    let body = json!({"prompt": GUS, "sampler": "topk:2+ad"});
    let it = server.post("/v1/cofill/decode", &body).await.fine();
    assert_eq!(
        (&it["object"], &it["finish"], &it["judged"]["right"]),
        (&json!("cofill.decode"), &json!("complete"), &json!(true))
    );
    assert_eq!(it["tokens"].as_array().unwrap().len(), it["pieces"].as_array().unwrap().len());
    // The lines are those of a trace file.
    let lines: String = it["trace"].as_array().unwrap().iter().map(|line| format!("{line}\n")).collect();
    let trace = cofill::Trace::read(lines.as_bytes()).unwrap();
    assert_eq!(trace.nfe() as u64, it["nfe"].as_u64().unwrap());
    let chunks = server.post("/v1/cofill/decode", &with(body, json!({"stream": true}))).await.chunks();
    let (first, last) = (&chunks[0]["cofill"], &chunks.last().unwrap()["cofill"]["done"]);
    assert_eq!((&first["header"], &first["canvas"]["tokens"]), (&it["trace"][0], &it["trace"][0]["tokens"]));
    let steps: Vec<&Value> = chunks[1..chunks.len() - 1].iter().map(|chunk| &chunk["cofill"]["step"]).collect();
    assert_eq!(steps, it["trace"].as_array().unwrap()[1..].iter().collect::<Vec<_>>());
    assert_eq!((&last["text"], &last["tokens"]), (&it["text"], &it["tokens"]));
    assert!(chunks.last().unwrap()["choices"][0]["finish_reason"].is_string());
}

#[tokio::test]
async fn canvases_of_any_shape_are_filled_and_misspelled_fields_refused() {
    let server = Server::new();
    let decode = async |body: Value| server.post("/v1/cofill/decode", &body).await;
    assert!(decode(json!({"template": "10*2=[MASK:1]\n"})).await.fine()["text"].as_str().unwrap().starts_with("10*2="));
    let tokens = decode(json!({"tokens": [5, null, 6, null]})).await.fine()["tokens"].clone();
    assert_eq!((&tokens[0], &tokens[2]), (&json!(5), &json!(6)));
    decode(json!({"messages": [{"role": "user", "content": GUS}], "length": "auto"})).await.fine();
    decode(json!({"promt": "x"})).await.refused(400, "unsupported_value", &["promt"]);
    decode(json!({"prompt": "x", "template": "y"})).await.refused(400, "unsupported_value", &["only one"]);
    decode(json!({"template": "no gap"})).await.refused(400, "unsupported_value", &["[MASK:4]"]);
    decode(json!({"tokens": [9_999_999, null]})).await.refused(400, "unsupported_value", &["9999999"]);
}

#[tokio::test]
async fn one_selection_and_one_forward() {
    let server = Server::new();
    // Two candidates, sure alike; the second attends to the first, so it waits.
    let body = json!({"sampler": "topk:2+ad:40", "confidence": [0.9, 0.9, 0.6], "attention": [[0, 0, 0], [0.9, 0, 0], [0, 0, 0]], "why": true, "id": 7});
    let it = server.post("/v1/cofill/select", &body).await.fine();
    assert_eq!((&it["selected"], &it["id"], &it["deferred"]["position"]), (&json!([0, 2]), &json!(7), &json!(1)));
    let it = server.post("/v1/cofill/probe", &json!({"tokens": [5, null, 6, null]})).await.fine();
    assert_eq!((&it["rows"][0]["position"], &it["rows"][1]["position"]), (&json!(1), &json!(3)));
    assert_eq!(it["attention"].as_array().unwrap().len(), 2);
    server.post("/v1/cofill/probe", &json!({"tokens": [5]})).await.refused(400, "unsupported_value", &["no mask"]);
}

#[tokio::test]
async fn edits_fill_their_region_and_say_that_they_are_experimental() {
    let server = Server::new();
    let content = "<|current_file_content|>\ncurrent_file_path: a\n10*2=<|code_to_edit|>2<|/code_to_edit|>\n20+1=21\n<|/current_file_content|>";
    let body = json!({"model": "tiny-llada", "messages": [{"role": "user", "content": content}], "max_tokens": 4});
    let it = server.post("/v1/edit/completions", &body).await.fine();
    assert_eq!(it["object"], "edit.completion");
    assert!(it["choices"][0]["message"]["content"].as_str().unwrap().starts_with("```\n"));
    assert!(it["warning"].as_str().unwrap().contains("experimental"));
    let apply = "<|original_code|>\nx = 1\n<|/original_code|>\n<|update_snippet|>\nx = 2\n<|/update_snippet|>";
    let body = with(body, json!({"messages": [{"role": "user", "content": apply}], "stream": true}));
    assert!(server.post("/v1/apply/completions", &body).await.chunks().len() > 1);
    let bad = with(body, json!({"messages": [{"role": "user", "content": "x"}]}));
    server.post("/v1/edit/completions", &bad).await.refused(400, "unsupported_value", &["code_to_edit"]);
}

#[tokio::test]
async fn the_page_is_served_with_its_files() {
    let server = Server::new();
    let page = server.get("/").await;
    assert!(
        page.text.contains("assets/page.js") && page.headers["content-type"].to_str().unwrap().starts_with("text/html")
    );
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'self'"));
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    // Every file that the page or one of its scripts names is there.
    let mut waiting: Vec<String> =
        page.text.split("assets/").skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned())).collect();
    let mut seen: Vec<String> = Vec::new();
    while let Some(name) = waiting.pop() {
        let file = server.get(&format!("/assets/{name}")).await;
        assert_eq!(file.status.as_u16(), 200, "{name}");
        let imported = file.text.split("from \"./").skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned()));
        waiting.extend(imported.filter(|it| !seen.contains(it) && it != &name));
        seen.push(name);
    }
    assert!(seen.len() > 5, "{seen:?}");
    let tag = page.headers["etag"].clone();
    let again = axum::http::Request::get("/").header("host", "localhost").header("if-none-match", tag);
    assert_eq!(server.ask(again.body(axum::body::Body::empty()).unwrap()).await.status.as_u16(), 304);
}
