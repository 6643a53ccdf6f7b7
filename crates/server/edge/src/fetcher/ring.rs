//! Responses of any length for one viewer: they come through a file of [`RING_BYTES`], a ring, in which what comes next takes the place of what the
//! viewer has.
//!
//! These are responses that may not be stored, and either don't say how long they are, or are too long for the space on the cache's disk. The origin
//! is read only as fast as the viewer takes the bytes. So such a response may take hours, and has a place of its own, not one of the requests'. The
//! places bound the disk space, too: rings take none of that of other responses.

use super::passed_space::Reservation;
use super::receiving::Rest;
use super::{Helper, full_disk, growing};
use crate::contract::{BLOCK_BYTES, RING_BYTES, Trouble};
use crate::origin::Refused;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::block_in_place;

/// How long a film is known to be larger than the cache: for longer than the server knows that there is no object, which is ten seconds.
const LARGE_FOR: Duration = Duration::from_secs(60);

/// The most such films that are known. Any other one is fetched from its beginning for each viewer's range.
const LARGE_MAX: usize = 1000;

/// Where a response that is not stored goes.
pub(super) enum SpaceFor {
    /// There is space for all of it.
    All(Reservation),
    /// It has a place for a ring.
    Ring(OwnedSemaphorePermit),
}

impl SpaceFor {
    /// The reservation, or the place for a ring.
    pub(super) fn into_parts(self) -> (Option<Reservation>, Option<OwnedSemaphorePermit>) {
        match self {
            Self::All(reservation) => (Some(reservation), None),
            Self::Ring(place) => (None, Some(place)),
        }
    }
}

/// Paths of films that are larger than the cache, so that each viewer's range goes to the origin.
#[derive(Default)]
pub(super) struct LargeFilms(Mutex<HashMap<String, Instant>>);

impl LargeFilms {
    /// There is one at `path`.
    pub(super) fn note(&self, path: &str) {
        let (mut paths, now) = (self.lock(), Instant::now());
        paths.retain(|_, noted| now.duration_since(*noted) < LARGE_FOR);
        if paths.len() < LARGE_MAX {
            paths.insert(path.to_owned(), now);
        }
    }

    /// Whether there is one at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.lock().get(path).is_some_and(|noted| noted.elapsed() < LARGE_FOR)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Helper {
    /// Space for a response that is not stored. If a long one finds none, it comes through a ring, and gets a place for that.
    ///
    /// # Errors
    /// If it finds neither.
    pub(super) fn space_for(&self, path: &str, length: Option<u64>) -> Result<SpaceFor, Refused> {
        match self.passed_space.reserve(path, length.unwrap_or(0)) {
            Ok(reservation) => Ok(SpaceFor::All(reservation)),
            Err(_) if length > Some(BLOCK_BYTES) => {
                let place = Arc::clone(&self.growing).try_acquire_owned();
                place.map(SpaceFor::Ring).map_err(|_| growing::no_place(path))
            }
            Err(refused) => Err(refused),
        }
    }

    /// Writes the next bytes of a body, as its viewer takes those before them. Returns whether that is still there.
    pub(super) async fn write_to_ring(
        &self,
        rest: &mut Rest,
        mut bytes: &[u8],
    ) -> Result<bool, Refused> {
        while !bytes.is_empty() {
            let Some(viewer) = &rest.viewer else { return Ok(false) };
            let at = rest.done % RING_BYTES;
            let room = viewer.room(rest.done, RING_BYTES).await.min(RING_BYTES - at);
            if room == 0 {
                return Ok(false);
            }
            let (next, later) = bytes.split_at(bytes.len().min(room as usize));
            let end = rest.done + next.len() as u64;
            let (path, file) = (&rest.path, &rest.file);
            let put = || block_in_place(|| file.write_all_at(next, at));
            let put = || put().map_err(|error| full_disk::refused(path, &error));
            self.fit(next.len() as u64, put).await?;
            (rest.done, bytes) = (end, later);
        }
        Ok(true)
    }
}

impl Rest {
    /// Whether its body has ended where it should.
    pub(super) fn has_all(&self) -> bool {
        self.length.is_none_or(|length| self.done == length)
    }

    /// Why it has not.
    pub(super) fn too_short(&self) -> Refused {
        (Trouble::Wrong, format!("{}: it ended too early", self.path))
    }
}
