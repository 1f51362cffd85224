use crate::server::Server;
use cofill_hub::{Event, Hub, ModelName, Pulled, Result, Settings};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const REPO: &str = "org/tiny";

/// A folder of this test's own, empty.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static N: AtomicU64 = AtomicU64::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("cofill-hub-it-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that look like nothing.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..n).map(|_| next()).collect()
}

/// A model of one weight file, with things that nobody needs.
pub(crate) fn model() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("README.md", b"# hello".to_vec()),
        ("config.json", br#"{"model_type": "llada"}"#.to_vec()),
        ("tokenizer.json", noise(5000, 1)),
        ("model.safetensors", noise(700_001, 2)),
        ("pytorch_model.bin", noise(1000, 3)),
        ("onnx/model.safetensors", noise(1000, 4)),
        ("original/consolidated.safetensors", noise(1000, 5)),
    ]
}

/// The same in two shards, and a third that the index does not know.
pub(crate) fn sharded() -> Vec<(&'static str, Vec<u8>)> {
    let index = br#"{"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"}}"#;
    vec![
        ("config.json", b"{}".to_vec()),
        ("model.safetensors.index.json", index.to_vec()),
        ("model-00001-of-00002.safetensors", noise(300_000, 6)),
        ("model-00002-of-00002.safetensors", noise(200_000, 7)),
        ("model-00003-of-00003.safetensors", noise(100_000, 8)),
        ("model.safetensors", noise(500, 9)),
    ]
}

/// A hub, the host of its large files, a cache, and what a client waited and said.
pub(crate) struct Bench {
    pub(crate) hub: Server,
    pub(crate) cdn: Server,
    pub(crate) scratch: Scratch,
    pub(crate) pauses: Arc<Mutex<Vec<Duration>>>,
    pub(crate) events: Mutex<Vec<Event>>,
}

impl Bench {
    pub(crate) fn new(files: &[(&str, Vec<u8>)]) -> Bench {
        let (hub, cdn) = (Server::start(), Server::start());
        hub.model(REPO, COMMIT, files, &cdn);
        Bench { hub, cdn, scratch: Scratch::new(), pauses: Arc::default(), events: Mutex::default() }
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.scratch.0.join("hub")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.cache().join("models--org--tiny")
    }

    pub(crate) fn settings(&self, more: &[(&str, &str)]) -> Settings {
        let own = [("HF_HOME", self.scratch.0.to_str().unwrap()), ("HF_ENDPOINT", &self.hub.address)];
        let all: Vec<(&str, &str)> = more.iter().copied().chain(own).collect();
        Settings::from(|asked| all.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()))
    }

    /// A client for which pauses take no time.
    pub(crate) fn client(&self, more: &[(&str, &str)]) -> Hub {
        let pauses = self.pauses.clone();
        Hub::new(self.settings(more)).pause_by(move |pause| pauses.lock().unwrap().push(pause))
    }

    pub(crate) fn pull(&self) -> Result<Pulled> {
        self.pull_as(REPO, &[])
    }

    pub(crate) fn pull_as(&self, name: &str, more: &[(&str, &str)]) -> Result<Pulled> {
        let name = ModelName::parse(name).unwrap();
        self.client(more).pull(&name, false, &mut |event| self.events.lock().unwrap().push(event.clone()))
    }

    /// Bytes of the large files that went over the wire.
    pub(crate) fn sent(&self) -> u64 {
        self.cdn.sent()
    }
}

/// The files below a folder as `path: what`, links as `path -> target`.
pub(crate) fn tree(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            match std::fs::read_link(&path) {
                Ok(target) => lines.push(format!("{name} -> {}", target.display())),
                Err(_) if path.is_dir() => open.push(path),
                Err(_) => lines.push(name),
            }
        }
    }
    lines.sort();
    lines
}
