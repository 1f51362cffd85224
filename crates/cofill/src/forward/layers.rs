//! Where the matrix of who looks at whom comes from: some layers' attention, or a trained head.

use crate::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Which layers' attention, averaged over heads and then over the layers; or, in its place, what a trained head predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Layers {
    /// The first layer, number 0.
    First,
    /// The middle layer, number n/2 of n.
    Middle,
    /// The final layer: the paper's choice (appendix "Effect of attention source").
    Last,
    /// One layer by its number, from 0.
    Nth(usize),
    /// The mean of the last n layers (DAWN: 4).
    LastN(usize),
    /// The mean of this final share of the layers, at least one (DAPD: 0.3).
    LastShare(f64),
    /// No layer's: D\[query, key\] in \[0, 1\], how likely revealing the key changes the query, as a head trained on the model's last
    /// hidden states predicts it (in the spirit of DEMASK). Only some models have such a head.
    Learned,
}

impl Layers {
    /// The layers meant, for a model that has `n_layers`.
    pub fn resolve(self, n_layers: usize) -> Result<Range<usize>> {
        let last = n_layers.saturating_sub(1);
        let from_end = |n: usize| n_layers - n.clamp(1, n_layers)..n_layers;
        match self {
            _ if n_layers == 0 => Err(Error::NoSuchLayer { layer: 0, last }),
            Layers::First => Ok(0..1),
            Layers::Middle => Ok(n_layers / 2..n_layers / 2 + 1),
            Layers::Last => Ok(last..n_layers),
            Layers::Nth(layer) if layer >= n_layers => Err(Error::NoSuchLayer { layer, last }),
            Layers::Nth(layer) => Ok(layer..layer + 1),
            Layers::LastN(n) => Ok(from_end(n)),
            Layers::LastShare(share) => Ok(from_end((share * n_layers as f64).round() as usize)),
            Layers::Learned => {
                let (limit, given) = ("a layer of the model".into(), self.to_string());
                Err(Error::BadSetting { what: "layer", limit, given })
            }
        }
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layers::First => f.write_str("first"),
            Layers::Middle => f.write_str("middle"),
            Layers::Last => f.write_str("last"),
            Layers::Nth(n) => write!(f, "{n}"),
            Layers::LastN(n) => write!(f, "last {n}"),
            Layers::LastShare(share) => write!(f, "last {:.0}%", share * 100.0),
            Layers::Learned => f.write_str("learned"),
        }
    }
}

/// What a user may write: `first`, `middle`, `last`, a layer's number, or `learned`.
impl FromStr for Layers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Layers> {
        let nth = || text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?;
        match text {
            "first" => Ok(Layers::First),
            "middle" => Ok(Layers::Middle),
            "last" => Ok(Layers::Last),
            "learned" => Ok(Layers::Learned),
            _ => nth().map(Layers::Nth).ok_or_else(|| Error::BadSetting {
                what: "layer",
                limit: "first, middle, last, learned or a number".into(),
                given: format!("`{text}`"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_resolve_for_the_papers_models() {
        let llada = |layers: Layers| layers.resolve(32).unwrap();
        assert_eq!(llada(Layers::First), 0..1);
        assert_eq!(llada(Layers::Middle), 16..17);
        assert_eq!(llada(Layers::Last), 31..32);
        assert_eq!(llada(Layers::LastN(4)), 28..32);
        assert_eq!(llada(Layers::LastShare(0.3)), 22..32); // 0.3 x 32 = 9.6, ten layers
        assert_eq!(Layers::LastShare(0.3).resolve(1).unwrap(), 0..1);
        assert_eq!(Layers::LastN(4).resolve(2).unwrap(), 0..2);
        assert!(matches!(Layers::Nth(32).resolve(32), Err(Error::NoSuchLayer { layer: 32, last: 31 })));
        assert!(Layers::Last.resolve(0).is_err());
        assert!(Layers::Learned.resolve(32).is_err(), "no layer's");
    }

    #[test]
    fn layers_are_read_as_they_are_printed() {
        for layers in [Layers::First, Layers::Middle, Layers::Last, Layers::Learned, Layers::Nth(0), Layers::Nth(31)] {
            assert_eq!(layers.to_string().parse::<Layers>().unwrap(), layers);
        }
        for bad in ["", "top", "-1", "+1", "1.5", "last 4", "99999999999999999999"] {
            let error = bad.parse::<Layers>().unwrap_err().to_string();
            let want = format!("layer must be first, middle, last, learned or a number, but `{bad}` was given");
            assert_eq!(error, want);
        }
    }
}
