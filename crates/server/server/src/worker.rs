//! A core's life: one thread, one ring, one listener, its own buffers, files and counters.

use crate::accepting::Accepting;
use crate::access_log::AccessLog;
use crate::address_lists::AddressLists;
use crate::buffers;
use crate::control::Control;
use crate::drain::Drain;
use crate::edge::{EdgeLink, LocalEdge};
use crate::experience::Experience;
use crate::folders::AllFolders;
use crate::hot_memory::Keeper;
use crate::libraries::Libraries;
use crate::listen::unsent_bytes_min;
use crate::offload;
use crate::open_privileged::Keys;
use crate::pins::{Pinner, Pins};
use crate::proxy_header;
use crate::response_settings::Answering;
use crate::session::{self, MovingSession};
use crate::silo::Place;
use crate::silo_moves::{Inboxes, Moves, Reason, Refused};
use crate::standby;
use crate::title_listing::TitleListing;
use crate::token_gate::Gate;
use crate::warnings::Warnings;
use config::{Config, Switch};
use delivery::in_memory::InMemory;
use delivery::memory_budget::{HandshakePermit, MemoryBudget};
use delivery::own_tcp::{self, OwnTcp};
use delivery::{
    Carrier, DeliveryLimits, End, Features, KernelOffload, LossyPaths, NicShares, QueueTrial,
    Resources, TotalRate, ViewerTimeouts,
};
use disk::{File, Heat, Inode, LocalHotSet, Populator, Reader};
use fullbore_http::Context;
use live_figures::audience::Audience;
use machine::{Headroom, MemoryPressure};
use net::{Admission, LimitReached, Permit, Prefixes, Socket};
use qoe::Salt;
use reactor::op::Incoming;
use reactor::{Fd, MemoryPart, Pool, Woken, sleep, spawn};
use silo_map::SiloMap;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use telemetry::since_1970;
use telemetry::{Family, Numbers};
use tls::TlsContext;
use token::CopyRing;

/// State that the sessions of one core share.
pub struct Worker {
    /// The resources that their connections use.
    pub resources: Rc<Resources>,
    /// Counters.
    pub numbers: Arc<Numbers>,
    /// The entrance for connections.
    pub entrance: Entrance,
    /// The libraries and their access rules.
    pub libraries: Libraries,
    /// Everything that a response depends on besides its request.
    pub answering: Answering,
    /// The time in which its viewers leave for another server.
    pub(crate) leaves_within: Duration,
    /// Buffers are registered with io_uring.
    pub(crate) registers_buffers: bool,
    /// The memory that responses hold.
    pub in_memory: InMemory,
    /// The worker's reports.
    pub reports: Reports,
    /// The shutdown.
    pub drain: Drain,
    /// Connections that move between silos; none if connections stay where they arrived.
    pub(crate) moves: Option<Moves>,
    /// Adjusts the silo's hot set, if this is the worker that does so.
    pub(crate) keeper: Option<Keeper>,
    /// Keeps pinned titles in it, if there are any.
    pinner: Option<Pinner>,
}

/// The entrance for connections: certificates, proxies, address lists.
pub struct Entrance {
    /// Certificates and tickets; none without TLS.
    pub tls: RefCell<Option<TlsContext>>,
    /// The keys are taken over from the handshake; otherwise the handshake's state stays and seals.
    pub hands_keys_out: bool,
    pub(crate) admission: Rc<Admission>,
    /// The addresses of proxies, whose connections begin with a header.
    proxies: Prefixes,
    /// The addresses that may connect.
    pub(crate) lists: RefCell<Arc<AddressLists>>,
    /// The server's own TCP, on the bypass route.
    own_tcp: Option<Rc<OwnTcp>>,
}

/// The label for a connection that is refused because its address has too many already.
pub(crate) const ADDRESS_FULL: Reason = "address_full";

