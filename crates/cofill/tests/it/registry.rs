//! Samplers from elsewhere: added to a registry, found by name like ours, and refused when their texts could not be read back.

use crate::support::{EXAMPLES, Phrases, Setup, spec};
use cofill::adas::{AttentionDiscount, Weight};
use cofill::spec::{Entry, Param, Values};
use cofill::{
    Decode, Error, Greedy, Layers, Picks, Policy, Registry, Result, Sampler, SamplerForm, StepView, Verdict, generate,
    ranking::Confidence, rule::TopK,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The leftmost N candidates.
struct Leftmost(usize);

impl Sampler for Leftmost {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        view.slots().take(self.0).for_each(|slot| picks.push(view, slot, 0.0));
        Ok(Verdict::Commit)
    }
}

fn leftmost() -> Entry {
    Entry::new("leftmost", "the leftmost N", |v, _| Ok(Policy::Commits(Box::new(Leftmost(v.count(0))))))
        .params([Param::count("N", 1, 64).default(2.0)])
        .source("this test")
        .version(3)
}

/// Positions in the order in which they are committed.
fn order(registry: &Registry, sampler: &str) -> Vec<Vec<usize>> {
    let policy = registry.parse(sampler).unwrap().build().unwrap();
    let mut decode = Decode::new(Setup::masks(6).canvas, policy).unwrap();
    let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    steps.iter().map(crate::support::positions).collect()
}

#[test]
fn an_added_sampler_is_one_of_the_registry_and_of_no_other() {
    let registry = Registry::default().with(leftmost()).unwrap();
    assert_eq!(order(&registry, "leftmost:4"), [vec![0, 1, 2, 3], vec![4, 5]]);
    assert_eq!(order(&registry, "topk:3"), order(Registry::stock(), "topk:3"));
    let spec = registry.parse("leftmost").unwrap();
    assert_eq!((spec.to_string().as_str(), spec.entry().version.as_deref()), ("leftmost:2", Some("3")));
    assert_eq!(registry.entries().len(), Registry::stock().entries().len() + 1);
    assert_eq!(registry.get("leftmost").unwrap().example(), spec);

    let message = registry.parse("leftmots").unwrap_err().to_string();
    assert!(message.contains("`leftmost[:N]`") && message.contains("`topk:K`"), "{message}");
    let message = "leftmost".parse::<cofill::SamplerSpec>().unwrap_err().to_string();
    assert!(message.starts_with("unknown sampler `leftmost`; expected one of `topk:K`"), "{message}");
    assert!(!message.contains("`leftmost["), "{message}");
}

#[test]
fn an_added_sampler_can_be_left_out_again_and_ours_cannot() {
    let registry = Registry::default().with(leftmost()).unwrap();
    assert!(registry.clone().with(leftmost()).is_err(), "the name is taken");
    let again = registry.without("leftmost").with(leftmost()).unwrap();
    assert_eq!(again.without("leftmost").without("topk").entries().len(), Registry::stock().entries().len());
}

#[test]
fn names_and_builders_are_made_at_run_time() {
    // What a Python package does: a name from a variable, and a builder that holds on to an object.
    let built = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::default();
    for n in 1..=3 {
        let counter = built.clone();
        let build = move |_: &Values, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Policy::Commits(Box::new(Leftmost(n))))
        };
        registry = registry.with(Entry::new(format!("left-{n}"), "", build).version("2026-01")).unwrap();
    }
    let spec = registry.parse("left-3").unwrap();
    drop(registry);
    assert_eq!(built.load(Ordering::Relaxed), 1, "what parses can be built");
    assert!(spec.build().is_ok(), "a sampler outlives its registry");
    assert_eq!(built.load(Ordering::Relaxed), 2);
}

#[test]
fn an_added_ranking_takes_the_discount() {
    let build = |v: &Values, ad| {
        let greedy = Greedy::discounted(Box::new(Confidence), ad, Box::new(TopK { k: v.count(0) }))?;
        Ok(Policy::Commits(Box::new(greedy)))
    };
    let entry = Entry::new("best", "as topk", build).params([Param::count("K", 1, 64)]).discountable().version(1);
    let registry = Registry::default().with(entry).unwrap().with(leftmost()).unwrap();
    assert_eq!(order(&registry, "best:2+ad"), order(&registry, "topk:2+ad"));
    assert_ne!(order(&registry, "best:2+ad"), order(&registry, "best:2"));
    // Who refuses a discount names those of this registry that take one.
    let message = registry.parse("leftmost+ad").unwrap_err().to_string();
    assert!(message.starts_with("`leftmost` has no ranking") && message.contains("`best`"), "{message}");
}

