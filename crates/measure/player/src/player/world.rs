//! A small world for tests: films made of numbers, servers that answer by a rule, and a network with a rate for each pathway.

use super::{Document, Player};
use crate::Time;
use crate::event::PlayerEvent;
use crate::failure::Failure;
use crate::options::PlayerOptions;
use crate::presentation::{
    Format, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source, SteeringServer,
    Track, TrackKind,
};
use crate::report::SessionReport;
use crate::request::{PlayerRequest, RequestId, RequestKind};
use crate::url::Url;
use std::sync::Arc;
use std::time::Duration;

pub(super) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(super) fn url(text: &str) -> Url {
    text.parse().expect("a URL")
}

/// A film: bit rates of its pictures, and whether it has separate sound.
#[derive(Clone)]
pub(super) struct Film {
    pub(super) pathways: usize,
    pub(super) rungs: Vec<u64>,
    pub(super) sound: Option<u64>,
    pub(super) segment: Duration,
    pub(super) count: usize,
    /// Set if lists are separate documents.
    pub(super) has_lists: bool,
    pub(super) steering: Option<SteeringServer>,
}

impl Default for Film {
    fn default() -> Self {
        Self {
            pathways: 1,
            rungs: vec![400_000, 1_000_000, 3_000_000],
            sound: Some(128_000),
            segment: s(4),
            count: 75,
            has_lists: true,
            steering: None,
        }
    }
}

impl Film {
    pub(super) fn presentation(&self) -> Arc<Presentation> {
        let pathways = (0..self.pathways).map(|at| Pathway { id: format!("p{at}") }).collect();
        let pictures = self.track(TrackKind::Pictures, &self.rungs);
        let sound = self.sound.map(|rate| self.track(TrackKind::Sound, &[rate]));
        Arc::new(Presentation {
            format: Format::Hls,
            duration: None,
            pathways,
            steering: self.steering.clone(),
            tracks: std::iter::once(pictures).chain(sound).collect(),
            reload_after: None,
        })
    }

    fn track(&self, kind: TrackKind, rungs: &[u64]) -> Track {
        let source = |rendition: usize, pathway: usize, rate: u64| {
            if self.has_lists {
                let list = url(&format!("http://p{pathway}.example/{kind:?}/{rendition}.m3u8"));
                Source::Document(Reference { url: list, range: None })
            } else {
                Source::Listed(self.segments(kind, rendition, pathway, rate))
            }
        };
        let renditions = rungs.iter().enumerate().map(|(rendition, rate)| Rendition {
            id: format!("{rendition}"),
            bits_per_second: *rate,
            sources: (0..self.pathways).map(|at| source(rendition, at, *rate)).collect(),
        });
        Track { kind, renditions: renditions.collect() }
    }

    fn segments(
        &self,
        kind: TrackKind,
        rendition: usize,
        pathway: usize,
        rate: u64,
    ) -> Arc<Segments> {
        let file = url(&format!("http://p{pathway}.example/{kind:?}/{rendition}.mp4"));
        let bytes = rate * self.segment.as_millis() as u64 / 8000;
        let of = |range| Reference { url: file.clone(), range: Some(range) };
        let list = (0..self.count).map(|index| Segment {
            begin: self.segment * index as u32,
            duration: self.segment,
            reference: of(1000 + bytes * index as u64..1000 + bytes * (index as u64 + 1)),
            start: None,
        });
        Arc::new(Segments { start: Some(of(0..1000)), list: list.collect(), ..Segments::default() })
    }

    /// The list that a request asks for.
    pub(super) fn list(&self, request: &PlayerRequest) -> Arc<Segments> {
        let (kind, rate) = match request.track {
            0 => (TrackKind::Pictures, self.rungs[request.rendition]),
            _ => (TrackKind::Sound, self.sound.expect("it has sound")),
        };
        self.segments(kind, request.rendition, request.pathway, rate)
    }
}

