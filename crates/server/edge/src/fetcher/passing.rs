//! Responses that are no objects: each viewer's request is answered with a stored response, or with the origin's (RFC 9111).
//!
//! A response whose length is known and more than a block goes to its viewer while it arrives. So does one without a length that takes longer than a
//! moment. Any other one is complete before the viewer gets its first byte. What may be stored is a file next to the objects; everything else is a
//! file without a name, which disappears with its last reader. Nothing is ever combined from two responses.

use super::fetching::may_be_held;
use super::leaving::{Viewer, unless_left};
use super::receiving::{Incoming, Ready};
use super::slots::{RequestPurpose, Slot};
use super::viewers_range::range_of;
use super::{Helper, origin_answer::FIELDS_BYTES_MAX, shortened};
use crate::contract::{EdgeTold, ForwardedRequest, PassedResponse, Trouble};
use crate::http_cache::{
    CacheStatus, Fields, Freshness, HELD_AFTER, LifetimeRule, NAME, Renewal, RequestDirectives,
    Tags, VIA, is_blocking_reload, is_invalidating, lifetime_for, renewal, update, validators,
};
use crate::origin::{Refused, answered_by};
use crate::policy::fields_of;
use crate::store::{Epoch, Responses, StoredResponse, Use};
use reqwest::Response;
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{SemaphorePermit, watch};
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout, timeout_at};

/// The most at the same time: a quarter of the requests to the origin.
pub(super) const AT_ONCE_MAX: usize = 16;

/// How often a viewer waits for another one's fetch of the same.
pub(super) const WAITS_MAX: u32 = 2;

/// How often a viewer's request looks again because the file of a stored response was gone. Then the origin is asked, whatever is in the folder.
const LOST_MAX: u32 = 3;

/// The most caches of this kind in a row; more are a loop (RFC 8586).
const LOOP_MAX: usize = 8;

/// A request that may change something is sent within this time, or not at all: its viewer is still there then (the server waits for 90 seconds), and
/// learns what came of it.
const SENT_WITHIN: Duration = Duration::from_secs(60);

/// Paths that are being fetched, so that viewers who come meanwhile can share what may be shared.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashMap<String, watch::Receiver<()>>>);

impl UnderWay {
    /// Begins a fetch of `path`, or returns what to wait for if another one has begun.
    pub(super) fn begin(&self, path: &str) -> Result<watch::Sender<()>, watch::Receiver<()>> {
        let mut under_way = self.0.lock().expect("no holder of this lock can panic");
        if let Some(receiver) = under_way.get(path) {
            // Its sender is dropped when the fetch is over.
            if receiver.has_changed().is_ok() {
                return Err(receiver.clone());
            }
        }
        let (sender, receiver) = watch::channel(());
        under_way.retain(|_, receiver| receiver.has_changed().is_ok());
        under_way.insert(path.to_owned(), receiver);
        Ok(sender)
    }
}

/// The stored response to a request.
enum Lookup {
    /// It answers the request.
    Hit(Arc<StoredResponse>),
    /// It answers the request, and has to be revalidated meanwhile (RFC 5861 section 3).
    HitWhileRevalidating(Arc<StoredResponse>),
    /// It has to be revalidated first.
    Stale(Arc<StoredResponse>),
    Miss,
}

impl Helper {
    /// Answers one viewer's request.
    pub(super) async fn pass(
        self: Arc<Self>,
        path: String,
        viewer: Viewer,
        (asker, since): (u64, std::time::Instant),
        request: ForwardedRequest,
    ) {
        let answered = match self.handed.take(asker) {
            Some(ready) => Ok(ready),
            None => self.respond(&path, (&request, since), &viewer).await,
        };
        let ticket = viewer.ticket;
        match answered {
            Ok(ready) => self.tell_ready(viewer, ready),
            Err(_) if viewer.has_left() => self.tell(EdgeTold::Stopped { ticket }),
            Err((why, said)) => {
                self.tell(EdgeTold::NotPassed { ticket, why, said: shortened(&said) });
            }
        }
    }

