//! slowhttptest's four modes at once against a node that answers viewers itself: viewers are answered, operators see it, and it stays in the fleet.

use fullbore_tests::{SlowAttack, until};

use crate::house::{Extras, Fleet, get};

#[test]
fn slow_clients_keep_nobody_out_of_a_node_that_answers_viewers() {
    if !SlowAttack::is_possible() {
        return;
    }
    let extras = Extras { answers: true, ..Extras::default() };
    let fleet = Fleet::with(&["a"], 10, &extras);
    let answers = fleet.nodes[0].answers.clone().expect("it answers");
    let (health, film) = (format!("{answers}/healthz"), format!("{answers}/play/film/master.m3u8"));
    until("the node to know the fleet", || get(&film).0 == 200);
    let mut attack = SlowAttack::on(&[&film], 400, 100);
    while attack.goes_on() {
        for url in [&health, &film, &fleet.film(), &format!("{}/healthz", fleet.admin)] {
            attack.others_get(url, "200");
        }
        assert_eq!(fleet.state_of("node-1"), "serving");
    }
    // Its heartbeats never stopped.
    assert_eq!(fleet.gateway.stderr.line_with("-> lost"), None);
}
