//! Memory of the UMEM that other code fills and the socket sends from: buffers of equal length, after the chunks.
//!
//! A descriptor may begin at any byte of a chunk and must not go beyond the chunk's end. So the bytes of a buffer are sent in place, in one piece for
//! each chunk that they touch. The kernel reports each piece when it is sent.
//!
//! Invariant: a buffer with pieces in the kernel is not written to. A sender therefore keeps the buffer until [`InPlace::next_idle`] returns it.

use crate::kernel::umem::CHUNK_BYTES;

/// The number of buffers, their length, and their NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuffersInPlace {
    /// Bytes of a buffer: a multiple of 4096.
    pub bytes: usize,
    /// Buffers.
    pub count: usize,
    /// The NUMA node of their memory, and of all other memory that the queue shares with the kernel; `None` if any will do. The pages are pinned when
    /// the queue is opened, so choosing a node at first use would be too late.
    pub node: Option<u32>,
}

impl BuffersInPlace {
    /// Bytes of all buffers.
    pub(super) fn bytes_all(self) -> usize {
        self.bytes * self.count
    }
}

/// The buffers, and how much of each the kernel has.
pub(super) struct InPlace {
    blocks: BuffersInPlace,
    /// The beginning of the buffers in this process.
    base: usize,
    /// The beginning of the buffers in the UMEM.
    address: u64,
    /// Pieces in the kernel, per buffer.
    pieces: Vec<u32>,
    /// Buffers whose last piece the kernel had returned. Some may be in flight again.
    returned: Vec<usize>,
}

impl InPlace {
    /// `base` is the beginning of the buffers in this process, and `address` in the UMEM.
    pub(super) fn new(blocks: BuffersInPlace, base: *const u8, address: u64) -> Self {
        assert!(blocks.bytes > 0 && blocks.bytes % CHUNK_BYTES == 0, "whole chunks");
        let pieces = vec![0; blocks.count];
        Self { blocks, base: base as usize, address, pieces, returned: Vec::new() }
    }

