//! Opening: devices, what TCP is told, and a secret. All that needs privileges happens here, before any thread starts.

use super::stack::Parts;
use crate::config::bypass::{Bypass, Device};
use crate::config::{Config, Switch};
use net::frames::{Interface, PAYLOAD_BYTES_MAX, TapPlan};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

/// The least that is worth asking for, where more may be sent: whole records, so that one is seldom made in two goes.
const WANT_BYTES_MIN: u32 = 32 << 10;

/// Opens the device, a queue for each of `workers`.
///
/// # Errors
/// One line: what was not possible, and what to do about it.
pub fn open(config: &Config, workers: usize) -> Result<Vec<Parts>, String> {
    let queues = u32::try_from(workers).map_err(|_| "too many workers for one device")?;
    let interfaces = match config.bypass.device {
        Device::Tap => tap(config, queues)?,
    };
    let secret = secret().map_err(|error| format!("no random numbers to be had: {error}"))?;
    let parts = interfaces.into_iter().map(|interface| Parts {
        tcp: tcp_config(config, &interface),
        interface,
        secret,
        to_completion: config.is_on(Switch::Completion),
    });
    Ok(parts.collect())
}

fn tap(config: &Config, queues: u32) -> Result<Vec<Interface>, String> {
    let Bypass { interface, addresses, mtu_bytes, .. } = &config.bypass;
    let plan = TapPlan {
        name: interface.clone(),
        queues,
        addresses: addresses.clone(),
        kernel_addresses: config.bypass.kernel_prefixes().map_err(|error| error.to_string())?,
        mtu_bytes: *mtu_bytes,
        coalesce: config.is_on(Switch::Coalesce),
    };
    plan.open().map_err(|error| format!("no bypass route: {error}"))
}

fn tcp_config(config: &Config, interface: &Interface) -> tcp::Config {
    let seconds = Duration::from_secs_f64;
    let splits = matches!(interface.device, net::frames::Device::Tap(_));
    let tso = config.is_on(Switch::Tso) && splits;
    tcp::Config {
        listen: vec![config.listen.port()],
        mtu_bytes: u16::try_from(config.bypass.mtu_bytes).unwrap_or(u16::MAX),
        tso_bytes_max: if tso { PAYLOAD_BYTES_MAX as u32 } else { 0 },
        want_bytes_min: WANT_BYTES_MIN,
        short_segments: true,
        want_bytes_max: config.net.window_bytes_max as u32,
        window_bytes_max: config.bypass.in_flight_bytes_max,
        connections_max: config.limits.connections_max,
        stall: seconds(config.timeouts.send_seconds),
        ..tcp::Config::default()
    }
}

fn secret() -> std::io::Result<tcp::Secret> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(tcp::Secret(bytes))
}

/// Where the server is reached.
pub fn address(config: &Config) -> Option<SocketAddr> {
    let first = config.bypass.addresses.first()?;
    Some(SocketAddr::new(*first, config.listen.port()))
}

/// What the route uses, for people.
pub fn describe(config: &Config, parts: &[Parts]) -> String {
    let name = parts.first().map_or("", |parts| &parts.interface.name);
    let addresses: Vec<_> = config.bypass.addresses.iter().map(ToString::to_string).collect();
    let device = match config.bypass.device {
        Device::Tap => "TAP",
    };
    let queues =
        if parts.len() == 1 { "one queue".into() } else { format!("{} queues", parts.len()) };
    format!(
        "bypass: own TCP over {device} {name}, {queues}, answering for {}",
        addresses.join(", ")
    )
}
