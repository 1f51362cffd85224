//! What every token writes, byte for byte: what a language over texts must know of a vocabulary.
//!
//! Byte-level BPE spells bytes as printable characters, SentencePiece's kind a space as `▁` and single bytes as `<0xNN>`. In other
//! vocabularies (WordPiece) what a token writes depends on its neighbours, so that no list of bytes is true.

use super::Tokenizer;
use crate::error::{Error, Result};
use tokenizers::DecoderWrapper;

/// How tokens spell bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    ByteLevel,
    SentencePiece,
}

impl Tokenizer {
    /// The bytes of every id below `vocab`; `None` for special tokens, and for ids without a token. An error where tokens do not spell bytes.
    pub fn token_bytes(&self, vocab: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let spelling = self.spelling()?;
        let (added, silent) = (self.added(), self.without_text());
        let mut all = vec![None; vocab];
        for (token, id) in self.vocab() {
            if let Some(bytes) = all.get_mut(id as usize) {
                *bytes = Some(match spelling {
                    _ if added.contains_key(&id) => token.into_bytes(),
                    Spelling::ByteLevel => byte_level(&token),
                    Spelling::SentencePiece => sentence_piece(&token),
                });
            }
        }
        silent.into_iter().filter_map(|id| all.get_mut(id as usize).map(Option::take)).for_each(drop);
        Ok(all)
    }

    fn spelling(&self) -> Result<Spelling> {
        let decoder = self.pipeline.inner.get_decoder();
        spelling(decoder).map_err(|given| Error::NotBytes { path: self.path().to_owned(), given })
    }
}

/// By the step that makes text of tokens, or the name of one that spells no bytes.
fn spelling(decoder: Option<&DecoderWrapper>) -> Result<Spelling, String> {
    let named = |name: &str| Err(name.to_owned());
    match decoder {
        None => named("none"),
        Some(DecoderWrapper::ByteLevel(_)) => Ok(Spelling::ByteLevel),
        Some(DecoderWrapper::Metaspace(_) | DecoderWrapper::ByteFallback(_)) => Ok(Spelling::SentencePiece),
        Some(step @ DecoderWrapper::Replace(_)) if is_space(step) => Ok(Spelling::SentencePiece),
        Some(DecoderWrapper::Replace(_)) => named("Replace"),
        Some(DecoderWrapper::Sequence(steps)) => {
            let steps = steps.get_decoders();
            // What strips and joins comes after the tokens have become text.
            let speaks = |step: &&DecoderWrapper| !matches!(step, DecoderWrapper::Fuse(_) | DecoderWrapper::Strip(_));
            let mut found = steps.iter().filter(speaks).map(|step| spelling(Some(step)));
            let first = found.next().unwrap_or_else(|| named("Sequence"))?;
            found.try_fold(first, |first, next| if next? == first { Ok(first) } else { named("Sequence") })
        }
        Some(DecoderWrapper::WordPiece(_)) => named("WordPiece"),
        Some(DecoderWrapper::BPE(_)) => named("BPEDecoder"),
        Some(DecoderWrapper::CTC(_)) => named("CTC"),
        Some(DecoderWrapper::Fuse(_)) => named("Fuse"),
        Some(DecoderWrapper::Strip(_)) => named("Strip"),
    }
}

/// Whether a step makes a space of every `▁`.
fn is_space(step: &DecoderWrapper) -> bool {
    let said = serde_json::to_value(step).unwrap_or_default();
    said["pattern"]["String"] == "▁" && said["content"] == " "
}

/// The bytes whose characters these are; a token with any other character is its own text.
fn byte_level(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// GPT-2's table: printable bytes are themselves, the others follow from U+0100 on, in their order.
fn byte_of(character: char) -> Option<u8> {
    let is_printable = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    match u32::from(character) {
        code @ 0..256 => Some(code as u8).filter(|byte| is_printable(*byte)),
        code => (0..=255u8).filter(|byte| !is_printable(*byte)).nth(code as usize - 256),
    }
}

fn sentence_piece(token: &str) -> Vec<u8> {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
    match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None => token.replace('▁', " ").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let table = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = table.iter().map(|&character| byte_of(character).unwrap()).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(
            (byte_of('Ġ'), byte_of('Ċ'), byte_of('a'), byte_of('€')),
            (Some(b' '), Some(b'\n'), Some(b'a'), None)
        );
        assert_eq!(byte_level("Ġa€"), "Ġa€".as_bytes());
    }

    #[test]
    fn pieces_of_sentences_have_spaces_and_bytes() {
        assert_eq!(sentence_piece("▁the"), b" the");
        assert_eq!(sentence_piece("<0x0A>"), b"\n");
        assert_eq!(sentence_piece("<0xG1>"), b"<0xG1>");
    }
}
