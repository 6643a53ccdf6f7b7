//! Without TLS: read and send, or let the kernel send from the page cache (`sendfile`).

use super::{Abilities, Sealing};
use crate::end::End;
use crate::inbound::Unread;
use crate::leased::SentPages;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::sendfile::Sendfile;
use crate::unsent::PAGES;
use net::{Socket, Window};
use std::rc::Rc;
use tls::Alert;

/// No protection.
///
/// Packets that wait in the kernel may still refer to a file's pages, so its lease is held until the viewer has them.
pub struct Plaintext(SentPages);

impl Plaintext {
    pub(crate) fn new(link: &mut Link) -> Self {
        if link.resources.offload.sends_files {
            link.window = Window::new(link.resources.limits.sendfile_bytes_max);
        }
        Self::over(link)
    }

    /// For a connection that already has its window.
    pub(crate) fn over(link: &Link) -> Self {
        Self(SentPages::new(link))
    }

    /// Returns true if the kernel may still refer to the pages of a file.
    pub(crate) fn needs_file(&mut self) -> bool {
        self.0.needs_file()
    }
}

impl Sealing<Socket> for Plaintext {
    fn open(&mut self, _link: &Link, _input: &mut Vec<u8>) -> Result<(), End> {
        Ok(())
    }

    fn arriving<'a>(&'a mut self, input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        input
    }

    async fn before_waiting(&mut self, link: &Link) -> Result<(), End> {
        if self.0.leased.is_some() {
            // Boxed: it lasts a round trip, and every idle viewer waits in this future for a request.
            Box::pin(self.0.await_request_or_acknowledgement(link)).await?;
        }
        Ok(())
    }

    async fn send(
        &mut self,
        link: &mut Link,
        outgoing: &Rc<Outgoing>,
        _input: &mut Vec<u8>,
    ) -> Result<(), End> {
        let can =
            Abilities { sends_files: link.resources.offload.sends_files, ..Abilities::default() };
        let mut sendfile = Sendfile::new(link, outgoing, can, PAGES);
        while sendfile.step(link, &mut self.0.leased, &mut Unread).await?.is_some() {}
        sendfile.end(link);
        Ok(())
    }

    /// Does nothing: without TLS there are no alerts.
    fn say(&mut self, _link: &Link, _alerts: &[Alert]) {}

    /// Waits until the viewer has everything.
    async fn settle(&mut self, link: &Link) -> Result<(), End> {
        self.0.leased.settle(link).await
    }
}
