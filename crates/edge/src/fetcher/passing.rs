//! What must not be kept is fetched anew for each viewer, and passed through: whole, in a file without a name, which ends with its viewer.
//!
//! The request carries nothing of the viewer's but the path, like every other. So the answer is what the origin gives to somebody of whom it knows
//! nothing, and no cookie of it is passed on. It is fetched whole before the viewer gets its first byte, because nothing names its version: were
//! it fetched in ranges, two versions could mix.

use super::{Helper, shortened};
use crate::contract::{Described, EdgeTold, Trouble};
use crate::origin::{Refused, broken};
use crate::policy::{is_coded, passed_on};
use crate::store::trouble;
use std::fs::File;
use std::io::{Error, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout_at};

/// The most that is passed through: playlists, subtitles, pictures, not films.
const BYTES_MAX: u64 = 16 << 20;

/// At the same time: of the requests to the origin, a quarter.
pub(super) const AT_ONCE_MAX: usize = 16;

impl Helper {
    /// Fetches what is at `path` for one viewer.
    pub(super) async fn pass(self: Arc<Self>, path: String, ticket: u64) {
        // Whoever has waited for longer may be gone; those behind him are not.
        let deadline = Instant::now() + 3 * self.silent_max;
        let Ok(turn) = timeout_at(deadline, self.passing.acquire()).await else {
            let said = shortened(&format!("{path}: too much is passed through at once"));
            return self.tell(EdgeTold::NotPassed { ticket, why: Trouble::Full, said });
        };
        let passed = self.try_again(|| self.fetch_for_one(&path)).await;
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
        let cannot = |error: Error| {
            (trouble(&error), format!("{path}: the cache's disk cannot take it: {error}"))
        };
        let (mut written, read) = block_in_place(|| self.store.nameless()).map_err(cannot)?;
        let (content_type, modified) = passed_on(answer.headers());
        let (mut size, deadline) = (0, Instant::now() + 3 * self.silent_max);
        loop {
            let chunk = timeout_at(deadline, answer.chunk()).await;
            let chunk = chunk
                .map_err(|_| (Trouble::TimedOut, format!("{path}: the origin sends too slowly")))?;
            let Some(chunk) = chunk.map_err(|error| broken(path, error))? else { break };
            size += chunk.len() as u64;
            if size > BYTES_MAX {
                return refused(too_large);
            }
            block_in_place(|| written.write_all(&chunk)).map_err(cannot)?;
        }
        let described = Described {
            path: path.to_owned(),
            object: fastrand::u64(1 << 63..),
            size,
            // No other answer has it, so that nobody puts ranges of two together.
            etag: format!("\"{:032x}\"", fastrand::u128(..)),
            content_type,
            modified,
            cache_control: Some("no-store".into()),
            fresh_ms: 0,
            age_ms: 0,
            is_stale: false,
        };
        Ok((described, read))
    }
}
