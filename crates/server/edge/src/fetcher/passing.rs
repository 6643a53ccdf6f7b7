//! Objects that must not be kept are fetched again for each viewer, and passed through: whole, in a file without a name, which disappears
//! with its last reader.
//!
//! Like every other request, this one carries only the path of the viewer's. So the answer is the one that the origin gives to an unknown
//! client, and none of its cookies are forwarded. It is fetched whole before the viewer gets its first byte, because nothing identifies its
//! version: ranges of two versions could mix.

use super::slots::RequestPurpose;
use super::{Helper, OBJECT_BYTES, full_disk, refused_for, shortened};
use crate::contract::{BLOCK_BYTES, Described, EdgeTold, Trouble};
use crate::origin::{Refused, broken};
use crate::policy::{is_coded, passed_on};
use std::collections::HashMap;
use std::fs::File;
use std::io::Error;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout_at};

/// The largest object to pass through: playlists, subtitles, pictures, not films.
const BYTES_MAX: u64 = 16 << 20;

/// The most at the same time: a quarter of the requests to the origin.
pub(super) const AT_ONCE_MAX: usize = 16;

/// The most paths remembered as not passable. Beyond that, each viewer makes the origin send another object in vain.
const UNPASSABLE_MAX: usize = 1000;

/// Longer paths are not remembered: viewers can invent them.
const UNPASSABLE_PATH_BYTES_MAX: usize = 1 << 10;

/// Paths of objects that cannot be passed through either, with the expiry of the entry, and the reason.
#[derive(Default)]
pub(super) struct Unpassable(Mutex<HashMap<String, (Instant, String)>>);

impl Unpassable {
    fn why(&self, path: &str) -> Option<String> {
        let known = self.known();
        let (until, said) = known.get(path)?;
        (Instant::now() < *until).then(|| said.clone())
    }

    fn note(&self, path: &str, said: &str) {
        let (mut known, now) = (self.known(), Instant::now());
        known.retain(|_, (until, _)| now < *until);
        if known.len() < UNPASSABLE_MAX && path.len() <= UNPASSABLE_PATH_BYTES_MAX {
            let until = now + refused_for(Trouble::Uncacheable);
            known.insert(path.to_owned(), (until, said.to_owned()));
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Instant, String)>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Helper {
    /// Fetches the object at `path` for one viewer.
    pub(super) async fn pass(self: Arc<Self>, path: String, ticket: u64) {
        // A viewer that has waited for longer may be gone; those behind it in the queue are not.
        let deadline = Instant::now() + 3 * self.silent_max;
        let Ok(turn) = timeout_at(deadline, self.passing.acquire()).await else {
            let said =
                shortened(&format!("{path}: too many objects are being passed through at once"));
            return self.tell(EdgeTold::NotPassed { ticket, why: Trouble::Full, said });
        };
        let passed = self.passed(&path).await;
        drop(turn);
        match passed {
            Ok((described, file)) => {
                let told = EdgeTold::Passed { ticket, described };
                self.tell_with(told, Some(OwnedFd::from(file)));
            }
            Err((why, said)) => {
                self.tell(EdgeTold::NotPassed { ticket, why, said: shortened(&said) });
            }
        }
    }

    async fn passed(&self, path: &str) -> Result<(Described, File), Refused> {
        if let Some(said) = self.unpassable.why(path) {
            return Err((Trouble::Uncacheable, said));
        }
        let passed = self.try_again(RequestPurpose::New, || self.fetch_for_one(path)).await;
        if let Err((Trouble::Uncacheable, said)) = &passed {
            self.unpassable.note(path, said);
        }
        passed
    }

    async fn fetch_for_one(&self, path: &str) -> Result<(Described, File), Refused> {
        let mut answer = self.origin.whole(path).await?;
        let refused = |what: &str| {
            Err((Trouble::Uncacheable, format!("{path} must not be kept, and {what}")))
        };
        let too_large = "it is larger than what is passed through (16 MiB)";
        if is_coded(answer.headers()) {
            return refused("it is compressed, although that was not asked for");
        }
        if answer.content_length().is_some_and(|length| length > BYTES_MAX) {
            return refused(too_large);
        }
        let cannot = |error: Error| full_disk::refused(path, &error);
        let begin = || block_in_place(|| self.store.nameless()).map_err(cannot);
        let (written, read) = self.fit(OBJECT_BYTES, begin).await?;
        let length = answer.content_length();
        let (content_type, modified) = passed_on(answer.headers());
        let (mut size, deadline) = (0, Instant::now() + 3 * self.silent_max);
        loop {
            let chunk = timeout_at(deadline, answer.chunk()).await;
            let chunk = chunk
                .map_err(|_| (Trouble::TimedOut, format!("{path}: the origin sends too slowly")))?;
            let Some(chunk) = chunk.map_err(|error| broken(path, error))? else { break };
            let at = size;
            size += chunk.len() as u64;
            if size > BYTES_MAX {
                return refused(too_large);
            }
            // At an explicit offset, because it may be written again. If the disk is full, make room for the rest, too.
            let put = || block_in_place(|| written.write_all_at(&chunk, at)).map_err(cannot);
            let rest = length.map_or(BLOCK_BYTES, |length| length.saturating_sub(at));
            self.fit(rest, put).await?;
        }
        let described = Described {
            path: path.to_owned(),
            object: fastrand::u64(1 << 63..),
            size,
            // A unique tag, so that no client combines ranges of two answers.
            etag: format!("\"{:032x}\"", fastrand::u128(..)),
            content_type,
            modified,
            is_date_strong: false,
            cache_control: Some("no-store".into()),
            fresh_ms: 0,
            stale_ms: 0,
            age_ms: 0,
            is_stale: false,
        };
        Ok((described, read))
    }
}
