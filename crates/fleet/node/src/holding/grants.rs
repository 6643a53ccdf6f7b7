//! Permissions (grants) to copy titles from other nodes, in a fleet that signs addresses: the one needed now, and those received from
//! gateways.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet_protocol::{FillGrant, GRANT_SECONDS, HeldTitle};

use super::lock;

/// How long a grant is used, and when to ask for the next one. A grant is valid for ten minutes by the gateway's clock; a request that has
/// begun continues after that.
const USED: Duration = Duration::from_secs(GRANT_SECONDS - 60);
const RENEWED: Duration = Duration::from_secs(GRANT_SECONDS / 2);
/// How long the copier waits for a grant. A reachable gateway answers within a second.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
struct Given {
    token: Option<String>,
    at: Instant,
}

/// Shared by the copier and the gateways' clients.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// The fleet signs addresses.
    is_needed: AtomicBool,
    given: Mutex<BTreeMap<HeldTitle, Given>>,
    /// The title that the copier is working on.
    wanted: Mutex<Option<HeldTitle>>,
    came: Condvar,
}

impl Grants {
    /// Sets whether the fleet signs addresses.
    pub(crate) fn note_signing(&self, signs: bool) {
        self.is_needed.store(signs, Ordering::Relaxed);
    }

    /// The token for a title, if there is one.
    pub(crate) fn token(&self, title: &HeldTitle) -> Option<String> {
        let given = lock(&self.given);
        given.get(title).filter(|given| given.at.elapsed() < USED)?.token.clone()
    }

    /// Requests a grant to copy a title, waits for it if necessary, and returns whether there is one.
    pub(crate) fn obtain(&self, title: &HeldTitle) -> bool {
        if !self.is_needed.load(Ordering::Relaxed) {
            return true;
        }
        *lock(&self.wanted) = Some(title.clone());
        let mut given = lock(&self.given);
        // Grants of earlier titles are not needed any more.
        given.retain(|held, _| held == title);
        let is_there = |given: &BTreeMap<HeldTitle, Given>| {
            given.get(title).is_some_and(|given| given.at.elapsed() < USED)
        };
        let waiting = |given: &mut BTreeMap<HeldTitle, Given>| !is_there(given);
        let waited = self.came.wait_timeout_while(given, PATIENCE, waiting);
        is_there(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Nothing is being copied any more.
    pub(crate) fn release(&self) {
        *lock(&self.wanted) = None;
    }

    /// The title to request a grant for, if one is needed now.
    pub(crate) fn wanted(&self) -> Option<HeldTitle> {
        let wanted = lock(&self.wanted).clone()?;
        let is_new =
            lock(&self.given).get(&wanted).is_some_and(|given| given.at.elapsed() < RENEWED);
        (!is_new).then_some(wanted)
    }

    /// Takes a gateway's grant.
    pub(crate) fn handle(&self, grant: FillGrant) {
        lock(&self.given).insert(grant.held, Given { token: grant.token, at: Instant::now() });
        self.came.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::Digest;

    #[test]
    fn a_grant_is_asked_for_once_and_used_for_its_title() {
        let held = |path: &str| HeldTitle { path: path.into(), version: Digest::of(b"v") };
        let grants = Grants::default();
        assert!(grants.obtain(&held("a")), "the fleet does not sign");
        assert_eq!((grants.wanted(), grants.token(&held("a"))), (None, None));
        grants.note_signing(true);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| grants.obtain(&held("a")));
            while grants.wanted().is_none() {
                std::thread::yield_now();
            }
            let token = Some("t".to_owned());
            grants.handle(FillGrant { held: held("a"), token, expires_unix_seconds: 0 });
            assert!(waits.join().unwrap());
        });
        assert_eq!(grants.token(&held("a")).as_deref(), Some("t"));
        assert_eq!(grants.token(&held("b")), None);
        assert_eq!(grants.wanted(), None, "there is one");
        assert!(!grants.obtain(&held("b")), "no gateway answers");
        assert_eq!(grants.wanted(), Some(held("b")));
        grants.release();
        assert_eq!(grants.wanted(), None);
    }
}
