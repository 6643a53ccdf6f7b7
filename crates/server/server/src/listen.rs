//! Binds the listeners for viewers and for the admin pages, and explains failures.
//!
//! A killed server keeps listening for a moment: an accept in its ring keeps the listener open until a kernel
//! thread has taken the ring apart, after the process is gone (5 to 13 ms later on an idle machine). So an address in use is
//! retried for a while before it becomes an error.

use crate::upgrade::ListenerSetup;
use config::{Config, Placement, Route, Switch};
use delivery::KernelOffload;
use libc::sock_filter;
use net::listener::{
    ListenerOptions, bind, is_taken, local_address, mark, set_backlog, steer,
    try_congestion_control, try_steering,
};
use silo_map::SiloMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The flags that set the addresses.
const LISTEN: &str = "--listen";
const ADMIN: &str = "--admin";

/// The setting for redirects.
const REDIRECT: &str = "tls.redirect_listen";

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program uses it.
    #[error(
        "cannot listen on {address}: address already in use; stop the program that uses it, or choose another with {flag} ADDR:PORT{}",
        outgoing_advice(.address.port(), .outgoing.as_ref())
    )]
    Taken {
        /// The address.
        address: SocketAddr,
        /// The flag that sets another.
        flag: &'static str,
        /// The ports that Linux uses for outgoing connections, if this is one of them.
        outgoing: Option<RangeInclusive<u16>>,
    },
    /// The kernel refused it.
    #[error(
        "cannot listen on {address}: {why}; choose another with {flag} ADDR:PORT \
         (it must be an address of this machine, and ports below 1024 need privileges)"
    )]
    Refused {
        /// The address.
        address: SocketAddr,
        /// The flag that sets another.
        flag: &'static str,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The kernel refused the program that assigns connections to silos.
    #[error(
        "cannot give connections to the silos of their network cards: {0}; raise `sysctl net.core.optmem_max`, or start with --silo off"
    )]
    Steering(#[source] io::Error),
    /// Connections cannot have this congestion control.
    #[error(fmt = write_no_congestion_control)]
    CongestionControl {
        /// Its name.
        name: String,
        /// The ones that the kernel has now.
        known: String,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
}

/// The end of the sentence for a port that Linux may have given to an outgoing connection.
fn outgoing_advice(port: u16, ports: Option<&RangeInclusive<u16>>) -> String {
    let Some(ports) = ports else { return String::new() };
    let (first, last) = (ports.start(), ports.end());
    format!(
        ". Linux uses ports {first} to {last} for outgoing connections, so one of those may use it: \
         choose a port outside this range, or reserve this one for the server with \
         `sysctl net.ipv4.ip_local_reserved_ports={port}`"
    )
}

fn write_no_congestion_control(
    name: &str,
    known: &str,
    why: &io::Error,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "net.congestion_control = {name:?} is not available here: ")?;
    match why.raw_os_error() {
        Some(libc::ENOENT) => write!(
            f,
            "the kernel has {known}; choose one of these, or load the module of this one first"
        ),
        Some(libc::EPERM) => write!(
            f,
            "only root may choose it; allow it for others with `sysctl net.ipv4.tcp_allowed_congestion_control`, or choose another one"
        ),
        _ => write!(f, "{why}; the kernel has {known}"),
    }
}

/// How long a server that shuts down may take to free its address: a hundred times the measured time.
const PREDECESSOR_GONE_WITHIN: Duration = Duration::from_secs(2);

/// The pause between two attempts at an address in use.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(10);

/// The viewers' listeners.
pub(crate) struct Listening {
    /// The address, with the port that the kernel chose if it was 0.
    pub(crate) address: SocketAddr,
    /// Each worker's listeners: several only if the previous server had more workers.
    pub(crate) of_workers: Vec<Vec<OwnedFd>>,
    /// Each listener once, in the order in which they began to listen.
    pub(crate) in_order: Vec<OwnedFd>,
    /// How connections are assigned to the listeners. For inherited listeners this applies from the takeover on.
    pub(crate) setup: ListenerSetup,
}

