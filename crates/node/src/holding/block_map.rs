//! Which blocks of an arriving title were compared and written: a file beside it, which a copy that was cut goes on from.
//!
//! The first line is the version; a digit for each block of all its files follows, in the record's order: `1` for one that is there. A digit is
//! written after its block, so whenever the agent is killed, what the map says is so. After a power failure the disk may have kept a digit and not
//! its block. Therefore the map only saves fetching: a file of which an earlier attempt has noted blocks is read back and compared before the title
//! is published, and the map is thrown away if it does not match.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Beside the folder in which the title arrives.
pub(crate) const BLOCKS: &str = "blocks";

const THERE: u8 = b'1';
const MISSING: u8 = b'0';

/// The map of one title.
pub(crate) struct BlockMap {
    file: File,
    /// Bytes of the first line.
    head: u64,
    there: Vec<u8>,
}

impl BlockMap {
    /// The map in the folder `workshop` of a version with so many blocks. One of another version, or of another length, is made anew.
    pub(crate) fn open(workshop: &Path, version: &str, count: usize) -> io::Result<Self> {
        let head = format!("{version}\n").into_bytes();
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

    /// Whether a block is there.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.there.get(block) == Some(&THERE)
    }

    /// Notes that a block is there.
    pub(crate) fn note(&mut self, block: usize) -> io::Result<()> {
        if self.has(block) {
            return Ok(());
        }
        self.there[block] = THERE;
        self.file.write_all_at(&[THERE], self.head + block as u64)
    }
}

/// Throws the map in the folder `workshop` away.
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
        let open = |version, count| BlockMap::open(place, version, count).unwrap();
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
        forget(place).unwrap();
        forget(place).unwrap();
        assert!(!place.join(BLOCKS).exists());
    }
}
