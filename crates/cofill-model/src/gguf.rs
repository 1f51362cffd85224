//! A GGUF file: what its header says, and where its tensors lie.
//!
//! Every length, count and offset is checked against the file before anything is done with it, so a damaged file costs neither
//! memory nor a panic. Nothing but the header is read; tensors stay in the memory map.

pub(crate) mod keys;
pub(crate) mod metadata;
pub(crate) mod vocabulary;

use crate::error::{Error, Result};
use crate::files::{Bytes, map};
use crate::stored::{StoredTensor, TYPES, accepted_types, type_name};
use candle_core::quantized::GgmlDType;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What every GGUF file starts with.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";

/// Where tensors may start when the file does not say: multiples of this.
pub(crate) const ALIGNMENT: u64 = 32;

/// Arrays in arrays are allowed; this many levels are more than anybody writes.
const DEEPEST: usize = 4;

/// Bytes of an array of texts: vocabularies and merges, which are copied into memory. Llama 3's have 4 MB.
const MAX_TEXTS: usize = 64 << 20;

/// An open GGUF file whose header was read.
pub(crate) struct Gguf {
    path: PathBuf,
    map: Bytes,
    values: HashMap<String, Value>,
    tensors: Vec<Info>,
    index: HashMap<String, usize>,
}

/// A tensor's entry in the header.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) dtype: GgmlDType,
    /// Outermost first, as everywhere but in the file.
    pub(crate) shape: Vec<usize>,
    /// Where it lies in the file.
    bytes: Range<usize>,
}

/// A value of the header. Strings and arrays stay in the map until they are asked for.
#[derive(Debug)]
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(Range<usize>),
    Array(Array),
}

#[derive(Debug)]
struct Array {
    kind: Kind,
    bytes: Range<usize>,
}

/// The types a value can have, by the file's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::U8,
        Kind::I8,
        Kind::U16,
        Kind::I16,
        Kind::U32,
        Kind::I32,
        Kind::F32,
        Kind::Bool,
        Kind::String,
        Kind::Array,
        Kind::U64,
        Kind::I64,
        Kind::F64,
    ];

    /// Bytes, where every value has as many.
    fn size(self) -> Option<usize> {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => Some(1),
            Kind::U16 | Kind::I16 => Some(2),
            Kind::U32 | Kind::I32 | Kind::F32 => Some(4),
            Kind::U64 | Kind::I64 | Kind::F64 => Some(8),
            Kind::String | Kind::Array => None,
        }
    }
}

impl Gguf {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Gguf> {
        let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
        let map = map(path)?;
        let (values, tensors) = Header { path, bytes: &map, at: 0 }.read()?;
        let mut index = HashMap::with_capacity(tensors.len());
        for (i, info) in tensors.iter().enumerate() {
            if index.insert(info.name.clone(), i).is_some() {
                return Err(malformed(format!("tensor `{}` is there twice", info.name)));
            }
        }
        Ok(Gguf { path: path.into(), map, values, tensors, index })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Every tensor, in the file's order.
    pub(crate) fn tensors(&self) -> &[Info] {
        &self.tensors
    }

    /// A tensor as it is stored.
    pub(crate) fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let info = &self.tensors[*self.index.get(name)?];
        let bytes = Cow::Borrowed(&self.map[info.bytes.clone()]);
        Some(StoredTensor {
            path: &self.path,
            name: info.name.clone(),
            dtype: info.dtype,
            shape: info.shape.clone(),
            bytes,
            file: Some(&self.map),
        })
    }

    /// A value that must be there, read as `read` does.
    fn required<'a, T>(&'a self, key: &str, read: impl FnOnce(&'a Gguf, &str) -> Result<Option<T>>) -> Result<T> {
        let missing = || Error::Missing { path: self.path.clone(), what: format!("the key `{key}`") };
        read(self, key)?.ok_or_else(missing)
    }

