//! Other nodes, as seen by a box that copies from them: honest servers of a folder, and malicious ones.

#![allow(dead_code)] // Each test file uses only a part of it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fleet_protocol::{
    FleetSnapshot, NodeKind, NodePlace, PublishedTitle, Site, SnapshotNode, State, SteeringPolicy,
};
use fullbore_tests::free_port_on;
use steering::Fleet;

/// How a node responds to a request for a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Honest,
    /// Flips a bit of the last byte.
    Lies,
    /// Announces another part, and sends the requested one.
    OtherPart,
    /// Sends the whole file.
    Whole,
    /// Announces the right length, and sends less.
    Ends,
    /// Sends one byte too many, without a length.
    TooMuch,
    /// Redirects to another address.
    Redirects,
    /// Does not have the file.
    Lacks,
    /// Sends half, and then nothing.
    Stalls,
    /// Sends a byte now and then.
    Trickles,
    /// Resets the connection in the middle.
    Resets,
    /// Claims another length for the file.
    OtherLength,
    /// Does not say which part it sends.
    NoPart,
    /// Has another record of the title.
    OtherRecord,
    /// Is not there.
    Away,
}

/// A node. It stops at the end of the test.
pub(crate) struct PeerNode {
    name: &'static str,
    cluster: &'static str,
    host: String,
    pub(crate) sent_bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Drop for PeerNode {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Nodes share a port, and each has an address of its own.
pub(crate) struct Peers {
    pub(crate) nodes: Vec<PeerNode>,
    port: u16,
    network: u8,
    scheme: &'static str,
}

impl Peers {
    /// `network` keeps tests apart that run at the same time.
    pub(crate) fn new(network: u8) -> Self {
        // A port that the kernel gives to no other socket, because nodes are added later.
        let port = free_port_on(&format!("127.41.{network}.1"));
        Self { nodes: Vec::new(), port, network, scheme: "http" }
    }

    /// One node of the cluster `c1`: a real server with TLS.
    pub(crate) fn real(address: SocketAddr) -> Self {
        let (sent_bytes, is_over) = Default::default();
        let host = address.ip().to_string();
        let node = PeerNode { name: "n2", cluster: "c1", host, sent_bytes, is_over };
        Self { nodes: vec![node], port: address.port(), network: 0, scheme: "https" }
    }

    /// Adds a node that has the library `folder`.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        cluster: &'static str,
        folder: &Path,
        manner: Manner,
    ) {
        let host = format!("127.41.{}.{}", self.network, self.nodes.len() + 1);
        // For an absent node, listen on another port, to which nothing connects.
        let port = if manner == Manner::Away { 0 } else { self.port };
        let listener = TcpListener::bind((host.as_str(), port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (sent_bytes, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (sent, over, folder) = (sent_bytes.clone(), is_over.clone(), folder.to_owned());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (folder, sent, over) = (folder.clone(), sent.clone(), over.clone());
                        std::thread::spawn(move || serve(stream, &folder, manner, &sent, &over));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        self.nodes.push(PeerNode { name, cluster, host, sent_bytes, is_over });
    }

    /// The address of the node that was added last.
    pub(crate) fn last(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.nodes.last().unwrap().host, self.port)
    }

    /// A gateway's snapshot of them, and of the box `n1` in the cluster `c1`: all but the box hold the title.
    pub(crate) fn fleet(&self, title: &PublishedTitle) -> Arc<Fleet> {
        let node = |name: &str, cluster: &str, host: &str, holds: Vec<u32>| SnapshotNode {
            name: name.parse().unwrap(),
            host: host.to_owned(),
            place: NodePlace {
                site: "paris".parse().unwrap(),
                cluster: cluster.parse().unwrap(),
                rack: None,
            },
            kind: NodeKind::default(),
            state: State::Serving,
            not_me: Vec::new(),
            ceiling_bits_per_second: 1_000_000_000,
            load_permille: 0,
            full: false,
            holds,
        };
        let others = self.nodes.iter().map(|one| node(one.name, one.cluster, &one.host, vec![0]));
        let mut nodes: Vec<_> = others.collect();
        nodes.push(node("n1", "c1", "127.41.0.1", Vec::new()));
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let site = Site {
            name: "paris".parse().unwrap(),
            region: "r".parse().unwrap(),
            latitude: None,
            longitude: None,
            announced: Vec::new(),
        };
        let snapshot = FleetSnapshot {
            version: 1,
            epoch: 1,
            gateway: "g1".parse().unwrap(),
            number: 1,
            made_unix_millis: 1,
            policy: SteeringPolicy {
                scheme: self.scheme.to_owned(),
                port: self.port,
                ..SteeringPolicy::default()
            },
            sites: vec![site],
            nodes,
            titles: vec![title.clone()],
        };
        Arc::new(Fleet::new(snapshot, None).unwrap())
    }
}

fn serve(
    mut stream: TcpStream,
    folder: &Path,
    manner: Manner,
    sent: &AtomicU64,
    over: &AtomicBool,
) {
    stream.set_nonblocking(false).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head.clone()).unwrap();
        match answer(&mut stream, &head, folder, manner, sent) {
            Ok(true) => {}
            Ok(false) => {
                while manner == Manner::Stalls && !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return;
            }
            Err(_) => return,
        }
    }
}

/// Returns whether the connection can continue.
fn answer(
    stream: &mut TcpStream,
    head: &str,
    folder: &Path,
    manner: Manner,
    sent: &AtomicU64,
) -> std::io::Result<bool> {
    let path = head.split(' ').nth(1).unwrap().trim_start_matches('/');
    let place: PathBuf = folder.join(path.replace("%20", " "));
    let Ok(bytes) = fs::read(&place) else { return say(stream, "404 Not Found", "") };
    let range = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("range").then(|| value.strip_prefix("bytes=").unwrap())
    });
    let Some((from, last)) = range.and_then(|range| range.split_once('-')) else {
        return answer_whole(stream, bytes, manner, sent);
    };
    let (from, last): (usize, usize) = (from.parse().unwrap(), last.parse().unwrap());
    let mut part = bytes[from..=last].to_vec();
    let (mut said, mut length, mut all) = (from, Some(part.len()), bytes.len());
    let (mut says_part, mut status) = (true, "206 Partial Content");
    match manner {
        Manner::Honest | Manner::Stalls | Manner::Ends | Manner::Trickles | Manner::Resets => {}
        Manner::OtherRecord | Manner::Away => {}
        Manner::OtherLength => all += 1,
        Manner::NoPart => says_part = false,
        Manner::Lies => *part.last_mut().unwrap() ^= 1,
        Manner::OtherPart => said += 1,
        Manner::Whole => {
            (part, status) = (bytes.clone(), "200 OK");
            length = Some(part.len());
        }
        Manner::TooMuch => {
            part.push(0);
            length = None;
        }
        // The redirect leads to this node itself, where the path exists: a client that follows it gets the file.
        Manner::Redirects => return say(stream, "302 Found", &format!("Location: /{path}\r\n")),
        Manner::Lacks => return say(stream, "404 Not Found", ""),
    }
    let length = length.map_or_else(
        || "Connection: close".to_owned(),
        |length| format!("Content-Length: {length}"),
    );
    let range = format!("Content-Range: bytes {said}-{last}/{all}\r\n");
    let range = if says_part { range.as_str() } else { "" };
    write!(stream, "HTTP/1.1 {status}\r\n{range}{length}\r\n\r\n")?;
    send(stream, &part, manner, sent)
}

