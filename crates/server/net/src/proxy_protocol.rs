//! The header of the PROXY protocol, version 2, in which a proxy reports the address of the viewer whose connection it passes on.
//!
//! The specification is HAProxy's `proxy-protocol.txt`, section 2.2. A connection begins with the header, and the viewer's bytes follow. This module
//! reads received bytes and does no I/O. It refuses version 1, anything except TCP over IPv4 or IPv6, and headers longer than [`HEADER_BYTES_MAX`].
//! Additions after the addresses (TLVs) are skipped. The caller must read headers only from trusted proxies, and must not serve a trusted proxy's
//! connection without one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The beginning of every header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The part of fixed length: the signature, version and command, family, and the length of the rest.
pub const PREFACE_BYTES: usize = 16;

/// The longest header that is read. The 16-bit length would allow four times as much. Addresses take 36 bytes; a viewer's TLS certificate, which
/// proxies may add, takes a few thousand.
pub const HEADER_BYTES_MAX: usize = 16 << 10;

/// The content of a complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Introduced {
    /// The connection is this viewer's. An IPv4 address is in IPv4 form.
    Viewer(SocketAddr),
    /// The connection is the proxy's own, such as a health check.
    Proxy,
}

/// The state of parsing a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Introduction {
    /// This many bytes are needed before another attempt is worth it. It never asks for bytes after the header.
    Partial {
        /// Bytes from the header's first one.
        needed: usize,
    },
    /// The header is complete.
    Complete {
        /// Its content.
        introduced: Introduced,
        /// Its length.
        consumed: usize,
    },
}

/// Why bytes are not a header. The text is part of a sentence about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyFault {
    /// They begin differently: perhaps with the request itself, or with a header of version 1.
    #[error("it does not begin with a header of version 2")]
    Signature,
    /// The version is not 2.
    #[error("its header does not have version 2")]
    Version,
    /// The command is neither LOCAL nor PROXY.
    #[error("its header has a command other than LOCAL and PROXY")]
    Command,
    /// The proxied connection is not TCP over IPv4 or IPv6.
    #[error("its header is not for TCP over IPv4 or IPv6")]
    Family,
    /// The header is longer than [`HEADER_BYTES_MAX`].
    #[error("its header has more than {HEADER_BYTES_MAX} bytes")]
    TooLong,
    /// The header is too short for its addresses.
    #[error("its header is too short for the addresses")]
    TooShort,
}

impl ProxyFault {
    /// The counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signature => "proxy_signature",
            Self::Version => "proxy_version",
            Self::Command => "proxy_command",
            Self::Family => "proxy_family",
            Self::TooLong => "proxy_too_long",
            Self::TooShort => "proxy_too_short",
        }
    }
}

/// Reads the header that `received` begins with. Each byte is judged as soon as it has arrived, so the result does not depend on the pieces in which
/// a header arrives.
///
/// # Errors
/// If it cannot become a header any more.
pub fn parse(received: &[u8]) -> Result<Introduction, ProxyFault> {
    let known = received.len().min(SIGNATURE.len());
    if received[..known] != SIGNATURE[..known] {
        return Err(ProxyFault::Signature);
    }
    let is_local = received.get(12).map(|byte| is_local(*byte)).transpose()?;
    let family = match (is_local, received.get(13)) {
        // A LOCAL header's family means nothing, and its addresses are skipped.
        (Some(true), _) => Some(Family::Skipped),
        (Some(false), Some(byte)) => Some(Family::of(*byte)?),
        _ => None,
    };
    let (Some(family), Some(length)) = (family, received.get(14..PREFACE_BYTES)) else {
        return Ok(Introduction::Partial { needed: PREFACE_BYTES });
    };
    let consumed = PREFACE_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
    if consumed > HEADER_BYTES_MAX {
        return Err(ProxyFault::TooLong);
    }
    if consumed < PREFACE_BYTES + family.address_bytes() {
        return Err(ProxyFault::TooShort);
    }
    let Some(rest) = received.get(PREFACE_BYTES..consumed) else {
        return Ok(Introduction::Partial { needed: consumed });
    };
    Ok(Introduction::Complete { introduced: family.introduced(rest), consumed })
}

