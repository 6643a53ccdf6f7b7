//! One viewer's session in virtual time: its player, its network, and its open requests.
//!
//! The caller asks for the time of the next event ([`Session::next_event`]) and then advances to it ([`Session::advance`]).

use super::fault::FaultKind;
use super::library::Library;
use super::server::{Health, Servers};
use crate::crowd::{Viewer, acts};
use crate::network::Path;
use crate::shared_path::SharedPath;
use player::failure::Failure;
use player::options::PlayerOptions;
use player::report::SessionReport;
use player::request::{PlayerRequest, RequestId, RequestKind};
use player::{Document, Player};
use std::time::Duration;

/// The typical size of a film's manifest; our own choice.
const MANIFEST_BYTES: u64 = 8 << 10;

/// Size of an initialisation section.
const START_BYTES: u64 = 1 << 10;

/// How often to check a response from a server with shared speed. In between, it may be faster than its part if others have joined.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The `Retry-After` of a busy server.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A new connection takes a round trip for TCP and one for TLS 1.3, before the request's own.
const TRIPS_NEW: u32 = 3;

/// A session.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    servers: &'a Servers<'a>,
    library: &'a Library,
    player: Player,
    path: SharedPath,
    open: Vec<Exchange>,
    /// By server, set if there is a connection.
    is_connected: Vec<bool>,
    title: usize,
    /// The order of servers in this viewer's manifest, as an index in the library.
    order: usize,
    round_trip: Duration,
    keys: u64,
    /// Number of requests for the manifest so far.
    manifests_asked: usize,
    leaves_at: Duration,
    /// Number of consecutive events without time passing.
    steps_at_once: u32,
    now: Duration,
}

/// A request that is not over.
#[derive(Debug)]
struct Exchange {
    key: u64,
    request: PlayerRequest,
    server: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The first byte of the answer arrives at this time, unless the server has a fault.
    Asked { answer_at: Duration },
    /// The body is arriving.
    Receiving { is_cut: bool },
}

/// A session with more events than this at one time makes no progress, which is a bug in the player.
const STEPS_AT_ONCE_MAX: u32 = 100_000;

impl<'a> Session<'a> {
    /// The session of `viewer` from its beginning; it is over at `end` at the latest.
    pub(crate) fn new(
        viewer: &Viewer,
        options: &PlayerOptions,
        servers: &'a Servers<'a>,
        library: &'a Library,
        end: Duration,
    ) -> Self {
        let now = viewer.begins;
        let order = library.order_of(viewer);
        let options = PlayerOptions {
            leave_after: Some(viewer.watches),
            plan: acts(&viewer.seeks),
            ..options.clone()
        };
        let manifest = library.manifest_url(viewer.title, order);
        let mut session = Self {
            servers,
            library,
            player: Player::new(options, manifest.clone(), now),
            path: SharedPath::new(Path::new(&viewer.network, now), now),
            open: Vec::new(),
            is_connected: vec![false; library.servers()],
            title: viewer.title,
            order,
            round_trip: viewer.network.round_trip,
            keys: 0,
            manifests_asked: 0,
            leaves_at: end,
            steps_at_once: 0,
            now,
        };
        session.obey();
        session
    }

    /// The time of the next event; `None` if the session is over.
    pub(crate) fn next_event(&mut self) -> Option<Duration> {
        if self.player.is_over() {
            return None;
        }
        let mut next = self.leaves_at;
        let mut consider = |time: Option<Duration>| next = next.min(time.unwrap_or(next));
        consider(self.player.poll_timeout());
        consider(self.path.next_change());
        for exchange in &self.open {
            consider(self.servers.next_change(exchange.server, self.now));
            match exchange.state {
                State::Asked { answer_at } if answer_at > self.now => consider(Some(answer_at)),
                State::Receiving { .. } if self.servers.is_shared(exchange.server) => {
                    consider(Some(self.now + LOOK_AGAIN));
                }
                _ => {}
            }
        }
        Some(next.max(self.now))
    }