/// A server's reply to a request.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Everything requested.
    Whole,
    /// A body of this length.
    Bytes(u64),
    /// A head, this many bytes, and then nothing.
    Stops(u64),
    /// Nothing at all.
    Silent,
    Status(u16, Option<Duration>),
    Fails(Failure),
    Document(Document),
}

struct Transfer {
    request: PlayerRequest,
    reply: Reply,
    head_at: Time,
    has_head: bool,
    bytes_left: f64,
    is_endless: bool,
}

/// Decides how servers reply; `None` leaves it to the film.
pub(super) type Servers = Box<dyn FnMut(&PlayerRequest, Time) -> Option<Reply>>;

/// The rate of a pathway at a time, in bits per second, shared by the requests on it.
pub(super) type Rates = Box<dyn Fn(usize, Time) -> f64>;

/// One player in its world.
pub(super) struct World {
    pub(super) player: Player,
    pub(super) film: Film,
    pub(super) servers: Servers,
    pub(super) rates: Rates,
    pub(super) latency: Duration,
    pub(super) now: Time,
    transfers: Vec<Transfer>,
    pub(super) requests: Vec<(Time, PlayerRequest)>,
    pub(super) events: Vec<(Time, PlayerEvent)>,
}

/// Bytes arrive at least this often, so that rates may change.
const STEP_MAX: Duration = Duration::from_millis(250);

