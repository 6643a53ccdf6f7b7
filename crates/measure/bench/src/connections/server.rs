//! The server's side: a worker's TCP, suppliers, keys and sessions as on the bypass route, over a device without a network.
//!
//! The steps before that are left out: each connection gets the result of a TLS handshake ready-made, and no HTTP is parsed. A session
//! waits for a request, decrypts it with the viewer's keys, and answers with the next part of the film.

use super::progress::Progress;
use delivery::memory_budget::MemoryBudget;
use delivery::own_tcp::{OwnTcp, OwnTcpSocket, Parts, suppliers};
use delivery::{
    Carrier, DeliveryLimits, End, Features, Handover, KernelOffload, Link, Outgoing, Protection,
    QueueTrial, Resources, ViewerTimeouts,
};
use disk::{DIRECT_ALIGNMENT, Heat, Policy, ReadMode, Reader};
use frames::{Interface, PAYLOAD_BYTES_MAX, siblings};
use machine::Headroom;
use reactor::{Pool, PoolOptions, Reactor, RingOptions, sleep, spawn};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::{Family, Numbers};

/// The default of `net.window_bytes_max`.
const WINDOW_BYTES: usize = 512 << 10;

/// Buffers of each kind: 16 MiB, a core's share of a large cache.
const BUFFERS: usize = 32;

/// The head of each answer.
pub(super) const HEAD_BYTES: usize = 300;

/// How often the counters are published, as in a worker.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// The film that is served, and its size.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) film: Arc<File>,
    pub(super) film_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) connections_max: usize,
}

/// The server's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) cpu: Duration,
    /// How often the thread has slept.
    pub(super) wakeups: u64,
    pub(super) sent_bytes: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) wants: u64,
    pub(super) records_again: u64,
    pub(super) kept_bytes: u64,
    pub(super) frames_received: u64,
    pub(super) frames_sent: u64,
    pub(super) timers: u64,
    pub(super) publish: Duration,
    pub(super) connection_bytes: u64,
    pub(super) in_flight_bytes: u64,
}

/// Serves on this thread until `progress` reports that the run is over.
///
/// # Errors
/// If the kernel provides no ring or no memory.
pub(super) fn serve(
    interface: Interface,
    served: Served,
    progress: &Arc<Progress>,
) -> io::Result<()> {
    let reactor = Reactor::new(RingOptions::default())?;
    let progress = Arc::clone(progress);
    reactor.run(async move {
        let resources = resources()?;
        let own_tcp = OwnTcp::new(parts(interface, served.connections_max)?);
        for _ in 0..suppliers(&resources) {
            spawn(Rc::clone(&own_tcp).supply(Rc::clone(&resources)));
        }
        let film = disk::File::new(served.film.try_clone()?.into()).map_err(io::Error::other)?;
        let session =
            Rc::new(Sessions { resources: Rc::clone(&resources), film: Rc::new(film), served });
        let (running, welcome) = (Rc::clone(&own_tcp), Rc::clone(&session));
        let failed = Arc::clone(&progress);
        spawn(async move {
            let ran = running.run(|socket| welcome.welcome(socket)).await;
            let why = ran.err().map_or("it ended".to_owned(), |error| error.to_string());
            failed.with(|told| told.failure = Some(why));
        });
        while !progress.is_over() {
            let began = cpu();
            own_tcp.publish(&resources.numbers);
            let publish = cpu() - began;
            let sample = sample(&resources.numbers, publish);
            progress.with(|told| told.samples.push(sample));
            sleep(PUBLISH_EVERY).await;
        }
        Ok(())
    })?
}

/// CPU time of this thread.
pub(super) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn sample(numbers: &Numbers, publish: Duration) -> Sample {
    let labelled = numbers.labelled();
    let count = |family, label| labelled.get(&(family, label)).copied().unwrap_or(0);
    Sample {
        at: Instant::now(),
        cpu: cpu(),
        wakeups: voluntary_switches(),
        sent_bytes: count(Family::TcpPayload, "sent"),
        retransmitted_bytes: count(Family::TcpPayload, "retransmitted"),
        wants: numbers.bypass_wants_total.value(),
        records_again: numbers.records_made_again_total.value(),
        kept_bytes: count(Family::Copied, "kept"),
        frames_received: count(Family::Frames, "received"),
        frames_sent: count(Family::Frames, "sent"),
        timers: count(Family::Tcp, "alarms"),
        publish,
        connection_bytes: numbers.bypass_connection_bytes.value(),
        in_flight_bytes: numbers.bypass_in_flight_bytes.value(),
    }
}

