//! Clocks that are minutes off, or jump, while viewers play: operators see it, and viewers notice nothing.

use crate::house::{Extras, Fleet};
use crate::nodes::swarm_until;
use fullbore_tests::{FakeClock, nobody_stalled, until};

/// Ten minutes, in seconds.
const MINUTES: i64 = 600;
/// The least offset that gateways report, with a margin for a busy machine.
const OFF_MILLIS: u64 = 500_000;

#[test]
fn clocks_that_are_minutes_off_or_jump_are_told_and_no_viewer_stalls() {
    let clocks: Option<Vec<_>> = (0..4).map(|_| FakeClock::if_possible()).collect();
    let Some([gateway, clocks @ ..]) = clocks.as_deref() else { return };
    clocks[0].set_ahead(MINUTES);
    clocks[1].set_ahead(-MINUTES);
    // A server in its sandbox could not follow a clock that jumps.
    let extras = Extras {
        signed: true,
        server_flags: &["--no-sandbox"],
        clocks: Some((gateway, clocks)),
        ..Extras::default()
    };
    let fleet = Fleet::with(&["a", "b", "c"], 90, &extras);
    is_told(&fleet, "node-1", MINUTES);
    is_told(&fleet, "node-2", -MINUTES);
    fleet.nodes[0].agent.stderr.wait_for("s ahead of the gateway's");
    fleet.nodes[1].agent.stderr.wait_for("s behind the gateway's");

    let words = "--viewers 20 --over 3s --duration 10m --watch 10m --buffer 20s";
    let ran = swarm_until(&fleet.film(), words, || {
        until("viewers on all nodes", || fleet.nodes.iter().all(|node| node.connections() >= 5));
        clocks[2].set_ahead(-MINUTES);
        is_told(&fleet, "node-3", -MINUTES);
        clocks[0].set_ahead(0);
        is_told(&fleet, "node-1", 0);
        gateway.set_ahead(2 * MINUTES);
        is_told(&fleet, "node-1", -2 * MINUTES);
        assert_eq!(fleet.route().len(), 3);
        gateway.set_ahead(-MINUTES);
        is_told(&fleet, "node-1", MINUTES);
        is_told(&fleet, "node-2", 0);
        // New viewers get addresses that are signed by this clock, and play by the nodes' clocks.
        let new = "--viewers 5 --over 0 --duration 12s --watch 1h --buffer 4s";
        let ran = crate::nodes::swarm(&fleet.film(), new);
        assert_eq!(ran.number("sessions/started"), 5.0, "{}\n{}", ran.figures, ran.stderr);
        nobody_stalled(&ran);
    });
    assert_eq!(ran.number("sessions/started"), 20.0, "{}", ran.figures);
    nobody_stalled(&ran);
    assert_eq!(fleet.gateway.stderr.line_with("-> lost"), None);
    assert!(fleet.nodes.iter().all(|node| fleet.state_of(&node.name) == "serving"));
}

/// The offset of a node's clock from the gateway's, by the gateway.
fn is_told(fleet: &Fleet, node: &str, ahead_seconds: i64) {
    until(&format!("{node} to be {ahead_seconds} s ahead"), || {
        let off = fleet.node(node)["clock_off_millis"].as_i64();
        off.is_some_and(|off| (off - 1000 * ahead_seconds).unsigned_abs() < OFF_MILLIS)
    });
}
