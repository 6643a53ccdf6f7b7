//! An Ethernet pair between two network namespaces. Unlike loopback, it has offloads and packets of 1500 bytes.
//!
//! The clients' end is in the namespace in which this program was restarted, the server's end in a namespace of the server's own. Both
//! disappear with their processes.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// The server's and the clients' addresses, from a documentation network (RFC 5737).
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The names of the pair's ends, each in its namespace.
pub(crate) const SERVER_END: &str = "fb-server";
pub(crate) const CLIENT_END: &str = "fb-clients";

/// How long to wait for a namespace or a link.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for a line that says its end of the pair exists, sets it up, and execs the server.
const SERVER_SCRIPT: &str = r#"
set -e
read -r _
ip link set lo up
ip address add "$FB_ADDRESS/24" dev "$FB_END"
ip link set "$FB_END" mtu "$FB_MTU" up
if [ -n "$FB_OFFLOADS" ]; then
    ethtool -K "$FB_END" $FB_OFFLOADS
fi
if [ -n "$FB_FLUSH_NS" ]; then
    # A pair is polled only with receive offload on.
    ethtool -K "$FB_END" gro on
    unshare --mount sh -ec '
        mount -t sysfs sysfs /sys
        cd /sys/class/net/"$FB_END"
        echo "$FB_DEFERRED" >napi_defer_hard_irqs
        echo "$FB_FLUSH_NS" >gro_flush_timeout'
fi
exec "$@"
"#;

/// The properties of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Bytes of a packet.
    pub(crate) mtu: u32,
    /// Names and values for `ethtool -K` at the server's end.
    pub(crate) server_offloads: &'static [&'static str],
    /// The same at the clients' end.
    pub(crate) client_offloads: &'static [&'static str],
    /// When the server's end raises interrupts; `None` keeps the kernel's default, without polling.
    pub(crate) interrupts: Option<Interrupts>,
}

/// Interrupt coalescing by the kernel (Documentation/networking/napi.rst): after a poll that found packets, the queue is polled again
/// without an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupts {
    /// Nanoseconds until that poll (`gro_flush_timeout`); 0 turns interrupts back on at once.
    pub(crate) flush_ns: u32,
    /// How many empty polls before interrupts are turned back on (`napi_defer_hard_irqs`).
    pub(crate) deferred: u32,
}

impl Pair {
    /// The kernel's defaults, with packets of 1500 bytes.
    pub(crate) const PLAIN: Self =
        Self { mtu: 1500, server_offloads: &[], client_offloads: &[], interrupts: None };
}

/// Why a pair cannot be created here, and what to do about it.
pub(crate) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".into());
    }
    for (tool, package) in [("ip", "iproute2"), ("ethtool", "ethtool"), ("unshare", "util-linux")] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Some(format!("there is no {tool}: apt install {package}, or ./run bench"));
        }
    }
    None
}

impl Pair {
    /// The command that starts a server at the far end. It waits for [`Self::connect`] and for a line on its standard input.
    pub(crate) fn server(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", SERVER_SCRIPT, "sh"]);
        command.env("FB_ADDRESS", SERVER.to_string()).env("FB_END", SERVER_END);
        command.env("FB_MTU", self.mtu.to_string());
        command.env("FB_OFFLOADS", self.server_offloads.join(" "));
        let number = |of: fn(&Interrupts) -> u32| {
            self.interrupts
                .as_ref()
                .map_or_else(String::new, |interrupts| of(interrupts).to_string())
        };
        command.env("FB_FLUSH_NS", number(|interrupts| interrupts.flush_ns));
        command.env("FB_DEFERRED", number(|interrupts| interrupts.deferred));
        command
    }

    /// Completes the start of a process created by [`Self::server`].
    ///
    /// # Errors
    /// If it has no namespace in time, or `ip` or `ethtool` fails.
    pub(crate) fn meet(&self, server: &mut Child) -> io::Result<()> {
        // `unshare` has entered its namespace only once it has become the shell that reads from us.
        await_namespace(server.id())?;
        self.connect(server.id())?;
        server.stdin.as_mut().expect("it was asked for").write_all(b"\n")
    }

    /// Creates the pair from here to the namespace of process `server`.
    ///
    /// # Errors
    /// If `ip` or `ethtool` fails.
    fn connect(&self, server: u32) -> io::Result<()> {
        // The previous server's pair goes away with that server's namespace, which the kernel removes in its own time.
        let _ = run("ip", &["link", "delete", CLIENT_END]);
        let (server, mtu) = (server.to_string(), self.mtu.to_string());
        let address = format!("{CLIENTS}/24");
        let peer = ["peer", "name", SERVER_END, "netns", &server];
        let add = ["link", "add", "name", CLIENT_END, "mtu", &mtu, "type", "veth"];
        run("ip", &[&add[..], &peer].concat())?;
        run("ip", &["address", "add", &address, "dev", CLIENT_END])?;
        run("ip", &["link", "set", CLIENT_END, "up"])?;
        if self.client_offloads.is_empty() {
            return Ok(());
        }
        run("ethtool", &[&["-K", CLIENT_END], self.client_offloads].concat())
    }
}

/// Waits until a process has a network namespace of its own.
fn await_namespace(process: u32) -> io::Result<()> {
    let ours = fs::read_link("/proc/self/ns/net")?;
    let deadline = Instant::now() + PATIENCE;
    while fs::read_link(format!("/proc/{process}/ns/net"))? == ours {
        if Instant::now() > deadline {
            return Err(io::Error::other("it has no network namespace of its own"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until the other end is up too.
///
/// # Errors
/// If it does not come up in time.
pub(crate) fn await_link() -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let Output { stdout, .. } =
            Command::new("ip").args(["-oneline", "link", "show", CLIENT_END]).output()?;
        if String::from_utf8_lossy(&stdout).contains("LOWER_UP") {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("the far end of the Ethernet pair does not come up"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    let Output { status, stderr, .. } = Command::new(program).args(arguments).output()?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&stderr);
    Err(io::Error::other(format!("{program} {}: {}", arguments.join(" "), said.trim())))
}
