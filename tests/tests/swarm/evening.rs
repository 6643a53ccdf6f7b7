//! A bad evening over real sockets: three servers, each in a network of its own. One of them slows down for a while, another dies;
//! which and when is random, as in virtual time. Viewers with three pathways are compared with viewers with one.

use crate::program::swarm_while;
use fullbore_tests::film;
use fullbore_tests::namespace::{self, Namespace};
use fullbore_tests::{Launch, Ran, Server, nobody_stalled, tool};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swarm::virtual_time::{FaultKind, ServerFault};
use tempfile::tempdir;

const SERVERS: usize = 3;

/// The length, the number of viewers, and their buffers.
struct Evening {
    seed: u64,
    viewers: usize,
    duration: Duration,
    /// Time in which viewers arrive: before the first fault, because each requests its manifest from one server.
    over: Duration,
    buffer: Duration,
    /// The slow server's rate for each of its viewers.
    slow_kilobits: usize,
    networks: &'static str,
}

/// The viewers' network with a line to each server's.
struct Town {
    viewers: Arc<Namespace>,
    networks: Vec<Arc<Namespace>>,
    servers: Vec<Option<Server>>,
}

impl Town {
    fn new(folder: &Path) -> Self {
        let viewers = Arc::new(Namespace::new());
        let networks: Vec<_> = (0..SERVERS).map(|_| Arc::new(Namespace::new())).collect();
        let serve = |(number, network): (usize, &Arc<Namespace>)| {
            let line = format!("line{number}");
            viewers.join(&line, network, "line", 1500);
            viewers.address(&line, &format!("10.88.{number}.1/24"));
            network.address("line", &format!("{}/24", host(number)));
            let launch = Launch::of(folder).namespace(network);
            let listen = format!("{}:8080", host(number));
            Some(launch.listen(&listen).arguments("--workers 1 --tls off").start())
        };
        let servers = networks.iter().enumerate().map(serve).collect();
        Self { viewers, networks, servers }
    }

    /// Lets the evening's faults happen, each at its time.
    fn suffer(&mut self, evening: &Evening, began: Instant) {
        let mut faults = ServerFault::evening(evening.seed, SERVERS, evening.duration);
        faults.sort_by_key(|fault| fault.from);
        let mut restored = None;
        for fault in faults {
            let server = fault.server.expect("an evening's faults have a server");
            sleep_until(began + fault.from);
            match fault.kind {
                FaultKind::Slow(_) => {
                    self.slow_down(server, evening.slow_kilobits * evening.viewers / SERVERS);
                    restored = Some((server, fault.until));
                }
                _ => self.servers[server].take().expect("it runs").kill(),
            }
        }
        let (server, until) = restored.expect("one is slow");
        sleep_until(began + until);
        self.networks[server].succeed("tc", &["qdisc", "del", "dev", "line", "root"]);
    }

    fn slow_down(&self, server: usize, kilobits: usize) {
        let rate = format!("{kilobits}kbit");
        let how = ["qdisc", "replace", "dev", "line", "root", "tbf", "rate", &rate];
        let arguments = [&how[..], &["burst", "32k", "latency", "400ms"]].concat();
        self.networks[server].succeed("tc", &arguments);
    }
}

fn host(server: usize) -> String {
    format!("10.88.{server}.2")
}

fn sleep_until(at: Instant) {
    // sleeps: the evening's faults have their times
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// An evening whose viewers know one of the servers each, or with `has_three` all of them.
fn watch(folder: &Path, evening: &Evening, has_three: bool) -> Ran {
    let mut town = Town::new(folder);
    let urls: Vec<_> = (0..SERVERS)
        .map(|server| format!("http://{}:8080/film/master.m3u8", host(server)))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let others: String =
        (0..SERVERS).map(|server| format!(" --also-at {}:8080", host(server))).collect();
    let Evening { seed, viewers, networks, .. } = evening;
    let seconds = |time: Duration| time.as_secs();
    // The same title at three servers: as titles that are equally popular, each is where a third begins.
    let words = format!(
        "--seed {seed} --viewers {viewers} --duration {}s --over {}s --buffer {}s --networks {networks} --watch 1h --zipf 0 --allow-errors {}",
        seconds(evening.duration),
        seconds(evening.over),
        seconds(evening.buffer),
        if has_three { &others } else { "" }
    );
    let home = Arc::clone(&town.viewers);
    home.inside(|| swarm_while(&words, &urls, || town.suffer(evening, Instant::now())))
}

/// Both kinds of viewers on the same evening, at once: with three pathways, and with one.
fn compare(evening: &Evening) -> Option<(Ran, Ran)> {
    if !tool::are_here(&[("tc", "iproute2")]) || !namespace::can_be_made() {
        return None;
    }
    let folder = tempdir().unwrap();
    film::make(folder.path(), 1000);
    let (three, one) = std::thread::scope(|scope| {
        let one = scope.spawn(|| watch(folder.path(), evening, false));
        let three = watch(folder.path(), evening, true);
        (three, one.join().expect("it does not panic"))
    });
    println!("three pathways: {}\none pathway: {}", three.stdout, one.stdout);
    assert_eq!(three.number("sessions/started") as usize, evening.viewers, "{}", three.figures);
    assert!(three.number("probe_share") <= 0.01, "{}", three.figures);
    // At least those whose only server died stall.
    assert!(smooth(&one) <= 0.8, "{}", one.figures);
    Some((three, one))
}

/// The share of sessions without a stall.
fn smooth(ran: &Ran) -> f64 {
    ran.number("sessions/without_stall_share")
}

#[test]
fn with_three_pathways_nobody_stalls_on_an_evening_that_is_bad_with_one() {
    let evening = Evening {
        seed: 1,
        viewers: 24,
        duration: Duration::from_secs(36),
        over: Duration::from_secs(4),
        buffer: Duration::from_secs(10),
        slow_kilobits: 50,
        networks: "none",
    };
    let Some((three, one)) = compare(&evening) else { return };
    nobody_stalled(&three);
    assert!(one.number("stalls/count") > 0.0, "{}", one.figures);
}

#[test]
#[ignore = "takes ten minutes of an idle machine: ./run nightly"]
fn with_three_pathways_and_two_minutes_of_buffer_hardly_anybody_stalls() {
    let evening = Evening {
        seed: 1,
        viewers: 1000,
        duration: Duration::from_secs(600),
        over: Duration::from_secs(60),
        buffer: Duration::from_secs(120),
        slow_kilobits: 200,
        networks: "home=70,mobile=25,office=5",
    };
    let (three, _) = compare(&evening).expect("namespaces and tc");
    assert!(smooth(&three) >= 0.999, "{}", three.figures);
    assert!(three.number("probe_bytes") > 0.0, "{}", three.figures);
}