    /// The response to a request that was made at `since`.
    async fn respond(
        self: &Arc<Self>,
        path: &str,
        (request, since): (&ForwardedRequest, std::time::Instant),
        viewer: &Viewer,
    ) -> Result<Ready, Refused> {
        if is_loop(request) {
            let said = format!(
                "{path}: the request has passed {LOOP_MAX} edges: is an edge its own origin?"
            );
            return Err((Trouble::Wrong, said));
        }
        self.restore(path);
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return self.send_on(path, request, viewer).await;
        }
        if !self.may_keep_at(path) {
            return self.fetch_alone(path, request, viewer).await;
        }
        let (mut waits, mut lost) = (0, 0);
        loop {
            if let Some(ready) = self.join_growing(path, request, since) {
                return Ok(ready);
            }
            let known = match self.look_up(path, &request.fields, since) {
                Lookup::Hit(_) | Lookup::HitWhileRevalidating(_) if lost == LOST_MAX => None,
                Lookup::Hit(stored) => match self.hit(&stored) {
                    Some(ready) => return Ok(ready),
                    None => {
                        lost += 1;
                        continue;
                    }
                },
                Lookup::HitWhileRevalidating(stored) => match self.hit(&stored) {
                    Some(ready) => {
                        self.revalidate_later(path, request, stored);
                        return Ok(ready);
                    }
                    None => {
                        lost += 1;
                        continue;
                    }
                },
                Lookup::Stale(stored) => Some(stored),
                Lookup::Miss => None,
            };
            check_may_ask(path, request)?;
            // Those that come while another one fetches the same look again once its response is there, or cannot be shared.
            let fetch = match self.under_way.begin(path) {
                Ok(fetch) => Some(fetch),
                // What comes after the first wait may have been requested before this viewer came, but what comes after the second one was not. So if
                // something is stored then, and can't be used, this viewer gets a response of its own.
                Err(_) if waits == WAITS_MAX || waits > 0 && known.is_none() => None,
                Err(other) => {
                    self.wait_for_other(path, other, viewer).await?;
                    waits += 1;
                    continue;
                }
            };
            return self.fetch_for(path, (request, Some(viewer)), known, fetch).await;
        }
    }

    /// Whether responses at `path` may be kept: no rule forbids that, and there is no film that is larger than the cache.
    fn may_keep_at(&self, path: &str) -> bool {
        self.origins.rule(path).is_kept && !self.large_films.has(path)
    }

    /// The response for one viewer to a request for a path whose responses are not kept.
    async fn fetch_alone(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
        viewer: &Viewer,
    ) -> Result<Ready, Refused> {
        check_may_ask(path, request)?;
        self.fetch_for(path, (request, Some(viewer)), None, None).await
    }

    /// Waits until another viewer's fetch of `path` is over, or others can know that they can't share its response.
    async fn wait_for_other(
        &self,
        path: &str,
        mut other: watch::Receiver<()>,
        viewer: &Viewer,
    ) -> Result<(), Refused> {
        let over = timeout_at(Instant::now() + self.silent_max, other.changed());
        let over = async {
            let mut over = pin!(over);
            // What comes of it shows in what is stored.
            if timeout(HELD_AFTER, &mut over).await.is_err() {
                self.tell_held(path, Some(viewer));
                let _ = over.await;
            }
            Ok(())
        };
        unless_left(Some(viewer), None, over).await
    }

    /// A viewer waits for an answer that the origin holds, if it may do so.
    fn tell_held(&self, path: &str, viewer: Option<&Viewer>) {
        if let Some(viewer) = viewer.filter(|_| may_be_held(path)) {
            self.tell(EdgeTold::PassHeld { ticket: viewer.ticket });
        }
    }

    /// The stored response for a request that was made at `since`.
    fn look_up(&self, path: &str, request: &Fields, since: std::time::Instant) -> Lookup {
        let Some(stored) = self.responses().find(path, request) else { return Lookup::Miss };
        let (now, said) = (std::time::Instant::now(), RequestDirectives::of(request));
        self.space().use_of(stored.number, now);
        match stored.use_for(&said, now) {
            Use::Now => Lookup::Hit(stored),
            _ if stored.came_after(since, &said, now) => Lookup::Hit(stored),
            Use::WhileRevalidating => Lookup::HitWhileRevalidating(stored),
            Use::AfterRevalidation => Lookup::Stale(stored),
        }
    }

    /// A stored response for a viewer. One whose file is gone is forgotten.
    pub(super) fn hit(&self, stored: &StoredResponse) -> Option<Ready> {
        let now = std::time::Instant::now();
        let left = stored.fresh_left(now).as_secs() as i64;
        self.ahead.take_response(stored.number);
        let ttl = if left > 0 { left } else { -(stored.stale_for(now).as_secs() as i64) };
        self.answer_with(stored, CacheStatus::Hit { ttl })
    }

    pub(super) fn answer_with(
        &self,
        stored: &StoredResponse,
        status: CacheStatus,
    ) -> Option<Ready> {
        let file = match stored.size {
            0 => None,
            _ => match self.open_body(stored) {
                Ok(file) => Some(file),
                Err(_) => {
                    self.forget_response(stored.number);
                    return None;
                }
            },
        };
        let mut fields = stored.fields.clone();
        status.add_to(&mut fields);
        let response = PassedResponse {
            object: stored.number,
            status: stored.status,
            fields,
            size: Some(stored.size),
            age_ms: Some(stored.age(std::time::Instant::now()).as_millis() as u64),
            is_complete: true,
            is_hit: true,
            is_stored: true,
            failure: None,
            length: None,
        };
        Some(Ready::complete(response, file))
    }

    fn revalidate_later(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
        stored: Arc<StoredResponse>,
    ) {
        let Ok(fetch) = self.under_way.begin(path) else { return };
        // It may take longer than others wait for it.
        let Some(refreshed) = self.refreshed.take(path) else { return };
        let (helper, path) = (Arc::clone(self), path.to_owned());
        let request = ForwardedRequest { method: "GET".into(), ..request.clone() };
        tokio::spawn(async move {
            // If it fails, the stored response stays as it is.
            let ready = helper.fetch_for(&path, (&request, None), Some(stored), Some(fetch)).await;
            if let Ok(ready) = ready {
                helper.receive_all(ready).await;
            }
            drop(refreshed);
        });
    }

    /// Fetches a response, for a viewer if there is one, or revalidates the `known` one. `fetch` is dropped once others can know what came of it.
    async fn fetch_for(
        self: &Arc<Self>,
        path: &str,
        (request, viewer): (&ForwardedRequest, Option<&Viewer>),
        mut known: Option<Arc<StoredResponse>>,
        fetch: Option<watch::Sender<()>>,
    ) -> Result<Ready, Refused> {
        // A held request has left its turn to the next one.
        let turn = Mutex::new(unless_left(viewer, fetch.as_ref(), self.turn_at(path)).await?);
        let held = || {
            drop(turn.lock().expect("no holder of this lock can panic").take());
            self.tell_held(path, viewer);
        };
        let (asked, answer, slot) = loop {
            let asked = self.responses().epoch(path);
            let conditions = match &known {
                Some(known) => validators(&known.fields),
                None => range_of(request, self.may_keep_at(path)),
            };
            let answered = self.ask_for(path, request, &conditions, &held);
            let (answer, slot) = match unless_left(viewer, fetch.as_ref(), answered).await {
                Ok(answered) => answered,
                Err(refused) => return self.without_answer(known.as_deref(), refused),
            };
            let is_304 = answer.status().as_u16() == 304;
            let Some(confirmed) = known.take_if(|_| is_304) else {
                if is_304 {
                    // The request was unconditional, so the origin contradicts itself.
                    let said = format!("{path}: the origin said 304, which was not asked for");
                    return Err((Trouble::Wrong, said));
                }
                break (asked, answer, slot);
            };
            if let Some(ready) = self.not_modified(&confirmed, request, &answer, asked) {
                return Ok(ready);
            }
            // Its file is gone, so the origin has to send all of it.
        };
        if let Some(known) = &known {
            // Those of RFC 5861 section 4. Others may be about this viewer's request (429), or last (501).
            if matches!(answer.status().as_u16(), 500 | 502 | 503 | 504) {
                if let Some(ready) = self.stale(known, |lifetime| lifetime.if_error) {
                    return Ok(ready);
                }
            }
            if request.method == "HEAD" {
                self.update_by_head(known, request, &answer, asked);
            }
        }
        let is_awaited = viewer.is_some();
        let incoming =
            Incoming { path, request, is_awaited, viewer, answer, slot, fetch, known, asked };
        self.receive(incoming).await
    }

    /// Waits for the turn of a request for `path`. One that the origin will hold needs none.
    async fn turn_at(&self, path: &str) -> Result<Option<SemaphorePermit<'_>>, Refused> {
        if is_blocking_reload(path) {
            return Ok(None);
        }
        // A viewer that has waited for longer may be gone; those behind it in the queue are not.
        let deadline = Instant::now() + 3 * self.silent_max;
        let turn = timeout_at(deadline, self.passing.acquire()).await.ok().and_then(Result::ok);
        let said = || format!("{path}: too many responses are being passed through at once");
        turn.map(Some).ok_or_else(|| (Trouble::Full, said()))
    }

    /// Sends a request for reading. It is repeated if there is no answer, while any answer counts. Calls `held` if the origin holds it.
    async fn ask_for(
        &self,
        path: &str,
        request: &ForwardedRequest,
        conditions: &Fields,
        held: &impl Fn(),
    ) -> Result<(Response, Slot), Refused> {
        let forwarded = with_own_fields(request);
        let ask = || self.origins.forward(path, &forwarded, conditions);
        // Also for a revalidation: the slots for those are for films, and few enough.
        self.try_again_with_slot((path, RequestPurpose::New), ask, held).await
    }

    /// A stale response because the origin gave no answer, if that is allowed (RFC 9111 section 4.2.4). One that the origin no longer has is
    /// forgotten.
    fn without_answer(
        &self,
        known: Option<&StoredResponse>,
        refused: Refused,
    ) -> Result<Ready, Refused> {
        let Some(known) = known else { return Err(refused) };
        let stale = match refused.0 {
            // A bucket's refusals have no words for viewers, so they are no answers.
            Trouble::NotFound => {
                self.forget_response(known.number);
                None
            }
            Trouble::Unreachable | Trouble::TimedOut | Trouble::Wrong | Trouble::Redirected => {
                self.stale(known, |lifetime| lifetime.if_unreachable)
            }
            _ => None,
        };
        stale.ok_or(refused)
    }

    /// A stored response, if it has been stale for less time than it `lasts`.
    fn stale(
        &self,
        known: &StoredResponse,
        lasts: impl Fn(&Freshness) -> Duration,
    ) -> Option<Ready> {
        // It may have been made invalid since it was found.
        let known = self.responses().current(known.number)?;
        let is_allowed = known.stale_for(std::time::Instant::now()) < lasts(&known.lifetime);
        if is_allowed && !known.is_invalid { self.hit(&known) } else { None }
    }

    /// The origin, which was asked in the epoch `asked`, confirms a stored response (RFC 9111 section 4.3.4). Returns nothing if its file is
    /// gone.
    fn not_modified(
        &self,
        known: &StoredResponse,
        request: &ForwardedRequest,
        answer: &Response,
        asked: Epoch,
    ) -> Option<Ready> {
        let newer = self.fields_for_viewers(&known.path, answer);
        let mut fields = known.fields.clone();
        update(&mut fields, &newer);
        // The viewer whose request it was gets all of the answer, as far as it fits into a message.
        let shown = match fields.bytes() <= FIELDS_BYTES_MAX {
            true => confirmed(known, (&request.fields, fields), &newer, self.now_at(&known.path)),
            false => known.clone(),
        };
        let ready = self.answer_with(&shown, CacheStatus::CONFIRMED)?;
        self.ahead.take_response(known.number);
        self.renew(known, request, &newer, asked);
        Some(ready)
    }

    /// The fields of a response to a request for `path`, with URLs as viewers name them.
    fn fields_for_viewers(&self, path: &str, answer: &Response) -> Fields {
        let mut fields = fields_of(answer.headers());
        self.origins.localize(answered_by(answer), path, &mut fields);
        fields
    }

    /// The time, and the lifetimes that the operator sets for `path`.
    pub(super) fn now_at(&self, path: &str) -> (Now, LifetimeRule) {
        (Now::read(), self.origins.rule(path).lifetimes)
    }

    /// Stores what the origin's confirmation makes of a response, which its file has been seen for.
    fn renew(
        &self,
        known: &StoredResponse,
        request: &ForwardedRequest,
        newer: &Fields,
        asked: Epoch,
    ) {
        let stored = (&known.fields, &known.selecting);
        match renewal(&request.fields, known.status, stored, newer, FIELDS_BYTES_MAX) {
            Renewal::Renewed(fields) => {
                let now = self.now_at(&known.path);
                let renewed = confirmed(known, (&request.fields, fields), newer, now);
                let displaced = self.responses().renew(renewed, &request.fields, asked);
                displaced.into_iter().for_each(|number| self.forget_response(number));
                self.save_response(known.number);
            }
            Renewal::Unchanged => {}
            Renewal::Ended => self.forget_response(known.number),
        }
    }

    /// A response to HEAD updates the stored one if it is about the same version, and ends it if it is about another one (RFC 9111 section 4.3.5).
    fn update_by_head(
        &self,
        known: &StoredResponse,
        request: &ForwardedRequest,
        head: &Response,
        asked: Epoch,
    ) {
        if head.status() != 200 {
            return;
        }
        let newer = self.fields_for_viewers(&known.path, head);
        match is_of_same_version(known, &newer) {
            Some(true) => self.renew(known, request, &newer, asked),
            Some(false) => self.outdate(&known.path),
            None => {}
        }
    }

    /// Sends a request on that may change something, once, and makes invalid what it may have changed (RFC 9111 section 4.4).
    async fn send_on(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
        viewer: &Viewer,
    ) -> Result<Ready, Refused> {
        let deadline = Instant::now() + SENT_WITHIN.min(3 * self.silent_max);
        let slot = async {
            let slot = timeout_at(deadline, self.slots.take(RequestPurpose::New)).await.ok();
            let said = || format!("{path}: the origin is busy, so the request was not sent");
            slot.ok_or_else(|| (Trouble::Full, said()))
        };
        let slot = unless_left(Some(viewer), None, slot).await?;
        if viewer.has_left() {
            let said = format!("{path}: the viewer has left, so the request was not sent");
            return Err((Trouble::Unreachable, said));
        }
        let mut asked = self.responses().epoch(path);
        let answer = self.origins.send_once(path, &with_own_fields(request), viewer).await?;
        if is_invalidating(&request.method, answer.status().as_u16()) {
            let fields = fields_of(answer.headers());
            let named =
                ["location", "content-location"].iter().filter_map(|name| fields.first(name));
            let origin = answered_by(&answer);
            let of_edge = |value: &str| self.origins.stored_under(origin, path, value);
            let mut changed: BTreeSet<String> = named.filter_map(of_edge).collect();
            changed.insert(path.to_owned());
            changed.iter().for_each(|path| self.restore(path));
            let mut responses = self.responses();
            // Its own response is no older than this change, but may be older than another one meanwhile.
            let is_latest = responses.outdated(path, &Tags::default(), asked).is_none();
            let spelled = changed.iter().flat_map(|path| self.spellings(&responses, path));
            changed.extend(spelled.collect::<Vec<_>>());
            let invalid: Vec<u64> =
                changed.iter().flat_map(|path| self.invalidate(&mut responses, path)).collect();
            if is_latest {
                asked = responses.epoch(path);
            }
            drop(responses);
            // Before the viewer has the answer. Removing files may take as long as a busy disk does, and nothing else waits for that.
            self.forget_heads(&invalid);
        }
        let (is_awaited, viewer, fetch, known) = (true, Some(viewer), None, None);
        let incoming =
            Incoming { path, request, is_awaited, viewer, answer, slot, fetch, known, asked };
        self.receive(incoming).await
    }

    /// The paths of what is kept that differ from `path` only in the spelling of names: to an origin that finds files by any spelling, they are one.
    pub(super) fn spellings(&self, responses: &Responses, path: &str) -> Vec<String> {
        let known = self.known();
        let kept = known.by_path.spellings(path).into_iter().chain(responses.spellings(path));
        kept.map(str::to_owned).collect()
    }

    /// Stored responses at `path` have to be revalidated before it is used again, and answers to earlier questions are not kept. All of this happens
    /// while `responses` is locked, as does every report of an object: so each report comes before this one, or takes it into account. Returns the
    /// numbers of those whose heads the caller must remove.
    #[must_use]
    fn invalidate(&self, responses: &mut Responses, path: &str) -> Vec<u64> {
        let invalid = responses.invalidate(path);
        let object = self.known().by_path.get(path).cloned();
        if let Some(object) = &object {
            block_in_place(|| object.expire());
        }
        let object = object.map(|object| object.number);
        self.tell(EdgeTold::Invalid { path: path.to_owned(), object });
        invalid
    }

    /// Stores a response to a request that was sent in the epoch `asked`, in place of what it replaces. Calls `found` once viewers find it, before it
    /// is flushed to the disk.
    pub(super) fn keep(
        &self,
        response: StoredResponse,
        (request, asked): (&Fields, Epoch),
        found: impl FnOnce(),
    ) {
        let number = response.number;
        let displaced = self.responses().put(response, request, asked);
        found();
        // First the new one: if the helper dies in between, the next one finds both, and keeps the later one.
        self.save_response(number);
        displaced.into_iter().for_each(|number| self.forget_response(number));
    }

    /// Removes a stored response with its file.
    pub(super) fn forget_response(&self, number: u64) {
        self.responses().remove(number);
        self.ahead.remove(number);
        self.space().remove(number, std::time::Instant::now());
        block_in_place(|| self.store.remove_response(number));
    }
}

