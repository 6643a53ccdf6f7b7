//! Writes the static metadata of high dynamic range into the head of a track file: the boxes 'mdcv' and 'clli' of the sample description
//! (ISO/IEC 14496-12 sections 12.1.8 and 12.1.9).
//!
//! ffmpeg writes these boxes only if its input's container has them, and then also into pictures that it has converted to standard range. So
//! they are set here: in a picture of high dynamic range those of the source, in others none.
//!
//! Nothing behind the head moves. The tag with the name of the muxer ('udta'), which no player needs, makes room for the boxes, and a 'free'
//! box after the head fills what remains.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::Mp4Error;
use super::boxes::{Content, TopLevel, top_level};
use super::codec::VISUAL_ENTRY_BYTES;
use crate::hdr_metadata::HdrMetadata;

/// Size and type of a box.
const HEADER_BYTES: usize = 8;
/// The boxes from the head to the sample entry.
const PATH: [&[u8; 4]; 5] = [b"trak", b"mdia", b"minf", b"stbl", b"stsd"];
/// Version and flags, and the number of entries.
const DESCRIPTIONS_BYTES: usize = 8;

/// Sets the metadata of the track file at `path`, a picture. A file whose head has no room for it stays as it is: HEVC and AV1 have the same
/// metadata in their stream.
pub(crate) fn set_static_metadata(path: &Path, metadata: &HdrMetadata) -> Result<(), Mp4Error> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    let TopLevel { head: Content { range, .. }, .. } = top_level(&mut file, bytes)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut head = vec![0; (range.end - range.start) as usize];
    file.read_exact(&mut head)?;
    if let Some(written) = with_metadata(&head, &boxes(metadata)).filter(|it| *it != head) {
        file.seek(SeekFrom::Start(range.start))?;
        file.write_all(&written)?;
    }
    Ok(())
}

fn boxes(metadata: &HdrMetadata) -> Vec<u8> {
    let mut boxes = Vec::new();
    if let Some(one) = metadata.mastering {
        let points = one.points.as_flattened().iter().flat_map(|part| part.to_be_bytes());
        let light = [one.luminance_max, one.luminance_min].map(u32::to_be_bytes);
        boxes.extend(boxed(b"mdcv", &points.chain(light.concat()).collect::<Vec<_>>()));
    }
    if let Some(one) = metadata.light {
        let levels = [one.content_max, one.frame_average_max].map(u16::to_be_bytes);
        boxes.extend(boxed(b"clli", &levels.concat()));
    }
    boxes
}

fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = (HEADER_BYTES + content.len()) as u32;
    [&size.to_be_bytes()[..], kind, content].concat()
}

/// The bytes that take the place of `head`, a 'moov': the same with exactly these boxes of metadata, then 'free'. `None` if there is no room.
fn with_metadata(head: &[u8], metadata: &[u8]) -> Option<Vec<u8>> {
    let content = head.strip_prefix(&(head.len() as u32).to_be_bytes())?.strip_prefix(b"moov")?;
    let changed = described(content, &PATH, metadata)?;
    let fits = |content: Vec<u8>| {
        let head_of = boxed(b"moov", &content);
        let rest = head.len().checked_sub(head_of.len())?;
        match rest {
            0 => Some(head_of),
            1..HEADER_BYTES => None,
            _ => Some([head_of, boxed(b"free", &vec![0; rest - HEADER_BYTES])].concat()),
        }
    };
    if changed == content {
        return Some(head.to_vec());
    }
    fits(changed.clone()).or_else(|| fits(without(&changed, &[b"udta"])?))
}

/// `boxes` with the metadata in the sample entry below the first box of each type in `path`.
fn described(boxes: &[u8], path: &[&[u8; 4]], metadata: &[u8]) -> Option<Vec<u8>> {
    let Some((kind, rest)) = path.split_first() else { return entry(boxes, metadata) };
    let (mut all, mut is_found) = (Vec::new(), false);
    for one in each(boxes) {
        let (found, content) = one?;
        if !is_found && found == *kind {
            is_found = true;
            all.extend(boxed(found, &described(content, rest, metadata)?));
        } else {
            all.extend(boxed(found, content));
        }
    }
    is_found.then_some(all)
}

/// The content of 'stsd' with the metadata at the end of its only entry.
fn entry(descriptions: &[u8], metadata: &[u8]) -> Option<Vec<u8>> {
    let (front, entries) = descriptions.split_at_checked(DESCRIPTIONS_BYTES)?;
    let (kind, content) = each(entries).next()??;
    if HEADER_BYTES + content.len() != entries.len() {
        return None;
    }
    let (fields, boxes) = content.split_at_checked(VISUAL_ENTRY_BYTES)?;
    let others = without(boxes, &[b"mdcv", b"clli"])?;
    Some([front, &boxed(kind, &[fields, &others, metadata].concat())].concat())
}

