//! Takes in responses of the origin that are no objects.

use super::arriving::{ArrivingResponse, PathTaken};
use super::growing::{Growing, Share, blocks_of, no_place};
use super::leaving::{Viewer, left, unless_left};
use super::origin_answer::{
    check_size, head_of, is_about_request, is_doubtful, is_object, length_of, replaces, stored,
};
use super::passed_space::Reservation;
use super::ring::SpaceFor;
use super::slots::Slot;
use super::{Helper, OBJECT_BYTES, full_disk};
use crate::contract::{
    BLOCK_BYTES, EdgeTold, ForwardedRequest, OBJECT_BYTES_MAX, PassedResponse, Trouble,
    passed_bytes_max,
};
use crate::http_cache::{CacheStatus, Fields, ResponseKind, may_store};
use crate::origin::{Refused, answered_by, broken, failure_of};
use crate::store::{Epoch, StoredResponse};
use reqwest::Response;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until};

/// A response without a length is complete after this time, or its viewer gets it while it arrives. Most pages are: what is complete can be sent with
/// its length, and shared.
const WHOLE_WITHIN: Duration = Duration::from_secs(1);

/// The same for segments of a stream: they arrive at once, or as they are made, and players of low-latency streams show them meanwhile.
const MEDIA_WITHIN: Duration = Duration::from_millis(100);

/// The most bytes of a response without a length if no more of them may grow. Pages are shorter.
const WITHOUT_PLACE_BYTES_MAX: u64 = 16 * BLOCK_BYTES;

/// A response that has begun to arrive.
pub(super) struct Incoming<'a> {
    pub(super) path: &'a str,
    pub(super) request: &'a ForwardedRequest,
    /// Whether a viewer waits for it, and that viewer if its request is the one that is answered.
    pub(super) is_awaited: bool,
    pub(super) viewer: Option<&'a Viewer>,
    pub(super) answer: Response,
    pub(super) slot: Slot,
    /// Dropped once those who wait for this response can know whether they may share it.
    pub(super) fetch: Option<watch::Sender<()>>,
    /// The stale response that this one may replace.
    pub(super) known: Option<Arc<StoredResponse>>,
    /// The epoch of the path when the origin was asked.
    pub(super) asked: Epoch,
}

/// A response for one viewer, and what is still to arrive of it.
pub(super) struct Ready {
    response: PassedResponse,
    file: Option<File>,
    pub(super) rest: Option<Rest>,
    /// Its share, if it grows for others as well.
    share: Option<Share>,
    /// The space of its file if that is complete and has no name.
    _reservation: Option<Reservation>,
}

/// What to store once it is complete.
struct ToStore {
    response: StoredResponse,
    request: Fields,
    /// The epoch of the path when the origin was asked.
    asked: Epoch,
    /// Until then it is not evicted.
    _arriving: ArrivingResponse,
}

/// The body of a response that its viewer gets while it arrives.
pub(super) struct Rest {
    pub(super) path: String,
    pub(super) number: u64,
    /// Its length, or the most that it may have if that is not known.
    size: u64,
    body: Response,
    pub(super) file: File,
    /// How much of it has arrived.
    pub(super) done: u64,
    /// The bytes that room has been made for. Once for each block, because that looks at the whole cache if it is full.
    room: u64,
    stored: Option<ToStore>,
    /// Its space, if it is not stored.
    reservation: Option<Reservation>,
    /// None if it is growing.
    slot: Option<Slot>,
    /// Set if its viewer gets it while it grows: its length is not known, or it comes through a ring.
    growing: Option<OwnedSemaphorePermit>,
    /// Whether it comes through a ring, and its length if that is known then.
    is_ring: bool,
    pub(super) length: Option<u64>,
    /// Set if others can join then.
    pub(super) shared: Option<Arc<Growing>>,
    /// The viewer who gets it, once the server knows that.
    pub(super) viewer: Option<Viewer>,
    /// Set once that has left, if it goes on all the same.
    alone: Option<PathTaken>,
}

/// When to pause while a body arrives.
#[derive(Clone, Copy)]
pub(super) struct Pause {
    pub(super) until: Option<Instant>,
    pub(super) at_bytes: u64,
}

