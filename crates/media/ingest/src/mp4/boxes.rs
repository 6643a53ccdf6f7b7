//! Walks from box to box (ISO/IEC 14496-12 section 4.2).

use super::fragment::{Start, played_from, start};
use super::{HEAD_BYTES_MAX, Mp4Error};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// Size and type, four bytes each.
const HEADER_BYTES: u64 = 8;
/// The same with a 64-bit size after them.
const LARGE_HEADER_BYTES: u64 = 16;

/// A box that was read.
pub(super) struct Content {
    /// The range of the whole box in its file.
    pub(super) range: Range<u64>,
    /// The content after the header.
    pub(super) content: Vec<u8>,
}

/// The parts of the file.
pub(super) struct TopLevel {
    /// 'moov'.
    pub(super) head: Content,
    /// 'sidx'.
    pub(super) index: Content,
    /// The fragments, each of which begins with a 'moof'.
    pub(super) fragments: Vec<Fragment>,
}

/// A fragment.
pub(super) struct Fragment {
    /// The offset of its 'moof'.
    pub(super) offset: u64,
    /// Its beginning, if that is a key frame.
    pub(super) start: Option<Start>,
    /// When its first frame or sample is played, in ticks of the media.
    pub(super) played_from: Option<i64>,
}

/// Walks over a file of `bytes` bytes: 'ftyp', 'moov', 'sidx', then fragments only.
pub(super) fn top_level(file: &mut (impl Read + Seek), bytes: u64) -> Result<TopLevel, Mp4Error> {
    let (mut head, mut index, mut fragments) = (None, None, Vec::new());
    let mut offset = 0;
    while offset < bytes {
        let (kind, range, header_bytes) = header(file, offset, bytes)?;
        match &kind {
            b"moov" => head = Some(content(file, range.clone(), header_bytes)?),
            b"sidx" if index.is_none() => {
                index = Some(content(file, range.clone(), header_bytes)?);
            }
            b"sidx" => return Err(Mp4Error::Broken("it has more than one segment index")),
            b"moof" => {
                // For hours without a key frame, it is too large, and the only picture is of no use.
                let is_small = range.end - range.start <= HEAD_BYTES_MAX;
                let moof = is_small.then(|| content(file, range.clone(), header_bytes));
                let moof = moof.transpose()?;
                let content = moof.as_ref().map(|moof| &moof.content[..]);
                fragments.push(Fragment {
                    offset: range.start,
                    start: content.and_then(start),
                    played_from: content.and_then(played_from),
                });
            }
            _ => {}
        }
        offset = range.end;
    }
    let head = head.ok_or(Mp4Error::Broken("it has no 'moov' box"))?;
    let index = index.ok_or(Mp4Error::Broken("it has no segment index"))?;
    Ok(TopLevel { head, index, fragments })
}

fn header(
    file: &mut (impl Read + Seek),
    offset: u64,
    end: u64,
) -> Result<([u8; 4], Range<u64>, u64), Mp4Error> {
    const CUT: Mp4Error = Mp4Error::Broken("it ends in the middle of a box");
    let mut bytes = [0; LARGE_HEADER_BYTES as usize];
    if end - offset < HEADER_BYTES {
        return Err(CUT);
    }
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes[..HEADER_BYTES as usize])?;
    let [s0, s1, s2, s3, k0, k1, k2, k3, ..] = bytes;
    let (mut size, mut header_bytes) =
        (u64::from(u32::from_be_bytes([s0, s1, s2, s3])), HEADER_BYTES);
    if size == 1 {
        file.read_exact(&mut bytes[HEADER_BYTES as usize..]).map_err(|_| CUT)?;
        let [.., a, b, c, d, e, f, g, h] = bytes;
        (size, header_bytes) = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), LARGE_HEADER_BYTES);
    }
    // A size of 0 means "to the end", which no writer uses in a file with an index.
    if size < header_bytes || size > end - offset {
        return Err(CUT);
    }
    Ok(([k0, k1, k2, k3], offset..offset + size, header_bytes))
}

fn content(
    file: &mut (impl Read + Seek),
    range: Range<u64>,
    header_bytes: u64,
) -> Result<Content, Mp4Error> {
    let content_bytes = range.end - range.start - header_bytes;
    if content_bytes > HEAD_BYTES_MAX {
        return Err(Mp4Error::Broken("its head or its index is larger than any should be"));
    }
    let mut content = vec![0; content_bytes as usize];
    file.seek(SeekFrom::Start(range.start + header_bytes))?;
    file.read_exact(&mut content)?;
    Ok(Content { range, content })
}

/// The content of the first box of type `kind` in `boxes`, a sequence of boxes.
pub(crate) fn child<'b>(boxes: &'b [u8], kind: &[u8; 4]) -> Option<&'b [u8]> {
    children(boxes, kind).next()
}

/// The contents of all boxes of type `kind` in `boxes`, up to one that is cut.
pub(super) fn children<'b>(boxes: &'b [u8], kind: &[u8; 4]) -> impl Iterator<Item = &'b [u8]> {
    let mut rest = boxes;
    let all = std::iter::from_fn(move || {
        let size = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let found = rest.get(4..8)?;
        if size < HEADER_BYTES as usize {
            return None;
        }
        let content = rest.get(HEADER_BYTES as usize..size)?;
        rest = &rest[size..];
        Some((found, content))
    });
    all.filter(move |(found, _)| found == kind).map(|(_, content)| content)
}
