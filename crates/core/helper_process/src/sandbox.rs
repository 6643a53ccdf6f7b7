//! Least privilege for a helper: it parses data from other people's servers, so it drops more privileges than any other process.
//! Both helpers do: the edge's, described here, and the one for certificates. docs/sandbox.md explains the consequences for operators.
//!
//! Once its cache is open and its certificates are read, it may open files of the cache and those needed to resolve names, and may connect
//! over TCP to its origins' ports and to that of name servers. It may not execute programs, listen, or send signals. If the kernel lacks any
//! of this, the helper continues without it.
//!
//! Landlock identifies files by inode. A resolver's file that is replaced later can no longer be read; [`Confined::is_outdated`] notices,
//! and the next helper gets access to the new one.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The newest Landlock ABI that these rules were designed for. An older kernel enforces the part that it knows.
const NEWEST: ABI = ABI::V9;

/// The files that the C library reads to resolve a name, and the modules that it loads for that (nss(5)).
const RESOLVING: [&str; 13] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/nscd",
];

/// The port of name servers, for answers that do not fit into a datagram.
const DNS_PORT: u16 = 53;

/// The privileges that a helper still needs.
pub struct HelperNeeds<'a> {
    /// The folders of its data.
    pub folders: &'a [&'a Path],
    /// The ports to connect to.
    pub ports: &'a [u16],
    /// Whether a host there is a name.
    pub resolves: bool,
    /// The port to listen on.
    pub listens: Option<u16>,
}

/// The result of confining a helper, as far as the kernel can.
pub struct Confined {
    /// The paths that it could read when it was confined.
    readable: Vec<PathBuf>,
    /// The restrictions that could not be applied.
    pub lacks: Option<String>,
}

/// Confines this thread and those that it starts from now on. This cannot be undone.
pub fn confine(needed: &HelperNeeds<'_>) -> Confined {
    let readable = if needed.resolves { RESOLVING.map(PathBuf::from).to_vec() } else { Vec::new() };
    confine_to(needed, readable)
}

fn confine_to(needed: &HelperNeeds<'_>, mut readable: Vec<PathBuf>) -> Confined {
    readable.retain(|path| File::open(path).is_ok());
    let privileges = set_no_new_privs(true).map_err(io::Error::from).err();
    let privileges = privileges.map(|error| format!("new privileges are possible ({error})"));
    let files = match restrict(needed, &readable) {
        Ok(lack) => lack,
        Err(error) => Some(format!("files and connections are not confined ({error})")),
    };
    // Last, so that a folder that only root can reach is still granted.
    let kept = give_up_capabilities(needed).err();
    let kept = kept.map(|error| format!("capabilities are kept ({error})"));
    let lacks: Vec<_> = [privileges, files, kept].into_iter().flatten().collect();
    Confined { readable, lacks: (!lacks.is_empty()).then(|| lacks.join(", ")) }
}

impl Confined {
    /// An unconfined helper.
    pub fn not() -> Self {
        Self { readable: Vec::new(), lacks: None }
    }

    /// Whether a file for resolving names was replaced, so that it can no longer be read.
    pub fn is_outdated(&self) -> bool {
        let is_denied = |path: &PathBuf| {
            File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        self.readable.iter().any(is_denied)
    }
}

/// Returns the restrictions that the kernel does not support.
fn restrict(
    needed: &HelperNeeds<'_>,
    readable: &[PathBuf],
) -> Result<Option<String>, RulesetError> {
    let keep = make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile
    });
    let rights = |path: &Path| -> BitFlags<AccessFs> {
        match path.is_dir() {
            // Some resolvers are reached through a socket there.
            true => make_bitflags!(AccessFs::{ReadFile | ReadDir | ResolveUnix}),
            false => AccessFs::ReadFile.into(),
        }
    };
    let granted = readable.iter().map(|path| (path.as_path(), rights(path)));
    let folders = needed.folders.iter().map(|folder| (*folder, keep));
    let granted = granted.chain(folders).filter_map(|(path, rights)| {
        let path = PathFd::new(path).ok()?;
        Some(Ok::<_, RulesetError>(PathBeneath::new(path, rights)))
    });
    let ports = needed.ports.iter().copied().chain(needed.resolves.then_some(DNS_PORT));
    let ports = ports.map(|port| NetPort::new(port, AccessNet::ConnectTcp));
    let own = needed.listens.map(|port| NetPort::new(port, AccessNet::BindTcp));
    let ports = ports.chain(own).map(Ok::<_, RulesetError>);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(granted)?
        .add_rules(ports)?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => {
            Some("files and connections are not confined (this kernel's Landlock is off)".into())
        }
        (_, LandlockStatus::Available { effective_abi, .. }) if effective_abi < ABI::V4 => {
            Some("connections are not confined (this needs Linux 6.7)".into())
        }
        _ => None,
    })
}

