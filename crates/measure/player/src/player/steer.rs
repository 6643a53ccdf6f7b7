//! Content steering: asks the server which pathways to use, as HLS and DASH define it. Playback never depends on an answer.

use super::Player;
use super::fetching::address;
use super::open::{Open, Slot};
use super::retry::PATHWAYS_MAX;
use crate::Time;
use crate::failure::Failure;
use crate::presentation::{Presentation, SteeringServer};
use crate::request::{PlayerRequest, RequestKind};
use crate::steering::{self, Answer, PathwayClone, TTL_DEFAULT};
use crate::url::Url;
use std::sync::Arc;
use std::time::Duration;

/// The steering server of a session.
#[derive(Clone, Debug)]
pub(crate) struct Steering {
    server: Url,
    /// When to ask.
    at: Time,
    ttl: Duration,
    /// The first segment waits for the first answer (DASH's `queryBeforeStart`).
    is_awaited: bool,
    /// Pathways that it has derived from the manifest's.
    clones: Vec<PathwayClone>,
}

impl Steering {
    pub(crate) fn new(server: &SteeringServer, now: Time) -> Self {
        let is_awaited = server.before_start;
        Self {
            server: server.url.clone(),
            at: now,
            ttl: TTL_DEFAULT,
            is_awaited,
            clones: Vec::new(),
        }
    }
}

impl Player {
    /// Returns true if no segment may be requested before steering has answered.
    pub(super) fn waits_for_steering(&self) -> bool {
        self.steering.as_ref().is_some_and(|steering| steering.is_awaited)
    }

    /// When to ask the steering server.
    pub(super) fn steering_due(&self) -> Time {
        if !self.open.is_free(Slot::STEERING) {
            return Time::MAX;
        }
        self.steering.as_ref().map_or(Time::MAX, |steering| steering.at)
    }

    pub(super) fn request_steering(&mut self, now: Time) -> Option<PlayerRequest> {
        if self.steering_due() > now {
            return None;
        }
        let presentation = self.presentation.as_ref()?;
        let pathways = self.pathways.as_ref()?;
        let current = pathways.current();
        let measured = self.measured(current).map(|measured| measured as u64);
        let server = &self.steering.as_ref()?.server;
        let id = &presentation.pathways.get(current)?.id;
        let url = steering::request(server, presentation.format, id, measured);
        let judge_at = now.saturating_add(self.options.patience);
        let open = Open { judge_at, ..Open::new(RequestKind::Steering, now) };
        Some(self.open_document(Slot::STEERING, open, address(url)))
    }

    /// Handles the server's answer.
    pub(super) fn handle_answer(&mut self, slot: Slot, answer: &Answer, now: Time) {
        self.open.close(slot);
        for clone in &answer.clones {
            self.clone_pathway(clone);
        }
        if let Some(pathways) = &mut self.pathways {
            pathways.handle_steering(now, &answer.priority);
        }
        self.tell_moves();
        if let Some(steering) = &mut self.steering {
            if let Some(reload) = &answer.reload {
                steering.server = reload.clone();
            }
            steering.ttl = answer.ttl.max(Duration::from_secs(1));
            steering.at = now.saturating_add(steering.ttl);
        }
        self.go_on_without_answer();
    }

    /// 410 ends steering for good. 429 says when to ask again. After anything else the player waits as long as after an answer (RFC 8216bis
    /// section 7.4; ETSI TS 103 998 section 6.7).
    pub(super) fn handle_steering_failure(
        &mut self,
        failure: Failure,
        retry_after: Option<Duration>,
        now: Time,
    ) {
        if let Some(steering) = &mut self.steering {
            let pause = match failure {
                Failure::Status(410) => Duration::MAX,
                Failure::Status(429) => retry_after.unwrap_or(steering.ttl),
                _ => steering.ttl,
            };
            steering.at = now.saturating_add(pause.max(Duration::from_secs(1)));
        }
        self.go_on_without_answer();
    }

    fn go_on_without_answer(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.is_awaited = false;
        }
        for track in &mut self.tracks {
            track.wake();
        }
    }

    /// Adds a pathway that is like a known one except for its addresses.
    fn clone_pathway(&mut self, clone: &PathwayClone) {
        let (Some(presentation), Some(pathways)) = (&mut self.presentation, &mut self.pathways)
        else {
            return;
        };
        let is_known = |id: &str| presentation.pathways.iter().any(|pathway| pathway.id == id);
        if is_known(&clone.id) || !is_known(&clone.base_id) {
            return;
        }
        if presentation.pathways.len() >= PATHWAYS_MAX {
            return;
        }
        // Clone the presentation for this viewer, because another viewer may get another answer. A pathway clone that cannot be made
        // changes nothing.
        let mut cloned = Presentation::clone(presentation);
        if cloned.clone_pathway(clone).is_err() {
            return;
        }
        *presentation = Arc::new(cloned);
        pathways.add(clone.id.clone());
        for track in &mut self.tracks {
            track.renew(presentation, true);
        }
        self.tally.prepare(&self.tracks[0].rungs, presentation.pathways.len());
        if let Some(steering) = &mut self.steering {
            steering.clones.push(clone.clone());
        }
    }

    /// Adds the pathways that steering derived from the last manifest to a new one. Otherwise they, and all their measurements, would be
    /// lost at each reload of a live stream.
    pub(super) fn with_clones(&self, presentation: Arc<Presentation>) -> Arc<Presentation> {
        let clones = self.steering.as_ref().map_or(&[][..], |steering| &steering.clones);
        if clones.is_empty() {
            return presentation;
        }
        let mut cloned = Presentation::clone(&presentation);
        for clone in clones {
            // A clone whose base pathway has left the manifest changes nothing.
            let _ = cloned.clone_pathway(clone);
        }
        Arc::new(cloned)
    }
}
