//! Opens devices: the part that needs privileges, done once, before the privileges are dropped.

use crate::compose::{Hop, LONG_PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::error::SetupError;
use crate::neighbours::Neighbours;
use crate::netlink::link::Link;
use crate::parse::Mac;
use crate::tap::Tap;
use crate::{Device, Interface};
use machine::netlink::Netlink;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The smallest MTU that IPv6 allows (RFC 8200 section 5).
const MTU_BYTES_MIN: u32 = 1280;
/// The largest MTU that the kernel allows for a TAP is a little less than 64 KiB.
const MTU_BYTES_MAX: u32 = 65_521;
/// The kernel's version.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// A TAP device to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSetup {
    /// Its name, at most 15 bytes; `%d` in it becomes a number.
    pub name: String,
    /// How many workers there are, each with a queue.
    pub queues: u32,
    /// The server's addresses: only ours, not the kernel's. At least one.
    pub addresses: Vec<IpAddr>,
    /// Addresses for the kernel on this device, with the lengths of their prefixes. Needed only if the machine has no other address from which to
    /// talk to us.
    pub kernel_addresses: Vec<(IpAddr, u8)>,
    /// The MTU, 1280 to 65,521 bytes; 1500 fits any network behind it.
    pub mtu_bytes: u32,
    /// Lets the kernel hand over several segments as one.
    pub coalesce: bool,
    /// The most payload of a super-segment over IPv4, up to [`LONG_PAYLOAD_BYTES_MAX`]. Anything above [`PAYLOAD_BYTES_MAX`] needs Linux 6.3.
    pub payload_bytes_max: usize,
}

impl Default for TapSetup {
    fn default() -> Self {
        Self {
            name: "fullbore%d".to_owned(),
            queues: 1,
            addresses: Vec::new(),
            kernel_addresses: Vec::new(),
            mtu_bytes: 1500,
            coalesce: true,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }
}

impl TapSetup {
    /// Creates the device, with one queue for each worker, and makes the kernel route our addresses to it.
    ///
    /// # Errors
    /// The step that failed, and what to do about it. Nothing is left behind then.
    pub fn open(&self) -> Result<Vec<Interface>, SetupError> {
        self.check()?;
        let ours: Arc<[IpAddr]> = self.addresses.as_slice().into();
        let mut name = self.name.clone();
        let mut taps = Vec::new();
        for queue in 0..self.queues {
            let (queues, payload_bytes_max) = (self.queues, self.payload_bytes_max);
            let made = Tap::open(
                &name,
                queue,
                queues,
                self.coalesce,
                payload_bytes_max,
                Arc::clone(&ours),
            );
            let step = || format!("cannot create queue {queue} of the TAP device {name}");
            let (tap, named) = made.map_err(|error| SetupError::new(step(), error))?;
            name = named;
            taps.push(tap);
        }
        let hop = self.connect(&name)?;
        let interface = |tap| Interface {
            name: name.clone(),
            mtu_bytes: self.mtu_bytes,
            device: Device::Tap(tap),
            neighbours: Neighbours::one(hop),
        };
        Ok(taps.into_iter().map(interface).collect())
    }

    fn check(&self) -> Result<(), SetupError> {
        let wrong = |what: String| Err(SetupError::new(what, io::ErrorKind::InvalidInput.into()));
        if self.queues == 0 || self.addresses.is_empty() {
            return wrong("a TAP device needs at least one queue and one address".to_owned());
        }
        if !(MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(&self.mtu_bytes) {
            return wrong(format!(
                "an MTU of {} is not possible: choose one from 1280 to 65521",
                self.mtu_bytes
            ));
        }
        let most = self.payload_bytes_max;
        if most > LONG_PAYLOAD_BYTES_MAX {
            return wrong(format!("super-segments with {most} bytes are too long"));
        }
        if most > PAYLOAD_BYTES_MAX
            && !takes_long(&std::fs::read_to_string(RELEASE).unwrap_or_default())
        {
            return wrong(
                "this kernel takes no frames longer than 65535 bytes, which takes Linux 6.3"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Brings the device up, and returns the next hop to the kernel over it.
    fn connect(&self, name: &str) -> Result<Hop, SetupError> {
        let fail = |step: String| move |error| SetupError::new(step, error);
        let mut netlink = Netlink::route(0).map_err(fail("cannot open netlink".to_owned()))?;
        let link = Link::named(&mut netlink, name).map_err(fail(format!("cannot find {name}")))?;
        link.bring_up(&mut netlink, self.mtu_bytes)
            .map_err(fail(format!("cannot bring {name} up with an MTU of {}", self.mtu_bytes)))?;
        for &(address, prefix_bits) in &self.kernel_addresses {
            link.add_address(&mut netlink, address, prefix_bits)
                .map_err(fail(format!("cannot give {name} the address {address}/{prefix_bits}")))?;
        }
        let source = beside(link.mac);
        for &address in &self.addresses {
            link.add_route(&mut netlink, address)
                .map_err(fail(format!("cannot route {address} to {name}")))?;
            link.add_neighbour(&mut netlink, address, source)
                .map_err(fail(format!("cannot add a neighbour entry for {address}")))?;
        }
        Ok(Hop { destination: link.mac, source, mtu_bytes: self.mtu_bytes })
    }
}

/// Returns true if the kernel takes IPv4 packets whose length is that of their frame.
fn takes_long(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 3),
        _ => false,
    }
}

/// Our station's address: next to the kernel's random one, since no other station is on this wire.
fn beside(mac: Mac) -> Mac {
    let mut ours = mac;
    ours.0[5] ^= 1;
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_frames_are_for_kernels_from_6_3_on() {
        for (release, takes) in [
            ("6.3.0", true),
            ("6.18.44-fc", true),
            ("7.2", true),
            ("6.1.0-28-amd64", false),
            ("5.15.3", false),
            ("", false),
        ] {
            assert_eq!(takes_long(release), takes, "{release}");
        }
    }
}
