//! Starting the workers, and telling them to end.

use crate::access::{Access, Lack};
use crate::access_log::{self, AccessLog};
use crate::admin;
use crate::audience::Audience;
use crate::bypass;
use crate::config::{Config, ConfigError, Route, Switch};
use crate::control::Control;
use crate::library_place::LibraryPlace;
use crate::listen::{bind_admin, listen};
use crate::live;
use crate::notify::notify;
use crate::offload;
use crate::own_files::OwnFiles;
use crate::renewal::Renewal;
use crate::sandbox;
use crate::shelf::Shelf;
use crate::start_error::{RunError, StartError};
use crate::worker::{Parts, Worker, pools_bytes};
use crypt::{Origin, Tls, TlsOptions};
use delivery::Offload;
use delivery::own_tcp;
use delivery::room::reserve_bytes;
use machine::{Bound, Headroom, Machine};
use net::listener::local_address;
use qoe::Salt;
use reactor::{Reactor, RingFeatures, RingOptions, remote};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::Numbers;
use token::KeyRing;

/// How often the main thread looks whether the workers still run.
const WORKERS_LOOKED_AT: Duration = Duration::from_secs(2);

/// Room for open files that is made before there are workers: half a MiB. Above, the table still doubles, rarely.
const FILES_RESERVED: u64 = 1 << 16;

/// Buffer memory per worker where the machine does not tell its caches.
const BUFFER_BYTES_DEFAULT: u64 = 8 << 20;

/// A running server.
pub struct Server {
    config: Arc<Config>,
    address: SocketAddr,
    admin_address: SocketAddr,
    tls: Option<Tls>,
    workers: Vec<RunningWorker>,
    numbers: Vec<Arc<Numbers>>,
    /// A word from each worker that has ended.
    ended: Receiver<()>,
    running: usize,
    ring: RingFeatures,
    sandbox: sandbox::Report,
    offload: Offload,
    /// Whether the kernel can send the library's files by itself.
    can_send_files: bool,
    /// What it would be faster with.
    lacks: Vec<Lack>,
    /// What the bypass route uses, if that is the route.
    bypass: Option<String>,
    /// The tightest bound on memory when it started.
    memory_bound: Option<Bound>,
    admin: admin::Admin,
    /// Until it starts.
    renewal: Option<Renewal>,
}

/// Where connections come from.
struct Entrance {
    /// Where it serves.
    address: SocketAddr,
    /// A way in for each worker.
    ways_in: Vec<WayIn>,
    /// What the bypass route uses, for people.
    bypass: Option<String>,
}

/// One worker's way in.
enum WayIn {
    /// A socket of the kernel's that listens.
    Listener(OwnedFd),
    /// A queue of a network device, for our own TCP.
    Frames(Box<own_tcp::Parts>),
}

/// The threads beside the workers that have no ring.
struct Writers {
    access_log: Option<AccessLog>,
    shelf: Option<Shelf>,
}

impl Writers {
    /// Starts them, without the privileges that rings need: from a thread that has given those up.
    fn start(
        config: &Config,
        library: &Path,
        log_out: Option<Box<dyn io::Write + Send>>,
    ) -> Result<Self, StartError> {
        let start = move || {
            if config.sandbox {
                sandbox::give_up_for_rings();
            }
            let access_log = log_out.map(AccessLog::start).transpose();
            let cannot = |which| move |why| StartError::Thread { which, why };
            let access_log = access_log.map_err(cannot("of the access log"))?;
            let shelf = config.page.then(|| Shelf::start(library.to_owned())).transpose();
            let shelf = shelf.map_err(cannot("that lists titles"))?;
            Ok(Self { access_log, shelf })
        };
        std::thread::scope(|scope| scope.spawn(start).join())
            .unwrap_or(Err(StartError::ThreadPanicked))
    }
}

struct RunningWorker {
    thread: JoinHandle<io::Result<()>>,
    control: Arc<Control>,
}

