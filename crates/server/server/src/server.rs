//! Starts the workers, and stops them.

use crate::access_log::AccessLog;
use crate::acme::{AcmeLink, StartingAcme};
use crate::admin::{self, Admin};
use crate::edge::{EdgeLink, Starting};
use crate::file_abilities::{Access, Lack};
use crate::folders::LibraryFolders;
use crate::hot_memory;
use crate::ingress::Ingress;
use crate::nic_watch;
use crate::notify::notify;
use crate::offload;
use crate::open_privileged::{self, Inputs, Opened};
use crate::pins;
use crate::redirect::Redirects;
use crate::reloads::{ReloadComplaints, Reloads};
use crate::renewal::Renewal;
use crate::sandbox;
use crate::signals::{News, Signals};
use crate::silo::{self, Ready, RunningWorker, Silo, Start};
use crate::start_error::{RunError, StartError};
use crate::title_listing::TitleListing;
use crate::upgrade::{
    self, HandoffClient, HandoffServer, HotRestart, Inherited, ListenerSet, NoSocket, UpgradeError,
};
use crate::worker::Shared;
use catalog::Title;
use config::{Config, Switch};
use delivery::NicShares;
use delivery::memory_budget::reserve_bytes;
use edge::origin_files::OriginFilesLink;
use live_figures::audience::Audience;
use machine::{Headroom, MemoryLimit};
use reactor::{RefusedNode, RingFeatures, take_refused_node};
use signal_hook::consts::SIGHUP;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use telemetry::Numbers;
use tls::Origin;

/// How often the main thread checks that the workers still run.
const WORKERS_LOOKED_AT: Duration = Duration::from_secs(2);

/// How long an ending server waits for clients of the admin pages and viewers who are being redirected: as long as one redirect may take.
const ADMIN_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How often an ending server checks whether it is done.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// A running server.
pub struct Server {
    opened: Opened,
    silos: Vec<Silo>,
    numbers: Vec<Arc<Numbers>>,
    /// Gets a message from each worker that has ended.
    ended: Receiver<()>,
    running: usize,
    ring: RingFeatures,
    /// A node whose memory the kernel refused, if it did.
    refused_node: Option<RefusedNode>,
    sandbox: sandbox::SandboxReport,
    /// The kernel can send the library's files by itself.
    can_send_files: bool,
    /// Missing permissions and features that would make it faster.
    lacks: Vec<Lack>,
    /// The tightest limit on memory at startup.
    memory_bound: Option<MemoryLimit>,
    admin: Admin,
    /// The renewal, until it starts.
    renewal: Option<Renewal>,
    /// The listeners for the next server.
    listeners: Arc<ListenerSet>,
    /// The helper for certificates, if there is one.
    acme: Option<Arc<AcmeLink>>,
    /// The socket for the next server's requests, until its thread starts, or why there is none; none if there should not be.
    socket: Option<Result<OwnedFd, NoSocket>>,
    /// The server that this one replaces.
    handoff: Option<HandoffClient>,
}

/// The threads without a ring, besides the workers.
struct Writers {
    access_log: Option<AccessLog>,
    /// The first results of the threads that watch the libraries' folders.
    access: Access,
    /// The list of titles of each library, if there are pages.
    listings: Vec<Option<TitleListing>>,
    edge: Option<Arc<EdgeLink>>,
    origin_files: Option<OriginFilesLink>,
    acme: Option<Arc<AcmeLink>>,
    nic_shares: Arc<NicShares>,
}

