//! Responses that are stored whole: those without a strong entity tag, with variants, or with another status than 200.
//!
//! Each path has a bounded number of variants. The bodies are files next to the objects and count against the size of the cache; the heads
//! are in memory, bounded as well, and in files of their own for a restart ([`super::Heads`]).

use super::by_path::ByPath;
use super::epochs::{Epoch, Epochs, Outdated};
use super::heads::{Hash, SavedHead};
use super::{OnDisk, TagIndex};
use crate::http_cache::{Fields, Freshness, RequestDirectives, Selecting, Tags};
use crate::purge::{Purge, PurgeScope};
use std::collections::{BTreeSet, HashMap};
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
    /// The number of the origin that has sent it, unless that was before a restart.
    pub(crate) origin: Option<usize>,
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) lifetime: Freshness,
    /// When the origin said that.
    pub(crate) at: Instant,
    /// When the origin was asked.
    pub(crate) asked_at: Instant,
    pub(crate) selecting: Selecting,
    /// The length of its body.
    pub(crate) size: u64,
    /// Whether a request that changed something has made it invalid: it has to be revalidated.
    pub(crate) is_invalid: bool,
    /// What a restart finds of it.
    pub(crate) on_disk: OnDisk,
}

impl StoredResponse {
    /// The same, sent by the origin with this number.
    pub(crate) fn by(self, origin: usize) -> Self {
        Self { origin: Some(origin), ..self }
    }

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

    /// Whether it may answer a request with these directives at `now`, without the origin or before it is asked.
    pub(crate) fn use_for(&self, said: &RequestDirectives, now: Instant) -> Use {
        let (fresh, stale) = (self.fresh_left(now), self.stale_for(now));
        let is_young = said.max_age.is_none_or(|max| self.age(now) <= max);
        if said.no_cache || !is_young || self.is_invalid {
            return Use::AfterRevalidation;
        }
        if fresh > Duration::ZERO && said.min_fresh.is_none_or(|least| fresh >= least) {
            return Use::Now;
        }
        if self.lifetime.may_be_stale && said.max_stale.is_some_and(|max| stale <= max) {
            return Use::Now;
        }
        match said.min_fresh.is_none() && stale < self.lifetime.while_revalidating {
            true => Use::WhileRevalidating,
            false => Use::AfterRevalidation,
        }
    }

    /// Whether it is as good as the answer to a request with these directives that was made at `since`, although it may not be fresh: the origin sent
    /// it after that.
    pub(crate) fn came_after(
        &self,
        since: Instant,
        said: &RequestDirectives,
        now: Instant,
    ) -> bool {
        let is_young = said.max_age.is_none_or(|max| self.age(now) <= max);
        let is_enough = is_young && !said.no_cache && said.min_fresh.is_none();
        self.at >= since && is_enough && !self.is_invalid
    }

    /// Whether `other` is the newer one of two that the origin was asked for at the same time: by its dates, or else by the order of the requests. A
    /// playlist must not go back.
    fn is_displaced_by(&self, other: &Self) -> bool {
        let later = |name: &str| {
            let dates = self.fields.date(name).zip(other.fields.date(name));
            dates.filter(|(own, others)| own != others).map(|(own, others)| own < others)
        };
        let by_dates = later("date").or_else(|| later("last-modified"));
        self.asked_at <= other.asked_at || by_dates == Some(true)
    }

    /// Bytes of memory, roughly. Its path is in two tables, too.
    fn head_bytes(&self) -> usize {
        3 * self.path.len() + self.fields.bytes() + self.selecting.bytes() + 256
    }
}

/// When a stored response may answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// At once.
    Now,
    /// At once, while it is being revalidated (RFC 5861 section 3).
    WhileRevalidating,
    /// Once the origin has confirmed it.
    AfterRevalidation,
}

/// All stored responses.
#[derive(Default)]
pub(crate) struct Responses {
    by_path: ByPath<Vec<Arc<StoredResponse>>>,
    paths: HashMap<u64, String>,
    tags: TagIndex,
    bytes: usize,
    epochs: Epochs,
}

