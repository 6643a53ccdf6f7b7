//! Starting a gateway: from the store, or from its own disk if the store is away.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use axum::body::Bytes;
use fleet_protocol::{Name, SigningKey};
use identity::{Authority, RefusalLog};
use tokio::sync::watch;
use viewer_api::decisions::DecisionLog;

use super::first_start::{NewFleet, make_fleet, random};
use super::put_back::Newest;
use super::reporting::Reports;
use super::{Gateway, Known};
use crate::clock::Clock;
use crate::desired::{Operators, Records, Wishes};
use crate::live::{Core, LiveFleet};
use crate::moves::Moves;
use crate::state_folder::StateFolder;
use crate::webhook::Webhook;
use store::backup::{bury, check_restored};
use store::records::BadRecord;
use store::{Election, Engine, LEASE_SECONDS, Objects, StoreError};

/// A gateway's configuration.
pub struct GatewayOptions {
    /// Its name, unique in the fleet.
    pub name: Name,
    /// The folder with everything it needs to steer alone.
    pub state: PathBuf,
    /// The store.
    pub engine: Arc<dyn Engine>,
    /// The kind of store, in one word.
    pub engine_name: &'static str,
    /// Where titles' documents are stored.
    pub objects: Arc<Objects>,
    /// Its address for nodes: `https://HOST:PORT`.
    pub machines_url: String,
    /// Its region: viewers whose address no site announces are assumed to be there.
    pub region: Option<Name>,
    /// Lifetime of viewers' signed addresses.
    pub token_seconds: u64,
    /// How often placement is recomputed once an operator has applied a plan; `None`: only on an operator's request.
    pub plan_every: Option<Duration>,
    /// The fleet to create if the store has none.
    pub new_fleet: NewFleet,
    /// The web server that gets a message when an issue begins or ends.
    pub webhook: Option<Arc<Webhook>>,
    /// Maximum size of the log of decisions, in bytes.
    pub decisions_bytes_max: u64,
    /// The function that logs for the operator, one line at a time.
    pub log: fn(&str),
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder or a file in it cannot be used.
    #[error("{0}: {1}")]
    Folder(PathBuf, String),
    /// The fleet cannot be created, or the store's record of it cannot be used.
    #[error("{0}")]
    Fleet(String),
}

impl GatewayError {
    pub(super) fn folder(path: &Path, error: &io::Error) -> Self {
        Self::Folder(path.to_owned(), error.to_string())
    }
}

impl From<BadRecord> for GatewayError {
    fn from(bad: BadRecord) -> Self {
        Self::Fleet(bad.to_string())
    }
}

/// The state that a gateway starts from.
struct Beginning {
    records: Records,
    store_problem: Option<String>,
    /// The newest state of the store seen in earlier runs.
    newest: Newest,
}

impl Gateway {
    /// Starts a gateway. It does not listen yet.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn start(options: GatewayOptions) -> Result<Arc<Self>, GatewayError> {
        let clock = Clock::start();
        let log = options.log;
        let state = StateFolder::open(&options.state);
        let state = state.map_err(|error| GatewayError::folder(&options.state, &error))?;
        let beginning = begin(&options, &state, clock.now().unix_seconds()).await?;
        let wishes =
            beginning.records.wishes(clock.now().unix_seconds()).map_err(GatewayError::Fleet)?;
        let authority = authority(&wishes)?;
        let signing = SigningKey::from_pkcs8(wishes.signing.reveal());
        let signing = signing.map_err(|error| GatewayError::Fleet(error.to_string()))?;
        let decisions_folder = state.path().join("decisions");
        let decisions = DecisionLog::open(&decisions_folder, options.decisions_bytes_max)
            .map_err(|error| GatewayError::folder(&decisions_folder, &error))?;
        let core = begun(&options, &state, &signing, clock);
        // The lease belongs to a process, not to a name: another process with the same name must not consider itself its holder.
        let owner = format!("{} {:016x}", options.name, u64::from_be_bytes(random()));
        let election = Election::new(Arc::clone(&options.engine), owner, LEASE_SECONDS);
        let gateway = Self {
            name: options.name,
            fleet_name: wishes.fleet.clone(),
            clock,
            live: Arc::new(LiveFleet::new(core, signing)),
            state,
            engine: options.engine,
            engine_name: options.engine_name,
            objects: options.objects,
            objects_needed: Mutex::default(),
            files: Mutex::default(),
            manifests: Mutex::default(),
            issues: Mutex::default(),
            reports: Reports::new(options.webhook),
            plan_every: options.plan_every,
            authority: Arc::new(authority),
            signing: wishes.signing.clone(),
            machines_url: options.machines_url,
            region: options.region,
            token_seconds: options.token_seconds,
            election,
            refusals: Arc::new(RefusalLog::new(log)),
            // Internet scanners cause many of these, so they are counted but not logged.
            viewers_refused: Arc::new(RefusalLog::new(|_| {})),
            operators_refused: Arc::new(RefusalLog::new(move |line| {
                log(&format!("admin listener: {line}"));
            })),
            listeners_refused: Default::default(),
            decisions,
            moves: Mutex::new(Moves::default()),
            long_work: Default::default(),
            answered: Mutex::default(),
            refused: Mutex::default(),
            known: RwLock::new(Arc::new(Known::nothing())),
            newest: Mutex::new(beginning.newest),
            reading: Default::default(),
            page: watch::Sender::new(Bytes::new()),
            log,
        };
        if let Some(problem) = &beginning.store_problem {
            log(&format!("starting from this gateway's own disk: {problem}"));
        }
        gateway.take(beginning.records, wishes, None, beginning.store_problem).await;
        gateway.introduce().await;
        gateway.restore_popularity().await;
        gateway.restore_issues();
        gateway.restore_experience();
        gateway.restore_reports();
        let _ = gateway.make_snapshot().inspect_err(|problem| gateway.tell(problem));
        Ok(Arc::new(gateway))
    }
}