    /// The offset of `bytes` from the beginning of the first buffer, if they lie in one of them.
    fn offset(&self, bytes: &[u8]) -> Option<usize> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.base)?;
        (offset + bytes.len() <= self.blocks.bytes_all()).then_some(offset)
    }

    /// How many pieces these bytes take, if they lie in buffers.
    pub(super) fn pieces(&self, bytes: &[u8]) -> Option<usize> {
        let offset = self.offset(bytes)?;
        let chunks = (offset % CHUNK_BYTES + bytes.len()).div_ceil(CHUNK_BYTES);
        Some(if bytes.is_empty() { 0 } else { chunks })
    }

    /// Lends these bytes to the kernel, piece by piece: `each` gets the address in the UMEM and the length. `false` if they don't lie in buffers.
    pub(super) fn lend(&mut self, bytes: &[u8], mut each: impl FnMut(u64, u32)) -> bool {
        let Some(mut offset) = self.offset(bytes) else { return false };
        let end = offset + bytes.len();
        while offset < end {
            let here = (CHUNK_BYTES - offset % CHUNK_BYTES).min(end - offset);
            self.pieces[offset / self.blocks.bytes] += 1;
            each(self.address + offset as u64, here as u32);
            offset += here;
        }
        true
    }

    /// Takes back the piece at the kernel's `address`. `false` if the kernel had no piece of that buffer.
    pub(super) fn take_back(&mut self, address: u64) -> bool {
        let Some(offset) = address.checked_sub(self.address) else { return false };
        let block = (offset / self.blocks.bytes as u64) as usize;
        let Some(pieces) = self.pieces.get_mut(block).filter(|pieces| **pieces > 0) else {
            return false;
        };
        *pieces -= 1;
        if *pieces == 0 {
            self.returned.push(block);
        }
        true
    }

    /// The buffer that holds these bytes, if the kernel has a piece of it.
    pub(super) fn block(&self, bytes: &[u8]) -> Option<usize> {
        let block = self.offset(bytes)? / self.blocks.bytes;
        (*self.pieces.get(block)? > 0).then_some(block)
    }

    /// A buffer whose pieces the kernel has all returned since this last returned it.
    pub(super) fn next_idle(&mut self) -> Option<usize> {
        loop {
            let block = self.returned.pop()?;
            if self.pieces[block] == 0 {
                return Some(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: BuffersInPlace = BuffersInPlace { bytes: 3 * CHUNK_BYTES, count: 4, node: None };
    const ADDRESS: u64 = 10 * CHUNK_BYTES as u64;

    fn in_place(memory: &[u8]) -> InPlace {
        InPlace::new(BLOCKS, memory.as_ptr(), ADDRESS)
    }

    fn lend(in_place: &mut InPlace, bytes: &[u8]) -> Vec<(u64, u32)> {
        let mut pieces = Vec::new();
        assert!(in_place.lend(bytes, |address, bytes| pieces.push((address, bytes))));
        pieces
    }

    #[test]
    fn a_buffer_is_idle_when_its_last_piece_is_back() {
        let memory = vec![0; BLOCKS.bytes_all()];
        let mut in_place = self::in_place(&memory);
        let second = &memory[BLOCKS.bytes..2 * BLOCKS.bytes];
        let across = &second[CHUNK_BYTES - 448..CHUNK_BYTES + 1000];
        assert_eq!(in_place.block(across), None);
        let pieces = lend(&mut in_place, across);
        let at = ADDRESS + (BLOCKS.bytes + CHUNK_BYTES) as u64;
        assert_eq!(pieces, [(at - 448, 448), (at, 1000)]);
        assert_eq!(in_place.block(across), Some(1));
        assert!(in_place.take_back(at));
        assert_eq!(in_place.next_idle(), None);
        assert!(in_place.take_back(at - 448));
        assert!(!in_place.take_back(at), "the kernel has nothing of it any more");
        assert_eq!((in_place.next_idle(), in_place.next_idle()), (Some(1), None));
    }

    #[test]
    fn a_buffer_that_is_in_flight_again_meanwhile_is_not_idle() {
        let memory = vec![0; BLOCKS.bytes_all()];
        let mut in_place = self::in_place(&memory);
        let [(address, _)] = lend(&mut in_place, &memory[..100])[..] else { panic!("one piece") };
        assert!(in_place.take_back(address));
        lend(&mut in_place, &memory[100..200]);
        assert_eq!(in_place.next_idle(), None);
        assert!(in_place.take_back(address + 100));
        assert_eq!(in_place.next_idle(), Some(0));
    }

    #[test]
    fn what_lies_elsewhere_is_not_sent() {
        let memory = vec![0; BLOCKS.bytes_all() + 2];
        let mut in_place = InPlace::new(BLOCKS, memory[1..].as_ptr(), ADDRESS);
        for elsewhere in [&memory[..10], &memory[memory.len() - 10..], &[1, 2, 3]] {
            assert!(!in_place.lend(elsewhere, |_, _| panic!("nothing is sent")));
            assert_eq!((in_place.pieces(elsewhere), in_place.block(elsewhere)), (None, None));
        }
        for address in [0, ADDRESS - 1, ADDRESS + BLOCKS.bytes_all() as u64, u64::MAX] {
            assert!(!in_place.take_back(address));
        }
    }

    proptest! {
        #[test]
        fn pieces_are_the_bytes_and_none_leaves_its_chunk(
            start in 0..BLOCKS.bytes_all(),
            bytes in 0usize..10_000,
        ) {
            let memory = vec![0; BLOCKS.bytes_all()];
            let mut in_place = self::in_place(&memory);
            let end = (start + bytes).min(memory.len());
            let bytes = &memory[start..end];
            let expected = in_place.pieces(bytes);
            let pieces = lend(&mut in_place, bytes);
            prop_assert_eq!(expected, Some(pieces.len()));
            let mut at = ADDRESS + start as u64;
            for (address, bytes) in &pieces {
                prop_assert_eq!(*address, at);
                prop_assert!(*bytes > 0);
                let in_chunk = address % CHUNK_BYTES as u64;
                prop_assert!(in_chunk + u64::from(*bytes) <= CHUNK_BYTES as u64);
                at += u64::from(*bytes);
            }
            prop_assert_eq!(at, ADDRESS + end as u64);
            for (address, _) in pieces.into_iter().rev() {
                prop_assert!(in_place.take_back(address));
            }
            prop_assert!(in_place.pieces.iter().all(|pieces| *pieces == 0));
        }
    }
}
