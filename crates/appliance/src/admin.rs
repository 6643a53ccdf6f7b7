//! The admin listener: `/healthz`, `/metrics` (Prometheus), `/status.json`. On a thread of its own, so that it answers
//! while every worker is busy, and so that nobody who looks at the server slows it down.

use crate::config::Config;
use crate::route::InKernel;
use crate::telemetry::{self, Numbers};
use crate::tls_stat::TlsStat;
use http::{Context, HttpDate, Limits, Parse, Part, Refusal, Request, Resource, Response};
use net::{Admission, Socket};
use qoe::Collector;
use reactor::op::Incoming;
use reactor::{Fd, Reactor, RingOptions, sleep, spawn, timeout_at};
use serde_json::json;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Connections at once: a few scrapers and people.
const CONNECTIONS_MAX: usize = 64;

/// Until a whole request has come: scrapers ask every 15 to 60 s and keep their connection, which goes on working when
/// no descriptor is left for a new one.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// How often what players tell is taken over; workers hand it over as often.
const GATHERED: Duration = Duration::from_secs(1);

/// Titles in `/status.json`, the busiest ones; `/metrics` has them all.
const TITLES_SHOWN: usize = 20;

/// For a whole answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The admin listener's thread, which lives as long as the process.
pub struct Admin {
    state: Arc<State>,
}

struct State {
    numbers: Vec<Arc<Numbers>>,
    /// When the server started; times of reports count from here.
    started: Instant,
    /// What viewers experience. Only this thread asks for it.
    experience: Mutex<Collector>,
    draining: AtomicBool,
    config: Config,
    in_kernel: InKernel,
    /// The kernel's counters as they were; none where it does not seal.
    tls_stat: Option<TlsStat>,
}

