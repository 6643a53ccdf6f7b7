//! The admin listener: `/healthz`, `/metrics` (Prometheus), `/status.json`, `/viewing.json` for a fleet's agent, and the dashboard at `/` with its
//! `/events`. It has a thread of its own, so that it answers while every worker is busy, and so that watching the server does not slow it
//! down.
//!
//! It answers requests for an address or for one of its known names ([`AdminHosts`]). Every response is generated for its request,
//! and must not be cached.

use crate::accepting::Accepting;
use crate::acme::{self, AcmeLink};
use crate::admin_hosts::AdminHosts;
use crate::admin_places::{AdminPlace, AdminPlaces};
use crate::crossings::{self, Paths};
use crate::drain::Drain;
use crate::edge::EdgeLink;
use crate::file_abilities::Lack;
use crate::folders::{AllFolders, Health};
use crate::offload;
use crate::page;
use crate::redirect::{self, Redirects};
use crate::reloads::{self, Reloads};
use crate::sandbox;
use crate::tls_stat::{self, TlsStat};
use crate::upgrade::ListenerSet;
use crate::viewing::Viewing;
use catalog::KnownTitles;
use config::Config;
use delivery::{KernelOffload, Outgoing, Piece};
use fullbore_http::{
    Context, HttpDate, Method, PageBody, Parse, Part, Refusal, RefusedRequest, Reject, Request,
    RequestLimits, Resource, Response,
};
use live_figures::audience::Audience;
use live_figures::{self, Live};
use net::Socket;
use qoe::Collector;
use reactor::op::Incoming;
use reactor::{
    Fd, Reactor, Remote, RingOptions, Woken, remote, sleep, spawn, timeout_at, yield_now,
};
use serde_json::json;
use silo_map::SiloMap;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use telemetry::{Exposition, Kind, Metric, Numbers, StoredUnit, Totals, since_1970};

/// How long a whole request may take to arrive. Scrapers ask every 15 to 60 s and keep their connection, which still works
/// when there is no file descriptor left for a new one.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// The busiest titles in `/status.json`; `/metrics` has all of them.
const TITLES_SHOWN: usize = 20;

/// Titles in a snapshot with quality of experience.
const QOE_TITLES_MAX: usize = 8;

/// How long a client may take to receive a whole response.
const PATIENCE: Duration = Duration::from_secs(10);

/// The part of a worker that the admin listener reads.
pub struct Watched {
    /// Its counters.
    pub numbers: Arc<Numbers>,
    /// Its figures about viewers.
    pub audience: Arc<Audience>,
}

/// The choices that the server made at startup, for people.
pub struct Chosen {
    /// The work that it leaves to the kernel.
    pub offload: KernelOffload,
    /// The library's folders.
    pub(crate) folders: Arc<AllFolders>,
    /// The silo of each worker, disk and network card.
    pub(crate) silo_map: Arc<SiloMap>,
    /// Missing permissions and features that would make it faster.
    pub lacks: Vec<Lack>,
    /// The helper that gets certificates, if there is one.
    pub(crate) acme: Option<Arc<AcmeLink>>,
    /// Reloads that failed.
    pub(crate) reloads: Arc<Reloads>,
    /// The link to a caching edge's helper, if this is an edge.
    pub(crate) edge: Option<Arc<EdgeLink>>,
    /// The redirects from plain HTTP, if there are any.
    pub(crate) redirects: Option<Arc<Redirects>>,
}

/// The admin listener's thread, which lives as long as the process. Dropping this stops the listener, so that the next server
/// can use its address at once.
pub(crate) struct Admin {
    control: AdminControl,
    listeners: Arc<ListenerSet>,
}

/// Controls the listener from other threads.
#[derive(Clone)]
pub(crate) struct AdminControl {
    state: Arc<State>,
    remote: Remote,
}

