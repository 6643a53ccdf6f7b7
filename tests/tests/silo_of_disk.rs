//! Silos and disks, with the real program and its sandbox: a connection moves to the silo of the disk that has its film (`--silo disk`), or
//! is served from memory there (`--silo memory-at-disk`).
//!
//! The operator's map divides a machine with one NUMA node in two silos. The disks are the library's own filesystem and
//! one in memory, mounted in it.

use fullbore_tests::cpus::{self, cpu};
use fullbore_tests::tls::{self, Offer};
use fullbore_tests::{Launch, Plain, Server, eventually, file, settle, tool};
use rustix::process::{Pid, Signal, kill_process};
use rustls::StreamOwned;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

const FILM_BYTES: usize = 2_000_000;

/// Connections to each server: few enough for a second, and enough that each silo has to send some to the other.
const CONNECTIONS: usize = 40;

/// A library with a film on each of two disks.
struct Library {
    folder: TempDir,
    films: [Vec<u8>; 2],
}

impl Library {
    /// None if there are too few CPUs, or if nothing can be mounted.
    fn new() -> Option<Self> {
        if !cpus::are_two_here() {
            return None;
        }
        let folder = tempdir().unwrap();
        let disks = disks(folder.path());
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&disks[1]).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            tool::skip("a second disk takes root, and a mount program");
            return None;
        }
        let films = disks.map(|disk| file(&disk, "film.mp4", FILM_BYTES));
        Some(Self { folder, films })
    }

    fn serve(&self, words: &str) -> Server {
        self.serve_by("disk", words)
    }

    fn serve_by(&self, silo: &str, words: &str) -> Server {
        let plan = |(nth, folder): (usize, PathBuf)| {
            format!("[[silos]]\ncpus = \"{}\"\nfolders = [{folder:?}]\n", cpu(nth))
        };
        let map: String = disks(self.folder.path()).into_iter().enumerate().map(plan).collect();
        let words = format!("--silo {silo} --workers 2 {words}");
        Launch::of(self.folder.path()).config(&map).arguments(&words).start()
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&disks(self.folder.path())[1]).output();
    }
}

fn disks(library: &Path) -> [PathBuf; 2] {
    ["d0", "d1"].map(|name| library.join(name))
}

/// A number of each worker.
fn of_workers(server: &Server, name: &str) -> Vec<u64> {
    server.wait_for_news();
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let workers = status["workers"].as_array().unwrap().iter();
    workers.map(|worker| worker[name].as_u64().unwrap()).collect()
}

/// A worker that strace delays at each of its waits, until dropped.
struct HeldUp {
    strace: Child,
    /// The file in which the kernel shows the worker's state.
    status: PathBuf,
}

impl HeldUp {
    /// `how` is strace's: `delay_enter` or `delay_exit`, in microseconds.
    fn new(server: &Server, worker: usize, how: &str) -> Self {
        let tasks = PathBuf::from(format!("/proc/{}/task", server.process_id()));
        let mut threads = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path());
        let name = format!("worker-{worker}\n");
        let has_name = |task: &PathBuf| std::fs::read_to_string(task.join("comm")).unwrap() == name;
        let thread = threads.find(has_name).expect("a thread of this name");
        let inject = format!("inject=io_uring_enter:{how}");
        let words = ["-qq", "-o", "/dev/null", "-e", "trace=io_uring_enter", "-e", &inject, "-p"];
        let id = thread.file_name().unwrap();
        let strace = Command::new("strace").args(words).arg(id).spawn().unwrap();
        let held = Self { strace, status: thread.join("status") };
        eventually("strace to hold the worker up", || {
            (!held.status().contains("TracerPid:\t0\n")).then_some(())
        });
        held
    }

    fn status(&self) -> String {
        std::fs::read_to_string(&self.status).unwrap()
    }

    /// Waits until strace holds the worker before a wait for long. When strace has just attached, the worker may have work to do first.
    fn stand(&self) {
        let stands = || {
            // sleeps: between two of the five checks that all have to find it held
            std::thread::sleep(Duration::from_millis(50));
            self.status().contains("State:\tt")
        };
        eventually("the worker to stand still", || (0..5).all(|_| stands()).then_some(()));
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        // Strace detaches from the worker, unless it has already ended.
        let _ = kill_process(Pid::from_child(&self.strace), Signal::TERM);
        let _ = self.strace.wait();
    }
}

/// A connection at the first silo's worker that may move.
fn at_first_silo(server: &Server) -> Plain {
    let mut viewer = Plain::connect(server.address);
    // After more than 4 MiB it may move, even if it has moved to get here.
    (0..3).for_each(|_| assert_eq!(viewer.fetch("/d0/film.mp4").status, 200));
    viewer
}

