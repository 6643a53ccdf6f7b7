//! Continuing where an earlier attempt was interrupted.

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, plain};
use fullbore_ingest::ingest::{IngestError, Options, Progress, Stop};
use fullbore_ingest::{Ladder, Rung};

/// Interrupts an ingest at the start of its last part.
fn interrupted(library: &Library, source: &std::path::Path) {
    let stop = Stop::default();
    let error = library
        .ingest_with(source, "film", &options(), &stop, |progress| {
            if matches!(progress, Progress::Making { number, of, .. } if number == of) {
                stop.stop();
            }
        })
        .expect_err("it was stopped");
    assert!(matches!(error, IngestError::Interrupted), "{error}");
    assert_eq!(library.names(), [".ingest-film"]);
}

fn parts(
    library: &Library,
    source: &std::path::Path,
    options: &Options,
) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut making) = (Vec::new(), Vec::new());
    let made =
        library.ingest_with(source, "film", options, &Stop::default(), |progress| match progress {
            Progress::Kept { part } => kept.push(part),
            Progress::Making { part, .. } => making.push(part),
            _ => {}
        });
    let made = made.expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(library.names(), ["film"]);
    (kept, making)
}

#[test]
fn what_was_finished_is_not_encoded_again() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    interrupted(&library, &source);
    let (kept, making) = parts(&library, &source, &options());
    assert_eq!(kept, ["audio 1 (und)", "video 90"]);
    assert_eq!(making, ["video 180"]);
}

#[test]
fn what_was_finished_with_other_options_is_encoded_again() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    interrupted(&library, &source);
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 100 }]).expect("a ladder");
    let (kept, making) = parts(&library, &source, &Options { ladder, ..options() });
    assert_eq!(kept, ["audio 1 (und)"]);
    assert_eq!(making, ["video 90"]);
}

#[test]
fn what_was_finished_of_another_film_is_encoded_again() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    interrupted(&library, &source);
    let file = std::fs::File::options().append(true).open(&source).expect("a file");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    let (kept, making) = parts(&library, &source, &options());
    assert!(kept.is_empty(), "{kept:?}");
    assert_eq!(making.len(), 3);
}
