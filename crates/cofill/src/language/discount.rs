//! The discount as text: `ad:40@layer=first`, which follows a sampler behind a plus; and `paths:100`, which is `ad:100@paths@doubt@veto`.

use super::form::Parts;
use super::param::Param;
use crate::adas::{AttentionDiscount, Weight};
use crate::{Error, Layers, Result};
use std::fmt::{self, Display};
use std::str::FromStr;

const FORM: &str = "+ad[:ALPHA] or +paths[:ALPHA|:auto]";

/// What may follow `+ad`, for tables and messages.
pub const DISCOUNT_FORMS: [&str; 3] = [
    "+ad[:ALPHA][@layer=first|middle|last|learned|N][@weight=self|mask][@paths][@doubt][@veto], default +ad:40",
    "+paths[:ALPHA] for +ad:ALPHA@paths@doubt@veto, default +paths:100; ALPHA may be `auto`",
    "@source=shuffled|transposed|distance|rowmean after either: a control in place of attention",
];

const AUTO: &str = "auto";

/// α: far above what is used, and bounded so that no utility can reach −∞, which stands for "chosen".
fn alpha() -> Param {
    Param::number("ALPHA", 0.0, 1e9)
}

impl AttentionDiscount {
    /// Refuses what cannot be written: the text of a sampler is all that results and traces keep of it.
    pub(super) fn check(&self) -> Result<()> {
        match self.auto {
            false => alpha().check(self.alpha, &self.alpha.to_string(), FORM)?,
            // What is calibrated is the strength of all three options together.
            true if !self.is_paths() => {
                let (what, limit) = ("ALPHA of +ad".into(), "a number; only +paths can be `auto`".into());
                return Err(Error::OutOfRange { what, limit, given: format!("`{AUTO}`"), form: FORM.into() });
            }
            true => {}
        }
        if matches!(self.layers, Layers::LastN(_) | Layers::LastShare(_)) {
            let (what, limit) = ("the layer of +ad", "first, middle, last, learned or a number".into());
            return Err(Error::BadSetting { what, limit, given: self.layers.to_string() });
        }
        Ok(())
    }

    /// Whether it is written `paths:`: all three of its options.
    fn is_paths(&self) -> bool {
        self.paths && self.doubt && self.veto
    }
}

/// `ad[:ALPHA][@..]` or `paths[:ALPHA][@..]`, without the plus.
impl FromStr for AttentionDiscount {
    type Err = Error;

    fn from_str(text: &str) -> Result<AttentionDiscount> {
        let parts = Parts::of(text);
        let mut ad = match parts.name {
            "ad" if parts.discount.is_none() => AttentionDiscount::default(),
            "paths" if parts.discount.is_none() => AttentionDiscount::paths(),
            _ => return Err(Error::UnknownSuffix { suffix: text.into() }),
        };
        match parts.params.join(",").as_str() {
            "" if parts.params.is_empty() => {}
            // What the number would be is not known yet; 0 keeps texts that mean the same equal.
            AUTO => (ad.alpha, ad.auto) = (0.0, true),
            given => ad.alpha = alpha().parse(given, FORM)?,
        }
        let name = || format!("+{}", parts.name);
        let problem = |problem, option: &str| {
            Error::Option {
            name: name(),
            problem,
            option: option.into(),
            accepted: "`@layer=first|middle|last|learned|N`, `@weight=self|mask`, `@paths`, `@doubt`, `@veto`, `@source=shuffled|transposed|distance|rowmean`".into(),
        }
        };
        let mut given: Vec<&str> = Vec::new();
        for &option in &parts.options {
            let unknown = || problem("has no option", option);
            let key = match option.split_once('=') {
                Some((key @ "layer", layer)) => {
                    ad.layers = layer.parse().map_err(|_| unknown())?;
                    key
                }
                Some((key @ "weight", weight)) => {
                    ad.weight = match weight {
                        "self" => Weight::Chosen,
                        "mask" => Weight::Mean,
                        _ => return Err(unknown()),
                    };
                    key
                }
                // A control: not attention, but something made of it.
                Some((key @ "source", control)) => {
                    ad.control = Some(control.parse().map_err(|_| unknown())?);
                    key
                }
                None => {
                    *match option {
                        "paths" => &mut ad.paths,
                        "doubt" => &mut ad.doubt,
                        "veto" => &mut ad.veto,
                        _ => return Err(unknown()),
                    } = true;
                    option
                }
                _ => return Err(unknown()),
            };
            if given.contains(&key) {
                return Err(problem("was given twice", option));
            }
            given.push(key);
        }
        ad.check()?;
        Ok(ad)
    }
}

impl Display for AttentionDiscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_paths() { "paths:" } else { "ad:" })?;
        match self.auto {
            true => f.write_str(AUTO)?,
            false => write!(f, "{}", self.alpha)?,
        }
        if self.layers != Layers::Last {
            write!(f, "@layer={}", self.layers)?;
        }
        if self.weight == Weight::Mean {
            f.write_str("@weight=mask")?;
        }
        if let Some(control) = self.control {
            write!(f, "@source={control}")?;
        }
        let words = [(self.paths, "@paths"), (self.doubt, "@doubt"), (self.veto, "@veto")];
        words.iter().filter(|(on, _)| *on && !self.is_paths()).try_for_each(|(_, word)| f.write_str(word))
    }
}
