use crate::support::{GUS, Server, chat, config, with};
use serde_json::{Value, json};

const ANSWER: &str = "10*2=20\n20+1=21\n21+5=26\n26+4=30\n30-3=27\n#### 27";

#[tokio::test]
async fn a_chat_is_answered_with_everything_clients_read() {
    let answer = Server::new().chat(json!({"seed": 7})).await;
    assert!(answer.headers.contains_key("x-request-id"));
    let it = answer.fine();
    assert_eq!(it["object"], "chat.completion");
    assert!(it["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let choice = &it["choices"][0];
    assert_eq!(choice["message"], json!({"role": "assistant", "content": ANSWER, "refusal": null}));
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    let usage = &it["usage"];
    let n = |field: &str| usage[field].as_u64().unwrap();
    assert_eq!(n("total_tokens"), n("prompt_tokens") + n("completion_tokens"));
    assert!(
        n("completion_tokens") > 0 && n("completion_tokens") < it["cofill"]["canvas"].as_u64().unwrap(),
        "no padding"
    );
    assert_eq!((&it["cofill"]["seed"], &it["cofill"]["finish"]), (&json!(7), &json!("eos")));
    assert_eq!(it["cofill"]["judged"]["right"], true);
    assert_eq!(
        (&it["timings"]["diffusion"], &it["timings"]["predicted_n"]),
        (&json!(true), &usage["completion_tokens"])
    );
    assert!(it["warning"].as_str().unwrap().contains("no chat template"));
}

#[tokio::test]
async fn choices_differ_at_a_temperature_and_are_the_same_without() {
    let server = Server::new();
    let texts = |it: &Value| -> Vec<String> {
        it["choices"].as_array().unwrap().iter().map(|c| c["message"]["content"].to_string()).collect()
    };
    let it = server.chat(json!({"n": 3})).await.fine();
    assert_eq!(texts(&it), vec![json!(ANSWER).to_string(); 3]);
    let fields = json!({"n": 4, "temperature": 5, "seed": 3});
    let (one, two) = (server.chat(fields.clone()).await.fine(), server.chat(fields).await.fine());
    assert_eq!(texts(&one), texts(&two), "a seed decides");
    let mut different = texts(&one);
    different.dedup();
    assert!(different.len() > 1, "{different:?}");
    let first = server.chat(json!({"temperature": 5, "seed": 3})).await.fine();
    assert_eq!(texts(&first)[0], texts(&one)[0], "the first choice has the request's own seed");
}

#[tokio::test]
async fn an_answer_ends_at_the_earliest_stop() {
    let server = Server::new();
    let it = server.chat(json!({"stop": ["####", "21+5"]})).await.fine();
    assert_eq!(it["choices"][0]["message"]["content"], "10*2=20\n20+1=21\n");
    assert_eq!((&it["choices"][0]["finish_reason"], &it["cofill"]["finish"]), (&json!("stop"), &json!("stop")));
    let it = server.chat(json!({"stop": "\n", "max_tokens": 38})).await.fine();
    assert_eq!(it["choices"][0]["message"]["content"], "10*2=20");
}

#[tokio::test]
async fn a_window_that_is_too_short_is_said() {
    let it = Server::new().chat(json!({"max_completion_tokens": 6, "max_tokens": 60})).await.fine();
    assert_eq!((&it["choices"][0]["finish_reason"], &it["cofill"]["finish"]), (&json!("length"), &json!("full")));
    assert_eq!((&it["usage"]["completion_tokens"], &it["cofill"]["canvas"]), (&json!(6), &json!(6)));
    let it = Server::new().chat(json!({"cofill": {"max_nfe": 2}})).await.fine();
    assert_eq!((&it["choices"][0]["finish_reason"], &it["cofill"]["finish"]), (&json!("length"), &json!("capped")));
    assert_eq!(it["cofill"]["nfe"], 2);
}

#[tokio::test]
async fn log_probabilities_are_those_of_the_committing_step() {
    let it = Server::new().chat(json!({"logprobs": true, "cofill": {"trace": true}})).await.fine();
    let content = it["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len() as u64, it["usage"]["completion_tokens"].as_u64().unwrap());
    let steps = it["cofill"]["trace"].as_array().unwrap();
    let first = steps[0]["tokens"].as_array().unwrap().iter().position(|t| *t == steps[0]["mask_id"]).unwrap();
    let commits = steps[1..].iter().flat_map(|step| step["commits"].as_array().unwrap());
    let confidence = commits.into_iter().find(|c| c["position"] == first).unwrap()["confidence"].as_f64().unwrap();
    assert!((content[0]["logprob"].as_f64().unwrap() - confidence.ln()).abs() < 1e-9);
    assert_eq!(content[0]["bytes"], json!(content[0]["token"].as_str().unwrap().as_bytes()));
    assert_eq!(content[0]["top_logprobs"], json!([]));
}

#[tokio::test]
async fn alternatives_begin_with_what_was_committed() {
    let server = Server::new();
    let plain = server.chat(json!({"logprobs": true})).await.fine();
    let it = server.chat(json!({"logprobs": true, "top_logprobs": 3})).await.fine();
    assert_eq!(it["choices"][0]["message"], plain["choices"][0]["message"], "looking changes nothing");
    let content = it["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(!content.is_empty());
    for entry in content {
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!((top.len(), &top[0]["token"]), (3, &entry["token"]), "greedy: the likeliest is what was written");
        let ln = |value: &Value| value["logprob"].as_f64().unwrap();
        assert!((ln(&top[0]) - ln(entry)).abs() < 1e-4 && ln(&top[0]) >= ln(&top[1]) && ln(&top[1]) >= ln(&top[2]));
    }
    let text = server.post("/v1/completions", &json!({"prompt": GUS, "logprobs": 2})).await.fine();
    assert_eq!(text["choices"][0]["logprobs"]["top_logprobs"][0].as_object().unwrap().len(), 2);
    let body = json!({"prompt": GUS, "stream": true, "top": 2});
    let chunks = server.post("/v1/cofill/decode", &body).await.chunks();
    let top = &chunks[1]["cofill"]["top"];
    assert_eq!(top.as_array().unwrap().len() as u64, chunks[1]["cofill"]["step"]["candidates"].as_u64().unwrap());
    assert!(top[0]["tokens"][0]["piece"].is_string() && top[0]["tokens"][0]["p"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn constraints_hold_and_impossible_ones_are_refused() {
    let server = Server::new();
    let schema = json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["b", "a"], "additionalProperties": false});
    let format = |schema: &Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}}, "max_tokens": 40});
    let it = server.chat(format(&schema)).await.fine();
    let text = it["choices"][0]["message"]["content"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value["b"].is_number() && !text.contains('.') && value["a"].is_boolean(), "{text}");
    let it = server.chat(json!({"structured_outputs": {"choice": ["pear", "plum"]}, "max_tokens": 8})).await.fine();
    assert!(["pear", "plum"].contains(&it["choices"][0]["message"]["content"].as_str().unwrap()), "{it}");
    let it = server.chat(json!({"structured_outputs": {"regex": "[0-9]{3}"}, "max_tokens": 8})).await.fine();
    assert_eq!(it["choices"][0]["message"]["content"].as_str().unwrap().len(), 3, "{it}");
    // Three digits are the whole of this language, though no end token has room behind them: clients take `length` for a cut-off text.
    let it = server.chat(json!({"structured_outputs": {"regex": "[0-9]{3}"}, "max_tokens": 3})).await.fine();
    assert_eq!((&it["choices"][0]["finish_reason"], &it["cofill"]["finish"]), (&json!("stop"), &json!("full")), "{it}");
    let short = with(format(&schema), json!({"max_tokens": 2}));
    server.chat(short).await.refused(400, "unsatisfiable_schema", &["shortest"]);
    server.chat(format(&json!({"type": "nonsense"}))).await.refused(400, "invalid_schema", &[]);
    server.chat(json!({"structured_outputs": {"regex": "(("}})).await.refused(400, "invalid_schema", &[]);
    let refused = server.chat(json!({"structured_outputs": {"grammar": "root ::= x"}})).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["type"]), (501, &json!("not_supported_error")));
}

