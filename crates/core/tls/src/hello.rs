//! Reads a ClientHello before rustls sees it: rules that rustls does not enforce, and facts that later decisions need.
//!
//! A hello that does not parse is left to rustls, which reports the fault. Nothing here allocates.

use crate::error::HandshakeError;
use crate::record::handshake_type;

/// TLS 1.2 and 1.3 on the wire.
pub(crate) const TLS12: u16 = 0x0303;
pub(crate) const TLS13: u16 = 0x0304;

/// Not a cipher: the client offers less than it can, because a handshake failed before (RFC 7507 section 3).
const FALLBACK_SCSV: [u8; 2] = [0x56, 0x00];

/// Numbers of extensions.
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const RENEGOTIATION_INFO: u16 = 0xff01;

/// The parts of a first ClientHello that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Set if the client knows no TLS 1.2: it names an older version, and lists no versions (RFC 8446 section 4.2.1).
    pub(crate) predates_tls12: bool,
    /// Set if early data follows. It is for another server, because this one accepts none.
    pub(crate) brings_early_data: bool,
}

impl Hello {
    /// Reads a connection's first ClientHello, given as a whole handshake message. `highest` is the highest version that this server speaks.
    ///
    /// # Errors
    /// [`HandshakeError::RenegotiationInfo`], [`HandshakeError::InappropriateFallback`].
    pub(crate) fn read(message: &[u8], highest: u16) -> Result<Self, HandshakeError> {
        let Some(parts) = Parts::of(message) else { return Ok(Self::default()) };
        // RFC 5746 section 3.6: the extension has content only in a hello that renegotiates.
        if parts.extension(RENEGOTIATION_INFO).is_some_and(|info| info != [0]) {
            return Err(HandshakeError::RenegotiationInfo);
        }
        if parts.offers(FALLBACK_SCSV) && parts.highest_version() < highest {
            return Err(HandshakeError::InappropriateFallback);
        }
        Ok(Self {
            predates_tls12: parts.version < TLS12 && parts.extension(SUPPORTED_VERSIONS).is_none(),
            brings_early_data: parts.extension(EARLY_DATA).is_some(),
        })
    }
}

/// The length of the handshake message at the front of `bytes`, once its header is there (RFC 8446 section 4).
pub(crate) fn message_bytes(bytes: &[u8]) -> Option<usize> {
    let &[_, a, b, c] = bytes.first_chunk()?;
    Some(4 + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// A ClientHello taken apart (RFC 8446 section 4.1.2).
struct Parts<'a> {
    version: u16,
    suites: &'a [u8],
    extensions: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(message: &'a [u8]) -> Option<Self> {
        const RANDOM_BYTES: usize = 32;
        let &[handshake_type::CLIENT_HELLO, _, _, _, major, minor, ref hello @ ..] = message else {
            return None;
        };
        let (_, session_id) = hello.split_at_checked(RANDOM_BYTES)?;
        let (_, suites) = split_vector(session_id, 1)?;
        let (suites, compressions) = split_vector(suites, 2)?;
        let (_, extensions) = split_vector(compressions, 1)?;
        // Clients before TLS 1.2 may have none.
        let extensions = split_vector(extensions, 2).map_or(&[][..], |(extensions, _)| extensions);
        Some(Self { version: u16::from_be_bytes([major, minor]), suites, extensions })
    }

    fn offers(&self, suite: [u8; 2]) -> bool {
        self.suites.chunks_exact(2).any(|offered| offered == suite)
    }

    /// The content of an extension; `None` if the client does not send it.
    fn extension(&self, number: u16) -> Option<&'a [u8]> {
        let mut rest = self.extensions;
        while let Some((own_number, behind)) = rest.split_at_checked(2) {
            let (body, next) = split_vector(behind, 2)?;
            if own_number == number.to_be_bytes() {
                return Some(body);
            }
            rest = next;
        }
        None
    }

    /// The highest version that the client speaks, among those that this server knows.
    fn highest_version(&self) -> u16 {
        let Some(listed) = self.extension(SUPPORTED_VERSIONS) else {
            return self.version.min(TLS12);
        };
        let listed = split_vector(listed, 1).map_or(&[][..], |(versions, _)| versions);
        let versions = listed.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        // Others are future versions, or no versions at all (RFC 8701).
        versions.filter(|version| *version <= TLS13).max().unwrap_or(0)
    }
}

