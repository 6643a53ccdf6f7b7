//! A control group with a limit on memory that changes while a server runs in it.

use fullbore_tests::{program, tool};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The number of the next one: tests of the same process may have theirs at the same time.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A control group of this test's own, of version 1 or 2.
pub(crate) struct Group {
    folder: PathBuf,
    is_v2: bool,
}

impl Group {
    /// Makes one, or reports loudly that it cannot.
    pub(crate) fn make() -> Option<Self> {
        let memberships = fs::read_to_string("/proc/self/cgroup").expect("the kernel tells");
        let (parent, is_v2) = memberships.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let path = path.trim_start_matches('/');
            match controllers {
                "memory" => Some((Path::new("/sys/fs/cgroup/memory").join(path), false)),
                "" if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
                    // A group with processes of its own grants no controllers to groups below it; the root does.
                    Some((PathBuf::from("/sys/fs/cgroup"), true))
                }
                _ => None,
            }
        })?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("fullbore-test-{}-{number}", std::process::id()));
        if is_v2 {
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let made = fs::create_dir(&folder);
        let group = Self { folder, is_v2 };
        if made.is_ok() && group.folder.join(group.limit_file()).exists() {
            return Some(group);
        }
        tool::skip(&format!(
            "no control group with a memory limit can be made here ({made:?}): run this as root"
        ));
        None
    }

    /// The server, started in this group by a script that becomes it.
    pub(crate) fn program(&self, folder: &Path) -> PathBuf {
        let script = folder.join("fullbore-in-a-group");
        let text = format!(
            "#!/bin/sh\necho $$ >{}/cgroup.procs || exit 9\nexec {} \"$@\"\n",
            self.folder.display(),
            program().display()
        );
        fs::write(&script, text).expect("a temporary folder can be written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
        script
    }

    fn limit_file(&self) -> &'static str {
        if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" }
    }

    pub(crate) fn limit(&self, bytes: Option<u64>) {
        let none = if self.is_v2 { "max" } else { "-1" };
        let text = bytes.map_or(none.to_owned(), |bytes| bytes.to_string());
        fs::write(self.folder.join(self.limit_file()), text).expect("the group's limit can be set");
    }

    /// Memory that cannot be reclaimed at once: everything except the page cache.
    pub(crate) fn used_bytes(&self) -> u64 {
        let usage = if self.is_v2 { "memory.current" } else { "memory.usage_in_bytes" };
        let used: u64 = self.read(usage).trim().parse().expect("a number");
        let details = self.read("memory.stat");
        let files = details.lines().filter_map(|line| line.split_once(' '));
        let files = files.filter(|(name, _)| ["active_file", "inactive_file"].contains(name));
        used - files.map(|(_, bytes)| bytes.parse::<u64>().expect("a number")).sum::<u64>()
    }

    pub(crate) fn killed(&self) -> u64 {
        let told = self.read(if self.is_v2 { "memory.events" } else { "memory.oom_control" });
        let killed = told.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.expect("the kernel counts").parse().expect("a number")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect("the group is there")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may not be gone yet.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
