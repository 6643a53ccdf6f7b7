//! A live connection moves between two reactors on two threads, after every response, and the viewer notices nothing.
//!
//! The viewer is rustls over a socket, or plain TCP. It requests random ranges of a file, one or two at a time. It changes keys, and sends the first
//! half of a record before the move and the rest after it. Each thread answers one request and passes the connection on. `FULLBORE_SEED` repeats a
//! run's choices.

use ::tls::{Handshake, Progress, TlsContext, TlsOptions, TlsVersions};
use disk::{File, Heat, Policy, Reader};
use fullbore_delivery::memory_budget::MemoryBudget;
use fullbore_delivery::{
    CannotMove, Carrier, Channel, ConnectionState, DeliveryLimits, End, Features, Handover,
    KernelOffload, Link, LossLimits, NicTls, Outgoing, Protection, QueueTrial, Resources, Silos,
    ViewerTimeouts,
};
use fullbore_tests::Random;
use fullbore_tests::tls::{self, Offer};
use machine::Headroom;
use net::Socket;
use reactor::{Pool, PoolOptions, Reactor, RingOptions, sleep, timeout_at};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use telemetry::Numbers;

const FILE_BYTES: u64 = 3 << 20;

/// A request is two numbers in hexadecimal: where the range begins, and how long it is.
const REQUEST_BYTES: usize = 18;

const EXCHANGES: usize = 300;

/// How a connection is protected, and which side seals.
#[derive(Clone, Copy, Debug, Default)]
struct How {
    version: Option<TlsVersions>,
    offload: KernelOffload,
    /// The library of the handshake keeps the connection.
    is_retained: bool,
    /// Keys wait, and the first worker passes them on after this many moves.
    keys_wait: Option<u32>,
}

fn content() -> Vec<u8> {
    let mut random = Random::new(7);
    (0..FILE_BYTES).map(|_| random.below(256) as u8).collect()
}

/// A worker's resources for its connections, on this thread.
fn resources(how: How) -> Rc<Resources> {
    let options = PoolOptions {
        buffer_bytes: 128 << 10,
        count: 8,
        register: false,
        fifo: false,
        large_pages: true,
    };
    let silos = how.keys_wait.map(|_| Silos {
        own: 0,
        nics: Vec::new(),
        disks: Vec::new(),
        connections_move: true,
        listener_is_ipv6: false,
        departure: None,
    });
    Rc::new(Resources {
        reader: Reader::new(Pool::new(options).unwrap(), Policy::Auto, Heat::new(1 << 30)),
        send_buffers: Pool::new(options).unwrap(),
        memory: MemoryBudget::new(Arc::new(Headroom::open()), 1),
        silos,
        numbers: Arc::<Numbers>::default(),
        timeouts: ViewerTimeouts { send: Duration::from_secs(60), hold: Duration::from_millis(2) },
        offload: how.offload,
        handover: Handover::open(LossLimits::default(), Arc::default(), Arc::default()),
        features: Features { reads_ahead: true, seals_in_one_pass: true, rereads: true },
        limits: DeliveryLimits {
            unsent_bytes_min: None,
            key_records_max: 64,
            window_bytes_max: 64 << 10,
            sendfile_bytes_max: 256 << 10,
        },
        total_rate: None,
        queue_trial: QueueTrial::default(),
        readahead_budget: Resources::new_readahead_budget(),
        scratch: Resources::new_scratch(),
        started: Instant::now(),
    })
}

/// A moving connection, with the bytes that it has received.
type Moving = (ConnectionState, Vec<u8>);

/// One of two workers.
struct Worker {
    file: PathBuf,
    how: How,
    from_other: Receiver<Moving>,
    to_other: Sender<Moving>,
}