impl Pause {
    /// For a response that is expected to be complete by then. Otherwise its viewer gets it while it arrives.
    fn soon(kind: ResponseKind) -> Self {
        let within = if kind == ResponseKind::Media { MEDIA_WITHIN } else { WHOLE_WITHIN };
        Self { until: Some(Instant::now() + within), at_bytes: BLOCK_BYTES }
    }
}

/// How far a body has arrived.
pub(super) enum Arrived {
    /// All of it.
    Whole,
    /// Some more, up to a pause.
    Partly,
    /// Its viewer has left, and no other one needs the rest.
    Enough,
}

impl Rest {
    fn new(
        (path, number): (&str, u64),
        size: u64,
        (body, file, slot): (Response, File, Slot),
        (stored, reservation): (Option<ToStore>, Option<Reservation>),
    ) -> Self {
        Self {
            path: path.to_owned(),
            number,
            size,
            body,
            file,
            done: 0,
            room: 0,
            stored,
            reservation,
            slot: Some(slot),
            growing: None,
            is_ring: false,
            length: None,
            shared: None,
            viewer: None,
            alone: None,
        }
    }

    /// From now on it grows in this `place`. Its place among the requests is free. Unless it is stored, it comes through a ring.
    fn begin_growing(&mut self, place: OwnedSemaphorePermit) {
        self.growing = Some(place);
        self.is_ring = self.stored.is_none();
        // The places bound the space of rings.
        drop(self.reservation.take_if(|_| self.is_ring));
        drop(self.slot.take());
    }

    /// Whether it will be stored.
    pub(super) fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// The response to store, and the epoch of its path when the origin was asked.
    pub(super) fn to_store(&self) -> Option<(&StoredResponse, Epoch)> {
        self.stored.as_ref().map(|to_store| (&to_store.response, to_store.asked))
    }
}

impl Ready {
    pub(super) fn complete(response: PassedResponse, file: Option<File>) -> Self {
        Self { response, file, rest: None, share: None, _reservation: None }
    }

    /// One whose `rest` is taken in once its viewer knows of it.
    pub(super) fn arriving(response: PassedResponse, file: File, rest: Rest) -> Self {
        Self { rest: Some(rest), ..Self::complete(response, Some(file)) }
    }

    /// One that is being taken in.
    pub(super) fn shared(response: PassedResponse, file: File, share: Share) -> Self {
        Self { share: Some(share), ..Self::complete(response, Some(file)) }
    }

    /// The number of its file, if all of it is stored.
    pub(super) fn stored_number(&self) -> Option<u64> {
        let is_whole = self.response.is_stored && !self.is_arriving();
        is_whole.then_some(self.response.object)
    }

    /// The number of its file.
    pub(super) fn number(&self) -> u64 {
        self.response.object
    }

    /// Its length, as far as that is known.
    pub(super) fn size(&self) -> u64 {
        self.response.size.unwrap_or(0)
    }

    /// One of which all is there, and its file.
    pub(super) fn into_complete(self) -> (Box<PassedResponse>, Option<OwnedFd>) {
        (Box::new(self.response), self.file.map(OwnedFd::from))
    }

    /// Whether more of it is to arrive.
    pub(super) fn is_arriving(&self) -> bool {
        self.rest.is_some() || self.share.is_some()
    }
}

impl Helper {
    /// Tells a viewer's response, and takes in the rest of it.
    pub(super) fn tell_ready(self: &Arc<Self>, viewer: Viewer, ready: Ready) {
        let Ready { response, file, rest, share, _reservation } = ready;
        let (ticket, arriving) = (viewer.ticket, (response.object, response.size));
        if let Some((why, said)) = share.as_ref().and_then(Share::failure) {
            let said = super::shortened(&said);
            return self.tell(EdgeTold::NotPassed { ticket, why, said });
        }
        let told = EdgeTold::Passed { ticket, response: Box::new(response) };
        self.tell_with(told, file.map(OwnedFd::from));
        if let Some(share) = share {
            tokio::spawn(Arc::clone(self).hold_share(arriving, viewer, share));
        } else if let Some(rest) = rest {
            let rest = Rest { viewer: Some(viewer), ..rest };
            tokio::spawn(Arc::clone(self).receive_rest_owned(rest));
        }
    }