struct State {
    numbers: Vec<Arc<Numbers>>,
    audiences: Vec<Arc<Audience>>,
    /// When the server started; players' reports count their times from here.
    started: Instant,
    /// Viewers' quality of experience. Only this thread uses it.
    viewing: Viewing,
    draining: AtomicBool,
    /// Set while another server has the listener. Responses then announce that their connection ends.
    is_standby: AtomicBool,
    /// Held once for each listener and each client that has not been answered yet.
    unanswered: Arc<()>,
    hosts: AdminHosts,
    /// Requests for other hosts.
    misdirected: AtomicU64,
    folders: Arc<AllFolders>,
    config: Config,
    offload: KernelOffload,
    silo_map: Arc<SiloMap>,
    /// Missing permissions and features that would make the server faster.
    lacks: Vec<Lack>,
    /// The kernel's TLS counters at the start; none if the kernel does not seal.
    tls_stat: Option<TlsStat>,
    acme: Option<Arc<AcmeLink>>,
    reloads: Arc<Reloads>,
    edge: Option<Arc<EdgeLink>>,
    redirects: Option<Arc<Redirects>>,
}

impl Admin {
    /// Starts serving, or waits with it if the listener is shared.
    ///
    /// # Errors
    /// If the thread or its ring cannot be started.
    pub(crate) fn start(
        listeners: Arc<ListenerSet>,
        workers: Vec<Watched>,
        config: &Config,
        chosen: Chosen,
        started: Instant,
        sources: live_figures::Sources,
    ) -> io::Result<Self> {
        let Chosen { offload, folders, silo_map, lacks, acme, reloads, edge, redirects } = chosen;
        let draining = AtomicBool::new(false);
        let (numbers, audiences) =
            workers.into_iter().map(|worker| (worker.numbers, worker.audience)).unzip();
        let state = Arc::new(State {
            numbers,
            audiences,
            started,
            viewing: Viewing::new(started, config.http.counted),
            draining,
            is_standby: AtomicBool::new(listeners.is_shared()),
            unanswered: Arc::default(),
            hosts: AdminHosts::new(&config.admin_hosts),
            misdirected: AtomicU64::new(0),
            folders,
            config: config.clone(),
            offload,
            silo_map,
            lacks,
            tls_stat: offload.seals.then(TlsStat::now),
            acme,
            reloads,
            edge,
            redirects,
        });
        let served = Arc::clone(&state);
        let listener = listeners.admin.try_clone()?;
        let redirect = listeners.redirect().map(OwnedFd::try_clone).transpose()?;
        let (remote, woken) = remote()?;
        let (ready, readiness) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("admin".into()).spawn(move || {
            let options = RingOptions { submission_entries: 16, completion_entries: 256 };
            match Reactor::new(options) {
                Ok(reactor) => {
                    if served.config.sandbox {
                        sandbox::give_up_for_rings();
                    }
                    let _ = ready.send(Ok(()));
                    let _ = reactor.run(serve(served, listener, redirect, woken, sources));
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })?;
        readiness.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok(Self { control: AdminControl { state, remote }, listeners })
    }

    /// From now on, `/healthz` reports that the server is shutting down.
    pub(crate) fn drain(&self) {
        self.control.state.draining.store(true, Ordering::Relaxed);
    }

    /// The control for other threads.
    pub(crate) fn control(&self) -> &AdminControl {
        &self.control
    }
}

impl AdminControl {
    /// Leaves the listener to another server, or accepts again.
    pub(crate) fn set_standby(&self, is_standby: bool) {
        self.state.is_standby.store(is_standby, Ordering::Relaxed);
        self.remote.wake();
    }

    /// The link to a caching edge's helper, if this is an edge.
    pub(crate) fn edge(&self) -> Option<&EdgeLink> {
        self.state.edge.as_deref()
    }

    /// Returns true while connections are accepted, or accepted ones have no answer yet: clients who have just connected, are being sent an answer,
    /// or are being redirected.
    pub(crate) fn is_answering(&self) -> bool {
        let is_redirecting = self.state.redirects.as_ref().is_some_and(|all| all.are_under_way());
        is_redirecting || Arc::strong_count(&self.state.unanswered) > 1
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.listeners.stop_admin();
    }
}

async fn serve(
    state: Arc<State>,
    listener: OwnedFd,
    redirect: Option<OwnedFd>,
    woken: Woken,
    sources: live_figures::Sources,
) {
    let live = Live::new();
    let constants = live_figures::Constants {
        route: offload::route_name(state.offload, state.config.route),
        disk: format!("{:?}", state.config.disk).to_lowercase(),
        started: state.started,
    };
    let more = more_of(Arc::clone(&state));
    let (numbers, audiences) = (state.numbers.clone(), state.audiences.clone());
    spawn(live_figures::take_snapshots(
        Rc::clone(&live),
        numbers,
        audiences,
        sources,
        constants,
        more,
    ));
    let accepting = Accepting::new([Fd::from(listener)]);
    let of_redirects = Accepting::new(redirect.map(Fd::from));
    let places = Rc::<AdminPlaces>::default();
    let follow = || {
        let is_here = !state.is_standby.load(Ordering::Relaxed);
        accepting.set(is_here, |listener, stop| {
            let (state, live) = (Arc::clone(&state), Rc::clone(&live));
            spawn(accept(state, live, listener, stop, Rc::clone(&places)));
        });
        of_redirects.set(is_here, |listener, stop| {
            if let Some(redirects) = &state.redirects {
                spawn(Arc::clone(redirects).accept(listener, stop));
            }
        });
        true
    };
    follow();
    // It ends only if the kernel refuses the wait, for which it has no reason.
    let _ = woken.each(follow).await;
}

/// A snapshot's contents besides the figures. It also collects players' reports, so that they are collected when no client asks.
fn more_of(
    state: Arc<State>,
) -> impl Fn(bool, &Arc<KnownTitles>) -> serde_json::Map<String, serde_json::Value> {
    move |is_looked_at, known| {
        let mut more = serde_json::Map::new();
        if is_looked_at {
            more.insert("paths".into(), Paths::of(&state.silo_map, &state.numbers).json());
        }
        more.insert("draining".into(), state.draining.load(Ordering::Relaxed).into());
        let mut experience = experience(&state);
        experience.know(Arc::clone(known));
        // Its quantiles go through every session.
        if state.config.http.cmcd && is_looked_at {
            more.insert("qoe".into(), qoe::json(&experience, QOE_TITLES_MAX));
        }
        more
    }
}

/// Viewers' quality of experience up to now.
fn experience(state: &State) -> MutexGuard<'_, Collector> {
    state.viewing.up_to_now(&state.audiences)
}

/// Accepts connections until `stop` begins.
async fn accept(
    state: Arc<State>,
    live: Rc<Live>,
    listener: Fd,
    stop: Rc<Drain>,
    places: Rc<AdminPlaces>,
) {
    let unanswered = Arc::clone(&state.unanswered);
    let receive = |socket: Socket| {
        let Some(place) = places.enter(socket) else { return };
        let (state, live) = (Arc::clone(&state), Rc::clone(&live));
        let unanswered = Arc::clone(&unanswered);
        spawn(async move { converse(&state, &live, &place, unanswered).await });
    };
    accept_into(listener, &stop, receive).await;
}

/// Hands each connection to `receive`, one in a turn, so that its request is read before the next one may need its place.
pub(crate) async fn accept_into(listener: Fd, stop: &Drain, receive: impl Fn(Socket)) {
    let mut incoming = Incoming::new(listener);
    while let Some(next) = stop.unless_begun(incoming.next()).await {
        match next {
            Ok(connection) => {
                receive(Socket::from(connection));
                yield_now().await;
            }
            Err(_) => drop(stop.unless_begun(sleep(Duration::from_millis(100))).await),
        }
    }
    while let Some(connection) = incoming.last().await {
        receive(Socket::from(connection));
    }
}

/// Answers requests one after the other. The client counts as `unanswered` until its first answer, and later while a response is sent.
async fn converse(state: &State, live: &Live, place: &AdminPlace, unanswered: Arc<()>) {
    let (socket, limits) = (place.socket(), RequestLimits::default());
    let mut input = Vec::new();
    let mut unanswered = Some(unanswered);
    loop {
        let deadline = Instant::now() + IDLE_MAX;
        let asked = timeout_at(deadline, read_request(socket, &mut input, &limits)).await;
        place.begin_answer();
        let response = match asked {
            Ok(Some(Ok(request))) if !state.hosts.answer_to(&request) => {
                state.misdirected.fetch_add(1, Ordering::Relaxed);
                with_context(state, |context| {
                    fullbore_http::refuse(Refusal::Misdirected, &request, context)
                })
            }
            Ok(Some(Ok(request))) if is_for_events(&request) => {
                drop(unanswered.take());
                if live_figures::stream(live, socket).await {
                    return;
                }
                with_context(state, |context| {
                    fullbore_http::refuse(Refusal::Unavailable, &request, context)
                })
            }
            Ok(Some(Ok(request))) => answer(state, live, &request),
            Ok(Some(Err(refusal))) => {
                let asked = RefusedRequest::Unparsed(&input);
                with_context(state, |context| fullbore_http::refuse(refusal, asked, context))
            }
            Ok(None) | Err(_) => return,
        };
        let _sending = unanswered.take().unwrap_or_else(|| Arc::clone(&state.unanswered));
        let keep_alive = response.keep_alive;
        let outgoing = Outgoing::new(response.head, response.body, None);
        let sending = send_all(socket, &outgoing);
        if !matches!(timeout_at(Instant::now() + PATIENCE, sending).await, Ok(Ok(())))
            || !keep_alive
        {
            socket.finish();
            return;
        }
        place.end_answer();
    }
}

/// The next request; `None` if the client is gone.
pub(crate) async fn read_request(
    socket: &Socket,
    input: &mut Vec<u8>,
    limits: &RequestLimits,
) -> Option<Result<Request, Refusal>> {
    loop {
        match fullbore_http::parse(input, limits) {
            // Bodies have no meaning here, and would be taken for the next request.
            Ok(Parse::Complete { request, .. })
                if request.body != fullbore_http::BodyFraming::None =>
            {
                let is_served = request.method.is_served();
                let reject =
                    if is_served { Reject::BodyTooLarge } else { Reject::MethodNotAllowed };
                return Some(Err(reject.into()));
            }
            Ok(Parse::Complete { request, consumed }) => {
                input.drain(..consumed);
                return Some(Ok(request));
            }
            Ok(Parse::Partial) => {}
            Err(reject) => return Some(Err(reject.into())),
        }
        let mut chunk = [0; 4096];
        match socket.receive(&mut chunk) {
            Ok(Some(0)) | Err(_) => return None,
            Ok(Some(bytes)) => input.extend_from_slice(&chunk[..bytes]),
            Ok(None) => socket.readable().await,
        }
    }
}

async fn send_all(socket: &Socket, outgoing: &Outgoing) -> io::Result<()> {
    let mut sent = 0;
    // All pages are in memory: there is no file.
    while let Some(Piece::Bytes(bytes)) = outgoing.piece(sent, usize::MAX) {
        let is_last = sent + bytes.len() as u64 == outgoing.bytes();
        match socket.send(bytes, !is_last)? {
            0 => socket.writable_again().await,
            taken => sent += taken as u64,
        }
    }
    Ok(())
}

/// Sends all of `bytes`.
pub(crate) async fn send_bytes(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.send(bytes, false)? {
            0 => socket.writable_again().await,
            taken => bytes = &bytes[taken..],
        }
    }
    Ok(())
}

