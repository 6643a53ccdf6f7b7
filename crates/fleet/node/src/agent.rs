//! The agent, assembled: the titles that a box holds, its server, and whether it wants viewers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fleet_protocol::{
    Condition, Digest, EdgeProgress, ExperienceReport, HeartbeatAnswer, Load, Name, OriginRoot,
    PublicKey, PublishedTitle, ServedAt, State, WatchReport,
};
use serde::Serialize;
use tls::client::Trust;
use token::CopyRing;
use tokio::sync::watch;

use crate::beating::draw_boot;
use crate::bird::{BirdReading, BirdStatus};
use crate::certificate::ViewerCertificate;
use crate::condition::{ControlLoop, change_log::ChangeLog, observe::observe};
use crate::edge_purging::{EdgePurging, EdgeServer};
use crate::experience::ExperienceRelay;
use crate::gateway_state::GatewayState;
use crate::holding::{FillWindow, HoldingOptions, HoldingStatus, Replicator, lock, wall_clock};
use crate::persistence;
use crate::server::{Found, ServerOptions, ServerProcess, admin};
use crate::stop::Wakeup;
use crate::watch_report::{ServerTitles, WatchTally};

/// How often the box checks itself.
const LOOK: Duration = Duration::from_secs(1);

/// The configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The box's name.
    pub node: Name,
    /// The agent's state folder.
    pub state: PathBuf,
    /// The folders of the library.
    pub libraries: Vec<PathBuf>,
    /// The limit on copying, in bytes per second; 0 means no limit.
    pub copy_bytes_per_second: u64,
    /// When titles are fetched; always, if there is none.
    pub windows: Vec<FillWindow>,
    /// The most bytes to fetch in one window, or in a day without windows; 0 means no limit.
    pub fill_bytes_max: u64,
    /// How long a node waits for each of those before it in its cluster, in addition to the time that a title takes.
    pub fill_wait: Duration,
    /// Every title is read again and verified within this time.
    pub scrub: Duration,
    /// How long to keep a title that the plan assigns to other nodes, after steering has sent viewers elsewhere.
    pub evict_after: Duration,
    /// How often to report views to gateways: each minute, except in tests, which would take too long.
    pub report: Duration,
    /// The most that the box may send; 0 if unknown.
    pub ceiling_bits_per_second: u64,
    /// The fleet's keys for snapshots: a signature by any of them is valid.
    pub snapshot_keys: Vec<PublicKey>,
    /// The fleet's public keys for signed URLs, in the form that `fullbore serve` reads; empty if the fleet does not sign.
    pub viewer_keys: String,
    /// The allowed origins, besides nodes; if none is named, any folder and any bucket.
    pub origins: Vec<OriginRoot>,
    /// Verifies the certificates of other nodes and origins.
    pub trust: Trust,
    /// The host of the addresses that viewers get.
    pub host: String,
    /// The caching edge on this box, if the fleet purges one.
    pub edge: Option<Arc<dyn EdgeServer>>,
    /// The program that serves, and its flags.
    pub program: PathBuf,
    /// Flags for the program.
    pub serve_flags: Vec<String>,
}

/// Why an agent does not start. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent uses the state folder.
    #[error(
        "another agent runs with the state folder {0}: stop it, or choose another folder with --state"
    )]
    Busy(PathBuf),
    /// A file or folder could not be used.
    #[error("cannot use {0}: {1}")]
    Io(PathBuf, io::Error),
}

/// The contents of `agent.json` in the state folder, for operators. It is rewritten each second.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    version: u32,
    node: Name,
    /// Whether it wants viewers.
    pub condition: Condition,
    /// Its current load.
    pub load: Load,
    server: ServerStatus,
    /// The titles that it holds.
    pub holding: HoldingStatus,
    /// The last answers of gateways, by their addresses.
    gateways: BTreeMap<String, Heard>,
    /// The newest snapshot: its gateway, and its number.
    snapshot: Option<(Name, u64)>,
    /// The state of the site's router, if the box forwards its routes.
    bird: Option<BirdStatus>,
    /// How far the edge on this box is with the fleet's purges, without receipts.
    edge: Option<EdgeProgress>,
}

/// The last answer of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Heard {
    /// The state that it reports for this box.
    state: State,
    reason: Option<String>,
    /// This box's clock minus the gateway's.
    clock_ahead_millis: i64,
}

