//! Sets the ring up with what this kernel offers, and reports what is missing.
//!
//! A system-call filter does not see the operations of a ring, so each ring itself refuses all operations that this program never uses. It is made
//! disabled, restricted to the listed operations (`OPERATIONS`), and enabled; after that the restrictions cannot be changed
//! (`IORING_REGISTER_RESTRICTIONS`, Linux 5.10). An operation that is not listed completes with `EACCES`.

use crate::op::OPERATIONS;
use io_uring::IoUring;
use io_uring::register::Restriction;
use std::io;

/// Registrations that an enabled ring still accepts, by their numbers in linux/io_uring.h: drop all registered buffers (`IORING_UNREGISTER_BUFFERS`),
/// make a table for buffers (`IORING_REGISTER_BUFFERS2`), and put a buffer into the table (`IORING_REGISTER_BUFFERS_UPDATE`).
const MAY_BE_TOLD: [u8; 3] = [1, 15, 16];

/// The most threads that the kernel may make for operations on files that have to wait, such as opens of files whose folder is not in memory. The
/// kernel's own limit is four for each processor: that many opens on a disk that hangs would stop all opens. Threads are made when they are needed;
/// each costs the kernel some 20 KB.
const WAITING_THREADS_MAX: u32 = 512;

/// The size of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Submission entries, a power of two. A full queue is submitted early, so this bounds a batch, not the load.
    pub submission_entries: u32,
    /// Completion entries, a power of two. The kernel keeps completions that do not fit, at a cost.
    pub completion_entries: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { submission_entries: 256, completion_entries: 4096 }
    }
}

/// The features that the ring runs with, for the start-up message and the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingFeatures {
    /// Completions are processed only when this thread asks (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    pub defer_taskrun: bool,
    /// The kernel does not interrupt this thread to run completions (`IORING_SETUP_COOP_TASKRUN`, Linux 5.19).
    pub coop_taskrun: bool,
    /// Operations that the ring accepts; 0 if it accepts all that the kernel has.
    pub operations: usize,
    /// One multishot accept yields many connections (Linux 5.19).
    pub multishot_accept: bool,
    /// Bytes of registered buffers, so that direct reads need not pin their pages each time (Linux 5.19). `None` if none should be registered.
    pub registered_bytes: Option<usize>,
}

impl RingFeatures {
    /// One line for people: the active features, and what each missing one costs.
    pub fn describe(&self) -> String {
        let mut said = vec![match (self.defer_taskrun, self.coop_taskrun) {
            (true, _) => "deferred completions".to_owned(),
            (false, true) => "cooperative completions (deferred ones need Linux 6.1)".to_owned(),
            (false, false) => "interrupting completions (better ones need Linux 5.19)".to_owned(),
        }];
        said.push(match self.operations {
            0 => "any operation (they cannot be restricted here)".to_owned(),
            count => format!("{count} operations allowed"),
        });
        if !self.multishot_accept {
            said.push("one accept at a time (multishot needs Linux 5.19)".to_owned());
        }
        said.extend(self.registered_bytes.map(|bytes| {
            match bytes {
            0 => "no registered buffers (the memlock limit is too low, or Linux is older than 5.19)"
                .to_owned(),
            bytes => format!("{:.1} MiB of buffers registered", bytes as f64 / f64::from(1 << 20)),
        }
        }));
        said.join(", ")
    }
}