impl Worker {
    /// Answers one request of each connection that arrives, and passes it on. The first comes from `accepted`.
    fn start(self, accepted: Option<(OwnedFd, Option<TlsContext>)>) -> JoinHandle<u32> {
        std::thread::spawn(move || {
            let reactor = Reactor::new(RingOptions::default()).unwrap();
            let how = self.how;
            let resources = reactor.run(async move { resources(how) }).unwrap();
            let mut moves = 0;
            let is_first = accepted.is_some();
            let mut first = accepted;
            loop {
                let (mut channel, input) = match first.take() {
                    Some((socket, tls)) => {
                        let resources = Rc::clone(&resources);
                        reactor.run(establish(resources, socket, tls, self.how)).unwrap()
                    }
                    None => match self.from_other.recv() {
                        Ok((state, input)) => {
                            (state.enter(Rc::clone(&resources), Instant::now()), input)
                        }
                        Err(_) => return moves,
                    },
                };
                if is_first && how.keys_wait.is_some_and(|after| after == moves) {
                    assert!(channel.can_pass_keys_on());
                    let (passed, route) = reactor.run(async { pass_keys_on(channel) }).unwrap();
                    println!("after {moves} moves: {route}");
                    channel = passed;
                }
                let file = self.file.clone();
                match reactor.run(serve(channel, input, file)).unwrap() {
                    Some(moving) => self.to_other.send(moving).unwrap(),
                    None => return moves,
                }
                moves += 1;
            }
        })
    }
}

async fn establish(
    resources: Rc<Resources>,
    socket: OwnedFd,
    tls: Option<TlsContext>,
    how: How,
) -> (Channel, Vec<u8>) {
    let link = Link::new(resources, Socket::from(socket));
    let Some(tls) = tls else {
        return (Socket::establish(link, Protection::None, Vec::new()), Vec::new());
    };
    let begin = if how.is_retained { Handshake::retaining } else { Handshake::new };
    let mut handshake = begin(&tls).unwrap();
    let (mut input, mut output) = (Vec::new(), Vec::new());
    loop {
        link.receive(&mut input).await.unwrap();
        let (consumed, progress) = handshake.advance(&input, &mut output).unwrap();
        link.send_all(&output).await.unwrap();
        output.clear();
        input.drain(..consumed);
        let protection = match progress {
            Progress::NeedsInput => continue,
            Progress::Done(established) => Protection::Keys(established),
            Progress::Retained(tls) => Protection::Retained(tls),
        };
        return (Socket::establish(link, protection, input), Vec::new());
    }
}

/// Gives the kernel the keys that it did not get before, and returns the route on which the connection continues.
fn pass_keys_on(channel: Channel) -> (Channel, &'static str) {
    assert_eq!((channel.is_deferred(), channel.route()), (true, "userspace"));
    let channel = channel.pass_keys_on(Instant::now());
    assert!(!channel.is_deferred());
    let route = if net::tls::probe().is_ok() { "kernel" } else { "userspace" };
    assert_eq!(channel.route(), route);
    (channel, route)
}

/// Answers the next request; `None` if the viewer has closed.
async fn answer(channel: &mut Channel, input: &mut Vec<u8>, file: &Path) -> Option<()> {
    while input.len() < REQUEST_BYTES {
        match channel.receive(input).await {
            Ok(()) => {}
            Err(End::PeerClosed) => return None,
            Err(end) => panic!("{end:?}"),
        }
    }
    let request: Vec<u8> = input.drain(..REQUEST_BYTES).collect();
    let (start, bytes) = std::str::from_utf8(&request).unwrap().trim().split_once(' ').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let start = number(start);
    let file = File::new(std::fs::File::open(file).unwrap().into()).unwrap();
    let body = vec![fullbore_http::Part::Range(start..start + number(bytes))];
    let outgoing = Outgoing::new(request, body, Some(Rc::new(file)));
    channel.send(&Rc::new(outgoing), input).await.unwrap();
    Some(())
}

