//! Landlock: limits the files that the server may still open, and forbids TCP connections of its own.
//!
//! Already open files stay usable: the access log, listeners, the rings. [`grants`] lists the files that may still be opened;
//! a path that does not exist at startup is not granted.

use config::Config;
use config::own_files;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    RestrictSelfAttr, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The newest Landlock that these rules were designed for. An older kernel enforces the part that it knows.
const NEWEST: ABI = ABI::V9;

type Rights = BitFlags<AccessFs>;

/// Files of procfs that the server reads: its own memory use and mappings, and the host's name for the self-signed certificate.
const PROC: [&str; 2] = ["/proc/self", "/proc/sys/kernel/hostname"];

/// Descriptors that keep rules in force. A rule applies to an inode, and procfs makes a new inode for the same path after it
/// has dropped the old one. An open descriptor prevents that.
#[derive(Debug)]
pub(super) struct Kept {
    _descriptors: Vec<PathFd>,
}

/// Confines this thread and those that it starts and, if the kernel can, existing threads. Returns a summary.
pub(super) fn confine(config: &Config) -> Result<(String, Kept), RulesetError> {
    let notify_socket = std::env::var_os("NOTIFY_SOCKET");
    let grants = grants(config, notify_socket.as_deref());
    let rules = grants.into_iter().filter_map(|(path, rights)| {
        let path = PathFd::new(path).ok()?;
        Some(Ok::<_, RulesetError>(PathBeneath::new(path, rights)))
    });
    let proc: Vec<PathFd> = PROC.iter().filter_map(|path| PathFd::new(path).ok()).collect();
    let proc_rules = proc.iter().map(|path| Ok(PathBeneath::new(path, AccessFs::ReadFile)));
    let other_threads = thread_count().saturating_sub(1);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(scopes(notify_socket.as_deref()))?
        .create()?
        .add_rules(rules)?
        .add_rules::<_, _, _, RulesetError>(proc_rules)?
        .all_threads(true)?
        .restrict_self()?;
    Ok((describe(&status, other_threads), Kept { _descriptors: proc }))
}

/// The files that the running server may open, and its rights to them.
fn grants(config: &Config, notify_socket: Option<&OsStr>) -> Vec<(PathBuf, Rights)> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut grants: Vec<_> = config.folders().map(|folder| (folder.to_owned(), read)).collect();
    if config.tls.enabled && config.tls.acme.is_some() {
        // The helper replaces the certificate. Until there is one, a reload re-reads the self-signed pair, which was made before.
        grants.push((acme::files::certificate_folder(&config.state), read));
        let pair = tls::self_signed_pair(&config.state);
        grants.extend(pair.map(|file| (file, AccessFs::ReadFile.into())));
    } else if config.tls.enabled && config.tls.certificates.is_empty() {
        // The self-signed pair is renewed before it expires: the new one is written next to the old one and renamed, and then the folder is
        // opened and synced.
        let remake =
            make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | MakeReg | RemoveFile});
        grants.push((config.state.clone(), remake));
    }
    if config.tls.enabled {
        for pair in &config.tls.certificates {
            let folders = folders_of(&pair.cert).chain(folders_of(&pair.key));
            grants.extend(folders.map(|folder| (folder, read)));
        }
    }
    let keys =
        config.signing.keys.iter().chain(&config.signing.cat_keys).chain(&config.signing.copies);
    for renewed in keys.chain(config.access.files()) {
        grants.extend(folders_of(renewed).map(|folder| (folder, read)));
    }
    // A new access log is created next to the old one, which was renamed.
    let make = make_bitflags!(AccessFs::{WriteFile | MakeReg});
    grants.extend(own_files::folder_of_logs(config).map(|folder| (folder, make)));
    // Where parts of films go that are read only to be in the page cache.
    grants.push(("/dev/null".into(), AccessFs::WriteFile.into()));
    // So that a panic can print the names of functions.
    grants.extend(std::env::current_exe().ok().map(|path| (path, AccessFs::ReadFile.into())));
    // Before Linux 7.1 Landlock does not restrict sockets with a path, and this right is left out.
    let notify_path = notify_socket.filter(|path| path.as_bytes().starts_with(b"/"));
    grants.extend(notify_path.map(|path| (path.into(), AccessFs::ResolveUnix.into())));
    grants
}

/// The folders for a certificate or key: the one that contains it, because it is replaced by renaming another over it, and the one
/// that contains the target of its link, because certbot keeps the files there.
fn folders_of(file: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let target = file.canonicalize().ok();
    [Some(file.to_owned()), target].into_iter().flatten().filter_map(|file| {
        let folder = file.parent()?;
        // The folder of "cert.pem" is "", which is invalid in system calls.
        Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
    })
}

/// Scopes signals and abstract Unix sockets, so that they reach no other process, unless the service manager listens on such a socket.
fn scopes(notify_socket: Option<&OsStr>) -> BitFlags<Scope> {
    let is_abstract = notify_socket.is_some_and(|name| name.as_bytes().starts_with(b"@"));
    if is_abstract { Scope::Signal.into() } else { Scope::from_all(NEWEST) }
}

