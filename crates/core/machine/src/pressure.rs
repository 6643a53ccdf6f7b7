//! Memory pressure: how long threads wait for memory (the kernel's pressure stall information, PSI), and how much is available.
//!
//! The files are opened once, because a sandbox may forbid opening them later.

use crate::cgroup;
use crate::headroom::read;
use crate::root::Root;
use std::fs::File;
use std::path::Path;

/// More than `/proc/meminfo` and the pressure files have had in any kernel so far.
const FILE_BYTES_MAX: usize = 4 << 10;

/// Reads the machine's memory pressure, and that of this process's control groups.
#[derive(Debug)]
pub struct MemoryPressure {
    /// `/proc/pressure/memory`, and `memory.pressure` of this process's control groups.
    files: Vec<File>,
    meminfo: Option<File>,
}

impl MemoryPressure {
    /// Opens the kernel's files. Those that do not exist are left out.
    pub fn open() -> Self {
        Self::open_from(Path::new("/"))
    }

    /// As [`Self::open`], below another root than `/`.
    pub fn open_from(root: &Path) -> Self {
        let root = &Root::new(root);
        let groups = cgroup::memory_groups(root);
        let of_groups = groups.iter().map(|group| root.open(format!("{group}/memory.pressure")));
        let of_machine = root.open("proc/pressure/memory");
        Self {
            files: of_groups.chain([of_machine]).flatten().collect(),
            meminfo: root.open("proc/meminfo"),
        }
    }

    /// The percentage of the last ten seconds in which at least one thread waited for memory. Of the machine and this process's control
    /// groups, the highest counts. 0 if the kernel does not report pressure (built without `CONFIG_PSI`, or started with `psi=0`).
    pub fn stalled_percent(&self) -> f64 {
        let mut room = [0; FILE_BYTES_MAX];
        let of = |file| read(file, &mut room).and_then(stalled_percent).unwrap_or(0.0);
        self.files.iter().map(of).fold(0.0, f64::max)
    }

    /// Bytes that programs on this machine can still allocate without swapping (`MemAvailable`).
    pub fn available_bytes(&self) -> Option<u64> {
        let mut room = [0; FILE_BYTES_MAX];
        let text = read(self.meminfo.as_ref()?, &mut room)?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    }
}

/// Parses `some avg10=0.12 avg60=...` (Linux, Documentation/accounting/psi.rst).
fn stalled_percent(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_higher_pressure_counts_that_of_the_machine_or_of_a_group() {
        let root = tempfile::tempdir().unwrap();
        let pressure = |avg10| {
            format!(
                "some avg10={avg10} avg60=9.00 avg300=9.00 total=1\nfull avg10=8.00 avg60=8.00\n"
            )
        };
        write(root.path(), "proc/self/cgroup", "0::/box\n");
        write(root.path(), "sys/fs/cgroup/box/memory.max", "1000\n");
        write(root.path(), "sys/fs/cgroup/box/memory.pressure", &pressure("1.50"));
        write(root.path(), "proc/pressure/memory", &pressure("0.25"));
        write(root.path(), "proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   50 kB\n");
        let told = MemoryPressure::open_from(root.path());
        assert_eq!(told.stalled_percent(), 1.5);
        assert_eq!(told.available_bytes(), Some(50 << 10));
        write(root.path(), "proc/pressure/memory", &pressure("3.00"));
        assert_eq!(told.stalled_percent(), 3.0);
    }

    #[test]
    fn a_kernel_that_does_not_tell_has_no_pressure() {
        let root = tempfile::tempdir().unwrap();
        let told = MemoryPressure::open_from(root.path());
        assert_eq!((told.stalled_percent(), told.available_bytes()), (0.0, None));
    }
}
