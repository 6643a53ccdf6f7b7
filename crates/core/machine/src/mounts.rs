//! Mounted filesystems, from /proc/self/mountinfo (proc_pid_mountinfo(5)).

use crate::topology::Topology;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of its device, as /sys names it: `259:0`.
    pub device: String,
    /// Its mount point.
    pub point: PathBuf,
    /// Its source: for a filesystem on a disk, the path of the disk's device file.
    pub source: PathBuf,
    /// The filesystem: `ext4`, `xfs`.
    pub kind: String,
    /// Options of this mount, then those of the filesystem.
    pub options: Vec<String>,
}

impl Topology {
    /// The mount that `folder` is in, and those below it. `folder` must be free of links and `..`.
    pub fn mounts_of(&self, folder: &Path) -> Vec<Mount> {
        let text = self.root.read("proc/self/mountinfo").unwrap_or_default();
        let all: Vec<_> = text.lines().filter_map(parse).collect();
        let around = all.iter().filter(|mount| folder.starts_with(&mount.point));
        // Of several on the same point, the last one covers the others.
        let own = around.max_by_key(|mount| mount.point.components().count());
        let below =
            all.iter().filter(|mount| mount.point != folder && mount.point.starts_with(folder));
        own.into_iter().chain(below).cloned().collect()
    }
}

/// `36 35 98:0 /mnt1 /mnt/2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &str) -> Option<Mount> {
    let (place, filesystem) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let device = place.next()?.to_owned();
    let mut place = place.skip(1);
    let (point, of_mount) = (place.next()?, place.next().unwrap_or_default());
    let mut filesystem = filesystem.split(' ');
    let (kind, source) = (filesystem.next()?.to_owned(), filesystem.next()?);
    let options = of_mount.split(',').chain(filesystem.next().unwrap_or_default().split(','));
    let options = options.filter(|option| !option.is_empty()).map(str::to_owned).collect();
    Some(Mount { device, point: unescaped(point), source: unescaped(source), kind, options })
}

/// Decodes blanks, line ends and backslashes, which are written as `\` and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal.filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}
