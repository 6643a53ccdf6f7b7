//! SHA-256 (FIPS 180-4), as the text that manifests have.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use std::fmt::Write;

/// Large enough that the disk streams, small enough for the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

/// Of these parts, one after the other, with their lengths: other divisions of the same bytes give another sum.
pub(crate) fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    hexadecimal(context.finish())
}

/// Of some bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(aws_lc_rs::digest::digest(&SHA256, bytes))
}

/// Of a file, and how long it is.
pub(crate) fn of_file(path: &Path) -> io::Result<(u64, String)> {
    of_open_file(&File::open(path)?)
}

/// Of a file that is open, from where it is read next to its end.
pub(crate) fn of_open_file(mut file: &File) -> io::Result<(u64, String)> {
    let (mut context, mut block, mut bytes) = (Context::new(&SHA256), vec![0; BLOCK_BYTES], 0);
    loop {
        let count = match file.read(&mut block) {
            Ok(0) => return Ok((bytes, hexadecimal(context.finish()))),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        context.update(&block[..count]);
        bytes += count as u64;
    }
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
        assert_eq!(of_file(&file).unwrap(), (3, expected.to_owned()));
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(of_parts([&b"ab"[..], b"c"]), of_parts([&b"a"[..], b"bc"]));
    }
}
