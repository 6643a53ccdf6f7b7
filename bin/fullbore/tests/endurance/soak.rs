//! Minutes of everything at once, by every route and disk policy in turn. `./run soak` runs it against a server that was built
//! with AddressSanitizer, which ends with a report and a failure at the first bad access, and at its end if memory leaked.
//!
//! In each turn there are viewers of all kinds: good, hostile and slow ones. The certificate is replaced on disk and reloaded, and titles are
//! published, replaced and removed. Half-way the server is asked to stop while viewers are in the middle of a film; they get the rest of it,
//! and another server takes over. At the end descriptors, buffers, open files and leases are exactly back to their start. The bypass route
//! has a soak of its own, in `tests/bypass`.

use crate::films;
use crate::nothing_leaks::{FEW_BUFFERS, settled};
use crate::viewer::{Kind, Viewers};
use fullbore_tests::{Launch, Server, Signal, certificate, until};
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The settings to try, in turn.
#[derive(Clone, Copy)]
struct Turn {
    name: &'static str,
    flags: &'static str,
    has_tls: bool,
    /// It needs a kernel with TLS in it.
    in_kernel_tls: bool,
}

impl Turn {
    fn viewers(&self, server: SocketAddr) -> Viewers {
        if self.has_tls { Viewers::new(server) } else { Viewers::without_tls(server) }
    }
}

const fn turn(name: &'static str, flags: &'static str) -> Turn {
    Turn { name, flags, has_tls: true, in_kernel_tls: false }
}

const TURNS: [Turn; 7] = [
    turn("userspace, auto", "--route userspace --disk auto"),
    turn("userspace, cached", "--route userspace --disk cached"),
    turn("userspace, once", "--route userspace --disk once"),
    turn("userspace, direct", "--route userspace --disk direct"),
    Turn { has_tls: false, ..turn("kernel without TLS", "--route kernel --tls off") },
    Turn { in_kernel_tls: true, ..turn("kernel TLS", "--route kernel") },
    Turn { has_tls: false, ..turn("plain", "--route userspace --tls off") },
];

/// A turn lasts no longer than this before the next one comes.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Viewers at once of the mix, and of the slow kind: together they need more buffers than exist.
const AT_ONCE: u64 = 8;
const SLOW: usize = 12;

/// Viewers in the middle of a film when the server is asked to stop.
const AT_THE_END: usize = 6;

#[test]
#[ignore = "takes minutes, and is worth most with a server built for it: ./run soak [MINUTES]"]
fn mixed_load_finds_nothing_to_complain_of() {
    machine::raise_nofile().expect("the limit on files can be raised to the hard one");
    let minutes: f64 = env::var("FULLBORE_SOAK_MINUTES")
        .map_or(1.0, |minutes| minutes.parse().expect("FULLBORE_SOAK_MINUTES is a number"));
    let duration = Duration::from_secs_f64(minutes * 60.0);
    let length = TURN_MAX.min(duration / TURNS.len() as u32);
    let library = films::make().expect("the library is written");
    let began = Instant::now();
    for (count, turn) in (1..).zip(TURNS.iter().cycle()) {
        let told = take_turn(turn, library.path(), length);
        let seconds = began.elapsed().as_secs();
        eprintln!("soak: {seconds} s of {}: {}: {told}", duration.as_secs(), turn.name);
        if count >= TURNS.len() && began.elapsed() >= duration {
            return;
        }
    }
}

/// Two servers' lives, one after the other. Returns a summary of them for people.
fn take_turn(turn: &Turn, library: &Path, length: Duration) -> String {
    if turn.in_kernel_tls && !Path::new("/proc/net/tls_stat").exists() {
        return "SKIPPED: this kernel has no TLS (modprobe tls)".into();
    }
    let certificates = Certificates::make();
    let mut launch = Launch::of(library).arguments(turn.flags).config(FEW_BUFFERS);
    if turn.has_tls {
        launch = certificates.flags().iter().fold(launch, Launch::argument);
    }
    if let Some(program) = env::var_os("FULLBORE_SOAK_PROGRAM") {
        // The leak checker inspects the process from outside, which the sandbox prevents.
        launch = launch.program(Path::new(&program)).argument("--no-sandbox");
    }
    let one_life = || live(launch.clone(), library, turn, &certificates, length / 2);
    format!("{}; then {}", one_life(), one_life())
}

