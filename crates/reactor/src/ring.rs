//! Setting the ring up with what this kernel offers, and saying what it did not.

use io_uring::IoUring;
use std::io;

/// How large a ring to ask for.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Submission entries, a power of two. A full queue is submitted early, so this bounds a batch, not the load.
    pub submission_entries: u32,
    /// Completion entries, a power of two. The kernel keeps what does not fit, at a cost.
    pub completion_entries: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { submission_entries: 256, completion_entries: 4096 }
    }
}

/// What the ring runs with, for the start-up message and the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingFeatures {
    /// Completions are processed only when this thread asks (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    pub defer_taskrun: bool,
    /// The kernel does not interrupt this thread to run completions (`IORING_SETUP_COOP_TASKRUN`, Linux 5.19).
    pub coop_taskrun: bool,
    /// One multishot accept yields many connections (Linux 5.19).
    pub multishot_accept: bool,
    /// Bytes of the buffer pool that the ring knows by index, so that direct reads need not pin pages each time.
    pub registered_bytes: usize,
}

impl RingFeatures {
    /// One line for people: what is on, and what each missing piece costs.
    pub fn describe(&self) -> String {
        let mut said = vec![match (self.defer_taskrun, self.coop_taskrun) {
            (true, _) => "deferred completions".to_owned(),
            (false, true) => "cooperative completions (deferred ones need Linux 6.1)".to_owned(),
            (false, false) => "interrupting completions (better ones need Linux 5.19)".to_owned(),
        }];
        if !self.multishot_accept {
            said.push("one accept at a time (multishot needs Linux 5.19)".to_owned());
        }
        said.push(match self.registered_bytes {
            0 => "no registered buffers (the memlock limit is too low)".to_owned(),
            bytes => format!("{:.1} MiB of buffers registered", bytes as f64 / f64::from(1 << 20)),
        });
        said.join(", ")
    }
}

/// Makes a ring, best first.
///
/// # Errors
/// `ENOSYS` or `EPERM` where io_uring is absent or forbidden (`kernel.io_uring_disabled`), `ENOMEM` where the memory
/// limits are too low for any ring.
pub(crate) fn set_up(options: RingOptions) -> io::Result<(IoUring, RingFeatures)> {
    let attempts = [(true, true), (false, true), (false, false)];
    let mut last = io::Error::from_raw_os_error(libc::ENOSYS);
    for (defer_taskrun, coop_taskrun) in attempts {
        match build(options, defer_taskrun, coop_taskrun) {
            Ok(ring) => {
                let features = RingFeatures {
                    defer_taskrun,
                    coop_taskrun,
                    // Both arrived in 5.19; the kernel has no flag of its own for multishot accept.
                    multishot_accept: coop_taskrun,
                    registered_bytes: 0,
                };
                return Ok((ring, features));
            }
            // EINVAL is how a kernel refuses a flag that it does not know; anything else will not get better.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn build(options: RingOptions, defer_taskrun: bool, coop_taskrun: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(options.completion_entries).setup_clamp();
    // The flag says that completions wait to be run. Without it a loop that is never idle would enter the kernel only to
    // submit, and never see one.
    if defer_taskrun {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    } else if coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(options.submission_entries)
}