fn without(boxes: &[u8], kinds: &[&[u8; 4]]) -> Option<Vec<u8>> {
    let kept = each(boxes).filter(|one| one.is_none_or(|(kind, _)| !kinds.contains(&kind)));
    let kept = kept.map(|one| one.map(|(kind, content)| boxed(kind, content)));
    Some(kept.collect::<Option<Vec<_>>>()?.concat())
}

/// The boxes of a sequence, by type and content; ends with `None` if the last one is cut.
fn each(boxes: &[u8]) -> impl Iterator<Item = Option<(&[u8; 4], &[u8])>> {
    let mut rest = boxes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let one = first(rest);
        rest = one.map_or(&[], |(_, content)| &rest[HEADER_BYTES + content.len()..]);
        Some(one)
    })
}

fn first(boxes: &[u8]) -> Option<(&[u8; 4], &[u8])> {
    let size = u32::from_be_bytes(*boxes.first_chunk()?) as usize;
    let kind = boxes.get(4..)?.first_chunk()?;
    Some((kind, boxes.get(HEADER_BYTES..size)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdr_metadata::{LightLevel, Mastering};

    /// A head whose sample entry has these boxes, and 'udta' of this size.
    fn head(boxes: &[u8], udta_bytes: usize) -> Vec<u8> {
        let sample = boxed(b"hvc1", &[&[0; VISUAL_ENTRY_BYTES], boxes].concat());
        let mut inner = boxed(b"stsd", &[&[0; 8], &sample[..]].concat());
        for kind in PATH[..4].iter().rev() {
            inner = boxed(kind, &[boxed(b"skip", b"a"), inner, boxed(b"skip", b"b")].concat());
        }
        boxed(b"moov", &[inner, boxed(b"udta", &vec![7; udta_bytes - HEADER_BYTES])].concat())
    }

    fn metadata() -> HdrMetadata {
        HdrMetadata {
            mastering: Some(Mastering {
                points: [[1, 2], [3, 4], [5, 6], [7, 8]],
                luminance_max: 9,
                luminance_min: 10,
            }),
            light: Some(LightLevel { content_max: 11, frame_average_max: 12 }),
            has_hdr10_plus: false,
        }
    }

    #[test]
    fn metadata_takes_the_place_of_the_muxers_tag() {
        let [colr, all] = [boxed(b"colr", b"x"), boxes(&metadata())];
        assert_eq!(all.len(), 32 + 12);
        let old = head(&colr, 98);
        let new = with_metadata(&old, &all).unwrap();
        assert_eq!(new.len(), old.len());
        let sizes: Vec<_> =
            each(&new).map(|one| one.map(|(kind, content)| (*kind, content.len()))).collect();
        assert_eq!(sizes[1], Some((*b"free", 98 - 44 - HEADER_BYTES)));
        // Without the tag, only the entry has grown.
        let grown = head(&[&colr[..], &all].concat(), 98);
        assert_eq!(new[8..new.len() - 98 + 44], grown[8..grown.len() - 98]);
        // A second time changes nothing.
        let moov = &new[..new.len() - 98 + 44];
        assert_eq!(with_metadata(moov, &all).unwrap(), moov);
    }

    #[test]
    fn metadata_of_a_source_is_removed_from_a_converted_picture() {
        let old = head(&[boxes(&metadata()), boxed(b"colr", b"x")].concat(), 98);
        let new = with_metadata(&old, &[]).unwrap();
        let plain = head(&boxed(b"colr", b"x"), 98);
        assert_eq!(new[..plain.len()], plain);
        assert_eq!(new[plain.len()..], boxed(b"free", &[0; 36]));
        assert_eq!(with_metadata(&plain, &[]).unwrap(), plain);
    }

    #[test]
    fn a_head_without_room_or_in_another_form_stays() {
        let all = boxes(&metadata());
        assert_eq!(with_metadata(&head(&[], 46), &all), None);
        assert!(with_metadata(&head(&[], 44), &all).is_some());
        let whole = head(&[], 98);
        for length in 0..whole.len() {
            assert_eq!(with_metadata(&whole[..length], &all), None, "{length}");
            let mut cut = whole.clone();
            cut[length] ^= 0x40;
            let _ = with_metadata(&cut, &all); // must not panic
        }
    }
}
