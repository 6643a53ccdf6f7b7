//! What a server leaves to the next one: its listeners.

use super::Reception;
use net::listener;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where plain HTTP comes to. The next server may use it in the other way.
pub(crate) enum PlainListener {
    /// Viewers are sent on to HTTPS.
    Redirect(OwnedFd),
    /// The helper for certificates answers the authority.
    Challenges(OwnedFd),
}

impl PlainListener {
    /// The listener.
    pub(crate) fn listener(&self) -> &OwnedFd {
        match self {
            Self::Redirect(listener) | Self::Challenges(listener) => listener,
        }
    }
}

/// A server's listeners, besides the workers' own descriptors of them. The main thread and the door both decide what becomes of them.
pub(crate) struct Estate {
    /// In the order in which they began to listen.
    pub(crate) viewers: Vec<OwnedFd>,
    pub(crate) admin: OwnedFd,
    /// Where plain HTTP comes to, if anywhere.
    pub(crate) plain: Option<PlainListener>,
    /// How viewers' connections come to this server; none if it has no listeners for them.
    reception: Option<Reception>,
    is_shared: AtomicBool,
    is_ending: AtomicBool,
}

impl Estate {
    pub(crate) fn new(
        viewers: Vec<OwnedFd>,
        admin: OwnedFd,
        plain: Option<PlainListener>,
        reception: Option<Reception>,
        is_shared: bool,
    ) -> Self {
        let (is_shared, is_ending) = (AtomicBool::new(is_shared), AtomicBool::new(false));
        Self { viewers, admin, plain, reception, is_shared, is_ending }
    }

    /// The listener at which this server sends viewers on to HTTPS.
    pub(crate) fn redirect(&self) -> Option<&OwnedFd> {
        match &self.plain {
            Some(PlainListener::Redirect(listener)) => Some(listener),
            Some(PlainListener::Challenges(_)) | None => None,
        }
    }

    /// Notes whether another server accepts from the listeners, or may do so again.
    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::SeqCst);
    }

    /// Whether another server accepts from the listeners, or may do so again.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// Whether this server ends anyway, and so cannot be asked for anything.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Stops listening for viewers, unless another server accepts from the listeners. Connections that wait at them are lost.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        if !self.is_shared() {
            self.viewers.iter().for_each(listener::stop);
        }
    }

    /// Likewise for the admin pages, and for plain HTTP.
    pub(crate) fn stop_admin(&self) {
        if !self.is_shared() {
            listener::stop(&self.admin);
            self.redirect().into_iter().for_each(listener::stop);
        }
    }

    /// Has viewers' connections come to the listeners as this server's configuration says.
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub(crate) fn receive(&self) -> io::Result<()> {
        self.reception.as_ref().map_or(Ok(()), |reception| reception.set(&self.viewers))
    }
}
