//! The segment index of an MP4 file.

use super::*;
use crate::presentation::Index;
use std::time::Duration;

/// An index of version 0, in milliseconds, with segments of these sizes and durations.
pub(super) fn sidx(entries: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = (32 + 12 * entries.len() as u32).to_be_bytes().to_vec();
    bytes.extend(b"sidx\0\0\0\0\0\0\0\x01");
    bytes.extend(1000u32.to_be_bytes());
    bytes.extend([0; 4 + 4 + 2]);
    bytes.extend((entries.len() as u16).to_be_bytes());
    for (size, duration) in entries {
        bytes.extend(size.to_be_bytes());
        bytes.extend(duration.to_be_bytes());
        bytes.extend([0; 4]);
    }
    bytes
}

fn read(bytes: &[u8], at: u64) -> Result<Segments, ManifestError> {
    let index = Index {
        reference: Reference { url: url("film.mp4"), range: Some(at..at.saturating_add(1)) },
        start: Some(Reference { url: url("film.mp4"), range: Some(0..100) }),
        begin: Duration::from_secs(1),
        duration: None,
    };
    Segments::parse(&Source::Index(index), &url("film.mp4"), bytes)
}

#[test]
fn an_index_gives_ranges_and_times() {
    let segments = read(&sidx(&[(1000, 4000), (500, 1500)]), 100).expect("an index");
    assert_eq!(played(&segments), ["film.mp4 0-100", "film.mp4 156-1156", "film.mp4 1156-1656"]);
    assert_eq!(times(&segments), [(1000, 4000), (5000, 1500)]);
}

#[test]
fn segments_follow_without_gaps_in_any_timescale() {
    let mut bytes = sidx(&[(1, 192_512); 30]);
    bytes[16..20].copy_from_slice(&48_000u32.to_be_bytes());
    let list = read(&bytes, 0).expect("an index").list;
    assert!(list.windows(2).all(|two| two[0].begin + two[0].duration == two[1].begin));
}

#[test]
fn an_index_of_version_1_has_wider_numbers() {
    let mut bytes = sidx(&[(7, 1000)]);
    bytes[8] = 1;
    // Earliest time and first offset take eight bytes each instead of four; the first offset is 3.
    bytes.splice(20..28, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    bytes[3] += 8;
    assert_eq!(played(&read(&bytes, 0).expect("an index"))[1], "film.mp4 55-62");
}

#[test]
fn hostile_indexes_end_in_an_error() {
    assert!(read(&[], 0).is_err());
    assert!(read(b"\0\0\0\x20ftyp", 0).is_err());
    let whole = sidx(&[(1000, 1), (500, 1)]);
    for cut in 0..whole.len() {
        assert!(read(&whole[..cut], 0).is_err(), "{cut}");
    }
    assert!(read(&sidx(&[(1 << 31, 1)]), 0).is_err());
    assert_eq!(read(&sidx(&[(0, 1)]), 0), Err(ManifestError::Range));
    assert_eq!(read(&sidx(&[]), 0), Err(ManifestError::Empty));
    assert_eq!(read(&whole, u64::MAX), Err(ManifestError::Range));
    // The index claims more entries than follow.
    let mut lies = whole.clone();
    lies[30..32].copy_from_slice(&u16::MAX.to_be_bytes());
    assert!(read(&lies, 0).is_err());
    let mut timeless = whole;
    timeless[16..20].fill(0);
    assert!(matches!(read(&timeless, 0), Err(ManifestError::Malformed(_))));
}