/// The live state: nodes are as in the last snapshot on disk, until they report.
fn begun(
    options: &GatewayOptions,
    state: &StateFolder,
    signing: &SigningKey,
    clock: Clock,
) -> Core {
    let mut core = Core::new(options.name.clone());
    match state.read_snapshot(&signing.public()) {
        Ok(None) => {}
        Ok(Some((_, snapshot))) => core.restore(snapshot, clock.now()),
        // Steering works without it; nodes send heartbeats within seconds.
        Err(error) => {
            (options.log)(&format!("the last snapshot on disk cannot be used: {error}"));
        }
    }
    core
}

fn authority(wishes: &Wishes) -> Result<Authority, GatewayError> {
    let secret = &wishes.authority;
    let pem = secret.certificate_pem.as_deref().unwrap_or_default();
    let read = Authority::read(&wishes.fleet, secret.pkcs8.reveal(), pem);
    read.map_err(|error| GatewayError::Fleet(error.to_string()))
}

/// Reads the store, creates a fleet if there is none, or falls back to the gateway's own copy.
async fn begin(
    options: &GatewayOptions,
    state: &StateFolder,
    now_unix_seconds: u64,
) -> Result<Beginning, GatewayError> {
    let read = async {
        check_restored(&*options.engine).await?;
        let is_new =
            make_fleet(&*options.engine, &options.new_fleet, state, now_unix_seconds).await?;
        if is_new {
            (options.log)(&format!(
                "made the fleet {}; the admin's token is in {}",
                options.new_fleet.name,
                state.admin_token().display()
            ));
        }
        let records = Records::load(&*options.engine).await?;
        if bury_again(options, state, &records).await? {
            return Ok(Records::load(&*options.engine).await?);
        }
        Ok(records)
    };
    match read.await {
        Ok(records) => {
            // An unreadable copy is ignored.
            let kept = kept_records(state).ok().flatten();
            let newest = kept.as_ref().and_then(Newest::of).unwrap_or_default();
            Ok(Beginning { records, store_problem: None, newest })
        }
        Err(GatewayError::Store(error @ StoreError::Unavailable(_))) => {
            let Some(records) = kept_records(state)? else { return Err(error.into()) };
            let newest = Newest::of(&records).unwrap_or_default();
            Ok(Beginning { records, store_problem: Some(error.to_string()), newest })
        }
        Err(error) => Err(error),
    }
}

/// The gateway's own copy of the store, from when it last read it.
fn kept_records(state: &StateFolder) -> Result<Option<Records>, GatewayError> {
    let kept = state.read_store();
    let kept = kept.map_err(|error| GatewayError::folder(state.path(), &error))?;
    let read = kept.map(|kept| serde_json::from_slice(&kept)).transpose();
    read.map_err(|error| GatewayError::Folder(state.path().join("store.json"), error.to_string()))
}

/// If a backup was restored since this gateway ran, reapplies the revocations and withdrawals that it knows, before any viewer is steered. Returns
/// whether that changed anything.
async fn bury_again(
    options: &GatewayOptions,
    state: &StateFolder,
    records: &Records,
) -> Result<bool, GatewayError> {
    let known = crate::tombstones(state.path());
    if known.epoch >= records.tombstones().epoch {
        return Ok(false);
    }
    let count = bury(&*options.engine, &known).await?;
    if count > 0 {
        (options.log)(&format!(
            "a backup was restored, and {count} revocations and withdrawals missing from it were applied again"
        ));
    }
    Ok(count > 0)
}

impl Known {
    fn nothing() -> Self {
        Self {
            records: Records::default(),
            operators: Operators::default(),
            signer: None,
            keys_change_at: None,
            revision: None,
            store_problem: None,
        }
    }

    pub(super) fn of(
        records: Records,
        wishes: &Wishes,
        revision: Option<u64>,
        store_problem: Option<String>,
    ) -> Self {
        Self {
            records,
            operators: wishes.operators.clone(),
            signer: wishes.signer.clone(),
            keys_change_at: wishes.keys_change_at,
            revision,
            store_problem,
        }
    }
}
