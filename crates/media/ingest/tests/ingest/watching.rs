//! A folder that is watched: its films become titles once they are complete, and failures are listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use fullbore_ingest::ingest::{IngestError, Options, Outcome, Progress, Stop, ingest};
use fullbore_ingest::watch::{FilmResult, WatchError, WatchEvent, WatchedFolder, results, watch};
use tempfile::TempDir;

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make, plain};

/// Longer than anything here takes. A watch encodes at the lowest priority, so other tests on the same cores can hold it up for minutes.
const LONG: Duration = Duration::from_secs(900);

/// A watched folder and its library.
struct Place {
    incoming: TempDir,
    library: Library,
    options: Options,
}

impl Place {
    fn new() -> Self {
        let incoming = tempfile::tempdir().expect("a temporary folder");
        Self { incoming, library: Library::new(), options: options() }
    }

    /// One whose watch doesn't encode pictures, which takes long next to other tests.
    fn copying() -> Self {
        Self { options: Options { copy: true, ..options() }, ..Self::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.incoming.path().join(name)
    }

    /// Puts a file there at once, so that it counts as complete even if this process is held up.
    fn put(&self, name: &str, write: impl FnOnce(&Path)) {
        let unfinished = self.path(".unfinished");
        write(&unfinished);
        fs::rename(&unfinished, self.path(name)).expect("renamed");
    }

    fn put_film(&self, name: &str, film: &Path) {
        self.put(name, |path| {
            fs::copy(film, path).expect("a copy");
        });
    }

    fn put_words(&self, name: &str, words: &str) {
        self.put(name, |path| fs::write(path, words).expect("a file"));
    }

    fn watch(&self) -> WatchedFolder {
        WatchedFolder {
            folder: self.incoming.path().to_owned(),
            library: vec![self.library.path().to_owned()],
            into: None,
            options: self.options.clone(),
            settle: Duration::from_millis(300),
            at_once: 2,
        }
    }

    /// Watches while `work` runs, which gets what happens.
    fn watched(&self, work: impl FnOnce(&Receiver<WatchEvent>)) {
        let (stop, (events, happened)) = (Stop::default(), mpsc::channel());
        let events = Mutex::new(events);
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let report = |event| drop(events.lock().expect("no panic").send(event));
                watch(&self.watch(), &stop, &report, &|_| |_| {})
            });
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&happened)));
            stop.stop();
            watching.join().expect("no panic").expect("it watched");
            worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    fn results(&self) -> Vec<FilmResult> {
        results(self.library.path())
            .expect("results")
            .into_iter()
            .flat_map(|(_, films)| films)
            .collect()
    }
}

fn made(happened: &Receiver<WatchEvent>) -> (String, Outcome) {
    match happened.recv_timeout(LONG).expect("something happens") {
        WatchEvent::Made { file, ingested } => {
            judge(&ingested.folder, &ingested.record);
            (file, ingested.outcome)
        }
        other => panic!("{other:?}"),
    }
}

/// The notes on the title that was made.
fn notes(happened: &Receiver<WatchEvent>) -> Vec<String> {
    match happened.recv_timeout(LONG).expect("something happens") {
        WatchEvent::Made { ingested, .. } => {
            judge(&ingested.folder, &ingested.record);
            ingested.notes
        }
        other => panic!("{other:?}"),
    }
}

