//! Looks up the object at a path: asks the origin, unless the cached object is fresh.

use super::ahead::{self, NO_VIEWER};
use super::passing::{is_loop, with_own_fields};
use super::receiving::Incoming;
use super::slots::{RequestPurpose, Slot};
use super::{Helper, OBJECT_BYTES, full_disk, refused_for, shortened};
use crate::contract::{
    BLOCK_BYTES, Described, EdgeTold, ForwardedRequest, OBJECT_BYTES_MAX, PassedResponse, Trouble,
};
use crate::http_cache::{
    CacheStatus, Fields, ForwardReason, ForwardStatus, INDEX_FRESH, LifetimeRule,
    RequestDirectives, ResponseKind, Tags, update, while_revalidating,
};
use crate::origin::{Found, Refused, Verdict};
use crate::policy::{FIELDS_BYTES_MAX, Terms, terms};
use crate::store::{Epoch, Outdated, Stored};
use reqwest::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPIRES,
    HeaderMap, HeaderValue,
};
use reqwest::{Response, StatusCode};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

/// How long a stale object is served before an unreachable origin is asked again.
const RETRY: Duration = Duration::from_secs(5);

/// For how long the server asks for a response at a path without asking for an object first.
const NO_OBJECT: Duration = Duration::from_secs(10);

/// The same if there may be an object a moment later.
const NO_OBJECT_YET: Duration = Duration::from_secs(1);

/// How often the origin is asked because the object was changed through this edge before it answered.
const TRIES: u32 = 3;

/// The object to serve at a path.
struct Answer {
    object: Arc<Stored>,
    is_stale: bool,
    /// The origin's answer, if it was asked.
    origin: Option<ForwardStatus>,
    /// The bytes that came with the answer, if there were any, and their blocks, which are marked as being fetched.
    body: Option<(Found, Range<u64>)>,
    /// The slot of the request that the body answers.
    slot: Option<Slot>,
}

/// A response for all who wait.
struct Shared {
    response: Box<PassedResponse>,
    /// Its file, unless it is empty.
    file: Option<OwnedFd>,
    /// When the origin sent it, if it is not fresh: it is not for those who came later.
    came: Option<Instant>,
}

/// The origin's answer for a path.
enum Looked<T> {
    /// An object.
    Object(T),
    /// Another response, which each viewer has to request, unless it is `shared` among those who wait. For as long as this `lasts`, the server need
    /// not ask for an object first.
    Other { lasts: Duration, shared: Option<Shared> },
}

impl<T> Looked<T> {
    fn other(lasts: Duration) -> Self {
        Self::Other { lasts, shared: None }
    }
}

/// A question to the origin about a path, until it has been reported.
struct Asking<'a> {
    helper: &'a Helper,
    path: &'a str,
}

impl Drop for Asking<'_> {
    /// Viewers must not wait for the answer of a task that has panicked, and the next one has to ask again.
    fn drop(&mut self) {
        let is_lost =
            std::thread::panicking() && self.helper.known().opening.remove(self.path).is_some();
        if is_lost {
            let (path, why) = (self.path.to_owned(), Trouble::Wrong);
            let said = format!("{}: the edge's helper has a bug, see the log", shortened(&path));
            let for_ms = refused_for(why).as_millis() as u64;
            self.helper.tell(EdgeTold::Refused { path, why, for_ms, said });
        }
    }
}

impl Answer {
    fn of(object: Arc<Stored>) -> Self {
        Self { object, is_stale: false, origin: None, body: None, slot: None }
    }

    /// One that the origin has reported with this status.
    fn by_origin(self, why: ForwardReason, status: StatusCode) -> Self {
        let status = status.as_u16();
        Self { origin: Some(ForwardStatus { why, status }), ..self }
    }

    fn stale(object: Arc<Stored>) -> Self {
        Self { is_stale: true, ..Self::of(object) }
    }
}