    /// Receives all of a response for which no viewer waits, if it will be stored.
    pub(super) async fn receive_all(&self, mut ready: Ready) {
        match (ready.rest.take_if(|rest| rest.is_stored()), ready.share.take()) {
            (Some(rest), _) => self.receive_rest(rest).await,
            (None, Some(share)) => share.ended().await,
            (None, None) => self.give_up(ready),
        }
    }

    /// Gives a response up that no viewer will get: its slot is free again, and what has been stored of it is removed.
    pub(super) fn give_up(&self, ready: Ready) {
        let Some(rest) = ready.rest else { return };
        if rest.stored.is_some() {
            self.forget_response(rest.number);
        }
    }

    async fn receive_rest_owned(self: Arc<Self>, rest: Rest) {
        self.receive_rest(rest).await;
    }

    /// Takes in a response, unless it is long: then its viewer gets the beginning first.
    pub(super) async fn receive(
        self: &Arc<Self>,
        incoming: Incoming<'_>,
    ) -> Result<Ready, Refused> {
        let Incoming { path, request, is_awaited, viewer, answer, slot, fetch, known, asked } =
            incoming;
        let (origin, (status, mut fields)) = (answered_by(&answer), head_of(&answer));
        check_size(path, &fields)?;
        let length = length_of(&answer, request, status);
        let bytes_max = (self.space().bytes_max() / 2).min(OBJECT_BYTES_MAX);
        let number = fastrand::u64(1 << 63..);
        // The next question about an object makes it one. Until then it is passed on, and what was stored in its place is over.
        let is_object = self.origins.rule(path).is_kept && is_object(request, &answer, length);
        if is_object {
            self.forget_responses_at(path);
        }
        let fits = length.is_none_or(|length| length <= bytes_max);
        let may_keep = self.may_keep((path, origin), request, (status, &fields), fits);
        let begin = || self.begin_response(path, number, length.unwrap_or(BLOCK_BYTES));
        let arriving = (!is_object && may_keep.is_ok()).then(begin).flatten();
        let is_stored = arriving.is_some();
        if !is_object && !is_stored {
            self.note_not_kept(path, (request, status), may_keep.err());
        }
        if let Some(known) = known.as_ref().filter(|_| !is_stored && replaces(request, status)) {
            self.withdraw(known, (origin, status));
        }
        self.origins.localize(origin, path, &mut fields);
        let stored = arriving.map(|arriving| ToStore {
            response: stored((path, number), (status, &fields), &request.fields, self.now_at(path))
                .by(origin),
            request: request.fields.clone(),
            asked,
            _arriving: arriving,
        });
        CacheStatus::forwarded(known.is_some(), status, is_stored).add_to(&mut fields);
        let response = PassedResponse {
            object: number,
            status,
            fields,
            size: (request.method != "HEAD").then(|| length.unwrap_or(0)),
            is_complete: true,
            is_stored,
            failure: failure_of(answer.status()),
            ..PassedResponse::default()
        };
        if length == Some(0) {
            if let Some(to_store) = stored {
                self.keep(to_store.response, (&to_store.request, to_store.asked), || {});
            }
            return Ok(Ready::complete(response, None));
        }
        // Before any of it is fetched.
        let space = (!is_stored).then(|| self.space_for(path, length)).transpose()?;
        let (reservation, place) = space.map_or((None, None), SpaceFor::into_parts);
        let (file, read) = self.body_file(path, number, is_stored).await?;
        // Others need not wait for a response that they cannot share, or that takes long.
        let is_short = |length: u64| length <= BLOCK_BYTES;
        let fetch = fetch.filter(|_| is_stored && length.is_none_or(is_short));
        let size = length.unwrap_or(if is_stored { bytes_max } else { OBJECT_BYTES_MAX });
        let mut rest = Rest::new((path, number), size, (answer, file, slot), (stored, reservation));
        if let Some(place) = place {
            rest.begin_growing(place);
            rest.length = length;
            return Ok(self.grow(rest, response.through_ring(length), read));
        }
        let kind = ResponseKind::of(path, response.fields.first("content-type"));
        let pause = (is_awaited && length.is_none()).then(|| Pause::soon(kind));
        self.take_in_body(rest, (response, read), (length, pause), (viewer, fetch)).await
    }

