//! Data that a viewer sends during a film: a request for new keys, an alert, a broken record, its next requests.
//!
//! These viewers read a little of a film and then nothing, so that the server waits for them in the middle of it.

use crate::support::content::Content;
use crate::support::served::{Served, await_that, kernel_seals};
use crate::support::viewer::Protocol;
use config::{Route, Switch};
use fullbore_tests::shake_hands;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use telemetry::Family;
use tempfile::TempDir;
use tls::client::ClientEstablished;
use tls::{Alert, CONTROL_RECORD_BYTES_MAX, Content as Opened, Opener, Sealer};

const FILM_BYTES: u64 = 3_000_000;
const GET: &[u8] = b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";
const HEAD: &[u8] = b"HEAD /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";

/// A library of one film, and a server of it.
struct Cinema {
    film: Content,
    served: Served,
    case: String,
    _library: TempDir,
}

impl Cinema {
    fn open(protocol: Protocol, route: Route, off: &[Switch]) -> Self {
        let library = tempfile::tempdir().unwrap();
        let film = Content::new(46, FILM_BYTES);
        film.write(&library.path().join("film.mp4")).unwrap();
        let served = Served::start(library.path(), protocol, |config| {
            config.route = route;
            config.off = off.to_vec();
        });
        let case = format!("{protocol:?}, {route:?}, off {off:?}");
        Self { film, served, case, _library: library }
    }
}

/// Each way to seal, with a version of TLS.
fn each(protocols: &[Protocol], test: impl Fn(&Cinema)) {
    let routes: [(Route, &[Switch]); 3] =
        [(Route::Userspace, &[]), (Route::Userspace, &[Switch::Handout]), (Route::Kernel, &[])];
    for (route, off) in routes {
        if route == Route::Kernel && !kernel_seals() {
            continue;
        }
        for protocol in protocols {
            let cinema = Cinema::open(*protocol, route, off);
            test(&cinema);
            cinema.served.stop();
        }
    }
}

/// A viewer who makes each record by hand, and whose TCP accepts little at a time.
struct Watcher {
    stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
    sealed: Vec<u8>,
    /// All data that has arrived.
    got: Vec<u8>,
    /// The last alert that arrived.
    alert: Option<u8>,
    /// How often the server has changed its keys.
    key_updates: u64,
}

impl Watcher {
    /// Requests the film, and reads the beginning.
    fn of(cinema: &Cinema) -> Self {
        let mut watcher = Self::connect(cinema);
        watcher.send(GET);
        watcher.take_at_least(1000);
        watcher
    }

    fn connect(cinema: &Cinema) -> Self {
        let address = cinema.served.address();
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(32 << 10).unwrap();
        socket.set_tcp_mss(1400).unwrap();
        socket.set_tcp_nodelay(true).unwrap();
        socket.connect(&address.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        // A test must fail rather than hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (ClientEstablished { sealer, opener, .. }, sealed) = shake_hands(&mut stream);
        let (got, alert, key_updates) = (Vec::new(), None, 0);
        Self { stream, sealer, opener, sealed, got, alert, key_updates }
    }

    fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut records = vec![0; self.sealer.sealed_bytes(bytes.len() as u64) as usize];
        let sealed = self.sealer.seal(bytes, &mut records).unwrap();
        records.truncate(sealed);
        records
    }

    fn send(&mut self, bytes: &[u8]) {
        let records = self.sealed(bytes);
        self.stream.write_all(&records).unwrap();
    }

    fn ask_for_keys(&mut self) {
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = self.sealer.seal_key_update(true, &mut record).unwrap();
        self.stream.write_all(&record[..bytes]).unwrap();
    }

    fn say(&mut self, alert: Alert) {
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes = self.sealer.seal_alert(alert, &mut record).unwrap();
        self.stream.write_all(&record[..bytes]).unwrap();
    }

    /// Reads what has arrived. False at the end.
    fn take(&mut self) -> bool {
        if take(&mut self.stream, &mut self.sealed) == 0 {
            return false;
        }
        while let tls::Opened::Record { consumed_bytes, content } =
            self.opener.open(&mut self.sealed).unwrap()
        {
            match content {
                Opened::Data(range) => self.got.extend_from_slice(&self.sealed[range]),
                Opened::KeyUpdate { .. } => self.key_updates += 1,
                Opened::Alert { description, .. } => self.alert = Some(description),
                Opened::CloseNotify => self.alert = Some(0),
                _ => {}
            }
            self.sealed.drain(..consumed_bytes);
        }
        true
    }