fn describe(status: &RestrictionStatus, other_threads: usize) -> String {
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled => {
            return "files not confined (Landlock is off: add it to the kernel's lsm= option)"
                .into();
        }
        LandlockStatus::NotImplemented => {
            return "files not confined (this kernel has no Landlock)".into();
        }
    };
    let mut said = format!("files confined (Landlock {})", abi as i32);
    if abi < ABI::V4 {
        said.push_str(", TCP not confined (needs Linux 6.7)");
    } else {
        said.push_str(", no new TCP listeners or connections out");
    }
    if other_threads > 0 && !status.all_threads {
        said.push_str(&format!(", except for {other_threads} threads that ran before"));
    }
    said
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Certificate, HostedSite, Tls};

    fn rights(config: &Config, path: &Path) -> Rights {
        let grants = grants(config, None);
        let found = grants.into_iter().filter(|(granted, _)| granted == path);
        found.fold(Rights::EMPTY, |all, (_, rights)| all | rights)
    }

    fn with_certificate(cert: &Path) -> Config {
        let pair = Certificate { cert: cert.into(), key: "/keys/key.pem".into() };
        Config {
            state: "/state".into(),
            tls: Tls { certificates: vec![pair], ..Tls::default() },
            ..Config::default()
        }
    }

    #[test]
    fn the_library_is_never_writable() {
        let library = vec!["/library".into(), "/other".into()];
        let sites =
            vec![HostedSite { hosts: vec!["a.example".into()], library: vec!["/site".into()] }];
        let config = Config { state: "/state".into(), library, sites, ..Config::default() };
        for folder in ["/library", "/other", "/site"] {
            let given = rights(&config, Path::new(folder));
            assert_eq!(given, AccessFs::ReadFile | AccessFs::ReadDir);
        }
    }

    #[test]
    fn the_state_is_writable_only_where_the_certificate_is_ours_to_remake() {
        let ours = Config { state: "/state".into(), ..Config::default() };
        assert!(rights(&ours, &ours.state).contains(AccessFs::WriteFile));
        let given = with_certificate(Path::new("/certs/cert.pem"));
        assert_eq!(rights(&given, &given.state), Rights::EMPTY);
        let plain = Config { tls: Tls { enabled: false, ..Tls::default() }, ..ours };
        assert_eq!(rights(&plain, &plain.state), Rights::EMPTY);
    }

    #[test]
    fn with_a_helper_for_certificates_nothing_is_writable_and_the_account_is_out_of_reach() {
        let mut config = Config { state: "/state".into(), ..Config::default() };
        config.tls = toml::from_str("[acme]\ndomains = [\"a.example\"]").unwrap();
        let grants = grants(&config, None);
        let mut writable = grants.iter().filter(|(_, rights)| rights.contains(AccessFs::WriteFile));
        assert!(writable.all(|(granted, _)| granted == Path::new("/dev/null")));
        assert!(grants.iter().all(|(granted, _)| granted != Path::new("/state")));
        let account = acme::files::account_file(&config.state);
        assert!(grants.iter().all(|(granted, _)| !account.starts_with(granted)));
        let folder = Path::new("/state/acme");
        assert_eq!(rights(&config, folder), AccessFs::ReadFile | AccessFs::ReadDir);
        let key = Path::new("/state/self-signed-key.pem");
        assert_eq!(rights(&config, key), Rights::from(AccessFs::ReadFile));
    }

    #[test]
    fn certificates_may_be_read_where_they_lie_and_where_their_links_lead() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (live, archive) = (root.join("live"), root.join("archive"));
        for folder in [&live, &archive] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(archive.join("cert1.pem"), "").unwrap();
        std::os::unix::fs::symlink("../archive/cert1.pem", live.join("cert.pem")).unwrap();
        let config = with_certificate(&live.join("cert.pem"));
        for folder in [&live, &archive, Path::new("/keys")] {
            let given = rights(&config, folder);
            assert_eq!(given, AccessFs::ReadFile | AccessFs::ReadDir, "{}", folder.display());
        }
    }

    #[test]
    fn signing_keys_and_lists_of_addresses_may_be_read_again() {
        let mut config = Config::default();
        config.signing.keys = vec!["/secrets/url.key".into()];
        config.access.allow = vec!["/viewers/allow".into()];
        config.access.deny = vec!["/lists/deny".into()];
        for folder in ["/secrets", "/viewers", "/lists"] {
            let given = rights(&config, Path::new(folder));
            assert_eq!(given, AccessFs::ReadFile | AccessFs::ReadDir, "{folder}");
        }
    }

    #[test]
    fn only_a_folder_of_its_own_is_writable_for_the_access_log() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("logs")).unwrap();
        let mut config = Config { library: vec!["/library".into()], ..Config::default() };
        (config.state, config.tls.enabled) = (root.join("state"), false);
        for (log, folder, expected) in [
            ("logs/access.log", "logs", AccessFs::WriteFile | AccessFs::MakeReg),
            ("access.log", "", Rights::EMPTY),
        ] {
            std::fs::write(root.join(log), "").unwrap();
            config.access_log = Some(root.join(log));
            assert_eq!(rights(&config, &root.join(folder)), expected, "{log}");
        }
    }

    #[test]
    fn a_certificate_named_without_a_folder_lies_in_the_current_one() {
        let config = with_certificate(Path::new("cert.pem"));
        assert!(rights(&config, Path::new(".")).contains(AccessFs::ReadFile));
    }

    #[test]
    fn abstract_sockets_stay_reachable_when_the_service_manager_listens_on_one() {
        assert_eq!(scopes(Some(OsStr::new("@notify"))), Scope::Signal);
        let all = Scope::Signal | Scope::AbstractUnixSocket;
        assert_eq!(scopes(Some(OsStr::new("/run/systemd/notify"))), all);
        assert_eq!(scopes(None), all);
    }
}