    /// The file for the body of a response: one descriptor to write, one to read.
    async fn body_file(
        &self,
        path: &str,
        number: u64,
        is_stored: bool,
    ) -> Result<(File, File), Refused> {
        let create = || {
            let file = block_in_place(|| match is_stored {
                true => self.store.create_response(number),
                false => self.store.nameless(),
            });
            file.map_err(|error| full_disk::refused(path, &error))
        };
        let created = self.fit(OBJECT_BYTES, create).await;
        created.inspect_err(|_| self.forget_response(number))
    }

    /// Takes in the body of a response whose file is `read`, unless it is long, or takes long.
    async fn take_in_body(
        self: &Arc<Self>,
        mut rest: Rest,
        (response, read): (PassedResponse, File),
        (length, pause): (Option<u64>, Option<Pause>),
        (viewer, fetch): (Option<&Viewer>, Option<watch::Sender<()>>),
    ) -> Result<Ready, Refused> {
        let number = rest.number;
        if let Some(length) = length.filter(|length| *length > BLOCK_BYTES) {
            let set = rest.file.set_len(length).inspect_err(|_| self.forget_response(number));
            set.map_err(|error| full_disk::refused(&rest.path, &error))?;
            let response = PassedResponse { is_complete: false, ..response };
            return Ok(self.share_long(rest, response, read));
        }
        let mut arrived = self.receive_body(&mut rest, pause, |_| {}).await;
        if matches!(arrived, Ok(Arrived::Partly)) {
            if let Ok(place) = Arc::clone(&self.growing).try_acquire_owned() {
                rest.begin_growing(place);
                if rest.is_stored() {
                    // The server gives its viewers no more than that.
                    rest.size = rest.size.min(passed_bytes_max(self.space().bytes_max()));
                }
                return Ok(self.grow(rest, response.through_ring(None), read));
            }
            // It takes long.
            drop(fetch);
            // All places are taken. It keeps its slot, and arrives whole first, unless it seems to have no end.
            let until = Some(Instant::now() + self.silent_max);
            let whole = Pause { until, at_bytes: WITHOUT_PLACE_BYTES_MAX };
            let whole = self.receive_body(&mut rest, Some(whole), |_| {});
            arrived = unless_left(viewer, None, whole).await;
        }
        let size = rest.done;
        let refused = match arrived {
            Ok(Arrived::Whole) if length.is_none_or(|length| length == size) => {
                let reservation = rest.reservation.take();
                self.finish_response(rest, || {});
                let response = PassedResponse { size: Some(size), ..response };
                let file = (size > 0).then_some(read);
                return Ok(Ready { _reservation: reservation, ..Ready::complete(response, file) });
            }
            Ok(Arrived::Partly) => no_place(&rest.path),
            Ok(_) => {
                let said = format!("{}: the origin's lengths contradict each other", rest.path);
                (Trouble::Wrong, said)
            }
            Err(refused) => refused,
        };
        self.forget_response(number);
        Err(refused)
    }

    /// The origin gives something that can't be stored in place of what is stored.
    fn withdraw(&self, stored: &StoredResponse, (origin, status): (usize, u16)) {
        match is_about_request(status) {
            _ if is_doubtful(self.origins.rank(&stored.path, origin), status) => {}
            true => self.outdate(&stored.path),
            false => self.forget_response(stored.number),
        }
    }

    /// Drops the stored responses at `path`, because there is an object now. The server knows only that there is none, and would not ask for it yet.
    fn forget_responses_at(&self, path: &str) {
        let gone = self.responses().numbers(path);
        if gone.is_empty() {
            return;
        }
        gone.into_iter().for_each(|number| self.forget_response(number));
        self.tell(EdgeTold::Invalid { path: path.to_owned(), object: None });
    }

    /// Notes why a response is not stored, for operators.
    fn note_not_kept(
        &self,
        path: &str,
        (request, status): (&ForwardedRequest, u16),
        why: Option<&str>,
    ) {
        if request.method != "HEAD" {
            let why = why.unwrap_or("the cache has no room for it");
            let said = format!("the response to {} with status {status}: {why}", request.method);
            self.reasons.note(path, &said, std::time::Instant::now());
        }
    }

