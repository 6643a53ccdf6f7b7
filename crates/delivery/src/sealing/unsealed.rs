//! Without TLS: read and send, or let the kernel send by itself (`sendfile`).

use super::{Abilities, Sealing};
use crate::end::End;
use crate::leased::{Leased, RECALL_LOOKED_FOR};
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::sendfile::Sendfile;
use crate::unsent::PAGES;
use crypt::Alert;
use net::{Socket, Window};
use std::rc::Rc;
use std::time::Instant;

/// No protection.
///
/// Packets that wait in the kernel may still refer to a file's pages, so the file is held still until the viewer has
/// them. If the lease or the connection ends before that, the waiting packets are discarded.
pub struct Unsealed {
    /// The connection's socket, for its end. Fields are dropped in order: it has to close before the lease ends.
    socket: Socket,
    leased: Leased,
}

impl Unsealed {
    pub(crate) fn new(link: &mut Link) -> Self {
        if link.resources.offload.sends_files {
            link.window = Window::new(link.resources.limits.sendfile_bytes_max);
        }
        Self::over(link)
    }

    /// For a connection that has its window.
    pub(crate) fn over(link: &Link) -> Self {
        Self { leased: Leased::default(), socket: link.socket.clone() }
    }

    /// Whether the kernel may still refer to the pages of a file.
    pub(crate) fn needs_file(&mut self) -> bool {
        if self.leased.is_some() && self.socket.unacknowledged_bytes() == 0 {
            self.leased.clear();
        }
        self.leased.is_some()
    }

    /// Waits until the viewer asks for something or has everything, whichever comes first.
    async fn await_request_or_acknowledgement(&mut self, link: &Link) -> Result<(), End> {
        while link.socket.unacknowledged_bytes() > 0 {
            let look = Instant::now() + RECALL_LOOKED_FOR;
            if reactor::timeout_at(look, link.socket.readable()).await.is_ok() {
                return Ok(());
            }
            self.leased.check()?;
        }
        self.leased.clear();
        Ok(())
    }
}

impl Sealing<Socket> for Unsealed {
    fn open(&mut self, _link: &Link, _input: &mut Vec<u8>) -> Result<(), End> {
        Ok(())
    }

    fn arriving<'a>(&'a mut self, input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        input
    }

    async fn before_waiting(&mut self, link: &Link) -> Result<(), End> {
        if self.leased.is_some() {
            // Boxed: it lasts a round trip, and everybody waits in this future for a request.
            Box::pin(self.await_request_or_acknowledgement(link)).await?;
        }
        Ok(())
    }

    async fn send(&mut self, link: &mut Link, outgoing: &Rc<Outgoing>) -> Result<(), End> {
        let can =
            Abilities { sends_files: link.resources.offload.sends_files, changes_keys: false };
        let mut sendfile = Sendfile::new(link, outgoing, can, PAGES);
        while sendfile.step(link, &mut self.leased).await?.is_some() {}
        sendfile.end(link);
        Ok(())
    }

    /// Does nothing: without TLS there are no alerts.
    fn say(&mut self, _link: &Link, _alerts: &[Alert]) {}

    /// Waits until the viewer has everything.
    async fn settle(&mut self, link: &Link) -> Result<(), End> {
        self.leased.settle(link).await
    }
}

impl Drop for Unsealed {
    fn drop(&mut self) {
        if self.needs_file() {
            self.socket.reset_on_close();
        }
    }
}
