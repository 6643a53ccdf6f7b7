//! Hand-made files of boxes: which ones are refused, and that none makes the reader panic.

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
    assert_eq!((track.bits_per_second(), track.bits_per_second_max(2)), (320, 400));
}

#[test]
fn colours_are_read_from_the_pictures_description() {
    let with = |extra: &[u8]| {
        let configuration = boxed(b"hvcC", &[1; 23]);
        let entry = boxed(b"hvc1", &[&[0; 78][..], &configuration, extra].concat());
        let descriptions = boxed(b"stsd", &[vec![0, 0, 0, 0, 0, 0, 0, 1], entry].concat());
        let kinds = [b"stbl", b"minf", b"mdia", b"trak"];
        let head = kinds.iter().fold(descriptions, |content, kind| boxed(kind, &content));
        colour::of(&head)
    };
    let stated = boxed(b"colr", b"nclx\0\x09\0\x10\0\x09\0");
    let pq = Cicp { primaries: 9, transfer: 16, matrix: 9 };
    assert_eq!(with(&stated), Some(pq));
    assert_eq!(with(&[boxed(b"pasp", &[0; 8]), stated.clone()].concat()), Some(pq));
    assert_eq!(pq.range(), VideoRange::Pq);
    assert_eq!(Cicp { transfer: 18, ..pq }.range(), VideoRange::Hlg);
    assert_eq!(Cicp::BT709.range(), VideoRange::Sdr);
    for none in [&[][..], &boxed(b"colr", b"nclx\0\x09"), &boxed(b"colr", b"prof profile")] {
        assert_eq!(with(none), None);
    }
    for length in 0..stated.len() {
        assert_eq!(with(&stated[..length]), None, "at {length}");
    }
}

/// Flags of frames.
const KEY: u32 = 0x0200_0000;
const OTHER: u32 = 0x0101_0000;

/// A fragment head in the forms that writers use: where its frames are, and the size and the flags of the first one.
fn moof(run: &[u32], header: &[u32]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let track = [boxed(b"tfhd", &words(header)), boxed(b"trun", &words(run))].concat();
    [boxed(b"mfhd", &[0; 8]), boxed(b"traf", &track)].concat()
}

#[test]
fn the_first_frame_of_a_fragment_is_found_if_it_is_a_key_frame() {
    let start = |run: &[u32], header: &[u32]| fragment::start(&moof(run, header));
    let found = |run: &[u32], header: &[u32]| start(run, header).map(|start| start.key_frame_end);
    // As ffmpeg writes them: offset, flags of the first frame, then sizes; the other frames' flags in the header.
    let run = [0x205, 2, 120, KEY, 700, 30];
    let header = [0x2_0028, 1, 512, OTHER];
    assert_eq!(found(&run, &header), Some(820));
    assert_eq!(found(&[0x205, 2, 120, OTHER, 700, 30], &header), None);
    // Durations, sizes and flags of each frame.
    assert_eq!(found(&[0x701, 1, 120, 512, 700, KEY], &header), Some(820));
    assert_eq!(found(&[0x701, 1, 120, 512, 700, OTHER], &header), None);
    // Everything from the header.
    assert_eq!(found(&[0x1, 1, 120], &[0x2_003a, 1, 1, 512, 700, KEY]), Some(820));
    for unknown in
        [&[0x205_u32, 0, 120, KEY][..], &[0x204, 1, KEY, 700], &[0x205, 1, 1 << 31, KEY, 7]]
    {
        assert_eq!(found(unknown, &header), None, "{unknown:?}");
    }
    assert_eq!(found(&run, &[0x1, 1, 0, 0]), None, "offsets of its own");
    let whole = moof(&run, &header);
    for length in 0..whole.len() {
        assert_eq!(fragment::start(&whole[..length]), None, "at {length}");
    }
}

#[test]
fn frames_shown_before_their_key_frame_are_found() {
    // Durations of 10 by the header; shifts of each frame, signed.
    let leads = |shifts: &[i32]| {
        let mut run = vec![0x0100_0a05, shifts.len() as u32, 120, KEY];
        run.extend(shifts.iter().flat_map(|&shift| [700, shift as u32]));
        fragment::start(&moof(&run, &[0x2_0028, 1, 10, OTHER])).unwrap().has_leading_frames
    };
    assert!(!leads(&[0, 0, 0]));
    assert!(!leads(&[10, 20, 0]), "reordered behind the key frame");
    assert!(!leads(&[-10, 0, -10]));
    assert!(leads(&[20, 0]), "shown at 20 and at 10");
    assert!(leads(&[40, 40, 10, 0, 30]), "shown at 40, and later at 30");
}

