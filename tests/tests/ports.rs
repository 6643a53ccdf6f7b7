//! One address over several network ports, with the real program and its sandbox: a connection leaves by the port of the silo that serves it.
//!
//! A network namespace has the server's address on its loopback, and two ports. The kernel's own route leads out by the second one, so packets leave
//! by the first one only because of their mark. The routes are those of docs/ports.md.

use fullbore_tests::cpus::{self, cpu};
use fullbore_tests::namespace::Namespace;
use fullbore_tests::{Launch, Plain, Server, file, tool};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};

const FILM_BYTES: usize = 1_000_000;

/// Connections for each film, so that both silos accept some.
const CONNECTIONS: usize = 16;

/// The ports of both networks, which are numbered from 1. Each has that number as its mark.
const PORTS: [&str; 2] = ["north", "south"];

/// The server's address, over IPv4 and IPv6.
const SERVICE: [&str; 2] = ["10.77.9.1", "fd77:9::1"];

/// `CAP_NET_RAW` in a set of capabilities (linux/capability.h).
const NET_RAW: u64 = 1 << 13;

/// The server's network, and the viewers' with its router.
struct Networks {
    servers: Arc<Namespace>,
    viewers: Namespace,
}

impl Networks {
    /// None if there are too few CPUs, or if namespaces cannot be made.
    fn new() -> Option<Self> {
        if !cpus::are_two_here() {
            return None;
        }
        let (servers, viewers) = (Namespace::if_possible()?, Namespace::new());
        for (namespace, host) in [(&servers, 9), (&viewers, 8)] {
            namespace.address("lo", &format!("10.77.{host}.1/32"));
            namespace.address("lo", &format!("fd77:{host}::1/128"));
            namespace
                .inside(|| std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0").unwrap());
        }
        for (mark, port) in (1..).zip(PORTS) {
            servers.join(port, &viewers, port, 1500);
            for (namespace, host) in [(&servers, 1), (&viewers, 2)] {
                namespace.inside(|| {
                    std::fs::write(format!("/proc/sys/net/ipv4/conf/{port}/rp_filter"), "0")
                        .unwrap();
                });
                namespace.address(port, &format!("10.77.{mark}.{host}/24"));
                namespace.address(port, &format!("fd77:{mark}::{host}/64"));
            }
            for (family, router) in [(4, format!("10.77.{mark}.2")), (6, format!("fd77:{mark}::2"))]
            {
                let table = 100 + mark;
                servers.ip(&format!("-{family} rule add fwmark {mark} lookup {table}"));
                servers.ip(&format!(
                    "-{family} route add default via {router} dev {port} table {table}"
                ));
                servers.ip(&format!("-{family} route replace default via {router} dev {port}"));
            }
        }
        Some(Self { servers: Arc::new(servers), viewers })
    }

    /// From now on the viewers' packets arrive by the port of this number.
    fn arrive_by(&self, number: usize) {
        let port = PORTS[number - 1];
        self.viewers
            .ip(&format!("route replace 10.77.9.1 via 10.77.{number}.1 dev {port} src 10.77.8.1"));
        self.viewers.ip(&format!(
            "-6 route replace fd77:9::1 via fd77:{number}::1 dev {port} src fd77:8::1"
        ));
    }

    /// Starts a server of `library`; `more` is added to each silo's part of the map, after its port.
    fn serve(
        &self,
        library: &Path,
        more: [String; 2],
        adjust: impl FnOnce(Launch) -> Launch,
    ) -> Server {
        let silo = |(at, more): (usize, String)| {
            format!("[[silos]]\ncpus = \"{}\"\ncards = [\"{}\"]\n{more}\n", cpu(at), PORTS[at])
        };
        let map: String = more.into_iter().enumerate().map(silo).collect();
        let launch = Launch::of(library).namespace(&self.servers).listen("[::]:0").config(&map);
        adjust(launch.arguments("--tls off --workers 2")).start()
    }

    /// Fetches a film by [`CONNECTIONS`] connections, and returns the port by which nearly all its bytes left.
    fn port_of(&self, server: &Server, host: &str, path: &str, film: &[u8]) -> &'static str {
        let host: IpAddr = host.parse().unwrap();
        let before = self.bytes_sent();
        self.viewers.inside(|| {
            for _ in 0..CONNECTIONS {
                let address = SocketAddr::new(host, server.address.port());
                let response = Plain::connect(address).fetch(path);
                assert!(response.status == 200 && response.body == film);
            }
        });
        let sent = self.bytes_sent();
        let sent = [0, 1].map(|port| sent[port] - before[port]);
        assert!(sent.iter().sum::<u64>() > (CONNECTIONS * FILM_BYTES) as u64, "{sent:?}");
        let port = usize::from(sent[1] > sent[0]);
        assert!(sent[port] * 100 >= sent.iter().sum::<u64>() * 99, "{host}{path}: {sent:?}");
        PORTS[port]
    }