impl Writers {
    /// Starts them from a thread that has given up the privileges that rings need.
    fn start(
        opened: &Opened,
        log_out: Option<Box<dyn io::Write + Send>>,
        mut edge: Option<Starting>,
        acme: Option<StartingAcme>,
    ) -> Result<Self, StartError> {
        let Opened { config, folders, .. } = opened;
        let origin_files = edge.as_mut().and_then(Starting::take_origin_files);
        let start = move || {
            if config.sandbox {
                sandbox::give_up_for_rings();
            }
            let access_log = log_out.map(AccessLog::start).transpose();
            let cannot = |which| move |why| StartError::Thread { which, why };
            let access_log = access_log.map_err(cannot("access log"))?;
            let access = folders.watch().map_err(cannot("folder"))?;
            let listing = |library: &LibraryFolders| {
                config.page.then(|| TitleListing::start(&library.folders)).transpose()
            };
            let listings: Result<Vec<_>, _> = folders.iter().map(listing).collect();
            let listings = listings.map_err(cannot("shelf"))?;
            let edge = edge.map(|edge| edge.start(opened.workers, config.limits.open_files_max));
            let edge = edge.transpose().map_err(cannot("edge"))?;
            let acme = acme.map(StartingAcme::start).transpose().map_err(cannot("acme"))?;
            let nic_shares = nic_watch::start(opened.offload, offload::loss_limits(config));
            let nic_shares = nic_shares.map_err(cannot("cards"))?;
            Ok(Self { access_log, access, listings, edge, origin_files, acme, nic_shares })
        };
        std::thread::scope(|scope| scope.spawn(start).join())
            .unwrap_or(Err(StartError::ThreadPanicked))
    }
}

