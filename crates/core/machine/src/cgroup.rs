//! The limits that control groups set for this process, version 1 and 2 (kernel documentation: admin-guide/cgroup-v1,
//! cgroup-v2).
//!
//! Every group above limits a group, so the lowest limit on the way up counts. In a container the way up may end below
//! the real root; groups above that cannot be seen from inside.

use std::path::Path;

use crate::root::Root;

const GROUPS: &str = "sys/fs/cgroup";

/// How many CPUs' worth of time this process gets, at most.
pub(crate) fn cpu_quota(root: &Root) -> Option<f64> {
    let quota = |group: &str| {
        let text = root.read(format!("{group}/cpu.max"));
        text.map_or_else(|| quota_v1(root, group), |text| quota_v2(&text))
    };
    groups(root, "cpu").iter().filter_map(|group| quota(group)).min_by(f64::total_cmp)
}

/// How many bytes of memory this process gets, at most.
pub(crate) fn memory_limit(root: &Root) -> Option<u64> {
    let limit = |group: &str| {
        let v2 = root.read(format!("{group}/memory.max"));
        v2.or_else(|| root.read(format!("{group}/memory.limit_in_bytes")))?.parse().ok()
    };
    memory_groups(root).iter().filter_map(|group| limit(group)).min()
}

/// The folders of the groups that limit this process's memory, from its own up.
pub(crate) fn memory_groups(root: &Root) -> Vec<String> {
    groups(root, "memory")
}

/// Parses `50000 100000`: microseconds of CPU time in each period; `max 100000` sets no limit.
fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

/// The same in two files; a quota of -1 sets no limit.
fn quota_v1(root: &Root, group: &str) -> Option<f64> {
    let quota = root.read_value(format!("{group}/cpu.cfs_quota_us"))?;
    ratio(quota, root.read_value(format!("{group}/cpu.cfs_period_us"))?)
}

fn ratio(quota_us: i64, period_us: i64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The folders of the groups that limit this process in `controller`, from its own up.
fn groups(root: &Root, controller: &str) -> Vec<String> {
    let memberships = root.read("proc/self/cgroup").unwrap_or_default();
    memberships
        .lines()
        .filter_map(|line| membership(line, controller))
        .flat_map(|(hierarchy, path)| upwards(&hierarchy, path))
        .collect()
}

/// Parses `4:memory:/a/b` (version 1, one hierarchy per controller or pair of them) or `0::/a/b` (version 2, one for all).
fn membership<'a>(line: &'a str, controller: &str) -> Option<(String, &'a str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        return Some((GROUPS.to_owned(), path));
    }
    controllers
        .split(',')
        .any(|name| name == controller)
        .then(|| (format!("{GROUPS}/{controllers}"), path))
}

fn upwards(hierarchy: &str, path: &str) -> Vec<String> {
    // A group may have any name but "..". That would lead out of the hierarchy; a process moved out of its namespace
    // sees such a path.
    let named =
        |group: &&Path| !group.components().any(|part| part == std::path::Component::ParentDir);
    let ancestors = Path::new(path.trim_start_matches('/')).ancestors().filter(named);
    ancestors.map(|group| format!("{hierarchy}/{}", group.display())).collect()
}