/// How long the responses to requests for `target` took, by the access log.
fn logged_seconds(log: &Path, target: &str, count: usize) -> Vec<f64> {
    eventually("the access log to have the responses", || {
        let text = std::fs::read_to_string(log).ok()?;
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<_> = lines.flatten().filter(|line| line["target"] == target).collect();
        (lines.len() == count)
            .then(|| lines.iter().map(|line| line["seconds"].as_f64().unwrap()).collect())
    })
}

/// Every film was sent by the worker of its disk, some of them after a move, and the server counts that.
fn assert_by_disk(server: Server) {
    let sent = of_workers(&server, "response_sent_bytes_total");
    let film_bytes = (CONNECTIONS * FILM_BYTES) as u64;
    // And a head for each film.
    let is_whole = |sent: &u64| (film_bytes..film_bytes + 1000 * CONNECTIONS as u64).contains(sent);
    assert!(sent.iter().all(is_whole), "{sent:?}");
    let moved = of_workers(&server, "connections_moved_total");
    assert!(moved.iter().all(|moved| *moved > 0), "{moved:?}");
    let said = server.said();
    assert!(said.contains("silos     disk"), "{said}");
    server.finish();
}

#[test]
fn films_come_from_the_silo_of_their_disk_without_tls() {
    let Some(library) = Library::new() else { return };
    let server = library.serve("--tls off --route userspace");
    for at in 0..2 * CONNECTIONS {
        let response = Plain::connect(server.address).fetch(&format!("/d{}/film.mp4", at % 2));
        assert!(response.status == 200 && response.body == library.films[at % 2]);
    }
    assert_by_disk(server);
}

#[test]
fn films_come_from_the_silo_of_their_disk_over_tls() {
    let Some(library) = Library::new() else { return };
    for offer in [Offer::tls12(), Offer::tls13()] {
        let (server, config) = (library.serve(""), offer.config());
        for at in 0..2 * CONNECTIONS {
            let stream = TcpStream::connect(server.address).unwrap();
            let mut stream = StreamOwned::new(tls::client(&config, "localhost"), stream);
            let ask = format!(
                "GET /d{}/film.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                at % 2
            );
            stream.write_all(ask.as_bytes()).unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).unwrap();
            assert!(response.starts_with(b"HTTP/1.1 200"));
            assert!(response.ends_with(&library.films[at % 2]));
        }
        assert_by_disk(server);
    }
}

#[test]
fn a_worker_that_hangs_keeps_no_connection_of_another_waiting() {
    let Some(library) = Library::new() else { return };
    if !tool::are_here(&[("strace", "strace")]) {
        return;
    }
    let beside = tempdir().unwrap();
    let log = beside.path().join("access.log");
    let words = format!("--tls off --route userspace --access-log {}", log.display());
    let server = library.serve(&words);
    let mut viewer = at_first_silo(&server);
    let hanging = HeldUp::new(&server, 1, "delay_enter=30000000");
    hanging.stand();
    let asked_at = Instant::now();
    let response = viewer.fetch("/d1/film.mp4");
    let waited = asked_at.elapsed();
    assert!(response.status == 200 && response.body == library.films[1]);
    assert!(waited < Duration::from_secs(25), "the viewer waited for {waited:?}");
    assert_eq!(server.counter("connections_move_refused_total{reason=\"unanswered\"}"), 1);
    // The viewer's wait includes the wait for the other worker.
    assert!(logged_seconds(&log, "/d1/film.mp4", 1)[0] >= 0.5);
    drop(hanging);
    assert!(viewer.fetch("/d1/film.mp4").body == library.films[1]);
    server.finish();
}

#[test]
fn a_response_takes_from_the_end_of_its_request_also_if_the_connection_moved_in_between() {
    const VIEWERS: usize = 5;
    let Some(library) = Library::new() else { return };
    if !tool::are_here(&[("strace", "strace")]) {
        return;
    }
    let beside = tempdir().unwrap();
    let log = beside.path().join("access.log");
    let words = format!("--tls off --route userspace --access-log {}", log.display());
    let server = library.serve(&words);
    let mut viewers: Vec<_> = (0..VIEWERS).map(|_| at_first_silo(&server)).collect();
    let before = of_workers(&server, "connections_moved_total")[1];
    // New connections have to wait for this long, which the log once left out.
    let slow = HeldUp::new(&server, 1, "delay_exit=300000");
    let waited: f64 = viewers
        .iter_mut()
        .map(|viewer| {
            let asked_at = Instant::now();
            assert!(viewer.fetch("/d1/film.mp4").body == library.films[1]);
            asked_at.elapsed().as_secs_f64()
        })
        .sum();
    drop(slow);
    let logged: f64 = logged_seconds(&log, "/d1/film.mp4", VIEWERS).iter().sum();
    let left_out = (waited - logged) / VIEWERS as f64;
    assert!(left_out < 0.15, "{left_out} s of a response are missing");
    assert!(of_workers(&server, "connections_moved_total")[1] > before, "none moved");
    server.finish();
}

