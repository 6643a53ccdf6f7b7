//! slowhttptest's four modes against an edge: other viewers get what is cached, what is new to the edge, and what it passes through.

use crate::origin::Origin;
use crate::{MIB, launch};
use fullbore_tests::{Plain, SlowAttack};
use tempfile::tempdir;

#[test]
fn slow_clients_keep_nobody_out_of_an_edge() {
    if !SlowAttack::is_possible() {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.put("/film", 1, MIB, "Cache-Control: max-age=3600\r\n");
    origin.put("/live", 2, MIB, "Cache-Control: no-store\r\n");
    let server = launch(&origin, cache.path()).arguments("--tls off --workers 1").start();
    let url = |path: &str| format!("http://{}{path}", server.address);
    assert_eq!(Plain::connect(server.address).fetch("/film").status, 200);
    let (film, live) = (url("/film"), url("/live"));
    let admin = format!("http://{}/healthz", server.admin);
    let mut attack = SlowAttack::on(&[&film, &live, &url("/random"), &admin], 100, 25);
    let mut round = 0;
    while attack.goes_on() {
        let new = format!("/new{round}");
        origin.put(&new, round, 1000, "Cache-Control: max-age=3600\r\n");
        for url in [&film, &live, &url(&new), &admin] {
            attack.others_get(url, "200");
        }
        round += 1;
    }
}
