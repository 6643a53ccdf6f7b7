//! Arbitrary answers from servers, in arbitrary order: no panic, no endless loop, no flood of requests, no time that runs backwards.

use crate::Time;
use crate::abr::Rule;
use crate::failure::Failure;
use crate::options::{Act, Deed, PlayerOptions};
use crate::player::world::{Film, s, url};
use crate::player::{Document, Player};
use crate::presentation::{Presentation, Segments, SteeringServer};
use crate::request::{PlayerRequest, RequestId, RequestKind};
use crate::steering::Answer;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const RULES: [Rule; 4] = [Rule::Fixed(7), Rule::Throughput, Rule::Bba, Rule::Bola];

const FAILURES: [Failure; 6] = [
    Failure::Connect,
    Failure::Reset,
    Failure::ClosedEarly,
    Failure::Unreadable,
    Failure::Silence,
    Failure::OwnLimit,
];

/// One event: its kind, the request it concerns, its delay, and a number.
type Step = (u8, usize, u64, u64);

struct Crowd {
    player: Player,
    open: Vec<PlayerRequest>,
    sent: Vec<Time>,
    now: Time,
    film: Film,
}

impl Crowd {
    fn new(film: Film, rule: Rule, buffer_max: Duration) -> Self {
        let plan =
            [(5, Deed::SeekForward(s(100))), (9, Deed::Pause(s(3))), (11, Deed::SeekTo(s(5)))];
        let plan = plan.map(|(at, deed)| Act { at: s(at), deed }).to_vec();
        let options = PlayerOptions {
            rule,
            buffer_max,
            plan,
            cmcd: Some("x".into()),
            give_up_after: (buffer_max < s(5)).then_some(s(60)),
            ..PlayerOptions::default()
        };
        let player = Player::new(options, url("http://a.example/m.m3u8"), Time::ZERO);
        Self { player, open: Vec::new(), sent: Vec::new(), now: Time::ZERO, film }
    }

    fn poll(&mut self) {
        self.player.handle_timeout(self.now);
        while let Some(request) = self.player.poll_request(self.now) {
            let _ = request.url();
            self.sent.push(self.now);
            self.open.push(request);
        }
        while let Some(id) = self.player.poll_cancel() {
            self.open.retain(|request| request.id != id);
        }
        while self.player.poll_event().is_some() {}
        assert!(self.open.len() <= 7, "{:?}", self.open);
        if let Some(at) = self.player.poll_timeout() {
            assert!(at > self.now, "{at:?} is not after {:?}", self.now);
        }
    }

    fn take(&mut self, which: usize) -> Option<PlayerRequest> {
        if self.open.is_empty() {
            return None;
        }
        Some(self.open.swap_remove(which % self.open.len()))
    }

    fn document(&self, request: &PlayerRequest, number: u64) -> Document {
        match request.kind {
            RequestKind::Manifest => Document::Presentation(self.presentation(number)),
            RequestKind::Steering => Document::Steering(Arc::new(Answer {
                ttl: s(number % 50),
                reload: None,
                priority: vec![format!("p{}", number % 4), "p0".into()],
                clones: vec![crate::steering::PathwayClone {
                    base_id: "p0".into(),
                    id: format!("c{}", number % 9),
                    host: Some("c.example".into()),
                    params: Vec::new(),
                    variants: BTreeMap::new(),
                    renditions: BTreeMap::new(),
                }],
            })),
            _ => Document::Segments(self.segments(request, number)),
        }
    }

    fn presentation(&self, number: u64) -> Arc<Presentation> {
        let mut film = self.film.clone();
        if number % 5 == 0 {
            film.rungs = vec![100, 1 << 40];
            film.sound = None;
        }
        let mut presentation = Presentation::clone(&film.presentation());
        presentation.reload_after = (number % 3 == 0).then_some(s(1 + number % 7));
        Arc::new(presentation)
    }

    fn segments(&self, request: &PlayerRequest, number: u64) -> Arc<Segments> {
        let film = Film { rungs: vec![1000; 100], sound: Some(500), ..self.film.clone() };
        let mut segments = Segments::clone(&film.list(request));
        segments.first_number = number.wrapping_mul(0x9e37_79b9);
        segments.reload_after = (number % 2 == 0).then_some(s(1 + number % 5));
        match number % 7 {
            0 => segments.list.clear(),
            1 => segments.list.iter_mut().for_each(|of| of.duration = Duration::ZERO),
            2 => segments.list.iter_mut().for_each(|of| of.duration = Duration::from_nanos(1)),
            3 => segments.list.iter_mut().for_each(|of| of.begin += s(1 << 32)),
            4 => segments.list.reverse(),
            5 => {
                segments.list.iter_mut().step_by(3).for_each(|of| of.start = segments.start.clone())
            }
            _ => {}
        }
        Arc::new(segments)
    }

