//! The server's own files: keys, address lists, the access log, the configuration. They are never served.
//!
//! Two checks ensure that. A server does not start if a viewer could request one of them by its name ([`Config::check_own_files`]). And workers
//! do not serve them under any other name, such as a hard link or a path below a bind mount ([`OwnFiles`]). Certificates are
//! public, and are not included.

use crate::{Config, ConfigError};
use disk::Inode;
use fullbore_http::LibraryPath;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many links are followed to a file that does not exist yet; the kernel's own bound (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// A file, and its description for errors.
struct OwnFile {
    path: PathBuf,
    what: &'static str,
    advice: &'static str,
}

/// The files that the server reads and writes with this configuration.
fn own_files(config: &Config) -> Vec<OwnFile> {
    let keep = |path: &Path, what, advice| OwnFile { path: path.to_owned(), what, advice };
    let mut files = Vec::new();
    if let Some(path) = &config.file {
        files.push(keep(path, "the configuration", "move it elsewhere, such as to /etc/fullbore"));
    }
    for pair in &config.tls.certificates {
        let advice =
            "move it elsewhere, such as to /etc/fullbore, and name it there with --key FILE";
        files.push(keep(&pair.key, "a certificate's private key", advice));
    }
    for path in &config.signing.keys {
        let advice =
            "move it elsewhere, such as to /etc/fullbore, and name it there in signing.keys";
        files.push(keep(path, "a key of signed URLs", advice));
    }
    for path in &config.signing.cat_keys {
        let advice =
            "move it elsewhere, such as to /etc/fullbore, and name it there in signing.cat_keys";
        files.push(keep(path, "a key of Common Access Tokens", advice));
    }
    if let Some(path) = &config.signing.copies {
        let advice =
            "move it elsewhere, such as to /etc/fullbore, and name it there in signing.copies";
        files.push(keep(path, "the keys of nodes' copies", advice));
    }
    for path in config.access.files() {
        let advice = "move it elsewhere, such as to /etc/fullbore, and name it there in [access]";
        files.push(keep(path, "a list of addresses", advice));
    }
    for (path, what) in config.edge.files_of_origins() {
        let advice =
            "move it elsewhere, such as to /etc/fullbore, and name it there in edge.origin";
        files.push(keep(path, what, advice));
    }
    let self_signed_key = tls::self_signed_key(&config.state);
    let makes_one = config.tls.enabled && config.tls.certificates.is_empty();
    // A client may still trust one from an earlier start.
    if makes_one || self_signed_key.exists() {
        let advice = "choose a state directory outside the library with --state DIR";
        files.push(keep(&self_signed_key, "the self-signed certificate's private key", advice));
    }
    for (path, what) in [
        (acme::files::certificate_file(&config.state), "the private key of a certificate by ACME"),
        (
            acme::files::account_file(&config.state),
            "the key of an account with a certificate authority",
        ),
    ] {
        if config.tls.acme.is_some() || path.exists() {
            let advice = "choose a state directory outside the library with --state DIR";
            files.push(keep(&path, what, advice));
        }
    }
    if let Some(path) = config.access_log.as_deref().filter(|path| path.as_os_str() != "-") {
        let advice = "write it elsewhere, such as to /var/log/fullbore, with --access-log FILE";
        files.push(keep(path, "the access log", advice));
    }
    files
}

/// Rejects a configuration with which one of the server's own files would be served. Hidden files of the library
/// (`.keys/url.key`) are allowed, because viewers cannot name them.
pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
    // A missing folder is reported elsewhere.
    let folders = config.folders().filter_map(|folder| folder.canonicalize().ok());
    let folders: Vec<_> = folders.collect();
    for OwnFile { path, what, advice } in own_files(config) {
        // A path that cannot be resolved is not served, and the later read reports the error.
        let Ok(real) = resolve(&path, LINKS_MAX) else { continue };
        if let Some(library) = folders.iter().find(|folder| is_served(&real, folder)).cloned() {
            let real = (real != path).then_some(real);
            return Err(ConfigError::OwnFileServed { file: path, real, what, library, advice });
        }
    }
    Ok(())
}

