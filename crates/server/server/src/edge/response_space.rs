//! Space on the cache's disk that passed responses take until their viewers have received them.
//!
//! A viewer may be slow, and hold its response's space for hours. So one client with several responses gets half of the space, and an eighth in
//! addition is for responses of less than a block, which most are: no longer ones can take it.

use edge::contract::BLOCK_BYTES;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The space of all viewers.
pub(super) struct ResponseSpace {
    taken: Mutex<AllTaken>,
    bytes_max: u64,
}

#[derive(Default)]
struct AllTaken {
    bytes: u64,
    by_client: HashMap<IpAddr, u64>,
}

/// One response's space, which is returned when this is dropped.
pub(crate) struct Taken {
    bytes: u64,
    /// None if it is for all.
    client: Option<IpAddr>,
    space: Arc<ResponseSpace>,
}

impl ResponseSpace {
    /// With `bytes_max` for responses of a block and more.
    pub(super) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), bytes_max })
    }

    /// Space for a response of `bytes` to a viewer of `client`; none if it has no room.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr, bytes: u64) -> Option<Taken> {
        let client = Some(client);
        let mut taken = Taken { bytes: 0, client, space: Arc::clone(self) };
        taken.grow(bytes).then_some(taken)
    }

    /// Space for a response that grows for viewers of all clients: nothing so far.
    pub(super) fn take_for_all(self: &Arc<Self>) -> Taken {
        Taken { bytes: 0, client: None, space: Arc::clone(self) }
    }

    fn taken(&self) -> MutexGuard<'_, AllTaken> {
        self.taken.lock().expect("no holder of this lock can panic")
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.taken().bytes
    }
}

impl Taken {
    /// The response now has `bytes` in all. Returns whether there was room for them.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let max = self.space.bytes_max;
        let max = if bytes < BLOCK_BYTES { max.saturating_add(max / 8) } else { max };
        let mut all = self.space.taken();
        let of_client = self.client.and_then(|client| all.by_client.get(&client).copied());
        let of_client = of_client.unwrap_or(0);
        let fits = all.bytes.saturating_add(more) <= max;
        // Its only response may be as long as the space has room for.
        let has_others = of_client > self.bytes;
        if !fits || has_others && of_client.saturating_add(more) > max / 2 {
            return false;
        }
        all.bytes += more;
        if let Some(client) = self.client {
            *all.by_client.entry(client).or_default() += more;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.space.taken();
        all.bytes -= self.bytes;
        let Some(client) = self.client else { return };
        if let Some(of_client) = all.by_client.get_mut(&client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                all.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 256 << 20;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_slow_client_leaves_half_to_others_and_short_responses_have_space_of_their_own() {
        let space = ResponseSpace::new(MAX);
        let films: Vec<_> =
            std::iter::from_fn(|| space.take(client(1), 10 << 20)).take(1000).collect();
        assert_eq!(films.len(), 12, "half of it");
        assert!(space.take(client(1), 1000).is_some(), "a page");
        let others = space.take(client(2), MAX / 2).expect("the other half");
        assert!(space.take(client(3), 10 << 20).is_none(), "it is full");
        assert!(space.take(client(3), 1000).is_some(), "but not for pages");
        drop((films, others));
        assert_eq!(space.bytes(), 0);
        assert!(space.taken().by_client.is_empty());
        assert!(space.take(client(1), MAX).is_some(), "one that is alone may have all of it");
        assert!(space.take(client(1), MAX + 1).is_none());
    }

    #[test]
    fn a_response_that_grows_takes_more_until_there_is_no_room() {
        let space = ResponseSpace::new(MAX);
        let mut endless = space.take(client(1), 0).unwrap();
        assert!(endless.grow(MAX) && !endless.grow(MAX + 1));
        assert!(endless.grow(5), "it never shrinks");
        assert_eq!(space.bytes(), MAX);
        drop(endless);
        assert_eq!(space.bytes(), 0);
    }
}
