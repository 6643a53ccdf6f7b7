//! One film at two servers, of which one dies.

use crate::program::swarm_while;
use fullbore_tests::film;
use fullbore_tests::{Server, until};
use std::time::Duration;
use tempfile::tempdir;

#[test]
fn viewers_of_a_server_that_is_killed_move_to_the_other_one_without_a_stall() {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 60);
    let servers = [(); 2].map(|()| Server::start(folder.path(), "--workers 1 --tls off"));
    let url = servers[0].url_of("film/master.m3u8");
    let other = servers[1].address.to_string();
    let words = format!(
        "--viewers 10 --duration 20s --over 1s --watch 1m --buffer 10s --allow-errors --also-at {other}"
    );
    let bytes = |server: &Server| server.sum("response_sent_bytes_total");
    let own = servers[0].address.to_string();
    let mut servers = Vec::from(servers);
    let ran = swarm_while(&words, &[&url], || {
        until("bytes from both", || servers.iter().all(|server| bytes(server) > 1_000_000));
        std::thread::sleep(Duration::from_secs(6));
        // Whichever serves more.
        let busier = usize::from(bytes(&servers[1]) > bytes(&servers[0]));
        servers.swap_remove(busier).kill();
    });
    assert_eq!(ran.number("sessions/without_stall"), 10.0, "{}", ran.figures);
    assert_eq!(ran.number("stalls/count"), 0.0, "{}", ran.figures);
    let moves = ran.figures["moves"].as_object().expect("moves");
    let left = moves.values().filter_map(serde_json::Value::as_u64).sum::<u64>();
    assert!(left >= 1, "nobody moved: {}", ran.figures);
    for name in [&own, &other] {
        assert!(ran.figures["pathways"][name]["bytes"].as_u64() > Some(0), "{}", ran.figures);
    }
    // Whoever asked the dead server was refused or reset.
    let errors = ["connect", "reset", "closed_early"].map(|kind| ran.errors(kind));
    assert!(errors.iter().sum::<u64>() > 0, "{}", ran.figures);
}
