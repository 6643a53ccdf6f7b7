//! The queues of a network card: one end of a veth pair, whose other end leads to the client.

use crate::support::crowd::{UNHURRIED, a_thousand_watch};
use crate::support::device::Device;
use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::tool;
use std::net::{TcpListener, TcpStream};

#[test]
fn every_byte_arrives_and_the_kernel_keeps_what_is_its_own() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    for (mtu_bytes, settings) in [(1500, ""), (1280, "--delay 2ms --loss 1% --seed 9"), (9000, "")]
    {
        if !Device::Xdp.takes(mtu_bytes) {
            continue;
        }
        let Some(far) = Far::new(mtu_bytes, settings) else { return };
        let mut room = Room::new(3_000_001);
        room.device = Far::xdp();
        for tls in ["on", "off"] {
            let server = Server::start(&far.server, &room, &["--tls", tls], "");
            for host in Device::Xdp.hosts() {
                let url = server.url_at(&host);
                let common =
                    ["--silent", "--show-error", "--insecure", "--globoff", "--max-time", "600"];
                let got = far.client.succeed("curl", &[&common[..], &[&url]].concat());
                assert!(got == room.film, "{url}, MTU {mtu_bytes}: {} bytes", got.len());
            }
            let address = format!("{}:7", Device::Xdp.hosts()[0]);
            let listener = far.server.inside({
                let address = address.clone();
                move || TcpListener::bind(address).unwrap()
            });
            far.client
                .inside(move || drop(TcpStream::connect(address).expect("the kernel serves on")));
            drop(listener);
            assert_eq!(server.number("connections_by_route_total{route=\"bypass\"}"), 2);
            server.end();
        }
    }
}

#[test]
fn frames_written_past_the_caches_have_the_same_bytes() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(far) = Far::new(1500, "") else { return };
    let mut room = Room::new(3_000_001);
    room.device = Far::xdp();
    let server = Server::start(&far.server, &room, &["--off", "cached-frames"], "");
    let url = server.url_at(&Device::Xdp.hosts()[0]);
    let got = far.client.succeed("curl", &["--silent", "--insecure", "--max-time", "600", &url]);
    assert!(got == room.film, "{} bytes", got.len());
    server.end();
}

#[test]
fn many_viewers_at_once_get_their_bytes() {
    let Some(far) = Far::new(1500, "") else { return };
    let mut room = Room::new(1_000_001);
    room.device = Far::xdp();
    let server = Server::start(&far.server, &room, &[], UNHURRIED);
    let url = server.url_at(&Device::Xdp.hosts()[0]);
    a_thousand_watch(&far.client, &url, "250K", |told| told.contains("1000 open at the end"));
    server.await_number("bypass_copied_bytes_total{to=\"frame\"}", 1_000_001);
    server.end();
}
