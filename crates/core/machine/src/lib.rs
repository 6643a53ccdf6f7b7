//! The machine's properties that matter for serving: CPUs, caches, memory, kernel, limits, and the nodes of disks and network cards.
//!
//! Nearly all of it is read from the text files of `/proc` and `/sys`, below a root that tests can move; the settings of network
//! cards ([`ethtool`]) and the route of connections ([`TlsNics`]) are queried over [`netlink`]. Nothing is measured,
//! and only [`raise_nofile`], [`reserve_files`], [`forbid_core_dumps`], [`allow_core_dumps`] and [`netlink::Netlink::change`] change
//! anything. A file that is missing or cannot be parsed makes that one answer `None` (or the modest value its field names), never an
//! error: a server can start without knowing the size of its caches.
//!
//! Read first: [`Machine`], then [`Topology`] for machines with several NUMA nodes.

mod addresses;
mod caches;
mod cgroup;
mod core_dumps;
mod cpus;
mod disk_health;
mod disks;
pub mod ethtool;
mod headroom;
mod kernel;
mod limits;
mod link_speed;
mod mounts;
pub mod netlink;
mod nics;
mod nodes;
mod pressure;
mod reserved_pages;
mod root;
mod socket_links;
mod tls_nics;
mod topology;

pub use addresses::reachable_addresses;
pub use caches::Cache;
pub use core_dumps::{allow_core_dumps, forbid_core_dumps};
pub use cpus::{CpuFeatures, parse_list};
pub use disk_health::{DiskHealth, DiskLogs, KernelDiskLogs};
pub use headroom::{Headroom, MemoryLimit};
pub use kernel::KernelVersion;
pub use limits::{Limit, raise_nofile, reserve_files};
pub use link_speed::LinkSpeed;
pub use mounts::Mount;
pub use nics::{NicDevice, NicInterrupt};
pub use nodes::Node;
pub use pressure::MemoryPressure;
pub use reserved_pages::{LargePagePool, ReservedPages};
pub use socket_links::{FabricClocks, KernelSocketLinks, LinkQuestion, LinkWidths, SocketLinks};
pub use tls_nics::{Ends, LeavesBy, TLS_FEATURE, TlsNics};
pub use topology::Topology;

use std::path::Path;

use root::Root;

/// The machine as this process may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The kernel's numbers of the CPUs that this thread may run on, ascending. Only CPU 0 if unknown.
    pub cpus: Vec<u32>,
    /// The NUMA nodes that have any of these CPUs; just one if unknown.
    pub nodes: Vec<Node>,
    /// How many CPUs' worth of time the control groups above this process allow; `None` if they set no limit.
    pub cpu_quota: Option<f64>,
    /// The model name of the first of [`Machine::cpus`], for people; `None` if unknown, as on aarch64.
    pub cpu_model: Option<String>,
    /// The features of the first of [`Machine::cpus`].
    pub cpu_features: CpuFeatures,
    /// The data and unified caches of the first of [`Machine::cpus`], nearest first.
    pub caches: Vec<Cache>,
    /// The size of a page of memory.
    pub page_bytes: usize,
    /// The memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The memory that the control groups above this process allow; `None` if they set no limit below the machine's memory.
    pub memory_limit_bytes: Option<u64>,
    /// The running kernel.
    pub kernel: Option<KernelVersion>,
    /// The kernel's full release, as `uname -r` prints it; `None` unless it begins with numbers.
    pub kernel_release: Option<String>,
    /// The kernel has TLS at this moment. A kernel that has it as a module may load it at first use.
    pub kernel_tls: bool,
    /// How many files this process may have open.
    pub nofile: Option<Limit>,
    /// How many bytes of memory this process may lock (io_uring's registered buffers count, unless it has CAP_IPC_LOCK).
    pub memlock_bytes: Option<Limit>,
}

impl Machine {
    /// Examines this machine.
    pub fn probe() -> Self {
        Self::probe_from(Path::new("/"))
    }

    /// Reads the `proc` and `sys` folders below `root`. The page size is always this machine's.
    pub fn probe_from(root: &Path) -> Self {
        let root = &Root::new(root);
        let cpus = cpus::allowed(root).unwrap_or_else(|| vec![0]);
        let memory_bytes = root.read("proc/meminfo").and_then(|text| memory_total(&text));
        Self {
            nodes: nodes::of_cpus(root, &cpus),
            cpu_quota: cgroup::cpu_quota(root),
            cpu_model: cpus::model(root, cpus[0]),
            cpu_features: CpuFeatures::probe(root, cpus[0]),
            caches: caches::of_cpu(root, cpus[0]),
            page_bytes: rustix::param::page_size(),
            memory_limit_bytes: cgroup::memory_limit(root)
                .filter(|limit| memory_bytes.is_none_or(|all| *limit < all)),
            memory_bytes,
            kernel: KernelVersion::probe(root),
            kernel_release: kernel::release(root),
            kernel_tls: kernel::has_tls(root),
            nofile: limits::probe(root, "Max open files"),
            memlock_bytes: limits::probe(root, "Max locked memory"),
            cpus,
        }
    }

    /// The size of the data or unified cache at `level` (1 is nearest the core).
    pub fn cache_bytes(&self, level: u8) -> Option<u64> {
        self.caches.iter().find(|cache| cache.level == level).map(|cache| cache.bytes)
    }
}

/// `MemTotal:  24576000 kB` in /proc/meminfo, where kB means 1024 bytes (proc_meminfo(5)).
fn memory_total(text: &str) -> Option<u64> {
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kibibytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
