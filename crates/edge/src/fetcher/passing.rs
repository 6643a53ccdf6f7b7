//! What must not be kept is fetched anew for each viewer, and passed through: whole, in a file without a name, which ends with its viewer.
//!
//! The request carries nothing of the viewer's but the path, like every other. So the answer is what the origin gives to somebody of whom it knows
//! nothing, and no cookie of it is passed on. It is fetched whole before the viewer gets its first byte, because nothing names its version: were
//! it fetched in ranges, two versions could mix.

use super::slots::Want;
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

/// The most that is passed through: playlists, subtitles, pictures, not films.
const BYTES_MAX: u64 = 16 << 20;

/// At the same time: of the requests to the origin, a quarter.
pub(super) const AT_ONCE_MAX: usize = 16;

/// The most answers of which it is remembered that they cannot be passed. Of those beyond, each viewer makes the origin send another in vain.
const UNPASSABLE_MAX: usize = 1000;

/// Longer paths are not remembered: viewers can invent them.
const UNPASSABLE_PATH_BYTES_MAX: usize = 1 << 10;

/// Answers that cannot be passed either, by path: until when that is believed, and why it is so.
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
    /// Fetches what is at `path` for one viewer.
    pub(super) async fn pass(self: Arc<Self>, path: String, ticket: u64) {
        // Whoever has waited for longer may be gone; those behind him are not.
        let deadline = Instant::now() + 3 * self.silent_max;
        let Ok(turn) = timeout_at(deadline, self.passing.acquire()).await else {
            let said = shortened(&format!("{path}: too much is passed through at once"));
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
        let passed = self.try_again(Want::New, || self.fetch_for_one(path)).await;
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
            // At a place, because it may be written again. If the disk is full, room is made for the rest, too.
            let put = || block_in_place(|| written.write_all_at(&chunk, at)).map_err(cannot);
            let rest = length.map_or(BLOCK_BYTES, |length| length.saturating_sub(at));
            self.fit(rest, put).await?;
        }
        let described = Described {
            path: path.to_owned(),
            object: fastrand::u64(1 << 63..),
            size,
            // No other answer has it, so that nobody puts ranges of two together.
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
