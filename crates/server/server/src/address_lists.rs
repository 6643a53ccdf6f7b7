//! Lists of addresses that may connect, and that may not: files with an address or a prefix per line, and comments after `#`.
//!
//! A list may come from elsewhere and be long. So a file is read line by line, and its bytes, its lines and the total of prefixes in all files
//! are bounded. One invalid line makes the whole list unusable, because a list without it would let the wrong viewers in.

use config::AccessConfig;
use files::FileStamp;
use net::{AddressBlock, PrefixFault, Prefixes};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The most prefixes of all files of one kind together. They take 8 MiB for IPv4, 32 MiB for IPv6, and twice that while they are read.
const PREFIXES_MAX: usize = 1 << 20;

/// The most bytes of a file: a million of the longest prefixes, with as much again for comments.
const FILE_BYTES_MAX: u64 = 96 << 20;

/// The most bytes of a line: a prefix has at most 43, and the rest is for a comment.
const LINE_BYTES_MAX: u64 = 1024;

/// The most characters of a bad line that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// Both lists, as read. Without files, any address may connect.
#[derive(Debug, Default)]
pub(crate) struct AddressLists {
    /// Addresses that may connect; `None` for all.
    allowed: Option<Prefixes>,
    /// Addresses that may not connect.
    denied: Prefixes,
    /// The files' state just before they were read.
    stamps: Vec<FileStamp>,
}

impl AddressLists {
    /// Reads the files that `config` names.
    ///
    /// # Errors
    /// The file, the line, and the fault.
    pub(crate) fn read(config: &AccessConfig) -> Result<Self, AddressListError> {
        // Before they are read, so that a change in between is noticed later instead of missed.
        let stamps = Self::stamps(config);
        let allowed = match config.allow.first() {
            None => None,
            Some(first) => {
                let allowed = read_all(&config.allow)?;
                if allowed.is_empty() {
                    return Err(ListFault::Empty.of(first));
                }
                Some(allowed)
            }
        };
        Ok(Self { allowed, denied: read_all(&config.deny)?, stamps })
    }

    /// The current state of the files that `config` names.
    pub(crate) fn stamps(config: &AccessConfig) -> Vec<FileStamp> {
        config.files().map(|file| FileStamp::take(file.clone())).collect()
    }

    /// Checks that a viewer at `address` may connect.
    ///
    /// # Errors
    /// The counter's label for the refusal.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(address)) {
            return Err("not_allowed");
        }
        if self.denied.contains(address) { Err("denied") } else { Ok(()) }
    }

    /// Whether a file was replaced or written since it was read.
    fn changed_on_disk(&self) -> bool {
        self.stamps.iter().any(FileStamp::is_outdated)
    }

    /// Whether the files have changed since they were read, and also since their text was `refused` (empty if it was not).
    pub(crate) fn is_worth_reading(&self, refused: &[FileStamp]) -> bool {
        let is_refused = !refused.is_empty() && !refused.iter().any(FileStamp::is_outdated);
        self.changed_on_disk() && !is_refused
    }
}

impl fmt::Display for AddressLists {
    /// A summary for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ranges of addresses: ")?;
        match &self.allowed {
            None => f.write_str("all allowed")?,
            Some(allowed) => write!(f, "{} allowed", allowed.ranges())?,
        }
        write!(f, ", {} denied", self.denied.ranges())
    }
}

/// Why a list cannot be used.
#[derive(Debug)]
pub struct AddressListError {
    file: PathBuf,
    fault: ListFault,
}

impl AddressListError {
    /// Whether reading the same files again would fail in the same way.
    pub(crate) fn is_of_text(&self) -> bool {
        !matches!(self.fault, ListFault::Unreadable(_))
    }
}

#[derive(Debug)]
enum ListFault {
    Unreadable(io::Error),
    Line { number: usize, text: String, why: PrefixFault },
    LongLine(usize),
    LongFile,
    TooMany,
    Empty,
}

impl ListFault {
    fn of(self, file: &Path) -> AddressListError {
        AddressListError { file: file.to_owned(), fault: self }
    }
}

impl fmt::Display for AddressListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.fault {
            ListFault::Unreadable(why) => {
                write!(f, "cannot read the list of addresses {file}: {why}")
            }
            ListFault::Line { number, text, why } => {
                write!(f, "in {file}, line {number}: {text:?} is not a prefix: {why}")
            }
            ListFault::LongLine(number) => write!(
                f,
                "in {file}, line {number}: it has more than {LINE_BYTES_MAX} bytes; write one prefix per line"
            ),
            ListFault::LongFile => write!(
                f,
                "the list of addresses {file} has more than {FILE_BYTES_MAX} bytes, and cannot be what was meant"
            ),
            ListFault::TooMany => write!(
                f,
                "in {file}: with this list there are more than {PREFIXES_MAX} prefixes; write shorter prefixes for many long ones"
            ),
            ListFault::Empty => write!(
                f,
                "{file} has no prefix, so no one could connect; add one, or leave access.allow out to let everyone in"
            ),
        }
    }
}

