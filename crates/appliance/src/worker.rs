//! A core's life: one thread, one ring, one listener, its own buffers, files and counters.

use crate::access_log::AccessLog;
use crate::audience::Audience;
use crate::config::{Config, Switch};
use crate::control::Control;
use crate::drain::Drain;
use crate::experience::Experience;
use crate::gate::Gate;
use crate::session;
use crate::shelf::Shelf;
use crypt::Tls;
use delivery::in_memory::InMemory;
use delivery::own_tcp::{self, OwnTcp};
use delivery::room::Room;
use delivery::{Bounds, Carrier, Offload, Patience, Resources, Tactics};
use disk::{DIRECT_ALIGNMENT, Files, Heat, Inode, Policy, Reader, Way};
use http::HttpDate;
use machine::Headroom;
use net::{Admission, LimitReached, Socket};
use qoe::Salt;
use reactor::op::Incoming;
use reactor::{Fd, Pool, PoolOptions, sleep, spawn};
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::{Family, Numbers};
use token::KeyRing;

/// Room beside a window's bytes: a direct read begins and ends on whole blocks, and records have heads and tags.
const BUFFER_SLACK_BYTES: usize = 2 * DIRECT_ALIGNMENT;

/// Buffers of each kind at least: below this, a handful of viewers would wait for each other.
const BUFFERS_MIN: usize = 8;

/// How long viewers may take; see [`crate::config::Timeouts`].
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the whole handshake.
    pub handshake: Duration,
    /// From a head's first byte to its last.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
}

/// What the sessions of one core share.
pub struct Worker {
    /// What their connections use.
    pub resources: Rc<Resources>,
    /// Certificates and tickets; none without TLS.
    pub tls: RefCell<Option<Tls>>,
    /// Who may have which file; none without keys.
    pub gate: Option<Gate>,
    /// What players tell of their viewers; none if nobody wants to know.
    pub experience: Option<Experience>,
    /// The library.
    pub files: Files,
    /// Who may connect.
    pub admission: Rc<Admission>,
    /// Counters.
    pub numbers: Arc<Numbers>,
    /// What it leaves of its viewers for others to take.
    pub audience: Arc<Audience>,
    /// Bounds on requests.
    pub limits: http::Limits,
    /// How long viewers may take.
    pub timeouts: Timeouts,
    /// The farewell.
    pub drain: Drain,
    /// Whether connections live by keys of ours; else the handshake's state stays and seals.
    pub hands_keys_out: bool,
    /// What responses hold in memory.
    pub in_memory: InMemory,
    /// The access log, if there is one.
    pub access_log: Option<AccessLog>,
    /// What the pages list; none without pages.
    pub shelf: Option<Shelf>,
    /// Our own TCP, on the bypass route.
    own_tcp: Option<Rc<OwnTcp>>,
    config: Arc<Config>,
    date: Cell<HttpDate>,
    boundaries: Boundaries,
    complained: Cell<Option<Instant>>,
}

/// What a worker is made from, on its own thread.
pub struct Parts {
    /// The configuration.
    pub config: Arc<Config>,
    /// Certificates and tickets; none without TLS.
    pub tls: Option<Tls>,
    /// Keys of signed URLs, if there are any.
    pub keys: Option<Arc<KeyRing>>,
    /// What it tells of viewers with, if anybody wants to know.
    pub experience: Option<(Salt, Instant)>,
    /// Its counters.
    pub numbers: Arc<Numbers>,
    /// What it leaves of its viewers for others to take.
    pub audience: Arc<Audience>,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// What the pages list; none without pages.
    pub shelf: Option<Shelf>,
    /// What is left to the kernel.
    pub offload: Offload,
    /// What our own TCP is made from, on the bypass route.
    pub bypass: Option<own_tcp::Parts>,
    /// The library's root.
    pub library: PathBuf,
    /// What of it is not to be served.
    pub withheld: Arc<[Inode]>,
    /// Bytes of buffers of each kind, if the configuration does not say.
    pub buffer_bytes: usize,
    /// Whether all memory for buffers is taken at the start: where memory is bounded, what is left is then for viewers.
    pub takes_buffers_early: bool,
    /// What tells how much memory is left.
    pub headroom: Arc<Headroom>,
    /// How many workers share it.
    pub workers: usize,
    /// Bytes of reads that heat remembers.
    pub heat_bytes: u64,
}