/// A worker's reports.
pub struct Reports {
    /// Players' reports about their viewers; none if they are switched off.
    pub experience: Option<Experience>,
    /// The keys of nodes' copies, which are not counted as views; none until they can be read.
    pub(crate) copies: RefCell<Option<Arc<CopyRing>>>,
    /// Its figures about viewers.
    pub audience: Arc<Audience>,
    /// The access log, if there is one.
    pub access_log: Option<AccessLog>,
    /// Trouble with the library, for the operator.
    pub warnings: Warnings,
    /// Trouble with proxies, which must not crowd out the library's.
    pub(crate) proxies: Warnings,
    /// Addresses with too many connections, which any client can cause.
    pub(crate) addresses: Warnings,
}

/// Everything that a worker is made from, on its own thread.
pub(crate) struct Parts {
    /// The parts that all workers share.
    pub(crate) shared: Shared,
    /// Its share in its silo.
    pub(crate) place: Place,
    /// Its counters.
    pub(crate) numbers: Arc<Numbers>,
    /// Its figures about viewers.
    pub(crate) audience: Arc<Audience>,
    /// The access log.
    pub(crate) access_log: Option<AccessLog>,
    /// The parts of the server's own TCP, on the bypass route.
    pub(crate) own_tcp: Option<own_tcp::Parts>,
    /// It accepts nothing at first, because another server does.
    pub(crate) is_standby: bool,
}

/// The parts that all workers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    /// Certificates and tickets; none without TLS.
    pub(crate) tls: Option<TlsContext>,
    /// Keys of signed URLs and of nodes' copies.
    pub(crate) keys: Keys,
    /// The addresses that may connect.
    pub(crate) lists: Arc<AddressLists>,
    /// For players' reports: the salt and the start of time; none if reports are switched off.
    pub(crate) experience: Option<(Salt, Instant)>,
    /// The lists of titles for the pages, one for each library; none without pages.
    pub(crate) listings: Vec<Option<TitleListing>>,
    /// The work that the server leaves to the kernel.
    pub(crate) offload: KernelOffload,
    /// Viewers whose connections cost network cards too much.
    pub(crate) lossy_paths: Arc<Mutex<LossyPaths>>,
    /// The share of new connections that each network card gets.
    pub(crate) nic_shares: Arc<NicShares>,
    /// The folders of all libraries.
    pub(crate) folders: Arc<AllFolders>,
    /// Files that must not be served.
    pub(crate) withheld: Arc<[Inode]>,
    /// The remaining memory.
    pub(crate) headroom: Arc<Headroom>,
    /// How long threads wait for memory, and how much is available.
    pub(crate) pressure: Arc<MemoryPressure>,
    /// The number of workers.
    pub(crate) workers: usize,
    /// The silo of each worker, disk and network card.
    pub(crate) silo_map: Arc<SiloMap>,
    /// The workers' inboxes for offered connections; none if connections stay where they arrived.
    pub(crate) inboxes: Option<Inboxes>,
    /// The files to pin in hot sets, if there are any.
    pub(crate) pins: Option<Arc<Pins>>,
    /// The link to a caching edge's helper.
    pub(crate) edge: Option<Arc<EdgeLink>>,
    /// The rate limit of all workers together; none if there is no limit.
    pub(crate) total_rate: Option<Arc<TotalRate>>,
    /// All memory for buffers is allocated at startup.
    pub(crate) takes_buffers_early: bool,
}