/// The folder in which the server may create a new access log while it runs: the log's, unless it or a folder below it has other files that the
/// server reads, because a process with the right to create files there may also write to existing ones.
pub fn folder_of_logs(config: &Config) -> Option<PathBuf> {
    let log = config.access_log.as_deref().filter(|path| path.as_os_str() != "-")?;
    let log = log.canonicalize().ok().filter(|log| log.is_file())?;
    let folder = log.parent()?;
    let real = |path: &PathBuf| resolve(path, LINKS_MAX).ok();
    let served: Vec<_> = config.folders().chain(&config.edge.cache).filter_map(real).collect();
    let own = own_files(config).into_iter().filter_map(|file| real(&file.path));
    let mut others = served.iter().cloned().chain(real(&config.state)).chain(own);
    let is_shared = others.any(|path| path.starts_with(folder) && path != log)
        || served.iter().any(|served| folder.starts_with(served));
    (!is_shared).then(|| folder.to_owned())
}

/// Whether a viewer could request the file `real` if `folder` is in the library.
fn is_served(real: &Path, folder: &Path) -> bool {
    let name = real.strip_prefix(folder);
    name.is_ok_and(|name| LibraryPath::as_written(name.as_os_str().as_bytes()).is_some())
}

/// `path` with all links resolved, even if its last parts do not exist yet.
fn resolve(path: &Path, links_left: usize) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && links_left > 0 => {}
        resolved => return resolved,
    }
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(io::ErrorKind::NotFound.into()),
    };
    // Writing to a dangling link creates the file that it points to.
    if let Ok(target) = path.read_link() {
        return resolve(&folder.join(target), links_left - 1);
    }
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    Ok(resolve(folder, links_left - 1)?.join(name))
}

/// The current inodes of the server's own files. They are held open, without rights to read or write, so that no inode number can
/// be reused for another file while it is withheld.
pub struct OwnFiles(Vec<Held>);

struct Held {
    path: PathBuf,
    inode: Option<(Inode, OwnedFd)>,
}

impl OwnFiles {
    /// Opens the files that `config` names.
    pub fn of(config: &Config) -> Self {
        let held = |file: OwnFile| Held { inode: look(&file.path), path: file.path };
        Self(own_files(config).into_iter().map(held).collect())
    }

    /// Checks again, and returns whether anything has changed. A path that has no file at the moment keeps its last inode, because the
    /// file may just be being replaced.
    pub fn look_again(&mut self) -> bool {
        let mut has_changed = false;
        for held in &mut self.0 {
            let Some(now) = look(&held.path) else { continue };
            if held.inode.as_ref().is_none_or(|(inode, _)| *inode != now.0) {
                held.inode = Some(now);
                has_changed = true;
            }
        }
        has_changed
    }

    /// The inodes that must not be served.
    pub fn inodes(&self) -> Arc<[Inode]> {
        self.0.iter().filter_map(|held| held.inode.as_ref()).map(|(inode, _)| *inode).collect()
    }
}

