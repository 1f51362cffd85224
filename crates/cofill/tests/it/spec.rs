//! The sampler language: every way a text can be wrong, what is printed, and that printing and parsing are inverse.

use crate::support::spec;
use cofill::spec::{Entry, Param};
use cofill::{Error, Registry, SamplerForm, SamplerSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// `text` is refused with this variant, and the message contains each of `says`.
macro_rules! refused {
    ($text:expr, $variant:pat, $($says:expr),+) => {
        let error = $text.parse::<SamplerSpec>().expect_err($text);
        assert!(matches!(error, $variant), "`{}` gave {error:?}", $text);
        let message = error.to_string();
        for says in [$($says),+] {
            assert!(message.contains(says), "`{}`: \"{message}\" does not say \"{says}\"", $text);
        }
    };
}

#[test]
fn unknown_names_list_the_known_ones() {
    for text in ["", "ebs:10", "TOPK:8", " topk:8", "topk 8", ":8", "@margin", "+ad", "ad:40"] {
        refused!(text, Error::UnknownSampler { .. }, "`topk:K`", "`fast:F`", "`eb:GAMMA`", "`klass[", "`+ad[:ALPHA]`");
    }
    refused!("ebs:10+ad", Error::UnknownSampler { .. }, "unknown sampler `ebs:10+ad`");
    for (text, meant) in [
        ("topkk:2", "topk:2"), // one letter too many; the rest is kept
        ("ebs:10@margin+ad:3", "eb:10@margin+ad:3"),
        ("Topk:2", "topk:2"),
        ("topkk", "topk:K"), // cannot be read with that name either, so the form
        ("klas", "klass"),
    ] {
        refused!(text, Error::UnknownSampler { .. }, &*format!("unknown sampler `{text}` (did you mean `{meant}`?);"));
    }
    let message = "nope".parse::<SamplerSpec>().unwrap_err().to_string();
    for entry in Registry::stock().entries() {
        assert!(message.contains(&format!("`{}`", entry.form())), "{} is not named", entry.form());
    }
}

#[test]
fn parameters_are_counted() {
    refused!("topk", Error::ParameterCount { got: 0, .. }, "`topk` takes 1 parameter", "0 were given", "`topk:K`");
    refused!("topk+ad", Error::ParameterCount { got: 0, .. }, "`topk:K`");
    refused!("topk:8,3", Error::ParameterCount { got: 2, .. }, "1 parameter", "2 were given");
    refused!("topk:8,", Error::ParameterCount { got: 2, .. }, "`topk:K`");
    refused!(
        "threshold-dream:0.9",
        Error::ParameterCount { got: 1, .. },
        "2 parameters",
        "`threshold-dream:TAU,STEPS`"
    );
    refused!("klass:0.7,1,2", Error::ParameterCount { got: 3, .. }, "0 to 2 parameters", "`klass[:THETA[,KAPPA]]`");
}

#[test]
fn counts_are_whole_and_positive() {
    refused!("topk:0", Error::OutOfRange { .. }, "K must be", "from 1 to 4294967295", "0 was given", "`topk:K`");
    refused!("topk:-1", Error::OutOfRange { .. }, "K must be", "-1 was given");
    refused!("topk:99999999999999999999", Error::OutOfRange { .. }, "4294967295", "99999999999999999999 was given");
    refused!("topk:4294967296", Error::OutOfRange { .. }, "from 1 to 4294967295");
    refused!("topk:2.5", Error::NotANumber { .. }, "`2.5` is not a whole number for K", "`topk:K`");
    refused!("topk:1e3", Error::NotANumber { .. }, "`1e3` is not a whole number");
    refused!("topk:NaN", Error::NotANumber { .. }, "`NaN` is not a whole number for K");
    refused!("topk:", Error::NotANumber { .. }, "`` is not a whole number");
    refused!("llada:0", Error::OutOfRange { .. }, "STEPS must be", "`llada:STEPS`");
    refused!("klass@history=0", Error::OutOfRange { .. }, "history must be", "from 1 to 64", "`@history=NUMBER`");
    assert!("topk:4294967295".parse::<SamplerSpec>().is_ok(), "the end of the range is in it");
}

#[test]
fn numbers_are_finite_and_in_range() {
    refused!("eb:nan", Error::NotANumber { .. }, "`nan` is not a number for GAMMA", "`eb:GAMMA`");
    refused!("eb:inf", Error::NotANumber { .. }, "`inf` is not a number for GAMMA");
    refused!("eb:infinity", Error::NotANumber { .. }, "`infinity`");
    refused!("eb:1e999", Error::OutOfRange { .. }, "GAMMA must be a number, 0 or more", "1e999 was given");
    refused!("fast:-0.1", Error::OutOfRange { .. }, "F must be a number, 0 or more", "-0.1 was given", "`fast:F`");
    refused!("threshold:1.5", Error::OutOfRange { .. }, "TAU must be a number from 0 to 1", "1.5 was given");
    refused!("threshold:-0.5", Error::OutOfRange { .. }, "TAU must be");
    refused!("topk:8+ad:-1", Error::OutOfRange { .. }, "ALPHA must be", "-1 was given", "+ad[:ALPHA]");
    refused!("topk:8+ad:nan", Error::NotANumber { .. }, "`nan` is not a number for ALPHA");
    refused!("topk:8+ad:", Error::NotANumber { .. }, "`` is not a number for ALPHA");
    refused!("dream:8@eps=0", Error::OutOfRange { .. }, "eps must be");
    refused!("dawn:0.7,1,0,0.75", Error::OutOfRange { .. }, "EDGE must be a number above 0, at most 1", "0 was given");
    refused!("eb:1e+3", Error::NotANumber { .. }, "`1e` is not a number"); // a plus starts a suffix
}

#[test]
fn nothing_may_trail() {
    refused!("topk:8x", Error::NotANumber { .. }, "`8x` is not a whole number", "`topk:K`");
    refused!("topk:8 ", Error::NotANumber { .. }, "`8 `");
    refused!("topk: 8", Error::NotANumber { .. }, "` 8`");
    refused!("topk:8:3", Error::NotANumber { .. }, "`8:3`");
    refused!("topk:+8", Error::NotANumber { .. }, "`` is not a whole number");
    refused!("topk:8+ad:40x", Error::NotANumber { .. }, "`40x` is not a number for ALPHA", "+ad[:ALPHA]");
    refused!("topk:8+ad:40,1", Error::NotANumber { .. }, "`40,1`");
    refused!("topk:8+ad ", Error::UnknownSuffix { .. }, "unknown suffix `+ad `", "`+ad[:ALPHA]");
    refused!("topk:8+", Error::UnknownSuffix { .. }, "unknown suffix `+`");
    refused!("topk:8+foo", Error::UnknownSuffix { .. }, "unknown suffix `+foo`", "`+ad[:ALPHA]");
    refused!("topk:8+ad+ad", Error::UnknownSuffix { .. }, "`+ad+ad`");
    refused!("topk:8\n", Error::NotANumber { .. }, "`8\n`");
}

#[test]
fn options_are_those_the_sampler_has() {
    refused!("topk:8@foo", Error::Option { .. }, "`topk` has no option `@foo`", "@confidence, @margin, @entropy");
    refused!("topk:8@", Error::Option { .. }, "has no option `@`");
    refused!("topk:8@MARGIN", Error::Option { .. }, "has no option `@MARGIN`");
    refused!("topk:8@margin@entropy", Error::Option { .. }, "already been told", "`@entropy`");
    refused!("topk:8@margin@margin", Error::Option { .. }, "`@margin`");
    refused!("klass@history=2@history=3", Error::Option { .. }, "`klass` was given twice `@history=3`");
    refused!("klass@history", Error::Option { .. }, "has no option `@history`", "@history=");
    refused!("klass@history=2x", Error::NotANumber { .. }, "`2x` is not a whole number for history");
    refused!("dapd@margin", Error::Option { .. }, "accepted options: none");
    refused!("dream:8@margin", Error::Option { .. }, "@topk_margin");
}

#[test]
fn the_discount_has_six_options() {
    let accepted = "`@layer=first|middle|last|learned|N`, `@weight=self|mask`, `@paths`, `@doubt`, `@veto`";
    refused!("topk:8+ad@source=noise", Error::Option { .. }, "`@source=noise`", "`@source=shuffled|transposed");
    assert_eq!(spec("topk:8+paths@source=rowmean").to_string(), "topk:8+paths:100@source=rowmean");
    refused!("topk:8+ad@paths@paths", Error::Option { .. }, "`+ad` was given twice `@paths`");
    refused!("topk:8+paths@veto=1", Error::Option { .. }, "`+paths` has no option `@veto=1`", accepted);
    refused!("topk:8+ad@path", Error::Option { .. }, "`@path`", accepted);
    refused!("topk:8+ad@layer=top", Error::Option { .. }, "`+ad` has no option `@layer=top`", accepted);
    refused!("topk:8+ad@layer=", Error::Option { .. }, accepted);
    refused!("topk:8+ad@layer=-1", Error::Option { .. }, accepted);
    refused!("topk:8+ad@layer=99999999999999999999", Error::Option { .. }, accepted);
    refused!("topk:8+ad@weight=none", Error::Option { .. }, "`@weight=none`", accepted);
    refused!("topk:8+ad@margin", Error::Option { .. }, "`@margin`", accepted);
    refused!("topk:8+ad@layer=1@layer=2", Error::Option { .. }, "twice `@layer=2`");
    refused!("topk:8+ad@weight=self@weight=self", Error::Option { .. }, "twice `@weight=self`");
}

#[test]
fn paths_is_short_for_three_options() {
    let same = |short: &str, long: &str| assert_eq!(spec(short).to_string(), spec(long).to_string());
    same("topk:8+paths", "topk:8+ad:100@paths@doubt@veto");
    same("topk:8+paths:25@layer=first", "topk:8+ad:25@veto@layer=first@doubt@paths");
    same("topk:8+paths@paths", "topk:8+paths");
    assert_eq!(spec("topk:8+ad:100@veto@paths@doubt").to_string(), "topk:8+paths:100");
    assert_eq!(spec("topk:8+ad@paths@veto").to_string(), "topk:8+ad:40@paths@veto");
    assert_eq!(spec("topk:8+paths:3@weight=mask").to_string(), "topk:8+paths:3@weight=mask");
}

#[test]
fn a_strength_that_is_to_be_chosen_must_be_chosen_before_anything_is_built() {
    let auto = spec("topk:8+paths:auto");
    assert_eq!((auto.to_string().as_str(), auto.discount().unwrap().auto), ("topk:8+paths:auto", true));
    assert_eq!(auto, spec("topk:8+ad:auto@paths@doubt@veto"));
    let error = auto.build().expect_err("nobody chose").to_string();
    assert!(error.contains("`+paths:auto`") && error.contains("a number in place of `auto`"), "{error}");
    let chosen = auto.with_discount(auto.discount().map(|discount| discount.with_alpha(25.0))).unwrap();
    assert_eq!(chosen, spec("topk:8+paths:25"));
    refused!("topk:8+ad:auto", Error::OutOfRange { .. }, "only +paths can be `auto`", "`auto` was given");
    refused!("topk:8+paths:auto1", Error::NotANumber { .. }, "`auto1` is not a number for ALPHA");
}

#[test]
fn the_discount_needs_a_ranking_and_one_layer() {
    refused!("klass+ad", Error::NotDiscountable { .. }, "`klass` has no ranking", "`topk`", "`eb`", "`dream`");
    refused!("punt:0.1+ad:0", Error::NotDiscountable { .. }, "`punt` has no ranking");
    refused!("dream:8@origin+ad", Error::NotDiscountable { .. }, "`dream@origin` has no ranking");
    // DOS ranks by the last layer, and a forward pass provides one.
    refused!("topk:8@experimental-dos+ad@layer=first", Error::TwoAttentionSources(..), "last", "first");
    assert!("topk:8@experimental-dos+ad@layer=last".parse::<SamplerSpec>().is_ok());
    let klass = spec("klass");
    assert!(matches!(klass.with_discount(Some(Default::default())), Err(Error::NotDiscountable { .. })));
    assert_eq!(klass.with_discount(None).unwrap(), klass);
    for entry in Registry::stock().entries() {
        let with_ad = format!("{}+ad", entry.example()).parse::<SamplerSpec>();
        assert_eq!(with_ad.is_ok(), entry.discountable, "{}", entry.name);
    }
}

#[test]
fn what_is_printed_is_canonical() {
    let check = |written: &str, printed: &str| assert_eq!(spec(written).to_string(), printed, "{written}");
    // What was left out is written out, except options at their defaults; order and spelling of numbers are one.
    check("topk:8+ad", "topk:8+ad:40");
    check("topk:008", "topk:8");
    check("eb:10.50", "eb:10.5");
    check("eb:1e-3+ad:4e1", "eb:0.001+ad:40");
    check("fast:-0", "fast:0");
    check("fast:.5", "fast:0.5");
    check("klass:0.6", "klass:0.6,1");
    check("klass@history=2@llada", "klass:0.7,1");
    check("klass@history=3@dream", "klass:0.7,1@dream@history=3");
    check("topk:8@confidence", "topk:8");
    check("topk:8@margin+ad:5@weight=mask@layer=first", "topk:8@margin+ad:5@layer=first@weight=mask");
    check("topk:8+ad@layer=last@weight=self", "topk:8+ad:40");
    check("topk:8+ad@layer=07", "topk:8+ad:40@layer=7");
    check("topk:8+ad@layer=learned", "topk:8+ad:40@layer=learned");
    check("dream:8@alg_temp=0.2@eps=0.001@topk_margin", "dream:8@topk_margin@alg_temp=0.2");
}

#[test]
fn the_registry_with_its_defaults() {
    // form, and what it prints with 1 for what has no default
    let want = "\
        topk:K topk:1\n\
        fast:F fast:1\n\
        fast-published:F fast-published:1\n\
        fast-dllm:F fast-dllm:1\n\
        fast-upstream:F fast-upstream:1\n\
        fast-profile[:F] fast-profile:0.75\n\
        fast-sum:F fast-sum:1\n\
        threshold:TAU threshold:1\n\
        eb:GAMMA eb:1\n\
        eb-original:GAMMA eb-original:1\n\
        llada:STEPS llada:1\n\
        dream:STEPS dream:1\n\
        threshold-dream:TAU,STEPS threshold-dream:1,1\n\
        klass[:THETA[,KAPPA]] klass:0.7,1\n\
        less[:TAU[,DRIFT]] less:0.75,0.04\n\
        dapd[:TAU_MIN[,TAU_MAX]] dapd:0.01,0.1\n\
        dawn[:INDUCE[,SINK[,EDGE[,LOW]]]] dawn:0.7,0.01,0.07,0.75\n\
        clad[:TAU] clad:0.75\n\
        punt[:EPSILON] punt:0.1\n\
        dus[:BLOCK] dus:32\n\
        p2:STEPS p2:1\n\
        lookum[:PATHS] lookum:2\n\
        localleap[:ANCHOR[,RELAXED[,RADIUS]]] localleap:0.9,0.75,4\n\
        hierarchy[:TAU[,LOW]] hierarchy:0.9,0.4\n\
        credit[:TAU] credit:0.9\n\
        oracle[:K[,EPSILON]] oracle:64,100\n\
        demask[:TAU[,THETA]] demask:0.3,0\n\
        apd[:R[,M]] apd:0.7,100\n";
    let mut got = String::new();
    for entry in Registry::stock().entries() {
        let required: Vec<&str> = entry.params.iter().filter(|p| p.default.is_none()).map(|_| "1").collect();
        let colon = if required.is_empty() { "" } else { ":" };
        let written = format!("{}{colon}{}", entry.name, required.join(","));
        got += &format!("{} {}\n", entry.form(), spec(&written));
        assert_eq!(entry.example(), spec(&written));
    }
    assert_eq!(got, want);
}

/// A number that `param` accepts, in some spelling. Its range is public in words only.
fn number(param: &Param) -> BoxedStrategy<String> {
    let words = param.range();
    if let Some(max) = words.strip_prefix("a number above 0, at most ") {
        let high: f64 = max.parse().unwrap();
        return prop_oneof![Just(max.to_string()), (f64::MIN_POSITIVE..=high).prop_map(|x| x.to_string())].boxed();
    }
    let bounds = words.strip_prefix("a whole number from ").or(words.strip_prefix("a number from "));
    let bounds =
        bounds.map(|b| b.split_once(" to ").expect("from .. to ..")).map(|(a, b)| (a.to_string(), b.to_string()));
    match bounds {
        Some((min, max)) if words.starts_with("a whole") => {
            let (low, high): (u64, u64) = (min.parse().unwrap(), max.parse().unwrap());
            prop_oneof![Just(min), Just(max), (low..=high).prop_map(|n| n.to_string())].boxed()
        }
        Some((min, max)) => {
            let (low, high): (f64, f64) = (min.parse().unwrap(), max.parse().unwrap());
            let between = low..=high;
            prop_oneof![
                Just(min),
                Just(max),
                between.clone().prop_map(|x| x.to_string()),
                between.prop_map(|x| format!("{x:e}"))
            ]
            .boxed()
        }
        None => {
            assert_eq!(words, "a number, 0 or more");
            prop_oneof![
                Just("0".to_string()),
                Just("-0".to_string()),
                (0.0..50.0f64).prop_map(|x| x.to_string()),
                (0.0..f64::MAX).prop_map(|x| format!("{x:e}")),
                (0.0..f64::MIN_POSITIVE).prop_map(|x| format!("{x:e}")),
            ]
            .boxed()
        }
    }
}

/// Any text of one entry: parameters from the first to the last that is given, one word of some groups, some options.
fn text_of(entry: &Entry) -> BoxedStrategy<String> {
    let required = entry.params.iter().filter(|param| param.default.is_none()).count();
    let params = (entry.params.iter().map(number).collect::<Vec<_>>(), required..=entry.params.len())
        .prop_map(|(values, n)| if n == 0 { String::new() } else { format!(":{}", values[..n].join(",")) });
    let word = |group: &Vec<String>| proptest::option::of(select(group.clone())).boxed();
    let words = entry
        .flags
        .iter()
        .map(word)
        .collect::<Vec<_>>()
        .prop_map(|words| words.into_iter().flatten().map(|word| format!("@{word}")).collect::<Vec<_>>());
    let option = |param: &Param| {
        let name = param.name.clone();
        proptest::option::of(number(param).prop_map(move |value| format!("@{name}={value}"))).boxed()
    };
    let options = entry.options.iter().map(option).collect::<Vec<_>>();
    let layer = select(vec!["", "@layer=first", "@layer=middle", "@layer=last", "@layer=0", "@layer=31"]);
    let weight = select(vec!["", "@weight=self", "@weight=mask"]);
    let alpha = proptest::option::of(number(&Param::number("ALPHA", 0.0, 1e9)));
    let discount = proptest::option::of((alpha, layer, weight).prop_map(|(alpha, layer, weight)| {
        let alpha = alpha.map(|a| format!(":{a}")).unwrap_or_default();
        format!("+ad{alpha}{layer}{weight}")
    }));
    let (name, discountable) = (entry.name.clone(), entry.discountable);
    (params, words, options, discount)
        .prop_map(move |(params, words, options, discount)| {
            let options: String = words.iter().cloned().chain(options.into_iter().flatten()).collect();
            // What has no ranking takes no discount, and DOS has a layer of its own.
            let lone = !discountable || words.iter().any(|w| w == "@origin" || w == "@experimental-dos");
            format!("{name}{params}{options}{}", discount.filter(|_| !lone).unwrap_or_default())
        })
        .boxed()
}

fn any_text() -> impl Strategy<Value = String> {
    select(Registry::stock().entries()).prop_flat_map(|entry| text_of(&entry))
}

/// `parse ∘ print` is the identity, `print ∘ parse` is canonical, and JSON is the same text in quotes.
fn check_round_trip(spec: &SamplerSpec) -> Result<(), TestCaseError> {
    let printed = spec.to_string();
    let again: SamplerSpec = printed.parse().map_err(|e| TestCaseError::fail(format!("`{printed}`: {e}")))?;
    prop_assert_eq!(&again, spec);
    prop_assert_eq!(again.to_string(), printed.clone());
    let form: SamplerForm = printed.parse().map_err(|e| TestCaseError::fail(format!("`{printed}`: {e}")))?;
    prop_assert_eq!(&form, &spec.form(), "the form of a sampler is what its text says");
    prop_assert_eq!(form.to_string(), printed.clone());
    let json = serde_json::to_string(spec).unwrap();
    prop_assert_eq!(&json, &format!("\"{printed}\""));
    prop_assert_eq!(&serde_json::from_str::<SamplerSpec>(&json).unwrap(), spec);
    prop_assert_eq!(&serde_json::from_reader::<_, SamplerSpec>(json.as_bytes()).unwrap(), spec);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_written_is_what_is_read(text in any_text()) {
        let parsed = text.parse::<SamplerSpec>();
        // Each value is in its range, but two may exclude each other: a low threshold above the high one, or a temperature for what has no order.
        let exclusive = matches!(&parsed, Err(Error::BadSetting { what: "TAU_MIN" | "LOW" | "RELAXED", .. }))
            || matches!(&parsed, Err(Error::Option { option, .. }) if option == "alg_temp");
        prop_assume!(!exclusive);
        let spec = parsed.map_err(|e| TestCaseError::fail(format!("`{text}`: {e}")))?;
        check_round_trip(&spec)?;
        prop_assert!(spec.build().is_ok(), "what parses can be built");
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(text in any::<String>()) {
        if let Ok(spec) = text.parse::<SamplerSpec>() {
            check_round_trip(&spec)?;
        }
    }

    #[test]
    fn near_misses_are_errors_or_samplers(
        text in any_text(), edits in vec((0..60usize, select(b"+@:,=.-e0189 akN\xc3".to_vec()), 0..3u8), 1..4),
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte, edit) in edits {
            let at = at % (bytes.len() + 1);
            match edit {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match text.parse::<SamplerSpec>() {
            Ok(spec) => check_round_trip(&spec)?,
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn bad_text_in_json_says_what_is_accepted() {
    let error = serde_json::from_str::<SamplerSpec>("\"topk:0\"").unwrap_err().to_string();
    assert!(error.contains("from 1 to 4294967295"), "{error}");
    assert!(serde_json::from_str::<SamplerSpec>("8").is_err());
}
