//! Responses that viewers get while they arrive, and share: long ones, and those whose length only their end shows.
//!
//! A long one that will be stored is for all who may share it, as it would be once it is there. It is fetched to its end, as far as few such are
//! fetched without a viewer.
//!
//! Others have no length.
//! A part of a stream, such as a segment that is still being made, is for all viewers who may share it, and so is what has a lifetime: those who come
//! later get what has arrived, and then the rest, from the one fetch. It goes on for as long as one of them is there, and is stored once it is
//! complete. Any other one, such as a page, events or pictures of a camera, is for its one viewer: many that are about that viewer don't say so.

use super::leaving::Viewer;
use super::receiving::{Arrived, Pause, Ready, Rest};
use super::{Helper, shortened};
use crate::contract::{
    BLOCK_BYTES, EdgeTold, ForwardedRequest, PassedResponse, RING_BYTES, Trouble,
};
use crate::http_cache::{
    CacheStatus, Fields, ForwardReason, ForwardStatus, RequestDirectives, ResponseKind, Tags,
};
use crate::origin::Refused;
use crate::store::{Epoch, StoredResponse, Use};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The most at the same time, in addition to the requests that have slots: some are events or pictures of a camera, without an end, and must not
/// block others.
pub(super) const AT_ONCE_MAX: usize = 64;

/// How long growth waits to be announced together with more of it, and how much it is at most.
const ANNOUNCED_AFTER: Duration = Duration::from_millis(10);
const ANNOUNCED_BYTES: u64 = 256 << 10;

/// More than comes from an origin's connection at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A ring is never full of bytes of which the viewer, or the helper, has not learned: the viewer's are reported in quarters of a ring.
const _: () = assert!(ANNOUNCED_BYTES + 2 * CHUNK_BYTES + RING_BYTES / 4 < RING_BYTES);

/// How far a response has arrived, and how that has ended.
#[derive(Clone, Default)]
struct Progress {
    bytes: u64,
    end: Option<Result<(), Refused>>,
}

/// One that viewers share.
pub(super) struct Growing {
    /// As it will be stored, but for its length.
    response: StoredResponse,
    /// Its length, if that is known.
    size: Option<u64>,
    /// The epoch of its path when the origin was asked.
    asked: Epoch,
    /// Each receiver is a [`Share`].
    progress: watch::Sender<Progress>,
}

/// A viewer's share of one: it arrives for as long as there is any.
pub(super) struct Share(watch::Receiver<Progress>);

/// Those that viewers share, by their paths: at most [`AT_ONCE_MAX`], and of those with a length as many as the origin has requests.
#[derive(Default)]
pub(super) struct GrowingResponses(Mutex<HashMap<String, Vec<Arc<Growing>>>>);

impl Share {
    /// Why no more of the response arrives, if it has failed.
    pub(super) fn failure(&self) -> Option<Refused> {
        self.0.borrow().end.clone()?.err()
    }

    /// Waits until no more of the response arrives.
    pub(super) async fn ended(mut self) {
        let _ = self.0.wait_for(|progress| progress.end.is_some()).await;
    }
}

/// The blocks that are whole once these bytes of a response have arrived.
pub(super) fn blocks_of(bytes: u64, size: u64) -> u64 {
    if bytes == size { size.div_ceil(BLOCK_BYTES) } else { bytes / BLOCK_BYTES }
}

impl Growing {
    /// So much has arrived. This comes before it is announced: a viewer who joins learns what had arrived before.
    pub(super) fn note(&self, bytes: u64) {
        self.progress.send_modify(|progress| progress.bytes = bytes);
    }

    /// Waits until no viewer has a share.
    pub(super) async fn deserted(&self) {
        self.progress.closed().await;
    }
}

impl GrowingResponses {
    /// A response to a request that was sent in the epoch `asked` is for all viewers from now on.
    fn begin(
        &self,
        response: StoredResponse,
        size: Option<u64>,
        asked: Epoch,
    ) -> (Arc<Growing>, Share) {
        let (progress, share) = watch::channel(Progress::default());
        let path = response.path.clone();
        let growing = Arc::new(Growing { response, size, asked, progress });
        self.lock().entry(path).or_default().push(Arc::clone(&growing));
        (growing, Share(share))
    }

    /// The latest one at `path` that `request` selects, with a share of it.
    fn find(&self, path: &str, request: &Fields) -> Option<(Arc<Growing>, Share)> {
        let all = self.lock();
        let mut latest_first = all.get(path)?.iter().rev();
        let growing = latest_first.find(|one| one.response.selecting.matches(request))?;
        Some((Arc::clone(growing), Share(growing.progress.subscribe())))
    }

