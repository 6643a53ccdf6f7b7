//! A network namespace for the bench, so that both sides use the requested congestion control. It is set on the loopback route, because
//! most servers cannot choose one and the system's setting is not ours to change.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Passes the congestion control that loopback begins with to the process inside.
const VARIABLE: &str = "FULLBORE_BENCH_CONGESTION_CONTROL";

/// Sets the congestion control `$0` of all loopback routes.
const SET: &str = r#"
set -e
ip link set lo up
for network in 127.0.0.0/8 127.0.0.1; do
    ip route replace local $network dev lo table local proto kernel scope host src 127.0.0.1 congctl "$0"
done
"#;

/// Run as root inside the new namespace, after [`SET`]: runs the bench itself.
const RUN: &str = r#"exec "$@""#;

/// What [`switch_to`] chose last.
static CURRENT: Mutex<Option<String>> = Mutex::new(None);

/// Returns true if this process is already inside.
pub fn is_inside() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Whether this process may make such a namespace and set each of these congestion controls in it. Containers often forbid it, even to
/// root. Setting one loads its module, if the kernel has it.
pub fn can_set(names: &[&str]) -> bool {
    let mut command = Command::new("unshare");
    let each = r#"for name; do sh -c "$0" "$name" || exit; done"#;
    command.args(["--net", "sh", "-c", each, SET]).args(names);
    command.output().is_ok_and(|output| output.status.success())
}

/// Starts this program again, with the same arguments, in a namespace with congestion control `name`. Returns only if
/// that fails.
///
/// # Errors
/// If `unshare` is missing.
pub fn enter_with(name: &str) -> io::Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &format!("{SET}{RUN}"), name]);
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

/// Gives connections that begin from now on another congestion control. This process must be inside the namespace.
///
/// # Errors
/// Outside of it, without `ip`, or if the kernel does not have this congestion control.
pub fn switch_to(name: &str) -> io::Result<()> {
    if !is_inside() {
        return Err(io::Error::other("the system's congestion control is not ours to change"));
    }
    let set = Command::new("sh").args(["-c", SET, name]).output()?;
    if !set.status.success() {
        let reason = String::from_utf8_lossy(&set.stderr);
        let reason = format!("cannot set the congestion control {name}: {}", reason.trim());
        return Err(io::Error::other(reason));
    }
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
    Ok(())
}

/// The congestion control of both sides.
pub fn congestion_control() -> String {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    current.or_else(|| std::env::var(VARIABLE).ok()).unwrap_or_else(system)
}

/// The congestion control that is set for the system. A new namespace begins with it.
pub fn system() -> String {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}
