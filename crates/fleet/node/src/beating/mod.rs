//! A node's side of the machines' API: sends heartbeats to every gateway that it knows, fetches changed data, and renews its certificate.
//!
//! Each gateway has two tasks. One sends heartbeats, and waits for nothing else. The other fetches the data that the last answer announced
//! as changed, which may take long. So a large snapshot on a slow link never makes a node look dead. A node next to a router has a third
//! task, which forwards the router's routes, and one with an edge has a task for its purges.

mod boot;
mod certifying;
mod clocks;
mod copies;
mod fetching;
mod pulse;
mod purging;
mod renewing;
mod routes;
mod sighting;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use fleet_protocol::{Digest, Heartbeat, HeartbeatAnswer, Inventory};
use identity::Credentials;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use self::boot::Boot;
pub(crate) use self::boot::draw as draw_boot;
use self::clocks::Clocks;
pub use self::clocks::words as clock_words;
use self::sighting::Sightings;
use crate::bird::BirdReading;
use crate::box_state::BoxState;
use crate::gateway::{Gateway, Trouble};
use crate::joining::{Membership, now_unix_millis};

/// How soon a change of the inventory is noticed.
const ONE_SECOND: Duration = Duration::from_secs(1);

/// The reason given by gateways that refuse a revoked node.
const REVOKED: &str = "revoked";

/// The reason given by gateways that refuse a heartbeat older than their data.
pub(crate) const STALE: &str = "stale";

/// Intervals of the heartbeats. The defaults are the fleet's; tests and scaled runs shorten them.
#[derive(Clone, Debug)]
pub struct BeatingOptions {
    /// The time between heartbeats to one gateway, give or take a fifth.
    pub interval: Duration,
    /// A changed snapshot is fetched at least this often, even that of a large fleet, which has megabytes and changes each second; a small
    /// fleet's is fetched with every heartbeat.
    pub snapshot_interval: Duration,
    /// The shortest time between inventories sent to one gateway, except for the first few.
    pub inventory_interval: Duration,
    /// The readings of the site's router, if the node forwards its routes.
    pub routes: Option<watch::Receiver<BirdReading>>,
}

impl Default for BeatingOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            snapshot_interval: Duration::from_secs(1800),
            inventory_interval: Duration::from_secs(10),
            routes: None,
        }
    }
}

