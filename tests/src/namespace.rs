//! Network namespaces: network stacks that are separate from this machine's network, joined by veth pairs.
//!
//! A namespace has no name and no process of its own: it ends with its [`Namespace`], together with its interfaces.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::tool;

/// A network namespace with its loopback up.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates one.
    ///
    /// # Panics
    /// Without the privilege for it: check [`can_be_made`] first.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a default that needs privileges would surprise"
    )]
    pub fn new() -> Self {
        let file = thread::scope(|scope| {
            scope.spawn(|| unshare().expect("may be made")).join().expect("it does not panic")
        });
        let namespace = Self { file };
        namespace.inside(|| {
            for devices in ["all", "default"] {
                // No other machine could have the same address, so duplicate detection is unnecessary, and addresses are usable at
                // once. A kernel without IPv6 has no such setting.
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{devices}/accept_dad"), "0");
            }
        });
        namespace.ip("link set dev lo up");
        namespace
    }

    /// Creates one. If that is impossible, reports that loudly and returns `None`.
    pub fn if_possible() -> Option<Self> {
        can_be_made().then(Self::new)
    }

    /// The path by which `ip link ... netns` finds it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `work` on a thread inside. Sockets that it opens and processes that it starts stay in this namespace.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            enter(&self.file);
            work()
        };
        match thread::scope(|scope| scope.spawn(entered).join()) {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Starts `work` on a thread inside. Joining the thread returns the result.
    ///
    /// # Panics
    /// If this process has no descriptors left.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = self.file.try_clone().expect("a descriptor is left");
        thread::spawn(move || {
            enter(&file);
            work()
        })
    }

    /// Runs `program` inside, and returns what it wrote to standard output.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn succeed(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let ran = self.inside(|| tool::run(&mut command));
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.success, "{command:?}: {:?}: {told}{}", ran.code, ran.stderr);
        ran.stdout
    }

    /// Runs `ip` with `arguments`, separated by spaces, and returns what it wrote to standard output.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn ip(&self, arguments: &str) -> String {
        let wrote = self.succeed("ip", &arguments.split_whitespace().collect::<Vec<_>>());
        String::from_utf8(wrote).expect("names are ASCII")
    }

    /// Writes `value` into the file `name` below `/proc/sys/net`.
    ///
    /// # Panics
    /// If the kernel refuses it.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        let written = self.inside(|| fs::write(&path, value));
        written.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Joins this namespace with `other` by a veth pair: an interface named `name` here and one named `other_name`
    /// there, both up, both with this MTU.
    ///
    /// # Panics
    /// If they cannot be created.
    pub fn join(&self, name: &str, other: &Self, other_name: &str, mtu_bytes: usize) {
        let there = other.path();
        self.ip(&format!("link add name {name} type veth peer name {other_name} netns {there}"));
        for (namespace, name) in [(self, name), (other, other_name)] {
            namespace.ip(&format!("link set dev {name} mtu {mtu_bytes} up"));
        }
    }

    /// Gives the interface `name` an address with its prefix length.
    ///
    /// # Panics
    /// If that fails.
    pub fn address(&self, name: &str, address: &str) {
        // Without that flag, an IPv6 address can't be bound until the kernel has noticed that the link is up, even if no duplicates are looked for.
        let usable = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("address add {address} dev {name}{usable}"));
    }

    /// The kernel's counter `name` of TCP in this namespace, as in `/proc/net/snmp`.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn tcp_counter(&self, name: &str) -> u64 {
        let text = self
            .inside(|| fs::read_to_string("/proc/thread-self/net/snmp").expect("the kernel tells"));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut counters = names.split(' ').zip(values.split(' '));
        let (_, value) = counters.find(|(known, _)| *known == name).expect("a counter's name");
        value.parse().expect("a number")
    }
}

/// Whether namespaces can be created and joined here. If not, reports that loudly; the caller then skips its test.
pub fn can_be_made() -> bool {
    if !tool::are_here(&[("ip", "iproute2")]) {
        return false;
    }
    let made = thread::scope(|scope| scope.spawn(unshare).join().expect("it does not panic"));
    if let Err(error) = &made {
        tool::skip(&format!("no network namespace can be made here ({error}): run it as root"));
    }
    made.is_ok()
}

/// Whether mounts can be made apart from those of the machine. If not, reports that loudly; the caller then skips its test. It takes root, and
/// the kernel refuses it even to root in a chroot that isn't a mount point.
pub fn mounts_can_be_apart() -> bool {
    let apart = std::process::Command::new("unshare").args(["--mount", "true"]).status();
    let is_apart = apart.is_ok_and(|status| status.success());
    if !is_apart {
        tool::skip("no mount namespace can be made: run as root, where the root is a mount point");
    }
    is_apart
}

/// Moves this thread into the namespace that `file` keeps alive.
fn enter(file: &File) {
    let kind = Some(LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(file.as_fd(), kind)
        .expect("the process that created it may enter it");
}

/// Moves this thread into a new namespace. Returns the file that keeps that one alive.
fn unshare() -> std::io::Result<File> {
    // SAFETY: only the network namespace is unshared. The function is unsafe for flags that unshare the descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    File::open("/proc/thread-self/ns/net")
}
