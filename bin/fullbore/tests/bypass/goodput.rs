//! Goodput compared with Linux's own CUBIC and BBR, through the same bad network: a table for people; by default nothing is asserted.
//!
//! `cargo test --release -p fullbore --test bypass goodput -- --ignored --nocapture`. Both servers are in
//! one namespace, ours behind its TAP; the client is the kernel's TCP in another one; between them is the middlebox.

use crate::support::far::Far;
use crate::support::served::{PORT, Room, Server, V4};
use fullbore_tests::{Namespace, tool};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Linux's server, in the same namespace as ours.
const LINUX: ([u8; 4], u16) = ([198, 51, 100, 1], 9000);

/// Measuring begins this long after all flows have begun, and lasts this long.
const SETTLING: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(25);

/// How often the two take turns when each runs alone.
const TURNS: usize = 3;

/// More than any flow can send in its time: BBR without a bottleneck has passed 1.2 Gb/s. All of it is a hole.
const FILM_BYTES: u64 = 256 << 30;

/// Names switches to turn off in our server, as for `serve --off`: `pacing`.
const OFF: &str = "FULLBORE_GOODPUT_OFF";

/// Where flows come from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Ours,
    Linux,
}

impl From {
    fn address(self) -> SocketAddr {
        match self {
            Self::Ours => format!("{V4}:{PORT}").parse().unwrap(),
            Self::Linux => LINUX.into(),
        }
    }
}

/// A path, and both servers at its end.
struct Field {
    far: Far,
    server: Option<Server>,
    /// Its library.
    _room: Room,
    is_over: Arc<AtomicBool>,
}

impl Field {
    /// Ours uses the first congestion control, Linux's the second one.
    fn new(settings: &str, [ours, control]: [&str; 2]) -> Option<Self> {
        if !is_available(control) {
            tool::skip(&format!("this kernel has no {control}: modprobe tcp_{control}"));
            return None;
        }
        let far = Far::new(1500, settings)?;
        let room = Room::new(1);
        File::create(room.path("library/film.mp4")).unwrap().set_len(FILM_BYTES).unwrap();
        let off = std::env::var(OFF).unwrap_or_default();
        let off = if off.is_empty() { vec![] } else { vec!["--off", &off] };
        let config = format!("[net]\ncongestion_control = \"{ours}\"\n");
        let arguments = [&["--tls", "off"], &off[..]].concat();
        let server = Server::start(&far.server, &room, &arguments, &config);
        let is_over = Arc::new(AtomicBool::new(false));
        serve_by_kernel(&far.server, control, &is_over);
        Some(Self { far, server: Some(server), _room: room, is_over })
    }

    /// Megabits per second of each of these flows, all at once.
    fn run(&self, flows: &[From]) -> Vec<f64> {
        let flows = flows.to_vec();
        self.far.client.inside(move || {
            let flows: Vec<_> = flows
                .into_iter()
                .map(|from| std::thread::spawn(move || goodput(from.address())))
                .collect();
            flows.into_iter().map(|flow| flow.join().unwrap()).collect()
        })
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.far.client.inside(|| TcpStream::connect(SocketAddr::from(LINUX)));
        self.server.take().unwrap().end();
    }
}

/// Whether Linux's TCP has this congestion control.
fn is_available(control: &str) -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    known.unwrap_or_default().split_ascii_whitespace().any(|known| known == control)
}

/// Linux's TCP with this congestion control, and no other influence: zeros as fast as the socket accepts them.
fn serve_by_kernel(space: &Namespace, control: &str, is_over: &Arc<AtomicBool>) {
    let is_over = Arc::clone(is_over);
    let network = "198.51.100.0/24 dev eth proto kernel scope link src 198.51.100.1";
    space.ip(&format!("route replace {network} congctl {control}"));
    space.inside(move || {
        let listener = TcpListener::bind(SocketAddr::from(LINUX)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || send_zeros(stream));
            }
        });
    });
}

fn send_zeros(mut stream: TcpStream) {
    let zeros = [0; 64 << 10];
    while stream.write_all(&zeros).is_ok() {}
}