#[test]
fn a_late_beginning_is_read_from_the_first_fragment_and_the_edit_list() {
    // Durations of 10 by the header, as above.
    let from = |time: &[u8], shifts: &[i32]| {
        let mut run = vec![0x0100_0a05, shifts.len() as u32, 120, KEY];
        run.extend(shifts.iter().flat_map(|&shift| [700, shift as u32]));
        let whole = moof(&run, &[0x2_0028, 1, 10, OTHER]);
        let traf = [boxes::child(&whole, b"traf").unwrap(), &boxed(b"tfdt", time)].concat();
        fragment::played_from(&boxed(b"traf", &traf))
    };
    let narrow = [[0_u8; 4], 400_u32.to_be_bytes()].concat();
    let wide = [[1, 0, 0, 0, 0, 0, 0, 1], [0; 8]].concat();
    // With frames that are decoded early, the first one to be decoded is shown later; of an open group, another one is shown first.
    for (shifts, played) in
        [(&[0, 0][..], 400), (&[20, 40, 0], 420), (&[20, 0, 10], 410), (&[-10, 0], 390)]
    {
        assert_eq!(from(&narrow, shifts), Some(played), "{shifts:?}");
    }
    assert_eq!(from(&wide[..12], &[0]), Some(1 << 32));
    assert_eq!(
        (from(&narrow[..7], &[0]), from(&wide[..11], &[0]), from(&narrow, &[])),
        (None, None, None)
    );

    let played_at = |media_time: i32, ticks: i64| {
        let edit = [[0_u8; 4], 1_u32.to_be_bytes(), [0; 4], media_time.to_be_bytes(), [0; 4]];
        let edits = boxed(b"edts", &boxed(b"elst", &edit.concat()));
        edits::played_at(&boxed(b"trak", &edits), ticks)
    };
    // An encoder's priming is not played, and no browser waits through a pause.
    for (media_time, ticks, played) in [(0, 421, 421), (21, 421, 400), (1024, 0, 0), (-1, 421, 421)]
    {
        assert_eq!(played_at(media_time, ticks), played, "{media_time}");
    }
    assert_eq!(edits::played_at(&[], 421), 421);
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
    assert!(refused(&[with(index(&[160])), fragment(60)].concat()).contains("does not match"));
    assert!(refused(&with(index(&[100, 59]))).contains("does not end where"));
    assert!(refused(&with(index(&[]))).contains("empty"));
    assert!(refused(&with(Vec::new())).contains("no segment index"));
    assert!(refused(&with(index(&[100, 60]).repeat(2))).contains("more than one"));
}

/// Makes the short end of a file part of the segment before; returns the result.
fn end_joined(bytes: &[u8]) -> (Vec<u8>, Track) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    join_short_end(file.path()).unwrap();
    let joined = std::fs::read(file.path()).unwrap();
    let track = read(&joined).unwrap();
    (joined, track)
}

/// A file whose last segment lasts `ticks` of 1000.
fn ending(ticks: u32) -> Vec<u8> {
    let mut index = index(&[100, 60, 40]);
    let last_at = index.len() - 8;
    index[last_at..last_at + 4].copy_from_slice(&ticks.to_be_bytes());
    let start = [boxed(b"ftyp", b"cmfc"), head(), index].concat();
    [start, fragment(100), fragment(60), fragment(40)].concat()
}

#[test]
fn a_last_segment_below_a_tenth_of_a_second_is_joined_to_the_one_before() {
    let before = ending(99);
    let (joined, track) = end_joined(&before);
    let segments: Vec<_> = track.segments.iter().map(|one| (one.bytes, one.ticks)).collect();
    assert_eq!(segments, [(100, 2000), (100, 2099)]);
    // Nothing but the index has moved: it ends where it ended, and the head reaches to it.
    assert_eq!(joined.len(), before.len());
    assert_eq!(&joined[track.index.end as usize..], &before[track.index.end as usize..]);
    assert_eq!(&joined[track.head_bytes as usize + 4..][..4], b"sidx");
    assert_eq!(&joined[track.head_bytes as usize - 8..][..4], b"free");
    let (again, _) = end_joined(&joined);
    assert_eq!(again, joined, "joined once");
}

#[test]
fn other_last_segments_stay_as_they_are() {
    for whole in [ending(100), ending(2000), whole()] {
        assert_eq!(end_joined(&whole).0, whole);
    }
    let mut index = index(&[100]);
    let last_at = index.len() - 8;
    index[last_at..last_at + 4].copy_from_slice(&40_u32.to_be_bytes());
    let alone = [boxed(b"ftyp", b"cmfc"), head(), index, fragment(100)].concat();
    assert_eq!(end_joined(&alone).0, alone, "there is none before it");
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
