//! seccomp: the system calls that the server may still make. Any other fails with `EPERM`, so a call forgotten here breaks only
//! the feature that needs it, and not the viewers' connections.
//!
//! The list has the calls that the server was observed to make (`strace -f` over every disk policy, with and without TLS,
//! certificates renewed, descriptors exhausted, drained and ended at once), and their equivalents in the C library and Rust's standard
//! library on other versions and architectures. Calls on the path of a byte are allowed with any arguments, because
//! the kernel answers those from a bitmap (Linux 5.11) without running the filter.

use delivery::KernelOffload;
use libc::c_long;
use machine::ethtool::ETHTOOL_IOCTL;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Allowed with any arguments, on every architecture.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Serving: the ring, sockets, files of the library. The rings themselves exist already.
    libc::SYS_io_uring_enter, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_recvfrom, libc::SYS_recvmsg,
    libc::SYS_preadv2, libc::SYS_preadv, libc::SYS_pread64, libc::SYS_fstat, libc::SYS_statx, libc::SYS_newfstatat,
    libc::SYS_fstatfs,
    libc::SYS_ppoll, libc::SYS_shutdown, libc::SYS_close, libc::SYS_accept4, libc::SYS_getpeername,
    libc::SYS_getsockname, libc::SYS_setsockopt, libc::SYS_getsockopt, libc::SYS_openat, libc::SYS_openat2,
    libc::SYS_fcntl, libc::SYS_fadvise64, libc::SYS_mincore, reactor::residency::SYS_CACHESTAT,
    // Files into the page cache, and on some routes from there to viewers.
    libc::SYS_sendfile,
    // Reading certificates and /proc, writing logs and the self-signed pair, listing titles. Landlock says where.
    libc::SYS_read, libc::SYS_readv, libc::SYS_write, libc::SYS_writev, libc::SYS_lseek, libc::SYS_getdents64,
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_getcwd, libc::SYS_mkdirat,
    libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_dup,
    // Memory. Calls that could make it executable are in `conditions`.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise,
    // Threads, and how they wake a ring.
    libc::SYS_eventfd2,
    libc::SYS_futex, libc::SYS_clone, libc::SYS_clone3, libc::SYS_set_robust_list, libc::SYS_rseq,
    libc::SYS_set_tid_address, libc::SYS_sigaltstack, libc::SYS_sched_getaffinity, libc::SYS_sched_yield,
    libc::SYS_membarrier, libc::SYS_getcpu, libc::SYS_gettid, libc::SYS_exit, libc::SYS_exit_group,
    // Signals.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_restart_syscall,
    // Time and random numbers. Time comes mostly from the vDSO, except on machines without a good clock.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_getrandom,
    // Identity of the process, the user and the machine.
    libc::SYS_getpid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_uname,
    libc::SYS_sysinfo, libc::SYS_getrusage,
];

/// Older calls that x86-64 still has and that its C libraries use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_FORERUNNERS: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_poll,
    libc::SYS_mkdir, libc::SYS_rename, libc::SYS_renameat, libc::SYS_unlink, libc::SYS_time,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_FORERUNNERS: &[c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ALLOWED_FORERUNNERS: &[c_long] = &[];

/// The allowed operations of `io_uring_register`: unregister all buffers (`IORING_UNREGISTER_BUFFERS`), register an empty table for some
/// (`IORING_REGISTER_BUFFERS2`), and put a buffer into it (`IORING_REGISTER_BUFFERS_UPDATE`). An upgrade releases the buffers' memory, and takes it
/// again. No new ring can be made, and a restricted ring accepts no more than this either.
const ABOUT_BUFFERS: [u64; 3] = [1, 15, 16];

/// Frees a part of a file and keeps the file's length.
const PUNCH_HOLE: u64 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;

/// The `ioctl` for the bytes that a viewer has not acknowledged.
#[allow(clippy::unnecessary_cast, reason = "the type of requests differs between C libraries")]
const ASKING_A_SOCKET: u64 = libc::TIOCOUTQ as u64;

/// Filters the calls of every thread, and returns how many are still allowed.
pub(super) fn confine(offload: KernelOffload) -> Result<usize, seccompiler::Error> {
    let rules = rules(offload)?;
    let count = rules.len();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter_all_threads(&program)?;
    Ok(count)
}

fn rules(offload: KernelOffload) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules = conditions()?;
    // No condition: always allowed.
    rules.extend(ALLOWED.iter().chain(ALLOWED_FORERUNNERS).map(|call| (*call, Vec::new())));
    if offload.sends_files {
        let mut asking = vec![only(1, SeccompCmpOp::Eq, ASKING_A_SOCKET)?];
        if offload.gives_nics_keys() {
            // Reads a card's counters. The same call can configure a card, but the kernel requires a capability for that, which was given up.
            asking.push(only(1, SeccompCmpOp::Eq, ETHTOOL_IOCTL)?);
        }
        rules.insert(libc::SYS_ioctl, asking);
    }
    Ok(rules)
}

/// Calls that are allowed only with some arguments.
fn conditions() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let own_process = std::process::id().into();
    let no_execution = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    let rules = [
        // All executable memory exists already.
        (libc::SYS_mmap, only(2, no_execution.clone(), 0)?),
        (libc::SYS_mprotect, only(2, no_execution, 0)?),
        // Unix sockets, for the service manager.
        (libc::SYS_socket, only(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?),
        // Giving memory of the hot set back; no other mode of `fallocate`.
        (libc::SYS_fallocate, only(1, SeccompCmpOp::Eq, PUNCH_HOLE)?),
        // Naming a thread.
        (libc::SYS_prctl, only(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?),
        // Aborting.
        (libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, own_process)?),
        // Reading a limit, not setting one.
        (libc::SYS_prlimit64, only(2, SeccompCmpOp::Eq, 0)?),
    ];
    let mut rules: BTreeMap<_, _> =
        rules.into_iter().map(|(call, rule)| (call, vec![rule])).collect();
    let about_buffers = ABOUT_BUFFERS.into_iter().map(|what| only(1, SeccompCmpOp::Eq, what));
    rules.insert(libc::SYS_io_uring_register, about_buffers.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// A rule about one argument, counted from 0.
fn only(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    // If an argument is narrower than a register, the register's other half may have any value, which the kernel ignores.
    // Pointers and memory protection fill the register.
    let width = match is {
        SeccompCmpOp::Eq if value != 0 => SeccompCmpArgLen::Dword,
        _ => SeccompCmpArgLen::Qword,
    };
    SeccompRule::new(vec![SeccompCondition::new(argument, width, is, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice_or_allowed_in_spite_of_its_condition() {
        let listed = ALLOWED.len() + ALLOWED_FORERUNNERS.len() + conditions().unwrap().len();
        assert_eq!(rules(KernelOffload::default()).unwrap().len(), listed);
        let sends = KernelOffload { sends_files: true, ..KernelOffload::default() };
        // Asking sockets.
        assert_eq!(rules(sends).unwrap().len(), listed + 1);
        let asked = |offload| rules(offload).unwrap()[&libc::SYS_ioctl].len();
        let nics = KernelOffload { seals: true, nics: delivery::NicTls::Auto, ..sends };
        assert_eq!([asked(sends), asked(nics)], [1, 2]);
    }
}
