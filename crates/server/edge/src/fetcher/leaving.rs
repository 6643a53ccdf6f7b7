//! Viewers who leave before they have their responses: work that is for them alone stops.

use crate::contract::Trouble;
use crate::origin::Refused;
use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

/// The viewers for whom there is work, by their tickets.
#[derive(Clone, Default)]
pub(super) struct Viewers(Arc<Mutex<HashMap<u64, Arc<Leaving>>>>);

#[derive(Default)]
struct Leaving {
    has_left: AtomicBool,
    /// How many bytes of its response it has.
    taken: AtomicU64,
    news: Notify,
}

/// One of them, until this is dropped.
pub(super) struct Viewer {
    pub(super) ticket: u64,
    leaving: Arc<Leaving>,
    all: Viewers,
}

impl Viewers {
    /// There is work for the viewer with this ticket.
    pub(super) fn begin(&self, ticket: u64) -> Viewer {
        let leaving = Arc::<Leaving>::default();
        self.lock().insert(ticket, Arc::clone(&leaving));
        Viewer { ticket, leaving, all: self.clone() }
    }

    /// The viewer with this ticket has left. Without work for it, nothing happens.
    pub(super) fn leave(&self, ticket: u64) {
        if let Some(leaving) = self.lock().get(&ticket) {
            leaving.has_left.store(true, Relaxed);
            leaving.news.notify_one();
        }
    }

    /// The viewer with this ticket has this many bytes of its response.
    pub(super) fn take(&self, ticket: u64, bytes: u64) {
        if let Some(leaving) = self.lock().get(&ticket) {
            leaving.taken.fetch_max(bytes, Relaxed);
            leaving.news.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Leaving>>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

impl Viewer {
    /// Whether it has left.
    pub(super) fn has_left(&self) -> bool {
        self.leaving.has_left.load(Relaxed)
    }

    /// Waits until it has left.
    pub(super) async fn left(&self) {
        while !self.has_left() {
            // One task waits for a viewer, and a notice before it does so is kept for it.
            self.leaving.news.notified().await;
        }
    }

    /// Waits until more may come after `done` bytes of its response, so that it has all but `bytes_max` of them. Returns how many; none if it has
    /// left.
    pub(super) async fn room(&self, done: u64, bytes_max: u64) -> u64 {
        loop {
            let taken = self.leaving.taken.load(Relaxed);
            let room = bytes_max.saturating_sub(done.saturating_sub(taken));
            if self.has_left() || room > 0 {
                return if self.has_left() { 0 } else { room };
            }
            self.leaving.news.notified().await;
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.all.lock().remove(&self.ticket);
    }
}

/// Waits until a viewer has left; if there is none, forever.
pub(super) async fn left(viewer: Option<&Viewer>) {
    match viewer {
        Some(viewer) => viewer.left().await,
        None => pending().await,
    }
}

/// Does `work` for a viewer, unless it leaves and no other one waits for the end of `fetch`.
///
/// # Errors
/// Those of the work, or any if it was stopped.
pub(super) async fn unless_left<T>(
    viewer: Option<&Viewer>,
    fetch: Option<&watch::Sender<()>>,
    work: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = left(viewer) => {}
    }
    // One receiver is for those that may still come.
    if fetch.is_some_and(|fetch| fetch.receiver_count() > 1) {
        return work.await;
    }
    Err((Trouble::Unreachable, "the viewer has left".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How work ends that takes until this function has returned, if it is not stopped.
    async fn ends(viewer: &Viewer, fetch: Option<&watch::Sender<()>>) -> Result<u8, Trouble> {
        let (done, end) = tokio::sync::oneshot::channel();
        let work = async { Ok(end.await.unwrap_or(7)) };
        let mut stopped = pin!(unless_left(Some(viewer), fetch, work));
        let first = tokio::select! {
            biased;
            ended = &mut stopped => Some(ended),
            () = tokio::task::yield_now() => None,
        };
        let _ = done.send(8);
        let ended = match first {
            Some(ended) => ended,
            None => stopped.await,
        };
        ended.map_err(|(why, _)| why)
    }

    #[tokio::test]
    async fn a_viewer_makes_room_by_taking_what_is_there() {
        let viewers = Viewers::default();
        let viewer = viewers.begin(1);
        assert_eq!(viewer.room(3, 10).await, 7);
        viewers.take(1, 4);
        viewers.take(1, 2);
        assert_eq!(viewer.room(10, 10).await, 4, "an older report changes nothing");
        let (room, ()) = tokio::join!(viewer.room(14, 10), async { viewers.take(1, 5) });
        assert_eq!(room, 1);
        let (room, ()) = tokio::join!(viewer.room(15, 10), async { viewers.leave(1) });
        assert_eq!(room, 0);
        viewers.take(2, 1);
    }

    #[tokio::test]
    async fn work_for_a_viewer_stops_when_it_leaves_unless_others_share_it() {
        let viewers = Viewers::default();
        let viewer = viewers.begin(1);
        assert_eq!(ends(&viewer, None).await, Ok(8));
        viewers.leave(2);
        assert!(!viewer.has_left(), "another one has");
        viewers.leave(1);
        viewers.leave(1);
        assert!(viewer.has_left());
        assert_eq!(ends(&viewer, None).await, Err(Trouble::Unreachable));
        let (fetch, listed) = watch::channel(());
        assert_eq!(ends(&viewer, Some(&fetch)).await, Err(Trouble::Unreachable));
        let _other = listed.clone();
        assert_eq!(ends(&viewer, Some(&fetch)).await, Ok(8));
        drop(viewer);
        viewers.leave(1);
        assert!(viewers.lock().is_empty());
        assert!(!viewers.begin(1).has_left());
    }
}
