//! Viewers who want no film, at a gateway and at an honest node.

use super::line::{Source, answer, connected};
use crate::house::Fleet;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// The attack's name, and the viewers' actions.
type Attack = (&'static str, fn(&mut HostileViewers));

/// Their attacks, one after the other.
pub(super) const ATTACKS: [Attack; 6] = [
    ("heads that trickle", HostileViewers::trickle),
    ("odd steering requests", HostileViewers::steer),
    ("odd titles and viewers", HostileViewers::ask),
    ("what is no request", HostileViewers::babble),
    ("sessions that stall, all invented", HostileViewers::complain),
    ("requests whose answers are never read", HostileViewers::abandon),
];

/// Connections with half a head, at each listener.
const HALVES: usize = 150;

/// One more than the five players that a node needs to report stalling viewers.
const PLAYERS: usize = 6;

/// All of them.
pub(super) struct HostileViewers {
    gateway: SocketAddr,
    node: SocketAddr,
    halves: Vec<TcpStream>,
}

impl HostileViewers {
    pub(super) fn new(fleet: &Fleet) -> Self {
        let node = format!("{}:{}", fleet.nodes[0].host, fleet.node_port());
        Self {
            gateway: fleet.url.trim_start_matches("http://").parse().expect("an address"),
            node: node.parse().expect("an address"),
            halves: Vec::new(),
        }
    }

    fn both(&self) -> [SocketAddr; 2] {
        [self.gateway, self.node]
    }

    /// One more byte of each half head; answered and closed connections are dropped.
    fn drip(&mut self) {
        self.halves.retain_mut(|stream| stream.write_all(b"x").is_ok());
    }

    fn trickle(&mut self) {
        for to in self.both() {
            for _ in 0..HALVES {
                // A server may limit places by address.
                let Ok(mut stream) = connected(Source::SlowViewers, to) else { break };
                let half = b"GET /play/film/master.m3u8 HTTP/1.1\r\nHost: gateway\r\nX-Slow: ";
                if stream.write_all(half).is_ok() {
                    self.halves.push(stream);
                }
            }
        }
    }

    /// Requests a target from the gateway, whatever is in it. Returns the status; 0 if the connection was closed.
    fn status(&mut self, target: &str) -> (u16, String) {
        self.drip();
        let Ok(mut stream) = connected(Source::AskingViewers, self.gateway) else {
            return Default::default();
        };
        let request = format!("GET {target} HTTP/1.1\r\nHost: gateway\r\n\r\n");
        if stream.write_all(request.as_bytes()).is_err() {
            return Default::default();
        }
        answer(&mut BufReader::new(stream)).unwrap_or_default()
    }

    fn steer(&mut self) {
        let long = "s".repeat(4000);
        let queries = [
            "",
            "?",
            "?s",
            "?s=",
            "?s=%00",
            "?s=%FF%FE",
            "?s=1.film.node-1",
            "?s=..%2F..%2Fetc%2Fpasswd",
            "?_HLS_pathway=node-1&_HLS_throughput=99999999999999999999999",
            "?_HLS_pathway=%22node-1%2Cnode-2%22&_HLS_throughput=-1",
            "?_HLS_pathway=liar&_HLS_throughput=1",
            "?_DASH_pathway=node-1&_DASH_throughput=NaN",
            "?s=a&s=b&s=c&_HLS_pathway=x&_HLS_pathway=y",
            &format!("?s={long}"),
            &format!("?{}", "&s=a".repeat(1000)),
        ];
        for kind in ["hls", "dash"] {
            for query in queries {
                let (status, body) = self.status(&format!("/steering/{kind}{query}"));
                let shown = query.get(..80).unwrap_or(query);
                assert_eq!(status, 200, "players stop steering for good: {shown}");
                assert!(body.contains("PATHWAY-PRIORITY"), "{shown}: {body}");
            }
        }
    }

    fn ask(&mut self) {
        for target in [
            "/api/v1/route?title=nothing",
            "/api/v1/route?title=../film",
            "/api/v1/route?title=film&viewer=999.1.1.1",
            "/api/v1/route?title=film&viewer=::ffff:127.0.0.1",
            "/api/v1/route",
            "/play/../../etc/passwd",
            "/play/film/%2e%2e/%2e%2e/master.m3u8",
            "/play/nothing/master.m3u8",
            "/play/film/master.m3u8?CMCD=%22",
            "/machine/v1/heartbeat",
            "/api/v1/nodes",
            &format!("/play/{}/master.m3u8", "a".repeat(3000)),
        ] {
            let (status, body) = self.status(target);
            assert!(status < 500 && !body.contains("root:"), "{target}: {status} {body}");
        }
    }

    fn babble(&mut self) {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(2000));
        let said: [&[u8]; 9] = [
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /\r\n\r\n",
            b"POST /play/film/master.m3u8 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            &[0xff; 5000],
            long.as_bytes(),
            many.as_bytes(),
        ];
        for to in self.both() {
            for words in said {
                let Ok(mut stream) = connected(Source::AskingViewers, to) else { continue };
                // It may have been cut off before it has sent everything.
                let _ = stream.write_all(words).and_then(|()| stream.shutdown(Shutdown::Write));
                let mut answer = Vec::new();
                // A reset is an answer, too.
                let _ = stream.take(64 << 10).read_to_end(&mut answer);
                let answer = String::from_utf8_lossy(&answer);
                assert!(
                    !answer.starts_with("HTTP/1.1 500"),
                    "{:?}: {answer}",
                    &words[..words.len().min(60)]
                );
            }
        }
        self.drip();
    }

    /// They report stalls, and take ten bytes each time.
    fn complain(&mut self) {
        let Ok(stream) = connected(Source::AskingViewers, self.node) else { return };
        let mut stream = BufReader::new(stream);
        for round in 0..100 {
            for player in 0..PLAYERS {
                let report =
                    format!("bs%2Csu%2Cot%3Dv%2Cd%3D2000%2Cbl%3D0%2Csid%3D%22invented-{player}%22");
                let request = format!(
                    "GET /film/master.m3u8?CMCD={report} HTTP/1.1\r\nHost: node\r\nRange: bytes={round}-{}\r\n\r\n",
                    round + 9
                );
                let asked = stream.get_mut().write_all(request.as_bytes());
                if asked.and_then(|()| answer(&mut stream)).is_err() {
                    return;
                }
            }
        }
    }

    fn abandon(&mut self) {
        for number in 0..200 {
            let Ok(mut stream) = connected(Source::AskingViewers, self.node) else { continue };
            let request = format!(
                "GET /film/v-000000000001/2-{}.m4s HTTP/1.1\r\nHost: node\r\n\r\n",
                number % 20
            );
            // Closing with bytes in flight resets the connection.
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.read(&mut [0; 100]);
        }
        self.drip();
    }
}
