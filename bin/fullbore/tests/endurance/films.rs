//! A library of two files whose bytes show their position in the file.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use tempfile::TempDir;

/// The small file's name.
pub(crate) const SMALL: &str = "small.m4s";
/// Its bytes.
pub(crate) const SMALL_BYTES: u64 = 1000;
/// The large file's name.
pub(crate) const LARGE: &str = "large.mp4";
/// Its bytes: more than any socket takes at once, and no whole number of anything.
pub(crate) const LARGE_BYTES: u64 = (16 << 20) + 4321;

/// Makes the library, on a disk.
pub(crate) fn make() -> io::Result<TempDir> {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    for (name, bytes) in [(SMALL, SMALL_BYTES), (LARGE, LARGE_BYTES)] {
        let mut file = io::BufWriter::new(fs::File::create(folder.path().join(name))?);
        for offset in 0..bytes {
            file.write_all(&[byte(offset)])?;
        }
        file.into_inner()?;
    }
    Ok(folder)
}

/// Evicts the large file from the page cache, so that it is read from the disk again.
pub(crate) fn chill(folder: &Path) -> io::Result<()> {
    let file = fs::File::open(folder.join(LARGE))?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Publishes, replaces or removes a title, by `number` in turn, in the recommended way: by renaming.
pub(crate) fn publish(folder: &Path, number: u64) -> io::Result<()> {
    let title = folder.join(format!("title-{}.m4s", number / 3 % 10));
    if number % 3 == 2 {
        return fs::remove_file(title);
    }
    let beside = folder.join("title.new");
    fs::write(&beside, vec![number as u8; 10_000])?;
    fs::rename(beside, title)
}

/// Whether `part` matches either file at `offset`.
pub(crate) fn is_part(offset: u64, part: &[u8]) -> bool {
    (offset..).zip(part).all(|(offset, &found)| found == byte(offset))
}

/// Without a short period, so that bytes from the wrong place do not pass.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