    /// Bytes that the server's ports have sent, by their packet counters.
    fn bytes_sent(&self) -> [u64; 2] {
        let text = self.servers.inside(|| {
            std::fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel tells")
        });
        let sent = |port: &str| {
            let mut lines = text.lines().map(str::trim_start);
            let numbers = lines.find_map(|line| line.strip_prefix(port)?.strip_prefix(':'));
            // Eight numbers about received packets come first.
            numbers?.split_whitespace().nth(8)?.parse().ok()
        };
        PORTS.map(|port| sent(port).expect("a line for each port"))
    }
}

fn marks() -> [String; 2] {
    [1, 2].map(|mark| format!("mark = {mark}"))
}

/// Whether any thread may set marks.
fn may_mark(server: &Server) -> bool {
    let sets = server.of_every_thread("CapEff");
    sets.iter().any(|set| u64::from_str_radix(set, 16).unwrap() & NET_RAW != 0)
}

fn crossings_per_byte(server: &Server) -> f64 {
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["paths"]["crossings_per_byte"].as_f64().unwrap()
}

#[test]
fn by_network_a_connection_leaves_by_the_port_on_which_it_came() {
    let Some(networks) = Networks::new() else { return };
    let library = tempdir().unwrap();
    let film = file(library.path(), "film.mp4", FILM_BYTES);
    let server =
        networks.serve(library.path(), marks(), |launch| launch.arguments("--silo network"));
    for host in SERVICE {
        for (number, port) in (1..).zip(PORTS) {
            networks.arrive_by(number);
            assert_eq!(networks.port_of(&server, host, "/film.mp4", &film), port, "{host}");
        }
    }
    assert!(!may_mark(&server), "it marked its listeners and needs the privilege no more");
    server.finish();
}

/// A library with a film on each of two disks, the second of which is in memory.
struct Disks {
    folder: TempDir,
    film: Vec<u8>,
}

impl Disks {
    fn new() -> Option<Self> {
        let folder = tempdir().unwrap();
        let [one, other] = Self::paths(folder.path());
        [&one, &other].into_iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&other).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            tool::skip("a second disk takes root, and a mount program");
            return None;
        }
        let film = file(&one, "film.mp4", FILM_BYTES);
        file(&other, "film.mp4", FILM_BYTES);
        Some(Self { folder, film })
    }

    fn paths(folder: &Path) -> [PathBuf; 2] {
        ["d0", "d1"].map(|name| folder.join(name))
    }

    fn marks(&self) -> [String; 2] {
        let [one, other] = Self::paths(self.folder.path());
        let [mark, other_mark] = marks();
        [format!("folders = [{one:?}]\n{mark}"), format!("folders = [{other:?}]\n{other_mark}")]
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&Self::paths(self.folder.path())[1]).output();
    }
}

#[test]
fn by_disk_a_connection_leaves_by_the_port_of_the_disk() {
    let Some(networks) = Networks::new() else { return };
    let Some(disks) = Disks::new() else { return };
    let by_disk = |launch: Launch| launch.arguments("--silo disk");
    let server = networks.serve(disks.folder.path(), disks.marks(), by_disk);
    for (number, host) in [(1, SERVICE[0]), (2, SERVICE[1])] {
        networks.arrive_by(number);
        for (disk, port) in PORTS.iter().enumerate() {
            let path = format!("/d{disk}/film.mp4");
            assert_eq!(networks.port_of(&server, host, &path, &disks.film), *port, "{host}{path}");
        }
    }
    server.wait_for_news();
    assert!(server.sum("connections_moved_total") > 0);
    assert_eq!(crossings_per_byte(&server), 0.0, "disk, worker and port are those of one silo");
    assert!(may_mark(&server));
    let said = server.said();
    assert!(said.contains("net_raw") && said.contains("; mark 2"), "{said}");
    server.finish();
}

#[test]
fn without_the_privilege_for_marks_it_says_so_and_serves() {
    let Some(networks) = Networks::new() else { return };
    let Some(disks) = Disks::new() else { return };
    if !tool::are_here(&[("setpriv", "util-linux")]) {
        return;
    }
    // For the kernel, CAP_NET_ADMIN would be enough, too.
    let under = "setpriv --inh-caps=-net_raw,-net_admin --bounding-set=-net_raw,-net_admin";
    let weak = |launch: Launch| launch.under(under).arguments("--silo disk");
    let server = networks.serve(disks.folder.path(), disks.marks(), weak);
    networks.arrive_by(1);
    for disk in 0..PORTS.len() {
        let path = format!("/d{disk}/film.mp4");
        let port = networks.port_of(&server, SERVICE[0], &path, &disks.film);
        assert_eq!(port, "south", "as the route without a mark says");
    }
    let said = server.said();
    assert!(said.contains("connections have no marks (Operation not permitted"), "{said}");
    assert!(said.contains("give the server CAP_NET_RAW"), "{said}");
    server.finish();
}
