//! Gives viewers priority on the processors.

/// Makes the calling thread run only while no other wants the processor (`SCHED_IDLE`, sched(7)), for the rest of its life. A thread with
/// the same priority as the server's keeps those waiting for a slice of some milliseconds each time, even when the processor is mostly
/// idle.
pub(super) fn run_last() {
    // `struct sched_param`. This calls the kernel directly, because musl's function always fails.
    let priority: libc::c_int = 0;
    let (call, policy) = (libc::SYS_sched_setscheduler, libc::SCHED_IDLE);
    // If the kernel refuses, the thread keeps its priority.
    // SAFETY: `priority` is valid for the call, which only reads it.
    let _ = unsafe { libc::syscall(call, 0, policy, &raw const priority) };
}

#[cfg(test)]
mod tests {
    use super::run_last;

    #[test]
    fn a_thread_that_runs_last_is_the_only_one() {
        // SAFETY: it takes no memory.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let last = std::thread::spawn(move || {
            run_last();
            policy()
        });
        assert_eq!(last.join().unwrap(), libc::SCHED_IDLE);
        assert_eq!(policy(), before);
    }
}
