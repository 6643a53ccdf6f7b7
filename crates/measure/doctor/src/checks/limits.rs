//! Limits of this process. The server's limits are those of its unit: run the doctor in the same way as the server.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;

/// Each viewer takes one, and so does each film.
const FILES_MIN: u64 = 65_536;

/// The most that a worker's read buffers take (docs/memory.md).
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// `CAP_IPC_LOCK` in the mask of capabilities (capabilities(7)).
const MAY_LOCK: u32 = 14;

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "limits of this process";
    let path = "proc/self/limits";
    if visit.needed(WHAT, path).is_none() {
        return;
    }
    let nofile = visit.machine.nofile;
    if let Some(files) = visit.understood(WHAT, path, nofile).filter(|limit| limit.hard < FILES_MIN)
    {
        visit.found(Finding {
            area: Area::Rights,
            name: "nofile",
            on: Vec::new(),
            found: format!("at most {} open files", files.hard),
            wanted: format!("{FILES_MIN} or more; the unit sets 1048576"),
            cost: Cost::unmeasured("fewer viewers than that at a time: each takes one, and each film"),
            mend: "LimitNOFILE=1048576 in the unit; in a shell, ulimit -n as root, or /etc/security/limits.conf".into(),
            check: "grep \"open files\" /proc/PID/limits of the server".into(),
        });
    }
    locked(visit);
}

fn locked(visit: &mut Visit<'_>) {
    const WHAT: &str = "limits of this process";
    let Some(limit) = visit.understood(WHAT, "proc/self/limits", visit.machine.memlock_bytes)
    else {
        return;
    };
    let wanted = BUFFER_BYTES_MAX * visit.machine.cpus.len() as u64;
    if limit.hard >= wanted {
        return;
    }
    let Some(status) = visit.needed(WHAT, "proc/thread-self/status") else { return };
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let Some(mask) = visit.understood(WHAT, "proc/thread-self/status", mask) else { return };
    if (mask >> MAY_LOCK) & 1 == 1 {
        return;
    }
    visit.found(Finding {
        area: Area::Rights,
        name: "memlock",
        on: Vec::new(),
        found: format!("at most {} KiB of locked memory", limit.hard >> 10),
        wanted: format!("{} MiB or more; the unit sets no limit", wanted >> 20),
        cost: Cost::percent(
            10.0,
            "of what comes from disk, if read buffers cannot be registered: 0.90 without",
            source::PERFORMANCE,
        ),
        mend: "LimitMEMLOCK=infinity in the unit; in a shell, ulimit -l unlimited as root".into(),
        check: "grep \"locked memory\" /proc/PID/limits of the server".into(),
    });
}
