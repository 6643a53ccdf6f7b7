//! Binds the listeners for viewers and for the admin pages, and says what prevents it.
//!
//! A server that has been killed keeps listening for a moment: an accept in its ring keeps the listener open until a kernel
//! thread has taken the ring apart, after the process is gone (5 to 13 ms later on an idle machine). So an address in use is
//! tried again for a while before it becomes an error.

use crate::config::{Config, Placement, Switch};
use crate::silo_map::SiloMap;
use delivery::KernelOffload;
use net::listener::{ListenerOptions, bind, is_taken, local_address, mark, steer};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The flags that set the addresses.
const LISTEN: &str = "--listen";
const ADMIN: &str = "--admin";

/// Why an address cannot be listened on.
#[derive(Debug)]
pub enum ListenError {
    /// Another program uses it.
    Taken {
        /// Which address.
        address: SocketAddr,
        /// The flag that sets another.
        flag: &'static str,
        /// The ports that Linux uses for outgoing connections, if this is one of them.
        outgoing: Option<RangeInclusive<u16>>,
    },
    /// The kernel refused it.
    Refused {
        /// Which address.
        address: SocketAddr,
        /// The flag that sets another.
        flag: &'static str,
        /// Why.
        why: io::Error,
    },
    /// The kernel refused the program that gives silos their connections.
    Steering(io::Error),
    /// The kernel does not have this congestion control.
    CongestionControl {
        /// Its name.
        name: String,
        /// Why not.
        why: io::Error,
    },
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { address, flag, outgoing } => {
                write!(
                    f,
                    "cannot listen on {address}: address already in use; stop the program that uses it, or choose another with {flag} ADDR:PORT"
                )?;
                let Some(ports) = outgoing else { return Ok(()) };
                let (first, last, port) = (ports.start(), ports.end(), address.port());
                write!(
                    f,
                    ". Linux uses ports {first} to {last} for outgoing connections, so one of those may use it: \
                     choose a port outside this range, or reserve this one for the server with \
                     `sysctl net.ipv4.ip_local_reserved_ports={port}`"
                )
            }
            Self::Refused { address, flag, why } => write!(
                f,
                "cannot listen on {address}: {why}; choose another with {flag} ADDR:PORT (ports below 1024 need privileges)"
            ),
            Self::Steering(why) => write!(
                f,
                "cannot give connections to the silos of their network cards: {why}; raise `sysctl net.core.optmem_max`, or start with --silo off"
            ),
            Self::CongestionControl { name, why } => write!(
                f,
                "cannot use congestion control {name:?}: {why}; see /proc/sys/net/ipv4/tcp_available_congestion_control"
            ),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Taken { .. } => None,
            Self::Refused { why, .. } | Self::CongestionControl { why, .. } => Some(why),
            Self::Steering(why) => Some(why),
        }
    }
}

/// How long a server that shuts down may take to free its address: a hundred times what was seen.
const PREDECESSOR_GONE_WITHIN: Duration = Duration::from_secs(2);

/// The pause between two attempts at an address in use.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(10);

/// Binds a listener per worker, or one for all, and has the kernel give each silo its connections. If the kernel refuses that and
/// the operator did not ask for it, or refuses to mark connections, the map says so. With port 0, all get the port of the first one.
pub(crate) fn listen(
    config: &Config,
    offload: KernelOffload,
    map: &mut SiloMap,
) -> Result<(SocketAddr, Vec<OwnedFd>), ListenError> {
    let wanted = config.listen;
    wait_until_free(wanted, LISTEN)?;
    let unsent_bytes_max = config.net.unsent_bytes_max.unwrap_or(offload.unsent_bytes_max());
    let options = ListenerOptions {
        backlog: i32::try_from(config.net.backlog).unwrap_or(i32::MAX),
        unsent_bytes_max: config.is_on(Switch::Pull).then_some(unsent_bytes_max),
        pacing_bytes_per_second: config.net.pacing_bytes_per_second(),
        congestion_control: config.net.congestion_control.clone(),
        tells_card: map.silos().len() > 1,
    };
    let cannot = |why| cannot_listen(wanted, &options, why);
    let first = bind(wanted, &options).map_err(cannot)?;
    let address = local_address(&first).map_err(|why| ListenError::Refused {
        address: wanted,
        flag: LISTEN,
        why,
    })?;
    let order = map.listening_order();
    let mut listeners = vec![(order[0], first)];
    for worker in &order[1..] {
        let listener = if config.is_on(Switch::Listeners) {
            bind(address, &options).map_err(cannot)?
        } else {
            listeners[0].1.try_clone().map_err(|why| ListenError::Refused {
                address: wanted,
                flag: LISTEN,
                why,
            })?
        };
        listeners.push((*worker, listener));
    }
    if let Some(steering) = map.steering() {
        match steer(&listeners[0].1, &steering.program()).map_err(ListenError::Steering) {
            Err(why) if config.silo == Placement::Auto => map.give_up_network(why.to_string()),
            steered => steered?,
        }
    }
    if let Err(why) = mark_all(&listeners, map) {
        map.give_up_marks(why.to_string());
    }
    listeners.sort_unstable_by_key(|(worker, _)| *worker);
    Ok((address, listeners.into_iter().map(|(_, listener)| listener).collect()))
}

