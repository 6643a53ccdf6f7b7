//! The processor is for viewers first.

/// Lets the calling thread run only while nobody else wants the processor (`SCHED_IDLE`, sched(7)), for as long as it lives. A thread that is as
/// important as the server's keeps those waiting for a slice of some milliseconds each time, also when the processor is idle for most of the time.
pub(super) fn run_last() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // Where the kernel refuses, the thread goes on as it was.
    // SAFETY: `parameters` is valid for the call, which only reads it.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
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
