//! What of a connection's work the kernel does, and whether it can.

use crate::config::{Config, Route, Switch};
use std::fmt;
use std::io;
use std::path::Path;

/// Kernel TLS's own counters.
pub const TLS_STAT: &str = "/proc/net/tls_stat";

/// What the kernel does on this server, for all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InKernel {
    /// Sealing records.
    pub seals: bool,
    /// Changing the keys that it has (Linux 6.14).
    pub changes_keys: bool,
    /// Sending from the page cache by itself.
    pub sends_files: bool,
}

/// Why the kernel route cannot be had.
#[derive(Debug)]
pub enum NoKernelRoute {
    /// `--off handout` leaves the keys with the library that shook hands.
    KeysNotHandedOut,
    /// The kernel does not seal.
    NoTls(io::Error),
}

impl fmt::Display for NoKernelRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeysNotHandedOut => f.write_str(
                "--off handout leaves the keys where the kernel route cannot have them: choose --route userspace",
            ),
            Self::NoTls(why) if why.raw_os_error() == Some(libc::ENOENT) => f.write_str(
                "no kernel route: this kernel has no TLS, or its module is not loaded: run \"modprobe tls\" as root; \
                 or choose --route userspace",
            ),
            Self::NoTls(why) => write!(
                f,
                "no kernel route: this kernel's TLS cannot be used: {why}; or choose --route userspace"
            ),
        }
    }
}

impl std::error::Error for NoKernelRoute {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::KeysNotHandedOut => None,
            Self::NoTls(why) => Some(why),
        }
    }
}

impl InKernel {
    /// Chooses by configuration and by what this kernel has.
    ///
    /// # Errors
    /// When the kernel route was asked for and cannot be had: what is missing, and what to do about it.
    pub fn choose(config: &Config) -> Result<Self, NoKernelRoute> {
        let wants_all = config.route == Route::Kernel;
        let mut chosen = Self::default();
        if wants_all && config.tls.enabled {
            if !config.is_on(Switch::Handout) {
                return Err(NoKernelRoute::KeysNotHandedOut);
            }
            net::tls::probe().map_err(NoKernelRoute::NoTls)?;
            chosen.seals = true;
            chosen.changes_keys = changes_keys(Path::new(TLS_STAT));
        }
        chosen.sends_files = wants_all || config.route == Route::Auto && !config.tls.enabled;
        Ok(chosen)
    }

    /// Unsent bytes in the kernel above which a connection does not ask for more, where nobody has chosen.
    pub fn unsent_bytes_max(self) -> u32 {
        if self.seals {
            // The kernel holds sealed bytes back until they fill a packet, 64 KiB with segmentation offload. With less
            // than that allowed it never asks for what would fill it: ten times the calls on Linux 6.1 (`lab calls`).
            128 << 10
        } else {
            // TCP gets what it can send soon, not bursts: under BBR, 128 KiB here cost a timer for each packet of a
            // burst and a third of the throughput (docs/performance.md).
            32 << 10
        }
    }

    /// The route's name.
    pub fn name(self, route: Route) -> &'static str {
        match route {
            Route::Bypass => "bypass",
            _ if self.seals || self.sends_files => "kernel",
            _ => "userspace",
        }
    }

    /// What happens on this route, and why it was chosen, for people. `can_send_files` says whether the files of the library
    /// can be left to the kernel.
    pub fn describe(self, config: &Config, can_send_files: bool) -> String {
        let Self { seals, changes_keys, sends_files } = self;
        let sent = if can_send_files {
            "kernel: sendfile"
        } else {
            "kernel: read and send, since it cannot send these files by itself"
        };
        let mut said = match (sends_files, seals) {
            (true, true) => format!("{sent}, sealed by the kernel"),
            (true, false) => sent.to_owned(),
            (false, _) => "userspace: read, seal and send from user space".to_owned(),
        };
        if seals && !changes_keys {
            said.push_str(", which cannot change keys (needs Linux 6.14)");
        }
        if config.route == Route::Auto {
            said.push_str(if config.tls.enabled {
                " (auto: it seals faster than kernels do; see --route kernel)"
            } else {
                " (auto: without TLS there is nothing to seal)"
            });
        }
        said
    }
}

/// A kernel that can change keys counts how often it did.
fn changes_keys(tls_stat: &Path) -> bool {
    std::fs::read_to_string(tls_stat).is_ok_and(|text| text.contains("TlsTxRekeyOk"))
}

/// Why the kernel did not take a connection's keys, as a counter's label.
pub fn refusal(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        // Of the module when the socket is made ready, of a cipher when it is given keys.
        Some(libc::ENOENT) => "not_there",
        Some(libc::EINVAL | libc::EOPNOTSUPP) => "version_or_cipher",
        Some(libc::ENOTCONN) => "peer_gone",
        Some(libc::ENOMEM | libc::ENOBUFS) => "memory",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_the_kernel_sends_files_if_asked_to() {
        let mut config = Config::default();
        config.tls.enabled = false;
        for (route, name) in
            [(Route::Auto, "kernel"), (Route::Kernel, "kernel"), (Route::Userspace, "userspace")]
        {
            config.route = route;
            let chosen = InKernel::choose(&config).unwrap();
            assert_eq!((chosen.name(route), chosen.seals), (name, false), "{route:?}");
        }
    }

    #[test]
    fn sendfile_is_not_claimed_for_files_that_are_copied() {
        let mut config = Config::default();
        config.tls.enabled = false;
        let chosen = InKernel::choose(&config).unwrap();
        assert!(chosen.describe(&config, true).starts_with("kernel: sendfile"));
        let copied = chosen.describe(&config, false);
        assert!(!copied.contains("sendfile") && copied.contains("cannot send"), "{copied}");
    }

    #[test]
    fn a_kernel_without_tls_is_reported_with_what_to_do_and_only_when_it_was_asked_for() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert!(NoKernelRoute::NoTls(error).to_string().contains("modprobe tls"));
        let auto = InKernel::choose(&Config::default()).unwrap();
        assert_eq!(auto, InKernel::default());
        let asked = Config { route: Route::Kernel, ..Config::default() };
        assert_eq!(InKernel::choose(&asked).is_ok(), net::tls::probe().is_ok());
    }
}
