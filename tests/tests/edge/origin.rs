//! An origin that behaves as a test wants, and records its requests.

use fullbore_tests::bytes;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// One version of an object.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The entity tag as it is sent, with quotes.
    pub(crate) etag: String,
    /// Further header lines, each with its line end. `{number}` becomes the number of the request.
    pub(crate) lines: String,
}

impl Object {
    fn counted(self, number: usize) -> Self {
        Self { bytes: Arc::new(number.to_string().into_bytes()), ..self }
    }

    fn varied(self) -> Self {
        Self { lines: self.lines + "Vary: Origin\r\n", ..self }
    }

    fn numbered(self, number: usize) -> Self {
        Self { lines: self.lines.replace("{number}", &number.to_string()), ..self }
    }
}

/// How an origin misbehaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It does not.
    Good,
    /// It answers every request with this status, and these header lines.
    Status(u16, String),
    /// It sends this many bytes of a body, and then nothing.
    Stalls(usize),
    /// It sends the head and half of the body, and the rest once its behaviour changes.
    Holds,
    /// It doesn't answer for paths that begin like this until its behaviour changes.
    Withholds(&'static str),
    /// It sends this many bytes of a body, and closes.
    Breaks(usize),
    /// It sends a range that was not requested.
    OtherRange,
    /// It doesn't say of how many bytes a part is. If it doesn't know, a whole body has no length either.
    NoTotal { is_known: bool },
    /// It states a wrong length of its body.
    LongerThanSaid,
    /// It sends other bytes under the same tag, and one byte less of them.
    Shrunk,
    /// It doesn't support ranges.
    NoRanges,
    /// It ignores If-Match and If-None-Match.
    Unconditional,
    /// It closes each connection without an answer.
    Gone,
    /// It sends no length and no tag.
    Chunked,
    /// For paths that begin like this, it sends a response of this length, or one without an end, slowly, with this `Cache-Control`.
    Drips(&'static str, Option<usize>, &'static str),
    /// It sends different bytes to each request: the request's number.
    Counted,
    /// It refuses requests whose head has this line.
    Refuses(&'static str),
    /// It refuses requests whose head doesn't have this line.
    Requires(&'static str),
    /// It says that its answers vary with `Origin`, but only to requests that have it.
    VariesByOrigin,
    /// One request in this many fails, each in another way.
    Flaky(usize),
}

impl Manner {
    /// How it behaves towards a request with this head.
    fn towards(self, head: &str) -> Self {
        let has_line = |line: &str| head.to_ascii_lowercase().contains(line);
        let is_refused = match &self {
            Self::Refuses(line) => has_line(line),
            Self::Requires(line) => !has_line(line),
            _ => false,
        };
        if is_refused { Self::Status(403, String::new()) } else { self }
    }
}

/// What fails in turn: resets, errors, redirects, stalls before and within a body, bodies that end early, other ranges, wrong lengths.
fn fault(number: usize) -> Manner {
    let elsewhere = "Location: http://127.0.0.1:1/secret\r\n".to_owned();
    match number % 9 {
        0 => Manner::Gone,
        1 => Manner::Status(500, String::new()),
        2 => Manner::Breaks(300_000),
        3 => Manner::OtherRange,
        4 => Manner::Stalls(0),
        5 => Manner::Status(302, elsewhere),
        6 => Manner::LongerThanSaid,
        7 => Manner::Stalls(1_500_000),
        _ => Manner::Status(503, String::new()),
    }
}

/// A request that it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    /// The first byte and the last.
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) if_match: Option<String>,
    pub(crate) head: String,
}

#[derive(Default)]
struct State {
    objects: HashMap<String, Object>,
    manner: Option<Manner>,
    turns: VecDeque<Manner>,
    seen: Vec<Seen>,
    failed: usize,
    left: usize,
    dripped: usize,
    delay: Duration,
}

impl State {
    /// The behaviour for the last request.
    fn manner(&mut self) -> Manner {
        if let Some(turn) = self.turns.pop_front() {
            return turn;
        }
        match self.manner.clone().unwrap_or(Manner::Good) {
            Manner::Flaky(one_in) if self.seen.len() % one_in == one_in / 2 => {
                self.failed += 1;
                fault(self.failed)
            }
            Manner::Flaky(_) => Manner::Good,
            manner => manner,
        }
    }
}

