//! Responses that are no objects: each viewer's request is answered with a stored response, or with the origin's (RFC 9111).
//!
//! A response whose length is known and more than a block goes to its viewer while it arrives. Any other one is complete before the viewer
//! gets its first byte. What may be stored is a file next to the objects; everything else is a file without a name, which disappears with
//! its last reader. Nothing is ever combined from two responses.

use super::receiving::{Incoming, Ready};
use super::slots::{RequestPurpose, Slot};
use super::{Helper, shortened};
use crate::contract::{EdgeTold, ForwardedRequest, PassedResponse, Trouble};
use crate::http_cache::{Fields, RequestDirectives, is_invalidating, lifetime, update, validators};
use crate::origin::Refused;
use crate::policy::{HeaderMap, fields_of};
use crate::store::StoredResponse;
use reqwest::Response;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The most at the same time: a quarter of the requests to the origin.
pub(super) const AT_ONCE_MAX: usize = 16;

/// How long a response waits for the viewer whose question about an object it answers.
const HANDED_OVER: Duration = Duration::from_secs(10);

/// The most that wait.
const HANDED_MAX: usize = 256;

/// How this cache names itself in `Via`, `CDN-Loop` and `Cache-Status`.
const NAME: &str = "fullbore";

/// The most caches of this kind in a row; more are a loop (RFC 8586).
const LOOP_MAX: usize = 8;

/// Responses that answer a question about an object, until their viewers claim them.
#[derive(Default)]
pub(super) struct Handed(Mutex<HashMap<u64, (Instant, Ready)>>);

impl Handed {
    pub(super) fn put(&self, asker: u64, ready: Ready) {
        let (mut handed, now) = (self.lock(), Instant::now());
        handed.retain(|_, (until, _)| now < *until);
        if handed.len() < HANDED_MAX {
            handed.insert(asker, (now + HANDED_OVER, ready));
        }
    }

    fn take(&self, asker: u64) -> Option<Ready> {
        self.lock().remove(&asker).map(|(_, ready)| ready)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Instant, Ready)>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

/// Paths that are being fetched, so that viewers who come meanwhile can share what may be shared.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashMap<String, watch::Receiver<()>>>);

impl UnderWay {
    /// Begins a fetch of `path`, or returns what to wait for if another one has begun.
    fn begin(&self, path: &str) -> Result<watch::Sender<()>, watch::Receiver<()>> {
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

/// What is stored for a request.
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
        ticket: u64,
        asker: u64,
        request: ForwardedRequest,
    ) {
        let answered = match self.handed.take(asker) {
            Some(ready) => Ok(ready),
            None => self.respond(&path, &request).await,
        };
        match answered {
            Ok(ready) => self.tell_ready(ticket, ready),
            Err((why, said)) => {
                self.tell(EdgeTold::NotPassed { ticket, why, said: shortened(&said) });
            }
        }
    }

    async fn respond(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
    ) -> Result<Ready, Refused> {
        let loops = request.fields.elements("cdn-loop").filter(|one| *one == NAME).count();
        if loops >= LOOP_MAX {
            let said =
                format!("{path}: the request has passed {loops} edges: is an edge its own origin?");
            return Err((Trouble::Wrong, said));
        }
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return self.send_on(path, request).await;
        }
        let mut waited = false;
        loop {
            let known = match self.look_up(path, &request.fields) {
                Lookup::Hit(stored) => match self.hit(&stored) {
                    Some(ready) => return Ok(ready),
                    None => continue,
                },
                Lookup::HitWhileRevalidating(stored) => match self.hit(&stored) {
                    Some(ready) => {
                        self.revalidate_later(path, request, stored);
                        return Ok(ready);
                    }
                    None => continue,
                },
                Lookup::Stale(stored) => Some(stored),
                Lookup::Miss => None,
            };
            if RequestDirectives::of(&request.fields).only_if_cached {
                let said = format!("{path}: it is not stored, and the request allows nothing else");
                return Err((Trouble::TimedOut, said));
            }
            // Those that come while another one fetches the same look again once its response is there, or cannot be shared.
            let fetch = match self.under_way.begin(path) {
                Ok(fetch) => Some(fetch),
                Err(_) if waited => None,
                Err(mut other) => {
                    let _ = timeout_at(Instant::now() + self.silent_max, other.changed()).await;
                    waited = true;
                    continue;
                }
            };
            return self.fetch_for(path, request, known, fetch).await;
        }
    }