/// How often this thread has waited voluntarily.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

struct Sessions {
    resources: Rc<Resources>,
    film: Rc<disk::File>,
    served: Served,
}

impl Sessions {
    fn welcome(self: &Rc<Self>, socket: OwnTcpSocket) {
        let SocketAddr::V4(peer) = socket.peer() else { return };
        let number = u32::from(*peer.ip()).wrapping_sub(0x0a00_0001);
        let sessions = Rc::clone(self);
        spawn(async move {
            // A failure is the viewer's to notice and count.
            let _ = sessions.converse(socket, number.into()).await;
        });
    }

    async fn converse(self: Rc<Self>, socket: OwnTcpSocket, number: u64) -> Result<(), End> {
        let link = Link::new(Rc::clone(&self.resources), socket);
        let keys = Box::new(tls::made_up::server_end(number));
        let mut channel = OwnTcpSocket::establish(link, Protection::Keys(keys), Vec::new());
        let (mut request, mut answers) = (Vec::new(), 0);
        loop {
            // The next request may have been read along with the last answer. A viewer sends one at a time.
            if request.is_empty() {
                channel.receive(&mut request).await?;
            }
            request = Vec::new();
            // Boxed, so that a waiting viewer does not carry its size.
            Box::pin(channel.send(&self.answer(number, answers), &mut request)).await?;
            answers += 1;
        }
    }

    /// A different part of the film for each viewer and each request.
    fn answer(&self, number: u64, answers: u64) -> Rc<Outgoing> {
        let Served { film_bytes, body_bytes, .. } = self.served;
        let parts = film_bytes / body_bytes;
        let start = (number * 7919 + answers) % parts * body_bytes;
        let body = vec![fullbore_http::Part::Range(start..start + body_bytes)];
        Rc::new(Outgoing::new(vec![b'h'; HEAD_BYTES], body, Some(Rc::clone(&self.film))))
    }
}

/// The configuration that the server uses over a TAP (`crates/server/server/src/bypass.rs`).
fn parts(interface: Interface, connections_max: usize) -> io::Result<Parts> {
    let (sibling, told) = siblings(1)?.remove(0);
    let tcp = tcp::Config {
        listen: vec![super::peer::SERVER.1],
        tso_bytes_max: PAYLOAD_BYTES_MAX as u32,
        want_bytes_min: 32 << 10,
        want_bytes_max: WINDOW_BYTES as u32,
        short_segments: true,
        pace_bytes_min: 64 << 10,
        connections_max,
        ..tcp::Config::default()
    };
    let secret = tcp::Secret([7; 16]);
    Ok(Parts {
        interface,
        sibling,
        told,
        tcp,
        secret,
        to_completion: true,
        rate_bytes_per_second: None,
    })
}

/// A worker's resources with default settings, except that the film is in the page cache.
fn resources() -> io::Result<Rc<Resources>> {
    let options = |register| PoolOptions {
        buffer_bytes: WINDOW_BYTES + 2 * DIRECT_ALIGNMENT,
        count: BUFFERS,
        register,
        fifo: false,
        large_pages: true,
    };
    let (read_buffers, send_buffers) = (Pool::new(options(true))?, Pool::new(options(false))?);
    // Touch the buffers now, so that they do not count as viewers' memory.
    read_buffers.touch()?;
    send_buffers.touch()?;
    Ok(Rc::new(Resources {
        reader: Reader::new(read_buffers, Policy::Always(ReadMode::Buffered), Heat::new(1 << 30)),
        send_buffers,
        memory: MemoryBudget::new(Arc::new(Headroom::open()), 1),
        silos: None,
        numbers: Arc::<Numbers>::default(),
        timeouts: ViewerTimeouts {
            send: Duration::from_secs(30),
            hold: Duration::from_millis(250),
        },
        offload: KernelOffload::default(),
        handover: Handover::default(),
        features: Features { reads_ahead: true, seals_in_one_pass: true, rereads: true },
        limits: DeliveryLimits {
            unsent_bytes_min: None,
            key_records_max: 1 << 24,
            window_bytes_max: WINDOW_BYTES,
            sendfile_bytes_max: 2 << 20,
        },
        total_rate: None,
        queue_trial: QueueTrial::default(),
        readahead_budget: Resources::new_readahead_budget(),
        scratch: Resources::new_scratch(),
        started: Instant::now(),
    }))
}
