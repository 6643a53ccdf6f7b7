//! From the disk to the wire: requested bytes arrive late, in pieces or not at all, and are offered until they may be sent.

use std::cmp::Reverse;
use std::ops::Range;
use std::time::{Duration, Instant};

use fullbore_tcp::{Id, Withheld};

use super::{Contest, Host, Task};

impl Host {
    pub(super) fn ask_disk(
        &mut self,
        now: Instant,
        id: Id,
        range: Range<u64>,
        contests: &mut [Contest],
    ) {
        let number = self.number(id);
        let (written, _) = contests[number].referee.length(self.side);
        assert!(!range.is_empty() && range.end <= written, "wants {range:?} of {written}");
        self.note_wanted(number, &range);
        let middle = range.start + self.random.below(range.end - range.start);
        let is_split = self.supply.split.happens(&mut self.random) && middle > range.start;
        let cut = if is_split { middle } else { range.end };
        for (start, end) in [(range.start, cut), (cut, range.end)] {
            if start == end {
                continue;
            }
            let declined = self.supply.declined.happens(&mut self.random);
            let longest = self.supply.latency.as_nanos() as u64;
            let latency = Duration::from_nanos(self.random.below(longest + 1));
            let task = Task::Supply { number, range: (start, end), declined };
            if latency.is_zero() {
                self.do_task(now, task, contests);
            } else {
                self.at(now + latency, task);
            }
        }
    }

    /// Counts the requested bytes, and how many of them the caller already has or is reading.
    fn note_wanted(&mut self, number: usize, range: &Range<u64>) {
        let under_way = self.tasks.iter().filter_map(|Reverse((_, _, task))| match task {
            Task::Supply { number: of, range, .. } if *of == number => Some(range.0..range.1),
            _ => None,
        });
        let Some(session) = self.sessions.get(&number) else { return };
        let known = merged(under_way.chain(session.in_hand.iter().cloned()).collect());
        let twice = known
            .iter()
            .map(|known| known.end.min(range.end).saturating_sub(known.start.max(range.start)));
        self.wanted_bytes += range.end - range.start;
        self.wanted_twice_bytes += twice.sum::<u64>();
    }

    /// Offers the bytes in hand, until none of them may be sent.
    pub(super) fn offer_in_hand(&mut self, now: Instant, number: usize, contests: &mut [Contest]) {
        let only_when_told = self.supply.only_when_told;
        let Some(session) = self.live(number) else { return };
        if only_when_told && !session.is_worth_trying {
            return;
        }
        session.is_worth_trying = false;
        let id = session.id;
        let mut in_hand = merged(std::mem::take(&mut session.in_hand));
        let mut progress = true;
        while std::mem::take(&mut progress) {
            let mut kept = Vec::with_capacity(in_hand.len());
            for range in in_hand {
                let (left, sent) = self.offer(now, id, range, contests);
                progress |= sent;
                kept.extend(left);
            }
            in_hand = kept;
        }
        if let Some(session) = self.live(number) {
            session.in_hand = in_hand;
        }
    }

    /// Offers one range. Returns the rest of it, and whether any of it was sent.
    fn offer(
        &mut self,
        now: Instant,
        id: Id,
        range: Range<u64>,
        contests: &mut [Contest],
    ) -> (Vec<Range<u64>>, bool) {
        let (mut left, mut untried, mut sent) = (Vec::new(), vec![range], false);
        while let Some(range) = untried.pop() {
            let bytes = (range.end - range.start) as usize;
            let result = self.endpoint.transmit(now, id, range.start, bytes);
            let payload = result.as_ref().map(|transmit| &transmit.payload);
            self.say(now, id, || format!("{range:?} offered: {payload:?}"));
            match result {
                Ok(transmit) => {
                    let payload = transmit.payload.clone();
                    let is_in_hand = range.start <= payload.start && payload.end <= range.end;
                    assert!(is_in_hand && !payload.is_empty(), "{payload:?} out of {range:?}");
                    // The bytes before it may still be wanted.
                    let around = [payload.end..range.end, range.start..payload.start];
                    untried.extend(around.into_iter().filter(|part| !part.is_empty()));
                    sent = true;
                    self.emit(&transmit, contests);
                }
                Err(Withheld::NotNeeded | Withheld::Gone) => {}
                Err(Withheld::NotYet | Withheld::TooFew)
                    if self.supply.impatient.happens(&mut self.random) =>
                {
                    self.say(now, id, || format!("declined, since it may not leave: {range:?}"));
                    self.endpoint.decline(now, id, range);
                }
                Err(Withheld::NotYet | Withheld::TooFew | Withheld::OutOfOrder) => left.push(range),
            }
        }
        (left, sent)
    }
}

/// Joins neighbours.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