impl Helper {
    /// Reports the object at `path` to the server.
    pub(super) async fn open(
        self: Arc<Self>,
        path: String,
        offset: u64,
        asker: u64,
        request: ForwardedRequest,
    ) {
        let _asking = Asking { helper: &self, path: &path };
        self.restore(&path);
        for tries in 1.. {
            let (is_response, asked) = {
                let responses = self.responses();
                let is_response = responses.has(&path) || self.growing_responses.has(&path);
                (is_response, responses.epoch(&path))
            };
            let looked = match is_response {
                true => Ok(Looked::other(NO_OBJECT)),
                false => self.look(&path, offset, (asker, &request), asked).await,
            };
            let looked = match looked {
                Err((Trouble::TooLarge, said)) => {
                    self.large_films.note(&path);
                    self.reasons.note(&path, &said, Instant::now());
                    Ok(Looked::other(NO_OBJECT))
                }
                looked => looked,
            };
            let looked = looked.and_then(|looked| {
                let answer = match looked {
                    Looked::Object(answer) => answer,
                    Looked::Other { lasts, shared } => return Ok(Looked::Other { lasts, shared }),
                };
                let file = answer.object.open().map_err(|error| {
                    self.end(&answer.object, Trouble::Disk);
                    (Trouble::Disk, format!("{path}: its file cannot be opened: {error}"))
                })?;
                Ok(Looked::Object((answer, OwnedFd::from(file))))
            });
            // Viewers who came after a change wait for this report, too, so an answer from before it does not do.
            let is_over = self.report((&path, offset), looked, asked, tries >= TRIES);
            if is_over {
                return;
            }
        }
    }

    /// Reports an answer of the origin, which was asked in the epoch `asked`. Returns whether the question is answered. It is not if the path has
    /// been made invalid meanwhile, unless this is the `is_last` try.
    fn report(
        self: &Arc<Self>,
        (path, offset): (&str, u64),
        looked: Result<Looked<(Answer, OwnedFd)>, Refused>,
        asked: Epoch,
        is_last: bool,
    ) -> bool {
        // Until the report is sent: so an invalidation comes before all of this, or after it.
        let responses = self.responses();
        let tags = match &looked {
            Ok(Looked::Object((answer, _))) => answer.object.said().terms.tags,
            _ => Tags::default(),
        };
        let outdated = responses.outdated(path, &tags, asked);
        let is_over = is_last || outdated.is_none();
        let looked = looked.and_then(|looked| self.unless_purged(looked, outdated));
        // Before the report: a request after it may need another answer.
        let opening = if is_over { self.known().opening.remove(path) } else { None };
        let ahead_for = opening.as_ref().and_then(|opening| opening.ahead_for);
        let is_awaited = opening.is_some_and(|opening| opening.is_awaited);
        match looked {
            Ok(Looked::Object((Answer { object, is_stale, origin, body, slot }, file))) => {
                if outdated.is_some() {
                    block_in_place(|| object.expire());
                }
                if let (Some(ahead_for), Some((_, blocks))) = (ahead_for, &body) {
                    self.expect_ahead(&object, ahead_for, || vec![blocks.clone()]);
                }
                if is_awaited {
                    let present = self.ahead.take_first(object.number, offset / BLOCK_BYTES);
                    let rule = self.origins.rule(path).lifetimes;
                    let described = described((&object, rule), is_stale, origin, body.is_some());
                    let told = EdgeTold::Object(Described { present, ..described });
                    self.tell_with(told, Some(file));
                }
                if let Some((found, blocks)) = body {
                    let helper = Arc::clone(self);
                    tokio::spawn(helper.take_in_first(object, found, blocks, slot));
                }
            }
            Err((why, _)) if is_over && !is_awaited => {
                ahead_for.iter().for_each(|one| self.ahead.note_refused(path, *one, why));
            }
            _ if !is_awaited => {}
            Ok(Looked::Other { lasts, shared }) => {
                // An object that is still kept was only not to be had now.
                let is_object = self.known().by_path.has(path);
                let for_ms = if is_object { 0 } else { lasts.as_millis() as u64 };
                let shared = shared.filter(|_| for_ms > 0 && outdated.is_none());
                let came = shared.as_ref().and_then(|shared| shared.came);
                // Rounded up.
                let except_ms = came.map_or(0, |came| came.elapsed().as_millis() as u64 + 1);
                let (shared, file) = shared.map(|one| (one.response, one.file)).unzip();
                shared.iter().for_each(|response| self.ahead.take_response(response.object));
                let path = path.to_owned();
                let told = EdgeTold::NoObject { path, for_ms, shared, except_ms };
                self.tell_with(told, file.flatten());
            }
            Err((why, said)) => {
                self.reasons.note(path, &said, Instant::now());
                let (path, said) = (path.to_owned(), shortened(&said));
                let for_ms = refused_for(why).as_millis() as u64;
                self.tell(EdgeTold::Refused { path, why, for_ms, said });
            }
        }
        is_over
    }

