//! The samplers that have a name: ours, and those that others add.

use super::entry::Entry;
use super::form::{Parts, SamplerForm, is_word};
use super::spec::SamplerSpec;
use crate::{Error, Result, samplers};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// Parses, lists and documents samplers.
///
/// [`Registry::stock`] has all of this crate. A sampler from elsewhere joins a copy of it ([`Registry::with`]); whatever takes a
/// [`SamplerSpec`] then takes that sampler too.
///
/// ```
/// use cofill::Registry;
/// let stock = Registry::stock();
/// assert_eq!(stock.parse("eb:10+ad")?.to_string(), "eb:10+ad:40");
/// assert_eq!(stock.get("klass").map(|entry| entry.form()).as_deref(), Some("klass[:THETA[,KAPPA]]"));
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    entries: Vec<Arc<Entry>>,
}

impl Registry {
    /// The samplers of this crate, in the order `cofill samplers` shows them.
    pub fn stock() -> &'static Registry {
        static STOCK: LazyLock<Registry> =
            LazyLock::new(|| Registry { entries: samplers::entries().into_iter().map(Arc::new).collect() });
        &STOCK
    }

    /// Leaves out a sampler that was added, so that another can take its name; those of this crate stay.
    pub fn without(mut self, name: &str) -> Registry {
        let ours = |entry: &Entry| Registry::stock().get(&entry.name).is_some();
        self.entries.retain(|entry| entry.name != name || ours(entry));
        self
    }

    /// Adds a sampler. Its name must be free, and it must state a [version](Entry::version).
    pub fn with(mut self, entry: Entry) -> Result<Registry> {
        let checked = self.check(&entry).and_then(|()| match entry.version.as_deref() {
            None | Some("") => {
                Err("it has no version; give it one, and change it whenever it would decide differently".into())
            }
            Some(_) => Ok(()),
        });
        match checked {
            Ok(()) => self.entries.push(Arc::new(entry)),
            Err(problem) => return Err(Error::BadEntry { name: entry.name, problem }),
        }
        Ok(self)
    }

    /// Every sampler, in the order they were added.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The sampler of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Reads a sampler. What was left out gets its default; what cannot be built is refused.
    pub fn parse(&self, text: &str) -> Result<SamplerSpec> {
        let parts = Parts::of(text);
        let unknown = || Error::UnknownSampler {
            name: text.into(),
            meant: self.meant(text, &parts),
            accepted: self.forms() + ", optionally `+ad[:ALPHA]` or `+paths[:ALPHA]`",
        };
        let entry = self.get(parts.name).ok_or_else(unknown)?;
        let values = entry.read(&parts.params, &parts.options)?;
        let discount = parts.discount.map(str::parse).transpose()?;
        SamplerSpec::plain(entry.clone(), values).discounted(discount, self)
    }

    /// Writes out what a form left out, if the sampler is known here, and refuses what it cannot be given. A form with an unknown
    /// name stays as it is.
    pub fn normalise(&self, form: &SamplerForm) -> Result<SamplerForm> {
        match self.get(form.name()) {
            Some(_) => Ok(self.parse(&form.to_string())?.form()),
            None => Ok(form.clone()),
        }
    }

    /// What a text with an unknown name should have been, if a name is near: itself with that name where that can be read, else the form.
    fn meant(&self, text: &str, parts: &Parts<'_>) -> Option<String> {
        let name = crate::nearest(parts.name, self.entries.iter().map(|entry| entry.name.as_str()))?;
        let mended = format!("{name}{}", &text[parts.name.len()..]);
        let form = self.get(name).map(|entry| entry.form());
        if self.parse(&mended).is_ok() { Some(mended) } else { form }
    }

    /// How every sampler is written.
    fn forms(&self) -> String {
        super::list(self.entries.iter().map(|entry| format!("`{}`", entry.form())))
    }

    /// The names of those that take `+ad`.
    pub(super) fn discountable(&self) -> String {
        let entries = self.entries.iter().filter(|entry| entry.discountable);
        super::list(entries.map(|entry| format!("`{}`", entry.name)))
    }

    /// What would keep a text of this sampler from being read, or from being told apart from another's.
    fn check(&self, entry: &Entry) -> Result<(), String> {
        const WORD: &str = "small letters, digits, `-` and `_` after a letter";
        if !is_word(&entry.name) {
            return Err(format!("a name is made of {WORD}"));
        }
        if matches!(entry.name.as_str(), "ad" | "paths") {
            return Err(format!("`{0}` is a discount, as in `topk:8+{0}`; choose another name", entry.name));
        }
        if self.get(&entry.name).is_some() {
            return Err("the name is taken; choose another".into());
        }
        if let Some(i) = entry.params.windows(2).position(|two| two[0].default.is_some() && two[1].default.is_none()) {
            let (first, second) = (&entry.params[i].name, &entry.params[i + 1].name);
            return Err(format!(
                "{second} must be given although {first} before it may be left out; give it a default"
            ));
        }
        if let Some(option) = entry.options.iter().find(|option| option.default.is_none()) {
            return Err(format!("the option `@{}=` has no default; give it one", option.name));
        }
        for param in entry.params.iter().chain(&entry.options) {
            let fits = |value| param.check(value, &value.to_string(), &entry.form()).map_err(|error| error.to_string());
            param.default.map_or(Ok(()), fits)?;
        }
        if entry.flags.iter().any(Vec::is_empty) {
            return Err("a group of flags is empty; its first word would be the default".into());
        }
        let mut seen = BTreeSet::new();
        for word in entry.flags.iter().flatten().chain(entry.options.iter().map(|option| &option.name)) {
            if !is_word(word) {
                return Err(format!("an option is made of {WORD}, but `@{word}` is not"));
            }
            if !seen.insert(word) {
                return Err(format!("it has `@{word}` twice"));
            }
        }
        Ok(())
    }
}

impl Default for Registry {
    /// A copy of [`Registry::stock`], to add to.
    fn default() -> Registry {
        Registry::stock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_entries_are_such_as_could_be_added() {
        let mut registry = Registry { entries: Vec::new() };
        for entry in Registry::stock().entries() {
            registry.check(entry).unwrap_or_else(|problem| panic!("{}: {problem}", entry.name));
            assert_eq!(entry.version, None, "{}: ours change with the crate", entry.name);
            registry.entries.push(entry.clone());
        }
        assert!(registry.check(&Registry::stock().entries()[0]).is_err(), "the name is taken now");
    }
}