/// A response without a body.
fn say(stream: &mut TcpStream, status: &str, more: &str) -> std::io::Result<bool> {
    write!(stream, "HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\n\r\n")?;
    Ok(true)
}

fn answer_whole(
    stream: &mut TcpStream,
    mut bytes: Vec<u8>,
    manner: Manner,
    sent: &AtomicU64,
) -> std::io::Result<bool> {
    if manner == Manner::OtherRecord {
        *bytes.last_mut().unwrap() ^= 1;
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len())?;
    stream.write_all(&bytes)?;
    sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(true)
}

/// Sends a part, or as much of it as this node's manner allows.
fn send(
    stream: &mut TcpStream,
    part: &[u8],
    manner: Manner,
    sent: &AtomicU64,
) -> std::io::Result<bool> {
    let whole =
        !matches!(manner, Manner::Stalls | Manner::Ends | Manner::Trickles | Manner::Resets);
    let count = if whole { part.len() } else { part.len() / 2 };
    stream.write_all(&part[..count])?;
    sent.fetch_add(count as u64, Ordering::Relaxed);
    for byte in part[count..].iter().filter(|_| manner == Manner::Trickles) {
        stream.write_all(&[*byte])?;
        // sleeps: a node that trickles
        std::thread::sleep(Duration::from_millis(500));
    }
    if manner == Manner::Resets {
        // A connection that is closed with unsent data is reset.
        rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO))?;
    }
    Ok(whole && manner != Manner::TooMuch)
}
