//! Takes the events that players post to `/-/cmcd` (CMCD version 2, event mode).
//!
//! No token is needed, because a post gets nothing: its events count only for a session that has requested a file, for which a token was needed if
//! any is. A token in front of the path is ignored, because pages that were opened with one have it in their addresses.
//!
//! A refusal keeps the connection, which often carries the film as well, unless the body is still on its way.

use super::Session;
use super::answer::refused_as;
use crate::event_intake::BODY_WAIT;
use crate::experience::network;
use crate::worker::Worker;
use delivery::End;
use fullbore_http::{BodyFraming, LibraryPath, Method, Refusal, Request, Resource};
use std::borrow::Cow;
use std::rc::Rc;
use std::time::Instant;
use telemetry::since_1970;

/// The place below `/-/`.
const PLACE: &[u8] = b"cmcd";

/// The refusal of a client, or of all clients together, that post more than the worker takes (`event_intake.rs`).
const TOO_MANY: (&str, Refusal) = ("cmcd_too_many", Refusal::TooManyRequests);

/// Whether `request` is for the collector of events. Not called for requests that read files.
pub(super) fn is_for_collector(worker: &Worker, request: &Request) -> bool {
    let gate = worker.libraries.gate.as_ref();
    let resource = gate.map_or(Cow::Borrowed(&request.resource), |gate| gate.place_of(request));
    matches!(&*resource, Resource::Reserved(path) if is_collector(worker, path))
}

/// Whether `path` below `/-/` is the collector's.
pub(super) fn is_collector(worker: &Worker, path: &LibraryPath) -> bool {
    path.as_bytes() == PLACE && worker.reports.experience.is_some()
}

/// The length of the body; `None` if the client does not say it.
fn length(request: &Request) -> Option<usize> {
    match request.body {
        // A longer one was refused with its head.
        BodyFraming::Length(bytes) => Some(bytes as usize),
        BodyFraming::None => Some(0),
        BodyFraming::Chunked => None,
    }
}

impl Session {
    /// Whether `request` posts events here.
    pub(super) fn posts_events(&self, request: &Request) -> bool {
        request.method == Method::Post && is_for_collector(&self.worker, request)
    }

    /// Takes the events that `request` posts, and answers. Returns whether the connection stays open.
    pub(super) async fn collect(
        &mut self,
        mut request: Request,
        started: Instant,
    ) -> Result<bool, End> {
        let worker = Rc::clone(&self.worker);
        let taken = self.take_events(&worker, &mut request).await?;
        if request.keep_alive {
            self.consume(length(&request).unwrap_or_default());
        }
        let response = match taken {
            Ok(()) => worker.with_context(|context| fullbore_http::post_taken(&request, context)),
            Err((reason, refusal)) => refused_as(&worker, reason, refusal, &request),
        };
        self.deliver(&worker, response, (None, None), Some(&request), started).await
    }

    async fn take_events(
        &mut self,
        worker: &Worker,
        request: &mut Request,
    ) -> Result<Result<(), (&'static str, Refusal)>, End> {
        let length = length(request);
        let is_here = length.is_some_and(|bytes| self.input.len() >= bytes);
        // Bytes that are on their way must not be taken for the next request.
        let keep_alive = request.keep_alive;
        request.keep_alive &= is_here;
        let Some(experience) =
            worker.reports.experience.as_ref().filter(|_| worker.libraries.of(request).is_some())
        else {
            return Ok(Err((Refusal::Misdirected.as_str(), Refusal::Misdirected)));
        };
        let client = network(self.peer.ip());
        if !experience.admits(&client) {
            return Ok(Err(TOO_MANY));
        }
        if !is_here {
            let Some(_wait) = experience.intake.wait_for_body(&client) else {
                return Ok(Err(TOO_MANY));
            };
            let wait = BODY_WAIT.min(worker.answering.timeouts.head);
            if let Err(refusal) = self.await_body(request, wait).await? {
                return Ok(Err((refusal.as_str(), refusal)));
            }
        }
        request.keep_alive = keep_alive;
        let (body, peer) = (&self.input[..length.unwrap_or_default()], self.peer.ip());
        let has_events = experience.note_events(body, peer, since_1970(), &worker.numbers);
        Ok(if has_events { Ok(()) } else { Err(("cmcd_unreadable", Refusal::UnreadableBody)) })
    }
}
