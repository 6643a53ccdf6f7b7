//! Silos: connections are served by the silo of the network card on which they arrive.
//!
//! Silos follow the operator's map here, so a machine with one NUMA node and two CPUs can have two.

use fullbore_tests::cpus::{self, cpu};
use fullbore_tests::namespace::Namespace;
use fullbore_tests::{Launch, Plain, Server, file, tool};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tempfile::tempdir;

/// Connections to each address: few enough for a second, many enough that spreading them at random would hit every worker.
const CONNECTIONS: u64 = 40;

/// The server's network with two cards in its map and one outside, and the viewers' network.
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
        for (card, net) in [("north", 1), ("south", 2), ("stray", 3)] {
            servers.join(card, &viewers, card, 1500);
            for (namespace, host) in [(&servers, 1), (&viewers, 2)] {
                namespace.address(card, &format!("10.77.{net}.{host}/24"));
                namespace.address(card, &format!("fd77:{net}::{host}/64"));
            }
        }
        Some(Self { servers: Arc::new(servers), viewers })
    }

    fn serve(&self, folder: &Path, listen: &str, words: &str) -> Server {
        let map = format!(
            "[[silos]]\ncpus = \"{}\"\ncards = [\"north\"]\n[[silos]]\ncpus = \"{}\"\ncards = [\"south\"]\n",
            cpu(0),
            cpu(1)
        );
        let launch = Launch::of(folder).namespace(&self.servers).listen(listen).config(&map);
        launch.arguments("--tls off --workers 4").arguments(words).start()
    }

    /// Makes connections to `host`, each with one request. Returns how many connections each worker has accepted in all.
    fn visit(&self, server: &Server, host: &str) -> Vec<u64> {
        let address = SocketAddr::new(host.parse().unwrap(), server.address.port());
        self.viewers.inside(|| {
            for _ in 0..CONNECTIONS {
                assert_eq!(Plain::connect(address).fetch("/film.mp4").status, 200);
            }
        });
        server.wait_for_news();
        let (_, status) = server.admin_page("/status.json");
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let accepted = |worker: &serde_json::Value| worker["connections_accepted_total"].as_u64();
        status["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| accepted(worker).unwrap())
            .collect()
    }
}

fn homes(server: &Server) -> [u64; 3] {
    let counters = server.counters();
    let count = |home| counters.value(&format!("connections_by_home_total{{home=\"{home}\"}}"));
    ["own", "other", "unknown"].map(count)
}

fn crossings_per_byte(server: &Server) -> f64 {
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["paths"]["crossings_per_byte"].as_f64().unwrap()
}

/// Workers take the CPUs of the silos in turn: the even ones are in the first silo.
fn assert_by_card(networks: &Networks, listen: &str, hosts: [&str; 3]) {
    let folder = tempdir().unwrap();
    file(folder.path(), "film.mp4", 1000);
    let server = networks.serve(folder.path(), listen, "");
    let north = networks.visit(&server, hosts[0]);
    assert_eq!((north[0] + north[2], north[1] + north[3]), (CONNECTIONS, 0), "{north:?}");
    assert!(north[0] > 0 && north[2] > 0, "a silo's workers share its connections: {north:?}");
    let both = networks.visit(&server, hosts[1]);
    assert_eq!((both[0] + both[2], both[1] + both[3]), (CONNECTIONS, CONNECTIONS), "{both:?}");
    assert!(both[1] > 0 && both[3] > 0, "{both:?}");
    assert_eq!(homes(&server), [2 * CONNECTIONS, 0, 0]);
    networks.visit(&server, hosts[2]);
    assert_eq!(homes(&server), [2 * CONNECTIONS, 0, CONNECTIONS], "the map lacks the third card");
    let counters = server.counters();
    assert_eq!(counters.sum("path_bytes_total"), counters.sum("response_sent_bytes_total"));
    assert_eq!(crossings_per_byte(&server), 0.0, "each worker is where its card is");
    let said = server.said();
    for line in ["silos     network", "silo 0    ", "cards north", "cards south"] {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
    server.finish();
}

#[test]
fn a_connection_is_served_by_the_silo_of_the_card_on_which_it_arrives() {
    let Some(networks) = Networks::new() else { return };
    assert_by_card(&networks, "0.0.0.0:0", ["10.77.1.1", "10.77.2.1", "10.77.3.1"]);
}

#[test]
fn over_ipv6_and_over_ipv4_on_the_same_listener_too() {
    let Some(networks) = Networks::new() else { return };
    assert_by_card(&networks, "[::]:0", ["fd77:1::1", "10.77.2.1", "fd77:3::1"]);
}

#[test]
fn without_placement_any_silo_serves_any_card() {
    let Some(networks) = Networks::new() else { return };
    let folder = tempdir().unwrap();
    file(folder.path(), "film.mp4", 1000);
    let server = networks.serve(folder.path(), "[::]:0", "--silo off");
    let accepted = networks.visit(&server, "10.77.1.1");
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
    let [own, other, unknown] = homes(&server);
    assert_eq!((own + other, unknown), (CONNECTIONS, 0));
    assert!(own > 0 && other > 0, "{own} and {other}");
    // All responses are equally long, and the node of the disk is not known.
    let expected = other as f64 / CONNECTIONS as f64;
    assert!((crossings_per_byte(&server) - expected).abs() < 1e-9, "{other} of {CONNECTIONS}");
    server.finish();
}

/// As in a container that does not allow the calls.
#[test]
fn where_the_kernel_refuses_a_choice_of_memory_the_server_says_so_once_and_serves() {
    if !cpus::are_two_here() || !tool::are_here(&[("strace", "strace")]) {
        return;
    }
    let folder = tempdir().unwrap();
    file(folder.path(), "film.mp4", 1000);
    let map = format!("[[silos]]\ncpus = \"{}\"\n[[silos]]\ncpus = \"{}\"\n", cpu(0), cpu(1));
    let refusing = "strace -D -f -qq -o /dev/null -e trace=set_mempolicy,mbind -e inject=set_mempolicy,mbind:error=EPERM";
    let launch = Launch::of(folder.path()).config(&map).arguments("--tls off --workers 2");
    let server = launch.under(refusing).start();
    assert_eq!(Plain::connect(server.address).fetch("/film.mp4").status, 200);
    let said = server.finish();
    let told: Vec<_> = said.lines().filter(|line| line.contains("choice of memory")).collect();
    assert!(told.len() == 1 && told[0].contains("Operation not permitted"), "{said}");
}

#[test]
fn a_map_that_does_not_fit_the_machine_is_refused_with_what_is_wrong() {
    let folder = tempdir().unwrap();
    let refused = |map: &str, part: &str| {
        let ran = Launch::of(folder.path()).config(map).argument("--check").run();
        assert!(!ran.success && ran.stderr.contains(part), "{map}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    };
    let own = cpu(0);
    refused(
        &format!("[[silos]]\ncpus = \"{own}\"\n[[silos]]\ncpus = \"{own}\"\n"),
        &format!("CPU {own} is in two"),
    );
    // More than in a kernel for eight thousand CPUs.
    refused(&format!("[[silos]]\ncpus = \"{own},9999\"\n"), "no CPU 9999");
    let with = |more: &str| format!("[[silos]]\ncpus = \"{own}\"\n{more}\n");
    refused(&with("cards = [\"nosuch0\"]"), "\"nosuch0\", which is not a network card");
    refused(&with("folders = [\"/nosuch\"]"), "/nosuch, which is not a folder");
    refused(&with("folders = [\"/\"]"), "silos.folders has /, which is not in the library");
}
