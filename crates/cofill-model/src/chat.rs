//! A conversation as the one prompt that a chat checkpoint was trained on.
//!
//! The format is the checkpoint's own Jinja template, rendered by minijinja in the environment that transformers
//! gives it: `trim_blocks` and `lstrip_blocks`, Python's string methods, `raise_exception`, the special tokens by
//! name, and `tools` and `documents` as `none`. There is deliberately no clock (`strftime_now`): a prompt depends on
//! its messages only. Templates write the special tokens as text, BOS included where there is one, so nothing is
//! added afterwards.

use crate::error::{Error, Result};
use crate::tokenizer::{TokenizerConfig, malformed, read};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::collections::BTreeMap;
use std::path::Path;

/// The special tokens that transformers gives a template, so far as the checkpoint has them.
const TOKENS: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The template's name in error messages.
const NAME: &str = "chat_template";

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`, and whatever else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// What `role` says.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// Instructions a template may take: a thousand times what a long chat needs.
const FUEL: u64 = 10_000_000;

/// A checkpoint's chat format.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// The template of the checkpoint in `dir`: `chat_template.jinja`, else `chat_template` of
    /// `tokenizer_config.json` (a string, or a list of named ones of which `default` is taken). `None` for a
    /// checkpoint that has no template.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let config = TokenizerConfig::read(dir)?;
        let (path, source) = match (read(dir, "chat_template.jinja")?, &config) {
            (Some(source), _) => (dir.join("chat_template.jinja"), source),
            (None, None) => return Ok(None),
            (None, Some(config)) => match in_config(config)? {
                None => return Ok(None),
                Some(source) => (config.path.clone(), source.to_owned()),
            },
        };

        let mut tokens = Vec::new();
        for name in TOKENS {
            let token = config.as_ref().map(|c| c.token(name)).transpose()?.flatten();
            tokens.extend(token.map(|token| (name, token.to_owned())));
        }
        Self::new(&path, source, tokens).map(Some)
    }

    /// A template and the special tokens it may name; `path` is for messages.
    pub(crate) fn new(path: &Path, source: String, tokens: Vec<(&'static str, String)>) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| malformed(path, e.to_string()))?);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.set_fuel(Some(FUEL)); // a template that never ends is an error
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        // A token that is absent stays undefined, so that a template that needs it fails instead of losing it.
        for (name, token) in tokens {
            environment.add_global(name, token);
        }
        environment.add_template_owned(NAME, source).map_err(|e| malformed(path, e.to_string()))?;
        Ok(Self { environment })
    }

    /// The template's own text.
    pub(crate) fn source(&self) -> Result<String> {
        let template = self.environment.get_template(NAME);
        template.map(|t| t.source().to_owned()).map_err(|e| Error::Template { problem: e.to_string() })
    }

    /// The prompt for `messages`, ending with the header of the assistant's turn if `add_generation_prompt`.
    ///
    /// That switch is the template's to obey: LLaDA's always adds the header.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        if messages.is_empty() {
            return Err(Error::Template { problem: "there are no messages; give at least one".into() });
        }
        let messages: Vec<Value> = messages
            .iter()
            .map(|m| Value::from(BTreeMap::from([("role", m.role.clone()), ("content", m.content.clone())])))
            .collect();
        let template = self.environment.get_template(NAME);
        template
            .and_then(|t| t.render(context! { messages, add_generation_prompt, tools => (), documents => () }))
            .map_err(|e| Error::Template { problem: e.to_string() })
    }
}

/// `chat_template` of `tokenizer_config.json`.
fn in_config(config: &TokenizerConfig) -> Result<Option<&str>> {
    use serde_json::Value::{Array, Null, String};
    match config.json.get("chat_template") {
        None | Some(Null) => Ok(None),
        Some(String(source)) => Ok(Some(source)),
        Some(Array(named)) => {
            match named.iter().find(|it| it["name"] == "default").and_then(|it| it["template"].as_str()) {
                Some(source) => Ok(Some(source)),
                None => {
                    let names: Vec<&str> = named.iter().filter_map(|it| it["name"].as_str()).collect();
                    let names = names.join("`, `");
                    let problem =
                        format!("`chat_template` is a list without a template named `default`, only `{names}`");
                    Err(malformed(&config.path, problem))
                }
            }
        }
        Some(_) => Err(malformed(&config.path, "`chat_template` must be a string or a list of named templates")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::tests::Folder;
    use serde_json::json;

    const CHAT: &str = "{% for m in messages %}{{ m.role }}: {{ m['content'].strip() }}{{ eos_token }}{% endfor %}\
        {% if add_generation_prompt %}assistant:{% endif %}";

    fn load(config: &serde_json::Value) -> Result<Option<ChatTemplate>> {
        ChatTemplate::load(Folder::new(&[("tokenizer_config.json", config.to_string().as_bytes())]).path())
    }

    /// What the template `source` makes of one user message.
    fn render(source: &str, content: &str) -> Result<String> {
        let config =
            json!({"chat_template": source, "bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null});
        load(&config).unwrap().unwrap().render(&[Message::new("user", content)], false)
    }

    #[test]
    fn messages_become_one_prompt() {
        let chat = load(&json!({"chat_template": CHAT, "eos_token": "|"})).unwrap().unwrap();
        let messages = [Message::new("system", " Be brief. "), Message::new("user", "<Hi> & 'bye'")];
        assert_eq!(chat.render(&messages, false).unwrap(), "system: Be brief.|user: <Hi> & 'bye'|");
        assert_eq!(chat.render(&messages[1..], true).unwrap(), "user: <Hi> & 'bye'|assistant:");
    }

    #[test]
    fn the_environment_is_that_of_transformers() {
        // Block tags swallow their own line, and one trailing newline goes.
        assert_eq!(render("  {% if true %}\nx\n  {% endif %}\ny\n", "").unwrap(), "x\ny");
        assert_eq!(render("{{ bos_token + messages[0]['content'] | trim + eos_token }}", " a ").unwrap(), "<s>a</s>");
        assert_eq!(render("{{ tools is defined }} {{ tools is none }} {{ not tools }}", "").unwrap(), "True True True");
        assert_eq!(
            render("{{ pad_token is defined }} {{ messages[0].tool_calls is defined }}", "").unwrap(),
            "False False"
        );
        assert_eq!(render("{{ messages[0].content.split('/')[-1].upper() }}", "a/b").unwrap(), "B");
    }

    #[test]
    fn a_file_of_its_own_comes_before_the_config() {
        let config: &[u8] = br#"{"chat_template": "config", "bos_token": "<s>"}"#;
        let folder =
            Folder::new(&[("chat_template.jinja", b"{{ bos_token }} file"), ("tokenizer_config.json", config)]);
        let chat = ChatTemplate::load(folder.path()).unwrap().unwrap();
        assert_eq!(chat.render(&[Message::new("user", "")], true).unwrap(), "<s> file");
        let alone = Folder::new(&[("chat_template.jinja", b"file")]);
        assert!(ChatTemplate::load(alone.path()).unwrap().is_some());
    }

    #[test]
    fn a_list_gives_its_default() {
        let list = json!([{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]);
        let chat = load(&json!({"chat_template": list})).unwrap().unwrap();
        assert_eq!(chat.render(&[Message::new("user", "")], true).unwrap(), "yes");
    }

    #[test]
    fn a_template_that_never_ends_is_an_error() {
        let endless = "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}";
        assert!(matches!(render(endless, ""), Err(Error::Template { .. })));
    }

    #[test]
    fn a_checkpoint_may_have_no_template() {
        assert!(ChatTemplate::load(Folder::new(&[]).path()).unwrap().is_none());
        assert!(load(&json!({})).unwrap().is_none());
        assert!(load(&json!({"chat_template": null})).unwrap().is_none());
    }

    #[test]
    fn bad_templates_are_refused_at_loading() {
        let refused = |config: serde_json::Value, want: &str| {
            let message = load(&config).expect_err("must be refused").to_string();
            assert!(message.contains("tokenizer_config.json") && message.contains(want), "no `{want}` in: {message}");
        };
        refused(json!({"chat_template": "ok\n{% for m in %}"}), "(in chat_template:2)");
        refused(json!({"chat_template": 7}), "must be a string or a list");
        refused(json!({"chat_template": [{"name": "rag", "template": "x"}]}), "named `default`, only `rag`");
        refused(json!({"chat_template": [{"name": "default"}]}), "named `default`");
        refused(json!({"chat_template": "x", "eos_token": 3}), "`eos_token` must be a string");
        let folder = Folder::new(&[("chat_template.jinja", b"{{ \xff }}")]);
        let message = ChatTemplate::load(folder.path()).expect_err("not UTF-8").to_string();
        assert!(message.contains("chat_template.jinja") && message.contains("utf-8"), "{message}");
    }

    #[test]
    fn what_a_template_refuses_is_an_error() {
        let refused = |source: &str, want: &str| {
            let error = render(source, "x").expect_err("must be refused");
            let message = error.to_string();
            assert!(matches!(error, Error::Template { .. }) && message.contains(want), "no `{want}` in: {message}");
        };
        refused("{{ raise_exception('roles must alternate') }}", "roles must alternate (in chat_template:1)");
        refused("{{ pad_token + 'x' }}", "undefined");
        refused("{{ messages[3].role }}", "undefined");
        refused("{{ messages | no_such_filter }}", "no_such_filter");
        let chat = load(&json!({"chat_template": CHAT})).unwrap().unwrap();
        assert!(chat.render(&[], true).unwrap_err().to_string().contains("no messages"));
    }
}
