//! Why frames are dropped, with a counter for each reason.

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DropReason {
    /// Shorter than an Ethernet header, or longer than the receive buffer.
    FrameBytes,
    /// Neither IPv4 nor IPv6: ARP, a VLAN tag, anything.
    NotIp,
    /// The IP header contradicts itself or is cut off.
    IpHeader,
    /// The IP header gives more bytes than arrived.
    IpBytes,
    /// IPv4's header checksum is wrong.
    IpChecksum,
    /// IPv4 options or IPv6 extension headers: no viewer uses them, and parsing them is expensive.
    Options,
    /// A fragment. Our segments fit, and so do those of every peer that respects our maximum segment size.
    Fragment,
    /// An impossible source: unspecified, loopback, multicast, broadcast, or our own address.
    Source,
    /// Sent to an address that is not ours.
    NotOurs,
    /// Neither TCP nor an ICMP message that is used here.
    OtherProtocol,
    /// The TCP header contradicts itself or is cut off.
    TcpHeader,
    /// TCP's checksum is wrong.
    TcpChecksum,
    /// The device's description of the frame (offloads) does not match the frame.
    Offload,
    /// An ICMP message that is cut off, has a wrong checksum, or is not about one of our connections.
    Icmp,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 14] = [
        Self::FrameBytes,
        Self::NotIp,
        Self::IpHeader,
        Self::IpBytes,
        Self::IpChecksum,
        Self::Options,
        Self::Fragment,
        Self::Source,
        Self::NotOurs,
        Self::OtherProtocol,
        Self::TcpHeader,
        Self::TcpChecksum,
        Self::Offload,
        Self::Icmp,
    ];

    /// Its name in telemetry.
    pub fn name(self) -> &'static str {
        match self {
            Self::FrameBytes => "frame_bytes",
            Self::NotIp => "not_ip",
            Self::IpHeader => "ip_header",
            Self::IpBytes => "ip_bytes",
            Self::IpChecksum => "ip_checksum",
            Self::Options => "options",
            Self::Fragment => "fragment",
            Self::Source => "source",
            Self::NotOurs => "not_ours",
            Self::OtherProtocol => "other_protocol",
            Self::TcpHeader => "tcp_header",
            Self::TcpChecksum => "tcp_checksum",
            Self::Offload => "offload",
            Self::Icmp => "icmp",
        }
    }
}

/// A device's counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames that arrived; a coalesced frame counts once.
    pub frames_received: u64,
    /// How many of these the kernel had coalesced from several.
    pub coalesced_received: u64,
    /// Frames handed to the kernel; a super-segment that the kernel splits counts once.
    pub frames_sent: u64,
    /// How many of these were super-segments.
    pub super_segments_sent: u64,
    /// Payload in frames handed to the kernel.
    pub payload_bytes_sent: u64,
    /// How much of it this process copied into frames itself. The kernel gathers a TAP's frames directly from the payload's place.
    pub payload_bytes_copied: u64,
    /// Frames that the kernel refused.
    pub send_errors: u64,
    /// Pings answered (only on a TAP, whose addresses are ours alone).
    pub pings_answered: u64,
    /// Dropped frames, by [`DropReason`].
    refused: [u64; DropReason::ALL.len()],
}

impl DeviceCounters {
    /// How many frames were dropped for this reason.
    pub fn refused(&self, reason: DropReason) -> u64 {
        self.refused[reason as usize]
    }

    /// Counts a dropped frame.
    pub(crate) fn refuse(&mut self, reason: DropReason) {
        self.refused[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter_and_name() {
        let mut statistics = DeviceCounters::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            (0..=index).for_each(|_| statistics.refuse(reason));
        }
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(statistics.refused(reason), index as u64 + 1);
        }
        let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }
}