    /// Whether there is one at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.lock().contains_key(path)
    }

    /// No viewer can join any more, and those who have learn the end.
    fn end(&self, growing: &Growing, end: Result<(), Refused>) {
        remove(&mut self.lock(), growing);
        growing.progress.send_modify(|progress| progress.end = Some(end));
    }

    /// Ends a response if no viewer has a share of it. Returns whether that is so.
    pub(super) fn end_if_deserted(&self, growing: &Growing) -> bool {
        let mut all = self.lock();
        let is_deserted = growing.progress.receiver_count() == 0;
        if is_deserted {
            remove(&mut all, growing);
        }
        is_deserted
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Growing>>>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

fn remove(all: &mut HashMap<String, Vec<Arc<Growing>>>, growing: &Growing) {
    let Some(at_path) = all.get_mut(&growing.response.path) else { return };
    at_path.retain(|one| one.response.number != growing.response.number);
    if at_path.is_empty() {
        all.remove(&growing.response.path);
    }
}

/// The refusal of one more.
pub(super) fn no_place(path: &str) -> Refused {
    let said = format!(
        "{path}: {AT_ONCE_MAX} responses are open already that have no Content-Length, such as event streams, or are too long for the cache's disk"
    );
    (Trouble::Full, said)
}

/// Whether viewers share a response while it arrives, if it may be stored.
fn is_for_all(response: &StoredResponse) -> bool {
    let kind = ResponseKind::of(&response.path, response.fields.first("content-type"));
    kind != ResponseKind::Other || !response.lifetime.fresh.is_zero()
}

impl Helper {
    /// A response goes to its viewer while it grows. Others can join if it is for all.
    pub(super) fn grow(
        self: &Arc<Self>,
        mut rest: Rest,
        response: PassedResponse,
        read: File,
    ) -> Ready {
        let Some((stored, asked)) = rest.to_store().filter(|(stored, _)| is_for_all(stored)) else {
            return Ready::arriving(response, read, rest);
        };
        let (growing, share) = self.growing_responses.begin(stored.clone(), None, asked);
        rest.shared = Some(growing);
        tokio::spawn(Arc::clone(self).receive_shared(rest));
        Ready::shared(response, read, share)
    }

    /// A long response goes to its viewer while it arrives. Others can join if it will be stored.
    pub(super) fn share_long(
        self: &Arc<Self>,
        mut rest: Rest,
        response: PassedResponse,
        read: File,
    ) -> Ready {
        let Some((stored, asked)) = rest.to_store() else {
            return Ready::arriving(response, read, rest);
        };
        let (growing, share) = self.growing_responses.begin(stored.clone(), response.size, asked);
        rest.shared = Some(growing);
        tokio::spawn(Arc::clone(self).receive_shared(rest));
        Ready::shared(response, read, share)
    }

    async fn receive_shared(self: Arc<Self>, rest: Rest) {
        self.receive_rest(rest).await;
    }

    /// A share of an arriving response for a request that was made at `since`, if there is one that may answer it.
    pub(super) fn join_growing(
        &self,
        path: &str,
        request: &ForwardedRequest,
        since: std::time::Instant,
    ) -> Option<Ready> {
        if request.method != "GET" {
            return None;
        }
        let (growing, share) = self.growing_responses.find(path, &request.fields)?;
        let Growing { response: known, asked, .. } = &*growing;
        let (now, said) = (std::time::Instant::now(), RequestDirectives::of(&request.fields));
        let is_usable =
            known.use_for(&said, now) == Use::Now || known.came_after(since, &said, now);
        let outdated = self.responses().outdated(path, &Tags::of(&known.fields), *asked);
        if !is_usable || outdated.is_some() {
            return None;
        }
        let file = self.store.open_response(known.number).ok()?;
        let mut fields = known.fields.clone();
        let origin = ForwardStatus { why: ForwardReason::UriMiss, status: known.status };
        let collapsed = CacheStatus::Forwarded { origin, is_stored: true, is_collapsed: true };
        collapsed.add_to(&mut fields);
        let response = PassedResponse {
            object: known.number,
            status: known.status,
            fields,
            size: growing.size,
            age_ms: Some(known.age(now).as_millis() as u64),
            is_complete: false,
            is_hit: true,
            is_stored: true,
            failure: None,
            length: None,
        };
        Some(Ready::shared(response, file, share))
    }

    /// Holds the share of a viewer whose response has been reported, until that leaves or has all of it.
    pub(super) async fn hold_share(
        self: Arc<Self>,
        (object, size): (u64, Option<u64>),
        viewer: Viewer,
        share: Share,
    ) {
        let Share(mut progress) = share;
        let Progress { bytes, end } = progress.borrow().clone();
        let is_whole = end.is_some();
        // What has been reported before this viewer's response may have found no viewer. A failure counts once.
        match end {
            Some(Err((why, _))) => self.tell(EdgeTold::Ended { object, why }),
            _ => match size {
                Some(size) => {
                    let (end, fetched_bytes) = (blocks_of(bytes, size), 0);
                    self.tell(EdgeTold::There { object, first: 0, end, fetched_bytes });
                }
                None => self.tell(EdgeTold::Grown { object, bytes, is_whole }),
            },
        }
        tokio::select! {
            () = viewer.left() => {}
            _ = progress.wait_for(|progress| progress.end.is_some()) => {}
        }
    }

    /// Takes in a response that grows, and announces how far it has.
    pub(super) async fn receive_growing(&self, mut rest: Rest) {
        let refused = loop {
            self.announce(&rest);
            let more = Pause { until: None, at_bytes: rest.done + 1 };
            let mut arrived = self.receive_body(&mut rest, Some(more), |_| {}).await;
            if matches!(arrived, Ok(Arrived::Partly)) {
                let until = Some(Instant::now() + ANNOUNCED_AFTER);
                let together = Pause { until, at_bytes: rest.done + ANNOUNCED_BYTES };
                arrived = self.receive_body(&mut rest, Some(together), |_| {}).await;
            }
            match arrived {
                Ok(Arrived::Partly) => {}
                Ok(Arrived::Whole) if rest.has_all() => return self.finish_growing(rest),
                Ok(Arrived::Whole) => break rest.too_short(),
                Ok(Arrived::Enough) => return self.forget_response(rest.number),
                Err(refused) => break refused,
            }
        };
        let object = rest.number;
        self.forget_response(object);
        self.announce(&rest);
        self.end_shared(rest.shared.as_ref(), Err(refused.clone()));
        self.tell_failed(object, refused);
    }

    fn announce(&self, rest: &Rest) {
        if let Some(growing) = &rest.shared {
            growing.note(rest.done);
        }
        let (object, bytes) = (rest.number, rest.done);
        self.tell(EdgeTold::Grown { object, bytes, is_whole: false });
    }

    fn finish_growing(&self, rest: Rest) {
        let (object, bytes) = (rest.number, rest.done);
        self.announce(&rest);
        let growing = rest.shared.clone();
        // Viewers who can no longer join it find it where it is stored. None waits for the disk.
        self.finish_response(rest, || {
            self.end_shared(growing.as_ref(), Ok(()));
            self.tell(EdgeTold::Grown { object, bytes, is_whole: true });
        });
    }

    /// No more of a response that viewers may share arrives.
    pub(super) fn end_shared(&self, shared: Option<&Arc<Growing>>, end: Result<(), Refused>) {
        if let Some(growing) = shared {
            self.growing_responses.end(growing, end);
        }
    }

    fn tell_failed(&self, object: u64, (why, said): Refused) {
        let said = shortened(&said);
        self.tell(EdgeTold::Failed { object, first: 0, end: 1, why, said });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetcher::origin_answer::stored;
    use crate::fetcher::passing::Now;

    #[test]
    fn only_what_is_of_a_stream_or_has_a_lifetime_is_shared_while_it_arrives() {
        for (path, fields, expected) in [
            ("/1.m4s", &[][..], true),
            ("/1.m4s", &[("Cache-Control", "no-cache")], true),
            ("/live", &[("Content-Type", "video/mp2t")], true),
            ("/live.m3u8", &[], true),
            ("/page", &[], false),
            ("/page", &[("Cache-Control", "no-cache")], false),
            ("/page", &[("Cache-Control", "max-age=0"), ("Content-Type", "text/html")], false),
            ("/page", &[("Cache-Control", "max-age=5")], true),
            ("/page", &[("Cache-Control", "max-age=5"), ("Age", "5")], false),
        ] {
            let (fields, request) = (Fields::of(fields), Fields::default());
            let response =
                stored((path, 1), (200, &fields), &request, (Now::read(), Default::default()));
            assert_eq!(is_for_all(&response), expected, "{path} {fields:?}");
        }
    }
}
