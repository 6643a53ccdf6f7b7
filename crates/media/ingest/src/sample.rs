//! A sample library, made once with ffmpeg: a test picture with a running timecode, a beep each second and captions, ingested in three
//! sizes like any other film.
//!
//! The process that makes the sample holds a lock, so if two servers start together, the second one waits. Files of an interrupted attempt
//! are hidden, and the next attempt overwrites them.
//!
//! Read first: [`ensure`]. `recipe.rs` describes the film.

mod recipe;

pub use recipe::Recipe;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use catalog::TitleName;
use rustix::fs::{FlockOperation, flock};

use crate::ingest::{self, Attempt, Bounds, IngestError, Run, RunLimits, Stop};

/// The name of the title's folder in the sample library.
pub const TITLE: &str = "sample";
/// Where the film is until it is ingested.
const WORK: &str = ".sample";
const FILM: &str = "sample.mkv";
/// A minute of it takes some 100 MB.
const FILM_BYTES_MAX: u64 = 10_000_000_000;
const LOCK: &str = ".sample.lock";

/// The progress of making the sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Another process is making it; we wait.
    Waiting,
    /// Making it has begun.
    Started,
    /// Its film is being ingested.
    Ingest(ingest::Progress),
}

/// Why the sample could not be made. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a sample film: {0}; or give a folder with videos: fullbore serve DIR")]
pub struct SampleError(#[source] IngestError);

/// Makes sure that the library folder `library` contains the sample title; returns the title's folder.
///
/// Creates the folders it needs. Returns at once if the title exists; otherwise it takes some 20 s on two cores (it waits if another
/// process is making the sample). Reports to `progress`.
///
/// # Errors
/// [`SampleError`]: ffmpeg is missing or fails, or a folder cannot be written. An unfinished sample is never visible.
pub fn ensure(library: &Path, progress: impl FnMut(Progress)) -> Result<PathBuf, SampleError> {
    ensure_recipe(library, &Recipe::default(), progress)
}

/// Like [`ensure`], with another recipe. An existing title is kept, whatever recipe made it.
///
/// # Errors
/// As for [`ensure`].
pub fn ensure_recipe(
    library: &Path,
    recipe: &Recipe,
    progress: impl FnMut(Progress),
) -> Result<PathBuf, SampleError> {
    let name = TitleName::new(TITLE).expect("the sample's name is a title's");
    ensure_title(library, &name, recipe, progress)
}

/// Like [`ensure_recipe`], with another name for the title.
///
/// # Errors
/// As for [`ensure`].
pub fn ensure_title(
    library: &Path,
    name: &TitleName,
    recipe: &Recipe,
    mut progress: impl FnMut(Progress),
) -> Result<PathBuf, SampleError> {
    let title = library.join(name.as_str());
    if !title.is_dir() {
        make_alone(library, name, recipe, &mut progress).map_err(SampleError)?;
    }
    Ok(title)
}

/// Shows progress on standard error.
pub fn on_terminal() -> impl FnMut(Progress) {
    let mut ingesting = ingest::on_terminal(TITLE, true);
    move |progress| match progress {
        Progress::Waiting => tell("waiting for another process that is making the sample film"),
        Progress::Started => tell("making a sample film, once"),
        Progress::Ingest(progress) => ingesting(progress),
    }
}

fn tell(what: &str) {
    use std::io::Write;
    // If the terminal was closed, only the progress is lost.
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn make_alone(
    library: &Path,
    name: &TitleName,
    recipe: &Recipe,
    progress: &mut impl FnMut(Progress),
) -> Result<(), IngestError> {
    fs::create_dir_all(library).attempt("make the folder", library)?;
    let _lock = lock(library, progress)?;
    if library.join(name.as_str()).is_dir() {
        return Ok(()); // made while we waited
    }
    progress(Progress::Started);
    let work = library.join(WORK);
    fs::create_dir_all(&work).attempt("make the folder", &work)?;
    let made = make(library, &work, name, recipe, progress);
    // Best effort: the folder is hidden, and the next attempt overwrites it.
    let _ = fs::remove_dir_all(&work);
    made
}

fn make(
    library: &Path,
    work: &Path,
    name: &TitleName,
    recipe: &Recipe,
    progress: &mut impl FnMut(Progress),
) -> Result<(), IngestError> {
    // It stops only when the whole process ends, which also ends ffmpeg.
    let stop = Stop::default();
    let captions = work.join(recipe::CAPTIONS);
    fs::write(&captions, recipe.captions()).attempt("write", &captions)?;
    let mut arguments = recipe.ffmpeg_arguments();
    arguments.push(FILM.into());
    let captions = File::open(&captions).attempt("open", &captions)?;
    let bounds = Bounds::default();
    let limits = RunLimits { stop: &stop, bounds: &bounds, output: (work, FILM_BYTES_MAX) };
    let film = Some(&captions);
    Run { making: "a sample film", film, folder: work, arguments: &arguments }
        .run(&limits, |_| {})?;
    let told = |heard| progress(Progress::Ingest(heard));
    ingest::ingest(&work.join(FILM), library, name, &recipe.options(), &stop, told).map(drop)
}

/// The lock is held until the file is dropped; the kernel drops it for a process that dies.
fn lock(library: &Path, progress: &mut impl FnMut(Progress)) -> Result<File, IngestError> {
    let path = library.join(LOCK);
    let file = File::create(&path).attempt("make the lock file", &path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress(Progress::Waiting);
        flock(&file, FlockOperation::LockExclusive).map_err(Into::into).attempt("lock", &path)?;
    }
    Ok(file)
}
