//! Real clients get the file, byte by byte.

use crate::support::served::{Room, Server};
use crate::support::space::{Space, is_here};
use std::sync::Arc;

const FILM_BYTES: usize = 5_000_001;

/// A namespace for a test; none where it cannot have one or lacks `tool`.
fn space_with(tool: &str, package: &str) -> Option<Arc<Space>> {
    is_here(tool, package).then(Space::new).flatten().map(Arc::new)
}

/// What curl gets there.
#[track_caller]
fn curl(space: &Space, arguments: &[&str]) -> Vec<u8> {
    let common = ["--silent", "--show-error", "--fail", "--insecure", "--max-time", "60"];
    space.succeed("curl", &[&common[..], arguments].concat())
}

#[test]
fn curl_gets_every_byte_over_tls_of_both_versions_and_both_kinds_of_ip() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &[], "");
    for url in [server.url(), server.url_v6()] {
        for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            let got = curl(&space, &[version, &["--globoff", &url]].concat());
            assert!(got == room.film, "{url} {version:?}: {} bytes", got.len());
        }
    }
    assert_eq!(server.number("connections_by_route_total{route=\"bypass\"}"), 4);
    server.end();
}

#[test]
fn curl_gets_every_byte_without_tls() {
    let Some(space) = space_with("curl", "curl") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&space, &room, &["--tls", "off"], "");
    for url in [server.url(), server.url_v6()] {
        let got = curl(&space, &["--globoff", &url]);
        assert!(got == room.film, "{url}: {} bytes", got.len());
    }
    server.end();
}
