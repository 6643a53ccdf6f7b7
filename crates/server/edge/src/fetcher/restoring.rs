//! Stored responses and restarts: their heads are written when they are stored or confirmed, and found again by the next helper.
//!
//! Nothing waits for all of them. The first request for a path reads the heads of that path, and a task in the background reads the others. Until it
//! is done, a purge by prefix or tag waits for it.

use super::Helper;
use crate::contract::{EdgeTold, Trouble};
use crate::store::{Damage, StoredResponse, hash_of};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::block_in_place;

/// How often a head is written again because the response has changed meanwhile. Each change is followed by a save of its own.
const SAVES_MAX: u32 = 3;

impl Helper {
    /// Finds the responses at `path` that an earlier helper has stored, if that has not been done yet.
    pub(super) fn restore(&self, path: &str) {
        if let Some(key) = self.store.heads().unread_at(path) {
            block_in_place(|| self.restore_by_key(key));
        }
    }

    /// Finds all responses that an earlier helper has stored.
    pub(super) fn restore_all(&self) {
        let heads = self.store.heads();
        heads.unread_keys().into_iter().for_each(|key| self.restore_by_key(key));
        heads.note_all_read();
        // They have not counted until now. If viewers use all of them, the next object finds out.
        let _ = self.make_room("/", None, 0);
    }

    fn restore_by_key(&self, key: u64) {
        let heads = self.store.heads();
        let Some(numbers) = heads.unread(key) else { return };
        let read: Vec<_> =
            numbers.iter().map(|number| (*number, heads.read(*number, key))).collect();
        let mut found = Vec::new();
        let mut responses = self.responses();
        // Two may have read them at once.
        if !heads.take(key) {
            return;
        }
        let mut dropped = Vec::new();
        for (number, read) in read {
            match read {
                Ok(response) if self.is_outlived(&response) => dropped.push(number),
                Ok(response) => found.push(response),
                Err(why) => {
                    self.tell(EdgeTold::Dropped { why });
                    dropped.push(number);
                }
            }
        }
        // In this order, because later ones displace earlier ones.
        found.sort_by_key(|response| response.asked_at);
        for response in found {
            let bytes = response.size + super::OBJECT_BYTES;
            self.space().begin(response.number, &response.path, bytes, Instant::now());
            dropped.extend(responses.restore(response));
        }
        drop(responses);
        dropped.into_iter().for_each(|number| self.forget_response(number));
    }

    /// Whether a response that an earlier helper has stored is of no use any more.
    fn is_outlived(&self, response: &StoredResponse) -> bool {
        let rule = self.origins.rule(&response.path);
        // A film has taken its place, and the helper died before it was removed. By a rule, a film may be left over from before, and viewers don't
        // get it.
        let has_film = rule.may_be_for_all() && self.known().by_path.has(&response.path);
        // It was stored before a rule named a header, so it would answer requests with any value of that.
        has_film || !rule.tells_apart(&response.selecting)
    }

    /// Lets a restart find a stored response as it is now, if that is worth writing. A head that may allow more is gone after this.
    pub(super) fn save_response(&self, number: u64) {
        for _ in 0..SAVES_MAX {
            let Some(response) = self.responses().current(number) else { return };
            let is_done = match response.is_worth_saving() {
                true => block_in_place(|| self.save(&response)),
                false if response.on_disk.is_saved() => true,
                false => break,
            };
            if is_done {
                return;
            }
        }
        self.forget_heads(&[number]);
    }

    /// Writes the head of a response in this state. Returns whether that is done: if not, the response has changed meanwhile, or is gone.
    fn save(&self, response: &Arc<StoredResponse>) -> bool {
        let heads = self.store.heads();
        let written = heads.write(response);
        // A purge or a change that comes later waits for this before it removes the head, and before it is reported.
        let naming = heads.naming(response.number);
        let is_current = self.responses().is_current(response);
        if !is_current {
            return false;
        }
        match written.and_then(|head| head.keep(&naming)) {
            Ok(saved) => self.responses().note_saved(response, saved),
            Err(_) => {
                // The disk may be full. The former head may allow more than this one.
                naming.remove();
                self.responses().forget_saved(response.number);
                true
            }
        }
    }

