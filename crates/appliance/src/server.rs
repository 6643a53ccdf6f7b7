//! Starts the workers, and tells them to end.

use crate::access::{Access, Lack};
use crate::access_log::{self, AccessLog};
use crate::admin;
use crate::audience::Audience;
use crate::bypass;
use crate::config::{Config, Route, Switch};
use crate::folders::Folders;
use crate::hot_memory;
use crate::listen::bind_admin;
use crate::live;
use crate::moves::{self, Inboxes};
use crate::notify::notify;
use crate::offload;
use crate::own_files::OwnFiles;
use crate::renewal::Renewal;
use crate::sandbox;
use crate::shelf::Shelf;
use crate::signals::Signals;
use crate::silo::{self, RunningWorker, Silo, Start};
use crate::silo_map::{self, SiloMap};
use crate::start_error::{RunError, StartError};
use crate::ways_in::{WayIn, WaysIn};
use crate::worker::Shared;
use catalog::Title;
use crypt::{Origin, Tls, TlsOptions};
use delivery::KernelOffload;
use delivery::room::reserve_bytes;
use machine::{Bound, Headroom, Machine, MemoryPressure, Topology};
use net::listener::local_address;
use qoe::Salt;
use reactor::RingFeatures;
use signal_hook::consts::SIGHUP;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::Numbers;
use token::KeyRing;

/// How often the main thread checks that the workers still run.
const WORKERS_LOOKED_AT: Duration = Duration::from_secs(2);

/// The size of the table of open files that is reserved before there are workers: half a MiB. Beyond that it still doubles, rarely.
const FILES_RESERVED: u64 = 1 << 16;

/// A running server.
pub struct Server {
    config: Arc<Config>,
    folders: Arc<Folders>,
    address: SocketAddr,
    admin_address: SocketAddr,
    tls: Option<Tls>,
    silos: Vec<Silo>,
    silo_map: Arc<SiloMap>,
    numbers: Vec<Arc<Numbers>>,
    /// Gets a message from each worker that has ended.
    ended: Receiver<()>,
    running: usize,
    ring: RingFeatures,
    sandbox: sandbox::Report,
    offload: KernelOffload,
    /// Whether the kernel can send the library's files by itself.
    can_send_files: bool,
    /// What is missing that would make it faster.
    lacks: Vec<Lack>,
    /// What the bypass route uses, in words, if that is the route.
    bypass: Option<String>,
    /// The tightest limit on memory at the start.
    memory_bound: Option<Bound>,
    admin: admin::Admin,
    /// The renewal, until it starts.
    renewal: Option<Renewal>,
}

/// The threads without a ring, besides the workers.
struct Writers {
    access_log: Option<AccessLog>,
    /// What the threads that watch the library's folders found out at first.
    access: Access,
    shelf: Option<Shelf>,
}

impl Writers {
    /// Starts them from a thread that has given up the privileges that rings need.
    fn start(
        config: &Config,
        folders: &Arc<Folders>,
        log_out: Option<Box<dyn io::Write + Send>>,
    ) -> Result<Self, StartError> {
        let start = move || {
            if config.sandbox {
                sandbox::give_up_for_rings();
            }
            let access_log = log_out.map(AccessLog::start).transpose();
            let cannot = |which| move |why| StartError::Thread { which, why };
            let access_log = access_log.map_err(cannot("access log"))?;
            let access = folders.watch().map_err(cannot("folder"))?;
            let shelf = config.page.then(|| Shelf::start(folders)).transpose();
            let shelf = shelf.map_err(cannot("shelf"))?;
            Ok(Self { access_log, access, shelf })
        };
        std::thread::scope(|scope| scope.spawn(start).join())
            .unwrap_or(Err(StartError::ThreadPanicked))
    }
}