impl Worker {
    /// Makes a worker on this thread, which must have a reactor.
    ///
    /// # Errors
    /// If the library cannot be opened or there is no memory.
    pub(crate) fn new(mut parts: Parts) -> io::Result<Rc<Self>> {
        let in_place = parts.own_tcp.as_mut().and_then(|own| own.interface.device.take_memory());
        let resources = Rc::new(resources(&parts, in_place)?);
        let Parts { shared, place, numbers, audience, access_log, own_tcp, .. } = parts;
        let config = &*shared.config;
        let open_files_max =
            if config.is_on(Switch::Files) { config.limits.open_files_max } else { 0 };
        let rotating = shared.silo_map.rotating(&shared.config);
        let map = Arc::clone(&shared.silo_map);
        let gate = shared.keys.signed.map(|keys| Gate::of(config, keys));
        let edge = shared.edge.map(|link| LocalEdge::new(link, place.worker, open_files_max));
        let (folders, listings) = (&shared.folders, shared.listings);
        let open_files = (open_files_max, &rotating);
        let libraries = Libraries::new(config, folders, listings, open_files, gate, edge)?;
        libraries.withhold(&shared.withheld);
        let pinner = shared.pins.filter(|_| place.keeper.is_some());
        let pinner = pinner.map(|pins| Pinner::new(pins, Arc::clone(&map), place.worker));
        let moves = shared.inboxes.map(|inboxes| Moves::new(map, place.worker, inboxes));
        Ok(Rc::new(Self {
            resources,
            numbers,
            entrance: Entrance {
                tls: RefCell::new(shared.tls),
                hands_keys_out: config.is_on(Switch::Handout),
                admission: config.limits.admission(),
                proxies: config.proxy_protocol.prefixes(),
                lists: RefCell::new(shared.lists),
                own_tcp: own_tcp.map(OwnTcp::new),
            },
            libraries,
            answering: Answering::new(config),
            leaves_within: standby::leaves_within(config),
            registers_buffers: config.is_on(Switch::Registered),
            in_memory: InMemory::new(config.limits.response_bytes_max),
            reports: Reports {
                experience: shared.experience.map(|(salt, epoch)| Experience::new(salt, epoch)),
                copies: RefCell::new(shared.keys.copies),
                audience,
                access_log,
                warnings: Warnings::default(),
                proxies: Warnings::default(),
                addresses: Warnings::every(Duration::from_secs(600)),
            },
            drain: Drain::default(),
            moves,
            keeper: place.keeper,
            pinner,
        }))
    }

