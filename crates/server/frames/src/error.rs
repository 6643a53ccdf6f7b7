//! Errors when opening a device, with advice.

use std::io;

/// A step of set-up that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}; {advice}")]
pub struct SetupError {
    /// The action that failed, and its object.
    step: String,
    /// Advice on what to do about it.
    advice: &'static str,
    source: io::Error,
}

impl SetupError {
    pub(crate) fn new(step: impl Into<String>, source: io::Error) -> Self {
        let advice = match source.raw_os_error() {
            _ if source.kind() == io::ErrorKind::PermissionDenied => {
                "this needs CAP_NET_ADMIN, and for AF_XDP also CAP_NET_RAW, CAP_BPF and (on older kernels) CAP_PERFMON: start \
                 as root (privileges are dropped after set-up) or give them with systemd's AmbientCapabilities="
            }
            Some(libc::ENODEV) => "`ip link` lists the names of the interfaces",
            Some(libc::ENOENT | libc::ENOSYS | libc::EAFNOSUPPORT) => {
                "this kernel does not support it: load its module (`modprobe tun` for a TAP), or use another route"
            }
            Some(libc::EBUSY) => "another program uses it: stop it, or choose another name",
            Some(libc::EEXIST) => {
                "the kernel already has a route or an address like this: give the server an address that nothing else uses"
            }
            Some(libc::ENOMEM | libc::ENOBUFS) => {
                "raise the limit on locked memory (LimitMEMLOCK= in systemd, `ulimit -l`), or give CAP_IPC_LOCK"
            }
            _ => "docs/bypass.md lists what is needed",
        };
        Self { step: step.into(), advice, source }
    }

    /// The same error with other advice.
    pub(crate) fn advise(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// The system's error.
    pub fn io(&self) -> &io::Error {
        &self.source
    }
}