/// A running origin. It ends with the test.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Self { address, state: Arc::default() };
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = serving.clone();
                // A client that leaves ends its connection's thread.
                std::thread::spawn(move || drop(origin.serve(stream)));
            }
        });
        origin
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Puts an object there whose bytes follow from `version`, as does its tag.
    pub(crate) fn put(&self, path: &str, version: u64, length: usize, lines: &str) -> Arc<Vec<u8>> {
        let bytes = Arc::new(bytes(length, version));
        let object = Object {
            bytes: Arc::clone(&bytes),
            etag: format!("\"v{version}\""),
            lines: lines.into(),
        };
        self.state().objects.insert(path.into(), object);
        bytes
    }

    /// Changes an object in place.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Object)) {
        change(self.state().objects.get_mut(path).unwrap());
    }

    pub(crate) fn behave(&self, manner: Manner) {
        self.state().manner = Some(manner);
    }

    /// Behaves like this towards its next requests, one after the other, and then as before.
    pub(crate) fn behave_in_turn(&self, manners: impl IntoIterator<Item = Manner>) {
        self.state().turns.extend(manners);
    }

    /// Waits this long before each answer.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Its requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The number of requests for paths that begin with `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.state().seen.iter().filter(|seen| seen.path.starts_with(prefix)).count()
    }

    fn withholds(&self, path: &str) -> bool {
        matches!(&self.state().manner, Some(Manner::Withholds(prefix)) if path.starts_with(prefix))
    }

    /// The number of requests that it failed on purpose.
    pub(crate) fn failed(&self) -> usize {
        self.state().failed
    }

    /// The number of clients that left while it dripped.
    pub(crate) fn left(&self) -> usize {
        self.state().left
    }

    /// The number of bytes that it dripped.
    pub(crate) fn dripped(&self) -> usize {
        self.state().dripped
    }

    /// Sends a response piece by piece, until its end or its client has left.
    fn drip(
        &self,
        stream: &mut TcpStream,
        length: Option<usize>,
        cache_control: &str,
    ) -> std::io::Result<()> {
        const PIECE: usize = 16 << 10;
        let framing = match length {
            Some(length) => format!("Content-Length: {length}"),
            None => "Transfer-Encoding: chunked".to_owned(),
        };
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: {cache_control}\r\n{framing}\r\n\r\n")?;
        let piece = match length {
            Some(_) => vec![b'x'; PIECE],
            None => format!("{PIECE:x}\r\n{}\r\n", "x".repeat(PIECE)).into_bytes(),
        };
        let mut sent = 0;
        while length.is_none_or(|length| sent < length) {
            if stream.write_all(&piece).is_err() {
                self.state().left += 1;
                break;
            }
            sent += PIECE;
            self.state().dripped += PIECE;
            // sleeps: it is as slow as a camera, and its client does not have all of it at once
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The answer to HEAD.
    fn head_of(&self, path: &str) -> String {
        let state = self.state();
        let Some(Object { bytes, etag, lines }) = state.objects.get(path) else {
            return "HTTP/1.1 404 Told\r\n\r\n".to_owned();
        };
        let length = bytes.len();
        format!("HTTP/1.1 200 OK\r\nETag: {etag}\r\nContent-Length: {length}\r\n{lines}\r\n")
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let seen = seen(&head);
            if head.starts_with("HEAD ") {
                // A starting edge checks whether the origin is there, which is not recorded.
                let is_gone = self.state().manner == Some(Manner::Gone);
                if is_gone || write!(stream, "{}", self.head_of(&seen.path)).is_err() {
                    return Ok(());
                }
                continue;
            }
            let (number, object, manner, delay) = {
                let mut state = self.state();
                state.seen.push(seen.clone());
                let number = state.seen.len();
                let manner = state.manner();
                let object = state.objects.get(&seen.path).cloned();
                (number, object.map(|object| object.numbered(number)), manner, state.delay)
            };
            std::thread::sleep(delay);
            while self.withholds(&seen.path) {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Which requests it refuses, and what it drips, is decided when it answers.
            let manner = match self.state().manner.clone() {
                Some(now @ (Manner::Refuses(_) | Manner::Requires(_) | Manner::Drips(..))) => now,
                _ => manner,
            };
            let object = match manner {
                Manner::Counted => object.map(|object| object.counted(number)),
                Manner::VariesByOrigin if field(&seen.head, "origin").is_some() => {
                    object.map(Object::varied)
                }
                _ => object,
            };
            let manner = manner.towards(&seen.head);
            if let Manner::Drips(prefix, length, cache_control) = manner {
                if seen.path.starts_with(prefix) {
                    return self.drip(&mut stream, length, cache_control);
                }
            }
            let is_held = || self.state().manner == Some(Manner::Holds);
            if manner == Manner::Gone || !answer(&mut stream, &seen, object, manner, is_held)? {
                return Ok(());
            }
        }
    }
}

fn field<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case(wanted).then_some(value)
    })
}