    fn take_at_least(&mut self, bytes: usize) {
        while self.got.len() < bytes {
            assert!(self.take(), "the server has hung up");
        }
    }

    /// The position of the film in the received data.
    fn head_bytes(&mut self) -> usize {
        loop {
            if let Some(end) = self.got.windows(4).position(|four| four == b"\r\n\r\n") {
                return end + 4;
            }
            assert!(self.take(), "the server has hung up");
        }
    }

    /// Reads the rest of the film and checks every byte of it.
    fn take_film(&mut self, cinema: &Cinema) {
        let end = self.head_bytes() + FILM_BYTES as usize;
        self.take_at_least(end);
        let film: Vec<u8> = self.got.drain(..end).collect();
        let start = film.len() - FILM_BYTES as usize;
        cinema.film.assert_holds(0, &film[start..], &cinema.case);
    }
}

fn take(stream: &mut TcpStream, into: &mut Vec<u8>) -> usize {
    let mut chunk = [0; 16 << 10];
    let bytes = stream.read(&mut chunk).unwrap();
    into.extend_from_slice(&chunk[..bytes]);
    bytes
}

#[test]
fn a_viewer_who_asks_for_keys_in_the_middle_of_a_film_gets_them_there() {
    each(&[Protocol::Tls13], |cinema| {
        let (served, case) = (&cinema.served, &cinema.case);
        let mut watcher = Watcher::of(cinema);
        let counts_keys = !case.contains("Handout");
        for asked in 1..=3 {
            watcher.ask_for_keys();
            let received = || served.number(|n| &n.key_updates_received_total);
            if counts_keys {
                // The viewer reads nothing meanwhile.
                await_that(|| received() == asked, || format!("{case}: the server reads nothing"));
            }
            // Some flights later at the latest.
            let until = watcher.got.len() + 800_000;
            while watcher.key_updates < asked && watcher.got.len() < until {
                assert!(watcher.take(), "{case}: the server has hung up");
            }
        }
        let given = watcher.key_updates;
        watcher.take_film(cinema);
        if given == 0 && case.contains("Kernel") {
            // A kernel that cannot change keys: the connection ends in order, after the film.
            while watcher.take() {}
            assert_eq!(watcher.alert, Some(0), "{case}");
            served.await_count(Family::Ends, "keys_fixed", 1);
        } else {
            assert_eq!(given, 3, "{case}: in the middle of the film");
            watcher.send(GET);
            watcher.take_film(cinema);
        }
    });
}

/// More than the 32 that a viewer may send at once.
#[test]
fn a_viewer_may_change_keys_as_often_as_it_takes_parts_of_a_film() {
    let cinema = Cinema::open(Protocol::Tls13, Route::Userspace, &[]);
    let mut watcher = Watcher::connect(&cinema);
    for asked in 0..80 {
        if asked % 8 == 0 {
            watcher.send(GET);
        }
        watcher.ask_for_keys();
        watcher.take_at_least(1000);
        let until = watcher.got.len() + 300_000;
        watcher.take_at_least(until);
        if asked % 8 == 7 {
            watcher.take_film(&cinema);
        }
    }
    assert_eq!(cinema.served.count(Family::Ends, "key_update_flood"), 0);
    assert!(cinema.served.number(|n| &n.key_updates_received_total) >= 72);
    cinema.served.stop();
}

#[test]
fn a_fatal_alert_in_the_middle_of_a_film_ends_it() {
    each(&[Protocol::Tls12, Protocol::Tls13], |cinema| {
        let mut watcher = Watcher::of(cinema);
        watcher.say(Alert::InternalError);
        // The viewer reads nothing meanwhile, and does not close.
        cinema.served.await_count(Family::Ends, "peer_alert", 1);
        let sent = cinema.served.number(|n| &n.response_sent_bytes_total);
        assert!(sent < FILM_BYTES, "{}: all of the film was sent", cinema.case);
    });
}

