//! The fingerprint of a checkpoint: one hash over every file that decides its answers.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::files;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What a folder's answers depend on, beside its tensors. `generation_config.json` is not among them: it says what to ask for, not
/// what the answer is, and whatever was asked for is in a record by itself.
const FILES: [&str; 6] =
    ["chat_template.jinja", "config.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"];

impl Checkpoint {
    /// SHA-256 in hex, over names, lengths and bytes. Reads the whole checkpoint: seconds for billions of weights.
    pub fn fingerprint(&self) -> Result<String> {
        let mut hash = Sha256::new();
        let mut add = |name: &str, bytes: &[u8]| {
            hash.update(name.as_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        if self.is_folder() {
            for name in FILES {
                if let Some(text) = files::read(&self.path().join(name))? {
                    add(name, text.as_bytes());
                }
            }
        }
        for (name, bytes) in self.weights()?.files() {
            add(&name, bytes);
        }
        Ok(hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}"); // writing to a string cannot fail
            hex
        }))
    }
}
