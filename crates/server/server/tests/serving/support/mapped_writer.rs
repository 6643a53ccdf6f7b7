//! A program that writes to a film through mapped memory, so that the file's times do not reveal it.

use super::content::Content;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A shared mapping of a file, whose pages are all dirty: until they are written out, stores into them change no time of the
/// file. (The kernel begins to write them out half a minute later.)
pub(crate) struct MappedWriter {
    base: *mut u8,
    bytes: usize,
}

impl MappedWriter {
    /// Maps the file at `path`. From now on the kernel grants no lease on it.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let bytes = file.metadata().unwrap().len() as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping touches no memory in use.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let mut writer = Self { base: base.cast(), bytes };
        for page in writer.memory().chunks_mut(4096) {
            page[0] = std::hint::black_box(page[0]);
        }
        writer
    }

    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this long and lives as long as `self`; nothing else in this process uses it, and the file is not
        // shortened.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.bytes) }
    }

    /// Gives the file other bytes of the same length.
    pub(crate) fn overwrite(&mut self, content: &Content) {
        assert_eq!(content.size as usize, self.bytes);
        let bytes = content.bytes(0..content.size);
        self.memory().copy_from_slice(&bytes);
    }
}

impl Drop for MappedWriter {
    fn drop(&mut self) {
        // SAFETY: no slice of it exists any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
