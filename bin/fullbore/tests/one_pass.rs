//! A film that is watched once leaves next to nothing in the page cache, on every route, at every pace, and however far the kernel reads ahead.
//! A film that is watched again is cached.
//!
//! The films are holes: what is read of them is zeros, and the page cache keeps those like any other bytes.

use fullbore_tests::{Launch, LoopDisk, Namespace, PATIENCE, Server, tls, tool};
use reactor::residency::cached_pages;
use rustix::fs::Advice;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FILM_BYTES: u64 = 32 << 20;

/// One percent of a film.
const LEFT_BYTES_MAX: u64 = FILM_BYTES / 100;

/// One viewer's part of a film.
struct Pass {
    film: &'static str,
    /// A program has read the beginning of the film before, and the kernel has read a little ahead of it.
    was_begun: bool,
    /// How fast the viewer reads it; without a limit if none is given.
    bits_per_second: Option<u64>,
    /// How much of it the viewer takes.
    bytes: u64,
}

/// Paced viewers take a part, which is enough to see whether the server reads it through the page cache.
const PASSES: [Pass; 5] = [
    Pass { film: "full.mp4", was_begun: false, bits_per_second: None, bytes: FILM_BYTES },
    Pass { film: "begun.mp4", was_begun: true, bits_per_second: None, bytes: FILM_BYTES },
    Pass { film: "4.mp4", was_begun: false, bits_per_second: Some(4_000_000), bytes: 1_500_000 },
    Pass { film: "16.mp4", was_begun: false, bits_per_second: Some(16_000_000), bytes: 6 << 20 },
    Pass { film: "16b.mp4", was_begun: true, bits_per_second: Some(16_000_000), bytes: 6 << 20 },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Userspace,
    Kernel,
    Bypass,
}

/// The server's address on the bypass route.
const BYPASS_ADDRESS: &str = "192.0.2.2:8443";

const BYPASS: &str = "[bypass]\naddresses = [\"192.0.2.2\"]\nmtu_bytes = 1500\n\
    kernel_addresses = [\"192.0.2.1/24\"]\n";

/// A library on a disk with this `read_ahead_kb`; without a number, on whatever disk has temporary files.
struct Library {
    folder: TempDir,
    _disk: Option<LoopDisk>,
}

impl Library {
    fn new(read_ahead_kib: Option<u32>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("library");
        fs::create_dir(&at).unwrap();
        let disk = match read_ahead_kib {
            Some(kib) => Some(LoopDisk::mount(&folder.path().join("image"), &at, 64 << 20, kib)?),
            None => None,
        };
        let library = Self { folder, _disk: disk };
        library.make("probe.mp4");
        match library.cached_bytes("probe.mp4") {
            Ok(0) => Some(library),
            Ok(_) => {
                tool::skip("temporary files are in memory: set TMPDIR to a folder on a disk");
                None
            }
            Err(error) => {
                tool::skip(&format!("this kernel does not count cached pages: {error}"));
                None
            }
        }
    }

    fn path(&self, film: &str) -> PathBuf {
        self.folder.path().join("library").join(film)
    }

    /// Makes a film of which nothing is in the page cache.
    fn make(&self, film: &str) {
        let file = File::create(self.path(film)).unwrap();
        file.set_len(FILM_BYTES).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }

    /// Reads the beginning of a film, as programs do that want to know what it is.
    fn begin(&self, film: &str) {
        let mut file = File::open(self.path(film)).unwrap();
        for _ in 0..8 {
            file.read_exact(&mut [0; 4096]).unwrap();
        }
    }

    fn cached_bytes(&self, film: &str) -> io::Result<u64> {
        let file = File::open(self.path(film))?;
        let pages = cached_pages(file.as_fd(), 0..FILM_BYTES)?;
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// A server of it, and the namespace that it is in. None if this machine lacks the route.
    fn serve(&self, route: Route, has_tls: bool) -> Option<Serving> {
        if route == Route::Kernel && has_tls && !Path::new("/proc/net/tls_stat").exists() {
            tool::skip("this kernel does not seal, or the module tls is not loaded");
            return None;
        }
        let name = format!("{route:?}").to_ascii_lowercase();
        let launch = Launch::of(&self.path(""));
        // The hot set would take repeatedly requested parts out of the page cache.
        let launch = launch.arguments(&format!("--route {name} --disk auto --off hot"));
        let launch = if has_tls { launch } else { launch.arguments("--tls off") };
        if route != Route::Bypass {
            let server = launch.config("workers = 1\n").start();
            let address = server.address;
            return Some(Serving { server, address, space: None, has_tls });
        }
        let space = Arc::new(Namespace::if_possible()?);
        let launch = launch.listen_as_configured().config(&format!("workers = 1\n{BYPASS}"));
        let server = launch.namespace(&space).start();
        let address = BYPASS_ADDRESS.parse().unwrap();
        Some(Serving { server, address, space: Some(space), has_tls })
    }
}

struct Serving {
    server: Server,
    address: SocketAddr,
    space: Option<Arc<Namespace>>,
    has_tls: bool,
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

impl Serving {
    fn connect(&self) -> Box<dyn ReadWrite> {
        let connected = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            // The server should notice the pace, so no more than this may be in flight.
            socket.set_recv_buffer_size(128 << 10).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect(&self.address.into()).unwrap();
            socket
        };
        let socket = match &self.space {
            Some(space) => space.inside(connected),
            None => connected(),
        };
        if !self.has_tls {
            return Box::new(socket);
        }
        let client: ClientConnection = tls::client(&tls::Offer::tls13().config(), "localhost");
        Box::new(StreamOwned::new(client, socket))
    }

