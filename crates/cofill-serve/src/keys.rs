//! API keys: a file of them, one to a line; compared in constant time, never printed.

use std::fmt;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

/// The keys that open this server. Without any, it is open.
#[derive(Default, Clone)]
pub struct Keys(Vec<Vec<u8>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Keys {
    /// One key to a line; blank lines and those that begin with `#` are none.
    pub fn read(path: &Path) -> Result<Keys, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("`{name}` cannot be read: {error}"))?;
        let keys = Keys::of(&text);
        if keys.is_empty() {
            return Err(format!("`{name}` has no key; write one to a line"));
        }
        Ok(keys)
    }

    /// The keys of a text.
    pub fn of(text: &str) -> Keys {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Keys(lines.map(|line| line.as_bytes().to_vec()).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether anybody may come in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which key was given. Takes the same time whichever it is, and whether or not it is one; only lengths can be told apart.
    pub fn find(&self, given: &[u8]) -> Option<usize> {
        let mut found = None;
        for (index, key) in self.0.iter().enumerate() {
            let same: Choice = key.as_slice().ct_eq(given);
            if bool::from(same) {
                found = Some(index);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_and_are_found_whole() {
        let keys = Keys::of("# mine\nalpha\n\n  beta \n");
        assert_eq!((keys.len(), keys.find(b"alpha"), keys.find(b"beta")), (2, Some(0), Some(1)));
        for wrong in ["", "alph", "alphaa", "Alpha", "# mine"] {
            assert_eq!(keys.find(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(format!("{keys:?}"), "2 keys");
    }
}