/// Makes a ring with the best features that the kernel accepts.
///
/// # Errors
/// `ENOSYS` or `EPERM` where io_uring is absent or forbidden (`kernel.io_uring_disabled`), `ENOMEM` where the memory
/// limits are too low for any ring.
pub(crate) fn set_up(options: RingOptions) -> io::Result<(IoUring, RingFeatures)> {
    let attempts = [(true, true), (false, true), (false, false)];
    let mut last = io::Error::from_raw_os_error(libc::ENOSYS);
    for (defer_taskrun, coop_taskrun) in attempts {
        match restricted_or_not(options, defer_taskrun, coop_taskrun) {
            Ok((ring, operations)) => {
                let features = RingFeatures {
                    defer_taskrun,
                    coop_taskrun,
                    operations,
                    // Both arrived in 5.19; the kernel has no flag of its own for multishot accept.
                    multishot_accept: coop_taskrun,
                    registered_bytes: None,
                };
                return Ok((ring, features));
            }
            // A kernel refuses an unknown flag with EINVAL; any other error would repeat.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// A ring, and how many operations it accepts: 0 for all, if it cannot be restricted, for example because a container forbids the call
/// (`io_uring_register`).
fn restricted_or_not(
    options: RingOptions,
    defer_taskrun: bool,
    coop_taskrun: bool,
) -> io::Result<(IoUring, usize)> {
    let ring = build(options, defer_taskrun, coop_taskrun, true)?;
    if restrict(&ring).is_ok() {
        return Ok((ring, OPERATIONS.len()));
    }
    drop(ring);
    build(options, defer_taskrun, coop_taskrun, false).map(|ring| (ring, 0))
}

/// Restricts a disabled ring to its operations, without any flag that links or changes operations, and enables it.
fn restrict(ring: &IoUring) -> io::Result<()> {
    let mut rules: Vec<Restriction> = OPERATIONS.into_iter().map(Restriction::sqe_op).collect();
    rules.extend(MAY_BE_TOLD.map(Restriction::register_op));
    ring.submitter().register_restrictions(&mut rules)?;
    ring.submitter().register_enable_rings()
}

fn build(
    options: RingOptions,
    defer_taskrun: bool,
    coop_taskrun: bool,
    disabled: bool,
) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    if disabled {
        builder.setup_r_disabled();
    }
    builder.setup_cqsize(options.completion_entries).setup_clamp();
    // The flag says that completions wait to be run. Without it a loop that is never idle would enter the kernel only to submit, and never see one.
    if defer_taskrun {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    } else if coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    let ring = builder.build(options.submission_entries)?;
    // Zero leaves the other kind of thread unchanged. A kernel that refuses keeps its own limit.
    let _ = ring.submitter().register_iowq_max_workers(&mut [WAITING_THREADS_MAX, 0]);
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::{Probe, opcode, squeue, types};

    const SMALL: RingOptions = RingOptions { submission_entries: 8, completion_entries: 16 };

    fn restricted() -> IoUring {
        let (ring, features) = set_up(SMALL).unwrap();
        assert_eq!(features.operations, OPERATIONS.len(), "this kernel restricts rings");
        ring
    }

    /// The result of one operation.
    fn result_of(ring: &mut IoUring, entry: &squeue::Entry) -> i32 {
        // SAFETY: the entries of these tests point to no memory except constants.
        unsafe { ring.submission().push(entry) }.unwrap();
        ring.submit_and_wait(1).unwrap();
        ring.completion().next().unwrap().result()
    }

    #[test]
    fn what_is_never_asked_of_a_ring_is_refused() {
        let mut ring = restricted();
        let (root, path) = (types::Fd(libc::AT_FDCWD), c"/nonexistent".as_ptr());
        let never = [
            ("nothing", opcode::Nop::new().build()),
            ("a socket", opcode::Socket::new(libc::AF_INET, libc::SOCK_DGRAM, 0).build()),
            ("a file to write", opcode::OpenAt::new(root, path).build()),
            ("to write", opcode::Write::new(types::Fd(1), path.cast(), 1).build()),
            ("to remove", opcode::UnlinkAt::new(root, path).build()),
            ("to rename", opcode::RenameAt::new(root, path, root, path).build()),
            ("an attribute", opcode::FSetXattr::new(types::Fd(1), path, path.cast(), 1).build()),
            ("to a ring", opcode::MsgRingData::new(types::Fd(1), 0, 0, None).build()),
            ("a driver's own", opcode::UringCmd16::new(types::Fd(1), 0).build()),
        ];
        for (what, entry) in never {
            assert_eq!(result_of(&mut ring, &entry), -libc::EACCES, "{what}");
        }
    }

    #[test]
    fn what_is_asked_comes_without_flags() {
        let mut ring = restricted();
        let cancel = || opcode::AsyncCancel::new(1).build();
        assert_eq!(result_of(&mut ring, &cancel()), -libc::ENOENT, "there is nothing to cancel");
        for flag in [squeue::Flags::IO_LINK, squeue::Flags::ASYNC, squeue::Flags::IO_DRAIN] {
            assert_eq!(result_of(&mut ring, &cancel().flags(flag)), -libc::EACCES, "{flag:?}");
        }
    }

    #[test]
    fn a_ring_can_be_told_nothing_else_afterwards() {
        let ring = restricted();
        let refused = |told: io::Result<()>| told.unwrap_err().raw_os_error();
        let submitter = ring.submitter();
        assert_eq!(refused(submitter.register_probe(&mut Probe::new())), Some(libc::EACCES));
        assert_eq!(refused(submitter.register_files(&[1])), Some(libc::EACCES));
        let mut rules = [Restriction::sqe_op(opcode::Nop::CODE)];
        assert!(submitter.register_restrictions(&mut rules).is_err());
    }
}