impl Server {
    /// Starts every worker, and returns when all of them accept connections.
    ///
    /// # Errors
    /// One line: the failure, and how to fix it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with(config, None, None)
    }

    /// As [`Self::start`], for a server that can hand over to the next one, or that replaces another one. It accepts connections
    /// once [`Self::take_over`] returns.
    ///
    /// # Errors
    /// As [`Self::start`]; the other server gets the error, and continues.
    pub fn start_in_hot_restart(
        config: Config,
        hot_restart: HotRestart,
    ) -> Result<Self, StartError> {
        let HotRestart { socket, mut handoff } = hot_restart;
        let inherited = handoff.as_mut().map(HandoffClient::inherited);
        match Self::start_with(config, socket.as_deref(), inherited) {
            Ok(server) => Ok(Self { handoff, ..server }),
            Err(why) => {
                if let Some(handoff) = &handoff {
                    handoff.fail(&why);
                }
                Err(why)
            }
        }
    }

    fn start_with(
        config: Config,
        socket: Option<&Path>,
        mut inherited: Option<Inherited>,
    ) -> Result<Self, StartError> {
        open_privileged::check_settings(&config)?;
        let inherited_socket = inherited.as_mut().and_then(|inherited| inherited.socket.take());
        let (opened, inputs) = Opened::open(config, inherited)?;
        let Inputs { ingress, keys, lists, log_out, own_files, listeners, sources, edge, acme } =
            inputs;
        let socket = socket.map(|path| upgrade::open_socket(path, inherited_socket));
        // Before the threads, because Landlock covers the calling thread and those that it starts.
        let mut sandbox = opened.confine_files();
        let Writers { access_log, access, listings, edge, origin_files, acme, nic_shares } =
            Writers::start(&opened, log_out, edge, acme)?;
        let lacks = access.lacks(&opened.config, opened.offload);
        let (memory, memory_bound) = (opened.memory_bytes(), tightest(&opened.headroom));
        let mut silos = opened.make_silos(memory_bound)?;
        let (epoch, pins) = (Instant::now(), opened.start_pins(&silos)?);
        let shared =
            opened.shared(keys.clone(), &own_files, listings, pins, epoch, memory_bound)?;
        let shared = Shared { edge: edge.clone(), lists: Arc::clone(&lists), nic_shares, ..shared };
        let log_path = opened.config.access_log.as_deref();
        let log = access_log.as_ref().zip(log_path).and_then(|(log, path)| log.reopener(path));
        let Workers { numbers, audiences, ended, ready: Ready { ring, refused_node } } =
            start_workers(&mut silos, shared, memory, access_log, ingress, &listeners)?;
        // Hot sets were made on this thread.
        let refused_node = refused_node.or_else(take_refused_node);
        let watched = watched(&numbers, audiences);
        let reloads = Arc::<Reloads>::default();
        let chosen = chosen(&opened, lacks.clone(), acme.clone(), Arc::clone(&reloads), edge);
        let admin =
            Admin::start(Arc::clone(&listeners), watched, &opened.config, chosen, epoch, sources);
        let admin = admin.map_err(StartError::Admin)?;
        let workers = silos.iter().flat_map(Silo::workers);
        let renewal = Renewal {
            config: Arc::clone(&opened.config),
            tls: opened.tls.clone(),
            keys: keys.signed,
            copies: keys.copies,
            lists,
            origin_files,
            log,
            own_files,
            folders: Arc::clone(&opened.folders),
            controls: workers.map(|worker| Arc::clone(&worker.control)).collect(),
            complaints: ReloadComplaints::new(reloads),
            refused_lists: Vec::new(),
        };
        opened.confine_calls(&mut sandbox);
        Ok(Self {
            opened,
            silos,
            running: numbers.len(),
            numbers,
            ended,
            ring,
            refused_node,
            sandbox,
            can_send_files: access.can_send_files(),
            lacks,
            memory_bound,
            admin,
            renewal: Some(renewal),
            listeners,
            acme,
            socket,
            handoff: None,
        })
    }

    /// Checks a configuration as far as possible without starting: settings, library, silos, certificates, keys.
    ///
    /// # Errors
    /// One line: what, and what to do about it.
    pub fn check(config: &Config) -> Result<(), StartError> {
        open_privileged::check(config)
    }

    /// The address that it serves on, with the port that the kernel chose if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.opened.address
    }

    /// The address of health, metrics and status.
    pub fn admin_address(&self) -> SocketAddr {
        self.opened.admin_address
    }

    /// The workers' counters.
    pub fn numbers(&self) -> &[Arc<Numbers>] {
        &self.numbers
    }

    /// The titles that can be listed now, sorted by name, each with the folder that it is in, excluding those of the sites'
    /// libraries.
    pub fn titles(&self) -> impl FnOnce() -> Vec<(PathBuf, Title)> + Send + use<> {
        let folders = Arc::clone(&self.opened.folders);
        move || folders.titles()
    }

    fn describe_signing(&self) -> Option<String> {
        let signing = &self.opened.config.signing;
        let required = signing.required.join(", ");
        let keys = self.renewal.as_ref().and_then(|renewal| renewal.keys.as_deref());
        let how = match keys {
            Some(keys) if keys.is_empty() => "as soon as there is a key",
            Some(keys) if !keys.is_secret() => "checked with public keys only",
            _ => "see fullbore sign",
        };
        let cats = match signing.cat_keys.is_empty() {
            true => "",
            false => "; Common Access Tokens are accepted",
        };
        let line = format!("signing   a token is required for {required}, {how}{cats}");
        signing.has_files().then_some(line)
    }

    /// Lines for people about this machine's features and the server's choices.
    pub fn describe(&self) -> Vec<String> {
        let Config { disk, off, .. } = &*self.opened.config;
        let mut lines = vec![
            format!("route     {}", self.describe_route()),
            format!("disk      {}", describe_disk(*disk)),
            format!("workers   {}, io_uring with {}", self.numbers.len(), self.ring.describe()),
            format!("sandbox   {}", self.sandbox),
        ];
        lines.extend(describe_total(&self.opened.config));
        lines.extend(self.opened.nics.iter().cloned());
        lines.extend(self.opened.folders.describe());
        lines.extend(self.opened.silo_map.describe());
        lines.extend(self.opened.silo_map.describe_rotating(&self.opened.config));
        lines.extend(self.refused_node.as_ref().map(describe_refused_node));
        let hot_sets = self.silos.iter().filter_map(|silo| silo.hot_memory().describe());
        lines.extend(hot_sets.map(|hot_set| format!("hot set   {hot_set}")));
        let has_hot_set = self.silos.iter().any(|silo| silo.hot_memory().set().is_some());
        let cut = hot_memory::describe_cut(&self.opened.config, self.opened.memory_bytes());
        lines.extend(cut.filter(|_| has_hot_set).map(|cut| format!("hot set   {cut}")));
        lines.extend(pins::describe(&self.opened.config.memory.pins, has_hot_set));
        lines.extend(self.lacks.iter().map(|lack| {
            let Lack { what, why, cost, remedy } = lack;
            format!(
                "lacking   {what}: {why}. The cost: {cost}. To fix it: {remedy} (docs/serve.md)"
            )
        }));
        if let Some(tls) = &self.opened.tls {
            let origin = match tls.origin() {
                Origin::Given => "given".to_owned(),
                Origin::Issued { path } => format!("by ACME, kept in {}", path.display()),
                Origin::SelfSigned { .. } if self.opened.config.tls.acme.is_some() => {
                    "self-signed, until the one by ACME is there".to_owned()
                }
                Origin::SelfSigned { path } => format!("self-signed, kept in {}", path.display()),
            };
            lines.push(format!(
                "tls       certificate {origin}, SHA-256 {}",
                tls.fingerprint_sha256()
            ));
        }
        if let Some(bound) = self.memory_bound {
            lines.push(describe_memory(bound));
        }
        lines.extend(self.describe_signing());
        if let Some(address) = self.opened.redirect_address {
            lines.push(format!("redirect  http://{address}, to HTTPS"));
        }
        lines.extend(self.describe_entrance());
        if let Some(Err(why)) = &self.socket {
            lines.push(format!("upgrade   impossible: {why}"));
        }
        if !off.is_empty() {
            let names: Vec<_> = Switch::ALL
                .iter()
                .filter(|(s, ..)| off.contains(s))
                .map(|(_, name, _)| *name)
                .collect();
            lines.push(format!("off       {}", names.join(", ")));
        }
        lines
    }

    /// The trusted proxies, and the addresses that may connect.
    fn describe_entrance(&self) -> impl Iterator<Item = String> {
        let Config { proxy_protocol, access, .. } = &*self.opened.config;
        let from = proxy_protocol.from.join(", ");
        let proxies = (!from.is_empty()).then(|| {
            format!("proxies   {from}: each connection must begin with a PROXY v2 header")
        });
        let renewal = self.renewal.as_ref().filter(|_| access.files().next().is_some());
        let lists = renewal.map(|renewal| format!("access    {}", renewal.lists));
        proxies.into_iter().chain(lists)
    }

    fn describe_route(&self) -> String {
        let Opened { offload, config, bypass, .. } = &self.opened;
        let own = || offload::describe(*offload, config, self.can_send_files);
        bypass.clone().unwrap_or_else(own)
    }

    fn workers(&self) -> impl Iterator<Item = &RunningWorker> {
        self.silos.iter().flat_map(Silo::workers)
    }

    /// Takes over from the previous server, if there is one: from now on this one accepts.
    ///
    /// # Errors
    /// If the other server does not leave; it then continues.
    pub fn take_over(&self) -> Result<(), StartError> {
        let Some(handoff) = &self.handoff else { return Ok(()) };
        handoff.take_over()?;
        if let Err(why) = self.listeners.receive() {
            let error = UpgradeError::Options(why);
            handoff.fail(&error);
            return Err(error.into());
        }
        self.workers().for_each(|worker| worker.control.set_standby(false));
        self.admin.control().set_standby(false);
        Ok(())
    }

    /// Stops accepting connections. Sessions end after their current response.
    pub fn drain(&self) {
        self.admin.drain();
        self.end_sessions();
    }

    fn end_sessions(&self) {
        self.workers().for_each(|worker| worker.control.drain());
        self.listeners.stop();
    }

    /// Waits until every worker has ended, or until `deadline`. Returns whether all have ended.
    ///
    /// # Errors
    /// If a worker failed.
    pub fn join(&mut self, deadline: Instant) -> Result<bool, RunError> {
        while self.running > 0 {
            match self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => self.running -= 1,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                // Every worker's end of the channel is closed, so all workers have ended.
                Err(RecvTimeoutError::Disconnected) => self.running = 0,
            }
        }
        self.silos.iter_mut().try_for_each(Silo::join).map(|()| true)
    }

    /// Serves until a signal stops it, or another server has taken over. SIGTERM or SIGINT drains, a second one ends the server at
    /// once, and SIGHUP reloads the certificates, the keys of signed URLs, the address lists and the files of an edge's origins, and reopens the
    /// access log.
    ///
    /// # Errors
    /// If a worker failed, or viewers had to be disconnected.
    pub fn run_until_signalled(mut self, signals: Signals) -> Result<(), RunError> {
        let (tell, news) = channel();
        signals.pass_on(tell.clone()).map_err(RunError::Signals)?;
        let renewal = self.renewal.take().expect("it is taken only here");
        let renewal = renewal.start().map_err(RunError::Renewal)?;
        self.start_handoff_threads(tell).map_err(RunError::Upgrade)?;
        let is_succeeded = loop {
            match news.recv_timeout(WORKERS_LOOKED_AT) {
                // The renewal thread ends only by a panic, whose message is above; the loaded files stay in use.
                Ok(News::Signal(SIGHUP)) => drop(renewal.send(())),
                Ok(News::Signal(_)) => break false,
                Ok(News::Succeeded) => break true,
                Err(RecvTimeoutError::Timeout) => {
                    if self.workers().any(|worker| worker.thread.is_finished()) {
                        self.drain();
                        self.join(Instant::now() + Duration::from_secs(1))?;
                        return Err(RunError::WorkerEnded);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        self.finish(&news, is_succeeded)
    }

    /// Starts the threads for the previous server and the next one.
    fn start_handoff_threads(&mut self, news: Sender<News>) -> io::Result<()> {
        match self.handoff.take() {
            Some(handoff) => handoff.await_settled(Arc::clone(&self.listeners))?,
            None => notify("READY=1"),
        }
        let Some(Ok(socket)) = self.socket.take() else { return Ok(()) };
        let handoff = HandoffServer {
            socket,
            listeners: Arc::clone(&self.listeners),
            controls: self.workers().map(|worker| Arc::clone(&worker.control)).collect(),
            admin: self.admin.control().clone(),
            acme: self.acme.clone(),
            config: Arc::clone(&self.opened.config),
            news,
        };
        handoff.start()
    }

    /// Ends. A server that `is_succeeded` gives its viewers time for one more request, because that response announces the end of the connection.
    fn finish(&mut self, news: &Receiver<News>, is_succeeded: bool) -> Result<(), RunError> {
        let config = Arc::clone(&self.opened.config);
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(config.drain_seconds);
        let viewers = self.viewers();
        let hint = "(signal again to stop at once)";
        eprintln!("fullbore: stopping; {viewers} connections may finish their responses {hint}");
        if is_succeeded {
            let patience = Duration::from_secs(config.drain_seconds) / 2;
            let have_left = || self.workers().all(|worker| worker.control.has_left());
            let has_viewers = || !have_left() || self.viewers() > 0;
            while begun.elapsed() < patience && has_viewers() && is_quiet(news) {
                std::thread::sleep(LOOKED_AT_EVERY);
            }
            self.end_sessions();
        } else {
            notify("STOPPING=1");
            self.drain();
        }
        while Instant::now() < deadline {
            if self.join(deadline.min(Instant::now() + LOOKED_AT_EVERY))? {
                if is_succeeded {
                    self.await_last_answers(news, deadline);
                }
                return Ok(());
            }
            if !is_quiet(news) {
                return Err(RunError::EndedAtOnce);
            }
        }
        Err(RunError::CutOff { after_seconds: config.drain_seconds })
    }

    /// Waits until the admin thread, which ends with the process, has answered every connection that it accepted. Another server accepts by now.
    fn await_last_answers(&self, news: &Receiver<News>, deadline: Instant) {
        let deadline = deadline.min(Instant::now() + ADMIN_ANSWERS_WITHIN);
        let admin = self.admin.control();
        while admin.is_answering() && Instant::now() < deadline && is_quiet(news) {
            std::thread::sleep(LOOKED_AT_EVERY);
        }
    }

    /// The number of connections now; it may still include those that ended in the last second.
    fn viewers(&self) -> u64 {
        self.numbers.iter().map(|numbers| numbers.connections.value()).sum()
    }
}

/// Whether no signal to end has arrived.
fn is_quiet(news: &Receiver<News>) -> bool {
    !matches!(news.try_recv(), Ok(News::Signal(signal)) if signal != SIGHUP)
}

/// The main thread's links to the workers.
struct Workers {
    /// Their counters, and their figures about viewers, by worker.
    numbers: Vec<Arc<Numbers>>,
    audiences: Vec<Arc<Audience>>,
    /// Gets a message from each worker that has ended.
    ended: Receiver<()>,
    ready: Ready,
}

/// Starts the workers of all silos, each with its source of connections, and waits until each accepts connections.
fn start_workers(
    silos: &mut [Silo],
    shared: Shared,
    memory_bytes: u64,
    access_log: Option<AccessLog>,
    ingress: Vec<Ingress>,
    listeners: &ListenerSet,
) -> Result<Workers, StartError> {
    let numbers: Vec<Arc<Numbers>> = ingress.iter().map(|_| Arc::default()).collect();
    let audiences: Vec<Arc<Audience>> = ingress.iter().map(|_| Arc::default()).collect();
    let (ready, readiness) = channel();
    let (end, ended) = channel();
    let start = Start {
        banks: silo::banks(silos, &shared.silo_map),
        shared,
        memory_bytes,
        numbers: numbers.clone(),
        audiences: audiences.clone(),
        access_log,
        is_standby: listeners.is_shared(),
        ready,
        end,
    };
    let mut ingress: Vec<_> = ingress.into_iter().map(Some).collect();
    silos.iter_mut().try_for_each(|silo| silo.start(&start, &mut ingress))?;
    // From here on only the workers hold the ends of the channels.
    drop(start);
    let ready = await_workers(ingress.len(), &readiness)?;
    Ok(Workers { numbers, audiences, ended, ready })
}

/// Waits until `count` workers accept connections. Returns the features of their rings, and a node whose memory one of them was refused.
fn await_workers(
    count: usize,
    readiness: &Receiver<Result<Ready, StartError>>,
) -> Result<Ready, StartError> {
    let mut all = Ready { ring: RingFeatures::default(), refused_node: None };
    for _ in 0..count {
        let ready = readiness.recv().unwrap_or(Err(StartError::WorkerGone))?;
        all = Ready { refused_node: all.refused_node.or(ready.refused_node), ..ready };
    }
    Ok(all)
}

/// The parts of each worker that the admin listener reads.
fn watched(numbers: &[Arc<Numbers>], audiences: Vec<Arc<Audience>>) -> Vec<admin::Watched> {
    let watched = numbers.iter().cloned().zip(audiences);
    watched.map(|(numbers, audience)| admin::Watched { numbers, audience }).collect()
}

fn chosen(
    opened: &Opened,
    lacks: Vec<Lack>,
    acme: Option<Arc<AcmeLink>>,
    reloads: Arc<Reloads>,
    edge: Option<Arc<EdgeLink>>,
) -> admin::Chosen {
    admin::Chosen {
        offload: opened.offload,
        folders: Arc::clone(&opened.folders),
        silo_map: Arc::clone(&opened.silo_map),
        lacks,
        acme,
        reloads,
        edge,
        redirects: opened.config.tls.redirect_listen.map(|_| Redirects::new(opened.address.port())),
    }
}

/// The limit on the rate of all viewers together, in words.
fn describe_total(config: &Config) -> Option<String> {
    let bits = config.net.total_bits_per_second;
    (bits > 0).then(|| format!("rate      at most {bits} bits per second for all viewers together"))
}

fn describe_disk(disk: config::Disk) -> &'static str {
    use config::Disk;
    match disk {
        Disk::Auto => {
            "auto: use what is in the page cache, cache what is requested repeatedly, read the rest directly"
        }
        Disk::Cached => "cached: through the page cache, as asked",
        Disk::Once => "once: through the page cache, and evicted at once, as asked",
        Disk::Direct => "direct: past the page cache, as asked",
    }
}

/// The limit that leaves the least memory.
pub(crate) fn tightest(headroom: &Headroom) -> Option<MemoryLimit> {
    let bounds = [headroom.of_groups(), headroom.of_process()];
    bounds.into_iter().flatten().min_by_key(|bound| bound.left_bytes)
}

fn describe_refused_node(refused: &RefusedNode) -> String {
    let RefusedNode { node, why } = refused;
    format!(
        "silos     the kernel refuses a choice of memory on node {node} ({why}): memory is where it is used first. In a container, allow \
         set_mempolicy and mbind, and the memory of all nodes (docs/numa.md)"
    )
}

fn describe_memory(bound: MemoryLimit) -> String {
    format!(
        "memory    {} MiB by {}; new viewers are refused when less than {} MiB is left",
        bound.bytes >> 20,
        bound.name,
        reserve_bytes(bound) >> 20
    )
}
