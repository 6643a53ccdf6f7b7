//! Moves a connection to a worker of the silo whose disk has the requested file (`--silo disk`).
//!
//! It moves after a request was read and before any part of the response is sent. The other worker parses the same
//! bytes again and decides everything by itself, so that a request is counted, logged and answered in one place.
//!
//! A connection moves at once when it first requests a file of another silo. After that it stays until it was sent
//! [`SENT_BETWEEN_MOVES`], so that a viewer who alternates between titles does not move back and forth all the time.
//! It also waits that long after a move that was refused.

use super::answer::{self, Opened};
use super::{Session, Suited};
use crate::worker::Worker;
use delivery::{CannotMove, ConnectionState};
use fullbore_http::Request;
use net::Permit;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;
use telemetry::Family;
use token::Verified;

/// How many bytes a connection is sent between two moves. A move costs two wake-ups and some microseconds, well
/// below a hundredth of the cost of these bytes.
const SENT_BETWEEN_MOVES: u64 = 4 << 20;

/// The unit of [`Session::stays_until`], which is 32 bits wide, because idle viewers carry it, too.
const STAY_UNIT: u64 = 64 << 10;

/// The place that should answer the next request.
pub(super) struct Elsewhere {
    silo: usize,
    /// When the request was complete.
    asked_at: Instant,
}

/// A connection on its way to another worker.
pub(crate) struct MovingSession {
    state: ConnectionState,
    peer: SocketAddr,
    /// Received but not parsed yet. It starts with the request that made the connection move.
    input: Vec<u8>,
    tls: Option<Suited>,
    stays_until: u32,
    verified: Verified,
    /// When that request was complete.
    asked_at: Instant,
}

impl MovingSession {
    /// The viewer's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// Serves a connection that comes from another worker to its last byte, and counts the reason for its end.
pub(crate) fn arrive(
    worker: Rc<Worker>,
    moving: MovingSession,
    permit: Permit,
) -> impl Future<Output = ()> {
    let mut session = Some(Session::unpack(worker, moving));
    async move {
        super::converse(&mut session).await;
        let _until_then = &permit;
    }
}

impl Session {
    fn unpack(worker: Rc<Worker>, moving: MovingSession) -> Self {
        let MovingSession { state, peer, input, tls, stays_until, verified, asked_at } = moving;
        let channel = state.enter(Rc::clone(&worker.resources), asked_at);
        Self { worker, channel, peer, input, tls, stays_until, verified }
    }

    /// Decides if `request`, which was complete at `asked_at`, is answered here. If so, returns the result of opening its file, if that was tried.
    ///
    /// # Errors
    /// The place of its file, if the connection should move there now.
    pub(super) async fn elsewhere(
        &mut self,
        request: &Request,
        asked_at: Instant,
    ) -> Result<Option<Opened>, Elsewhere> {
        let worker = Rc::clone(&self.worker);
        let Some(moves) = worker.moves.as_ref() else { return Ok(None) };
        if self.stays_put() || worker.drain.has_begun() {
            return Ok(None);
        }
        let client = self.peer.ip();
        let opened = answer::open_for(&worker, request, client, &mut self.verified).await;
        let Some(Ok(file)) = &opened else { return Ok(opened) };
        let Some(silo) = moves.elsewhere(file.stamp().device) else { return Ok(opened) };
        let Some(stays) = self.channel.stays() else { return Err(Elsewhere { silo, asked_at }) };
        if stays == CannotMove::Bound {
            // It can never move.
            self.stays_until = u32::MAX;
        }
        worker.numbers.count(Family::MovesRefused, stays.as_str());
        Ok(opened)
    }

    /// Moves the session to a worker at that place.
    ///
    /// # Errors
    /// The session, if it has to stay.
    pub(super) async fn leave(mut self, elsewhere: Elsewhere) -> Result<(), Self> {
        let (Elsewhere { silo, asked_at }, worker) = (elsewhere, Rc::clone(&self.worker));
        let Some(moves) = &worker.moves else { return Err(self) };
        self.stay_for_a_while();
        let Self { channel, peer, input, tls, stays_until, verified, .. } = self;
        let state = match channel.leave().await {
            Ok(state) => state,
            Err((channel, stays)) => {
                worker.numbers.count(Family::MovesRefused, stays.as_str());
                let worker = Rc::clone(&worker);
                return Err(Self { worker, channel, peer, input, tls, stays_until, verified });
            }
        };
        let moving = MovingSession { state, peer, input, tls, stays_until, verified, asked_at };
        match moves.send(Box::new(moving), silo).await {
            Ok(()) => Ok(()),
            Err((moving, reason)) => {
                worker.numbers.count(Family::MovesRefused, reason);
                Err(Self::unpack(Rc::clone(&worker), *moving))
            }
        }
    }

    /// Whether the kernel may have keys that waited for the first title: the next request, whose file is `opened` and is answered here, is for one.
    pub(super) fn may_pass_keys_on(&mut self, opened: Option<&Opened>) -> bool {
        if !self.channel.is_deferred() {
            return false;
        }
        // A caching edge's files belong to no silo, and no connection moves.
        let is_edge = self.worker.libraries.edge.is_some();
        let is_known = is_edge || self.stays_put() || matches!(opened, Some(Ok(_)));
        is_known && self.channel.can_pass_keys_on()
    }

    /// Hands the kernel the keys that waited for the first title.
    pub(super) fn pass_keys_on(mut self, asked_at: Instant) -> Self {
        self.channel = self.channel.pass_keys_on(asked_at);
        self.worker.numbers.count(Family::Routes, self.channel.route());
        self
    }

    /// Whether the connection has moved, or tried to, a short while ago.
    fn stays_put(&self) -> bool {
        self.stays_until > 0 && self.channel.taken_bytes() / STAY_UNIT < self.stays_until.into()
    }

    fn stay_for_a_while(&mut self) {
        let until = (self.channel.taken_bytes() + SENT_BETWEEN_MOVES) / STAY_UNIT;
        self.stays_until = u32::try_from(until).unwrap_or(u32::MAX);
    }
}
