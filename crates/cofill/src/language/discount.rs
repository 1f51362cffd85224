//! The discount of ADAS as text: `ad:40@layer=first`, which follows a sampler behind a plus.

use super::form::Parts;
use super::param::Param;
use crate::adas::{AttentionDiscount, Weight};
use crate::{Error, Layers, Result};
use std::fmt::{self, Display};
use std::str::FromStr;

const FORM: &str = "+ad[:ALPHA][@layer=first|middle|last|learned|N][@weight=self|mask]";

/// α: far above what is used, and bounded so that no utility can reach −∞, which stands for "chosen".
fn alpha() -> Param {
    Param::number("ALPHA", 0.0, 1e9)
}

impl AttentionDiscount {
    /// Refuses what cannot be written: the text of a sampler is all that results and traces keep of it.
    pub(super) fn check(&self) -> Result<()> {
        alpha().check(self.alpha, &self.alpha.to_string(), FORM)?;
        if matches!(self.layers, Layers::LastN(_) | Layers::LastShare(_)) {
            let (what, limit) = ("the layer of +ad", "first, middle, last, learned or a number".into());
            return Err(Error::BadSetting { what, limit, given: self.layers.to_string() });
        }
        Ok(())
    }
}

/// `ad[:ALPHA][@layer=..][@weight=..]`, without the plus.
impl FromStr for AttentionDiscount {
    type Err = Error;

    fn from_str(text: &str) -> Result<AttentionDiscount> {
        let parts = Parts::of(text);
        if parts.name != "ad" || parts.discount.is_some() {
            return Err(Error::UnknownSuffix { suffix: text.into() });
        }
        let mut ad = AttentionDiscount::default();
        if !parts.params.is_empty() {
            ad.alpha = alpha().parse(&parts.params.join(","), FORM)?;
        }
        let problem = |problem, option: &str| Error::Option {
            name: "+ad".into(),
            problem,
            option: option.into(),
            accepted: "`@layer=first|middle|last|learned|N`, `@weight=self|mask`".into(),
        };
        let (mut layer_given, mut weight_given) = (false, false);
        for option in parts.options {
            let unknown = || problem("has no option", option);
            let twice = match option.split_once('=') {
                Some(("layer", layer)) => {
                    ad.layers = layer.parse().map_err(|_| unknown())?;
                    std::mem::replace(&mut layer_given, true)
                }
                Some(("weight", weight)) => {
                    ad.weight = match weight {
                        "self" => Weight::Chosen,
                        "mask" => Weight::Mean,
                        _ => return Err(unknown()),
                    };
                    std::mem::replace(&mut weight_given, true)
                }
                _ => return Err(unknown()),
            };
            if twice {
                return Err(problem("was given twice", option));
            }
        }
        Ok(ad)
    }
}

impl Display for AttentionDiscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ad:{}", self.alpha)?;
        if self.layers != Layers::Last {
            write!(f, "@layer={}", self.layers)?;
        }
        match self.weight {
            Weight::Chosen => Ok(()),
            Weight::Mean => f.write_str("@weight=mask"),
        }
    }
}