#[derive(Clone, Debug, Serialize)]
struct ServerStatus {
    is_up: bool,
    url: Option<String>,
    /// How it serves viewers, if the fleet sends them elsewhere.
    served_at: Option<ServedAt>,
    admin: Option<String>,
}

/// A running agent.
pub struct Agent {
    options: AgentOptions,
    replicator: Arc<Replicator>,
    server: Arc<ServerProcess>,
    control: Mutex<ControlLoop>,
    changes: ChangeLog,
    watched: Mutex<WatchTally>,
    experience: Mutex<ExperienceRelay>,
    gateway_state: GatewayState,
    certificate: Option<ViewerCertificate>,
    edge: Option<Arc<EdgePurging>>,
    heard: Mutex<BTreeMap<String, Heard>>,
    /// How the server serves, and how viewers come, as last logged.
    differs: Mutex<Option<(ServedAt, ServedAt)>>,
    /// When the server stops, because the box was revoked.
    ends: Mutex<Option<Instant>>,
    bird: Mutex<Option<watch::Receiver<BirdReading>>>,
    started: Instant,
    wakeup: Wakeup,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The lock on the state folder.
    _lock: fs::File,
}

impl Agent {
    /// Removes withdrawn titles and hides changed ones, starts or finds the server, and then works until [`Self::stop`].
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn start(options: AgentOptions) -> Result<Arc<Self>, AgentError> {
        let state = &options.state;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| AgentError::Io(path, error)
        };
        persistence::make_folder(state).map_err(failed(state))?;
        let own = lock_folder(state)?;
        let setup = HoldingOptions {
            node: options.node.clone(),
            state: state.clone(),
            libraries: options.libraries.clone(),
            copy_bytes_per_second: options.copy_bytes_per_second,
            windows: options.windows.clone(),
            fill_bytes_max: options.fill_bytes_max,
            fill_wait: options.fill_wait,
            scrub: options.scrub,
            evict_after: options.evict_after,
            clock: wall_clock,
            origins: options.origins.clone(),
            trust: options.trust.clone(),
        };
        let replicator = Arc::new(Replicator::open(setup).map_err(failed(&options.libraries[0]))?);
        let certificate = ViewerCertificate::open(state, &options.host, &options.serve_flags);
        let certificate = certificate.map_err(failed(state))?;
        let serving = ServerOptions {
            program: options.program.clone(),
            state: state.clone(),
            libraries: replicator.folders_left(),
            flags: options.serve_flags.clone(),
            keys: state.join(VIEWER_KEYS),
            copy_keys: state.join(COPY_KEYS),
            certificate: certificate.as_ref().map(ViewerCertificate::files),
        };
        // Before the server starts, because it reads them at its start.
        open_keys(state, &options.viewer_keys, &replicator).map_err(failed(state))?;
        let gateway_state =
            GatewayState::open(state, options.snapshot_keys.clone()).map_err(failed(state))?;
        gateway_state.fleet().into_iter().for_each(|fleet| replicator.note_fleet(fleet));
        let server = Arc::new(ServerProcess::new(serving).map_err(failed(state))?);
        let seen = Arc::clone(&server);
        replicator.watch_server(Box::new(move || seen.open_files()));
        let control = Mutex::new(ControlLoop::new(options.ceiling_bits_per_second));
        let watched = WatchTally::new(options.node.clone(), draw_boot(), options.report);
        let watched = Mutex::new(watched);
        let edge = options.edge.clone().map(|edge| Arc::new(EdgePurging::open(edge, state)));
        let (wakeup, threads, heard, differs, ends, bird) = Default::default();
        let agent = Arc::new(Self {
            replicator,
            server,
            control,
            changes: ChangeLog::new(state),
            watched,
            experience: Mutex::new(ExperienceRelay::new(options.node.clone())),
            gateway_state,
            certificate,
            edge,
            heard,
            differs,
            ends,
            bird,
            started: Instant::now(),
            wakeup,
            threads,
            _lock: own,
            options,
        });
        agent.start_threads().map_err(failed(&agent.options.state))?;
        Ok(agent)
    }

    fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let mut threads = lock(&self.threads);
        threads.push(self.server.start()?);
        threads.extend(self.replicator.start()?);
        self.edge.iter().try_for_each(EdgePurging::start)?;
        let agent = Arc::clone(self);
        let look = move || agent.keep_looking();
        threads.push(std::thread::Builder::new().name("look".into()).spawn(look)?);
        Ok(())
    }

    /// Stops the server, which drains, and everything else.
    pub fn stop(&self) {
        self.replicator.stop();
        self.server.stop();
        self.edge.iter().for_each(|edge| edge.stop());
        self.wakeup.stop();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }

    /// The titles that it holds.
    pub fn replicator(&self) -> &Arc<Replicator> {
        &self.replicator
    }

    /// The addresses that its server reported when it was ready.
    pub fn found(&self) -> Found {
        self.server.found()
    }

    /// Whether it wants viewers.
    pub fn condition(&self) -> Condition {
        lock(&self.control).condition()
    }

    /// Its current load.
    pub fn load(&self) -> Load {
        lock(&self.control).load()
    }

    /// The status for operators.
    pub fn status(&self) -> Status {
        let found = self.found();
        Status {
            version: 1,
            node: self.options.node.clone(),
            condition: self.condition(),
            load: self.load(),
            server: ServerStatus {
                is_up: self.server.is_up(),
                url: found.url,
                served_at: self.served_at(),
                admin: found.admin.map(|address| format!("http://{address}/")),
            },
            holding: self.replicator.status(),
            gateways: lock(&self.heard).clone(),
            snapshot: self.gateway_state.fleet().map(|fleet| {
                let snapshot = fleet.snapshot();
                (snapshot.gateway.clone(), snapshot.number)
            }),
            bird: lock(&self.bird).as_ref().map(|bird| bird.borrow().status.clone()),
            edge: self.edge.as_ref().map(|edge| edge.progress(u64::MAX)),
        }
    }

    /// How the server serves viewers, if the fleet sends them elsewhere.
    pub(crate) fn served_at(&self) -> Option<ServedAt> {
        let (own, wanted) = self.own_and_wanted()?;
        (own != wanted).then_some(own)
    }

    /// How the server serves, and how viewers come; `None` until both are known.
    fn own_and_wanted(&self) -> Option<(ServedAt, ServedAt)> {
        let own = ServedAt::of_url(&self.found().url?)?;
        Some((own, self.gateway_state.fleet()?.snapshot().policy.served_at()))
    }

    /// Warns the operator if viewers are sent to an address that the server does not serve. Nothing else would: to gateways the box looks
    /// healthy. It still wants viewers, because a proxy in front of it may forward them.
    fn note_served_at(&self) {
        // Ignore a server that is restarting.
        let Some((own, wanted)) = self.own_and_wanted() else { return };
        let now = (own != wanted).then_some((own, wanted));
        let mut told = lock(&self.differs);
        if *told == now {
            return;
        }
        crate::tell(&match &now {
            Some((own, wanted)) => format!(
                "the fleet sends viewers to this box by {wanted}, but its server serves {own}: unless a proxy forwards them, they get nothing; \
                 start the node with another --listen or --tls after --, or change the fleet's policy (PUT /api/v1/policy)"
            ),
            None => "the fleet now sends viewers to the address that this box's server serves"
                .to_owned(),
        });
        *told = now;
    }

    /// Includes the state of the site's router in the status from now on.
    pub fn show_bird(&self, readings: watch::Receiver<BirdReading>) {
        *lock(&self.bird) = Some(readings);
    }

    /// The certificate that viewers see, if the server has none of its own.
    pub(crate) fn certificate(&self) -> Option<&ViewerCertificate> {
        self.certificate.as_ref()
    }

    /// The fleet's purges of the edge on this box, if it has one.
    pub(crate) fn edge(&self) -> Option<&Arc<EdgePurging>> {
        self.edge.as_ref()
    }

    /// The data received from gateways.
    pub(crate) fn gateway_state(&self) -> &GatewayState {
        &self.gateway_state
    }

    /// Notes a gateway's answer, and logs changes.
    pub(crate) fn note_answer(
        &self,
        gateway: &str,
        answer: &HeartbeatAnswer,
        clock_ahead_millis: i64,
    ) {
        let (state, reason) = (answer.state, answer.reason.clone());
        let heard = Heard { state, reason, clock_ahead_millis };
        let before = lock(&self.heard).insert(gateway.to_owned(), heard.clone());
        if before.as_ref().map(|before| before.state) != Some(heard.state) {
            let reason = heard.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            crate::tell(&format!("{gateway} lists this box as {}{reason}", heard.state.as_str()));
        }
        let was_off = before.is_some_and(|before| is_off(before.clock_ahead_millis));
        if is_off(clock_ahead_millis) && !was_off {
            crate::tell(&format!(
                "this box's clock is {clock_ahead_millis} ms ahead of that of {gateway}: correct one of them"
            ));
        }
    }

    /// Notes that a gateway has revoked this box. New viewers are no longer sent here, and current ones move elsewhere when they ask for
    /// steering again. The server stops once they have had time for that: any viewer left does not follow steering, and a revoked box must
    /// not serve.
    pub(crate) fn note_revocation(&self, gateway: &str) {
        let heard = Heard { state: State::Revoked, reason: None, clock_ahead_millis: 0 };
        lock(&self.heard).insert(gateway.to_owned(), heard);
        let mut ends = lock(&self.ends);
        if ends.is_none() {
            let policy = self.gateway_state.fleet().map(|fleet| fleet.snapshot().policy.clone());
            let seconds = policy.unwrap_or_default().ttl_seconds;
            *ends = Some(Instant::now() + Duration::from_secs(seconds.into()));
            crate::tell(&format!(
                "{gateway} says that this box is revoked: its server stops in {seconds} s, when viewers have left; to come back, join under another name"
            ));
        }
    }

    /// A gateway has newer data of this box. Reports continue under another boot name, because the gateway would take them for old ones.
    pub(crate) fn note_overtaken(&self) {
        lock(&self.watched).rename(draw_boot());
    }

    fn end_revoked(&self) {
        if lock(&self.ends).is_some_and(|ends| ends <= Instant::now()) {
            self.server.stop();
        }
    }

    /// Takes the fleet's keys.
    pub(crate) fn note_keys(&self, snapshots: Vec<PublicKey>, viewer_keys: &str) {
        self.gateway_state.handle_keys(snapshots);
        if !viewer_keys.is_empty() {
            self.replicator.note_signing(true);
        }
        // The server notices new keys by itself, even the first ones.
        if let Err(error) = keep_viewer_keys(&self.options.state, viewer_keys) {
            crate::tell(&format!("cannot save the keys for signed URLs: {error}"));
        }
    }

    /// Takes the keys with which nodes prove that they copy titles, for its own copies and for its server.
    pub(crate) fn note_copy_keys(&self, text: &str) -> Result<(), String> {
        let ring = CopyRing::parse(text).map_err(|why| why.to_string())?;
        self.replicator.note_copy_keys(ring);
        let place = self.options.state.join(COPY_KEYS);
        // The server notices new keys by itself.
        let kept = match persistence::read(&place) {
            Ok(Some(had)) if had == text.as_bytes() => Ok(()),
            _ => persistence::write_secret(&place, text.as_bytes()),
        };
        kept.map_err(|error| format!("cannot save them: {error}"))
    }

    /// The documents that it needs to answer viewers and has no copy of.
    pub(crate) fn missing(&self) -> Vec<Digest> {
        self.gateway_state.missing_documents(|title| self.replicator.folder_of(title).is_some())
    }

    /// A document of a title, from its copy or from the library.
    pub fn document(&self, sha256: &Digest) -> Option<Vec<u8>> {
        self.gateway_state
            .document(sha256, |title: &PublishedTitle| self.replicator.folder_of(title))
    }

    /// The oldest report of views that is newer than `number`.
    pub fn watched_after(&self, number: u64) -> Option<Arc<WatchReport>> {
        lock(&self.watched).after(number)
    }

    /// The oldest report of viewers' experience after this place, and its place.
    pub fn experience_after(&self, place: u64) -> Option<(u64, Arc<ExperienceReport>)> {
        lock(&self.experience).after(place)
    }

    fn keep_looking(&self) {
        while !self.wakeup.is_stopped() {
            let admin = self.found().admin;
            let status = admin.and_then(|address| admin::status(address).ok());
            let observed = observe(admin, status.as_ref(), self.replicator.free_bytes());
            self.end_revoked();
            self.note_served_at();
            self.replicator.note_viewers(observed.viewers());
            self.server.serve_folders(self.replicator.folders_left());
            let change = lock(&self.control).handle_and_note(observed, self.started.elapsed());
            change.iter().for_each(|change| self.changes.add(change));
            status.iter().for_each(|status| self.replicator.note_wanted(status));
            self.note_watched(status.as_ref().map(ServerTitles::of));
            self.note_experience(admin);
            if let Err(error) = self.write_status() {
                crate::tell(&format!("cannot write the status: {error}"));
            }
            self.wakeup.pause(LOOK);
        }
    }

    fn note_watched(&self, server: Option<ServerTitles>) {
        let is_fleets = self.is_fleets();
        lock(&self.watched).handle(server, is_fleets, self.started.elapsed());
    }

    /// Takes the server's reports of viewers' experience, without the lock while it answers.
    fn note_experience(&self, admin: Option<SocketAddr>) {
        let path = lock(&self.experience).path();
        if let Some(viewing) = admin.and_then(|address| admin::viewing(address, &path).ok()) {
            let is_fleets = self.is_fleets();
            lock(&self.experience).handle(viewing, is_fleets);
        }
    }

    /// Knows the paths of the fleet's titles. Others in the library are private. Gateways list titles by path. The box may still hold titles that
    /// the plan assigns to others.
    fn is_fleets(&self) -> impl Fn(&str) -> bool {
        let (desired, fleet) = (self.replicator.desired(), self.gateway_state.fleet());
        move |path| {
            let place = desired.titles.binary_search_by(|title| title.path.as_str().cmp(path));
            place.is_ok() || fleet.as_ref().is_some_and(|fleet| fleet.title(path).is_some())
        }
    }

    /// For people and scripts on the box. It need not survive a power failure.
    fn write_status(&self) -> io::Result<()> {
        let place = self.options.state.join("agent.json");
        let fresh = self.options.state.join("agent.json.new");
        fs::write(&fresh, serde_json::to_vec_pretty(&self.status())?)?;
        fs::rename(fresh, place)
    }
}

