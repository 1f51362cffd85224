//! A conversation as the one prompt that a chat checkpoint was trained on.
//!
//! The format is the checkpoint's own Jinja template, rendered by [`jinja`](crate::jinja) in the environment that transformers
//! gives it: `trim_blocks` and `lstrip_blocks`, Python's string methods, `raise_exception`, the special tokens by name, and
//! `tools` and `documents` as `none`. There is deliberately no clock (`strftime_now`): a prompt depends on its messages only.
//! Templates write the special tokens as text, BOS included where there is one, so nothing is added afterwards.
//!
//! A template is a stranger's program. It is read and rendered under limits (`jinja/budget.rs`), and a fault of ours in doing so
//! is an error like any other, not the end of the process.

use crate::error::{Error, Result};
use crate::guard::on_large_stack;
use crate::jinja::{Template, Value};
use crate::tokenizer::{TokenizerConfig, malformed, read};
use std::path::Path;

/// The special tokens that transformers gives a template, so far as the checkpoint has them.
const TOKENS: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`, and whatever else the template knows.
    pub role: String,
    /// The text of the turn.
    pub content: String,
}

impl Message {
    /// A turn in which `role` says `content`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// A checkpoint's chat format.
#[derive(Debug)]
pub struct ChatTemplate {
    template: Template,
    /// A token that is absent stays undefined, so that a template that needs it fails instead of losing it.
    tokens: Vec<(&'static str, String)>,
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
        let refused = |problem: String| malformed(path, format!("the chat template cannot be used: {problem}"));
        let template = on_large_stack(|| Template::parse(source)).map_err(refused)?;
        Ok(Self { template: template.map_err(|problem| refused(problem.to_string()))?, tokens })
    }

    /// The template's own text.
    pub(crate) fn source(&self) -> &str {
        self.template.source()
    }

    /// The prompt for `messages`, ending with the header of the assistant's turn if `add_generation_prompt`.
    ///
    /// That switch is the template's to obey: LLaDA's always adds the header.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        if messages.is_empty() {
            return Err(Error::Template { problem: "there are no messages; give at least one".into() });
        }
        let failed = |problem: String| Error::Template { problem };
        let rendered = on_large_stack(|| self.template.render(self.variables(messages, add_generation_prompt)?));
        rendered.map_err(failed)?.map_err(|problem| failed(problem.to_string()))
    }

    /// What transformers gives a template.
    fn variables(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> crate::jinja::Result<Vec<(String, Value)>> {
        let text = |text: &str| Value::text(text);
        let message = |message: &Message| {
            let entries = [("role", &message.role), ("content", &message.content)];
            Value::map(entries.map(|(key, value)| (key.into(), text(value))).to_vec())
        };
        let messages = Value::list(messages.iter().map(message).collect::<crate::jinja::Result<_>>()?)?;
        let given = [
            ("messages", messages),
            ("add_generation_prompt", Value::Bool(add_generation_prompt)),
            ("tools", Value::None),
            ("documents", Value::None),
        ];
        let tokens = self.tokens.iter().map(|(name, token)| ((*name).into(), text(token)));
        Ok(given.into_iter().map(|(name, value)| (name.into(), value)).chain(tokens).collect())
    }
}

/// Reads the field `chat_template` of `tokenizer_config.json`.
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