/// Whether a 200 to HEAD with the fields `newer` is about the stored version, if it says so. Without a validator in both, it does not: a page that is
/// made for each request has none, and would be confirmed unseen.
fn is_of_same_version(known: &StoredResponse, newer: &Fields) -> Option<bool> {
    let compared = ["etag", "last-modified"]
        .iter()
        .filter_map(|name| known.fields.first(name).zip(newer.first(name)));
    let agree: Vec<bool> = compared.map(|(stored, now)| stored == now).collect();
    let length: Option<u64> = newer.first("content-length").and_then(|text| text.parse().ok());
    if agree.contains(&false) || length.is_some_and(|length| length != known.size) {
        return Some(false);
    }
    (!agree.is_empty()).then_some(true)
}

/// A stored response that the answer `newer` to `request` has just confirmed, with these fields. It lasts by the operator's `rule`.
fn confirmed(
    known: &StoredResponse,
    (request, fields): (&Fields, Fields),
    newer: &Fields,
    (now, rule): (Now, LifetimeRule),
) -> StoredResponse {
    let mut dated = fields.clone();
    if let Some(age) = newer.first("age") {
        dated.push("Age", age);
    }
    let answer = (known.status, &dated);
    let lifetime = lifetime_for(request, &known.path, answer, now.unix_seconds, rule);
    StoredResponse { fields, lifetime, at: now.at, is_invalid: false, ..known.clone() }
}

