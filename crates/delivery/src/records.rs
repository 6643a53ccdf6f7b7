//! The records of a response, made from where their plaintext lies: for the first time or again.

use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use crypt::{Ledger, PLAINTEXT_MAX, ResealError};
use std::ops::Range;

/// Records that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Bytes of them.
    pub(crate) bytes: usize,
    /// How many records had been made before.
    pub(crate) again: u64,
    /// Bytes at the front that were left out, since the viewer has acknowledged them meanwhile. They are not set.
    pub(crate) left_out_bytes: usize,
}

/// Makes the records of `range` of a response, the first of which has `position`, at the front of `room`. `of_file` is
/// the plaintext, where it lies in a file.
///
/// # Errors
/// [`End::ChangedUnderUs`] if one comes out different from what it was: the connection must end, and nothing of `room`
/// may be sent.
pub(crate) fn make(
    ledger: &mut Ledger,
    outgoing: &Outgoing,
    range: Range<u64>,
    position: u64,
    of_file: Option<&[u8]>,
    room: &mut [u8],
) -> Result<Made, End> {
    let mut all = Made::default();
    for (position, start) in (position..).zip(range.clone().step_by(PLAINTEXT_MAX)) {
        let bytes = PLAINTEXT_MAX.min((range.end - start) as usize);
        let of_file =
            of_file.and_then(|file| file.get((start - range.start) as usize..)?.get(..bytes));
        let plaintext = plaintext(outgoing, start, bytes, of_file);
        match ledger.make(position, plaintext, &mut room[all.bytes..]) {
            Ok(made) => {
                all.bytes += made.bytes;
                all.again += u64::from(made.again);
            }
            // Acknowledged while it was read. What is acknowledged is always the front.
            Err(ResealError::OutOfReach) => {
                all.bytes += bytes + ledger.record_overhead();
                all.left_out_bytes = all.bytes;
            }
            Err(ResealError::ChangedUnderUs) => return Err(End::ChangedUnderUs),
            Err(ResealError::BufferTooSmall) => {
                unreachable!("a part is no longer than its buffer")
            }
        }
    }
    Ok(all)
}

/// The plaintext at `offset`: in memory, or else what was read of the file.
pub(crate) fn plaintext<'a>(
    outgoing: &'a Outgoing,
    offset: u64,
    bytes: usize,
    of_file: Option<&'a [u8]>,
) -> &'a [u8] {
    match outgoing.piece(offset, bytes) {
        Some(Piece::Bytes(in_memory)) => in_memory,
        _ => of_file.expect("a file piece was read before it is sealed"),
    }
}
