//! An origin whose name has several addresses, or gets another one. Each server has an `/etc/hosts` of its own.

use crate::launch_at;
use crate::origin::{Manner, Origin};
use fullbore_tests::{Launch, Plain, Server, eventually, tool};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// A server's own `/etc/hosts`.
struct Hosts(TempDir);

impl Hosts {
    /// Reports what is missing if a server can't have one.
    fn new(lines: &str) -> Option<Self> {
        let hosts = Self(tempdir().unwrap());
        hosts.set(lines);
        let script = format!(
            "mount --bind '{}' /etc/hosts && exec \"$@\"\n",
            hosts.0.path().join("hosts").display()
        );
        std::fs::write(hosts.0.path().join("script"), script).unwrap();
        let mut tried = Command::new("unshare");
        tried.args(["--mount", "sh"]).arg(hosts.0.path().join("script")).arg("true");
        match tried.output() {
            Ok(done) if done.status.success() => Some(hosts),
            other => {
                tool::skip(&format!("cannot mount a file, which takes root: {other:?}"));
                None
            }
        }
    }

    fn set(&self, lines: &str) {
        std::fs::write(self.0.path().join("hosts"), lines).unwrap();
    }

    fn start(&self, launch: Launch) -> Server {
        let script = self.0.path().join("script");
        let under = format!("unshare --mount sh {}", script.display());
        launch.under(&under).arguments("--tls off").start()
    }
}

/// Connections to this port of the IPv6 loopback neither succeed nor fail: its queue is full.
struct Silent {
    _listener: OwnedFd,
    _queue: Vec<TcpStream>,
}

impl Silent {
    fn at(port: u16) -> Option<Self> {
        let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let listener = socket(AddressFamily::INET6, SocketType::STREAM, None).ok()?;
        bind(&listener, &address).ok()?;
        listen(&listener, 0).ok()?;
        let mut queue = Vec::new();
        while let Ok(one) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            queue.push(one);
            assert!(queue.len() < 100, "the queue has an end");
        }
        Some(Self { _listener: listener, _queue: queue })
    }
}

#[test]
fn a_silent_address_of_an_origin_is_no_failure() {
    let Some(hosts) = Hosts::new("::1 origin.test\n127.0.0.1 origin.test\n") else { return };
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let port = origin.address.port();
    let Some(_silent) = Silent::at(port) else {
        return tool::skip("there is no IPv6 here, or another program has the port");
    };
    let films: Vec<_> =
        (0..3).map(|number| origin.put(&format!("/{number}"), number, 3 << 20, LASTING)).collect();
    let server = hosts.start(launch_at(&format!("http://origin.test:{port}"), cache.path()));
    for (number, film) in films.iter().enumerate() {
        assert!(Plain::connect(server.address).fetch(&format!("/{number}")).body == **film);
    }
    server.wait_for_news();
    assert!(server.counter("edge_origin_answers_total{origin=\"1\"}") > 0);
    assert_eq!(server.sum("edge_origin_failures_total"), 0);
    assert_eq!(server.sum("edge_retries_total"), 0, "both addresses are tried at once");
}

#[test]
fn an_origin_that_moves_is_found_at_its_new_address() {
    let Some(hosts) = Hosts::new("127.0.0.1 origin.test\n") else { return };
    let (before, cache) = (Origin::start(), tempdir().unwrap());
    let port = before.address.port();
    let after = Origin::start_at(SocketAddr::from(([127, 0, 0, 2], port)));
    before.put("/before", 1, 1000, LASTING);
    let film = after.put("/after", 2, 1000, LASTING);
    let server = hosts.start(launch_at(&format!("http://origin.test:{port}"), cache.path()));
    assert_eq!(Plain::connect(server.address).fetch("/before").status, 200);
    hosts.set("127.0.0.2 origin.test\n");
    before.behave(Manner::Gone);
    let got = eventually("the origin at its new address", || {
        let answer = Plain::connect(server.address).fetch("/after");
        (answer.status == 200).then_some(answer.body)
    });
    assert!(got == *film);
}
