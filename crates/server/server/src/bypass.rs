//! Opens the bypass route: devices, TCP's configuration, and a secret. Everything that needs privileges happens here, before
//! any thread starts.

use config::bypass::{Bypass, Device, congestion_control};
use config::{Config, ConfigError, Switch};
use delivery::own_tcp::Parts;
use frames::{
    BuffersInPlace, Interface, PAYLOAD_BYTES_MAX, SetupError, TapSetup, XdpSetup, receive_queues,
    siblings,
};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tcp::CongestionControl;

/// The smallest request that is worthwhile if more may be sent: whole records, so that a record is seldom made in two steps.
const WANT_BYTES_MIN: u32 = 32 << 10;

/// The least that pacing releases at once: one super-segment, or four records. Half of it cost a fifth more per byte (docs/notes/bypass.md).
const PACE_BYTES_MIN: u32 = 64 << 10;

/// Why the bypass route is not available.
#[derive(Debug, thiserror::Error)]
pub enum BypassError {
    /// The configuration is wrong.
    #[error("no bypass route: {0}")]
    Config(#[source] ConfigError),
    /// The device cannot be set up.
    #[error("no bypass route: {0}")]
    Device(#[source] SetupError),
    /// The kernel returned no random numbers.
    #[error("no bypass route: the kernel returned no random numbers: {0}")]
    NoRandomNumbers(#[source] io::Error),
    /// There are no file descriptors left.
    #[error(
        "no bypass route: no file descriptors left: {0}; raise the limit (ulimit -n, LimitNOFILE)"
    )]
    NoDescriptors(#[source] io::Error),
}

/// Opens the device, with a queue for each of `workers`. `lends` are each worker's buffers that it may send from.
///
/// # Errors
/// The step that failed.
pub fn open(
    config: &Config,
    workers: usize,
    lends: Vec<BuffersInPlace>,
) -> Result<Vec<Parts>, BypassError> {
    // A configuration may have 1024 workers at most.
    let queues = u32::try_from(workers).unwrap_or(u32::MAX);
    let interfaces = match config.bypass.device {
        Device::Tap => tap(config, queues),
        Device::Xdp => xdp(config, queues, lends),
    }?;
    let secret = secret().map_err(BypassError::NoRandomNumbers)?;
    let siblings = siblings(interfaces.len()).map_err(BypassError::NoDescriptors)?;
    let parts = interfaces.into_iter().zip(siblings).map(|(interface, (sibling, told))| Parts {
        tcp: tcp_config(config, &interface),
        interface,
        sibling,
        told,
        secret,
        to_completion: config.is_on(Switch::Completion),
        rate_bytes_per_second: config.net.pacing_bytes_per_second(),
    });
    Ok(parts.collect())
}

/// The number of workers, if the device determines it.
pub fn workers(config: &Config) -> Option<usize> {
    let Bypass { device, interface, .. } = &config.bypass;
    let count = match device {
        Device::Tap => return None,
        Device::Xdp => receive_queues(interface).ok()?,
    };
    usize::try_from(count).ok()
}

fn tap(config: &Config, queues: u32) -> Result<Vec<Interface>, BypassError> {
    let Bypass { interface, addresses, mtu_bytes, .. } = &config.bypass;
    let setup = TapSetup {
        name: interface.clone(),
        queues,
        addresses: addresses.clone(),
        kernel_addresses: config.bypass.kernel_prefixes().map_err(BypassError::Config)?,
        mtu_bytes: *mtu_bytes,
        coalesce: config.is_on(Switch::Coalesce),
        payload_bytes_max: payload_bytes_max(config),
    };
    setup.open().map_err(BypassError::Device)
}

/// The largest payload given to a TAP at once.
fn payload_bytes_max(config: &Config) -> usize {
    let packet_bytes = config.bypass.super_segment_bytes_max as usize;
    PAYLOAD_BYTES_MAX + packet_bytes.saturating_sub(u16::MAX.into())
}

fn xdp(
    config: &Config,
    queues: u32,
    lends: Vec<BuffersInPlace>,
) -> Result<Vec<Interface>, BypassError> {
    let port = config.listen.port();
    let flow = |address: &IpAddr| SocketAddr::new(*address, port);
    let setup = XdpSetup {
        interface: config.bypass.interface.clone(),
        queues,
        flows: config.bypass.addresses.iter().map(flow).collect(),
        zero_copy: true,
        // Data streamed past the caches is copied for that.
        lends: if config.is_on(Switch::CachedFrames) { lends } else { Vec::new() },
        lends_to_kernel: false,
        streams_payload: !config.is_on(Switch::CachedFrames),
    };
    setup.open().map_err(BypassError::Device)
}

fn tcp_config(config: &Config, interface: &Interface) -> tcp::Config {
    let tso = config.is_on(Switch::Tso);
    let control = config.congestion_control().and_then(congestion_control);
    tcp::Config {
        listen: vec![config.listen.port()],
        mtu_bytes: u16::try_from(interface.mtu_bytes).unwrap_or(u16::MAX),
        tso_bytes_max: if tso { payload_bytes_max(config) as u32 } else { 0 },
        want_bytes_min: WANT_BYTES_MIN,
        want_bytes_max: config.net.window_bytes_max as u32,
        // A short segment at a record's end is worthwhile: otherwise the rest of the record would be read and sealed again.
        short_segments: true,
        merges_acknowledgements: config.is_on(Switch::Merge),
        // A configured rate applies in any case.
        pacing: config.is_on(Switch::Pacing) || config.net.pacing_bytes_per_second().is_some(),
        pace_bytes_min: PACE_BYTES_MIN,
        congestion_control: control.unwrap_or(CongestionControl::Cubic),
        window_bytes_max: config.bypass.in_flight_bytes_max,
        connections_max: config.limits.connections_max,
        stall: Duration::from_secs_f64(config.timeouts.send_seconds),
        ..tcp::Config::default()
    }
}

fn secret() -> io::Result<tcp::Secret> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(tcp::Secret(bytes))
}

/// The address at which viewers reach the server.
pub fn address(config: &Config) -> Option<SocketAddr> {
    let first = config.bypass.addresses.first()?;
    Some(SocketAddr::new(*first, config.listen.port()))
}

/// The route's devices and settings, in words.
pub fn describe(config: &Config, parts: &[Parts]) -> String {
    let addresses: Vec<_> = config.bypass.addresses.iter().map(ToString::to_string).collect();
    let device = parts.first().map(|parts| &parts.interface);
    let (how, name) = device.map_or(("", ""), |device| (device.device.describe(), &device.name));
    let queues =
        if parts.len() == 1 { "one queue".into() } else { format!("{} queues", parts.len()) };
    let (control, addresses) =
        (config.congestion_control().unwrap_or_default(), addresses.join(", "));
    format!("bypass: own TCP with {control} over {name} ({how}), {queues}, for {addresses}")
}
