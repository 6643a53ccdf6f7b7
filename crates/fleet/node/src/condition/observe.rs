//! Collects the box's measurements: its server's status, the kernel's pressure figures (PSI), processors, disks.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

use super::{Observed, ServerCounters};
use crate::server::admin;

/// The box's current measurements. `admin` is the address of the server's admin listener, if known, and `status` its answer.
pub(crate) fn observe(
    admin: Option<SocketAddr>,
    status: Option<&Value>,
    free_bytes: u64,
) -> Observed {
    let waits = admin.and_then(|address| admin::metrics(address).ok());
    let (first_bytes, first_byte_seconds) = waits.as_deref().map(first_bytes).unwrap_or_default();
    let server = status.map(counters);
    Observed {
        server: server.map(|one| ServerCounters { first_bytes, first_byte_seconds, ..one }),
        memory_percent: memory_percent(),
        throttled_total: throttled_total(),
        cpu_ticks: fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| ticks(&text))
            .unwrap_or_default(),
        free_bytes,
    }
}

/// The relevant fields of `/status.json`. Fields that a server of another release does not have are 0.
fn counters(status: &Value) -> ServerCounters {
    let (total, viewers) = (&status["total"], &status["qoe"]["credible"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let real = |value: &Value| value.as_f64().unwrap_or(0.0);
    let is_lost = |folder: &Value| !folder["trouble"].is_null();
    ServerCounters {
        uptime_seconds: real(&status["uptime_seconds"]),
        is_draining: status["draining"].as_bool().unwrap_or(false),
        has_lost_library: status["library"].as_array().is_some_and(|all| all.iter().any(is_lost)),
        sent_bytes: number(&total["transport_sent_bytes_total"]),
        connections: number(&total["connections"]),
        disk_errors: number(&total["connections_ended_total"]["file_io"]),
        accept_pauses: number(&total["accept_pauses_total"]),
        viewers: number(&viewers["viewers"]),
        stalling: number(&viewers["stalling"]),
        played_seconds: real(&viewers["played_seconds_total"]),
        stalled_seconds: real(&viewers["stalled_seconds_total"]),
        disk_reads: number(&total["disk_reads_total"]),
        disk_read_seconds: real(&total["disk_read_seconds_total"]),
        ..ServerCounters::default()
    }
}

/// The number of first bytes sent, and the sum of the times to them, from `/metrics`. 0 if missing.
fn first_bytes(metrics: &str) -> (u64, f64) {
    let value = |name: &str| {
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    let count = value("fullbore_first_byte_seconds_count ");
    (count as u64, value("fullbore_first_byte_seconds_sum "))
}

/// `full avg10` of `/proc/pressure/memory` (Linux, Documentation/accounting/psi.rst). 0 if the kernel does not report it. Waiting for
/// processors is left out, because a server at its best keeps them busy; and so is waiting for disks, because newer kernels also count a
/// server that waits for connections at its ring: an idle one came to 90% on Linux 6.18.
fn memory_percent() -> f64 {
    let text = fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
    avg10(&text).unwrap_or(0.0)
}

fn avg10(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// How often the processors' packages were throttled (x86; other machines do not report it).
fn throttled_total() -> u64 {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| {
        let file = entry.path().join("thermal_throttle/package_throttle_count");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    };
    cpus.filter_map(count).sum()
}

/// Busy and all ticks of `/proc/stat` (proc_stat(5)).
fn ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // Guest time is already included in user time.
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).filter_map(|one| one.parse().ok()).collect();
    let all = ticks.iter().sum::<u64>();
    Some((all - ticks.get(3)? - ticks.get(4)?, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read() {
        let text = "some avg10=1.00 avg60=0.00\nfull avg10=2.50 avg60=0.10 avg300=0.05 total=1\n";
        assert_eq!(avg10(text), Some(2.5));
        assert_eq!(avg10("some avg10=1.00\n"), None);
        let metrics =
            "a 1\nfullbore_first_byte_seconds_sum 1.5\nfullbore_first_byte_seconds_count 3\n";
        assert_eq!(first_bytes(metrics), (3, 1.5));
        assert_eq!(first_bytes("fullbore_first_byte_seconds_sum x"), (0, 0.0));
        assert_eq!(ticks("cpu  10 20 30 100 40 1 2 3 5 5\ncpu0 1"), Some((66, 206)));
        let seen = observe(None, None, 7);
        assert_eq!((seen.server, seen.free_bytes), (None, 7));
        assert!(seen.cpu_ticks.1 > seen.cpu_ticks.0);
    }
}