#[test]
fn samplers_of_the_same_name_are_told_apart_by_their_version() {
    let of = |version: u32| Registry::default().with(leftmost().version(version)).unwrap().parse("leftmost").unwrap();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[track_caller]
fn refused(entry: Entry, says: &str) {
    let name = entry.name.clone();
    match Registry::default().with(entry) {
        Err(Error::BadEntry { name: named, problem }) => {
            assert_eq!(named, name);
            assert!(problem.contains(says), "\"{problem}\" does not say \"{says}\"");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_could_not_be_read_back_cannot_be_added() {
    let named = |name: &str| Entry::new(name, "", |_, _| Ok(Policy::Commits(Box::new(Leftmost(1))))).version(1);
    let mine = || named("mine");
    for name in ["", "a+b", "a@b", "a:b", "a,b", "a=b", "a b", "Mine", "3d", "-a", "ä"] {
        refused(named(name), "a name is made of small letters");
    }
    refused(named("ad"), "`ad` is a discount");
    refused(named("topk"), "the name is taken");
    refused(leftmost().version(""), "no version");
    refused(Entry::new("mine", "", |_, _| Ok(Policy::Commits(Box::new(Leftmost(1))))), "no version");
    refused(
        mine().params([Param::number("A", 0.0, 1.0).default(0.5), Param::number("B", 0.0, 1.0)]),
        "B must be given",
    );
    refused(mine().params([Param::count("A", 1, 9).default(0.0)]), "A must be a whole number from 1 to 9, but 0");
    refused(mine().params([Param::count("A", 1, 9).default(1.5)]), "1.5 was given");
    refused(mine().options([Param::number("a", 0.0, 1.0)]), "`@a=` has no default");
    refused(mine().options([Param::number("A", 0.0, 1.0).default(0.0)]), "`@A` is not");
    refused(mine().flags([""; 0]), "a group of flags is empty");
    refused(mine().flags(["one", "two words"]), "`@two words` is not");
    refused(mine().flags(["one", "two"]).flags(["one"]), "`@one` twice");
    refused(mine().flags(["one"]).options([Param::number("one", 0.0, 1.0).default(0.0)]), "`@one` twice");
    assert!(Registry::default().with(mine().flags(["one", "two"])).is_ok());
}

#[test]
fn a_form_needs_no_registry() {
    let form = |text: &str| text.parse::<SamplerForm>().unwrap();
    let peaks = form("peaks:0.50,2@wide@floor=0.1+ad:20@layer=first@weight=mask");
    assert_eq!((peaks.name(), peaks.params(), peaks.params_text().as_str()), ("peaks", &[0.5, 2.0][..], "0.5,2"));
    assert_eq!(peaks.rule(), "peaks@wide@floor=0.1");
    let options: Vec<_> = peaks.options().iter().map(|option| (option.name.as_str(), option.value)).collect();
    assert_eq!(options, [("wide", None), ("floor", Some(0.1))]);
    let ad = AttentionDiscount { alpha: 20.0, layers: Layers::First, weight: Weight::Mean, ..Default::default() };
    assert_eq!(peaks.discount(), Some(ad));
    assert_eq!(peaks.to_string(), "peaks:0.5,2@wide@floor=0.1+ad:20@layer=first@weight=mask");
    assert_eq!(peaks.base().to_string(), "peaks:0.5,2@wide@floor=0.1");
    // The discount belongs to the language, so its defaults are known whatever it is put on.
    assert_eq!(form("peaks+ad"), form("peaks+ad:40@layer=last@weight=self"));
    assert_eq!(form("peaks+ad").discount(), Some(AttentionDiscount::default()));
    assert_eq!((form("peaks").params_text().as_str(), form("peaks").discount()), ("", None));
}

#[test]
fn a_form_is_well_formed() {
    let refused =
        ["", ":8", "@a", "+ad", "Peaks", "p q", "p:", "p:x", "p:1,", "p:1e999", "p:nan", "p@", "p@A", "p@a=x"];
    for text in refused {
        let error = text.parse::<SamplerForm>().unwrap_err();
        assert!(matches!(&error, Error::BadForm { text: given, .. } if given == text), "`{text}`: {error}");
    }
    assert!(matches!("p+x".parse::<SamplerForm>(), Err(Error::UnknownSuffix { .. })));
    assert!(matches!("p+ad:-1".parse::<SamplerForm>(), Err(Error::OutOfRange { .. })));
    assert!(matches!("p+ad@layer=top".parse::<SamplerForm>(), Err(Error::Option { .. })));
}

#[test]
fn a_discount_is_a_text_of_its_own() {
    let read = |text: &str| text.parse::<AttentionDiscount>();
    assert_eq!(read("ad").unwrap(), AttentionDiscount::default());
    assert_eq!(read("ad:4e1@weight=mask").unwrap().to_string(), "ad:40@weight=mask");
    assert!(matches!(read("+ad"), Err(Error::UnknownSuffix { .. })));
    assert!(matches!(read(""), Err(Error::UnknownSuffix { .. })));
}

#[test]
fn every_example_has_the_form_of_its_text() {
    for text in EXAMPLES {
        let spec = spec(text);
        let form: SamplerForm = spec.to_string().parse().unwrap();
        assert_eq!((&form, &SamplerForm::from(&spec)), (&spec.form(), &spec.form()), "{text}");
        assert_eq!(form.name(), spec.entry().name);
        assert_eq!(form.discount(), spec.discount());
    }
}

#[test]
fn known_names_are_normalised_and_others_are_left_alone() {
    let normal = |text: &str| Registry::stock().normalise(&text.parse().unwrap()).map(|form| form.to_string());
    assert_eq!(normal("klass@history=2").unwrap(), "klass:0.7,1");
    assert_eq!(normal("peaks@history=2").unwrap(), "peaks@history=2");
    assert!(matches!(normal("topk:0"), Err(Error::OutOfRange { .. })), "a known name is held to its range");
    let registry = Registry::default().with(leftmost()).unwrap();
    assert_eq!(registry.normalise(&"leftmost".parse().unwrap()).unwrap().to_string(), "leftmost:2");
}