    /// Whether to store a response.
    ///
    /// # Errors
    /// Why not.
    fn may_keep(
        &self,
        (path, origin): (&str, usize),
        request: &ForwardedRequest,
        (status, fields): (u16, &Fields),
        fits: bool,
    ) -> Result<(), &'static str> {
        let is_posted = || {
            let named = fields.first("content-location");
            let is_own = named.and_then(|value| self.origins.stored_under(origin, path, value));
            let said = crate::http_cache::Directives::for_cdn(fields);
            let is_explicit = said.has("max-age") || said.has("s-maxage") || fields.has("expires");
            // It may be coded as only this viewer accepts; those that read are asked for without coding.
            let is_plain = !fields.has("content-encoding");
            // With another status, that is where the result of the request can be found (RFC 9110 section 8.7).
            let is_result = request.method == "POST" && status == 200;
            is_result && is_plain && is_explicit && is_own.as_deref() == Some(path)
        };
        match request.method == "GET" || is_posted() {
            _ if !self.origins.rule(path).is_kept => {
                Err("a rule for this path (edge.rules) says cache = false")
            }
            _ if is_doubtful(self.origins.rank(path, origin), status) => {
                Err("the origin that refused it was asked only because one before it failed")
            }
            true if fits => may_store(&request.fields, status, fields),
            true => Err("it is longer than half of the cache"),
            false => Err("responses to this method are not kept"),
        }
    }

    /// Makes room for a response that will be stored, if there is any.
    fn begin_response(&self, path: &str, number: u64, bytes: u64) -> Option<ArrivingResponse> {
        let arriving = self.arriving.begin(number, bytes, self.space().bytes_max() / 2)?;
        block_in_place(|| self.make_room(path, None, bytes + OBJECT_BYTES)).ok()?;
        self.space().begin(number, path, OBJECT_BYTES, std::time::Instant::now());
        Some(arriving)
    }

    /// Takes in a response after the server knows which viewer gets it, and announces what has arrived.
    pub(super) async fn receive_rest(&self, rest: Rest) {
        match rest.growing.is_some() {
            true => self.receive_growing(rest).await,
            false => self.receive_blocks(rest).await,
        }
    }

    /// Takes in a response of known length, and announces it block by block.
    async fn receive_blocks(&self, mut rest: Rest) {
        let (number, size) = (rest.number, rest.size);
        let mut told = 0;
        let shared = rest.shared.clone();
        let announce = |done: u64| {
            let end = blocks_of(done, size);
            if end > told {
                shared.iter().for_each(|growing| growing.note(done));
                let fetched_bytes = (end * BLOCK_BYTES).min(size) - told * BLOCK_BYTES;
                self.tell(EdgeTold::There { object: number, first: told, end, fetched_bytes });
                told = end;
            }
        };
        match self.receive_body(&mut rest, None, announce).await {
            Ok(Arrived::Whole) if rest.done == size => {
                self.finish_response(rest, || self.end_shared(shared.as_ref(), Ok(())));
            }
            Ok(Arrived::Enough) => self.forget_response(number),
            outcome => {
                self.forget_response(number);
                let short = || (Trouble::Wrong, format!("{}: it ended too early", rest.path));
                let (why, said) = outcome.err().unwrap_or_else(short);
                self.end_shared(shared.as_ref(), Err((why, said.clone())));
                let (first, end) = (told, size.div_ceil(BLOCK_BYTES));
                let said = super::shortened(&said);
                self.tell(EdgeTold::Failed { object: number, first, end, why, said });
            }
        }
    }

    /// All of a response has arrived. Calls `found` once viewers find it if it is stored, before it is flushed to the disk.
    pub(super) fn finish_response(&self, mut rest: Rest, found: impl FnOnce()) {
        // Others may have its place at the origin: flushing a long body to the disk takes a while.
        drop((rest.slot.take(), rest.growing.take()));
        let Some(ToStore { response, request, asked, _arriving }) = rest.stored else {
            return found();
        };
        self.keep(StoredResponse { size: rest.done, ..response }, (&request, asked), found);
    }

    /// The viewers of a response have left. Returns whether it is worth receiving all the same: it has an end, will be stored, and no other one at
    /// its path arrives without a viewer; or another viewer has joined it.
    fn goes_on_alone(&self, rest: &mut Rest) -> bool {
        let has_end = rest.stored.is_some() && rest.growing.is_none();
        if has_end {
            rest.viewer = None;
            rest.alone = self.alone.take(&rest.path);
        }
        match &rest.shared {
            Some(growing) if rest.alone.is_none() => {
                !self.growing_responses.end_if_deserted(growing)
            }
            _ => rest.alone.is_some(),
        }
    }

    /// Writes a body as it arrives, up to a `pause` if there is one, and calls `each` with the bytes so far.
    pub(super) async fn receive_body(
        &self,
        rest: &mut Rest,
        pause: Option<Pause>,
        mut each: impl FnMut(u64),
    ) -> Result<Arrived, Refused> {
        let mut deadline = Instant::now() + 3 * self.silent_max;
        let pauses_at = pause.and_then(|pause| pause.until);
        loop {
            let is_growing = rest.growing.is_some();
            let Rest { path, body, viewer, shared, alone, .. } = &mut *rest;
            // One that goes on alone does so even if viewers join it and leave.
            let shared = shared.as_deref().filter(|_| alone.is_none());
            let chunk = tokio::select! {
                biased;
                () = all_left(viewer.as_ref(), shared), if alone.is_none() => match self.goes_on_alone(rest) {
                    true => continue,
                    false => return Ok(Arrived::Enough),
                },
                chunk = body.chunk() => chunk.map_err(|error| broken(path, error))?,
                // One that grows may do so slowly. If it says nothing at all, the request fails.
                () = sleep_until(pauses_at.unwrap_or(deadline)), if pauses_at.is_some() || !is_growing => {
                    if pauses_at.is_some() {
                        return Ok(Arrived::Partly);
                    }
                    let said = format!("{path}: the origin sends too slowly");
                    return Err((Trouble::TimedOut, said));
                }
            };
            let Some(chunk) = chunk else { return Ok(Arrived::Whole) };
            let before = rest.done;
            if !self.write_next(rest, &chunk).await? {
                return Ok(Arrived::Enough);
            }
            if before / BLOCK_BYTES != rest.done / BLOCK_BYTES {
                // An origin that sends a block in this time is slow, not silent.
                deadline = Instant::now() + 3 * self.silent_max;
            }
            each(rest.done);
            if pause.is_some_and(|pause| rest.done >= pause.at_bytes) {
                return Ok(Arrived::Partly);
            }
        }
    }

    /// Writes the next bytes of a body. Returns whether its viewer needs more.
    async fn write_next(&self, rest: &mut Rest, bytes: &[u8]) -> Result<bool, Refused> {
        let (path, done) = (&rest.path, rest.done);
        let end = done + bytes.len() as u64;
        if end > rest.size {
            let said =
                format!("{path}: the response is longer than half the cache, or than it said");
            return Err((Trouble::TooLarge, said));
        }
        if rest.is_ring {
            return self.write_to_ring(rest, bytes).await;
        }
        if let Some(reservation) = &mut rest.reservation {
            reservation.grow(path, end)?;
        }
        if rest.stored.is_some() && end > rest.room {
            let more = (end - rest.room).max(BLOCK_BYTES.min(rest.size - rest.room));
            block_in_place(|| self.make_room(path, Some(rest.number), more))?;
            rest.room += more;
        }
        let file = &rest.file;
        let put = || block_in_place(|| file.write_all_at(bytes, done));
        let put = || put().map_err(|error| full_disk::refused(path, &error));
        self.fit(bytes.len() as u64, put).await?;
        self.space().add(rest.number, bytes.len() as u64);
        rest.done = end;
        Ok(true)
    }
}

/// Waits until the viewer of a response has left, or all who share it.
async fn all_left(viewer: Option<&Viewer>, shared: Option<&Growing>) {
    match shared {
        Some(growing) => growing.deserted().await,
        None => left(viewer).await,
    }
}