impl Worker {
    /// Makes a worker on this thread, which must have a reactor.
    ///
    /// # Errors
    /// When the library cannot be opened or memory cannot be had.
    pub fn new(parts: Parts) -> io::Result<Rc<Self>> {
        let Parts {
            config,
            tls,
            keys,
            experience,
            numbers,
            audience,
            access_log,
            shelf,
            offload,
            bypass,
            library,
            withheld,
            buffer_bytes,
            takes_buffers_early,
            headroom,
            workers,
            heat_bytes,
        } = parts;
        let pool = pool_options(&config, buffer_bytes);
        let read_buffers = Pool::new(pool)?;
        // The ring has one table of registered buffers, and only reads use it.
        let send_buffers = Pool::new(PoolOptions { register: false, ..pool })?;
        if takes_buffers_early {
            read_buffers.touch()?;
            send_buffers.touch()?;
        }
        let policy = match Policy::from(config.disk) {
            Policy::Auto if !config.is_on(Switch::Heat) => Policy::Always(Way::Cached),
            Policy::Auto if !config.is_on(Switch::Resident) => Policy::Heat,
            policy => policy,
        };
        let open_files_max =
            if config.is_on(Switch::Files) { config.limits.open_files_max } else { 0 };
        let seconds = Duration::from_secs_f64;
        let resources = Rc::new(Resources {
            reader: Reader::new(read_buffers, policy, Heat::new(heat_bytes)),
            send_buffers,
            room: Room::new(headroom, workers),
            numbers: Arc::clone(&numbers),
            patience: Patience {
                send: seconds(config.timeouts.send_seconds),
                hold: seconds(config.timeouts.hold_seconds),
            },
            offload,
            tactics: Tactics {
                reads_ahead: config.is_on(Switch::Ahead),
                seals_in_one_pass: config.is_on(Switch::Onepass),
                rereads: config.is_on(Switch::Reread),
            },
            bounds: Bounds {
                key_records_max: config.tls.key_records_max,
                window_bytes_max: window_bytes_max(&config),
                sendfile_bytes_max: sendfile_bytes_max(&config),
            },
            bring_budget: Resources::new_bring_budget(),
            scratch: Resources::new_scratch(),
            started: Instant::now(),
        });
        let worker = Rc::new(Self {
            resources,
            tls: RefCell::new(tls),
            experience: experience.map(|(salt, epoch)| Experience::new(salt, epoch)),
            gate: keys.map(|keys| Gate::new(keys, &config.signing.required)),
            files: Files::new(&library, open_files_max)?,
            admission: Admission::new(
                config.limits.connections_max,
                config.limits.connections_per_address_max,
            ),
            numbers,
            audience,
            limits: http::Limits {
                head_bytes_max: config.limits.head_bytes_max,
                uri_bytes_max: config.limits.uri_bytes_max,
                ..http::Limits::default()
            },
            timeouts: Timeouts {
                handshake: seconds(config.timeouts.handshake_seconds),
                head: seconds(config.timeouts.head_seconds),
                idle: seconds(config.timeouts.idle_seconds),
            },
            drain: Drain::default(),
            hands_keys_out: config.is_on(Switch::Handout),
            in_memory: InMemory::new(config.limits.response_bytes_max),
            access_log,
            shelf,
            own_tcp: bypass.map(OwnTcp::new),
            config,
            date: Cell::new(date_now()),
            boundaries: Boundaries::default(),
            complained: Cell::new(None),
        });
        worker.files.withhold(withheld);
        Ok(worker)
    }

    /// Tells the operator of trouble with the library, once a second at most: one bad disk under many viewers must not
    /// make a worker wait for whoever reads standard error. The counters tell of all of it. What viewers and names of files have to do
    /// with it steers nobody's terminal.
    pub fn complain(&self, what: &str) {
        let now = reactor::now();
        if self
            .complained
            .get()
            .is_none_or(|last| now.duration_since(last) >= Duration::from_secs(1))
        {
            self.complained.set(Some(now));
            eprintln!("fullbore: {}", library::shown(what));
        }
    }