impl Server {
    /// Starts every worker and returns when all accept connections.
    ///
    /// # Errors
    /// One line: what, and what to do about it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        config.check_own_files()?;
        let machine = Machine::probe();
        // Where it may not be raised, the server runs with fewer viewers and says so when it comes to that.
        let _ = machine::raise_nofile();
        // Where there is no memory for it, workers wait now and then while the table grows.
        let _ = machine::reserve_files(FILES_RESERVED);
        let config = Arc::new(config);
        let library = config.library.clone().ok_or(StartError::NoLibrary)?;
        check_library(&library)?;
        let library_place = LibraryPlace::of(&library)
            .map_err(|why| StartError::Library { library: library.clone(), why: why.into() })?;
        let tls = load_tls(&config)?;
        let keys = load_keys(&config)?;
        let offload = offload::choose(&config)?;
        let log_out = config.access_log.as_deref().map(open_access_log).transpose()?;
        let count = count_workers(&config, &machine);
        let Entrance { address, ways_in, bypass } = enter(&config, offload, count)?;
        let admin_listener = bind_admin(config.admin)?;
        let admin_address = local_address(&admin_listener).map_err(StartError::Admin)?;
        // Behind what makes them: the self-signed certificate, the access log.
        let own_files = OwnFiles::of(&config);
        let sources = live::Sources::open();
        let headroom = Arc::new(Headroom::open());
        // Before the threads: Landlock holds for the thread that asks and for those that it starts.
        let mut sandbox = sandbox::Report::default();
        if config.sandbox {
            sandbox = sandbox::confine_files(&config, &library, offload);
        }
        let access = Access::tried_on(&library);
        let lacks = access.lacks(&config, offload);
        let Writers { access_log, shelf } = Writers::start(&config, &library, log_out)?;
        let numbers: Vec<Arc<Numbers>> = (0..count).map(|_| Arc::default()).collect();
        let audiences: Vec<Arc<Audience>> = (0..count).map(|_| Arc::default()).collect();
        let (ready, readiness) = channel();
        let (end, ended) = channel();
        let memory_bound = tightest(&headroom);
        let buffer_bytes = buffer_bytes(&machine, memory_bound, count);
        check_memory(memory_bound, count, pools_bytes(&config, buffer_bytes))?;
        let heat_bytes = machine.memory_limit_bytes.or(machine.memory_bytes).unwrap_or(1 << 30) * 2
            / count as u64;
        let epoch = Instant::now();
        let salt = make_salt(&config)?;
        let mut workers = Vec::with_capacity(count);
        for (index, way_in) in ways_in.into_iter().enumerate() {
            let (listener, frames) = match way_in {
                WayIn::Listener(listener) => (Some(listener), None),
                WayIn::Frames(frames) => (None, Some(*frames)),
            };
            let parts = Parts {
                config: Arc::clone(&config),
                tls: tls.clone(),
                keys: keys.clone(),
                experience: salt.clone().map(|salt| (salt, epoch)),
                numbers: Arc::clone(&numbers[index]),
                audience: Arc::clone(&audiences[index]),
                access_log: access_log.as_ref().map(AccessLog::for_worker),
                shelf: shelf.clone(),
                offload,
                bypass: frames,
                library: library.clone(),
                buffer_bytes,
                takes_buffers_early: memory_bound.is_some(),
                headroom: Arc::clone(&headroom),
                workers: count,
                withheld: own_files.inodes(),
                heat_bytes,
            };
            let cpu = machine.cpus[index % machine.cpus.len()];
            let cpu = config.is_on(Switch::Pinning).then_some(cpu);
            workers.push(start_worker(index, cpu, listener, parts, ready.clone(), end.clone())?);
        }
        drop(ready);
        let mut ring = RingFeatures::default();
        for _ in 0..count {
            ring = match readiness.recv() {
                Ok(Ok(features)) => features,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(StartError::WorkerGone),
            };
        }
        let watched = numbers.iter().cloned().zip(audiences);
        let watched =
            watched.map(|(numbers, audience)| admin::Watched { numbers, audience }).collect();
        let admin = admin::Admin::start(
            admin_listener,
            watched,
            &config,
            offload,
            epoch,
            sources,
            lacks.clone(),
        )
        .map_err(StartError::Admin)?;
        let renewal = Renewal {
            config: Arc::clone(&config),
            tls: tls.clone(),
            own_files,
            library: library_place,
            library_trouble: admin.library_trouble(),
            controls: workers.iter().map(|worker| Arc::clone(&worker.control)).collect(),
            complaint: String::new(),
        };
        if config.sandbox {
            sandbox::give_up_for_rings();
            sandbox::confine_calls(&mut sandbox, offload);
        }
        Ok(Self {
            config,
            address,
            admin_address,
            tls,
            workers,
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

    /// Checks a configuration as far as that goes without starting: settings, library, certificates, keys.
    ///
    /// # Errors
    /// One line: what, and what to do about it.
    pub fn check(config: &Config) -> Result<(), StartError> {
        config.check()?;
        config.check_own_files()?;
        config.library.as_deref().map_or(Ok(()), check_library)?;
        load_keys(config)?;
        load_tls(config).map(|_| ())
    }

    /// Where it serves: the port that the kernel chose, if it was to choose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health, metrics and status are.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The workers' counters.
    pub fn numbers(&self) -> &[Arc<Numbers>] {
        &self.numbers
    }

    /// What this machine offered and what was chosen, a line each, for people.
    pub fn describe(&self) -> Vec<String> {
        let Config { disk, off, .. } = &*self.config;
        let mut lines = vec![
            format!("route     {}", self.describe_route()),
            format!("disk      {}", describe_disk(*disk)),
            format!("workers   {}, io_uring with {}", self.workers.len(), self.ring.describe()),
            format!("sandbox   {}", self.sandbox),
        ];
        lines.extend(self.lacks.iter().map(|lack| {
            let Lack { what, why, cost, remedy } = lack;
            format!(
                "lacking   {what}: {why}. The cost: {cost}. To mend it: {remedy} (docs/serve.md)"
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

    /// Stops accepting; sessions end when their present response is sent.
    pub fn drain(&self) {
        self.admin.drain();
        for worker in &self.workers {
            worker.control.drain();
        }
    }

    /// Waits until every worker has ended, or until `deadline`. Says whether all have.
    ///
    /// # Errors
    /// When a worker failed.
    pub fn join(&mut self, deadline: Instant) -> Result<bool, RunError> {
        while self.running > 0 {
            match self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => self.running -= 1,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                // Every worker's end of the channel is gone, and so are they.
                Err(RecvTimeoutError::Disconnected) => self.running = 0,
            }
        }
        self.workers.drain(..).try_for_each(finish).map(|()| true)
    }

    /// Serves until a signal ends it: SIGTERM or SIGINT drains, a second one ends at once, SIGHUP reads the
    /// certificates and the keys of signed URLs again.
    ///
    /// # Errors
    /// When a worker failed, or viewers had to be cut off.
    pub fn run_until_signalled(mut self, signals: Signals) -> Result<(), RunError> {
        let signals = signals.pass_on().map_err(RunError::Signals)?;
        let renewal = self.renewal.take().expect("nobody else takes it");
        let renewal = renewal.start().map_err(RunError::Renewal)?;
        notify("READY=1");
        loop {
            match signals.recv_timeout(WORKERS_LOOKED_AT) {
                // Its thread ends only by a panic, whose message is above; what is loaded stays in use.
                Ok(SIGHUP) => drop(renewal.send(())),
                Ok(_) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if self.workers.iter().any(|worker| worker.thread.is_finished()) {
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
            "fullbore: stopping; {viewers} connections finish what they have begun (again to end at once)"
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

/// Signals that have come, and will come, since [`signals`] was called.
pub struct Signals(signal_hook::iterator::Signals);

/// Begins to catch signals. To be called first, so that none is lost while the server starts; the thread that waits for
/// them starts when the server has, so that it is confined as all others are.
///
/// # Errors
/// When a handler cannot be installed.
pub fn signals() -> io::Result<Signals> {
    signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Signals)
}

impl Signals {
    /// Starts the thread that passes signals on.
    fn pass_on(mut self) -> io::Result<Receiver<i32>> {
        let (send, receive) = channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in self.0.forever() {
                if send.send(signal).is_err() {
                    return;
                }
            }
        })?;
        Ok(receive)
    }
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

/// What makes names of sessions unrecognisable; none where they are not read.
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

/// One worker for each core that there is for them, unless it was told otherwise or a device wants another number.
fn count_workers(config: &Config, machine: &Machine) -> usize {
    let of_device = (config.route == Route::Bypass).then(|| bypass::workers(config)).flatten();
    match (config.workers, of_device) {
        (0, Some(count)) => count,
        (0, None) => machine.cpus.len(),
        (count, _) => count,
    }
}

/// Makes a way in for each worker. What that takes of privileges is given up afterwards.
fn enter(config: &Config, offload: Offload, count: usize) -> Result<Entrance, StartError> {
    if config.route != Route::Bypass {
        let (address, listeners) = listen(config, offload, count)?;
        let ways_in = listeners.into_iter().map(WayIn::Listener).collect();
        return Ok(Entrance { address, ways_in, bypass: None });
    }
    let parts = bypass::open(config, count)?;
    let address =
        bypass::address(config).ok_or(StartError::Config(ConfigError::BypassWithoutAddress))?;
    let given_up = sandbox::give_up_network_privileges();
    let described = format!("{}; {given_up}", bypass::describe(config, &parts));
    let ways_in = parts.into_iter().map(|parts| WayIn::Frames(Box::new(parts))).collect();
    Ok(Entrance { address, ways_in, bypass: Some(described) })
}

fn start_worker(
    index: usize,
    cpu: Option<u32>,
    listener: Option<OwnedFd>,
    parts: Parts,
    ready: Sender<Result<RingFeatures, StartError>>,
    end: Sender<()>,
) -> Result<RunningWorker, StartError> {
    let (remote, woken) = remote().map_err(StartError::NoDescriptors)?;
    let control = Arc::new(Control::new(remote));
    let controlled = Arc::clone(&control);
    let live = move || {
        if let Some(cpu) = cpu {
            pin_to(cpu);
        }
        let started =
            Reactor::new(RingOptions::default()).map_err(StartError::NoRing).and_then(|reactor| {
                let is_confined = parts.config.sandbox;
                let made = Worker::new(parts).map_err(|why| StartError::Worker { index, why })?;
                if is_confined {
                    sandbox::give_up_for_rings();
                }
                Ok((reactor, made))
            });
        let (reactor, worker) = match started {
            Ok(started) => started,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(());
            }
        };
        let _ = ready.send(Ok(reactor.features()));
        drop(ready);
        let lived = reactor.run(worker.run(listener, controlled, woken)).and_then(|run| run);
        drop(reactor);
        let _ = end.send(());
        lived
    };
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(live);
    let thread = thread.map_err(|why| StartError::Thread { which: "of a worker", why })?;
    Ok(RunningWorker { thread, control })
}

/// Keeps this thread on its core. Where that is forbidden, the kernel's scheduler decides.
fn pin_to(cpu: u32) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn finish(worker: RunningWorker) -> Result<(), RunError> {
    match worker.thread.join() {
        Ok(lived) => lived.map_err(RunError::Worker),
        Err(_) => Err(RunError::WorkerPanicked),
    }
}

fn describe_disk(disk: crate::config::Disk) -> &'static str {
    use crate::config::Disk;
    match disk {
        Disk::Auto => {
            "auto: from the page cache what is there; else cached if asked for lately, direct if not"
        }
        Disk::Cached => "cached: through the page cache, as asked",
        Disk::Once => "once: through the page cache, leaving nothing there, as asked",
        Disk::Direct => "direct: past the page cache, as asked",
    }
}

/// The bound that leaves the least memory.
fn tightest(headroom: &Headroom) -> Option<Bound> {
    let bounds = [headroom.of_groups(), headroom.of_process()];
    bounds.into_iter().flatten().min_by_key(|bound| bound.left_bytes)
}

/// Bytes of a worker's buffers of each kind: half of its core's share of the last-level cache, but together no more than an eighth of what
/// memory is left.
fn buffer_bytes(machine: &Machine, bound: Option<Bound>, workers: usize) -> usize {
    let cached = machine.last_level_bytes_per_cpu().unwrap_or(BUFFER_BYTES_DEFAULT * 2) / 2;
    let bytes = cached.clamp(4 << 20, 64 << 20);
    bound.map_or(bytes, |bound| bytes.min(bound.left_bytes / 16 / workers as u64)) as usize
}

/// Refuses to start where the buffers alone would take more than half of what is left.
fn check_memory(
    bound: Option<Bound>,
    workers: usize,
    pools_bytes: usize,
) -> Result<(), StartError> {
    let Some(bound) = bound else { return Ok(()) };
    let wanted = (workers * pools_bytes) as u64;
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