fn seen(head: &str) -> Seen {
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let range = field(head, "range").and_then(|value| {
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    });
    let if_match = field(head, "if-match").map(str::to_owned);
    Seen { path, range, if_match, head: head.to_owned() }
}

/// Answers, and returns whether the connection stays open. Sends held-back bytes once nothing `is_held` any more.
fn answer(
    stream: &mut TcpStream,
    seen: &Seen,
    object: Option<Object>,
    manner: Manner,
    is_held: impl Fn() -> bool,
) -> std::io::Result<bool> {
    let mut plain = |status: &str| {
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").map(|()| true)
    };
    if let Manner::Status(status, lines) = &manner {
        let separator = if lines.is_empty() { "" } else { "\r\n" };
        return plain(&format!("{status} Told{separator}{}", lines.trim_end()));
    }
    let Some(Object { bytes, etag, lines }) = object else { return plain("404 Not Found") };
    let is_conditional = manner != Manner::Unconditional;
    if is_conditional && seen.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
        return plain("412 Precondition Failed");
    }
    if is_conditional && field(&seen.head, "if-none-match").is_some_and(|known| known == etag) {
        return plain(&format!("304 Not Modified\r\nETag: {etag}\r\n{}", lines.trim_end()));
    }
    let size = bytes.len() as u64 - u64::from(manner == Manner::Shrunk);
    let has_ranges = manner != Manner::NoRanges && !lines.contains("Accept-Ranges: none");
    let range = seen.range.filter(|_| has_ranges);
    if range.is_some_and(|(first, _)| first >= size) {
        return plain(&format!("416 Range Not Satisfiable\r\nContent-Range: bytes */{size}"));
    }
    let is_endless = manner == Manner::NoTotal { is_known: false } && range.is_none();
    if manner == Manner::Chunked || is_endless {
        write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{lines}\r\n")?;
        write!(stream, "{:x}\r\n", bytes.len())?;
        stream.write_all(&bytes)?;
        return stream.write_all(b"\r\n0\r\n\r\n").map(|()| true);
    }
    let (mut first, end) = range.map_or((0, size), |(first, last)| (first, size.min(last + 1)));
    if manner == Manner::OtherRange {
        first += 1;
    }
    let body = &bytes[first as usize..end as usize];
    let said = body.len() + if manner == Manner::LongerThanSaid { 7 } else { 0 };
    let status = match range {
        Some(_) => {
            let total = match manner {
                Manner::NoTotal { .. } => "*".to_owned(),
                _ => size.to_string(),
            };
            format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{total}", end - 1)
        }
        None => "200 OK".to_owned(),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nETag: {etag}\r\nContent-Length: {said}\r\n{lines}\r\n");
    stream.write_all(head.as_bytes())?;
    send_body(stream, body, manner, is_held)
}

/// Sends a body as the origin does. Returns whether the connection stays open.
fn send_body(
    stream: &mut TcpStream,
    body: &[u8],
    manner: Manner,
    is_held: impl Fn() -> bool,
) -> std::io::Result<bool> {
    match manner {
        Manner::Stalls(after) => {
            stream.write_all(&body[..after.min(body.len())])?;
            // Until the edge hangs up.
            std::io::copy(stream, &mut std::io::sink()).map(|_| false)
        }
        Manner::Holds => {
            let (half, rest) = body.split_at(body.len() / 2);
            stream.write_all(half)?;
            while is_held() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.write_all(rest).map(|()| true)
        }
        Manner::Breaks(after) => stream.write_all(&body[..after.min(body.len())]).map(|()| false),
        Manner::LongerThanSaid => stream.write_all(body).map(|()| false),
        _ => stream.write_all(body).map(|()| true),
    }
}
