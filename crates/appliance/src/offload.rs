//! What the server leaves to the kernel: chosen by the configuration and by this kernel's abilities, and described.

use crate::config::{Config, Route, Switch};
use delivery::KernelOffload;
use std::fmt;
use std::io;

/// Why the kernel route is not available.
#[derive(Debug)]
pub enum NoKernelRoute {
    /// `--off handout` leaves the keys in the library that did the handshake.
    KeysNotHandedOut,
    /// The kernel cannot encrypt TLS.
    NoTls(io::Error),
}

impl fmt::Display for NoKernelRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeysNotHandedOut => f.write_str(
                "--off handout leaves the TLS keys in rustls, and the kernel route needs them: choose --route userspace",
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

/// Chooses by the configuration and by this kernel's abilities.
///
/// # Errors
/// If the kernel route was requested and is not available: what is missing, and what to do about it.
pub fn choose(config: &Config) -> Result<KernelOffload, NoKernelRoute> {
    choose_by(config, net::tls::probe)
}

/// As [`choose`], where `probe` says whether the kernel has TLS.
fn choose_by(
    config: &Config,
    probe: impl FnOnce() -> io::Result<()>,
) -> Result<KernelOffload, NoKernelRoute> {
    let wants_all = config.route == Route::Kernel;
    let mut chosen = KernelOffload::default();
    if wants_all && config.tls.enabled {
        if !config.is_on(Switch::Handout) {
            return Err(NoKernelRoute::KeysNotHandedOut);
        }
        probe().map_err(NoKernelRoute::NoTls)?;
        chosen.seals = true;
        chosen.changes_keys = KernelOffload::can_change_keys();
    }
    chosen.sends_files = wants_all || config.route == Route::Auto && !config.tls.enabled;
    Ok(chosen)
}

/// The route's name.
pub fn route_name(offload: KernelOffload, route: Route) -> &'static str {
    match route {
        Route::Bypass => "bypass",
        _ if offload.seals || offload.sends_files => "kernel",
        _ => "userspace",
    }
}

/// What happens on this route, and why it was chosen, in words. `can_send_files` says whether the kernel can send the
/// library's files by itself.
pub fn describe(offload: KernelOffload, config: &Config, can_send_files: bool) -> String {
    let KernelOffload { seals, changes_keys, sends_files } = offload;
    let sent = if can_send_files {
        "kernel: sendfile"
    } else {
        "kernel: read and send, because the kernel cannot send these files itself"
    };
    let mut said = match (sends_files, seals) {
        (true, true) => format!("{sent}, encrypted by the kernel"),
        (true, false) => sent.to_owned(),
        (false, _) => "userspace: read, encrypt and send from user space".to_owned(),
    };
    if seals && !changes_keys {
        said.push_str(", which cannot change keys (needs Linux 6.14)");
    }
    if config.route == Route::Auto {
        said.push_str(if config.tls.enabled {
            " (auto: faster than encryption in the kernel; see --route kernel)"
        } else {
            " (auto: without TLS there is nothing to encrypt)"
        });
    }
    said
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
            let chosen = choose(&config).unwrap();
            assert_eq!((route_name(chosen, route), chosen.seals), (name, false), "{route:?}");
        }
    }

    #[test]
    fn sendfile_is_not_claimed_for_files_that_are_copied() {
        let mut config = Config::default();
        config.tls.enabled = false;
        let chosen = choose(&config).unwrap();
        assert!(describe(chosen, &config, true).starts_with("kernel: sendfile"));
        let copied = describe(chosen, &config, false);
        assert!(!copied.contains("sendfile") && copied.contains("cannot send"), "{copied}");
    }

    #[test]
    fn a_kernel_without_tls_is_reported_with_what_to_do_and_only_when_it_was_asked_for() {
        let without = |config: &Config, errno: i32| {
            choose_by(config, || Err(io::Error::from_raw_os_error(errno)))
        };
        let asked = Config { route: Route::Kernel, ..Config::default() };
        let said = |errno: i32| without(&asked, errno).unwrap_err().to_string();
        assert!(said(libc::ENOENT).contains("modprobe tls"));
        assert!(said(libc::EPERM).contains("cannot be used"));
        let auto = without(&Config::default(), libc::ENOENT).unwrap();
        assert_eq!(auto, KernelOffload::default());
    }

    #[test]
    fn a_kernel_with_tls_seals_and_sends_when_asked_to() {
        let asked = Config { route: Route::Kernel, ..Config::default() };
        let chosen = choose_by(&asked, || Ok(())).unwrap();
        assert!(chosen.seals && chosen.sends_files);
    }
}
