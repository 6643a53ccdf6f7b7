//! The parts of a fill, each alone: opening records, SHA-256, writing to disk.

use super::parts::{Rate, Stage, WINDOW_BYTES, sealed_bytes, thread_time};
use catalog::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};
use tls::{Content, Opened, Opener, Suite};

/// Number of blocks. Together they take 64 MiB, more than most caches hold.
const UNCACHED_BLOCKS: usize = 16;

/// After this many bytes, writing starts over at the beginning of the file.
const WRITTEN_BYTES_MAX: u64 = 64 * BLOCK_BYTES;

impl Stage {
    /// Opens a window's records again and again. Encrypting the next ones is not counted.
    pub(super) fn open(&self) -> io::Result<Rate> {
        let (mut sealer, mut opener) = self.ends(Suite::Aes128Gcm)?;
        let plaintext = vec![7; WINDOW_BYTES];
        let mut sealed = vec![0; sealed_bytes(&sealer)];
        let (timer, mut spent, mut bytes) = (self.timer(), Spent::default(), 0);
        while !timer.is_over() {
            let count = sealer.seal(&plaintext, &mut sealed).map_err(io::Error::other)?;
            let records = &mut sealed[..count];
            bytes += spent.count(|| open_all(&mut opener, records))?;
        }
        Ok(spent.rate(bytes))
    }

    /// Hashes blocks that together are larger than the caches: a fill sees each block once.
    pub(super) fn sha256(&self) -> Rate {
        let blocks = vec![7; BLOCK_BYTES as usize * UNCACHED_BLOCKS];
        let timer = self.timer();
        let mut bytes = 0;
        for block in blocks.chunks_exact(BLOCK_BYTES as usize).cycle() {
            if timer.is_over() {
                break;
            }
            std::hint::black_box(catalog::sha256::of_bytes(block));
            bytes += block.len();
        }
        timer.rate(bytes)
    }

    /// Writes the blocks to one file, and starts over at its beginning from time to time.
    pub(super) fn write_direct(&self) -> io::Result<Rate> {
        let block = BLOCK_BYTES as usize;
        let bytes = vec![7; block + disk::DIRECT_ALIGNMENT];
        let start = bytes.as_ptr().addr().next_multiple_of(disk::DIRECT_ALIGNMENT);
        let block = &bytes[start - bytes.as_ptr().addr()..][..block];
        let path = self.scratch.join("written");
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).custom_flags(direct);
        let file = file.open(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{error} (O_DIRECT): choose another --scratch"))
        })?;
        let timer = self.timer();
        let (mut offset, mut bytes) = (0, 0);
        while !timer.is_over() {
            if offset == WRITTEN_BYTES_MAX {
                file.set_len(0)?;
                offset = 0;
            }
            file.write_all_at(block, offset)?;
            offset += BLOCK_BYTES;
            bytes += block.len();
        }
        let rate = timer.rate(bytes);
        drop(file);
        std::fs::remove_file(path)?;
        Ok(rate)
    }
}

/// Opens all records of `sealed` without looking at them, so that the opener is ready for the record after them.
pub(super) fn skip_records(opener: &mut Opener, mut sealed: &mut [u8]) -> io::Result<()> {
    while !sealed.is_empty() {
        let opened = opener.open(sealed).map_err(io::Error::other)?;
        let Opened::Record { consumed_bytes, .. } = opened else {
            return Err(io::Error::other(format!("it opened {opened:?}")));
        };
        sealed = &mut sealed[consumed_bytes..];
    }
    Ok(())
}

/// Opens all records of `sealed` and returns how many bytes of data they contained.
fn open_all(opener: &mut Opener, mut sealed: &mut [u8]) -> io::Result<usize> {
    let mut bytes = 0;
    while !sealed.is_empty() {
        let opened = opener.open(sealed).map_err(io::Error::other)?;
        let Opened::Record { consumed_bytes, content: Content::Data(data) } = opened else {
            return Err(io::Error::other(format!("it opened {opened:?}")));
        };
        bytes += data.len();
        sealed = &mut sealed[consumed_bytes..];
    }
    Ok(bytes)
}

/// CPU and wall time of stretches of work, without the uncounted work between them.
#[derive(Default)]
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    fn count<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (began, began_cpu) = (Instant::now(), thread_time());
        let done = work();
        self.wall += began.elapsed();
        self.cpu += thread_time().saturating_sub(began_cpu);
        done
    }

    fn rate(&self, bytes: usize) -> Rate {
        Rate::of(bytes, self.wall, self.cpu)
    }
}
