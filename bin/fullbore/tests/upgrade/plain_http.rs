//! Plain HTTP is redirected to HTTPS throughout an upgrade: by the server itself, and by its helper for certificates.

use crate::stage::{REPLACED_WITHIN, Stage};
use fullbore_tests::{Plain, Server, Signal, tool, until, within};
use rustix::process::{Pid, kill_process, test_kill_process};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

/// An address of this process, with a port that no connection gets.
fn address(port: u16) -> SocketAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 3, high, low], port))
}

/// The redirect's target for a viewer.
fn sent_to(plain: SocketAddr) -> String {
    let response = Plain::connect(plain).fetch("/film.mp4");
    assert_eq!(response.status, 308, "{}", response.head);
    let place = response.head.lines().find_map(|line| line.strip_prefix("Location: "));
    place.unwrap().to_owned()
}

/// The address, the path to request, and the expected status.
type Visit = (SocketAddr, &'static str, u16);

/// A client that makes one request after another, each on a new connection. A request that is lost waits until it times out, because no other
/// connection follows it.
struct Visitor<'a> {
    asked: Arc<AtomicU64>,
    thread: ScopedJoinHandle<'a, ()>,
}

impl<'a> Visitor<'a> {
    /// It asks until `stop`. `Plain` panics if it is refused, cut off or not answered.
    fn start<'b: 'a>(scope: &'a Scope<'a, 'b>, visit: Visit, stop: &'b AtomicBool) -> Self {
        let asked = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&asked);
        let (at, path, status) = visit;
        let thread = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let response = Plain::connect(at).fetch(path);
                assert_eq!(response.status, status, "{at}: {}", response.head);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { asked, thread }
    }

    /// Waits for more answers.
    fn goes_on(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        let is_on = || self.asked.load(Ordering::Relaxed) > before + 20;
        until("more answers", || self.thread.is_finished() || is_on());
        assert!(is_on(), "a visitor was refused, cut off or not answered");
    }
}

/// One upgrade after the other, each until the old server has ended, while visitors connect to all of these and `busy` threads use up the
/// processors.
fn are_answered_throughout(stage: &Stage, visits: &[Visit], upgrades: usize, busy: usize) {
    are_answered_by(stage.launch().start(), stage, visits, upgrades, busy);
}

/// As [`are_answered_throughout`], starting with this server.
fn are_answered_by(
    mut first: Server,
    stage: &Stage,
    visits: &[Visit],
    upgrades: usize,
    busy: usize,
) {
    let mut visits = visits.to_vec();
    // A plain request at the TLS port gets a hint, and the admin listener reports health.
    visits.extend([(first.address, "/film.mp4", 400), (first.admin, "/healthz", 200)]);
    for (at, ..) in &visits {
        until("a listener", || TcpStream::connect(at).is_ok());
    }
    let stop = AtomicBool::new(false);
    let last = thread::scope(|scope| {
        let _stops = StopsOnDrop(&stop);
        for _ in 0..busy {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let visitors = visits.iter().map(|visit| Visitor::start(scope, *visit, &stop));
        let visitors: Vec<_> = visitors.collect();
        let all_go_on = || visitors.iter().for_each(Visitor::goes_on);
        let mut old: Option<Pid> = None;
        for _ in 0..upgrades {
            all_go_on();
            let new = stage.upgrade("");
            all_go_on();
            match old {
                Some(old) => within(REPLACED_WITHIN, "the old one to end", || {
                    test_kill_process(old).is_err().then_some(())
                }),
                None => {
                    within(REPLACED_WITHIN, "the first one to end", || {
                        (!first.is_running()).then_some(())
                    });
                    assert_eq!(first.wait().code(), Some(0));
                }
            }
            all_go_on();
            old = Some(new);
        }
        old.unwrap()
    });
    kill_process(last, Signal::TERM).unwrap();
    for (at, ..) in &visits {
        until("no server to listen", || TcpStream::connect(at).is_err());
    }
}

/// Ends the threads of a scope also when the test fails.
struct StopsOnDrop<'a>(&'a AtomicBool);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread that strace delays each time that it enters its ring, until this is dropped or the thread has ended.
struct Delayed(Child);

