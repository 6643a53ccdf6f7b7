//! Without TLS: read and send.

use super::ahead::Ahead;
use super::link::Link;
use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use reactor::yield_now;

/// A connection without TLS.
pub struct Clear {
    pub(super) link: Link,
}

impl Clear {
    /// Takes a new connection.
    pub fn new(link: Link) -> Self {
        Self { link }
    }

    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        self.link.receive(input).await
    }

    /// What TCP does not take at once is let go and read again: nothing is held for a viewer who does not pull.
    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        let mut ahead = Ahead::default();
        let mut at = 0;
        let link = &mut self.link;
        while let Some(piece) = outgoing.piece(at, link.window.bytes()) {
            if !link.pulls_soon().await {
                ahead.give_up();
                link.pull().await?;
            }
            let (offered, taken) = match piece {
                Piece::Bytes(bytes) => {
                    let more = at + (bytes.len() as u64) < outgoing.bytes();
                    (bytes.len(), link.offer(bytes, more)?)
                }
                Piece::File(file, range) => {
                    let end = range.start + outgoing.extent_left(at);
                    let plain = ahead.read(&link.worker, file, range, end).await?;
                    (plain.len(), link.offer(&plain, false)?)
                }
            };
            at += taken as u64;
            link.worker.numbers.windows_total.add(1);
            link.worker.numbers.body_bytes_sent_total.add(taken as u64);
            if taken == offered {
                link.window.taken_whole();
            } else {
                link.worker.numbers.windows_taken_in_part_total.add(1);
                link.window.taken_in_part(taken);
                ahead.give_up();
            }
            if taken == 0 {
                link.back_off().await?;
            }
            yield_now().await;
        }
        Ok(())
    }
}
