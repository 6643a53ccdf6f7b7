//! Messages of netlink (netlink(7), rtnetlink(7)): a header, a fixed part, attributes; each padded to four bytes.
//!
//! Numbers are in native byte order, addresses in network byte order. The kernel is trusted, but only within the bytes
//! that arrived: lengths that do not fit end a message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER_BYTES: usize = 16;

/// A message to the kernel.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A message of this kind (`RTM_*`) with flags (`NLM_F_*`) and the fixed part of its kind.
    pub(crate) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    /// Adds an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let bytes = (4 + value.len()) as u16;
        self.0.extend_from_slice(&bytes.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute that is an address.
    pub(crate) fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// The bytes, with their length and a sequence number, which the answer repeats.
    pub(crate) fn finish(&mut self, sequence: u32) -> &[u8] {
        let bytes = self.0.len() as u32;
        self.0[..4].copy_from_slice(&bytes.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.0
    }

    /// Returns true if the answer is a list, which ends with a message of its own.
    pub(crate) fn is_dump(&self) -> bool {
        let flags = u16::from_ne_bytes([self.0[6], self.0[7]]);
        i32::from(flags) & libc::NLM_F_DUMP == libc::NLM_F_DUMP
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The fixed part and the attributes.
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The fixed part, and the attributes after it.
    pub(crate) fn split<const N: usize>(&self) -> Option<(&'a [u8; N], Attributes<'a>)> {
        let (fixed, rest) = self.body.split_first_chunk::<N>()?;
        Some((fixed, Attributes(rest)))
    }

    /// The result in an `NLMSG_ERROR`: success, or an error.
    pub(crate) fn outcome(&self) -> std::io::Result<()> {
        let code = self.body.first_chunk().map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
        if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(-code)) }
    }
}

/// The messages in the received bytes.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header = self.0.first_chunk::<HEADER_BYTES>()?;
        let bytes = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let body = self.0.get(HEADER_BYTES..bytes)?;
        self.0 = self.0.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
            body,
        })
    }
}

/// Attributes: kind and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this kind.
    pub(crate) fn find(self, wanted: u16) -> Option<&'a [u8]> {
        let mut attributes = self;
        attributes.find_map(|(kind, value)| (kind == wanted).then_some(value))
    }

    /// The same, as a number.
    pub(crate) fn number(self, wanted: u16) -> Option<u32> {
        self.find(wanted)?.first_chunk().map(|value| u32::from_ne_bytes(*value))
    }

    /// The same, as an address.
    pub(crate) fn ip(self, wanted: u16) -> Option<IpAddr> {
        as_ip(self.find(wanted)?)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let header = self.0.first_chunk::<4>()?;
        let bytes = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two upper bits give the value's encoding.
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = self.0.get(4..bytes)?;
        self.0 = self.0.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// An address from its four or sixteen bytes.
pub(crate) fn as_ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into()),
        16 => bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// The length of a prefix that is one address.
pub(crate) fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_composed_is_read() {
        let address = IpAddr::from([192, 0, 2, 7]);
        let mut request = Request::new(24, 0, &[9; 12]).address(1, address).attribute(2, b"odd");
        let bytes = request.finish(77).to_vec();
        let messages: Vec<_> = Messages(&bytes).collect();
        let [message] = messages[..] else { panic!("one message, not {messages:?}") };
        assert_eq!((message.kind, message.sequence), (24, 77));
        let (fixed, attributes) = message.split::<12>().unwrap();
        assert_eq!(fixed, &[9; 12]);
        assert_eq!(attributes.ip(1), Some(address));
        assert_eq!(attributes.find(2), Some(&b"odd"[..]));
        assert_eq!(attributes.find(3), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for message in Messages(&bytes) {
                if let Some((_, attributes)) = message.split::<12>() {
                    prop_assert!(attributes.count() <= bytes.len() / 4);
                }
                let _ = message.outcome();
            }
        }
    }
}