/// Returns true for LOCAL and false for PROXY, of version 2.
fn is_local(version_and_command: u8) -> Result<bool, ProxyFault> {
    match version_and_command {
        0x20 => Ok(true),
        0x21 => Ok(false),
        other if other >> 4 == 2 => Err(ProxyFault::Command),
        _ => Err(ProxyFault::Version),
    }
}

/// The kind of addresses.
#[derive(Clone, Copy)]
enum Family {
    Skipped,
    Tcp4,
    Tcp6,
}

impl Family {
    fn of(byte: u8) -> Result<Self, ProxyFault> {
        match byte {
            0x11 => Ok(Self::Tcp4),
            0x21 => Ok(Self::Tcp6),
            // Without the viewer's address, limits and lists of addresses would be meaningless.
            _ => Err(ProxyFault::Family),
        }
    }

    /// Both addresses and both ports.
    fn address_bytes(self) -> usize {
        match self {
            Self::Skipped => 0,
            Self::Tcp4 => 12,
            Self::Tcp6 => 36,
        }
    }

    /// Reads `rest`, which has at least the addresses: source address, destination address, source port, destination port.
    fn introduced(self, rest: &[u8]) -> Introduced {
        let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        match self {
            Self::Skipped => Introduced::Proxy,
            Self::Tcp4 => {
                let source: [u8; 4] = rest[..4].try_into().expect("four bytes");
                Introduced::Viewer((Ipv4Addr::from(source), port(8)).into())
            }
            Self::Tcp6 => {
                let source: [u8; 16] = rest[..16].try_into().expect("sixteen bytes");
                let source = IpAddr::V6(Ipv6Addr::from(source)).to_canonical();
                Introduced::Viewer((source, port(32)).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A header whose fields have any values.
    fn header(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[version_and_command, family], &length, rest].concat()
    }

    /// 192.0.2.7:50000 to 198.51.100.1:443.
    const V4: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0xc3, 0x50, 1, 0xbb];

    fn v6(source: &str, port: u16) -> Vec<u8> {
        let source: Ipv6Addr = source.parse().unwrap();
        [&source.octets()[..], &[0; 16], &port.to_be_bytes(), &[1, 0xbb]].concat()
    }

    fn complete(bytes: &[u8]) -> (Introduced, usize) {
        match parse(bytes) {
            Ok(Introduction::Complete { introduced, consumed }) => (introduced, consumed),
            other => panic!("{other:?}"),
        }
    }

    fn viewer(address: &str) -> Introduced {
        Introduced::Viewer(address.parse().unwrap())
    }

    #[test]
    fn the_viewers_address_is_the_source() {
        assert_eq!(complete(&header(0x21, 0x11, &V4)), (viewer("192.0.2.7:50000"), 28));
        let long = header(0x21, 0x21, &v6("2001:db8::7", 50_000));
        assert_eq!(complete(&long), (viewer("[2001:db8::7]:50000"), 52));
        let mapped = header(0x21, 0x21, &v6("::ffff:192.0.2.7", 1));
        assert_eq!(complete(&mapped).0, viewer("192.0.2.7:1"));
    }

    #[test]
    fn additions_are_skipped_and_what_follows_is_left() {
        // PP2_TYPE_AUTHORITY, then one with a wrong length: neither is read.
        let rest = [&V4[..], b"\x02\x00\x01h", b"\xee\xff\xff"].concat();
        let bytes = [&header(0x21, 0x11, &rest)[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(complete(&bytes), (viewer("192.0.2.7:50000"), 16 + rest.len()));
    }

    #[test]
    fn a_local_connection_is_the_proxys_whatever_its_addresses() {
        for (family, rest) in [(0x00, &[][..]), (0x11, &V4), (0xff, b"anything"), (0x21, &V4)] {
            let bytes = header(0x20, family, rest);
            assert_eq!(complete(&bytes), (Introduced::Proxy, bytes.len()), "{family:#x}");
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let long = vec![0; HEADER_BYTES_MAX - PREFACE_BYTES + 1];
        for (fault, bytes) in [
            (ProxyFault::Signature, b"GET / HTTP/1.1\r\n".to_vec()),
            (ProxyFault::Signature, b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n".to_vec()),
            (ProxyFault::Signature, b"\r\n\r\n\0\r\nQUIX".to_vec()),
            (ProxyFault::Version, header(0x11, 0x11, &V4)),
            (ProxyFault::Version, header(0x31, 0x11, &V4)),
            (ProxyFault::Command, header(0x22, 0x11, &V4)),
            (ProxyFault::Family, header(0x21, 0x00, &V4)),
            (ProxyFault::Family, header(0x21, 0x12, &V4)),
            (ProxyFault::Family, header(0x21, 0x31, &[0; 216])),
            (ProxyFault::TooShort, header(0x21, 0x11, &V4[..11])),
            (ProxyFault::TooShort, header(0x21, 0x21, &[0; 35])),
            (ProxyFault::TooLong, header(0x21, 0x11, &long)),
            (ProxyFault::TooLong, header(0x20, 0x00, &long)),
        ] {
            assert_eq!(parse(&bytes), Err(fault), "{:?}", &bytes[..16.min(bytes.len())]);
        }
        assert_eq!(complete(&header(0x20, 0x00, &long[1..])).1, HEADER_BYTES_MAX);
    }

    #[test]
    fn nothing_behind_a_header_is_asked_for() {
        let bytes = header(0x21, 0x11, &[&V4[..], &[0; 100]].concat());
        for known in 0..bytes.len() {
            let needed = if known < PREFACE_BYTES { PREFACE_BYTES } else { bytes.len() };
            assert_eq!(parse(&bytes[..known]), Ok(Introduction::Partial { needed }), "{known}");
        }
    }

    /// Headers that are nearly right, so that many of them get far.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        let byte = |likely: &'static [u8]| prop_oneof![9 => proptest::sample::select(likely), 1 => any::<u8>()];
        let rest = vec(any::<u8>(), 0..80);
        let parts = (byte(&[0x20, 0x21]), byte(&[0x11, 0x21]), rest, vec(any::<u8>(), 0..20));
        parts.prop_map(|(command, family, rest, behind)| {
            [header(command, family, &rest), behind].concat()
        })
    }

    proptest! {
        #[test]
        fn the_pieces_in_which_it_comes_do_not_matter(bytes in nearly()) {
            let whole = parse(&bytes);
            let mut outcome = None;
            for known in 0..=bytes.len() {
                match (parse(&bytes[..known]), outcome) {
                    (Ok(Introduction::Partial { needed }), None) => prop_assert!(needed > known),
                    (Ok(Introduction::Partial { .. }), Some(_)) => prop_assert!(false, "it went back"),
                    (done, None) => outcome = Some(done),
                    (done, Some(before)) => prop_assert_eq!(done, before),
                }
            }
            prop_assert_eq!(outcome.unwrap_or(whole), whole);
        }

        #[test]
        fn any_address_comes_through(source in any::<[u8; 16]>(), port in any::<u16>(), more in vec(any::<u8>(), 0..300)) {
            let source = Ipv6Addr::from(source);
            let rest = [v6(&source.to_string(), port), more].concat();
            let bytes = header(0x21, 0x21, &rest);
            let expected = SocketAddr::new(IpAddr::V6(source).to_canonical(), port);
            prop_assert_eq!(complete(&bytes), (Introduced::Viewer(expected), bytes.len()));
        }

        #[test]
        fn any_bytes_get_a_verdict(bytes in vec(any::<u8>(), 0..64)) {
            if let Ok(Introduction::Partial { needed }) = parse(&bytes) {
                prop_assert!(needed > bytes.len() && needed <= HEADER_BYTES_MAX);
            }
        }
    }
}