    /// Opens the body of a stored response. One that an earlier helper has stored has to be what was stored.
    ///
    /// # Errors
    /// If it is gone, or is not.
    pub(super) fn open_body(&self, stored: &StoredResponse) -> io::Result<File> {
        let file = self.store.open_response(stored.number)?;
        if let Some(hash) = stored.on_disk.unverified() {
            let found = block_in_place(|| hash_of(&file, stored.size));
            if found.is_ok_and(|found| found == *hash) {
                self.responses().note_verified(stored.number);
            } else {
                self.tell(EdgeTold::Dropped { why: Damage::Body });
                return Err(io::Error::other(Trouble::Disk.as_str()));
            }
        }
        Ok(file)
    }

    /// Stored responses at `path` have to be confirmed before they are used again, also after a restart.
    pub(super) fn outdate(&self, path: &str) {
        let outdated = self.responses().outdate(path);
        self.forget_heads(&outdated);
    }

    /// A restart does not find these responses, unless they have been saved since their heads stopped counting. Don't call this while the list of
    /// responses is locked.
    pub(super) fn forget_heads(&self, numbers: &[u64]) {
        block_in_place(|| {
            for number in numbers {
                let naming = self.store.heads().naming(*number);
                let current = self.responses().current(*number);
                if !current.is_some_and(|current| current.on_disk.is_saved()) {
                    naming.remove();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetcher::HelperOptions;
    use crate::fetcher::origin_answer::stored;
    use crate::fetcher::passing::Now;
    use crate::http_cache::{Fields, LifetimeRule};
    use crate::policy::terms;
    use reqwest::header::{ETAG, HeaderMap, HeaderValue};
    use std::path::Path;

    const VARYING: &str = r#"[{ "path": "/a", "headers_vary": ["X-Device"] }]"#;

    const TV: u64 = 1 << 63 | 1;
    const PHONE: u64 = 1 << 63 | 2;

    fn helper(cache: &Path, rules: &str) -> Helper {
        let rules = serde_json::from_str(rules).unwrap();
        Helper::new(HelperOptions { rules, ..HelperOptions::of_test(cache, 1 << 30) }).unwrap().0
    }

    /// Stores a response to a request from this kind of device.
    fn keep(helper: &Helper, number: u64, device: &str, vary: Option<&str>) {
        let request = Fields::of(&[("X-Device", device)]);
        let mut fields = Fields::of(&[("ETag", "W/\"v1\""), ("Cache-Control", "max-age=3600")]);
        vary.iter().for_each(|name| fields.push("Vary", *name));
        let now = (Now::read(), LifetimeRule::default());
        let response = stored(("/a", number), (200, &fields), &request, now);
        let asked = helper.responses().epoch("/a");
        helper.keep(response, (&request, asked), || {});
    }

    /// The numbers of the responses that the next helper has.
    fn found(cache: &Path, rules: &str) -> Vec<u64> {
        let helper = helper(cache, rules);
        helper.restore("/a");
        let mut numbers = helper.responses().numbers("/a");
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn what_was_stored_before_a_rule_named_a_header_answers_no_request_after_it() {
        for vary in [None, Some("Accept-Language")] {
            let cache = tempfile::tempdir().unwrap();
            keep(&helper(cache.path(), "[]"), TV, "tv", vary);
            assert_eq!(found(cache.path(), "[]"), [TV], "{vary:?}");
            assert_eq!(found(cache.path(), VARYING), [0; 0], "{vary:?}");
            assert_eq!(found(cache.path(), "[]"), [0; 0], "its file is gone");
        }
        let cache = tempfile::tempdir().unwrap();
        keep(&helper(cache.path(), "[]"), TV, "tv", Some("X-Device"));
        assert_eq!(found(cache.path(), VARYING), [TV], "the origin has named it itself");
    }

    #[test]
    fn a_film_from_before_a_rule_takes_no_place_of_its_variants() {
        let cache = tempfile::tempdir().unwrap();
        let first = helper(cache.path(), "[]");
        let header = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"v1\""))]);
        let terms = terms("/a", &header, LifetimeRule::default()).unwrap();
        first.store.create("/a", 1, terms).unwrap();
        drop(first);
        let varying = helper(cache.path(), VARYING);
        assert!(varying.known().by_path.has("/a"), "the film is found");
        keep(&varying, TV, "tv", Some("X-Device"));
        keep(&varying, PHONE, "phone", Some("X-Device"));
        drop(varying);
        for _ in 0..2 {
            assert_eq!(found(cache.path(), VARYING), [TV, PHONE]);
        }
        assert_eq!(found(cache.path(), "[]"), [0; 0], "without the rule, it counts");
    }
}