    /// An answer, unless its object has been removed, or was purged after the origin was asked. A new object is then no newer than what the purge
    /// was for.
    fn unless_purged(
        &self,
        looked: Looked<(Answer, OwnedFd)>,
        outdated: Option<Outdated>,
    ) -> Result<Looked<(Answer, OwnedFd)>, Refused> {
        let (answer, file) = match looked {
            Looked::Object(answered) => answered,
            Looked::Other { lasts, shared } => return Ok(Looked::Other { lasts, shared }),
        };
        let object = &answer.object;
        let is_known = self.known().by_number.contains_key(&object.number);
        let is_purged = outdated == Some(Outdated::Purged);
        if is_known && !(is_purged && answer.body.is_some()) {
            return Ok(Looked::Object((answer, file)));
        }
        let why = if is_purged { Trouble::Purged } else { Trouble::Evicted };
        self.end(object, why);
        let said = format!("{}: it was removed while the origin was asked about it", object.path);
        Err((why, said))
    }

    /// Looks up what is at `path`. A response that is no object is handed over to its `asker`.
    async fn look(
        self: &Arc<Self>,
        path: &str,
        offset: u64,
        (asker, request): (u64, &ForwardedRequest),
        asked_in: Epoch,
    ) -> Result<Looked<Answer>, Refused> {
        let known = self.known().by_path.get(path).cloned();
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let range = start..start + BLOCK_BYTES;
        if let Some(known) = known {
            if fresh_left(&known) > Duration::ZERO {
                return Ok(Looked::Object(Answer::of(known)));
            }
            let looked = self.revalidate(path, &range, known, (asker, asked_in)).await?;
            if let Some(looked) = looked {
                return Ok(looked);
            }
        }
        if RequestDirectives::of(&request.fields).only_if_cached || is_loop(request) {
            // Only this request is refused, which its own answer says. Other viewers' requests are not.
            return Ok(Looked::other(Duration::ZERO));
        }
        match self.ask_about(path, &range, None, request).await? {
            (Verdict::Found(found), slot) => {
                // It may still be there, if the answer before this one was no word on it.
                let known = self.known().by_path.get(path).cloned();
                self.found(path, *found, known).await.map(|answer| with_slot(answer, slot))
            }
            (Verdict::Other(answer, _), slot) => {
                self.other(path, *answer, slot, (asker, request, asked_in)).await
            }
            (Verdict::NotModified(..), _) => {
                // The request was unconditional, so the origin contradicts itself.
                let said = format!("{path}: the origin said 304, which was not asked for");
                Err((Trouble::Wrong, said))
            }
        }
    }

    /// Asks the origin whether an object is still the same. The answer counts for all viewers, so the request has no header fields of the one who
    /// happens to ask: an origin that varies its answer, or refuses it, because of one of those says nothing about the object. Returns nothing if
    /// there is another response, which the viewer has to request.
    async fn revalidate(
        self: &Arc<Self>,
        path: &str,
        range: &Range<u64>,
        known: Arc<Stored>,
        (asker, asked_in): (u64, Epoch),
    ) -> Result<Option<Looked<Answer>>, Refused> {
        let request = ForwardedRequest::get();
        let is_verdict = |why: Trouble| matches!(why, Trouble::NotFound | Trouble::Uncacheable);
        let asked = self.ask_about(path, range, Some(&known), &request).await;
        let (why, said) = match asked {
            Ok((Verdict::Found(found), slot)) => {
                let answer = self.found(path, *found, Some(known)).await?;
                return Ok(Some(with_slot(answer, slot)));
            }
            Ok((Verdict::NotModified(header, origin), _)) => {
                match self.still(&known, &header, origin) {
                    Ok(former) => {
                        self.retag(&known, former);
                        let answer = Answer::of(known);
                        let confirmed =
                            answer.by_origin(ForwardReason::Stale, StatusCode::NOT_MODIFIED);
                        return Ok(Some(Looked::Object(confirmed)));
                    }
                    Err(refused) => refused,
                }
            }
            Ok((Verdict::Other(answer, why), slot)) => {
                if is_verdict(why) {
                    self.end(&known, why);
                } else if stale_left(&known) > Duration::ZERO {
                    return Ok(Some(Looked::Object(Answer::stale(known))));
                } else if why == Trouble::Unreachable {
                    // It has been asked often enough.
                    let asker = (asker, &request, asked_in);
                    return self.other(path, *answer, slot, asker).await.map(Some);
                }
                return Ok(None);
            }
            Err(refused) => refused,
        };
        // These are the origin's verdict on the object. Anything else, such as a redirect to a maintenance page, is not, and the object
        // survives it.
        if is_verdict(why) {
            self.end(&known, why);
        } else if stale_left(&known) > Duration::ZERO {
            return Ok(Some(Looked::Object(Answer::stale(known))));
        } else if why == Trouble::Changed {
            // The origins that had it are passed over, and it may not be served without them. So another one's version takes its place.
            return Ok(None);
        }
        Err((why, said))
    }

