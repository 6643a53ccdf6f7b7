//! Attributes in netlink's messages. An attribute with an invalid length ends the iteration; nothing is read beyond the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flags in an attribute's type: nested, and in network byte order.
const TYPE_MASK: u16 = 0x3fff;

const NESTED: u16 = 0x8000;

/// An attribute's length and type.
const HEAD_BYTES: usize = 4;

/// Appends an attribute.
///
/// # Panics
/// If the payload is too long: 64 KiB.
pub fn put(message: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let bytes = u16::try_from(HEAD_BYTES + payload.len()).expect("our attributes are short");
    message.extend(bytes.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(payload);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Appends an attribute that is an address.
pub fn put_ip(message: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => put(message, kind, &address.octets()),
        IpAddr::V6(address) => put(message, kind, &address.octets()),
    }
}

/// Appends an attribute that contains others.
pub fn put_nested(message: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    put(message, kind | NESTED, payload);
}

/// The attributes in `bytes`: type and payload.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..HEAD_BYTES)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & TYPE_MASK;
        let payload = bytes.get(HEAD_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The first attribute of this type.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, payload)| payload)
}

/// An attribute that is a number of one, two or four bytes.
pub fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    match *attribute(bytes, kind)? {
        [byte] => Some(byte.into()),
        [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

/// An attribute that is an address.
pub fn ip(bytes: &[u8], kind: u16) -> Option<IpAddr> {
    as_ip(attribute(bytes, kind)?)
}

/// An address from its four or sixteen bytes.
pub fn as_ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into())).ok()
}

/// An attribute that is a text, up to its first zero byte.
pub fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let text = attribute(bytes, kind)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_composed_is_read() {
        let addresses = ["192.0.2.7", "2001:db8::7"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut bytes = Vec::new();
        put_ip(&mut bytes, 1, addresses[0]);
        put(&mut bytes, 2, b"odd");
        put_ip(&mut bytes, 3, addresses[1]);
        assert_eq!([ip(&bytes, 1), ip(&bytes, 3)], addresses.map(Some));
        assert_eq!(attribute(&bytes, 2), Some(&b"odd"[..]));
        assert_eq!((attribute(&bytes, 4), ip(&bytes, 2)), (None, None));
    }
}
