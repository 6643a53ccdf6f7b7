//! One film on two servers, one of which dies.

use crate::program::swarm_until;
use fullbore_tests::{Server, film, nobody_stalled};
use tempfile::tempdir;

const VIEWERS: u64 = 10;

#[test]
fn viewers_of_a_server_that_is_killed_move_to_the_other_one_without_a_stall() {
    let folder = tempdir().unwrap();
    film::make(folder.path(), 600);
    let servers = [(); 2].map(|()| Server::start(folder.path(), "--workers 1 --tls off"));
    let url = servers[0].url_of("film/master.m3u8");
    let other = servers[1].address.to_string();
    // A buffer that outlasts a machine's pauses: this test shows that players move in time; virtual time shows it to the second.
    let words = format!(
        "--viewers {VIEWERS} --over 1s --watch 1h --buffer 30s --allow-errors --also-at {other}"
    );
    let bytes = |server: &Server| server.sum("response_sent_bytes_total");
    let own = servers[0].address.to_string();
    let mut servers = Vec::from(servers);
    let ran = swarm_until(&words, &[&url], |course| {
        // As many segments as fill all buffers.
        let full = course.until("full buffers", |now| {
            let all_play = now.number("playing") == VIEWERS;
            all_play
                && now.number("requests") > VIEWERS * 20
                && servers.iter().all(|server| bytes(server) > 1_000_000)
        });
        // The one that serves more.
        let busier = usize::from(bytes(&servers[1]) > bytes(&servers[0]));
        servers.swap_remove(busier).kill();
        // As many again as they held when it died, so no viewer plays only from its buffer.
        course.until("all to play on", |now| {
            let all_play = now.number("playing") == VIEWERS;
            all_play && now.number("requests") > full.number("requests") + VIEWERS * 15
        });
    });
    assert_eq!(ran.number("sessions/count"), VIEWERS as f64, "{}", ran.figures);
    nobody_stalled(&ran);
    let moves = ran.figures["moves"].as_object().expect("moves");
    let left = moves.values().filter_map(serde_json::Value::as_u64).sum::<u64>();
    assert!(left >= 1, "no viewer moved: {}", ran.figures);
    for name in [&own, &other] {
        assert!(ran.figures["pathways"][name]["bytes"].as_u64() > Some(0), "{}", ran.figures);
    }
    // Viewers of the dead server were refused or reset.
    let errors = ["connect", "reset", "closed_early"].map(|kind| ran.errors(kind));
    assert!(errors.iter().sum::<u64>() > 0, "{}", ran.figures);
}
