//! The listeners that a server hands over to the next one.

use super::ListenerSetup;
use net::listener;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The listener for plain HTTP. The next server may use it for the other purpose.
pub(crate) enum PlainListener {
    /// Viewers are redirected to HTTPS.
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

/// A server's listeners, besides the workers' own descriptors of them. The main thread and the upgrade thread share the decision about closing them.
pub(crate) struct ListenerSet {
    /// The viewers' listeners, in the order in which they began to listen.
    pub(crate) viewers: Vec<OwnedFd>,
    pub(crate) admin: OwnedFd,
    /// The listener for plain HTTP, if any.
    pub(crate) plain: Option<PlainListener>,
    /// How viewers' connections are assigned to this server's listeners; none if it has no listeners for them.
    setup: Option<ListenerSetup>,
    is_shared: AtomicBool,
    is_ending: AtomicBool,
}

impl ListenerSet {
    pub(crate) fn new(
        viewers: Vec<OwnedFd>,
        admin: OwnedFd,
        plain: Option<PlainListener>,
        setup: Option<ListenerSetup>,
        is_shared: bool,
    ) -> Self {
        let (is_shared, is_ending) = (AtomicBool::new(is_shared), AtomicBool::new(false));
        Self { viewers, admin, plain, setup, is_shared, is_ending }
    }

    /// The listener that redirects viewers to HTTPS.
    pub(crate) fn redirect(&self) -> Option<&OwnedFd> {
        match &self.plain {
            Some(PlainListener::Redirect(listener)) => Some(listener),
            Some(PlainListener::Challenges(_)) | None => None,
        }
    }

    /// Records whether another server accepts from the listeners, or may do so again.
    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::SeqCst);
    }

    /// Whether another server accepts from the listeners, or may do so again.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// Whether this server is ending, and so cannot hand anything over.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Stops listening for viewers, unless another server accepts from the listeners. Connections that wait in them are lost.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        if !self.is_shared() {
            self.viewers.iter().for_each(listener::stop);
        }
    }

    /// The same for the admin pages, and for plain HTTP.
    pub(crate) fn stop_admin(&self) {
        if !self.is_shared() {
            listener::stop(&self.admin);
            self.redirect().into_iter().for_each(listener::stop);
        }
    }

    /// Makes the listeners receive viewers' connections as this server's configuration says.
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub(crate) fn receive(&self) -> io::Result<()> {
        self.setup.as_ref().map_or(Ok(()), |setup| setup.set(&self.viewers))
    }
}
