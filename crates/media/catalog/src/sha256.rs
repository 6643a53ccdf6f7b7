//! SHA-256 (FIPS 180-4) as text, for records: of files, of their blocks, and of the content that names a version.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;

use crate::record::BLOCK_BYTES;

/// Large enough for sequential reads, small enough for the second-level cache. A block is a whole number of these reads.
const READ_BYTES: usize = 256 << 10;
const _: () = assert!(BLOCK_BYTES as usize % READ_BYTES == 0);

/// The checksums of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Its length.
    pub bytes: u64,
    /// The checksum of the whole file.
    pub whole: String,
    /// The checksum of each block of [`BLOCK_BYTES`]; the last block may be shorter. Empty for an empty file.
    pub blocks: Vec<String>,
}

/// The checksum of these parts in order. Their lengths are included, so that another division of the same bytes gives another result.
pub fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    HEXLOWER.encode(context.finish().as_ref())
}

/// The checksum of some bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref())
}

/// The checksums of a file and of its blocks.
///
/// # Errors
/// If it cannot be read.
pub fn of_file(path: &Path) -> io::Result<Sums> {
    of_open_file(&File::open(path)?)
}

/// The checksums of an open file and of its blocks, from its current position to its end.
///
/// # Errors
/// If it cannot be read.
pub fn of_open_file(mut file: &File) -> io::Result<Sums> {
    let mut summing = Summing::new();
    let mut read = vec![0; READ_BYTES];
    loop {
        let count = fill(&mut file, &mut read)?;
        summing.update(&read[..count]);
        // A short read is the last one.
        if count < READ_BYTES {
            return Ok(summing.finish());
        }
    }
}

/// Computes checksums of a file's bytes as they arrive, in order.
pub struct Summing {
    whole: Context,
    block: Context,
    sums: Sums,
}

impl Default for Summing {
    fn default() -> Self {
        Self::new()
    }
}

impl Summing {
    /// A new computation, without any bytes.
    pub fn new() -> Self {
        let sums = Sums { bytes: 0, whole: String::new(), blocks: Vec::new() };
        Self { whole: Context::new(&SHA256), block: Context::new(&SHA256), sums }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let left = BLOCK_BYTES - self.sums.bytes % BLOCK_BYTES;
            let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            self.block.update(&bytes[..count]);
            self.sums.bytes += count as u64;
            if self.sums.bytes % BLOCK_BYTES == 0 {
                self.end_block();
            }
            bytes = &bytes[count..];
        }
    }

    /// The checksums of all bytes so far.
    pub fn finish(mut self) -> Sums {
        if self.sums.bytes % BLOCK_BYTES != 0 {
            self.end_block();
        }
        self.sums.whole = HEXLOWER.encode(self.whole.finish().as_ref());
        self.sums
    }

    fn end_block(&mut self) {
        let finished = std::mem::replace(&mut self.block, Context::new(&SHA256));
        self.sums.blocks.push(HEXLOWER.encode(finished.finish().as_ref()));
    }
}

/// Reads until `buffer` is full or the file ends; returns the number of bytes read.
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
