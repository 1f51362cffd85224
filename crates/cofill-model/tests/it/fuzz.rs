use crate::checkpoint::Checkpoint;
use crate::faults::{INDEX, WEIGHTS, everyone};
use cofill_model::{Config, Model, Weights};
use proptest::prelude::*;
use safetensors::Dtype as Stored;
use serde_json::{Value, json};
use std::path::Path;

/// Damage to a text or a file: overwritten bytes, and perhaps a cut or a repetition.
#[derive(Debug, Clone)]
struct Damage {
    bytes: Vec<(prop::sample::Index, u8)>,
    cut: Option<prop::sample::Index>,
    twice: Option<prop::sample::Index>,
}

impl Damage {
    fn any() -> impl Strategy<Value = Damage> {
        // Digits and punctuation keep JSON readable for longer than random bytes do.
        let byte = prop_oneof![3 => prop::sample::select(b"0123456789-+.eE\"{}[],: ntf".to_vec()), 1 => any::<u8>()];
        let bytes = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4);
        let at = || prop::option::weighted(0.2, any::<prop::sample::Index>());
        (bytes, at(), at()).prop_map(|(bytes, cut, twice)| Damage { bytes, cut, twice })
    }

    fn apply(&self, range: std::ops::Range<usize>, whole: &[u8]) -> Vec<u8> {
        let mut part = whole[range.clone()].to_vec();
        for (at, byte) in &self.bytes {
            let at = at.index(part.len());
            part[at] = *byte;
        }
        if let Some(at) = &self.twice {
            let at = at.index(part.len());
            part.extend_from_within(at..);
        }
        if let Some(at) = &self.cut {
            part.truncate(at.index(part.len()));
        }
        [&whole[..range.start], &part, &whole[range.end..]].concat()
    }
}

/// Any value JSON has, at any place in a configuration.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..200u64).prop_map(Value::from),
        any::<f64>().prop_map(|x| json!(x)),
        ".{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"a": [1]})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = Checkpoint::dream().write();
        folder.put(WEIGHTS, &bytes);
        prop_assert!(Model::load(folder.path()).is_err());
        folder.put(INDEX, &bytes);
        prop_assert!(Weights::open(folder.path()).is_err());
        folder.put("config.json", &bytes);
        prop_assert!(Config::load(folder.path()).is_err());
    }

    #[test]
    fn a_damaged_config_never_panics(damage in Damage::any(), family in 0..4usize) {
        let text = everyone()[family].config.to_string();
        let text = damage.apply(0..text.len(), text.as_bytes());
        let _ = Config::parse(&String::from_utf8_lossy(&text), Path::new("x"));
    }

    #[test]
    fn strange_values_never_panic(
        values in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..4),
        family in 0..4usize,
    ) {
        let mut checkpoint = everyone()[family].clone();
        let fields: Vec<String> = checkpoint.fields().keys().cloned().collect();
        for (field, value) in values {
            checkpoint = checkpoint.with(&fields[field.index(fields.len())], value);
        }
        // What is accepted must also load or be refused by its tensors.
        if Config::parse(&checkpoint.config.to_string(), Path::new("x")).is_ok() {
            let _ = Model::load(checkpoint.write().path());
        }
    }

    #[test]
    fn a_damaged_header_never_panics(damage in Damage::any(), length in prop::option::weighted(0.1, any::<u64>())) {
        let folder = Checkpoint::dream().write();
        let whole = folder.read(WEIGHTS);
        let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut bytes = damage.apply(8..8 + header, &whole);
        // The length fits the damaged header, so that its JSON is read, or is anything.
        let fits = (header + bytes.len() - whole.len()) as u64;
        bytes[..8].copy_from_slice(&length.unwrap_or(fits).to_le_bytes());
        folder.put(WEIGHTS, bytes);
        let _ = Model::load(folder.path());
    }

    #[test]
    fn a_damaged_index_never_panics(damage in Damage::any()) {
        let folder = Checkpoint::dream().write_sharded(Stored::BF16, 2);
        let text = folder.read(INDEX);
        folder.put(INDEX, damage.apply(0..text.len(), &text));
        let _ = Model::load(folder.path());
    }
}