fn failed(happened: &Receiver<WatchEvent>) -> (String, String, bool) {
    match happened.recv_timeout(LONG).expect("something happens") {
        WatchEvent::Failed { file, reason, again } => (file, reason, again.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn films_become_titles_once_and_failures_are_listed() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::new();
    let (_folder, film) = plain();
    place.watched(|happened| {
        fs::create_dir(place.path("series")).expect("a folder");
        place.put_film("series/one.mp4", &film);
        assert_eq!(made(happened), ("series/one.mp4".to_owned(), Outcome::Made));
        place.put_words("note.mkv", "This is no film.");
        let (file, reason, again) = failed(happened);
        assert_eq!((file.as_str(), again), ("note.mkv", false));
        assert!(reason.contains("not a video"), "{reason}");
        // Another film of the same name must not replace the title.
        place.put_film("one.mp4", &film);
        let (file, reason, again) = failed(happened);
        assert_eq!((file.as_str(), again), ("one.mp4", true));
        assert!(reason.contains("series/one.mp4 would become the same title"), "{reason}");
        fs::rename(place.path("one.mp4"), place.path("two.mp4")).expect("renamed");
        assert_eq!(made(happened), ("two.mp4".to_owned(), Outcome::Made));
        // Corrected, a film that failed becomes a title.
        place.put_film("note.mkv", &film);
        assert_eq!(made(happened), ("note.mkv".to_owned(), Outcome::Made));
    });
    let reasons: Vec<_> = place.results().into_iter().filter_map(|one| one.reason).collect();
    assert!(reasons.is_empty(), "one.mp4 is gone, and note.mkv is a title: {reasons:?}");
    // A title that was removed stays removed, because its film has not changed; a new film shows that the watch has looked.
    fs::remove_dir_all(place.library.title("one")).expect("removed");
    place.watched(|happened| {
        place.put_film("zebra.mp4", &film);
        assert_eq!(made(happened).0, "zebra.mp4");
    });
    assert!(!place.library.title("one").exists());
}

#[test]
fn names_in_either_form_of_unicode_are_the_same() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::new();
    let (_folder, film) = plain();
    let (composed, decomposed) = ("Am\u{e9}lie", "Ame\u{301}lie");
    place.put_words(&format!("{composed}.de.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHallo\n");
    place.put_film(&format!("{decomposed}.mkv"), &film);
    place.watched(|happened| {
        assert_eq!(made(happened).0, format!("{decomposed}.mkv"));
        assert_eq!(place.library.entry(composed).record.expect("a record").subtitles.len(), 1);
        place.put_film(&format!("{composed}.mkv"), &film);
        let (file, reason, again) = failed(happened);
        assert_eq!((file, again), (format!("{composed}.mkv"), true));
        assert!(reason.contains("would become the same title"), "{reason}");
    });
}

#[test]
fn subtitles_next_to_a_film_belong_to_its_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::new();
    let (_folder, film) = plain();
    place.put_words("film.de.srt", "1\n00:00:01,000 --> 00:00:02,000\nHallo\n");
    place.put_film("film.mp4", &film);
    place.watched(|happened| {
        assert_eq!(made(happened).0, "film.mp4");
        let record = place.library.entry("film").record.expect("a record");
        let languages: Vec<_> =
            record.subtitles.iter().map(|one| one.language.as_deref()).collect();
        assert_eq!(languages, [Some("de")]);
        place.put_words("film.fr.srt", "1\n00:00:01,000 --> 00:00:02,000\nSalut\n");
        assert_eq!(made(happened), ("film.mp4".to_owned(), Outcome::Replaced));
    });
}

/// A file of subtitles in Windows-1252 used to keep the film from becoming a title, until the file changed.
#[test]
fn subtitles_that_cannot_be_used_are_named_and_the_film_becomes_a_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::copying();
    let (_folder, film) = plain();
    let words = |text: &str| format!("1\n00:00:01,000 --> 00:00:02,000\n{text}\n");
    let western: Vec<_> = words("M\u{fc}ller").chars().map(|letter| letter as u32 as u8).collect();
    place.put("film.de.srt", |path| fs::write(path, &western).expect("a file"));
    place.put_words("film.fr.srt", "");
    place.put("film.it.srt", |path| {
        fs::File::create(path).and_then(|file| file.set_len(33 << 20)).expect("a file");
    });
    place.put_words("film.en.srt", &words("Hello"));
    place.put_words("film.en.extra.srt", &words("Hello"));
    place.put_words("film.idx", "# VobSub index file, v7");
    place.put_film("film.mp4", &film);
    place.watched(|happened| {
        let notes = notes(happened);
        let named = [
            "film.de.srt (Invalid UTF-8 in line 3",
            "film.fr.srt (no subtitles in it",
            "film.it.srt (it is too long",
        ];
        let ignored = ["film.en.extra.srt (its name", "film.idx (not SubRip"];
        for (note, expected) in notes.iter().zip(named.iter().chain(&ignored)) {
            assert!(note.starts_with("left out: ") && note.contains(expected), "{notes:?}");
        }
        assert_eq!(notes.len(), 5, "{notes:?}");
        let languages = || {
            let record = place.library.entry("film").record.expect("a record");
            record.subtitles.into_iter().map(|one| one.language).collect::<Vec<_>>()
        };
        assert_eq!(languages(), [Some("en".to_owned())]);
        // Converted, it becomes part of the title.
        place.put_words("film.de.srt", &words("M\u{fc}ller"));
        assert_eq!(made(happened).1, Outcome::Replaced);
        assert_eq!(languages(), [Some("de".to_owned()), Some("en".to_owned())]);
    });
}