/// Makes this thread's connections arrive in the silo of `cpu`: loopback connections belong to the silo of the CPU that opens them.
fn go_to(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
}

/// Bytes from a disk's silo that a worker sent. Each silo has one worker, and the loopback is no card.
fn from_disk(server: &Server, disk: usize, worker: usize) -> u64 {
    let labels = format!("{{disk=\"{disk}\",worker=\"{worker}\",card=\"unknown\"}}");
    server.counter(&format!("path_bytes_total{labels}"))
}

/// Fetches both films from both silos, each this many times, by `fetch`.
fn visit(library: &Library, server: &Server, mut fetch: impl FnMut(&str) -> Vec<u8>) {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    for cpu in [cpu(0), cpu(1)] {
        go_to(cpu);
        for at in 0..CONNECTIONS {
            let body = fetch(&format!("/d{}/film.mp4", at % 2));
            assert!(body == library.films[at % 2], "film {}", at % 2);
        }
    }
    rustix::thread::sched_setaffinity(None, &before).unwrap();
    let served = [CONNECTIONS as u64; 2];
    assert_eq!(of_workers(server, "connections_accepted_total"), served, "as with network");
    assert_eq!(of_workers(server, "connections_moved_total"), [0, 0]);
    assert!(server.said().contains("silos     memory-at-disk"), "{}", server.said());
}

/// Serves both films to both silos with memory at the disk.
fn with_memory_at_disk(words: &'static str, check: fn(&Server)) {
    let Some(library) = Library::new() else { return };
    // The hot set doesn't admit a film that has just changed.
    settle(library.folder.path());
    let server = library.serve_by("memory-at-disk", words);
    let plain = |path: &str| Plain::connect(server.address).fetch(path).body;
    let config = Offer::tls13().config();
    let over_tls = |path: &str| {
        let stream = TcpStream::connect(server.address).unwrap();
        let mut stream = StreamOwned::new(tls::client(&config, "localhost"), stream);
        let ask = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        response.split_off(response.len().saturating_sub(FILM_BYTES))
    };
    match words.contains("--tls off") {
        true => visit(&library, &server, plain),
        false => visit(&library, &server, over_tls),
    }
    check(&server);
    server.finish();
}

/// Each silo's hot set has the film of its disk, and the other silo's worker sends from there.
fn assert_shared_hot_sets(server: &Server) {
    let hot = of_workers(server, "hot_bytes");
    assert_eq!(hot, [2 << 20, 2 << 20], "each film is in the set at its disk and in no other");
    for (disk, worker) in [(0, 1), (1, 0)] {
        let sent = from_disk(server, disk, worker);
        // Half of the worker's connections, except for a few before the film was there.
        assert!(sent >= (CONNECTIONS / 2 - 4) as u64 * FILM_BYTES as u64, "{sent}");
    }
}

#[test]
fn with_memory_at_the_disk_hot_films_come_from_its_silo_without_tls() {
    with_memory_at_disk("--tls off --route userspace", assert_shared_hot_sets);
}

#[test]
fn with_memory_at_the_disk_hot_films_come_from_its_silo_over_tls() {
    with_memory_at_disk("--route userspace", assert_shared_hot_sets);
}

#[test]
fn with_memory_at_the_disk_cold_films_cross_once() {
    with_memory_at_disk("--route userspace --disk direct", |server| {
        let films = (CONNECTIONS / 2 * FILM_BYTES) as u64;
        for (disk, worker) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let sent = from_disk(server, disk, worker);
            assert!(sent >= films, "{sent} from {disk} by {worker}");
        }
        let (_, status) = server.admin_page("/status.json");
        let status: Value = serde_json::from_str(&status).unwrap();
        let crossings = status["paths"]["crossings_per_byte"].as_f64().unwrap();
        assert!((crossings - 0.5).abs() < 0.01, "{crossings}");
    });
}

#[test]
fn with_memory_at_the_disk_the_kernel_sends_films_too() {
    with_memory_at_disk("--tls off --route kernel", |_| {});
}
