//! Responses that are stored whole: those without a strong entity tag, with variants, or with another status than 200.
//!
//! Each path has a bounded number of variants. The bodies are files next to the objects and count against the size of the cache; the heads
//! are in memory, bounded as well. They end with the process.

use crate::http_cache::{Fields, Lifetime, Selecting};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most variants of one path.
const VARIANTS_MAX: usize = 16;

/// The most bytes of heads.
const HEADS_BYTES_MAX: usize = 64 << 20;

/// One stored response.
#[derive(Clone, Debug)]
pub(crate) struct StoredResponse {
    /// The number of its file.
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) lifetime: Lifetime,
    /// When the origin said that.
    pub(crate) at: Instant,
    pub(crate) selecting: Selecting,
    /// The length of its body.
    pub(crate) size: u64,
    /// Whether a request that changed something has made it invalid: it has to be revalidated.
    pub(crate) is_invalid: bool,
}

impl StoredResponse {
    /// Its age now.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.lifetime.age + now.saturating_duration_since(self.at)
    }

    /// How long it is still fresh.
    pub(crate) fn fresh_left(&self, now: Instant) -> Duration {
        if self.is_invalid {
            return Duration::ZERO;
        }
        self.lifetime.fresh.saturating_sub(now.saturating_duration_since(self.at))
    }

    /// For how long it has been stale.
    pub(crate) fn stale_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at).saturating_sub(self.lifetime.fresh)
    }

    fn head_bytes(&self) -> usize {
        self.path.len() + self.fields.bytes() + 256
    }
}

/// All stored responses.
#[derive(Default)]
pub(crate) struct Responses {
    by_path: HashMap<String, Vec<Arc<StoredResponse>>>,
    paths: HashMap<u64, String>,
    bytes: usize,
}

impl Responses {
    /// The latest response at `path` that `request` selects.
    pub(crate) fn find(&self, path: &str, request: &Fields) -> Option<Arc<StoredResponse>> {
        let variants = self.by_path.get(path)?.iter().rev();
        variants.into_iter().find(|one| one.selecting.matches(request)).cloned()
    }

    /// Whether anything is stored at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// The numbers of all variants at `path`.
    pub(crate) fn numbers(&self, path: &str) -> Vec<u64> {
        self.by_path.get(path).into_iter().flatten().map(|one| one.number).collect()
    }

    /// Adds a response in place of those that its request would have selected. Returns the numbers of those that it displaces.
    pub(crate) fn put(&mut self, new: StoredResponse, request: &Fields) -> Vec<u64> {
        let variants = self.by_path.entry(new.path.clone()).or_default();
        let mut gone: Vec<_> =
            variants.extract_if(.., |one| one.selecting.matches(request)).collect();
        if variants.len() >= VARIANTS_MAX {
            gone.push(variants.remove(0));
        }
        self.bytes += new.head_bytes();
        self.paths.insert(new.number, new.path.clone());
        let own = new.number;
        variants.push(Arc::new(new));
        let mut numbers: Vec<u64> = gone.iter().map(|one| one.number).collect();
        for one in gone {
            self.bytes -= one.head_bytes();
            if one.number != own {
                self.paths.remove(&one.number);
            }
        }
        while self.bytes > HEADS_BYTES_MAX {
            // Any other one: the order of the table is random.
            let Some(other) = self.paths.keys().find(|number| **number != own).copied() else {
                break;
            };
            self.remove(other);
            numbers.push(other);
        }
        numbers.retain(|number| *number != own);
        numbers
    }

    /// Removes a response by its number. Returns whether it was there.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Some(path) = self.paths.remove(&number) else { return false };
        let Some(variants) = self.by_path.get_mut(&path) else { return false };
        let mut freed = 0;
        variants.retain(|one| {
            let is_it = one.number == number;
            freed += if is_it { one.head_bytes() } else { 0 };
            !is_it
        });
        self.bytes -= freed;
        if variants.is_empty() {
            self.by_path.remove(&path);
        }
        true
    }

    /// All responses at `path` have to be revalidated. Returns whether there were any.
    pub(crate) fn invalidate(&mut self, path: &str) -> bool {
        let Some(variants) = self.by_path.get_mut(path) else { return false };
        for one in variants {
            *one = Arc::new(StoredResponse { is_invalid: true, ..(**one).clone() });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(number: u64, language: &str) -> (StoredResponse, Fields) {
        let request = Fields::of(&[("Accept-Language", language)]);
        let fields = Fields::of(&[("Vary", "Accept-Language")]);
        let selecting = Selecting::of(&request, &fields);
        let lifetime = crate::http_cache::lifetime(200, &fields, 0);
        let (path, at) = ("/a".to_owned(), Instant::now());
        let new = StoredResponse {
            number,
            path,
            status: 200,
            fields,
            lifetime,
            at,
            selecting,
            size: 1,
            is_invalid: false,
        };
        (new, request)
    }

    #[test]
    fn variants_are_found_replaced_and_bounded() {
        let mut responses = Responses::default();
        let mut put = |number, language: &str| {
            let (new, request) = response(number, language);
            responses.put(new, &request)
        };
        assert!(put(1, "en").is_empty() && put(2, "de").is_empty());
        assert_eq!(put(3, "en"), [1], "a newer one of the same variant");
        for number in 4..18 {
            put(number, &format!("l{number}"));
        }
        assert_eq!(put(18, "fr"), [2], "the oldest goes");
        let found = |language: &str| {
            let request = Fields::of(&[("accept-language", language)]);
            responses.find("/a", &request).map(|one| one.number)
        };
        assert_eq!((found("EN"), found("de"), found("fr")), (Some(3), None, Some(18)));
        let numbers: Vec<u64> = responses.paths.keys().copied().collect();
        assert!(numbers.into_iter().all(|number| responses.remove(number)));
        assert!(!responses.has("/a") && responses.bytes == 0 && !responses.remove(3));
    }
}