/// Refuses a request that only the cache may answer (RFC 9111 section 5.2.1.7).
fn check_may_ask(path: &str, request: &ForwardedRequest) -> Result<(), Refused> {
    if !RequestDirectives::of(&request.fields).only_if_cached {
        return Ok(());
    }
    let said = format!("{path}: not in the cache, and the request says only-if-cached");
    Err((Trouble::TimedOut, said))
}

/// Whether a request has passed through [`LOOP_MAX`] caches of this kind: then it is in a loop.
pub(super) fn is_loop(request: &ForwardedRequest) -> bool {
    request.fields.elements("cdn-loop").filter(|one| *one == NAME).count() >= LOOP_MAX
}

/// The request with this cache's own lines (RFC 9110 section 7.6.3, RFC 8586).
pub(super) fn with_own_fields(request: &ForwardedRequest) -> ForwardedRequest {
    let mut request = request.clone();
    request.fields.push("Via", VIA);
    request.fields.push("CDN-Loop", NAME);
    request
}

/// The time by both clocks.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) at: std::time::Instant,
    pub(super) unix_seconds: u64,
}

impl Now {
    pub(super) fn read() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at: std::time::Instant::now(), unix_seconds: unix.as_secs() }
    }
}

#[cfg(test)]
#[path = "passing_tests.rs"]
mod tests;
