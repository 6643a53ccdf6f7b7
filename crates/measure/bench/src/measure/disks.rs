//! Measures how fast the library's disks can be read past the page cache: windows of the server's size, several at a time.

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, pread};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A window of the server (`net.window_bytes_max`).
const WINDOW_BYTES: usize = 512 << 10;

/// Alignment of addresses and offsets that devices require.
const ALIGNMENT: usize = 4096;

/// Reads in flight for each disk.
const READS_IN_FLIGHT: usize = 16;

/// Limit on entries to look at, and on files to read.
const ENTRIES_MAX: usize = 10_000;
const FILES_MAX: usize = 64;

/// The largest files of a folder of the library.
pub(crate) struct DiskFiles {
    folder: PathBuf,
    device: u64,
    /// The files, with the number of windows in each.
    files: Vec<(File, u64)>,
}

impl DiskFiles {
    /// Finds them.
    ///
    /// # Errors
    /// If there is no file of a window or more, or none can be opened past the page cache.
    pub(crate) fn find(folder: &Path) -> io::Result<Self> {
        let device = folder.metadata()?.dev();
        let mut found = largest(folder, device);
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(FILES_MAX);
        if found.is_empty() {
            return Err(io::Error::other("no file of 512 KiB or more to read"));
        }
        let open = |(bytes, path): (u64, PathBuf)| {
            let flags = OFlags::RDONLY
                | OFlags::DIRECT
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK;
            let file =
                rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| match error {
                    Errno::INVAL => {
                        io::Error::other("its filesystem has no way past the page cache")
                    }
                    error => error.into(),
                })?;
            Ok((File::from(file), bytes / WINDOW_BYTES as u64))
        };
        let files = found.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Self { folder: folder.to_owned(), device, files })
    }

    pub(crate) fn name(&self) -> String {
        self.folder.display().to_string()
    }

    fn windows(&self) -> u64 {
        self.files.iter().map(|(_, windows)| windows).sum()
    }

    /// The file and offset of a window; after the last one, it starts over.
    fn window(&self, index: u64) -> (&File, u64) {
        let mut left = index % self.windows();
        for (file, windows) in &self.files {
            if left < *windows {
                return (file, left * WINDOW_BYTES as u64);
            }
            left -= windows;
        }
        unreachable!("it is less than the sum of all")
    }
}

/// Keeps one folder per disk.
pub(crate) fn one_for_each_device(disks: &mut Vec<DiskFiles>) {
    let mut seen = Vec::new();
    disks.retain(|disk| {
        let is_new = !seen.contains(&disk.device);
        seen.push(disk.device);
        is_new
    });
}

/// Files of a window or more on this device, with their sizes.
fn largest(folder: &Path, device: u64) -> Vec<(u64, PathBuf)> {
    let (mut found, mut folders, mut entries_left) =
        (Vec::new(), vec![folder.to_owned()], ENTRIES_MAX);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entries_left == 0 {
                return found;
            }
            entries_left -= 1;
            // Metadata of the entry itself: links are not followed.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() && metadata.len() >= WINDOW_BYTES as u64 {
                found.push((metadata.len(), entry.path()));
            }
        }
    }
    found
}

/// Gb/s of all `disks` together, over `seconds`, or longer if a read of each thread takes longer.
///
/// # Errors
/// The first read that fails.
///
/// # Panics
/// If a thread panics.
pub(crate) fn read(disks: &[&DiskFiles], seconds: f64) -> io::Result<f64> {
    let (began, length) = (Instant::now(), Duration::from_secs_f64(seconds));
    let has_failed = AtomicBool::new(false);
    let cursors: Vec<_> = disks.iter().map(|_| AtomicU64::new(0)).collect();
    let reader = |disk: &DiskFiles, cursor: &AtomicU64| {
        let mut room = vec![0; WINDOW_BYTES + ALIGNMENT];
        let start = room.as_ptr().align_offset(ALIGNMENT);
        let window = &mut room[start..start + WINDOW_BYTES];
        let mut bytes = 0;
        // At least one, so that there is a figure even if the threads start late.
        loop {
            let (file, offset) = disk.window(cursor.fetch_add(1, Ordering::Relaxed));
            match pread(file, &mut *window, offset) {
                // The file has become shorter meanwhile.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => bytes += read,
                Err(error) => {
                    has_failed.store(true, Ordering::Relaxed);
                    return Err(error.into());
                }
            }
            if began.elapsed() >= length || has_failed.load(Ordering::Relaxed) {
                return Ok(bytes);
            }
        }
    };
    let bytes = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (disk, cursor) in disks.iter().zip(&cursors) {
            let reader = &reader;
            threads.extend((0..READS_IN_FLIGHT).map(|_| scope.spawn(move || reader(disk, cursor))));
        }
        let read = threads.into_iter().map(|thread| thread.join().expect("a read does not panic"));
        read.sum::<io::Result<usize>>()
    })?;
    Ok(bytes as f64 * 8e-9 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(files: &[(&str, usize)]) -> tempfile::TempDir {
        // Next to the program, not in the system's temporary folder: that may be in memory, which cannot be read past the page cache.
        let program = std::env::current_exe().unwrap();
        let library = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        for (name, bytes) in files {
            let path = library.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![7; *bytes]).unwrap();
        }
        library
    }

    #[test]
    fn windows_go_through_all_files_and_begin_again() {
        let library =
            library(&[("a/large", 5 * WINDOW_BYTES / 2), ("b", WINDOW_BYTES), ("small", 100)]);
        let disk = DiskFiles::find(library.path()).unwrap();
        assert_eq!(disk.windows(), 3);
        let offsets: Vec<_> = (0..4).map(|index| disk.window(index).1).collect();
        assert_eq!(offsets, [0, WINDOW_BYTES as u64, 0, 0]);
        assert!(read(&[&disk, &disk], 0.05).unwrap() > 0.0);
        let mut both = vec![DiskFiles::find(library.path()).unwrap(), disk];
        one_for_each_device(&mut both);
        assert_eq!(both.len(), 1, "the same disk");
    }

    #[test]
    fn a_library_without_films_is_said_to_have_none() {
        let library = library(&[("small", 100)]);
        let error = DiskFiles::find(library.path()).err().unwrap().to_string();
        assert!(error.contains("no file of 512 KiB"), "{error}");
    }
}