impl Admin {
    /// Starts serving on `listener`.
    ///
    /// # Errors
    /// When no thread or no ring can be had.
    pub fn start(
        listener: OwnedFd,
        numbers: Vec<Arc<Numbers>>,
        config: &Config,
        in_kernel: InKernel,
        started: Instant,
    ) -> io::Result<Self> {
        let draining = AtomicBool::new(false);
        let state = Arc::new(State {
            numbers,
            started,
            experience: Mutex::default(),
            draining,
            config: config.clone(),
            in_kernel,
            tls_stat: in_kernel.seals.then(TlsStat::now),
        });
        let served = Arc::clone(&state);
        let (ready, readiness) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("admin".into()).spawn(move || {
            let options = RingOptions { submission_entries: 16, completion_entries: 256 };
            match Reactor::new(options) {
                Ok(reactor) => {
                    let _ = ready.send(Ok(()));
                    let _ = reactor.run(async move {
                        spawn(gather(Arc::clone(&served)));
                        accept(served, listener).await;
                    });
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })?;
        readiness.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok(Self { state })
    }

    /// From now on, health says that the server is going away.
    pub fn drain(&self) {
        self.state.draining.store(true, Ordering::Relaxed);
    }
}

/// Takes over what players tell, whether anybody looks or not.
async fn gather(state: Arc<State>) {
    loop {
        drop(experience(&state));
        sleep(GATHERED).await;
    }
}

/// What viewers experience, as of now.
fn experience(state: &State) -> MutexGuard<'_, Collector> {
    let mut collector = state.experience.lock().expect("no holder of this lock can panic");
    for numbers in &state.numbers {
        collector.take(numbers.take_reports());
    }
    collector.advance(u64::try_from(state.started.elapsed().as_millis()).unwrap_or(u64::MAX));
    collector
}

async fn accept(state: Arc<State>, listener: OwnedFd) {
    let mut incoming = Incoming::new(Fd::from(listener));
    let admission = Admission::new(CONNECTIONS_MAX, 0);
    loop {
        let Ok(connection) = incoming.next().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let socket = Socket::from(connection);
        let Ok(peer) = socket.peer() else { continue };
        if let Ok(pass) = admission.admit(peer.ip()) {
            let state = Arc::clone(&state);
            spawn(async move {
                let _pass = pass;
                converse(&state, &socket).await;
            });
        }
    }
}

async fn converse(state: &State, socket: &Socket) {
    let limits = Limits::default();
    let mut input = Vec::new();
    loop {
        let deadline = Instant::now() + IDLE_MAX;
        let response = match timeout_at(deadline, read_request(socket, &mut input, &limits)).await {
            Ok(Some(Ok(request))) => answer(state, &request, &limits),
            Ok(Some(Err(refusal))) => {
                with_context(&limits, |context| http::refuse(refusal, None, context))
            }
            Ok(None) | Err(_) => return,
        };
        let sending = send_all(socket, &response);
        if !matches!(timeout_at(Instant::now() + PATIENCE, sending).await, Ok(Ok(())))
            || !response.keep_alive
        {
            socket.finish();
            return;
        }
    }
}

/// The next request; `None` when the peer is gone.
async fn read_request(
    socket: &Socket,
    input: &mut Vec<u8>,
    limits: &Limits,
) -> Option<Result<Request, Refusal>> {
    loop {
        match http::parse(input, limits) {
            // A body has no meaning here, and would be taken for the next request.
            Ok(Parse::Complete { request, .. }) if request.body != http::BodyFraming::None => {
                return Some(Err(Refusal::MethodNotAllowed));
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

async fn send_all(socket: &Socket, response: &Response) -> io::Result<()> {
    let mut bytes = response.head.clone();
    for part in &response.body {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::Static(part) => bytes.extend_from_slice(part),
            // Its pages are in memory.
            Part::Range(_) => {}
        }
    }
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send(&bytes[sent..], false)? {
            0 => socket.writable().await,
            taken => sent += taken,
        }
    }
    Ok(())
}

fn answer(state: &State, request: &Request, limits: &Limits) -> Response {
    let path = match &request.resource {
        Resource::File(path) => path.as_bytes(),
        _ => b"",
    };
    let (content_type, text) = match path {
        b"healthz" if state.draining.load(Ordering::Relaxed) => {
            return with_context(limits, |context| {
                http::refuse(Refusal::Unavailable, Some(request), context)
            });
        }
        b"healthz" => ("text/plain; charset=utf-8", "ok\n".to_owned()),
        b"metrics" => ("text/plain; version=0.0.4; charset=utf-8", metrics(state)),
        b"status.json" => ("application/json", status(state)),
        _ => {
            return with_context(limits, |context| {
                http::refuse(Refusal::NotFound, Some(request), context)
            });
        }
    };
    with_context(limits, |context| {
        if !request.method.reads() {
            return http::refuse(Refusal::MethodNotAllowed, Some(request), context);
        }
        page(request, content_type, text, context)
    })
}

/// A page made just now: no conditions, no ranges.
fn page(
    request: &Request,
    content_type: &'static str,
    text: String,
    context: &Context<'_>,
) -> Response {
    let entity = http::Entity {
        size_bytes: text.len() as u64,
        modified_unix_seconds: u64::MAX,
        etag: "\"now\"",
        content_type,
    };
    let mut response = http::respond(request, &entity, context);
    for part in &mut response.body {
        if let Part::Range(range) = part {
            *part = Part::Bytes(text.as_bytes()[range.start as usize..range.end as usize].to_vec());
        }
    }
    response
}

fn with_context(limits: &Limits, f: impl FnOnce(&Context<'_>) -> Response) -> Response {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = HttpDate::new(since_1970.as_secs());
    f(&Context { cache_control: "no-store", ..Context::new(&date, limits) })
}

fn metrics(state: &State) -> String {
    let mut text = telemetry::prometheus(state.numbers.iter().map(AsRef::as_ref));
    text.push_str(
        "# HELP fullbore_worker_cpu_seconds_total Processor time of each worker's thread.\n",
    );
    text.push_str("# TYPE fullbore_worker_cpu_seconds_total counter\n");
    for (index, numbers) in state.numbers.iter().enumerate() {
        let seconds = numbers.cpu_microseconds_total.value() as f64 / 1e6;
        text.push_str(&format!(
            "fullbore_worker_cpu_seconds_total{{worker=\"{index}\"}} {seconds}\n"
        ));
    }
    text.push_str("# HELP process_resident_memory_bytes Resident memory.\n# TYPE process_resident_memory_bytes gauge\n");
    text.push_str(&format!("process_resident_memory_bytes {}\n", resident_bytes()));
    text.push_str("# HELP fullbore_uptime_seconds Seconds since the start.\n# TYPE fullbore_uptime_seconds gauge\n");
    text.push_str(&format!("fullbore_uptime_seconds {}\n", state.started.elapsed().as_secs_f64()));
    if state.config.http.cmcd {
        text.push_str(&qoe::prometheus(&experience(state)));
    }
    if let Some(stat) = &state.tls_stat {
        text.push_str(&stat.prometheus());
    }
    text
}

fn status(state: &State) -> String {
    let workers: Vec<_> = state
        .numbers
        .iter()
        .map(|numbers| serde_json::Value::Object(telemetry::json([&**numbers].into_iter())))
        .collect();
    let status = json!({
        "version": 1,
        "fullbore": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": state.started.elapsed().as_secs_f64(),
        "draining": state.draining.load(Ordering::Relaxed),
        "rss_bytes": resident_bytes(),
        "route": state.in_kernel.name(),
        "kernel_tls": state.tls_stat.as_ref().map(TlsStat::json),
        "disk": state.config.disk,
        "off": state.config.off,
        "total": telemetry::json(state.numbers.iter().map(AsRef::as_ref)),
        "qoe": state.config.http.cmcd.then(|| qoe::json(&experience(state), TITLES_SHOWN)),
        "workers": workers,
    });
    format!("{status:#}\n")
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
