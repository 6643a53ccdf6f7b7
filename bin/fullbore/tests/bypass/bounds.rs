//! The bounds on what one viewer can make the server hold: keys, responses, connections.

use crate::support::far::Far;
use crate::support::served::{PORT, Room, Server, V4};
use fullbore_tests::{Namespace, PATIENCE, shake_hands, tool};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::client::ClientEstablished;
use tls::{Alert, CONTROL_RECORD_BYTES_MAX, Content, Opened, Opener, Sealer};

/// The beginning of a request whose head is as long as its viewer likes.
const BEGINNING: &[u8] = b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: ";

/// Allows a head to take as long as such a viewer needs, and to be that long.
const PATIENT: &str =
    "[timeouts]\nhandshake_seconds = 3600\nhead_seconds = 3600\n[limits]\nhead_bytes_max = 65536\n";

/// A record with a KeyUpdate: its header, the message, its type, the tag (RFC 8446 sections 4.6.3 and 5.2). Others are longer.
const KEY_UPDATE_BYTES: usize = 5 + 5 + 1 + 16;

/// A viewer over TLS 1.3 that makes each record by hand.
struct Viewer {
    stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
    sealed: Vec<u8>,
    /// How often the server has changed its keys.
    key_updates: u64,
}

impl Viewer {
    fn connect() -> Self {
        let mut stream = TcpStream::connect((V4, PORT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (ClientEstablished { sealer, opener, .. }, sealed) = shake_hands(&mut stream);
        Self { stream, sealer, opener, sealed, key_updates: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut records = vec![0; bytes.len() + self.sealer.record_overhead()];
        let sealed = self.sealer.seal(bytes, &mut records).unwrap();
        self.stream.write_all(&records[..sealed]).unwrap();
    }

    /// Requests new keys from the server, in one segment with a byte of its request, because the server answers such requests only after data.
    fn ask_for_keys(&mut self) {
        let mut records = [0; 2 * CONTROL_RECORD_BYTES_MAX];
        let data = self.sealer.seal(b"x", &mut records).unwrap();
        let update = self.sealer.seal_key_update(true, &mut records[data..]).unwrap();
        self.stream.write_all(&records[..data + update]).unwrap();
    }

    /// Reads the next record without opening it, and returns its length. After that no record can be opened.
    fn pass_over(&mut self) -> usize {
        loop {
            let bytes = self
                .sealed
                .get(3..5)
                .map(|length| usize::from(length[0]) << 8 | usize::from(length[1]));
            match bytes.map(|bytes| 5 + bytes).filter(|bytes| *bytes <= self.sealed.len()) {
                Some(bytes) => return self.sealed.drain(..bytes).len(),
                None => assert!(take(&mut self.stream, &mut self.sealed), "the server has hung up"),
            }
        }
    }

    /// Reads what has arrived, at least a byte, and appends data to `into`. False at the end.
    fn take(&mut self, into: &mut Vec<u8>) -> bool {
        if !take(&mut self.stream, &mut self.sealed) {
            return false;
        }
        loop {
            match self.opener.open(&mut self.sealed).unwrap() {
                Opened::Partial { .. } => return true,
                Opened::Record { consumed_bytes, content } => {
                    match content {
                        Content::Data(range) => into.extend_from_slice(&self.sealed[range]),
                        Content::KeyUpdate { .. } => self.key_updates += 1,
                        _ => {}
                    }
                    self.sealed.drain(..consumed_bytes);
                }
            }
        }
    }

    /// Ends the request, and returns the rest of the response.
    fn end(&mut self) -> Vec<u8> {
        self.send(b"\r\n\r\n");
        let mut got = Vec::new();
        while self.take(&mut got) {}
        got
    }
}

fn take(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 16 << 10];
    let bytes = stream.read(&mut chunk).unwrap();
    into.extend_from_slice(&chunk[..bytes]);
    bytes > 0
}

/// How often a packet and its acknowledgement can have crossed a network with a delay of 500 ms.
fn round_trips_since(begun: Instant) -> u64 {
    begun.elapsed().as_secs()
}

/// The viewer is far away, so that no key change is acknowledged for a while, and requests no more changes than fit into a first window,
/// so that each arrives separately. RFC 8446 section 4.6.3: one answer serves for all requests.
#[test]
fn who_asks_for_keys_again_and_again_gets_one_answer_at_a_time() {
    const ASKED: u64 = 8;
    let Some(far) = Far::new(1500, "--delay 500ms") else { return };
    let room = Room::new(100_000);
    let server = Server::start(&far.server, &room, &[], PATIENT);
    let (mut viewer, begun) = far.client.inside(|| {
        let mut viewer = Viewer::connect();
        let begun = Instant::now();
        viewer.send(BEGINNING);
        for _ in 0..ASKED {
            viewer.ask_for_keys();
            // sleeps: several requests arrive one by one within a round trip, whose delay is real time
            std::thread::sleep(Duration::from_millis(100));
        }
        (viewer, begun)
    });
    server.await_number("key_updates_received_total", ASKED);
    let given = server.number("key_updates_sent_total");
    // Each change waits until the one before is acknowledged, a round trip later. So a busy machine may see more of them.
    let given_max = 1 + round_trips_since(begun);
    eprintln!("asked for new keys {ASKED} times, given {given} times of {given_max} at most");
    assert!((1..=given_max).contains(&given), "given {given} times");
    let (got, key_updates) = far.client.inside(move || (viewer.end(), viewer.key_updates));
    assert!(got.ends_with(&room.film), "{} bytes", got.len());
    assert!((given..=given + 1).contains(&key_updates), "the viewer heard of {key_updates}");
    server.end();
}

/// Asks for the film, and takes the beginning.
fn watch(server: &Server, space: &Arc<Namespace>) -> (Viewer, Vec<u8>) {
    let mut viewer = space.inside(Viewer::connect);
    viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let mut got = Vec::new();
    while got.len() < 100_000 {
        assert!(viewer.take(&mut got), "the server has hung up");
    }
    assert_eq!(server.number("connections_ended_total{reason=\"answered\"}"), 0);
    (viewer, got)
}

/// More than all buffers on the way hold, so that the film is not over as long as the viewer takes nothing.
const LONG_FILM_BYTES: usize = 60_000_000;

#[test]
fn who_asks_for_keys_in_the_middle_of_a_film_gets_them_there() {
    let Some(space) = Namespace::if_possible().map(Arc::new) else { return };
    let room = Room::new(LONG_FILM_BYTES);
    let server = Server::start(&space, &room, &[], "");
    let (mut viewer, mut got) = watch(&server, &space);
    for asked in 1..=2 {
        viewer.ask_for_keys();
        server.await_number("key_updates_received_total", asked);
        while viewer.key_updates < asked && viewer.take(&mut got) {}
        assert!(got.len() < LONG_FILM_BYTES, "new keys {asked} came after {} bytes", got.len());
    }
    while viewer.take(&mut got) {}
    assert!(got.ends_with(&room.film), "{} bytes", got.len());
    server.end();
}

#[test]
fn who_reports_an_error_in_the_middle_of_a_film_is_sent_no_more() {
    let Some(space) = Namespace::if_possible().map(Arc::new) else { return };
    let room = Room::new(LONG_FILM_BYTES);
    let server = Server::start(&space, &room, &[], "");
    let (mut viewer, _) = watch(&server, &space);
    let mut record = [0; CONTROL_RECORD_BYTES_MAX];
    let bytes = viewer.sealer.seal_alert(Alert::InternalError, &mut record).unwrap();
    viewer.stream.write_all(&record[..bytes]).unwrap();
    server.await_number("connections_ended_total{reason=\"peer_alert\"}", 1);
    server.end();
}

/// Nothing but changes of keys, each of which is acknowledged: none of them leaves memory behind.
#[test]
fn former_keys_are_not_kept_when_all_that_they_sealed_is_acknowledged() {
    /// Each takes some 870 bytes.
    const ASKED: usize = 6000;
    const GROWTH_KIB_MAX: u64 = 2 << 10;
    let Some(space) = Namespace::if_possible().map(Arc::new) else { return };
    let room = Room::new(100_000);
    let server = Server::start(&space, &room, &[], PATIENT);
    let resident_kib = || server.of_every_thread("VmRSS")[0].parse::<u64>().unwrap();
    let ask = |mut viewer: Viewer, times: usize| {
        space.inside(move || {
            for _ in 0..times {
                viewer.ask_for_keys();
                while viewer.pass_over() != KEY_UPDATE_BYTES {}
            }
            viewer
        })
    };
    let mut viewer = space.inside(Viewer::connect);
    viewer.send(BEGINNING);
    let viewer = ask(viewer, 100);
    let before_kib = resident_kib();
    let viewer = ask(viewer, ASKED);
    let grown_kib = resident_kib().saturating_sub(before_kib);
    // Gauges are updated once a second, and this one must be new.
    server.wait_for_news();
    let held_bytes = server.number("bypass_connection_bytes");
    eprintln!(
        "{ASKED} changes of keys: it grew by {grown_kib} KiB, and says to hold {held_bytes} bytes"
    );
    assert!(grown_kib <= GROWTH_KIB_MAX, "it grew by {grown_kib} KiB");
    assert!(held_bytes <= 64 << 10, "it says to hold {held_bytes} bytes");
    drop(viewer);
    server.end();
}

/// A window of small responses in flight takes far more memory than a window of film: their heads, and their positions.
#[test]
fn who_asks_for_many_small_things_waits_for_those_on_their_way() {
    /// 64 KiB of responses, one more, and TCP's needs. Each takes less on the wire than in memory.
    const HELD_BYTES_MAX: u64 = 128 << 10;
    const IN_FLIGHT_BYTES_MAX: u64 = 64 << 10;
    const LOOKS: usize = 40;
    /// However long that takes on a busy machine.
    const ANSWERS_MIN: u64 = 100;
    let Some(far) = Far::new(1500, "--delay 250ms --held 64MiB") else { return };
    let room = Room::new(1000);
    let server = Server::start(&far.server, &room, &["--tls", "off"], "");
    let viewer = far.client.inside(|| TcpStream::connect((V4, PORT)).unwrap());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut asking, mut taking) = (viewer.try_clone().unwrap(), viewer.try_clone().unwrap());
    let asker = std::thread::spawn(move || {
        let requests = b"HEAD /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(500);
        while asking.write_all(&requests).is_ok() {}
    });
    let taker = std::thread::spawn(move || {
        let (mut chunk, mut total) = (vec![0; 1 << 16], 0);
        loop {
            match taking.read(&mut chunk) {
                Ok(bytes) if bytes > 0 => total += bytes,
                _ => return total,
            }
        }
    });
    let (mut held_bytes, mut in_flight_bytes, mut answered, mut looks) = (0, 0, 0, 0);
    while looks < LOOKS || answered < ANSWERS_MIN {
        assert!(!taker.is_finished(), "the server has hung up after {answered} answers");
        looks += 1;
        answered = server.number("responses_total{status=\"200\"}");
        held_bytes = held_bytes.max(server.number("bypass_connection_bytes"));
        in_flight_bytes = in_flight_bytes.max(server.number("bypass_in_flight_bytes"));
        std::thread::sleep(Duration::from_millis(200));
    }
    viewer.shutdown(Shutdown::Both).unwrap();
    asker.join().unwrap();
    let taken_bytes = taker.join().unwrap();
    eprintln!(
        "{answered} answers, {taken_bytes} bytes taken; at most {held_bytes} held, {in_flight_bytes} on their way"
    );
    assert!(taken_bytes > 0, "nothing was taken");
    assert!(held_bytes <= HELD_BYTES_MAX, "{held_bytes} bytes are held");
    assert!(in_flight_bytes <= IN_FLIGHT_BYTES_MAX, "{in_flight_bytes} bytes are on their way");
    server.kill();
}

/// These viewers have received everything and do not close: TCP would wait for that until a timeout.
#[test]
fn viewers_who_do_not_close_take_nobody_s_place() {
    const PLACES: usize = 20;
    let Some(space) =
        tool::are_here(&[("curl", "curl")]).then(Namespace::if_possible).flatten().map(Arc::new)
    else {
        return;
    };
    let room = Room::new(1000);
    let limits = format!("[limits]\nconnections_max = {PLACES}\n");
    let server = Server::start(&space, &room, &["--tls", "off"], &limits);
    let film = room.film.clone();
    let staying = space.inside(move || {
        let stays = |_| {
            let mut viewer = TcpStream::connect((V4, PORT)).unwrap();
            viewer.set_read_timeout(Some(PATIENCE)).unwrap();
            let request = b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            viewer.write_all(request).unwrap();
            let mut got = Vec::new();
            viewer.read_to_end(&mut got).unwrap();
            assert!(got.ends_with(&film));
            viewer
        };
        (0..PLACES).map(stays).collect::<Vec<_>>()
    });
    // Their sessions have ended after two seconds in which they might have closed, and their places are free again.
    server.await_number("connections_ended_total{reason=\"answered\"}", PLACES as u64);
    for _ in 0..5 {
        let get = ["--silent", "--show-error", "--fail", "--max-time", "600", &server.url()];
        assert!(space.succeed("curl", &get) == room.film);
    }
    // One after the other, they all had the place of a viewer that had stayed.
    server.await_number("tcp_events_total{event=\"orphans_evicted\"}", 1);
    drop(staying);
    server.end();
}
