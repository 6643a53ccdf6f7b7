//! One worker's TCP over one queue of a device. Arriving segments go to the endpoint, and the endpoint's segments go to
//! the device.
//!
//! Nothing waits here, and no payload is held: the caller passes it in when [`Driver::permit`] allows it to be sent.

use crate::Interface;
use crate::compose::{Between, FrameHead};
use crate::drop_reason::DeviceCounters;
use crate::icmp::TooBig;
use crate::kept::Kept;
use crate::neighbours::Resolved;
use crate::parse::Packet;
use crate::siblings::Sibling;
use reactor::{Buffer, Fd};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;
use tcp::{Arrived, Ecn, Endpoint, Id, Transmit, Withheld};

/// How many frames are taken from the device at once. A guess: enough to spread the cost of a turn, and few enough that acknowledgements do not
/// become stale.
const FRAMES_AT_ONCE: usize = 64;

/// The most segments of one send. A peer with tiny segments must not need more room than a device ever has.
const SEGMENTS_MAX: usize = 256;

/// An endpoint and its queue of a device.
pub struct Driver {
    /// TCP.
    pub endpoint: Endpoint,
    interface: Interface,
    sibling: Sibling,
    /// Segments without a route to their peer.
    unrouted: u64,
    /// Buffers that the device reads.
    kept: Kept,
}

/// Why bytes are not sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// TCP does not allow it.
    ByTcp(Withheld),
    /// The device has no room.
    ByDevice,
}

impl Driver {
    /// Drives `endpoint` over `interface`.
    pub fn new(endpoint: Endpoint, interface: Interface, sibling: Sibling) -> Self {
        Self { endpoint, interface, sibling, unrouted: 0, kept: Kept::default() }
    }

    /// Copies of two descriptors to wait for: the device's, and the one that reports changed routes, if there is one.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn descriptors(&self) -> io::Result<(Fd, Option<Fd>)> {
        let device = self.interface.device.fd().try_clone_to_owned()?;
        let news = self.interface.neighbours.fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
        Ok((device.into(), news.map(Into::into)))
    }

    /// Processes the frames that have arrived. Returns whether there may be more.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let Self { endpoint, interface, sibling, .. } = self;
        let Interface { device, neighbours, .. } = interface;
        let received = device.receive(FRAMES_AT_ONCE, |packet| match packet {
            Packet::Tcp(segment) => {
                neighbours.sighted(segment.remote, segment.station);
                let ecn = Ecn::from_bits(segment.ecn);
                let (remote, local) = (segment.remote, segment.local);
                let arrived = Arrived { remote, local, ecn, segment: segment.bytes };
                endpoint.handle_batched(now, arrived);
            }
            Packet::TooBig(too_big) => {
                if !endpoint.has_connection(too_big.remote, too_big.local) {
                    sibling.tell_others(&too_big);
                }
                heed(endpoint, now, &too_big);
            }
            // If no other host answers pings, the device has.
            Packet::Ping(_) => {}
        });
        endpoint.end_batch(now);
        Ok(received? == FRAMES_AT_ONCE)
    }

    /// Processes messages from other workers of the device about connections of this one.
    pub fn hear_others(&mut self, now: Instant) {
        for too_big in self.sibling.told() {
            // The worker that passed it on has counted it, in case no worker has that connection.
            if self.endpoint.has_connection(too_big.remote, too_big.local) {
                heed(&mut self.endpoint, now, &too_big);
            }
        }
    }

    /// Processes changes of the routes to peers.
    ///
    /// # Errors
    /// If the kernel reports no more changes.
    pub fn learn_ways(&mut self) -> io::Result<()> {
        self.interface.neighbours.update()
    }

    /// Sends segments without payload: acknowledgements, handshakes, resets.
    pub fn send_control(&mut self, now: Instant) {
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            self.send(&transmit, &[]);
        }
    }

    /// Returns the part of `range` that may be sent now, at once. Call [`Self::send`] with those bytes next.
    ///
    /// # Errors
    /// Why nothing may be sent.
    pub fn permit(&mut self, now: Instant, id: Id, range: Range<u64>) -> Result<Transmit, Blocked> {
        let segment_bytes =
            self.endpoint.segment_bytes(id).ok_or(Blocked::ByTcp(Withheld::Gone))?;
        let is_ipv4 = self.endpoint.addresses(id).is_some_and(|(remote, _)| remote.is_ipv4());
        let most = self.interface.device.payload_bytes_max(is_ipv4);
        let most = most.min(SEGMENTS_MAX * usize::from(segment_bytes));
        let bytes = most.min((range.end - range.start) as usize);
        if !self.has_room(bytes, segment_bytes) {
            return Err(Blocked::ByDevice);
        }
        self.endpoint.transmit(now, id, range.start, bytes).map_err(Blocked::ByTcp)
    }

    /// Sends one segment or super-segment. If the device does not take it, it is lost, as on any wire, and the device counts it.
    pub fn send(&mut self, transmit: &Transmit, payload: &[&[u8]]) {
        let Resolved::Known(hop) = self.interface.neighbours.resolve(transmit.remote.ip()) else {
            self.unrouted += 1;
            return;
        };
        let between = Between {
            local: transmit.local.ip(),
            remote: transmit.remote.ip(),
            ecn: transmit.ecn.bits(),
        };
        let head =
            FrameHead::tcp(&hop, between, transmit.header.as_bytes(), transmit.payload_bytes());
        let _ = self.interface.device.send(head, payload, transmit.segment_bytes.max(1));
    }

    /// Keeps the buffer of `bytes`, which were just sent, for as long as the device reads it.
    pub fn keep(&mut self, bytes: &[u8], buffer: &Rc<Buffer>) {
        self.kept.keep(&self.interface.device, bytes, buffer);
    }

    /// Makes the device send the queued frames, and releases the buffers that it has read.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.interface.device.flush();
        self.kept.let_go(&mut self.interface.device);
        flushed
    }

    /// Returns true if the device still reads buffers, as far as [`Self::flush`] has found.
    pub fn keeps_buffers(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Returns true if the device takes that many bytes now, in segments of this size.
    fn has_room(&mut self, bytes: usize, segment_bytes: u16) -> bool {
        self.interface.device.can_send(bytes, segment_bytes)
            || self.flush().is_ok() && self.interface.device.can_send(bytes, segment_bytes)
    }

    /// This worker's place among the device's workers.
    pub fn sibling(&mut self) -> &mut Sibling {
        &mut self.sibling
    }

    /// The device's counters.
    pub fn frames(&self) -> &DeviceCounters {
        self.interface.device.statistics()
    }

    /// As [`crate::Device::kernel_counts`].
    pub fn kernel_counts(&self) -> Vec<(&'static str, u64)> {
        self.interface.device.kernel_counts()
    }

    /// Segments without a route to their peer.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }
}

/// Uses smaller packets from now on, if TCP accepts the message.
fn heed(endpoint: &mut Endpoint, now: Instant, too_big: &TooBig) {
    let TooBig { local, remote, sequence, mtu_bytes } = *too_big;
    let mtu_bytes = u16::try_from(mtu_bytes).unwrap_or(u16::MAX);
    endpoint.handle_packet_too_big(now, local, remote, sequence, mtu_bytes);
}
