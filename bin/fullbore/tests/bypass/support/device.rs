//! Both kinds of device, for tests that hold for either.

use super::far::Far;
use super::served::{V4, V6, tap};
use fullbore_tests::tool;

/// The device from which the server takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A TAP of its own, behind the kernel's forwarding.
    Tap,
    /// The queue of one end of a `veth` pair, by AF_XDP.
    Xdp,
}

impl Device {
    pub(crate) const ALL: [Self; 2] = [Self::Tap, Self::Xdp];

    /// The device's part of a server's configuration, with packets of this size.
    pub(crate) fn config(self, mtu_bytes: u32) -> String {
        match self {
            Self::Tap => tap(mtu_bytes),
            Self::Xdp => Far::xdp(),
        }
    }

    /// The server's addresses there, as in URLs: of IPv4 and of IPv6.
    pub(crate) fn hosts(self) -> [String; 2] {
        match self {
            Self::Tap => [V4.to_owned(), format!("[{V6}]")],
            Self::Xdp => ["198.51.100.1".to_owned(), "[2001:db8:1::1]".to_owned()],
        }
    }

    /// Whether this kernel supports it with packets of this size; if not, reports a skip.
    pub(crate) fn takes(self, mtu_bytes: u32) -> bool {
        let takes = self == Self::Tap || mtu_bytes <= 3822 || is_linux_6_6();
        if !takes {
            tool::skip(&format!("AF_XDP with an MTU of {mtu_bytes} bytes: Linux 6.6 has it"));
        }
        takes
    }
}

/// Whether this is Linux 6.6 or later.
fn is_linux_6_6() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}