fn is_for_events(request: &Request) -> bool {
    let is_events =
        matches!(&request.resource, Resource::File(path) if path.as_bytes() == b"events");
    is_events && request.method == Method::Get
}

/// The dashboard at `/` and `/dashboard`, and the files it refers to.
fn answer_page(request: &Request, context: &Context<'_>) -> Option<Response> {
    match &request.resource {
        Resource::Directory(path) if path.as_bytes().is_empty() => {
            Some(page::dashboard(request, context))
        }
        Resource::File(path) if path.as_bytes() == b"dashboard" => {
            Some(page::dashboard(request, context))
        }
        Resource::Reserved(path) => page::asset(request, path.as_bytes(), context),
        _ => None,
    }
}

fn answer(state: &State, live: &Live, request: &Request) -> Response {
    // The same for every path, as `Allow` in the other answers lists.
    if request.method == Method::Options {
        return with_context(state, |context| fullbore_http::options(request, context));
    }
    if let Some(page) = with_context(state, |context| answer_page(request, context)) {
        return page;
    }
    let path = match &request.resource {
        Resource::File(path) => path.as_bytes(),
        _ => b"",
    };
    let (content_type, text) = match path {
        b"healthz" if state.draining.load(Ordering::Relaxed) => {
            let why = "the server is shutting down: it finishes its responses and takes no new connections";
            return with_context(state, |context| {
                fullbore_http::refuse_because(Refusal::Unavailable, why, request, context)
            });
        }
        b"healthz" => {
            let health = || state.folders.health();
            let health = state.edge.as_ref().map_or_else(health, |edge| edge.health(health()));
            let text = match health {
                Health::Well => "ok\n".to_owned(),
                Health::Partly(why) => format!("ok, but {why}\n"),
                Health::Lost(why) => {
                    return with_context(state, |context| {
                        fullbore_http::refuse_because(Refusal::Unavailable, &why, request, context)
                    });
                }
            };
            ("text/plain; charset=utf-8", text)
        }
        b"metrics" => ("text/plain; version=0.0.4; charset=utf-8", metrics(state, live)),
        b"status.json" => ("application/json", status(state, live)),
        b"viewing.json" => ("application/json", state.viewing.json(request, &state.audiences)),
        _ => {
            return with_context(state, |context| {
                fullbore_http::refuse(Refusal::NotFound, request, context)
            });
        }
    };
    let page = PageBody {
        content_type,
        // Generated just now, so no client has a current copy.
        etag: None,
        cache_control: "no-store",
        fields: &[],
        body: vec![Part::Bytes(text.into_bytes())],
        brotli: None,
        gzip: None,
    };
    with_context(state, |context| fullbore_http::respond_page(request, page, context))
}