impl std::error::Error for AddressListError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            ListFault::Unreadable(why) => Some(why),
            ListFault::Line { why, .. } => Some(why),
            _ => None,
        }
    }
}

fn read_all(files: &[PathBuf]) -> Result<Prefixes, AddressListError> {
    Blocks { files: files.iter(), open: None, left: PREFIXES_MAX }.collect()
}

/// The prefixes of several files, one after another, up to the first error.
struct Blocks<'f> {
    files: std::slice::Iter<'f, PathBuf>,
    open: Option<Lines<'f>>,
    /// How many more may follow.
    left: usize,
}

impl Iterator for Blocks<'_> {
    type Item = Result<AddressBlock, AddressListError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(lines) = &mut self.open else {
                match Lines::open(self.files.next()?) {
                    Ok(lines) => self.open = Some(lines),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match lines.next_block() {
                Ok(Some(_)) if self.left == 0 => {
                    return Some(Err(ListFault::TooMany.of(lines.file)));
                }
                Ok(Some(block)) => {
                    self.left -= 1;
                    return Some(Ok(block));
                }
                Ok(None) => self.open = None,
                Err(fault) => return Some(Err(fault.of(lines.file))),
            }
        }
    }
}

/// The lines of one file.
struct Lines<'f> {
    file: &'f Path,
    reader: BufReader<Take<File>>,
    number: usize,
    line: Vec<u8>,
}

impl<'f> Lines<'f> {
    fn open(file: &'f Path) -> Result<Self, AddressListError> {
        let opened = files::open(file).map_err(|why| ListFault::Unreadable(why).of(file))?;
        // One byte more distinguishes a file that is too long from one that just fits.
        let reader = BufReader::new(opened.take(FILE_BYTES_MAX + 1));
        Ok(Self { file, reader, number: 0, line: Vec::new() })
    }

