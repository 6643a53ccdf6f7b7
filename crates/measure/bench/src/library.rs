//! The library that servers are measured with: files in which every byte differs from its neighbours, kept in memory or on disk.

use load::interrupt::Interrupt;
use reactor::residency::cached_pages;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often cold files are evicted while they are served: less often than a read-ahead lasts, so that none is wasted, and often enough
/// that no byte is still cached when it is requested again.
const EVICTION_INTERVAL: Duration = Duration::from_millis(250);

/// Free bytes that a library must leave on its disk.
const HEADROOM_BYTES: u64 = 1 << 30;

/// A library below a root, created once per run.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) root: PathBuf,
    /// Files.
    pub(crate) files: usize,
    /// Bytes of each.
    pub(crate) file_bytes: u64,
    /// Bytes that evictions found in the page cache.
    left_bytes: AtomicU64,
}

/// The name of a file of the library.
pub(crate) fn file_name(file: usize) -> String {
    format!("title-{file}.mp4")
}

/// The byte at an offset of a file. It differs from its neighbours, so a shifted answer is a wrong one.
pub(crate) fn byte_at(file: usize, offset: u64) -> u8 {
    let word = (offset / 8).wrapping_add(file as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (offset % 8 * 8)) as u8
}

impl Library {
    /// Creates `files` files of `bytes` in total.
    ///
    /// # Errors
    /// If the disk is too full, the folder is not writable, or the user interrupts.
    pub(crate) fn make(
        root: &Path,
        files: usize,
        bytes: u64,
        interrupt: &Interrupt,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        check_room(root, bytes)?;
        let library = Self::at(root, files, bytes / files as u64);
        for file in 0..files {
            library.write(file, interrupt)?;
        }
        // A file modified in the current second has no Last-Modified yet (RFC 9110 section 8.8.2.2), so heads would change their length
        // later.
        std::thread::sleep(Duration::from_millis(1100));
        Ok(library)
    }

    /// A library of `files` files that is, or will be, at `root`.
    pub(crate) fn at(root: &Path, files: usize, file_bytes: u64) -> Self {
        Self { root: root.to_owned(), files, file_bytes, left_bytes: AtomicU64::new(0) }
    }

    fn write(&self, file: usize, interrupt: &Interrupt) -> io::Result<()> {
        let mut out = File::create(self.path(file))?;
        let mut chunk = Vec::with_capacity(1 << 20);
        let mut offset = 0;
        while offset < self.file_bytes {
            interrupt.check()?;
            let end = self.file_bytes.min(offset + (1 << 20));
            chunk.clear();
            chunk.extend((offset..end).map(|offset| byte_at(file, offset)));
            out.write_all(&chunk)?;
            offset = end;
        }
        out.sync_all()
    }

    pub(crate) fn path(&self, file: usize) -> PathBuf {
        self.root.join(file_name(file))
    }

    /// Reads the first `hot` files into memory and evicts the others.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn prepare(&self, hot: usize) -> io::Result<()> {
        for file in 0..hot.min(self.files) {
            io::copy(&mut File::open(self.path(file))?, &mut io::sink())?;
        }
        self.evict(hot)
    }

    /// Evicts all but the first `hot` files.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub(crate) fn evict(&self, hot: usize) -> io::Result<()> {
        for file in hot..self.files {
            let file = File::open(self.path(file))?;
            // If the kernel does not count them, `left_bytes` notices.
            let pages = cached_pages(file.as_fd(), 0..self.file_bytes).unwrap_or(0);
            let bytes = pages * rustix::param::page_size() as u64;
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Evicts all but the first `hot` files. Returns how many bytes evictions found in the page cache since the library was created; `None`
    /// if the kernel does not count them, or all files are hot.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub(crate) fn left_bytes(&self, hot: usize) -> io::Result<Option<u64>> {
        if hot >= self.files || cached_pages(File::open(self.path(hot))?.as_fd(), 0..1).is_err() {
            return Ok(None);
        }
        self.evict(hot)?;
        Ok(Some(self.left_bytes.load(Ordering::Relaxed)))
    }
}

fn check_room(root: &Path, bytes: u64) -> io::Result<()> {
    let disk = rustix::fs::statvfs(root)?;
    let free_bytes = disk.f_bavail * disk.f_frsize;
    if free_bytes >= bytes + HEADROOM_BYTES {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} has {} MiB free, too little for a library of {} MiB: choose a smaller one with --library, or another place with \
         --scratch",
        root.display(),
        free_bytes >> 20,
        bytes >> 20
    )))
}

/// Keeps files cold while they are served, as if memory were much smaller than the library: evicts them every quarter of a second. Ends
/// when dropped.
pub(crate) struct Eviction {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Eviction {
    /// Starts to evict all but the first `hot` files, if there are others.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn begin(library: &Arc<Library>, hot: usize) -> io::Result<Option<Self>> {
        if hot >= library.files {
            return Ok(None);
        }
        let (stop, library) = (Arc::new(AtomicBool::new(false)), Arc::clone(library));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("eviction".into()).spawn(move || {
            let mut due = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                if Instant::now() >= due {
                    due += EVICTION_INTERVAL;
                    // If a file cannot be opened, the servers cannot open it either and report it.
                    let _ = library.evict(hot);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        })?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for Eviction {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_the_bytes_that_are_expected_of_them() {
        let scratch = tempfile::tempdir().unwrap();
        let library =
            Library::make(&scratch.path().join("library"), 2, 5_000_000, &Interrupt::default())
                .unwrap();
        for file in 0..2 {
            let bytes = std::fs::read(library.path(file)).unwrap();
            assert_eq!(bytes.len(), 2_500_000);
            assert!(bytes.iter().zip(0..).all(|(byte, offset)| *byte == byte_at(file, offset)));
        }
        assert!((0..100).any(|offset| byte_at(0, offset) != byte_at(1, offset)));
        library.prepare(1).unwrap();
    }

    #[test]
    fn what_is_read_of_cold_files_is_found_when_they_are_evicted() {
        let scratch = tempfile::tempdir().unwrap();
        let library = Library::make(scratch.path(), 2, 2 << 20, &Interrupt::default()).unwrap();
        let Some(mut before) = library.left_bytes(1).unwrap() else { return };
        // Where memory is scarce, the kernel may evict pages by itself before they are counted, but not every time.
        let mut found = Vec::new();
        while found.len() < 20 && !found.contains(&(1 << 20)) {
            std::fs::read(library.path(1)).unwrap();
            let after = library.left_bytes(1).unwrap().unwrap();
            found.push(after - before);
            before = after;
        }
        assert_eq!(found.iter().max(), Some(&(1 << 20)), "{found:?}");
        assert_eq!(library.left_bytes(2).unwrap(), None, "all are hot");
    }

    #[test]
    fn a_disk_too_small_is_named_with_what_to_do() {
        let scratch = tempfile::tempdir().unwrap();
        let error = Library::make(scratch.path(), 1, 1 << 60, &Interrupt::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("--library") && error.contains("--scratch"), "{error}");
    }
}