fn with_context<R>(state: &State, f: impl FnOnce(&Context<'_>) -> R) -> R {
    let since_1970 = since_1970();
    let date = HttpDate::new(since_1970.as_secs());
    let closing = state.is_standby.load(Ordering::Relaxed);
    let limits = RequestLimits::default();
    f(&Context { cache_control: "no-store", closing, ..Context::new(&date, &limits) })
}

/// Resident memory, under the name that Prometheus defines for it.
const RESIDENT_BYTES: Metric =
    Metric::new(Kind::Gauge, "process_resident_memory_bytes", "Resident memory of the process.");

const UPTIME: Metric =
    Metric::new(Kind::Gauge, "fullbore_uptime_seconds", "Time since the server started.")
        .stored(StoredUnit::Millionths);

const LIBRARY_LOST: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_library_lost",
    "Folders of the library that are missing, fail, or are not where they were at the start.",
);

const DISK_ERRORS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_disk_errors_total",
    "Responses that failed because a file could not be opened or read on its disk. status.json lists the files in failed_files.",
);

const LIBRARY_FOLDERS: Metric =
    Metric::new(Kind::Gauge, "fullbore_library_folders", "Folders that the library consists of.");

const DASHBOARDS: Metric = Metric::new(Kind::Gauge, "fullbore_dashboards", "Dashboards open now.");