#[test]
fn names_of_subtitle_files_say_what_they_are_for() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::copying();
    let (_folder, film) = plain();
    for name in ["film.en.forced.srt", "film.en.sdh.srt", "film.pt-BR.srt", "film.zh-Hant.srt"] {
        place.put_words(name, "1\n00:00:01,000 --> 00:00:02,000\nHello\n");
    }
    place.put_film("film.mp4", &film);
    place.watched(|happened| assert!(notes(happened).is_empty()));
    let record = place.library.entry("film").record.expect("a record");
    let names: Vec<_> = record.subtitles.iter().map(|one| one.name.as_str()).collect();
    let expected = ["English (forced)", "English (SDH)", "Portuguese (pt-BR)", "Chinese (zh-Hant)"];
    assert_eq!(names, expected);
    let purposes: Vec<_> =
        record.subtitles.iter().map(|one| (one.is_forced, one.roles.len())).collect();
    assert_eq!(purposes, [(true, 1), (false, 1), (false, 0), (false, 0)]);
}

#[test]
fn a_watch_that_is_stopped_while_it_encodes_continues_later() {
    if !ffmpeg_is_here() {
        return;
    }
    let place = Place::new();
    make(
        "-f lavfi -i testsrc2=size=320x180:rate=15:duration=60 -c:v libx264 -preset ultrafast",
        &place.path("long.mkv"),
    );
    let stop = Stop::default();
    let first_part = |_: &catalog::TitleName| {
        let stop = stop.clone();
        move |progress| {
            if matches!(progress, Progress::Making { number: 2, .. }) {
                stop.stop();
            }
        }
    };
    watch(&place.watch(), &stop, &|event| panic!("{event:?}"), &first_part).expect("it watched");
    assert!(place.results().is_empty());
    assert!(place.library.names().contains(&".ingest-long".to_owned()));
    let (stop, kept) = (Stop::default(), AtomicBool::new(false));
    let parts = |_: &catalog::TitleName| {
        |progress| {
            let is_kept = matches!(progress, Progress::Kept { .. });
            kept.fetch_or(is_kept, Ordering::Relaxed);
        }
    };
    let report = |event| {
        assert!(matches!(event, WatchEvent::Made { .. }), "{event:?}");
        stop.stop();
    };
    watch(&place.watch(), &stop, &report, &parts).expect("it watched");
    assert!(kept.into_inner(), "the first size was encoded again");
}

/// What the kernel says of the priorities of programs that work in a folder: their nice values, and those of their sessions, if it shares processors
/// between sessions.
fn priorities_in(folder: &Path) -> Vec<(i32, Option<String>)> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let works_there = |process: &Path| {
        fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(folder))
    };
    let of = |process: PathBuf| {
        let number = process.file_name()?.to_str()?.parse().ok()?;
        let nice = rustix::process::getpriority_process(rustix::process::Pid::from_raw(number));
        let session = fs::read_to_string(process.join("autogroup")).ok();
        // "/autogroup-123 nice 19"
        Some((nice.ok()?, session.map(|line| line.trim().split(' ').skip(1).collect())))
    };
    let paths = processes.map(|entry| entry.path());
    paths.filter(|path| works_there(path)).filter_map(of).collect()
}

