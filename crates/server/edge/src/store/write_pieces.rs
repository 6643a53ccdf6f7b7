//! Writing bytes that are in several places.

use rustix::io::{Errno, pwritev};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};

/// Writes all of these bytes to `file`, from `offset` on.
pub(super) fn write_all_at(file: &File, bytes: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    let mut rest = bytes.to_vec();
    let mut rest = &mut rest[..];
    while !rest.is_empty() {
        match pwritev(file, rest, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                IoSlice::advance_slices(&mut rest, count);
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces_are_written_from_the_offset_on() {
        let file = tempfile::tempfile().unwrap();
        let pieces = [&b"ab"[..], b"", b"cde", b"f"].map(IoSlice::new);
        write_all_at(&file, &pieces, 3).unwrap();
        write_all_at(&file, &[], 9).unwrap();
        let mut read = [b'.'; 9];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 0).unwrap();
        assert_eq!(&read, b"\0\0\0abcdef");
        assert!(write_all_at(&File::open("/dev/null").unwrap(), &pieces, 0).is_err(), "read only");
    }
}
