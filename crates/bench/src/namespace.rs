//! A network namespace for the bench, so that both sides use the requested congestion control. It is set on the loopback route, because
//! most servers cannot choose one and the system's setting is not ours to change.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Passes the congestion control of the loopback route to the process inside.
const VARIABLE: &str = "FULLBORE_BENCH_CONGESTION_CONTROL";

/// Runs as root inside the new namespace: brings loopback up, sets the route's congestion control, then runs the bench
/// itself.
const SCRIPT: &str = r#"
set -e
ip link set lo up
for network in 127.0.0.0/8 127.0.0.1; do
    ip route replace local $network dev lo table local proto kernel scope host src 127.0.0.1 congctl "$0"
done
exec "$@"
"#;

/// Returns true if this process is already inside.
pub fn is_inside() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts this program again, with the same arguments, in a namespace with congestion control `name`. Returns only if
/// that fails.
///
/// # Errors
/// If `unshare` is missing.
pub fn enter_with(name: &str) -> io::Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SCRIPT, name]);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    Err(command.env(VARIABLE, name).exec())
}

/// Starts this program again, with the same arguments, in a namespace with the system's congestion control. Returns only if that fails.
///
/// # Errors
/// If `unshare` is missing.
pub fn enter() -> io::Result<()> {
    enter_with(&congestion_control())
}

/// The congestion control of both sides.
pub fn congestion_control() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        system.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
    })
}
