//! SHA-256 (FIPS 180-4) as text, for records: of files, of their blocks, and of the content that names a version.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use std::fmt::Write;

use crate::record::BLOCK_BYTES;

/// Large enough that the disk streams, small enough for the second-level cache. A block is a whole number of these reads.
const READ_BYTES: usize = 256 << 10;
const _: () = assert!(BLOCK_BYTES as usize % READ_BYTES == 0);

/// The sums of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// How long it is.
    pub bytes: u64,
    /// The sum of the whole file.
    pub whole: String,
    /// The sum of each block of [`BLOCK_BYTES`]; the last block may be shorter. Empty for an empty file.
    pub blocks: Vec<String>,
}

/// The sum of these parts in order. Their lengths are included, so that another division of the same bytes gives another sum.
pub fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    hexadecimal(context.finish())
}

/// The sum of some bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(aws_lc_rs::digest::digest(&SHA256, bytes))
}

/// The sums of a file and of its blocks.
///
/// # Errors
/// If it cannot be read.
pub fn of_file(path: &Path) -> io::Result<Sums> {
    of_open_file(&File::open(path)?)
}

/// The sums of an open file and of its blocks, from its current position to its end.
///
/// # Errors
/// If it cannot be read.
pub fn of_open_file(mut file: &File) -> io::Result<Sums> {
    let (mut whole, mut block) = (Context::new(&SHA256), Context::new(&SHA256));
    let mut sums = Sums { bytes: 0, whole: String::new(), blocks: Vec::new() };
    let mut read = vec![0; READ_BYTES];
    loop {
        let count = fill(&mut file, &mut read)?;
        whole.update(&read[..count]);
        block.update(&read[..count]);
        sums.bytes += count as u64;
        // A short read is the last one. It leaves a block unfinished, unless the read before it ended at the end of a block.
        let is_end = count < READ_BYTES;
        let is_block_end = sums.bytes % BLOCK_BYTES == 0;
        if (is_end && !is_block_end) || (is_block_end && count > 0) {
            let finished = std::mem::replace(&mut block, Context::new(&SHA256));
            sums.blocks.push(hexadecimal(finished.finish()));
        }
        if is_end {
            sums.whole = hexadecimal(whole.finish());
            return Ok(sums);
        }
    }
}

/// Reads until `buffer` is full or the file ends; returns how much that was.
fn fill(file: &mut &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn hexadecimal(digest: Digest) -> String {
    digest.as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_abc_is_the_standards() {
        // FIPS 180-4's own example.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), expected);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        std::fs::write(&file, b"abc").unwrap();
        let (whole, blocks) = (expected.to_owned(), vec![expected.to_owned()]);
        assert_eq!(of_file(&file).unwrap(), Sums { bytes: 3, whole, blocks });
    }

    #[test]
    fn each_block_has_its_sum_however_long_the_last_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let block = BLOCK_BYTES as usize;
        let read = READ_BYTES;
        for bytes in
            [0, 1, read, block - 1, block, block + 1, block + read, 2 * block, 2 * block + 7]
        {
            let content: Vec<_> = (0..bytes).map(|at| (at / 1000 % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let expected = Sums {
                bytes: bytes as u64,
                whole: of_bytes(&content),
                blocks: content.chunks(block).map(of_bytes).collect(),
            };
            assert_eq!(of_file(&path).unwrap(), expected, "{bytes}");
        }
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(of_parts([&b"ab"[..], b"c"]), of_parts([&b"a"[..], b"bc"]));
    }
}
