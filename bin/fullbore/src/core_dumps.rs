//! Disables core dumps, unless the operator wants them.

use crate::tell;
use std::env;

/// If set to 1, this process and the processes that it starts may leave core dumps. A variable rather than a flag, because it must also apply to a
/// server's helpers, a node's server and the server that an upgrade starts.
const VARIABLE: &str = "FULLBORE_CORE_DUMPS";

/// Call it before any key is read.
pub(crate) fn settle() {
    if env::var_os(VARIABLE).is_none_or(|value| value != "1") {
        if let Err(error) = machine::forbid_core_dumps() {
            tell(&format!("a crash may leave a core dump with private keys in it: {error}"));
        }
        return;
    }
    match machine::allow_core_dumps() {
        Ok(0) => tell(&format!(
            "{VARIABLE}=1 has no effect: the hard limit on core dumps is 0; raise it with LimitCORE=infinity or \"ulimit -Hc unlimited\""
        )),
        Ok(_) => {
            tell(&format!("{VARIABLE} is 1: a crash may leave a core dump with private keys in it"))
        }
        Err(error) => tell(&format!("cannot allow core dumps: {error}")),
    }
}
