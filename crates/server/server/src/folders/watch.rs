//! A thread per library folder, which waits for that folder's disk so that no other thread has to.

use super::{Folder, Folders, LOOK_MAX, Trouble, lock};
use crate::file_abilities::Access;
use catalog::{NAMES_MAX, RECORD};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use telemetry::since_1970;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// A folder that was changed this recently may change again without a new timestamp: filesystems take the time from a clock that ticks every
/// 10 ms or, on some, every 2 s.
const TICK_SECONDS: i64 = 2;

/// Starts a thread per folder, and waits until each was looked at once, [`LOOK_MAX`] at most. Returns the results of checking access
/// to their files.
pub(super) fn start(folders: &Arc<Folders>) -> io::Result<Access> {
    let (first, looked_at) = channel();
    for index in 0..folders.folders.len() {
        let (folders, first) = (Arc::downgrade(folders), first.clone());
        let thread = std::thread::Builder::new().name(format!("folder-{index}"));
        thread.spawn(move || keep_looking(&folders, index, first))?;
    }
    drop(first);
    let deadline = Instant::now() + LOOK_MAX;
    let mut access: Vec<Option<Access>> = folders.folders.iter().map(|_| None).collect();
    while let Ok((index, found)) =
        looked_at.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        access[index] = Some(found);
    }
    // In the configured order, so that the report does not depend on which disk answers first.
    Ok(access.into_iter().flatten().fold(Access::default(), Access::or))
}

/// The thread's loop: it ends with the server.
fn keep_looking(folders: &Weak<Folders>, index: usize, first: Sender<(usize, Access)>) {
    let mut first = Some(first);
    let mut listed = Listed::default();
    while let Some(folders) = folders.upgrade() {
        let folder = &folders.folders[index];
        lock(&folder.state).looking_since = Some(Instant::now());
        let trouble = look(&folders, index, &mut listed);
        let is_tried = first.is_some() && folder.place.missing().is_none();
        let access = is_tried.then(|| Access::tried_on(folder.place.path()));
        let mut state = lock(&folder.state);
        (state.trouble, state.looking_since) = (trouble, None);
        drop(state);
        folder.tell();
        if folders.are_several() {
            folders.note_failing();
        }
        folders.free_replaced();
        if let Some(first) = first.take() {
            // The server may have stopped waiting for this.
            let _ = first.send((index, access.unwrap_or_default()));
        }
        drop(folders);
        std::thread::sleep(PAUSE);
    }
}

/// A modification and a change time: seconds and nanoseconds of each.
type Times = [i64; 4];

/// The edition of a title, if its record is good, and the times of that record.
type Edition = (Times, Option<String>);

/// The state of the folder when its names were last listed.
#[derive(Default)]
struct Listed {
    /// Its modification and change time; none if it must be listed again in any case.
    times: Option<Times>,
    names: usize,
    /// The editions of those of its titles that have copies, each with the times of its record.
    editions: HashMap<Arc<[u8]>, Edition>,
}

/// Looks for trouble with the folder, and lists its names if they may have changed.
fn look(folders: &Folders, index: usize, listed: &mut Listed) -> Option<Trouble> {
    let folder = &folders.folders[index];
    let trouble = folder.place.trouble().map(Trouble::loss);
    let Some(root) = folder.place.folder().filter(|_| folders.are_several()) else {
        return trouble;
    };
    let path = folder.place.path().display();
    let looked = list(folders, index, root, listed);
    if looked.is_ok() {
        compare_copies(folders, index, listed);
    }
    match looked {
        _ if trouble.is_some() => trouble,
        Ok(()) if listed.names == 0 && !is_mounted(folder) => Some(Trouble {
            said: format!(
                "the library {path} is empty, and no disk is mounted there: mount its disk, then restart the server"
            ),
            is_emptiness: true,
        }),
        Ok(()) if listed.names == NAMES_MAX => Some(Trouble::loss(format!(
            "the library {path} has more than {NAMES_MAX} names at its top, and the rest is not served: put them into folders"
        ))),
        Ok(()) => None,
        Err(error) => {
            listed.times = None;
            let said = format!(
                "the library {path} cannot be read: {error}; check its disk and its permissions"
            );
            Some(Trouble::loss(said))
        }
    }
}