/// One flow, at its client: the bytes that arrived in the measured time.
fn goodput(address: SocketAddr) -> f64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /film.mp4 HTTP/1.1\r\nHost: field\r\n\r\n").unwrap();
    let began = Instant::now();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    while began.elapsed() < SETTLING + MEASURED {
        let got = stream.read(&mut buffer).unwrap();
        assert!(got > 0, "{address} ended the flow");
        if began.elapsed() >= SETTLING {
            bytes += got;
        }
    }
    bytes as f64 * 8e-6 / MEASURED.as_secs_f64()
}

/// Jain's index of fairness (RFC 5166 section 2.3): 1 if all get the same, 1/n if one gets everything.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

fn shown(rates: &[f64]) -> String {
    let rates: Vec<_> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
    rates.join(" ")
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Each server's flow by itself, in turn.
fn alone(controls: [&str; 2], paths: &[&str]) {
    let [ours, linux] = controls;
    eprintln!("Mb/s | our {ours} | Linux's {linux} | ours / Linux");
    for settings in paths {
        let Some(field) = Field::new(settings, controls) else { return };
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            rates[0].extend(field.run(&[From::Ours]));
            rates[1].extend(field.run(&[From::Linux]));
        }
        let told = rates.each_ref().map(|rates| shown(rates));
        let [ours, linux] = rates.map(median);
        let [told_ours, told_linux] = told;
        eprintln!("{settings} | {told_ours} | {told_linux} | {:.2}", ours / linux);
    }
}

/// The same number of flows of each server, at once.
fn together(controls: [&str; 2], paths: &[&str]) {
    let [ours, linux] = controls;
    eprintln!("Mb/s | our {ours} | Linux's {linux} | Jain's index");
    share([From::Ours, From::Linux], controls, paths);
}

/// The same number of flows of each of these two, at once.
fn share(halves: [From; 2], controls: [&str; 2], paths: &[&str]) {
    for settings in paths {
        for each in [1, 4] {
            for _ in 0..TURNS {
                let Some(field) = Field::new(settings, controls) else { return };
                let flows = halves.map(|from| vec![from; each]).concat();
                let rates = field.run(&flows);
                let (ours, linux) = rates.split_at(each);
                let index = jain(&rates);
                eprintln!("{settings} | {} | {} | {index:.3}", shown(ours), shown(linux));
            }
        }
    }
}

#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_one_flow_alone() {
    alone(
        ["cubic"; 2],
        &[
            "--delay 10ms --loss 1% --seed 7",
            "--delay 10ms --loss 0.1% --rate 100Mbit --queue 250KiB --seed 7",
            "--delay 10ms --rate 100Mbit --queue 250KiB --seed 7",
        ],
    );
}

#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_flows_that_share() {
    together(
        ["cubic"; 2],
        &[
            "--delay 10ms --rate 50Mbit --queue 125KiB --seed 7",
            "--delay 10ms --rate 50Mbit --queue 125KiB --loss 0.1% --seed 7",
        ],
    );
}

/// A bottleneck, and the same with round trips of 20 to 160 ms, in both directions.
const BOTTLENECKS: [&str; 2] = [
    "--delay 10ms --rate 50Mbit --queue 125KiB --seed 7",
    "--flow-delay 10ms-80ms --rate 50Mbit --queue 125KiB --seed 7",
];

#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_bbr_beside_linuxs() {
    together(["bbr"; 2], &BOTTLENECKS);
}

#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_bbr_alone() {
    alone(["bbr"; 2], &["--delay 10ms --loss 1% --seed 7", BOTTLENECKS[0], BOTTLENECKS[1]]);
}

/// Version 1, which is Linux's.
#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_version_1_beside_linuxs() {
    together(["bbr1", "bbr"], &BOTTLENECKS);
}

/// How evenly Linux's flows share with each other: the yardstick for ours in their company.
#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_linuxs_bbr_beside_itself() {
    eprintln!("Mb/s | Linux's bbr | Linux's bbr | Jain's index");
    share([From::Linux; 2], ["bbr1", "bbr"], &BOTTLENECKS);
}

#[test]
#[ignore = "a measurement of several minutes, for a quiet machine"]
fn goodput_of_version_1_alone() {
    alone(["bbr1", "bbr"], &["--delay 10ms --loss 1% --seed 7", BOTTLENECKS[0], BOTTLENECKS[1]]);
}
