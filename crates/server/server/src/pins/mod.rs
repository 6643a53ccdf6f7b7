//! Pins: titles that the operator wants in the hot set before viewers request them.
//!
//! Every two seconds a thread looks up the files of the pinned titles, as they are served now, because lookups wait for disks. In each silo one
//! worker ([`Pinner`]) reads them into its hot set and keeps them there. The thread also decides which titles fit: pins may take half of a hot
//! set, and titles get room in the configured order, each whole or not at all.

mod pinner;

pub(crate) use pinner::Pinner;

use crate::folders::Folders;
use crate::sandbox;
use catalog::TitlePath;
use config::Config;
use disk::Stamp;
use disk::hot::pinned_bytes_of;
use fullbore_http::LibraryPath;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The pause between two lookups: a new version is followed within a few seconds.
const PAUSE: Duration = Duration::from_secs(2);

/// The fraction of a hot set that pins may take: the rest is for viewers' requests.
const SHARE_OF_SET: u64 = 2;

/// A file of a pinned title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinnedFile {
    /// Its path in the library.
    path: Box<[u8]>,
    /// Its current version.
    stamp: Stamp,
}

/// The files to pin, as the thread has found them.
pub(crate) struct Pins {
    files: Mutex<Arc<[PinnedFile]>>,
}

/// State of a pinned title.
struct Title {
    path: TitlePath,
    files: Vec<PinnedFile>,
    /// The last report to the operator.
    told: String,
}

impl Pins {
    /// Starts looking up the pinned titles, if there are any, and a hot set. The smallest set has `set_bytes`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        config: &Config,
        folders: Option<&Arc<Folders>>,
        set_bytes: Option<u64>,
    ) -> io::Result<Option<Arc<Self>>> {
        let Some(set_bytes) = set_bytes.filter(|_| !config.memory.pins.is_empty()) else {
            return Ok(None);
        };
        let Some(folders) = folders else { return Ok(None) };
        let pins = Arc::new(Self { files: Mutex::new(Arc::from([])) });
        let (mut titles, folders) = (titles(&config.memory.pins), Arc::downgrade(folders));
        let (kept, is_confined) = (Arc::downgrade(&pins), config.sandbox);
        let life = move || {
            if is_confined {
                sandbox::give_up_for_rings();
            }
            while pass(&kept, &folders, &mut titles, set_bytes / SHARE_OF_SET).is_some() {
                std::thread::sleep(PAUSE);
            }
        };
        std::thread::Builder::new().name("pins".into()).spawn(life)?;
        Ok(Some(pins))
    }

    /// The files to pin, in order. The list is replaced only if something has changed.
    fn files(&self) -> Arc<[PinnedFile]> {
        Arc::clone(&self.files.lock().expect("no holder of this lock can panic"))
    }

    fn replace(&self, files: Vec<PinnedFile>) {
        let mut known = self.files.lock().expect("no holder of this lock can panic");
        if **known != files[..] {
            *known = files.into();
        }
    }
}

/// The start line's text about these titles, if there are any.
pub(crate) fn describe(titles: &[String], has_hot_set: bool) -> Option<String> {
    let of_set = match has_hot_set {
        true => "in half of the hot set at most; titles that do not fit are listed below",
        false => "not pinned, because there is no hot set",
    };
    (!titles.is_empty()).then(|| format!("pins      {}: {of_set}", titles.join(", ")))
}

/// The titles with these paths, which were checked with the configuration.
fn titles(paths: &[String]) -> Vec<Title> {
    let paths = paths.iter().filter_map(|path| TitlePath::new(path).ok());
    paths.map(|path| Title { path, files: Vec::new(), told: String::new() }).collect()
}

/// Looks up all titles once. `None` when the server has ended.
fn pass(
    pins: &Weak<Pins>,
    folders: &Weak<Folders>,
    titles: &mut [Title],
    bytes_max: u64,
) -> Option<()> {
    let folders = folders.upgrade()?;
    let mut left = bytes_max;
    for title in titles.iter_mut() {
        let told = title.look(&folders, &mut left);
        if title.told != told {
            eprintln!("fullbore: {}", ingest::shown(&told));
            title.told = told;
        }
    }
    let files = titles.iter().flat_map(|title| title.files.iter().cloned()).collect();
    pins.upgrade()?.replace(files);
    Some(())
}

