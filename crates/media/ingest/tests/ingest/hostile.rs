//! Sources and subtitles that try to read, reach or use forbidden things. Each of these once succeeded.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make, plain};
use fullbore_ingest::ingest::{Bound, Bounds, IngestError, Ingested, Options, SideSubtitles};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use tempfile::TempDir;

/// A named pipe that reports whether a program opened it for reading. The reader is released at once, so that nothing hangs.
struct Trap<'p>(&'p Path);

impl<'p> Trap<'p> {
    fn set(path: &'p Path) -> Self {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
        Self(path)
    }

    /// Runs `act`, and returns its result and whether the trap was triggered meanwhile.
    fn during<R: Send>(&self, act: impl FnOnce() -> R + Send) -> (R, bool) {
        thread::scope(|scope| {
            let acting = scope.spawn(act);
            let mut is_sprung = false;
            while !acting.is_finished() {
                // It opens for writing only while there is a reader (fifo(7)), and closing it ends the reading.
                is_sprung |= open(self.0, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).is_ok();
                thread::sleep(Duration::from_millis(2));
            }
            (acting.join().expect("it does not panic"), is_sprung)
        })
    }
}

fn with_subtitles(path: &Path) -> Options {
    let side =
        SideSubtitles { language: "en".into(), path: path.to_owned(), ..SideSubtitles::default() };
    Options { copy: true, subtitles: vec![side], ..options() }
}

/// Asserts a refusal with one line, and nothing left behind.
fn refused(library: &Library, ended: Result<Ingested, IngestError>) -> String {
    let line = ended.expect_err("it is refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(library.names().is_empty(), "{:?}: {line}", library.names());
    line
}

#[test]
fn subtitles_that_name_another_file_publish_nothing_of_it() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let secret = "1\n00:00:01,000 --> 00:00:02,000\nTOP SECRET\n";
    fs::write(folder.path().join("secret.srt"), secret).expect("a file");
    let side = folder.path().join("side.srt");
    let hls = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\nsecret.srt\n#EXT-X-ENDLIST\n";
    for list in ["ffconcat version 1.0\nfile secret.srt\n", hls] {
        fs::write(&side, list).expect("a file");
        let library = Library::new();
        let said = refused(&library, library.ingest(&source, "leak", &with_subtitles(&side)));
        assert!(said.contains("no subtitles in"), "{said}");
    }
}

#[test]
fn a_list_is_refused_before_anything_that_it_names_is_opened() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let named = folder.path().join("named.ts");
    let trap = Trap::set(&named);
    let hls = |uri: &str| {
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\n{uri}\n#EXT-X-ENDLIST\n")
    };
    let dash = "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"urn:mpeg:dash:profile:isoff-on-demand:2011\" type=\"static\" mediaPresentationDuration=\"PT6S\"><Period>\
        <AdaptationSet><Representation id=\"1\" bandwidth=\"1\"><BaseURL>named.ts</BaseURL></Representation></AdaptationSet>\
        </Period></MPD>";
    for (file, text) in [
        ("a.mp4", hls("named.ts")),
        ("b.mp4", hls(&format!("file://{}", named.display()))),
        ("c.mkv", "ffconcat version 1.0\nfile named.ts\n".into()),
        ("d.mp4", dash.into()),
    ] {
        let list = folder.path().join(file);
        fs::write(&list, text).expect("a file");
        let library = Library::new();
        let (ended, is_sprung) = trap.during(|| library.ingest(&list, "list", &options()));
        let said = refused(&library, ended);
        assert!(!is_sprung, "{file}: what it names was opened: {said}");
        assert!(said.contains("it only refers to other files"), "{file}: {said}");
        let (ended, is_sprung) =
            trap.during(|| library.ingest(&source, "list", &with_subtitles(&list)));
        assert!(!is_sprung, "{file} as subtitles: {}", refused(&library, ended));
    }
}

