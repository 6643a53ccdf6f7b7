//! Space on the cache's disk for responses that are passed on and not stored. They come in addition to the cache, so they have a bound of their own.
//!
//! A response of known length reserves all of it before it is fetched. Any other one reserves what has arrived. Both give it back once they are
//! complete and the server has them: from then on, the server counts what its viewers have not received yet, within the same bound.

use crate::contract::{Trouble, passed_bytes_max};
use crate::origin::Refused;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The space of all of them.
pub(super) struct PassedSpace {
    reserved: Arc<AtomicU64>,
    bytes_max: u64,
}

/// The space of one response, until this is dropped.
pub(super) struct Reservation {
    bytes: u64,
    bytes_max: u64,
    all: Arc<AtomicU64>,
}

impl PassedSpace {
    /// In addition to a cache of this size.
    pub(super) fn new(cache_bytes: u64) -> Self {
        Self { reserved: Arc::default(), bytes_max: passed_bytes_max(cache_bytes) }
    }

    /// Reserves `bytes` for the response at `path`, which may grow.
    ///
    /// # Errors
    /// If it is too long for the cache's disk, or the others leave it no room.
    pub(super) fn reserve(&self, path: &str, bytes: u64) -> Result<Reservation, Refused> {
        let (bytes_max, all) = (self.bytes_max, Arc::clone(&self.reserved));
        let mut reservation = Reservation { bytes: 0, bytes_max, all };
        reservation.grow(path, bytes)?;
        Ok(reservation)
    }
}

impl Reservation {
    /// Reserves `bytes` in all.
    ///
    /// # Errors
    /// As for [`PassedSpace::reserve`].
    pub(super) fn grow(&mut self, path: &str, bytes: u64) -> Result<(), Refused> {
        let bytes_max = self.bytes_max;
        if bytes > bytes_max {
            let said = format!(
                "{path}: {bytes} bytes that may not be cached; the limit for such responses is {bytes_max} (an eighth of the cache, at least 256 MiB); raise --cache-gib"
            );
            return Err((Trouble::TooLarge, said));
        }
        let more = bytes.saturating_sub(self.bytes);
        let fits = |all: u64| all.checked_add(more).filter(|all| *all <= bytes_max);
        if self.all.fetch_update(Relaxed, Relaxed, fits).is_err() {
            let said = format!(
                "{path}: the responses that are being passed on take all of their {bytes_max} bytes on the cache's disk; raise --cache-gib"
            );
            return Err((Trouble::Full, said));
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_that_are_passed_on_share_a_bound_and_give_their_space_back() {
        let space = PassedSpace::new(8 << 30);
        assert_eq!(space.bytes_max, 1 << 30, "an eighth of the cache");
        let refused = |bytes| space.reserve("/a", bytes).err().map(|(why, _)| why);
        assert_eq!(refused((1 << 30) + 1), Some(Trouble::TooLarge));
        let film = space.reserve("/film", 1 << 29).ok().unwrap();
        let mut live = space.reserve("/live", 0).ok().unwrap();
        live.grow("/live", 1 << 28).unwrap();
        live.grow("/live", 1 << 29).unwrap();
        assert_eq!(refused(1), Some(Trouble::Full));
        assert_eq!(live.grow("/live", (1 << 29) + 1).err().unwrap().0, Trouble::Full);
        drop(film);
        live.grow("/live", (1 << 29) + 1).unwrap();
        drop(live);
        assert_eq!(refused(1 << 30), None, "none is lost");
    }
}
