//! Turns what the kernel hands over into frames as they travel on a wire.
//!
//! A sender's kernel leaves two tasks to the network card: cutting a super-segment of up to 64 KiB into segments (TSO), and completing
//! checksums. A virtual interface passes both on undone, and a packet socket describes them in a virtio-net header (virtio 1.2
//! specification, section 5.1.6) before the frame. The output of this module is complete: segments of the size that the sender wanted, with
//! checksums that a receiver may verify.
//!
//! Refused: super-segments that are not TCP straight after an Ethernet and an IP header, and headers that point outside the frame. Frames
//! that need no work pass unchanged, whatever they contain.

mod flow;

pub use flow::flow_of;

/// The size of a virtio-net header in front of a frame.
pub const OFFLOAD_BYTES: usize = 10;

const ETHERNET_BYTES: usize = 14;
const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const IPV6_BYTES: usize = 40;
const PROTOCOL_TCP: u8 = 6;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Flag next to the type: the segments belong to a connection with ECN.
const GSO_ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Why a frame is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A super-segment of a kind that this module cannot cut.
    #[error("a super-segment that is not TCP over IP")]
    UnknownOffload,
    /// Headers that contradict each other or the frame's length.
    #[error("headers that contradict the frame")]
    Malformed,
}

/// The work that the kernel left to the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    needs_checksum: bool,
    gso_type: u8,
    segment_bytes: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl Offload {
    /// Reads a virtio-net header, whose numbers are in this machine's byte order.
    #[must_use]
    pub fn parse(header: &[u8; OFFLOAD_BYTES]) -> Self {
        let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Self {
            needs_checksum: header[0] & NEEDS_CHECKSUM != 0,
            gso_type: header[1] & !GSO_ECN,
            segment_bytes: number(4),
            checksum_start: number(6),
            checksum_offset: number(8),
        }
    }
}

/// Passes each complete frame that `frame` stands for to `carry`, in order. `frame` begins with its Ethernet header.
///
/// # Errors
/// [`Refused`], in which case no frame was passed on.
pub fn make_whole(
    offload: &Offload,
    frame: &mut [u8],
    mut carry: impl FnMut(&[u8]),
) -> Result<(), Refused> {
    match offload.gso_type {
        GSO_NONE if offload.needs_checksum => {
            complete_checksum(offload, frame)?;
            carry(frame);
        }
        GSO_NONE => carry(frame),
        GSO_TCPV4 | GSO_TCPV6 => SuperSegment::parse(offload, frame)?.cut(carry),
        _ => return Err(Refused::UnknownOffload),
    }
    Ok(())
}

/// Position of the checksum in UDP's header (RFC 768).
const UDP_CHECKSUM_AT: usize = 6;