impl Delayed {
    const EACH_TIME: &str = "inject=io_uring_enter:delay_enter=100000";

    /// The thread of this name.
    fn start(server: &Server, name: &str) -> Self {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
        let mut threads = tasks.map(|task| task.unwrap().path());
        // The kernel's own workers for a ring come and go, and one that is gone has no name.
        let named = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let thread = threads.find(named).expect("a thread of this name");
        let mut strace = Command::new("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", "trace=io_uring_enter", "-e"]);
        let strace = strace.args([Self::EACH_TIME, "-p"]).arg(thread.file_name().unwrap());
        let strace = strace.spawn().unwrap();
        let status = || fs::read_to_string(thread.join("status")).unwrap();
        until("strace to delay the thread", || !status().contains("TracerPid:\t0\n"));
        Self(strace)
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// A server that redirects viewers of plain HTTP from this address.
fn redirecting(plain: SocketAddr, words: &str) -> (Stage, [Visit; 1]) {
    let stage = Stage::new(words);
    stage.configure(&format!("[tls]\nredirect_listen = \"{plain}\""));
    (stage, [(plain, "/film.mp4", 308)])
}

#[test]
fn a_redirect_is_answered_throughout() {
    let (stage, visits) = redirecting(address(20_180), "");
    are_answered_throughout(&stage, &visits, 2, 0);
}

/// The certificate authority is unreachable, which affects the helper and no viewer.
#[test]
fn the_port_of_challenges_is_answered_throughout() {
    let plain = address(20_181);
    let stage = Stage::new("");
    stage.configure(&format!(
        "[tls.acme]\ndomains = [\"a.example.org\"]\ndirectory = \"http://127.0.0.1:1/dir\"\n\
         listen = \"{plain}\""
    ));
    are_answered_throughout(&stage, &[(plain, "/film.mp4", 404)], 1, 0);
}

/// The old server's threads are slow between deciding to stop accepting and cancelling their accepts. Connections that arrive meanwhile are theirs,
/// because the kernel has woken only them.
#[test]
fn nobody_is_left_silent_by_an_old_server_that_is_slow_to_leave() {
    if !tool::are_here(&[("strace", "strace")]) {
        return;
    }
    let (stage, visits) = redirecting(address(20_185), "--workers 1");
    let old = stage.launch().start();
    let _slow = ["admin", "worker-0"].map(|name| Delayed::start(&old, name));
    are_answered_by(old, &stage, &visits, 1, 0);
}

/// Each visitor is alone at its listener, so a connection for which the kernel wakes a server that is just leaving has no successor that could help.
#[test]
#[ignore = "a thousand upgrades on a busy machine take an hour or two: ./run nightly"]
fn nobody_is_left_silent_by_a_thousand_upgrades_on_a_busy_machine() {
    let count = std::env::var("FULLBORE_UPGRADES").map_or(1000, |count| count.parse().unwrap());
    let (stage, visits) = redirecting(address(20_182), "");
    are_answered_throughout(&stage, &visits, count, 4);
}

#[test]
fn a_redirect_begins_and_ends_with_an_upgrade() {
    let (first, second) = (address(20_183), address(20_184));
    let stage = Stage::new("");
    let redirect = |to: SocketAddr| stage.configure(&format!("[tls]\nredirect_listen = \"{to}\""));
    let old = stage.launch().start();
    assert!(TcpStream::connect(first).is_err());
    redirect(first);
    stage.upgrade("");
    let port = old.address.port();
    assert_eq!(sent_to(first), format!("https://localhost:{port}/film.mp4"));
    until("it to be counted", || old.counter("redirects_total{result=\"sent\"}") == 1);
    redirect(second);
    stage.upgrade("");
    assert_eq!(sent_to(second), format!("https://localhost:{port}/film.mp4"));
    until("no server at the former address", || TcpStream::connect(first).is_err());
}
