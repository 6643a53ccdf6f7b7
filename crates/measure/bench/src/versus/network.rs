//! What connects clients and servers: loopback, or a wire between two network namespaces.
//!
//! For a server with sockets, the wire is an Ethernet pair whose server end is in a namespace of servers. For a server
//! with its own TCP, it is a TAP, whose kernel end already belongs to the clients. Both carry super-segments of up to
//! 64 KiB and unfinished checksums, like a network card with segmentation offload, and packets of 1500 bytes.
//!
//! Packets for the clients are received on the clients' cores, and those for a server with sockets on the server's, as
//! if each had a network card whose interrupts go there (`rps_cpus`). So each end pays for its own receiving, and all
//! time of the server's core is the cost of serving. A server on a TAP reads its packets itself.

use super::peer::Recipe;
use crate::UnknownName;
use crate::ablate::pair::{self, Pair};
use crate::namespace;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The TAP's two ends: in a network for documentation (RFC 5737), not the pair's.
const TAP_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));
const TAP_CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The TAP's name in the clients' namespace.
const TAP: &str = "fb-tap";

/// How long to wait for a TAP to disappear.
const PATIENCE: Duration = Duration::from_secs(10);

const PAIR: Pair = Pair::PLAIN;

/// `$0` is the interface, `$1` a mask of cores. Only a sysfs mounted inside the namespace shows its interfaces.
const STEER: &str =
    r#"mount -t sysfs sysfs /sys && echo "$1" >/sys/class/net/"$0"/queues/rx-0/rps_cpus"#;

/// The kind of wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// One network stack talks to itself; CPU time is that of the server's threads.
    #[default]
    Loopback,
    /// Ethernet between namespaces; CPU time is all that the server's core spends. A server with its own TCP has a TAP.
    Ethernet,
    /// The same, but a server with its own TCP takes frames from the pair by AF_XDP.
    Xdp,
}

impl Wire {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Ethernet => "ethernet",
            Self::Xdp => "xdp",
        }
    }

    /// Whether everything that the server's core spends is compared, rather than only the server's threads.
    pub(crate) fn counts_core(self) -> bool {
        self != Self::Loopback
    }

    /// Whose CPU time is compared, in words.
    pub(crate) fn counted(self) -> &'static str {
        match self {
            Self::Loopback => "the server's threads",
            Self::Ethernet | Self::Xdp => "the server's core",
        }
    }
}

impl std::str::FromStr for Wire {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let all = [Self::Loopback, Self::Ethernet, Self::Xdp];
        let known = all.into_iter().find(|wire| wire.name() == name);
        known.ok_or_else(|| UnknownName::new("wire", name, all.map(Self::name)))
    }
}

/// An existing network; removed when dropped.
#[derive(Debug)]
pub(crate) enum Network {
    Loopback,
    Ethernet {
        /// Keeps the servers' namespace. It ends when its input does, however we end.
        keeper: Child,
        client_cpus: Vec<u32>,
        /// Whether servers with their own TCP get a TAP; otherwise they get the pair's end.
        has_taps: bool,
    },
}

