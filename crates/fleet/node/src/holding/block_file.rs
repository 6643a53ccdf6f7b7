//! Reads and writes files block by block, bypassing the page cache: copying and checking must not evict what viewers use.
//!
//! Direct I/O (`O_DIRECT`) requires memory, offsets and lengths in multiples of [`ALIGN`]. On filesystems without it, plain reads and
//! writes are used, and the kernel is asked to drop the pages (`POSIX_FADV_DONTNEED`).

use std::cell::Cell;
use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use catalog::BLOCK_BYTES;
use rustix::fs::{Advice, Mode, OFlags, ResolveFlags, fadvise, fcntl_getfl, fcntl_setfl, openat2};
use rustix::io::Errno;

/// No disk has larger sectors.
const ALIGN: usize = 4096;
const BLOCK: usize = BLOCK_BYTES as usize;
const _: () = assert!(BLOCK % ALIGN == 0);
/// Where the kernel has pages of this size, a disk writes a block from two segments of memory instead of a thousand
/// (docs/notes/buffers.md).
const LARGE_PAGE: usize = 2 << 20;
const _: () = assert!(BLOCK % LARGE_PAGE == 0 && LARGE_PAGE % ALIGN == 0);

/// Memory for one block, aligned for direct I/O and in large pages, unless the kernel refuses them.
pub(crate) struct BlockBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl BlockBuffer {
    /// Room for a block.
    pub(crate) fn new() -> Self {
        let bytes = vec![0; BLOCK + LARGE_PAGE];
        let start = bytes.as_ptr().addr().next_multiple_of(LARGE_PAGE) - bytes.as_ptr().addr();
        let block: *const [u8] = &raw const bytes[start..][..BLOCK];
        // SAFETY: the memory is ours, and this advice leaves its bytes as they are.
        unsafe { libc::madvise(block.cast_mut().cast(), BLOCK, libc::MADV_HUGEPAGE) };
        Self { bytes, start }
    }

    /// The first `count` bytes.
    pub(crate) fn first(&self, count: usize) -> &[u8] {
        &self.bytes[self.start..][..count]
    }

    /// The first `count` bytes, to be filled.
    pub(crate) fn first_mut(&mut self, count: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..count]
    }
}

/// Number of block buffers used in turn. The first write to memory that a disk has just read can take four times as long as the next one,
/// whichever thread writes: on a virtual machine this happened in half of the runs with one block, sometimes with two, and never with four
/// (docs/notes/fill.md).
const BLOCKS: usize = 4;

/// Memory for several blocks, used in turn.
pub(crate) struct BlockBuffers {
    all: [BlockBuffer; BLOCKS],
    last: usize,
}

impl BlockBuffers {
    /// Room for four blocks.
    pub(crate) fn new() -> Self {
        Self { all: std::array::from_fn(|_| BlockBuffer::new()), last: 0 }
    }

    /// The least recently used one.
    pub(crate) fn next(&mut self) -> &mut BlockBuffer {
        self.last = (self.last + 1) % BLOCKS;
        &mut self.all[self.last]
    }
}

/// An open file.
pub(crate) struct BlockFile {
    file: File,
    is_direct: Cell<bool>,
}

impl BlockFile {
    /// Opens the file at `path` below `folder` for reading. Links are not followed, and opening a pipe does not block.
    pub(crate) fn open(folder: impl AsFd, path: &str) -> io::Result<Self> {
        Self::open_as(folder, path, OFlags::RDONLY)
    }

    /// Like [`Self::open`], for reading and writing; creates the file if it does not exist.
    pub(crate) fn open_to_write(folder: impl AsFd, path: &str) -> io::Result<Self> {
        Self::open_as(folder, path, OFlags::RDWR | OFlags::CREATE)
    }