    /// One viewer, who leaves when it has what it wants.
    fn watch(&self, pass: &Pass) {
        let mut stream = self.connect();
        let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", pass.film);
        stream.write_all(request.as_bytes()).unwrap();
        let (mut chunk, mut taken, begun) = (vec![0; 32 << 10], 0, Instant::now());
        // The head counts as well, so the viewer leaves a few hundred bytes before the end of what it wants.
        while taken < pass.bytes {
            let bytes = stream.read(&mut chunk).unwrap();
            assert!(bytes > 0, "{} ended after {taken} bytes", pass.film);
            taken += bytes as u64;
            if let Some(rate) = pass.bits_per_second {
                let due = begun + Duration::from_secs_f64(taken as f64 * 8.0 / rate as f64);
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
    }
}

fn one_pass(route: Route, has_tls: bool, read_ahead_kib: Option<u32>) {
    let Some(library) = Library::new(read_ahead_kib) else { return };
    for pass in &PASSES {
        library.make(pass.film);
        if pass.was_begun {
            library.begin(pass.film);
        }
    }
    let cached = |pass: &Pass| library.cached_bytes(pass.film).unwrap();
    let before: Vec<_> = PASSES.iter().map(cached).collect();
    let Some(serving) = library.serve(route, has_tls) else { return };
    thread::scope(|scope| {
        PASSES.iter().for_each(|pass| drop(scope.spawn(|| serving.watch(pass))));
    });
    serving.server.finish();
    let mut complaints = Vec::new();
    for (pass, before) in PASSES.iter().zip(before) {
        let left = cached(pass).saturating_sub(before);
        println!("{route:?}, TLS {has_tls}, {read_ahead_kib:?} KiB ahead: {}: {left}", pass.film);
        if left >= LEFT_BYTES_MAX {
            complaints.push(format!("{}: {left} bytes", pass.film));
        }
    }
    assert!(complaints.is_empty(), "one pass left in the page cache: {complaints:?}");
}

/// With the disk as it is, and with the kernel's default and a large read-ahead.
fn at_each_read_ahead(route: Route, has_tls: bool) {
    thread::scope(|scope| {
        let all = [None, Some(128), Some(8192)];
        let tries = all.map(|kib| scope.spawn(move || one_pass(route, has_tls, kib)));
        for one in tries {
            one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

#[test]
fn one_pass_leaves_nothing_where_user_space_seals() {
    at_each_read_ahead(Route::Userspace, true);
}

#[test]
fn one_pass_leaves_nothing_without_tls_in_user_space() {
    at_each_read_ahead(Route::Userspace, false);
}

#[test]
fn one_pass_leaves_nothing_where_the_kernel_seals() {
    at_each_read_ahead(Route::Kernel, true);
}

#[test]
fn one_pass_leaves_nothing_where_the_kernel_sends() {
    at_each_read_ahead(Route::Kernel, false);
}

#[test]
fn one_pass_leaves_nothing_with_our_own_tcp() {
    at_each_read_ahead(Route::Bypass, true);
}

#[test]
fn one_pass_leaves_nothing_with_our_own_tcp_without_tls() {
    at_each_read_ahead(Route::Bypass, false);
}

/// The second viewer's requests fill the cache, and the third one's are answered from memory.
fn is_cached_when_it_is_requested_again(route: Route, has_tls: bool) {
    let Some(library) = Library::new(None) else { return };
    let pass = &PASSES[0];
    library.make(pass.film);
    let Some(serving) = library.serve(route, has_tls) else { return };
    let from_disk = || {
        serving.server.wait_for_news();
        ["direct", "cached", "once"]
            .iter()
            .map(|way| serving.server.counter(&format!("read_{way}_bytes_total")))
            .sum::<u64>()
            + serving.server.counter("brought_bytes_total")
    };
    serving.watch(pass);
    serving.watch(pass);
    let kept = library.cached_bytes(pass.film).unwrap();
    assert!(kept >= FILM_BYTES - LEFT_BYTES_MAX, "{route:?}: only {kept} bytes are kept");
    let before = from_disk();
    serving.watch(pass);
    let read = from_disk() - before;
    assert!(read <= LEFT_BYTES_MAX, "{route:?}: the third viewer's come from the disk: {read}");
    serving.server.finish();
}

#[test]
fn what_a_second_viewer_requests_is_cached() {
    is_cached_when_it_is_requested_again(Route::Userspace, true);
    is_cached_when_it_is_requested_again(Route::Kernel, false);
    is_cached_when_it_is_requested_again(Route::Bypass, true);
}