    /// Asks the origin about `path`, unless it is still the `known` version.
    async fn ask_about(
        &self,
        path: &str,
        range: &Range<u64>,
        known: Option<&Stored>,
        request: &ForwardedRequest,
    ) -> Result<(Verdict, Slot), Refused> {
        let purpose =
            if known.is_some() { RequestPurpose::Revalidation } else { RequestPurpose::New };
        let (tries, forwarded) = (AtomicU32::new(0), with_own_fields(request));
        let ask = || {
            let is_last = tries.fetch_add(1, Relaxed) + 1 >= Trouble::Unreachable.tries();
            self.origins.look(path, range.clone(), known, &forwarded, is_last)
        };
        let held = || self.tell(EdgeTold::Held { path: path.to_owned() });
        self.try_again_with_slot((path, purpose), ask, held).await
    }

    /// Hands over a response that is no object, which answers `request`.
    async fn other(
        self: &Arc<Self>,
        path: &str,
        answer: Response,
        slot: Slot,
        (asker, request, asked): (u64, &ForwardedRequest, Epoch),
    ) -> Result<Looked<Answer>, Refused> {
        let lasts = other_for(answer.status());
        if asker == NO_VIEWER && !ahead::is_short(&answer) {
            self.lose_ahead(path, answer.status().as_u16());
            return Ok(Looked::other(lasts));
        }
        let request = &ForwardedRequest { method: "GET".into(), ..request.clone() };
        let (is_awaited, viewer, fetch, known) = (true, None, None, None);
        let incoming =
            Incoming { path, request, is_awaited, viewer, answer, slot, fetch, known, asked };
        let ready = self.receive(incoming).await?;
        let shared = ready.stored_number().and_then(|number| self.for_all(number));
        match asker {
            NO_VIEWER => self.keep_ahead(path, &ready),
            asker => self.hand(asker, ready),
        }
        Ok(Looked::Other { lasts, shared })
    }

    /// A response that has just been stored, if it is short and the same for all viewers.
    fn for_all(&self, number: u64) -> Option<Shared> {
        let stored = self.responses().current(number)?;
        if stored.size > BLOCK_BYTES || !stored.selecting.is_empty() {
            return None;
        }
        let is_fresh = !stored.fresh_left(Instant::now()).is_zero();
        let (why, status) = (ForwardReason::UriMiss, stored.status);
        let origin = ForwardStatus { why, status };
        let collapsed = CacheStatus::Forwarded { origin, is_stored: true, is_collapsed: true };
        let (response, file) = self.answer_with(&stored, collapsed)?.into_complete();
        Some(Shared { response, file, came: (!is_fresh).then_some(stored.at) })
    }

    fn retag(&self, object: &Stored, former: Option<Tags>) {
        if let Some(former) = former {
            self.known().retag(object, &former);
        }
    }

    /// The origin confirms the version. Returns the former tags if they were others.
    fn still(
        &self,
        known: &Stored,
        header: &HeaderMap,
        origin: usize,
    ) -> Result<Option<Tags>, Refused> {
        let mut now = terms_of_304(known, header, self.origins.rule(&known.path).lifetimes)?;
        let before = known.said().terms;
        known.note_origin(origin, self.origins.rank(&known.path, origin));
        self.origins.localize(origin, &known.path, &mut now.fields);
        let content_type = now.content_type.or(before.content_type);
        let (modified, is_date_strong) = match now.modified {
            Some(_) => (now.modified, now.is_date_strong),
            None => (before.modified, before.is_date_strong),
        };
        let fields = updated(before.fields, &now.fields);
        let tags = if now.tags.is_empty() { before.tags } else { now.tags };
        let now = Terms { content_type, modified, is_date_strong, fields, tags, ..now };
        // It may have to be saved, and a slow disk must not block requests for other objects.
        Ok(block_in_place(|| known.renew(now)))
    }

