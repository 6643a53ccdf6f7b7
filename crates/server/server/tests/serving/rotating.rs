//! Files on a disk that rotates are read in whole buffers, however little the viewer takes at once, and every byte is right.

use crate::support::content::Content;
use crate::support::served::Served;
use crate::support::viewer::{Protocol, Viewer};
use config::{Disk, Route, Switch};
use fullbore_tests::FailingDisk;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FILM_BYTES: u64 = (10 << 20) + 321;

/// A whole buffer of a file with the default `net.window_bytes_max`.
const WHOLE_BYTES: u64 = 512 << 10;

/// The kernel's setting that a disk rotates, which root can change.
struct Rotational {
    file: PathBuf,
    before: String,
}

impl Rotational {
    /// Makes the disk below `at` rotate; none if that cannot be done here.
    fn set(at: &Path) -> Option<Self> {
        let device = fs::metadata(at).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let file = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/queue/rotational"));
        let before = fs::read_to_string(&file).ok()?;
        fs::write(&file, "1").ok()?;
        Some(Self { file, before })
    }
}

impl Drop for Rotational {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, &self.before);
    }
}

struct Library {
    folder: TempDir,
    film: Content,
    // In this order: the setting belongs to the disk.
    _rotational: Rotational,
    _disk: FailingDisk,
}

impl Library {
    /// A film on a disk of its own that rotates; reports what is missing if this machine cannot have one.
    fn new() -> Option<Self> {
        let (folder, film) = (tempfile::tempdir().unwrap(), Content::new(3, FILM_BYTES));
        let at = folder.path().join("disk");
        fs::create_dir(&at).unwrap();
        let made = FailingDisk::mount(&at).and_then(|disk| {
            let rotational = Rotational::set(&at).ok_or("its queue/rotational cannot be set")?;
            Ok((disk, rotational))
        });
        match made {
            Ok((disk, rotational)) => {
                film.write(&at.join("film.mp4")).unwrap();
                File::open(at.join("film.mp4")).unwrap().sync_all().unwrap();
                Some(Self { folder, film, _rotational: rotational, _disk: disk })
            }
            Err(why) => {
                fullbore_tests::tool::skip(&format!("no disk that rotates: {why}"));
                None
            }
        }
    }

    fn serve(&self, protocol: Protocol, off: &[Switch]) -> Served {
        Served::start(self.folder.path(), protocol, |config| {
            config.disk = Disk::Direct;
            config.route = Route::Userspace;
            config.off = off.to_vec();
            config.workers = 1;
            // However busy the machine is, TCP takes little at once, so that windows stay small.
            config.net.unsent_bytes_max = Some(16 << 10);
            // Most of them have to be free.
            config.limits.buffer_bytes_max = 32 << 20;
            // However busy the machine is, the viewer counts as one who keeps reading.
            config.timeouts.hold_seconds = 60.0;
        })
    }

    /// A viewer whose connection never takes much at once gets the film. Returns how often the disk was read.
    fn reads_for_a_narrow_viewer(&self, served: &Served) -> u64 {
        let mut viewer: Viewer = served.narrow_viewer(8 << 10);
        let response = viewer.ask("/disk/film.mp4");
        assert_eq!((response.status, response.body.len() as u64), (200, FILM_BYTES));
        self.film.assert_holds(0, &response.body, "film.mp4");
        served.await_news();
        served.number(|n| &n.disk_reads_total)
    }
}

#[test]
fn a_disk_that_rotates_is_read_in_whole_buffers() {
    let Some(library) = Library::new() else { return };
    for protocol in [Protocol::Plain, Protocol::Tls13] {
        let served = library.serve(protocol, &[]);
        let lines = served.describe();
        assert!(lines.contains("rotating  ") && lines.contains("/disk ("), "{lines}");
        assert!(lines.contains("read in whole buffers"), "{lines}");
        let reads = library.reads_for_a_narrow_viewer(&served);
        let whole = FILM_BYTES.div_ceil(WHOLE_BYTES);
        assert!(reads <= whole + 1, "{protocol:?}: {reads} reads of {whole} buffers");
        served.stop();
        served.await_buffers_back();
    }
}

#[test]
fn as_other_disks_it_is_read_by_windows() {
    let Some(library) = Library::new() else { return };
    let served = library.serve(Protocol::Tls13, &[Switch::Rotating]);
    assert!(served.describe().contains("read like all others"), "{}", served.describe());
    let reads = library.reads_for_a_narrow_viewer(&served);
    let whole = FILM_BYTES.div_ceil(WHOLE_BYTES);
    assert!(reads > 2 * whole, "{reads} reads: this shows nothing about whole buffers");
    served.stop();
}