    /// What every response depends on.
    pub fn with_context<R>(&self, f: impl FnOnce(&http::Context<'_>) -> R) -> R {
        let date = self.date.get();
        f(&http::Context {
            cache_control: &self.config.http.cache_control,
            cors: if self.config.http.cors {
                http::Cors::AnyOrigin
            } else {
                http::Cors::SameOrigin
            },
            boundary: self.boundaries.next(),
            closing: self.drain.has_begun(),
            ..http::Context::new(&date, &self.limits)
        })
    }

    /// The worker's whole life: accepts until told to drain, and returns when the last session has ended. With our own TCP
    /// there is no listener.
    ///
    /// # Errors
    /// When the kernel refuses what no server can go without.
    pub async fn run(
        self: Rc<Self>,
        listener: Option<OwnedFd>,
        control: Arc<Control>,
        woken: reactor::Woken,
    ) -> io::Result<()> {
        spawn(Rc::clone(&self).tick());
        if let Some(listener) = listener.map(Fd::from) {
            let accepting = Rc::clone(&self);
            spawn(async move {
                accepting.drain.unless_begun(accepting.accept(listener.clone())).await;
                net::listener::stop(listener.borrowed());
            });
        }
        let failure = self.run_own_tcp();
        let worker = Rc::clone(&self);
        let waiting = woken.each(move || {
            if let Some(tls) = control.take_tls() {
                *worker.tls.borrow_mut() = Some(tls);
            }
            if let (Some(gate), Some(keys)) = (&worker.gate, control.take_keys()) {
                gate.renew(keys);
            }
            if let Some(inodes) = control.take_withheld() {
                worker.files.withhold(inodes);
            }
            if control.is_draining() {
                worker.drain.begin();
                if let Some(own_tcp) = &worker.own_tcp {
                    own_tcp.refuse_new();
                }
            }
            !worker.drain.has_begun()
        });
        if let Some(waited) = self.drain.unless_begun(waiting).await {
            waited?;
        }
        while self.admission.connections() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let failed = failure.take();
        if let (Some(own_tcp), None) = (&self.own_tcp, &failed) {
            own_tcp.all_have_ended().await;
        }
        self.publish();
        failed.map_or(Ok(()), Err)
    }

    /// Starts our own TCP, if there is one. If its device fails, the worker drains, and the error is in what is returned.
    fn run_own_tcp(self: &Rc<Self>) -> Rc<Cell<Option<io::Error>>> {
        let failure = Rc::new(Cell::new(None));
        let Some(own_tcp) = &self.own_tcp else { return failure };
        for _ in 0..own_tcp::suppliers(&self.resources) {
            spawn(Rc::clone(own_tcp).supply(Rc::clone(&self.resources)));
        }
        let (own_tcp, worker) = (Rc::clone(own_tcp), Rc::clone(self));
        let failed = Rc::clone(&failure);
        spawn(async move {
            let welcome = |socket: own_tcp::Socket| {
                let peer = socket.peer();
                worker.welcome(socket, peer);
            };
            if let Err(error) = own_tcp.run(welcome).await {
                worker.complain(&format!("the bypass route's device failed: {error}"));
                failed.set(Some(error));
                worker.drain.begin();
            }
        });
        failure
    }

    async fn accept(self: &Rc<Self>, listener: Fd) {
        let mut incoming = Incoming::new(listener);
        let mut pause = PAUSE_MIN;
        loop {
            match incoming.next().await {
                Ok(connection) => {
                    pause = PAUSE_MIN;
                    let socket = Socket::from(connection);
                    match socket.peer() {
                        Ok(peer) => self.welcome(socket, peer),
                        Err(_) => self.numbers.count(Family::ConnectionsRefused, "peer_gone"),
                    }
                }
                Err(error) => match error.raw_os_error() {
                    // The viewer left before it was accepted.
                    Some(libc::ECONNABORTED | libc::EPROTO | libc::EPERM | libc::EINTR) => {}
                    _ => {
                        self.numbers.accept_pauses_total.add(1);
                        self.files.forget_unused();
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                },
            }
        }
    }

    /// Gives a new connection its session, if there is room.
    pub fn welcome<C: Carrier + 'static>(self: &Rc<Self>, socket: C, peer: SocketAddr) {
        if self.drain.has_begun() {
            return self.numbers.count(Family::ConnectionsRefused, "draining");
        }
        let Some(entering) = self.resources.room.enter() else {
            return self.numbers.count(Family::ConnectionsRefused, "memory");
        };
        match self.admission.admit(peer.ip()) {
            Ok(pass) => {
                self.numbers.connections_accepted_total.add(1);
                spawn(session::run(Rc::clone(self), socket, peer, pass, entering));
            }
            Err(LimitReached::Worker) => {
                self.numbers.count(Family::ConnectionsRefused, "worker_full")
            }
            Err(LimitReached::Address) => {
                self.numbers.count(Family::ConnectionsRefused, "address_full")
            }
        }
    }

    /// Once a second: the date, and numbers that are kept elsewhere.
    async fn tick(self: Rc<Self>) {
        loop {
            self.date.set(date_now());
            self.files.forget_recalled();
            self.publish();
            sleep(until_next_second()).await;
        }
    }

    fn publish(&self) {
        let Resources { reader, send_buffers, .. } = &*self.resources;
        let (numbers, stats) = (&self.numbers, &reader.stats);
        numbers.connections.set(self.admission.connections() as u64);
        numbers.read_resident_bytes_total.set(stats.resident_bytes.get());
        numbers.read_cached_bytes_total.set(stats.cached_bytes.get());
        numbers.read_once_bytes_total.set(stats.once_bytes.get());
        numbers.read_direct_bytes_total.set(stats.direct_bytes.get());
        numbers.read_refused_total.set(stats.refused.get());
        numbers.buffer_waits_total.set(reader.pool().waits() + send_buffers.waits());
        numbers.read_buffers_free.set(reader.pool().free() as u64);
        numbers.read_buffers.set(reader.pool().count() as u64);
        numbers.send_buffers_free.set(send_buffers.free() as u64);
        numbers.send_buffers.set(send_buffers.count() as u64);
        numbers.bringing_bytes.set(self.resources.bringing_bytes());
        numbers.files_open_for_writing_total.set(self.files.open_for_writing());
        numbers.open_files.set(self.files.remembered_count() as u64);
        numbers.response_memory_bytes.set(self.in_memory.bytes());
        numbers.tasks_panicked_total.set(reactor::tasks_panicked());
        if let Some(log) = &self.access_log {
            numbers.access_log_lost_total.set(log.lost());
        }
        if let Some(experience) = &self.experience {
            experience.publish(&self.audience);
        }
        if let Some(own_tcp) = &self.own_tcp {
            own_tcp.publish(numbers);
        }
        numbers.worker_cpu_seconds_total.set(thread_cpu_microseconds());
    }
}

/// A window that takes no buffer may be larger than others. Twice as much gained nothing; a viewer's turn lasts a fifth of
/// a millisecond.
const SENDFILE_BYTES_MAX: usize = 2 << 20;

/// Pauses in accepting, when descriptors or memory run out: long enough for viewers to leave, short enough to be
/// missed by nobody.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The window of a viewer that has just come, and of all if windows may not grow.
const WINDOW_BYTES_FIRST: usize = 64 << 10;

fn window_bytes_max(config: &Config) -> usize {
    let grown = config.net.window_bytes_max;
    if config.is_on(Switch::Window) { grown } else { grown.min(WINDOW_BYTES_FIRST) }
}

/// The most that the kernel is told to send at once, on a connection without TLS.
fn sendfile_bytes_max(config: &Config) -> usize {
    let window_bytes_max = window_bytes_max(config);
    if config.is_on(Switch::Window) {
        window_bytes_max.max(SENDFILE_BYTES_MAX)
    } else {
        window_bytes_max
    }
}

/// Bytes of a worker's buffers of both kinds.
pub(crate) fn pools_bytes(config: &Config, buffer_bytes: usize) -> usize {
    let pool = pool_options(config, buffer_bytes);
    2 * pool.count * pool.buffer_bytes
}

fn pool_options(config: &Config, buffer_bytes: usize) -> PoolOptions {
    let bytes_each = window_bytes_max(config).next_multiple_of(4096) + BUFFER_SLACK_BYTES;
    let bytes_all = match config.limits.buffer_bytes_max {
        0 => buffer_bytes,
        bytes => bytes,
    };
    PoolOptions {
        buffer_bytes: bytes_each,
        count: (bytes_all / bytes_each).max(BUFFERS_MIN),
        register: config.is_on(Switch::Registered),
        fifo: !config.is_on(Switch::Lifo),
    }
}

fn date_now() -> HttpDate {
    HttpDate::new(since_1970().as_secs())
}

pub(crate) fn since_1970() -> Duration {
    // A clock before 1970 is taken as 1970.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn until_next_second() -> Duration {
    Duration::from_nanos(1_000_000_000 - u64::from(since_1970().subsec_nanos()))
}

/// Boundaries of multipart answers: a count under a keyed hash. The key comes from the kernel's random source (`getrandom`,
/// by the standard library), so that no boundary tells of the next. It costs some 45 ns for each response, multipart or not.
#[derive(Default)]
struct Boundaries {
    key: RandomState,
    count: Cell<u64>,
}

impl Boundaries {
    fn next(&self) -> u128 {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        let half = |half: u8| u128::from(self.key.hash_one((count, half)));
        half(0) << 64 | half(1)
    }
}

fn thread_cpu_microseconds() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}