    /// Processes all events up to `now`.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.steps_at_once = if now == self.now { self.steps_at_once + 1 } else { 0 };
        assert!(self.steps_at_once < STEPS_AT_ONCE_MAX, "the player asks without end at {now:?}");
        self.now = now;
        if now >= self.leaves_at {
            self.player.leave(now);
        }
        let mut index = 0;
        while index < self.open.len() {
            if self.progress(index) {
                index += 1;
            } else {
                let exchange = self.open.remove(index);
                self.close(&exchange);
            }
        }
        if self.player.poll_timeout().is_some_and(|due| due <= now) {
            // Deliver the bytes that have arrived before the player judges its requests.
            (0..self.open.len()).for_each(|index| self.hand_in(index));
            self.player.handle_timeout(now);
        }
        self.obey();
    }

    /// What the viewer saw.
    pub(crate) fn report(&self) -> SessionReport {
        self.player.report(self.now)
    }

    /// The names of the pathways, by the session's own numbers.
    pub(crate) fn pathways(&self) -> &'a [String] {
        self.library.pathways(self.order)
    }

    /// Does what the player asks for.
    fn obey(&mut self) {
        loop {
            while let Some(id) = self.player.poll_cancel() {
                self.cancel(id);
            }
            while self.player.poll_event().is_some() {}
            let Some(request) = self.player.poll_request(self.now) else { break };
            self.ask(request);
        }
        if self.player.is_over() {
            for exchange in std::mem::take(&mut self.open) {
                self.close(&exchange);
            }
        }
    }

    fn ask(&mut self, request: PlayerRequest) {
        let server = match request.kind {
            RequestKind::Manifest => self.next_of_manifest(),
            _ => self.library.server(self.order, request.pathway),
        };
        let trips = if self.is_connected[server] { 1 } else { TRIPS_NEW };
        let answer_at = self.now + self.round_trip * trips + self.servers.latency(server);
        self.keys += 1;
        let state = State::Asked { answer_at };
        self.open.push(Exchange { key: self.keys, request, server, state });
    }

    /// The manifest comes from a name that stands for all of the viewer's servers: each attempt goes to the next one.
    fn next_of_manifest(&mut self) -> usize {
        let attempt = self.manifests_asked % self.pathways().len();
        self.manifests_asked += 1;
        self.library.server(self.order, attempt)
    }

    /// Closes the connection of a request that is under way, as the player would over HTTP/1.1.
    fn cancel(&mut self, id: RequestId) {
        if let Some(index) = self.open.iter().position(|exchange| exchange.request.id == id) {
            let exchange = self.open.remove(index);
            self.is_connected[exchange.server] = false;
            self.close(&exchange);
        }
    }

    fn close(&mut self, exchange: &Exchange) {
        if matches!(exchange.state, State::Receiving { .. }) {
            self.path.end(self.now, exchange.key);
            self.servers.end(exchange.server);
        }
    }

    /// Advances an exchange. Returns whether it is still open.
    fn progress(&mut self, index: usize) -> bool {
        let Exchange { server, state, .. } = self.open[index];
        match (state, self.servers.health(server, self.now)) {
            (State::Asked { answer_at }, _) if answer_at > self.now => true,
            (_, Health::Dead) => self.reset(index),
            (State::Asked { .. }, Health::Silent) => true,
            (State::Asked { .. }, Health::Refuses(status)) => self.refuse(index, status),
            (State::Asked { .. }, Health::Well { ceiling }) => self.answer(index, ceiling),
            (State::Receiving { .. }, Health::Silent) => self.receive(index, 0.0),
            // A response that has begun is sent to its end.
            (State::Receiving { .. }, Health::Refuses(_)) => self.receive(index, f64::INFINITY),
            (State::Receiving { .. }, Health::Well { ceiling }) => self.receive(index, ceiling),
        }
    }

    fn reset(&mut self, index: usize) -> bool {
        let Exchange { server, ref request, .. } = self.open[index];
        let failure = if self.is_connected[server] { Failure::Reset } else { Failure::Connect };
        self.player.handle_failure(request.id, failure, self.now);
        self.is_connected[server] = false;
        false
    }

    fn refuse(&mut self, index: usize, status: u16) -> bool {
        let Exchange { server, ref request, .. } = self.open[index];
        let retry_after = (status == 429).then_some(RETRY_AFTER);
        self.player.handle_status(request.id, status, retry_after, self.now);
        self.is_connected[server] = true;
        false
    }

    fn answer(&mut self, index: usize, ceiling: f64) -> bool {
        let Exchange { server, key, ref request, .. } = self.open[index];
        let of_segment = request
            .segment
            .filter(|_| matches!(request.kind, RequestKind::Media | RequestKind::Probe));
        let damage = of_segment.and_then(|segment| self.servers.damage(server, segment, self.now));
        if matches!(damage, Some(FaultKind::Missing(_))) {
            return self.refuse(index, 404);
        }
        let is_cut = damage.is_some() && request.kind == RequestKind::Media;
        let bytes = self.bytes(request);
        let status = if request.range.is_some() { 206 } else { 200 };
        self.player.handle_status(request.id, status, None, self.now);
        self.player.handle_length(request.id, bytes, self.now);
        self.is_connected[server] = true;
        let bytes = if is_cut { bytes / 2 } else { bytes };
        self.path.begin(self.now, key, bytes, ceiling);
        self.servers.begin(server);
        self.open[index].state = State::Receiving { is_cut };
        true
    }

    /// Number of bytes in the whole answer.
    fn bytes(&self, request: &PlayerRequest) -> u64 {
        let whole = match (request.kind, request.segment) {
            (RequestKind::Media | RequestKind::Probe, Some(segment)) => {
                self.library.films().bytes(self.title, request.rendition, segment)
            }
            (RequestKind::Start, _) => START_BYTES,
            _ => MANIFEST_BYTES,
        };
        match &request.range {
            Some(range) => whole.min(range.end).saturating_sub(range.start),
            None => whole,
        }
    }

    fn receive(&mut self, index: usize, ceiling: f64) -> bool {
        let Exchange { key, server, state, .. } = self.open[index];
        self.path.limit(self.now, key, ceiling);
        let is_waiting = self.path.remains(self.now, key);
        if is_waiting {
            return true;
        }
        self.hand_in(index);
        let request = &self.open[index].request;
        let (id, now) = (request.id, self.now);
        if state == (State::Receiving { is_cut: true }) {
            self.player.handle_failure(id, Failure::WrongLength, now);
            self.is_connected[server] = false;
        } else if request.kind == RequestKind::Manifest {
            let presentation = self.library.presentation(self.title, self.order);
            self.player.handle_document(id, Document::Presentation(presentation), now);
        } else {
            self.player.handle_end(id, now);
        }
        false
    }

    /// Delivers to the player the bytes of an answer that have arrived since the last time.
    fn hand_in(&mut self, index: usize) {
        let Exchange { key, ref request, .. } = self.open[index];
        let bytes = self.path.take(self.now, key);
        if bytes > 0 {
            self.player.handle_bytes(request.id, bytes, self.now);
        }
    }
}
