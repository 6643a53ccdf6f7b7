//! The application at one end of a connection: requests and answers, read at its own pace, then the end.

use std::time::{Duration, Instant};

use crate::referee::Side;
use crate::scenario::{Closer, Plan, Reader};

/// An action that an application requests from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Extend the stream by `bytes`, after a pause.
    Write { bytes: u64, after: Duration },
    /// Finish, once everything was written.
    Finish,
}

/// One end's application.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    side: Side,
    plan: Plan,
    /// Bytes read.
    pub(crate) received: u64,
    /// Requests or answers written.
    rounds_written: usize,
    has_finished: bool,
    peer_finished: bool,
    rested: bool,
    /// Nothing is read before this time.
    pub(crate) next_read: Option<Instant>,
}

impl Application {
    pub(crate) fn new(side: Side, plan: Plan) -> Self {
        Self {
            side,
            plan,
            received: 0,
            rounds_written: 0,
            has_finished: false,
            peer_finished: false,
            rested: false,
            next_read: None,
        }
    }

    /// The bytes that this end reads in all.
    pub(crate) fn receives(&self) -> u64 {
        let (requests, answers) = totals(&self.plan);
        if self.side == Side::Client { answers } else { requests }
    }

    /// The bytes that this end writes in all.
    pub(crate) fn sends(&self) -> u64 {
        let (requests, answers) = totals(&self.plan);
        if self.side == Side::Client { requests } else { answers }
    }

    pub(crate) fn peer_has_finished(&mut self) {
        self.peer_finished = true;
    }

    /// How much may be read now: none if it is too early.
    pub(crate) fn may_read(&mut self, now: Instant) -> Option<usize> {
        if self.next_read.is_some_and(|next| next > now) {
            return None;
        }
        match self.plan.readers[self.side as usize] {
            Reader::Eager => Some(usize::MAX),
            Reader::Slow { bytes, every } => {
                self.next_read = Some(now + every);
                Some(bytes)
            }
            Reader::Resting { at, rest } if !self.rested && self.received >= at => {
                self.rested = true;
                self.next_read = Some(now + rest);
                None
            }
            Reader::Resting { at, .. } if !self.rested => {
                Some(usize::try_from(at - self.received).expect("small"))
            }
            Reader::Resting { .. } => Some(usize::MAX),
        }
    }

    /// Records that it has found nothing to read, and waits for an event.
    pub(crate) fn is_waiting(&mut self) {
        self.next_read = None;
    }

    /// The next actions, given what was read.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while self.rounds_written < self.plan.rounds.len() && self.may_write() {
            self.write_round(&mut actions);
        }
        if !self.has_finished && self.may_finish() {
            self.has_finished = true;
            actions.push(Action::Finish);
        }
        actions
    }

    fn may_write(&self) -> bool {
        let before = &self.plan.rounds[..self.rounds_written];
        match self.side {
            Side::Client => {
                let answers: u64 = before.iter().map(|(_, answer)| answer).sum();
                self.plan.pipelined || self.received >= answers
            }
            Side::Server => {
                let asked = &self.plan.rounds[..=self.rounds_written];
                self.received >= asked.iter().map(|(request, _)| request).sum()
            }
        }
    }

    fn write_round(&mut self, actions: &mut Vec<Action>) {
        let (request, answer) = self.plan.rounds[self.rounds_written];
        self.rounds_written += 1;
        if self.side == Side::Client {
            actions.push(Action::Write { bytes: request, after: Duration::ZERO });
            return;
        }
        let pieces = self.plan.pieces.min(answer).max(1);
        for piece in 0..pieces {
            let bytes = answer * (piece + 1) / pieces - answer * piece / pieces;
            let after = self.plan.pause * piece as u32;
            actions.push(Action::Write { bytes, after });
        }
    }

    fn may_finish(&self) -> bool {
        let wrote_all = self.rounds_written == self.plan.rounds.len();
        let has_all = self.received == self.receives();
        wrote_all
            && match (self.plan.closer, self.side) {
                (Closer::Both, _) | (Closer::Server, Side::Server) => true,
                (Closer::Client, Side::Client) => has_all,
                (Closer::Client, Side::Server) | (Closer::Server, Side::Client) => {
                    self.peer_finished && has_all
                }
            }
    }
}

fn totals(plan: &Plan) -> (u64, u64) {
    let requests = plan.rounds.iter().map(|(request, _)| request).sum();
    let answers = plan.rounds.iter().map(|(_, answer)| answer).sum();
    (requests, answers)
}
