//! An object's record: a line of JSON that describes it, then a line for each written block: its number and its checksum.
//!
//! Lines are appended. A line that a crash has torn is ignored. The disk may have kept a line and lost the block: so the bytes of a block
//! are verified before it is announced again.
//!
//! Later answers of the origin about the same version are saved in a file next to it, with the extension `terms`: a line like the record's
//! first one, which then takes its place. It is replaced whole, so a crash leaves the earlier answer. The record itself is not rewritten,
//! because it grows with its object (a line for each MiB), and origins may be asked every second.

use super::block_sum::BlockSum;
use super::saved_time::SavedTime;
use crate::http_cache::{Fields, Tags};
use crate::policy::Terms;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The extension of the file with the origin's later answer.
pub(super) const TERMS: &str = "terms";

/// A restart may cost this share of the time for which an object may be served: one part in eight. So an object that is revalidated all the
/// time costs eight small writes in that time (by default one in three hours), however often it is revalidated.
const LOST_PARTS: u64 = 8;

/// How much later an answer has to be for its further header fields to replace the earlier ones. Some origins number their answers in a field, and
/// may be asked every second.
const FIELDS_KEPT_SECONDS: u64 = 60;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) path: String,
    pub(super) size: u64,
    etag: String,
    content_type: Option<String>,
    modified: Option<u64>,
    #[serde(default)]
    is_date_strong: bool,
    cache_control: Option<String>,
    fresh_seconds: u64,
    stale_seconds: u64,
    #[serde(default)]
    fields: Fields,
    /// A record of a release that knew no tags may be of an object that has some.
    #[serde(default = "Tags::unknown")]
    tags: Tags,
    /// When the origin answered.
    pub(super) said_unix_seconds: u64,
    /// The same by a clock that can't be set back. A record of an earlier release doesn't have it.
    #[serde(default)]
    said: Option<SavedTime>,
    /// How old the answer was.
    #[serde(default)]
    age_seconds: u64,
}

impl Header {
    /// The record of an object whose `terms` the origin sent some time `ago`.
    pub(super) fn new(path: &str, size: u64, terms: &Terms, ago: Duration) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let said = now.saturating_sub(ago);
        let Terms { etag, content_type, cache_control, fresh, stale, .. } = terms.clone();
        Self {
            path: path.to_owned(),
            size,
            etag,
            content_type,
            modified: terms.modified,
            is_date_strong: terms.is_date_strong,
            cache_control,
            fresh_seconds: fresh.as_secs(),
            stale_seconds: stale.as_secs(),
            fields: terms.fields.clone(),
            tags: terms.tags.clone(),
            said_unix_seconds: said.as_secs(),
            said: Some(SavedTime::before(ago)),
            age_seconds: terms.age.as_secs(),
        }
    }

    /// When the origin answered, if that is known.
    pub(super) fn said_at(&self) -> Option<Instant> {
        self.said.as_ref()?.instant()
    }

    /// When the origin answered by the wall clock, and at most now: that may have been set back.
    pub(super) fn said_at_most(&self) -> Instant {
        let now = Instant::now();
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = unix.as_secs().saturating_sub(self.said_unix_seconds);
        now.checked_sub(Duration::from_secs(ago)).unwrap_or(now)
    }

    /// Whether it has to replace `kept` on disk: it differs, or allows less, or is so much newer that a restart would cost the object too
    /// much of its time.
    pub(super) fn is_worth_keeping(&self, kept: &Self) -> bool {
        let is_other = (self.stale_seconds, &self.cache_control, &self.content_type, self.modified)
            != (kept.stale_seconds, &kept.cache_control, &kept.content_type, kept.modified)
            || self.tags != kept.tags;
        // An object that always has to be revalidated gains nothing from a newer answer.
        let lasts = self.end_unix_seconds() - self.said_unix_seconds;
        let later = self.said_unix_seconds.saturating_sub(kept.said_unix_seconds);
        let has_other_fields = later >= FIELDS_KEPT_SECONDS && self.undated() != kept.undated();
        let is_much_later = lasts > 0 && later >= (lasts / LOST_PARTS).max(1);
        self.is_stricter(kept) || is_other || has_other_fields || is_much_later
    }

    /// Whether it allows less than `kept`. Both sides are rounded down to seconds.
    pub(super) fn is_stricter(&self, kept: &Self) -> bool {
        self.end_unix_seconds().saturating_add(1) < kept.end_unix_seconds()
    }

    /// The further header fields without those that differ with the time.
    fn undated(&self) -> Fields {
        let mut fields = self.fields.clone();
        fields.remove(|name| ["date", "expires"].iter().any(|one| name.eq_ignore_ascii_case(one)));
        fields
    }

    /// Until when it may be served while the origin is unreachable.
    fn end_unix_seconds(&self) -> u64 {
        self.said_unix_seconds.saturating_add(self.fresh_seconds).saturating_add(self.stale_seconds)
    }

    /// Whether both describe the same version of the same object.
    fn is_of_same(&self, other: &Self) -> bool {
        (&self.path, self.size, &self.etag) == (&other.path, other.size, &other.etag)
    }

    pub(super) fn terms(self) -> Terms {
        Terms {
            etag: self.etag,
            content_type: self.content_type,
            modified: self.modified,
            is_date_strong: self.is_date_strong,
            cache_control: self.cache_control,
            // As with `Age`: sums with it don't overflow.
            age: Duration::from_secs(self.age_seconds.min(u32::MAX.into())),
            fresh: Duration::from_secs(self.fresh_seconds),
            stale: Duration::from_secs(self.stale_seconds),
            fields: self.fields,
            tags: self.tags,
        }
    }
}