    /// Handles the beginning of an object from the origin: in most cases a version other than the known one.
    async fn found(
        &self,
        path: &str,
        mut found: Found,
        known: Option<Arc<Stored>>,
    ) -> Result<Answer, Refused> {
        self.origins.localize(found.origin, path, &mut found.terms.fields);
        let why = if known.is_some() { ForwardReason::Stale } else { ForwardReason::UriMiss };
        let status = found.body.status();
        if let Some(known) = known {
            if known.etag == found.terms.etag && known.size == found.size {
                known.note_origin(found.origin, self.origins.rank(path, found.origin));
                known.note_size_of(found.origin);
                let former = known.renew(found.terms);
                self.retag(&known, former);
                return Ok(Answer::of(known).by_origin(why, status));
            }
            self.end(&known, Trouble::Changed);
        }
        let bytes_max = self.space().bytes_max().min(OBJECT_BYTES_MAX);
        if found.size > bytes_max {
            let said = format!("{path}: its {} bytes are more than the cache has", found.size);
            return Err((Trouble::TooLarge, said));
        }
        block_in_place(|| self.make_room(path, None, OBJECT_BYTES))?;
        let create = || {
            let terms = found.terms.clone();
            let created = block_in_place(|| self.store.create(path, found.size, terms));
            created.map_err(|error| full_disk::refused(path, &error))
        };
        let object = Arc::new(self.fit(OBJECT_BYTES, create).await?);
        object.came_from(found.origin, self.origins.rank(path, found.origin));
        // Before the object becomes visible: requests for these blocks are answered from this body.
        let blocks = found.range.start / BLOCK_BYTES..found.range.end.div_ceil(BLOCK_BYTES);
        object.take(blocks.clone());
        self.space().begin(object.number, &object.path, OBJECT_BYTES, Instant::now());
        self.known().add(Arc::clone(&object));
        let answer = Answer { body: Some((found, blocks)), ..Answer::of(object) };
        Ok(answer.by_origin(why, status))
    }
}

/// What a 304 with this header says about an object, by the operator's `rule` for its path. Fields that it does not repeat stay as they were
/// (RFC 9111 section 4.3.4).
///
/// # Errors
/// If the object may not be kept any more, or is another version.
pub(super) fn terms_of_304(
    known: &Stored,
    header: &HeaderMap,
    rule: LifetimeRule,
) -> Result<Terms, Refused> {
    let (before, mut header) = (known.said().terms, header.clone());
    let keep = |header: &mut HeaderMap, name, value: Option<&str>| {
        if !header.contains_key(&name) {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                header.insert(name, value);
            }
        }
    };
    keep(&mut header, ETAG, Some(&before.etag));
    // It decides how long an index is fresh.
    keep(&mut header, CONTENT_TYPE, before.content_type.as_deref());
    keep(&mut header, CACHE_CONTROL, before.cache_control.as_deref());
    keep(&mut header, EXPIRES, before.fields.first("expires"));
    // These describe the body of the 304, which has none (RFC 9111 section 3.2).
    for name in [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE] {
        header.remove(name);
    }
    match terms(&known.path, &header, rule) {
        Ok(now) if now.etag == before.etag => Ok(now),
        Ok(_) => {
            let said = format!("{}: the origin said 304 for another version", known.path);
            Err((Trouble::Wrong, said))
        }
        Err((why, said)) => Err((why, format!("{} cannot be kept: {said}", known.path))),
    }
}

/// For how long an answer that is no object counts for other viewers of its path. The path may have an object a moment later. A refusal or a
/// redirect may be about the request of the viewer who asked, or about where that viewer is. An error is the origin's: it is not asked three times
/// for each viewer.
fn other_for(status: StatusCode) -> Duration {
    match status {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::NOT_FOUND | StatusCode::GONE => {
            NO_OBJECT_YET
        }
        _ if status.is_server_error() => NO_OBJECT_YET,
        _ => Duration::ZERO,
    }
}

/// An answer with the slot of the request that its body answers, if it has one.
fn with_slot(answer: Answer, slot: Slot) -> Looked<Answer> {
    let slot = answer.body.is_some().then_some(slot);
    Looked::Object(Answer { slot, ..answer })
}

