//! How the files of a title look without reading them: length, both times, inode.
//!
//! Writing to a file changes its change time (`ctime`), even if the modification time is set back afterwards. So a title whose stamp equals
//! that of its last verification has not been written to since. Data that decays on the disk does not change the stamp: the scrub finds
//! that.

use std::io;
use std::os::fd::AsFd;

use catalog::{RECORD, Record};
use fleet_protocol::Digest;
use rustix::fs::{AtFlags, statat};

/// The digest of the metadata of all files of the title. An error if one is missing.
pub(crate) fn stamp(folder: impl AsFd, record: &Record) -> io::Result<Digest> {
    let mut seen = Vec::with_capacity((record.files.len() + 1) * 64);
    let paths = record.files.iter().map(|file| file.path.as_str()).chain([RECORD]);
    for path in paths {
        let stat = statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW)?;
        let of_file = [
            stat.st_dev,
            stat.st_ino,
            stat.st_size as u64,
            stat.st_mtime as u64,
            stat.st_mtime_nsec as u64,
            stat.st_ctime as u64,
            stat.st_ctime_nsec as u64,
        ];
        seen.extend(of_file.iter().flat_map(|number| number.to_be_bytes()));
    }
    Ok(Digest::of(&seen))
}