const DASHBOARDS_DROPPED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_dashboards_dropped_total",
    "Dashboards dropped, because they fell five seconds behind.",
);

const REQUESTS_REFUSED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_admin_requests_refused_total",
    "Requests that the admin listener refused, by reason.",
)
.by("reason");

/// The admin listener's own metrics.
const METRICS: [Metric; 9] = [
    crossings::METRIC,
    RESIDENT_BYTES,
    UPTIME,
    LIBRARY_FOLDERS,
    LIBRARY_LOST,
    DISK_ERRORS,
    DASHBOARDS,
    DASHBOARDS_DROPPED,
    REQUESTS_REFUSED,
];

/// Every metric that `/metrics` can contain.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    let own = METRICS.iter().chain(&tls_stat::METRICS).chain(&acme::METRICS);
    let own = own.chain(&reloads::METRICS).chain(&redirect::METRICS);
    telemetry::metrics().chain(own).chain(qoe::metrics())
}

fn metrics(state: &State, live: &Live) -> String {
    let mut out = Exposition::default();
    Totals::of(state.numbers.iter().map(AsRef::as_ref)).expose(&mut out);
    Paths::of(&state.silo_map, &state.numbers).expose(&mut out);
    out.one(&RESIDENT_BYTES, live_figures::resident_bytes());
    out.one(&UPTIME, u64::try_from(state.started.elapsed().as_micros()).unwrap_or(u64::MAX));
    out.one(&LIBRARY_FOLDERS, state.folders.count());
    out.one(&LIBRARY_LOST, state.folders.lost());
    out.one(&DISK_ERRORS, state.folders.file_failures_total());
    if state.config.http.cmcd {
        qoe::expose(&experience(state), &mut out);
    }
    out.one(&DASHBOARDS, live.streams() as u64);
    out.one(&DASHBOARDS_DROPPED, live.streams_dropped());
    out.labelled(&REQUESTS_REFUSED, requests_refused(state));
    state.reloads.expose(&mut out);
    if let Some(redirects) = &state.redirects {
        redirects.expose(&mut out);
    }
    if let Some(stat) = &state.tls_stat {
        stat.expose(&mut out);
    }
    if let Some(acme) = &state.acme {
        acme.expose(&mut out);
    }
    out.into_text()
}