    fn look_up(&self, path: &str, request: &Fields) -> Lookup {
        let (said, now) = (RequestDirectives::of(request), std::time::Instant::now());
        let Some(stored) = self.responses().find(path, request) else { return Lookup::Miss };
        self.space().use_of(stored.number, now);
        let (fresh, age, stale) = (stored.fresh_left(now), stored.age(now), stored.stale_for(now));
        let is_young = said.max_age.is_none_or(|max| age <= max);
        if said.no_cache || !is_young || stored.is_invalid {
            return Lookup::Stale(stored);
        }
        if fresh > Duration::ZERO && said.min_fresh.is_none_or(|least| fresh >= least) {
            return Lookup::Hit(stored);
        }
        let is_taken =
            stored.lifetime.may_be_stale && said.max_stale.is_some_and(|max| stale <= max);
        if is_taken {
            return Lookup::Hit(stored);
        }
        match said.min_fresh.is_none() && stale < stored.lifetime.while_revalidating {
            true => Lookup::HitWhileRevalidating(stored),
            false => Lookup::Stale(stored),
        }
    }

    /// A stored response for a viewer. One whose file is gone is forgotten.
    fn hit(&self, stored: &StoredResponse) -> Option<Ready> {
        let file = match stored.size {
            0 => None,
            _ => match self.store.open_response(stored.number) {
                Ok(file) => Some(file),
                Err(_) => {
                    self.forget_response(stored.number);
                    return None;
                }
            },
        };
        let now = std::time::Instant::now();
        let mut fields = stored.fields.clone();
        let left = stored.fresh_left(now).as_secs() as i64;
        let ttl = if left > 0 { left } else { -(stored.stale_for(now).as_secs() as i64) };
        fields.push("Via", format!("1.1 {NAME}"));
        fields.push("Cache-Status", format!("{NAME}; hit; ttl={ttl}"));
        let response = PassedResponse {
            object: stored.number,
            status: stored.status,
            fields,
            size: Some(stored.size),
            age_ms: Some(stored.age(now).as_millis() as u64),
            is_complete: true,
            is_hit: true,
            failure: None,
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
        let (helper, path) = (Arc::clone(self), path.to_owned());
        let request = ForwardedRequest { method: "GET".into(), ..request.clone() };
        tokio::spawn(async move {
            // If it fails, the stored response stays as it is.
            let ready = helper.fetch_for(&path, &request, Some(stored), Some(fetch)).await;
            if let Ok(Ready { rest: Some(rest), .. }) = ready {
                helper.receive_rest(rest).await;
            }
        });
    }

    /// Fetches a response, or revalidates the `known` one. `fetch` is dropped once others can know what came of it.
    async fn fetch_for(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
        known: Option<Arc<StoredResponse>>,
        fetch: Option<watch::Sender<()>>,
    ) -> Result<Ready, Refused> {
        // A viewer that has waited for longer may be gone; those behind it in the queue are not.
        let deadline = Instant::now() + 3 * self.silent_max;
        let Ok(Ok(_turn)) = timeout_at(deadline, self.passing.acquire()).await else {
            let said = format!("{path}: too many responses are being passed through at once");
            return Err((Trouble::Full, said));
        };
        let conditions = known.as_ref().map(|known| validators(&known.fields)).unwrap_or_default();
        let asked = self.ask_for(path, request, &conditions).await;
        let (answer, slot) = match asked {
            Ok(asked) => asked,
            Err(refused) => return self.stale(known.as_deref()).ok_or(refused),
        };
        let status = answer.status().as_u16();
        let Some(known) = known else {
            return self
                .receive(Incoming { path, request, answer, slot, fetch, known: None })
                .await;
        };
        if status == 304 {
            return self.not_modified(&known, request, answer.headers());
        }
        if status >= 500 || status == 429 {
            if let Some(ready) = self.stale(Some(&known)) {
                return Ok(ready);
            }
        }
        if request.method == "HEAD" {
            self.update_by_head(&known, request, &answer);
        }
        let known = Some(known);
        self.receive(Incoming { path, request, answer, slot, fetch, known }).await
    }

    /// Sends a request for reading. It is repeated if there is no answer, while any answer counts.
    async fn ask_for(
        &self,
        path: &str,
        request: &ForwardedRequest,
        conditions: &Fields,
    ) -> Result<(Response, Slot), Refused> {
        let forwarded = with_own_fields(request);
        let ask = || self.origin.forward(path, &forwarded, conditions);
        let purpose = match conditions.0.is_empty() {
            true => RequestPurpose::New,
            false => RequestPurpose::Revalidation,
        };
        self.try_again_with_slot(purpose, ask).await
    }

    /// A stale response because the origin cannot be asked, if it allows that (RFC 9111 section 4.2.4).
    fn stale(&self, known: Option<&StoredResponse>) -> Option<Ready> {
        let known = known.filter(|known| !known.is_invalid)?;
        let is_allowed = known.stale_for(std::time::Instant::now()) < known.lifetime.if_error;
        if is_allowed { self.hit(known) } else { None }
    }

    /// The origin confirms a stored response (RFC 9111 section 4.3.4).
    fn not_modified(
        &self,
        known: &StoredResponse,
        request: &ForwardedRequest,
        header: &HeaderMap,
    ) -> Result<Ready, Refused> {
        let renewed = renewed(known, &fields_of(header));
        let ready = self.hit(&renewed);
        self.keep(renewed, &request.fields);
        ready.ok_or_else(|| {
            let said = format!("{}: the stored response was evicted meanwhile", known.path);
            (Trouble::Unreachable, said)
        })
    }

    /// A response to HEAD updates the stored one if it is about the same representation, and ends it otherwise (RFC 9111 section 4.3.5).
    fn update_by_head(&self, known: &StoredResponse, request: &ForwardedRequest, head: &Response) {
        if head.status() != 200 {
            return;
        }
        let newer = fields_of(head.headers());
        let is_same = ["etag", "last-modified", "content-length"].iter().all(|name| {
            let (stored, now) = (known.fields.first(name), newer.first(name));
            stored.is_none() || now.is_none() || stored == now
        });
        match is_same {
            true => self.keep(renewed(known, &newer), &request.fields),
            false => drop(self.responses().invalidate(&known.path)),
        }
    }

    /// Sends a request on that may change something, once, and makes invalid what it may have changed (RFC 9111 section 4.4).
    async fn send_on(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
    ) -> Result<Ready, Refused> {
        let slot = self.slots.take(RequestPurpose::New).await;
        let answer =
            self.origin.forward(path, &with_own_fields(request), &Fields::default()).await?;
        if is_invalidating(&request.method, answer.status().as_u16()) {
            self.invalidate(path);
            let fields = fields_of(answer.headers());
            let named =
                ["location", "content-location"].iter().filter_map(|name| fields.first(name));
            for other in named.filter_map(|value| self.origin.path_of(path, value)) {
                self.invalidate(&other);
            }
        }
        self.receive(Incoming { path, request, answer, slot, fetch: None, known: None }).await
    }

    /// What is kept at `path` has to be revalidated before it is used again.
    fn invalidate(&self, path: &str) {
        self.responses().invalidate(path);
        let object = self.known().by_path.get(path).cloned();
        if let Some(object) = object {
            object.expire();
        }
        self.tell(EdgeTold::Invalid { path: path.to_owned() });
    }

    /// Stores a response in place of what it replaces.
    pub(super) fn keep(&self, response: StoredResponse, request: &Fields) {
        let displaced = self.responses().put(response, request);
        displaced.into_iter().for_each(|number| self.forget_response(number));
    }

    /// Removes a stored response with its file.
    pub(super) fn forget_response(&self, number: u64) {
        self.responses().remove(number);
        self.space().remove(number, std::time::Instant::now());
        self.store.remove_response(number);
    }
}

/// The stored response with the fields of a newer answer about it.
fn renewed(known: &StoredResponse, newer: &Fields) -> StoredResponse {
    let mut fields = known.fields.clone();
    update(&mut fields, newer);
    let mut dated = fields.clone();
    if let Some(age) = newer.first("age") {
        dated.push("Age", age);
    }
    let lifetime = lifetime(known.status, &dated, unix_now());
    let at = std::time::Instant::now();
    StoredResponse { fields, lifetime, at, is_invalid: false, ..known.clone() }
}

/// The request with this cache's own lines (RFC 9110 section 7.6.3, RFC 8586).
pub(super) fn with_own_fields(request: &ForwardedRequest) -> ForwardedRequest {
    let mut request = request.clone();
    request.fields.push("Via", format!("1.1 {NAME}"));
    request.fields.push("CDN-Loop", NAME);
    request
}

/// The lines about this cache that a response from the origin gets (RFC 9211).
pub(super) fn add_own_lines(fields: &mut Fields, status: u16, is_stored: bool, is_stale: bool) {
    let why = if is_stale { "stale" } else { "uri-miss" };
    let stored = if is_stored { "; stored" } else { "" };
    fields.push("Via", format!("1.1 {NAME}"));
    fields.push("Cache-Status", format!("{NAME}; fwd={why}; fwd-status={status}{stored}"));
}

pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
