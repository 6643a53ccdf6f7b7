//! A frame being written into the transmit ring, piece by piece.

use super::socket::XdpSocket;
use crate::kernel::umem::{CHUNK_BYTES, Chunk};
use reactor::copy_streaming;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

/// A frame that is being put together. The kernel looks at it when the ring is published.
pub(super) struct Frame<'a> {
    socket: &'a mut XdpSocket,
    streams_payload: bool,
    /// The chunk that is being filled, and how far.
    chunk: Option<(Chunk, usize)>,
    /// The last complete piece. It has to announce whether another one follows.
    last: Option<XdpDesc>,
}

impl<'a> Frame<'a> {
    /// `streams_payload` copies payload past the processor's caches.
    pub(super) fn new(socket: &'a mut XdpSocket, streams_payload: bool) -> Self {
        Self { socket, streams_payload, chunk: None, last: None }
    }

    /// Adds a copy of these bytes.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.fill(bytes, |from, to| to.copy_from_slice(from));
    }

    /// Adds a copy of these bytes, which are payload.
    pub(super) fn copy_payload(&mut self, bytes: &[u8]) {
        if self.streams_payload {
            self.fill(bytes, copy_streaming);
        } else {
            self.copy(bytes);
        }
    }

    fn fill(&mut self, mut bytes: &[u8], copy: impl Fn(&[u8], &mut [u8])) {
        while !bytes.is_empty() {
            let (mut chunk, at) = self.chunk.take().unwrap_or_else(|| {
                let free = self.socket.free.pop();
                (free.expect("the caller has checked that there is room"), 0)
            });
            let (here, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - at));
            let end = at + here.len();
            copy(here, &mut self.socket.umem.bytes_mut(&mut chunk)[at..end]);
            self.chunk = Some((chunk, end));
            if end == CHUNK_BYTES {
                self.close_chunk();
            }
            bytes = rest;
        }
    }

    /// Adds these bytes in place. `false` if the kernel does not know that memory.
    pub(super) fn lend(&mut self, bytes: &[u8]) -> bool {
        let Some(mut in_place) = self.socket.in_place.take() else { return false };
        let is_known = in_place.pieces(bytes).is_some();
        if is_known {
            self.close_chunk();
            in_place.lend(bytes, |address, bytes| self.add(address, bytes));
        }
        self.socket.in_place = Some(in_place);
        is_known
    }

    fn close_chunk(&mut self) {
        if let Some((chunk, bytes)) = self.chunk.take() {
            let address = self.socket.umem.give(chunk);
            self.add(address, bytes as u32);
        }
    }

    fn add(&mut self, addr: u64, len: u32) {
        let piece = XdpDesc { addr, len, options: XdpDescOptions::empty() };
        if let Some(mut last) = self.last.replace(piece) {
            last.options |= XdpDescOptions::XDP_PKT_CONTD;
            self.socket.transmit.push(last);
        }
    }

    /// Puts the last piece into the ring.
    pub(super) fn finish(mut self) {
        self.close_chunk();
        if let Some(last) = self.last {
            self.socket.transmit.push(last);
        }
    }
}
