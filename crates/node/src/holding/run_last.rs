//! The processor is for viewers first.

/// Lets the calling thread run only while nobody else wants the processor (`SCHED_IDLE`, sched(7)), for as long as it lives. A thread that is as
/// important as the server's keeps those waiting for a slice of some milliseconds each time, also when the processor is idle for most of the time.
pub(super) fn run_last() {
    // `struct sched_param`. The kernel itself is asked, because musl refuses without asking it.
    let priority: libc::c_int = 0;
    let (call, policy) = (libc::SYS_sched_setscheduler, libc::SCHED_IDLE);
    // Where the kernel refuses, the thread goes on as it was.
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
