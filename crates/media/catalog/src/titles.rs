//! Finds the titles in a library folder, by the rule of [`title_of`](crate::title_of).
//!
//! The walk goes from the top down and enters no title, so it finds the outermost folder with a manifest. If a folder has several
//! playlists, one must have the usual name, because a player has to know which one to open. The walk skips names that begin with a dot or
//! contain a control character (these cannot be requested), symbolic links, and folders that cannot be read (the root must be readable).
//!
//! Bounded: at most [`TITLES_MAX`] titles, [`DEPTH_MAX`] folders deep, [`ENTRIES_MAX`] folder entries examined.

use std::fs::DirEntry;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::encode_path;
use crate::folders::has_control;
use crate::rule::{has_extension, is_playable};

/// The most titles to list. Their list is about 5 MB of JSON, which a phone's browser reads in a fraction of a second.
pub const TITLES_MAX: usize = 10_000;
/// How deep below the root the walk goes: deeper than people nest films by hand.
pub(crate) const DEPTH_MAX: usize = 8;
/// The most folder entries to examine, so that even `/` as a library takes only a few seconds. A title of ingest has about ten.
const ENTRIES_MAX: usize = 400_000;

/// The packaging of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An HLS playlist (RFC 8216).
    Hls,
    /// A DASH manifest (ISO/IEC 23009-1).
    Dash,
    /// A file that is played directly.
    File,
}

/// One way to play a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleStream {
    /// Its packaging.
    pub form: Form,
    /// Its path: relative to the library, percent-encoded, without a leading slash.
    pub url_path: String,
}

/// Something that a viewer can play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// Its path below the library, for display only (bytes that are not UTF-8 are replaced). A title that is the library folder itself has
    /// that folder's name.
    pub name: String,
    /// The ways to play it, at least one: HLS before DASH.
    pub streams: Vec<TitleStream>,
    /// Its folder or file, relative to the library; empty for the library itself.
    pub location: PathBuf,
}

/// The titles in the folder `root`, sorted by name; see the module for what counts as one.
///
/// # Errors
/// If `root` itself cannot be listed. Folders below it that cannot be read are left out.
pub fn titles(root: &Path) -> io::Result<Vec<Title>> {
    let mut walk = Walk { root, titles: Vec::new(), entries_left: ENTRIES_MAX };
    let mut folders = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        match walk.list(&folder) {
            Ok(listing) => folders.extend(walk.take(&folder, listing, depth)),
            Err(error) if depth == 0 => return Err(error),
            Err(_) => {}
        }
    }
    walk.titles.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(walk.titles)
}

/// The contents of one folder, without links and names that cannot be requested.
#[derive(Default)]
struct Listing {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

struct Walk<'a> {
    root: &'a Path,
    titles: Vec<Title>,
    entries_left: usize,
}

impl Walk<'_> {
    fn list(&mut self, folder: &Path) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in std::fs::read_dir(folder)?.take(self.entries_left) {
            self.entries_left -= 1;
            listing.add(&entry?)?;
        }
        Ok(listing)
    }

    /// Takes the titles out of one folder's listing; returns the folders to look into next, with their depth.
    fn take(&mut self, folder: &Path, listing: Listing, depth: usize) -> Vec<(PathBuf, usize)> {
        let streams = self.manifests(&listing.files);
        if !streams.is_empty() {
            let name = self.name(folder);
            let location = self.below_root(folder).to_owned();
            self.add(Title { name, streams, location });
            return Vec::new();
        }
        for file in listing.files.iter().filter(|file| is_playable(bytes(file))) {
            let streams = vec![self.stream(Form::File, file)];
            let location = self.below_root(file).to_owned();
            self.add(Title { name: self.name(file), streams, location });
        }
        if depth == DEPTH_MAX {
            return Vec::new();
        }
        listing.folders.into_iter().map(|folder| (folder, depth + 1)).collect()
    }

    fn manifests(&self, files: &[PathBuf]) -> Vec<TitleStream> {
        let hls = manifest(files, "master.m3u8", "m3u8").map(|file| self.stream(Form::Hls, file));
        let dash = manifest(files, "manifest.mpd", "mpd").map(|file| self.stream(Form::Dash, file));
        hls.into_iter().chain(dash).collect()
    }

    fn stream(&self, form: Form, file: &Path) -> TitleStream {
        TitleStream { form, url_path: encode_path(self.below_root(file)) }
    }

    fn name(&self, path: &Path) -> String {
        let below = self.below_root(path);
        let shown = if below.as_os_str().is_empty() {
            path.file_name().unwrap_or_default().as_ref()
        } else {
            below
        };
        shown.display().to_string()
    }

    fn below_root<'p>(&self, path: &'p Path) -> &'p Path {
        // Every path here was made by listing folders from the root down, so it begins with it.
        path.strip_prefix(self.root).unwrap_or(path)
    }

    fn add(&mut self, title: Title) {
        if self.titles.len() < TITLES_MAX {
            self.titles.push(title);
        }
    }
}

impl Listing {
    fn add(&mut self, entry: &DirEntry) -> io::Result<()> {
        // The entry's own type: a symbolic link is neither file nor folder here.
        let file_type = entry.file_type()?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") || has_control(name.as_bytes()) {
            return Ok(());
        }
        if file_type.is_file() {
            self.files.push(entry.path());
        } else if file_type.is_dir() {
            self.folders.push(entry.path());
        }
        Ok(())
    }
}

/// The manifest among `files`: the one with the usual name, or else the only one with the extension.
fn manifest<'a>(files: &'a [PathBuf], usual_name: &str, extension: &str) -> Option<&'a Path> {
    let usual = files.iter().find(|file| file.file_name().is_some_and(|name| name == usual_name));
    if let Some(file) = usual {
        return Some(file);
    }
    let mut all = files.iter().filter(|file| has_extension(bytes(file), &[extension]));
    match (all.next(), all.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