/// The sender has put the pseudo-header's sum into the checksum field; adds the rest.
fn complete_checksum(offload: &Offload, frame: &mut [u8]) -> Result<(), Refused> {
    let at = offload.checksum_start + offload.checksum_offset;
    if at + 2 > frame.len() {
        return Err(Refused::Malformed);
    }
    let checksum = match !fold(sum(&frame[offload.checksum_start..])) {
        // 0 means "none" in UDP, so the other zero of one's complement is used instead (RFC 768). TCP has no such rule.
        0 if offload.checksum_offset == UDP_CHECKSUM_AT => 0xffff,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// A TCP segment that is larger than a frame may be.
struct SuperSegment<'a> {
    frame: &'a [u8],
    is_ipv6: bool,
    tcp_start: usize,
    payload_start: usize,
    segment_bytes: usize,
}

impl<'a> SuperSegment<'a> {
    fn parse(offload: &Offload, frame: &'a [u8]) -> Result<Self, Refused> {
        let ethernet_type = frame.get(12..ETHERNET_BYTES).ok_or(Refused::Malformed)?;
        let ip = &frame[ETHERNET_BYTES..];
        let (ip_bytes, protocol) = if ethernet_type == TYPE_IPV4 {
            let first = ip.first().ok_or(Refused::Malformed)?;
            (usize::from(first & 0x0f) * 4, ip.get(9))
        } else if ethernet_type == TYPE_IPV6 {
            (IPV6_BYTES, ip.get(6))
        } else {
            return Err(Refused::UnknownOffload);
        };
        if protocol.ok_or(Refused::Malformed)? != &PROTOCOL_TCP {
            return Err(Refused::UnknownOffload);
        }
        let tcp_start = ETHERNET_BYTES + ip_bytes;
        let data_offset = frame.get(tcp_start + 12).ok_or(Refused::Malformed)?;
        let tcp_bytes = usize::from(data_offset >> 4) * 4;
        let payload_start = tcp_start + tcp_bytes;
        let is_sound = ip_bytes >= 20 && tcp_bytes >= 20 && payload_start <= frame.len();
        if !is_sound || offload.segment_bytes == 0 {
            return Err(Refused::Malformed);
        }
        let is_ipv6 = ethernet_type == TYPE_IPV6;
        let segment_bytes = offload.segment_bytes;
        Ok(Self { frame, is_ipv6, tcp_start, payload_start, segment_bytes })
    }

    fn cut(&self, mut carry: impl FnMut(&[u8])) {
        let payload = &self.frame[self.payload_start..];
        let count = payload.len().div_ceil(self.segment_bytes).max(1);
        let mut segment = Vec::with_capacity(self.payload_start + self.segment_bytes);
        for index in 0..count {
            let from = index * self.segment_bytes;
            let until = payload.len().min(from + self.segment_bytes);
            segment.clear();
            segment.extend_from_slice(&self.frame[..self.payload_start]);
            segment.extend_from_slice(&payload[from..until]);
            self.number_ip(&mut segment, index);
            self.number_tcp(&mut segment, from, index == 0, index + 1 == count);
            carry(&segment);
        }
    }

    /// Sets the lengths, and for IPv4 the identification, which counts up from segment to segment, and the header's checksum.
    fn number_ip(&self, segment: &mut [u8], index: usize) {
        let ip_bytes = segment.len() - ETHERNET_BYTES;
        let ip = &mut segment[ETHERNET_BYTES..];
        if self.is_ipv6 {
            ip[4..6].copy_from_slice(&low_half(ip_bytes - IPV6_BYTES).to_be_bytes());
            return;
        }
        ip[2..4].copy_from_slice(&low_half(ip_bytes).to_be_bytes());
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(low_half(index));
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = !fold(sum(&ip[..self.tcp_start - ETHERNET_BYTES]));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Sets the sequence number, the flags that belong to only one end of the whole (CWR: RFC 3168 section 6.1.2), and the checksum.
    fn number_tcp(&self, segment: &mut [u8], offset: usize, is_first: bool, is_last: bool) {
        let tcp = &mut segment[self.tcp_start..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        // A super-segment has fewer than 2^32 bytes, and sequence numbers wrap.
        let sequence = sequence.wrapping_add(offset as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !is_first {
            tcp[13] &= !CWR;
        }
        if !is_last {
            tcp[13] &= !(FIN | PSH);
        }
        tcp[16..18].fill(0);
        let checksum = !fold(self.pseudo_header_sum(segment) + sum(&segment[self.tcp_start..]));
        segment[self.tcp_start + 16..self.tcp_start + 18].copy_from_slice(&checksum.to_be_bytes());
    }

    /// RFC 9293 section 3.1, RFC 8200 section 8.1.
    fn pseudo_header_sum(&self, segment: &[u8]) -> u64 {
        let addresses = if self.is_ipv6 { 8..40 } else { 12..20 };
        let addresses = &segment[ETHERNET_BYTES..][addresses];
        sum(addresses) + u64::from(PROTOCOL_TCP) + (segment.len() - self.tcp_start) as u64
    }
}

/// The low 16 bits, which fit into a header's field.
fn low_half(number: usize) -> u16 {
    (number & 0xffff) as u16
}

/// The one's complement sum of RFC 1071, before folding. 2^32 words fit without overflow.
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut total = 0_u64;
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    total + u64::from(u32::from_be_bytes(last))
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    low_half(total as usize)
}

#[cfg(test)]
mod tests;
