//! Sends a response that grows: its length is known only at its end, or it is too long for the cache's disk.

use super::Session;
use crate::edge::GrowingBody;
use delivery::{End, Outgoing};
use fullbore_http::Part;
use std::rc::Rc;

/// The body of a response, after its head.
pub(super) struct GrowingResponse {
    pub(super) body: GrowingBody,
    /// In chunks (RFC 9112 section 7.1). Otherwise, the header says the length, or the end of the connection is the end of the body.
    pub(super) is_chunked: bool,
}

impl Session {
    /// Sends a body as it arrives, and adds its bytes to `sent_bytes`.
    ///
    /// # Errors
    /// If the viewer has gone, or the rest doesn't arrive. The connection then ends without the mark of the body's end.
    pub(super) async fn send_growing(
        &mut self,
        growing: Box<GrowingResponse>,
        sent_bytes: &mut u64,
    ) -> Result<(), End> {
        let GrowingResponse { mut body, is_chunked } = *growing;
        loop {
            let piece = body.next().await.map_err(End::File)?;
            let is_last = piece.is_empty();
            let parts = if is_chunked { chunk(piece) } else { vec![Part::Bytes(piece)] };
            let outgoing = Rc::new(Outgoing::new(Vec::new(), parts, None));
            if outgoing.bytes() > 0 {
                self.channel.send(&outgoing, &mut self.input).await?;
                *sent_bytes += outgoing.bytes();
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// A chunk of a body; an empty one is the last.
fn chunk(piece: Vec<u8>) -> Vec<Part> {
    let size = format!("{:x}\r\n", piece.len()).into_bytes();
    vec![Part::Bytes(size), Part::Bytes(piece), Part::Static(b"\r\n")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_say_their_length_and_an_empty_one_is_the_last() {
        let joined =
            |piece: &[u8]| Outgoing::new(Vec::new(), chunk(piece.to_vec()), None).in_memory();
        assert_eq!(joined(&[b'a'; 17]), b"11\r\naaaaaaaaaaaaaaaaa\r\n");
        assert_eq!(joined(b""), b"0\r\n\r\n");
    }
}
