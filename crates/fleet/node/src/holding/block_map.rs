//! Records which blocks of an arriving title were verified and written, in a file next to it, so that an interrupted copy can resume.
//!
//! The first line is the version, and whether this is a repair. Then comes a digit for each block of all its files, in the record's order:
//! `1` for a block that is there. A digit is written after its block, so the map is right whenever the agent is killed. After a power
//! failure the disk may have kept a digit and lost its block. Therefore the map only saves fetching: a file with blocks noted by an earlier
//! attempt is read back and verified before the title is published, and the map is cleared if it does not match.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Next to the folder in which the title arrives.
pub(crate) const BLOCKS: &str = "blocks";

const THERE: u8 = b'1';
const MISSING: u8 = b'0';
/// Ends the first line of a repair.
const MENDS: &str = " mends";

/// Why a title arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The plan assigns it to this node, and it has never been there.
    Fill,
    /// It was there, and may be damaged.
    Mend,
}

impl Why {
    fn mark(self) -> &'static str {
        match self {
            Self::Fill => "",
            Self::Mend => MENDS,
        }
    }

    /// Why the contents of the folder `workshop` came there. A title without a map was moved there.
    pub(crate) fn of(workshop: &Path) -> Self {
        let map = std::fs::read(workshop.join(BLOCKS)).ok();
        let is_fill = |map: &Vec<u8>| {
            map.split(|byte| *byte == b'\n')
                .next()
                .is_some_and(|head| !head.ends_with(MENDS.as_bytes()))
        };
        if map.as_ref().is_some_and(is_fill) { Self::Fill } else { Self::Mend }
    }
}

/// The map of one title.
pub(crate) struct BlockMap {
    file: File,
    /// Length of the first line.
    head: u64,
    there: Vec<u8>,
}

impl BlockMap {
    /// Opens the map in the folder `workshop` of a version with `count` blocks. A map of another version, another length or another purpose
    /// is replaced by an empty one.
    pub(crate) fn open(workshop: &Path, version: &str, count: usize, why: Why) -> io::Result<Self> {
        let head = format!("{version}{}\n", why.mark()).into_bytes();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(workshop.join(BLOCKS))?;
        let length = head.len() + count;
        let mut own = Self { file, head: head.len() as u64, there: vec![MISSING; count] };
        if own.file.metadata()?.len() == length as u64 {
            let mut bytes = vec![0; length];
            own.file.read_exact_at(&mut bytes, 0)?;
            if bytes.starts_with(&head) {
                own.there.copy_from_slice(&bytes[head.len()..]);
                return Ok(own);
            }
        }
        own.file.set_len(0)?;
        own.file.write_all_at(&[head.as_slice(), &own.there].concat(), 0)?;
        Ok(own)
    }

    /// Marks all blocks as missing.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.there.fill(MISSING);
        self.file.write_all_at(&self.there, self.head)
    }

    /// Whether a block is there.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.there.get(block) == Some(&THERE)
    }

    /// Marks a block as present.
    pub(crate) fn note(&mut self, block: usize) -> io::Result<()> {
        if self.has(block) {
            return Ok(());
        }
        self.there[block] = THERE;
        self.file.write_all_at(&[THERE], self.head + block as u64)
    }
}

/// Deletes the map in the folder `workshop`.
pub(crate) fn forget(workshop: &Path) -> io::Result<()> {
    match std::fs::remove_file(workshop.join(BLOCKS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_after_a_restart_and_only_of_that_version() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let open = |version, count| BlockMap::open(place, version, count, Why::Fill).unwrap();
        let mut map = open("aa", 5);
        assert!((0..6).all(|block| !map.has(block)));
        map.note(1).unwrap();
        map.note(4).unwrap();
        map.note(4).unwrap();
        let known: Vec<_> = (0..6).map(|block| open("aa", 5).has(block)).collect();
        assert_eq!(known, [false, true, false, false, true, false]);
        assert!(!open("ab", 5).has(1), "another version");
        assert!(!open("aa", 5).has(1), "it was thrown away");
        open("aa", 5).note(0).unwrap();
        assert!(!open("aa", 6).has(0), "another length");
        for torn in ["", "aa", "aa\n11", "aa\n1111111", "\n\n\n111111"] {
            std::fs::write(place.join(BLOCKS), torn).unwrap();
            assert!(!open("aa", 6).has(0), "{torn:?}");
        }
        let mut map = open("aa", 6);
        map.note(0).unwrap();
        map.clear().unwrap();
        assert!(!map.has(0) && !open("aa", 6).has(0), "it was cleared");
        forget(place).unwrap();
        forget(place).unwrap();
        assert!(!place.join(BLOCKS).exists());
    }

    #[test]
    fn it_says_after_a_restart_why_a_title_arrives() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        assert_eq!(Why::of(place), Why::Mend, "it was moved there");
        for why in [Why::Fill, Why::Mend] {
            BlockMap::open(place, "aa", 3, why).unwrap().note(1).unwrap();
            assert!(BlockMap::open(place, "aa", 3, why).unwrap().has(1));
            assert_eq!(Why::of(place), why);
        }
        assert!(!BlockMap::open(place, "aa", 3, Why::Fill).unwrap().has(1), "of another reason");
        forget(place).unwrap();
        assert_eq!(Why::of(place), Why::Mend);
    }
}
