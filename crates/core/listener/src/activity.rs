//! The activity of a connection, as known to its requests: its stream sees only bytes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::places::HeldPlace;

/// The requests in progress on one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) place: HeldPlace,
    /// Running handlers.
    running: AtomicU32,
    /// Running handlers, and responses that aren't complete.
    open: AtomicU32,
    /// When a handler last ended or produced a piece of its response, in microseconds since [`beginning`].
    moved: AtomicU64,
}

/// A running handler. Dropping this marks its end.
#[derive(Debug)]
pub(crate) struct Running {
    activity: Arc<Activity>,
    open: OpenRequest,
}

/// A request whose response isn't complete. Dropping this marks it as sent or abandoned.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest(Arc<OpenInner>);

#[derive(Debug)]
struct OpenInner(Arc<Activity>);

fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}

impl Activity {
    pub(crate) fn new(place: HeldPlace) -> Arc<Self> {
        let activity = Self {
            place,
            running: AtomicU32::new(0),
            open: AtomicU32::new(0),
            moved: AtomicU64::new(0),
        };
        activity.touch();
        Arc::new(activity)
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Relaxed);
        if self.open.fetch_add(1, Relaxed) == 0 {
            self.place.is_busy();
        }
        let open = OpenRequest(Arc::new(OpenInner(Arc::clone(self))));
        Running { activity: Arc::clone(self), open }
    }

    /// Notes progress of a response.
    pub(crate) fn touch(&self) {
        let since = Instant::now().saturating_duration_since(beginning());
        self.moved.store(u64::try_from(since.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Whether a handler is running. Handlers limit their own time.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Relaxed) > 0
    }

    /// When a handler last ended or produced a piece of its response, or when the connection began.
    pub(crate) fn moved(&self) -> Instant {
        beginning() + Duration::from_micros(self.moved.load(Relaxed))
    }
}

impl Running {
    /// Begins to send the response.
    pub(crate) fn open_request(&self) -> OpenRequest {
        self.open.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.activity.running.fetch_sub(1, Relaxed);
        self.activity.touch();
    }
}

impl OpenRequest {
    /// Notes progress of the response.
    pub(crate) fn touch(&self) {
        self.0.0.touch();
    }
}

impl Drop for OpenInner {
    fn drop(&mut self) {
        self.0.touch();
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.place.is_waiting();
        }
    }
}
