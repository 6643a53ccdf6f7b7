//! Paths that break in the middle of films, between networks: packets that vanish, a line with 200 kb/s, a site that is cut off.

use crate::house::{DEATH, Extras, Fleet};
use crate::networks::{GATEWAY, Town};
use crate::nodes::{check_elsewhere, swarm, users_of};
use fullbore_tests::{Ran, nobody_stalled, until, within};
use std::time::Duration;

/// The site of each node: two nodes at each of three.
const SITES: [usize; 6] = [0, 0, 1, 1, 2, 2];
const NAMES: [&str; 6] = ["a", "a", "b", "b", "c", "c"];

/// Viewers at home in networks: the first keeps all its paths. Site 0 vanishes for the second, and the path of one node to the third gets
/// narrow.
const UNHARMED: usize = 0;
const CUT_OFF: usize = 1;
const NARROWED: usize = 2;

/// The amounts and durations.
struct Evening {
    /// Viewers of each network. The gateway draws the site of each, so few of them might all be where nothing breaks.
    viewers: [usize; 3],
    buffer: &'static str,
    over: &'static str,
    fault_after: Duration,
    duration: &'static str,
    segments: usize,
    /// The number of a hundred viewers that may stall.
    stalled_percent_max: f64,
}

/// All three groups of viewers at once, so that the first shows the machine's own influence.
fn watch(evening: &Evening) -> Option<[Ran; 3]> {
    let town = Town::if_possible(3, 3)?;
    let hosts = town.hosts(&SITES);
    let home = std::sync::Arc::clone(&town.gateway);
    Some(home.inside(|| {
        let networks = Some((GATEWAY, &hosts[..]));
        let fleet =
            Fleet::with(&NAMES, evening.segments, &Extras { networks, ..Extras::default() });
        let words = format!(
            "--over {} --duration {} --watch 1h --buffer {}",
            evening.over, evening.duration, evening.buffer
        );
        std::thread::scope(|scope| {
            let runs = [UNHARMED, CUT_OFF, NARROWED].map(|group| {
                let (network, film) = (&town.viewers[group], fleet.film());
                let words = format!("--viewers {} {words}", evening.viewers[group]);
                scope.spawn(move || network.inside(|| swarm(&film, &words)))
            });
            // sleeps: the time until the paths break, as the evening says
            std::thread::sleep(evening.fault_after);
            break_paths(&town, &fleet);
            runs.map(|run| run.join().expect("it does not panic"))
        })
    }))
}

fn break_paths(town: &Town, fleet: &Fleet) {
    town.cut_off(0, CUT_OFF);
    town.hide_from_gateway(0);
    // A viewer has one node of each site: each of this group has a narrow one.
    town.narrow(&fleet.nodes[2].host, NARROWED);
    town.narrow(&fleet.nodes[3].host, NARROWED);
    let lost = || ["node-1", "node-2"].iter().all(|name| fleet.state_of(name) == "lost");
    within(DEATH, "the gateway to take the site for lost", || lost().then_some(()));
    until("no answer to name it", || {
        let route = fleet.route();
        route.len() == 3 && !route.iter().any(|name| name == "node-1" || name == "node-2")
    });
    is_told(fleet);
}

/// Operators see which nodes are lost and why, and which viewers were moved where and why: even of those who play on the lost site's nodes because
/// their own paths work.
fn is_told(fleet: &Fleet) {
    for name in ["node-1", "node-2"] {
        let node = fleet.node(name);
        let reason = node["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("silent for "), "{node}");
    }
    within(DEATH, "the page to say who moved, and why", || {
        let page = fleet.page();
        let moves = page["moves"].as_array().cloned().unwrap_or_default();
        let is_one = |moved: &serde_json::Value| {
            ["node-1", "node-2"].iter().any(|lost| moved["from"] == *lost && moved["to"] != *lost)
                && moved["why"] == "lost"
                && moved["viewers"].as_u64() > Some(0)
        };
        moves.iter().any(is_one).then_some(())
    });
}

fn check(evening: &Evening, [unharmed, cut_off, narrowed]: &[Ran; 3]) {
    for (ran, viewers) in [unharmed, cut_off, narrowed].into_iter().zip(evening.viewers) {
        let started = ran.number("sessions/started");
        assert_eq!(started, viewers as f64, "{}\n{}", ran.figures, ran.stderr);
    }
    let stalled = |ran: &Ran| ran.number("sessions/started") - ran.number("sessions/without_stall");
    // Without a fault: if they stall, too, the rest is void.
    nobody_stalled(unharmed);
    for (ran, nodes) in [(cut_off, ["node-1", "node-2"]), (narrowed, ["node-3", "node-4"])] {
        let hit: Vec<_> = nodes.into_iter().filter(|name| users_of(ran, name) > 0).collect();
        hit.iter().for_each(|name| check_elsewhere(ran, name));
        let allowed = ran.number("sessions/started") * evening.stalled_percent_max / 100.0;
        match allowed < 1.0 {
            true => nobody_stalled(ran),
            false => assert!(stalled(ran) <= allowed, "{}\n{}", ran.figures, ran.stderr),
        }
        let moves = ran.figures["moves"].as_object().expect("moves");
        let moved: u64 = moves.values().filter_map(serde_json::Value::as_u64).sum();
        assert!(moved > 0, "the fault hit no viewer: {}", ran.figures);
    }
    assert!(cut_off.errors("silence") > 0, "no viewer got silence: {}", cut_off.figures);
}

#[test]
fn viewers_notice_neither_a_site_that_vanishes_nor_a_line_with_200_kilobits() {
    let evening = Evening {
        // The chance that no viewer of a network plays from the site that vanishes for it: (2/3)^30, one in 190,000. With 12 it was one in 130.
        viewers: [12, 30, 12],
        buffer: "30s",
        over: "3s",
        fault_after: Duration::from_secs(12),
        duration: "58s",
        segments: 50,
        stalled_percent_max: 1.0,
    };
    let Some(runs) = watch(&evening) else { return };
    check(&evening, &runs);
}

#[test]
#[ignore = "takes two minutes of an idle machine: ./run fleet-lab"]
fn two_hundred_viewers_with_half_a_minute_of_buffer_hardly_notice_either() {
    let evening = Evening {
        viewers: [100; 3],
        buffer: "30s",
        over: "20s",
        fault_after: Duration::from_secs(45),
        duration: "100s",
        segments: 90,
        stalled_percent_max: 1.0,
    };
    check(&evening, &watch(&evening).expect("namespaces and tc"));
}

#[test]
#[ignore = "takes eight minutes of an idle machine: ./run fleet-lab"]
fn viewers_with_two_minutes_of_buffer_notice_neither() {
    let evening = Evening {
        viewers: [100; 3],
        buffer: "120s",
        over: "30s",
        fault_after: Duration::from_secs(180),
        duration: "420s",
        segments: 450,
        stalled_percent_max: 0.0,
    };
    check(&evening, &watch(&evening).expect("namespaces and tc"));
}
