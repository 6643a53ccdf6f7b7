//! The file whose pages the kernel may still refer to. Its read lease is kept until the kernel no longer does.

use crate::end::End;
use crate::inbound::Inbound;
use crate::link::Link;
use crate::once::{Once, drop_later, drop_now};
use disk::{File, ReadError};
use net::Socket;
use reactor::timeout_at;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a waiting session checks whether a program wants to write to its file: often enough for a person at a keyboard, and a small part of the
/// 45 s for which the kernel makes a writer wait.
pub(crate) const RECALL_LOOKED_FOR: Duration = Duration::from_secs(1);

/// The file whose pages the kernel may still refer to. Boxed, because connections that wait have none.
#[derive(Default)]
pub(crate) struct Leased(Option<Box<Held>>);

struct Held {
    file: Rc<File>,
    /// Parts of it that were loaded for this viewer alone.
    once: Once,
}

impl Leased {
    /// Records that the kernel may refer to the pages of `file` from now on.
    pub(crate) fn set(&mut self, file: &Rc<File>) {
        if !self.file().is_some_and(|held| Rc::ptr_eq(held, file)) {
            self.0 = Some(Box::new(Held { file: Rc::clone(file), once: Once::default() }));
        }
    }

    /// Returns true if there is such a file.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Rc<File>> {
        self.0.as_ref().map(|held| &held.file)
    }

    /// Records that the connection has taken `range` of the file, which is for this viewer alone. The range is dropped from the page cache once the
    /// viewer has it.
    pub(crate) fn note_once(&mut self, range: Range<u64>, link: &Link) {
        link.resources.numbers.sent_once_bytes_total.add(range.end - range.start);
        if let Some(held) = &mut self.0 {
            held.once.note(range, link.taken_bytes());
        }
    }

    /// Drops the single-use parts that the viewer has received.
    pub(crate) fn drop_acknowledged(&mut self, link: &Link) {
        if let Some(held) = self.0.as_mut().filter(|held| !held.once.is_empty()) {
            let unacknowledged = link.socket.unacknowledged_bytes();
            let has = held.once.acknowledged(link.taken_bytes(), unacknowledged);
            drop_now(held.file.fd(), has);
        }
    }

    /// Records that the kernel no longer refers to any file.
    pub(crate) fn clear(&mut self) {
        if let Some(mut held) = self.0.take() {
            drop_now(held.file.fd(), held.once.all());
        }
    }

    /// Checks whether a program waits to write to the file.
    ///
    /// # Errors
    /// [`ReadError::Recalled`].
    pub(crate) fn check(&self) -> Result<(), End> {
        let recalled = self.file().is_some_and(|file| file.is_recalled());
        if recalled { Err(ReadError::Recalled.into()) } else { Ok(()) }
    }

    /// As [`Self::check`], before one of many windows. It may notice a waiting program a moment later.
    ///
    /// # Errors
    /// [`ReadError::Recalled`].
    pub(crate) fn check_in_passing(&self) -> Result<(), End> {
        let recalled = self.file().is_some_and(|file| file.is_recalled_in_passing());
        if recalled { Err(ReadError::Recalled.into()) } else { Ok(()) }
    }

    /// Waits until TCP takes bytes, reads what arrives meanwhile, and checks the file from time to time.
    ///
    /// # Errors
    /// [`ReadError::Recalled`]; [`End::SendTimeout`] if the viewer took nothing for too long; those of `inbound`.
    pub(crate) async fn watch_until_writable(
        &self,
        link: &Link,
        inbound: &mut impl Inbound<Socket>,
    ) -> Result<(), End> {
        let mut stall = link.stall();
        loop {
            let look = stall.look_at().min(Instant::now() + RECALL_LOOKED_FOR);
            if let Ok(writable) = timeout_at(look, link.writable(inbound)).await {
                return writable;
            }
            self.check()?;
            link.look(&mut stall)?;
        }
    }

    /// Waits until the viewer has everything, so that the kernel no longer refers to any file.
    ///
    /// # Errors
    /// As [`Self::watch_until_writable`].
    pub(crate) async fn settle(&mut self, link: &Link) -> Result<(), End> {
        if self.is_some() {
            link.acknowledged(|| self.check()).await?;
        }
        self.clear();
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop_later(self.file.fd(), self.once.all());
    }
}

/// The file whose pages wait in a socket, to be sent or to be acknowledged. If the lease or the connection ends before that, the waiting packets are
/// discarded.
pub(crate) struct SentPages {
    /// A second handle of the socket, to reset it at the end. Fields are dropped in order: the socket has to close before the lease ends.
    socket: Socket,
    pub(crate) leased: Leased,
}

impl SentPages {
    pub(crate) fn new(link: &Link) -> Self {
        Self { leased: Leased::default(), socket: link.socket.clone() }
    }

    /// Returns true if the kernel may still refer to the pages of a file.
    pub(crate) fn needs_file(&mut self) -> bool {
        if self.leased.is_some() && self.socket.unacknowledged_bytes() == 0 {
            self.leased.clear();
        }
        self.leased.is_some()
    }

    /// Waits until the viewer requests something or has everything, whichever comes first.
    pub(crate) async fn await_request_or_acknowledgement(
        &mut self,
        link: &Link,
    ) -> Result<(), End> {
        while link.socket.unacknowledged_bytes() > 0 {
            let look = Instant::now() + RECALL_LOOKED_FOR;
            if timeout_at(look, link.socket.readable()).await.is_ok() {
                return Ok(());
            }
            self.leased.check()?;
        }
        self.leased.clear();
        Ok(())
    }
}

impl Drop for SentPages {
    fn drop(&mut self) {
        if self.needs_file() {
            self.socket.reset_on_close();
        }
    }
}