/// Binds a listener per worker, or one for all, and has the kernel assign connections to silos. If the kernel refuses that and
/// the operator did not ask for it, or refuses to mark connections, the map records it. With port 0, all get the port of the first one.
///
/// `inherited` are the listeners of the server that this one replaces, in their order. If they are on the right address, they are used
/// as they are: connections wait in them, and an additional listener would get connections before this server is ready.
pub(crate) fn listen(
    config: &Config,
    offload: KernelOffload,
    map: &mut SiloMap,
    inherited: Vec<OwnedFd>,
) -> Result<Listening, ListenError> {
    check_congestion_control(config)?;
    let wanted = config.listen;
    let options = options(config, offload, map);
    let program = program(config, map)?;
    let order = map.listening_order();
    let is_inherited = inherited.first().is_some_and(|first| is_on(first, wanted));
    let in_order = match is_inherited {
        true => take_over(inherited, wanted, &options)?,
        false => bind_all(config, &options, program.as_deref(), order.len())?,
    };
    let refused = |why| ListenError::Refused { address: wanted, flag: LISTEN, why };
    let address = local_address(&in_order[0]).map_err(refused)?;
    let of_workers = deal(&in_order, &order).map_err(refused)?;
    if let Err(why) = mark_all(&of_workers, map) {
        map.give_up_marks(why.to_string());
    }
    let options = options.spelled_out().map_err(refused)?;
    Ok(Listening { address, of_workers, in_order, setup: ListenerSetup { options, program } })
}

/// Whether a listener has the address that this server should listen on.
pub(crate) fn is_on(listener: &OwnedFd, wanted: SocketAddr) -> bool {
    local_address(listener).is_ok_and(|address| {
        address.ip() == wanted.ip() && [0, address.port()].contains(&wanted.port())
    })
}

fn options(config: &Config, offload: KernelOffload, map: &SiloMap) -> ListenerOptions {
    let unsent_bytes_max = config.net.unsent_bytes_max.unwrap_or(offload.unsent_bytes_max());
    ListenerOptions {
        backlog: i32::try_from(config.net.backlog).unwrap_or(i32::MAX),
        unsent_bytes_max: config.is_on(Switch::Pull).then_some(unsent_bytes_max),
        pacing_bytes_per_second: config.net.pacing_bytes_per_second(),
        congestion_control: config.net.congestion_control.clone(),
        tells_nic: map.silos().len() > 1,
    }
}

/// New listeners for this many workers, and the program that chooses among them.
fn bind_all(
    config: &Config,
    options: &ListenerOptions,
    program: Option<&[sock_filter]>,
    workers: usize,
) -> Result<Vec<OwnedFd>, ListenError> {
    let wanted = config.listen;
    wait_until_free(wanted, LISTEN)?;
    let cannot = |why| refused(wanted, LISTEN, why);
    let first = bind(wanted, options).map_err(cannot)?;
    let address = local_address(&first).map_err(|why| ListenError::Refused {
        address: wanted,
        flag: LISTEN,
        why,
    })?;
    let count = if config.is_on(Switch::Listeners) { workers } else { 1 };
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(bind(address, options).map_err(cannot)?);
    }
    program
        .map_or(Ok(()), |program| steer(&listeners[0], program))
        .map_err(ListenError::Steering)?;
    Ok(listeners)
}

/// Prepares inherited listeners as far as that does not affect the running server.
fn take_over(
    listeners: Vec<OwnedFd>,
    wanted: SocketAddr,
    options: &ListenerOptions,
) -> Result<Vec<OwnedFd>, ListenError> {
    // The sandbox allows no such call at the takeover, and a different backlog does the running server no harm.
    listeners
        .iter()
        .try_for_each(|listener| set_backlog(listener, options.backlog))
        .map_err(|why| ListenError::Refused { address: wanted, flag: LISTEN, why })?;
    Ok(listeners)
}

/// The program by which the kernel assigns connections to silos; none if it spreads them. It is tried here, because later code depends on it
/// only if the kernel accepts it.
fn program(config: &Config, map: &mut SiloMap) -> Result<Option<Vec<sock_filter>>, ListenError> {
    let Some(steering) = map.steering() else { return Ok(None) };
    let program = steering.program();
    match try_steering(&program) {
        Err(why) if config.silo == Placement::Auto => {
            map.give_up_network(why.to_string());
            Ok(None)
        }
        tried => tried.map(|()| Some(program)).map_err(ListenError::Steering),
    }
}

