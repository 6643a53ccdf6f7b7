//! The program between two Linux stacks, each in its own namespace, with a third for the middlebox.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_tests::{Namespace, PATIENCE, bytes, namespace, tool};
use serde_json::Value;

const CLIENT: [&str; 2] = ["10.77.0.1", "fd77::1"];
const SERVER: [&str; 2] = ["10.77.0.2", "fd77::2"];

/// A client's stack, a server's, and the middlebox between them.
struct Path {
    client: Namespace,
    server: Namespace,
    middlebox: Child,
    report: tempfile::NamedTempFile,
    /// The middlebox runs inside it.
    _middle: Namespace,
}

impl Path {
    /// Starts the middlebox with `arguments`, and waits until it is ready.
    fn new(mtu_bytes: usize, arguments: &[&str]) -> Self {
        let [client, middle, server] = [Namespace::new(), Namespace::new(), Namespace::new()];
        middle.join("a", &client, "eth", mtu_bytes);
        middle.join("b", &server, "eth", mtu_bytes);
        for (namespace, addresses) in [(&client, CLIENT), (&server, SERVER)] {
            namespace.address("eth", &format!("{}/24", addresses[0]));
            namespace.address("eth", &format!("{}/64", addresses[1]));
        }
        let report = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_middlebox"));
        command.args(["--between", "a", "b", "--json"]).arg(report.path()).args(arguments);
        command.stdout(Stdio::piped());
        let mut middlebox = middle.inside(|| command.spawn().expect("built by cargo"));
        let mut said = BufReader::new(middlebox.stdout.as_mut().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("the box can be read");
        assert_eq!(line, "ready a b\n");
        Self { client, server, middlebox, report, _middle: middle }
    }

    /// A listener on the server's side, and its address.
    fn listen(&self, address: &str) -> (TcpListener, SocketAddr) {
        let ip: IpAddr = address.parse().expect("an address");
        let listener = self.server.inside(|| TcpListener::bind((ip, 0)).expect("may listen"));
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    /// Fetches `sent` from the server to the client over one connection, and checks every byte.
    fn fetch(&self, address: &str, sent: &[u8]) {
        let (listener, address) = self.listen(address);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the client comes");
                stream.write_all(sent).expect("the client reads");
            });
            let mut stream =
                self.client.inside(|| TcpStream::connect(address).expect("there is a way"));
            stream.set_read_timeout(Some(PATIENCE)).expect("a time");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("the server sends");
            assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
        });
    }

    /// Ends the middlebox as an operator would. Returns its counts for the direction to the client, which is the busy one.
    fn end(mut self) -> Value {
        let pid = rustix::process::Pid::from_child(&self.middlebox);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.middlebox.wait().expect("it ends");
        assert!(status.success(), "{status}");
        let text = std::fs::read_to_string(&self.report).expect("it wrote");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["version"], &report["kind"]), (&1.into(), &"middlebox".into()));
        let to_client = report["ways"][1].clone();
        assert_eq!(to_client["from"], "b");
        for lapse in ["refused_by_interface_packets", "unusable_frames", "dropped_by_kernel_frames"]
        {
            assert_eq!(to_client[lapse], 0, "{lapse}: {report}");
        }
        to_client
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // This is for failed tests, because nothing else waits for the middlebox then. One that has ended cannot be killed, which is fine.
        let _ = self.middlebox.kill();
        let _ = self.middlebox.wait();
    }
}

fn count(way: &Value, name: &str) -> u64 {
    way[name].as_u64().unwrap_or_else(|| panic!("{name} in {way}"))
}

#[test]
fn a_round_trip_takes_the_delay_both_ways() {
    if !namespace::can_be_made() {
        return;
    }
    let path = Path::new(1500, &["--there", "delay=20ms", "--back", "delay=30ms"]);
    for (client, server) in CLIENT.into_iter().zip(SERVER) {
        let bind = |address: &str| {
            let ip: IpAddr = address.parse().expect("an address");
            UdpSocket::bind((ip, 0)).expect("may be bound")
        };
        let (asking, answering) =
            (path.client.inside(|| bind(client)), path.server.inside(|| bind(server)));
        for socket in [&asking, &answering] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        }
        let start = Instant::now();
        asking.send_to(b"ping", answering.local_addr().expect("bound")).expect("there is a way");
        let mut buffer = [0; 8];
        let (bytes, from) = answering.recv_from(&mut buffer).expect("it arrives");
        answering.send_to(&buffer[..bytes], from).expect("there is a way back");
        let bytes = asking.recv(&mut buffer).expect("it comes back");
        // A lower bound only: a machine may be slow, but the middlebox must never be early.
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
        assert_eq!(&buffer[..bytes], b"ping");
    }
    path.end();
}

