//! A checkpoint: a folder in Hugging Face layout, on disk or inside the program, a GGUF file, or random weights. The rest of this crate does not ask
//! which of them it is.

use crate::chat::ChatTemplate;
use crate::config::{COMPANIONS, Config};
use crate::embedded;
use crate::error::{Error, Result};
use crate::files;
use crate::generation_config::GenerationDefaults;
use crate::gguf::{Gguf, keys};
use crate::pair_head::{PairHead, PairHeadInfo};
use crate::tokenizer::{Tokenizer, TokenizerConfig};
use crate::weights::Weights;
use cofill::TokenId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checkpoint, of which nothing is loaded yet.
pub struct Checkpoint {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Folder,
    Gguf(Arc<Gguf>),
    Random { config: Box<Config>, seed: u64 },
}

impl Checkpoint {
    /// Whether there is anything to open.
    pub fn exists(path: &Path) -> bool {
        embedded::folder(path).is_some() || path.exists()
    }

    /// Opens an embedded model by its name, a folder or a GGUF file. A folder on disk that has an embedded model's name is
    /// meant by its path: `./tiny-llada`.
    pub fn open(path: &Path) -> Result<Checkpoint> {
        if let Some(path) = embedded::folder(path) {
            return Ok(Checkpoint { path, kind: Kind::Folder });
        }
        let kind = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Kind::Folder,
            Ok(metadata) if metadata.is_file() => Kind::Gguf(Arc::new(Gguf::open(path)?)),
            // Opening a pipe would wait for somebody to write.
            Ok(_) => return Err(Error::Malformed { path: path.into(), problem: "neither a folder nor a file".into() }),
            Err(_) => return Err(Error::Missing { path: path.into(), what: "the folder or GGUF file".into() }),
        };
        Ok(Checkpoint { path: path.into(), kind })
    }

    /// A checkpoint of this configuration with random weights and without a tokenizer, which exists nowhere: to measure with, and
    /// to write to a file. The same seed gives the same weights.
    pub fn random(config: Config, seed: u64) -> Checkpoint {
        Checkpoint { path: PathBuf::from("random"), kind: Kind::Random { config: Box::new(config), seed } }
    }

    /// The folder or file. Embedded models have a path that begins with `embedded:`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of checkpoint: `folder`, `gguf` or `random`.
    pub fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Folder => "folder",
            Kind::Gguf(_) => "gguf",
            Kind::Random { .. } => "random",
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder)
    }

    /// Reads its configuration: sizes and switches of the architecture.
    pub fn config(&self) -> Result<Config> {
        match &self.kind {
            Kind::Folder => Config::load(&self.path),
            Kind::Gguf(file) => file.config(),
            Kind::Random { config, .. } => Ok(Config::clone(config)),
        }
    }

    /// Reads the configuration of a causal language model, to be the companion of a model with this mask.
    pub fn companion_config(&self, mask_id: TokenId) -> Result<Config> {
        match &self.kind {
            Kind::Folder => {
                let path = self.path.join("config.json");
                Config::parse_companion(&files::read_required(&path)?, &path, mask_id)
            }
            Kind::Gguf(_) | Kind::Random { .. } => {
                let given = if matches!(self.kind, Kind::Gguf(_)) { "a GGUF file" } else { "random weights" };
                let (what, given) = ("the checkpoint".into(), given.into());
                let accepted = format!("a folder of {COMPANIONS}");
                Err(Error::NotACompanion { path: self.path.clone(), what, given, accepted })
            }
        }
    }

    /// What is known of the head that predicts who changes whom; `None` if it has none. No GGUF file has one.
    pub fn pair_head(&self) -> Result<Option<PairHeadInfo>> {
        if self.is_folder() { PairHead::info(&self.path, self.config()?.hidden) } else { Ok(None) }
    }

    /// Opens the files of its tensors and reads their headers.
    pub fn weights(&self) -> Result<Weights> {
        match &self.kind {
            Kind::Folder => Weights::open(&self.path),
            Kind::Gguf(file) => Weights::gguf(file.clone()),
            Kind::Random { seed, .. } => Ok(Weights::random(*seed)),
        }
    }

    /// Reads its tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        match &self.kind {
            Kind::Folder => Tokenizer::load(&self.path),
            Kind::Gguf(file) => file.tokenizer(),
            Kind::Random { .. } => Err(Error::Missing { path: self.path.clone(), what: "a tokenizer".into() }),
        }
    }

    /// Reads its chat template, if it has one.
    pub fn chat(&self) -> Result<Option<ChatTemplate>> {
        match &self.kind {
            Kind::Folder => ChatTemplate::load(&self.path),
            Kind::Gguf(file) => file.chat(),
            Kind::Random { .. } => Ok(None),
        }
    }

    /// Reads how it wants to be asked, when nobody says otherwise: the section `cofill` of its `generation_config.json`.
    pub fn generation_defaults(&self) -> Result<GenerationDefaults> {
        match &self.kind {
            Kind::Folder => GenerationDefaults::load(&self.path),
            Kind::Gguf(file) => file.generation_defaults(),
            Kind::Random { .. } => Ok(GenerationDefaults::default()),
        }
    }

    /// The ids of its special tokens, by their keys in a GGUF file.
    pub(crate) fn special(&self, tokenizer: &Tokenizer) -> Result<Vec<(&'static str, TokenId)>> {
        let mut special = Vec::new();
        match &self.kind {
            Kind::Folder => {
                let config = TokenizerConfig::read(&self.path)?;
                for (name, key) in keys::SPECIAL {
                    let token = config.as_ref().map(|config| config.token(name)).transpose()?.flatten();
                    special.extend(token.and_then(|token| tokenizer.token_id(token)).map(|id| (key, id)));
                }
            }
            Kind::Gguf(file) => {
                for (_, key) in keys::SPECIAL {
                    special.extend(file.id_or_none(key)?.map(|id| (key, id)));
                }
            }
            Kind::Random { .. } => {}
        }
        Ok(special)
    }
}
