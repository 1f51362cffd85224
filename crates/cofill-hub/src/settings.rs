//! What the environment says: where the cache is, which hub is asked, and with which token.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A token of the hub. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub(crate) String);

impl Token {
    /// A token as a user has it; `None` for a text that cannot be one.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        (!text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())).then(|| Token(text.into()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What `huggingface_hub` and this crate read from the environment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of downloaded models: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or `huggingface/hub` in the user's cache.
    pub cache: PathBuf,
    /// The hub: `HF_ENDPOINT`, or <https://huggingface.co>; without a slash at its end.
    pub endpoint: String,
    /// `HF_TOKEN`, or what `hf auth login` left in `HF_HOME`.
    pub token: Option<Token>,
    /// `HF_HUB_OFFLINE`: nothing is asked of any network.
    pub offline: bool,
    /// Whether the cache may hold links, as it should: `HF_HUB_DISABLE_SYMLINKS` says no.
    pub symlinks: bool,
}

/// The public hub.
const PUBLIC: &str = "https://huggingface.co";

impl Settings {
    /// From the environment of this process.
    pub fn from_env() -> Settings {
        Settings::from(|name| std::env::var_os(name))
    }

    /// From variables by their names.
    pub fn from(variable: impl Fn(&str) -> Option<OsString>) -> Settings {
        let text =
            |name: &str| variable(name).and_then(|value| value.into_string().ok()).filter(|text| !text.is_empty());
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let user = || folder("HOME").or_else(|| folder("USERPROFILE")).map(|home| home.join(".cache"));
        let home =
            folder("HF_HOME").or_else(|| folder("XDG_CACHE_HOME").or_else(user).map(|cache| cache.join("huggingface")));
        let home = home.unwrap_or_else(|| PathBuf::from("huggingface"));
        let is_set = |name: &str| {
            text(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str()))
        };
        let from_file = || {
            let path = folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
            Token::new(&std::fs::read_to_string(path).ok()?)
        };
        Settings {
            cache: folder("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub")),
            endpoint: text("HF_ENDPOINT").unwrap_or_else(|| PUBLIC.into()).trim_end_matches('/').into(),
            token: text("HF_TOKEN").and_then(|text| Token::new(&text)).or_else(from_file),
            offline: is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE"),
            symlinks: !is_set("HF_HUB_DISABLE_SYMLINKS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Settings {
        Settings::from(|asked| set.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()))
    }

    #[test]
    fn variables_say_where_the_cache_is() {
        let cache = |set: &[(&str, &str)]| with(set).cache;
        assert_eq!(cache(&[("HOME", "/home/u")]), PathBuf::from("/home/u/.cache/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/home/u"), ("XDG_CACHE_HOME", "/c")]), PathBuf::from("/c/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/home/u"), ("HF_HOME", "/hf")]), PathBuf::from("/hf/hub"));
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/models")]), PathBuf::from("/models"));
    }

    #[test]
    fn variables_say_which_hub_and_whether() {
        assert_eq!(with(&[]).endpoint, "https://huggingface.co");
        assert_eq!(with(&[("HF_ENDPOINT", "http://mirror:8000/hf/")]).endpoint, "http://mirror:8000/hf");
        for (value, offline) in [("1", true), ("yes", true), ("True", true), ("0", false), ("", false), ("no", false)] {
            assert_eq!(with(&[("HF_HUB_OFFLINE", value)]).offline, offline, "{value}");
        }
    }

    #[test]
    fn a_token_comes_from_the_variable_or_the_file_and_is_never_printed() {
        let home = std::env::temp_dir().join(format!("cofill-hub-token-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("token"), "hf_file\n").unwrap();
        let home_text = home.to_str().unwrap();
        assert_eq!(with(&[("HF_HOME", home_text)]).token, Token::new("hf_file"));
        let both = with(&[("HF_HOME", home_text), ("HF_TOKEN", "hf_env")]);
        assert_eq!(both.token, Token::new("hf_env"));
        assert!(!format!("{both:?}").contains("hf_env"));
        // A line break would add headers to requests.
        assert_eq!(Token::new("a\r\nb"), None);
        std::fs::remove_dir_all(home).unwrap();
    }
}
