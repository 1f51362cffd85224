//! Chat templates as Jinja2 renders them, construct by construct (`fixtures/jinja.json`).

use crate::checkpoint::Folder;
use cofill_model::{ChatTemplate, Message};
use serde_json::Value;

#[test]
fn templates_render_as_jinja2_renders_them() {
    let golden: Value = serde_json::from_str(include_str!("../../../../fixtures/jinja.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = golden["messages"].as_array().unwrap().iter();
    let messages: Vec<Message> = messages.map(|m| Message::new(text(&m["role"]), text(&m["content"]))).collect();
    let cases = golden["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let folder = Folder::new();
        folder.put("chat_template.jinja", text(&case["template"]));
        folder.put("tokenizer_config.json", r#"{"bos_token": "<s>", "eos_token": "</s>"}"#);
        let rendered = ChatTemplate::load(folder.path()).and_then(|chat| chat.unwrap().render(&messages, true));
        if rendered.as_ref().ok() != Some(&text(&case["rendered"])) {
            wrong.push(format!("{}\n  want {}\n  got  {rendered:?}", case["template"], case["rendered"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() >= 60, "only {}", cases.len());
}