/// Answers one request and takes the connection apart; `None` if the viewer has closed.
async fn serve(mut channel: Channel, mut input: Vec<u8>, file: PathBuf) -> Option<Moving> {
    answer(&mut channel, &mut input, &file).await?;
    // A wait for the viewer is cancelled, as by a timeout: its operation is still in the ring.
    let soon = Instant::now() + Duration::from_micros(300);
    if let Ok(Err(_)) = timeout_at(soon, channel.receive(&mut input)).await {
        return None;
    }
    loop {
        match channel.leave().await {
            Ok(state) => return Some((state, input)),
            Err((stayed, stays)) => {
                assert_eq!(stays, CannotMove::Unacknowledged);
                channel = stayed;
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// The other end of the connection.
struct Viewer {
    stream: TcpStream,
    tls: Option<rustls::ClientConnection>,
    received: Vec<u8>,
}

impl Viewer {
    fn connect(stream: TcpStream, how: How) -> Self {
        stream.set_nodelay(true).unwrap();
        // A test must fail rather than hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let offer = how.version.map(|version| match version {
            TlsVersions::Tls12 => Offer::tls12(),
            _ => Offer::tls13(),
        });
        let mut tls = offer.map(|offer| tls::client(&offer.config(), "localhost"));
        let mut stream = stream;
        if let Some(tls) = &mut tls {
            while tls.is_handshaking() {
                tls.complete_io(&mut stream).unwrap();
            }
        }
        Self { stream, tls, received: Vec::new() }
    }

    /// The bytes on the wire for `plain`.
    fn sealed(&mut self, plain: &[u8]) -> Vec<u8> {
        let Some(tls) = &mut self.tls else { return plain.to_vec() };
        tls.writer().write_all(plain).unwrap();
        tls::outgoing(tls)
    }

    fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).unwrap();
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut chunk = vec![0; 64 << 10];
        while self.received.len() < bytes {
            let taken = self.stream.read(&mut chunk).unwrap();
            assert!(taken > 0, "the connection ended early");
            let mut wire = &chunk[..taken];
            let Some(tls) = &mut self.tls else {
                self.received.extend_from_slice(wire);
                continue;
            };
            while !wire.is_empty() {
                tls.read_tls(&mut wire).unwrap();
                tls.process_new_packets().unwrap();
                self.received.extend(tls::received(tls));
            }
        }
        self.received.drain(..bytes).collect()
    }
}

/// A random request, and the expected response.
fn draw(random: &mut Random, content: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let bytes_max = if random.one_in(4) { 1_000_000 } else { 40_000 };
    let start = random.below(FILE_BYTES - bytes_max) as usize;
    let bytes = 1 + random.below(bytes_max - 1) as usize;
    let request = format!("{start:08x} {bytes:08x}\n").into_bytes();
    let response = [&request, &content[start..start + bytes]].concat();
    (request, response)
}

/// Sends requests again and again. Returns how often keys were changed.
fn watch(viewer: &mut Viewer, random: &mut Random, changes_keys: bool, content: &[u8]) -> usize {
    let (mut asked, mut key_changes) = (0, 0);
    while asked < EXCHANGES {
        let count = 1 + random.below(3) as usize;
        let drawn: Vec<_> = (0..count).map(|_| draw(random, content)).collect();
        let requests: Vec<u8> = drawn.iter().flat_map(|(request, _)| request.clone()).collect();
        if changes_keys && random.one_in(3) {
            viewer.tls.as_mut().unwrap().refresh_traffic_keys().unwrap();
            key_changes += 1;
        }
        let wire = viewer.sealed(&requests);
        let next = draw(random, content);
        let next_wire = viewer.sealed(&next.0);
        let cut = random.below(next_wire.len() as u64) as usize;
        viewer.send(&[&wire, &next_wire[..cut]].concat());
        for (at, (_, response)) in drawn.iter().enumerate() {
            assert!(viewer.take(response.len()) == *response, "response {}", asked + at);
        }
        viewer.send(&next_wire[cut..]);
        assert!(viewer.take(next.1.len()) == next.1, "the response after {}", asked + count);
        asked += count + 1;
    }
    key_changes
}

