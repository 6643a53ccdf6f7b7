//! How much memory this process may still take before it hits a limit.
//!
//! Two kinds of limits matter, and they end a program differently. With a control group, the kernel kills a process of
//! the group. With the resource limits on address space and data (`ulimit -v`, `ulimit -d`), an allocation fails, which
//! ends a Rust program.
//!
//! The files are opened once and read again at each look, because a sandbox may forbid opening them later, and because
//! limits may change while a server runs. A look takes a few microseconds and allocates nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::cgroup;
use crate::root::Root;

/// More than `memory.stat` has in any kernel so far (4 KiB in Linux 6.18).
const FILE_BYTES_MAX: usize = 16 << 10;

/// A limit on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Its name, for people.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// The remaining bytes. Memory that the kernel can reclaim at once (the page cache) counts as remaining.
    pub left_bytes: u64,
}

/// The limits on this process's memory.
#[derive(Debug)]
pub struct Headroom {
    groups: Vec<Group>,
    /// `/proc/self/statm`.
    sizes: Option<File>,
    page_bytes: u64,
}

/// The files of one control group.
#[derive(Debug)]
struct Group {
    limit: File,
    usage: File,
    details: File,
}

impl Headroom {
    /// Opens the files that report the limits.
    pub fn open() -> Self {
        Self::open_from(Path::new("/"))
    }

    /// As [`Self::open`], below another root than `/`. The resource limits are this process's in any case.
    pub fn open_from(root: &Path) -> Self {
        let root = &Root::new(root);
        Self {
            groups: cgroup::memory_groups(root)
                .iter()
                .filter_map(|group| Group::open(root, group))
                .collect(),
            sizes: root.open("proc/self/statm"),
            page_bytes: rustix::param::page_size() as u64,
        }
    }

    /// The control group with the least left; `None` if none sets a limit.
    pub fn of_groups(&self) -> Option<MemoryLimit> {
        self.groups.iter().filter_map(Group::bound).min_by_key(|bound| bound.left_bytes)
    }

    /// The resource limit with the least left; `None` if none is set.
    pub fn of_process(&self) -> Option<MemoryLimit> {
        let limits = [Resource::As, Resource::Data].map(|limit| getrlimit(limit).current);
        if limits == [None, None] {
            return None;
        }
        let mut room = [0; 256];
        let text = read(self.sizes.as_ref()?, &mut room)?;
        let pages = |index| text.split_ascii_whitespace().nth(index)?.parse::<u64>().ok();
        // proc_pid_statm(5): the first number is the address space, the sixth is data and stacks.
        let sizes = [pages(0)?, pages(5)?].map(|pages| pages * self.page_bytes);
        let names = ["address space (RLIMIT_AS)", "data (RLIMIT_DATA)"];
        let bounds = names.into_iter().zip(limits).zip(sizes);
        bounds
            .filter_map(|((name, bytes), used)| {
                bytes.map(|bytes| MemoryLimit {
                    name,
                    bytes,
                    left_bytes: bytes.saturating_sub(used),
                })
            })
            .min_by_key(|bound| bound.left_bytes)
    }
}

impl Group {
    /// Opens a group's files by the names of version 2 or 1.
    fn open(root: &Root, folder: &str) -> Option<Self> {
        let names = [
            ["memory.max", "memory.current", "memory.stat"],
            ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"],
        ];
        names.iter().find_map(|names| {
            let [limit, usage, details] = names.map(|name| root.open(format!("{folder}/{name}")));
            Some(Self { limit: limit?, usage: usage?, details: details? })
        })
    }

    fn bound(&self) -> Option<MemoryLimit> {
        let mut room = [0; FILE_BYTES_MAX];
        // "max" is no limit (version 2), and neither is more than any machine has (version 1).
        let bytes = read(&self.limit, &mut room)?.trim().parse::<u64>().ok()?;
        if bytes >= u64::MAX / 4 {
            return None;
        }
        let used = read(&self.usage, &mut room)?.trim().parse::<u64>().ok()?;
        let reclaimable = page_cache_bytes(read(&self.details, &mut room)?);
        let left_bytes = bytes.saturating_sub(used.saturating_sub(reclaimable));
        Some(MemoryLimit { name: "its control group", bytes, left_bytes })
    }
}

/// A group's page cache, clean and dirty. Version 1 lists the group alone and, as `total_`, the group with those below
/// it. Its limit applies to the latter, which is larger.
fn page_cache_bytes(details: &str) -> u64 {
    let sum_of = |names: [&str; 2]| {
        let values = details.lines().filter_map(|line| line.split_once(' '));
        let values = values.filter(|(name, _)| names.contains(name));
        values.filter_map(|(_, value)| value.parse::<u64>().ok()).sum::<u64>()
    };
    sum_of(["active_file", "inactive_file"])
        .max(sum_of(["total_active_file", "total_inactive_file"]))
}

/// Reads `file` from its start, up to the size of `room`.
pub(crate) fn read<'a>(file: &File, room: &'a mut [u8]) -> Option<&'a str> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&room[..filled]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn bound(left_bytes: u64, bytes: u64) -> MemoryLimit {
        MemoryLimit { name: "its control group", bytes, left_bytes }
    }

    #[test]
    fn page_cache_counts_as_left_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("proc/self/cgroup", "0::/box\n"),
                ("sys/fs/cgroup/box/memory.max", "1000\n"),
                ("sys/fs/cgroup/box/memory.current", "900\n"),
                ("sys/fs/cgroup/box/memory.stat", "anon 500\nactive_file 100\ninactive_file 50\n"),
            ],
        );
        let headroom = Headroom::open_from(root.path());
        assert_eq!(headroom.of_groups(), Some(bound(250, 1000)));
        // Limits are read again each time.
        write(root.path(), &[("sys/fs/cgroup/box/memory.max", "max\n")]);
        assert_eq!(headroom.of_groups(), None);

        let root = tempfile::tempdir().unwrap();
        let stat = "active_file 1\ntotal_active_file 30\ntotal_inactive_file 20\n";
        write(
            root.path(),
            &[
                ("proc/self/cgroup", "4:memory:/box\n"),
                ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n"),
                ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2000\n"),
                ("sys/fs/cgroup/memory/box/memory.stat", stat),
            ],
        );
        assert_eq!(Headroom::open_from(root.path()).of_groups(), Some(bound(0, 1000)));
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let mut files = vec![("proc/self/cgroup", "0::/a/b\n")];
        files.extend([
            ("sys/fs/cgroup/a/memory.max", "500\n"),
            ("sys/fs/cgroup/a/memory.current", "450\n"),
            ("sys/fs/cgroup/a/memory.stat", ""),
            ("sys/fs/cgroup/a/b/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100\n"),
            ("sys/fs/cgroup/a/b/memory.stat", ""),
        ]);
        write(root.path(), &files);
        assert_eq!(Headroom::open_from(root.path()).of_groups(), Some(bound(50, 500)));
    }
}