fn list(
    folders: &Folders,
    index: usize,
    root: BorrowedFd<'_>,
    listed: &mut Listed,
) -> io::Result<()> {
    let root = File::from(root.try_clone_to_owned()?);
    let metadata = root.metadata()?;
    let index = u16::try_from(index).expect("the configuration is checked");
    if listed.times == Some(times(&metadata)) {
        let known = lock(&folders.holders).copies(index);
        let copies = copies(folders, index, &root, &known);
        folders.learn(|holders| holders.take_copies(index, copies));
        return catalog::still_lists(&root);
    }
    let mut names = catalog::names(&root)?;
    // A listing can miss a name while others are being renamed.
    let missing = lock(&folders.holders).missing(index, &names);
    names.extend(missing.into_iter().filter(|name| !catalog::is_gone(&root, name)));
    names.truncate(NAMES_MAX);
    listed.names = names.len();
    listed.times = is_settled(&metadata).then(|| times(&metadata));
    let copies = copies(folders, index, &root, &names);
    // At once: while a copy comes or goes, its title must not be reported as hidden.
    folders.learn(|holders| {
        holders.take_copies(index, copies);
        holders.take(index, names);
    });
    Ok(())
}

/// Which of `names` in the folder are copies.
fn copies(folders: &Folders, index: u16, root: &File, names: &[Arc<[u8]>]) -> Vec<Arc<[u8]>> {
    let known: HashSet<_> = lock(&folders.holders).copies(index).into_iter().collect();
    catalog::copies(root, names, |name| known.contains(name))
}

/// Checks which editions of the copied titles the folder has. Only changed records are read.
fn compare_copies(folders: &Folders, index: usize, listed: &mut Listed) {
    let path = folders.folders[index].place.path();
    let index = u16::try_from(index).expect("the configuration is checked");
    let mut known = std::mem::take(&mut listed.editions);
    let copied = lock(&folders.holders).copied(index);
    for name in copied {
        let before = known.remove(&name);
        if let Some(edition) = edition(&path.join(OsStr::from_bytes(&name)), before) {
            listed.editions.insert(name, edition);
        }
    }
    let editions = listed.editions.iter();
    let editions = editions
        .filter_map(|(name, (_, edition))| Some((Arc::clone(name), edition.clone()?)))
        .collect();
    folders.learn(|holders| holders.take_editions(index, editions));
}

/// The edition of `title` now, with the times of its record, if it has one. An error says nothing about the title, so the earlier result stays: the
/// copy of a title whose own disk dies is still served.
fn edition(title: &Path, before: Option<Edition>) -> Option<Edition> {
    let record = match fs::symlink_metadata(title.join(RECORD)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => return before,
        Ok(record) => record,
    };
    let times = times(&record);
    match before {
        Some((then, edition)) if then == times && is_settled(&record) => Some((then, edition)),
        before => match catalog::edition(title) {
            Ok(edition) => Some((times, edition)),
            Err(_) => before,
        },
    }
}

fn times(metadata: &Metadata) -> Times {
    [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()]
}

/// Whether any further change would show in the folder's times.
fn is_settled(metadata: &Metadata) -> bool {
    let since_1970 = since_1970();
    metadata.mtime().max(metadata.ctime()) < since_1970.as_secs() as i64 - TICK_SECONDS
}

/// Whether the folder is on a mounted disk, at its top or below: a mount point without its disk is on the filesystem of `/`.
fn is_mounted(folder: &Folder) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    device(folder.place.path()) != device(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    #[test]
    fn an_edition_is_forgotten_only_if_its_record_is_clearly_gone() {
        let folder = tempdir().unwrap();
        let title = folder.path().join("film");
        let known = || Some(([1; 4], Some("edition".to_owned())));
        assert_eq!(edition(&title, known()), None, "the title is gone");
        // A loop of links makes an error that says nothing about the title, as a dead disk does.
        symlink("film", &title).unwrap();
        assert_eq!(edition(&title, known()), known());
        fs::remove_file(&title).unwrap();
        fs::create_dir(&title).unwrap();
        fs::write(title.join(RECORD), "{}").unwrap();
        assert!(matches!(edition(&title, known()), Some((_, None))), "it is damaged");
    }
}
