//! Chooses the folder of the library that a title goes into, if the library has several.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use catalog::{TitleName, Workshop};

use super::{Attempt, IngestError};

/// Picks one of `folders` for the title `title`: the one where it is already, finished or begun; else `into`; else the one with the most
/// free space.
///
/// # Errors
/// [`IngestError::Elsewhere`] if the title is in another folder than `into`. [`IngestError::Io`] if one of several folders cannot be
/// read, because the title may be there.
pub fn folder_for(
    title: &TitleName,
    folders: &[PathBuf],
    into: Option<&Path>,
) -> Result<PathBuf, IngestError> {
    if let [only] = folders {
        return Ok(only.clone());
    }
    // A copy on a faster disk is not the title's place, and another title must not take its name there.
    let mut free = Vec::new();
    for folder in folders {
        let name = title.in_folder(folder).attempt("look for the title in", folder)?;
        let own = name.as_ref().unwrap_or(title).as_str();
        if !catalog::is_copy(folder, own).attempt("look for the title in", folder)? {
            free.push((folder, name));
        }
    }
    match holder(title, &free)? {
        Some((folder, name)) if into.is_some_and(|into| into != folder) => {
            Err(IngestError::Elsewhere(folder.join(name.as_str())))
        }
        Some((folder, _)) => Ok(folder.clone()),
        // If there is a copy, ingest refuses.
        None => into.map_or_else(|| most_free(&free), |into| Ok(into.to_owned())),
    }
}

/// A folder of the library, and the name that the title has there.
type Place<'f> = (&'f PathBuf, Option<TitleName>);

/// The first folder that has the title, or else the work folder of an attempt at it, and the title's name there. As for the server, the composed name
/// comes before others.
fn holder<'p>(
    title: &TitleName,
    places: &'p [Place<'_>],
) -> Result<Option<(&'p PathBuf, TitleName)>, IngestError> {
    let composed = title.composed();
    let named = places.iter().filter_map(|(folder, name)| Some((*folder, name.clone()?)));
    if let Some(found) = named.min_by_key(|(_, name)| *name != composed) {
        return Ok(Some(found));
    }
    for (folder, _) in places {
        let path = folder.join(Workshop::folder_name(&composed));
        if is_there(&path).attempt("look for the title at", &path)? {
            return Ok(Some((folder, composed)));
        }
    }
    Ok(None)
}

fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

fn most_free(places: &[Place<'_>]) -> Result<PathBuf, IngestError> {
    let mut best: Option<(u64, &PathBuf)> = None;
    for (folder, _) in places {
        let disk = rustix::fs::statvfs(*folder).map_err(io::Error::from);
        let disk = disk.attempt("look at the disk of", folder)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        if best.is_none_or(|(most, _)| free_bytes > most) {
            best = Some((free_bytes, folder));
        }
    }
    // The command line wants at least one folder.
    Ok(best.map(|(_, folder)| folder.clone()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn a_title_stays_where_it_is_and_an_attempt_where_it_began() {
        let root = tempdir().unwrap();
        let folders = ["d0", "d1", "d2"].map(|name| root.path().join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let place = |title: &str, into: Option<&PathBuf>| {
            let title = TitleName::new(title).unwrap();
            folder_for(&title, &folders, into.map(PathBuf::as_path))
        };
        fs::create_dir(folders[1].join("film")).unwrap();
        fs::create_dir(folders[2].join(".ingest-begun")).unwrap();
        assert_eq!(place("film", None).unwrap(), folders[1]);
        assert_eq!(place("film", Some(&folders[1])).unwrap(), folders[1]);
        assert_eq!(place("begun", None).unwrap(), folders[2]);
        assert_eq!(place("new", Some(&folders[2])).unwrap(), folders[2]);
        fs::create_dir(folders[0].join("film")).unwrap();
        fs::write(folders[0].join("film").join(catalog::MARK), "").unwrap();
        assert_eq!(place("film", None).unwrap(), folders[1], "the other one is a copy");
        fs::rename(folders[1].join("film"), folders[1].join(".film")).unwrap();
        assert_ne!(place("film", None).unwrap(), folders[0], "nothing goes into a copy");
        fs::rename(folders[1].join(".film"), folders[1].join("film")).unwrap();
        // All are on one disk, with as much space.
        assert!(folders.contains(&place("new", None).unwrap()));
        let refused = place("film", Some(&folders[0])).unwrap_err().to_string();
        assert!(refused.contains("d1/film") && refused.contains("--into"), "{refused}");
        // In either of Unicode's forms, the composed one first.
        let (composed, decomposed) = ("priv\u{e9}", "prive\u{301}");
        fs::create_dir(folders[2].join(decomposed)).unwrap();
        assert_eq!(place(composed, None).unwrap(), folders[2]);
        fs::create_dir(folders[1].join(composed)).unwrap();
        fs::create_dir(folders[0].join(decomposed)).unwrap();
        assert_eq!(place(decomposed, None).unwrap(), folders[1]);
        fs::remove_dir_all(&folders[0]).unwrap();
        let missing = place("film", None).unwrap_err().to_string();
        assert!(missing.contains("d0"), "{missing}");
    }

    #[test]
    fn a_single_folder_need_not_be_there() {
        let title = TitleName::new("film").unwrap();
        let folder = folder_for(&title, &["/not/there".into()], None).unwrap();
        assert_eq!(folder, Path::new("/not/there"));
    }
}