/// Ensures one agent per state folder. The kernel releases the lock of an agent that dies; its server does not inherit it.
fn lock_folder(state: &Path) -> Result<fs::File, AgentError> {
    let failed = |error: io::Error| AgentError::Io(state.to_owned(), error);
    let folder = fs::File::open(state).map_err(failed)?;
    match rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(AgentError::Busy(state.to_owned())),
        locked => locked.map(|()| folder).map_err(|error| failed(error.into())),
    }
}

/// The file of the fleet's public keys for signed URLs.
const VIEWER_KEYS: &str = "viewer-keys.pem";

/// Saves the keys if they have changed. An empty answer revokes none. The file is created even without keys, because the server watches the
/// files that it knew at its start.
fn keep_viewer_keys(state: &Path, keys: &str) -> io::Result<()> {
    let place = state.join(VIEWER_KEYS);
    match persistence::read(&place)? {
        Some(had) if keys.is_empty() || had == keys.as_bytes() => Ok(()),
        _ => persistence::write(&place, keys.as_bytes()),
    }
}

/// The file of the keys with which nodes prove that they copy titles.
const COPY_KEYS: &str = "copy-keys";

/// Loads the keys that were saved before. Creates both files even without keys.
fn open_keys(state: &Path, viewer_keys: &str, replicator: &Replicator) -> io::Result<()> {
    keep_viewer_keys(state, viewer_keys)?;
    replicator.note_signing(!viewer_keys.is_empty());
    let place = state.join(COPY_KEYS);
    let Some(had) = persistence::read(&place)? else {
        return persistence::write_secret(&place, b"");
    };
    // Without usable keys, wait for the next ones from a gateway.
    let ring = std::str::from_utf8(&had).ok().and_then(|text| CopyRing::parse(text).ok());
    ring.into_iter().for_each(|ring| replicator.note_copy_keys(ring));
    Ok(())
}

/// Operators are warned of a clock that is off by more than this.
const CLOCK_OFF_MILLIS: u64 = 1000;

fn is_off(clock_ahead_millis: i64) -> bool {
    clock_ahead_millis.unsigned_abs() > CLOCK_OFF_MILLIS
}
