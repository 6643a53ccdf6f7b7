//! The files of one title that viewers can request now.
//!
//! For a title made by ingest, these are the files of its current version, as listed in its record. For any other folder, they are all
//! files below it, except symbolic links and names that begin with a dot. At most [`FILES_MAX`] files are listed, in folders [`DEPTH_MAX`]
//! deep.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::name::TitlePath;
use crate::record::Record;
use crate::rule::{is_manifest, is_playable};
use crate::titles::DEPTH_MAX;

/// More files than a five-hour film has in ten sizes, cut into segments of four seconds.
const FILES_MAX: usize = 50_000;

/// The files of the title at `title` in the folder `library`, relative to `library`. All come from one record, so manifests and files are
/// of one version.
///
/// # Errors
/// [`ErrorKind::NotFound`] if nothing is there, [`ErrorKind::InvalidInput`] if it is not a title by the rule of
/// [`title_of`](crate::title_of), or the filesystem's error.
pub fn parts(library: &Path, title: &TitlePath) -> io::Result<Vec<PathBuf>> {
    let (place, below) = (title.folder(library), Path::new(title.as_str()));
    let kind = fs::symlink_metadata(&place)?.file_type();
    if kind.is_file() && is_playable(title.as_str().as_bytes()) {
        return Ok(vec![below.to_owned()]);
    }
    if !kind.is_dir() {
        return Err(no_title());
    }
    if let Ok(record) = Record::read(&place) {
        return Ok(record.files.iter().map(|file| below.join(&file.path)).collect());
    }
    let mut found = Vec::new();
    walk(library, below, DEPTH_MAX, &mut found)?;
    let of_title = |path: &PathBuf| path.parent() == Some(below);
    let has_manifest =
        found.iter().any(|path| of_title(path) && is_manifest(path.as_os_str().as_encoded_bytes()));
    found.sort();
    if has_manifest { Ok(found) } else { Err(no_title()) }
}

fn no_title() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidInput,
        "it is not a title: neither a film nor a folder with a manifest",
    )
}

/// Every file below `folder`, relative to `library`.
fn walk(
    library: &Path,
    folder: &Path,
    depth_left: usize,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for entry in fs::read_dir(library.join(folder))? {
        let (entry, name) = entry.map(|entry| (entry.file_type(), entry.file_name()))?;
        if name.as_encoded_bytes().starts_with(b".") || found.len() == FILES_MAX {
            continue;
        }
        match entry? {
            kind if kind.is_file() => found.push(folder.join(name)),
            kind if kind.is_dir() && depth_left > 0 => {
                walk(library, &folder.join(name), depth_left - 1, found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn parts_of(library: &Path, title: &str) -> Result<Vec<String>, ErrorKind> {
        let found = parts(library, &TitlePath::new(title).unwrap()).map_err(|why| why.kind())?;
        Ok(found.iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn a_title_is_a_film_or_a_folder_with_a_manifest() {
        let library = tempfile::tempdir().unwrap();
        let root = library.path();
        fs::create_dir_all(root.join("series/one/1080p")).unwrap();
        for file in ["film.mp4", "notes.txt", "series/one/master.m3u8", "series/one/1080p/1.ts"] {
            fs::write(root.join(file), file).unwrap();
        }
        fs::write(root.join("series/one/.hidden"), "").unwrap();
        symlink("/etc/passwd", root.join("series/one/link.ts")).unwrap();
        symlink("film.mp4", root.join("link.mp4")).unwrap();
        assert_eq!(parts_of(root, "film.mp4").unwrap(), ["film.mp4"]);
        let one = ["series/one/1080p/1.ts", "series/one/master.m3u8"];
        assert_eq!(parts_of(root, "series/one").unwrap(), one);
        assert_eq!(parts_of(root, "series/two"), Err(ErrorKind::NotFound));
        for name in ["series", "notes.txt", "link.mp4", "series/one/1080p"] {
            assert_eq!(parts_of(root, name), Err(ErrorKind::InvalidInput), "{name}");
        }
    }
}
