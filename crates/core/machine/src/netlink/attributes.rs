//! Attributes in netlink's messages. An attribute with an invalid length ends the iteration; nothing is read beyond the end.

/// Flags in an attribute's type: nested, and in network byte order.
const TYPE_MASK: u16 = 0x3fff;

const NESTED: u16 = 0x8000;

/// An attribute's length and type.
const HEAD_BYTES: usize = 4;

/// Appends an attribute.
pub(crate) fn put(message: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let bytes = u16::try_from(HEAD_BYTES + payload.len()).expect("our attributes are short");
    message.extend(bytes.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(payload);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Appends an attribute that contains others.
pub(crate) fn put_nested(message: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    put(message, kind | NESTED, payload);
}

/// The attributes in `bytes`: type and payload.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
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
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, payload)| payload)
}

/// An attribute that is a number of one, two or four bytes.
pub(crate) fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    match *attribute(bytes, kind)? {
        [byte] => Some(byte.into()),
        [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

/// An attribute that is a text, up to its first zero byte.
pub(crate) fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let text = attribute(bytes, kind)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}