impl Network {
    /// Sets the wire up. For Ethernet, this process must already be in a namespace of its own.
    ///
    /// # Errors
    /// Names the missing tool or privilege, or gives a tool's error.
    pub(crate) fn lay(wire: Wire, server_cpu: u32, client_cpus: &[u32]) -> io::Result<Self> {
        if wire == Wire::Loopback {
            return Ok(Self::Loopback);
        }
        let mut keeper = PAIR.server();
        let keeper = keeper.arg("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let has_taps = wire == Wire::Ethernet;
        let mut network = Self::Ethernet { keeper, client_cpus: client_cpus.to_vec(), has_taps };
        network.connect(server_cpu)?;
        Ok(network)
    }

    fn connect(&mut self, server_cpu: u32) -> io::Result<()> {
        let Self::Ethernet { keeper, client_cpus, .. } = self else { return Ok(()) };
        PAIR.meet(keeper)?;
        pair::await_link()?;
        steer(&[], pair::CLIENT_END, client_cpus)?;
        let inside = self.entry(None);
        let name = namespace::congestion_control();
        let server = pair::SERVER.to_string();
        let network = ["192.0.2.0/24", "dev", pair::SERVER_END, "proto", "kernel"];
        let choice = ["scope", "link", "src", &server, "congctl", &name];
        run(&inside, &[&["ip", "route", "replace"], &network[..], &choice].concat())?;
        steer(&inside, pair::SERVER_END, &[server_cpu])
    }

    /// The address for a server to listen on.
    pub(crate) fn address(&self, recipe: &Recipe) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Ethernet { .. } if self.has_tap(recipe) => TAP_SERVER,
            Self::Ethernet { .. } => pair::SERVER,
        }
    }

    /// What to put before the command line of a server (`None`: of a tool for the servers' namespace).
    pub(crate) fn entry(&self, recipe: Option<&Recipe>) -> Vec<String> {
        match self {
            Self::Ethernet { keeper, .. } if !recipe.is_some_and(|recipe| self.has_tap(recipe)) => {
                vec!["nsenter".into(), format!("--net=/proc/{}/ns/net", keeper.id())]
            }
            _ => Vec::new(),
        }
    }

    /// Whether this server is at the end of a TAP.
    fn has_tap(&self, recipe: &Recipe) -> bool {
        recipe.has_own_tcp && matches!(self, Self::Ethernet { has_taps: true, .. })
    }

    /// The configuration of the wire for a server with its own TCP. `@INTERFACE@` is its interface there, `@CLIENTS@`
    /// the clients' address at a TAP's other end.
    pub(crate) fn config(&self, recipe: &Recipe) -> Option<String> {
        let is_tap = self.has_tap(recipe);
        let (text, interface) = match self {
            Self::Ethernet { .. } if is_tap => (include_str!("../../peers/fullbore-tap.toml"), TAP),
            Self::Ethernet { .. } if recipe.has_own_tcp => {
                (include_str!("../../peers/fullbore-xdp.toml"), pair::SERVER_END)
            }
            _ => return None,
        };
        Some(text.replace("@INTERFACE@", interface).replace("@CLIENTS@", &TAP_CLIENTS.to_string()))
    }

    /// Waits, before a server starts, until the previous server's TAP has disappeared, which the kernel removes in its
    /// own time.
    ///
    /// # Errors
    /// If it still exists after a long time.
    pub(crate) fn await_room(&self, recipe: &Recipe) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.has_tap(recipe) && run(&[], &["ip", "link", "show", "dev", TAP]).is_ok() {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "{TAP} of the previous server does not disappear"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sets up a server's own wire after its start, like the others.
    ///
    /// # Errors
    /// A tool's error.
    pub(crate) fn settle(&self, recipe: &Recipe) -> io::Result<()> {
        match self {
            Self::Ethernet { client_cpus, .. } if self.has_tap(recipe) => {
                steer(&[], TAP, client_cpus)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Self::Ethernet { keeper, .. } = self {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

/// Makes packets that arrive at an interface be received on these cores.
fn steer(inside: &[String], interface: &str, cpus: &[u32]) -> io::Result<()> {
    // The kernel takes masks of 32 bits, with commas between them for more. No machine gives the clients that many cores.
    let mask = cpus.iter().filter(|cpu| **cpu < 32).fold(0_u32, |mask, cpu| mask | 1 << cpu);
    run(inside, &["unshare", "--mount", "sh", "-c", STEER, interface, &format!("{mask:x}")])
}

fn run(inside: &[String], words: &[&str]) -> io::Result<()> {
    let words: Vec<_> = inside.iter().map(String::as_str).chain(words.iter().copied()).collect();
    let output = Command::new(words[0]).args(&words[1..]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}", words.join(" "), said.trim())))
}
