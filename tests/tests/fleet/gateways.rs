//! Gateways that die, hang or have old data: playing viewers don't notice, nodes answer new viewers, and the next gateway steers from its
//! predecessor's data.

use crate::house::{Extras, Fleet, Node, Running, Seat, get, route_at};
use crate::nodes::{swarm, swarm_until};
use fullbore_tests::{Signal, nobody_stalled, program, until};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

#[test]
fn a_killed_gateway_steers_at_once_from_its_own_disk_and_its_decisions_come_out_the_same_again() {
    let mut fleet = Fleet::start(&["a", "b", "c"], 10);
    for _ in 0..50 {
        assert_eq!(get(&fleet.film()).0, 200);
    }
    // The log is on disk within a second.
    until("decisions on disk", || {
        let replayed = fleet.control(&["replay"]);
        assert_eq!(replayed["different"].as_u64(), Some(0), "{replayed}");
        replayed["same"].as_u64() >= Some(50)
    });
    let words = fleet.control(&["explain", "127.0.0.1", "film"]);
    assert!(words["text"].as_str().is_some_and(|text| text.contains("node-")), "{words}");
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let before = sorted(fleet.route());
    fleet.gateway.kill();
    // Nodes do nothing meanwhile, so its only data is on its disk.
    fleet.nodes.iter().for_each(|node| node.agent.signal(Signal::STOP));
    let (_, master) = (fleet.restart_gateway(), get(&fleet.film()));
    assert_eq!(sorted(fleet.route()), before, "{master:?}");
    fleet.nodes.iter().for_each(|node| node.agent.signal(Signal::CONT));
    until("nodes to be heard again", || {
        ["node-1", "node-2", "node-3"].iter().all(|name| fleet.state_of(name) == "serving")
    });
    assert!(fleet.gateway.end(), "{:?}", fleet.gateway.stderr.lines());
}

#[test]
fn viewers_are_answered_while_a_gateway_stands_still_while_all_are_dead_and_beside_one_that_knows_no_better()
 {
    let extras = Extras { signed: true, answers: true, ..Extras::default() };
    let mut fleet = Fleet::with(&["a", "b", "c"], 10, &extras);
    let seat = fleet.second_seat();
    let mut second = fleet.start_second(&seat, None);
    until("the second gateway to hear all nodes", || {
        all_serve(&fleet, &seat.admin()) && route_at(&seat.url()).len() == 3
    });
    one_stands_still(&fleet, &seat);
    let answering = |url: &str| route_at(url).len() == fleet.nodes.len();
    until("nodes to know the fleet", || {
        fleet.nodes.iter().all(|node| answering(node.answers.as_deref().expect("it answers")))
    });
    let (_, master) = get(&fleet.film());
    let token = token_in(&master);
    fleet.gateway.kill();
    second.kill();
    fleet
        .nodes
        .iter()
        .for_each(|node| answers_viewers(node.answers.as_deref().expect("it answers"), &token));
    let film = fleet.nodes[0].answers.as_ref().map(|url| format!("{url}/play/film/master.m3u8"));
    let film = format!("{}?token={token}", film.expect("it answers"));
    let ran = swarm(&film, "--viewers 3 --over 0 --duration 8s --watch 1h --buffer 4s");
    assert_eq!(ran.number("sessions/started"), 3.0, "{}\n{}", ran.figures, ran.stderr);
    fleet.nodes.iter().for_each(replays);
    fleet.restart_gateway();
    until("the gateway to hear all nodes again", || {
        let heard = fleet.control(&["nodes"]);
        let nodes = heard["nodes"].as_array().cloned().unwrap_or_default();
        nodes.len() == 3
            && nodes.iter().all(|node| {
                node["state"] == "serving" && node["silent_millis"].as_u64() < Some(5000)
            })
    });
    assert_eq!(fleet.route().len(), 3);
    one_knows_no_better(&mut fleet, &seat, &addresses_in(&master));
}

/// A day without gateways, 8,640 to one: it has ten seconds, and certificates valid for 30 days are valid for five minutes here. Heartbeats,
/// steering answers and films are as long as ever.
const SCALED_DAY: Duration = Duration::from_secs(10);
const SCALED_LIFE: &str = "5m";
/// Its renewal is due after two thirds.
const SCALED_RENEWAL: Duration = Duration::from_secs(200);

#[test]
fn a_day_without_gateways_ends_no_film_and_new_ones_begin() {
    let (mut fleet, seat) = long_lived();
    let mut second = fleet.start_second(&seat, None);
    day_without(&mut fleet, &mut second, |_| {});
}

