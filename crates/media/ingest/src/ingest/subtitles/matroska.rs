//! Settings of WebVTT cues in Matroska, where mkvmerge puts them: into the additions of a block (Matroska codec specification, "S_TEXT/WEBVTT"),
//! which ffprobe does not print. It prints where a packet's data is, and the additions are behind it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::packets::Packet;

/// The most bytes that are read behind a packet.
const READ_BYTES_MAX: usize = 4 << 10;
/// Before the data of a block: the number of its track, of one to eight bytes, a time and flags.
const BLOCK_HEADS: std::ops::RangeInclusive<usize> = 4..=11;
/// Names of elements.
const BLOCK_ADDITIONS: u32 = 0x75a1;
const BLOCK_MORE: u32 = 0xa6;
const BLOCK_ADDITIONAL: u32 = 0xa5;

/// Adds to a packet the settings and the identifier of its cue. Without additions it stays as it is.
pub(super) fn complete(film: &File, packet: &mut Packet) {
    let Some(position) = packet.position else { return };
    let mut bytes = vec![0; BLOCK_HEADS.end() + packet.data.len() + READ_BYTES_MAX];
    let Ok(length) = film.read_at(&mut bytes, position) else { return };
    bytes.truncate(length);
    if let Some(addition) = addition(&bytes, &packet.data) {
        let mut lines = addition.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
        packet.settings = lines.next().unwrap_or_default();
        packet.id = lines.next().unwrap_or_default();
    }
}

/// The addition of the block whose head and data are in front of `bytes`.
fn addition<'b>(bytes: &'b [u8], data: &[u8]) -> Option<&'b [u8]> {
    let mut heads = BLOCK_HEADS;
    let behind = heads.find_map(|head| bytes.get(head..)?.strip_prefix(data))?;
    let additions = child(behind, BLOCK_ADDITIONS)?;
    child(child(additions, BLOCK_MORE)?, BLOCK_ADDITIONAL)
}

/// The content of the first element `name` in a row of elements.
fn child(mut bytes: &[u8], name: u32) -> Option<&[u8]> {
    loop {
        let (id, rest) = number(bytes, false)?;
        let (length, rest) = number(rest, true)?;
        let content = rest.get(..usize::try_from(length).ok()?)?;
        if id == u64::from(name) {
            return Some(content);
        }
        bytes = &rest[content.len()..];
    }
}

/// A number of variable length (RFC 8794 section 4), with or without the bit that marks its length, and the bytes after it.
fn number(bytes: &[u8], is_unmarked: bool) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = first.leading_zeros() as usize + 1;
    if length > 8 {
        return None;
    }
    let (own, rest) = bytes.split_at_checked(length)?;
    let number = own.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mark = 1 << (7 * length);
    Some((if is_unmarked { number & (mark - 1) } else { number }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block as mkvmerge writes it: head, data, additions, duration.
    fn block() -> Vec<u8> {
        let mut block = vec![0x82, 0x03, 0xe8, 0x00];
        block.extend(b"text\x9b\x82\x03\xe8\x75\xa1\x93\xa6\x91\xa5\x8fline:10%\nid7\nok");
        block
    }

    #[test]
    fn the_additions_of_a_block_are_behind_it() {
        let block = block();
        assert_eq!(addition(&block, b"text"), Some(&b"line:10%\nid7\nok"[..]));
        assert_eq!(addition(&block, b"other"), None);
        for length in 0..block.len() {
            assert_eq!(addition(&block[..length], b"text"), None, "{length}");
        }
    }

    #[test]
    fn a_packet_gets_settings_and_an_identifier() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [&[0; 9][..], &block()].concat()).unwrap();
        let film = File::open(file.path()).unwrap();
        let mut packet = Packet { data: b"text".into(), position: Some(9), ..Packet::default() };
        complete(&film, &mut packet);
        assert_eq!((&packet.settings[..], &packet.id[..]), (&b"line:10%"[..], &b"id7"[..]));
        let mut elsewhere = Packet { data: b"text".into(), position: Some(0), ..Packet::default() };
        complete(&film, &mut elsewhere);
        assert!(elsewhere.settings.is_empty());
    }
}