/// Returns how often the connection has moved.
fn watch_a_connection_that_moves(how: How) -> u32 {
    println!("{how:?}");
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let (folder, content, mut random) =
        (tempfile::tempdir().unwrap(), content(), Random::new(seed));
    let file = folder.path().join("film.mp4");
    std::fs::write(&file, &content).unwrap();
    let tls = how.version.map(|versions| {
        TlsContext::load(TlsOptions { versions, ..TlsOptions::new(folder.path()) }).unwrap()
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    accepted.set_nonblocking(true).unwrap();
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    let first = Worker { file: file.clone(), how, from_other: from_second, to_other: to_second };
    let second = Worker { file, how, from_other: from_first, to_other: to_first };
    let workers = [first.start(Some((accepted.into(), tls))), second.start(None)];
    let mut viewer = Viewer::connect(stream, how);
    let is_sealed_here = !how.offload.seals || how.offload.changes_keys;
    let changes_keys = matches!(how.version, Some(TlsVersions::Tls13)) && is_sealed_here;
    let key_changes = watch(&mut viewer, &mut random, changes_keys, &content);
    assert_eq!(key_changes > 0, changes_keys);
    if let Some(tls) = &mut viewer.tls {
        tls.send_close_notify();
    }
    let goodbye = viewer.sealed(b"");
    viewer.send(&goodbye);
    viewer.stream.shutdown(std::net::Shutdown::Write).unwrap();
    workers.into_iter().map(|worker| worker.join().unwrap()).sum()
}

#[track_caller]
fn assert_moves(how: How) {
    let moves = watch_a_connection_that_moves(how);
    // The last ones may have met the viewer's goodbye instead.
    assert!(moves as usize >= EXCHANGES - 3, "{moves} moves");
}

#[test]
fn a_connection_without_tls_moves() {
    assert_moves(How::default());
}

#[test]
fn a_connection_moves_whose_files_the_kernel_sends() {
    let offload = KernelOffload { sends_files: true, ..KernelOffload::default() };
    assert_moves(How { offload, ..How::default() });
}

#[test]
fn a_connection_with_tls12_moves() {
    assert_moves(How { version: Some(TlsVersions::Tls12), ..How::default() });
}

#[test]
fn a_connection_with_tls13_moves_and_changes_its_keys() {
    assert_moves(How { version: Some(TlsVersions::Tls13), ..How::default() });
}

#[test]
fn a_connection_moves_that_the_kernel_seals() {
    if let Err(error) = net::tls::probe() {
        return fullbore_tests::tool::skip(&format!("this kernel does not seal ({error})"));
    }
    let changes_keys = KernelOffload::can_change_keys();
    let offload =
        KernelOffload { seals: true, changes_keys, sends_files: true, ..KernelOffload::default() };
    for version in [TlsVersions::Tls12, TlsVersions::Tls13] {
        assert_moves(How { version: Some(version), offload, ..How::default() });
    }
}

/// A kernel without TLS refuses the keys, and the connection continues as it was.
#[test]
fn keys_that_wait_move_with_a_connection_and_go_to_the_kernel_in_the_middle() {
    let changes_keys = KernelOffload::can_change_keys();
    let nics = NicTls::Auto;
    let offload = KernelOffload { seals: true, changes_keys, sends_files: true, nics };
    for version in [TlsVersions::Tls12, TlsVersions::Tls13] {
        let keys_wait = Some(40);
        assert_moves(How { version: Some(version), offload, keys_wait, ..How::default() });
    }
}

/// An accepted connection, and its other end.
fn accepted() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    accepted.set_nonblocking(true).unwrap();
    (accepted.into(), stream)
}

#[test]
fn a_connection_whose_socket_is_in_use_stays_and_works() {
    let (socket, mut viewer) = accepted();
    let reactor = Reactor::new(RingOptions::default()).unwrap();
    let served = reactor.run(async move {
        let socket = Socket::from(socket);
        let user = socket.clone();
        let link = Link::new(resources(How::default()), socket);
        let channel = Socket::establish(link, Protection::None, Vec::new());
        let Err((mut channel, stays)) = channel.leave().await else { panic!("it has left") };
        assert_eq!(stays, CannotMove::InUse);
        drop(user);
        let outgoing = Outgoing::new(b"still here".to_vec(), Vec::new(), None);
        channel.send(&Rc::new(outgoing), &mut Vec::new()).await.unwrap();
        assert!(channel.leave().await.is_ok());
    });
    served.unwrap();
    let mut said = String::new();
    viewer.read_to_string(&mut said).unwrap();
    assert_eq!(said, "still here");
}

#[test]
fn a_connection_that_the_library_seals_stays() {
    let folder = tempfile::tempdir().unwrap();
    let tls = TlsContext::load(TlsOptions::new(folder.path())).unwrap();
    let (socket, stream) = accepted();
    let how = How { version: Some(TlsVersions::Tls13), is_retained: true, ..How::default() };
    let viewer = std::thread::spawn(move || drop(Viewer::connect(stream, how)));
    let reactor = Reactor::new(RingOptions::default()).unwrap();
    let stays = reactor.run(async move {
        let resources = resources(How::default());
        let (channel, _) = establish(resources, socket, Some(tls), how).await;
        channel.leave().await.err().map(|(_, stays)| stays)
    });
    assert_eq!(stays.unwrap(), Some(CannotMove::Bound));
    viewer.join().unwrap();
}