    /// Calls `f` with the context of a response.
    pub fn with_context<R>(&self, f: impl FnOnce(&Context<'_>) -> R) -> R {
        self.answering.with_context(self.drain.has_begun(), f)
    }

    /// As [`Self::with_context`], for a response at `path` that is no file of a library.
    pub(crate) fn with_path_context<R>(&self, path: &[u8], f: impl FnOnce(&Context<'_>) -> R) -> R {
        self.answering.with_path_context(path, self.drain.has_begun(), f)
    }

    /// As [`Self::with_context`], for a response with `file`, which is at `path`.
    pub(crate) fn with_file_context<R>(
        &self,
        file: &File,
        path: &[u8],
        f: impl FnOnce(&Context<'_>) -> R,
    ) -> R {
        self.answering.with_file_context((file, path), self.drain.has_begun(), f)
    }

    /// Exchanges connections with other workers, as long as there are sessions.
    async fn exchange(self: Rc<Self>, woken: Woken) {
        let Some(moves) = &self.moves else { return };
        let exchanging = woken.each(|| {
            moves.look(|moving| self.take_over(moving));
            true
        });
        // It ends only if the kernel refuses the wait, for which it has no reason.
        if exchanging.await.is_err() {
            moves.close();
        }
    }

    /// The worker's whole life: it accepts connections until asked to drain, and returns after the last session has ended. With
    /// the server's own TCP there is no listener.
    ///
    /// # Errors
    /// If the kernel refuses something essential.
    pub async fn run(
        self: Rc<Self>,
        listeners: Vec<OwnedFd>,
        control: Arc<Control>,
        woken: Woken,
    ) -> io::Result<()> {
        let accepting = Rc::new(Accepting::new(listeners.into_iter().map(Fd::from)));
        spawn(Rc::clone(&self).tick(Arc::clone(&control), Rc::clone(&accepting)));
        spawn(Rc::clone(&self).pin());
        spawn(Rc::clone(&self).hear_of_news());
        if let Some(woken) = self.moves.as_ref().and_then(Moves::take_woken) {
            spawn(Rc::clone(&self).exchange(woken));
        }
        self.follow(&control, &accepting);
        let failure = self.run_own_tcp();
        let (worker, followed) = (Rc::clone(&self), Rc::clone(&accepting));
        let waiting = woken.each(move || {
            worker.follow(&control, &followed);
            !worker.drain.has_begun()
        });
        if let Some(waited) = self.drain.unless_begun(waiting).await {
            waited?;
        }
        if let Some(moves) = &self.moves {
            moves.close();
        }
        accepting.stop();
        while !accepting.has_ended() || self.entrance.admission.connections() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let failed = failure.take();
        if let (Some(own_tcp), None) = (&self.entrance.own_tcp, &failed) {
            own_tcp.all_have_ended().await;
        }
        self.publish();
        failed.map_or(Ok(()), Err)
    }

    /// Carries out the main thread's requests.
    fn follow(self: &Rc<Self>, control: &Control, accepting: &Accepting) {
        if let Some(tls) = control.take_tls() {
            *self.entrance.tls.borrow_mut() = Some(tls);
        }
        if let (Some(gate), Some(keys)) = (&self.libraries.gate, control.take_keys()) {
            gate.renew(keys);
        }
        if let Some(copies) = control.take_copies() {
            *self.reports.copies.borrow_mut() = Some(copies);
        }
        if let Some(lists) = control.take_lists() {
            *self.entrance.lists.borrow_mut() = lists;
        }
        if let Some(inodes) = control.take_withheld() {
            self.libraries.withhold(&inodes);
        }
        if control.is_draining() {
            self.drain.begin();
            if let Some(own_tcp) = &self.entrance.own_tcp {
                own_tcp.refuse_new();
            }
        }
        self.set_standby(control.is_standby());
        accepting.set(!self.drain.is_announced(), |listener, stop| {
            spawn(Rc::clone(self).accept(listener, stop));
        });
    }

    /// Starts the server's own TCP, if it is used. If its device fails, the worker drains, and the returned cell holds the error.
    fn run_own_tcp(self: &Rc<Self>) -> Rc<Cell<Option<io::Error>>> {
        let failure = Rc::new(Cell::new(None));
        let Some(own_tcp) = &self.entrance.own_tcp else { return failure };
        for _ in 0..own_tcp::suppliers(&self.resources) {
            spawn(Rc::clone(own_tcp).supply(Rc::clone(&self.resources)));
        }
        let (own_tcp, worker) = (Rc::clone(own_tcp), Rc::clone(self));
        let failed = Rc::clone(&failure);
        spawn(async move {
            let welcome = |socket: own_tcp::OwnTcpSocket| {
                let peer = socket.peer();
                worker.welcome(socket, peer);
            };
            if let Err(error) = own_tcp.run(welcome).await {
                worker
                    .reports
                    .warnings
                    .print(&format!("the bypass route's device failed: {error}"));
                failed.set(Some(error));
                worker.drain.begin();
            }
        });
        failure
    }

    /// Accepts connections until `stop` begins.
    async fn accept(self: Rc<Self>, listener: Fd, stop: Rc<Drain>) {
        let mut incoming = Incoming::new(listener);
        let mut pause = PAUSE_MIN;
        while let Some(next) = stop.unless_begun(incoming.next()).await {
            match next {
                Ok(connection) => {
                    pause = PAUSE_MIN;
                    self.receive(connection);
                }
                Err(error) => match error.raw_os_error() {
                    // The viewer left before it was accepted.
                    Some(libc::ECONNABORTED | libc::EPROTO | libc::EPERM | libc::EINTR) => {}
                    _ => {
                        self.numbers.accept_pauses_total.add(1);
                        self.libraries.forget_unused();
                        stop.unless_begun(sleep(pause)).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                },
            }
        }
        while let Some(connection) = incoming.last().await {
            self.receive(connection);
        }
    }

    fn receive(self: &Rc<Self>, connection: OwnedFd) {
        let socket = Socket::from(connection);
        match socket.peer() {
            Ok(peer) => self.welcome(socket, peer),
            Err(_) => self.count_refused("peer_gone"),
        }
    }

    /// Starts a session for a new connection, if its address may connect and there is room. A proxy's connection must first announce its viewer.
    pub fn welcome<C: Carrier + 'static>(self: &Rc<Self>, socket: C, peer: SocketAddr) {
        let address = peer.ip();
        if self.entrance.proxies.contains(address) {
            return match self.admit(Admission::admit_unnamed) {
                Ok((permit, handshake)) => {
                    spawn(proxy_header::run(Rc::clone(self), socket, peer, permit, handshake));
                }
                Err(reason) => self.count_refused(reason),
            };
        }
        let may_connect = self.entrance.lists.borrow().check(address);
        match may_connect.and_then(|()| self.admit(|admission| admission.admit(address))) {
            Ok((permit, handshake)) => self.begin(socket, peer, permit, handshake),
            Err(reason) => self.turn_away(reason, address),
        }
    }

    /// Starts a session for a viewer who has a place.
    pub(crate) fn begin<C: Carrier + 'static>(
        self: &Rc<Self>,
        socket: C,
        peer: SocketAddr,
        permit: Permit,
        handshake: HandshakePermit,
    ) {
        self.numbers.connections_accepted_total.add(1);
        spawn(session::run(Rc::clone(self), socket, peer, permit, handshake));
    }

    /// Counts a connection from `address` that is closed unserved. If the address has too many, the log suggests a remedy.
    pub(crate) fn turn_away(&self, reason: Reason, address: IpAddr) {
        self.count_refused(reason);
        if reason == ADDRESS_FULL {
            self.reports.addresses.print(&format!(
                "connections from {address} are closed: a worker has as many from there as limits.connections_per_address_max allows; if many viewers share \
                 that address (a carrier's NAT, a proxy that doesn't send the PROXY protocol), set a higher number, or 0 for no limit"
            ));
        }
    }

    /// Counts a connection that is closed unserved.
    pub(crate) fn count_refused(&self, reason: Reason) {
        self.numbers.count(Family::ConnectionsRefused, reason);
    }

    /// Counts a connection that its peer closed before it sent anything.
    pub(crate) fn count_silent(&self) {
        self.numbers.connections_accepted_total.add(1);
        self.numbers.count(Family::Ends, End::PeerClosed.as_str());
    }

    /// Continues a connection of another worker, if there is room.
    fn take_over(
        self: &Rc<Self>,
        moving: Box<MovingSession>,
    ) -> Result<(), Refused<Box<MovingSession>>> {
        match self.admit(|admission| admission.admit_moved(moving.peer().ip())) {
            Ok((permit, _)) => {
                self.numbers.connections_moved_total.add(1);
                spawn(session::arrive(Rc::clone(self), *moving, permit));
                Ok(())
            }
            Err(reason) => Err((moving, reason)),
        }
    }

    /// Takes a place for a connection, or returns the reason why there is none.
    fn admit(
        &self,
        take: impl FnOnce(&Rc<Admission>) -> Result<Permit, LimitReached>,
    ) -> Result<(Permit, HandshakePermit), Reason> {
        // Connections that arrived before the takeover are this server's to answer: the listener is open, so none was refused.
        if self.drain.has_begun() && !self.drain.is_leaving() {
            return Err("draining");
        }
        let handshake = self.resources.memory.enter().ok_or("memory")?;
        let permit = take(&self.entrance.admission).map_err(|limit| match limit {
            LimitReached::Worker => "worker_full",
            LimitReached::Address => ADDRESS_FULL,
        })?;
        // Once a second is often enough for leaving viewers. Arriving ones count at once, because a server that ends waits for all of them.
        self.numbers.connections.set(self.entrance.admission.connections() as u64);
        Ok((permit, handshake))
    }

    /// Once a second, updates the date and the numbers that are kept elsewhere.
    async fn tick(self: Rc<Self>, control: Arc<Control>, accepting: Rc<Accepting>) {
        loop {
            self.answering.set_date();
            self.libraries.tick();
            match &self.keeper {
                Some(keeper) if !self.drain.is_announced() => keeper.look().await,
                _ => {}
            }
            if let Some(edge) = &self.libraries.edge {
                edge.tick();
            }
            self.publish();
            control.note_left(self.drain.is_announced() && accepting.has_ended());
            sleep(until_next_second()).await;
        }
    }

    /// Wakes the sessions that wait for an origin whenever there is news.
    async fn hear_of_news(self: Rc<Self>) {
        let Some(edge) = &self.libraries.edge else { return };
        let Some(woken) = edge.take_woken() else { return };
        let hearing = woken.each(|| {
            edge.wake();
            true
        });
        // It ends only if the kernel refuses the wait, for which it has no reason.
        let _ = hearing.await;
    }

    /// Keeps pinned titles in the hot set, if this is the worker that does so.
    async fn pin(self: Rc<Self>) {
        let pinned = (&self.pinner, self.libraries.of_others(), self.resources.reader.hot_set());
        if let (Some(pinner), Some(library), Some(hot_set)) = pinned {
            pinner.run(&library.files, hot_set).await;
        }
    }

    fn publish(&self) {
        let Resources { reader, send_buffers, .. } = &*self.resources;
        let (numbers, stats) = (&self.numbers, &reader.stats);
        numbers.connections.set(self.entrance.admission.connections() as u64);
        numbers.read_resident_bytes_total.set(stats.resident_bytes.get());
        numbers.read_cached_bytes_total.set(stats.cached_bytes.get());
        numbers.read_once_bytes_total.set(stats.once_bytes.get());
        numbers.read_direct_bytes_total.set(stats.direct_bytes.get());
        numbers.read_refused_total.set(stats.refused.get());
        numbers.disk_reads_total.set(stats.disk_reads.get());
        numbers.disk_read_seconds_total.set(stats.disk_read_micros.get());
        numbers.loads_stalled_total.set(reader.populator().map_or(0, |all| all.stalled()));
        numbers.read_hot_bytes_total.set(stats.hot_bytes.get());
        let filled = reader.hot_sets().map(|hot_set| hot_set.filled_bytes.get());
        numbers.hot_filled_bytes_total.set(filled.sum());
        if let Some(keeper) = &self.keeper {
            numbers.hot_evicted_bytes_total.set(keeper.set().evicted_bytes());
            numbers.hot_bytes.set(keeper.set().used_bytes());
            numbers.hot_bytes_max.set(keeper.set().bytes_max());
        }
        if let Some(pinner) = &self.pinner {
            numbers.hot_pinned_bytes.set(pinner.pinned_bytes());
            numbers.hot_pins_missing_bytes.set(pinner.missing_bytes());
        }
        let read_buffers = |of: fn(&Pool) -> u64| reader.pools().map(of).sum::<u64>();
        numbers.buffer_waits_total.set(read_buffers(Pool::waits) + send_buffers.waits());
        numbers.read_buffers_free.set(read_buffers(|pool| pool.free() as u64));
        numbers.read_buffers.set(read_buffers(|pool| pool.count() as u64));
        numbers.send_buffers_free.set(send_buffers.free() as u64);
        numbers.send_buffers.set(send_buffers.count() as u64);
        numbers.bringing_bytes.set(self.resources.bringing_bytes());
        numbers.files_open_for_writing_total.set(self.libraries.open_for_writing());
        numbers.open_files.set(self.libraries.remembered_count());
        numbers.response_memory_bytes.set(self.in_memory.bytes());
        numbers.tasks_panicked_total.set(reactor::tasks_panicked());
        if let Some(log) = &self.reports.access_log {
            numbers.access_log_lost_total.set(log.lost());
        }
        if let Some(experience) = &self.reports.experience {
            experience.publish(&self.reports.audience);
        }
        if let Some(own_tcp) = &self.entrance.own_tcp {
            own_tcp.publish(numbers);
        }
        if let Some(edge) = self.libraries.edge.as_ref().filter(|edge| edge.publishes()) {
            edge.link().publish(numbers);
        }
        numbers.worker_cpu_seconds_total.set(thread_cpu_microseconds());
    }
}

/// Pauses in accepting when file descriptors or memory run out: long enough for viewers to leave, short enough to go unnoticed.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

fn until_next_second() -> Duration {
    Duration::from_nanos(1_000_000_000 - u64::from(since_1970().subsec_nanos()))
}

/// The resources that a worker shares among its connections. `in_place` is memory from which frames are sent without a copy.
fn resources(parts: &Parts, in_place: Option<MemoryPart>) -> io::Result<Resources> {
    let Parts { shared, place, numbers, .. } = parts;
    let sizes = place.sizes;
    let config = &*shared.config;
    let nodes: Vec<_> = place.banks.iter().map(|bank| bank.node).collect();
    let (takes_early, registers) = (shared.takes_buffers_early, !parts.is_standby);
    let (read_buffers, send_buffers) =
        buffers::pools(config, sizes.buffer_bytes, &nodes, takes_early, registers, in_place)?;
    let seconds = Duration::from_secs_f64;
    Ok(Resources {
        reader: reader(config, place, read_buffers),
        send_buffers,
        memory: MemoryBudget::new(Arc::clone(&shared.headroom), shared.workers),
        numbers: Arc::clone(numbers),
        silos: shared.silo_map.for_worker(place.worker, config.listen.is_ipv6()),
        timeouts: ViewerTimeouts {
            send: seconds(config.timeouts.send_seconds),
            hold: seconds(config.timeouts.hold_seconds),
        },
        offload: shared.offload,
        handover: {
            let Shared { offload, lossy_paths, nic_shares, .. } = shared;
            offload::handover(*offload, config, lossy_paths, nic_shares)
        },
        features: Features {
            reads_ahead: config.is_on(Switch::Ahead),
            seals_in_one_pass: config.is_on(Switch::Onepass),
            rereads: config.is_on(Switch::Reread),
        },
        limits: DeliveryLimits {
            key_records_max: config.tls.key_records_max,
            unsent_bytes_min: unsent_bytes_min(config, shared.offload),
            window_bytes_max: buffers::window_bytes_max(config),
            sendfile_bytes_max: buffers::sendfile_bytes_max(config),
        },
        total_rate: shared.total_rate.clone(),
        queue_trial: QueueTrial::default(),
        readahead_budget: Resources::new_readahead_budget(),
        scratch: Resources::new_scratch(),
        started: Instant::now(),
    })
}

/// The reader of files into `pools`, one for each bank.
fn reader(config: &Config, place: &Place, pools: Vec<Pool>) -> Reader {
    let mut banks = place.banks.iter().zip(pools);
    let (own, pool) = banks.next().expect("a worker has memory of its own");
    let hot_set = own.hot_set.clone().map(LocalHotSet::new);
    // Without /dev/null, as in some chroots, pages come one by one.
    let populator = config.is_on(Switch::Folios).then(Populator::new).and_then(Result::ok);
    let reader = Reader::new(pool, config.read_policy(), Heat::new(place.sizes.heat_bytes))
        .with_populator(populator);
    banks.fold(reader.with_hot_set(hot_set), |reader, (bank, pool)| {
        reader.with_bank_at(&bank.disks, pool, bank.hot_set.clone().map(LocalHotSet::elsewhere))
    })
}

fn thread_cpu_microseconds() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}
