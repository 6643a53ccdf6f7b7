//! Settings of the bypass route: the device, and the server's addresses there.

use super::{ConfigError, within};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use tcp::CongestionControl;

/// The bypass route: the server's own TCP over a network device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bypass {
    /// The device that carries the frames.
    pub device: Device,
    /// The TAP's name, in which a `%d` stands for a number; with XDP, the name of the network card.
    pub interface: String,
    /// The server's addresses; it serves on the port of `listen`. Behind a TAP nothing else may have these addresses, not even the
    /// kernel. On a network card they are the kernel's own addresses there, and the server takes the port from the kernel.
    pub addresses: Vec<IpAddr>,
    /// For a TAP: addresses for the kernel's end of it, such as `192.0.2.1/24`, if the machine has none that can reach the server.
    pub kernel_addresses: Vec<String>,
    /// The largest packet, for a TAP only; a network card has its own limit.
    pub mtu_bytes: u32,
    /// The largest packet written to a TAP at once over IPv4, for the kernel or a card to split; more than 65,535 bytes need Linux 6.3.
    pub super_segment_bytes_max: u32,
    /// The most bytes in flight to one viewer.
    pub in_flight_bytes_max: u32,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A virtual network card that the kernel routes to.
    Tap,
    /// The receive queues of a network card, by AF_XDP, with a worker for each.
    Xdp,
}

impl Default for Bypass {
    fn default() -> Self {
        Self {
            device: Device::Tap,
            interface: "fullbore%d".into(),
            addresses: Vec::new(),
            kernel_addresses: Vec::new(),
            mtu_bytes: 1500,
            super_segment_bytes_max: u16::MAX.into(),
            in_flight_bytes_max: 16 << 20,
        }
    }
}

impl Bypass {
    /// The kernel's addresses, parsed.
    ///
    /// # Errors
    /// The text, if it is not an address with a prefix.
    pub fn kernel_prefixes(&self) -> Result<Vec<(IpAddr, u8)>, ConfigError> {
        self.kernel_addresses.iter().map(|text| prefix(text)).collect()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.addresses.is_empty() {
            return Err(ConfigError::BypassWithoutAddress);
        }
        let is_no_hosts = |address: &&IpAddr| address.is_unspecified() || address.is_multicast();
        if let Some(address) = self.addresses.iter().find(is_no_hosts) {
            let wanted = "unicast addresses";
            return Err(ConfigError::not_of_kind("bypass.addresses", address, wanted));
        }
        if self.interface.is_empty() || self.interface.len() > 15 {
            let wanted = "a name of 1 to 15 bytes";
            return Err(ConfigError::not_of_kind("bypass.interface", &self.interface, wanted));
        }
        if self.device == Device::Xdp && self.interface == Self::default().interface {
            return Err(ConfigError::BypassWithoutNic);
        }
        within("bypass.mtu_bytes", self.mtu_bytes, 1280..=65_521, "1280 to 65521")?;
        let long = self.super_segment_bytes_max;
        let lengths = 65_535..=524_000;
        within("bypass.super_segment_bytes_max", long, lengths, "65535 to 524000")?;
        let in_flight = self.in_flight_bytes_max;
        within("bypass.in_flight_bytes_max", in_flight, 64 << 10.., "65536 or more")?;
        self.kernel_prefixes().map(drop)
    }
}

/// The congestion control of the server's own TCP. The kernel has the first two names, too; its `bbr` corresponds to our `bbr1`.
pub fn congestion_control(name: &str) -> Option<CongestionControl> {
    match name {
        "cubic" => Some(CongestionControl::Cubic),
        "bbr" => Some(CongestionControl::Bbr),
        "bbr1" => Some(CongestionControl::Bbr1),
        _ => None,
    }
}

fn prefix(text: &str) -> Result<(IpAddr, u8), ConfigError> {
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        (bits <= bits_max).then_some((address, bits))
    });
    parsed.ok_or_else(|| {
        let wanted = "an address with its prefix, such as \"192.0.2.1/24\"";
        ConfigError::not_of_kind("bypass.kernel_addresses", text, wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Route};

    #[test]
    fn a_prefix_is_an_address_with_its_bits() {
        assert_eq!(prefix("192.0.2.1/24").unwrap(), ([192, 0, 2, 1].into(), 24));
        assert_eq!(prefix("fd00::1/64").unwrap().1, 64);
        for wrong in ["192.0.2.1", "192.0.2.1/33", "fd00::1/129", "host/24", "192.0.2.1/"] {
            assert!(prefix(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn without_an_address_of_its_own_there_is_no_route() {
        let error = Bypass::default().check().unwrap_err().to_string();
        assert!(error.contains("bypass.addresses is empty"), "{error}");
        let good = Bypass { addresses: vec![[192, 0, 2, 2].into()], ..Bypass::default() };
        assert!(good.check().is_ok());
        for (bytes, is_possible) in
            [(65_534, false), (65_535, true), (524_000, true), (524_001, false)]
        {
            let long = Bypass { super_segment_bytes_max: bytes, ..good.clone() };
            assert_eq!(long.check().is_ok(), is_possible, "{bytes}");
        }
    }

    #[test]
    fn our_tcp_has_cubic_and_bbr_and_says_so_of_others() {
        let check = |name: &str| {
            let mut config = Config { route: Route::Bypass, ..Config::default() };
            config.bypass.addresses = vec![[192, 0, 2, 2].into()];
            config.net.congestion_control = Some(name.into());
            config.check_bypass()
        };
        assert!(["cubic", "bbr", "bbr1"].iter().all(|name| check(name).is_ok()));
        let bypass = Config { route: Route::Bypass, ..Config::default() };
        assert_eq!(bypass.congestion_control(), Some("cubic"));
        assert_eq!(Config::default().congestion_control(), None, "the system's");
        let error = check("reno").unwrap_err().to_string();
        assert!(error.contains("\"reno\"") && error.contains("\"bbr\""), "{error}");
    }
}
