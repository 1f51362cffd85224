//! Decode a sentence with a model whose joint distribution is known, once with Top-k and once with ADAS.
//!
//! Run with: cargo run -p cofill --example decode_toy
#![allow(clippy::print_stdout)]

use cofill::toy::Toy;
use cofill::{Canvas, Decode, Denoiser, Result, SamplerSpec};

fn main() -> Result<()> {
    for sampler in ["topk:2", "topk:2+ad"] {
        println!("{sampler}");
        let (nfe, steps) = decode(sampler)?;
        steps.iter().for_each(|line| println!("  {line}"));
        println!("  {nfe} forwards\n");
    }
    Ok(())
}

/// The number of forwards, and the sentence after each step.
fn decode(sampler: &str) -> Result<(usize, Vec<String>)> {
    let mut toy = Toy::phrases(6); // a name of two words, a verb, a city of two words, a word on when
    let canvas = Canvas::prompt(&[], toy.len(), toy.mask_id());
    let policy = sampler.parse::<SamplerSpec>()?.build()?;
    let mut decode = Decode::new(canvas, policy)?;

    // `cofill::generate` is this loop. Who drives it can show, batch, count or stop between any two forwards.
    let mut lines = Vec::new();
    while let Some(query) = decode.query() {
        let answers = toy.denoise(&[query])?;
        if decode.absorb(&answers[0])?.is_some() {
            let words = decode.canvas().tokens().iter().map(|&token| Toy::piece(token));
            lines.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    Ok((decode.nfe(), lines))
}

#[test]
fn adas_waits_for_the_first_word_of_a_name() {
    let (nfe, steps) = decode("topk:2").unwrap();
    assert_eq!((nfe, steps.last().unwrap().as_str()), (3, "Alan Kelly visited San City again"));
    let (nfe, steps) = decode("topk:2+ad").unwrap();
    assert_eq!((nfe, steps.last().unwrap().as_str()), (3, "Alan Turing visited San Diego again"));
}
