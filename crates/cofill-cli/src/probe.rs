//! `cofill probe`: one forward pass, printed.

use crate::fail::{Done, Fail};
use crate::load_args::ModelArgs;
use anyhow::Context;
use cofill::{Layers, Proposal, Query, TokenId};
use cofill_engine::parse_tokens;
use cofill_model::printable;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Run the model once and print what it says: token, confidence, entropy, attention.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The canvas, as token ids with M for a mask: 25,59,M,M,87.
    #[arg(long, value_name = "IDS")]
    tokens: String,
    /// Which positions to print.
    #[arg(long, value_enum, default_value_t = Rows::Masked)]
    rows: Rows,
    /// Which layer's attention: first, middle, last or a number.
    #[arg(long, value_name = "LAYER", default_value = "last")]
    layer: Layers,
    /// Give logits too, those that predict each row (checkpoints only).
    #[arg(long, requires = "json")]
    logits: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Rows {
    /// The masks.
    Masked,
    /// Every position.
    All,
}

/// `--json`.
#[derive(Serialize)]
struct Answer {
    rows: Vec<RowAnswer>,
    /// `[row][row]`: query, then key.
    attention: Vec<Vec<f64>>,
    layer: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<Vec<f32>>>,
}

#[derive(Serialize)]
struct RowAnswer {
    position: usize,
    token: TokenId,
    confidence: f64,
    entropy: f64,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut model = args.model.open()?;
    let mask_id = model.mask_id();
    let tokens =
        parse_tokens(&args.tokens, Some(mask_id)).map_err(|error| Fail::request(format!("--tokens: {error}")))?;
    model.fit(tokens.len())?;
    let asked = |&position: &usize| matches!(args.rows, Rows::All) || tokens[position] == mask_id;
    let rows: Vec<usize> = (0..tokens.len()).filter(asked).collect();
    if rows.is_empty() {
        return Err(Fail::request("--tokens has no mask to predict; write M for one, or give --rows all"));
    }
    let n_layers = model.weights().map_or(1, |weights| weights.config().layers);
    let layer = args.layer.resolve(n_layers)?.start;
    let proposal = Proposal::greedy();
    let query = Query::new(&tokens, &rows, &proposal).attention(args.layer);
    let predictions = model.denoiser().denoise(&[query])?;
    let prediction = predictions.first().context("the model answered no prediction").map_err(Fail::Run)?;
    let attention = prediction.attention.as_ref().context("the model answered no attention").map_err(Fail::Run)?;
    let answer = Answer {
        rows: rows
            .iter()
            .zip(&prediction.rows)
            .map(|(&position, row)| RowAnswer {
                position,
                token: row.token,
                confidence: row.confidence,
                entropy: row.entropy,
            })
            .collect(),
        attention: (0..rows.len()).map(|q| (0..rows.len()).map(|k| attention.get(q, k)).collect()).collect(),
        layer,
        logits: match (args.logits, model.weights()) {
            (false, _) => None,
            (true, Some(weights)) => Some(weights.logits(&tokens, &rows)?),
            (true, None) => return Err(Fail::request("--logits needs a checkpoint; the toy knows probabilities only")),
        },
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        let toward = format!("attends to (layer {layer})");
        writeln!(out, "{:>8}  {:>7}  {:>10}  {:>7}  {toward:<22}  text", "position", "token", "confidence", "entropy")?;
        for (row, attention) in answer.rows.iter().zip(&answer.attention) {
            let RowAnswer { position, token, confidence, entropy } = *row;
            // The other row it looks at most.
            let others = rows.iter().zip(attention).filter(|(other, _)| **other != position);
            let most = others.max_by(|a, b| a.1.total_cmp(b.1));
            let most = most.map_or_else(String::new, |(other, share)| format!("{other} ({share:.4})"));
            let text = model.piece(token);
            let text = printable(&text);
            writeln!(out, "{position:>8}  {token:>7}  {confidence:>10.6}  {entropy:>7.4}  {most:<22}  {text}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
