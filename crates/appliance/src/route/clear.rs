//! Without TLS: read and send, or have the kernel send by itself (`pour`).

use super::link::Link;
use super::pour::{Lent, Pour};
use crate::end::End;
use crate::outgoing::Outgoing;
use crypt::Alert;
use net::Window;
use std::time::Instant;

/// A connection without TLS.
///
/// Packets that wait in the kernel may still refer to a file's pages. Until the viewer has them, the file is held still;
/// if that ends, or the connection does, what waits is thrown away.
pub struct Clear {
    pub(super) link: Link,
    lent: Lent,
}

impl Clear {
    /// Takes a new connection.
    pub fn new(mut link: Link) -> Self {
        if link.worker.in_kernel.sends_files {
            link.window = Window::new(link.worker.sendfile_bytes_max());
        }
        Self { link, lent: Lent::default() }
    }

    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        if self.lent.is_some() {
            // Boxed: it lasts a round trip, and everybody waits in this future for a request.
            Box::pin(self.await_request_or_acknowledgement()).await?;
        }
        self.link.receive(input).await
    }

    /// Waits for the viewer to ask or to have everything, whichever is first.
    async fn await_request_or_acknowledgement(&mut self) -> Result<(), End> {
        let link = &self.link;
        while link.socket.unacknowledged_bytes() > 0 {
            let look = Instant::now() + super::pour::RECALL_LOOKED_FOR;
            if reactor::timeout_at(look, link.socket.readable()).await.is_ok() {
                return Ok(());
            }
            self.lent.check()?;
        }
        self.lent.clear();
        Ok(())
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        let mut pour = Pour::new(&self.link.worker, outgoing);
        while pour.step(&mut self.link, &mut self.lent).await?.is_some() {}
        Ok(())
    }

    /// Says nothing: there is no TLS to say `_alerts` by.
    pub(super) fn finish(&self, _alerts: &[Alert]) {
        self.link.socket.finish();
    }

    /// Waits until the viewer has everything.
    pub(super) async fn settle(&mut self) -> Result<(), End> {
        self.lent.settle(&self.link).await
    }
}

impl Drop for Clear {
    fn drop(&mut self) {
        if self.lent.is_some() && self.link.socket.unacknowledged_bytes() > 0 {
            self.link.socket.reset_on_close();
        }
    }
}
