//! A sample library, made once with ffmpeg: a test picture with a running timecode and a beep each second, in three sizes, as CMAF
//! with an HLS and a DASH manifest over the same files.
//!
//! A title appears whole or not at all: it is made in a folder beside its place, whose name begins with a dot, and renamed when
//! ffmpeg and we are done. Whoever makes one holds a lock, so that two servers started together do not fight; what an interrupted
//! attempt left is removed by the next.
//!
//! Read first: [`ensure`]. `recipe.rs` is what the film is, `ffmpeg.rs` runs the encoder, `manifest.rs` mends its DASH manifest.

mod error;
mod ffmpeg;
mod manifest;
mod progress;
mod recipe;

pub use error::SampleError;
pub use progress::{Progress, on_terminal};
pub use recipe::{Recipe, Rung};

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use error::Attempt;
use rustix::fs::{FlockOperation, flock};

/// The name of the title's folder in the sample library.
pub const TITLE: &str = "sample";
const PARTIAL: &str = ".sample.partial-";
const LOCK: &str = ".sample.lock";

/// Makes sure that the library folder `library` holds the sample title; returns the title's folder.
///
/// Makes the folders it needs. Takes no time if the title is there, some 20 s on two cores if not (waiting, if another process is
/// making it); `progress` hears about it.
///
/// # Errors
/// [`SampleError`]: no ffmpeg, an ffmpeg that fails, or a folder that cannot be written. Nothing half made is left in sight.
pub fn ensure(library: &Path, progress: impl FnMut(Progress)) -> Result<PathBuf, SampleError> {
    ensure_recipe(library, &Recipe::default(), progress)
}

/// As [`ensure`], with a film of one's own size. A title that is there is kept, whatever recipe it was made by.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_recipe(
    library: &Path,
    recipe: &Recipe,
    mut progress: impl FnMut(Progress),
) -> Result<PathBuf, SampleError> {
    let title = library.join(TITLE);
    if title.is_dir() {
        return Ok(title);
    }
    fs::create_dir_all(library).attempt("make the folder", library)?;
    let _lock = lock(library, &mut progress)?;
    if title.is_dir() {
        return Ok(title); // made while we waited
    }
    remove_leftovers(library)?;
    let partial = library.join(format!("{PARTIAL}{}", std::process::id()));
    fs::create_dir(&partial).attempt("make the folder", &partial)?;
    let made = make(&partial, recipe, &mut progress)
        .and_then(|()| fs::rename(&partial, &title).attempt("put in place", &title));
    if made.is_err() {
        // Best effort: the next attempt removes it as well.
        let _ = fs::remove_dir_all(&partial);
    }
    made.map(|()| title)
}

fn make(
    folder: &Path,
    recipe: &Recipe,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SampleError> {
    progress(Progress::Started);
    ffmpeg::encode(folder, recipe, |done| progress(Progress::Encoded(done)))?;
    manifest::mend(folder)?;
    progress(Progress::Finished);
    Ok(())
}

/// The lock is held until the file is dropped; the kernel drops it for a process that dies.
fn lock(library: &Path, progress: &mut impl FnMut(Progress)) -> Result<File, SampleError> {
    let path = library.join(LOCK);
    let file = File::create(&path).attempt("make the lock file", &path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress(Progress::Waiting);
        flock(&file, FlockOperation::LockExclusive).map_err(Into::into).attempt("lock", &path)?;
    }
    Ok(file)
}

/// Only called under the lock: nobody waits for what is in these folders, though an encoder whose parent was killed may still write.
fn remove_leftovers(library: &Path) -> Result<(), SampleError> {
    for entry in fs::read_dir(library).attempt("list", library)? {
        let entry = entry.attempt("list", library)?;
        if entry.file_name().as_encoded_bytes().starts_with(PARTIAL.as_bytes()) {
            fs::remove_dir_all(entry.path()).attempt("remove", &entry.path())?;
        }
    }
    Ok(())
}