#[test]
#[ignore = "certificates come due after 200 seconds: ./run fleet-lab"]
fn a_day_without_gateways_in_which_certificates_come_due_ends_no_film_either() {
    let (mut fleet, seat) = long_lived();
    let mut second = fleet.start_second(&seat, None);
    let made = fleet.nodes.iter().map(|node| certificate(node).1).collect::<Vec<_>>();
    let due = *made.iter().max().expect("nodes") + SCALED_RENEWAL;
    let until_then = due.duration_since(SystemTime::now()).expect("a fleet starts sooner");
    // sleeps: certificates have to come due
    std::thread::sleep(until_then.saturating_sub(SCALED_DAY / 2));
    let before = fleet.nodes.iter().map(|node| certificate(node).0).collect::<Vec<_>>();
    day_without(&mut fleet, &mut second, |fleet| {
        for node in &fleet.nodes {
            node.agent.stderr.wait_for("cannot renew this node's certificate");
        }
    });
    let is_renewed = |(node, before): (&Node, &String)| certificate(node).0 != *before;
    until("all to be renewed", || fleet.nodes.iter().zip(&before).all(is_renewed));
    assert!(all_serve(&fleet, &fleet.admin));
}

/// A node's certificate for gateways, and when it got it.
fn certificate(node: &Node) -> (String, SystemTime) {
    let place = node.state.join("node.pem");
    let made = std::fs::metadata(&place).and_then(|file| file.modified());
    (std::fs::read_to_string(place).unwrap(), made.unwrap())
}

fn long_lived() -> (Fleet, Seat) {
    let gateway_flags = &["--node-certificate-life", SCALED_LIFE][..];
    let extras = Extras { answers: true, gateway_flags, ..Extras::default() };
    let fleet = Fleet::with(&["a", "b", "c"], 90, &extras);
    let seat = fleet.second_seat();
    until("nodes to know the fleet", || {
        let own = |node: &Node| route_at(node.answers.as_deref().expect("it answers")).len();
        fleet.nodes.iter().all(|node| own(node) == fleet.nodes.len())
    });
    (fleet, seat)
}

/// Viewers play before, meanwhile and afterwards, and new ones arrive meanwhile.
fn day_without(fleet: &mut Fleet, second: &mut Running, at_its_end: impl FnOnce(&Fleet)) {
    let words = "--viewers 20 --over 0 --duration 10m --watch 10m --buffer 20s";
    let film = fleet.film();
    let ran = swarm_until(&film, words, || {
        // Viewers with its manifest try all three nodes.
        let connections = || fleet.nodes.iter().map(|node| node.connections()).sum::<u64>();
        until("all viewers to have begun", || connections() >= 3 * 20);
        fleet.gateway.kill();
        second.kill();
        let began = Instant::now();
        for node in &fleet.nodes {
            let film = format!("{}/play/film/master.m3u8", node.answers.as_deref().unwrap());
            let ran = swarm(&film, "--viewers 3 --over 0 --duration 8s --watch 1h --buffer 4s");
            assert_eq!(ran.number("sessions/started"), 3.0, "{}", ran.figures);
            nobody_stalled(&ran);
        }
        // sleeps: a scaled day has to pass, and longer is fine
        std::thread::sleep((SCALED_DAY + Duration::from_secs(2)).saturating_sub(began.elapsed()));
        at_its_end(fleet);
        fleet.restart_gateway();
        until("the gateway to hear all nodes again", || {
            let heard = |node: &Node| fleet.node(&node.name)["silent_millis"].as_u64() < Some(5000);
            all_serve(fleet, &fleet.admin) && fleet.nodes.iter().all(heard)
        });
        assert_eq!(fleet.route().len(), 3);
    });
    assert_eq!(ran.number("sessions/started"), 20.0, "{}", ran.figures);
    nobody_stalled(&ran);
}

fn all_serve(fleet: &Fleet, admin: &str) -> bool {
    fleet.states_at(admin).iter().all(|state| state == "serving")
}

