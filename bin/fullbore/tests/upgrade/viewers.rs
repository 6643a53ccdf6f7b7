//! Viewers who keep requesting while servers come and go, and record everything that a player would notice.

use fullbore_tests::tls::{Offer, client};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a server may be silent. Long, because many servers and viewers share two cores, and longer than a server waits for a viewer who reads
/// nothing (`send_seconds`, 30): a server that gives up on a connection closes it before this is over.
const SILENT_MAX: Duration = Duration::from_secs(90);

trait Stream: Read + Write + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

type Open = BufReader<Box<dyn Stream>>;

/// A crowd that keeps requesting until it is stopped.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    film: Vec<u8>,
    pause: Duration,
    stop: AtomicBool,
    answers: AtomicU64,
    connections: AtomicU64,
    faults: Mutex<Vec<String>>,
    /// When newcomers began to come, and how many have.
    begun: Instant,
    newcomers: AtomicU64,
    /// Newcomers come on a common clock, one per this interval, however long the others take to be served.
    one_in: Duration,
    /// Each keeper requests once per pause, offset by this from the one before it: keepers that request together would wait for each other, and stay
    /// in step.
    keepers_apart: Duration,
    is_disturbed: AtomicBool,
    /// How long viewers waited for the first byte of an answer, in microseconds: undisturbed, and disturbed.
    first_bytes: [Mutex<Vec<u32>>; 2],
}

/// The results of a crowd.
#[derive(Debug)]
pub(crate) struct Visited {
    pub(crate) answers: u64,
    pub(crate) connections: u64,
    /// New connections per second by those who make one for each request.
    pub(crate) newcomers_per_second: f64,
    /// The 99th percentile of the wait for the first byte, in microseconds: undisturbed, and disturbed.
    pub(crate) p99_us: [u32; 2],
}

impl Crowd {
    /// `keepers` keep their connections as long as the server does and ask again after a `pause`. `newcomers` make one connection per request,
    /// and this many come in each period as long as a pause.
    pub(crate) fn gather(
        address: SocketAddr,
        is_tls: bool,
        film: &[u8],
        [keepers, newcomers]: [usize; 2],
        pause: Duration,
    ) -> Self {
        let shared = Arc::new(Shared {
            address,
            tls: is_tls.then(|| Offer::default().config()),
            film: film.to_vec(),
            pause,
            stop: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            faults: Mutex::default(),
            begun: Instant::now(),
            newcomers: AtomicU64::new(0),
            one_in: pause / u32::try_from(newcomers.max(1)).unwrap(),
            keepers_apart: pause / u32::try_from(keepers.max(1)).unwrap(),
            is_disturbed: AtomicBool::new(false),
            first_bytes: Default::default(),
        });
        let start = |number| {
            let shared = Arc::clone(&shared);
            let watch = move || shared.watch(number, number < keepers);
            // A thousand of them have to fit.
            thread::Builder::new().stack_size(256 << 10).spawn(watch).unwrap()
        };
        let threads = (0..keepers + newcomers).map(start).collect();
        Self { shared, threads }
    }

    /// Answers so far.
    pub(crate) fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Forgets the waits until now.
    pub(crate) fn forgets_its_waits(&self) {
        self.shared.first_bytes.iter().for_each(|waits| waits.lock().unwrap().clear());
    }

    /// From now on, waits for first bytes are those of disturbed viewers.
    pub(crate) fn is_disturbed_from_now_on(&self) {
        self.shared.is_disturbed.store(true, Ordering::Relaxed);
    }

    /// Ends the crowd.
    ///
    /// # Panics
    /// If anything was not as it should be.
    #[track_caller]
    pub(crate) fn disperse(self) -> Visited {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|viewer| viewer.join().unwrap());
        let faults = self.shared.faults.lock().unwrap();
        assert!(faults.is_empty(), "{} faults: {:?}", faults.len(), &faults[..faults.len().min(9)]);
        let newcomers = self.shared.newcomers.load(Ordering::Relaxed);
        Visited {
            answers: self.shared.answers.load(Ordering::Relaxed),
            connections: self.shared.connections.load(Ordering::Relaxed),
            newcomers_per_second: newcomers as f64 / self.shared.begun.elapsed().as_secs_f64(),
            p99_us: [0, 1].map(|when| p99(&mut self.shared.first_bytes[when].lock().unwrap())),
        }
    }
}