impl World {
    pub(super) fn new(film: Film, options: PlayerOptions) -> Self {
        Self {
            player: Player::new(options, url("http://play.example/film.m3u8"), Time::ZERO),
            film,
            servers: Box::new(|_, _| None),
            rates: Box::new(|_, _| 20e6),
            latency: ms(50),
            now: Time::ZERO,
            transfers: Vec::new(),
            requests: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Plays until this time, or until the session is over.
    pub(super) fn run(&mut self, until: Time) -> SessionReport {
        while self.now < until && !self.player.is_over() {
            self.poll();
            let mut next = until.min(self.now + STEP_MAX);
            if self.transfers.is_empty() {
                next = until;
            }
            if let Some(at) = self.player.poll_timeout() {
                next = next.min(at.max(self.now));
            }
            for transfer in &self.transfers {
                next = next.min(self.ends_at(transfer)).max(self.now);
            }
            self.pass(next);
            self.player.handle_timeout(self.now);
        }
        self.poll();
        self.player.report(self.now)
    }

    fn poll(&mut self) {
        while let Some(request) = self.player.poll_request(self.now) {
            self.requests.push((self.now, request.clone()));
            let reply = (self.servers)(&request, self.now).unwrap_or(Reply::Whole);
            self.send(request, reply);
        }
        while let Some(id) = self.player.poll_cancel() {
            self.transfers.retain(|transfer| transfer.request.id != id);
        }
        while let Some(event) = self.player.poll_event() {
            self.events.push((self.now, event));
        }
    }

    fn send(&mut self, request: PlayerRequest, reply: Reply) {
        let whole = request.expected_bytes.unwrap_or(2000);
        let (bytes, is_endless) = match reply {
            Reply::Bytes(bytes) => (bytes, false),
            Reply::Stops(bytes) => (bytes, true),
            Reply::Silent => (0, true),
            _ => (whole, false),
        };
        self.transfers.push(Transfer {
            request,
            reply,
            head_at: self.now + self.latency,
            has_head: false,
            bytes_left: bytes as f64,
            is_endless,
        });
    }

    fn bytes_per_second(&self, pathway: usize) -> f64 {
        let open = |transfer: &&Transfer| {
            transfer.has_head && transfer.request.pathway == pathway && transfer.bytes_left > 0.0
        };
        let sharing = self.transfers.iter().filter(open).count().max(1);
        (self.rates)(pathway, self.now) / 8.0 / sharing as f64
    }

    fn ends_at(&self, transfer: &Transfer) -> Time {
        match transfer.has_head {
            false if matches!(transfer.reply, Reply::Silent) => Time::MAX,
            false => transfer.head_at,
            true if transfer.is_endless && transfer.bytes_left <= 0.0 => Time::MAX,
            true => {
                let rate = self.bytes_per_second(transfer.request.pathway).max(1e-3);
                self.now + Duration::from_secs_f64((transfer.bytes_left / rate).min(1e6) + 1e-6)
            }
        }
    }

    /// Lets time pass: bytes and heads arrive, bodies end.
    fn pass(&mut self, to: Time) {
        let seconds = (to - self.now).as_secs_f64();
        let rates: Vec<_> =
            self.transfers.iter().map(|of| self.bytes_per_second(of.request.pathway)).collect();
        self.now = to;
        let mut came = Vec::new();
        for (transfer, rate) in self.transfers.iter_mut().zip(rates) {
            let is_silent = matches!(transfer.reply, Reply::Silent);
            if transfer.has_head {
                let before = transfer.bytes_left;
                transfer.bytes_left = (before - rate * seconds).max(0.0);
                let bytes = before.ceil() as u64 - transfer.bytes_left.ceil() as u64;
                let is_over = transfer.bytes_left <= 0.0 && !transfer.is_endless;
                came.push((
                    transfer.request.clone(),
                    transfer.reply.clone(),
                    false,
                    bytes,
                    is_over,
                ));
            } else if transfer.head_at <= to && !is_silent {
                transfer.has_head = true;
                came.push((transfer.request.clone(), transfer.reply.clone(), true, 0, false));
            }
        }
        for (request, reply, is_head, bytes, is_over) in came {
            self.hand_in(&request, &reply, is_head, bytes, is_over);
        }
    }

    fn hand_in(
        &mut self,
        request: &PlayerRequest,
        reply: &Reply,
        head: bool,
        bytes: u64,
        over: bool,
    ) {
        let (id, now) = (request.id, self.now);
        match reply {
            Reply::Status(status, retry_after) if head => {
                self.player.handle_status(id, *status, *retry_after, now);
                self.forget(id);
            }
            Reply::Fails(failure) if head => {
                self.player.handle_failure(id, *failure, now);
                self.forget(id);
            }
            _ if head => {
                let status = if request.range.is_some() { 206 } else { 200 };
                self.player.handle_status(id, status, None, now);
                if let Reply::Bytes(bytes) = reply {
                    self.player.handle_length(id, *bytes, now);
                }
            }
            _ => {
                self.player.handle_bytes(id, bytes, now);
                if over {
                    self.finish(request, reply);
                    self.forget(id);
                }
            }
        }
    }

    fn finish(&mut self, request: &PlayerRequest, reply: &Reply) {
        let document = match (reply, request.kind) {
            (Reply::Document(document), _) => document.clone(),
            (_, RequestKind::Manifest) => Document::Presentation(self.film.presentation()),
            (_, RequestKind::Playlist | RequestKind::Index) => {
                Document::Segments(self.film.list(request))
            }
            (_, RequestKind::Steering) => {
                return self.player.handle_failure(request.id, Failure::Unreadable, self.now);
            }
            _ => return self.player.handle_end(request.id, self.now),
        };
        self.player.handle_document(request.id, document, self.now);
    }

    fn forget(&mut self, id: RequestId) {
        self.transfers.retain(|transfer| transfer.request.id != id);
    }

    /// The requests of a kind.
    pub(super) fn sent(&self, kind: RequestKind) -> Vec<&(Time, PlayerRequest)> {
        self.requests.iter().filter(|(_, request)| request.kind == kind).collect()
    }

    /// The segments of the pictures, in the order of their requests.
    pub(super) fn pictures(&self) -> Vec<usize> {
        let media = self.sent(RequestKind::Media).into_iter();
        media.filter(|(_, of)| of.track == 0).filter_map(|(_, of)| of.segment).collect()
    }
}
