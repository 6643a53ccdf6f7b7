//! A memory control group for the server under test: it leaves little memory for the page cache, as on a server with a large library.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// A control group that limits memory; removed when dropped, after the last process in it has ended.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
}

impl Group {
    /// Creates a group below ours that may use `bytes`, including the page cache.
    ///
    /// # Errors
    /// Why this machine does not allow it, and what to do about it.
    pub(crate) fn with_memory(bytes: u64) -> Result<Self, String> {
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (parent, limit) = parent(&memberships)
            .ok_or("the kernel shows no control groups, so memory cannot be made scarce")?;
        let path = parent.join(format!("fullbore-bench-{}", std::process::id()));
        let refused = |error: io::Error| {
            format!(
                "cannot create a memory group in {} ({error}): this needs root, or under systemd: systemd-run --scope -p Delegate=yes",
                parent.display()
            )
        };
        fs::create_dir(&path).map_err(refused)?;
        let group = Self { path };
        // A missing file: the controller is not delegated to this group.
        let written = fs::File::options().write(true).open(group.path.join(limit));
        written
            .and_then(|mut file| io::Write::write_all(&mut file, bytes.to_string().as_bytes()))
            .map_err(refused)?;
        Ok(group)
    }

    /// The file to which a process writes its number to join.
    pub(crate) fn members(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A failure cannot be handled here. The group is empty, so it limits nothing.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Our own group in the hierarchy with the memory controller, and the name of its limit file. Version 1 wins if it has the controller.
fn parent(memberships: &str) -> Option<(PathBuf, &'static str)> {
    let of = |controller: &str| {
        memberships.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let found = controllers.split(',').any(|name| name == controller);
            found.then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let version_1 = of("memory")
        .map(|path| (Path::new(GROUPS).join("memory").join(path), "memory.limit_in_bytes"));
    version_1.or_else(|| of("").map(|path| (Path::new(GROUPS).join(path), "memory.max")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_group_is_found_in_both_versions() {
        let version_1 = "9:name=systemd:/\n4:memory:/a/b\n0::/\n";
        let path = PathBuf::from("/sys/fs/cgroup/memory/a/b");
        assert_eq!(parent(version_1), Some((path, "memory.limit_in_bytes")));
        let version_2 = "0::/user.slice/x.scope\n";
        let path = PathBuf::from("/sys/fs/cgroup/user.slice/x.scope");
        assert_eq!(parent(version_2), Some((path, "memory.max")));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn a_group_is_made_and_vanishes_or_the_reason_is_told() {
        match Group::with_memory(64 << 20) {
            Ok(group) => {
                let path = group.path.clone();
                assert!(group.members().exists());
                drop(group);
                assert!(!path.exists());
            }
            Err(why) => {
                fullbore_tests::tool::skip(&why);
                assert!(why.contains("control groups") || why.contains("root"), "{why}");
            }
        }
    }
}