/// One connection is no longer under way than another on a plain path, and packets stay in order there. 16 flows that happen to
/// have their delays in the order of sending are one case in 16!.
#[test]
fn connections_have_delays_of_their_own() {
    if !namespace::can_be_made() {
        return;
    }
    let path = Path::new(1500, &["--there", "flow-delay=50ms-450ms"]);
    for (client, server) in CLIENT.into_iter().zip(SERVER) {
        let bind = |address: &str| {
            let ip: IpAddr = address.parse().expect("an address");
            UdpSocket::bind((ip, 0)).expect("may be bound")
        };
        let answering = path.server.inside(|| bind(server));
        answering.set_read_timeout(Some(PATIENCE)).expect("a time");
        let to = answering.local_addr().expect("bound");
        let asking: Vec<_> = (0..16).map(|_| path.client.inside(|| bind(client))).collect();
        let start = Instant::now();
        for (number, socket) in asking.iter().enumerate() {
            socket.send_to(&[number as u8], to).expect("there is a way");
        }
        let mut buffer = [0; 8];
        let mut arrive = || {
            loop {
                // With a time limit, a receive that a signal interrupts does not go on by itself (signal(7)).
                match answering.recv_from(&mut buffer) {
                    Ok(_) => return buffer[0],
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => panic!("it arrives: {error}"),
                }
            }
        };
        let order: Vec<_> = asking.iter().map(|_| arrive()).collect();
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
        assert!(!order.is_sorted(), "all have the same delay: {order:?}");
    }
    path.end();
}

#[test]
fn bytes_survive_a_bad_network_and_the_kernel_sees_it() {
    if !namespace::can_be_made() {
        return;
    }
    let settings = "--delay 2ms --jitter 1ms --loss 2% --reorder 1% --duplicate 1% --seed 7";
    let path = Path::new(1500, &settings.split(' ').collect::<Vec<_>>());
    let sent = bytes(3 << 20, 1);
    for address in SERVER {
        path.fetch(address, &sent);
    }
    let sent_again = path.server.tcp_counter("RetransSegs");
    assert!(sent_again > 0, "nothing was lost, says the kernel");
    let way = path.end();
    for counter in ["lost_packets", "reordered_packets", "duplicated_packets"] {
        assert!(count(&way, counter) > 0, "{way}");
    }
    // With 2% lost, about as much has to be sent again; half as much again would be odd.
    assert!(sent_again * 2 > count(&way, "lost_packets"), "{sent_again} sent again, {way}");
}

#[test]
fn super_segments_are_cut_to_the_size_of_every_network() {
    if !namespace::can_be_made() {
        return;
    }
    for mtu_bytes in [1280, 1500, 9000] {
        let path = Path::new(mtu_bytes, &["--delay", "1ms"]);
        let sent = bytes(2 << 20, 2);
        for address in SERVER {
            path.fetch(address, &sent);
        }
        let way = path.end();
        // The MTU does not include Ethernet's header.
        let frame_bytes_max = mtu_bytes as u64 + 14;
        let (packets, bytes) = (count(&way, "offered_packets"), count(&way, "offered_bytes"));
        assert!(packets * frame_bytes_max >= bytes, "MTU {mtu_bytes}: {way}");
        assert!(bytes > 4 << 20);
    }
}

#[test]
fn super_segments_are_kept_where_that_is_wanted() {
    if !namespace::can_be_made() {
        return;
    }
    let path = Path::new(1500, &["--delay", "1ms", "--keep-super-segments"]);
    for address in SERVER {
        path.fetch(address, &bytes(4 << 20, 3));
    }
    let way = path.end();
    let (packets, bytes) = (count(&way, "offered_packets"), count(&way, "offered_bytes"));
    assert!(packets * 1514 < bytes, "none was larger than a frame: {way}");
}

#[test]
fn a_bottleneck_takes_its_time_and_drops_what_does_not_fit() {
    if !namespace::can_be_made() {
        return;
    }
    let path = Path::new(1500, &["--back", "rate=40Mbit,queue=20KiB", "--delay", "2ms"]);
    let sent = bytes(1 << 20, 4);
    let start = Instant::now();
    path.fetch(SERVER[0], &sent);
    // 8 Mbit at 40 Mbit/s. Only the machine may be slower.
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    let way = path.end();
    assert!(count(&way, "queue_full_packets") > 0, "{way}");
    assert!(count(&way, "queue_bytes_most") <= 20 << 10, "{way}");
}

#[test]
fn curl_fetches_a_file_through_it() {
    if !namespace::can_be_made() || !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let path = Path::new(1500, &["--delay", "5ms", "--loss", "1%"]);
    let sent = bytes(1 << 20, 5);
    let (listener, address) = path.listen(SERVER[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("curl comes");
            let head = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
            let fields = head.map(|line| line.expect("curl asks")).take_while(|l| !l.is_empty());
            assert!(fields.count() > 0, "no request");
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
            stream.write_all(answer.as_bytes()).expect("curl reads");
            stream.write_all(&sent).expect("curl reads");
        });
        let url = format!("http://{address}/");
        let ran = path.client.inside(|| tool::run(tool::command("curl").args(["-sS", &url])));
        assert!(ran.success, "{}", ran.stderr);
        assert!(ran.stdout == sent, "{} of {} bytes, or others", ran.stdout.len(), sent.len());
    });
    path.end();
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_middlebox"));
    let ran = tool::run(command.args(["--between", "no-such-0", "no-such-1"]));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("no-such-0"), "{ran:?}");
}

#[test]
fn a_setting_that_makes_no_sense_is_wrong_usage() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_middlebox"));
    let ran = tool::run(command.args(["--between", "a", "b", "--loss", "much"]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--loss: much is not a probability"), "{ran:?}");
}