/// Drops all capabilities except those needed to write to another user's folder, or to listen on a low port.
fn give_up_capabilities(needed: &HelperNeeds<'_>) -> io::Result<()> {
    let mut kept = CapabilitySet::empty();
    for folder in needed.folders {
        if fs::metadata(folder)?.uid() != rustix::process::geteuid().as_raw() {
            kept |= CapabilitySet::DAC_OVERRIDE;
        }
    }
    if needed.listens.is_some_and(|port| port < 1024) {
        kept |= CapabilitySet::NET_BIND_SERVICE;
    }
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind::PermissionDenied;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Barrier;
    use tempfile::tempdir;

    /// Runs `work` in a thread of its own, so that only that one is confined.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join()).unwrap()
    }

    #[test]
    fn a_confined_helper_reaches_its_cache_and_its_origin_and_nothing_else() {
        let (objects, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
        let secret = elsewhere.path().join("secret");
        fs::write(&secret, "x").unwrap();
        let (origin, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = origin.local_addr().unwrap();
        let lacks = apart(|| {
            let objects = objects.path();
            let ports = [address.port()];
            let needed =
                HelperNeeds { folders: &[objects], ports: &ports, resolves: false, listens: None };
            let confined = confine(&needed);
            if confined.lacks.is_some() {
                return confined.lacks;
            }
            let mut file = File::create_new(objects.join("a")).unwrap();
            io::Write::write_all(&mut file, b"bytes").unwrap();
            file.set_len(3).unwrap();
            assert_eq!(fs::read(objects.join("a")).unwrap(), b"byt");
            fs::remove_file(objects.join("a")).unwrap();
            let denied = |tried: io::Result<()>| tried.unwrap_err().kind() == PermissionDenied;
            assert!(denied(File::open(&secret).map(drop)) && denied(fs::write(&secret, "y")));
            assert!(denied(File::open("/etc/passwd").map(drop)));
            assert!(denied(std::process::Command::new("true").status().map(drop)));
            TcpStream::connect(address).unwrap();
            assert!(denied(TcpStream::connect(other.local_addr().unwrap()).map(drop)));
            assert!(denied(TcpListener::bind("127.0.0.1:0").map(drop)));
            assert_eq!(capabilities(None).unwrap().effective, CapabilitySet::empty());
            None
        });
        if let Some(lacks) = lacks {
            fullbore_tests::tool::skip(&lacks);
        }
    }

    #[test]
    fn a_resolvers_file_that_was_replaced_is_noticed() {
        let (objects, etc) = (tempdir().unwrap(), tempdir().unwrap());
        let (resolver, missing) = (etc.path().join("resolv.conf"), etc.path().join("hosts"));
        fs::write(&resolver, "nameserver 192.0.2.1").unwrap();
        let (confined, replaced) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                let folders = [objects.path()];
                let needed =
                    HelperNeeds { folders: &folders, ports: &[80], resolves: false, listens: None };
                let helper = confine_to(&needed, vec![resolver.clone(), missing.clone()]);
                let before = helper.is_outdated();
                confined.wait();
                replaced.wait();
                (before, helper.is_outdated(), helper.lacks)
            });
            confined.wait();
            fs::write(etc.path().join("new"), "nameserver 192.0.2.2").unwrap();
            fs::rename(etc.path().join("new"), &resolver).unwrap();
            replaced.wait();
            let (before, after, lacks) = helper.join().unwrap();
            assert!(!before && (after || lacks.is_some()), "{after} {lacks:?}");
        });
    }
}
