//! Events that cannot count yet: no request of their session has come, or none from the network that posted them.
//!
//! A player's first event may be faster than its first request, and one that changes its network may post before it requests. Anyone can post such
//! events, so they wait in a list of their own, where they take the place of no other event. If there are too many, the oldest go first, and those
//! of one network take only a part of the list.

use std::collections::{HashMap, VecDeque};

use crate::QoeEvent;

/// The most events that wait: those of 2,000 sessions that begin at once.
pub(crate) const EARLY_MAX: usize = 4096;

/// The most of one network: one post.
pub(crate) const EARLY_OF_VIEWER_MAX: u32 = 256;

/// How long an event waits for a request.
const WAIT_MS: u64 = 30_000;

/// The events, in the order of their arrival here.
#[derive(Debug, Default)]
pub(crate) struct EarlyEvents {
    events: VecDeque<QoeEvent>,
    by_viewer: HashMap<u64, u32>,
}

impl EarlyEvents {
    /// Adds an event. Returns how many events are lost for it.
    pub(crate) fn push(&mut self, event: QoeEvent) -> u64 {
        let of_viewer = self.by_viewer.entry(event.viewer).or_default();
        if *of_viewer >= EARLY_OF_VIEWER_MAX {
            return 1;
        }
        *of_viewer += 1;
        self.events.push_back(event);
        if self.events.len() <= EARLY_MAX {
            return 0;
        }
        if let Some(oldest) = self.events.pop_front() {
            self.forget(&oldest);
        }
        1
    }

    /// Removes the events that count now, and those that have waited too long. Returns the first, and the number of the others.
    pub(crate) fn take(
        &mut self,
        now_ms: u64,
        counts: impl Fn(&QoeEvent) -> bool,
    ) -> (Vec<QoeEvent>, u64) {
        let (mut ready, mut lost) = (Vec::new(), 0);
        for event in std::mem::take(&mut self.events) {
            if counts(&event) {
                self.forget(&event);
                ready.push(event);
            } else if event.at_ms() + WAIT_MS <= now_ms {
                self.forget(&event);
                lost += 1;
            } else {
                self.events.push_back(event);
            }
        }
        (ready, lost)
    }

    fn forget(&mut self, event: &QoeEvent) {
        if let Some(of_viewer) = self.by_viewer.get_mut(&event.viewer) {
            *of_viewer -= 1;
            if *of_viewer == 0 {
                self.by_viewer.remove(&event.viewer);
            }
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cmcd, CmcdEvents, Collector, QoeReport};

    fn event(at_ms: u64, viewer: u64) -> QoeEvent {
        let (timestamp_ms, is_error, state, start_delay_ms) = (1, false, None, None);
        let (at_us, session) = (at_ms * 1000, at_ms);
        QoeEvent { at_us, session, viewer, timestamp_ms, is_error, state, start_delay_ms }
    }

    /// Invented events of one second: in 20 s more than any list holds.
    const FLOOD: u64 = 5000;

    #[test]
    fn a_network_has_a_part_and_the_oldest_go_first() {
        let mut early = EarlyEvents::default();
        let lost: u64 = (0..1000).map(|at_ms| early.push(event(at_ms, 7))).sum();
        assert_eq!((early.len(), lost), (EARLY_OF_VIEWER_MAX as usize, 744));
        assert_eq!(
            (0..5000).map(|viewer| early.push(event(2000, 100 + viewer))).sum::<u64>(),
            1160
        );
        assert_eq!((early.len(), early.by_viewer.len()), (EARLY_MAX, EARLY_MAX));
        let (ready, lost) = early.take(2001, |event| event.viewer == 5099);
        assert_eq!((ready.len(), lost), (1, 0));
        let (ready, lost) = early.take(2000 + WAIT_MS, |_| false);
        assert_eq!((ready.len(), lost, early.len()), (0, EARLY_MAX as u64 - 1, 0));
        assert!(early.by_viewer.is_empty());
    }

    fn report(at_ms: u64, session: u64, path: &str, text: &str) -> QoeReport {
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        QoeReport::new(at_ms * 1000, session, path.as_bytes(), &cmcd)
    }

    fn posted(at_ms: u64, session: u64, text: &str) -> QoeEvent {
        let line = format!("sid=\"x\",{text}");
        let read = CmcdEvents::read(line.as_bytes());
        QoeEvent::new(at_ms * 1000, session, 0, &read.events[0]).expect("it is of use")
    }

    #[test]
    fn events_of_invented_sessions_take_no_place_of_a_players() {
        let mut collector = Collector::default();
        collector.take(vec![report(0, 1, "a/m.m3u8", "ot=m,su")]);
        for second in 0..20 {
            let at_ms = second * 1000;
            let flood = (0..FLOOD).map(|index| event(at_ms, index % 1000));
            collector.take_events(flood.map(|one| QoeEvent { session: 99, ..one }).collect());
            let state = if second % 2 == 0 { 'p' } else { 'r' };
            let text = format!("e=ps,sta={state},ts={}", 1_790_000_000_000 + at_ms);
            collector.take_events(vec![posted(at_ms, 1, &text)]);
            collector.advance(at_ms);
        }
        collector.advance(100_000);
        let all = &collector.all;
        let counted = (collector.events_total, all.stalls_total, all.stalled_ms_total);
        assert_eq!(counted, (20, 10, 9000));
        assert_eq!(collector.events_lost_total, 20 * FLOOD);
    }

    #[test]
    fn events_from_another_network_than_the_requests_do_not_count() {
        let mut collector = Collector::default();
        let by = |viewer, at_ms| QoeReport { viewer, ..report(at_ms, 1, "a/1.m4s", "ot=v,d=2000") };
        let posts = |viewer, at_ms: u64, state: char| {
            let text = format!("e=ps,sta={state},ts={}", 1_790_000_000_000 + at_ms);
            vec![QoeEvent { viewer, ..posted(at_ms, 1, &text) }]
        };
        collector.take(vec![by(7, 0)]);
        collector.take_events(posts(7, 100, 'p'));
        collector.take_events(posts(8, 200, 'f'));
        collector.advance(10_000);
        assert_eq!(collector.events_total, 1);
        // The viewer's phone leaves its own network, and posts before it requests.
        collector.take_events(posts(9, 10_100, 'r'));
        collector.advance(13_000);
        collector.take(vec![by(9, 13_000)]);
        collector.take_events(posts(9, 14_100, 'p'));
        (20..40).for_each(|second| collector.advance(second * 1000));
        assert_eq!((collector.events_total, collector.events_lost_total), (3, 1));
        assert_eq!((collector.all.stalls_total, collector.all.stalled_ms_total), (1, 4000));
        collector.advance(400_000);
        assert_eq!(collector.all.failed_total, 0);
    }
}
