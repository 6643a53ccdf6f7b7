//! Makes the records of a response, for the first time or again.

use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use std::ops::Range;
use tls::{Ledger, PLAINTEXT_MAX, ResealError};

/// The result of making records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MadeRecords {
    /// Length of the records.
    pub(crate) bytes: usize,
    /// How many of the records had been made before.
    pub(crate) again: u64,
    /// How many bytes at the front were left out, because the viewer has acknowledged them in the meantime. They are not set.
    pub(crate) left_out_bytes: usize,
}

/// Makes the records of `range` of a response at the front of `room`. The first record has `position`. `of_file` is the plaintext that comes from a
/// file, if any.
///
/// # Errors
/// [`End::ChangedUnderUs`] if a record differs from the first time it was made. The connection must end, and nothing in `room` may be sent.
pub(crate) fn make(
    ledger: &mut Ledger,
    outgoing: &Outgoing,
    range: Range<u64>,
    position: u64,
    of_file: Option<&[u8]>,
    room: &mut [u8],
) -> Result<MadeRecords, End> {
    let mut all = MadeRecords::default();
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
            // Acknowledged while it was read. Acknowledged bytes are always at the front.
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

/// The plaintext at `offset`: in memory, or in the bytes read from the file.
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