/// Priorities of the first encoders that are seen in `folder`, after which `stop` ends the ingest.
struct Seen<'a> {
    folder: &'a Path,
    stop: &'a Stop,
    priorities: Mutex<Vec<(i32, Option<String>)>>,
}

impl<'a> Seen<'a> {
    fn new(folder: &'a Path, stop: &'a Stop) -> Self {
        Self { folder, stop, priorities: Mutex::default() }
    }

    fn look(&self, progress: &Progress) {
        let mut seen = self.priorities.lock().expect("no panic");
        if seen.is_empty() && matches!(progress, Progress::Encoded { .. }) {
            *seen = priorities_in(self.folder);
        }
        if !seen.is_empty() {
            self.stop.stop();
        }
    }

    /// All have this nice value, and so has their session, if the kernel shares processors between sessions.
    #[track_caller]
    fn assert_all_are(self, nice: i32) {
        let seen = self.priorities.into_inner().expect("no panic");
        assert!(!seen.is_empty(), "no encoder was seen");
        let is_shared_by_session = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
            .is_ok_and(|enabled| enabled.trim() == "1");
        let session = is_shared_by_session.then(|| format!("nice{nice}"));
        assert!(seen.iter().all(|one| *one == (nice, session.clone())), "{seen:?}");
    }
}

#[test]
fn a_watch_encodes_at_the_lowest_priority_of_all_sessions_and_nice_holds_for_an_ingest() {
    if !ffmpeg_is_here() {
        return;
    }
    let (place, stop) = (Place::new(), Stop::default());
    let film = place.path("long.mkv");
    make(
        "-f lavfi -i testsrc2=size=320x180:rate=15:duration=60 -c:v libx264 -preset ultrafast",
        &film,
    );
    let seen = Seen::new(place.library.path(), &stop);
    let parts = |_: &catalog::TitleName| |progress| seen.look(&progress);
    watch(&place.watch(), &stop, &|_| stop.stop(), &parts).expect("it watched");
    seen.assert_all_are(19);
    let (library, stop) = (Library::new(), Stop::default());
    let seen = Seen::new(library.path(), &stop);
    // A thread has a nice value of its own, which its programs inherit.
    let nice = || {
        let nice = rustix::process::nice(10).expect("it may be lowered");
        let (name, look) = (catalog::TitleName::new("long").expect("a name"), |p| seen.look(&p));
        (nice, ingest(&film, library.path(), &name, &options(), &stop, look))
    };
    let (nice, ended) = thread::scope(|scope| scope.spawn(nice).join().expect("no panic"));
    assert!(matches!(ended, Err(IngestError::Interrupted)), "{ended:?}");
    seen.assert_all_are(nice);
}

#[test]
fn a_folder_that_cannot_be_watched_is_refused() {
    let place = Place::new();
    let refused = |watched: WatchedFolder| {
        watch(&watched, &Stop::default(), &|_| {}, &|_| |_| {}).expect_err("it cannot be watched")
    };
    let missing = refused(WatchedFolder { folder: "/not/there".into(), ..place.watch() });
    assert!(matches!(missing, WatchError::Folder { .. }), "{missing}");
    let inside = place.library.title("in");
    fs::create_dir(&inside).expect("a folder");
    let inside = refused(WatchedFolder { folder: inside, ..place.watch() });
    assert!(matches!(inside, WatchError::Inside(_)), "{inside}");
    let around = WatchedFolder { library: vec![place.path("library")], ..place.watch() };
    assert!(matches!(refused(around), WatchError::Inside(_)));
}