/// The first gateway hangs, and continues after some seconds: viewers and operators use the other one, and no node is lost.
fn one_stands_still(fleet: &Fleet, seat: &Seat) {
    fleet.gateway.signal(Signal::STOP);
    let stopped = Instant::now();
    assert_eq!(route_at(&seat.url()).len(), 3);
    assert_eq!(get(&format!("{}/play/film/master.m3u8", seat.url())).0, 200);
    let drained = fleet.control_at(&seat.admin(), &["drain", "node-1", "--reason", "a try"]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    until("the other gateway to send no viewer to it", || {
        !route_at(&seat.url()).contains(&"node-1".to_owned())
    });
    // Long enough to notice that time has passed.
    // sleeps: long enough for the gateway to notice that it did not run, and longer is fine
    std::thread::sleep(Duration::from_secs(4).saturating_sub(stopped.elapsed()));
    fleet.gateway.signal(Signal::CONT);
    fleet.gateway.stderr.wait_for("this gateway did not run for");
    until("it to send no viewer there either", || {
        let route = fleet.route();
        !route.is_empty() && !route.contains(&"node-1".to_owned())
    });
    fleet.control(&["undrain", "node-1"]);
    until("both to take all nodes for serving", || {
        all_serve(fleet, &fleet.admin) && all_serve(fleet, &seat.admin())
    });
    assert_eq!(fleet.gateway.stderr.line_with("-> lost"), None);
}

/// A gateway is dead, and this node answers.
fn answers_viewers(url: &str, token: &str) {
    let film = format!("{url}/play/film");
    let (status, master) = get(&format!("{film}/master.m3u8?token={token}"));
    assert_eq!(status, 200, "{master}");
    let addresses = addresses_in(&master);
    let hosts: std::collections::BTreeSet<_> =
        addresses.iter().filter_map(|address| address.split('/').nth(2)).collect();
    assert_eq!(hosts.len(), 3, "{master}");
    assert!(addresses.iter().all(|address| get(address).0 == 200), "{addresses:?}");
    let (status, mpd) = get(&format!("{film}/manifest.mpd?token={token}"));
    assert!(status == 200 && mpd.matches("<BaseURL").count() == 3, "{mpd}");
    let steering = master.split("SERVER-URI=\"").nth(1).and_then(|rest| rest.split('"').next());
    let (status, steered) = get(steering.expect("steering"));
    let steered: Value = serde_json::from_str(&steered).unwrap_or_default();
    let priority = steered["PATHWAY-PRIORITY"].as_array().map_or(0, Vec::len);
    assert_eq!((status, priority), (200, 3), "{steered}");
    // A node has public keys only, so it gives no token to a viewer without one.
    let (_, unsigned) = get(&format!("{film}/master.m3u8"));
    assert!(addresses_in(&unsigned).iter().all(|address| get(address).0 == 403), "{unsigned}");
}

/// The second gateway can't reach its store and its copy is old: the first has withdrawn the film meanwhile. No node restores it.
fn one_knows_no_better(fleet: &mut Fleet, seat: &Seat, addresses: &[String]) {
    fleet.control(&["withdraw", "film", "--reason", "rights ended"]);
    let is_gone =
        |fleet: &Fleet| fleet.nodes.iter().all(|node| !node.library.join("film").exists());
    until("the film to be gone", || is_gone(fleet));
    // Nothing listens there.
    let second: Running = fleet.start_second(seat, Some("etcd://127.0.0.1:9"));
    let known = fleet.control_at(&seat.admin(), &["nodes"]);
    let known: Value = serde_json::from_slice(&known.stdout).unwrap_or_default();
    assert!(known["store_problem"].is_string(), "{known}");
    let titles = get(&format!("{}/api/v1/titles", seat.url())).1;
    assert!(titles.contains("\"film\""), "it knows better: {titles}");
    // Running agents know that this is old data from that gateway. A restarted one accepts its answer.
    fleet.nodes[0].agent.kill();
    fleet.nodes[0].power_on();
    fleet.nodes[0].agent.stderr.wait_for("titles to hold is refused: it is of epoch");
    for node in &fleet.nodes[1..] {
        node.agent.stderr.wait_for(&format!("{}: the gateway answers again", seat.machines()));
    }
    until("it to send no viewer anywhere", || route_at(&seat.url()).is_empty());
    assert!(is_gone(fleet), "a node has restored it: {:?}", second.stderr.lines());
    assert!(addresses.iter().all(|address| get(address).0 == 404), "{addresses:?}");
}

/// Addresses on nodes in a manifest.
fn addresses_in(master: &str) -> Vec<String> {
    master.lines().filter(|line| line.starts_with("http")).map(str::to_owned).collect()
}

/// A node's answers and its own states replay to the same results.
fn replays(node: &Node) {
    let mut command = Command::new(program());
    let state = node.state.to_str().expect("text");
    command.args(["control", "replay", "--json", "--node-state", state]);
    // The log is on disk within a second.
    until("decisions on disk", || {
        let ran = command.output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
        let replayed: Value = serde_json::from_str(&text).unwrap();
        let same = |of: &str| replayed[of]["same"].as_u64().unwrap_or(0);
        // It became ready, and it answered with manifests and with steering.
        same("conditions") >= 1 && same("answers") >= 3
    });
}

/// The token in a manifest's addresses.
fn token_in(master: &str) -> String {
    let address = master.lines().find(|line| line.starts_with("http")).expect("an address");
    address.split("/t/").nth(1).and_then(|rest| rest.split('/').next()).expect("a token").to_owned()
}
