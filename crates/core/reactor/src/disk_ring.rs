//! A ring for reads of one disk, apart from a thread's reactor: it compares ways to learn that reads are done.
//!
//! A read is an ordinary one (`IORING_OP_READ_FIXED`) or a command that the NVMe driver passes to the disk unchanged (`IORING_OP_URING_CMD`). It is
//! completed by an interrupt, or by polling the disk's queue (`IORING_SETUP_IOPOLL`).
//!
//! It is for measuring (`bench disk`) and not for serving: waiting here stops the thread, and a command goes to blocks of the disk behind any
//! filesystem's back. It offers no command except reads.
//!
//! Invariant: the ring's memory is unmapped only after the kernel has completed each read into it.

use crate::mapping::Mapping;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Passes a command to an NVMe disk: `NVME_URING_CMD_IO` of linux/nvme_ioctl.h, `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const NVME_URING_CMD_IO: u32 = 0xc048_4e80;

/// Read (NVM Command Set Specification 1.0, section 3.2.4).
const NVME_READ: u8 = 0x02;

/// How a ring requests its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// From the file, opened with `O_DIRECT`.
    Read,
    /// From the disk itself, through its character device `/dev/ngXnY`.
    Nvme {
        /// The namespace's number.
        namespace: u32,
        /// Bytes of a logical block.
        block_bytes: u32,
    },
}

/// Settings of a ring.
#[derive(Clone, Copy, Debug)]
pub struct DiskRingOptions {
    /// How reads are requested.
    pub asked: Asked,
    /// Polls the disk's queue for completions, instead of interrupts. The disk must have queues for it.
    pub polled: bool,
    /// The most reads in flight.
    pub slots: u16,
    /// Bytes of each read: a multiple of the page size.
    pub read_bytes: u32,
}

/// The ring, and a slot of memory for each read in flight.
pub struct DiskRing {
    ring: IoUring<squeue::Entry128, cqueue::Entry32>,
    /// None once it had to be leaked, because the kernel may still write to it.
    memory: Option<Mapping>,
    file: OwnedFd,
    options: DiskRingOptions,
    is_registered: bool,
    /// The slots that the kernel has.
    in_kernel: Vec<bool>,
}

impl DiskRing {
    /// Makes a ring for reads of `file`, and registers its memory if the memlock limit allows.
    ///
    /// # Errors
    /// If the kernel has no such ring (Linux 6.1 does), or no memory; or if a command of that length cannot be sent to that disk.
    pub fn new(file: OwnedFd, options: DiskRingOptions) -> io::Result<Self> {
        if let Asked::Nvme { block_bytes, .. } = options.asked {
            check_command(options.read_bytes, block_bytes)?;
        }
        let mut builder = IoUring::<squeue::Entry128, cqueue::Entry32>::builder();
        // Like the reactor's ring, which processes completions when the thread asks.
        builder.setup_single_issuer();
        if options.polled {
            builder.setup_iopoll()
        } else {
            builder.setup_defer_taskrun()
        };
        let ring = builder.build(u32::from(options.slots).next_power_of_two())?;
        let read_bytes = options.read_bytes as usize;
        let memory = Mapping::anonymous(usize::from(options.slots) * read_bytes, true)?;
        let slots: Vec<_> = (0..usize::from(options.slots))
            .map(|slot| libc::iovec {
                iov_base: memory.base.wrapping_add(slot * read_bytes).cast(),
                iov_len: read_bytes,
            })
            .collect();
        // SAFETY: the slots lie in the mapping, which outlives the ring or is never unmapped.
        let is_registered = unsafe { ring.submitter().register_buffers(&slots) }.is_ok();
        let in_kernel = vec![false; slots.len()];
        Ok(Self { ring, memory: Some(memory), file, options, is_registered, in_kernel })
    }

    /// Queues a read at `offset`; [`Self::wait`] submits it.
    ///
    /// # Panics
    /// If the slot's last read is not done.
    pub fn read(&mut self, slot: u16, offset: u64) {
        let index = usize::from(slot);
        assert!(!std::mem::replace(&mut self.in_kernel[index], true), "a slot has one read");
        let entry = match self.options.asked {
            Asked::Read => self.ordinary(slot, offset),
            Asked::Nvme { namespace, block_bytes } => {
                self.command(slot, offset, namespace, block_bytes)
            }
        };
        let entry = entry.user_data(slot.into());
        // SAFETY: the entry points to a slot's memory, which stays in place until the read is done (`Drop`), and which is not readable meanwhile
        // (`bytes`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has room for a read of each slot");
    }

    fn ordinary(&self, slot: u16, offset: u64) -> squeue::Entry128 {
        let (fd, memory) = (types::Fd(self.file.as_raw_fd()), self.memory_of(slot));
        let bytes = self.options.read_bytes;
        match self.is_registered {
            true => opcode::ReadFixed::new(fd, memory, bytes, slot).offset(offset).build().into(),
            false => opcode::Read::new(fd, memory, bytes).offset(offset).build().into(),
        }
    }

    fn command(
        &self,
        slot: u16,
        offset: u64,
        namespace: u32,
        block_bytes: u32,
    ) -> squeue::Entry128 {
        let bytes = self.options.read_bytes;
        let command = nvme_read(&NvmeRead {
            namespace,
            memory: self.memory_of(slot).addr() as u64,
            bytes,
            first_block: offset / u64::from(block_bytes),
            blocks: bytes / block_bytes,
        });
        opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), NVME_URING_CMD_IO)
            .buf_index(self.is_registered.then_some(slot))
            .cmd(command)
            .build()
    }

    fn memory_of(&self, slot: u16) -> *mut u8 {
        let memory = self.memory.as_ref().expect("memory is given up only by drop");
        memory.base.wrapping_add(usize::from(slot) * self.options.read_bytes as usize)
    }

    /// Submits the queued reads, waits until one is done, and adds the slots of all finished reads to `done`. A polled ring spends the processor's
    /// time meanwhile.
    ///
    /// # Errors
    /// If a read failed or was short, with the kernel's or the disk's reason.
    pub fn wait(&mut self, done: &mut Vec<u16>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let (asked, bytes) = (self.options.asked, self.options.read_bytes);
        let mut failed = Ok(());
        for completion in self.ring.completion() {
            // The slot's number identifies the read.
            let slot = completion.user_data() as u16;
            self.in_kernel[usize::from(slot)] = false;
            failed = failed.and(checked(asked, completion.result(), bytes));
            done.push(slot);
        }
        failed
    }

    /// The bytes of the slot's last read.
    ///
    /// # Panics
    /// If that read is not done.
    pub fn bytes(&self, slot: u16) -> &[u8] {
        assert!(!self.in_kernel[usize::from(slot)], "its read is done");
        // SAFETY: the slot lies in the mapping, and the kernel does not have it.
        unsafe {
            std::slice::from_raw_parts(self.memory_of(slot), self.options.read_bytes as usize)
        }
    }
}

impl Drop for DiskRing {
    fn drop(&mut self) {
        while self.in_kernel.contains(&true) {
            let mut done = Vec::new();
            // A failed read is done too.
            if self.wait(&mut done).is_err() && done.is_empty() {
                std::mem::forget(self.memory.take());
                return;
            }
        }
    }
}

/// A read's result as an error, unless it returned all of its bytes. A command's is 0, the kernel's error, or the disk's status.
fn checked(asked: Asked, result: i32, bytes: u32) -> io::Result<()> {
    match (asked, result) {
        (_, ..0) => Err(io::Error::from_raw_os_error(-result)),
        (Asked::Nvme { .. }, 0) => Ok(()),
        (Asked::Nvme { .. }, status) => {
            Err(io::Error::other(format!("the disk refused the read: NVMe status {status:#x}")))
        }
        (Asked::Read, got) if got as u32 == bytes => Ok(()),
        (Asked::Read, got) => {
            let why = format!("a read of {bytes} bytes returned {got}");
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
    }
}

/// A command names whole blocks, 65,536 at most. The kernel does not compare that with the given memory, so the disk would write past its end.
fn check_command(read_bytes: u32, block_bytes: u32) -> io::Result<()> {
    let is_whole = block_bytes > 0 && read_bytes % block_bytes == 0;
    if is_whole && (1..=1 << 16).contains(&(read_bytes / block_bytes)) {
        return Ok(());
    }
    let why = format!("the disk has blocks of {block_bytes} bytes, and reads are of {read_bytes}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

struct NvmeRead {
    namespace: u32,
    memory: u64,
    bytes: u32,
    first_block: u64,
    blocks: u32,
}

/// `struct nvme_uring_cmd` of linux/nvme_ioctl.h, with the members that a read needs.
fn nvme_read(read: &NvmeRead) -> [u8; 80] {
    let mut command = [0; 80];
    let mut put = |at: usize, bytes: &[u8]| command[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[NVME_READ]);
    put(4, &read.namespace.to_ne_bytes());
    put(24, &read.memory.to_ne_bytes());
    put(36, &read.bytes.to_ne_bytes());
    // Words 10 and 11: the first block. Word 12: the number of further blocks.
    put(40, &(read.first_block as u32).to_ne_bytes());
    put(44, &((read.first_block >> 32) as u32).to_ne_bytes());
    put(48, &(read.blocks - 1).to_ne_bytes());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const READ_BYTES: u32 = 8192;

    #[test]
    fn a_command_names_whole_blocks_that_fit_into_the_memory_given() {
        for good in [512, 4096, 8192] {
            assert!(check_command(READ_BYTES, good).is_ok(), "{good}");
        }
        for (read, block) in [(4096, 8192), (READ_BYTES, 0), (READ_BYTES, 3000), (1 << 30, 512)] {
            assert!(check_command(read, block).is_err(), "{read} bytes in blocks of {block}");
        }
    }

    fn ring_of(file: &File) -> DiskRing {
        let options =
            DiskRingOptions { asked: Asked::Read, polled: false, slots: 3, read_bytes: READ_BYTES };
        DiskRing::new(file.try_clone().unwrap().into(), options).unwrap()
    }

    fn file_of(reads: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        for read in 0..reads {
            let bytes = vec![read as u8 + 1; READ_BYTES as usize];
            file.write_all_at(&bytes, read * u64::from(READ_BYTES)).unwrap();
        }
        file
    }

    #[test]
    fn each_slot_gets_the_bytes_that_it_was_asked_for() {
        let mut ring = ring_of(&file_of(6));
        let mut done = Vec::new();
        for round in 0..2 {
            for slot in 0..3u16 {
                ring.read(slot, u64::from(3 * round + slot) * u64::from(READ_BYTES));
            }
            while done.len() < 3 {
                ring.wait(&mut done).unwrap();
            }
            done.sort_unstable();
            assert_eq!(done, [0, 1, 2]);
            for slot in done.drain(..) {
                let expected = (3 * round + slot) as u8 + 1;
                assert!(ring.bytes(slot).iter().all(|byte| *byte == expected), "slot {slot}");
            }
        }
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_and_its_slot_is_free_again() {
        let mut ring = ring_of(&file_of(1));
        let mut done = Vec::new();
        ring.read(1, u64::from(READ_BYTES));
        assert_eq!(ring.wait(&mut done).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(done, [1]);
        ring.read(1, 0);
        ring.wait(&mut done).unwrap();
        assert_eq!(ring.bytes(1)[0], 1);
    }

    #[test]
    fn reads_in_flight_end_before_their_memory() {
        let mut ring = ring_of(&file_of(3));
        (0..3u16).for_each(|slot| ring.read(slot, u64::from(slot) * u64::from(READ_BYTES)));
    }

    #[test]
    #[should_panic(expected = "a slot has one read")]
    fn a_slot_that_the_kernel_has_is_not_read_into_again() {
        let mut ring = ring_of(&file_of(1));
        ring.read(0, 0);
        ring.read(0, 0);
    }

    #[test]
    fn a_command_has_its_members_where_the_kernel_looks_for_them() {
        let command = nvme_read(&NvmeRead {
            namespace: 3,
            memory: 0x1122_3344_5566_7788,
            bytes: 131_072,
            first_block: 0x0000_0009_8000_0001,
            blocks: 256,
        });
        let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().unwrap());
        assert_eq!((command[0], word(4), word(36)), (2, 3, 131_072));
        assert_eq!(command[24..32], 0x1122_3344_5566_7788u64.to_ne_bytes());
        assert_eq!((word(40), word(44), word(48)), (0x8000_0001, 9, 255));
        assert!(command[52..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn results_are_told_apart() {
        let nvme = Asked::Nvme { namespace: 1, block_bytes: 512 };
        assert!(checked(nvme, 0, 512).is_ok() && checked(Asked::Read, 512, 512).is_ok());
        let refused = checked(nvme, 0x281, 512).unwrap_err().to_string();
        assert!(refused.contains("NVMe status 0x281"), "{refused}");
        let of_kernel = checked(nvme, -libc::EOPNOTSUPP, 512).unwrap_err();
        assert_eq!(of_kernel.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(checked(Asked::Read, 0, 512).is_err() && checked(Asked::Read, 511, 512).is_err());
    }
}
