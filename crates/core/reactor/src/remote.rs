//! Wakes a reactor from other threads, by a counter in the kernel (eventfd).

use crate::{Fd, op, sleep};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Wakes one reactor, from any thread.
#[derive(Clone, Debug)]
pub struct Remote(Arc<OwnedFd>);

/// The reactor's end: waits to be woken.
#[derive(Debug)]
pub struct Woken(OwnedFd);

/// Makes the two ends. Both decide what a wake-up means: look at the state that they share.
///
/// # Errors
/// If no descriptor is left.
pub fn remote() -> io::Result<(Remote, Woken)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let other = fd.try_clone()?;
    Ok((Remote(Arc::new(fd)), Woken(other)))
}

impl Remote {
    /// Wakes the reactor; many wake-ups may be seen as one.
    pub fn wake(&self) {
        // EAGAIN means that the counter is full: the reactor will wake all the same.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Woken {
    /// Waits on this thread's reactor for wake-ups, calling `on_wake` after each until it returns false.
    ///
    /// # Errors
    /// If the kernel refuses the poll.
    pub async fn each(self, mut on_wake: impl FnMut() -> bool) -> io::Result<()> {
        let fd = Fd::from(self.0);
        loop {
            match op::readable(&fd).await.0 {
                Ok(_) => {}
                // The kernel is short of memory, which does not last.
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                    sleep(op::SHORTAGE_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
            let mut counter = [0u8; 8];
            let _ = rustix::io::read(fd.borrowed(), &mut counter);
            if !on_wake() {
                return Ok(());
            }
        }
    }
}