    pub(crate) fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path.clone(), problem }
    }

    fn unsupported(&self, what: &str, given: &str, accepted: &str) -> Error {
        let (what, given, accepted) = (format!("`{what}`"), given.into(), accepted.into());
        Error::Unsupported { path: self.path.clone(), what, given, accepted }
    }

    fn wrong(&self, key: &str, value: &Value, want: &str) -> Error {
        let given = match value {
            Value::Unsigned(n) => n.to_string(),
            Value::Signed(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::String(_) => "a text".into(),
            Value::Array(array) => format!("an array of {:?}", array.kind),
        };
        self.malformed(format!("`{key}` is {given}, but must be {want}"))
    }

    /// A whole number, of whatever width.
    pub(crate) fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let number = match value {
            Value::Unsigned(n) => Some(*n),
            Value::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(key, value, "a whole number, 0 or more"))
    }

    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x)),
            Some(other) => Err(self.wrong(key, other, "a floating-point number")),
        }
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    pub(crate) fn string(&self, key: &str) -> Result<Option<&str>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::String(range)) => {
                let text = std::str::from_utf8(&self.map[range.clone()]);
                text.map(Some).map_err(|error| self.malformed(format!("`{key}` is not UTF-8: {error}")))
            }
            Some(other) => Err(self.wrong(key, other, "a text")),
        }
    }

    /// An array of texts.
    pub(crate) fn strings(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let Value::Array(Array { kind: Kind::String, bytes }) = value else {
            return Err(self.wrong(key, value, "an array of texts"));
        };
        if bytes.len() > MAX_TEXTS {
            let problem = format!("`{key}` has {} bytes of texts, but may have at most {MAX_TEXTS}", bytes.len());
            return Err(self.malformed(problem));
        }
        let mut header = Header { path: &self.path, bytes: &self.map[..bytes.end], at: bytes.start };
        let mut texts = Vec::new();
        while header.at < bytes.end {
            let range = header.string()?;
            let text = std::str::from_utf8(&self.map[range]);
            texts
                .push(text.map_err(|error| self.malformed(format!("`{key}[{}]` is not UTF-8: {error}", texts.len())))?);
        }
        Ok(Some(texts))
    }

    /// An array of 32-bit whole numbers, signed or not.
    pub(crate) fn integers(&self, key: &str) -> Result<Option<Vec<i64>>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match value {
            Value::Array(Array { kind: kind @ (Kind::I32 | Kind::U32), bytes }) => {
                let words = self.map[bytes.clone()].as_chunks().0.iter();
                let number = |&word: &[u8; 4]| match kind {
                    Kind::I32 => i64::from(i32::from_le_bytes(word)),
                    _ => i64::from(u32::from_le_bytes(word)),
                };
                Ok(Some(words.map(number).collect()))
            }
            other => Err(self.wrong(key, other, "an array of 32-bit whole numbers")),
        }
    }
}

