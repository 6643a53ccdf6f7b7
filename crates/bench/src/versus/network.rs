//! What lies between clients and servers: loopback, or a wire between two network namespaces.
//!
//! The wire of a server with sockets is an Ethernet pair, its own end in a namespace of servers; that of a server with TCP of
//! its own is its TAP, whose kernel's end is the clients' already. Both carry super-segments of up to 64 KiB and unfinished
//! checksums, as a network card with segmentation offload does, and packets of 1500 bytes.
//!
//! Packets for the clients are received on the clients' cores, and those for a server with sockets on the server's, as if
//! each had a network card whose interrupts go there (`rps_cpus`): so each end pays for its own receiving, and the time of the
//! server's core, all of it, is what serving costs. A TAP's server reads its packets itself.

use super::peer::Recipe;
use crate::ablate::pair::{self, Pair};
use crate::namespace;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The TAP's two ends: a network for documentation (RFC 5737), not the pair's.
const TAP_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));
const TAP_CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The TAP's name among the clients.
const TAP: &str = "fb-tap";

/// How long a TAP may take to go away.
const PATIENCE: Duration = Duration::from_secs(10);

const PAIR: Pair = Pair { mtu: 1500, server_offloads: &[], client_offloads: &[] };

/// `$0` is the interface, `$1` a mask of cores: only a sysfs mounted here shows the interfaces that are here.
const STEER: &str =
    r#"mount -t sysfs sysfs /sys && echo "$1" >/sys/class/net/"$0"/queues/rx-0/rps_cpus"#;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// One network stack talks to itself; processor time is that of the server's threads.
    #[default]
    Loopback,
    /// Ethernet between namespaces; processor time is all that the server's core spends. A server with TCP of its own has a
    /// TAP.
    Ethernet,
    /// The same, but a server with TCP of its own takes frames from the pair by AF_XDP.
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

    /// Whether all that the server's core spends is compared, and not what the server's threads do.
    pub(crate) fn counts_core(self) -> bool {
        self != Self::Loopback
    }

    /// Whose processor time is compared, in words.
    pub(crate) fn counted(self) -> &'static str {
        match self {
            Self::Loopback => "the server's threads",
            Self::Ethernet | Self::Xdp => "the server's core",
        }
    }
}

impl std::str::FromStr for Wire {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::Loopback, Self::Ethernet, Self::Xdp];
        let known = known.into_iter().find(|wire| wire.name() == name);
        known.ok_or_else(|| {
            format!("there is no wire {name:?}; there are loopback, ethernet and xdp")
        })
    }
}

/// What is there; gone when dropped.
#[derive(Debug)]
pub(crate) enum Network {
    Loopback,
    Ethernet {
        /// Keeps the servers' namespace: it ends when its input does, however we end.
        keeper: Child,
        client_cpus: Vec<u32>,
        /// Servers with TCP of their own have a TAP; else the pair's end.
        has_taps: bool,
    },
}

impl Network {
    /// Lays the wire. For Ethernet this process has to be in a namespace of its own already.
    ///
    /// # Errors
    /// What is missing, or what a tool says.
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

    /// What to put before the command line of a server (none: of a tool for the servers' namespace).
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

    /// What a server with TCP of its own is told of its wire. `@INTERFACE@` is its interface there, `@CLIENTS@` the clients'
    /// address at a TAP's other end.
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

    /// Before a server starts: waits until the TAP of the one before has gone, which the kernel takes apart at its leisure.
    ///
    /// # Errors
    /// When it is still there after a good while.
    pub(crate) fn await_room(&self, recipe: &Recipe) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.has_tap(recipe) && run(&[], &["ip", "link", "show", "dev", TAP]).is_ok() {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "{TAP} of the server before does not go away"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// After a server has started: its own wire is as the others are.
    ///
    /// # Errors
    /// What a tool says.
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

/// Has packets that arrive at an interface received on these cores.
fn steer(inside: &[String], interface: &str, cpus: &[u32]) -> io::Result<()> {
    // The kernel takes masks of 32 bits; later ones would follow commas, and so many clients' cores there are not.
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
