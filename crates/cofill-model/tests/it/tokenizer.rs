//! Tokenizers and chat templates: what the slow Dream tokenizer and transformers made of the same text. Published
//! tokenizers and templates are not in this repository; without `COFILL_SHARED` the tests `texts_*` say so and do
//! nothing.

use crate::support::{goldens, json, texts};
use cofill_model::{ChatTemplate, Message, Tokenizer};
use serde_json::Value;

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn texts_dream_tokenizer_from_vocab_and_merges() {
    let Some(dir) = texts() else { return };
    let golden = json(&dir.join("dream_tokenizer_goldens.json"));
    let files = dir.join(golden["files_dir"].as_str().unwrap());
    assert!(!files.join("tokenizer.json").exists(), "the point is to build it from vocab.json and merges.txt");
    let tokenizer = Tokenizer::load(&files).unwrap();

    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let (text, want) = (case["text"].as_str().unwrap(), ids(&case["ids"]));
        assert_eq!(tokenizer.encode(text).unwrap(), want, "ids of {text:?}");
        assert_eq!(tokenizer.decode(&want, false).unwrap(), case["decoded"], "text of {want:?}");
    }
    println!("texts: {} of {} strings as Dream's slow tokenizer has them", cases.len(), cases.len());
    assert!(cases.len() >= 27, "only {} cases", cases.len());
}

#[test]
fn texts_dream_special_tokens_and_ids_without_a_token() {
    let Some(dir) = texts() else { return };
    let tokenizer = Tokenizer::load(&dir.join("dream_tokenizer")).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.mask()), (Some(151_665), Some(151_643), Some(151_666)));
    assert_eq!(tokenizer.piece(151_666), "<|mask|>");
    assert_eq!(tokenizer.token_id("<|im_end|>"), Some(151_645));

    // 151657 to 151664 are added but not special: skipping the special ones keeps them.
    let text = tokenizer.encode("<|im_start|>a<tool_call>b<|im_end|>").unwrap();
    assert_eq!(tokenizer.decode(&text, true).unwrap(), "a<tool_call>b");

    // Every id of the head's 152,064 columns has something to show, and none breaks a decode.
    let hello = tokenizer.encode("Hello world").unwrap();
    for id in 151_667..152_064 {
        assert_eq!(tokenizer.decode(&[hello[0], id, hello[1]], false).unwrap(), "Hello world");
        assert_eq!(tokenizer.piece(id), format!("<|id {id}|>"));
    }
    let pieces = (0..152_064).filter(|id| !tokenizer.piece(*id).is_empty()).count();
    println!("texts: {pieces} of 152064 ids have a piece, 397 of them without a token");
    assert_eq!(pieces, 152_064);
}

#[test]
fn conformance_tiny_tokenizers() {
    let dir = goldens();
    let mut n = 0;
    for (family, mask, bos) in
        [("llada_tiny", "<|mdm_mask|>", "<|startoftext|>"), ("dream_tiny", "<|mask|>", "<|beginoftext|>")]
    {
        let tokenizer = Tokenizer::load(&dir.join(family)).unwrap();
        let config = json(&dir.join(family).join("config.json"));
        let mask_id = u32::try_from(config["mask_token_id"].as_u64().unwrap()).unwrap();
        assert_eq!(tokenizer.token_id(mask), Some(mask_id));
        assert_eq!(tokenizer.bos(), tokenizer.token_id(bos));
        assert_eq!(tokenizer.eos().map(u64::from), config["eos_token_id"].as_u64());
        assert_eq!(tokenizer.mask(), (family == "dream_tiny").then_some(mask_id), "LLaDA's config names no mask");

        let text = format!("w3 w140 {mask} w7");
        assert_eq!(tokenizer.encode(&text).unwrap(), [3, 140, mask_id, 7]);
        assert_eq!(tokenizer.decode(&[3, 140, mask_id, 7], false).unwrap(), text);
        assert_eq!(tokenizer.decode(&[3, 140, mask_id, 7, 5000], true).unwrap(), "w3 w140 w7");
        for id in 0..u32::try_from(config["vocab_size"].as_u64().unwrap()).unwrap() {
            assert_eq!(tokenizer.encode(&tokenizer.piece(id)).unwrap(), [id]);
            n += 1;
        }
    }
    println!("conformance: {n} tokens of the two tiny tokenizers survive the round trip");
    assert_eq!(n, 320);
}

#[test]
fn texts_chat_templates() {
    let Some(dir) = texts() else { return };
    let golden = json(&dir.join("chat_templates.json"));
    let dream = Tokenizer::load(&dir.join("dream_tokenizer")).unwrap();
    let (mut rendered, mut encoded) = (0, 0);
    for case in golden["cases"].as_array().unwrap() {
        let family = case["family"].as_str().unwrap();
        // The tiny checkpoints carry the published templates in tokenizer_config.json.
        let checkpoint = dir.join(format!("{family}_tiny"));
        assert_eq!(json(&checkpoint.join("tokenizer_config.json"))["chat_template"], golden["templates"][family]);
        let template = ChatTemplate::load(&checkpoint).unwrap().unwrap();
        let messages: Vec<Message> = case["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| Message::new(m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
            .collect();
        let prompt = template.render(&messages, case["add_generation_prompt"].as_bool().unwrap()).unwrap();
        assert_eq!(prompt, case["rendered"], "{family}: {messages:?}");
        rendered += 1;
        if let Some(want) = case.get("ids") {
            assert_eq!(dream.encode(&prompt).unwrap(), ids(want), "{family}: {messages:?}");
            encoded += 1;
        }
    }
    println!("texts: {rendered} chat prompts as transformers renders them, {encoded} with the same ids");
    assert!(rendered >= 16 && encoded >= 8);
}