#[test]
fn a_broken_record_in_the_middle_of_a_film_is_answered_by_an_alert_between_two_records() {
    each(&[Protocol::Tls12, Protocol::Tls13], |cinema| {
        let case = &cinema.case;
        let mut watcher = Watcher::of(cinema);
        let mut record = watcher.sealed(HEAD);
        *record.last_mut().unwrap() ^= 1;
        watcher.stream.write_all(&record).unwrap();
        while watcher.take() {}
        assert_eq!(watcher.alert, Some(Alert::BadRecordMac.description()), "{case}");
        assert!(watcher.sealed.is_empty(), "{case}: it ends with a whole record");
        let start = watcher.head_bytes();
        let film = &watcher.got[start..];
        assert!(film.len() < FILM_BYTES as usize, "{case}: all of the film came");
        cinema.film.assert_holds(0, film, case);
        cinema.served.await_count(Family::Ends, "bad_record_mac", 1);
    });
}

#[test]
fn a_viewer_that_will_send_no_more_gets_the_rest_of_the_film() {
    each(&[Protocol::Tls12, Protocol::Tls13], |cinema| {
        for says_so in [true, false] {
            let mut watcher = Watcher::of(cinema);
            if says_so {
                watcher.say(Alert::CloseNotify);
            }
            watcher.stream.shutdown(std::net::Shutdown::Write).unwrap();
            watcher.take_film(cinema);
            // The server's goodbye arrives only if TCP accepts it at once.
            while watcher.take() {}
        }
        cinema.served.await_count(Family::Ends, "peer_closed", 2);
    });
}

/// At least this many bytes written to `stream` were read by the server: neither end's TCP has them. Linux reports for each socket the bytes that
/// wait in it, and counts unacknowledged ones at both ends. It lists the ends one after the other, so bytes that move in between may be missing from
/// both. `None` if the list lacks an end, which happens while other sockets come and go.
fn read_by_the_server(stream: &TcpStream, written: u64) -> Option<u64> {
    let end = |port: u16| format!("0100007F:{port:04X}");
    let ends = [stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port()].map(end);
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let waiting = |from: &str, to: &str, index: usize| {
        let line = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = line.filter(|words| words.len() > 4).find(|w| w[1] == from && w[2] == to);
        let (unsent, unread) = line?[4].split_once(':').unwrap();
        Some(u64::from_str_radix([unsent, unread][index], 16).unwrap())
    };
    let unsent = waiting(&ends[0], &ends[1], 0)?;
    let unread = waiting(&ends[1], &ends[0], 1)?;
    Some(written.saturating_sub(unsent + unread))
}

#[test]
fn requests_in_the_middle_of_a_film_wait_in_tcp_but_for_a_few_and_are_all_answered() {
    const REQUESTS: usize = 6000;
    /// The bytes that may wait ([`delivery`]'s bound), one read, and the part of the film's own request that was read.
    const READ_BYTES_MAX: u64 = (8 + 32 + 8) << 10;
    each(&[Protocol::Tls12, Protocol::Tls13], |cinema| {
        let case = &cinema.case;
        let mut watcher = Watcher::of(cinema);
        let requests = watcher.sealed(&HEAD.repeat(REQUESTS));
        let mut stream = watcher.stream.try_clone().unwrap();
        let written = requests.len() as u64;
        let writer = std::thread::spawn(move || stream.write_all(&requests).unwrap());
        // With each window, the server may read.
        watcher.take_at_least(FILM_BYTES as usize * 2 / 3);
        writer.join().unwrap();
        // What the server has read stays read, so one good look is enough.
        let read = || read_by_the_server(&watcher.stream, written);
        await_that(
            || read().is_some_and(|bytes| bytes < READ_BYTES_MAX),
            || format!("{case}: {:?} bytes of requests were read", read()),
        );
        watcher.take_film(cinema);
        let heads = |got: &[u8]| got.windows(4).filter(|four| *four == b"\r\n\r\n").count();
        while heads(&watcher.got) < REQUESTS {
            assert!(watcher.take(), "{case}: the server has hung up");
        }
        assert_eq!(cinema.served.count(Family::Responses, "200"), 1 + REQUESTS as u64, "{case}");
    });
}