fn look(path: &Path) -> Option<(Inode, OwnedFd)> {
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some((Inode::of(&fd).ok()?, fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Certificate, Tls};
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::{TempDir, tempdir};

    /// A library, a folder next to it, and a configuration that names nothing yet.
    fn place() -> (TempDir, PathBuf, PathBuf, Config) {
        let root = tempdir().unwrap();
        let (library, beside) = (root.path().join("library"), root.path().join("beside"));
        fs::create_dir_all(library.join("films")).unwrap();
        fs::create_dir(&beside).unwrap();
        let config = Config {
            library: vec![library.clone()],
            state: beside.join("state"),
            tls: Tls { enabled: false, ..Tls::default() },
            ..Config::default()
        };
        (root, library, beside, config)
    }

    fn complaint(config: &Config) -> String {
        check(config).expect_err("it has to be refused").to_string()
    }

    #[test]
    fn whatever_is_named_inside_the_library_is_refused_by_its_path() {
        let (_root, library, beside, config) = place();
        check(&config).unwrap();
        let inside = library.join("films/secret");
        let mut signing = config.clone();
        signing.signing.keys = vec![beside.join("good.key"), inside.clone()];
        let mut cats = config.clone();
        cats.signing.cat_keys = vec![inside.clone()];
        let mut tls = config.clone();
        tls.tls.enabled = true;
        tls.tls.certificates = vec![Certificate { cert: inside.clone(), key: inside.clone() }];
        let mut lists = config.clone();
        lists.access.deny = vec![inside.clone()];
        let mut origin = config.clone();
        let file = edge::HeaderText::File { file: inside.clone() };
        origin.edge.name_origins(vec!["http://a".into()]);
        origin.edge.origin[0].headers.insert("X-A".into(), file);
        let log = Config { access_log: Some(inside.clone()), ..config.clone() };
        let file = Config { file: Some(inside.clone()), ..config.clone() };
        for (config, what) in [
            (signing, "signed URLs"),
            (cats, "Common Access Tokens"),
            (tls, "private key"),
            (lists, "list of addresses"),
            (origin, "a header for an origin"),
            (log, "access log"),
            (file, "configuration"),
        ] {
            let said = complaint(&config);
            assert!(said.contains(inside.to_str().unwrap()) && said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_state_directory_is_refused_inside_the_library_but_not_around_it() {
        let (root, library, _, mut config) = place();
        config.tls.enabled = true;
        check(&config).unwrap();
        for inside in [library.clone(), library.join("films/state")] {
            config.state = inside;
            assert!(complaint(&config).contains("--state DIR"));
        }
        config.state = root.path().to_owned();
        check(&config).unwrap();
        // Without TLS none is made, but an earlier one may exist.
        config.tls.enabled = false;
        config.state = library.clone();
        check(&config).unwrap();
        fs::write(tls::self_signed_key(&library), "").unwrap();
        assert!(complaint(&config).contains("--state DIR"));
    }

    #[test]
    fn links_are_followed_on_both_sides_also_to_what_is_not_there_yet() {
        let (root, library, beside, mut config) = place();
        symlink(&library, root.path().join("link")).unwrap();
        config.library = vec![root.path().join("link")];
        config.access_log = Some(library.join("access.log"));
        assert!(complaint(&config).contains("access log"));
        symlink("../library/access.log", beside.join("access.log")).unwrap();
        config.access_log = Some(beside.join("access.log"));
        assert!(complaint(&config).contains("library/access.log"));
        // A link from inside to outside: the server does not follow it for a viewer.
        symlink(beside.join("other.log"), library.join("other.log")).unwrap();
        config.access_log = Some(library.join("other.log"));
        check(&config).unwrap();
        symlink("loop", library.join("loop")).unwrap();
        config.access_log = Some(library.join("loop"));
        check(&config).unwrap();
    }

    #[test]
    fn a_new_access_log_may_be_made_only_in_a_folder_without_anything_else() {
        let (root, library, beside, mut config) = place();
        let logs = beside.join("logs");
        fs::create_dir(&logs).unwrap();
        let mut folder_of = |log: PathBuf| {
            fs::write(&log, "").unwrap();
            config.access_log = Some(log);
            folder_of_logs(&config)
        };
        assert_eq!(folder_of(logs.join("a.log")), logs.canonicalize().ok());
        // The state directory would be created there.
        assert_eq!(folder_of(beside.join("a.log")), None);
        assert_eq!(folder_of(root.path().join("a.log")), None, "the library is there");
        assert_eq!(folder_of(library.join("films/.a.log")), None, "films are there");
        symlink(logs.join("a.log"), root.path().join("link")).unwrap();
        assert_eq!(folder_of(root.path().join("link")), logs.canonicalize().ok());
        config.signing.keys = vec![logs.join("url.key")];
        assert_eq!(folder_of_logs(&config), None);
        config.access_log = Some("/dev/null".into());
        assert_eq!(folder_of_logs(&config), None);
    }

    #[test]
    fn what_is_hidden_in_the_library_cannot_be_asked_for() {
        let (_root, library, _, mut config) = place();
        config.signing.keys = vec![library.join(".keys/url.key"), library.join("films/.url.key")];
        check(&config).unwrap();
        config.signing.keys = vec![library.join(".well-known/url.key")];
        assert!(complaint(&config).contains("url.key"));
    }

    #[test]
    fn what_replaces_a_file_is_withheld_in_its_place() {
        let (_root, _, beside, mut config) = place();
        let path = beside.join("url.key");
        config.signing.keys = vec![path.clone()];
        let mut own = OwnFiles::of(&config);
        assert!(own.inodes().is_empty());
        fs::write(&path, "").unwrap();
        assert!(own.look_again() && own.inodes().len() == 1);
        let first = own.inodes();
        assert!(!own.look_again());
        fs::remove_file(&path).unwrap();
        assert!(!own.look_again() && own.inodes() == first);
        fs::write(&path, "").unwrap();
        assert!(
            own.look_again() && own.inodes() != first,
            "the first is held, and keeps its number"
        );
    }
}