/// Heartbeats in progress. Dropping it stops them.
#[derive(Debug)]
pub struct Beating {
    task: JoinHandle<()>,
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state shared by all tasks of a node.
struct Shared {
    options: BeatingOptions,
    state_dir: PathBuf,
    state: Arc<dyn BoxState>,
    boot: Boot,
    sequence: AtomicU64,
    membership: Arc<Mutex<Membership>>,
    /// Held while `membership` is written.
    keeping: Arc<Mutex<()>>,
    credentials: RwLock<Arc<Credentials>>,
    gateway: RwLock<Gateway>,
    /// The gateways to ask: see [`Membership::gateways`].
    gateways: watch::Sender<Vec<String>>,
    /// The last data that was accepted, from any gateway.
    taken: Mutex<Taken>,
    summed: Mutex<Option<(Arc<Inventory>, Digest)>>,
}

#[derive(Default)]
struct Taken {
    desired: Option<Digest>,
    keys: Option<Digest>,
}

/// Starts the heartbeats, on the caller's runtime.
///
/// # Errors
/// If the credentials cannot be used.
pub fn start(
    membership: Membership,
    credentials: Credentials,
    state_dir: PathBuf,
    state: Arc<dyn BoxState>,
    options: BeatingOptions,
) -> Result<Beating, String> {
    let gateway = Gateway::for_node(&credentials).map_err(|trouble| trouble.to_string())?;
    let keys = Some(membership.keys.digest());
    let shared = Arc::new(Shared {
        options,
        state_dir,
        state,
        boot: Boot::draw(),
        sequence: AtomicU64::new(0),
        gateways: watch::Sender::new(membership.gateways()),
        taken: Mutex::new(Taken { desired: None, keys }),
        summed: Mutex::new(None),
        membership: Arc::new(Mutex::new(membership)),
        keeping: Arc::default(),
        credentials: RwLock::new(Arc::new(credentials)),
        gateway: RwLock::new(gateway),
    });
    Ok(Beating { task: tokio::spawn(beat_to_all(shared)) })
}

/// Runs a pair of tasks for each known gateway, as gateways come and go.
async fn beat_to_all(shared: Arc<Shared>) {
    // The set aborts its tasks when this task is aborted.
    let mut tasks = JoinSet::new();
    tasks.spawn(renewing::keep_renewed(Arc::clone(&shared)));
    tasks.spawn(fetching::fetch_documents(Arc::clone(&shared)));
    tasks.spawn(fetching::fetch_grants(Arc::clone(&shared)));
    tasks.spawn(fetching::fetch_eviction_leave(Arc::clone(&shared)));
    tasks.spawn(copies::keep(Arc::clone(&shared)));
    let mut running: HashMap<String, Vec<AbortHandle>> = HashMap::new();
    let mut known = shared.gateways.subscribe();
    loop {
        let gateways = known.borrow_and_update().clone();
        running.retain(|address, handles| {
            let stays = gateways.contains(address);
            if !stays {
                handles.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for address in gateways {
            running.entry(address.clone()).or_insert_with(|| {
                let (answers, heard) = watch::channel(None);
                let routes = shared.options.routes.clone().map(|readings| {
                    routes::pass_on(Arc::clone(&shared), address.clone(), readings)
                });
                let (snapshot, sightings) = Default::default();
                let line = Arc::new(Line { address: address.clone(), snapshot, sightings });
                let beat = beat_to(Arc::clone(&shared), Arc::clone(&line), answers);
                let fetch = fetching::fetch_news(Arc::clone(&shared), line, heard);
                let mut handles = vec![tasks.spawn(beat), tasks.spawn(fetch)];
                handles.extend(routes.map(|routes| tasks.spawn(routes)));
                if shared.state.edge_progress(0).is_some() {
                    let purges = purging::exchange(Arc::clone(&shared), address.clone());
                    handles.push(tasks.spawn(purges));
                }
                handles
            });
        }
        if known.changed().await.is_err() {
            return;
        }
    }
}

/// The state shared by the tasks of one gateway.
struct Line {
    address: String,
    /// The number of the gateway's snapshot that the box has.
    snapshot: AtomicU64,
    /// Reports on nodes that this gateway cannot hear.
    sightings: Sightings,
}

type Answers = watch::Sender<Option<HeartbeatAnswer>>;

async fn beat_to(shared: Arc<Shared>, line: Arc<Line>, answers: Answers) {
    let address = &line.address;
    let mut clocks = Clocks::default();
    let mut failures = 0u32;
    let mut told = None;
    let mut was_early = false;
    loop {
        let sent = now_unix_millis();
        let inventory = shared.state.inventory();
        match shared.beat(&line).await {
            Ok(answer) => {
                if told.take().is_some() {
                    crate::tell(&format!("{address}: the gateway answers again"));
                }
                failures = 0;
                let gateway = i64::try_from(answer.now_unix_millis).unwrap_or(i64::MAX);
                let (ahead, news) = clocks.compare(sent, now_unix_millis(), gateway);
                if let Some(news) = news {
                    crate::tell(&format!("{address}: {news}"));
                }
                line.sightings.look(&shared.state, &answer.asks);
                shared.note_answer(address).await;
                let (from, own) = (address.clone(), answer.clone());
                shared.hand_over(move |state| state.handle_answer(&from, &own, ahead)).await;
                answers.send_replace(Some(answer));
            }
            // The gateway answered, and the next heartbeat has another boot name.
            Err(Trouble::Refused { reason, .. }) if reason == STALE => failures = 1,
            Err(trouble) => {
                failures = failures.saturating_add(1);
                let text = trouble.to_string();
                if told.as_ref() != Some(&text) {
                    crate::tell(&format!("{address}: {text}"));
                    told = Some(text);
                }
                if matches!(trouble, Trouble::Refused { reason, .. } if reason == REVOKED) {
                    let from = address.clone();
                    shared.hand_over(move |state| state.handle_revocation(&from)).await;
                }
            }
        }
        let until =
            Instant::now() + pulse::wait(shared.options.interval, failures, fastrand::f64());
        let is_news =
            || line.sightings.are_there() || !Arc::ptr_eq(&inventory, &shared.state.inventory());
        // A new title is reported within a second, and so are answers about other nodes. Only once between two heartbeats: a fill must not
        // multiply them.
        while Instant::now() < until {
            if failures == 0 && !was_early && is_news() {
                break;
            }
            sleep(ONE_SECOND.min(until - Instant::now())).await;
        }
        was_early = Instant::now() < until;
    }
}

impl Shared {
    async fn beat(&self, line: &Line) -> Result<HeartbeatAnswer, Trouble> {
        let node = self.membership().node.clone();
        let boot = self.boot.name();
        let beat = Heartbeat {
            version: 1,
            node,
            boot: boot.clone(),
            sequence: self.sequence.fetch_add(1, Relaxed) + 1,
            sent_unix_millis: u64::try_from(now_unix_millis()).unwrap_or_default(),
            condition: self.state.condition(),
            load: self.state.load(),
            inventory: self.inventory_digest(),
            snapshot: line.snapshot.load(Relaxed),
            receipts: self.state.receipts(),
            fill: self.state.fill(),
            fill_bytes_per_day: self.state.fill_bytes_per_day(),
            served_at: self.state.served_at(),
            sightings: line.sightings.take(),
        };
        let (gateway, time_max) = (self.gateway(), pulse::timeout(self.options.interval));
        let answer = gateway.post(&line.address, "heartbeat", &beat, time_max).await;
        match &answer {
            Err(Trouble::Refused { reason, text }) if reason == STALE => {
                self.renew_boot(&line.address, &boot, text).await;
            }
            _ => {}
        }
        answer
    }

    /// A gateway has newer data of this node than it sent as `used`: change to another boot name.
    async fn renew_boot(&self, address: &str, used: &str, text: &str) {
        if self.boot.renew(used, Instant::now()) {
            crate::tell(&format!(
                "{address}: {text}. This agent continues with a new boot id. If this line appears again, look for a second machine with a copy of {}: \
                 stop it, remove its copy, and let it join with its own invitation",
                self.state_dir.display()
            ));
        }
        self.hand_over(|state| state.handle_overtaken()).await;
    }

    /// The digest of the inventory. It is computed when the inventory changes, not for each heartbeat: it may be megabytes.
    fn inventory_digest(&self) -> Digest {
        let inventory = self.state.inventory();
        let mut summed = self.summed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*summed {
            Some((of, digest)) if Arc::ptr_eq(of, &inventory) => *digest,
            _ => summed.insert((Arc::clone(&inventory), inventory.digest())).1,
        }
    }

    /// Calls the box on a thread that may block.
    async fn hand_over<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn BoxState) -> T + Send + 'static,
    ) -> Option<T> {
        let state = Arc::clone(&self.state);
        // A panic there has been reported already.
        tokio::task::spawn_blocking(move || call(&*state)).await.ok()
    }

    fn gateway(&self) -> Gateway {
        self.gateway.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves the node's membership. Two gateways may answer at the same time, and the older state must not win.
    async fn keep_membership(&self) -> Result<(), String> {
        let (membership, keeping) = (Arc::clone(&self.membership), Arc::clone(&self.keeping));
        let state_dir = self.state_dir.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let _turn = keeping.lock().unwrap_or_else(PoisonError::into_inner);
            let own = membership.lock().unwrap_or_else(PoisonError::into_inner).clone();
            own.keep(&state_dir)
        });
        // A panic there has been reported already.
        kept.await.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Notes that a gateway answers at this address: it will be asked again if the fleet's list is ever wrong.
    async fn note_answer(&self, address: &str) {
        if !self.membership().note_answer(address) {
            return;
        }
        self.ask_known();
        if let Err(error) = self.keep_membership().await {
            crate::tell(&format!("cannot save which gateways answer: {error}"));
        }
    }

    /// Sends heartbeats to the currently known gateways from now on.
    fn ask_known(&self) {
        self.gateways.send_if_modified(|asked| {
            let known = self.membership().gateways();
            let is_news = *asked != known;
            *asked = known;
            is_news
        });
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
