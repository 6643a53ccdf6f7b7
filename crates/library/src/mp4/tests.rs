//! Files of boxes made by hand: which ones are refused, and that none makes the reader panic.

use super::*;
use std::io::Write;

fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, content].concat()
}

/// The head of an H.264 track, with the parts that are read.
fn head() -> Vec<u8> {
    let configuration = boxed(b"avcC", &[1, 0x64, 0, 0x1f, 0xff]);
    let entry = boxed(b"avc1", &[vec![0; 78], configuration].concat());
    let descriptions = boxed(b"stsd", &[vec![0, 0, 0, 0, 0, 0, 0, 1], entry].concat());
    [b"stbl", b"minf", b"mdia", b"trak", b"moov"]
        .iter()
        .fold(descriptions, |content, kind| boxed(kind, &content))
}

/// An index of fragments with these sizes, 2 seconds each.
fn index(sizes: &[u32]) -> Vec<u8> {
    let mut content =
        [[0_u8; 4], 1_u32.to_be_bytes(), 1000_u32.to_be_bytes(), [0; 4], [0; 4]].concat();
    content.extend([0, 0]);
    content.extend((sizes.len() as u16).to_be_bytes());
    for size in sizes {
        content.extend([size.to_be_bytes(), 2000_u32.to_be_bytes(), [0x90, 0, 0, 0]].concat());
    }
    boxed(b"sidx", &content)
}

fn fragment(bytes: usize) -> Vec<u8> {
    [boxed(b"moof", &[0; 8]), boxed(b"mdat", &vec![0; bytes - 24])].concat()
}

fn whole() -> Vec<u8> {
    [boxed(b"ftyp", b"cmfc"), head(), index(&[100, 60]), fragment(100), fragment(60)].concat()
}

fn read(bytes: &[u8]) -> Result<Track, Mp4Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Track::read(file.path())
}

fn refused(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

#[test]
fn a_track_is_read_from_its_boxes() {
    let track = read(&whole()).unwrap();
    let head_bytes = (12 + head().len()) as u64;
    assert_eq!((track.codec.as_str(), track.head_bytes), ("avc1.64001f", head_bytes));
    assert_eq!(track.index, head_bytes..head_bytes + index(&[100, 60]).len() as u64);
    let sizes: Vec<_> = track.segments.iter().map(|one| one.bytes).collect();
    assert_eq!((sizes, track.seconds()), (vec![100, 60], 4.0));
    assert_eq!((track.bits_per_second(), track.bits_per_second_max()), (320, 400));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = whole();
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "at {length}");
    }
}

#[test]
fn an_index_that_does_not_fit_its_file_is_refused() {
    let start = [boxed(b"ftyp", b"cmfc"), head()].concat();
    let with = |index: Vec<u8>| [start.clone(), index, fragment(100), fragment(60)].concat();
    assert!(refused(&with(index(&[100]))).contains("does not match its fragments"));
    assert!(refused(&with(index(&[60, 100]))).contains("does not match its fragments"));
    assert!(refused(&with(index(&[100, 59]))).contains("does not end where"));
    assert!(refused(&with(index(&[]))).contains("empty"));
    assert!(refused(&with(Vec::new())).contains("no segment index"));
    assert!(refused(&with(index(&[100, 60]).repeat(2))).contains("more than one"));
}

#[test]
fn no_byte_turned_to_anything_makes_it_panic() {
    let whole = whole();
    let front = whole.len() - 160;
    for at in 0..front {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // Refused or not, the reader returns.
            let _ = read(&bytes);
        }
    }
}
