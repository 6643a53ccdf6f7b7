//! Machines of several kinds, as their /proc and /sys describe them.

use std::fs;

use fullbore_machine::{Cache, KernelVersion, Limit, Machine, raise_nofile, reserve_files};
use tempfile::TempDir;

/// A machine that has these files.
fn machine(files: &[(&str, &str)]) -> Machine {
    let root = TempDir::new().expect("a temporary folder");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("files lie below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    Machine::probe_from(root.path())
}

fn cache(
    cpu: u32,
    index: u32,
    kind: &str,
    level: &str,
    size: &str,
    shared: &str,
) -> Vec<(String, String)> {
    let file = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
    [("type", kind), ("level", level), ("size", size), ("shared_cpu_list", shared)]
        .map(|(name, text)| (file(name), format!("{text}\n")))
        .to_vec()
}

fn with_caches(files: &[(&str, &str)], caches: &[Vec<(String, String)>]) -> Machine {
    let caches = caches.iter().flatten().map(|(path, text)| (path.as_str(), text.as_str()));
    machine(&files.iter().copied().chain(caches).collect::<Vec<_>>())
}

#[test]
fn a_machine_that_tells_nothing_is_one_cpu_of_unknown_make() {
    let machine = machine(&[]);
    assert_eq!(machine.cpus, [0]);
    assert_eq!(machine.caches, []);
    assert_eq!(machine.nodes[0].last_level_bytes_per_cpu(), None);
    assert_eq!(
        (machine.cpu_quota, machine.memory_bytes, machine.memory_limit_bytes),
        (None, None, None)
    );
    assert_eq!((machine.kernel, machine.nofile, machine.memlock_bytes), (None, None, None));
    assert!(!machine.kernel_tls && !machine.cpu_features.aes);
}

#[test]
fn files_full_of_nonsense_are_as_good_as_none() {
    let nonsense = "\u{0}: -1 kB\n:\n0::\n";
    let paths = [
        "proc/thread-self/status",
        "proc/meminfo",
        "proc/self/cgroup",
        "proc/self/limits",
        "proc/cpuinfo",
    ];
    let files: Vec<_> = paths
        .into_iter()
        .chain(["proc/sys/kernel/osrelease"])
        .map(|path| (path, nonsense))
        .collect();
    assert_eq!(machine(&files), machine(&[]));
}

#[test]
fn one_core_with_its_caches_to_itself() {
    let files =
        [("proc/thread-self/status", "Name:\tx\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n")];
    let caches = [
        cache(0, 0, "Data", "1", "32K", "0"),
        cache(0, 1, "Instruction", "1", "64K", "0"),
        cache(0, 2, "Unified", "2", "1024K", "0"),
    ];
    let machine = with_caches(&files, &caches);
    assert_eq!(machine.cpus, [0]);
    assert_eq!(machine.cache_bytes(1), Some(32 << 10));
    assert_eq!(machine.cache_bytes(2), Some(1 << 20));
    assert_eq!(machine.cache_bytes(3), None);
    assert_eq!(machine.nodes[0].last_level_bytes_per_cpu(), Some(1 << 20));
}

#[test]
fn many_cores_share_the_last_level_and_we_may_use_some_of_them() {
    let files = [("proc/thread-self/status", "Cpus_allowed_list:\t2-3,64-65\n")];
    let caches = [
        cache(2, 3, "Unified", "3", "32M", "0-7,64-71"),
        cache(2, 0, "Data", "1", "48K", "2,66"),
        cache(0, 0, "Data", "1", "99K", "0"),
    ];
    let machine = with_caches(&files, &caches);
    assert_eq!(machine.cpus, [2, 3, 64, 65]);
    let first = Cache { level: 1, bytes: 48 << 10, shared_by: vec![2, 66] };
    assert_eq!(machine.caches[0], first);
    assert_eq!(machine.nodes[0].last_level_bytes_per_cpu(), Some(2 << 20));
}

#[test]
fn a_machine_may_have_its_only_cpus_on_another_node_than_the_first() {
    let with_node_0 = |cpus: &str, allowed: &str| {
        let status = format!("Cpus_allowed_list:\t{allowed}\n");
        let machine = machine(&[
            ("proc/thread-self/status", status.as_str()),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/node/node0/cpulist", cpus),
            ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ]);
        machine.nodes.into_iter().map(|node| (node.number, node.cpus)).collect::<Vec<_>>()
    };
    assert_eq!(with_node_0("\n", "2-3"), [(1, vec![2, 3])], "node 0 has memory only");
    assert_eq!(with_node_0("0-1\n", "3"), [(1, vec![3])], "the server may not use node 0");
    // 9 belongs to no node, and the nodes are ascending.
    assert_eq!(with_node_0("\n", "2,9"), [(0, vec![9]), (1, vec![2])]);
}

#[test]
fn each_node_has_its_cpus_and_the_caches_of_the_first_of_them() {
    let files = [
        ("proc/thread-self/status", "Cpus_allowed_list:\t0-5,9\n"),
        ("sys/devices/system/node/online", "0-2\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1,4-5\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3,6-7\n"),
        ("sys/devices/system/node/node2/cpulist", "8\n"),
    ];
    let caches = [
        cache(0, 3, "Unified", "3", "32M", "0-1,4-5"),
        cache(2, 3, "Unified", "3", "16M", "2-3,6-7"),
    ];
    let machine = with_caches(&files, &caches);
    let seen: Vec<_> = machine
        .nodes
        .iter()
        .map(|node| (node.number, &node.cpus[..], node.last_level_bytes_per_cpu()))
        .collect();
    let expected = [
        (0, &[0, 1, 4, 5, 9][..], Some(8 << 20)), // 9 belongs to no node
        (1, &[2, 3], Some(4 << 20)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_least_bound_on_the_way_up_counts_in_cgroups_version_2() {
    let machine = machine(&[
        ("proc/self/cgroup", "0::/system.slice/fullbore.service\n"),
        ("proc/meminfo", "MemTotal:       24576 kB\nMemFree: 1 kB\n"),
        ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/system.slice/fullbore.service/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
        ("sys/fs/cgroup/system.slice/fullbore.service/memory.max", "1048576\n"),
    ]);
    assert_eq!(machine.cpu_quota, Some(1.5));
    assert_eq!(machine.memory_bytes, Some(24 << 20));
    assert_eq!(machine.memory_limit_bytes, Some(1 << 20));
}

#[test]
fn cgroups_version_1_are_read_by_controller() {
    let machine = machine(&[
        ("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"),
        ("proc/meminfo", "MemTotal: 1024 kB\n"),
        ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(machine.cpu_quota, Some(0.5));
    assert_eq!(machine.memory_limit_bytes, None, "a limit above the machine's memory is no limit");
}

#[test]
fn limits_kernel_and_its_tls_are_read() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              unlimited            bytes     \n\
                  Max open files            1024                 20000                files     \n";
    let machine = machine(&[
        ("proc/self/limits", limits),
        ("proc/sys/kernel/osrelease", "6.1.0-32-amd64\n"),
        ("proc/net/tls_stat", ""),
    ]);
    assert_eq!(machine.nofile, Some(Limit { soft: 1024, hard: 20000 }));
    assert_eq!(machine.memlock_bytes, Some(Limit { soft: 8 << 20, hard: u64::MAX }));
    assert_eq!(machine.kernel, Some(KernelVersion { major: 6, minor: 1 }));
    assert_eq!(machine.kernel_release.as_deref(), Some("6.1.0-32-amd64"));
    assert!(machine.kernel_tls);
}

#[test]
fn this_machine_is_known_and_its_file_limit_can_be_raised() {
    let machine = Machine::probe();
    assert!(!machine.cpus.is_empty());
    assert!(machine.page_bytes.is_power_of_two());
    assert!(machine.kernel.is_some() && machine.memory_bytes.is_some());
    let hard = machine.nofile.expect("/proc/self/limits").hard;
    assert_eq!(raise_nofile().expect("the hard limit is ours to reach"), hard);
    assert_eq!(Machine::probe().nofile, Some(Limit { soft: hard, hard }));
    let wanted = hard.min(5000);
    reserve_files(wanted).expect("there is memory for a table");
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let slots = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    let slots: u64 = slots.and_then(|slots| slots.trim().parse().ok()).expect("FDSize");
    assert!(slots >= wanted, "{slots}");
}