/// Reads the header from front to back, never past the end.
struct Header<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl Header<'_> {
    fn read(&mut self) -> Result<(HashMap<String, Value>, Vec<Info>)> {
        if self.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err(self.malformed("not a GGUF file: it does not start with `GGUF`"));
        }
        match self.u32()? {
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 2 | 3) => {
                return Err(self.unsupported("the byte order", "big endian", "little endian"));
            }
            version => return Err(self.unsupported("the version", &version.to_string(), "2 and 3")),
        }
        let (n_tensors, n_values) = (self.u64()?, self.u64()?);
        // Nothing is reserved for these counts: a wrong one ends with the file.
        let mut values = HashMap::new();
        for _ in 0..n_values {
            let key = self.name("key")?;
            let value = self.value(&key)?;
            if values.contains_key(&key) {
                return Err(self.malformed(&format!("the key `{key}` is there twice")));
            }
            values.insert(key, value);
        }
        let alignment = match values.get(keys::ALIGNMENT) {
            None => ALIGNMENT,
            Some(Value::Unsigned(n)) if n.is_power_of_two() && *n <= 1 << 20 => *n,
            Some(_) => {
                return Err(self.malformed("`general.alignment` must be a power of two, at most 1048576"));
            }
        };
        let mut entries = Vec::new();
        for _ in 0..n_tensors {
            entries.push(self.tensor()?);
        }
        let data = (self.at as u64).next_multiple_of(alignment);
        let tensors = entries.into_iter().map(|entry| self.place(entry, data, alignment));
        let tensors = tensors.collect::<Result<Vec<Info>>>()?;
        let mut order: Vec<&Info> = tensors.iter().collect();
        order.sort_by_key(|info| info.bytes.start);
        for pair in order.windows(2) {
            if pair[1].bytes.start < pair[0].bytes.end {
                return Err(self.malformed(&format!("tensors `{}` and `{}` overlap", pair[0].name, pair[1].name)));
            }
        }
        Ok((values, tensors))
    }

    /// A tensor's entry, with its offset from where tensors start.
    fn tensor(&mut self) -> Result<(Info, u64)> {
        let name = self.name("name of a tensor")?;
        let n = self.u32()?;
        if !(1..=4).contains(&n) {
            return Err(self.malformed(&format!("tensor `{name}` has {n} dimensions, but must have 1 to 4")));
        }
        let mut shape = Vec::new();
        for _ in 0..n {
            let n = self.u64()?;
            let size = usize::try_from(n).ok().filter(|&n| n > 0);
            shape.push(size.ok_or_else(|| self.malformed(&format!("tensor `{name}` has a dimension of {n}")))?);
        }
        shape.reverse();
        let number = self.u32()?;
        let known = TYPES.iter().find(|known| known.number == number);
        let known = known.ok_or_else(|| {
            let given = format!("{} ({number})", unsupported_name(number));
            self.unsupported(&format!("the type of tensor `{name}`"), &given, &accepted_types())
        })?;
        let offset = self.u64()?;
        Ok((Info { name, dtype: known.dtype, shape, bytes: 0..0 }, offset))
    }

    /// Finds a tensor's bytes, and that they are in the file.
    fn place(&self, (mut info, offset): (Info, u64), data: u64, alignment: u64) -> Result<Info> {
        let Info { name, dtype, shape, .. } = &info;
        let width = shape.last().copied().unwrap_or(1);
        if !width.is_multiple_of(dtype.block_size()) {
            let (kind, block) = (type_name(*dtype), dtype.block_size());
            return Err(
                self.malformed(&format!("tensor `{name}` has rows of {width}, but {kind} has blocks of {block}"))
            );
        }
        if !offset.is_multiple_of(alignment) {
            return Err(
                self.malformed(&format!("tensor `{name}` starts at {offset}, which is no multiple of {alignment}"))
            );
        }
        let size = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d as u64));
        let size = size.and_then(|n| (n / dtype.block_size() as u64).checked_mul(dtype.type_size() as u64));
        let start = data.checked_add(offset);
        let end = start.zip(size).and_then(|(start, size)| start.checked_add(size));
        let all = self.bytes.len() as u64;
        match start.zip(end).filter(|(_, end)| *end <= all) {
            Some((start, end)) => info.bytes = start as usize..end as usize,
            None => {
                let end = end.map_or("nowhere".into(), |end| end.to_string());
                let problem =
                    format!("truncated or damaged: {all} bytes, but tensor `{name}` of shape {shape:?} ends at {end}");
                return Err(self.malformed(&problem));
            }
        }
        Ok(info)
    }

    fn value(&mut self, key: &str) -> Result<Value> {
        let kind = self.kind(key)?;
        Ok(match kind {
            Kind::U8 => Value::Unsigned(u64::from(self.chunk::<1>()?[0])),
            Kind::U16 => Value::Unsigned(u64::from(u16::from_le_bytes(self.chunk()?))),
            Kind::U32 => Value::Unsigned(u64::from(self.u32()?)),
            Kind::U64 => Value::Unsigned(self.u64()?),
            Kind::I8 => Value::Signed(i64::from(i8::from_le_bytes(self.chunk()?))),
            Kind::I16 => Value::Signed(i64::from(i16::from_le_bytes(self.chunk()?))),
            Kind::I32 => Value::Signed(i64::from(i32::from_le_bytes(self.chunk()?))),
            Kind::I64 => Value::Signed(i64::from_le_bytes(self.chunk()?)),
            Kind::F32 => Value::Float(f64::from(f32::from_le_bytes(self.chunk()?))),
            Kind::F64 => Value::Float(f64::from_le_bytes(self.chunk()?)),
            Kind::Bool => match self.chunk::<1>()?[0] {
                byte @ (0 | 1) => Value::Bool(byte == 1),
                byte => return Err(self.malformed(&format!("`{key}` is {byte}, but must be 0 or 1"))),
            },
            Kind::String => Value::String(self.string()?),
            Kind::Array => Value::Array(self.array(key, DEEPEST)?),
        })
    }

    /// Walks over an array, so that whoever reads it later stays inside.
    fn array(&mut self, key: &str, deepest: usize) -> Result<Array> {
        let (kind, n) = (self.kind(key)?, self.u64()?);
        let start = self.at;
        match kind.size() {
            Some(size) => {
                let bytes = usize::try_from(n).ok().and_then(|n| n.checked_mul(size)).unwrap_or(usize::MAX);
                self.take(bytes)?;
            }
            None if kind == Kind::Array && deepest == 0 => {
                return Err(self.malformed(&format!("`{key}` nests more than {DEEPEST} arrays")));
            }
            None => {
                for _ in 0..n {
                    match kind {
                        Kind::Array => self.array(key, deepest - 1)?.bytes,
                        _ => self.string()?,
                    };
                }
            }
        }
        Ok(Array { kind, bytes: start..self.at })
    }

    fn kind(&mut self, key: &str) -> Result<Kind> {
        let number = self.u32()?;
        let kind = usize::try_from(number).ok().and_then(|number| Kind::ALL.get(number)).copied();
        kind.ok_or_else(|| self.malformed(&format!("`{key}` has the type {number}, which does not exist")))
    }

    fn name(&mut self, what: &str) -> Result<String> {
        let start = self.at;
        let range = self.string()?;
        match std::str::from_utf8(&self.bytes[range]) {
            Ok(name) => Ok(name.into()),
            Err(_) => Err(self.malformed(&format!("the {what} at byte {start} is not UTF-8"))),
        }
    }

    fn string(&mut self) -> Result<Range<usize>> {
        let length = usize::try_from(self.u64()?).unwrap_or(usize::MAX);
        self.take(length)?;
        Ok(self.at - length..self.at)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.chunk()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.chunk()?))
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut chunk = [0; N];
        chunk.copy_from_slice(self.take(N)?);
        Ok(chunk)
    }

    fn take(&mut self, n: usize) -> Result<&[u8]> {
        match self.at.checked_add(n).and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += n;
                Ok(bytes)
            }
            None => {
                let (all, at) = (self.bytes.len(), self.at);
                Err(self.malformed(&format!("truncated or damaged: its header asks for {n} bytes at {at} of {all}")))
            }
        }
    }

    fn malformed(&self, problem: &str) -> Error {
        Error::Malformed { path: self.path.into(), problem: problem.into() }
    }

    fn unsupported(&self, what: &str, given: &str, accepted: &str) -> Error {
        let (what, given, accepted) = (what.into(), given.into(), accepted.into());
        Error::Unsupported { path: self.path.into(), what, given, accepted }
    }
}

/// What llama.cpp calls a type that is not in [`TYPES`].
fn unsupported_name(number: u32) -> &'static str {
    let names = [
        (9, "Q8_1"),
        (15, "Q8_K"),
        (16, "IQ2_XXS"),
        (17, "IQ2_XS"),
        (18, "IQ3_XXS"),
        (19, "IQ1_S"),
        (20, "IQ4_NL"),
        (21, "IQ3_S"),
        (22, "IQ2_S"),
        (23, "IQ4_XS"),
        (24, "I8"),
        (25, "I16"),
        (26, "I32"),
        (27, "I64"),
        (28, "F64"),
        (29, "IQ1_M"),
        (34, "TQ1_0"),
        (35, "TQ2_0"),
        (39, "MXFP4"),
    ];
    names.iter().find(|(known, _)| *known == number).map_or("unknown", |(_, name)| name)
}
