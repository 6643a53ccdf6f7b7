//! A running gateway: what it knows, where it keeps that, and who asks it.
//!
//! Memory answers everybody. The store is polled once a second and written when an operator or a joining machine changes something; if it is away,
//! the gateway goes on with what it knows, and changes are refused with one line. What it knows is on its own disk, too, so it also starts without
//! the store.
//!
//! Read first: `start.rs`, then `work.rs` (what happens each second).

mod announcing;
mod changes;
mod first_start;
mod forgetting;
mod in_bucket;
mod introducing;
mod keys;
mod manifests;
mod placing;
mod popularity;
mod publish;
mod put_back;
mod source;
mod start;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use answers::decisions::DecisionLog;
use answers::session::SessionKey;
use axum::body::Bytes;
use fleet::{Announced, Digest, Name};
use identity::{Authority, RefusalLog};
use listener::RefusedCounts;
use tokio::sync::watch;

pub use changes::By;
pub use first_start::NewFleet;
pub(crate) use first_start::draw_token;
pub use in_bucket::read_title_in_bucket;
pub use publish::{Publication, read_title};
pub use start::{GatewayError, GatewayOptions};

use crate::clock::{Clock, Now};
use crate::desired::{Operator, Operators, Records};
use crate::live::Live;
use crate::moves::Moves;
use crate::state_folder::StateFolder;
use crate::store::records::PrivateBytes;
use crate::store::{Election, Engine, Objects, StoreError};
use crate::token_keys::Signer;
use manifests::KnownManifests;
use put_back::Newest;

/// A running gateway. Everything it does is done by its methods; what listens on sockets is in `serve.rs`.
pub struct Gateway {
    name: Name,
    fleet_name: Name,
    clock: Clock,
    live: Arc<Live>,
    state: StateFolder,
    engine: Arc<dyn Engine>,
    engine_name: &'static str,
    objects: Arc<Objects>,
    /// The objects of which this gateway keeps copies.
    objects_needed: Mutex<BTreeSet<Digest>>,
    /// What sites' files announce, by the files' digests: they are not read again at each change of the store.
    files: Mutex<BTreeMap<Digest, Arc<[Announced]>>>,
    /// The manifests of the plan: likewise.
    manifests: Mutex<KnownManifests>,
    /// How often titles are placed anew by what is watched, once there is a plan; `None`: when an operator says so.
    plan_every: Option<Duration>,
    authority: Arc<Authority>,
    signing: PrivateBytes,
    /// Where nodes reach it.
    machines_url: String,
    region: Option<Name>,
    /// How long tokens of viewers work.
    token_seconds: u64,
    election: Election,
    refusals: Arc<RefusalLog>,
    viewers_refused: Arc<RefusalLog>,
    operators_refused: Arc<RefusalLog>,
    listeners_refused: ListenersRefused,
    decisions: DecisionLog,
    moves: Mutex<Moves>,
    long_work: LongWork,
    /// What was answered to whom, and which requests of operators were refused, by kind.
    answered: Mutex<BTreeMap<&'static str, u64>>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    known: RwLock<Arc<Known>>,
    /// The newest state of the store that was seen.
    newest: Mutex<Newest>,
    /// Held while the store is read: what was read earlier must not replace what was read later.
    reading: tokio::sync::Mutex<()>,
    /// The line of JSON that the fleet page gets each second.
    page: watch::Sender<Bytes>,
    log: fn(&str),
}

/// What each of a gateway's listeners refused before it knew who asks.
#[derive(Debug, Default)]
pub struct ListenersRefused {
    /// The listener for viewers.
    pub public: Arc<RefusedCounts>,
    /// The listener for machines.
    pub machines: Arc<RefusedCounts>,
    /// The listener for operators.
    pub admin: Arc<RefusedCounts>,
}

/// What takes long and is done once at a time.
#[derive(Default)]
struct LongWork {
    /// Held while a plan is made.
    planning: Mutex<()>,
    /// Held while logged decisions are made again.
    replaying: Arc<tokio::sync::Mutex<()>>,
}

