//! Handles a full disk while the cache itself is below its limit: another program may have filled it.
//!
//! Cold objects are evicted, but the disk has the space back only once the server has closed the evicted files, which takes it a second.
//! Their bytes must not be reused before that, because a viewer may have begun to read them. So as much as needed is evicted, and then
//! every task that needs space waits for it.

use super::Helper;
use crate::contract::Trouble;
use crate::origin::Refused;
use crate::store::trouble;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

/// The server closes evicted files within this time: it checks every second, and may be late.
const FREED_WITHIN: Duration = Duration::from_secs(2);

/// The pause between two tries to write.
const PAUSE: Duration = Duration::from_millis(50);

/// The most evictions for one write. If they do not help, another program takes the freed space.
const EVICTIONS_MAX: u32 = 3;

/// Coordinates the tasks that need space on the disk.
pub(super) struct FullDisk {
    /// The space that all waiting tasks need together.
    needed_bytes: AtomicU64,
    turn: Mutex<Turn>,
    /// [`FREED_WITHIN`], except in tests.
    freed_within: Duration,
}

impl Default for FullDisk {
    fn default() -> Self {
        Self { needed_bytes: AtomicU64::new(0), turn: Mutex::default(), freed_within: FREED_WITHIN }
    }
}

#[derive(Default)]
struct Turn {
    /// Until when the space of evicted files may still become free.
    freed_by: Option<Instant>,
    gave_up: Option<Instant>,
}

/// The refusal that follows from an error of the cache's disk.
pub(super) fn refused(path: &str, error: &io::Error) -> Refused {
    match trouble(error) {
        Trouble::Full => full(path),
        why => (why, format!("{path}: the cache's disk cannot take it: {error}")),
    }
}

/// The refusal for `path` if the cache's disk has no space.
pub(super) fn full(path: &str) -> Refused {
    let said = format!(
        "{path}: the disk of --cache is full, and evicting unused objects did not help; free space on it, or put --cache on a larger disk"
    );
    (Trouble::Full, said)
}

impl Helper {
    /// Has `put` write `bytes`, and makes room for them if the disk is full. `put` may be called several times.
    pub(super) async fn fit<T>(
        &self,
        bytes: u64,
        mut put: impl FnMut() -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match put() {
            Err((Trouble::Full, _)) => {}
            done => return done,
        }
        self.full_disk.needed_bytes.fetch_add(bytes, Relaxed);
        let done = self.fit_after_others(put).await;
        self.full_disk.needed_bytes.fetch_sub(bytes, Relaxed);
        done
    }

    /// One task at a time: the second finds the space that was made for both, or learns that there is none.
    async fn fit_after_others<T>(
        &self,
        mut put: impl FnMut() -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let since = Instant::now();
        let mut turn = self.full_disk.turn.lock().await;
        let mut evictions = 0;
        loop {
            let full = match put() {
                Err(refused) if refused.0 == Trouble::Full => refused,
                done => return done,
            };
            if turn.gave_up.is_some_and(|at| at >= since) {
                return Err(full);
            }
            if turn.freed_by.is_none_or(|by| by <= Instant::now()) {
                if evictions == EVICTIONS_MAX || !block_in_place(|| self.evict_for_disk()) {
                    turn.gave_up = Some(Instant::now());
                    return Err(full);
                }
                evictions += 1;
                turn.freed_by = Some(Instant::now() + self.full_disk.freed_within);
            }
            sleep(PAUSE).await;
        }
    }

    /// Evicts the coldest objects, enough for all waiting tasks. Returns whether there were any.
    fn evict_for_disk(&self) -> bool {
        let now = std::time::Instant::now();
        let space = self.space();
        // Evict more than needed, because each round takes a second.
        let bytes = self.full_disk.needed_bytes.load(Relaxed) + space.bytes() / 64;
        let (gone, _) = space.coldest(bytes, now, |number| self.is_busy(number));
        drop(space);
        let is_any = !gone.is_empty();
        self.evict(gone);
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HelperOptions, OBJECT_BYTES};
    use super::*;
    use crate::contract::BLOCK_BYTES;
    use crate::policy::Terms;
    use std::path::Path;
    use std::sync::Arc;
    use tempfile::tempdir;
    use tokio::runtime::{Builder, Runtime};

    const OBJECTS: usize = 20;

