//! Mending the DASH manifest that ffmpeg writes.
//!
//! For one file per rendition ffmpeg lists every segment's byte range (SegmentList), which its own player then cannot read without
//! complaints. The files begin with a segment index ('sidx', ISO/IEC 14496-12), so the manifest can point at that instead
//! (SegmentBase, ISO/IEC 23009-1): shorter, and what the on-demand profile asks for.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::SampleError;
use super::error::Attempt;

const MANIFEST: &str = "manifest.mpd";
/// Box size and box type, four bytes each, before the content of every box of the file format.
const BOX_HEADER_BYTES: u64 = 8;
/// The index comes third, after 'ftyp' and 'moov'.
const BOXES_BEFORE_INDEX_MAX: usize = 8;

/// Rewrites the manifest in `folder` to point at the index of each file it names.
pub(super) fn mend(folder: &Path) -> Result<(), SampleError> {
    let path = folder.join(MANIFEST);
    let manifest = fs::read_to_string(&path).attempt("read", &path)?;
    let mended = point_at_indexes(&manifest, |file| {
        let path = folder.join(file);
        File::open(&path).and_then(index_range).attempt("find the segment index of", &path)
    })?;
    fs::write(&path, mended).attempt("write", &path)
}

/// `manifest` with each SegmentList made a SegmentBase; `index_of` gives the index's place in a file.
fn point_at_indexes(
    manifest: &str,
    index_of: impl Fn(&str) -> Result<Range<u64>, SampleError>,
) -> Result<String, SampleError> {
    const UNFINISHED: SampleError =
        SampleError::TitleUnusable("its DASH manifest has no file or no end to a segment list");
    let mut mended = String::with_capacity(manifest.len());
    let mut rest = manifest;
    while let Some((before, list)) = rest.split_once("<SegmentList") {
        let (_, after) = list.split_once("</SegmentList>").ok_or(UNFINISHED)?;
        let index = index_of(base_url(before).ok_or(UNFINISHED)?)?;
        mended.push_str(before);
        mended.push_str(&segment_base(&index));
        rest = after;
    }
    mended.push_str(rest);
    Ok(mended.replace("profile:isoff-live:2011", "profile:isoff-on-demand:2011"))
}

/// The file of the representation that `before` ends in.
fn base_url(before: &str) -> Option<&str> {
    let (_, url) = before.rsplit_once("<BaseURL>")?;
    url.split_once("</BaseURL>").map(|(url, _)| url)
}

fn segment_base(index: &Range<u64>) -> String {
    // Ranges in a manifest name their last byte.
    let (head_last, index_last) = (index.start - 1, index.end - 1);
    format!(
        "<SegmentBase indexRange=\"{}-{index_last}\"><Initialization range=\"0-{head_last}\" /></SegmentBase>",
        index.start
    )
}

/// Where the segment index is in an MP4 file.
fn index_range(mut file: impl Read + Seek) -> io::Result<Range<u64>> {
    let mut offset = 0;
    for _ in 0..BOXES_BEFORE_INDEX_MAX {
        let mut header = [0; BOX_HEADER_BYTES as usize];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut header)?;
        let size = u64::from(u32::from_be_bytes([header[0], header[1], header[2], header[3]]));
        if &header[4..] == b"sidx" && offset > 0 {
            return Ok(offset..offset + size);
        }
        // Sizes 0 and 1 mean "to the end" and "64 bits follow": neither comes before an index.
        if size < BOX_HEADER_BYTES {
            break;
        }
        offset += size;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the file has no segment index at its front"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn boxes(sizes: &[(&[u8; 4], u32)]) -> Cursor<Vec<u8>> {
        let mut bytes = Vec::new();
        for (name, size) in sizes {
            bytes.extend(size.to_be_bytes());
            bytes.extend(*name);
            bytes.resize(bytes.len() + *size as usize - 8, 0);
        }
        Cursor::new(bytes)
    }

    #[test]
    fn the_index_is_found_behind_other_boxes() {
        let file = boxes(&[(b"ftyp", 32), (b"moov", 786), (b"sidx", 76), (b"moof", 100)]);
        assert_eq!(index_range(file).expect("an index"), 818..894);
    }

    #[test]
    fn a_file_without_an_index_or_with_a_box_without_size_is_refused() {
        assert!(index_range(boxes(&[(b"ftyp", 32), (b"mdat", 64)])).is_err());
        assert!(index_range(Cursor::new(vec![0; 64])).is_err());
    }

    #[test]
    fn each_segment_list_becomes_a_pointer_to_its_own_files_index() {
        let manifest = "<MPD profile:isoff-live:2011><BaseURL>0.mp4</BaseURL><SegmentList a>x</SegmentList>\
                        <BaseURL>1.mp4</BaseURL><SegmentList b>y</SegmentList></MPD>";
        let index_of = |file: &str| Ok(if file == "0.mp4" { 10..20 } else { 30..50 });
        assert_eq!(
            point_at_indexes(manifest, index_of).expect("a whole manifest"),
            "<MPD profile:isoff-on-demand:2011><BaseURL>0.mp4</BaseURL>\
             <SegmentBase indexRange=\"10-19\"><Initialization range=\"0-9\" /></SegmentBase>\
             <BaseURL>1.mp4</BaseURL><SegmentBase indexRange=\"30-49\"><Initialization range=\"0-29\" /></SegmentBase></MPD>"
        );
    }

    #[test]
    fn a_manifest_cut_short_is_refused() {
        let index_of = |_: &str| Ok(8..16);
        assert!(point_at_indexes("<BaseURL>0.mp4</BaseURL><SegmentList>", index_of).is_err());
        assert!(point_at_indexes("<SegmentList></SegmentList>", index_of).is_err());
    }
}
