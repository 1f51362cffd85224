//! `/openapi.json`, written by hand and kept to the routes by a test.

use serde_json::{Map, Value, json};

/// Every route: path, method, whether it needs a key, what it does.
pub(crate) const ROUTES: [(&str, &str, bool, &str); 30] = [
    ("/v1/chat/completions", "post", true, "OpenAI chat completions; `cofill` has what is ours"),
    ("/v1/completions", "post", true, "OpenAI text completions; with `suffix`, an infill"),
    ("/v1/fim/completions", "post", true, "Infill: `prompt`, a gap, `suffix`"),
    ("/v1/edit/completions", "post", true, "Mercury's edits; experimental"),
    ("/v1/apply/completions", "post", true, "Mercury's applied snippets; experimental"),
    ("/v1/models", "get", true, "The served models"),
    ("/models", "get", true, "The served models"),
    ("/v1/models/{id}", "get", true, "One served model"),
    ("/v1/cofill/decode", "post", true, "Fill any canvas, with its whole trace"),
    ("/v1/cofill/select", "post", true, "One selection from bare numbers"),
    ("/v1/cofill/probe", "post", true, "One forward"),
    ("/completion", "post", true, "llama.cpp's completion"),
    ("/completions", "post", true, "llama.cpp's completion"),
    ("/infill", "post", true, "llama.cpp's infill"),
    ("/tokenize", "post", true, "Text to tokens, as llama.cpp (`content`) or vLLM (`prompt`) ask"),
    ("/detokenize", "post", true, "Tokens to text"),
    ("/apply-template", "post", true, "A chat as the model's template puts it"),
    ("/tokenizer_info", "get", true, "What is known of the first model's tokenizer"),
    ("/props", "get", true, "llama.cpp's properties"),
    ("/slots", "get", true, "llama.cpp's slots: how many decodes share rounds"),
    ("/load", "get", true, "vLLM's load"),
    ("/version", "get", true, "The version of this server"),
    ("/ping", "get", false, "Is anybody there"),
    ("/ping", "post", false, "Is anybody there"),
    ("/health", "get", false, "200 while requests are taken; `?strict=1` also asks whether a round hangs"),
    ("/v1/health", "get", false, "The same"),
    ("/metrics", "get", false, "Prometheus text format 0.0.4"),
    ("/openapi.json", "get", false, "This document"),
    ("/", "get", false, "The page"),
    ("/assets/{path}", "get", false, "Files of the page"),
];

/// The document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for (path, method, key, summary) in ROUTES {
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        let mut operation = json!({"summary": summary, "responses": {
            "200": {"description": "The answer; JSON, or with `stream: true` events"},
            "default": {"description": "An error", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
        }});
        if method == "post" && path != "/ping" {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": {"type": "object"}}}});
        }
        if let Some((_, name)) = path.split_once('{') {
            let name = name.trim_end_matches('}');
            operation["parameters"] =
                json!([{"name": name, "in": "path", "required": true, "schema": {"type": "string"}}]);
        }
        operation["security"] = if key { json!([{"bearer": []}]) } else { json!([]) };
        entry[method] = operation;
    }
    let nullable = json!({"type": ["string", "null"]});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "cofill", "version": env!("CARGO_PKG_VERSION"), "description": "Masked diffusion language models behind the interfaces people already use."},
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "param": nullable, "code": nullable}}}}},
        },
    })
}
