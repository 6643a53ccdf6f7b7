//! The memory for frames, in equal chunks. The kernel shares it, and possibly a NIC.
//!
//! A [`Chunk`] is the right to touch its bytes. Giving it to the kernel consumes the value; taking it back makes a new one from the kernel's number.
//! Numbers of chunks that the kernel does not have are refused.
//!
//! After the chunks there may be memory that other code fills and the socket sends from, which has an owner of its own.

use reactor::MemoryPart;
use std::io;

/// Bytes per chunk: a page, the most that every driver accepts.
pub(crate) const CHUNK_BYTES: usize = 4096;

/// All chunks.
pub(crate) struct Umem {
    memory: MemoryPart,
    /// Bytes of the memory after the chunks.
    others_bytes: usize,
    /// The chunks that the kernel has.
    is_kernels: Vec<bool>,
}

/// The right to one chunk.
#[derive(Debug)]
pub(crate) struct Chunk(u32);

impl Umem {
    /// Creates `count` chunks, all of them ours, and `others_bytes` of memory for others after them, on `node`.
    pub(crate) fn new(
        count: u32,
        others_bytes: usize,
        node: Option<u32>,
    ) -> io::Result<(Self, Vec<Chunk>, MemoryPart)> {
        let bytes = count as usize * CHUNK_BYTES;
        let mut others = MemoryPart::new(bytes + others_bytes, others_bytes > 0)?;
        if let Some(node) = node {
            others.prefer_node(node);
        }
        others.pin();
        let memory = others.split_to(bytes);
        let is_kernels = vec![false; count as usize];
        let umem = Self { memory, others_bytes, is_kernels };
        Ok((umem, (0..count).map(Chunk).collect(), others))
    }

    /// Address and length of the memory, including that of others.
    pub(crate) fn region(&self) -> (u64, u64) {
        (self.memory.base() as u64, (self.memory.bytes() + self.others_bytes) as u64)
    }

    /// The kernel's address for the beginning of the others' memory.
    pub(crate) fn others_address(&self) -> u64 {
        self.memory.bytes() as u64
    }

    /// Gives a chunk to the kernel. Returns the kernel's address for it.
    pub(crate) fn give(&mut self, chunk: Chunk) -> u64 {
        self.is_kernels[chunk.0 as usize] = true;
        u64::from(chunk.0) * CHUNK_BYTES as u64
    }

    /// Takes back the chunk that contains the kernel's `address`, with the offset in the chunk. `None` if the kernel did not have it.
    pub(crate) fn take_back(&mut self, address: u64) -> Option<(Chunk, usize)> {
        let index = usize::try_from(address / CHUNK_BYTES as u64).ok()?;
        let is_kernels = self.is_kernels.get_mut(index)?;
        std::mem::take(is_kernels).then_some(())?;
        Some((Chunk(index as u32), (address % CHUNK_BYTES as u64) as usize))
    }

    /// The bytes of a chunk.
    pub(crate) fn bytes(&self, chunk: &Chunk) -> &[u8] {
        // SAFETY: only the chunk's holder may touch these bytes, which are in the mapping: `new` has made no other chunks, and `take_back` makes only
        // those that the kernel had.
        unsafe { std::slice::from_raw_parts(self.base(chunk), CHUNK_BYTES) }
    }

    /// The bytes of a chunk, to be written.
    pub(crate) fn bytes_mut(&mut self, chunk: &mut Chunk) -> &mut [u8] {
        // SAFETY: as for `bytes`, and both are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base(chunk), CHUNK_BYTES) }
    }

    fn base(&self, chunk: &Chunk) -> *mut u8 {
        let offset = chunk.0 as usize * CHUNK_BYTES;
        assert!(offset < self.memory.bytes(), "a chunk of this memory");
        self.memory.base().wrapping_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_have_does_not_come_back() {
        let (mut umem, mut chunks, others) = Umem::new(4, 8192, None).unwrap();
        assert_eq!(others.base(), umem.memory.base().wrapping_add(4 * CHUNK_BYTES));
        assert_eq!((umem.region().1, umem.others_address()), (6 * 4096, 4 * 4096));
        assert!(umem.take_back(0).is_none());
        let address = umem.give(chunks.remove(2));
        assert_eq!(address, 2 * CHUNK_BYTES as u64);
        let (mut chunk, offset) = umem.take_back(address + 256).unwrap();
        assert_eq!(offset, 256);
        umem.bytes_mut(&mut chunk)[4095] = 7;
        assert_eq!(umem.bytes(&chunk)[4095], 7);
        assert!(umem.take_back(address).is_none(), "it is ours again");
        assert!(umem.take_back(4 * CHUNK_BYTES as u64).is_none());
        assert!(umem.take_back(u64::MAX).is_none());
    }
}