/// The 99th percentile.
fn p99(values: &mut [u32]) -> u32 {
    values.sort_unstable();
    values.get(values.len() * 99 / 100).copied().unwrap_or(0)
}

impl Shared {
    fn watch(&self, number: usize, keeps: bool) {
        let mut stream = None;
        let mut asked = number;
        while !self.stop.load(Ordering::Relaxed) {
            match keeps {
                true => self.await_moment(number),
                false => self.await_turn(),
            }
            let kept = stream.take();
            let what = if kept.is_some() { "a kept connection" } else { "a new connection" };
            let open = kept.map_or_else(|| self.connect(), Ok);
            let answered = open.and_then(|mut open| match self.ask(&mut open, asked) {
                Ok(is_kept) => Ok(Some(open).filter(|_| is_kept && keeps)),
                Err(why) => Err(format!("{why}; {}", both_ends(open.get_ref().tcp()))),
            });
            match answered {
                Ok(kept) => stream = kept,
                Err(why) => self.faults.lock().unwrap().push(format!("on {what}: {why}")),
            }
            asked += 1;
        }
    }

    /// Waits until a keeper is due the next time.
    fn await_moment(&self, number: usize) {
        let first = self.keepers_apart * u32::try_from(number).unwrap();
        let since = self.begun.elapsed().checked_sub(first);
        let turns = since.map_or(0, |since| since.as_micros() / self.pause.as_micros() + 1);
        self.await_time(first + self.pause * u32::try_from(turns).unwrap());
    }

    /// Waits until the next newcomer is due.
    fn await_turn(&self) {
        let number = self.newcomers.fetch_add(1, Ordering::Relaxed);
        self.await_time(self.one_in * u32::try_from(number).unwrap());
    }

    /// Waits until so much time has passed since the crowd began.
    fn await_time(&self, due: Duration) {
        // sleeps: viewers come by a timetable, and one that comes late shows as much
        thread::sleep(due.saturating_sub(self.begun.elapsed()));
    }

    fn connect(&self) -> Result<Open, String> {
        let tcp = TcpStream::connect(self.address).map_err(|why| format!("connecting: {why}"))?;
        tcp.set_read_timeout(Some(SILENT_MAX)).unwrap();
        self.connections.fetch_add(1, Ordering::Relaxed);
        let stream: Box<dyn Stream> = match &self.tls {
            Some(config) => Box::new(StreamOwned::new(client(config, "localhost"), tcp)),
            None => Box::new(tcp),
        };
        Ok(BufReader::new(stream))
    }

    /// Requests a part of the film; returns whether the server keeps the connection.
    fn ask(&self, stream: &mut Open, asked: usize) -> Result<bool, String> {
        let (from, length) = (asked * 7919 % (self.film.len() / 2), 20_000 + asked % 7 * 30_000);
        let end = (from + length).min(self.film.len());
        let range = format!("Range: bytes={from}-{}\r\n", end - 1);
        let request = format!("GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\n{range}\r\n");
        let is_disturbed = self.is_disturbed.load(Ordering::Relaxed);
        let since = Instant::now();
        stream.get_mut().write_all(request.as_bytes()).map_err(|why| format!("asking: {why}"))?;
        stream.fill_buf().map_err(|why| format!("the first byte: {why}"))?;
        let waited = u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.first_bytes[usize::from(is_disturbed)].lock().unwrap().push(waited);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head) {
                Ok(0) => return Err(format!("closed after {} bytes of a head", head.len())),
                Ok(_) => {}
                Err(why) => return Err(format!("a head: {why}")),
            }
        }
        if !head.starts_with("HTTP/1.1 206") {
            return Err(format!("another answer: {head:?}"));
        }
        let mut body = vec![0; end - from];
        stream.read_exact(&mut body).map_err(|why| format!("a body: {why}"))?;
        if body != self.film[from..end] {
            return Err("other bytes".into());
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(!head.contains("Connection: close"))
    }
}

/// The kernel's view of a stuck connection of this machine: its process, its queues, and its timers.
fn both_ends(tcp: &TcpStream) -> String {
    let Ok(own) = tcp.local_addr() else { return "it is gone".into() };
    let filter = format!("( sport = :{0} or dport = :{0} )", own.port());
    let said = Command::new("ss").args(["-Htnpoime", &filter]).output();
    said.map_or_else(|why| why.to_string(), |said| String::from_utf8_lossy(&said.stdout).into())
}
