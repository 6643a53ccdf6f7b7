//! Binding what the kernel listens on, for viewers and for the admin pages, and saying what is in the way.
//!
//! A server that has been killed goes on listening for a moment: an accept in its ring keeps the listener open until a
//! kernel thread has taken the ring apart, which comes after the process has gone (5 to 13 ms later on an idle machine).
//! So an address that is taken is asked for again for a while before that is an error.

use crate::config::{Config, Switch};
use crate::route::InKernel;
use crate::server::StartError;
use net::listener::{ListenerOptions, bind, is_taken, local_address};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a server that is going may take to give its address back: a hundred times what was seen.
const PREDECESSOR_GONE_WITHIN: Duration = Duration::from_secs(2);

/// Between two looks at an address that is taken.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(10);

/// Binds a listener per worker, or one for all; with port 0 all get the port that the first one gets.
pub(crate) fn listen(
    config: &Config,
    in_kernel: InKernel,
    count: usize,
) -> Result<(SocketAddr, Vec<OwnedFd>), StartError> {
    let wanted = config.listen;
    wait_until_free(wanted, "--listen")?;
    let unsent_bytes_max = config.net.unsent_bytes_max.unwrap_or(in_kernel.unsent_bytes_max());
    let options = ListenerOptions {
        backlog: i32::try_from(config.net.backlog).unwrap_or(i32::MAX),
        unsent_bytes_max: config.is_on(Switch::Pull).then_some(unsent_bytes_max),
        pacing_bytes_per_second: config.net.pacing_bytes_per_second(),
        congestion_control: config.net.congestion_control.clone(),
    };
    let cannot = |error| cannot_listen(wanted, &options, &error);
    let first = bind(wanted, &options).map_err(cannot)?;
    let address = local_address(&first)
        .map_err(|error| StartError(format!("the listener has no address: {error}")))?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(if config.is_on(Switch::Listeners) {
            bind(address, &options).map_err(cannot)?
        } else {
            listeners[0]
                .try_clone()
                .map_err(|error| StartError(format!("no descriptors left: {error}")))?
        });
    }
    Ok((address, listeners))
}

fn cannot_listen(wanted: SocketAddr, options: &ListenerOptions, error: &io::Error) -> StartError {
    let errno = error.raw_os_error();
    if let (Some(name), Some(libc::ENOENT | libc::EPERM)) = (&options.congestion_control, errno) {
        return StartError(format!(
            "cannot use congestion control {name:?}: {error}; see /proc/sys/net/ipv4/tcp_available_congestion_control"
        ));
    }
    if errno == Some(libc::EADDRINUSE) {
        return taken(wanted, "--listen");
    }
    let advice = "choose another with --listen ADDR:PORT, or a port above 1023 without privileges";
    StartError(format!("cannot listen on {wanted}: {error}; {advice}"))
}

/// Binds the admin pages' listener.
pub(crate) fn bind_admin(address: SocketAddr) -> Result<OwnedFd, StartError> {
    wait_until_free(address, "--admin")?;
    bind(address, &ListenerOptions::default()).map_err(|error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => taken(address, "--admin"),
        _ => {
            let advice = "choose another with --admin ADDR:PORT";
            StartError(format!("cannot listen on {address} for --admin: {error}; {advice}"))
        }
    })
}

/// Waits a little for an address that somebody has.
fn wait_until_free(address: SocketAddr, flag: &str) -> Result<(), StartError> {
    if !is_taken(address) {
        return Ok(());
    }
    let seconds = PREDECESSOR_GONE_WITHIN.as_secs();
    eprintln!(
        "fullbore: {address} is taken; waiting up to {seconds} s in case a server that had it is just ending"
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

fn taken(address: SocketAddr, flag: &str) -> StartError {
    let mut said = format!(
        "cannot listen on {address}: another program has this address; stop it or choose another with {flag} ADDR:PORT"
    );
    let port = address.port();
    let range = outgoing_ports().filter(|ports| ports.contains(&port) && !is_reserved(port));
    if let Some(range) = range {
        let (first, last) = range.into_inner();
        said.push_str(&format!(
            ". Linux uses ports {first} to {last} for outgoing connections, so one of those may have it: \
             choose a port outside of them, or keep this one for the server with \
             `sysctl net.ipv4.ip_local_reserved_ports={port}`"
        ));
    }
    StartError(said)
}

/// The ports that Linux gives to connections that ask for none, over IPv6 as well.
fn outgoing_ports() -> Option<RangeInclusive<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = text.split_whitespace().map(str::parse::<u16>);
    Some(ports.next()?.ok()?..=ports.next()?.ok()?)
}

/// Whether `port` is one of those that Linux gives to nobody who does not ask for it: `8080,9000-9010`.
fn is_reserved(port: u16) -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
    text.unwrap_or_default().trim().split(',').any(|ports| {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
    })
}