/// The fields of an object after a 304 with `newer` ones. An origin may add some with each answer. If all of them are too many, those of its last
/// answer count, which fit.
fn updated(mut fields: Fields, newer: &Fields) -> Fields {
    update(&mut fields, newer);
    if fields.bytes() > FIELDS_BYTES_MAX {
        fields = Fields::default();
        update(&mut fields, newer);
    }
    fields
}

/// How much longer it is fresh.
pub(super) fn fresh_left(object: &Stored) -> Duration {
    let said = object.said();
    said.terms.fresh.saturating_sub(said.at.elapsed())
}

/// How much longer it may be served while the origin is unreachable.
pub(super) fn stale_left(object: &Stored) -> Duration {
    let said = object.said();
    said.terms.fresh.saturating_add(said.terms.stale).saturating_sub(said.at.elapsed())
}

/// What the server learns of an object, by the operator's `rule` for its path.
fn described(
    (object, rule): (&Stored, LifetimeRule),
    is_stale: bool,
    origin: Option<ForwardStatus>,
    is_new: bool,
) -> Described {
    let said = object.said();
    let expired = said.at.elapsed().saturating_sub(said.terms.fresh);
    let kind = ResponseKind::of(&object.path, said.terms.content_type.as_deref());
    let retry = if kind == ResponseKind::Index { INDEX_FRESH } else { RETRY };
    let fresh = if is_stale { retry.min(stale_left(object)) } else { fresh_left(object) };
    let stale = stale_left(object).saturating_sub(fresh);
    let age = said.terms.age + said.at.elapsed();
    let cache_control = said.terms.cache_control.as_deref().unwrap_or_default();
    let revalidating = while_revalidating(cache_control, (age, expired), rule);
    Described {
        path: object.path.clone(),
        object: object.number,
        size: object.size,
        etag: object.etag.clone(),
        content_type: said.terms.content_type.clone(),
        modified: said.terms.modified,
        is_date_strong: said.terms.is_date_strong,
        cache_control: said.terms.cache_control.clone(),
        fresh_ms: fresh.as_millis() as u64,
        stale_ms: stale.as_millis() as u64,
        revalidating_ms: revalidating.as_millis() as u64,
        age_ms: age.as_millis() as u64,
        is_stale,
        expired_ms: expired.as_millis() as u64,
        origin,
        is_new,
        present: None,
        fields: said.terms.fields.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::HelperOptions;
    use super::*;

    #[test]
    fn only_pages_missing_files_and_errors_count_for_other_viewers_of_a_path() {
        for status in [200, 206, 404, 410, 500, 503] {
            assert!(!other_for(StatusCode::from_u16(status).unwrap()).is_zero(), "{status}");
        }
        for status in [301, 302, 307, 400, 401, 403, 418, 429] {
            assert!(other_for(StatusCode::from_u16(status).unwrap()).is_zero(), "{status}");
        }
    }

    #[test]
    fn fields_that_an_origin_adds_with_each_answer_are_bounded() {
        let value = "v".repeat(400);
        let mut fields = Fields::of(&[("X-First", "1")]);
        for number in 0..100 {
            let name = format!("X-{number}");
            fields = updated(fields, &Fields::of(&[("Date", "now"), (&name, &value)]));
            assert!(fields.bytes() <= FIELDS_BYTES_MAX, "{number}: {}", fields.bytes());
            assert!(fields.has(&name) && fields.all("date").count() == 1);
        }
        assert!(!fields.has("X-First") && fields.has("X-98"));
    }

    /// An announced range near the end of all numbers once made the sum overflow, and viewers of that path waited for an answer that never came.
    #[test]
    fn a_question_whose_task_panics_is_answered_and_can_be_asked_again() {
        let cache = tempfile::tempdir().unwrap();
        let (helper, told) = Helper::new(HelperOptions::of_test(cache.path(), 1 << 30)).unwrap();
        let helper = Arc::new(helper);
        assert!(helper.known().begin("/a"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let asking = Arc::clone(&helper).open("/a".into(), u64::MAX, 1, ForwardedRequest::get());
        assert!(runtime.block_on(runtime.spawn(asking)).unwrap_err().is_panic());
        let told = told.try_iter().next().map(|(told, _)| told);
        let is_refused =
            matches!(&told, Some(EdgeTold::Refused { path, .. }) if path.as_str() == "/a");
        assert!(is_refused && helper.known().begin("/a"), "{told:?}");
    }
}
