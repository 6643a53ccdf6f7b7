//! A client far away: in a namespace of its own, with a bad network between it and the server's.

use fullbore_tests::{Namespace, program, tool, until};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Two namespaces and what is between them.
pub(crate) struct Far {
    pub(crate) client: Arc<Namespace>,
    pub(crate) server: Arc<Namespace>,
    _between: Arc<Namespace>,
    carrier: Child,
}

impl Far {
    /// The server's namespace forwards between its TAP and the client's namespace. `settings` are for the middlebox, separated by
    /// spaces. If this is not possible, returns `None` and prints why to standard error.
    pub(crate) fn new(mtu_bytes: u32, settings: &str) -> Option<Self> {
        Self::with_queues(mtu_bytes, 1, settings)
    }

    /// The same, with this many queues at every end.
    pub(crate) fn with_queues(mtu_bytes: u32, queues: u32, settings: &str) -> Option<Self> {
        let program = middlebox()?;
        let [client, between, server] =
            [Namespace::if_possible()?, Namespace::if_possible()?, Namespace::if_possible()?]
                .map(Arc::new);
        for (end, space) in [("a", &client), ("b", &server)] {
            let name = space.path();
            let size = format!("mtu {mtu_bytes} numrxqueues {queues} numtxqueues {queues}");
            between.ip(&format!(
                "link add name {end} {size} type veth peer name eth {size} netns {name}"
            ));
            between.ip(&format!("link set dev {end} up"));
            space.ip("link set eth up");
        }
        client.ip("address add 198.51.100.2/24 dev eth");
        client.ip("address add 2001:db8:1::2/64 dev eth nodad");
        server.ip("address add 198.51.100.1/24 dev eth");
        server.ip("address add 2001:db8:1::1/64 dev eth nodad");
        client.ip("route add default via 198.51.100.1");
        client.ip("route add default via 2001:db8:1::1");
        forward(&server, true);
        // The kernel notes that a link has a carrier a little later, and then changes what it shows of it.
        for space in [&client, &server] {
            until("the link to be up", || space.ip("-o link show dev eth").contains("state UP"));
        }
        let mut command = Command::new(program);
        command.args(["--between", "a", "b"]).args(settings.split_ascii_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut carrier = between.inside(move || command.spawn()).expect("it starts");
        let mut said = String::new();
        let out = carrier.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut said).unwrap();
        assert!(said.starts_with("ready"), "the middlebox said {said:?}");
        Some(Self { client, server, _between: between, carrier })
    }

    /// Turns forwarding in the server's namespace on or off, between its TAP and the client.
    pub(crate) fn forward(&self, is_on: bool) {
        forward(&self.server, is_on);
    }

    /// The configuration of a server that uses the queues at its namespace's end of the path.
    pub(crate) fn xdp() -> String {
        "device = \"xdp\"\ninterface = \"eth\"\naddresses = [\"198.51.100.1\", \"2001:db8:1::1\"]\n"
            .into()
    }

    /// Bytes that have come to the client's namespace.
    pub(crate) fn carried_bytes(&self) -> u64 {
        self.client.inside(|| {
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let ours = devices.lines().find_map(|line| line.trim().strip_prefix("eth:"));
            let received = ours.and_then(|line| line.split_ascii_whitespace().next());
            received.map_or(0, |bytes| bytes.parse().unwrap())
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.carrier.kill();
        let _ = self.carrier.wait();
    }
}

fn forward(namespace: &Namespace, is_on: bool) {
    for way in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        namespace.set(way, if is_on { "1" } else { "0" });
    }
}

/// The middlebox, which cargo builds next to this test's own program.
fn middlebox() -> Option<PathBuf> {
    let program = program().with_file_name("middlebox");
    if program.exists() {
        return Some(program);
    }
    tool::skip(&format!("there is no {}: cargo build -p fullbore-middlebox", program.display()));
    None
}
