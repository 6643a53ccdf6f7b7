//! Why a server does not start, and why a running one ends abnormally. Each error is one line for people that says how to fix it.

use crate::address_lists::AddressListError;
use crate::bypass::BypassError;
use crate::listen::ListenError;
use crate::offload::NoKernelRoute;
use crate::upgrade::UpgradeError;
use config::{ConfigError, SiloError};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is wrong.
    Config(ConfigError),
    /// There is nothing to serve.
    NoLibrary,
    /// The library is not a folder.
    LibraryNotAFolder(PathBuf),
    /// The library's folder cannot be opened.
    Library {
        /// The folder.
        library: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// None of the library's folders can be opened.
    NoFolder {
        /// The number of folders.
        count: usize,
        /// The first of them.
        first: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The certificates cannot be used.
    Tls(tls::TlsConfigError),
    /// The keys of signed URLs cannot be used.
    SigningKeys(token::KeyError),
    /// A list of addresses cannot be used.
    AddressList(AddressListError),
    /// The cache's folder cannot be used.
    Cache {
        /// The folder.
        cache: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The helper of a caching edge cannot be started.
    Helper {
        /// The kernel's error.
        why: io::Error,
    },
    /// The helper that gets certificates cannot be started.
    AcmeHelper {
        /// The kernel's error.
        why: io::Error,
    },
    /// A file or folder that getting certificates needs cannot be used.
    AcmeFile {
        /// The file or folder.
        file: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The address for a certificate authority's checks cannot be listened on.
    AcmeAddress {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        why: io::Error,
    },
    /// The kernel route is not available.
    KernelRoute(NoKernelRoute),
    /// The bypass route is not available.
    BypassRoute(BypassError),
    /// The access log cannot be written.
    AccessLog {
        /// The file.
        file: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// An address cannot be listened on.
    Listen(ListenError),
    /// The buffers alone would take more than half of the remaining memory.
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
    NoRandomNumbers,
    /// There are no file descriptors left.
    NoDescriptors(io::Error),
    /// A thread cannot be started.
    Thread {
        /// The thread.
        which: &'static str,
        /// The kernel's error.
        why: io::Error,
    },
    /// A thread panicked while it started.
    ThreadPanicked,
    /// The admin listener cannot be started.
    Admin(io::Error),
    /// io_uring is not available.
    NoRing(io::Error),
    /// A worker cannot start.
    Worker {
        /// The worker's number.
        index: usize,
        /// The kernel's error.
        why: io::Error,
    },
    /// A worker ended during startup.
    WorkerGone,
    /// The server cannot take over from another one.
    Upgrade(UpgradeError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Cache { cache, why } => {
                write!(f, "cannot use the cache {}: {why}", cache.display())
            }
            Self::Helper { why } => write!(f, "cannot start the caching edge's helper: {why}"),
            Self::AcmeHelper { why } => {
                write!(f, "cannot start the helper for certificates (tls.acme): {why}")
            }
            Self::AcmeFile { file, why } => {
                write!(f, "[tls.acme] needs {}, which cannot be used: {why}", file.display())
            }
            Self::AcmeAddress { address, why } => no_challenges(f, *address, why),
            Self::NoLibrary => f.write_str("no library was given: name its directory"),
            Self::LibraryNotAFolder(library) => write!(
                f,
                "{} is not a directory, or is not there: check the library's path",
                library.display()
            ),
            Self::Library { library, why } => {
                cannot_open(f, "library", library, why, "check its permissions and its disk")
            }
            Self::NoFolder { count, first, why } => write!(
                f,
                "none of the library's {count} folders can be opened; the first is {}: {why}; mount the disks, or name other folders",
                first.display()
            ),
            Self::Tls(error) => error.fmt(f),
            Self::SigningKeys(error) => error.fmt(f),
            Self::AddressList(error) => error.fmt(f),
            Self::KernelRoute(error) => error.fmt(f),
            Self::BypassRoute(error) => error.fmt(f),
            Self::AccessLog { file, why } => {
                let advice =
                    "check that its directory is there, and that this user may write to it";
                cannot_open(f, "access log", file, why, advice)
            }
            Self::Listen(error) => error.fmt(f),
            Self::Memory { workers, buffer_bytes, limit, left_bytes } => write!(
                f,
                "not enough memory: the buffers of {workers} workers take {} MiB, and {limit} leaves {} MiB; \
                 raise that limit, or use fewer workers (--workers)",
                buffer_bytes >> 20,
                left_bytes >> 20
            ),
            Self::NoRandomNumbers => {
                f.write_str("the kernel returned no random numbers: try again")
            }
            Self::NoDescriptors(why) => write!(
                f,
                "no file descriptors left: {why}; raise the limit (ulimit -n, LimitNOFILE)"
            ),
            Self::Thread { which, why } => write!(
                f,
                "cannot start the {which} thread: {why}; raise the limit (ulimit -u, TasksMax)"
            ),
            Self::ThreadPanicked => f.write_str("a thread panicked; its message is above"),
            Self::Admin(why) => write!(f, "cannot start the admin listener: {why}"),
            Self::NoRing(why) => write!(
                f,
                "io_uring is not available: {why}; Fullbore needs Linux 6.1 or newer, and kernel.io_uring_disabled=0 (sysctl)"
            ),
            Self::Worker { index, why } => write!(f, "worker {index} cannot start: {why}"),
            Self::WorkerGone => f.write_str("a worker ended during the start; see above"),
            Self::Upgrade(error) => error.fmt(f),
        }
    }
}

fn cannot_open(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    path: &Path,
    why: &io::Error,
    advice: &str,
) -> fmt::Result {
    write!(f, "cannot open the {what} {}: {why}; {advice}", path.display())
}

/// The server could not answer a certificate authority.
fn no_challenges(f: &mut fmt::Formatter<'_>, address: SocketAddr, why: &io::Error) -> fmt::Result {
    write!(
        f,
        "cannot listen on {address} for the questions of the certificate authority: {why}; it always connects to port 80 of the domain. \
         Let the service open ports below 1024 (CAP_NET_BIND_SERVICE) and stop other web servers, or forward port 80 to another \
         one (in [tls.acme]: listen = \"[::]:8080\"), or prove the names in DNS (dns_hook = \"/etc/fullbore/dns-hook\")"
    )
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::SigningKeys(error) => Some(error),
            Self::AddressList(error) => Some(error),
            Self::KernelRoute(error) => Some(error),
            Self::BypassRoute(error) => Some(error),
            Self::Listen(error) => Some(error),
            Self::Upgrade(error) => Some(error),
            Self::Library { why, .. }
            | Self::NoFolder { why, .. }
            | Self::AccessLog { why, .. }
            | Self::Cache { why, .. }
            | Self::Helper { why }
            | Self::AcmeHelper { why }
            | Self::AcmeFile { why, .. }
            | Self::AcmeAddress { why, .. }
            | Self::Thread { why, .. }
            | Self::Worker { why, .. }
            | Self::NoDescriptors(why)
            | Self::Admin(why)
            | Self::NoRing(why) => Some(why),
            Self::NoLibrary
            | Self::LibraryNotAFolder(_)
            | Self::Memory { .. }
            | Self::NoRandomNumbers
            | Self::ThreadPanicked
            | Self::WorkerGone => None,
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident,)*) => {
        $(impl From<$error> for StartError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    ConfigError => Config,
    tls::TlsConfigError => Tls,
    token::KeyError => SigningKeys,
    AddressListError => AddressList,
    NoKernelRoute => KernelRoute,
    BypassError => BypassRoute,
    ListenError => Listen,
    UpgradeError => Upgrade,
}

impl From<SiloError> for StartError {
    fn from(error: SiloError) -> Self {
        Self::Config(ConfigError::Silos(error))
    }
}

/// Why a running server ended abnormally.
#[derive(Debug)]
pub enum RunError {
    /// The server cannot wait for signals.
    Signals(io::Error),
    /// The thread that renews certificates and keys cannot be started.
    Renewal(io::Error),
    /// The threads for upgrades cannot be started.
    Upgrade(io::Error),
    /// A worker failed.
    Worker(io::Error),
    /// A worker panicked.
    WorkerPanicked,
    /// A worker ended unexpectedly.
    WorkerEnded,
    /// A second signal came.
    EndedAtOnce,
    /// Viewers did not finish in time.
    CutOff {
        /// How long the server waited for them.
        after_seconds: u64,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signals(why) => write!(f, "cannot wait for signals: {why}"),
            Self::Renewal(why) => {
                write!(f, "cannot start the thread that renews certificates: {why}")
            }
            Self::Upgrade(why) => write!(f, "cannot start the threads for upgrades: {why}"),
            Self::Worker(why) => write!(f, "a worker failed: {why}"),
            Self::WorkerPanicked => f.write_str("a worker panicked; its message is above"),
            Self::WorkerEnded => f.write_str("a worker ended unexpectedly; see above"),
            Self::EndedAtOnce => {
                f.write_str("ended at once on the second signal; viewers were cut off")
            }
            Self::CutOff { after_seconds } => {
                write!(f, "viewers were cut off after {after_seconds} seconds (drain_seconds)")
            }
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Signals(why) | Self::Renewal(why) | Self::Upgrade(why) | Self::Worker(why) => {
                Some(why)
            }
            Self::WorkerPanicked | Self::WorkerEnded | Self::EndedAtOnce | Self::CutOff { .. } => {
                None
            }
        }
    }
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
