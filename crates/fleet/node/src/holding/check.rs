//! Reads the files of a title and compares them with its record.

use std::fs::File;
use std::path::Path;

use catalog::{BLOCK_BYTES, FileRecord, Record, sha256};

use super::block_file::{BlockBuffer, BlockFile};
use super::error::{Attempt, HoldingError};

/// Called before each block with its length: waits as long as the rate limit demands, and says whether to go on.
pub(crate) type Gate<'g> = &'g dyn Fn(u64) -> Result<(), HoldingError>;

/// Reads every file of the title in `folder`, and verifies the SHA-256 of each block.
///
/// # Errors
/// [`HoldingError::Damaged`] for the first block that differs; [`HoldingError::Cancelled`] by `gate`.
pub(crate) fn check(folder: &Path, record: &Record, gate: Gate<'_>) -> Result<(), HoldingError> {
    let place = File::open(folder).attempt("open", folder)?;
    let mut buffer = BlockBuffer::new();
    record.files.iter().try_for_each(|file| check_blocks(&place, file, &mut buffer, gate))
}

fn check_blocks(
    folder: &File,
    file: &FileRecord,
    buffer: &mut BlockBuffer,
    gate: Gate<'_>,
) -> Result<(), HoldingError> {
    let damaged = |why: String| HoldingError::Damaged { path: file.path.clone(), why };
    let Some(blocks) = &file.blocks_sha256 else {
        return check_whole(folder, file, buffer, gate);
    };
    let open = BlockFile::open(folder, &file.path)
        .map_err(|error| damaged(format!("cannot be read: {error}")))?;
    let bytes = open.file().metadata().map_or(0, |metadata| metadata.len());
    if bytes != file.bytes {
        return Err(damaged(format!("has {bytes} bytes instead of {}", file.bytes)));
    }
    for (index, expected) in blocks.iter().enumerate() {
        let offset = index as u64 * BLOCK_BYTES;
        gate(length(file, offset) as u64)?;
        let read = open.read(offset, buffer);
        let count = read.map_err(|error| damaged(format!("cannot be read: {error}")))?;
        if sha256::of_bytes(buffer.first(count)) != *expected {
            return Err(damaged(format!("has wrong bytes in block {index} (of 4 MiB, from 0)")));
        }
    }
    Ok(())
}

/// Reads one file, and compares it with all its checksums.
pub(crate) fn check_whole(
    folder: &File,
    file: &FileRecord,
    buffer: &mut BlockBuffer,
    gate: Gate<'_>,
) -> Result<(), HoldingError> {
    let damaged = |why: String| HoldingError::Damaged { path: file.path.clone(), why };
    let cannot = |error: std::io::Error| damaged(format!("cannot be read: {error}"));
    let open = BlockFile::open(folder, &file.path).map_err(cannot)?;
    let (mut summing, mut offset) = (sha256::Summing::new(), 0);
    loop {
        gate(length(file, offset) as u64)?;
        let count = open.read(offset, buffer).map_err(cannot)?;
        summing.update(buffer.first(count));
        offset += count as u64;
        if (count as u64) < BLOCK_BYTES {
            break;
        }
    }
    let sums = summing.finish();
    let has_blocks = file.blocks_sha256.as_ref().is_none_or(|blocks| *blocks == sums.blocks);
    match sums.whole == file.sha256 && has_blocks {
        true => Ok(()),
        false => Err(damaged("does not match its SHA-256".to_owned())),
    }
}

/// The length of the block of `file` that begins at `offset`.
pub(crate) fn length(file: &FileRecord, offset: u64) -> usize {
    // At most one block.
    file.bytes.saturating_sub(offset).min(BLOCK_BYTES) as usize
}