impl Server {
    /// Starts every worker, and returns when all of them accept connections.
    ///
    /// # Errors
    /// One line: what, and what to do about it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        config.check_folders()?;
        config.check_own_files()?;
        let config = Arc::new(config);
        let machine = Machine::probe();
        raise_limits();
        let folders = Folders::open(&config)?;
        let tls = load_tls(&config)?;
        let keys = load_keys(&config)?;
        let offload = offload::choose(&config)?;
        let log_out = config.access_log.as_deref().map(open_access_log).transpose()?;
        let count = count_workers(&config, &machine)?;
        let topology = Topology::open();
        let library: Vec<_> = folders.present().map(|(_, path)| path).collect();
        let mut silo_map = SiloMap::new(&config, &machine, &topology, &library, count)?;
        let WaysIn { address, ways_in, bypass } =
            WaysIn::open(&config, offload, &mut silo_map, count)?;
        let silo_map = Arc::new(silo_map);
        let admin_listener = bind_admin(config.admin)?;
        let admin_address = local_address(&admin_listener).map_err(StartError::Admin)?;
        // After the code that makes them: the self-signed certificate, the access log.
        let own_files = OwnFiles::of(&config);
        let sources = live::Sources::open();
        let (headroom, pressure) = (Arc::new(Headroom::open()), Arc::new(MemoryPressure::open()));
        // Before the threads, because Landlock covers the calling thread and those that it starts.
        let mut sandbox = sandbox::Report::default();
        if config.sandbox {
            sandbox = sandbox::confine_files(&config, &config.library, offload);
        }
        let Writers { access_log, access, shelf } = Writers::start(&config, &folders, log_out)?;
        let lacks = access.lacks(&config, offload);
        let memory_bound = tightest(&headroom);
        let mut silos = silo::silos(&machine, &silo_map, memory_bound);
        check_memory(memory_bound, count, &silos, &config)?;
        let memory_bytes = machine.memory_limit_bytes.or(machine.memory_bytes);
        let memory_bytes = memory_bytes.unwrap_or(u64::MAX);
        let hot_bytes = hot_memory::bytes_of(&config, memory_bytes, memory_bound, &pressure);
        silos.iter_mut().for_each(|silo| silo.make_hot_set(&config, hot_bytes, count));
        let epoch = Instant::now();
        let shared = Shared {
            config: Arc::clone(&config),
            tls: tls.clone(),
            keys,
            experience: make_salt(&config)?.map(|salt| (salt, epoch)),
            shelf,
            offload,
            folders: Arc::clone(&folders),
            withheld: own_files.inodes(),
            headroom,
            pressure,
            workers: count,
            inboxes: make_inboxes(&silo_map, count)?,
            silo_map: Arc::clone(&silo_map),
            takes_buffers_early: memory_bound.is_some(),
        };
        let numbers: Vec<Arc<Numbers>> = (0..count).map(|_| Arc::default()).collect();
        let audiences: Vec<Arc<Audience>> = (0..count).map(|_| Arc::default()).collect();
        let (ready, readiness) = channel();
        let (end, ended) = channel();
        let start = Start {
            shared,
            memory_bytes,
            silos: silos.len() as u64,
            numbers: numbers.clone(),
            audiences: audiences.clone(),
            access_log,
            ready,
            end,
        };
        let ring = start_workers(&mut silos, start, ways_in, &readiness)?;
        let watched = numbers.iter().cloned().zip(audiences);
        let watched =
            watched.map(|(numbers, audience)| admin::Watched { numbers, audience }).collect();
        let chosen = admin::Chosen {
            offload,
            folders: Arc::clone(&folders),
            silo_map: Arc::clone(&silo_map),
            lacks: lacks.clone(),
        };
        let admin = admin::Admin::start(admin_listener, watched, &config, chosen, epoch, sources)
            .map_err(StartError::Admin)?;
        let workers = silos.iter().flat_map(Silo::workers);
        let renewal = Renewal {
            config: Arc::clone(&config),
            tls: tls.clone(),
            own_files,
            folders: Arc::clone(&folders),
            controls: workers.map(|worker| Arc::clone(&worker.control)).collect(),
            complaint: String::new(),
        };
        if config.sandbox {
            sandbox::give_up_for_rings();
            sandbox::confine_calls(&mut sandbox, offload);
        }
        Ok(Self {
            config,
            folders,
            address,
            admin_address,
            tls,
            silos,
            silo_map,
            numbers,
            ended,
            running: count,
            ring,
            sandbox,
            offload,
            can_send_files: access.can_send_files(),
            lacks,
            bypass,
            memory_bound,
            admin,
            renewal: Some(renewal),
        })
    }

    /// Checks a configuration as far as possible without starting: settings, library, silos, certificates, keys.
    ///
    /// # Errors
    /// One line: what, and what to do about it.
    pub fn check(config: &Config) -> Result<(), StartError> {
        config.check()?;
        config.check_folders()?;
        config.check_own_files()?;
        config.library.iter().try_for_each(|folder| check_library(folder))?;
        if !config.library.is_empty() {
            let machine = Machine::probe();
            let workers = count_workers(config, &machine)?;
            let folders: Vec<_> = config.library.iter().map(PathBuf::as_path).collect();
            SiloMap::new(config, &machine, &Topology::open(), &folders, workers)?
                .check_folders()?;
        }
        load_keys(config)?;
        load_tls(config).map(|_| ())
    }

    /// The address that it serves on, with the port that the kernel chose if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of health, metrics and status.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The workers' counters.
    pub fn numbers(&self) -> &[Arc<Numbers>] {
        &self.numbers
    }

    /// The titles that can be listed now, sorted by name, each with the folder that it is in.
    pub fn titles(&self) -> impl FnOnce() -> Vec<(PathBuf, Title)> + Send + use<> {
        let folders = Arc::clone(&self.folders);
        move || folders.titles()
    }

    /// Lines for people about what this machine offers and what was chosen.
    pub fn describe(&self) -> Vec<String> {
        let Config { disk, off, .. } = &*self.config;
        let mut lines = vec![
            format!("route     {}", self.describe_route()),
            format!("disk      {}", describe_disk(*disk)),
            format!("workers   {}, io_uring with {}", self.numbers.len(), self.ring.describe()),
            format!("sandbox   {}", self.sandbox),
        ];
        lines.extend(self.folders.describe());
        lines.extend(self.silo_map.describe());
        let hot_sets = self.silos.iter().filter_map(|silo| silo.hot_memory().describe());
        lines.extend(hot_sets.map(|hot_set| format!("hot set   {hot_set}")));
        lines.extend(self.lacks.iter().map(|lack| {
            let Lack { what, why, cost, remedy } = lack;
            format!(
                "lacking   {what}: {why}. The cost: {cost}. To fix it: {remedy} (docs/serve.md)"
            )
        }));
        if let Some(tls) = &self.tls {
            let origin = match tls.origin() {
                Origin::Given => "given".to_owned(),
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
        let signing = &self.config.signing;
        if !signing.keys.is_empty() {
            let required = signing.required.join(", ");
            lines.push(format!("signing   a token is required for {required}, see fullbore sign"));
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

    fn describe_route(&self) -> String {
        let own = || offload::describe(self.offload, &self.config, self.can_send_files);
        self.bypass.clone().unwrap_or_else(own)
    }

    fn workers(&self) -> impl Iterator<Item = &RunningWorker> {
        self.silos.iter().flat_map(Silo::workers)
    }

    /// Stops accepting connections. Sessions end after their present response.
    pub fn drain(&self) {
        self.admin.drain();
        self.workers().for_each(|worker| worker.control.drain());
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
                // Every worker's end of the channel is gone, and so are the workers.
                Err(RecvTimeoutError::Disconnected) => self.running = 0,
            }
        }
        self.silos.iter_mut().try_for_each(Silo::join).map(|()| true)
    }

    /// Serves until a signal ends it. SIGTERM or SIGINT drains, a second one ends the server at once, and SIGHUP reloads the
    /// certificates and the keys of signed URLs.
    ///
    /// # Errors
    /// If a worker failed, or viewers had to be cut off.
    pub fn run_until_signalled(mut self, signals: Signals) -> Result<(), RunError> {
        let signals = signals.pass_on().map_err(RunError::Signals)?;
        let renewal = self.renewal.take().expect("nobody else takes it");
        let renewal = renewal.start().map_err(RunError::Renewal)?;
        notify("READY=1");
        loop {
            match signals.recv_timeout(WORKERS_LOOKED_AT) {
                // The renewal thread ends only by a panic, whose message is above; what is loaded stays in use.
                Ok(SIGHUP) => drop(renewal.send(())),
                Ok(_) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if self.workers().any(|worker| worker.thread.is_finished()) {
                        self.drain();
                        self.join(Instant::now() + Duration::from_secs(1))?;
                        return Err(RunError::WorkerEnded);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        notify("STOPPING=1");
        let viewers: u64 = self.numbers.iter().map(|numbers| numbers.connections.value()).sum();
        eprintln!(
            "fullbore: stopping; {viewers} connections may finish their responses (signal again to stop at once)"
        );
        self.drain();
        let deadline = Instant::now() + Duration::from_secs(self.config.drain_seconds);
        while Instant::now() < deadline {
            let step = Instant::now() + Duration::from_millis(50);
            if self.join(step.min(deadline))? {
                return Ok(());
            }
            if signals.try_recv().is_ok_and(|signal| signal != SIGHUP) {
                return Err(RunError::EndedAtOnce);
            }
        }
        Err(RunError::CutOff { after_seconds: self.config.drain_seconds })
    }
}

fn raise_limits() {
    // If it may not be raised, the server serves fewer viewers, and says so when it reaches the limit.
    let _ = machine::raise_nofile();
    // If there is no memory for it, workers wait now and then while the table grows.
    let _ = machine::reserve_files(FILES_RESERVED);
}

/// Starts the workers of all silos, and waits until each accepts connections. Returns the features of their rings.
fn start_workers(
    silos: &mut [Silo],
    start: Start,
    ways_in: Vec<WayIn>,
    readiness: &Receiver<Result<RingFeatures, StartError>>,
) -> Result<RingFeatures, StartError> {
    let mut ways_in: Vec<_> = ways_in.into_iter().map(Some).collect();
    silos.iter_mut().try_for_each(|silo| silo.start(&start, &mut ways_in))?;
    // From here on only the workers hold the ends of the channels.
    drop(start);
    let mut ring = RingFeatures::default();
    for _ in ways_in {
        ring = match readiness.recv() {
            Ok(Ok(features)) => features,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(StartError::WorkerGone),
        };
    }
    Ok(ring)
}

fn check_library(library: &Path) -> Result<(), StartError> {
    match library.is_dir() {
        true => Ok(()),
        false => Err(StartError::LibraryNotAFolder(library.to_owned())),
    }
}

fn load_tls(config: &Config) -> Result<Option<Tls>, StartError> {
    if !config.tls.enabled {
        return Ok(None);
    }
    let options = TlsOptions {
        certificates: config
            .tls
            .certificates
            .iter()
            .map(|pair| (pair.cert.clone(), pair.key.clone()))
            .collect(),
        state_dir: config.state.clone(),
        versions: config.tls.versions.into(),
        tickets: config.is_on(Switch::Tickets),
    };
    Ok(Some(Tls::load(options)?))
}

pub(crate) fn load_keys(config: &Config) -> Result<Option<Arc<KeyRing>>, StartError> {
    if config.signing.keys.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(KeyRing::read(&config.signing.keys)?)))
}

/// Where workers offer each other connections; none if connections stay where they came in.
fn make_inboxes(map: &SiloMap, workers: usize) -> Result<Option<Inboxes>, StartError> {
    let made = map.is_by_disk().then(|| moves::inboxes(workers)).transpose();
    made.map_err(StartError::NoDescriptors)
}

/// The salt that anonymises session names; none if they are not read.
fn make_salt(config: &Config) -> Result<Option<Salt>, StartError> {
    if !config.http.cmcd {
        return Ok(None);
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Salt::random(since_1970.as_secs()).map(Some).map_err(|_| StartError::NoRandomNumbers)
}

fn open_access_log(path: &Path) -> Result<Box<dyn io::Write + Send>, StartError> {
    access_log::open(path).map_err(|why| StartError::AccessLog { file: path.to_owned(), why })
}

/// One worker for each core that this process may use, unless the configuration or the device sets another number.
fn count_workers(config: &Config, machine: &Machine) -> Result<usize, StartError> {
    let of_device = (config.route == Route::Bypass).then(|| bypass::workers(config)).flatten();
    Ok(match (config.workers, of_device) {
        (0, Some(count)) => count,
        (0, None) => silo_map::cpus(config, machine)?.len(),
        (count, _) => count,
    })
}

fn describe_disk(disk: crate::config::Disk) -> &'static str {
    use crate::config::Disk;
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
fn tightest(headroom: &Headroom) -> Option<Bound> {
    let bounds = [headroom.of_groups(), headroom.of_process()];
    bounds.into_iter().flatten().min_by_key(|bound| bound.left_bytes)
}

/// Refuses to start if the buffers alone would take more than half of the memory that is left.
fn check_memory(
    bound: Option<Bound>,
    workers: usize,
    silos: &[Silo],
    config: &Config,
) -> Result<(), StartError> {
    let Some(bound) = bound else { return Ok(()) };
    let wanted = silos.iter().map(|silo| silo.pools_bytes(config) as u64).sum::<u64>();
    if wanted <= bound.left_bytes / 2 {
        return Ok(());
    }
    Err(StartError::Memory {
        workers,
        buffer_bytes: wanted,
        limit: bound.name,
        left_bytes: bound.left_bytes,
    })
}

fn describe_memory(bound: Bound) -> String {
    format!(
        "memory    {} MiB by {}; new viewers are refused when less than {} MiB is left",
        bound.bytes >> 20,
        bound.name,
        reserve_bytes(bound) >> 20
    )
}
