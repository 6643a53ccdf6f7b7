//! A library's folders on the command line: one, or one per disk.

use crate::tell;
use catalog::{
    FoldersError, Hidden, Holders, LibraryEntry, TitlePath, UnreadFolder, check_folders, is_held,
    list_held,
};
use fullbore_http::LibraryPath;
use serde_json::{Value, json};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The readable folders, and which of them holds each name.
pub(crate) struct Folders {
    paths: Vec<PathBuf>,
    holders: Holders,
    /// Folders that could not be read, whole or in part. Each has been reported.
    unread: Vec<UnreadFolder>,
}

impl Folders {
    /// Opens `paths`, and reports those that cannot be read.
    pub(crate) fn open(paths: Vec<PathBuf>) -> Result<Self, FoldersError> {
        check_folders(&paths)?;
        let (mut holders, mut unread) = (Holders::new(paths.len()), Vec::new());
        for (index, path) in (0..).zip(&paths) {
            let open = File::open(path);
            let names = |open: File| Ok((catalog::names(&open)?, open));
            match open.and_then(names) {
                Ok((names, open)) => {
                    // Copies are skipped if there are several folders: the command lists, checks or removes the original. A single folder is
                    // used with everything in it.
                    if paths.len() > 1 {
                        holders.take_copies(index, catalog::copies(&open, &names, |_| false));
                    }
                    holders.take(index, names);
                }
                Err(why) => tell_unread(&mut unread, UnreadFolder { folder: path.clone(), why }),
            }
        }
        Ok(Self { paths, holders, unread })
    }

    /// The titles that ingest made, sorted by path, each with its folder. Hidden titles are reported instead, and so are folders that cannot be
    /// read.
    pub(crate) fn entries(&mut self) -> Vec<(PathBuf, LibraryEntry)> {
        let folders = (0..).zip(self.paths.iter().map(PathBuf::as_path));
        let is_held = |folder, entry: &LibraryEntry| self.hold(folder, &entry.title);
        let (mut inside, mut whole) = (Vec::new(), Vec::new());
        let list = |library: &Path| {
            let listing = catalog::list(library)?;
            inside.extend(listing.unread);
            Ok(listing.entries)
        };
        let cannot_list =
            |folder: &Path, why| whole.push(UnreadFolder { folder: folder.into(), why });
        let mut entries = list_held(folders, list, is_held, cannot_list);
        // Opening has already reported unreadable folders; report only those whose disk has failed since.
        whole.retain(|new| self.unread.iter().all(|told| told.folder != new.folder));
        whole.into_iter().chain(inside).for_each(|new| tell_unread(&mut self.unread, new));
        entries.sort_by(|(_, a), (_, b)| a.title.cmp(&b.title));
        self.hidden().iter().for_each(|hidden| tell(&hidden.describe(&self.paths)));
        entries
    }

    /// Whether something could not be read, so that titles may be missing.
    pub(crate) fn lacks_some(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The folders that could not be read, as JSON.
    pub(crate) fn unread_json(&self) -> Vec<Value> {
        let unread = self.unread.iter().map(
            |one| json!({ "folder": one.folder.to_string_lossy(), "error": one.why.to_string() }),
        );
        unread.collect()
    }

    fn hold(&self, folder: u16, title: &TitlePath) -> bool {
        is_held(self.holders.by_name(), folder, Path::new(title.as_str()))
    }

    /// The folder that holds `title`, and the title as it is spelled there. If there is no such title: the first folder, and `title` as it is.
    pub(crate) fn locate(&self, title: &TitlePath) -> (&Path, TitlePath) {
        let held = |spelled: TitlePath| {
            let mut folders = (0..).zip(&self.paths);
            let (_, path) = folders.find(|(index, _)| self.hold(*index, &spelled))?;
            is_there(path, &spelled).then_some((path.as_path(), spelled))
        };
        let found = spellings(title).into_iter().find_map(held);
        found.unwrap_or_else(|| (&self.paths[0], title.clone()))
    }

    fn hidden(&self) -> Vec<Hidden> {
        self.holders.hidden()
    }

    /// The next folder that also has this title's name, and serves it after the title is removed.
    pub(crate) fn next_of(&self, title: &TitlePath) -> Option<&Path> {
        let is_title = |hidden: &Hidden| *hidden.name == *title.as_str().as_bytes();
        let hidden = self.hidden().into_iter().find(is_title)?;
        Some(&self.paths[usize::from(hidden.folder)])
    }

    /// The hidden names as JSON.
    pub(crate) fn hidden_json(&self) -> Vec<Value> {
        let path = |folder: u16| self.paths[usize::from(folder)].to_string_lossy();
        let hidden = self.hidden().into_iter().map(|hidden| {
            let name = String::from_utf8_lossy(&hidden.name);
            json!({ "name": name, "folder": path(hidden.folder), "holder": path(hidden.holder) })
        });
        hidden.collect()
    }

    /// The folders as arguments of a command.
    pub(crate) fn arguments(&self) -> String {
        let arguments = self.paths.iter().map(|path| format!("--library {}", path.display()));
        arguments.collect::<Vec<_>>().join(" ")
    }
}

/// `title` as it is spelled in the folder `library`; as it is, if there is no such title.
pub(crate) fn spelled_in(library: &Path, title: &TitlePath) -> TitlePath {
    let found = spellings(title).into_iter().find(|spelled| is_there(library, spelled));
    found.unwrap_or_else(|| title.clone())
}

/// The names that a title may have on disk: as it is written, then in the order in which the server looks for it. An operator who removes one of
/// two titles whose names differ only in Unicode's forms means the one that was typed.
fn spellings(title: &TitlePath) -> Vec<TitlePath> {
    let mut all = vec![title.clone()];
    if let Some(path) = LibraryPath::as_written(title.as_str().as_bytes()) {
        let others = [path.as_bytes().to_vec()].into_iter().chain(path.other_spellings());
        let others =
            others.filter_map(|name| TitlePath::new(std::str::from_utf8(&name).ok()?).ok());
        all.extend(others);
    }
    all
}

/// Also if that cannot be determined: the command that needs the title then says why.
fn is_there(library: &Path, title: &TitlePath) -> bool {
    let looked = title.folder(library).symlink_metadata();
    looked.map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true)
}

fn tell_unread(told: &mut Vec<UnreadFolder>, new: UnreadFolder) {
    tell(&format!("{new}; titles in it are left out"));
    told.push(new);
}
