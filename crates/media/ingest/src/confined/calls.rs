//! seccomp: the system calls that ffmpeg may make. All others fail as if the kernel did not have them (`ENOSYS`). The C library and the
//! encoders can handle that, so a call missing here breaks only the feature that needs it, not the film.
//!
//! No allowed call leads to a socket or to another process. ffmpeg may start threads, but no processes.
//!
//! The list contains the calls that ffmpeg 5.1 was observed to make (`strace -f` over every encoder that ingest uses), and their
//! equivalents in other versions of C libraries and encoders, and on other architectures.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Allowed with any arguments, on every architecture.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Files. Landlock limits which.
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_close, libc::SYS_read, libc::SYS_readv, libc::SYS_pread64,
    libc::SYS_preadv, libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_lseek,
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_unlinkat,
    libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_fsync, libc::SYS_fdatasync,
    libc::SYS_fcntl, libc::SYS_flock, libc::SYS_dup, libc::SYS_dup3, libc::SYS_umask,
    // Waiting, within the process.
    libc::SYS_pipe2, libc::SYS_eventfd2, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    // Memory. Scaling filters and loaded libraries make some of it executable. Without get_mempolicy(2) libnuma assumes a machine with one
    // node, and does not read more from /proc/self, which no rule of Landlock can name before the program runs.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
    libc::SYS_mlock, libc::SYS_munlock,
    // Threads. SVT-AV1 requests a higher priority. Root would get it, but that privilege has been dropped.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_set_tid_address, libc::SYS_sigaltstack,
    libc::SYS_sched_getaffinity, libc::SYS_sched_yield, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority, libc::SYS_membarrier, libc::SYS_getcpu, libc::SYS_gettid, libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals to itself.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_restart_syscall,
    // Time and random numbers.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_times, libc::SYS_getrandom,
    // Its identity and environment.
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid,
    libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrusage,
    // Its own start.
    libc::SYS_execve,
];

/// Older calls that x86-64 still has and that its C libraries use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_FORERUNNERS: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_unlink,
    libc::SYS_poll, libc::SYS_select, libc::SYS_pipe, libc::SYS_dup2, libc::SYS_epoll_wait, libc::SYS_getrlimit,
    libc::SYS_time, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_FORERUNNERS: &[c_long] = &[];

/// The allowed `ioctl` requests: whether a descriptor is a terminal, the terminal's size, and the number of bytes to read. Injecting input
/// into a terminal (`TIOCSTI`) is not among them.
#[allow(clippy::unnecessary_cast, reason = "the type of requests differs between C libraries")]
const ASKED_OF_DESCRIPTORS: [u64; 4] =
    [libc::TCGETS as u64, libc::TIOCGWINSZ as u64, libc::FIONREAD as u64, libc::FIOCLEX as u64];

/// The filter, ready to install; `None` for processors without a filter.
pub(super) fn filter() -> Option<BpfProgram> {
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let filter =
        SeccompFilter::new(rules().ok()?, refuse, SeccompAction::Allow, architecture).ok()?;
    filter.try_into().ok()
}

fn rules() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules = conditions()?;
    // No condition: always allowed.
    rules.extend(ALLOWED.iter().chain(ALLOWED_FORERUNNERS).map(|call| (*call, Vec::new())));
    Ok(rules)
}

/// Calls that are allowed with certain arguments only.
fn conditions() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let thread = libc::CLONE_THREAD as u64;
    let asked = ASKED_OF_DESCRIPTORS.map(|request| only(1, SeccompCmpOp::Eq, request));
    Ok(BTreeMap::from([
        // Only threads, no processes. The newer clone3 has its flags in memory, where no filter sees them. It is not allowed, and C libraries
        // fall back to clone.
        (libc::SYS_clone, vec![only(0, SeccompCmpOp::MaskedEq(thread), thread)?]),
        (libc::SYS_ioctl, asked.into_iter().collect::<Result<_, _>>()?),
        // Naming a thread.
        (libc::SYS_prctl, vec![only(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?]),
        // Reading a limit, not setting one.
        (libc::SYS_prlimit64, vec![only(2, SeccompCmpOp::Eq, 0)?]),
        // Only for itself, not for another process.
        (libc::SYS_sched_setaffinity, vec![only(0, SeccompCmpOp::Eq, 0)?]),
        (libc::SYS_setpriority, vec![only(1, SeccompCmpOp::Eq, 0)?]),
    ]))
}

/// A rule about one argument, counted from 0.
fn only(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    // An argument narrower than a register may have anything in the register's other half, which the kernel ignores. A pointer fills it.
    let width = match argument {
        2 => SeccompCmpArgLen::Qword,
        _ => SeccompCmpArgLen::Dword,
    };
    SeccompRule::new(vec![SeccompCondition::new(argument, width, is, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice_or_allowed_in_spite_of_its_condition() {
        let listed = ALLOWED.len() + ALLOWED_FORERUNNERS.len() + conditions().unwrap().len();
        assert_eq!(rules().unwrap().len(), listed);
    }

    #[test]
    fn there_is_no_way_to_a_socket_another_process_or_a_ring() {
        let rules = rules().unwrap();
        for call in [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_clone3,
            libc::SYS_kill,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_io_uring_setup,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_memfd_create,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }
}
