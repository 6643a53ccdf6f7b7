//! The file whose pages the kernel may still refer to. Its read lease is kept until the kernel no longer does.

use crate::end::End;
use crate::link::Link;
use disk::{File, ReadError};
use reactor::timeout_at;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a waiting session checks whether a program wants to write to its file: often enough for a person who waits
/// at a keyboard, and a small part of the 45 s that the kernel waits.
pub(crate) const RECALL_LOOKED_FOR: Duration = Duration::from_secs(1);

/// The file whose pages the kernel may still refer to.
#[derive(Default)]
pub(crate) struct Leased(Option<Rc<File>>);

impl Leased {
    /// The kernel may refer to the pages of `file` from now on.
    pub(crate) fn set(&mut self, file: &Rc<File>) {
        self.0 = Some(Rc::clone(file));
    }

    /// Whether there is such a file.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The kernel no longer refers to any file.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Checks whether a program waits to write to the file.
    ///
    /// # Errors
    /// [`ReadError::Recalled`].
    pub(crate) fn check(&self) -> Result<(), End> {
        let recalled = self.0.as_ref().is_some_and(|file| file.is_recalled());
        if recalled { Err(ReadError::Recalled.into()) } else { Ok(()) }
    }

    /// Waits for `socket` to be readable or writable, as `wait` does, and checks the file from time to time.
    ///
    /// # Errors
    /// [`ReadError::Recalled`]; [`End::SendTimeout`] at the deadline.
    pub(crate) async fn watch_while<F: Future>(
        &self,
        deadline: Instant,
        mut wait: impl FnMut() -> F,
    ) -> Result<F::Output, End> {
        loop {
            let look = deadline.min(Instant::now() + RECALL_LOOKED_FOR);
            if let Ok(output) = timeout_at(look, wait()).await {
                return Ok(output);
            }
            self.check()?;
            if Instant::now() >= deadline {
                return Err(End::SendTimeout);
            }
        }
    }

    /// Waits until the viewer has everything, so that the kernel no longer refers to any file.
    ///
    /// # Errors
    /// As [`Self::watch_while`].
    pub(crate) async fn settle(&mut self, link: &Link) -> Result<(), End> {
        if self.is_some() {
            link.acknowledged(|| self.check()).await?;
        }
        self.clear();
        Ok(())
    }
}