/// One server's life, to its end with viewers in the middle of a film.
fn live(
    launch: Launch,
    library: &Path,
    turn: &Turn,
    certificates: &Certificates,
    length: Duration,
) -> String {
    let server = launch.start();
    // The first round opens what stays open.
    load(&server, turn, library, certificates, Duration::ZERO);
    let before = settled(&server);
    let memory_before = server.own_memory_bytes();
    load(&server, turn, library, certificates, length);
    let mut after = settled(&server);
    until(&format!("no more is held than {before:?}"), || {
        after = settled(&server);
        after.is_back_at(&before, 2)
    });
    assert_eq!(server.sum("tasks_panicked_total"), 0, "{}", server.said());
    if turn.has_tls && !turn.in_kernel_tls {
        assert!(server.sum("records_made_again_total") > 0, "no buffer was taken back");
    }
    let told = format!(
        "{} connections, {} MiB; {before:?} and {after:?}; memory {} and {} KiB",
        server.sum("connections_accepted_total"),
        server.sum("response_sent_bytes_total") >> 20,
        memory_before >> 10,
        server.own_memory_bytes() >> 10
    );
    let said = stop_amid_films(server, turn);
    assert!(!said.contains("Sanitizer") && !said.contains("panicked"), "{said}");
    told
}

/// Asks a server to stop while viewers are in the middle of a film: they get the rest of it.
fn stop_amid_films(server: Server, turn: &Turn) -> String {
    let requests_before = server.sum("requests_total");
    let address = server.address;
    let viewers: Vec<_> = (0..AT_THE_END)
        .map(|_| {
            let mut viewers = turn.viewers(address);
            thread::spawn(move || viewers.slow())
        })
        .collect();
    until("all have asked for the film", || {
        server.sum("requests_total") >= requests_before + AT_THE_END as u64
    });
    let said = server.finish();
    for viewer in viewers {
        viewer.join().expect("it does not panic").expect("the rest of the film");
    }
    said
}

/// Viewers of every kind until `length` is over, each kind at least once; meanwhile the page cache is dropped, and certificates and titles
/// change.
fn load(
    server: &Server,
    turn: &Turn,
    library: &Path,
    certificates: &Certificates,
    length: Duration,
) {
    let deadline = Instant::now() + length;
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut viewers = turn.viewers(server.address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let kind =
                        if turn.has_tls { Kind::of(number) } else { Kind::without_tls(number) };
                    let visit = viewers.visit(kind);
                    assert!(
                        visit.is_ok(),
                        "{kind:?}, {number}: {visit:?}; the server: {}",
                        server.said()
                    );
                    if number >= 100 && Instant::now() >= deadline {
                        return;
                    }
                }
            });
        }
        for _ in 0..SLOW {
            scope.spawn(|| {
                loop {
                    let visit = turn.viewers(server.address).slow();
                    assert!(visit.is_ok(), "slow: {visit:?}; the server: {}", server.said());
                    if Instant::now() >= deadline {
                        return;
                    }
                }
            });
        }
        scope.spawn(|| {
            for number in 0.. {
                films::chill(library).expect("the kernel takes advice");
                if turn.has_tls {
                    certificates.replace(number);
                    server.signal(Signal::HUP);
                }
                films::publish(library, number).expect("the library can be changed");
                if Instant::now() >= deadline {
                    return;
                }
                thread::sleep(Duration::from_millis(500));
            }
        });
    });
}

/// Two certificates, and the place where the server looks for one.
struct Certificates(TempDir);

impl Certificates {
    fn make() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        for name in ["a", "b"] {
            let place = folder.path().join(name);
            fs::create_dir(&place).expect("it is ours");
            certificate(&place, "localhost", "ec");
        }
        let certificates = Self(folder);
        certificates.replace(0);
        certificates
    }

    fn flags(&self) -> [String; 4] {
        let path = |name| self.0.path().join(name).display().to_string();
        ["--cert".into(), path("cert"), "--key".into(), path("key")]
    }

    /// Puts one or the other in place. Key and certificate are replaced one after the other, as people do: in between they do not match, and
    /// the server keeps using what it has loaded.
    fn replace(&self, number: u64) {
        let name = if number % 2 == 0 { "a" } else { "b" };
        for part in ["key", "cert"] {
            let beside = self.0.path().join(format!("{part}.new"));
            fs::copy(self.0.path().join(format!("{name}/localhost.{part}.pem")), &beside)
                .expect("it is ours");
            fs::rename(&beside, self.0.path().join(part)).expect("it is ours");
        }
    }
}
