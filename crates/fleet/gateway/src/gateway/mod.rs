//! A running gateway: its state, where that is stored, and its interfaces.
//!
//! All answers come from memory. The store is polled once a second, and written when an operator or a joining machine changes something; if it is
//! away, the gateway continues with its last copy, and refuses changes with one line of explanation. The copy is on its own disk, too, so it also
//! starts without the store.
//!
//! Read first: `start.rs`, then `work.rs` (the periodic work).

mod announcing;
mod changes;
mod experience;
mod first_start;
mod forgetting;
mod in_bucket;
mod introducing;
mod issues;
mod keys;
mod manifests;
mod placing;
mod popularity;
mod publish;
mod purging;
mod put_back;
mod replanning;
mod reporting;
mod source;
mod start;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use axum::body::Bytes;
use fleet_protocol::{Announced, Digest, Name};
use identity::{Authority, RefusalLog};
use listener::RefusedCounts;
use tokio::sync::watch;
use viewer_api::decisions::DecisionLog;
use viewer_api::session::SessionKey;

pub use changes::By;
pub use first_start::NewFleet;
pub(crate) use first_start::draw_token;
pub use in_bucket::read_title_in_bucket;
pub use issues::{IssueCounts, SNOOZE_SECONDS_MAX, ShownIssue};
pub use publish::{Publication, read_title};
pub(crate) use purging::shown as shown_purge;
pub use start::{GatewayError, GatewayOptions};

use crate::clock::{Clock, Now};
use crate::desired::{Operator, Operators, Records};
use crate::issues::IssueList;
use crate::live::LiveFleet;
use crate::moves::Moves;
use crate::state_folder::StateFolder;
use crate::token_keys::Signer;
use manifests::KnownManifests;
use put_back::Newest;
use reporting::Reports;
use store::records::PrivateBytes;
use store::{Election, Engine, Objects, StoreError};

/// A running gateway. Its methods do all the work; the listeners are in `serve.rs`.
pub struct Gateway {
    name: Name,
    fleet_name: Name,
    clock: Clock,
    live: Arc<LiveFleet>,
    state: StateFolder,
    engine: Arc<dyn Engine>,
    engine_name: &'static str,
    objects: Arc<Objects>,
    /// The objects that this gateway keeps copies of.
    objects_needed: Mutex<BTreeSet<Digest>>,
    /// Announcements in sites' files, by the files' digests, so that they are not read again at each change of the store.
    files: Mutex<BTreeMap<Digest, Arc<[Announced]>>>,
    /// The plan's manifests, cached for the same reason.
    manifests: Mutex<KnownManifests>,
    /// The fleet's issues.
    issues: Mutex<IssueList>,
    /// Reports of issues to the webhook.
    reports: Reports,
    /// How often placement is recomputed once a plan is in force; `None`: only on an operator's request.
    plan_every: Option<Duration>,
    authority: Arc<Authority>,
    signing: PrivateBytes,
    /// Its address for nodes.
    machines_url: String,
    region: Option<Name>,
    /// Lifetime of viewers' tokens.
    token_seconds: u64,
    election: Election,
    refusals: Arc<RefusalLog>,
    viewers_refused: Arc<RefusalLog>,
    operators_refused: Arc<RefusalLog>,
    listeners_refused: ListenersRefused,
    decisions: DecisionLog,
    moves: Mutex<Moves>,
    long_work: LongWork,
    /// Counts of answers to viewers, and of refused requests of operators, by kind.
    answered: Mutex<BTreeMap<&'static str, u64>>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    known: RwLock<Arc<Known>>,
    /// The newest state of the store seen so far.
    newest: Mutex<Newest>,
    /// Held while the store is read, so that an earlier reading cannot replace a later one.
    reading: tokio::sync::Mutex<()>,
    /// The line of JSON that the fleet page gets every second.
    page: watch::Sender<Bytes>,
    log: fn(&str),
}

/// Connections and requests that each of a gateway's listeners refused, before a handler saw them.
#[derive(Debug, Default)]
pub struct ListenersRefused {
    /// The listener for viewers.
    pub public: Arc<RefusedCounts>,
    /// The listener for machines.
    pub machines: Arc<RefusedCounts>,
    /// The listener for operators.
    pub admin: Arc<RefusedCounts>,
}

/// Long operations that run one at a time.
#[derive(Default)]
struct LongWork {
    /// Held while a plan is being made.
    planning: Mutex<()>,
    /// Held while logged decisions are being replayed.
    replaying: Arc<tokio::sync::Mutex<()>>,
}

/// State derived from the store, other than the live world.
struct Known {
    records: Records,
    operators: Operators,
    /// The key that signs viewers' addresses, and when another one takes over.
    signer: Option<Arc<Signer>>,
    keys_change_at: Option<u64>,
    /// The store's revision that this was derived from; `None` if it comes from this gateway's own disk.
    revision: Option<u64>,
    /// The store's present problem, if there is one.
    store_problem: Option<String>,
}

/// Locks a mutex even if it is poisoned: the values here stay valid when a thread panics.
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

    /// The live state of its nodes.
    pub fn live(&self) -> &Arc<LiveFleet> {
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

    /// Log of refused machines.
    pub fn refusals(&self) -> &Arc<RefusalLog> {
        &self.refusals
    }

    /// Log of viewers' refused handshakes.
    pub fn viewers_refused(&self) -> &Arc<RefusalLog> {
        &self.viewers_refused
    }

    /// Log of operators' refused handshakes.
    pub fn operators_refused(&self) -> &Arc<RefusalLog> {
        &self.operators_refused
    }

    /// Connections and requests that each listener refused, before a handler saw them.
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

    /// Its region, if it is set.
    pub fn region(&self) -> Option<&Name> {
        self.region.as_ref()
    }

    /// Lifetime of viewers' tokens.
    pub fn token_seconds(&self) -> u64 {
        self.token_seconds
    }

    /// The gateway's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The present time.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// The function that logs for the operator.
    pub(crate) fn log(&self) -> fn(&str) {
        self.log
    }

    /// Writes a line to the gateway's log.
    pub fn tell(&self, line: &str) {
        (self.log)(line);
    }

    /// The operator with this token.
    pub fn operator(&self, token: &str) -> Option<Operator> {
        self.known().operators.of_token(&Digest::of(token.as_bytes())).cloned()
    }

    /// The operator with this name, taken from a verified certificate.
    pub fn operator_named(&self, name: &Name) -> Option<Operator> {
        self.known().operators.of_name(name.as_str()).cloned()
    }

    /// The key that signs viewers' sessions, which is the same for all gateways of the fleet.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::derive(self.signing.reveal())
    }

    /// The line of JSON for the fleet page, updated every second.
    pub fn page(&self) -> watch::Receiver<Bytes> {
        self.page.subscribe()
    }

    /// The name of the gateway that leads, as far as this one knows.
    pub fn leader(&self) -> Option<String> {
        self.election.leader()
    }

    /// The store's present problem, if there is one.
    pub fn store_problem(&self) -> Option<String> {
        self.known().store_problem.clone().or_else(|| lock(&self.newest).problem())
    }

    /// Counts a refused request of an operator.
    pub fn count_refused(&self, reason: &'static str) {
        *lock(&self.refused).entry(reason).or_default() += 1;
    }

    /// Counts of operators' refused requests, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.refused).clone()
    }

    /// Counts of answers to viewers, by kind.
    pub fn answered(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.answered).clone()
    }

    /// The permit to plan, one at a time. `None` while it is taken.
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

    /// Reads the store if it has changed since the last time.
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