#[test]
fn the_name_of_a_source_stands_for_no_other_files() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pattern = folder.path().join("img%d.png");
    make("-f lavfi -i color=size=64x64 -frames:v 1 -update 1 -c:v png -f image2", &pattern);
    let first = folder.path().join("img1.png");
    // If ffmpeg took the name for a pattern, the picture has the name that it expanded to; either way there has to be a file of this exact
    // name.
    if first.exists() {
        fs::rename(&first, &pattern).expect("renamed");
    }
    let trap = Trap::set(&first);
    let library = Library::new();
    let (ended, is_sprung) = trap.during(|| library.ingest(&pattern, "pattern", &options()));
    assert!(!is_sprung, "another file was opened: {ended:?}");
    let said = refused(&library, ended);
    assert!(said.contains("ingest does not support its format (png_pipe"), "{said}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let fifo = folder.path().join("fifo");
    let trap = Trap::set(&fifo);
    let library = Library::new();
    let as_source = || library.ingest(&fifo, "fifo", &options());
    let as_subtitles = || library.ingest(&source, "fifo", &with_subtitles(&fifo));
    for ended in [trap.during(as_source), trap.during(as_subtitles)] {
        let (ended, is_sprung) = ended;
        let said = refused(&library, ended);
        assert!(!is_sprung && said.contains("is a named pipe (FIFO), not a file"), "{said}");
    }
}

#[test]
fn nobody_is_connected_to() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let url = format!("http://{}/a.ts", listener.local_addr().expect("an address"));
    let library = Library::new();
    for text in [
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\n{url}\n#EXT-X-ENDLIST\n"),
        format!("ffconcat version 1.0\nfile {url}\n"),
    ] {
        let source = folder.path().join("film.mp4");
        fs::write(&source, text).expect("a file");
        refused(&library, library.ingest(&source, "film", &options()));
    }
    refused(&library, library.ingest(Path::new(&url), "film", &options()));
    let error = listener.accept().expect_err("no connection came");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// 1.5 kB with ten pictures, and after a day another one. At a constant rate these are three million.
fn long_bomb() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("bomb.mkv");
    make(
        "-f lavfi -i color=size=160x90:rate=30 -vf setpts=if(lt(N\\,10)\\,N\\,3000000+N)/30/TB -frames:v 12 \
         -fps_mode vfr -c:v libx264 -preset ultrafast",
        &source,
    );
    assert!(fs::metadata(&source).expect("a file").len() < 4000);
    (folder, source)
}

/// Asserts that ingest gave up and named the limit and its value, and that nothing is left.
fn passed(source: &Path, bounds: Bounds, expected: Bound) -> String {
    let library = Library::new();
    let ended = library.ingest(source, "bomb", &Options { bounds, ..options() });
    let bound = match &ended {
        Err(IngestError::Passed { bound, .. }) => Some(*bound),
        _ => None,
    };
    assert_eq!(bound, Some(expected), "{ended:?}");
    refused(&library, ended)
}

#[test]
fn a_source_that_grows_without_end_is_given_up() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = long_bomb();
    let bounds = Bounds { output_bytes_max: Some(100_000), ..Bounds::default() };
    let said = passed(&source, bounds, Bound::OutputBytes(100_000));
    assert!(said.contains("1 MB of disk") && said.contains("--output-mb-max"), "{said}");
}

#[test]
fn a_source_that_takes_for_ever_is_given_up() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = long_bomb();
    let bounds = Bounds { run_seconds_max: 1, ..Bounds::default() };
    let said = passed(&source, bounds, Bound::RunSeconds(1));
    assert!(said.contains("more than 1 s") && said.contains("--run-seconds-max"), "{said}");
}

#[test]
fn a_source_that_wants_too_much_memory_is_given_up() {
    if !ffmpeg_is_here() {
        return;
    }
    // 0.6 MB with pictures of 192 MB each.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("large.mkv");
    make("-f lavfi -i color=size=8000x8000:rate=5 -frames:v 3 -c:v png -pix_fmt rgb24", &source);
    let bounds = Bounds { memory_bytes_max: 250_000_000, ..Bounds::default() };
    let said = passed(&source, bounds, Bound::MemoryBytes(250_000_000));
    assert!(said.contains("250 MB of memory") && said.contains("--memory-mb-max"), "{said}");
}

#[test]
fn what_a_bound_ends_leaves_no_finished_part_either() {
    if !ffmpeg_is_here() {
        return;
    }
    // Its sound is done in a moment, its picture never.
    let (folder, bomb) = long_bomb();
    let source = folder.path().join("both.mkv");
    make(&format!("-i {} -f lavfi -i sine=duration=1 -c:v copy -c:a aac", bomb.display()), &source);
    let bounds = Bounds { output_bytes_max: Some(100_000), ..Bounds::default() };
    passed(&source, bounds, Bound::OutputBytes(100_000));
}