    fn open_as(folder: impl AsFd, path: &str, access: OFlags) -> io::Result<Self> {
        let open = |more| {
            let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
            let mode = if access.contains(OFlags::CREATE) { 0o644 } else { 0 };
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            openat2(&folder, path, flags, Mode::from_raw_mode(mode), resolve)
        };
        // For writing, wait while the server holds a lease on the file: it gives that up within a second or two. For reading, do not block:
        // opening a pipe would.
        let patience =
            if access.contains(OFlags::RDWR) { OFlags::empty() } else { OFlags::NONBLOCK };
        let (fd, is_direct) = match open(patience | OFlags::DIRECT) {
            Err(Errno::INVAL) => (open(patience)?, false),
            opened => (opened?, true),
        };
        let file = File::from(fd);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Self { file, is_direct: Cell::new(is_direct) })
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads the block that begins at `offset`, and returns its length: less than a block if the file ends in it.
    pub(crate) fn read(&self, offset: u64, into: &mut BlockBuffer) -> io::Result<usize> {
        match self.read_once(offset, into) {
            Err(error) if self.gives_up_direct(&error)? => self.read_once(offset, into),
            read => read,
        }
    }

    fn read_once(&self, offset: u64, into: &mut BlockBuffer) -> io::Result<usize> {
        let mut filled = 0;
        // After a short read at the end of a file, the next direct read would begin at an unaligned offset.
        while filled < BLOCK && (filled % ALIGN == 0 || !self.is_direct.get()) {
            let room = &mut into.first_mut(BLOCK)[filled..];
            match self.file.read_at(room, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.forget(offset, filled);
        Ok(filled)
    }

    /// Writes the first `count` bytes of `from` as the block that begins at `offset`. A partial block is the last one, and is padded with
    /// zeros until [`Self::finish`] cuts the file to its length.
    pub(crate) fn write(
        &self,
        offset: u64,
        from: &mut BlockBuffer,
        count: usize,
    ) -> io::Result<()> {
        let padded = count.next_multiple_of(ALIGN);
        from.first_mut(padded)[count..].fill(0);
        match self.file.write_all_at(from.first(padded), offset) {
            Err(error) if self.gives_up_direct(&error)? => {
                self.file.write_all_at(from.first(padded), offset)
            }
            written => written,
        }
    }

    /// Cuts or extends the file to `bytes`, sets its date, and syncs it.
    pub(crate) fn finish(&self, bytes: u64, date: SystemTime) -> io::Result<()> {
        if self.file.metadata()?.len() != bytes {
            self.file.set_len(bytes)?;
        }
        // Before syncing: otherwise a power failure could lose the date.
        self.file.set_times(FileTimes::new().set_modified(date))?;
        self.file.sync_all()?;
        self.forget(0, usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn forget(&self, offset: u64, count: usize) {
        if !self.is_direct.get() {
            let count = std::num::NonZeroU64::new(count as u64);
            // Only a hint.
            let _ = fadvise(&self.file, offset, count, Advice::DontNeed);
        }
    }

    /// Some filesystems accept `O_DIRECT` at open and refuse the first read.
    fn gives_up_direct(&self, error: &io::Error) -> io::Result<bool> {
        let refused = error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
        if !refused || !self.is_direct.replace(false) {
            return Ok(false);
        }
        fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::DIRECT)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_in_blocks_is_read_in_blocks_whatever_the_length() {
        let folder = tempfile::tempdir().unwrap();
        let place = File::open(folder.path()).unwrap();
        for bytes in [0, 1, ALIGN, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 4097] {
            let content: Vec<u8> = (0..bytes).map(|at| (at / 100 % 251) as u8).collect();
            let mut buffer = BlockBuffer::new();
            let file = BlockFile::open_to_write(&place, "film").unwrap();
            for (index, block) in content.chunks(BLOCK).enumerate() {
                buffer.first_mut(block.len()).copy_from_slice(block);
                file.write((index * BLOCK) as u64, &mut buffer, block.len()).unwrap();
            }
            file.finish(bytes as u64, SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(std::fs::read(folder.path().join("film")).unwrap(), content, "{bytes}");
            let file = BlockFile::open(&place, "film").unwrap();
            let mut read = Vec::new();
            while read.len() < bytes {
                let count = file.read(read.len() as u64, &mut buffer).unwrap();
                read.extend_from_slice(buffer.first(count));
            }
            assert_eq!(read, content, "{bytes}");
            assert_eq!(file.read(bytes.next_multiple_of(BLOCK) as u64, &mut buffer).unwrap(), 0);
        }
    }

    #[test]
    fn no_link_leads_out_of_the_folder_and_no_pipe_is_waited_for() {
        use rustix::fs::{CWD, FileType, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let place = File::open(folder.path()).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in ["link", "../x", "/etc/passwd", "pipe", "."] {
            assert!(BlockFile::open(&place, path).is_err(), "{path}");
        }
    }
}