/// Distributes listeners over workers in `order`, so that each listener has a worker and each worker a listener.
fn deal(listeners: &[OwnedFd], order: &[usize]) -> io::Result<Vec<Vec<OwnedFd>>> {
    let mut of_workers: Vec<_> = order.iter().map(|_| Vec::new()).collect();
    for at in 0..listeners.len().max(order.len()) {
        let listener = listeners[at % listeners.len()].try_clone()?;
        of_workers[order[at % order.len()]].push(listener);
    }
    Ok(of_workers)
}

/// Sets the mark for each worker's connections.
fn mark_all(of_workers: &[Vec<OwnedFd>], map: &SiloMap) -> io::Result<()> {
    of_workers.iter().enumerate().try_for_each(|(worker, listeners)| {
        let Some(departure) = map.departure(worker) else { return Ok(()) };
        listeners.iter().try_for_each(|listener| mark(listener, departure.mark))
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

/// Checks that connections may have the configured congestion control. This needs a try, because the kernel may load a module for a name that
/// it does not list.
///
/// # Errors
/// If they may not.
pub(crate) fn check_congestion_control(config: &Config) -> Result<(), ListenError> {
    // The bypass route has its own TCP.
    let asked = config.net.congestion_control.as_deref();
    let Some(name) = asked.filter(|_| config.route != Route::Bypass) else { return Ok(()) };
    try_congestion_control(name).map_err(|why| {
        let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(list).unwrap_or_default();
        let known = known.split_whitespace().collect::<Vec<_>>().join(", ");
        ListenError::CongestionControl { name: name.to_owned(), known, why }
    })
}

fn refused(address: SocketAddr, flag: &'static str, why: io::Error) -> ListenError {
    match why.raw_os_error() {
        Some(libc::EADDRINUSE) => taken(address, flag),
        _ => ListenError::Refused { address, flag, why },
    }
}

/// Binds the admin pages' listener, or takes over the one of the server that this one replaces.
pub(crate) fn bind_admin(
    address: SocketAddr,
    inherited: Option<OwnedFd>,
) -> Result<OwnedFd, ListenError> {
    bind_or_inherit(address, ADMIN, inherited)
}

/// The same for the listener that redirects viewers to HTTPS.
pub(crate) fn bind_redirect(
    address: SocketAddr,
    inherited: Option<OwnedFd>,
) -> Result<OwnedFd, ListenError> {
    bind_or_inherit(address, REDIRECT, inherited)
}

fn bind_or_inherit(
    address: SocketAddr,
    flag: &'static str,
    inherited: Option<OwnedFd>,
) -> Result<OwnedFd, ListenError> {
    if let Some(listener) = inherited.filter(|listener| is_on(listener, address)) {
        return Ok(listener);
    }
    wait_until_free(address, flag)?;
    bind(address, &ListenerOptions::default()).map_err(|why| refused(address, flag, why))
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

/// Whether `port` is reserved, so that Linux does not choose it for outgoing connections. The list looks like `8080,9000-9010`.
fn is_reserved(port: u16) -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
    text.unwrap_or_default().trim().split(',').any(|ports| {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_gets_a_worker_and_each_worker_a_listener() {
        let dealt = |listeners: usize, order: &[usize]| -> Vec<Vec<usize>> {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let bound = || bind(any, &ListenerOptions::default()).unwrap();
            let listeners: Vec<_> = (0..listeners).map(|_| bound()).collect();
            let port = |listener: &OwnedFd| local_address(listener).unwrap().port();
            let place = |one: &OwnedFd| listeners.iter().position(|l| port(l) == port(one));
            let places = |own: Vec<OwnedFd>| own.iter().map(|one| place(one).unwrap()).collect();
            deal(&listeners, order).unwrap().into_iter().map(places).collect()
        };
        assert_eq!(dealt(3, &[1, 0, 2]), [[1], [0], [2]], "as they began to listen");
        assert_eq!(dealt(3, &[0, 1]), [vec![0, 2], vec![1]]);
        assert_eq!(dealt(1, &[1, 0]), [[0], [0]], "shared");
        assert_eq!(dealt(2, &[0, 1, 2]), [[0], [1], [0]]);
    }
}
