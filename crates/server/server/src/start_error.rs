//! Why a server does not start, and why a running one ends abnormally. Each error is one line for people that says how to fix it.

use crate::address_lists::AddressListError;
use crate::bypass::BypassError;
use crate::listen::ListenError;
use crate::offload::NoKernelRoute;
use crate::upgrade::UpgradeError;
use config::{ConfigError, SiloError};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// There is nothing to serve.
    #[error("no library was given: name its directory")]
    NoLibrary,
    /// The library is not a folder.
    #[error("{0} is not a directory, or is not there: check the library's path")]
    LibraryNotAFolder(PathBuf),
    /// The library's folder cannot be opened.
    #[error("cannot open the library {library}: {why}; check its permissions and its disk")]
    Library {
        /// The folder.
        library: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// None of the library's folders can be opened.
    #[error(
        "none of the library's {count} folders can be opened; the first is {first}: {why}; mount the disks, or name other folders"
    )]
    NoFolder {
        /// The number of folders.
        count: usize,
        /// The first of them.
        first: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The certificates cannot be used.
    #[error("{0}")]
    Tls(#[from] tls::TlsConfigError),
    /// The keys of signed URLs cannot be used.
    #[error("{0}")]
    SigningKeys(#[from] token::KeyError),
    /// A list of addresses cannot be used.
    #[error("{0}")]
    AddressList(#[from] AddressListError),
    /// The cache's folder cannot be used.
    #[error("cannot use the cache {cache}: {why}")]
    Cache {
        /// The folder.
        cache: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The helper of a caching edge cannot be started.
    #[error("cannot start the caching edge's helper: {why}")]
    Helper {
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The helper that gets certificates cannot be started.
    #[error("cannot start the helper for certificates (tls.acme): {why}")]
    AcmeHelper {
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// A file or folder that getting certificates needs cannot be used.
    #[error("[tls.acme] needs {file}, which cannot be used: {why}")]
    AcmeFile {
        /// The file or folder.
        file: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The address for a certificate authority's checks cannot be listened on.
    #[error(
        "cannot listen on {address} for the questions of the certificate authority: {why}; it always connects to port 80 of the domain. \
         Let the service open ports below 1024 (CAP_NET_BIND_SERVICE) and stop other web servers, or forward port 80 to another \
         one (in [tls.acme]: listen = \"[::]:8080\"), or prove the names in DNS (dns_hook = \"/etc/fullbore/dns-hook\")"
    )]
    AcmeAddress {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The kernel route is not available.
    #[error("{0}")]
    KernelRoute(#[from] NoKernelRoute),
    /// The bypass route is not available.
    #[error("{0}")]
    BypassRoute(#[from] BypassError),
    /// The access log cannot be written.
    #[error(
        "cannot open the access log {file}: {why}; check that its directory is there, and that this user may write to it"
    )]
    AccessLog {
        /// The file.
        file: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// An address cannot be listened on.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// The buffers alone would take more than half of the remaining memory.
    #[error(
        "not enough memory: the buffers of {workers} workers take {} MiB, and {limit} leaves {} MiB; \
         raise that limit, or use fewer workers (--workers)",
        .buffer_bytes >> 20,
        .left_bytes >> 20
    )]
    Memory {
        /// The number of workers.
        workers: usize,
        /// The memory of their buffers.
        buffer_bytes: u64,
        /// The limit that applies.
        limit: &'static str,
        /// The memory that it leaves.
        left_bytes: u64,
    },
    /// The kernel returned no random numbers.
    #[error("the kernel returned no random numbers: try again")]
    NoRandomNumbers,
    /// There are no file descriptors left.
    #[error("no file descriptors left: {0}; raise the limit (ulimit -n, LimitNOFILE)")]
    NoDescriptors(#[source] io::Error),
    /// A thread cannot be started.
    #[error("cannot start the {which} thread: {why}; raise the limit (ulimit -u, TasksMax)")]
    Thread {
        /// The thread.
        which: &'static str,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// A thread panicked while it started.
    #[error("a thread panicked; its message is above")]
    ThreadPanicked,
    /// The admin listener cannot be started.
    #[error("cannot start the admin listener: {0}")]
    Admin(#[source] io::Error),
    /// io_uring is not available.
    #[error(
        "io_uring is not available: {0}; Fullbore needs Linux 6.1 or newer, kernel.io_uring_disabled=0 (sysctl), \
        and in a container a seccomp profile that allows it (docs/containers.md)"
    )]
    NoRing(#[source] io::Error),
    /// A worker cannot start.
    #[error("worker {index} cannot start: {why}")]
    Worker {
        /// The worker's number.
        index: usize,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// A worker ended during startup.
    #[error("a worker ended during the start; see above")]
    WorkerGone,
    /// The server cannot take over from another one.
    #[error("{0}")]
    Upgrade(#[from] UpgradeError),
}

impl From<SiloError> for StartError {
    fn from(error: SiloError) -> Self {
        Self::Config(ConfigError::Silos(error))
    }
}

/// Why a running server ended abnormally.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server cannot wait for signals.
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
    /// The thread that renews certificates and keys cannot be started.
    #[error("cannot start the thread that renews certificates: {0}")]
    Renewal(#[source] io::Error),
    /// The threads for upgrades cannot be started.
    #[error("cannot start the threads for upgrades: {0}")]
    Upgrade(#[source] io::Error),
    /// A worker failed.
    #[error("a worker failed: {0}")]
    Worker(#[source] io::Error),
    /// A worker panicked.
    #[error("a worker panicked; its message is above")]
    WorkerPanicked,
    /// A worker ended unexpectedly.
    #[error("a worker ended unexpectedly; see above")]
    WorkerEnded,
    /// A second signal came.
    #[error("ended at once on the second signal; viewers were cut off")]
    EndedAtOnce,
    /// Viewers did not finish in time.
    #[error("viewers were cut off after {after_seconds} seconds (drain_seconds)")]
    CutOff {
        /// How long the server waited for them.
        after_seconds: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn what_went_wrong_keeps_its_cause() {
        let why = io::Error::from_raw_os_error(libc::EMFILE);
        let error = StartError::Thread { which: "worker", why };
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(cause.raw_os_error(), Some(libc::EMFILE));
        let error = StartError::from(ConfigError::BypassWithoutPort);
        assert_eq!(error.to_string(), ConfigError::BypassWithoutPort.to_string());
        assert!(error.source().is_some_and(|cause| cause.is::<ConfigError>()));
    }

    #[test]
    fn too_little_memory_is_said_in_mebibytes() {
        let error = StartError::Memory {
            workers: 4,
            buffer_bytes: 64 << 20,
            limit: "memory.max",
            left_bytes: 100 << 20,
        };
        let said = error.to_string();
        assert!(said.contains("4 workers take 64 MiB, and memory.max leaves 100 MiB"), "{said}");
    }
}
