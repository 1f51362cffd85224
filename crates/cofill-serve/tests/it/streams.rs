use crate::support::{Answer, Server, config, with};
use serde_json::{Value, json};
use std::time::Duration;

/// Samplers of every kind: with and without attention, looking ahead, taking back.
const SAMPLERS: [&str; 9] = ["topk:2+ad", "topk:1", "fast:1", "eb:3+ad:40", "klass", "dapd", "punt", "dus", "p2:12"];

fn contents(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

async fn stream(server: &Server, fields: Value) -> Answer {
    server.chat(with(json!({"stream": true}), fields)).await
}

#[tokio::test]
async fn appended_deltas_are_the_answer_for_every_sampler() {
    let server = Server::new();
    for sampler in SAMPLERS {
        for stop in [json!(null), json!(["26+4", "\n#"])] {
            let fields = json!({"cofill": {"sampler": sampler}, "stop": stop, "seed": 1});
            let whole = server.chat(fields.clone()).await.fine();
            let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
            let chunks = stream(&server, fields.clone()).await.chunks();
            assert_eq!(contents(&chunks).concat(), text, "{sampler} {stop}");
            let last = chunks.last().unwrap();
            assert_eq!(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"], "{sampler}");
            let drafts = stream(&server, with(fields, json!({"diffusing": true}))).await.chunks();
            assert_eq!(*contents(&drafts).last().unwrap(), text, "{sampler}: the last draft");
        }
    }
}

#[tokio::test]
async fn characters_of_several_bytes_arrive_whole() {
    // A text that the tokenizer writes byte by byte, held to it by a constraint.
    let server = Server::new();
    let word = "naïve ☃ 深";
    let fields = json!({"structured_outputs": {"choice": [word]}, "max_tokens": 40, "cofill": {"sampler": "topk:1"}});
    let whole = server.chat(fields.clone()).await.fine();
    assert_eq!(whole["choices"][0]["message"]["content"], word);
    let chunks = stream(&server, fields).await.chunks();
    let parts = contents(&chunks);
    assert!(parts.iter().all(|part| !part.contains('\u{fffd}')), "{parts:?}");
    assert_eq!(parts.concat(), word);
}

#[tokio::test]
async fn a_draft_that_comes_to_nothing_is_taken_back() {
    // The answer begins with a 1, so that nothing of it is left.
    let drafts = stream(&Server::new(), json!({"cofill": {"stream": "draft"}, "stop": "1"})).await.chunks();
    let texts = contents(&drafts);
    assert!(texts[..texts.len() - 1].iter().any(|text| text.contains('░')), "{texts:?}");
    assert_eq!(*texts.last().unwrap(), "");
}

#[tokio::test]
async fn drafts_are_whole_texts_with_shades() {
    let drafts = stream(&Server::new(), json!({"cofill": {"stream": "draft"}})).await.chunks();
    let texts = contents(&drafts);
    assert!(texts[1].contains('░'), "{texts:?}");
    assert!(!texts.last().unwrap().contains('░'));
}

#[tokio::test]
async fn frames_replayed_lead_to_the_final_canvas() {
    let server = Server::new();
    for sampler in SAMPLERS {
        let fields = json!({"cofill": {"sampler": sampler, "stream": "delta", "trace": true}});
        let chunks = stream(&server, fields).await.chunks();
        let canvas = &chunks[0]["cofill"]["canvas"];
        let mut tokens: Vec<Value> = canvas["tokens"].as_array().unwrap().clone();
        let mask = canvas["mask"].clone();
        assert_eq!(tokens.len(), canvas["pieces"].as_array().unwrap().len());
        let mut left = 0;
        for frame in chunks.iter().map(|chunk| &chunk["cofill"]).filter(|frame| frame["commits"].is_array()) {
            for commit in frame["commits"].as_array().unwrap() {
                tokens[commit["position"].as_u64().unwrap() as usize] = commit["token"].clone();
            }
            for position in frame["remasked"].as_array().unwrap() {
                tokens[position.as_u64().unwrap() as usize] = mask.clone();
            }
            for position in frame["collapsed"]["positions"].as_array().into_iter().flatten() {
                tokens[position.as_u64().unwrap() as usize] = frame["collapsed"]["token"].clone();
            }
            left = frame["masked"].as_u64().unwrap() as usize;
            assert_eq!(left, tokens.iter().filter(|token| **token == mask).count(), "{sampler}");
        }
        assert_eq!(left, tokens.iter().filter(|token| **token == mask).count());
        let last = chunks.last().unwrap();
        assert!(last["cofill"]["trace"].as_array().unwrap().len() > 1);
    }
}

#[tokio::test]
async fn every_chunk_is_one_that_clients_know() {
    let server = Server::new();
    for mode in ["append", "draft", "delta"] {
        let fields = json!({"cofill": {"stream": mode}, "stream_options": {"include_usage": true}, "n": 2});
        let answer = stream(&server, fields).await;
        assert_eq!(answer.headers["cache-control"], "no-cache");
        assert_eq!(answer.headers["x-accel-buffering"], "no");
        assert!(!answer.text.contains("event:"));
        let mut chunks = answer.chunks();
        let usage = chunks.pop().unwrap();
        assert_eq!(usage["choices"], json!([]));
        assert!(usage["usage"]["completion_tokens"].as_u64().unwrap() > 0 && usage["timings"].is_object());
        for chunk in &chunks {
            assert_eq!(chunk["object"], "chat.completion.chunk");
            assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
            assert!(chunk["choices"][0]["delta"].is_object() && chunk.as_object().unwrap().contains_key("usage"));
            assert!(chunk["usage"].is_null());
        }
        for index in 0..2 {
            let of = |chunk: &&Value| chunk["choices"][0]["index"] == index;
            let last = chunks.iter().rfind(of).unwrap();
            assert_eq!(last["choices"][0]["finish_reason"], "stop", "{mode}: choice {index} has an end");
        }
    }
}

#[tokio::test]
async fn errors_in_a_stream_are_said_and_end_it() {
    // The first position of this family predicts nothing, so the forward fails, after the stream has begun.
    let server = Server::new();
    let body = json!({"model": "tiny-dream", "tokens": [null, null, 5], "stream": true});
    let chunks = server.post("/v1/cofill/decode", &body).await.chunks();
    assert_eq!(chunks.last().unwrap()["error"]["code"], "decode_failed");
}

#[tokio::test]
async fn a_silent_stream_says_that_it_lives() {
    let mut config = config();
    config.keep_alive = Duration::from_millis(1);
    let server = Server::with(config, &["tiny-llada"]);
    let answer = stream(&server, json!({"cofill": {"sampler": "topk:1"}})).await;
    assert!(answer.text.lines().any(|line| line == ":"), "{}", answer.text);
    assert!(!answer.text.contains(": "[..].repeat(2).as_str()) && !answer.text.contains("ping"));
    assert!(!answer.chunks().is_empty());
}