#[tokio::test]
async fn what_is_ignored_is_said_and_refused_when_strict() {
    let server = Server::new();
    let odd = json!({"presence_penalty": 1.5, "reasoning_effort": "high", "tools": [{"type": "function"}], "user": "me", "foo": 1});
    let warning = server.chat(odd.clone()).await.fine()["warning"].to_string();
    for word in ["presence_penalty is ignored", "reasoning_effort `high`", "tools are ignored"] {
        assert!(warning.contains(word), "{warning}");
    }
    server.chat(with(odd, json!({"cofill": {"strict": true}}))).await.refused(400, "unsupported_value", &["ignored"]);
    let neutral = json!({"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1, "tool_choice": "none", "tools": [{}], "top_p": 1, "top_k": -1});
    assert!(!server.chat(neutral).await.fine()["warning"].to_string().contains("ignored"));
}

#[tokio::test]
async fn effort_stands_for_a_sampler_where_the_server_says_so() {
    let mut config = config();
    config.efforts.insert("high".into(), "topk:1".parse().unwrap());
    let it = Server::with(config, &["tiny-llada"]).chat(json!({"reasoning_effort": "high"})).await.fine();
    assert_eq!(it["cofill"]["sampler"], "topk:1");
}

#[tokio::test]
async fn bad_fields_are_refused_by_name() {
    let server = Server::new();
    let cases = [
        (json!({"n": 0}), "n", "1 to 16"),
        (json!({"n": 99}), "n", "99"),
        (json!({"best_of": 3}), "best_of", "3"),
        (json!({"temperature": -1}), "temperature", "-1"),
        (json!({"top_p": 0}), "top_p", "above 0"),
        (json!({"max_tokens": -5}), "max_tokens", "-5"),
        (json!({"stop": vec!["a"; 17]}), "stop", "17"),
        (json!({"stop": [""]}), "stop", "empty"),
        (json!({"top_logprobs": 3}), "top_logprobs", "logprobs"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", "21"),
        (json!({"logit_bias": {"5": 3}}), "logit_bias", "-100"),
        (json!({"logit_bias": {"x": -100}}), "logit_bias", "token id"),
        (json!({"tool_choice": "required"}), "tool_choice", "none or auto"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type", "xml"),
        (json!({"cofill": {"sampler": "nonsense"}}), "cofill.sampler", "nonsense"),
        (json!({"cofill": {"samplr": "topk:1"}}), "cofill.samplr", "unknown field"),
        (json!({"messages": []}), "messages", "empty"),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role", "robot"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages[0].content[0].type",
            "image_url",
        ),
        (json!({"continue_final_message": true}), "continue_final_message", "assistant"),
    ];
    for (fields, param, says) in cases {
        let answer = server.chat(fields.clone()).await;
        answer.refused(400, "unsupported_value", &[says]);
        assert_eq!(answer.json()["error"]["param"], param, "{fields}");
    }
    server.chat(json!({"model": "gpt-4"})).await.refused(404, "model_not_found", &["tiny-llada`, `tiny-dream"]);
    let long = json!({"max_tokens": 100_000});
    server.chat(long).await.refused(400, "context_length_exceeded", &["tiny-llada"]);
}

#[tokio::test]
async fn any_model_means_the_first() {
    let mut config = config();
    config.any_model = true;
    let it = Server::with(config, &["tiny-llada"]).chat(json!({"model": "gpt-4"})).await.fine();
    assert_eq!(it["model"], "tiny-llada");
}

#[tokio::test]
async fn a_suppressed_token_is_never_written() {
    let server = Server::new();
    let it = server.chat(json!({"return_token_ids": true})).await.fine();
    let first = it["choices"][0]["token_ids"][0].as_u64().unwrap();
    let it = server.chat(json!({"return_token_ids": true, "logit_bias": {first.to_string(): -100}})).await.fine();
    assert!(!it["choices"][0]["token_ids"].as_array().unwrap().contains(&json!(first)));
}

#[tokio::test]
async fn forbidding_everything_is_the_requests_fault() {
    let every: serde_json::Map<String, Value> = (0..512).map(|id: u32| (id.to_string(), json!(-100))).collect();
    Server::new().chat(json!({"logit_bias": every})).await.refused(400, "unsupported_value", &["logit_bias", "allow"]);
}

#[tokio::test]
async fn a_begun_answer_is_continued() {
    let messages =
        json!([{"role": "user", "content": format!("{GUS}\n")}, {"role": "assistant", "content": "10*2=20\n20+1="}]);
    let body = chat(json!({"messages": messages, "continue_final_message": true, "max_tokens": 33}));
    let it = Server::new().post("/v1/chat/completions", &body).await.fine();
    let text = it["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with("21\n"), "{text}");
}

#[tokio::test]
async fn texts_are_continued_in_any_form_and_number() {
    let server = Server::new();
    let ids = server.post("/tokenize", &json!({"content": format!("{GUS}\n")})).await.fine()["tokens"].clone();
    for prompt in [json!(GUS), json!([GUS]), ids.clone(), json!([ids])] {
        let it = server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 38})).await.fine();
        assert_eq!((&it["object"], &it["choices"][0]["text"]), (&json!("text_completion"), &json!(ANSWER)), "{prompt}");
    }
    let body = json!({"prompt": [GUS, "x"], "n": 2, "temperature": 1, "max_tokens": 4, "echo": true});
    let it = server.post("/v1/completions", &body).await.fine();
    let choices = it["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|c| c["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(
        choices[1]["text"].as_str().unwrap().starts_with(GUS) && choices[2]["text"].as_str().unwrap().starts_with('x')
    );
    let it = server.post("/v1/completions", &json!({"prompt": GUS, "logprobs": 1})).await.fine();
    let logprobs = &it["choices"][0]["logprobs"];
    let len = |field: &str| logprobs[field].as_array().unwrap().len();
    assert!(len("tokens") > 0 && len("tokens") == len("token_logprobs") && len("tokens") == len("text_offset"));
    let harness = json!({"prompt": GUS, "echo": true, "logprobs": 1, "max_tokens": 1});
    server.post("/v1/completions", &harness).await.refused(400, "unsupported_value", &["python -m cofill.lm_eval"]);
}

#[tokio::test]
async fn a_gap_is_filled_between_what_was_given() {
    let server = Server::new();
    let body = json!({"prompt": "10*2=", "suffix": "\n20+1=21\n", "max_tokens": 1});
    let it = server.post("/v1/completions", &body).await.fine();
    assert_eq!(it["usage"]["completion_tokens"], 1);
    let fim = server.post("/v1/fim/completions", &body).await.fine();
    let choice = &fim["choices"][0];
    assert_eq!(
        (&choice["text"], &choice["message"]["content"]),
        (&it["choices"][0]["text"], &choice["text"]),
        "both shapes"
    );
    let auto = with(body, json!({"max_tokens": null, "cofill": {"length": "auto"}}));
    let it = server.post("/v1/completions", &auto).await.fine();
    assert!(it["cofill"]["probes"].as_u64().unwrap() > 0, "{it}");
}

#[tokio::test]
async fn an_answer_grows_as_far_as_it_may() {
    let it = Server::new().chat(json!({"cofill": {"length": "auto", "block": 8}, "max_tokens": 16})).await.fine();
    assert!(it["cofill"]["canvas"].as_u64().unwrap() <= 16, "{it}");
    let it = Server::new().chat(json!({"cofill": {"length": "auto"}})).await.fine();
    assert!(it["usage"]["completion_tokens"].as_u64().unwrap() > 0);
}
