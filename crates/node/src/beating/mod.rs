//! A node's side of the machines' API: it beats to every gateway it knows, fetches what is news, and renews its certificate.
//!
//! Each gateway has two tasks. One beats, and waits for nothing else. The other fetches what the last answer said is news, which may
//! take long. So a large snapshot on a slow line never makes a node look dead. A node beside a router has a third, which passes its routes on.

mod boot;
mod certifying;
mod clocks;
mod copies;
mod fetching;
mod pulse;
mod renewing;
mod routes;
mod sighting;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use fleet::{Digest, Heartbeat, HeartbeatAnswer, Inventory};
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

/// The reason of gateways that refuse a revoked node.
const REVOKED: &str = "revoked";

/// A gateway's reason for refusing a heartbeat older than its data.
pub(crate) const STALE: &str = "stale";

/// How a node beats. The defaults are the fleet's; tests and scaled runs shorten them.
#[derive(Clone, Debug)]
pub struct BeatingOptions {
    /// Time between heartbeats to one gateway, give or take a fifth.
    pub interval: Duration,
    /// A node takes even a large fleet's snapshot so often, if it has changed. It has megabytes there, and changes each second; one of a small
    /// fleet is taken with every heartbeat.
    pub snapshot_interval: Duration,
    /// A node sends its inventory to one gateway no more often, but for the first few.
    pub inventory_interval: Duration,
    /// What the site's router says, if the node passes that on.
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

/// Heartbeats under way. Dropping it ends them.
#[derive(Debug)]
pub struct Beating {
    task: JoinHandle<()>,
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all tasks of a node share.
struct Shared {
    options: BeatingOptions,
    state_dir: PathBuf,
    state: Arc<dyn BoxState>,
    boot: Boot,
    sequence: AtomicU64,
    membership: Arc<Mutex<Membership>>,
    /// Held while that is written.
    keeping: Arc<Mutex<()>>,
    credentials: RwLock<Arc<Credentials>>,
    gateway: RwLock<Gateway>,
    /// Those that are asked: see [`Membership::gateways`].
    gateways: watch::Sender<Vec<String>>,
    /// What was taken last, from whichever gateway.
    taken: Mutex<Taken>,
    summed: Mutex<Option<(Arc<Inventory>, Digest)>>,
}

#[derive(Default)]
struct Taken {
    desired: Option<Digest>,
    keys: Option<Digest>,
}

/// Starts to beat, on the caller's runtime.
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

/// One pair of tasks for each gateway that the node knows, as they come and go.
async fn beat_to_all(shared: Arc<Shared>) {
    // Ends its tasks when this one is aborted.
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
                let line = Arc::new(Line { address, snapshot, sightings });
                let beat = beat_to(Arc::clone(&shared), Arc::clone(&line), answers);
                let fetch = fetching::fetch_news(Arc::clone(&shared), line, heard);
                let mut handles = vec![tasks.spawn(beat), tasks.spawn(fetch)];
                handles.extend(routes.map(|routes| tasks.spawn(routes)));
                handles
            });
        }
        if known.changed().await.is_err() {
            return;
        }
    }
}

/// What both tasks of one gateway know.
struct Line {
    address: String,
    /// The number of the gateway's snapshot that the box has.
    snapshot: AtomicU64,
    /// Reports on the nodes that this gateway can't hear.
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
            // It arrived, and the next heartbeat comes under another name.
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
        // A title that has arrived is reported within a second, and so are answers about other nodes. Only once between two heartbeats: a fill must
        // not multiply them.
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
        // A gateway that takes longer is as good as silent.
        let (gateway, time_max) = (self.gateway(), self.options.interval);
        let answer = gateway.post(&line.address, "heartbeat", &beat, time_max).await;
        match &answer {
            Err(Trouble::Refused { reason, text }) if reason == STALE => {
                self.renew_boot(&line.address, &boot, text).await;
            }
            _ => {}
        }
        answer
    }

    /// A gateway has newer data of this node than was sent as `used`: from now on it beats under another name.
    async fn renew_boot(&self, address: &str, used: &str, text: &str) {
        if self.boot.renew(used, Instant::now()) {
            crate::tell(&format!(
                "{address}: {text}. This agent goes on under a new boot id. If this line comes again, look for a second machine with a copy of {}: \
                 stop it, remove its copy, and let it join by an invitation of its own",
                self.state_dir.display()
            ));
        }
        self.hand_over(|state| state.handle_overtaken()).await;
    }

    /// The digest of what the box holds. It is summed when that changes, and not for each heartbeat: it may be megabytes.
    fn inventory_digest(&self) -> Digest {
        let inventory = self.state.inventory();
        let mut summed = self.summed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*summed {
            Some((of, digest)) if Arc::ptr_eq(of, &inventory) => *digest,
            _ => summed.insert((Arc::clone(&inventory), inventory.digest())).1,
        }
    }

    /// Calls the box where waiting for a disk is allowed.
    async fn hand_over<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn BoxState) -> T + Send + 'static,
    ) -> Option<T> {
        let state = Arc::clone(&self.state);
        // A panic in there has been reported, and is not ours.
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

    /// Writes what the node knows of its fleet. Two gateways tell at the same time, and the older word must not be the last one.
    async fn keep_membership(&self) -> Result<(), String> {
        let (membership, keeping) = (Arc::clone(&self.membership), Arc::clone(&self.keeping));
        let state_dir = self.state_dir.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let _turn = keeping.lock().unwrap_or_else(PoisonError::into_inner);
            let own = membership.lock().unwrap_or_else(PoisonError::into_inner).clone();
            own.keep(&state_dir)
        });
        // A panic in there has been reported, and is not ours.
        kept.await.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// A gateway answers there: it is asked again if the fleet's list is ever wrong.
    async fn note_answer(&self, address: &str) {
        if !self.membership().note_answer(address) {
            return;
        }
        self.ask_known();
        if let Err(error) = self.keep_membership().await {
            crate::tell(&format!("cannot keep which gateways answer: {error}"));
        }
    }

    /// From now on, the gateways are asked that the node knows now.
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