fn requests_refused(state: &State) -> [(&'static str, u64); 1] {
    [("misdirected", state.misdirected.load(Ordering::Relaxed))]
}

fn status(state: &State, live: &Live) -> String {
    let total = Totals::of(state.numbers.iter().map(AsRef::as_ref)).json();
    let workers: Vec<_> = state.numbers.iter().map(|numbers| numbers.totals().json()).collect();
    let status = json!({
        "version": 1,
        "fullbore": env!("CARGO_PKG_VERSION"),
        UPTIME.key(): state.started.elapsed().as_secs_f64(),
        "draining": state.draining.load(Ordering::Relaxed),
        "library": state.folders.json(),
        "library_trouble": state.folders.health().trouble(),
        DISK_ERRORS.key(): state.folders.file_failures_total(),
        "failed_files": state.folders.failed_files_json(),
        "rss_bytes": live_figures::resident_bytes(),
        "route": offload::route_name(state.offload, state.config.route),
        "reloads": state.reloads.json(),
        "acme": state.acme.as_ref().map(|acme| acme.json()),
        "congestion_control": state.config.congestion_control(),
        "kernel_tls": state.tls_stat.as_ref().map(TlsStat::json),
        "disk": state.config.disk,
        "silo": state.silo_map.placement(),
        "silos": state.silo_map.json(),
        "rotating_disks": state.silo_map.rotating_names(),
        "paths": Paths::of(&state.silo_map, &state.numbers).json(),
        "off": state.config.off,
        REQUESTS_REFUSED.key(): BTreeMap::from(requests_refused(state)),
        "lacking": state.lacks,
        "titles": live.titles(),
        "total": total,
        "qoe": state.config.http.cmcd.then(|| qoe::json(&experience(state), TITLES_SHOWN)),
        "workers": workers,
    });
    format!("{status:#}\n")
}
