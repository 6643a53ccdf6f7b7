//! Decodes chunked bodies (RFC 9112 section 7.1). Trailers and chunk extensions are skipped.

use crate::failure::Failure;

/// The longest line of a chunk's size with its extensions, or of a trailer.
const LINE_BYTES_MAX: usize = 4096;

/// Limit on the lines of a trailer.
const TRAILERS_MAX: u32 = 100;

/// The position of the next byte in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// In the line with the next chunk's size.
    Size,
    /// In a chunk, with this many bytes left.
    Chunk(u64),
    /// In the line break after a chunk.
    ChunkEnd,
    /// After the last chunk, and after this many lines of the trailer.
    Trailer(u32),
}

impl Chunked {
    /// Moves the part of the body that has arrived from `wire` to the end of `into`, without its framing. Returns whether the body is over.
    /// Bytes after the body stay in `wire`, as does an incomplete line.
    ///
    /// # Errors
    /// [`Failure::BadResponse`].
    pub(crate) fn decode(
        &mut self,
        wire: &mut Vec<u8>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        let mut at = 0;
        let is_over = loop {
            let rest = &wire[at..];
            if let Self::Chunk(left) = *self {
                let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                into.extend_from_slice(&rest[..bytes]);
                at += bytes;
                match left - bytes as u64 {
                    0 => *self = Self::ChunkEnd,
                    left => {
                        *self = Self::Chunk(left);
                        break false;
                    }
                }
                continue;
            }
            let Some(line) = line(rest)? else { break false };
            at += line.len();
            match (*self, line.trim_ascii()) {
                (Self::Size, text) => {
                    *self = match size(text)? {
                        0 => Self::Trailer(0),
                        bytes => Self::Chunk(bytes),
                    }
                }
                (Self::ChunkEnd, b"") => *self = Self::Size,
                (Self::Trailer(_), b"") => break true,
                (Self::Trailer(lines), _) if lines < TRAILERS_MAX => {
                    *self = Self::Trailer(lines + 1);
                }
                _ => return Err(BAD),
            }
        };
        wire.drain(..at);
        Ok(is_over)
    }
}

const BAD: Failure = Failure::BadResponse("its chunks cannot be parsed");

/// The first line including its line break, if it is complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Failure> {
    match bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some(&bytes[..=end])),
        None if bytes.len() >= LINE_BYTES_MAX => Err(BAD),
        None => Ok(None),
    }
}

/// The size in a chunk's first line. Text after a semicolon is an extension.
fn size(line: &[u8]) -> Result<u64, Failure> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| BAD)?;
    let is_plain = !text.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(text, 16).ok().filter(|_| is_plain).ok_or(BAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"4\r\nwiki\r\n5;name=\"value\"\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n0\r\nDate: x\r\n\r\nnext";

    #[test]
    fn a_body_is_the_same_in_whatever_parts_it_comes() {
        for part in 1..WIRE.len() {
            let (mut chunked, mut wire, mut into) = (Chunked::Size, Vec::new(), Vec::new());
            let mut is_over = false;
            for bytes in WIRE.chunks(part) {
                wire.extend_from_slice(bytes);
                is_over = is_over || chunked.decode(&mut wire, &mut into).unwrap();
            }
            assert!(is_over, "in parts of {part}");
            assert_eq!(into, b"wikipedia in\r\n\r\nchunks.");
            assert_eq!(wire, b"next");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let long = format!("4;{}", "x".repeat(LINE_BYTES_MAX));
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(TRAILERS_MAX as usize + 1));
        for text in
            ["\r\n", "g\r\n", "-1\r\n", "11111111111111111\r\n", "1\r\nab\r\n", &long, &trailers]
        {
            let mut wire = text.as_bytes().to_vec();
            assert_eq!(Chunked::Size.decode(&mut wire, &mut Vec::new()), Err(BAD), "{text}");
        }
    }

    #[test]
    fn a_huge_chunk_takes_no_memory_before_it_comes() {
        let (mut chunked, mut into) = (Chunked::Size, Vec::new());
        let mut wire = b"ffffffffffffffff\r\nab".to_vec();
        assert_eq!(chunked.decode(&mut wire, &mut into), Ok(false));
        assert_eq!((into.as_slice(), wire.len()), (&b"ab"[..], 0));
        assert!(into.capacity() < 100);
    }
}