impl Title {
    /// Looks up its files, and takes their bytes from `left`. Returns the report to the operator.
    fn look(&mut self, folders: &Folders, left: &mut u64) -> String {
        let path = &self.path;
        self.files = match found(folders, path) {
            Ok(files) => files,
            Err(error) => {
                self.files.clear();
                return match error.kind() {
                    io::ErrorKind::NotFound => {
                        format!(
                            "cannot pin {path}: the library has no such title (it will be pinned when it appears)"
                        )
                    }
                    _ => format!("cannot pin {path}: {error}"),
                };
            }
        };
        let bytes: u64 = self.files.iter().map(|file| pinned_bytes_of(file.stamp.size)).sum();
        let mib = bytes >> 20;
        let Some(rest) = left.checked_sub(bytes) else {
            self.files.clear();
            return format!(
                "cannot pin {path}: it takes {mib} MiB, and {} MiB are left, because pins may take half of the hot set: \
                 raise hot_bytes in [memory], or pin less",
                *left >> 20
            );
        };
        *left = rest;
        format!("pinning {path}: {} files, {mib} MiB in memory", self.files.len())
    }
}

/// The files of a title, under the name that viewers' requests for it find.
fn found(folders: &Folders, title: &TitlePath) -> io::Result<Vec<PinnedFile>> {
    let mut found = Err(io::ErrorKind::NotFound.into());
    let Some(path) = LibraryPath::as_written(title.as_str().as_bytes()) else { return found };
    let names = [path.as_bytes().to_vec()].into_iter().chain(path.other_spellings());
    for title in names.filter_map(|name| TitlePath::new(std::str::from_utf8(&name).ok()?).ok()) {
        let Some(folder) = folders.holder(Path::new(title.as_str())) else { continue };
        found = files(folder, &title);
        if !found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    found
}

/// The files of a title in `folder`, with their versions.
fn files(folder: &Path, title: &TitlePath) -> io::Result<Vec<PinnedFile>> {
    let file = |path: &PathBuf| {
        let stamp = Stamp::of_path(&folder.join(path))?;
        Ok(PinnedFile { path: path.as_os_str().as_bytes().into(), stamp })
    };
    catalog::parts(folder, title)?.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    #[test]
    fn titles_get_room_in_order_and_each_is_pinned_whole_or_not_at_all() {
        let library = tempfile::tempdir().unwrap();
        for (name, mib) in [("large.mp4", 5), ("small.mp4", 2), ("other.mp4", 3)] {
            fs::File::create(library.path().join(name)).unwrap().set_len(mib * MIB).unwrap();
        }
        let library = vec![library.path().to_owned()];
        let folders = Arc::new(Folders::open(&library).unwrap());
        let pins = Arc::new(Pins { files: Mutex::new(Arc::from([])) });
        let mut titles =
            titles(&["small.mp4", "missing", "large.mp4", "other.mp4"].map(String::from));
        let look = |titles: &mut Vec<Title>| {
            pass(&Arc::downgrade(&pins), &Arc::downgrade(&folders), titles, 6 * MIB).unwrap();
            let files = pins.files();
            let paths = files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned());
            (paths.collect::<Vec<_>>(), files)
        };
        let (paths, before) = look(&mut titles);
        assert_eq!(paths, ["small.mp4", "other.mp4"], "files take whole blocks of 2 MiB");
        assert!(titles[1].told.contains("no such title"), "{}", titles[1].told);
        let told = &titles[2].told;
        assert!(told.contains("takes 6 MiB, and 4 MiB are left"), "{told}");
        let (_, again) = look(&mut titles);
        assert!(Arc::ptr_eq(&before, &again), "nothing has changed");
        let small = folders.paths()[0].join("small.mp4");
        fs::File::options().write(true).open(small).unwrap().set_len(3 * MIB).unwrap();
        let (_, changed) = look(&mut titles);
        assert_eq!(changed[0].stamp.size, 3 * MIB);
        assert_eq!(changed.len(), 1, "now the other one does not fit any more");
    }

    #[test]
    fn a_pinned_title_is_found_by_either_form_of_its_name() {
        let (composed, decomposed) = ("Am\u{e9}lie", "Ame\u{301}lie");
        let library = tempfile::tempdir().unwrap();
        // The second is in a folder of the other form.
        let files = [format!("{composed}.mp4"), format!("{decomposed}/{composed}.mp4")];
        for file in &files {
            let path = library.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "film").unwrap();
        }
        let folders = Folders::open(&[library.path().to_owned()]).unwrap();
        for (above, name) in
            [composed, decomposed].iter().flat_map(|a| [composed, decomposed].map(|b| (a, b)))
        {
            let pinned = [format!("{name}.mp4"), format!("{above}/{name}.mp4")];
            for (title, file) in titles(&pinned).iter_mut().zip(&files) {
                let told = title.look(&folders, &mut (4 * MIB));
                assert!(told.starts_with("pinning "), "{told}");
                assert_eq!(title.files[0].path[..], *file.as_bytes());
            }
        }
        assert!(
            titles(&["Amelie.mp4".into()])[0].look(&folders, &mut (4 * MIB)).contains("no such")
        );
    }
}
