//! The codec of a track in the form that manifests use (RFC 6381 section 3.3; for each codec, the annex of its file format), read from the
//! sample description in the track's head.

use super::Mp4Error;
use super::boxes::child;
use std::fmt::Write;

/// The number of bytes before the boxes in the sample entry of a picture or a sound.
pub(super) const VISUAL_ENTRY_BYTES: usize = 78;
const AUDIO_ENTRY_BYTES: usize = 28;

/// The codec of the first track in `head`, the content of a 'moov'.
pub(super) fn of(head: &[u8]) -> Result<String, Mp4Error> {
    named(head).ok_or(Mp4Error::Broken("its codec is unknown"))
}

/// Its first sample entry: the type and the content.
pub(super) fn entry(head: &[u8]) -> Option<(&[u8; 4], &[u8])> {
    let path = [b"trak", b"mdia", b"minf", b"stbl", b"stsd"];
    let descriptions = path.iter().try_fold(head, |boxes, kind| child(boxes, kind))?;
    // Version and flags, count; then the first entry, a box.
    let entry = descriptions.get(8..)?;
    let kind: &[u8; 4] = entry.get(4..)?.first_chunk()?;
    Some((kind, child(entry, kind)?))
}

fn named(head: &[u8]) -> Option<String> {
    let (kind, entry) = entry(head)?;
    match kind {
        b"avc1" | b"avc3" => avc(kind, child(entry.get(VISUAL_ENTRY_BYTES..)?, b"avcC")?),
        b"hvc1" | b"hev1" => hevc(kind, child(entry.get(VISUAL_ENTRY_BYTES..)?, b"hvcC")?),
        b"av01" => av1(child(entry.get(VISUAL_ENTRY_BYTES..)?, b"av1C")?),
        b"vp09" => vp9(child(entry.get(VISUAL_ENTRY_BYTES..)?, b"vpcC")?),
        b"mp4a" => mp4a(child(entry.get(AUDIO_ENTRY_BYTES..)?, b"esds")?),
        b"Opus" => Some("opus".into()),
        // ETSI TS 102 366 annex F, and "Encapsulation of FLAC in ISO Base Media File Format".
        b"ac-3" | b"ec-3" | b"fLaC" => Some(name(kind)),
        _ => None,
    }
}

fn name(kind: &[u8; 4]) -> String {
    kind.iter().map(|&byte| char::from(byte)).collect()
}

/// ISO/IEC 14496-15 annex E: profile, constraints and level as they are in the configuration.
fn avc(kind: &[u8; 4], configuration: &[u8]) -> Option<String> {
    let [_, profile, constraints, level, ..] = configuration else { return None };
    Some(format!("{}.{profile:02x}{constraints:02x}{level:02x}", name(kind)))
}

/// ISO/IEC 14496-15 annex E.3: compatibility flags in reverse, constraints without trailing zeros.
fn hevc(kind: &[u8; 4], configuration: &[u8]) -> Option<String> {
    let [_, profile, c0, c1, c2, c3, constraints @ ..] = configuration else { return None };
    let (constraints, level) = (constraints.get(..6)?, constraints.get(6)?);
    let space = ["", "A", "B", "C"][usize::from(profile >> 6)];
    let tier = if profile & 0x20 == 0 { 'L' } else { 'H' };
    let compatible = u32::from_be_bytes([*c0, *c1, *c2, *c3]).reverse_bits();
    let mut text = format!("{}.{space}{}.{compatible:X}.{tier}{level}", name(kind), profile & 0x1f);
    let used = constraints.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    for byte in &constraints[..used] {
        let _ = write!(text, ".{byte:X}"); // writing to a String cannot fail
    }
    Some(text)
}

/// "AV1 Codec ISO Media File Format Binding" section 5: profile, level and tier, depth.
fn av1(configuration: &[u8]) -> Option<String> {
    let [_, first, second, ..] = configuration else { return None };
    let tier = if second & 0x80 == 0 { 'M' } else { 'H' };
    let depth = match (second & 0x40 != 0, second & 0x20 != 0) {
        (true, true) => 12,
        (true, false) => 10,
        _ => 8,
    };
    Some(format!("av01.{}.{:02}{tier}.{depth:02}", first >> 5, first & 0x1f))
}

/// "VP Codec ISO Media File Format Binding": profile, level, depth; then subsampling, colours and range, if all colours are stated.
fn vp9(configuration: &[u8]) -> Option<String> {
    let [_, _, _, _, profile, level, packed, primaries, transfer, matrix, ..] = configuration
    else {
        return None;
    };
    let (depth, subsampling, is_full) = (packed >> 4, packed >> 1 & 7, packed & 1);
    let short = format!("vp09.{profile:02}.{level:02}.{depth:02}");
    const UNSPECIFIED: u8 = 2;
    if [primaries, transfer, matrix].contains(&&UNSPECIFIED) {
        return Some(short);
    }
    Some(format!("{short}.{subsampling:02}.{primaries:02}.{transfer:02}.{matrix:02}.{is_full:02}"))
}

/// The number of AAC's arrangement of channels (ISO/IEC 14496-3 section 1.6.2.1, channelConfiguration), from the first track in `head`, the
/// content of a 'moov'. `None` for other codecs, free arrangements, and mono and stereo: parametric stereo has the number of mono.
pub(super) fn channel_configuration(head: &[u8]) -> Option<u32> {
    const STEREO: u8 = 2;
    /// The sampling rate follows as a number.
    const ESCAPED_RATE: u8 = 15;
    let (b"mp4a", entry) = entry(head)? else { return None };
    let (_, specific) = decoder(child(entry.get(AUDIO_ENTRY_BYTES..)?, b"esds")?)?;
    let [first, second, ..] = specific? else { return None };
    let rate = (first & 7) << 1 | second >> 7;
    // Neither AAC-LC nor its extensions have an object type above 30 or an escaped rate.
    let is_short = first >> 3 != 31 && rate != ESCAPED_RATE;
    let number = second >> 3 & 15;
    (is_short && number > STEREO).then_some(u32::from(number))
}

/// ISO/IEC 14496-1 section 7.2.6: the decoder's type and, for AAC, its configuration.
fn decoder(esds: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    const STREAM: u8 = 3;
    const DECODER: u8 = 4;
    const SPECIFIC: u8 = 5;
    let stream = descriptor(esds.get(4..)?, STREAM)?;
    // Its ID and flags. No writer includes the optional fields that the flags could announce.
    let decoder = descriptor(stream.get(3..)?, DECODER)?;
    let kind = decoder.first()?;
    Some((*kind, decoder.get(13..).and_then(|rest| descriptor(rest, SPECIFIC))))
}

/// The decoder's type and, for AAC, the audio object type.
fn mp4a(esds: &[u8]) -> Option<String> {
    let (kind, specific) = decoder(esds)?;
    let Some(specific) = specific else { return Some(format!("mp4a.{kind:02x}")) };
    let [first, second, ..] = specific else { return None };
    let object = match first >> 3 {
        31 => 32 + ((first & 7) << 3 | second >> 5),
        object => object,
    };
    Some(format!("mp4a.{kind:02x}.{object}"))
}

/// The content of the descriptor `tag` at the start of `bytes`. Lengths are seven bits per byte.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (&found, mut rest) = bytes.split_first()?;
    let mut length = 0_usize;
    for _ in 0..4 {
        let (&byte, behind) = rest.split_first()?;
        (length, rest) = (length << 7 | usize::from(byte & 0x7f), behind);
        if byte & 0x80 == 0 {
            break;
        }
    }
    if found == tag { rest.get(..length) } else { None }
}
