//! slowhttptest's four modes at once against a node that answers viewers itself: viewers are answered, operators see it, and it stays in the fleet.

use fullbore_tests::{SlowAttack, tool, until};

use crate::house::{Extras, Fleet};

/// The status of the answer, and the seconds that it took. The client has an address of its own.
fn ask(url: &str) -> (String, f64) {
    let mut command = tool::command("curl");
    command.args(["-sS", "--interface", "127.0.0.9", "--max-time", "60", "-o", "/dev/null"]);
    let text = tool::run(command.args(["-w", "%{http_code} %{time_total}", url])).text();
    let (status, seconds) = text.split_once(' ').unwrap_or_default();
    (status.to_owned(), seconds.parse().unwrap_or(f64::INFINITY))
}

#[test]
fn slow_clients_keep_nobody_out_of_a_node_that_answers_viewers() {
    if !tool::are_here(&[("slowhttptest", "slowhttptest"), ("curl", "curl")]) {
        return;
    }
    let extras = Extras { answers: true, ..Extras::default() };
    let fleet = Fleet::with(&["a"], 10, &extras);
    let answers = fleet.nodes[0].answers.clone().expect("it answers");
    let (health, film) = (format!("{answers}/healthz"), format!("{answers}/play/film/master.m3u8"));
    until("the node to know the fleet", || ask(&film).0 == "200");
    let mut attacks = SlowAttack::in_all_modes(&film, 400, 100);
    let (mut asked, mut longest) = (0, 0.0_f64);
    while asked < 3 || !attacks.iter_mut().all(SlowAttack::is_over) {
        for url in [&health, &film, &fleet.film(), &format!("{}/healthz", fleet.admin)] {
            let (status, seconds) = ask(url);
            assert_eq!(status, "200", "{url}, {asked}");
            longest = longest.max(seconds);
        }
        assert_eq!(fleet.state_of("node-1"), "serving");
        asked += 1;
    }
    eprintln!("{asked} times, everybody was answered; it took {longest:.3} s at most");
    // Its heartbeats never stopped.
    assert_eq!(fleet.gateway.stderr.line_with("-> lost"), None);
}