impl Responses {
    /// The latest response at `path` that `request` selects.
    pub(crate) fn find(&self, path: &str, request: &Fields) -> Option<Arc<StoredResponse>> {
        let variants = self.by_path.get(path)?.iter().rev();
        variants.into_iter().find(|one| one.selecting.matches(request)).cloned()
    }

    /// Whether anything is stored at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.by_path.has(path)
    }

    /// All variants at `path`.
    pub(crate) fn at(&self, path: &str) -> Vec<Arc<StoredResponse>> {
        self.by_path.get(path).cloned().unwrap_or_default()
    }

    /// At most `count` paths under a prefix, in order, after one of them.
    pub(crate) fn page(&self, prefix: &str, after: Option<&str>, count: usize) -> Vec<String> {
        self.by_path.page(prefix, after, count)
    }

    /// The numbers of all variants at `path`.
    pub(crate) fn numbers(&self, path: &str) -> Vec<u64> {
        self.by_path.get(path).into_iter().flatten().map(|one| one.number).collect()
    }

    /// The paths with stored responses that are spellings of `path`.
    pub(crate) fn spellings(&self, path: &str) -> Vec<&str> {
        self.by_path.spellings(path)
    }

    /// The current epoch of `path`. Note it before the origin is asked.
    pub(crate) fn epoch(&self, path: &str) -> Epoch {
        self.epochs.of(path)
    }

    /// Whether a response with these tags, which was requested in the epoch `asked`, is outdated by now.
    pub(crate) fn outdated(&self, path: &str, tags: &Tags, asked: Epoch) -> Option<Outdated> {
        self.epochs.outdated(path, tags, asked)
    }

    /// What a purge covers is not stored if it was requested before. Returns the numbers of what is stored of it.
    pub(crate) fn begin_purge(&mut self, purge: &Purge) -> Vec<u64> {
        self.epochs.note_purge(purge);
        self.covered(&purge.scope)
    }

    /// The current state of a response, if it is still stored.
    pub(crate) fn current(&self, number: u64) -> Option<Arc<StoredResponse>> {
        let variants = self.by_path.get(self.paths.get(&number)?)?;
        variants.iter().find(|one| one.number == number).cloned()
    }

    /// Adds a response to `request`, which was sent in the epoch `asked`, in place of those that the request would have selected. Returns the
    /// numbers of those whose files must be removed: the displaced ones, or its own if that epoch has ended, or if a newer response has overtaken
    /// it.
    pub(crate) fn put(&mut self, new: StoredResponse, request: &Fields, asked: Epoch) -> Vec<u64> {
        let new = StoredResponse { asked_at: asked.asked_at, ..new };
        let stored = self.find(&new.path, request);
        let is_overtaken = stored.is_some_and(|stored| !stored.is_displaced_by(&new));
        match self.outdated(&new.path, &Tags::of(&new.fields), asked) {
            None if !is_overtaken => self.insert(new, request),
            _ => vec![new.number],
        }
    }

    /// Replaces a response by what the origin's confirmation has made of it. The origin was asked in the epoch `asked`. Changes nothing if
    /// that has ended, or if the response is no longer stored. Returns the numbers of those whose files must be removed.
    pub(crate) fn renew(
        &mut self,
        new: StoredResponse,
        request: &Fields,
        asked: Epoch,
    ) -> Vec<u64> {
        match (self.current(new.number), self.outdated(&new.path, &Tags::of(&new.fields), asked)) {
            (Some(current), None) => {
                // A head may have been written, or removed, since the origin was asked.
                let on_disk = current.on_disk.clone();
                self.insert(StoredResponse { on_disk, ..new }, request)
            }
            _ => Vec::new(),
        }
    }

    /// Adds a response that an earlier helper has stored, unless a newer one is there. Returns the numbers of those whose files the caller must
    /// remove.
    pub(crate) fn restore(&mut self, found: StoredResponse) -> Vec<u64> {
        let request = found.selecting.as_request();
        let stored =
            self.find(&found.path, &request).filter(|one| one.selecting == found.selecting);
        match stored.is_some_and(|stored| !stored.is_displaced_by(&found)) {
            true => vec![found.number],
            false => self.insert(found, &request),
        }
    }

    fn insert(&mut self, new: StoredResponse, request: &Fields) -> Vec<u64> {
        let variants = self.by_path.or_default(&new.path);
        let (mut gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(variants).into_iter().partition(|one| one.selecting.matches(request));
        *variants = kept;
        if variants.len() >= VARIANTS_MAX {
            gone.push(variants.remove(0));
        }
        // First, because one of them may have the same number.
        gone.iter().for_each(|one| self.tags.remove(one.number, &Tags::of(&one.fields)));
        self.tags.add(new.number, &Tags::of(&new.fields));
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
            if is_it {
                freed += one.head_bytes();
                self.tags.remove(number, &Tags::of(&one.fields));
            }
            !is_it
        });
        self.bytes -= freed;
        if variants.is_empty() {
            self.by_path.remove(&path);
        }
        true
    }

    /// All responses at `path` have to be revalidated, and those that were requested before are not stored. Returns the numbers of those whose
    /// heads the caller must remove, so that this outlasts a restart.
    #[must_use]
    pub(crate) fn invalidate(&mut self, path: &str) -> Vec<u64> {
        self.epochs.end(path);
        self.outdate(path)
    }

    /// All responses at `path` have to be revalidated. Returns the numbers of those whose heads the caller must remove.
    #[must_use]
    pub(crate) fn outdate(&mut self, path: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        for one in self.by_path.get_mut(path).into_iter().flatten() {
            let mut invalid = StoredResponse { is_invalid: true, ..(**one).clone() };
            invalid.on_disk.forget_saved();
            *one = Arc::new(invalid);
            numbers.push(one.number);
        }
        numbers
    }

    /// Whether this is the current state of a response.
    pub(crate) fn is_current(&self, response: &Arc<StoredResponse>) -> bool {
        self.current(response.number).is_some_and(|current| Arc::ptr_eq(&current, response))
    }

    /// The head of a response in this state is on the disk. Returns whether the response is still in this state. If it has changed meanwhile, the
    /// head may allow more than it does now.
    pub(crate) fn note_saved(
        &mut self,
        response: &Arc<StoredResponse>,
        (saved, hash): (SavedHead, Option<Hash>),
    ) -> bool {
        let is_current = self.is_current(response);
        self.change(response.number, |one| match is_current {
            true => one.on_disk.note_saved(saved, hash),
            false => one.on_disk.forget_saved(),
        });
        is_current
    }

    /// The head of a response is gone from the disk.
    pub(crate) fn forget_saved(&mut self, number: u64) {
        self.change(number, |one| one.on_disk.forget_saved());
    }

    /// The body of a response is the one that was stored.
    pub(crate) fn note_verified(&mut self, number: u64) {
        // Several viewers may have found this out at once. Each change makes a save begin again.
        if self.current(number).is_some_and(|one| one.on_disk.unverified().is_some()) {
            self.change(number, |one| one.on_disk.note_verified());
        }
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut StoredResponse)) {
        let variants = self.paths.get(&number).and_then(|path| self.by_path.get_mut(path));
        let found = variants.into_iter().flatten().find(|one| one.number == number);
        if let Some(one) = found {
            let mut changed = (**one).clone();
            change(&mut changed);
            *one = Arc::new(changed);
        }
    }

    /// The numbers of the responses that a purge covers.
    fn covered(&self, scope: &PurgeScope) -> Vec<u64> {
        match scope {
            PurgeScope::Url(_) | PurgeScope::Prefix(_) => {
                let covered = self.by_path.covered(scope).into_iter().flatten();
                covered.map(|one| one.number).collect()
            }
            PurgeScope::Tags(tags) => {
                let found: BTreeSet<u64> =
                    tags.iter().flat_map(|tag| self.tags.find(tag)).collect();
                found.into_iter().collect()
            }
        }
    }

    /// The response is stale from now on, if it was fresh: it has to be revalidated, unless the origin allows it to be used meanwhile. Save it then,
    /// because its head on disk may be fresh: also if the response is invalid, since a wall clock that was behind may be right at the next start.
    pub(crate) fn make_stale(&mut self, number: u64, now: Instant) {
        self.change(number, |one| {
            let is_fresh = one.fresh_left(now) > Duration::ZERO;
            if is_fresh {
                one.lifetime.fresh = now.saturating_duration_since(one.at);
            }
            if is_fresh || one.is_invalid {
                one.on_disk.forget_saved();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(number: u64, language: &str) -> (StoredResponse, Fields) {
        let request = Fields::of(&[("Accept-Language", language)]);
        let fields = Fields::of(&[("Vary", "Accept-Language")]);
        let selecting = Selecting::of(&request, &fields);
        let lifetime = crate::http_cache::lifetime("/a", 200, &fields, 0, Default::default());
        let (path, at) = ("/a".to_owned(), Instant::now());
        let new = StoredResponse {
            number,
            path,
            origin: None,
            status: 200,
            fields,
            lifetime,
            at,
            asked_at: at,
            selecting,
            size: 1,
            is_invalid: false,
            on_disk: OnDisk::default(),
        };
        (new, request)
    }

    #[test]
    fn variants_are_found_replaced_and_bounded() {
        let mut responses = Responses::default();
        let mut put = |number, language: &str| {
            let (new, request) = response(number, language);
            let asked = responses.epoch("/a");
            responses.put(new, &request, asked)
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

    #[test]
    fn a_response_that_came_after_a_request_answers_it_even_if_it_has_no_lifetime() {
        let said = |value: &str| RequestDirectives::of(&Fields::of(&[("cache-control", value)]));
        let (new, _) = response(1, "en");
        let (came, before) = (new.at, new.at.checked_sub(Duration::from_millis(1)).unwrap());
        let later = came + Duration::from_secs(5);
        assert_eq!(new.use_for(&said(""), later), Use::AfterRevalidation);
        assert!(new.came_after(before, &said(""), later) && new.came_after(came, &said(""), later));
        assert!(!new.came_after(came + Duration::from_millis(1), &said(""), later));
        for strict in ["no-cache", "max-age=0", "min-fresh=1"] {
            assert!(!new.came_after(before, &said(strict), later), "{strict}");
        }
        let invalid = StoredResponse { is_invalid: true, ..new };
        assert!(!invalid.came_after(before, &said(""), later));
    }

    #[test]
    fn of_two_responses_that_were_asked_for_at_once_the_newer_one_stays() {
        const BEFORE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
        type Dates = &'static [(&'static str, &'static str)];
        let table: &[(Dates, Dates, bool)] = &[
            // What arrives last was asked for first.
            (&[], &[], true),
            (&[("Date", BEFORE)], &[("Date", BEFORE)], true),
            (&[("Date", AFTER)], &[("Date", BEFORE)], true),
            (&[("Date", BEFORE)], &[("Date", AFTER)], false),
            (&[("Last-Modified", BEFORE)], &[("Last-Modified", AFTER)], false),
            (&[("Date", AFTER), ("Last-Modified", BEFORE)], &[("Date", BEFORE)], true),
        ];
        for (first, second, is_overtaken) in table {
            let mut responses = Responses::default();
            let [early, late] = [0, 1].map(|_| responses.epoch("/a"));
            let with = |number, fields: &[(&str, &str)]| {
                let (new, request) = response(number, "en");
                let mut fields = Fields::of(fields);
                fields.push("Vary", "Accept-Language");
                (StoredResponse { fields, ..new }, request)
            };
            let (one, request) = with(1, first);
            assert!(responses.put(one, &request, late).is_empty());
            let (two, _) = with(2, second);
            let gone = responses.put(two, &request, early);
            assert_eq!(gone, [if *is_overtaken { 2 } else { 1 }], "{first:?} {second:?}");
            let (three, _) = with(3, &[("Date", BEFORE)]);
            let asked = responses.epoch("/a");
            assert_eq!(responses.put(three, &request, asked).len(), 1, "a clock may go back");
            assert_eq!(responses.find("/a", &request).map(|one| one.number), Some(3));
        }
    }

    #[test]
    fn heads_are_bounded_with_what_selects_them() {
        const LONG: usize = 16 << 10;
        let mut responses = Responses::default();
        let language = "x".repeat(LONG);
        for number in 0..2 * (HEADS_BYTES_MAX / LONG) as u64 {
            let (mut new, request) = response(number, &language);
            new.path = format!("/{number}");
            let asked = responses.epoch(&new.path);
            responses.put(new, &request, asked);
        }
        assert!(responses.paths.len() * LONG <= HEADS_BYTES_MAX, "{}", responses.paths.len());
        assert!(responses.paths.len() * LONG > HEADS_BYTES_MAX / 2, "{}", responses.paths.len());
    }

    #[test]
    fn a_response_that_was_requested_before_an_invalidation_is_not_stored_after_it() {
        let mut responses = Responses::default();
        let before = responses.epoch("/a");
        let (new, request) = response(1, "en");
        assert!(responses.put(new.clone(), &request, before).is_empty());
        assert_eq!(responses.invalidate("/a"), [1]);
        assert!(responses.current(1).unwrap().is_invalid);
        let (late, _) = response(2, "en");
        assert_eq!(responses.put(late.clone(), &request, before), [2], "its file goes");
        assert!(responses.renew(new.clone(), &request, before).is_empty());
        assert!(responses.current(1).unwrap().is_invalid, "a late confirmation changes nothing");
        assert!(responses.renew(new.clone(), &request, responses.epoch("/a")).is_empty());
        assert!(!responses.current(1).unwrap().is_invalid);
        assert_eq!(responses.put(late, &request, responses.epoch("/a")), [1]);
        assert!(responses.renew(new, &request, responses.epoch("/a")).is_empty());
        assert!(responses.current(1).is_none(), "its file is gone");
        assert_eq!(responses.outdate("/a"), [2]);
        assert!(responses.current(2).unwrap().is_invalid);
    }

    #[test]
    fn a_purge_covers_a_path_a_prefix_or_tags_with_all_variants() {
        let mut responses = Responses::default();
        for (number, path, tags) in
            [(1, "/a", "x"), (2, "/a", "x y"), (3, "/a?q", "y"), (4, "/ab", ""), (5, "/b", "z")]
        {
            let (mut new, request) = response(number, &format!("l{number}"));
            new.path = path.to_owned();
            new.fields.push("Surrogate-Key", tags);
            let asked = responses.epoch(path);
            responses.put(new, &request, asked);
        }
        let tags =
            |names: &[&str]| PurgeScope::Tags(names.iter().map(|one| (*one).into()).collect());
        assert_eq!(responses.covered(&PurgeScope::Url("/a".into())), [1, 2]);
        assert_eq!(responses.covered(&PurgeScope::Prefix("/a".into())), [1, 2, 3, 4]);
        assert_eq!(responses.covered(&PurgeScope::Prefix("/".into())).len(), 5);
        assert_eq!(responses.covered(&tags(&["x", "y", "w"])), [1, 2, 3]);
        responses.remove(2);
        let (new, request) = response(1, "l1");
        let asked = responses.epoch("/a");
        responses.put(new, &request, asked);
        assert_eq!(responses.covered(&tags(&["x", "z"])), [5], "a renewed head has other tags");
    }

    #[test]
    fn what_is_made_stale_is_as_old_as_before_and_stale_only_from_then_on() {
        let mut responses = Responses::default();
        let (mut new, request) = response(1, "en");
        new.lifetime.fresh = Duration::from_secs(60);
        let at = new.at;
        let asked = responses.epoch("/a");
        responses.put(new, &request, asked);
        let now = at + Duration::from_secs(20);
        responses.make_stale(1, now);
        let found = |responses: &Responses| responses.find("/a", &request).unwrap();
        let stale = found(&responses);
        assert_eq!(stale.fresh_left(now), Duration::ZERO);
        assert_eq!(stale.stale_for(now + Duration::from_secs(5)), Duration::from_secs(5));
        assert!(stale.age(now) == Duration::from_secs(20) && !stale.is_invalid);
        responses.make_stale(1, now + Duration::from_secs(9));
        assert_eq!(found(&responses).stale_for(now), Duration::ZERO, "it has been since then");
    }
}