/// Splits off the vector at the front of `bytes`, whose length takes `length_bytes`. Returns its content and the rest.
fn split_vector(bytes: &[u8], length_bytes: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(length_bytes)?;
    let length = length.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these extensions, each with its number.
    fn hello(version: u16, suites: &[[u8; 2]], extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
        let extensions = extensions
            .iter()
            .flat_map(|(number, body)| [number.to_be_bytes().to_vec(), with_length(body)].concat());
        let extensions: Vec<u8> = extensions.collect();
        let body = [
            &version.to_be_bytes()[..],
            &[7; 32],
            &[0],
            &with_length(&suites.concat()),
            &[1, 0],
            &with_length(&extensions),
        ];
        let body = body.concat();
        let length = (body.len() as u32).to_be_bytes();
        [&[handshake_type::CLIENT_HELLO, length[1], length[2], length[3]], &body[..]].concat()
    }

    const SUITES: &[[u8; 2]] = &[[0x13, 0x01], FALLBACK_SCSV];

    #[test]
    fn a_fallback_below_what_both_sides_speak_is_inappropriate() {
        let only12: (u16, &[u8]) = (SUPPORTED_VERSIONS, &[2, 3, 3]);
        let both: (u16, &[u8]) = (SUPPORTED_VERSIONS, &[6, 0x0a, 0x0a, 3, 4, 3, 3]);
        let future: (u16, &[u8]) = (SUPPORTED_VERSIONS, &[4, 0xfa, 0xfa, 3, 3]);
        let refused = Err(HandshakeError::InappropriateFallback);
        for (version, extensions, highest, expected) in [
            (TLS12, &[][..], TLS13, refused),
            (TLS12, &[only12][..], TLS13, refused),
            (TLS12, &[future][..], TLS13, refused),
            (0x0302, &[][..], TLS12, refused),
            (TLS12, &[both][..], TLS13, Ok(Hello::default())),
            (TLS12, &[][..], TLS12, Ok(Hello::default())),
            (TLS12, &[both][..], TLS12, Ok(Hello::default())),
        ] {
            let message = hello(version, SUITES, extensions);
            assert_eq!(Hello::read(&message, highest), expected, "{version:x} {extensions:?}");
        }
        let without = hello(TLS12, &SUITES[..1], &[]);
        assert_eq!(Hello::read(&without, TLS13), Ok(Hello::default()));
    }

    #[test]
    fn renegotiation_info_is_empty_in_a_first_hello() {
        let read = |info: &'static [u8]| {
            Hello::read(&hello(TLS12, &SUITES[..1], &[(RENEGOTIATION_INFO, info)]), TLS13)
        };
        assert_eq!(read(&[0]), Ok(Hello::default()));
        for info in [&[][..], &[1, 7], &[0, 0], &[12, 1, 2, 3]] {
            assert_eq!(read(info), Err(HandshakeError::RenegotiationInfo), "{info:?}");
        }
    }

    #[test]
    fn what_does_not_parse_is_left_to_others() {
        let whole = hello(TLS12, SUITES, &[(RENEGOTIATION_INFO, &[1, 7])]);
        for cut in 0..whole.len() {
            let _ = Hello::read(&whole[..cut], TLS13);
        }
        assert_eq!(Hello::read(&[2, 0, 0, 1, 0], TLS13), Ok(Hello::default()));
        assert_eq!(message_bytes(&whole), Some(whole.len()));
        assert_eq!(message_bytes(&whole[..3]), None);
    }
}