/// Gives the connections of each worker their mark.
fn mark_all(listeners: &[(usize, OwnedFd)], map: &SiloMap) -> io::Result<()> {
    listeners.iter().try_for_each(|(worker, listener)| {
        map.departure(*worker).map_or(Ok(()), |departure| mark(listener, departure.mark))
    })
}

/// The limit on unsent bytes from which a connection's own limit may rise. `None` if each connection keeps the listener's, because the
/// operator has set it, or a rate.
pub(crate) fn unsent_bytes_min(config: &Config, offload: KernelOffload) -> Option<u32> {
    let net = &config.net;
    let is_set = net.unsent_bytes_max.is_some() || !config.is_on(Switch::Pull);
    let is_paced = net.pacing_bytes_per_second().is_some();
    (!is_set && !is_paced).then(|| offload.unsent_bytes_max())
}

fn cannot_listen(wanted: SocketAddr, options: &ListenerOptions, why: io::Error) -> ListenError {
    match (&options.congestion_control, why.raw_os_error()) {
        (Some(name), Some(libc::ENOENT | libc::EPERM)) => {
            ListenError::CongestionControl { name: name.clone(), why }
        }
        _ => refused(wanted, LISTEN, why),
    }
}

fn refused(address: SocketAddr, flag: &'static str, why: io::Error) -> ListenError {
    match why.raw_os_error() {
        Some(libc::EADDRINUSE) => taken(address, flag),
        _ => ListenError::Refused { address, flag, why },
    }
}

/// Binds the admin pages' listener.
pub(crate) fn bind_admin(address: SocketAddr) -> Result<OwnedFd, ListenError> {
    wait_until_free(address, ADMIN)?;
    bind(address, &ListenerOptions::default()).map_err(|why| refused(address, ADMIN, why))
}

/// Waits a little for an address in use.
fn wait_until_free(address: SocketAddr, flag: &'static str) -> Result<(), ListenError> {
    if !is_taken(address) {
        return Ok(());
    }
    let seconds = PREDECESSOR_GONE_WITHIN.as_secs();
    eprintln!(
        "fullbore: {address} is taken; waiting up to {seconds} s in case a server that uses it is just shutting down"
    );
    let deadline = Instant::now() + PREDECESSOR_GONE_WITHIN;
    while Instant::now() < deadline {
        std::thread::sleep(LOOKED_AT_EVERY);
        if !is_taken(address) {
            return Ok(());
        }
    }
    Err(taken(address, flag))
}

fn taken(address: SocketAddr, flag: &'static str) -> ListenError {
    let port = address.port();
    let outgoing = outgoing_ports().filter(|ports| ports.contains(&port) && !is_reserved(port));
    ListenError::Taken { address, flag, outgoing }
}

/// The ports that Linux chooses for outgoing connections, over IPv6 as well.
fn outgoing_ports() -> Option<RangeInclusive<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = text.split_whitespace().map(str::parse::<u16>);
    Some(ports.next()?.ok()?..=ports.next()?.ok()?)
}

/// Whether `port` is reserved, so that Linux does not choose it for outgoing connections: `8080,9000-9010`.
fn is_reserved(port: u16) -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
    text.unwrap_or_default().trim().split(',').any(|ports| {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
    })
}