    fn step(&mut self, (what, which, later, number): Step) {
        self.now += Duration::from_millis(later);
        let now = self.now;
        match what % 12 {
            0 => self.player.handle_timeout(now),
            1 => {
                let _ = self.take(which).map(|of| {
                    let failure = FAILURES[number as usize % FAILURES.len()];
                    self.player.handle_failure(of.id, failure, now);
                });
            }
            2 => {
                let statuses = [404, 410, 429, 500, 503, 301];
                let status = statuses[number as usize % statuses.len()];
                let after = (number % 3 == 0).then_some(Duration::from_secs(number));
                let _ =
                    self.take(which).map(|of| self.player.handle_status(of.id, status, after, now));
            }
            3..=7 => {
                let Some(request) = self.take(which) else { return };
                let status = if request.range.is_some() { 206 } else { 200 };
                self.player.handle_status(request.id, status, None, now);
                if request.kind.is_document() {
                    let document = self.document(&request, number);
                    self.player.handle_document(request.id, document, now);
                } else {
                    let bytes = request.expected_bytes.unwrap_or(number);
                    self.player.handle_bytes(request.id, bytes, now);
                    self.player.handle_end(request.id, now);
                }
            }
            8 => {
                let Some(request) = self.open.get(which % self.open.len().max(1)) else { return };
                self.player.handle_bytes(request.id, number, now);
            }
            9 => self.player.handle_end(RequestId(number), now),
            10 => {
                // A caller's clock that runs backwards is ignored.
                self.player.handle_timeout(now.saturating_sub(s(1)));
            }
            _ => {
                let Some(request) = self.take(which) else { return };
                let other = Document::Steering(Arc::new(Answer {
                    ttl: s(1),
                    reload: None,
                    priority: vec!["?".into()],
                    clones: Vec::new(),
                }));
                self.player.handle_document(request.id, other, now);
                self.player.handle_status(request.id, 404, None, now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_answers_does_harm(
        steps in proptest::collection::vec((0u8..12, 0usize..7, prop_oneof![Just(0u64), 0u64..50, 0u64..20_000], 0u64..1000), 1..300),
        pathways in 1usize..4,
        rule in 0usize..4,
        has_lists in any::<bool>(),
        buffer_s in prop_oneof![Just(0u64), Just(3), Just(120)],
    ) {
        let server = SteeringServer { url: url("http://s.example/"), first: None, before_start: pathways == 2 };
        let film = Film { pathways, has_lists, count: 30, steering: Some(server), ..Film::default() };
        let mut crowd = Crowd::new(film, RULES[rule], s(buffer_s));
        crowd.poll();
        let mut played = Duration::ZERO;
        for step in steps {
            crowd.step(step);
            crowd.poll();
            // The timer is followed too.
            for _ in 0..3 {
                let Some(at) = crowd.player.poll_timeout().filter(|at| *at < crowd.now + s(1)) else { break };
                crowd.now = crowd.now.max(at);
                crowd.player.handle_timeout(crowd.now);
                crowd.poll();
            }
            let report = crowd.player.report(crowd.now);
            prop_assert!(report.played >= played);
            played = report.played;
        }
        for (index, at) in crowd.sent.iter().enumerate() {
            let later = crowd.sent.get(index + 100);
            prop_assert!(later.is_none_or(|later| *later >= *at + s(1)), "more than 100 in a second");
        }
        let end = crowd.now;
        crowd.player.leave(end);
        crowd.poll();
        let timeout = crowd.player.poll_timeout();
        prop_assert!(crowd.open.is_empty() && timeout.is_none(), "{:?}, {timeout:?}", crowd.open);
    }
}

#[test]
fn answers_that_come_at_once_do_not_make_a_flood() {
    for bad in [None, Some(404), Some(503)] {
        let film = Film { segment: Duration::from_millis(1), count: 80_000, ..Film::default() };
        let mut crowd = Crowd::new(film.clone(), Rule::Throughput, s(120));
        for _ in 0..4000 {
            crowd.poll();
            while let Some(request) = crowd.take(0) {
                let now = crowd.now;
                match bad.filter(|_| request.kind == RequestKind::Media) {
                    Some(status) => crowd.player.handle_status(request.id, status, None, now),
                    None if request.kind.is_document() => {
                        let document = match request.kind {
                            RequestKind::Manifest => Document::Presentation(film.presentation()),
                            _ => Document::Segments(film.list(&request)),
                        };
                        crowd.player.handle_document(request.id, document, now);
                    }
                    None => {
                        crowd.player.handle_bytes(
                            request.id,
                            request.expected_bytes.unwrap_or(1),
                            now,
                        );
                        crowd.player.handle_end(request.id, now);
                    }
                }
            }
            let Some(at) = crowd.player.poll_timeout() else { break };
            crowd.now = crowd.now.max(at).min(crowd.now + s(1));
            crowd.player.handle_timeout(crowd.now);
        }
        for (index, at) in crowd.sent.iter().enumerate() {
            assert!(crowd.sent.get(index + 100).is_none_or(|later| *later >= *at + s(1)));
        }
    }
}
