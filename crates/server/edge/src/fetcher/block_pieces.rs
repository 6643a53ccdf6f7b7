//! The bytes of a block as they arrive: in the pieces that the connection has read, which are written to the file from where they are. A piece keeps
//! the buffer that it was read into, which the connection goes on to fill: of a block, that is its bytes and one such buffer (400 KiB or less).

use bytes::Bytes;
use std::io::IoSlice;

/// Smaller pieces are collected into one: an origin may send single bytes, and each piece takes some memory. So a block of 1 MiB has at most 130
/// pieces.
const PIECE_BYTES_MIN: usize = 16 << 10;

/// A block, or its beginning.
#[derive(Debug, Default)]
pub(super) struct BlockPieces {
    pieces: Vec<Bytes>,
    /// Small pieces that follow the others.
    small: Vec<u8>,
    bytes: usize,
}

impl BlockPieces {
    /// Adds the next bytes.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() < PIECE_BYTES_MIN {
            self.small.extend_from_slice(&piece);
            if self.small.len() < PIECE_BYTES_MIN {
                return;
            }
        }
        if !self.small.is_empty() {
            self.pieces.push(std::mem::take(&mut self.small).into());
        }
        if piece.len() >= PIECE_BYTES_MIN {
            self.pieces.push(piece);
        }
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.small.clear();
        self.bytes = 0;
    }

    /// The pieces, in order.
    pub(super) fn slices(&self) -> Vec<IoSlice<'_>> {
        let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.small[..]]);
        pieces.filter(|piece| !piece.is_empty()).map(IoSlice::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_and_small_pieces_take_no_memory_of_their_own() {
        let all: Vec<u8> = (0..1_u32 << 20).map(|number| (number % 251) as u8).collect();
        for sizes in [&[1][..], &[1 << 20], &[70_000, 1], &[1, 16_384, 3], &[16_383], &[5000]] {
            let (mut pieces, mut rest) = (BlockPieces::default(), &all[..]);
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                pieces.push(Bytes::copy_from_slice(piece));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let slices = pieces.slices();
            assert!(slices.len() <= 130, "{sizes:?}: {}", slices.len());
            let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            assert!(pieces.len() == all.len() && joined == all, "{sizes:?}");
            pieces.clear();
            assert_eq!((pieces.len(), pieces.slices().len()), (0, 0));
        }
    }
}
