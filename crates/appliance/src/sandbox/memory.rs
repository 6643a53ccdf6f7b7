//! What is in this process's memory stays there: private keys, tickets' keys, each viewer's keys.
//!
//! `PR_SET_DUMPABLE` (prctl(2)) is 0, so the kernel writes no core dump, into a file or a pipe, and no other process reads or traces this one,
//! unless it has `CAP_SYS_PTRACE`. It covers all memory and costs nothing. `MADV_DONTDUMP` would leave single mappings out of a dump, but keys are
//! all over the heap: each viewer's are in its session, and libraries keep theirs. `RLIMIT_CORE` says nothing about pipes, to which distributions
//! send dumps.
//!
//! The process can still see itself under `/proc/self`, and what others read of it (`status`, `cmdline`, `task`) they still can. An executed program
//! starts anew with dumps.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Closes this process's memory to dumps and to other processes, until it executes another program. Says so, or why not.
pub fn keep_memory_private() -> String {
    match set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        Ok(()) => "no core dumps".into(),
        Err(error) => format!("core dumps possible ({error})"),
    }
}