/// What follows from the store besides the live world.
struct Known {
    records: Records,
    operators: Operators,
    /// What signs viewers' addresses, and when that is another key.
    signer: Option<Arc<Signer>>,
    keys_change_at: Option<u64>,
    /// The store's revision that this is of; `None` if it is from this gateway's own disk.
    revision: Option<u64>,
    /// What is wrong with the store, if anything is.
    store_problem: Option<String>,
}

/// What is behind a lock here is whole whatever a panicking thread did.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateway {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The fleet's name.
    pub fn fleet_name(&self) -> &Name {
        &self.fleet_name
    }

    /// What it knows of its nodes.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Its folder.
    pub fn state(&self) -> &StateFolder {
        &self.state
    }

    /// The fleet's authority.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// The log of decisions.
    pub fn decisions(&self) -> &DecisionLog {
        &self.decisions
    }

    /// Which machines were refused.
    pub fn refusals(&self) -> &Arc<RefusalLog> {
        &self.refusals
    }

    /// Which viewers' handshakes were refused.
    pub fn viewers_refused(&self) -> &Arc<RefusalLog> {
        &self.viewers_refused
    }

    /// Which operators' handshakes were refused.
    pub fn operators_refused(&self) -> &Arc<RefusalLog> {
        &self.operators_refused
    }

    /// What each listener refused before it knew who asks.
    pub fn listeners_refused(&self) -> &ListenersRefused {
        &self.listeners_refused
    }

    /// The store.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The store, to share.
    pub fn shared_engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    /// The region that it is in, if it was told.
    pub fn region(&self) -> Option<&Name> {
        self.region.as_ref()
    }

    /// How long tokens of viewers work.
    pub fn token_seconds(&self) -> u64 {
        self.token_seconds
    }

    /// The gateway's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What time it is.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// What tells the operator something.
    pub(crate) fn log(&self) -> fn(&str) {
        self.log
    }

    /// Tells the operator something, in the gateway's log.
    pub fn tell(&self, line: &str) {
        (self.log)(line);
    }

    /// Who has this token.
    pub fn operator(&self, token: &str) -> Option<Operator> {
        self.known().operators.of_token(&Digest::of(token.as_bytes())).cloned()
    }

    /// The operator of this name, who has shown a certificate that says so.
    pub fn operator_named(&self, name: &Name) -> Option<Operator> {
        self.known().operators.of_name(name.as_str()).cloned()
    }

    /// What signs viewers' sessions: all gateways of the fleet have the same.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::derive(self.signing.reveal())
    }

    /// The line of JSON for the fleet page, new each second.
    pub fn page(&self) -> watch::Receiver<Bytes> {
        self.page.subscribe()
    }

    /// What is wrong with the store, if anything is.
    pub fn store_problem(&self) -> Option<String> {
        self.known().store_problem.clone().or_else(|| lock(&self.newest).problem())
    }

    /// Counts a refused request of an operator.
    pub fn count_refused(&self, reason: &'static str) {
        *lock(&self.refused).entry(reason).or_default() += 1;
    }

    /// Refused requests of operators, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.refused).clone()
    }

    /// What viewers were answered, by kind.
    pub fn answered(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.answered).clone()
    }

    /// Whoever has this may plan: one at a time. `None` while somebody does.
    pub(crate) fn try_to_plan(&self) -> Option<MutexGuard<'_, ()>> {
        match self.long_work.planning.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The permit to replay logged decisions, one at a time. `None` while it is taken.
    pub(crate) fn try_to_replay(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        Arc::clone(&self.long_work.replaying).try_lock_owned().ok()
    }

    /// Decisions and moves.
    pub(crate) fn moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.moves)
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_known(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    /// Reads the store if it has changed since it was read.
    ///
    /// # Errors
    /// Those of the store.
    async fn read_store_if_changed(&self) -> Result<(), StoreError> {
        let revision = self.engine.revision().await?;
        if self.known().revision == Some(revision) {
            return Ok(());
        }
        self.read_store().await
    }
}