    /// The next line that has a prefix; `None` at the end.
    fn next_block(&mut self) -> Result<Option<AddressBlock>, ListFault> {
        loop {
            self.line.clear();
            let mut line = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
            let read = line.read_until(b'\n', &mut self.line).map_err(ListFault::Unreadable)?;
            if self.reader.get_ref().limit() == 0 {
                return Err(ListFault::LongFile);
            }
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if read as u64 > LINE_BYTES_MAX {
                return Err(ListFault::LongLine(self.number));
            }
            let said = self.line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let said = said.trim_ascii();
            if said.is_empty() {
                continue;
            }
            let parsed = std::str::from_utf8(said).map_err(|_| PrefixFault::Malformed);
            return parsed.and_then(str::parse).map(Some).map_err(|why| ListFault::Line {
                number: self.number,
                text: String::from_utf8_lossy(said).chars().take(SHOWN_CHARS_MAX).collect(),
                why,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::{TempDir, tempdir};

    fn files(texts: &[&[u8]]) -> (TempDir, Vec<PathBuf>) {
        let folder = tempdir().unwrap();
        let files = texts.iter().enumerate().map(|(number, text)| {
            let file = folder.path().join(format!("list-{number}"));
            std::fs::write(&file, text).unwrap();
            file
        });
        let files = files.collect();
        (folder, files)
    }

    fn deny(text: &[u8]) -> Result<AddressLists, String> {
        let (_folder, deny) = files(&[text]);
        let config = AccessConfig { deny, ..AccessConfig::default() };
        AddressLists::read(&config).map_err(|error| error.to_string())
    }

    fn check(lists: &AddressLists, address: &str) -> Result<(), &'static str> {
        lists.check(address.parse().unwrap())
    }

    #[test]
    fn without_lists_everybody_may_connect() {
        let lists = AddressLists::read(&AccessConfig::default()).unwrap();
        assert_eq!(check(&lists, "192.0.2.7"), Ok(()));
        assert!(!lists.changed_on_disk());
        assert_eq!(lists.to_string(), "ranges of addresses: all allowed, 0 denied");
        // A deny list may be empty: it can be filled later.
        assert_eq!(check(&deny(b"# none yet\n").unwrap(), "192.0.2.7"), Ok(()));
    }

    #[test]
    fn comments_and_empty_lines_mean_nothing_and_the_last_line_needs_no_end() {
        let lists =
            deny(b"# bad\n\n 192.0.2.0/24 # a network\r\n\t\n2001:db8::/32\n10.1.2.3").unwrap();
        for denied in ["192.0.2.7", "2001:db8::7", "10.1.2.3"] {
            assert_eq!(check(&lists, denied), Err("denied"), "{denied}");
        }
        assert_eq!(check(&lists, "10.1.2.4"), Ok(()));
        assert_eq!(lists.to_string(), "ranges of addresses: all allowed, 3 denied");
    }

    #[test]
    fn several_files_are_one_list_and_what_is_denied_is_not_allowed() {
        let (_folder, allow) = files(&[b"10.0.0.0/8", b"192.0.2.0/24\n"]);
        let (_other, deny) = files(&[b"10.9.0.0/16"]);
        let lists = AddressLists::read(&AccessConfig { allow, deny }).unwrap();
        for (address, expected) in [
            ("10.1.0.1", Ok(())),
            ("192.0.2.7", Ok(())),
            ("10.9.0.1", Err("denied")),
            ("198.51.100.1", Err("not_allowed")),
            ("::1", Err("not_allowed")),
        ] {
            assert_eq!(check(&lists, address), expected, "{address}");
        }
    }

    #[test]
    fn each_fault_names_its_file_and_line() {
        let said = deny(b"10.0.0.0/8\n# x\n10.0.0.0/33\n").unwrap_err();
        assert!(said.contains("list-0, line 3: \"10.0.0.0/33\" is not a prefix"), "{said}");
        let said = deny(b"10.0.0.1/8\n").unwrap_err();
        assert!(said.contains("line 1") && said.contains("write 10.0.0.0/8"), "{said}");
        let said = deny(b"\x1b[2J\xff\n").unwrap_err();
        assert!(said.contains("line 1") && !said.contains('\x1b'), "{said}");
        let said = deny(&[b'1'; 5000]).unwrap_err();
        assert!(said.contains("line 1") && said.contains("1024 bytes"), "{said}");
        let (folder, allow) = files(&[b"# none\n"]);
        let empty = AccessConfig { allow, ..AccessConfig::default() };
        assert!(AddressLists::read(&empty).unwrap_err().to_string().contains("no one could"));
        let deny = vec![folder.path().join("missing")];
        let missing = AccessConfig { deny, ..AccessConfig::default() };
        assert!(AddressLists::read(&missing).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn a_million_prefixes_fit_and_more_are_refused() {
        use std::fmt::Write;
        let mut text = String::new();
        // Every second address, so that none touches another.
        for number in 0..PREFIXES_MAX as u32 {
            writeln!(text, "{}", std::net::Ipv4Addr::from_bits(0x0a00_0000 + 2 * number)).unwrap();
        }
        let lists = deny(text.as_bytes()).unwrap();
        assert_eq!(lists.denied.ranges(), PREFIXES_MAX);
        assert_eq!(check(&lists, "10.0.0.2"), Err("denied"));
        assert_eq!(check(&lists, "10.0.0.3"), Ok(()));
        text.push_str("192.0.2.7\n");
        assert!(deny(text.as_bytes()).unwrap_err().contains("more than 1048576 prefixes"));
    }

    #[test]
    fn a_change_of_a_file_is_noticed() {
        let (_folder, deny) = files(&[b"10.0.0.0/8"]);
        let file = deny[0].clone();
        let lists = AddressLists::read(&AccessConfig { deny, ..AccessConfig::default() }).unwrap();
        assert!(!lists.changed_on_disk());
        std::fs::remove_file(&file).unwrap();
        assert!(!lists.changed_on_disk(), "its replacement may be on its way");
        std::fs::write(&file, "10.0.0.0/8\n").unwrap();
        assert!(lists.changed_on_disk());
    }

    #[test]
    fn a_list_that_stays_bad_is_not_read_again_until_it_is_written() {
        let (_folder, deny) = files(&[b"10.0.0.0/8"]);
        let file = deny[0].clone();
        let config = AccessConfig { deny, ..AccessConfig::default() };
        let lists = AddressLists::read(&config).unwrap();
        std::fs::write(&file, "no prefix").unwrap();
        assert!(lists.is_worth_reading(&[]));
        let refused = AddressLists::stamps(&config);
        assert!(AddressLists::read(&config).unwrap_err().is_of_text());
        assert!(!lists.is_worth_reading(&refused));
        std::fs::write(&file, "10.0.0.0/8 # again").unwrap();
        assert!(lists.is_worth_reading(&refused));
        // A file that could not be read may be readable a moment later, without having changed.
        std::fs::remove_file(&file).unwrap();
        assert!(!AddressLists::read(&config).unwrap_err().is_of_text());
    }
}
