//! A hostile node and hostile viewers, together with other nodes' viewers, who play and notice nothing.
//!
//! Two tables list the attacks: [`node::ATTACKS`] by a box that has joined the fleet, and [`viewers::ATTACKS`] by outsiders. A row's attacks
//! (half-sent requests above all) continue during the later ones. After each row, the gateway has to answer new viewers and operators, the honest
//! nodes have to serve, and viewers have to keep playing. To add an attack, add a row.
//!
//! Not tested here: how many new viewers a node may draw by lies about its weight (`crates/fleet/gateway`'s tests), and how long an answer takes.

mod line;
mod node;
mod viewers;

use crate::house::{Fleet, get};
use crate::nodes::swarm_seen;
use fullbore_tests::{Course, may_open, nobody_stalled, until};
use node::HostileNode;
use viewers::HostileViewers;

/// Honest nodes, each in a site of its own.
const SITES: [&str; 3] = ["a", "b", "c"];

/// Runs all rows while `viewers` watch a film of `segments`.
fn viewers_notice_nothing(viewers: u64, segments: usize) {
    if !may_open(1000) {
        return;
    }
    let fleet = Fleet::start(&SITES, segments);
    let servers: Vec<_> = fleet.nodes.iter().map(|node| node.server()).collect();
    let mut node = HostileNode::join(&fleet);
    let mut strangers = HostileViewers::new(&fleet);
    let words = format!("--viewers {viewers} --over 4s --watch 1h --buffer 30s");
    let ran = swarm_seen(&fleet.film(), &words, |course| {
        course.until("all to play", |now| now.number("playing") == viewers);
        for (what, attack) in node::ATTACKS {
            attack(&mut node);
            all_is_well(&fleet, course, what);
        }
        for (what, attack) in viewers::ATTACKS {
            attack(&mut strangers);
            node.go_on();
            all_is_well(&fleet, course, what);
        }
    });
    assert_eq!(ran.number("sessions/started"), viewers as f64, "{}", ran.figures);
    nobody_stalled(&ran);
    let still: Vec<_> = fleet.nodes.iter().map(|node| node.server()).collect();
    assert_eq!(still, servers, "a server was started again");
    assert!(fleet.nodes.iter().all(|node| node.total("tasks_panicked_total") == 0));
    for process in fleet.nodes.iter().map(|node| &node.agent).chain([&fleet.gateway]) {
        let panicked = process.stderr.line_with("panicked");
        assert_eq!(panicked, None, "in a gateway or an agent");
    }
}

/// New viewers and operators are answered, honest nodes serve, and playing viewers get more of the film.
fn all_is_well(fleet: &Fleet, course: &Course, after: &str) {
    let honest = |name: &str| fleet.nodes.iter().any(|node| node.name == name);
    assert_eq!(get(&format!("{}/healthz", fleet.admin)).0, 200, "after {after}");
    assert_eq!(get(&fleet.film()).0, 200, "after {after}");
    let names = fleet.route();
    assert!(names.iter().any(|name| honest(name)), "after {after}: only {names:?}");
    until(&format!("honest nodes to serve after {after}"), || {
        fleet.states_at(&fleet.admin).iter().all(|state| state == "serving")
    });
    let before = course.until("a moment", |_| true).number("requests");
    course.until(&format!("viewers to play on after {after}"), |now| {
        let is_over = ["playing", "waiting", "stalled"].iter().all(|name| now.number(name) == 0);
        now.number("requests") > before || is_over
    });
}

#[test]
fn viewers_of_others_notice_nothing_of_a_hostile_node_and_of_hostile_viewers() {
    viewers_notice_nothing(24, 90);
}

#[test]
#[ignore = "two hundred viewers take an idle machine: ./run fleet-lab"]
fn two_hundred_viewers_of_others_notice_nothing_of_a_hostile_node_and_of_hostile_viewers() {
    viewers_notice_nothing(200, 200);
}