    /// A helper with room for this many bytes of objects.
    fn helper(cache: &Path, bytes_max: u64) -> Helper {
        let (helper, _) = Helper::new(HelperOptions::of_test(cache, bytes_max)).unwrap();
        (0..OBJECTS).for_each(|number| add(&helper, &format!("/{number}"), BLOCK_BYTES));
        helper
    }

    /// A helper that gives the server any time to close evicted files, so that a slow machine causes no second eviction.
    fn patient_helper(cache: &Path) -> Helper {
        let mut helper = helper(cache, 1 << 30);
        helper.full_disk.freed_within = Duration::from_secs(3600);
        helper
    }

    fn add(helper: &Helper, path: &str, bytes: u64) {
        let terms = Terms {
            etag: "\"v1\"".into(),
            content_type: None,
            modified: None,
            is_date_strong: false,
            cache_control: None,
            age: Duration::ZERO,
            fresh: Duration::from_secs(60),
            stale: Duration::from_secs(60),
            fields: crate::http_cache::Fields::default(),
            tags: crate::http_cache::Tags::default(),
        };
        let object = helper.store.create(path, bytes, terms).unwrap();
        let bytes = OBJECT_BYTES + bytes;
        helper.space().begin(object.number, path, bytes, std::time::Instant::now());
        helper.known().add(Arc::new(object));
    }

    fn left(helper: &Helper) -> usize {
        helper.known().by_number.len()
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// A disk that has space at the `count`th try.
    fn full_until(count: u32) -> impl FnMut() -> Result<(), Refused> {
        let mut tries = 0;
        move || {
            tries += 1;
            if tries < count { Err(full("/new")) } else { Ok(()) }
        }
    }

    #[test]
    fn a_full_disk_evicts_what_is_needed_and_waits_until_it_is_free() {
        let cache = tempdir().unwrap();
        let helper = patient_helper(cache.path());
        runtime().block_on(async {
            helper.fit(BLOCK_BYTES, full_until(1)).await.unwrap();
            assert_eq!(left(&helper), OBJECTS, "there was room");
            helper.fit(BLOCK_BYTES, full_until(5)).await.unwrap();
        });
        assert_eq!(left(&helper), OBJECTS - 2, "a block, and a 64th of what there is");
    }

    #[test]
    fn those_who_need_room_at_the_same_moment_evict_once_for_all() {
        let cache = tempdir().unwrap();
        let helper = patient_helper(cache.path());
        runtime().block_on(async {
            let fit = || helper.fit(BLOCK_BYTES, full_until(4));
            let (a, b, c, d) = tokio::join!(fit(), fit(), fit(), fit());
            assert!([a, b, c, d].iter().all(Result::is_ok));
        });
        assert!(left(&helper) >= OBJECTS - 5, "{} are left", left(&helper));
    }

    #[test]
    fn a_disk_that_stays_full_costs_a_bounded_part_of_the_cache_and_says_what_to_do() {
        let cache = tempdir().unwrap();
        let helper = helper(cache.path(), 1 << 30);
        let refused = runtime().block_on(helper.fit(BLOCK_BYTES, full_until(u32::MAX)));
        let (why, said) = refused.unwrap_err();
        assert_eq!(why, Trouble::Full);
        assert!(said.contains("/new") && said.contains("free space on it"), "{said}");
        assert_eq!(left(&helper), OBJECTS - 2 * EVICTIONS_MAX as usize);
    }

    #[test]
    fn what_is_in_use_is_not_evicted_for_the_disk() {
        let cache = tempdir().unwrap();
        let helper = helper(cache.path(), 1 << 30);
        let numbers: Vec<_> = helper.known().by_number.keys().copied().collect();
        let later = std::time::Instant::now() + Duration::from_secs(60);
        numbers.into_iter().for_each(|number| helper.space().use_of(number, later));
        let refused = runtime().block_on(helper.fit(BLOCK_BYTES, full_until(3)));
        assert_eq!(refused.unwrap_err().0, Trouble::Full);
        assert_eq!(left(&helper), OBJECTS);
    }

    #[test]
    fn objects_without_blocks_count_against_the_size_of_the_cache() {
        let cache = tempdir().unwrap();
        let helper = helper(cache.path(), OBJECTS as u64 * (BLOCK_BYTES + OBJECT_BYTES));
        helper.make_room("/new", None, OBJECT_BYTES).unwrap();
        assert!(left(&helper) < OBJECTS);
    }
}