/// Creates a record without blocks.
pub(super) fn create(path: &Path, header: &Header) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&line(header)?)?;
    Ok(file)
}

/// Saves the origin's later answer about the object of the record at `path`. `passing` is a name to write under first.
pub(super) fn renew(path: &Path, passing: &Path, header: &Header) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(passing)?;
    let renewed = file.write_all(&line(header)?);
    let renewed = renewed.and_then(|()| fs::rename(passing, path.with_extension(TERMS)));
    renewed.inspect_err(|_| drop(fs::remove_file(passing)))
}

fn line(header: &Header) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(header).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// Opens an existing record, to append to it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    // Ends a line that a crash may have torn. Empty lines are ignored.
    file.write_all(b"\n")?;
    Ok(file)
}

/// Appends the entry of a written block.
pub(super) fn append(mut record: &File, block: u64, sum: BlockSum) -> io::Result<()> {
    // In one call, so that two records of the same object never mix within a line.
    record.write_all(format!("{block} {}\n", sum.to_text()).as_bytes())
}

/// Reads a record, if its first line is valid, with the origin's later answer in place of that line.
pub(super) fn read(path: &Path) -> Option<(Header, HashMap<u64, BlockSum>)> {
    let text = fs::read(path).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let header: Header = serde_json::from_slice(lines.next()?).ok()?;
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    let blocks = lines.filter_map(|line| {
        let (block, sum) = line.split_once(' ')?;
        Some((block.parse().ok()?, BlockSum::from_text(sum)?))
    });
    let blocks = blocks.collect();
    let later = fs::read(path.with_extension(TERMS)).ok();
    let later = later.and_then(|line| serde_json::from_slice(&line).ok());
    let later = later.filter(|later: &Header| later.is_of_same(&header));
    Some((later.unwrap_or(header), blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cache_control: &str, said_unix_seconds: u64, fresh: u64, stale: u64) -> Header {
        let terms = Terms {
            etag: "\"v1\"".into(),
            content_type: None,
            modified: None,
            is_date_strong: false,
            cache_control: Some(cache_control.into()),
            age: Duration::ZERO,
            fresh: Duration::from_secs(fresh),
            stale: Duration::from_secs(stale),
            fields: Fields::default(),
            tags: Tags::default(),
        };
        Header { said_unix_seconds, ..Header::new("/a", 7, &terms, Duration::ZERO) }
    }

    #[test]
    fn a_later_word_is_kept_if_it_is_another_or_stricter_or_much_newer() {
        let kept = header("a", 1000, 10, 80);
        let is_kept = |said, fresh, stale| header("a", said, fresh, stale).is_worth_keeping(&kept);
        assert!(!is_kept(1000, 10, 80) && !is_kept(1010, 10, 80), "it loses little");
        assert!(is_kept(1011, 10, 80), "an eighth of its time is gone");
        assert!(!is_kept(1005, 4, 80) && is_kept(1005, 3, 80), "it ends earlier");
        assert!(is_kept(900, 10, 80), "the clock was set back");
        assert!(is_kept(1001, 10, 81) && is_kept(1001, 10, 79));
        assert!(header("b", 1001, 10, 80).is_worth_keeping(&kept));
        let asked_each_time = header("no-cache", 1000, 0, 0);
        assert!(!header("no-cache", 9999, 0, 0).is_worth_keeping(&asked_each_time));
        let short = header("a", 1000, 0, 3);
        assert!(!header("a", 1000, 0, 3).is_worth_keeping(&short), "at most each second");
        assert!(header("a", 1001, 0, 3).is_worth_keeping(&short));
    }

    #[test]
    fn other_header_fields_are_kept_at_most_once_a_minute() {
        let with = |said, fields: &[(&str, &str)]| {
            let fields = Fields::of(fields);
            Header { fields, ..header("a", said, 10, 86_400) }
        };
        let kept = with(1000, &[("Date", "1"), ("Expires", "1"), ("X-Policy", "lax")]);
        let is_kept = |said, fields: &[(&str, &str)]| with(said, fields).is_worth_keeping(&kept);
        assert!(!is_kept(1090, &[("date", "2"), ("expires", "2"), ("X-Policy", "lax")]));
        let strict = &[("Date", "2"), ("Expires", "1"), ("X-Policy", "strict")];
        assert!(!is_kept(1059, strict) && is_kept(1060, strict));
        assert!(is_kept(1060, &[]), "after a restart it has the headers of its last answer");
    }

    #[test]
    fn the_later_word_counts_and_a_torn_one_or_one_of_another_object_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (path, passing) = (folder.path().join("1.record"), folder.path().join("1.passing"));
        let (first, later) = (header("a", 1000, 1, 2), header("b", 2000, 3, 4));
        append(&create(&path, &first).unwrap(), 3, BlockSum::Sha256([0xab; 32])).unwrap();
        let read = || read(&path).map(|(header, blocks)| (header, blocks.len())).unwrap();
        assert_eq!(read(), (first.clone(), 1), "a record of old has no other word");
        renew(&path, &passing, &first).unwrap();
        renew(&path, &passing, &later).unwrap();
        assert_eq!(read(), (later.clone(), 1));
        assert!(!passing.exists());
        fs::write(&passing, "{\"path\":").unwrap();
        assert_eq!(read(), (later.clone(), 1), "a crash before the new one is whole");
        fs::write(path.with_extension(TERMS), "").unwrap();
        assert_eq!(read(), (first.clone(), 1), "the disk lost it");
        let other = Header { etag: "\"v2\"".into(), ..later };
        renew(&path, &passing, &other).unwrap();
        assert_eq!(read(), (first, 1));
    }

    #[test]
    fn a_torn_line_is_nothing_and_those_after_it_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let terms = Terms {
            etag: "\"v1\"".into(),
            content_type: None,
            modified: None,
            is_date_strong: false,
            cache_control: Some("max-age=5".into()),
            age: Duration::ZERO,
            fresh: Duration::from_secs(5),
            stale: Duration::from_secs(6),
            fields: Fields::of(&[("A", "b")]),
            tags: Tags::of(&Fields::of(&[("xkey", "c d")])),
        };
        let header = Header::new("/a", 7, &terms, Duration::ZERO);
        let mut record = create(&path, &header).unwrap();
        append(&record, 3, BlockSum::Sha256([0xab; 32])).unwrap();
        let (signed, long) = ("+1".repeat(32), "ab".repeat(33));
        record.write_all(format!("1 {signed}\n2 {long}\n4 abab").as_bytes()).unwrap();
        append(&open(&path).unwrap(), 5, BlockSum::Xxh3([0x01; 16])).unwrap();
        let (read_header, blocks) = read(&path).unwrap();
        assert_eq!(read_header, header);
        assert_eq!(read_header.terms(), terms);
        assert_eq!(
            blocks,
            HashMap::from([(3, BlockSum::Sha256([0xab; 32])), (5, BlockSum::Xxh3([0x01; 16]))])
        );
    }
    #[test]
    fn a_record_of_a_release_without_tags_may_have_any() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let mut value = serde_json::to_value(header("a", 1000, 1, 2)).unwrap();
        value.as_object_mut().unwrap().remove("tags");
        fs::write(&path, format!("{value}\n")).unwrap();
        assert!(read(&path).unwrap().0.terms().tags.has("any"));
    }
}
