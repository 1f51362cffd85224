//! Models that another tool has downloaded: `org/name` in the cache that Hugging Face's tools share. Nothing is fetched here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of `org/name`, if it was downloaded: the revision `main`, or else the only one that is there.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(&cache(|variable| std::env::var_os(variable))?, name)
}

/// Where the cache is, for messages.
pub(crate) fn place() -> PathBuf {
    cache(|variable| std::env::var_os(variable)).unwrap_or_default()
}

/// Whether a name is one of the hub's: `org/name`, both of letters, digits, `-`, `_` and `.`.
pub(crate) fn is_hub_name(name: &str) -> bool {
    let word = |part: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(known)
    };
    name.split_once('/').is_some_and(|(org, model)| word(org) && word(model))
}

/// `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or `huggingface/hub` in the user's cache.
fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder("HOME").or_else(|| folder("USERPROFILE")).map(|home| home.join(".cache"));
    folder("HF_HUB_CACHE")
        .or_else(|| folder("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| folder("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("huggingface/hub")))
}

fn find_in(cache: &Path, name: &str) -> Option<PathBuf> {
    if !is_hub_name(name) {
        return None;
    }
    let model = cache.join(format!("models--{}", name.replace('/', "--")));
    let snapshots = model.join("snapshots");
    let main = std::fs::read_to_string(model.join("refs/main")).ok().map(|commit| snapshots.join(commit.trim()));
    main.filter(|folder| folder.is_dir()).or_else(|| {
        let folders = std::fs::read_dir(&snapshots).ok()?.flatten().map(|entry| entry.path());
        let mut folders = folders.filter(|path| path.is_dir());
        folders.next().filter(|_| folders.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_model_is_found_as_hugging_face_keeps_it() {
        let cache = std::env::temp_dir().join(format!("cofill-hub-{}", std::process::id()));
        let model = cache.join("models--org--tiny-1.5");
        for commit in ["aaa", "bbb"] {
            fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
        }
        assert_eq!(find_in(&cache, "org/tiny-1.5"), None, "two revisions, and nothing says which");
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), "bbb\n").unwrap();
        assert_eq!(find_in(&cache, "org/tiny-1.5"), Some(model.join("snapshots/bbb")));
        fs::remove_dir_all(model.join("snapshots/bbb")).unwrap();
        assert_eq!(find_in(&cache, "org/tiny-1.5"), Some(model.join("snapshots/aaa")), "the only one");
        assert_eq!(find_in(&cache, "org/other"), None);
        fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn only_two_words_are_a_name_of_the_hub() {
        for name in ["GSAI-ML/LLaDA-8B-Instruct", "a/b_c.d"] {
            assert!(is_hub_name(name), "{name}");
        }
        for name in ["tiny-llada", "a/b/c", "/a", "a/", "../a", "./a", "a/..", "a b/c"] {
            assert!(!is_hub_name(name), "{name}");
        }
    }

    #[test]
    fn variables_say_where_the_cache_is() {
        let with = |set: &[(&str, &str)]| {
            cache(|asked| set.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()))
        };
        assert_eq!(with(&[("HOME", "/home/u")]), Some("/home/u/.cache/huggingface/hub".into()));
        assert_eq!(with(&[("HOME", "/home/u"), ("HF_HOME", "/hf")]), Some("/hf/hub".into()));
        assert_eq!(with(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/models")]), Some("/models".into()));
        assert_eq!(with(&[]), None);
    }
}
